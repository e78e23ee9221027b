/* SPDX-License-Identifier: MIT */
/* strict_json.c: recursive descent over the grammar of RFC 8259. test_strict_json.c holds it against
 * Python's. */
#include "strict_json.h"

#include <stdint.h>
#include <string.h>

#define DEPTH_MAX 4096 /* deeper than any reader here goes */

struct text {
	const unsigned char *at, *end;
	int depth;
};

static bool value(struct text *t);

static int peek(const struct text *t)
{
	return t->at < t->end ? *t->at : -1;
}

static bool take(struct text *t, int c)
{
	if (peek(t) != c)
		return false;
	t->at++;
	return true;
}

static void space(struct text *t)
{
	while (take(t, ' ') || take(t, '\t') || take(t, '\n') || take(t, '\r'))
		;
}

static bool word(struct text *t, const char *w)
{
	while (*w != '\0')
		if (!take(t, *w++))
			return false;
	return true;
}

static bool digits(struct text *t)
{
	const unsigned char *from = t->at;

	while (peek(t) >= '0' && peek(t) <= '9')
		t->at++;
	return t->at > from;
}

static bool number(struct text *t)
{
	take(t, '-');
	if (!take(t, '0') && !digits(t))
		return false;
	if (take(t, '.') && !digits(t))
		return false;
	if (take(t, 'e') || take(t, 'E')) {
		if (!take(t, '+'))
			take(t, '-');
		return digits(t);
	}
	return true;
}

/* Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF. */
static bool utf8(struct text *t)
{
	static const struct {
		unsigned char first, last, low, high;
		int more;
	} forms[] = {{0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1},
		{0xed, 0xed, 0x80, 0x9f, 1}, {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
		{0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};
	int c = peek(t);

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (c < forms[i].first || c > forms[i].last)
			continue;
		t->at++;
		if (peek(t) < forms[i].low || peek(t) > forms[i].high)
			return false;
		t->at++;
		for (int more = forms[i].more; more > 0; more--, t->at++)
			if (peek(t) < 0x80 || peek(t) > 0xbf)
				return false;
		return true;
	}
	return false;
}

static bool escape(struct text *t)
{
	if (take(t, 'u')) {
		for (int i = 0; i < 4; i++, t->at++)
			if (peek(t) <= 0 || strchr("0123456789abcdefABCDEF", peek(t)) == NULL)
				return false;
		return true;
	}
	if (peek(t) <= 0 || strchr("\"\\/bfnrt", peek(t)) == NULL)
		return false;
	t->at++;
	return true;
}

static bool string(struct text *t)
{
	if (!take(t, '"'))
		return false;
	while (!take(t, '"')) {
		if (peek(t) < 0x20) /* a control character, or the end */
			return false;
		if (peek(t) >= 0x80 ? !utf8(t) : take(t, '\\') ? !escape(t) : (t->at++, false))
			return false;
	}
	return true;
}

static bool members(struct text *t, int close)
{
	space(t);
	if (take(t, close))
		return true;
	do {
		if (close == '}') {
			space(t);
			if (!string(t))
				return false;
			space(t);
			if (!take(t, ':'))
				return false;
		}
		if (!value(t))
			return false;
	} while (take(t, ','));
	return take(t, close);
}

static bool bare(struct text *t)
{
	switch (peek(t)) {
	case '"': return string(t);
	case 't': return word(t, "true");
	case 'f': return word(t, "false");
	case 'n': return word(t, "null");
	default: return number(t);
	}
}

static bool value(struct text *t)
{
	bool good;

	space(t);
	if (++t->depth > DEPTH_MAX)
		return false;
	good = take(t, '{') ? members(t, '}') : take(t, '[') ? members(t, ']') : bare(t);
	t->depth--;
	space(t);
	return good;
}

bool strict_json(const char *text, size_t size)
{
	struct text t = {.at = (const unsigned char *)text, .end = (const unsigned char *)text + size};

	return value(&t) && t.at == t.end;
}
