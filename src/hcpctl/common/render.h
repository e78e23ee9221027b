/* SPDX-License-Identifier: MIT */
/* render.h: a message as words for people. Pure: text in, text out. */
#ifndef HCPD_HCPCTL_COMMON_RENDER_H
#define HCPD_HCPCTL_COMMON_RENDER_H

#include <stdbool.h>

#include "base/buf.h"
#include "hcpctl/common/message.h"

struct ctl_render_options {
	bool colour;
	bool with_session; /* several sessions are shown: each line names its own */
};

/* One line with its newline, escaped; local time. */
void ctl_render_line(struct buf *out, const struct ctl_message *n, struct ctl_render_options look);
/* Outputs or partial outputs, pretty-printed, and artifacts; nothing where there are none. */
void ctl_render_result(struct buf *out, const struct ctl_message *n);
/* JSON text as it is, with line breaks and indents; escaped. */
void ctl_render_pretty(struct buf *out, const char *text, size_t size);
/* `RUNNING mixing [#####-----] 50% 00:07 half way`, at most columns wide; how wide it is. percent below
 * 0: not known. */
int ctl_render_bar(struct buf *out, const char *state, const char *stage, double percent, const char *message,
	long elapsed_s, int columns, bool colour);
/* The body as one line, exactly as it came unless it had line breaks of its own between values. */
void ctl_render_json(struct buf *out, const struct ctl_message *n);

#endif
