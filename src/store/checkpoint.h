/* SPDX-License-Identifier: MIT */
/* checkpoint.h: finds the checkpoint that a session continues from: the newest one that is still as it was
 * stored. */
#ifndef HCPD_STORE_CHECKPOINT_H
#define HCPD_STORE_CHECKPOINT_H

#include "store/store.h"

struct checkpoint {
	char id[ID_SIZE];
	int64_t session;                     /* the session's key */
	char state_version[STORE_WORD_SIZE]; /* of the state's own schema; "": the worker gave none */
	char created_at[STORE_WORD_SIZE];
	bool resumable;
	bool is_unverified; /* checkpoint_look: it is large, and `state` is empty */
	struct buf description;
	struct buf step, state;   /* JSON text */
	int damaged;              /* newer ones that are damaged, and were skipped */
	char damaged_id[ID_SIZE]; /* id of the newest of those; "" where the id cannot be read */
	const char *damage;       /* what is wrong with it */
};

/* seal: of the session's intent. 1: found; 0: there is none, or none is good (then `damaged` is above 0);
 * -1: the store cannot be read now. */
int checkpoint_find(struct store *s, int64_t session, const char *seal, struct checkpoint *out)
	__attribute__((warn_unused_result));
/* Finds a checkpoint by its id, of any session and intent. 1: found; 0: there is none, or it is damaged
 * (then `damage` is set); -1: the store cannot be read now. */
int checkpoint_load(struct store *s, const char *checkpoint_id, struct checkpoint *out)
	__attribute__((warn_unused_result));
/* The same, but a state of more than `most` bytes is neither restored nor verified. */
int checkpoint_look(struct store *s, const char *checkpoint_id, int64_t most, struct checkpoint *out)
	__attribute__((warn_unused_result));
/* The row of a full checkpoint, as a base for deltas. It is not verified: the caller knows the hash of its
 * bytes. Its number; 0 where it cannot be had, for any reason. */
int64_t checkpoint_load_base(
	struct store *s, const char *checkpoint_id, int64_t session, struct store_kept *out);
/* A row, and the row that it builds on (row 0: none, or it was not found). */
struct checkpoint_rows {
	struct store_kept own, base;
};
/* Not verified. 1, 0: there is none; -1: the store cannot be read now. */
int checkpoint_load_rows(struct store *s, const char *checkpoint_id, struct checkpoint_rows *out)
	__attribute__((warn_unused_result));
void checkpoint_rows_fini(struct checkpoint_rows *r);

/* checkpoint_find in steps, so that a large state can be verified on another thread: begin; then next, verify
 * and take, until take or next ends it. */
struct checkpoint_search {
	int64_t session, row;
	char seal[65];
	bool is_sealed; /* only checkpoints of that intent count */
	struct checkpoint_rows rows;
	const char *damage; /* of the row that is verified; NULL: it is good */
	struct checkpoint found;
};
int checkpoint_search_begin(struct store *s, int64_t session, const char *seal, struct checkpoint_search *f)
	__attribute__((warn_unused_result)); /* 0, or -1: the store cannot be read now */
/* One checkpoint by its id, as checkpoint_load: 1: it is to be verified; 0: there is none; -1. No row
 * follows. */
int checkpoint_search_begin_at(struct store *s, const char *checkpoint_id, struct checkpoint_search *f)
	__attribute__((warn_unused_result));
/* Before `next`: has the row that it would load a state of more than `most` bytes, or builds on one? No state
 * is loaded. 1, 0, -1: the store cannot be read now. */
int checkpoint_search_is_large(struct store *s, const struct checkpoint_search *f, int64_t most)
	__attribute__((warn_unused_result));
/* Loads the next older row. 1: it is to be verified; 0: no row is left; -1: the store cannot be read now, and
 * the same row may be tried again. */
int checkpoint_search_next(struct store *s, struct checkpoint_search *f) __attribute__((warn_unused_result));
void checkpoint_search_verify(struct checkpoint_search *f); /* pure: on any thread */
bool checkpoint_search_take(struct checkpoint_search *f);   /* true: it is good, and `found` has it */
void checkpoint_search_fini(struct checkpoint_search *f);   /* with `found` */
void checkpoint_fini(struct checkpoint *c);

#endif
