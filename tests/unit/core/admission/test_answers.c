/* SPDX-License-Identifier: MIT */
/* test_answers.c: rejections without a session: how many are remembered, and when their rows go. */
#include "support/fakes/fake_world.h"

#include "core/admission/answers.h"

#define MOST 20

static struct world w;

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	w.core.answers.most = MOST;
}

static void teardown(void)
{
	world_fini(&w);
}

static int64_t answers(void)
{
	return world_count(&w, "SELECT count(*) FROM events WHERE session IS NULL", NULL);
}

static int64_t submits(void)
{
	return world_count(&w, "SELECT count(*) FROM submits", NULL);
}

static void submit_one(int i)
{
	char id[16];

	snprintf(id, sizeof id, "m%d", i);
	world_submit(&w, id, "nothing-here");
	world_run(&w);
}

/* One a second: the watermark of one is stored before the next. */
static void submit(int from, int count)
{
	for (int i = from; i < from + count; i++) {
		submit_one(i);
		world_pass(&w, SECONDS);
	}
}

/* How many different answers a submit has got. */
static int said(int i)
{
	char reply[32];

	snprintf(reply, sizeof reply, "\"in_reply_to\":\"m%d\"", i);
	return world_said(&w, reply);
}

START_TEST(answers_beyond_the_bound_go_the_oldest_first) /* proves L1-06 SA-06 */
{
	submit(0, 10 * MOST);
	ck_assert_int_le(answers(), MOST + 2);
	ck_assert_int_le(submits(), MOST + 2);
	submit(10 * MOST - 1, 1); /* remembered: the same answer */
	ck_assert_int_eq(said(10 * MOST - 1), 1);
	submit(0, 1); /* forgotten: decided again */
	ck_assert_int_eq(said(0), 2);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 0);
	ck_assert_uint_eq(w.core.stats.duplicates, 1);
}
END_TEST

START_TEST(answers_in_one_turn_are_bounded_in_the_next) /* proves SA-06 */
{
	char id[16];

	submit(1000, MOST);
	for (int i = 0; i < 10 * MOST; i++) {
		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, "nothing-here");
	}
	world_run(&w);
	world_pass(&w, 600 * SECONDS);
	ck_assert_int_le(answers(), MOST + 2);
	ck_assert_int_le(submits(), MOST + 2);
	for (int i = 0; i < 10 * MOST; i++)
		ck_assert_int_eq(said(i), 1);
}
END_TEST

START_TEST(answers_that_repeat_and_go_in_one_turn_are_said_again) /* proves L1-06 */
{
	size_t sent;

	submit(0, MOST);
	for (int i = MOST; i < 3 * MOST; i++) {
		char old[16], new[16];

		sent = w.bus.sent_count;
		snprintf(old, sizeof old, "m%d", i - MOST);
		snprintf(new, sizeof new, "m%d", i);
		if (i % 2 == 0)
			world_submit(&w, old, "nothing-here");
		world_submit(&w, new, "nothing-here"); /* the old one is forgotten in this turn */
		if (i % 2 == 1)
			world_submit(&w, old, "nothing-here");
		world_run(&w);
		world_pass(&w, SECONDS);
		ck_assert_uint_eq(w.bus.sent_count, sent + 2);
		ck_assert_int_eq(said(i - MOST), 1);
	}
}
END_TEST

START_TEST(answers_go_after_their_window_without_a_grace) /* proves SA-06 */
{
	w.core.policy->config->dedup_window_us = 3600 * SECONDS;
	submit(0, 10);
	world_pass(&w, 3000 * SECONDS);
	ck_assert_int_eq(answers(), 10);
	world_pass(&w, 1200 * SECONDS);
	ck_assert_int_eq(submits(), 0);
	ck_assert_int_eq(answers(), 0);
	ck_assert_int_eq(w.core.answers.count, 0);
}
END_TEST

START_TEST(answers_that_the_broker_has_not_stay) /* proves L1-10 */
{
	w.broker_is_slow = true;
	submit(0, 2 * MOST);
	ck_assert_int_eq(answers(), 2 * MOST);
	world_pass(&w, 60 * SECONDS);
	world_crash(&w);
	w.core.answers.most = MOST;
	w.broker_is_slow = true;
	world_pass(&w, 60 * SECONDS);
	ck_assert_int_eq(answers(), 2 * MOST);
	w.broker_is_slow = false;
	fake_bus_settle_all(&w.bus, BUS_CONFIRMED);
	world_pass(&w, 100 * SECONDS);
	ck_assert_int_le(answers(), MOST);
	for (int i = 0; i < 2 * MOST; i++)
		ck_assert_int_eq(said(i), 1);
}
END_TEST

START_TEST(answers_that_no_queue_takes_are_bounded_too) /* proves SA-06 */
{
	w.broker_is_slow = true;
	for (int i = 0; i < 5 * MOST; i++) {
		submit_one(i);
		fake_bus_settle_all(&w.bus, BUS_UNROUTABLE);
		world_pass(&w, SECONDS);
	}
	ck_assert_int_ge(answers(), MOST);
	ck_assert_int_le(answers(), MOST + 2);
	ck_assert_int_le(world_count(&w, "SELECT count(*) FROM unroutable", NULL), MOST + 2);
}
END_TEST

START_TEST(answers_to_strangers_leave_no_row) /* proves SA-06 */
{
	char name[24];
	int64_t last;

	submit(0, 2);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof name, "stranger-%d", i);
		world_submit_as(&w, name, "mallory", "m1", "work", "");
		world_run(&w);
	}
	last = world_count(&w, "SELECT value FROM meta WHERE key = 'last_event'", NULL);
	ck_assert_int_ge(last, 51);
	ck_assert_int_eq(answers(), 2);
	world_crash(&w);
	world_run(&w);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM callers", NULL), 1);
	submit(2, 1); /* the number of a row that is gone is not given out again */
	ck_assert_int_gt(world_count(&w, "SELECT max(id) FROM events", NULL), last);
	ck_assert_int_eq(said(2), 1);
}
END_TEST

START_TEST(a_made_up_name_leaves_with_its_last_answer) /* proves SA-06 */
{
	char name[24];

	world_fini(&w);
	world_init(&w, "[caller *]\ncapabilities = *\n");
	world_begin(&w);
	for (int i = 0; i < MOST; i++) {
		snprintf(name, sizeof name, "made-up-%d", i);
		world_submit_as(&w, name, NULL, "m1", "nothing-here", "");
		world_run(&w);
		world_pass(&w, SECONDS);
	}
	world_crash(&w); /* a name that memory has stays longer */
	w.core.answers.most = MOST;
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM callers", NULL), MOST);
	submit(0, 3 * MOST);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM callers", NULL), 1);
	world_crash(&w);
	/* a name that comes back is a new one, and no row is taken for the other's */
	world_submit_as(&w, "made-up-3", NULL, "m1", "nothing-here", "");
	world_run(&w);
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM events JOIN callers ON callers.id = caller"
				 " WHERE caller_id = 'made-up-3'",
				 NULL),
		1);
	ck_assert_int_gt(
		world_count(&w, "SELECT id FROM callers WHERE caller_id = 'made-up-3'", NULL), MOST + 1);
}
END_TEST

START_TEST(answers_of_rejected_sessions_are_left_alone)
{
	submit(0, 1);
	world_exec(&w, "UPDATE events SET session = 77 WHERE session IS NULL");
	world_exec(&w, "UPDATE submits SET session = 77");
	submit(1, 5 * MOST);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE session = 77", NULL), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits WHERE session = 77", NULL), 1);
}
END_TEST

START_TEST(answers_of_the_run_before_count) /* proves SA-06 */
{
	submit(0, MOST);
	world_crash(&w);
	ck_assert_int_eq(w.core.answers.count, MOST);
	w.core.answers.most = MOST;
	submit(MOST, MOST);
	ck_assert_int_le(answers(), MOST + 2);
	submit(0, 1);
	ck_assert_int_eq(said(0), 2);
}
END_TEST

START_TEST(answers_without_end_take_no_more_of_the_file) /* proves SA-06 */
{
	int64_t pages;

	submit(0, 5 * MOST);
	pages = world_count(&w, "PRAGMA page_count", NULL);
	for (int i = 5 * MOST; i < 100 * MOST; i++) {
		submit_one(i);
		if (i % 5 == 0)
			world_pass(&w, SECONDS / 4);
	}
	ck_assert_int_le(answers(), MOST + 10);
	/* the audit alone grows, by the minute */
	ck_assert_int_le(world_count(&w, "PRAGMA page_count", NULL), pages + 60);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("answers");
	TCase *t = tcase_create("answers");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, answers_beyond_the_bound_go_the_oldest_first);
	tcase_add_test(t, answers_in_one_turn_are_bounded_in_the_next);
	tcase_add_test(t, answers_that_repeat_and_go_in_one_turn_are_said_again);
	tcase_add_test(t, answers_go_after_their_window_without_a_grace);
	tcase_add_test(t, answers_that_the_broker_has_not_stay);
	tcase_add_test(t, answers_that_no_queue_takes_are_bounded_too);
	tcase_add_test(t, answers_to_strangers_leave_no_row);
	tcase_add_test(t, a_made_up_name_leaves_with_its_last_answer);
	tcase_add_test(t, answers_of_rejected_sessions_are_left_alone);
	tcase_add_test(t, answers_of_the_run_before_count);
	tcase_add_test(t, answers_without_end_take_no_more_of_the_file);
	suite_add_tcase(s, t);
	return world_main(s);
}
