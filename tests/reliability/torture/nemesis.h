/* SPDX-License-Identifier: MIT */
/* nemesis.h: bad luck, chosen by seed: each fault begins, lasts a bounded time, and ends. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_NEMESIS_H
#define HCPD_TESTS_RELIABILITY_TORTURE_NEMESIS_H

#include "caller.h"
#include "support/rig.h"

struct nemesis_world {
	struct rig *rig; /* running, behind the proxy */
	struct broker *broker;
	struct caller *well;           /* one that may be asked for more */
	struct caller *full;           /* whose queue refuses what does not fit */
	struct caller *probe;          /* asks whether intake works */
	struct caller *const *callers; /* all of them */
	int caller_count;
	double abort_timeout_s;
	/* of the daemon's wall clock, nanoseconds; NULL: cannot be done here */
	volatile int64_t *skew;
	const char *only; /* names of faults, with commas; NULL: all of them */
	/* the state directory is a file system of its own, that can be filled */
	bool own_disk;
};

struct nemesis_sum {
	int faults, kinds, all_kinds;
	double slowest_intake;
};

/* Strikes until the seconds are over; everything works again when it returns, or was reported. Called
 * again, the sum goes on. */
struct nemesis_sum nemesis_run(const struct nemesis_world *w, unsigned seed, double seconds);
/* May what was done be the reason of this (FAILED, policy_denied, forbidden) to a task that lived
 * from..to? */
bool nemesis_explains(const char *what, double from, double to);

#endif
