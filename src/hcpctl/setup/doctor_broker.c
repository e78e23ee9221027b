/* SPDX-License-Identifier: MIT */
/* doctor_broker.c: the broker as hcpd's own log-in sees it: reachable, exchanges, queues, rights.
 * Owns the requests, each on a connection of its own, because a refusal closes its channel.
 * Never publishes a message that could arrive, never makes, binds or consumes anything. doctor_listed.c
 * checks what only the broker's own tools show. */
#include "hcpctl/setup/doctor.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/setup/topology.h"

#define CLOSE_MS 1000
#define ANSWER_US INT64_C(5000000)
#define STRANGER \
	"hcp-doctor" /* a user-id of another user: the broker refuses the message, after it has checked all \
			rights */

static struct connection *open_link(struct doctor *d, struct connection_error *e)
{
	struct connection_spec spec = {.amqp = &d->config->amqp, .name = "hcpctl doctor", .max_body = 65536};
	struct connection *l = connection_open(&spec, e);

	/* After many connections in quick succession a broker may leave one unanswered: try again. A refusal
	 * has a code and is final. */
	return l || e->code ? l : connection_open(&spec, e);
}

bool doctor_check_broker(struct doctor *d)
{
	struct connection_error e;
	struct connection *l = open_link(d, &e);

	if (!l) {
		doctor_say_text(d, DOCTOR_FAIL, "broker", e.text);
		return false;
	}
	doctor_say(d, DOCTOR_OK, "broker", NULL, "%s takes the log-in", d->config->amqp.url);
	connection_close(l, CLOSE_MS);
	return true;
}

/* --- exchanges and queues --- */

/* True only where the broker compared the arguments and says that they differ (406). After any other error
 * nothing is known about a difference, and the advice for one would be wrong. */
static bool is_other(const struct connection *l, const struct connection_error *e)
{
	return l != NULL && e->code == 406;
}

static void say_unseen(struct doctor *d, const char *kind, const char *name, const struct connection_error *e)
{
	doctor_say(d, DOCTOR_FAIL, "topology", "look again; the broker's log may say more",
		"%s %s cannot be looked at: %s", kind, name, e->text);
}

/* First a passive declare, so that the declare that compares does not make the exchange or queue. */
static void check_exchange(struct doctor *d, const char *name, const char *type)
{
	struct connection_error e;
	struct connection *l = open_link(d, &e);

	if (l && connection_find_exchange(l, name, &e) < 0) {
		doctor_say(d, d->pid ? DOCTOR_FAIL : DOCTOR_WARN, "topology",
			"hcpd makes it when it connects, if it may; else: hcpctl topology prints how",
			"exchange %s: %s", name, e.code == 404 ? "there is none" : e.text);
	} else if (!l || connection_declare_exchange(l, name, type, &e) < 0) {
		if (is_other(l, &e))
			doctor_say(d, DOCTOR_FAIL, "topology",
				"stop who uses it, delete the exchange at the broker, and start hcpd, which "
				"makes it anew",
				"exchange %s is not durable, of type %s, as it has to be: %s", name, type,
				e.text);
		else
			say_unseen(d, "exchange", name, &e);
	} else {
		doctor_say(d, DOCTOR_OK, "topology", NULL, "exchange %s, %s", name, type);
	}
	if (l)
		connection_close(l, CLOSE_MS);
}

static void check_arguments(struct doctor *d, const char *queue)
{
	bool quorum = d->config->amqp.queue_type == QUEUE_QUORUM;
	struct connection_queue q = {
		.name = queue, .type = quorum ? "quorum" : "classic", .single_active_consumer = quorum};
	struct connection_error e;
	struct connection *l = open_link(d, &e);
	int rc = l ? connection_declare_queue(l, &q, &e) : -1;

	if (rc < 0 && !is_other(l, &e))
		say_unseen(d, "queue", queue, &e);
	else if (rc < 0)
		doctor_say(d, DOCTOR_FAIL, "topology",
			"set queue_type in [amqp] to what it is, or stop hcpd, empty and delete the queue, "
			"and start hcpd, which makes it anew",
			"queue %s was made with other arguments than hcpd's (queue_type = %s): %s", queue,
			q.type, e.text);
	else
		doctor_say(d, DOCTOR_OK, "topology", NULL, "queue %s, %s", queue, q.type);
	if (l)
		connection_close(l, CLOSE_MS);
}

static void check_consumers(struct doctor *d, const char *queue, int count)
{
	bool quorum = d->config->amqp.queue_type == QUEUE_QUORUM;

	if (count == 0 && d->pid)
		doctor_say(d, DOCTOR_FAIL, "topology", "see hcpd's log for why it does not consume",
			"hcpd runs, and nobody consumes queue %s", queue);
	else if (count == 0)
		doctor_say(d, DOCTOR_WARN, "topology", "start hcpd: tasks wait in the queue until it runs",
			"nobody consumes queue %s", queue);
	else if (count > 1)
		doctor_say(d, quorum ? DOCTOR_WARN : DOCTOR_FAIL, "topology",
			quorum ? "fine where a second daemon shall stand by; it starts with another store, "
				 "and knows none of the sessions" :
				 "find the other by rabbitmqctl list_consumers and stop it: it takes tasks "
				 "away",
			"%d consume queue %s, and it should be one hcpd", count, queue);
	else if (!d->pid && !d->lock_unseen)
		doctor_say(d, DOCTOR_WARN, "topology",
			"find it by rabbitmqctl list_consumers: another machine's hcpd with this callee_id, "
			"or another state_dir?",
			"queue %s is consumed, but not by the hcpd of %s", queue, d->config->state_dir);
	else
		doctor_say(d, DOCTOR_OK, "topology", NULL, "queue %s has one consumer", queue);
}

/* The number of consumers; -1: there is no such queue, or the broker refuses, and e says why. */
static int count_consumers(struct doctor *d, const char *queue, struct connection_error *e)
{
	struct connection *l = open_link(d, e);
	int count = -1;

	if (!l)
		return -1;
	if (connection_count_consumers(l, queue, &count, e) < 0)
		count = -1;
	connection_close(l, CLOSE_MS);
	return count;
}

static void check_command_queue(struct doctor *d)
{
	char queue[160];
	struct connection_error e;
	int count;

	names_command_queue(queue, sizeof queue, d->config->callee_id);
	count = count_consumers(d, queue, &e);
	if (count < 0) {
		doctor_say(d, d->pid ? DOCTOR_FAIL : DOCTOR_WARN, "topology",
			"hcpd makes it when it connects, if it may; else: hcpctl topology prints how",
			"queue %s: %s", queue, e.code == 404 ? "there is none" : e.text);
		return;
	}
	check_arguments(d, queue);
	check_consumers(d, queue, count);
}

static void check_dead_letters(struct doctor *d)
{
	struct connection_error e, f;
	struct connection *l = open_link(d, &e);
	bool has_exchange = l && connection_find_exchange(l, TOPOLOGY_DEAD, &e) == 0;

	if (l)
		connection_close(l, CLOSE_MS);
	if (!has_exchange || count_consumers(d, TOPOLOGY_DEAD, &f) < 0)
		doctor_say(d, DOCTOR_WARN, "topology",
			"hcpctl topology prints the commands; no matter where another one is set by a policy",
			"there is no %s " TOPOLOGY_DEAD
			": commands that hcpd cannot read are dropped, and quorum queues of RabbitMQ 4 drop "
			"what was delivered 20 times",
			has_exchange ? "queue" : "dead-letter exchange");
	else
		doctor_say(d, DOCTOR_OK, "topology", NULL,
			"dead letters have exchange and queue " TOPOLOGY_DEAD);
}

static void check_caller_queues(struct doctor *d)
{
	for (size_t i = 0; i < d->config->caller_count; i++) {
		const char *caller = d->config->callers[i].name;
		char queue[160];
		struct connection_error e;
		int count;

		if (strcmp(caller, "*") == 0)
			continue;
		names_event_queue(queue, sizeof queue, caller, NULL);
		count = count_consumers(d, queue, &e);
		if (count < 0)
			doctor_say(d, DOCTOR_WARN, "topology",
				"start the caller, whose libhcp makes it; one that only uses hcpctl needs "
				"none",
				"caller %s has no queue %s: what nobody takes waits in the store", caller,
				queue);
		else
			doctor_say(d, DOCTOR_OK, "topology", NULL, "queue %s, %s", queue,
				count ? "consumed" : "not consumed now: it keeps the events");
	}
}

void doctor_check_topology(struct doctor *d)
{
	check_exchange(d, EXCHANGE_COMMANDS, "direct");
	check_exchange(d, EXCHANGE_EVENTS, "topic");
	if (config_wants_harp(d->config))
		check_exchange(d, TOPOLOGY_HARP, "topic");
	check_command_queue(d);
	check_dead_letters(d);
	check_caller_queues(d);
}

/* --- rights of the log-in --- */

/* The code with which the broker closes the channel after a message with a false user-id: 403 where the
 * log-in may not write there with that key, 406 (user-id) where it may, 404 where there is no such exchange.
 * 0: no answer. */
static int probe_write(struct doctor *d, const char *exchange, const char *key)
{
	struct connection_message m = {.exchange = exchange,
		.key = key,
		.message_id = STRANGER,
		.type = STRANGER,
		.user_id = STRANGER,
		.body = "{}",
		.size = 2};
	int64_t until_us = clock_boot_us() + ANSWER_US;
	struct frames_event *ev;
	struct connection_error e;
	struct connection *l = open_link(d, &e);
	int code = 0, rc = 0;
	bool ready;

	if (!l)
		return 0;
	if (connection_publish(l, &m, &e) == 0)
		while (code == 0 && rc >= 0 && clock_boot_us() < until_us) {
			if ((rc = connection_next(l, &ev, &e)) > 0 && ev->kind == FRAMES_CHANNEL_CLOSED)
				code = ev->code;
			else if (rc == 0)
				connection_wait(l, -1, 100, &ready);
		}
	if (rc >= 0)
		connection_close(l, CLOSE_MS);
	else
		connection_free(l);
	return code;
}

/* so: what follows from a missing right. */
static void check_publish(struct doctor *d, const char *exchange, const char *key, const char *so)
{
	const char *user = d->config->amqp.user;
	int code = probe_write(d, exchange, key);

	if (code == 403)
		doctor_say(d, DOCTOR_FAIL, "permissions", doctor_todo_topology(d),
			"user %s may not publish to %s with key %s: %s", user, exchange, key, so);
	else if (code == 406)
		doctor_say(d, DOCTOR_OK, "permissions", NULL, "user %s may publish to %s", user, exchange);
	else
		doctor_say(d, DOCTOR_SKIP, "permissions", NULL,
			"whether user %s may publish to %s did not show", user, exchange);
}

void doctor_check_rights(struct doctor *d)
{
	const char *user = d->config->amqp.user, *caller = "hcp-doctor";
	char key[200];
	int elsewhere;

	for (size_t i = 0; i < d->config->caller_count; i++)
		if (strcmp(d->config->callers[i].name, "*") != 0)
			caller = d->config->callers[i].name;
	names_event_key(key, sizeof key, caller, NULL, "task_rejected");
	check_publish(d, EXCHANGE_EVENTS, key, "no caller hears anything");
	elsewhere = probe_write(d, "amq.topic", key);
	if (elsewhere == 406)
		doctor_say(d, DOCTOR_WARN, "permissions", doctor_todo_topology(d),
			"user %s may write to exchanges that are none of hcpd's", user);
	else if (elsewhere == 403)
		doctor_say(d, DOCTOR_OK, "permissions", NULL, "user %s may not write elsewhere", user);
	names_event_key(key, sizeof key, caller, NULL, "session.start");
	if (config_wants_harp(d->config))
		check_publish(d, TOPOLOGY_HARP, key, "nobody is told of sessions with harp = yes");
}
