/* SPDX-License-Identifier: MIT */
/* test_outbox_close.c: the broker closes the channel or the connection: who is to blame is found, what it
 * will not have is set aside, and nobody else suffers for it. */
#include "support/fakes/fake_post.h"
#include "support/log_kit.h"

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

/* ---- lost while the turn was committed ---- */

/* A turn published while the connection went: its messages come back behind the loss. They were never with
 * the broker: none is to blame for it, and nothing is remembered of them once they are confirmed. */
static const int loss_codes[] = {0, 320, 403, 404, 406};
#define LOSS_CODES ((int)(sizeof loss_codes / sizeof *loss_codes))

START_TEST(message_returned_behind_a_loss_is_not_to_blame_for_it) /* proves L1-10 L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 3);
	post_turn_into_a_loss(&p, loss_codes[_i]);
	ck_assert_uint_eq(p.bus.sent_count, 3);
	ck_assert_uint_eq(p.bus.flight_count, 0);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.lost, 3);
	ck_assert_uint_eq(st.in_flight, 0);
	post_up(&p);
	post_expect(&p, 3, 0); /* at once, and together */
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
	post_put(&p, "alpha", 2);
	post_turn(&p);
	post_down(&p, 404);
	post_up(&p);
	post_put(&p, "beta", 10);
	post_turn(&p);
	post_expect(&p, 1, 3); /* of the two that were in flight, one after the other ... */
	post_settle(&p, BUS_CONFIRMED);
	post_expect(&p, 1, 4);
	post_settle(&p, BUS_CONFIRMED);
	post_expect(&p, 10, 5); /* ... and then the window is clear */
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.replaced, 0);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(message_returned_behind_a_loss_is_not_replaced_or_skipped) /* proves L1-21 */
{
	struct outbox_stats st;

	post_put(&p, "alpha", 1);
	post_turn(&p);
	post_put(&p, "beta", 1);
	post_turn_into_a_loss(&p, 406); /* alpha's was alone with the broker: its first refusal */
	post_up(&p);
	post_expect(&p, 1, 0);
	post_down(&p, 406); /* and its second */
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.replaced, 1);
	ck_assert_int_eq(post_ask(&p, "SELECT id FROM events WHERE substitute IS NOT NULL"), 1);
	post_up(&p);
	post_drain(&p);
	post_put(&p, "beta", 1);
	post_turn_into_a_loss(&p, 406); /* nothing was with the broker */
	post_up(&p);
	post_expect(&p, 1, 2);
	post_down(&p, 406); /* the first refusal of beta's */
	post_up(&p);
	post_expect(&p, 1, 2);
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.replaced, 1);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

/* The loss, the new connection and what was published to the old one are taken in one turn. */
START_TEST(message_returned_behind_the_next_connection_goes_there) /* proves L1-10 */
{
	post_put(&p, "alpha", 3);
	post_hand_in(&p);
	fake_bus_down(&p.bus, 404);
	if (_i == 0)
		fake_bus_up(&p.bus);
	post_end_turn(&p); /* comes back behind both */
	if (_i == 1)
		fake_bus_up(&p.bus);
	post_turn(&p);
	post_expect(&p, 3, 0);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
	post_expect_sent(&p, 3, 0);
}
END_TEST

/* ---- who is to blame ---- */

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
	ck_assert_uint_eq(st.replaced, 0);
}
END_TEST

START_TEST(caller_that_backs_off_does_not_make_the_others_careful) /* proves L1-21 */
{
	post_put(&p, "alpha", 3);
	post_turn(&p);
	fake_bus_settle_at(&p.bus, 0, BUS_NACKED);
	post_turn(&p);
	post_down(&p, 404); /* with two of the one that backs off */
	post_up(&p);
	post_put(&p, "beta", 10);
	post_turn(&p);
	post_expect(&p, 10, 3);
	post_drain(&p);
	post_pass(&p, 1 * SECONDS);
	post_expect(&p, 1, 0);
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
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
	ck_assert_uint_eq(st.replaced, 0);
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
	ck_assert_uint_eq(st.replaced, 0);
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
	log_kit_begin(LOG_LVL_INFO);
	post_down(&p, 406);
	post_up(&p);
	post_expect(&p, 1, 0); /* the first one may have been an accident */
	ck_assert_int_eq(log_kit_count("ALARM"), 0);
	post_put(&p, "alpha", 4);
	post_turn(&p);
	post_down(&p, 406);
	post_up(&p);
	ck_assert_int_eq(
		log_kit_count(" level=error ALARM: the broker refuses a message for good, a warning goes "
			      "out in its place: caller=alpha session="),
		1);
	ck_assert_int_eq(log_kit_count("ALARM"), 1);
	log_kit_end();
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.replaced, 1);
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
	ck_assert_uint_eq(st.replaced, 0);
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
	ck_assert_uint_eq(st.replaced, 1);
	ck_assert(outbox_is_empty(p.ob));
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM events WHERE substitute IS NOT NULL"), 1);
	ck_assert_int_eq(post_ask(&p, "SELECT id FROM events WHERE substitute IS NOT NULL"), 7);
}
END_TEST

/* An unroutable message was settled when it came back: setting it aside later settles nothing. */
START_TEST(message_retried_and_then_replaced_is_not_counted_twice) /* proves L1-21 */
{
	struct outbox_stats st;
	int64_t settled;

	p.padding = 5000;
	post_put(&p, "alpha", 1);
	post_turn(&p);
	post_settle(&p, BUS_UNROUTABLE);
	settled = p.settled_bytes;
	ck_assert_int_eq(settled, (int64_t)p.bus.sent[0].size);
	for (int i = 0; i < 2; i++) {
		post_pass(&p, 1 * SECONDS);
		post_expect(&p, 1, 0);
		post_down(&p, 406);
		post_up(&p);
	}
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.replaced, 1);
	ck_assert_int_eq(st.waiting_bytes, 0);
	ck_assert_int_eq(p.settled_bytes, settled);
	ck_assert(strstr(p.bus.sent[p.bus.sent_count - 1].body, "event_unpublishable") != NULL);
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_int_eq(st.waiting_bytes, 0);
	ck_assert_int_eq(p.settled_bytes, settled);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

/* Nothing can stand in for an answer: who asked would never know. */
START_TEST(an_answer_is_never_set_aside)
{
	static const char *const answers[] = {"task_accepted", "task_rejected"};
	struct outbox_stats st;
	char *body;

	post_put_type(&p, "alpha", _i == 0 ? SESSION_ID : NULL, answers[_i]);
	post_turn(&p);
	body = xstrdup(p.bus.sent[0].body);
	for (int i = 0; i < 5; i++) {
		post_expect(&p, 1, 0);
		post_down(&p, 406);
		post_up(&p);
		if (i == 0) { /* its caller backs off, and nobody else does */
			post_put(&p, "beta", 10);
			post_turn(&p);
			post_expect(&p, 10, 1);
			post_drain(&p);
		}
		post_pass(&p, 61 * SECONDS);
	}
	post_expect(&p, 1, 0);
	ck_assert_str_eq(p.bus.sent[p.bus.sent_count - 1].body, body);
	free(body);
	post_drain(&p);
	outbox_get_stats(p.ob, &st);
	ck_assert_uint_eq(st.replaced, 0);
	ck_assert_int_eq(post_ask(&p, "SELECT count(*) FROM events WHERE substitute IS NOT NULL"), 0);
	ck_assert(outbox_is_empty(p.ob));
}
END_TEST

START_TEST(a_substitute_survives_a_restart) /* proves L1-21 */
{
	struct outbox_stats st;

	p.padding = 5000;
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
	outbox_get_stats(p.ob, &st);
	ck_assert_int_eq(
		st.waiting_bytes, (int64_t)p.bus.sent[0].size); /* of what goes out, not of the original */
	post_drain(&p);
	ck_assert(outbox_is_empty(p.ob));
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

int main(void)
{
	Suite *s = suite_create("outbox_close");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, after_a_404_rows_go_one_at_a_time_until_the_window_is_clear);
	tcase_add_loop_test(t, message_returned_behind_a_loss_is_not_to_blame_for_it, 0, LOSS_CODES);
	tcase_add_test(t, message_returned_behind_a_loss_is_not_replaced_or_skipped);
	tcase_add_loop_test(t, message_returned_behind_the_next_connection_goes_there, 0, 2);
	tcase_add_test(t, caller_that_backs_off_does_not_make_the_others_careful);
	tcase_add_test(t, no_number_of_404s_sets_a_row_aside);
	tcase_add_test(t, a_403_backs_off_that_caller_alone);
	tcase_add_test(t, a_403_with_many_in_flight_finds_the_one_to_blame);
	tcase_add_test(t, two_406_alone_in_flight_set_a_row_aside);
	tcase_add_test(t, a_406_with_others_in_flight_blames_nobody);
	tcase_add_test(t, the_bad_one_of_many_is_found_and_only_it_is_set_aside);
	tcase_add_test(t, message_retried_and_then_replaced_is_not_counted_twice);
	tcase_add_loop_test(t, an_answer_is_never_set_aside, 0, 2);
	tcase_add_test(t, a_substitute_survives_a_restart);
	tcase_add_test(t, an_operators_close_makes_nobody_suspect);
	tcase_add_test(t, suspects_that_are_given_up_do_not_keep_the_window_shut);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
