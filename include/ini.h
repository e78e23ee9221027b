/* ini.h: INI text to (line, section, key, value). At most a reader: what a key means is config.c's. */
#ifndef HCPD_INI_H
#define HCPD_INI_H

#include <stddef.h>

/* key is NULL for a section's head, so that empty sections are seen; both are NULL and value says what
 * is wrong for a line that is none. Values are trimmed; ` ;` and ` #` start a comment, unless quoted
 * text follows... a value in double quotes is taken to its closing quote. */
typedef void ini_line_fn(void *ctx, int line, const char *section, const char *key, const char *value);

void ini_parse(const char *text, size_t size, ini_line_fn *on_line, void *ctx);

#endif
