/* SPDX-License-Identifier: MIT */
/* test_links.c: the daemon's side of AMQP: what it declares, consumes and confirms, and whose trouble is
 * whose. */
#include <amqp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/peer.h"
#include "support/rig.h"
#include "support/talk.h"
#include "support/wire.h"

static struct rig *r;
static struct peer *p;

static void begin(void)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
}

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

static void eval(const char *expression)
{
	must(broker_eval(r->broker, expression) == 0, "%s", expression);
}

/* --- topology --- */

/* True where something of that name exists and is what these arguments would make. */
static bool exists(const char *exchange, const char *type, const char *queue, const char *queue_type)
{
	amqp_connection_state_t c = wire_connect(r->broker);
	amqp_table_entry_t e[2] = {
		{.key = amqp_cstring_bytes("x-queue-type"), .value.kind = AMQP_FIELD_KIND_UTF8},
		{.key = amqp_cstring_bytes("x-single-active-consumer"),
			.value.kind = AMQP_FIELD_KIND_BOOLEAN}};
	amqp_table_t args = {2, e};

	must(c, "no broker");
	if (exchange) {
		amqp_exchange_declare(c, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(type), 1, 1, 0,
			0, amqp_empty_table);
		if (wire_ok(c)) /* passive looks at the name only: once more, to compare */
			amqp_exchange_declare(c, 1, amqp_cstring_bytes(exchange), amqp_cstring_bytes(type), 0,
				1, 0, 0, amqp_empty_table);
	} else {
		e[0].value.value.bytes = amqp_cstring_bytes(queue_type);
		e[1].value.value.boolean = 1;
		amqp_queue_declare(c, 1, amqp_cstring_bytes(queue), 1, 1, 0, 0, amqp_empty_table);
		if (wire_ok(c) && queue_type)
			amqp_queue_declare(c, 1, amqp_cstring_bytes(queue), 0, 1, 0, 0, args);
	}
	bool yes = wire_ok(c);
	wire_disconnect(&c);
	return yes;
}

static bool may_consume(const char *queue)
{
	amqp_connection_state_t c = wire_connect(r->broker);

	must(c, "no broker");
	amqp_basic_consume(c, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	bool yes = wire_ok(c);
	wire_disconnect(&c);
	return yes;
}

START_TEST(the_daemon_makes_its_exchanges_and_its_queue) /* proves L1-03 */
{
	int messages, consumers;

	r = rig_new();
	wire_delete_queue(r->broker, r->queue);
	rig_start(r);
	must(exists("hcp.commands", "direct", NULL, NULL), "hcp.commands");
	must(exists("hcp.events", "topic", NULL, NULL), "hcp.events");
	must(queue_look(r->broker, r->queue, &messages, &consumers) && consumers == 1, "its queue");
	must(!may_consume(r->queue), "a second consumer would lose aborts");
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL)); /* bound with the callee's id */
	end();
	wire_delete_queue(broker_shared(), r->queue);
}
END_TEST

START_TEST(two_daemons_on_one_queue_are_noticed) /* proves L1-03 */
{
	begin();
	struct rig *second = rig_new();
	rig_set(second, "daemon", "callee_id", "%s", r->callee);
	rig_spawn(second);
	rig_wait_ready(second);
	wait_until(rig_log_has(second, "exclusive"), WAIT_S, "the message");
	harness_pass(2.5);
	must(rig_log_count(second, "exclusive") <= 4, "%d messages about it",
		rig_log_count(second, "exclusive"));
	peer_completed(p, peer_run(p, "agent", NULL)); /* the first still has it */
	must(rig_sql(second, "SELECT count(*) FROM sessions") == 0, "the second one took a task");
	rig_stop(r);
	const char *id = peer_submit(p, "agent", NULL); /* retried: now it is the second's */
	peer_completed(p, peer_accepted(p, id));
	must(rig_sql(second, "SELECT count(*) FROM sessions") == 1, "the second one did not take over");
	p->unchecked = true; /* two stores */
	peer_finish(p);
	rig_finish(second);
	rig_finish(r);
}
END_TEST

START_TEST(a_queue_with_other_arguments_is_a_configuration_error) /* proves L1-03 */
{
	r = rig_new();
	wire_make_queue(r->broker, r->queue, "x-max-length=5", NULL, NULL);
	rig_spawn(r);
	int status = rig_wait_exit(r, WAIT_S);
	must(status == 78, "status %d", status);
	must(rig_log_has(r, r->queue) && rig_log_has(r, "x-max-length"), "queue and argument are not named");
	wire_delete_queue(r->broker, r->queue);
	rig_finish(r);
}
END_TEST

START_TEST(the_command_queue_may_be_a_quorum_queue) /* proves L1-11 */
{
	r = rig_new();
	rig_set(r, "amqp", "queue_type", "quorum");
	rig_start(r);
	must(exists(NULL, NULL, r->queue, "quorum"), "%s is no quorum queue with a single active consumer",
		r->queue);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	rig_kill(r);
	rig_start(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	wire_delete_queue(r->broker, r->queue);
	end();
}
END_TEST

/* --- callers --- */

static const char *control; /* the path of the socket */

static long long count_unroutable(void)
{
	json_t *end = talk_once(control, "'do':'stats'");
	long long count = json_integer_value(
		json_at(json_array_get(json_object_get(end, "items"), 0), "totals.unroutable"));

	json_decref(end);
	return count;
}

static void must_show_unroutable(int count)
{
	wait_until(count_unroutable() == count, WAIT_S, "%lld unroutable, not %d", count_unroutable(), count);
}

START_TEST(caller_that_is_absent_changes_nothing_and_gets_all_later) /* proves L1-08 */
{
	r = rig_new();
	control = talk_path(r);
	rig_start(r);
	p = peer_absent(r, "absent-one");
	peer_drop(p);
	peer_submit(p, "agent", J("{'do':[['progress',40],['complete',{'a':1}]]}"));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"it completes");
	must(rig_sql(r, "SELECT count(*) FROM events") == 40 + 4 + 2, "all of it is in the history");
	wait_until(rig_log_has(r, "no queue"), WAIT_S, "it is logged");
	harness_pass(0.5);
	must(rig_log_count(r, "no queue") == 1, "%d lines about it for one session",
		rig_log_count(r, "no queue"));
	/* operators see each message counted, once, however often it is tried again */
	must_show_unroutable(40 + 4 + 2);
	struct peer *q = peer_new(r);
	peer_completed(q, peer_run(q, "agent", NULL)); /* others are not touched */
	peer_finish(q);
	must_show_unroutable(40 + 4 + 2);
	peer_open(p, "");
	struct note *n = peer_wait(p, NULL, "event", "session_closed");
	peer_completed(p, n->session);
	end();
}
END_TEST

START_TEST(unroutable_messages_survive_a_restart_of_the_daemon) /* proves L1-08 */
{
	r = rig_new();
	rig_start(r);
	p = peer_absent(r, "absent-two");
	peer_drop(p);
	for (int i = 0; i < 3; i++)
		peer_submit(p, "agent", J("{'do':[['progress',10],['complete']]}"));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 3, WAIT_S,
		"they complete");
	rig_stop(r);
	rig_start(r);
	peer_open(p, "");
	wait_until(peer_count(p, NULL, "event", "session_closed") >= 3, WAIT_S, "all of them");
	end();
}
END_TEST

START_TEST(a_full_queue_holds_up_its_own_caller_only) /* proves L1-07, L1-21 */
{
	r = rig_new();
	rig_start(r);
	p = peer_absent(r, "full-one");
	peer_drop(p);
	peer_declare(p, "x-max-length=5,x-overflow=reject-publish");
	p->any_order = true;
	const char *id = peer_submit(p, "agent", J("{'do':[['progress',60],['complete']]}"));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"the session does not wait");
	struct peer *q = peer_new(r);
	for (int i = 0; i < 5; i++) {
		double t = harness_now();
		peer_completed(q, peer_run(q, "agent", J("{'do':[['progress',5],['complete']]}")));
		must(harness_now() - t < 3 * harness_scale(), "another caller waited %.1f s",
			harness_now() - t);
	}
	peer_finish(q);
	peer_open(p, "x-max-length=5,x-overflow=reject-publish");
	peer_completed(p, peer_accepted(p, id));
	wait_until(peer_count(p, NULL, "event", "progress") >= 60, WAIT_S, "all of it");
	wait_until(rig_sql(r, "SELECT count(DISTINCT sequence) FROM events WHERE sequence > 0") == 64, WAIT_S,
		"the history");
	harness_pass(0.5);
	end();
}
END_TEST

START_TEST(a_full_queue_survives_a_crash_of_the_daemon) /* proves L1-21 */
{
	r = rig_new();
	rig_start(r);
	p = peer_absent(r, "full-two");
	peer_drop(p);
	peer_declare(p, "x-max-length=5,x-overflow=reject-publish");
	p->any_order = true;
	peer_submit(p, "agent", J("{'do':[['progress',30],['complete']]}"));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"the session");
	rig_kill(r);
	rig_start(r);
	peer_open(p, "x-max-length=5,x-overflow=reject-publish");
	wait_until(peer_count(p, NULL, "event", "progress") >= 30 &&
			peer_find(p, NULL, "event", "session_closed"),
		WAIT_S, "all of it");
	end();
}
END_TEST

/* --- the broker takes things away --- */

START_TEST(a_deleted_exchange_is_made_again) /* proves L1-21 */
{
	begin();
	peer_completed(p, peer_run(p, "agent", NULL));
	const char *s = peer_run(p, "agent", J("{'do':[['count',40,0,0.03]]}"));
	peer_event(p, s, "progress");
	wire_delete_exchange(r->broker, "hcp.events");
	wait_until(exists("hcp.events", "topic", NULL, NULL), WAIT_S, "declared again");
	peer_declare(p, ""); /* the binding went with the exchange */
	peer_completed(p, s);
	wait_until(peer_count(p, s, "event", "progress") >= 40, WAIT_S, "nothing is lost");
	/* what was unroutable meanwhile comes later */
	p->any_order = true;
	end();
}
END_TEST

/* The binding goes with the exchange, and no consumer is told: a submit finds nobody until it is made
 * again. */
START_TEST(a_deleted_command_exchange_is_bound_again) /* proves L1-03 */
{
	begin();
	peer_completed(p, peer_run(p, "agent", NULL));
	wire_delete_exchange(r->broker, "hcp.commands");
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

START_TEST(a_cancelled_consumer_consumes_again) /* proves L1-22 */
{
	begin();
	peer_completed(p, peer_run(p, "agent", NULL));
	wire_delete_queue(r->broker, r->queue);
	rig_wait_consuming(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

START_TEST(closed_connections_are_made_anew_and_nothing_is_lost) /* proves L1-10 */
{
	begin();
	/* Many under way each time: confirms, losses and the end of the connection come in one go. */
	const char *s = peer_run(p, "agent", J("{'do':[['count',3000,0,0.001]]}"));
	peer_event(p, s, "progress");
	for (int i = 0; i < 6; i++) {
		eval("[rabbit_networking:close_connection(P, \"for a test\") || P <- "
		     "rabbit_networking:connections()].");
		rig_wait_consuming(r);
		harness_pass(0.1 * i);
	}
	peer_completed(p, s);
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

START_TEST(commands_that_are_delivered_twice_run_once) /* proves L1-05, L1-06 */
{
	enum { MANY = 60 };
	const char *ids[MANY];

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "8");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < MANY; i++) {
		ids[i] = peer_submit(
			p, "agent", J("{'do':[['write','%s','%d'],['complete']]}", rig_path(r, "runs"), i));
		if (i % 15 == 14)
			eval("[rabbit_networking:close_connection(P, \"for a test\") || P <- "
			     "rabbit_networking:connections()].");
	}
	for (int i = 0; i < MANY; i++)
		peer_completed(p, peer_accepted(p, ids[i]));
	must(rig_sql(r, "SELECT count(*) FROM sessions") == MANY, "%lld sessions",
		rig_sql(r, "SELECT count(*) FROM sessions"));
	char *text = file_read(rig_path(r, "runs"), NULL);
	int runs = 0;
	for (char *c = text; c && *c; c++)
		runs += *c == '\n';
	free(text);
	must(runs == MANY, "%d runs of %d tasks", runs, MANY);
	end();
}
END_TEST

START_TEST(heartbeats_go_both_ways_while_idle) /* proves L1-09 */
{
	int messages, consumers, looks = 0;

	r = rig_new();
	rig_set(r, "amqp", "heartbeat", "1");
	rig_start(r);
	p = peer_new(r);
	/* Without them the broker would close after two to three seconds. */
	for (double until = harness_now() + 4.5; harness_now() < until; looks++) {
		must(queue_look(r->broker, r->queue, &messages, &consumers) && consumers == 1,
			"the consumer went away");
		harness_pass(0.05);
	}
	must(looks > 20, "%d looks", looks);
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

/* Puts a command into the queue from inside the node: during an alarm our own publishers are stopped too. */
static void publish_inside(const char *text)
{
	char *expression = malloc(8 * strlen(text) + 300);
	size_t n = (size_t)sprintf(expression,
		"rabbit_basic:publish(rabbit_misc:r(<<\"/\">>, exchange, <<\"hcp.commands\">>), <<\"%s\">>, "
		"[], <<",
		r->callee);

	for (size_t i = 0; text[i]; i++)
		n += (size_t)sprintf(expression + n, "%s%d", i ? "," : "", (unsigned char)text[i]);
	strcpy(expression + n, ">>).");
	eval(expression);
	free(expression);
}

START_TEST(a_blocked_publisher_does_not_stop_commands)
{
	char text[1500];

	begin();
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	snprintf(text, sizeof text,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2024-05-06T07:08:09.123Z\","
		"\"session_id\":\"%s\",\"type\":\"abort\",\"payload\":{\"session_token\":\"%s\"}}",
		uuid_text(p), s, peer_token(p, s));
	eval("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).");
	publish_inside(text);
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'ABORTED'") == 1, WAIT_S,
		"the abort during the alarm");
	eval("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).");
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	end();
}
END_TEST

START_TEST(a_caller_that_may_not_be_published_to_is_backed_off_alone) /* proves L1-21 */
{
	char url[512];

	r = rig_new();
	eval("rabbit_auth_backend_internal:add_user(<<\"hcp-narrow\">>, <<\"pw\">>, <<\"tests\">>), "
	     "rabbit_auth_backend_internal:set_permissions(<<\"hcp-narrow\">>, <<\"/\">>, <<\".*\">>, "
	     "<<\".*\">>, <<\".*\">>, <<\"tests\">>), "
	     "rabbit_auth_backend_internal:set_topic_permissions(<<\"hcp-narrow\">>, <<\"/\">>, "
	     "<<\"hcp.events\">>, <<\"^open-.*\">>, <<\".*\">>, <<\"tests\">>).");
	snprintf(url, sizeof url, "amqp://hcp-narrow:pw@%s", strchr(r->broker->url, '@') + 1);
	rig_set(r, "amqp", "url", "%s", url);
	rig_start(r);
	p = peer_named(r, "open-one");
	struct peer *shut = peer_named(r, "shut-one");
	const char *id = peer_submit(shut, "agent", J("{'do':[['progress',3],['complete']]}"));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"the session does not wait");
	for (int i = 0; i < 3; i++)
		peer_completed(p, peer_run(p, "agent", NULL));
	must(shut->note_count == 0, "it was published all the same");
	eval("rabbit_auth_backend_internal:set_topic_permissions(<<\"hcp-narrow\">>, <<\"/\">>, "
	     "<<\"hcp.events\">>, <<\".*\">>, <<\".*\">>, <<\"tests\">>).");
	peer_completed(shut, peer_accepted(shut, id));
	peer_finish(shut);
	end();
	broker_eval(broker_shared(),
		"rabbit_auth_backend_internal:delete_user(<<\"hcp-narrow\">>, <<\"tests\">>).");
}
END_TEST

START_TEST(a_message_that_the_broker_refuses_for_good_is_set_aside) /* proves L1-21 */
{
	begin();
	eval("application:set_env(rabbit, max_message_size, 20000), "
	     "[rabbit_networking:close_connection(P, \"for a test\") || P <- "
	     "rabbit_networking:connections()].");
	rig_wait_consuming(r);
	const char *s = peer_run(
		p, "agent", J("{'do':[['progress',2],['progress',1,30000],['progress',2],['complete']]}"));
	peer_completed(p, s);
	broker_eval(r->broker, "application:set_env(rabbit, max_message_size, 134217728).");
	struct note *n = peer_find_text(p, s, "warning", "payload.data.code", "event_unpublishable");
	must(n && n->sequence == 5, "no substitute in its place");
	must(rig_sql(r, "SELECT length(body) FROM events WHERE session_id = '%s' AND sequence = 5", s) >
			30000,
		"the original is not kept");
	must(peer_count(p, s, "event", "progress") == 4, "the others");
	p->substituted = true;
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("links");

	suite_test(s, the_daemon_makes_its_exchanges_and_its_queue, 40);
	suite_test(s, two_daemons_on_one_queue_are_noticed, 60);
	suite_test(s, a_queue_with_other_arguments_is_a_configuration_error, 40);
	suite_test(s, the_command_queue_may_be_a_quorum_queue, 60);
	suite_test(s, caller_that_is_absent_changes_nothing_and_gets_all_later, 60);
	suite_test(s, unroutable_messages_survive_a_restart_of_the_daemon, 60);
	suite_test(s, a_full_queue_holds_up_its_own_caller_only, 60);
	suite_test(s, a_full_queue_survives_a_crash_of_the_daemon, 60);
	suite_test(s, a_deleted_exchange_is_made_again, 60);
	suite_test(s, a_deleted_command_exchange_is_bound_again, 60);
	suite_test(s, a_cancelled_consumer_consumes_again, 40);
	suite_test(s, closed_connections_are_made_anew_and_nothing_is_lost, 60);
	suite_test(s, commands_that_are_delivered_twice_run_once, 60);
	suite_test(s, heartbeats_go_both_ways_while_idle, 40);
	suite_test(s, a_blocked_publisher_does_not_stop_commands, 40);
	suite_test(s, a_caller_that_may_not_be_published_to_is_backed_off_alone, 60);
	suite_test(s, a_message_that_the_broker_refuses_for_good_is_set_aside, 60);
	return harness_run(s, false);
}
