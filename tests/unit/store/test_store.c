/* SPDX-License-Identifier: MIT */
/* test_store.c: the batch is one transaction, and what it holds is neither lost nor doubled however the
 * disk behaves. */
#include "store/store.h"

#include <check.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sysexits.h>

#include <sqlite3.h>

#include "support/fakes/fake_disk.h"

static char dir[200];
static struct store *s;
static sqlite3 *eye;

static int64_t ask(const char *sql)
{
	sqlite3_stmt *st;
	int64_t n;

	ck_assert_msg(
		sqlite3_prepare_v2(eye, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(eye));
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	return n;
}

static void open_store(void)
{
	char why[256] = "", path[300];

	ck_assert_msg(store_open(dir, &s, why, sizeof why) == EX_OK, "%s", why);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	ck_assert(sqlite3_open_v2(path, &eye, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
}

static void close_store(void)
{
	sqlite3_close(eye);
	store_close(s);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-store-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	open_store();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

static void teardown(void)
{
	fake_disk_mend();
	close_store();
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- rows ---- */

static char id_of[64][ID_SIZE];

static struct store_session row_of(int key, const char *state)
{
	snprintf(id_of[key], ID_SIZE, "%08u-0000-4000-8000-000000000000", (unsigned)key % 100000000);
	return (struct store_session){
		.key = key,
		.session_id = id_of[key],
		.caller_id = "alpha",
		.capability = "work",
		.capability_version = "1.0.0",
		.state = state,
		.risk_level = "R2",
		.data_classification = "T1",
		.priority = "normal",
		.session_token = "t",
		.created_at = "2026-01-31T12:00:00.000Z",
		.updated_at = "2026-01-31T12:00:00.000Z",
		.max_duration_us = 5,
		.warnings = "[]",
	};
}

static void put_session(int key, const char *state)
{
	struct store_session row = row_of(key, state);

	store_put_session(s, &row, "{\"a\":1}", 7);
}

static void put_event(int64_t id, int64_t session, int64_t caller, const char *text)
{
	struct blob *b = blob_new(text, strlen(text));
	struct store_event e = {.id = id,
		.session = session,
		.session_id = session != 0 ? id_of[session] : NULL,
		.caller = caller,
		.type = "event",
		.sequence = id,
		.event_type = "log",
		.body = b};

	store_put_event(s, &e);
	blob_unref(b);
}

static void put_all(int from, int count)
{
	for (int i = from; i < from + count; i++) {
		char text[32];

		put_session(i, "PENDING");
		snprintf(text, sizeof text, "body %d", i);
		put_event(i, i, 1, text);
	}
}

/* ---- the transaction ---- */

START_TEST(the_batch_is_invisible_before_and_whole_after)
{
	ck_assert(!store_has_batch(s));
	store_put_caller(s, 1, "alpha");
	put_all(1, 20);
	ck_assert(store_has_batch(s));
	ck_assert_int_eq(ask("SELECT (SELECT count(*) FROM callers) + (SELECT count(*) FROM sessions)"
			     " + (SELECT count(*) FROM events) + (SELECT count(*) FROM tasks)"),
		0);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert(!store_has_batch(s));
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 20);
	ck_assert_int_eq(ask("SELECT count(*) FROM tasks"), 20);
	ck_assert_int_eq(ask("SELECT count(*) FROM events"), 20);
	ck_assert_int_eq(ask("SELECT count(*) FROM callers"), 1);
}
END_TEST

START_TEST(an_empty_batch_costs_nothing)
{
	unsigned syncs = fake_disk.wal_syncs;

	ck_assert_int_eq(store_run(s), 0);
	ck_assert_uint_eq(fake_disk.wal_syncs, syncs);
}
END_TEST

/* The n-th write fails: whatever had been written is undone, and the same batch succeeds later. It is large
 * enough for more writes than that. */
START_TEST(a_failing_commit_keeps_the_batch_and_a_later_run_succeeds)
{
	static char large[1500001];

	memset(large, 'x', sizeof large - 1);
	store_put_caller(s, 1, "alpha");
	put_all(1, 30);
	put_event(100, 1, 1, large);
	fake_disk.write_error = _i % 2 ? ENOSPC : EIO;
	fake_disk.writes_left = _i / 2;
	ck_assert_int_eq(store_run(s), -1);
	ck_assert_uint_gt(strlen(store_error(s)), 0);
	ck_assert(store_has_batch(s));
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 0);
	put_all(31, 1); /* what comes meanwhile goes with it */
	ck_assert_int_eq(store_run(s), -1);
	fake_disk_mend();
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 31);
	ck_assert_int_eq(ask("SELECT count(*) FROM events"), 32);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM events"), 32);
}
END_TEST

/* Events are put several at a time: whatever their number, and whatever the batch does to them later. */
START_TEST(a_change_finds_the_events_before_it_in_the_batch)
{
	char text[32];

	for (int i = 1; i <= _i; i++) {
		put_session(i, "PENDING");
		snprintf(text, sizeof text, "body %d", i);
		put_event(i, i, 1, text);
	}
	store_put_substitute(s, _i, "other", 5);
	put_event(_i + 1, 1, 1, "late");
	store_drop_kept(s, 1, INT64_MAX);
	store_put_unroutable(s, _i + 1, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM events"), _i + 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM events WHERE body = 'body ' || id AND session = id"), _i);
	ck_assert_int_eq(ask("SELECT id FROM events WHERE substitute = 'other'"), _i);
	ck_assert_int_eq(ask("SELECT event FROM unroutable"), _i + 1);
}
END_TEST

START_TEST(a_failing_sync_is_a_failing_commit)
{
	put_all(1, 5);
	fake_disk.sync_error = EIO;
	ck_assert_int_eq(store_run(s), -1);
	ck_assert_int_eq(store_run(s), -1);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 0);
	fake_disk_mend();
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 5);
}
END_TEST

START_TEST(lock_of_another_is_waited_for_then_reported_then_survived)
{
	put_all(1, 3);
	ck_assert(sqlite3_exec(eye, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
	ck_assert_int_eq(store_run(s), -1);
	ck_assert_uint_gt(fake_disk.naps, 5);
	ck_assert(sqlite3_exec(eye, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 3);
}
END_TEST

/* The turn's first read and its commit are one transaction, unless another writes in between. */
START_TEST(a_writer_between_a_turns_read_and_commit_is_survived)
{
	put_all(1, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_find_answer(s, 1, "m"), STORE_UNSEEN);
	ck_assert_int_eq(
		sqlite3_exec(eye, "INSERT INTO meta VALUES ('x', 'y')", NULL, NULL, NULL), SQLITE_OK);
	put_all(2, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 2);
	ck_assert_int_eq(ask("SELECT count(*) FROM meta WHERE key = 'x'"), 1);
}
END_TEST

START_TEST(a_writer_that_stays_after_a_turns_read_is_waited_for)
{
	ck_assert_int_eq(store_find_answer(s, 1, "m"), STORE_UNSEEN);
	ck_assert_int_eq(sqlite3_exec(eye, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	put_all(1, 1);
	fake_disk.naps = 0;
	ck_assert_int_eq(store_run(s), -1);
	ck_assert_uint_gt(fake_disk.naps, 5);
	ck_assert_int_eq(sqlite3_exec(eye, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 1);
}
END_TEST

/* A reader that stays would keep the log from beginning anew. */
START_TEST(a_turns_reads_end_with_it)
{
	put_all(1, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_find_answer(s, 1, "m"), STORE_UNSEEN);
	if (_i)
		put_all(2, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("PRAGMA wal_checkpoint(TRUNCATE)"), 0);
}
END_TEST

START_TEST(a_reader_that_stays_does_not_stop_the_writer)
{
	ck_assert(sqlite3_exec(eye, "BEGIN; SELECT count(*) FROM sessions", NULL, NULL, NULL) == SQLITE_OK);
	for (int i = 0; i < 20; i++) {
		put_all(1 + i, 1);
		ck_assert_int_eq(store_run(s), 0);
	}
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 0); /* its own moment */
	ck_assert(sqlite3_exec(eye, "COMMIT", NULL, NULL, NULL) == SQLITE_OK);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 20);
}
END_TEST

START_TEST(every_commit_is_synced_and_the_modes_are_in_force)
{
	for (int i = 1; i <= 10; i++) {
		unsigned syncs = fake_disk.wal_syncs;

		put_all(i, 1);
		ck_assert_int_eq(store_run(s), 0);
		ck_assert_uint_gt(fake_disk.wal_syncs, syncs); /* synchronous = FULL; NORMAL would not */
	}
	ck_assert_int_eq(ask("PRAGMA auto_vacuum"), 2);
	ck_assert_int_eq(ask("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
}
END_TEST

START_TEST(values_with_quotes_nul_and_unicode_come_back_as_they_were)
{
	static const char body[] = "{\"a\":\"o'brien \\\" \xc3\xa9 \xf0\x9f\x98\x80 \\u0000\"}";
	struct store_session row = row_of(1, "PENDING");
	struct buf out = {0};

	store_put_session(s, &row, body, sizeof body - 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert(store_load_task(s, 1, &out));
	ck_assert_str_eq(buf_text(&out), body);
	buf_fini(&out);
}
END_TEST

START_TEST(keys_go_on_after_a_restart)
{
	char instance[ID_SIZE];

	snprintf(instance, sizeof instance, "%s", store_instance(s));
	ck_assert(id_is_uuid4(instance));
	store_put_caller(s, 3, "alpha");
	put_all(1, 7);
	ck_assert_int_eq(store_run(s), 0);
	close_store();
	open_store();
	ck_assert_int_eq(store_last_session(s), 7);
	ck_assert_int_eq(store_last_event(s), 7);
	ck_assert_int_eq(store_last_caller(s), 3);
	ck_assert_str_eq(store_instance(s), instance);
}
END_TEST

/* The id goes along with a copy, the mark of processes does not. */
START_TEST(a_mark_belongs_to_the_directory_and_not_to_a_copy)
{
	char mark[ID_SIZE], instance[ID_SIZE], copy[sizeof dir + 8], path[sizeof copy + 16],
		sql[sizeof path + 32], why[256], before[ID_SIZE] = "";
	struct store *other;

	snprintf(mark, sizeof mark, "%s", store_mark(s));
	snprintf(instance, sizeof instance, "%s", store_instance(s));
	ck_assert(id_is_uuid4(mark) && strcmp(mark, instance) != 0 && !store_is_copy(s));
	snprintf(copy, sizeof copy, "%s/copy", dir);
	ck_assert_int_eq(mkdir(copy, 0700), 0);
	snprintf(path, sizeof path, "%s/hcpd.db", copy);
	snprintf(sql, sizeof sql, "VACUUM INTO '%s'", path);
	ck_assert_int_eq(sqlite3_exec(eye, sql, NULL, NULL, NULL), SQLITE_OK);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(store_open(copy, &other, why, sizeof why), 0);
		ck_assert_str_eq(store_instance(other), instance);
		ck_assert(id_is_uuid4(store_mark(other)) && strcmp(store_mark(other), mark) != 0);
		ck_assert_int_eq(store_is_copy(other), i == 0); /* then it is at home */
		if (i > 0)
			ck_assert_str_eq(store_mark(other), before);
		snprintf(before, sizeof before, "%s", store_mark(other));
		store_close(other);
	}
	close_store();
	open_store();
	ck_assert_str_eq(store_mark(s), mark);
	ck_assert(!store_is_copy(s));
}
END_TEST

static void same_row(void *ctx, const struct store_session *row)
{
	int *seen = ctx;

	ck_assert_int_eq(row->key, 1);
	ck_assert_str_eq(row->session_id, id_of[1]);
	ck_assert_str_eq(row->state, "PAUSED");
	ck_assert_int_eq(row->state_version, 2);
	ck_assert_str_eq(row->paused_by, "worker");
	ck_assert_str_eq(row->deadline, "2026-01-31T13:00:00.000Z");
	ck_assert_str_eq(row->warnings, "[\"w\"]");
	ck_assert_str_eq(row->step, "two");
	ck_assert_int_eq(row->attempt, 3);
	ck_assert_int_eq(row->sequence, 9);
	ck_assert_int_eq(row->tokens_out, 12);
	ck_assert_double_eq(row->cost, 0.5);
	(*seen)++;
}

START_TEST(a_live_session_comes_back_whole_and_an_ended_one_does_not) /* proves L2-01 */
{
	struct store_session row = row_of(1, "PENDING");
	int seen = 0;

	row.metadata = "{\"k\":1.10}";
	store_put_session(s, &row, "{}", 2);
	put_session(2, "COMPLETED");
	put_event(9, 1, 1, "x");
	row.state = "PAUSED", row.state_version = 2, row.paused_by = "worker",
	row.deadline = "2026-01-31T13:00:00.000Z";
	row.warnings = "[\"w\"]", row.step = "two", row.attempt = 3, row.tokens_out = 12, row.cost = 0.5;
	store_save_session(s, &row);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_load_live(s, same_row, &seen), 0);
	ck_assert_int_eq(seen, 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions WHERE metadata = '{\"k\":1.10}'"), 1);
}
END_TEST

/* ---- checkpoints ---- */

static void put_checkpoint(int n, bool resumable)
{
	struct store_checkpoint c = {.session = 1,
		.session_id = id_of[1],
		.description = "d",
		.resumable = resumable,
		.created_at = "2026-01-31T12:00:00.000Z"};
	char state[32], hash[32];

	snprintf(c.checkpoint_id, ID_SIZE, "%08u-1111-4111-8111-111111111111", (unsigned)n % 100000000);
	snprintf(state, sizeof state, "{\"n\":%d}", n);
	c.state = state;
	c.state_size = strlen(state);
	c.step = n % 2 ? "\"s\"" : NULL;
	snprintf(hash, sizeof hash, "hash of %d", n);
	c.sha256 = hash;
	store_put_checkpoint(s, &c);
}

START_TEST(last_three_and_last_three_resumable_checkpoints_are_kept)
{
	struct store_kept k = {0};
	int64_t row;

	put_session(1, "RUNNING");
	ck_assert_int_eq(store_next_checkpoint(s, 1, INT64_MAX), 0);
	for (int n = 1; n <= 5; n++)
		put_checkpoint(n, true);
	for (int n = 6; n <= 10; n++)
		put_checkpoint(n, false);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM checkpoints"), 6);
	ck_assert_int_eq(ask("SELECT count(*) FROM checkpoints WHERE resumable AND state IN"
			     " ('{\"n\":3}','{\"n\":4}','{\"n\":5}')"),
		3);
	ck_assert_int_eq(
		ask("SELECT count(*) FROM checkpoints WHERE state IN ('{\"n\":8}','{\"n\":9}','{\"n\":10}')"),
		3);
	row = store_next_checkpoint(s, 1, INT64_MAX);
	ck_assert_int_eq(store_load_checkpoint(s, row, &k), 1);
	ck_assert_str_eq(buf_text(&k.state), "{\"n\":5}"); /* the newest that can be resumed from */
	ck_assert_str_eq(buf_text(&k.step), "\"s\"");
	ck_assert_str_eq(k.checkpoint_id, "00000005-1111-4111-8111-111111111111");
	ck_assert_str_eq(k.sha256, "hash of 5");
	ck_assert_str_eq(k.encoding, "json");
	ck_assert(k.row == row && k.session == 1 && k.base == 0 && k.whole_size == 7 && k.resumable);
	ck_assert_int_eq(store_find_checkpoint(s, k.checkpoint_id), row);
	ck_assert_int_eq(store_find_checkpoint(s, "nobody"), 0);
	ck_assert_int_eq(store_load_checkpoint(s, row + 1000, &k), 0);
	row = store_next_checkpoint(s, 1, row);
	row = store_next_checkpoint(s, 1, row);
	ck_assert_int_eq(store_next_checkpoint(s, 1, row), 0); /* that was the third */
	store_kept_fini(&k);
}
END_TEST

START_TEST(bytes_are_stored_as_bytes_and_what_they_build_on_is_kept)
{
	struct store_checkpoint c = {.session = 1,
		.session_id = id_of[1],
		.description = "d",
		.resumable = true,
		.created_at = "t",
		.state = "a\0b",
		.state_size = 3,
		.encoding = "zstd",
		.whole_size = 5000,
		.trigger = "steps",
		.state_version = "2.1"};
	struct store_kept k = {0};

	put_session(1, "RUNNING");
	snprintf(c.checkpoint_id, ID_SIZE, "full");
	store_put_checkpoint(s, &c);
	ck_assert_int_eq(store_run(s), 0);
	c.base = store_find_checkpoint(s, "full");
	c.encoding = "delta";
	for (int n = 0; n < 6; n++) {
		snprintf(c.checkpoint_id, ID_SIZE, "delta %d", n);
		store_put_checkpoint(s, &c);
	}
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM checkpoints"), 4);
	ck_assert_int_eq(
		ask("SELECT count(*) FROM checkpoints WHERE state = x'610062' AND typeof(state) = 'blob'"),
		4);
	ck_assert_int_eq(store_load_checkpoint(s, store_find_checkpoint(s, "delta 5"), &k), 1);
	ck_assert(k.state.size == 3 && memcmp(k.state.data, "a\0b", 3) == 0 && k.whole_size == 5000);
	ck_assert_int_eq(k.base, store_find_checkpoint(s, "full"));
	ck_assert_str_eq(k.state_version, "2.1");
	ck_assert_int_eq(ask("SELECT count(*) FROM checkpoints WHERE trigger = 'steps'"), 4);
	store_kept_fini(&k);
}
END_TEST

START_TEST(a_large_checkpoint_is_one_by_its_text_or_bytes_or_base)
{
	struct store_checkpoint c = {.session = 1,
		.session_id = id_of[1],
		.description = "d",
		.resumable = true,
		.created_at = "t",
		.state = "0123456789",
		.state_size = 10,
		.encoding = "zstd",
		.whole_size = 50};
	int64_t full;

	put_session(1, "RUNNING");
	snprintf(c.checkpoint_id, ID_SIZE, "full");
	store_put_checkpoint(s, &c);
	ck_assert_int_eq(store_run(s), 0);
	full = store_find_checkpoint(s, "full");
	c.base = full;
	c.state_size = 1;
	c.whole_size = 1;
	snprintf(c.checkpoint_id, ID_SIZE, "delta");
	store_put_checkpoint(s, &c);
	ck_assert_int_eq(store_run(s), 0);
	for (int i = 0; i < 2; i++) {
		int64_t row = i == 0 ? full : store_find_checkpoint(s, "delta");

		ck_assert_int_eq(store_is_large_checkpoint(s, row, 50), 0);
		ck_assert_int_eq(store_is_large_checkpoint(s, row, 49), 1); /* as text */
		ck_assert_int_eq(store_is_large_checkpoint(s, row, 9), 1);  /* as stored, too */
	}
	ask("UPDATE checkpoints SET state_size = NULL RETURNING 1"); /* an old row, or a damaged one */
	ck_assert_int_eq(store_is_large_checkpoint(s, full, 10), 0);
	ck_assert_int_eq(store_is_large_checkpoint(s, full, 9), 1);
	ck_assert_int_eq(store_is_large_checkpoint(s, full + 1000, 0), 0);
}
END_TEST

START_TEST(the_newest_that_was_put_is_known_also_when_it_is_gone)
{
	char id[ID_SIZE] = "x";

	put_session(1, "RUNNING");
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_find_newest(s, 1, id), 1);
	ck_assert_str_eq(id, "");
	put_checkpoint(1, true);
	put_checkpoint(2, true);
	put_checkpoint(3, false);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("DELETE FROM checkpoints RETURNING 1"), 1);
	ck_assert_int_eq(store_find_newest(s, 1, id), 1);
	ck_assert_str_eq(id, "00000002-1111-4111-8111-111111111111");
	store_retire_checkpoints(s, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_find_newest(s, 1, id), 1);
	ck_assert_str_eq(id, "");
	ck_assert_int_eq(store_find_newest(s, 99, id), 0);
}
END_TEST

START_TEST(checkpoints_of_a_session_do_not_prune_anothers)
{
	struct store_checkpoint other = {.session = 2,
		.session_id = "x",
		.checkpoint_id = "other",
		.description = "d",
		.resumable = true,
		.created_at = "t",
		.state = "{}",
		.state_size = 2};

	put_session(1, "RUNNING");
	store_put_checkpoint(s, &other);
	for (int n = 1; n <= 9; n++)
		put_checkpoint(n, true);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM checkpoints WHERE session = 2"), 1);
	ck_assert_int_eq(ask("SELECT count(*) FROM checkpoints"), 4);
}
END_TEST

/* ---- submits ---- */

START_TEST(the_answer_to_a_submit_is_found_by_caller_and_message_id) /* proves L1-06 */
{
	store_put_submit(s, 1, "m1", "2026-01-01T00:00:00.000Z", 0, 44);
	store_put_submit(s, 2, "m1", "2026-01-01T00:00:00.000Z", 0, 55);
	ck_assert_int_eq(store_find_answer(s, 1, "m1"), STORE_UNSEEN); /* not the batch */
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_find_answer(s, 1, "m1"), 44);
	ck_assert_int_eq(store_find_answer(s, 2, "m1"), 55);
	ck_assert_int_eq(store_find_answer(s, 1, "M1"), STORE_UNSEEN);
	ck_assert_int_eq(store_find_answer(s, 3, "m1"), STORE_UNSEEN);
}
END_TEST

START_TEST(submits_are_dropped_when_old_and_their_session_has_ended) /* proves L1-06 */
{
	static const char old[] = "2026-01-01T00:00:00.000Z", young[] = "2026-01-03T00:00:00.000Z";
	static const char *const states[] = {
		"PENDING", "RUNNING", "PAUSED", "ABORTING", "COMPLETED", "FAILED", "ABORTED"};
	char id[16];

	for (int i = 0; i < 7; i++) {
		put_session(i + 1, states[i]);
		snprintf(id, sizeof id, "old%d", i);
		store_put_submit(s, 1, id, old, i + 1, 10);
		snprintf(id, sizeof id, "young%d", i);
		store_put_submit(s, 1, id, young, i + 1, 10);
	}
	store_put_submit(s, 1, "old-rejected", old, 0, 10);
	store_put_submit(s, 1, "young-rejected", young, 0, 10);
	ck_assert_int_eq(store_run(s), 0);
	store_drop_submits(s, 0, store_last_submit(s), "2026-01-02T00:00:00.000Z");
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM submits"), 8 + 4);
	ck_assert_int_eq(
		ask("SELECT count(*) FROM submits WHERE message_id IN ('old0','old1','old2','old3')"), 4);
	ck_assert_int_eq(ask("SELECT count(*) FROM submits WHERE message_id LIKE 'young%'"), 8);
}
END_TEST

START_TEST(a_submit_that_cannot_be_read_is_not_taken_for_unseen) /* proves L1-06 */
{
	ck_assert(
		sqlite3_exec(eye, "ALTER TABLE submits RENAME TO elsewhere", NULL, NULL, NULL) == SQLITE_OK);
	ck_assert_int_eq(store_find_answer(s, 1, "m1"), STORE_UNREADABLE);
	ck_assert(
		sqlite3_exec(eye, "ALTER TABLE elsewhere RENAME TO submits", NULL, NULL, NULL) == SQLITE_OK);
	ck_assert_int_eq(store_find_answer(s, 1, "m1"), STORE_UNSEEN);
}
END_TEST

/* ---- events ---- */

struct seen {
	int64_t ids[16];
	int count;
	char last[64];
};

static bool note_event(void *ctx, const struct store_event *e)
{
	struct seen *n = ctx;

	n->ids[n->count++] = e->id;
	snprintf(n->last, sizeof n->last, "%.*s", (int)e->size, e->bytes);
	return true;
}

START_TEST(events_of_a_caller_skip_the_unroutable_and_have_substitutes)
{
	struct seen n = {.count = 0};

	for (int64_t i = 1; i <= 6; i++)
		put_event(i, 0, i == 4 ? 2 : 1, "body");
	store_put_unroutable(s, 3, 1);
	store_put_substitute(s, 6, "instead", 7);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_load_events(s, 1, 1, 10, note_event, &n), 0);
	ck_assert_int_eq(n.count, 3);
	ck_assert(n.ids[0] == 2 && n.ids[1] == 5 && n.ids[2] == 6);
	ck_assert_str_eq(n.last, "instead");
	n.count = 0;
	ck_assert_int_eq(store_load_unroutable(s, 1, 0, 10, note_event, &n), 0);
	ck_assert(n.count == 1 && n.ids[0] == 3);
	store_drop_unroutable(s, 3);
	ck_assert_int_eq(store_run(s), 0);
	n.count = 0;
	ck_assert_int_eq(store_load_unroutable(s, 1, 0, 10, note_event, &n), 0);
	ck_assert_int_eq(n.count, 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM events WHERE body = 'body'"), 6); /* the original stays */
}
END_TEST

static bool note_two(void *ctx, const struct store_event *e)
{
	struct seen *n = ctx;

	note_event(ctx, e);
	return n->count < 2;
}

START_TEST(reader_with_enough_events_is_given_no_more)
{
	struct seen n = {.count = 0};

	for (int64_t i = 1; i <= 6; i++)
		put_event(i, 0, 1, "body");
	store_put_unroutable(s, 5, 2);
	store_put_unroutable(s, 6, 2);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_load_events(s, 1, 1, 10, note_two, &n), 0);
	ck_assert(n.count == 2 && n.ids[0] == 2 && n.ids[1] == 3);
	put_event(7, 0, 1, "body"); /* nothing is left open that would be in the way */
	ck_assert_int_eq(store_run(s), 0);
	n.count = 1;
	ck_assert_int_eq(store_load_unroutable(s, 2, 0, 10, note_two, &n), 0);
	ck_assert(n.count == 2 && n.ids[1] == 5);
	ck_assert_int_eq(ask("PRAGMA wal_checkpoint(TRUNCATE)"), 0); /* not even a reader */
}
END_TEST

struct backlog {
	int64_t session, bytes;
};

static void note_backlog(void *ctx, int64_t session, int64_t bytes)
{
	*(struct backlog *)ctx = (struct backlog){session, bytes};
}

START_TEST(a_backlog_is_counted_in_bytes_of_what_goes_out)
{
	struct backlog b = {0, 0};

	put_session(7, "RUNNING");
	put_event(1, 7, 1, "confirmed");
	put_event(2, 7, 1, "\xe6\xbc\xa2\xe5\xad\x97"); /* two characters, six bytes */
	put_event(3, 7, 1, "a long body that is set aside");
	put_event(4, 7, 1, "nobody took this");
	store_put_substitute(s, 3, "short\xc3\xa9", 7);
	store_put_unroutable(s, 4, 1);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert_int_eq(store_load_backlog(s, 1, 1, note_backlog, &b), 0);
	ck_assert_int_eq(b.session, 7);
	ck_assert_int_eq(b.bytes, 6 + 7);
}
END_TEST

/* Renamed tables stand for a disk that gives errors. */
static const char *const looked_into[] = {"sessions", "events", "submits", "callers", "tasks", "checkpoints"};

START_TEST(a_table_that_cannot_be_read_is_noticed_and_so_is_its_return)
{
	char sql[80];

	ck_assert(store_is_readable(s)); /* while it is empty, too */
	put_all(1, 5);
	ck_assert_int_eq(store_run(s), 0);
	ck_assert(store_is_readable(s));
	snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO elsewhere", looked_into[_i]);
	ck_assert(sqlite3_exec(eye, sql, NULL, NULL, NULL) == SQLITE_OK);
	ck_assert(!store_is_readable(s));
	snprintf(sql, sizeof sql, "ALTER TABLE elsewhere RENAME TO %s", looked_into[_i]);
	ck_assert(sqlite3_exec(eye, sql, NULL, NULL, NULL) == SQLITE_OK);
	ck_assert(store_is_readable(s));
}
END_TEST

START_TEST(an_outcome_is_there_until_it_is_dropped)
{
	struct buf out = {0};

	store_put_outcome(s, 5, "{\"x\":1}", 7);
	ck_assert(!store_load_outcome(s, 5, &out));
	ck_assert_int_eq(store_run(s), 0);
	ck_assert(store_load_outcome(s, 5, &out));
	ck_assert_str_eq(buf_text(&out), "{\"x\":1}");
	store_drop_outcome(s, 5);
	ck_assert_int_eq(store_run(s), 0);
	buf_clear(&out);
	ck_assert(!store_load_outcome(s, 5, &out));
	buf_fini(&out);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("store");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_batch_is_invisible_before_and_whole_after);
	tcase_add_test(t, an_empty_batch_costs_nothing);
	tcase_add_loop_test(t, a_failing_commit_keeps_the_batch_and_a_later_run_succeeds, 0, 16);
	tcase_add_loop_test(t, a_change_finds_the_events_before_it_in_the_batch, 1, 20);
	tcase_add_test(t, a_failing_sync_is_a_failing_commit);
	tcase_add_test(t, lock_of_another_is_waited_for_then_reported_then_survived);
	tcase_add_test(t, a_writer_between_a_turns_read_and_commit_is_survived);
	tcase_add_test(t, a_writer_that_stays_after_a_turns_read_is_waited_for);
	tcase_add_loop_test(t, a_turns_reads_end_with_it, 0, 2);
	tcase_add_test(t, a_reader_that_stays_does_not_stop_the_writer);
	tcase_add_test(t, every_commit_is_synced_and_the_modes_are_in_force);
	tcase_add_test(t, values_with_quotes_nul_and_unicode_come_back_as_they_were);
	tcase_add_test(t, keys_go_on_after_a_restart);
	tcase_add_test(t, a_mark_belongs_to_the_directory_and_not_to_a_copy);
	tcase_add_test(t, a_live_session_comes_back_whole_and_an_ended_one_does_not);
	tcase_add_test(t, last_three_and_last_three_resumable_checkpoints_are_kept);
	tcase_add_test(t, bytes_are_stored_as_bytes_and_what_they_build_on_is_kept);
	tcase_add_test(t, a_large_checkpoint_is_one_by_its_text_or_bytes_or_base);
	tcase_add_test(t, the_newest_that_was_put_is_known_also_when_it_is_gone);
	tcase_add_test(t, checkpoints_of_a_session_do_not_prune_anothers);
	tcase_add_test(t, the_answer_to_a_submit_is_found_by_caller_and_message_id);
	tcase_add_test(t, submits_are_dropped_when_old_and_their_session_has_ended);
	tcase_add_test(t, a_submit_that_cannot_be_read_is_not_taken_for_unseen);
	tcase_add_test(t, events_of_a_caller_skip_the_unroutable_and_have_substitutes);
	tcase_add_test(t, reader_with_enough_events_is_given_no_more);
	tcase_add_test(t, a_backlog_is_counted_in_bytes_of_what_goes_out);
	tcase_add_loop_test(t, a_table_that_cannot_be_read_is_noticed_and_so_is_its_return, 0,
		(int)(sizeof looked_into / sizeof *looked_into));
	tcase_add_test(t, an_outcome_is_there_until_it_is_dropped);
	suite_add_tcase(suite, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
