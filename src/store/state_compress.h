/* SPDX-License-Identifier: MIT */
/* state_compress.h: the stored form of a checkpoint's state: its text, the text compressed, or the
 * difference to an earlier state.
 *
 * Restoring gives the text byte for byte. A delta is zstd's, with the base's text as prefix. It is no JSON
 * Merge Patch (RFC 7396): that format cannot set null, replaces a whole array or long text for one changed
 * word, and turns 1.10 into 1.1. A zstd delta needs no parsing, and is never more than a few bytes longer
 * than the text. */
#ifndef HCPD_STORE_STATE_COMPRESS_H
#define HCPD_STORE_STATE_COMPRESS_H

#include <stddef.h>

#include "base/buf.h"

enum state_encoding { STATE_JSON, STATE_ZSTD, STATE_DELTA, STATE_COUNT };
extern const char *const state_encoding_names[STATE_COUNT]; /* json, zstd, delta */
int state_encoding_parse(const char *name);                 /* -1: no such encoding */

/* up to this size a state is always stored as text, for people to read */
enum { STATE_PLAIN_MAX = 4096 };

/* base NULL: there is none; base and text must not share memory. Appends to *out. Chooses STATE_DELTA only
 * where it saves half of the size of the compressed text. */
enum state_encoding state_compress(
	const char *text, size_t size, const char *base, size_t base_size, struct buf *out);
/* Appends the text. `size` is its expected length; base: of a delta. 0, or -1: the bytes do not give such a
 * text. */
int state_restore(enum state_encoding kind, const void *bytes, size_t stored, size_t size, const char *base,
	size_t base_size, struct buf *out) __attribute__((warn_unused_result));
/* How much of a text is new against an earlier one: 0 nothing, 1 all of it. packed, delta: the size of the
 * text as STATE_ZSTD, and as a STATE_DELTA of the earlier one, where the caller knows them; else 0. */
double state_change(
	const char *text, size_t size, const char *before, size_t before_size, size_t packed, size_t delta);

#endif
