/* SPDX-License-Identifier: MIT */
/* test_rules.c: what a session must keep to while it runs: its envelope, its promise of outputs, its
 * sealed intent; and whose word counts for it, its token. */
#include "support/fakes/fake_world.h"

#include "support/fakes/fake_operators.h"

static struct world w;
static struct worker *p;
static struct op_queue operators;

#define ENVELOPE \
	"{\"parameters\":{\"t\":{\"max\":80,\"unit\":\"C\",\"hard_limit\":95}},\"prohibited_actions\":[" \
	"\"vent\"]}"

static void declare(const char *name, const char *output_schema, const char *envelope)
{
	struct buf b = {0};
	char file[64];

	buf_addf(&b,
		"{\"capability\":{\"name\":\"%s\",\"version\":\"1.2.3\",\"description\":\"d\",\"input_"
		"schema\":{},\"output_schema\":%s,"
		"\"safety\":{" WORLD_SAFE ",\"envelope\":%s}}}",
		name, output_schema, envelope);
	snprintf(file, sizeof file, "%s.json", name);
	world_write_file(w.dir, file, buf_text(&b));
	buf_fini(&b);
}

static void setup(void)
{
	world_init(&w, "");
	declare("work", "{\"properties\":{\"grade\":{\"maximum\":6}}}", ENVELOPE);
	declare("plain", "{\"required\":[\"stdout\"],\"properties\":{\"stdout\":{\"maxLength\":3}}}",
		ENVELOPE);
	world_begin(&w);
	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
	p = world_start(&w, "m1", "work");
}

static void teardown(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
}

static void say(const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

static void announce(const char *name, const char *parameters, int ref)
{
	char line[300];

	snprintf(line, sizeof line, "{\"type\":\"action\",\"name\":\"%s\",\"parameters\":%s,\"ref\":%d}",
		name, parameters, ref);
	say(line);
}

/* The verdict on that announcement: 1 allowed, 0 not, -1 none was given. */
static int verdict(int ref)
{
	char yes[80], no[80];

	snprintf(yes, sizeof yes, "{\"type\":\"action_verdict\",\"ref\":%d,\"allowed\":true,\"reason\":null}",
		ref);
	snprintf(no, sizeof no, "{\"type\":\"action_verdict\",\"ref\":%d,\"allowed\":false,\"reason\":\"",
		ref);
	return fake_worker_has_line(p, yes) ? 1 : fake_worker_has_line(p, no) ? 0 : -1;
}

static const char *ended(const char *type, const char *path)
{
	char sql[160];

	snprintf(sql, sizeof sql,
		"SELECT json_extract(body, '$.payload.%s') FROM events WHERE type = ? ORDER BY id DESC",
		path);
	return world_text(&w, sql, type);
}

/* A member of the newest row of the audit about an action. */
static const char *audited(const char *outcome, const char *member)
{
	char sql[256];

	snprintf(sql, sizeof sql,
		"SELECT json_extract(entry, '$.%s') FROM audit WHERE json_extract(entry, '$.what') = 'action'"
		" AND json_extract(entry, '$.outcome') = ? ORDER BY id DESC LIMIT 1",
		member);
	return world_text(&w, sql, outcome);
}

static void leave(void)
{
	fake_worker_exit(p, 0);
	world_run(&w);
}

/* ---- actions ---- */

START_TEST(the_caller_and_the_worker_are_told_the_envelope) /* proves L3-07 */
{
	ck_assert_str_eq(ended("task_accepted", "safety_envelope"), ENVELOPE);
	ck_assert(fake_worker_has_line(p, "\"safety_envelope\":" ENVELOPE ",\"deadline\""));
}
END_TEST

START_TEST(an_action_inside_is_allowed_and_costs_nothing)
{
	announce("heat", "{\"t\":80}", 1);
	announce("stir", "{}", 2);
	say("{\"type\":\"action\",\"name\":\"look\"}");
	ck_assert_int_eq(verdict(1), 1);
	ck_assert_int_eq(verdict(2), 1);
	ck_assert(fake_worker_has_line(
		p, "{\"type\":\"action_verdict\",\"ref\":null,\"allowed\":true,\"reason\":null}"));
	say("{\"type\":\"completed\",\"outputs\":{}}");
	leave();
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_str_eq(ended("task_completed", "execution_summary.risk_events"), "[]");
}
END_TEST

static void begin_cautious(void)
{
	world_configure(&w,
		"[capability work]\ncheckpoint_before_action = yes\ncheckpoint_steps = 0\n"
		"[limits]\ncheckpoint_state = 1KiB\n");
	declare("work", "{}", ENVELOPE);
	core_reload(&w.core);
	p = world_start(&w, "m2", "work");
}

static int checkpoint_requests(void)
{
	int count = 0;

	for (const char *at = buf_text(&p->in); (at = strstr(at, "\"checkpoint_request\"")) != NULL; at++)
		count++;
	return count;
}

#define SAVED "{\"type\":\"checkpoint\",\"state\":{}}"

START_TEST(an_action_waits_for_a_checkpoint_where_it_must) /* proves CK-01, CK-12 */
{
	begin_cautious();
	announce("heat", "{\"t\":80}", 1);
	announce("stir", "{}", 2);
	ck_assert_int_eq(verdict(1), -1);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"checkpoint_request\",\"reason\":\"action\"}"));
	ck_assert_int_eq(checkpoint_requests(), 1);
	announce("heat", "{\"t\":90}", 3); /* what is not allowed anyhow waits for nothing */
	ck_assert_int_eq(verdict(3), 0);
	say(SAVED);
	ck_assert_int_eq(verdict(1), 1);
	ck_assert_int_eq(verdict(2), 1);
	ck_assert_str_eq(world_text(&w, "SELECT trigger FROM checkpoints", NULL), "action");
	/* the worker learns that its checkpoint is stored first */
	ck_assert(strstr(buf_text(&p->in), "\"checkpoint_saved\"") <
		strstr(buf_text(&p->in), "{\"type\":\"action_verdict\",\"ref\":1,"));
}
END_TEST

START_TEST(an_action_right_after_a_checkpoint_is_allowed_at_once)
{
	begin_cautious();
	say(SAVED);
	announce("stir", "{}", 1);
	ck_assert_int_eq(verdict(1), 1);
	ck_assert_int_eq(checkpoint_requests(), 0);
	announce("stir", "{}", 2); /* the first one is not in the checkpoint */
	ck_assert_int_eq(verdict(2), -1);
	ck_assert_int_eq(checkpoint_requests(), 1);
}
END_TEST

START_TEST(an_action_without_a_checkpoint_is_refused_and_may_come_again)
{
	struct buf large = {0};

	begin_cautious();
	announce("stir", "{}", 1);
	world_pass(&w, 59 * SECONDS);
	ck_assert_int_eq(verdict(1), -1);
	world_pass(&w, 2 * SECONDS);
	ck_assert_int_eq(verdict(1), 0);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	announce("stir", "{}", 2);
	ck_assert_int_eq(checkpoint_requests(), 2);
	say("{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}");
	ck_assert_int_eq(verdict(2), 0);
	announce("stir", "{}", 3);
	buf_add_text(&large, "{\"type\":\"checkpoint\",\"state\":{\"a\":\"");
	for (int i = 0; i < 2000; i++)
		buf_add_text(&large, "x");
	buf_add_text(&large, "\"}}");
	say(buf_text(&large));
	buf_fini(&large);
	ck_assert_int_eq(verdict(3), 0);
	announce("stir", "{}", 4);
	say(SAVED);
	ck_assert_int_eq(verdict(4), 1);
	ck_assert_int_eq(world_said(&w, "safety_violation"), 0);
}
END_TEST

START_TEST(actions_that_wait_are_bounded_and_end_with_their_worker)
{
	begin_cautious();
	for (int i = 0; i < 65; i++)
		announce("stir", "{}", i);
	ck_assert_int_eq(verdict(63), -1);
	ck_assert_int_eq(verdict(64), 0);
	world_abort(&w, world_id(&w, 2));
	world_run(&w);
	announce("close", "{}", 70); /* while it is ending */
	ck_assert_int_eq(verdict(70), 1);
	fake_worker_exit(p, 0);
	world_pass(&w, 120 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 2).state, "ABORTED");
}
END_TEST

/* A worker that waits for its verdict must not wait for ever. */
START_TEST(an_action_that_cannot_be_read_is_refused) /* proves L3-07 */
{
	static const char *const lines[] = {"{\"type\":\"action\",\"ref\":1}",
		"{\"type\":\"action\",\"name\":\"stir\",\"parameters\":[1],\"ref\":2}",
		"{\"type\":\"action\",\"name\":\"stir\",\"name\":\"vent\",\"ref\":3}",
		"{\"type\":\"action\",\"name\":\"\",\"ref\":4}",
		"{\"type\":\"action\",\"name\":\"stir\\u0000vent\",\"ref\":5}"};

	for (int i = 0; i < 5; i++) {
		say(lines[i]);
		ck_assert_msg(verdict(i + 1) == 0, "%s", lines[i]);
	}
	ck_assert(fake_worker_has_line(
		p, "\"ref\":1,\"allowed\":false,\"reason\":\"an action line needs name\"}"));
	say("{\"type\":\"action\",\"name\":7}");
	ck_assert(fake_worker_has_line(
		p, "{\"type\":\"action_verdict\",\"ref\":null,\"allowed\":false,\"reason\":\""));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(action_outside_is_refused_counted_and_the_session_goes_on) /* proves L3-07 */
{
	announce("heat", "{\"t\":81}", 1);
	ck_assert_int_eq(verdict(1), 0);
	ck_assert(fake_worker_has_line(p, "/t is 81 C, and the limit is at most 80 C"));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM events WHERE event_type = 'warning' AND "
				 "json_extract(body, '$.payload.data.code') = 'action_refused'",
				 NULL),
		1);
	ck_assert_str_eq(audited("refused", "code"), "action_refused");
	ck_assert_str_eq(audited("refused", "session"), world_id(&w, 1));
	ck_assert_str_eq(audited("refused", "why"), "heat: /t is 81 C, and the limit is at most 80 C");
	announce("heat", "{\"t\":79}", 2); /* it has learnt */
	ck_assert_int_eq(verdict(2), 1);
	announce("heat", "{\"t\":82}", 3); /* another one: refused, too */
	ck_assert_int_eq(verdict(3), 0);
	say("{\"type\":\"completed\",\"outputs\":{}}");
	leave();
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_str_eq(ended("task_completed", "execution_summary.risk_events[0]"),
		"action heat was refused: /t is 81 C, and the limit is at most 80 C");
	ck_assert_str_eq(ended("task_completed", "execution_summary.risk_events[1]"),
		"action heat was refused: /t is 82 C, and the limit is at most 80 C");
}
END_TEST

static const struct {
	const char *first, *name, *parameters, *says;
} violations[] = {
	{NULL, "heat", "{\"t\":96}", "hard limit"},
	{NULL, "vent", "{}", "prohibited"},
	{"{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"u\":1,\"t\":81}}", "heat",
		"{ \"t\": 81, \"u\": 1}", "again"},
};

START_TEST(a_violation_is_denied_and_ends_the_session) /* proves L3-07 */
{
	if (violations[_i].first != NULL)
		say(violations[_i].first);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	announce(violations[_i].name, violations[_i].parameters, 7);
	ck_assert_int_eq(verdict(7), 0);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"safety_violation\""));
	say("{\"type\":\"completed\",\"outputs\":{}}"); /* too late */
	announce("cool", "{\"t\":20}", 8);              /* but it may make things safe */
	ck_assert_int_eq(verdict(8), 1);
	announce("heat", "{\"t\":99}", 9);
	ck_assert_int_eq(verdict(9), 0);
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>FAILED:safety_violation");
	ck_assert_str_eq(ended("task_failed", "error_code"), "safety_violation");
	ck_assert_msg(strstr(ended("task_failed", "error_message"), violations[_i].says) != NULL, "%s",
		ended("task_failed", "error_message"));
	ck_assert_str_eq(ended("task_failed", "error_details.action"), violations[_i].name);
	ck_assert_msg(
		strstr(ended("task_failed", "execution_summary.risk_events"), violations[_i].says) != NULL,
		"%s", ended("task_failed", "execution_summary.risk_events"));
	ck_assert_str_eq(audited("ended", "code"), "safety_violation");
	ck_assert_str_eq(audited("ended", "session"), world_id(&w, 1));
	ck_assert_msg(
		strstr(audited("ended", "why"), violations[_i].says) != NULL, "%s", audited("ended", "why"));
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.outcome') = 'ended'",
			NULL),
		1);
}
END_TEST

START_TEST(worker_that_probes_for_the_limit_is_ended) /* proves L3-07 */
{
	char parameters[40];

	for (int i = 0; i < 64; i++) {
		snprintf(parameters, sizeof parameters, "{\"t\":%d.%03d}", 81, i);
		announce("heat", parameters, i);
		ck_assert_int_eq(verdict(i), 0);
	}
	ck_assert_str_eq(ended("task_failed", "error_code"), "");
	ck_assert_str_eq(audited("refused", "why"), "heat: /t is 81 C, and the limit is at most 80 C");
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'action'",
			NULL),
		1);
	announce("heat", "{\"t\":90}", 100);
	world_pass(&w, 61 * SECONDS);
	ck_assert_str_eq(audited("refused", "count"), "63"); /* a worker cannot fill the audit */
	ck_assert_str_eq(audited("refused", "session"), world_id(&w, 1));
	ck_assert_str_eq(
		audited("refused", "capability"), world_text(&w, "SELECT capability FROM sessions", NULL));
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'action'",
			NULL),
		3);
	ck_assert_str_eq(ended("task_failed", "error_code"), "safety_violation");
	ck_assert_int_eq(world_count(&w, "SELECT json_array_length(risk_events) FROM sessions", NULL), 50);
}
END_TEST

/* It starts from its checkpoint and knows nothing of what it was told; what happened is not forgotten. */
START_TEST(a_recovered_worker_may_ask_once_more_and_the_counts_go_on)
{
	announce("heat", "{\"t\":81}", 1);
	world_crash(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
	p = world_worker(&w, 1);
	announce("heat", "{\"t\":81}", 2);
	ck_assert_int_eq(verdict(2), 0);
	say("{\"type\":\"completed\",\"outputs\":{}}");
	leave();
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_str_ne(ended("task_completed", "execution_summary.risk_events[1]"), "");
}
END_TEST

START_TEST(a_text_worker_announces_nothing)
{
	p = world_start(&w, "m2", "plain");
	fake_worker_say(p, "{\"type\":\"action\",\"name\":\"vent\"}");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE session = 2 AND event_type = 'log'", NULL),
		1);
}
END_TEST

/* ---- outputs ---- */

static void submit_expecting(const char *expected)
{
	char more[512];

	snprintf(more, sizeof more, ",\"expected_output\":%s", expected);
	world_submit_as(&w, "alpha", NULL, "m2", "work", more);
	world_run(&w);
	p = world_worker(&w, 2);
}

START_TEST(outputs_without_what_was_promised_fail_and_are_partial) /* proves L4-02 */
{
	submit_expecting(
		"{\"required_fields\":[\"summary\",\"grade\"],\"schema\":{\"properties\":{\"grade\":{"
		"\"type\":\"integer\"}}}}");
	say("{\"type\":\"completed\",\"outputs\":{\"grade\":1.50}}");
	leave();
	ck_assert_str_eq(world_state(&w, 2), "FAILED");
	ck_assert_str_eq(ended("task_failed", "error_code"), "execution_error");
	ck_assert_msg(strstr(ended("task_failed", "error_message"), "/summary") != NULL, "%s",
		ended("task_failed", "error_message"));
	ck_assert_str_eq(ended("task_failed", "error_details.missing[0]"), "/summary");
	ck_assert_str_eq(ended("task_failed", "error_details.unfit_for"), "expected_output.required_fields");
	ck_assert_str_eq(ended("task_failed", "error_details.phase"), "completion");
	ck_assert(strstr(world_text(&w, "SELECT body FROM events WHERE type = ?", "task_failed"),
			  "\"partial_outputs\":{\"grade\":1.50}") != NULL);
}
END_TEST

static const struct {
	const char *expected, *outputs, *error; /* error NULL: it completes */
} promises[] = {
	{"{\"schema\":{\"required\":[\"a\"]}}", "{\"a\":1}", NULL},
	{"{\"schema\":{\"required\":[\"a\"]}}", "{}", "lack /a"},
	{"{\"schema\":{\"properties\":{\"n\":{\"items\":{\"type\":\"integer\"}}}}}", "{\"n\":[1,\"x\"]}",
		"/n/1"},
	{"{}", "{\"grade\":7}", "output_schema"},
	{"null", "{\"grade\":6}", NULL},
	{"{\"required_fields\":[\"a\"]}", "null", "lack /a"},
};
enum { PROMISES = sizeof promises / sizeof *promises };

START_TEST(each_promise_is_held_against_the_outputs) /* proves L4-02 */
{
	char line[200];

	submit_expecting(promises[_i].expected);
	snprintf(line, sizeof line, "{\"type\":\"completed\",\"outputs\":%s}", promises[_i].outputs);
	say(line);
	leave();
	ck_assert_str_eq(world_state(&w, 2), promises[_i].error != NULL ? "FAILED" : "COMPLETED");
	if (promises[_i].error != NULL)
		ck_assert_msg(strstr(ended("task_failed", "error_message"), promises[_i].error) != NULL, "%s",
			ended("task_failed", "error_message"));
}
END_TEST

START_TEST(a_broken_schema_is_rejected_at_once) /* proves L4-02 */
{
	size_t started = w.workers.count;

	submit_expecting("{\"schema\":{\"properties\":{\"a\":{\"type\":\"numbr\"}}}}");
	ck_assert_str_eq(ended("task_rejected", "reason_code"), "invalid_input");
	ck_assert_msg(strstr(ended("task_rejected", "reason_message"), "/properties/a/type") != NULL, "%s",
		ended("task_rejected", "reason_message"));
	ck_assert_uint_eq(w.workers.count, started);
}
END_TEST

START_TEST(plain_output_is_held_against_the_capabilitys_schema_too) /* proves L4-02 */
{
	p = world_start(&w, "m2", "plain");
	say(_i == 0 ? "ab" : "abcd");
	leave();
	ck_assert_str_eq(world_state(&w, 2), _i == 0 ? "COMPLETED" : "FAILED");
	if (_i == 1)
		ck_assert_str_eq(ended("task_failed", "partial_outputs.stdout"), "abcd\n");
}
END_TEST

/* ---- the sealed intent ---- */

START_TEST(seal_is_told_and_kept_with_session_and_checkpoints) /* proves CK-08 */
{
	const char *told = ended("task_accepted", "intent_checksum"),
		   *kept = world_text(&w, "SELECT seal FROM sessions", NULL);

	ck_assert(strncmp(told, "sha256:", 7) == 0);
	ck_assert_uint_eq(strlen(kept), 64);
	ck_assert_str_eq(told + 7, kept);
	say("{\"type\":\"checkpoint\",\"state\":{\"n\":1}}");
	ck_assert_str_eq(world_text(&w, "SELECT seal FROM checkpoints", NULL), kept);
}
END_TEST

static const char *const tamper[] = {
	"UPDATE tasks SET task = replace(task, 'do it', 'do more')",
	"UPDATE tasks SET task = replace(task, '\"constraints\":{}', "
	"'\"constraints\":{\"priority\":\"urgent\"}')",
	"UPDATE tasks SET task = replace(task, '\"expected_output\":{}', "
	"'\"expected_output\":{\"format\":\"x\"}')",
	"UPDATE sessions SET seal = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'",
	"UPDATE sessions SET seal = NULL",
};
enum { TAMPER = sizeof tamper / sizeof *tamper };

START_TEST(a_changed_intent_is_refused_at_recovery_and_nothing_starts) /* proves CK-08 */
{
	say("{\"type\":\"checkpoint\",\"state\":{\"n\":1}}");
	world_exec(&w, tamper[_i]);
	world_crash(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_str_eq(ended("task_failed", "error_code"), "internal_error");
	ck_assert_msg(strstr(ended("task_failed", "error_message"), "sealed intent") != NULL, "%s",
		ended("task_failed", "error_message"));
	ck_assert(strstr(world_path(&w, 1), "RUNNING>FAILED:intent_changed") != NULL);
}
END_TEST

START_TEST(a_changed_intent_is_refused_at_the_first_start_too) /* proves CK-08 */
{
	size_t started = w.workers.count;

	w.core.phase.is_draining = true;
	world_submit(&w, "m2", "work");
	world_run(&w);
	world_exec(&w, "UPDATE tasks SET task = replace(task, 'do it', 'do more') WHERE session = 2");
	w.core.phase.is_draining = false;
	world_submit(&w, "m3", "work"); /* a turn that looks for slots */
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, started + 1);
	ck_assert_str_eq(world_state(&w, 2), "FAILED");
	ck_assert_str_eq(world_state(&w, 3), "RUNNING");
}
END_TEST

START_TEST(a_checkpoint_of_another_intent_is_passed_over) /* proves CK-08 */
{
	say("{\"type\":\"checkpoint\",\"state\":{\"n\":1}}");
	say("{\"type\":\"checkpoint\",\"state\":{\"n\":2}}");
	world_exec(&w, "UPDATE checkpoints SET seal = 'another' WHERE id = 2");
	world_crash(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
	ck_assert(fake_worker_has_line(world_worker(&w, 1), "\"state\":{\"n\":1}"));
	ck_assert(strstr(world_text(&w, "SELECT body FROM events WHERE event_type = ?", "warning"),
			  "under another intent") != NULL);
}
END_TEST

/* An update finds sessions of the version before it: they go on. */
START_TEST(a_session_older_than_seals_goes_on)
{
	world_exec(&w,
		"UPDATE sessions SET seal = NULL, session_token = 'eyJ2IjoxfQ.AAAA'; UPDATE checkpoints SET "
		"seal = NULL");
	world_crash(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

/* ---- tokens ---- */

static const char *token_of(int key)
{
	char n[8];

	snprintf(n, sizeof n, "%d", key);
	return world_text(&w, "SELECT session_token FROM sessions WHERE id = ?", n);
}

static struct op_request *ask(enum op_verb verb, int key)
{
	struct op_request *a = fake_operators_ask(&operators, verb, key > 0 ? world_id(&w, key) : NULL);

	core_on_requests(&w.core);
	world_run(&w);
	return a;
}

START_TEST(anothers_a_changed_or_a_made_up_token_aborts_nothing) /* proves L3-08 */
{
	char token[TOKEN_SIZE];

	world_start(&w, "m2", "work");
	world_abort_as(&w, world_id(&w, 1), token_of(2), NULL);
	snprintf(token, sizeof token, "%s", token_of(1));
	token[40] = token[40] == 'A' ? 'B' : 'A';
	world_abort_as(&w, world_id(&w, 1), token, NULL);
	world_abort_as(&w, world_id(&w, 1), "x.y.z", NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_abort_as(&w, world_id(&w, 1), token_of(1), NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
}
END_TEST

START_TEST(the_owner_aborts_with_an_expired_token) /* proves L3-08 */
{
	w.core.phase.is_draining = true; /* it waits for longer than its token is good */
	world_submit(&w, "m2", "brief");
	world_run(&w);
	world_pass(&w, 3600 * SECONDS);
	ck_assert_int_eq(
		session_check_token(session_find(&w.core, world_id(&w, 2)), token_of(2), clock_wall_us()),
		TOKEN_EXPIRED);
	world_abort_as(&w, world_id(&w, 2), token_of(2), NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "ABORTED");
}
END_TEST

START_TEST(a_rotation_changes_the_key_and_no_session_notices) /* proves L3-08 */
{
	char kid[TOKEN_KID_SIZE];

	snprintf(kid, sizeof kid, "%s", w.core.keys.list[0].kid);
	ck_assert(strncmp(token_of(1), kid, 8) == 0);
	struct op_request *a = ask(OP_ROTATE_KEY, 0);
	ck_assert_msg(a->code == NULL, "%s", a->message);
	ck_assert_msg(strstr(buf_text(&a->done), "\"keys\":2") != NULL, "%s", buf_text(&a->done));
	world_start(&w, "m2", "work");
	ck_assert(strncmp(token_of(2), kid, 8) != 0);
	world_crash(&w); /* the keys are on disk */
	w.core.operator.queue = & operators;
	world_run(&w);
	world_abort_as(&w, world_id(&w, 1), token_of(1), NULL);
	world_abort_as(&w, world_id(&w, 2), token_of(2), NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
	ck_assert_str_eq(world_state(&w, 2), "ABORTING");
}
END_TEST

START_TEST(keys_can_be_changed_as_often_as_anybody_likes) /* proves L3-08 */
{
	for (int i = 0; i < 20; i++) {
		struct op_request *a = ask(OP_ROTATE_KEY, 0);

		ck_assert_msg(a->code == NULL, "%s", a->message);
	}
	world_abort_as(&w, world_id(&w, 1), token_of(1), NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
}
END_TEST

START_TEST(revoked_token_counts_no_more_and_the_broker_user_does) /* proves L3-08 */
{
	struct op_request *a = ask(OP_REVOKE_TOKEN, 1);

	ck_assert_msg(a->code == NULL, "%s", a->message);
	world_submit_as(&w, "beta", "beta-user", "m2", "work", "");
	world_run(&w);
	ck_assert(ask(OP_REVOKE_TOKEN, 2)->code == NULL);
	world_crash(&w); /* it is kept */
	w.core.operator.queue = & operators;
	world_run(&w);
	world_abort_as(&w, world_id(&w, 1), token_of(1), NULL);
	world_abort(&w, world_id(&w, 1)); /* alpha has no user: nobody can say that it is alpha */
	world_abort_as(&w, world_id(&w, 2), token_of(2), "another-user");
	world_abort_as(&w, world_id(&w, 2), token_of(2), NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	world_abort_as(&w, world_id(&w, 2), token_of(2), "beta-user");
	ask(OP_ABORT, 1);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
	ck_assert_str_eq(world_state(&w, 2), "ABORTING");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_rules");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_caller_and_the_worker_are_told_the_envelope);
	tcase_add_test(t, an_action_inside_is_allowed_and_costs_nothing);
	tcase_add_test(t, an_action_waits_for_a_checkpoint_where_it_must);
	tcase_add_test(t, an_action_right_after_a_checkpoint_is_allowed_at_once);
	tcase_add_test(t, an_action_without_a_checkpoint_is_refused_and_may_come_again);
	tcase_add_test(t, actions_that_wait_are_bounded_and_end_with_their_worker);
	tcase_add_test(t, an_action_that_cannot_be_read_is_refused);
	tcase_add_test(t, action_outside_is_refused_counted_and_the_session_goes_on);
	tcase_add_loop_test(t, a_violation_is_denied_and_ends_the_session, 0, 3);
	tcase_add_test(t, worker_that_probes_for_the_limit_is_ended);
	tcase_add_test(t, a_recovered_worker_may_ask_once_more_and_the_counts_go_on);
	tcase_add_test(t, a_text_worker_announces_nothing);
	tcase_add_test(t, outputs_without_what_was_promised_fail_and_are_partial);
	tcase_add_loop_test(t, each_promise_is_held_against_the_outputs, 0, PROMISES);
	tcase_add_test(t, a_broken_schema_is_rejected_at_once);
	tcase_add_loop_test(t, plain_output_is_held_against_the_capabilitys_schema_too, 0, 2);
	tcase_add_test(t, seal_is_told_and_kept_with_session_and_checkpoints);
	tcase_add_loop_test(t, a_changed_intent_is_refused_at_recovery_and_nothing_starts, 0, TAMPER);
	tcase_add_test(t, a_changed_intent_is_refused_at_the_first_start_too);
	tcase_add_test(t, a_checkpoint_of_another_intent_is_passed_over);
	tcase_add_test(t, a_session_older_than_seals_goes_on);
	tcase_add_test(t, anothers_a_changed_or_a_made_up_token_aborts_nothing);
	tcase_add_test(t, the_owner_aborts_with_an_expired_token);
	tcase_add_test(t, a_rotation_changes_the_key_and_no_session_notices);
	tcase_add_test(t, keys_can_be_changed_as_often_as_anybody_likes);
	tcase_add_test(t, revoked_token_counts_no_more_and_the_broker_user_does);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
