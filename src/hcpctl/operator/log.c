/* SPDX-License-Identifier: MIT */
/* log.c: `hcpctl log`: what a session's worker wrote.
 * Owns the form of its lines. Never interprets them. */
#include <stdio.h>
#include <string.h>

#include "hcpctl/common/stream.h"
#include "hcpctl/common/table.h"
#include "json/text.h"

static void show(const struct ctl_stream *s, const char *json, size_t size)
{
	json_t *item = jtext_load(json, size, 0, NULL);
	const char *level = ctl_op_text(item, "level"), *message = ctl_op_text(item, "message"), *colour;
	char at[CTL_SPAN_SIZE];
	struct buf line = {0};

	colour = !s->term.colour ? "" :
				   ctl_table_colour(strcmp(level, "error") == 0 ? 'r' :
						   strcmp(level, "warn") == 0   ? 'y' :
										  '\0');
	ctl_op_local(item, "at", "%Y-%m-%d %H:%M:%S", at);
	buf_addf(&line, "%s %s", at, colour);
	ctl_escape(&line, level, strnlen(level, 16), false);
	buf_addf(&line, "%*s%s ", strlen(level) < 5 ? (int)(5 - strlen(level)) : 0, "",
		*colour ? "\033[0m" : "");
	ctl_escape(&line, message, strlen(message), false);
	buf_add_text(&line, "\n");
	fwrite(line.data, 1, line.size, stdout);
	buf_fini(&line);
	json_decref(item);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	struct ctl_stream s = {.verb = "log", .show = show};

	return ctl_stream_command(&s, &ctl_log, false, argc, argv, o);
}

const struct ctl_command ctl_log = {
	.name = "log",
	.summary = "what a session's worker logged: SESSION [--follow]",
	.help = "usage: hcpctl log [options] SESSION\n\n"
		"The log lines, warnings and errors of a session: what its worker wrote, stderr included, "
		"and what\n"
		"the daemon had to say about it. Where the daemon does not run, its store is read.\n\n"
		"  -f, --follow        go on until the session is over, through restarts of the daemon\n"
		"      --json          one JSON object a line: at, level, message, row\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl log 5f0c --follow\n",
	.run = run,
};
