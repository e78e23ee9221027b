/* SPDX-License-Identifier: MIT */
/* harness.c: failing tidily, waiting, files, the suite's frame.
 * Never looks at messages (peer.c, oracle.c) and never starts hcpd (rig.c). */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"
#include "rig.h"

#define LOAD_MAX 6     /* a fault that costs more than so many times its bound is seen on any machine */
#define KEEP_BUFFERS 8 /* results of the path functions that live at the same time */

static char run_prefix[128];
static struct {
	const char *name;
	int seconds;
} bounds[100];
static size_t bound_count;

/* The tests' own small leaks are of no interest; the daemon is another process and keeps its check. */
void __lsan_disable(void) __attribute__((weak));

/* --- failing --- */

static void end_everything(void)
{
	static bool once;

	if (once)
		return;
	once = true;
	fflush(NULL);
	rigs_show_and_end();
	peers_show();
	peers_end();
}

void harness_fail(const char *file, int line, const char *what, const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	int n = snprintf(text, sizeof text / 2, "%s", what);

	n = n < (int)sizeof text / 2 ? n : (int)sizeof text / 2 - 1;
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
	va_end(ap);
	alarm(0);
	fprintf(stderr, "--- failed at %s:%d: %s\n", file, line, text);
	end_everything();
	_ck_assert_failed(file, line, "failed", "%s", text);
	abort(); /* not reached: Check leaves the child */
}

void harness_must_str(const char *file, int line, const char *what, const char *got, const char *want)
{
	if (!got || strcmp(got, want) != 0)
		harness_fail(file, line, "", "%s is \"%s\", not \"%s\"", what, got ? got : "(absent)", want);
}

static void on_alarm(int sig)
{
	(void)sig;
	harness_fail(__FILE__, __LINE__, "", "the test as a whole took too long");
}

/* --- waiting --- */

double harness_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

bool harness_is_sanitized(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	return false;
#endif
}

/* How often the machine is wanted more than it can give: what wants to run for each core, in the mean of the
 * last minute. */
static double read_load(void)
{
	double load, per_core = 1;

	if (getloadavg(&load, 1) == 1)
		per_core = load / (double)sysconf(_SC_NPROCESSORS_ONLN);
	return per_core < 1 ? 1 : per_core > LOAD_MAX ? LOAD_MAX : per_core;
}

double harness_scale(void)
{
	static double build, load, read_at;

	if (build <= 0) {
		const char *env = getenv("HCP_TEST_SLOW");

		build = env ? atof(env) : 1;
		build = build < 1 ? 1 : build;
		if (harness_is_sanitized() && build < 3)
			build = 3;
	}
	if (load <= 0 || harness_now() > read_at + 1) {
		load = read_load();
		read_at = harness_now();
	}
	return build * load;
}

static void reap_all(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		rigs_reaped(pid, status);
}

void harness_tick(void)
{
	struct pollfd p[64];
	int fds[64], n;

	reap_all();
	rigs_tick();
	if (peers_tick())
		return;
	n = peers_sockets(fds, 64);
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	poll(p, (nfds_t)n, 5);
}

void harness_pass(double seconds)
{
	double end = harness_now() + seconds;

	while (harness_now() < end)
		harness_tick();
}

/* --- JSON --- */

json_t *J(const char *fmt, ...)
{
	json_error_t err;
	va_list ap;
	char *text = NULL;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	for (char *c = text; *c; c++)
		if (*c == '\'')
			*c = '"';
	json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &err);
	if (!j)
		give_up("the test's own JSON: %s in %s", err.text, text);
	free(text);
	return j;
}

json_t *json_at(json_t *root, const char *path)
{
	char name[128];

	while (root && *path) {
		size_t n = strcspn(path, ".");
		snprintf(name, sizeof name, "%.*s", (int)n, path);
		root = json_is_array(root) ? json_array_get(root, (size_t)atoi(name)) :
					     json_object_get(root, name);
		path += n + (path[n] == '.');
	}
	return root;
}

const char *json_text_at(json_t *root, const char *path)
{
	return json_string_value(json_at(root, path));
}

/* --- files --- */

void file_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		give_up("%s: %s", path, strerror(errno));
}

char *file_read(const char *path, size_t *size)
{
	FILE *f = fopen(path, "r");
	size_t room = 65536, n = 0, got;
	char *text;

	if (!f)
		return NULL;
	text = malloc(room + 1);
	while ((got = fread(text + n, 1, room - n, f)) > 0)
		if ((n += got) == room)
			text = realloc(text, (room *= 2) + 1);
	fclose(f);
	text[n] = 0;
	if (size)
		*size = n;
	return text;
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

int file_lines(const char *path)
{
	char *text = file_read(path, NULL);
	int n = 0;

	for (char *c = text; c && *c; c++)
		n += *c == '\n';
	free(text);
	return n;
}

const char *source_path(const char *relative)
{
	static char paths[KEEP_BUFFERS][PATH_MAX];
	static int turn;
	char joined[PATH_MAX];
	const char *root = getenv("HCP_SOURCE");
	char *path = paths[turn++ % KEEP_BUFFERS];

	snprintf(joined, sizeof joined, "%s/%s", root ? root : ".", relative);
	if (!realpath(joined, path))
		give_up("%s: %s (run the tests from the project's root)", joined, strerror(errno));
	return path;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	remove(path);
	return 0;
}

void tree_remove(const char *path)
{
	nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

/* --- a suite --- */

const char *harness_tmp(void)
{
	return run_prefix;
}

void harness_begin(void)
{
	int seconds = 60;

	for (size_t i = 0; i < bound_count; i++)
		if (strcmp(bounds[i].name, tcase_name()) == 0)
			seconds = bounds[i].seconds;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a killed daemon leaves becomes ours, not init's */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGALRM, on_alarm);
	/* Ours comes first, tidies up and says what was going on; Check's only kills. */
	alarm((unsigned)(seconds * harness_scale()));
}

static TCase *add_case(Suite *s, const char *name, int seconds)
{
	TCase *tc = tcase_create(name);

	if (bound_count == sizeof bounds / sizeof bounds[0])
		abort();
	bounds[bound_count].name = name;
	bounds[bound_count++].seconds = seconds;
	tcase_set_timeout(tc, seconds * harness_scale() + 10);
	suite_add_tcase(s, tc);
	return tc;
}

void harness_add(Suite *s, const char *name, const TTest *test, int seconds)
{
	tcase_add_test(add_case(s, name, seconds), test);
}

void harness_add_long(Suite *s, const char *name, const TTest *test, int seconds)
{
	tcase_add_exit_test(add_case(s, name, seconds), test, 0);
}

/* A test that Check itself had to kill could not end its workers: they carry the run's mark. */
static int end_marked(const char *mark)
{
	char path[300];
	struct dirent *e;
	size_t size;
	int n = 0;
	DIR *d = opendir("/proc");

	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);
		if (pid <= 1 || pid == getpid())
			continue;
		snprintf(path, sizeof path, "/proc/%d/environ", pid);
		char *env = file_read(path, &size);
		if (env && memmem(env, size, mark, strlen(mark)) && kill(pid, SIGKILL) == 0)
			n++;
		free(env);
	}
	if (d)
		closedir(d);
	return n;
}

static int run_suite(Suite *s)
{
	char mark[256];
	SRunner *sr = srunner_create(s);

	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	snprintf(mark, sizeof mark, "RIG_MARK=%s", run_prefix);
	int left = end_marked(mark);
	if (left) {
		fprintf(stderr, "%d processes outlived their tests\n", left);
		failed++;
	}
	return failed;
}

int harness_run(Suite *s, bool own_broker)
{
	const char *tmp = getenv("TMPDIR");

	if (__lsan_disable)
		__lsan_disable();
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(run_prefix, sizeof run_prefix, "%s/hcp-it-%d-", tmp ? tmp : "/tmp", getpid());
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (own_broker)
		unsetenv("HCP_TEST_BROKER_URL");
	broker_shared();
	int failed = run_suite(s);
	broker_stop((struct broker *)(uintptr_t)broker_shared());
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
