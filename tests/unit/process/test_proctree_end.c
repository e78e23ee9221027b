/* SPDX-License-Identifier: MIT */
/* test_proctree_end.c: the ladder on real trees: who obeys, who must be killed, who forks against it, who
 * will not die. */
#include "support/proctree_kit.h"

/* --- the ladder --- */

START_TEST(worker_that_obeys_sigterm_is_not_killed)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r,
		"trap 'echo bye; exit 7' TERM; (trap 'echo child >&2; exit' TERM; echo x; while :; do sleep "
		"0.01; done) & echo x; while :; do sleep 0.01; done");
	wrig_until(r.lines[0] == 2);
	ck_assert(!worker_is_ending(r.w));
	worker_end(r.w, 0, clock_boot_us() + 15 * SECOND);
	ck_assert(worker_is_ending(r.w));
	wrig_until(r.gone);
	ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 7);
	ck_assert_ptr_nonnull(strstr(rec_text(&r, WORKER_STDERR), "child\n"));
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(a_stopped_worker_notices_sigterm)
{
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "trap 'exit 8' TERM; echo x; kill -STOP $$; while :; do sleep 0.01; done");
	wrig_until(r.lines[0] == 1);
	worker_end(r.w, 0, clock_boot_us() + 15 * SECOND);
	wrig_until(r.gone);
	ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 8);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(ending_again_only_brings_it_forward)
{
	int64_t at = clock_boot_us();
	struct rec r;

	wrig_begin("off");
	wrig_start(&r, "trap '' TERM; echo x; while :; do sleep 0.01; done");
	wrig_until(r.lines[0] == 1);
	worker_end(r.w, at + 100 * SECOND, at + 200 * SECOND);
	worker_end(r.w, at + 300 * SECOND, at + 300 * SECOND);
	wrig_for_ms(50);
	ck_assert_int_eq(r.exits, 0);
	worker_end(r.w, 0, at + 200 * SECOND);
	wrig_for_ms(100);
	ck_assert_int_eq(r.exits, 0);
	worker_end(r.w, at + 400 * SECOND, clock_boot_us() + SECOND / 10);
	wrig_until(r.gone);
	ck_assert_int_lt(clock_boot_us() - at, 100 * SECOND); /* the earliest of the other times */
	ck_assert(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(grandchild_after_setsid_that_ignores_sigterm_is_killed)
{
	tree_end_setsid("off");
}
END_TEST

/* --- forking against the kill --- */

START_TEST(a_tree_that_forks_while_it_is_killed_is_killed_all_the_same)
{
	tree_end_bomb("off");
}
END_TEST

START_TEST(many_ended_at_once_all_end)
{
	static struct rec r[60];
	int i;

	wrig_begin("off");
	for (i = 0; i < 60; i++)
		wrig_start(&r[i], "trap '' TERM; setsid sleep 50 & sleep 50 & echo x; wait; wait");
	for (i = 0; i < 60; i++)
		wrig_until(r[i].lines[0] == 1);
	for (i = 0; i < 60; i++)
		worker_end(r[i].w, 0, clock_boot_us() + SECOND / 10);
	for (i = 0; i < 60; i++) {
		wrig_until(r[i].gone);
		rec_free(&r[i]);
	}
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	wrig_end();
}
END_TEST

/* --- what will not die --- */

#define FREEZER "/sys/fs/cgroup/freezer"

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

/* The old freezer holds even against SIGKILL: the nearest to a process stuck in the kernel that a test can
 * have. */
START_TEST(process_that_will_not_die_is_logged_once_and_waited_for)
{
	char dir[128], path[200], text[32];
	struct rec r;

	snprintf(dir, sizeof dir, FREEZER "/hcpd-unit-%d", (int)getpid());
	if (mkdir(dir, 0755) < 0) {
		fprintf(stderr, "SKIPPED: no freezer of cgroup version 1 that we may write to\n");
		return;
	}
	wrig_begin("off");
	wrig_start(&r, "exec sleep 100");
	snprintf(path, sizeof path, "%s/cgroup.procs", dir);
	snprintf(text, sizeof text, "%d", worker_pid(r.w));
	ck_assert(put_text(path, text));
	snprintf(path, sizeof path, "%s/freezer.state", dir);
	ck_assert(put_text(path, "FROZEN"));
	worker_end(r.w, 0, 0);
	wrig_until(r.stuck);
	ck_assert_int_eq(r.stuck_pid, worker_pid(r.w));
	wrig_for_ms(1200);
	ck_assert_int_eq(r.stuck, 1);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(put_text(path, "THAWED"));
	wrig_until(r.gone);
	ck_assert_int_eq(rmdir(dir), 0);
	rec_free(&r);
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("proctree_end");
	TCase *t = tcase_create("end");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, worker_that_obeys_sigterm_is_not_killed);
	tcase_add_test(t, a_stopped_worker_notices_sigterm);
	tcase_add_test(t, ending_again_only_brings_it_forward);
	tcase_add_test(t, grandchild_after_setsid_that_ignores_sigterm_is_killed);
	tcase_add_test(t, a_tree_that_forks_while_it_is_killed_is_killed_all_the_same);
	tcase_add_test(t, many_ended_at_once_all_end);
	tcase_add_test(t, process_that_will_not_die_is_logged_once_and_waited_for);
	return s;
}

int main(int argc, char **argv)
{
	return proctree_main(argc, argv, make_suite);
}
