/* SPDX-License-Identifier: MIT */
/* topology.c: `hcpctl topology`: a shell script that gives the broker what hcpd and its callers need, and no
 * more.
 * Owns which user needs which right, and the text of the script. Never runs a command and never makes up a
 * password: the script asks for passwords, or takes them from variables. */
#include "hcpctl/setup/topology.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"
#include "hcpctl/common/command.h"
#include "hcpctl/setup/doctor.h"
#include "base/shellwords.h"

#define DAEMON_USER "hcpd"

static const char help[] =
	"usage: hcpctl topology [--daemon-config FILE] [--callers NAME,NAME] [--user NAME] [--rabbitmqctl "
	"COMMAND]\n\n"
	"Prints a shell script for the broker's machine that makes what hcpd needs there: virtual host, "
	"exchanges, queues,\n"
	"dead letters, and users that may do no more than they must. It may be run again at any time; "
	"nothing that exists\n"
	"is deleted, no password is changed. Warns on stderr of what the broker lacks now, as far as hcpd's "
	"log-in sees it.\n\n"
	"      --daemon-config FILE   the daemon's configuration; default /etc/hcpd/hcpd.ini "
	"(HCP_DAEMON_CONFIG)\n"
	"      --callers NAME,NAME    these callers; default: those with a [caller NAME] section\n"
	"      --user NAME            the daemon's user at the broker, where its url does not name it\n"
	"      --rabbitmqctl COMMAND  compare also with what this lists, e.g. 'sudo rabbitmqctl'\n"
	"\nExample:\n"
	"  hcpctl topology >setup.sh && less setup.sh && sudo sh setup.sh\n"
	"\nExit status: 0; 78 where the configuration is wrong; 1 where a caller has hcpd's own user, whose "
	"rights the script\n"
	"would take away, or the script cannot be written.\n";

/* --- who needs what --- */

static struct topology_user *add_user(struct topology *t, const char *name)
{
	struct topology_user *u;

	for (size_t i = 0; i < t->user_count; i++)
		if (strcmp(t->users[i].name, name) == 0)
			return &t->users[i];
	t->users = xrealloc(t->users, (t->user_count + 1) * sizeof *t->users);
	u = &t->users[t->user_count++];
	*u = (struct topology_user){.name = xstrdup(name)};
	return u;
}

static void add_caller(struct topology *t, const char *caller)
{
	const struct config_caller *section = config_find_caller(t->config, caller);
	struct topology_user *u = add_user(t, section && section->amqp_user ? section->amqp_user : caller);

	for (size_t i = 0; i < u->caller_count; i++)
		if (strcmp(u->callers[i], caller) == 0)
			return;
	u->callers = xrealloc(u->callers, (u->caller_count + 1) * sizeof *u->callers);
	u->callers[u->caller_count++] = xstrdup(caller);
}

void topology_plan(struct topology *t, const struct config *c, char *const *callers, const char *user)
{
	/* guest is the broker's own administrator; the name in a certificate is known to the broker only. */
	bool unknown = c->amqp.sasl == SASL_EXTERNAL || !c->amqp.user || strcmp(c->amqp.user, "guest") == 0;

	*t = (struct topology){.config = c, .is_renamed = !user && unknown};
	add_user(t, user ? user : unknown ? DAEMON_USER : c->amqp.user)->is_daemon = true;
	for (size_t i = 0; !callers && i < c->caller_count; i++)
		if (strcmp(c->callers[i].name, "*") != 0)
			add_caller(t, c->callers[i].name);
	for (; callers && *callers; callers++)
		add_caller(t, *callers);
}

void topology_fini(struct topology *t)
{
	for (size_t i = 0; i < t->user_count; i++) {
		for (size_t k = 0; k < t->users[i].caller_count; k++)
			free(t->users[i].callers[k]);
		free(t->users[i].callers);
		free(t->users[i].name);
	}
	free(t->users);
	*t = (struct topology){0};
}

/* alpha, or (alpha|beta). Names have no character that is special in a regular expression. */
static void add_callers(struct buf *out, const struct topology_user *u)
{
	if (u->caller_count > 1)
		buf_add_text(out, "(");
	for (size_t i = 0; i < u->caller_count; i++)
		buf_addf(out, "%s%s", i ? "|" : "", u->callers[i]);
	if (u->caller_count > 1)
		buf_add_text(out, ")");
}

void topology_add_pattern(
	struct buf *out, const struct topology *t, const struct topology_user *u, enum topology_right right)
{
	/* What each user may do to the two exchanges. The daemon makes both, and reads commands in order to
	 * bind its queue. */
	static const char *const daemons[] = {"commands|events|", "events|", "commands|"};
	static const char *const callers[] = {"", "commands|", "events|"};
	/* The third exchange, where it is configured: the daemon makes it and writes to it, callers may bind
	 * to it. */
	bool harp =
		config_wants_harp(t->config) && (right == TOPOLOGY_READ ? u->caller_count > 0 : u->is_daemon);

	buf_add_text(out, harp ? "^(harp\\.sessions|hcp\\.(" : "^hcp\\.(");
	if (u->is_daemon)
		buf_addf(out, "%scmd\\.%s%s", daemons[right], t->config->callee_id,
			u->caller_count ? "|" : "");
	if (u->caller_count) {
		buf_add_text(out, callers[right]);
		buf_add_text(out, "evt\\.");
		add_callers(out, u);
		/* hcpctl's own: hcp.evt.CALLER.INSTANCE */
		buf_add_text(out, "(\\..*)?");
	}
	buf_add_text(out, harp ? "))$" : ")$");
}

void topology_add_keys(
	struct buf *out, const struct topology_user *u, bool is_harp, enum topology_right right)
{
	if (right == TOPOLOGY_WRITE && u->is_daemon) {
		/* The daemon may write to any caller, because an unknown caller gets a rejection too. */
		buf_add_text(out,
			is_harp ? "^[A-Za-z0-9_:-]+\\.[^.]+\\.session\\.[a-z]+$" :
				  "^[A-Za-z0-9_:-]+\\.[^.]+\\.[a-z_]+$");
	} else if (right == TOPOLOGY_READ && u->caller_count) {
		buf_add_text(out, "^");
		add_callers(out, u);
		buf_add_text(out, "\\.");
	} else {
		buf_add_text(out, "^$");
	}
}

/* --- the script --- */

static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	putchar('\'');
}

/* For a comment in the script: a newline in a name must not end the comment. */
static void print_plain(const char *text)
{
	struct buf b = {0};

	ctl_escape(&b, text, strlen(text), false);
	fwrite(b.data, 1, b.size, stdout);
	buf_fini(&b);
}

/* HCP_PASSWORD_alpha: a character that is no letter or digit becomes _. */
static void print_variable(const char *user)
{
	fputs("HCP_PASSWORD_", stdout);
	for (; *user; user++)
		putchar(isalnum((unsigned char)*user) && (unsigned char)*user < 128 ? *user : '_');
}

/* A user that logs in with a certificate has no password. */
static bool is_certified(const struct topology *t, const struct topology_user *u)
{
	return u->is_daemon && t->config->amqp.sasl == SASL_EXTERNAL;
}

static void print_head(const struct topology *t)
{
	printf("#!/bin/sh\n# What the broker needs for hcpd, callee %s, from ", t->config->callee_id);
	print_plain(t->config->path);
	printf(".\n# Printed by hcpctl topology (%s).\n"
	       "#\n"
	       "# Run it on the broker's machine as root, or as whoever may use rabbitmqctl: hcpctl topology "
	       "| sh\n"
	       "# Another rabbitmqctl, or options for it: RABBITMQCTL='rabbitmqctl -n rabbit@host' sh "
	       "setup.sh\n"
	       "# It may be run again: what is there stays, permissions and policies are set to what is "
	       "written here.\n"
	       "#\n"
	       "# Passwords of users that do not exist yet are asked for on the terminal, or taken from "
	       "these variables; without\n"
	       "# either the script stops before it changes anything:\n",
		HCPD_VERSION);
	for (size_t i = 0; i < t->user_count; i++) {
		if (is_certified(t, &t->users[i]))
			continue;
		fputs("#   ", stdout);
		print_variable(t->users[i].name);
		printf("\t%s ", t->users[i].is_daemon ? "hcpd: the one in its [amqp], user" : "user");
		print_plain(t->users[i].name);
		putchar('\n');
	}
	if (t->is_renamed)
		printf("#\n# hcpd.ini logs in %s. This script makes a user %s for hcpd; then change url in\n"
		       "# [amqp] to amqp://%s@... with password_file, or name the user with --user.\n",
			t->config->amqp.sasl == SASL_EXTERNAL ?
				"with a certificate, whose user only the broker knows" :
				"as guest, who may do everything",
			DAEMON_USER, DAEMON_USER);
	for (size_t i = 0; i < t->user_count; i++)
		for (size_t k = 0; k < t->users[i].caller_count; k++) {
			const struct config_caller *c = config_find_caller(t->config, t->users[i].callers[k]);

			if (c && c->amqp_user)
				continue;
			printf("#\n# Write amqp_user = %s into [caller %s] of hcpd.ini: else everybody at "
			       "the broker may speak for it.\n",
				t->users[i].name, t->users[i].callers[k]);
		}
}

static void print_functions(void)
{
	fputs("set -eu\n\n"
	      "# Never reads our own standard input, which may be this script.\n"
	      "ctl() { ${RABBITMQCTL:-rabbitmqctl} --quiet \"$@\" </dev/null; }\n"
	      "ctl_in() { ${RABBITMQCTL:-rabbitmqctl} --quiet \"$@\"; }\n"
	      "has() { printf '%s\\n' \"$1\" | cut -f1 | grep -qxF -- \"$2\"; }\n"
	      "\n"
	      "# USER VARIABLE: its password can be had, or it needs none\n"
	      "need() {\n"
	      "\thas \"$users\" \"$1\" && return\n"
	      "\teval \"[ -n \\\"\\${$2-}\\\" ]\" && return\n"
	      "\tif (: </dev/tty) 2>/dev/null; then return; fi\n"
	      "\techo \"user $1 does not exist: set $2 to its password, or run this on a terminal\" >&2\n"
	      "\tmissing=yes\n"
	      "}\n"
	      "\n"
	      "# USER VARIABLE: made, with a password; one that exists keeps its own\n"
	      "make_user() {\n"
	      "\tif has \"$users\" \"$1\"; then\n"
	      "\t\techo \"user $1 exists, its password stays\"\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\teval \"password=\\${$2-}\"\n"
	      "\tif [ -z \"$password\" ]; then\n"
	      "\t\tprintf 'Password for the new user %s: ' \"$1\" >/dev/tty\n"
	      "\t\tstty -echo </dev/tty\n"
	      "\t\tread -r password </dev/tty || :\n"
	      "\t\tstty echo </dev/tty\n"
	      "\t\techo >/dev/tty\n"
	      "\tfi\n"
	      "\t[ -n \"$password\" ] || { echo \"user $1 gets no empty password\" >&2; exit 1; }\n"
	      "\t# Not as an argument: others can see those.\n"
	      "\tprintf '%s\\n' \"$password\" | ctl_in add_user \"$1\"\n"
	      "}\n"
	      "\n"
	      "# USER: logs in by certificate only\n"
	      "make_certified() { if ! has \"$users\" \"$1\"; then ctl add_user \"$1\" ''; fi; }\n"
	      "\n"
	      "main() {\n",
		stdout);
}

static void print_users(const struct topology *t, const char *function, const char *certified)
{
	for (size_t i = 0; i < t->user_count; i++) {
		bool by_certificate = is_certified(t, &t->users[i]);

		printf("%s ", by_certificate ? certified : function);
		print_quoted(t->users[i].name);
		if (by_certificate) {
			putchar('\n');
			continue;
		}
		putchar(' ');
		print_variable(t->users[i].name);
		putchar('\n');
	}
}

static void print_beginning(const struct topology *t)
{
	fputs("vhost=", stdout);
	print_quoted(t->config->amqp.vhost);
	fputs("\nusers=$(ctl list_users --no-table-headers)\nmissing=\n", stdout);
	print_users(t, "need", ":");
	fputs("[ -z \"$missing\" ] || exit 1\n\n"
	      "# A virtual host keeps hcpd and its callers apart from everything else at the broker.\n"
	      "if ! has \"$(ctl list_vhosts --no-table-headers)\" \"$vhost\"; then ctl add_vhost \"$vhost\"; "
	      "fi\n\n"
	      "# Without tags: none of them is an administrator, nor may it speak in another's name "
	      "(impersonator).\n",
		stdout);
	print_users(t, "make_user", "make_certified");
}

static void print_json(const char *text)
{
	struct buf b = {0};

	buf_add_json(&b, text, strlen(text));
	fwrite(b.data, 1, b.size, stdout);
	buf_fini(&b);
}

/* rabbitmqctl has no command to declare, but it can import definitions. */
static void print_definitions(const struct topology *t)
{
	const struct config *c = t->config;
	bool quorum = c->amqp.queue_type == QUEUE_QUORUM;
	/* The last exchange only where it is configured. */
	static const struct {
		const char *name, *type;
	} exchanges[] = {{EXCHANGE_COMMANDS, "direct"}, {EXCHANGE_EVENTS, "topic"}, {TOPOLOGY_DEAD, "fanout"},
		{TOPOLOGY_HARP, "topic"}};
	size_t exchange_count = sizeof exchanges / sizeof *exchanges - !config_wants_harp(c);
	const struct {
		const char *prefix, *name, *arguments;
	} queues[] = {{COMMAND_QUEUE_PREFIX, c->callee_id,
			      quorum ? "{\"x-queue-type\":\"quorum\",\"x-single-active-consumer\":true}" :
				       "{\"x-queue-type\":\"classic\"}"},
		{"", TOPOLOGY_DEAD,
			quorum ? "{\"x-queue-type\":\"quorum\"}" : "{\"x-queue-type\":\"classic\"}"}};
	const struct {
		const char *from, *prefix, *to, *key;
	} bindings[] = {{EXCHANGE_COMMANDS, COMMAND_QUEUE_PREFIX, c->callee_id, c->callee_id},
		{TOPOLOGY_DEAD, "", TOPOLOGY_DEAD, ""}};

	fputs("\n# The exchanges, the command queue, and where dead letters go. Callers make their own "
	      "queues, hcp.evt.CALLER and\n"
	      "# below. What exists is left as it is: hcpctl doctor tells where it does not fit.\n"
	      "ctl_in import_definitions <<'END'\n{\"exchanges\":[",
		stdout);
	for (size_t i = 0; i < exchange_count; i++) {
		printf("%s\n {\"vhost\":", i ? "," : "");
		print_json(c->amqp.vhost);
		printf(",\"name\":\"%s\",\"type\":\"%s\",\"durable\":true,\"auto_delete\":false,\"internal\":"
		       "false,\"arguments\":{}}",
			exchanges[i].name, exchanges[i].type);
	}
	fputs("],\n\"queues\":[", stdout);
	for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
		printf("%s\n {\"vhost\":", i ? "," : "");
		print_json(c->amqp.vhost);
		printf(",\"name\":\"%s%s\",\"durable\":true,\"auto_delete\":false,\"arguments\":%s}",
			queues[i].prefix, queues[i].name, queues[i].arguments);
	}
	fputs("],\n\"bindings\":[", stdout);
	for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++) {
		printf("%s\n {\"vhost\":", i ? "," : "");
		print_json(c->amqp.vhost);
		printf(",\"source\":\"%s\",\"destination\":\"%s%s\",\"destination_type\":\"queue\","
		       "\"routing_key\":\"%s\",\"arguments\":{}}",
			bindings[i].from, bindings[i].prefix, bindings[i].to, bindings[i].key);
	}
	fputs("]}\nEND\n", stdout);
}

static void print_keys(const struct topology_user *u, bool is_harp)
{
	struct buf b = {0};

	fputs("\nctl set_topic_permissions -p \"$vhost\" ", stdout);
	print_quoted(u->name);
	printf(" %s", is_harp ? TOPOLOGY_HARP : EXCHANGE_EVENTS);
	for (int right = TOPOLOGY_WRITE; right <= TOPOLOGY_READ; right++) {
		buf_clear(&b);
		topology_add_keys(&b, u, is_harp, (enum topology_right)right);
		putchar(' ');
		print_quoted(buf_text(&b));
	}
	buf_fini(&b);
}

static void print_patterns(const struct topology *t, const struct topology_user *u)
{
	struct buf b = {0};

	fputs("ctl set_permissions -p \"$vhost\" ", stdout);
	print_quoted(u->name);
	for (int right = TOPOLOGY_CONFIGURE; right <= TOPOLOGY_READ; right++) {
		buf_clear(&b);
		topology_add_pattern(&b, t, u, (enum topology_right)right);
		fputs(" \\\n\t", stdout);
		print_quoted(buf_text(&b));
	}
	print_keys(u, false);
	if (config_wants_harp(t->config))
		print_keys(u, true);
	putchar('\n');
	buf_fini(&b);
}

static void print_permissions(const struct topology *t)
{
	fputs("\n# Permissions are expressions for what a user may configure (make, delete), write (publish "
	      "to; a queue: bind) and\n"
	      "# read (consume; an exchange: bind to). Those of topics are for routing keys of hcp.events, "
	      "write and read.\n"
	      "# The broker has none for the keys of hcp.commands: who may send to one callee in a virtual "
	      "host, may send to all, and\n"
	      "# hcpd decides by amqp_user whom it listens to. Daemons that do not trust each other want "
	      "virtual hosts of their own.\n",
		stdout);
	for (size_t i = 0; i < t->user_count; i++) {
		const struct topology_user *u = &t->users[i];

		putchar('\n');
		if (u->is_daemon)
			printf("# hcpd: takes commands from hcp.cmd.%s, publishes events to any caller, and "
			       "makes the exchanges and\n"
			       "# its queue anew should somebody delete them. It cannot read an event.\n",
				t->config->callee_id);
		for (size_t k = 0; k < u->caller_count; k++)
			printf("# Caller %s: sends commands, has queues hcp.evt.%s and hcp.evt.%s.*, and "
			       "binds keys %s.* only: it\n"
			       "# can neither publish events nor read another caller's.\n",
				u->callers[k], u->callers[k], u->callers[k], u->callers[k]);
		print_patterns(t, u);
	}
}

static void print_policies(const struct topology *t)
{
	const char *callee = t->config->callee_id;
	bool quorum = t->config->amqp.queue_type == QUEUE_QUORUM;

	printf("\n# Commands that hcpd rejects, because they cannot be read or name no caller, go "
	       "to " TOPOLOGY_DEAD ".\n");
	if (quorum)
		printf("# A quorum queue gives a message up after delivery-limit deliveries (RabbitMQ 4: 20 "
		       "unless it is set):\n"
		       "# with a dead-letter exchange it is not lost then.\n");
	printf("ctl set_policy -p \"$vhost\" --apply-to queues hcp-cmd-%s '^hcp\\.cmd\\.%s$' \\\n"
	       "\t'{\"dead-letter-exchange\":\"" TOPOLOGY_DEAD "\"%s}'\n",
		callee, callee, quorum ? ",\"delivery-limit\":100" : "");
	printf("# A week of them, and no more than 10,000. Look at them with an administrator's tools; "
	       "nobody else may.\n"
	       "ctl set_policy -p \"$vhost\" --apply-to queues hcp-dead '^hcp\\.dead$' \\\n"
	       "\t'{\"message-ttl\":604800000,\"max-length\":10000,\"overflow\":\"drop-head\"}'\n"
	       "\n# Optional, and off: events of callers that stay away are dropped after a day. Without it "
	       "their queues grow.\n"
	       "#ctl set_policy -p \"$vhost\" --apply-to queues hcp-evt '^hcp\\.evt\\.' "
	       "'{\"message-ttl\":86400000}'\n");
}

static void print_script(const struct topology *t)
{
	print_head(t);
	print_functions();
	print_beginning(t);
	print_definitions(t);
	print_permissions(t);
	print_policies(t);
	printf("\necho \"done: hcpctl doctor looks whether all is well\"\n}\n\n# Nothing runs before all of "
	       "it was read.\nmain\n");
}

/* --- the command --- */

static void on_config(void *ctx, bool is_error, const char *text)
{
	char *ours = doctor_reword_config(text);

	(void)ctx;
	if (is_error)
		ctl_say("%s", ours ? ours : text);
	free(ours);
}

/* The user that hcpd logs in with, now or after the script, keeps its rights, so it must not be a caller's
 * too. */
static bool is_daemons(const struct topology *t, const struct topology_user *u)
{
	const struct config_amqp *a = &t->config->amqp;

	return u->is_daemon || (a->sasl != SASL_EXTERNAL && a->user && strcmp(a->user, u->name) == 0);
}

static bool check_apart(const struct topology *t)
{
	bool ok = true;

	for (size_t i = 0; i < t->user_count; i++)
		for (size_t k = 0; is_daemons(t, &t->users[i]) && k < t->users[i].caller_count; k++) {
			const char *caller = t->users[i].callers[k], *user = t->users[i].name;

			ok = false;
			ctl_say("caller %s has the user %s, with which hcpd itself logs in%s, and the script "
				"would change that user's rights; give the caller a user of its own, "
				"amqp_user in [caller %s]%s, or leave it out with --callers",
				caller, user,
				t->is_renamed && t->users[i].is_daemon ? " after the script" : "", caller,
				strcmp(caller, user) == 0 ? " with another name" : ", such as its name");
		}
	return ok;
}

static bool check_callers(char *const *callers)
{
	for (; *callers; callers++)
		if (!message_is_caller_id(*callers, strlen(*callers))) {
			ctl_say("--callers: %s does not do; write 1 to 128 letters, digits, -, _ and :",
				*callers);
			return false;
		}
	return true;
}

/* Prints what the broker lacks now, with the doctor's checks. The script is printed in any case. */
static void compare(struct config *c, const char *rabbitmqctl)
{
	struct doctor d = {.path = c->path,
		.rabbitmqctl = rabbitmqctl,
		.config = c,
		.voice = DOCTOR_WARNINGS,
		.lock_unseen = true};

	doctor_check_shared(&d);
	if (doctor_check_broker(&d)) {
		doctor_check_topology(&d);
		doctor_check_rights(&d);
	}
	if (rabbitmqctl)
		doctor_check_listed(&d);
}

static int print_for(const char *path, char *const *callers, const char *user, const char *rabbitmqctl)
{
	struct config *c;
	struct topology t;
	int status = CTL_ERROR;

	doctor_find_credentials();
	if (!(c = config_load(path, on_config, NULL)))
		return CTL_BAD_SETTINGS;
	topology_plan(&t, c, callers, user);
	if (!check_apart(&t))
		goto out;
	print_script(&t);
	/* The script is flushed first, because the checks take time: half a script is worse than none. */
	if ((status = doctor_end_output(CTL_OK)) != CTL_OK)
		goto out;
	if (t.user_count == 1 && t.users[0].caller_count == 0)
		ctl_say("warning: no caller is named; write [caller NAME] sections, or --callers NAME,NAME");
	compare(c, rabbitmqctl);
out:
	topology_fini(&t);
	config_free(c);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	enum { OPT_CALLERS = 256, OPT_USER, OPT_CTL };
	static const struct option options[] = {{"callers", required_argument, NULL, OPT_CALLERS},
		{"user", required_argument, NULL, OPT_USER},
		{"rabbitmqctl", required_argument, NULL, OPT_CTL}, CTL_OPERATOR_OPTIONS};
	const char *user = NULL, *rabbitmqctl = NULL, *names = NULL;
	struct ctl_settings s;
	char **callers;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case OPT_CALLERS: names = optarg; break;
		case OPT_USER: user = optarg; break;
		case OPT_CTL: rabbitmqctl = optarg; break;
		default:
			if ((status = ctl_command_option(c, argv, &ctl_topology, o)) >= 0)
				return c == 'h' ? doctor_end_output(status) : status;
		}
	}
	if (optind < argc)
		return ctl_command_usage("topology ", "topology takes no %s", argv[optind]);
	if ((status = ctl_command_settings(&s, o)))
		return status;
	callers = names ? shellwords_split_list(names) : NULL;
	if (callers && !check_callers(callers))
		status = CTL_USAGE;
	else
		status = print_for(doctor_config_path(o, &s), callers, user, rabbitmqctl);
	shellwords_free(callers);
	ctl_settings_fini(&s);
	return status;
}

const struct ctl_command ctl_topology = {.name = "topology",
	.summary = "print the broker's set-up as a shell script",
	.help = help,
	.run = run};
