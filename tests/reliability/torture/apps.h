/* SPDX-License-Identifier: MIT */
/* apps.h: an application of libhcp beside the other callers: killed, frozen, started again, and checked by
 * its own file and the daemon's store. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_APPS_H
#define HCPD_TESTS_RELIABILITY_TORTURE_APPS_H

#include <stdbool.h>

#include "support/rig.h"

void app_begin(struct rig *r, const char *program, unsigned seed); /* program: path of app */
void app_kill(void);
void app_freeze(bool on);
void app_revive(void);     /* does nothing where it runs */
void app_bind_again(void); /* its binding went with the exchange */
void app_be_quiet(void);   /* submits nothing new, in this life and the next */
bool app_is_over(void);    /* all answered, all closed, and all of it stored */
/* After the daemon's end: ends it, and reports what is not there exactly once and in order. */
void app_check(void);
/* The same for any two files; how many rows the application stored. */
long app_check_files(const char *file, const char *store);

#endif
