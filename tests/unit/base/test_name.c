/* SPDX-License-Identifier: MIT */
/* test_name.c: what may be a name, and which name a typing error was meant to be. */
#include "base/name.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_name_has_letters_digits_and_what_is_allowed_besides)
{
	ck_assert(name_is_valid("a", ""));
	ck_assert(name_is_valid("aZ09", ""));
	ck_assert(name_is_valid("a-b_c", "-_"));
	ck_assert(!name_is_valid("a-b_c", "-"));
	ck_assert(!name_is_valid("", "-_"));
	ck_assert(!name_is_valid("a b", "-_"));
	ck_assert(!name_is_valid("\xc3\xa4", "-_"));
}
END_TEST

START_TEST(a_name_has_128_characters_at_most)
{
	char text[130];

	memset(text, 'x', sizeof text);
	text[128] = '\0';
	ck_assert(name_is_valid(text, ""));
	text[128] = 'x';
	text[129] = '\0';
	ck_assert(!name_is_valid(text, ""));
}
END_TEST

START_TEST(the_nearest_name_is_found_where_one_is_near)
{
	static const char *const names[] = {"max_sessions", "state_dir", "socket", "url"};
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"max_session", "max_sessions"},
		{"maxsessions", "max_sessions"},
		{"statedir", "state_dir"},
		{"sockt", "socket"},
		{"url", "url"},
		{"uri", "url"},
		{"x", NULL},
		{"entirely_other", NULL},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *got = name_find_nearest(cases[i].text, names, 4);

		if (cases[i].want)
			ck_assert_str_eq(got, cases[i].want);
		else
			ck_assert_ptr_null(got);
	}
	ck_assert_ptr_null(name_find_nearest("url", names, 0));
}
END_TEST

START_TEST(a_text_that_is_longer_than_any_name_is_near_to_none)
{
	static const char *const names[] = {"url"};
	char text[200];

	memset(text, 'u', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	ck_assert_ptr_null(name_find_nearest(text, names, 1));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("name");
	TCase *t = tcase_create("name");
	SRunner *r;
	int failed;

	tcase_add_test(t, a_name_has_letters_digits_and_what_is_allowed_besides);
	tcase_add_test(t, a_name_has_128_characters_at_most);
	tcase_add_test(t, the_nearest_name_is_found_where_one_is_near);
	tcase_add_test(t, a_text_that_is_longer_than_any_name_is_near_to_none);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
