/* SPDX-License-Identifier: MIT */
/* test_group.c: which messages wait for more. A handle without a broker or a file: only what group.c looks
 * at is set, and the time is the test's. */
#include <check.h>
#include <stdlib.h>

#include "libhcp/libhcp_private.h"

#define PREFETCH 100
#define NOW_US INT64_C(5000000)

static struct lib_settings settings;
static struct hcp handle;

static struct hcp *make_handle(size_t settled)
{
	settings = (struct lib_settings){.prefetch = PREFETCH};
	handle = (struct hcp){.settings = &settings, .batch_max = PREFETCH, .batch_us = 100000};
	handle.connection = (struct connection *)&handle; /* some connection: nobody looks into it */
	lib_group_end(&handle, settled, NOW_US);
	return &handle;
}

START_TEST(messages_of_a_stream_wait_until_half_the_prefetch_came)
{
	struct hcp *h = make_handle(PREFETCH);

	h->inbox_count = PREFETCH / 2 - 1;
	ck_assert(lib_group_is_gathering(h, NOW_US));
	h->inbox_count = PREFETCH / 2;
	ck_assert(!lib_group_is_gathering(h, NOW_US));
}
END_TEST

START_TEST(messages_wait_for_their_group_a_moment_and_no_longer)
{
	struct hcp *h = make_handle(PREFETCH);

	h->inbox_count = 1;
	ck_assert(lib_group_is_gathering(h, h->gather_until_us - 1));
	ck_assert(!lib_group_is_gathering(h, h->gather_until_us));
	ck_assert_int_lt(h->gather_until_us, NOW_US + 10000);
}
END_TEST

START_TEST(message_that_comes_alone_does_not_wait)
{
	struct hcp *h = make_handle(PREFETCH);

	h->inbox_count = 1;
	lib_group_end(h, 0, NOW_US); /* a turn without messages changes nothing */
	ck_assert(lib_group_is_gathering(h, NOW_US));
	lib_group_end(h, 1, NOW_US);
	ck_assert(!lib_group_is_gathering(h, NOW_US));
}
END_TEST

START_TEST(messages_that_are_parked_do_not_fill_a_group)
{
	struct hcp *h = make_handle(PREFETCH);

	h->inbox_count = PREFETCH / 2;
	h->parked = 1;
	ck_assert(lib_group_is_gathering(h, NOW_US));
}
END_TEST

START_TEST(group_is_complete_with_batch_max_messages)
{
	struct hcp *h = make_handle(PREFETCH);

	h->batch_max = 7;
	h->inbox_count = 6;
	ck_assert(lib_group_is_gathering(h, NOW_US));
	h->inbox_count = 7;
	ck_assert(!lib_group_is_gathering(h, NOW_US));
}
END_TEST

START_TEST(nothing_waits_longer_than_batch_ms_says)
{
	struct hcp *h = make_handle(0);

	h->batch_us = 1000;
	h->inbox_count = 1;
	lib_group_end(h, PREFETCH, NOW_US);
	ck_assert(lib_group_is_gathering(h, NOW_US + 999));
	ck_assert(!lib_group_is_gathering(h, NOW_US + 1000));
}
END_TEST

START_TEST(nothing_waits_where_no_more_can_come)
{
	struct hcp *h = make_handle(PREFETCH);

	h->inbox_count = 1;
	h->connection = NULL;
	ck_assert(!lib_group_is_gathering(h, NOW_US));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp group");
	TCase *t = tcase_create("group");
	SRunner *r;
	int failed;

	tcase_add_test(t, messages_of_a_stream_wait_until_half_the_prefetch_came);
	tcase_add_test(t, messages_wait_for_their_group_a_moment_and_no_longer);
	tcase_add_test(t, message_that_comes_alone_does_not_wait);
	tcase_add_test(t, messages_that_are_parked_do_not_fill_a_group);
	tcase_add_test(t, group_is_complete_with_batch_max_messages);
	tcase_add_test(t, nothing_waits_longer_than_batch_ms_says);
	tcase_add_test(t, nothing_waits_where_no_more_can_come);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
