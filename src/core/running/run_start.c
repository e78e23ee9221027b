/* SPDX-License-Identifier: MIT */
/* run_start.c: the start of a session's process.
 * Owns the environment, the start line, and what happens where there is no room for a process. Never ends a
 * process (run.c). */
#include "core/running/run_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "core/running/action.h"
#include "core/running/worker_retry.h"
#include "store/checkpoint.h"
#include "base/clock.h"
#include "core/recovery/restore.h"
#include "core/running/continuity.h"
#include "base/duration.h"
#include "base/crashpoint.h"
#include "policy/envelope.h"
#include "policy/output_check.h"
#include "base/log.h"
#include "process/launch.h"
#include "process/workdir.h"

#define START_AGAIN_US 1000000 /* retry after a shortage */
#define ALONE_FOR_US 5000 /* so long a look at a process's tree serves the next start: in the same turn */
#define INTENT_MAX 32768  /* of HCP_INTENT; the kernel allows 128 KiB for one variable */

/* Mostly its last session has ended in this turn, and then its tree was looked at. What it has started since
 * then is found when this session ends, as what it starts right after this look would be. */
static bool may_serve(const struct runner *r)
{
	return clock_boot_us() - r->alone_us < ALONE_FOR_US ? worker_lives(r->worker) :
							      worker_is_alone(r->worker);
}

static struct runner *find_idle(struct core *c, const struct capability *cap)
{
	struct runner *r, *tmp;

	DL_FOREACH_SAFE2(c->run.idle_runners, r, tmp, idle_next) {
		if (r->cap != cap)
			continue;
		if (may_serve(r))
			return r;
		runner_retire(
			r); /* it has other processes now, and would never be used again; or it has exited */
	}
	return NULL;
}

/* ---- the environment ---- */

struct env {
	char **list;
	size_t count, room;
};

static void env_take(struct env *e, char *text)
{
	if (e->count + 1 >= e->room) {
		e->room = e->room ? e->room * 2 : 32;
		e->list = xrealloc(e->list, e->room * sizeof *e->list);
	}
	e->list[e->count++] = text;
	e->list[e->count] = NULL;
}

static void env_add(struct env *e, const char *name, const char *value)
{
	struct buf b = {0};

	buf_add_text(&b, name);
	buf_add_text(&b, "=");
	buf_add_text(&b, value);
	buf_add(&b, "", 1);
	env_take(e, b.data);
}

static bool is_set_by(char **env, const char *var)
{
	size_t name = strcspn(var, "=") + 1;

	for (; env != NULL && *env != NULL; env++)
		if (strncmp(*env, var, name) == 0)
			return true;
	return false;
}

static bool is_below(const char *path, const char *dir)
{
	size_t size = strlen(dir);

	return path != NULL && strncmp(path, dir, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* A home directory of the worker's own, where the daemon's must not be used: another user's home; under
 * landlock = yes the only directory that it may write to, and under landlock = state the same where the home
 * is in the state directory. NULL: none. */
static const char *own_place(const struct core *c, const struct config_confine *f, const char *workdir)
{
	const char *home = f->home != NULL ? f->home : getenv("HOME");

	if (f->landlock == LANDLOCK_YES || (f->landlock == LANDLOCK_STATE && is_below(home, c->state_dir)))
		return workdir;
	return f->home;
}

/* Variables of the capability override inherited ones. */
static void env_base(struct env *e, const struct core *c, const struct capability *cap, const char *workdir)
{
	const struct config_confine *f = &cap->config->confine;
	const char *home = own_place(c, f, workdir);

	for (char **v = environ; *v != NULL; v++)
		if (worker_passes_on(*v) && !is_set_by(cap->config->env, *v) &&
			(home == NULL || strncmp(*v, "HOME=", 5) != 0))
			env_take(e, xstrdup(*v));
	if (home != NULL && !is_set_by(cap->config->env, "HOME="))
		env_add(e, "HOME", home);
	if (f->landlock == LANDLOCK_YES && !is_set_by(cap->config->env, "TMPDIR="))
		env_add(e, "TMPDIR", workdir);
	for (char **v = cap->config->env; v != NULL && *v != NULL; v++)
		env_take(e, xstrdup(*v));
	env_add(e, "HCP_INSTANCE", store_mark(c->store));
	env_add(e, "HCP_CAPABILITY", cap->name);
}

void run_free_env(char **env)
{
	for (char **v = env; *v != NULL; v++)
		free(*v);
	free(env);
}

char **run_make_env(const struct session *s, const struct capability *cap, const char *workdir)
{
	struct env e = {0};

	env_base(&e, s->core, cap, workdir);
	env_add(&e, "HCP_SESSION_ID", s->id);
	env_add(&e, "HCP_WORKDIR", workdir);
	return e.list;
}

/* The intent as a variable's value: cut at its limit, between characters, and at a NUL. */
static char *intent_of(const struct buf *task)
{
	struct jslice raw = jtext_member(task->data, task->size, "intent");
	char why[128], *text;
	json_t *v = raw.at != NULL ? jtext_parse(raw.at, raw.size, why, sizeof why) : NULL;
	const char *intent = v != NULL ? json_string_value(v) : "";

	text = xstrndup(intent, buf_utf8_cut(intent, strlen(intent), INTENT_MAX));
	json_decref(v);
	return text;
}

/* ---- the start ---- */

static void add_state(struct buf *b, const struct checkpoint *cp)
{
	buf_addf(b, "{\"checkpoint_id\":\"%s\",\"created_at\":", cp->id);
	buf_add_json(b, cp->created_at, strlen(cp->created_at));
	buf_add_text(b, ",\"step\":");
	buf_add(b, cp->step.data, cp->step.size);
	buf_add_text(b, ",\"state\":");
	buf_add(b, cp->state.data, cp->state.size);
	if (cp->state_version[0] != '\0') {
		buf_add_text(b, ",\"state_version\":");
		buf_add_json(b, cp->state_version, strlen(cp->state_version));
	}
	buf_add_text(b, "}");
}

static void add_rested(const struct session *s, struct buf *b)
{
	char rested[DURATION_TEXT_SIZE];

	duration_format(s->times.rested_us > 0 ? s->times.rested_us : 0, rested);
	buf_addf(b, ",\"rested\":\"%s\"", rested);
}

/* The data of a log event: the checkpoint that the session goes on from. */
static void describe_origin(const struct session *s, const struct checkpoint *cp, struct buf *b)
{
	buf_addf(b,
		"{\"level\":\"info\",\"message\":\"going on from checkpoint %s\",\"details\":{"
		"\"checkpoint_id\":\"%s\",\"created_at\":",
		cp->id, cp->id);
	buf_add_json(b, cp->created_at, strlen(cp->created_at));
	buf_add_text(b, ",\"step\":");
	buf_add(b, cp->step.data, cp->step.size);
	add_rested(s, b);
	buf_addf(b, ",\"attempt\":%lld}}", (long long)s->attempts.number);
}

/* The session's own latest checkpoint. 1, 0, -1 as checkpoint_find, or RESTORE_LATER. */
static int find_own(struct session *s, struct checkpoint *cp, const struct checkpoint **out)
{
	*out = s->checkpoint.restored != NULL ? s->checkpoint.restored : cp;
	if (s->checkpoint.restored != NULL)
		return s->checkpoint.restored->id[0] != '\0';
	return restore_find(s, RESTORE_START, cp);
}

/* The session's own latest checkpoint, where it goes on; else the one that its task names; else null. 0, -1,
 * or RESTORE_LATER. */
static int add_checkpoint(struct session *s, const struct buf *task, struct buf *b, struct buf *origin)
{
	struct checkpoint cp = {.damaged = 0};
	const struct checkpoint *from = &cp;
	int found = s->checkpoint.is_used ? find_own(s, &cp, &from) : 0;

	if (found == 0 && from->damaged > 0) { /* damaged since recovery checked it: a start may wait for room
						*/
		session_fail(s, "no_checkpoint", "internal_error", "daemon", NULL,
			"the session was to go on from its checkpoint, and all are damaged");
	} else if (found == 1) {
		describe_origin(s, from, origin);
	} else if (found == 0) {
		checkpoint_fini(&cp);
		found = continuity_find_checkpoint(s, task, &cp);
		from = cp.is_unverified && found == 1 ? s->checkpoint.restored : &cp;
	}
	if (found == 1)
		add_state(b, from);
	else
		buf_add_text(b, "null");
	checkpoint_fini(&cp);
	return found == 1 ? 0 : found;
}

static int write_start_line(
	struct session *s, const struct buf *task, const char *workdir, struct buf *b, struct buf *origin)
{
	char deadline[CLOCK_TEXT_SIZE];
	int rc;

	clock_format(s->times.deadline_us, deadline);
	buf_addf(b,
		"{\"type\":\"start\",\"protocol\":1,\"session_id\":\"%s\",\"attempt\":%lld,\"task\":", s->id,
		(long long)s->attempts.number);
	buf_add(b, task->data, task->size);
	buf_addf(b, ",\"risk_level\":\"%s\",\"safety_envelope\":", risk_names[s->risk]);
	buf_add_text(b, envelope_text(s->run.cap->envelope));
	buf_addf(b, ",\"deadline\":\"%s\",\"checkpoint\":", deadline);
	if ((rc = add_checkpoint(s, task, b, origin)) != 0)
		return rc;
	if (continuity_add(s, task, b) < 0 || continuity_add_recent(s, b) < 0)
		return -1;
	if (s->attempts.number > 1)
		add_rested(s, b);
	if (runner_is_reused(s->run.cap)) {
		buf_add_text(b, ",\"workdir\":");
		if (run_has_workdir(s))
			buf_add_json(b, workdir, strlen(workdir));
		else
			buf_add_text(b, "null");
	}
	buf_add_text(b, "}\n");
	return 0;
}

/* A new process for the session. NULL with a sentence, and errno where the system refused one. */
static struct runner *runner_new(
	struct session *s, const struct buf *task, const char *workdir, char *why, size_t why_size)
{
	struct core *c = s->core;
	struct runner *r = xcalloc(1, sizeof *r);
	struct worker_spec spec = {.argv = s->run.cap->config->command,
		.workdir = workdir,
		.owner = r,
		.mark = r->mark,
		.confine = &s->run.cap->config->confine,
		.has_stdin = s->run.cap->config->protocol == PROTOCOL_HCP};
	struct env e = {0};
	char text[32], home[4096], *intent;
	struct buf task_file = {0};
	int rc, error;

	if (!launch_has_descriptors()) {
		error = errno;
		snprintf(why, why_size, "no descriptors for its pipes: %s", strerror(error));
		free(r);
		errno = error;
		return NULL;
	}
	if (runner_is_reused(s->run.cap)) {
		id_make(r->id);
		if (workdir_make(c->state_dir, r->id, NULL, 0, home, sizeof home) < 0) {
			error = errno;
			snprintf(why, why_size, "the process's working directory cannot be made: %s",
				strerror(error));
			free(r);
			errno = error;
			return NULL;
		}
		spec.workdir = home;
		CRASH_POINT(run_home_made);
	}
	env_base(&e, c, s->run.cap, spec.workdir);
	if (runner_is_reused(s->run.cap)) {
		snprintf(r->mark, sizeof r->mark, "HCP_WORKER_ID=%s", r->id);
		env_add(&e, "HCP_WORKER_ID", r->id);
	} else {
		snprintf(r->mark, sizeof r->mark, "HCP_SESSION_ID=%s", s->id);
		env_add(&e, "HCP_SESSION_ID", s->id);
		intent = intent_of(task);
		env_add(&e, "HCP_INTENT", intent);
		free(intent);
		snprintf(text, sizeof text, "%lld", (long long)s->attempts.number);
		env_add(&e, "HCP_ATTEMPT", text);
		env_add(&e, "HCP_WORKDIR", workdir);
		buf_addf(&task_file, "%s/task.json", workdir);
		env_add(&e, "HCP_TASK", buf_text(&task_file));
		buf_fini(&task_file);
	}
	spec.env = e.list;
	rc = worker_start(c->workers, &spec, &r->worker, why, why_size);
	error = errno;
	run_free_env(e.list);
	if (rc < 0) {
		runner_drop_home(c, r);
		free(r);
		errno = error;
		return NULL;
	}
	r->core = c;
	r->pid = worker_pid(r->worker);
	r->cap = s->run.cap;
	r->policy = policy_ref(s->run.policy);
	DL_APPEND(c->run.runners, r);
	return r;
}

void run_retry_start(struct timer *t)
{
	effect_start(container_of(t, struct session, run.start_retry));
}

/* An abort, a pause or a stop before then finds the session as it finds one that waits for room. */
void run_start_later(struct session *s)
{
	timer_set(&s->core->timers, &s->run.start_retry, clock_boot_us());
}

enum run_shortage run_find_shortage(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT: return SHORT_OF_DISK;
	case EMFILE:
	case ENFILE:
	case EAGAIN: return SHORT_OF_MEANS;
	default: return SHORT_OF_NOTHING;
	}
}

/* A shortage passes, and failing days of work for it would be a loss. The session stays RUNNING without a
 * process: its deadline counts, an abort ends it, and the start is tried again every second. */
static bool waits_for_room(struct session *s, const char *why)
{
	enum run_shortage shortage = run_find_shortage(errno);

	if (shortage == SHORT_OF_NOTHING)
		return false;
	if (shortage == SHORT_OF_MEANS)
		run_retire_idle(s->core); /* idle workers hold descriptors and processes */
	if (log_may(&s->core->limits.room, 3))
		log_error("no worker is started until %s, tried again every second: session=%.8s error=%s",
			shortage == SHORT_OF_DISK ? "the disk has room" :
						    "there are descriptors and processes again",
			s->id, why);
	timer_set(&s->core->timers, &s->run.start_retry, clock_boot_us() + START_AGAIN_US);
	return true;
}

static void start_failed(struct session *s, const char *why)
{
	session_fail(s, "worker_failed", errno == ENOMEM ? "resource_unavailable" : "execution_error",
		"daemon", NULL, "%s", why);
	run_stop_or_finish(s);
}

static bool has_to_start(struct session *s)
{
	if (s->turn.is_closed || s->run.runner != NULL || s->state != S_RUNNING)
		return false;
	if (restore_is_under_way(s) && !s->core->phase.is_stopping)
		return false; /* it brings another start */
	if (session_has_outcome(s)) {
		run_stop_or_finish(s);
		return false;
	}
	if (s->core->phase.is_stopping) {
		session_transition(s, S_PAUSED, "stopping", "daemon");
		s->pause.by = PAUSED_BY_STOP;
		restore_drop(s);
		slots_leave(s->core, s);
		return false;
	}
	return true;
}

/* Starts nothing on a task that differs from the accepted one. */
static bool is_sealed(struct session *s, struct buf *task)
{
	const char *fault = session_verify_task(s, task);

	if (fault == NULL)
		return true;
	log_error(
		"ALARM: a sealed intent was changed, nothing is started: session=%.8s why=%s", s->id, fault);
	session_fail(s, "intent_changed", "internal_error", "daemon", NULL, "the sealed intent is broken: %s",
		fault);
	run_stop_or_finish(s);
	return false;
}

/* Makes the check that the outputs must pass. */
static bool has_expectation(struct session *s, const struct buf *task)
{
	struct jslice raw = jtext_member(task->data, task->size, "expected_output");
	char why[512] = "";
	json_t *expected = raw.at != NULL ? jtext_parse(raw.at, raw.size, why, sizeof why) : NULL;

	if (s->run.output_check == NULL)
		s->run.output_check = output_check_new(expected, why, sizeof why);
	json_decref(expected);
	if (s->run.output_check != NULL)
		return true;
	/* An older version of the daemon accepted it without this check. */
	session_fail(s, "worker_failed", "input_error", "daemon", NULL,
		"expected_output.schema cannot be used: %s", why);
	run_stop_or_finish(s);
	return false;
}

/* The session's working directory, where it has one. -1 with errno. */
static int make_workdir(struct session *s, const struct buf *task, char *workdir, size_t workdir_size)
{
	const void *file = runner_is_reused(s->run.cap) ? NULL : task->data;

	workdir[0] = '\0';
	if (!run_has_workdir(s)) {
		if (s->attempts.number == 1 && s->run.directory == DIRECTORY_UNKNOWN)
			s->run.directory = DIRECTORY_NONE;
		return 0;
	}
	s->run.directory = DIRECTORY_MADE;
	return workdir_make(s->core->state_dir, s->id, file, task->size, workdir, workdir_size);
}

/* Reads the task and makes the directory and the start line. False: that failed, and what follows is decided.
 */
static bool prepare(struct session *s, struct buf *task, struct buf *line, struct buf *origin, char *workdir,
	size_t workdir_size)
{
	struct core *c = s->core;
	char why[512];
	int found = store_load_task(c->store, s->key, task);

	if (found == 0 || (found < 0 && store_is_damaged(c->store))) {
		session_fail(s, "worker_failed", "internal_error", "daemon", NULL, "the task %s",
			found == 0 ? "is not in the store" : "cannot be read: the store is damaged");
		run_stop_or_finish(s);
		return false;
	}
	if (found > 0 && (!is_sealed(s, task) || !has_expectation(s, task)))
		return false;
	if (make_workdir(s, task, workdir, workdir_size) < 0) {
		int error = errno;

		snprintf(why, sizeof why, "the working directory cannot be made: %s", strerror(error));
		errno = error;
		if (!waits_for_room(s, why)) {
			errno = ENOMEM;
			start_failed(s, why);
		}
		return false;
	}
	if (found > 0)
		found = write_start_line(s, task, workdir, line, origin) < 0 ? -1 : 1;
	if (found < 0) {
		effect_start(s); /* tried again when the store can be read */
		core_suspend(c);
		return false;
	}
	if (restore_is_under_way(s))
		return false;         /* it brings another start */
	if (session_has_outcome(s)) { /* the checkpoint that its task names is gone */
		run_stop_or_finish(s);
		return false;
	}
	return true;
}

/* Clears what the session's previous process left in memory. */
static void forget_last(struct session *s)
{
	s->run.exit_status = -1;
	s->run.stdout_closed = s->run.is_unread = s->checkpoint.is_saved = s->run.text_cut = false;
	s->pause.replies_pending = 0;
	restore_drop(s);
	checkpoint_request_begin(s);
	timer_cancel(&s->core->timers, &s->run.mute);
	buf_clear(&s->run.text_output);
	buf_clear(&s->run.stderr_tail);
}

void run_start(struct session *s)
{
	struct core *c = s->core;
	char why[512], workdir[4096];
	struct buf task = {0}, line = {0}, origin = {0};
	struct runner *r;

	if (!has_to_start(s))
		return;
	if (s->run.policy == NULL)
		s->run.policy = policy_ref(c->policy);
	if ((s->run.cap = policy_find(s->run.policy, s->capability)) == NULL) {
		session_fail(s, "worker_failed", "internal_error", "daemon", NULL,
			"capability %s is no longer in the configuration", s->capability);
		run_stop_or_finish(s);
		return;
	}
	if (!prepare(s, &task, &line, &origin, workdir, sizeof workdir))
		goto out;
	CRASH_POINT(run_prepared);
	r = runner_is_reused(s->run.cap) ? find_idle(c, s->run.cap) : NULL;
	if (r == NULL && (r = runner_new(s, &task, workdir, why, sizeof why)) == NULL) {
		if (!waits_for_room(s, why))
			start_failed(s, why);
		goto out;
	}
	CRASH_POINT(run_has_runner);
	action_forget(s);
	runner_set_idle(r, false);
	r->session = s;
	s->run.runner = r;
	forget_last(s);
	worker_retry_begin(s);
	run_set_clocks(s);
	run_check_backlog(s);
	if (s->run.cap->config->protocol == PROTOCOL_HCP)
		worker_write(r->worker, line.data, line.size);
	CRASH_POINT(run_started);
	if (origin.size > 0)
		session_event(s, "log", origin.data, origin.size);
	log_debug("worker started: session=%.8s pid=%d attempt=%lld", s->id, r->pid,
		(long long)s->attempts.number);
	if (s->data_class >= T2)
		log_info(
			"access to data: class=%s session=%.8s caller=%s capability=%s by=worker "
			"attempt=%lld",
			data_class_names[s->data_class], s->id, s->caller_id, s->capability,
			(long long)s->attempts.number);
out:
	buf_fini(&task);
	buf_fini(&line);
	buf_fini(&origin);
}
