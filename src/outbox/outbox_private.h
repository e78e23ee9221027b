/* SPDX-License-Identifier: MIT */
/* outbox_private.h: what outbox.c (to the broker), confirm.c (from the broker), replay.c and harp.c share. */
#ifndef HCPD_OUTBOX_OUTBOX_PRIVATE_H
#define HCPD_OUTBOX_OUTBOX_PRIVATE_H

#include <uthash.h>
#include <utlist.h>

#include "amqp/names.h"
#include "base/clock.h"
#include "protocol/message.h"
#include "outbox/outbox.h"

#define SECOND 1000000
#define BACKOFF_MIN (1 * SECOND)
#define BACKOFF_MAX (60 * SECOND)
#define LOAD_ROWS 256                         /* read from the store at a time */
#define OUTBOX_NAME_SIZE (CALLER_ID_SIZE + 8) /* of a queue: a caller_id, perhaps with a suffix (harp.c) */

enum entry_state {
	WAITING,
	SENT,
	SETTLED,
	UNCOMMITTED
}; /* UNCOMMITTED: its substitute is not committed yet */
enum entry_kind { LIVE, RETRY_UNROUTABLE, RESEND_ANSWER, REPLAY };

struct replay { /* of a session, for an operator */
	struct replay *prev, *next;
	int64_t session, after, upto; /* the rows after `after`, up to `upto` */
	int64_t behind;               /* begins once the watermark is here */
	int64_t sent;
};

struct entry {
	struct bus_out out;        /* first: the bus gives back a pointer to it */
	struct entry *prev, *next; /* in its queue */
	struct entry *also;        /* in ob->fresh or ob->held */
	struct outbox_caller *to;
	int64_t id, session, sent_at_us;
	unsigned nacks_before; /* of the caller, when the message was sent */
	struct blob *body;
	enum entry_state state;
	enum entry_kind kind;
	bool is_transient;           /* not tried again where no queue takes it */
	bool was_in_flight_at_close; /* was in flight when the broker closed the channel */
	unsigned char refusals;      /* 406 with this message alone in flight */
};

struct outbox_caller {
	UT_hash_handle hh;
	int64_t key;
	struct outbox *ob;
	unsigned pins;
	struct entry *queue, *resend_queue; /* lists; the head's prev is the tail */
	struct entry *cursor;               /* no entry before it waits; NULL: no entry in the queue waits */
	size_t queue_count, resend_count;
	/* the first one is under way; its entries stand in the resend queue ... */
	struct replay *replays;
	size_t replay_count, replayed; /* ... but are not in resend_count */
	int64_t loaded;                /* the last id in the queue, or the watermark */
	int64_t last;                  /* the store's last id; loaded < last: lagging */
	int64_t confirmed;
	bool unsaved; /* the store has an older watermark; in ob->unsaved */
	struct outbox_caller *unsaved_next;
	int64_t sent_bytes;
	unsigned sent, limit; /* in flight, and how many may be; 1 after a nack, then doubling */
	unsigned nacks;       /* how often the outbox backed off */
	int64_t backoff_us;
	struct timer backoff;     /* set: the outbox sends nothing until it fires */
	bool unroutable;          /* the store has some of this caller */
	uint64_t unroutable_turn; /* in which the last unroutable row was put */
	int64_t probed;           /* unroutable rows up to this one are in the resend queue or done */
	int64_t probe_backoff_us;
	struct timer probe;
	struct outbox_caller *ring_prev, *ring_next;
	bool in_ring; /* may have something to send */
	char caller_id[OUTBOX_NAME_SIZE];
};

struct outbox {
	struct store *store;
	struct bus *bus;
	struct timers *timers;
	const struct outbox_ops *ops;
	void *ctx;
	struct outbox_caller *all, *ring;
	struct entry *fresh, **fresh_end, *held;
	int64_t confirmed_at_us; /* when the broker last confirmed any message */
	unsigned window;
	/* the part of the window that one caller may take: a stuck queue leaves the others some */
	unsigned share;
	int64_t window_bytes, share_bytes;
	uint64_t turn;      /* grows with each commit */
	bool drops_callers; /* the batch drops rows of callers: who is found in the store may go */
	unsigned start_drops;
	unsigned forget_at; /* with so many callers the outbox looks for some to forget */
	bool up;
	unsigned in_flight, suspects;
	int64_t in_flight_bytes, memory_bytes, waiting_bytes;
	int64_t last_event, last_caller;
	struct outbox_caller *unsaved;
	unsigned unsaved_count;
	struct outbox_stats stats;
};

struct loading { /* of rows, into one queue or the other */
	struct outbox_caller *a;
	enum entry_kind kind;
	int rows;
	bool is_cut; /* not all of the rows were taken */
};

bool outbox_on_row(void *ctx, const struct store_event *e);
void outbox_advance(struct outbox_caller *a); /* drops settled entries at the head of the queue */
void outbox_resend_remove(struct entry *n);
void outbox_entry_free(struct entry *n);
/* replay.c */
/* the next that waits, loaded if necessary; NULL: none */
struct entry *outbox_replay_next(struct outbox_caller *a);
void outbox_replay_done(struct entry *n);
void outbox_replay_give_up(struct outbox_caller *a, const char *why); /* all of a caller's that wait */
void outbox_replay_fini(struct outbox_caller *a);
/* harp.c: fills in exchange, key and properties; body and caller are there already */
void outbox_fill_harp(struct entry *n, const struct store_event *e);
void outbox_ring_add(struct outbox_caller *a);
void outbox_on_backoff_over(struct timer *t);
void outbox_on_probe(struct timer *t);

#endif
