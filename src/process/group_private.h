/* SPDX-License-Identifier: MIT */
/* group_private.h: what the files of group.h share. */
#ifndef HCPD_PROCESS_GROUP_PRIVATE_H
#define HCPD_PROCESS_GROUP_PRIVATE_H

#include "process/group.h"

#define INSTANCE "HCP_INSTANCE="
#define NO_FOREIGNERS UINT64_MAX /* value of since: no search for foreign processes */

struct member {
	int pid;
	bool foreign; /* no descendant of ours: found by its mark */
	unsigned stopped;
	uint64_t start;
	struct proc_group *proc_group; /* NULL: no group's */
	UT_hash_handle hh;
};

struct orphan {
	int pid;
	struct proc_group *proc_group;
};

/* --- group.c: the tables --- */
struct proc_group *groups_find_main(struct proc_groups *gs, int pid);
struct proc_group *groups_find_tag(struct proc_groups *gs, uint64_t tag);
struct member *groups_find_member(struct proc_groups *gs, int pid);
void groups_drop_member(struct proc_groups *gs, struct member *m);
/* A process whose owner is settled was seen. */
void groups_record_member(struct proc_groups *gs, const struct proc *p);

/* --- group_walk.c: all processes --- */
/* A walk; foreign processes are searched among those that started since then. False: /proc could not be read
 * (logged). */
bool groups_walk(struct proc_groups *gs, uint64_t since);
/* A walk, unless there was one in this turn. */
bool groups_look(struct proc_groups *gs, uint64_t since);
/* The processes of the group's cgroup are the group's in the snapshot. */
void groups_claim_cgroup(struct proc_groups *gs, struct proc_group *g);
/* The group whose mark is in the process's environment, or NULL. */
struct proc_group *groups_find_by_mark(struct proc_groups *gs, const struct proc *p);

/* --- group_gather.c: the processes of some groups --- */
/* Looks only at our children, with one small read. False: for one of them a walk is needed. */
bool groups_look_at_children(struct proc_groups *gs);
/* Is it still there? */
bool group_member_lives(struct proc_groups *gs, const struct member *m);
/* Finds processes with a mark of ours among those that started since then, unless that was done in this turn.
 * They are members afterwards. */
bool groups_search_foreigners(struct proc_groups *gs, uint64_t since);
/* Makes a snapshot that has only these groups' processes: of one group; NULL: of all that are being killed.
 * False: not all can be read. */
bool groups_gather(struct proc_groups *gs, struct proc_group *one, uint64_t since);
/* The processes of one group, or of all that are being killed, are in the snapshot afterwards; maybe others,
 * too. anew: also where this turn has a snapshot. */
bool groups_look_for(struct proc_groups *gs, struct proc_group *one, bool anew, uint64_t since);

#endif
