/* SPDX-License-Identifier: MIT */
/* test_timer.c: deadlines fire once, in order, and only while they are set. */
#include "base/timer.h"

#include <check.h>
#include <stdlib.h>

#define MANY 2000

static struct timers ts;
static struct timer many[MANY];
static int64_t fired_at[4 * MANY];
static struct timer *fired[4 * MANY];
static int fired_count;

static void note(struct timer *t)
{
	fired_at[fired_count] = t->at_us;
	fired[fired_count++] = t;
	ck_assert(!timer_is_set(t));
}

static void setup(void)
{
	ts = (struct timers){0};
	fired_count = 0;
	for (int i = 0; i < MANY; i++)
		many[i] = (struct timer){.on_due = note};
}

static void teardown(void)
{
	timers_fini(&ts);
}

START_TEST(nothing_is_due_in_an_empty_heap)
{
	ck_assert_int_eq(timers_next_us(&ts), INT64_MAX);
	timers_run(&ts, INT64_MAX);
	timer_cancel(&ts, &many[0]);
	ck_assert_int_eq(fired_count, 0);
}
END_TEST

START_TEST(a_timer_fires_at_its_time_and_not_before_and_once)
{
	timer_set(&ts, &many[0], 100);
	ck_assert(timer_is_set(&many[0]));
	ck_assert_int_eq(timers_next_us(&ts), 100);
	timers_run(&ts, 99);
	ck_assert_int_eq(fired_count, 0);
	timers_run(&ts, 100);
	timers_run(&ts, 101);
	ck_assert_int_eq(fired_count, 1);
	ck_assert_int_eq(timers_next_us(&ts), INT64_MAX);
}
END_TEST

START_TEST(setting_again_moves_it)
{
	timer_set(&ts, &many[0], 100);
	timer_set(&ts, &many[1], 150);
	timer_set(&ts, &many[0], 200);
	ck_assert_int_eq(timers_next_us(&ts), 150);
	timer_set(&ts, &many[0], 50);
	ck_assert_int_eq(timers_next_us(&ts), 50);
	timers_run(&ts, 50);
	ck_assert_int_eq(fired_count, 1);
	ck_assert_ptr_eq(fired[0], &many[0]);
}
END_TEST

/* Against a plain array: set, move, cancel and run at random. */
START_TEST(random_use_agrees_with_a_simple_model)
{
	static int64_t model[MANY]; /* 0: not set */
	int64_t now = 1;
	int wrong = 0; /* a check a timer a step would cost seconds */

	srandom(7);
	for (int i = 0; i < MANY; i++)
		model[i] = 0;
	for (int step = 0; step < 60000; step++) {
		int i = (int)(random() % MANY), what = (int)(random() % 10);
		int64_t next = INT64_MAX;

		if (what < 6) {
			model[i] = now + random() % 1000;
			timer_set(&ts, &many[i], model[i]);
		} else if (what < 9) {
			model[i] = 0;
			timer_cancel(&ts, &many[i]);
		} else if (random() % 20 == 0) {
			int expected = 0;

			now += random() % 500;
			fired_count = 0;
			timers_run(&ts, now);
			for (int k = 0; k < MANY; k++) {
				if (model[k] == 0 || model[k] > now)
					continue;
				expected++;
				model[k] = 0;
				ck_assert(!timer_is_set(&many[k]));
			}
			ck_assert_int_eq(fired_count, expected);
			for (int k = 1; k < fired_count; k++)
				ck_assert_int_le(fired_at[k - 1], fired_at[k]);
		}
		if (step % 100 != 0)
			continue;
		for (int k = 0; k < MANY; k++) {
			wrong += timer_is_set(&many[k]) != (model[k] != 0);
			if (model[k] != 0 && model[k] < next)
				next = model[k];
		}
		ck_assert_int_eq(wrong, 0);
		ck_assert_int_eq(timers_next_us(&ts), next);
	}
}
END_TEST

static void set_again_now(struct timer *t)
{
	note(t);
	timer_set(&ts, t, 1);
}

START_TEST(callback_that_sets_its_timer_to_the_past_hangs_nothing)
{
	many[0].on_due = set_again_now;
	timer_set(&ts, &many[0], 10);
	timer_set(&ts, &many[1], 20);
	timers_run(&ts, 30);
	ck_assert_int_eq(fired_count, 2); /* the other one came too */
	ck_assert_int_eq(timers_next_us(&ts), 1);
	timers_run(&ts, 30);
	ck_assert_int_eq(fired_count, 3); /* the same time will do: it only waits for the next call */
}
END_TEST

static void cancel_next(struct timer *t)
{
	note(t);
	timer_cancel(&ts, t + 1);
	timer_set(&ts, t + 2, 1000);
	timer_set(&ts, t + 3, 5);
}

START_TEST(a_callback_may_cancel_and_move_timers_that_are_due_too)
{
	for (int i = 0; i < 5; i++)
		timer_set(&ts, &many[i], 10 + i);
	many[0].on_due = cancel_next;
	timers_run(&ts, 100);
	ck_assert_int_eq(fired_count, 2); /* 0 and 4 */
	ck_assert_ptr_eq(fired[1], &many[4]);
	ck_assert(!timer_is_set(&many[1]));
	ck_assert_int_eq(timers_next_us(&ts), 5);
	timers_run(&ts, 100);
	ck_assert_ptr_eq(fired[2], &many[3]);
	timers_run(&ts, 1000);
	ck_assert_ptr_eq(fired[3], &many[2]);
	ck_assert_int_eq(fired_count, 4);
}
END_TEST

struct owner {
	int before;
	struct timer timer;
};
static struct owner *seen;

static void free_owner(struct timer *t)
{
	seen = container_of(t, struct owner, timer);
	free(seen);
}

START_TEST(a_callback_may_free_the_owner)
{
	struct owner *o = calloc(1, sizeof(*o));

	o->timer.on_due = free_owner;
	timer_set(&ts, &o->timer, 1);
	timers_run(&ts, 1);
	ck_assert_ptr_eq(seen, o);
}
END_TEST

START_TEST(ending_the_heap_unsets_its_timers)
{
	timer_set(&ts, &many[0], 1);
	timers_fini(&ts);
	ck_assert(!timer_is_set(&many[0]));
	timer_set(&ts, &many[0], 2); /* and it can be used anew */
	ck_assert_int_eq(timers_next_us(&ts), 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timer");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, nothing_is_due_in_an_empty_heap);
	tcase_add_test(t, a_timer_fires_at_its_time_and_not_before_and_once);
	tcase_add_test(t, setting_again_moves_it);
	tcase_add_test(t, random_use_agrees_with_a_simple_model);
	tcase_add_test(t, callback_that_sets_its_timer_to_the_past_hangs_nothing);
	tcase_add_test(t, a_callback_may_cancel_and_move_timers_that_are_due_too);
	tcase_add_test(t, a_callback_may_free_the_owner);
	tcase_add_test(t, ending_the_heap_unsets_its_timers);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
