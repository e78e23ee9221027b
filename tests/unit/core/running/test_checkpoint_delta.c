/* SPDX-License-Identifier: MIT */
/* test_checkpoint_delta.c: large states are stored whole now and then, as differences between, and come back
 * as they were; whatever becomes of a row, the session goes on from the newest that is good, and says what
 * was lost. */
#include "support/fakes/fake_world.h"

#include "store/checkpoint.h"

enum { ROWS = 900 }; /* of about 40 bytes, most of them not to be guessed */

static struct world w;
static struct worker *p;
static uint32_t seed;
static unsigned rows[ROWS];

static uint32_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

static void begin(const char *more)
{
	world_init(&w, more);
	world_begin(&w);
	seed = 7;
	for (int i = 0; i < ROWS; i++)
		rows[i] = draw();
	p = world_start(&w, "m1", "work");
}

static void setup(void)
{
	begin("");
}

static void teardown(void)
{
	world_fini(&w);
}

/* The state, in spellings that a careless hand would not keep. */
static void write_state(struct buf *b, int n)
{
	buf_addf(b, "{\"n\":%d.10,\"none\":null,\"rows\":[", n);
	for (int i = 0; i < ROWS; i++)
		buf_addf(b, "%s{\"a\":\"%08x\",\"b\":%u}", i > 0 ? "," : "", rows[i], rows[i] % 1000003);
	buf_add_text(b, "]}");
}

/* Makes the n-th checkpoint, with a state of which some rows are new. */
static void put(int n, int changes, bool resumable)
{
	struct buf b = {0};

	for (int i = 0; i < changes; i++)
		rows[draw() % ROWS] = draw();
	buf_addf(&b, "{\"type\":\"checkpoint\",\"step\":\"s%d\",\"resumable\":%s,\"state\":", n,
		resumable ? "true" : "false");
	write_state(&b, n);
	buf_add_text(&b, "}");
	fake_worker_say(p, buf_text(&b));
	buf_fini(&b);
}

static const char *kind_of(int n)
{
	char step[16];

	snprintf(step, sizeof step, "\"s%d\"", n);
	return world_text(&w, "SELECT encoding FROM checkpoints WHERE step = ?", step);
}

/* "zddd...": how each of them was stored, when it was. */
static const char *put_many(int from, int upto, int changes)
{
	static char kinds[64];

	for (int n = from; n <= upto; n++) {
		put(n, changes, true);
		world_run(&w);
		kinds[n - from] = kind_of(n)[0];
	}
	kinds[upto - from + 1] = '\0';
	return kinds;
}

/* Went it on from the n-th, with the state as it was written then? */
static bool is_resumed_from(int n)
{
	char text[80];

	if (w.workers.count == 0)
		return false;
	snprintf(text, sizeof text, "\"step\":\"s%d\",\"state\":{\"n\":%d.10,\"none\":null,", n, n);
	return fake_worker_has_line(w.workers.list[0], text);
}

/* ---- how they are stored ---- */

START_TEST(every_tenth_is_full_and_those_between_are_deltas_against_it) /* proves CK-02 */
{
	ck_assert_str_eq(put_many(1, 21, 3), "zdddddddddzdddddddddz");
}
END_TEST

START_TEST(a_delta_takes_a_small_part_of_what_a_full_one_takes) /* proves CK-02 */
{
	put_many(1, 3, 3);
	ck_assert_int_gt(
		world_count(&w, "SELECT length(state) FROM checkpoints WHERE encoding = 'zstd'", NULL), 8000);
	ck_assert_int_lt(
		world_count(&w, "SELECT max(length(state)) FROM checkpoints WHERE encoding = 'delta'", NULL),
		400);
	ck_assert_int_eq(
		world_count(&w,
			"SELECT count(*) FROM checkpoints d JOIN checkpoints b ON b.id = d.base"
			" WHERE d.encoding = 'delta' AND b.encoding = 'zstd' AND b.session = d.session",
			NULL),
		2);
	ck_assert_int_gt(world_count(&w, "SELECT min(state_size) FROM checkpoints", NULL), 20000);
}
END_TEST

START_TEST(a_session_goes_on_from_a_delta_as_from_a_full_one) /* proves CK-02 */
{
	struct buf state = {0};

	put_many(1, 7, 5);
	write_state(&state, 7);
	world_crash(&w);
	world_run(&w);
	ck_assert(is_resumed_from(7));
	ck_assert(fake_worker_has_line(w.workers.list[0], buf_text(&state)));
	ck_assert_int_eq(world_said(&w, "checkpoint_damaged"), 0);
	ck_assert_int_eq(world_said(&w, "recovered_from_checkpoint"), 1);
	world_check_stream(&w, 1);
	buf_fini(&state);
}
END_TEST

START_TEST(a_new_run_begins_with_a_full_one)
{
	put_many(1, 3, 3);
	world_crash(&w);
	world_run(&w);
	p = w.workers.list[0];
	ck_assert_str_eq(put_many(4, 6, 3), "zdd");
}
END_TEST

START_TEST(how_many_are_deltas_is_the_capabilitys_to_say) /* proves CK-02 */
{
	teardown();
	begin(_i == 0 ? "[capability work]\ncheckpoint_full_every = 1\n" :
			"[capability work]\ncheckpoint_full_every = 3\n");
	ck_assert_str_eq(put_many(1, 7, 3), _i == 0 ? "zzzzzzz" : "zddzddz");
}
END_TEST

START_TEST(a_state_of_which_most_is_new_is_stored_whole) /* proves CK-02 */
{
	ck_assert_str_eq(put_many(1, 3, ROWS * 3), "zzz");
	ck_assert_str_eq(put_many(4, 6, 3), "ddd");
}
END_TEST

START_TEST(a_small_state_is_readable_in_its_row) /* proves CK-02 */
{
	put_many(1, 2, 3);
	fake_worker_say(
		p, "{\"type\":\"checkpoint\",\"step\":\"s3\",\"state\":{\"n\":3.10,\"none\":null,\"a\":[]}}");
	world_run(&w);
	ck_assert_str_eq(world_text(&w, "SELECT state FROM checkpoints WHERE typeof(state) = 'text'", NULL),
		"{\"n\":3.10,\"none\":null,\"a\":[]}");
	ck_assert_str_eq(kind_of(3), "json");
	world_crash(&w);
	world_run(&w);
	ck_assert(is_resumed_from(3));
}
END_TEST

START_TEST(checkpoint_that_is_not_committed_yet_is_no_base)
{
	for (int n = 1; n <= 3; n++) {
		put(n, 3, true);
		ck_assert(fake_workers_run(&w.workers)); /* all in one turn */
	}
	world_run(&w);
	ck_assert_str_eq(kind_of(2), "zstd");
	ck_assert_str_eq(kind_of(3), "zstd");
	ck_assert_str_eq(put_many(4, 5, 3), "dd");
}
END_TEST

START_TEST(checkpoint_that_is_not_resumable_is_never_a_base)
{
	put(1, 3, false);
	world_run(&w);
	ck_assert_str_eq(kind_of(1), "zstd");
	put(2, 3, true);
	world_run(&w);
	put(3, 3, false);
	world_run(&w);
	ck_assert_str_eq(put_many(4, 4, 3), "d");
	ck_assert_str_eq(kind_of(2), "zstd");
	ck_assert_str_eq(kind_of(3), "delta");
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM checkpoints d JOIN checkpoints b ON b.id = d.base "
				 "WHERE NOT b.resumable",
				 NULL),
		0);
}
END_TEST

START_TEST(base_of_a_kept_delta_is_kept) /* proves CK-02 */
{
	put_many(1, 9, 3);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 4);
	ck_assert_str_eq(kind_of(1), "zstd");
	put_many(10, 12, 3); /* the eleventh is full, and the tenth is kept */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 4);
	put_many(13, 13, 3);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 3);
	ck_assert_str_eq(kind_of(1), "");
	ck_assert_int_eq(
		world_count(&w,
			"SELECT count(*) FROM checkpoints WHERE base NOT IN (SELECT id FROM checkpoints)",
			NULL),
		0);
}
END_TEST

START_TEST(nothing_is_built_on_a_base_that_is_no_longer_what_it_was)
{
	static const char *const damages[] = {
		"UPDATE checkpoints SET state = substr(state, 1, 100) WHERE encoding = 'zstd'",
		"UPDATE checkpoints SET state = CAST('{}' AS BLOB) WHERE encoding = 'zstd'",
		"UPDATE checkpoints SET state = '{\"n\":1}', encoding = 'json' WHERE encoding = 'zstd'",
		"DELETE FROM checkpoints WHERE encoding = 'zstd'",
		"UPDATE checkpoints SET encoding = 'gzip' WHERE encoding = 'zstd'",
	};

	put_many(1, 2, 3);
	world_exec(&w, damages[_i]);
	ck_assert_str_eq(put_many(3, 4, 3), "zd");
	world_crash(&w);
	world_run(&w);
	ck_assert(is_resumed_from(4));
	ck_assert_int_eq(world_said(&w, "checkpoint_damaged"), 0);
}
END_TEST

START_TEST(nor_on_one_that_somebody_wrote_anew)
{
	struct checkpoint cp;
	sqlite3_stmt *st;
	char id[ID_SIZE];

	put_many(1, 2, 3);
	snprintf(id, sizeof id, "%s",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints WHERE encoding = 'zstd'", NULL));
	ck_assert_int_eq(checkpoint_load(w.core.store, id, &cp), 1);
	cp.state.data[5] = '8'; /* of its n: good JSON, and nearly all of it as it was */
	ck_assert(sqlite3_prepare_v2(w.watch,
			  "UPDATE checkpoints SET encoding = 'json', state = ? WHERE encoding = 'zstd'", -1,
			  &st, NULL) == SQLITE_OK);
	sqlite3_bind_text(st, 1, cp.state.data, (int)cp.state.size, SQLITE_STATIC);
	ck_assert(sqlite3_step(st) == SQLITE_DONE && sqlite3_changes(w.watch) == 1);
	sqlite3_finalize(st);
	checkpoint_fini(&cp);
	ck_assert_str_eq(put_many(3, 4, 3), "zd");
}
END_TEST

/* ---- damage ---- */

static void flip(const char *step, int place)
{
	sqlite3_stmt *st;
	sqlite3_blob *blob;
	int size;
	char byte;

	ck_assert(sqlite3_prepare_v2(w.watch, "SELECT id FROM checkpoints WHERE step = ?", -1, &st, NULL) ==
		SQLITE_OK);
	sqlite3_bind_text(st, 1, step, -1, SQLITE_STATIC);
	ck_assert(sqlite3_step(st) == SQLITE_ROW);
	ck_assert(sqlite3_blob_open(w.watch, "main", "checkpoints", "state", sqlite3_column_int64(st, 0), 1,
			  &blob) == SQLITE_OK);
	size = sqlite3_blob_bytes(blob);
	ck_assert(sqlite3_blob_read(blob, &byte, 1, size * place / 100) == SQLITE_OK);
	byte ^= 0x10;
	ck_assert(sqlite3_blob_write(blob, &byte, 1, size * place / 100) == SQLITE_OK);
	sqlite3_blob_close(blob);
	sqlite3_finalize(st);
}

#define S1 "step = '\"s1\"'"
#define S4 "step = '\"s4\"'"

/* Four of them: 1 is full, 2 to 4 build on it. What is damaged, and from which it goes on; 0: from none. */
static const struct {
	const char *sql;
	int from;
} damages[] = {
	{"UPDATE checkpoints SET state = substr(state, 1, length(state) - 1) WHERE " S4, 3},
	{"UPDATE checkpoints SET state = substr(state, 1, 10) WHERE " S4, 3},
	{"UPDATE checkpoints SET state = x'' WHERE " S4, 3},
	{"UPDATE checkpoints SET state = 'x' WHERE " S4, 3},
	{"UPDATE checkpoints SET state = (SELECT state FROM checkpoints WHERE step = '\"s3\"') WHERE " S4, 3},
	{"UPDATE checkpoints SET state_size = state_size + 1 WHERE " S4, 3},
	{"UPDATE checkpoints SET state_size = NULL WHERE " S4, 3},
	{"UPDATE checkpoints SET encoding = 'zstd', base = NULL WHERE " S4, 3},
	{"UPDATE checkpoints SET base = id WHERE " S4, 3},
	{"UPDATE checkpoints SET base = base + 1000 WHERE " S4, 3},
	{"UPDATE checkpoints SET base = NULL WHERE " S4, 3},
	{"UPDATE checkpoints SET sha256 = (SELECT sha256 FROM checkpoints WHERE step = '\"s3\"') WHERE " S4,
		3},
	{"UPDATE checkpoints SET state = (SELECT state FROM checkpoints WHERE step = '\"s2\"') WHERE step IN "
	 "('\"s3\"','\"s4\"')",
		2},
	{"DELETE FROM checkpoints WHERE " S4, 3},
	{"DELETE FROM checkpoints WHERE step IN ('\"s3\"','\"s4\"')", 2},
	{"DELETE FROM checkpoints WHERE step <> '\"s1\"'", 1},
	{"DELETE FROM checkpoints WHERE " S1, 0},
	{"UPDATE checkpoints SET state = substr(state, 1, 1000) WHERE " S1, 0},
	{"UPDATE checkpoints SET session = session + 1 WHERE " S1, 0},
	{"DELETE FROM checkpoints", 0},
};

START_TEST(damaged_rows_are_reported_and_the_newest_good_one_is_used) /* proves CK-03 */
{
	put_many(1, 4, 5);
	ck_assert_str_eq(kind_of(4), "delta");
	world_exec(&w, damages[_i].sql);
	ck_assert_int_gt(sqlite3_changes(w.watch), 0);
	world_crash(&w);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "\"code\":\"checkpoint_damaged\""), 1);
	if (damages[_i].from > 0) {
		ck_assert(is_resumed_from(damages[_i].from));
		ck_assert_int_eq(world_said(&w, "recovered_from_checkpoint"), 1);
		return;
	}
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_int_eq(world_said(&w, "all checkpoints are damaged"), 1);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(a_flipped_bit_anywhere_is_found) /* proves CK-03 */
{
	put_many(1, 4, 5);
	flip(_i % 2 == 0 ? "\"s4\"" : "\"s1\"", _i * 5);
	world_crash(&w);
	world_run(&w);
	/* A bit that means nothing to zstd costs nothing; then the state is what it was. */
	if (world_said(&w, "\"code\":\"checkpoint_damaged\"") == 0)
		ck_assert(is_resumed_from(4));
	else if (_i % 2 == 0)
		ck_assert(is_resumed_from(3));
	else
		ck_assert_str_eq(world_state(&w, 1), "FAILED");
}
END_TEST

START_TEST(checkpoint_that_an_operator_passed_over_is_not_missed)
{
	put_many(1, 2, 3);
	store_retire_checkpoints(w.core.store, 1);
	world_run(&w);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM sessions WHERE last_checkpoint IS NULL", NULL), 1);
	world_exec(&w, "DELETE FROM checkpoints");
	world_crash(&w);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "checkpoint_damaged"), 0);
}
END_TEST

START_TEST(checkpoint_of_any_session_is_found_by_its_id)
{
	struct checkpoint cp;
	char id[ID_SIZE];

	put_many(1, 3, 3);
	snprintf(id, sizeof id, "%s",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints WHERE step = '\"s3\"'", NULL));
	ck_assert_int_eq(checkpoint_load(w.core.store, id, &cp), 1);
	ck_assert_str_eq(cp.id, id);
	ck_assert(cp.session == 1 && cp.resumable && cp.damage == NULL);
	ck_assert(strstr(buf_text(&cp.state), "\"n\":3.10,") != NULL);
	checkpoint_fini(&cp);
	world_exec(&w, "UPDATE checkpoints SET state = x'00' WHERE step = '\"s3\"'");
	ck_assert_int_eq(checkpoint_load(w.core.store, id, &cp), 0);
	ck_assert(cp.damage != NULL);
	checkpoint_fini(&cp);
	ck_assert_int_eq(checkpoint_load(w.core.store, "11111111-1111-4111-8111-111111111111", &cp), 0);
	ck_assert(cp.damage == NULL);
	checkpoint_fini(&cp);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("checkpoint_delta");
	TCase *t = tcase_create("checkpoint_delta");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, every_tenth_is_full_and_those_between_are_deltas_against_it);
	tcase_add_test(t, a_delta_takes_a_small_part_of_what_a_full_one_takes);
	tcase_add_test(t, a_session_goes_on_from_a_delta_as_from_a_full_one);
	tcase_add_test(t, a_new_run_begins_with_a_full_one);
	tcase_add_loop_test(t, how_many_are_deltas_is_the_capabilitys_to_say, 0, 2);
	tcase_add_test(t, a_state_of_which_most_is_new_is_stored_whole);
	tcase_add_test(t, a_small_state_is_readable_in_its_row);
	tcase_add_test(t, checkpoint_that_is_not_committed_yet_is_no_base);
	tcase_add_test(t, checkpoint_that_is_not_resumable_is_never_a_base);
	tcase_add_test(t, base_of_a_kept_delta_is_kept);
	tcase_add_loop_test(t, nothing_is_built_on_a_base_that_is_no_longer_what_it_was, 0, 5);
	tcase_add_test(t, nor_on_one_that_somebody_wrote_anew);
	tcase_add_loop_test(t, damaged_rows_are_reported_and_the_newest_good_one_is_used, 0,
		(int)(sizeof damages / sizeof *damages));
	tcase_add_loop_test(t, a_flipped_bit_anywhere_is_found, 0, 20);
	tcase_add_test(t, checkpoint_that_an_operator_passed_over_is_not_missed);
	tcase_add_test(t, checkpoint_of_any_session_is_found_by_its_id);
	return world_main(s);
}
