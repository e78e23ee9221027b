/* SPDX-License-Identifier: MIT */
/* clock.c: the boot clock, the wall clock, and instants as text.
 * Owns the calendar; a leaf: the two clocks are weak, so that a test can bring its own.
 * Never uses the time zone: everything here is UTC. */
#include "base/clock.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#define US INT64_C(1000000)
#define DAY_S INT64_C(86400)
#define FIRST_S INT64_C(-62167219200) /* 0000-01-01T00:00:00Z */
#define LAST_S INT64_C(253402300799)  /* 9999-12-31T23:59:59Z: four digits are what the form has */

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts); /* cannot fail for these two clocks on Linux */
	return (int64_t)ts.tv_sec * US + ts.tv_nsec / 1000;
}

__attribute__((weak)) int64_t clock_boot_us(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

__attribute__((weak)) int64_t clock_wall_us(void)
{
	return read_clock(CLOCK_REALTIME);
}

/* Days since 1970-01-01 in the Gregorian calendar, reckoned in eras of 400 years that begin in March, so
 * that the leap day is the last of its year. */
static int64_t days_from_date(int year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t in_era = y - era * 400;
	int64_t in_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
	int64_t shifted = days + 719468;
	int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	int64_t in_era = shifted - era * 146097;
	int64_t y = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
	int64_t in_year = in_era - (365 * y + y / 4 - y / 100);
	int64_t m = (5 * in_year + 2) / 153;

	*day = (int)(in_year - (153 * m + 2) / 5 + 1);
	*month = (int)(m < 10 ? m + 3 : m - 9);
	*year = (int)(y + era * 400 + (*month <= 2 ? 1 : 0));
}

static void put_digits(char *out, int value, int count)
{
	while (count-- > 0) {
		out[count] = (char)('0' + value % 10);
		value /= 10;
	}
}

static void format_second(int64_t second, char out[CLOCK_TEXT_SIZE])
{
	int64_t days = (second - (second < 0 ? DAY_S - 1 : 0)) / DAY_S;
	int in_day = (int)(second - days * DAY_S), year, month, day;

	date_from_days(days, &year, &month, &day);
	memcpy(out, "0000-00-00T00:00:00.000Z", CLOCK_TEXT_SIZE);
	put_digits(out, year, 4);
	put_digits(out + 5, month, 2);
	put_digits(out + 8, day, 2);
	put_digits(out + 11, in_day / 3600, 2);
	put_digits(out + 14, in_day / 60 % 60, 2);
	put_digits(out + 17, in_day % 60, 2);
}

void clock_format(int64_t wall_us, char out[CLOCK_TEXT_SIZE])
{
	/* Every event carries a time, and most fall into the second of the one before; a session's deadline
	 * is written between them. */
	static _Thread_local struct {
		char text[CLOCK_TEXT_SIZE];
		int64_t second;
	} cached[2] = {{.second = INT64_MIN}, {.second = INT64_MIN}};
	static _Thread_local unsigned last;
	int64_t second = (wall_us - (wall_us < INT64_MIN + US ? 0 : wall_us < 0 ? US - 1 : 0)) / US;
	int ms = (int)((wall_us - second * US) / 1000);

	if (second < FIRST_S || second > LAST_S) {
		ms = second < FIRST_S ? 0 : 999;
		second = second < FIRST_S ? FIRST_S : LAST_S;
	}
	if (second != cached[last].second)
		last ^= 1;
	if (second != cached[last].second) {
		format_second(second, cached[last].text);
		cached[last].second = second;
	}
	memcpy(out, cached[last].text, CLOCK_TEXT_SIZE);
	out[20] = (char)('0' + ms / 100);
	out[21] = (char)('0' + ms / 10 % 10);
	out[22] = (char)('0' + ms % 10);
}

/* --- parsing: each step moves *p over what it took --- */

static bool take_number(const char **p, int count, int *value)
{
	*value = 0;
	for (; count > 0; count--, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		*value = *value * 10 + (**p - '0');
	}
	return true;
}

static bool take_char(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static int days_in_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month == 2 && is_leap ? 29 : days[month - 1];
}

static bool take_date(const char **p, int64_t *days, bool *extended)
{
	int year, month, day;

	if (!take_number(p, 4, &year))
		return false;
	*extended = take_char(p, '-');
	if (!take_number(p, 2, &month) || (*extended && !take_char(p, '-')) || !take_number(p, 2, &day))
		return false;
	if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
		return false;
	*days = days_from_date(year, month, day);
	return true;
}

static bool take_fraction(const char **p, int64_t *us)
{
	int64_t unit = US / 10;

	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++, unit /= 10)
		*us += unit * (**p - '0'); /* beyond the microsecond unit is 0 */
	return true;
}

static bool take_time(const char **p, bool extended, int64_t *us)
{
	int hour, minute, second = 0;
	int64_t fraction = 0;

	if (!take_number(p, 2, &hour) || (extended && !take_char(p, ':')) || !take_number(p, 2, &minute))
		return false;
	if (extended ? take_char(p, ':') : **p >= '0' && **p <= '9') {
		if (!take_number(p, 2, &second))
			return false;
		if ((take_char(p, '.') || take_char(p, ',')) && !take_fraction(p, &fraction))
			return false;
	}
	/* 24:00 is the end of the day; second 60 is a leap second and counts as the next one. */
	if (hour > 24 || minute > 59 || second > 60 || (second == 60 && minute != 59))
		return false;
	if (hour == 24 && (minute > 0 || second > 0 || fraction > 0))
		return false;
	*us = (hour * 3600 + minute * 60 + second) * US + fraction;
	return true;
}

static bool take_offset(const char **p, int64_t *us)
{
	int hours, minutes = 0, sign;

	*us = 0;
	if (take_char(p, 'Z') || take_char(p, 'z'))
		return true;
	sign = **p == '-' ? -1 : 1;
	if (!take_char(p, '+') && !take_char(p, '-'))
		return false;
	if (!take_number(p, 2, &hours))
		return false;
	if ((take_char(p, ':') || **p != '\0') && !take_number(p, 2, &minutes))
		return false;
	if (hours > 23 || minutes > 59)
		return false;
	*us = sign * (hours * 3600 + minutes * 60) * US;
	return true;
}

bool clock_parse(const char *text, int64_t *wall_us)
{
	const char *p = text;
	int64_t days, in_day, offset;
	bool extended;

	if (!take_date(&p, &days, &extended))
		return false;
	if (!take_char(&p, 'T') && !take_char(&p, 't') && !take_char(&p, ' '))
		return false;
	if (!take_time(&p, extended, &in_day) || !take_offset(&p, &offset) || *p != '\0')
		return false;
	*wall_us = days * DAY_S * US + in_day - offset;
	return true;
}
