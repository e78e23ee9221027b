/* action.h: what a worker announces before it does it, and whether it may. */
#ifndef HCPD_ACTION_H
#define HCPD_ACTION_H

struct session;
struct wline;

/* An `action` line: held against the safety envelope that the session runs under, and answered by an
 * `action_verdict` line after the commit. Beyond a hard limit, prohibited, or announced again after a
 * refusal: the session is ended. */
void action_announced(struct session *s, const struct wline *l);
/* One that is no good line, and why: refused, since its worker may wait for the verdict. */
void action_unreadable(struct session *s, const struct wline *l, const char *why);
/* A new attempt, or the end: it may have forgotten what it was refused, so it is not held against it. */
void action_forget(struct session *s);

#endif
