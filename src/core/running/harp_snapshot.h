/* SPDX-License-Identifier: MIT */
/* harp_snapshot.h: a worker's snapshot line: verified, stored and published once, or refused in
 * HARP-SESSION's words. */
#ifndef HCPD_CORE_RUNNING_HARP_SNAPSHOT_H
#define HCPD_CORE_RUNNING_HARP_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "harp/session.h"

struct core;
struct session;
struct worker_line;

/* What a snapshot line says: read once. Three steps as with a checkpoint (checkpoint_pack.h): `load` on the
 * core's thread; `make`, which takes long for a large line, on any thread; harp_snapshot_reported uses it.
 * All zero: not loaded. */
struct harp_reading {
	/* what it is read with */
	bool is_loaded, is_dropped; /* dropped: it is not to be read, `why` */
	size_t most;
	const char *session_id;
	char known_hash[HARP_HASH_SIZE]; /* of the snapshot with that id; "": there is none */
	struct buf created_at;           /* the time of that one, or now: */
	int64_t at_us;                   /* the same; 0: the time of that one */
	/* what was made */
	enum harp_code code;
	struct harp_heard heard; /* where the code is HARP_OK */
	char why[256];           /* else */
};
void harp_reading_load(struct harp_reading *r, struct session *s, const struct worker_line *l);
void harp_reading_make(struct harp_reading *r, const struct worker_line *l); /* pure */
/* Was anything told since `load`? Then the snapshot needs a later time, and is read again: `fini`, `load`. */
bool harp_reading_is_late(const struct harp_reading *r, const struct session *s);
void harp_reading_fini(struct harp_reading *r);

/* r: made of the line. */
void harp_snapshot_reported(struct session *s, const struct harp_reading *r);
/* A snapshot line that is ambiguous: a key twice, or too deep. */
void harp_snapshot_unreadable(struct session *s, const char *why);
/* The turn is committed: the store knows its snapshots from here on. */
void harp_snapshot_end_turn(struct core *c);

#endif
