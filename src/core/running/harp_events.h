/* tell.h: sessions whose capability has `harp = yes` are told of to the world, in HARP-SESSION's words, on
 *harp.sessions:
 *
 *	session.start       RUNNING for the first time
 *	session.status      waiting_approval: PENDING, a human is asked; executing, or planning and editing
 *where the worker's stage is called so: RUNNING; idle: PAUSED; error: FAILED. Each only where it is another
 *than before session.snapshot    a checkpoint (context: what is known of it, not its state), or a worker's
 *own (snapshot.h) session.end         of every session that anything was said of; nothing comes after it
 *
 * An event is put into the turn's batch with what it tells of, so both are true or neither is. Every function
 *does nothing for a session that does not want it. */
#ifndef HCPD_TELL_H
#define HCPD_TELL_H

#include <stdbool.h>
#include <stdint.h>

#include "harp/session.h"

struct core;
struct session;
struct store_checkpoint;
struct tell;

/* Before a session of that capability is made: in this turn it can be told of then. False: the store cannot
 * be read now. */
bool tell_prepare(struct core *c, const char *capability, const char *caller_id)
	__attribute__((warn_unused_result));
/* The session is new, and its capability wants it. */
void tell_begin(struct session *s);
/* It is of an earlier life, and its row says so. -1: the store cannot be read now. */
int tell_again(struct session *s) __attribute__((warn_unused_result));
void tell_forget(struct session *s);

/* session.c and its parts: */
void tell_asked(struct session *s); /* a human, about it */
void tell_state(struct session *s); /* it has a new one */
/* Before its last words. reason, error_code: of HCP; the latter may be NULL. */
void tell_end(struct session *s, const char *reason, const char *error_code);
/* report.c and its parts: */
void tell_stage(struct session *s, const char *stage);
void tell_checkpoint(struct session *s, const struct store_checkpoint *cp);
/* snapshot.c: the time of an event that is made now; and a snapshot that counts. False: over the message
 * limit; there is a warning then. */
int64_t tell_time(struct session *s);
bool tell_snapshot(struct session *s, const struct harp_heard *h);

/* Which reason is session.end's. */
enum harp_end tell_reason(const char *reason, const char *error_code);

#endif
