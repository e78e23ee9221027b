/* SPDX-License-Identifier: MIT */
/* test_hcpctl_watch.c: hcpctl follows sessions: left and found again, on a terminal, all of them, over a
 * broker's death and its own.
 *
 * What is promised of a watch: no event is left out. Each is shown once, unless the watch was killed
 * (SIGKILL, a lost machine) after it had printed a group of messages and before the broker had their ack:
 * those, at most the prefetch, are shown again by the next one. */
#include "support/hcpctl_kit.h"

#include <sys/stat.h>

#include "support/peer.h"
#include "support/wire.h"

/* --- leaving and coming back --- */

static int check_sequences(const char *path, int from)
{
	for (const char *at = ctl_text_of(path); (at = strstr(at, "\"sequence\":")); at++)
		must(atoi(at + 11) == ++from, "%d is due in: %s", from, ctl_text_of(path));
	return from;
}

START_TEST(a_detached_session_is_watched_later_without_a_gap)
{
	ctl_begin();
	char input[400];
	snprintf(input, sizeof input,
		"do=[[\"progress\",5],[\"hold\",\"%s\"],[\"progress\",5],[\"complete\",{\"n\":1}]]",
		rig_path(r, "go"));
	struct ctl_run first = ctl_start("submit", "agent", "--json", "--detach", "--input", input, NULL);
	ctl_finish(&first, 0);
	ctl_must_have(first.err, " goes on\nhcpctl: see it: hcpctl watch ");
	const char *s = ctl_session_of(first.out);
	must(strstr(ctl_sessions_file(), s), "not kept: %s", ctl_sessions_file());
	int seen = check_sequences(first.out, 0);
	must(seen >= 1, "session_created comes with the answer: %s", ctl_text_of(first.out));

	struct ctl_run second = ctl_start("watch", "--json", ctl_short_id(s), NULL);
	wait_until(ctl_is_consumed(s), WAIT_S, "the watch");
	ctl_signal_run(&second, SIGINT);
	ctl_finish(&second, 130);
	rig_touch(r, "go");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"its end");

	struct ctl_run third = ctl_start("watch", "--json", ctl_short_id(s), NULL);
	ctl_finish(&third, 0);
	seen = check_sequences(second.out, seen);
	seen = check_sequences(third.out, seen);
	must(seen == rig_sql(r, "SELECT max(sequence) FROM events"), "only %d", seen);
	ctl_must_have(third.out, "\"type\":\"task_completed\"");
	must_str(ctl_sessions_file(), "{}");
	must(ctl_count_queues() == 0, "a queue is left");
	ctl_end();
}
END_TEST

START_TEST(ctrl_c_without_a_terminal_leaves_the_session_alone)
{
	ctl_begin();
	struct ctl_run run =
		ctl_start("submit", "agent", "--input", "do=[[\"progress\",1],[\"forever\"]]", NULL);
	ctl_wait_for(run.out, " progress ");
	ctl_signal_run(&run, SIGINT);
	ctl_finish(&run, 130);
	const char *s = ctl_session_of(run.out);
	ctl_must_have(run.err, " goes on\nhcpctl: see it: hcpctl watch ");
	ctl_must_have(run.err, "end it: hcpctl abort ");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 1, "it runs");

	struct ctl_run aborted = ctl_start("abort", ctl_short_id(s), "--reason", "enough", NULL);
	ctl_finish(&aborted, 0);
	ctl_must_have(aborted.out, "sent abort of session ");
	struct ctl_run watched = ctl_start("watch", ctl_short_id(s), NULL);
	ctl_finish(&watched, 4);
	ctl_must_have(watched.out, " ABORTED    session closed: aborted_by_caller\n");
	struct ctl_run again = ctl_start("abort", ctl_short_id(s), NULL);
	ctl_finish(&again, 1);
	ctl_must_have(again.err, "no session of ours begins with ");
	must(ctl_count_queues() == 0, "a queue is left");
	ctl_end();
}
END_TEST

START_TEST(ctrl_c_on_a_terminal_asks)
{
	static const struct ctl_key keys[] = {{"100%", "\003"}, {"go on (Enter)? ", "\n"}, {"100%", "\003"},
		{"go on (Enter)? ", "a\n"}, {NULL, NULL}};

	ctl_begin();
	struct ctl_run run = ctl_start_on_terminal(
		keys, "submit", "agent", "--input", "do=[[\"progress\",1],[\"forever\"]]", NULL);
	ctl_finish(&run, 4);
	ctl_must_have(run.out, "] 100% 00:0");
	ctl_must_have(run.out, "later: hcpctl abort ");
	ctl_must_have(run.out, "\033[33mABORTED   \033[0m session closed: aborted_by_caller");
	ctl_end();
}
END_TEST

START_TEST(no_color_is_honoured_on_a_terminal)
{
	static const struct ctl_key keys[] = {{NULL, NULL}};

	ctl_begin();
	setenv("NO_COLOR", "1", 1);
	struct ctl_run run = ctl_start_on_terminal(
		keys, "submit", "agent", "--input", "do=[[\"progress\",3],[\"complete\",{}]]", NULL);
	ctl_finish(&run, 0);
	unsetenv("NO_COLOR");
	must(!strstr(ctl_text_of(run.out), "\033[3"), "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "COMPLETED  session closed");
	ctl_end();
}
END_TEST

/* --- watch --- */

START_TEST(a_watch_of_all_shows_what_came_while_it_was_away)
{
	ctl_begin();
	struct ctl_run first = ctl_start("watch", NULL);
	wait_until(file_exists(rig_path(r, "home/hcp/instance")), WAIT_S, "the instance");
	wait_until(ctl_is_consumed(ctl_text_of(rig_path(r, "home/hcp/instance"))), WAIT_S, "the watch");
	const char *about = ctl_ask_broker(
		"[{amqqueue:is_durable(Q), [V || {<<\"x-expires\">>, _, V} <- amqqueue:get_arguments(Q)]} || "
		"Q <- rabbit_amqqueue:list(), string:prefix(element(4, amqqueue:get_name(Q)), "
		"<<\"hcp.evt.ctl-\">>) =/= nomatch].");
	must(strstr(about, "true") && strstr(about, "86400000"), "durable, and expires after a day: %s",
		about);
	struct ctl_run submit =
		ctl_start("submit", "agent", "--input", "do=[[\"complete\",{\"first\":1}]]", NULL);
	ctl_finish(&submit, 0);
	ctl_wait_for(first.out, "\"first\": 1");

	/* Two at once do not take each other's events. */
	struct ctl_run other = ctl_start("watch", "--all", NULL);
	ctl_wait_for(other.err, "another hcpctl is watching the same");
	wait_until(ctl_count_queues() == 2, WAIT_S, "a queue of its own");
	submit = ctl_start("submit", "agent", "--input", "do=[[\"complete\",{\"second\":2}]]", NULL);
	ctl_finish(&submit, 0);
	ctl_wait_for(first.out, "\"second\": 2");
	ctl_wait_for(other.out, "\"second\": 2");
	ctl_signal_run(&other, SIGTERM);
	ctl_signal_run(&first, SIGINT);
	ctl_finish(&other, 0);
	ctl_finish(&first, 0);
	must(ctl_count_queues() == 1, "the kept one is left: %d", ctl_count_queues());

	submit = ctl_start("submit", "agent", "--input", "do=[[\"complete\",{\"third\":3}]]", NULL);
	ctl_finish(&submit, 0);
	struct ctl_run later = ctl_start("watch", NULL);
	ctl_wait_for(later.out, "\"third\": 3");
	must(!strstr(ctl_text_of(later.out), "second"), "shown before: %s", ctl_text_of(later.out));
	ctl_signal_run(&later, SIGINT);
	ctl_finish(&later, 0);
	char queue[200];
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller,
		ctl_text_of(rig_path(r, "home/hcp/instance")));
	wire_delete_queue(r->broker, queue);
	ctl_end();
}
END_TEST

/* A callee of our own: events as nobody should send them. */
static void say_event(struct peer *p, const char *session, int sequence, const char *event, const char *data)
{
	char key[300], body[1000];

	snprintf(key, sizeof key, "%s.%s.event", ctl_caller, session);
	snprintf(body, sizeof body,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00.000Z\","
		"\"session_id\":\"%s\","
		"\"type\":\"event\",\"payload\":{\"event_type\":\"%s\",\"sequence\":%d,\"data\":%s}}",
		uuid_text(p), session, event, sequence, data);
	peer_publish_to(p, "hcp.events", key, body, strlen(body));
}

START_TEST(events_are_put_in_order_shown_once_and_gaps_are_told)
{
	const char *s = "5f0c1111-1111-4111-8111-111111111111";

	ctl_begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct ctl_run run = ctl_start("watch", s, NULL);
	wait_until(ctl_is_consumed(s), WAIT_S, "the watch");
	say_event(p, s, 1, "log", "{\"level\":\"info\",\"message\":\"m1\"}");
	say_event(p, s, 3, "log", "{\"level\":\"info\",\"message\":\"m3\"}");
	say_event(p, s, 1, "log", "{\"level\":\"info\",\"message\":\"m1\"}");
	say_event(p, s, 3, "log", "{\"level\":\"info\",\"message\":\"m3\"}");
	say_event(p, s, 2, "log", "{\"level\":\"info\",\"message\":\"m2\"}");
	ctl_wait_for(run.out, "m3\n");
	double from = harness_now();
	say_event(p, s, 6, "log", "{\"level\":\"info\",\"message\":\"m6\"}");
	say_event(p, s, 7, "session_closed", "{\"final_state\":\"ABORTED\",\"reason\":\"x\"}");
	ctl_finish(&run, 4);
	must(harness_now() - from > 4, "it did not wait for what was missing");
	must_str(ctl_text_of(run.out),
		"12:00:00 info       m1\n12:00:00 info       m2\n12:00:00 info       m3\n12:00:00 info       "
		"m6\n"
		"12:00:00 ABORTED    session closed: x\n");
	ctl_must_have(run.err, "events 4 to 5 are missing");
	p->unchecked = true;
	peer_finish(p);
	ctl_end();
}
END_TEST

/* --- all of them, again and again --- */

static const char *instance(void)
{
	wait_until(file_exists(rig_path(r, "home/hcp/instance")), WAIT_S, "the instance");
	return ctl_text_of(rig_path(r, "home/hcp/instance"));
}

static void drop_own_queue(void)
{
	char queue[200];

	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, instance());
	wire_delete_queue(r->broker, queue);
}

/* Position of the second screen, on which the table is: what was printed before it is hidden by it. */
static const char *screen_of(const struct ctl_run *run)
{
	const char *at = strstr(ctl_text_of(run->out), "\033[?1049h");

	return at ? at : "";
}

START_TEST(a_first_watch_of_all_shows_the_sessions_that_run_already)
{
	static const struct ctl_key keys[] = {{NULL, NULL}};
	char id[3][9];

	ctl_begin();
	for (int i = 0; i < 3; i++) {
		struct ctl_run submit =
			ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
		ctl_finish(&submit, 0);
		snprintf(id[i], sizeof id[i], "%.8s", ctl_session_of(submit.out));
	}
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 3, WAIT_S, "all");
	struct ctl_run run = ctl_start_on_terminal(
		keys, "watch", "--all", "--daemon-config", rig_path(r, "hcpd.ini"), NULL);
	for (int i = 0; i < 3; i++)
		wait_until(strstr(screen_of(&run), id[i]), WAIT_S, "%s in: %s", id[i], screen_of(&run));
	ctl_must_have(run.out, "RUNNING");
	ctl_must_have(run.out, "agent");

	/* The second one has them too, and says below its table that it is the second. */
	struct ctl_run second = ctl_start_on_terminal(
		keys, "watch", "--all", "--daemon-config", rig_path(r, "hcpd.ini"), NULL);
	wait_until(strstr(screen_of(&second), "another hcpctl is watching the same"), WAIT_S, "it in: %s",
		ctl_text_of(second.out));
	wait_until(strstr(screen_of(&second), id[2]), WAIT_S, "%s in: %s", id[2], screen_of(&second));
	ctl_signal_run(&second, SIGTERM);
	ctl_finish(&second, 0);

	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 0);
	drop_own_queue();

	/* Without the daemon's socket it says what it cannot know. */
	snprintf(ctl_caller, sizeof ctl_caller, "ctl-%d-apart", getpid());
	run = ctl_start_on_terminal(keys, "watch", "--all", "--socket", "/nonexistent", NULL);
	wait_until(
		strstr(screen_of(&run), "with their next event"), WAIT_S, "it in: %s", ctl_text_of(run.out));
	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 0);
	drop_own_queue();
	ctl_end();
}
END_TEST

static bool is_drained(void)
{
	char queue[200];
	int messages, consumers;

	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, instance());
	return queue_look(r->broker, queue, &messages, &consumers) && messages == 0;
}

static const char *log_data(const char *message)
{
	static char data[200];

	snprintf(data, sizeof data, "{\"level\":\"info\",\"message\":\"%s\"}", message);
	return data;
}

START_TEST(a_watch_of_all_knows_after_its_restart_what_it_has_shown) /* proves L2-14 */
{
	const char *a = "5f0c2222-1111-4111-8111-111111111111", *b = "6a0c2222-1111-4111-8111-111111111111";

	ctl_begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct ctl_run run = ctl_start("watch", "--all", NULL);
	wait_until(ctl_is_consumed(instance()), WAIT_S, "the watch");
	for (int i = 1; i <= 5; i++)
		say_event(p, a, i, "log", log_data("first"));
	say_event(p, b, 1, "log", log_data("other"));
	ctl_wait_for(run.out, "other");
	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 0);
	/* What the broker lost the ack of comes again; what is new comes behind it. */
	say_event(p, a, 4, "log", log_data("again"));
	say_event(p, a, 5, "log", log_data("again"));
	say_event(p, b, 1, "log", log_data("again"));
	say_event(p, a, 6, "log", log_data("news"));
	say_event(p, b, 2, "log", log_data("tidings"));
	run = ctl_start("watch", "--all", NULL);
	ctl_wait_for(run.out, "tidings");
	wait_until(is_drained(), WAIT_S, "the acks");
	must(!strstr(ctl_text_of(run.out), "again"), "shown before: %s", ctl_text_of(run.out));
	ctl_must_have(run.out, "news");
	must(!strstr(ctl_text_of(run.err), "missing"), "%s", ctl_text_of(run.err));
	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 0);
	drop_own_queue();
	p->unchecked = true;
	peer_finish(p);
	ctl_end();
}
END_TEST

#define MANY 3000 /* events, of three sessions in turn */
#define KILLS 12

/* Each run goes on where the one before it was, but for what that one had printed without its ack. */
static void check_run(const char *path, int next[3], int *repeats)
{
	int first[3] = {0};

	for (const char *at = ctl_text_of(path), *line; (line = strstr(at, "\"session_id\":\"5f0c"));
		at = line + 20) {
		const char *sequence = strstr(line, "\"sequence\":");
		int session = line[14 + 7] - '0', number = sequence ? atoi(sequence + 11) : 0;

		if (!sequence || !strchr(sequence, '\n'))
			return; /* the line that the kill cut off */
		if (!first[session]) {
			first[session] = number;
			must(number <= next[session], "session %d: %d came, %d is due", session, number,
				next[session]);
			*repeats += next[session] - number;
			next[session] = number;
		}
		must(number == next[session], "session %d: %d came, %d is due", session, number,
			next[session]);
		next[session]++;
	}
}

START_TEST(a_watch_that_is_killed_again_and_again_leaves_nothing_out) /* proves L1-18 */
{
	char id[3][40];
	int next[3] = {1, 1, 1}, repeats = 0, kills = 0;

	ctl_begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct ctl_run run = ctl_start("watch", "--all", "--json", NULL);
	wait_until(ctl_is_consumed(instance()), WAIT_S, "the watch");
	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 0);
	for (int i = 0; i < 3; i++)
		snprintf(id[i], sizeof id[i], "5f0c333%d-1111-4111-8111-111111111111", i);
	for (int i = 0; i < MANY; i++)
		say_event(p, id[i % 3], i / 3 + 1, "log", log_data("m"));
	while (kills < KILLS && next[0] + next[1] + next[2] < MANY + 3) {
		run = ctl_start("watch", "--all", "--json", NULL);
		wait_until(
			strstr(ctl_text_of(run.out), "sequence") || is_drained(), WAIT_S, "its first line");
		usleep((useconds_t)(rand() % 3000));
		ctl_signal_run(&run, SIGKILL);
		ctl_finish(&run, 128 + SIGKILL);
		check_run(run.out, next, &repeats);
		kills++;
	}
	run = ctl_start("watch", "--all", "--json", NULL);
	/* A queue without messages may have handed them over a moment ago: one more comes behind them all. */
	say_event(p, "6f0c3333-1111-4111-8111-111111111111", 1, "log", log_data("the very last"));
	ctl_wait_for(run.out, "the very last");
	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 0);
	check_run(run.out, next, &repeats);
	for (int i = 0; i < 3; i++)
		must(next[i] == MANY / 3 + 1, "session %d ends at %d", i, next[i] - 1);
	must(repeats <= kills * 100, "%d came twice after %d kills", repeats, kills);
	printf("%d events, %d kills, %d shown twice\n", MANY, kills, repeats);
	drop_own_queue();
	p->unchecked = true;
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(a_watch_of_all_goes_on_over_a_broker_that_is_killed) /* proves L1-18 */
{
	struct broker b = {.own = false};
	char dir[300], input[400];

	snprintf(dir, sizeof dir, "%sown-broker-%d", harness_tmp(), getpid());
	broker_start(&b, dir);
	ctl_begin_on(&b, true);
	struct ctl_run all = ctl_start("watch", "--all", "--json", NULL);
	wait_until(ctl_is_consumed(instance()), WAIT_S, "the watch");
	snprintf(input, sizeof input,
		"do=[[\"progress\",300],[\"hold\",\"%s\"],[\"progress\",300],[\"complete\",{}]]",
		rig_path(r, "go"));
	struct ctl_run run = ctl_start("submit", "agent", "--detach", "--input", input, NULL);
	ctl_finish(&run, 0);
	ctl_wait_for(all.out, "event 300 ");
	broker_kill(&b);
	ctl_wait_for(all.err, "broker gone");
	rig_touch(r, "go");
	broker_start(&b, b.dir);
	ctl_wait_for(all.out, "\"session_closed\"");
	ctl_signal_run(&all, SIGINT);
	ctl_finish(&all, 0);
	must(check_sequences(all.out, 0) == rig_sql(r, "SELECT max(sequence) FROM events"), "%s",
		ctl_text_of(all.out));
	ctl_must_have(all.out, "\"task_completed\"");
	ctl_must_have(all.err, "broker is back");
	must(!strstr(ctl_text_of(all.err), "missing"), "%s", ctl_text_of(all.err));
	ctl_end();
	broker_stop(&b);
}
END_TEST

START_TEST(a_watch_declares_everything_again_when_it_connects_again) /* proves L1-16 */
{
	const char *s = "5f0c3333-1111-4111-8111-111111111111";

	ctl_begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct ctl_run run = ctl_start("watch", s, NULL);
	wait_until(ctl_is_consumed(s), WAIT_S, "the watch");
	say_event(p, s, 1, "log", log_data("before"));
	ctl_wait_for(run.out, "before\n");
	wire_delete_exchange(r->broker, "hcp.commands");
	wire_delete_exchange(r->broker, "hcp.events");
	char queue[200];
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, s);
	wire_delete_queue(r->broker, queue); /* the broker tells its consumer of this alone */
	ctl_wait_for(run.err, "our queue was deleted");
	wait_until(ctl_is_consumed(s), WAIT_S, "the watch, again");
	amqp_connection_state_t c = wire_connect(r->broker);
	amqp_exchange_declare(c, 1, amqp_cstring_bytes("hcp.commands"), amqp_cstring_bytes("direct"), 1, 1, 0,
		0, amqp_empty_table); /* passive: is it there? */
	must(wire_ok(c), "hcp.commands is not there");
	wire_disconnect(&c);
	say_event(p, s, 2, "log", log_data("after"));
	say_event(p, s, 3, "session_closed", "{\"final_state\":\"ABORTED\",\"reason\":\"x\"}");
	ctl_finish(&run, 4);
	ctl_must_have(run.out, "after\n");
	ctl_must_have(run.err, "broker is back");
	p->unchecked = true;
	peer_finish(p);
	ctl_end();
}
END_TEST

/* HCP wants exclusive = false. Of its own kind a watch keeps out, by a lock and by the broker's count. */
START_TEST(a_watch_does_not_consume_exclusively_and_keeps_to_itself) /* proves L1-16 */
{
	const char *s = "5f0c4444-1111-4111-8111-111111111111";
	amqp_connection_state_t other;
	char queue[200];

	ctl_begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct ctl_run run = ctl_start("watch", s, NULL);
	wait_until(ctl_is_consumed(s), WAIT_S, "the watch");
	struct ctl_run second = ctl_start("watch", s, NULL);
	ctl_wait_for(second.err, "another hcpctl is watching the same");
	/* one of another user: the broker counts the first */
	setenv("XDG_CONFIG_HOME", rig_path(r, "home2"), 1);
	struct ctl_run third = ctl_start("watch", s, NULL);
	ctl_wait_for(third.err, "another hcpctl is watching the same");
	wait_until(ctl_count_queues() == 3, WAIT_S, "queues of their own");
	say_event(p, s, 1, "log", log_data("for all"));
	ctl_wait_for(run.out, "for all\n");
	ctl_wait_for(second.out, "for all\n");
	ctl_wait_for(third.out, "for all\n");
	/* any other program is let in */
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, s);
	other = wire_connect(r->broker);
	amqp_basic_consume(other, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	must(wire_ok(other), "it consumes exclusively");
	wire_disconnect(&other);
	say_event(p, s, 2, "session_closed", "{\"final_state\":\"ABORTED\",\"reason\":\"x\"}");
	ctl_finish(&run, 4);
	ctl_finish(&second, 4);
	ctl_finish(&third, 4);
	p->unchecked = true;
	peer_finish(p);
	ctl_end();
}
END_TEST

/* The broker may notice only after the next watch has come that the one before was killed. */
START_TEST(a_watch_waits_a_moment_for_a_consumer_that_goes) /* proves L1-16 */
{
	const char *s = "5f0c5555-1111-4111-8111-111111111111";
	amqp_connection_state_t other;
	char queue[200];

	ctl_begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct ctl_run run = ctl_start("watch", s, NULL);
	wait_until(ctl_is_consumed(s), WAIT_S, "the watch");
	ctl_signal_run(&run, SIGTERM);
	ctl_finish(&run, 128 + SIGTERM);
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, s);
	other = wire_connect(r->broker);
	amqp_basic_consume(other, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	must(wire_ok(other), "the other consumer");
	run = ctl_start("watch", s, NULL);
	usleep(300000); /* it counts the other one meanwhile; later than that it proves nothing, and passes */
	/* said aloud: the watch's parent, a fork of ours, holds this connection's socket too */
	amqp_connection_close(other, AMQP_REPLY_SUCCESS);
	wire_disconnect(&other);
	say_event(p, s, 1, "log", log_data("on its own queue"));
	ctl_wait_for(run.out, "on its own queue\n");
	must(!strstr(ctl_text_of(run.err), "another hcpctl"), "%s", ctl_text_of(run.err));
	say_event(p, s, 2, "session_closed", "{\"final_state\":\"ABORTED\",\"reason\":\"x\"}");
	ctl_finish(&run, 4);
	p->unchecked = true;
	peer_finish(p);
	ctl_end();
}
END_TEST

/* --- ending several --- */

START_TEST(several_sessions_are_aborted_by_the_beginnings_of_their_ids)
{
	char first[40], second[40], little[4];

	ctl_begin();
	struct ctl_run run = ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	ctl_finish(&run, 0);
	snprintf(first, sizeof first, "%.8s", ctl_session_of(run.out));
	run = ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	ctl_finish(&run, 0);
	snprintf(second, sizeof second, "%.8s", ctl_session_of(run.out));
	/* One that is not there: nothing is ended, not even the first. */
	run = ctl_start("abort", first, "zz", NULL);
	ctl_finish(&run, 1);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 2, "both run");
	snprintf(little, sizeof little, "%.3s", first);
	run = ctl_start("watch", little, NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "4 characters at least");
	run = ctl_start("abort", first, second, NULL);
	ctl_finish(&run, 0);
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM transitions WHERE to_state = 'ABORTING' AND reason = "
			   "'aborted_by_caller'") == 2,
		WAIT_S, "both ends");
	ctl_end();
}
END_TEST

/* What watch and abort cannot look up they must be told whole. */
START_TEST(a_session_that_could_not_be_kept_is_named_by_its_whole_id)
{
	char line[120];
	struct ctl_run run;

	ctl_begin();
	must(mkdir(rig_path(r, "home"), 0700) == 0 && mkdir(rig_path(r, "home/hcp"), 0700) == 0 &&
			mkdir(rig_path(r, "home/hcp/sessions.lock"), 0700) == 0,
		"a lock that nobody can open, not even root");
	run = ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.err, "token is not kept");
	snprintf(line, sizeof line, "hcpctl watch %s ", ctl_session_of(run.err));
	ctl_must_have(run.err, line);
	run = ctl_start("submit", "agent", "--wait", "--detach", NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "--wait and --detach");
	ctl_end();
}
END_TEST

START_TEST(a_session_of_others_is_aborted_by_the_daemons_socket)
{
	char mine[40], theirs[40];

	ctl_begin();
	struct ctl_run run = ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	ctl_finish(&run, 0);
	snprintf(theirs, sizeof theirs, "%.8s", ctl_session_of(run.out));
	must(rename(rig_path(r, "home/hcp/sessions.json"), rig_path(r, "theirs.json")) == 0,
		"its token is not ours");
	run = ctl_start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	ctl_finish(&run, 0);
	snprintf(mine, sizeof mine, "%.8s", ctl_session_of(run.out));
	run = ctl_start("abort", theirs, NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "no session of ours begins with ");
	run = ctl_start("abort", theirs, mine, "--daemon-config", rig_path(r, "hcpd.ini"), "--reason",
		"enough", NULL);
	ctl_finish(&run, 0);
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM transitions WHERE to_state = 'ABORTING' AND reason = "
			   "'aborted_by_operator'") == 1 &&
			rig_sql(r,
				"SELECT count(*) FROM transitions WHERE to_state = 'ABORTING' AND reason = "
				"'aborted_by_caller'") == 1,
		WAIT_S, "both ends");
	ctl_end();
}
END_TEST

START_TEST(a_broker_that_restarts_interrupts_nothing)
{
	struct broker b = {.own = false};
	char dir[300], input[400];

	snprintf(dir, sizeof dir, "%sown-broker-%d", harness_tmp(), getpid());
	broker_start(&b, dir);
	ctl_begin_on(&b, true);
	snprintf(input, sizeof input,
		"do=[[\"progress\",5],[\"hold\",\"%s\"],[\"progress\",5],[\"complete\",{\"n\":1}]]",
		rig_path(r, "go"));
	struct ctl_run run = ctl_start("submit", "agent", "--input", input, NULL);
	ctl_wait_for(run.out, " progress ");
	broker_kill(&b);
	ctl_wait_for(run.err, "broker gone");
	rig_touch(r, "go");
	broker_start(&b, b.dir);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "\"n\": 1");
	const char *gone = strstr(ctl_text_of(run.err), "broker gone");
	must(!strstr(gone + 1, "broker gone"), "said twice: %s", ctl_text_of(run.err));
	ctl_must_have(run.err, "broker is back");
	must(!strstr(ctl_text_of(run.err), "missing"), "%s", ctl_text_of(run.err));
	ctl_end();
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
	suite_test(s, a_first_watch_of_all_shows_the_sessions_that_run_already, 60);
	suite_test(s, events_are_put_in_order_shown_once_and_gaps_are_told, 60);
	suite_test(s, a_watch_of_all_knows_after_its_restart_what_it_has_shown, 60);
	suite_test(s, a_watch_that_is_killed_again_and_again_leaves_nothing_out, 120);
	suite_test(s, a_watch_declares_everything_again_when_it_connects_again, 60);
	suite_test(s, a_watch_waits_a_moment_for_a_consumer_that_goes, 60);
	suite_test(s, a_watch_does_not_consume_exclusively_and_keeps_to_itself, 60);
	suite_test(s, a_watch_of_all_goes_on_over_a_broker_that_is_killed, 120);
	suite_test(s, several_sessions_are_aborted_by_the_beginnings_of_their_ids, 60);
	suite_test(s, a_session_that_could_not_be_kept_is_named_by_its_whole_id, 60);
	suite_test(s, a_session_of_others_is_aborted_by_the_daemons_socket, 60);
	suite_test(s, a_broker_that_restarts_interrupts_nothing, 120);
	return harness_run(s, false);
}
