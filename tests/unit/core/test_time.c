/* SPDX-License-Identifier: MIT */
/* test_time.c: max_duration, idle_timeout and the clock on the wall. */
#include "support/fakes/fake_world.h"

static struct world w;

#define DAY (86400 * SECONDS)

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
}

static void setup_idle(void)
{
	world_init(&w,
		"[session]\nidle_timeout = 20s\nmax_outbox = 4KiB\n"
		"[limits]\ncheckpoint_state = 1KiB\n");
	world_begin(&w);
}

static void teardown(void)
{
	world_fini(&w);
}

static void must_fail(int key, const char *reason, const char *code)
{
	struct oracle_stream j = world_check_stream(&w, key);
	char wanted[80];

	ck_assert(j.closed);
	ck_assert_str_eq(j.state, "FAILED");
	snprintf(wanted, sizeof wanted, "\"final_state\":\"FAILED\",\"reason\":\"%s\"", reason);
	ck_assert_int_eq(world_said(&w, wanted), 1);
	snprintf(wanted, sizeof wanted, "\"error_code\":\"%s\"", code);
	ck_assert_int_eq(world_said(&w, wanted), 1);
}

static const char *must_not_end = "RUNNING";

/* ---- max_duration ---- */

static const struct {
	const char *capability, *more;
	int seconds;
} durations[] = {
	{"work", "", 3600},
	{"brief", "", 10},
	{"brief", ",\"constraints\":{\"max_duration\":\"PT4S\"}", 4},
	{"brief", ",\"constraints\":{\"max_duration\":\"PT1H\"}", 10},
	{"work", ",\"constraints\":{\"max_duration\":\"PT2H\"}", 3600},
	{"work", ",\"constraints\":{\"max_duration\":\"PT90S\"}", 90},
};

START_TEST(max_duration_is_the_least_of_task_capability_and_default) /* proves L2-09 L3-10 */
{
	struct worker *p;
	char deadline[CLOCK_TEXT_SIZE], wanted[64];

	world_submit_as(&w, "alpha", NULL, "m1", durations[_i].capability, durations[_i].more);
	world_run(&w);
	p = w.workers.list[0];
	clock_format(fake_wall_us + durations[_i].seconds * SECONDS, deadline);
	snprintf(wanted, sizeof wanted, "\"deadline\":\"%s\"", deadline);
	ck_assert(fake_worker_has_line(p, wanted));
	world_pass(&w, durations[_i].seconds * SECONDS - 1);
	ck_assert(!fake_worker_has_line(p, "\"type\":\"abort\""));
	world_pass(&w, 1);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"timeout\""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING"); /* until its process is gone */
	world_pass(&w, 30 * SECONDS);
	ck_assert(p->is_gone);
	must_fail(1, "timeout", "timeout");
}
END_TEST

START_TEST(waiting_for_a_slot_does_not_count) /* proves L2-09 */
{
	struct worker *p;

	world_end(&w, false);
	world_configure(&w, "[daemon]\nmax_sessions = 1\n");
	world_begin(&w);
	p = world_start(&w, "m1", "work");
	world_submit(&w, "m2", "brief");
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_pass(&w, 9 * SECONDS);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert(!fake_worker_has_line(w.workers.list[1], "abort"));
}
END_TEST

START_TEST(a_step_of_the_wall_clock_ends_nothing_and_delays_nothing)
{
	world_start(&w, "m1", "brief");
	fake_clock_step_wall(_i == 0 ? DAY : -DAY);
	world_pass(&w, 9 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), must_not_end);
	ck_assert(!fake_worker_has_line(w.workers.list[0], "abort"));
	world_pass(&w, 1 * SECONDS);
	ck_assert(fake_worker_has_line(w.workers.list[0], "abort"));
}
END_TEST

/* RUNNING is decided, the commit is held up, the clock is set, and only then the process starts. */
START_TEST(a_step_between_RUNNING_and_the_start_ends_nothing)
{
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m1", "brief");
	world_pass(&w, 2 * SECONDS);
	fake_clock_step_wall(DAY);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), must_not_end);
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert(!fake_worker_has_line(w.workers.list[0], "abort"));
}
END_TEST

START_TEST(paused_counts_towards_max_duration)
{
	struct worker *p = world_start(&w, "m1", "brief");

	world_pass(&w, 3 * SECONDS);
	fake_worker_say(p, "{\"type\":\"paused\"}");
	world_pass(&w, 7 * SECONDS);
	ck_assert(fake_worker_has_line(p, "\"type\":\"abort\""));
	fake_worker_exit(p, 0);
	world_run(&w);
	must_fail(1, "timeout", "timeout");
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:paused_by_worker PAUSED>RUNNING:timeout"
		" RUNNING>FAILED:timeout");
}
END_TEST

START_TEST(restarts_are_included_by_the_wall_clock) /* proves L2-09 */
{
	world_start(&w, "m1", "brief");
	world_pass(&w, 6 * SECONDS);
	fake_wall_us += 2 * SECONDS; /* down for two seconds, in another boot */
	fake_boot_us = 77 * SECONDS;
	world_crash(&w);
	world_run(&w);
	world_pass(&w, 1900000);
	ck_assert(!fake_worker_has_line(w.workers.list[0], "abort"));
	world_pass(&w, 100000);
	ck_assert(fake_worker_has_line(w.workers.list[0], "abort"));
}
END_TEST

START_TEST(deadline_that_passed_while_down_ends_without_a_start) /* proves L2-09 */
{
	world_start(&w, "m1", "brief");
	fake_wall_us += 11 * SECONDS;
	world_crash(&w);
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 0);
	must_fail(1, "timeout", "timeout");
}
END_TEST

START_TEST(an_operators_pause_ends_with_max_duration_too)
{
	struct worker *p = world_start(&w, "m1", "brief");

	fake_worker_say(p, "{\"type\":\"paused\"}");
	world_run(&w);
	world_exec(&w, "UPDATE sessions SET paused_by = 'operator'");
	world_crash(&w);
	world_pass(&w, 9 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 2 * SECONDS);
	must_fail(1, "timeout", "timeout");
}
END_TEST

START_TEST(a_timeout_after_completed_changes_nothing)
{
	struct worker *p = world_start(&w, "m1", "brief");

	world_pass(&w, 9 * SECONDS);
	p->ignores_term = true;
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

/* ---- idle ---- */

START_TEST(silence_ends_a_session) /* proves L2-10 */
{
	struct worker *p = world_start(&w, "m1", "work");

	for (int i = 0; i < 5; i++) {
		world_pass(&w, 19 * SECONDS);
		fake_worker_say(p, "{\"type\":\"log\",\"message\":\"x\"}");
		world_run(&w);
	}
	world_pass(&w, 20 * SECONDS);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"idle_timeout\""));
	world_pass(&w, 30 * SECONDS);
	must_fail(1, "idle_timeout", "execution_error");
}
END_TEST

/* Larger than the checkpoint_state of setup_idle. */
#define LARGE_64 "................................................................"
#define LARGE_256 LARGE_64 LARGE_64 LARGE_64 LARGE_64
#define LARGE LARGE_256 LARGE_256 LARGE_256 LARGE_256

static const char *const no_events[] = {"{\"type\":\"usage\",\"tokens_in\":1}",
	"{\"type\":\"step\",\"name\":\"x\"}", "no JSON at all", "{\"type\":\"nothing\"}",
	"{\"type\":\"resumed\"}", "{\"type\":\"action\",\"name\":\"look\"}",
	"{\"type\":\"checkpoint\",\"state\":{\"large\":\"" LARGE "\"}}"};

START_TEST(lines_that_make_no_event_are_silence) /* proves L2-10 */
{
	struct worker *p = world_start(&w, "m1", "work");

	for (int i = 0; i < 3; i++) {
		world_pass(&w, 5 * SECONDS);
		ck_assert(!fake_worker_has_line(p, "abort"));
		fake_worker_say(p, no_events[_i]);
		world_run(&w);
	}
	world_pass(&w, 6 * SECONDS);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"idle_timeout\""));
}
END_TEST

static const char *const events[] = {"{\"type\":\"progress\",\"stage\":\"x\",\"message\":\"x\"}",
	"{\"type\":\"checkpoint\",\"state\":{}}", "{\"type\":\"warning\",\"message\":\"x\"}"};

START_TEST(a_session_that_pauses_when_idle_goes_on_with_its_next_event) /* proves L2-10 */
{
	struct worker *p;

	world_configure(&w, "[session]\nidle_timeout = 20s\non_idle = pause\n");
	core_reload(&w.core);
	p = world_start(&w, "m1", "work");
	for (int i = 0; i < 3; i++) {
		world_pass(&w, 21 * SECONDS);
		ck_assert_str_eq(world_state(&w, 1), "PAUSED");
		ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "idle");
		fake_worker_say(p, "{\"type\":\"usage\",\"tokens_in\":1}");
		world_pass(&w, 100 * SECONDS);
		ck_assert_str_eq(world_state(&w, 1), "PAUSED");
		fake_worker_say(p, events[_i]);
		world_pass(&w, 19 * SECONDS);
		ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	}
	ck_assert(!fake_worker_has_line(p, "abort") && !fake_worker_has_line(p, "pause"));
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:idle PAUSED>RUNNING:resumed RUNNING>PAUSED:idle "
		"PAUSED>RUNNING:resumed RUNNING>PAUSED:idle PAUSED>RUNNING:resumed");
	world_pass(&w, 2 * SECONDS);
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}"); /* PAUSED again: over RUNNING */
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

START_TEST(an_idle_session_comes_back_after_a_crash) /* proves L2-10, L2-08 */
{
	world_end(&w, false);
	world_configure(&w, "[session]\nidle_timeout = 20s\non_idle = pause\n");
	world_begin(&w);
	world_start(&w, "m1", "work");
	world_pass(&w, 21 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(world_worker(&w, 1) != NULL);
}
END_TEST

START_TEST(an_idle_worker_that_says_paused_is_paused_by_itself)
{
	struct worker *p;

	world_configure(&w, "[session]\nidle_timeout = 20s\non_idle = pause\n");
	core_reload(&w.core);
	p = world_start(&w, "m1", "work");
	world_pass(&w, 21 * SECONDS);
	fake_worker_say(p, "{\"type\":\"paused\"}");
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"x\"}");
	world_run(&w);
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDworker");
	fake_worker_say(p, "{\"type\":\"resumed\"}");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

static void reload_with(const char *text)
{
	world_configure(&w, text);
	core_reload(&w.core);
	world_run(&w);
}

START_TEST(a_new_idle_timeout_counts_for_sessions_that_run) /* proves L2-10 */
{
	struct worker *p;

	reload_with("[session]\nidle_timeout = 0\n");
	p = world_start(&w, "m1", "work");
	world_pass(&w, 100 * SECONDS);
	reload_with("[session]\nidle_timeout = 1h\n");
	world_pass(&w, 30 * SECONDS);
	reload_with("[session]\nidle_timeout = 40s\n");
	world_pass(&w, 9 * SECONDS); /* the time before it was on does not count */
	ck_assert(!fake_worker_has_line(p, "abort"));
	world_pass(&w, 2 * SECONDS);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"idle_timeout\""));
}
END_TEST

START_TEST(a_wall_step_is_no_silence)
{
	world_start(&w, "m1", "work");
	fake_clock_step_wall(DAY);
	world_pass(&w, 19 * SECONDS);
	ck_assert(!fake_worker_has_line(w.workers.list[0], "abort"));
}
END_TEST

START_TEST(a_paused_session_may_be_silent) /* proves L2-10 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, "{\"type\":\"paused\"}");
	world_pass(&w, 600 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	fake_worker_say(p, "{\"type\":\"resumed\"}");
	world_pass(&w, 19 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(!fake_worker_has_line(p, "abort"));
	world_pass(&w, 21 * SECONDS);
	ck_assert(fake_worker_has_line(p, "idle_timeout"));
}
END_TEST

START_TEST(a_worker_that_is_not_read_may_be_silent) /* proves L2-10 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_bus_down(&w.bus, 0);
	for (int i = 0; i < 100; i++)
		fake_worker_say(p,
			"{\"type\":\"log\",\"message\":\"a line of some length that fills the outbox up\"}");
	world_pass(&w, 600 * SECONDS);
	ck_assert(p->is_paused);
	ck_assert(!fake_worker_has_line(p, "abort"));
	fake_bus_up(&w.bus);
	world_pass(&w, 19 * SECONDS);
	ck_assert(!fake_worker_has_line(p, "abort"));
}
END_TEST

START_TEST(silence_while_the_store_refuses_does_not_count) /* proves L2-10 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_pass(&w, 120 * SECONDS); /* no pipe is read meanwhile */
	fake_disk_mend();
	world_pass(&w, 5 * SECONDS);
	ck_assert(!w.core.phase.is_suspended);
	ck_assert(!fake_worker_has_line(p, "abort"));
	ck_assert_str_eq(world_state(&w, 1), must_not_end);
}
END_TEST

START_TEST(a_worker_that_only_writes_to_stderr_is_not_silent) /* proves L2-10 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_pass(&w, 15 * SECONDS);
	fake_worker_put(p, FAKE_ERR, "warming up", 10, 0);
	world_pass(&w, 15 * SECONDS);
	ck_assert(!fake_worker_has_line(p, "abort"));
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"log\""), 1);
}
END_TEST

START_TEST(a_worker_that_closes_its_stdout_and_lives_is_warned_about)
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_close_out(p);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "stdout_closed"), 0); /* it may be its death */
	world_pass(&w, 2 * SECONDS);
	ck_assert_int_eq(world_said(&w, "\"code\":\"stdout_closed\""), 1);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_worker_that_dies_is_not_said_to_run_on)
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_close_out(p);
	world_run(&w);
	fake_worker_exit(p, 9);
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_int_eq(world_said(&w, "stdout_closed"), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_time");
	TCase *t = tcase_create("max_duration"), *i = tcase_create("idle");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, max_duration_is_the_least_of_task_capability_and_default, 0, 6);
	tcase_add_test(t, a_worker_that_closes_its_stdout_and_lives_is_warned_about);
	tcase_add_test(t, a_worker_that_dies_is_not_said_to_run_on);
	tcase_add_test(t, waiting_for_a_slot_does_not_count);
	tcase_add_loop_test(t, a_step_of_the_wall_clock_ends_nothing_and_delays_nothing, 0, 2);
	tcase_add_test(t, a_step_between_RUNNING_and_the_start_ends_nothing);
	tcase_add_test(t, paused_counts_towards_max_duration);
	tcase_add_test(t, restarts_are_included_by_the_wall_clock);
	tcase_add_test(t, deadline_that_passed_while_down_ends_without_a_start);
	tcase_add_test(t, an_operators_pause_ends_with_max_duration_too);
	tcase_add_test(t, a_timeout_after_completed_changes_nothing);
	tcase_add_checked_fixture(i, setup_idle, teardown);
	tcase_add_test(i, silence_ends_a_session);
	tcase_add_loop_test(i, lines_that_make_no_event_are_silence, 0, sizeof no_events / sizeof *no_events);
	tcase_add_loop_test(i, a_session_that_pauses_when_idle_goes_on_with_its_next_event, 0,
		sizeof events / sizeof *events);
	tcase_add_test(i, an_idle_session_comes_back_after_a_crash);
	tcase_add_test(i, an_idle_worker_that_says_paused_is_paused_by_itself);
	tcase_add_test(i, a_new_idle_timeout_counts_for_sessions_that_run);
	tcase_add_test(i, a_wall_step_is_no_silence);
	tcase_add_test(i, a_paused_session_may_be_silent);
	tcase_add_test(i, a_worker_that_is_not_read_may_be_silent);
	tcase_add_test(i, silence_while_the_store_refuses_does_not_count);
	tcase_add_test(i, a_worker_that_only_writes_to_stderr_is_not_silent);
	suite_add_tcase(s, t);
	suite_add_tcase(s, i);
	return world_main(s);
}
