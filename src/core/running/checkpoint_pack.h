/* SPDX-License-Identifier: MIT */
/* checkpoint_pack.h: from a `checkpoint` line to what is stored of it: hashed once, compressed once.
 *
 * Three steps: checkpoint_pack_load on the core's thread reads what a delta builds on; checkpoint_pack_make,
 * which takes long for a large state, may run on any thread; checkpoint_store_put uses the result. */
#ifndef HCPD_CORE_RUNNING_CHECKPOINT_PACK_H
#define HCPD_CORE_RUNNING_CHECKPOINT_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "json/canonical.h"
#include "store/checkpoint.h"
#include "store/state_compress.h"

struct session;
struct capability;
struct worker_line;

struct checkpoint_pack {
	/* what it is made from */
	int64_t max_size;
	const struct capability *cap; /* of the session's process, which lives as long */
	bool is_beside;               /* it is small: no delta, and the large base stays the base */
	bool has_base;                /* `base` has the full checkpoint that a delta may build on ... */
	struct store_kept base;       /* ... verified by `make` */
	char base_hash[CANONICAL_HASH_SIZE];
	bool wants_change; /* `before` has the checkpoint before, to compare with */
	struct checkpoint_rows before;
	/* what was made */
	bool is_made;
	size_t whole_size; /* of the state's text */
	bool is_unfit;     /* it does not fit the state_schema: `why`; nothing but the size was made */
	char why[512];
	bool is_too_large; /* nothing but the size was made */
	char sha256[CANONICAL_HASH_SIZE];
	enum state_encoding encoding;
	struct buf bytes;
	int64_t base_row;                     /* of a delta; 0: no delta */
	char bytes_hash[CANONICAL_HASH_SIZE]; /* of a full one: of `bytes`; deltas that build on it need it */
	double change;                        /* the share that is new; below 0: not known */
};

/* size: of the line. */
void checkpoint_pack_load(struct checkpoint_pack *p, struct session *s, size_t size);
/* Pure. l: a `checkpoint` line. */
void checkpoint_pack_make(struct checkpoint_pack *p, const struct worker_line *l);
void checkpoint_pack_fini(struct checkpoint_pack *p);

#endif
