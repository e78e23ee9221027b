/* SPDX-License-Identifier: MIT */
/* worker_pipes.c: the pipes of workers: lines from stdout and stderr, bytes to stdin.
 * Owns when a pipe is read, how much of it, and when it is closed. Never looks into a line, never signals,
 * never waits. */
#include "process/worker.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include <utlist.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/line_reader.h"
#include "base/log.h"
#include "base/slice.h"
#include "process/launch.h"
#include "process/worker_private.h"

#define STARVED_BYTES 4096     /* what each other pipe still gets: a loud worker starves none */
#define DRAIN_BYTES (2u << 20) /* a pipe holds 1 MiB at most: the rest is of a foreign process */
#define HOG_US 1000000         /* while a pipe waits for memory: look for silent lines this often */

/* --- closing --- */

static void wake_waiting(struct workers *ws);

static void pipe_put(struct pipe_end *p, struct pipe_end **list)
{
	if (p->list)
		DL_DELETE(*p->list, p);
	p->list = list;
	if (list)
		DL_APPEND(*list, p);
}

void worker_close_pipe(struct workers *ws, struct pipe_end *p)
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

void worker_drop_stdin(struct worker *w)
{
	if (w->in.fd >= 0) {
		ev_io_stop(w->all->loop, &w->in);
		close(w->in.fd);
		w->in.fd = -1;
	}
	buf_fini(&w->queue);
	w->written = 0;
}

/* --- reading --- */

/* When no process of the tree is left, its pipes hold little, and the worker is not gone before that is
 * read: a pause has no effect then. */
static bool pipe_may_read(const struct pipe_end *p)
{
	return p->io.fd >= 0 && !p->worker->all->held && !p->lines.is_kept &&
		(!p->worker->paused || p->worker->empty);
}

void worker_watch_pipe(struct pipe_end *p)
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
		worker_watch_pipe(&w->out[0]);
		worker_watch_pipe(&w->out[1]);
	}
	if (!hold)
		/* what was due meanwhile; not from here, because no callback may be made here */
		workers_tick_soon(ws, 0);
}

void worker_pause_reading(struct worker *w, bool pause)
{
	worker_check(w);
	w->paused = pause;
	worker_watch_pipe(&w->out[0]);
	worker_watch_pipe(&w->out[1]);
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
	worker_watch_pipe(p);
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
		worker_watch_pipe(p);
	}
}

static void pipe_end_now(struct pipe_end *p)
{
	struct worker *w = p->worker;

	worker_close_pipe(w->all, p);
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
		worker_watch_pipe(p);
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
		worker_watch_pipe(p);
		return;
	}
	pipe_read(p);
}

void workers_on_more(struct ev_loop *loop, struct ev_timer *t, int events)
{
	struct workers *ws = container_of(t, struct workers, more);
	struct pipe_end *last = ws->unfinished ? ws->unfinished->prev : NULL, *p, *next;

	(void)loop;
	(void)events;
	/* Pipes that are put at the end wait a turn. Pipes for which there is no time keep their place. */
	for (p = ws->unfinished; p; p = p == last ? NULL : next) {
		next = p->next;
		if (pipe_may_read(p) && slice_is_over(&ws->slice))
			worker_watch_pipe(p);
		else if (pipe_may_read(p))
			pipe_read(p);
	}
}

/* A pipe waits for memory. The pipe that holds the most of it for an unfinished line gives it up; a pipe
 * that we do not read cannot finish its line, and is not chosen. */
void workers_on_hog(struct timer *t)
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
			worker_drop_stdin(w);
			return;
		}
		w->written += (size_t)n;
	}
	ev_io_stop(w->all->loop, &w->in);
	buf_fini(&w->queue);
	w->written = 0;
	if (w->close_queued)
		worker_drop_stdin(w);
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
			worker_drop_stdin(w);
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
		worker_drop_stdin(w);
}

bool worker_has_stdin(const struct worker *w)
{
	worker_check(w);
	return w->in.fd >= 0 && !w->close_queued;
}

/* --- the beginning and the end --- */

void worker_drain(struct worker *w)
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

void worker_take_pipes(struct worker *w, const struct launch_pipes *pipes)
{
	int i;

	ev_io_init(&w->in, on_writable, pipes->ours[0], EV_WRITE);
	for (i = 0; i < 2; i++) {
		w->out[i].worker = w;
		w->out[i].stream = i == 0 ? WORKER_STDOUT : WORKER_STDERR;
		/* EV_WRITE never comes from the reading end of a pipe. Without it libev takes a hang-up,
		 * which counts as both, for an event that nobody wants, and tells the kernel so again each
		 * time. */
		ev_io_init(&w->out[i].io, on_readable, pipes->ours[i + 1], EV_READ | EV_WRITE);
		worker_watch_pipe(&w->out[i]);
	}
}
