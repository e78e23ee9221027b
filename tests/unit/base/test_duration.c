/* SPDX-License-Identifier: MIT */
/* test_duration.c: durations as text. */
#include "base/duration.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define US INT64_C(1000000)
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const struct {
	const char *text;
	int64_t us; /* -1: refused */
} iso[] = {
	{"PT72H", 72 * 3600 * US},
	{"PT2H15M", 8100 * US},
	{"P1DT30M", 88200 * US},
	{"PT0.5S", US / 2},
	{"PT0,5S", US / 2},
	{"P2W", 14 * 86400 * US},
	{"P1D", 86400 * US},
	{"PT0S", 0},
	{"P0D", 0},
	{"PT1M", 60 * US},
	{"PT1H1M1S", 3661 * US},
	{"PT1H1S", 3601 * US},
	{"PT90M", 5400 * US},
	{"P1DT1H1M1.001S", 90061 * US + 1000},
	{"PT0.000001S", 1},
	{"PT0.0000019S", 1},
	{"PT0.1H", 360 * US},
	{"PT0.5M", 30 * US},
	{"P0.5D", 43200 * US},
	{"P0.5W", 302400 * US},
	{"PT036H", 36 * 3600 * US},
	{"PT0.333333333333333333333333333333333333333333S", 333333},
	{"PT9223372036854S", 9223372036854 * US},
	{"PT9223372036854.775807S", INT64_MAX},

	{"", -1},
	{"P", -1},
	{"PT", -1},
	{"P1DT", -1},
	{"T1H", -1},
	{"1H", -1},
	{"PT1", -1},
	{"PT1H ", -1},
	{" PT1H", -1},
	{"P1Y", -1},
	{"P1M", -1},
	{"P1Y2M3D", -1},
	{"-PT1H", -1},
	{"PT-1H", -1},
	{"+PT1H", -1},
	{"P1W2D", -1},
	{"P2D1W", -1},
	{"P1WT1H", -1},
	{"PT1S1M", -1},
	{"PT1M1M", -1},
	{"PT1.5H30M", -1},
	{"P0.5DT1H", -1},
	{"PT.5S", -1},
	{"PT1.S", -1},
	{"PT1.2.3S", -1},
	{"pt1h", -1},
	{"PT1h", -1},
	{"P1H", -1},
	{"PT1D", -1},
	{"PT1W", -1},
	{"PT1HX", -1},
	{"PTT1H", -1},
	{"PT1HT1M", -1},
	{"PT1e3S", -1},
	{"PT9223372036855S", -1},
	{"PT9223372036854.775808S", -1},
	{"PT99999999999999999999S", -1},
	{"P9223372036854775807D", -1},
	{"P106751992D", -1},
	{"30s", -1},
	{"0", -1},
	{"P٣D", -1},
};

START_TEST(a_wire_duration_is_read_exactly_or_refused) /* proves L1-12 */
{
	int64_t us = -7;
	bool ok = duration_parse_iso(iso[_i].text, &us);

	ck_assert_msg(ok == (iso[_i].us >= 0), "\"%s\" was %s", iso[_i].text, ok ? "taken" : "refused");
	ck_assert_msg(us == (ok ? iso[_i].us : -7), "\"%s\" gave %lld", iso[_i].text, (long long)us);
}
END_TEST

static const struct {
	const char *text;
	int64_t us;
} shorts[] = {
	{"30s", 30 * US},
	{"10m", 600 * US},
	{"2h", 7200 * US},
	{"1.5h", 5400 * US},
	{"250ms", US / 4},
	{"1d", 86400 * US},
	{"0", 0},
	{"00", 0},
	{"0s", 0},
	{"0.5ms", 500},
	{"1,5s", 1500000},
	{"PT1H", 3600 * US},
	{"P1D", 86400 * US},
	{"", -1},
	{"30", -1},
	{"s", -1},
	{"30 s", -1},
	{"30sec", -1},
	{"-1s", -1},
	{"+1s", -1},
	{"1h30m", -1},
	{"1.s", -1},
	{".5s", -1},
	{"0.0", -1},
	{"30S", -1},
	{"30us", -1},
	{"1w", -1},
	{"9223372036855s", -1},
	{"P1Y", -1},
	{"30s ", -1},
	{"0x10s", -1},
	{"99999999999999999999", -1},
};

START_TEST(a_short_duration_is_read_exactly_or_refused)
{
	int64_t us = -7;
	bool ok = duration_parse(shorts[_i].text, &us);

	ck_assert_msg(ok == (shorts[_i].us >= 0), "\"%s\" was %s", shorts[_i].text, ok ? "taken" : "refused");
	ck_assert_msg(us == (ok ? shorts[_i].us : -7), "\"%s\" gave %lld", shorts[_i].text, (long long)us);
}
END_TEST

static const struct {
	int64_t us;
	const char *text;
} forms[] = {
	{0, "PT0S"},
	{999, "PT0S"},
	{-5, "PT0S"},
	{INT64_MIN, "PT0S"},
	{1000, "PT0.001S"},
	{US / 2, "PT0.5S"},
	{1500000, "PT1.5S"},
	{1010000, "PT1.01S"},
	{60 * US, "PT1M"},
	{60500000, "PT1M0.5S"},
	{8100 * US, "PT2H15M"},
	{3600 * US, "PT1H"},
	{3601 * US, "PT1H1S"},
	{86400 * US, "P1D"},
	{88200 * US, "P1DT30M"},
	{90061001000, "P1DT1H1M1.001S"},
	{72 * 3600 * US, "P3D"},
	{INT64_MAX, "P106751991DT4H54.775S"},
};

START_TEST(a_duration_is_written_in_its_canonical_form)
{
	char out[DURATION_TEXT_SIZE];

	memset(out, '~', sizeof(out));
	duration_format(forms[_i].us, out);
	ck_assert_str_eq(out, forms[_i].text);
}
END_TEST

START_TEST(written_text_reads_back_to_the_millisecond)
{
	srandom(20260131);
	for (int i = 0; i < 200000; i++) {
		int64_t us = ((int64_t)random() << 32 ^ (int64_t)random() << 8 ^ random()) >> (random() % 60),
			back;
		char out[DURATION_TEXT_SIZE];

		duration_format(us, out);
		ck_assert_msg(duration_parse_iso(out, &back), "%s", out);
		ck_assert_msg(back == us / 1000 * 1000, "%lld %s %lld", (long long)us, out, (long long)back);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("duration");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, a_wire_duration_is_read_exactly_or_refused, 0, COUNT(iso));
	tcase_add_loop_test(t, a_short_duration_is_read_exactly_or_refused, 0, COUNT(shorts));
	tcase_add_loop_test(t, a_duration_is_written_in_its_canonical_form, 0, COUNT(forms));
	tcase_add_test(t, written_text_reads_back_to_the_millisecond);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
