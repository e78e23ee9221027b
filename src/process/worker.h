/* SPDX-License-Identifier: MIT */
/* worker.h: a worker's processes: started, fed, read, signalled and reaped. Knows lines, not their
 * meaning.
 *
 * A worker is a main process and everything that descends from it. It is gone when the main process was
 * reaped, no process of its tree is left, and its pipes are drained (a pipe that a foreign process holds
 * open is closed after a limit). Only the core's thread calls these functions; no function waits, and only
 * workers_kill_stale may take long.
 *
 * group.h decides which worker a process belongs to. Every process of a worker inherits a number in its soft
 * RLIMIT_LOCKS, which the kernel does not enforce; so a process that left its parent, session and
 * environment, for example ssh-agent, is still found, and dies with its session. A process that another
 * daemon started on a worker's behalf is found by `mark` in its environment, if it started before the
 * worker's end. Without a cgroup, two kinds are not found: a process that set that limit anew and left its
 * parent and environment; and, where /proc is mounted with hidepid and without NoNewPrivileges, a
 * set-user-ID or set-group-ID program that left its parent and environment.
 *
 * Every child of the daemon is reaped here, also adopted orphans and children that the daemon had from its
 * start; those two are never signalled unless they belong to a worker. Every helper is started with
 * worker_start, never with fork, popen or system elsewhere. The daemon ignores SIGPIPE. */
#ifndef HCPD_PROCESS_WORKER_H
#define HCPD_PROCESS_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/config.h"
#include "base/id.h"
#include "base/line_reader.h"
#include "base/timer.h"

struct ev_loop;
struct workers; /* all of them */
struct worker;

enum worker_stream { WORKER_STDOUT, WORKER_STDERR };

/* Called from the loop: from pipe watchers, timers and workers_reap, never from inside another function of
 * this header; a callback may call any of them but worker_free, workers_free and workers_reap. */
struct worker_ops {
	/* A line without its newline (a last one without a newline counts). LINE_TOO_LONG: it was over
	 * max_line, or did not go on while others waited for its memory, and was thrown away; line holds its
	 * beginning, 1 KiB at most, for the message. The bytes are not NUL-terminated, may hold NULs, and are
	 * gone when the callback returns (but see worker_keep_line). */
	void (*on_line)(
		struct worker *w, enum worker_stream s, const char *line, size_t size, enum line_kind kind);
	void (*on_eof)(struct worker *w, enum worker_stream s);
	/* The main process was reaped: a wait(2) status. Its children may live, its pipes may hold output. */
	void (*on_exit)(struct worker *w, int status);
	/* The worker is gone, as defined above. The last call; free the worker in the sweep. */
	void (*on_gone)(struct worker *w);
	/* SIGKILL was sent and a process still lives after 10 s: an alarm, once. */
	void (*on_stuck)(struct worker *w, int pid);
};

/* Variables of the daemon's environment, NAME=value, that the programs which it starts get too. */
static inline bool worker_passes_on(const char *var)
{
	static const char *const names[] = {"PATH=", "LANG=", "LC_", "TZ=", "HOME="};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(var, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

struct worker_spec {
	char *const *argv; /* argv[0] is searched in PATH where it has no slash */
	char *const *env;  /* complete, NULL-terminated */
	const char *workdir;
	bool has_stdin;                       /* false: /dev/null */
	const struct config_confine *confine; /* NULL: nothing more than every worker gets */
	const char *mark; /* "HCP_SESSION_ID=...": a process with this in its environment is the worker's */
	void *owner;
	const struct worker_ops *ops; /* NULL: those of workers_new; borrowed until worker_free */
};

/* Makes this process a subreaper. loop must not be libev's default loop, which reaps children itself. NULL
 * where there is no /proc (logged). */
struct workers *workers_new(struct ev_loop *loop, struct timers *timers, const struct config *config,
	const char *instance, const struct worker_ops *ops);
/* Kills and frees the workers that are left, without waiting. */
void workers_free(struct workers *ws);
/* Before recovery: kills every process with HCP_INSTANCE=instance in its environment, with a tag of ours in
 * its RLIMIT_LOCKS, or in a cgroup of ours, and waits for their end (bounded; logs the processes that do not
 * die). Returns how many there were. */
int workers_kill_stale(struct workers *ws);
/* While held, no pipe is read, no child reaped, no callback made; queued input is still written to workers.
 * What was due meanwhile comes after the release, from the loop. */
void workers_hold(struct workers *ws, bool hold);
/* Beginning of a turn: reading has a budget, so that a turn's batch stays bounded: 4 MiB, 16,384 lines, and
 * the time of a slice. */
void workers_new_turn(struct workers *ws);
/* From the loop's SIGCHLD watcher. */
void workers_reap(struct workers *ws);
/* 0 once the program was executed. Else -1, nothing is left behind, and `why` is a sentence: no such
 * program, no descriptors, no processes. Needs three descriptors for the worker's run (two without stdin; one
 * more once worker_is_alone was asked)
 * and a few for a moment; ending workers needs none. */
int worker_start(struct workers *ws, const struct worker_spec *spec, struct worker **out, char *why,
	size_t why_size) __attribute__((warn_unused_result));

void *worker_owner(const struct worker *w);
void worker_set_owner(struct worker *w, void *owner);
int worker_pid(const struct worker *w);
/* Queues data for the worker's stdin. Ignored once stdin is closed or broken. */
void worker_write(struct worker *w, const void *data, size_t size);
size_t worker_unwritten(const struct worker *w);
void worker_close_stdin(struct worker *w);     /* after the queued data */
bool worker_has_stdin(const struct worker *w); /* open, and not about to be closed */
/* Back-pressure: leaves the pipes unread. Some lines that were already read still come, and, when no process
 * of the worker is left, the rest of the pipes. */
void worker_pause_reading(struct worker *w, bool pause);
/* Only in on_line, with a line longer than LINES_READ_MAX: its bytes stay until worker_let_line_go. Meanwhile
 * its pipe is not read, no later line of it is handed out, and the worker is not gone. */
void worker_keep_line(struct worker *w, enum worker_stream s, const char *line);
/* Only from the loop, outside of callbacks. */
void worker_let_line_go(struct worker *w, enum worker_stream s);
/* Is a long line under way on its stdout: begun and not ended, or waiting for memory? */
bool worker_is_mid_line(const struct worker *w);
/* The escalation: SIGTERM to the tree at term_at_us, SIGKILL at kill_at_us (boot clock; the past means now).
 * A second call can only make them earlier. After SIGKILL, killing goes on until all processes are gone. */
void worker_end(struct worker *w, int64_t term_at_us, int64_t kill_at_us);
bool worker_is_ending(const struct worker *w);
bool worker_has_exited(const struct worker *w); /* the main process was reaped */
/* Is the main process alive? Also where its end was not handled yet. */
bool worker_lives(const struct worker *w);
/* Is the main process alive and the only one of its tree? Four system calls in the common case. */
bool worker_is_alone(struct worker *w);
/* Only after on_gone. */
void worker_free(struct worker *w);

#endif
