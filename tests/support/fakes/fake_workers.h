/* SPDX-License-Identifier: MIT */
/* fake_workers.h: worker.h without processes: the test is the worker.
 * It replaces worker.c, worker_pipes.c and worker_end.c (not workdir.c) in a program that uses it (fakes.a).
 * What a worker says, and its exit, wait in its pipe until fake_workers_run hands them over, in order, as the
 * real ones come from the loop: not while held, not while its pipes are left alone. Records of workers stay
 * until the end, so that a test can look at them. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_WORKERS_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_WORKERS_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "support/fakes/fake_clock.h"
#include "process/worker.h"

#define FAKE_NEVER INT64_MAX

enum fake_word_kind {
	FAKE_OUT,
	FAKE_ERR,
	FAKE_TOO_LONG,
	FAKE_UNENDED,
	FAKE_OUT_EOF,
	FAKE_ERR_EOF,
	FAKE_EXIT
};

struct fake_word { /* something in a worker's pipe, or its exit */
	struct fake_word *next;
	enum fake_word_kind kind;
	int status;
	size_t size;
	char text[];
};

struct worker {
	struct workers *ws;
	void *owner;
	const struct worker_ops *ops;
	int number, pid;
	char **argv, **env;
	char *workdir;
	char session_id[ID_SIZE]; /* of the last start, or of its environment */
	struct buf in;            /* all that it was ever sent */
	struct fake_word *said, **said_end;
	struct fake_word *kept; /* a line that is still in use */
	bool is_keeping;
	bool is_mid_line; /* a test's wish: a long line has begun and not ended */
	bool has_stdin, stdin_closed, is_paused;
	bool out_eof, err_eof, has_exited, is_gone, is_freed;
	bool is_dying;     /* its exit is in the pipe */
	bool ignores_term; /* a test's wish: only SIGKILL ends it ... */
	bool is_immortal;  /* ... or not even that */
	bool closed_out;   /* of its own: its stdout ends before it does */
	bool is_deaf;      /* never reads its stdin: all that it was sent waits */
	int children;      /* other processes of its tree; SIGTERM or SIGKILL end them too */
	int64_t term_at_us, kill_at_us;
	bool was_termed, was_killed;
};

struct workers {
	struct worker **list;
	size_t count;
	const struct worker_ops *ops;
	bool is_held;
	int leftovers; /* what workers_kill_stale will find */
	unsigned holds, new_turns;
	int fail_errno; /* the next start fails so; 0: it works */
	/* watchers, NULL: none */
	void (*on_start)(void *ctx, const struct worker *w);
	void (*on_write)(void *ctx, const struct worker *w, const char *line, size_t size);
	void (*on_end)(void *ctx, const struct worker *w); /* stdin closed, or the ladder set */
	void (*on_hold)(void *ctx, bool hold);
	void *ctx;
};

/* ---- the test's side ---- */

void fake_workers_init(struct workers *ws, const struct worker_ops *ops);
void fake_worker_put(struct worker *w, enum fake_word_kind kind, const char *text, size_t size, int status);
void fake_worker_say(struct worker *w, const char *line);
void fake_worker_close_out(struct worker *w);

/* A wait(2) status; its pipes end with it unless a child holds them. */
void fake_worker_exit(struct worker *w, int status);
bool fake_worker_has_line(struct worker *w, const char *needle);
void fake_worker_die(struct worker *w, int signal_number);

/* One round of the loop: hands over what there is, one word a worker so that they interleave. True:
 * there was. */
bool fake_workers_run(struct workers *ws);

/* When the next signal is due. */
int64_t fake_workers_next_us(const struct workers *ws);
size_t fake_workers_alive(const struct workers *ws);
void fake_workers_fini(struct workers *ws);
const char *fake_worker_env(const struct worker *w, const char *name);

#endif
