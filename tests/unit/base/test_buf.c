/* SPDX-License-Identifier: MIT */
/* test_buf.c: buffers, blobs and JSON strings. */
#include "base/buf.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct buf b;

static void setup(void)
{
	b = (struct buf){0};
}

static void teardown(void)
{
	buf_fini(&b);
}

START_TEST(added_text_is_there_in_order)
{
	ck_assert_str_eq(buf_text(&b), "");
	buf_add_text(&b, "one ");
	buf_add(&b, "tw\0o", 4);
	buf_add(&b, NULL, 0);
	buf_addf(&b, " %d-%s", 3, "x");
	ck_assert_uint_eq(b.size, 12);
	ck_assert_mem_eq(buf_text(&b), "one tw\0o 3-x", 13);
	buf_drop(&b, 4);
	ck_assert_mem_eq(buf_text(&b), "tw\0o 3-x", 9);
	buf_drop(&b, 8);
	ck_assert_uint_eq(b.size, 0);
	buf_add_text(&b, "again");
	buf_clear(&b);
	ck_assert_str_eq(buf_text(&b), "");
}
END_TEST

START_TEST(buffer_grows_over_any_boundary)
{
	for (int i = 0; i < 100000; i++)
		buf_addf(&b, "%05d", i);
	ck_assert_uint_eq(b.size, 500000);
	for (int i = 0; i < 100000; i += 777) {
		char want[16];

		snprintf(want, sizeof(want), "%05d", i);
		ck_assert_mem_eq(b.data + 5 * i, want, 5);
	}
}
END_TEST

START_TEST(a_long_formatted_text_is_not_cut)
{
	char long_text[5000];

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	buf_addf(&b, "<%s>", long_text);
	ck_assert_uint_eq(b.size, sizeof(long_text) + 1);
	ck_assert_int_eq(b.data[b.size - 1], '>');
}
END_TEST

START_TEST(every_integer_is_written_as_printf_would)
{
	static const int64_t values[] = {
		0, 1, -1, 9, 10, -10, 12345, INT64_MAX, INT64_MIN, INT64_MIN + 1, 1000000};
	char want[32];

	for (int i = 0; i < COUNT(values); i++) {
		buf_clear(&b);
		buf_add_int(&b, values[i]);
		snprintf(want, sizeof(want), "%lld", (long long)values[i]);
		ck_assert_str_eq(buf_text(&b), want);
	}
}
END_TEST

/* Each format is written by both; what buf_addf does without printf and what it leaves to it stand in turn.
 */
#define SAME(...) \
	do { \
		char want[512]; \
\
		snprintf(want, sizeof want, __VA_ARGS__); \
		buf_clear(&b); \
		buf_add_text(&b, "before "); \
		buf_addf(&b, __VA_ARGS__); \
		ck_assert_str_eq(buf_text(&b) + 7, want); \
	} while (0)

START_TEST(every_format_is_written_as_printf_would)
{
	const char *volatile nothing = NULL; /* the compiler would warn of it */

	SAME("plain");
	SAME("%s", "");
	SAME("\"%s\":\"%s\",%s", "a", "b%d", "%");
	SAME("100%% of %s", "it");
	SAME("%d %d %d %d", 0, -1, INT32_MAX, INT32_MIN);
	SAME("%u %u", 0u, UINT32_MAX);
	SAME("%zu %zu", (size_t)0, SIZE_MAX);
	SAME("%lld %lld %llu", (long long)INT64_MIN, (long long)INT64_MAX, (unsigned long long)UINT64_MAX);
	SAME("[%.*s] [%.*s] [%.*s] [%.*s]", 3, "abcdef", 0, "abc", 9, "abc", -1, "abc");
	SAME("%s and %.3s", "whole", "abcdef");
	SAME("%d of %5d, %-4s|%04x|%+d", 1, 2, "x", 255, 7);
	SAME("%s %.17g %ld %c", "real", 0.1, 5L, 'c');
	SAME("%d%% %s", 5, nothing);
	SAME("%.*d", 4, 12);
}
END_TEST

START_TEST(a_precision_bounds_how_far_a_text_is_read)
{
	char *text = malloc(3); /* without a NUL: a sanitizer sees what is read behind it */

	memcpy(text, "abc", 3);
	buf_addf(&b, "<%.*s>", 3, text);
	ck_assert_str_eq(buf_text(&b), "<abc>");
	free(text);
}
END_TEST

#define FFFD "\xef\xbf\xbd"
#define S(text) text, sizeof(text) - 1

static const struct {
	const char *text;
	size_t size;
	const char *json;
} strings[] = {
	{S(""), "\"\""},
	{S("plain"), "\"plain\""},
	{S("a\"b\\c/d"), "\"a\\\"b\\\\c/d\""},
	{S("\b\t\n\f\r"), "\"\\b\\t\\n\\f\\r\""},
	{S("\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\""},
	{S("a\0b"), "\"a\\u0000b\""},
	{S("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
	{S("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\""},
	{S("\xff"), "\"" FFFD "\""},
	{S("a\x80z"), "\"a" FFFD "z\""},
	{S("\xc3"), "\"" FFFD "\""},
	{S("\xe2\x82"), "\"" FFFD FFFD "\""},
	{S("\xc0\xaf"), "\"" FFFD FFFD "\""},
	{S("\xe0\x80\xaf"), "\"" FFFD FFFD FFFD "\""},
	{S("\xed\xa0\x80"), "\"" FFFD FFFD FFFD "\""},
	{S("\xf4\x90\x80\x80"), "\"" FFFD FFFD FFFD FFFD "\""},
	{S("\xf0\x8f\xbf\xbf"), "\"" FFFD FFFD FFFD FFFD "\""},
	{S("\xc3("), "\"" FFFD "(\""},
	{S("1234567\"12345678\\1234567\n"), "\"1234567\\\"12345678\\\\1234567\\n\""},
};

START_TEST(a_json_string_has_minimal_escapes_and_is_always_utf8)
{
	buf_add_json(&b, strings[_i].text, strings[_i].size);
	ck_assert_str_eq(buf_text(&b), strings[_i].json);
}
END_TEST

/* One odd byte at each place of a run, so that the step of eight is left and entered everywhere. */
START_TEST(every_byte_at_every_place_reads_back_with_a_json_parser)
{
	for (int c = 1; c < 128; c++) {
		for (size_t at = 0; at < 20; at++) {
			char text[21] = "abcdefghijklmnopqrst";
			json_t *back;

			text[at] = (char)c;
			buf_clear(&b);
			buf_add_json(&b, text, 20);
			back = json_loadb(b.data, b.size, JSON_DECODE_ANY, NULL);
			ck_assert_ptr_nonnull(back);
			ck_assert_str_eq(json_string_value(back), text);
			json_decref(back);
		}
	}
}
END_TEST

/* Every byte behind every number of plain ones, with all that may follow: what comes first counts. */
START_TEST(the_plain_part_ends_at_the_first_other_byte)
{
	for (int c = 0; c < 256; c++) {
		bool is_plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';

		for (size_t at = 0; at < 20; at++) {
			char text[21];

			memset(text, '!', sizeof text);
			text[at] = (char)c;
			ck_assert_uint_eq(buf_plain_size(text, sizeof text), is_plain ? sizeof text : at);
			ck_assert_uint_eq(buf_plain_size(text, at), at);
			memset(text + at + 1, '"', sizeof text - at - 1);
			ck_assert_uint_eq(buf_plain_size(text, sizeof text), is_plain ? at + 1 : at);
		}
	}
}
END_TEST

START_TEST(random_bytes_always_give_a_valid_json_string)
{
	srandom(3);
	for (int i = 0; i < 20000; i++) {
		char text[40];
		size_t size = (size_t)random() % sizeof(text);
		json_t *back;

		for (size_t k = 0; k < size; k++)
			text[k] = (char)(random() % 4 ? random() : 0xe0 + random() % 32);
		buf_clear(&b);
		buf_add_json(&b, text, size);
		back = json_loadb(b.data, b.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		ck_assert_ptr_nonnull(back);
		json_decref(back);
	}
}
END_TEST

static size_t json_size(const char *text, size_t size)
{
	buf_clear(&b);
	buf_add_json(&b, text, size);
	return b.size - 2;
}

START_TEST(a_cut_text_is_the_longest_whose_json_fits)
{
	srandom(5);
	for (int i = 0; i < 20000; i++) {
		char text[40];
		size_t size = (size_t)random() % sizeof(text), most = (size_t)random() % 80, cut;

		for (size_t k = 0; k < size; k++)
			text[k] = (char)(i % 2       ? 'a' + random() % 26 :
					random() % 4 ? random() :
						       0xe0 + random() % 32);
		cut = buf_json_cut(text, size, most);
		ck_assert_uint_le(json_size(text, cut), most);
		if (cut < size) { /* one character more is too much */
			size_t next = buf_utf8_size((const unsigned char *)text + cut, size - cut);

			ck_assert_uint_gt(json_size(text, cut + (next > 0 ? next : 1)), most);
		}
	}
	ck_assert_uint_eq(buf_json_cut("", 0, 0), 0);
}
END_TEST

START_TEST(a_blob_lives_until_its_last_reference_goes)
{
	struct blob *one = blob_new("a\0c", 3), *empty = blob_new(NULL, 0);

	ck_assert_uint_eq(one->size, 3);
	ck_assert_ptr_eq(blob_ref(one), one);
	blob_unref(one);
	ck_assert_mem_eq(one->data, "a\0c", 3); /* the sanitizer would say if it were gone */
	blob_unref(one);
	ck_assert_uint_eq(empty->size, 0);
	blob_unref(empty);
	blob_unref(NULL);
}
END_TEST

START_TEST(copies_end_where_the_text_or_the_size_does)
{
	char *a = xstrdup("text"), *c = xstrndup("text", 2), *d = xstrndup("text", 9);

	ck_assert_str_eq(a, "text");
	ck_assert_str_eq(c, "te");
	ck_assert_str_eq(d, "text");
	free(a);
	free(c);
	free(d);
	free(xmalloc(0));
	free(xcalloc(0, 0));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("buf");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, added_text_is_there_in_order);
	tcase_add_test(t, buffer_grows_over_any_boundary);
	tcase_add_test(t, a_long_formatted_text_is_not_cut);
	tcase_add_test(t, every_integer_is_written_as_printf_would);
	tcase_add_test(t, every_format_is_written_as_printf_would);
	tcase_add_test(t, a_precision_bounds_how_far_a_text_is_read);
	tcase_add_loop_test(t, a_json_string_has_minimal_escapes_and_is_always_utf8, 0, COUNT(strings));
	tcase_add_test(t, every_byte_at_every_place_reads_back_with_a_json_parser);
	tcase_add_test(t, the_plain_part_ends_at_the_first_other_byte);
	tcase_add_test(t, random_bytes_always_give_a_valid_json_string);
	tcase_add_test(t, a_cut_text_is_the_longest_whose_json_fits);
	tcase_add_test(t, a_blob_lives_until_its_last_reference_goes);
	tcase_add_test(t, copies_end_where_the_text_or_the_size_does);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
