/* SPDX-License-Identifier: MIT */
/* log_format.c: formats a log line.
 * Owns which values are quoted. Never escapes control characters (log.c), never writes. */
#include "base/log_format.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

struct writer {
	char *to;
	size_t used, size; /* without the NUL */
	bool is_cut;
};

static void put(struct writer *w, const char *text, size_t size)
{
	if (size > w->size - w->used) {
		size = w->size - w->used;
		w->is_cut = true;
	}
	memcpy(w->to + w->used, text, size);
	w->used += size;
}

static void put_quoted(struct writer *w, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '"' || text[i] == '\\')
			put(w, "\\", 1);
		put(w, text + i, 1);
	}
}

/* ---- one conversion ---- */

struct conversion {
	const char *at, *end; /* from the % to behind the letter */
	bool is_left;
	int width, precision; /* -1: none */
	char length;          /* 0, l, L for ll, z, j or t */
	char letter;
};

static int read_number(const char **p, va_list *args)
{
	int n = 0;

	if (**p == '*') {
		(*p)++;
		return va_arg(*args, int);
	}
	while (**p >= '0' && **p <= '9' && n < 100000)
		n = n * 10 + *(*p)++ - '0';
	return n;
}

static void read_conversion(struct conversion *c, const char *fmt, va_list *args)
{
	const char *p = fmt + 1;

	*c = (struct conversion){.at = fmt, .width = -1, .precision = -1};
	while (*p != '\0' && strchr("-+ #0", *p) != NULL)
		c->is_left |= *p++ == '-';
	if (*p == '*' || (*p >= '1' && *p <= '9'))
		c->width = read_number(&p, args);
	if (*p == '.') {
		p++;
		c->precision = read_number(&p, args);
	}
	while (*p == 'h')
		p++;
	if (*p != '\0' && strchr("lzjt", *p) != NULL)
		c->length = *p++;
	if (c->length == 'l' && *p == 'l') {
		c->length = 'L';
		p++;
	}
	c->letter = *p;
	c->end = *p != '\0' ? p + 1 : p;
}

/* The conversion with its flags, and the width and precision as they are by now. */
static void make_spec(const struct conversion *c, char spec[64], const char *length)
{
	size_t flags = strspn(c->at + 1, "-+ #0");
	char width[16] = "", precision[16] = "";

	if (c->width >= 0)
		snprintf(width, sizeof width, "%d", c->width);
	if (c->precision >= 0)
		snprintf(precision, sizeof precision, ".%d", c->precision);
	snprintf(spec, 64, "%%%.*s%s%s%s%c", (int)(flags < 5 ? flags : 5), c->at + 1, width, precision,
		length, c->letter);
}

static intmax_t take_signed(char length, va_list *args)
{
	switch (length) {
	case 'l': return va_arg(*args, long);
	case 'L': return va_arg(*args, long long);
	case 'z': return va_arg(*args, ssize_t);
	case 'j': return va_arg(*args, intmax_t);
	case 't': return va_arg(*args, ptrdiff_t);
	default: return va_arg(*args, int);
	}
}

static uintmax_t take_unsigned(char length, va_list *args)
{
	switch (length) {
	case 'l': return va_arg(*args, unsigned long);
	case 'L': return va_arg(*args, unsigned long long);
	case 'z': return va_arg(*args, size_t);
	case 'j': return va_arg(*args, uintmax_t);
	case 't': return (uintmax_t)va_arg(*args, ptrdiff_t);
	default: return va_arg(*args, unsigned);
	}
}

/* Has the conversion neither flags nor width nor precision? Most have none, and need no printf. */
static bool is_bare(const struct conversion *c)
{
	return c->width < 0 && c->precision < 0 && strchr("-+ #0", c->at[1]) == NULL;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the formats are pieces of one that was checked */

/* False: no conversion that is known here; its argument was not taken. */
static bool put_scalar(struct writer *w, const struct conversion *c, va_list *args)
{
	char spec[64], text[512];

	switch (c->letter) {
	case 'd':
	case 'i':
		if (is_bare(c)) {
			text_put_int(text, take_signed(c->length, args));
			break;
		}
		make_spec(c, spec, "j");
		snprintf(text, sizeof text, spec, take_signed(c->length, args));
		break;
	case 'u':
	case 'o':
	case 'x':
	case 'X':
		if (c->letter == 'u' && is_bare(c)) {
			text_put_uint(text, take_unsigned(c->length, args));
			break;
		}
		make_spec(c, spec, "j");
		snprintf(text, sizeof text, spec, take_unsigned(c->length, args));
		break;
	case 'c':
		make_spec(c, spec, "");
		snprintf(text, sizeof text, spec, va_arg(*args, int));
		break;
	case 'e':
	case 'f':
	case 'g':
		make_spec(c, spec, "");
		snprintf(text, sizeof text, spec, va_arg(*args, double));
		break;
	case 'p':
		make_spec(c, spec, "");
		snprintf(text, sizeof text, spec, va_arg(*args, void *));
		break;
	default: return false;
	}
	put(w, text, strlen(text));
	return true;
}

#pragma GCC diagnostic pop

static void put_text(struct writer *w, const struct conversion *c, const char *before, const char *text)
{
	bool is_value = c->at > before && c->at[-1] == '=',
	     is_in_quotes = c->at > before + 1 && c->at[-1] == '"' && c->at[-2] == '=' && *c->end == '"';
	size_t size, pad;

	if (text == NULL)
		text = "(null)";
	size = c->precision >= 0 ? strnlen(text, (size_t)c->precision) : strlen(text);
	pad = c->width >= 0 && (size_t)c->width > size ? (size_t)c->width - size : 0;
	while (!c->is_left && pad > 0 && !w->is_cut) {
		put(w, " ", 1);
		pad--;
	}
	if (is_in_quotes) {
		put_quoted(w, text, size);
	} else if (is_value && (memchr(text, '=', size) != NULL || (size > 0 && *text == '"'))) {
		put(w, "\"", 1);
		put_quoted(w, text, size);
		put(w, "\"", 1);
	} else {
		put(w, text, size);
	}
	while (pad > 0 && !w->is_cut) {
		put(w, " ", 1);
		pad--;
	}
}

bool log_format(char *out, size_t size, const char *fmt, va_list given)
{
	struct writer w = {.to = out, .size = size - 1};
	struct conversion c;
	const char *p = fmt;
	va_list args;

	va_copy(args, given);
	while (*p != '\0') {
		size_t plain = strcspn(p, "%");

		put(&w, p, plain);
		p += plain;
		if (*p == '\0')
			break;
		if (p[1] == '%') {
			put(&w, p, 1);
			p += 2;
			continue;
		}
		read_conversion(&c, p, &args);
		if (c.letter == 's') {
			put_text(&w, &c, fmt, va_arg(args, const char *));
		} else if (!put_scalar(&w, &c, &args)) {
			put(&w, p, strlen(p)); /* as it is: its arguments cannot be known */
			break;
		}
		p = c.end;
	}
	va_end(args);
	out[w.used] = '\0';
	return !w.is_cut;
}
