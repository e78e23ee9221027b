/* SPDX-License-Identifier: MIT */
/* test_fairness.c: what one caller can take of the whole: places to wait, slots, priority, tasks a time. */
#include "support/fakes/fake_world.h"

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

static void begin_with(const char *more)
{
	world_end(&w, false);
	world_configure(&w, more);
	world_begin(&w);
	world_run(&w);
}

static int sessions(void)
{
	return (int)world_count(&w, "SELECT count(*) FROM sessions", NULL);
}

static const char *last_code(void)
{
	return world_text(&w,
		"SELECT json_extract(body, '$.payload.reason_code') FROM events WHERE type = 'task_rejected'"
		" ORDER BY id DESC",
		NULL);
}

/* Submits tasks, each under a message_id of its own; gives back how many became sessions. */
static int submit(const char *caller, int count, const char *more)
{
	static int number;
	int before = sessions();
	char id[16];

	for (int i = 0; i < count; i++) {
		snprintf(id, sizeof id, "m%d", number++);
		world_submit_as(
			&w, caller, strcmp(caller, "beta") == 0 ? "beta-user" : NULL, id, "work", more);
	}
	world_run(&w);
	return sessions() - before;
}

static void complete(int key)
{
	struct worker *p = world_worker(&w, key);

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
}

START_TEST(backlog_keeps_a_share_for_callers_with_nothing_waiting) /* proves L3-10 */
{
	begin_with("[daemon]\nmax_sessions = 1\nmax_pending = 20\n");
	ck_assert_int_eq(submit("alpha", 40, ""), 19); /* one runs; a tenth of 20 is kept */
	ck_assert_str_eq(last_code(), "resource_unavailable");
	ck_assert_int_eq(world_said(&w, "kept for callers that have nothing waiting"), 21);
	ck_assert_int_eq(submit("beta", 1, ""), 1);
	ck_assert_int_eq(submit("beta", 1, ""), 0);
	world_crash(&w); /* the same afterwards */
	world_run(&w);
	ck_assert_uint_eq(w.core.slots.waiting, 19);
	ck_assert_int_eq(submit("alpha", 1, ""), 0);
	ck_assert_int_eq(submit("beta", 1, ""), 0);
}
END_TEST

START_TEST(a_small_backlog_has_one_more_place) /* proves L3-10 */
{
	begin_with("[daemon]\nmax_sessions = 1\nmax_pending = 2\n[caller *]\ncapabilities = *\n");
	ck_assert_int_eq(submit("alpha", 9, ""), 3);
	ck_assert_int_eq(submit("beta", 9, ""), 1);
	ck_assert_int_eq(submit("gamma", 9, ""), 0); /* it is bounded all the same */
	ck_assert_int_eq(world_said(&w, "as many tasks as may wait do wait, 2"), 9);
}
END_TEST

START_TEST(a_caller_has_a_max_pending_of_its_own) /* proves L3-10 */
{
	begin_with("[daemon]\nmax_sessions = 1\n[caller alpha]\nmax_pending = 3\n");
	ck_assert_int_eq(submit("alpha", 9, ""), 4);
	ck_assert_int_eq(world_said(&w, "3 tasks of this caller may wait, and so many do"), 5);
	ck_assert_int_eq(submit("beta", 9, ""), 9);
	complete(1);
	ck_assert_int_eq(
		submit("alpha", 9, ""), 0); /* beta had its turn, and alpha has three waiting still */
	complete(5);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_int_eq(submit("alpha", 9, ""), 1);
}
END_TEST

START_TEST(a_caller_at_max_running_waits_and_others_start) /* proves L3-10 */
{
	begin_with("[caller alpha]\nmax_running = 2\nmax_pending = 1\n");
	ck_assert_int_eq(submit("alpha", 4, ""), 3);
	ck_assert_int_eq(submit("beta", 1, ""), 1);
	ck_assert_str_eq(world_state(&w, 3), "PENDING");
	ck_assert_str_eq(world_state(&w, 4), "RUNNING");
	complete(1);
	ck_assert_str_eq(world_state(&w, 3), "RUNNING");
}
END_TEST

START_TEST(a_priority_above_the_limit_is_lowered_and_said) /* proves L3-10 */
{
	begin_with("[daemon]\nmax_sessions = 1\n[caller alpha]\nmax_priority = normal\n");
	submit("alpha", 2, "");
	submit("alpha", 1, ",\"constraints\":{\"priority\":\"low\"}");
	ck_assert_int_eq(world_said(&w, "priority_lowered"), 0);
	submit("alpha", 1, ",\"constraints\":{\"priority\":\"urgent\"}");
	submit("beta", 1, ",\"constraints\":{\"priority\":\"high\"}");
	ck_assert_int_eq(world_said(&w, "\"code\":\"priority_lowered\""), 1);
	ck_assert_str_eq(world_text(&w, "SELECT priority FROM sessions WHERE id = 4", NULL), "normal");
	ck_assert_str_eq(world_text(&w, "SELECT priority FROM sessions WHERE id = 5", NULL), "high");
	world_crash(&w); /* and it stays so */
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "\"code\":\"priority_lowered\""), 1);
	complete(1);
	ck_assert_str_eq(world_state(&w, 5), "RUNNING");
	complete(5);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_str_eq(world_state(&w, 4), "PENDING");
	world_check_stream(&w, 1);
}
END_TEST

/* One bucket for all of them let any of them use up what the others may hand in. */
START_TEST(each_caller_of_any_has_a_rate_of_its_own) /* proves SA-06 */
{
	begin_with("[caller *]\ncapabilities = *\nrate_limit = 1/h\nrate_burst = 2\n");
	ck_assert_int_eq(submit("gamma", 5, ""), 2);
	ck_assert_str_eq(last_code(), "rate_limited");
	ck_assert_int_eq(submit("delta", 5, ""), 2);
	ck_assert_int_eq(submit("gamma", 1, ""), 0);
	core_reload(&w.core); /* it outlives a reload */
	ck_assert_int_eq(submit("delta", 1, ""), 0);
}
END_TEST

/* Each of them costs a message, rows of the store and of the audit, and maybe a check of a schema. */
START_TEST(tasks_that_are_rejected_count_against_the_rate) /* proves SA-06 */
{
	static const char *const bad[] = {",\"constraints\":{\"checkpoint\":\"none\"}",
		",\"constraints\":{\"max_duration\":5}", ",\"constraints\":{\"data_classification\":\"T4\"}"};
	int64_t audited;

	begin_with("[caller gamma]\ncapabilities = *\nrate_limit = 1/min\nrate_burst = 3\n");
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(submit("gamma", 1, bad[_i]), 0);
		ck_assert_str_ne(last_code(), "rate_limited");
	}
	audited = world_count(&w, "SELECT count(*) FROM audit", NULL);
	ck_assert_int_eq(submit("gamma", 100, bad[_i]), 0);
	ck_assert_str_eq(last_code(), "rate_limited");
	ck_assert_int_eq(submit("gamma", 1, ""), 0);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM audit", NULL), audited + 1);
	world_pass(&w, 61 * SECONDS);
	ck_assert_int_eq(submit("gamma", 2, ""), 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fairness");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, backlog_keeps_a_share_for_callers_with_nothing_waiting);
	tcase_add_test(t, a_small_backlog_has_one_more_place);
	tcase_add_test(t, a_caller_has_a_max_pending_of_its_own);
	tcase_add_test(t, a_caller_at_max_running_waits_and_others_start);
	tcase_add_test(t, a_priority_above_the_limit_is_lowered_and_said);
	tcase_add_test(t, each_caller_of_any_has_a_rate_of_its_own);
	tcase_add_loop_test(t, tasks_that_are_rejected_count_against_the_rate, 0, 3);
	suite_add_tcase(s, t);
	return world_main(s);
}
