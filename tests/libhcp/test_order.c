/* SPDX-License-Identifier: MIT */
/* test_order.c: what comes twice, late, never, or in a mess; and an application that says no. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static struct app *a;

static void begin(void)
{
	kit_begin();
	a = app_new(NULL);
}

static void end(void)
{
	app_must_be_idle(a);
	app_free(a);
	kit_end();
}

START_TEST(events_are_stored_once_and_in_order) /* proves L1-16 */
{
	char *s = kit_id();

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 300);
	app_until(a, app_count(a, s) == 300, "300 events");
	app_must_have(a, s, 300);
	must(app_sql(a, "SELECT last_sequence FROM hcp_sessions WHERE session_id = '%s'", s) == 300,
		"last_sequence");
	must(a->warnings == 0, "%s", a->log);
	end();
}
END_TEST

START_TEST(duplicates_are_skipped_but_acked) /* proves L2-14 */
{
	char *s = kit_id(), *id = kit_id();

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 20);
	stub_events(a->caller, s, 1, 20);
	/* without a sequence: by message_id */
	for (int i = 0; i < 3; i++)
		stub_say(a->caller, s, "task_completed", id, J("{'outputs':{}}"));
	stub_event(a->caller, s, 21, "session_closed");
	app_until(a, app_count(a, s) >= 22, "all of them");
	app_pass(a, 0.3);
	app_must_have(a, s, 21);
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d", HCP_COMPLETED) == 1,
		"one task_completed");
	must(a->calls == 22, "%d calls", a->calls);
	end();
}
END_TEST

START_TEST(duplicates_are_known_after_a_restart_too) /* proves L2-14 */
{
	char *s = kit_id(), *id = kit_id();

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 10);
	stub_say(a->caller, s, "task_failed", id, J("{'error_code':'timeout','error_message':'late'}"));
	app_until(a, app_count(a, s) == 11, "all of them");
	app_close(a);
	app_open(a);
	stub_events(a->caller, s, 1, 12);
	stub_say(a->caller, s, "task_failed", id, J("{'error_code':'timeout','error_message':'late'}"));
	stub_event(a->caller, s, 13, "log");
	app_until(a, app_count(a, s) >= 14, "the new ones");
	app_pass(a, 0.2);
	app_must_have(a, s, 13);
	must(a->calls == 14, "%d calls", a->calls);
	end();
}
END_TEST

START_TEST(events_out_of_order_are_sorted_far_beyond_the_prefetch) /* proves L2-14 */
{
	char *s = kit_id();
	int held = 300; /* the prefetch is 10 */

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 5);
	for (int i = held; i > 6; i--)
		stub_event(a->caller, s, i, "progress");
	app_until(a, app_sql(a, "SELECT count(*) FROM hcp_held") == held - 6, "held in the file");
	app_must_have(a, s, 5);
	stub_event(a->caller, s, 6, "progress");
	app_until(a, app_count(a, s) == held, "the rest follows");
	app_must_have(a, s, held);
	must(app_sql(a, "SELECT count(*) FROM hcp_held") == 0, "nothing is held any more");
	must(a->warnings == 0, "%s", a->log);
	end();
}
END_TEST

START_TEST(held_events_survive_a_restart) /* proves L2-14 */
{
	char *s = kit_id(), *id = kit_id();

	begin();
	a->o.gap_wait_ms = 60000;
	app_open(a);
	stub_events(a->caller, s, 1, 3);
	stub_events(a->caller, s, 5, 30);
	stub_events(a->caller, s, 5, 7); /* twice, while the first ones are held */
	stub_say(a->caller, s, "task_completed", id, J("{'outputs':{}}"));
	stub_say(a->caller, s, "task_completed", id, J("{'outputs':{}}"));
	stub_event(a->caller, s, 31, "session_closed");
	app_until(a, app_sql(a, "SELECT count(*) FROM hcp_held") == 28, "held in the file");
	app_close(a);
	app_open(a);
	app_pass(a, 0.2);
	app_must_have(a, s, 3);
	stub_event(a->caller, s, 4, "progress");
	app_until(a, app_count(a, s) == 32, "the rest follows");
	app_must_have(a, s, 31);
	/* What has no sequence keeps its place. */
	must(app_sql(a, "SELECT n FROM got WHERE kind = %d", HCP_COMPLETED) == 31,
		"task_completed is behind 30");
	end();
}
END_TEST

START_TEST(a_gap_is_warned_about_and_passed_over) /* proves L2-14 */
{
	char *s = kit_id();
	double t;

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 3);
	app_until(a, app_count(a, s) == 3, "the first ones");
	t = harness_now();
	stub_events(a->caller, s, 7, 9);
	app_until(a, app_count(a, s) == 6, "passed over");
	must(harness_now() - t >= 0.5, "waited only %g s", harness_now() - t);
	must(app_said(a, "events 4 to 6 never came") && app_said(a, "drops none"), "%s", a->log);
	must(app_sql(a, "SELECT gap_from * 100 + gap_to FROM got WHERE sequence = 7") == 406,
		"the application knows");
	must(app_sql(a, "SELECT count(*) FROM got WHERE gap_from > 0") == 1, "once");
	/* What comes later than that comes too late. */
	stub_event(a->caller, s, 5, "progress");
	stub_event(a->caller, s, 10, "progress");
	app_until(a, app_count(a, s) == 7, "and on");
	must(app_sql(a, "SELECT count(*) FROM got WHERE sequence = 5") == 0, "5 is not put behind 9");
	end();
}
END_TEST

/* What its queue may drop need not be somebody's fault. */
START_TEST(gap_in_a_queue_with_limits_may_be_due_to_them)
{
	begin();
	a->o.queue_max_length = 1000;
	app_open(a);
	char *s = kit_id();
	stub_event(a->caller, s, 1, "progress");
	stub_event(a->caller, s, 3, "progress");
	app_until(a, app_count(a, s) == 2, "passed over");
	must(app_said(a, "dropped them by its limits, or another program") && !app_said(a, "drops none"),
		"%s", a->log);
	end();
}
END_TEST

START_TEST(more_than_reorder_max_is_not_held) /* proves L2-14 */
{
	char *s = kit_id();

	begin();
	a->o.gap_wait_ms = 60000;
	a->o.reorder_max = 25;
	app_open(a);
	stub_events(a->caller, s, 2, 40);
	app_until(a, app_count(a, s) == 39, "passed over at once");
	must(app_said(a, "events 1 to 1 never came"), "%s", a->log);
	end();
}
END_TEST

static int slow_hook(struct app *app, const struct hcp_event *e, struct sqlite3 *db)
{
	(void)app, (void)e, (void)db;
	harness_pass(0.03);
	return 0;
}

/* The missing one is in the queue, behind what the application takes its time for. */
START_TEST(a_slow_application_loses_nothing_to_the_gap_bound) /* proves L2-14 */
{
	char *s = kit_id(), *other = kit_id();

	begin();
	a->hook = slow_hook;
	a->o.gap_wait_ms = 200;
	app_open(a);
	stub_event(a->caller, s, 1, "progress");
	stub_events(a->caller, s, 3, 5);
	stub_events(a->caller, other, 1, 40);
	stub_event(a->caller, s, 2, "progress");
	app_until(a, app_count(a, NULL) == 45, "all");
	app_must_have(a, s, 5);
	must(a->warnings == 0, "%s", a->log);
	end();
}
END_TEST

START_TEST(many_sessions_interleave_on_one_queue) /* proves L1-18 */
{
	enum { SESSIONS = 25, EVENTS = 20 };
	char *s[SESSIONS];

	begin();
	for (int i = 0; i < SESSIONS; i++)
		s[i] = kit_id();
	app_open(a);
	for (int n = 1; n <= EVENTS; n++)
		for (int i = 0; i < SESSIONS; i++) {
			/* some in their own disorder: 2 and 3 change places */
			int sequence = i % 3 || n < 2 || n > 3 ? n : 5 - n;

			stub_event(a->caller, s[i], sequence, "progress");
		}
	app_until(a, app_count(a, NULL) == SESSIONS * EVENTS, "all");
	for (int i = 0; i < SESSIONS; i++)
		app_must_have(a, s[i], EVENTS);
	must(a->warnings == 0, "%s", a->log);
	end();
}
END_TEST

START_TEST(session_with_a_gap_does_not_delay_the_others) /* proves L1-18 */
{
	char *s = kit_id(), *other = kit_id();

	begin();
	a->o.gap_wait_ms = 60000;
	a->o.prefetch = 4;
	app_open(a);
	stub_events(a->caller, s, 2, 50);
	stub_events(a->caller, other, 1, 50);
	app_until(a, app_count(a, other) == 50, "the other session");
	must(app_count(a, s) == 0, "nothing of the first");
	stub_event(a->caller, s, 1, "session_created");
	app_until(a, app_count(a, s) == 50, "and now it");
	app_must_have(a, s, 50);
	end();
}
END_TEST

START_TEST(types_and_events_that_are_not_known_are_handed_on) /* proves L1-16 */
{
	char *s = kit_id();

	begin();
	app_open(a);
	stub_event(a->caller, s, 1, "a_thing_of_tomorrow");
	stub_say(a->caller, s, "task_pondered", NULL, J("{'depth':12}"));
	stub_event(a->caller, s, 2, "progress");
	app_until(a, app_count(a, s) == 3, "all three");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d AND event = 'a_thing_of_tomorrow'",
		     HCP_EVENT) == 1,
		"event");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d", HCP_OTHER) == 1, "type");
	must(a->warnings == 0, "%s", a->log);
	end();
}
END_TEST

START_TEST(rubbish_is_left_out_and_acked)
{
	static const char *const rubbish[] = {"", "nonsense", "{", "[]", "{\"type\":1,\"payload\":{}}",
		"{\"type\":\"event\"}", "{\"type\":\"event\",\"payload\":[]}",
		"{\"type\":\"event\",\"type\":\"event\",\"payload\":{}}",
		"{\"type\":\"event\",\"payload\":{}} x", "{\"type\":\"event\",\"payload\":{\"a\":01}}",
		"{\"type\":\"event\",\"payload\":{\"a\":\"\xff\"}}",
		"{\"type\":\"event\",\"payload\":{\"a\":\"\\x\"}}",
		"{\"type\":\"event\",\"payload\":{\"a\":tru}}",
		"{\"type\":\"event\",\"payload\":{\"a\":[1,]}}"};
	size_t count = sizeof rubbish / sizeof *rubbish;
	char *s = kit_id(), *deep = malloc(100000);

	begin();
	app_open(a);
	for (size_t i = 0; i < count; i++)
		stub_raw(a->caller, rubbish[i], strlen(rubbish[i]));
	stub_raw(a->caller, "{\"type\":\"e\0vent\",\"payload\":{}}", 31);
	stub_raw(a->caller, "{\"type\":\"event\",\"payload\":{\"a\":1\0}}", 37);
	stub_raw(a->caller, "{\"type\":\"event\",\"payload\":{\"a\":true\0}}", 40);
	memset(deep, '[', 100000);
	memcpy(deep, "{\"type\":\"event\",\"payload\":{\"a\":", 31);
	stub_raw(a->caller, deep, 100000);
	stub_event(a->caller, s, 1, "progress");
	app_until(a, app_count(a, s) == 1, "what is good");
	must(a->calls == 1, "%d calls", a->calls);
	must(a->warnings == (int)count + 4, "%d warnings: %s", a->warnings, a->log);
	end();
}
END_TEST

static int look_hook(struct app *app, const struct hcp_event *e, struct sqlite3 *db)
{
	double number = 0;
	const char *json;
	size_t size;

	(void)app, (void)db;
	must_str(hcp_get_text(e, "data.message"), "quote \" and \xc3\xa4");
	must(!hcp_get_text(e, "data.percent") && !hcp_get_text(e, "data.message.x") &&
			!hcp_get_text(e, "none"),
		"absent");
	must(hcp_get_number(e, "data.percent", &number) == 0 && number > 1.09 && number < 1.11, "%g", number);
	must(hcp_get_number(e, "data.message", &number) < 0, "a text is no number");
	json = hcp_get_json(e, "data.percent", &size);
	must(json && size == 4 && memcmp(json, "1.10", 4) == 0, "as it was written");
	json = hcp_get_json(e, "data.list", &size);
	must(json && size == 5 && memcmp(json, "[1,2]", 5) == 0, "as it was written");
	must(!hcp_get_json(e, "data.nothing", &size) && size == 0, "absent");
	must_str(e->event_type, "pro\"gress");
	must(e->body[e->size] == 0 && e->size == strlen(e->body) && e->body[1] == '{', "the whole body");
	return 0;
}

START_TEST(values_come_out_of_an_event_without_a_json_library)
{
	char *s = kit_id(), body[700];

	begin();
	a->hook = look_hook;
	app_open(a);
	snprintf(body, sizeof body,
		" {\"hcp_version\" : \"1.0\", "
		"\"message_id\":\"x\\u002dy\",\"timestamp\":\"t\",\"session_id\":\"%s\","
		"\"type\":\"event\",\"payload\": {\"event_type\":\"pro\\\"gress\",\"sequence\": 1.0 "
		",\"data\":{\"percent\":1.10,"
		"\"message\":\"quote \\\" and \\u00e4\",\"list\":[1,2]}}} ",
		s);
	stub_raw(a->caller, body, strlen(body));
	app_until(a, app_count(a, s) == 1, "it");
	must(app_sql(a, "SELECT sequence FROM got WHERE message_id = 'x-y'") == 1,
		"escapes in names, a real as sequence");
	end();
}
END_TEST

START_TEST(a_refused_event_is_undone_and_comes_again_later) /* proves L1-16 */
{
	char *s = kit_id();
	double t;

	begin();
	a->refuse = 2;
	app_open(a);
	stub_events(a->caller, s, 1, 10);
	t = harness_now();
	app_until(a, app_count(a, s) == 10, "all in the end");
	app_must_have(a, s, 10);
	must(a->calls == 12, "%d calls: not in a spin", a->calls);
	must(harness_now() - t >= 3, "after 1 and 2 s, not %g", harness_now() - t);
	must(app_said(a, "comes again in 1 s") && app_said(a, "comes again in 2 s"), "%s", a->log);
	end();
}
END_TEST

START_TEST(a_refused_event_holds_up_its_own_session_only) /* proves L1-16 */
{
	char *s = kit_id(), *other = kit_id();

	begin();
	a->refuse = 1;
	a->refuse_session = s;
	app_open(a);
	stub_events(a->caller, s, 1, 40);
	stub_say(a->caller, s, "task_completed", NULL, J("{'outputs':{}}"));
	stub_events(a->caller, other, 1, 40);
	app_until(a, app_count(a, other) == 40, "the other");
	must(app_count(a, s) == 0, "%lld of the first, before the one that was refused", app_count(a, s));
	app_until(a, app_count(a, s) == 41, "and the first");
	app_must_have(a, s, 40);
	must(app_sql(a, "SELECT max(n) = (SELECT n FROM got WHERE kind = %d) FROM got WHERE session = '%s'",
		     HCP_COMPLETED, s) == 1,
		"task_completed is the last");
	end();
}
END_TEST

START_TEST(a_refused_message_without_a_sequence_keeps_its_place) /* proves L1-16 */
{
	char *s = kit_id();

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 3);
	app_until(a, app_count(a, s) == 3, "the beginning");
	a->refuse = 1;
	stub_say(a->caller, s, "task_completed", NULL, J("{'outputs':{}}"));
	stub_event(a->caller, s, 4, "session_closed");
	app_until(a, app_count(a, s) == 5, "the end");
	must(app_sql(a, "SELECT sequence FROM got ORDER BY n DESC LIMIT 1") == 4,
		"session_closed is the last");
	end();
}
END_TEST

START_TEST(a_held_event_that_is_refused_is_tried_again) /* proves L2-14 */
{
	char *s = kit_id();

	begin();
	app_open(a);
	stub_events(a->caller, s, 2, 6);
	app_until(a, app_sql(a, "SELECT count(*) FROM hcp_held") == 5, "held");
	stub_event(a->caller, s, 1, "progress");
	app_until(a, app_count(a, s) >= 1, "the first");
	a->refuse = 1;
	app_until(a, app_count(a, s) == 6, "all");
	app_must_have(a, s, 6);
	end();
}
END_TEST

static int commit_hook(struct app *app, const struct hcp_event *e, struct sqlite3 *db)
{
	(void)app, (void)e;
	sqlite3_exec(db, "INSERT INTO got (session) VALUES ('smuggled')", NULL, NULL, NULL);
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	return 0;
}

START_TEST(an_application_that_ends_the_transaction_gains_nothing)
{
	char *s = kit_id();

	begin();
	a->hook = commit_hook;
	app_open(a);
	stub_events(a->caller, s, 1, 5);
	app_until(a, app_said(a, "the transaction that on_event was handed is over"), "the complaint");
	must(app_count(a, s) == 0, "nothing was stored");
	a->hook = NULL;
	app_until(a, app_count(a, s) == 5, "and then all");
	app_must_have(a, s, 5);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp order");

	suite_test(s, events_are_stored_once_and_in_order, 40);
	suite_test(s, duplicates_are_skipped_but_acked, 40);
	suite_test(s, duplicates_are_known_after_a_restart_too, 40);
	suite_test(s, events_out_of_order_are_sorted_far_beyond_the_prefetch, 60);
	suite_test(s, held_events_survive_a_restart, 40);
	suite_test(s, a_gap_is_warned_about_and_passed_over, 40);
	suite_test(s, gap_in_a_queue_with_limits_may_be_due_to_them, 40);
	suite_test(s, more_than_reorder_max_is_not_held, 40);
	suite_test(s, a_slow_application_loses_nothing_to_the_gap_bound, 40);
	suite_test(s, many_sessions_interleave_on_one_queue, 60);
	suite_test(s, session_with_a_gap_does_not_delay_the_others, 60);
	suite_test(s, types_and_events_that_are_not_known_are_handed_on, 40);
	suite_test(s, rubbish_is_left_out_and_acked, 40);
	suite_test(s, values_come_out_of_an_event_without_a_json_library, 40);
	suite_test(s, a_refused_event_is_undone_and_comes_again_later, 40);
	suite_test(s, a_refused_event_holds_up_its_own_session_only, 40);
	suite_test(s, a_refused_message_without_a_sequence_keeps_its_place, 40);
	suite_test(s, a_held_event_that_is_refused_is_tried_again, 40);
	suite_test(s, an_application_that_ends_the_transaction_gains_nothing, 40);
	return harness_run(s, false);
}
