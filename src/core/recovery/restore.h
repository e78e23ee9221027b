/* SPDX-License-Identifier: MIT */
/* restore.h: the checkpoint that a session goes on from. A large state is unpacked, parsed, verified and
 * checked against the capability's state_schema on another thread, some of them at a time, and the session
 * goes on when that is done. */
#ifndef HCPD_CORE_RECOVERY_RESTORE_H
#define HCPD_CORE_RECOVERY_RESTORE_H

#include <stdbool.h>

#include "store/checkpoint.h"

struct core;
struct session;

/* What happens when the state is restored; each does what those before it do, too. */
enum restore_for {
	RESTORE_RECALL, /* the session knows the id of its last good checkpoint */
	RESTORE_GO_ON,  /* a PAUSED session goes on: recover_restored */
	RESTORE_START   /* a RUNNING session gets its process: effect_start */
};

enum { RESTORE_LATER = 2 };

/* checkpoint_find: 1, 0, -1 at once where the state is small or the core has no threads. RESTORE_LATER: it
 * happens later, and *out is empty. The session knows then which one is its last good one. */
int restore_find(struct session *s, enum restore_for what, struct checkpoint *out)
	__attribute__((warn_unused_result));
/* The same of a named checkpoint, which is large, for the start of a RUNNING session. */
void restore_begin_named(struct session *s, const char *checkpoint_id);
/* Is a state on its way for which the session is to go on? */
bool restore_is_under_way(const struct session *s);
/* Gives up what is on its way, and forgets what was restored for a start. */
void restore_drop(struct session *s);
/* After the commit: begins the next ones. False: the store cannot be read. */
bool restore_step(struct core *c);

#endif
