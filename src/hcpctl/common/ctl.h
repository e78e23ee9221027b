/* ctl.h: what every part of hcpctl shares: its exit statuses, and how it speaks. */
#ifndef HCPD_CTL_H
#define HCPD_CTL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum ctl_exit {
	CTL_COMPLETED = 0, /* also: what was asked for was done */
	CTL_ERROR = 1,     /* something local: a file, the terminal, a refusal by the broker */
	CTL_FAILED = 2,
	CTL_REJECTED = 3,
	CTL_ABORTED = 4,
	CTL_NO_ANSWER = 5, /* nobody listens, or nobody answers in time */
	CTL_USAGE = 64,
	CTL_NO_BROKER = 69,
	CTL_BAD_SETTINGS = 78,
	CTL_INTERRUPTED = 130 /* by a signal; the session goes on */
};

/* Appends text that may be shown on a terminal: controls (C1 and bidirectional ones too) and bytes that are
 * no UTF-8 become escapes. keep_lines leaves newlines as they are. */
void ctl_escape(struct buf *out, const char *text, size_t size, bool keep_lines);
/* How much of a text that was escaped fits into so many columns of a terminal; *used of them then, where not
 * NULL. What the locale cannot tell the width of counts one. */
size_t ctl_fit(const char *text, size_t size, int columns, int *used);
/* One line on stderr, `hcpctl: ` first, escaped. */
void ctl_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Where the screen is somebody's, what is said goes there instead: one line, escaped, with its newline. NULL:
 * stderr. */
typedef void ctl_say_fn(void *ctx, const char *line, size_t size);
void ctl_say_via(ctl_say_fn *fn, void *ctx);

#endif
