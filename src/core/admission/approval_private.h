/* SPDX-License-Identifier: MIT */
/* approval_private.h: what approval.c and approval_decide.c share. No other file includes it. */
#ifndef HCPD_CORE_ADMISSION_APPROVAL_PRIVATE_H
#define HCPD_CORE_ADMISSION_APPROVAL_PRIVATE_H

#include "core/admission/approval.h"

#include "core/turn.h"
#include "harp/harp.h"

struct approval {
	struct session *session;
	char request_id[STORE_WORD_SIZE];
	enum harp_state state;
	int64_t expires_us; /* wall clock */
	struct timer expiry;
	struct harp_vote *votes; /* of those who allowed it; not enough yet */
	size_t vote_count;
};

/* A nonce of this turn's decisions, which the store does not know before the commit. */
struct nonce_seen {
	struct nonce_seen *next;
	char *nonce, *signer;
};

/* The question to a human: what is shown beside the task, and signed. */
struct question {
	char request_id[ID_SIZE], hash[HARP_HASH_SIZE];
	int64_t created_us, expires_us;
	struct buf artifact;
};

void approval_add_vote(struct approval *a, const char *signer, int64_t expires_us);
void approval_move(struct approval *a, enum harp_state to);
/* Rejects the session. The caller has moved the approval to its state before. */
void approval_reject(struct session *s, const char *code, const char *reason, const char *actor,
	const char *message, const char *suggestion, enum risk risk);
bool approval_write_question(struct core *c, struct question *q, const char *session_id,
	const char *caller_id, const struct gate_result *v, const struct task *task, char *why,
	size_t why_size);
void approval_put_question(struct session *s, const struct question *q, enum risk risk);

#endif
