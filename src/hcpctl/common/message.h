/* SPDX-License-Identifier: MIT */
/* message.h: one message from a callee, and the buffer that puts a session's messages in order.
 * Owns nothing of a connection: broker.c delivers and acks. */
#ifndef HCPD_HCPCTL_COMMON_MESSAGE_H
#define HCPD_HCPCTL_COMMON_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct ctl_message {
	struct ctl_message *next;
	char *body; /* as received, with a NUL behind it */
	size_t size;
	json_t *json; /* NULL: only skimmed */
	char *texts;  /* owns the texts of a skimmed message */
	/* Borrowed from json or texts; never NULL: "" or an empty object where absent. */
	const char *session, *type, *event, *message_id;
	const json_t *payload, *data;
	int64_t sequence;    /* 0: none */
	uint32_t generation; /* generation of the connection that delivered it, and ... */
	uint64_t tag;        /* ... the delivery tag there */
	int64_t place;       /* used by ctl_reorder */
};

/* Takes the body, which has a NUL behind its size bytes. NULL: it is no message of HCP, and the body is
 * freed. */
struct ctl_message *ctl_message_read(char *body, size_t size);
/* The same, quicker, without payload and data: for callers that only pass bodies on. */
struct ctl_message *ctl_message_skim(char *body, size_t size);
/* Parses a skimmed message, once its payload is needed. */
void ctl_message_open(struct ctl_message *n);
void ctl_message_free(struct ctl_message *n); /* NULL is fine */
/* A text member of the payload or of an event's data; NULL where it is none. */
const char *ctl_message_text(const json_t *object, const char *name);

#define CTL_ORDER_MAX 64 /* messages held for one session: below the prefetch, so that others still come */
#define CTL_ORDER_WAIT_US (INT64_C(5) * 1000000)
#define CTL_ORDER_IDS 8 /* messages without a sequence: a session has three or four */

/* Puts events in the order of their sequence. A message without a sequence stays behind the messages that
 * came before it. */
struct ctl_reorder {
	int64_t next;             /* the sequence that is due; 0: take the first one that comes */
	int64_t floor;            /* while none is due: an earlier connection handed out all up to here */
	int64_t highest;          /* highest sequence ever put */
	struct ctl_message *held; /* messages that wait, ordered by place */
	size_t held_count;
	int64_t waits_until_us; /* how long to wait for a missing message; boot clock */
	char ids[CTL_ORDER_IDS][ID_SIZE];
	size_t id_count;
};

enum ctl_put {
	CTL_PUT,         /* taken */
	CTL_SEEN,        /* handed out before: ack and free it */
	CTL_HELD_ALREADY /* held already: the held message takes over this tag; free this one, ack nothing */
};

enum ctl_put ctl_reorder_put(struct ctl_reorder *o, struct ctl_message *n, int64_t now_us);
/* The next message, which the caller then owns; NULL: wait. A missing message is passed over after
 * CTL_ORDER_WAIT_US, or where too many are held: then *gap_from to *gap_to are the missing sequences, else
 * 0. */
struct ctl_message *ctl_reorder_take(
	struct ctl_reorder *o, int64_t now_us, int64_t *gap_from, int64_t *gap_to);
/* When to call ctl_reorder_take again though no message came; INT64_MAX: not needed. */
int64_t ctl_reorder_due_us(const struct ctl_reorder *o);
void ctl_reorder_fini(struct ctl_reorder *o);

#endif
