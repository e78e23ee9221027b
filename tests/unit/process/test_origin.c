/* SPDX-License-Identifier: MIT */
/* test_origin.c: a process comes from a session by descent, or by a sign that it or an ancestor carries. */
#include "process/origin.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that has mark in its environment and tag (0: none) as its limit, and leads a kernel group of its
 * own. Returns the pid of its child, which has no environment. */
static int start(const char *mark, rlim_t tag)
{
	static const char script[] = "env -i /bin/sh -c 'echo $$; exec sleep 1000' & wait";
	const char *const env[] = {mark, NULL};
	char text[32] = "";
	struct rlimit limit = {.rlim_cur = tag, .rlim_max = RLIM_INFINITY};
	int said[2], pid;

	ck_assert_int_eq(pipe(said), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		dup2(said[1], 1);
		close(said[0]);
		close(said[1]);
		if (tag)
			setrlimit(RLIMIT_LOCKS, &limit);
		execle("/bin/sh", "sh", "-c", script, NULL, env);
		_exit(127);
	}
	close(said[1]);
	ck_assert_int_gt(read(said[0], text, sizeof text - 1), 0);
	close(said[0]);
	return atoi(text);
}

static void stop(int pid)
{
	kill(-getpgid(pid), SIGKILL);
	while (wait(NULL) > 0)
		;
}

/* What a process that is no ancestor of pid finds out. */
static enum origin look_from_aside(int pid, int *child)
{
	int result[2] = {-1, -1}, pipes[2];

	ck_assert_int_eq(pipe(pipes), 0);
	if (fork() == 0) {
		result[0] = (int)origin_find(pid, &result[1]);
		_exit(write(pipes[1], result, sizeof result) == sizeof result ? 0 : 1);
	}
	ck_assert_int_eq((int)read(pipes[0], result, sizeof result), (int)sizeof result);
	close(pipes[0]);
	close(pipes[1]);
	*child = result[1];
	return (enum origin)result[0];
}

START_TEST(descendant_of_a_worker_comes_from_a_session)
{
	int child, pid = start("A=1", 0);

	ck_assert_int_eq((int)origin_find(pid, &child), ORIGIN_SESSION);
	ck_assert_int_eq(child, getpgid(pid));
	ck_assert_int_eq((int)origin_find(getpid(), &child), ORIGIN_OUTSIDE);
	ck_assert_int_eq((int)origin_find(getppid(), &child), ORIGIN_OUTSIDE);
	stop(pid);
}
END_TEST

/* The parent is seen to be gone only after the child was read: the daemon is the new one. */
START_TEST(an_orphan_that_was_adopted_comes_from_a_session)
{
	int child, pid = start("A=1", 0), parent = getpgid(pid);

	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	kill(parent, SIGKILL);
	ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
	ck_assert_int_eq((int)origin_find(pid, &child), ORIGIN_SESSION);
	ck_assert_int_eq(child, pid);
	stop(pid);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}
END_TEST

START_TEST(process_without_a_sign_comes_from_outside)
{
	int child, pid = start("HCP_INSTANCES=1", 0);

	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_OUTSIDE);
	stop(pid);
}
END_TEST

START_TEST(an_ancestors_mark_or_tag_is_a_sign)
{
	int child, pid = start("HCP_INSTANCE=some-daemons", 0);

	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_SESSION);
	ck_assert_int_eq(child, 0);
	stop(pid);
	pid = start("A=1", (rlim_t)5 << 24);
	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_SESSION);
	stop(pid);
}
END_TEST

START_TEST(process_that_has_ended_is_gone)
{
	int child, pid = start("A=1", 0), ends[2], dead;

	stop(pid);
	while (origin_find(pid, &child) != ORIGIN_GONE) /* it was killed; pid 1 sees its end */
		usleep(1000);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	ck_assert_int_eq((int)origin_find_peer(ends[0], getpid(), &child), ORIGIN_OUTSIDE);
	dead = fork();
	if (dead == 0)
		_exit(0);
	while (origin_find(dead, &child) != ORIGIN_GONE) /* a zombie is one that has ended */
		usleep(1000);
	ck_assert_int_eq(waitpid(dead, NULL, 0), dead);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("origin");
	TCase *t = tcase_create("origin");
	SRunner *run = srunner_create(s);

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, descendant_of_a_worker_comes_from_a_session);
	tcase_add_test(t, an_orphan_that_was_adopted_comes_from_a_session);
	tcase_add_test(t, process_without_a_sign_comes_from_outside);
	tcase_add_test(t, an_ancestors_mark_or_tag_is_a_sign);
	tcase_add_test(t, process_that_has_ended_is_gone);
	srunner_run_all(run, CK_NORMAL);
	int failed = srunner_ntests_failed(run);
	srunner_free(run);
	return failed != 0;
}
