/* SPDX-License-Identifier: MIT */
/* clock.h: the two clocks, and time as text. A leaf: a test that defines
 * clock_boot_us or clock_wall_us itself replaces ours (they are weak).
 *
 * Deadlines run on the boot clock (no step, counts suspend); what is stored or sent is wall time. */
#ifndef HCPD_BASE_CLOCK_H
#define HCPD_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_TEXT_SIZE 25 /* "2026-01-31T12:34:56.789Z" and its NUL */

int64_t clock_boot_us(void);
int64_t clock_wall_us(void);

/* Always UTC, always milliseconds. */
void clock_format(int64_t wall_us, char out[CLOCK_TEXT_SIZE]);
/* Any ISO 8601 form of a UTC instant: date and time with `T`, `t` or a space, seconds optional, any
 * number of fraction digits after `.` or `,`, `Z`, `z` or a zero offset (+00:00, +00, -00:00); also the
 * basic form 20260131T123456Z. Other offsets are converted. False if it is not one. */
bool clock_parse(const char *text, int64_t *wall_us);

#endif
