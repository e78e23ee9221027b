/* SPDX-License-Identifier: MIT */
/* text.c: makes text safe for a terminal.
 * Owns which characters are shown as they are and which are escaped: events come from others.
 * Never decides what is printed. */
#include "hcpctl/common/ctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* The code point of a character that buf_utf8_size has measured. */
static unsigned decode(const unsigned char *text, size_t size)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	unsigned c = text[0] & first[size];

	for (size_t i = 1; i < size; i++)
		c = c << 6 | (text[i] & 0x3f);
	return c;
}

/* Besides controls: characters that change the direction of a line, or that are invisible. */
static bool is_unsafe(unsigned c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
		(c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static void add_escape(struct buf *out, unsigned c)
{
	switch (c) {
	case '\n': buf_add_text(out, "\\n"); break;
	case '\t': buf_add_text(out, "\\t"); break;
	case '\r': buf_add_text(out, "\\r"); break;
	default: buf_addf(out, c < 0x80 ? "\\x%02x" : "\\u%04x", c);
	}
}

void ctl_escape(struct buf *out, const char *text, size_t size, bool keep_lines)
{
	const unsigned char *p = (const unsigned char *)text;

	while (size > 0) {
		size_t step = buf_utf8_size(p, size);
		unsigned c = step ? decode(p, step) : 0;

		if (step == 0)
			buf_addf(out, "\\x%02x", *p);
		else if (is_unsafe(c) && !(keep_lines && c == '\n'))
			add_escape(out, c);
		else
			buf_add(out, p, step);
		step = step ? step : 1;
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
