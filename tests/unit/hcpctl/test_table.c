/* SPDX-License-Identifier: MIT */
/* test_table.c: columns fit the terminal, and times and sizes are short. */
#include "hcpctl/common/table.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/ctl.h"

static const struct ctl_column columns[] = {
	{.title = "ID"},
	{.title = "NAME", .may_shrink = true},
	{.title = "N", .is_right = true},
	{.title = "DETAIL", .may_shrink = true},
};

static struct ctl_table t;

static void begin(int width)
{
	ctl_table_init(&t, columns, 4, width, 1);
}

static void add(const char *a, const char *b, const char *c, const char *d)
{
	const char *const cells[] = {a, b, c, d};

	ctl_table_add(&t, cells, 'r');
}

static const char *end(void)
{
	static char text[4096];

	ctl_table_end(&t);
	snprintf(text, sizeof text, "%s", buf_text(&t.out));
	ctl_table_fini(&t);
	return text;
}

START_TEST(columns_are_as_wide_as_what_is_in_them)
{
	begin(0);
	add("1", "first", "7", "");
	add("22", "b", "1000", NULL);
	ck_assert_str_eq(end(), "ID  NAME      N  DETAIL\n1   first     7\n22  b      1000  -\n");
}
END_TEST

START_TEST(a_narrow_terminal_cuts_the_last_column_first)
{
	begin(30);
	add("1", "abcdefgh", "7", "a detail that is too long for it");
	ck_assert_str_eq(end(), "ID  NAME      N  DETAIL\n1   abcdefgh  7  a detail tha~\n");
	begin(22);
	add("1", "abcdefghij", "7", "a detail that is too long for it");
	ck_assert_str_eq(end(), "ID  NAME     N  DETAIL\n1   abcdef~  7  a det~\n");
}
END_TEST

START_TEST(a_column_without_room_is_left_out)
{
	begin(16);
	add("1", "abcdefghij", "7", "a detail that is too long for it");
	ck_assert_str_eq(end(), "ID  NAME    N\n1   abcde~  7\n");
}
END_TEST

START_TEST(no_line_is_wider_than_the_terminal)
{
	for (int width = 9; width < 120; width++) /* below, not even ID and N fit */ {
		begin(width);
		add("1", "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", "7",
			"some words and some more of them, and then a few");
		add("2", "a name of some length, too", "70000", "x");
		for (const char *line = end(), *next; *line != '\0'; line = next + 1) {
			int used;

			next = strchr(line, '\n');
			ctl_fit(line, (size_t)(next - line), 10000, &used);
			ck_assert_msg(used <= width, "%d > %d: %.*s", used, width, (int)(next - line), line);
		}
	}
}
END_TEST

START_TEST(foreign_text_is_escaped)
{
	begin(0);
	add("1", "\033[2J", "7", "two\nlines");
	ck_assert_ptr_null(strchr(end(), '\033'));
	begin(0);
	add("1", "x", "7", "two\nlines");
	const char *text = end();
	ck_assert_ptr_eq(strchr(strchr(text, '\n') + 1, '\n') + 1, text + strlen(text));
}
END_TEST

START_TEST(colour_is_on_one_cell_and_takes_no_room)
{
	begin(0);
	t.colour = true;
	add("1", "x", "7", "y");
	const char *row = strchr(end(), '\n') + 1;
	ck_assert_str_eq(row, "1   \033[31mx\033[0m     7  y\n");
}
END_TEST

START_TEST(rows_without_end_are_not_kept)
{
	begin(80);
	for (int i = 0; i < 5000; i++) {
		add("1", "name", "7", "detail");
		if (i >= 1000) {
			ck_assert_uint_eq(t.rows, 0);
			ck_assert_uint_gt(t.out.size, 0);
		}
		buf_clear(&t.out);
	}
	ck_assert_uint_lt(t.cells.room, 1 << 20);
	end();
}
END_TEST

START_TEST(an_empty_table_says_nothing)
{
	begin(0);
	ck_assert_str_eq(end(), "");
}
END_TEST

static const struct {
	int64_t us;
	const char *span, *age;
} spans[] = {
	{-5, "0s", "0s"},
	{0, "0s", "0s"},
	{450000, "0.4s", "0s"},
	{9990000, "9.9s", "9s"},
	{59000000, "59s", "59s"},
	{184000000, "3m04s", "3m"},
	{INT64_C(3600) * 1000000, "1h00m", "1h"},
	{INT64_C(40) * 3600 * 1000000, "40h00m", "40h"},
	{INT64_C(96) * 3600 * 1000000, "4d", "4d"},
};

START_TEST(times_are_short)
{
	char out[CTL_SPAN_SIZE];

	ctl_span(spans[_i].us, out);
	ck_assert_str_eq(out, spans[_i].span);
	ctl_age(spans[_i].us, out);
	ck_assert_str_eq(out, spans[_i].age);
}
END_TEST

START_TEST(sizes_are_short)
{
	char out[CTL_SPAN_SIZE];

	ctl_size(1023, out);
	ck_assert_str_eq(out, "1023 B");
	ctl_size(1536, out);
	ck_assert_str_eq(out, "1.5 KiB");
	ctl_size(INT64_C(5) << 30, out);
	ck_assert_str_eq(out, "5.0 GiB");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_table");
	TCase *c = tcase_create("ctl_table");
	SRunner *sr;
	int failed;

	setlocale(LC_CTYPE, "C.UTF-8");
	tcase_add_test(c, columns_are_as_wide_as_what_is_in_them);
	tcase_add_test(c, a_narrow_terminal_cuts_the_last_column_first);
	tcase_add_test(c, a_column_without_room_is_left_out);
	tcase_add_test(c, no_line_is_wider_than_the_terminal);
	tcase_add_test(c, foreign_text_is_escaped);
	tcase_add_test(c, colour_is_on_one_cell_and_takes_no_room);
	tcase_add_test(c, rows_without_end_are_not_kept);
	tcase_add_test(c, an_empty_table_says_nothing);
	tcase_add_loop_test(c, times_are_short, 0, (int)(sizeof spans / sizeof *spans));
	tcase_add_test(c, sizes_are_short);
	suite_add_tcase(suite, c);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
