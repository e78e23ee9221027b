/* SPDX-License-Identifier: MIT */
/* run.c: sessions and their workers: runners, clocks, ends.
 * Owns the runners (a process and the session that it serves), the clocks and the times of SIGTERM and
 * SIGKILL. Never starts a process (run_start.c), never reads a line's meaning (worker_messages.c), never
 * signals by itself (worker_end.c). */
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
#include "core/recovery/restore.h"
#include "core/running/large_line.h"
#include "core/running/migrate.h"
#include "core/running/worker_messages.h"
#include "process/workdir.h"

#define MUTE_US 500000 /* the pipes of a dead worker end a moment before its exit is known */

struct worker *run_worker(const struct session *s)
{
	return s->run.runner != NULL ? s->run.runner->worker : NULL;
}

/* ---- runners ---- */

void runner_set_idle(struct runner *r, bool idle)
{
	if (idle == r->is_idle)
		return;
	r->is_idle = idle;
	if (idle)
		DL_PREPEND2(r->core->run.idle_runners, r, idle_prev, idle_next); /* last used first */
	else
		DL_DELETE2(r->core->run.idle_runners, r, idle_prev, idle_next);
}

void runner_retire(struct runner *r)
{
	const struct config *config = r->policy->config;
	int64_t now = clock_boot_us();

	if (r->is_gone)
		return;
	if (r->is_retired) {
		if (r->core->phase.is_stopping)
			worker_end(r->worker, now, r->core->stop.kill_at_us); /* sooner than planned */
		return;
	}
	CRASH_POINT(runner_retiring);
	r->is_retired = true;
	runner_set_idle(r, false);
	worker_close_stdin(r->worker);
	if (r->core->phase.is_stopping)
		worker_end(r->worker, now, r->core->stop.kill_at_us);
	else
		worker_end(r->worker, now + config->exit_grace_us,
			now + config->exit_grace_us + config->abort_timeout_us / 4);
}

bool runner_is_reused(const struct capability *cap)
{
	return cap->config->reuse > 1;
}

/* A reused process has a working directory of its own, which belongs to no session. */
void runner_drop_home(struct core *c, const struct runner *r)
{
	if (r->id[0] == '\0')
		return;
	c->has_trash |= workdir_remove(c->state_dir, r->id);
}

/* ---- clocks ---- */

static void on_deadline(struct timer *t)
{
	struct session *s = container_of(t, struct session, run.deadline);

	if (session_fail(s, "timeout", "timeout", "daemon", NULL, "max_duration is over"))
		run_stop_or_finish(s);
}

static void on_idle(struct timer *t)
{
	struct session *s = container_of(t, struct session, run.idle);
	int64_t now = clock_boot_us(), limit = s->core->policy->config->idle_timeout_us;

	if (s->run.runner == NULL || limit == 0 || session_has_outcome(s))
		return;
	/* Time without an event counts only while the session is RUNNING and its output is read. */
	if (s->state != S_RUNNING || s->run.is_unread || s->run.has_large_line)
		s->run.active_us = now;
	if (s->run.active_us + limit > now) {
		timer_set(&s->core->timers, t, s->run.active_us + limit);
		return;
	}
	if (s->core->policy->config->on_idle == ON_IDLE_PAUSE && !s->run.is_exiting &&
		!s->run.stop_requested) {
		timer_set(&s->core->timers, t, now + limit);
		session_transition(s, S_PAUSED, "idle", "daemon");
		s->pause.by = PAUSED_BY_IDLE;
		CRASH_POINT(run_idle_paused);
		run_consider_free(s);
		return;
	}
	if (session_fail(s, "idle_timeout", "execution_error", "daemon", NULL,
		    "the worker made no event for too long"))
		run_stop_or_finish(s);
}

static void on_mute(struct timer *t)
{
	struct session *s = container_of(t, struct session, run.mute);

	if (s->run.runner != NULL && s->run.stdout_closed && s->run.exit_status == -1 &&
		!session_has_outcome(s))
		session_warn(s, "stdout_closed",
			"the worker closed its stdout: it runs on, but cannot complete any more");
}

/* pause_grace is over. A session that waits to go on is not held by an operator, and does not expire. */
static void on_grace(struct timer *t)
{
	struct session *s = container_of(t, struct session, pause.grace);
	bool is_going = s->pause.by == PAUSED_FOR_SLOT || s->pause.by == PAUSED_BY_RETRY ||
		s->slot.is_waiting || s->run.migration != NULL || restore_is_under_way(s);

	if (s->turn.is_closed || s->state != S_PAUSED || is_going)
		return;
	CRASH_POINT(run_pause_expired);
	if (session_fail(s, "pause_expired", "timeout", "daemon", NULL,
		    "it was PAUSED for longer than pause_grace"))
		run_stop_or_finish(s);
}

/* The stored wall time counts, so that the time while the daemon was down counts, too. */
void run_watch_pause(struct session *s)
{
	int64_t grace = s->core->policy->config->pause_grace_us;

	if (s->state == S_PAUSED && grace > 0)
		timer_set(&s->core->timers, &s->pause.grace,
			clock_boot_us() + grace - (clock_wall_us() - s->times.updated_us));
	else
		timer_cancel(&s->core->timers, &s->pause.grace);
}

void run_init(struct session *s)
{
	s->run.deadline.on_due = on_deadline;
	s->run.idle.on_due = on_idle;
	s->run.start_retry.on_due = run_retry_start;
	s->run.mute.on_due = on_mute;
	checkpoint_request_init(s);
	s->pause.grace.on_due = on_grace;
	s->attempts.timer.on_due = worker_retry_on_due;
}

void run_set_clocks(struct session *s)
{
	struct core *c = s->core;
	int64_t now = clock_boot_us();

	/* Across restarts the stored wall time counts; from here on the boot clock does. */
	if (!timer_is_set(&s->run.deadline) && s->times.deadline_us != 0)
		timer_set(&c->timers, &s->run.deadline, now + (s->times.deadline_us - clock_wall_us()));
	if (s->state == S_PAUSED)
		run_watch_pause(s);
	s->run.heard_us = s->run.active_us = now;
	if (s->run.runner != NULL && c->policy->config->idle_timeout_us > 0)
		timer_set(&c->timers, &s->run.idle, now + c->policy->config->idle_timeout_us);
}

/* A new idle_timeout counts for sessions that run already: where it was off, from now on. */
void run_reload(struct core *c)
{
	int64_t now = clock_boot_us(), limit = c->policy->config->idle_timeout_us;
	struct runner *r;

	DL_FOREACH(c->run.runners, r) {
		struct session *s = r->session;

		if (s == NULL || limit == 0)
			continue;
		if (!timer_is_set(&s->run.idle))
			s->run.active_us = now;
		timer_set(&c->timers, &s->run.idle, s->run.active_us + limit);
	}
}

void run_fini(struct session *s)
{
	timer_cancel(&s->core->timers, &s->run.deadline);
	timer_cancel(&s->core->timers, &s->run.idle);
	timer_cancel(&s->core->timers, &s->run.start_retry);
	timer_cancel(&s->core->timers, &s->run.mute);
	checkpoint_request_fini(s);
	timer_cancel(&s->core->timers, &s->pause.grace);
	timer_cancel(&s->core->timers, &s->attempts.timer);
	policy_unref(s->run.policy);
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

/* The abort line at once, SIGTERM at half of abort_timeout, SIGKILL at three quarters. A worker that cannot
 * read the line gets SIGTERM at once. */
static void escalate(struct session *s, const char *reason)
{
	int64_t now = clock_boot_us(), span = s->core->policy->config->abort_timeout_us;
	bool listens = worker_has_stdin(s->run.runner->worker);

	if (listens)
		abort_line(s, reason);
	effect_end(s, listens ? now + span / 2 : now, now + span * 3 / 4);
}

/* The worker reported its end: it has exit_grace to exit by itself. */
static void begin_graceful_exit(struct session *s)
{
	const struct config *config = s->core->policy->config;
	int64_t now = clock_boot_us();

	effect_close_stdin(s);
	effect_end(
		s, now + config->exit_grace_us, now + config->exit_grace_us + config->abort_timeout_us / 4);
}

/* May the process serve another session? Only after a completed one, and only if it left no other process
 * behind. */
static bool may_serve_on(struct runner *r, const struct session *s)
{
	r->alone_us = clock_boot_us();
	return runner_is_reused(r->cap) && s->outcome.state == S_COMPLETED && !r->is_retired &&
		!worker_is_ending(r->worker) && !worker_has_exited(r->worker) && worker_is_alone(r->worker);
}

static void detach_worker(struct session *s)
{
	struct runner *r = s->run.runner;

	CRASH_POINT(run_parting);
	r->session = NULL;
	r->served++;
	s->run.runner = NULL;
	if (r->served >= r->cap->config->reuse || r->policy != r->core->policy || r->core->phase.is_stopping)
		effect_retire(r->core, r);
	else
		runner_set_idle(r, true);
	if (s->run.is_unread)
		worker_pause_reading(r->worker, false);
}

void run_stop_or_finish(struct session *s)
{
	struct outcome *o = &s->outcome;

	if (s->run.runner != NULL && may_serve_on(s->run.runner, s))
		detach_worker(s);
	if (s->run.runner == NULL && !migrate_stop(s)) {
		session_finish(s);
		return;
	}
	CRASH_POINT(run_concluding);
	session_mark_dirty(s); /* the turn's commit stores the outcome */
	if (s->run.runner == NULL)
		return; /* migrate.c finishes the session when its program is gone */
	if (strcmp(o->actor, "worker") == 0)
		begin_graceful_exit(s);
	else
		escalate(s, o->reason);
}

bool run_abort(struct session *s, const char *reason, const char *actor, const char *text)
{
	if (!session_set_outcome(s, S_ABORTED, reason, actor, NULL, 0)) {
		if (s->run.runner != NULL)
			escalate(s, reason); /* the outcome is decided, but the process has to end sooner */
		return false;
	}
	if (s->run.runner == NULL && !migrate_stop(s)) {
		session_finish(s);
		return true;
	}
	session_transition(s, S_ABORTING, reason, actor);
	CRASH_POINT(run_aborting);
	session_mark_dirty(s);
	if (s->run.runner != NULL)
		escalate(s, text != NULL ? text : reason);
	return true;
}

void run_stop(struct session *s)
{
	(void)migrate_stop(s); /* a session in migration stays PAUSED, */
	if (s->run.runner == NULL && s->state == S_PAUSED && restore_is_under_way(s)) {
		restore_drop(s); /* and so does one that waits for its state */
		slots_leave(s->core, s);
	}
	if (s->run.runner == NULL && (timer_is_set(&s->run.start_retry) || restore_is_under_way(s)))
		effect_start(s); /* run_start makes it PAUSED */
	if (s->run.runner == NULL)
		return;
	s->run.stop_requested = true;
	CRASH_POINT(stop_asked);
	if (session_has_outcome(s))
		return; /* it is ending already */
	if (s->run.cap->config->protocol == PROTOCOL_HCP && worker_has_stdin(s->run.runner->worker))
		checkpoint_request_send(s, CHECKPOINT_BY_STOP);
	else
		run_stop_now(s, s->core->stop.kill_at_us);
}

void run_stop_now(struct session *s, int64_t kill_at_us)
{
	CRASH_POINT(stop_ending);
	effect_close_stdin(s);
	effect_end(s, clock_boot_us(), kill_at_us);
}

void run_stop_at_half(struct session *s)
{
	int64_t kill_at_us = s->core->stop.kill_at_us;

	if (s->run.runner == NULL)
		return;
	if (!session_has_outcome(s) && (s->run.has_large_line || worker_is_mid_line(run_worker(s))))
		effect_end(s, kill_at_us - (kill_at_us - clock_boot_us()) / 4, kill_at_us);
	else
		run_stop_now(s, kill_at_us);
}

/* Only when all work is checkpointed. No message is sent; the worker is idle. */
void run_free(struct session *s)
{
	int64_t now = clock_boot_us();

	if (s->run.runner == NULL || s->run.is_exiting || s->run.stop_requested || session_has_outcome(s))
		return;
	CRASH_POINT(run_freeing);
	s->run.is_exiting = true;
	effect_close_stdin(s);
	effect_end(s, now, now + s->core->policy->config->abort_timeout_us * 3 / 4);
}

/* Work since the last checkpoint needs another checkpoint before the process may go. */
void run_consider_free(struct session *s)
{
	bool is_going = s->pause.request == REQUEST_RESUME && s->pause.replies_pending > 0;

	if (s->run.runner == NULL || s->state != S_PAUSED || is_going ||
		!s->run.cap->config->pause_frees_worker)
		return;
	if (s->checkpoint.is_saved)
		run_free(s);
	else if (worker_has_stdin(s->run.runner->worker) &&
		worker_unwritten(s->run.runner->worker) < RUN_UNWRITTEN_MAX)
		checkpoint_request_send(s, CHECKPOINT_BY_PAUSE);
}

/* ---- from the worker ---- */

static void on_line(
	struct worker *w, enum worker_stream stream, const char *line, size_t size, enum line_kind kind)
{
	struct runner *r = worker_owner(w);
	struct session *s = r->session;

	if (s == NULL || s->turn.is_closed) {
		r->dropped_lines++;
		r->core->stats.late_lines++;
		return;
	}
	s->run.heard_us = clock_boot_us();
	worker_message_read(s, stream, line, size, kind);
}

/* The worker died: its exit status is known and all its output was read. */
static void on_death(struct session *s)
{
	if (session_has_outcome(s) || s->run.stop_requested || s->run.is_exiting)
		return; /* on_gone ends or pauses the session */
	if (worker_retry_take_death(s)) {
		s->run.is_exiting = true;
		begin_graceful_exit(s); /* its whole process group ends with it */
		return;
	}
	worker_message_death(s);
	run_stop_or_finish(s);
}

static void on_eof(struct worker *w, enum worker_stream stream)
{
	struct runner *r = worker_owner(w);
	struct session *s = r->session;

	if (stream != WORKER_STDOUT)
		return;
	if (s == NULL) {
		runner_retire(r); /* an idle process without stdout is of no use */
		return;
	}
	s->run.stdout_closed = true;
	if (s->run.exit_status != -1)
		on_death(s);
	else if (r->cap->config->protocol == PROTOCOL_HCP && !session_has_outcome(s))
		timer_set(&s->core->timers, &s->run.mute, clock_boot_us() + MUTE_US);
}

static void on_exit_status(struct worker *w, int status)
{
	struct runner *r = worker_owner(w);
	struct session *s = r->session;

	if (s == NULL) {
		runner_retire(r);
		return;
	}
	s->run.exit_status = status;
	if (s->run.stdout_closed)
		on_death(s);
	else
		begin_graceful_exit(s); /* a child process may still hold the pipe */
}

/* The session is PAUSED and has no process: gives up its slot. */
static void release_while_paused(struct session *s)
{
	slots_leave(s->core, s);
	policy_unref(s->run.policy); /* the next process is started under the policy in force */
	s->run.policy = NULL;
	s->run.cap = NULL;
	if (s->core->phase.is_stopping)
		return;
	CRASH_POINT(run_rests);
	if (s->pause.by == PAUSED_BY_RETRY)
		worker_retry_wait(s);
	else if (s->pause.by == PAUSED_FOR_SLOT)
		slots_wait(s->core, s); /* it was resumed while its process ended */
}

static void on_gone(struct worker *w)
{
	struct runner *r = worker_owner(w);
	struct session *s = r->session;

	r->is_gone = true;
	DL_DELETE(r->core->run.runners, r); /* those who are gone come first: run_sweep looks at no other */
	DL_PREPEND(r->core->run.runners, r);
	r->core->run.runner_is_gone = true;
	runner_set_idle(r, false);
	if (s == NULL)
		return;
	if (!session_has_outcome(s) && !s->run.stop_requested && !s->run.is_exiting &&
		!worker_retry_take_death(s))
		worker_message_death(s);
	r->session = NULL;
	s->run.runner = NULL;
	if (session_has_outcome(s)) {
		session_finish(s);
		return;
	}
	s->run.stop_requested = s->run.is_exiting = false;
	if (s->state == S_RUNNING) {
		session_transition(s, S_PAUSED, "stopping", "daemon");
		CRASH_POINT(stop_paused);
		s->pause.by = PAUSED_BY_STOP;
	}
	release_while_paused(s);
}

static void on_stuck(struct worker *w, int pid)
{
	const struct runner *r = worker_owner(w);

	log_error("ALARM: a process does not die of SIGKILL, its session stays open: session=%.8s pid=%d",
		r->session != NULL ? r->session->id : "-", pid);
}

const struct worker_ops run_ops = {.on_line = on_line,
	.on_eof = on_eof,
	.on_exit = on_exit_status,
	.on_gone = on_gone,
	.on_stuck = on_stuck};

/* ---- back-pressure ---- */

void run_check_backlog(struct session *s)
{
	const struct config *config = s->core->policy->config;
	int64_t low = s->run.is_unread ? config->max_outbox * 3 / 4 : config->max_outbox;
	bool unread;

	if (s->run.runner == NULL)
		return;
	unread = s->core->run.all_paused || s->outbox.waiting_bytes >= low;
	if (unread == s->run.is_unread)
		return;
	s->run.is_unread = unread;
	s->run.active_us = clock_boot_us();
	worker_pause_reading(s->run.runner->worker, unread);
}

void run_touch_all(struct core *c)
{
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		s->run.active_us = clock_boot_us();
}

void run_check_all_backlogs(struct core *c)
{
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		run_check_backlog(s);
}

/* ---- housekeeping ---- */

bool run_has_workdir(const struct session *s)
{
	return s->run.cap->config->workdir != WORKDIR_NO;
}

/* Is there a working directory of the closed session that has to go? */
static bool has_to_clean_up(const struct session *s)
{
	const struct capability *cap =
		s->run.cap != NULL ? s->run.cap : policy_find(s->core->policy, s->capability);
	enum keep_workdir keep = cap != NULL ? cap->config->keep_workdir : KEEP_NEVER;

	return s->attempts.number > 0 && s->run.directory != DIRECTORY_NONE && keep != KEEP_ALWAYS &&
		(keep != KEEP_FAILED || s->state != S_FAILED);
}

/* Not more than the starts need: looking at a directory takes time, and messages wait meanwhile. */
void run_offer_workdirs(struct core *c, struct session *closed)
{
	size_t starts = closed != NULL ? effects_count_starts(&c->turn.effects) : 0;

	for (struct session *s = closed; s != NULL && starts > 0; s = s->turn.closed_next) {
		if (!has_to_clean_up(s))
			continue;
		starts--;
		if (workdir_offer(c->state_dir, s->id))
			s->run.directory = DIRECTORY_NONE;
		CRASH_POINT(run_workdir_offered);
	}
}

void run_clean_up(struct session *s)
{
	if (has_to_clean_up(s))
		s->core->has_trash |= workdir_remove(s->core->state_dir, s->id);
}

void run_retire_idle(struct core *c)
{
	struct runner *r, *tmp;

	/* As effects, after the commit: the sessions that they completed may be of this turn. */
	DL_FOREACH_SAFE2(c->run.idle_runners, r, tmp, idle_next) {
		runner_set_idle(r, false);
		effect_retire(c, r);
	}
}

void run_hurry(struct core *c)
{
	struct runner *r;

	DL_FOREACH(c->run.runners, r)
		if (r->session == NULL && !r->is_gone)
			effect_retire(c, r);
}

bool run_has_processes(const struct core *c)
{
	return c->run.runners != NULL || migrate_has_processes(c);
}

static void runner_free(struct runner *r)
{
	if (r->dropped_lines > 0)
		log_info("lines between sessions were dropped: capability=%s pid=%d lines=%llu", r->cap->name,
			r->pid, (unsigned long long)r->dropped_lines);
	runner_drop_home(r->core, r);
	DL_DELETE(r->core->run.runners, r);
	policy_unref(r->policy);
	free(r);
}

void run_sweep(struct core *c)
{
	struct runner *r;

	c->has_trash |= workdir_end_offers(c->state_dir);
	if (!c->run.runner_is_gone)
		return;
	c->run.runner_is_gone = false;
	migrate_sweep(c);
	while ((r = c->run.runners) != NULL && r->is_gone) {
		worker_free(r->worker);
		runner_free(r);
	}
}

void run_fini_all(struct core *c)
{
	struct runner *r, *tmp;

	large_line_fini_all(c);
	migrate_fini_all(c);
	DL_FOREACH_SAFE(c->run.runners, r, tmp)
		runner_free(r);
}
