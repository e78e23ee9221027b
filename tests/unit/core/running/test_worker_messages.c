/* SPDX-License-Identifier: MIT */
/* test_worker_messages.c: what a worker's lines do to its session. */
#include "support/fakes/fake_world.h"

#include <sys/wait.h>

static struct world w;
static struct worker *p;

#define EXIT_STATUS(n) ((n) << 8) /* as wait(2) has it */

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	p = world_start(&w, "m1", "work");
}

static void setup_text(void)
{
	world_init(&w, "[limits]\ntext_output = 1KiB\n");
	world_begin(&w);
	p = world_start(&w, "m1", "plain");
}

static void teardown(void)
{
	world_fini(&w);
}

static void say(const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

static void leave(int status)
{
	fake_worker_exit(p, status);
	world_run(&w);
}

/* The data of the newest event of that type. */
static const char *data_of(const char *event_type)
{
	return world_text(&w,
		"SELECT substr(body, instr(body, '\"data\":') + 7, length(body) - instr(body, '\"data\":') - "
		"8)"
		" FROM events WHERE event_type = ? ORDER BY id DESC",
		event_type);
}

static const char *payload_of(const char *type)
{
	return world_text(&w,
		"SELECT json_extract(body, '$.payload') FROM events WHERE type = ? ORDER BY id DESC", type);
}

/* ---- events ---- */

static const struct {
	const char *line, *type, *data;
} events[] = {
	{"{\"type\":\"progress\",\"stage\":\"read\",\"percent\":12.50,\"message\":\"m\"}", "progress",
		"{\"stage\":\"read\",\"percent\":12.50,\"message\":\"m\"}"},
	{"{\"type\":\"intermediate_result\",\"result_type\":\"t\",\"data\":[1.10],\"is_partial\":false}",
		"intermediate_result", "{\"result_type\":\"t\",\"data\":[1.10],\"is_partial\":false}"},
	{"{\"type\":\"log\",\"level\":\"error\",\"message\":\"m\",\"details\":{\"a\":1}}", "log",
		"{\"level\":\"error\",\"message\":\"m\",\"details\":{\"a\":1}}"},
	{"{\"type\":\"warning\",\"code\":\"c\",\"message\":\"m\",\"details\":1}", "warning",
		"{\"code\":\"c\",\"message\":\"m\",\"details\":1}"},
	{"{\"type\":\"error\",\"code\":\"c\",\"message\":\"m\",\"recoverable\":false}", "error",
		"{\"code\":\"c\",\"message\":\"m\",\"recoverable\":false}"},
};

START_TEST(each_event_line_is_one_event) /* proves L2-06 */
{
	say(events[_i].line);
	ck_assert_str_eq(data_of(events[_i].type), events[_i].data);
	ck_assert_int_eq(world_check_stream(&w, 1).sequence, 3);
}
END_TEST

START_TEST(a_checkpoint_is_stored_announced_and_confirmed_to_the_worker) /* proves L2-07 L2-06 */
{
	json_t *d;
	const char *id;
	char wanted[128];

	say("{\"type\":\"checkpoint\",\"description\":\"half\",\"state\":{\"n\":1.10},\"step\":3,\"ref\":\"r-"
	    "7\"}");
	d = json_loads(data_of("checkpoint_created"), 0, NULL);
	id = json_string_value(json_object_get(d, "checkpoint_id"));
	ck_assert(id_is_uuid4(id));
	ck_assert_str_eq(json_string_value(json_object_get(d, "description")), "half");
	ck_assert(json_is_true(json_object_get(d, "resumable")));
	ck_assert_str_eq(json_string_value(json_object_get(d, "created_at")), "2026-01-31T12:00:00.000Z");
	ck_assert_str_eq(world_text(&w, "SELECT state || step FROM checkpoints WHERE checkpoint_id = ?", id),
		"{\"n\":1.10}3");
	snprintf(wanted, sizeof wanted,
		"{\"type\":\"checkpoint_saved\",\"checkpoint_id\":\"%s\",\"ref\":\"r-7\"}\n", id);
	ck_assert(fake_worker_has_line(p, wanted));
	json_decref(d);
}
END_TEST

/* Three bytes a character, so that the limit of 1024 is in the middle of one; and what just fits. */
START_TEST(a_checkpoints_description_is_cut_at_1_KiB_between_characters)
{
	static const char *const letters[] = {"x", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80"};
	static const size_t wanted[] = {1024, 1024, 1023, 1024};
	struct buf line = {0};
	json_t *d;
	const char *text;

	buf_add_text(&line, "{\"type\":\"checkpoint\",\"state\":{},\"description\":\"");
	while (line.size < 1200 * (size_t)(_i / 4 + 1))
		buf_add_text(&line, letters[_i % 4]);
	buf_add_text(&line, "\"}");
	say(buf_text(&line));
	buf_fini(&line);
	d = json_loads(data_of("checkpoint_created"), 0, NULL);
	text = json_string_value(json_object_get(d, "description"));
	ck_assert(text != NULL);
	ck_assert_uint_eq(strlen(text), wanted[_i % 4]);
	ck_assert_str_eq(world_text(&w, "SELECT description FROM checkpoints", NULL), text);
	ck_assert_int_eq(world_count(&w, "SELECT length(CAST(description AS BLOB)) FROM checkpoints", NULL),
		(int64_t)wanted[_i % 4]);
	ck_assert(strstr(data_of("warning"), "\"code\":\"description_cut\"") != NULL);
	json_decref(d);
}
END_TEST

/* Its JSON text, quotes included. */
START_TEST(checkpoints_step_over_1_KiB_is_left_out_with_a_warning)
{
	char line[1200], step[1025 + 1];

	memset(step, 'x', sizeof step);
	step[0] = step[1023 + _i] = '"';
	step[1024 + _i] = '\0';
	snprintf(line, sizeof line,
		"{\"type\":\"checkpoint\",\"state\":{\"n\":1},\"description\":\"so far\",\"step\":%s}", step);
	say(line);
	ck_assert_str_eq(world_text(&w, "SELECT coalesce(step, 'none') FROM checkpoints", NULL),
		_i == 0 ? step : "none");
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), _i);
	if (_i == 1)
		ck_assert(strstr(data_of("warning"), "\"code\":\"step_too_long\"") != NULL);
	ck_assert_str_eq(
		world_text(&w, "SELECT state || description FROM checkpoints", NULL), "{\"n\":1}so far");
}
END_TEST

START_TEST(a_checkpoint_over_its_limit_is_a_warning)
{
	char *big = xmalloc(4 << 20);

	snprintf(big, 4 << 20, "{\"type\":\"checkpoint\",\"state\":{\"x\":\"%*s\"}}", 3500000, "");
	say(big);
	free(big);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 0);
	ck_assert(strstr(data_of("warning"), "checkpoint_too_large") != NULL);
	ck_assert(fake_worker_has_line(w.workers.list[0], "{\"type\":\"checkpoint_refused\",\"ref\":null,"));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(pause_and_resume_are_transitions)
{
	say("{\"type\":\"paused\",\"reason\":\"waiting for a part\"}");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "worker");
	say("{\"type\":\"paused\"}"); /* once more is a bad line, no more */
	ck_assert(strstr(data_of("warning"), "bad_line") != NULL);
	say("{\"type\":\"resumed\"}");
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM transitions WHERE actor = 'worker'", NULL), 2);
	world_check_stream(&w, 1);
}
END_TEST

static const struct {
	const char *said, *reason;
} pauses[] = {
	{"", "paused_by_worker"},
	{"callee_restarted", "paused_by_worker: callee_restarted"},
	{"paused_by_operator", "paused_by_worker: paused_by_operator"},
	{"stopping", "paused_by_worker: stopping"},
	{"worker_died", "paused_by_worker: worker_died"},
	{"a\\nb", "a\nb"},
};

/* Others match on the reasons of the daemon. */
START_TEST(pause_reason_of_a_worker_passes_for_no_reason_of_hcpd)
{
	char line[128];

	snprintf(line, sizeof line, "{\"type\":\"paused\",\"reason\":\"%s\"}", pauses[_i].said);
	say(line);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_text(&w, "SELECT reason FROM transitions WHERE to_state = 'PAUSED'", NULL),
		pauses[_i].reason);
	ck_assert_str_eq(world_text(&w,
				 "SELECT json_extract(body, '$.payload.data.reason') FROM events WHERE "
				 "event_type = 'state_changed'"
				 " ORDER BY id DESC",
				 NULL),
		pauses[_i].reason);
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(pause_reason_of_a_worker_is_cut_at_256_bytes)
{
	struct buf line = {0};

	buf_add_text(&line, "{\"type\":\"paused\",\"reason\":\"");
	for (int i = 0; i < 170000; i++)
		buf_add_text(&line, "\xe6\xbc\xa2");
	buf_add_text(&line, "\"}");
	say(buf_text(&line));
	buf_fini(&line);
	ck_assert_int_eq(
		world_count(&w,
			"SELECT length(CAST(reason AS BLOB)) FROM transitions WHERE to_state = 'PAUSED'",
			NULL),
		255);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE NOT json_valid(body)", NULL), 0);
}
END_TEST

START_TEST(steps_usage_and_checkpoints_are_counted) /* proves L4-03 */
{
	say("{\"type\":\"step\",\"name\":\"one\"}");
	say("{\"type\":\"step\",\"name\":\"two\"}");
	say("{\"type\":\"usage\",\"tokens_in\":10,\"tokens_out\":3,\"cost\":0.25}");
	say("{\"type\":\"usage\",\"tokens_in\":5,\"cost\":0.25}");
	say("{\"type\":\"usage\",\"tokens_in\":-99,\"tokens_out\":1e300,\"cost\":-1}");
	say("{\"type\":\"checkpoint\",\"state\":{}}");
	ck_assert_str_eq(
		world_text(&w,
			"SELECT steps||' '||step||' '||tokens_in||' '||tokens_out||' '||cost FROM sessions",
			NULL),
		"2 two 15 3 0.5");
	world_pass(&w, 90 * SECONDS);
	say("{\"type\":\"completed\",\"outputs\":{\"a\":[1.0,{\"b\":null}]}}");
	leave(0);
	ck_assert_int_eq(world_said(&w,
				 "\"payload\":{\"outputs\":{\"a\":[1.0,{\"b\":null}]},\"artifacts\":[]"
				 ",\"execution_summary\":"
				 "{\"duration\":\"PT1M30S\",\"steps_executed\":2,\"checkpoints_"
				 "created\":1,\"risk_events\":[],\"warnings\":[]}}"),
		1);
}
END_TEST

/* ---- bad lines ---- */

static const char *const bad_lines[] = {
	"hello",
	"{",
	"[]",
	"17",
	"{\"type\":\"dance\"}",
	"{\"no\":\"type\"}",
	"{\"type\":7}",
	"\xff\xfe\xfd",
	"{\"type\":\"log\"}",
	"{\"type\":\"log\",\"message\":5}",
	"{\"type\":\"progress\",\"percent\":\"x\"}",
	"{\"type\":\"completed\",\"outputs\":[]}",
	"{\"type\":\"log\",\"message\":\"a\",\"message\":\"b\"}",
	"{\"type\":\"state_changed\",\"from_state\":\"RUNNING\",\"to_state\":\"COMPLETED\",\"reason\":\"x\"}",
	"{\"type\":\"session_closed\",\"final_state\":\"COMPLETED\"}",
	"{\"type\":\"session_created\"}",
	"{\"type\":\"checkpoint_created\"}",
	"{\"type\":\"event\",\"event_type\":\"session_closed\"}",
	"{\"type\":\"task_completed\",\"outputs\":{}}",
	"{\"type\":\"resumed\"}",
};

START_TEST(a_bad_line_is_one_warning_and_never_an_end)
{
	say(bad_lines[_i]);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE NOT json_valid(body)", NULL), 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(!worker_is_ending(p));
	ck_assert_int_eq(world_check_stream(&w, 1).sequence, 3);
	say("{\"type\":\"completed\",\"outputs\":{}}");
	leave(0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

START_TEST(a_flood_of_bad_lines_is_a_few_warnings)
{
	for (int i = 0; i < 1000; i++)
		fake_worker_say(p, "rubbish");
	world_run(&w);
	ck_assert_int_le(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), 20);
	ck_assert_int_ge(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), 1);
	world_pass(&w, 120 * SECONDS);
	say("rubbish again");
	ck_assert(strstr(data_of("warning"), "rubbish again") != NULL);
}
END_TEST

/* How many lines of the log have that text, while `what` is done. */
static int logged(void (*what)(void), const char *text)
{
	FILE *f = tmpfile();
	int before = dup(STDERR_FILENO), count = 0;
	char line[4096];

	ck_assert(f != NULL && before >= 0);
	log_set_level(LOG_LVL_WARN);
	dup2(fileno(f), STDERR_FILENO);
	what();
	dup2(before, STDERR_FILENO);
	close(before);
	log_set_level(LOG_LVL_ERROR);
	rewind(f);
	while (fgets(line, sizeof line, f) != NULL)
		count += strstr(line, text) != NULL;
	fclose(f);
	return count;
}

static void complain_and_end(void)
{
	for (int i = 0; i < 25; i++)
		fake_worker_say(p, "rubbish");
	world_run(&w);
	world_pass(&w, 120 * SECONDS);
	for (int i = 0; i < 11; i++)
		fake_worker_say(p, "more rubbish");
	say("{\"type\":\"completed\",\"outputs\":{}}");
	leave(0);
}

static void complain_little_and_end(void)
{
	for (int i = 0; i < 10; i++)
		fake_worker_say(p, "rubbish");
	say("{\"type\":\"completed\",\"outputs\":{}}");
	leave(0);
}

START_TEST(the_log_says_how_many_warnings_were_left_out)
{
	if (_i == 0) {
		ck_assert_int_eq(logged(complain_little_and_end, "left out"), 0);
		return;
	}
	ck_assert_int_eq(logged(complain_and_end,
				 _i == 1         ? "were left out: session=" :
					 _i == 2 ? "count=15" :
						   "count=1\n"),
		_i == 1 ? 2 : 1);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), 20);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_a_warning)
{
	fake_worker_put(p, FAKE_TOO_LONG, "{\"type\":\"log\",\"mess", 19, 0);
	world_run(&w);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'log'", NULL), 0);
}
END_TEST

START_TEST(stderr_lines_become_log_events)
{
	fake_worker_put(p, FAKE_ERR, "oh \"dear\" \x01\xff", 12, 0);
	world_run(&w);
	ck_assert(strstr(data_of("log"), "\"message\":\"oh \\\"dear\\\" \\u0001\xef\xbf\xbd\"") != NULL);
}
END_TEST

/* ---- ends ---- */

START_TEST(completed_closes_stdin_and_gives_exit_grace_before_signals)
{
	p->ignores_term = true;
	say("{\"type\":\"completed\",\"outputs\":{}}");
	ck_assert(p->stdin_closed);
	ck_assert_int_eq(p->term_at_us - fake_boot_us, 5 * SECONDS);
	say("{\"type\":\"log\",\"message\":\"afterwards\"}");
	say("{\"type\":\"failed\",\"error_message\":\"changed my mind\"}");
	say("{\"type\":\"paused\"}");
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_eq(world_said(&w, "afterwards"), 1);
}
END_TEST

START_TEST(failed_says_what_the_worker_says_and_what_we_know) /* proves L4-04 */
{
	say("{\"type\":\"step\",\"name\":\"mixing\"}");
	say("{\"type\":\"checkpoint\",\"state\":{}}");
	say("{\"type\":\"failed\",\"error_code\":\"input_error\",\"error_message\":\"too "
	    "hot\",\"error_details\":{\"phase\":\"heat\","
	    "\"t\":99.90},\"partial_outputs\":{\"x\":1.10}}");
	leave(EXIT_STATUS(1));
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert(strstr(payload_of("task_failed"),
			  "\"error_code\":\"input_error\",\"error_message\":\"too hot\"") != NULL);
	ck_assert_int_eq(world_said(&w,
				 "\"error_details\":{\"phase\":\"heat\",\"t\":99.90,\"step\":"
				 "\"mixing\",\"last_checkpoint\":\""),
		1);
	ck_assert_int_eq(
		world_said(&w, "\"recoverable\":true},\"partial_outputs\":{\"x\":1.10},\"artifacts\":[]"), 1);
}
END_TEST

START_TEST(an_error_code_that_HCP_does_not_know_is_execution_error) /* proves L4-04 */
{
	say("{\"type\":\"failed\",\"error_code\":\"bad_hair_day\"}");
	leave(0);
	ck_assert(strstr(payload_of("task_failed"), "\"error_code\":\"execution_error\"") != NULL);
}
END_TEST

static const struct {
	int status;
	const char *wanted;
} deaths[] = {{EXIT_STATUS(0), "\"exit_status\":0"}, {EXIT_STATUS(3), "\"exit_status\":3"},
	{SIGSEGV, "\"signal\":11"}, {SIGKILL, "\"signal\":9"}};

START_TEST(an_end_without_completed_or_failed_is_execution_error) /* proves L4-04 */
{
	fake_worker_put(p, FAKE_ERR, "Traceback: it hurts", 19, 0);
	leave(deaths[_i].status);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>FAILED:worker_failed");
	ck_assert(strstr(payload_of("task_failed"), "\"error_code\":\"execution_error\"") != NULL);
	ck_assert(strstr(payload_of("task_failed"), deaths[_i].wanted) != NULL);
	ck_assert(strstr(payload_of("task_failed"), "it hurts") != NULL);
}
END_TEST

START_TEST(a_death_with_children_left_ends_them_first) /* proves L2-11 */
{
	p->children = 2;
	leave(EXIT_STATUS(1));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_pass(&w, 60 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
}
END_TEST

START_TEST(outputs_over_the_message_limit_end_FAILED_saying_so)
{
	char *big = xmalloc(3 << 20);

	snprintf(big, 3 << 20, "{\"type\":\"completed\",\"outputs\":{\"x\":\"%*s\"}}", 2000000, "");
	say(big);
	free(big);
	leave(0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert(strstr(payload_of("task_failed"), "\"error_code\":\"execution_error\"") != NULL);
	ck_assert(strstr(payload_of("task_failed"), "limit") != NULL);
}
END_TEST

START_TEST(no_message_is_ever_over_the_limit) /* proves L1-21 */
{
	static const struct {
		const char *head, *tail;
	} lines[] = {
		{"{\"type\":\"completed\",\"outputs\":{\"x\":\"", "\"}}"},
		{"{\"type\":\"failed\",\"error_message\":\"", "\"}"},
		{"{\"type\":\"failed\",\"partial_outputs\":{\"x\":\"", "\"}}"},
		{"{\"type\":\"failed\",\"error_details\":{\"x\":\"", "\"}}"},
	};
	char *line = xmalloc(2 << 20);

	/* sizes close to the limit, where what is added decides */
	snprintf(line, 2 << 20, "%s%*s%s", lines[_i % 4].head, 1048576 - 40000 + _i / 4 * 8000, "",
		lines[_i % 4].tail);
	for (int i = 0; i < 60; i++)
		say("{\"type\":\"warning\",\"message\":"
		    "\"\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\"
		    "u0001\"}");
	say(line);
	free(line);
	leave(0);
	ck_assert(world_check_stream(&w, 1).closed);
	ck_assert_int_eq(
		world_count(
			&w, "SELECT count(*) FROM events WHERE length(CAST(body AS BLOB)) > 1048576", NULL),
		0);
}
END_TEST

/* Its size was decided on when the worker said it: what comes later must not make it larger. */
START_TEST(warnings_after_completed_do_not_make_its_message_larger) /* proves L1-21 */
{
	char *line = xmalloc(2 << 20), *end;

	snprintf(line, 2 << 20, "{\"type\":\"completed\",\"outputs\":{\"x\":\"%*s\"}}", 1048576 - 16384 - 200,
		"");
	say(line);
	for (int i = 0; i < 50; i++) {
		end = line + sprintf(line, "{\"type\":\"warning\",\"message\":\"");
		for (int k = 0; k < 200; k++)
			end += sprintf(end, "\\u0001");
		sprintf(end, "\"}");
		fake_worker_say(p, line);
		fake_worker_say(p, "rubbish");
	}
	free(line);
	leave(0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_ge(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), 51);
	ck_assert_int_eq(
		world_count(
			&w, "SELECT count(*) FROM events WHERE length(CAST(body AS BLOB)) > 1048576", NULL),
		0);
	ck_assert_int_gt(
		world_count(&w, "SELECT length(CAST(body AS BLOB)) FROM events WHERE type = 'task_completed'",
			NULL),
		1030000); /* else it would not have been in danger */
}
END_TEST

START_TEST(a_confidence_below_the_threshold_is_a_warning)
{
	world_submit_as(&w, "alpha", NULL, "m2", "work", ",\"constraints\":{\"confidence_threshold\":0.9}");
	world_run(&w);
	p = w.workers.list[1];
	say(_i == 0 ? "{\"type\":\"completed\",\"outputs\":{\"confidence\":0.5}}" :
		      "{\"type\":\"completed\",\"outputs\":{\"confidence\":0.95}}");
	leave(0);
	ck_assert_str_eq(world_check_stream(&w, 2).state, "COMPLETED");
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'warning'", NULL), _i == 0);
}
END_TEST

/* ---- text ---- */

START_TEST(a_text_workers_lines_are_log_events_and_exit_0_completes)
{
	ck_assert(!p->has_stdin);
	say("first \"line\"");
	say("{\"type\":\"completed\",\"outputs\":{}}"); /* is only text here */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'log'", NULL), 2);
	ck_assert(strstr(data_of("log"), "\"level\":\"info\"") != NULL);
	leave(EXIT_STATUS(0));
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert(strstr(payload_of("task_completed"), "\"stdout\":\"first \\\"line\\\"\\n{") != NULL);
}
END_TEST

/* Each of its bytes takes six as JSON. */
START_TEST(a_text_workers_line_is_cut_to_what_fits_a_message) /* proves L1-21 */
{
	enum { FITS = (1024 * 1024 - 512 - 28) / 6 }; /* what a log event has beside its text */
	static const int sizes[] = {FITS, FITS + 1, 4 * 1000 * 1000};
	char *line = xmalloc((size_t)sizes[_i] + 1);

	memset(line, 1, (size_t)sizes[_i]);
	line[sizes[_i]] = '\0';
	say(line);
	free(line);
	ck_assert_int_eq(world_count(&w,
				 "SELECT length(json_extract(body, '$.payload.data.message')) FROM events "
				 "WHERE event_type = 'log'",
				 NULL),
		FITS);
	ck_assert_int_eq(world_said(&w, "\"truncated\":true"), sizes[_i] > FITS);
}
END_TEST

START_TEST(a_last_line_without_a_newline_counts)
{
	if (_i == 0)
		say("whole");
	fake_worker_put(p, FAKE_UNENDED, "half", 4, 0);
	leave(EXIT_STATUS(0));
	ck_assert_int_eq(world_said(&w, _i == 0 ? "\"stdout\":\"whole\\nhalf\"" : "\"stdout\":\"half\""), 1);
}
END_TEST

START_TEST(a_text_workers_output_is_bounded)
{
	char line[200];

	for (int i = 0; i < 100; i++) {
		snprintf(line, sizeof line, "line %d %150s", i, "");
		say(line);
	}
	leave(EXIT_STATUS(0));
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_lt(
		world_count(&w, "SELECT length(body) FROM events WHERE type = 'task_completed'", NULL), 3000);
	ck_assert(strstr(payload_of("task_completed"), "line 99") != NULL);
}
END_TEST

START_TEST(a_text_workers_other_exit_fails)
{
	say("working");
	leave(_i == 0 ? EXIT_STATUS(2) : SIGABRT);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert(strstr(payload_of("task_failed"), _i == 0 ? "\"exit_status\":2" : "\"signal\":6") != NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("report");
	TCase *t = tcase_create("lines"), *e = tcase_create("ends"), *x = tcase_create("text");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, each_event_line_is_one_event, 0, 5);
	tcase_add_test(t, a_checkpoint_is_stored_announced_and_confirmed_to_the_worker);
	tcase_add_loop_test(t, a_checkpoints_description_is_cut_at_1_KiB_between_characters, 0, 8);
	tcase_add_test(t, a_checkpoint_over_its_limit_is_a_warning);
	tcase_add_test(t, pause_and_resume_are_transitions);
	tcase_add_loop_test(t, checkpoints_step_over_1_KiB_is_left_out_with_a_warning, 0, 2);
	tcase_add_loop_test(t, pause_reason_of_a_worker_passes_for_no_reason_of_hcpd, 0,
		(int)(sizeof pauses / sizeof *pauses));
	tcase_add_test(t, pause_reason_of_a_worker_is_cut_at_256_bytes);
	tcase_add_loop_test(t, the_log_says_how_many_warnings_were_left_out, 0, 4);
	tcase_add_test(t, steps_usage_and_checkpoints_are_counted);
	tcase_add_loop_test(t, a_bad_line_is_one_warning_and_never_an_end, 0,
		(int)(sizeof bad_lines / sizeof *bad_lines));
	tcase_add_test(t, a_flood_of_bad_lines_is_a_few_warnings);
	tcase_add_test(t, a_line_that_is_too_long_is_a_warning);
	tcase_add_test(t, stderr_lines_become_log_events);
	tcase_add_checked_fixture(e, setup, teardown);
	tcase_add_test(e, completed_closes_stdin_and_gives_exit_grace_before_signals);
	tcase_add_test(e, failed_says_what_the_worker_says_and_what_we_know);
	tcase_add_test(e, an_error_code_that_HCP_does_not_know_is_execution_error);
	tcase_add_loop_test(e, an_end_without_completed_or_failed_is_execution_error, 0, 4);
	tcase_add_test(e, a_death_with_children_left_ends_them_first);
	tcase_add_test(e, outputs_over_the_message_limit_end_FAILED_saying_so);
	tcase_add_loop_test(e, no_message_is_ever_over_the_limit, 0, 24);
	tcase_add_test(e, warnings_after_completed_do_not_make_its_message_larger);
	tcase_add_loop_test(e, a_confidence_below_the_threshold_is_a_warning, 0, 2);
	tcase_add_checked_fixture(x, setup_text, teardown);
	tcase_add_test(x, a_text_workers_lines_are_log_events_and_exit_0_completes);
	tcase_add_loop_test(x, a_text_workers_line_is_cut_to_what_fits_a_message, 0, 3);
	tcase_add_loop_test(x, a_last_line_without_a_newline_counts, 0, 2);
	tcase_add_test(x, a_text_workers_output_is_bounded);
	tcase_add_loop_test(x, a_text_workers_other_exit_fails, 0, 2);
	suite_add_tcase(s, t);
	suite_add_tcase(s, e);
	suite_add_tcase(s, x);
	return world_main(s);
}
