/* SPDX-License-Identifier: MIT */
/* test_forker.c: a worker that another thread starts is like any other, and the thread costs nothing when
 * none is left. What a new process has of its daemon, and what it is kept from: test_launch.c and
 * test_landlock.c, which start all both ways. */
#include "support/proctree_kit.h"

#define CROWD 80 /* more than the core's own thread starts */

static struct rec crowd[CROWD];

static void crowd_begin(void)
{
	wrig_begin("off");
	for (int i = 0; i < CROWD; i++)
		wrig_start(&crowd[i], "exec cat");
}

static void crowd_end(void)
{
	for (int i = 0; i < CROWD; i++) {
		rec_kill(&crowd[i]);
		rec_free(&crowd[i]);
	}
}

static void crowd_must_live(void)
{
	for (int i = 0; i < CROWD; i++)
		ck_assert(process_is_alive(worker_pid(crowd[i].w)));
}

static int count_threads(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) < 0 ? -1 : (int)st.st_nlink - 2;
}

START_TEST(the_thread_comes_with_the_crowd_and_leaves_with_it)
{
	int threads = count_threads(), fds;

	wrig_begin("off");
	fds = wrig_count_fds();
	wrig_end();
	crowd_begin();
	ck_assert_int_eq(count_threads(), threads + 1);
	crowd_end();
	ck_assert_int_eq(wrig_count_fds(), fds);
	wrig_end();
	wrig_until(count_threads() == threads);
}
END_TEST

START_TEST(one_of_many_sees_no_descriptor_but_its_own)
{
	struct rec r;

	crowd_begin();
	wrig_start(&r, "exec ls /proc/self/fd");
	wrig_until(r.gone);
	ck_assert_str_eq(
		rec_text(&r, WORKER_STDOUT), "0\n1\n2\n3\n"); /* the last is the directory that ls reads */
	rec_free(&r);
	crowd_end();
	wrig_end();
}
END_TEST

START_TEST(one_of_many_that_cannot_be_executed_is_told)
{
	char name[] = "/nowhere/agent", *argv[] = {name, NULL}, why[256];
	struct rec r;

	crowd_begin();
	ck_assert_int_eq(wrig_try_argv(&r, argv, why, sizeof why), -1);
	ck_assert_ptr_nonnull(strstr(why, "/nowhere/agent: No such file"));
	crowd_end();
	wrig_end();
}
END_TEST

/* 0: at the end of the escalation. 1: at the worker's own end. */
START_TEST(an_orphan_of_one_of_many_dies_with_it_and_no_other)
{
	struct rec r;
	int pid;

	crowd_begin();
	wrig_start(&r, "(setsid sh -c 'echo $$; exec sleep 50' &); read x");
	wrig_until(r.lines[0] == 1);
	pid = tree_line_pid(&r);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(crowd[CROWD - 1].w));
	if (_i) {
		worker_close_stdin(r.w);
		wrig_until(r.exits);
		wrig_for_ms(100);
		ck_assert_int_eq(r.gone, 0);
	}
	worker_end(r.w, 0, clock_boot_us() + SECOND / 5);
	wrig_until(r.gone);
	ck_assert(!process_is_alive(pid));
	crowd_must_live();
	rec_free(&r);
	crowd_end();
	wrig_end();
}
END_TEST

/* Its pipes stay open: nothing but its status says that it ended. */
START_TEST(an_end_that_no_pipe_shows_is_noticed_among_others)
{
	struct rec r, quick;

	crowd_begin();
	wrig_start(&r, "sleep 50 & echo x; kill -9 $$");
	wrig_start(&quick, "echo x");
	wrig_until(r.exits && quick.gone);
	ck_assert_int_eq(r.gone, 0);
	rec_kill(&r);
	rec_free(&r);
	rec_free(&quick);
	crowd_end();
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("forker");
	TCase *t = tcase_create("forker");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, the_thread_comes_with_the_crowd_and_leaves_with_it);
	tcase_add_test(t, one_of_many_sees_no_descriptor_but_its_own);
	tcase_add_test(t, one_of_many_that_cannot_be_executed_is_told);
	tcase_add_loop_test(t, an_orphan_of_one_of_many_dies_with_it_and_no_other, 0, 2);
	tcase_add_test(t, an_end_that_no_pipe_shows_is_noticed_among_others);
	return s;
}

int main(int argc, char **argv)
{
	return proctree_main(argc, argv, make_suite);
}
