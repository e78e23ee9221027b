/* SPDX-License-Identifier: MIT */
/* fuzz_canonical.c: canonical JSON. Input: JSON text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json/canonical.h"
#include "fuzz.h"
#include "json/text.h"

static void must_be_same(struct buf *a, struct buf *b)
{
	MUST(a->size == b->size && memcmp(a->data, b->data, a->size) == 0);
}

/* The form of another text for the same value. */
static void check_text(struct buf *form, const json_t *value, size_t flags)
{
	char *text = json_dumps(value, flags | JSON_ENCODE_ANY);
	json_t *again = fuzz_json(text, strlen(text));
	struct buf b = {0};

	canonical_add(&b, again);
	must_be_same(form, &b);
	json_decref(again);
	free(text);
	buf_fini(&b);
}

/* Keys grow, byte by byte, which is code point by code point in UTF-8; a key stands once. */
static void check_order(const json_t *value, const char *form, size_t size)
{
	struct jslice last = {NULL, 0};

	for (const char *p = form + 1; json_is_object(value) && p < form + size - 1;) {
		struct jslice key = {p + 1, 0}, member;
		char *name;

		while (key.at[key.size] != '"')
			key.size += key.at[key.size] == '\\' ? 2 : 1;
		if (last.at != NULL && memchr(last.at, '\\', last.size) == NULL &&
			memchr(key.at, '\\', key.size) == NULL) {
			size_t both = last.size < key.size ? last.size : key.size;
			int order = memcmp(last.at, key.at, both);

			MUST(order < 0 || (order == 0 && last.size < key.size));
		}
		last = key;
		name = xstrndup(key.at, key.size);
		member = jtext_member(form, size, name);
		free(name);
		MUST(member.at != NULL && member.at > p);
		p = member.at + member.size + 1;
	}
}

/* The one real whose form is read as another value, the integer 0. */
static bool has_negative_zero(const json_t *v)
{
	const char *key;
	json_t *member;

	if (json_is_real(v))
		return signbit(json_real_value(v)) && json_real_value(v) >= 0;
	for (size_t i = 0; i < json_array_size(v); i++)
		if (has_negative_zero(json_array_get(v, i)))
			return true;
	json_object_foreach((json_t *)(uintptr_t)v, key, member)
		if (has_negative_zero(member))
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	char why[256], hash[CANONICAL_HASH_SIZE], other[CANONICAL_HASH_SIZE];
	json_t *value = jtext_depth(text, size) < 500 ? jtext_parse(text, size, why, sizeof why) : NULL,
	       *again;
	struct buf form = {0}, second = {0};

	if (value == NULL)
		return 0;
	canonical_add(&form, value);
	again = fuzz_json(form.data, form.size);
	MUST(fuzz_same(value, again) && fuzz_is_utf8(form.data, form.size));
	jtext_add_minified(&second, form.data, form.size);
	must_be_same(&form, &second); /* no white space but in strings */
	check_order(value, form.data, form.size);
	check_text(&form, value, JSON_INDENT(3) | JSON_SORT_KEYS);
	check_text(&form, value, JSON_ENSURE_ASCII | JSON_ESCAPE_SLASH);
	canonical_hash(value, hash);
	canonical_hash(again, other);
	MUST(strlen(hash) == 64 && strspn(hash, "0123456789abcdef") == 64);
	MUST(strcmp(hash, other) == 0 || has_negative_zero(value)); /* the form of a form is itself */
	json_decref(value);
	json_decref(again);
	buf_fini(&form);
	buf_fini(&second);
	return 0;
}
