/* SPDX-License-Identifier: MIT */
/* duration.c: lengths of time as text, ISO 8601 and the short form of INI files.
 * Owns what counts as a duration.
 * Never rounds up: what is finer than a microsecond is cut off. */
#include "base/duration.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define WEEK (7 * DAY)

/* A decimal number; its fraction is kept as text until the unit is known, so that 0.1H is exact. */
struct number {
	int64_t whole;
	const char *fraction;
	size_t fraction_size;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool take_number(const char **p, struct number *n)
{
	*n = (struct number){0};
	if (!is_digit(**p))
		return false;
	for (; is_digit(**p); (*p)++)
		if (__builtin_mul_overflow(n->whole, 10, &n->whole) ||
			__builtin_add_overflow(n->whole, **p - '0', &n->whole))
			return false;
	if (**p != '.' && **p != ',')
		return true;
	n->fraction = ++*p;
	while (is_digit(**p))
		(*p)++;
	n->fraction_size = (size_t)(*p - n->fraction);
	return n->fraction_size > 0;
}

/* From the last digit to the first: dividing by ten each time cuts off only what is below the microsecond,
 * however many digits there are. */
static bool add_number(int64_t *sum, const struct number *n, int64_t unit)
{
	int64_t whole, fraction = 0;

	for (size_t i = n->fraction_size; i > 0; i--)
		fraction = (fraction + (n->fraction[i - 1] - '0') * unit) / 10;
	return !__builtin_mul_overflow(n->whole, unit, &whole) && !__builtin_add_overflow(*sum, whole, sum) &&
		!__builtin_add_overflow(*sum, fraction, sum);
}

/* Components in the order of `letters`, each at most once, at least one, a fraction only in the last. */
static bool take_components(
	const char **p, const char *letters, const int64_t *units, int64_t *sum, bool *ended)
{
	size_t next = 0;
	bool any = false;

	while (is_digit(**p)) {
		struct number n;
		const char *letter;

		if (*ended || !take_number(p, &n) || **p == '\0')
			return false;
		letter = strchr(letters + next, **p);
		if (!letter || !add_number(sum, &n, units[letter - letters]))
			return false;
		(*p)++;
		next = (size_t)(letter - letters) + 1;
		*ended = n.fraction != NULL;
		any = true;
	}
	return any;
}

bool duration_parse_iso(const char *text, int64_t *us)
{
	static const int64_t week[] = {WEEK}, day[] = {DAY}, time[] = {HOUR, MINUTE, SECOND};
	const char *p = text;
	int64_t sum = 0;
	bool ended = false;

	if (*p++ != 'P')
		return false;
	if (*p != 'T') {
		const char *start = p;

		if (!take_components(&p, "D", day, &sum, &ended)) {
			p = start;
			sum = 0;
			ended = false;
			if (!take_components(&p, "W", week, &sum, &ended) || *p != '\0')
				return false;
		}
	}
	if (*p == 'T') {
		p++;
		if (!take_components(&p, "HMS", time, &sum, &ended))
			return false;
	}
	if (*p != '\0')
		return false;
	*us = sum;
	return true;
}

bool duration_parse(const char *text, int64_t *us)
{
	static const struct {
		const char *name;
		int64_t us;
	} units[] = {{"ms", 1000}, {"s", SECOND}, {"m", MINUTE}, {"h", HOUR}, {"d", DAY}};
	const char *p = text;
	struct number n;
	int64_t sum = 0;

	if (*text == 'P')
		return duration_parse_iso(text, us);
	if (!take_number(&p, &n))
		return false;
	if (*p == '\0' && n.whole == 0 && !n.fraction) {
		*us = 0;
		return true;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(p, units[i].name) != 0)
			continue;
		if (!add_number(&sum, &n, units[i].us))
			return false;
		*us = sum;
		return true;
	}
	return false;
}

static size_t put_component(char *out, size_t used, int64_t value, char letter)
{
	if (value == 0)
		return used;
	used += text_put_int(out + used, value);
	out[used++] = letter;
	out[used] = '\0';
	return used;
}

/* Seconds with their milliseconds, of which there are some. */
static void put_fraction(char *out, size_t used, int64_t ms)
{
	int left = (int)(ms % 1000);

	used += text_put_int(out + used, ms / 1000 % 60);
	out[used++] = '.';
	for (int unit = 100; left > 0; left %= unit, unit /= 10)
		out[used++] = (char)('0' + left / unit);
	out[used++] = 'S';
	out[used] = '\0';
}

void duration_format(int64_t us, char out[DURATION_TEXT_SIZE])
{
	int64_t ms = us > 0 ? us / 1000 : 0, in_day = ms % (DAY / 1000);
	size_t used = 1;

	if (ms == 0) {
		memcpy(out, "PT0S", sizeof("PT0S"));
		return;
	}
	out[0] = 'P';
	used = put_component(out, used, ms / (DAY / 1000), 'D');
	if (in_day == 0)
		return;
	out[used++] = 'T';
	used = put_component(out, used, in_day / 3600000, 'H');
	used = put_component(out, used, in_day / 60000 % 60, 'M');
	if (ms % 1000 != 0)
		put_fraction(out, used, in_day);
	else
		put_component(out, used, in_day / 1000 % 60, 'S');
}
