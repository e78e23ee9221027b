/* SPDX-License-Identifier: MIT */
/* soak.c: a long time of mixed load at a gentle rate; the daemon's memory and descriptors must stay flat.
 * Owns the samples and the check of them; the load is caller.c's, the streams are checked as in the torture.
 * Never disturbs anything. Minutes by SOAK_MINUTES, sessions a second by SOAK_RATE. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caller.h"
#include "violations.h"
#include "load.h"
#include "support/rig.h"

#define CALLERS 4
#define WARM_UP_MIN 5 /* caches fill, the allocator finds its size */
#define DRAIN_S 60
/* What growth is noise: allocator and SQLite's page cache breathe with the load by a few per cent; a leak of
 * 200 bytes a session would be 12 MiB in an hour at 20 a second. Descriptors are counted at the end of a
 * minute, once nothing runs: what is left then are those of the daemon and of agents that wait to be used
 * again. Each of these has three pipes, which do not count; a leak of one in a thousand sessions would be
 * 72. */
#define RSS_TOLERANCE_PERCENT 10
#define RSS_TOLERANCE_KIB 1024
#define FD_TOLERANCE 10
#define PIPES_A_WORKER 3

struct minute {
	long rss_kib, fds, fds_most, store_mib, closed;
};

static int minutes;
static double rate;
static struct rig *r;
static struct caller *callers[CALLERS];

static long read_rss_kib(void)
{
	char path[64], *text, *at;

	snprintf(path, sizeof path, "/proc/%d/status", r->pid);
	text = file_read(path, NULL);
	at = text ? strstr(text, "VmRSS:") : NULL;
	long kib = at ? atol(at + 6) : -1;
	free(text);
	return kib;
}

static long count_children(void)
{
	char path[64];
	long n = 0;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", r->pid, r->pid);
	char *text = file_read(path, NULL);
	for (char *c = text; c && *c; c++)
		n += *c == ' ';
	free(text);
	return n;
}

/* All of them; own: only those that are no pipes, and pipes beyond what the processes there can have. */
static long count_fds(bool own)
{
	char path[64], name[400], to[64];
	long all = 0, pipes = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", r->pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		ssize_t n = readlink(name, to, sizeof to - 1);
		if (n < 0)
			continue; /* a dot, or closed meanwhile */
		all++;
		pipes += strncmp(to, "pipe:", 5) == 0;
	}
	if (d)
		closedir(d);
	long beyond = pipes - PIPES_A_WORKER * count_children();
	return own ? all - pipes + (beyond > 0 ? beyond : 0) : all;
}

static struct caller_sum all_sums(void)
{
	struct caller_sum all = {0};

	for (int i = 0; i < CALLERS; i++) {
		struct caller_sum s = caller_sum(callers[i]);
		all.closed += s.closed;
		all.submits += s.submits;
		all.aborts += s.aborts;
		all.messages += s.messages;
		all.failed += s.failed;
	}
	return all;
}

static bool all_over(void)
{
	for (int i = 0; i < CALLERS; i++)
		if (!caller_is_over(callers[i]))
			return false;
	return true;
}

/* No new sessions, until the last one is over. */
static void quiet_down(void)
{
	double end = harness_now() + DRAIN_S;

	for (int i = 0; i < CALLERS; i++)
		caller_go(callers[i], false);
	while (!all_over() && harness_now() < end)
		harness_pass(0.2);
}

/* A minute, looked at each second, and a look once it is quiet. */
static struct minute pass_minute(void)
{
	struct minute m = {.fds = -1};
	struct stat st;
	double end = harness_now() + 60;

	while (harness_now() < end) {
		long rss = read_rss_kib(), fds = count_fds(false);
		must(!r->exited, "hcpd ended, status %d", r->wait_status);
		m.rss_kib = rss > m.rss_kib ? rss : m.rss_kib;
		m.fds_most = fds > m.fds_most ? fds : m.fds_most;
		harness_pass(1);
	}
	quiet_down();
	m.fds = count_fds(true);
	for (int i = 0; i < CALLERS; i++)
		caller_go(callers[i], true);
	m.store_mib = stat(r->db, &st) == 0 ? (long)(st.st_size >> 20) : -1;
	m.closed = all_sums().closed;
	return m;
}

static void check_minute(int n, const struct minute *base, const struct minute *m)
{
	if (m->rss_kib > base->rss_kib + base->rss_kib * RSS_TOLERANCE_PERCENT / 100 + RSS_TOLERANCE_KIB)
		violation("flat memory", "%ld KiB in minute %d, %ld at the end of the warm-up", m->rss_kib, n,
			base->rss_kib);
	if (m->fds > base->fds + FD_TOLERANCE)
		violation("flat descriptors", "%ld in minute %d, %ld at the end of the warm-up", m->fds, n,
			base->fds);
}

static void prepare(void)
{
	static char names[CALLERS][64];

	r = rig_new();
	rig_set(r, "daemon", "log_level", "warn");
	rig_set(r, "daemon", "max_sessions", "40");
	rig_set(r, "session", "exit_grace", "1s");
	mix_prepare(r, getenv("TORTURE_AGENT"));
	rig_start(r);
	for (int i = 0; i < CALLERS; i++) {
		snprintf(names[i], sizeof names[i], "soak-%d-%d", getpid(), i);
		callers[i] = caller_new(r,
			&(struct caller_plan){.name = names[i],
				.seed = 1000u + (unsigned)i,
				.rate = rate / CALLERS,
				.most_open = 100,
				.gentle = true,
				.queue_args = ""});
		caller_go(callers[i], true);
	}
}

static void needless_failure(
	void *ctx, const char *session, const char *kind, const char *why, double from, double to)
{
	(void)ctx, (void)from, (void)to;
	violation("the work is done", "%s (%s): %s although nothing went wrong", session, kind, why);
}

static void finish(void)
{
	quiet_down();
	for (int i = 0; i < CALLERS; i++)
		caller_check(callers[i], needless_failure, NULL);
	rig_finish(r);
}

START_TEST(an_hour_of_mixed_load_leaves_memory_and_descriptors_flat)
{
	int warm_up = minutes > WARM_UP_MIN + 1 ? WARM_UP_MIN : (minutes + 1) / 2;
	struct minute base = {0}, m = {0}, top = {0};

	say_clock();
	prepare();
	printf("%6s %9s %12s %15s %8s\n", "minute", "sessions", "VmRSS KiB", "descriptors", "store MiB");
	for (int n = 1; n <= minutes; n++) {
		m = pass_minute();
		printf("%6d %9ld %12ld %5ld, %3ld busy %8ld%s\n", n, m.closed, m.rss_kib, m.fds, m.fds_most,
			m.store_mib,
			n < warm_up          ? "  (warm-up)" :
				n == warm_up ? "  (the measure)" :
					       "");
		fflush(stdout);
		if (n == warm_up)
			base = m;
		if (n <= warm_up)
			continue;
		check_minute(n, &base, &m);
		top.rss_kib = m.rss_kib > top.rss_kib ? m.rss_kib : top.rss_kib;
		top.fds = m.fds > top.fds ? m.fds : top.fds;
	}
	finish();
	struct caller_sum s = all_sums();
	printf("soak: %d min, %ld sessions, %ld messages, VmRSS %ld KiB at minute %d and at most %ld after "
	       "it (may be %d %% and %d KiB more), descriptors at rest %ld and at most %ld (may be %d more), "
	       "%d violations\n",
		minutes, s.closed, s.messages, base.rss_kib, warm_up, top.rss_kib, RSS_TOLERANCE_PERCENT,
		RSS_TOLERANCE_KIB, base.fds, top.fds, FD_TOLERANCE, violation_count());
	fflush(stdout);
	exit(violation_count() == 0 ? 0 : 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("soak");
	const char *m = getenv("SOAK_MINUTES"), *per_second = getenv("SOAK_RATE");

	minutes = m && atoi(m) > 0 ? atoi(m) : 60;
	rate = per_second && atof(per_second) > 0 ? atof(per_second) : 20;
	harness_add_long(s, "an_hour_of_mixed_load_leaves_memory_and_descriptors_flat",
		an_hour_of_mixed_load_leaves_memory_and_descriptors_flat, minutes * 90 + 600);
	return harness_run(s, true);
}
