/* jdiff.h: what differs between two JSON values, place by place. */
#ifndef HCPD_JDIFF_H
#define HCPD_JDIFF_H

#include <jansson.h>
#include <stddef.h>

/* One difference. path: a JSON pointer (RFC 6901), in the new value, or in the old one where that is gone; a
 * loan. was NULL: it is new; is NULL: it is gone. */
typedef void jdiff_fn(void *ctx, const char *path, const json_t *was, const json_t *is);

/* Members in the order of their names. Of arrays what they have in common at both ends is no difference, so
 * that something put in the middle, or taken out, is said as that. The number of differences. fn may be NULL.
 */
size_t jdiff(const json_t *was, const json_t *is, jdiff_fn *fn, void *ctx);

#endif
