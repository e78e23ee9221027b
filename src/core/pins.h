/* need.h: which ended sessions are needed by sessions that are not over: for a checkpoint, or for a record
 * (continuity.h).
 *
 * What is needed does not leave the store, and what is about to leave is not taken up any more: both are
 * known here before they are committed. Sessions are known by their ids. */
#ifndef HCPD_NEED_H
#define HCPD_NEED_H

#include <stdbool.h>

struct core;

/* One session more, or less, needs it; "" is nobody. */
void need_add(struct core *c, const char *session_id);
void need_drop(struct core *c, const char *session_id);
bool need_is_needed(struct core *c, const char *session_id);
/* It leaves with this turn's commit: until that is done it is not to be taken up. */
void need_let_go(struct core *c, const char *session_id);
bool need_is_going(struct core *c, const char *session_id);
/* That was committed: the store says of all of them that they are gone. */
void need_forget_gone(struct core *c);
void need_fini(struct core *c);

#endif
