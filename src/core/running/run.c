/* run.c: sessions in their processes.
 * Owns the hosts (a process and whom it serves now), the clocks and the ladder's times. How a process begins
 * is in run_start.c. Never reads a line's meaning (report.c), never signals by itself (worker.c). */
#include "core/running/run_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "core/running/worker_retry.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/migrate.h"
#include "core/running/worker_messages.h"

#define MUTE_US 500000 /* a death ends the pipes first, and is known a moment later */

struct worker *run_worker(const struct session *s)
{
	return s->host != NULL ? s->host->worker : NULL;
}

/* ---- hosts ---- */

void host_set_idle(struct host *h, bool idle)
{
	if (idle == h->is_idle)
		return;
	h->is_idle = idle;
	if (idle)
		DL_PREPEND2(h->core->idle_hosts, h, idle_prev, idle_next); /* the warmest first */
	else
		DL_DELETE2(h->core->idle_hosts, h, idle_prev, idle_next);
}

void host_retire(struct host *h)
{
	const struct config *config = h->policy->config;
	int64_t now = clock_boot_us();

	if (h->is_gone)
		return;
	if (h->is_retired) {
		if (h->core->is_stopping)
			worker_end(h->worker, now, h->core->stop_at_us); /* sooner than it was told */
		return;
	}
	CRASH_POINT(host_retiring);
	h->is_retired = true;
	host_set_idle(h, false);
	worker_close_stdin(h->worker);
	if (h->core->is_stopping)
		worker_end(h->worker, now, h->core->stop_at_us);
	else
		worker_end(h->worker, now + config->exit_grace_us,
			now + config->exit_grace_us + config->abort_timeout_us / 4);
}

bool host_is_reused(const struct capability *cap)
{
	return cap->config->reuse > 1;
}

/* A reused process has a working directory that is no session's. */
void host_drop_home(struct core *c, const struct host *h)
{
	if (h->id[0] == '\0')
		return;
	c->has_trash |= workdir_remove(c->state_dir, h->id);
}

/* ---- clocks ---- */

static void on_deadline(struct timer *t)
{
	struct session *s = container_of(t, struct session, deadline);

	if (session_fail(s, "timeout", "timeout", "daemon", NULL, "max_duration is over"))
		run_conclude(s);
}

static void on_idle(struct timer *t)
{
	struct session *s = container_of(t, struct session, idle);
	int64_t now = clock_boot_us(), limit = s->core->policy->config->idle_timeout_us;

	if (s->host == NULL || limit == 0 || session_has_outcome(s))
		return;
	/* Idle counts only while it runs and is listened to. */
	if (s->state != S_RUNNING || s->is_unread)
		s->active_us = now;
	if (s->active_us + limit > now) {
		timer_set(&s->core->timers, t, s->active_us + limit);
		return;
	}
	if (session_fail(s, "idle_timeout", "execution_error", "daemon", NULL,
		    "the worker said nothing for too long"))
		run_conclude(s);
}

static void on_mute(struct timer *t)
{
	struct session *s = container_of(t, struct session, mute);

	if (s->host != NULL && s->stdout_closed && s->exit_status == -1 && !session_has_outcome(s))
		session_warn(s, "stdout_closed",
			"the worker closed its stdout: it runs on, but cannot complete any more");
}

/* One that waits to go on is not held by anybody. */
static void on_grace(struct timer *t)
{
	struct session *s = container_of(t, struct session, grace);
	bool is_going = s->paused_by == PAUSED_NOT || s->paused_by == PAUSED_BY_RETRY || s->is_waiting ||
		s->migration != NULL;

	if (s->is_closed || s->state != S_PAUSED || is_going)
		return;
	CRASH_POINT(run_pause_expired);
	if (session_fail(s, "pause_expired", "timeout", "daemon", NULL,
		    "it was PAUSED for longer than pause_grace"))
		run_conclude(s);
}

/* The stored wall time counts: the time that nobody was here does too. */
void run_watch_pause(struct session *s)
{
	int64_t grace = s->core->policy->config->pause_grace_us;

	if (s->state == S_PAUSED && grace > 0)
		timer_set(&s->core->timers, &s->grace,
			clock_boot_us() + grace - (clock_wall_us() - s->updated_us));
	else
		timer_cancel(&s->core->timers, &s->grace);
}

void run_init(struct session *s)
{
	s->deadline.on_due = on_deadline;
	s->idle.on_due = on_idle;
	s->again.on_due = run_on_again;
	s->mute.on_due = on_mute;
	trigger_init(s);
	s->grace.on_due = on_grace;
	s->retry.on_due = attempt_on_retry;
}

void run_set_clocks(struct session *s)
{
	struct core *c = s->core;
	int64_t now = clock_boot_us();

	/* The stored wall time counts across restarts; from here on the boot clock does. */
	if (!timer_is_set(&s->deadline) && s->deadline_us != 0)
		timer_set(&c->timers, &s->deadline, now + (s->deadline_us - clock_wall_us()));
	if (s->state == S_PAUSED)
		run_watch_pause(s);
	s->active_us = now;
	if (s->host != NULL && c->policy->config->idle_timeout_us > 0)
		timer_set(&c->timers, &s->idle, now + c->policy->config->idle_timeout_us);
}

void run_fini(struct session *s)
{
	timer_cancel(&s->core->timers, &s->deadline);
	timer_cancel(&s->core->timers, &s->idle);
	timer_cancel(&s->core->timers, &s->again);
	timer_cancel(&s->core->timers, &s->mute);
	trigger_fini(s);
	timer_cancel(&s->core->timers, &s->grace);
	timer_cancel(&s->core->timers, &s->retry);
	policy_unref(s->policy);
}

/* ---- the end ---- */

static void abort_line(struct session *s, const char *reason)
{
	struct buf b = {0};
	char deadline[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us() + s->core->policy->config->abort_timeout_us, deadline);
	buf_add_text(&b, "{\"type\":\"abort\",\"reason\":");
	buf_add_json(&b, reason, strlen(reason));
	buf_addf(&b, ",\"deadline\":\"%s\"}", deadline);
	effect_line(s, b.data, b.size);
	buf_fini(&b);
}

/* The line at once, SIGTERM at half, SIGKILL at three quarters; where no line can be read SIGTERM at once. */
static void ladder(struct session *s, const char *reason)
{
	int64_t now = clock_boot_us(), span = s->core->policy->config->abort_timeout_us;
	bool listens = worker_has_stdin(s->host->worker);

	if (listens)
		abort_line(s, reason);
	effect_end(s, listens ? now + span / 2 : now, now + span * 3 / 4);
}

/* It said how it ends: it has exit_grace to go by itself. */
static void let_go(struct session *s)
{
	const struct config *config = s->core->policy->config;
	int64_t now = clock_boot_us();

	effect_close_stdin(s);
	effect_end(
		s, now + config->exit_grace_us, now + config->exit_grace_us + config->abort_timeout_us / 4);
}

/* A process that may serve another session, after one that completed and left nobody behind. */
static bool may_serve_on(struct host *h, const struct session *s)
{
	return host_is_reused(h->cap) && s->outcome.state == S_COMPLETED && !h->is_retired &&
		!worker_is_ending(h->worker) && !worker_has_exited(h->worker) && worker_is_alone(h->worker);
}

static void part(struct session *s)
{
	struct host *h = s->host;

	CRASH_POINT(run_parting);
	h->session = NULL;
	h->served++;
	s->host = NULL;
	if (h->served >= h->cap->config->reuse || h->policy != h->core->policy || h->core->is_stopping)
		effect_retire(h->core, h);
	else
		host_set_idle(h, true);
	if (s->is_unread)
		worker_pause_reading(h->worker, false);
}

void run_conclude(struct session *s)
{
	struct outcome *o = &s->outcome;

	if (s->host != NULL && may_serve_on(s->host, s))
		part(s);
	if (s->host == NULL && !migrate_stop(s)) {
		session_finish(s);
		return;
	}
	CRASH_POINT(run_concluding);
	session_mark_dirty(s); /* the outcome is stored at the end of the turn */
	if (s->host == NULL)
		return; /* migrate.c goes on when its program is gone */
	if (strcmp(o->actor, "worker") == 0)
		let_go(s);
	else
		ladder(s, o->reason);
}

bool run_abort(struct session *s, const char *reason, const char *actor, const char *text)
{
	if (!session_decide(s, S_ABORTED, reason, actor, NULL, 0)) {
		if (s->host != NULL)
			ladder(s, reason); /* too late to decide, but not to hurry */
		return false;
	}
	if (s->host == NULL && !migrate_stop(s)) {
		session_finish(s);
		return true;
	}
	session_go(s, S_ABORTING, reason, actor);
	CRASH_POINT(run_aborting);
	session_mark_dirty(s);
	if (s->host != NULL)
		ladder(s, text != NULL ? text : reason);
	return true;
}

void run_stop(struct session *s)
{
	(void)migrate_stop(s); /* it stays PAUSED */
	if (s->host == NULL && timer_is_set(&s->again))
		effect_start(s); /* becomes PAUSED there */
	if (s->host == NULL)
		return;
	s->stop_asked = true;
	CRASH_POINT(stop_asked);
	if (session_has_outcome(s))
		return; /* it is on its way out */
	if (s->cap->config->protocol == PROTOCOL_HCP && worker_has_stdin(s->host->worker))
		trigger_ask(s, TRIGGER_STOP);
	else
		run_stop_now(s, s->core->stop_at_us);
}

void run_stop_now(struct session *s, int64_t kill_at_us)
{
	CRASH_POINT(stop_ending);
	effect_close_stdin(s);
	effect_end(s, clock_boot_us(), kill_at_us);
}

/* Once all that it did is in a checkpoint. It is told nothing: it rests. */
void run_free(struct session *s)
{
	int64_t now = clock_boot_us();

	if (s->host == NULL || s->is_leaving || s->stop_asked || session_has_outcome(s))
		return;
	CRASH_POINT(run_freeing);
	s->is_leaving = true;
	effect_close_stdin(s);
	effect_end(s, now, now + s->core->policy->config->abort_timeout_us * 3 / 4);
}

/* It may have done something since its last checkpoint, and is asked for another then. */
void run_consider_free(struct session *s)
{
	bool is_going = s->asked == ASKED_RESUME && s->words_due > 0;

	if (s->host == NULL || s->state != S_PAUSED || is_going || !s->cap->config->pause_frees_worker)
		return;
	if (s->is_saved)
		run_free(s);
	else if (worker_has_stdin(s->host->worker) && worker_unwritten(s->host->worker) < RUN_UNWRITTEN_MAX)
		trigger_ask(s, TRIGGER_PAUSE);
}

/* ---- from the worker ---- */

static void on_line(
	struct worker *w, enum worker_stream stream, const char *line, size_t size, enum line_kind kind)
{
	struct host *h = worker_owner(w);
	struct session *s = h->session;

	if (s == NULL || s->is_closed) {
		h->dropped_lines++;
		h->core->stats.late_lines++;
		return;
	}
	s->active_us = clock_boot_us();
	report_line(s, stream, line, size, kind);
}

/* Worker death: it was reaped, and all that it said was read. */
static void on_death(struct session *s)
{
	if (session_has_outcome(s) || s->stop_asked || s->is_leaving)
		return; /* on_gone ends or pauses it */
	if (attempt_take_death(s)) {
		s->is_leaving = true;
		let_go(s); /* whatever it has started goes with it */
		return;
	}
	report_death(s);
	run_conclude(s);
}

static void on_eof(struct worker *w, enum worker_stream stream)
{
	struct host *h = worker_owner(w);
	struct session *s = h->session;

	if (stream != WORKER_STDOUT)
		return;
	if (s == NULL) {
		host_retire(h); /* an idle one that cannot answer any more */
		return;
	}
	s->stdout_closed = true;
	if (s->exit_status != -1)
		on_death(s);
	else if (h->cap->config->protocol == PROTOCOL_HCP && !session_has_outcome(s))
		timer_set(&s->core->timers, &s->mute, clock_boot_us() + MUTE_US);
}

static void on_exit_status(struct worker *w, int status)
{
	struct host *h = worker_owner(w);
	struct session *s = h->session;

	if (s == NULL) {
		host_retire(h);
		return;
	}
	s->exit_status = status;
	if (s->stdout_closed)
		on_death(s);
	else
		let_go(s); /* somebody of its tree may still hold the pipe */
}

/* PAUSED, and without a process: others may have its slot. */
static void rest(struct session *s)
{
	slots_leave(s->core, s);
	policy_unref(s->policy); /* its next process is started under the newest */
	s->policy = NULL;
	s->cap = NULL;
	if (s->core->is_stopping)
		return;
	CRASH_POINT(run_rests);
	if (s->paused_by == PAUSED_BY_RETRY)
		attempt_wait(s);
	else if (s->paused_by == PAUSED_NOT)
		slots_wait(s->core, s); /* it was resumed meanwhile */
}

static void on_gone(struct worker *w)
{
	struct host *h = worker_owner(w);
	struct session *s = h->session;

	h->is_gone = true;
	h->core->host_is_gone = true;
	host_set_idle(h, false);
	if (s == NULL)
		return;
	if (!session_has_outcome(s) && !s->stop_asked && !s->is_leaving && !attempt_take_death(s))
		report_death(s);
	h->session = NULL;
	s->host = NULL;
	if (session_has_outcome(s)) {
		session_finish(s);
		return;
	}
	s->stop_asked = s->is_leaving = false;
	if (s->state == S_RUNNING) {
		session_go(s, S_PAUSED, "stopping", "daemon");
		CRASH_POINT(stop_paused);
		s->paused_by = PAUSED_BY_STOP;
	}
	rest(s);
}

static void on_stuck(struct worker *w, int pid)
{
	const struct host *h = worker_owner(w);

	log_error("ALARM: a process does not die of SIGKILL, its session stays open: session=%.8s pid=%d",
		h->session != NULL ? h->session->id : "-", pid);
}

const struct worker_ops run_ops = {on_line, on_eof, on_exit_status, on_gone, on_stuck};

/* ---- back-pressure ---- */

void run_check_backlog(struct session *s)
{
	const struct config *config = s->core->policy->config;
	int64_t low = s->is_unread ? config->max_outbox * 3 / 4 : config->max_outbox;
	bool unread;

	if (s->host == NULL)
		return;
	unread = s->core->all_paused || s->waiting_bytes >= low;
	if (unread == s->is_unread)
		return;
	s->is_unread = unread;
	s->active_us = clock_boot_us();
	worker_pause_reading(s->host->worker, unread);
}

void run_touch_all(struct core *c)
{
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		s->active_us = clock_boot_us();
}

void run_check_all_backlogs(struct core *c)
{
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		run_check_backlog(s);
}

/* ---- housekeeping ---- */

void run_clean_up(struct session *s)
{
	const struct capability *cap = s->cap != NULL ? s->cap : policy_find(s->core->policy, s->capability);
	enum keep_workdir keep = cap != NULL ? cap->config->keep_workdir : KEEP_NEVER;

	if (s->attempt == 0 || keep == KEEP_ALWAYS || (keep == KEEP_FAILED && s->state == S_FAILED))
		return;
	s->core->has_trash |= workdir_remove(s->core->state_dir, s->id);
}

void run_retire_idle(struct core *c)
{
	struct host *h, *tmp;

	/* After the commit: what it completed may be of this turn, or wait for the store. */
	DL_FOREACH_SAFE2(c->idle_hosts, h, tmp, idle_next) {
		host_set_idle(h, false);
		effect_retire(c, h);
	}
}

void run_hurry(struct core *c)
{
	struct host *h;

	DL_FOREACH(c->hosts, h)
		if (h->session == NULL && !h->is_gone)
			effect_retire(c, h);
}

bool run_has_processes(const struct core *c)
{
	return c->hosts != NULL || migrate_has_processes(c);
}

static void host_free(struct host *h)
{
	if (h->dropped_lines > 0)
		log_info("lines between sessions were dropped: capability=%s pid=%d lines=%llu", h->cap->name,
			h->pid, (unsigned long long)h->dropped_lines);
	host_drop_home(h->core, h);
	DL_DELETE(h->core->hosts, h);
	policy_unref(h->policy);
	free(h);
}

void run_sweep(struct core *c)
{
	struct host *h, *tmp;

	if (!c->host_is_gone)
		return;
	c->host_is_gone = false;
	migrate_sweep(c);
	DL_FOREACH_SAFE(c->hosts, h, tmp)
		if (h->is_gone) {
			worker_free(h->worker);
			host_free(h);
		}
}

void run_fini_all(struct core *c)
{
	struct host *h, *tmp;

	migrate_fini_all(c);
	DL_FOREACH_SAFE(c->hosts, h, tmp)
		host_free(h);
}
