/* test_pause.c: sessions that rest: they give up their process, wait for an operator, run out of grace or of
 * time. */
#include "operator_kit.h"

#define FREES "[capability work]\npause_frees_worker = yes\n"

static void setup(void)
{
	kit_begin(FREES);
}

static int running(void)
{
	return (int)w.core.slots.running;
}

/* Session 1, PAUSED by an operator, without a process. */
static void free_one(void)
{
	struct worker *p = world_start(&w, "m1", "work");

	kit_ask(ASK_PAUSE, 1, "");
	kit_say(p, CHECKPOINT("3"));
	kit_say(p, PAUSED);
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
	kit_done(kit_ask(ASK_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"n\":3}"));
	kit_say(w.workers.list[1], COMPLETED);
	kit_die(w.workers.list[1], 0);
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:paused_by_operator "
		"PAUSED>RUNNING:recovered_from_checkpoint RUNNING>COMPLETED:completed");
	world_judge(&w, 1);
}
END_TEST

START_TEST(one_that_gave_its_slot_back_queues_before_it_runs_on) /* proves SA-11 */
{
	kit_reload(FREES "[daemon]\nmax_sessions = 1\n");
	free_one();
	world_start(&w, "m2", "work");
	kit_done(kit_ask(ASK_RESUME, 1, ""));
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	kit_crash(); /* and it still waits */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	kit_say(w.workers.list[0], COMPLETED);
	kit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_worker_keeps_its_process_until_all_that_it_did_is_stored)
{
	struct worker *p = world_start(&w, "m1", "work");

	kit_say(p, CHECKPOINT("1"));
	kit_say(p, "{\"type\":\"step\",\"name\":\"more\"}");
	kit_say(p, PAUSED);
	world_pass(&w, 100 * SECONDS);
	ck_assert(!p->is_gone);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"checkpoint_request\",\"reason\":\"pause\"}"));
	kit_say(p, "{\"type\":\"checkpoint\",\"state\":{\"n\":9},\"resumable\":false}");
	ck_assert(!p->is_gone); /* it could not go on from that */
	kit_say(p, CHECKPOINT("2"));
	world_run(&w);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDworker");
}
END_TEST

/* Its process is gone, and with it who could say that it goes on. */
START_TEST(one_that_paused_itself_and_gave_up_its_process_is_resumed_by_an_operator_or_a_restart)
{
	struct worker *p = world_start(&w, "m1", "work");

	kit_say(p, CHECKPOINT("3"));
	kit_say(p, PAUSED);
	world_pass(&w, 600 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDworker");
	if (_i == 0)
		kit_done(kit_ask(ASK_RESUME, 1, ""));
	else if (_i == 1)
		kit_restart();
	else
		kit_crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[w.workers.count - 1], "\"state\":{\"n\":3}"));
	world_judge(&w, 1);
}
END_TEST

START_TEST(without_the_key_a_paused_worker_stays)
{
	struct worker *p;

	kit_reload("");
	p = world_start(&w, "m1", "work");
	kit_say(p, CHECKPOINT("1"));
	kit_say(p, PAUSED);
	world_pass(&w, 100 * SECONDS);
	ck_assert(!p->is_gone && p->kill_at_us == FAKE_NEVER);
	ck_assert_int_eq(running(), 1);
}
END_TEST

START_TEST(a_resume_while_its_process_goes_waits_for_that)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->ignores_term = true;
	kit_say(p, CHECKPOINT("3"));
	kit_say(p, PAUSED);
	ck_assert(!p->is_gone && p->stdin_closed);
	kit_done(kit_ask(ASK_RESUME, 1, ""));
	kit_say(p, "{\"type\":\"resumed\"}"); /* too late */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_uint_eq(w.workers.count, 1);
	world_pass(&w, 30 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_judge(&w, 1);
}
END_TEST

START_TEST(an_abort_while_its_process_goes_ends_it_once)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->ignores_term = true;
	kit_say(p, CHECKPOINT("3"));
	kit_say(p, PAUSED);
	world_abort(&w, world_id(&w, 1));
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_judge(&w, 1).state, "ABORTED");
	ck_assert(p->is_gone);
}
END_TEST

/* ---- pause_grace ---- */

START_TEST(one_that_is_PAUSED_for_longer_than_its_grace_ends) /* proves CK-10 */
{
	kit_reload("[session]\npause_grace = 60s\n");
	kit_say(world_start(&w, "m1", "work"), PAUSED);
	world_pass(&w, 59 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_judge(&w, 1).state, "FAILED");
	ck_assert(w.workers.list[0]->is_gone);
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"pause_expired\""), 1);
}
END_TEST

START_TEST(the_grace_counts_while_nobody_was_here) /* proves CK-10 */
{
	kit_reload(FREES "[session]\npause_grace = 60s\n");
	free_one();
	world_pass(&w, 40 * SECONDS);
	world_end(&w, true);
	fake_clock_pass(10 * SECONDS);
	world_begin(&w);
	w.core.control = &control;
	world_pass(&w, 5 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 10 * SECONDS);
	ck_assert_str_eq(world_judge(&w, 1).state, "FAILED");
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(who_runs_on_in_time_has_a_new_grace)
{
	kit_reload("[session]\npause_grace = 60s\n");
	struct worker *p = world_start(&w, "m1", "work");

	for (int i = 0; i < 4; i++) {
		kit_say(p, PAUSED);
		world_pass(&w, 50 * SECONDS);
		kit_say(p, "{\"type\":\"resumed\"}");
		world_pass(&w, 50 * SECONDS);
	}
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* ---- time ---- */

static struct ask *extend(int64_t us, const char *token)
{
	struct ask *a = fake_control_ask(&control, ASK_EXTEND, world_id(&w, 1));

	a->by_us = us;
	a->token = token != NULL ? xstrdup(token) : NULL;
	core_on_asks(&w.core);
	world_run(&w);
	return a;
}

START_TEST(a_deadline_is_moved_and_stays_so_across_a_restart) /* proves SA-10 */
{
	struct worker *p = world_start(&w, "m1", "brief");

	kit_done(extend(20 * SECONDS, NULL));
	ck_assert(fake_worker_has_line(p, "{\"type\":\"extended\",\"deadline\":\""));
	ck_assert_int_eq(world_said(&w, "\"extended_by\":\"PT20S\""), 1);
	world_pass(&w, 15 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	kit_crash();
	world_pass(&w, 10 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_judge(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
}
END_TEST

START_TEST(a_deadline_is_not_moved_beyond_the_bound_nor_by_a_stranger) /* proves SA-10 */
{
	char token[TOKEN_SIZE];

	kit_reload("[session]\nmax_extended = 30s\n");
	world_start(&w, "m1", "brief");
	snprintf(token, sizeof token, "%s", world_text(&w, "SELECT session_token FROM sessions", NULL));
	kit_refused(extend(21 * SECONDS, NULL), "refused", "may not be moved beyond");
	kit_refused(extend(INT64_MAX, NULL), "refused", "may not be moved beyond");
	kit_refused(extend(5 * SECONDS, "no token"), "refused", "not the token");
	kit_done(extend(5 * SECONDS, token));
	kit_done(extend(15 * SECONDS, token));
	kit_refused(extend(1 * SECONDS, token), "refused", "may not be moved beyond");
	world_pass(&w, 29 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	kit_refused(extend(1 * SECONDS, NULL), "not_now", "has ended");
}
END_TEST

START_TEST(what_has_not_begun_has_no_deadline_to_move)
{
	kit_reload("[daemon]\nmax_sessions = 1\n");
	world_start(&w, "m0", "work");
	world_submit(&w, "m1", "work");
	world_run(&w);
	struct ask *a = fake_control_ask(&control, ASK_EXTEND, world_id(&w, 2));

	a->by_us = SECONDS;
	core_on_asks(&w.core);
	world_run(&w);
	kit_refused(a, "not_now", "has not begun");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pause");
	TCase *t = tcase_create("pause");

	tcase_add_checked_fixture(t, setup, kit_end);
	tcase_add_test(t, a_paused_session_gives_up_its_process_and_its_slot);
	tcase_add_test(t, one_that_gave_its_slot_back_queues_before_it_runs_on);
	tcase_add_test(t, a_worker_keeps_its_process_until_all_that_it_did_is_stored);
	tcase_add_loop_test(t,
		one_that_paused_itself_and_gave_up_its_process_is_resumed_by_an_operator_or_a_restart, 0, 3);
	tcase_add_test(t, without_the_key_a_paused_worker_stays);
	tcase_add_test(t, a_resume_while_its_process_goes_waits_for_that);
	tcase_add_test(t, an_abort_while_its_process_goes_ends_it_once);
	tcase_add_test(t, one_that_is_PAUSED_for_longer_than_its_grace_ends);
	tcase_add_test(t, the_grace_counts_while_nobody_was_here);
	tcase_add_test(t, who_runs_on_in_time_has_a_new_grace);
	tcase_add_test(t, a_deadline_is_moved_and_stays_so_across_a_restart);
	tcase_add_test(t, a_deadline_is_not_moved_beyond_the_bound_nor_by_a_stranger);
	tcase_add_test(t, what_has_not_begun_has_no_deadline_to_move);
	suite_add_tcase(s, t);
	return world_main(s);
}
