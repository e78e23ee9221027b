/* canon.h: canonical JSON: one text for one value, and its hash.
 *
 * UTF-8, keys sorted by code point, no white space, minimal escapes with lower-case hex, everything else raw,
 * reals as %.17g. Two texts of the same value ({"b":1.10,"a":"\u00e9"} and {"a":"é","b":1.1}) have the same
 * form. */
#ifndef HCPD_CANON_H
#define HCPD_CANON_H

#include <jansson.h>

#include "base/buf.h"

#define CANON_HASH_SIZE 65 /* SHA-256 in lower-case hex, and a NUL */

void canon_add(struct buf *b, const json_t *value);
void canon_hash(const json_t *value, char hex[CANON_HASH_SIZE]);
/* SHA-256 of any bytes, written in the same way. */
void canon_hash_bytes(const void *data, size_t size, char hex[CANON_HASH_SIZE]);

#endif
