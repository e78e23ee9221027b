/* SPDX-License-Identifier: MIT */
/* test_bad_workers.c: programs that do not behave, and the daemon that lives with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/peer.h"
#include "support/rig.h"

static struct rig *r;
static struct peer *p;

static void begin(void)
{
	r = rig_new();
	rig_set(r, "session", "exit_grace", "1s");
	rig_start(r);
	p = peer_new(r);
}

static void end(void)
{
	peer_completed(p, peer_run(p, "agent", J("{'do':[['progress',1],['complete']]}"))); /* it lives */
	peer_finish(p);
	rig_finish(r);
}

START_TEST(line_that_is_not_valid_costs_a_warning_and_not_the_session)
{
	begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['raw','this is no JSON'],['raw','[1,2]'],['raw','\\\\{'],['raw',''],"
		  "['raw','{\\\"type\\\":\\\"dance\\\"}'],['raw','{\\\"type\\\":7}'],['raw','{\\\"notype\\\":"
		  "1}'],"
		  "['raw','{\\\"type\\\":\\\"progress\\\",\\\"percent\\\":\\\"much\\\"}'],['hex','ff00fe7b'],"
		  "['hex','00'],"
		  "['raw','{\\\"type\\\":\\\"completed\\\",\\\"outputs\\\":[1]}'],"
		  "['progress',2],['complete',{'fine':true}]]}"));
	struct note *n = peer_completed(p, s);
	must(json_is_true(note_at(n, "payload.outputs.fine")), "%s", n->body);
	must(peer_count(p, s, "event", "progress") == 2, "the good lines are kept");
	must(peer_find(p, s, "event", "warning"), "no warning");
	must(peer_find(p, s, "event", "warning")->sequence > 2, "a warning before RUNNING");
	end();
}
END_TEST

/* jansson steps over a NUL behind a number. It must reach neither a message nor a checkpoint. */
START_TEST(a_raw_nul_in_a_line_is_published_and_stored_nowhere) /* proves L2-06 */
{
	static const char progress[] = "{\"type\":\"progress\",\"percent\":7\0}",
			  checkpoint[] = "{\"type\":\"checkpoint\",\"state\":{\"n\":1\0}}";
	char hex[2][200];

	begin();
	for (size_t i = 0; i < sizeof progress - 1; i++)
		snprintf(hex[0] + 2 * i, 3, "%02x", (unsigned char)progress[i]);
	for (size_t i = 0; i < sizeof checkpoint - 1; i++)
		snprintf(hex[1] + 2 * i, 3, "%02x", (unsigned char)checkpoint[i]);
	const char *s = peer_run(p, "agent",
		J("{'do':[['hex','%s'],['hex','%s'],['complete',{'fine':true}]]}", hex[0], hex[1]));
	peer_completed(p, s);
	must(peer_count(p, s, "event", "progress") == 0, "the line became an event");
	must(peer_count(p, s, "event", "checkpoint_created") == 0, "the line became a checkpoint");
	must(rig_sql(r, "SELECT count(*) FROM checkpoints") == 0, "it was stored");
	must(peer_find(p, s, "event", "warning"), "no warning");
	end();
}
END_TEST

START_TEST(thousands_of_lines_of_garbage_give_few_warnings)
{
	begin();
	json_t *inputs = J("{'do':[['long',20]]}");
	json_t *list = json_object_get(inputs, "do");
	for (int i = 1; i < 2000; i++)
		json_array_append_new(list, J("['raw','garbage number %d']", i));
	json_array_append_new(list, J("['complete']"));
	const char *s = peer_run(p, "agent", inputs);
	peer_completed(p, s);
	int warnings = peer_count(p, s, "event", "warning");
	must(warnings >= 1 && warnings <= 100, "%d warnings for 2000 bad lines", warnings);
	end();
}
END_TEST

START_TEST(a_worker_cannot_speak_for_the_protocol)
{
	static const char *const types[] = {"state_changed", "session_closed", "session_created",
		"checkpoint_created", "task_completed", "task_failed", "task_accepted", "event"};

	begin();
	json_t *inputs = J("{'do':[]}");
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		json_array_append_new(json_object_get(inputs, "do"),
			J("['emit',{'type':'%s','from_state':'RUNNING','to_state':'FAILED',"
			  "'final_state':'FAILED','reason':'forged','event_type':'session_closed','sequence':"
			  "3,'data':{}}]",
				types[i]));
	json_array_append_new(json_object_get(inputs, "do"), J("['complete']"));
	const char *s = peer_run(p, "agent", inputs);
	peer_completed(p, s);
	must(peer_count(p, s, "event", "state_changed") == 2 &&
			peer_count(p, s, "event", "session_closed") == 1 &&
			peer_count(p, s, "event", "session_created") == 1 &&
			peer_count(p, s, "event", "checkpoint_created") == 0,
		"forged");
	for (size_t i = 0; i < p->note_count; i++) {
		const char *reason = note_text(p->notes[i], "payload.data.reason");
		must(!reason || strcmp(reason, "forged") != 0, "forged: %s", p->notes[i]->body);
	}
	end();
}
END_TEST

START_TEST(a_worker_cannot_put_fields_of_its_own_into_an_event)
{
	begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'progress','stage':'s','message':'m','sequence':99,"
		  "'event_type':'session_closed','session_id':'x'}],['complete']]}"));
	peer_completed(p, s);
	must(peer_event(p, s, "progress")->sequence == 3, "%s", peer_event(p, s, "progress")->body);
	end();
}
END_TEST

START_TEST(a_line_over_its_limit_is_dropped_with_a_warning)
{
	begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['long',3000000],['progress',1],['long',5000000],['long',4194304],"
		  "['progress',1],['progress',1,1500000],['complete',{'ok':1}]]}"));
	peer_completed(p, s);
	must(peer_count(p, s, "event", "progress") == 2,
		"%d: what is over the message limit never enters the outbox",
		peer_count(p, s, "event", "progress"));
	must(peer_find(p, s, "event", "warning"), "no warning");
	end();
}
END_TEST

START_TEST(outputs_over_the_message_limit_end_failed_and_say_so)
{
	char command[700];

	r = rig_new();
	snprintf(command, sizeof command, "/bin/sh %s", rig_path(r, "bigout.sh"));
	file_write(rig_path(r, "bigout.sh"),
		"read line; printf '{\"type\":\"completed\",\"outputs\":{\"a\":\"'; "
		"head -c 1300000 /dev/zero | tr '\\0' y; printf '\"}}\\n'; cat >/dev/null");
	rig_capability(r, "bigout", command, NULL);
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "bigout", NULL);
	struct note *n = peer_failed(p, s, NULL, "execution_error");
	must(strstr(note_text(n, "payload.error_message"), "large") ||
			strstr(note_text(n, "payload.error_message"), "limit") ||
			strstr(note_text(n, "payload.error_message"), "big"),
		"%s", n->body);
	end();
}
END_TEST

START_TEST(a_command_that_is_not_there_fails_its_session_with_its_name) /* proves L2-02 */
{
	r = rig_new();
	rig_capability(r, "absent", "/no/such/program", NULL);
	file_write(rig_path(r, "plain.txt"), "no program");
	chmod(rig_path(r, "plain.txt"), 0644);
	rig_capability(r, "plain", rig_path(r, "plain.txt"), NULL);
	rig_start(r);
	p = peer_new(r);
	static const char *const names[] = {"absent", "plain"};
	for (int i = 0; i < 2; i++) {
		const char *s = peer_run(p, names[i], NULL);
		peer_closed(p, s, "FAILED", NULL);
		struct note *n = peer_wait(p, s, "task_failed", NULL);
		const char *why = note_text(n, "payload.error_message");
		must(why && strstr(why, i ? "plain.txt" : "/no/such/program"), "%s", n->body);
		must_str(note_text(peer_state(p, s, "RUNNING"), "payload.data.from_state"), "PENDING");
	}
	end();
}
END_TEST

START_TEST(a_worker_that_closes_stdout_early_has_failed)
{
	begin();
	const char *s = peer_run(p, "agent",
		J("{'on':{'eof':'ignore'},'do':[['progress',1],['close_stdout'],['stderr','on and on'],"
		  "['hold','%s'],['exit',0]]}",
			rig_path(r, "go")));
	wait_until(peer_find_text(p, s, "log", "payload.data.message", "on and on"), WAIT_S,
		"stderr is still read");
	peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	rig_touch(r, "go");
	peer_failed(p, s, "worker_failed", "execution_error");
	end();
}
END_TEST

START_TEST(a_worker_that_never_reads_stdin_stops_nobody)
{
	char *big = malloc(900001), script[700];

	r = rig_new();
	file_write(rig_path(r, "deaf.sh"),
		"echo '{\"type\":\"progress\",\"stage\":\"s\",\"message\":\"deaf\"}'; while [ ! -e $GO ]; do "
		"sleep 0.05; done;"
		" echo '{\"type\":\"completed\",\"outputs\":{}}'");
	snprintf(script, sizeof script, "/bin/sh %s", rig_path(r, "deaf.sh"));
	rig_capability(r, "deaf", script, NULL);
	rig_set(r, "capability deaf", "env", "RIG_MARK=%s GO=%s", r->dir, rig_path(r, "go"));
	rig_start(r);
	p = peer_new(r);
	memset(big, 'z', 900000);
	big[900000] = 0;
	const char *deaf =
		peer_run(p, "deaf", json_pack("{s:s}", "big", big)); /* far more than a pipe holds */
	free(big);
	peer_event(p, deaf, "progress");
	peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	rig_touch(r, "go");
	peer_completed(p, deaf);
	end();
}
END_TEST

START_TEST(grandchild_that_keeps_the_pipe_open_does_not_delay_the_end)
{
	r = rig_new();
	rig_set(r, "session", "exit_grace", "500ms");
	rig_text(r, "parent", "setsid sh -c \"trap '' TERM HUP; while :; do sleep 1; done\" & echo done");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "parent", NULL);
	double t = harness_now();
	struct note *n = peer_completed(p, s);
	must(strncmp(note_text(n, "payload.outputs.stdout"), "done", 4) == 0, "%s", n->body);
	must(rig_processes(r, NULL, 0) == 0, "the grandchild survived its session");
	must(harness_now() - t < 0.5 + 2 + 3 * harness_scale(), "%.1f s", harness_now() - t);
	end();
}
END_TEST

START_TEST(a_last_line_without_a_newline_counts)
{
	begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['part','{\\\"type\\\":\\\"completed\\\",\\\"outputs\\\":{\\\"n\\\":1}}'],['exit',"
		  "0]]}"));
	peer_completed(p, s);
	end();
}
END_TEST

START_TEST(a_flooding_worker_does_not_starve_another)
{
	begin();
	const char *flood = peer_run(p, "agent", J("{'do':[['progress',15000,300],['complete']]}"));
	peer_event(p, flood, "progress");
	struct peer *q = peer_new(r);
	double t = harness_now();
	peer_completed(q, peer_run(q, "agent", J("{'do':[['complete']]}")));
	must(harness_now() - t < 5 * harness_scale(), "it took %.1f s", harness_now() - t);
	peer_completed(p, flood);
	must(peer_count(p, flood, "event", "progress") == 15000, "%d",
		peer_count(p, flood, "event", "progress"));
	peer_finish(q);
	end();
}
END_TEST

START_TEST(agent_that_lies_about_its_artifact_keeps_its_session)
{
	begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'artifact','name':'../../x','path':'/etc/passwd','mime':'a/b'}],"
		  "['emit',{'type':'artifact','name':'none','path':'not-there','mime':'a/"
		  "b'}],['complete']]}"));
	struct note *n = peer_completed(p, s);
	must(json_array_size(note_at(n, "payload.artifacts")) == 0, "%s", n->body);
	must(peer_find(p, s, "event", "warning"), "no warning");
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bad workers");

	suite_test(s, line_that_is_not_valid_costs_a_warning_and_not_the_session, 40);
	suite_test(s, a_raw_nul_in_a_line_is_published_and_stored_nowhere, 40);
	suite_test(s, thousands_of_lines_of_garbage_give_few_warnings, 40);
	suite_test(s, a_worker_cannot_speak_for_the_protocol, 40);
	suite_test(s, a_worker_cannot_put_fields_of_its_own_into_an_event, 40);
	suite_test(s, a_line_over_its_limit_is_dropped_with_a_warning, 40);
	suite_test(s, outputs_over_the_message_limit_end_failed_and_say_so, 40);
	suite_test(s, a_command_that_is_not_there_fails_its_session_with_its_name, 40);
	suite_test(s, a_worker_that_closes_stdout_early_has_failed, 40);
	suite_test(s, a_worker_that_never_reads_stdin_stops_nobody, 40);
	suite_test(s, grandchild_that_keeps_the_pipe_open_does_not_delay_the_end, 40);
	suite_test(s, a_last_line_without_a_newline_counts, 40);
	suite_test(s, a_flooding_worker_does_not_starve_another, 60);
	suite_test(s, agent_that_lies_about_its_artifact_keeps_its_session, 40);
	return harness_run(s, false);
}
