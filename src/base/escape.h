/* SPDX-License-Identifier: MIT */
/* escape.h: which characters of foreign text are shown as they are: in the log, and on a terminal. */
#ifndef HCPD_BASE_ESCAPE_H
#define HCPD_BASE_ESCAPE_H

#include <stddef.h>

enum { ESCAPE_SIZE = 12 };

/* The size of the character that the text (left > 0 bytes) begins with; 1 for a byte that begins none. `out`
 * becomes its escape: \n, \x1b, \u202e or \U000e0041; "": it may be shown as it is. */
size_t escape_next(const unsigned char *text, size_t left, char out[ESCAPE_SIZE]);

#endif
