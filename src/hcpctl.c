/* hcpctl.c: main() of hcpctl: global options, and which command it is.
 * Owns nothing else: every command has its own file, ctl_*.c. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_table.h"
#include "ctl.h"
#include "ctl_cmd.h"

static const struct ctl_command *const commands[] = { &ctl_submit, &ctl_watch, &ctl_abort };
#define COMMANDS (sizeof commands / sizeof *commands)

static int show_help(void)
{
	printf("usage: hcpctl [options] command ...\n\n"
		"Hands tasks to an HCP callee over RabbitMQ and shows what becomes of them.\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-8s  %s\n", commands[i]->name, commands[i]->summary);
	printf("\n" CTL_GLOBAL_HELP
		"  -h, --help          this; `hcpctl COMMAND --help` tells more\n"
		"  -V, --version       the version\n"
		"\nExample:\n"
		"  export HCP_CALLER=alpha HCP_CALLEE=demo\n"
		"  hcpctl submit echo --input text=hello\n"
		"\nExit status: 0 completed, 2 failed, 3 rejected, 4 aborted, 5 no answer, 1 other trouble here,\n"
		"64 wrong usage, 69 no broker, 78 wrong settings, 130 interrupted. hcpctl(1) has it all.\n");
	return fflush(stdout) == 0 ? CTL_COMPLETED : CTL_ERROR;
}

static int show_version(void)
{
	printf("hcpctl %s\n", HCPD_VERSION);
	return fflush(stdout) == 0 ? CTL_COMPLETED : CTL_ERROR;
}

static int complain_of_command(const char *name)
{
	const char *names[COMMANDS], *near;

	for (size_t i = 0; i < COMMANDS; i++)
		names[i] = commands[i]->name;
	near = config_find_nearest(name, names, COMMANDS);
	if (near)
		return ctl_cmd_usage("", "there is no command %s; did you mean %s?", name, near);
	return ctl_cmd_usage("", "there is no command %s", name);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "version", no_argument, NULL, 'V' }, CTL_GLOBAL_OPTIONS };
	static const struct ctl_command top = { .name = "", .help = "" };
	struct ctl_options o = { 0 };
	int c, status;

	setlocale(LC_CTYPE, "");        /* how wide characters are; numbers stay as JSON has them */
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
		if (c == 'h')
			return show_help();
		if (c == 'V')
			return show_version();
		if ((status = ctl_cmd_option(c, argv, &top, &o)) >= 0)
			return status;
	}
	if (optind >= argc)
		return ctl_cmd_usage("", "a command is missing: submit, watch or abort");
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(argv[optind], commands[i]->name) == 0) {
			argc -= optind;
			argv += optind;
			optind = 0;     /* getopt begins anew, with the command's own options */
			return commands[i]->run(argc, argv, &o);
		}
	return complain_of_command(argv[optind]);
}
