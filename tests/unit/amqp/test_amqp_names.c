/* SPDX-License-Identifier: MIT */
/* test_amqp_names.c: the names at the broker, as other programs and the permissions of a broker know them. */
#include "amqp/names.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char out[64];

START_TEST(exchanges_keep_their_names)
{
	ck_assert_str_eq(EXCHANGE_COMMANDS, "hcp.commands");
	ck_assert_str_eq(EXCHANGE_EVENTS, "hcp.events");
	ck_assert_str_eq(EXCHANGE_HARP, "harp.sessions");
	ck_assert_str_eq(EXCHANGE_DEAD, "hcp.dead");
}
END_TEST

START_TEST(a_queue_has_the_id_of_its_owner)
{
	names_command_queue(out, sizeof out, "callee-1");
	ck_assert_str_eq(out, "hcp.cmd.callee-1");
	names_event_queue(out, sizeof out, "team:one", NULL);
	ck_assert_str_eq(out, "hcp.evt.team:one");
	names_event_queue(out, sizeof out, "team:one", "i");
	ck_assert_str_eq(out, "hcp.evt.team:one.i");
}
END_TEST

START_TEST(a_key_has_caller_session_and_type)
{
	names_event_key(out, sizeof out, "team:one", "s-1", "task_accepted");
	ck_assert_str_eq(out, "team:one.s-1.task_accepted");
	names_event_key(out, sizeof out, "team:one", NULL, "task_rejected");
	ck_assert_str_eq(out, "team:one.-.task_rejected");
	names_event_key(out, sizeof out, "team:one/harp", "s-1", "session.start");
	ck_assert_str_eq(out, "team:one.s-1.session.start");
}
END_TEST

START_TEST(a_binding_takes_all_of_a_caller_or_of_a_session)
{
	names_event_binding(out, sizeof out, "team:one", NULL);
	ck_assert_str_eq(out, "team:one.#");
	names_event_binding(out, sizeof out, "team:one", "s-1");
	ck_assert_str_eq(out, "team:one.s-1.#");
}
END_TEST

START_TEST(a_name_that_is_too_long_is_cut_off)
{
	char small[12];

	memset(small, 'x', sizeof small);
	names_command_queue(small, sizeof small, "abcdef");
	ck_assert_str_eq(small, "hcp.cmd.abc");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("amqp_names");
	TCase *t = tcase_create("names");
	SRunner *r;
	int failed;

	tcase_add_test(t, exchanges_keep_their_names);
	tcase_add_test(t, a_queue_has_the_id_of_its_owner);
	tcase_add_test(t, a_key_has_caller_session_and_type);
	tcase_add_test(t, a_binding_takes_all_of_a_caller_or_of_a_session);
	tcase_add_test(t, a_name_that_is_too_long_is_cut_off);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
