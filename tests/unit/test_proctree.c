/* test_proctree.c: whose process is it, and does it die? Real trees, with and without a cgroup. */
#include "worker_rig.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

#include "kin.h"
#include "proctree.h"

/* --- helpers: this program, started as a worker --- */

#define HELPER_LIFE_S 60                /* whatever a test forgets ends by itself */

static void say_pid(void)
{
	char line[32];
	int n = snprintf(line, sizeof line, "%d\n", (int)getpid());

	if (write(1, line, (size_t)n) < 0)
		_exit(1);
}

static int stay(void)
{
	while (pause() < 0)
		;
	return 0;
}

static int help_sleep(int argc, char **argv)
{
	(void)argc, (void)argv;
	alarm(HELPER_LIFE_S);
	say_pid();
	return stay();
}

/* Two processes: the child left the group and the session and wants no SIGTERM. */
static int help_setsid(int argc, char **argv)
{
	(void)argc, (void)argv;
	alarm(HELPER_LIFE_S);
	if (fork() == 0) {
		setsid();
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		return help_sleep(0, NULL);
	}
	return stay();
}

/* A daemon that sheds everything: session, parent, environment. Its parent ends at once, or ("wait") after a
 * line on stdin; the main process stays. */
static int help_daemon(int argc, char **argv)
{
	char sleeper[] = "sleep", *args[] = {rig_self, sleeper, NULL}, *env[] = {NULL}, c;
	int pid;

	(void)argc;
	alarm(HELPER_LIFE_S);
	pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			setsid();
			execve(rig_self, args, env);
			_exit(1);
		}
		if (strcmp(argv[2], "wait") == 0)
			(void)!read(0, &c, 1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	if (write(1, "orphaned\n", 9) < 0)
		return 1;
	return stay();
}

/* As ssh-agent does it: an orphan in a session of its own that may not be looked at; the main process goes on until
 * its stdin ends. */
static int help_agent(int argc, char **argv)
{
	char c;
	int pid = fork();

	(void)argc, (void)argv;
	if (pid == 0) {
		if (fork() == 0) {
			setsid();
			prctl(PR_SET_DUMPABLE, 0);
			return help_sleep(0, NULL);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

/* Orphans without end, each in a session of its own, each short-lived. */
static int help_churn(int argc, char **argv)
{
	(void)argc, (void)argv;
	alarm(HELPER_LIFE_S);
	for (;;) {
		int pid = fork();

		if (pid == 0) {
			if (fork() == 0) {
				setsid();
				usleep(3000);
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

/* As many orphans as said, and all of them end at once. */
static int help_litter(int argc, char **argv)
{
	int n = atoi(argv[2]);

	(void)argc;
	alarm(HELPER_LIFE_S);
	while (n-- > 0) {
		int pid = fork();

		if (pid == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	say_pid();
	return stay();
}

/* Doubles every 10 ms, up to 2^8, each in a session of its own. */
static int help_bomb(int argc, char **argv)
{
	int generation;

	(void)argc, (void)argv;
	alarm(HELPER_LIFE_S);
	for (generation = 0; generation < 8; generation++) {
		if (fork() == 0) {
			alarm(HELPER_LIFE_S);
			setsid();
			signal(SIGTERM, SIG_IGN);
		}
		usleep(10000);
	}
	say_pid();
	return stay();
}

/* Never twice the same pid: forks, and the parent ends. */
static int help_hop(int argc, char **argv)
{
	int64_t until = clock_boot_us() + 10 * SECOND;

	(void)argc, (void)argv;
	say_pid();
	while (clock_boot_us() < until)
		if (fork() != 0)
			_exit(0);
	return 0;
}

static void *thread_sleep(void *arg)
{
	sleep(HELPER_LIFE_S);
	return arg;
}

/* The first thread ends, the process does not. */
static int help_headless(int argc, char **argv)
{
	pthread_t t;

	(void)argc, (void)argv;
	if (pthread_create(&t, NULL, thread_sleep, NULL) != 0)
		return 1;
	say_pid();
	pthread_exit(NULL);
}

/* --- the ladder --- */

static int line_pid(struct rec *r)
{
	return atoi(rec_text(r, WORKER_STDOUT));
}

START_TEST(who_obeys_sigterm_is_not_killed)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "trap 'echo bye; exit 7' TERM; (trap 'echo child >&2; exit' TERM; echo x; while :; do sleep 0.01; done) & "
		"echo x; while :; do sleep 0.01; done");
	rig_until(r.lines[0] == 2);
	ck_assert(!worker_is_ending(r.w));
	worker_end(r.w, 0, clock_boot_us() + 15 * SECOND);
	ck_assert(worker_is_ending(r.w));
	rig_until(r.gone);
	ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 7);
	ck_assert_ptr_nonnull(strstr(rec_text(&r, WORKER_STDERR), "child\n"));
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(a_stopped_worker_notices_sigterm)
{
	struct rec r;

	rig_begin("off");
	rig_start(&r, "trap 'exit 8' TERM; echo x; kill -STOP $$; while :; do sleep 0.01; done");
	rig_until(r.lines[0] == 1);
	worker_end(r.w, 0, clock_boot_us() + 15 * SECOND);
	rig_until(r.gone);
	ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 8);
	rec_free(&r);
	rig_end();
}
END_TEST

START_TEST(ending_again_only_brings_it_forward)
{
	int64_t at = clock_boot_us();
	struct rec r;

	rig_begin("off");
	rig_start(&r, "trap '' TERM; echo x; while :; do sleep 0.01; done");
	rig_until(r.lines[0] == 1);
	worker_end(r.w, at + 100 * SECOND, at + 200 * SECOND);
	worker_end(r.w, at + 300 * SECOND, at + 300 * SECOND);
	rig_for_ms(50);
	ck_assert_int_eq(r.exits, 0);
	worker_end(r.w, 0, at + 200 * SECOND);
	rig_for_ms(100);
	ck_assert_int_eq(r.exits, 0);
	worker_end(r.w, at + 400 * SECOND, clock_boot_us() + SECOND / 10);
	rig_until(r.gone);
	ck_assert_int_lt(clock_boot_us() - at, 10 * SECOND);
	ck_assert(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
	rec_free(&r);
	rig_end();
}
END_TEST

/* Once with a main process that ends at SIGTERM: the grandchild is an orphan then. */
static void end_setsid(const char *cgroup)
{
	struct rec r;
	int pid;

	rig_begin(cgroup);
	rig_start_helper(&r, "setsid", "");
	rig_until(r.lines[0] == 1);
	pid = line_pid(&r);
	ck_assert_int_ne(pid, worker_pid(r.w));
	ck_assert(!worker_is_alone(r.w));
	worker_end(r.w, 0, clock_boot_us() + SECOND / 5);
	rig_until(r.exits);
	ck_assert_int_eq(WTERMSIG(r.status), SIGTERM);
	ck_assert(is_alive(pid));
	ck_assert_int_eq(r.gone, 0);
	rig_until(r.gone);
	ck_assert(!is_alive(pid));
	rec_free(&r);
	rig_end();
}

START_TEST(a_grandchild_that_called_setsid_and_ignores_sigterm_is_killed)
{
	end_setsid("off");
}
END_TEST

/* --- who is left --- */

START_TEST(what_a_worker_leaves_running_keeps_it_from_being_gone)
{
	struct rec r;
	int64_t at;

	rig_begin("off");
	rig_start(&r, "sleep 0.6 >/dev/null 2>&1 <&- & exit 5");
	rig_until(r.exits);
	rig_until(r.eof[0] && r.eof[1]);
	at = clock_boot_us();
	ck_assert_int_eq(r.gone, 0);
	rig_until(r.gone);
	ck_assert_int_ge(clock_boot_us() - at, SECOND / 4);
	ck_assert_int_lt(clock_boot_us() - at, 3 * SECOND);
	ck_assert_int_eq(WEXITSTATUS(r.status), 5);
	rec_free(&r);
	rig_end();
}
END_TEST

/* Adopted orphans are listed under another thread than the one that starts the workers. */
static void *leave_running(void *arg)
{
	struct rec r, other;
	int pid;

	rig_begin("off");
	rig_start(&other, "exec cat");
	rig_start(&r, "sh -c 'echo $$; exec sleep 50' & sleep 0.2; exit 5");
	rig_until(r.exits);
	pid = line_pid(&r);
	rig_for_ms(200);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(is_alive(pid));
	worker_end(r.w, 0, clock_boot_us() + SECOND);
	rig_until(r.gone);
	ck_assert(!is_alive(pid));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	rig_end();
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

	rig_begin("off");
	rig_start(&other, "exec cat");
	rig_start(&r, "echo a; read x; sleep 100 & p=$!; echo b; read x; kill $p; wait; echo c; read x; exit");
	rig_until(r.lines[0] == 1);
	ck_assert(worker_is_alone(r.w));
	worker_write(r.w, "\n", 1);
	rig_until(r.lines[0] == 2);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(other.w));
	worker_write(r.w, "\n", 1);
	rig_until(r.lines[0] == 3);
	ck_assert(worker_is_alone(r.w));
	kill(worker_pid(r.w), SIGKILL);
	usleep(50000);                  /* dead, and nobody told the loop */
	ck_assert(!worker_is_alone(r.w));
	rig_until(r.gone);
	ck_assert(!worker_is_alone(r.w));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	rig_end();
}
END_TEST

/* --- those who shed everything --- */

START_TEST(a_daemon_without_environment_is_killed_if_it_was_once_seen_as_a_descendant)
{
	struct rec r, other;
	int pid;

	rig_begin("off");
	rig_start(&other, "exec cat");          /* so that it could be either's */
	rig_start_helper(&r, "daemon", "wait");
	rig_until(r.lines[0] == 1);
	pid = line_pid(&r);
	ck_assert(!worker_is_alone(r.w));       /* a look: now it is known */
	worker_write(r.w, "x", 1);
	rig_until(r.lines[0] == 2);             /* it lost its parent */
	worker_end(r.w, 0, 0);
	rig_until(r.gone);
	ck_assert(!is_alive(pid));
	ck_assert(is_alive(worker_pid(other.w)));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	rig_end();
}
END_TEST

static int daemon_pid(struct rec *r)
{
	const char *text = rec_text(r, WORKER_STDOUT);

	return atoi(strncmp(text, "orphaned\n", 9) == 0 ? text + 9 : text);
}

START_TEST(a_daemon_that_nobody_ever_saw_dies_with_its_session_and_with_no_other)
{
	struct rec r, other;
	int pid;

	rig_begin("off");
	rig_start(&other, "exec cat");
	rig_start_helper(&r, "daemon", "now");
	rig_until(r.lines[0] == 2);
	pid = daemon_pid(&r);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(other.w));
	worker_close_stdin(other.w);
	rig_until(other.gone);
	ck_assert(is_alive(pid));
	rec_kill(&r);
	ck_assert(!is_alive(pid));
	rec_free(&r);
	rec_free(&other);
	rig_end();
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

	if (!rig_drop_root())
		return;
	rig_begin("off");
	rig_start(&older, "exec cat");
	rig_start_helper(&r, "agent", "");
	rig_start(&younger, "exec cat");
	rig_until(r.lines[0] == 1);
	pid = line_pid(&r);
	snprintf(path, sizeof path, hidden ? "/proc/%d" : "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(fd, -1);
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(older.w));
	worker_close_stdin(older.w);            /* those who end are gone at once ... */
	rig_until(older.gone);
	worker_close_stdin(r.w);
	rig_until(r.exits);
	worker_close_stdin(younger.w);
	rig_until(younger.gone);
	rig_for_ms(200);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(is_there(pid));               /* ... and hurt nobody */
	worker_end(r.w, clock_boot_us() + SECOND / 10, clock_boot_us() + 15 * SECOND);
	rig_until(r.gone);                      /* it obeys SIGTERM, like anybody */
	ck_assert(!is_there(pid));
	rec_free(&r);
	rec_free(&older);
	rec_free(&younger);
	rig_start_helper(&r, "agent", "");
	rig_until(r.lines[0] == 1);
	pid = line_pid(&r);
	rec_kill(&r);
	ck_assert(!is_there(pid));
	rec_free(&r);
	rig_end();
}

START_TEST(a_daemon_that_may_not_be_looked_at_dies_with_its_session_and_with_no_other)
{
	live_with_agent(false);
}
END_TEST

/* As under ProtectProc=invisible. Each mount has its own option since Linux 5.8, and only since then this word. */
START_TEST(a_daemon_that_is_hidden_dies_with_its_session_and_with_no_other)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("proc", "/proc", "proc", 0, "hidepid=invisible") < 0) {
		fprintf(stderr, "SKIPPED: cannot mount a /proc that hides processes: %s\n", strerror(errno));
		return;
	}
	live_with_agent(true);
}
END_TEST

START_TEST(one_whose_orphans_come_and_go_keeps_nobody_else)
{
	struct rec churn, r;
	int64_t at;
	int i;

	rig_begin("off");
	rig_start_helper(&churn, "churn", "");
	for (i = 0; i < 20; i++) {
		rig_start(&r, "exit 0");
		rig_until(r.exits);
		at = clock_boot_us();
		rig_until(r.gone);
		ck_assert_int_lt(clock_boot_us() - at, SECOND / 2);
		rec_free(&r);
	}
	rec_kill(&churn);
	rec_free(&churn);
	rig_end();
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
				stay();
			}
			(void)!write(tell[1], &orphan, sizeof orphan);
			_exit(0);
		}
		wait(NULL);
		(void)!write(tell[1], &orphan, sizeof orphan);
		stay();
	}
	rig_begin("off");
	rig_start(&r, "read x");
	rig_start(&other, "read x");
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	ck_assert_int_eq(read(tell[0], &orphan, sizeof orphan), sizeof orphan);
	ck_assert_int_eq(read(tell[0], &c, 1), 1);      /* it is an orphan now: ours */
	ck_assert(worker_is_alone(r.w));
	worker_close_stdin(r.w);
	rig_until(r.gone);
	rec_kill(&other);               /* the last that there is */
	ck_assert(is_alive(side) && is_alive(orphan));
	rec_free(&r);
	rec_free(&other);
	kill(side, SIGKILL);
	kill(orphan, SIGKILL);
	rig_end();
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

START_TEST(more_ended_children_than_one_call_takes_are_reaped_all_the_same)
{
	struct rec r;

	rig_begin("off");
	workers_hold(rig.ws, true);
	rig.held = true;
	rig_start_helper(&r, "litter", "1500");
	rig_until(count_children() == 1501);
	rig.held = false;
	workers_hold(rig.ws, false);
	workers_reap(rig.ws);
	ck_assert_int_ge(count_children(), 501);
	rig_until(count_children() == 1);
	ck_assert(worker_is_alone(r.w));
	rec_kill(&r);
	rec_free(&r);
	rig_end();
}
END_TEST

/* --- forking against the kill --- */

static void end_bomb(const char *cgroup)
{
	struct rec r, other;
	int64_t at;

	rig_begin(cgroup);
	rig_start(&other, "exec cat");
	rig_start_helper(&r, "bomb", "");
	rig_for_ms(45);                 /* while it is still doubling */
	at = clock_boot_us();
	worker_end(r.w, 0, 0);
	rig_until(r.gone);
	ck_assert_int_lt(clock_boot_us() - at, 15 * SECOND);
	ck_assert(worker_is_alone(other.w));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);       /* nobody is left */
	ck_assert_int_eq(errno, ECHILD);
	rig_end();
}

START_TEST(a_tree_that_forks_while_it_is_killed_is_killed_all_the_same)
{
	end_bomb("off");
}
END_TEST

START_TEST(many_ended_at_once_all_end)
{
	static struct rec r[60];
	int i;

	rig_begin("off");
	for (i = 0; i < 60; i++)
		rig_start(&r[i], "trap '' TERM; setsid sleep 50 & sleep 50 & echo x; wait; wait");
	for (i = 0; i < 60; i++)
		rig_until(r[i].lines[0] == 1);
	for (i = 0; i < 60; i++)
		worker_end(r[i].w, 0, clock_boot_us() + SECOND / 10);
	for (i = 0; i < 60; i++) {
		rig_until(r[i].gone);
		rec_free(&r[i]);
	}
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	rig_end();
}
END_TEST

/* --- found by the mark alone --- */

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
			char sh[] = "sh", c[] = "-c", script[] = "read x; sleep 50 >/dev/null 2>&1 & echo $!; exec sleep 50";
			char *argv[] = {sh, c, script, NULL};

			dup2(go[0], 0);
			dup2(tell[1], 1);
			close(go[1]);
			close(tell[0]);
			alarm(HELPER_LIFE_S);
			execve("/bin/sh", argv, rig_env);
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

START_TEST(a_process_that_somebody_else_started_is_found_by_its_mark)
{
	int pid_fd, go = start_foreign(&pid_fd), pid;
	char text[32] = "";
	struct rec r;

	rig_begin("off");
	usleep(50000);                  /* start times are counted in hundredths */
	rig_start(&r, "exec sleep 50");
	ck_assert_int_eq(write(go, "\n", 1), 1);
	ck_assert_int_gt(read(pid_fd, text, sizeof text - 1), 0);
	pid = atoi(text);
	usleep(50000);
	ck_assert(is_alive(pid));
	rec_kill(&r);
	ck_assert(!is_alive(pid));
	rec_free(&r);
	rig_end();
	rig_begin("off");               /* the starter itself is older than the worker; it has our instance, though */
	ck_assert_int_eq(workers_kill_leftovers(rig.ws), 1);
	rig_end();
	close(go);
	close(pid_fd);
}
END_TEST

/* The worker ends by itself. It may not be gone before what was started on its behalf is. */
START_TEST(what_somebody_else_started_for_a_worker_may_not_outlive_it)
{
	int pid_fd, go = start_foreign(&pid_fd), pid;
	char text[32] = "";
	struct rec r;

	rig_begin("off");
	usleep(50000);                  /* start times are counted in hundredths */
	rig_start(&r, _i ? "echo ready; read x; sleep 2.5" : "echo ready; read x");
	rig_until(r.lines[0] == 1);
	ck_assert_int_eq(write(go, "\n", 1), 1);
	ck_assert_int_gt(read(pid_fd, text, sizeof text - 1), 0);
	pid = atoi(text);
	rig_until(has_executed(pid));
	worker_close_stdin(r.w);
	rig_until(r.exits);
	rig_for_ms(300);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(is_alive(pid));
	rec_kill(&r);
	ck_assert(!is_alive(pid));
	rec_free(&r);
	rig_end();
	rig_begin("off");
	ck_assert_int_eq(workers_kill_leftovers(rig.ws), 1);
	rig_end();
	close(go);
	close(pid_fd);
}
END_TEST

static int start_bare(const char *var)
{
	char *v = xstrdup(var), *env[] = {v, NULL}, name[] = "sleep", *argv[] = {rig_self, name, NULL};
	int pid = fork();

	if (pid == 0) {
		int fd = open("/dev/null", O_RDWR);

		dup2(fd, 1);
		execve(rig_self, argv, env);
		_exit(1);
	}
	free(v);
	return pid;
}

START_TEST(leftovers_are_killed_by_exactly_their_instance)
{
	static const char *const before[] = {"", "X", "OTHER="}, *const after[] = {"x", "", ""};
	int ours[3], not_ours[3], i;
	char var[128];

	rig_begin("off");
	for (i = 0; i < 3; i++) {
		ours[i] = start_bare(rig_instance_var);
		snprintf(var, sizeof var, "%s%s%s", before[i], rig_instance_var, after[i]);
		not_ours[i] = start_bare(var);
	}
	for (i = 0; i < 3; i++)
		rig_until(has_executed(ours[i]) && has_executed(not_ours[i]));
	setenv("HCP_INSTANCE", RIG_INSTANCE, 1);        /* never ourselves */
	ck_assert_int_eq(workers_kill_leftovers(rig.ws), 3);
	for (i = 0; i < 3; i++) {
		ck_assert(!is_alive(ours[i]));
		ck_assert(is_alive(not_ours[i]));
		kill(not_ours[i], SIGKILL);
	}
	ck_assert_int_eq(workers_kill_leftovers(rig.ws), 0);
	rig_end();
}
END_TEST

START_TEST(a_leftovers_child_without_environment_is_killed_with_it)
{
	char name[] = "daemon", how[] = "wait", *argv[] = {rig_self, name, how, NULL};
	int hold[2], out[2], pid;
	char text[64] = "";

	rig_begin("off");
	ck_assert_int_eq(pipe(hold) | pipe(out), 0);
	if (fork() == 0) {
		dup2(hold[0], 0);
		dup2(out[1], 1);
		close(hold[1]);
		execve(rig_self, argv, rig_env);
		_exit(1);
	}
	ck_assert_int_gt(read(out[0], text, sizeof text - 1), 0);
	pid = atoi(text);
	ck_assert(is_alive(pid));
	ck_assert_int_eq(workers_kill_leftovers(rig.ws), 3);
	ck_assert(!is_alive(pid));
	rig_end();
}
END_TEST

/* A previous life's, without any environment, in a session of its own, known by its tag alone. */
START_TEST(a_leftover_without_environment_is_killed_by_its_tag)
{
	int tell[2], pid = 0, status, first;

	ck_assert_int_eq(pipe(tell), 0);
	first = fork();
	if (first == 0) {
		struct rec r;

		rig_begin("off");
		prctl(PR_SET_CHILD_SUBREAPER, 0);
		rig_start_helper(&r, "daemon", "now");
		rig_until(r.lines[0] == 2);
		pid = daemon_pid(&r);
		(void)!write(tell[1], &pid, sizeof pid);
		raise(SIGKILL);
	}
	ck_assert_int_eq(read(tell[0], &pid, sizeof pid), sizeof pid);
	ck_assert_int_eq(waitpid(first, &status, 0), first);
	ck_assert(is_alive(pid));
	rig_begin("off");
	ck_assert_int_ge(workers_kill_leftovers(rig.ws), 1);
	ck_assert(!is_alive(pid));
	rig_end();
}
END_TEST

/* --- with a cgroup --- */

static int count_groups(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)) != NULL)
		n += strncmp(e->d_name, "hcpd-", 5) == 0;
	closedir(d);
	return n;
}

START_TEST(in_a_cgroup_the_ladder_is_the_same)
{
	char *dir = rig_make_cgroup();

	if (!dir)
		return;
	end_setsid(dir);
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(in_a_cgroup_a_daemon_that_nobody_ever_saw_is_killed)
{
	char *dir = rig_make_cgroup();
	struct rec r, other;
	int pid;

	if (!dir)
		return;
	rig_begin(dir);
	rig_start(&other, "exec cat");
	ck_assert_int_eq(count_groups(dir), 1);
	rig_start_helper(&r, "daemon", "now");
	rig_until(r.lines[0] == 2);
	pid = daemon_pid(&r);
	ck_assert(is_alive(pid));
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(other.w));
	rec_kill(&r);
	ck_assert(!is_alive(pid));
	ck_assert_int_eq(count_groups(dir), 1);
	rec_kill(&other);
	ck_assert_int_eq(count_groups(dir), 0);
	rec_free(&r);
	rec_free(&other);
	rig_end();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(in_a_cgroup_a_bomb_and_a_hopper_end)
{
	char *dir = rig_make_cgroup();
	struct rec r;

	if (!dir)
		return;
	end_bomb(dir);
	rig_begin(dir);
	rig_start_helper(&r, "hop", "");
	rig_until(r.exits);
	rig_for_ms(100);
	ck_assert_int_eq(r.gone, 0);
	rec_kill(&r);
	rec_free(&r);
	rig_end();
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(groups_of_an_earlier_life_are_emptied_and_removed)
{
	char *dir = rig_make_cgroup(), path[700], text[32];
	int pid, fd;

	if (!dir)
		return;
	snprintf(path, sizeof path, "%s/hcpd-%.8s-77", dir, RIG_INSTANCE);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	strcat(path, "/inner");         /* a worker may make groups of its own */
	ck_assert_int_eq(mkdir(path, 0755), 0);
	pid = start_bare("NOTHING=1");
	strcat(path, "/cgroup.procs");
	fd = open(path, O_WRONLY);
	snprintf(text, sizeof text, "%d", pid);
	ck_assert_int_gt(write(fd, text, strlen(text)), 0);
	close(fd);
	snprintf(path, sizeof path, "%s/hcpd-deadbeef-1", dir);         /* another instance's */
	ck_assert_int_eq(mkdir(path, 0755), 0);
	rig_begin(dir);
	ck_assert_int_eq(workers_kill_leftovers(rig.ws), 1);
	ck_assert(!is_alive(pid));
	ck_assert_int_eq(count_groups(dir), 1);
	ck_assert_int_eq(rmdir(path), 0);
	rig_end();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Moving into a group needs a right on the group that both are in. */
START_TEST(a_refused_cgroup_costs_one_worker_its_own_and_nobody_else)
{
	char *dir = getuid() == 0 ? rig_make_cgroup() : NULL;
	struct rec r, refused, later;
	int pid;

	if (!dir)
		return;
	rig_begin(dir);
	rig_start_helper(&r, "daemon", "now");
	rig_until(r.lines[0] == 2);
	pid = daemon_pid(&r);
	ck_assert_int_eq(chown(dir, 65534, -1u) | seteuid(65534), 0);
	rig_start(&refused, "exec cat");
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(count_groups(dir), 1);
	rig_start(&later, "exec cat");
	ck_assert_int_eq(count_groups(dir), 2);
	rec_kill(&r);
	ck_assert(!is_alive(pid));
	ck_assert_int_eq(count_groups(dir), 1);
	worker_close_stdin(refused.w);
	rig_until(refused.gone);
	rec_kill(&later);
	rec_free(&r);
	rec_free(&refused);
	rec_free(&later);
	rig_end();
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(a_group_that_a_worker_made_stays_while_it_lives)
{
	char *dir = rig_make_cgroup(), path[700];
	struct rec r;

	if (!dir)
		return;
	rig_begin(dir);
	rig_start(&r, "exec cat");
	snprintf(path, sizeof path, "%s/hcpd-%.8s-1/inner", dir, RIG_INSTANCE);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	ck_assert(worker_is_alone(r.w));
	ck_assert_int_eq(access(path, F_OK), 0);
	rec_kill(&r);
	rec_free(&r);
	ck_assert_int_eq(count_groups(dir), 0);
	rig_end();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static int fill[64], filled;

/* Whatever was closed meanwhile is taken, too. */
static bool fill_fds(void)
{
	while (filled < 64 && (fill[filled] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		filled++;
	return true;
}

START_TEST(without_descriptors_a_worker_in_a_cgroup_ends_all_the_same)
{
	char *dir = rig_make_cgroup();
	struct rlimit lim = {64, 64};
	struct rec r, other;

	if (!dir)
		return;
	rig_begin(dir);
	rig_start_helper(&r, "daemon", "now");
	rig_start(&other, "exec 1>&- 2>&-; exec cat");
	rig_until(r.lines[0] == 2 && other.eof[0] && other.eof[1]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	worker_close_stdin(other.w);
	rig_until(fill_fds() && other.gone);
	worker_end(r.w, 0, 0);
	rig_until(fill_fds() && r.gone);
	while (filled > 0)
		close(fill[--filled]);
	rec_free(&r);
	rec_free(&other);
	rig_end();
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(a_cgroup_setting_that_cannot_be_used_is_no_obstacle)
{
	struct rec r;

	rig_begin("/tmp");
	rig_start(&r, "echo x");
	rig_until(r.gone);
	rec_free(&r);
	rig_end();
	rig_begin("auto");
	rig_start(&r, "echo x");
	rig_until(r.gone);
	rec_free(&r);
	rig_end();
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
START_TEST(what_will_not_die_is_told_once_and_waited_for)
{
	char dir[128], path[200], text[32];
	struct rec r;

	snprintf(dir, sizeof dir, FREEZER "/hcpd-unit-%d", (int)getpid());
	if (mkdir(dir, 0755) < 0) {
		fprintf(stderr, "SKIPPED: no freezer of cgroup version 1 that we may write to\n");
		return;
	}
	rig_begin("off");
	rig_start(&r, "exec sleep 100");
	snprintf(path, sizeof path, "%s/cgroup.procs", dir);
	snprintf(text, sizeof text, "%d", worker_pid(r.w));
	ck_assert(put_text(path, text));
	snprintf(path, sizeof path, "%s/freezer.state", dir);
	ck_assert(put_text(path, "FROZEN"));
	worker_end(r.w, 0, 0);
	rig_until(r.stuck);
	ck_assert_int_eq(r.stuck_pid, worker_pid(r.w));
	rig_for_ms(1200);
	ck_assert_int_eq(r.stuck, 1);
	ck_assert_int_eq(r.gone, 0);
	ck_assert(put_text(path, "THAWED"));
	rig_until(r.gone);
	ck_assert_int_eq(rmdir(dir), 0);
	rec_free(&r);
	rig_end();
}
END_TEST

/* --- the leaf --- */

START_TEST(a_signal_goes_to_exactly_the_process_that_is_meant)
{
	struct proctree t;
	struct proc p, *found;
	int pid = start_bare("X=1"), fd;
	struct pollfd pfd;

	ck_assert_int_eq(proctree_init(&t), 0);
	ck_assert(proctree_look(&t, pid, &p));
	ck_assert_int_eq(p.ppid, getpid());
	ck_assert_uint_le(p.start, proctree_now());
	ck_assert_int_eq(proctree_signal(&t, pid, p.start - 1, SIGKILL), -1);
	ck_assert_int_eq(errno, ESRCH);
	ck_assert_int_eq(proctree_signal(&t, getpid(), 0, SIGKILL), -1);
	ck_assert_int_eq(proctree_walk(&t), 0);
	found = proctree_find(&t, pid);
	ck_assert_ptr_nonnull(found);
	ck_assert_ptr_eq(proctree_parent(&t, found), proctree_find(&t, getpid()));
	fd = proctree_open(&t, pid, p.start);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(proctree_signal(&t, pid, p.start, SIGKILL), 0);
	pfd = (struct pollfd){.fd = fd, .events = POLLIN};
	ck_assert_int_eq(poll(&pfd, 1, 5000), 1);
	ck_assert(proctree_look(&t, pid, &p));
	ck_assert(p.dead);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert(!proctree_look(&t, pid, &p));
	close(fd);
	proctree_fini(&t);
}
END_TEST

START_TEST(a_tag_is_inherited_and_can_be_read_of_those_whose_limits_may_not_be_asked_for)
{
	uint64_t tag = 0x123456789abcde;
	struct rlimit lim;
	struct proctree t;
	int pid, status;

	ck_assert_int_eq(getrlimit(RLIMIT_LOCKS, &lim), 0);
	lim.rlim_cur = tag;
	ck_assert_int_eq(setrlimit(RLIMIT_LOCKS, &lim), 0);
	pid = start_bare("X=1");
	lim.rlim_cur = lim.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_LOCKS, &lim), 0);
	ck_assert_int_eq(proctree_init(&t), 0);
	ck_assert_uint_eq(proctree_tag(&t, pid), tag);
	ck_assert_uint_ne(proctree_tag(&t, getpid()), tag);
	if (getuid() == 0 && fork() == 0) {     /* another user's: the kernel refuses to say */
		if (setgid(65534) < 0 || setuid(65534) < 0 || prlimit(pid, RLIMIT_LOCKS, NULL, &lim) == 0)
			_exit(2);
		_exit(proctree_tag(&t, pid) != tag);
	}
	if (getuid() == 0) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_uint_eq(proctree_tag(&t, pid), 0);
	proctree_fini(&t);
}
END_TEST

START_TEST(a_process_whose_first_thread_ended_is_alive)
{
	struct rec r;
	struct proctree t;
	struct proc p;
	int64_t until = clock_boot_us() + 5 * SECOND;
	char path[64], text[512], *at;
	int fd;
	ssize_t n;

	rig_begin("off");
	rig_start_helper(&r, "headless", "");
	rig_until(r.lines[0] == 1);
	ck_assert_int_eq(proctree_init(&t), 0);
	snprintf(path, sizeof path, "/proc/%d/stat", worker_pid(r.w));
	do {
		fd = open(path, O_RDONLY);
		n = read(fd, text, sizeof text - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
		at = strrchr(text, ')');
	} while (at && at[2] != 'Z' && clock_boot_us() < until);
	ck_assert(at && at[2] == 'Z');
	ck_assert(proctree_look(&t, worker_pid(r.w), &p));
	ck_assert(!p.dead);
	proctree_fini(&t);
	rec_kill(&r);
	ck_assert_int_eq(WTERMSIG(r.status), SIGKILL);
	rec_free(&r);
	rig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("proctree");
	TCase *t = tcase_create("tree"), *c = tcase_create("cgroup"), *slow = tcase_create("slow");

	suite_add_tcase(s, t);
	suite_add_tcase(s, c);
	suite_add_tcase(s, slow);
	tcase_set_timeout(t, 60);
	tcase_set_timeout(c, 60);
	tcase_set_timeout(slow, 60);
	tcase_add_test(t, a_signal_goes_to_exactly_the_process_that_is_meant);
	tcase_add_test(t, a_tag_is_inherited_and_can_be_read_of_those_whose_limits_may_not_be_asked_for);
	tcase_add_test(t, a_process_whose_first_thread_ended_is_alive);
	tcase_add_test(t, who_obeys_sigterm_is_not_killed);
	tcase_add_test(t, a_stopped_worker_notices_sigterm);
	tcase_add_test(t, ending_again_only_brings_it_forward);
	tcase_add_test(t, a_grandchild_that_called_setsid_and_ignores_sigterm_is_killed);
	tcase_add_test(t, what_a_worker_leaves_running_keeps_it_from_being_gone);
	tcase_add_test(t, orphans_are_seen_from_a_thread_that_is_not_the_first);
	tcase_add_test(t, alone_means_alive_and_without_company);
	tcase_add_test(t, a_daemon_without_environment_is_killed_if_it_was_once_seen_as_a_descendant);
	tcase_add_test(t, a_daemon_that_nobody_ever_saw_dies_with_its_session_and_with_no_other);
	tcase_add_test(t, a_daemon_that_may_not_be_looked_at_dies_with_its_session_and_with_no_other);
	tcase_add_test(t, a_daemon_that_is_hidden_dies_with_its_session_and_with_no_other);
	tcase_add_test(t, one_whose_orphans_come_and_go_keeps_nobody_else);
	tcase_add_test(t, inherited_children_and_what_comes_from_them_are_left_alone);
	tcase_add_test(t, more_ended_children_than_one_call_takes_are_reaped_all_the_same);
	tcase_add_test(t, a_tree_that_forks_while_it_is_killed_is_killed_all_the_same);
	tcase_add_test(t, many_ended_at_once_all_end);
	tcase_add_test(t, a_process_that_somebody_else_started_is_found_by_its_mark);
	tcase_add_loop_test(t, what_somebody_else_started_for_a_worker_may_not_outlive_it, 0, 2);
	tcase_add_test(t, leftovers_are_killed_by_exactly_their_instance);
	tcase_add_test(t, a_leftover_without_environment_is_killed_by_its_tag);
	tcase_add_test(t, a_leftovers_child_without_environment_is_killed_with_it);
	tcase_add_test(c, in_a_cgroup_the_ladder_is_the_same);
	tcase_add_test(c, in_a_cgroup_a_daemon_that_nobody_ever_saw_is_killed);
	tcase_add_test(c, in_a_cgroup_a_bomb_and_a_hopper_end);
	tcase_add_test(c, groups_of_an_earlier_life_are_emptied_and_removed);
	tcase_add_test(c, a_refused_cgroup_costs_one_worker_its_own_and_nobody_else);
	tcase_add_test(c, a_group_that_a_worker_made_stays_while_it_lives);
	tcase_add_test(c, without_descriptors_a_worker_in_a_cgroup_ends_all_the_same);
	tcase_add_test(c, a_cgroup_setting_that_cannot_be_used_is_no_obstacle);
	tcase_add_test(slow, what_will_not_die_is_told_once_and_waited_for);
	return s;
}

int main(int argc, char **argv)
{
	static const struct rig_helper helpers[] = {{"sleep", help_sleep}, {"setsid", help_setsid},
		{"daemon", help_daemon}, {"bomb", help_bomb}, {"hop", help_hop}, {"headless", help_headless},
		{"agent", help_agent}, {"churn", help_churn}, {"litter", help_litter}, {NULL, NULL}};

	return rig_main(argc, argv, helpers, make_suite);
}
