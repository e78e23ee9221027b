/* SPDX-License-Identifier: MIT */
/* violations.h: what was found to be wrong, counted and shown as it is found. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_VIOLATIONS_H
#define HCPD_TESTS_RELIABILITY_TORTURE_VIOLATIONS_H

#include <stddef.h>

/* One violation of an invariant, with its evidence. From any thread. */
void violation(const char *invariant, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int violation_count(void);
/* The same, as the shared oracles report it. */
void violation_of_rule(void *ctx, const char *rule, const char *what);
/* One line on stdout, with the seconds since the run began; from any thread. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Seconds since the first call, as the lines show them. */
double say_clock(void);

#endif
