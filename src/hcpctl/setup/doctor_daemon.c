/* SPDX-License-Identifier: MIT */
/* doctor_daemon.c: what a running daemon reports over its control socket, and who can reach the socket.
 * Owns which of its figures is a finding.
 * Never limits its own time: the caller does. */
#include "hcpctl/setup/doctor.h"
#include "json/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hcpctl/common/client.h"

#define UNIT_CONFIG "/etc/hcpd/hcpd.ini"
#define UNIT_DIR "/run/hcpd" /* its RuntimeDirectory */
#define OLD_S 300            /* a message that has waited so long for its confirm is a finding */

static bool is_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

/* An older hcpd does not report it. */
static void report_program(struct doctor *d, const json_t *program)
{
	const char *command = json_string_value(json_object_get(program, "command")),
		   *why = json_string_value(json_object_get(program, "why"));
	long long span_s = (long long)json_number_value(json_object_get(program, "for_s"));

	if (!command || !why)
		return;
	if (is_true(program, "runs"))
		doctor_say(d, DOCTOR_OK, "policy", NULL, "the policy program %s runs, for %lld s now",
			command, span_s);
	else
		doctor_say(d, DOCTOR_FAIL, "policy",
			"mend it, or correct command in [policy]; hcpd tries again by itself, at once with a "
			"SIGHUP",
			"the policy program %s is down for %lld s, and every task is denied: %s", command,
			span_s, why);
}

/* As above. Reports nothing where retention works. */
static void report_retention(struct doctor *d, const json_t *stuck)
{
	const char *why = json_string_value(json_object_get(stuck, "why"));

	if (why)
		doctor_say(d, DOCTOR_FAIL, "retention",
			"mend what it names; hcpctl archive verify looks at all of the archive",
			"ended sessions have not left the store for %lld s: %s",
			(long long)json_number_value(json_object_get(stuck, "stuck_s")), why);
}

static bool on_stats(void *ctx, const char *text, size_t size)
{
	struct doctor *d = ctx;
	json_t *stats = jtext_load(text, size, 0, NULL), *outbox = json_object_get(stats, "outbox");
	long long oldest_s = json_integer_value(json_object_get(outbox, "oldest_s"));

	if (is_true(stats, "held"))
		doctor_say(d, DOCTOR_FAIL, "daemon",
			"see its log: the disk is full or broken, or somebody else writes to the store",
			"hcpd stands still, because the store takes nothing");
	if (is_true(stats, "draining"))
		doctor_say(d, DOCTOR_WARN, "daemon", "hcpctl undrain", "hcpd is draining: new tasks wait");
	if (json_object_get(stats, "consuming") && !is_true(stats, "consuming"))
		doctor_say(d, DOCTOR_FAIL, "daemon", "see its log for why",
			"hcpd does not consume commands now");
	if (json_object_get(stats, "publishing") && !is_true(stats, "publishing"))
		doctor_say(d, DOCTOR_FAIL, "daemon", "see its log for why; nothing is lost meanwhile",
			"hcpd cannot publish now");
	if (is_true(stats, "blocked"))
		doctor_say(d, DOCTOR_WARN, "daemon",
			"rabbitmq-diagnostics alarms, at the broker: memory or disk",
			"the broker has an alarm, and takes no messages");
	if (oldest_s > OLD_S)
		doctor_say(d, DOCTOR_WARN, "daemon",
			"see its log: a caller's queue may be full, or a permission be missing",
			"the oldest unconfirmed message has waited for %lld s", oldest_s);
	report_program(d, json_object_get(stats, "policy_program"));
	report_retention(d, json_object_get(stats, "retention"));
	doctor_say(d, DOCTOR_OK, "daemon", NULL, "it answers: %lld sessions run, %lld wait",
		(long long)json_integer_value(json_object_get(stats, "running")),
		(long long)json_integer_value(json_object_get(stats, "waiting")));
	json_decref(stats);
	return true;
}

void doctor_check_answers(struct doctor *d, const void *settings)
{
	int status, silence = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct ctl_client *c;

	/* This is a child: messages of the client about its problems become a finding instead. */
	if (silence >= 0)
		dup2(silence, STDERR_FILENO);
	c = ctl_client_open(settings, CTL_DAEMON_QUIETLY, &status);
	if (!c || ctl_client_ask(c, json_pack("{s:s}", "do", "stats"), on_stats, d, NULL) != 0)
		doctor_say(d, geteuid() == 0 || geteuid() == d->uid ? DOCTOR_WARN : DOCTOR_SKIP, "daemon",
			"see [control] in hcpd.ini: where is the socket, and who may use it? An hcpd of "
			"before has none: restart it",
			"hcpd runs, and does not answer on its control socket");
	ctl_client_close(c);
}

/* --- the group of [control] --- */

/* False: the unit makes the directory when it starts; before that nothing can be said about it. */
static bool find_socket(const struct doctor *d, char *path, size_t size)
{
	bool is_units = strcmp(d->path, UNIT_CONFIG) == 0;

	if (d->config->control_socket)
		snprintf(path, size, "%s", d->config->control_socket);
	else if (is_units && access(UNIT_DIR, F_OK) == 0)
		snprintf(path, size, UNIT_DIR "/control.sock");
	else
		snprintf(path, size, "%s/control.sock", d->config->state_dir);
	return d->config->control_socket || !is_units || d->pid || access(UNIT_DIR, F_OK) == 0;
}

static bool may_enter(const struct doctor *d, const char *dir)
{
	struct stat st;

	if (stat(dir, &st) < 0) {
		if (errno != ENOENT || strcmp(dir, d->config->state_dir) != 0)
			/* not visible, or not made yet: its owner and mode are unknown */
			return true;
		st = (struct stat){.st_mode = config_has_users(d->config) ? 0711 : 0700};
	}
	if (getxattr(dir, "system.posix_acl_access", NULL, 0) > 0)
		return true; /* an administrator has set the group on purpose */
	return st.st_mode & (st.st_gid == (gid_t)d->config->control_gid ? S_IXGRP : S_IXOTH);
}

void doctor_check_socket(struct doctor *d)
{
	char path[PATH_MAX], *at = path;

	if (!d->config->control_group ||
		strcmp(d->config->control_socket ? d->config->control_socket : "", "off") == 0 ||
		!find_socket(d, path, sizeof path))
		return;
	while ((at = strchr(at + 1, '/'))) {
		*at = '\0';
		if (!may_enter(d, path)) {
			doctor_say(d, DOCTOR_WARN, "control",
				"write socket = PATH into [control], in a directory that they may enter, "
				"such as the unit's RuntimeDirectory",
				"group %s may use the control socket, and cannot get to it: its members may "
				"not enter %s",
				d->config->control_group, path);
			return;
		}
		*at = '/';
	}
	doctor_say(d, DOCTOR_OK, "control", NULL, "group %s gets to the control socket %s",
		d->config->control_group, path);
}
