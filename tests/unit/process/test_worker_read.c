/* SPDX-License-Identifier: MIT */
/* test_worker_read.c: what workers print, read in bounded turns: whole lines, floods, pauses, pipes that
 * stay open. */
#include "base/clock.h"
#include "base/line_reader.h"
#include "base/slice.h"
#include "support/worker_rig.h"

/* --- lines and ends --- */

START_TEST(lines_of_both_streams_come_whole_also_without_a_last_newline)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(
		&r, "printf 'par'; sleep 0.05; printf 'ted\\na\\0b\\n'; echo wrong >&2; printf 'no newline'");
	wrig_until(r.gone);
	ck_assert_mem_eq(r.text[0].data, "parted\na\0b\nno newline\n", r.text[0].size);
	ck_assert_str_eq(rec_text(&r, WORKER_STDERR), "wrong\n");
	ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_line_over_the_limit_is_told_and_the_next_is_fine)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r,
		"head -c 5000000 /dev/zero | tr '\\0' x; echo; echo fine; head -c 4194304 /dev/zero | tr "
		"'\\0' y; echo");
	r.quiet = true;
	wrig_until(r.gone);
	ck_assert_uint_eq(r.lines[0], 3);
	ck_assert_uint_eq(r.too_long, 1);
	ck_assert_uint_eq(r.bytes[0], 1024 + 1 + 5 + 4194304 + 1);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_closed_stdout_is_an_end_of_file_and_no_end)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "exec 1>&-; read x; echo late >&2; exit 3");
	wrig_until(r.eof[0]);
	ck_assert_int_eq(r.exits, 0);
	worker_write(r.w, "go\n", 3);
	wrig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDERR), "late\n");
	ck_assert_int_eq(WEXITSTATUS(r.status), 3);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_pipe_that_a_stranger_holds_is_given_up)
{
	struct rec r;
	char path[64];
	int64_t at;
	int fd;

	wrig_begin("off");
	wrig_start(&r, "echo ready; read x; printf rest");
	wrig_until(r.lines[0] == 1);
	snprintf(path, sizeof path, "/proc/%d/fd/1", worker_pid(r.w));
	fd = open(path, O_WRONLY | O_CLOEXEC); /* we are the stranger */
	ck_assert_int_ge(fd, 0);
	worker_write(r.w, "x\n", 2);
	wrig_until(r.exits);
	at = clock_boot_us();
	wrig_until(r.gone);
	ck_assert_int_ge(clock_boot_us() - at, SECOND / 2);
	ck_assert_int_lt(clock_boot_us() - at, 4 * SECOND);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "ready\nrest\n");
	close(fd);
	rec_free(&r);
	wrig_end();
}
END_TEST

/* --- floods --- */

static struct rec *answering;
static int answers;

static void on_answer(struct rec *r, const char *line, size_t size)
{
	(void)line, (void)size;
	answering = r;
	answers++;
}

START_TEST(a_flooding_worker_starves_nobody)
{
	struct rec loud[4], calm;
	size_t turns;
	int i;

	wrig_begin("off");
	for (i = 0; i < 4; i++) {
		wrig_start(&loud[i], "exec yes 'much ado about nothing'");
		loud[i].quiet = true;
	}
	wrig_until(loud[3].lines[0] > 1000);
	wrig_start(&calm, "exec cat");
	calm.on_line = on_answer;
	for (i = 0; i < 50; i++) {
		int before = answers;

		turns = wrig.turns;
		worker_write(calm.w, "hello\n", 6);
		wrig_until(answers > before);
		/* cat must be scheduled, too: the bound is on what the loop did meanwhile */
		ck_assert_uint_lt(wrig.turns - turns, 2000);
	}
	ck_assert_uint_le(wrig.turn_bytes_max, 5 * (65536 + 100));
	for (i = 0; i < 4; i++) {
		rec_kill(&loud[i]);
		rec_free(&loud[i]);
	}
	worker_close_stdin(calm.w);
	wrig_until(calm.gone);
	rec_free(&calm);
	wrig_end();
}
END_TEST

#define MANY 120

START_TEST(a_turn_reads_a_bounded_amount_and_everybody_gets_some)
{
	static struct rec r[MANY];
	int64_t began_us;
	size_t turns;
	int i;

	wrig_begin("off");
	for (i = 0; i < MANY; i++) {
		wrig_start(&r[i], "exec yes $(head -c 500 /dev/zero | tr '\\0' x)");
		r[i].quiet = true;
		worker_pause_reading(r[i].w, true);
	}
	wrig_for_ms(1500); /* all pipes are full now */
	for (i = 0; i < MANY; i++)
		ck_assert_uint_eq(r[i].lines[0], 0);
	for (i = 0; i < MANY; i++)
		worker_pause_reading(r[i].w, false);
	turns = wrig.turns;
	began_us = clock_boot_us();
	for (i = 0; i < MANY; i++)
		while (r[i].lines[0] == 0) {
			ev_run(wrig.loop, EVRUN_NOWAIT);
			/* libev asks for 64 events at first, so one turn does not see all. Where a turn's
			 * time is over before all were read, the rest comes first in the next. */
			ck_assert_int_le(
				(int64_t)(wrig.turns - turns), 3 + (clock_boot_us() - began_us) / SLICE_US);
		}
	ck_assert_uint_ge(wrig.turn_bytes_max, 65536);
	ck_assert_uint_le(wrig.turn_bytes_max, (4u << 20) + MANY * 8192);
	for (i = 0; i < MANY; i++)
		worker_end(r[i].w, 0, 0);
	for (i = 0; i < MANY; i++) {
		wrig_until(r[i].gone);
		rec_free(&r[i]);
	}
	wrig_end();
}
END_TEST

START_TEST(a_turn_has_a_bounded_number_of_lines_however_short)
{
	static struct rec r[40];
	size_t all = 0;
	int i;

	wrig_begin("off");
	for (i = 0; i < 40; i++) {
		wrig_start(&r[i], "yes '' | head -n 30000; printf end");
		r[i].quiet = true;
	}
	for (i = 0; i < 40; i++) {
		wrig_until(r[i].gone);
		ck_assert_uint_eq(r[i].lines[0], 30001); /* none is lost, the last is not forgotten */
		all += r[i].lines[0];
		rec_free(&r[i]);
	}
	ck_assert_uint_gt(all, 1000000);
	/* 16,384, and 16 for everyone who comes after those are used up */
	ck_assert_uint_le(wrig.turn_lines_max, 16384 + 40 * 16 + 40);
	/* more than that rest: how many fit into a turn's 20 ms is the machine's affair */
	ck_assert_uint_gt(wrig.turn_lines_max, 40 * 16);
	wrig_end();
}
END_TEST

/* Half a slice. */
static void work_long(struct rec *r, const char *line, size_t size)
{
	int64_t until_us = clock_boot_us() + SLICE_US / 2;

	(void)r, (void)line, (void)size;
	while (clock_boot_us() < until_us)
		;
}

START_TEST(a_turn_ends_with_its_slice_in_the_middle_of_a_pipe)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\nend'");
	r.on_line = work_long;
	wrig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "1\n2\n3\n4\n5\n6\n7\n8\nend\n");
	ck_assert_uint_le(wrig.turn_lines_max, 3); /* the last comes with the end of the pipe */
	rec_free(&r);
	wrig_end();
}
END_TEST

static void begin_with_lines_total(int64_t bytes)
{
	wrig_begin("off");
	workers_free(wrig.ws);
	wrig.config.max_lines_total = bytes;
	wrig.ws = workers_new(wrig.loop, &wrig.timers, &wrig.config, RIG_INSTANCE, &wrig_ops);
}

START_TEST(an_unfinished_line_that_does_not_go_on_starves_nobody)
{
	struct rec hog, calm;

	begin_with_lines_total(1 << 20);
	wrig_start(&hog, "head -c 2000000 /dev/zero | tr '\\0' x; read x; echo; echo back");
	hog.quiet = true;
	wrig_for_ms(500);
	wrig_start(&calm, "head -c 100000 /dev/zero | tr '\\0' y; echo; echo end");
	calm.quiet = true;
	wrig_until(calm.gone);
	ck_assert_uint_eq(calm.lines[0], 2);
	ck_assert_uint_eq(calm.bytes[0], 100001 + 4);
	ck_assert_uint_eq(hog.too_long, 1);
	ck_assert_uint_eq(hog.lines[0], 1);
	worker_write(hog.w, "\n", 1);
	wrig_until(hog.gone);
	ck_assert_uint_eq(hog.lines[0], 2); /* and the next line is fine */
	rec_free(&hog);
	rec_free(&calm);
	wrig_end();
}
END_TEST

START_TEST(long_lines_over_the_common_limit_come_one_after_the_other)
{
	struct rec r[6];
	int i;

	begin_with_lines_total(1 << 20);
	for (i = 0; i < 6; i++) {
		wrig_start(&r[i], "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end");
		r[i].quiet = true;
	}
	for (i = 0; i < 6; i++) {
		wrig_until(r[i].gone);
		ck_assert_uint_eq(r[i].lines[0], 2);
		ck_assert_uint_eq(r[i].bytes[0], 3000001 + 4);
		rec_free(&r[i]);
	}
	wrig_end();
}
END_TEST

/* --- pauses --- */

START_TEST(lines_that_were_read_wait_for_the_release_and_a_pauses_end)
{
	struct rec r;
	size_t n;

	wrig_begin("off");
	/* all of it fits into the pipe */
	wrig_start(&r, "yes '' | head -n 30000; echo said >&2; read x; echo end");
	r.quiet = true;
	worker_pause_reading(r.w, true);
	wrig_for_ms(500);
	worker_pause_reading(r.w, false);
	while (!r.lines[0])
		ev_run(wrig.loop, EVRUN_NOWAIT);
	ck_assert_uint_lt(r.lines[0], 5000);
	workers_hold(wrig.ws, true);
	wrig.held = true;
	n = r.lines[0];
	wrig_for_ms(100); /* the callbacks assert that they are not called */
	worker_pause_reading(r.w, true);
	wrig.held = false;
	workers_hold(wrig.ws, false);
	wrig_for_ms(100);
	ck_assert_uint_eq(r.lines[0], n);
	worker_pause_reading(r.w, false);
	wrig_until(r.lines[0] == 30000);
	worker_write(r.w, "\n", 1);
	wrig_until(r.gone);
	ck_assert_uint_eq(r.lines[0], 30001);
	rec_free(&r);
	wrig_end();
}
END_TEST

static void keep_long(struct rec *r, const char *line, size_t size)
{
	if (size > LINES_READ_MAX)
		worker_keep_line(r->w, WORKER_STDOUT, line);
}

START_TEST(a_line_in_use_holds_back_the_next_and_the_end)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r,
		"head -c 200000 /dev/zero | tr '\\0' x; echo; echo behind; head -c 90000 /dev/zero | tr "
		"'\\0' y");
	r.quiet = true;
	r.on_line = keep_long;
	wrig_until(r.lines[0] == 1);
	wrig_for_ms(100);
	ck_assert(r.lines[0] == 1 && !r.gone && !r.eof[0]);
	worker_let_line_go(r.w, WORKER_STDOUT);
	wrig_until(r.lines[0] == 3 && r.exits); /* the last without a newline, and kept, too */
	wrig_for_ms(100);
	ck_assert(!r.gone && !r.eof[0]);
	worker_let_line_go(r.w, WORKER_STDOUT);
	wrig_until(r.gone);
	ck_assert_uint_eq(r.bytes[0], 200000 + 1 + 7 + 90000 + 1);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_long_line_is_under_way_until_it_ends)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "printf short; read x; head -c 50000 /dev/zero | tr '\\0' x; read x; echo; read x");
	r.quiet = true;
	wrig_for_ms(50);
	ck_assert(!worker_is_mid_line(r.w));
	worker_write(r.w, "\n", 1);
	wrig_until(worker_is_mid_line(r.w));
	worker_write(r.w, "\n", 1);
	wrig_until(r.lines[0] == 1);
	ck_assert(!worker_is_mid_line(r.w));
	worker_write(r.w, "\n", 1);
	wrig_until(r.gone);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_paused_worker_is_read_out_once_nobody_of_its_is_left)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "echo one; echo two >&2; exec 2>&-; sleep 50 & yes '' | head -n 30000; exit");
	worker_pause_reading(r.w, true);
	wrig_until(r.exits);
	wrig_for_ms(300);
	ck_assert_int_eq(r.gone, 0); /* somebody lives: the pause holds */
	ck_assert_uint_eq(r.lines[0] + r.lines[1], 0);
	rec_kill(&r); /* and nobody unpauses it */
	ck_assert_uint_eq(r.lines[0], 30001);
	ck_assert_str_eq(rec_text(&r, WORKER_STDERR), "two\n");
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_flooded_and_paused_worker_is_gone_after_its_kill)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "exec yes 'much ado about nothing'");
	r.quiet = true;
	worker_pause_reading(r.w, true);
	wrig_for_ms(200);
	ck_assert_uint_eq(r.lines[0], 0);
	rec_kill(&r);
	ck_assert_uint_gt(r.lines[0], 1000);
	rec_free(&r);
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("worker_read");
	TCase *t = tcase_create("read");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, lines_of_both_streams_come_whole_also_without_a_last_newline);
	tcase_add_test(t, a_line_over_the_limit_is_told_and_the_next_is_fine);
	tcase_add_test(t, a_flooding_worker_starves_nobody);
	tcase_add_test(t, a_turn_reads_a_bounded_amount_and_everybody_gets_some);
	tcase_add_test(t, long_lines_over_the_common_limit_come_one_after_the_other);
	tcase_add_test(t, a_closed_stdout_is_an_end_of_file_and_no_end);
	tcase_add_test(t, a_turn_has_a_bounded_number_of_lines_however_short);
	tcase_add_test(t, a_turn_ends_with_its_slice_in_the_middle_of_a_pipe);
	tcase_add_test(t, lines_that_were_read_wait_for_the_release_and_a_pauses_end);
	tcase_add_test(t, an_unfinished_line_that_does_not_go_on_starves_nobody);
	tcase_add_test(t, a_paused_worker_is_read_out_once_nobody_of_its_is_left);
	tcase_add_test(t, a_line_in_use_holds_back_the_next_and_the_end);
	tcase_add_test(t, a_long_line_is_under_way_until_it_ends);
	tcase_add_test(t, a_flooded_and_paused_worker_is_gone_after_its_kill);
	tcase_add_test(t, a_pipe_that_a_stranger_holds_is_given_up);
	return s;
}

int main(int argc, char **argv)
{
	static const struct wrig_helper none[] = {{NULL, NULL}};

	return wrig_main(argc, argv, none, make_suite);
}
