/* SPDX-License-Identifier: MIT */
/* cgroup.h: a cgroup for each worker, where the daemon may make one: a kill that no process can escape.
 *
 * Only version 2. The daemon changes no controller and stays in its own group until a limit is configured;
 * then it moves into a group beside those of the workers, because the kernel requires that. A group is named
 * by a number; 0 is none. With a NULL or 0 every function does nothing and returns its value for "none". */
#ifndef HCPD_PROCESS_CGROUP_H
#define HCPD_PROCESS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

struct config_confine;
struct cgroups;
/* lends its spare descriptor, so that a group does not seem populated for lack of descriptors */
struct proctree;

/* setting: "off"; "auto": our own cgroup, if systemd delegated it; else a directory below which groups are
 * made. NULL where no cgroup can be used; a configured directory that cannot be used is logged. */
struct cgroups *cgroups_new(const char *setting, const char *instance, struct proctree *tree);
void cgroups_free(struct cgroups *cs);
/* Makes a group; *procs_fd is its cgroup.procs, for a process to join. 0 with errno where it cannot be
 * made. */
unsigned cgroup_make(struct cgroups *cs, int *procs_fd);
/* Sets the limits of f, before a process is in the group. -1 with errno, and a sentence. */
int cgroup_limit(struct cgroups *cs, unsigned group, const struct config_confine *f, char *why,
	size_t why_size) __attribute__((warn_unused_result));
/* The kernel sends SIGKILL to all processes in the group and below it, at once. False: this kernel cannot
 * (before 5.14), or it failed: kill them one by one. */
bool cgroup_kill(struct cgroups *cs, unsigned group);
/* Is a process left in the group? A group that cannot be read counts as populated. */
bool cgroup_is_populated(struct cgroups *cs, unsigned group);
/* Every pid in the group and below it. Removes no group, also none that a worker made inside its own. */
void cgroup_each_pid(struct cgroups *cs, unsigned group, void (*on_pid)(void *ctx, int pid), void *ctx);
/* Removes an empty group, with the groups below it. */
void cgroup_remove(struct cgroups *cs, unsigned group);
/* The groups of a previous run: removes the empty ones, kills the processes in the others and reports their
 * pids. How many groups are left: call it again until it returns 0. */
int cgroups_kill_stale(struct cgroups *cs, void (*on_pid)(void *ctx, int pid), void *ctx);

#endif
