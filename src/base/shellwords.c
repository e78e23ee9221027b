/* SPDX-License-Identifier: MIT */
/* shellwords.c: shell quoting without a shell.
 * Owns the one reading of quotes that commands, environment lists and plain values share.
 * Never expands anything: what is written is what the worker gets. */
#include "base/shellwords.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct list {
	char **words;
	size_t count, room;
};

static void list_add(struct list *l, struct buf *word)
{
	if (l->count + 2 > l->room) {
		l->room = l->room ? 2 * l->room : 8;
		l->words = xrealloc(l->words, l->room * sizeof(*l->words));
	}
	l->words[l->count++] = xstrndup(buf_text(word), word->size);
	l->words[l->count] = NULL;
	buf_clear(word);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* p is behind the opening quote; NULL where there is no closing one. */
static const char *take_quoted(const char *p, char quote, struct buf *word)
{
	for (; *p != quote; p++) {
		if (*p == '\0')
			return NULL;
		if (quote == '"' && *p == '\\' && p[1] != '\0' && strchr("\"\\$`", p[1]))
			p++;
		buf_add(word, p, 1);
	}
	return p + 1;
}

static const char *take_word(const char *p, struct buf *word, const char **why)
{
	while (*p != '\0' && !is_space(*p)) {
		if (*p == '\'' || *p == '"') {
			*why = *p == '"' ? "a \" is not closed" : "a ' is not closed";
			p = take_quoted(p + 1, *p, word);
			if (!p)
				return NULL;
			continue;
		}
		if (*p == '\\' && *++p == '\0') {
			*why = "it ends in a lone backslash";
			return NULL;
		}
		buf_add(word, p++, 1);
	}
	return p;
}

static void wipe_buf(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->room);
	buf_fini(b);
}

char **shellwords_split(const char *text, const char **why)
{
	struct list l = {.words = xcalloc(1, sizeof(char *))};
	struct buf word = {0};
	const char *p = text;

	for (;;) {
		while (is_space(*p))
			p++;
		if (*p == '\0')
			break;
		p = take_word(p, &word, why);
		if (!p) {
			shellwords_free(l.words);
			l.words = NULL;
			break;
		}
		list_add(&l, &word);
	}
	wipe_buf(&word);
	return l.words;
}

char **shellwords_split_list(const char *text)
{
	struct list l = {.words = xcalloc(1, sizeof(char *))};
	struct buf word = {0};

	while (*text != '\0') {
		size_t size = strcspn(text, ", \t");

		if (size > 0) {
			buf_add(&word, text, size);
			list_add(&l, &word);
		}
		text += size;
		text += strspn(text, ", \t");
	}
	buf_fini(&word);
	return l.words;
}

size_t shellwords_count(char *const *words)
{
	size_t count = 0;

	while (words && words[count])
		count++;
	return count;
}

void shellwords_free(char **words)
{
	if (!words)
		return;
	for (char **w = words; *w; w++) {
		explicit_bzero(*w, strlen(*w));
		free(*w);
	}
	free(words);
}

char *shellwords_unquote(const char *text)
{
	char quote = *text, *copy, *to;
	const char *p;

	if (quote != '"' && quote != '\'')
		return xstrdup(text);
	copy = to = xmalloc(strlen(text) + 1);
	for (p = text + 1; *p != '\0' && *p != quote; p++) {
		if (quote == '"' && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
			p++;
		*to++ = *p;
	}
	*to = '\0';
	if (*p == quote && p[1] == '\0')
		return copy;
	free(copy); /* the quotes do not enclose it: they are part of it */
	return xstrdup(text);
}
