/* SPDX-License-Identifier: MIT */
/* text.c: values found and copied in JSON text.
 * Owns no state. Never decides whether a text is valid JSON: jansson does, and load.c for most good texts. */
#include "json/text.h"

#include <stdio.h>
#include <string.h>

#include "json/load.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The place behind the string whose opening quote is at p. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		p += buf_plain_size(p, (size_t)(end - p));
		if (p == end)
			break;
		if (*p == '\\' && p + 1 < end)
			p++;
		else if (*p == '"')
			return p + 1;
	}
	return end;
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && is_space(*p))
		p++;
	return p;
}

static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	while (p < end) {
		char c = *p;

		if (c == '"') {
			p = skip_string(p, end);
		} else if (c == '{' || c == '[') {
			depth++;
			p++;
			continue;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return p; /* the end of the object around it */
			depth--;
			p++;
		} else if (depth == 0) {
			while (p < end && *p != ',' && *p != '}' && *p != ']' && !is_space(*p))
				p++; /* number, true, false, null */
			return p;
		} else {
			p++;
			continue;
		}
		if (depth == 0)
			return p;
	}
	return end;
}

/* An empty text may have a NULL pointer, and adding even 0 to NULL is undefined in C, so each function checks
 * the size first. */
size_t jtext_depth(const char *text, size_t size)
{
	const char *p = text, *end = size > 0 ? text + size : text;
	size_t depth = 0, deepest = 0;

	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
			continue;
		}
		if (*p == '{' || *p == '[') {
			if (++depth > deepest)
				deepest = depth;
		} else if ((*p == '}' || *p == ']') && depth > 0) {
			depth--;
		}
		p++;
	}
	return deepest;
}

json_t *jtext_load(const char *text, size_t size, size_t flags, json_error_t *e)
{
	const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;

	if (nul == NULL)
		return json_loadb(text, size, flags, e);
	/* jansson loses a NUL that it has read ahead: behind a number or a literal it would pass. */
	if (e != NULL) {
		const char *line = text;

		*e = (json_error_t){.line = 1, .position = (int)(nul - text), .source = "<buffer>"};
		for (const char *p; (p = memchr(line, '\n', (size_t)(nul - line))) != NULL; line = p + 1)
			e->line++;
		e->column = (int)(nul - line) + 1;
		snprintf(e->text, sizeof e->text - 1, "a raw NUL byte");
		e->text[sizeof e->text - 1] = json_error_null_character;
	}
	return NULL;
}

json_t *jtext_parse_numbers(const char *text, size_t size, bool *are_reals, char *why, size_t why_size)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
	json_error_t e;
	json_t *v = jload_tree(text, size);

	*are_reals = false;
	if (v != NULL)
		return v;
	v = jtext_load(text, size, flags, &e);
	*are_reals = v == NULL && json_error_code(&e) == json_error_numeric_overflow;
	if (*are_reals)
		v = jtext_load(text, size, flags | JSON_DECODE_INT_AS_REAL, &e);
	if (v == NULL)
		snprintf(why, why_size, "%s at line %d, column %d", e.text, e.line, e.column);
	return v;
}

json_t *jtext_parse(const char *text, size_t size, char *why, size_t why_size)
{
	bool are_reals;

	return jtext_parse_numbers(text, size, &are_reals, why, why_size);
}

struct jslice jtext_member(const char *object, size_t size, const char *name)
{
	const struct jslice none = {NULL, 0};
	const char *end = size > 0 ? object + size : object, *p = skip_space(object, end);
	size_t name_size = strlen(name);

	if (p == end || *p != '{')
		return none;
	for (p++; p < end;) {
		const char *key, *key_end, *value;

		p = skip_space(p, end);
		if (p == end || *p != '"')
			return none;
		key = p + 1;
		p = skip_string(p, end);
		key_end = p - 1;
		p = skip_space(p, end);
		if (p == end || *p != ':')
			return none;
		value = p = skip_space(p + 1, end);
		p = skip_value(p, end);
		if ((size_t)(key_end - key) == name_size && memcmp(key, name, name_size) == 0)
			return (struct jslice){value, (size_t)(p - value)};
		p = skip_space(p, end);
		if (p < end && *p == ',')
			p++;
	}
	return none;
}

void jtext_add_minified(struct buf *b, const char *text, size_t size)
{
	const char *p = text, *end = size > 0 ? text + size : text, *run = text;

	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
		} else if (is_space(*p)) {
			buf_add(b, run, (size_t)(p - run));
			run = p = skip_space(p, end);
		} else {
			p++;
		}
	}
	buf_add(b, run, (size_t)(p - run));
}

static int add_dumped(const char *data, size_t size, void *ctx)
{
	buf_add(ctx, data, size);
	return 0;
}

void jtext_add_value(struct buf *b, struct jslice raw, const json_t *parsed)
{
	if (raw.at != NULL)
		jtext_add_minified(b, raw.at, raw.size);
	else
		json_dump_callback(parsed, add_dumped, b, JSON_COMPACT | JSON_ENCODE_ANY);
}
