/* SPDX-License-Identifier: MIT */
/* ctl.h: what every part of hcpctl shares: its exit statuses, and how it prints messages. */
#ifndef HCPD_HCPCTL_COMMON_CTL_H
#define HCPD_HCPCTL_COMMON_CTL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum ctl_exit {
	CTL_OK = 0,    /* also: the request was done */
	CTL_ERROR = 1, /* a local problem: a file, the terminal, a refusal by the broker */
	CTL_FAILED = 2,
	CTL_REJECTED = 3,
	CTL_ABORTED = 4,
	CTL_NO_ANSWER = 5, /* no callee listens, or none answers in time */
	CTL_USAGE = 64,
	CTL_UNAVAILABLE = 69,
	CTL_BAD_SETTINGS = 78,
	CTL_INTERRUPTED = 130 /* by a signal; the session goes on */
};

/* Appends text in a form that is safe on a terminal: controls (C1 and bidirectional ones too) and bytes that
 * are not UTF-8 become escapes. keep_lines leaves newlines as they are. */
void ctl_escape(struct buf *out, const char *text, size_t size, bool keep_lines);
/* How many bytes of an escaped text fit into so many columns of a terminal. *used, where not NULL: the
 * columns that they take. A character whose width the locale does not know counts one. */
size_t ctl_fit(const char *text, size_t size, int columns, int *used);
/* Prints one line on stderr, `hcpctl: ` first, escaped. */
void ctl_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* While a screen is drawn, messages go to this function instead: one line, escaped, with its newline. NULL:
 * stderr. */
typedef void ctl_say_fn(void *ctx, const char *line, size_t size);
void ctl_say_via(ctl_say_fn *fn, void *ctx);

#endif
