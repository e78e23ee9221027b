/* SPDX-License-Identifier: MIT */
/* recover.h: how a session goes on after a crash, a stop, a death or a pause, or how it ends instead. */
#ifndef HCPD_CORE_RECOVERY_RECOVER_H
#define HCPD_CORE_RECOVERY_RECOVER_H

#include <stdbool.h>

#include "config/config.h"

struct core;
struct session;
struct checkpoint;

/* At start: kills processes of the previous run, loads every session that is not over, and decides what
 * becomes of it. 0, or a sysexits code. The caller commits. */
int recover_all(struct core *c) __attribute__((warn_unused_result));

/* A PAUSED session without a process goes on, or ends: as an operator said, else as its capability says. -1:
 * the store cannot be read. */
int recover_go_on(struct session *s) __attribute__((warn_unused_result));
/* May a PENDING session begin? One that waited for its slot is checked: since its acceptance the daemon may
 * have restarted or reloaded. 1; 0: no, and it has ended; -1: the store cannot be read. */
int recover_may_begin(struct session *s) __attribute__((warn_unused_result));
/* The state that a PAUSED session waited for is restored, or none is good. unfit: why it does not fit the
 * state_schema of the policy in force; NULL: it does. */
void recover_restored(struct session *s, const struct checkpoint *cp, bool found, const char *unfit);
/* Ends the session: fail, summarize or discard. -1: the store cannot be read, and nothing happened. */
int recover_end(struct session *s, enum recovery how, const char *actor) __attribute__((warn_unused_result));
/* RUNNING again, with a slot. The process is started after the commit, with the latest checkpoint or without.
 */
void recover_resume(struct session *s, const char *reason, bool from_checkpoint);

#endif
