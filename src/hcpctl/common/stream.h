/* SPDX-License-Identifier: MIT */
/* stream.h: a session's items one after another; a follow goes on after a restart of the daemon. */
#ifndef HCPD_HCPCTL_COMMON_STREAM_H
#define HCPD_HCPCTL_COMMON_STREAM_H

#include "hcpctl/common/op_common.h"
#include "hcpctl/common/terminal.h"

struct ctl_stream {
	const char *verb, *session;
	int64_t from; /* sequence; 0: everything */
	bool is_follow, is_json;
	/* One item for people, with its newline. */
	void (*show)(const struct ctl_stream *s, const char *json, size_t size);
	struct ctl_term term;
	int64_t row, sequence; /* row of the last item that was printed; 0: none yet */
};

/* Prints until the end of the items or, with follow, until the end of the session. Holds one item at a time
 * in memory. */
int ctl_stream_run(struct ctl_stream *s, struct ctl_options *o);
/* `events` and `log` have the same command line, except for --from. */
int ctl_stream_command(struct ctl_stream *s, const struct ctl_command *command, bool has_from, int argc,
	char **argv, struct ctl_options *o);

#endif
