/* SPDX-License-Identifier: MIT */
/* test_frames.c: sequences of decoded frames, made by hand, against what frames.c makes of them. */
#include <amqp.h>
#include <amqp_framing.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "amqp/frames.h"

#define CAP 1000

static struct frames f;

static void set_up(void)
{
	frames_init(&f, CAP);
}

static void tear_down(void)
{
	frames_fini(&f);
}

static struct frames_event *feed_method(int channel, amqp_method_number_t id, void *decoded)
{
	amqp_frame_t frame = {.frame_type = AMQP_FRAME_METHOD, .channel = (amqp_channel_t)channel};

	frame.payload.method.id = id;
	frame.payload.method.decoded = decoded;
	return frames_feed(&f, &frame);
}

static struct frames_event *feed_deliver(uint64_t tag)
{
	amqp_basic_deliver_t d = {
		.delivery_tag = tag, .redelivered = 1, .routing_key = amqp_cstring_bytes("demo")};

	return feed_method(1, AMQP_BASIC_DELIVER_METHOD, &d);
}

static struct frames_event *feed_return(void)
{
	amqp_basic_return_t r = {.reply_code = 312,
		.reply_text = amqp_cstring_bytes("NO_ROUTE"),
		.routing_key = amqp_cstring_bytes("a.b.event")};

	return feed_method(1, AMQP_BASIC_RETURN_METHOD, &r);
}

static struct frames_event *feed_ack(uint64_t tag, int multiple)
{
	amqp_basic_ack_t a = {.delivery_tag = tag, .multiple = multiple};

	return feed_method(1, AMQP_BASIC_ACK_METHOD, &a);
}

static struct frames_event *feed_header_with(uint64_t size, amqp_basic_properties_t *p)
{
	amqp_frame_t frame = {.frame_type = AMQP_FRAME_HEADER, .channel = 1};

	frame.payload.properties.class_id = AMQP_BASIC_CLASS;
	frame.payload.properties.body_size = size;
	frame.payload.properties.decoded = p;
	return frames_feed(&f, &frame);
}

static struct frames_event *feed_header(uint64_t size)
{
	amqp_basic_properties_t p = {._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_USER_ID_FLAG,
		.message_id = amqp_cstring_bytes("m-1"),
		.user_id = amqp_cstring_bytes("alpha")};

	return feed_header_with(size, &p);
}

static struct frames_event *feed_body(const char *bytes, size_t size)
{
	amqp_frame_t frame = {.frame_type = AMQP_FRAME_BODY, .channel = 1};
	char copy[4096]; /* the library's memory: gone after the call */
	struct frames_event *ev;

	memcpy(copy, bytes, size);
	frame.payload.body_fragment = (amqp_bytes_t){size, copy};
	ev = frames_feed(&f, &frame);
	memset(copy, '#', sizeof copy);
	return ev;
}

START_TEST(a_delivery_is_whole_only_with_its_last_byte)
{
	struct frames_event *ev;

	ck_assert_ptr_null(feed_deliver(7));
	ck_assert_ptr_null(feed_header(5));
	ck_assert_ptr_null(feed_body("he", 2));
	ck_assert_ptr_null(feed_body("", 0));
	ev = feed_body("llo", 3);
	ck_assert_ptr_nonnull(ev);
	ck_assert_int_eq(ev->kind, FRAMES_DELIVERY);
	ck_assert_uint_eq(ev->tag, 7);
	ck_assert(ev->redelivered && ev->has_user);
	ck_assert_str_eq(ev->user, "alpha");
	ck_assert_str_eq(ev->message_id, "m-1");
	ck_assert_str_eq(ev->key, "demo");
	ck_assert_uint_eq(ev->size, 5);
	ck_assert_str_eq(ev->body, "hello");
}
END_TEST

START_TEST(an_empty_body_needs_no_body_frame)
{
	struct frames_event *ev;

	feed_deliver(1);
	ev = feed_header(0);
	ck_assert_int_eq(ev->kind, FRAMES_DELIVERY);
	ck_assert_uint_eq(ev->size, 0);
	ck_assert_str_eq(ev->body, "");
}
END_TEST

START_TEST(a_body_over_the_cap_is_thrown_away_and_still_reported) /* proves L1-15 */
{
	char part[CAP + 1];
	struct frames_event *ev;

	memset(part, 'x', sizeof part);
	feed_deliver(1);
	ck_assert_ptr_null(feed_header(CAP + 1));
	ck_assert_ptr_null(f.content.body);
	ck_assert_ptr_null(feed_body(part, CAP));
	ev = feed_body(part, 1);
	ck_assert_int_eq(ev->kind, FRAMES_DELIVERY);
	ck_assert_uint_eq(ev->size, CAP + 1);
	ck_assert_ptr_null(ev->body);
	feed_deliver(2);
	feed_header(CAP);
	ck_assert_ptr_nonnull(feed_body(part, CAP)->body);
}
END_TEST

START_TEST(a_size_that_no_machine_has_costs_nothing)
{
	feed_deliver(1);
	ck_assert_ptr_null(feed_header(UINT64_MAX));
	ck_assert_ptr_null(f.content.body);
	ck_assert_ptr_null(feed_body("x", 1));
}
END_TEST

START_TEST(the_caller_may_take_the_body)
{
	struct frames_event *ev;
	char *body;

	feed_deliver(1);
	feed_header(1);
	ev = feed_body("a", 1);
	body = ev->body;
	ev->body = NULL;
	feed_deliver(2);
	feed_header(1);
	ev = feed_body("b", 1);
	ck_assert_str_eq(body, "a");
	ck_assert_str_eq(ev->body, "b");
	free(body);
}
END_TEST

START_TEST(properties_do_not_leak_into_the_next_delivery)
{
	amqp_basic_properties_t none = {0};
	struct frames_event *ev;

	feed_deliver(1);
	feed_header(0);
	feed_deliver(2);
	ev = feed_header_with(0, &none);
	ck_assert(!ev->has_user);
	ck_assert_str_eq(ev->user, "");
	ck_assert_str_eq(ev->message_id, "");
}
END_TEST

START_TEST(a_user_with_a_nul_in_it_is_nobody)
{
	amqp_basic_properties_t p = {
		._flags = AMQP_BASIC_USER_ID_FLAG, .user_id = {7, (void *)(uintptr_t) "alpha\0x"}};
	struct frames_event *ev;

	feed_deliver(1);
	ev = feed_header_with(0, &p);
	ck_assert(ev->has_user);
	ck_assert_str_eq(ev->user, "");
}
END_TEST

START_TEST(a_return_is_consumed_with_header_and_body_before_its_confirm)
{
	struct frames_event *ev;

	ck_assert_ptr_null(feed_return());
	ck_assert_ptr_null(feed_header(3));
	ck_assert_ptr_null(f.content.body);
	ev = feed_body("abc", 3);
	ck_assert_int_eq(ev->kind, FRAMES_RETURN);
	ck_assert_int_eq(ev->code, 312);
	ck_assert_str_eq(ev->message_id, "m-1");
	ev = feed_ack(1, 0);
	ck_assert_int_eq(ev->kind, FRAMES_ACK);
	ck_assert_uint_eq(ev->tag, 1);
	ck_assert(!ev->multiple);
}
END_TEST

START_TEST(confirms_carry_tag_and_multiple)
{
	amqp_basic_nack_t n = {.delivery_tag = 9, .multiple = 1};
	struct frames_event *ev = feed_method(1, AMQP_BASIC_NACK_METHOD, &n);

	ck_assert_int_eq(ev->kind, FRAMES_NACK);
	ck_assert_uint_eq(ev->tag, 9);
	ck_assert(ev->multiple);
}
END_TEST

START_TEST(an_alarm_may_come_in_the_middle_of_a_delivery)
{
	amqp_connection_blocked_t b = {.reason = amqp_cstring_bytes("low on memory")};
	amqp_connection_unblocked_t u = {0};
	struct frames_event *ev;

	feed_deliver(3);
	feed_header(2);
	ev = feed_method(0, AMQP_CONNECTION_BLOCKED_METHOD, &b);
	ck_assert_int_eq(ev->kind, FRAMES_BLOCKED);
	ck_assert_str_eq(ev->text, "low on memory");
	ck_assert_int_eq(feed_method(0, AMQP_CONNECTION_UNBLOCKED_METHOD, &u)->kind, FRAMES_UNBLOCKED);
	ev = feed_body("ok", 2);
	ck_assert_int_eq(ev->kind, FRAMES_DELIVERY);
	ck_assert_uint_eq(ev->tag, 3);
	ck_assert_str_eq(ev->body, "ok");
}
END_TEST

START_TEST(closes_and_cancels_say_why)
{
	amqp_channel_close_t ch = {
		.reply_code = 404, .reply_text = amqp_cstring_bytes("NOT_FOUND - no exchange")};
	amqp_connection_close_t co = {
		.reply_code = 320, .reply_text = amqp_cstring_bytes("CONNECTION_FORCED")};
	amqp_basic_cancel_t ca = {.consumer_tag = amqp_cstring_bytes("ctag")};
	struct frames_event *ev;

	ev = feed_method(1, AMQP_BASIC_CANCEL_METHOD, &ca);
	ck_assert_int_eq(ev->kind, FRAMES_CANCEL);
	ck_assert_str_eq(ev->text, "ctag");
	feed_deliver(1);
	feed_header(10);
	ev = feed_method(1, AMQP_CHANNEL_CLOSE_METHOD, &ch); /* the delivery never gets its body */
	ck_assert_int_eq(ev->kind, FRAMES_CHANNEL_CLOSED);
	ck_assert_int_eq(ev->code, 404);
	ck_assert_str_eq(ev->text, "NOT_FOUND - no exchange");
	ev = feed_method(0, AMQP_CONNECTION_CLOSE_METHOD, &co);
	ck_assert_int_eq(ev->kind, FRAMES_CONNECTION_CLOSED);
	ck_assert_int_eq(ev->code, 320);
}
END_TEST

START_TEST(frames_out_of_place_are_bad_and_leave_nothing_behind)
{
	ck_assert_int_eq(feed_header(1)->kind, FRAMES_BAD);
	ck_assert_int_eq(feed_body("x", 1)->kind, FRAMES_BAD);
	feed_deliver(1);
	ck_assert_int_eq(feed_body("x", 1)->kind, FRAMES_BAD);
	feed_deliver(1);
	ck_assert_int_eq(feed_deliver(2)->kind, FRAMES_BAD);
	feed_deliver(1);
	feed_header(1);
	ck_assert_int_eq(feed_ack(1, 0)->kind, FRAMES_BAD);
	feed_deliver(1);
	feed_header(2);
	ck_assert_int_eq(feed_body("xyz", 3)->kind, FRAMES_BAD);
	ck_assert_ptr_null(f.content.body);
	ck_assert_int_eq(feed_method(2, AMQP_BASIC_ACK_METHOD, &(amqp_basic_ack_t){0})->kind, FRAMES_BAD);
	feed_deliver(5);
	feed_header(1);
	ck_assert_int_eq(feed_body("x", 1)->kind, FRAMES_DELIVERY);
}
END_TEST

START_TEST(a_delivery_without_its_header_can_still_be_named)
{
	ck_assert_uint_eq(frames_headless_tag(&f), 0);
	feed_deliver(42);
	ck_assert_uint_eq(frames_headless_tag(&f), 42);
	feed_header(1);
	ck_assert_uint_eq(frames_headless_tag(&f), 0);
	feed_body("x", 1);
	feed_return();
	ck_assert_uint_eq(frames_headless_tag(&f), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("frames");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, a_delivery_is_whole_only_with_its_last_byte);
	tcase_add_test(t, an_empty_body_needs_no_body_frame);
	tcase_add_test(t, a_body_over_the_cap_is_thrown_away_and_still_reported);
	tcase_add_test(t, a_size_that_no_machine_has_costs_nothing);
	tcase_add_test(t, the_caller_may_take_the_body);
	tcase_add_test(t, properties_do_not_leak_into_the_next_delivery);
	tcase_add_test(t, a_user_with_a_nul_in_it_is_nobody);
	tcase_add_test(t, a_return_is_consumed_with_header_and_body_before_its_confirm);
	tcase_add_test(t, confirms_carry_tag_and_multiple);
	tcase_add_test(t, an_alarm_may_come_in_the_middle_of_a_delivery);
	tcase_add_test(t, closes_and_cancels_say_why);
	tcase_add_test(t, frames_out_of_place_are_bad_and_leave_nothing_behind);
	tcase_add_test(t, a_delivery_without_its_header_can_still_be_named);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
