/* SPDX-License-Identifier: MIT */
/* points.c: the sweep over the crash points: every point at its first passings, in lives that reach it.
 *	points [--quick] [-j JOBS] [NAME[:N]...]
 *	points --survey          how often each life passes each point
 * First a survey: every scenario once, unharmed, which says how often each of its lives passes each point.
 * Then for each point and n one case: a fresh life in which hcpd dies at that passing and is started
 * again, until all has ended. A point that is nowhere reached is a failure. Owns the plan and the
 * processes; life.c plays, final_check.c checks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "life.h"

#include "base/crashpoint.h"

#define POINTS_MAX 1000
#define PASSINGS 10
#define LIVES 2 /* of a scenario: the first, and the one that recovers */
#define JOBS_MAX 8
#define SCENARIOS_MAX 32
#define CASE_S 80
#define SAY_EVERY_S 30.0
#define MESSAGE_LIMIT \
	"30000" /* of the broker: below task `big` of scenario "callers", far above all else \
		 */

struct point {
	char name[CRASH_NAME_SIZE];
	unsigned long long passed[SCENARIOS_MAX][LIVES]; /* by scenario */
	bool wanted, reached;
	int only; /* this passing alone; 0: all */
};

/* One life with one death in it, or (n 0) none. */
struct trial {
	int point, n, scenario, life;
	int tries; /* scenarios that were tried in vain */
	pid_t pid;
	char dir[300];
};

/* What a case tells its parent: it lives in shared memory. */
struct report {
	bool died;
	unsigned long long passed[LIVES][POINTS_MAX];
};

static struct point points[POINTS_MAX];
static int point_count;
static struct report *reports; /* one a job */
static struct trial running[JOBS_MAX];
static int jobs = 3, crashes, violations, unreached, surveys;
static int at_slot; /* in a case: its own */
static char base[200];
static volatile sig_atomic_t interrupted;

/* --- in a case --- */

static int find_point(const char *name)
{
	for (int i = 0; i < point_count; i++)
		if (strcmp(points[i].name, name) == 0)
			return i;
	return -1;
}

static const char *counts_path(struct life *l)
{
	return rig_path(l->rig, "counts-%d", l->number);
}

static void arm(struct life *l)
{
	const struct trial *t = l->ctx;

	rig_env(l->rig, "HCP_CRASH_COUNTS=%s", counts_path(l));
	if (t->n > 0 && l->number == t->life + 1)
		rig_env(l->rig, "HCP_CRASH=%s:%d", points[t->point].name, t->n);
	else
		rig_env(l->rig, "HCP_CRASH"); /* putenv takes it out again */
}

static bool was_cut(struct life *l)
{
	const struct trial *t = l->ctx;
	struct report *report = &reports[at_slot];
	struct crash_record *r;
	size_t size;
	char *data = file_read(counts_path(l), &size);
	bool died = false;

	must(data && size % sizeof *r == 0 && size > 0,
		"hcpd kept no counts: is it built with crash points?");
	r = (struct crash_record *)(void *)data;
	for (size_t i = 0; i < size / sizeof *r; i++) {
		int p = find_point(r[i].name);

		must(p >= 0, "a point that is not in the list: %s", r[i].name);
		if (l->number <= LIVES)
			report->passed[l->number - 1][p] = r[i].passed;
		if (r[i].died == 0)
			continue;
		must(p == t->point && (int)r[i].died == t->n && l->status == 128 + SIGKILL,
			"it died at %s:%llu, status %d", r[i].name, (unsigned long long)r[i].died, l->status);
		died = true;
	}
	free(data);
	report->died |= died;
	return died;
}

static const struct trial *the_trial;

START_TEST(daemon_goes_on_after_a_crash_at_each_point)
{
	static const struct life_ops ops = {arm, was_cut};
	struct trial t = *the_trial;
	struct life l;

	printf("%s:%d, scenario %s, life %d\n", t.n ? points[t.point].name : "survey", t.n,
		scenarios[t.scenario].name, t.life + 1);
	life_run(&l, &scenarios[t.scenario], &ops, &t);
}
END_TEST

static void __attribute__((noreturn)) be_case(struct trial *t)
{
	char path[400];
	Suite *s = suite_create("points");
	int fd;

	/* when told to end, Check ends its whole group: that must not be ours */
	setpgid(0, 0);
	snprintf(path, sizeof path, "%s/log", t->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, 1);
	dup2(fd, 2);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	setenv("TMPDIR", t->dir, 1);
	setenv("HCP_TEST_KEEP", "1", 1); /* the parent removes what went well */
	the_trial = t;
	suite_test(s, daemon_goes_on_after_a_crash_at_each_point, CASE_S);
	exit(harness_run(s, false));
}

/* --- the parent --- */

static void describe(const struct trial *t, char *text, size_t size)
{
	if (t->n)
		snprintf(text, size, "%s:%d (scenario %s, life %d)", points[t->point].name, t->n,
			scenarios[t->scenario].name, t->life + 1);
	else
		snprintf(text, size, "survey (scenario %s)", scenarios[t->scenario].name);
}

static void start(struct trial *t, int slot)
{
	static int number;

	snprintf(t->dir, sizeof t->dir, "%s/%d", base, ++number);
	if (mkdir(t->dir, 0700) < 0) {
		perror(t->dir);
		exit(2);
	}
	memset(&reports[slot], 0, sizeof reports[slot]);
	fflush(NULL);
	at_slot = slot;
	running[slot] = *t;
	running[slot].pid = fork();
	if (running[slot].pid == 0)
		be_case(&running[slot]);
}

static bool fits(const struct trial *t, int i, bool large)
{
	return scenarios[i / LIVES].is_large == large &&
		points[t->point].passed[i / LIVES][i % LIVES] >= (unsigned long long)t->n;
}

/* A life of a scenario in which this passing is reached, after `tries` others were tried in vain. Not always
 * the first: the same passing is another moment in another scenario. False: there is none. */
static bool choose(struct trial *t)
{
	int count[2] = {0, 0}, total = scenario_count * LIVES, skip;

	for (int i = 0; i < total; i++) {
		count[0] += fits(t, i, false);
		count[1] += fits(t, i, true);
	}
	if (t->tries >= count[0] + count[1])
		return false;
	bool large = t->tries >= count[0];
	skip = (t->point + t->n + t->tries) % count[large];
	for (int i = 0; i < total; i++)
		if (fits(t, i, large) && skip-- == 0) {
			t->scenario = i / LIVES;
			t->life = i % LIVES;
		}
	return true;
}

static void show_failure(const struct trial *t)
{
	char what[300], command[2000], kept[600];
	const char *keep = getenv("HCP_SWEEP_KEEP");

	describe(t, what, sizeof what);
	printf("VIOLATION: %s\n", what);
	fflush(stdout);
	snprintf(command, sizeof command, "grep -a -A2 '^--- failed at' '%s/log' | head -n 6 | cut -c 1-1500",
		t->dir);
	if (system(command) != 0)
		printf("  (no reason is in the log)\n");
	snprintf(kept, sizeof kept, "%.400s/%s-%d", keep ? keep : base,
		t->n ? points[t->point].name : scenarios[t->scenario].name, t->n);
	for (char *c = strrchr(kept, '/'); *c; c++)
		*c = *c == ' ' ? '-' : *c; /* a scenario's name may have one */
	snprintf(command, sizeof command, "mkdir -p '%s' && rm -rf '%s' && mv '%s' '%s'", keep ? keep : base,
		kept, t->dir, kept);
	if (system(command) == 0)
		printf("  files: %s\n", kept);
	fflush(stdout);
}

static void learn(const struct trial *t, const struct report *r)
{
	for (int life = 0; life < LIVES; life++)
		for (int p = 0; p < point_count; p++)
			points[p].passed[t->scenario][life] = r->passed[life][p];
}

/* True: it must be tried again elsewhere. */
static bool finish(struct trial *t, int slot, int status)
{
	bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0, died = reports[slot].died;

	if (!good) {
		violations++;
		points[t->point].reached |= t->n && died;
		show_failure(t);
		return false;
	}
	tree_remove(t->dir);
	if (t->n == 0) {
		learn(t, &reports[slot]);
		surveys++;
		return false;
	}
	if (!died) {
		t->tries++;
		if (choose(t))
			return true;
		unreached++;
		return false;
	}
	crashes++;
	points[t->point].reached = true;
	return false;
}

static void say_progress(int done, int total, double began, bool now)
{
	static double last;

	if (!now && harness_now() - last < SAY_EVERY_S)
		return;
	last = harness_now();
	printf("%d of %d, %d violations, %.0f s\n", done, total, violations, last - began);
	fflush(stdout);
}

static void run_all(struct trial *list, int count)
{
	int next = 0, done = 0, busy = 0, status;
	double began = harness_now();
	struct trial again[JOBS_MAX];
	int again_count = 0;
	pid_t pid;

	say_progress(0, count, began, true);
	while (done < count && !interrupted) {
		for (int i = 0; i < jobs; i++)
			if (running[i].pid == 0 && (again_count > 0 || next < count)) {
				struct trial t = again_count > 0 ? again[--again_count] : list[next++];

				start(&t, i);
				busy++;
			}
		pid = waitpid(-1, &status, 0);
		for (int i = 0; i < jobs; i++)
			if (pid > 0 && running[i].pid == pid) {
				running[i].pid = 0;
				busy--;
				if (finish(&running[i], i, status))
					again[again_count++] = running[i];
				else
					done++;
			}
		say_progress(done, count, began, false);
	}
	for (int i = 0; i < jobs; i++)
		if (running[i].pid > 0)
			kill(running[i].pid, SIGTERM);
	while (busy > 0 && waitpid(-1, &status, 0) > 0)
		busy--;
}

static void survey(void)
{
	struct trial list[SCENARIOS_MAX] = {0};

	for (int i = 0; i < scenario_count && i < SCENARIOS_MAX; i++)
		list[i].scenario = i;
	printf("survey: %d scenarios without a crash\n", scenario_count);
	run_all(list, scenario_count);
}

static void sweep(bool quick)
{
	struct trial *list = calloc((size_t)point_count * PASSINGS + 1, sizeof *list);
	int count = 0;

	for (int p = 0; p < point_count; p++)
		for (int n = 1; n <= (points[p].only ? points[p].only : quick ? 1 : PASSINGS); n++) {
			struct trial t = {.point = p, .n = n};

			if (!points[p].wanted || (points[p].only && n != points[p].only))
				continue;
			if (choose(&t))
				list[count++] = t;
			else
				unreached++;
		}
	printf("%d crash points, %d deaths to die, %d at once\n", point_count, count, jobs);
	run_all(list, count);
	free(list);
}

static void show_survey(void)
{
	printf("%-28s", "");
	for (int i = 0; i < scenario_count; i++)
		printf(" %11s", scenarios[i].name);
	for (int p = 0; p < point_count; p++) {
		printf("\n%-28s", points[p].name);
		for (int i = 0; i < scenario_count; i++)
			printf(" %5llu %5llu", points[p].passed[i][0], points[p].passed[i][1]);
	}
	printf("\n");
}

/* Asked of the program itself, so that no list can be out of date. */
static void list_points(void)
{
	const char *build = getenv("HCP_BUILD");
	char command[600], line[CRASH_NAME_SIZE + 2];
	FILE *f;

	snprintf(command, sizeof command, "HCP_CRASH=list %s/hcpd", build ? build : "build/crash");
	f = popen(command, "r");
	while (f && point_count < POINTS_MAX && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		snprintf(points[point_count++].name, CRASH_NAME_SIZE, "%.47s", line);
	}
	if (!f || pclose(f) != 0 || point_count == 0) {
		fprintf(stderr, "points: %s does not list its crash points\n", command);
		exit(2);
	}
}

static void want(char *name)
{
	char *colon = strchr(name, ':');
	int p;

	if (colon)
		*colon = 0;
	if ((p = find_point(name)) < 0) {
		fprintf(stderr, "points: no such point: %s\n", name);
		exit(64);
	}
	points[p].wanted = true;
	points[p].only = colon ? atoi(colon + 1) : 0;
}

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct sigaction sa = {.sa_handler = on_signal};
	bool quick = false, all = true, only_survey = false;
	int missed = 0;

	if (scenario_count > SCENARIOS_MAX) {
		fprintf(stderr, "points: %d scenarios, and room for %d\n", scenario_count, SCENARIOS_MAX);
		return 2;
	}
	list_points();
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--quick") == 0) {
			quick = true;
		} else if (strcmp(argv[i], "--survey") == 0) {
			only_survey = true;
		} else if (strcmp(argv[i], "-j") == 0 && i + 1 < argc) {
			jobs = atoi(argv[++i]);
		} else {
			want(argv[i]);
			all = false;
		}
	}
	if (scenario_count > SCENARIOS_MAX) {
		fprintf(stderr, "points: %d scenarios are more than %d: raise SCENARIOS_MAX\n",
			scenario_count, SCENARIOS_MAX);
		return 2;
	}
	jobs = jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs;
	for (int p = 0; p < point_count && all; p++)
		points[p].wanted = true;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	snprintf(base, sizeof base, "%s/points-%d", tmp ? tmp : "/tmp", getpid());
	mkdir(base, 0700);
	reports = mmap(
		NULL, sizeof *reports * JOBS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED ||
		broker_eval(broker_shared(),
			"application:set_env(rabbit, max_message_size, " MESSAGE_LIMIT ").") != 0) {
		fprintf(stderr, "points: no memory, or no private broker (scripts/sweep starts one)\n");
		return 2;
	}
	survey();
	if (only_survey)
		show_survey();
	else if (!interrupted && violations == 0)
		sweep(quick);
	for (int p = 0; p < point_count && !only_survey && !interrupted && violations == 0; p++)
		if (points[p].wanted && !points[p].reached) {
			printf("never reached: %s\n", points[p].name);
			missed++;
		}
	rmdir(base);
	printf("points: %d points, %d crashes, %d violations (%d passings not reached, %d points never)\n",
		point_count, crashes, violations, unreached, missed);
	printf("%d passed, %d failed\n", crashes + surveys, violations + missed + interrupted);
	return violations || missed || interrupted;
}
