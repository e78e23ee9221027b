/* SPDX-License-Identifier: MIT */
/* action.h: actions that a worker announces before it carries them out, and whether it may. */
#ifndef HCPD_CORE_RUNNING_ACTION_H
#define HCPD_CORE_RUNNING_ACTION_H

struct session;
struct worker_line;

/* An `action` line: checked against the session's safety envelope, and answered by an `action_verdict` line
 * after the commit. The session is ended for an action beyond a hard limit, a prohibited one, and one that is
 * announced again after a refusal. */
void action_announced(struct session *s, const struct worker_line *l);
/* The worker wrote a checkpoint: actions that waited for one are allowed where it was stored and is
 * resumable.
 */
void action_on_checkpoint(struct session *s);
/* A broken `action` line, and why: refused, since its worker may wait for the reply. */
void action_unreadable(struct session *s, const struct worker_line *l, const char *why);
/* A new attempt, or the end: forgets refusals and what waits, since a new process does not know them. */
void action_forget(struct session *s);

#endif
