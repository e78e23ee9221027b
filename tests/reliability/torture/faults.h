/* SPDX-License-Identifier: MIT */
/* faults.h: the kinds of bad luck, as data. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_FAULTS_H
#define HCPD_TESTS_RELIABILITY_TORTURE_FAULTS_H

#include <stdbool.h>

#include "nemesis.h"

#define FAULT_DETAIL 120
#define FAULTS_MAX 40

enum group { DAEMON, WORKER, BROKER, NETWORK, DISK, DESCRIPTORS, CLOCK, CALLER, PROGRAM };
/* What it explains: sessions that fail, tasks that are denied for want of the program, tasks that the
 * policy forbids. */
enum { FAILS = 1, DENIES = 2, FORBIDS = 4 };

struct fault {
	const char *name;
	enum group group;            /* what it is about: two of one group do not overlap */
	double least, most;          /* seconds */
	bool (*begin)(char *detail); /* FAULT_DETAIL bytes; false: cannot be done here, detail says why */
	void (*end)(void);
	bool hampers; /* the daemon cannot act meanwhile */
	unsigned explains;
};

extern const struct fault faults[];
extern const int fault_count;

/* For the start and the end of a run, too: ready when it returns; ended, politely. What fails is reported. */
void faults_start_daemon(const struct nemesis_world *world);
void faults_stop_daemon(const struct nemesis_world *world);

/* From now on sessions leave the store soon after their end. */
void faults_let_go(const struct nemesis_world *world);

void faults_use(const struct nemesis_world *world, unsigned *dice);
bool faults_have_killed(void); /* the daemon is away by our doing */
void faults_revive_daemon(void);

#endif
