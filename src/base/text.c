/* SPDX-License-Identifier: MIT */
/* text.c: texts, integers and bytes written into arrays.
 * Owns nothing; a leaf. Never allocates, never writes behind the size that it was given. */
#include "base/text.h"

#include <string.h>

size_t text_append(char *to, size_t size, size_t used, const char *text)
{
	size_t length = strnlen(text, size - used - 1);

	memcpy(to + used, text, length);
	to[used + length] = '\0';
	return used + length;
}

size_t text_copy(char *to, size_t size, const char *text)
{
	return text_append(to, size, 0, text);
}

size_t text_put_uint(char *out, uint64_t value)
{
	char digits[TEXT_INT_SIZE], *p = digits + sizeof digits;
	size_t size;

	*--p = '\0';
	do
		*--p = (char)('0' + value % 10);
	while (value /= 10);
	size = (size_t)(digits + sizeof digits - p) - 1;
	memcpy(out, p, size + 1);
	return size;
}

size_t text_put_int(char *out, int64_t value)
{
	if (value >= 0)
		return text_put_uint(out, (uint64_t)value);
	out[0] = '-';
	return 1 + text_put_uint(out + 1, 0 - (uint64_t)value);
}

void text_put_hex(char *out, const void *data, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
}
