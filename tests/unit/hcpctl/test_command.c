/* SPDX-License-Identifier: MIT */
/* test_command.c: what hcpctl's commands share: with which status they end. */
#include <check.h>
#include <stdlib.h>

#include "hcpctl/common/command.h"

static void keep_quiet(void *ctx, const char *text, size_t size)
{
	(void)ctx, (void)text, (void)size;
}

static const struct {
	int code;
	bool is_login;
	int status;
} brokers[] = {
	{0, false, CTL_UNAVAILABLE},   /* nobody answers */
	{320, false, CTL_UNAVAILABLE}, /* connection-forced: it shuts down */
	{541, false, CTL_UNAVAILABLE}, /* internal-error */
	{403, false, CTL_ERROR},       /* access-refused */
	{404, false, CTL_ERROR},       /* not-found */
	{405, false, CTL_ERROR},       /* resource-locked */
	{530, false, CTL_ERROR},       /* not-allowed */
	{403, true, CTL_BAD_SETTINGS},
};

START_TEST(command_tells_a_broker_that_refuses_from_an_absent_one)
{
	struct config config = {.state_dir = NULL};
	struct ctl_settings s = {.config = &config};
	struct connection_error e = {
		.code = brokers[_i].code, .is_login = brokers[_i].is_login, .text = "no"};

	config.amqp.url = (char *)(uintptr_t) "amqp://here";
	ctl_say_via(keep_quiet, NULL);
	ck_assert_int_eq(ctl_command_unreachable(&s, &e), brokers[_i].status);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("command");
	TCase *tc = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, command_tells_a_broker_that_refuses_from_an_absent_one, 0,
		(int)(sizeof brokers / sizeof *brokers));
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
