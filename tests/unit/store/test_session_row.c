/* SPDX-License-Identifier: MIT */
/* test_session_row.c: the list of a session's columns agrees with the tables, and every column of it is
 * written and read when the list says so. */
#include "store/session_row.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "store/store_private.h" /* for the plan of a prepared statement */

enum { PUT = 1, EMPTY = 2, SAVE = 4, ACCEPT = 8, LOAD = 16 };

static char dir[200];
static struct store *s;

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");
	char why[256] = "";

	snprintf(dir, sizeof dir, "%s/hcp-row-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	ck_assert_msg(store_open(dir, &s, why, sizeof why) == EX_OK, "%s", why);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

static void teardown(void)
{
	store_close(s);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static sqlite3_stmt *first_row(const char *sql)
{
	sqlite3_stmt *st;

	ck_assert_msg(sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql,
		sqlite3_errmsg(s->db));
	ck_assert_msg(sqlite3_step(st) == SQLITE_ROW, "%s", sql);
	return st;
}

/* ---- the list and the schema ---- */

#define NAME(name, kind, when) #name,
static const char *const listed[] = {SESSION_COLUMNS(NAME)};
enum { LISTED = sizeof listed / sizeof *listed };
/* The key is no value. */
static const char *const written_elsewhere[] = {"id"};
enum { WRITTEN_ELSEWHERE = sizeof written_elsewhere / sizeof *written_elsewhere };

static bool is_among(const char *name, const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

START_TEST(session_row_has_every_column_of_the_newest_schema)
{
	sqlite3_stmt *st = first_row("SELECT name FROM pragma_table_info('sessions')");
	int count = 0;

	do {
		const char *name = (const char *)sqlite3_column_text(st, 0);

		ck_assert_msg(is_among(name, listed, LISTED) !=
				is_among(name, written_elsewhere, WRITTEN_ELSEWHERE),
			"column %s must stand in SESSION_COLUMNS or be written elsewhere", name);
		count++;
	} while (sqlite3_step(st) == SQLITE_ROW);
	sqlite3_finalize(st);
	ck_assert_int_eq(count, LISTED + WRITTEN_ELSEWHERE);
}
END_TEST

/* A column that the INSERT leaves out must have a default, or be allowed to be NULL. */
START_TEST(session_row_leaves_out_only_columns_with_a_default)
{
#define WHEN(name, kind, when) when,
	static const unsigned written[] = {SESSION_COLUMNS(WHEN)};

	for (int i = 0; i < LISTED; i++) {
		char sql[160];
		sqlite3_stmt *st;

		snprintf(sql, sizeof sql,
			"SELECT \"notnull\" AND dflt_value IS NULL FROM pragma_table_info('sessions')"
			" WHERE name = '%s'",
			listed[i]);
		st = first_row(sql);
		ck_assert_msg(!sqlite3_column_int(st, 0) || written[i] & (PUT | EMPTY),
			"column %s needs a value in the INSERT", listed[i]);
		sqlite3_finalize(st);
	}
}
END_TEST

/* ---- values ---- */

/* A value of its own for each column and each of the three rows that are written. */
static char texts[3][LISTED][32];

#define FILL_INTEGER(name) row->name = 1000 * (which + 1) + i
#define FILL_FLAG(name) row->name = which != 2
#define FILL_REAL(name) row->name = which + 0.5
#define FILL_TEXT(name) snprintf(texts[which][i], 32, "%d %s", which, #name), row->name = texts[which][i]
#define FILL_LIST(name) snprintf(texts[which][i], 32, "[\"%d\"]", which), row->name = texts[which][i]
#define FILL(name, kind, when) FILL_##kind(name), i++;

static void fill(struct store_session *row, int which)
{
	int i = 0;

	*row = (struct store_session){.key = 7};
	SESSION_COLUMNS(FILL)
	row->state = "RUNNING"; /* one that is loaded */
}

/* What the row says after the three writes: what the last of them wrote that writes this column. */
#define LAST(name, kind, when) \
	want.name = (when)&ACCEPT ? rows[2].name : (when)&SAVE ? rows[1].name : rows[0].name;
#define SAME_INTEGER(a, b, name) ck_assert_msg((a)->name == (b)->name, "%s", #name)
#define SAME_FLAG(a, b, name) SAME_INTEGER(a, b, name)
#define SAME_REAL(a, b, name) ck_assert_msg((a)->name - (b)->name == 0.0, "%s", #name)
#define SAME_TEXT(a, b, name) \
	ck_assert_msg((a)->name != NULL && strcmp((a)->name, (b)->name) == 0, "%s: %s", #name, (a)->name)
#define SAME_LIST(a, b, name) SAME_TEXT(a, b, name)
#define SAME(name, kind, when) \
	if ((when)&LOAD) \
		SAME_##kind(row, want, name);

struct expected {
	struct store_session row;
	int seen;
};

static void check_row(void *ctx, const struct store_session *row)
{
	struct expected *e = ctx;
	const struct store_session *want = &e->row;

	ck_assert_int_eq(row->key, 7);
	SESSION_COLUMNS(SAME)
	ck_assert_ptr_eq(row->metadata, NULL);
	e->seen++;
}

START_TEST(session_row_writes_and_reads_every_column)
{
	struct store_session rows[3], want = {0};
	struct expected e = {.seen = 0};
	sqlite3_stmt *st;

	for (int which = 0; which < 3; which++)
		fill(&rows[which], which);
	store_put_session(s, &rows[0], "{}", 2);
	store_save_session(s, &rows[1]);
	store_accept_session(s, &rows[2]);
	ck_assert_int_eq(store_run(s), 0);
	/* the one column that no statement of the row writes */
	ck_assert_int_eq(sqlite3_exec(s->db, "UPDATE sessions SET last_checkpoint = '0 last_checkpoint'",
				 NULL, NULL, NULL),
		SQLITE_OK);
	SESSION_COLUMNS(LAST)
	e.row = want;
	ck_assert_int_eq(store_load_live(s, check_row, &e), 0);
	ck_assert_int_eq(e.seen, 1);
	st = first_row(
		"SELECT metadata, token_revoked, harp, typeof(cost), typeof(token_revoked) FROM sessions");
	ck_assert_str_eq((const char *)sqlite3_column_text(st, 0), "0 metadata");
	ck_assert_int_eq(sqlite3_column_int(st, 1), 1);
	ck_assert_int_eq(sqlite3_column_int(st, 2), 1);
	ck_assert_str_eq((const char *)sqlite3_column_text(st, 3), "real");
	ck_assert_str_eq((const char *)sqlite3_column_text(st, 4), "integer");
	sqlite3_finalize(st);
}
END_TEST

START_TEST(session_row_begins_with_empty_counts_and_lists)
{
	struct store_session row;
	sqlite3_stmt *st;

	fill(&row, 0);
	row.metadata = row.seal = row.waits_for = NULL;
	store_put_session(s, &row, "{}", 2);
	ck_assert_int_eq(store_run(s), 0);
	st = first_row(
		"SELECT steps = 0 AND checkpoints = 0 AND tokens_in = 0 AND tokens_out = 0 AND deaths = 0"
		" AND cost = 0.0 AND typeof(cost) = 'real' AND warnings = '[]' AND risk_events = '[]'"
		" AND token_revoked = 0 AND metadata IS NULL AND seal IS NULL AND waits_for IS NULL"
		" AND started_at IS NULL AND deadline IS NULL AND step IS NULL AND paused_by IS NULL"
		" AND recover_as IS NULL AND last_checkpoint IS NULL FROM sessions WHERE id = 7");
	ck_assert_int_eq(sqlite3_column_int(st, 0), 1);
	sqlite3_finalize(st);
}
END_TEST

START_TEST(session_row_without_a_list_is_saved_with_an_empty_one)
{
	struct store_session row;
	sqlite3_stmt *st;

	fill(&row, 0);
	store_put_session(s, &row, "{}", 2);
	row.risk_events = row.warnings = row.step = NULL;
	store_save_session(s, &row);
	ck_assert_int_eq(store_run(s), 0);
	st = first_row("SELECT risk_events || warnings, step IS NULL FROM sessions");
	ck_assert_str_eq((const char *)sqlite3_column_text(st, 0), "[][]");
	ck_assert_int_eq(sqlite3_column_int(st, 1), 1);
	sqlite3_finalize(st);
}
END_TEST

START_TEST(session_rows_that_live_are_found_by_their_index)
{
	struct buf sql = {0};
	sqlite3_stmt *st;

	buf_addf(&sql, "EXPLAIN QUERY PLAN %s", sqlite3_sql(s->st[ST_LOAD_LIVE]));
	st = first_row(buf_text(&sql));
	ck_assert_msg(strstr((const char *)sqlite3_column_text(st, 3), "sessions_live") != NULL, "%s",
		(const char *)sqlite3_column_text(st, 3));
	sqlite3_finalize(st);
	buf_fini(&sql);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("session_row");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, session_row_has_every_column_of_the_newest_schema);
	tcase_add_test(t, session_row_leaves_out_only_columns_with_a_default);
	tcase_add_test(t, session_row_writes_and_reads_every_column);
	tcase_add_test(t, session_row_begins_with_empty_counts_and_lists);
	tcase_add_test(t, session_row_without_a_list_is_saved_with_an_empty_one);
	tcase_add_test(t, session_rows_that_live_are_found_by_their_index);
	suite_add_tcase(suite, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
