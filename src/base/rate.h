/* SPDX-License-Identifier: MIT */
/* rate.h: so many a time, with a burst: a token bucket whose whole state is one instant. A leaf. */
#ifndef HCPD_BASE_RATE_H
#define HCPD_BASE_RATE_H

#include <stdbool.h>
#include <stddef.h>
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

/* The buckets, by name: they outlive a reload. A full bucket says nothing and may be dropped at any time. */
struct rates {
	struct rate_named *table;
	unsigned sweep_at; /* so many: look for full ones ... */
	int64_t swept_us;  /* ... again */
};
/* may_share: anybody can make up such names; where very many of those buckets are not full, all further names
 * have one together. */
const struct rate *rates_find(const struct rates *r, const char *name, bool may_share); /* NULL: full */
/* For rate_take; made where there is none. */
struct rate *rates_get(struct rates *r, const char *name, bool may_share, int64_t now_us);
size_t rates_count(const struct rates *r); /* buckets in memory */
void rates_fini(struct rates *r);

#endif
