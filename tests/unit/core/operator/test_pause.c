/* SPDX-License-Identifier: MIT */
/* test_pause.c: sessions that rest: they give up their process, wait for an operator, run out of grace
 * or of time. */
#include "support/fakes/operator_kit.h"

#define FREES "[capability work]\npause_frees_worker = yes\n"

static void setup(void)
{
	opkit_begin(FREES);
}

static int running(void)
{
	return (int)w.core.slots.running;
}

/* Session 1, PAUSED by an operator, without a process. */
static void free_one(void)
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_ask(OP_PAUSE, 1, "");
	opkit_say(p, CHECKPOINT("3"));
	opkit_say(p, PAUSED);
	world_run(&w);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDoperator");
}

/* ---- pause_frees_worker ---- */

START_TEST(a_paused_session_gives_up_its_process_and_its_slot) /* proves SA-11 */
{
	free_one();
	ck_assert_int_eq(running(), 0);
	ck_assert(!fake_worker_has_line(w.workers.list[0], "\"type\":\"abort\""));
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"n\":3}"));
	opkit_say(w.workers.list[1], COMPLETED);
	opkit_die(w.workers.list[1], 0);
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:paused_by_operator "
		"PAUSED>RUNNING:recovered_from_checkpoint RUNNING>COMPLETED:completed");
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(paused_session_without_a_slot_queues_before_it_runs_on) /* proves SA-11 */
{
	opkit_reload(FREES "[daemon]\nmax_sessions = 1\n");
	free_one();
	world_start(&w, "m2", "work");
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_crash(); /* and it still waits */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	opkit_say(w.workers.list[0], COMPLETED);
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_worker_keeps_its_process_until_all_that_it_did_is_stored)
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, "{\"type\":\"step\",\"name\":\"more\"}");
	opkit_say(p, PAUSED);
	world_pass(&w, 100 * SECONDS);
	ck_assert(!p->is_gone);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"checkpoint_request\",\"reason\":\"pause\"}"));
	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{\"n\":9},\"resumable\":false}");
	ck_assert(!p->is_gone); /* it could not go on from that */
	opkit_say(p, CHECKPOINT("2"));
	world_run(&w);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDworker");
}
END_TEST

/* Its process is gone, and with it who could say that it goes on. */
START_TEST(pause_without_a_process_ends_by_operator_or_restart)
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, CHECKPOINT("3"));
	opkit_say(p, PAUSED);
	world_pass(&w, 600 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDworker");
	if (_i == 0)
		opkit_done(opkit_ask(OP_RESUME, 1, ""));
	else if (_i == 1)
		opkit_restart();
	else
		opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[w.workers.count - 1], "\"state\":{\"n\":3}"));
	world_check_stream(&w, 1);
}
END_TEST

#define PAUSES "[session]\nidle_timeout = 20s\non_idle = pause\n"

START_TEST(an_idle_session_gives_up_its_process_after_its_checkpoint) /* proves SA-11 */
{
	struct worker *p;

	opkit_reload(FREES PAUSES);
	p = world_start(&w, "m1", "work");
	world_pass(&w, 21 * SECONDS);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"checkpoint_request\",\"reason\":\"pause\"}"));
	opkit_say(p, CHECKPOINT("3")); /* the answer to a request is no activity */
	world_run(&w);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDidle");
	ck_assert_int_eq(running(), 0);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"n\":3}"));
}
END_TEST

START_TEST(an_operator_ends_an_idle_pause_at_once) /* proves L2-10 */
{
	struct worker *p;

	opkit_reload("[capability work]\npause_frees_worker = no\n" PAUSES);
	p = world_start(&w, "m1", "work");
	world_pass(&w, 21 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(!fake_worker_has_line(p, "\"type\":\"resume\"")); /* it was not told to pause */
	world_pass(&w, 19 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:idle PAUSED>RUNNING:resumed RUNNING>PAUSED:idle");
}
END_TEST

START_TEST(without_the_key_a_paused_worker_stays)
{
	struct worker *p;

	opkit_reload("");
	p = world_start(&w, "m1", "work");
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, PAUSED);
	world_pass(&w, 100 * SECONDS);
	ck_assert(!p->is_gone && p->kill_at_us == FAKE_NEVER);
	ck_assert_int_eq(running(), 1);
}
END_TEST

START_TEST(a_resume_while_its_process_goes_waits_for_that)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->ignores_term = true;
	opkit_say(p, CHECKPOINT("3"));
	opkit_say(p, PAUSED);
	ck_assert(!p->is_gone && p->stdin_closed);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	opkit_say(p, "{\"type\":\"resumed\"}"); /* too late */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_uint_eq(w.workers.count, 1);
	world_pass(&w, 30 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(an_abort_while_its_process_goes_ends_it_once)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->ignores_term = true;
	opkit_say(p, CHECKPOINT("3"));
	opkit_say(p, PAUSED);
	world_abort(&w, world_id(&w, 1));
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
	ck_assert(p->is_gone);
}
END_TEST

/* ---- pause_grace ---- */

START_TEST(session_that_is_PAUSED_beyond_its_grace_ends) /* proves CK-10 */
{
	opkit_reload("[session]\npause_grace = 60s\n");
	opkit_say(world_start(&w, "m1", "work"), PAUSED);
	world_pass(&w, 59 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert(w.workers.list[0]->is_gone);
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"pause_expired\""), 1);
}
END_TEST

START_TEST(the_grace_counts_while_nobody_was_here) /* proves CK-10 */
{
	opkit_reload(FREES "[session]\npause_grace = 60s\n");
	free_one();
	world_pass(&w, 40 * SECONDS);
	world_end(&w, true);
	fake_clock_pass(10 * SECONDS);
	world_begin(&w);
	w.core.operator.queue = & operators;
	world_pass(&w, 5 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 10 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(session_that_runs_on_in_time_has_a_new_grace)
{
	opkit_reload("[session]\npause_grace = 60s\n");
	struct worker *p = world_start(&w, "m1", "work");

	for (int i = 0; i < 4; i++) {
		opkit_say(p, PAUSED);
		world_pass(&w, 50 * SECONDS);
		opkit_say(p, "{\"type\":\"resumed\"}");
		world_pass(&w, 50 * SECONDS);
	}
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* ---- time ---- */

static struct op_request *extend(int64_t us, const char *token)
{
	struct op_request *a = fake_operators_ask(&operators, OP_EXTEND, world_id(&w, 1));

	a->by_us = us;
	a->token = token != NULL ? xstrdup(token) : NULL;
	core_on_requests(&w.core);
	world_run(&w);
	return a;
}

START_TEST(a_deadline_is_moved_and_stays_so_across_a_restart) /* proves SA-10 */
{
	struct worker *p = world_start(&w, "m1", "brief");

	opkit_done(extend(20 * SECONDS, NULL));
	ck_assert(fake_worker_has_line(p, "{\"type\":\"extended\",\"deadline\":\""));
	ck_assert_int_eq(world_said(&w, "\"extended_by\":\"PT20S\""), 1);
	world_pass(&w, 15 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	opkit_crash();
	world_pass(&w, 10 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
}
END_TEST

START_TEST(a_deadline_is_not_moved_beyond_the_bound_nor_by_a_stranger) /* proves SA-10 */
{
	char token[TOKEN_SIZE];

	opkit_reload("[session]\nmax_extended = 30s\n");
	world_start(&w, "m1", "brief");
	snprintf(token, sizeof token, "%s", world_text(&w, "SELECT session_token FROM sessions", NULL));
	opkit_refused(extend(21 * SECONDS, NULL), "refused", "may not be moved beyond");
	opkit_refused(extend(INT64_MAX, NULL), "refused", "may not be moved beyond");
	opkit_refused(extend(5 * SECONDS, "no token"), "refused", "not the token");
	opkit_done(extend(5 * SECONDS, token));
	opkit_done(extend(15 * SECONDS, token));
	opkit_refused(extend(1 * SECONDS, token), "refused", "may not be moved beyond");
	world_pass(&w, 29 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	opkit_refused(extend(1 * SECONDS, NULL), "not_now", "has ended");
}
END_TEST

START_TEST(session_that_has_not_begun_has_no_deadline_to_move)
{
	opkit_reload("[daemon]\nmax_sessions = 1\n");
	world_start(&w, "m0", "work");
	world_submit(&w, "m1", "work");
	world_run(&w);
	struct op_request *a = fake_operators_ask(&operators, OP_EXTEND, world_id(&w, 2));

	a->by_us = SECONDS;
	core_on_requests(&w.core);
	world_run(&w);
	opkit_refused(a, "not_now", "has not begun");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pause");
	TCase *t = tcase_create("pause");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, a_paused_session_gives_up_its_process_and_its_slot);
	tcase_add_test(t, paused_session_without_a_slot_queues_before_it_runs_on);
	tcase_add_test(t, a_worker_keeps_its_process_until_all_that_it_did_is_stored);
	tcase_add_loop_test(t, pause_without_a_process_ends_by_operator_or_restart, 0, 3);
	tcase_add_test(t, an_idle_session_gives_up_its_process_after_its_checkpoint);
	tcase_add_test(t, an_operator_ends_an_idle_pause_at_once);
	tcase_add_test(t, without_the_key_a_paused_worker_stays);
	tcase_add_test(t, a_resume_while_its_process_goes_waits_for_that);
	tcase_add_test(t, an_abort_while_its_process_goes_ends_it_once);
	tcase_add_test(t, session_that_is_PAUSED_beyond_its_grace_ends);
	tcase_add_test(t, the_grace_counts_while_nobody_was_here);
	tcase_add_test(t, session_that_runs_on_in_time_has_a_new_grace);
	tcase_add_test(t, a_deadline_is_moved_and_stays_so_across_a_restart);
	tcase_add_test(t, a_deadline_is_not_moved_beyond_the_bound_nor_by_a_stranger);
	tcase_add_test(t, session_that_has_not_begun_has_no_deadline_to_move);
	suite_add_tcase(s, t);
	return world_main(s);
}
