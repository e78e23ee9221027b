/* SPDX-License-Identifier: MIT */
/* kit.c: what fuzz.h promises. Owns nothing; never looks at a module of the program but buf and jtext. */
#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/text.h"

void fuzz_broken(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

uint8_t feed_byte(struct feed *f)
{
	if (f->left == 0)
		return 0;
	f->left--;
	return (uint8_t)*f->at++;
}

int64_t feed_int64(struct feed *f)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | feed_byte(f);
	return (int64_t)v;
}

char *fuzz_copy(const void *data, size_t size)
{
	char *copy = xmalloc(size);

	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

static char *take_text(struct feed *f, size_t size)
{
	char *text = xmalloc(size + 1);

	if (size > 0)
		memcpy(text, f->at, size);
	text[size] = '\0';
	for (char *nul; (nul = memchr(text, '\0', size)) != NULL;)
		*nul = '?';
	f->at += size;
	f->left -= size;
	return text;
}

char *feed_line(struct feed *f)
{
	const char *newline = f->left > 0 ? memchr(f->at, '\n', f->left) : NULL;
	char *text = take_text(f, newline != NULL ? (size_t)(newline - f->at) : f->left);

	if (newline != NULL)
		feed_byte(f);
	return text;
}

char *feed_rest(struct feed *f)
{
	return take_text(f, f->left);
}

bool feed_is_empty(const struct feed *f)
{
	return f->left == 0;
}

/* FNV-1a to begin with, splitmix64 to go on. */
struct chance chance_of(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return (struct chance){hash};
}

/* Wraps on purpose. */
#if defined(__clang__)
__attribute__((no_sanitize("unsigned-integer-overflow")))
#endif
uint32_t
chance_below(struct chance *c, uint32_t n)
{
	uint64_t z = (c->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ (z >> 31)) % n);
}

json_t *fuzz_json(const char *text, size_t size)
{
	char why[256];
	json_t *v = jtext_parse(text, size, why, sizeof why);

	if (v == NULL) {
		fprintf(stderr, "%s in: %.*s\n", why, (int)(size < 2000 ? size : 2000), text);
		fuzz_broken(__FILE__, __LINE__, "what was written is JSON");
	}
	return v;
}

static bool same_members(json_t *a, json_t *b)
{
	const char *key;
	json_t *value;

	if (json_object_size(a) != json_object_size(b))
		return false;
	json_object_foreach(a, key, value)
		if (!fuzz_same(value, json_object_get(b, key)))
			return false;
	return true;
}

bool fuzz_same(const json_t *a, const json_t *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (json_is_number(a) && json_is_number(b)) {
		double x = json_number_value(a), y = json_number_value(b);

		return !(x < y) && !(x > y);
	}
	if (json_typeof(a) != json_typeof(b))
		return false;
	if (json_is_object(a)) /* jansson iterates without changing, but its type has no const */
		return same_members((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
	if (!json_is_array(a))
		return json_equal(a, b);
	if (json_array_size(a) != json_array_size(b))
		return false;
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!fuzz_same(json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

bool fuzz_is_utf8(const char *text, size_t size)
{
	for (size_t i = 0, step; i < size; i += step)
		if ((step = buf_utf8_size((const unsigned char *)text + i, size - i)) == 0)
			return false;
	return true;
}

bool fuzz_is_plain(const char *text, size_t size, const char *also)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];
		bool is_control = c < 0x20 || c == 0x7f ||
			(c == 0xc2 && i + 1 < size && (unsigned char)text[i + 1] >= 0x80 &&
				(unsigned char)text[i + 1] < 0xa0);

		if (is_control && (c == '\0' || strchr(also, c) == NULL))
			return false;
	}
	return true;
}
