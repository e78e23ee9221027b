/* SPDX-License-Identifier: MIT */
/* text.h: short texts into arrays, without printf: what a hot path writes with each message. */
#ifndef HCPD_BASE_TEXT_H
#define HCPD_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_INT_SIZE 21 /* "-9223372036854775808" and its NUL; no 64-bit integer is longer */

/* snprintf(to, size, "%s", text): cut off at size - 1, always with its NUL. Returns the length of what is in
 * `to`, not that of the text. size > 0. */
size_t text_copy(char *to, size_t size, const char *text);
/* A further text behind the `used` bytes that `to` has by now: returns how many it has then. */
size_t text_append(char *to, size_t size, size_t used, const char *text);
/* The decimal form with its NUL, at most TEXT_INT_SIZE bytes. Returns its length. */
size_t text_put_int(char *out, int64_t value);
size_t text_put_uint(char *out, uint64_t value);
/* Lower-case hex, two digits a byte, without a NUL. */
void text_put_hex(char *out, const void *data, size_t size);

#endif
