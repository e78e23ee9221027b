/* kin.h: whose process is it? A kin is a main process and all that came from it.
 *
 * A process belongs to a kin by its tag, by descent, by the main process's group or session, by the mark in
 * its environment, by its cgroup, or because an earlier look found it there. The tag is a number in a
 * resource limit that nobody uses (proctree_tag): every process inherits it, whatever it does to its parent,
 * its session and its environment. What has none of these is nobody's and is left alone: a child that this
 * process inherited, what a stranger's orphan left to it as process 1 of a container.
 *
 * This process is a subreaper, so that orphans become its children: where it has no child but main processes,
 * nobody has anything left behind, and that is cheap to see. */
#ifndef HCPD_KIN_H
#define HCPD_KIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "process/cgroup.h"
#include "process/proctree.h"

struct kin {           /* embedded in what it belongs to */
	int pid;       /* of the main process */
	bool reaped;   /* it is no more: the pid may be another's */
	bool doomed;   /* kins_kill kills it */
	bool searched; /* since it was reaped, those who do not descend from us were looked through */
	bool has_mark, has_pid; /* is in the table */
	bool cgroup_killed;
	unsigned cgroup;
	unsigned seen, stopped; /* in which check, in which round of killing */
	uint64_t start;         /* not later than the main process's */
	uint64_t tag;           /* 0: none */
	char *mark;
	struct kin *prev, *next;
	struct kin *prev_ended, *next_ended;
	UT_hash_handle by_pid, by_mark, by_tag;
};

struct member; /* a process that was seen to belong to a kin, or to nobody */

struct kins {
	struct proctree tree;
	struct cgroups *cgroups; /* NULL: none */
	struct kin *all, *by_pid, *by_mark, *by_tag;
	struct kin *ended; /* whose main process was reaped */
	struct member *members;
	uint64_t tag_base; /* of this instance; 0: there can be no tags */
	uint64_t last_tag;
	bool fresh;     /* the snapshot is of this turn ... */
	uint64_t since; /* ... and foreigners that started since then are in it, too */
	unsigned check, round;
	bool unsure; /* the last check could not look */
	bool unknown;
};

/* Makes this process a subreaper. -1 with errno. */
int kins_init(struct kins *ks, const char *cgroup_setting, const char *instance)
	__attribute__((warn_unused_result));
void kins_fini(struct kins *ks);
/* For the next process that is started; 0: none. */
uint64_t kins_next_tag(struct kins *ks);
/* Does it look like one of this instance, of this life or another? */
bool kins_may_be_tag(const struct kins *ks, uint64_t tag);
/* start: proctree_now() from before the fork. mark is copied, and may be NULL. */
void kins_add(struct kins *ks, struct kin *k, int pid, uint64_t start, uint64_t tag, const char *mark,
	unsigned cgroup);
/* Also removes its cgroup. */
void kins_remove(struct kins *ks, struct kin *k);
/* The snapshot is kept for a turn, so that many share it. */
void kins_forget(struct kins *ks);
/* A child was reaped: the kin whose main process it was, or NULL. */
struct kin *kins_on_reaped(struct kins *ks, int pid);

/* Looks who has processes left; kin_is_empty then answers for each. Once empty after its main process was
 * reaped, a kin stays empty. */
void kins_check(struct kins *ks);
bool kin_is_empty(struct kins *ks, const struct kin *k);
/* Is the main process alive, and the only one? */
bool kin_is_alone(struct kins *ks, struct kin *k);
/* A pid of its that lives; 0: none. */
int kin_find_live(struct kins *ks, const struct kin *k);
/* To all its processes; how many that were. */
int kin_signal(struct kins *ks, struct kin *k, int sig);
/* One round: all processes of all doomed kins are stopped, until no new one is found, and then killed. */
void kins_kill(struct kins *ks);

/* Before the first kin: kills what carries HCP_INSTANCE=instance in its environment or a tag of this
 * instance, what descends from such a process, and what is in a cgroup of ours; waits for their end, 10 s at
 * most. How many there were. */
int leftovers_kill(struct kins *ks, const char *instance);

#endif
