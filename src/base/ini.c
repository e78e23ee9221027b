/* SPDX-License-Identifier: MIT */
/* ini.c: lines to sections, keys and values.
 * Owns what a comment is, and what is no line at all.
 * Never knows a section or a key by name, never stops at an error: the next line may have another. */
#include "base/ini.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct reader {
	ini_line_fn *on_line;
	void *ctx;
	int line;
	char *section; /* NULL below a broken head */
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Cuts white space off both ends, in place. */
static char *trim(char *text)
{
	size_t size;

	while (is_space(*text))
		text++;
	size = strlen(text);
	while (size > 0 && is_space(text[size - 1]))
		text[--size] = '\0';
	return text;
}

/* The closing quote of the stretch that begins at p, NULL where it is never closed: then it is no quote. */
static const char *find_close(const char *p)
{
	char quote = *p;

	for (p++; *p != '\0' && *p != quote; p++)
		if (quote == '"' && *p == '\\' && p[1] != '\0')
			p++;
	return *p == quote ? p : NULL;
}

/* value[-1] may be looked at: it is where the = was. */
static void cut_comment(char *value)
{
	for (char *p = value; *p != '\0'; p++) {
		const char *end;

		if ((*p == ';' || *p == '#') && is_space(p[-1])) {
			*p = '\0';
			return;
		}
		if (*p == '\\' && p[1] != '\0')
			p++;
		else if ((*p == '"' || *p == '\'') && (end = find_close(p)))
			p += end - p;
	}
}

static void say_broken(struct reader *r, const char *what)
{
	r->on_line(r->ctx, r->line, NULL, NULL, what);
}

static void read_head(struct reader *r, char *text)
{
	char *close = strchr(text, ']'), *name, *rest;

	free(r->section);
	r->section = NULL;
	if (!close) {
		say_broken(r, "a section's head has no ]; write [name]");
		return;
	}
	*close = '\0';
	name = trim(text + 1);
	rest = trim(close + 1);
	if (*name == '\0' || (*rest != '\0' && *rest != ';' && *rest != '#')) {
		say_broken(r, "a section's head is [name] and nothing else on its line; put keys below it");
		return;
	}
	r->section = xstrdup(name);
	r->on_line(r->ctx, r->line, r->section, NULL, NULL);
}

static void read_line(struct reader *r, char *text)
{
	char *equals;

	text = trim(text);
	if (*text == '\0' || *text == ';' || *text == '#')
		return;
	if (*text == '[') {
		read_head(r, text);
		return;
	}
	equals = strchr(text, '=');
	if (!equals || equals == text) {
		say_broken(r, "this is no section, key or comment; write [name], key = value, or ; in front");
		return;
	}
	*equals = '\0';
	cut_comment(equals + 1);
	if (r->section)
		r->on_line(r->ctx, r->line, r->section, trim(text), trim(equals + 1));
}

static bool has_controls(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (((unsigned char)text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7f)
			return true;
	return false;
}

void ini_parse(const char *text, size_t size, ini_line_fn *on_line, void *ctx)
{
	struct reader r = {.on_line = on_line, .ctx = ctx, .section = xstrdup("")};
	const char *end = text + size;

	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((newline ? newline : end) - text);

		r.line++;
		if (length > 0 && text[length - 1] == '\r')
			length--;
		if (length > INI_LINE_MAX) {
			say_broken(&r, "the line is too long; 16384 bytes are the most");
		} else if (has_controls(text, length)) {
			say_broken(&r,
				"there is a NUL or another control character; save the file as plain text");
		} else {
			char *copy = xstrndup(text, length);

			read_line(&r, copy);
			explicit_bzero(copy, length); /* may hold a password */
			free(copy);
		}
		text = newline ? newline + 1 : end;
	}
	free(r.section);
}
