/* consult.h: tasks that wait for the policy program (judge.h): what it is asked, and what follows from its
 * verdict.
 *
 * Such a task is a PENDING session of which nothing was said to its caller, as one that waits for a human is
 * (review.h). An allow lets the gate look at the task once more, under the policy of that moment; where a
 * human has to agree too, or the program wants one to, the task goes on waiting for that one. After a restart
 * the program is asked again. */
#ifndef HCPD_CONSULT_H
#define HCPD_CONSULT_H

#include "protocol/message.h"
#include "policy/gate.h"
#include "core/admission/policy_program.h"

struct addressee;
struct consult;
struct core;
struct session;

/* Makes the session and asks. user: the broker-validated one, NULL: none. */
struct session *consult_begin(struct core *c, const struct command *cmd, const char *user,
	const struct verdict *v, struct addressee *to);
/* A session of an earlier life that waits is asked about again. -1: the store cannot be read. */
int consult_recover(struct session *s) __attribute__((warn_unused_result));
void consult_forget(struct session *s); /* it is decided otherwise, or about to be freed */
/* For judge_new. */
judge_answer_fn consult_on_answer;

#endif
