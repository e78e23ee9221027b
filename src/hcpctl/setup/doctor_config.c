/* SPDX-License-Identifier: MIT */
/* doctor_config.c: the configuration and the declarations, with the messages of hcpd itself.
 * Owns which warnings mean nothing outside the daemon.
 * Never parses anything itself: config.c, capability.c, policy.c and process/confine.c do. */
#include "hcpctl/setup/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/capability.h"
#include "policy/policy.h"
#include "hcpctl/setup/topology.h"

struct config_findings {
	struct doctor *d;
	size_t said;
};

void doctor_find_credentials(void)
{
	static const char *const places[] = {"/run/credentials/hcpd.service", "/etc/credstore"};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (!getenv("CREDENTIALS_DIRECTORY") && access(places[i], X_OK) == 0)
			setenv("CREDENTIALS_DIRECTORY", places[i], 0);
}

/* A file or a variable that only the daemon can read is no fault of the configuration. */
static bool is_only_ours(bool is_error, const char *text)
{
	if (is_error)
		return geteuid() != 0 && strstr(text, "Permission denied");
	return strstr(text, "pass_env: ") && strstr(text, "is not set in hcpd's environment");
}

char *doctor_reword_config(const char *text)
{
	static const char option[] = "name the configuration with -c FILE";
	const char *at = strstr(text, option);
	char *other = NULL;

	if (at &&
		asprintf(&other, "%.*sname the configuration with --daemon-config FILE%s", (int)(at - text),
			text, at + strlen(option)) < 0)
		abort();
	return other;
}

static void on_config(void *ctx, bool is_error, const char *text)
{
	struct config_findings *count = ctx;
	char *ours = doctor_reword_config(text);

	if (ours)
		text = ours;
	if (is_only_ours(is_error, text)) {
		doctor_say(count->d, DOCTOR_SKIP, "config",
			is_error ? "run it as root, or as the user that runs hcpd" :
				   "see to it that the service has the variable (Environment= in its unit)",
			"%s", text);
	} else {
		count->said++;
		doctor_say_text(count->d, is_error ? DOCTOR_FAIL : DOCTOR_WARN, "config", text);
	}
	free(ours);
}

static void on_declaration(void *ctx, bool is_error, const char *text)
{
	struct config_findings *count = ctx;

	count->said++;
	doctor_say(count->d, is_error ? DOCTOR_FAIL : DOCTOR_WARN, "declaration",
		"correct the file; hcpd does not start, or reload, with it as it is", "%s", text);
}

static void check_declarations(struct doctor *d, const struct config *c)
{
	struct config_findings count = {.d = d};

	for (size_t i = 0; i < c->capability_count; i++)
		if (c->capabilities[i].declaration)
			capability_free(capability_load(&c->capabilities[i], on_declaration, &count));
	if (count.said == 0 && c == d->config && c->capability_count > 0)
		doctor_say(d, DOCTOR_OK, "declaration", NULL, "%zu can be read", c->capability_count);
}

/* --- approvers --- */

static void on_approver(void *ctx, bool is_error, const char *text)
{
	struct config_findings *count = ctx;

	count->said++;
	doctor_say(count->d, is_error ? DOCTOR_FAIL : DOCTOR_WARN, "config",
		"give every approver a key of its own, as hcpctl keygen makes it; hcpd does not start, or "
		"reload, with this one",
		"%s", text);
}

/* --- shared log-ins --- */

/* Calls say, where it is not NULL, for every caller with hcpd's own log-in. The user of a certificate is
 * known to the broker only. */
static bool find_shared(
	const struct doctor *d, void (*say)(struct doctor *d, const char *caller), struct doctor *to)
{
	const struct config_amqp *a = &d->config->amqp;
	struct topology t;
	bool found;

	if (a->sasl == SASL_EXTERNAL || !a->user)
		return false;
	topology_plan(&t, d->config, NULL, a->user);
	found = t.users[0].caller_count > 0;
	for (size_t i = 0; say && i < t.users[0].caller_count; i++)
		say(to, t.users[0].callers[i]);
	topology_fini(&t);
	return found;
}

static void say_shared(struct doctor *d, const char *caller)
{
	const char *user = d->config->amqp.user;
	char todo[512];

	snprintf(todo, sizeof todo,
		"give the caller a user of its own, amqp_user in [caller %.128s]%s; then hcpctl topology "
		"prints the commands that make it",
		caller, strcmp(caller, user) == 0 ? " with another name" : ", such as its name");
	doctor_say(d, DOCTOR_WARN, "permissions", todo,
		"caller %s has the user %s, with which hcpd itself logs in: it can read and make up "
		"everything",
		caller, user);
}

const char *doctor_todo_topology(const struct doctor *d)
{
	if (find_shared(d, NULL, NULL))
		return "first give every caller a user of its own, amqp_user in its section; then hcpctl "
		       "topology prints the commands";
	return "hcpctl topology prints the commands";
}

void doctor_check_shared(struct doctor *d)
{
	(void)find_shared(d, say_shared, d);
}

void doctor_check_config(struct doctor *d)
{
	struct config_findings count = {.d = d};
	struct config *c;
	bool good;

	doctor_find_credentials();
	c = config_load_partly(d->path, on_config, &count, &good);
	if (c)
		(void)policy_check_approvers(c, on_approver, &count);
	if (good)
		d->config = c;
	if (good && count.said == 0)
		doctor_say(d, DOCTOR_OK, "config", NULL, "%s: callee %s, %zu capabilit%s, %zu caller%s",
			d->path, d->config->callee_id, d->config->capability_count,
			d->config->capability_count == 1 ? "y" : "ies", d->config->caller_count,
			d->config->caller_count == 1 ? "" : "s");
	if (c)
		check_declarations(d, c);
	if (!good)
		config_free(c);
}
