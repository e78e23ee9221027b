/* SPDX-License-Identifier: MIT */
/* buf_format.c: printf into a buffer.
 * Owns the few conversions that messages are made of, and are written without printf: printf writes a text
 * byte by byte where its room is bounded, and once more where the room was too small.
 * Never writes anything else than printf would. */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* NULL: a precision that is not known here. */
static const char *read_precision(const char *p, va_list *args, size_t *most)
{
	int n;

	*most = SIZE_MAX;
	if (*p != '.')
		return p;
	if (p[1] != '*')
		return NULL;
	n = va_arg(*args, int);
	if (n >= 0) /* a negative one counts as none */
		*most = (size_t)n;
	return p + 2;
}

static bool add_string(struct buf *b, va_list *args, size_t most)
{
	const char *text = va_arg(*args, const char *);

	if (text == NULL)
		return false; /* printf has a word for it */
	buf_add(b, text, strnlen(text, most));
	return true;
}

/* The letter and its length are at p. NULL: a conversion that is not known here. */
static const char *add_integer(struct buf *b, const char *p, va_list *args)
{
	char text[TEXT_INT_SIZE];
	size_t size;

	if (p[0] == 'd')
		size = text_put_int(text, va_arg(*args, int));
	else if (p[0] == 'u')
		size = text_put_uint(text, va_arg(*args, unsigned));
	else if (p[0] == 'z' && p[1] == 'u')
		size = text_put_uint(text, va_arg(*args, size_t));
	else if (p[0] == 'l' && p[1] == 'l' && p[2] == 'd')
		size = text_put_int(text, va_arg(*args, long long));
	else if (p[0] == 'l' && p[1] == 'l' && p[2] == 'u')
		size = text_put_uint(text, va_arg(*args, unsigned long long));
	else
		return NULL;
	buf_add(b, text, size);
	return p + (p[0] == 'l' ? 3 : p[0] == 'z' ? 2 : 1);
}

/* False: the format has a conversion that is not known here. */
static bool add_simple(struct buf *b, const char *fmt, va_list *args)
{
	for (const char *p = fmt; p != NULL;) {
		const char *at = strchr(p, '%');
		size_t most;

		if (at == NULL) {
			buf_add_text(b, p);
			return true;
		}
		buf_add(b, p, (size_t)(at - p));
		if (at[1] == '%') {
			buf_add(b, at, 1);
			p = at + 2;
			continue;
		}
		p = read_precision(at + 1, args, &most);
		if (p != NULL && *p == 's')
			p = add_string(b, args, most) ? p + 1 : NULL;
		else if (p != NULL)
			p = most == SIZE_MAX ? add_integer(b, p, args) : NULL;
	}
	return false;
}

static void __attribute__((format(printf, 2, 0))) add_printf(struct buf *b, const char *fmt, va_list args)
{
	va_list again;
	int size;

	va_copy(again, args);
	buf_reserve(b, 128);
	size = vsnprintf(b->data + b->size, b->room - b->size, fmt, args);
	assert(size >= 0); /* the formats are constants, and none of them fails */
	if ((size_t)size >= b->room - b->size) {
		buf_reserve(b, (size_t)size + 1);
		vsnprintf(b->data + b->size, b->room - b->size, fmt, again);
	}
	b->size += (size_t)size;
	va_end(again);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	size_t before = b->size;
	va_list args, again;

	va_start(args, fmt);
	va_copy(again, args);
	if (!add_simple(b, fmt, &args)) {
		b->size = before;
		add_printf(b, fmt, again);
	}
	va_end(again);
	va_end(args);
}
