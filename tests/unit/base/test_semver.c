/* SPDX-License-Identifier: MIT */
/* test_semver.c: versions and npm's ranges. */
#include "base/semver.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const char *const versions[] = {
	"0.0.0",
	"1.2.3",
	"10.20.30",
	"1.2.3-rc.1",
	"1.2.3-rc.1+build.5",
	"1.2.3+001",
	"1.0.0-alpha-beta",
	"1.0.0--",
	"1.0.0-0",
	"1.0.0-x.7.z.92",
	"1.0.0-0a",
	"9007199254740991.0.0",
	"1.0.0+a-b.c",
	"1.0.0-99999999999999999999999",
};
static const char *const no_versions[] = {
	"",
	"1",
	"1.2",
	"1.2.x",
	"*",
	"v1.2.3",
	"=1.2.3",
	" 1.2.3",
	"1.2.3 ",
	"01.2.3",
	"1.02.3",
	"1.2.03",
	"1.2.3-",
	"1.2.3-a..b",
	"1.2.3-01",
	"1.2.3+",
	"1.2.3+a..b",
	"1.2.3.4",
	"1.2.3-a_b",
	"a.b.c",
	"-1.2.3",
	"1.2.-3",
	"9007199254740992.0.0",
	"1..3",
	"1.2.3-\xc3\xa9",
	"99999999999999999999999.0.0",
	"1.2.3-a+b+c",
	"1.2.3\n",
};

START_TEST(a_full_version_is_one)
{
	ck_assert_msg(semver_is_version(versions[_i]), "%s", versions[_i]);
}
END_TEST

START_TEST(anything_else_is_no_version)
{
	ck_assert_msg(!semver_is_version(no_versions[_i]), "%s", no_versions[_i]);
}
END_TEST

START_TEST(versions_are_ordered_as_the_specification_orders_them)
{
	static const char *const order[] = {"0.0.0-0", "0.0.0", "0.0.1", "0.1.0", "1.0.0-0", "1.0.0-2",
		"1.0.0-10", "1.0.0-99999999999999999999", "1.0.0--", "1.0.0-A", "1.0.0-alpha",
		"1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0", "10.0.0"};
	char range[128];

	for (int i = 0; i < COUNT(order); i++) {
		for (int j = 0; j < COUNT(order); j++) {
			/* The second comparator names every pre-release, so that only the order decides. */
			snprintf(range, sizeof(range), "<%s <=%s || <%s =%s", order[j], order[i], order[j],
				order[i]);
			ck_assert_msg(
				semver_satisfies(order[i], range) == (i < j), "%s < %s", order[i], order[j]);
		}
	}
}
END_TEST

static const struct {
	const char *range, *in, *out; /* versions, separated by spaces */
} ranges[] = {
	/* exact */
	{"1.2.3", "1.2.3 1.2.3+build", "1.2.4 1.2.2 1.2.3-rc"},
	{"=1.2.3", "1.2.3", "1.2.4"},
	{"v1.2.3", "1.2.3", "1.2.4"},
	{"=v1.2.3", "1.2.3", "1.2.4"},
	{"= 1.2.3", "1.2.3", "1.2.4"},
	{"1.2.3+anything", "1.2.3 1.2.3+x", "1.2.4"},
	{"1.2.3-rc.1", "1.2.3-rc.1", "1.2.3 1.2.3-rc.2"},
	{"  1.2.3  ", "1.2.3", "1.2.4"},
	/* comparisons */
	{">1.2.3", "1.2.4 2.0.0", "1.2.3 1.2.2 1.2.4-rc"},
	{">=1.2.3", "1.2.3 9.0.0", "1.2.2 1.2.3-rc"},
	{"<1.2.3", "1.2.2 0.0.0", "1.2.3 1.2.3-rc"},
	{"<=1.2.3", "1.2.3 0.1.0", "1.2.4"},
	{">= 1.2.3", "1.2.3", "1.2.2"},
	{">\t1.2.3", "1.2.4", "1.2.3"},
	{">=v1.2.3", "1.2.3", "1.2.2"},
	{">=1.2.7 <1.3.0", "1.2.7 1.2.99", "1.2.6 1.3.0 1.1.0"},
	{"<1.3.0   >=1.2.7", "1.2.8", "1.2.6"},
	{">2 <1", "", "1.0.0 2.0.0 3.0.0"},
	/* comparisons with partial versions */
	{">1.2", "1.3.0 2.0.0", "1.2.0 1.2.9"},
	{">1", "2.0.0", "1.9.9 2.0.0-rc"},
	{">=1.2", "1.2.0 1.3.0", "1.1.9 1.2.0-rc"},
	{"<1.2", "1.1.9", "1.2.0 1.2.0-rc"},
	{"<=1.2", "1.2.9 0.1.0", "1.3.0"},
	{"<=1", "1.9.9", "2.0.0 2.0.0-0"},
	{"<1", "0.9.9", "1.0.0 1.0.0-beta"},
	{">=1.x", "1.0.0 2.0.0", "0.9.9"},
	{"=1.2", "1.2.0 1.2.5", "1.3.0"},
	{">*", "", "0.0.0 1.0.0"},
	{"<*", "", "0.0.0 1.0.0"},
	{">=*", "0.0.0 5.0.0", "1.0.0-rc"},
	{"<=x", "0.0.0 5.0.0", "1.0.0-rc"},
	/* x-ranges */
	{"", "0.0.0 1.2.3", "1.2.3-rc"},
	{"*", "0.0.0 1.2.3", "1.2.3-rc"},
	{"x", "1.2.3", ""},
	{"X.X.X", "1.2.3", ""},
	{"1", "1.0.0 1.9.9", "0.9.9 2.0.0 2.0.0-0 1.5.0-rc"},
	{"1.x", "1.0.0 1.9.9", "2.0.0"},
	{"1.X.x", "1.0.0 1.9.9", "2.0.0"},
	{"1.*", "1.0.0", "2.0.0"},
	{"1.2", "1.2.0 1.2.9", "1.3.0 1.1.9"},
	{"1.2.x", "1.2.0 1.2.9", "1.3.0 1.1.9"},
	{"1.x.3", "1.0.0 1.9.0", "2.0.3"},
	{"1.2.x-rc", "1.2.0", "1.2.0-rc"},
	{"v1", "1.5.0", "2.0.0"},
	{"*.1", "1.2.3", ""},
	/* tilde */
	{"~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2 1.3.0-0"},
	{"~1.2", "1.2.0 1.2.9", "1.3.0 1.1.9"},
	{"~1", "1.0.0 1.9.9", "2.0.0 0.9.9"},
	{"~0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"},
	{"~0.2", "0.2.0", "0.3.0"},
	{"~0", "0.0.0 0.9.9", "1.0.0"},
	{"~1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.4 1.2.3 1.2.9", "1.2.3-beta.1 1.2.4-beta.2 1.3.0"},
	{"~>1.2", "1.2.5", "1.3.0"},
	{"~ 1.2.3", "1.2.3", "1.3.0"},
	{"~> 1", "1.9.9", "2.0.0"},
	{"~*", "1.0.0", "1.0.0-rc"},
	{"~1.x", "1.0.0 1.9.9", "2.0.0"},
	{"~v1.2.3", "1.2.4", "1.3.0"},
	{"~0.0.1", "0.0.1 0.0.9", "0.1.0"},
	/* caret */
	{"^1.2.3", "1.2.3 1.9.9", "2.0.0 1.2.2 2.0.0-0"},
	{"^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"},
	{"^0.0.3", "0.0.3", "0.0.4 0.0.2 0.1.0"},
	{"^1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.4 1.2.3 1.9.0", "1.2.3-beta.1 1.2.4-beta.2 2.0.0"},
	{"^0.0.3-beta", "0.0.3-beta 0.0.3-pr.2 0.0.3", "0.0.4 0.0.3-alpha"},
	{"^1.2.x", "1.2.0 1.9.9", "2.0.0 1.1.9"},
	{"^0.0.x", "0.0.0 0.0.9", "0.1.0"},
	{"^0.0", "0.0.0 0.0.9", "0.1.0"},
	{"^1.x", "1.0.0 1.9.9", "2.0.0"},
	{"^0.x", "0.0.0 0.9.9", "1.0.0"},
	{"^0.1.x", "0.1.0 0.1.9", "0.2.0 0.0.9"},
	{"^0.1", "0.1.0 0.1.9", "0.2.0"},
	{"^0.0.0", "0.0.0", "0.0.1"},
	{"^0", "0.9.9", "1.0.0"},
	{"^1", "1.0.0", "2.0.0"},
	{"^*", "3.0.0", "3.0.0-rc"},
	{"^ 1.2.3", "1.2.3", "2.0.0"},
	{"^v1.2.3", "1.3.0", "2.0.0"},
	/* hyphen */
	{"1.2.3 - 2.3.4", "1.2.3 2.0.0 2.3.4", "1.2.2 2.3.5"},
	{"1.2 - 2.3.4", "1.2.0", "1.1.9"},
	{"1.2.3 - 2.3", "2.3.9", "2.4.0"},
	{"1.2.3 - 2", "2.9.9", "3.0.0 3.0.0-0"},
	{"1 - 2", "1.0.0 2.9.9", "0.9.9 3.0.0"},
	{"* - 2", "0.0.0 2.9.9", "3.0.0"},
	{"1 - *", "1.0.0 99.0.0", "0.9.9"},
	{"1.2.3-a - 2.0.0-b", "1.2.3-b 1.2.3 2.0.0-a", "2.0.0 2.0.0-c 1.5.0-a"},
	{"1.0.0  -  2.0.0", "1.5.0", "2.0.1"},
	{"v1.0.0 - v2.0.0", "2.0.0", "2.0.1"},
	/* alternatives */
	{"1.2.7 || >=1.2.9 <2.0.0", "1.2.7 1.2.9 1.4.6", "1.2.8 2.0.0"},
	{"1.x||2.x", "1.5.0 2.5.0", "3.0.0"},
	{"1 - 2 || 4", "1.5.0 4.5.0", "3.0.0"},
	{"||", "1.0.0", "1.0.0-rc"},
	{"1.0.0 ||", "1.0.0 7.0.0", ""},
	{"|| 2", "1.0.0 7.0.0", ""},
	{"^0.1 || ^0.3 || 5.x", "0.1.1 0.3.9 5.0.0", "0.2.0 0.4.0 6.0.0"},
	/* pre-releases only where a comparator of the same alternative names their own triple */
	{">1.2.3-alpha.3", "1.2.3-alpha.7 1.2.3 3.4.5", "3.4.5-alpha.9 1.2.3-alpha.3 1.2.3-alpha"},
	{">=1.2.3-alpha <2.0.0", "1.2.3-alpha 1.2.3-beta 1.9.9", "1.9.9-alpha 2.0.0-alpha"},
	{"1.2.3-alpha || >1", "1.2.3-alpha 2.0.0", "2.0.0-alpha 1.2.3-beta"},
	{">=1.0.0-0 <1.0.0", "1.0.0-alpha", "1.0.0 0.9.9"},
	{"<2.0.0-beta", "2.0.0-alpha 1.9.9", "2.0.0-beta 2.0.0 1.9.9-alpha"},
};

static void check_list(const char *range, const char *list, bool expected)
{
	char copy[128], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *v = strtok_r(copy, " ", &save); v; v = strtok_r(NULL, " ", &save))
		ck_assert_msg(semver_satisfies(v, range) == expected, "%s %s be in \"%s\"", v,
			expected ? "should" : "must not", range);
}

START_TEST(a_range_holds_what_npm_documents) /* proves L4-01 (the ranges) */
{
	ck_assert_msg(semver_is_range(ranges[_i].range), "\"%s\"", ranges[_i].range);
	check_list(ranges[_i].range, ranges[_i].in, true);
	check_list(ranges[_i].range, ranges[_i].out, false);
}
END_TEST

static const char *const no_ranges[] = {
	"latest",
	"1.2.3.4",
	"1.2.3,2",
	">=1, <2",
	"1.0.0 | 2.0.0",
	"|",
	"1 || |",
	"|||",
	">",
	"~",
	"^",
	"=",
	">=",
	"<>1",
	"=>1.0.0",
	"=<1",
	"!1",
	"1.2.3-",
	"1.2.3+",
	"01",
	"1.02",
	"1.2.3-01",
	">=1.2.3<2",
	"1.2.3 - ",
	" - 1.2.3",
	"1.2.3 - 2 3",
	"1 -2",
	"1.a",
	"1.2.y",
	"a.b.c",
	"1..2",
	".1",
	"1.",
	"1.2.",
	"^^1",
	"~~1",
	"~^1",
	"9007199254740992",
	"1.2.3 foo",
	"1.2.3-a b",
	"1.2-rc",
	"**",
	"xx",
	"v",
	"1.2.3\x01",
	"(1)",
	"1.2.3 && 2",
	"-1",
	"\u00a01",
};

START_TEST(text_that_is_no_range_is_refused_and_holds_nothing)
{
	ck_assert_msg(!semver_is_range(no_ranges[_i]), "\"%s\"", no_ranges[_i]);
	ck_assert_msg(!semver_satisfies("1.2.3", no_ranges[_i]), "\"%s\"", no_ranges[_i]);
}
END_TEST

START_TEST(a_text_over_the_limit_is_neither)
{
	char text[SEMVER_MAX + 2];

	memset(text, ' ', sizeof(text));
	memcpy(text, "1.2.3", 5);
	text[SEMVER_MAX] = '\0';
	ck_assert(semver_is_range(text));
	text[SEMVER_MAX] = ' ';
	text[SEMVER_MAX + 1] = '\0';
	ck_assert(!semver_is_range(text));
	memset(text + 5, '1', sizeof(text) - 6);
	text[5] = '-';
	ck_assert(!semver_is_version(text));
	text[SEMVER_MAX] = '\0';
	ck_assert(semver_is_version(text));
}
END_TEST

START_TEST(text_that_is_no_version_is_in_no_range)
{
	for (int i = 0; i < COUNT(no_versions); i++)
		ck_assert_msg(!semver_satisfies(no_versions[i], "*"), "%s", no_versions[i]);
}
END_TEST

START_TEST(random_text_never_breaks_the_reader)
{
	static const char letters[] = "0123.xX*~^<>=|- v+a\t";

	srandom(11);
	for (int i = 0; i < 200000; i++) {
		char text[24];
		size_t size = (size_t)random() % sizeof(text);

		for (size_t k = 0; k < size; k++)
			text[k] = letters[(size_t)random() % (sizeof(letters) - 1)];
		text[size ? size - 1 : 0] = '\0';
		ck_assert(!semver_satisfies("1.2.3", text) || semver_is_range(text));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("semver");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, a_full_version_is_one, 0, COUNT(versions));
	tcase_add_loop_test(t, anything_else_is_no_version, 0, COUNT(no_versions));
	tcase_add_test(t, versions_are_ordered_as_the_specification_orders_them);
	tcase_add_loop_test(t, a_range_holds_what_npm_documents, 0, COUNT(ranges));
	tcase_add_loop_test(t, text_that_is_no_range_is_refused_and_holds_nothing, 0, COUNT(no_ranges));
	tcase_add_test(t, a_text_over_the_limit_is_neither);
	tcase_add_test(t, text_that_is_no_version_is_in_no_range);
	tcase_add_test(t, random_text_never_breaks_the_reader);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
