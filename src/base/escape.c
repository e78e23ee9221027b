/* SPDX-License-Identifier: MIT */
/* escape.c: escapes of the characters that would deceive a human, or command a terminal.
 * Owns the table of them. Never decides what is printed. */
#include "base/escape.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

/* The code point of a character that buf_utf8_size has measured. */
static unsigned decode(const unsigned char *text, size_t size)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	unsigned c = text[0] & first[size];

	for (size_t i = 1; i < size; i++)
		c = c << 6 | (text[i] & 0x3f);
	return c;
}

/* Controls, characters that change the direction of a line, and characters that are invisible: Unicode's
 * Default_Ignorable_Code_Point, without which a human sees a text that is not the one that is there, line and
 * paragraph separators, and what is no character. */
static const struct {
	unsigned from, to;
} unsafe[] = {
	{0x00, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, /* soft hyphen */
	{0x34f, 0x34f}, {0x61c, 0x61c},           /* Arabic letter mark */
	{0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
	{0x200b, 0x200f},                   /* zero width, direction marks */
	{0x2028, 0x202e},                   /* separators, embeddings, overrides */
	{0x2060, 0x206f},                   /* joiners, isolates */
	{0x3164, 0x3164},                   /* Hangul filler */
	{0xfdd0, 0xfdef}, {0xfe00, 0xfe0f}, /* variation selectors */
	{0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0x1bca0, 0x1bca3},
	{0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, /* tags, more variation selectors */
};

static bool is_unsafe(unsigned c)
{
	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe && unsafe[i].from <= c; i++)
		if (c <= unsafe[i].to)
			return true;
	return false;
}

size_t escape_next(const unsigned char *text, size_t left, char out[ESCAPE_SIZE])
{
	size_t size = buf_utf8_size(text, left);
	unsigned c = size > 0 ? decode(text, size) : *text;

	out[0] = '\0';
	if (size == 0 || (is_unsafe(c) && c < 0x80 && c != '\n' && c != '\t' && c != '\r'))
		snprintf(out, ESCAPE_SIZE, "\\x%02x", c);
	else if (is_unsafe(c) && c < 0x80)
		snprintf(out, ESCAPE_SIZE, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
	else if (is_unsafe(c))
		snprintf(out, ESCAPE_SIZE, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
	return size > 0 ? size : 1;
}
