/* SPDX-License-Identifier: MIT */
/* disk_sweep.c: a scripted life on a disk that fails at its n-th I/O, for every n and every kind of failure.
 * Each case is a process of its own, and another for the life after a crash; the check sits in the process
 * that never had the shim. Owns the table of kinds, and the counting. Never says itself what is right
 * (final_check.c).
 *
 *   disk_sweep                  every n of every kind
 *   disk_sweep --every 5        each fifth n, another fifth for each kind
 *   disk_sweep --case torn:217  that one again, with the daemon's log */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "life.h"
#include "vfs_fault.h"

enum { CRASHED = 42, STUCK = 43, HEAL_AFTER = 4, WHY_SIZE = 4000, TIME_LIMIT_S = 60 };

static const struct kind {
	const char *name;
	const char *sentence;
	enum vfs_fault fault;
	enum vfs_loss loss;
} kinds[] = {
	{"once", "an I/O that fails once is tried again", VFS_FAIL, VFS_KEEP},
	{"on", "a disk that fails is waited for", VFS_FAIL_ON, VFS_KEEP},
	{"full", "a full disk is waited for", VFS_FULL, VFS_KEEP},
	{"tear", "half a write does no harm", VFS_TEAR, VFS_KEEP},
	{"kill", "a crash before any I/O loses nothing that was said", VFS_CRASH, VFS_KEEP},
	{"cut", "a crash in the middle of a write loses nothing that was said", VFS_CUT, VFS_KEEP},
	{"after", "a crash right after any I/O says nothing twice", VFS_CRASH_AFTER, VFS_LOSE_ALL},
	{"lost", "what was said survives a power loss with all that was not synced", VFS_CRASH, VFS_LOSE_ALL},
	{"some", "what was said survives a power loss with some that was not synced", VFS_CRASH,
		VFS_LOSE_SOME},
	{"torn", "what was said survives a power loss with torn sectors", VFS_CRASH, VFS_LOSE_SECTORS},
	{"sync", "a sync that failed is not believed later", VFS_BAD_SYNC, VFS_LOSE_ALL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What may have happened to the files beside the database while nobody had them open. */
static const struct damage {
	const char *what, *suffix;
	double cut;    /* this share of the file is left; 1: all of it */
	int cut_bytes; /* and these more, or less */
	int tail;      /* bytes behind it ... */
	int tail_byte; /* ... of this, -1: random */
	double flip;   /* this far in one byte is another; 0: none */
	bool is_removed, is_loss;
} damages[] = {
	{"no index", "-shm", 1, 0, 0, 0, 0, true, false},
	{"an empty index", "-shm", 0, 0, 0, 0, 0, false, false},
	{"a cut index", "-shm", 0.5, 7, 0, 0, 0, false, false},
	{"an index of garbage", "-shm", 0, 0, 32768, -1, 0, false, false},
	{"an index that goes on", "-shm", 1, 0, 32768, -1, 0, false, false},
	{"a bit of garbage behind the WAL", "-wal", 1, 0, 11, -1, 0, false, false},
	{"garbage behind the WAL", "-wal", 1, 0, 10000, -1, 0, false, false},
	{"zeros behind the WAL", "-wal", 1, 0, 8240, 0, 0, false, false},
	{"no WAL", "-wal", 1, 0, 0, 0, 0, true, true},
	{"an empty WAL", "-wal", 0, 0, 0, 0, 0, false, true},
	{"half the header of a WAL", "-wal", 0, 16, 0, 0, 0, false, true},
	{"a WAL of its header", "-wal", 0, 32, 0, 0, 0, false, true},
	{"a third of the WAL", "-wal", 0.33, 0, 0, 0, 0, false, true},
	{"a WAL cut in its last frame", "-wal", 1, -1000, 0, 0, 0, false, true},
	{"a WAL cut and with garbage in place", "-wal", 0.6, 0, 20000, -1, 0, false, true},
	{"another byte in the WAL's header", "-wal", 1, 0, 0, 0, 0.0001, false, true},
	{"another byte in the middle of the WAL", "-wal", 1, 0, 0, 0, 0.5, false, true},
	{"another byte near the end of the WAL", "-wal", 1, 0, 0, 0, 0.99, false, true},
};
enum { DAMAGES = sizeof damages / sizeof *damages };

static struct life *life; /* shared with the processes of a case */
static bool is_loud;

/* ---- a process of a case ---- */

static struct {
	const struct kind *kind;
	uint64_t n;
	struct final_check *final_check;
	char record[300];
} mine;

static void on_crash(void *ctx)
{
	(void)ctx;
	life_note_time(life);
	if (!final_check_save(mine.final_check, mine.record))
		_exit(1);
	vfs_lose(mine.kind->loss, mine.n);
	_exit(CRASHED);
}

static const char *path_of(const char *name)
{
	static char paths[4][300];
	static int turn;
	char *to = paths[turn++ % 4];

	snprintf(to, sizeof paths[0], "%s/%s", life->dir, name);
	return to;
}

static void __attribute__((noreturn)) live(const struct kind *kind, uint64_t n)
{
	int log = open(path_of("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
	const char *why;

	if (!is_loud)
		dup2(log, STDERR_FILENO);
	alarm(TIME_LIMIT_S);
	mine.kind = kind;
	mine.n = n;
	mine.final_check = final_check_new();
	snprintf(mine.record, sizeof mine.record, "%s", path_of("record"));
	if (access(mine.record, F_OK) == 0 && !final_check_load(mine.final_check, mine.record))
		_exit(1);
	life_prepare(life);
	vfs_register();
	vfs_on_crash(on_crash, NULL);
	vfs_arm(kind != NULL ? kind->fault : VFS_NO_FAULT, n);
	why = life_go(life, mine.final_check, HEAL_AFTER);
	if (vfs_struck() != NULL)
		fprintf(stderr, "hit: %s\n", vfs_struck());
	if (why != NULL)
		fprintf(stderr, "%s\n", why);
	if (!final_check_save(mine.final_check, mine.record))
		_exit(1);
	final_check_free(mine.final_check);
	fflush(NULL);
	_exit(why != NULL ? STUCK : 0);
}

static int run_life(const struct kind *kind, uint64_t n)
{
	pid_t pid;
	int status;

	fflush(NULL);
	if ((pid = fork()) == 0)
		live(kind, n);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- judging it ---- */

static void copy_file(const char *from, const char *to)
{
	char data[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	ssize_t n;

	unlink(to);
	if (in < 0)
		return;
	if ((out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0)
		abort();
	while ((n = read(in, data, sizeof data)) > 0)
		if (write(out, data, (size_t)n) != n)
			abort();
	close(in);
	close(out);
}

static int check_store(const char *db, unsigned flags, char *why)
{
	struct final_check *v = final_check_new();
	int violations = 1;

	if (final_check_load(v, path_of("record")))
		violations = final_check_run(v, db, flags, why, WHY_SIZE);
	else
		snprintf(why, WHY_SIZE, "no record was left\n");
	final_check_free(v);
	return violations;
}

/* What the crash left, looked at in a copy: the next life must find it as it is. */
static const char *make_copy(bool with_journals)
{
	static const char *const suffixes[] = {"", "-wal", "-journal"};
	char from[64], to[64];

	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		snprintf(from, sizeof from, "state/hcpd.db%s",
			i == 0 || with_journals ? suffixes[i] : "-none");
		snprintf(to, sizeof to, "copy.db%s", suffixes[i]);
		copy_file(path_of(from), path_of(to));
	}
	unlink(path_of("copy.db-shm"));
	return path_of("copy.db");
}

static int64_t count_events(const char *path)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db;
	int64_t n = -1;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK &&
		sqlite3_prepare_v2(db, "SELECT count(*) FROM events", -1, &st, NULL) == SQLITE_OK &&
		sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

static void show_log(void)
{
	char data[6000];
	int fd = open(path_of("log"), O_RDONLY | O_CLOEXEC);
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	ssize_t n = fd >= 0 ?
		pread(fd, data, sizeof data, size > (off_t)sizeof data ? size - (off_t)sizeof data : 0) :
		0;

	printf("--- its log\n%.*s---\n", (int)(n > 0 ? n : 0), data);
	if (fd >= 0)
		close(fd);
}

static void begin_case(void)
{
	memset(life, 0, sizeof *life);
	life_prepare(life);
}

/* 0, or 1 after saying what is wrong. */
static int end_case(const char *name, uint64_t n, int violations, const char *why)
{
	if (violations > 0) {
		printf("VIOLATION %s:%llu, %d of them:\n%s", name, (unsigned long long)n, violations, why);
		if (!is_loud)
			show_log();
	}
	if (getenv("HCP_TEST_KEEP") == NULL)
		life_remove(life);
	else
		printf("kept: %s\n", life->dir);
	return violations > 0;
}

static int finish(int status, unsigned flags, char *why)
{
	if (status != 0) {
		snprintf(why, WHY_SIZE, "%s: status %d\n",
			status == STUCK ? "the life did not come to rest" : "the daemon died", status);
		return 1;
	}
	return check_store(path_of("state/hcpd.db"), GATE_OVER | flags, why);
}

static int run_case(const struct kind *kind, uint64_t n)
{
	char why[WHY_SIZE] = "";
	int status, violations = 0;

	begin_case();
	status = run_life(kind, n);
	if (status == CRASHED) {
		violations = check_store(make_copy(true), 0, why);
		status = run_life(NULL, 0);
	}
	if (violations == 0)
		violations = finish(status, 0, why);
	return end_case(kind->name, n, violations, why);
}

/* ---- damage ---- */

static void do_damage(const struct damage *d, uint64_t seed)
{
	char name[64];
	const char *path;
	struct stat st;
	int fd;

	snprintf(name, sizeof name, "state/hcpd.db%s", d->suffix);
	path = path_of(name);
	if (d->is_removed) {
		unlink(path);
		return;
	}
	if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0 || fstat(fd, &st) < 0)
		abort();
	if (ftruncate(fd, (off_t)((double)st.st_size * d->cut) + d->cut_bytes) < 0)
		abort();
	srandom((unsigned)seed + 1);
	lseek(fd, 0, SEEK_END);
	for (int i = 0; i < d->tail; i++) {
		char c = (char)(d->tail_byte < 0 ? random() : d->tail_byte);

		if (write(fd, &c, 1) != 1)
			abort();
	}
	if (d->flip > 0) {
		off_t at = (off_t)((double)st.st_size * d->flip);
		char c = 0;

		if (pread(fd, &c, 1, at) != 1 || (c = (char)~c, pwrite(fd, &c, 1, at) != 1))
			abort();
	}
	close(fd);
}

/* Is there something in the WAL, and is none of it in the database? Once it is being moved there, or was, a
 * WAL that lost a part leaves a database that nobody can mend. */
static bool is_behind(void)
{
	char why[WHY_SIZE];
	int64_t all = count_events(make_copy(true)), alone = count_events(make_copy(false));

	return alone >= 0 && alone < all && check_store(path_of("copy.db"), GATE_LOSSY, why) == 0;
}

/* A crash at the n-th I/O or soon after it, and then somebody's hand. */
static int run_damage(const struct damage *d, uint64_t n)
{
	static const struct kind crash = {"damage", "", VFS_CRASH, VFS_KEEP};
	char why[WHY_SIZE] = "";
	int violations;

	for (;; n++) {
		begin_case();
		if (run_life(&crash, n) != CRASHED)
			abort();
		if (is_behind())
			break;
		life_remove(life);
	}
	do_damage(d, n);
	violations = finish(run_life(NULL, 0), d->is_loss ? GATE_LOSSY : 0, why);
	if (violations > 0)
		printf("damage: %s\n", d->what);
	return end_case("damage", n * 100 + (uint64_t)(d - damages), violations, why);
}

/* ---- all of it ---- */

/* How many I/Os, and syncs among them, the life has when nothing fails; 0: it does not even work then. */
static uint64_t count_ios(uint64_t *syncs)
{
	char why[WHY_SIZE] = "";

	begin_case();
	if (end_case("none", 0, finish(run_life(NULL, 0), 0, why), why) > 0)
		return 0;
	*syncs = life->syncs;
	return life->ios;
}

static int run_one(const char *name)
{
	const char *colon = strchr(name, ':');
	uint64_t n = colon != NULL ? strtoull(colon + 1, NULL, 10) : 0;
	int failed;

	is_loud = true;
	if (n > 0 && strncmp(name, "damage:", 7) == 0 && n % 100 < DAMAGES) {
		failed = run_damage(&damages[n % 100], n / 100);
		printf("%d passed, %d failed\n", !failed, failed);
		return failed;
	}
	for (int i = 0; i < KINDS && n > 0; i++) {
		if (strncmp(name, kinds[i].name, strlen(kinds[i].name)) != 0 ||
			name[strlen(kinds[i].name)] != ':')
			continue;
		failed = run_case(&kinds[i], n);
		printf("%d passed, %d failed\n", !failed, failed);
		return failed;
	}
	fprintf(stderr, "disk_sweep: no case %s; KIND:N, and KIND is one of damage", name);
	for (int i = 0; i < KINDS; i++)
		fprintf(stderr, ", %s", kinds[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static int sweep(uint64_t every)
{
	uint64_t syncs = 0, ios = count_ios(&syncs), faults = 0;
	int violations = 0, failed = 0, passed = 0, before;

	for (int i = 0; i < KINDS && ios > 0; i++) {
		before = violations;
		for (uint64_t n = 1 + (uint64_t)i % every;
			n <= (kinds[i].fault == VFS_BAD_SYNC ? syncs : ios); n += every, faults++)
			violations += run_case(&kinds[i], n);
		printf("%-4s %-6s %s\n", violations == before ? "ok" : "NOT", kinds[i].name,
			kinds[i].sentence);
		*(violations == before ? &passed : &failed) += 1;
		fflush(stdout);
	}
	before = violations;
	for (int i = 0; i < DAMAGES && ios > 0; i++)
		for (uint64_t part = 1; part <= (every > 1 ? 1 : 4); part++, faults++)
			violations += run_damage(&damages[i], ios * (3 + part) / 10);
	printf("%-4s damage a WAL or index that was harmed is opened\n",
		violations == before && ios > 0 ? "ok" : "NOT");
	*(violations == before && ios > 0 ? &passed : &failed) += 1;
	printf("disk: %llu faults over %llu I/Os, %d violations\n", (unsigned long long)faults,
		(unsigned long long)ios, violations);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"every", required_argument, NULL, 'e'},
		{"case", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};
	const char *one = NULL;
	long every = 1;
	int option;

	while ((option = getopt_long(argc, argv, "e:c:", options, NULL)) != -1) {
		switch (option) {
		case 'e': every = atol(optarg); break;
		case 'c': one = optarg; break;
		default: every = 0;
		}
	}
	if (every < 1 || optind < argc) {
		fprintf(stderr, "usage: disk_sweep [--every K] [--case KIND:N]\n");
		return 2;
	}
	life = mmap(NULL, sizeof *life, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (life == MAP_FAILED)
		return 1;
	return one != NULL ? run_one(one) : sweep((uint64_t)every);
}
