/* ctl_note.h: one message from a callee, parsed, and the buffer that puts a session's messages in order. */
#ifndef HCPD_CTL_NOTE_H
#define HCPD_CTL_NOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct ctl_note {
	struct ctl_note *next;
	char *body; /* as received, NUL behind it */
	size_t size;
	json_t *json; /* NULL: skimmed */
	char *texts;  /* where those of a skimmed one stand */
	/* Loans; never NULL, "" or an empty object where absent. */
	const char *session, *type, *event, *message_id;
	const json_t *payload, *data;
	int64_t sequence; /* 0: none */
	uint32_t life;    /* of the connection, and ... */
	uint64_t tag;     /* ... how to ack it there */
	int64_t place;    /* ctl_order's */
};

/* Takes the body, which has a NUL behind its size bytes. NULL where it is no message of HCP: freed then. */
struct ctl_note *ctl_note_read(char *body, size_t size);
/* The same, quicker, without payload and data, for those who only pass bodies on. */
struct ctl_note *ctl_note_skim(char *body, size_t size);
/* Reads what was skimmed, now that it is needed. */
void ctl_note_open(struct ctl_note *n);
void ctl_note_free(struct ctl_note *n); /* NULL is fine */
/* A text member of the payload or of an event's data; NULL where it is none. */
const char *ctl_note_text(const json_t *object, const char *name);

#define CTL_ORDER_MAX 64 /* messages held for one session: below the prefetch, so others still come */
#define CTL_ORDER_WAIT_US (INT64_C(5) * 1000000)
#define CTL_ORDER_IDS 8 /* messages without a sequence: a session has three or four */

/* Events by their sequence; what has none keeps its place behind what came before it. */
struct ctl_order {
	int64_t next;          /* sequence that is due; 0: whatever comes first */
	int64_t floor;         /* while none is due: up to here all was handed out in another life */
	int64_t highest;       /* ever put */
	struct ctl_note *held; /* by place */
	size_t held_count;
	int64_t waits_until_us; /* for what is missing; boot clock */
	char ids[CTL_ORDER_IDS][ID_SIZE];
	size_t id_count;
};

enum ctl_put {
	CTL_PUT,         /* taken */
	CTL_SEEN,        /* was handed out before: ack and free it */
	CTL_HELD_ALREADY /* is held: that one now has this one's tag; free it, ack nothing */
};

enum ctl_put ctl_order_put(struct ctl_order *o, struct ctl_note *n, int64_t now_us);
/* The next one, the caller's now; NULL where one must wait. Where what is missing was waited for long enough,
 * or too much is held, it is passed over: *gap_from to *gap_to are the sequences that never came, else 0. */
struct ctl_note *ctl_order_take(struct ctl_order *o, int64_t now_us, int64_t *gap_from, int64_t *gap_to);
/* When to look again though nothing came; INT64_MAX: no need. */
int64_t ctl_order_due_us(const struct ctl_order *o);
void ctl_order_fini(struct ctl_order *o);

#endif
