/* SPDX-License-Identifier: MIT */
/* policy_wait.h: tasks that wait for the policy program (policy_program.h): the question, and what follows
 * from the answer.
 *
 * Such a task is a PENDING session; its caller has heard nothing of it, as with one that waits for a human
 * (approval.h). After an allow the gate looks at the task once more, under the policy in force. Where a human
 * has to agree too, or the program wants that, the task goes on waiting for a human. After a restart the
 * program gets the question again. */
#ifndef HCPD_CORE_ADMISSION_POLICY_WAIT_H
#define HCPD_CORE_ADMISSION_POLICY_WAIT_H

#include "protocol/message.h"
#include "policy/gate.h"
#include "core/admission/policy_program.h"

struct outbox_caller;
struct policy_wait;
struct core;
struct session;

/* Makes the session and puts the question. user: the broker-validated user, NULL: none. */
struct session *policy_wait_begin(struct core *c, const struct command *cmd, const char *user,
	const struct gate_result *v, struct outbox_caller *to);
/* A session of the previous run that waits: puts the question again. -1: the store cannot be read. */
int policy_wait_recover(struct session *s) __attribute__((warn_unused_result));
void policy_wait_forget(struct session *s); /* it was decided in another way, or is about to be freed */
/* For policy_program_new. */
policy_answer_fn policy_wait_on_answer;

#endif
