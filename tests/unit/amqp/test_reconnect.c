/* SPDX-License-Identifier: MIT */
/* test_reconnect.c: the waits between two attempts to connect, as each user of the back-off has them, against
 * the formulas of these users; and the guard of a socket. */
#include "amqp/reconnect.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/id.h"
#include "bus/bus_private.h"
#include "hcpctl/caller/broker.h"
#include "libhcp/libhcp_private.h"

#define S INT64_C(1000000)
#define DAY (86400 * S)
#define STEPS 24
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* The dice: every user gets this number, from the operating system's source (id_random is weak) or from a
 * clock. */
static uint32_t dice;

void id_random(void *out, size_t size)
{
	ck_assert_uint_eq(size, sizeof dice);
	memcpy(out, &dice, size);
}

static uint64_t read_dice(void)
{
	return dice;
}

static const uint32_t throws[] = {0, 1, 199, 200, 400, 401, 100000, 599999, 5999999, 6000000, UINT32_MAX};

static const int64_t maxima[] = {S / 10, S / 2, S, S + 1, 3 * S, 60 * S, 3600 * S, DAY};

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* --- the formulas, each written out for the attempt's number, which counts from 0 --- */

static int64_t failure_us(int attempt, int64_t most_us)
{
	int64_t us = lesser(S << (attempt < 12 ? attempt : 12), most_us);

	return lesser(us * (800 + dice % 401) / 1000, most_us);
}

static int64_t soft_us(int attempt, int64_t most_us)
{
	int64_t us = lesser(lesser(INT64_C(20000) << (attempt < 8 ? attempt : 8), S), most_us);

	return lesser(us * (800 + dice % 401) / 1000, most_us);
}

static int64_t publisher_us(int attempt, int64_t most_us)
{
	return lesser(S << attempt, most_us);
}

static int64_t consumer_us(int attempt, int64_t most_us)
{
	return publisher_us(attempt, most_us) * (800 + dice % 401) / 1000;
}

static int64_t tool_us(int attempt)
{
	int64_t us = lesser(S << attempt, 60 * S);

	return attempt == 0 ? us : us + dice % (us / 10);
}

/* --- the users --- */

enum user { FAILURE, SOFT, CONSUMER, PUBLISHER, TOOL, USERS };

static struct backoff backoff_of(enum user u, int64_t most_us)
{
	switch (u) {
	case FAILURE: return BUS_BACKOFF_FAILURE(most_us);
	case SOFT: return BUS_BACKOFF_SOFT(most_us);
	case CONSUMER: return LIB_BACKOFF_CONSUMER(most_us);
	case PUBLISHER: return LIB_BACKOFF_PUBLISHER(most_us);
	default: return CTL_BACKOFF(read_dice);
	}
}

static int64_t formula_us(enum user u, int attempt, int64_t most_us)
{
	switch (u) {
	case FAILURE: return failure_us(attempt, most_us);
	case SOFT: return soft_us(attempt, most_us);
	case CONSUMER: return consumer_us(attempt, most_us);
	case PUBLISHER: return publisher_us(attempt, most_us);
	default: return tool_us(attempt);
	}
}

START_TEST(each_wait_of_each_user_is_what_its_formula_gives) /* proves L1-10 */
{
	struct backoff b;

	for (int m = 0; m < COUNT(maxima); m++)
		for (int t = 0; t < COUNT(throws); t++) {
			dice = throws[t];
			b = backoff_of((enum user)_i, maxima[m]);
			for (int i = 0; i < STEPS; i++)
				ck_assert_int_eq(
					backoff_next_us(&b), formula_us((enum user)_i, i, maxima[m]));
		}
}
END_TEST

START_TEST(a_reset_begins_again_at_the_first_step)
{
	struct backoff b = backoff_of((enum user)_i, 60 * S);
	int64_t first_us = backoff_next_us(&b);

	ck_assert_int_gt(first_us, 0);
	for (int i = 0; i < 5; i++)
		ck_assert_int_gt(backoff_next_us(&b), first_us);
	backoff_reset(&b);
	ck_assert_int_eq(backoff_next_us(&b), first_us);
}
END_TEST

/* --- bounds --- */

static void check_range(enum user u, int attempt, int64_t least_us, int64_t most_us)
{
	int64_t least = INT64_MAX, most = 0;

	for (dice = 0; dice < 401; dice++) {
		struct backoff b = backoff_of(u, 60 * S);
		int64_t us = 0;

		for (int i = 0; i <= attempt; i++)
			us = backoff_next_us(&b);
		least = us < least ? us : least;
		most = us > most ? us : most;
	}
	ck_assert_int_eq(least, least_us);
	ck_assert_int_eq(most, most_us);
}

START_TEST(the_jitter_around_a_step_reaches_both_of_its_bounds) /* proves L1-10 */
{
	check_range(FAILURE, 0, S * 8 / 10, S * 12 / 10);
	check_range(FAILURE, 3, S * 64 / 10, S * 96 / 10);
	check_range(FAILURE, 6, 48 * S, 60 * S); /* the daemon never waits longer than reconnect_max */
	check_range(SOFT, 0, 16000, 24000);
	check_range(SOFT, 20, S * 8 / 10, S * 12 / 10);
	check_range(CONSUMER, 0, S * 8 / 10, S * 12 / 10);
	check_range(CONSUMER, 20, 48 * S, 72 * S); /* the library may: its jitter comes last */
	check_range(PUBLISHER, 2, 4 * S, 4 * S);
}
END_TEST

START_TEST(jitter_begins_with_the_second_step_and_is_below_a_tenth)
{
	struct backoff b = CTL_BACKOFF(read_dice);

	dice = 199999;
	ck_assert_int_eq(backoff_next_us(&b), S);
	ck_assert_int_eq(backoff_next_us(&b), 2 * S + 199999);
	dice = 400000;
	ck_assert_int_eq(backoff_next_us(&b), 4 * S);
	dice = 5999999;
	for (int i = 0; i < 10; i++)
		backoff_next_us(&b);
	ck_assert_int_eq(backoff_next_us(&b), 66 * S - 1);
}
END_TEST

/* --- the guard --- */

START_TEST(a_guard_shuts_the_socket_down_after_its_owner_closed_it)
{
	struct guard g = GUARD_NONE;
	int pair[2];
	char c;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert(!guard_shut_down(&g));
	ck_assert_int_eq(guard_open(&g, pair[0], false), 0);
	ck_assert_int_ge(g.fd, 3);
	ck_assert_int_ne(g.fd, pair[0]);
	close(pair[0]);
	ck_assert_int_eq(read(pair[1], &c, 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert(guard_shut_down(&g));
	ck_assert_int_eq(read(pair[1], &c, 1), 0);
	guard_close(&g);
	ck_assert_int_eq(g.fd, -1);
	ck_assert(!guard_shut_down(&g));
	guard_close(&g);
	close(pair[1]);
}
END_TEST

START_TEST(a_guard_that_opens_while_its_owner_ends_shuts_down_at_once)
{
	struct guard g = GUARD_NONE;
	int pair[2];
	char c;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert_int_eq(guard_open(&g, pair[0], true), 0);
	ck_assert_int_eq(read(pair[1], &c, 1), 0);
	guard_close(&g);
	close(pair[0]);
	close(pair[1]);
}
END_TEST

START_TEST(a_guard_of_no_socket_is_an_error_and_stays_empty)
{
	struct guard g = GUARD_NONE;

	ck_assert_int_eq(guard_open(&g, -1, false), -1);
	ck_assert_int_eq(errno, EBADF);
	ck_assert_int_eq(g.fd, -1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("reconnect");
	TCase *backoff = tcase_create("backoff"), *guard = tcase_create("guard");
	SRunner *r;
	int failed;

	tcase_add_loop_test(backoff, each_wait_of_each_user_is_what_its_formula_gives, 0, USERS);
	tcase_add_loop_test(backoff, a_reset_begins_again_at_the_first_step, 0, USERS);
	tcase_add_test(backoff, the_jitter_around_a_step_reaches_both_of_its_bounds);
	tcase_add_test(backoff, jitter_begins_with_the_second_step_and_is_below_a_tenth);
	suite_add_tcase(s, backoff);
	tcase_add_test(guard, a_guard_shuts_the_socket_down_after_its_owner_closed_it);
	tcase_add_test(guard, a_guard_that_opens_while_its_owner_ends_shuts_down_at_once);
	tcase_add_test(guard, a_guard_of_no_socket_is_an_error_and_stays_empty);
	suite_add_tcase(s, guard);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
