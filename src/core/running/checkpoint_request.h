/* SPDX-License-Identifier: MIT */
/* checkpoint_request.h: when a worker gets a request for a checkpoint, why, and whether it answers.
 *
 * One request is pending at a time. The next checkpoint counts as its answer, whether the worker means it so
 * or not. A worker that leaves two requests in a row unanswered gets no more of the daemon's own requests
 * until it makes a checkpoint. */
#ifndef HCPD_CORE_RUNNING_CHECKPOINT_REQUEST_H
#define HCPD_CORE_RUNNING_CHECKPOINT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer.h"

struct session;

/* A cause that is later in this list is sent also while an earlier one is pending. */
enum checkpoint_cause {
	CHECKPOINT_BY_WORKER,
	CHECKPOINT_BY_STEPS,
	CHECKPOINT_BY_INTERVAL,
	CHECKPOINT_BY_ADAPTIVE,
	CHECKPOINT_BY_ACTION,
	CHECKPOINT_BY_PAUSE,
	CHECKPOINT_BY_OPERATOR,
	CHECKPOINT_BY_STOP,
	CHECKPOINT_BY_COUNT
};
extern const char *const checkpoint_cause_names[CHECKPOINT_BY_COUNT]; /* as they stand in the store */

struct checkpoint_request {            /* the requests to a session's worker */
	struct timer timer;            /* for late_us and due_us: the sooner one */
	enum checkpoint_cause pending; /* the pending request; CHECKPOINT_BY_WORKER: none */
	int64_t sent_us;               /* boot clock, like all times here: when it was sent ... */
	int64_t late_us;               /* ... and from when on it is late */
	bool is_late;                  /* it is late, and was counted */
	unsigned unanswered;           /* unanswered requests in a row */
	int64_t steps;                 /* the session's steps at the last checkpoint or request */
	int64_t interval_us;           /* between two requests; changes where it is adaptive; 0: none */
	int64_t due_us;
};

void checkpoint_request_init(struct session *s);
void checkpoint_request_fini(struct session *s);
/* A worker starts: no request is pending. */
void checkpoint_request_begin(struct session *s);
/* The worker ended: its pending request will not be answered. */
void checkpoint_request_end(struct session *s);
void checkpoint_request_on_step(struct session *s);
/* The worker resumed: a request for the pause is no longer pending. */
void checkpoint_request_on_resumed(struct session *s);
/* A request of an action, an operator, a pause or a stop. The worker has a stdin. */
void checkpoint_request_send(struct session *s, enum checkpoint_cause cause);
/* The worker made a checkpoint: returns its cause. */
enum checkpoint_cause checkpoint_request_take_answer(struct session *s);
/* Adapts the interval, where it is adaptive. change: the share of the state that is new, 0 to 1. */
void checkpoint_request_adapt(struct session *s, double change);
/* Is a request pending that counts for operators? */
bool checkpoint_request_is_waiting(const struct session *s);

#endif
