/* SPDX-License-Identifier: MIT */
/* fake_clock.c: what fake_clock.h declares. */
#include "support/fakes/fake_clock.h"

int64_t fake_boot_us = 5000 * FAKE_SECOND;
int64_t fake_wall_us = INT64_C(1769860800) * FAKE_SECOND; /* 2026-01-31T12:00:00Z */

int64_t fake_clock_step_us;

int64_t clock_boot_us(void)
{
	fake_boot_us += fake_clock_step_us;
	fake_wall_us += fake_clock_step_us;
	return fake_boot_us;
}

int64_t clock_wall_us(void)
{
	return fake_wall_us;
}

void fake_clock_pass(int64_t us)
{
	fake_boot_us += us;
	fake_wall_us += us;
}

void fake_clock_step_wall(int64_t us)
{
	fake_wall_us += us;
}
