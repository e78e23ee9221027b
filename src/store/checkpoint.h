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
	bool resumable;
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
/* The text of a full checkpoint, as a base for deltas. It is neither parsed nor verified: the caller knows
 * the hash of its bytes. Its row; 0 where the text cannot be had, for any reason. */
int64_t checkpoint_load_base(struct store *s, const char *checkpoint_id, int64_t session, struct buf *text);
void checkpoint_fini(struct checkpoint *c);

#endif
