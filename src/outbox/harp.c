/* outbox_harp.c: what is different about HARP-SESSION's events on their way out: the exchange, the key, the
 * properties. Owns the name under which a caller has a line for them, beside that for its own messages:
 * whoever listens to them, and however badly, is not in the way of what the caller is told. Never composes an
 * event (tell.c). */
#include "outbox/outbox_private.h"

#include <stdio.h>
#include <string.h>

#include "json/canonical.h"
#include "harp/session.h"

#define SUFFIX "/harp" /* no caller_id has a slash */

_Static_assert(
	sizeof SUFFIX - 1 + CALLER_ID_SIZE <= OUTBOX_NAME_SIZE, "a line has a caller's name and the suffix");

struct addressee *outbox_harp_addressee(struct outbox *ob, const char *caller_id)
{
	char name[OUTBOX_NAME_SIZE];

	snprintf(name, sizeof name, "%s%s", caller_id, SUFFIX);
	return outbox_addressee(ob, name);
}

/* The body has no room for an id of the message: this one is the same whenever the row is published. */
static void make_id(const struct store_event *e, char out[ID_SIZE])
{
	static const char form[] = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
	char seed[ID_SIZE + 24], hex[CANON_HASH_SIZE];
	const char *h = hex;

	snprintf(seed, sizeof seed, "%s/%lld", e->session_id != NULL ? e->session_id : "", (long long)e->id);
	canon_hash_bytes(seed, strlen(seed), hex);
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
		snprintf(text, sizeof text, "%.*s", (int)at.size - 2, at.at + 1); /* without the quotes */
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
	snprintf(n->out.key, sizeof n->out.key, "%.*s.%s.%s", (int)strcspn(n->to->caller_id, "/"),
		n->to->caller_id, e->session_id != NULL ? e->session_id : "-", n->out.type);
	make_id(e, n->out.message_id);
	n->out.timestamp_s = time_of(n->body);
	n->is_fleeting = true; /* who does not listen has missed it */
}
