/* SPDX-License-Identifier: MIT */
/* inbound.c: the members of a callee's message that every caller needs.
 * Owns the rules for them: which must be there, and which numbers are a sequence. Never parses a whole tree,
 * and never refuses a type or an event that it does not know. */
#include "protocol/inbound.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/scan.h"

#define EXACT_MAX 9007199254740992.0 /* up to here a real is as good as an integer */
#define SEQUENCE_DIGITS_MAX 19       /* so many fit into an uint64_t */

/* ---- sequence ---- */

/* Both callers compute with twice a sequence, so a sequence must stay far below INT64_MAX. */
static int64_t int_sequence(int64_t value)
{
	return value > 0 && value <= INT64_MAX / 4 ? value : 0;
}

static int64_t real_sequence(double value)
{
	return value >= 1 && value <= EXACT_MAX ? (int64_t)value : 0;
}

static int64_t scanned_sequence(struct jslice s)
{
	uint64_t value = 0;
	size_t i = 0;

	if (!s.at || *s.at < '0' || *s.at > '9')
		return 0;
	for (; i < s.size && i < SEQUENCE_DIGITS_MAX && s.at[i] >= '0' && s.at[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(s.at[i] - '0');
	/* A value above INT64_MAX becomes negative here, and int_sequence drops it. */
	return i == s.size ? int_sequence((int64_t)value) : real_sequence(strtod(s.at, NULL));
}

/* jtext_parse reads all integers of a message as reals where one of them has more than 64 bits. */
static int64_t tree_sequence(const json_t *v)
{
	return json_is_integer(v) ? int_sequence(json_integer_value(v)) : real_sequence(json_number_value(v));
}

/* ---- one pass ---- */

/* Copies a string without its quotes to *room, and moves *room behind it. */
static const char *copy_text(char **room, struct jslice s)
{
	char *to = *room;

	if (!s.at || *s.at != '"')
		return "";
	memcpy(to, s.at + 1, s.size - 2);
	to[s.size - 2] = '\0';
	*room += s.size - 1;
	return to;
}

enum inbound_result inbound_scan(struct inbound *m, const char *body, size_t size)
{
	enum { TYPE, SESSION, ID, PAYLOAD, OUTER };
	enum { EVENT, SEQUENCE, REPLY, INNER };
	struct jscan_member inner[INNER] = {
		{.name = "event_type"}, {.name = "sequence"}, {.name = "in_reply_to"}};
	struct jscan_member outer[OUTER] = {{.name = "type"}, {.name = "session_id"}, {.name = "message_id"},
		{.name = "payload", .inner = inner, .inner_count = INNER}};
	struct jslice texts[] = {{0}, {0}, {0}, {0}, {0}};
	bool is_escaped = false;
	size_t bytes = 1;
	char *room;

	*m = (struct inbound){.type = NULL};
	if (!jscan_object(body, size, outer, OUTER, &is_escaped) ||
		(outer[PAYLOAD].at.at && *outer[PAYLOAD].at.at != '{'))
		return INBOUND_BAD;
	texts[0] = outer[TYPE].at;
	texts[1] = outer[SESSION].at;
	texts[2] = outer[ID].at;
	texts[3] = inner[EVENT].at;
	texts[4] = inner[REPLY].at;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		bytes += texts[i].size;
		is_escaped |= texts[i].at && memchr(texts[i].at, '\\', texts[i].size) != NULL;
	}
	if (is_escaped)
		return INBOUND_NEEDS_TREE;
	if (!texts[0].at || *texts[0].at != '"' || !outer[PAYLOAD].at.at)
		return INBOUND_BAD;
	room = m->texts = xmalloc(bytes);
	m->type = copy_text(&room, texts[0]);
	m->session = copy_text(&room, texts[1]);
	m->message_id = copy_text(&room, texts[2]);
	m->in_reply_to = copy_text(&room, texts[4]);
	m->event = "";
	if (strcmp(m->type, "event") == 0) {
		m->event = copy_text(&room, texts[3]);
		m->sequence = scanned_sequence(inner[SEQUENCE].at);
	}
	return INBOUND_OK;
}

/* ---- a tree ---- */

static const char *text_or_empty(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

bool inbound_read_tree(struct inbound *m, const json_t *tree)
{
	const json_t *payload = json_object_get(tree, "payload");

	if (!json_is_string(json_object_get(tree, "type")) || !json_is_object(payload))
		return false;
	*m = (struct inbound){.type = text_or_empty(tree, "type"),
		.session = text_or_empty(tree, "session_id"),
		.message_id = text_or_empty(tree, "message_id"),
		.in_reply_to = text_or_empty(payload, "in_reply_to"),
		.event = ""};
	if (strcmp(m->type, "event") == 0) {
		m->event = text_or_empty(payload, "event_type");
		m->sequence = tree_sequence(json_object_get(payload, "sequence"));
	}
	return true;
}
