/* SPDX-License-Identifier: MIT */
/* test_scan.c: one pass says what jansson says, and a skimmed message is the same message. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/message.h"
#include "json/scan.h"

#define HEAD \
	"{\"hcp_version\":\"1.0\",\"message_id\":\"m-1\",\"session_id\":\"5f0c1111-1111-4111-8111-" \
	"111111111111\","

static bool scan(const char *text, struct jscan_member *members, size_t count)
{
	bool is_escaped = false;

	return jscan_object(text, strlen(text), members, count, &is_escaped);
}

START_TEST(scan_takes_as_good_what_jansson_takes)
{
	static const char *const texts[] = {"{}", " { } ", "{\"a\":1}",
		"{\"a\":[1,2,{\"b\":null}],\"c\":-0.5e+3}", "{\"a\":\"\\u00e9\\n\\\"\"}", "{\"\":{}}",
		"{\"a\":[]}", "{\"a\":true,\"b\":false}", "{\"a\":\"\xc3\xa9\"}", "", " ", "[]", "1", "{",
		"}", "{}}", "{} {}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}", "{\"a\":1 \"b\":2}",
		"{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":{]}}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":.5}",
		"{\"a\":+1}", "{\"a\":1e}", "{\"a\":tru}", "{\"a\":nul", "{\"a\":\"", "{\"a\":\"\\",
		"{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\t\"}", "{\"a\":\"\xff\"}",
		"{\"a\":\"\xc3\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xc0\x80\"}"};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char why[200];
		json_t *v = jtext_parse(texts[i], strlen(texts[i]), why, sizeof why);

		ck_assert_msg(scan(texts[i], NULL, 0) == json_is_object(v), "%s", texts[i]);
		json_decref(v);
	}
}
END_TEST

START_TEST(members_are_found_as_they_are_written)
{
	struct jscan_member inner[] = {{.name = "b"}, {.name = "d"}};
	struct jscan_member outer[] = {
		{.name = "a"}, {.name = "p", .inner = inner, .inner_count = 2}, {.name = "none"}};
	const char *text =
		"{ \"x\":[{\"a\":9}], \"a\" : 1.10 ,\"p\":{\"c\":{\"b\":0},\"b\":\"t\",\"d\":[1, 2]}}";

	ck_assert(scan(text, outer, 3));
	ck_assert(outer[0].at.size == 4 && strncmp(outer[0].at.at, "1.10", 4) == 0);
	ck_assert(inner[0].at.size == 3 && strncmp(inner[0].at.at, "\"t\"", 3) == 0);
	ck_assert(inner[1].at.size == 6 && strncmp(inner[1].at.at, "[1, 2]", 6) == 0);
	ck_assert_ptr_null(outer[2].at.at);
	ck_assert(outer[1].at.at[outer[1].at.size - 1] == '}');
}
END_TEST

/* A copy of the very size, so that a sanitizer sees a read behind its end. */
static void compare_string(int byte, size_t before, size_t after)
{
	struct jscan_member m = {.name = "a"};
	char text[80], why[200], *copy;
	json_t *v;
	bool is_good;

	snprintf(text, sizeof text, "{\"a\":\"%.*s%c%.*s\"}", (int)before, "0123456789abcdefghij", byte,
		(int)after, "ABCDEFGHIJ0123456789");
	copy = xstrdup(text);
	v = jtext_parse(copy, strlen(copy), why, sizeof why);
	is_good = scan(copy, &m, 1);
	ck_assert_msg(is_good == json_is_object(v), "%s", copy);
	ck_assert(!is_good || (m.at.size == before + after + 3 && m.at.at == copy + 5));
	json_decref(v);
	free(copy);
}

START_TEST(byte_in_a_string_is_judged_alike_at_every_place)
{
	for (int byte = 1; byte < 256; byte++)
		for (size_t before = 0; before < 18; before++)
			for (size_t after = 0; after < 18; after++)
				compare_string(byte, before, after);
}
END_TEST

START_TEST(a_member_twice_and_one_with_escapes_are_noticed)
{
	struct jscan_member m = {.name = "a"};
	const char *escaped = "{\"\\u0061\":1}";
	bool is_escaped = false;

	ck_assert(!scan("{\"a\":1,\"a\":1}", &m, 1));
	m.at.at = NULL;
	ck_assert(jscan_object(escaped, strlen(escaped), &m, 1, &is_escaped));
	ck_assert(is_escaped && !m.at.at);
}
END_TEST

START_TEST(depth_is_bounded)
{
	char text[2 * JSCAN_DEPTH_MAX + 20] = "{\"a\":";
	size_t at = 5;

	memset(text + at, '[', JSCAN_DEPTH_MAX);
	memset(text + at + JSCAN_DEPTH_MAX, ']', JSCAN_DEPTH_MAX);
	strcpy(text + at + 2 * JSCAN_DEPTH_MAX, "}");
	ck_assert(scan(text, NULL, 0));
	memmove(text + at + 1, text + at, strlen(text + at) + 1);
	text[at] = '[';
	ck_assert(!scan(text, NULL, 0));
}
END_TEST

/* --- messages --- */

static struct ctl_message *take(struct ctl_message *(*take_body)(char *, size_t), const char *text)
{
	return take_body(xstrdup(text), strlen(text));
}

START_TEST(a_skimmed_message_is_the_same_message)
{
	static const char *const texts[] = {
		HEAD
		"\"type\":\"event\",\"payload\":{\"event_type\":\"progress\",\"sequence\":7,\"data\":{"
		"\"percent\":5}}}",
		HEAD
		"\"type\":\"event\",\"payload\":{\"event_type\":\"lo\\u0067\",\"sequence\":7,\"data\":{}}}",
		HEAD "\"type\":\"event\",\"payload\":{\"event_type\":\"log\",\"sequence\":-7}}",
		HEAD "\"type\":\"event\",\"payload\":{\"event_type\":\"log\",\"sequence\":7.0}}",
		HEAD
		"\"type\":\"event\",\"payload\":{\"event_type\":\"log\",\"sequence\":99999999999999999999}}",
		HEAD "\"type\":\"event\",\"payload\":{\"event_type\":1,\"sequence\":\"7\"}}",
		HEAD "\"type\":\"event\",\"payload\":{}}",
		HEAD "\"type\":\"task_accepted\",\"payload\":{\"sequence\":7}}",
		HEAD "\"t\\u0079pe\":\"task_failed\",\"payload\":{}}",
		"{\"type\":\"task_rejected\",\"session_id\":null,\"payload\":{}}",
		HEAD "\"type\":\"event\",\"payload\":[]}",
		HEAD "\"type\":\"event\"}",
		HEAD "\"type\":1,\"payload\":{}}",
		"[]",
		"no",
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct ctl_message *a = take(ctl_message_read, texts[i]),
				   *b = take(ctl_message_skim, texts[i]);

		ck_assert_msg(!a == !b, "%s", texts[i]);
		if (!a)
			continue;
		ck_assert_str_eq(a->type, b->type);
		ck_assert_str_eq(a->event, b->event);
		ck_assert_str_eq(a->session, b->session);
		ck_assert_str_eq(a->message_id, b->message_id);
		ck_assert_msg(a->sequence == b->sequence, "%s", texts[i]);
		ctl_message_open(b);
		ck_assert(json_equal(a->json, b->json) && json_equal(a->data, b->data));
		ctl_message_free(a);
		ctl_message_free(b);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("jscan");
	TCase *tc = tcase_create("all");
	SRunner *sr = srunner_create(s);

	tcase_add_test(tc, scan_takes_as_good_what_jansson_takes);
	tcase_add_test(tc, members_are_found_as_they_are_written);
	tcase_add_test(tc, byte_in_a_string_is_judged_alike_at_every_place);
	tcase_add_test(tc, a_member_twice_and_one_with_escapes_are_noticed);
	tcase_add_test(tc, depth_is_bounded);
	tcase_add_test(tc, a_skimmed_message_is_the_same_message);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
