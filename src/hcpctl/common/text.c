/* SPDX-License-Identifier: MIT */
/* text.c: makes text safe for a terminal.
 * Owns what is kept of text that comes from others: its lines, its columns. Never decides what is printed. */
#include "hcpctl/common/ctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/escape.h"

void ctl_escape(struct buf *out, const char *text, size_t size, bool keep_lines)
{
	const unsigned char *p = (const unsigned char *)text;
	char escape[ESCAPE_SIZE];

	while (size > 0) {
		size_t step = escape_next(p, size, escape);

		if (escape[0] != '\0' && !(keep_lines && *p == '\n'))
			buf_add_text(out, escape);
		else
			buf_add(out, p, step);
		p += step;
		size -= step;
	}
}

size_t ctl_fit(const char *text, size_t size, int columns, int *used)
{
	size_t done = 0;
	int left = columns;
	mbstate_t state = {0};

	while (done < size) {
		wchar_t c;
		size_t step = mbrtowc(&c, text + done, size - done, &state);
		int width = 1;

		if (step == (size_t)-1 || step == (size_t)-2 || step == 0) {
			step = buf_utf8_size((const unsigned char *)text + done, size - done);
			step = step ? step : 1;
			memset(&state, 0, sizeof state);
		} else if (wcwidth(c) >= 0) {
			width = wcwidth(c);
		}
		if (width > left)
			break;
		left -= width;
		done += step;
	}
	if (used)
		*used = columns - left;
	return done;
}

static ctl_say_fn *say_fn;
static void *say_ctx;

void ctl_say_via(ctl_say_fn *fn, void *ctx)
{
	say_fn = fn;
	say_ctx = ctx;
}

void ctl_say(const char *fmt, ...)
{
	struct buf line = {0};
	char *text;
	va_list ap;
	int size;

	va_start(ap, fmt);
	size = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (size < 0)
		abort();
	buf_add_text(&line, "hcpctl: ");
	ctl_escape(&line, text, (size_t)size, false);
	buf_add_text(&line, "\n");
	if (say_fn) {
		say_fn(say_ctx, line.data, line.size);
	} else {
		fflush(stdout); /* flush first: stdout and stderr keep their order where both go to one place
				 */
		fwrite(line.data, 1, line.size, stderr);
	}
	free(text);
	buf_fini(&line);
}
