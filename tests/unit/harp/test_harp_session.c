/* SPDX-License-Identifier: MIT */
/* test_harp_session.c: HARP-SESSION's events, written and read. Texts and hashes were computed elsewhere: by
 * Python's json.dumps (sort_keys, no white space, ensure_ascii=False) and hashlib. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harp/session.h"

#define ID "11111111-2222-4333-8444-555555555555"
#define OTHER_ID "11111111-2222-4333-8444-555555555556"
#define AT_US INT64_C(1772359200250000) /* 2026-03-01T10:00:00.250Z */
#define MOST (1u << 20)

#define START \
	"{\"agentHost\":\"hcp:lab\",\"createdAt\":\"2026-03-01T10:00:00.250Z\",\"eventType\":\"session." \
	"start\",\"metadata\":{" \
	"\"callerId\":\"alpha\",\"note\":\"\\\"\303\251\342\206\222\\u0007\\\\\"},\"repoRef\":\"hcp:lab/" \
	"anneal\",\"sessionId\":\"" ID "\"}"
#define STATUS \
	"{\"eventType\":\"session.status\",\"sessionId\":\"" ID \
	"\",\"state\":\"planning\",\"updatedAt\":\"2026-03-01T10:00:00.250Z\"}"
#define SNAPSHOT_HASH "e82a23bbb2eb5c3d34f4bde836b741f458ae831e73ea727c1ef88ff675de5100"
#define SNAPSHOT \
	"{\"createdAt\":\"2026-03-01T10:00:00.250Z\",\"eventType\":\"session.snapshot\",\"payload\":{" \
	"\"done\":3,\"text\":\"zw\303" \
	"\266lf \\u001f\"},\"sessionId\":\"" ID "\",\"snapshotHash\":\"" SNAPSHOT_HASH \
	"\",\"snapshotHashAlg\":\"SHA-256\"," \
	"\"snapshotId\":\"s-1\",\"snapshotType\":\"context\"}"
#define END \
	"{\"endedAt\":\"2026-03-01T10:00:00.250Z\",\"eventType\":\"session.end\",\"metadata\":{" \
	"\"finalState\":\"ABORTED\"}," \
	"\"reason\":\"policy_kill\",\"sessionId\":\"" ID "\"}"

/* A worker's line in its own order and writing, its hash beside it. */
#define PLAN_HASH "125b37ed90d1c3892a348e14c2bf1241d2bdb6c692694bc53416edb85f1c4cc3"
#define PLAN_BARE_HASH \
	"5248d69e5411252bb7d4930790c532b745689a7c560c74d980c1f4c450cede98" /* without metadata */
#define PLAN_PAYLOAD "\"payload\": {\"z\":[1,{\"\\u00e9\":null,\"\":true}],\"a\":-9007199254740991}"
#define PLAN(more) \
	"{ \"type\":\"snapshot\",\"snapshotType\":\"plan\",\"snapshotId\":\"plan-7\"," PLAN_PAYLOAD \
	",\"createdAt\":" \
	"\"2026-03-01T11:00:00+01:00\"" more "}"

static const char *const good[HARP_EVENTS] = {START, STATUS, SNAPSHOT, END};
static char why[256];

static enum harp_code read_text(const char *text)
{
	struct harp_heard h;
	enum harp_code code = harp_read_event(text, strlen(text), MOST, &h, why, sizeof why);

	if (code == HARP_OK)
		harp_heard_fini(&h);
	return code;
}

static enum harp_code read_json(json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);
	enum harp_code code = read_text(text);

	free(text);
	return code;
}

static enum harp_code read_line(const char *line, struct harp_heard *h)
{
	return harp_read_snapshot(
		line, strlen(line), MOST, ID, "2026-03-01T12:00:00.000Z", h, why, sizeof why);
}

static void refuse_line(const char *line, enum harp_code code)
{
	struct harp_heard h;

	ck_assert_msg(read_line(line, &h) == code, "%s: %s: %s", harp_code_name(code), why, line);
	ck_assert_str_ne(why, "");
}

START_TEST(every_event_is_byte_for_byte_what_python_makes) /* proves HS-01 */
{
	const struct harp_member metadata[] = {
		{"callerId", "alpha", NULL}, {"note", "\"\303\251\342\206\222\007\\", NULL}};
	const struct harp_member payload[] = {{"done", NULL, "3"}, {"text", "zw\303\266lf \037", NULL}};
	const struct harp_member final[] = {{"finalState", "ABORTED", NULL}};
	char hash[HARP_HASH_SIZE];
	struct buf b = {0};

	harp_add_start(&b, ID, AT_US, "hcp:lab", "hcp:lab/anneal", metadata, 2);
	ck_assert_str_eq(buf_text(&b), START);
	buf_clear(&b);
	harp_add_status(&b, ID, AT_US, HARP_PLANNING);
	ck_assert_str_eq(buf_text(&b), STATUS);
	buf_clear(&b);
	harp_add_snapshot(&b, ID, AT_US, "s-1", HARP_CONTEXT, payload, 2, hash);
	ck_assert_str_eq(buf_text(&b), SNAPSHOT);
	ck_assert_str_eq(hash, SNAPSHOT_HASH);
	buf_clear(&b);
	harp_add_end(&b, ID, AT_US, HARP_POLICY_KILL, final, 1);
	ck_assert_str_eq(buf_text(&b), END);
	buf_fini(&b);
}
END_TEST

START_TEST(event_reads_back_as_it_was_written)
{
	struct harp_heard h;

	for (int i = 0; i < HARP_EVENTS; i++) {
		ck_assert_msg(harp_read_event(good[i], strlen(good[i]), MOST, &h, why, sizeof why) == HARP_OK,
			"%s", why);
		ck_assert_int_eq(h.kind, i);
		ck_assert_int_eq(h.at_us, AT_US);
		ck_assert_str_eq(h.session_id, ID);
		ck_assert_str_eq(h.text, good[i]);
		ck_assert_uint_eq(h.size, strlen(good[i]));
		ck_assert(i != HARP_EVENT_STATUS || h.status == HARP_PLANNING);
		ck_assert(i != HARP_EVENT_END || h.reason == HARP_POLICY_KILL);
		ck_assert(i != HARP_EVENT_SNAPSHOT ||
			(h.view == HARP_CONTEXT && strcmp(h.hash, SNAPSHOT_HASH) == 0));
		harp_heard_fini(&h);
	}
}
END_TEST

/* protocol.md's table, once more: what stands first is required. */
static const struct {
	const char *required[8], *optional[3];
} table[HARP_EVENTS] = {
	{{"sessionId", "eventType", "createdAt", "agentHost"}, {"repoRef", "metadata"}},
	{{"sessionId", "eventType", "state", "updatedAt"}, {"details"}},
	{{"sessionId", "eventType", "snapshotId", "snapshotType", "createdAt", "payload", "snapshotHashAlg",
		 "snapshotHash"},
		{"metadata"}},
	{{"sessionId", "eventType", "endedAt", "reason"}, {"metadata"}},
};

START_TEST(an_event_has_all_the_fields_of_its_kind_and_no_other) /* proves HS-01 */
{
	static const char *const strange[] = {
		"type", "sequence", "state", "endedAt", "updatedAt", "agentHost", "details", "Metadata"};
	json_t *o = json_loads(good[_i], 0, NULL), *c;

	for (int i = 0; i < 8 && table[_i].required[i] != NULL; i++) {
		c = json_deep_copy(o);
		ck_assert(json_object_del(c, table[_i].required[i]) == 0);
		ck_assert_msg(read_json(c) != HARP_OK, "without %s", table[_i].required[i]);
		json_object_set_new(c, table[_i].required[i], json_integer(7));
		ck_assert_msg(read_json(c) != HARP_OK, "%s is a number", table[_i].required[i]);
		json_object_set_new(c, table[_i].required[i], json_null());
		ck_assert_msg(read_json(c) != HARP_OK, "%s is null", table[_i].required[i]);
		json_decref(c);
	}
	for (int i = 0; i < 3 && table[_i].optional[i] != NULL && _i != HARP_EVENT_SNAPSHOT; i++) {
		c = json_deep_copy(o);
		json_object_del(c, table[_i].optional[i]);
		ck_assert_msg(read_json(c) == HARP_OK, "without %s: %s", table[_i].optional[i], why);
		json_decref(c);
	}
	for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
		c = json_deep_copy(o);
		if (json_object_get(c, strange[i]) == NULL &&
			strcmp(strange[i], table[_i].optional[0]) != 0) {
			json_object_set_new(c, strange[i], json_string("x"));
			ck_assert_msg(read_json(c) == HARP_UNSUPPORTED, "with %s", strange[i]);
		}
		json_decref(c);
	}
	json_decref(o);
}
END_TEST

START_TEST(names_are_harp_s_both_ways)
{
	for (int i = 0; i < HARP_EVENTS; i++)
		ck_assert_int_eq(harp_event_parse(harp_event_name((enum harp_event)i)), i);
	for (int i = 0; i < HARP_STATUSES; i++)
		ck_assert_int_eq(harp_status_parse(harp_status_name((enum harp_status)i)), i);
	for (int i = 0; i < HARP_VIEWS; i++)
		ck_assert_int_eq(harp_view_parse(harp_view_name((enum harp_view)i)), i);
	for (int i = 0; i < HARP_ENDS; i++)
		ck_assert_int_eq(harp_end_parse(harp_end_name((enum harp_end)i)), i);
	ck_assert(harp_event_parse("start") < 0 && harp_status_parse("running") < 0 &&
		harp_view_parse("") < 0 && harp_end_parse("x") < 0);
	ck_assert_str_eq(harp_code_name(HARP_INVALID_STATE), "HARP_SESSION_ERR_INVALID_STATE");
	ck_assert_str_eq(harp_code_name(HARP_DUPLICATE_SNAPSHOT), "HARP_SESSION_ERR_DUPLICATE_SNAPSHOT");
	ck_assert_str_eq(harp_code_name(HARP_SESSION_CLOSED), "HARP_SESSION_ERR_SESSION_CLOSED");
}
END_TEST

START_TEST(an_unknown_state_has_a_code_of_its_own) /* proves HS-03 */
{
	json_t *o = json_loads(STATUS, 0, NULL);

	for (int i = 0; i < HARP_STATUSES; i++) {
		json_object_set_new(o, "state", json_string(harp_status_name((enum harp_status)i)));
		ck_assert_int_eq(read_json(o), HARP_OK);
	}
	json_object_set_new(o, "state", json_string("running"));
	ck_assert_int_eq(read_json(o), HARP_INVALID_STATE);
	json_decref(o);
	o = json_loads(END, 0, NULL);
	json_object_set_new(o, "reason", json_string("completed"));
	ck_assert_int_eq(read_json(o), HARP_UNSUPPORTED);
	json_decref(o);
}
END_TEST

START_TEST(a_snapshot_with_anything_changed_is_not_its_hash) /* proves HS-02 */
{
	static const char *const changes[][2] = {{"snapshotId", "\"s-2\""}, {"snapshotType", "\"plan\""},
		{"sessionId", "\"" OTHER_ID "\""}, {"createdAt", "\"2026-03-01T10:00:00.251Z\""},
		{"payload", "{\"done\":4}"}, {"metadata", "{}"},
		{"snapshotHash", "\"E82A23BBB2EB5C3D34F4BDE836B741F458AE831E73EA727C1EF88FF675DE5100\""},
		{"snapshotHash", "\"0\""}};

	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		json_t *o = json_loads(SNAPSHOT, 0, NULL);

		json_object_set_new(o, changes[i][0], json_loads(changes[i][1], JSON_DECODE_ANY, NULL));
		ck_assert_msg(read_json(o) == HARP_HASH_MISMATCH, "%s", changes[i][0]);
		json_decref(o);
	}
}
END_TEST

START_TEST(a_worker_s_snapshot_gets_what_it_leaves_out_and_its_hash) /* proves HS-02 */
{
	struct harp_heard h;

	ck_assert_msg(read_line(PLAN(",\"metadata\":{\"tool\":\"x\"}"), &h) == HARP_OK, "%s", why);
	ck_assert_str_eq(h.hash, PLAN_HASH);
	ck_assert_str_eq(h.snapshot_id, "plan-7");
	ck_assert_str_eq(h.created_at, "2026-03-01T11:00:00+01:00"); /* as it came */
	ck_assert_int_eq(h.at_us, AT_US - 250000);
	ck_assert_int_eq(h.view, HARP_PLAN);
	ck_assert_int_eq(read_text(h.text), HARP_OK);
	harp_heard_fini(&h);
	ck_assert_int_eq(read_line(PLAN(",\"metadata\":null,\"snapshotHash\":null"), &h), HARP_OK);
	ck_assert_str_eq(h.hash, PLAN_BARE_HASH);
	harp_heard_fini(&h);
	ck_assert_int_eq(read_line("{\"type\":\"snapshot\",\"snapshotId\":\"s\",\"snapshotType\":\"summary\","
				   "\"payload\":{}}",
				 &h),
		HARP_OK);
	ck_assert_str_eq(h.created_at, "2026-03-01T12:00:00.000Z");
	harp_heard_fini(&h);
}
END_TEST

START_TEST(a_worker_s_status_is_refused_with_its_own_code) /* proves HS-03 */
{
	struct harp_heard h;

	ck_assert_int_eq(
		read_line("{\"type\":\"snapshot\",\"eventType\":\"session.status\",\"state\":\"dancing\","
			  "\"updatedAt\":\"2026-03-01T12:00:00Z\"}",
			&h),
		HARP_INVALID_STATE);
	ck_assert_int_eq(
		read_line("{\"type\":\"snapshot\",\"eventType\":\"session.status\",\"state\":\"idle\","
			  "\"updatedAt\":\"2026-03-01T12:00:00Z\"}",
			&h),
		HARP_UNSUPPORTED);
	ck_assert_int_eq(
		read_line("{\"type\":\"snapshot\",\"eventType\":\"session.party\"}", &h), HARP_UNSUPPORTED);
}
END_TEST

START_TEST(unknown_event_is_refused_by_its_name_and_not_by_a_field)
{
	struct harp_heard h;

	ck_assert_int_eq(
		read_line("{\"type\":\"snapshot\",\"eventType\":\"session.end\",\"snapshotId\":\"s1\","
			  "\"snapshotType\":\"plan\",\"payload\":{}}",
			&h),
		HARP_UNSUPPORTED);
	ck_assert_str_eq(why, "eventType is not session.snapshot");
}
END_TEST

START_TEST(a_worker_s_own_hash_is_verified) /* proves HS-02 */
{
	struct harp_heard h;

	ck_assert_msg(read_line(PLAN(",\"metadata\":{\"tool\":\"x\"},\"snapshotHash\":\"" PLAN_HASH
				     "\",\"sessionId\":\"" ID
				     "\",\"eventType\":\"session.snapshot\",\"snapshotHashAlg\":\"SHA-256\""),
			      &h) == HARP_OK,
		"%s", why);
	harp_heard_fini(&h);
	refuse_line(PLAN(",\"snapshotHash\":\"" PLAN_HASH "\""), HARP_HASH_MISMATCH);
	refuse_line(PLAN(",\"snapshotHash\":7"), HARP_UNSUPPORTED);
	refuse_line(
		"{\"snapshotId\":\"s\",\"snapshotType\":\"plan\",\"payload\":{},\"snapshotHash\":\"" PLAN_HASH
		"\"}",
		HARP_UNSUPPORTED);
}
END_TEST

START_TEST(a_worker_s_snapshot_that_is_none_is_refused)
{
	refuse_line(PLAN(",\"sessionId\":\"" OTHER_ID "\""), HARP_SCOPE);
	refuse_line(PLAN(",\"eventType\":\"session.start\""), HARP_UNSUPPORTED);
	refuse_line(
		"{\"eventType\":\"session.status\",\"state\":\"idle\",\"updatedAt\":\"2026-03-01T10:00:"
		"00Z\"}",
		HARP_UNSUPPORTED);
	refuse_line(PLAN(",\"snapshotHashAlg\":\"MD5\""), HARP_UNSUPPORTED);
	refuse_line(PLAN(",\"sequence\":1"), HARP_UNSUPPORTED);
	refuse_line(PLAN(",\"metadata\":[]"), HARP_UNSUPPORTED);
	refuse_line(PLAN(",\"snapshotId\":\"twice\""), HARP_CANONICALIZATION);
	refuse_line(PLAN(",\"metadata\":{\"share\":0.5}"), HARP_CANONICALIZATION);
	refuse_line("{\"snapshotId\":\"s\",\"snapshotType\":\"plan\"}", HARP_UNSUPPORTED);
	refuse_line("{\"snapshotId\":\"s\",\"snapshotType\":\"poem\",\"payload\":{}}", HARP_UNSUPPORTED);
	refuse_line("{\"snapshotId\":\"\",\"snapshotType\":\"plan\",\"payload\":{}}", HARP_UNSUPPORTED);
	refuse_line(
		"{\"snapshotId\":\"a\\u0000b\",\"snapshotType\":\"plan\",\"payload\":{}}", HARP_UNSUPPORTED);
	refuse_line(
		"{\"snapshotId\":\"s\",\"snapshotType\":\"plan\",\"payload\":{},\"createdAt\":\"yesterday\"}",
		HARP_UNSUPPORTED);
	refuse_line("[]", HARP_CANONICALIZATION);
	refuse_line("", HARP_CANONICALIZATION);
}
END_TEST

START_TEST(a_snapshot_is_known_by_session_id_and_hash) /* proves HS-03 */
{
	struct harp_heard h;
	bool is_new;

	ck_assert_int_eq(harp_read_event(SNAPSHOT, strlen(SNAPSHOT), MOST, &h, why, sizeof why), HARP_OK);
	ck_assert_int_eq(harp_check_event(&h, false, NULL, &is_new, why, sizeof why), HARP_OK);
	ck_assert(is_new);
	ck_assert_int_eq(harp_check_event(&h, false, SNAPSHOT_HASH, &is_new, why, sizeof why), HARP_OK);
	ck_assert(!is_new);
	ck_assert_int_eq(
		harp_check_event(&h, false, PLAN_HASH, &is_new, why, sizeof why), HARP_DUPLICATE_SNAPSHOT);
	harp_heard_fini(&h);
}
END_TEST

START_TEST(nothing_counts_after_the_end_and_before_it_any_order_does) /* proves HS-03 */
{
	struct harp_heard h;
	bool is_new;

	for (int i = 0; i < HARP_EVENTS; i++) {
		ck_assert_int_eq(
			harp_read_event(good[i], strlen(good[i]), MOST, &h, why, sizeof why), HARP_OK);
		ck_assert_int_eq(
			harp_check_event(&h, true, NULL, &is_new, why, sizeof why), HARP_SESSION_CLOSED);
		ck_assert_int_eq(harp_check_event(&h, true, SNAPSHOT_HASH, &is_new, why, sizeof why),
			HARP_SESSION_CLOSED);
		/* Of its session nothing is known yet, not even that it began. */
		ck_assert_int_eq(harp_check_event(&h, false, NULL, &is_new, why, sizeof why), HARP_OK);
		ck_assert(is_new);
		harp_heard_fini(&h);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_session");
	TCase *t = tcase_create("harp_session");
	SRunner *r;
	int failed;

	suite_add_tcase(s, t);
	tcase_add_test(t, every_event_is_byte_for_byte_what_python_makes);
	tcase_add_test(t, event_reads_back_as_it_was_written);
	tcase_add_loop_test(t, an_event_has_all_the_fields_of_its_kind_and_no_other, 0, HARP_EVENTS);
	tcase_add_test(t, names_are_harp_s_both_ways);
	tcase_add_test(t, an_unknown_state_has_a_code_of_its_own);
	tcase_add_test(t, a_snapshot_with_anything_changed_is_not_its_hash);
	tcase_add_test(t, a_worker_s_snapshot_gets_what_it_leaves_out_and_its_hash);
	tcase_add_test(t, a_worker_s_status_is_refused_with_its_own_code);
	tcase_add_test(t, unknown_event_is_refused_by_its_name_and_not_by_a_field);
	tcase_add_test(t, a_worker_s_own_hash_is_verified);
	tcase_add_test(t, a_worker_s_snapshot_that_is_none_is_refused);
	tcase_add_test(t, a_snapshot_is_known_by_session_id_and_hash);
	tcase_add_test(t, nothing_counts_after_the_end_and_before_it_any_order_does);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
