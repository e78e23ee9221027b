/* pack.h: the state of a checkpoint, as it is stored: its text, compressed, or what differs from an earlier
 * one.
 *
 * What comes back is the text byte for byte. A delta is zstd's, with the base's text as its prefix, and no
 * JSON Merge Patch (RFC 7396): that cannot say null, replaces an array or a long text whole where one word of
 * it changed, and makes 1.1 of 1.10; this needs neither text parsed, and is never longer than the text itself
 * by more than a few bytes. */
#ifndef HCPD_PACK_H
#define HCPD_PACK_H

#include <stddef.h>

#include "base/buf.h"

enum pack_kind { PACK_JSON, PACK_ZSTD, PACK_DELTA, PACK_COUNT };
extern const char *const pack_names[PACK_COUNT]; /* json, zstd, delta */
int pack_parse(const char *name);                /* -1: no kind */

enum { PACK_PLAIN_MAX = 4096 }; /* up to here a state is always stored as its text, for people to read */

/* base NULL: there is none; it is other memory than the text. *out is appended to. PACK_DELTA only where that
 * saves half of what the whole one takes. */
enum pack_kind pack_state(const char *text, size_t size, const char *base, size_t base_size, struct buf *out);
/* Appends the text. `size` is what it must have; base: of a delta. 0, or -1: these bytes are not that text.
 */
int pack_restore(enum pack_kind kind, const void *bytes, size_t stored, size_t size, const char *base,
	size_t base_size, struct buf *out) __attribute__((warn_unused_result));
/* How much of a text is new against an earlier one: 0 nothing, 1 all of it. */
double pack_change(const char *text, size_t size, const char *before, size_t before_size);

#endif
