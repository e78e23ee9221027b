/* test_hcpctl_submit.c: hcpctl submits: what reaches the worker, what is shown, answers that do not come,
 * and its exit status. */
#include "hcpctl_kit.h"
#include "peer.h"
#include "wire.h"

/* --- submit --- */

START_TEST(a_submit_shows_the_events_and_the_result_and_ends_with_the_state)
{
	begin();
	struct run good = start("submit", "agent", "--intent", "a test", "--input",
		"do=[[\"progress\",2],[\"checkpoint\",{}],[\"complete\",{\"answer\":42}]]", NULL);
	finish(&good, 0);
	must_have(good.out, " accepted   session ");
	must_have(good.out, " PENDING    risk R2\n");
	must_have(good.out, " RUNNING    was PENDING");
	must_have(good.out, " progress   100% work: event 2\n");
	must_have(good.out, " checkpoint a checkpoint (");
	must_have(good.out, " COMPLETED  session closed: completed\n{\n  \"answer\": 42\n}\n");
	must(!strchr(text_of(good.out), '\033') && !strchr(text_of(good.out), '\r'),
		"no terminal, so no colour and no bar");
	must_str(text_of(good.err), "");

	struct run bad = start("submit", "agent", "--input",
		"do=[[\"failing\",{\"error_code\":\"input_error\",\"error_message\":\"no salt\"}]]", NULL);
	finish(&bad, 2);
	must_have(bad.out, " FAILED     input_error: no salt\n");

	struct run refused = start("submit", "nonsense", NULL);
	finish(&refused, 3);
	must_have(refused.out, " REJECTED   unknown_capability: ");
	must_str(sessions_file(), "{}");
	must(count_queues() == 0, "a queue is left: %d", count_queues());
	end();
}
END_TEST

START_TEST(what_is_on_the_command_line_reaches_the_worker)
{
	begin();
	file_write(rig_path(r, "inputs.json"), "{ \"do\": [[\"dump\"]], \"n\": 1.10, \"o\": {\"a\": 1} }");
	struct run run = start("submit", "agent", "--json", "--intent", "why \"not\"", "--inputs",
		rig_path(r, "inputs.json"), "--input", "o.b=x", "--max-duration", "90s", "--priority", "high",
		"--data-class", "T2", "--context", "purpose=test", "--capability-version", "^1.0", NULL);
	finish(&run, 0);
	const char *line = strstr(text_of(run.out), "\"type\":\"task_completed\"");
	must(line, "%s", text_of(run.out));
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
	must_str(json_text_at(task, "caller_id"), caller);
	json_decref(root);
	end();
}
END_TEST

/* The value of the first member of that name, a text. */
static const char *member_of(const char *path, const char *name)
{
	static char value[64];
	char start[64];
	const char *at;

	snprintf(start, sizeof start, "\"%s\":\"", name);
	must((at = strstr(text_of(path), start)), "no %s in %s", name, text_of(path));
	at += strlen(start);
	snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
	return value;
}

START_TEST(a_task_goes_on_from_what_an_ended_one_left)
{
	static const char *const options[] = {"--checkpoint", "--continues"};

	begin();
	struct run first = start("submit", "agent", "--json", "--input",
		"do=[[\"checkpoint\",{\"mark\":4711}],[\"failing\",{}]]", NULL);
	finish(&first, 2);
	struct run next =
		start("submit", "agent", "--json", "--checkpoint", member_of(first.out, "checkpoint_id"),
			"--continues", session_of(first.out), "--input", "do=[[\"dump\"]]", NULL);
	finish(&next, 0);
	must_have(next.out, "4711");
	must_have(next.out, "\"completion\":\"partial\"");
	for (size_t i = 0; i < 2; i++) {
		struct run part = start("submit", "agent", options[i], "4711", NULL);
		struct run unknown =
			start("submit", "agent", options[i], "00000000-0000-4000-8000-000000000000", NULL);

		finish(&part, 64);
		must_have(part.err, "4711 is no whole id; hcpctl ");
		finish(&unknown, 3);
		must_have(unknown.out, "invalid_input");
	}
	end();
}
END_TEST

START_TEST(a_detach_does_not_wait_for_other_sessions_to_be_silent)
{
	double best = 100;

	begin();
	struct run chatty =
		start("submit", "agent", "--detach", "--input", "do=[[\"count\",1000000,0,0.03]]", NULL);
	finish(&chatty, 0);
	/* Where it waits for silence it takes two seconds each time. */
	for (int i = 0; i < 4 && best >= 1.8; i++) {
		double began = harness_now();
		struct run run = start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);

		finish(&run, 0);
		if (harness_now() - began < best)
			best = harness_now() - began;
		struct run aborted = start("abort", session_of(run.out), NULL);
		finish(&aborted, 0);
	}
	must(best < 1.8, "%.2f s at best", best);
	struct run aborted = start("abort", session_of(chatty.out), NULL);
	finish(&aborted, 0);
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state <> 'ABORTED'") == 0, WAIT_S,
		"their ends");
	end();
}
END_TEST

START_TEST(json_is_what_was_received_and_an_application_gets_it_too)
{
	begin();
	struct peer *p = peer_named(r, caller); /* on hcp.evt.{caller}, as an application would be */
	struct run run = start("submit", "agent", "--json", "--input",
		"do=[[\"progress\",20],[\"complete\",{\"n\":1}]]", NULL);
	finish(&run, 0);
	const char *s = session_of(run.out);
	peer_completed(p, s);
	char *want = calloc(1, 1 << 20);
	for (size_t i = 0; i < p->note_count; i++) {
		strcat(want, p->notes[i]->body);
		strcat(want, "\n");
	}
	must_str(text_of(run.out), want);
	must_str(text_of(run.err), "");
	free(want);
	peer_finish(p);
	end();
}
END_TEST

START_TEST(nothing_that_a_worker_says_reaches_the_terminal_as_a_command)
{
	begin();
	struct run run = start("submit", "agent", "--input",
		"do=[[\"emit\",{\"type\":\"log\",\"level\":\"info\",\"message\":\"a\\u001b[2Jb\\nc\"}],"
		"[\"stderr\",\"d\\u0007e\"],[\"complete\",{\"x\":\"\\u001b[0m\"}]]",
		NULL);
	finish(&run, 0);
	must(!strpbrk(text_of(run.out), "\033\007"), "%s", text_of(run.out));
	must_have(run.out, "a\\x1b[2Jb\\nc\n");
	must_have(run.out, "d\\x07e\n");
	end();
}
END_TEST

START_TEST(the_log_ins_user_name_goes_with_every_command)
{
	begin_on(broker_shared(), false);
	char section[100];
	snprintf(section, sizeof section, "caller %s", caller);
	rig_set(r, section, "capabilities", "*");
	rig_set(r, section, "amqp_user", "guest");
	rig_start(r);
	struct run run = start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	finish(&run, 0);
	const char *s = session_of(run.out);
	/* Without a token only the user name speaks for us. */
	tree_remove(rig_path(r, "home/hcp"));
	struct run aborted = start("abort", s, NULL);
	finish(&aborted, 0);
	must_have(aborted.out, "no token is known here");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'ABORTED'",
			   s) == 1,
		WAIT_S, "the abort");
	end();
}
END_TEST

/* --- answers that do not come --- */

START_TEST(a_callee_that_is_nowhere_is_told_at_once)
{
	begin();
	struct run run = start("submit", "agent", "--callee", "nobody-at-all", NULL);
	finish(&run, 5);
	must_str(text_of(run.err),
		"hcpctl: no callee named nobody-at-all listens (queue hcp.cmd.nobody-at-all does not exist); "
		"is hcpd running?\n");
	must_str(text_of(run.out), "");
	end();
}
END_TEST

START_TEST(an_unanswered_submit_is_sent_again_and_given_up_in_time)
{
	size_t sizes[3];
	char *bodies[3];

	begin_on(broker_shared(), false);
	wire_make_queue(r->broker, r->queue, "", "hcp.commands", r->callee);
	struct run run = start("submit", "agent", "--retry", "300ms", "--timeout", "1.5s", NULL);
	finish(&run, 5);
	must_have(run.err, "no answer from ");
	for (int i = 0; i < 3; i++) /* at 0, 0.3 and 0.9 s */
		must((bodies[i] = wire_get(r->broker, r->queue, &sizes[i])), "message %d", i);
	must(!wire_get(r->broker, r->queue, &sizes[0]), "sent too often");
	must_str(bodies[1], bodies[0]);
	must_str(bodies[2], bodies[0]);
	for (int i = 0; i < 3; i++)
		free(bodies[i]);
	wire_delete_queue(r->broker, r->queue);
	must(count_queues() == 0, "a queue is left");
	end();
}
END_TEST

START_TEST(a_daemon_that_comes_late_runs_the_task_once)
{
	begin_on(broker_shared(), false);
	rig_start(r);
	rig_stop(r); /* its queue is there now */
	struct run run =
		start("submit", "agent", "--retry", "100ms", "--input", "do=[[\"complete\",{}]]", NULL);
	int messages = 0, consumers;
	wait_until(
		queue_look(r->broker, r->queue, &messages, &consumers) && messages >= 3, WAIT_S, "repeats");
	rig_start(r);
	finish(&run, 0);
	must(strstr(strstr(text_of(run.out), " accepted ") + 1, " accepted ") == NULL, "shown twice: %s",
		text_of(run.out));
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "more than one session");
	end();
}
END_TEST

/* --- what is wrong here --- */

START_TEST(trouble_of_our_own_has_its_own_status)
{
	begin_on(broker_shared(), false);
	struct run run = start("submit", "agent", "--url", "amqp://127.0.0.1:1/", NULL);
	finish(&run, 69);
	must_have(run.err, "cannot connect to 127.0.0.1:1");
	run = start("submit", "agent", "--caller", "a.b", NULL);
	finish(&run, 78);
	run = start("submit", "--inputs", "/nonexistent", "agent", NULL);
	finish(&run, 1);
	run = start("submit", NULL);
	finish(&run, 64);
	run = start("submit", "agent", "--priority", "whatever", NULL);
	finish(&run, 64);
	run = start("nonsense", NULL);
	finish(&run, 64);
	run = start("watch", "zz", NULL);
	finish(&run, 1);
	run = start("submit", "--help", NULL);
	finish(&run, 0);
	must_have(run.out, "Example:\n");
	run = start("-V", NULL);
	finish(&run, 0);
	must_have(run.out, "hcpctl ");
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hcpctl_submit");

	suite_test(s, a_submit_shows_the_events_and_the_result_and_ends_with_the_state, 60);
	suite_test(s, what_is_on_the_command_line_reaches_the_worker, 40);
	suite_test(s, a_task_goes_on_from_what_an_ended_one_left, 60);
	suite_test(s, a_detach_does_not_wait_for_other_sessions_to_be_silent, 60);
	suite_test(s, json_is_what_was_received_and_an_application_gets_it_too, 40);
	suite_test(s, nothing_that_a_worker_says_reaches_the_terminal_as_a_command, 40);
	suite_test(s, the_log_ins_user_name_goes_with_every_command, 40);
	suite_test(s, a_callee_that_is_nowhere_is_told_at_once, 40);
	suite_test(s, an_unanswered_submit_is_sent_again_and_given_up_in_time, 40);
	suite_test(s, a_daemon_that_comes_late_runs_the_task_once, 60);
	suite_test(s, trouble_of_our_own_has_its_own_status, 40);
	return harness_run(s, false);
}
