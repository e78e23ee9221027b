/* SPDX-License-Identifier: MIT */
/* test_hcpctl_submit.c: hcpctl submits: what reaches the worker, what is shown, answers that do not come,
 * and its exit status. */
#include "support/hcpctl_kit.h"
#include "support/peer.h"
#include "support/wire.h"

/* --- submit --- */

START_TEST(submit_shows_events_and_result_and_exits_by_the_state)
{
	ctl_begin();
	struct ctl_run good = ctl_start("submit", "agent", "--intent", "a test", "--input",
		"do=[[\"progress\",2],[\"checkpoint\",{}],[\"complete\",{\"answer\":42}]]", NULL);
	ctl_finish(&good, 0);
	ctl_must_have(good.out, " accepted   session ");
	ctl_must_have(good.out, " PENDING    risk R2\n");
	ctl_must_have(good.out, " RUNNING    was PENDING");
	ctl_must_have(good.out, " progress   100% work: event 2\n");
	ctl_must_have(good.out, " checkpoint a checkpoint (");
	ctl_must_have(good.out, " COMPLETED  session closed: completed\n{\n  \"answer\": 42\n}\n");
	must(!strchr(ctl_text_of(good.out), '\033') && !strchr(ctl_text_of(good.out), '\r'),
		"no terminal, so no colour and no bar");
	must_str(ctl_text_of(good.err), "");

	struct ctl_run bad = ctl_start("submit", "agent", "--input",
		"do=[[\"failing\",{\"error_code\":\"input_error\",\"error_message\":\"no salt\"}]]", NULL);
	ctl_finish(&bad, 2);
	ctl_must_have(bad.out, " FAILED     input_error: no salt\n");

	struct ctl_run refused = ctl_start("submit", "nonsense", NULL);
	ctl_finish(&refused, 3);
	ctl_must_have(refused.out, " REJECTED   unknown_capability: ");
	must_str(ctl_sessions_file(), "{}");
	must(ctl_count_queues() == 0, "a queue is left: %d", ctl_count_queues());
	ctl_end();
}
END_TEST

START_TEST(inputs_of_the_command_line_reach_the_worker)
{
	ctl_begin();
	file_write(rig_path(r, "inputs.json"), "{ \"do\": [[\"dump\"]], \"n\": 1.10, \"o\": {\"a\": 1} }");
	struct ctl_run run = ctl_start("submit", "agent", "--json", "--intent", "why \"not\"", "--inputs",
		rig_path(r, "inputs.json"), "--input", "o.b=x", "--max-duration", "90s", "--priority", "high",
		"--data-class", "T2", "--context", "purpose=test", "--capability-version", "^1.0", NULL);
	ctl_finish(&run, 0);
	const char *line = strstr(ctl_text_of(run.out), "\"type\":\"task_completed\"");
	must(line, "%s", ctl_text_of(run.out));
	while (line[-1] != '\n')
		line--;
	json_t *root = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL),
	       *task = json_at(root, "payload.outputs.start.task");
	must_str(json_text_at(task, "intent"), "why \"not\"");
	json_t *inputs = J("{'do':[['dump']],'n':1.10,'o':{'a':1,'b':'x'}}");
	must(json_equal(json_at(task, "inputs"), inputs), "%s", line);
	json_decref(inputs);
	must_str(json_text_at(task, "constraints.max_duration"), "PT1M30S");
	must_str(json_text_at(task, "constraints.priority"), "high");
	must_str(json_text_at(task, "constraints.data_classification"), "T2");
	must_str(json_text_at(task, "context.purpose"), "test");
	must_str(json_text_at(task, "capability_version"), "^1.0");
	must_str(json_text_at(task, "caller_id"), ctl_caller);
	json_decref(root);
	ctl_end();
}
END_TEST

START_TEST(a_label_of_a_submit_finds_its_session)
{
	ctl_begin();
	struct ctl_run run =
		ctl_start("submit", "agent", "--label", "group=night=ly", "--label", "who=", NULL);
	ctl_finish(&run, 0);
	run = ctl_start("submit", "agent", "--label", "group=other", NULL);
	ctl_finish(&run, 0);
	must(rig_sql(r,
		     "SELECT count(*) FROM sessions WHERE id = 1 AND metadata ="
		     " '{\"labels\":{\"group\":\"night=ly\",\"who\":\"\"}}'") == 1,
		"its metadata");
	run = ctl_start("list", "--daemon-config", rig_path(r, "hcpd.ini"), "--json", "-l", "group=night=ly",
		"-l", "who=", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "{\"key\":1,");
	must(strstr(ctl_text_of(run.out), "\"key\":2") == NULL, "%s", ctl_text_of(run.out));
	run = ctl_start("list", "--label", "=x", NULL);
	ctl_finish(&run, 64);
	ctl_end();
}
END_TEST

/* The value of the first member of that name, a text. */
static const char *member_of(const char *path, const char *name)
{
	static char value[64];
	char start[64];
	const char *at;

	snprintf(start, sizeof start, "\"%s\":\"", name);
	must((at = strstr(ctl_text_of(path), start)), "no %s in %s", name, ctl_text_of(path));
	at += strlen(start);
	snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
	return value;
}

START_TEST(a_task_goes_on_from_what_an_ended_one_left)
{
	static const char *const options[] = {"--checkpoint", "--continues"};

	ctl_begin();
	struct ctl_run first = ctl_start("submit", "agent", "--json", "--input",
		"do=[[\"checkpoint\",{\"mark\":4711}],[\"failing\",{}]]", NULL);
	ctl_finish(&first, 2);
	struct ctl_run next =
		ctl_start("submit", "agent", "--json", "--checkpoint", member_of(first.out, "checkpoint_id"),
			"--continues", ctl_session_of(first.out), "--input", "do=[[\"dump\"]]", NULL);
	ctl_finish(&next, 0);
	ctl_must_have(next.out, "4711");
	ctl_must_have(next.out, "\"completion\":\"partial\"");
	for (size_t i = 0; i < 2; i++) {
		struct ctl_run part = ctl_start("submit", "agent", options[i], "4711", NULL);
		struct ctl_run unknown = ctl_start(
			"submit", "agent", options[i], "00000000-0000-4000-8000-000000000000", NULL);

		ctl_finish(&part, 64);
		ctl_must_have(part.err, "4711 is no whole id; hcpctl ");
		ctl_finish(&unknown, 3);
		ctl_must_have(unknown.out, "invalid_input");
	}
	ctl_end();
}
END_TEST

START_TEST(a_detach_does_not_wait_for_other_sessions_to_be_silent)
{
	double best = 100;

	ctl_begin();
	struct ctl_run chatty =
		ctl_start("submit", "agent", "--detach", "--input", "do=[[\"count\",1000000,0,0.03]]", NULL);
	ctl_finish(&chatty, 0);
	/* Where it waits for silence it takes two seconds each time. */
	for (int i = 0; i < 4 && best >= 1.8; i++) {
		double began = harness_now();
		struct ctl_run run =
			ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);

		ctl_finish(&run, 0);
		if (harness_now() - began < best)
			best = harness_now() - began;
		struct ctl_run aborted = ctl_start("abort", ctl_session_of(run.out), NULL);
		ctl_finish(&aborted, 0);
	}
	must(best < 1.8, "%.2f s at best", best);
	struct ctl_run aborted = ctl_start("abort", ctl_session_of(chatty.out), NULL);
	ctl_finish(&aborted, 0);
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state <> 'ABORTED'") == 0, WAIT_S,
		"their ends");
	ctl_end();
}
END_TEST

START_TEST(json_is_what_was_received_and_an_application_gets_it_too)
{
	ctl_begin();
	struct peer *p = peer_named(r, ctl_caller); /* on hcp.evt.{caller}, as an application would be */
	struct ctl_run run = ctl_start("submit", "agent", "--json", "--input",
		"do=[[\"progress\",20],[\"complete\",{\"n\":1}]]", NULL);
	ctl_finish(&run, 0);
	const char *s = ctl_session_of(run.out);
	peer_completed(p, s);
	char *want = calloc(1, 1 << 20);
	for (size_t i = 0; i < p->note_count; i++) {
		strcat(want, p->notes[i]->body);
		strcat(want, "\n");
	}
	must_str(ctl_text_of(run.out), want);
	must_str(ctl_text_of(run.err), "");
	free(want);
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(nothing_that_a_worker_says_reaches_the_terminal_as_a_command)
{
	ctl_begin();
	struct ctl_run run = ctl_start("submit", "agent", "--input",
		"do=[[\"emit\",{\"type\":\"log\",\"level\":\"info\",\"message\":\"a\\u001b[2Jb\\nc\"}],"
		"[\"stderr\",\"d\\u0007e\"],[\"complete\",{\"x\":\"\\u001b[0m\"}]]",
		NULL);
	ctl_finish(&run, 0);
	must(!strpbrk(ctl_text_of(run.out), "\033\007"), "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "a\\x1b[2Jb\\nc\n");
	ctl_must_have(run.out, "d\\x07e\n");
	ctl_end();
}
END_TEST

START_TEST(the_log_ins_user_name_goes_with_every_command)
{
	ctl_begin_on(broker_shared(), false);
	char section[100];
	snprintf(section, sizeof section, "caller %s", ctl_caller);
	rig_set(r, section, "capabilities", "*");
	rig_set(r, section, "amqp_user", "guest");
	rig_start(r);
	struct ctl_run run = ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	ctl_finish(&run, 0);
	const char *s = ctl_session_of(run.out);
	/* Without a token only the user name speaks for us. */
	tree_remove(rig_path(r, "home/hcp"));
	struct ctl_run aborted = ctl_start("abort", s, NULL);
	ctl_finish(&aborted, 0);
	ctl_must_have(aborted.out, "no token is known here");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'ABORTED'",
			   s) == 1,
		WAIT_S, "the abort");
	ctl_end();
}
END_TEST

/* --- answers that do not come --- */

START_TEST(a_callee_that_is_nowhere_is_told_at_once)
{
	ctl_begin();
	struct ctl_run run = ctl_start("submit", "agent", "--callee", "nobody-at-all", NULL);
	ctl_finish(&run, 5);
	must_str(ctl_text_of(run.err),
		"hcpctl: no callee named nobody-at-all listens (queue hcp.cmd.nobody-at-all does not exist); "
		"is hcpd running?\n");
	must_str(ctl_text_of(run.out), "");
	ctl_end();
}
END_TEST

START_TEST(an_unanswered_submit_is_sent_again_and_given_up_in_time)
{
	size_t sizes[3];
	char *bodies[3];

	ctl_begin_on(broker_shared(), false);
	wire_make_queue(r->broker, r->queue, "", "hcp.commands", r->callee);
	struct ctl_run run = ctl_start("submit", "agent", "--retry", "300ms", "--timeout", "1.5s", NULL);
	ctl_finish(&run, 5);
	ctl_must_have(run.err, "no answer from ");
	for (int i = 0; i < 3; i++) /* at 0, 0.3 and 0.9 s */
		must((bodies[i] = wire_get(r->broker, r->queue, &sizes[i])), "message %d", i);
	must(!wire_get(r->broker, r->queue, &sizes[0]), "sent too often");
	must_str(bodies[1], bodies[0]);
	must_str(bodies[2], bodies[0]);
	for (int i = 0; i < 3; i++)
		free(bodies[i]);
	wire_delete_queue(r->broker, r->queue);
	must(ctl_count_queues() == 0, "a queue is left");
	ctl_end();
}
END_TEST

START_TEST(a_daemon_that_comes_late_runs_the_task_once)
{
	ctl_begin_on(broker_shared(), false);
	rig_start(r);
	rig_stop(r); /* its queue is there now */
	struct ctl_run run =
		ctl_start("submit", "agent", "--retry", "100ms", "--input", "do=[[\"complete\",{}]]", NULL);
	int messages = 0, consumers;
	wait_until(
		queue_look(r->broker, r->queue, &messages, &consumers) && messages >= 3, WAIT_S, "repeats");
	rig_start(r);
	ctl_finish(&run, 0);
	must(strstr(strstr(ctl_text_of(run.out), " accepted ") + 1, " accepted ") == NULL, "shown twice: %s",
		ctl_text_of(run.out));
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "more than one session");
	ctl_end();
}
END_TEST

/* --- what is wrong here --- */

START_TEST(trouble_of_our_own_has_its_own_status)
{
	ctl_begin_on(broker_shared(), false);
	struct ctl_run run = ctl_start("submit", "agent", "--url", "amqp://127.0.0.1:1/", NULL);
	ctl_finish(&run, 69);
	ctl_must_have(run.err, "cannot connect to 127.0.0.1:1");
	run = ctl_start("submit", "agent", "--caller", "a.b", NULL);
	ctl_finish(&run, 78);
	run = ctl_start("submit", "--inputs", "/nonexistent", "agent", NULL);
	ctl_finish(&run, 1);
	run = ctl_start("submit", NULL);
	ctl_finish(&run, 64);
	run = ctl_start("submit", "agent", "--priority", "whatever", NULL);
	ctl_finish(&run, 64);
	run = ctl_start("nonsense", NULL);
	ctl_finish(&run, 64);
	run = ctl_start("watch", "zz", NULL);
	ctl_finish(&run, 1);
	run = ctl_start("submit", "--help", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "Example:\n");
	run = ctl_start("-V", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "hcpctl ");
	ctl_end();
}
END_TEST

/* 69 is for a broker that cannot be reached: a script may try again. One that refuses will refuse again. */
START_TEST(a_brokers_refusal_is_no_absence)
{
	const char *id = "5f0c4444-1111-4111-8111-111111111111";
	char nowhere[200], stranger[200], queue[200];

	ctl_begin_on(broker_shared(), false);
	int port = atoi(strrchr(r->broker->url, ':') + 1);
	snprintf(nowhere, sizeof nowhere, "amqp://guest:guest@127.0.0.1:%d/nowhere", port);
	snprintf(stranger, sizeof stranger, "amqp://guest:wrong@127.0.0.1:%d/%%2F", port);
	struct ctl_run run = ctl_start("submit", "agent", "--url", nowhere, NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "refuses virtual host nowhere");
	run = ctl_start("abort", id, "--url", nowhere, NULL);
	ctl_finish(&run, 1);
	must(!strstr(ctl_text_of(run.err), "did not confirm"), "it was never asked: %s",
		ctl_text_of(run.err));
	run = ctl_start("submit", "agent", "--url", stranger, NULL);
	ctl_finish(&run, 78);
	run = ctl_start("abort", id, "--url", stranger, NULL);
	ctl_finish(&run, 78);
	/* a queue of the same name that somebody declared differently: 406 */
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, id);
	wire_make_queue(r->broker, queue, "", "", NULL);
	run = ctl_start("watch", id, NULL);
	ctl_finish(&run, 1);
	wire_delete_queue(r->broker, queue);
	ctl_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hcpctl_submit");

	suite_test(s, submit_shows_events_and_result_and_exits_by_the_state, 60);
	suite_test(s, inputs_of_the_command_line_reach_the_worker, 40);
	suite_test(s, a_label_of_a_submit_finds_its_session, 40);
	suite_test(s, a_task_goes_on_from_what_an_ended_one_left, 60);
	suite_test(s, a_detach_does_not_wait_for_other_sessions_to_be_silent, 60);
	suite_test(s, json_is_what_was_received_and_an_application_gets_it_too, 40);
	suite_test(s, nothing_that_a_worker_says_reaches_the_terminal_as_a_command, 40);
	suite_test(s, the_log_ins_user_name_goes_with_every_command, 40);
	suite_test(s, a_callee_that_is_nowhere_is_told_at_once, 40);
	suite_test(s, an_unanswered_submit_is_sent_again_and_given_up_in_time, 40);
	suite_test(s, a_daemon_that_comes_late_runs_the_task_once, 60);
	suite_test(s, trouble_of_our_own_has_its_own_status, 40);
	suite_test(s, a_brokers_refusal_is_no_absence, 40);
	return harness_run(s, false);
}
