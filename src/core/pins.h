/* SPDX-License-Identifier: MIT */
/* pins.h: which ended sessions are needed by sessions that are not over: for a checkpoint, or for a record
 * (continuity.h).
 *
 * A session that is needed does not leave the store, and a session that is about to leave cannot be named by
 * a new task. Both are known here before they are committed. Sessions are named by their ids. */
#ifndef HCPD_CORE_PINS_H
#define HCPD_CORE_PINS_H

#include <stdbool.h>

struct core;

/* One session more, or less, needs this one; "" means none. */
void pins_add(struct core *c, const char *session_id);
void pins_drop(struct core *c, const char *session_id);
bool pins_is_pinned(struct core *c, const char *session_id);
/* The session leaves with this turn's commit; until then no new task may name it. */
void pins_let_leave(struct core *c, const char *session_id);
bool pins_is_leaving(struct core *c, const char *session_id);
/* The commit is done: the store itself knows now that these sessions are gone. */
void pins_forget_gone(struct core *c);
void pins_fini(struct core *c);

#endif
