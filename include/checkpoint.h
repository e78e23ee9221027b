/* checkpoint.h: the checkpoint that a session goes on from: the newest one that is what it was when it was stored. */
#ifndef HCPD_CHECKPOINT_H
#define HCPD_CHECKPOINT_H

#include "store.h"

struct checkpoint {
	char id[ID_SIZE];
	struct buf step, state;         /* JSON text */
	int damaged;                    /* newer ones that were passed over */
	char damaged_id[ID_SIZE];       /* the newest of those, "" where not even that can be read */
	const char *damage;             /* what is wrong with it */
};

/* seal: of the session's intent. 1: found; 0: there is none, or none is good (damaged says which); -1: the store cannot be read now. */
int checkpoint_find(struct store *s, int64_t session, const char *seal, struct checkpoint *out) __attribute__((warn_unused_result));
void checkpoint_fini(struct checkpoint *c);

#endif
