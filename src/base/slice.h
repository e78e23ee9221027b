/* SPDX-License-Identifier: MIT */
/* slice.h: the share of a turn that one kind of input may take: deliveries, worker lines, operators'
 * requests. The rest of the input waits for the next turn, so a burst of one kind delays the other kinds by
 * one slice at most. */
#ifndef HCPD_BASE_SLICE_H
#define HCPD_BASE_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SLICE_US 20000

struct slice {
	int64_t until_us; /* 0: not begun in this turn */
};

/* The first question of a turn begins the slice. */
static inline bool slice_is_over(struct slice *s)
{
	int64_t now_us = clock_boot_us();

	if (s->until_us == 0)
		s->until_us = now_us + SLICE_US;
	return now_us >= s->until_us;
}

/* At the end of a turn. */
static inline void slice_renew(struct slice *s)
{
	s->until_us = 0;
}

#endif
