/* SPDX-License-Identifier: MIT */
/* test_start_line.c: what a worker is told about the past when its session goes on. */
#include "support/fakes/operator_kit.h"

static void setup(void)
{
	opkit_begin("");
}

static struct worker *newest(void)
{
	return w.workers.list[w.workers.count - 1];
}

/* The daemon dies, and is away for some time. */
static void crash_for(int64_t us)
{
	world_end(&w, true);
	fake_clock_pass(us);
	world_begin(&w);
	world_run(&w);
}

START_TEST(a_first_start_says_nothing_of_a_rest)
{
	world_start(&w, "m1", "work");
	ck_assert(fake_worker_has_line(newest(), "\"checkpoint\":null"));
	ck_assert(!fake_worker_has_line(newest(), "\"rested\""));
}
END_TEST

START_TEST(start_line_after_a_crash_has_the_checkpoints_age_and_more) /* proves CK-04 */
{
	char wanted[160];

	opkit_say(world_start(&w, "m1", "work"), CHECKPOINT("8"));
	snprintf(wanted, sizeof wanted,
		"\"checkpoint\":{\"checkpoint_id\":\"%s\",\"created_at\":\"%s\",\"step\":\"s8\"",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL),
		world_text(&w, "SELECT created_at FROM checkpoints", NULL));
	world_pass(&w, 60 * SECONDS);
	opkit_say(newest(), "{\"type\":\"log\",\"message\":\"still here\"}");
	world_pass(&w, 3 * SECONDS); /* nobody knows what it did in these */
	crash_for(297 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(newest(), wanted));
	ck_assert(fake_worker_has_line(newest(), "\"rested\":\"PT5M\""));
}
END_TEST

START_TEST(a_start_after_a_pause_says_how_long_it_was)
{
	opkit_reload("[capability work]\npause_frees_worker = yes\n");
	world_start(&w, "m1", "work");
	opkit_ask(OP_PAUSE, 1, "");
	opkit_say(newest(), CHECKPOINT("3"));
	opkit_say(newest(), PAUSED);
	world_pass(&w, 90 * SECONDS);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert(fake_worker_has_line(newest(), "\"rested\":\"PT1M30S\""));
}
END_TEST

/* A log event, after RUNNING and before anything of the worker. */
START_TEST(a_recovery_says_which_checkpoint_and_step) /* proves CK-04 */
{
	char wanted[160];

	opkit_say(world_start(&w, "m1", "work"), CHECKPOINT("8"));
	snprintf(wanted, sizeof wanted,
		"\"details\":{\"checkpoint_id\":\"%s\",\"created_at\":\"%s\",\"step\":\"s8\",",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL),
		world_text(&w, "SELECT created_at FROM checkpoints", NULL));
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"log\""), 0);
	crash_for(10 * SECONDS);
	opkit_say(newest(), COMPLETED);
	opkit_die(newest(), 0);
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"log\""), 1);
	ck_assert_int_eq(world_said(&w, wanted), 1);
	ck_assert_int_eq(world_said(&w, "\"rested\":\"PT10S\",\"attempt\":2}"), 1);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

START_TEST(a_new_beginning_says_nothing_of_a_checkpoint)
{
	world_start(&w, "m1", "work");
	crash_for(10 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"log\""), 0);
	ck_assert(fake_worker_has_line(newest(), "\"rested\":\"PT10S\""));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("start_line");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, a_first_start_says_nothing_of_a_rest);
	tcase_add_test(t, start_line_after_a_crash_has_the_checkpoints_age_and_more);
	tcase_add_test(t, a_start_after_a_pause_says_how_long_it_was);
	tcase_add_test(t, a_recovery_says_which_checkpoint_and_step);
	tcase_add_test(t, a_new_beginning_says_nothing_of_a_checkpoint);
	suite_add_tcase(s, t);
	return world_main(s);
}
