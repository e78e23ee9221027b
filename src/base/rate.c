/* SPDX-License-Identifier: MIT */
/* rate.c: rate limits.
 * Owns the arithmetic of a bucket and the table of buckets. Never reads a clock: the caller says what time it
 * is.
 *
 * A bucket that leaks at a steady rate is described by the instant at which it will be full again. One more
 * pushes that instant an interval into the future; it may not be pushed further than `burst` intervals from
 * now. */
#include "base/rate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/buf.h"

#define COUNT_MAX \
	INT64_C(1000000) /* a period; 60 us apart for a minute, so the interval below never is 0 \
			  */

#define NAMES_MIN 1024  /* buckets: fewer are not searched for full ones */
#define NAMES_MAX 65536 /* buckets of names that anybody can make up */

struct rate_named {
	UT_hash_handle hh;
	struct rate rate;
	char name[];
};

static int64_t interval_ns(const struct rate_limit *limit)
{
	return limit->period_us * 1000 / limit->count;
}

/* Full now at the earliest, and `burst` intervals from now at the latest: debts of a tighter limit, which a
 * reload has replaced, are not carried on. */
static int64_t full_at_ns(const struct rate_limit *limit, const struct rate *rate, int64_t now_ns)
{
	int64_t most_ns = now_ns + interval_ns(limit) * limit->burst;

	return rate->full_at_ns < now_ns ? now_ns : rate->full_at_ns > most_ns ? most_ns : rate->full_at_ns;
}

int64_t rate_wait_us(const struct rate_limit *limit, const struct rate *rate, int64_t now_us)
{
	int64_t now_ns = now_us * 1000, wait_ns;

	if (limit->count <= 0 || rate == NULL)
		return 0;
	wait_ns = full_at_ns(limit, rate, now_ns) - interval_ns(limit) * (limit->burst - 1) - now_ns;
	return wait_ns <= 0 ? 0 : (wait_ns + 999) / 1000;
}

void rate_take(const struct rate_limit *limit, struct rate *rate, int64_t now_us)
{
	if (limit->count > 0)
		rate->full_at_ns = full_at_ns(limit, rate, now_us * 1000) + interval_ns(limit);
}

bool rate_parse(const char *text, struct rate_limit *limit)
{
	static const struct {
		const char *name;
		int64_t us;
	} periods[] = {{"s", 1000000}, {"min", 60 * INT64_C(1000000)}, {"h", 3600 * INT64_C(1000000)},
		{"d", 86400 * INT64_C(1000000)}};
	long long count;
	char *end;

	if (strcmp(text, "off") == 0) {
		limit->count = limit->period_us = 0;
		return true;
	}
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	count = strtoll(text, &end, 10);
	end += strspn(end, " ");
	if (errno != 0 || count < 1 || count > COUNT_MAX || *end++ != '/')
		return false;
	end += strspn(end, " ");
	for (size_t i = 0; i < sizeof periods / sizeof *periods; i++)
		if (strcmp(end, periods[i].name) == 0) {
			limit->count = count;
			limit->period_us = periods[i].us;
			return true;
		}
	return false;
}

static struct rate_named *find(const struct rates *r, const char *name)
{
	struct rate_named *n;

	HASH_FIND_STR(r->table, name, n);
	return n;
}

/* The bucket of names that share one; no name is empty. */
#define SHARED ""

const struct rate *rates_find(const struct rates *r, const char *name, bool may_share)
{
	struct rate_named *n = find(r, name);

	if (n == NULL && may_share && HASH_COUNT(r->table) >= NAMES_MAX)
		n = find(r, SHARED);
	return n != NULL ? &n->rate : NULL;
}

/* A full bucket is as good as none. The next search comes when there are twice as many as are left, or a
 * second later. */
static void sweep(struct rates *r, int64_t now_us)
{
	struct rate_named *n, *tmp;

	HASH_ITER(hh, r->table, n, tmp)
		if (n->rate.full_at_ns <= now_us * 1000) {
			HASH_DEL(r->table, n);
			free(n);
		}
	r->swept_us = now_us;
	r->sweep_at = 2 * HASH_COUNT(r->table);
	if (r->sweep_at < NAMES_MIN)
		r->sweep_at = NAMES_MIN;
}

static bool is_sweep_due(const struct rates *r, int64_t now_us)
{
	unsigned count = HASH_COUNT(r->table);

	return count >= NAMES_MIN &&
		(count >= NAMES_MAX ? now_us - r->swept_us >= 1000000 : count >= r->sweep_at);
}

struct rate *rates_get(struct rates *r, const char *name, bool may_share, int64_t now_us)
{
	struct rate_named *n = find(r, name);
	size_t size;

	if (n != NULL)
		return &n->rate;
	if (is_sweep_due(r, now_us))
		sweep(r, now_us);
	if (may_share && HASH_COUNT(r->table) >= NAMES_MAX) {
		if ((n = find(r, SHARED)) != NULL)
			return &n->rate;
		name = SHARED;
	}
	size = strlen(name);
	n = xcalloc(1, sizeof *n + size + 1);
	memcpy(n->name, name, size);
	HASH_ADD_STR(r->table, name, n);
	return &n->rate;
}

size_t rates_count(const struct rates *r)
{
	return HASH_COUNT(r->table);
}

void rates_fini(struct rates *r)
{
	struct rate_named *n, *tmp;

	HASH_ITER(hh, r->table, n, tmp) {
		HASH_DEL(r->table, n);
		free(n);
	}
}
