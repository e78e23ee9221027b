/* run_start.c: how a session's process begins.
 * Owns the environment, the start line, and what happens where there is no room for a process.
 * Never ends one (run.c). */
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
#include "core/running/continuity.h"
#include "base/crashpoint.h"
#include "policy/envelope.h"
#include "policy/output_check.h"
#include "base/log.h"

#define START_AGAIN_US 1000000 /* where the disk was full */
#define INTENT_MAX 32768       /* of HCP_INTENT; the kernel allows 128 KiB for one variable */

static struct host *find_idle(struct core *c, const struct capability *cap)
{
	struct host *h, *tmp;

	DL_FOREACH_SAFE2(c->idle_hosts, h, tmp, idle_next) {
		if (h->cap != cap)
			continue;
		if (worker_is_alone(h->worker))
			return h;
		host_retire(h); /* it has got company since: it would be passed over for ever */
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

/* Places of the worker's own, where those of the daemon are not to be used: another user's home, and under
 * Landlock the only directory that it may write to. NULL: none. */
static const char *own_place(const struct config_confine *f, const char *workdir)
{
	return f->landlock ? workdir : f->home;
}

/* What the capability sets wins over what is passed on. */
static void env_base(struct env *e, const struct core *c, const struct capability *cap, const char *workdir)
{
	const struct config_confine *f = &cap->config->confine;
	const char *home = own_place(f, workdir);

	for (char **v = environ; *v != NULL; v++)
		if (worker_passes_on(*v) && !is_set_by(cap->config->env, *v) &&
			(home == NULL || strncmp(*v, "HOME=", 5) != 0))
			env_take(e, xstrdup(*v));
	if (home != NULL && !is_set_by(cap->config->env, "HOME="))
		env_add(e, "HOME", home);
	if (f->landlock && !is_set_by(cap->config->env, "TMPDIR="))
		env_add(e, "TMPDIR", workdir);
	for (char **v = cap->config->env; v != NULL && *v != NULL; v++)
		env_take(e, xstrdup(*v));
	env_add(e, "HCP_INSTANCE", store_instance(c->store));
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

/* As text for a variable: cut at its limit, between characters, and at a NUL. */
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
	buf_addf(b, "{\"checkpoint_id\":\"%s\",\"step\":", cp->id);
	buf_add(b, cp->step.data, cp->step.size);
	buf_add_text(b, ",\"state\":");
	buf_add(b, cp->state.data, cp->state.size);
	if (cp->state_version[0] != '\0') {
		buf_add_text(b, ",\"state_version\":");
		buf_add_json(b, cp->state_version, strlen(cp->state_version));
	}
	buf_add_text(b, "}");
}

/* Its own latest one, where it goes on; else the one that its task names; else null. */
static int add_checkpoint(struct session *s, const struct buf *task, struct buf *b)
{
	struct checkpoint cp = {.damaged = 0};
	int found = s->from_checkpoint ? checkpoint_find(s->core->store, s->key, s->seal, &cp) : 0;

	if (found == 0 && cp.damaged > 0) { /* since it was looked at: a start may wait for room */
		session_fail(s, "no_checkpoint", "internal_error", "daemon", NULL,
			"the session was to go on from its checkpoint, and all are damaged");
	} else if (found == 0) {
		checkpoint_fini(&cp);
		found = continuity_find_checkpoint(s, task, &cp);
	}
	if (found > 0)
		add_state(b, &cp);
	else
		buf_add_text(b, "null");
	checkpoint_fini(&cp);
	return found < 0 ? -1 : 0;
}

static int write_start_line(struct session *s, const struct buf *task, const char *workdir, struct buf *b)
{
	char deadline[CLOCK_TEXT_SIZE];

	clock_format(s->deadline_us, deadline);
	buf_addf(b,
		"{\"type\":\"start\",\"protocol\":1,\"session_id\":\"%s\",\"attempt\":%lld,\"task\":", s->id,
		(long long)s->attempt);
	buf_add(b, task->data, task->size);
	buf_addf(b, ",\"risk_level\":\"%s\",\"safety_envelope\":", risk_names[s->risk]);
	buf_add_text(b, envelope_text(s->cap->envelope));
	buf_addf(b, ",\"deadline\":\"%s\",\"checkpoint\":", deadline);
	if (add_checkpoint(s, task, b) < 0 || continuity_add(s, task, b) < 0)
		return -1;
	if (host_is_reused(s->cap)) {
		buf_add_text(b, ",\"workdir\":");
		buf_add_json(b, workdir, strlen(workdir));
	}
	buf_add_text(b, "}\n");
	return 0;
}

/* A new process for s. NULL with a sentence, and errno where the system had none to give. */
static struct host *host_new(
	struct session *s, const struct buf *task, const char *workdir, char *why, size_t why_size)
{
	struct core *c = s->core;
	struct host *h = xcalloc(1, sizeof *h);
	struct worker_spec spec = {.argv = s->cap->config->command,
		.workdir = workdir,
		.owner = h,
		.mark = h->mark,
		.confine = &s->cap->config->confine,
		.has_stdin = s->cap->config->protocol == PROTOCOL_HCP};
	struct env e = {0};
	char text[32], home[4096], *intent;
	struct buf task_file = {0};
	int rc, error;

	if (host_is_reused(s->cap)) {
		id_make(h->id);
		if (workdir_make(c->state_dir, h->id, NULL, 0, home, sizeof home) < 0) {
			error = errno;
			snprintf(why, why_size, "the process's working directory cannot be made: %s",
				strerror(error));
			free(h);
			errno = error;
			return NULL;
		}
		spec.workdir = home;
		CRASH_POINT(run_home_made);
	}
	env_base(&e, c, s->cap, spec.workdir);
	if (host_is_reused(s->cap)) {
		snprintf(h->mark, sizeof h->mark, "HCP_WORKER_ID=%s", h->id);
		env_add(&e, "HCP_WORKER_ID", h->id);
	} else {
		snprintf(h->mark, sizeof h->mark, "HCP_SESSION_ID=%s", s->id);
		env_add(&e, "HCP_SESSION_ID", s->id);
		intent = intent_of(task);
		env_add(&e, "HCP_INTENT", intent);
		free(intent);
		snprintf(text, sizeof text, "%lld", (long long)s->attempt);
		env_add(&e, "HCP_ATTEMPT", text);
		env_add(&e, "HCP_WORKDIR", workdir);
		buf_addf(&task_file, "%s/task.json", workdir);
		env_add(&e, "HCP_TASK", buf_text(&task_file));
		buf_fini(&task_file);
	}
	spec.env = e.list;
	rc = worker_start(c->workers, &spec, &h->worker, why, why_size);
	error = errno;
	run_free_env(e.list);
	if (rc < 0) {
		host_drop_home(c, h);
		free(h);
		errno = error;
		return NULL;
	}
	h->core = c;
	h->pid = worker_pid(h->worker);
	h->cap = s->cap;
	h->policy = policy_ref(s->policy);
	DL_APPEND(c->hosts, h);
	return h;
}

void run_on_again(struct timer *t)
{
	effect_start(container_of(t, struct session, again));
}

/* A full disk passes: to fail days of work for it would be a loss. The session stays RUNNING without a
 * process, its deadline counts, an abort ends it, and it is tried again as the store is. */
static bool waits_for_room(struct session *s, const char *why)
{
	if (errno != ENOSPC && errno != EDQUOT)
		return false;
	if (log_may(&s->core->room_limit, 3))
		log_error(
			"no worker is started until the disk has room, tried again every second: "
			"session=%.8s error=%s",
			s->id, why);
	timer_set(&s->core->timers, &s->again, clock_boot_us() + START_AGAIN_US);
	return true;
}

static void start_failed(struct session *s, const char *why)
{
	bool no_means = errno == EAGAIN || errno == ENOMEM || errno == EMFILE || errno == ENFILE;

	session_fail(s, "worker_failed", no_means ? "resource_unavailable" : "execution_error", "daemon",
		NULL, "%s", why);
	run_conclude(s);
}

static bool has_to_start(struct session *s)
{
	if (s->is_closed || s->host != NULL || s->state != S_RUNNING)
		return false;
	if (session_has_outcome(s)) {
		run_conclude(s);
		return false;
	}
	if (s->core->is_stopping) {
		session_go(s, S_PAUSED, "stopping", "daemon");
		s->paused_by = PAUSED_BY_STOP;
		slots_leave(s->core, s);
		return false;
	}
	return true;
}

/* Nothing starts on a task that is not the one that was accepted. */
static bool is_sealed(struct session *s, struct buf *task)
{
	const char *fault = session_find_change(s, task);

	if (fault == NULL)
		return true;
	log_error(
		"ALARM: a sealed intent was changed, nothing is started: session=%.8s why=%s", s->id, fault);
	session_fail(s, "intent_changed", "internal_error", "daemon", NULL, "the sealed intent is broken: %s",
		fault);
	run_conclude(s);
	return false;
}

/* What the outputs will be held against. */
static bool has_expectation(struct session *s, const struct buf *task)
{
	struct jslice raw = jtext_member(task->data, task->size, "expected_output");
	char why[512] = "";
	json_t *expected = raw.at != NULL ? jtext_parse(raw.at, raw.size, why, sizeof why) : NULL;

	if (s->expect == NULL)
		s->expect = expect_new(expected, why, sizeof why);
	json_decref(expected);
	if (s->expect != NULL)
		return true;
	/* Accepted by a version that did not look. */
	session_fail(s, "worker_failed", "input_error", "daemon", NULL,
		"expected_output.schema cannot be used: %s", why);
	run_conclude(s);
	return false;
}

/* What it needs from the store and the disk. False: it was not to be had, and what follows is decided. */
static bool prepare(struct session *s, struct buf *task, struct buf *line, char *workdir, size_t workdir_size)
{
	struct core *c = s->core;
	char why[512];
	int found = store_load_task(c->store, s->key, task);

	if (found == 0 || (found < 0 && store_is_damaged(c->store))) {
		session_fail(s, "worker_failed", "internal_error", "daemon", NULL, "the task %s",
			found == 0 ? "is not in the store" : "cannot be read: the store is damaged");
		run_conclude(s);
		return false;
	}
	if (found > 0 && (!is_sealed(s, task) || !has_expectation(s, task)))
		return false;
	if (workdir_make(c->state_dir, s->id, host_is_reused(s->cap) ? NULL : task->data, task->size, workdir,
		    workdir_size) < 0) {
		int error = errno;

		snprintf(why, sizeof why, "the working directory cannot be made: %s", strerror(error));
		errno = error;
		if (!waits_for_room(s, why)) {
			errno = ENOMEM;
			start_failed(s, why);
		}
		return false;
	}
	if (found < 0 || write_start_line(s, task, workdir, line) < 0) {
		effect_start(s); /* once the store can be read again */
		core_hold(c);
		return false;
	}
	if (session_has_outcome(s)) { /* what its task names is gone */
		run_conclude(s);
		return false;
	}
	return true;
}

/* What an earlier process of it left in memory. */
static void forget_last(struct session *s)
{
	s->exit_status = -1;
	s->stdout_closed = s->is_unread = s->is_saved = s->text_cut = false;
	s->words_due = 0;
	trigger_begin(s);
	timer_cancel(&s->core->timers, &s->mute);
	buf_clear(&s->text_output);
	buf_clear(&s->stderr_tail);
}

void run_start(struct session *s)
{
	struct core *c = s->core;
	char why[512], workdir[4096];
	struct buf task = {0}, line = {0};
	struct host *h;

	if (!has_to_start(s))
		return;
	if (s->policy == NULL)
		s->policy = policy_ref(c->policy);
	if ((s->cap = policy_find(s->policy, s->capability)) == NULL) {
		session_fail(s, "worker_failed", "internal_error", "daemon", NULL,
			"capability %s is no longer in the configuration", s->capability);
		run_conclude(s);
		return;
	}
	if (!prepare(s, &task, &line, workdir, sizeof workdir))
		goto out;
	CRASH_POINT(run_prepared);
	h = host_is_reused(s->cap) ? find_idle(c, s->cap) : NULL;
	if (h == NULL && (h = host_new(s, &task, workdir, why, sizeof why)) == NULL) {
		if (!waits_for_room(s, why))
			start_failed(s, why);
		goto out;
	}
	CRASH_POINT(run_has_host);
	action_forget(s);
	host_set_idle(h, false);
	h->session = s;
	s->host = h;
	forget_last(s);
	attempt_begin(s);
	run_set_clocks(s);
	run_check_backlog(s);
	if (s->cap->config->protocol == PROTOCOL_HCP)
		worker_write(h->worker, line.data, line.size);
	CRASH_POINT(run_started);
	log_debug("worker started: session=%.8s pid=%d attempt=%lld", s->id, h->pid, (long long)s->attempt);
out:
	buf_fini(&task);
	buf_fini(&line);
}
