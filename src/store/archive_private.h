/* SPDX-License-Identifier: MIT */
/* archive_private.h: the layout of an entry, for archive.c and archive_read.c only.
 *
 *	0   4   0x184D2A5C          a skippable frame: zstd's programs step over it
 *	4   4   92                  its length
 *	8   4   "HCPA"
 *	12  4   1                   version of this layout
 *	16  8   length of the zstd frame that follows
 *	24  8   length of what that unpacks to
 *	32  36  session id
 *	68  32  SHA-256 of the zstd frame
 *	100     the zstd frame
 * Numbers are little-endian. */
#ifndef HCPD_STORE_ARCHIVE_PRIVATE_H
#define HCPD_STORE_ARCHIVE_PRIVATE_H

#include "store/archive.h"

#define SKIPPABLE 0x184D2A5Cu
#define ENTRY_MARK "HCPA"
#define ENTRY_VERSION 1
enum {
	AT_MARK = 8,
	AT_VERSION = 12,
	AT_FRAME_SIZE = 16,
	AT_TEXT_SIZE = 24,
	AT_SESSION = 32,
	AT_HASH = 68,
	HASH_SIZE = 32,
	HEADER_SIZE = 100
};

_Static_assert(AT_SESSION + ID_SIZE - 1 == AT_HASH, "an id is 36 characters");

#endif
