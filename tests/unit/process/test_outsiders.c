/* SPDX-License-Identifier: MIT */
/* test_outsiders.c: the list of processes that do not come from the daemon. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/outsiders.h"
#include "process/proctree.h"

static struct proctree tree;
static struct outsiders list;
static int inside;

static bool is_inside(void *ctx, int pid)
{
	(void)ctx;
	return pid == inside;
}

static bool has(int pid)
{
	for (size_t i = 0; i < list.count; i++)
		if (list.list[i].pid == pid)
			return true;
	return false;
}

static int start_sleeper(void)
{
	int pid = fork();

	if (pid == 0) {
		alarm(60);
		pause();
		_exit(0);
	}
	return pid;
}

static void stop_sleeper(int pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void look(void)
{
	ck_assert_int_eq(outsiders_look(&list, &tree, is_inside, NULL), 0);
}

START_TEST(what_began_since_the_last_look_is_in_the_next_one)
{
	int before, ours, other;

	ck_assert_int_eq(proctree_init(&tree), 0);
	before = start_sleeper();
	look();
	ck_assert_uint_eq(list.full_looks, 1);
	ck_assert(has(before) && !has(getpid()));
	inside = ours = start_sleeper();
	other = start_sleeper();
	look();
	ck_assert(has(before) && has(other) && !has(ours));
	stop_sleeper(before);
	stop_sleeper(ours);
	stop_sleeper(other);
	outsiders_fini(&list);
	proctree_fini(&tree);
}
END_TEST

/* As if the pids had gone round meanwhile, or the machine had started more processes than there are pids. */
START_TEST(where_new_pids_do_not_tell_all_of_proc_is_read)
{
	int pid;

	ck_assert_int_eq(proctree_init(&tree), 0);
	look();
	pid = start_sleeper();
	if (_i == 0) {
		list.last_pid = 1 << 30;
	} else {
		list.last_pid = pid;
		list.looked_at = 0;
		list.forks = 1;
	}
	look();
	ck_assert_uint_eq(list.full_looks, 2);
	ck_assert(has(pid));
	stop_sleeper(pid);
	outsiders_fini(&list);
	proctree_fini(&tree);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("outsiders");
	TCase *t = tcase_create("outsiders");
	SRunner *r;
	int failed;

	tcase_add_test(t, what_began_since_the_last_look_is_in_the_next_one);
	tcase_add_loop_test(t, where_new_pids_do_not_tell_all_of_proc_is_read, 0, 2);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
