/* SPDX-License-Identifier: MIT */
/* doctor_listed.c: permissions, policies and bindings, as rabbitmqctl lists them.
 * Owns a table of what each user must and must not be able to do.
 * Never changes anything: `hcpctl topology` prints the commands for that. */
#include "hcpctl/setup/doctor.h"

#include <jansson.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "hcpctl/setup/topology.h"
#include "json/text.h"

static const char *const right_names[] = {"configure", "write", "read"};

/* A name is made of prefix, callee or caller, and suffix. */
static const struct rule {
	bool of_daemon;
	enum topology_right right;
	const char *prefix;
	bool has_name;
	const char *suffix;
	bool must;
	const char *why;
} rules[] = {
	{true, TOPOLOGY_WRITE, EXCHANGE_EVENTS, false, "", true, "no caller hears anything"},
	{true, TOPOLOGY_WRITE, TOPOLOGY_HARP, false, "", true, "nobody is told of sessions with harp = yes"},
	{false, TOPOLOGY_WRITE, TOPOLOGY_HARP, false, "", false, "it could make up HARP-SESSION events"},
	{true, TOPOLOGY_READ, COMMAND_QUEUE_PREFIX, true, "", true, "no task arrives"},
	{true, TOPOLOGY_READ, EXCHANGE_EVENTS, false, "", false,
		"whoever has its password can read every caller's events"},
	{true, TOPOLOGY_WRITE, "amq.default", false, "", false, "it could put messages into any queue"},
	{true, TOPOLOGY_CONFIGURE, EVENT_QUEUE_PREFIX "x", false, "", false,
		"it could delete callers' queues"},
	{false, TOPOLOGY_WRITE, EXCHANGE_COMMANDS, false, "", true, "it cannot submit"},
	{false, TOPOLOGY_READ, EXCHANGE_EVENTS, false, "", true,
		"it cannot bind its queue, and hears nothing"},
	{false, TOPOLOGY_CONFIGURE, EVENT_QUEUE_PREFIX, true, "", true, "libhcp cannot make its queue"},
	{false, TOPOLOGY_WRITE, EVENT_QUEUE_PREFIX, true, "", true,
		"it cannot bind its queue, and hears nothing"},
	{false, TOPOLOGY_READ, EVENT_QUEUE_PREFIX, true, "", true, "it cannot consume its queue"},
	{false, TOPOLOGY_CONFIGURE, EVENT_QUEUE_PREFIX, true, ".x", true, "hcpctl cannot make its queues"},
	{false, TOPOLOGY_READ, EVENT_QUEUE_PREFIX, true, ".x", true, "hcpctl cannot consume its queues"},
	{false, TOPOLOGY_WRITE, EXCHANGE_EVENTS, false, "", false,
		"it could make up events for other callers"},
	{false, TOPOLOGY_WRITE, "amq.default", false, "", false, "it could put messages into any queue"},
	{false, TOPOLOGY_READ, COMMAND_QUEUE_PREFIX, true, "", false, "it could take other callers' tasks"},
	{false, TOPOLOGY_READ, EVENT_QUEUE_PREFIX "hcp-doctor-other", false, "", false,
		"it could read other callers' queues"},
	{false, TOPOLOGY_CONFIGURE, EXCHANGE_COMMANDS, false, "", false,
		"it could delete the exchange of commands"},
};

/* --- lists --- */

static void add_quoted(struct buf *b, const char *text)
{
	buf_add_text(b, "'");
	for (; *text; text++)
		if (*text == '\'')
			buf_add_text(b, "'\\''");
		else
			buf_add(b, text, 1);
	buf_add_text(b, "'");
}

/* An array of objects. NULL: a finding was reported. */
static void read_all(FILE *f, struct buf *b)
{
	char piece[4096];
	size_t n;

	buf_clear(b);
	while ((n = fread(piece, 1, sizeof piece, f)) > 0)
		buf_add(b, piece, n);
}

static json_t *list(struct doctor *d, const char *what)
{
	struct buf b = {0};
	json_t *answer = NULL;
	FILE *f;

	buf_addf(&b, "%s --quiet --formatter json %s -p ", d->rabbitmqctl, what);
	add_quoted(&b, d->config->amqp.vhost);
	buf_add_text(&b, " </dev/null 2>/dev/null");
	if ((f = popen(buf_text(&b), "r"))) {
		read_all(f, &b);
		answer = jtext_load(buf_text(&b), b.size, JSON_DISABLE_EOF_CHECK, NULL);
		if (pclose(f) != 0 || !json_is_array(answer)) {
			json_decref(answer);
			answer = NULL;
		}
	}
	if (!answer)
		doctor_say(d, DOCTOR_SKIP, "permissions",
			"try it by hand: it has to run on the broker's machine, as root or rabbitmq",
			"%s %s gives no answer", d->rabbitmqctl, what);
	buf_fini(&b);
	return answer;
}

static const char *member(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

/* Matches as the broker does: an empty expression matches nothing. 1, 0, or -1: the expression uses Perl
 * syntax that is not checked here. */
static int fits(const char *pattern, const char *name)
{
	regex_t re;
	int found;

	if (*pattern == '\0')
		return 0;
	if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return -1;
	found = regexec(&re, name, 0, NULL, 0) == 0;
	regfree(&re);
	return found;
}

static const json_t *find_row(const json_t *rows, const char *user, const char *exchange)
{
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
		if (strcmp(member(row, "user"), user) == 0 &&
			(!exchange || strcmp(member(row, "exchange"), exchange) == 0))
			return row;
	return NULL;
}

/* --- permissions --- */

static bool check_rule(
	struct doctor *d, const json_t *row, const char *user, const char *name, const struct rule *r)
{
	const char *pattern = member(row, right_names[r->right]);
	char whole[300];
	int may;

	snprintf(whole, sizeof whole, "%s%s%s", r->prefix, r->has_name ? name : "", r->suffix);
	may = fits(pattern, whole);
	if (may < 0)
		doctor_say(d, DOCTOR_SKIP, "permissions", NULL,
			"user %s: the expression %s is not understood here", user, pattern);
	else if (r->must && !may)
		doctor_say(d, DOCTOR_FAIL, "permissions", doctor_todo_topology(d),
			"user %s may not %s %s: %s", user, right_names[r->right], whole, r->why);
	else if (!r->must && may)
		doctor_say(d, DOCTOR_WARN, "permissions", doctor_todo_topology(d), "user %s may %s %s: %s",
			user, right_names[r->right], whole, r->why);
	return may >= 0 && may == r->must;
}

/* The keys that a user may bind: its own, and no other user's. */
static bool check_topics(
	struct doctor *d, const json_t *topics, const char *exchange, const char *user, const char *caller)
{
	const json_t *row = find_row(topics, user, exchange);
	const char *tokens = strcmp(exchange, TOPOLOGY_HARP) == 0 ? "" : " and tokens";
	char own[200];

	names_event_binding(own, sizeof own, caller, NULL);
	if (!row)
		doctor_say(d, DOCTOR_WARN, "permissions", doctor_todo_topology(d),
			"user %s has no topic permissions on %s, so it can bind # and read all callers' "
			"events%s",
			user, exchange, tokens);
	else if (fits(member(row, "read"), own) == 0)
		doctor_say(d, DOCTOR_FAIL, "permissions", doctor_todo_topology(d),
			"user %s may not bind %s on %s: it hears nothing", user, own, exchange);
	else if (fits(member(row, "read"), "#") || fits(member(row, "read"), "hcp-doctor-other.#"))
		doctor_say(d, DOCTOR_WARN, "permissions", doctor_todo_topology(d),
			"user %s may bind other callers' keys on %s, and read their events%s", user, exchange,
			tokens);
	else
		return true;
	return false;
}

static void check_user(struct doctor *d, const json_t *row, const json_t *topics, const char *user,
	bool of_daemon, bool is_both, const char *name)
{
	bool good = true;

	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (rules[i].of_daemon == of_daemon && (rules[i].must || !is_both) &&
			(strcmp(rules[i].prefix, TOPOLOGY_HARP) != 0 || config_wants_harp(d->config)))
			good = check_rule(d, row, user, name, &rules[i]) && good;
	/* A user that is also hcpd's may do too much in any case; doctor_check_shared has reported that. */
	if (!of_daemon && !is_both)
		good = check_topics(d, topics, EXCHANGE_EVENTS, user, name) && good;
	if (!of_daemon && !is_both && config_wants_harp(d->config))
		good = check_topics(d, topics, TOPOLOGY_HARP, user, name) && good;
	if (good && is_both)
		doctor_say(d, DOCTOR_OK, "permissions", NULL, "user %s may do what %s %s must", user,
			of_daemon ? "the callee" : "caller", name);
	else if (good)
		doctor_say(d, DOCTOR_OK, "permissions", NULL, "user %s may do what %s %s must, and no more",
			user, of_daemon ? "the callee" : "caller", name);
}

static void check_users(struct doctor *d, const json_t *permissions, const json_t *topics)
{
	struct topology t;

	/* The user that logs in now, not the one that `topology` would propose. */
	topology_plan(
		&t, d->config, NULL, d->config->amqp.sasl == SASL_EXTERNAL ? NULL : d->config->amqp.user);
	for (size_t i = 0; i < t.user_count; i++) {
		const struct topology_user *u = &t.users[i];
		const json_t *row = find_row(permissions, u->name, NULL);
		bool is_both = u->is_daemon && u->caller_count > 0;

		if (!row) {
			doctor_say(d, u->is_daemon && t.is_renamed ? DOCTOR_SKIP : DOCTOR_FAIL, "permissions",
				doctor_todo_topology(d),
				"user %s has no permissions in virtual host %s, or does not exist", u->name,
				d->config->amqp.vhost);
			continue;
		}
		if (u->is_daemon)
			check_user(d, row, topics, u->name, true, is_both, d->config->callee_id);
		for (size_t k = 0; k < u->caller_count; k++)
			check_user(d, row, topics, u->name, false, is_both, u->callers[k]);
	}
	topology_fini(&t);
}

/* --- policies --- */

/* The dead-letter exchange that a policy gives a queue. Only the policy with the highest priority counts. */
static char *find_dead_letters(const json_t *policies, const char *queue)
{
	json_t *row, *best = NULL, *definition;
	char *exchange = NULL;
	size_t i;

	json_array_foreach(policies, i, row)
		if (strcmp(member(row, "apply-to"), "exchanges") != 0 &&
			fits(member(row, "pattern"), queue) == 1 &&
			(!best ||
				json_integer_value(json_object_get(row, "priority")) >
					json_integer_value(json_object_get(best, "priority"))))
			best = row;
	if (!best)
		return NULL;
	definition = json_object_get(best, "definition");
	definition = json_is_string(definition) ? json_loads(json_string_value(definition), 0, NULL) :
						  json_incref(definition);
	if (*member(definition, "dead-letter-exchange"))
		exchange = xstrdup(member(definition, "dead-letter-exchange"));
	json_decref(definition);
	return exchange;
}

static void check_policies(struct doctor *d, const json_t *policies)
{
	char queue[160], *exchange;

	names_command_queue(queue, sizeof queue, d->config->callee_id);
	exchange = find_dead_letters(policies, queue);
	if (exchange)
		doctor_say(d, DOCTOR_OK, "topology", NULL, "what hcpd rejects from %s goes to %s", queue,
			exchange);
	else
		doctor_say(d, DOCTOR_WARN, "topology", doctor_todo_topology(d),
			"no policy gives %s a dead-letter exchange: commands that cannot be read are dropped",
			queue);
	free(exchange);
}

/* --- bindings --- */

static void check_bindings(struct doctor *d, const json_t *bindings)
{
	char queue[160];
	bool bound = false;
	json_t *row;
	size_t i;

	names_command_queue(queue, sizeof queue, d->config->callee_id);
	json_array_foreach(bindings, i, row) {
		const char *from = member(row, "source_name"), *to = member(row, "destination_name"),
			   *key = member(row, "routing_key");

		if (strcmp(from, EXCHANGE_COMMANDS) == 0 && strcmp(to, queue) == 0 &&
			strcmp(key, d->config->callee_id) == 0)
			bound = true;
		if (strcmp(from, EXCHANGE_EVENTS) == 0 && (*key == '#' || *key == '*'))
			doctor_say(d, DOCTOR_WARN, "topology",
				"unbind it, unless it is a monitor that may read every token",
				"%s is bound to hcp.events with %s: it gets every caller's events, and an "
				"event for an absent caller passes for delivered",
				to, key);
	}
	if (!bound)
		doctor_say(d, d->pid ? DOCTOR_FAIL : DOCTOR_WARN, "topology",
			"hcpd binds it when it connects, if it may; else: hcpctl topology prints the "
			"commands",
			"%s is not bound to hcp.commands with %s: tasks do not arrive", queue,
			d->config->callee_id);
	else
		doctor_say(d, DOCTOR_OK, "topology", NULL, "%s is bound to hcp.commands", queue);
}

void doctor_check_listed(struct doctor *d)
{
	json_t *permissions = list(d, "list_permissions"),
	       *topics = permissions ? list(d, "list_topic_permissions") : NULL;
	json_t *policies = topics ? list(d, "list_policies") : NULL,
	       *bindings = policies ? list(d, "list_bindings") : NULL;

	if (topics)
		check_users(d, permissions, topics);
	if (policies)
		check_policies(d, policies);
	if (bindings)
		check_bindings(d, bindings);
	json_decref(permissions);
	json_decref(topics);
	json_decref(policies);
	json_decref(bindings);
}
