/* SPDX-License-Identifier: MIT */
/* diff.h: what differs between two JSON values, place by place. */
#ifndef HCPD_JSON_DIFF_H
#define HCPD_JSON_DIFF_H

#include <jansson.h>
#include <stddef.h>

/* One difference. path: a JSON pointer (RFC 6901) into the new value, or into the old one where the value is
 * gone; borrowed. was NULL: the value is new; is NULL: the value is gone. */
typedef void jdiff_fn(void *ctx, const char *path, const json_t *was, const json_t *is);

/* Visits members in the order of their names. Items that two arrays share at both ends are no difference, so
 * that an item inserted or removed in the middle is one difference. Returns the number of differences. fn may
 * be NULL. */
size_t jdiff(const json_t *was, const json_t *is, jdiff_fn *fn, void *ctx);

#endif
