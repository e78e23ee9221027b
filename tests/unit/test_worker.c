/* test_worker.c: starting, feeding, reading and reaping real processes. How trees die: test_proctree.c. */
#include "worker_rig.h"

#include <malloc.h>

/* --- reading --- */

START_TEST(lines_of_both_streams_come_whole_and_the_last_needs_no_newline)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "printf 'par'; sleep 0.05; printf 'ted\\na\\0b\\n'; echo wrong >&2; printf 'no newline'");
	rig_until(r.gone);
	ck_assert_mem_eq(r.text[0].data, "parted\na\0b\nno newline\n", r.text[0].size);
	ck_assert_str_eq(rec_text(&r, WORKER_STDERR), "wrong\n");
	ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(a_line_over_the_limit_is_told_and_the_next_is_fine)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo fine; head -c 4194304 /dev/zero | tr '\\0' y; echo");
	r.quiet = true;
	rig_until(r.gone);
	ck_assert_uint_eq(r.lines[0], 3);
	ck_assert_uint_eq(r.too_long, 1);
	ck_assert_uint_eq(r.bytes[0], 1024 + 1 + 5 + 4194304 + 1);
	rec_free(&r);
	rig_end();
}
END_TEST

static struct rec *answering;
static int answers;

static void on_answer(struct rec *r, const char *line, size_t size)
{
	(void)line, (void)size;
	answering = r;
	answers++;
}

START_TEST(a_flooding_worker_starves_nobody)
{
	struct rec loud[4], calm;
	size_t turns;
	int i;

	rig_begin("off");
	for (i = 0; i < 4; i++) {
		rig_start(&loud[i], "exec yes 'much ado about nothing'");
		loud[i].quiet = true;
	}
	rig_until(loud[3].lines[0] > 1000);
	rig_start(&calm, "exec cat");
	calm.on_line = on_answer;
	for (i = 0; i < 50; i++) {
		int before = answers;

		turns = rig.turns;
		worker_write(calm.w, "hello\n", 6);
		rig_until(answers > before);
		/* cat must be scheduled, too: the bound is on what the loop did meanwhile */
		ck_assert_uint_lt(rig.turns - turns, 2000);
	}
	ck_assert_uint_le(rig.turn_bytes_max, 5 * (65536 + 100));
	for (i = 0; i < 4; i++) {
		rec_kill(&loud[i]);
		rec_free(&loud[i]);
	}
	worker_close_stdin(calm.w);
	rig_until(calm.gone);
	rec_free(&calm);
	rig_end();
}
END_TEST

#define MANY 120

START_TEST(a_turn_reads_a_bounded_amount_and_everybody_gets_some)
{
	static struct rec r[MANY];
	size_t turns;
	int i;

	rig_begin("off");
	for (i = 0; i < MANY; i++) {
		rig_start(&r[i], "exec yes $(head -c 500 /dev/zero | tr '\\0' x)");
		r[i].quiet = true;
		worker_pause_reading(r[i].w, true);
	}
	rig_for_ms(1500);               /* all pipes are full now */
	for (i = 0; i < MANY; i++)
		ck_assert_uint_eq(r[i].lines[0], 0);
	for (i = 0; i < MANY; i++)
		worker_pause_reading(r[i].w, false);
	turns = rig.turns;
	while (rig.turns - turns < 3)   /* libev asks for 64 events at first, so one turn does not see all */
		ev_run(rig.loop, EVRUN_NOWAIT);
	for (i = 0; i < MANY; i++)
		ck_assert_uint_gt(r[i].lines[0], 0);
	ck_assert_uint_gt(rig.turn_bytes_max, 3u << 20);
	ck_assert_uint_le(rig.turn_bytes_max, (4u << 20) + MANY * 8192);
	for (i = 0; i < MANY; i++)
		worker_end(r[i].w, 0, 0);
	for (i = 0; i < MANY; i++) {
		rig_until(r[i].gone);
		rec_free(&r[i]);
	}
	rig_end();
}
END_TEST

START_TEST(a_turn_has_a_bounded_number_of_lines_however_short)
{
	static struct rec r[40];
	size_t all = 0;
	int i;

	rig_begin("off");
	for (i = 0; i < 40; i++) {
		rig_start(&r[i], "yes '' | head -n 30000; printf end");
		r[i].quiet = true;
	}
	for (i = 0; i < 40; i++) {
		rig_until(r[i].gone);
		ck_assert_uint_eq(r[i].lines[0], 30001);       /* none is lost, the last is not forgotten */
		all += r[i].lines[0];
		rec_free(&r[i]);
	}
	ck_assert_uint_gt(all, 1000000);
	/* 16,384, and 16 for everyone who comes after those are used up */
	ck_assert_uint_le(rig.turn_lines_max, 16384 + 40 * 16 + 40);
	ck_assert_uint_gt(rig.turn_lines_max, 4000);
	rig_end();
}
END_TEST

START_TEST(lines_that_were_read_wait_for_the_release_and_for_the_end_of_a_pause)
{
	struct rec r;
	size_t n;

	rig_begin("off");
	rig_start(&r, "yes '' | head -n 30000; echo said >&2; read x; echo end");      /* all of it fits into the pipe */
	r.quiet = true;
	worker_pause_reading(r.w, true);
	rig_for_ms(500);
	worker_pause_reading(r.w, false);
	while (!r.lines[0])
		ev_run(rig.loop, EVRUN_NOWAIT);
	ck_assert_uint_lt(r.lines[0], 5000);
	workers_hold(rig.ws, true);
	rig.held = true;
	n = r.lines[0];
	rig_for_ms(100);                /* the callbacks assert that they are not called */
	worker_pause_reading(r.w, true);
	rig.held = false;
	workers_hold(rig.ws, false);
	rig_for_ms(100);
	ck_assert_uint_eq(r.lines[0], n);
	worker_pause_reading(r.w, false);
	rig_until(r.lines[0] == 30000);
	worker_write(r.w, "\n", 1);
	rig_until(r.gone);
	ck_assert_uint_eq(r.lines[0], 30001);
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(an_unfinished_line_that_does_not_go_on_starves_nobody)
{
	struct rec hog, calm;

	rig_begin("off");
	workers_free(rig.ws);
	rig.config.max_lines_total = 1 << 20;
	rig.ws = workers_new(rig.loop, &rig.timers, &rig.config, RIG_INSTANCE, &rig_ops);
	rig_start(&hog, "head -c 2000000 /dev/zero | tr '\\0' x; read x; echo; echo back");
	hog.quiet = true;
	rig_for_ms(500);
	rig_start(&calm, "head -c 100000 /dev/zero | tr '\\0' y; echo; echo end");
	calm.quiet = true;
	rig_until(calm.gone);
	ck_assert_uint_eq(calm.lines[0], 2);
	ck_assert_uint_eq(calm.bytes[0], 100001 + 4);
	ck_assert_uint_eq(hog.too_long, 1);
	ck_assert_uint_eq(hog.lines[0], 1);
	worker_write(hog.w, "\n", 1);
	rig_until(hog.gone);
	ck_assert_uint_eq(hog.lines[0], 2);     /* and the next line is fine */
	rec_free(&hog);
	rec_free(&calm);
	rig_end();
}
END_TEST

START_TEST(long_lines_over_the_common_limit_all_come_one_after_the_other)
{
	struct rec r[6];
	int i;

	rig_begin("off");
	workers_free(rig.ws);
	rig.config.max_lines_total = 1 << 20;
	rig.ws = workers_new(rig.loop, &rig.timers, &rig.config, RIG_INSTANCE, &rig_ops);
	for (i = 0; i < 6; i++) {
		rig_start(&r[i], "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end");
		r[i].quiet = true;
	}
	for (i = 0; i < 6; i++) {
		rig_until(r[i].gone);
		ck_assert_uint_eq(r[i].lines[0], 2);
		ck_assert_uint_eq(r[i].bytes[0], 3000001 + 4);
		rec_free(&r[i]);
	}
	rig_end();
}
END_TEST

START_TEST(a_closed_stdout_is_an_end_of_file_and_no_end)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "exec 1>&-; read x; echo late >&2; exit 3");
	rig_until(r.eof[0]);
	ck_assert_int_eq(r.exits, 0);
	worker_write(r.w, "go\n", 3);
	rig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDERR), "late\n");
	ck_assert_int_eq(WEXITSTATUS(r.status), 3);
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(a_paused_worker_is_read_out_once_nobody_of_its_is_left)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "echo one; echo two >&2; exec 2>&-; sleep 50 & yes '' | head -n 30000; exit");
	worker_pause_reading(r.w, true);
	rig_until(r.exits);
	rig_for_ms(300);
	ck_assert_int_eq(r.gone, 0);            /* somebody lives: the pause holds */
	ck_assert_uint_eq(r.lines[0] + r.lines[1], 0);
	rec_kill(&r);                           /* and nobody unpauses it */
	ck_assert_uint_eq(r.lines[0], 30001);
	ck_assert_str_eq(rec_text(&r, WORKER_STDERR), "two\n");
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(a_flooded_and_paused_worker_is_gone_after_its_kill)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "exec yes 'much ado about nothing'");
	r.quiet = true;
	worker_pause_reading(r.w, true);
	rig_for_ms(200);
	ck_assert_uint_eq(r.lines[0], 0);
	rec_kill(&r);
	ck_assert_uint_gt(r.lines[0], 1000);
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(a_pipe_that_a_stranger_holds_is_given_up)
{
	struct rec r;
	char path[64];
	int64_t at;
	int fd;

	rig_begin("off");
	rig_start(&r, "echo ready; read x; printf rest");
	rig_until(r.lines[0] == 1);
	snprintf(path, sizeof path, "/proc/%d/fd/1", worker_pid(r.w));
	fd = open(path, O_WRONLY | O_CLOEXEC);          /* we are the stranger */
	ck_assert_int_ge(fd, 0);
	worker_write(r.w, "x\n", 2);
	rig_until(r.exits);
	at = clock_boot_us();
	rig_until(r.gone);
	ck_assert_int_ge(clock_boot_us() - at, SECOND / 2);
	ck_assert_int_lt(clock_boot_us() - at, 4 * SECOND);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "ready\nrest\n");
	close(fd);
	rec_free(&r);
	rig_end();
}
END_TEST

/* --- writing --- */

START_TEST(a_large_line_goes_through_a_worker_and_back)
{
	size_t size = 3000000, i;
	char *big = malloc(size);
	struct rec r;

	rig_begin("off");
	rig_start(&r, "exec cat");
	for (i = 0; i < size; i++)
		big[i] = (char)('a' + i % 23);
	big[size - 1] = '\n';
	worker_write(r.w, big, size);
	ck_assert_uint_gt(worker_unwritten(r.w), 0);
	worker_write(r.w, "short\n", 6);
	worker_close_stdin(r.w);
	ck_assert(!worker_has_stdin(r.w));
	rig_until(r.gone);
	ck_assert_uint_eq(r.lines[0], 2);
	ck_assert_mem_eq(r.text[0].data, big, size);
	ck_assert_mem_eq(r.text[0].data + size, "short\n", 6);
	rec_free(&r);
	free(big);
	rig_end();
}
END_TEST

START_TEST(a_stdin_that_nobody_reads_blocks_nobody)
{
	char *big = calloc(1, 1 << 20);
	struct rec r;
	int64_t at = clock_boot_us();
	int i;

	rig_begin("off");
	rig_start(&r, "exec sleep 100");
	for (i = 0; i < 10; i++)
		worker_write(r.w, big, 1 << 20);
	ck_assert_uint_ge(worker_unwritten(r.w), 9 << 20);
	rig_for_ms(50);
	ck_assert_int_lt(clock_boot_us() - at, 5 * SECOND);
	rec_kill(&r);
	ck_assert_uint_eq(worker_unwritten(r.w), 0);
	rec_free(&r);
	free(big);
	rig_end();
}
END_TEST

START_TEST(writing_to_a_worker_that_closed_its_stdin_is_ignored)
{
	char *big = calloc(1, 1 << 20);
	struct rec r;

	rig_begin("off");
	rig_start(&r, "exec 0<&-; echo closed; exec sleep 100");
	rig_until(r.lines[0] == 1);
	worker_write(r.w, big, 1 << 20);
	ck_assert(!worker_has_stdin(r.w));
	ck_assert_uint_eq(worker_unwritten(r.w), 0);
	worker_write(r.w, "x", 1);
	rec_kill(&r);
	rec_free(&r);
	free(big);
	rig_end();
}
END_TEST

/* --- what a worker is given --- */

START_TEST(a_worker_starts_with_nothing_of_the_daemon_in_it)
{
	static const char script[] = "pwd; umask; ulimit -S -n; echo $(ls /proc/self/fd | wc -l); "
		"grep -E 'Sig(Blk|Ign):' /proc/self/status; cut -d' ' -f5 /proc/$$/stat; echo $$; "
		"env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL= | wc -l";
	struct rec r;
	sigset_t some;
	char *line;
	int leak, i;

	rig_begin("off");
	leak = open("/dev/null", O_RDONLY);             /* a library's, without O_CLOEXEC */
	ck_assert_int_ge(leak, 3);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, NULL);
	signal(SIGINT, SIG_IGN);
	umask(0);
	rig_start(&r, script);
	rig_until(r.gone);
	line = strtok(xstrdup(rec_text(&r, WORKER_STDOUT)), "\n");
	ck_assert_str_eq(line, "/tmp");
	ck_assert_str_eq(strtok(NULL, "\n"), "0077");
	ck_assert_int_le(atoi(strtok(NULL, "\n")), 1024);
	ck_assert_str_eq(strtok(NULL, "\n"), "4");      /* 0, 1, 2 and ls's own */
	for (i = 0; i < 2; i++)
		ck_assert_ptr_nonnull(strstr(strtok(NULL, "\n"), "0000000000000000"));
	line = strtok(NULL, "\n");
	ck_assert_str_eq(line, strtok(NULL, "\n"));     /* leads its own group */
	ck_assert_str_eq(strtok(NULL, "\n"), "3");
	close(leak);
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(without_stdin_a_worker_reads_an_empty_one)
{
	char sh[] = "sh", c[] = "-c", s[] = "cat; readlink /proc/self/fd/0", *argv[] = {sh, c, s, NULL}, why[256];
	struct rec r = {0};
	struct worker_spec spec = {.argv = argv, .env = rig_env, .workdir = "/", .owner = &r};

	rig_begin("off");
	ck_assert_int_eq(worker_start(rig.ws, &spec, &r.w, why, sizeof why), 0);
	ck_assert(!worker_has_stdin(r.w));
	worker_write(r.w, "x", 1);
	worker_close_stdin(r.w);
	rig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "/dev/null\n");
	rec_free(&r);
	rig_end();
}
END_TEST

/* As the daemon of an earlier life would end: without a chance to do anything. */
START_TEST(a_worker_dies_with_the_daemon)
{
	int tell[2], pid, worker = 0, status;
	int64_t until;

	ck_assert_int_eq(pipe(tell), 0);
	pid = fork();
	if (pid == 0) {
		struct rec r;

		rig_begin("off");
		rig_start(&r, "exec sleep 100");
		worker = worker_pid(r.w);
		if (write(tell[1], &worker, sizeof worker) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	ck_assert_int_eq(read(tell[0], &worker, sizeof worker), sizeof worker);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	for (until = clock_boot_us() + 5 * SECOND; is_alive(worker) && clock_boot_us() < until;)
		usleep(1000);
	ck_assert(!is_alive(worker));
}
END_TEST

/* --- what goes wrong --- */

static void expect_why(char *const *argv, const char *workdir, const char *expected)
{
	struct rec r = {0};
	struct worker_spec spec = {.argv = argv, .env = rig_env, .workdir = workdir, .owner = &r};
	char why[512] = "";

	ck_assert_int_eq(worker_start(rig.ws, &spec, &r.w, why, sizeof why), -1);
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

START_TEST(what_cannot_be_executed_is_told_at_once_and_leaves_nothing)
{
	char none[] = "/x/y", bare[] = "no-such-program-here", dir[] = "/tmp", *argv[] = {none, NULL};
	char empty[] = "";
	int before;

	rig_begin("off");
	before = count_fds();
	expect_why(argv, "/", "cannot execute /x/y: No such file or directory");
	argv[0] = bare;
	expect_why(argv, "/", "cannot execute no-such-program-here: not found in PATH");
	argv[0] = dir;
	expect_why(argv, "/", "cannot execute /tmp: Permission denied");
	argv[0] = empty;
	expect_why(argv, "/", "cannot execute: the command is empty");
	argv[0] = bare;
	expect_why(argv, "/no/where", "cannot enter the working directory /no/where: No such file or directory");
	expect_file_why("#!/no/such/python -u\nprint(1)\n", 0700, "its interpreter /no/such/python is missing");
	expect_file_why("#!/bin/sh\n", 0600, "Permission denied");
	expect_file_why("neither script nor program", 0700, "Exec format error");
	ck_assert_int_eq(count_fds(), before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	rig_end();
}
END_TEST

START_TEST(the_program_is_searched_in_the_path_that_it_is_given)
{
	char dir[] = "/tmp/hcpd-path-XXXXXX", path[128], prog[] = "hcpd-test-prog", *argv[] = {prog, NULL};
	char env_path[256], *env[] = {env_path, NULL}, why[256];
	struct rec r = {0};
	struct worker_spec spec = {.argv = argv, .env = env, .workdir = dir, .owner = &r};
	char *script = make_file("#!/bin/sh\necho found\n", 0700);

	rig_begin("off");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/%s", dir, prog);
	ck_assert_int_eq(rename(script, path), 0);
	snprintf(env_path, sizeof env_path, "PATH=::/nonexistent:");
	ck_assert_int_eq(worker_start(rig.ws, &spec, &r.w, why, sizeof why), -1);       /* not the working directory */
	snprintf(env_path, sizeof env_path, "PATH=:/nonexistent:/etc/passwd:%s:/bin", dir);
	ck_assert_msg(worker_start(rig.ws, &spec, &r.w, why, sizeof why) == 0, "%s", why);
	rig_until(r.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "found\n");
	unlink(path);
	rmdir(dir);
	free(script);
	rec_free(&r);
	rig_end();
}
END_TEST

/* At every number of free descriptors it either works or says why, and leaks nothing. */
START_TEST(without_descriptors_a_start_fails_cleanly_and_workers_can_still_be_ended)
{
	struct rlimit lim = {64, 64};
	int fill[64], n = 0, i, before, tries, started = 0;
	char sh[] = "sleep", a[] = "100", *argv[] = {sh, a, NULL}, why[256];
	struct rec r[2], probe;

	rig_begin("off");
	rig_start(&r[0], "sleep 100 & setsid sleep 100 & wait");
	rig_for_ms(50);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	while (n < 64 && (fill[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	for (tries = 0; tries < 10; tries++) {
		int free_fds = tries;

		for (i = 0; i < free_fds; i++)
			close(fill[n - 1 - i]);
		why[0] = '\0';
		if (rig_try_argv(&probe, argv, why, sizeof why) == 0) {
			started++;
			rec_kill(&probe);
			rec_free(&probe);
		} else {
			ck_assert_ptr_nonnull(strstr(why, "Too many open files"));
		}
		for (i = free_fds; i > 0; i--)
			fill[n - i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fill[n - 1], 0);
		before = open("/dev/null", O_RDONLY);   /* not one more and not one less than before */
		ck_assert_int_eq(before, -1);
	}
	ck_assert_int_gt(started, 0);
	ck_assert_int_lt(started, 10);
	rec_kill(&r[0]);
	rec_free(&r[0]);
	for (i = 0; i < n; i++)
		close(fill[i]);
	rig_end();
}
END_TEST

/* --- holding, many --- */

START_TEST(while_held_nothing_is_said_and_afterwards_everything)
{
	struct rec r, other;

	rig_begin("off");
	rig_start(&r, "read x; echo heard $x");
	rig_start(&other, "echo other; exit 4");
	workers_hold(rig.ws, true);
	rig.held = true;
	worker_write(r.w, "you\n", 4);
	rig_for_ms(300);                /* the callbacks assert that they are not called */
	ck_assert_int_eq(r.exits + other.exits + (int)other.lines[0], 0);
	rig.held = false;
	workers_hold(rig.ws, false);
	rig_until(r.gone && other.gone);
	ck_assert_str_eq(rec_text(&r, WORKER_STDOUT), "heard you\n");
	ck_assert_int_eq(WEXITSTATUS(other.status), 4);
	rec_free(&r);
	rec_free(&other);
	rig_end();
}
END_TEST

#define CROWD 500

START_TEST(five_hundred_at_once_start_and_end_without_a_trace)
{
	static struct rec r[CROWD];
	struct rlimit lim;
	int before, i, gone = 0;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max < 4096 ? lim.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &lim);
	rig_begin("off");
	before = count_fds();
	for (i = 0; i < CROWD; i++)
		rig_start(&r[i], i % 2 ? "read x; echo $x" : "echo out; echo err >&2");
	for (i = 0; i < CROWD; i++)
		worker_write(r[i].w, "word\n", 5);
	for (i = 0; i < CROWD; i++) {
		rig_until(r[i].gone);
		ck_assert_int_eq(r[i].status, 0);
		ck_assert_str_eq(rec_text(&r[i], WORKER_STDOUT), i % 2 ? "word\n" : "out\n");
		gone += r[i].gone;
		rec_free(&r[i]);
	}
	ck_assert_int_eq(gone, CROWD);
	ck_assert_int_eq(count_fds(), before);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	rig_end();
}
END_TEST

START_TEST(an_idle_worker_costs_less_than_two_kibibytes)
{
	static struct rec r[300];
	struct rlimit lim;
	size_t before;
	int i;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max < 4096 ? lim.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &lim);
	rig_begin("off");
	rig_start(&r[0], "exec cat");
	rig_for_ms(20);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (i = 1; i < 300; i++)
		rig_start(&r[i], "exec cat");
	for (i = 0; i < 300; i++) {     /* used and idle again, not only fresh */
		r[i].quiet = true;
		worker_write(r[i].w, "a\npart", 6);
		worker_write(r[i].w, "\n", 1);
		rig_until(r[i].lines[0] == 2);
	}
	if (before) {                   /* a sanitizer's allocator does not tell */
		size_t each = (mallinfo2().uordblks + mallinfo2().hblkhd - before) / 299;

		ck_assert_msg(each < 2048, "%zu bytes a worker", each);
		printf("an idle worker costs %zu bytes\n", each);
	}
	for (i = 0; i < 300; i++)
		worker_close_stdin(r[i].w);
	for (i = 0; i < 300; i++) {
		rig_until(r[i].gone);
		rec_free(&r[i]);
	}
	rig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("worker");
	TCase *t = tcase_create("worker");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, lines_of_both_streams_come_whole_and_the_last_needs_no_newline);
	tcase_add_test(t, a_line_over_the_limit_is_told_and_the_next_is_fine);
	tcase_add_test(t, a_flooding_worker_starves_nobody);
	tcase_add_test(t, a_turn_reads_a_bounded_amount_and_everybody_gets_some);
	tcase_add_test(t, long_lines_over_the_common_limit_all_come_one_after_the_other);
	tcase_add_test(t, a_closed_stdout_is_an_end_of_file_and_no_end);
	tcase_add_test(t, a_turn_has_a_bounded_number_of_lines_however_short);
	tcase_add_test(t, lines_that_were_read_wait_for_the_release_and_for_the_end_of_a_pause);
	tcase_add_test(t, an_unfinished_line_that_does_not_go_on_starves_nobody);
	tcase_add_test(t, a_paused_worker_is_read_out_once_nobody_of_its_is_left);
	tcase_add_test(t, a_flooded_and_paused_worker_is_gone_after_its_kill);
	tcase_add_test(t, a_pipe_that_a_stranger_holds_is_given_up);
	tcase_add_test(t, a_large_line_goes_through_a_worker_and_back);
	tcase_add_test(t, a_stdin_that_nobody_reads_blocks_nobody);
	tcase_add_test(t, writing_to_a_worker_that_closed_its_stdin_is_ignored);
	tcase_add_test(t, a_worker_starts_with_nothing_of_the_daemon_in_it);
	tcase_add_test(t, without_stdin_a_worker_reads_an_empty_one);
	tcase_add_test(t, a_worker_dies_with_the_daemon);
	tcase_add_test(t, what_cannot_be_executed_is_told_at_once_and_leaves_nothing);
	tcase_add_test(t, the_program_is_searched_in_the_path_that_it_is_given);
	tcase_add_test(t, without_descriptors_a_start_fails_cleanly_and_workers_can_still_be_ended);
	tcase_add_test(t, while_held_nothing_is_said_and_afterwards_everything);
	tcase_add_test(t, five_hundred_at_once_start_and_end_without_a_trace);
	tcase_add_test(t, an_idle_worker_costs_less_than_two_kibibytes);
	return s;
}

int main(int argc, char **argv)
{
	static const struct rig_helper none[] = {{NULL, NULL}};

	return rig_main(argc, argv, none, make_suite);
}
