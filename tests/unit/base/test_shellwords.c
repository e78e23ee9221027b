/* SPDX-License-Identifier: MIT */
/* test_shellwords.c: shell quoting without a shell. */
#include "base/shellwords.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Words joined as [a][b c], so that a case is one line. */
static const char *show(char **words, struct buf *b)
{
	for (char **w = words; w && *w; w++)
		buf_addf(b, "[%s]", *w);
	return buf_text(b);
}

static const struct {
	const char *text, *words;
} splits[] = {
	{"", ""},
	{"   \t ", ""},
	{"a", "[a]"},
	{" a  b\tc ", "[a][b][c]"},
	{"'a b' c", "[a b][c]"},
	{"\"a b\" c", "[a b][c]"},
	{"a' 'b", "[a b]"},
	{"--x=\"1 2\"", "[--x=1 2]"},
	{"''", "[]"},
	{"\"\" a", "[][a]"},
	{"a\\ b", "[a b]"},
	{"\\'", "[']"},
	{"\\\\", "[\\]"},
	{"'a\\b'", "[a\\b]"},
	{"\"a\\\"b\"", "[a\"b]"},
	{"\"a\\\\b\"", "[a\\b]"},
	{"\"a\\nb\"", "[a\\nb]"},
	{"\"\\$HOME\" $HOME", "[$HOME][$HOME]"},
	{"\"\\`x\"", "[`x]"},
	{"'it'\\''s'", "[it's]"},
	{"\"it's\"", "[it's]"},
	{"'say \"x\"'", "[say \"x\"]"},
	{"*.c ~ a|b >f &", "[*.c][~][a|b][>f][&]"},
	{"a#b", "[a#b]"},
	{"sh -c 'echo \"$1\"; exit 3' x", "[sh][-c][echo \"$1\"; exit 3][x]"},
	{"\xc3\xa9 '\xe2\x82\xac x'", "[\xc3\xa9][\xe2\x82\xac x]"},
};

START_TEST(a_command_is_split_as_a_shell_would)
{
	const char *why = NULL;
	char **words = shellwords_split(splits[_i].text, &why);
	struct buf b = {0};

	ck_assert_ptr_nonnull(words);
	ck_assert_str_eq(show(words, &b), splits[_i].words);
	shellwords_free(words);
	buf_fini(&b);
}
END_TEST

static const char *const open_ended[] = {"'", "\"", "a 'b", "a \"b", "\"a\\\"", "a\\", "'a'\"", "x y \\"};

START_TEST(quotes_that_are_not_closed_are_refused_with_a_reason)
{
	const char *why = NULL;

	ck_assert_ptr_null(shellwords_split(open_ended[_i], &why));
	ck_assert_ptr_nonnull(why);
}
END_TEST

static const struct {
	const char *text, *words;
} lists[] = {
	{"", ""},
	{"a", "[a]"},
	{"a, b,c", "[a][b][c]"},
	{"a b\tc", "[a][b][c]"},
	{" ,a,, b ,", "[a][b]"},
	{"*", "[*]"},
	{"'a b'", "['a][b']"},
};

START_TEST(a_list_is_split_at_commas_and_spaces)
{
	char **words = shellwords_split_list(lists[_i].text);
	struct buf b = {0};

	ck_assert_str_eq(show(words, &b), lists[_i].words);
	shellwords_free(words);
	buf_fini(&b);
}
END_TEST

static const struct {
	const char *text, *plain;
} quotes[] = {
	{"", ""},
	{"a b", "a b"},
	{"\"a b\"", "a b"},
	{"'a b'", "a b"},
	{"\"\"", ""},
	{"''", ""},
	{"\"a\\\"b\\\\\"", "a\"b\\"},
	{"\"a\\nb\"", "a\\nb"},
	{"'a\\'", "a\\"},
	{"a\"b\"", "a\"b\""},
	{"\"a\"b", "\"a\"b"},
	{"\"a\" \"b\"", "\"a\" \"b\""},
	{"\"a", "\"a"},
	{"\"", "\""},
	{"'", "'"},
	{"\"a\\\"", "\"a\\\""},
	{"c:\\x", "c:\\x"},
};

START_TEST(quotes_around_all_are_taken_off_once)
{
	char *plain = shellwords_unquote(quotes[_i].text);

	ck_assert_str_eq(plain, quotes[_i].plain);
	free(plain);
}
END_TEST

START_TEST(words_are_counted_and_nothing_counts_as_none)
{
	const char *why;
	char **words = shellwords_split("a b 'c d'", &why);

	ck_assert_uint_eq(shellwords_count(words), 3);
	ck_assert_uint_eq(shellwords_count(NULL), 0);
	shellwords_free(words);
	shellwords_free(NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("words");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, a_command_is_split_as_a_shell_would, 0, COUNT(splits));
	tcase_add_loop_test(t, quotes_that_are_not_closed_are_refused_with_a_reason, 0, COUNT(open_ended));
	tcase_add_loop_test(t, a_list_is_split_at_commas_and_spaces, 0, COUNT(lists));
	tcase_add_loop_test(t, quotes_around_all_are_taken_off_once, 0, COUNT(quotes));
	tcase_add_test(t, words_are_counted_and_nothing_counts_as_none);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
