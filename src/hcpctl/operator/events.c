/* SPDX-License-Identifier: MIT */
/* events.c: `hcpctl events`: a session's messages from the store.
 * Owns the command only: common/stream.c brings the messages, common/render.c writes them. Never acks
 * anything. */
#include <stdio.h>
#include <string.h>

#include "hcpctl/common/message.h"
#include "hcpctl/common/render.h"
#include "hcpctl/common/stream.h"
#include "json/text.h"

static void show(const struct ctl_stream *s, const char *json, size_t size)
{
	struct jslice event = jtext_member(json, size, "event");
	struct buf line = {0}, body = {0};
	struct ctl_message *n;

	if (event.at == NULL)
		return;
	buf_add(&body, event.at, event.size);
	buf_text(&body);
	if ((n = ctl_message_read(body.data, event.size)) == NULL) { /* ctl_message_read takes the body */
		ctl_escape(&line, event.at, event.size < 200 ? event.size : 200, false);
		buf_add_text(&line, "\n");
	} else {
		ctl_render_line(&line, n, (struct ctl_render_options){.colour = s->term.colour});
		ctl_message_free(n);
	}
	fwrite(line.data, 1, line.size, stdout);
	buf_fini(&line);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	struct ctl_stream s = {.verb = "events", .show = show};

	return ctl_stream_command(&s, &ctl_events, true, argc, argv, o);
}

const struct ctl_command ctl_events = {
	.name = "events",
	.summary = "all that a session said: SESSION [--from SEQ] [--follow] [--json]",
	.help = "usage: hcpctl events [options] SESSION\n\n"
		"Every message of a session, out of the store, whether the caller took it or not. Where the "
		"daemon\n"
		"does not run, the store is read all the same.\n\n"
		"  -n, --from SEQ      from this sequence on\n"
		"  -f, --follow        go on until the session is over, through restarts of the daemon\n"
		"      --json          one object a line: event (the message), row, settled (the broker has "
		"it)\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl events 5f0c --follow\n  hcpctl events 5f0c --json | jq "
		".event.payload\n",
	.run = run,
};
