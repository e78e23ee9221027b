/* SPDX-License-Identifier: MIT */
/* test_outbox.c: messages go out after the commit, in order, a window at a time, and again until
 * confirmed. */
#include "support/fakes/fake_post.h"

#include <malloc.h>

#include "outbox/outbox_private.h" /* how much it has in memory is nobody else's business */

static struct post p;

static void setup(void)
{
	post_init(&p, 10);
}

static void teardown(void)
{
	post_fini(&p);
}

START_TEST(nothing_goes_out_before_the_commit_is_released)
{
	post_up(&p);
	post_put(&p, "alpha", 3);
	outbox_pump(p.ob);
	ck_assert_uint_eq(p.bus.sent_count, 0);
	ck_assert_int_eq(store_run(p.store), 0);
	outbox_pump(p.ob);
	ck_assert_uint_eq(p.bus.sent_count, 0);
	outbox_release(p.ob);
	outbox_pump(p.ob);
	ck_assert_uint_eq(p.bus.sent_count, 3);
}
END_TEST

START_TEST(nothing_goes_out_while_the_connection_is_down) /* proves L1-10 */
{
	post_put(&p, "alpha", 3);
	post_turn(&p);
	ck_assert_uint_eq(p.bus.sent_count, 0);
	post_up(&p);
	post_expect(&p, 3, 0);
}
END_TEST

START_TEST(key_and_properties_mirror_the_body) /* proves L1-02 L1-04 */
{
	const struct fake_sent *s = NULL;
	struct message_head head;

	post_up(&p);
	post_put(&p, "al:pha_1-x", 1);
	post_put_type(&p, "al:pha_1-x", SESSION_ID, "task_completed");
	post_turn(&p);
	ck_assert_str_eq(p.bus.sent[0].key, "al:pha_1-x." SESSION_ID ".event");
	ck_assert_str_eq(p.bus.sent[1].key, "al:pha_1-x." SESSION_ID ".task_completed");
	for (size_t i = 0; i < 2; i++) {
		s = &p.bus.sent[i];
		ck_assert(message_peek(s->body, s->size, &head));
		ck_assert_str_eq(s->message_id, head.message_id);
		ck_assert_int_eq(s->timestamp_s, fake_wall_us / 1000000);
		ck_assert_str_eq(s->correlation_id, SESSION_ID);
	}
	ck_assert_str_eq(s->type, "task_completed");
}
END_TEST

START_TEST(message_without_a_session_has_a_dash_and_no_correlation_id) /* proves L1-04 L1-01 */
{
	struct outbox_stats st;

	post_up(&p);
	post_put_type(&p, "alpha", NULL, "task_rejected");
	post_turn(&p);
	ck_assert_str_eq(p.bus.sent[0].key, "alpha.-.task_rejected");
	ck_assert_str_eq(p.bus.sent[0].correlation_id, "");
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.in_flight, 1);
}
END_TEST

START_TEST(the_window_is_bounded_in_messages_and_the_order_is_kept) /* proves L1-07 */
{
	post_up(&p);
	post_put(&p, "alpha", 100);
	post_turn(&p);
	post_expect(&p, 10, 0);
	fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	post_turn(&p);
	post_expect(&p, 10, 2);
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 100);
	post_expect_sent(&p, 0, 0);
	ck_assert_uint_eq(p.bus.most_in_flight, 10);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(the_window_is_bounded_in_bytes)
{
	p.padding = 100000;
	post_fini(&p);
	post_init(&p, 1000);
	p.padding = 100000;
	post_up(&p);
	post_put(&p, "alpha", 40);
	post_turn(&p);
	ck_assert_uint_ge(p.bus.flight_count, 10);
	ck_assert_uint_le(p.bus.flight_count, 11); /* 1 MiB, and the one that crosses it */
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 40);
	post_expect_sent(&p, 0, 0);
}
END_TEST

START_TEST(confirms_out_of_order_advance_the_watermark_without_holes)
{
	post_up(&p);
	post_put(&p, "alpha", 5);
	post_turn(&p);
	fake_bus_settle_at(&p.bus, 3, BUS_CONFIRMED);
	fake_bus_settle_at(&p.bus, 1, BUS_CONFIRMED);
	post_turn(&p);
	if (outbox_unsaved(p.ob) > 0)
		outbox_save(p.ob);
	ck_assert_int_eq(store_run(p.store), 0);
	ck_assert_int_eq(post_ask(&p, "SELECT confirmed FROM callers"), 0);
	fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	post_turn(&p);
	ck_assert_uint_gt(outbox_unsaved(p.ob), 0);
	outbox_save(p.ob);
	ck_assert_uint_eq(outbox_unsaved(p.ob), 0);
	ck_assert_int_eq(store_run(p.store), 0);
	ck_assert_int_eq(post_ask(&p, "SELECT confirmed FROM callers"), 2);
}
END_TEST

START_TEST(the_watermark_is_lazy_and_rides_on_the_next_batch)
{
	post_up(&p);
	post_put(&p, "alpha", 2);
	post_turn(&p);
	post_settle(&p, BUS_CONFIRMED);
	ck_assert(!store_has_batch(p.store));
	ck_assert_uint_gt(outbox_unsaved(p.ob), 0);
	ck_assert_int_eq(post_ask(&p, "SELECT confirmed FROM callers"), 0);
	post_put(&p, "beta", 1);
	post_turn(&p);
	ck_assert_int_eq(post_ask(&p, "SELECT confirmed FROM callers WHERE caller_id = 'alpha'"), 2);
}
END_TEST

START_TEST(a_restart_publishes_exactly_what_was_not_confirmed) /* proves L1-07 L1-10 */
{
	char *bodies[6];

	post_up(&p);
	post_put(&p, "alpha", 10);
	post_turn(&p);
	for (int i = 0; i < 4; i++)
		fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	post_turn(&p);
	outbox_save(p.ob);
	ck_assert_int_eq(store_run(p.store), 0);
	for (int i = 0; i < 6; i++)
		bodies[i] = xstrdup(p.bus.sent[4 + i].body);
	post_close(&p);
	post_open(&p);
	post_up(&p);
	post_expect(&p, 6, 4);
	for (int i = 0; i < 6; i++) {
		ck_assert_str_eq(p.bus.sent[i].body, bodies[i]);
		free(bodies[i]);
	}
	ck_assert_int_gt(p.backlog_bytes, 0);
	post_drain(&p);
	ck_assert_int_eq(p.settled_bytes, p.backlog_bytes);
	ck_assert_uint_eq(p.bus.sent_count, 6);
	ck_assert(outbox_is_empty(p.ob));
	post_put(&p, "alpha", 1); /* and goes on behind them */
	post_turn(&p);
	post_expect(&p, 1, 10);
}
END_TEST

START_TEST(crash_before_the_watermark_publishes_the_same_bytes_again) /* proves L1-07 */
{
	post_up(&p);
	post_put(&p, "alpha", 3);
	post_turn(&p);
	post_settle(&p, BUS_CONFIRMED);
	post_close(&p);
	post_open(&p);
	post_up(&p);
	post_expect(&p, 3, 0);
}
END_TEST

START_TEST(lost_messages_go_again_in_order) /* proves L1-07 L1-10 */
{
	post_up(&p);
	post_put(&p, "alpha", 25);
	post_turn(&p);
	fake_bus_settle_at(&p.bus, 4, BUS_CONFIRMED);
	post_turn(&p);
	post_down(&p, 0);
	ck_assert_uint_eq(p.bus.flight_count, 0);
	post_put(&p, "alpha", 5);
	post_turn(&p);
	post_up(&p);
	ck_assert_int_eq(post_flying(&p, 0), 0);
	ck_assert_int_eq(post_flying(&p, 3), 3);
	ck_assert_int_eq(post_flying(&p, 4), 5); /* 4 was confirmed */
	ck_assert_uint_eq(p.bus.flight_count, 10);
	post_drain(&p);
	ck_assert_int_eq(post_number(&p.bus.sent[p.bus.sent_count - 1]), 29);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(many_losses_lose_nothing) /* proves L1-10 */
{
	bool got[200] = {false};
	int last = -1;

	post_put(&p, "alpha", 200);
	post_turn(&p);
	for (int round = 0; round < 300 && !outbox_is_empty(p.ob); round++) {
		post_up(&p);
		for (int i = 0; i < round % 7 && p.bus.flight_count > 0; i++)
			fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
		post_turn(&p);
		post_down(&p, round % 3 == 0 ? 320 : 0);
	}
	ck_assert(outbox_is_empty(p.ob));
	for (size_t i = 0; i < p.bus.sent_count; i++) {
		int n = post_number(&p.bus.sent[i]);

		ck_assert_int_le(n, last + 1 > 0 ? last + 10 : 10);
		last = n;
		got[n] |= p.bus.sent[i].status == BUS_CONFIRMED;
	}
	for (int i = 0; i < 200; i++)
		ck_assert(got[i]);
}
END_TEST

/* 20,000 events of 2 KiB are 40 MiB; the outbox may have about 8 MiB of bodies in memory. */
START_TEST(a_long_outage_costs_bounded_memory_and_all_come_out_in_order) /* proves L1-10 */
{
	size_t before = mallinfo2().uordblks;
	struct outbox_stats st;

	post_fini(&p);
	post_init(&p, 500);
	p.padding = 2000;
	for (int i = 0; i < 40; i++) {
		post_put(&p, "alpha", 500);
		post_turn(&p);
	}
	ck_assert_uint_lt(mallinfo2().uordblks, before + (20 << 20));
	outbox_get_stats(p.ob, &st);
	ck_assert_int_gt(st.waiting_bytes, 40000000);
	post_up(&p);
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 20000);
	post_expect_sent(&p, 0, 0);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

/* What the outbox says it may hold: 8 MiB, and one row of each caller. */
#define MEMORY_BOUND(rows) ((8 << 20) + (rows)*INT64_C(1001000))
enum { LARGE_ROWS = 60 };

static void put_large_rows(void)
{
	post_fini(&p);
	post_init(&p, 100);
	p.padding = 1000000;
	p.bus.most_copied = 512;
	for (int i = 0; i < LARGE_ROWS; i++) {
		post_put(&p, "alpha", 1);
		post_put(&p, "beta", 1);
		post_turn(&p);
	}
}

/* The broker does the same with everything, and the outbox keeps within its bound all the while. */
static void settle_all_bounded(enum bus_status status)
{
	while (p.bus.flight_count > 0) {
		ck_assert_int_le(p.ob->memory_bytes, MEMORY_BOUND(3)); /* two, and the one that crosses it */
		post_settle(&p, status);
	}
}

/* LOAD_ROWS is a number of rows; a row may have a megabyte. */
START_TEST(large_rows_are_loaded_few_at_a_time_and_in_order)
{
	int next[2] = {0, 1};

	put_large_rows();
	post_close(&p);
	post_open(&p);
	p.bus.most_copied = 512;
	post_up(&p);
	settle_all_bounded(BUS_CONFIRMED);
	ck_assert(outbox_is_empty(p.ob));
	ck_assert_int_eq(p.ob->memory_bytes, 0);
	ck_assert_uint_eq(p.bus.sent_count, 2 * LARGE_ROWS);
	for (size_t i = 0; i < p.bus.sent_count; i++) {
		int n = post_number(&p.bus.sent[i]);

		ck_assert_int_eq(n, next[n % 2]);
		next[n % 2] += 2;
	}
}
END_TEST

START_TEST(large_rows_that_nobody_took_are_loaded_few_at_a_time)
{
	put_large_rows();
	post_up(&p);
	settle_all_bounded(BUS_UNROUTABLE);
	ck_assert_int_eq(p.ob->memory_bytes, 0);
	for (int i = 0; i < 100; i++) {
		post_pass(&p, 1 * SECONDS);
		settle_all_bounded(BUS_CONFIRMED);
	}
	post_turn(&p);
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM unroutable"), 0);
	ck_assert_int_eq(p.ob->memory_bytes, 0);
}
END_TEST

START_TEST(messages_queue_behind_while_their_caller_lags)
{
	post_fini(&p);
	post_init(&p, 100);
	post_put(&p, "alpha", 6000); /* more than a line holds */
	post_turn(&p);
	post_up(&p);
	for (int i = 0; i < 30; i++) {
		post_put(&p, "alpha", 10);
		post_settle(&p, BUS_CONFIRMED);
	}
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 6300);
	post_expect_sent(&p, 0, 0);
}
END_TEST

START_TEST(a_restart_while_lagging_goes_on_in_order)
{
	post_put(&p, "alpha", 3000);
	post_turn(&p);
	post_close(&p);
	post_open(&p);
	post_up(&p);
	for (int i = 0; i < 50; i++)
		post_settle(&p, BUS_CONFIRMED);
	outbox_save(p.ob);
	ck_assert_int_eq(store_run(p.store), 0);
	post_close(&p);
	post_open(&p);
	post_up(&p);
	post_drain(&p);
	post_expect_sent(&p, 0, 500);
	ck_assert_uint_eq(p.bus.sent_count, 2500);
}
END_TEST

START_TEST(nobodys_backlog_is_in_anybodys_way) /* proves L1-21 */
{
	int rounds = 0;
	bool out = false;

	post_put(&p, "alpha", 1000);
	post_turn(&p);
	post_up(&p);
	post_put(&p, "beta", 1);
	post_turn(&p);
	while (p.bus.flight_count > 0 && !out) {
		fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED); /* one slot after another gets free */
		post_turn(&p);
		rounds++;
		out = strncmp(p.bus.sent[p.bus.sent_count - 1].key, "beta.", 5) == 0;
	}
	ck_assert(out);
	ck_assert_int_lt(rounds, 200);
}
END_TEST

/* A queue that confirms nothing must leave the others a part of the window. */
START_TEST(caller_cannot_take_the_whole_window) /* proves L1-21 */
{
	post_fini(&p);
	post_init(&p, 1000);
	post_up(&p);
	post_put(&p, "alpha", 3000);
	post_turn(&p);
	ck_assert_uint_ge(p.bus.flight_count, 800);
	ck_assert_uint_le(p.bus.flight_count, 880); /* about 7/8 */
	post_put(&p, "beta", 50);
	post_turn(&p);
	ck_assert_uint_ge(p.bus.flight_count, 850);
	for (size_t i = 0; i < 50; i++)
		ck_assert(strncmp(p.bus.sent[p.bus.sent_count - 1 - i].key, "beta.", 5) == 0);
	post_drain(&p);
	post_put(&p, "alpha", 3000); /* after a nack it grows again, but not beyond */
	post_turn(&p);
	post_settle(&p, BUS_NACKED);
	p.bus.most_in_flight = 0;
	post_pass(&p, 1 * SECONDS);
	post_drain(&p);
	ck_assert_uint_ge(p.bus.most_in_flight, 800);
	ck_assert_uint_le(p.bus.most_in_flight, 880);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(many_callers_are_served_alike)
{
	char name[16];

	post_up(&p);
	for (int i = 0; i < 5000; i++) { /* more than are remembered while idle */
		snprintf(name, sizeof name, "caller-%d", i);
		post_put(&p, name, 1);
		if (i % 100 == 99) {
			post_turn(&p);
			post_drain(&p);
		}
	}
	ck_assert_uint_eq(p.bus.sent_count, 5000);
	post_put(&p, "caller-0", 1); /* back again, under its old key */
	post_turn(&p);
	post_expect(&p, 1, 5000);
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM callers"), 5000);
}
END_TEST

START_TEST(a_repeat_is_the_same_bytes) /* proves L1-06 */
{
	int64_t id;

	post_up(&p);
	post_put(&p, "alpha", 3);
	id = post_put_type(&p, "alpha", NULL, "task_rejected");
	post_turn(&p);
	post_drain(&p);
	outbox_resend(p.ob, outbox_find_caller(p.ob, "alpha"), id);
	outbox_pump(p.ob);
	bus_flush(&p.bus);
	ck_assert_uint_eq(p.bus.flight_count, 1);
	ck_assert_str_eq(p.bus.sent[4].body, p.bus.sent[3].body);
	ck_assert_str_eq(p.bus.sent[4].message_id, p.bus.sent[3].message_id);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(the_oldest_in_flight_has_an_age) /* proves L1-22 */
{
	post_up(&p);
	ck_assert_int_eq(outbox_oldest_us(p.ob, fake_boot_us), -1);
	post_put(&p, "alpha", 1);
	post_turn(&p);
	fake_clock_pass(3 * SECONDS);
	post_put(&p, "beta", 1);
	post_turn(&p);
	fake_clock_pass(2 * SECONDS);
	ck_assert_int_eq(outbox_oldest_us(p.ob, fake_boot_us), 5 * SECONDS);
	fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	post_turn(&p);
	ck_assert_int_eq(outbox_oldest_us(p.ob, fake_boot_us), 2 * SECONDS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("outbox");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 20);
	tcase_add_test(t, nothing_goes_out_before_the_commit_is_released);
	tcase_add_test(t, nothing_goes_out_while_the_connection_is_down);
	tcase_add_test(t, key_and_properties_mirror_the_body);
	tcase_add_test(t, message_without_a_session_has_a_dash_and_no_correlation_id);
	tcase_add_test(t, the_window_is_bounded_in_messages_and_the_order_is_kept);
	tcase_add_test(t, the_window_is_bounded_in_bytes);
	tcase_add_test(t, confirms_out_of_order_advance_the_watermark_without_holes);
	tcase_add_test(t, the_watermark_is_lazy_and_rides_on_the_next_batch);
	tcase_add_test(t, a_restart_publishes_exactly_what_was_not_confirmed);
	tcase_add_test(t, crash_before_the_watermark_publishes_the_same_bytes_again);
	tcase_add_test(t, lost_messages_go_again_in_order);
	tcase_add_test(t, many_losses_lose_nothing);
	tcase_add_test(t, a_long_outage_costs_bounded_memory_and_all_come_out_in_order);
	tcase_add_test(t, large_rows_are_loaded_few_at_a_time_and_in_order);
	tcase_add_test(t, large_rows_that_nobody_took_are_loaded_few_at_a_time);
	tcase_add_test(t, messages_queue_behind_while_their_caller_lags);
	tcase_add_test(t, a_restart_while_lagging_goes_on_in_order);
	tcase_add_test(t, nobodys_backlog_is_in_anybodys_way);
	tcase_add_test(t, caller_cannot_take_the_whole_window);
	tcase_add_test(t, many_callers_are_served_alike);
	tcase_add_test(t, a_repeat_is_the_same_bytes);
	tcase_add_test(t, the_oldest_in_flight_has_an_age);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
