/* SPDX-License-Identifier: MIT */
/* simulate.c: seeds over processes, and the figures of a run.
 *
 *	simulate [-n COUNT] [--first SEED] [--seed SEED] [--jobs N] [--verbose] [--stats] [--hash]
 *	[--self-test]
 *
 * Owns the options, the children and what they share. A child plays seed after seed; one that finds a
 * violation, dies or hangs is reported with its seed, and another goes on behind it. Never plays anything
 * itself. */
#include "sim.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#define JOBS_MAX 64
#define CHUNK 16         /* seeds that a child takes at a time */
#define HANG_S 120       /* a seed takes milliseconds */
#define REPORTED_MAX 10  /* then the run ends */
#define COVER_SEEDS 3000 /* from so many on, everything must have happened */
#define REPLAYED 40      /* seeds of the self test, each of which is played twice */
#define LIE_SEEDS 400    /* within so many each lie must be noticed */

struct slot {             /* a child's, shared with its parent */
	uint64_t at, end; /* of its chunk */
	uint64_t seeds, steps, turns, crashes, lives;
	uint64_t cover[COVER_COUNT];
	char message[2048];
};

struct shared {
	_Atomic uint64_t next;
	uint64_t hashes[2][REPLAYED];
	struct slot slots[JOBS_MAX];
};

static struct {
	uint64_t first, count;
	int jobs;
	bool verbose, stats, hash, self_test;
	enum lie lie;
	int pass; /* of a replay, 1 or 2; 0: none */
} options = {.first = 1, .count = 1000, .jobs = 1};

static struct shared *shared;
static struct slot *slot; /* this child's */
static char base[200];

void violation(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(slot->message, sizeof slot->message, fmt, ap);
	va_end(ap);
	fflush(stdout);
	_exit(1);
}

/* ---- the child ---- */

static void play(uint64_t seed)
{
	alarm(HANG_S);
	sim_world_reset(seed);
	script_play();
	slot->seeds++;
	slot->steps += sim.steps;
	slot->turns += sim.turns;
	slot->crashes += sim.crashes;
	slot->lives += sim.lives;
	if (options.hash)
		printf("seed %llu hash %016llx\n", (unsigned long long)seed, (unsigned long long)sim.hash);
	if (options.pass > 0)
		shared->hashes[options.pass - 1][seed - options.first] = sim.hash;
	sim_world_finish();
}

static _Noreturn void child(int job)
{
	uint64_t end = options.first + options.count;
	char dir[240];

	signal(SIGINT, SIG_IGN); /* the parent lets us finish what we are at */
	signal(SIGTERM, SIG_DFL);
	slot = &shared->slots[job];
	cover_counts = slot->cover;
	sim.verbose = options.verbose;
	sim.lie = options.lie;
	snprintf(dir, sizeof dir, "%s/job%d-XXXXXX", base, job);
	if (mkdtemp(dir) == NULL)
		violation("%s: %s", dir, strerror(errno));
	json_object_seed(1);
	sim_world_init(dir);
	for (;;) {
		if (slot->at == slot->end) {
			slot->at = atomic_fetch_add(&shared->next, CHUNK);
			slot->end = slot->at + CHUNK < end ? slot->at + CHUNK : end;
			if (slot->at >= end)
				break;
		}
		/* The second pass of a replay goes backwards: what a seed does must not depend on those
		 * before it. */
		while (slot->at < slot->end) {
			play(options.pass == 2 ? options.first + (end - 1 - slot->at) : slot->at);
			slot->at++;
		}
	}
	sim_world_fini();
	fflush(stdout);
	exit(0);
}

/* ---- the parent ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

static void clean_up(void)
{
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Interrupted: no more seeds, and the figures of those that were played. */
static void on_interrupt(int number)
{
	(void)number;
	atomic_store(&shared->next, UINT64_MAX / 2);
}

static pid_t start(int job)
{
	pid_t pid;

	fflush(stdout);
	if ((pid = fork()) == 0)
		child(job);
	if (pid < 0) {
		perror("simulate: fork");
		exit(2);
	}
	return pid;
}

static void report(const struct slot *s, int status, bool quietly)
{
	char how[64] = "";

	if (WIFSIGNALED(status))
		snprintf(how, sizeof how, "%s",
			WTERMSIG(status) == SIGALRM ? "does not end" : strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 1 || s->message[0] == '\0')
		snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(status));
	if (quietly)
		return;
	printf("seed %llu: %s%s%s\n", (unsigned long long)s->at, how,
		how[0] != '\0' && s->message[0] != '\0' ? ": " : "", s->message);
	if (!options.verbose)
		printf("  replay: scripts/simulate --seed %llu --verbose\n", (unsigned long long)s->at);
}

/* How many seeds went wrong; where only one is wanted, which it was. */
static int run(bool quietly, int most, uint64_t *which)
{
	pid_t pids[JOBS_MAX] = {0};
	int alive = options.jobs, bad = 0, status;

	memset(shared->slots, 0, sizeof shared->slots);
	atomic_store(&shared->next, options.first);
	for (int i = 0; i < options.jobs; i++)
		pids[i] = start(i);
	while (alive > 0) {
		pid_t pid = waitpid(-1, &status, 0);
		int job = 0;

		while (job < options.jobs && pids[job] != pid)
			job++;
		if (pid < 0 || job == options.jobs)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			alive--;
			continue;
		}
		report(&shared->slots[job], status, quietly);
		if (which != NULL)
			*which = shared->slots[job].at;
		if (++bad >= most) { /* enough: the others take no more */
			atomic_store(&shared->next, options.first + options.count);
			alive--;
			continue;
		}
		shared->slots[job].at++;
		shared->slots[job].message[0] = '\0';
		pids[job] = start(job);
	}
	return bad;
}

static void sum_up(struct slot *sum)
{
	memset(sum, 0, sizeof *sum);
	for (int i = 0; i < options.jobs; i++) {
		const struct slot *s = &shared->slots[i];

		sum->seeds += s->seeds;
		sum->steps += s->steps;
		sum->turns += s->turns;
		sum->crashes += s->crashes;
		sum->lives += s->lives;
		for (int c = 0; c < COVER_COUNT; c++)
			sum->cover[c] += s->cover[c];
	}
}

/* ---- the self test ---- */

static int check(bool good, const char *what)
{
	printf("%s: %s\n", good ? "ok" : "FAILED", what);
	return !good;
}

/* proves nothing of the daemon, but that a seed is all that a run depends on */
static int check_replay(void)
{
	int jobs = options.jobs, bad;

	options.jobs = 1;
	options.pass = 1;
	bad = run(false, REPORTED_MAX, NULL);
	options.pass = 2;
	bad += run(false, REPORTED_MAX, NULL);
	options.pass = 0;
	options.jobs = jobs;
	return check(bad == 0 && memcmp(shared->hashes[0], shared->hashes[1], sizeof shared->hashes[0]) == 0,
		"a seed played again, in another process and after others, does the same");
}

static int check_lies(void)
{
	static const char *const names[LIE_COUNT] = {[LIE_LOSES] = "a broker that loses what it confirmed",
		[LIE_FORGETS] = "a disk that forgets what was synced",
		[LIE_SURVIVES] = "a process that outlives its session",
		[LIE_ACKS] = "a broker that forgets a command",
		[LIE_PUPPET] = "a program that never said what was taken for its word",
		[LIE_TAMPERS] = "a row of the audit that was changed"};
	int failed = 0;

	for (int lie = 1; lie < LIE_COUNT; lie++) {
		char what[128];
		uint64_t seed = 0;
		bool noticed;

		options.lie = (enum lie)lie;
		noticed = run(true, 1, &seed) > 0;
		snprintf(what, sizeof what, "%s is noticed, by seed %llu", names[lie],
			(unsigned long long)seed);
		failed += check(noticed, what);
	}
	options.lie = LIE_NONE;
	return failed;
}

static int self_test(int *passed)
{
	uint64_t first = options.first, count = options.count;
	int failed;

	options.count = REPLAYED;
	failed = check_replay();
	options.count = LIE_SEEDS;
	failed += check_lies();
	options.first = first;
	options.count = count;
	*passed += LIE_COUNT - failed;
	return failed;
}

/* ---- options ---- */

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*end != '\0' || errno != 0 || n == 0) {
		fprintf(stderr, "simulate: %s is not a number above 0\n", text);
		exit(2);
	}
	return n;
}

static void read_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{"count", required_argument, NULL, 'n'},
		{"first", required_argument, NULL, 'f'},
		{"seed", required_argument, NULL, 's'},
		{"jobs", required_argument, NULL, 'j'},
		{"verbose", no_argument, NULL, 'v'},
		{"stats", no_argument, NULL, 't'},
		{"hash", no_argument, NULL, 'h'},
		{"self-test", no_argument, NULL, 'S'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "n:f:s:j:v", longs, NULL)) != -1) {
		switch (option) {
		case 'n': options.count = number(optarg); break;
		case 'f': options.first = number(optarg); break;
		case 's':
			options.first = number(optarg);
			options.count = 1;
			options.hash = true;
			break;
		case 'j': options.jobs = (int)number(optarg); break;
		case 'v': options.verbose = true; break;
		case 't': options.stats = true; break;
		case 'h': options.hash = true; break;
		case 'S': options.self_test = true; break;
		default:
			fprintf(stderr,
				"usage: simulate [-n COUNT] [--first SEED] [--seed SEED] [--jobs N] "
				"[--verbose] [--stats] [--hash] [--self-test]\n");
			exit(2);
		}
	}
	if (getenv("HCP_SIM_VERBOSE") != NULL)
		options.verbose = true;
	if (options.jobs > JOBS_MAX)
		options.jobs = JOBS_MAX;
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct slot sum;
	int bad, missing = 0, failed = 0, passed = 0;

	read_options(argc, argv);
	snprintf(base, sizeof base, "%s/hcp-sim-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mkdtemp(base) == NULL || shared == MAP_FAILED) {
		perror("simulate");
		return 2;
	}
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	if (options.self_test)
		failed = self_test(&passed);
	bad = run(false, REPORTED_MAX, NULL);
	clean_up();
	sum_up(&sum);
	if (options.stats)
		cover_print(sum.cover);
	if (sum.seeds >= COVER_SEEDS) {
		missing = cover_missing(sum.cover);
		missing > 0 ? failed++ : passed++;
	}
	bad > 0 ? failed++ : passed++;
	printf("simulate: %llu seeds, %llu steps, %llu turns, %llu lives, %llu crashes, %d violations\n",
		(unsigned long long)sum.seeds, (unsigned long long)sum.steps, (unsigned long long)sum.turns,
		(unsigned long long)sum.lives, (unsigned long long)sum.crashes, bad);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
