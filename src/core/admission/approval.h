/* review.h: tasks that wait for a human: what he is asked, what he answered, and what becomes of the task.
 *
 * A task that waits is a PENDING session of which nothing was said to its caller. What is asked is a review:
 * a HARP artifact that has the whole task in it. A decision counts as harp.h says, under the keys of now; an
 * allow lets the gate look at the task once more, under the policy of now, and only then accepts it. The
 * review, the decision, the answer and the session's row change in one transaction: what was decided is used
 * up, or was not decided. */
#ifndef HCPD_REVIEW_H
#define HCPD_REVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/message.h"
#include "policy/gate.h"

struct addressee;
struct ask;
struct core;
struct session;

/* Makes the session and asks. NULL, with a sentence: the task cannot be shown to a human, and nothing
 * happened. */
struct session *review_begin(struct core *c, const struct command *cmd, const struct verdict *v,
	struct addressee *to, char *why, size_t why_size);
/* For consult.c: the same for a session that waited for the policy program. False: the sentence, and nothing
 * happened. */
bool review_take_over(
	struct session *s, const struct verdict *v, const struct task *task, char *why, size_t why_size);
/* The request that was made for it; NULL: none. */
const char *review_request(const struct session *s);
/* A session of an earlier life that waits, waits on. -1: the store cannot be read. */
int review_recover(struct session *s) __attribute__((warn_unused_result));
void review_forget(struct session *s); /* it is about to be freed */

/* For operate.c: a decision came, and the ask gets its answer. False: the store cannot be read, nothing
 * happened. */
bool review_decide(struct core *c, struct ask *a) __attribute__((warn_unused_result));
/* An operator ends one that waits. */
void review_cancel(struct session *s, const char *reason);
/* Who may decide, as an item of the ask's answer. */
void review_list_approvers(struct core *c, struct ask *a);
/* The store knows this turn's decisions now. */
void review_end_turn(struct core *c);

#endif
