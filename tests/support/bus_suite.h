/* SPDX-License-Identifier: MIT */
/* bus_suite.h: the frame of every test program of the bus: a configuration a test, and the run with a
 * virtual host of its own. The broker, the core and the peers: bus_kit.h. */
#ifndef HCPD_TESTS_SUPPORT_BUS_SUITE_H
#define HCPD_TESTS_SUPPORT_BUS_SUITE_H

#include "bus_kit.h"

extern struct config *bus_config;

struct bus_health bus_user_health(struct bus_user *c);

/* timeout_s is a test's. Without a broker nothing runs, and a line says so. */
int bus_suite_run(const char *name, int timeout_s, void (*add_tests)(TCase *t));

#endif
