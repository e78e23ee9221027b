/* SPDX-License-Identifier: MIT */
/* launch.h: starts one process fast, without anything of the daemon's left in it. */
#ifndef HCPD_PROCESS_LAUNCH_H
#define HCPD_PROCESS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config_confine;
struct forker;

struct launch {
	char *const *argv; /* argv[0] is searched in env's PATH where it has no slash */
	char *const *env;
	const char *workdir;
	int fds[3];                           /* become 0, 1 and 2; each above 2; they stay the caller's */
	int cgroup_fd;                        /* a cgroup.procs open for writing, or -1 */
	const struct config_confine *confine; /* NULL: only what every worker gets */
	uint64_t tag;                         /* becomes its soft RLIMIT_LOCKS (proctree_tag); 0: none */
	struct forker *forker;                /* NULL: the calling thread starts it */
	bool cgroup_failed;                   /* out: joining the cgroup failed */
};

/* The pid once the program was executed; else -1 with errno, and a sentence in `why`. The child is a process
 * group of its own, dies with the thread that starts it, has default signals, an empty mask, umask 077, no
 * ambient capabilities and at most 1024 descriptors; the restrictions of `confine` hold before the program
 * runs. Only one thread may call this. A signal that is ignored must be so from the first call on. */
int launch_process(struct launch *s, char *why, size_t why_size) __attribute__((warn_unused_result));

struct launch_pipes { /* theirs[i] is for the child's descriptor i */
	int ours[3], theirs[3];
};

/* Our ends do not block, the child's do; all are above 2 and close on exec. Without stdin theirs[0] is
 * /dev/null and ours[0] is -1. -1 with errno, and nothing is open. */
int launch_pipes_open(struct launch_pipes *p, bool has_stdin) __attribute__((warn_unused_result));
void launch_pipes_close(int fds[3]); /* either side; errno stays */

/* Are there descriptors for another worker, beside a reserve? The reserve is for what must go on while
 * workers cannot start: ending processes, operators, the store, the broker. False with errno, EMFILE or
 * ENFILE. */
bool launch_has_descriptors(void);

#endif
