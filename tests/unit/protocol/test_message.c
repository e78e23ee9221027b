/* SPDX-License-Identifier: MIT */
/* test_message.c: commands are read or refused as the wire says, and values pass through byte for byte. */
#include "protocol/message.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "{\"hcp_version\":\"1.0\",\"message_id\":\"m-1\",\"timestamp\":\"2026-01-31T12:00:00.000Z\","
#define SUBMIT HEAD "\"session_id\":null,\"type\":\"task_submit\",\"payload\":"
#define ABORT HEAD "\"session_id\":\"11111111-2222-4333-8444-AAAAAAAAAAAA\",\"type\":\"abort\",\"payload\":"
#define TASK "\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{}"
#define WITH(more) SUBMIT "{" TASK "," more "}}"

static struct command c;

static enum message_result read_text(const char *text, size_t size)
{
	char *exact = xmalloc(size > 0 ? size : 1); /* no byte behind it: a sanitizer would see */
	enum message_result v;

	memcpy(exact, text, size);
	v = message_read(exact, size, 64, &c);
	free(exact);
	return v;
}

/* ---- refusals ---- */

static const struct {
	const char *body;
	enum message_result verdict;
	const char *code; /* of a rejection */
} cases[] = {
	/* fine */
	{SUBMIT "{" TASK "}}", MESSAGE_OK, NULL},
	{ABORT "{}}", MESSAGE_OK, NULL},
	{ABORT "{\"session_token\":null,\"reason\":null}}", MESSAGE_OK, NULL},
	{WITH("\"unknown\":1"), MESSAGE_OK, NULL},
	{WITH("\"context\":{\"anything\":[1]}"), MESSAGE_OK, NULL},
	{WITH("\"context\":\"never validated\""), MESSAGE_OK, NULL},
	{WITH("\"constraints\":null,\"expected_output\":null,\"context\":null,\"metadata\":null"), MESSAGE_OK,
		NULL},
	{WITH("\"constraints\":{\"max_duration\":\"P1DT30M\",\"confidence_threshold\":1,\"data_"
	      "classification\":\"T4\","
	      "\"priority\":\"urgent\",\"else\":1}"),
		MESSAGE_OK, NULL},
	{WITH("\"expected_output\":{\"format\":\"f\",\"required_fields\":[],\"schema\":{}}"), MESSAGE_OK,
		NULL},
	{WITH("\"capability_version\":\"1.x || ^2.1 >=0.1.0\""), MESSAGE_OK, NULL},
	/* not JSON, not an object, bad UTF-8: nobody to answer */
	{"", MESSAGE_DROP, NULL},
	{"   ", MESSAGE_DROP, NULL},
	{"nonsense", MESSAGE_DROP, NULL},
	{"[]", MESSAGE_DROP, NULL},
	{"\"x\"", MESSAGE_DROP, NULL},
	{"17", MESSAGE_DROP, NULL},
	{"{\"a\":1", MESSAGE_DROP, NULL},
	{"{}{}", MESSAGE_DROP, NULL},
	{"{}", MESSAGE_DROP, NULL},
	{SUBMIT "{" TASK "}} trailing", MESSAGE_DROP, NULL},
	{SUBMIT "{" TASK ",\"x\":\"\xff\"}}", MESSAGE_DROP, NULL},
	{SUBMIT "{" TASK ",\"x\":\"\xc0\x80\"}}", MESSAGE_DROP, NULL},
	{SUBMIT "{" TASK ",\"intent\":\"twice\"}}", MESSAGE_DROP, NULL},
	/* no well-formed caller_id */
	{SUBMIT "{\"capability\":\"work\",\"intent\":\"x\",\"inputs\":{}}}", MESSAGE_DROP, NULL},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":7,\"intent\":\"x\",\"inputs\":{}}}", MESSAGE_DROP,
		NULL},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"a.b\",\"intent\":\"x\",\"inputs\":{}}}",
		MESSAGE_DROP, NULL},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"#\",\"intent\":\"x\",\"inputs\":{}}}", MESSAGE_DROP,
		NULL},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"\",\"intent\":\"x\",\"inputs\":{}}}", MESSAGE_DROP,
		NULL},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\\u0000\",\"intent\":\"x\",\"inputs\":{}}}",
		MESSAGE_DROP, NULL},
	{SUBMIT "[]}", MESSAGE_DROP, NULL},
	/* version */
	{"{\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":1.0,\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":\"2.0\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"10.0\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"0.9\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"1.x\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"1..\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"1.\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"1.0.\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"1..0\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"1\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\" 1.0\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	{"{\"hcp_version\":\"\",\"payload\":{\"caller_id\":\"alpha\"}}", MESSAGE_REJECT,
		"unsupported_version"},
	/* envelope */
	{"{\"hcp_version\":\"1.0\",\"timestamp\":\"2026-01-31T12:00:00Z\",\"session_id\":null,\"type\":"
	 "\"task_submit\",\"payload\":{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"\",\"timestamp\":\"2026-01-31T12:00:00Z\",\"session_id\":"
	 "null,\"type\":\"task_submit\","
	 "\"payload\":{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"a\\nb\",\"timestamp\":\"2026-01-31T12:00:00Z\",\"session_"
	 "id\":null,"
	 "\"type\":\"task_submit\",\"payload\":{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"m\",\"session_id\":null,\"type\":\"task_submit\","
	 "\"payload\":{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"m\",\"timestamp\":\"yesterday\",\"session_id\":null,"
	 "\"type\":\"task_submit\","
	 "\"payload\":{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{"{\"hcp_version\":\"1.0\",\"message_id\":\"m\",\"timestamp\":1769860800,\"session_id\":null,"
	 "\"type\":\"task_submit\","
	 "\"payload\":{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{HEAD "\"type\":\"task_submit\",\"payload\":{" TASK "}}", MESSAGE_REJECT, "invalid_input"},
	{HEAD "\"session_id\":\"11111111-2222-4333-8444-555555555555\",\"type\":\"task_submit\",\"payload\":"
	      "{" TASK "}}",
		MESSAGE_REJECT, "invalid_input"},
	{HEAD "\"session_id\":null,\"payload\":{" TASK "}}", MESSAGE_REJECT, "invalid_input"},
	{HEAD "\"session_id\":null,\"type\":5,\"payload\":{" TASK "}}", MESSAGE_REJECT, "invalid_input"},
	{HEAD "\"session_id\":null,\"type\":\"event\",\"payload\":{" TASK "}}", MESSAGE_REJECT,
		"invalid_input"},
	{HEAD "\"session_id\":null,\"type\":\"\",\"payload\":{" TASK "}}", MESSAGE_REJECT, "invalid_input"},
	/* task */
	{SUBMIT "{\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{}}}", MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":null,\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{}}}",
		MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":\"\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{}}}",
		MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":\"a\\u0000b\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{}}}",
		MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\",\"inputs\":{}}}", MESSAGE_REJECT,
		"invalid_input"},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":[],\"inputs\":{}}}",
		MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"\",\"inputs\":{}}}",
		MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"x\"}}", MESSAGE_REJECT,
		"invalid_input"},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":[]}}",
		MESSAGE_REJECT, "invalid_input"},
	{SUBMIT "{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":null}}",
		MESSAGE_REJECT, "invalid_input"},
	{WITH("\"capability_version\":\"one\""), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"capability_version\":1"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":[]"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"checkpoint\":\"c\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"checkpoint\":{}}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"context\":{\"continues\":\"s\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"context\":{\"continues\":5}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"context\":{\"continues\":null}"), MESSAGE_OK, NULL},
	{WITH("\"context\":[\"continues\"]"), MESSAGE_OK, NULL},
	{WITH("\"constraints\":{\"max_duration\":\"1h\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"max_duration\":\"PT\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"max_duration\":3600}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"max_duration\":\"PT0S\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"max_duration\":\"-PT5S\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"confidence_threshold\":1.01}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"confidence_threshold\":\"high\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"priority\":\"NORMAL\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"priority\":1}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"constraints\":{\"data_classification\":\"T5\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"expected_output\":\"json\""), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"expected_output\":{\"required_fields\":\"x\"}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"expected_output\":{\"required_fields\":[1]}"), MESSAGE_REJECT, "invalid_input"},
	{WITH("\"metadata\":[]"), MESSAGE_REJECT, "invalid_input"},
	/* abort: there is no caller_id in it, so nobody is known */
	{HEAD "\"session_id\":null,\"type\":\"abort\",\"payload\":{}}", MESSAGE_DROP, NULL},
	{HEAD "\"session_id\":\"not-a-uuid\",\"type\":\"abort\",\"payload\":{}}", MESSAGE_DROP, NULL},
	{HEAD "\"session_id\":\"11111111-2222-1333-8444-555555555555\",\"type\":\"abort\",\"payload\":{}}",
		MESSAGE_DROP, NULL},
	{ABORT "{\"session_token\":5}}", MESSAGE_DROP, NULL},
	{ABORT "{\"reason\":{}}}", MESSAGE_DROP, NULL},
	{ABORT "null}", MESSAGE_DROP, NULL},
};

START_TEST(each_kind_of_input_has_its_verdict) /* proves L1-15 L1-20 L1-12 */
{
	enum message_result v = read_text(cases[_i].body, strlen(cases[_i].body));

	ck_assert_msg(v == cases[_i].verdict, "%s: %d %s", cases[_i].body, v, c.message);
	if (v == MESSAGE_REJECT) {
		ck_assert_str_eq(c.code, cases[_i].code);
		ck_assert_str_eq(c.caller_id, "alpha");
	}
	ck_assert(v == MESSAGE_OK || strlen(c.message) > 0);
	command_fini(&c);
}
END_TEST

START_TEST(the_same_major_version_is_accepted) /* proves L1-20 */
{
	static const char *const versions[] = {"1.0", "1.1", "1.99", "1.0.3"};
	struct buf b = {0};

	buf_addf(&b,
		"{\"hcp_version\":\"%s\",\"message_id\":\"m\",\"timestamp\":\"2026-01-31T12:00:00Z\","
		"\"session_id\":null,"
		"\"type\":\"task_submit\",\"payload\":{" TASK "}}",
		versions[_i]);
	ck_assert_int_eq(read_text(b.data, b.size), MESSAGE_OK);
	command_fini(&c);
	buf_fini(&b);
}
END_TEST

START_TEST(any_iso_instant_and_any_printable_message_id_will_do) /* proves L1-01 */
{
	static const char *const times[] = {"2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00Z",
		"2026-01-31T12:00Z", "2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00+00:00",
		"20260131T120000Z"};
	static const char *const ids[] = {"1", "order 66 / {x}", "11111111-2222-4333-8444-555555555555"};
	struct buf b = {0};
	const char *id = ids[_i % 3];

	buf_addf(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"%s\",\"session_id\":null,"
		"\"type\":\"task_submit\",\"payload\":{" TASK "}}",
		id, times[_i]);
	ck_assert_msg(read_text(b.data, b.size) == MESSAGE_OK, "%s", c.message);
	ck_assert_str_eq(c.message_id, id);
	command_fini(&c);
	buf_fini(&b);
}
END_TEST

START_TEST(ids_have_their_lengths) /* proves L1-01 L1-20 */
{
	struct buf b = {0};
	char id[200];
	size_t n = (size_t)_i;

	memset(id, 'i', sizeof id);
	id[n] = '\0';
	ck_assert_int_eq(message_is_caller_id(id, n), n >= 1 && n <= 128);
	buf_addf(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00Z\","
		"\"session_id\":null,"
		"\"type\":\"task_submit\",\"payload\":{" TASK "}}",
		id);
	ck_assert_int_eq(read_text(b.data, b.size), n >= 1 && n <= 128 ? MESSAGE_OK : MESSAGE_REJECT);
	ck_assert_int_eq(c.message_id[0] != '\0', n >= 1 && n <= 128);
	command_fini(&c);
	buf_fini(&b);
}
END_TEST

START_TEST(caller_ids_have_their_alphabet) /* proves L1-20 */
{
	for (int ch = 0; ch < 256; ch++) {
		char id[3] = {'a', (char)ch, 'b'};
		bool good = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') ||
			(ch >= 'A' && ch <= 'Z') || ch == '-' || ch == '_' || ch == ':';

		ck_assert_msg(message_is_caller_id(id, 3) == good, "%d", ch);
	}
}
END_TEST

/* ---- depth ---- */

static enum message_result read_nested(int levels, int max_depth)
{
	struct buf b = {0};
	enum message_result v;

	buf_add_text(&b,
		SUBMIT
		"{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{\"x\":");
	for (int i = 0; i < levels - 3; i++) /* the message, the payload and the inputs are three */
		buf_add_text(&b, "[");
	for (int i = 0; i < levels - 3; i++)
		buf_add_text(&b, "]");
	if (levels <= 3)
		buf_add_text(&b, "1");
	buf_add_text(&b, "}}}");
	v = message_read(b.data, b.size, max_depth, &c);
	command_fini(&c);
	buf_fini(&b);
	return v;
}

START_TEST(too_deep_is_invalid_input_where_the_caller_can_be_read) /* proves L1-15 */
{
	ck_assert_int_eq(read_nested(64, 64), MESSAGE_OK);
	ck_assert_int_eq(read_nested(65, 64), MESSAGE_REJECT);
	ck_assert_int_eq(read_nested(200, 64), MESSAGE_REJECT);
	ck_assert_int_ne(read_nested(5000, 64), MESSAGE_OK);
	ck_assert_int_ne(read_nested(1000000, 64), MESSAGE_OK);
}
END_TEST

START_TEST(a_configured_depth_is_honoured)
{
	ck_assert_int_eq(read_nested(1024, 1024), MESSAGE_OK); /* the largest that hcpd.ini allows */
	ck_assert_int_ne(read_nested(1025, 1024), MESSAGE_OK);
	ck_assert_int_eq(read_nested(8, 8), MESSAGE_OK);
	ck_assert_int_ne(read_nested(9, 8), MESSAGE_OK);
}
END_TEST

/* ---- values ---- */

static const char *const values[] = {
	"1.10",
	"0.1",
	"-0",
	"-0.0",
	"1e5",
	"1E+05",
	"123456789012345678901234567890",
	"-9223372036854775808",
	"18446744073709551616",
	"3.141592653589793238462643383279",
	"\"\"",
	"\"\\u00e9\"",
	"\"\xc3\xa9\"",
	"\"\\/\"",
	"\"/\"",
	"\"\\ud83d\\ude00\"",
	"\"\xf0\x9f\x98\x80\"",
	"\"a\\tb\\n\"",
	"\"\\u0000\"",
	"{\"z\":1,\"a\":2,\"m\":{\"z\":0,\"b\":0}}",
	"[1,2.0,[],{}]",
	"null",
	"true",
	"\"  two  spaces  \"",
	"\"\\\"}\"",
	"{\"\":{\"\\\"k\\\"\":1}}",
};

START_TEST(values_reach_the_task_byte_for_byte) /* proves L4-01 */
{
	struct buf b = {0}, wanted = {0};

	buf_add_text(&b,
		SUBMIT
		"{\"capability\":\"work\",\"caller_id\":\"alpha\",\"intent\":\"x\",\"inputs\":{ \"v\" : ");
	buf_add_text(&b, values[_i]);
	buf_add_text(&b, " },\n\"context\":{\"v\":");
	buf_add_text(&b, values[_i]);
	buf_add_text(&b, "},\"metadata\":{\"v\":");
	buf_add_text(&b, values[_i]);
	buf_add_text(&b, "}}}");
	ck_assert_msg(read_text(b.data, b.size) == MESSAGE_OK, "%s", c.message);
	buf_add_text(&wanted, "{\"capability\":\"work\",\"intent\":\"x\",\"inputs\":{\"v\":");
	buf_add_text(&wanted, values[_i]);
	buf_add_text(&wanted, "},\"constraints\":{},\"expected_output\":{},\"context\":{\"v\":");
	buf_add_text(&wanted, values[_i]);
	buf_add_text(&wanted, "},\"caller_id\":\"alpha\"}");
	ck_assert_uint_eq(c.task.json_size, wanted.size);
	ck_assert(memcmp(c.task.json, wanted.data, wanted.size) == 0);
	buf_clear(&wanted);
	buf_addf(&wanted, "{\"v\":%s}", values[_i]);
	ck_assert_str_eq(c.task.metadata, buf_text(&wanted));
	command_fini(&c);
	buf_fini(&b);
	buf_fini(&wanted);
}
END_TEST

START_TEST(members_for_the_gate_are_read) /* proves L4-01 */
{
	static const char body[] = WITH(
		"\"capability_version\":\"1.x\",\"constraints\":{\"max_duration\":"
		"\"PT1.5S\",\"priority\":\"high\","
		"\"data_classification\":\"T2\",\"checkpoint\":\"5F0C0000-0000-4000-8000-00000000000a\"},"
		"\"context\":{\"continues\":\"5f0c0000-0000-4000-8000-00000000000B\"}");

	ck_assert_int_eq(read_text(body, sizeof body - 1), MESSAGE_OK);
	ck_assert_int_eq(c.kind, COMMAND_SUBMIT);
	ck_assert_str_eq(c.caller_id, "alpha");
	ck_assert_str_eq(c.message_id, "m-1");
	ck_assert_str_eq(c.task.capability, "work");
	ck_assert_str_eq(c.task.version_range, "1.x");
	ck_assert_int_eq(c.task.max_duration_us, 1500000);
	ck_assert(c.task.priority == PRIORITY_HIGH && c.task.data_class == T2);
	ck_assert_str_eq(c.task.checkpoint, "5f0c0000-0000-4000-8000-00000000000a");
	ck_assert_str_eq(c.task.continues, "5f0c0000-0000-4000-8000-00000000000b");
	command_fini(&c);
	ck_assert_int_eq(read_text(SUBMIT "{" TASK "}}", strlen(SUBMIT "{" TASK "}}")), MESSAGE_OK);
	ck_assert(c.task.priority == PRIORITY_NORMAL && c.task.data_class == T1);
	ck_assert(c.task.checkpoint[0] == '\0' && c.task.continues[0] == '\0');
	ck_assert(c.task.version_range == NULL && c.task.metadata == NULL && c.task.max_duration_us == 0);
	command_fini(&c);
}
END_TEST

START_TEST(a_stored_task_is_read_as_its_message_was)
{
	static const char body[] =
		WITH("\"capability_version\":\"1.x\",\"constraints\":{\"priority\":\"high\"}");
	struct command stored;

	ck_assert_int_eq(read_text(body, sizeof body - 1), MESSAGE_OK);
	ck_assert(message_read_task(c.task.json, c.task.json_size, 3, &stored));
	ck_assert(stored.kind == COMMAND_SUBMIT && stored.task.priority == PRIORITY_HIGH);
	ck_assert_str_eq(stored.caller_id, "alpha");
	ck_assert_str_eq(stored.task.capability, "work");
	ck_assert_str_eq(stored.task.version_range, "1.x");
	ck_assert_uint_eq(stored.task.json_size, c.task.json_size);
	ck_assert_mem_eq(stored.task.json, c.task.json, c.task.json_size);
	command_fini(&stored);
	/* The message around the task counts as a level: the limit of now decides, not that of the submit. */
	ck_assert(!message_read_task(c.task.json, c.task.json_size, 2, &stored));
	ck_assert_str_eq(stored.message, "the message nests 3 deep; 2 is allowed");
	command_fini(&stored);
	command_fini(&c);
}
END_TEST

START_TEST(a_damaged_stored_task_is_refused)
{
	static const char *const texts[] = {"", "null", "[]", "{}",
		"{\"capability\":", "{\"caller_id\":\"alpha\"}",
		"{\"capability\":\"work\",\"intent\":\"x\",\"inputs\":{}}"};
	struct command stored;

	ck_assert(!message_read_task(texts[_i], strlen(texts[_i]), 64, &stored));
	ck_assert_str_ne(stored.message, "");
	command_fini(&stored);
}
END_TEST

START_TEST(an_abort_is_read_and_its_session_id_is_lower_case)
{
	static const char body[] = ABORT "{\"session_token\":\"t.x\",\"reason\":\"enough\"}}";

	ck_assert_int_eq(read_text(body, sizeof body - 1), MESSAGE_OK);
	ck_assert_int_eq(c.kind, COMMAND_ABORT);
	ck_assert_str_eq(c.session_id, "11111111-2222-4333-8444-aaaaaaaaaaaa");
	ck_assert_str_eq(c.token, "t.x");
	ck_assert_str_eq(c.reason, "enough");
	command_fini(&c);
}
END_TEST

START_TEST(names_written_with_escapes_are_the_same_names)
{
	static const char body[] = SUBMIT
		"{\"c\\u0061pability\":\"work\",\"caller_id\":\"alpha\",\"intent\":"
		"\"x\",\"inp\\u0075ts\":{\"n\":5}}}";

	ck_assert_int_eq(read_text(body, sizeof body - 1), MESSAGE_OK);
	ck_assert(strstr(c.task.json, "\"inputs\":{\"n\":5}") != NULL);
	ck_assert_str_eq(c.task.capability, "work");
	command_fini(&c);
}
END_TEST

START_TEST(no_prefix_and_no_broken_byte_of_a_message_does_harm) /* proves L1-15 */
{
	static const char body[] =
		WITH("\"constraints\":{\"max_duration\":\"PT5S\"},\"metadata\":{\"a\":[\"\\u00e9\",1.5]}");
	char copy[sizeof body];

	for (size_t n = 0; n < sizeof body - 1; n++) {
		ck_assert_int_eq(read_text(body, n), MESSAGE_DROP);
		command_fini(&c);
	}
	for (size_t n = 0; n < sizeof body - 1; n++) {
		memcpy(copy, body, sizeof body);
		copy[n] = (char)(n % 3 == 0 ? 0 : n % 3 == 1 ? 0xff : '{');
		read_text(copy, sizeof body - 1);
		command_fini(&c);
	}
}
END_TEST

/* ---- composing ---- */

START_TEST(the_head_is_what_peek_reads) /* proves L1-01 L1-02 */
{
	struct buf b = {0};
	struct message_head h;
	json_t *root;

	message_begin_as(&b, "11111111-2222-4333-8444-555555555555", "2026-01-31T12:00:00.123Z",
		_i == 0 ? NULL : "aaaaaaaa-2222-4333-8444-555555555555", "event");
	buf_add_text(&b, "{\"x\":1}");
	message_end(&b);
	ck_assert_str_eq(buf_text(&b),
		_i == 0 ? "{\"hcp_version\":\"1.0\",\"message_id\":\"11111111-2222-4333-8444-"
			  "555555555555\",\"timestamp\":\"2026-01-31T12:00:00.123Z\","
			  "\"session_id\":null,\"type\":\"event\",\"payload\":{\"x\":1}}" :
			  "{\"hcp_version\":\"1.0\",\"message_id\":\"11111111-2222-4333-8444-"
			  "555555555555\",\"timestamp\":\"2026-01-31T12:00:00.123Z\","
			  "\"session_id\":\"aaaaaaaa-2222-4333-8444-555555555555\",\"type\":"
			  "\"event\",\"payload\":{\"x\":1}}");
	ck_assert(message_peek(b.data, b.size, &h));
	ck_assert_str_eq(h.message_id, "11111111-2222-4333-8444-555555555555");
	ck_assert_int_eq(h.timestamp_s, 1769860800);
	root = json_loadb(b.data, b.size, JSON_REJECT_DUPLICATES, NULL);
	ck_assert(root != NULL);
	json_decref(root);
	buf_clear(&b);
	message_begin(&b, NULL, "task_rejected");
	buf_add_text(&b, "{}");
	message_end(&b);
	ck_assert(message_peek(b.data, b.size, &h));
	ck_assert(id_is_uuid4(h.message_id));
	buf_fini(&b);
}
END_TEST

START_TEST(peek_refuses_what_is_not_ours)
{
	static const char *const others[] = {"", "{}", "{\"hcp_version\":\"1.0\",\"message_id\":\"",
		"hello world",
		"{\"hcp_version\":\"1.0\",\"message_id\":\"11111111-2222-4333-8444-555555555555\","
		"\"timestamp\":\"not a time at all, no...\",",
		"{\"message_id\":\"11111111-2222-4333-8444-555555555555\",\"hcp_version\":\"1.0\","
		"\"timestamp\":\"2026-01-31T12:00:00.123Z\"}"};
	struct message_head h;

	ck_assert(!message_peek(others[_i], strlen(others[_i]), &h));
}
END_TEST

/* ---- who sends it? ---- */

static bool scan_text(const char *text, struct command *out)
{
	size_t size = strlen(text);
	char *exact = xmalloc(size + 1);
	bool found;

	memcpy(exact, text, size + 1);
	found = message_scan_submit(exact, size, out);
	free(exact);
	return found;
}

START_TEST(a_scan_finds_the_ids_that_a_read_finds)
{
	struct command scanned;
	enum message_result v = read_text(cases[_i].body, strlen(cases[_i].body));

	if (scan_text(cases[_i].body, &scanned)) {
		ck_assert_int_eq(scanned.kind, COMMAND_SUBMIT);
		ck_assert(v == MESSAGE_OK || v == MESSAGE_REJECT || strstr(cases[_i].body, "twice") != NULL);
		if (v != MESSAGE_DROP) {
			ck_assert_str_eq(scanned.caller_id, c.caller_id);
			ck_assert_str_eq(scanned.message_id, c.message_id);
		}
		if (v == MESSAGE_OK)
			ck_assert_str_eq(scanned.task.capability, c.task.capability);
	} else {
		/* No plain submit is left to the read, which costs more. */
		ck_assert(v != MESSAGE_OK || c.kind == COMMAND_ABORT);
	}
	command_fini(&scanned);
	command_fini(&c);
}
END_TEST

#define AS(caller) "{\"capability\":\"work\",\"caller_id\":" caller ",\"intent\":\"x\",\"inputs\":{}}"

/* Where a reader of the tree might see another name, the scan says nothing. */
static const char *const unclear[] = {
	SUBMIT AS("\"al\\u0070ha\"") "}",
	SUBMIT "{\"capability\":\"work\",\"caller\\u005fid\":\"alpha\",\"intent\":\"x\",\"inputs\":{}}}",
	SUBMIT "{" TASK ",\"caller_id\":\"beta\"}}",
	SUBMIT "{" TASK "},\"payload\":{\"caller_id\":\"beta\"}}",
	SUBMIT "{" TASK "},\"type\":\"abort\"}",
	SUBMIT "{" TASK "}}{}",
	SUBMIT "{" TASK "}",
	SUBMIT AS("\"a.b\"") "}",
	SUBMIT AS("7") "}",
	SUBMIT "[]}",
	"[" SUBMIT "{" TASK "}}]",
	ABORT "{\"caller_id\":\"alpha\"}}",
	"{\"type\":\"task_submit\",\"payload\":" AS("\"alpha\"") "}",
	"",
};

START_TEST(a_scan_leaves_what_is_unclear_to_the_read)
{
	struct command scanned;

	ck_assert(!scan_text(unclear[_i], &scanned));
	command_fini(&scanned);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("codec");
	TCase *t = tcase_create("reading"), *w = tcase_create("composing");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, each_kind_of_input_has_its_verdict, 0, (int)(sizeof cases / sizeof *cases));
	tcase_add_loop_test(t, the_same_major_version_is_accepted, 0, 4);
	tcase_add_loop_test(t, any_iso_instant_and_any_printable_message_id_will_do, 0, 6);
	tcase_add_loop_test(t, ids_have_their_lengths, 126, 131);
	tcase_add_loop_test(t, ids_have_their_lengths, 0, 2);
	tcase_add_test(t, caller_ids_have_their_alphabet);
	tcase_add_test(t, too_deep_is_invalid_input_where_the_caller_can_be_read);
	tcase_add_test(t, a_configured_depth_is_honoured);
	tcase_add_loop_test(t, values_reach_the_task_byte_for_byte, 0, (int)(sizeof values / sizeof *values));
	tcase_add_test(t, members_for_the_gate_are_read);
	tcase_add_test(t, a_stored_task_is_read_as_its_message_was);
	tcase_add_loop_test(t, a_damaged_stored_task_is_refused, 0, 7);
	tcase_add_test(t, an_abort_is_read_and_its_session_id_is_lower_case);
	tcase_add_test(t, names_written_with_escapes_are_the_same_names);
	tcase_add_test(t, no_prefix_and_no_broken_byte_of_a_message_does_harm);
	tcase_add_loop_test(
		t, a_scan_finds_the_ids_that_a_read_finds, 0, (int)(sizeof cases / sizeof *cases));
	tcase_add_loop_test(
		t, a_scan_leaves_what_is_unclear_to_the_read, 0, (int)(sizeof unclear / sizeof *unclear));
	tcase_add_loop_test(w, the_head_is_what_peek_reads, 0, 2);
	tcase_add_loop_test(w, peek_refuses_what_is_not_ours, 0, 6);
	suite_add_tcase(s, t);
	suite_add_tcase(s, w);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
