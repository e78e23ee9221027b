/* SPDX-License-Identifier: MIT */
/* test_line_reader.c: bytes to lines, and the memory that unfinished ones may take. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/line_reader.h"

static struct buf said; /* lines, "|" after each; "!" before one that was too long */
static size_t count, largest;

static void on_line(void *ctx, const char *line, size_t size, enum line_kind kind)
{
	(void)ctx;
	count++;
	if (size > largest)
		largest = size;
	if (size > 2000)
		return;
	if (kind == LINE_TOO_LONG)
		buf_add(&said, "!", 1);
	buf_add(&said, line, size);
	buf_add(&said, "|", 1);
}

static void begin(void)
{
	buf_clear(&said);
	count = largest = 0;
}

static void feed_bytes(struct line_pool *p, struct line_reader *l, const char *text, size_t size)
{
	size_t got, used;
	int fd[2];

	ck_assert_int_eq(pipe(fd), 0);
	ck_assert_int_eq(write(fd[1], text, size), (ssize_t)size);
	ck_assert_int_eq(line_reader_read(p, l, fd[0], LINES_READ_MAX, &got, &used, on_line, NULL), LINES_OK);
	ck_assert_uint_eq(got, size);
	close(fd[0]);
	close(fd[1]);
}

static void feed(struct line_pool *p, struct line_reader *l, const char *text)
{
	feed_bytes(p, l, text, strlen(text));
}

START_TEST(a_line_is_the_same_however_it_is_cut)
{
	static const char text[] = "one\ntwo\n\nthree and more\n\0x\nlast";
	size_t step = (size_t)_i + 1, at, n = sizeof text - 1;
	struct line_pool p;
	struct line_reader l = {0};

	begin();
	line_pool_init(&p, 100, 1000);
	for (at = 0; at < n; at += step)
		feed_bytes(&p, &l, text + at, step < n - at ? step : n - at);
	ck_assert_uint_eq(count, 5);
	line_reader_end(&p, &l, on_line, NULL);
	ck_assert_uint_eq(count, 6);
	ck_assert_mem_eq(said.data, "one|two||three and more|\0x|last|", said.size);
	ck_assert_uint_eq(p.used, 0);
	ck_assert_ptr_null(l.rest);
}
END_TEST

START_TEST(a_complete_line_needs_no_memory)
{
	struct line_pool p;
	struct line_reader l = {0};

	begin();
	line_pool_init(&p, 100, 1000);
	feed(&p, &l, "a\nbb\nccc\n");
	ck_assert_uint_eq(count, 3);
	ck_assert_ptr_null(l.rest);
	feed(&p, &l, "unfinished");
	ck_assert_uint_gt(p.used, 0);
	feed(&p, &l, "\n");
	ck_assert_uint_eq(p.used, 0);
	ck_assert_ptr_null(l.rest);
}
END_TEST

START_TEST(a_line_over_the_limit_is_said_once_and_skipped_to_its_end)
{
	struct line_pool p;
	struct line_reader l = {0};
	int i;

	begin();
	line_pool_init(&p, 10, 1000);
	feed(&p, &l, "0123456789\n");
	feed(&p, &l, "0123456789");
	for (i = 0; i < 100; i++)
		feed(&p, &l, "x");
	ck_assert_uint_eq(p.used, 0);
	feed(&p, &l, "rest\nok\n0123456789x\nok\n");
	feed(&p, &l, "0123456789xxx");
	line_reader_end(&p, &l, on_line, NULL);
	ck_assert_str_eq(buf_text(&said), "0123456789|!0123456789x|ok|!0123456789x|ok|!0123456789xxx|");
}
END_TEST

START_TEST(line_over_the_limit_begins_the_same_however_it_is_cut)
{
	char text[6000];
	size_t first = (size_t)_i * 100, at;
	struct line_pool p;
	struct line_reader l = {0};

	begin();
	for (at = 0; at < sizeof text; at++)
		text[at] = (char)('a' + at % 26);
	line_pool_init(&p, 4096, 100000);
	if (first > 0)
		feed_bytes(&p, &l, text, first);
	feed_bytes(&p, &l, text + first, sizeof text - first);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(said.size, LINES_HEAD + 2);
	ck_assert_mem_eq(said.data + 1, text, LINES_HEAD);
	ck_assert_uint_eq(p.used, 0);
	line_reader_fini(&p, &l);
}
END_TEST

START_TEST(a_long_line_is_whole_and_its_memory_comes_back)
{
	size_t size = 4u << 20, at, n;
	char *big = malloc(size);
	struct line_pool p;
	struct line_reader l = {0};

	begin();
	memset(big, 'a', size);
	line_pool_init(&p, (int64_t)size, 64 << 20);
	for (at = 0; at < size; at += n) {
		n = size - at < 61234 ? size - at : 61234;
		feed_bytes(&p, &l, big + at, n);
	}
	ck_assert_uint_le(p.used, 2 * size);
	feed(&p, &l, "\nx\n");
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(largest, size);
	ck_assert_uint_eq(p.used, 0);
	free(big);
}
END_TEST

struct tube {
	int fd[2];
	struct line_reader l;
};

static void tube_open(struct tube *t)
{
	memset(t, 0, sizeof *t);
	ck_assert_int_eq(pipe(t->fd), 0);
}

static void tube_put(struct tube *t, size_t size, char what)
{
	char *text = malloc(size);

	memset(text, what, size);
	ck_assert_int_eq(write(t->fd[1], text, size), (ssize_t)size);
	free(text);
}

static enum line_result tube_read(struct line_pool *p, struct tube *t)
{
	size_t got, used;

	return line_reader_read(p, &t->l, t->fd[0], LINES_READ_MAX, &got, &used, on_line, NULL);
}

START_TEST(readers_that_need_more_than_there_is_wait_and_one_goes_on)
{
	struct line_pool p;
	struct tube a, b, c;
	int i;

	begin();
	line_pool_init(&p, 1 << 20, 100000);
	tube_open(&a);
	tube_open(&b);
	tube_open(&c);
	tube_put(&a, 60000, 'a');
	ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	for (i = 0; i < 5; i++) { /* over the total: a was first, and may */
		tube_put(&a, 60000, 'a');
		while (a.l.size < 60000u * (unsigned)(i + 2))
			ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	}
	ck_assert_ptr_eq(p.over, &a.l);
	tube_put(&b, 60000, 'b');
	ck_assert_int_eq(tube_read(&p, &b), LINES_OK);
	ck_assert_uint_eq(b.l.size, LINES_SMALL);
	ck_assert_int_eq(tube_read(&p, &b), LINES_WAIT);
	ck_assert_int_eq(tube_read(&p, &b), LINES_WAIT);
	ck_assert_int_eq(write(c.fd[1], "short\n", 6), 6); /* short ones never wait */
	ck_assert_int_eq(tube_read(&p, &c), LINES_OK);
	ck_assert_str_eq(buf_text(&said), "short|");
	p.freed = false;
	tube_put(&a, 1, '\n');
	ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	ck_assert_uint_eq(largest, 360000);
	ck_assert(p.freed);
	ck_assert_ptr_null(p.over);
	ck_assert_int_eq(tube_read(&p, &b), LINES_OK);
	ck_assert_uint_gt(b.l.size, LINES_SMALL);
	line_reader_fini(&p, &b.l);
	ck_assert_uint_eq(p.used, 0);
}
END_TEST

/* A portion of 256 bytes a line: of 60,000 empty ones it takes 235 calls. */
START_TEST(many_short_lines_come_in_portions_and_none_is_lost)
{
	size_t got, used, calls = 0, before, all = 0;
	enum line_result r;
	struct line_pool p;
	struct tube a;

	begin();
	line_pool_init(&p, 1 << 20, 100000);
	tube_open(&a);
	tube_put(&a, 60000, '\n');
	ck_assert_int_eq(write(a.fd[1], "rest", 4), 4);
	do {
		before = count;
		r = line_reader_read(&p, &a.l, a.fd[0], LINES_READ_MAX, &got, &used, on_line, NULL);
		all += got;
		ck_assert_uint_le(count - before, LINES_READ_MAX / LINES_CHARGE);
		ck_assert_uint_le(used, LINES_READ_MAX);
		ck_assert_uint_ge(used, count - before);
		calls++;
	} while (r == LINES_MORE);
	ck_assert_int_eq(r, LINES_OK);
	ck_assert_uint_eq(count, 60000);
	ck_assert_uint_eq(all, 60004);
	ck_assert_uint_eq(calls, 60000 / 256 + 1);
	close(a.fd[1]);
	ck_assert_int_eq(tube_read(&p, &a), LINES_END);
	ck_assert_uint_eq(count, 60001);
	ck_assert_uint_eq(p.used, 0);
}
END_TEST

START_TEST(lines_that_are_left_are_all_handed_out_at_the_end)
{
	struct line_pool p;
	struct tube a;

	begin();
	line_pool_init(&p, 1 << 20, 100000);
	tube_open(&a);
	tube_put(&a, 1000, '\n');
	ck_assert_int_eq(write(a.fd[1], "rest", 4), 4);
	ck_assert_int_eq(tube_read(&p, &a), LINES_MORE);
	ck_assert_uint_gt(p.used, 0);
	line_reader_end(&p, &a.l, on_line, NULL);
	ck_assert_uint_eq(count, 1001);
	ck_assert_uint_eq(p.used, 0);
}
END_TEST

START_TEST(unfinished_line_can_be_given_up_and_the_next_is_fine)
{
	struct line_pool p;
	struct tube a;
	int64_t now;

	begin();
	line_pool_init(&p, 1 << 20, 100000);
	tube_open(&a);
	tube_put(&a, LINES_SMALL, 'a'); /* short ones are in nobody's way */
	ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	ck_assert_uint_eq(line_reader_idle_bytes(&a.l, INT64_MAX), 0);
	tube_put(&a, 10000, 'a');
	ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	now = clock_boot_us();
	ck_assert_uint_eq(line_reader_idle_bytes(&a.l, now), 0);
	ck_assert_uint_ge(line_reader_idle_bytes(&a.l, now + LINES_SILENT_US), 10000 + LINES_SMALL);
	line_reader_give_up(&p, &a.l, on_line, NULL);
	ck_assert_uint_eq(count, 1);
	ck_assert_int_eq(said.data[0], '!');
	ck_assert_uint_eq(p.used, 0);
	ck_assert(p.freed);
	tube_put(&a, 10000, 'a');
	ck_assert_int_eq(write(a.fd[1], "\nnext\n", 6), 6);
	ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	ck_assert_uint_eq(count, 2);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "|next|"));
}
END_TEST

START_TEST(lines_stop_where_the_slice_is_over_and_none_is_lost)
{
	struct slice slice = {.until_us = 1}; /* it is over */
	struct line_pool p;
	struct tube a;

	begin();
	line_pool_init(&p, 1 << 20, 100000);
	p.slice = &slice;
	tube_open(&a);
	ck_assert_int_eq(write(a.fd[1], "one\ntwo\nthree\nfour\nfi", 21), 21);
	ck_assert_int_eq(tube_read(&p, &a), LINES_MORE);
	ck_assert_str_eq(buf_text(&said), "one|");
	ck_assert_int_eq(tube_read(&p, &a), LINES_MORE);
	ck_assert_str_eq(buf_text(&said), "one|two|");
	slice_renew(&slice);
	ck_assert_int_eq(tube_read(&p, &a), LINES_OK);
	ck_assert_str_eq(buf_text(&said), "one|two|three|four|");
	ck_assert_int_eq(write(a.fd[1], "ve\nsix\nseven", 12), 12);
	slice.until_us = 1;
	ck_assert_int_eq(tube_read(&p, &a), LINES_MORE);
	ck_assert(line_reader_end(&p, &a.l, on_line, NULL));
	ck_assert_str_eq(buf_text(&said), "one|two|three|four|five|six|seven|");
	ck_assert_uint_eq(p.used, 0);
}
END_TEST

/* ---- a line that stays in use ---- */

static struct line_reader *keeps;

static void keep_long(void *ctx, const char *line, size_t size, enum line_kind kind)
{
	on_line(ctx, line, size, kind);
	if (size > LINES_READ_MAX)
		line_reader_keep(keeps, line);
}

START_TEST(a_line_that_is_kept_holds_back_those_behind_it)
{
	enum { LONG = LINES_READ_MAX + 10 };
	struct line_reader l = {0};
	struct line_pool p;
	size_t got, used;
	char *text = malloc(LONG);
	int fd[2];

	begin();
	keeps = &l;
	memset(text, 'x', LONG);
	line_pool_init(&p, 1 << 20, 1 << 20);
	ck_assert_int_eq(pipe(fd), 0);
	feed_bytes(&p, &l, text, LINES_READ_MAX);
	ck_assert_int_eq(write(fd[1], "x\nbehind\nlast", 13), 13);
	ck_assert_int_eq(
		line_reader_read(&p, &l, fd[0], LINES_READ_MAX, &got, &used, keep_long, NULL), LINES_KEPT);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(l.size, LINES_READ_MAX + 1);
	ck_assert(l.rest[LINES_READ_MAX] == 'x');
	ck_assert_uint_ge(p.used, LINES_READ_MAX); /* it counts as memory that is held */
	ck_assert_uint_eq(line_reader_idle_bytes(&l, INT64_MAX), 0);
	p.freed = false;
	line_reader_let_go(&p, &l);
	ck_assert(p.freed);
	ck_assert_int_eq(
		line_reader_read(&p, &l, fd[0], LINES_READ_MAX, &got, &used, keep_long, NULL), LINES_OK);
	ck_assert_str_eq(buf_text(&said), "behind|");
	close(fd[1]);
	ck_assert_int_eq(
		line_reader_read(&p, &l, fd[0], LINES_READ_MAX, &got, &used, keep_long, NULL), LINES_END);
	ck_assert_str_eq(buf_text(&said), "behind|last|");
	ck_assert_uint_eq(p.used, 0);
	close(fd[0]);
	free(text);
}
END_TEST

START_TEST(a_kept_line_without_a_newline_is_handed_out_once)
{
	struct line_reader l = {0};
	struct line_pool p;
	size_t got, used;
	char *text = malloc(LINES_READ_MAX);
	int fd[2];

	begin();
	keeps = &l;
	memset(text, 'x', LINES_READ_MAX);
	line_pool_init(&p, 1 << 20, 1 << 20);
	feed_bytes(&p, &l, text, LINES_READ_MAX);
	feed_bytes(&p, &l, "y", 1);
	ck_assert_int_eq(pipe(fd), 0);
	close(fd[1]);
	ck_assert_int_eq(
		line_reader_read(&p, &l, fd[0], LINES_READ_MAX, &got, &used, keep_long, NULL), LINES_KEPT);
	ck_assert_uint_eq(count, 1);
	line_reader_let_go(&p, &l);
	ck_assert_int_eq(
		line_reader_read(&p, &l, fd[0], LINES_READ_MAX, &got, &used, keep_long, NULL), LINES_END);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(p.used, 0);
	close(fd[0]);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lines");
	TCase *t = tcase_create("lines");
	SRunner *r = srunner_create(s);
	int failed;

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_line_is_the_same_however_it_is_cut, 0, 32);
	tcase_add_test(t, a_complete_line_needs_no_memory);
	tcase_add_test(t, a_line_over_the_limit_is_said_once_and_skipped_to_its_end);
	tcase_add_loop_test(t, line_over_the_limit_begins_the_same_however_it_is_cut, 0, 41);
	tcase_add_test(t, a_long_line_is_whole_and_its_memory_comes_back);
	tcase_add_test(t, readers_that_need_more_than_there_is_wait_and_one_goes_on);
	tcase_add_test(t, many_short_lines_come_in_portions_and_none_is_lost);
	tcase_add_test(t, lines_that_are_left_are_all_handed_out_at_the_end);
	tcase_add_test(t, lines_stop_where_the_slice_is_over_and_none_is_lost);
	tcase_add_test(t, unfinished_line_can_be_given_up_and_the_next_is_fine);
	tcase_add_test(t, a_line_that_is_kept_holds_back_those_behind_it);
	tcase_add_test(t, a_kept_line_without_a_newline_is_handed_out_once);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
