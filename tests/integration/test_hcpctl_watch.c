/* test_hcpctl_watch.c: hcpctl follows sessions: left and found again, on a terminal, all of them, over a
 * broker's death. */
#include "hcpctl_kit.h"
#include "peer.h"
#include "wire.h"

/* --- leaving and coming back --- */

static int check_sequences(const char *path, int from)
{
	for (const char *at = text_of(path); (at = strstr(at, "\"sequence\":")); at++)
		must(atoi(at + 11) == ++from, "%d is due in: %s", from, text_of(path));
	return from;
}

START_TEST(a_detached_session_is_watched_later_without_a_gap)
{
	begin();
	char input[400];
	snprintf(input, sizeof input,
		"do=[[\"progress\",5],[\"hold\",\"%s\"],[\"progress\",5],[\"complete\",{\"n\":1}]]", rig_path(r, "go"));
	struct run first = start("submit", "agent", "--json", "--detach", "--input", input, NULL);
	finish(&first, 0);
	must_have(first.err, " goes on; see it: hcpctl watch ");
	const char *s = session_of(first.out);
	must(strstr(sessions_file(), s), "not kept: %s", sessions_file());
	int seen = check_sequences(first.out, 0);
	must(seen >= 1, "session_created comes with the answer: %s", text_of(first.out));

	struct run second = start("watch", "--json", short_id(s), NULL);
	wait_until(is_consumed(s), WAIT_S, "the watch");
	signal_run(&second, SIGINT);
	finish(&second, 130);
	rig_touch(r, "go");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S, "its end");

	struct run third = start("watch", "--json", short_id(s), NULL);
	finish(&third, 0);
	seen = check_sequences(second.out, seen);
	seen = check_sequences(third.out, seen);
	must(seen == rig_sql(r, "SELECT max(sequence) FROM events"), "only %d", seen);
	must_have(third.out, "\"type\":\"task_completed\"");
	must_str(sessions_file(), "{}");
	must(count_queues() == 0, "a queue is left");
	end();
}
END_TEST

START_TEST(ctrl_c_without_a_terminal_leaves_the_session_alone)
{
	begin();
	struct run run = start("submit", "agent", "--input", "do=[[\"progress\",1],[\"forever\"]]", NULL);
	wait_for(run.out, " progress ");
	signal_run(&run, SIGINT);
	finish(&run, 130);
	const char *s = session_of(run.out);
	must_have(run.err, " goes on; see it: hcpctl watch ");
	must_have(run.err, "end it: hcpctl abort ");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 1, "it runs");

	struct run aborted = start("abort", short_id(s), "--reason", "enough", NULL);
	finish(&aborted, 0);
	must_have(aborted.out, "sent abort of session ");
	struct run watched = start("watch", short_id(s), NULL);
	finish(&watched, 4);
	must_have(watched.out, " ABORTED    session closed: aborted_by_caller\n");
	struct run again = start("abort", short_id(s), NULL);
	finish(&again, 1);
	must_have(again.err, "no session of ours begins with ");
	must(count_queues() == 0, "a queue is left");
	end();
}
END_TEST

START_TEST(ctrl_c_on_a_terminal_asks)
{
	static const struct key keys[] = { { "100%", "\003" }, { "go on (Enter)? ", "\n" }, { "100%", "\003" },
		{ "go on (Enter)? ", "a\n" }, { NULL, NULL } };

	begin();
	struct run run = start_on_terminal(keys, "submit", "agent", "--input",
		"do=[[\"progress\",1],[\"forever\"]]", NULL);
	finish(&run, 4);
	must_have(run.out, "] 100% 00:0");
	must_have(run.out, "later: hcpctl abort ");
	must_have(run.out, "\033[33mABORTED   \033[0m session closed: aborted_by_caller");
	end();
}
END_TEST

START_TEST(no_color_is_honoured_on_a_terminal)
{
	static const struct key keys[] = { { NULL, NULL } };

	begin();
	setenv("NO_COLOR", "1", 1);
	struct run run = start_on_terminal(keys, "submit", "agent", "--input",
		"do=[[\"progress\",3],[\"complete\",{}]]", NULL);
	finish(&run, 0);
	unsetenv("NO_COLOR");
	must(!strstr(text_of(run.out), "\033[3"), "%s", text_of(run.out));
	must_have(run.out, "COMPLETED  session closed");
	end();
}
END_TEST

/* --- watch --- */

START_TEST(a_watch_of_all_shows_what_came_while_it_was_away)
{
	begin();
	struct run first = start("watch", NULL);
	wait_until(file_exists(rig_path(r, "home/hcp/instance")), WAIT_S, "the instance");
	wait_until(is_consumed(text_of(rig_path(r, "home/hcp/instance"))), WAIT_S, "the watch");
	const char *about = ask_broker("[{amqqueue:is_durable(Q), [V || {<<\"x-expires\">>, _, V} <- amqqueue:get_arguments(Q)]} || "
		"Q <- rabbit_amqqueue:list(), string:prefix(element(4, amqqueue:get_name(Q)), <<\"hcp.evt.ctl-\">>) =/= nomatch].");
	must(strstr(about, "true") && strstr(about, "86400000"), "durable, and expires after a day: %s", about);
	struct run submit = start("submit", "agent", "--input", "do=[[\"complete\",{\"first\":1}]]", NULL);
	finish(&submit, 0);
	wait_for(first.out, "\"first\": 1");

	/* Two at once do not take each other's events. */
	struct run other = start("watch", "--all", NULL);
	wait_for(other.err, "another hcpctl is watching the same");
	wait_until(count_queues() == 2, WAIT_S, "a queue of its own");
	submit = start("submit", "agent", "--input", "do=[[\"complete\",{\"second\":2}]]", NULL);
	finish(&submit, 0);
	wait_for(first.out, "\"second\": 2");
	wait_for(other.out, "\"second\": 2");
	signal_run(&other, SIGTERM);
	signal_run(&first, SIGINT);
	finish(&other, 0);
	finish(&first, 0);
	must(count_queues() == 1, "the kept one is left: %d", count_queues());

	submit = start("submit", "agent", "--input", "do=[[\"complete\",{\"third\":3}]]", NULL);
	finish(&submit, 0);
	struct run later = start("watch", NULL);
	wait_for(later.out, "\"third\": 3");
	must(!strstr(text_of(later.out), "second"), "shown before: %s", text_of(later.out));
	signal_run(&later, SIGINT);
	finish(&later, 0);
	char queue[200];
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", caller, text_of(rig_path(r, "home/hcp/instance")));
	wire_delete_queue(r->broker, queue);
	end();
}
END_TEST

/* A callee of our own: events as nobody should send them. */
static void say_event(struct peer *p, const char *session, int sequence, const char *event, const char *data)
{
	char key[300], body[1000];

	snprintf(key, sizeof key, "%s.%s.event", caller, session);
	snprintf(body, sizeof body,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00.000Z\",\"session_id\":\"%s\","
		"\"type\":\"event\",\"payload\":{\"event_type\":\"%s\",\"sequence\":%d,\"data\":%s}}", uuid_text(p), session, event, sequence, data);
	peer_publish_to(p, "hcp.events", key, body, strlen(body));
}

START_TEST(events_are_put_in_order_shown_once_and_gaps_are_told)
{
	const char *s = "5f0c1111-1111-4111-8111-111111111111";

	begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct run run = start("watch", s, NULL);
	wait_until(is_consumed(s), WAIT_S, "the watch");
	say_event(p, s, 1, "log", "{\"level\":\"info\",\"message\":\"m1\"}");
	say_event(p, s, 3, "log", "{\"level\":\"info\",\"message\":\"m3\"}");
	say_event(p, s, 1, "log", "{\"level\":\"info\",\"message\":\"m1\"}");
	say_event(p, s, 3, "log", "{\"level\":\"info\",\"message\":\"m3\"}");
	say_event(p, s, 2, "log", "{\"level\":\"info\",\"message\":\"m2\"}");
	wait_for(run.out, "m3\n");
	double from = harness_now();
	say_event(p, s, 6, "log", "{\"level\":\"info\",\"message\":\"m6\"}");
	say_event(p, s, 7, "session_closed", "{\"final_state\":\"ABORTED\",\"reason\":\"x\"}");
	finish(&run, 4);
	must(harness_now() - from > 4, "it did not wait for what was missing");
	must_str(text_of(run.out),
		"12:00:00 info       m1\n12:00:00 info       m2\n12:00:00 info       m3\n12:00:00 info       m6\n"
		"12:00:00 ABORTED    session closed: x\n");
	must_have(run.err, "events 4 to 5 are missing");
	p->unjudged = true;
	peer_finish(p);
	end();
}
END_TEST

START_TEST(a_broker_that_restarts_interrupts_nothing)
{
	struct broker b = { .own = false };
	char dir[300], input[400];

	snprintf(dir, sizeof dir, "%sown-broker-%d", harness_tmp(), getpid());
	broker_start(&b, dir);
	begin_on(&b, true);
	snprintf(input, sizeof input,
		"do=[[\"progress\",5],[\"hold\",\"%s\"],[\"progress\",5],[\"complete\",{\"n\":1}]]", rig_path(r, "go"));
	struct run run = start("submit", "agent", "--input", input, NULL);
	wait_for(run.out, " progress ");
	kill(b.pid, SIGKILL);
	wait_for(run.err, "broker gone");
	rig_touch(r, "go");
	broker_start(&b, b.dir);
	finish(&run, 0);
	must_have(run.out, "\"n\": 1");
	const char *gone = strstr(text_of(run.err), "broker gone");
	must(!strstr(gone + 1, "broker gone"), "said twice: %s", text_of(run.err));
	must_have(run.err, "broker is back");
	must(!strstr(text_of(run.err), "missing"), "%s", text_of(run.err));
	end();
	broker_stop(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hcpctl_watch");

	suite_test(s, a_detached_session_is_watched_later_without_a_gap, 60);
	suite_test(s, ctrl_c_without_a_terminal_leaves_the_session_alone, 60);
	suite_test(s, ctrl_c_on_a_terminal_asks, 60);
	suite_test(s, no_color_is_honoured_on_a_terminal, 40);
	suite_test(s, a_watch_of_all_shows_what_came_while_it_was_away, 60);
	suite_test(s, events_are_put_in_order_shown_once_and_gaps_are_told, 60);
	suite_test(s, a_broker_that_restarts_interrupts_nothing, 120);
	return harness_run(s, false);
}
