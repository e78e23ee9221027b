/* SPDX-License-Identifier: MIT */
/* test_task.c: the words of a command line as JSON, and the messages made of them. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/message.h"
#include "hcpctl/common/task.h"

static json_t *object;
static struct buf out;
static char why[CTL_TASK_WHY_SIZE];

static void begin(void)
{
	object = json_object();
}

static void end(void)
{
	json_decref(object);
	buf_fini(&out);
}

static const char *set(const char *assignment)
{
	json_object_clear(object);
	ck_assert_msg(ctl_task_set(object, assignment, why), "%s", why);
	buf_clear(&out);
	ctl_task_add_json(&out, object);
	return buf_text(&out);
}

START_TEST(a_value_is_json_where_it_is_json_and_text_elsewhere)
{
	ck_assert_str_eq(set("a=1"), "{\"a\":1}");
	ck_assert_str_eq(set("a=-2.5"), "{\"a\":-2.5}");
	ck_assert_str_eq(set("a=2.0"), "{\"a\":2.0}");
	ck_assert_str_eq(set("a=0.1"), "{\"a\":0.1}");
	ck_assert_str_eq(set("a=true"), "{\"a\":true}");
	ck_assert_str_eq(set("a=null"), "{\"a\":null}");
	ck_assert_str_eq(set("a=[1,\"x\"]"), "{\"a\":[1,\"x\"]}");
	ck_assert_str_eq(set("a={\"b\":{}}"), "{\"a\":{\"b\":{}}}");
	ck_assert_str_eq(set("a=\"1\""), "{\"a\":\"1\"}");
	ck_assert_str_eq(set("a=hello world"), "{\"a\":\"hello world\"}");
	ck_assert_str_eq(set("a=01"), "{\"a\":\"01\"}");
	ck_assert_str_eq(set("a={x"), "{\"a\":\"{x\"}");
	ck_assert_str_eq(set("a="), "{\"a\":\"\"}");
	ck_assert_str_eq(set("a=b=c"), "{\"a\":\"b=c\"}");
	ck_assert_str_eq(set("url=https://example.org/?q=1"), "{\"url\":\"https://example.org/?q=1\"}");
}
END_TEST

START_TEST(a_dotted_name_goes_inside)
{
	ck_assert_str_eq(set("a.b.c=1"), "{\"a\":{\"b\":{\"c\":1}}}");
	ck_assert(ctl_task_set(object, "a.d=x", why));
	buf_clear(&out);
	ctl_task_add_json(&out, object);
	ck_assert_str_eq(buf_text(&out), "{\"a\":{\"b\":{\"c\":1},\"d\":\"x\"}}");
	ck_assert(!ctl_task_set(object, "a.d.e=1", why));
	ck_assert_ptr_nonnull(strstr(why, "no object already"));
}
END_TEST

START_TEST(argument_that_is_no_assignment_is_refused)
{
	static const char *const bad[] = {
		"", "=", "=1", "a", "a..b=1", ".a=1", "a.=1", "a=\xff", "\xff=1", "\xff.a=1"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(!ctl_task_set(object, bad[i], why), "%s", bad[i]);
}
END_TEST

static struct command read_back(void)
{
	struct command c;

	ck_assert_msg(message_read(out.data, out.size, 64, &c) == MESSAGE_OK, "%s: %.*s", c.message,
		(int)out.size, out.data);
	return c;
}

START_TEST(a_task_is_one_that_the_daemon_reads)
{
	struct ctl_task t = {.capability = "sum",
		.version = "^1.2",
		.caller = "alpha",
		.intent = "say \"hi\"\n",
		.inputs = object,
		.max_duration = "PT30S",
		.priority = "high",
		.data_class = "T2",
		.context = object};
	struct command c;
	struct message_head head;

	ck_assert(ctl_task_set(object, "x=1", why));
	ctl_task_compose(&out, &t);
	c = read_back();
	ck_assert_int_eq(c.kind, COMMAND_SUBMIT);
	ck_assert_str_eq(c.caller_id, "alpha");
	ck_assert_str_eq(c.task.capability, "sum");
	ck_assert_str_eq(c.task.version_range, "^1.2");
	ck_assert_int_eq(c.task.max_duration_us, 30000000);
	ck_assert_int_eq(c.task.priority, PRIORITY_HIGH);
	ck_assert_int_eq(c.task.data_class, T2);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"intent\":\"say \\\"hi\\\"\\n\""));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"context\":{\"x\":1}"));
	ck_assert(message_peek(out.data, out.size, &head));
	ck_assert_str_eq(head.message_id, c.message_id);
	command_fini(&c);
}
END_TEST

START_TEST(a_task_names_what_it_goes_on_from)
{
	static const char id[] = "0c8b8ed1-4b1e-4c6d-9f43-ad72cf0aa5f2",
			  session[] = "ad72cf0a-4b1e-4c6d-9f43-0c8b8ed1a5f2";
	struct ctl_task t = {.capability = "sum",
		.caller = "alpha",
		.inputs = object,
		.checkpoint = id,
		.continues = session};
	struct command c;

	ctl_task_compose(&out, &t);
	c = read_back();
	ck_assert_str_eq(c.task.checkpoint, id);
	ck_assert_str_eq(c.task.continues, session);
	command_fini(&c);
	buf_clear(&out);
	ck_assert(ctl_task_set(object, "purpose=x", why));
	t.context = object;
	ctl_task_compose(&out, &t);
	c = read_back();
	ck_assert_str_eq(c.task.continues, session);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"purpose\":\"x\""));
	ck_assert_ptr_null(json_object_get(object, "continues")); /* it is the caller's */
	command_fini(&c);
}
END_TEST

START_TEST(a_task_of_only_a_name_is_whole)
{
	struct ctl_task t = {.capability = "sum", .caller = "alpha", .inputs = object, .context = object};
	struct command c;

	ctl_task_compose(&out, &t);
	c = read_back();
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"intent\":\"run sum\",\"inputs\":{}}"));
	ck_assert_ptr_null(c.task.version_range);
	command_fini(&c);
}
END_TEST

START_TEST(inputs_of_a_file_keep_their_bytes_and_single_ones_override)
{
	const char *text = "{ \"n\": 1.10,\n  \"big\": 123456789012345678901234567890, \"o\": {\"a\": 1} }\n";
	struct ctl_task t = {.capability = "sum",
		.caller = "alpha",
		.inputs_text = text,
		.inputs_size = strlen(text),
		.inputs = object};

	ctl_task_compose(&out, &t);
	ck_assert_ptr_nonnull(strstr(
		buf_text(&out), "{\"n\":1.10,\"big\":123456789012345678901234567890,\"o\":{\"a\":1}}"));
	buf_clear(&out);
	ck_assert(ctl_task_set(object, "n=2", why) && ctl_task_set(object, "o.b=3", why));
	ctl_task_compose(&out, &t);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"n\":2,\"big\":123456789012345678901234567890,"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"o\":{\"a\":1,\"b\":3}"));
}
END_TEST

START_TEST(an_abort_carries_its_token_and_reason)
{
	const char *id = "5f0c1111-1111-4111-8111-111111111111";
	struct command c;

	ctl_task_compose_abort(&out, id, "tok", "enough");
	c = read_back();
	ck_assert_int_eq(c.kind, COMMAND_ABORT);
	ck_assert_str_eq(c.session_id, id);
	ck_assert_str_eq(c.token, "tok");
	ck_assert_str_eq(c.reason, "enough");
	command_fini(&c);
	buf_clear(&out);
	ctl_task_compose_abort(&out, id, NULL, NULL);
	c = read_back();
	ck_assert_ptr_null(c.token);
	ck_assert_ptr_null(c.reason);
	command_fini(&c);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_task");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, a_value_is_json_where_it_is_json_and_text_elsewhere);
	tcase_add_test(tc, a_dotted_name_goes_inside);
	tcase_add_test(tc, argument_that_is_no_assignment_is_refused);
	tcase_add_test(tc, a_task_is_one_that_the_daemon_reads);
	tcase_add_test(tc, a_task_of_only_a_name_is_whole);
	tcase_add_test(tc, a_task_names_what_it_goes_on_from);
	tcase_add_test(tc, inputs_of_a_file_keep_their_bytes_and_single_ones_override);
	tcase_add_test(tc, an_abort_carries_its_token_and_reason);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
