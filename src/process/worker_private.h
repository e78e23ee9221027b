/* SPDX-License-Identifier: MIT */
/* worker_private.h: what the files of worker.h share. */
#ifndef HCPD_PROCESS_WORKER_PRIVATE_H
#define HCPD_PROCESS_WORKER_PRIVATE_H

#include "process/worker.h"

#include <assert.h>
#include <ev.h>

#include "base/buf.h"
#include "base/slice.h"
#include "process/group.h"

/* What a turn may read, so that its transaction stays bounded: in bytes, a line counts LINES_CHARGE at
 * least. That is 16,384 lines in all, and 1024 of one pipe. */
#define TURN_BYTES (4u << 20)
#define PIPE_BYTES (256u << 10)
#define TICK_MIN_US 50000        /* where a process is known to be left: look again after this */
#define DRAIN_US 1000000         /* a pipe that only a foreign process holds open is closed after this */
#define WORKER_MAGIC 0x776f726bu /* a stale pointer stops at the first touch */
#define NEVER INT64_MAX

struct launch_pipes;

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

static inline void worker_check(const struct worker *w)
{
	assert(w && w->magic == WORKER_MAGIC);
}

/* --- worker.c --- */
/* Everything but the memory. */
void worker_detach(struct worker *w);

/* --- worker_pipes.c --- */
/* Takes our ends of the worker's pipes. */
void worker_take_pipes(struct worker *w, const struct launch_pipes *pipes);
void worker_close_pipe(struct workers *ws, struct pipe_end *p);
/* Drops the input that is queued. */
void worker_drop_stdin(struct worker *w);
/* After a change of what decides whether the pipe may be read. */
void worker_watch_pipe(struct pipe_end *p);
/* No process of the worker holds the pipes. Is there unread data, or an end, in them? */
void worker_drain(struct worker *w);
void workers_on_more(struct ev_loop *loop, struct ev_timer *t, int events);
void workers_on_hog(struct timer *t);

/* --- worker_end.c --- */
/* A worker is gone when it was reaped, no process is left, and its pipes are at their end; in any order. */
void worker_settle(struct worker *w);
/* It is not in the list of those that may be dead any more. */
void worker_drop_mute(struct worker *w);
/* Checks and kills are due then, or before. */
void workers_tick_soon(struct workers *ws, int64_t in_us);
void workers_on_tick(struct timer *t);
void worker_on_timer(struct timer *t);

#endif
