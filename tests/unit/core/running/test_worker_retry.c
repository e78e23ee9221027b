/* SPDX-License-Identifier: MIT */
/* test_worker_retry.c: a worker that dies is not yet the end of its session, where its capability has more
 * attempts. */
#include "support/fakes/operator_kit.h"

#define TRIES "[capability work]\nmax_attempts = 3\n[capability plain]\nmax_attempts = 2\n"
#define DIED "\"code\":\"worker_died\""

static void setup(void)
{
	opkit_begin(TRIES);
}

START_TEST(a_worker_that_dies_is_started_again_from_its_checkpoint) /* proves L2-07 L2-08 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, CHECKPOINT("7"));
	opkit_die(p, SIGKILL);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "retry");
	ck_assert_int_eq(world_said(&w, DIED), 1);
	ck_assert_int_eq(world_said(&w, "\"recoverable\":true"), 1);
	ck_assert_uint_eq(w.workers.count, 1);
	world_pass(&w, SECONDS / 2);
	ck_assert_uint_eq(w.workers.count, 1); /* not yet */
	world_pass(&w, SECONDS);
	ck_assert_uint_eq(w.workers.count, 2);
	p = w.workers.list[1];
	ck_assert(fake_worker_has_line(p, "\"attempt\":2,") &&
		fake_worker_has_line(p, "\"step\":\"s7\",\"state\":{\"n\":7}}"));
	opkit_say(p, COMPLETED);
	opkit_die(p, 0);
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:worker_died "
		"PAUSED>RUNNING:recovered_from_checkpoint RUNNING>COMPLETED:completed");
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(a_crash_loop_ends_FAILED_and_waits_longer_each_time)
{
	size_t started = 1;
	int64_t waited[2];

	world_start(&w, "m1", "work");
	for (int i = 0; i < 2; i++, started++) {
		int64_t since = fake_boot_us;

		opkit_die(w.workers.list[started - 1], 3 << 8);
		ck_assert_str_eq(world_state(&w, 1), "PAUSED");
		while (w.workers.count == started)
			world_pass(&w, SECONDS / 10);
		waited[i] = fake_boot_us - since;
	}
	ck_assert(waited[0] >= 1 * SECONDS && waited[0] < 2 * SECONDS && waited[1] >= 2 * SECONDS &&
		waited[1] < 3 * SECONDS);
	opkit_die(w.workers.list[2], 3 << 8);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, DIED), 2);
	ck_assert_int_eq(world_said(&w, "\"deaths\":3"), 1);
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"execution_error\""), 1);
	world_pass(&w, 300 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 3);
}
END_TEST

START_TEST(attempt_with_a_checkpoint_resets_the_back_off_and_counts)
{
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], 1 << 8);
	world_pass(&w, 1 * SECONDS);
	opkit_say(w.workers.list[1], CHECKPOINT("1"));
	opkit_die(w.workers.list[1], 1 << 8);
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 3);
	opkit_say(w.workers.list[2], CHECKPOINT("2"));
	opkit_die(w.workers.list[2], 1 << 8);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
}
END_TEST

START_TEST(slot_is_free_in_the_back_off_and_queued_for_again) /* proves SA-11 */
{
	opkit_reload(TRIES "[daemon]\nmax_sessions = 1\n");
	world_start(&w, "m1", "work");
	world_submit(&w, "m2", "work");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	opkit_die(w.workers.list[0], SIGSEGV);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_say(w.workers.list[1], COMPLETED);
	opkit_die(w.workers.list[1], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 3);
}
END_TEST

START_TEST(restarts_of_the_daemon_do_not_count_and_deaths_survive_them)
{
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], SIGKILL);
	for (int i = 0; i < 4; i++) {
		opkit_crash();
		ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	}
	ck_assert_int_eq(world_count(&w, "SELECT deaths FROM sessions", NULL), 1);
	opkit_die(w.workers.list[0], SIGKILL);
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 2);
	opkit_die(w.workers.list[1], SIGKILL);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
}
END_TEST

START_TEST(with_one_attempt_a_death_is_the_end)
{
	opkit_reload("");
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], SIGKILL);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, DIED), 0);
}
END_TEST

START_TEST(session_that_does_not_recover_is_not_started_again)
{
	opkit_reload("[capability never]\nmax_attempts = 3\n");
	world_start(&w, "m1", "never");
	opkit_die(w.workers.list[0], SIGKILL);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
}
END_TEST

START_TEST(retry_of_a_text_worker_starts_from_the_beginning)
{
	struct worker *p = world_start(&w, "m1", "plain");

	opkit_say(p, "half");
	opkit_die(p, 1 << 8);
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 2);
	opkit_say(w.workers.list[1], "whole");
	opkit_die(w.workers.list[1], 0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_eq(world_said(&w, "{\"outputs\":{\"stdout\":\"whole\\n\"}"), 1);
}
END_TEST

START_TEST(processes_of_a_dead_worker_are_gone_before_the_next_starts)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->children = 1;
	fake_worker_close_out(p);
	fake_worker_exit(p, SIGKILL);
	world_pass(&w, 3 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 1); /* exit_grace is not over */
	world_pass(&w, 5 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

/* ---- others have a say, too ---- */

START_TEST(an_abort_in_the_back_off_is_the_end)
{
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], SIGKILL);
	world_abort(&w, world_id(&w, 1));
	world_pass(&w, 10 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(an_operator_may_hold_it_in_the_back_off_and_let_it_go)
{
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], SIGKILL);
	opkit_done(opkit_ask(OP_PAUSE, 1, ""));
	world_pass(&w, 100 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 1);
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(worker_that_dies_after_a_pause_request_stays_paused)
{
	world_start(&w, "m1", "work");
	opkit_ask(OP_PAUSE, 1, "");
	opkit_die(w.workers.list[0], SIGKILL);
	world_pass(&w, 100 * SECONDS);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDoperator");
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(its_deadline_counts_in_the_back_off)
{
	opkit_reload(TRIES "[capability brief]\nmax_attempts = 9\nretry_delay = 30s\n");
	world_start(&w, "m1", "brief");
	opkit_die(w.workers.list[0], SIGKILL);
	world_pass(&w, 15 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
	world_pass(&w, 60 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(a_stop_in_the_back_off_leaves_it_to_the_next_run)
{
	world_start(&w, "m1", "work");
	opkit_say(w.workers.list[0], CHECKPOINT("4"));
	opkit_die(w.workers.list[0], SIGKILL);
	opkit_restart();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":4}"));
}
END_TEST

START_TEST(its_next_process_is_started_under_the_newest_configuration)
{
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], SIGKILL);
	opkit_reload(TRIES "[capability work]\ncommand = /bin/true newer\n");
	world_pass(&w, 1 * SECONDS);
	ck_assert_str_eq(w.workers.list[1]->argv[1], "newer");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("attempt");
	TCase *t = tcase_create("attempt");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, a_worker_that_dies_is_started_again_from_its_checkpoint);
	tcase_add_test(t, a_crash_loop_ends_FAILED_and_waits_longer_each_time);
	tcase_add_test(t, attempt_with_a_checkpoint_resets_the_back_off_and_counts);
	tcase_add_test(t, slot_is_free_in_the_back_off_and_queued_for_again);
	tcase_add_test(t, restarts_of_the_daemon_do_not_count_and_deaths_survive_them);
	tcase_add_test(t, with_one_attempt_a_death_is_the_end);
	tcase_add_test(t, session_that_does_not_recover_is_not_started_again);
	tcase_add_test(t, retry_of_a_text_worker_starts_from_the_beginning);
	tcase_add_test(t, processes_of_a_dead_worker_are_gone_before_the_next_starts);
	tcase_add_test(t, an_abort_in_the_back_off_is_the_end);
	tcase_add_test(t, an_operator_may_hold_it_in_the_back_off_and_let_it_go);
	tcase_add_test(t, worker_that_dies_after_a_pause_request_stays_paused);
	tcase_add_test(t, its_deadline_counts_in_the_back_off);
	tcase_add_test(t, a_stop_in_the_back_off_leaves_it_to_the_next_run);
	tcase_add_test(t, its_next_process_is_started_under_the_newest_configuration);
	suite_add_tcase(s, t);
	return world_main(s);
}
