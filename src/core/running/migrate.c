/* SPDX-License-Identifier: MIT */
/* migrate.c: the program of a migration: its question, its answer (a large one is packed on another thread),
 * its end. Owns the process and its time limit. Never decides whether a state has to be migrated, nor what
 * follows (recover.c). */
#include "core/running/migrate.h"

#include "config/state_version.h"
#include "policy/state_check.h"

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
#include "base/jobs.h"
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
	char *const *command;              /* of the step, as its ... */
	const char *to;                    /* ... target is */
	struct worker *worker;             /* NULL: not started yet */
	struct timer timer;                /* its start, then its limit; due at once when it is stopped */
	struct buf question, answer, said; /* said: the end of the program's stderr */
	struct buf step;
	char from[VERSION_SIZE], checkpoint_id[ID_SIZE], mark[ID_SIZE + 24];
	int status;                                   /* a wait(2) status, -1: not yet */
	unsigned lines;                               /* of the program's answer: exactly one is right */
	bool is_cut;                                  /* a line was longer than allowed */
	bool is_stopped, is_heeded, is_late, is_gone; /* heeded: the cause of the stop is committed */
	struct job job;                               /* packs a large answer, when the program is gone */
	bool is_packing;
	int64_t max_state;
	int max_depth;
	const char *fault; /* of the answer; NULL: it can be stored, as `bytes` */
	char hash[CANONICAL_HASH_SIZE];
	struct buf bytes;
	enum state_encoding encoding;
};

/* ---- the result ---- */

static void fail(struct session *s, const struct migration *m, const char *why)
{
	struct buf details = {0};

	buf_addf(&details, "\"check\":\"state_version\",\"checkpoint\":\"%s\",\"stderr\":", m->checkpoint_id);
	buf_add_json(&details, m->said.data, m->said.size);
	session_fail(s, "migration_failed", "internal_error", "daemon", buf_text(&details),
		"the state of version %s could not be brought to %s: %s", m->from, m->to, why);
	CRASH_POINT(migrate_failed);
	session_finish(s);
	buf_fini(&details);
}

/* NULL: the program did its part; else what is wrong. */
static const char *find_fault(const struct migration *m)
{
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
	return NULL;
}

/* Pure, but for *m. NULL: the answer can be stored; else what is wrong. */
static const char *pack(struct migration *m)
{
	char why[128];
	json_t *value;

	if ((int64_t)m->answer.size > m->max_state)
		return "the new state is over the limit for checkpoints";
	if (jtext_depth(m->answer.data, m->answer.size) > (size_t)m->max_depth)
		return "the new state nests too deep";
	value = jtext_parse(m->answer.data, m->answer.size, why, sizeof why);
	if (!json_is_object(value)) {
		json_decref(value);
		return "its program's answer is no JSON object";
	}
	canonical_hash(value, m->hash);
	json_decref(value);
	if (state_version_is_read(m->to, m->cap->config->state_version) &&
		!state_check_fits(m->cap, m->answer.data, m->answer.size, why, sizeof why))
		return "the new state does not fit the capability's state_schema";
	m->encoding = state_compress(m->answer.data, m->answer.size, NULL, 0, &m->bytes);
	return NULL;
}

static void keep(struct session *s, const struct migration *m)
{
	bool has_step = m->step.size > 0 && strcmp(m->step.data, "null") != 0;
	char at[CLOCK_TEXT_SIZE], description[160];
	struct store_checkpoint cp = {.session = s->key,
		.session_id = s->id,
		.created_at = at,
		.description = description,
		.step = has_step ? m->step.data : NULL,
		.resumable = true,
		.sha256 = m->hash,
		.encoding = state_encoding_names[m->encoding],
		.state = m->bytes.data,
		.state_size = m->bytes.size,
		.trigger = "migrate",
		.whole_size = (int64_t)m->answer.size,
		.state_version = m->to,
		.seal = s->intent.seal[0] != '\0' ? s->intent.seal : NULL};
	struct buf b = {0};

	clock_format(clock_wall_us(), at);
	id_make(cp.checkpoint_id);
	snprintf(description, sizeof description, "migrated from version %s to %.64s", m->from, m->to);
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
}

/* The next step begins with the state that this one made. After a crash it begins with the checkpoint of it.
 */
static void go_on_migrating(struct session *s, const struct migration *m)
{
	struct checkpoint cp = {.step = m->step, .state = m->answer}; /* borrowed */

	memcpy(cp.id, s->checkpoint.last_id, ID_SIZE);
	snprintf(cp.state_version, sizeof cp.state_version, "%s", m->to);
	CRASH_POINT(migrate_goes_on);
	if (!migrate_begin(s, &cp))
		fail(s, m, "no further step leads to the version that is wanted");
}

/* The program is gone, or was never started, and the answer is packed, if there is one. */
static void finish(struct migration *m)
{
	struct session *s = m->session;

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
	if (m->fault != NULL) {
		fail(s, m, m->fault);
		return;
	}
	keep(s, m);
	log_info("a state was migrated: session=%.8s from=%s to=%s", s->id, m->from, m->to);
	if (state_version_is_read(m->to, m->cap->config->state_version))
		recover_resume(s, "recovered_from_checkpoint", true);
	else
		go_on_migrating(s, m);
}

static void pack_work(struct job *j)
{
	struct migration *m = container_of(j, struct migration, job);

	m->fault = pack(m);
}

static void pack_done(struct job *j)
{
	struct migration *m = container_of(j, struct migration, job);

	m->is_packing = false;
	finish(m);
}

/* migrate_fini_all frees it. */
static void pack_drop(struct job *j)
{
	container_of(j, struct migration, job)->is_packing = false;
}

/* The program is gone, or was never started. */
static void conclude(struct migration *m)
{
	struct core *c = m->core;

	m->max_state = c->policy->config->max_checkpoint;
	m->max_depth = c->policy->config->max_depth;
	m->job = (struct job){.work = pack_work, .done = pack_done, .drop = pack_drop};
	m->fault = find_fault(m);
	if (m->fault == NULL && c->jobs != NULL && m->answer.size > c->large_bytes) {
		m->is_packing = true;
		jobs_put(c->jobs, &m->job);
		return;
	}
	if (m->fault == NULL)
		m->fault = pack(m);
	finish(m);
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

/* A shortage passes, as in run_start.c: the start is tried again. */
static void wait_for_room(struct migration *m, enum run_shortage shortage, const char *why)
{
	m->worker = NULL;
	if (log_may(&m->core->limits.room, 3))
		log_error("no state is migrated until %s, tried again every second: session=%.8s error=%s",
			shortage == SHORT_OF_DISK ? "the disk has room" :
						    "there are descriptors and processes again",
			m->session->id, why);
	timer_set(&m->core->timers, &m->timer, clock_boot_us() + ROOM_AGAIN_US);
}

static void start(struct migration *m)
{
	struct session *s = m->session;
	char why[512], workdir[4096];
	struct worker_spec spec = {.argv = m->command,
		.workdir = workdir,
		.has_stdin = true,
		.mark = m->mark,
		.confine = &m->cap->config->confine,
		.owner = m,
		.ops = &ops};
	char **env;
	int rc, error;

	s->run.directory = DIRECTORY_MADE;
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
	if (rc < 0 && run_find_shortage(error) != SHORT_OF_NOTHING) {
		wait_for_room(m, run_find_shortage(error), why);
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

	if (m->is_gone || m->is_packing)
		return; /* pack_done ends it */
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

/* The command of the step from this version, and its target in *to: a single step where a way of them leads
 * on, else the command for all versions. NULL: none. */
static char *const *find_command(const struct config_capability *cc, const char *from, const char **to)
{
	const struct config_migration *step = state_version_find_step(cc, from);

	*to = step != NULL ? step->to : cc->state_version;
	return step != NULL ? step->command : cc->migrate;
}

bool migrate_begin(struct session *s, const struct checkpoint *cp)
{
	struct core *c = s->core;
	const struct capability *cap = policy_find(c->policy, s->capability);
	const char *to;
	char *const *command = find_command(cap->config, cp->state_version, &to);
	struct migration *m;

	if (command == NULL)
		return false;
	m = xcalloc(1, sizeof *m);
	m->session = s;
	m->core = c;
	m->policy = policy_ref(c->policy);
	m->cap = cap;
	m->command = command;
	m->to = to;
	m->status = -1;
	m->timer.on_due = on_due;
	memcpy(m->checkpoint_id, cp->id, ID_SIZE);
	snprintf(m->from, sizeof m->from, "%s", cp->state_version);
	snprintf(m->mark, sizeof m->mark, "HCP_SESSION_ID=%s", s->id);
	buf_add(&m->step, cp->step.data, cp->step.size);
	(void)buf_text(&m->step);
	buf_add_text(&m->question, "{\"from\":");
	buf_add_json(&m->question, m->from, strlen(m->from));
	buf_addf(&m->question, ",\"to\":\"%s\",\"state\":", m->to);
	buf_add(&m->question, cp->state.data, cp->state.size);
	buf_add_text(&m->question, "}\n");
	DL_APPEND(c->run.migrations, m);
	s->run.migration = m;
	slots_take(c, s);
	run_set_clocks(s);
	timer_set(&c->timers, &m->timer, clock_boot_us());
	log_info("a state is migrated: session=%.8s checkpoint=%s from=%s to=%s", s->id, cp->id, m->from,
		m->to);
	return true;
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
	buf_fini(&m->bytes);
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
