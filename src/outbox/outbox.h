/* outbox.h: messages that are committed and not yet confirmed, in order for each caller.
 *
 * The store has all of them; memory holds a bounded window. A caller's trouble (full queue, no queue, no
 * permission) backs off that caller alone. */
#ifndef HCPD_OUTBOX_H
#define HCPD_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bus/bus.h"
#include "config/config.h"
#include "store/store.h"
#include "base/timer.h"

struct outbox;
struct addressee; /* a caller, as the outbox sees it */

struct outbox_ops {
	/* So many bytes of this session wait no longer; session 0 is none. */
	void (*on_settled)(void *ctx, int64_t session, size_t bytes);
	/* No queue was bound; said for every such message. */
	void (*on_unroutable)(void *ctx, int64_t session, const char *caller_id);
	/* The bytes that wait at start, before anything else. */
	void (*on_backlog)(void *ctx, int64_t session, int64_t bytes);
};

struct outbox_stats {
	uint64_t confirmed, unroutable, nacked, lost, set_aside;
	int64_t waiting_bytes; /* unconfirmed and routable, on disk and in memory */
	unsigned in_flight;
};

struct outbox *outbox_new(struct store *store, struct bus *bus, struct timers *timers,
	const struct config *config, const struct outbox_ops *ops, void *ctx);
void outbox_free(struct outbox *ob);
/* What an earlier life left. -1: the store cannot be read. */
int outbox_load(struct outbox *ob) __attribute__((warn_unused_result));

/* Who gets it; made where it is new. NULL: the store cannot be read. The pointer is good for this turn, and
 * for as long as it is pinned: a live session pins its own. */
struct addressee *outbox_addressee(struct outbox *ob, const char *caller_id);
/* So many callers have something unsettled that made-up names must not add to them. */
bool outbox_is_crowded(const struct outbox *ob);
/* The same caller, for HARP-SESSION's events: messages of type OUTBOX_HARP, with the HARP event's name as
 * event_type. They go to harp.sessions with the same care, but in a line of their own, and where no queue is
 * bound they are done with. */
#define OUTBOX_HARP "harp"
struct addressee *outbox_harp_addressee(struct outbox *ob, const char *caller_id);
void addressee_pin(struct addressee *a);
void addressee_unpin(struct addressee *a);
int64_t addressee_key(const struct addressee *a);

/* Stores a message in the turn's batch; it may go out after outbox_release. Fills in id and caller, and
 * returns the id. */
int64_t outbox_put(struct outbox *ob, struct addressee *a, struct store_event *e);
/* The turn's batch is committed. */
void outbox_release(struct outbox *ob);
/* Publishes a committed event again, as it was. */
void outbox_repeat(struct outbox *ob, struct addressee *a, int64_t event);

/* Publishes a session's rows (first, upto] again, as they were, behind all that waits for that caller now and
 * whenever nothing newer does. Forgotten at the end of this life, and where no queue takes them. False: too
 * many wait already. */
bool outbox_replay(struct outbox *ob, struct addressee *a, int64_t session, int64_t after, int64_t upto)
	__attribute__((warn_unused_result));

/* From the bus. */
void outbox_on_settled(struct outbox *ob, struct bus_out *outs);
void outbox_on_up(struct outbox *ob);
void outbox_on_down(struct outbox *ob, struct bus_out *outs, int code, const char *why);

/* Hands to the bus what may go now. Once at the end of every turn, after outbox_release. */
void outbox_pump(struct outbox *ob);

/* What was confirmed is noted in the store lazily, a moment later: a crash before
 * that publishes the same bytes once more. */
unsigned outbox_unsaved(const struct outbox *ob); /* of how many callers */
void outbox_save(struct outbox *ob);

bool outbox_is_empty(const struct outbox *ob);
/* Age of the oldest message in flight; -1 where none is. */
int64_t outbox_oldest_us(const struct outbox *ob, int64_t now_us);
/* For how long something was in flight and nothing at all was confirmed; -1 where nothing is in flight. */
int64_t outbox_quiet_us(const struct outbox *ob, int64_t now_us);
void outbox_get_stats(const struct outbox *ob, struct outbox_stats *st);

#endif
