/* ctl_note.c: bytes to a message that can be looked at.
 * Owns what of it hcpctl reads. Never refuses a type or an event that it does not know: callees may be newer.
 */
#include "hcpctl/common/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/scan.h"
#include "json/text.h"

#define DEPTH_MAX 512                /* jansson descends by recursion */
#define EXACT_MAX 9007199254740992.0 /* up to here a real is as good as an integer */

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
		json_integer_value(v) :
		0;
}

/* Everything from the tree. False where it is no message. */
static bool read_tree(struct ctl_note *n, json_t *json)
{
	if (!json_is_object(json) || !ctl_note_text(json, "type") ||
		!json_is_object(json_object_get(json, "payload")))
		return false;
	n->json = json;
	n->type = text_or_empty(json, "type");
	n->session = text_or_empty(json, "session_id");
	n->message_id = text_or_empty(json, "message_id");
	n->payload = object_or_empty(json, "payload");
	n->event = "";
	n->data = n->payload;
	n->sequence = 0;
	if (strcmp(n->type, "event") == 0) {
		n->event = text_or_empty(n->payload, "event_type");
		n->data = object_or_empty(json_object_get(json, "payload"), "data");
		n->sequence = sequence_of(n->payload);
	}
	return true;
}

static json_t *parse(const char *body, size_t size)
{
	char why[160];

	return jtext_depth(body, size) <= DEPTH_MAX ? jtext_parse(body, size, why, sizeof why) : NULL;
}

struct ctl_note *ctl_note_read(char *body, size_t size)
{
	json_t *json = parse(body, size);
	struct ctl_note *n = xcalloc(1, sizeof *n);

	n->body = body;
	n->size = size;
	if (read_tree(n, json))
		return n;
	json_decref(json);
	ctl_note_free(n);
	return NULL;
}

/* --- skimming --- */

static const char *keep_text(char **at, struct jslice s)
{
	char *to = *at;

	if (!s.at || *s.at != '"')
		return "";
	memcpy(to, s.at + 1, s.size - 2);
	to[s.size - 2] = '\0';
	*at += s.size - 1;
	return to;
}

/* False: it is not as plain as nearly all are, so jansson has to look. */
static bool skim(struct ctl_note *n)
{
	enum { EVENT, SEQUENCE, INNER };
	enum { TYPE, SESSION, ID, PAYLOAD, OUTER };
	static json_t *nothing;
	struct jscan_member inner[INNER] = {{.name = "event_type"}, {.name = "sequence"}};
	struct jscan_member outer[OUTER] = {{.name = "type"}, {.name = "session_id"}, {.name = "message_id"},
		{.name = "payload", .inner = inner, .inner_count = INNER}};
	struct jslice texts[] = {{0}, {0}, {0}, {0}};
	bool is_odd = false;
	size_t room = 1;
	char *at;

	if (!jscan_object(n->body, n->size, outer, OUTER, &is_odd))
		return false;
	texts[0] = outer[TYPE].at;
	texts[1] = outer[SESSION].at;
	texts[2] = outer[ID].at;
	texts[3] = inner[EVENT].at;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		room += texts[i].size;
		is_odd |= texts[i].at && memchr(texts[i].at, '\\', texts[i].size);
	}
	is_odd |=
		!texts[0].at || *texts[0].at != '"' || !outer[PAYLOAD].at.at || *outer[PAYLOAD].at.at != '{';
	/* As an integer of jansson's would be read. */
	is_odd |= inner[SEQUENCE].at.at &&
		(inner[SEQUENCE].at.size > 18 ||
			strspn(inner[SEQUENCE].at.at, "0123456789") < inner[SEQUENCE].at.size);
	if (is_odd)
		return false;
	if (!nothing)
		nothing = json_object();
	at = n->texts = xmalloc(room);
	n->type = keep_text(&at, outer[TYPE].at);
	n->session = keep_text(&at, outer[SESSION].at);
	n->message_id = keep_text(&at, outer[ID].at);
	n->event = "";
	n->payload = n->data = nothing;
	if (strcmp(n->type, "event") == 0) {
		n->event = keep_text(&at, inner[EVENT].at);
		n->sequence = inner[SEQUENCE].at.at ? strtoll(inner[SEQUENCE].at.at, NULL, 10) : 0;
	}
	return true;
}

struct ctl_note *ctl_note_skim(char *body, size_t size)
{
	struct ctl_note *n = xcalloc(1, sizeof *n);

	n->body = body;
	n->size = size;
	if (skim(n))
		return n;
	free(n);
	return ctl_note_read(body, size);
}

void ctl_note_open(struct ctl_note *n)
{
	json_t *json = n->json ? NULL : parse(n->body, n->size);

	if (json && !read_tree(n, json))
		json_decref(json);
}

void ctl_note_free(struct ctl_note *n)
{
	if (!n)
		return;
	json_decref(n->json);
	free(n->texts);
	free(n->body);
	free(n);
}
