/* SPDX-License-Identifier: MIT */
/* buf.h: a growing byte buffer, a shared immutable one, and JSON text written straight into them.
 * Out of memory ends the process: nothing is half done then, the store has it all. */
#ifndef HCPD_BASE_BUF_H
#define HCPD_BASE_BUF_H

#include <endian.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
	char *data; /* not NUL-terminated; see buf_text */
	size_t size, room;
};

void buf_grow(struct buf *b, size_t more);
static inline void buf_reserve(struct buf *b, size_t more)
{
	if (b->room - b->size < more)
		buf_grow(b, more);
}
/* Inline: a message is made of many short constant texts, whose sizes the compiler knows. */
static inline void buf_add(struct buf *b, const void *data, size_t size)
{
	if (size == 0)
		return;
	buf_reserve(b, size);
	memcpy(b->data + b->size, data, size);
	b->size += size;
}
static inline void buf_add_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}
void buf_add_int(struct buf *b, int64_t value);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes: minimal escapes, lower-case hex; bytes that are not UTF-8 become U+FFFD. */
void buf_add_json(struct buf *b, const char *text, size_t size);
/* Of eight bytes: the top bit is set of those that are a control, a quote, a backslash or not ASCII. The
 * terms set it where the byte is below 0x20, zero after the xor, or has it. A borrow adds false ones, but
 * only above a true one. */
static inline uint64_t buf_find_special(const char *text)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
	uint64_t v, quote, slash;

	memcpy(&v, text, sizeof(v));
	v = le64toh(v);
	quote = v ^ (ones * '"');
	slash = v ^ (ones * '\\');
	return ((v - ones * 0x20) | (quote - ones) | (slash - ones) | v) & tops;
}
/* How many bytes of the text, from its beginning, stand in a JSON string as they are and are ASCII: no
 * control, no quote, no backslash. */
static inline size_t buf_plain_size(const char *text, size_t size)
{
	size_t i = 0;

	for (; size - i >= 8; i += 8) {
		uint64_t special = buf_find_special(text + i);

		if (special != 0)
			return i + (size_t)__builtin_ctzll(special) / 8;
	}
	for (; i < size; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
			break;
	}
	return i;
}
/* How much of a text fits into `most` bytes as JSON, quotes aside, without cutting a character. */
size_t buf_json_cut(const char *text, size_t size, size_t most);
/* Drops the first `size` bytes. */
void buf_drop(struct buf *b, size_t size);
/* NUL-terminated view, until the next change. */
const char *buf_text(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
void buf_fini(struct buf *b);

/* Length in bytes of the UTF-8 character at text, 0 where there is none (overlong forms, surrogates and
 * what is above U+10FFFF are none). left > 0. */
size_t buf_utf8_size(const unsigned char *text, size_t left);
/* How much of a text fits into `most` bytes without cutting a character. */
size_t buf_utf8_cut(const char *text, size_t size, size_t most);

/* Immutable bytes with many readers in one thread: an event's body is made once and shared by the
 * batch, the outbox and the bus. */
struct blob {
	uint32_t refs, size;
	char data[];
};

struct blob *blob_new(const void *data, size_t size); /* one reference, the caller's */
struct blob *blob_ref(struct blob *b);
void blob_unref(struct blob *b); /* NULL is fine */

/* malloc and friends that do not return NULL. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t size);
/* Overwrites the text, and frees it. NULL is fine. */
void xfree_secret(char *text);

#endif
