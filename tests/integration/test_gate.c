/* SPDX-License-Identifier: MIT */
/* test_gate.c: the gate seen from outside: what callers hear about inputs, risk, envelope and rate, and what
 * a reload of a broken declaration does not do. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/scene.h"

/* A furnace: contracts, rules and an envelope over the agent. */
static void furnace(void)
{
	rig_capability(r, "furnace", AGENT,
		J("{'input_schema':{'type':'object','properties':{'temperature_c':{'type':'number'},'do':{'"
		  "type':'array'},"
		  "'load':{'type':'object','properties':{'grams':{'type':'integer','minimum':1}}}},'required'"
		  ":['temperature_c']},"
		  "'safety':{'risk_floor':'R1','risk_ceiling':'R4','rules':["
		  "{'when':{'pointer':'/temperature_c','op':'>','value':80},'level':'R3','reason':'hot'},"
		  "{'when':{'pointer':'/temperature_c','op':'>','value':150},'level':'R4','reason':'very "
		  "hot'}],"
		  "'envelope':{'parameters':{'temperature_c':{'max':200,'unit':'C','hard_limit':250}},"
		  "'prohibited_actions':['vent']}}}"));
}

static void begin_furnace(void)
{
	r = rig_new();
	furnace();
	rig_start(r);
	p = peer_new(r);
}

static struct note *refused(json_t *inputs, const char *code, const char *says)
{
	struct note *n = peer_rejected(p, peer_submit(p, "furnace", inputs), code);

	must(strstr(note_text(n, "payload.reason_message"), says) != NULL, "%s", n->body);
	return n;
}

static void ran_at(json_t *inputs, const char *risk)
{
	const char *s = peer_run(p, "furnace", inputs);

	must_str(note_text(peer_find(p, s, "task_accepted", NULL), "payload.risk_level"), risk);
	must_str(note_text(peer_event(p, s, "session_created"), "payload.data.risk_level"), risk);
	peer_completed(p, s);
}

START_TEST(inputs_that_do_not_fit_are_rejected_with_pointer_and_name) /* proves L3-02 */
{
	begin_furnace();
	struct note *n = refused(J("{'temperature_c':'hot'}"), "invalid_input",
		"\"/temperature_c\", property \"temperature_c\"");
	must(note_at(n, "payload.assessed_risk_level") == NULL, "%s", n->body);
	refused(J("{}"), "invalid_input", "property \"temperature_c\"");
	refused(J("{'temperature_c':20,'load':{'grams':0}}"), "invalid_input",
		"\"/load/grams\", property \"grams\"");
	ran_at(J("{'temperature_c':20,'load':{'grams':1}}"), "R1");
	scene_end();
}
END_TEST

/* proves L3-03, L3-04 */
START_TEST(inputs_that_raise_the_risk_are_explained_to_the_caller)
{
	begin_furnace();
	ran_at(J("{'temperature_c':80}"), "R1");
	ran_at(J("{'temperature_c':80.5}"), "R3");
	must(rig_log_has(r, "risk was raised"), "the log says why");
	rig_set(r, "caller *", "max_risk", "R3");
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	const char *id = NULL;
	wait_until((id = peer_submit(p, "furnace", J("{'temperature_c':151}"))) &&
			strcmp(peer_reply(p, id)->kind, "task_rejected") == 0,
		WAIT_S, "the caller's limit");
	struct note *n = peer_rejected(p, id, "risk_too_high");
	must_str(note_text(n, "payload.assessed_risk_level"), "R4");
	must(strstr(note_text(n, "payload.reason_message"), "very hot (R4); hot (R3)") != NULL, "%s",
		n->body);
	must_str(note_text(n, "payload.suggestion"), "with /temperature_c at most 150 the risk would be R3");
	ran_at(J("{'temperature_c':150}"), "R3"); /* as suggested */
	for (size_t i = 0; i < p->note_count; i++)
		if (strcmp(p->notes[i]->kind, "task_accepted") == 0)
			peer_wait(p, p->notes[i]->session, "event", "session_closed");
	scene_end();
}
END_TEST

START_TEST(a_task_outside_the_envelope_is_rejected) /* proves L3-07 */
{
	begin_furnace();
	struct note *n = refused(J("{'temperature_c':201}"), "policy_denied", "/temperature_c is 201 C");
	must_str(note_text(n, "payload.suggestion"), "keep /temperature_c at most 200 C");
	refused(J("{'temperature_c':251}"), "policy_denied", "hard limit");
	refused(J("{'temperature_c':20,'action':'vent'}"), "policy_denied", "vent is prohibited");
	ran_at(J("{'temperature_c':200}"), "R4");
	scene_end();
}
END_TEST

START_TEST(data_of_class_t3_is_refused_without_tls_and_t2_is_logged) /* proves L3-06 */
{
	scene_begin_with("store", "encrypted", "yes");
	struct note *n = peer_rejected(p,
		peer_submit_more(p, "agent", NULL, J("{'constraints':{'data_classification':'T3'}}")),
		"policy_denied");
	must(strstr(note_text(n, "payload.reason_message"), "TLS") != NULL, "%s", n->body);
	must(!rig_log_has(r, "access to data"), "nobody had any yet");
	peer_completed(p, peer_run(p, "agent", NULL));
	must(!rig_log_has(r, "access to data"), "T1 is public");
	peer_completed(p, peer_run_more(p, "agent", NULL, J("{'constraints':{'data_classification':'T2'}}")));
	must(rig_log_count(r, "access to data: class=T2") == 2 && rig_log_has(r, "by=worker attempt=1"),
		"the task is logged, and that a worker got it");
	scene_end();
}
END_TEST

/* What a caller would do: read the hint, wait that long, try again. */
static double hinted_s(struct note *n)
{
	double s = -1;

	must(sscanf(note_text(n, "payload.suggestion"), "submit it again in %lf s", &s) == 1 && s > 0, "%s",
		n->body);
	return s;
}

START_TEST(caller_over_its_rate_is_told_when_to_return_and_then_let_in) /* proves SA-06 */
{
	r = rig_new();
	rig_set(r, "caller *", "rate_limit", "30/min");
	rig_set(r, "caller *", "rate_burst", "3");
	rig_set(r, "caller other", "capabilities", "*");
	rig_start(r);
	p = peer_new(r);
	struct peer *q = peer_named(r, "other");
	struct note *n = NULL;
	int accepted = 0;

	for (int i = 0; i < 10 && n == NULL; i++) {
		struct note *answer = peer_reply(p, peer_submit(p, "agent", NULL));

		if (strcmp(answer->kind, "task_accepted") == 0)
			accepted++;
		else
			n = answer;
	}
	/* one every two seconds comes back */
	must(n != NULL && accepted >= 3 && accepted <= 5, "%d were let in", accepted);
	must_str(note_text(n, "payload.reason_code"), "rate_limited");
	double came = harness_now(), wait = hinted_s(n);
	must(wait <= 2.001, "%f", wait);
	peer_completed(q, peer_run(q, "agent", NULL)); /* another caller is not held up */
	wait_until(harness_now() >= came + wait, WAIT_S, "the hinted time");
	peer_completed(p, peer_run(p, "agent", NULL));
	for (size_t i = 0; i < p->note_count; i++)
		if (strcmp(p->notes[i]->kind, "task_accepted") == 0)
			peer_wait(p, p->notes[i]->session, "event", "session_closed");
	peer_finish(q);
	scene_end();
}
END_TEST

START_TEST(declaration_that_is_broken_leaves_the_old_set_in_force) /* proves L3-01 */
{
	begin_furnace();
	ran_at(J("{'temperature_c':151}"), "R4");
	/* One file is broken in its rules; another, and the caller's limit, are fine and new: none of it
	 * may count. */
	rig_capability(r, "second", AGENT, NULL);
	rig_capability(r, "furnace", AGENT,
		J("{'safety':{'risk_floor':'R1','rules':[{'when':{'pointer':'/"
		  "temperature_c','op':'>','value':'80'},'level':'R2',"
		  "'reason':'hot'}]}}"));
	rig_set(r, "caller *", "max_risk", "R1");
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(
		rig_log_has(r, "furnace.json: /capability/safety/rules/0/when/value: does not go with \">\""),
		WAIT_S, "file, pointer and reason");
	peer_rejected(p, peer_submit(p, "second", NULL), "unknown_capability");
	ran_at(J("{'temperature_c':151}"), "R4");
	refused(J("{'temperature_c':'x'}"), "invalid_input", "/temperature_c");
	/* Mended, all of it counts. */
	rig_set(r, "caller *", "max_risk", "R5");
	furnace();
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	const char *id = NULL;
	wait_until((id = peer_submit(p, "second", NULL)) &&
			strcmp(peer_reply(p, id)->kind, "task_accepted") == 0,
		WAIT_S, "the new set");
	peer_completed(p, peer_accepted(p, id));
	scene_end();
}
END_TEST

START_TEST(a_broken_schema_stops_the_start) /* proves L3-01 */
{
	r = rig_new();
	rig_capability(r, "furnace", AGENT, J("{'input_schema':{'properties':{'a':{'type':'numbr'}}}}"));
	rig_write_ini(r);
	must(rig_run(r, (const char *const[]){"-t", "-c", r->ini, NULL}) != 0, "it is refused");
	must(rig_log_has(r, "furnace.json: /capability/input_schema/properties/a/type: "),
		"with file, pointer and reason");
	rig_finish(r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gate");

	suite_test(s, inputs_that_do_not_fit_are_rejected_with_pointer_and_name, 40);
	suite_test(s, inputs_that_raise_the_risk_are_explained_to_the_caller, 40);
	suite_test(s, a_task_outside_the_envelope_is_rejected, 40);
	suite_test(s, data_of_class_t3_is_refused_without_tls_and_t2_is_logged, 40);
	suite_test(s, caller_over_its_rate_is_told_when_to_return_and_then_let_in, 60);
	suite_test(s, declaration_that_is_broken_leaves_the_old_set_in_force, 40);
	suite_test(s, a_broken_schema_stops_the_start, 40);
	return harness_run(s, false);
}
