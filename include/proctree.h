/* proctree.h: what /proc says: a snapshot of all processes, one's own children, environments; and signals that
 * cannot hit a stranger. Knows nothing of workers. */
#ifndef HCPD_PROCTREE_H
#define HCPD_PROCTREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc {
	int pid, ppid, pgid, sid;
	uint64_t start;                 /* clock ticks since boot: with the pid it names one process for ever */
	bool dead;                      /* a zombie: nothing left to signal or to wait for but its parent */
	/* For whoever asked for the snapshot to fill: */
	bool settled;                   /* the two below are final */
	bool ours;                      /* descends from this process */
	void *owner;                    /* whose it is */
};

struct proctree {
	struct proc *procs;             /* by pid, ascending */
	size_t count, room;
	DIR *dir;                       /* /proc */
	int self;                       /* our pid */
	int children_fd[2];             /* our threads' lists of children; -1: none */
	int spare_fd;                   /* given up for a moment where descriptors ran out: killing must go on */
	char *text;                     /* an environment, while it is looked at */
	size_t text_room;
};

/* For the thread that starts the processes. -1 with errno: no /proc. */
int proctree_init(struct proctree *t) __attribute__((warn_unused_result));
void proctree_fini(struct proctree *t);
/* A fresh snapshot. Costs some microseconds a process. -1: /proc could not be read. */
int proctree_walk(struct proctree *t) __attribute__((warn_unused_result));
struct proc *proctree_find(struct proctree *t, int pid);
/* The snapshot's parent of p; NULL: it has none that is known. Looks again where p was given a new one
 * while the snapshot was taken. */
struct proc *proctree_parent(struct proctree *t, struct proc *p);
/* One process, now. False with errno: there is none (ENOENT, ESRCH), or it cannot be looked at. */
bool proctree_look(struct proctree *t, int pid, struct proc *out);

/* Our own children, zombies and adopted orphans too: a few microseconds, no walk. -1: this kernel does not
 * tell. Stops where on_child says so. Exact as long as nobody reaps meanwhile. */
int proctree_children(struct proctree *t, bool (*on_child)(void *ctx, int pid), void *ctx);
/* Has process pid children of its own? 1, 0, or -1: not known. */
int proctree_has_children(struct proctree *t, int pid);
/* Every variable of a process, NAME=value, until on_var says false. False: it could not be read. */
bool proctree_environ(struct proctree *t, int pid, bool (*on_var)(void *ctx, const char *var), void *ctx);
/* To exactly that process. 0, or -1 with errno (ESRCH: it is gone). */
int proctree_signal(struct proctree *t, int pid, uint64_t start, int sig);
/* A descriptor that becomes readable when exactly that process ends; -1 with errno. */
int proctree_open(struct proctree *t, int pid, uint64_t start);
/* Now, in the unit of `start`; not later than the start of a process forked after this call. */
uint64_t proctree_now(void);

#endif
