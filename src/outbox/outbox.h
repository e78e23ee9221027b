/* SPDX-License-Identifier: MIT */
/* outbox.h: messages that are committed and not yet confirmed, in order for each caller.
 *
 * The store has all of them; memory holds a bounded window. Trouble with one caller (full queue, no queue, no
 * permission) delays the messages of that caller alone. */
#ifndef HCPD_OUTBOX_OUTBOX_H
#define HCPD_OUTBOX_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bus/bus.h"
#include "config/config.h"
#include "store/store.h"
#include "base/timer.h"

struct outbox;
struct outbox_caller; /* a caller, as the outbox sees it */

struct outbox_ops {
	/* So many bytes of this session no longer wait. Session 0: of no session. */
	void (*on_settled)(void *ctx, int64_t session, size_t bytes);
	/* A transient message of no session is settled: its row serves nothing any more. */
	void (*on_transient)(void *ctx, int64_t event);
	/* No queue was bound. Called for every such message. */
	void (*on_unroutable)(void *ctx, int64_t session, const char *session_id, const char *caller_id);
	/* The bytes of a session that wait at the start. Called before the other functions. */
	void (*on_backlog)(void *ctx, int64_t session, int64_t bytes);
};

struct outbox_stats {
	uint64_t confirmed, unroutable, nacked, lost, replaced;
	int64_t waiting_bytes; /* unconfirmed and routable, on disk and in memory */
	unsigned in_flight;
};

struct outbox *outbox_new(struct store *store, struct bus *bus, struct timers *timers,
	const struct config *config, const struct outbox_ops *ops, void *ctx);
void outbox_free(struct outbox *ob);
/* Loads what the previous run of the daemon left. -1: the store cannot be read. */
int outbox_load(struct outbox *ob) __attribute__((warn_unused_result));

/* Finds a caller, and adds it if it is new. NULL: the store cannot be read. The pointer is valid in this
 * turn, and as long as the caller is pinned. A live session pins its caller. */
struct outbox_caller *outbox_find_caller(struct outbox *ob, const char *caller_id);
/* A message of this caller was dropped from the store. If it was the last one, and the store has no submit of
 * the caller either, the row with its name goes, too. */
void outbox_drop_caller(struct outbox *ob, int64_t key, const char *caller_id);
/* True: so many callers have unsettled messages that a stranger's invented name must not be added. */
bool outbox_is_crowded(const struct outbox *ob);
/* The same caller, for HARP-SESSION's events: messages of type OUTBOX_HARP, with the HARP event's name as
 * event_type. They go to harp.sessions in a queue of their own. Without a bound queue the outbox drops them.
 */
#define OUTBOX_HARP "harp"
struct outbox_caller *outbox_find_harp_caller(struct outbox *ob, const char *caller_id);
/* The broker refuses the caller's HARP-SESSION events just now: they wait, and so would further ones. */
bool outbox_refuses_harp(const struct outbox *ob, const char *caller_id);
void outbox_caller_pin(struct outbox_caller *a);
void outbox_caller_unpin(struct outbox_caller *a);
int64_t outbox_caller_key(const struct outbox_caller *a);

/* Stores a message in the batch of the turn. It goes out after outbox_release. Fills in id and caller, and
 * returns the id. */
int64_t outbox_put(struct outbox *ob, struct outbox_caller *a, struct store_event *e);
/* The turn's batch is committed. */
void outbox_release(struct outbox *ob);
/* Publishes a committed event again, with the same bytes. */
void outbox_resend(struct outbox *ob, struct outbox_caller *a, int64_t event);

/* Publishes the rows (after, upto] of a session again, with the same bytes, when no other message of the
 * caller waits. A replay ends with this run of the daemon, and where no queue takes it. False: too many
 * replays wait already. */
bool outbox_replay(struct outbox *ob, struct outbox_caller *a, int64_t session, int64_t after, int64_t upto)
	__attribute__((warn_unused_result));

/* From the bus. */
void outbox_on_settled(struct outbox *ob, struct bus_out *outs);
void outbox_on_up(struct outbox *ob);
void outbox_on_down(struct outbox *ob, struct bus_out *outs, int code, const char *why);

/* Hands messages to the bus as far as the window goes. Once at the end of every turn, after outbox_release.
 */
void outbox_pump(struct outbox *ob);

/* The store gets the watermarks a moment after the confirms. After a crash in between, the daemon publishes
 * the same bytes again. */
unsigned outbox_unsaved(const struct outbox *ob); /* the number of callers with a newer watermark */
void outbox_save(struct outbox *ob);

bool outbox_is_empty(const struct outbox *ob);
/* Age of the oldest message in flight; -1 where none is. */
int64_t outbox_oldest_us(const struct outbox *ob, int64_t now_us);
/* For how long messages have been in flight without any confirm; -1 where none is in flight. */
int64_t outbox_quiet_us(const struct outbox *ob, int64_t now_us);
void outbox_get_stats(const struct outbox *ob, struct outbox_stats *st);

#endif
