/* ctl_note.c: bytes to a message that can be looked at.
 * Owns what of it hcpctl reads. Never refuses a type or an event that it does not know: callees may be newer. */
#include "ctl_note.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "jtext.h"

#define DEPTH_MAX 512                   /* jansson descends by recursion */
#define EXACT_MAX 9007199254740992.0    /* up to here a real is as good as an integer */

const char *ctl_note_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static const char *text_or_empty(const json_t *object, const char *name)
{
	const char *text = ctl_note_text(object, name);

	return text ? text : "";
}

/* An object in any case; the empty one stays with the message, so that it is freed with it. */
static const json_t *object_or_empty(json_t *parent, const char *name)
{
	json_t *v = json_object_get(parent, name);

	if (json_is_object(v))
		return v;
	json_object_set_new(parent, name, json_object());
	return json_object_get(parent, name);
}

/* A message with an integer beyond 64 bits anywhere in it has all its integers read as reals. */
static int64_t sequence_of(const json_t *payload)
{
	const json_t *v = json_object_get(payload, "sequence");
	double value = json_number_value(v);

	if (json_is_real(v) && value >= 1 && value <= EXACT_MAX)
		return (int64_t)value;
	return json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) <= INT64_MAX / 4 ?
		json_integer_value(v) : 0;
}

struct ctl_note *ctl_note_read(char *body, size_t size)
{
	struct ctl_note *n;
	char why[160];
	json_t *json = jtext_depth(body, size) <= DEPTH_MAX ? jtext_parse(body, size, why, sizeof why) : NULL;

	if (!json_is_object(json) || !ctl_note_text(json, "type") ||
			!json_is_object(json_object_get(json, "payload"))) {
		json_decref(json);
		free(body);
		return NULL;
	}
	n = xcalloc(1, sizeof *n);
	n->body = body;
	n->size = size;
	n->json = json;
	n->type = text_or_empty(json, "type");
	n->session = text_or_empty(json, "session_id");
	n->message_id = text_or_empty(json, "message_id");
	n->payload = object_or_empty(json, "payload");
	n->event = "";
	n->data = n->payload;
	if (strcmp(n->type, "event") == 0) {
		n->event = text_or_empty(n->payload, "event_type");
		n->data = object_or_empty(json_object_get(json, "payload"), "data");
		n->sequence = sequence_of(n->payload);
	}
	return n;
}

void ctl_note_free(struct ctl_note *n)
{
	if (!n)
		return;
	json_decref(n->json);
	free(n->body);
	free(n);
}
