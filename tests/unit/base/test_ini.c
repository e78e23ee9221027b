/* SPDX-License-Identifier: MIT */
/* test_ini.c: lines to sections, keys and values. */
#include "base/ini.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void note(void *ctx, int line, const char *section, const char *key, const char *value)
{
	struct buf *b = ctx;

	if (!section)
		buf_addf(b, "%d:! ", line);
	else if (!key)
		buf_addf(b, "%d:[%s] ", line, section);
	else
		buf_addf(b, "%d:%s.%s=<%s> ", line, section, key, value);
	ck_assert(section || (value && !key));
}

#define T(text) text, sizeof(text) - 1

static const struct {
	const char *text;
	size_t size;
	const char *seen;
} cases[] = {
	{T(""), ""},
	{T("\n\n  \n"), ""},
	{T("; x\n# y\n  ; z"), ""},
	{T("[a]"), "1:[a] "},
	{T("[a]\n[b]\n"), "1:[a] 2:[b] "},
	{T("[ a b ] ; c\nk = v\n"), "1:[a b] 2:a b.k=<v> "},
	{T("[a]\nk=v"), "1:[a] 2:a.k=<v> "},
	{T("[a]\n\tk\t=\tv w \n"), "1:[a] 2:a.k=<v w> "},
	{T("[a]\nk =\n"), "1:[a] 2:a.k=<> "},
	{T("k=v\n"), "1:.k=<v> "},
	{T("[a]\nk = v ; c\nl = v # c\n"), "1:[a] 2:a.k=<v> 3:a.l=<v> "},
	{T("[a]\nk = v;c#d\n"), "1:[a] 2:a.k=<v;c#d> "},
	{T("[a]\nk = ; c\n"), "1:[a] 2:a.k=<> "},
	{T("[a]\nk =;c\n"), "1:[a] 2:a.k=<;c> "},
	{T("[a]\nk = \"x ; y\" z ; c\n"), "1:[a] 2:a.k=<\"x ; y\" z> "},
	{T("[a]\nk = 'x # y' ; c\n"), "1:[a] 2:a.k=<'x # y'> "},
	{T("[a]\nk = don't ; c\n"), "1:[a] 2:a.k=<don't> "},
	{T("[a]\nk = \"a\\\" ; b\" ; c\n"), "1:[a] 2:a.k=<\"a\\\" ; b\"> "},
	{T("[a]\nk = \\\" ; c \"\n"), "1:[a] 2:a.k=<\\\"> "},
	{T("[a]\nk = a=b = c\n"), "1:[a] 2:a.k=<a=b = c> "},
	{T("[a]\r\nk = v\r\n"), "1:[a] 2:a.k=<v> "},
	{T("\xef\xbb\xbf[a]\nk=v"), "1:[a] 2:a.k=<v> "},
	{T("[a]\nk=h\xc3\xa9\n"), "1:[a] 2:a.k=<h\xc3\xa9> "},
	{T("[a\nk=v\n[b]\nl=w\n"), "1:! 3:[b] 4:b.l=<w> "},
	{T("[a] x\nk=v\n"), "1:! "},
	{T("[]\nk=v\n"), "1:! "},
	{T("[a]\nnonsense\nk=v\n"), "1:[a] 2:! 3:a.k=<v> "},
	{T("[a]\n= v\n"), "1:[a] 2:! "},
	{T("[a]\nk=\0v\nl=w\n"), "1:[a] 2:! 3:a.l=<w> "},
	{T("[a]\nk=\x1b[2J\n"), "1:[a] 2:! "},
	{T("[a]\nk=\x7f\n"), "1:[a] 2:! "},
	{T("\0"), "1:! "},
	{T("[a]\nk=v\rl=w\n"), "1:[a] 2:! "},
	{T("[a]]\n"), "1:! "},
	{T("[a]#c\n"), "1:[a] "},
};

START_TEST(lines_are_read_as_documented)
{
	struct buf b = {0};

	ini_parse(cases[_i].text, cases[_i].size, note, &b);
	ck_assert_str_eq(buf_text(&b), cases[_i].seen);
	buf_fini(&b);
}
END_TEST

START_TEST(a_line_over_the_limit_is_an_error_of_that_line_only)
{
	struct buf text = {0}, b = {0};

	buf_add_text(&text, "[a]\nk=");
	for (int i = 0; i < INI_LINE_MAX - 2; i++)
		buf_add(&text, "x", 1);
	buf_add_text(&text, "\nl=x");
	for (int i = 0; i < INI_LINE_MAX - 2; i++)
		buf_add(&text, "x", 1);
	buf_add_text(&text, "\nm=v\n");
	ini_parse(text.data, text.size, note, &b);
	ck_assert_ptr_nonnull(strstr(buf_text(&b), "2:a.k=<xxx"));
	ck_assert_ptr_nonnull(strstr(buf_text(&b), "3:! 4:a.m=<v> "));
	buf_fini(&text);
	buf_fini(&b);
}
END_TEST

START_TEST(random_bytes_never_break_the_reader)
{
	static const char letters[] = "[]=;#\"'\\ \t\r\na\0";

	srandom(5);
	for (int i = 0; i < 100000; i++) {
		struct buf b = {0};
		char text[40];
		size_t size = (size_t)random() % sizeof(text);

		for (size_t k = 0; k < size; k++)
			text[k] = letters[(size_t)random() % (sizeof(letters) - 1)];
		ini_parse(text, size, note, &b);
		buf_fini(&b);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ini");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, lines_are_read_as_documented, 0, COUNT(cases));
	tcase_add_test(t, a_line_over_the_limit_is_an_error_of_that_line_only);
	tcase_add_test(t, random_bytes_never_break_the_reader);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
