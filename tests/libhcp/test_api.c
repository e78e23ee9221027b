/* SPDX-License-Identifier: MIT */
/* test_api.c: opening, sending and what goes wrong with either; the real daemon at the other end where
 * there is one. */
#include <amqp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit.h"
#include "support/rig.h"

static struct app *a;

static void begin(void)
{
	kit_begin();
	a = app_new(NULL);
}

static void end(void)
{
	app_free(a);
	kit_end();
}

/* It cannot be opened, and says so in these words. */
static void must_not_open(int status, const char *words)
{
	int got = app_try_open(a);

	must(got == status, "%d, not %d: %s", got, status, hcp_error(a->h));
	must(strstr(hcp_error(a->h), words), "%s", hcp_error(a->h));
	app_close(a);
}

START_TEST(options_that_do_not_do_are_named)
{
	begin();
	a->o.caller_id = "no.dots";
	must_not_open(HCP_E_ARGUMENT, "no.dots");
	a->o.caller_id = NULL;
	must_not_open(HCP_E_ARGUMENT, "caller_id");
	a->o.caller_id = a->caller;
	a->o.callee = "a b";
	must_not_open(HCP_E_ARGUMENT, "a b");
	a->o.callee = kit_callee();
	a->o.url = "http://x";
	must_not_open(HCP_E_ARGUMENT, "amqp://");
	a->o.url = a->url;
	a->o.prefetch = 101;
	must_not_open(HCP_E_ARGUMENT, "prefetch is 101");
	a->o.prefetch = -1;
	must_not_open(HCP_E_ARGUMENT, "prefetch is -1");
	a->o.prefetch = 0;
	a->o.file = NULL;
	must_not_open(HCP_E_ARGUMENT, "file");
	a->o.file = "/nonexistent/file.db";
	must_not_open(HCP_E_STORE, "/nonexistent/file.db");
	a->o.file = a->file;
	a->o.ca_file = "/nonexistent/ca.pem";
	a->o.url = "amqps://localhost";
	must_not_open(HCP_E_ARGUMENT, "/nonexistent/ca.pem");
	a->o.on_event = NULL;
	must_not_open(HCP_E_ARGUMENT, "on_event");
	hcp_close(NULL);
	end();
}
END_TEST

START_TEST(a_handle_that_was_not_opened_is_refused_politely)
{
	begin();
	a->o.caller_id = NULL;
	must(app_try_open(a) == HCP_E_ARGUMENT, "opened");
	must(hcp_process(a->h) == HCP_E_ARGUMENT && hcp_run(a->h, 10) == HCP_E_ARGUMENT, "processed");
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_E_ARGUMENT, "submitted");
	must(hcp_abort(a->h, kit_id(), NULL) == HCP_E_ARGUMENT && !hcp_is_up(a->h), "aborted");
	hcp_stop(a->h);
	end();
}
END_TEST

START_TEST(a_broker_that_is_not_there_is_told_or_waited_for)
{
	begin();
	a->o.url = "amqp://127.0.0.1:1/";
	must_not_open(HCP_E_BROKER, "127.0.0.1:1");
	a->o.wait_for_broker = 1;
	must(app_try_open(a) == HCP_OK && !hcp_is_up(a->h), "%s", hcp_error(a->h));
	must(hcp_run(a->h, 1500) == HCP_TIMEOUT, "runs without one");
	must(a->warnings == 1, "said once, not %d times: %s", a->warnings, a->log);
	end();
}
END_TEST

START_TEST(a_wrong_password_is_told)
{
	begin();
	snprintf(a->url, sizeof a->url, "amqp://guest:wrong@%s", strchr(kit_broker()->url, '@') + 1);
	must_not_open(HCP_E_REFUSED, "refuses the log-in of guest");
	end();
}
END_TEST

START_TEST(the_queue_is_durable_and_bound_and_outlives_us) /* proves L1-16 */
{
	int messages = -1, consumers = -1;

	begin();
	app_open(a);
	must(hcp_is_up(a->h), "not up");
	must(queue_look(kit_broker(), a->queue, &messages, &consumers) && consumers == 1, "one consumer");
	app_close(a);
	stub_events(a->caller, kit_id(), 1, 7);
	stub_say(a->caller, NULL, "task_rejected", NULL,
		J("{'reason_code':'forbidden','reason_message':'no'}"));
	wait_until(queue_look(kit_broker(), a->queue, &messages, &consumers) && messages == 8, WAIT_S,
		"kept: %d", messages);
	app_open(a);
	app_until(a, app_count(a, NULL) == 8, "what came meanwhile");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d", HCP_REJECTED) == 1,
		"the one without a session");
	end();
}
END_TEST

/* The prefetch is what an application that does not return has in hand. */
static int asked;
static int never_hook(struct app *app, const struct hcp_event *e, struct sqlite3 *db)
{
	int messages, consumers;

	(void)e, (void)db;
	if (asked++ == 0)
		wait_until(queue_look(kit_broker(), app->queue, &messages, &consumers) && messages == 190,
			WAIT_S, "%d messages are left with the broker, not 190", messages);
	return 0;
}

START_TEST(ten_messages_are_in_hand_by_default) /* proves L1-16 */
{
	begin();
	app_open(a);
	app_close(a);
	stub_events(a->caller, kit_id(), 1, 200);
	a->hook = never_hook;
	app_open(a);
	app_until(a, app_count(a, NULL) == 200, "all");
	end();
}
END_TEST

START_TEST(a_taken_queue_is_said_to_be_taken) /* proves L1-16 */
{
	struct app *b;

	begin();
	app_open(a);
	b = app_new(a->caller);
	snprintf(b->file, sizeof b->file, "%s", kit_path("other"));
	must(app_try_open(b) == HCP_E_TAKEN, "%s", hcp_error(b->h));
	must(strstr(hcp_error(b->h), "is taken") && strstr(hcp_error(b->h), b->queue), "%s", hcp_error(b->h));
	/* Whoever goes on nevertheless gets it when it is free. */
	app_close(a);
	stub_events(b->caller, kit_id(), 1, 3);
	app_until(b, app_count(b, NULL) == 3, "the second takes over");
	app_free(b);
	end();
}
END_TEST

START_TEST(a_file_is_used_by_one_program_at_a_time) /* proves L1-16 */
{
	struct app *b;

	begin();
	app_open(a);
	b = app_new(a->caller);
	snprintf(b->file, sizeof b->file, "%s", a->file);
	must(app_try_open(b) == HCP_E_TAKEN, "%s", hcp_error(b->h));
	must(strstr(hcp_error(b->h), "-lock is taken"), "%s", hcp_error(b->h));
	app_close(a);
	stub_events(b->caller, kit_id(), 1, 3);
	app_until(b, app_count(b, NULL) == 3, "the second takes over");
	app_free(b);
	end();
}
END_TEST

/* Any other program may consume beside it; then events are missing, and that is said. */
START_TEST(queue_is_shared_and_events_missing_by_that_are_explained) /* proves L1-16 */
{
	amqp_connection_state_t other;
	char *s = kit_id();

	begin();
	app_open(a);
	other = wire_connect(kit_broker());
	amqp_basic_consume(
		other, 1, amqp_cstring_bytes(a->queue), amqp_empty_bytes, 0, 1, 0, amqp_empty_table);
	must(wire_ok(other), "a second consumer is refused");
	stub_events(a->caller, s, 1, 20);
	app_until(a, app_said(a, "another program consumes it as caller"), "the warning; it said %s", a->log);
	must(app_said(a, "never came"), "%s", a->log);
	wire_disconnect(&other);
	end();
}
END_TEST

START_TEST(a_quorum_queue_has_one_active_consumer) /* proves L1-16 */
{
	char *s = kit_id();
	struct app *b;

	begin();
	a->o.quorum = 1;
	app_open(a);
	b = app_new(a->caller);
	snprintf(b->file, sizeof b->file, "%s", kit_path("other"));
	b->o.quorum = 1;
	app_open(b);
	must(app_said(b, "is taken"), "%s", b->log);
	stub_events(a->caller, s, 1, 20);
	app_until(a, app_count(a, s) == 20, "the first has all");
	app_pass(b, 0.2);
	must(b->calls == 0, "the second has none");
	app_close(a);
	stub_events(a->caller, s, 21, 30);
	b->o.gap_wait_ms = 100;
	app_until(b, app_count(b, s) == 10, "the second takes over");
	app_free(b);
	end();
}
END_TEST

START_TEST(ttl_and_length_are_the_queues_and_a_mismatch_is_explained) /* proves L1-17 */
{
	int messages = -1, consumers;

	begin();
	a->o.queue_ttl_s = 86400;
	a->o.queue_max_length = 5;
	app_open(a);
	app_close(a);
	/* the broker refuses to declare a queue again with other values: these are in milliseconds */
	wire_make_queue(kit_broker(), a->queue,
		"x-queue-type=classic,x-message-ttl=86400000,x-max-length=5,x-overflow=drop-head",
		"hcp.events", "nobody.#");
	stub_events(a->caller, kit_id(), 1, 20);
	wait_until(queue_look(kit_broker(), a->queue, &messages, &consumers) && messages == 5, WAIT_S,
		"dropped: %d", messages);
	app_open(a);
	app_until(a, app_count(a, NULL) == 5, "the last five");
	must(app_sql(a, "SELECT min(sequence) FROM got") == 16, "the oldest were dropped");
	app_close(a);
	a->o.queue_ttl_s = 3600;
	must_not_open(HCP_E_REFUSED, "x-message-ttl");
	a->o.queue_ttl_s = 86400;
	a->o.quorum = 1;
	must_not_open(HCP_E_REFUSED, a->queue);
	end();
}
END_TEST

START_TEST(messages_older_than_the_ttl_are_gone) /* proves L1-17 */
{
	int messages = -1, consumers;

	begin();
	a->o.queue_ttl_s = 1;
	app_open(a);
	app_close(a);
	stub_events(a->caller, kit_id(), 1, 20);
	wait_until(queue_look(kit_broker(), a->queue, &messages, &consumers) && messages == 0, WAIT_S,
		"%d are left", messages);
	end();
}
END_TEST

START_TEST(a_file_belongs_to_one_caller_and_to_its_owner)
{
	struct stat st;

	begin();
	app_open(a);
	must(stat(a->file, &st) == 0 && (st.st_mode & 0777) == 0600, "mode %o", st.st_mode & 0777);
	app_close(a);
	a->o.caller_id = "somebody-else";
	must_not_open(HCP_E_ARGUMENT, "belongs to caller");
	a->o.caller_id = a->caller;
	app_sql(a, "UPDATE hcp_meta SET value = '99' WHERE key = 'schema'");
	must_not_open(HCP_E_STORE, "schema 99");
	file_write(a->file,
		"this is no database, but a text that is long enough to look like a header of one, is it "
		"not?");
	must_not_open(HCP_E_STORE, "not a database");
	end();
}
END_TEST

START_TEST(an_application_has_its_own_tables_in_the_file)
{
	begin();
	app_open(a);
	must(sqlite3_exec(hcp_db(a->h), "CREATE TABLE mine (x); INSERT INTO mine VALUES (7)", NULL, NULL,
		     NULL) == SQLITE_OK,
		"%s", sqlite3_errmsg(hcp_db(a->h)));
	app_close(a);
	app_open(a);
	must(app_sql(a, "SELECT x FROM mine") == 7, "kept");
	end();
}
END_TEST

START_TEST(submit_without_a_daemon_is_a_clear_error) /* proves L1-16 */
{
	char id[HCP_ID_SIZE];

	begin();
	app_open(a);
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, id) == HCP_OK, "%s", hcp_error(a->h));
	app_until(a, app_count(a, NULL) == 1, "the word of it");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d AND reply = '%s'", HCP_UNDELIVERED, id) ==
			1,
		"which one");
	must(strstr(hcp_error(a->h), "no daemon listens as"), "%s", hcp_error(a->h));
	must(app_sql(a, "SELECT count(*) FROM hcp_outbox") == 0, "let go");
	/* Or it goes on trying, until somebody is there. */
	a->keep_trying = true;
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, id) == HCP_OK, "%s", hcp_error(a->h));
	app_until(a, a->calls >= 3, "tried again");
	must(app_count(a, NULL) == 1, "what a refusing callback stored is undone");
	stub_listen();
	app_until(a, stub_waiting() == 1, "it arrives");
	must_str(json_text_at(stub_hear(), "message_id"), id);
	end();
}
END_TEST

START_TEST(tasks_that_do_not_do_are_named)
{
	static const struct {
		struct hcp_task task;
		const char *words;
	} bad[] = {
		{{.inputs = "{}"}, "capability"},
		{{.capability = "x", .inputs = "[]"}, "task.inputs is no JSON object"},
		{{.capability = "x", .inputs = "{"}, "task.inputs"},
		{{.capability = "x", .context = "{\"a\":1,\"a\":2}"}, "task.context"},
		{{.capability = "x", .constraints = "{}", .priority = "low"}, "constraints"},
		{{.capability = "x", .callee = "a.b"}, "a.b"},
	};

	begin();
	app_open(a);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		must(hcp_submit(a->h, &bad[i].task, NULL) == HCP_E_ARGUMENT, "%zu was taken", i);
		must(strstr(hcp_error(a->h), bad[i].words), "%s", hcp_error(a->h));
	}
	must(hcp_abort(a->h, "xyz", NULL) == HCP_E_ARGUMENT && strstr(hcp_error(a->h), "xyz"), "%s",
		hcp_error(a->h));
	must(app_sql(a, "SELECT count(*) FROM hcp_outbox") == 0, "nothing is kept of them");
	end();
}
END_TEST

START_TEST(a_submit_is_what_the_protocol_says)
{
	char id[HCP_ID_SIZE];
	json_t *j;

	begin();
	stub_listen();
	app_open(a);
	must(hcp_submit(a->h,
		     &(struct hcp_task){.capability = "cap",
			     .inputs = " {\"x\": 1.10} ",
			     .intent = "do \"it\"",
			     .capability_version = "1.x",
			     .max_duration = "PT5M",
			     .priority = "high",
			     .expected_output = "{\"format\":\"json\"}",
			     .context = "{\"purpose\":\"p\"}",
			     .metadata = "{\"m\":1}"},
		     id) == HCP_OK,
		"%s", hcp_error(a->h));
	app_until(a, stub_waiting() == 1, "it");
	j = stub_hear();
	must_str(json_text_at(j, "message_id"), id);
	must_str(json_text_at(j, "type"), "task_submit");
	must(json_is_null(json_at(j, "session_id")), "session_id");
	must_str(json_text_at(j, "payload.caller_id"), a->caller);
	must_str(json_text_at(j, "payload.capability"), "cap");
	must_str(json_text_at(j, "payload.capability_version"), "1.x");
	must_str(json_text_at(j, "payload.intent"), "do \"it\"");
	must_str(json_text_at(j, "payload.constraints.max_duration"), "PT5M");
	must_str(json_text_at(j, "payload.constraints.priority"), "high");
	must_str(json_text_at(j, "payload.expected_output.format"), "json");
	must_str(json_text_at(j, "payload.context.purpose"), "p");
	must(json_integer_value(json_at(j, "payload.metadata.m")) == 1, "metadata");
	must(app_sql(a, "SELECT instr(CAST(body AS TEXT), '\"x\":1.10') > 0 FROM hcp_outbox") == 1,
		"1.10 stays 1.10");
	end();
}
END_TEST

START_TEST(an_unanswered_submit_is_repeated_under_its_message_id) /* proves L1-16 */
{
	char id[HCP_ID_SIZE], *s = kit_id();
	json_t *payload;

	begin();
	stub_listen();
	a->o.repeat_s = 1;
	app_open(a);
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, id) == HCP_OK, "%s", hcp_error(a->h));
	for (int i = 0; i < 3; i++) { /* at once, after 1 s, after 2 s more: the answers are lost */
		app_until(a, stub_waiting() > 0, "repeat %d", i);
		must_str(json_text_at(stub_hear(), "message_id"), id);
	}
	payload = json_pack("{s:s, s:s, s:s}", "in_reply_to", id, "session_token", "tok", "risk_level", "R1");
	stub_say(a->caller, s, "task_accepted", "answer-1", payload);
	app_until(a, app_count(a, s) == 1, "the answer");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d AND reply = '%s'", HCP_ACCEPTED, id) == 1,
		"to which it is");
	must(app_sql(a, "SELECT count(*) FROM hcp_outbox") == 0, "no longer kept");
	app_pass(a, 4.5);
	must(stub_waiting() == 0, "and no longer repeated");
	end();
}
END_TEST

START_TEST(a_pending_submit_survives_a_restart_of_the_application) /* proves L1-16 */
{
	char id[HCP_ID_SIZE], never[HCP_ID_SIZE];

	begin();
	stub_listen();
	app_open(a);
	/* Sent, but the answer does not come in this run. */
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, id) == HCP_OK, "%s", hcp_error(a->h));
	must(hcp_flush(a->h, 20000) == HCP_OK && stub_waiting() == 1, "flushed");
	must_str(json_text_at(stub_hear(), "message_id"), id);
	/* Not even sent. */
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "y"}, never) == HCP_OK, "%s", hcp_error(a->h));
	app_close(a);
	app_open(a);
	app_until(a, stub_waiting() == 2, "both");
	must_str(json_text_at(stub_hear(), "message_id"), id);
	must_str(json_text_at(stub_hear(), "message_id"), never);
	end();
}
END_TEST

START_TEST(a_submit_that_nobody_answers_is_given_up)
{
	char id[HCP_ID_SIZE];

	begin();
	stub_listen();
	a->o.repeat_s = 1;
	a->o.give_up_s = 2;
	app_open(a);
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, id) == HCP_OK, "%s", hcp_error(a->h));
	app_until(a, app_count(a, NULL) == 1, "the word of it");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d AND reply = '%s'", HCP_UNDELIVERED, id) ==
			1,
		"given up");
	must(strstr(hcp_error(a->h), "not answered"), "%s", hcp_error(a->h));
	must(app_sql(a, "SELECT count(*) FROM hcp_outbox") == 0, "let go");
	end();
}
END_TEST

static int chain_hook(struct app *app, const struct hcp_event *e, struct sqlite3 *db)
{
	(void)db;
	if (e->sequence == 1)
		must(hcp_submit(app->h, &(struct hcp_task){.capability = "next"}, NULL) == HCP_OK, "%s",
			hcp_error(app->h));
	must(hcp_process(app->h) == HCP_E_ARGUMENT && hcp_run(app->h, 1) == HCP_E_ARGUMENT,
		"not inside on_event");
	return 0;
}

START_TEST(a_submit_inside_on_event_is_sent_only_with_it)
{
	begin();
	stub_listen();
	a->hook = chain_hook;
	a->refuse = 2; /* twice it is undone, with the submit */
	app_open(a);
	stub_event(a->caller, kit_id(), 1, "progress");
	app_until(a, app_count(a, NULL) == 1, "the event");
	must(a->calls == 3, "%d calls", a->calls);
	app_until(a, stub_waiting() > 0, "the submit");
	app_pass(a, 0.2);
	must(stub_waiting() == 1, "%d", stub_waiting());
	end();
}
END_TEST

START_TEST(hundreds_of_submits_are_all_sent_once)
{
	json_t *seen = json_object(), *j;

	begin();
	stub_listen();
	app_open(a);
	for (int i = 0; i < 300; i++)
		must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_OK, "%s",
			hcp_error(a->h));
	must(hcp_flush(a->h, 60000) == HCP_OK, "%s", hcp_error(a->h));
	must(stub_waiting() == 300, "%d", stub_waiting());
	while ((j = stub_hear())) {
		json_object_set_new(seen, json_text_at(j, "message_id"), json_true());
		json_decref(j);
	}
	must(json_object_size(seen) == 300, "%zu", json_object_size(seen));
	end();
}
END_TEST

/* --- with the real daemon --- */

static char session[HCP_ID_SIZE];

static int remember_hook(struct app *app, const struct hcp_event *e, struct sqlite3 *db)
{
	(void)app, (void)db;
	if (e->kind == HCP_ACCEPTED)
		snprintf(session, sizeof session, "%s", e->session_id);
	return 0;
}

START_TEST(a_task_runs_from_submit_to_session_closed) /* proves L1-16 */
{
	struct rig *r = rig_new();
	char id[HCP_ID_SIZE];

	kit_begin();
	rig_start(r);
	a = app_new(NULL);
	a->o.callee = r->callee;
	a->hook = remember_hook;
	app_open(a);
	must(hcp_submit(a->h,
		     &(struct hcp_task){
			     .capability = "agent", .inputs = "{\"do\":[[\"progress\",200],[\"complete\"]]}"},
		     id) == HCP_OK,
		"%s", hcp_error(a->h));
	app_until(a, app_sql(a, "SELECT count(*) FROM got WHERE event = 'session_closed'") == 1, "its end");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d AND reply = '%s'", HCP_ACCEPTED, id) == 1,
		"accepted");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d", HCP_COMPLETED) == 1, "completed");
	must(app_sql(a, "SELECT count(*) FROM got WHERE event = 'progress'") == 200, "progress");
	app_must_have(a, session, app_sql(a, "SELECT max(sequence) FROM got"));
	must(app_sql(a, "SELECT closed AND token IS NULL FROM hcp_sessions WHERE session_id = '%s'",
		     session) == 1,
		"closed");
	app_must_be_idle(a);
	app_free(a);
	rig_finish(r);
	kit_end();
}
END_TEST

START_TEST(a_rejection_says_why) /* proves L1-16 */
{
	struct rig *r = rig_new();
	char id[HCP_ID_SIZE];

	kit_begin();
	rig_start(r);
	a = app_new(NULL);
	a->o.callee = r->callee;
	app_open(a);
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "none-such"}, id) == HCP_OK, "%s",
		hcp_error(a->h));
	app_until(a, app_count(a, NULL) == 1, "the answer");
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d AND reply = '%s' AND session = ''",
		     HCP_REJECTED, id) == 1,
		"rejected");
	must(app_sql(a, "SELECT count(*) FROM hcp_outbox") == 0, "answered");
	app_free(a);
	rig_finish(r);
	kit_end();
}
END_TEST

START_TEST(an_abort_carries_the_token_and_ends_the_session) /* proves L1-16 */
{
	struct rig *r = rig_new();

	kit_begin();
	rig_set(r, "caller *", "capabilities", NULL);
	rig_set(r, "caller *", "max_risk", NULL);
	rig_set(r, "caller aborter", "capabilities", "*");
	rig_set(r, "caller aborter", "max_risk", "R5");
	rig_set(r, "caller aborter", "amqp_user", "guest");
	rig_start(r);
	a = app_new("aborter");
	a->o.callee = r->callee;
	a->hook = remember_hook;
	app_open(a);
	must(hcp_submit(a->h,
		     &(struct hcp_task){.capability = "agent",
			     .inputs = "{\"do\":[[\"progress\",1],"
				       "[\"hold\",\"/nonexistent\"]]}"},
		     NULL) == HCP_OK,
		"%s", hcp_error(a->h));
	app_until(a, app_sql(a, "SELECT count(*) FROM got WHERE event = 'progress'") == 1, "it runs");
	/* By another run of the application, which knows the token and the daemon from the file. */
	app_close(a);
	a->o.callee = NULL;
	app_open(a);
	must(hcp_abort(a->h, session, "no longer wanted") == HCP_OK, "%s", hcp_error(a->h));
	app_until(a, app_sql(a, "SELECT count(*) FROM got WHERE event = 'session_closed'") == 1, "its end");
	must(app_sql(a, "SELECT count(*) FROM hcp_outbox") == 0, "sent");
	app_free(a);
	rig_finish(r);
	kit_end();
}
END_TEST

START_TEST(amqps_works_and_an_unknown_authority_does_not)
{
	const char *port = getenv("HCP_TEST_BROKER_TLS_PORT"), *dir = getenv("HCP_TEST_BROKER_DIR");
	char ca[600], cert[600], *s = kit_id();

	if (!port || !dir) {
		printf("skipped: HCP_TEST_BROKER_TLS_PORT is not set\n");
		return;
	}
	begin();
	snprintf(ca, sizeof ca, "%s/tls/ca.pem", dir);
	snprintf(cert, sizeof cert, "%s/tls/client.pem", dir);
	snprintf(a->url, sizeof a->url, "amqps://guest:guest@localhost:%s/%%2F", port);
	a->o.ca_file = cert;
	must_not_open(HCP_E_BROKER, "ca_file");
	a->o.ca_file = ca;
	a->o.prefetch = 100;
	app_open(a);
	stub_listen();
	stub_events(a->caller, s, 1, 500);
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_OK, "%s", hcp_error(a->h));
	app_until(a, app_count(a, s) == 500 && stub_waiting() == 1, "in both directions");
	app_must_have(a, s, 500);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp api");

	suite_test(s, options_that_do_not_do_are_named, 40);
	suite_test(s, a_handle_that_was_not_opened_is_refused_politely, 40);
	suite_test(s, a_broker_that_is_not_there_is_told_or_waited_for, 40);
	suite_test(s, a_wrong_password_is_told, 40);
	suite_test(s, the_queue_is_durable_and_bound_and_outlives_us, 40);
	suite_test(s, ten_messages_are_in_hand_by_default, 40);
	suite_test(s, a_taken_queue_is_said_to_be_taken, 40);
	suite_test(s, a_file_is_used_by_one_program_at_a_time, 40);
	suite_test(s, queue_is_shared_and_events_missing_by_that_are_explained, 40);
	suite_test(s, a_quorum_queue_has_one_active_consumer, 60);
	suite_test(s, ttl_and_length_are_the_queues_and_a_mismatch_is_explained, 40);
	suite_test(s, messages_older_than_the_ttl_are_gone, 40);
	suite_test(s, a_file_belongs_to_one_caller_and_to_its_owner, 40);
	suite_test(s, an_application_has_its_own_tables_in_the_file, 40);
	suite_test(s, submit_without_a_daemon_is_a_clear_error, 40);
	suite_test(s, tasks_that_do_not_do_are_named, 40);
	suite_test(s, a_submit_is_what_the_protocol_says, 40);
	suite_test(s, an_unanswered_submit_is_repeated_under_its_message_id, 60);
	suite_test(s, a_pending_submit_survives_a_restart_of_the_application, 40);
	suite_test(s, a_submit_that_nobody_answers_is_given_up, 40);
	suite_test(s, a_submit_inside_on_event_is_sent_only_with_it, 40);
	suite_test(s, hundreds_of_submits_are_all_sent_once, 90);
	suite_test(s, a_task_runs_from_submit_to_session_closed, 60);
	suite_test(s, a_rejection_says_why, 60);
	suite_test(s, an_abort_carries_the_token_and_ends_the_session, 60);
	suite_test(s, amqps_works_and_an_unknown_authority_does_not, 60);
	return harness_run(s, false);
}
