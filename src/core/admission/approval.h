/* SPDX-License-Identifier: MIT */
/* approval.h: tasks that wait for a human: the question to the human (approval.c), and the human's signed
 * decision (approval_decide.c).
 *
 * A task that waits is a PENDING session; its caller has heard nothing of it. The question is a HARP artifact
 * that has the whole task in it. A decision counts as harp.h says, under the keys that are configured now. An
 * allow makes the gate look at the task once more, under the policy in force, and only then is the task
 * accepted. The approval, the decision, the answer to the caller and the session's row change in one
 * transaction, so that a decision is used exactly once. */
#ifndef HCPD_CORE_ADMISSION_APPROVAL_H
#define HCPD_CORE_ADMISSION_APPROVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/message.h"
#include "policy/gate.h"

struct outbox_caller;
struct op_request;
struct core;
struct session;

/* Makes the session and puts the question. NULL with a sentence in why: the task cannot be shown to a human,
 * and nothing happened. */
struct session *approval_begin(struct core *c, const struct command *cmd, const struct gate_result *v,
	struct outbox_caller *to, char *why, size_t why_size);
/* For policy_wait.c: the same for a session that waited for the policy program. False with a sentence in why:
 * nothing happened. */
bool approval_take_over(
	struct session *s, const struct gate_result *v, const struct task *task, char *why, size_t why_size);
/* The id of the session's last request to a human; NULL: there was none. */
const char *approval_request(const struct session *s);
/* A session of the previous run that waits for a human goes on waiting. -1: the store cannot be read. */
int approval_recover(struct session *s) __attribute__((warn_unused_result));
void approval_forget(struct session *s); /* the session is about to be freed */

/* For operator.c: a decision came; the request gets its answer. False: the store cannot be read, nothing
 * happened. */
bool approval_decide(struct core *c, struct op_request *a) __attribute__((warn_unused_result));
/* An operator ends a session that waits. */
void approval_cancel(struct session *s, const char *reason);
/* Adds the approvers to the request's answer, as an item. */
void approval_list_approvers(struct core *c, struct op_request *a);
/* The turn is committed: the store knows its decisions from here on. */
void approval_end_turn(struct core *c);

#endif
