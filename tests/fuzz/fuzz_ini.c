/* SPDX-License-Identifier: MIT */
/* fuzz_ini.c: INI text to lines. Input: a whole file. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/ini.h"

struct seen {
	struct buf text; /* all that was said */
	int last, count;
	int64_t sum;                       /* of the numbers of lines */
	const char *section, *key, *value; /* what is expected, where one thing is */
};

static bool has_controls(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((p[i] >= 0 && p[i] < 0x20 && p[i] != '\t') || p[i] == 0x7f)
			return true;
	return false;
}

static void must_be_trimmed(const char *text)
{
	size_t size = strlen(text);

	MUST(size == 0 || (strchr(" \t", text[0]) == NULL && strchr(" \t", text[size - 1]) == NULL));
	MUST(!has_controls(text, size));
}

/* Behind white space, outside quotes, a remark would have begun. */
static void must_have_no_remark(const char *value)
{
	if (strpbrk(value, "'\"\\") != NULL)
		return;
	for (const char *p = value; *p != '\0'; p++)
		MUST(p == value || (*p != ';' && *p != '#') || (p[-1] != ' ' && p[-1] != '\t'));
}

static void on_line(void *ctx, int line, const char *section, const char *key, const char *value)
{
	struct seen *s = ctx;

	MUST(line > s->last); /* no line is told of twice, none out of order */
	s->last = line;
	s->count++;
	s->sum += line;
	if (section == NULL) {
		MUST(key == NULL && value != NULL && *value != '\0');
	} else if (key == NULL) {
		MUST(*section != '\0' && value == NULL && strchr(section, ']') == NULL);
	} else {
		MUST(*key != '\0' && value != NULL && strchr(key, '=') == NULL);
		must_be_trimmed(key);
		must_be_trimmed(value);
		must_have_no_remark(value);
	}
	if (section != NULL)
		must_be_trimmed(section);
	buf_addf(&s->text, "%d|%s|%s|%s\n", line, section ? section : "-", key ? key : "-",
		value ? value : "-");
}

static void must_say_same(struct seen *a, const char *text, size_t size)
{
	struct seen b = {.count = 0};
	char *copy = fuzz_copy(text, size);

	ini_parse(copy, size, on_line, &b);
	MUST(a->text.size == b.text.size &&
		(a->text.size == 0 || memcmp(a->text.data, b.text.data, b.text.size) == 0));
	buf_fini(&b.text);
	free(copy);
}

/* --- how many lines must have been told of, and which: reckoned apart --- */

static bool is_good_head(const char *p, size_t size)
{
	const char *close = memchr(p, ']', size), *end = p + size, *q;

	if (close == NULL)
		return false;
	for (q = p + 1; q < close && (*q == ' ' || *q == '\t'); q++)
		;
	if (q == close)
		return false;
	for (q = close + 1; q < end && (*q == ' ' || *q == '\t'); q++)
		;
	return q == end || *q == ';' || *q == '#';
}

static int count_lines(const char *p, const char *end, int *lines, int64_t *sum)
{
	bool known = true; /* whose keys these are */
	int told = 0, before;

	for (*lines = 0; p < end; (*lines)++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p)), *next = newline ? newline + 1 : end;
		size_t size = (size_t)((newline ? newline : end) - p);

		before = told;
		size -= size > 0 && p[size - 1] == '\r';
		if (size > INI_LINE_MAX || has_controls(p, size)) {
			told++;
			size = 0;
		}
		for (; size > 0 && (*p == ' ' || *p == '\t'); p++)
			size--;
		if (size > 0 && *p == '[') {
			known = is_good_head(p, size);
			told++;
		} else if (size > 0 && *p != ';' && *p != '#') {
			told += known || *p == '=' || memchr(p, '=', size) == NULL;
		}
		*sum += told > before ? *lines + 1 : 0;
		p = next;
	}
	return told;
}

/* --- the same file in another dress says the same --- */

static void check_dresses(struct seen *s, const char *text, size_t size)
{
	struct buf b = {0};

	if (size > 0 && memchr(text, '\r', size) == NULL) {
		for (size_t i = 0; i < size; i++) {
			buf_add(&b, text[i] == '\n' ? "\r" : "", text[i] == '\n');
			buf_add(&b, text + i, 1);
		}
		must_say_same(s, b.data, b.size);
	}
	buf_clear(&b);
	buf_add(&b, text, size);
	buf_add_text(&b, "\n; a remark\n \t\n# another");
	must_say_same(s, b.data, b.size);
	buf_fini(&b);
}

/* What a key's value came out as, written again, comes out the same; without a space in front, as a ; there
 * would begin a remark. */
static void on_again(void *ctx, int line, const char *section, const char *key, const char *value)
{
	const struct seen *s = ctx;

	MUST(section != NULL && strcmp(section, s->section) == 0);
	MUST((line == 2) == (key != NULL));
	if (key != NULL)
		MUST(strcmp(key, s->key) == 0 && strcmp(value, s->value) == 0);
}

static void on_written(void *ctx, int line, const char *section, const char *key, const char *value)
{
	struct seen s = {.section = section, .key = key, .value = value};
	struct buf b = {0};

	(void)ctx, (void)line;
	if (section == NULL || *section == '\0' || key == NULL)
		return;
	buf_addf(&b, "[%s]\n%s=%s\n", section, key, value);
	if (strlen(key) + strlen(value) + 3 <= INI_LINE_MAX)
		ini_parse(b.data, b.size, on_again, &s);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen s = {.count = 0};
	const char *text = (const char *)data, *body;
	int lines, told;
	int64_t sum = 0;

	body = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
	told = count_lines(body, text + size, &lines, &sum);
	ini_parse(text, size, on_line, &s);
	MUST(s.count == told && s.last <= lines && s.sum == sum);
	check_dresses(&s, text, size);
	ini_parse(text, size, on_written, NULL);
	buf_fini(&s.text);
	return 0;
}
