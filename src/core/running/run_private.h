/* run_private.h: what run.c and run_start.c share. Nobody else includes it. */
#ifndef HCPD_RUN_PRIVATE_H
#define HCPD_RUN_PRIVATE_H

#include "core/running/run.h"

#include "core/turn.h"

/* A process, and whom it serves. One of reuse = 1 serves one session and ends with it. */
struct host {
	struct host *prev, *next; /* in core->hosts */
	struct host *idle_prev, *idle_next;
	struct core *core;
	struct worker *worker;
	struct policy *policy;
	const struct capability *cap;
	struct session *session; /* NULL: nobody now */
	int served, pid;
	bool is_idle, is_retired, is_gone;
	uint64_t dropped_lines;
	char id[ID_SIZE]; /* of a reused process: names its working directory and its mark */
	char mark[ID_SIZE + 24];
};

bool host_is_reused(const struct capability *cap);
void host_set_idle(struct host *h, bool idle);
/* A reused process has a working directory that is no session's: deleted with it. */
void host_drop_home(struct core *c, const struct host *h);
/* Timer `again` of a session: its start is tried once more. */
void run_on_again(struct timer *t);

#endif
