/* SPDX-License-Identifier: MIT */
/* test_rate.c: so many a time, with a burst. */
#include "base/rate.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S INT64_C(1000000)
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const struct {
	const char *text;
	bool good;
	int64_t count, period_us;
} texts[] = {
	{"60/min", true, 60, 60 * S},
	{"1/s", true, 1, S},
	{"1000/h", true, 1000, 3600 * S},
	{"5/d", true, 5, 86400 * S},
	{"10 / min", true, 10, 60 * S},
	{"1000000/s", true, 1000000, S},
	{"off", true, 0, 0},
	{"", false, 0, 0},
	{"60", false, 0, 0},
	{"0/min", false, 0, 0},
	{"-1/s", false, 0, 0},
	{"1000001/s", false, 0, 0},
	{"60/m", false, 0, 0},
	{"60/minute", false, 0, 0},
	{"60/", false, 0, 0},
	{"/min", false, 0, 0},
	{"1.5/s", false, 0, 0},
	{" 1/s", false, 0, 0},
	{"1/s ", false, 0, 0},
	{"99999999999999999999/s", false, 0, 0},
	{"no", false, 0, 0},
};

START_TEST(a_limit_is_written_as_a_number_and_a_time)
{
	struct rate_limit limit = {.burst = 3};

	ck_assert_int_eq(rate_parse(texts[_i].text, &limit), texts[_i].good);
	ck_assert_int_eq(limit.burst, 3);
	if (texts[_i].good)
		ck_assert(limit.count == texts[_i].count && limit.period_us == texts[_i].period_us);
}
END_TEST

START_TEST(a_burst_passes_and_then_one_at_a_time) /* proves SA-06 */
{
	const struct rate_limit limit = {60, 60 * S, 3};
	struct rate rate = {0};
	int64_t now = 1000 * S;

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rate_wait_us(&limit, &rate, now), 0);
		rate_take(&limit, &rate, now);
	}
	ck_assert_int_eq(rate_wait_us(&limit, &rate, now), S);
	ck_assert_int_eq(rate_wait_us(&limit, &rate, now + S - 1), 1);
	ck_assert_int_eq(rate_wait_us(&limit, &rate, now + S), 0);
	rate_take(&limit, &rate, now + S);
	ck_assert_int_eq(rate_wait_us(&limit, &rate, now + S), S);
	ck_assert_int_eq(rate_wait_us(&limit, &rate, now + 4 * S), 0); /* rested: three again */
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rate_wait_us(&limit, &rate, now + 100 * S), 0);
		rate_take(&limit, &rate, now + 100 * S);
	}
	ck_assert_int_eq(rate_wait_us(&limit, &rate, now + 100 * S), S);
}
END_TEST

START_TEST(looking_changes_nothing)
{
	const struct rate_limit limit = {1, S, 1};
	struct rate rate = {0};

	rate_take(&limit, &rate, 5 * S);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(rate_wait_us(&limit, &rate, 5 * S), S);
}
END_TEST

START_TEST(without_a_limit_nobody_waits)
{
	const struct rate_limit limit = {0, 0, 1};
	struct rate rate = {0};

	for (int i = 0; i < 1000; i++) {
		ck_assert_int_eq(rate_wait_us(&limit, &rate, 0), 0);
		rate_take(&limit, &rate, 0);
	}
	ck_assert_int_eq(rate_wait_us(&(struct rate_limit){1, S, 1}, NULL, 0), 0);
}
END_TEST

/* Whoever comes exactly when he was told is let in, and over a long time no more than the limit and a
 * burst are. */
START_TEST(caller_that_waits_as_told_is_let_in_up_to_the_limit) /* proves SA-06 */
{
	static const struct rate_limit limits[] = {
		{60, 60 * S, 1}, {7, S, 3}, {1000000, S, 10}, {999, 3600 * S, 10000}, {1, 86400 * S, 1}};
	const struct rate_limit *limit = &limits[_i];
	struct rate rate = {0};
	int64_t now = 123456789, began = now, let_in = 0;

	for (int i = 0; i < 20000; i++) {
		int64_t wait = rate_wait_us(limit, &rate, now);

		ck_assert_int_ge(wait, 0);
		if (wait > 0) {
			ck_assert_int_gt(rate_wait_us(limit, &rate, now + wait - 1), 0);
			now += wait;
			ck_assert_int_eq(rate_wait_us(limit, &rate, now), 0);
		}
		rate_take(limit, &rate, now);
		let_in++;
	}
	ck_assert_int_le((let_in - limit->burst - 1) * limit->period_us / limit->count, now - began);
}
END_TEST

START_TEST(a_new_limit_is_not_paid_for_with_old_debts)
{
	const struct rate_limit slow = {1, 86400 * S, 1}, fast = {10, S, 1};
	struct rate rate = {0};

	rate_take(&slow, &rate, 0);
	ck_assert_int_eq(rate_wait_us(&slow, &rate, 0), 86400 * S);
	ck_assert_int_eq(rate_wait_us(&fast, &rate, 0), S / 10);
}
END_TEST

START_TEST(each_name_has_a_bucket_of_its_own) /* proves SA-06 */
{
	struct rates rates = {0};
	struct rate *a = rates_get(&rates, "a", false, 0);

	a->full_at_ns = 5;
	ck_assert_int_eq(rates_get(&rates, "b", true, 0)->full_at_ns, 0);
	for (int i = 0; i < 500; i++) {
		char name[16];

		snprintf(name, sizeof name, "n%d", i);
		rates_get(&rates, name, true, 0)->full_at_ns = i;
	}
	ck_assert_ptr_eq(rates_get(&rates, "a", false, 0), a);
	ck_assert_ptr_eq(rates_find(&rates, "a", true), a);
	ck_assert_int_eq(rates_find(&rates, "n77", true)->full_at_ns, 77);
	ck_assert_ptr_null(rates_find(&rates, "never", true)); /* looking makes none */
	rates_fini(&rates);
}
END_TEST

START_TEST(names_that_anybody_can_make_up_take_bounded_room) /* proves SA-06 */
{
	const struct rate_limit limit = {1, 3600 * S, 1};
	struct rates rates = {0};
	struct rate *own = rates_get(&rates, "own", false, 0), *shared;
	char name[16];

	rate_take(&limit, own, 0);
	for (int i = 0; i < 200000; i++) { /* each one in debt for an hour */
		snprintf(name, sizeof name, "n%d", i);
		rate_take(&limit, rates_get(&rates, name, true, 1), 1);
	}
	ck_assert_uint_le(rates_count(&rates), 65538);
	ck_assert_int_gt(rate_wait_us(&limit, rates_find(&rates, "n5", true), 2), 0);
	/* the rest share one: whoever is one too many is not let in for that */
	shared = rates_get(&rates, "n199999", true, 2);
	ck_assert_ptr_eq(shared, rates_find(&rates, "n150000", true));
	ck_assert_int_gt(rate_wait_us(&limit, shared, 2), 0);
	/* and a caller with a section of its own still has a bucket of its own */
	ck_assert_int_eq(rate_wait_us(&limit, rates_get(&rates, "other", false, 2), 2), 0);
	/* full ones go */
	(void)rates_get(&rates, "later", true, 4000 * S);
	ck_assert_uint_le(rates_count(&rates), 2);
	rates_fini(&rates);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rate");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, a_limit_is_written_as_a_number_and_a_time, 0, COUNT(texts));
	tcase_add_test(t, a_burst_passes_and_then_one_at_a_time);
	tcase_add_test(t, looking_changes_nothing);
	tcase_add_test(t, without_a_limit_nobody_waits);
	tcase_add_loop_test(t, caller_that_waits_as_told_is_let_in_up_to_the_limit, 0, 5);
	tcase_add_test(t, a_new_limit_is_not_paid_for_with_old_debts);
	tcase_add_test(t, each_name_has_a_bucket_of_its_own);
	tcase_add_test(t, names_that_anybody_can_make_up_take_bounded_room);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
