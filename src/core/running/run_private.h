/* SPDX-License-Identifier: MIT */
/* run_private.h: what run.c and run_start.c share. No other file includes it. */
#ifndef HCPD_CORE_RUNNING_RUN_PRIVATE_H
#define HCPD_CORE_RUNNING_RUN_PRIVATE_H

#include "core/running/run.h"

#include "core/turn.h"

/* A process, and the session that it serves. With reuse = 1 it serves one session and ends with it. */
struct runner {
	struct runner *prev, *next; /* in core->run.runners */
	struct runner *idle_prev, *idle_next;
	struct core *core;
	struct worker *worker;
	struct policy *policy;
	const struct capability *cap;
	struct session *session; /* NULL: the process is idle, or ending */
	int served, pid;
	int64_t alone_us; /* when it was last seen to be the only process of its tree */
	bool is_idle, is_retired, is_gone;
	uint64_t dropped_lines;
	char id[ID_SIZE]; /* of a reused process: the name of its working directory and of its mark */
	char mark[ID_SIZE + 24];
};

bool runner_is_reused(const struct capability *cap);
void runner_set_idle(struct runner *r, bool idle);
/* Deletes the working directory of a reused process, which belongs to no session. */
void runner_drop_home(struct core *c, const struct runner *r);
/* Timer run.start_retry of a session: tries the start again. */
void run_retry_start(struct timer *t);

#endif
