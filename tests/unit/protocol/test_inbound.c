/* SPDX-License-Identifier: MIT */
/* test_inbound.c: the members that callers read of a message: one pass over the bytes beside a tree. */
#include "protocol/inbound.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "json/text.h"

static json_t *parse(const char *text)
{
	char why[200];

	return jtext_parse(text, strlen(text), why, sizeof why);
}

START_TEST(members_of_an_event_are_read)
{
	const char *text =
		"{\"type\":\"event\",\"session_id\":\"s\",\"message_id\":\"m\",\"payload\":"
		"{\"event_type\":\"progress\",\"sequence\":7,\"in_reply_to\":\"r\"}}";
	struct inbound m;

	ck_assert_int_eq(inbound_scan(&m, text, strlen(text)), INBOUND_OK);
	ck_assert_str_eq(m.type, "event");
	ck_assert_str_eq(m.session, "s");
	ck_assert_str_eq(m.message_id, "m");
	ck_assert_str_eq(m.in_reply_to, "r");
	ck_assert_str_eq(m.event, "progress");
	ck_assert_int_eq(m.sequence, 7);
	free(m.texts);
}
END_TEST

static const char *const messages[] = {
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":1}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":4.0}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":4.5}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":0}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":-3}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":\"7\"}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":2305843009213693951}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":2305843009213693952}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":9999999999999999999}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":\"e\",\"sequence\":99999999999999999999}}",
	"{\"type\":\"event\",\"payload\":{\"event_type\":1,\"in_reply_to\":null}}",
	"{\"type\":\"task_accepted\",\"session_id\":null,\"payload\":{\"sequence\":7,\"event_type\":\"e\"}}",
	"{\"type\":\"of_tomorrow\",\"session_id\":\"s\",\"message_id\":\"\",\"payload\":{}}",
};

START_TEST(a_scan_and_a_tree_give_the_same_members)
{
	const char *text = messages[_i];
	json_t *tree = parse(text);
	struct inbound a, b;

	ck_assert_int_eq(inbound_scan(&a, text, strlen(text)), INBOUND_OK);
	ck_assert(inbound_read_tree(&b, tree));
	ck_assert_str_eq(a.type, b.type);
	ck_assert_str_eq(a.session, b.session);
	ck_assert_str_eq(a.message_id, b.message_id);
	ck_assert_str_eq(a.in_reply_to, b.in_reply_to);
	ck_assert_str_eq(a.event, b.event);
	ck_assert_msg(a.sequence == b.sequence, "%lld, %lld: %s", (long long)a.sequence,
		(long long)b.sequence, text);
	free(a.texts);
	json_decref(tree);
}
END_TEST

START_TEST(a_message_with_escapes_needs_a_tree)
{
	static const char *const texts[] = {"{\"t\\u0079pe\":\"event\",\"payload\":{}}",
		"{\"type\":\"ev\\u0065nt\",\"payload\":{}}",
		"{\"type\":\"x\",\"payload\":{\"in_reply_to\":\"\\/\"}}"};
	json_t *tree = parse(texts[1]);
	struct inbound m;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		ck_assert_int_eq(inbound_scan(&m, texts[i], strlen(texts[i])), INBOUND_NEEDS_TREE);
	ck_assert(inbound_read_tree(&m, tree));
	ck_assert_str_eq(m.type, "event");
	json_decref(tree);
}
END_TEST

START_TEST(a_text_that_is_no_message_is_refused)
{
	static const char *const texts[] = {"", "[]", "{}", "{\"type\":\"event\"}", "{\"payload\":{}}",
		"{\"type\":1,\"payload\":{}}", "{\"type\":\"event\",\"payload\":[]}",
		"{\"type\":\"event\",\"payload\":{}"};
	struct inbound m;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		json_t *tree = parse(texts[i]);

		ck_assert_msg(inbound_scan(&m, texts[i], strlen(texts[i])) == INBOUND_BAD, "%s", texts[i]);
		ck_assert_msg(!inbound_read_tree(&m, tree), "%s", texts[i]);
		json_decref(tree);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("inbound");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, members_of_an_event_are_read);
	tcase_add_loop_test(
		t, a_scan_and_a_tree_give_the_same_members, 0, (int)(sizeof messages / sizeof *messages));
	tcase_add_test(t, a_message_with_escapes_needs_a_tree);
	tcase_add_test(t, a_text_that_is_no_message_is_refused);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
