/* test_outbox_trouble.c: one caller's trouble is its own: full queue, no queue, no permission, a message that the broker
 * will not have. */
#include "fake_post.h"

static struct post p;

static void setup(void)
{
	post_init(&p, 10);
	post_up(&p);
}

static void teardown(void)
{
	post_fini(&p);
}

/* ---- nack ---- */

START_TEST(after_a_nack_one_at_a_time_with_growing_pauses_then_doubling) /* proves L1-07 L1-21 */
{
	static const int pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};

	post_put(&p, "alpha", 40);
	post_turn(&p);
	post_settle(&p, BUS_NACKED);
	for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
		ck_assert_uint_eq(p.bus.flight_count, 0);
		post_pass(&p, pauses[i] * SECONDS - 1);
		ck_assert_uint_eq(p.bus.flight_count, 0);
		post_pass(&p, 1);
		post_expect(&p, 1, 0); /* from the nacked one on */
		if (i + 1 < sizeof pauses / sizeof *pauses)
			post_settle(&p, BUS_NACKED);
	}
	post_settle(&p, BUS_CONFIRMED);
	ck_assert_uint_ge(p.bus.flight_count, 1);
	ck_assert_uint_le(p.bus.flight_count, 2);
	post_drain(&p);
	ck_assert_uint_eq(p.bus.most_in_flight, 10); /* in the end the window is whole again */
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(what_follows_a_nack_does_not_overtake_it_beyond_what_was_in_flight) /* proves L1-07 */
{
	post_put(&p, "alpha", 30);
	post_turn(&p);
	fake_bus_settle_at(&p.bus, 0, BUS_NACKED);
	while (p.bus.flight_count > 0)
		fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	post_turn(&p);
	ck_assert_uint_eq(p.bus.flight_count, 0);
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0); /* alone, until it is confirmed */
	post_settle(&p, BUS_NACKED);
	post_pass(&p, 2 * SECONDS);
	post_expect(&p, 1, 0);
	post_settle(&p, BUS_CONFIRMED);
	ck_assert_int_eq(post_flying(&p, 0), 10);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(a_nack_in_the_middle_keeps_the_rest_in_order) /* proves L1-07 */
{
	post_put(&p, "alpha", 20);
	post_turn(&p);
	for (int i = 0; i < 3; i++)
		fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	fake_bus_settle_all(&p.bus, BUS_NACKED);
	post_turn(&p);
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 3);
	post_settle(&p, BUS_CONFIRMED);
	ck_assert_int_eq(post_flying(&p, 0), 4);
	post_drain(&p);
	post_expect_sent(&p, 10, 3);
}
END_TEST

START_TEST(one_callers_nack_does_not_hold_another) /* proves L1-21 */
{
	post_put(&p, "alpha", 5);
	post_turn(&p);
	post_settle(&p, BUS_NACKED);
	post_put(&p, "beta", 20);
	post_turn(&p);
	post_expect(&p, 10, 5); /* beta's, with the whole window */
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 25);
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0);
}
END_TEST

/* ---- unroutable ---- */

START_TEST(an_unroutable_message_is_settled_counted_and_kept) /* proves L1-08 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 3);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	outbox_get_stats(p.ob, &st);
	ck_assert_int_eq(st.waiting_bytes, 0); /* does not count towards max_outbox */
	ck_assert_uint_eq(st.unroutable, 3);
	ck_assert_int_eq(p.unroutables, 3);
	ck_assert(outbox_is_empty(p.ob));
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM unroutable"), 3);
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM events"), 3);
	ck_assert_int_eq(post_ask(&p, "SELECT confirmed FROM callers"), 3);
}
END_TEST

START_TEST(the_oldest_is_probed_after_1_2_4_to_60_seconds) /* towards L2-17 */
{
	static const int pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};

	post_put(&p, "alpha", 5);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
		post_pass(&p, pauses[i] * SECONDS - 1);
		ck_assert_uint_eq(p.bus.flight_count, 0);
		post_pass(&p, 1);
		post_expect(&p, 1, 0);
		post_settle(&p, BUS_UNROUTABLE);
	}
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM unroutable"), 5);
}
END_TEST

START_TEST(once_routed_the_others_follow_in_order_and_as_they_were) /* towards L2-17 */
{
	size_t before;

	post_put(&p, "alpha", 600);
	post_turn(&p);
	while (p.bus.flight_count > 0)
		post_settle(&p, BUS_UNROUTABLE);
	before = p.bus.sent_count;
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0);
	post_settle(&p, BUS_CONFIRMED);
	for (int i = 0; i < 200; i++) {
		post_pass(&p, 100000);
		post_settle(&p, BUS_CONFIRMED);
	}
	ck_assert_uint_eq(p.bus.sent_count - before, 600);
	post_expect_sent(&p, before, 0);
	for (size_t i = 0; i < 600; i++)
		ck_assert_str_eq(p.bus.sent[before + i].body, p.bus.sent[i].body);
	post_turn(&p);
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM unroutable"), 0);
	post_pass(&p, 300 * SECONDS);
	ck_assert_uint_eq(p.bus.sent_count - before, 600); /* and then there is peace */
}
END_TEST

START_TEST(a_caller_that_goes_again_is_probed_again) /* towards L2-17 */
{
	post_put(&p, "alpha", 9);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	post_pass(&p, 1 * SECONDS);
	post_settle(&p, BUS_CONFIRMED);
	post_pass(&p, 1);
	ck_assert_uint_gt(p.bus.flight_count, 0);
	post_settle(&p, BUS_UNROUTABLE); /* it was there for one message only */
	for (int i = 0; i < 400; i++) {
		post_pass(&p, 1 * SECONDS);
		post_settle(&p, BUS_CONFIRMED);
	}
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM unroutable"), 0);
}
END_TEST

START_TEST(live_messages_do_not_wait_for_probes) /* proves L1-08 */
{
	post_put(&p, "alpha", 2);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	post_put(&p, "alpha", 2);
	post_turn(&p);
	post_expect(&p, 2, 2);
	post_settle(&p, BUS_CONFIRMED); /* somebody listens now */
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0);
}
END_TEST

START_TEST(unroutable_messages_are_probed_after_a_restart_too) /* towards L2-17 */
{
	post_put(&p, "alpha", 3);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	post_close(&p);
	post_open(&p);
	ck_assert_int_eq(p.backlog_bytes, 0);
	post_up(&p);
	ck_assert_uint_eq(p.bus.sent_count, 0);
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0);
	post_settle(&p, BUS_CONFIRMED);
	for (int i = 0; i < 10; i++) {
		post_pass(&p, 100000);
		post_settle(&p, BUS_CONFIRMED);
	}
	post_expect_sent(&p, 0, 0);
	ck_assert_uint_eq(p.bus.sent_count, 3);
}
END_TEST

/* In an earlier life the 500th of many was unroutable while those before it were still under way. It is found routed
 * before the line has come to it: it must not be taken for one that waits. */
START_TEST(what_was_probed_is_not_counted_when_the_line_comes_to_it)
{
	struct outbox_stats st;

	post_fini(&p);
	post_init(&p, 600);
	post_up(&p);
	post_put(&p, "alpha", 600);
	post_turn(&p);
	fake_bus_settle_at(&p.bus, 500, BUS_UNROUTABLE);
	post_turn(&p);
	post_close(&p);
	p.config.amqp.window_messages = 10;
	post_open(&p);
	post_up(&p);
	post_expect(&p, 10, 0);
	fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
	post_turn(&p);
	for (int i = 0; i < 20; i++) {
		post_pass(&p, 1 * SECONDS);
		for (size_t k = 0; k < p.bus.flight_count; k++)
			if (post_flying(&p, k) == 500)
				fake_bus_settle_at(&p.bus, k, BUS_CONFIRMED);
		if (p.bus.flight_count > 9)
			fake_bus_settle_at(&p.bus, 0, BUS_CONFIRMED);
		post_turn(&p);
	}
	post_drain(&p);
	for (int i = 0; i < 10; i++) {
		post_pass(&p, 60 * SECONDS);
		post_drain(&p);
	}
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM unroutable"), 0);
	outbox_get_stats(p.ob, &st);
	ck_assert_int_eq(st.waiting_bytes, 0);
	ck_assert_int_eq(p.settled_bytes, p.backlog_bytes);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(bytes_are_bytes_and_not_characters)
{
	struct outbox_stats st;
	struct buf b = {0};
	struct store_event e = {
		.session = 7, .session_id = SESSION_ID, .type = "event", .sequence = 1, .event_type = "log"};

	codec_begin(&b, SESSION_ID, "event");
	buf_add_text(&b, "{\"n\":0,\"text\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xe2\x82\xac\"}");
	codec_end(&b);
	e.body = blob_new(b.data, b.size);
	buf_fini(&b);
	outbox_put(p.ob, outbox_addressee(p.ob, "alpha"), &e);
	blob_unref(e.body);
	post_turn(&p);
	post_close(&p);
	post_open(&p);
	outbox_get_stats(p.ob, &st);
	post_up(&p);
	ck_assert_int_eq(st.waiting_bytes, (int64_t)p.bus.sent[0].size);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

/* ---- the broker closes the channel ---- */

START_TEST(after_a_404_rows_go_one_at_a_time_until_the_window_is_clear) /* proves L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 15);
	post_put(&p, "beta", 5);
	post_turn(&p);
	post_down(&p, 404);
	post_up(&p);
	for (int i = 0; i < 10; i++) {
		ck_assert_uint_eq(p.bus.flight_count, 1);
		post_settle(&p, BUS_CONFIRMED);
	}
	ck_assert_uint_gt(p.bus.flight_count, 1);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.set_aside, 0);
}
END_TEST

START_TEST(no_number_of_404s_sets_a_row_aside) /* proves L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 1);
	post_turn(&p);
	for (int i = 0; i < 10; i++) {
		post_expect(&p, 1, 0);
		post_down(&p, 404);
		post_up(&p);
		post_pass(&p, 61 * SECONDS);
	}
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.set_aside, 0);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(a_403_backs_off_that_caller_alone) /* proves L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 1);
	post_turn(&p);
	post_down(&p, 403);
	post_put(&p, "beta", 20);
	post_turn(&p);
	post_up(&p);
	for (size_t i = 0; i < p.bus.flight_count; i++)
		ck_assert_int_ne(post_flying(&p, i), 0);
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 21);
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0);
	post_down(&p, 403);
	post_up(&p);
	post_pass(&p, 2 * SECONDS - 1);
	ck_assert_uint_eq(p.bus.flight_count, 0);
	post_pass(&p, 1);
	post_expect(&p, 1, 0);
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.set_aside, 0);
}
END_TEST

/* Somebody among ten is forbidden: it is found, and the other goes on at full width. */
START_TEST(a_403_with_many_in_flight_finds_the_one_to_blame) /* proves L1-21 */
{
	post_put(&p, "alpha", 3);
	post_put(&p, "beta", 30);
	post_turn(&p);
	for (int i = 0; i < 40 && !(p.bus.pub_up && p.bus.flight_count == 0); i++) {
		bool has_alpha = false;

		for (size_t k = 0; k < p.bus.flight_count; k++)
			has_alpha |= post_flying(&p, k) < 3;
		if (has_alpha) {
			post_down(&p, 403);
			post_up(&p);
		} else {
			post_settle(&p, BUS_CONFIRMED);
		}
	}
	for (int i = 3; i < 33; i++) {
		bool confirmed = false;

		for (size_t k = 0; k < p.bus.sent_count; k++)
			confirmed |=
				post_number(&p.bus.sent[k]) == i && p.bus.sent[k].status == BUS_CONFIRMED;
		ck_assert_msg(confirmed, "beta's %d did not get through", i);
	}
}
END_TEST

START_TEST(two_406_alone_in_flight_set_a_row_aside) /* proves L1-21 */
{
	struct outbox_stats st;
	const struct fake_sent *was, *now;

	post_put(&p, "alpha", 1);
	post_turn(&p);
	post_down(&p, 406);
	post_up(&p);
	post_expect(&p, 1, 0); /* the first one may have been an accident */
	post_put(&p, "alpha", 4);
	post_turn(&p);
	post_down(&p, 406);
	post_up(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.set_aside, 1);
	was = &p.bus.sent[0];
	now = &p.bus.sent[p.bus.flight[0].sent];
	ck_assert_str_eq(now->message_id, was->message_id);
	ck_assert_str_eq(now->key, was->key);
	ck_assert(strstr(now->body, "\"event_type\":\"warning\",\"sequence\":1,") != NULL);
	ck_assert(strstr(now->body, "\"code\":\"event_unpublishable\"") != NULL);
	ck_assert(strstr(now->body, was->message_id) != NULL);
	ck_assert_int_eq(
		post_ask(&p,
			"SELECT count(*) FROM events WHERE substitute IS NOT NULL AND body LIKE '%\"n\":0%'"),
		1);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
	ck_assert_int_eq(post_number(&p.bus.sent[p.bus.sent_count - 1]), 4);
}
END_TEST

START_TEST(a_406_with_others_in_flight_blames_nobody) /* proves L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 5);
	post_turn(&p);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_ge(p.bus.flight_count, 1);
		post_down(&p, i == 0 ? 406 : 0);
		post_up(&p);
	}
	post_settle(&p, BUS_CONFIRMED);
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.set_aside, 0);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(the_bad_one_of_many_is_found_and_only_it_is_set_aside) /* proves L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 30);
	post_turn(&p);
	for (int i = 0; i < 200 && !(p.bus.pub_up && p.bus.flight_count == 0); i++) {
		bool bad = false;

		for (size_t k = 0; k < p.bus.flight_count; k++)
			bad |= post_flying(&p, k) == 6;
		if (bad) {
			post_down(&p, 406);
			post_up(&p);
		} else {
			post_settle(&p, BUS_CONFIRMED);
		}
		post_pass(&p, 1 * SECONDS);
	}
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.set_aside, 1);
	ck_assert(outbox_is_empty(p.ob));
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM events WHERE substitute IS NOT NULL"), 1);
	ck_assert_int_eq(post_ask(&p, "SELECT id FROM events WHERE substitute IS NOT NULL"), 7);
}
END_TEST

START_TEST(a_substitute_survives_a_restart) /* proves L1-21 */
{
	post_put(&p, "alpha", 1);
	post_turn(&p);
	for (int i = 0; i < 2; i++) {
		post_down(&p, 406);
		post_up(&p);
	}
	post_close(&p);
	post_open(&p);
	post_up(&p);
	ck_assert_uint_eq(p.bus.flight_count, 1);
	ck_assert(strstr(p.bus.sent[0].body, "event_unpublishable") != NULL);
}
END_TEST

START_TEST(an_operators_close_makes_nobody_suspect)
{
	post_put(&p, "alpha", 10);
	post_turn(&p);
	post_down(&p, 320);
	post_up(&p);
	post_expect(&p, 10, 0);
}
END_TEST

/* Unroutable ones that follow a routed one are lost with the channel; then their caller is gone again. */
START_TEST(suspects_that_are_given_up_do_not_keep_the_window_shut) /* proves L1-21 */
{
	post_put(&p, "alpha", 8);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	post_pass(&p, 1 * SECONDS);
	post_settle(&p, BUS_CONFIRMED);
	post_pass(&p, 1);
	ck_assert_uint_gt(p.bus.flight_count, 1);
	post_down(&p, 404);
	post_up(&p);
	while (p.bus.flight_count > 0)
		post_settle(&p, BUS_UNROUTABLE);
	post_put(&p, "beta", 30);
	post_turn(&p);
	for (int i = 0; i < 12; i++)
		post_settle(&p, BUS_CONFIRMED);
	ck_assert(outbox_is_empty(p.ob)); /* 30 in windows of 10, not one by one */
}
END_TEST

START_TEST(a_store_that_cannot_be_read_delays_a_lagging_caller_and_loses_nothing)
{
	char path[300];
	sqlite3 *db;

	post_put(&p, "alpha", 500);
	post_turn(&p);
	post_close(&p);
	post_open(&p);
	snprintf(path, sizeof path, "%s/hcpd.db", p.dir);
	ck_assert(sqlite3_open(path, &db) == SQLITE_OK);
	ck_assert(sqlite3_exec(db, "ALTER TABLE events RENAME TO elsewhere", NULL, NULL, NULL) == SQLITE_OK);
	post_up(&p);
	ck_assert_uint_eq(p.bus.sent_count, 0);
	post_pass(&p, 5 * SECONDS);
	ck_assert(sqlite3_exec(db, "ALTER TABLE elsewhere RENAME TO events", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
	post_pass(&p, 2 * SECONDS);
	post_drain(&p);
	ck_assert_uint_eq(p.bus.sent_count, 500);
	post_expect_sent(&p, 0, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("outbox_trouble");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, after_a_nack_one_at_a_time_with_growing_pauses_then_doubling);
	tcase_add_test(t, what_follows_a_nack_does_not_overtake_it_beyond_what_was_in_flight);
	tcase_add_test(t, a_nack_in_the_middle_keeps_the_rest_in_order);
	tcase_add_test(t, one_callers_nack_does_not_hold_another);
	tcase_add_test(t, an_unroutable_message_is_settled_counted_and_kept);
	tcase_add_test(t, the_oldest_is_probed_after_1_2_4_to_60_seconds);
	tcase_add_test(t, once_routed_the_others_follow_in_order_and_as_they_were);
	tcase_add_test(t, a_caller_that_goes_again_is_probed_again);
	tcase_add_test(t, live_messages_do_not_wait_for_probes);
	tcase_add_test(t, unroutable_messages_are_probed_after_a_restart_too);
	tcase_add_test(t, what_was_probed_is_not_counted_when_the_line_comes_to_it);
	tcase_add_test(t, bytes_are_bytes_and_not_characters);
	tcase_add_test(t, after_a_404_rows_go_one_at_a_time_until_the_window_is_clear);
	tcase_add_test(t, no_number_of_404s_sets_a_row_aside);
	tcase_add_test(t, a_403_backs_off_that_caller_alone);
	tcase_add_test(t, a_403_with_many_in_flight_finds_the_one_to_blame);
	tcase_add_test(t, two_406_alone_in_flight_set_a_row_aside);
	tcase_add_test(t, a_406_with_others_in_flight_blames_nobody);
	tcase_add_test(t, the_bad_one_of_many_is_found_and_only_it_is_set_aside);
	tcase_add_test(t, a_substitute_survives_a_restart);
	tcase_add_test(t, an_operators_close_makes_nobody_suspect);
	tcase_add_test(t, suspects_that_are_given_up_do_not_keep_the_window_shut);
	tcase_add_test(t, a_store_that_cannot_be_read_delays_a_lagging_caller_and_loses_nothing);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
