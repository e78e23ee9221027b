/* SPDX-License-Identifier: MIT */
/* test_reorder.c: a session's messages in order, each once, gaps waited for and then passed over. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "hcpctl/common/message.h"

#define S INT64_C(1000000)

static struct ctl_reorder order;
static int64_t now_us, gap_from, gap_to;

static void begin(void)
{
	order = (struct ctl_reorder){.next = 1};
	now_us = 100 * S;
}

static void end(void)
{
	ctl_reorder_fini(&order);
}

static struct ctl_message *event(int sequence, uint64_t tag)
{
	struct buf b = {0};
	struct ctl_message *n;

	buf_addf(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"m%d\",\"session_id\":\"s\",\"type\":\"event\","
		"\"payload\":"
		"{\"event_type\":\"log\",\"sequence\":%d,\"data\":{}}}",
		sequence, sequence);
	buf_text(&b);
	n = ctl_message_read(b.data, b.size);
	ck_assert_ptr_nonnull(n);
	n->tag = tag;
	return n;
}

/* A message without a sequence; number makes its message_id. */
static struct ctl_message *plain(const char *type, int number)
{
	struct buf b = {0};
	struct ctl_message *n;

	buf_addf(&b, "{\"message_id\":\"%08d-0000-4000-8000-000000000000\",\"type\":\"%s\",\"payload\":{}}",
		number, type);
	buf_text(&b);
	n = ctl_message_read(b.data, b.size);
	ck_assert_ptr_nonnull(n);
	return n;
}

static void put(struct ctl_message *n)
{
	ck_assert_int_eq(ctl_reorder_put(&order, n, now_us), CTL_PUT);
}

static void must_be_seen(struct ctl_message *n)
{
	ck_assert_int_eq(ctl_reorder_put(&order, n, now_us), CTL_SEEN);
	ctl_message_free(n);
}

/* The next one's sequence, 0 for one without, -1 for none. */
static int take(void)
{
	struct ctl_message *n = ctl_reorder_take(&order, now_us, &gap_from, &gap_to);
	int sequence = n ? (int)n->sequence : -1;

	ctl_message_free(n);
	return sequence;
}

START_TEST(events_in_order_go_out_at_once)
{
	for (int i = 1; i <= 5; i++) {
		put(event(i, 0));
		ck_assert_int_eq(take(), i);
		ck_assert_int_eq(take(), -1);
	}
	ck_assert_int_eq(ctl_reorder_due_us(&order), INT64_MAX);
}
END_TEST

START_TEST(early_events_wait_for_the_missing_ones)
{
	put(event(3, 0));
	put(event(2, 0));
	ck_assert_int_eq(take(), -1);
	put(event(1, 0));
	for (int i = 1; i <= 3; i++)
		ck_assert_int_eq(take(), i);
	ck_assert_int_eq(gap_from, 0);
	ck_assert_int_eq(take(), -1);
}
END_TEST

START_TEST(event_that_was_handed_out_is_not_handed_out_again)
{
	put(event(1, 0));
	put(plain("task_accepted", 1));
	ck_assert_int_eq(take(), 1);
	ck_assert_int_eq(take(), 0);
	must_be_seen(event(1, 0));
	must_be_seen(plain("task_accepted", 1));
	put(plain("task_completed", 2)); /* another message_id is another message */
	ck_assert_int_eq(take(), 0);
}
END_TEST

START_TEST(held_event_that_comes_again_gets_the_new_tag)
{
	struct ctl_message *again = event(2, 77);

	put(event(2, 5));
	again->generation = 2;
	ck_assert_int_eq(ctl_reorder_put(&order, again, now_us), CTL_HELD_ALREADY);
	ctl_message_free(again);
	put(event(1, 6));
	ck_assert_int_eq(take(), 1);
	struct ctl_message *n = ctl_reorder_take(&order, now_us, &gap_from, &gap_to);
	ck_assert_int_eq(n->sequence, 2);
	ck_assert_uint_eq(n->tag, 77);
	ck_assert_uint_eq(n->generation, 2);
	ctl_message_free(n);
}
END_TEST

START_TEST(a_gap_is_told_after_five_seconds_and_passed_over)
{
	put(event(1, 0));
	ck_assert_int_eq(take(), 1);
	put(event(4, 0));
	put(event(5, 0));
	ck_assert_int_eq(ctl_reorder_due_us(&order), now_us + 5 * S);
	now_us += 5 * S - 1;
	ck_assert_int_eq(take(), -1);
	now_us += 1;
	ck_assert_int_eq(take(), 4);
	ck_assert_int_eq(gap_from, 2);
	ck_assert_int_eq(gap_to, 3);
	ck_assert_int_eq(take(), 5);
	ck_assert_int_eq(gap_from, 0);
	must_be_seen(event(2, 0)); /* too late now */
}
END_TEST

START_TEST(more_than_the_bound_is_never_held)
{
	for (int i = 0; i < CTL_ORDER_MAX; i++)
		put(event(2 + i, 0));
	ck_assert_int_eq(take(), -1);
	put(event(2 + CTL_ORDER_MAX, 0));
	ck_assert_int_eq(take(), 2);
	ck_assert_int_eq(gap_from, 1);
	ck_assert_int_eq(gap_to, 1);
}
END_TEST

START_TEST(a_message_without_sequence_keeps_its_place)
{
	put(event(1, 0));
	ck_assert_int_eq(take(), 1);
	put(event(3, 0));
	put(plain("task_completed", 9)); /* came behind 3, and is shown behind it */
	ck_assert_int_eq(take(), -1);
	put(event(4, 0));
	put(event(2, 0));
	ck_assert_int_eq(take(), 2);
	ck_assert_int_eq(take(), 3);
	ck_assert_int_eq(take(), 0);
	ck_assert_int_eq(take(), 4);
}
END_TEST

START_TEST(a_watcher_that_joins_late_begins_where_it_is)
{
	order.next = 0;
	put(event(41, 0));
	ck_assert_int_eq(take(), 41);
	ck_assert_int_eq(gap_from, 0);
	put(event(43, 0));
	ck_assert_int_eq(take(), -1);
}
END_TEST

START_TEST(events_of_an_earlier_run_are_known_and_no_gap_is_told) /* proves L2-14 */
{
	order = (struct ctl_reorder){.floor = 5};
	must_be_seen(event(4, 1));
	must_be_seen(event(5, 2));
	put(event(8, 3)); /* 6 and 7 were shown after the 5 had been written down */
	ck_assert_int_eq(take(), 8);
	ck_assert(gap_from == 0 && gap_to == 0);
	must_be_seen(event(7, 4));
	put(event(9, 5));
	ck_assert_int_eq(take(), 9);
}
END_TEST

START_TEST(text_that_is_no_message_is_not_read)
{
	static const char *const bad[] = {"", "{", "[]", "7", "{}", "{\"type\":1,\"payload\":{}}",
		"{\"type\":\"event\"}", "{\"type\":\"event\",\"payload\":[]}"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(!ctl_message_read(xstrdup(bad[i]), strlen(bad[i])), "%s", bad[i]);
}
END_TEST

START_TEST(a_message_with_odd_fields_is_read_as_far_as_it_goes)
{
	const char *text =
		"{\"type\":\"event\",\"session_id\":7,\"payload\":{\"event_type\":[],\"sequence\":-3,"
		"\"data\":\"x\"}}";
	struct ctl_message *n = ctl_message_read(xstrdup(text), strlen(text));

	ck_assert_ptr_nonnull(n);
	ck_assert_str_eq(n->session, "");
	ck_assert_str_eq(n->event, "");
	ck_assert_int_eq(n->sequence, 0);
	ck_assert(json_is_object(n->data));
	ctl_message_free(n);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_order");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, events_in_order_go_out_at_once);
	tcase_add_test(tc, early_events_wait_for_the_missing_ones);
	tcase_add_test(tc, event_that_was_handed_out_is_not_handed_out_again);
	tcase_add_test(tc, held_event_that_comes_again_gets_the_new_tag);
	tcase_add_test(tc, a_gap_is_told_after_five_seconds_and_passed_over);
	tcase_add_test(tc, more_than_the_bound_is_never_held);
	tcase_add_test(tc, a_message_without_sequence_keeps_its_place);
	tcase_add_test(tc, a_watcher_that_joins_late_begins_where_it_is);
	tcase_add_test(tc, events_of_an_earlier_run_are_known_and_no_gap_is_told);
	tcase_add_test(tc, text_that_is_no_message_is_not_read);
	tcase_add_test(tc, a_message_with_odd_fields_is_read_as_far_as_it_goes);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
