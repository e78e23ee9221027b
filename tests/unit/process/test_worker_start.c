/* SPDX-License-Identifier: MIT */
/* test_worker_start.c: what a worker is given when it starts, and every way in which it cannot. */
#include "support/worker_rig.h"

/* --- what a worker is given --- */

START_TEST(a_worker_starts_with_nothing_of_the_daemon_in_it)
{
	static const char script[] =
		"pwd; umask; ulimit -S -n; echo $(ls /proc/self/fd | wc -l); "
		"grep -E 'Sig(Blk|Ign):' /proc/self/status; cut -d' ' -f5 /proc/$$/stat; echo $$; "
		"env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL= | wc -l";
	struct rec r;
	sigset_t some;
	char *line;
	int leak, i;

	wrig_begin("off");
	leak = open("/dev/null", O_RDONLY); /* a library's, without O_CLOEXEC */
	ck_assert_int_ge(leak, 3);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, NULL);
	signal(SIGINT, SIG_IGN);
	umask(0);
	wrig_start(&r, script);
	wrig_until(r.gone);
	line = strtok(xstrdup(rec_text(&r, WORKER_STDOUT)), "\n");
	ck_assert_str_eq(line, "/tmp");
	ck_assert_str_eq(strtok(NULL, "\n"), "0077");
	ck_assert_int_le(atoi(strtok(NULL, "\n")), 1024);
	ck_assert_str_eq(strtok(NULL, "\n"), "4"); /* 0, 1, 2 and ls's own */
	for (i = 0; i < 2; i++)
		ck_assert_ptr_nonnull(strstr(strtok(NULL, "\n"), "0000000000000000"));
	line = strtok(NULL, "\n");
	ck_assert_str_eq(line, strtok(NULL, "\n")); /* leads its own group */
	ck_assert_str_eq(strtok(NULL, "\n"), "3");
	close(leak);
	rec_free(&r);
	wrig_end();
}
END_TEST

START_TEST(without_stdin_a_worker_reads_an_empty_one)
{
	char sh[] = "sh", c[] = "-c", s[] = "cat; readlink /proc/self/fd/0", *argv[] = {sh, c, s, NULL},
	     why[256];
	struct rec r = {0};
	struct worker_spec spec = {.argv = argv, .env = wrig_env, .workdir = "/", .owner = &r};

	wrig_begin("off");
	ck_assert_int_eq(worker_start(wrig.ws, &spec, &r.w, why, sizeof why), 0);
	ck_assert(!worker_has_stdin(r.w));
	worker_write(r.w, "x", 1);
	worker_close_stdin(r.w);
	wrig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "/dev/null\n");
	rec_free(&r);
	wrig_end();
}
END_TEST

/* As the daemon of an earlier run would end: without a chance to do anything. */
START_TEST(a_worker_dies_with_the_daemon)
{
	int tell[2], pid, worker = 0, status;
	int64_t until;

	ck_assert_int_eq(pipe(tell), 0);
	pid = fork();
	if (pid == 0) {
		struct rec r;

		wrig_begin("off");
		wrig_start(&r, "exec sleep 100");
		worker = worker_pid(r.w);
		if (write(tell[1], &worker, sizeof worker) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	ck_assert_int_eq(read(tell[0], &worker, sizeof worker), sizeof worker);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	for (until = clock_boot_us() + 5 * SECOND; process_is_alive(worker) && clock_boot_us() < until;)
		usleep(1000);
	ck_assert(!process_is_alive(worker));
}
END_TEST

/* --- what goes wrong --- */

static void expect_why(char *const *argv, const char *workdir, const char *expected)
{
	struct rec r = {0};
	struct worker_spec spec = {.argv = argv, .env = wrig_env, .workdir = workdir, .owner = &r};
	char why[512] = "";

	ck_assert_int_eq(worker_start(wrig.ws, &spec, &r.w, why, sizeof why), -1);
	ck_assert_str_eq(why, expected);
}

static char *make_file(const char *text, mode_t mode)
{
	char *path = xstrdup("/tmp/hcpd-worker-XXXXXX");
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static void expect_file_why(const char *text, mode_t mode, const char *expected)
{
	char *path = make_file(text, mode), *argv[] = {path, NULL}, why[512];

	snprintf(why, sizeof why, "cannot execute %s: %s", path, expected);
	expect_why(argv, "/", why);
	unlink(path);
	free(path);
}

START_TEST(program_that_cannot_be_executed_is_told_and_leaves_nothing)
{
	char none[] = "/x/y", bare[] = "no-such-program-here", dir[] = "/tmp", *argv[] = {none, NULL};
	char empty[] = "";
	int before;

	wrig_begin("off");
	before = wrig_count_fds();
	expect_why(argv, "/", "cannot execute /x/y: No such file or directory");
	argv[0] = bare;
	expect_why(argv, "/", "cannot execute no-such-program-here: not found in PATH");
	argv[0] = dir;
	expect_why(argv, "/", "cannot execute /tmp: Permission denied");
	argv[0] = empty;
	expect_why(argv, "/", "cannot execute: the command is empty");
	argv[0] = bare;
	expect_why(
		argv, "/no/where", "cannot enter the working directory /no/where: No such file or directory");
	expect_file_why(
		"#!/no/such/python -u\nprint(1)\n", 0700, "its interpreter /no/such/python is missing");
	expect_file_why("#!/bin/sh\n", 0600, "Permission denied");
	expect_file_why("neither script nor program", 0700, "Exec format error");
	ck_assert_int_eq(wrig_count_fds(), before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	wrig_end();
}
END_TEST

START_TEST(the_program_is_searched_in_the_path_that_it_is_given)
{
	char dir[] = "/tmp/hcpd-path-XXXXXX", path[128], prog[] = "hcpd-test-prog", *argv[] = {prog, NULL};
	char env_path[256], *env[] = {env_path, NULL}, why[256];
	struct rec r = {0};
	struct worker_spec spec = {.argv = argv, .env = env, .workdir = dir, .owner = &r};
	char *script = make_file("#!/bin/sh\necho found\n", 0700);

	wrig_begin("off");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/%s", dir, prog);
	ck_assert_int_eq(rename(script, path), 0);
	snprintf(env_path, sizeof env_path, "PATH=::/nonexistent:");
	/* not the working directory */
	ck_assert_int_eq(worker_start(wrig.ws, &spec, &r.w, why, sizeof why), -1);
	snprintf(env_path, sizeof env_path, "PATH=:/nonexistent:/etc/passwd:%s:/bin", dir);
	ck_assert_msg(worker_start(wrig.ws, &spec, &r.w, why, sizeof why) == 0, "%s", why);
	wrig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "found\n");
	unlink(path);
	rmdir(dir);
	free(script);
	rec_free(&r);
	wrig_end();
}
END_TEST

/* At every number of free descriptors it either works or says why, and leaks nothing. */
START_TEST(start_without_descriptors_fails_and_workers_can_be_ended)
{
	struct rlimit lim = {64, 64};
	int fill[64], n = 0, i, before, tries, started = 0;
	char sh[] = "sleep", a[] = "100", *argv[] = {sh, a, NULL}, why[256];
	struct rec r[2], probe;

	wrig_begin("off");
	wrig_start(&r[0], "sleep 100 & setsid sleep 100 & wait");
	wrig_for_ms(50);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	while (n < 64 && (fill[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	for (tries = 0; tries < 10; tries++) {
		int free_fds = tries;

		for (i = 0; i < free_fds; i++)
			close(fill[n - 1 - i]);
		why[0] = '\0';
		if (wrig_try_argv(&probe, argv, why, sizeof why) == 0) {
			started++;
			rec_kill(&probe);
			rec_free(&probe);
		} else {
			ck_assert_ptr_nonnull(strstr(why, "Too many open files"));
		}
		for (i = free_fds; i > 0; i--)
			fill[n - i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fill[n - 1], 0);
		before = open("/dev/null", O_RDONLY); /* not one more and not one less than before */
		ck_assert_int_eq(before, -1);
	}
	ck_assert_int_gt(started, 0);
	ck_assert_int_lt(started, 10);
	rec_kill(&r[0]);
	rec_free(&r[0]);
	for (i = 0; i < n; i++)
		close(fill[i]);
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("worker_start");
	TCase *t = tcase_create("start");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, a_worker_starts_with_nothing_of_the_daemon_in_it);
	tcase_add_test(t, without_stdin_a_worker_reads_an_empty_one);
	tcase_add_test(t, a_worker_dies_with_the_daemon);
	tcase_add_test(t, program_that_cannot_be_executed_is_told_and_leaves_nothing);
	tcase_add_test(t, the_program_is_searched_in_the_path_that_it_is_given);
	tcase_add_test(t, start_without_descriptors_fails_and_workers_can_be_ended);
	return s;
}

int main(int argc, char **argv)
{
	static const struct wrig_helper none[] = {{NULL, NULL}};

	return wrig_main(argc, argv, none, make_suite);
}
