/* SPDX-License-Identifier: MIT */
/* id.h: UUIDs and random bytes. A leaf: a test that defines id_make or id_random itself
 * replaces ours (they are weak). */
#ifndef HCPD_BASE_ID_H
#define HCPD_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

#define ID_SIZE 37 /* 36 characters and the NUL */

void id_make(char out[ID_SIZE]);        /* UUID v4, lower case */
bool id_is_uuid4(const char *text);     /* either case */
void id_random(void *out, size_t size); /* fit for keys */

#endif
