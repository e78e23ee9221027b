/* SPDX-License-Identifier: MIT */
/* test_policy_program.c: the policy program: what it is asked and when, its verdicts, and that each of its
 * failures is a denial. */
#include "support/fakes/fake_world.h"

#include "support/fakes/fake_operators.h"
#include "support/log_kit.h"
#include "core/admission/policy_program.h"

static struct world w;

#define PROGRAM "[policy]\ncommand = /usr/bin/policy --strict\ntimeout = 2s\n"

static void setup(void)
{
	world_init(&w, PROGRAM);
	world_begin(&w);
}

static void teardown(void)
{
	world_fini(&w);
}

/* The newest process of the program, NULL: none was ever started. */
static struct worker *program(void)
{
	for (size_t i = w.workers.count; i-- > 0;)
		if (strcmp(w.workers.list[i]->argv[0], "/usr/bin/policy") == 0)
			return w.workers.list[i];
	return NULL;
}

static int programs(void)
{
	int n = 0;

	for (size_t i = 0; i < w.workers.count; i++)
		n += strcmp(w.workers.list[i]->argv[0], "/usr/bin/policy") == 0;
	return n;
}

/* The id of the last question that it was put. */
static long long last_id(struct worker *p)
{
	const char *text = buf_text(&p->in), *at = NULL;
	long long id = -1;

	for (const char *next = text; (next = strstr(next, "{\"type\":\"decide\",\"id\":")) != NULL; next++)
		at = next;
	ck_assert_msg(at != NULL, "it was asked nothing");
	sscanf(at, "{\"type\":\"decide\",\"id\":%lld", &id);
	return id;
}

static void say_as(struct worker *p, long long id, const char *rest)
{
	char line[512];

	snprintf(line, sizeof line, "{\"id\":%lld,%s}", id, rest);
	fake_worker_say(p, line);
	world_run(&w);
}

static void say(const char *rest)
{
	say_as(program(), last_id(program()), rest);
}

static void submit(const char *message_id)
{
	world_submit(&w, message_id, "work");
	world_run(&w);
}

static void expect_waits(int key)
{
	char n[16];

	snprintf(n, sizeof n, "%d", key);
	ck_assert_str_eq(world_state(&w, key), "PENDING");
	ck_assert_str_eq(world_text(&w, "SELECT waits_for FROM sessions WHERE id = ?", n), "program");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE session = ?", n), 0);
}

static void expect_denied(int key, const char *message)
{
	ck_assert_str_eq(world_state(&w, key), "REJECTED");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"policy_denied\""), 1);
	ck_assert_msg(world_said(&w, message) == 1, "nobody was told: %s", message);
	ck_assert_int_eq(world_said(&w, "task_accepted"), 0);
	ck_assert_str_eq(world_text(&w,
				 "SELECT json_extract(entry, '$.outcome') || ' ' || json_extract(entry, "
				 "'$.code') FROM audit"
				 " WHERE json_extract(entry, '$.what') = 'verdict' ORDER BY id DESC LIMIT 1",
				 NULL),
		"rejected policy_denied");
}

/* ---- questions and verdicts ---- */

START_TEST(program_runs_from_the_start_and_is_asked_the_whole_task)
{
	struct worker *p = program();

	ck_assert(p != NULL);
	ck_assert_str_eq(p->argv[1], "--strict");
	world_submit_as(&w, "beta", "beta-user", "m1", "work", ",\"context\":{\"purpose\":\"tea\"}");
	world_run(&w);
	expect_waits(1);
	ck_assert(fake_worker_has_line(p,
		"\"caller\":\"beta\",\"user\":\"beta-user\",\"capability\":\"work\",\"version\":\"1.2.3\","
		"\"risk\":\"R2\",\"data_classification\":\"T1\""));
	ck_assert(fake_worker_has_line(p, "\"involves_physical_resources\":false"));
	ck_assert(fake_worker_has_line(p, "\"purpose\":\"tea\""));
	ck_assert(fake_worker_has_line(p, "}\n"));
}
END_TEST

START_TEST(program_is_told_of_physical_resources)
{
	world_declare(&w, "work", "1.2.3",
		"\"risk_ceiling\":\"R2\",\"requires_human_approval\":false,"
		"\"involves_physical_resources\":true",
		"");
	core_reload(&w.core);
	world_run(&w);
	submit("m1");
	ck_assert(fake_worker_has_line(program(), "\"involves_physical_resources\":true"));
}
END_TEST

START_TEST(allow_accepts_and_the_stream_is_as_if_it_had_never_waited) /* proves L3-11 */
{
	submit("m1");
	say("\"decision\":\"allow\",\"reason\":\"it is Monday\"");
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	fake_worker_say(world_worker(&w, 1), "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(world_worker(&w, 1), 0);
	world_run(&w);
	ck_assert(world_check_stream(&w, 1).closed);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
	ck_assert_str_eq(world_text(&w,
				 "SELECT json_extract(entry, '$.outcome') || ' ' || json_extract(entry, "
				 "'$.why') FROM audit"
				 " WHERE json_extract(entry, '$.what') = 'verdict'",
				 NULL),
		"accepted it is Monday");
}
END_TEST

START_TEST(deny_rejects_with_the_reason) /* proves L3-11 */
{
	submit("m1");
	say("\"decision\":\"deny\",\"reason\":\"not on a Sunday\"");
	expect_denied(1, "the policy program denied it: not on a Sunday");
}
END_TEST

START_TEST(ask_without_an_approver_is_a_denial)
{
	submit("m1");
	say("\"decision\":\"ask\",\"reason\":\"odd\"");
	expect_denied(1, "wants a human to decide, and there is nobody here who may: odd");
}
END_TEST

START_TEST(ask_hands_over_to_a_human_where_there_is_one)
{
	world_configure(&w,
		PROGRAM
		"[approver anna]\nmax_risk = R5\nkey = "
		"ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n");
	core_reload(&w.core);
	world_run(&w);
	submit("m1");
	say("\"decision\":\"ask\",\"reason\":\"odd\"");
	ck_assert_str_eq(world_state(&w, 1), "PENDING");
	ck_assert_str_eq(world_text(&w, "SELECT waits_for FROM sessions WHERE id = 1", NULL), "human");
	ck_assert_int_eq(
		world_count(&w,
			"SELECT count(*) FROM reviews WHERE session = 1 AND state = 'AWAITING_DECISION'"
			" AND artifact LIKE '%the policy program asks: odd%'",
			NULL),
		1);
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_text(&w, "SELECT waits_for FROM sessions WHERE id = 1", NULL), "human");
	world_pass(&w, 25 * 3600 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	ck_assert_int_eq(world_said(&w, "approval_expired"), 1);
}
END_TEST

START_TEST(program_is_not_asked_about_what_the_gate_rejects)
{
	world_submit(&w, "m1", "nonsense");
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "unknown_capability"), 1);
	ck_assert_uint_eq(program()->in.size, 0);
}
END_TEST

START_TEST(answers_are_matched_by_id_in_any_order)
{
	long long first, second;

	submit("m1");
	first = last_id(program());
	submit("m2");
	second = last_id(program());
	ck_assert_int_ne(first, second);
	say_as(program(), second, "\"decision\":\"allow\"");
	expect_waits(1);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	say_as(program(), first, "\"decision\":\"deny\"");
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
}
END_TEST

START_TEST(an_answer_before_the_question_is_none)
{
	fake_worker_say(program(), "{\"id\":1,\"decision\":\"allow\"}");
	submit("m1"); /* in the same turn: it is asked only after the commit */
	ck_assert_int_eq(last_id(program()), 1);
	expect_waits(1);
}
END_TEST

START_TEST(repeated_submit_that_is_undecided_stays_unanswered)
{
	submit("m1");
	submit("m1");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
	ck_assert_int_eq(world_said(&w, "in_reply_to"), 0);
	say("\"decision\":\"deny\"");
	submit("m1");
	ck_assert_int_eq(world_said(&w, "in_reply_to"), 1);
}
END_TEST

START_TEST(an_operator_may_end_one_that_waits_and_its_verdict_is_late)
{
	static struct op_queue operators;
	struct worker *p = program();

	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
	submit("m1");
	fake_operators_ask(&operators, OP_ABORT, world_id(&w, 1));
	core_on_requests(&w.core);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	say_as(p, last_id(p), "\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	w.core.operator.queue = NULL;
	fake_operators_fini(&operators);
}
END_TEST

/* ---- each failure is a denial ---- */

START_TEST(no_answer_in_time_is_a_denial_and_a_late_one_changes_nothing) /* proves L3-11 */
{
	struct worker *p = program();

	submit("m1");
	world_pass(&w, 1900000);
	expect_waits(1);
	world_pass(&w, 200000);
	expect_denied(1, "did not answer in time");
	say_as(p, last_id(p), "\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	submit("m2");
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

START_TEST(its_death_is_a_denial_and_it_is_started_again) /* proves L3-11 */
{
	submit("m1");
	world_pass(&w, 500000);
	fake_worker_exit(program(), SIGKILL);
	world_run(&w);
	expect_denied(1, "died before it answered");
	world_pass(&w, 100000);
	ck_assert_int_eq(programs(), 2);
	submit("m2");
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

START_TEST(program_that_dies_again_and_again_is_started_ever_later)
{
	int64_t began = fake_boot_us;
	struct policy_program_state state;
	int times = 0;

	policy_program_get_state(w.core.program, &state);
	ck_assert(state.pid > 0);
	ck_assert_str_eq(state.why, "");
	while (fake_boot_us - began < 600 * SECONDS) {
		if (!program()->is_dying)
			fake_worker_exit(program(), 256);
		world_pass(&w, 500000);
	}
	times = programs();
	ck_assert_int_ge(times, 8);
	ck_assert_int_le(times, 20);
	submit("m1");
	expect_denied(1, "is not running");
	policy_program_get_state(w.core.program, &state); /* lives of no length do not count */
	ck_assert_int_eq(state.pid, 0);
	ck_assert_int_ge(state.span_us, 590 * SECONDS);
	ck_assert_str_eq(state.why, "exit status 1");
}
END_TEST

/* A new run of the daemon, where the first start of the program fails so. */
static void begin_unable(int error)
{
	world_end(&w, false);
	world_open(&w);
	w.workers.fail_errno = error;
	ck_assert_int_eq(core_recover(&w.core), EX_OK);
	core_end_turn(&w.core);
	fake_bus_up(&w.bus);
	ck_assert_int_eq(w.workers.fail_errno, 0); /* it was tried */
}

START_TEST(program_that_cannot_be_started_denies_and_is_tried_again)
{
	begin_unable(ENOENT);
	submit("m1");
	expect_denied(1, "is not running");
	world_pass(&w, 2 * SECONDS);
	submit("m2");
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

static const int shortages[] = {EMFILE, ENFILE, EAGAIN, ENOMEM};

START_TEST(questions_wait_while_a_shortage_keeps_it_from_starting)
{
	struct policy_program_state state;

	begin_unable(shortages[_i]);
	submit("m1");
	expect_waits(1);
	policy_program_get_state(w.core.program, &state);
	ck_assert_int_eq(state.pid, 0);
	ck_assert(strstr(state.why, "no room") != NULL);
	w.workers.fail_errno = shortages[_i];
	world_pass(&w, 1 * SECONDS);
	ck_assert_int_eq(w.workers.fail_errno, 0);
	expect_waits(1);
	ck_assert_int_eq(programs(), 0);
}
END_TEST

START_TEST(an_allow_after_a_shortage_counts)
{
	begin_unable(EMFILE);
	submit("m1");
	world_pass(&w, 1 * SECONDS);
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_shortage_that_lasts_is_a_denial_at_the_time_limit)
{
	begin_unable(EMFILE);
	submit("m1");
	for (int i = 0; i < 3; i++) {
		w.workers.fail_errno = EMFILE;
		world_pass(&w, 1 * SECONDS);
	}
	ck_assert_int_eq(programs(), 0);
	expect_denied(1, "did not answer in time");
}
END_TEST

START_TEST(a_verdict_that_is_none_is_a_denial) /* proves L3-11 */
{
	static const char *const bad[] = {"\"decision\":\"maybe\"", "\"decision\":true",
		"\"verdict\":\"allow\"", "\"decision\":\"ALLOW\"", "\"decision\":\"allow\",\"reason\":7",
		"\"decision\":null", "\"decision\":[\"allow\"]"};

	submit("m1");
	say(bad[_i]);
	expect_denied(1, "neither allow nor deny nor ask");
}
END_TEST

START_TEST(garbage_decides_nothing_and_time_runs_out)
{
	static const char *const bad[] = {"allow", "", "{", "[1]", "{}", "{\"decision\":\"allow\"}",
		"{\"id\":\"1\",\"decision\":\"allow\"}", "{\"id\":999999,\"decision\":\"allow\"}",
		"{\"id\":-1,\"decision\":\"allow\"}", "\xff\xfe",
		"{\"id\":1,\"id\":1,\"decision\":\"allow\"}", "{\"id\":1.0,\"decision\":\"allow\"}"};

	submit("m1");
	ck_assert_int_eq(last_id(program()), 1);
	fake_worker_say(program(), bad[_i]);
	world_run(&w);
	expect_waits(1);
	world_pass(&w, 3 * SECONDS);
	expect_denied(1, "did not answer in time");
}
END_TEST

/* jansson steps over a NUL behind a number. */
START_TEST(program_that_says_a_raw_NUL_has_said_nothing) /* proves L3-11 */
{
	static const char answer[] = "{\"decision\":\"allow\",\"id\":1\0}";

	submit("m1");
	ck_assert_int_eq(last_id(program()), 1);
	fake_worker_put(program(), FAKE_OUT, answer, sizeof answer - 1, 0);
	world_run(&w);
	expect_waits(1);
	world_pass(&w, 3 * SECONDS);
	expect_denied(1, "did not answer in time");
}
END_TEST

/* It is fed what callers write, and may repeat it. */
START_TEST(program_that_complains_forges_no_field_of_the_log)
{
	static const char says[] = "odd task session=12345678 state=COMPLETED";

	log_kit_begin(LOG_LVL_INFO);
	fake_worker_put(program(), FAKE_ERR, says, sizeof says - 1, 0);
	world_run(&w);
	ck_assert_int_eq(
		log_kit_count("policy program writes: says=\"odd task session=12345678 state=COMPLETED\""),
		1);
	log_kit_end();
}
END_TEST

START_TEST(program_that_closes_its_stdout_is_replaced)
{
	submit("m1");
	fake_worker_close_out(program());
	world_pass(&w, 100000);
	ck_assert_int_eq(programs(), 2);
	expect_denied(1, "died before it answered");
}
END_TEST

/* ---- lives and policies ---- */

START_TEST(a_task_that_waits_is_asked_about_again_after_a_crash)
{
	submit("m1");
	world_crash(&w);
	world_run(&w);
	expect_waits(1);
	ck_assert_int_eq(programs(), 1);
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_int_eq(world_said(&w, "task_accepted"), 1);
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
}
END_TEST

START_TEST(a_reload_swaps_the_program_and_the_new_one_is_asked)
{
	struct worker *old = program();
	long long id;

	submit("m1");
	id = last_id(old);
	world_configure(&w, "[policy]\ncommand = /usr/bin/policy --lax\n");
	core_reload(&w.core);
	world_run(&w);
	ck_assert_int_eq(programs(), 2);
	ck_assert_str_eq(program()->argv[1], "--lax");
	ck_assert(old->stdin_closed);
	say_as(old, id, "\"decision\":\"allow\"");
	expect_waits(1);
	say("\"decision\":\"deny\"");
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	world_pass(&w, 10 * SECONDS);
	ck_assert(old->is_freed);
}
END_TEST

START_TEST(reload_without_a_program_denies_what_waits_and_asks_no_more)
{
	submit("m1");
	world_configure(&w, "");
	core_reload(&w.core);
	world_run(&w);
	expect_denied(1, "there is no policy program any more");
	submit("m2");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

START_TEST(allowed_task_that_todays_policy_forbids_is_rejected)
{
	submit("m1");
	world_configure(&w, PROGRAM "[caller alpha]\ncapabilities = plain\n");
	core_reload(&w.core);
	world_run(&w);
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"forbidden\""), 1);
}
END_TEST

START_TEST(a_verdict_waits_for_a_store_that_refuses)
{
	submit("m1");
	fake_disk_refuse(ENOSPC);
	submit("m2");
	ck_assert(w.core.phase.is_suspended);
	fake_worker_say(program(), "{\"id\":1,\"decision\":\"allow\"}");
	world_pass(&w, 5 * SECONDS);
	expect_waits(1);
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	expect_waits(2);
}
END_TEST

START_TEST(tasks_that_wait_for_the_program_count_against_max_pending)
{
	world_configure(&w, PROGRAM "[daemon]\nmax_pending = 2\n");
	core_reload(&w.core);
	world_run(&w);
	submit("m1");
	submit("m2");
	submit("m3");
	ck_assert_int_eq(world_said(&w, "resource_unavailable"), 1);
	say("\"decision\":\"deny\"");
	submit("m4");
	ck_assert_int_eq(world_said(&w, "resource_unavailable"), 1);
}
END_TEST

START_TEST(a_stop_leaves_what_waits_to_the_next_run)
{
	submit("m1");
	core_stop(&w.core);
	world_pass(&w, 1 * SECONDS);
	ck_assert(w.core.phase.is_done);
	world_end(&w, false);
	world_begin(&w);
	world_run(&w);
	expect_waits(1);
	say("\"decision\":\"allow\"");
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("policy_program");
	TCase *t = tcase_create("policy_program");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, program_runs_from_the_start_and_is_asked_the_whole_task);
	tcase_add_test(t, program_is_told_of_physical_resources);
	tcase_add_test(t, allow_accepts_and_the_stream_is_as_if_it_had_never_waited);
	tcase_add_test(t, deny_rejects_with_the_reason);
	tcase_add_test(t, ask_without_an_approver_is_a_denial);
	tcase_add_test(t, ask_hands_over_to_a_human_where_there_is_one);
	tcase_add_test(t, program_is_not_asked_about_what_the_gate_rejects);
	tcase_add_test(t, answers_are_matched_by_id_in_any_order);
	tcase_add_test(t, an_answer_before_the_question_is_none);
	tcase_add_test(t, repeated_submit_that_is_undecided_stays_unanswered);
	tcase_add_test(t, an_operator_may_end_one_that_waits_and_its_verdict_is_late);
	tcase_add_test(t, no_answer_in_time_is_a_denial_and_a_late_one_changes_nothing);
	tcase_add_test(t, its_death_is_a_denial_and_it_is_started_again);
	tcase_add_test(t, program_that_dies_again_and_again_is_started_ever_later);
	tcase_add_test(t, program_that_cannot_be_started_denies_and_is_tried_again);
	tcase_add_loop_test(t, questions_wait_while_a_shortage_keeps_it_from_starting, 0,
		(int)(sizeof shortages / sizeof *shortages));
	tcase_add_test(t, an_allow_after_a_shortage_counts);
	tcase_add_test(t, a_shortage_that_lasts_is_a_denial_at_the_time_limit);
	tcase_add_loop_test(t, a_verdict_that_is_none_is_a_denial, 0, 7);
	tcase_add_loop_test(t, garbage_decides_nothing_and_time_runs_out, 0, 12);
	tcase_add_test(t, program_that_says_a_raw_NUL_has_said_nothing);
	tcase_add_test(t, program_that_complains_forges_no_field_of_the_log);
	tcase_add_test(t, program_that_closes_its_stdout_is_replaced);
	tcase_add_test(t, a_task_that_waits_is_asked_about_again_after_a_crash);
	tcase_add_test(t, a_reload_swaps_the_program_and_the_new_one_is_asked);
	tcase_add_test(t, reload_without_a_program_denies_what_waits_and_asks_no_more);
	tcase_add_test(t, allowed_task_that_todays_policy_forbids_is_rejected);
	tcase_add_test(t, a_verdict_waits_for_a_store_that_refuses);
	tcase_add_test(t, tasks_that_wait_for_the_program_count_against_max_pending);
	tcase_add_test(t, a_stop_leaves_what_waits_to_the_next_run);
	suite_add_tcase(s, t);
	return world_main(s);
}
