/* SPDX-License-Identifier: MIT */
/* test_render.c: each kind of message as a line, and nothing in it that a terminal would obey. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "hcpctl/common/ctl.h"
#include "hcpctl/common/message.h"
#include "hcpctl/common/render.h"

#define SID "5f0c1111-1111-4111-8111-111111111111"

static struct buf out;
static struct ctl_render_options look;

static void begin(void)
{
	setenv("TZ", "UTC", 1);
	tzset();
	look = (struct ctl_render_options){0};
}

static void end(void)
{
	buf_fini(&out);
}

/* ' stands for ". */
static struct ctl_message *message(const char *type, const char *payload)
{
	struct buf b = {0};
	struct ctl_message *n;

	buf_addf(&b,
		"{'hcp_version':'1.0','message_id':'m','timestamp':'2026-01-31T12:34:56.789Z','session_id':"
		"'" SID
		"',"
		"'type':'%s','payload':%s}",
		type, payload);
	buf_text(&b);
	for (size_t i = 0; i < b.size; i++)
		if (b.data[i] == '\'')
			b.data[i] = '"';
	n = ctl_message_read(b.data, b.size);
	ck_assert_msg(n != NULL, "%s", payload);
	return n;
}

static const char *line(const char *type, const char *payload)
{
	struct ctl_message *n = message(type, payload);

	buf_clear(&out);
	ctl_render_line(&out, n, look);
	ctl_message_free(n);
	return buf_text(&out);
}

static const char *event(const char *name, const char *data)
{
	static char payload[1024];

	snprintf(payload, sizeof payload, "{'event_type':'%s','sequence':1,'data':%s}", name, data);
	return line("event", payload);
}

START_TEST(each_event_is_one_line)
{
	ck_assert_str_eq(
		event("session_created", "{'state':'PENDING','risk_level':'R2','session_token':'secret'}"),
		"12:34:56 PENDING    risk R2\n");
	ck_assert_str_eq(
		event("state_changed", "{'from_state':'PENDING','to_state':'RUNNING','reason':'slot_free'}"),
		"12:34:56 RUNNING    was PENDING: slot_free\n");
	ck_assert_str_eq(event("progress", "{'stage':'mixing','percent':42.4,'message':'half way'}"),
		"12:34:56 progress    42% mixing: half way\n");
	ck_assert_str_eq(event("progress", "{'message':'no more is known'}"),
		"12:34:56 progress   no more is known\n");
	ck_assert_str_eq(event("intermediate_result",
				 "{'result_type':'draft','data':{'n':[1,2.5]},'is_partial':true}"),
		"12:34:56 partial    draft: {\"n\":[1,2.5]}\n");
	ck_assert_str_eq(event("log", "{'level':'info','message':'said','details':{'a':1}}"),
		"12:34:56 info       said {\"a\":1}\n");
	ck_assert_str_eq(event("log", "{'level':'warn','message':'said','details':{'stream':'stderr'}}"),
		"12:34:56 warn       said\n");
	ck_assert_str_eq(event("warning", "{'code':'odd','message':'look','details':null}"),
		"12:34:56 warning    odd: look\n");
	ck_assert_str_eq(event("error", "{'code':'bad','message':'it broke','recoverable':true}"),
		"12:34:56 error      bad: it broke (recoverable)\n");
	ck_assert_str_eq(event("checkpoint_created",
				 "{'checkpoint_id':'c-1','description':'step 3','resumable':true}"),
		"12:34:56 checkpoint step 3 (c-1)\n");
	ck_assert_str_eq(event("session_closed", "{'final_state':'COMPLETED','reason':'completed'}"),
		"12:34:56 COMPLETED  session closed: completed\n");
}
END_TEST

START_TEST(each_answer_and_result_is_one_line)
{
	ck_assert_str_eq(line("task_accepted",
				 "{'session_token':'secret','risk_level':'R2','data_classification':'T1',"
				 "'constraints':{'max_duration':'PT1H'}}"),
		"12:34:56 accepted   session " SID ", risk R2, data T1, at most PT1H\n");
	ck_assert_str_eq(
		line("task_rejected",
			"{'reason_code':'forbidden','reason_message':'not yours','suggestion':'ask'}"),
		"12:34:56 REJECTED   forbidden: not yours; ask\n");
	ck_assert_str_eq(line("task_completed",
				 "{'outputs':{},'execution_summary':{'duration':'PT2S','steps_executed':3,"
				 "'checkpoints_created':1}}"),
		"12:34:56 result     after PT2S, steps 3, checkpoints 1\n");
	ck_assert_str_eq(line("task_failed",
				 "{'error_code':'timeout','error_message':'too long','error_details':"
				 "{'step':'mixing','last_checkpoint':null}}"),
		"12:34:56 FAILED     timeout: too long; step mixing\n");
}
END_TEST

START_TEST(a_kind_that_is_not_known_is_shown_all_the_same)
{
	ck_assert_str_eq(event("novelty", "{'a':1}"), "12:34:56 novelty    {\"a\":1}\n");
	ck_assert_str_eq(line("task_news", "{'b':2}"), "12:34:56 task_news  {\"b\":2}\n");
	ck_assert_str_eq(event("progress", "{'stage':7,'percent':'x'}"), "12:34:56 progress   7\n");
}
END_TEST

START_TEST(a_line_of_many_sessions_names_its_own)
{
	look.with_session = true;
	ck_assert_str_eq(event("log", "{'level':'info','message':'x'}"), "12:34:56 5f0c1111 info       x\n");
}
END_TEST

START_TEST(colours_are_there_only_when_asked_for)
{
	ck_assert_ptr_null(strchr(event("session_closed", "{'final_state':'FAILED'}"), '\033'));
	look.colour = true;
	ck_assert_str_eq(event("session_closed", "{'final_state':'FAILED'}"),
		"12:34:56 \033[31mFAILED    \033[0m session closed\n");
}
END_TEST

START_TEST(nothing_in_an_event_reaches_the_terminal_as_a_command)
{
	static const char *const bad[] = {"\\u001b[2J", "\\u0007", "\\n12:00:00 COMPLETED", "\\r",
		"\\u009b31m", "\\u007f", "\\u202e", "\\u0000", "\\t"};
	static const char *const names[] = {"session_created", "state_changed", "progress",
		"intermediate_result", "log", "warning", "error", "checkpoint_created", "session_closed",
		"unheard_of"};
	char data[900];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
			const char *t = bad[i], *shown;

			snprintf(data, sizeof data,
				"{'state':'%s','to_state':'%s','from_state':'%s','reason':'%s','stage':'%s',"
				"'message':'%s','result_type':'%s','data':'%s','level':'%s','code':'%s','"
				"description':'%s',"
				"'checkpoint_id':'%s','final_state':'%s','risk_level':'%s','details':{'%s':'%"
				"s'}}",
				t, t, t, t, t, t, t, t, t, t, t, t, t, t, strcmp(t, "\\u0000") == 0 ? "k" : t,
				t);
			shown = event(names[k], data);
			for (const unsigned char *p = (const unsigned char *)shown;
				p < (const unsigned char *)shown + out.size - 1; p++)
				ck_assert_msg(*p >= 0x20 && *p != 0x7f && !(p[0] == 0xc2 && p[1] < 0xa0) &&
						memcmp(p, "\xe2\x80\xae", 3) != 0,
					"%s in %s: %s", t, names[k], shown);
			ck_assert_int_eq(out.data[out.size - 1], '\n');
		}
}
END_TEST

START_TEST(text_is_escaped_so_that_it_can_be_read)
{
	ctl_escape(&out, "a\tb\nc\x1b\xff\xc2\x85 \xc3\xa4", 12, false);
	ck_assert_str_eq(buf_text(&out), "a\\tb\\nc\\x1b\\xff\\u0085 \xc3\xa4");
	buf_clear(&out);
	ctl_escape(&out, "a\nb", 3, true);
	ck_assert_str_eq(buf_text(&out), "a\nb");
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const struct {
	const char *text, *shown;
} invisible[] = {
	{"a\xd8\x9c"
	 "b",
		"a\\u061cb"},                  /* Arabic letter mark: turns the direction */
	{"rm\xe2\x80\x8b -r", "rm\\u200b -r"}, /* zero width space */
	{"a\xe2\x80\x8d"
	 "b",
		"a\\u200db"}, /* zero width joiner */
	{"a\xe2\x81\xa0"
	 "b",
		"a\\u2060b"}, /* word joiner */
	{"a\xe2\x81\xa4"
	 "b",
		"a\\u2064b"}, /* invisible plus */
	{"a\xc2\xad"
	 "b",
		"a\\u00adb"}, /* soft hyphen */
	{"a\xe3\x85\xa4"
	 "b",
		"a\\u3164b"}, /* Hangul filler */
	{"a\xef\xb8\x8f"
	 "b",
		"a\\ufe0fb"},                    /* variation selector */
	{"x\xf3\xa0\x81\x81y", "x\\U000e0041y"}, /* tag A */
	{"x\xf3\xa0\x84\x80y", "x\\U000e0100y"}, /* variation selector 17 */
	{"x\xef\xbf\xbey", "x\\ufffey"},         /* no character */
	{"\xd8\xb9\xe2\x82\xac\xf0\x9f\x98\x80", "\xd8\xb9\xe2\x82\xac\xf0\x9f\x98\x80"},
};

START_TEST(invisible_characters_are_shown)
{
	ctl_escape(&out, invisible[_i].text, strlen(invisible[_i].text), false);
	ck_assert_str_eq(buf_text(&out), invisible[_i].shown);
}
END_TEST

START_TEST(a_long_value_is_cut_between_characters)
{
	char data[900] = "{'result_type':'t','data':'";
	size_t at = strlen(data);

	for (int i = 0; i < 150; i++, at += 2)
		memcpy(data + at, "\xc3\xa4", 3);
	strcpy(data + at, "'}");
	event("intermediate_result", data);
	ck_assert_uint_lt(out.size, 300);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "...\n"));
	ck_assert_ptr_null(strstr(buf_text(&out), "\\x"));
}
END_TEST

static const char *result(const char *type, const char *payload)
{
	struct ctl_message *n = message(type, payload);

	buf_clear(&out);
	ctl_render_result(&out, n);
	ctl_message_free(n);
	return buf_text(&out);
}

START_TEST(outputs_are_printed_as_they_came_with_room_to_read)
{
	ck_assert_str_eq(
		result("task_completed", "{'outputs':{'b':1.10,'a':[1,{}],'e':[],'s':'x, {y}: \\\"z\\\\'}}"),
		"{\n  \"b\": 1.10,\n  \"a\": [\n    1,\n    {}\n  ],\n  \"e\": [],\n  \"s\": \"x, {y}: "
		"\\\"z\\\\\"\n}\n");
	ck_assert_str_eq(result("task_completed", "{'outputs':{}}"), "{}\n");
	ck_assert_str_eq(result("task_failed", "{'partial_outputs':{'h':1}}"), "{\n  \"h\": 1\n}\n");
	ck_assert_str_eq(result("task_failed", "{'partial_outputs':{}}"), "");
	ck_assert_str_eq(
		result("task_completed", "{'outputs':{'x':'\xc2\x9b'}}"), "{\n  \"x\": \"\\u009b\"\n}\n");
	ck_assert_str_eq(result("task_failed",
				 "{'artifacts':[{'name':'r','uri':'hcp://s/artifacts/r','type':'text/"
				 "plain','size_bytes':19}]}"),
		"artifact hcp://s/artifacts/r  text/plain  19 bytes\n");
}
END_TEST

START_TEST(the_bar_fits_its_line)
{
	int used = ctl_render_bar(&out, "RUNNING", "mixing", 50, "half way", 67, 60, false);

	ck_assert_str_eq(buf_text(&out), "RUNNING mixing [########-------]  50% 01:07 half way");
	ck_assert_int_eq(used, (int)out.size);
	buf_clear(&out);
	ctl_render_bar(&out, "", "", -1, "", 3723, 60, false);
	ck_assert_str_eq(buf_text(&out), "working 1:02:03");
	buf_clear(&out);
	ctl_render_bar(&out, "RUNNING", "a stage with a name that leaves no room for anything else at all",
		50, "x", 1, 60, false);
	ck_assert_str_eq(buf_text(&out), "RUNNING a stage with a [########-------]  50% 00:01 x");
	for (int columns = 1; columns < 60; columns++) {
		buf_clear(&out);
		used = ctl_render_bar(&out, "RUNNING", "mixing\033[2J", 5000,
			"a message that goes on and on and on", 1, columns, false);
		ck_assert_uint_le(out.size, (size_t)columns);
		ck_assert_int_eq(used, (int)out.size);
		ck_assert_ptr_null(strchr(buf_text(&out), '\033'));
	}
}
END_TEST

START_TEST(json_is_the_body_itself_on_one_line)
{
	const char *text = "{ \"type\":\"x\",\"payload\":{\"n\":1.10} }",
		   *spread = "{\"type\":\"x\",\n \"payload\":{\"s\":\"a b\"}}";
	struct ctl_message *n = ctl_message_read(xstrdup(text), strlen(text));

	ctl_render_json(&out, n);
	ck_assert_uint_eq(out.size, strlen(text) + 1);
	ck_assert_int_eq(strncmp(buf_text(&out), text, strlen(text)), 0);
	ctl_message_free(n);
	buf_clear(&out);
	n = ctl_message_read(xstrdup(spread), strlen(spread));
	ctl_render_json(&out, n);
	ck_assert_str_eq(buf_text(&out), "{\"type\":\"x\",\"payload\":{\"s\":\"a b\"}}\n");
	ctl_message_free(n);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_show");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, each_event_is_one_line);
	tcase_add_test(tc, each_answer_and_result_is_one_line);
	tcase_add_test(tc, a_kind_that_is_not_known_is_shown_all_the_same);
	tcase_add_test(tc, a_line_of_many_sessions_names_its_own);
	tcase_add_test(tc, colours_are_there_only_when_asked_for);
	tcase_add_test(tc, nothing_in_an_event_reaches_the_terminal_as_a_command);
	tcase_add_test(tc, text_is_escaped_so_that_it_can_be_read);
	tcase_add_loop_test(tc, invisible_characters_are_shown, 0, COUNT(invisible));
	tcase_add_test(tc, a_long_value_is_cut_between_characters);
	tcase_add_test(tc, outputs_are_printed_as_they_came_with_room_to_read);
	tcase_add_test(tc, the_bar_fits_its_line);
	tcase_add_test(tc, json_is_the_body_itself_on_one_line);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
