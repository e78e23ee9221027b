/* SPDX-License-Identifier: MIT */
/* answers.c: how many rejections without a session are remembered, and when their rows go.
 * Owns their number. A submit is forgotten in one turn, and its answer's row dropped in a later one: the
 * first turn may send the answer again. Never touches a row that has a session. */
#include "core/admission/answers.h"

#include <stdio.h>

#include "core/turn.h"

/* A row of an answer with its submit takes about 1 KiB, and 8 KiB at most: 50 MB, and 400 MB at most.
 * Callers that follow the protocol send a submit again within seconds, so this is enough also in a flood. */
#define ANSWERS_MAX 50000
#define FORGET_STEP 2 /* more than come in */
#define SWEEP_STEP 4  /* more than are forgotten: some are not settled yet */
#define SLICE 200

int answers_init(struct core *c, char *why, size_t why_size)
{
	c->answers.most = ANSWERS_MAX;
	c->answers.count = store_count_answers(c->store);
	if (c->answers.count < 0)
		snprintf(why, why_size, "the answers in the store cannot be read: %s", store_error(c->store));
	return c->answers.count < 0 ? -1 : 0;
}

void answers_drop(struct core *c, int64_t event)
{
	if (event > c->answers.forgotten && c->answers.count > 0)
		c->answers.count--;
	store_drop_answer(c->store, event);
}

static bool forget_one(void *ctx, const struct store_answer *a)
{
	struct core *c = ctx;

	if (a->message_id != NULL)
		store_forget_submit(c->store, a->caller, a->message_id, a->id);
	c->answers.forgotten = a->id;
	c->answers.count--;
	return c->answers.count > c->answers.most;
}

/* False: the store cannot be read now; a later turn goes on here. */
static bool forget(struct core *c, int limit)
{
	return c->answers.count <= c->answers.most ||
		store_load_answers(c->store, c->answers.forgotten, INT64_MAX, limit, forget_one, c) == 0;
}

struct sweep {
	struct core *c;
	int rows;
};

/* The rows are in the order in which they are forgotten: none goes behind one that is remembered. */
static bool sweep_one(void *ctx, const struct store_answer *a)
{
	struct sweep *s = ctx;
	struct core *c = s->c;

	if (a->is_remembered)
		return false;
	s->rows++;
	c->answers.swept = a->id;
	/* An unroutable one still waits for a queue, unless there are too many. */
	if (a->is_settled && (!a->is_unroutable || a->id <= c->answers.forgotten)) {
		answers_drop(c, a->id);
		if (a->caller_id != NULL) /* under [caller *] names can be made up without end */
			outbox_drop_caller(c->outbox, a->caller, a->caller_id);
	}
	return true;
}

/* True: there may be more. */
static bool sweep(struct core *c, int64_t upto, int limit)
{
	struct sweep s = {c, 0};

	return store_load_answers(c->store, c->answers.swept, upto, limit, sweep_one, &s) == 0 &&
		s.rows == limit;
}

void answers_added(struct core *c)
{
	c->answers.count++;
	if (c->answers.count > c->answers.most && forget(c, FORGET_STEP))
		sweep(c, c->answers.forgotten, SWEEP_STEP);
}

bool answers_tidy(struct core *c)
{
	bool more = forget(c, SLICE) && sweep(c, INT64_MAX, SLICE);

	if (!more)
		c->answers.swept = 0; /* those that were not settled may be so the next time */
	return more;
}
