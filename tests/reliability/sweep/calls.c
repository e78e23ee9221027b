/* SPDX-License-Identifier: MIT */
/* calls.c: the sweep over hcpd's system calls: each fault at the n-th call of each kind by each thread,
 * for every n that a small life has.
 *	calls [--quick] [-v] [-j JOBS] [CASE...]
 * A CASE is [SCENE/]KIND[@THREAD][:FAULT[:N]]: fresh/write@core:EIO:17, or less of it for all that fit.
 * --quick takes every 20th n. First each life is played unharmed, which says how many calls of each kind
 * there are; then once for each fault. One that did not come (threads do not always call as often), or
 * would have hit what the kernel never fails (an eventfd), is counted apart. Owns the plan and the
 * processes; calls_case.c plays and checks, calls_watch.c makes calls fail. */
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 8
#define QUICK_STEP 20
#define SURVEYS 3
#define CASE_S 90
#define SAY_EVERY_S 30.0

#define C(name) (SYS_##name + 1)
#ifdef SYS_open
#define OLD(name) C(name),
#else
#define OLD(name)
#endif
#define ALL_FAULTS \
	{ \
		DEATH, EIO, ENOSPC, EMFILE, EINTR \
	}

/* The first six are what users meet: disks, descriptors, processes, brokers. In the others only what can be:
 * a close that did not close is not known on Linux, and no signal interrupts mkdir. */
const struct kind kinds[] = {
	{"write", {C(write), C(writev)}, ALL_FAULTS},
	{"pwrite", {C(pwrite64), C(pwritev), C(ftruncate), C(fallocate)}, ALL_FAULTS},
	{"fsync", {C(fsync), C(fdatasync)}, ALL_FAULTS},
	{"open", {OLD(open) OLD(creat) C(openat)}, ALL_FAULTS},
	{"send", {C(sendto), C(sendmsg), C(sendmmsg)}, ALL_FAULTS},
	{"fork", {OLD(fork) OLD(vfork) C(clone), C(clone3)}, ALL_FAULTS},
	{"descriptor",
		{OLD(pipe) C(pipe2), C(socket), C(eventfd2), C(timerfd_create), C(epoll_create1),
			C(pidfd_open)},
		{DEATH, EMFILE}},
	{"connect", {C(connect)}, {DEATH, EIO, EINTR}},
	{"recv", {C(recvfrom), C(recvmsg)}, {DEATH, EIO, EINTR}},
	{"read", {C(read), C(readv), C(pread64)}, {DEATH, EIO, EINTR}},
	{"close", {C(close)}, {DEATH}},
	{"rename", {OLD(rename) C(renameat), C(renameat2)}, {DEATH, EIO, ENOSPC}},
	{"mkdir", {OLD(mkdir) C(mkdirat)}, {DEATH, EIO, ENOSPC}},
	{"unlink", {OLD(unlink) OLD(rmdir) C(unlinkat)}, {DEATH, EIO}},
	{"wait", {OLD(epoll_wait) OLD(poll) C(epoll_pwait), C(ppoll), C(wait4)}, {DEATH, EINTR}},
};
const int kind_count = sizeof kinds / sizeof *kinds;
_Static_assert(sizeof kinds / sizeof *kinds <= KINDS_MAX, "reports have room for each kind");

const struct fault_name fault_names[] = {
	{"SIGKILL", DEATH},
	{"EIO", EIO},
	{"ENOSPC", ENOSPC},
	{"EMFILE", EMFILE},
	{"EINTR", EINTR},
	{NULL, 0},
};

const char *const scene_names[SCENES] = {"fresh", "again"};
const char *const lane_names[LANES] = {"core", "sub", "pub"};

struct running {
	struct trial trial;
	pid_t pid;
	double began;
	char dir[300];
};

static struct report *reports; /* one a job */
static struct running running[JOBS_MAX];
static int counts[SCENES][KINDS_MAX][LANES]; /* calls of each kind in the life */
static int jobs = 3, faults, violations, missed, spared, surveys, verbose;
static double slowest;
static char slowest_name[64];
static char base[200];
static struct broker own_broker;
static volatile sig_atomic_t interrupted;

/* --- names --- */

const char *fault_name(int fault)
{
	for (const struct fault_name *f = fault_names; f->name; f++)
		if (f->fault == fault)
			return f->name;
	return "?";
}

static void trial_name(const struct trial *t, char *name, size_t size)
{
	if (t->n)
		snprintf(name, size, "%s/%s@%s:%s:%d", scene_names[t->scene], kinds[t->kind].name,
			lane_names[t->lane], fault_name(t->fault), t->n);
	else
		snprintf(name, size, "%s/survey", scene_names[t->scene]);
}

/* --- in a case --- */

static const struct trial *the_trial;
static struct report *the_report;

/* proves L1-05, L1-06, L2-04 */
START_TEST(a_call_that_fails_costs_nobody_his_task)
{
	case_run(the_trial, the_report);
}
END_TEST

static void __attribute__((noreturn)) be_case(struct running *job, struct report *report)
{
	char path[400];
	Suite *s = suite_create("calls");
	int fd;

	snprintf(path, sizeof path, "%s/output", job->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, 1);
	dup2(fd, 2);
	setpgid(0, 0); /* Check, told to end between two tests, ends its whole group */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	setenv("TMPDIR", job->dir, 1);
	setenv("HCP_TEST_KEEP", "1", 1); /* the parent removes what went well */
	the_trial = &job->trial;
	the_report = report;
	suite_test(s, a_call_that_fails_costs_nobody_his_task, CASE_S);
	exit(harness_run(s, false));
}

/* --- the parent --- */

static void start(const struct trial *t, int slot)
{
	struct running *job = &running[slot];
	static int number;

	*job = (struct running){.trial = *t, .began = harness_now()};
	snprintf(job->dir, sizeof job->dir, "%s/%d", base, ++number);
	if (mkdir(job->dir, 0700) < 0) {
		perror(job->dir);
		exit(2);
	}
	memset(&reports[slot], 0, sizeof reports[slot]);
	fflush(NULL);
	job->pid = fork();
	if (job->pid == 0)
		be_case(job, &reports[slot]);
}

static void show_failure(const struct running *job, const struct report *r)
{
	const char *keep = getenv("HCP_SWEEP_KEEP");
	char name[64], command[2000];

	trial_name(&job->trial, name, sizeof name);
	printf("VIOLATION: %s: %s\n", name, r->hit ? r->what : "the fault did not come");
	*strchr(name, '/') = '-';
	fflush(stdout);
	snprintf(command, sizeof command, "grep -a -A2 '^--- failed at' %s/output | head -n 4 | cut -c 1-900",
		job->dir);
	if (system(command) != 0)
		printf("  (no reason is in the output)\n");
	snprintf(command, sizeof command, "mkdir -p %s && rm -rf %s/%s && mv %s %s/%s", keep, keep, name,
		job->dir, keep, name);
	if (system(command) == 0)
		printf("  files: %s/%s\n", keep, name);
	fflush(stdout);
}

static void say_good(const struct running *job, const struct report *r, double took)
{
	char name[64];

	trial_name(&job->trial, name, sizeof name);
	if (took > slowest) {
		slowest = took;
		snprintf(slowest_name, sizeof slowest_name, "%s", name);
	}
	if (verbose)
		printf("%s: %.2f s: %s: %s\n", name, took, r->hit || r->spared ? r->what : "nothing failed",
			r->spared         ? "cannot fail" :
				r->end[0] ? r->end :
					    "no harm");
}

static void finish(struct running *job, int status, const struct report *r)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		violations++;
		show_failure(job, r);
		return;
	}
	say_good(job, r, harness_now() - job->began);
	tree_remove(job->dir);
	if (job->trial.n == 0)
		surveys++;
	else if (r->hit)
		faults++;
	else if (r->spared)
		spared++;
	else
		missed++;
	for (int i = 0; i < kind_count * LANES && job->trial.n == 0; i++) {
		int *most = &counts[job->trial.scene][i / LANES][i % LANES],
		    now = r->counts[i / LANES][i % LANES];

		*most = now > *most ? now : *most;
	}
}

static void say_progress(int done, int total, double began)
{
	static double last;

	if (harness_now() - last < SAY_EVERY_S && last > 0)
		return;
	last = harness_now();
	printf("%d of %d, %d violations, %.0f s\n", done, total, violations, last - began);
	fflush(stdout);
}

static void run_all(const struct trial *list, int count)
{
	int next = 0, done = 0, busy = 0, status;
	double began = harness_now();
	pid_t pid;

	while (done < count && !interrupted) {
		for (int i = 0; i < jobs; i++)
			if (running[i].pid == 0 && next < count) {
				start(&list[next++], i);
				busy++;
			}
		say_progress(done, count, began);
		pid = waitpid(-1, &status, 0);
		for (int i = 0; i < jobs; i++)
			if (pid > 0 && running[i].pid == pid) {
				finish(&running[i], status, &reports[i]);
				running[i].pid = 0;
				busy--;
				done++;
			}
	}
	for (int i = 0; i < jobs; i++)
		if (running[i].pid > 0)
			kill(running[i].pid, SIGTERM);
	while (busy > 0 && waitpid(-1, &status, 0) > 0)
		busy--;
}

/* --- the plan --- */

struct wish {
	int scene, kind, lane, fault, n;
}; /* -1, and of fault and n 0: any */

static struct wish wishes[32];
static int wish_count;

static bool is_wished(const struct trial *t)
{
	for (int i = 0; i < wish_count; i++) {
		const struct wish *w = &wishes[i];

		if ((w->scene < 0 || w->scene == t->scene) && w->kind == t->kind &&
			(w->lane < 0 || w->lane == t->lane) && (!w->fault || w->fault == t->fault) &&
			(!w->n || w->n == t->n))
			return true;
	}
	return wish_count == 0;
}

static int find_name(const char *name, const char *const *names, int count)
{
	while (--count >= 0 && strcmp(names[count], name) != 0)
		;
	return count;
}

/* Cuts the text at a separator: what stands behind it, or NULL. */
static char *cut(char *text, char separator)
{
	char *at = text ? strchr(text, separator) : NULL;

	if (at)
		*at++ = 0;
	return at;
}

static void wish(const char *text)
{
	char copy[200], *kind, *lane, *fault, *n;
	struct wish w = {.scene = -1, .kind = -1, .lane = -1};
	bool good;

	snprintf(copy, sizeof copy, "%s", text);
	kind = cut(copy, '/');
	good = !kind || (w.scene = find_name(copy, scene_names, SCENES)) >= 0;
	kind = kind ? kind : copy;
	fault = cut(kind, ':');
	n = cut(fault, ':');
	lane = cut(kind, '@');
	for (int k = 0; k < kind_count; k++)
		w.kind = strcmp(kinds[k].name, kind) == 0 ? k : w.kind;
	for (const struct fault_name *f = fault_names; fault && f->name; f++)
		w.fault = strcmp(f->name, fault) == 0 ? f->fault : w.fault;
	good &= w.kind >= 0 && (!fault || w.fault) &&
		(!lane || (w.lane = find_name(lane, lane_names, LANES)) >= 0);
	if (!good || (n && (w.n = atoi(n)) < 1) || wish_count == 32) {
		fprintf(stderr, "calls: no such case: %s; [SCENE/]KIND[@THREAD][:FAULT[:N]] is wanted\n",
			text);
		exit(64);
	}
	wishes[wish_count++] = w;
}

/* Every n, or every 20th from a place that differs from fault to fault. */
static void plan_kind(struct trial t, bool quick, struct trial *list, int *count)
{
	int step = quick ? QUICK_STEP : 1, calls = counts[t.scene][t.kind][t.lane];

	for (int f = 0; f < FAULTS_MAX && kinds[t.kind].faults[f]; f++) {
		int first = quick && calls ?
			1 + (t.scene * 11 + t.kind * 7 + f * 4) % (calls < step ? calls : step) :
			1;

		t.fault = kinds[t.kind].faults[f];
		if (quick && t.scene == AGAIN && (t.kind + t.lane + f) % 2)
			continue; /* a life more each: half of them must do */
		for (t.n = first; t.n <= calls; t.n += step)
			if (is_wished(&t))
				list[(*count)++] = t;
	}
}

static int plan(bool quick, struct trial *list)
{
	int count = 0;

	for (int i = 0; i < SCENES * kind_count * LANES; i++) {
		struct trial t = {
			.scene = i / (kind_count * LANES), .kind = i / LANES % kind_count, .lane = i % LANES};

		plan_kind(t, quick, list, &count);
	}
	return count;
}

/* How many kinds are never called? */
static int sweep(bool quick)
{
	int room = 0, unused = 0, count;
	struct trial *list;

	for (int k = 0; k < kind_count; k++) {
		int sum = 0;

		printf("%s%s", k ? ", " : "calls of the lives, by core+sub+pub: ", kinds[k].name);
		for (int s = 0; s < SCENES; s++) {
			const int *c = counts[s][k];

			printf(" %d+%d+%d", c[0], c[1], c[2]);
			sum += c[0] + c[1] + c[2];
		}
		room += sum * FAULTS_MAX;
		unused += sum == 0;
	}
	printf("\n");
	list = calloc((size_t)room + 1, sizeof *list);
	count = plan(quick, list);
	printf("%d faults to come, %d at once\n", count, jobs);
	run_all(list, count);
	free(list);
	return unused;
}

/* --- where it runs --- */

/* Called by itself: the build that it belongs to, and a broker of its own. */
static void settle(void)
{
	const char *tmp = getenv("TMPDIR");
	char exe[400] = "", path[500];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	for (int i = 0; i < 2 && n > 0; i++)
		*strrchr(exe, '/') = 0;
	setenv("HCP_BUILD", exe, 0);
	snprintf(path, sizeof path, "%s/failed", getenv("HCP_BUILD"));
	setenv("HCP_SWEEP_KEEP", path, 0);
	snprintf(base, sizeof base, "%s/calls-%d", tmp ? tmp : "/tmp", getpid());
	reports = mmap(
		NULL, sizeof *reports * JOBS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mkdir(base, 0700) < 0 || reports == MAP_FAILED) {
		fprintf(stderr, "calls: %s: %s\n", base, strerror(errno));
		exit(2);
	}
	if (getenv("HCP_TEST_BROKER_URL"))
		return;
	snprintf(path, sizeof path, "%s/broker", base);
	broker_start(&own_broker, path);
	setenv("HCP_TEST_BROKER_URL", own_broker.url, 1);
	setenv("HCP_TEST_BROKER_DIR", own_broker.dir, 1);
}

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static bool read_arguments(int argc, char **argv)
{
	bool quick = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--quick") == 0)
			quick = true;
		else if (strcmp(argv[i], "-v") == 0)
			verbose = 1;
		else if (strcmp(argv[i], "-j") == 0 && i + 1 < argc)
			jobs = atoi(argv[++i]);
		else
			wish(argv[i]);
	}
	jobs = jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs;
	return quick;
}

int main(int argc, char **argv)
{
	struct trial unharmed[SCENES * SURVEYS] = {0};
	struct sigaction sa = {.sa_handler = on_signal};
	bool quick = read_arguments(argc, argv);
	int unused = 0;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	settle();
	for (int i = 0; i < SCENES * SURVEYS; i++)
		unharmed[i].scene = i / SURVEYS;
	run_all(unharmed, SCENES * SURVEYS);
	if (!interrupted && violations == 0)
		unused = sweep(quick);
	broker_stop(&own_broker);
	tree_remove(base); /* what was interrupted left its files */
	if (slowest > 0)
		printf("the slowest of those that went well: %s, %.1f s\n", slowest_name, slowest);
	printf("calls: %d kinds, %d faults, %d violations (%d did not come, %d cannot be, %d kinds are never "
	       "called)\n",
		kind_count, faults, violations, missed, spared, unused);
	printf("%d passed, %d failed\n", faults + surveys, violations + unused + interrupted);
	return violations || unused || interrupted;
}
