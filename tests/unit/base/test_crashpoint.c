/* SPDX-License-Identifier: MIT */
/* test_crashpoint.c: crash points, with the table and the counters compiled in for this test, whatever the
 * build. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#ifndef HCP_CRASH_POINTS
#define HCP_CRASH_POINTS
#endif
#include "base/crashpoint.c"

#define THREADS 4
#define ROUNDS 1000

static char counts[256];

static void pass_one(void)
{
	CRASH_POINT(test_one);
}

static void pass_other(void)
{
	CRASH_POINT(test_other);
}

/* What a child does, told by the environment as a program would be. */
static int run(const char *crash, void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fclose(stderr);
		setenv("HCP_CRASH_COUNTS", counts, 1);
		if (crash)
			setenv("HCP_CRASH", crash, 1);
		crash_init();
		fn();
		_exit(0);
	}
	ck_assert(waitpid(pid, &status, 0) == pid);
	return status;
}

static struct crash_record record_of(const char *name)
{
	struct crash_record r = {.name = ""};
	int fd = open(counts, O_RDONLY);

	while (read(fd, &r, sizeof r) == (ssize_t)sizeof r && strcmp(r.name, name) != 0)
		;
	close(fd);
	ck_assert_str_eq(r.name, name);
	return r;
}

static uint64_t passed(const char *name)
{
	struct crash_record r = record_of(name);

	return r.passed;
}

static uint64_t died_at(const char *name)
{
	struct crash_record r = record_of(name);

	return r.died;
}

static void set_up(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(counts, sizeof counts, "%s/hcp-test-crash-%d", tmp ? tmp : "/tmp", getpid());
}

static void tear_down(void)
{
	unlink(counts);
}

static void pass_three_and_two(void)
{
	for (int i = 0; i < 3; i++)
		pass_one();
	for (int i = 0; i < 2; i++)
		pass_other();
}

START_TEST(a_process_dies_by_sigkill_at_the_passing_that_was_named)
{
	int status = run("test_other:2", pass_three_and_two);

	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_uint_eq(passed("test_one"), 3);
	ck_assert_uint_eq(passed("test_other"), 2);
	ck_assert_uint_eq(died_at("test_other"), 2);
	ck_assert_uint_eq(died_at("test_one"), 0);
}
END_TEST

START_TEST(a_passing_that_does_not_come_kills_nobody)
{
	int status = run("test_other:3", pass_three_and_two);

	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_uint_eq(died_at("test_other"), 0);
}
END_TEST

START_TEST(passings_are_counted_without_a_crash)
{
	ck_assert_int_eq(run(NULL, pass_three_and_two), 0);
	ck_assert_uint_eq(passed("test_one"), 3);
	ck_assert_uint_eq(passed("test_other"), 2);
}
END_TEST

START_TEST(a_name_or_number_that_cannot_be_is_an_error)
{
	static const char *const bad[] = {"", "test_one", "test_on:1", "test_one2:1",
		"test_one:", "test_one:0", "test_one:x", "test_one:1x"};
	int status = run(bad[_i], pass_three_and_two);

	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EX_USAGE, "%s", bad[_i]);
}
END_TEST

static void *pass_often(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		pass_one();
	return arg;
}

static void pass_in_threads(void)
{
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, pass_often, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

START_TEST(no_passing_of_any_thread_is_missed)
{
	ck_assert_int_eq(run(NULL, pass_in_threads), 0);
	ck_assert_uint_eq(passed("test_one"), THREADS * ROUNDS);
	ck_assert(WIFSIGNALED(run("test_one:4000", pass_in_threads)));
	ck_assert_uint_eq(died_at("test_one"), THREADS * ROUNDS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("crash");
	TCase *tc = tcase_create("crash");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, a_process_dies_by_sigkill_at_the_passing_that_was_named);
	tcase_add_test(tc, a_passing_that_does_not_come_kills_nobody);
	tcase_add_test(tc, passings_are_counted_without_a_crash);
	tcase_add_loop_test(tc, a_name_or_number_that_cannot_be_is_an_error, 0, 8);
	tcase_add_test(tc, no_passing_of_any_thread_is_missed);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
