/* SPDX-License-Identifier: MIT */
/* command.c: what hcpctl's commands share at their beginning.
 * Owns global options and the messages about wrong usage and missing settings.
 * Never knows a command by name. */
#include "hcpctl/common/command.h"
#include "protocol/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ctl_command_usage(const char *command, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int size;

	va_start(ap, fmt);
	size = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (size < 0)
		abort();
	ctl_say("%s; see hcpctl %s--help", text, command);
	free(text);
	return CTL_USAGE;
}

int ctl_command_option(int c, char **argv, const struct ctl_command *command, struct ctl_options *o)
{
	const char **fields[] = {&o->url, &o->caller, &o->callee, &o->config, &o->socket, &o->daemon_config};
	char name[32];

	if (c >= CTL_OPT_GLOBAL && c < CTL_OPT_GLOBAL + (int)(sizeof fields / sizeof *fields)) {
		*fields[c - CTL_OPT_GLOBAL] = optarg;
		return -1;
	}
	if (c == 'h') {
		fputs(command->help, stdout);
		return fflush(stdout) == 0 ? CTL_OK : CTL_ERROR;
	}
	snprintf(name, sizeof name, "%s%s", command->name, *command->name ? " " : "");
	if (c == ':')
		return ctl_command_usage(name, "%s needs a value", argv[optind - 1]);
	if (optopt > 0 && optopt < 256)
		return ctl_command_usage(name, "there is no option -%c", optopt);
	return ctl_command_usage(name, "%s is no option, or not a whole one", argv[optind - 1]);
}

static void say_setting(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	ctl_say("%s%s", is_error ? "" : "warning: ", text);
}

int ctl_command_label(const char *command, json_t *labels, const char *text)
{
	const char *value = strchr(text, '=');
	size_t size = value != NULL ? (size_t)(value - text) : 0;
	char name[LABEL_SIZE_MAX + 1];

	if (size == 0 || size > LABEL_SIZE_MAX || strlen(value + 1) > LABEL_SIZE_MAX)
		return ctl_command_usage(command,
			"--label %s is no label; write NAME=VALUE, each of at most %d bytes", text,
			LABEL_SIZE_MAX);
	snprintf(name, sizeof name, "%.*s", (int)size, text);
	if (json_object_set_new(labels, name, json_string(value + 1)) < 0)
		return ctl_command_usage(command, "--label %s is not UTF-8; write it anew", text);
	return 0;
}

int ctl_command_settings(struct ctl_settings *s, const struct ctl_options *o)
{
	return ctl_settings_load(s, o, say_setting, NULL) < 0 ? CTL_BAD_SETTINGS : 0;
}

int ctl_command_missing(const struct ctl_settings *s, const char *what)
{
	bool is_caller = strcmp(what, "caller") == 0;

	ctl_say("no %s is named; use --%s ID, set %s, or write %s = ID below [hcpctl] in %s", what, what,
		is_caller ? "HCP_CALLER" : "HCP_CALLEE", what,
		s->path ? s->path : "a file given with --config");
	return CTL_BAD_SETTINGS;
}

int ctl_command_unreachable(const struct ctl_settings *s, const struct connection_error *e)
{
	ctl_say("%s", e->text);
	ctl_say("the broker is %s, from --url, HCP_URL or [hcpctl] url in %s", s->config->amqp.url,
		s->path ? s->path : "a file");
	if (e->is_login)
		return CTL_BAD_SETTINGS;
	return connection_is_refusal(e) ? CTL_ERROR : CTL_UNAVAILABLE;
}
