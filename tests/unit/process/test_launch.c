/* SPDX-License-Identifier: MIT */
/* test_launch.c: what a new process has of its daemon, and what it is kept from: signals, limits, another
 * user. Rules of files: test_landlock.c. */
#include "support/launch_kit.h"
#include "support/process.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* --- signals --- */

static void on_signal(int sig)
{
	(void)sig;
}

START_TEST(no_signal_is_ignored_handled_or_blocked_in_a_new_process)
{
	unsigned long ignore[8] = {(unsigned long)SIG_IGN};
	sigset_t some;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGHUP, on_signal);
	for (int sig = 32; sig <= 64; sig++)
		ck_assert_int_eq(syscall(SYS_rt_sigaction, sig, ignore, NULL, (size_t)8), 0);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, NULL);
	launch_kit_run_sh(NULL, "/", "exec cat /proc/self/status");
	ck_assert_ptr_nonnull(strstr(launch_kit_output, "SigBlk:\t0000000000000000"));
	ck_assert_ptr_nonnull(strstr(launch_kit_output, "SigIgn:\t0000000000000000"));
	ck_assert_ptr_nonnull(strstr(launch_kit_output, "SigCgt:\t0000000000000000"));
}
END_TEST

/* --- limits --- */

#define MIB (INT64_C(1) << 20)

static const struct limit_row {
	struct config_confine f;
	const char *script; /* prints soft and hard */
	const char *says;
} limit_rows[] = {
	{{.limit_memory = 512 * MIB}, "ulimit -Sv; ulimit -Hv", "524288\n524288\n"},
	{{.limit_cpu_us = 7000001}, "ulimit -St; ulimit -Ht", "8\n8\n"},
	{{.limit_processes = 1234}, "ulimit -Sp; ulimit -Hp", "1234\n1234\n"},
	{{.limit_files = 77}, "ulimit -Sn; ulimit -Hn", "77\n77\n"},
	{{.limit_file_size = 3 * MIB}, "ulimit -Sf; ulimit -Hf", "6144\n6144\n"},
	{{.limit_core = 0}, "ulimit -Sc; ulimit -Hc", "0\n0\n"},
	{{.limit_core = 1 * MIB}, "ulimit -Sc; ulimit -Hc", "2048\n2048\n"},
};

START_TEST(each_limit_is_in_force_and_cannot_be_raised) /* proves SA-03 */
{
	const struct limit_row *row = &limit_rows[_i];

	ck_assert_str_eq(launch_kit_run_sh(&row->f, "/", row->script), row->says);
}
END_TEST

START_TEST(a_limit_above_our_own_is_ours)
{
	struct config_confine f = {.limit_files = 1000000};
	struct rlimit ours = {.rlim_cur = 500, .rlim_max = 600};

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &ours), 0);
	ck_assert_str_eq(launch_kit_run_sh(&f, "/", "ulimit -Sn; ulimit -Hn"), "600\n600\n");
	ck_assert_str_eq(launch_kit_run_sh(NULL, "/", "ulimit -Sn; ulimit -Hn"), "500\n600\n");
}
END_TEST

/* Each tries to go over its limit; what it says, or how it dies, shows that it could not. */
static const struct break_row {
	struct config_confine f;
	const char *user; /* NULL: as we are */
	const char *script;
	int signal; /* 0: it exits, not with 0 */
} break_rows[] = {
	{{.limit_memory = 64 * MIB}, NULL, "exec python3 -c 'x = bytearray(200 << 20)'", 0},
	{{.limit_cpu_us = 1000000}, NULL, "while :; do :; done", SIGKILL},
	{{.limit_file_size = 1 * MIB}, NULL, "exec head -c 3000000 /dev/zero >f", SIGXFSZ},
	{{.limit_files = 8}, NULL, "exec python3 -c 'x = [open(\"/dev/null\") for i in range(9)]'", 0},
	{{.limit_processes = 1}, "games", "/bin/true & wait $!", 0},
	{{.limit_core = 0}, NULL, "ulimit -c 1", 0},
};

START_TEST(going_over_a_limit_is_the_end_of_it) /* proves SA-03 */
{
	struct break_row row = break_rows[_i];
	const char *dir;

	if (row.user && !launch_kit_user_fill(&row.f, row.user))
		return;
	launch_kit_begin();
	dir = launch_kit_make_dir("work", 0700);
	launch_kit_run_sh(&row.f, dir, row.script);
	if (row.signal)
		ck_assert_msg(WIFSIGNALED(launch_kit_status) && WTERMSIG(launch_kit_status) == row.signal,
			"status %x: %s", launch_kit_status, launch_kit_output);
	else
		ck_assert_msg(!WIFSIGNALED(launch_kit_status) && WEXITSTATUS(launch_kit_status) != 0,
			"status %x: %s", launch_kit_status, launch_kit_output);
	launch_kit_end();
}
END_TEST

/* --- capabilities --- */

START_TEST(ambient_capabilities_of_the_daemon_end_with_it) /* proves SA-03 */
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	uint32_t bits = 1u << CAP_SETUID | 1u << CAP_CHOWN;

	if (geteuid() != 0) {
		fprintf(stderr, "SKIPPED: only root has capabilities to hand on\n");
		return;
	}
	ck_assert_int_eq(prctl(PR_SET_KEEPCAPS, 1), 0);
	ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
	data[0].effective = data[0].permitted = data[0].inheritable = bits;
	ck_assert_int_eq(syscall(SYS_capset, &head, data), 0);
	ck_assert_int_eq(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0), 0);
	launch_kit_run_sh(NULL, "/", "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status");
	ck_assert_str_eq(launch_kit_output,
		"CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n");
}
END_TEST

/* --- another user --- */

START_TEST(a_worker_of_another_user_is_that_user_and_nothing_else) /* proves SA-03 */
{
	struct config_confine f = {0};
	char want[64];

	if (!launch_kit_user_fill(&f, "games"))
		return;
	ck_assert_int_eq(setgroups(3, (gid_t[]){0, 4, 27}), 0);
	launch_kit_begin();
	launch_kit_make_dir("work", 0700);
	launch_kit_put("work/task.json", "{}", 0600);
	snprintf(want, sizeof want, "%u %u %u", f.uid, f.gid, f.gid);
	launch_kit_run_sh(&f, launch_kit_in_base("work"), "echo $(id -u) $(id -g) $(id -G)");
	ck_assert_msg(strncmp(launch_kit_output, want, strlen(want)) == 0 &&
			launch_kit_output[strlen(want)] == '\n',
		"%s", launch_kit_output);
	launch_kit_run_sh(&f, launch_kit_in_base("work"),
		"grep -E '^(Uid|Gid|CapPrm|CapEff|NoNewPrivs)' /proc/self/status; ls -ld . task.json;"
		"cat task.json; echo >>task.json && echo mine >new && rm new && echo done");
	snprintf(want, sizeof want, "Uid:\t%u\t%u\t%u\t%u\n", f.uid, f.uid, f.uid, f.uid);
	ck_assert_msg(strstr(launch_kit_output, want) != NULL, "%s", launch_kit_output);
	ck_assert_ptr_nonnull(strstr(
		launch_kit_output, "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n"));
	ck_assert_ptr_nonnull(strstr(launch_kit_output, "drwx------"));
	ck_assert_ptr_nonnull(strstr(launch_kit_output, "-rw-------"));
	ck_assert_msg(strstr(launch_kit_output, "done") != NULL, "%s", launch_kit_output);
	launch_kit_run_sh(
		&f, launch_kit_in_base("work"), "python3 -c 'import os; os.setuid(0)' 2>&1 | tail -n 1");
	ck_assert_msg(strstr(launch_kit_output, "PermissionError") != NULL, "%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

START_TEST(worker_of_another_user_reaches_no_daemon_and_no_third_user) /* proves SA-03 */
{
	struct config_confine f = {0}, other = {0};
	char script[1024];

	if (!launch_kit_user_fill(&f, "games") || !launch_kit_user_fill(&other, "nobody"))
		return;
	launch_kit_begin();
	launch_kit_make_dir("mine", 0700);
	launch_kit_make_dir("theirs", 0700);
	launch_kit_put("store", "secret", 0600);
	launch_kit_run_sh(&other, launch_kit_in_base("theirs"), "echo secret >theirs.txt");
	snprintf(script, sizeof script,
		"cat %s/store %s/theirs/theirs.txt; ls %s/theirs; cat /proc/%d/environ; kill -9 %d; echo "
		">%s/new; mv %s/store x;"
		"chmod 777 %s/store; truncate -s 0 %s/store; ls -l %s; echo over",
		launch_kit_base, launch_kit_base, launch_kit_base, getpid(), getpid(), launch_kit_base,
		launch_kit_base, launch_kit_base, launch_kit_base, launch_kit_base);
	launch_kit_run_sh(&f, launch_kit_in_base("mine"), script);
	ck_assert_msg(
		strstr(launch_kit_output, "secret") == NULL && strstr(launch_kit_output, "PATH=") == NULL,
		"%s", launch_kit_output);
	ck_assert_msg(
		strstr(launch_kit_output, "theirs.txt: Permission denied") != NULL, "%s", launch_kit_output);
	ck_assert_msg(strstr(launch_kit_output, "over\n") != NULL, "%s", launch_kit_output);
	ck_assert_msg(strstr(launch_kit_output, "-rw-------") != NULL, "%s", launch_kit_output);
	ck_assert_int_eq(access(launch_kit_in_base("new"), F_OK), -1);
	launch_kit_end();
}
END_TEST

START_TEST(a_file_that_is_not_ours_is_never_given_away)
{
	struct config_confine f = {0};
	struct stat st;

	if (!launch_kit_user_fill(&f, "games"))
		return;
	launch_kit_begin();
	launch_kit_put("store", "secret", 0600);
	launch_kit_make_dir("work", 0700);
	if (_i == 0)
		ck_assert_int_eq(link(launch_kit_in_base("store"), launch_kit_in_base("work/task.json")), 0);
	else if (_i == 1)
		ck_assert_int_eq(
			symlink(launch_kit_in_base("store"), launch_kit_in_base("work/task.json")), 0);
	else
		ck_assert_int_eq(mkfifo(launch_kit_in_base("work/task.json"), 0600), 0);
	ck_assert(!launch_kit_run(&f, launch_kit_in_base("work"), (char *[]){(char[]){"/bin/true"}, NULL}));
	ck_assert_msg(strstr(launch_kit_why, "cannot give the working directory to user games") != NULL, "%s",
		launch_kit_why);
	ck_assert_int_eq(stat(launch_kit_in_base("store"), &st), 0);
	ck_assert_uint_eq(st.st_uid, 0);
	/* the directory itself is one that leads elsewhere */
	ck_assert_int_eq(rename(launch_kit_in_base("work"), launch_kit_in_base("away")), 0);
	launch_kit_make_dir("precious", 0700);
	ck_assert_int_eq(symlink(launch_kit_in_base("precious"), launch_kit_in_base("work")), 0);
	ck_assert(!launch_kit_run(&f, launch_kit_in_base("work"), (char *[]){(char[]){"/bin/true"}, NULL}));
	ck_assert_int_eq(stat(launch_kit_in_base("precious"), &st), 0);
	ck_assert_uint_eq(st.st_uid, 0);
	launch_kit_end();
}
END_TEST

START_TEST(a_directory_that_is_open_to_others_is_never_given_away)
{
	struct config_confine f = {0};
	struct stat st;

	if (!launch_kit_user_fill(&f, "games"))
		return;
	launch_kit_begin();
	launch_kit_make_dir("shared", 01777);
	ck_assert(!launch_kit_run(&f, launch_kit_in_base("shared"), (char *[]){(char[]){"/bin/true"}, NULL}));
	ck_assert_int_eq(stat(launch_kit_in_base("shared"), &st), 0);
	ck_assert_uint_eq(st.st_uid, 0);
	launch_kit_end();
}
END_TEST

START_TEST(directory_that_the_user_cannot_reach_is_told_with_both_names)
{
	struct config_confine f = {0};

	if (!launch_kit_user_fill(&f, "games"))
		return;
	launch_kit_begin();
	launch_kit_make_dir("closed", 0700);
	launch_kit_make_dir("closed/work", 0700);
	ck_assert(!launch_kit_run(
		&f, launch_kit_in_base("closed/work"), (char *[]){(char[]){"/bin/true"}, NULL}));
	ck_assert_msg(strstr(launch_kit_why, "closed/work as user games: Permission denied") != NULL, "%s",
		launch_kit_why);
	launch_kit_end();
}
END_TEST

START_TEST(without_the_right_to_it_nobody_becomes_another)
{
	struct config_confine f = {0};

	if (!launch_kit_user_fill(&f, "games"))
		return;
	ck_assert_int_eq(setgroups(0, NULL) | setresuid(65534, 65534, 65534), 0);
	ck_assert(!launch_kit_run(&f, NULL, (char *[]){(char[]){"/bin/true"}, NULL}));
	ck_assert_str_eq(launch_kit_why, "cannot become user games: Operation not permitted");
}
END_TEST

/* The child changes its user while its memory is still ours. */
START_TEST(we_stay_who_we_are_and_as_open_to_debuggers_as_we_were)
{
	struct config_confine f = {0};

	if (!launch_kit_user_fill(&f, "games"))
		return;
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, _i), 0);
	launch_kit_run_sh(&f, NULL, "true");
	ck_assert_int_eq(prctl(PR_GET_DUMPABLE), _i);
	ck_assert_uint_eq(geteuid(), 0);
	ck_assert_int_eq(setgroups(0, NULL), 0);
}
END_TEST

START_TEST(a_worker_of_another_user_dies_with_the_daemon_too)
{
	struct config_confine f = {0};
	int report[2], daemon, pid = 0, out;

	if (!launch_kit_user_fill(&f, "games"))
		return;
	launch_kit_begin();
	launch_kit_make_dir("work", 0700);
	ck_assert_int_eq(pipe(report), 0);
	daemon = fork();
	if (daemon == 0) {
		char sleep[] = "/bin/sleep", time[] = "600", *argv[] = {sleep, time, NULL};

		pid = launch_kit_start(&f, launch_kit_in_base("work"), argv, &out);
		(void)!write(report[1], &pid, sizeof pid);
		pause();
	}
	ck_assert_int_eq(read(report[0], &pid, sizeof pid), sizeof pid);
	ck_assert_msg(pid > 0 && process_is_alive(pid), "%s", launch_kit_why);
	kill(daemon, SIGKILL);
	waitpid(daemon, NULL, 0);
	for (int i = 0; i < WAIT_MS / 10 && process_is_alive(pid); i++)
		usleep(10000);
	ck_assert_msg(!process_is_alive(pid), "%d outlived its daemon", pid);
	launch_kit_end();
}
END_TEST

static TCase *make_case(const char *name)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 150);
	tcase_add_test(t, no_signal_is_ignored_handled_or_blocked_in_a_new_process);
	tcase_add_loop_test(t, each_limit_is_in_force_and_cannot_be_raised, 0, COUNT(limit_rows));
	tcase_add_test(t, a_limit_above_our_own_is_ours);
	tcase_add_loop_test(t, going_over_a_limit_is_the_end_of_it, 0, COUNT(break_rows));
	tcase_add_test(t, ambient_capabilities_of_the_daemon_end_with_it);
	tcase_add_test(t, a_worker_of_another_user_is_that_user_and_nothing_else);
	tcase_add_test(t, worker_of_another_user_reaches_no_daemon_and_no_third_user);
	tcase_add_loop_test(t, a_file_that_is_not_ours_is_never_given_away, 0, 3);
	tcase_add_test(t, a_directory_that_is_open_to_others_is_never_given_away);
	tcase_add_test(t, directory_that_the_user_cannot_reach_is_told_with_both_names);
	tcase_add_test(t, without_the_right_to_it_nobody_becomes_another);
	tcase_add_loop_test(t, we_stay_who_we_are_and_as_open_to_debuggers_as_we_were, 0, 2);
	tcase_add_test(t, a_worker_of_another_user_dies_with_the_daemon_too);
	return t;
}

static Suite *suite(void)
{
	Suite *s = suite_create("launch");
	TCase *t = make_case("by another thread");

	tcase_add_checked_fixture(t, launch_kit_use_forker, NULL);
	suite_add_tcase(s, make_case("by this thread"));
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
