/* SPDX-License-Identifier: MIT */
/* test_streams.c: what a caller sees of a session, from the answer to session_closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/oracle.h"
#include "support/scene.h"

/* --- the whole --- */

START_TEST(
	the_stream_of_a_session_has_its_parts_in_their_order) /* proves L2-05, L1-01, L1-02, L1-04, L1-19 */
{
	static const char *const order[] = {"task_accepted", "session_created", "state_changed", "progress",
		"progress", "progress", "state_changed", "task_completed", "session_closed"};

	scene_begin();
	const char *id = peer_submit(p, "agent", J("{'do':[['progress',3],['complete',{'answer':42}]]}"));
	const char *s = peer_accepted(p, id);
	peer_completed(p, s);
	harness_pass(0.3); /* nothing may follow */
	must(p->note_count == 9, "%zu messages", p->note_count);
	for (size_t i = 0; i < 9; i++)
		must_str(p->notes[i]->event[0] ? p->notes[i]->event : p->notes[i]->kind, order[i]);
	must_str(note_text(p->notes[0], "payload.in_reply_to"), id);
	must_str(note_text(p->notes[0], "payload.risk_level"), "R2");
	must_str(note_text(p->notes[1], "payload.data.risk_level"), "R2");
	must_str(note_text(p->notes[2], "payload.data.from_state"), "PENDING");
	must_str(note_text(p->notes[2], "payload.data.to_state"), "RUNNING");
	must_str(note_text(p->notes[6], "payload.data.to_state"), "COMPLETED");
	must_str(note_text(p->notes[6], "payload.data.reason"), "completed");
	must(json_integer_value(note_at(p->notes[7], "payload.outputs.answer")) == 42, "%s",
		p->notes[7]->body);
	must(p->notes[8]->sequence == 7, "%s", p->notes[8]->body);
	scene_end();
}
END_TEST

START_TEST(the_answer_names_what_was_approved) /* proves L1-12, L1-19 */
{
	scene_begin();
	const char *id = peer_submit_more(p, "agent", J("{}"),
		J("{'constraints':{'max_duration':'PT2M30.5S','data_classification':'T1','priority':'high'}"
		  "}"));
	struct note *n = peer_reply(p, id);
	must_str(n->kind, "task_accepted");
	must_str(note_text(n, "payload.constraints.max_duration"), "PT2M30.5S");
	must_str(note_text(n, "payload.constraints.abort_timeout"), "PT2S");
	must_str(note_text(n, "payload.data_classification"), "T1");
	must(json_is_object(note_at(n, "payload.safety_envelope")), "%s", n->body);
	peer_completed(p, n->session);
	scene_end();
}
END_TEST

START_TEST(each_of_the_workers_events_arrives_with_its_fields) /* proves L2-06 */
{
	struct note *n;

	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':["
		  "['emit',{'type':'progress','stage':'one','percent':12.5,'message':'m'}],"
		  "['emit',{'type':'progress','stage':'two','message':'no percent'}],"
		  "['emit',{'type':'intermediate_result','result_type':'table','data':{'a':[1,null,'x']},'is_"
		  "partial':true}],"
		  "['emit',{'type':'log','level':'warn','message':'a log','details':{'k':1}}],"
		  "['emit',{'type':'warning','code':'careful','message':'w','details':{'k':2}}],"
		  "['emit',{'type':'error','code':'oops','message':'e','recoverable':true}],"
		  "['checkpoint',{'n':1},'described'],"
		  "['complete']]}"));
	peer_completed(p, s);
	n = peer_event(p, s, "progress");
	must_str(note_text(n, "payload.data.stage"), "one");
	must(json_number_value(note_at(n, "payload.data.percent")) == 12.5, "%s", n->body);
	n = peer_find_nth(p, s, "event", "progress", 2);
	must(n &&
			json_is_null(note_at(n, "payload.data.percent") ? note_at(n, "payload.data.percent") :
									  json_null()),
		"%s", n->body);
	n = peer_event(p, s, "intermediate_result");
	must_str(note_text(n, "payload.data.result_type"), "table");
	must(json_is_true(note_at(n, "payload.data.is_partial")), "%s", n->body);
	must(json_equal(note_at(n, "payload.data.data"), J("{'a':[1,null,'x']}")), "%s", n->body);
	n = peer_event(p, s, "log");
	must_str(note_text(n, "payload.data.level"), "warn");
	must(json_integer_value(note_at(n, "payload.data.details.k")) == 1, "%s", n->body);
	n = peer_event(p, s, "warning");
	must_str(note_text(n, "payload.data.code"), "careful");
	must(json_integer_value(note_at(n, "payload.data.details.k")) == 2, "%s", n->body);
	n = peer_event(p, s, "error");
	must_str(note_text(n, "payload.data.code"), "oops");
	must(json_is_true(note_at(n, "payload.data.recoverable")), "%s", n->body);
	n = peer_event(p, s, "checkpoint_created");
	must_str(note_text(n, "payload.data.description"), "described");
	must(json_is_true(note_at(n, "payload.data.resumable")), "%s", n->body);
	must(rig_sql(r, "SELECT count(*) FROM checkpoints WHERE checkpoint_id = '%s' AND session_id = '%s'",
		     note_text(n, "payload.data.checkpoint_id"), s) == 1,
		"the checkpoint is not in the store");
	scene_end();
}
END_TEST

START_TEST(a_task_reaches_its_worker_unchanged) /* proves L4-01 */
{
	static const char *const parts[] = {
		"capability", "intent", "inputs", "constraints", "expected_output", "context", "caller_id"};

	scene_begin();
	json_t *payload = peer_payload(p, "agent",
		J("{'do':[['dump']],'real':1.5,'whole':1.0,'big':9007199254740993,"
		  "'neg':-0.25,'nothing':null,'yes':true,'deep':{'a':[[[{}]]]},'text':'"
		  "\\u00fc\\u4e2d\\ud83d\\ude00 \\\\ / \\t','':'empty name'}"),
		J("{'intent':'a wish, with \\u20ac and \\n a new line','capability_version':'^1.0.0',"
		  "'constraints':{'max_duration':'PT10M','confidence_threshold':0.5,'priority':'low','own':{'"
		  "x':1}},"
		  "'expected_output':{'format':'json','required_fields':['env'],'more':1},"
		  "'context':{'purpose':'test','references':['a','b'],'notes':'n','anything':[1,2]},'"
		  "metadata':{'ticket':'T-1'}}"));
	json_t *copy = json_deep_copy(payload);
	const char *s = peer_accepted(p, peer_send(p, "task_submit", NULL, payload));
	struct note *n = peer_completed(p, s);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		json_t *got = json_object_get(note_at(n, "payload.outputs.start.task"), parts[i]);
		must(json_equal(got, json_object_get(copy, parts[i])), "%s: %s", parts[i],
			json_dumps(got, JSON_ENCODE_ANY));
	}
	must_str(note_text(n, "payload.outputs.start.type"), "start");
	must_str(note_text(n, "payload.outputs.start.session_id"), s);
	must_str(note_text(n, "payload.outputs.start.risk_level"), "R2");
	must(json_integer_value(note_at(n, "payload.outputs.start.protocol")) == 1, "protocol");
	must(json_integer_value(note_at(n, "payload.outputs.start.attempt")) == 1, "attempt");
	must(json_is_null(note_at(n, "payload.outputs.start.checkpoint")), "checkpoint");
	must(json_is_object(note_at(n, "payload.outputs.start.safety_envelope")), "safety_envelope");
	const char *deadline = note_text(n, "payload.outputs.start.deadline");
	must(deadline && deadline[strlen(deadline) - 1] == 'Z', "deadline");
	scene_end();
}
END_TEST

START_TEST(a_version_range_picks_as_npm_does) /* proves L4-01 */
{
	static const char *const good[] = {"1.2.3", "1.x", "1.2.*", "*", "^1.0.0", "~1.2", ">=1.0.0 <2.0.0",
		">1.2.2", "<=1.2.3", "0.9.0 || 1.2.x", "^1.2"};
	static const char *const bad[] = {
		"2.x", ">1.2.3", "~1.1", "^0.2.3", "1.2.4", "<1.2.3", ">=2.0.0 || <1.0.0"};
	const char *ids[20];

	scene_begin();
	size_t n = 0;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		ids[n++] = peer_submit_more(p, "agent", J("{}"), J("{'capability_version':'%s'}", good[i]));
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		must_str(peer_reply(p, ids[i])->kind, "task_accepted");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		peer_rejected(p,
			peer_submit_more(p, "agent", J("{}"), J("{'capability_version':'%s'}", bad[i])),
			"unknown_capability");
	peer_rejected(p, peer_submit_more(p, "agent", J("{}"), J("{'capability_version':'one.two'}")),
		"invalid_input");
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		peer_completed(p, peer_accepted(p, ids[i]));
	scene_end();
}
END_TEST

/* --- results --- */

START_TEST(a_completed_task_brings_outputs_artifacts_and_a_summary) /* proves L4-03 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'step','name':'first'}],['emit',{'type':'step','name':'second'}],"
		  "['checkpoint',{'n':1}],['emit',{'type':'warning','code':'careful','message':'thin ice'}],"
		  "['complete',{'a':{'b':[1]}}]]}"));
	struct note *n = peer_completed(p, s);
	must(json_equal(note_at(n, "payload.outputs"), J("{'a':{'b':[1]}}")), "%s", n->body);
	must(json_is_array(note_at(n, "payload.artifacts")), "%s", n->body);
	must(json_integer_value(note_at(n, "payload.execution_summary.steps_executed")) == 2, "%s", n->body);
	must(json_integer_value(note_at(n, "payload.execution_summary.checkpoints_created")) == 1, "%s",
		n->body);
	must(json_is_array(note_at(n, "payload.execution_summary.risk_events")), "%s", n->body);
	must(json_array_size(note_at(n, "payload.execution_summary.warnings")) == 1, "%s", n->body);
	const char *duration = note_text(n, "payload.execution_summary.duration");
	must(duration && strncmp(duration, "PT", 2) == 0 && duration[strlen(duration) - 1] == 'S', "%s",
		n->body);
	scene_end();
}
END_TEST

START_TEST(an_artifact_never_travels_inline) /* proves L1-13 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['write','report.txt','the content of '],['write','report.txt','the artifact'],"
		  "['emit',{'type':'artifact','name':'report','path':'report.txt','mime':'text/"
		  "plain'}],['complete']]}"));
	struct note *n = peer_completed(p, s);
	json_t *list = note_at(n, "payload.artifacts");
	char uri[120];
	snprintf(uri, sizeof uri, "hcp://%s/artifacts/report", s);
	for (size_t i = 0; i < json_array_size(list); i++) /* where they are collected, by URI */
		must_str(json_text_at(json_array_get(list, i), "uri"), uri);
	for (size_t i = 0; i < p->note_count; i++)
		must(!strstr(p->notes[i]->body, "the content of"), "inline: %s", p->notes[i]->body);
	must(json_array_size(list) || peer_find(p, s, "event", "warning"),
		"neither an artifact nor a word about it");
	scene_end();
}
END_TEST

START_TEST(a_failed_task_says_where_and_what_is_left) /* proves L4-04 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'step','name':'mixing'}],['checkpoint',{'n':1}],"
		  "['failing',{'error_code':'input_error','error_message':'no "
		  "salt','error_details':{'own':'detail'},"
		  "'partial_outputs':{'half':1}}]]}"));
	struct note *n = peer_failed(p, s, "worker_failed", "input_error");
	must_str(note_text(n, "payload.error_message"), "no salt");
	must_str(note_text(n, "payload.error_details.own"), "detail");
	must_str(note_text(n, "payload.error_details.step"), "mixing");
	must(json_object_get(note_at(n, "payload.error_details"), "phase"), "%s", n->body);
	must(json_object_get(note_at(n, "payload.error_details"), "recoverable"), "%s", n->body);
	must_str(note_text(n, "payload.error_details.last_checkpoint"),
		note_text(peer_event(p, s, "checkpoint_created"), "payload.data.checkpoint_id"));
	must(json_equal(note_at(n, "payload.partial_outputs"), J("{'half':1}")), "%s", n->body);
	must(json_is_object(note_at(n, "payload.execution_summary")), "%s", n->body);
	must_str(note_text(peer_state(p, s, "FAILED"), "payload.data.reason"), "worker_failed");
	scene_end();
}
END_TEST

START_TEST(worker_that_just_ends_fails_with_its_status_and_last_words) /* proves L4-04 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['stderr','the last words'],['exit',7]]}"));
	struct note *n = peer_failed(p, s, "worker_failed", "execution_error");
	must(strstr(n->body, "7"), "no exit status: %s", n->body);
	must(strstr(n->body, "the last words"), "no stderr: %s", n->body);
	must(strstr(note_text(peer_event(p, s, "log"), "payload.data.message"), "the last words"),
		"stderr lines are log events");

	s = peer_run(p, "agent", J("{'do':[['kill',9]]}"));
	n = peer_failed(p, s, "worker_failed", "execution_error");
	must(strstr(n->body, "SIGKILL") || strstr(n->body, "signal 9") || strstr(n->body, "Killed"),
		"no signal: %s", n->body);

	s = peer_run(p, "agent", J("{'do':[['exit',0]]}"));
	peer_failed(p, s, "worker_failed", "execution_error");
	scene_end();
}
END_TEST

START_TEST(an_error_code_that_there_is_not_becomes_one_that_there_is)
{
	scene_begin();
	const char *s =
		peer_run(p, "agent", J("{'do':[['failing',{'error_code':'weird','error_message':'m'}]]}"));
	peer_failed(p, s, "worker_failed", "execution_error");
	scene_end();
}
END_TEST

START_TEST(a_confidence_below_the_threshold_gives_a_warning)
{
	scene_begin();
	const char *s = peer_run_more(p, "agent", J("{'do':[['complete',{'confidence':0.4}]]}"),
		J("{'constraints':{'confidence_threshold':0.8}}"));
	peer_completed(p, s);
	must(peer_find(p, s, "event", "warning"), "no warning");
	s = peer_run_more(p, "agent", J("{'do':[['complete',{'confidence':0.9}]]}"),
		J("{'constraints':{'confidence_threshold':0.8}}"));
	peer_completed(p, s);
	must(!peer_find(p, s, "event", "warning"), "a warning for nothing");
	scene_end();
}
END_TEST

/* --- text protocol --- */

START_TEST(any_program_is_a_worker_under_protocol_text)
{
	r = rig_new();
	rig_text(r, "hello", "echo one; echo two >&2; cat; printf three");
	rig_text(r, "broken", "echo before; echo why >&2; exit 5");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "hello", NULL);
	struct note *n = peer_completed(p, s);
	must_str(note_text(n, "payload.outputs.stdout"), "one\nthree");
	must(peer_find_text(p, s, "log", "payload.data.message", "one"), "stdout lines are log events");
	must(peer_find_text(p, s, "log", "payload.data.message", "two"), "stderr lines too");
	must(peer_find_text(p, s, "log", "payload.data.message", "three"),
		"a last line without its newline counts");
	s = peer_run(p, "broken", NULL);
	n = peer_failed(p, s, "worker_failed", "execution_error");
	must(strstr(n->body, "why") && strstr(n->body, "5"), "%s", n->body);
	scene_end();
}
END_TEST

START_TEST(output_of_a_text_worker_is_bounded)
{
	r = rig_new();
	rig_text(r, "flood",
		"i=0; while [ $i -lt 3000 ]; do echo line $i "
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxx;"
		" i=$((i+1)); done");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "flood", NULL);
	struct note *n = peer_completed(p, s);
	must(n->size < 1048576, "%zu bytes", n->size);
	must(peer_count(p, s, "event", "log") == 3000, "%d lines", peer_count(p, s, "event", "log"));
	scene_end();
}
END_TEST

/* --- many, and late --- */

START_TEST(many_sessions_interleave_and_each_keeps_its_own_order)
{
	const char *ids[30];

	scene_begin();
	for (int i = 0; i < 30; i++)
		ids[i] = peer_submit(p, "agent",
			J("{'do':[['progress',20],['sleep',0.05],['progress',20],['complete',{'i':%d}]]}",
				i));
	for (int i = 0; i < 30; i++) {
		struct note *n = peer_completed(p, peer_accepted(p, ids[i]));
		must(json_integer_value(note_at(n, "payload.outputs.i")) == i, "%s", n->body);
		must(peer_count(p, n->session, "event", "progress") == 40, "%s", n->session);
	}
	scene_end();
}
END_TEST

START_TEST(nothing_new_comes_after_session_closed) /* proves L2-15 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'on':{'eof':'ignore'},'do':[['complete',{'first':1}],['complete',{'second':2}],"
		  "['progress',5],['failing',{}],['sleep',0.3],['progress',5],['exit',1]]}"));
	struct note *n = peer_completed(p, s);
	must(json_object_get(note_at(n, "payload.outputs"), "first"), "the first word counts: %s", n->body);
	harness_pass(0.6);
	must(peer_count(p, s, "event", "session_closed") == 1, "closed twice");
	must_str(p->notes[p->note_count - 1]->event, "session_closed");
	scene_end();
}
END_TEST

START_TEST(a_session_and_its_transitions_are_rows) /* proves L2-01, L2-03 */
{
	scene_begin();
	const char *s =
		peer_run_more(p, "agent", J("{'do':[['complete']]}"), J("{'metadata':{'ticket':'T-77'}}"));
	peer_completed(p, s);
	must(rig_sql(r,
		     "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'COMPLETED' AND "
		     "created_at IS NOT NULL"
		     " AND updated_at IS NOT NULL AND risk_level = 'R2' AND session_token <> '' AND attempt "
		     ">= 1 AND caller_id = '%s' AND capability = 'agent'"
		     " AND state_version IS NOT NULL AND metadata LIKE '%%T-77%%'",
		     s, p->id) == 1,
		"the row");
	must(rig_sql(r, "SELECT count(*) FROM transitions WHERE session_id = '%s'", s) == 2,
		"two transitions");
	must(rig_sql(r,
		     "SELECT count(*) FROM transitions a JOIN transitions b USING (session_id) WHERE "
		     "session_id = '%s' AND"
		     " a.from_state = 'PENDING' AND a.to_state = 'RUNNING' AND b.from_state = 'RUNNING' AND "
		     "b.to_state = 'COMPLETED' AND"
		     " b.state_version = a.state_version + 1 AND b.reason = 'completed' AND a.actor <> '' "
		     "AND b.actor <> ''",
		     s) == 1,
		"their content");
	must(rig_sql(r,
		     "SELECT s.state_version = max(t.state_version) FROM sessions s JOIN transitions t USING "
		     "(session_id)"
		     " WHERE session_id = '%s'",
		     s) == 1,
		"the session's version is the last transition's");
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("streams");

	suite_test(s, the_stream_of_a_session_has_its_parts_in_their_order, 40);
	suite_test(s, the_answer_names_what_was_approved, 40);
	suite_test(s, each_of_the_workers_events_arrives_with_its_fields, 40);
	suite_test(s, a_task_reaches_its_worker_unchanged, 40);
	suite_test(s, a_version_range_picks_as_npm_does, 40);
	suite_test(s, a_completed_task_brings_outputs_artifacts_and_a_summary, 40);
	suite_test(s, an_artifact_never_travels_inline, 40);
	suite_test(s, a_failed_task_says_where_and_what_is_left, 40);
	suite_test(s, worker_that_just_ends_fails_with_its_status_and_last_words, 40);
	suite_test(s, an_error_code_that_there_is_not_becomes_one_that_there_is, 40);
	suite_test(s, a_confidence_below_the_threshold_gives_a_warning, 40);
	suite_test(s, any_program_is_a_worker_under_protocol_text, 40);
	suite_test(s, output_of_a_text_worker_is_bounded, 40);
	suite_test(s, many_sessions_interleave_and_each_keeps_its_own_order, 40);
	suite_test(s, nothing_new_comes_after_session_closed, 40);
	suite_test(s, a_session_and_its_transitions_are_rows, 40);
	return harness_run(s, false);
}
