/* SPDX-License-Identifier: MIT */
/* test_load.c: what is read here is what jansson reads, and nothing that jansson refuses is read. */
#include "json/load.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/text.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY)

/* A copy of the exact size: a sanitizer sees what is read behind the text. */
static char *copy_of(const char *text, size_t size)
{
	return memcpy(malloc(size > 0 ? size : 1), text, size);
}

static void must_be_the_same(json_t *ours, json_t *theirs, const char *text, size_t size)
{
	char *a = json_dumps(ours, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)),
	     *b = json_dumps(theirs, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));

	ck_assert_msg(strcmp(a, b) == 0, "%.*s is read as %s, not as %s", (int)size, text, a, b);
	ck_assert(json_equal(ours, theirs));
	free(a);
	free(b);
}

/* Returns whether it was read. */
static bool check_tree(const char *text, size_t size)
{
	char *copy = copy_of(text, size);
	json_t *ours = jload_tree(copy, size), *theirs = jtext_load(copy, size, FLAGS, NULL);
	bool is_read = ours != NULL;

	if (is_read) {
		ck_assert_msg(theirs != NULL, "jansson refuses %.*s", (int)size, text);
		must_be_the_same(ours, theirs, text, size);
	}
	json_decref(ours);
	json_decref(theirs);
	free(copy);
	return is_read;
}

/* ---- fixed ones ---- */

#define S(text) text, sizeof(text) - 1

static const struct {
	const char *text;
	size_t size;
} read_here[] = {
	{S("{}")},
	{S(" [ ] ")},
	{S("\t{\"a\" : 1 ,\r\n\"b\":[ true,false , null ]}")},
	{S("0")},
	{S("-0")},
	{S("-0.0")},
	{S("-17")},
	{S("999999999999999999")},
	{S("-999999999999999999")},
	{S("0.1")},
	{S("1.10")},
	{S("-123456.789012345678901234567")},
	{S("\"\"")},
	{S("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")},
	{S("\"\\u0041\\u00e9\\u20AC\\uD83D\\ude00\\u0001\\uffff\"")},
	{S("\"a\\nbcdefghijklmnop\\u00e9qrst\"")},
	{S("\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\x7f\"")},
	{S("{\"\\u0061\\n\":\"\\n\",\"b\":{\"\\u0061\\n\":\"x\"},\"\":0}")},
	{S("{\"z\":1,\"a\":2,\"m\":3,\"long name of more than eight\":4}")},
	{S("[[[[[[[[1]]]]]],{\"a\":[{\"b\":[]}]}]]")},
};

START_TEST(plain_json_is_read_as_jansson_reads_it)
{
	ck_assert_msg(check_tree(read_here[_i].text, read_here[_i].size), "%s", read_here[_i].text);
}
END_TEST

static const struct {
	const char *text;
	size_t size;
} refused[] = {
	{S("")},
	{S(" ")},
	{S("{")},
	{S("[")},
	{S("[1")},
	{S("[1,")},
	{S("[1,]")},
	{S("{\"a\"")},
	{S("{\"a\":")},
	{S("{\"a\":1")},
	{S("{\"a\":1,}")},
	{S("{\"a\":1 \"b\":2}")},
	{S("{a:1}")},
	{S("{1:1}")},
	{S("{} {}")},
	{S("[1}")},
	{S("{\"a\":1]")},
	{S("01")},
	{S("-")},
	{S("+1")},
	{S("1.")},
	{S(".5")},
	{S("1.e")},
	{S("1a")},
	{S("tru")},
	{S("truex")},
	{S("nullnull")},
	{S("True")},
	{S("\"")},
	{S("\"a")},
	{S("\"a\\")},
	{S("\"\\x\"")},
	{S("\"\\u12\"")},
	{S("\"\\u12g4\"")},
	{S("\"\\u0000\"")},
	{S("\"\\ud800\"")},
	{S("\"\\ud800\\n\"")},
	{S("\"\\ud800\\u0041\"")},
	{S("\"\\udc00\"")},
	{S("\"\t\"")},
	{S("\"\n\"")},
	{S("\"a\0b\"")},
	{S("1\0")},
	{S("{\"a\":1\0}")},
	{S("{\0}")},
	{S("\0")},
	{S("\"\xff\"")},
	{S("\"\xc3\"")},
	{S("\"\xc0\x80\"")},
	{S("\"\xed\xa0\x80\"")},
	{S("\"\xf4\x90\x80\x80\"")},
	{S("\xef\xbb\xbf{}")},
	{S("{\"a\":1,\"a\":1}")},
	{S("{\"a\":1,\"\\u0061\":1}")},
	{S("[{\"a\":{\"b\":1,\"c\":2,\"b\":3}}]")},
	/* jansson reads these: what is long or large is left to it */
	{S("1000000000000000000")},
	{S("1e3")},
	{S("1E400")},
	{S("0.1000000000000000000000000000000000000")},
};

START_TEST(what_jansson_must_decide_is_not_read)
{
	ck_assert_msg(!check_tree(refused[_i].text, refused[_i].size), "%s", refused[_i].text);
}
END_TEST

START_TEST(a_tree_nests_as_deep_as_it_may_and_no_deeper)
{
	char text[2 * JLOAD_DEPTH_MAX + 2];

	memset(text, '[', sizeof text / 2);
	memset(text + sizeof text / 2, ']', sizeof text / 2);
	ck_assert(check_tree(text + 1, sizeof text - 2));
	ck_assert(!check_tree(text, sizeof text));
}
END_TEST

/* ---- random ones: pieces of JSON in any order, and good texts with one byte changed ---- */

static const char *const pieces[] = {"{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"b\"",
	"\"a\":", "\"b\":1,", "1", "-", "0", ".5", "12.25", "e1", "true", "null", " ", "\n", "\\", "\\n",
	"\\u00e9", "\\ud83d", "\\ude00", "\xc3\xa9", "\xed", "{\"a\":", "[1,", "99999999999999999",
	"\\u0000"};

START_TEST(no_order_of_pieces_is_read_as_anything_else)
{
	struct buf b = {0};
	int count = 0;

	srandom(7);
	for (int i = 0; i < 300000; i++) {
		buf_clear(&b);
		for (long n = random() % 12; n >= 0; n--)
			buf_add_text(&b, pieces[(size_t)random() % COUNT(pieces)]);
		count += check_tree(b.data, b.size);
	}
	ck_assert_int_gt(count, 1000); /* not in vain */
	buf_fini(&b);
}
END_TEST

START_TEST(no_changed_byte_is_read_as_anything_else)
{
	static const char text[] =
		"{\"type\":\"progress\",\"stage\":\"one \\u00e9\",\"percent\":-12.50,\"n\":[0,17,{\"a\":{},"
		"\"b\":[]}],\"x\":\"h\xc3\xa9\",\"is\":true,\"no\":null}";

	ck_assert(check_tree(text, sizeof text - 1));
	for (size_t at = 0; at < sizeof text - 1; at++) {
		char copy[sizeof text];

		for (int c = 0; c < 256; c++) {
			memcpy(copy, text, sizeof text);
			copy[at] = (char)c;
			check_tree(copy, sizeof text - 1);
		}
		check_tree(text, at); /* and cut off */
	}
}
END_TEST

/* ---- members without a tree ---- */

static bool is_flat(const char *text, size_t size, struct jload_member *members, size_t most, size_t *count)
{
	json_t *theirs = jtext_load(text, size, FLAGS, NULL);
	bool is_read;

	*count = most;
	is_read = jload_flat(text, size, members, count);
	if (is_read) {
		ck_assert_msg(json_is_object(theirs), "jansson has no object: %.*s", (int)size, text);
		ck_assert_uint_eq(json_object_size(theirs), *count);
		for (size_t i = 0; i < *count; i++) {
			const struct jload_member *m = &members[i];
			json_t *value = jtext_load(m->value, m->value_size, FLAGS, NULL);

			ck_assert(json_equal(value, json_object_getn(theirs, m->name, m->name_size)));
			json_decref(value);
		}
	}
	json_decref(theirs);
	return is_read;
}

START_TEST(members_of_a_flat_object_are_where_they_are_written)
{
	static const char text[] =
		" {\"a\" : \"x\\n\\u00e9\", \"b\":-1.50 ,\"c\":null,\"d\":true,\"\":\"\"} ";
	struct jload_member m[5];
	size_t count;

	ck_assert(is_flat(text, sizeof text - 1, m, 5, &count));
	ck_assert_uint_eq(count, 5);
	ck_assert(m[1].value_size == 5 && memcmp(m[1].value, "-1.50", 5) == 0);
	ck_assert(m[0].value_size == 11 && *m[0].value == '"');
	ck_assert(!is_flat(text, sizeof text - 1, m, 4, &count));
	ck_assert(is_flat("{ }", 3, m, 0, &count) && count == 0);
}
END_TEST

START_TEST(an_object_that_is_not_flat_needs_a_tree)
{
	static const char *const texts[] = {"{\"a\":{}}", "{\"a\":[]}", "{\"\\u0061\":1}",
		"{\"a\":1,\"a\":2}", "[]", "1", "{\"a\":1}}", "{\"a\":1e9}", "{\"a\":\"\\ud800\"}"};
	struct jload_member m[4];
	size_t count;

	for (size_t i = 0; i < COUNT(texts); i++)
		ck_assert_msg(!is_flat(texts[i], strlen(texts[i]), m, 4, &count), "%s", texts[i]);
}
END_TEST

START_TEST(no_order_of_pieces_is_flat_that_jansson_refuses)
{
	struct jload_member m[4];
	struct buf b = {0};
	int found = 0;
	size_t count;

	srandom(11);
	for (int i = 0; i < 300000; i++) {
		buf_clear(&b);
		buf_add_text(&b, "{\"k\":");
		for (long n = random() % 8; n > 0; n--)
			buf_add_text(&b, pieces[(size_t)random() % COUNT(pieces)]);
		buf_add_text(&b, "1}");
		found += is_flat(b.data, b.size, m, 4, &count);
	}
	ck_assert_int_gt(found, 1000);
	buf_fini(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("load");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, plain_json_is_read_as_jansson_reads_it, 0, (int)COUNT(read_here));
	tcase_add_loop_test(t, what_jansson_must_decide_is_not_read, 0, (int)COUNT(refused));
	tcase_add_test(t, a_tree_nests_as_deep_as_it_may_and_no_deeper);
	tcase_add_test(t, no_order_of_pieces_is_read_as_anything_else);
	tcase_add_test(t, no_changed_byte_is_read_as_anything_else);
	tcase_add_test(t, members_of_a_flat_object_are_where_they_are_written);
	tcase_add_test(t, an_object_that_is_not_flat_needs_a_tree);
	tcase_add_test(t, no_order_of_pieces_is_flat_that_jansson_refuses);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
