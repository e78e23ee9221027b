/* SPDX-License-Identifier: MIT */
/* canonical.h: canonical JSON: one text for one value, and its hash.
 *
 * UTF-8, keys sorted by code point, no white space, minimal escapes with lower-case hex, everything else raw,
 * reals as %.17g. Two texts of the same value ({"b":1.10,"a":"\u00e9"} and {"a":"é","b":1.1}) have the same
 * form. */
#ifndef HCPD_JSON_CANONICAL_H
#define HCPD_JSON_CANONICAL_H

#include <jansson.h>

#include "base/buf.h"

#define CANONICAL_HASH_SIZE 65 /* SHA-256 in lower-case hex, and a NUL */

void canonical_add(struct buf *b, const json_t *value);
void canonical_hash(const json_t *value, char hex[CANONICAL_HASH_SIZE]);
/* SHA-256 of any bytes, as lower-case hex. */
void canonical_hash_bytes(const void *data, size_t size, char hex[CANONICAL_HASH_SIZE]);

#endif
