/* SPDX-License-Identifier: MIT */
/* calls.h: the sweep over system calls: what can fail, how, and what is known of one run of hcpd in which it
 * did. calls.c plans and counts, calls_case.c plays one case and checks it, calls_watch.c makes the call
 * fail. */
#ifndef HCPD_TESTS_RELIABILITY_SWEEP_CALLS_H
#define HCPD_TESTS_RELIABILITY_SWEEP_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/rig.h"

#define KIND_CALLS_MAX 8
#define KINDS_MAX 24
#define FAULTS_MAX 6
#define DEATH (-1) /* the fault that is no errno: SIGKILL in place of the call */

/* Calls that mean the same to hcpd and are counted together, and what may come of them. */
struct kind {
	const char *name;
	int calls[KIND_CALLS_MAX]; /* numbers plus one; 0 ends them */
	int faults[FAULTS_MAX];    /* errno or DEATH; 0 ends them */
};
extern const struct kind kinds[];
extern const int kind_count;

struct fault_name {
	const char *name;
	int fault;
};
extern const struct fault_name fault_names[]; /* ends with a NULL */
const char *fault_name(int fault);

/* Threads of hcpd: the core and the two of the bus, in the order in which they are started. */
#define LANES 3
extern const char *const lane_names[LANES];

/* Lives that are watched: on a new state directory; on one whose daemon was killed in the middle of a
 * task. */
enum scene { FRESH, AGAIN, SCENES };
extern const char *const scene_names[SCENES];

/* One fault: the n-th call of a kind by a thread of hcpd, from main() on; its workers do not count. */
struct trial {
	int scene, kind, lane, fault;
	int n; /* 0: nothing fails, all kinds are counted */
};

/* What a case tells its parent; it lives in shared memory. */
struct report {
	int counts[KINDS_MAX][LANES];
	_Atomic bool hit;
	_Atomic bool spared; /* it would have been one of those that cannot fail */
	char what[400];      /* the call that failed, and on what */
	bool on_store;       /* it was about a file of the database */
	bool on_wal;         /* ... and that its log: a commit */
	char end[80];        /* what came of it */
};

/* Starts hcpd as rig_spawn does, with the fault waiting for it. */
void watch_spawn(struct rig *r, const struct trial *t, struct report *report);
/* After hcpd has ended. */
void watch_end(void);

/* The whole of a case, in a process of its own; fails as tests do (give_up). */
void case_run(const struct trial *t, struct report *report);

#endif
