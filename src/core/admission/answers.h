/* SPDX-License-Identifier: MIT */
/* answers.h: rejections of tasks that never became a session: a caller may cause them at any rate, and the
 * store has a bounded number of them.
 *
 * A rejection is remembered, so that the same submit gets the same answer again, for dedup_window, and as
 * long as it is among the newest. A submit that is forgotten is decided again: it had no session, so that
 * makes no second one. The row of a forgotten one goes once the broker has it, or no queue took it. Without
 * that the outbox still needs the row: such rows are not bounded here. */
#ifndef HCPD_CORE_ADMISSION_ANSWERS_H
#define HCPD_CORE_ADMISSION_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

/* -1 with a sentence in why: the store cannot be read. */
int answers_init(struct core *c, char *why, size_t why_size) __attribute__((warn_unused_result));
/* This turn's batch has one more. Above the bound the oldest two are forgotten. */
void answers_added(struct core *c);
/* Drops a settled one that is not remembered. */
void answers_drop(struct core *c, int64_t event);
/* Once a heartbeat: drops a slice of what is not needed any more. True: there may be more. */
bool answers_tidy(struct core *c);

#endif
