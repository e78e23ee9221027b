/* SPDX-License-Identifier: MIT */
/* group.h: which worker does a process belong to? A process group here is a main process and all that came
 * from it; the kernel's process groups are only one sign of that.
 *
 * A process belongs to a group by its tag, by descent, by the main process's kernel group or session, by the
 * mark in its environment (unless that has the HCP_INSTANCE of another daemon, which may host a copy of the
 * same session), by its cgroup, or because an earlier look found it there. The tag is a number in
 * a resource limit that the kernel does not enforce (proctree_tag): every process inherits it, whatever it
 * does to its parent, its session and its environment. A process with none of these signs belongs to no
 * group and is left alone: a child that the daemon had from its start, or an orphan of another program that
 * the daemon adopted as process 1 of a container.
 *
 * The daemon is a subreaper, so orphans become its children: while its only children are main processes, no
 * group has other processes left, and that is cheap to see. To signal a group, its processes are found by
 * descent: from its main process, and from its orphans. Both cost the same however many others live. Only
 * what does not come from the daemon is searched in the whole machine (outsiders.h), once a turn for all who
 * need it. */
#ifndef HCPD_PROCESS_GROUP_H
#define HCPD_PROCESS_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "process/cgroup.h"
#include "process/outsiders.h"
#include "process/proctree.h"

struct proc_group {   /* embedded in its owner */
	int pid;      /* of the main process */
	bool reaped;  /* the main process was reaped: the pid may be reused */
	bool killing; /* groups_kill kills this group */
	/* foreign processes were searched since the main process was reaped */
	bool searched;
	bool has_mark, has_pid; /* is in that table */
	bool cgroup_killed;
	unsigned cgroup;
	int children_fd;        /* of the main process, once group_is_alone was asked; -1: none */
	unsigned seen, stopped; /* number of the last check, and of the last round of killing */
	uint64_t start;         /* not later than the start of the main process */
	uint64_t tag;           /* 0: none */
	char *mark;
	struct proc_group *prev, *next;
	struct proc_group *prev_ended, *next_ended;
	UT_hash_handle by_pid, by_mark, by_tag;
};

struct member; /* a process that was seen, with its group or with none */

struct proc_groups {
	struct proctree tree;
	struct cgroups *cgroups; /* NULL: none */
	struct proc_group *all, *by_pid, *by_mark, *by_tag;
	size_t live;              /* groups whose main process was not reaped */
	struct proc_group *ended; /* groups whose main process was reaped */
	struct member *members;
	char *instance;    /* "HCP_INSTANCE=..." of our processes */
	uint64_t tag_base; /* of this instance; 0: tags cannot be used */
	uint64_t last_tag;
	struct outsiders outsiders;
	struct orphan *orphans; /* our children that are no main processes, and belong to a group */
	size_t orphan_count, orphan_room;
	bool fresh;     /* the snapshot is of this turn and has all processes, ... */
	uint64_t since; /* ... and the foreign ones that started since then */
	/* in this turn foreign processes were searched that started since then */
	uint64_t searched_since;
	unsigned check, round;
	bool readable; /* the last look for processes to signal could read /proc */
	bool unsure;   /* the last check could not read /proc */
	bool unknown;
};

/* Makes this process a subreaper. -1 with errno. */
int groups_init(struct proc_groups *gs, const char *cgroup_setting, const char *instance)
	__attribute__((warn_unused_result));
void groups_fini(struct proc_groups *gs);
/* A tag for the next process that is started; 0: none. */
uint64_t groups_next_tag(struct proc_groups *gs);
/* Has the tag the form of this instance's, of this run or another? */
bool groups_may_be_tag(const struct proc_groups *gs, uint64_t tag);
/* start: proctree_now() from before the fork. mark is copied, and may be NULL. */
void groups_add(struct proc_groups *gs, struct proc_group *g, int pid, uint64_t start, uint64_t tag,
	const char *mark, unsigned cgroup);
/* How many main processes were not reaped yet. */
size_t groups_count(const struct proc_groups *gs);
/* Also removes the group's cgroup. */
void groups_remove(struct proc_groups *gs, struct proc_group *g);
/* The snapshot is kept for a turn, so that many checks share it; this drops it. */
void groups_invalidate(struct proc_groups *gs);
/* A child was reaped: the group whose main process it was, or NULL. */
struct proc_group *groups_on_reaped(struct proc_groups *gs, int pid);

/* Finds the groups that have processes left; group_is_empty then answers for each. A group that is empty
 * after its main process was reaped stays empty. */
void groups_check(struct proc_groups *gs);
bool group_is_empty(struct proc_groups *gs, const struct proc_group *g);
/* Is the main process alive, and the only one of the group? */
bool group_lives(const struct proc_group *g);
bool group_is_alone(struct proc_groups *gs, struct proc_group *g);
/* A pid of a live process of the group; 0: none. */
int group_find_live(struct proc_groups *gs, const struct proc_group *g);
/* SIGTERM to all processes of the group, and SIGCONT, since a stopped process would not notice; to how many.
 */
int group_terminate(struct proc_groups *gs, struct proc_group *g);
/* One round: stops all processes of the groups that are being killed, until no new one is found, and then
 * kills them. */
void groups_kill(struct proc_groups *gs);

#endif
