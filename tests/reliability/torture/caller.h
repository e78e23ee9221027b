/* SPDX-License-Identifier: MIT */
/* caller.h: a caller with a will of its own: submits, repeats, aborts, and keeps what it gets.
 * Two threads each, one that says and one that hears, so that a stuck broker stops one thing at a time. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_CALLER_H
#define HCPD_TESTS_RELIABILITY_TORTURE_CALLER_H

#include <stdbool.h>
#include <stddef.h>

#include "load.h"
#include "support/rig.h"
#include "stream.h"

struct caller;

struct caller_plan {
	const char *name;
	unsigned seed;
	double rate;            /* submits a second */
	int most_open;          /* submitted and not over */
	bool gentle;            /* the soak's mix; what is over is checked and forgotten */
	const char *queue_args; /* "": none; "x-max-length=15,x-overflow=reject-publish" */
	bool keep_tape;         /* every message in a file of the rig's directory */
};

struct caller_sum {
	long submits, answered, rejected, sessions, closed, aborts, repeats, messages;
	long completed, failed, aborted;
};

/* Its queue is there when this returns; it says nothing before caller_go. */
struct caller *caller_new(struct rig *r, const struct caller_plan *plan);
void caller_go(struct caller *c, bool submits); /* or stops submitting; the rest goes on */
/* A queue full of what nobody takes: it stops hearing, or hears again. */
void caller_hear(struct caller *c, bool on);
/* From now on: what found no queue comes later, behind what came after it. */
void caller_expect_disorder(struct caller *c);
/* Makes exchanges and bindings again, after a fault deleted them. */
void caller_bind_again(struct caller *c);
/* Commands that the broker had taken may be lost from now on: unanswered ones are said again. For all
 * callers. */
void callers_may_repeat(void);
/* One submit of its own, now; the message_id goes to id. The probes of intake. */
void caller_submit_one(struct caller *c, const struct order *o, char id[40]);
/* Its session and token once accepted. */
bool caller_find(struct caller *c, const char *id, char session[40], char token[2048]);
/* Another caller is going to abort it. */
void caller_expect_abort(struct caller *c, const char *id);
bool caller_is_over(struct caller *c); /* everything answered and closed */
struct caller_sum caller_sum(struct caller *c);
const char *caller_name(const struct caller *c);

/* A session that ended FAILED, or a task that was rejected, although nothing of its own kind explains it; it
 * lived from..to (harness_now). why: FAILED, or the code of the rejection. */
typedef void caller_failed_fn(
	void *ctx, const char *session, const char *kind, const char *why, double from, double to);
/* Ends the threads and checks everything; each session once to fn (may be NULL). */
void caller_check(struct caller *c, caller_failed_fn *fn, void *ctx);
/* Each submit that the broker took: for comparison with the store. */
typedef void caller_submit_fn(void *ctx, const char *caller, const char *message_id, const char *session);
void caller_each(struct caller *c, caller_submit_fn *fn, void *ctx);
void caller_free(struct caller *c);

#endif
