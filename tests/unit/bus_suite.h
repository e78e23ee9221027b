/* bus_suite.h: the frame of every test program of the bus: a configuration a test, and the run with a
 * virtual host of its own. The broker, the core and the peers: bus_kit.h. */
#ifndef BUS_SUITE_H
#define BUS_SUITE_H

#include "bus_kit.h"

static struct config *config;

static void set_up(void)
{
	static int n;
	char callee[32];

	snprintf(callee, sizeof callee, "bus%d", n++);
	config = kit_make_config(callee);
}

static inline struct bus_health health_of(struct core *c)
{
	struct bus_health h;

	bus_get_health(c->bus, &h);
	return h;
}

/* timeout_s is a test's. Without a broker nothing runs, and a line says so. */
static inline int bus_suite_run(const char *name, int timeout_s, void (*add_tests)(TCase *t))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed = 0;

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_set_timeout(t, timeout_s);
	add_tests(t);
	if (kit_open(name)) {
		srunner_run_all(r, CK_ENV);
		failed = srunner_ntests_failed(r);
		kit_close();
	}
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
