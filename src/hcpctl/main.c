/* SPDX-License-Identifier: MIT */
/* main.c: main() of hcpctl: global options, and the choice of the command.
 * Owns the table of the commands. Never does what a command does: each command has a file of its name, or
 * shares one with its family (caller/, operator/, setup/). */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/name.h"
#include "hcpctl/common/ctl.h"
#include "hcpctl/common/command.h"

#define LIST(...) \
	(const struct ctl_command *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}

static const struct group {
	const char *title;
	const struct ctl_command *const *commands; /* NULL at the end */
} groups[] = {
	{"For callers, over RabbitMQ:", LIST(&ctl_submit, &ctl_watch, &ctl_abort)},
	{"For operators, at the daemon's machine: look",
		LIST(&ctl_list, &ctl_show, &ctl_events, &ctl_log, &ctl_checkpoints, &ctl_artifact, &ctl_stats,
			&ctl_audit, &ctl_archive)},
	{"For operators: act",
		LIST(&ctl_pause, &ctl_resume, &ctl_checkpoint, &ctl_recover, &ctl_extend, &ctl_replay,
			&ctl_drain, &ctl_undrain, &ctl_token)},
	{"For approvers, at the daemon's machine:",
		LIST(&ctl_approvals, &ctl_approve, &ctl_deny, &ctl_keygen)},
	{"Setting up:", LIST(&ctl_doctor, &ctl_topology, &ctl_complete)},
};
enum { GROUPS = sizeof groups / sizeof *groups, NAMES_MAX = 32 };

static int show_help(void)
{
	printf("usage: hcpctl [options] command ...\n\n"
	       "Hands tasks to an HCP callee over RabbitMQ and shows what becomes of them; looks after the "
	       "daemon.\n");
	for (const struct group *g = groups; g < groups + GROUPS; g++) {
		printf("\n%s\n", g->title);
		for (const struct ctl_command *const *c = g->commands; *c; c++)
			if ((*c)->summary) /* not for people */
				printf("  %-11s  %s\n", (*c)->name, (*c)->summary);
	}
	printf("\nOptions:\n" CTL_GLOBAL_HELP CTL_OPERATOR_HELP
	       "  -h, --help          this; `hcpctl COMMAND --help` and `hcpctl help COMMAND` tell more\n"
	       "  -V, --version       the version\n"
	       "\nSessions are named by their id, or by the first characters of it.\n"
	       "\nExample:\n"
	       "  export HCP_CALLER=alpha HCP_CALLEE=demo\n"
	       "  hcpctl submit echo --input text=hello\n"
	       "  hcpctl list --state live\n"
	       "\nExit status: 0 completed, 2 failed, 3 rejected, 4 aborted, 5 no answer, 1 other trouble "
	       "here,\n"
	       "64 wrong usage, 69 no broker or no daemon, 78 wrong settings, 130 interrupted. hcpctl(1) has "
	       "it all.\n");
	return fflush(stdout) == 0 ? CTL_OK : CTL_ERROR;
}

static const struct ctl_command *find_command(const char *name)
{
	for (const struct group *g = groups; g < groups + GROUPS; g++)
		for (const struct ctl_command *const *c = g->commands; *c; c++)
			if (strcmp((*c)->name, name) == 0)
				return *c;
	return NULL;
}

static int show_version(void)
{
	printf("hcpctl %s\n", HCPD_VERSION);
	return fflush(stdout) == 0 ? CTL_OK : CTL_ERROR;
}

/* True where the words share half of their letters at the beginning and the end. The number of edits alone
 * would offer `log` for `foo`. */
static bool is_slip(const char *typed, const char *name)
{
	size_t typed_size = strlen(typed), size = strlen(name), most = typed_size < size ? typed_size : size;
	size_t head = 0, tail = 0;

	while (head < most && typed[head] == name[head])
		head++;
	while (head + tail < most && typed[typed_size - 1 - tail] == name[size - 1 - tail])
		tail++;
	return 2 * (head + tail) >= (typed_size > size ? typed_size : size);
}

static int complain_of_command(const char *name)
{
	const char *names[NAMES_MAX], *near;
	size_t count = 0;

	for (const struct group *g = groups; g < groups + GROUPS; g++)
		for (const struct ctl_command *const *c = g->commands; *c && count < NAMES_MAX - 1; c++)
			if ((*c)->summary)
				names[count++] = (*c)->name;
	names[count++] = "help";
	near = name_find_nearest(name, names, count);
	if (near && is_slip(name, near))
		return ctl_command_usage("", "there is no command %s; did you mean %s?", name, near);
	return ctl_command_usage("", "there is no command %s", name);
}

/* `hcpctl help`, `hcpctl help COMMAND`: argv begins with help. */
static int help_with(int argc, char **argv, struct ctl_options *o)
{
	char option[] = "--help", *words[] = {argc > 1 ? argv[1] : NULL, option, NULL};
	const struct ctl_command *command;

	if (argc < 2 || strcmp(argv[1], "help") == 0)
		return show_help();
	if (argc > 2 && argv[2][0] != '-' && strcmp(argv[1], "artifact") != 0)
		return ctl_command_usage("", "help is about one command: %s is too much", argv[2]);
	if (!(command = find_command(argv[1])))
		return complain_of_command(argv[1]);
	optind = 0;
	return command->run(2, words, o);
}

/* Rooms that hcpctl shares with the daemon log a line now and then, and a log does not wait by itself. */
static void write_last_lines(void)
{
	log_drain(1000);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"version", no_argument, NULL, 'V'}, CTL_GLOBAL_OPTIONS};
	static const struct ctl_command top = {.name = "", .help = ""};
	const struct ctl_command *command;
	struct ctl_options o = {0};
	int c, status;

	setlocale(LC_CTYPE, ""); /* for the width of characters; LC_NUMERIC stays "C", as JSON needs it */
	atexit(write_last_lines);
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
		if (c == 'h')
			return show_help();
		if (c == 'V')
			return show_version();
		if ((status = ctl_command_option(c, argv, &top, &o)) >= 0)
			return status;
	}
	if (optind >= argc)
		return ctl_command_usage("", "a command is missing, such as submit, watch or list");
	if (strcmp(argv[optind], "help") == 0)
		return help_with(argc - optind, argv + optind, &o);
	if (!(command = find_command(argv[optind])))
		return complain_of_command(argv[optind]);
	argc -= optind;
	argv += optind;
	optind = 0; /* getopt starts again, with the options of the command */
	return command->run(argc, argv, &o);
}
