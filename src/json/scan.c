/* SPDX-License-Identifier: MIT */
/* scan.c: JSON checked and a few members found, in one pass.
 * Owns what is good JSON here: RFC 8259, UTF-8, a bound on depth.
 * Never makes a tree, never copies. */
#include "json/scan.h"

#include <string.h>

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

/* p is at the opening quote. The text ends in a NUL, which a string cannot contain. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++;;) {
		unsigned char c;
		size_t size;

		p += buf_plain_size(p, (size_t)(end - p));
		c = (unsigned char)*p;
		if (c == '"')
			return p + 1;
		if (c < 0x20)
			return NULL;
		if (c >= 0x80) {
			if ((size = buf_utf8_size((const unsigned char *)p, (size_t)(end - p))) == 0)
				return NULL;
			p += size;
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
	case '"': return skip_string(p, end);
	case 't': return strncmp(p, "true", 4) == 0 ? p + 4 : NULL;
	case 'f': return strncmp(p, "false", 5) == 0 ? p + 5 : NULL;
	case 'n': return strncmp(p, "null", 4) == 0 ? p + 4 : NULL;
	default: return skip_number(p);
	}
}

static const char *skip_key(const char *p, const char *end)
{
	if (*p != '"' || !(p = skip_string(p, end)))
		return NULL;
	p = skip_space(p);
	return *p == ':' ? skip_space(p + 1) : NULL;
}

/* Without recursion: `open` holds the bracket of each level. */
static const char *skip_value(const char *p, const char *end)
{
	char open[JSCAN_DEPTH_MAX];
	size_t depth = 0;

	for (;;) {
		if (*p == '{' || *p == '[') {
			char close = *p == '{' ? '}' : ']';

			if (depth == JSCAN_DEPTH_MAX)
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

static const char *skip_object(
	const char *p, const char *end, struct jscan_member *members, size_t count, bool *is_escaped);

static const char *take_member(const char *value, const char *end, struct jscan_member *m, bool *is_escaped)
{
	const char *after;

	if (m->at.at)
		return NULL;
	after = m->inner && *value == '{' ? skip_object(value, end, m->inner, m->inner_count, is_escaped) :
					    skip_value(value, end);
	if (after)
		m->at = (struct jslice){value, (size_t)(after - value)};
	return after;
}

/* key is behind its opening quote, and has a closing one, which ends the comparison. */
static bool is_name(const char *key, const char *name)
{
	while (*name && *key == *name) {
		key++;
		name++;
	}
	return !*name && *key == '"';
}

/* p is at the opening bracket. NULL where it is no object, or has one of the members twice. */
static const char *skip_object(
	const char *p, const char *end, struct jscan_member *members, size_t count, bool *is_escaped)
{
	if (*p != '{')
		return NULL;
	p = skip_space(p + 1);
	if (*p == '}')
		return p + 1;
	for (;;) {
		const char *key = p + 1, *value = skip_key(p, end), *after;
		struct jscan_member *m = NULL;

		if (!value)
			return NULL;
		for (size_t i = 0; i < count && !m; i++)
			if (is_name(key, members[i].name))
				m = &members[i];
		if (!m)
			*is_escaped |= memchr(key, '\\', (size_t)(value - key)) != NULL;
		after = m ? take_member(value, end, m, is_escaped) : skip_value(value, end);
		if (!after)
			return NULL;
		p = skip_space(after);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return NULL;
		p = skip_space(p + 1);
	}
}

bool jscan_object(const char *text, size_t size, struct jscan_member *members, size_t count, bool *is_escaped)
{
	const char *end = text + size,
		   *behind = skip_object(skip_space(text), end, members, count, is_escaped);

	return behind && skip_space(behind) == end;
}
