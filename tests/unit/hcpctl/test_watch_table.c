/* SPDX-License-Identifier: MIT */
/* test_watch_table.c: the table of `hcpctl watch`: rows in, lines out, whatever the terminal's size. */
#include <check.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/ctl.h"
#include "hcpctl/common/watch_table.h"

#define ID "5f0c1111-1111-4111-8111-111111111111"
#define ROWS 4

static struct buf out;

static struct ctl_row rows[ROWS];

static void begin(void)
{
	const struct ctl_row first[ROWS] = {
		{ID, "summarize", "RUNNING", "reading", "page 12 of 34", 35, 7, false},
		{"6a", "", "PENDING", "", "", -1, 0, false},
		{ID, "translate-everything-at-once", "COMPLETED", "日本語の下書き", "第3章 of the book", 100,
			3723, true},
		{ID, "x", "FAILED", "evil\033[2J\xe2\x80\xae",
			"a\x07\nb\xc2\x9b"
			"31m and more of it, to the end of any line",
			5, 90000, true},
	};

	memcpy(rows, first, sizeof rows);
	ck_assert(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
}

static void end(void)
{
	buf_fini(&out);
}

static const char *row_text(const struct ctl_row *r, const struct ctl_plan *p, bool colour)
{
	buf_clear(&out);
	ctl_watch_table_add_row(&out, r, p, colour);
	return buf_text(&out);
}

static int width_of(const char *text)
{
	int used;

	ck_assert_uint_eq(ctl_fit(text, strlen(text), 100000, &used), strlen(text));
	return used;
}

START_TEST(no_line_is_wider_than_the_terminal)
{
	struct ctl_plan p;

	for (int columns = 1; columns <= 250; columns++) {
		ctl_watch_table_plan(&p, rows, ROWS, columns);
		for (size_t i = 0; i < ROWS; i++)
			ck_assert_msg(width_of(row_text(&rows[i], &p, false)) <= columns, "%d: %s", columns,
				buf_text(&out));
		buf_clear(&out);
		ctl_watch_table_add_head(&out, &p, false);
		ck_assert_int_le(width_of(buf_text(&out)), columns);
		buf_clear(&out);
		ctl_watch_table_add_foot(&out, rows, ROWS, 1, columns);
		ck_assert_int_le(width_of(buf_text(&out)), columns);
	}
}
END_TEST

START_TEST(columns_stand_below_their_titles)
{
	struct ctl_plan p;
	const char *line;

	ctl_watch_table_plan(&p, rows, ROWS, 100);
	buf_clear(&out);
	ctl_watch_table_add_head(&out, &p, false);
	ck_assert_str_eq(buf_text(&out),
		"SESSION   CAPABILITY          STATE      PROGRESS              TIME     STAGE         "
		"MESSAGE");
	line = row_text(&rows[0], &p, false);
	ck_assert_str_eq(line,
		"5f0c1111  summarize           RUNNING    [#####--------]  35%    00:07  reading       page "
		"12 of 34");
	line = row_text(&rows[1], &p, false);
	ck_assert_str_eq(line, "6a                            PENDING                            00:00");
	line = row_text(&rows[2], &p, false);
	ck_assert_str_eq(line,
		"5f0c1111  translate-everyth~  COMPLETED  [#############] 100%  1:02:03  日本語の下~   第3章 "
		"of the ~");
}
END_TEST

START_TEST(foreign_text_is_escaped_and_cut)
{
	struct ctl_plan p;
	const char *line;

	ctl_watch_table_plan(&p, rows, ROWS, 200);
	line = row_text(&rows[3], &p, false);
	ck_assert_msg(strstr(line, "evil\\x1b[2J\\u202e") && strstr(line, "a\\x07\\nb\\u009b31m and more"),
		"%s", line);
	ck_assert_ptr_null(strchr(line, '\033'));
	ck_assert_msg(strstr(line, "1d01h"), "%s", line);
}
END_TEST

START_TEST(the_least_needed_columns_leave_first)
{
	static const struct {
		int columns;
		enum ctl_column left_out;
	} steps[] = {{67, CTL_COL_MESSAGE}, {58, CTL_COL_STAGE}, {49, CTL_COL_CAPABILITY}, {38, CTL_COL_TIME},
		{32, CTL_COL_BAR}, {17, CTL_COL_STATE}};
	struct ctl_plan p;

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		ctl_watch_table_plan(&p, rows, 1, steps[i].columns);
		ck_assert_msg(p.width[steps[i].left_out] == 0, "%d", steps[i].columns);
		for (size_t k = i + 1; k < sizeof steps / sizeof *steps; k++)
			ck_assert_msg(p.width[steps[k].left_out] > 0, "%d leaves at %d", steps[k].left_out,
				steps[i].columns);
		ctl_watch_table_plan(&p, rows, 1, steps[i].columns + 1);
		ck_assert_msg(p.width[steps[i].left_out] > 0, "%d has room at %d", steps[i].left_out,
			steps[i].columns + 1);
	}
	ck_assert_int_eq(p.width[CTL_COL_ID], 8);
}
END_TEST

START_TEST(a_capability_that_nobody_knows_takes_no_room)
{
	struct ctl_plan p;

	ctl_watch_table_plan(&p, &rows[1], 1, 200);
	ck_assert_int_eq(p.width[CTL_COL_CAPABILITY], 0);
}
END_TEST

START_TEST(the_oldest_ended_leave_first_then_the_youngest)
{
	struct ctl_row many[10];
	size_t picked[10];

	for (size_t i = 0; i < 10; i++)
		many[i] = (struct ctl_row){.is_done = i == 1 || i == 4 || i == 8};
	ck_assert_uint_eq(ctl_watch_table_pick(many, 10, 10, picked), 10);
	ck_assert_uint_eq(ctl_watch_table_pick(many, 10, 8, picked), 8);
	ck_assert(picked[0] == 0 && picked[1] == 2 && picked[2] == 3 && picked[3] == 5 && picked[6] == 8 &&
		picked[7] == 9);
	ck_assert_uint_eq(ctl_watch_table_pick(many, 10, 5, picked), 5);
	ck_assert(picked[0] == 0 && picked[1] == 2 && picked[2] == 3 && picked[3] == 5 && picked[4] == 6);
	ck_assert_uint_eq(ctl_watch_table_pick(many, 10, 0, picked), 0);
	ck_assert_uint_eq(ctl_watch_table_pick(many, 0, 5, picked), 0);
}
END_TEST

START_TEST(the_foot_counts_and_says_what_is_not_shown)
{
	ctl_watch_table_add_foot(&out, rows, ROWS, ROWS, 80);
	ck_assert_str_eq(buf_text(&out), "1 pending, 1 running, 2 ended");
	buf_clear(&out);
	ctl_watch_table_add_foot(&out, rows, ROWS, 1, 80);
	ck_assert_str_eq(buf_text(&out), "1 pending, 1 running, 2 ended; 3 not shown");
}
END_TEST

START_TEST(colours_take_no_columns_and_end_where_they_began)
{
	struct ctl_plan p;

	ctl_watch_table_plan(&p, rows, ROWS, 80);
	for (size_t i = 0; i < ROWS; i++) {
		char *plain = xstrdup(row_text(&rows[i], &p, false));
		const char *line = row_text(&rows[i], &p, true);
		struct buf bare = {0};
		bool is_on = false;

		for (; *line; line++) {
			if (*line != '\033') {
				buf_add(&bare, line, 1);
				continue;
			}
			is_on = strncmp(line, "\033[0m", 4) != 0;
			line = strchr(line, 'm');
		}
		ck_assert_str_eq(buf_text(&bare), plain);
		ck_assert(!is_on);
		buf_fini(&bare);
		free(plain);
	}
}
END_TEST

START_TEST(a_bar_is_full_only_at_the_end)
{
	static const struct {
		double percent;
		const char *bar;
	} bars[] = {{0, "[----------]   0%"}, {50, "[#####-----]  50%"}, {99.9, "[##########]  99%"},
		{100, "[##########] 100%"}, {1e300, "[##########] 100%"}, {-5, "[----------]   0%"}};

	for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
		buf_clear(&out);
		ctl_watch_table_add_bar(&out, bars[i].percent, 17, false);
		ck_assert_str_eq(buf_text(&out), bars[i].bar);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ctl_board");
	TCase *tc = tcase_create("all");
	SRunner *sr = srunner_create(s);

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, no_line_is_wider_than_the_terminal);
	tcase_add_test(tc, columns_stand_below_their_titles);
	tcase_add_test(tc, foreign_text_is_escaped_and_cut);
	tcase_add_test(tc, the_least_needed_columns_leave_first);
	tcase_add_test(tc, a_capability_that_nobody_knows_takes_no_room);
	tcase_add_test(tc, the_oldest_ended_leave_first_then_the_youngest);
	tcase_add_test(tc, the_foot_counts_and_says_what_is_not_shown);
	tcase_add_test(tc, colours_take_no_columns_and_end_where_they_began);
	tcase_add_test(tc, a_bar_is_full_only_at_the_end);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
