/* SPDX-License-Identifier: MIT */
/* test_wal_vfs.c: the log is written in one piece for each commit, and is as good as SQLite's own, whatever
 * the disk does with the pieces. */
#include "store/store.h"

#include <check.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>

#include <sqlite3.h>

#include "support/fakes/fake_disk.h"

#define LARGE 4000 /* bytes of an event; with LARGE_COUNT of them SQLite's cache is too small */
#define LARGE_COUNT 1500

static char dir[200], path[256];
static struct store *s;
static sqlite3 *eye;
static int64_t last;

static sqlite3 *look(void)
{
	sqlite3 *db;

	ck_assert(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	return db;
}

static int64_t ask(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st;
	int64_t n;

	ck_assert_msg(
		sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	return n;
}

static int64_t count_events(sqlite3 *db)
{
	return ask(db, "SELECT count(*) FROM events");
}

/* All events are there, each with its own text, and SQLite finds no fault in the file. */
static void expect_sound(sqlite3 *db, int64_t count)
{
	ck_assert_int_eq(count_events(db), count);
	ck_assert_int_eq(ask(db, "SELECT count(*) FROM events WHERE body NOT LIKE id || ':%'"), 0);
	ck_assert_int_eq(
		ask(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

static void open_store(void)
{
	char why[256] = "";

	ck_assert_msg(store_open(dir, &s, why, sizeof why) == EX_OK, "%s", why);
	eye = look();
}

static void close_store(void)
{
	sqlite3_close(eye);
	store_close(s);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-wal-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	last = 0;
	open_store();
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

static void teardown(void)
{
	fake_disk_mend();
	close_store();
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put_events(int count, size_t size)
{
	char *text = malloc(size + 1);

	for (int i = 0; i < count; i++) {
		int64_t id = ++last;
		struct store_event e = {.id = id, .session = id % 7, .caller = 1, .type = "event"};

		memset(text, 'x', size);
		text[size] = '\0';
		text[snprintf(text, size, "%lld:", (long long)last)] = 'x';
		e.body = blob_new(text, size);
		store_put_event(s, &e);
		blob_unref(e.body);
	}
	free(text);
}

static void commit(int count, size_t size)
{
	put_events(count, size);
	ck_assert_msg(store_run(s) == 0, "%s", store_error(s));
}

/* ---- one piece ---- */

START_TEST(a_commit_is_one_write_of_the_log)
{
	unsigned writes, syncs;

	commit(1, 100); /* the log has its header now */
	writes = fake_disk.wal_writes;
	syncs = fake_disk.wal_syncs;
	commit(10, 2000);
	ck_assert_uint_eq(fake_disk.wal_writes - writes, 1);
	ck_assert_uint_eq(fake_disk.wal_syncs - syncs, 1);
	expect_sound(eye, 11);
}
END_TEST

START_TEST(a_commit_of_many_pages_is_whole)
{
	unsigned writes = fake_disk.wal_writes;

	commit(LARGE_COUNT, LARGE);
	expect_sound(eye, LARGE_COUNT);
	ck_assert_uint_gt(fake_disk.wal_writes - writes, 1);
	ck_assert_uint_lt(fake_disk.wal_writes - writes, LARGE_COUNT);
	/* Once more, over pages that the commit before wrote. */
	store_drop_rows(s, 0, 1, INT64_MAX);
	commit(LARGE_COUNT, LARGE);
	expect_sound(eye, 2 * LARGE_COUNT);
}
END_TEST

/* ---- a bad disk ---- */

/* The log fails at its n-th write; i: which error, and whether half of the write is there. */
static void fail_at(int n, int i)
{
	fake_disk.write_error = i & 1 ? ENOSPC : EIO;
	fake_disk.write_halves = i & 2;
	fake_disk.writes_left = n;
}

START_TEST(a_write_that_fails_is_a_commit_that_fails)
{
	unsigned writes;

	commit(3, 2000);
	put_events(5, 2000);
	for (int i = 0; i < 3; i++) {
		fail_at(0, _i);
		ck_assert_int_lt(store_run(s), 0);
		ck_assert_msg(strstr(store_error(s), _i & 1 ? "full" : "I/O") != NULL, "%s", store_error(s));
		ck_assert_int_eq(count_events(eye), 3);
	}
	fake_disk_mend();
	writes = fake_disk.wal_writes;
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_uint_eq(fake_disk.wal_writes - writes, 1); /* nothing of the tries before comes along */
	expect_sound(eye, 8);
}
END_TEST

START_TEST(a_sync_that_fails_after_the_write_is_tried_as_a_whole)
{
	commit(3, 2000);
	put_events(5, 2000);
	fake_disk.sync_error = EIO;
	ck_assert_int_lt(store_run(s), 0);
	ck_assert_int_eq(count_events(eye), 3);
	fake_disk_mend();
	ck_assert_int_eq(store_run(s), 0);
	expect_sound(eye, 8);
}
END_TEST

START_TEST(a_large_commit_that_fails_midway_loses_nothing)
{
	commit(3, 2000);
	put_events(LARGE_COUNT, LARGE);
	for (int n = 0; n < 40; n += 1 + n / 3) {
		fail_at(n, _i);
		ck_assert_int_lt(store_run(s), 0);
		ck_assert_int_eq(count_events(eye), 3);
	}
	fake_disk_mend();
	ck_assert_int_eq(store_run(s), 0);
	expect_sound(eye, 3 + LARGE_COUNT);
	commit(1, 100);
	close_store();
	open_store();
	expect_sound(eye, 4 + LARGE_COUNT);
}
END_TEST

/* ---- others at the same file ---- */

/* What a crash of the process leaves: the files as they are, opened by nobody yet. */
static void expect_sound_copy(int64_t count)
{
	char command[1200], copy[300];
	struct store *other;
	sqlite3 *db;

	snprintf(copy, sizeof copy, "%s/copy", dir);
	snprintf(command, sizeof command, "mkdir -p %s && cp %s %s-wal %s", copy, path, path, copy);
	ck_assert_int_eq(system(command), 0); /* another process: a close in this one would drop locks */
	ck_assert_int_eq(store_open(copy, &other, command, sizeof command), EX_OK);
	snprintf(command, sizeof command, "%s/hcpd.db", copy);
	ck_assert(sqlite3_open_v2(command, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
	expect_sound(db, count);
	sqlite3_close(db);
	store_close(other);
}

START_TEST(each_commit_survives_a_crash_also_past_a_checkpoint)
{
	for (int i = 1; i <= 1200; i++) {
		commit(1, 3000);
		if (i % 150 == 0)
			expect_sound_copy(i);
	}
}
END_TEST

/* For each byte that comes it answers with the number of events. */
static void __attribute__((noreturn)) be_reader(int in, int out)
{
	sqlite3 *db = NULL;
	char byte;

	while (read(in, &byte, 1) == 1) {
		int64_t n;

		if (db == NULL)
			db = look();
		n = count_events(db);
		if (write(out, &n, sizeof n) != (ssize_t)sizeof n)
			_exit(1);
	}
	sqlite3_close(db);
	_exit(0);
}

START_TEST(a_reader_in_another_process_sees_each_commit)
{
	int to[2], from[2], status;
	pid_t pid;

	close_store(); /* a child must not inherit what SQLite knows of locks */
	ck_assert(pipe(to) == 0 && pipe(from) == 0);
	if ((pid = fork()) == 0) {
		close(to[1]);
		be_reader(to[0], from[1]);
	}
	ck_assert_int_gt(pid, 0);
	open_store();
	for (int i = 1; i <= 600; i++) {
		int64_t seen;

		put_events(1, 3000);
		ck_assert_int_eq(store_run(s), 0);
		ck_assert(write(to[1], "?", 1) == 1 && read(from[0], &seen, sizeof seen) == sizeof seen);
		ck_assert_int_eq(seen, i);
	}
	close(to[1]);
	ck_assert(waitpid(pid, &status, 0) == pid && status == 0);
	close(to[0]);
	close(from[0]);
	close(from[1]);
	expect_sound(eye, 600);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wal_vfs");
	TCase *t = tcase_create("wal_vfs");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_commit_is_one_write_of_the_log);
	tcase_add_test(t, a_commit_of_many_pages_is_whole);
	tcase_add_loop_test(t, a_write_that_fails_is_a_commit_that_fails, 0, 4);
	tcase_add_test(t, a_sync_that_fails_after_the_write_is_tried_as_a_whole);
	tcase_add_loop_test(t, a_large_commit_that_fails_midway_loses_nothing, 0, 4);
	tcase_add_test(t, each_commit_survives_a_crash_also_past_a_checkpoint);
	tcase_add_test(t, a_reader_in_another_process_sees_each_commit);
	suite_add_tcase(suite, t);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
