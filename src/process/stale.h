/* SPDX-License-Identifier: MIT */
/* stale.h: processes that a previous run of the daemon left behind. */
#ifndef HCPD_PROCESS_STALE_H
#define HCPD_PROCESS_STALE_H

struct proc_groups;

/* Before the first process group is made: kills what carries HCP_INSTANCE=instance in its environment or a
 * tag of this instance, what descends from such a process, and what is in a cgroup of ours. Waits for their
 * end, 10 s at most. Returns how many there were. */
int stale_kill(struct proc_groups *groups, const char *instance);

#endif
