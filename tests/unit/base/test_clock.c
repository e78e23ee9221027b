/* SPDX-License-Identifier: MIT */
/* test_clock.c: clocks that run, and instants as text. */
#include "base/clock.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define US INT64_C(1000000)
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define NEW_YEAR INT64_C(1767225600) /* 2026-01-01T00:00:00Z */

START_TEST(the_clocks_are_those_of_the_kernel_and_go_forward)
{
	struct timespec ts;
	int64_t boot = clock_boot_us(), wall = clock_wall_us();

	clock_gettime(CLOCK_BOOTTIME, &ts);
	ck_assert_int_lt(llabs(ts.tv_sec * US + ts.tv_nsec / 1000 - boot), 5 * US);
	clock_gettime(CLOCK_REALTIME, &ts);
	ck_assert_int_lt(llabs(ts.tv_sec * US + ts.tv_nsec / 1000 - wall), 5 * US);
	for (int i = 0; i < 1000; i++) {
		int64_t now = clock_boot_us();

		ck_assert_int_ge(now, boot);
		boot = now;
	}
}
END_TEST

static const struct {
	int64_t us;
	const char *text;
} forms[] = {
	{0, "1970-01-01T00:00:00.000Z"},
	{999, "1970-01-01T00:00:00.000Z"},
	{1000, "1970-01-01T00:00:00.001Z"},
	{-1, "1969-12-31T23:59:59.999Z"},
	{-US, "1969-12-31T23:59:59.000Z"},
	{NEW_YEAR * US, "2026-01-01T00:00:00.000Z"},
	{NEW_YEAR * US - 1000, "2025-12-31T23:59:59.999Z"},
	{951782400 * US, "2000-02-29T00:00:00.000Z"},
	{4107542400 * US, "2100-03-01T00:00:00.000Z"},
	{-2203891200 * US, "1900-03-01T00:00:00.000Z"},
	{253402300799 * US + 999999, "9999-12-31T23:59:59.999Z"},
	{253402300800 * US, "9999-12-31T23:59:59.999Z"},
	{INT64_MAX, "9999-12-31T23:59:59.999Z"},
	{INT64_MIN, "0000-01-01T00:00:00.000Z"},
	{-62167219200 * US, "0000-01-01T00:00:00.000Z"},
};

START_TEST(an_instant_is_written_in_utc_with_milliseconds)
{
	char out[CLOCK_TEXT_SIZE];

	clock_format(forms[_i].us, out);
	ck_assert_str_eq(out, forms[_i].text);
}
END_TEST

START_TEST(the_text_does_not_depend_on_what_was_written_before)
{
	for (int i = 0; i < COUNT(forms); i++) {
		for (int j = 0; j < COUNT(forms); j++) {
			char out[CLOCK_TEXT_SIZE];

			clock_format(forms[i].us, out);
			clock_format(forms[j].us, out);
			ck_assert_str_eq(out, forms[j].text);
		}
	}
}
END_TEST

START_TEST(the_calendar_agrees_with_the_c_library)
{
	srandom(20260131);
	for (int i = 0; i < 100000; i++) {
		time_t second = (time_t)(((int64_t)random() << 31 ^ random()) % 315569520000 - 62167219200);
		char ours[CLOCK_TEXT_SIZE], theirs[64];
		struct tm tm;

		gmtime_r(&second, &tm);
		snprintf(theirs, sizeof(theirs), "%04d-%02d-%02dT%02d:%02d:%02d.000Z", tm.tm_year + 1900,
			tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
		clock_format(second * US, ours);
		ck_assert_str_eq(ours, theirs);
	}
}
END_TEST

START_TEST(written_text_reads_back_to_the_millisecond)
{
	srandom(1);
	for (int i = 0; i < 200000; i++) {
		int64_t us = ((int64_t)random() << 31 ^ random()) % (315569520000 * US) - 62167219200 * US,
			back;
		int64_t ms = (us - (us < 0 ? 999 : 0)) / 1000;
		char out[CLOCK_TEXT_SIZE];

		clock_format(us, out);
		ck_assert_msg(clock_parse(out, &back), "%s", out);
		ck_assert_msg(back == ms * 1000, "%lld %s %lld", (long long)us, out, (long long)back);
	}
}
END_TEST

#define NOON (NEW_YEAR + 30 * 86400 + 12 * 3600 + 34 * 60 + 56) /* 2026-01-31T12:34:56Z */

static const struct {
	const char *text;
	int64_t us;
} good[] = {
	{"2026-01-31T12:34:56.789Z", NOON *US + 789000},
	{"2026-01-31T12:34:56Z", NOON *US},
	{"2026-01-31t12:34:56z", NOON *US},
	{"2026-01-31 12:34:56Z", NOON *US},
	{"2026-01-31T12:34Z", (NOON - 56) * US},
	{"2026-01-31T12:34:56.7Z", NOON *US + 700000},
	{"2026-01-31T12:34:56,789Z", NOON *US + 789000},
	{"2026-01-31T12:34:56.123456789123456789Z", NOON *US + 123456},
	{"2026-01-31T12:34:56+00:00", NOON *US},
	{"2026-01-31T12:34:56-00:00", NOON *US},
	{"2026-01-31T12:34:56+00", NOON *US},
	{"2026-01-31T12:34:56+0000", NOON *US},
	{"20260131T123456Z", NOON *US},
	{"20260131T123456.5Z", NOON *US + US / 2},
	{"20260131T1234Z", (NOON - 56) * US},
	{"2026-01-31T14:34:56+02:00", NOON *US},
	{"2026-01-31T07:04:56-05:30", NOON *US},
	{"2026-02-01T02:34:56+14", NOON *US},
	{"2000-02-29T00:00:00Z", 951782400 * US},
	{"2026-01-30T24:00:00Z", (NEW_YEAR + 30 * 86400) * US},
	{"2025-12-31T23:59:60Z", NEW_YEAR *US},
	{"0000-01-01T00:00:00Z", -62167219200 * US},
	{"1969-12-31T23:59:59.999Z", -1000},
};

START_TEST(any_iso_form_of_an_instant_is_read)
{
	int64_t us = 0;

	ck_assert_msg(clock_parse(good[_i].text, &us), "%s", good[_i].text);
	ck_assert_msg(us == good[_i].us, "%s gave %lld, not %lld", good[_i].text, (long long)us,
		(long long)good[_i].us);
}
END_TEST

static const char *const bad[] = {
	"",
	"Z",
	"now",
	"2026",
	"2026-01-31",
	"2026-01-31T",
	"2026-01-31T12Z",
	"2026-01-31T12:34:56",
	"2026-01-31T12:34:56.Z",
	"2026-01-31T12:34:56.789",
	"2026-01-31T12:34:56ZZ",
	"2026-01-31T12:34:56Z ",
	" 2026-01-31T12:34:56Z",
	"2026-02-29T00:00:00Z",
	"1900-02-29T00:00:00Z",
	"2026-13-01T00:00:00Z",
	"2026-00-01T00:00:00Z",
	"2026-01-00T00:00:00Z",
	"2026-04-31T00:00:00Z",
	"2026-01-31T25:00:00Z",
	"2026-01-31T24:00:01Z",
	"2026-01-31T24:01Z",
	"2026-01-31T12:60:00Z",
	"2026-01-31T12:34:61Z",
	"2026-01-31T12:34:60Z",
	"2026-01-31T123456Z",
	"20260131T12:34:56Z",
	"2026-0131T12:34:56Z",
	"202601-31T12:34:56Z",
	"26-01-31T12:34:56Z",
	"+2026-01-31T12:34:56Z",
	"-026-01-31T12:34:56Z",
	"2026-01-31T12:34:56+24:00",
	"2026-01-31T12:34:56+02:60",
	"2026-01-31T12:34:56+2",
	"2026-01-31T12:34:56+",
	"2026-01-31T12:34:56+02:",
	"2026-01-31T12:34:56 Z",
	"2026-01-31_12:34:56Z",
	"2026-1-31T12:34:56Z",
	"2026-01-31T1:34:56Z",
	"2026-01-31T12:34:56+02:000",
	"2026-W05-6T12:34:56Z",
	"2026-031T12:34:56Z",
	"2026-01-31T12:34:56\u221202:00",
	"2026-01-31T-1:34:56Z",
};

START_TEST(text_that_is_no_instant_is_refused_and_changes_nothing)
{
	int64_t us = -7;

	ck_assert_msg(!clock_parse(bad[_i], &us), "\"%s\" gave %lld", bad[_i], (long long)us);
	ck_assert_int_eq(us, -7);
}
END_TEST

static void *format_many(void *arg)
{
	int64_t start = *(int64_t *)arg;
	char out[CLOCK_TEXT_SIZE];
	int64_t back;

	for (int64_t us = start; us < start + 20000 * 1000 * US; us += 1000 * US)
		if (clock_format(us, out), !clock_parse(out, &back) || back != us)
			return arg;
	return NULL;
}

START_TEST(threads_do_not_mix_up_each_others_texts)
{
	int64_t starts[4] = {0, NEW_YEAR * US, 951782400 * US, 4107542400 * US};
	pthread_t threads[4];
	void *wrong;

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, format_many, &starts[i]), 0);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
		ck_assert_ptr_null(wrong);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("clock");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, the_clocks_are_those_of_the_kernel_and_go_forward);
	tcase_add_loop_test(t, an_instant_is_written_in_utc_with_milliseconds, 0, COUNT(forms));
	tcase_add_test(t, the_text_does_not_depend_on_what_was_written_before);
	tcase_add_test(t, the_calendar_agrees_with_the_c_library);
	tcase_add_test(t, written_text_reads_back_to_the_millisecond);
	tcase_add_loop_test(t, any_iso_form_of_an_instant_is_read, 0, COUNT(good));
	tcase_add_loop_test(t, text_that_is_no_instant_is_refused_and_changes_nothing, 0, COUNT(bad));
	tcase_add_test(t, threads_do_not_mix_up_each_others_texts);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
