/* SPDX-License-Identifier: MIT */
/* test_audit.c: the audit: what becomes a row, that rows are chained, that floods stay small, and what
 * verification finds. */
#include "support/fakes/fake_world.h"

#include "store/audit_chain.h"
#include "support/fakes/fake_operators.h"

static struct world w;
static struct op_queue operators;

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
}

static void teardown(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
}

/* ---- looking ---- */

struct faults {
	int count;
	char all[2048];
};

static void on_fault(void *ctx, int64_t n, const char *text)
{
	struct faults *f = ctx;

	(void)n;
	f->count++;
	strncat(f->all, text, sizeof f->all - strlen(f->all) - 2);
	strcat(f->all, "\n");
}

static void check_noted(struct faults *f, int64_t noted, const char *noted_hash)
{
	struct audit_check k = {.noted = noted};
	sqlite3_stmt *st;
	long long count = -1;
	char head[CANONICAL_HASH_SIZE] = "";

	*f = (struct faults){0};
	snprintf(k.noted_hash, sizeof k.noted_hash, "%s", noted_hash);
	audit_check_begin(
		&k, world_text(&w, "SELECT value FROM meta WHERE key = 'instance'", NULL), on_fault, f);
	ck_assert(sqlite3_prepare_v2(w.watch, "SELECT id, entry, hash FROM audit ORDER BY id", -1, &st,
			  NULL) == SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW)
		audit_check_row(&k, sqlite3_column_int64(st, 0), (const char *)sqlite3_column_text(st, 1),
			(size_t)sqlite3_column_bytes(st, 1), (const char *)sqlite3_column_text(st, 2));
	sqlite3_finalize(st);
	sscanf(world_text(&w, "SELECT value FROM meta WHERE key = 'audit'", NULL), "%lld %64s", &count, head);
	audit_check_end(&k, count, head);
	ck_assert_int_eq(k.faults, f->count);
}

static void expect_good(void)
{
	struct faults f;

	check_noted(&f, 0, "");
	ck_assert_msg(f.count == 0, "%s", f.all);
}

static void expect_fault(const char *text)
{
	struct faults f;

	check_noted(&f, 0, "");
	ck_assert_msg(strstr(f.all, text) != NULL, "not found: %s, but:\n%s", text, f.all);
}

static int64_t rows(void)
{
	return world_count(&w, "SELECT count(*) FROM audit", NULL);
}

/* A member of the newest row of a kind. */
static const char *last(const char *what, const char *member)
{
	char sql[256];

	snprintf(sql, sizeof sql,
		"SELECT json_extract(entry, '$.%s') FROM audit WHERE json_extract(entry, '$.what') = ?"
		" ORDER BY id DESC LIMIT 1",
		member);
	return world_text(&w, sql, what);
}

static void expect(const char *what, const char *member, const char *value)
{
	ck_assert_msg(strcmp(last(what, member), value) == 0, "%s of %s is %s, not %s", member, what,
		last(what, member), value);
}

static struct op_request *ask(enum op_verb verb, int key)
{
	struct op_request *a = fake_operators_ask(&operators, verb, key > 0 ? world_id(&w, key) : NULL);

	a->uid = 1000;
	snprintf(a->user, sizeof a->user, "anna");
	core_on_requests(&w.core);
	world_run(&w);
	return a;
}

/* ---- what becomes a row ---- */

START_TEST(an_accepted_task_is_a_row_with_who_what_and_the_hashes)
{
	char hash[CANONICAL_HASH_SIZE];
	const char *task;

	world_submit_as(&w, "beta", "beta-user", "m1", "work", "");
	world_run(&w);
	expect("task", "outcome", "accepted");
	expect("task", "who", "beta");
	expect("task", "user", "beta-user");
	expect("task", "capability", "work");
	expect("task", "risk", "R2");
	expect("task", "session", world_id(&w, 1));
	expect("task", "policy", w.core.policy->hash);
	task = world_text(&w, "SELECT task FROM tasks WHERE session = 1", NULL);
	canonical_hash_bytes(task, strlen(task), hash);
	expect("task", "task", hash);
	expect_good();
}
END_TEST

START_TEST(a_rejected_task_is_a_row_with_the_code_and_the_reason)
{
	world_submit(&w, "m1", "nonsense");
	world_run(&w);
	expect("task", "outcome", "rejected");
	expect("task", "code", "unknown_capability");
	ck_assert_str_ne(last("task", "why"), "");
	expect_good();
}
END_TEST

START_TEST(the_rules_that_raised_the_risk_are_in_the_row)
{
	world_declare(&w, "work", "1.2.3",
		"\"risk_ceiling\":\"R4\",\"risk_floor\":\"R1\",\"requires_human_approval\":false,"
		"\"involves_physical_resources\":false,\"rules\":[{\"when\":{\"pointer\":\"\",\"op\":"
		"\"present\"},\"level\":\"R3\","
		"\"reason\":\"it is there\"}]",
		"");
	core_reload(&w.core);
	world_submit(&w, "m1", "work");
	world_run(&w);
	expect("task", "risk", "R3");
	expect("task", "rules", "it is there (R3)");
}
END_TEST

START_TEST(a_row_is_canonical_json_whatever_was_sent)
{
	int64_t n = world_count(&w, "SELECT max(id) FROM audit", NULL);
	struct buf b = {0};
	const char *text;
	json_t *row;

	world_submit(&w, "m1", "\\u0001\\\"\\\\ \\u00e9\\n\\u2028 nonsense");
	world_run(&w);
	ck_assert_int_eq(rows(), n + 1);
	text = world_text(&w, "SELECT entry FROM audit ORDER BY id DESC LIMIT 1", NULL);
	row = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	canonical_add(&b, row);
	ck_assert_str_eq(buf_text(&b), text);
	buf_fini(&b);
	json_decref(row);
}
END_TEST

START_TEST(a_decision_is_never_stored_without_its_row)
{
	for (int i = 0; i < 20; i++) {
		char id[16];

		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, i % 3 == 0 ? "nonsense" : "work");
		if (i == 10)
			fake_disk_refuse(ENOSPC);
		if (i == 15)
			fake_disk_mend();
		world_turn(&w);
		ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits", NULL),
			world_count(&w,
				"SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'task'",
				NULL));
	}
	world_pass(&w, 3 * SECONDS);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits", NULL), 20);
	ck_assert_int_eq(
		world_count(
			&w, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'task'", NULL),
		20);
	expect_good();
}
END_TEST

START_TEST(operators_deeds_are_rows_with_their_user)
{
	struct op_request *a;

	world_start(&w, "m1", "work");
	ask(OP_PAUSE, 1);
	expect("pause", "outcome", "done");
	expect("pause", "who", "operator");
	expect("pause", "uid", "1000");
	expect("pause", "user", "anna");
	expect("pause", "session", world_id(&w, 1));
	ask(OP_DRAIN, 0);
	expect("drain", "outcome", "done");
	a = fake_operators_ask(&operators, OP_ABORT, world_id(&w, 1));
	a->reason = xstrdup("it smokes");
	core_on_requests(&w.core);
	world_run(&w);
	expect("abort", "why", "it smokes");
	ck_assert_int_eq(rows(), world_count(&w, "SELECT max(id) FROM audit", NULL));
	expect_good();
}
END_TEST

START_TEST(looking_leaves_no_row)
{
	int64_t before = rows();

	world_start(&w, "m1", "work");
	before = rows();
	ask(OP_STATS, 0);
	ask(OP_LIVE, 1);
	ck_assert_int_eq(rows(), before);
}
END_TEST

START_TEST(operators_choice_is_in_the_row)
{
	struct op_request *a;

	world_start(&w, "m1", "work");
	a = fake_operators_ask(&operators, OP_EXTEND, world_id(&w, 1));
	a->by_us = 600 * SECONDS;
	core_on_requests(&w.core);
	world_run(&w);
	expect("extend", "outcome", "done");
	expect("extend", "about", "by=PT10M");
	a = fake_operators_ask(&operators, OP_RECOVER, world_id(&w, 1));
	snprintf(a->how, sizeof a->how, "discard");
	core_on_requests(&w.core);
	world_run(&w);
	expect("recover", "outcome", "refused");
	expect("recover", "about", "how=discard");
	a = fake_operators_ask(&operators, OP_REPLAY, world_id(&w, 1));
	a->from = 2;
	core_on_requests(&w.core);
	world_run(&w);
	expect("replay", "about", "from=2");
	expect_good();
}
END_TEST

START_TEST(every_refused_access_is_a_row) /* proves SA-15 */
{
	world_submit_as(&w, "beta", "beta-user", "m1", "work", "");
	world_run(&w);
	world_abort_as(&w, world_id(&w, 1), NULL, "somebody-else");
	world_run(&w);
	expect("abort", "outcome", "refused");
	expect("abort", "code", "not_the_owner");
	expect("abort", "user", "somebody-else");
	world_abort_as(&w, world_id(&w, 1), "v1.made.up", "somebody-else");
	world_run(&w);
	expect("abort", "outcome", "refused");
	ck_assert_str_ne(last("abort", "code"), "not_the_owner");
	world_submit_as(&w, "beta", "mallory", "m2", "work", "");
	world_run(&w);
	expect("task", "outcome", "rejected");
	expect("task", "code", "unauthorized");
	expect("task", "user", "mallory");
	world_submit_as(&w, "nobody-knows", NULL, "m3", "work", "");
	world_run(&w);
	expect("task", "who", "nobody-knows");
	ask(OP_RESUME, 1);
	expect("resume", "outcome", "refused");
	expect("resume", "code", "not_now");
	operators.stranger = (struct denied_peer){.uid = 4711, .user = "eve", .count = 1};
	core_on_requests(&w.core);
	world_run(&w);
	expect("control", "outcome", "refused");
	expect("control", "uid", "4711");
	expect("control", "user", "eve");
	expect_good();
}
END_TEST

/* An abort that finds nothing to end has no effect, and its row says whether its token was ours. */
START_TEST(an_abort_with_nothing_to_end_is_a_row_too) /* proves L2-13, SA-15 */
{
	static const struct {
		const char *session, *token, *code; /* NULL: the ended session; its own token */
	} aborts[] = {
		{"b5a1cf0c-2c8c-4a43-8f3a-3c5f9d0c7e11", "v1.made.up", "token_malformed"},
		{"b5a1cf0c-2c8c-4a43-8f3a-3c5f9d0c7e11", NULL, "token_other_session"},
		{"b5a1cf0c-2c8c-4a43-8f3a-3c5f9d0c7e11", "", "unknown_session"},
		{NULL, "v1.made.up", "token_malformed"},
		{NULL, NULL, "session_over"},
		{NULL, "", "session_over"},
	};
	char id[ID_SIZE], token[1024];
	struct worker *p;

	p = world_start(&w, "m1", "work");
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	snprintf(id, sizeof id, "%s", world_id(&w, 1));
	snprintf(token, sizeof token, "%s", world_text(&w, "SELECT session_token FROM sessions", NULL));
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	for (int i = 0; i < (int)(sizeof aborts / sizeof *aborts); i++) {
		const char *session = aborts[i].session != NULL ? aborts[i].session : id;
		const char *shown = aborts[i].token != NULL ? aborts[i].token : token;

		fake_clock_pass(120 * SECONDS); /* refusals of one kind are counted for a minute */
		world_run(&w);
		world_abort_as(&w, session, shown[0] != '\0' ? shown : NULL, "mallory");
		world_run(&w);
		expect("abort", "outcome", "refused");
		expect("abort", "code", aborts[i].code);
		expect("abort", "session", session);
		expect("abort", "user", "mallory");
		ck_assert_int_eq(
			world_count(&w, "SELECT count(*) FROM audit WHERE entry LIKE '%\"abort\"%'", NULL),
			i + 1);
	}
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	expect_good();
}
END_TEST

/* ---- floods ---- */

START_TEST(a_flood_of_strangers_is_two_rows_a_minute_and_counted) /* proves SA-06 */
{
	int64_t before = rows();
	char name[32], id[32];

	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof name, "stranger-%d", i);
		snprintf(id, sizeof id, "m%d", i);
		world_submit_as(&w, name, "eve", id, "work", "");
		if (i % 50 == 0)
			world_run(&w);
	}
	world_run(&w);
	ck_assert_int_eq(rows(), before + 1);
	world_pass(&w, 61 * SECONDS);
	ck_assert_int_eq(rows(), before + 2);
	expect("task", "count", "1999");
	expect("task", "user", "eve");
	expect("task", "code", "unauthorized");
	expect_good();
	world_pass(&w, 600 * SECONDS);
	ck_assert_int_eq(rows(), before + 2); /* silence is not written */
}
END_TEST

START_TEST(a_flood_of_many_kinds_is_bounded_too)
{
	int64_t before = rows();
	char user[32], id[32], others[32];

	for (int i = 0; i < 500; i++) {
		snprintf(user, sizeof user, "user-%d", i);
		snprintf(id, sizeof id, "m%d", i);
		world_submit_as(&w, "stranger", user, id, "work", "");
		world_run(&w);
	}
	ck_assert_int_le(rows(), before + AUDIT_SLOTS + 1);
	world_pass(&w, 61 * SECONDS);
	ck_assert_int_le(rows(), before + 2 * (AUDIT_SLOTS + 1));
	snprintf(others, sizeof others, "%d", 500 - AUDIT_SLOTS - 1);
	expect("many", "count", others);
	expect_good();
}
END_TEST

START_TEST(a_limited_caller_costs_two_rows_a_minute)
{
	int64_t before;
	char id[32];

	world_configure(&w, "[caller alpha]\nrate_limit = 1/h\nrate_burst = 1\n");
	core_reload(&w.core);
	world_submit(&w, "m", "work");
	world_run(&w);
	before = rows();
	for (int i = 0; i < 300; i++) {
		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, "work");
		world_run(&w);
	}
	world_pass(&w, 61 * SECONDS);
	expect("task", "code", "rate_limited");
	ck_assert_int_le(rows(), before + 4);
	ck_assert_int_eq(world_count(&w,
				 "SELECT 1 + sum(json_extract(entry, '$.count')) FROM audit WHERE"
				 " json_extract(entry, '$.code') = 'rate_limited'",
				 NULL),
		300);
}
END_TEST

START_TEST(a_flood_of_rejections_is_counted_and_a_few_are_not) /* proves SA-06 */
{
	int64_t before = rows();
	char id[32];

	for (int i = 0; i < 3000; i++) { /* 300 in a minute, for ten minutes */
		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, "nonsense");
		world_pass(&w, SECONDS / 5);
	}
	world_pass(&w, 61 * SECONDS);
	ck_assert_int_le(rows(), before + 60 + 11);
	ck_assert_int_eq(world_count(&w,
				 "SELECT sum(coalesce(json_extract(entry, '$.count'), 1)) FROM audit WHERE"
				 " json_extract(entry, '$.code') = 'unknown_capability'",
				 NULL),
		3000);
	world_pass(&w, 61 * SECONDS);
	before = rows();
	for (int i = 0; i < 200; i++) { /* 50 in a minute: a row each, again */
		snprintf(id, sizeof id, "n%d", i);
		world_submit(&w, id, "nonsense");
		world_pass(&w, 1200 * 1000);
	}
	ck_assert_int_eq(rows(), before + 200);
	expect_good();
}
END_TEST

START_TEST(aborts_of_a_session_that_ends_already_are_two_rows_a_minute) /* proves SA-06 */
{
	struct worker *p = world_start(&w, "m1", "work");
	int64_t before = rows();

	p->ignores_term = true;
	for (int i = 0; i < 300; i++)
		world_abort(&w, world_id(&w, 1));
	world_run(&w);
	ck_assert_int_eq(rows(), before + 2);
	world_pass(&w, 61 * SECONDS);
	expect("abort", "code", "end_decided");
	expect("abort", "count", "298");
	ck_assert_int_eq(rows(), before + 3);
	expect_good();
}
END_TEST

START_TEST(counts_are_written_at_a_stop)
{
	for (int i = 0; i < 5; i++)
		world_submit_as(&w, "stranger", NULL, "m1", "work", "");
	world_run(&w);
	core_stop(&w.core);
	world_run(&w);
	world_end(&w, false);
	w.core.operator.queue = NULL;
	world_begin(&w);
	expect("task", "count", "4");
	expect_good();
}
END_TEST

/* ---- policies ---- */

START_TEST(a_reload_is_a_row_with_both_hashes)
{
	char before[65];

	snprintf(before, sizeof before, "%s", w.core.policy->hash);
	world_configure(&w, "; another word\n");
	core_reload(&w.core);
	world_run(&w);
	ck_assert_str_ne(before, w.core.policy->hash);
	expect("reload", "outcome", "done");
	expect("reload", "policy_before", before);
	expect("reload", "policy", w.core.policy->hash);
}
END_TEST

START_TEST(policy_hash_follows_the_text_of_the_declarations)
{
	char before[65];

	snprintf(before, sizeof before, "%s", w.core.policy->hash);
	core_reload(&w.core);
	ck_assert_str_eq(w.core.policy->hash, before);
	world_declare(&w, "work", "1.2.4", WORLD_SAFE, "");
	core_reload(&w.core);
	ck_assert_str_ne(w.core.policy->hash, before);
}
END_TEST

START_TEST(a_refused_reload_is_a_row_and_the_policy_stays)
{
	char before[65];

	snprintf(before, sizeof before, "%s", w.core.policy->hash);
	world_write_file(w.dir, "hcpd.ini", "[nonsense]\n");
	core_reload(&w.core);
	world_run(&w);
	expect("reload", "outcome", "refused");
	expect("reload", "policy", before);
	ck_assert_str_eq(w.core.policy->hash, before);
}
END_TEST

/* ---- the chain ---- */

START_TEST(the_chain_goes_on_through_stops_and_crashes)
{
	for (int i = 0; i < 6; i++) {
		char id[16];

		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, "nonsense");
		world_run(&w);
		w.core.operator.queue = NULL;
		if (i % 2 == 0) {
			world_crash(&w);
		} else {
			world_end(&w, false);
			world_begin(&w);
		}
	}
	ck_assert_int_eq(
		world_count(
			&w, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'start'", NULL),
		7);
	expect_good();
}
END_TEST

START_TEST(rows_can_neither_be_updated_nor_deleted_by_a_slip)
{
	ck_assert(sqlite3_exec(w.watch, "UPDATE audit SET entry = '{}'", NULL, NULL, NULL) != SQLITE_OK);
	ck_assert(sqlite3_exec(w.watch, "DELETE FROM audit", NULL, NULL, NULL) != SQLITE_OK);
}
END_TEST

static void fill(void)
{
	for (int i = 0; i < 9; i++) {
		char id[16];

		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, "nonsense");
	}
	world_run(&w);
	ck_assert_int_eq(rows(), 10);
	expect_good();
	world_exec(&w, "DROP TRIGGER audit_stays; DROP TRIGGER audit_is_kept");
}

START_TEST(any_changed_removed_moved_or_added_row_is_found)
{
	static const struct {
		const char *sql, *fault;
	} cases[] = {
		{"UPDATE audit SET entry = replace(entry, 'rejected', 'accepted') WHERE id = 5",
			"row 5 does not follow"},
		{"UPDATE audit SET entry = entry || ' ' WHERE id = 5", "row 5 does not follow"},
		{"UPDATE audit SET entry = '' WHERE id = 5", "row 5 was changed"},
		{"UPDATE audit SET entry = 'x' WHERE id = 1", "row 1 was changed"},
		{"UPDATE audit SET entry = replace(entry, 'start', 'stert') WHERE id = 1",
			"row 1 was changed"},
		{"UPDATE audit SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE id = 5",
			"row 5 does not follow"},
		{"UPDATE audit SET hash = '' WHERE id = 10", "row 10 does not follow"},
		{"DELETE FROM audit WHERE id = 5", "row 5 is missing"},
		{"DELETE FROM audit WHERE id IN (3, 4, 5)", "rows 3 to 5 are missing"},
		{"DELETE FROM audit WHERE id = 1", "row 1 is missing"},
		{"DELETE FROM audit WHERE id = 10",
			"the end is missing: there were 10 rows, and the last one is row 9"},
		{"DELETE FROM audit", "the end is missing: there were 10 rows"},
		{"DELETE FROM audit WHERE id = 5; UPDATE audit SET id = id - 1 WHERE id > 5",
			"row 5 was put there: it says that it is row 6"},
		{"UPDATE audit SET id = 100 WHERE id = 4; UPDATE audit SET id = 4 WHERE id = 5; UPDATE audit "
		 "SET id = 5 WHERE id = 100",
			"row 4 was put there: it says that it is row 5"},
		{"INSERT INTO audit SELECT 11, replace(entry, '\"n\":10', '\"n\":11'), hash FROM audit WHERE "
		 "id = 10",
			"there are rows up to 11, and only 10 were ever counted"},
		{"UPDATE meta SET value = '10 ' || substr(value, 4, 63) || 'x' WHERE key = 'audit'",
			"has not the hash that the store kept"},
		{"UPDATE meta SET value = replace(value, '10 ', '9 ') WHERE key = 'audit'",
			"only 9 were ever counted"},
		{"DELETE FROM meta WHERE key = 'audit'", "no record of how many rows"},
		{"INSERT INTO audit SELECT -5, entry, hash FROM audit WHERE id = 10", "row -5 was put there"},
		{"INSERT INTO audit SELECT 0, entry, hash FROM audit WHERE id = 10", "row 0 was put there"},
		{"INSERT INTO audit SELECT -9223372036854775807 - 1, entry, hash FROM audit WHERE id = 10",
			"was put there: rows are numbered"},
		{"INSERT INTO audit SELECT 9223372036854775807, entry, hash FROM audit WHERE id = 10",
			"rows 11 to 9223372036854775806 are"},
		{"UPDATE audit SET entry = entry || char(0) WHERE id = 5", "row 5 was changed"},
	};

	fill();
	world_exec(&w, cases[_i].sql);
	expect_fault(cases[_i].fault);
}
END_TEST

/* Somebody who knows how: row 5 is another, and every hash after it is made to fit, the head too. */
static void forge(void)
{
	char head[CANONICAL_HASH_SIZE], sql[256];

	world_exec(&w, "UPDATE audit SET entry = replace(entry, 'rejected', 'accepted') WHERE id = 5");
	snprintf(head, sizeof head, "%s", world_text(&w, "SELECT hash FROM audit WHERE id = 4", NULL));
	for (int n = 5; n <= 10; n++) {
		char number[8];
		const char *text;

		snprintf(number, sizeof number, "%d", n);
		text = world_text(&w, "SELECT entry FROM audit WHERE id = ?", number);
		audit_link(head, text, strlen(text), head);
		snprintf(sql, sizeof sql, "UPDATE audit SET hash = '%s' WHERE id = %d", head, n);
		world_exec(&w, sql);
	}
	snprintf(sql, sizeof sql, "UPDATE meta SET value = '10 %s' WHERE key = 'audit'", head);
	world_exec(&w, sql);
}

START_TEST(a_chain_that_was_made_anew_shows_only_beside_a_noted_head)
{
	char noted[CANONICAL_HASH_SIZE];
	struct faults f;

	fill();
	snprintf(noted, sizeof noted, "%s", world_text(&w, "SELECT hash FROM audit WHERE id = 8", NULL));
	check_noted(&f, 8, noted);
	ck_assert_int_eq(f.count, 0);
	forge();
	expect_good(); /* this is what a chain alone cannot show */
	check_noted(&f, 8, noted);
	ck_assert_msg(strstr(f.all, "row 8 has not the hash that was noted") != NULL, "%s", f.all);
	noted[16] = '\0'; /* as STATUS= has it */
	check_noted(&f, 8, noted);
	ck_assert_int_eq(f.count, 1);
}
END_TEST

START_TEST(chain_cut_with_its_count_shows_only_beside_a_noted_head)
{
	char noted[CANONICAL_HASH_SIZE];
	struct faults f;

	fill();
	snprintf(noted, sizeof noted, "%s", world_text(&w, "SELECT hash FROM audit WHERE id = 10", NULL));
	world_exec(&w,
		"DELETE FROM audit WHERE id > 7; UPDATE meta SET value = '7 ' || (SELECT hash FROM audit "
		"WHERE id = 7)"
		" WHERE key = 'audit'");
	expect_good();
	check_noted(&f, 10, noted);
	ck_assert_msg(strstr(f.all, "row 10 was noted once, and the last one is row 7") != NULL, "%s", f.all);
}
END_TEST

START_TEST(daemon_on_a_cut_chain_goes_on_and_hides_nothing)
{
	static const char *const cuts[] = {"DELETE FROM audit WHERE id > 7",
		"DELETE FROM meta WHERE key = 'audit'", "UPDATE meta SET value = '3 abc' WHERE key = 'audit'",
		"UPDATE meta SET value = 'nonsense' WHERE key = 'audit'", "DELETE FROM audit",
		"INSERT INTO audit SELECT -5, entry, hash FROM audit WHERE id = 10",
		"INSERT INTO audit SELECT 9223372036854775807, entry, hash FROM audit WHERE id = 10"};

	fill();
	world_exec(&w, cuts[_i]);
	w.core.operator.queue = NULL;
	world_crash(&w);
	expect("audit", "code", "chain_broken");
	expect("start", "n", "13"); /* 11 says that the triggers were missing */
	if (_i == 0)
		expect_fault("rows 8 to 10 are missing");
	if (_i == 4)
		expect_fault("rows 1 to 10 are missing");
	world_submit(&w, "later", "work");
	world_run(&w);
	ck_assert_int_eq(
		world_count(&w,
			"SELECT count(*) FROM audit WHERE json_extract(entry, '$.outcome') = 'accepted'",
			NULL),
		1);
}
END_TEST

START_TEST(triggers_that_are_gone_or_changed_are_made_again_and_logged)
{
	static const char *const ways[] = {"DROP TRIGGER audit_stays", "DROP TRIGGER audit_is_kept",
		("DROP TRIGGER audit_stays; CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT "
		 "1; END")};

	world_exec(&w, ways[_i]);
	w.core.operator.queue = NULL;
	world_crash(&w);
	expect("audit", "code", "triggers_missing");
	ck_assert(sqlite3_exec(w.watch, "UPDATE audit SET entry = '{}'", NULL, NULL, NULL) != SQLITE_OK);
	ck_assert(sqlite3_exec(w.watch, "DELETE FROM audit", NULL, NULL, NULL) != SQLITE_OK);
	expect_good();
	world_crash(&w);
	ck_assert_int_eq(
		world_count(
			&w, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'audit'", NULL),
		1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("audit");
	TCase *t = tcase_create("audit");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, an_accepted_task_is_a_row_with_who_what_and_the_hashes);
	tcase_add_test(t, a_rejected_task_is_a_row_with_the_code_and_the_reason);
	tcase_add_test(t, the_rules_that_raised_the_risk_are_in_the_row);
	tcase_add_test(t, a_row_is_canonical_json_whatever_was_sent);
	tcase_add_test(t, a_decision_is_never_stored_without_its_row);
	tcase_add_test(t, operators_deeds_are_rows_with_their_user);
	tcase_add_test(t, looking_leaves_no_row);
	tcase_add_test(t, operators_choice_is_in_the_row);
	tcase_add_test(t, every_refused_access_is_a_row);
	tcase_add_test(t, an_abort_with_nothing_to_end_is_a_row_too);
	tcase_add_test(t, a_flood_of_strangers_is_two_rows_a_minute_and_counted);
	tcase_add_test(t, a_flood_of_many_kinds_is_bounded_too);
	tcase_add_test(t, a_limited_caller_costs_two_rows_a_minute);
	tcase_add_test(t, a_flood_of_rejections_is_counted_and_a_few_are_not);
	tcase_add_test(t, aborts_of_a_session_that_ends_already_are_two_rows_a_minute);
	tcase_add_test(t, counts_are_written_at_a_stop);
	tcase_add_test(t, a_reload_is_a_row_with_both_hashes);
	tcase_add_test(t, policy_hash_follows_the_text_of_the_declarations);
	tcase_add_test(t, a_refused_reload_is_a_row_and_the_policy_stays);
	tcase_add_test(t, the_chain_goes_on_through_stops_and_crashes);
	tcase_add_test(t, rows_can_neither_be_updated_nor_deleted_by_a_slip);
	tcase_add_loop_test(t, any_changed_removed_moved_or_added_row_is_found, 0, 23);
	tcase_add_test(t, a_chain_that_was_made_anew_shows_only_beside_a_noted_head);
	tcase_add_test(t, chain_cut_with_its_count_shows_only_beside_a_noted_head);
	tcase_add_loop_test(t, daemon_on_a_cut_chain_goes_on_and_hides_nothing, 0, 7);
	tcase_add_loop_test(t, triggers_that_are_gone_or_changed_are_made_again_and_logged, 0, 3);
	suite_add_tcase(s, t);
	return world_main(s);
}
