/* SPDX-License-Identifier: MIT */
/* worker.c: a worker's processes: their pipes, their escalation from SIGTERM to SIGKILL, their end.
 * Owns every struct worker, when a pipe is read, and the order of callbacks. Never looks into a line, never
 * knows a session, never waits. group.c decides which worker a process belongs to. */
#include "process/worker.h"
#include "process/stale.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "base/buf.h"
#include "base/clock.h"
#include "process/confine.h"
#include "process/forker.h"
#include "base/crashpoint.h"
#include "process/group.h"
#include "base/line_reader.h"
#include "base/log.h"
#include "base/slice.h"
#include "process/landlock.h"
#include "process/launch.h"

/* What a turn may read, so that its transaction stays bounded: in bytes, a line counts LINES_CHARGE at
 * least. That is 16,384 lines in all, and 1024 of one pipe. */
#define TURN_BYTES (4u << 20)
#define PIPE_BYTES (256u << 10)
#define STARVED_BYTES 4096     /* what each other pipe still gets: a loud worker starves none */
#define REAP_MAX 1000          /* at once; an orphan or an end counts as a line */
#define TICK_MIN_US 50000      /* where a process is known to be left: look again after this, ... */
#define TICK_MAX_US 500000     /* ... doubling up to this */
#define DRAIN_US 1000000       /* a pipe that only a foreign process holds open is closed after this */
#define DRAIN_BYTES (2u << 20) /* a pipe holds 1 MiB at most: the rest is of a foreign process */
#define STUCK_US 10000000
#define HOG_US 1000000 /* while a pipe waits for memory: look for silent lines this often */
/* With so many live ones another thread starts the next: below it, the two changes of threads cost more than
 * the copy of the descriptors. */
#define FORKER_FROM 64
#define WORKER_MAGIC 0x776f726bu /* a stale pointer stops at the first touch */
#define NEVER INT64_MAX

struct pipe_end {
	struct ev_io io; /* fd -1: closed */
	struct worker *worker;
	struct line_reader lines;
	struct pipe_end *prev, *next; /* in `list` */
	struct pipe_end **list;       /* the pipes that wait for memory, or have lines left; NULL: neither */
	enum worker_stream stream;
};

struct worker {
	unsigned magic;
	struct proc_group proc_group;
	struct workers *all;
	struct worker *prev, *next;
	struct worker *prev_ended, *next_ended;
	struct worker *prev_mute, *next_mute;
	void *owner;
	const struct worker_ops *ops;
	struct pipe_end out[2];
	struct ev_io in;    /* fd -1: closed */
	struct buf queue;   /* for its stdin ... */
	size_t written;     /* ... of which this much is written: a long queue is not moved in memory */
	struct timer timer; /* the escalation; once the tree is empty, the limit for its pipes */
	int64_t term_at_us, kill_at_us, killed_at_us;
	size_t drained; /* bytes since the tree is empty */
	int status;
	bool paused, ending, termed, stuck_said, close_queued;
	bool exit_said, empty, gone;
	bool is_mute; /* one of its pipes is at its end, so it may be dead */
	bool fresh;   /* reaped in this very call */
};

struct workers {
	struct ev_loop *loop;
	struct timers *timers;
	const struct worker_ops *ops;
	char *instance;
	struct proc_groups proc_groups;
	struct forker *forker; /* NULL: there were few workers until now, or there can be none */
	bool forker_failed;
	struct line_pool pool;
	struct worker *list;
	struct worker *ended; /* reaped and not yet gone */
	struct worker *mute;
	struct pipe_end *waiting;    /* for memory */
	struct pipe_end *unfinished; /* read and not yet handed out */
	struct ev_timer more;        /* for those pipes; a turn later */
	struct timer hog;
	struct timer tick; /* for all workers whose tree must be checked again */
	int64_t tick_us;
	size_t killing; /* workers that are being killed and have processes left */
	size_t budget;
	struct slice slice;
	bool held;
};

static void on_tick(struct timer *t);
static void on_hog(struct timer *t);
static void on_more(struct ev_loop *loop, struct ev_timer *t, int events);
static void on_timer(struct timer *t);
static void on_readable(struct ev_loop *loop, struct ev_io *io, int events);
static void on_writable(struct ev_loop *loop, struct ev_io *io, int events);

static void worker_check(const struct worker *w)
{
	assert(w && w->magic == WORKER_MAGIC);
}

/* --- all workers --- */

struct workers *workers_new(struct ev_loop *loop, struct timers *timers, const struct config *config,
	const char *instance, const struct worker_ops *ops)
{
	struct workers *ws = xcalloc(1, sizeof *ws);

	/* libev's default loop reaps all children itself, and would take their statuses away. */
	assert(!ev_is_default_loop(loop));
	if (groups_init(&ws->proc_groups, config->cgroup, instance) < 0) {
		log_error("cannot host processes, is /proc mounted? error=%s", strerror(errno));
		free(ws);
		return NULL;
	}
	ws->loop = loop;
	ws->timers = timers;
	ws->ops = ops;
	ws->instance = xstrdup(instance);
	ws->budget = TURN_BYTES;
	ws->tick.on_due = on_tick;
	ws->hog.on_due = on_hog;
	ev_timer_init(&ws->more, on_more, 0., 0.);
	line_pool_init(&ws->pool, config->max_line, config->max_lines_total);
	ws->pool.slice = &ws->slice;
	return ws;
}

static void wake_waiting(struct workers *ws);

static void pipe_put(struct pipe_end *p, struct pipe_end **list)
{
	if (p->list)
		DL_DELETE(*p->list, p);
	p->list = list;
	if (list)
		DL_APPEND(*list, p);
}

static void pipe_close(struct workers *ws, struct pipe_end *p)
{
	if (p->io.fd < 0)
		return;
	ev_io_stop(ws->loop, &p->io);
	close(p->io.fd);
	p->io.fd = -1;
	pipe_put(p, NULL);
	line_reader_fini(&ws->pool, &p->lines);
	if (ws->pool.freed)
		wake_waiting(ws);
}

static void stdin_close(struct worker *w)
{
	if (w->in.fd >= 0) {
		ev_io_stop(w->all->loop, &w->in);
		close(w->in.fd);
		w->in.fd = -1;
	}
	buf_fini(&w->queue);
	w->written = 0;
}

static void mute_drop(struct worker *w)
{
	if (w->is_mute)
		DL_DELETE2(w->all->mute, w, prev_mute, next_mute);
	w->is_mute = false;
}

/* The forker ends with the last process: a daemon at rest has no thread more. */
static void forker_drop(struct workers *ws)
{
	if (!ws->forker || groups_count(&ws->proc_groups) > 0)
		return;
	proctree_drop_thread(&ws->proc_groups.tree);
	forker_free(ws->forker);
	ws->forker = NULL;
}

/* Everything but the memory. */
static void worker_detach(struct worker *w)
{
	mute_drop(w);
	timer_cancel(w->all->timers, &w->timer);
	stdin_close(w);
	pipe_close(w->all, &w->out[0]);
	pipe_close(w->all, &w->out[1]);
	groups_remove(&w->all->proc_groups, &w->proc_group);
	forker_drop(w->all);
}

void workers_free(struct workers *ws)
{
	struct worker *w, *next;
	bool left = false;

	if (!ws)
		return;
	DL_FOREACH(ws->list, w) {
		w->proc_group.killing = !w->empty && !w->gone;
		left = left || w->proc_group.killing;
	}
	/* the owner stopped waiting for them: they still must not outlive the daemon */
	if (left)
		groups_kill(&ws->proc_groups);
	DL_FOREACH_SAFE(ws->list, w, next) {
		if (!w->gone)
			worker_detach(w);
		w->gone = true;
		worker_free(w);
	}
	timer_cancel(ws->timers, &ws->tick);
	timer_cancel(ws->timers, &ws->hog);
	ev_timer_stop(ws->loop, &ws->more);
	groups_fini(&ws->proc_groups);
	landlock_forget_state();
	free(ws->instance);
	free(ws);
}

int workers_kill_stale(struct workers *ws)
{
	return stale_kill(&ws->proc_groups, ws->instance);
}

void workers_new_turn(struct workers *ws)
{
	ws->budget = TURN_BYTES;
	slice_renew(&ws->slice);
	groups_invalidate(&ws->proc_groups);
}

static void tick_soon(struct workers *ws, int64_t in_us)
{
	int64_t at = clock_boot_us() + in_us;

	ws->tick_us = TICK_MIN_US;
	if (!timer_is_set(&ws->tick) || ws->tick.at_us > at)
		timer_set(ws->timers, &ws->tick, at);
}

/* --- reading --- */

/* When no process of the tree is left, its pipes hold little, and the worker is not gone before that is
 * read: a pause has no effect then. */
static bool pipe_may_read(const struct pipe_end *p)
{
	return p->io.fd >= 0 && !p->worker->all->held && !p->lines.is_kept &&
		(!p->worker->paused || p->worker->empty);
}

static void pipe_watch(struct pipe_end *p)
{
	struct workers *ws = p->worker->all;

	if (p->io.fd < 0)
		return;
	if (pipe_may_read(p) && !p->list)
		ev_io_start(ws->loop, &p->io);
	else
		ev_io_stop(ws->loop, &p->io);
	if (pipe_may_read(p) && p->list == &ws->unfinished && !ev_is_active(&ws->more)) {
		ev_timer_set(&ws->more, 0., 0.);
		ev_timer_start(ws->loop, &ws->more);
	}
}

void workers_hold(struct workers *ws, bool hold)
{
	struct worker *w;

	if (ws->held == hold)
		return;
	ws->held = hold;
	DL_FOREACH(ws->list, w) {
		pipe_watch(&w->out[0]);
		pipe_watch(&w->out[1]);
	}
	if (!hold)
		/* what was due meanwhile; not from here, because no callback may be made here */
		tick_soon(ws, 0);
}

void worker_pause_reading(struct worker *w, bool pause)
{
	worker_check(w);
	w->paused = pause;
	pipe_watch(&w->out[0]);
	pipe_watch(&w->out[1]);
}

static void report_line(void *ctx, const char *line, size_t size, enum line_kind kind)
{
	struct pipe_end *p = ctx;

	CRASH_POINT(worker_line);
	p->worker->ops->on_line(p->worker, p->stream, line, size, kind);
}

void worker_keep_line(struct worker *w, enum worker_stream s, const char *line)
{
	worker_check(w);
	line_reader_keep(&w->out[s == WORKER_STDERR].lines, line);
}

void worker_let_line_go(struct worker *w, enum worker_stream s)
{
	struct pipe_end *p = &w->out[s == WORKER_STDERR];
	struct workers *ws = w->all;

	worker_check(w);
	line_reader_let_go(&ws->pool, &p->lines);
	pipe_watch(p);
	if (ws->pool.freed)
		wake_waiting(ws);
}

bool worker_is_mid_line(const struct worker *w)
{
	const struct pipe_end *p = &w->out[0];

	worker_check(w);
	return p->io.fd >= 0 && !p->lines.is_kept &&
		(p->lines.size >= LINES_SMALL || p->list == &w->all->waiting);
}

static void wake_waiting(struct workers *ws)
{
	struct pipe_end *p, *next;

	ws->pool.freed = false;
	DL_FOREACH_SAFE(ws->waiting, p, next) {
		pipe_put(p, NULL);
		pipe_watch(p);
	}
}

static void worker_settle(struct worker *w);

static void pipe_end_now(struct pipe_end *p)
{
	struct worker *w = p->worker;

	pipe_close(w->all, p);
	if (!w->is_mute && !w->proc_group.reaped) {
		w->is_mute = true;
		DL_APPEND2(w->all->mute, w, prev_mute, next_mute);
	}
	CRASH_POINT(worker_eof);
	w->ops->on_eof(w, p->stream);
	worker_settle(w);
}

/* One portion a turn: the rest waits for the next turn, behind all others. */
static void pipe_read(struct pipe_end *p)
{
	struct workers *ws = p->worker->all;
	size_t share = ws->budget < PIPE_BYTES ? ws->budget : PIPE_BYTES, got, used;
	enum line_result r;

	if (share < STARVED_BYTES)
		share = STARVED_BYTES;
	r = line_reader_read(&ws->pool, &p->lines, p->io.fd, share, &got, &used, report_line, p);
	ws->budget -= used < ws->budget ? used : ws->budget;
	if (p->worker->empty)
		p->worker->drained += got;
	if (r == LINES_END) {
		pipe_end_now(p);
	} else {
		/* behind a kept line there may be more that was read */
		pipe_put(p,
			r == LINES_WAIT                          ? &ws->waiting :
				r == LINES_MORE || p->lines.more ? &ws->unfinished :
								   NULL);
		pipe_watch(p);
	}
	if (r == LINES_WAIT && !timer_is_set(&ws->hog))
		timer_set(ws->timers, &ws->hog, clock_boot_us() + HOG_US);
	if (ws->pool.freed)
		wake_waiting(ws);
}

static void on_readable(struct ev_loop *loop, struct ev_io *io, int events)
{
	struct pipe_end *p = container_of(io, struct pipe_end, io);

	(void)loop;
	(void)events;
	if (slice_is_over(
		    &p->worker->all->slice)) { /* read in the next turn, before pipes that were read now */
		pipe_put(p, &p->worker->all->unfinished);
		pipe_watch(p);
		return;
	}
	pipe_read(p);
}

static void on_more(struct ev_loop *loop, struct ev_timer *t, int events)
{
	struct workers *ws = container_of(t, struct workers, more);
	struct pipe_end *last = ws->unfinished ? ws->unfinished->prev : NULL, *p, *next;

	(void)loop;
	(void)events;
	/* Pipes that are put at the end wait a turn. Pipes for which there is no time keep their place. */
	for (p = ws->unfinished; p; p = p == last ? NULL : next) {
		next = p->next;
		if (pipe_may_read(p) && slice_is_over(&ws->slice))
			pipe_watch(p);
		else if (pipe_may_read(p))
			pipe_read(p);
	}
}

/* A pipe waits for memory. The pipe that holds the most of it for an unfinished line gives it up; a pipe
 * that we do not read cannot finish its line, and is not chosen. */
static void on_hog(struct timer *t)
{
	struct workers *ws = container_of(t, struct workers, hog);
	int64_t now = clock_boot_us();
	struct pipe_end *hog = NULL;
	size_t most = 0, n;
	struct worker *w;
	int i;

	if (!ws->waiting)
		return;
	DL_FOREACH(ws->list, w)
		for (i = 0; i < 2; i++) {
			n = pipe_may_read(&w->out[i]) && !w->out[i].list ?
				line_reader_idle_bytes(&w->out[i].lines, now) :
				0;
			if (n > most) {
				most = n;
				hog = &w->out[i];
			}
		}
	if (hog)
		line_reader_give_up(&ws->pool, &hog->lines, report_line, hog);
	if (ws->pool.freed)
		wake_waiting(ws);
	timer_set(ws->timers, t, now + HOG_US);
}

/* --- writing --- */

static void stdin_flush(struct worker *w)
{
	while (w->written < w->queue.size) {
		ssize_t n = write(w->in.fd, w->queue.data + w->written, w->queue.size - w->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			ev_io_start(w->all->loop, &w->in);
			return;
		}
		if (n < 0) { /* the worker reads no more; its exit gives the reason */
			stdin_close(w);
			return;
		}
		w->written += (size_t)n;
	}
	ev_io_stop(w->all->loop, &w->in);
	buf_fini(&w->queue);
	w->written = 0;
	if (w->close_queued)
		stdin_close(w);
}

static void on_writable(struct ev_loop *loop, struct ev_io *io, int events)
{
	(void)loop;
	(void)events;
	stdin_flush(container_of(io, struct worker, in));
}

void worker_write(struct worker *w, const void *data, size_t size)
{
	const char *at = data;

	worker_check(w);
	if (w->in.fd < 0 || w->close_queued || size == 0)
		return;
	if (!w->queue.size) { /* mostly it fits into the pipe, and needs no copy */
		ssize_t n = write(w->in.fd, at, size);

		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			stdin_close(w);
			return;
		}
		if (n > 0) {
			at += n;
			size -= (size_t)n;
		}
		if (size == 0)
			return;
	}
	if (w->written > w->queue.size / 2) {
		buf_drop(&w->queue, w->written);
		w->written = 0;
	}
	buf_add(&w->queue, at, size);
	ev_io_start(w->all->loop, &w->in);
}

size_t worker_unwritten(const struct worker *w)
{
	worker_check(w);
	return w->queue.size - w->written;
}

void worker_close_stdin(struct worker *w)
{
	worker_check(w);
	if (w->queue.size)
		w->close_queued = true;
	else
		stdin_close(w);
}

bool worker_has_stdin(const struct worker *w)
{
	worker_check(w);
	return w->in.fd >= 0 && !w->close_queued;
}

/* --- the end --- */

/* A worker is gone when it was reaped, no process is left, and its pipes are at their end; in any order. */
static void worker_settle(struct worker *w)
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

/* No process of the worker holds the pipes. Is there unread data, or an end, in them? */
static void worker_drain(struct worker *w)
{
	bool busy = false;
	int i;

	for (i = 0; i < 2 && !busy; i++) {
		struct pipe_end *p = &w->out[i];
		struct pollfd pfd = {.fd = p->io.fd, .events = POLLIN};

		busy = p->list == &w->all->waiting || p->lines.is_kept ||
			(w->drained < DRAIN_BYTES && (p->list || poll(&pfd, 1, 0) > 0));
	}
	if (busy) {
		timer_set(w->all->timers, &w->timer, clock_boot_us() + DRAIN_US);
		return;
	}
	log_info("somebody else holds a pipe of an ended worker, giving it up pid=%d", w->proc_group.pid);
	for (i = 0; i < 2; i++)
		if (w->out[i].io.fd >= 0) {
			if (line_reader_end(&w->all->pool, &w->out[i].lines, report_line, &w->out[i]))
				pipe_end_now(&w->out[i]);
			else /* after the line that was kept */
				timer_set(w->all->timers, &w->timer, clock_boot_us() + DRAIN_US);
		}
}

static void worker_begin_kill(struct worker *w)
{
	CRASH_POINT(worker_doomed);
	w->all->killing += !w->proc_group.killing;
	w->proc_group.killing = true;
	w->killed_at_us = clock_boot_us();
	tick_soon(w->all, 0); /* one round for all workers whose time has come */
}

static void worker_set_rung(struct worker *w)
{
	int64_t next = w->kill_at_us;

	if (!w->termed && w->term_at_us < next)
		next = w->term_at_us;
	if (next != NEVER)
		timer_set(w->all->timers, &w->timer, next);
}

static void on_timer(struct timer *t)
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
		pipe_watch(&w->out[0]);
		pipe_watch(&w->out[1]);
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
	mute_drop(w);
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
		tick_soon(ws, 0); /* the rest; their SIGCHLD is spent */
	else if (left || later)
		tick_soon(ws, TICK_MIN_US);
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

static void on_tick(struct timer *t)
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

/* --- the beginning --- */

static struct worker *worker_adopt(
	struct workers *ws, const struct worker_spec *spec, const struct launch_pipes *pipes)
{
	struct worker *w = xcalloc(1, sizeof *w);
	int i;

	w->magic = WORKER_MAGIC;
	w->all = ws;
	w->owner = spec->owner;
	w->ops = spec->ops != NULL ? spec->ops : ws->ops;
	w->timer.on_due = on_timer;
	w->term_at_us = w->kill_at_us = NEVER;
	ev_io_init(&w->in, on_writable, pipes->ours[0], EV_WRITE);
	for (i = 0; i < 2; i++) {
		w->out[i].worker = w;
		w->out[i].stream = i == 0 ? WORKER_STDOUT : WORKER_STDERR;
		/* EV_WRITE never comes from the reading end of a pipe. Without it libev takes a hang-up,
		 * which counts as both, for an event that nobody wants, and tells the kernel so again each
		 * time. */
		ev_io_init(&w->out[i].io, on_readable, pipes->ours[i + 1], EV_READ | EV_WRITE);
		pipe_watch(&w->out[i]);
	}
	DL_APPEND(ws->list, w);
	return w;
}

/* With a cgroup, if there can be one; without, where joining is refused: the other way to kill still
 * works. */
static int start_process(struct workers *ws, struct launch *s, unsigned *cgroup, char *why, size_t why_size)
{
	static struct log_limit limit;
	bool must_have; /* a configured limit that cannot be set refuses the start */
	int pid, error;

	*cgroup = cgroup_make(ws->proc_groups.cgroups, &s->cgroup_fd);
	if (ws->proc_groups.cgroups && !*cgroup && (errno == EMFILE || errno == ENFILE)) {
		snprintf(why, why_size, "cannot make a cgroup: %s", strerror(errno));
		return -1;
	}
	must_have = confine_has_cgroup(s->confine);
	if (must_have && cgroup_limit(ws->proc_groups.cgroups, *cgroup, s->confine, why, why_size) < 0) {
		error = errno;
		if (s->cgroup_fd >= 0)
			close(s->cgroup_fd);
		cgroup_remove(ws->proc_groups.cgroups, *cgroup);
		errno = error;
		return -1;
	}
	pid = launch_process(s, why, why_size);
	error = errno;
	if (s->cgroup_fd >= 0)
		close(s->cgroup_fd);
	if (pid < 0 && *cgroup)
		cgroup_remove(ws->proc_groups.cgroups, *cgroup);
	if (pid < 0 && s->cgroup_failed && !must_have) {
		if (log_may(&limit, 3))
			log_warn("a worker may not join its cgroup, starting it without one error=%s",
				strerror(error));
		*cgroup = 0;
		s->cgroup_fd = -1;
		return launch_process(s, why, why_size);
	}
	errno = error;
	return pid;
}

/* Who starts the next one? */
static struct forker *choose_forker(struct workers *ws)
{
	if (groups_count(&ws->proc_groups) < FORKER_FROM)
		return NULL;
	if (ws->forker || ws->forker_failed)
		return ws->forker;
	ws->forker = forker_new();
	if (ws->forker && proctree_add_thread(&ws->proc_groups.tree, forker_tid(ws->forker)) < 0) {
		forker_free(ws->forker);
		ws->forker = NULL;
	}
	ws->forker_failed = !ws->forker;
	return ws->forker;
}

int worker_start(
	struct workers *ws, const struct worker_spec *spec, struct worker **out, char *why, size_t why_size)
{
	struct launch s = {.argv = spec->argv,
		.env = spec->env,
		.workdir = spec->workdir,
		.cgroup_fd = -1,
		.confine = spec->confine,
		.forker = choose_forker(ws),
		.tag = groups_next_tag(&ws->proc_groups)};
	uint64_t start = proctree_now();
	unsigned cgroup;
	struct launch_pipes pipes;
	int pid;

	if (launch_pipes_open(&pipes, spec->has_stdin) < 0) {
		snprintf(why, why_size, "cannot make its pipes: %s", strerror(errno));
		return -1;
	}
	memcpy(s.fds, pipes.theirs, sizeof s.fds);
	CRASH_POINT(worker_before_spawn);
	pid = start_process(ws, &s, &cgroup, why, why_size);
	launch_pipes_close(pipes.theirs);
	if (pid < 0) {
		launch_pipes_close(pipes.ours);
		return -1;
	}
	CRASH_POINT(worker_spawned);
	*out = worker_adopt(ws, spec, &pipes);
	groups_add(&ws->proc_groups, &(*out)->proc_group, pid, start, s.tag, spec->mark, cgroup);
	CRASH_POINT(worker_adopted);
	return 0;
}

/* --- the rest --- */

void *worker_owner(const struct worker *w)
{
	worker_check(w);
	return w->owner;
}

void worker_set_owner(struct worker *w, void *owner)
{
	worker_check(w);
	w->owner = owner;
}

int worker_pid(const struct worker *w)
{
	worker_check(w);
	return w->proc_group.pid;
}

bool worker_has_exited(const struct worker *w)
{
	worker_check(w);
	return w->proc_group.reaped;
}

bool worker_lives(const struct worker *w)
{
	worker_check(w);
	return !w->gone && group_lives(&w->proc_group);
}

bool worker_is_alone(struct worker *w)
{
	worker_check(w);
	return !w->gone && group_is_alone(&w->all->proc_groups, &w->proc_group);
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	worker_check(w);
	assert(w->gone);
	DL_DELETE(w->all->list, w);
	w->magic = 0;
	free(w);
}
