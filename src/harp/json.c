/* SPDX-License-Identifier: MIT */
/* json.c: JSON strict enough to be signed: one object with one canonical form on every machine.
 * Owns the forms of fields. Never knows the fields of an artifact or a decision: their tables are passed
 * in. */
#include "harp/harp_private.h"

#include <stdlib.h>
#include <string.h>

#include "json/canonical.h"
#include "base/clock.h"
#include "json/text.h"

#define INTEGER_MAX \
	((INT64_C(1) << 53) - 1) /* beyond it, a reader that has only doubles writes another number */

/* The recursion is as deep as the text, whose depth is checked before the parse. */
static bool is_reproducible(json_t *v, const char **what)
{
	const char *key;
	json_t *member;
	size_t i;

	if (json_is_real(v)) {
		*what = "a number that is no integer";
		return false;
	}
	if (json_is_integer(v) &&
		(json_integer_value(v) > INTEGER_MAX || json_integer_value(v) < -INTEGER_MAX)) {
		*what = "an integer beyond 2^53-1";
		return false;
	}
	json_array_foreach(v, i, member)
		if (!is_reproducible(member, what))
			return false;
	json_object_foreach(v, key, member)
		if (!is_reproducible(member, what))
			return false;
	return true;
}

enum harp_code harp_parse(
	const char *text, size_t size, size_t most, json_t **object, char *why, size_t why_size)
{
	const char *what = NULL;
	json_error_t e;
	json_t *v;

	if (size > most)
		return harp_refuse(why, why_size, HARP_CANONICALIZATION, "longer than %zu bytes", most);
	if (jtext_depth(text, size) > HARP_DEPTH_MAX)
		return harp_refuse(
			why, why_size, HARP_CANONICALIZATION, "deeper than %d levels", HARP_DEPTH_MAX);
	v = jtext_load(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (v == NULL)
		return harp_refuse(why, why_size, HARP_CANONICALIZATION, "%s at line %d, column %d", e.text,
			e.line, e.column);
	if (json_is_object(v) && is_reproducible(v, &what)) {
		*object = v;
		return HARP_OK;
	}
	json_decref(v);
	return harp_refuse(why, why_size, HARP_CANONICALIZATION, "%s", what != NULL ? what : "no object");
}

void harp_add_signable(struct buf *b, json_t *object, const char *without)
{
	json_t *copy = json_copy(object); /* shallow */

	if (copy == NULL)
		abort();
	if (without != NULL)
		json_object_del(copy, without);
	canonical_add(b, copy);
	json_decref(copy);
}

void harp_hash(const void *data, size_t size, char hex[HARP_HASH_SIZE])
{
	canonical_hash_bytes(data, size, hex);
}

const char *harp_text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* --- forms --- */

static bool is_uuid(const char *t)
{
	if (strlen(t) != 36)
		return false;
	for (int i = 0; i < 36; i++) {
		bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? t[i] != '-' : strchr("0123456789abcdefABCDEF", t[i]) == NULL)
			return false;
	}
	return true;
}

/* 26 digits of Crockford's base 32, which has no I, L, O and U; 128 bits leave the first at most 7. */
static bool is_ulid(const char *t)
{
	return strlen(t) == 26 && t[0] <= '7' &&
		strspn(t, "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz") == 26;
}

bool harp_is_id(const char *text)
{
	return is_uuid(text) || is_ulid(text);
}

/* Checks the form of RFC 3339 only: clock_parse checks the calendar, but accepts more forms. In the pattern,
 * 0 stands for a digit. */
bool harp_parse_time(const char *text, int64_t *wall_us)
{
	static const char date[] = "0000-00-00T00:00:00";
	const char *p = text;

	for (const char *f = date; *f != '\0'; f++, p++)
		if (*f == '0' ? *p < '0' || *p > '9' : *p != *f && !(*f == 'T' && *p == 't'))
			return false;
	if (memcmp(text + 11, "24", 2) == 0)
		return false;
	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	if (*p != 'Z' && *p != 'z' && (strlen(p) != 6 || p[3] != ':'))
		return false;
	return clock_parse(text, wall_us);
}

void harp_format_time(int64_t wall_us, char out[HARP_TIME_SIZE])
{
	char full[CLOCK_TEXT_SIZE];

	clock_format(wall_us, full);
	memcpy(out, full, HARP_TIME_SIZE - 2);
	memcpy(out + HARP_TIME_SIZE - 2, "Z", 2);
}

static bool is_text(const json_t *v)
{
	return json_is_string(v) && memchr(json_string_value(v), '\0', json_string_length(v)) == NULL;
}

static bool is_word(const json_t *v)
{
	size_t size = json_string_length(v);

	if (!json_is_string(v) || size == 0 || size > HARP_WORD_MAX)
		return false;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)json_string_value(v)[i] < 0x20 || json_string_value(v)[i] == 0x7f)
			return false;
	return true;
}

static bool is_strings(const json_t *v)
{
	size_t n = json_array_size(v);

	if (!json_is_array(v) || n > HARP_REASONS_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_text(json_array_get(v, i)))
			return false;
	return true;
}

static bool has_form(const struct harp_field *f, const json_t *v)
{
	int64_t at;

	switch (f->form) {
	case FORM_WORD: return is_word(v);
	case FORM_ID: return is_word(v) && harp_is_id(json_string_value(v));
	case FORM_TIME: return is_word(v) && harp_parse_time(json_string_value(v), &at);
	case FORM_CONST: return is_word(v) && strcmp(json_string_value(v), f->value) == 0;
	case FORM_TEXT: return is_text(v);
	case FORM_OBJECT: return json_is_object(v);
	case FORM_STRINGS: return is_strings(v);
	}
	return false;
}

enum harp_code harp_check_fields(json_t *object, const struct harp_field *fields, size_t count,
	const char *what, char *why, size_t why_size)
{
	static const char *const forms[] = {
		[FORM_WORD] = "a string of 1 to 1024 bytes without control characters",
		[FORM_ID] = "a UUID or a ULID",
		[FORM_TIME] = "a time as in RFC 3339",
		[FORM_CONST] = "what HARP 0.2 has there",
		[FORM_TEXT] = "a string without U+0000",
		[FORM_OBJECT] = "an object",
		[FORM_STRINGS] = "an array of at most 64 strings",
	};
	const char *name = "";
	size_t found = 0;
	json_t *v;

	for (size_t i = 0; i < count; i++) {
		if ((v = json_object_get(object, fields[i].name)) == NULL) {
			if (fields[i].optional)
				continue;
			return harp_refuse(
				why, why_size, HARP_UNSUPPORTED, "%s: no %s", what, fields[i].name);
		}
		found++;
		if (!has_form(&fields[i], v))
			return harp_refuse(why, why_size, HARP_UNSUPPORTED, "%s: %s is not %s", what,
				fields[i].name, forms[fields[i].form]);
	}
	if (found == json_object_size(object))
		return HARP_OK;
	json_object_foreach(object, name, v) {
		size_t i = 0;

		while (i < count && strcmp(fields[i].name, name) != 0)
			i++;
		if (i == count)
			break;
	}
	return harp_refuse(why, why_size, HARP_UNSUPPORTED, "%s: unknown field %.64s", what, name);
}
