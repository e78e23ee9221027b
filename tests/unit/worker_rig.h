/* worker_rig.h: a loop as the core runs it, and what workers said, for tests with real processes.
 * Every test runs in a process of its own (Check forks), which is the subreaper of what it starts. */
#ifndef WORKER_RIG_H
#define WORKER_RIG_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/timer.h"
#include "process/worker.h"

#define SECOND 1000000LL

/* rig_main makes both others for every run, so that nobody is taken for another run's. */
static char rig_instance_var[64] = "HCP_INSTANCE=5eed5eed-0000-4000-8000-00000000cafe";
static char rig_mark[64] = "HCP_SESSION_ID=mark-of-this-one";
#define RIG_INSTANCE (rig_instance_var + sizeof "HCP_INSTANCE")

/* Where this is no test but a worker of one: prog NAME ARGS. */
struct rig_helper {
	const char *name;
	int (*run)(int argc, char **argv);
};

struct rec { /* what one worker said */
	struct worker *w;
	struct buf text[2]; /* lines, each with a newline again */
	size_t lines[2], bytes[2], too_long;
	int eof[2], exits, gone, stuck, status, stuck_pid;
	bool quiet; /* count only */
	bool freed;
	void (*on_line)(struct rec *r, const char *line, size_t size);
};

struct rig {
	struct ev_loop *loop;
	struct ev_signal sigchld;
	struct ev_prepare prepare;
	struct ev_check check;
	struct ev_timer timer;
	struct timers timers;
	struct config config;
	struct workers *ws;
	size_t turn_bytes, turn_bytes_max, turns;
	size_t turn_lines, turn_lines_max;
	bool held;
};

static struct rig rig;
static char rig_self[4096];

static void rig_on_line(
	struct worker *w, enum worker_stream s, const char *line, size_t size, enum line_kind kind)
{
	struct rec *r = worker_owner(w);

	ck_assert(!rig.held);
	ck_assert_int_eq(r->gone, 0);
	ck_assert_int_eq(r->eof[s], 0);
	r->lines[s]++;
	r->bytes[s] += size + 1;
	rig.turn_bytes += size + 1;
	rig.turn_lines++;
	r->too_long += kind == LINE_TOO_LONG;
	if (r->on_line)
		r->on_line(r, line, size);
	if (r->quiet)
		return;
	buf_add(&r->text[s], line, size);
	buf_add(&r->text[s], "\n", 1);
}

static void rig_on_eof(struct worker *w, enum worker_stream s)
{
	struct rec *r = worker_owner(w);

	ck_assert(!rig.held);
	r->eof[s]++;
}

static void rig_on_exit(struct worker *w, int status)
{
	struct rec *r = worker_owner(w);

	ck_assert(!rig.held);
	ck_assert(worker_has_exited(w));
	r->exits++;
	r->status = status;
}

static void rig_on_gone(struct worker *w)
{
	struct rec *r = worker_owner(w);

	ck_assert(!rig.held);
	ck_assert_int_eq(r->exits, 1);
	ck_assert_int_eq(r->eof[0], 1);
	ck_assert_int_eq(r->eof[1], 1);
	r->gone++;
}

static void rig_on_stuck(struct worker *w, int pid)
{
	struct rec *r = worker_owner(w);

	r->stuck++;
	r->stuck_pid = pid;
}

static const struct worker_ops rig_ops = {rig_on_line, rig_on_eof, rig_on_exit, rig_on_gone, rig_on_stuck};

static void rig_on_sigchld(struct ev_loop *l, struct ev_signal *s, int ev)
{
	(void)l, (void)s, (void)ev;
	workers_reap(rig.ws);
}

static void rig_on_timer(struct ev_loop *l, struct ev_timer *t, int ev)
{
	(void)l, (void)t, (void)ev;
}

/* After the wait: a turn begins. */
static void rig_on_check(struct ev_loop *l, struct ev_check *c, int ev)
{
	(void)l, (void)c, (void)ev;
	rig.turns++;
	rig.turn_bytes = rig.turn_lines = 0;
	workers_new_turn(rig.ws);
}

/* Before the wait: it ends. */
static void rig_on_prepare(struct ev_loop *l, struct ev_prepare *p, int ev)
{
	int64_t next;

	(void)p, (void)ev;
	if (rig.turn_bytes > rig.turn_bytes_max)
		rig.turn_bytes_max = rig.turn_bytes;
	if (rig.turn_lines > rig.turn_lines_max)
		rig.turn_lines_max = rig.turn_lines;
	if (!rig.held)
		timers_run(&rig.timers, clock_boot_us());
	next = timers_next_us(&rig.timers);
	ev_timer_stop(l, &rig.timer);
	if (next == INT64_MAX || rig.held)
		return;
	next -= clock_boot_us();
	ev_timer_set(&rig.timer, next > 0 ? (double)next / 1e6 : 0., 0.);
	ev_now_update(l);
	ev_timer_start(l, &rig.timer);
}

static void rig_begin(const char *cgroup)
{
	signal(SIGPIPE, SIG_IGN);
	memset(&rig, 0, sizeof rig);
	rig.loop = ev_loop_new(EVFLAG_AUTO);
	ck_assert_ptr_nonnull(rig.loop);
	rig.config.cgroup = xstrdup(cgroup);
	rig.config.max_line = 4 << 20;
	rig.config.max_lines_total = 64 << 20;
	rig.ws = workers_new(rig.loop, &rig.timers, &rig.config, RIG_INSTANCE, &rig_ops);
	ck_assert_ptr_nonnull(rig.ws);
	ev_signal_init(&rig.sigchld, rig_on_sigchld, SIGCHLD);
	ev_signal_start(rig.loop, &rig.sigchld);
	ev_prepare_init(&rig.prepare, rig_on_prepare);
	ev_prepare_start(rig.loop, &rig.prepare);
	ev_check_init(&rig.check, rig_on_check);
	ev_set_priority(&rig.check, EV_MAXPRI);
	ev_check_start(rig.loop, &rig.check);
	ev_timer_init(&rig.timer, rig_on_timer, 0., 0.);
}

static void rec_free(struct rec *r)
{
	if (r->gone && !r->freed)
		worker_free(r->w);
	buf_fini(&r->text[0]);
	buf_fini(&r->text[1]);
	memset(r, 0, sizeof *r);
	r->freed = true;
}

static void rig_end(void)
{
	ev_signal_stop(rig.loop, &rig.sigchld);
	workers_free(rig.ws);
	ev_loop_destroy(rig.loop);
	timers_fini(&rig.timers);
	free(rig.config.cgroup);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static char *rig_env[] = {(char[]){"PATH=/usr/local/bin:/usr/bin:/bin"}, rig_instance_var, rig_mark, NULL};

static int rig_try_argv(struct rec *r, char *const *argv, char *why, size_t why_size)
{
	struct worker_spec spec = {.argv = argv,
		.env = rig_env,
		.workdir = "/tmp",
		.has_stdin = true,
		.mark = rig_mark,
		.owner = r};

	memset(r, 0, sizeof *r);
	return worker_start(rig.ws, &spec, &r->w, why, why_size);
}

static inline void rig_start_argv(struct rec *r, char *const *argv)
{
	char why[512] = "";

	ck_assert_msg(rig_try_argv(r, argv, why, sizeof why) == 0, "%s", why);
}

/* sh -c SCRIPT */
static inline void rig_start(struct rec *r, const char *script)
{
	char sh[] = "sh", c[] = "-c", *copy = xstrdup(script), *argv[] = {sh, c, copy, NULL};

	rig_start_argv(r, argv);
	free(copy);
}

/* This program again, as the helper `name`. */
static inline void rig_start_helper(struct rec *r, const char *name, const char *arg)
{
	char *n = xstrdup(name), *a = xstrdup(arg), *argv[] = {rig_self, n, a, NULL};

	rig_start_argv(r, argv);
	free(n);
	free(a);
}

static inline bool rig_wait_step(int64_t until)
{
	if (clock_boot_us() > until)
		return false;
	ev_run(rig.loop, EVRUN_NOWAIT);
	usleep(200); /* the condition may be one that no event tells of */
	return true;
}

/* Runs the loop until the condition holds; fails the test after 20 s. */
#define rig_until(cond) \
	do { \
		int64_t until_ = clock_boot_us() + 20 * SECOND; \
		while (!(cond)) \
			ck_assert_msg(rig_wait_step(until_), "in vain: %s", #cond); \
	} while (0)

/* Runs the loop for that long. */
static inline void rig_for_ms(int ms)
{
	int64_t until = clock_boot_us() + ms * 1000LL;

	while (rig_wait_step(until))
		;
}

static inline const char *rec_text(struct rec *r, enum worker_stream s)
{
	return buf_text(&r->text[s]);
}

/* Exists, and is no zombie. */
static inline bool is_alive(int pid)
{
	char path[64], text[512], *at;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	return at && at[2] != 'Z' && at[2] != 'X';
}

static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* The end now, by SIGKILL. */
static inline void rec_kill(struct rec *r)
{
	worker_end(r->w, 0, 0);
	rig_until(r->gone);
}

/* A directory of a cgroup2 file system to make groups in; NULL, and a line that says so, where there is none.
 */
static inline char *rig_make_cgroup(void)
{
	static char dir[512];
	char line[1024], point[400];
	bool found = false;
	FILE *f = fopen("/proc/self/mountinfo", "r");

	while (f && !found && fgets(line, sizeof line, f))
		found = strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %399s", point) == 1;
	if (f)
		fclose(f);
	if (found) {
		snprintf(dir, sizeof dir, "%s/hcpd-unit-%d", point, (int)getpid());
		if (mkdir(dir, 0755) == 0)
			return dir;
	}
	fprintf(stderr, "SKIPPED: no cgroup2 directory that we may write to\n");
	return NULL;
}

/* Nothing is forbidden to root: where it matters a test goes on as another user. False, and a line that says
 * so, where that one could not run this program. */
static inline bool rig_drop_root(void)
{
	if (getuid() == 0)
		ck_assert_int_eq(setgid(65534) | setuid(65534) | prctl(PR_SET_DUMPABLE, 1), 0);
	if (access(rig_self, X_OK) == 0)
		return true;
	fprintf(stderr, "SKIPPED: this program is in a directory that only root may enter\n");
	return false;
}

static inline int rig_main(int argc, char **argv, const struct rig_helper *helpers, Suite *(*make)(void))
{
	ssize_t n = readlink("/proc/self/exe", rig_self, sizeof rig_self - 1);
	SRunner *runner;
	int failed;

	if (n > 0)
		rig_self[n] = '\0';
	for (; argc > 1 && helpers->name; helpers++)
		if (strcmp(argv[1], helpers->name) == 0)
			return helpers->run(argc, argv);
	snprintf(rig_instance_var, sizeof rig_instance_var, "HCP_INSTANCE=5eed5eed-0000-4000-8000-%012x",
		(unsigned)getpid());
	snprintf(rig_mark, sizeof rig_mark, "HCP_SESSION_ID=mark-of-%d", (int)getpid());
	runner = srunner_create(make());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}

#endif
