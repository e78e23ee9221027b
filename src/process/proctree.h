/* SPDX-License-Identifier: MIT */
/* proctree.h: reads /proc: a snapshot of all processes, the daemon's own children, environments; and sends
 * signals that cannot hit a wrong process. Knows nothing of workers. */
#ifndef HCPD_PROCESS_PROCTREE_H
#define HCPD_PROCESS_PROCTREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_HIDDEN UINT64_MAX /* the start of a child of ours that /proc does not show */

struct proc {
	int pid, ppid, pgid, sid;
	/* clock ticks since boot: with the pid it identifies one process for ever */
	uint64_t start;
	bool dead; /* a zombie: nothing left to signal or to wait for but its parent */
	/* For the caller of proctree_walk to fill: */
	bool settled; /* the two below are final */
	bool ours;    /* descends from this process */
	void *owner;  /* what the process belongs to */
};

struct proctree {
	struct proc *procs; /* by pid, ascending */
	size_t count, room;
	DIR *dir;           /* /proc */
	int self;           /* our pid */
	int children_fd[2]; /* our threads' lists of children; -1: none */
	int others_fd;      /* the list of a thread that has no orphans, only what it started; -1: none */
	int loadavg_fd;     /* -1: none */
	/* closed for a moment where no other descriptor is left: killing must go on */
	int spare_fd;
	char *text; /* an environment or another file, while it is read */
	size_t text_room;
};

/* For the thread that starts the processes. -1 with errno: no /proc. */
int proctree_init(struct proctree *t) __attribute__((warn_unused_result));
void proctree_fini(struct proctree *t);
/* That thread starts processes, too. They are in a walk, and not in proctree_children. -1 with errno. */
int proctree_add_thread(struct proctree *t, int tid) __attribute__((warn_unused_result));
void proctree_drop_thread(struct proctree *t); /* it has no children any more */
/* A fresh snapshot. Costs some microseconds a process. Our own children are all in it, also those that /proc
 * hides from us (hidepid, ProtectProc=). -1: /proc could not be read. */
int proctree_walk(struct proctree *t) __attribute__((warn_unused_result));
struct proc *proctree_find(struct proctree *t, int pid);
/* The parent of p in the snapshot; NULL: none is known. Looks again where p got a new parent while the
 * snapshot was taken. */
struct proc *proctree_parent(struct proctree *t, struct proc *p);
/* Reads one process now. False with errno: there is none (ENOENT, ESRCH), or it cannot be read. */
bool proctree_look(struct proctree *t, int pid, struct proc *out);

/* Our own children, also zombies and adopted orphans: a few microseconds, no walk. -1: this kernel has no
 * such list. on_child ends it with false. Exact as long as no child is reaped meanwhile. */
int proctree_children(struct proctree *t, bool (*on_child)(void *ctx, int pid), void *ctx);
/* A child of ours, adopted or not: 1 it is alive, 0 it is a zombie, -1 there is none. */
int proctree_child_lives(int pid);
/* The newest pid of the machine, of a process or a thread; -1: not known. */
int proctree_last_pid(struct proctree *t);
/* How many processes and threads the machine has started since its boot. -1: not known. */
int64_t proctree_forks(struct proctree *t);
/* Every pid that /proc lists, until on_pid returns false with errno. -1 with errno. */
int proctree_each_pid(struct proctree *t, bool (*on_pid)(void *ctx, int pid), void *ctx);
/* The list of what the first thread of process pid started, for a process that is looked at often; -1: none.
 * It stays that process's, whatever that executes; of a later process with the same pid it shows nothing. */
int proctree_open_children(struct proctree *t, int pid);
/* The children of process pid, of all its threads; on_child ends it with false. -1: not known. kept_fd: from
 * the function above, or -1. */
int proctree_each_child(
	struct proctree *t, int pid, int kept_fd, bool (*on_child)(void *ctx, int pid), void *ctx);
/* Instead of a walk, a snapshot of chosen processes. Begin it empty, add, and tidy it before a find. An added
 * one that is there already goes with the tidying. False with errno: there is no such process, or it cannot
 * be read. */
void proctree_clear(struct proctree *t);
bool proctree_add(struct proctree *t, int pid);
void proctree_tidy(struct proctree *t);
/* Every variable of a process, NAME=value, until on_var returns false. False: it could not be read. */
bool proctree_environ(struct proctree *t, int pid, bool (*on_var)(void *ctx, const char *var), void *ctx);
/* The process's soft RLIMIT_LOCKS: a limit that the kernel stores, passes on to every child and shows, and
 * has not enforced since 2.4. Survives exec, setsid and the loss of parent and environment. 0: not known. */
uint64_t proctree_tag(struct proctree *t, int pid);
/* Signals exactly that process; a hidden one must be our child. 0, or -1 with errno (ESRCH: it is gone). */
int proctree_signal(struct proctree *t, int pid, uint64_t start, int sig);
/* A descriptor that becomes readable when exactly that process ends; -1 with errno. */
int proctree_open(struct proctree *t, int pid, uint64_t start);
/* openat(2), and close(2), with the spare descriptor where there is no other; one at a time. */
int proctree_open_spare(struct proctree *t, int dir, const char *path, int flags);
void proctree_close_spare(struct proctree *t, int fd);
/* Now, in the unit of `start`; not later than the start of a process forked after this call. */
uint64_t proctree_now(void);

#endif
