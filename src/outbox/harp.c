/* SPDX-License-Identifier: MIT */
/* harp.c: what differs for HARP-SESSION events on their way out: the exchange, the key, the properties.
 * Owns the name of the second queue that a caller has for these events. A slow consumer of harp.sessions
 * cannot delay the caller's own messages. Never composes an event (harp_events.c). */
#include "outbox/outbox_private.h"

#include <stdio.h>
#include <string.h>

#include "json/canonical.h"
#include "harp/session.h"

#define SUFFIX "/harp" /* no caller_id has a slash */

_Static_assert(
	sizeof SUFFIX - 1 + CALLER_ID_SIZE <= OUTBOX_NAME_SIZE, "a line has a caller's name and the suffix");

struct outbox_caller *outbox_find_harp_caller(struct outbox *ob, const char *caller_id)
{
	char name[OUTBOX_NAME_SIZE];

	snprintf(name, sizeof name, "%s%s", caller_id, SUFFIX);
	return outbox_find_caller(ob, name);
}

bool outbox_refuses_harp(const struct outbox *ob, const char *caller_id)
{
	char name[OUTBOX_NAME_SIZE];
	struct outbox_caller *a;

	snprintf(name, sizeof name, "%s%s", caller_id, SUFFIX);
	HASH_FIND_STR(ob->all, name, a);
	return a != NULL && timer_is_set(&a->backoff);
}

/* The body has no message id. This id is the same each time the row is published. */
static void make_id(const struct store_event *e, char out[ID_SIZE])
{
	static const char form[] = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
	char seed[ID_SIZE + 24], hex[CANONICAL_HASH_SIZE];
	const char *h = hex;

	snprintf(seed, sizeof seed, "%s/%lld", e->session_id != NULL ? e->session_id : "", (long long)e->id);
	canonical_hash_bytes(seed, strlen(seed), hex);
	for (size_t i = 0; i < sizeof form; i++)
		out[i] = form[i] == 'x' ? *h++ : form[i];
}

static int64_t time_of(const struct blob *body)
{
	static const char *const names[] = {"createdAt", "updatedAt", "endedAt"};
	char text[64];
	int64_t us;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct jslice at = jtext_member(body->data, body->size, names[i]);

		if (at.at == NULL || at.size < 2 || at.size >= sizeof text)
			continue;
		/* without the quotes */
		snprintf(text, sizeof text, "%.*s", (int)at.size - 2, at.at + 1);
		if (clock_parse(text, &us) && us > 0)
			return us / SECOND;
	}
	return 0;
}

void outbox_fill_harp(struct entry *n, const struct store_event *e)
{
	int kind = e->event_type != NULL ? harp_event_parse(e->event_type) : -1;

	n->out.exchange = BUS_TO_HARP;
	n->out.type = kind >= 0 ? harp_event_name((enum harp_event)kind) : OUTBOX_HARP;
	names_event_key(n->out.key, sizeof n->out.key, n->to->caller_id, e->session_id, n->out.type);
	make_id(e, n->out.message_id);
	n->out.timestamp_s = time_of(n->body);
	n->is_transient = true; /* without a bound queue the event is dropped */
}
