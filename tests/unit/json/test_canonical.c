/* SPDX-License-Identifier: MIT */
/* test_canonical.c: canonical JSON: one form for one value, and its hash. */
#include <check.h>
#include <string.h>

#include "json/canonical.h"
#include "json/text.h"

static const char *form_of(const char *text)
{
	static struct buf b;
	char why[128];
	json_t *v = jtext_parse(text, strlen(text), why, sizeof why);

	ck_assert_msg(v != NULL, "%s: %s", text, why);
	buf_clear(&b);
	canonical_add(&b, v);
	json_decref(v);
	return buf_text(&b);
}

static const struct {
	const char *text, *form;
} forms[] = {
	{" { } ", "{}"}, {"[ 1 , 2 ]", "[1,2]"}, {"{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}"},
	{"{\"aa\":1,\"a\":2,\"\":3}", "{\"\":3,\"a\":2,\"aa\":1}"},
	/* by code point: U+FF5E stands before U+1F600, though not in UTF-16 */
	{"{\"\xf0\x9f\x98\x80\":1,\"\xef\xbd\x9e\":2,\"z\":3}",
		"{\"z\":3,\"\xef\xbd\x9e\":2,\"\xf0\x9f\x98\x80\":1}"},
	{"\"\\u00e9\\/\\u0041\"", "\"\xc3\xa9/A\""}, {"\"\\u001F\\u0000\\u007f\"", "\"\\u001f\\u0000\x7f\""},
	{"\"\\b\\t\\n\\f\\r\\\"\\\\\"", "\"\\b\\t\\n\\f\\r\\\"\\\\\""}, {"1.10", "1.1000000000000001"},
	{"1.0", "1"}, {"1e300", "1.0000000000000001e+300"}, {"9223372036854775807", "9223372036854775807"},
	{"9223372036854775808", "9.2233720368547758e+18"}, {"[true,false,null]", "[true,false,null]"},
	{"{\"a\":{\"c\":[{\"e\":1,\"d\":2}],\"b\":0}}", "{\"a\":{\"b\":0,\"c\":[{\"d\":2,\"e\":1}]}}"},
	{"-0.0", "-0"}, /* which is read as the integer 0: the one real that is not kept */
};

START_TEST(a_value_has_one_form)
{
	ck_assert_str_eq(form_of(forms[_i].text), forms[_i].form);
}
END_TEST

START_TEST(the_form_of_a_form_is_itself)
{
	char first[256];

	snprintf(first, sizeof first, "%s", form_of(forms[_i].text));
	ck_assert_str_eq(form_of(first), first);
}
END_TEST

START_TEST(the_hash_is_sha_256_of_the_form_in_lower_case)
{
	char hex[CANONICAL_HASH_SIZE];
	json_t *v = json_object();

	canonical_hash(v, hex);
	/* printf '{}' | sha256sum */
	ck_assert_str_eq(hex, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
	json_decref(v);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("canon");
	TCase *t = tcase_create("canon");
	SRunner *r = srunner_create(s);
	int count = (int)(sizeof forms / sizeof *forms), failed;

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_value_has_one_form, 0, count);
	tcase_add_loop_test(t, the_form_of_a_form_is_itself, 0, count - 1);
	tcase_add_test(t, the_hash_is_sha_256_of_the_form_in_lower_case);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
