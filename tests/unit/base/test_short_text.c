/* SPDX-License-Identifier: MIT */
/* test_short_text.c: short texts into arrays: what printf would write, and never more than there is room for.
 */
#include "base/text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_copy_is_cut_where_the_array_ends)
{
	static const char text[] = "0123456789";

	for (size_t size = 1; size < 14; size++) {
		char *to = malloc(size), want[16]; /* of the exact size: a sanitizer sees what is behind it */

		snprintf(want, size, "%s", text);
		ck_assert_uint_eq(text_copy(to, size, text), strlen(want));
		ck_assert_str_eq(to, want);
		free(to);
	}
}
END_TEST

START_TEST(what_is_appended_stands_behind_the_rest)
{
	char to[8];
	size_t used = text_copy(to, sizeof to, "ab");

	used = text_append(to, sizeof to, used, "");
	used = text_append(to, sizeof to, used, "cd");
	ck_assert_str_eq(to, "abcd");
	used = text_append(to, sizeof to, used, "efghij");
	ck_assert_uint_eq(used, 7);
	ck_assert_uint_eq(text_append(to, sizeof to, used, "k"), 7);
	ck_assert_str_eq(to, "abcdefg");
}
END_TEST

START_TEST(integers_are_written_as_printf_would)
{
	static const int64_t values[] = {0, 1, -1, 9, 10, -10, 99, 100, INT64_MAX, INT64_MIN, INT64_MIN + 1};
	char out[TEXT_INT_SIZE], want[TEXT_INT_SIZE];

	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		snprintf(want, sizeof want, "%lld", (long long)values[i]);
		ck_assert_uint_eq(text_put_int(out, values[i]), strlen(want));
		ck_assert_str_eq(out, want);
		snprintf(want, sizeof want, "%llu", (unsigned long long)values[i]);
		ck_assert_uint_eq(text_put_uint(out, (uint64_t)values[i]), strlen(want));
		ck_assert_str_eq(out, want);
	}
}
END_TEST

START_TEST(every_byte_is_two_hex_digits)
{
	char out[3] = "";

	for (unsigned i = 0; i < 256; i++) {
		unsigned char byte = (unsigned char)i;
		char want[3];

		text_put_hex(out, &byte, 1);
		snprintf(want, sizeof want, "%02x", byte);
		ck_assert_str_eq(out, want);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("short_text");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(t, a_copy_is_cut_where_the_array_ends);
	tcase_add_test(t, what_is_appended_stands_behind_the_rest);
	tcase_add_test(t, integers_are_written_as_printf_would);
	tcase_add_test(t, every_byte_is_two_hex_digits);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
