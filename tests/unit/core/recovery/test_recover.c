/* SPDX-License-Identifier: MIT */
/* test_recover.c: the choices for an interrupted session, and what is looked at again before one runs on. */
#include "support/fakes/operator_kit.h"
#include "support/log_kit.h"

#define RESULT(type, n) \
	"{\"type\":\"intermediate_result\",\"result_type\":\"" type "\",\"data\":{\"v\":" n "}}"
#define SUMMARIZE "[capability work]\nrecovery = summarize\n"
#define DISCARD "[capability work]\nrecovery = discard\n"
#define ASK_FIRST "[daemon]\non_start = ask\n"

static void setup(void)
{
	opkit_begin("");
}

/* Session 1 runs, has said something and has a checkpoint. */
static struct worker *begin(void)
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, RESULT("draft", "1"));
	fake_worker_say(p, RESULT("table", "2.50"));
	fake_worker_say(p, RESULT("draft", "3"));
	opkit_say(p, CHECKPOINT("8"));
	return p;
}

/* The same, PAUSED and without a process, since the operator wants to be asked. */
static void interrupt(const char *more)
{
	char keys[512];

	begin();
	snprintf(keys, sizeof keys, ASK_FIRST "%s", more);
	world_configure(&w, keys);
	opkit_crash();
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDcrash");
	ck_assert_uint_eq(w.workers.count, 0);
}

/* What a failure says of the one checkpoint that there is. */
static const char *last_checkpoint(void)
{
	static char text[128];

	snprintf(text, sizeof text, "\"last_checkpoint\":\"%s\",\"recoverable\":true",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL));
	return text;
}

static void is_summarized(void)
{
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"reason\":\"summarized\""), 3); /* both steps, and the end */
	ck_assert_int_eq(world_said(&w,
				 "\"partial_outputs\":{\"intermediate_results\":["
				 "{\"result_type\":\"draft\",\"data\":{\"v\":3},\"is_partial\":true},"
				 "{\"result_type\":\"table\",\"data\":{\"v\":2.50},\"is_partial\":true}],"
				 "\"checkpoint\":{"),
		1);
	ck_assert_int_eq(world_said(&w, "\"description\":\"up to 8\",\"step\":\"s8\"}}"), 1);
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"internal_error\""), 1);
}

/* ---- by the capability ---- */

START_TEST(summarize_closes_it_with_what_there_is) /* proves CK-04 */
{
	begin();
	world_configure(&w, SUMMARIZE);
	opkit_crash();
	is_summarized();
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(a_summary_of_nothing_says_so)
{
	world_start(&w, "m1", "work");
	world_configure(&w, SUMMARIZE);
	opkit_crash();
	ck_assert_int_eq(
		world_said(&w, "\"partial_outputs\":{\"intermediate_results\":[],\"checkpoint\":null}"), 1);
}
END_TEST

START_TEST(a_summary_fits_into_its_message)
{
	struct worker *p;
	struct buf big = {0};

	opkit_reload("[limits]\nmessage = 64KiB\n[capability work]\nrecovery = summarize\n");
	opkit_restart();
	p = world_start(&w, "m1", "work");
	for (int i = 0; i < 6; i++) {
		buf_clear(&big);
		buf_addf(&big,
			"{\"type\":\"intermediate_result\",\"result_type\":\"t%d\",\"data\":\"%012000d\"}", i,
			i);
		fake_worker_say(p, buf_text(&big));
	}
	buf_fini(&big);
	world_run(&w);
	opkit_crash();
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"omitted\":4}"), 1);
}
END_TEST

START_TEST(discard_aborts_it) /* proves CK-04 */
{
	begin();
	world_configure(&w, DISCARD);
	opkit_crash();
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"ABORTED\",\"reason\":\"discarded\""), 1);
}
END_TEST

/* ---- by an operator ---- */

static const struct {
	const char *how, *state;
} ways[] = {{"resume", "RUNNING"}, {"restart", "RUNNING"}, {"fail", "FAILED"}, {"summarize", "FAILED"},
	{"discard", "ABORTED"}};

START_TEST(an_operator_is_asked_and_chooses) /* proves CK-04 */
{
	bool from_checkpoint = strcmp(ways[_i].how, "resume") == 0;

	interrupt("");
	world_pass(&w, 100 * SECONDS);
	opkit_crash(); /* still asked */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_done(opkit_ask(OP_RECOVER, 1, ways[_i].how));
	ck_assert_str_eq(world_state(&w, 1), ways[_i].state);
	world_check_stream(&w, 1);
	if (strcmp(ways[_i].how, "summarize") == 0)
		is_summarized();
	if (strcmp(ways[_i].how, "fail") == 0)
		ck_assert_int_eq(
			world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"failed_by_operator\""), 1);
	if (strcmp(ways[_i].state, "FAILED") == 0)
		ck_assert_int_eq(world_said(&w, last_checkpoint()), 1);
	if (strcmp(ways[_i].state, "RUNNING") != 0)
		return;
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_int_eq(fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":8}"), from_checkpoint);
	ck_assert_int_eq(fake_worker_has_line(w.workers.list[0], "\"checkpoint\":null"), !from_checkpoint);
	/* What was passed over for good does not come back with the next crash. */
	world_configure(&w, "");
	opkit_crash();
	ck_assert_int_eq(fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":8}"), from_checkpoint);
}
END_TEST

START_TEST(undecided_session_that_expires_names_its_checkpoint)
{
	interrupt("[session]\npause_grace = 5s\n");
	world_pass(&w, 10 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"pause_expired\""), 1);
	ck_assert_int_eq(world_said(&w, last_checkpoint()), 1);
}
END_TEST

START_TEST(a_failure_names_no_checkpoint_that_is_damaged)
{
	begin();
	world_exec(&w, "UPDATE checkpoints SET state = replace(state, '8', '9')");
	world_configure(&w, ASK_FIRST);
	opkit_crash();
	opkit_done(opkit_ask(OP_RECOVER, 1, "fail"));
	ck_assert_int_eq(world_said(&w, "\"last_checkpoint\":null,\"recoverable\":false"), 1);
}
END_TEST

START_TEST(capability_that_fails_interrupted_sessions_keeps_its_reason)
{
	begin();
	world_configure(&w, "[capability work]\nrecovery = fail\n");
	opkit_crash();
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"no_checkpoint\""), 1);
	ck_assert_int_eq(world_said(&w, last_checkpoint()), 1);
}
END_TEST

START_TEST(operators_choice_beats_the_capabilitys_and_survives_a_crash)
{
	interrupt(DISCARD "[daemon]\nmax_sessions = 1\n");
	world_start(&w, "m2", "again");
	opkit_done(opkit_ask(OP_RECOVER, 1, "resume"));
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_configure(&w, DISCARD "[daemon]\nmax_sessions = 1\n");
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_say(w.workers.list[0], COMPLETED);
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"n\":8}"));
}
END_TEST

START_TEST(only_what_rests_without_a_process_is_recovered)
{
	begin();
	opkit_refused(opkit_ask(OP_RECOVER, 1, "resume"), "not_now", "is RUNNING");
	opkit_say(w.workers.list[0], PAUSED);
	opkit_refused(opkit_ask(OP_RECOVER, 1, "resume"), "not_now", "has its process");
	opkit_refused(opkit_ask(OP_RECOVER, 1, "pray"), "bad_request", "pray");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
}
END_TEST

START_TEST(recover_logs_no_choice_that_is_none_as_a_field)
{
	begin();
	opkit_say(w.workers.list[0], PAUSED);
	log_kit_begin(LOG_LVL_INFO);
	opkit_refused(opkit_ask(OP_RECOVER, 1, "x uid=0"), "bad_request", "x uid=0");
	ck_assert_int_eq(log_kit_count(" how=? uid="), 1);
	ck_assert_int_eq(log_kit_count(" uid="), 1);
	log_kit_end();
}
END_TEST

START_TEST(resume_is_refused_where_the_capability_ends_interrupted_ones)
{
	interrupt(SUMMARIZE);
	opkit_refused(opkit_ask(OP_RESUME, 1, ""), "refused", "does not recover");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_done(opkit_ask(OP_RECOVER, 1, "resume"));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(with_on_start_ask_nothing_waits_that_was_not_interrupted)
{
	world_configure(&w, ASK_FIRST "[daemon]\nmax_sessions = 1\n");
	opkit_crash();
	world_start(&w, "m1", "work");
	world_submit(&w, "m2", "work");
	world_run(&w);
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

/* ---- looked at again ---- */

static const struct {
	const char *check, *more, *code;
} changes[] = {
	{"caller", "[caller alpha]\ncapabilities = again\n", "safety_violation"},
	{"risk", "[caller alpha]\nmax_risk = R1\n", "safety_violation"},
	{"data_class", "[caller alpha]\nmax_data_class = T1\n", "safety_violation"},
	{"command", "[capability work]\ncommand = /nonexistent/agent\n", "resource_unavailable"},
};

static void begin_T2(void)
{
	world_submit_as(&w, "alpha", NULL, "m1", "work", ",\"constraints\":{\"data_classification\":\"T2\"}");
	world_run(&w);
	opkit_say(w.workers.list[0], CHECKPOINT("8"));
}

START_TEST(session_that_may_no_longer_run_fails_and_says_why) /* proves CK-09 */
{
	char check[64], code[64];

	begin_T2();
	world_configure(&w, changes[_i].more);
	opkit_crash();
	snprintf(check, sizeof check, "\"check\":\"%s\"", changes[_i].check);
	snprintf(code, sizeof code, "\"error_code\":\"%s\"", changes[_i].code);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, check), 1);
	ck_assert_int_eq(world_said(&w, code), 1);
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"recheck_failed\""), 1);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

#define TLS "[amqp]\nurl = amqps://127.0.0.1/\n"
#define ENCRYPTED "[store]\nencrypted = yes\n"

static const struct {
	const char *check, *more;
} lost[] = {
	{"encryption", TLS},
	{"tls", ENCRYPTED},
	{"tls", ENCRYPTED "[amqp]\nurl = amqps://127.0.0.1/\nverify = no\n"},
};

static void begin_T3(void)
{
	world_configure(&w, TLS ENCRYPTED);
	opkit_crash();
	world_submit_as(&w, "alpha", NULL, "m1", "work", ",\"constraints\":{\"data_classification\":\"T3\"}");
	world_run(&w);
	opkit_say(w.workers.list[0], CHECKPOINT("8"));
}

/* What data of class T3 needs to be accepted, it needs to go on. */
START_TEST(confidential_data_that_is_no_longer_accepted_is_not_resumed) /* proves CK-09, L3-06 */
{
	char check[64];

	begin_T3();
	world_configure(&w, TLS ENCRYPTED);
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_configure(&w, lost[_i].more);
	opkit_crash();
	snprintf(check, sizeof check, "\"check\":\"%s\"", lost[_i].check);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, check), 1);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

#define ONE_SLOT "[daemon]\nmax_sessions = 1\n"

static const struct {
	const char *check, *more;
	bool reloads;
} lost_meanwhile[] = {
	{"encryption", TLS, false},
	{"encryption", TLS, true},
	{"tls", ENCRYPTED, false},
	{"caller", TLS ENCRYPTED "[caller alpha]\ncapabilities = again\n", true},
	{"data_class", TLS ENCRYPTED "[caller alpha]\nmax_data_class = T2\n", true},
	{"risk", TLS ENCRYPTED "[caller alpha]\nmax_risk = R1\n", true},
	{NULL, TLS ENCRYPTED, true},
	{NULL, TLS ENCRYPTED, false},
};

/* It was accepted, and waited for its slot: nothing was checked since. */
START_TEST(a_wait_for_a_slot_outlasts_no_right) /* proves CK-09, L3-06, L2-02 */
{
	const char *check = lost_meanwhile[_i].check;
	char keys[512], wanted[64];

	snprintf(keys, sizeof keys, ONE_SLOT "%s", lost_meanwhile[_i].more);
	world_configure(&w, ONE_SLOT TLS ENCRYPTED);
	opkit_crash();
	world_start(&w, "m1", "again");
	world_submit_as(&w, "alpha", NULL, "m2", "work", ",\"constraints\":{\"data_classification\":\"T3\"}");
	world_run(&w);
	if (lost_meanwhile[_i].reloads) {
		opkit_reload(keys);
	} else {
		world_configure(&w, keys);
		opkit_crash();
	}
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	opkit_say(world_worker(&w, 1), COMPLETED);
	opkit_die(world_worker(&w, 1), 0);
	if (check == NULL) {
		ck_assert_str_eq(world_state(&w, 2), "RUNNING");
		return;
	}
	ck_assert_ptr_null(world_worker(&w, 2));
	ck_assert_str_eq(world_path(&w, 2), "PENDING>RUNNING:recheck_failed RUNNING>FAILED:recheck_failed");
	world_check_stream(&w, 2);
	snprintf(wanted, sizeof wanted, "\"check\":\"%s\"", check);
	ck_assert_int_eq(world_said(&w, wanted), 1);
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"safety_violation\""), 1);
}
END_TEST

/* [amqp] is read at start only: a reload changes the file, and not the link. */
START_TEST(a_link_counts_as_it_was_made_and_not_as_it_was_reloaded) /* proves CK-09, L3-06 */
{
	bool is_safe = _i == 1;

	begin_T3();
	world_configure(&w, is_safe ? ASK_FIRST TLS ENCRYPTED : ASK_FIRST ENCRYPTED);
	opkit_crash();
	opkit_reload(is_safe ? ASK_FIRST ENCRYPTED : ASK_FIRST TLS ENCRYPTED);
	if (is_safe) {
		opkit_done(opkit_ask(OP_RESUME, 1, ""));
		ck_assert_str_eq(world_state(&w, 1), "RUNNING");
		return;
	}
	opkit_refused(opkit_ask(OP_RESUME, 1, ""), "refused", "TLS");
	opkit_refused(opkit_ask(OP_RECOVER, 1, "resume"), "refused", "TLS");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(an_operator_is_told_and_it_stays_PAUSED) /* proves CK-09 */
{
	char more[256];

	begin_T2();
	world_configure(&w, ASK_FIRST);
	opkit_crash();
	snprintf(more, sizeof more, ASK_FIRST "%s", changes[_i].more);
	opkit_reload(more);
	opkit_refused(opkit_ask(OP_RESUME, 1, ""), "refused", "may not go on");
	opkit_refused(opkit_ask(OP_RECOVER, 1, "resume"), "refused", "may not go on");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_reload(ASK_FIRST);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* Nobody can mend a policy because of a disk. */
START_TEST(a_check_that_the_store_cannot_answer_is_not_a_refusal)
{
	begin_T3();
	world_exec(&w, "UPDATE sessions SET data_classification = 'T4'"); /* its approval is looked for */
	world_configure(&w, ASK_FIRST TLS ENCRYPTED);
	opkit_crash();
	world_exec(&w, "ALTER TABLE reviews RENAME TO elsewhere");
	opkit_refused(opkit_ask(OP_RESUME, 1, ""), "unavailable", "cannot be read");
	opkit_refused(opkit_ask(OP_RECOVER, 1, "resume"), "unavailable", "cannot be read");
	world_exec(&w, "ALTER TABLE elsewhere RENAME TO reviews");
	opkit_refused(opkit_ask(OP_RESUME, 1, ""), "refused", "a human's approval");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
}
END_TEST

START_TEST(paused_worker_of_a_caller_without_rights_is_not_resumed) /* proves CK-09 */
{
	begin_T2();
	opkit_say(w.workers.list[0], PAUSED);
	opkit_reload("[caller alpha]\nmax_risk = R1\n");
	opkit_refused(opkit_ask(OP_RESUME, 1, ""), "refused", "risk");
	ck_assert(!fake_worker_has_line(w.workers.list[0], "\"type\":\"resume\""));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("recover");
	TCase *t = tcase_create("recover");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, summarize_closes_it_with_what_there_is);
	tcase_add_test(t, a_summary_of_nothing_says_so);
	tcase_add_test(t, a_summary_fits_into_its_message);
	tcase_add_test(t, discard_aborts_it);
	tcase_add_loop_test(t, an_operator_is_asked_and_chooses, 0, (int)(sizeof ways / sizeof *ways));
	tcase_add_test(t, undecided_session_that_expires_names_its_checkpoint);
	tcase_add_test(t, a_failure_names_no_checkpoint_that_is_damaged);
	tcase_add_test(t, capability_that_fails_interrupted_sessions_keeps_its_reason);
	tcase_add_test(t, operators_choice_beats_the_capabilitys_and_survives_a_crash);
	tcase_add_test(t, only_what_rests_without_a_process_is_recovered);
	tcase_add_test(t, recover_logs_no_choice_that_is_none_as_a_field);
	tcase_add_test(t, resume_is_refused_where_the_capability_ends_interrupted_ones);
	tcase_add_test(t, with_on_start_ask_nothing_waits_that_was_not_interrupted);
	tcase_add_loop_test(t, session_that_may_no_longer_run_fails_and_says_why, 0,
		(int)(sizeof changes / sizeof *changes));
	tcase_add_loop_test(t, confidential_data_that_is_no_longer_accepted_is_not_resumed, 0, 3);
	tcase_add_loop_test(t, a_wait_for_a_slot_outlasts_no_right, 0,
		(int)(sizeof lost_meanwhile / sizeof *lost_meanwhile));
	tcase_add_loop_test(t, a_link_counts_as_it_was_made_and_not_as_it_was_reloaded, 0, 2);
	tcase_add_loop_test(
		t, an_operator_is_told_and_it_stays_PAUSED, 0, (int)(sizeof changes / sizeof *changes));
	tcase_add_test(t, a_check_that_the_store_cannot_answer_is_not_a_refusal);
	tcase_add_test(t, paused_worker_of_a_caller_without_rights_is_not_resumed);
	suite_add_tcase(s, t);
	return world_main(s);
}
