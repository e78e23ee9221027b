/* SPDX-License-Identifier: MIT */
/* proctree_kit.c: what proctree_kit.h declares. */
#include "support/proctree_kit.h"

static void tree_say_pid(void)
{
	char line[32];
	int n = snprintf(line, sizeof line, "%d\n", (int)getpid());

	if (write(1, line, (size_t)n) < 0)
		_exit(1);
}

int tree_stay(void)
{
	while (pause() < 0)
		;
	return 0;
}

static int help_sleep(int argc, char **argv)
{
	(void)argc, (void)argv;
	alarm(HELPER_LIFE_S);
	tree_say_pid();
	return tree_stay();
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
	return tree_stay();
}

/* A daemon that sheds everything: session, parent, environment. Its parent ends at once, or ("wait") after a
 * line on stdin; the main process stays. */
static int help_daemon(int argc, char **argv)
{
	char sleeper[] = "sleep", *args[] = {wrig_self, sleeper, NULL}, *env[] = {NULL}, c;
	int pid;

	(void)argc;
	alarm(HELPER_LIFE_S);
	pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			setsid();
			execve(wrig_self, args, env);
			_exit(1);
		}
		if (strcmp(argv[2], "wait") == 0)
			(void)!read(0, &c, 1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	if (write(1, "orphaned\n", 9) < 0)
		return 1;
	return tree_stay();
}

/* As ssh-agent does it: an orphan in a session of its own that may not be looked at; the main process goes on
 * until its stdin ends. */
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
	tree_say_pid();
	return tree_stay();
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
	tree_say_pid();
	return tree_stay();
}

/* Never twice the same pid: forks, and the parent ends. */
static int help_hop(int argc, char **argv)
{
	int64_t until = clock_boot_us() + 10 * SECOND;

	(void)argc, (void)argv;
	tree_say_pid();
	while (clock_boot_us() < until)
		if (fork() != 0)
			_exit(0);
	return 0;
}

static void *tree_thread_sleep(void *arg)
{
	sleep(HELPER_LIFE_S);
	return arg;
}

/* The first thread ends, the process does not. */
static int help_headless(int argc, char **argv)
{
	pthread_t t;

	(void)argc, (void)argv;
	if (pthread_create(&t, NULL, tree_thread_sleep, NULL) != 0)
		return 1;
	tree_say_pid();
	pthread_exit(NULL);
}

/* So much memory that its end takes a while after SIGKILL: it has no environment any more, and is not
 * dead yet. */
static int help_fat(int argc, char **argv)
{
	const size_t size = (size_t)768 << 20, page = 4096;
	char *mem =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t at;

	(void)argc, (void)argv;
	alarm(HELPER_LIFE_S);
	if (mem == MAP_FAILED)
		return 1;
	madvise(mem, size, MADV_NOHUGEPAGE);
	for (at = 0; at < size; at += page)
		mem[at] = 1;
	tree_say_pid();
	return tree_stay();
}

/* --- what they say, and those that are no workers --- */

int tree_line_pid(struct rec *r)
{
	return atoi(rec_text(r, WORKER_STDOUT));
}

int tree_daemon_pid(struct rec *r)
{
	const char *text = rec_text(r, WORKER_STDOUT);

	return atoi(strncmp(text, "orphaned\n", 9) == 0 ? text + 9 : text);
}

int tree_start_bare(const char *var)
{
	char *v = xstrdup(var), *env[] = {v, NULL}, name[] = "sleep", *argv[] = {wrig_self, name, NULL};
	int pid = fork();

	if (pid == 0) {
		int fd = open("/dev/null", O_RDWR);

		dup2(fd, 1);
		execve(wrig_self, argv, env);
		_exit(1);
	}
	free(v);
	return pid;
}

/* --- the same end with and without a cgroup --- */

void tree_end_setsid(const char *cgroup)
{
	struct rec r;
	int pid;

	wrig_begin(cgroup);
	wrig_start_helper(&r, "setsid", "");
	wrig_until(r.lines[0] == 1);
	pid = tree_line_pid(&r);
	ck_assert_int_ne(pid, worker_pid(r.w));
	ck_assert(!worker_is_alone(r.w));
	worker_end(r.w, 0, clock_boot_us() + SECOND / 5);
	wrig_until(r.exits);
	ck_assert_int_eq(WTERMSIG(r.status), SIGTERM);
	ck_assert(process_is_alive(pid));
	ck_assert_int_eq(r.gone, 0);
	wrig_until(r.gone);
	ck_assert(!process_is_alive(pid));
	rec_free(&r);
	wrig_end();
}

void tree_end_bomb(const char *cgroup)
{
	struct rec r, other;

	wrig_begin(cgroup);
	wrig_start(&other, "exec cat");
	wrig_start_helper(&r, "bomb", "");
	wrig_for_ms(45); /* while it is still doubling */
	worker_end(r.w, 0, 0);
	wrig_until(r.gone);
	ck_assert(worker_is_alone(other.w));
	rec_kill(&other);
	rec_free(&r);
	rec_free(&other);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
	ck_assert_int_eq(errno, ECHILD);
	wrig_end();
}

int proctree_main(int argc, char **argv, Suite *(*make)(void))
{
	static const struct wrig_helper helpers[] = {{"sleep", help_sleep}, {"setsid", help_setsid},
		{"daemon", help_daemon}, {"bomb", help_bomb}, {"hop", help_hop}, {"headless", help_headless},
		{"agent", help_agent}, {"churn", help_churn}, {"litter", help_litter}, {"fat", help_fat},
		{NULL, NULL}};

	return wrig_main(argc, argv, helpers, make);
}
