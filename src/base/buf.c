/* SPDX-License-Identifier: MIT */
/* buf.c: growing buffers, shared blobs, JSON strings.
 * Owns the sizes of all of them, and what happens when memory is out.
 * Never interprets what it holds beyond UTF-8; formats are buf_format.c's. */
#include "base/buf.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* --- memory --- */

/* Plain write(2): the log formats into memory, and there is none. Not where nobody reads: a process that
 * waits there would not end. */
static void *out_of_memory(void)
{
	static const char text[] = "level=error out of memory, giving up; the store has everything\n";
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

	if (poll(&room, 1, 0) > 0 && write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		abort();
	abort();
}

void *xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	return p ? p : out_of_memory();
}

void *xcalloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size ? size : 1);

	return p ? p : out_of_memory();
}

void *xrealloc(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	return p ? p : out_of_memory();
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xstrndup(const char *text, size_t size)
{
	size_t length = strnlen(text, size);
	char *copy = xmalloc(length + 1);

	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

/* --- buffers --- */

#define FIRST_ROOM 256 /* most texts fit: growing costs more than the bytes that stay unused */

void buf_grow(struct buf *b, size_t more)
{
	size_t need, room = b->room ? b->room : FIRST_ROOM;

	if (__builtin_add_overflow(b->size, more, &need) || need > SIZE_MAX / 4)
		out_of_memory();
	while (room < need)
		room *= 2;
	b->data = xrealloc(b->data, room);
	b->room = room;
}

void buf_add_int(struct buf *b, int64_t value)
{
	char digits[TEXT_INT_SIZE];

	buf_add(b, digits, text_put_int(digits, value));
}

void buf_drop(struct buf *b, size_t size)
{
	assert(size <= b->size);
	b->size -= size;
	if (b->size > 0)
		memmove(b->data, b->data + size, b->size);
}

const char *buf_text(struct buf *b)
{
	buf_reserve(b, 1);
	b->data[b->size] = '\0';
	return b->data;
}

void buf_clear(struct buf *b)
{
	b->size = 0;
}

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}

/* --- JSON strings --- */

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t buf_utf8_size(const unsigned char *text, size_t left)
{
	unsigned char a = text[0];

	if (a < 0x80)
		return 1;
	if (a < 0xc2 || a > 0xf4 || left < 2 || !is_tail(text[1]))
		return 0;
	if (a < 0xe0)
		return 2;
	if (left < 3 || !is_tail(text[2]))
		return 0;
	if (a < 0xf0) /* not overlong, not a surrogate */
		return (a == 0xe0 && text[1] < 0xa0) || (a == 0xed && text[1] > 0x9f) ? 0 : 3;
	if (left < 4 || !is_tail(text[3]))
		return 0;
	return (a == 0xf0 && text[1] < 0x90) || (a == 0xf4 && text[1] > 0x8f) ? 0 : 4;
}

/* Length of the character that goes into a JSON string as it is; 0: it is escaped. */
static size_t size_as_it_is(const char *text, size_t left)
{
	unsigned char c = (unsigned char)*text;

	return c < 0x20 || c == '"' || c == '\\' ? 0 : buf_utf8_size((const unsigned char *)text, left);
}

/* Returns its length. */
static size_t escape(unsigned char c, char out[6])
{
	static const char short_form[32] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	static const char hex[] = "0123456789abcdef";
	const char whole[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

	memcpy(out, whole, sizeof whole);
	if (c >= 0x80) {
		memcpy(out, "\xef\xbf\xbd", 3);
		return 3;
	}
	if (c < 0x20 && !short_form[c])
		return 6;
	out[1] = c >= 0x20 ? (char)c : short_form[c];
	return 2;
}

size_t buf_json_cut(const char *text, size_t size, size_t most)
{
	char out[6];
	size_t i = 0;

	while (i < size && most > 0) {
		size_t step = most >= 8 && size - i >= 8 && buf_find_special(text + i) == 0 ?
			8 :
			size_as_it_is(text + i, size - i);
		size_t takes = step > 0 ? step : escape((unsigned char)text[i], out);

		if (takes > most)
			break;
		most -= takes;
		i += step > 0 ? step : 1;
	}
	return i;
}

void buf_add_json(struct buf *b, const char *text, size_t size)
{
	size_t start = 0, i = 0; /* text[start..i) goes out as it is */
	char out[6];

	text = size > 0 ? text : ""; /* an empty buffer has no data */
	buf_reserve(b, size + 2);
	b->data[b->size++] = '"';
	while ((i += buf_plain_size(text + i, size - i)) < size) {
		size_t step = size_as_it_is(text + i, size - i);

		if (step > 0) {
			i += step;
			continue;
		}
		buf_add(b, text + start, i - start);
		buf_add(b, out, escape((unsigned char)text[i], out));
		start = ++i;
	}
	if (i > start)
		buf_add(b, text + start, i - start);
	buf_add(b, "\"", 1);
}

/* --- blobs --- */

struct blob *blob_new(const void *data, size_t size)
{
	struct blob *b;

	assert(size <= UINT32_MAX);
	b = xmalloc(sizeof(*b) + size);
	b->refs = 1;
	b->size = (uint32_t)size;
	if (size > 0)
		memcpy(b->data, data, size);
	return b;
}

struct blob *blob_ref(struct blob *b)
{
	b->refs++;
	return b;
}

void blob_unref(struct blob *b)
{
	if (b && --b->refs == 0)
		free(b);
}

size_t buf_utf8_cut(const char *text, size_t size, size_t most)
{
	if (size <= most)
		return size;
	while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
		most--;
	return most;
}

void xfree_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}
