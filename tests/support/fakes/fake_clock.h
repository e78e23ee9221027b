/* SPDX-License-Identifier: MIT */
/* fake_clock.h: both clocks in the test's hand. A program that uses it gets this clock
 * instead of clock.c's (fakes.a). Time stands still until the test lets it pass. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_CLOCK_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_CLOCK_H

#include "base/clock.h"

#define FAKE_SECOND INT64_C(1000000)

extern int64_t fake_boot_us;
extern int64_t fake_wall_us;

/* So much passes each time that somebody looks at the boot clock: work takes time. 0 at first. */
extern int64_t fake_clock_step_us;

void fake_clock_pass(int64_t us);

/* A step of the wall clock; the boot clock does not see it. */
void fake_clock_step_wall(int64_t us);

#endif
