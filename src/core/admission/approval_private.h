/* review_private.h: what review.c and review_decide.c share. Nobody else includes it. */
#ifndef HCPD_REVIEW_PRIVATE_H
#define HCPD_REVIEW_PRIVATE_H

#include "core/admission/approval.h"

#include "core/turn.h"
#include "harp/harp.h"

struct review {
	struct session *session;
	char request_id[STORE_WORD_SIZE];
	enum harp_state state;
	int64_t expires_us; /* wall clock */
	struct timer expiry;
	struct harp_vote *votes; /* allowed it, and were not enough */
	size_t vote_count;
};

/* A decision of this turn, which the store does not know before the commit. */
struct nonce_seen {
	struct nonce_seen *next;
	char *nonce, *signer;
};

/* What a human is shown beside the task, and signs. */
struct question {
	char request_id[ID_SIZE], hash[HARP_HASH_SIZE];
	int64_t created_us, expires_us;
	struct buf artifact;
};

void review_add_vote(struct review *r, const char *signer, int64_t expires_us);
void review_move(struct review *r, enum harp_state to);
/* The review has its state already. */
void review_reject(struct session *s, const char *code, const char *reason, const char *actor,
	const char *message, const char *suggestion, enum risk risk);
bool review_write_question(struct core *c, struct question *q, const char *session_id, const char *caller_id,
	const struct verdict *v, const struct task *task, char *why, size_t why_size);
void review_put_question(struct session *s, const struct question *q, enum risk risk);

#endif
