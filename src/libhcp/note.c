/* note.c: one message as it came: checked, and the few members read that the library itself needs.
 * Owns the one pass over a body that every message costs; a tree of it is made only for an application that asks.
 * Never refuses a type or an event that it does not know: callees may be newer. */
#include <stdlib.h>
#include <string.h>

#include "jtext.h"
#include "lib.h"

#define DEPTH_MAX 512                   /* jansson descends by recursion, when it is asked for a tree */
#define EXACT_MAX 9007199254740992.0    /* up to here a real is as good as an integer */

/* --- one pass: each skip returns what is behind, or NULL where it is no JSON --- */

static const char *skip_space(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')
		p++;
	return p;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* p is at the opening quote. The body ends in a NUL, which no string may hold. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++;;) {
		unsigned char c = (unsigned char)*p;
		size_t size;

		if (c == '"')
			return p + 1;
		if (c < 0x20)
			return NULL;
		if (c >= 0x80) {
			if ((size = buf_utf8_size((const unsigned char *)p, (size_t)(end - p))) == 0)
				return NULL;
			p += size;
		} else if (c != '\\') {
			p++;
		} else if (p[1] == 'u') {
			if (!is_hex(p[2]) || !is_hex(p[3]) || !is_hex(p[4]) || !is_hex(p[5]))
				return NULL;
			p += 6;
		} else {
			if (!p[1] || !strchr("\"\\/bfnrt", p[1]))
				return NULL;
			p += 2;
		}
	}
}

static const char *skip_digits(const char *p)
{
	if (*p < '0' || *p > '9')
		return NULL;
	while (*p >= '0' && *p <= '9')
		p++;
	return p;
}

static const char *skip_number(const char *p)
{
	p += *p == '-';
	if (!(p = *p == '0' ? p + 1 : skip_digits(p)))
		return NULL;
	if (*p == '.' && !(p = skip_digits(p + 1)))
		return NULL;
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		p = skip_digits(p);
	}
	return p;
}

static const char *skip_scalar(const char *p, const char *end)
{
	switch (*p) {
	case '"':
		return skip_string(p, end);
	case 't':
		return strncmp(p, "true", 4) == 0 ? p + 4 : NULL;
	case 'f':
		return strncmp(p, "false", 5) == 0 ? p + 5 : NULL;
	case 'n':
		return strncmp(p, "null", 4) == 0 ? p + 4 : NULL;
	default:
		return skip_number(p);
	}
}

static const char *skip_key(const char *p, const char *end)
{
	if (*p != '"' || !(p = skip_string(p, end)))
		return NULL;
	p = skip_space(p);
	return *p == ':' ? skip_space(p + 1) : NULL;
}

/* Without recursion: open holds the bracket of each level. */
static const char *skip_value(const char *p, const char *end)
{
	char open[DEPTH_MAX];
	size_t depth = 0;

	for (;;) {
		if (*p == '{' || *p == '[') {
			char close = *p == '{' ? '}' : ']';

			if (depth == DEPTH_MAX)
				return NULL;
			open[depth++] = *p;
			p = skip_space(p + 1);
			if (*p == close)
				goto closed;
			if (close == '}' && !(p = skip_key(p, end)))
				return NULL;
			continue;
		}
		if (!(p = skip_scalar(p, end)))
			return NULL;
		for (;;) {
			if (depth == 0)
				return p;
			p = skip_space(p);
			if (*p == ',')
				break;
			if (*p != (open[depth - 1] == '{' ? '}' : ']'))
				return NULL;
closed:
			p++;
			depth--;
		}
		p = skip_space(p + 1);
		if (open[depth - 1] == '{' && !(p = skip_key(p, end)))
			return NULL;
	}
}

/* --- members --- */

struct wanted {
	const char *name;
	struct jslice at;               /* the value, as written */
};

/* The object at p; its members of these names. False where it is none, or says one of them twice. A name that is
 * written with escapes may be any: is_escaped then. */
static bool read_object(const char *p, const char *end, struct wanted *wanted, size_t count, const char **behind,
	bool *is_escaped)
{
	if (*p != '{')
		return false;
	p = skip_space(p + 1);
	if (*p == '}') {
		*behind = p + 1;
		return true;
	}
	for (;;) {
		const char *key = p + 1, *value = skip_key(p, end), *after = value ? skip_value(value, end) : NULL;

		if (!after)
			return false;
		*is_escaped |= memchr(key, '\\', (size_t)(value - key)) != NULL;
		for (size_t i = 0; i < count; i++) {
			size_t size = strlen(wanted[i].name);

			if (strncmp(key, wanted[i].name, size) != 0 || key[size] != '"')
				continue;
			if (wanted[i].at.at)
				return false;
			wanted[i].at = (struct jslice){ value, (size_t)(after - value) };
		}
		p = skip_space(after);
		if (*p == '}') {
			*behind = p + 1;
			return true;
		}
		if (*p != ',')
			return false;
		p = skip_space(p + 1);
	}
}

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
		return int_sequence((int64_t)strtoull(s.at, NULL, 10)); /* above INT64_MAX it comes out negative */
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
	struct wanted outer[OUTER] = { { .name = "type" }, { .name = "session_id" }, { .name = "message_id" },
		{ .name = "payload" } };
	struct wanted inner[INNER] = { { .name = "event_type" }, { .name = "sequence" }, { .name = "in_reply_to" } };
	const char *end = n->body + n->size, *behind;
	struct jslice texts[] = { { 0 }, { 0 }, { 0 }, { 0 }, { 0 } };
	size_t room = 0;
	bool is_escaped = false;

	if (!read_object(skip_space(n->body), end, outer, OUTER, &behind, &is_escaped) || skip_space(behind) != end)
		return false;
	if (outer[PAYLOAD].at.at && !read_object(outer[PAYLOAD].at.at, end, inner, INNER, &behind, &is_escaped))
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
		n->is_treeless = !n->tree;      /* names twice somewhere, or half a surrogate */
	}
	return n->tree;
}
