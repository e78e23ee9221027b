/* SPDX-License-Identifier: MIT */
/* load.c: plain JSON, checked in one pass, with or without a tree.
 * Owns what is plain. Never takes what jansson refuses, never says that a text is bad. */
#include "json/load.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define NUMBER_MAX 32     /* characters of a number */
#define INT_DIGITS_MAX 18 /* any integer of so many digits fits into 64 bits */

struct reader {
	const char *p, *end;
	size_t depth;
	struct buf text; /* of a string with escapes */
};

/* 0 at the end, and no text may have a NUL where a character is looked at. */
static char peek(const struct reader *r)
{
	return r->p < r->end ? *r->p : '\0';
}

static void skip_space(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

static bool take(struct reader *r, char c)
{
	if (peek(r) != c)
		return false;
	r->p++;
	return true;
}

/* ---- strings ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of \uXXXX at r->p. -1: there are none. */
static int take_hex(struct reader *r)
{
	int value = 0;

	if (r->end - r->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(*r->p++);

		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

static void add_utf8(struct buf *b, unsigned c)
{
	char out[4];
	size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = size - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(first[size] | c);
	buf_add(b, out, size);
}

/* Behind `\u`. A NUL and half of a pair are left to jansson. */
static bool take_code_point(struct reader *r)
{
	int c = take_hex(r), low;

	if (c <= 0 || (c >= 0xdc00 && c <= 0xdfff))
		return false;
	if (c >= 0xd800 && c <= 0xdbff) {
		if (!take(r, '\\') || !take(r, 'u') || (low = take_hex(r)) < 0xdc00 || low > 0xdfff)
			return false;
		c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
	}
	add_utf8(&r->text, (unsigned)c);
	return true;
}

/* Behind the backslash. */
static bool take_escape(struct reader *r)
{
	static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	char c = peek(r);
	const char *at;

	if (take(r, 'u'))
		return take_code_point(r);
	if (c == '\0' || (at = strchr(letters, c)) == NULL)
		return false;
	r->p++;
	buf_add(&r->text, meanings + (at - letters), 1);
	return true;
}

/* The string at r->p: a piece of the text itself, or of r->text where it has escapes. */
static bool take_string(struct reader *r, const char **text, size_t *size, bool *is_escaped)
{
	const char *from;

	if (!take(r, '"'))
		return false;
	from = r->p;
	*is_escaped = false;
	for (;;) {
		r->p += buf_plain_size(r->p, (size_t)(r->end - r->p));
		if (peek(r) == '"')
			break;
		if (peek(r) == '\\') {
			if (!*is_escaped)
				buf_clear(&r->text);
			*is_escaped = true;
			buf_add(&r->text, from, (size_t)(r->p - from));
			r->p++;
			if (!take_escape(r))
				return false;
			from = r->p;
		} else {
			size_t step = (unsigned char)peek(r) < 0x20 ?
				0 :
				buf_utf8_size((const unsigned char *)r->p, (size_t)(r->end - r->p));

			if (step == 0)
				return false;
			r->p += step;
		}
	}
	if (*is_escaped)
		buf_add(&r->text, from, (size_t)(r->p - from));
	*text = *is_escaped ? r->text.data : from;
	*size = *is_escaped ? r->text.size : (size_t)(r->p - from);
	r->p++;
	return true;
}

/* ---- numbers ---- */

static size_t take_digits(struct reader *r)
{
	const char *from = r->p;

	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
	return (size_t)(r->p - from);
}

/* No number that is taken here can be beyond its range: an integer is short, and a real has no exponent. */
static bool take_number(struct reader *r, bool *is_real)
{
	const char *from = r->p;
	bool has_zero;
	size_t digits;

	(void)take(r, '-');
	has_zero = peek(r) == '0';
	digits = take_digits(r);
	if (digits == 0 || (has_zero && digits > 1))
		return false;
	*is_real = take(r, '.');
	if (*is_real ? take_digits(r) == 0 : digits > INT_DIGITS_MAX)
		return false;
	return peek(r) != 'e' && peek(r) != 'E' && r->p - from < NUMBER_MAX;
}

static json_t *make_number(const char *text, size_t size, bool is_real)
{
	char copy[NUMBER_MAX + 1], *end;
	int64_t value = 0;
	double real;

	if (!is_real) {
		for (size_t i = *text == '-'; i < size; i++)
			value = value * 10 + (text[i] - '0');
		return json_integer(*text == '-' ? -value : value);
	}
	memcpy(copy, text, size);
	copy[size] = '\0';
	real = strtod(copy, &end);
	/* where the locale has no decimal point, only jansson knows */
	return *end == '\0' && isfinite(real) ? json_real(real) : NULL;
}

/* ---- values ---- */

static bool take_word(struct reader *r, const char *word)
{
	size_t size = strlen(word);

	if ((size_t)(r->end - r->p) < size || memcmp(r->p, word, size) != 0)
		return false;
	r->p += size;
	return true;
}

static json_t *read_value(struct reader *r);

static bool read_member(struct reader *r, json_t *object)
{
	size_t size, before = json_object_size(object);
	const char *name;
	char *copy = NULL;
	bool is_escaped, is_good;
	json_t *value;

	skip_space(r);
	if (!take_string(r, &name, &size, &is_escaped))
		return false;
	if (is_escaped) /* the value may use the same memory */
		name = copy = memcpy(xmalloc(size), name, size);
	skip_space(r);
	value = take(r, ':') ? read_value(r) : NULL;
	is_good = value != NULL && json_object_setn_new_nocheck(object, name, size, value) == 0 &&
		json_object_size(object) > before; /* else the name was there */
	free(copy);
	return is_good;
}

static bool read_element(struct reader *r, json_t *array)
{
	json_t *value = read_value(r);

	return value != NULL && json_array_append_new(array, value) == 0;
}

/* Behind the opening bracket. */
static json_t *read_container(
	struct reader *r, json_t *c, char close, bool (*read_one)(struct reader *, json_t *))
{
	bool is_good = c != NULL && ++r->depth <= JLOAD_DEPTH_MAX;

	skip_space(r);
	if (is_good && !take(r, close)) {
		while ((is_good = read_one(r, c))) {
			skip_space(r);
			if (take(r, close))
				break;
			if (!(is_good = take(r, ',')))
				break;
		}
	}
	r->depth--;
	if (is_good)
		return c;
	json_decref(c);
	return NULL;
}

static json_t *read_scalar(struct reader *r)
{
	const char *text = r->p;
	bool flag;
	size_t size;

	switch (peek(r)) {
	case '"': return take_string(r, &text, &size, &flag) ? json_stringn_nocheck(text, size) : NULL;
	case 't': return take_word(r, "true") ? json_true() : NULL;
	case 'f': return take_word(r, "false") ? json_false() : NULL;
	case 'n': return take_word(r, "null") ? json_null() : NULL;
	default: return take_number(r, &flag) ? make_number(text, (size_t)(r->p - text), flag) : NULL;
	}
}

static json_t *read_value(struct reader *r)
{
	skip_space(r);
	if (take(r, '{'))
		return read_container(r, json_object(), '}', read_member);
	if (take(r, '['))
		return read_container(r, json_array(), ']', read_element);
	return read_scalar(r);
}

json_t *jload_tree(const char *text, size_t size)
{
	struct reader r = {.p = text, .end = size > 0 ? text + size : text};
	json_t *v = read_value(&r);

	skip_space(&r);
	if (r.p < r.end) {
		json_decref(v);
		v = NULL;
	}
	buf_fini(&r.text);
	return v;
}

/* ---- an object without a tree ---- */

static bool skip_scalar(struct reader *r)
{
	const char *text;
	bool flag;
	size_t size;

	switch (peek(r)) {
	case '"': return take_string(r, &text, &size, &flag);
	case 't': return take_word(r, "true");
	case 'f': return take_word(r, "false");
	case 'n': return take_word(r, "null");
	default: return take_number(r, &flag);
	}
}

static bool is_named(const struct jload_member *members, size_t count, const char *name, size_t size)
{
	for (size_t i = 0; i < count; i++)
		if (members[i].name_size == size && memcmp(members[i].name, name, size) == 0)
			return true;
	return false;
}

static bool take_flat_member(struct reader *r, struct jload_member *members, size_t count)
{
	struct jload_member *m = &members[count];
	bool is_escaped;

	skip_space(r);
	if (!take_string(r, &m->name, &m->name_size, &is_escaped) || is_escaped ||
		is_named(members, count, m->name, m->name_size))
		return false;
	skip_space(r);
	if (!take(r, ':'))
		return false;
	skip_space(r);
	m->value = r->p;
	if (!skip_scalar(r))
		return false;
	m->value_size = (size_t)(r->p - m->value);
	skip_space(r);
	return true;
}

static bool take_flat(struct reader *r, struct jload_member *members, size_t most, size_t *count)
{
	*count = 0;
	skip_space(r);
	if (!take(r, '{'))
		return false;
	skip_space(r);
	if (take(r, '}'))
		return true;
	while (*count < most && take_flat_member(r, members, *count)) {
		++*count;
		if (take(r, '}'))
			return true;
		if (!take(r, ','))
			return false;
	}
	return false;
}

bool jload_flat(const char *text, size_t size, struct jload_member *members, size_t *count)
{
	struct reader r = {.p = text, .end = size > 0 ? text + size : text};
	bool is_flat = take_flat(&r, members, *count, count);

	skip_space(&r);
	buf_fini(&r.text);
	return is_flat && r.p == r.end;
}
