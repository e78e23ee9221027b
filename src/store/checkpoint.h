/* checkpoint.h: the checkpoint that a session goes on from: the newest one that is what it was when it was
 * stored. */
#ifndef HCPD_CHECKPOINT_H
#define HCPD_CHECKPOINT_H

#include "store/store.h"

struct checkpoint {
	char id[ID_SIZE];
	int64_t session;                     /* whose it is */
	char state_version[STORE_WORD_SIZE]; /* of the state's own schema; "": its worker named none */
	bool resumable;
	struct buf description;
	struct buf step, state;   /* JSON text */
	int damaged;              /* newer ones that were passed over */
	char damaged_id[ID_SIZE]; /* the newest of those, "" where not even that can be read */
	const char *damage;       /* what is wrong with it */
};

/* seal: of the session's intent. 1: found; 0: there is none, or none is good (damaged says which); -1: the
 * store cannot be read now. */
int checkpoint_find(struct store *s, int64_t session, const char *seal, struct checkpoint *out)
	__attribute__((warn_unused_result));
/* One by its id, of whichever session and intent. 1: here it is; 0: there is none; or it is no good, and
 * damage says why; -1: the store cannot be read now. */
int checkpoint_load(struct store *s, const char *checkpoint_id, struct checkpoint *out)
	__attribute__((warn_unused_result));
/* The text of a full one, as a base: not parsed and not verified, the asker knows the hash of its bytes. Its
 * row; 0 where it is not to be had, for whatever reason. */
int64_t checkpoint_load_base(struct store *s, const char *checkpoint_id, int64_t session, struct buf *text);
void checkpoint_fini(struct checkpoint *c);

/* checkpoint_restore.c, pure: the text of a row, verified: JSON, and its canonical form has the hash that was
 * stored with it; and its step is one. base: what a delta builds on; NULL: it was not found, or this is none.
 * Appends to *text. NULL, or what is wrong, and then what was appended is worth nothing. */
const char *checkpoint_restore(const struct store_kept *row, const struct store_kept *base, struct buf *text);
#define CHECKPOINT_STEP_MAX \
	1024 /* bytes of its JSON text: it is in events, which must fit into a message \
	      */
/* JSON text of a short string, a number or null, and of one line; nothing at all is null, too. */
bool checkpoint_is_step(const char *text, size_t size);
/* The text alone. */
const char *checkpoint_unpack(const struct store_kept *row, const struct store_kept *base, struct buf *text);

#endif
