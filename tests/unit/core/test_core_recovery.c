/* SPDX-License-Identifier: MIT */
/* test_core_recovery.c: what becomes of every kind of session after a crash or a stop. */
#include "support/fakes/fake_world.h"

static struct world w;

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
}

static void teardown(void)
{
	world_fini(&w);
}

/* ---- the matrix: recovery × how it stood × checkpoint × outcome ---- */

static const char *const capabilities[] = {"work", "again", "never"}; /* resume, restart, fail */
enum stood {
	STOOD_RUNNING,
	PAUSED_CRASH,
	PAUSED_STOP,
	PAUSED_WORKER,
	PAUSED_OPERATOR,
	PAUSED_IDLE,
	STOOD_ABORTING,
	STANDS
};
static const char *const paused_by[STANDS] = {[PAUSED_CRASH] = "crash",
	[PAUSED_STOP] = "stop",
	[PAUSED_WORKER] = "worker",
	[PAUSED_OPERATOR] = "operator",
	[PAUSED_IDLE] = "idle"};
enum kept { NO_CHECKPOINT, NOT_RESUMABLE, RESUMABLE, KEPTS };
enum decided { UNDECIDED, DECIDED_COMPLETED, DECIDED_FAILED, DECISIONS };
#define MATRIX (3 * STANDS * KEPTS * DECISIONS)

struct cell {
	int recovery;
	enum stood stood;
	enum kept kept;
	enum decided decided;
};

static struct cell cell_of(int i)
{
	return (struct cell){i % 3, (enum stood)(i / 3 % STANDS), (enum kept)(i / 3 / STANDS % KEPTS),
		(enum decided)(i / 3 / STANDS / KEPTS)};
}

/* Brings session 1 there in a first run. */
static void bring_about(const struct cell *c)
{
	struct worker *p = world_start(&w, "m1", capabilities[c->recovery]);
	char sql[80];

	if (c->kept == RESUMABLE)
		fake_worker_say(p, "{\"type\":\"checkpoint\",\"step\":\"s1\",\"state\":{\"n\":1.10}}");
	if (c->kept != NO_CHECKPOINT)
		fake_worker_say(p,
			"{\"type\":\"checkpoint\",\"step\":\"s2\",\"state\":{\"n\":2},\"resumable\":false}");
	if (paused_by[c->stood] != NULL)
		fake_worker_say(p, "{\"type\":\"paused\",\"reason\":\"p\"}");
	world_run(&w);
	if (c->stood == STOOD_ABORTING)
		world_abort(&w, p->session_id);
	else if (c->decided == DECIDED_COMPLETED)
		fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{\"done\":1}}");
	else if (c->decided == DECIDED_FAILED)
		fake_worker_say(
			p, "{\"type\":\"failed\",\"error_code\":\"input_error\",\"error_message\":\"bad\"}");
	world_run(&w);
	if (paused_by[c->stood] != NULL) {
		snprintf(sql, sizeof sql, "UPDATE sessions SET paused_by = '%s' WHERE paused_by IS NOT NULL",
			paused_by[c->stood]);
		world_exec(&w, sql);
	}
}

/* The path that design.md gives, from the crash on; the state in which it ends, and how. */
static const char *expect(const struct cell *c, char path[256])
{
	bool paused = paused_by[c->stood] != NULL;
	const char *reason =
		c->recovery == 0 && c->kept == RESUMABLE ? "recovered_from_checkpoint" : "restarted";
	const char *crash = paused ? "" : " RUNNING>PAUSED:callee_restarted";

	if (c->stood == STOOD_ABORTING) {
		snprintf(path, 256, " ABORTING>ABORTED:aborted_by_caller");
		return "ABORTED";
	}
	if (c->decided != UNDECIDED) {
		const char *end = c->decided == DECIDED_COMPLETED ? "completed" : "worker_failed";
		const char *to = c->decided == DECIDED_COMPLETED ? "COMPLETED" : "FAILED";

		if (paused)
			snprintf(path, 256, " PAUSED>RUNNING:%s RUNNING>%s:%s", end, to, end);
		else
			snprintf(path, 256, " RUNNING>%s:%s", to, end);
		return to;
	}
	if (c->stood == PAUSED_OPERATOR) {
		*path = '\0';
		return "PAUSED";
	}
	if (c->recovery == 2) {
		snprintf(path, 256, "%s PAUSED>RUNNING:no_checkpoint RUNNING>FAILED:no_checkpoint", crash);
		return "FAILED";
	}
	snprintf(path, 256, "%s PAUSED>RUNNING:%s", crash, reason);
	return "RUNNING";
}

START_TEST(every_kind_of_session_is_recovered_as_designed) /* proves L2-08 */
{
	struct cell c = cell_of(_i);
	char before[512], path[256], wanted[800];
	const char *state = expect(&c, path);

	bring_about(&c);
	snprintf(before, sizeof before, "%s", world_path(&w, 1));
	world_crash(&w);
	snprintf(wanted, sizeof wanted, "%s%s", before, path);
	ck_assert_str_eq(world_path(&w, 1), wanted); /* committed before anything is consumed */
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), state);
	ck_assert_uint_eq(w.workers.count, strcmp(state, "RUNNING") == 0 ? 1 : 0);
	if (strcmp(state, "RUNNING") == 0) {
		ck_assert(fake_worker_has_line(w.workers.list[0], "\"attempt\":2,"));
		ck_assert_int_eq(fake_worker_has_line(w.workers.list[0], "\"checkpoint\":null"),
			strstr(path, "restarted") != NULL && strstr(path, ":recovered") == NULL);
		ck_assert_int_eq(
			fake_worker_has_line(w.workers.list[0], "\"step\":\"s1\",\"state\":{\"n\":1.10}}"),
			strstr(path, ":recovered") != NULL);
	}
	if (strcmp(state, "FAILED") == 0)
		ck_assert_int_eq(world_said(&w,
					 c.decided == DECIDED_FAILED ? "\"error_code\":\"input_error\"" :
								       "\"error_code\":\"internal_error\""),
			1);
	ck_assert_int_eq(world_check_stream(&w, 1).closed,
		strcmp(state, "RUNNING") != 0 && strcmp(state, "PAUSED") != 0);
	world_crash(&w); /* and it is stable */
	world_run(&w);
	if (strcmp(state, "RUNNING") != 0)
		ck_assert_str_eq(world_path(&w, 1), wanted);
	world_check_stream(&w, 1);
}
END_TEST

/* ---- the rest ---- */

START_TEST(under_text_resume_is_restart)
{
	world_start(&w, "m1", "plain");
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:callee_restarted PAUSED>RUNNING:restarted");
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_str_eq(fake_worker_env(w.workers.list[0], "HCP_ATTEMPT"), "2");
}
END_TEST

START_TEST(PENDING_sessions_wait_on_in_their_order) /* proves L3-10 */
{
	world_start(&w, "m1", "narrow");
	world_submit_as(&w, "alpha", NULL, "m2", "narrow", ",\"constraints\":{\"priority\":\"low\"}");
	world_submit_as(&w, "alpha", NULL, "m3", "narrow", ",\"constraints\":{\"priority\":\"urgent\"}");
	world_submit(&w, "m4", "narrow");
	world_run(&w);
	world_crash(&w);
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 1);
	for (int i = 0; i < 3; i++) {
		struct worker *p = w.workers.list[i];

		fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
		fake_worker_exit(p, 0);
		world_run(&w);
	}
	ck_assert_str_eq(w.workers.list[1]->session_id, world_id(&w, 3));
	ck_assert_str_eq(w.workers.list[2]->session_id, world_id(&w, 4));
	ck_assert_str_eq(w.workers.list[3]->session_id, world_id(&w, 2));
	ck_assert_str_eq(world_path(&w, 2), "PENDING>RUNNING:slot_free");
}
END_TEST

START_TEST(recovery_goes_beyond_the_limits_and_new_tasks_do_not) /* proves L3-10 */
{
	for (int i = 0; i < 3; i++) {
		char id[8];

		snprintf(id, sizeof id, "m%d", i);
		world_start(&w, id, "work");
	}
	world_configure(&w, "[daemon]\nmax_sessions = 1\n");
	world_crash(&w);
	world_submit(&w, "n1", "work");
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 3);
	ck_assert_str_eq(world_state(&w, 4), "PENDING");
	for (int i = 0; i < 3; i++) {
		ck_assert_str_eq(world_state(&w, 4), "PENDING");
		fake_worker_say(w.workers.list[i], "{\"type\":\"completed\",\"outputs\":{}}");
		fake_worker_exit(w.workers.list[i], 0);
		world_run(&w);
	}
	ck_assert_str_eq(world_state(&w, 4), "RUNNING");
}
END_TEST

START_TEST(a_capability_that_is_gone_fails_its_sessions)
{
	world_start(&w, "m1", "work");
	world_write_file(
		w.dir, "hcpd.ini", "[daemon]\ncallee_id = tested\nstate_dir = state\nlog_level = error\n");
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"internal_error\""), 1);
}
END_TEST

START_TEST(many_restarts_make_one_unbroken_stream) /* proves L2-08 L2-04 */
{
	struct worker *p = world_start(&w, "m1", "work");
	struct oracle_stream j;

	for (int run = 2; run <= 6; run++) {
		char attempt[32];

		fake_worker_say(p, "{\"type\":\"checkpoint\",\"state\":{}}");
		fake_worker_say(p, "{\"type\":\"progress\"}");
		world_run(&w);
		world_crash(&w);
		world_run(&w);
		p = w.workers.list[0];
		snprintf(attempt, sizeof attempt, "\"attempt\":%d,", run);
		ck_assert(fake_worker_has_line(p, attempt));
	}
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	j = world_check_stream(&w, 1);
	ck_assert(j.closed);
	ck_assert_int_eq(j.sequence, 2 + 5 * 5 + 2);
	ck_assert_int_eq(world_said(&w, "\"checkpoints_created\":5"), 1);
}
END_TEST

START_TEST(a_crash_before_the_confirm_publishes_the_same_bytes_again) /* proves L1-07 L2-04 */
{
	struct worker *p;

	w.broker_is_slow = true;
	p = world_start(&w, "m1", "work");
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"once\"}");
	world_run(&w);
	w.broker_is_slow = false;
	world_crash(&w);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "\"message\":\"once\""), 1);
	ck_assert_uint_gt(world_sent_count(&w), 5);
	world_check_stream(&w, 1); /* compares the copies */
}
END_TEST

START_TEST(after_an_orderly_end_nothing_is_published_again)
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	world_end(&w, false);
	world_begin(&w);
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_eq(w.bus.sent_count, 0);
}
END_TEST

START_TEST(summary_and_counts_survive_a_restart) /* proves L2-01 L4-03 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, "{\"type\":\"step\",\"name\":\"one\"}");
	fake_worker_say(p, "{\"type\":\"warning\",\"message\":\"hot, very hot\"}");
	world_run(&w);
	world_crash(&w);
	world_pass(&w, 5 * SECONDS);
	p = w.workers.list[0];
	fake_worker_say(p, "{\"type\":\"step\",\"name\":\"two\"}");
	fake_worker_say(p, "{\"type\":\"warning\",\"message\":\"cold\"}");
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_int_eq(world_said(&w,
				 "\"execution_summary\":{\"duration\":\"PT5S\",\"steps_executed\":2,"
				 "\"checkpoints_created\":0,\"risk_events\":[],\"warnings\":[\"hot, "
				 "very hot\",\"cold\"]}"),
		1);
}
END_TEST

START_TEST(usage_of_a_session_survives_a_restart)
{
	struct worker *p = world_start(&w, "m1", "work");

	for (int run = 1; run <= 2; run++) {
		fake_worker_say(p, "{\"type\":\"usage\",\"tokens_in\":10,\"tokens_out\":3,\"cost\":0.25}");
		world_run(&w);
		world_crash(&w);
		world_pass(&w, 5 * SECONDS);
		p = w.workers.list[0];
	}
	fake_worker_say(p, "{\"type\":\"usage\",\"tokens_in\":1,\"cost\":0.5}");
	world_run(&w);
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM sessions WHERE tokens_in = 21 AND tokens_out = 6 AND "
				 "cost = 1.0",
				 NULL),
		1);
}
END_TEST

/* The cause that was stored before the crash ends the session after it, and is named as it was. */
START_TEST(an_end_after_a_crash_has_the_actor_who_decided_it) /* proves L2-03 */
{
	static const char *const lines[] = {"{\"type\":\"completed\",\"outputs\":{}}",
		"{\"type\":\"failed\",\"error_code\":\"x\",\"error_message\":\"y\"}"};
	struct worker *p;

	for (int i = 0; i < 2; i++) {
		p = world_start(&w, i == 0 ? "m1" : "m2", "work");
		fake_worker_say(p, lines[i]);
		world_run(&w); /* the process has not exited yet */
		world_crash(&w);
		world_run(&w);
	}
	ck_assert_int_eq(
		world_count(&w,
			"SELECT count(*) FROM transitions WHERE to_state IN ('COMPLETED','FAILED') AND "
			"actor = 'worker'",
			NULL),
		2);
	p = world_start(&w, "m3", "work");
	world_abort(&w, p->session_id);
	world_run(&w);
	world_crash(&w);
	world_run(&w);
	ck_assert_int_eq(
		world_count(&w,
			"SELECT count(*) FROM transitions WHERE to_state = 'ABORTED' AND actor = 'caller'",
			NULL),
		1);
}
END_TEST

/* Somebody edited the store, or a byte of it went wrong. */
static const char *const odd_outcomes[] = {
	"{\"state\":\"RUNNING\",\"reason\":\"completed\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"PAUSED\",\"reason\":\"completed\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"PENDING\",\"reason\":\"completed\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"ABORTING\",\"reason\":\"completed\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"REJECTED\",\"reason\":\"completed\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"DANCING\",\"reason\":\"completed\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"COMPLETED\",\"actor\":\"worker\",\"payload\":{\"outputs\":{}}}",
	"{\"state\":\"COMPLETED\",\"reason\":\"completed\"}",
	"{\"state\":\"COMPLETED\",\"rea",
	"",
};

START_TEST(an_outcome_that_is_none_ends_the_session_FAILED)
{
	struct worker *p = world_start(&w, "m1", "work");
	char sql[200];

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	snprintf(sql, sizeof sql, "UPDATE outcomes SET outcome = '%s'", odd_outcomes[_i]);
	world_exec(&w, sql);
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert(world_check_stream(&w, 1).closed);
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"internal_error\""), 1);
	ck_assert_uint_eq(w.workers.count, 0); /* and is not started again */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 0);
}
END_TEST

/* Tables that cannot be read stand for a disk that gives errors. */
static const char *const unreadable[] = {"sessions", "outcomes", "events", "callers"};

START_TEST(recovery_from_a_store_that_cannot_be_read_is_refused)
{
	struct worker *p = world_start(&w, "m1", "work");
	char sql[80];

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	world_end(&w, true);
	world_open(&w);
	snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO elsewhere", unreadable[_i]);
	world_exec(&w, sql);
	ck_assert_int_eq(core_recover(&w.core), EX_IOERR);
	w.core.phase.is_suspended = true; /* leave it at that */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_recovery");
	TCase *t = tcase_create("matrix"), *r = tcase_create("rest");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, every_kind_of_session_is_recovered_as_designed, 0, MATRIX);
	tcase_add_checked_fixture(r, setup, teardown);
	tcase_add_test(r, under_text_resume_is_restart);
	tcase_add_test(r, PENDING_sessions_wait_on_in_their_order);
	tcase_add_test(r, recovery_goes_beyond_the_limits_and_new_tasks_do_not);
	tcase_add_test(r, a_capability_that_is_gone_fails_its_sessions);
	tcase_add_test(r, many_restarts_make_one_unbroken_stream);
	tcase_add_test(r, a_crash_before_the_confirm_publishes_the_same_bytes_again);
	tcase_add_test(r, after_an_orderly_end_nothing_is_published_again);
	tcase_add_test(r, summary_and_counts_survive_a_restart);
	tcase_add_test(r, usage_of_a_session_survives_a_restart);
	tcase_add_test(r, an_end_after_a_crash_has_the_actor_who_decided_it);
	tcase_add_loop_test(r, an_outcome_that_is_none_ends_the_session_FAILED, 0,
		(int)(sizeof odd_outcomes / sizeof *odd_outcomes));
	tcase_add_loop_test(r, recovery_from_a_store_that_cannot_be_read_is_refused, 0, 4);
	suite_add_tcase(s, t);
	suite_add_tcase(s, r);
	return world_main(s);
}
