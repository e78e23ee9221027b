/* SPDX-License-Identifier: MIT */
/* test_proctree_orphans.c: what a worker leaves running is its own, however much it shed, and nobody
 * else's. */
#include "support/proctree_kit.h"

#include <sched.h>
#include <sys/mount.h>

/* --- who is left --- */

START_TEST(orphans_of_a_worker_keep_it_from_being_gone)
{
	struct rec r;
	int64_t at;

	wrig_begin("off");
	wrig_start(&r, "sleep 0.6 >/dev/null 2>&1 <&- & exit 5");
	wrig_until(r.exits);
	wrig_until(r.eof[0] && r.eof[1]);
	at = clock_boot_us();
	ck_assert_int_eq(r.gone, 0);
	wrig_until(r.gone);
	ck_assert_int_ge(clock_boot_us() - at, SECOND / 4);
	ck_assert_int_lt(clock_boot_us() - at, 3 * SECOND);
	ck_assert_int_eq(WEXITSTATUS(r.status), 5);
	rec_free(&r);
	wrig_end();
}
END_TEST

/* Adopted orphans are listed under another thread than the one that starts the workers. */
static void *leave_running(void *arg)
{
	struct rec r, other;
	int pid;

	wrig_begin("off");
	wrig_start(&other, "exec cat");
	wrig_start(&r, "sh -c 'echo $$; exec sleep 50' & sleep 0.2; exit 5");
	wrig_until(r.exits);
	pid = tree_line_pid(&r);
	wrig_for_ms(200);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(process_is_alive(pid));
	worker_end(r.w, 0, clock_boot_us() + SECOND);
	wrig_until(r.gone);
	ck_assert(!process_is_alive(pid));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	wrig_end();
	return arg;
}

START_TEST(orphans_are_seen_from_a_thread_that_is_not_the_first)
{
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, leave_running, NULL), 0);
	pthread_join(t, NULL);
}
END_TEST

START_TEST(alone_means_alive_and_without_company)
{
	struct rec r, other;

	wrig_begin("off");
	wrig_start(&other, "exec cat");
	wrig_start(
		&r, "echo a; read x; sleep 100 & p=$!; echo b; read x; kill $p; wait; echo c; read x; exit");
	wrig_until(r.lines[0] == 1);
	ck_assert(worker_is_alone(r.w));
	worker_write(r.w, "\n", 1);
	wrig_until(r.lines[0] == 2);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(other.w));
	worker_write(r.w, "\n", 1);
	wrig_until(r.lines[0] == 3);
	ck_assert(worker_is_alone(r.w));
	kill(worker_pid(r.w), SIGKILL);
	usleep(50000); /* dead, and nobody told the loop */
	ck_assert(!worker_is_alone(r.w));
	wrig_until(r.gone);
	ck_assert(!worker_is_alone(r.w));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	wrig_end();
}
END_TEST

/* --- those who shed everything --- */

START_TEST(daemon_without_environment_once_seen_as_descendant_is_killed)
{
	struct rec r, other;
	int pid;

	wrig_begin("off");
	wrig_start(&other, "exec cat"); /* so that it could be either's */
	wrig_start_helper(&r, "daemon", "wait");
	wrig_until(r.lines[0] == 1);
	pid = tree_line_pid(&r);
	ck_assert(!worker_is_alone(r.w)); /* a look: now it is known */
	worker_write(r.w, "x", 1);
	wrig_until(r.lines[0] == 2); /* it lost its parent */
	worker_end(r.w, 0, 0);
	wrig_until(r.gone);
	ck_assert(!process_is_alive(pid));
	ck_assert(process_is_alive(worker_pid(other.w)));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	wrig_end();
}
END_TEST

START_TEST(unseen_daemon_dies_with_its_session_and_with_no_other)
{
	struct rec r, other;
	int pid;

	wrig_begin("off");
	wrig_start(&other, "exec cat");
	wrig_start_helper(&r, "daemon", "now");
	wrig_until(r.lines[0] == 2);
	pid = tree_daemon_pid(&r);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(other.w));
	worker_close_stdin(other.w);
	wrig_until(other.gone);
	ck_assert(process_is_alive(pid));
	rec_kill(&r);
	ck_assert(!process_is_alive(pid));
	rec_free(&r);
	rec_free(&other);
	wrig_end();
}
END_TEST

/* An unreaped child, even one that /proc does not show. */
static bool is_there(int pid)
{
	return kill(pid, 0) == 0;
}

/* Proves nothing where the agent can be looked at. */
static void live_with_agent(bool hidden)
{
	struct rec r, older, younger;
	char path[64];
	int pid, fd;

	if (!wrig_drop_root())
		return;
	wrig_begin("off");
	wrig_start(&older, "exec cat");
	wrig_start_helper(&r, "agent", "");
	wrig_start(&younger, "exec cat");
	wrig_until(r.lines[0] == 1);
	pid = tree_line_pid(&r);
	snprintf(path, sizeof path, hidden ? "/proc/%d" : "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(fd, -1);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(older.w));
	worker_close_stdin(older.w); /* those who end are gone at once ... */
	wrig_until(older.gone);
	worker_close_stdin(r.w);
	wrig_until(r.exits);
	worker_close_stdin(younger.w);
	wrig_until(younger.gone);
	wrig_for_ms(200);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(is_there(pid)); /* ... and hurt nobody */
	worker_end(r.w, clock_boot_us() + SECOND / 10, clock_boot_us() + 15 * SECOND);
	wrig_until(r.gone); /* it obeys SIGTERM, like anybody */
	ck_assert(!is_there(pid));
	rec_free(&r);
	rec_free(&older);
	rec_free(&younger);
	wrig_start_helper(&r, "agent", "");
	wrig_until(r.lines[0] == 1);
	pid = tree_line_pid(&r);
	rec_kill(&r);
	ck_assert(!is_there(pid));
	rec_free(&r);
	wrig_end();
}

START_TEST(unreadable_daemon_dies_with_its_session_and_with_no_other)
{
	live_with_agent(false);
}
END_TEST

/* As under ProtectProc=invisible. Each mount has its own option since Linux 5.8, and only since then
 * this word. */
START_TEST(hidden_daemon_dies_with_its_session_and_with_no_other)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("proc", "/proc", "proc", 0, "hidepid=invisible") < 0) {
		fprintf(stderr, "SKIPPED: cannot mount a /proc that hides processes: %s\n", strerror(errno));
		return;
	}
	live_with_agent(true);
}
END_TEST

/* --- those who come and go, and those who were there before --- */

START_TEST(worker_whose_orphans_come_and_go_delays_no_other)
{
	struct rec churn, r;
	int64_t at;
	int i;

	wrig_begin("off");
	wrig_start_helper(&churn, "churn", "");
	for (i = 0; i < 20; i++) {
		wrig_start(&r, "exit 0");
		wrig_until(r.exits);
		at = clock_boot_us();
		wrig_until(r.gone);
		ck_assert_int_lt(clock_boot_us() - at, SECOND / 2);
		rec_free(&r);
	}
	rec_kill(&churn);
	rec_free(&churn);
	wrig_end();
}
END_TEST

/* `sidecar & exec hcpd`: a child that was there before us, and an orphan that it leaves us. */
START_TEST(inherited_children_and_what_comes_from_them_are_left_alone)
{
	int go[2], tell[2], side, orphan = 0;
	struct rec r, other;
	char c = 0;

	ck_assert_int_eq(pipe(go) | pipe(tell), 0);
	side = fork();
	if (side == 0) {
		alarm(HELPER_LIFE_S);
		(void)!read(go[0], &c, 1);
		if (fork() == 0) {
			if ((orphan = fork()) == 0) {
				setsid();
				alarm(HELPER_LIFE_S);
				tree_stay();
			}
			(void)!write(tell[1], &orphan, sizeof orphan);
			_exit(0);
		}
		wait(NULL);
		(void)!write(tell[1], &orphan, sizeof orphan);
		tree_stay();
	}
	wrig_begin("off");
	wrig_start(&r, "read x");
	wrig_start(&other, "read x");
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	ck_assert_int_eq(read(tell[0], &orphan, sizeof orphan), sizeof orphan);
	ck_assert_int_eq(read(tell[0], &c, 1), 1); /* it is an orphan now: ours */
	ck_assert(worker_is_alone(r.w));
	worker_close_stdin(r.w);
	wrig_until(r.gone);
	rec_kill(&other); /* the last that there is */
	ck_assert(process_is_alive(side) && process_is_alive(orphan));
	rec_free(&r);
	rec_free(&other);
	kill(side, SIGKILL);
	kill(orphan, SIGKILL);
	wrig_end();
}
END_TEST

static int count_children(void)
{
	char path[64], text[32768];
	int fd, count = 0;
	ssize_t n, i;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	fd = open(path, O_RDONLY);
	while ((n = read(fd, text, sizeof text)) > 0)
		for (i = 0; i < n; i++)
			count += text[i] == ' ';
	close(fd);
	return count;
}

START_TEST(ended_children_beyond_one_calls_share_are_reaped_too)
{
	struct rec r;

	wrig_begin("off");
	workers_hold(wrig.ws, true);
	wrig.held = true;
	wrig_start_helper(&r, "litter", "1500");
	wrig_until(count_children() == 1501);
	wrig.held = false;
	workers_hold(wrig.ws, false);
	workers_reap(wrig.ws);
	ck_assert_int_ge(count_children(), 501);
	wrig_until(count_children() == 1);
	ck_assert(worker_is_alone(r.w));
	rec_kill(&r);
	rec_free(&r);
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("proctree_orphans");
	TCase *t = tcase_create("orphans");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, orphans_of_a_worker_keep_it_from_being_gone);
	tcase_add_test(t, orphans_are_seen_from_a_thread_that_is_not_the_first);
	tcase_add_test(t, alone_means_alive_and_without_company);
	tcase_add_test(t, daemon_without_environment_once_seen_as_descendant_is_killed);
	tcase_add_test(t, unseen_daemon_dies_with_its_session_and_with_no_other);
	tcase_add_test(t, unreadable_daemon_dies_with_its_session_and_with_no_other);
	tcase_add_test(t, hidden_daemon_dies_with_its_session_and_with_no_other);
	tcase_add_test(t, worker_whose_orphans_come_and_go_delays_no_other);
	tcase_add_test(t, inherited_children_and_what_comes_from_them_are_left_alone);
	tcase_add_test(t, ended_children_beyond_one_calls_share_are_reaped_too);
	return s;
}

int main(int argc, char **argv)
{
	return proctree_main(argc, argv, make_suite);
}
