/* SPDX-License-Identifier: MIT */
/* ini.h: INI text to (line, section, key, value). At most a reader: what a key means is config.c's. */
#ifndef HCPD_BASE_INI_H
#define HCPD_BASE_INI_H

#include <stddef.h>

#define INI_LINE_MAX 16384 /* bytes; a longer line is an error */

/* key is NULL for a section's head, so that empty sections are seen; both are NULL and value says what
 * is wrong for a line that is none. Keys before the first section have the section "". Keys below a broken
 * head are not reported: their section is unknown.
 * All three are trimmed and live until the function returns. A line that starts with ; or # is a comment, and
 * so is what follows a ; or # after white space, unless that is inside a quoted stretch ("..." or '...',
 * closed on the same line). Quotes stay in the value: some values have words of their own in them. */
typedef void ini_line_fn(void *ctx, int line, const char *section, const char *key, const char *value);

/* CRLF, a byte order mark and a last line without its newline are fine. */
void ini_parse(const char *text, size_t size, ini_line_fn *on_line, void *ctx);

#endif
