/* SPDX-License-Identifier: MIT */
/* test_worker.c: feeding workers, holding what they say, and crowds of them. What they print:
 * test_worker_read.c. How they start: test_worker_start.c. How trees die: test_proctree_end.c. */
#include "support/worker_rig.h"

#include <malloc.h>

/* --- writing --- */

START_TEST(a_large_line_goes_through_a_worker_and_back)
{
	size_t size = 3000000, i;
	char *big = malloc(size);
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "exec cat");
	for (i = 0; i < size; i++)
		big[i] = (char)('a' + i % 23);
	big[size - 1] = '\n';
	worker_write(r.w, big, size);
	ck_assert_uint_gt(worker_unwritten(r.w), 0);
	worker_write(r.w, "short\n", 6);
	worker_close_stdin(r.w);
	ck_assert(!worker_has_stdin(r.w));
	wrig_until(r.gone);
	ck_assert_uint_eq(r.lines[0], 2);
	ck_assert_mem_eq(r.text[0].data, big, size);
	ck_assert_mem_eq(r.text[0].data + size, "short\n", 6);
	rec_free(&r);
	free(big);
	wrig_end();
}
END_TEST

START_TEST(a_stdin_that_nobody_reads_blocks_nobody)
{
	char *big = calloc(1, 1 << 20);
	struct rec r;
	int64_t at = clock_boot_us();
	int i;

	wrig_begin("off");
	wrig_start(&r, "exec sleep 100");
	for (i = 0; i < 10; i++)
		worker_write(r.w, big, 1 << 20);
	ck_assert_uint_ge(worker_unwritten(r.w), 9 << 20);
	wrig_for_ms(50);
	ck_assert_int_lt(clock_boot_us() - at, 5 * SECOND);
	rec_kill(&r);
	ck_assert_uint_eq(worker_unwritten(r.w), 0);
	rec_free(&r);
	free(big);
	wrig_end();
}
END_TEST

START_TEST(writing_to_a_worker_that_closed_its_stdin_is_ignored)
{
	char *big = calloc(1, 1 << 20);
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "exec 0<&-; echo closed; exec sleep 100");
	wrig_until(r.lines[0] == 1);
	worker_write(r.w, big, 1 << 20);
	ck_assert(!worker_has_stdin(r.w));
	ck_assert_uint_eq(worker_unwritten(r.w), 0);
	worker_write(r.w, "x", 1);
	rec_kill(&r);
	rec_free(&r);
	free(big);
	wrig_end();
}
END_TEST

/* --- holding, many --- */

START_TEST(while_held_nothing_is_said_and_afterwards_everything)
{
	struct rec r, other;

	wrig_begin("off");
	wrig_start(&r, "read x; echo heard $x");
	wrig_start(&other, "echo other; exit 4");
	workers_hold(wrig.ws, true);
	wrig.held = true;
	worker_write(r.w, "you\n", 4);
	wrig_for_ms(300); /* the callbacks assert that they are not called */
	ck_assert_int_eq(r.exits + other.exits + (int)other.lines[0], 0);
	wrig.held = false;
	workers_hold(wrig.ws, false);
	wrig_until(r.gone && other.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "heard you\n");
	ck_assert_int_eq(WEXITSTATUS(other.status), 4);
	rec_free(&r);
	rec_free(&other);
	wrig_end();
}
END_TEST

/* Each worker costs three descriptors. */
static void allow_many_files(void)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max < 4096 ? lim.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &lim);
}

#define CROWD 500

START_TEST(five_hundred_at_once_start_and_end_without_a_trace)
{
	static struct rec r[CROWD];
	int before, i, gone = 0;

	allow_many_files();
	wrig_begin("off");
	before = wrig_count_fds();
	for (i = 0; i < CROWD; i++)
		wrig_start(&r[i], i % 2 ? "read x; echo $x" : "echo out; echo err >&2");
	for (i = 0; i < CROWD; i++)
		worker_write(r[i].w, "word\n", 5);
	for (i = 0; i < CROWD; i++) {
		wrig_until(r[i].gone);
		ck_assert_int_eq(r[i].status, 0);
		ck_assert_str_eq(rec_text(&r[i], WORKER_STDOUT), i % 2 ? "word\n" : "out\n");
		gone += r[i].gone;
		rec_free(&r[i]);
	}
	ck_assert_int_eq(gone, CROWD);
	ck_assert_int_eq(wrig_count_fds(), before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	wrig_end();
}
END_TEST

START_TEST(an_idle_worker_costs_less_than_two_kibibytes)
{
	static struct rec r[300];
	size_t before;
	int i;

	allow_many_files();
	wrig_begin("off");
	wrig_start(&r[0], "exec cat");
	wrig_for_ms(20);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (i = 1; i < 300; i++)
		wrig_start(&r[i], "exec cat");
	for (i = 0; i < 300; i++) { /* used and idle again, not only fresh */
		r[i].quiet = true;
		worker_write(r[i].w, "a\npart", 6);
		worker_write(r[i].w, "\n", 1);
		wrig_until(r[i].lines[0] == 2);
	}
	if (before) { /* a sanitizer's allocator does not tell */
		size_t each = (mallinfo2().uordblks + mallinfo2().hblkhd - before) / 299;

		ck_assert_msg(each < 2048, "%zu bytes a worker", each);
		printf("an idle worker costs %zu bytes\n", each);
	}
	for (i = 0; i < 300; i++)
		worker_close_stdin(r[i].w);
	for (i = 0; i < 300; i++) {
		wrig_until(r[i].gone);
		rec_free(&r[i]);
	}
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("worker");
	TCase *t = tcase_create("worker");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, a_large_line_goes_through_a_worker_and_back);
	tcase_add_test(t, a_stdin_that_nobody_reads_blocks_nobody);
	tcase_add_test(t, writing_to_a_worker_that_closed_its_stdin_is_ignored);
	tcase_add_test(t, while_held_nothing_is_said_and_afterwards_everything);
	tcase_add_test(t, five_hundred_at_once_start_and_end_without_a_trace);
	tcase_add_test(t, an_idle_worker_costs_less_than_two_kibibytes);
	return s;
}

int main(int argc, char **argv)
{
	static const struct wrig_helper none[] = {{NULL, NULL}};

	return wrig_main(argc, argv, none, make_suite);
}
