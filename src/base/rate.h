/* SPDX-License-Identifier: MIT */
/* rate.h: so many a time, with a burst: a token bucket whose whole state is one instant. A leaf. */
#ifndef HCPD_BASE_RATE_H
#define HCPD_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct rate_limit {
	int64_t count, period_us; /* count 0: no limit */
	int burst;                /* from 1 on: how many may come at once after a rest */
};

/* When the bucket is full again, on the clock that `now_us` is read from; all zero is a full one. */
struct rate {
	int64_t full_at_ns;
};

/* 0 where one more may come now, else how long until it may. `rate` NULL is a full bucket. Changes
 * nothing. */
int64_t rate_wait_us(const struct rate_limit *limit, const struct rate *rate, int64_t now_us);
/* One came. */
void rate_take(const struct rate_limit *limit, struct rate *rate, int64_t now_us);

/* "60/min", "2/s", "1000/h"; "off" is none. False where it is not one. The burst stays as it is. */
bool rate_parse(const char *text, struct rate_limit *limit);

/* The buckets, by name of the section: they outlive a reload. */
struct rates {
	struct rate_named *table;
};
struct rate *rates_get(struct rates *r, const char *name); /* made where there is none */
void rates_fini(struct rates *r);

#endif
