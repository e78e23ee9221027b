/* SPDX-License-Identifier: MIT */
/* test_proctree_marks.c: processes that are no descendants are found by mark, instance or tag, and no
 * others are. */
#include "support/proctree_kit.h"

/* --- started by somebody else --- */

static bool has_executed(int pid)
{
	char path[64], text[256] = "";
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY);
	if (fd >= 0) {
		n = read(fd, text, sizeof text - 1);
		close(fd);
	}
	return n > 6 && (memcmp(text + n - 6, "sleep", 6) == 0 || strncmp(text, "sleep", 6) == 0);
}

/* A process that is no child of ours, starts a marked one when told to. */
static int start_foreign(int *pid_fd)
{
	int go[2], tell[2];

	ck_assert_int_eq(pipe(go) | pipe(tell), 0);
	if (fork() == 0) {
		if (fork() == 0) {
			char sh[] = "sh", c[] = "-c",
			     script[] = "read x; sleep 50 >/dev/null 2>&1 & echo $!; exec sleep 50";
			char *argv[] = {sh, c, script, NULL};

			dup2(go[0], 0);
			dup2(tell[1], 1);
			close(go[1]);
			close(tell[0]);
			alarm(HELPER_LIFE_S);
			execve("/bin/sh", argv, wrig_env);
			_exit(1);
		}
		_exit(0);
	}
	wait(NULL);
	close(go[0]);
	close(tell[1]);
	*pid_fd = tell[0];
	return go[1];
}

/* Tells it to. The pid of what it started. */
static int let_start(int go, int pid_fd)
{
	char text[32] = "";

	ck_assert_int_eq(write(go, "\n", 1), 1);
	ck_assert_int_gt(read(pid_fd, text, sizeof text - 1), 0);
	return atoi(text);
}

/* The starter itself is older than the worker; it has our instance, though. */
static void end_foreign(int go, int pid_fd)
{
	wrig_begin("off");
	ck_assert_int_eq(workers_kill_stale(wrig.ws), 1);
	wrig_end();
	close(go);
	close(pid_fd);
}

START_TEST(a_process_that_somebody_else_started_is_found_by_its_mark)
{
	int pid_fd, go = start_foreign(&pid_fd), pid;
	struct rec r;

	wrig_begin("off");
	usleep(50000); /* start times are counted in hundredths */
	wrig_start(&r, "exec sleep 50");
	pid = let_start(go, pid_fd);
	usleep(50000);
	ck_assert(process_is_alive(pid));
	rec_kill(&r);
	ck_assert(!process_is_alive(pid));
	rec_free(&r);
	wrig_end();
	end_foreign(go, pid_fd);
}
END_TEST

/* The worker ends by itself. It may not be gone before what was started on its behalf is. */
START_TEST(process_started_elsewhere_for_a_worker_may_not_outlive_it)
{
	int pid_fd, go = start_foreign(&pid_fd), pid;
	struct rec r;

	wrig_begin("off");
	usleep(50000); /* start times are counted in hundredths */
	wrig_start(&r, _i ? "echo ready; read x; sleep 2.5" : "echo ready; read x");
	wrig_until(r.lines[0] == 1);
	pid = let_start(go, pid_fd);
	wrig_until(has_executed(pid));
	worker_close_stdin(r.w);
	wrig_until(r.exits);
	wrig_for_ms(300);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(process_is_alive(pid));
	rec_kill(&r);
	ck_assert(!process_is_alive(pid));
	rec_free(&r);
	wrig_end();
	end_foreign(go, pid_fd);
}
END_TEST

/* --- left by an earlier run --- */

START_TEST(leftovers_are_killed_by_exactly_their_instance)
{
	static const char *const before[] = {"", "X", "OTHER="}, *const after[] = {"x", "", ""};
	int ours[3], not_ours[3], i;
	char var[128];

	wrig_begin("off");
	for (i = 0; i < 3; i++) {
		ours[i] = tree_start_bare(wrig_instance_var);
		snprintf(var, sizeof var, "%s%s%s", before[i], wrig_instance_var, after[i]);
		not_ours[i] = tree_start_bare(var);
	}
	for (i = 0; i < 3; i++)
		wrig_until(has_executed(ours[i]) && has_executed(not_ours[i]));
	setenv("HCP_INSTANCE", RIG_INSTANCE, 1); /* never ourselves */
	ck_assert_int_eq(workers_kill_stale(wrig.ws), 3);
	for (i = 0; i < 3; i++) {
		ck_assert(!process_is_alive(ours[i]));
		ck_assert(process_is_alive(not_ours[i]));
		kill(not_ours[i], SIGKILL);
	}
	ck_assert_int_eq(workers_kill_stale(wrig.ws), 0);
	wrig_end();
}
END_TEST

START_TEST(a_leftovers_child_without_environment_is_killed_with_it)
{
	char name[] = "daemon", how[] = "wait", *argv[] = {wrig_self, name, how, NULL};
	int hold[2], out[2], pid;
	char text[64] = "";

	wrig_begin("off");
	ck_assert_int_eq(pipe(hold) | pipe(out), 0);
	if (fork() == 0) {
		dup2(hold[0], 0);
		dup2(out[1], 1);
		close(hold[1]);
		execve(wrig_self, argv, wrig_env);
		_exit(1);
	}
	ck_assert_int_gt(read(out[0], text, sizeof text - 1), 0);
	pid = atoi(text);
	ck_assert(process_is_alive(pid));
	ck_assert_int_eq(workers_kill_stale(wrig.ws), 3);
	ck_assert(!process_is_alive(pid));
	wrig_end();
}
END_TEST

START_TEST(a_leftover_that_is_slow_to_die_is_waited_for)
{
	char name[] = "fat", *argv[] = {wrig_self, name, NULL}, text[64] = "";
	int out[2], pid;

	wrig_begin("off");
	ck_assert_int_eq(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		execve(wrig_self, argv, wrig_env);
		_exit(1);
	}
	ck_assert_int_gt(read(out[0], text, sizeof text - 1), 0);
	ck_assert_int_eq(workers_kill_stale(wrig.ws), 1);
	ck_assert(!process_is_alive(pid));
	wrig_end();
}
END_TEST

/* A previous run's, without any environment, in a session of its own, known by its tag alone. */
START_TEST(a_leftover_without_environment_is_killed_by_its_tag)
{
	int tell[2], pid = 0, status, first;

	ck_assert_int_eq(pipe(tell), 0);
	first = fork();
	if (first == 0) {
		struct rec r;

		wrig_begin("off");
		prctl(PR_SET_CHILD_SUBREAPER, 0);
		wrig_start_helper(&r, "daemon", "now");
		wrig_until(r.lines[0] == 2);
		pid = tree_daemon_pid(&r);
		(void)!write(tell[1], &pid, sizeof pid);
		raise(SIGKILL);
	}
	ck_assert_int_eq(read(tell[0], &pid, sizeof pid), sizeof pid);
	ck_assert_int_eq(waitpid(first, &status, 0), first);
	ck_assert(process_is_alive(pid));
	wrig_begin("off");
	ck_assert_int_ge(workers_kill_stale(wrig.ws), 1);
	ck_assert(!process_is_alive(pid));
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("proctree_marks");
	TCase *t = tcase_create("marks");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, a_process_that_somebody_else_started_is_found_by_its_mark);
	tcase_add_loop_test(t, process_started_elsewhere_for_a_worker_may_not_outlive_it, 0, 2);
	tcase_add_test(t, leftovers_are_killed_by_exactly_their_instance);
	tcase_add_test(t, a_leftover_that_is_slow_to_die_is_waited_for);
	tcase_add_test(t, a_leftover_without_environment_is_killed_by_its_tag);
	tcase_add_test(t, a_leftovers_child_without_environment_is_killed_with_it);
	return s;
}

int main(int argc, char **argv)
{
	return proctree_main(argc, argv, make_suite);
}
