/* SPDX-License-Identifier: MIT */
/* test_text.c: values are found in JSON text and carried over byte for byte. */
#include "json/text.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(s) (s), sizeof(s) - 1

START_TEST(depth_counts_nesting_and_not_what_strings_say)
{
	ck_assert_uint_eq(jtext_depth(TEXT("")), 0);
	ck_assert_uint_eq(jtext_depth(TEXT("17")), 0);
	ck_assert_uint_eq(jtext_depth(TEXT("{}")), 1);
	ck_assert_uint_eq(jtext_depth(TEXT("[[],[[]],{}]")), 3);
	ck_assert_uint_eq(jtext_depth(TEXT("{\"a\":\"[[[[\",\"b\":[1]}")), 2);
	ck_assert_uint_eq(jtext_depth(TEXT("[\"\\\"[[[\"]")), 1);
	ck_assert_uint_eq(jtext_depth(TEXT("]]]][")), 1);
	ck_assert_uint_eq(jtext_depth(TEXT("[\"unterminated [[[")), 1);
}
END_TEST

static const struct {
	const char *text;
	bool good;
} parses[] = {
	{"{}", true},
	{"[]", true},
	{"1", true},
	{"\"x\"", true},
	{"null", true},
	{"  {} ", true},
	{"123456789012345678901234567890", true},
	{"{\"a\":-99999999999999999999}", true},
	{"\"\\u0000\"", true},
	{"", false},
	{"{", false},
	{"{} {}", false},
	{"{}x", false},
	{"{\"a\":1,\"a\":2}", false},
	{"'x'", false},
	{"{a:1}", false},
	{"[1,]", false},
	{"nul", false},
	{"\"\\x\"", false},
	{"\"\xff\"", false},
	{"\"\xc0\xaf\"", false},
	{"\"\xed\xa0\x80\"", false},
	{"NaN", false},
	{"[01]", false},
	{"{\"a\":1,\"\\u0061\":2}", false},
};

START_TEST(text_is_one_good_value_and_nothing_behind_it)
{
	char why[128] = "";
	json_t *v = jtext_parse(parses[_i].text, strlen(parses[_i].text), why, sizeof why);

	ck_assert_msg((v != NULL) == parses[_i].good, "%s: %s", parses[_i].text, why);
	ck_assert(v != NULL || strlen(why) > 0);
	json_decref(v);
}
END_TEST

/* jansson steps over a NUL behind a number or a literal; no other reader does. */
START_TEST(a_raw_nul_is_no_json_wherever_it_stands)
{
	static const char texts[][12] = {"{\"n\":1\0}", "{\"n\":true\0}", "[1\0,2]", "[null\0]", "[1.5\0\0]",
		"1\0", "\0[1]", "[1]\0", "[\"a\0b\"]", "{\0\"n\":1}"};
	static const size_t sizes[] = {8, 11, 7, 7, 7, 2, 4, 4, 7, 8};
	json_error_t e;
	char why[128];

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		why[0] = '\0';
		ck_assert_msg(jtext_parse(texts[i], sizes[i], why, sizeof why) == NULL, "%zu", i);
		ck_assert_msg(strstr(why, "a raw NUL byte at line 1") != NULL, "%zu: %s", i, why);
		ck_assert_ptr_null(jtext_load(texts[i], sizes[i], 0, NULL));
	}
	ck_assert_ptr_null(jtext_load(TEXT("{\n\n \"n\":1\0}"), 0, &e));
	ck_assert_int_eq(e.line, 3);
	ck_assert_int_eq(e.column, 7);
	ck_assert_int_eq(e.position, 9);
	ck_assert_int_eq(json_error_code(&e), json_error_null_character);
}
END_TEST

static const struct {
	const char *object, *name, *value;
} members[] = {
	{"{\"a\":1.10}", "a", "1.10"},
	{"{\"a\":1,\"b\":2}", "b", "2"},
	{" { \"a\" : [ 1 , 2 ] , \"b\":3}", "a", "[ 1 , 2 ]"},
	{"{\"a\":{\"b\":1},\"b\":2}", "b", "2"},
	{"{\"x\":\"\\\"b\\\":9\",\"b\":2}", "b", "2"},
	{"{\"a\":\"}\"}", "a", "\"}\""},
	{"{\"a\":null}", "a", "null"},
	{"{\"a\":true ,\"b\":0}", "a", "true"},
	{"{\"ab\":1}", "a", NULL},
	{"{}", "a", NULL},
	{"{\"\\u0061\":1}", "a", NULL},
	{"[1]", "a", NULL},
	{"", "a", NULL},
	{"{\"a\":\"x\\\\\"}", "a", "\"x\\\\\""},
	{"{\"a\":-1e5}", "a", "-1e5"},
	{"{\"\":1}", "", "1"},
	/* not JSON at all: safe, whatever it says */
	{"{\"a", "a", NULL},
	{"{\"a\":", "b", NULL},
	{"{\"a\":}", "b", NULL},
	{"{\"a\" \"b\"}", "b", NULL},
	{"{\"a\":[", "b", NULL},
};

START_TEST(a_members_raw_value_is_found)
{
	struct jslice v = jtext_member(members[_i].object, strlen(members[_i].object), members[_i].name);

	if (members[_i].value == NULL) {
		ck_assert(v.at == NULL);
		return;
	}
	ck_assert(v.at != NULL);
	ck_assert_uint_eq(v.size, strlen(members[_i].value));
	ck_assert(memcmp(v.at, members[_i].value, v.size) == 0);
}
END_TEST

START_TEST(no_prefix_of_a_text_is_read_beyond)
{
	static const char text[] =
		"{\"a\":{\"b\":[1,\"x\\\"y\",{}]},\"c\":1.5e3,\"d\":\"\\u00e9\",\"e\":null}";

	for (size_t n = 0; n < sizeof text; n++) {
		char *exact = malloc(n + 1); /* a sanitizer sees one byte too many */
		struct buf b = {0};

		ck_assert(exact != NULL);
		exact = realloc(exact, n > 0 ? n : 1);
		memcpy(exact, text, n);
		jtext_depth(exact, n);
		jtext_member(exact, n, "e");
		jtext_add_minified(&b, exact, n);
		buf_fini(&b);
		free(exact);
	}
}
END_TEST

START_TEST(minifying_takes_white_space_between_tokens_only)
{
	static const char text[] =
		" { \"a b\" : [ 1.10 ,\t\"x  y \\\" z\" ] ,\r\n\"k\":\"\\u00e9 \xc3\xa9\" } ";
	struct buf b = {0};

	jtext_add_minified(&b, text, sizeof text - 1);
	ck_assert_str_eq(buf_text(&b), "{\"a b\":[1.10,\"x  y \\\" z\"],\"k\":\"\\u00e9 \xc3\xa9\"}");
	buf_fini(&b);
}
END_TEST

START_TEST(value_is_raw_where_there_is_a_slice_and_written_anew_else)
{
	struct buf b = {0};
	json_t *v = json_pack("{s:i}", "n", 5);

	jtext_add_value(&b, (struct jslice){TEXT("1.10")}, v);
	buf_add_text(&b, " ");
	jtext_add_value(&b, (struct jslice){NULL, 0}, v);
	ck_assert_str_eq(buf_text(&b), "1.10 {\"n\":5}");
	json_decref(v);
	buf_fini(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("jtext");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, depth_counts_nesting_and_not_what_strings_say);
	tcase_add_loop_test(
		t, text_is_one_good_value_and_nothing_behind_it, 0, (int)(sizeof parses / sizeof *parses));
	tcase_add_test(t, a_raw_nul_is_no_json_wherever_it_stands);
	tcase_add_loop_test(t, a_members_raw_value_is_found, 0, (int)(sizeof members / sizeof *members));
	tcase_add_test(t, no_prefix_of_a_text_is_read_beyond);
	tcase_add_test(t, minifying_takes_white_space_between_tokens_only);
	tcase_add_test(t, value_is_raw_where_there_is_a_slice_and_written_anew_else);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
