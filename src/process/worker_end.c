/* SPDX-License-Identifier: MIT */
/* worker_end.c: how workers end: from SIGTERM to SIGKILL, reaped, and gone.
 * Owns the escalation, every status of a child, and the order of a worker's last callbacks. Never reads a
 * pipe, never knows a session, never waits. */
#include "process/worker.h"

#include <sys/wait.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/crashpoint.h"
#include "process/group.h"
#include "process/worker_private.h"

#define REAP_MAX 1000      /* at once; an orphan or an end counts as a line */
#define TICK_MAX_US 500000 /* TICK_MIN_US doubles up to this */
#define STUCK_US 10000000

void worker_drop_mute(struct worker *w)
{
	if (w->is_mute)
		DL_DELETE2(w->all->mute, w, prev_mute, next_mute);
	w->is_mute = false;
}

void workers_tick_soon(struct workers *ws, int64_t in_us)
{
	int64_t at = clock_boot_us() + in_us;

	ws->tick_us = TICK_MIN_US;
	if (!timer_is_set(&ws->tick) || ws->tick.at_us > at)
		timer_set(ws->timers, &ws->tick, at);
}

void worker_settle(struct worker *w)
{
	if (w->gone || !w->exit_said || !w->empty)
		return;
	if (w->out[0].io.fd >= 0 || w->out[1].io.fd >= 0) {
		if (!timer_is_set(&w->timer))
			timer_set(w->all->timers, &w->timer, clock_boot_us() + DRAIN_US);
		return;
	}
	worker_detach(w);
	DL_DELETE2(w->all->ended, w, prev_ended, next_ended);
	w->gone = true;
	CRASH_POINT(worker_gone);
	w->ops->on_gone(w);
}

static void worker_begin_kill(struct worker *w)
{
	CRASH_POINT(worker_doomed);
	w->all->killing += !w->proc_group.killing;
	w->proc_group.killing = true;
	w->killed_at_us = clock_boot_us();
	workers_tick_soon(w->all, 0); /* one round for all workers whose time has come */
}

static void worker_set_rung(struct worker *w)
{
	int64_t next = w->kill_at_us;

	if (!w->termed && w->term_at_us < next)
		next = w->term_at_us;
	if (next != NEVER)
		timer_set(w->all->timers, &w->timer, next);
}

void worker_on_timer(struct timer *t)
{
	struct worker *w = container_of(t, struct worker, timer);
	int64_t now = clock_boot_us();

	worker_check(w);
	if (w->all->held) {
		timer_set(w->all->timers, t, now + TICK_MIN_US);
	} else if (w->empty) {
		worker_drain(w);
	} else if (w->kill_at_us <= now) {
		worker_begin_kill(w);
	} else {
		if (w->term_at_us <= now && !w->termed) {
			w->termed = true;
			CRASH_POINT(worker_before_term);
			group_terminate(&w->all->proc_groups, &w->proc_group);
			CRASH_POINT(worker_termed);
		}
		worker_set_rung(w);
	}
}

void worker_end(struct worker *w, int64_t term_at_us, int64_t kill_at_us)
{
	worker_check(w);
	if (term_at_us < w->term_at_us)
		w->term_at_us = term_at_us;
	if (kill_at_us < w->kill_at_us)
		w->kill_at_us = kill_at_us;
	w->ending = true;
	if (!w->empty && !w->gone && !w->proc_group.killing)
		worker_set_rung(w);
}

bool worker_is_ending(const struct worker *w)
{
	worker_check(w);
	return w->ending;
}

/* Which of the workers whose main process has ended have no process left? */
static void check_trees(struct workers *ws)
{
	struct worker *w, *next;
	bool any = false;

	DL_FOREACH2(ws->ended, w, next_ended)
	any = any || !w->empty;
	if (!any)
		return;
	groups_check(&ws->proc_groups);
	/* First all results, then the callbacks: a callback may start a worker, which changes the results. */
	DL_FOREACH2(ws->ended, w, next_ended)
	if (!w->empty && group_is_empty(&ws->proc_groups, &w->proc_group)) {
		w->empty = true;
		ws->killing -= w->proc_group.killing;
		timer_cancel(ws->timers, &w->timer);
		worker_watch_pipe(&w->out[0]);
		worker_watch_pipe(&w->out[1]);
	}
	DL_FOREACH_SAFE2(ws->ended, w, next, next_ended)
		worker_settle(w);
}

static void take_status(struct workers *ws, int pid, int status)
{
	struct proc_group *g = groups_on_reaped(&ws->proc_groups, pid);
	struct worker *w;

	if (!g) /* an orphan: no worker needs its status */
		return;
	w = container_of(g, struct worker, proc_group);
	w->status = status;
	CRASH_POINT(worker_reaped);
	worker_drop_mute(w);
	DL_APPEND2(ws->ended, w, prev_ended, next_ended);
}

/* Takes a status from the kernel until there is none, or *n are taken. pid and flags as for waitpid. */
static void take_ended(struct workers *ws, int pid, int flags, int *n)
{
	int status, ended;

	while (*n < REAP_MAX && (ended = waitpid(pid, &status, WNOHANG | flags)) > 0) {
		take_status(ws, ended, status);
		++*n;
	}
}

/* The kernel looks at every child to find one that has ended. Most ends can be had for less: our own thread
 * has few children, and the forker's close their pipes before they are dead. Where that finds one, the look
 * at all comes a moment later, for whatever ended otherwise. True: that look is due later. */
static bool take_likely(struct workers *ws, int *n)
{
	struct worker *w, *next;

	if (!ws->forker)
		return false;
	take_ended(ws, -1, __WNOTHREAD, n);
	DL_FOREACH_SAFE2(ws->mute, w, next, next_mute)
		take_ended(ws, w->proc_group.pid, 0, n);
	return *n > 0;
}

static void reap(struct workers *ws, bool all)
{
	struct worker *w;
	int n = 0;
	bool left = false, later;

	if (ws->held)
		return;
	later = take_likely(ws, &n) && !all;
	if (!later)
		take_ended(ws, -1, 0, &n);
	DL_FOREACH2(ws->ended, w, next_ended)
	if (!w->exit_said) {
		w->exit_said = true;
		w->ops->on_exit(w, w->status);
		w->fresh = true;
	}
	check_trees(ws);
	DL_FOREACH2(ws->ended, w, next_ended)
	{
		left = left || (w->fresh && !w->empty);
		w->fresh = false;
	}
	if (n >= REAP_MAX)
		workers_tick_soon(ws, 0); /* the rest; their SIGCHLD is spent */
	else if (left || later)
		workers_tick_soon(ws, TICK_MIN_US);
}

void workers_reap(struct workers *ws)
{
	reap(ws, false);
}

static void report_stuck(struct workers *ws, int64_t now)
{
	struct worker *w;
	int pid;

	DL_FOREACH(ws->list, w) {
		if (!w->proc_group.killing || w->empty || w->stuck_said || now - w->killed_at_us < STUCK_US)
			continue;
		pid = group_find_live(&ws->proc_groups, &w->proc_group);
		w->stuck_said = true;
		w->ops->on_stuck(w, pid ? pid : w->proc_group.pid);
	}
}

void workers_on_tick(struct timer *t)
{
	struct workers *ws = container_of(t, struct workers, tick);
	int64_t now = clock_boot_us(), wait_us = ws->tick_us;
	bool left;
	struct worker *w;

	if (ws->held) {
		timer_set(ws->timers, t, now + TICK_MIN_US);
		return;
	}
	if (ws->killing > 0)
		groups_kill(&ws->proc_groups);
	reap(ws, true);
	if (ws->killing > 0)
		report_stuck(ws, now);
	left = ws->killing > 0;
	DL_FOREACH2(ws->ended, w, next_ended)
	left = left || !w->empty;
	if (!left)
		return;
	if (!timer_is_set(t) || t->at_us > now + wait_us)
		timer_set(ws->timers, t, now + wait_us);
	ws->tick_us = wait_us < TICK_MAX_US / 2 ? 2 * wait_us : TICK_MAX_US;
}
