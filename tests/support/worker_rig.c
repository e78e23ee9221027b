/* SPDX-License-Identifier: MIT */
/* worker_rig.c: what worker_rig.h declares. */
#include "support/worker_rig.h"

char wrig_instance_var[64] = "HCP_INSTANCE=5eed5eed-0000-4000-8000-00000000cafe";
char wrig_mark[64] = "HCP_SESSION_ID=mark-of-this-one";
struct wrig wrig;
char wrig_self[4096];

static void wrig_on_line(
	struct worker *w, enum worker_stream s, const char *line, size_t size, enum line_kind kind)
{
	struct rec *r = worker_owner(w);

	ck_assert(!wrig.held);
	ck_assert_int_eq(r->gone, 0);
	ck_assert_int_eq(r->eof[s], 0);
	r->lines[s]++;
	r->bytes[s] += size + 1;
	wrig.turn_bytes += size + 1;
	wrig.turn_lines++;
	r->too_long += kind == LINE_TOO_LONG;
	if (r->on_line)
		r->on_line(r, line, size);
	if (r->quiet)
		return;
	buf_add(&r->text[s], line, size);
	buf_add(&r->text[s], "\n", 1);
}

static void wrig_on_eof(struct worker *w, enum worker_stream s)
{
	struct rec *r = worker_owner(w);

	ck_assert(!wrig.held);
	r->eof[s]++;
}

static void wrig_on_exit(struct worker *w, int status)
{
	struct rec *r = worker_owner(w);

	ck_assert(!wrig.held);
	ck_assert(worker_has_exited(w));
	r->exits++;
	r->status = status;
}

static void wrig_on_gone(struct worker *w)
{
	struct rec *r = worker_owner(w);

	ck_assert(!wrig.held);
	ck_assert_int_eq(r->exits, 1);
	ck_assert_int_eq(r->eof[0], 1);
	ck_assert_int_eq(r->eof[1], 1);
	r->gone++;
}

static void wrig_on_stuck(struct worker *w, int pid)
{
	struct rec *r = worker_owner(w);

	r->stuck++;
	r->stuck_pid = pid;
}
const struct worker_ops wrig_ops = {wrig_on_line, wrig_on_eof, wrig_on_exit, wrig_on_gone, wrig_on_stuck};

static void wrig_on_sigchld(struct ev_loop *l, struct ev_signal *s, int ev)
{
	(void)l, (void)s, (void)ev;
	workers_reap(wrig.ws);
}

static void wrig_on_timer(struct ev_loop *l, struct ev_timer *t, int ev)
{
	(void)l, (void)t, (void)ev;
}

/* After the wait: a turn begins. */
static void wrig_on_check(struct ev_loop *l, struct ev_check *c, int ev)
{
	(void)l, (void)c, (void)ev;
	wrig.turns++;
	wrig.turn_bytes = wrig.turn_lines = 0;
	workers_new_turn(wrig.ws);
}

/* Before the wait: it ends. */
static void wrig_on_prepare(struct ev_loop *l, struct ev_prepare *p, int ev)
{
	int64_t next;

	(void)p, (void)ev;
	if (wrig.turn_bytes > wrig.turn_bytes_max)
		wrig.turn_bytes_max = wrig.turn_bytes;
	if (wrig.turn_lines > wrig.turn_lines_max)
		wrig.turn_lines_max = wrig.turn_lines;
	if (!wrig.held)
		timers_run(&wrig.timers, clock_boot_us());
	next = timers_next_us(&wrig.timers);
	ev_timer_stop(l, &wrig.timer);
	if (next == INT64_MAX || wrig.held)
		return;
	next -= clock_boot_us();
	ev_timer_set(&wrig.timer, next > 0 ? (double)next / 1e6 : 0., 0.);
	ev_now_update(l);
	ev_timer_start(l, &wrig.timer);
}

void wrig_begin(const char *cgroup)
{
	signal(SIGPIPE, SIG_IGN);
	memset(&wrig, 0, sizeof wrig);
	wrig.loop = ev_loop_new(EVFLAG_AUTO);
	ck_assert_ptr_nonnull(wrig.loop);
	wrig.config.cgroup = xstrdup(cgroup);
	wrig.config.max_line = 4 << 20;
	wrig.config.max_lines_total = 64 << 20;
	wrig.ws = workers_new(wrig.loop, &wrig.timers, &wrig.config, RIG_INSTANCE, &wrig_ops);
	ck_assert_ptr_nonnull(wrig.ws);
	ev_signal_init(&wrig.sigchld, wrig_on_sigchld, SIGCHLD);
	ev_signal_start(wrig.loop, &wrig.sigchld);
	ev_prepare_init(&wrig.prepare, wrig_on_prepare);
	ev_prepare_start(wrig.loop, &wrig.prepare);
	ev_check_init(&wrig.check, wrig_on_check);
	ev_set_priority(&wrig.check, EV_MAXPRI);
	ev_check_start(wrig.loop, &wrig.check);
	ev_timer_init(&wrig.timer, wrig_on_timer, 0., 0.);
}

void rec_free(struct rec *r)
{
	if (r->gone && !r->freed)
		worker_free(r->w);
	buf_fini(&r->text[0]);
	buf_fini(&r->text[1]);
	memset(r, 0, sizeof *r);
	r->freed = true;
}

void wrig_end(void)
{
	ev_signal_stop(wrig.loop, &wrig.sigchld);
	workers_free(wrig.ws);
	ev_loop_destroy(wrig.loop);
	timers_fini(&wrig.timers);
	free(wrig.config.cgroup);
	while (waitpid(-1, NULL, 0) > 0)
		;
}
char *wrig_env[] = {(char[]){"PATH=/usr/local/bin:/usr/bin:/bin"}, wrig_instance_var, wrig_mark, NULL};

int wrig_try_argv(struct rec *r, char *const *argv, char *why, size_t why_size)
{
	struct worker_spec spec = {.argv = argv,
		.env = wrig_env,
		.workdir = "/tmp",
		.has_stdin = true,
		.mark = wrig_mark,
		.owner = r};

	memset(r, 0, sizeof *r);
	return worker_start(wrig.ws, &spec, &r->w, why, why_size);
}

static void wrig_start_argv(struct rec *r, char *const *argv)
{
	char why[512] = "";

	ck_assert_msg(wrig_try_argv(r, argv, why, sizeof why) == 0, "%s", why);
}

void wrig_start(struct rec *r, const char *script)
{
	char sh[] = "sh", c[] = "-c", *copy = xstrdup(script), *argv[] = {sh, c, copy, NULL};

	wrig_start_argv(r, argv);
	free(copy);
}

void wrig_start_helper(struct rec *r, const char *name, const char *arg)
{
	char *n = xstrdup(name), *a = xstrdup(arg), *argv[] = {wrig_self, n, a, NULL};

	wrig_start_argv(r, argv);
	free(n);
	free(a);
}

bool wrig_wait_step(int64_t until)
{
	if (clock_boot_us() > until)
		return false;
	ev_run(wrig.loop, EVRUN_NOWAIT);
	usleep(200); /* the condition may be one that no event tells of */
	return true;
}

void wrig_for_ms(int ms)
{
	int64_t until = clock_boot_us() + ms * 1000LL;

	while (wrig_wait_step(until))
		;
}

const char *rec_text(struct rec *r, enum worker_stream s)
{
	return buf_text(&r->text[s]);
}

int wrig_count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

void rec_kill(struct rec *r)
{
	worker_end(r->w, 0, 0);
	wrig_until(r->gone);
}

char *wrig_make_cgroup(void)
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

bool wrig_drop_root(void)
{
	if (getuid() == 0)
		ck_assert_int_eq(setgid(65534) | setuid(65534) | prctl(PR_SET_DUMPABLE, 1), 0);
	if (access(wrig_self, X_OK) == 0)
		return true;
	fprintf(stderr, "SKIPPED: this program is in a directory that only root may enter\n");
	return false;
}

int wrig_main(int argc, char **argv, const struct wrig_helper *helpers, Suite *(*make)(void))
{
	ssize_t n = readlink("/proc/self/exe", wrig_self, sizeof wrig_self - 1);
	SRunner *runner;
	int failed;

	if (n > 0)
		wrig_self[n] = '\0';
	for (; argc > 1 && helpers->name; helpers++)
		if (strcmp(argv[1], helpers->name) == 0)
			return helpers->run(argc, argv);
	snprintf(wrig_instance_var, sizeof wrig_instance_var, "HCP_INSTANCE=5eed5eed-0000-4000-8000-%012x",
		(unsigned)getpid());
	snprintf(wrig_mark, sizeof wrig_mark, "HCP_SESSION_ID=mark-of-%d", (int)getpid());
	runner = srunner_create(make());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
