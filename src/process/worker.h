/* worker.h: processes of sessions: started, fed, read, signalled and reaped. Knows lines, not meaning.
 *
 * A worker is a main process and everything that descends from it. It is gone once the main process was
 * reaped, no process of its tree is left, and its pipes are drained (a pipe that somebody else holds open
 * is given up after a bound). Only the core's thread calls these; no function waits, and only
 * workers_kill_leftovers may take long.
 *
 * Whose process one is: kin.h. Every process of a worker inherits a number in its soft RLIMIT_LOCKS, which
 * the kernel does not enforce; so one that shed parent, session and environment, ssh-agent for one, is still
 * known, and dies with its session. One that nobody of ours started, but a server on a worker's behalf, is
 * known by `mark` in its environment, if it started before the worker's end. Not known, unless there is a
 * cgroup, is only what set that limit anew and shed parent and environment besides; or, where /proc is
 * mounted with hidepid and without NoNewPrivileges, a set-user-ID or set-group-ID program that did the
 * latter.
 *
 * Every child of this process is reaped here, orphans that it adopts and children that it had from the start
 * too; those two are never signalled unless they are known for a worker's. A helper of any kind is started
 * with worker_start, never with fork, popen or system elsewhere. The daemon ignores SIGPIPE. */
#ifndef HCPD_WORKER_H
#define HCPD_WORKER_H

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
	 * gone when the callback returns. */
	void (*on_line)(
		struct worker *w, enum worker_stream s, const char *line, size_t size, enum line_kind kind);
	void (*on_eof)(struct worker *w, enum worker_stream s);
	/* The main process was reaped: a wait(2) status. Its children may live, its pipes may hold output. */
	void (*on_exit)(struct worker *w, int status);
	/* Gone, in the sense above. Last call; free it in the sweep. */
	void (*on_gone)(struct worker *w);
	/* SIGKILL was sent and something still lives after 10 s: an alarm, once. */
	void (*on_stuck)(struct worker *w, int pid);
};

/* Variables of the daemon's own environment, NAME=value, that a program which it starts gets too. */
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
	const char *mark; /* "HCP_SESSION_ID=..." : whoever has it in its environment is ours */
	void *owner;
	const struct worker_ops *ops; /* NULL: those of workers_new; a loan for its life */
};

/* Makes this process a subreaper. loop must not be libev's default loop: that one reaps children itself. NULL
 * where there is no /proc (logged). */
struct workers *workers_new(struct ev_loop *loop, struct timers *timers, const struct config *config,
	const char *instance, const struct worker_ops *ops);
/* Kills and frees what is left, without waiting. */
void workers_free(struct workers *ws);
/* Before recovery: kills every process with HCP_INSTANCE=instance in its environment, with a number of ours
 * in its RLIMIT_LOCKS, or in a cgroup of ours, and waits for their end (bounded; logs what would not die).
 * Returns how many there were. */
int workers_kill_leftovers(struct workers *ws);
/* While held no pipe is read, no child reaped, no callback made; what a worker was sent is still written to
 * it. What was due meanwhile comes after the release, from the loop. */
void workers_hold(struct workers *ws, bool hold);
/* Beginning of a turn: reading has a budget, so that a turn's batch stays bounded: 4 MiB, and 16,384 lines.
 */
void workers_new_turn(struct workers *ws);
/* From the loop's SIGCHLD watcher. */
void workers_reap(struct workers *ws);
/* 0 once the program was executed. Else -1, nothing is left behind, and `why` is a sentence: no such program,
 * no descriptors, no processes. Needs three descriptors that stay (two without stdin) and a few for a
 * moment; ending workers needs none. */
int worker_start(struct workers *ws, const struct worker_spec *spec, struct worker **out, char *why,
	size_t why_size) __attribute__((warn_unused_result));

void *worker_owner(const struct worker *w);
void worker_set_owner(struct worker *w, void *owner);
int worker_pid(const struct worker *w);
/* Appends to what is written to its stdin as it takes it. Ignored once stdin is closed or broken. */
void worker_write(struct worker *w, const void *data, size_t size);
size_t worker_unwritten(const struct worker *w);
void worker_close_stdin(struct worker *w);     /* after what is queued */
bool worker_has_stdin(const struct worker *w); /* open, and not about to be closed */
/* Back-pressure: leave the pipes unread. Some lines that were already read still come, and, once no process
 * of its is left, what the pipes hold. */
void worker_pause_reading(struct worker *w, bool pause);
/* The ladder: SIGTERM to the tree at term_at_us, SIGKILL at kill_at_us (boot clock; the past means now).
 * Called again it only brings things forward. Once killed, it goes on killing until all are gone. */
void worker_end(struct worker *w, int64_t term_at_us, int64_t kill_at_us);
bool worker_is_ending(const struct worker *w);
bool worker_has_exited(const struct worker *w); /* the main process was reaped */
/* Is the main process alive and the only one of its tree? Costs one small read in the common case. */
bool worker_is_alone(struct worker *w);
/* Only after on_gone. */
void worker_free(struct worker *w);

/* --- working directories --- */

/* state_dir/work/SESSION, mode 0700, made unless there; task (may be NULL) goes to a file task.json in
 * it. path gets the directory. 0, or -1 with errno. */
int workdir_make(const char *state_dir, const char *session_id, const void *task, size_t task_size,
	char *path, size_t path_size) __attribute__((warn_unused_result));
/* Removes it where it is as good as empty; else moves it aside, to be deleted in slices by workdir_sweep, so
 * that a large tree stalls nobody. True: there is something to sweep. */
bool workdir_remove(const char *state_dir, const char *session_id);
/* Deletes at most about `entries`; true while there is more to do. What cannot be deleted is left, until the
 * next start or until something is removed. */
bool workdir_sweep(const char *state_dir, int entries);
/* At start: of what a crash left in state_dir/work, every entry that is named as a session would be and that
 * is_known does not want goes the way of workdir_remove; what is named otherwise stays. How many that were:
 * if any, there is something to sweep. */
int workdir_collect(const char *state_dir, bool (*is_known)(void *ctx, const char *name), void *ctx);

#endif
