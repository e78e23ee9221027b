/* SPDX-License-Identifier: MIT */
/* test_worker_line.c: one line of a worker: good, with defaults, or refused with a reason. */
#include "protocol/worker_line.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- good ones: type, and the event's data where it becomes one ---- */

static const struct {
	const char *line;
	enum worker_line_type type;
	const char *data; /* NULL: not an event */
} good[] = {
	{"{\"type\":\"progress\"}", WL_PROGRESS, "{\"stage\":\"\",\"message\":\"\"}"},
	{"{\"type\":\"progress\",\"stage\":null,\"percent\":null,\"message\":null}", WL_PROGRESS,
		"{\"stage\":\"\",\"message\":\"\"}"},
	{"{\"message\":\"m\",\"percent\":50.0,\"stage\":\"s\",\"type\":\"progress\",\"extra\":1}",
		WL_PROGRESS, "{\"stage\":\"s\",\"percent\":50.0,\"message\":\"m\"}"},
	{"{\"type\":\"intermediate_result\",\"data\":null}", WL_INTERMEDIATE_RESULT,
		"{\"result_type\":\"result\",\"data\":null,\"is_partial\":true}"},
	{"{\"type\":\"intermediate_result\",\"result_type\":\"t\",\"data\":{\"z\":1.10,\"a\":[ "
	 "]},\"is_partial\":false}",
		WL_INTERMEDIATE_RESULT,
		"{\"result_type\":\"t\",\"data\":{\"z\":1.10,\"a\":[]},\"is_partial\":false}"},
	{"{\"type\":\"log\",\"message\":\"m\"}", WL_LOG, "{\"level\":\"info\",\"message\":\"m\"}"},
	{"{\"type\":\"log\",\"level\":\"warn\",\"message\":\"\\u00e9\",\"details\":[1]}", WL_LOG,
		"{\"level\":\"warn\",\"message\":\"\\u00e9\",\"details\":[1]}"},
	{"{\"type\":\"warning\",\"message\":\"m\"}", WL_WARNING,
		"{\"code\":\"worker_warning\",\"message\":\"m\"}"},
	{"{\"type\":\"warning\",\"code\":\"c\",\"message\":\"m\",\"details\":\"d\"}", WL_WARNING,
		"{\"code\":\"c\",\"message\":\"m\",\"details\":\"d\"}"},
	{"{\"type\":\"error\",\"message\":\"m\"}", WL_ERROR,
		"{\"code\":\"worker_error\",\"message\":\"m\",\"recoverable\":true}"},
	{"{\"type\":\"error\",\"code\":\"c\",\"message\":\"m\",\"recoverable\":false}", WL_ERROR,
		"{\"code\":\"c\",\"message\":\"m\",\"recoverable\":false}"},
	{"{\"type\":\"checkpoint\"}", WL_CHECKPOINT, NULL},
	{"{\"type\":\"checkpoint\",\"description\":\"d\",\"state\":{},\"step\":\"s\",\"resumable\":false,"
	 "\"ref\":5}",
		WL_CHECKPOINT, NULL},
	{"{\"type\":\"step\",\"name\":\"n\"}", WL_STEP, NULL},
	{"{\"type\":\"usage\",\"tokens_in\":1,\"tokens_out\":2,\"cost\":0.5}", WL_USAGE, NULL},
	{"{\"type\":\"artifact\",\"name\":\"n\",\"path\":\"p\",\"mime\":\"m\"}", WL_ARTIFACT, NULL},
	{"{\"type\":\"paused\"}", WL_PAUSED, NULL},
	{"{\"type\":\"paused\",\"reason\":\"r\"}", WL_PAUSED, NULL},
	{"{\"type\":\"resumed\"}", WL_RESUMED, NULL},
	{"{\"type\":\"completed\",\"outputs\":{\"a\":1}}", WL_COMPLETED, NULL},
	{"{\"type\":\"failed\",\"error_code\":\"c\",\"error_message\":\"m\",\"error_details\":{},\"partial_"
	 "outputs\":{}}",
		WL_FAILED, NULL},
	{"  {\"type\":\"resumed\"}\r", WL_RESUMED, NULL},
};

START_TEST(good_line_is_taken_and_its_data_has_the_fields_in_order) /* proves L2-06 */
{
	struct worker_line l;
	struct buf b = {0};
	char why[320] = "";

	ck_assert_msg(worker_line_read(&l, good[_i].line, strlen(good[_i].line), 64, why, sizeof why) == 0,
		"%s: %s", good[_i].line, why);
	ck_assert_int_eq(l.type, good[_i].type);
	ck_assert_int_eq(worker_line_is_event(&l), good[_i].data != NULL);
	if (good[_i].data != NULL) {
		worker_line_add_data(&l, &b);
		ck_assert_str_eq(buf_text(&b), good[_i].data);
	}
	worker_line_fini(&l);
	buf_fini(&b);
}
END_TEST

/* ---- without a tree ---- */

/* The data of the line, by both ways; false where the line needs a tree. */
static bool scan_as_read(const char *line)
{
	struct worker_line scanned, read;
	struct buf a = {0}, b = {0};
	char why[320];
	bool is_scanned = worker_line_scan(&scanned, line, strlen(line));
	bool is_good = worker_line_read(&read, line, strlen(line), 64, why, sizeof why) == 0;

	if (is_scanned) {
		ck_assert_msg(is_good, "%s: %s", line, why);
		ck_assert_int_eq(scanned.type, read.type);
		worker_line_add_data(&scanned, &a);
		worker_line_add_data(&read, &b);
		ck_assert_str_eq(buf_text(&a), buf_text(&b));
		worker_line_fini(&scanned);
	}
	if (is_good)
		worker_line_fini(&read);
	buf_fini(&a);
	buf_fini(&b);
	return is_scanned;
}

START_TEST(a_flat_event_gets_the_same_data_without_a_tree)
{
	static const char *const lines[] = {"{\"type\":\"progress\"}",
		"{\"type\":\"progress\",\"stage\":null,\"percent\":null,\"message\":null}",
		"{\"message\":\"m\\u00e9\\n\",\"percent\":50.0,\"stage\":\"s\",\"type\":\"progress\","
		"\"extra\":1}",
		" { \"type\" : \"log\" , \"message\" : \" m \" , \"level\" : \"error\", \"details\" : 1.10 "
		"} ",
		"{\"type\":\"log\",\"message\":\"m\",\"details\":null}",
		"{\"type\":\"intermediate_result\",\"data\":null}",
		"{\"type\":\"intermediate_result\",\"data\":\"x\",\"is_partial\":false}",
		"{\"type\":\"error\",\"code\":\"c\",\"message\":\"m\",\"recoverable\":false}"};

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		ck_assert_msg(scan_as_read(lines[i]), "%s", lines[i]);
}
END_TEST

START_TEST(a_line_that_is_more_than_an_event_has_a_tree)
{
	static const char *const lines[] = {"{\"type\":\"warning\",\"message\":\"m\"}",
		"{\"type\":\"completed\"}", "{\"type\":\"progr\\u0065ss\"}",
		"{\"type\":\"log\",\"message\":\"m\",\"level\":\"inf\\u006f\"}",
		"{\"type\":\"log\",\"message\":\"m\",\"details\":{}}",
		"{\"type\":\"progress\",\"percent\":99999999999999999999}"};

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		ck_assert_msg(!scan_as_read(lines[i]), "%s", lines[i]);
}
END_TEST

/* ---- bad ones ---- */

static const struct {
	const char *line, *why;
} bad[] = {
	{"", ""},
	{"hello", "JSON"},
	{"{", "JSON"},
	{"[]", "object"},
	{"\"progress\"", "object"},
	{"{}", "type"},
	{"{\"type\":7}", "type"},
	{"{\"type\":null}", "type"},
	{"{\"type\":\"dance\"}", "dance"},
	{"{\"type\":\"Progress\"}", "Progress"},
	{"{\"type\":\"log\",\"message\":\"a\"} {}", "JSON"},
	{"{\"type\":\"log\",\"type\":\"log\",\"message\":\"a\"}", "JSON"},
	{"{\"type\":\"log\",\"message\":\"\xff\"}", "JSON"},
	{"{\"type\":\"progress\",\"stage\":1}", "stage"},
	{"{\"type\":\"progress\",\"percent\":\"50\"}", "percent"},
	{"{\"type\":\"progress\",\"message\":[]}", "message"},
	{"{\"type\":\"intermediate_result\"}", "data"},
	{"{\"type\":\"intermediate_result\",\"data\":1,\"result_type\":1}", "result_type"},
	{"{\"type\":\"intermediate_result\",\"data\":1,\"is_partial\":\"yes\"}", "is_partial"},
	{"{\"type\":\"log\"}", "message"},
	{"{\"type\":\"log\",\"message\":null}", "message"},
	{"{\"type\":\"log\",\"message\":1}", "message"},
	{"{\"type\":\"log\",\"message\":\"m\",\"level\":\"loud\"}", "level"},
	{"{\"type\":\"log\",\"message\":\"m\",\"level\":2}", "level"},
	{"{\"type\":\"warning\"}", "message"},
	{"{\"type\":\"warning\",\"message\":\"m\",\"code\":1}", "code"},
	{"{\"type\":\"error\"}", "message"},
	{"{\"type\":\"error\",\"message\":\"m\",\"recoverable\":0}", "recoverable"},
	{"{\"type\":\"checkpoint\",\"state\":[]}", "state"},
	{"{\"type\":\"checkpoint\",\"description\":1}", "description"},
	{"{\"type\":\"checkpoint\",\"resumable\":1}", "resumable"},
	{"{\"type\":\"checkpoint\",\"ref\":{}}", "ref"},
	{"{\"type\":\"step\",\"name\":1}", "name"},
	{"{\"type\":\"usage\",\"tokens_in\":\"1\"}", "tokens_in"},
	{"{\"type\":\"usage\",\"cost\":true}", "cost"},
	{"{\"type\":\"artifact\",\"name\":\"n\"}", "path"},
	{"{\"type\":\"artifact\",\"path\":\"p\"}", "name"},
	{"{\"type\":\"action\"}", "an action line needs name"},
	{"{\"type\":\"action\",\"name\":\"\"}", "name of an action line is not a name"},
	{"{\"type\":\"action\",\"name\":\"stir\\u0000vent\"}", "name of an action line is not a name"},
	{"{\"type\":\"usage\",\"cost\":\"1\"}", "cost of a usage line"},
	{"{\"type\":\"paused\",\"reason\":1}", "reason"},
	{"{\"type\":\"completed\",\"outputs\":[1]}", "outputs"},
	{"{\"type\":\"completed\",\"outputs\":\"x\"}", "outputs"},
	{"{\"type\":\"failed\",\"error_code\":1}", "error_code"},
	{"{\"type\":\"failed\",\"error_details\":[]}", "error_details"},
	{"{\"type\":\"failed\",\"partial_outputs\":1}", "partial_outputs"},
	{"{\"type\":\"failed\",\"error_message\":{}}", "error_message"},
	/* what only the daemon says */
	{"{\"type\":\"state_changed\",\"from_state\":\"RUNNING\",\"to_state\":\"COMPLETED\",\"reason\":"
	 "\"r\"}",
		"state_changed"},
	{"{\"type\":\"session_created\",\"state\":\"PENDING\"}", "session_created"},
	{"{\"type\":\"session_closed\",\"final_state\":\"COMPLETED\",\"reason\":\"r\"}", "session_closed"},
	{"{\"type\":\"checkpoint_created\",\"checkpoint_id\":\"x\"}", "checkpoint_created"},
	{"{\"type\":\"task_completed\",\"outputs\":{}}", "task_completed"},
	{"{\"type\":\"event\",\"data\":{}}", "event"},
	{"{\"type\":\"start\"}", "start"},
	{"{\"type\":\"abort\"}", "abort"},
	{"{\"type\":\"checkpoint_saved\"}", "checkpoint_saved"},
};

START_TEST(a_bad_line_is_refused_with_a_reason)
{
	struct worker_line l;
	char why[320] = "";

	ck_assert_msg(!worker_line_scan(&l, bad[_i].line, strlen(bad[_i].line)), "%s", bad[_i].line);
	ck_assert_msg(worker_line_read(&l, bad[_i].line, strlen(bad[_i].line), 64, why, sizeof why) < 0, "%s",
		bad[_i].line);
	ck_assert_msg(strlen(why) > 0 && strstr(why, bad[_i].why) != NULL, "%s: %s", bad[_i].line, why);
}
END_TEST

/* A NUL that got through would be copied raw: into events that nobody can parse, and into checkpoints. */
START_TEST(a_line_with_a_raw_nul_is_refused_and_not_salvaged)
{
	static const char line[] = "{\"type\":\"checkpoint\",\"state\":{\"n\":1\0}}";
	struct worker_line l;
	char why[320] = "";

	ck_assert_int_lt(worker_line_read(&l, line, sizeof line - 1, 64, why, sizeof why), 0);
	ck_assert_msg(strstr(why, "NUL") != NULL, "%s", why);
	ck_assert(!worker_line_salvage(&l, line, sizeof line - 1));
}
END_TEST

START_TEST(depth_is_bounded)
{
	static const char line[] = "{\"type\":\"intermediate_result\",\"data\":[[[[1]]]]}";
	struct worker_line l;
	char why[320];

	ck_assert_int_eq(worker_line_read(&l, line, sizeof line - 1, 5, why, sizeof why), 0);
	worker_line_fini(&l);
	ck_assert_int_lt(worker_line_read(&l, line, sizeof line - 1, 4, why, sizeof why), 0);
}
END_TEST

START_TEST(a_very_deep_line_does_no_harm)
{
	struct buf b = {0};
	struct worker_line l;
	char why[320];

	buf_add_text(&b, "{\"type\":\"log\",\"message\":\"m\",\"details\":");
	for (int i = 0; i < 1000000; i++)
		buf_add_text(&b, "[");
	ck_assert_int_lt(worker_line_read(&l, b.data, b.size, 64, why, sizeof why), 0);
	buf_fini(&b);
}
END_TEST

START_TEST(members_are_got_raw_and_as_text)
{
	static const char line[] =
		"{\"type\":\"checkpoint\",\"state\":{\"n\": "
		"1.10},\"step\":7,\"description\":\"d\",\"ref\":null}";
	struct worker_line l;
	struct buf b = {0};
	char why[320];

	ck_assert_int_eq(worker_line_read(&l, line, sizeof line - 1, 64, why, sizeof why), 0);
	ck_assert(worker_line_get(&l, "state") != NULL && worker_line_get(&l, "ref") == NULL &&
		worker_line_get(&l, "nothing") == NULL);
	worker_line_add_raw(&l, &b, "state", "{}");
	worker_line_add_raw(&l, &b, "step", "null");
	worker_line_add_raw(&l, &b, "ref", "null");
	worker_line_add_raw(&l, &b, "nothing", "\"else\"");
	ck_assert_str_eq(buf_text(&b), "{\"n\":1.10}7null\"else\"");
	ck_assert_str_eq(worker_line_string(&l, "description", "x"), "d");
	ck_assert_str_eq(worker_line_string(&l, "step", "x"), "x");
	ck_assert_str_eq(worker_line_string(&l, "nothing", "x"), "x");
	worker_line_fini(&l);
	buf_fini(&b);
}
END_TEST

START_TEST(a_bad_line_is_salvaged_where_it_says_what_it_is)
{
	static const struct {
		const char *line;
		int type; /* -1: nothing can be made of it */
		const char *ref;
	} rows[] = {
		{"{\"type\":\"action\",\"ref\":7}", WL_ACTION, "7"},
		{"{\"type\":\"action\",\"name\":\"a\",\"name\":\"b\",\"ref\":\"x\"}", WL_ACTION, "\"x\""},
		{"{\"type\":\"action\",\"parameters\":{\"n\":123456789012345678901234567890},\"ref\":1.10}",
			WL_ACTION, "1.10"},
		{"{\"type\":\"action\",\"ref\":[1]}", WL_ACTION, "null"},
		{"{\"type\":\"log\"}", WL_LOG, "null"},
		{"{\"type\":\"dance\",\"ref\":7}", -1, NULL},
		{"{\"type\":\"action\",\"ref\":7", -1, NULL},
		{"[]", -1, NULL},
		{"", -1, NULL},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf b = {0};
		struct worker_line l;

		ck_assert_int_eq(
			worker_line_salvage(&l, rows[i].line, strlen(rows[i].line)), rows[i].type >= 0);
		if (rows[i].type < 0)
			continue;
		ck_assert_int_eq((int)l.type, rows[i].type);
		worker_line_add_raw(&l, &b, "ref", "null");
		ck_assert_str_eq(buf_text(&b), rows[i].ref);
		worker_line_fini(&l);
		buf_fini(&b);
	}
}
END_TEST

START_TEST(types_have_their_names)
{
	static const char *const events[] = {"progress", "intermediate_result", "log", "warning", "error"};

	for (int i = 0; i < 5; i++)
		ck_assert_str_eq(worker_line_type_name((enum worker_line_type)i), events[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wline");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, good_line_is_taken_and_its_data_has_the_fields_in_order, 0,
		(int)(sizeof good / sizeof *good));
	tcase_add_test(t, a_flat_event_gets_the_same_data_without_a_tree);
	tcase_add_test(t, a_line_that_is_more_than_an_event_has_a_tree);
	tcase_add_loop_test(t, a_bad_line_is_refused_with_a_reason, 0, (int)(sizeof bad / sizeof *bad));
	tcase_add_test(t, a_line_with_a_raw_nul_is_refused_and_not_salvaged);
	tcase_add_test(t, depth_is_bounded);
	tcase_add_test(t, a_very_deep_line_does_no_harm);
	tcase_add_test(t, members_are_got_raw_and_as_text);
	tcase_add_test(t, a_bad_line_is_salvaged_where_it_says_what_it_is);
	tcase_add_test(t, types_have_their_names);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
