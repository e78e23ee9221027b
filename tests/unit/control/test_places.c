/* SPDX-License-Identifier: MIT */
/* test_places.c: who gets a place at the control socket, and when silence costs it. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/control_private.h"

#define SECONDS INT64_C(1000000)
#define NOW (1000 * SECONDS)

static struct control ctl;
static const char *why;

static void setup(void)
{
	memset(&ctl, 0, sizeof ctl);
	for (int i = 0; i < CLIENTS_MAX; i++)
		ctl.clients[i].fd = -1;
	why = "";
}

/* So many clients of the user, that have been silent for so long. */
static void connect_clients(
	int count, int64_t uid, int64_t silent_us, bool has_asked, enum request_state state)
{
	for (int i = 0; i < CLIENTS_MAX && count > 0; i++) {
		struct client *c = &ctl.clients[i];

		if (c->fd >= 0)
			continue;
		*c = (struct client){
			.fd = 1000 + i, .uid = uid, .heard_us = NOW - silent_us, .has_asked = has_asked};
		c->requests[1].state = state;
		count--;
	}
	ck_assert_int_eq(count, 0);
}

static struct client *find(int64_t uid)
{
	return place_find(&ctl, uid, NOW, &why);
}

START_TEST(a_user_has_a_bound_and_others_still_get_in)
{
	connect_clients(23, 1000, 0, true, REQUEST_FOLLOWING);
	ck_assert_int_eq(find(1000)->fd, -1);
	connect_clients(1, 1000, 0, true, REQUEST_FOLLOWING);
	ck_assert_ptr_null(find(1000));
	ck_assert_str_eq(why, "this user has 24 connections already");
	ck_assert_int_eq(find(1001)->fd, -1);
	ck_assert_int_eq(find(0)->fd, -1);
}
END_TEST

START_TEST(the_last_places_are_roots)
{
	for (int user = 0; user < 4; user++)
		connect_clients(14, 1000 + user, 3600 * SECONDS, true, REQUEST_FOLLOWING);
	ck_assert_ptr_null(find(2000));
	ck_assert_ptr_nonnull(strstr(why, "the last places are root's"));
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(find(0)->fd, -1);
		connect_clients(1, 0, 0, true, REQUEST_IN_CORE);
	}
	ck_assert_ptr_null(find(0));
}
END_TEST

START_TEST(silent_clients_make_room)
{
	connect_clients(CLIENTS_MAX, 0, 2 * SECONDS, false, REQUEST_FREE);
	ctl.clients[7].heard_us = NOW - 5 * SECONDS;
	ck_assert_ptr_eq(find(0), &ctl.clients[7]);
	ctl.clients[7].requests[0].state =
		REQUEST_IN_CORE; /* a client that waits for its answer is not silent */
	ck_assert_ptr_ne(find(0), &ctl.clients[7]);
	ck_assert_ptr_nonnull(find(0));
}
END_TEST

/* It was accepted in the same moment, and its line is still on its way. */
START_TEST(a_new_client_is_not_turned_out_before_it_could_speak)
{
	connect_clients(CLIENTS_MAX, 0, SECONDS / 2, false, REQUEST_FREE);
	ck_assert_ptr_null(find(0));
}
END_TEST

START_TEST(client_that_has_asked_keeps_its_place_longer)
{
	connect_clients(CLIENTS_MAX, 0, 30 * SECONDS, true, REQUEST_FREE);
	ck_assert_ptr_null(find(0));
	ctl.clients[3].heard_us = NOW - 90 * SECONDS;
	ck_assert_ptr_eq(find(0), &ctl.clients[3]);
	ctl.clients[5].has_asked = false; /* goes first, though it came later */
	ck_assert_ptr_eq(find(0), &ctl.clients[5]);
}
END_TEST

START_TEST(a_users_flood_costs_only_its_own_places)
{
	connect_clients(10, 1001, 20 * SECONDS, false, REQUEST_FREE);
	connect_clients(24, 1000, 5 * SECONDS, false, REQUEST_FREE);
	ck_assert_int_eq(find(1000)->uid, 1000);
	ck_assert_int_ge(find(1000)->fd, 0);
}
END_TEST

START_TEST(silence_ends_a_connection)
{
	struct client *c = &ctl.clients[0];

	ck_assert(place_silent_at(c) == INT64_MAX);
	connect_clients(1, 0, 0, false, REQUEST_FREE);
	ck_assert(place_silent_at(c) == NOW + 30 * SECONDS);
	c->has_asked = true;
	ck_assert(place_silent_at(c) == NOW + 600 * SECONDS);
	c->requests[2].state = REQUEST_FOLLOWING;
	ck_assert(place_silent_at(c) == INT64_MAX);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("places");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, a_user_has_a_bound_and_others_still_get_in);
	tcase_add_test(t, the_last_places_are_roots);
	tcase_add_test(t, silent_clients_make_room);
	tcase_add_test(t, a_new_client_is_not_turned_out_before_it_could_speak);
	tcase_add_test(t, client_that_has_asked_keeps_its_place_longer);
	tcase_add_test(t, a_users_flood_costs_only_its_own_places);
	tcase_add_test(t, silence_ends_a_connection);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
