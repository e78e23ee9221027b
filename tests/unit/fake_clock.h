/* fake_clock.h: both clocks in the test's hand. Include it in one file of a program: it replaces clock.c's.
 * Time stands still until the test lets it pass. */
#ifndef HCPD_FAKE_CLOCK_H
#define HCPD_FAKE_CLOCK_H

#include "base/clock.h"

#define FAKE_SECOND INT64_C(1000000)

#ifdef FAKE_TYPES_ONLY

#define fake_boot_us clock_boot_us()

#else

static int64_t fake_boot_us = 5000 * FAKE_SECOND;
static int64_t fake_wall_us = INT64_C(1769860800) * FAKE_SECOND; /* 2026-01-31T12:00:00Z */

int64_t clock_boot_us(void)
{
	return fake_boot_us;
}

int64_t clock_wall_us(void)
{
	return fake_wall_us;
}

static inline void fake_clock_pass(int64_t us)
{
	fake_boot_us += us;
	fake_wall_us += us;
}

/* Somebody sets the clock on the wall; the boot clock knows nothing of it. */
static inline void fake_clock_step_wall(int64_t us)
{
	fake_wall_us += us;
}

#endif
#endif
