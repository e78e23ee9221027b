/* SPDX-License-Identifier: MIT */
/* bus_suite.c: what bus_suite.h declares. */
#include "support/bus_suite.h"

struct config *bus_config;

static void set_up(void)
{
	static int n;
	char callee[32];

	snprintf(callee, sizeof callee, "bus%d", n++);
	bus_config = bus_kit_make_config(callee);
}

struct bus_health bus_user_health(struct bus_user *c)
{
	struct bus_health h;

	bus_get_health(c->bus, &h);
	return h;
}

int bus_suite_run(const char *name, int timeout_s, void (*add_tests)(TCase *t))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed = 0;

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_set_timeout(t, timeout_s);
	add_tests(t);
	if (bus_kit_open(name)) {
		srunner_run_all(r, CK_ENV);
		failed = srunner_ntests_failed(r);
		bus_kit_close();
	}
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
