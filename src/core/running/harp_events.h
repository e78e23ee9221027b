/* SPDX-License-Identifier: MIT */
/* harp_events.h: publishes sessions whose capability has `harp = yes`, or whose caller asked for it
 * (metadata.harp), as HARP-SESSION events on harp.sessions:
 *
 *	session.start     RUNNING for the first time
 *	session.status    waiting_approval: PENDING, a human has to decide
 *	                  executing: RUNNING; planning or editing where the worker names its stage so
 *	                  idle: PAUSED
 *	                  error: FAILED
 *	                  Published only when it changes
 *	session.snapshot  a checkpoint (context: its description, not its state), or a worker's own
 *	                  snapshot (harp_snapshot.h); of a session of data class T3 or T4 only that it was
 *	                  made
 *	session.end       of every session that was published; no event follows it
 *
 * An event goes into the turn's batch together with the change that it reports, so both are true or neither
 * is. Every function does nothing for a session that is not published. */
#ifndef HCPD_CORE_RUNNING_HARP_EVENTS_H
#define HCPD_CORE_RUNNING_HARP_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "harp/session.h"

struct command;
struct core;
struct session;
struct store_checkpoint;
struct harp_events;

/* Loads the caller's HARP queue before the session of that submit is made in this turn. False: the store
 * cannot be read now. */
bool harp_events_prepare(struct core *c, const struct command *cmd) __attribute__((warn_unused_result));
/* A new session: publishes from here on, where its capability has harp = yes or its caller asked for it. */
void harp_events_begin(struct session *s, bool is_asked);
/* A session of the previous run, whose row says that it is published. -1: the store cannot be read now. */
int harp_events_again(struct session *s) __attribute__((warn_unused_result));
void harp_events_forget(struct session *s);

/* For session.c, session_new.c and session_end.c. */
void harp_events_undecided(struct session *s); /* a human has to decide */
void harp_events_state(struct session *s);     /* the state changed */
/* session.end, before session_closed. reason, error_code: HCP's; error_code may be NULL. */
void harp_events_end(struct session *s, const char *reason, const char *error_code);
/* For worker_messages.c and checkpoint_store.c. */
void harp_events_stage(struct session *s, const char *stage);
void harp_events_checkpoint(struct session *s, const struct store_checkpoint *cp);
/* For harp_snapshot.c: the time of an event that is made now; and publishing a worker's snapshot. False: it
 * is over the message limit, and a warning event was stored. */
int64_t harp_events_time(struct session *s);
/* The last time that it gave. */
int64_t harp_events_last_time(const struct session *s);
bool harp_events_snapshot(struct session *s, const struct harp_heard *h);

/* HARP's reason of session.end. */
enum harp_end harp_events_reason(const char *reason, const char *error_code);

#endif
