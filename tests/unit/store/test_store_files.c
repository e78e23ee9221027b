/* SPDX-License-Identifier: MIT */
/* test_store_files.c: which files are a store, which are not, and how an old one becomes a new one.
 * Brings a schema of its own, with one step more than ours, so that the way from one version to the next is
 * walked. */
#include <check.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>

#include <sqlite3.h>

#include "support/fakes/fake_disk.h"
#include "base/log.h"
#include "store/store.h"

/* Ours under other names; what store/store.c sees are the two variables below. */
#define migrations_steps real_steps
#define migrations_version real_version
#include "store/migrations.c"
#undef migrations_steps
#undef migrations_version

#define REAL ((int)(sizeof real_steps / sizeof *real_steps))
#define GOOD_STEP \
	"ALTER TABLE sessions ADD COLUMN colour TEXT; CREATE TABLE extra (x); INSERT INTO extra VALUES (1)"
#define BAD_STEP "CREATE TABLE extra (x); INSERT INTO nowhere VALUES (1)"

const char *migrations_steps[sizeof real_steps / sizeof *real_steps + 1];
int migrations_version = REAL + 1;

static char dir[200], path[256], why[512];

static void set_last_step(const char *sql)
{
	for (int i = 0; i < REAL; i++)
		migrations_steps[i] = real_steps[i];
	migrations_steps[REAL] = sql;
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-files-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	set_last_step(GOOD_STEP);
	log_set_level(LOG_LVL_ERROR);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

static void teardown(void)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- by hand ---- */

static int64_t ask(const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *st;
	int64_t n;

	ck_assert(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
	ck_assert_msg(
		sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

static void make(const char *sql)
{
	sqlite3 *db;

	ck_assert(sqlite3_open(path, &db) == SQLITE_OK);
	ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

/* A store as the last release left it, with a session in it. */
static void make_old(void)
{
	struct buf b = {0};

	buf_add_text(&b,
		"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA application_id "
		"= 1751347300;");
	for (int i = 0; i < REAL; i++)
		buf_add_text(&b, real_steps[i]);
	buf_addf(&b,
		"; PRAGMA user_version = %d;"
		"INSERT INTO sessions (id, session_id, caller_id, capability, capability_version, state, "
		"state_version, risk_level,"
		" data_classification, priority, session_token, created_at, updated_at, max_duration_us, "
		"attempt, steps,"
		" checkpoints, warnings, tokens_in, tokens_out, cost) VALUES (41, 'x', 'alpha', 'work', "
		"'1.0.0', 'RUNNING', 1, 'R1',"
		" 'T1', 'normal', 't', 'now', 'now', 1, 1, 0, 0, '[]', 0, 0, 0.0);",
		REAL);
	make(buf_text(&b));
	buf_fini(&b);
}

static void must_open(void)
{
	struct store *s = NULL;
	char name[32];

	ck_assert_msg(store_open(dir, &s, why, sizeof why) == EX_OK, "%s", why);
	snprintf(name, sizeof name, "caller-%d", (int)store_last_caller(s) + 1);
	store_put_caller(s, store_last_caller(s) + 1, name);
	ck_assert_int_eq(store_run(s), 0);
	store_close(s);
	ck_assert_int_eq(ask("PRAGMA user_version"), REAL + 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM extra"), 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions WHERE colour IS NOT NULL"), 0);
}

struct bytes {
	char *data;
	size_t size;
};

static struct bytes read_all(void)
{
	struct stat st;
	struct bytes b;
	FILE *f = fopen(path, "r");

	ck_assert(f != NULL && fstat(fileno(f), &st) == 0);
	b.size = (size_t)st.st_size;
	b.data = xmalloc(b.size + 1);
	ck_assert_uint_eq(fread(b.data, 1, b.size, f), b.size);
	fclose(f);
	return b;
}

/* Refused with one of these codes and a sentence that names the file, which stays as it was. */
static void must_refuse(int code, int or_code, const char *word)
{
	struct bytes before = read_all(), after;
	struct store *s = NULL;
	int got = store_open(dir, &s, why, sizeof why);

	ck_assert_msg(got == code || got == or_code, "code %d: %s", got, why);
	ck_assert_msg(strstr(why, path) != NULL, "%s", why);
	ck_assert_msg(strstr(why, word) != NULL, "%s", why);
	after = read_all();
	ck_assert_uint_eq(before.size, after.size);
	ck_assert_msg(memcmp(before.data, after.data, before.size) == 0, "the file was changed");
	free(before.data);
	free(after.data);
}

/* ---- good ones ---- */

START_TEST(a_fresh_directory_gets_a_store_of_the_newest_version) /* proves CK-07 */
{
	must_open();
	ck_assert_int_eq(ask("PRAGMA auto_vacuum"), 2);
	ck_assert_int_ne(ask("PRAGMA application_id"), 0);
	must_open(); /* and is one */
}
END_TEST

START_TEST(a_database_without_tables_becomes_a_store) /* proves CK-07 */
{
	make("PRAGMA application_id = 1751347300"); /* a crash between this and the first step */
	ck_assert_int_eq(ask("PRAGMA user_version"), 0);
	must_open();
}
END_TEST

START_TEST(an_empty_file_becomes_a_store)
{
	FILE *f = fopen(path, "w");

	ck_assert(f != NULL);
	fclose(f);
	must_open();
}
END_TEST

/* ---- from version to version ---- */

START_TEST(an_old_store_is_brought_up_to_date_with_what_it_holds) /* proves CK-07 */
{
	make_old();
	must_open();
	ck_assert_int_eq(ask("SELECT id FROM sessions WHERE state = 'RUNNING'"), 41);
}
END_TEST

START_TEST(a_step_that_fails_changes_nothing_and_can_be_had_again) /* proves CK-07 */
{
	struct store *s = NULL;

	make_old();
	set_last_step(BAD_STEP);
	ck_assert_int_ne(store_open(dir, &s, why, sizeof why), EX_OK);
	ck_assert_msg(strstr(why, path) != NULL && strstr(why, "nowhere") != NULL, "%s", why);
	ck_assert_int_eq(ask("PRAGMA user_version"), REAL);
	ck_assert_int_eq(ask("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'"), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 1);
	set_last_step(GOOD_STEP);
	must_open();
}
END_TEST

/* In the first half of the cases a fresh store is made, in the second an old one is migrated; at the n-th
 * write the process dies. */
START_TEST(a_crash_anywhere_on_the_way_is_made_good_by_the_next_start) /* proves CK-07 */
{
	struct store *s = NULL;
	pid_t pid;
	int status;

	if (_i >= 30)
		make_old();
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		fake_disk.write_error = EIO;
		fake_disk.writes_left = _i % 30;
		fake_disk.write_dies = true;
		_exit(store_open(dir, &s, why, sizeof why) == EX_OK ? 0 : 1);
	}
	ck_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	must_open();
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), _i >= 30 ? 1 : 0);
}
END_TEST

START_TEST(a_full_disk_on_the_way_is_said_and_made_good) /* proves CK-07 */
{
	struct store *s = NULL;

	make_old();
	fake_disk.write_error = ENOSPC;
	fake_disk.writes_left = _i;
	if (store_open(dir, &s, why, sizeof why) == EX_OK)
		store_close(s);
	else
		ck_assert_msg(strstr(why, path) != NULL, "%s", why);
	fake_disk_mend();
	must_open();
}
END_TEST

/* ---- bad ones ---- */

START_TEST(a_newer_schema_is_refused) /* proves CK-07 */
{
	make_old();
	make("PRAGMA user_version = 99; CREATE TABLE future (x)");
	must_refuse(EX_CONFIG, EX_CONFIG, "99");
}
END_TEST

START_TEST(file_that_is_no_database_is_refused)
{
	FILE *f = fopen(path, "w");

	for (int i = 0; i < 1000; i++)
		fprintf(f, "dear diary, line %d\n", i);
	fclose(f);
	must_refuse(EX_DATAERR, EX_CONFIG, "not a database");
}
END_TEST

START_TEST(a_zeroed_store_is_refused)
{
	struct stat st;

	make_old();
	ck_assert(stat(path, &st) == 0);
	ck_assert(truncate(path, 0) == 0 && truncate(path, st.st_size) == 0);
	must_refuse(EX_DATAERR, EX_CONFIG, "not a database");
}
END_TEST

START_TEST(a_zeroed_first_page_is_refused)
{
	static const char zeros[4096];
	FILE *f;

	make_old();
	f = fopen(path, "r+");
	ck_assert(f != NULL && fwrite(zeros, 1, sizeof zeros, f) == sizeof zeros);
	fclose(f);
	must_refuse(EX_DATAERR, EX_CONFIG, "");
}
END_TEST

START_TEST(a_truncated_store_is_refused)
{
	static const int keep[] = {100, 1000, 4096, 8192, 40000};

	make_old();
	ck_assert(truncate(path, keep[_i]) == 0);
	must_refuse(EX_DATAERR, EX_DATAERR, "");
}
END_TEST

static const char *const foreign[] = {
	"CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('x')",
	"PRAGMA user_version = 1; CREATE TABLE bookmarks (url)",
	"PRAGMA user_version = 2; CREATE TABLE bookmarks (url)",
	"PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE sessions (url)",
	"PRAGMA auto_vacuum = FULL; CREATE TABLE bookmarks (url)",
};

START_TEST(foreign_database_is_refused_and_left_alone)
{
	make(foreign[_i]);
	must_refuse(EX_CONFIG, EX_DATAERR, "");
}
END_TEST

START_TEST(a_directory_that_is_not_there_cannot_hold_a_store)
{
	struct store *s = NULL;

	ck_assert_int_eq(store_open("/nonexistent/hcpd", &s, why, sizeof why), EX_CANTCREAT);
	ck_assert(strstr(why, "/nonexistent/hcpd") != NULL);
	ck_assert(mkdir(path, 0700) == 0); /* a directory in the file's place */
	ck_assert_int_ne(store_open(dir, &s, why, sizeof why), EX_OK);
}
END_TEST

/* A reader that comes first after a crash has the file to itself while it brings the log in order; a
 * backup may, too. */
START_TEST(a_start_waits_for_somebody_who_has_the_file_to_himself)
{
	struct store *s = NULL;
	sqlite3 *db;
	int ready[2], status;
	char byte;

	fake_disk.sleeps = true;
	ck_assert_int_eq(store_open(dir, &s, why, sizeof why), EX_OK);
	store_close(s);
	ck_assert(pipe(ready) == 0);
	pid_t child = fork();
	if (child == 0) {
		bool held = sqlite3_open(path, &db) == SQLITE_OK &&
			sqlite3_exec(db,
				"PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE mine (x)",
				NULL, NULL, NULL) == SQLITE_OK;
		if (held && write(ready[1], "x", 1) == 1)
			usleep(700000);
		sqlite3_close(db);
		_exit(held ? 0 : 1);
	}
	close(ready[1]);
	ck_assert(read(ready[0], &byte, 1) == 1);
	ck_assert_msg(store_open(dir, &s, why, sizeof why) == EX_OK, "%s", why);
	store_close(s);
	close(ready[0]);
	ck_assert(waitpid(child, &status, 0) == child && status == 0);
	fake_disk.sleeps = false;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store_files");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_fresh_directory_gets_a_store_of_the_newest_version);
	tcase_add_test(t, a_database_without_tables_becomes_a_store);
	tcase_add_test(t, an_empty_file_becomes_a_store);
	tcase_add_test(t, an_old_store_is_brought_up_to_date_with_what_it_holds);
	tcase_add_test(t, a_step_that_fails_changes_nothing_and_can_be_had_again);
	tcase_add_loop_test(t, a_crash_anywhere_on_the_way_is_made_good_by_the_next_start, 0, 60);
	tcase_add_loop_test(t, a_full_disk_on_the_way_is_said_and_made_good, 0, 20);
	tcase_add_test(t, a_start_waits_for_somebody_who_has_the_file_to_himself);
	tcase_add_test(t, a_newer_schema_is_refused);
	tcase_add_test(t, file_that_is_no_database_is_refused);
	tcase_add_test(t, a_zeroed_store_is_refused);
	tcase_add_test(t, a_zeroed_first_page_is_refused);
	tcase_add_loop_test(t, a_truncated_store_is_refused, 0, 5);
	tcase_add_loop_test(t, foreign_database_is_refused_and_left_alone, 0, 5);
	tcase_add_test(t, a_directory_that_is_not_there_cannot_hold_a_store);
	suite_add_tcase(suite, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
