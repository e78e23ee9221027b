/* SPDX-License-Identifier: MIT */
/* test_intake.c: who says it, was it said before, may it be: answers to submits, good and bad. */
#include "support/fakes/fake_world.h"
#include "support/log_kit.h"

static struct world w;

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	world_run(&w);
}

static void teardown(void)
{
	world_fini(&w);
}

static int sessions(void)
{
	return (int)world_count(&w, "SELECT count(*) FROM sessions", NULL);
}

/* Of the newest rejection that went out: the store need not keep it. */
static const char *last_code(void)
{
	static const char head[] = "\"reason_code\":\"";
	static char code[48];

	code[0] = '\0';
	for (size_t i = 0; i < w.bus.sent_count; i++) {
		const char *at = strstr(w.bus.sent[i].body, head);

		if (at != NULL)
			snprintf(code, sizeof code, "%.*s", (int)strcspn(at + sizeof head - 1, "\""),
				at + sizeof head - 1);
	}
	return code;
}

/* ---- once ---- */

START_TEST(repeated_submit_gets_the_same_answer_and_no_second_session) /* proves L1-06 */
{
	size_t sent;

	world_start(&w, "m1", "work");
	sent = w.bus.sent_count;
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert_int_eq(sessions(), 1);
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_uint_eq(w.bus.acked, 2);
	ck_assert_uint_eq(w.bus.sent_count, sent + 1);
	ck_assert_str_eq(w.bus.sent[sent].body, w.bus.sent[0].body);
	ck_assert_str_eq(w.bus.sent[sent].message_id, w.bus.sent[0].message_id);
	ck_assert_str_eq(w.bus.sent[sent].type, "task_accepted");
}
END_TEST

START_TEST(twice_in_one_turn_is_once) /* proves L1-06 */
{
	world_submit(&w, "m1", "work");
	world_submit(&w, "m1", "work");
	world_submit(&w, "m2", "nothing-here");
	world_submit(&w, "m2", "nothing-here");
	world_run(&w);
	ck_assert_int_eq(sessions(), 1);
	ck_assert_uint_eq(w.bus.acked, 4);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m2\""), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits", NULL), 2);
}
END_TEST

START_TEST(twice_while_the_store_refuses_is_once) /* proves L1-06 */
{
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m1", "work");
	world_run(&w);
	world_submit(&w, "m1", "work");
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_int_eq(sessions(), 1);
	ck_assert_uint_eq(w.bus.acked, 2);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
}
END_TEST

START_TEST(a_rejection_is_remembered_too) /* proves L1-06 */
{
	world_submit(&w, "m1", "nothing-here");
	world_run(&w);
	world_declare(&w, "nothing-here", "1.0.0", WORLD_SAFE, "");
	world_configure(
		&w, "[capability nothing-here]\ndeclaration = nothing-here.json\ncommand = /bin/true\n");
	core_reload(&w.core);
	world_submit(&w, "m1", "nothing-here"); /* now it would be accepted */
	world_run(&w);
	ck_assert_int_eq(sessions(), 0);
	ck_assert_uint_eq(w.bus.sent_count, 2);
	ck_assert_str_eq(w.bus.sent[1].body, w.bus.sent[0].body);
}
END_TEST

START_TEST(a_restart_forgets_no_submit) /* proves L1-06 */
{
	world_start(&w, "m1", "work");
	world_submit(&w, "m2", "nothing-here");
	world_run(&w);
	world_crash(&w);
	world_run(&w);
	world_submit(&w, "m1", "work");
	world_submit(&w, "m2", "nothing-here");
	world_run(&w);
	ck_assert_int_eq(sessions(), 1);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m2\""), 1);
}
END_TEST

START_TEST(message_ids_of_two_callers_are_different_ids) /* proves L1-06 */
{
	world_submit(&w, "m1", "work");
	world_submit_as(&w, "beta", "beta-user", "m1", "work", "");
	world_run(&w);
	ck_assert_int_eq(sessions(), 2);
}
END_TEST

START_TEST(a_stranger_cannot_use_up_anothers_message_id) /* proves L1-06 L3-05 */
{
	world_submit_as(&w, "beta", "mallory", "m1", "work", "");
	world_run(&w);
	ck_assert_str_eq(last_code(), "unauthorized");
	world_submit_as(&w, "beta", "beta-user", "m1", "work", "");
	world_run(&w);
	ck_assert_int_eq(sessions(), 1);
	world_submit_as(&w, "beta", "mallory", "m1", "work", ""); /* nor hear the answer */
	world_run(&w);
	ck_assert_str_eq(w.bus.sent[w.bus.sent_count - 1].type, "task_rejected");
}
END_TEST

START_TEST(dedup_rows_go_after_the_window_once_their_session_is_over) /* proves L1-06 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_submit(&w, "m2", "nothing-here");
	world_pass(&w, 3000 * SECONDS);
	fake_worker_say(p, "{\"type\":\"paused\"}");
	world_run(&w);
	w.core.policy->config->dedup_window_us = 60 * SECONDS;
	world_pass(&w, 100 * SECONDS);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits WHERE message_id = 'm2'", NULL), 0);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits WHERE message_id = 'm1'", NULL), 1);
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_pass(&w, 100 * SECONDS);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits", NULL), 0);
}
END_TEST

/* ---- a store that cannot be read: renamed tables stand for a disk that gives errors ---- */

START_TEST(submit_waits_where_the_store_cannot_say_if_it_is_repeated) /* proves L1-06 */
{
	world_start(&w, "m1", "work");
	world_exec(&w, "ALTER TABLE submits RENAME TO elsewhere");
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_eq(w.bus.acked, 1);
	world_exec(&w, "ALTER TABLE elsewhere RENAME TO submits");
	world_pass(&w, 2 * SECONDS);
	ck_assert_uint_eq(w.bus.acked, 2);
	ck_assert_int_eq(sessions(), 1);
}
END_TEST

/* What came before it in the same turn must not be committed in halves: world_on_hold looks. */
START_TEST(a_turn_that_is_cut_short_is_still_one_transaction)
{
	world_run(&w);
	world_submit(&w, "m1", "work");
	world_run(&w);
	world_submit(&w, "m2", "work");
	world_submit(&w, "m1", "work");
	core_on_bus(&w.core); /* in a turn with room for both */
	world_run(&w);
	world_abort(&w, world_id(&w, 1));
	world_submit(&w, "m3", "work");
	world_exec(&w, "ALTER TABLE submits RENAME TO elsewhere");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	world_exec(&w, "ALTER TABLE elsewhere RENAME TO submits");
	world_pass(&w, 2 * SECONDS);
	world_check_rows(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
	ck_assert_str_eq(world_state(&w, 3), "RUNNING");
	ck_assert_uint_eq(w.bus.acked, 5);
}
END_TEST

START_TEST(a_turn_that_is_cut_short_by_the_end_is_not_stored_in_halves)
{
	world_end(&w, false);
	world_configure(&w, "[store]\non_error = exit\n");
	world_begin(&w);
	world_start(&w, "m1", "work");
	world_abort(&w, world_id(&w, 1));
	world_submit(&w, "m2", "work");
	world_exec(&w, "ALTER TABLE submits RENAME TO elsewhere");
	world_run(&w);
	ck_assert(w.core.phase.is_done && w.core.phase.exit_code == EX_IOERR);
	world_exec(&w, "ALTER TABLE elsewhere RENAME TO submits");
	world_end(&w, false);
	world_begin(&w);
	world_check_rows(&w);
	world_run(&w);
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(a_caller_that_cannot_be_looked_up_is_not_taken_for_a_new_one)
{
	world_submit(&w, "m1", "nothing-here");
	world_run(&w);
	world_end(&w, false);
	world_begin(&w); /* nothing is left to send: the caller is only in the store */
	world_run(&w);
	world_exec(&w, "ALTER TABLE callers RENAME TO elsewhere");
	world_submit(&w, "m2", "work");
	world_run(&w);
	ck_assert_uint_eq(w.bus.acked, 0);
	world_exec(&w, "ALTER TABLE elsewhere RENAME TO callers");
	world_pass(&w, 2 * SECONDS);
	ck_assert_uint_eq(w.bus.acked, 1);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM callers", NULL), 1);
}
END_TEST

/* ---- malformed ---- */

static const struct {
	const char *body;
	const char *code; /* NULL: rejected without requeue, nobody is told */
} malformed[] = {
	{"", NULL},
	{"hello", NULL},
	{"[1,2]", NULL},
	{"{\"a\":", NULL},
	{"\xff\xfe", NULL},
	{"null", NULL},
	{"{\"payload\":{\"caller_id\":\"alpha\"}}", "invalid_input"},
	{"{\"hcp_version\":\"2.0\",\"payload\":{\"caller_id\":\"alpha\"}}", "unsupported_version"},
	{"{\"hcp_version\":\"2.0\",\"payload\":{\"caller_id\":\"al.pha\"}}", NULL},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"m\",\"timestamp\":\"2026-01-31T12:00:00Z\",\"session_"
	 "id\":null,"
	 "\"type\":\"dance\",\"payload\":{\"caller_id\":\"alpha\"}}",
		"invalid_input"},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"m\",\"timestamp\":\"2026-01-31T12:00:00Z\",\"session_"
	 "id\":\"x\","
	 "\"type\":\"abort\",\"payload\":{}}",
		NULL},
};

START_TEST(malformed_input_is_answered_where_the_caller_is_known) /* proves L1-15 */
{
	const char *body = malformed[_i].body;
	bool known = malformed[_i].code != NULL;

	fake_bus_deliver(&w.bus, body, strlen(body), NULL);
	world_submit(&w, "after", "work"); /* and the next one is served */
	world_run(&w);
	ck_assert_uint_eq(w.bus.rejected, known ? 0 : 1);
	ck_assert_uint_eq(w.bus.acked, known ? 2 : 1);
	ck_assert_str_eq(last_code(), known ? malformed[_i].code : "");
	ck_assert_uint_eq(w.core.stats.dropped, known ? 0 : 1);
	ck_assert_int_eq(sessions(), 1);
}
END_TEST

START_TEST(a_message_over_the_limit_is_rejected_without_requeue) /* proves L1-15 */
{
	fake_bus_deliver(&w.bus, NULL, 5000000, NULL);
	world_run(&w);
	ck_assert_uint_eq(w.bus.rejected, 1);
	ck_assert_uint_eq(w.bus.sent_count, 0);
}
END_TEST

START_TEST(in_reply_to_is_null_where_there_is_no_usable_message_id) /* proves L1-15 */
{
	static const char body[] =
		"{\"hcp_version\":\"1.0\",\"message_id\":17,\"payload\":{\"caller_id\":\"alpha\"}}";

	fake_bus_deliver(&w.bus, body, sizeof body - 1, NULL);
	fake_bus_deliver(&w.bus, body, sizeof body - 1, NULL);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":null"), 2);
	ck_assert_int_eq(world_said(&w, "\"session_id\":null"), 2);
	ck_assert_str_eq(w.bus.sent[0].key, "alpha.-.task_rejected");
}
END_TEST

/* ---- verdicts as messages ---- */

static const struct {
	const char *caller, *user, *capability, *more, *code;
} verdicts[] = {
	{"alpha", NULL, "work", "", NULL},
	{"beta", "beta-user", "work", "", NULL},
	{"nobody", NULL, "work", "", "unauthorized"},
	{"beta", NULL, "work", "", "unauthorized"},
	{"beta", "alpha-user", "work", "", "unauthorized"},
	{"beta", "beta-user", "reused", "", "forbidden"},
	{"alpha", NULL, "nothing-here", "", "unknown_capability"},
	{"alpha", NULL, "work", ",\"capability_version\":\"^2.0.0\"", "unknown_capability"},
	{"alpha", NULL, "work", ",\"capability_version\":\"1.x\"", NULL},
	{"alpha", NULL, "work", ",\"constraints\":{\"max_duration\":\"soon\"}", "invalid_input"},
	{"alpha", NULL, "work", ",\"constraints\":{\"priority\":\"now\"}", "invalid_input"},
};

START_TEST(each_verdict_is_one_answer) /* proves L1-15 L3-04 L3-05 L1-12 */
{
	char reply[64];

	world_submit_as(
		&w, verdicts[_i].caller, verdicts[_i].user, "m1", verdicts[_i].capability, verdicts[_i].more);
	world_run(&w);
	ck_assert_uint_eq(w.bus.acked, 1);
	ck_assert_str_eq(last_code(), verdicts[_i].code != NULL ? verdicts[_i].code : "");
	ck_assert_int_eq(sessions(), verdicts[_i].code == NULL);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
	snprintf(reply, sizeof reply, "%s.", verdicts[_i].caller);
	ck_assert(strncmp(w.bus.sent[0].key, reply, strlen(reply)) == 0); /* to whom it claimed to be */
}
END_TEST

START_TEST(a_full_backlog_is_resource_unavailable) /* proves L3-10 */
{
	world_end(&w, false);
	world_configure(&w, "[daemon]\nmax_sessions = 1\nmax_pending = 2\n");
	world_begin(&w);
	world_submit(&w, "m1", "work");
	world_submit(&w, "m2", "work");
	world_submit(&w, "m3", "work");
	world_run(&w);
	ck_assert_int_eq(sessions(), 3);
	world_submit(&w, "m4", "work");
	world_run(&w);
	ck_assert_str_eq(last_code(), "resource_unavailable");
	ck_assert_int_eq(sessions(), 3);
	ck_assert_int_eq(world_said(&w, "\"suggestion\""), 1);
}
END_TEST

START_TEST(while_draining_submits_wait_and_nothing_starts)
{
	w.core.phase.is_draining = true;
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PENDING");
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_int_eq(world_said(&w, "\"type\":\"task_accepted\""), 1);
}
END_TEST

/* ---- what the worker gets ---- */

START_TEST(all_fields_of_a_task_reach_the_worker_unchanged) /* proves L4-01 */
{
	static const char *const fields[] = {
		("\"inputs\":{\"r\":1.10,\"big\":123456789012345678901234567890,\"z\":1,\"a\":2,"
		 "\"u\":\"\\u00e9\xc3\xa9\\/\"}"),
		"\"constraints\":{\"confidence_threshold\":0.90,\"priority\":\"high\"}",
		"\"expected_output\":{\"format\":\"json\",\"required_fields\":[\"x\"]}",
		"\"context\":{\"purpose\":\"p\",\"own\":[1.0,2e2]}", "\"capability_version\":\">=1.0.0 <2\"",
		"\"caller_id\":\"alpha\"", "\"intent\":\"say \\\"hi\\\"\""};
	struct buf b = {0};
	struct worker *p;

	buf_add_text(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"m1\",\"timestamp\":\"2026-01-31T12:00:00."
		"000Z\",\"session_id\":null,"
		"\"type\":\"task_submit\",\"payload\":{\"capability\":\"work\"");
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		buf_add_text(&b, ", ");
		buf_add_text(&b, fields[i]);
	}
	buf_add_text(&b, "}}");
	fake_bus_deliver(&w.bus, b.data, b.size, NULL);
	buf_fini(&b);
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 1);
	p = w.workers.list[0];
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		ck_assert_msg(
			fake_worker_has_line(p, fields[i]), "%s not in %s", fields[i], buf_text(&p->in));
	ck_assert(fake_worker_has_line(p, "{\"type\":\"start\",\"protocol\":1,\"session_id\":\""));
	ck_assert(fake_worker_has_line(p, "\"attempt\":1,\"task\":{\"capability\":\"work\","));
	ck_assert(fake_worker_has_line(p, "\"checkpoint\":null"));
	ck_assert(!fake_worker_has_line(p, "\"workdir\""));
	ck_assert_str_eq(fake_worker_env(p, "HCP_INTENT"), "say \"hi\"");
	ck_assert_str_eq(fake_worker_env(p, "HCP_CAPABILITY"), "work");
	ck_assert_str_eq(fake_worker_env(p, "HCP_ATTEMPT"), "1");
	ck_assert_str_eq(fake_worker_env(p, "HCP_WORKDIR"), p->workdir);
	ck_assert_str_eq(fake_worker_env(p, "HCP_INSTANCE"), store_mark(w.core.store));
	ck_assert(access(fake_worker_env(p, "HCP_TASK"), R_OK) == 0);
}
END_TEST

/* ---- the log ---- */

static void refuse_many(int count)
{
	char id[16];

	for (int i = 0; i < count; i++) {
		snprintf(id, sizeof id, "r%d", i);
		world_submit(&w, id, "nothing-here");
		world_submit_as(&w, "nobody", NULL, id, "work", "");
		world_abort(&w, "6ba7b810-9dad-41d1-80b4-00c04fd430c8");
	}
	world_run(&w);
}

START_TEST(a_flood_of_refusals_is_a_few_lines_and_hides_nobody)
{
	log_kit_begin(LOG_LVL_INFO);
	refuse_many(200);
	ck_assert_int_eq(log_kit_count("task rejected: caller=alpha "), 60);
	/* strangers and their aborts share one limit */
	ck_assert_int_eq(
		log_kit_count("task rejected: caller=nobody ") + log_kit_count("abort of a session"), 60);
	world_submit_as(&w, "beta", "beta-user", "b1", "nothing-here", "");
	world_run(&w);
	ck_assert_int_eq(log_kit_count("task rejected: caller=beta "), 1);
	world_pass(&w, 61 * SECONDS);
	world_submit(&w, "later", "nothing-here");
	world_run(&w);
	ck_assert_int_eq(log_kit_count("140 lines like the next one were left out"), 1);
	ck_assert_int_eq(log_kit_count("task rejected: caller=alpha "), 61);
	log_kit_end();
}
END_TEST

/* beta's section vouches for no message of another user, whatever caller_id says. */
START_TEST(a_forger_does_not_use_up_the_lines_of_its_victim)
{
	char id[16];

	log_kit_begin(LOG_LVL_INFO);
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof id, "f%d", i);
		world_submit_as(&w, "beta", "mallory", id, "work", "");
	}
	world_run(&w);
	ck_assert_int_eq(log_kit_count("task rejected: caller=beta "), 60);
	world_submit_as(&w, "beta", "beta-user", "b1", "nothing-here", "");
	world_run(&w);
	ck_assert_int_eq(log_kit_count("task rejected: caller=beta "), 61);
	log_kit_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("intake");
	TCase *t = tcase_create("once"), *m = tcase_create("verdicts");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, repeated_submit_gets_the_same_answer_and_no_second_session);
	tcase_add_test(t, twice_in_one_turn_is_once);
	tcase_add_test(t, twice_while_the_store_refuses_is_once);
	tcase_add_test(t, a_rejection_is_remembered_too);
	tcase_add_test(t, a_restart_forgets_no_submit);
	tcase_add_test(t, message_ids_of_two_callers_are_different_ids);
	tcase_add_test(t, a_stranger_cannot_use_up_anothers_message_id);
	tcase_add_test(t, dedup_rows_go_after_the_window_once_their_session_is_over);
	tcase_add_test(t, submit_waits_where_the_store_cannot_say_if_it_is_repeated);
	tcase_add_test(t, a_turn_that_is_cut_short_is_still_one_transaction);
	tcase_add_test(t, a_turn_that_is_cut_short_by_the_end_is_not_stored_in_halves);
	tcase_add_test(t, a_caller_that_cannot_be_looked_up_is_not_taken_for_a_new_one);
	tcase_add_checked_fixture(m, setup, teardown);
	tcase_add_loop_test(m, malformed_input_is_answered_where_the_caller_is_known, 0,
		(int)(sizeof malformed / sizeof *malformed));
	tcase_add_test(m, a_message_over_the_limit_is_rejected_without_requeue);
	tcase_add_test(m, in_reply_to_is_null_where_there_is_no_usable_message_id);
	tcase_add_loop_test(m, each_verdict_is_one_answer, 0, (int)(sizeof verdicts / sizeof *verdicts));
	tcase_add_test(m, a_full_backlog_is_resource_unavailable);
	tcase_add_test(m, while_draining_submits_wait_and_nothing_starts);
	tcase_add_test(m, all_fields_of_a_task_reach_the_worker_unchanged);
	tcase_add_test(m, a_flood_of_refusals_is_a_few_lines_and_hides_nobody);
	tcase_add_test(m, a_forger_does_not_use_up_the_lines_of_its_victim);
	suite_add_tcase(s, t);
	suite_add_tcase(s, m);
	return world_main(s);
}
