/* SPDX-License-Identifier: MIT */
/* intake.h: commands from the bus, and the gate's answer to a task as the core stands now. */
#ifndef HCPD_CORE_ADMISSION_INTAKE_H
#define HCPD_CORE_ADMISSION_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/bus.h"
#include "policy/gate.h"

struct core;
struct outbox_caller;

/* Takes one command of the bus. False: the store cannot be read now, and the command has to be taken again
 * later. */
bool intake_take(struct core *c, const struct bus_in *in) __attribute__((warn_unused_result));
/* The turn is committed: the store knows its submits from here on. */
void intake_end_turn(struct core *c);
/* Puts a task_rejected into the outbox and returns its event. session: the key of the session that waited for
 * this answer, which keeps the event as long as itself; 0: none. The message names no session in either case.
 * message_id "": the command had no readable one. */
int64_t intake_put_rejected(struct core *c, struct outbox_caller *to, int64_t session, const char *message_id,
	const char *code, const char *message, const char *suggestion, enum risk risk, bool is_transient);
/* What the gate says of a task now. again: the task waits for a decision already, so it neither takes room in
 * the backlog nor counts against the caller's rate. */
void intake_evaluate(struct core *c, const struct config_caller *caller, const char *caller_id,
	const struct task *task, bool again, struct gate_result *v);

#endif
