/* cgroup.h: a cgroup for each worker, where one may make some: the kill that nobody escapes.
 *
 * Only version 2. No controller is touched, so the daemon may stay where it is, until a limit is asked for:
 * then it moves into a group of its own beside those of the workers, since the kernel has it so. A group is
 * named by a number; 0 is none. Every function does nothing, and says so, for a NULL or for 0. */
#ifndef HCPD_CGROUP_H
#define HCPD_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

struct config_confine;
struct cgroups;
struct proctree; /* lends its spare descriptor: no group looks populated for want of one */

/* setting: "off"; "auto": our own cgroup, if systemd delegated it to us; else a directory below which groups
 * are made. NULL where there is none to use; a directory that was asked for and cannot be used is logged. */
struct cgroups *cgroups_new(const char *setting, const char *instance, struct proctree *tree);
void cgroups_free(struct cgroups *cs);
/* A new group; *procs_fd is its cgroup.procs, for a process to join. 0 with errno where it cannot be made. */
unsigned cgroup_make(struct cgroups *cs, int *procs_fd);
/* Sets the limits that f asks for, before anybody is in it. -1 with errno, and a sentence. */
int cgroup_limit(struct cgroups *cs, unsigned group, const struct config_confine *f, char *why,
	size_t why_size) __attribute__((warn_unused_result));
/* Everything in it, also in groups below it, is sent SIGKILL by the kernel, all at once. False: this kernel
 * cannot (before 5.14), or it failed: kill them one by one. */
bool cgroup_kill(struct cgroups *cs, unsigned group);
/* Is a process left in it? An unreadable one counts as left. */
bool cgroup_is_populated(struct cgroups *cs, unsigned group);
/* Every pid in it and below it. Changes nothing: groups that a worker made inside its own stay. */
void cgroup_each_pid(struct cgroups *cs, unsigned group, void (*on_pid)(void *ctx, int pid), void *ctx);
/* Must be empty; with the groups below it. */
void cgroup_remove(struct cgroups *cs, unsigned group);
/* Groups that an earlier life left: removes the empty ones, kills what is in the others, tells their pids.
 * How many are still there: call it again till it says 0. */
int cgroups_kill_leftovers(struct cgroups *cs, void (*on_pid)(void *ctx, int pid), void *ctx);

#endif
