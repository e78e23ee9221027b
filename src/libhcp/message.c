/* note.c: one message as it came: checked, and the few members read that the library itself needs.
 * Owns the one pass over a body that every message costs; a tree of it is made only for an application that
 * asks. Never refuses a type or an event that it does not know: callees may be newer. */
#include <stdlib.h>
#include <string.h>

#include "json/scan.h"
#include "libhcp/libhcp_private.h"

#define EXACT_MAX 9007199254740992.0 /* up to here a real is as good as an integer */

/* --- members --- */

static const char *text_of(struct lib_note *n, struct jslice s)
{
	char *to = n->texts + n->texts_size;

	if (!s.at || *s.at != '"')
		return "";
	memcpy(to, s.at + 1, s.size - 2);
	to[s.size - 2] = '\0';
	n->texts_size += s.size - 1;
	return to;
}

/* Places in the file are twice a sequence. */
static int64_t int_sequence(int64_t value)
{
	return value > 0 && value <= INT64_MAX / 4 ? value : 0;
}

static int64_t real_sequence(double real)
{
	return real >= 1 && real <= EXACT_MAX ? (int64_t)real : 0;
}

static int64_t sequence_of(struct jslice s)
{
	if (!s.at || *s.at < '0' || *s.at > '9')
		return 0;
	if (strspn(s.at, "0123456789") >= s.size && s.size <= 19)
		return int_sequence(
			(int64_t)strtoull(s.at, NULL, 10)); /* above INT64_MAX it comes out negative */
	return real_sequence(strtod(s.at, NULL));
}

static const char *tree_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* Escapes in names and ids are somebody's joke; jansson reads them. */
static bool read_tree(struct lib_note *n)
{
	const json_t *tree = lib_note_tree(n), *payload = json_object_get(tree, "payload");
	const json_t *sequence = json_object_get(payload, "sequence");

	if (!json_is_string(json_object_get(tree, "type")) || !json_is_object(payload))
		return false;
	n->type = tree_text(tree, "type");
	n->session = tree_text(tree, "session_id");
	n->message_id = tree_text(tree, "message_id");
	n->in_reply_to = tree_text(payload, "in_reply_to");
	n->event = "";
	if (strcmp(n->type, "event") == 0) {
		n->event = tree_text(payload, "event_type");
		if (n->session[0])
			n->sequence = json_is_integer(sequence) ? int_sequence(json_integer_value(sequence)) :
								  real_sequence(json_number_value(sequence));
	}
	return strlen(n->session) <= LIB_SESSION_MAX;
}

static bool read_members(struct lib_note *n)
{
	enum { TYPE, SESSION, ID, PAYLOAD, OUTER };
	enum { EVENT, SEQUENCE, REPLY, INNER };
	struct jscan_member inner[INNER] = {
		{.name = "event_type"}, {.name = "sequence"}, {.name = "in_reply_to"}};
	struct jscan_member outer[OUTER] = {{.name = "type"}, {.name = "session_id"}, {.name = "message_id"},
		{.name = "payload", .inner = inner, .inner_count = INNER}};
	struct jslice texts[] = {{0}, {0}, {0}, {0}, {0}};
	size_t room = 0;
	bool is_escaped = false;

	if (!jscan_object(n->body, n->size, outer, OUTER, &is_escaped) ||
		(outer[PAYLOAD].at.at && *outer[PAYLOAD].at.at != '{'))
		return false;
	texts[0] = outer[TYPE].at;
	texts[1] = outer[SESSION].at;
	texts[2] = outer[ID].at;
	texts[3] = inner[EVENT].at;
	texts[4] = inner[REPLY].at;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		room += texts[i].size;
		is_escaped |= texts[i].at && memchr(texts[i].at, '\\', texts[i].size) != NULL;
	}
	if (is_escaped)
		return read_tree(n);
	if (!texts[0].at || *texts[0].at != '"' || !outer[PAYLOAD].at.at)
		return false;
	n->texts = xmalloc(room + 1);
	n->type = text_of(n, texts[0]);
	n->session = text_of(n, texts[1]);
	n->message_id = text_of(n, texts[2]);
	n->in_reply_to = text_of(n, texts[4]);
	n->event = "";
	if (strcmp(n->type, "event") == 0) {
		n->event = text_of(n, texts[3]);
		n->sequence = n->session[0] ? sequence_of(inner[SEQUENCE].at) : 0;
	}
	return strlen(n->session) <= LIB_SESSION_MAX;
}

/* --- a note --- */

struct lib_note *lib_note_read(char *body, size_t size)
{
	struct lib_note *n = xcalloc(1, sizeof *n);

	n->body = body;
	n->size = size;
	if (read_members(n))
		return n;
	lib_note_free(n);
	return NULL;
}

void lib_note_free(struct lib_note *n)
{
	if (!n)
		return;
	json_decref(n->tree);
	free(n->texts);
	free(n->body);
	free(n);
}

const json_t *lib_note_tree(struct lib_note *n)
{
	char why[160];

	if (!n->tree && !n->is_treeless) {
		n->tree = jtext_parse(n->body, n->size, why, sizeof why);
		n->is_treeless = !n->tree; /* names twice somewhere, or half a surrogate */
	}
	return n->tree;
}
