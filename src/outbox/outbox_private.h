/* outbox_private.h: what outbox.c (to the broker) and outbox_back.c (from it) share. */
#ifndef HCPD_OUTBOX_PRIVATE_H
#define HCPD_OUTBOX_PRIVATE_H

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "protocol/message.h"
#include "outbox/outbox.h"

#define SECOND 1000000
#define BACKOFF_MIN (1 * SECOND)
#define BACKOFF_MAX (60 * SECOND)
#define LOAD_ROWS 256 /* read from the store at a time */
#define OUTBOX_NAME_SIZE \
	(CALLER_ID_SIZE + 8) /* of a line: a caller_id, perhaps with a suffix (outbox_harp.c) */

enum state { WAITING, SENT, SETTLED, HELD }; /* HELD: its substitute is not committed yet */
enum kind { LIVE, AGAIN, REPEAT, REPLAY };

struct replay { /* of a session, for an operator */
	struct replay *prev, *next;
	int64_t session, after, upto; /* rows behind the one, up to the other */
	int64_t behind;               /* begins once the watermark is here */
	int64_t sent;
};

struct entry {
	struct bus_out out;        /* first: the bus gives back a pointer to it */
	struct entry *prev, *next; /* in its line */
	struct entry *also;        /* in ob->fresh or ob->held */
	struct addressee *to;
	int64_t id, session, sent_at_us;
	unsigned nacks_before; /* the addressee's, when it was sent */
	struct blob *body;
	enum state state;
	enum kind kind;
	bool is_fleeting;       /* not tried again where no queue takes it */
	bool suspect;           /* was in flight when the broker closed the channel */
	unsigned char refusals; /* 406 with this one alone in flight */
};

struct addressee {
	UT_hash_handle hh;
	int64_t key;
	struct outbox *ob;
	unsigned pins;
	struct entry *line, *second; /* lists; the head's prev is the tail */
	struct entry *cursor;        /* nothing before it waits; NULL: nothing in the line waits */
	size_t line_count, second_count;
	struct replay *replays; /* the first one is under way; its entries stand in the second line ... */
	size_t replay_count, replayed; /* ... but are not in second_count */
	int64_t loaded;                /* the line's last id, or the watermark */
	int64_t last;                  /* the store's last id; loaded < last: lagging */
	int64_t confirmed;
	bool unsaved; /* the store has an older watermark; in ob->unsaved */
	struct addressee *unsaved_next;
	int64_t sent_bytes;
	unsigned sent, limit; /* in flight, and how many may be; 1 after a nack, then doubling */
	unsigned nacks;       /* how often it was backed off */
	int64_t backoff_us;
	struct timer retry; /* set: nothing is sent until it fires */
	bool unroutable;    /* the store has some of this caller */
	int64_t probed;     /* unroutable rows up to this one are in the second line or done */
	int64_t probe_backoff_us;
	struct timer probe;
	struct addressee *ring_prev, *ring_next;
	bool in_ring; /* has something to send, perhaps */
	char caller_id[OUTBOX_NAME_SIZE];
};

struct outbox {
	struct store *store;
	struct bus *bus;
	struct timers *timers;
	const struct outbox_ops *ops;
	void *ctx;
	struct addressee *all, *ring;
	struct entry *fresh, **fresh_end, *held;
	int64_t confirmed_at_us; /* anything, last */
	unsigned window;
	unsigned share; /* of it that one caller may take: a stuck queue leaves the others some */
	int64_t window_bytes, share_bytes;
	unsigned forget_at; /* so many addressees: look who can be forgotten */
	bool up;
	unsigned in_flight, suspects;
	int64_t in_flight_bytes, memory_bytes, waiting_bytes;
	int64_t last_event, last_caller;
	struct addressee *unsaved;
	unsigned unsaved_count;
	struct outbox_stats stats;
};

struct loading { /* of rows, into one line or the other */
	struct addressee *a;
	enum kind kind;
	int rows;
	bool is_cut; /* not all of the rows were taken */
};

bool outbox_on_row(void *ctx, const struct store_event *e);
void outbox_advance(struct addressee *a); /* drops what is settled at the line's head */
void outbox_second_remove(struct entry *n);
void outbox_entry_free(struct entry *n);
/* outbox_replay.c */
struct entry *outbox_replay_next(
	struct addressee *a); /* the next that waits, loaded where need be; NULL: none */
void outbox_replay_done(struct entry *n);
void outbox_replay_give_up(struct addressee *a, const char *why); /* all of a caller's that wait */
void outbox_replay_fini(struct addressee *a);
/* outbox_harp.c: where it goes and what it is called; body and addressee are there already */
void outbox_fill_harp(struct entry *n, const struct store_event *e);
void outbox_ring_add(struct addressee *a);
void outbox_on_retry(struct timer *t);
void outbox_on_probe(struct timer *t);

#endif
