/* SPDX-License-Identifier: MIT */
/* caller_private.h: a caller from inside, for caller.c (what it says) and caller_recv.c (what it gets). */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_CALLER_PRIVATE_H
#define HCPD_TESTS_RELIABILITY_TORTURE_CALLER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <uthash.h>

#include "caller.h"
#include "support/wire.h"

struct task {
	char id[40];
	struct order order;
	char *body;
	size_t size;
	int said;                    /* taken by the broker so often */
	unsigned epoch, abort_epoch; /* of the last time */
	double first_at, said_at, answered_at, abort_at, closed_at;
	bool answered, rejected, aborted;
	bool wished; /* another caller aborts it */
	uint64_t rejection;
	/* its rejection's code, where something that was done must explain it */
	char excuse[32];
	char session[40];
	char *token;
	struct heard *heard;
	UT_hash_handle hh;
};

struct heard { /* a session, by what came of it */
	struct stream stream;
	struct task *task;
	UT_hash_handle hh;
};

struct caller {
	struct caller_plan plan;
	struct rig *rig;
	struct broker broker; /* a copy: the harness writes its own anew when it restarts one */
	char id[80], queue[100];
	pthread_t sayer, hearer;
	pthread_mutex_t lock; /* all that is below */
	struct task *tasks;
	struct heard *sessions;
	struct caller_sum sum;
	unsigned seed;
	double next_at;
	FILE *tape;
	atomic_bool submits, deaf, rebind, any_order, stop;
};

/* Exchanges, the caller's queue and its binding. */
bool hearer_declare(struct caller *c, amqp_connection_state_t conn);
void *hearer_run(void *arg); /* a thread's function */

#endif
