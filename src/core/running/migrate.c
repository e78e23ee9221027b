/* SPDX-License-Identifier: MIT */
/* migrate.c: the program of a migration: its question, its answer, its end.
 * Owns the process and its time limit. Never decides whether a state has to be migrated, nor what follows
 * (recover.c). */
#include "core/running/migrate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <utlist.h>

#include "json/canonical.h"
#include "store/checkpoint.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "store/state_compress.h"
#include "core/recovery/recover.h"
#include "core/running/run.h"
#include "core/running/harp_events.h"
#include "process/workdir.h"

#define LIMIT_US INT64_C(60000000)
#define ROOM_AGAIN_US 1000000 /* retry after a full disk */
#define STDERR_KEPT 2048
#define VERSION_SIZE 64

struct migration {
	struct migration *prev, *next; /* in core->run.migrations */
	struct session *session;       /* NULL: the migration is over */
	struct core *core;
	struct policy *policy;
	const struct capability *cap;
	struct worker *worker;             /* NULL: not started yet */
	struct timer timer;                /* its start, then its limit; due at once when it is stopped */
	struct buf question, answer, said; /* said: the end of the program's stderr */
	struct buf step;
	char from[VERSION_SIZE], checkpoint_id[ID_SIZE], mark[ID_SIZE + 24];
	int status;                                   /* a wait(2) status, -1: not yet */
	unsigned lines;                               /* of the program's answer: exactly one is right */
	bool is_cut;                                  /* a line was longer than allowed */
	bool is_stopped, is_heeded, is_late, is_gone; /* heeded: the cause of the stop is committed */
};

/* ---- the result ---- */

static void fail(struct session *s, const struct migration *m, const char *why)
{
	struct buf details = {0};

	buf_addf(&details, "\"check\":\"state_version\",\"checkpoint\":\"%s\",\"stderr\":", m->checkpoint_id);
	buf_add_json(&details, m->said.data, m->said.size);
	session_fail(s, "migration_failed", "internal_error", "daemon", buf_text(&details),
		"the state of version %s could not be brought to %s: %s", m->from,
		m->cap->config->state_version, why);
	CRASH_POINT(migrate_failed);
	session_finish(s);
	buf_fini(&details);
}

/* NULL: the answer can be stored, and hash has its hash; else what is wrong. */
static const char *find_fault(const struct migration *m, char hash[CANONICAL_HASH_SIZE])
{
	char why[128];
	json_t *value;

	if (m->is_late)
		return "its program took longer than 60 s";
	if (m->worker == NULL)
		return "its program cannot be started";
	if (m->status == -1 || !WIFEXITED(m->status) || WEXITSTATUS(m->status) != 0)
		return "its program failed";
	if (m->is_cut)
		return "its program's answer is longer than a line may be";
	if (m->lines != 1)
		return m->lines == 0 ? "its program answered nothing" :
				       "its program answered more than one line";
	if ((int64_t)m->answer.size > m->core->policy->config->max_checkpoint)
		return "the new state is over the limit for checkpoints";
	if (jtext_depth(m->answer.data, m->answer.size) > (size_t)m->core->policy->config->max_depth)
		return "the new state nests too deep";
	value = jtext_parse(m->answer.data, m->answer.size, why, sizeof why);
	if (!json_is_object(value)) {
		json_decref(value);
		return "its program's answer is no JSON object";
	}
	canonical_hash(value, hash);
	json_decref(value);
	return NULL;
}

static void keep(struct session *s, const struct migration *m, const char *hash)
{
	bool has_step = m->step.size > 0 && strcmp(m->step.data, "null") != 0;
	char at[CLOCK_TEXT_SIZE], description[160];
	struct store_checkpoint cp = {.session = s->key,
		.session_id = s->id,
		.created_at = at,
		.description = description,
		.step = has_step ? m->step.data : NULL,
		.resumable = true,
		.sha256 = hash,
		.trigger = "migrate",
		.whole_size = (int64_t)m->answer.size,
		.state_version = m->cap->config->state_version,
		.seal = s->intent.seal[0] != '\0' ? s->intent.seal : NULL};
	struct buf b = {0}, bytes = {0};

	cp.encoding = state_encoding_names[state_compress(m->answer.data, m->answer.size, NULL, 0, &bytes)];
	cp.state = bytes.data;
	cp.state_size = bytes.size;
	clock_format(clock_wall_us(), at);
	id_make(cp.checkpoint_id);
	snprintf(description, sizeof description, "migrated from version %s to %.64s", m->from,
		m->cap->config->state_version);
	store_put_checkpoint(s->core->store, &cp);
	CRASH_POINT(migrate_stored);
	s->summary.checkpoints++;
	memcpy(s->checkpoint.last_id, cp.checkpoint_id, ID_SIZE);
	session_mark_dirty(s);
	buf_addf(&b, "{\"checkpoint_id\":\"%s\",\"description\":", cp.checkpoint_id);
	buf_add_json(&b, description,
		strlen(description)); /* the version is the worker's text: it may need escapes */
	buf_addf(&b, ",\"resumable\":true,\"created_at\":\"%s\"}", at);
	session_event(s, "checkpoint_created", b.data, b.size);
	harp_events_checkpoint(s, &cp);
	buf_fini(&b);
	buf_fini(&bytes);
}

/* The program is gone, or was never started. */
static void conclude(struct migration *m)
{
	struct session *s = m->session;
	char hash[CANONICAL_HASH_SIZE];
	const char *fault;

	m->session = NULL;
	m->is_gone = true;
	m->core->run.runner_is_gone = true;
	s->run.migration = NULL;
	if (session_has_outcome(s)) {
		session_finish(s);
		return;
	}
	if (m->is_stopped) {
		slots_leave(s->core,
			s); /* PAUSED as before: the next run of the daemon begins the migration again */
		return;
	}
	/* after a reload everything is checked again, from the beginning */
	if (m->policy != s->core->policy) {
		slots_leave(s->core, s);
		slots_wait(s->core, s);
		return;
	}
	if ((fault = find_fault(m, hash)) != NULL) {
		fail(s, m, fault);
		return;
	}
	keep(s, m, hash);
	log_info("a state was migrated: session=%.8s from=%s to=%s", s->id, m->from,
		m->cap->config->state_version);
	recover_resume(s, "recovered_from_checkpoint", true);
}

/* ---- the program ---- */

static void on_line(
	struct worker *w, enum worker_stream stream, const char *line, size_t size, enum line_kind kind)
{
	struct migration *m = worker_owner(w);

	if (stream == WORKER_STDERR) {
		buf_add(&m->said, line, size);
		buf_add_text(&m->said, "\n");
		if (m->said.size > STDERR_KEPT)
			buf_drop(&m->said, m->said.size - STDERR_KEPT);
	} else if (kind == LINE_TOO_LONG) {
		m->is_cut = true;
	} else if (size > 0 && m->lines++ == 0) { /* empty lines do not count, as with a worker */
		jtext_add_minified(&m->answer, line, size);
	}
}

static void on_eof(struct worker *w, enum worker_stream stream)
{
	(void)w, (void)stream; /* the exit status decides */
}

static void on_exit_status(struct worker *w, int status)
{
	struct migration *m = worker_owner(w);
	int64_t now = clock_boot_us();

	m->status = status;
	worker_end(w, now, now); /* its whole process group ends with it */
}

static void on_gone(struct worker *w)
{
	struct migration *m = worker_owner(w);

	timer_cancel(&m->core->timers, &m->timer);
	conclude(m);
}

static void on_stuck(struct worker *w, int pid)
{
	const struct migration *m = worker_owner(w);

	log_error("ALARM: a migration's program does not die of SIGKILL: session=%.8s pid=%d",
		m->session != NULL ? m->session->id : "-", pid);
}

static const struct worker_ops ops = {.on_line = on_line,
	.on_eof = on_eof,
	.on_exit = on_exit_status,
	.on_gone = on_gone,
	.on_stuck = on_stuck};

/* A full disk is a passing fault, as in run_start.c: the start is tried again. */
static void wait_for_room(struct migration *m, const char *why)
{
	m->worker = NULL;
	if (log_may(&m->core->limits.room, 3))
		log_error(
			"no state is migrated until the disk has room, tried again every second: "
			"session=%.8s error=%s",
			m->session->id, why);
	timer_set(&m->core->timers, &m->timer, clock_boot_us() + ROOM_AGAIN_US);
}

static void start(struct migration *m)
{
	struct session *s = m->session;
	char why[512], workdir[4096];
	struct worker_spec spec = {.argv = m->cap->config->migrate,
		.workdir = workdir,
		.has_stdin = true,
		.mark = m->mark,
		.confine = &m->cap->config->confine,
		.owner = m,
		.ops = &ops};
	char **env;
	int rc, error;

	if (workdir_make(m->core->state_dir, s->id, NULL, 0, workdir, sizeof workdir) < 0) {
		error = errno;
		snprintf(why, sizeof why, "the working directory cannot be made: %s", strerror(error));
		rc = -1;
	} else {
		env = run_make_env(s, m->cap, workdir);
		spec.env = env;
		rc = worker_start(m->core->workers, &spec, &m->worker, why, sizeof why);
		error = errno;
		run_free_env(env);
	}
	if (rc < 0 && (error == ENOSPC || error == EDQUOT)) {
		wait_for_room(m, why);
		return;
	}
	if (rc < 0) {
		buf_add_text(&m->said, why);
		m->worker = NULL;
		conclude(m);
		return;
	}
	CRASH_POINT(migrate_started);
	worker_write(m->worker, m->question.data, m->question.size);
	worker_close_stdin(m->worker);
	timer_set(&m->core->timers, &m->timer, clock_boot_us() + LIMIT_US);
}

static void on_due(struct timer *t)
{
	struct migration *m = container_of(t, struct migration, timer);
	int64_t now = clock_boot_us();

	if (m->is_gone)
		return;
	if (m->worker == NULL && !m->is_stopped) {
		start(m);
	} else if (m->worker == NULL) {
		conclude(m);
	} else {
		m->is_late = !m->is_stopped;
		worker_end(m->worker, now, now);
	}
}

/* ---- lifecycle ---- */

void migrate_begin(struct session *s, const struct checkpoint *cp)
{
	struct core *c = s->core;
	struct migration *m = xcalloc(1, sizeof *m);

	m->session = s;
	m->core = c;
	m->policy = policy_ref(c->policy);
	m->cap = policy_find(m->policy, s->capability);
	m->status = -1;
	m->timer.on_due = on_due;
	memcpy(m->checkpoint_id, cp->id, ID_SIZE);
	snprintf(m->from, sizeof m->from, "%s", cp->state_version);
	snprintf(m->mark, sizeof m->mark, "HCP_SESSION_ID=%s", s->id);
	buf_add(&m->step, cp->step.data, cp->step.size);
	(void)buf_text(&m->step);
	buf_add_text(&m->question, "{\"from\":");
	buf_add_json(&m->question, m->from, strlen(m->from));
	buf_addf(&m->question, ",\"to\":\"%s\",\"state\":", m->cap->config->state_version);
	buf_add(&m->question, cp->state.data, cp->state.size);
	buf_add_text(&m->question, "}\n");
	DL_APPEND(c->run.migrations, m);
	s->run.migration = m;
	slots_take(c, s);
	run_set_clocks(s);
	timer_set(&c->timers, &m->timer, clock_boot_us());
	log_info("a state is migrated: session=%.8s checkpoint=%s from=%s to=%s", s->id, cp->id, m->from,
		m->cap->config->state_version);
}

bool migrate_stop(struct session *s)
{
	struct migration *m = s->run.migration;

	if (m == NULL)
		return false;
	m->is_stopped = true;
	CRASH_POINT(migrate_stopping);
	timer_cancel(&s->core->timers, &m->timer);
	/* migrate_sweep ends the program: this turn is not committed, and timers may still run in it */
	s->core->run.runner_is_gone = true;
	return true;
}

bool migrate_has_processes(const struct core *c)
{
	return c->run.migrations != NULL;
}

static void migration_free(struct migration *m)
{
	DL_DELETE(m->core->run.migrations, m);
	timer_cancel(&m->core->timers, &m->timer);
	policy_unref(m->policy);
	buf_fini(&m->question);
	buf_fini(&m->answer);
	buf_fini(&m->said);
	buf_fini(&m->step);
	free(m);
}

void migrate_sweep(struct core *c)
{
	struct migration *m, *tmp;

	DL_FOREACH_SAFE(c->run.migrations, m, tmp)
		if (m->is_gone) {
			if (m->worker != NULL)
				worker_free(m->worker);
			migration_free(m);
		} else if (m->is_stopped && !m->is_heeded) {
			m->is_heeded = true;
			timer_set(&c->timers, &m->timer, clock_boot_us());
		}
}

void migrate_fini_all(struct core *c)
{
	struct migration *m, *tmp;

	DL_FOREACH_SAFE(c->run.migrations, m, tmp)
		migration_free(m);
}
