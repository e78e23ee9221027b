/* SPDX-License-Identifier: MIT */
/* fuzz_shellwords.c: command lines and lists to words. Input: the text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/shellwords.h"

enum quoting { SINGLE, DOUBLE, BACKSLASH, QUOTINGS };

static void add_quoted(struct buf *b, const char *word, enum quoting how)
{
	buf_add_text(b, how == SINGLE ? "'" : how == DOUBLE ? "\"" : "");
	for (; *word != '\0'; word++) {
		if (how == SINGLE && *word == '\'')
			buf_add_text(b, "'\\'");
		else if (how == BACKSLASH || (how == DOUBLE && strchr("\"\\$`", *word) != NULL))
			buf_add_text(b, "\\");
		buf_add(b, word, 1);
	}
	buf_add_text(b, how == SINGLE ? "'" : how == DOUBLE ? "\"" : "");
}

static void must_be_same(char *const *a, char *const *b)
{
	MUST(a != NULL && b != NULL && shellwords_count(a) == shellwords_count(b));
	for (size_t i = 0; a[i] != NULL; i++)
		MUST(strcmp(a[i], b[i]) == 0);
}

/* Quoted in any of the shell's three ways, the words come back. */
static void check_split(const char *text)
{
	const char *why = NULL;
	char **words = shellwords_split(text, &why), **again;

	MUST(words != NULL || (why != NULL && *why != '\0'));
	for (int how = 0; words != NULL && how < QUOTINGS; how++) {
		struct buf b = {0};

		for (size_t i = 0; words[i] != NULL; i++) {
			buf_add_text(&b, i > 0 ? " \t" : "");
			add_quoted(&b, words[i], words[i][0] == '\0' ? SINGLE : (enum quoting)how);
		}
		again = shellwords_split(buf_text(&b), &why);
		must_be_same(words, again);
		shellwords_free(again);
		buf_fini(&b);
	}
	if (words != NULL && strpbrk(text, "'\"\\ \t\r\n") == NULL)
		MUST(*text == '\0' ? words[0] == NULL : words[1] == NULL && strcmp(words[0], text) == 0);
	shellwords_free(words);
}

static void check_list(const char *text)
{
	char **words = shellwords_split_list(text), **again;
	struct buf b = {0};

	for (size_t i = 0; words[i] != NULL; i++) {
		MUST(words[i][0] != '\0' && strpbrk(words[i], ", \t") == NULL &&
			strstr(text, words[i]) != NULL);
		buf_addf(&b, "%s,", words[i]);
	}
	again = shellwords_split_list(buf_text(&b));
	must_be_same(words, again);
	shellwords_free(words);
	shellwords_free(again);
	buf_fini(&b);
}

static void check_unquote(const char *text)
{
	char *plain = shellwords_unquote(text), *back;
	struct buf b = {0};

	MUST(strlen(plain) <= strlen(text));
	/* Only quotes that enclose all of it are taken off. */
	MUST(strcmp(plain, text) == 0 ||
		((*text == '"' || *text == '\'') && text[strlen(text) - 1] == *text));
	buf_add_text(&b, "\"");
	for (const char *p = text; *p != '\0'; p++) {
		buf_add_text(&b, *p == '"' || *p == '\\' ? "\\" : "");
		buf_add(&b, p, 1);
	}
	buf_add_text(&b, "\"");
	back = shellwords_unquote(buf_text(&b));
	MUST(strcmp(back, text) == 0);
	free(back);
	free(plain);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *text = feed_rest(&f);

	check_split(text);
	check_list(text);
	check_unquote(text);
	free(text);
	return 0;
}
