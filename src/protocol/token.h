/* SPDX-License-Identifier: MIT */
/* token.h: session tokens: signed by the daemon, opaque to the caller.
 *
 * A token is KID.CLAIMS.MAC: which key, what was approved (JSON in base64url), and HMAC-SHA-256 over both. A
 * MAC is enough, because only the daemon verifies tokens: it is a hundred times quicker than Ed25519, and
 * needs no public key. (Humans' decisions, which others must be able to verify, are signed: harp.h.)
 *
 * One key signs, several keys verify. A rotation makes a new key that signs. Older keys go on verifying as
 * long as a session has a token of theirs, so no caller notices. Tokens of versions before 0.2 have no
 * KID. */
#ifndef HCPD_PROTOCOL_TOKEN_H
#define HCPD_PROTOCOL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_KEY_SIZE 32
#define TOKEN_KID_SIZE 9 /* 8 hex digits of the key's own hash */
#define TOKEN_KEYS_MAX 8 /* keys that verify at the same time */
#define TOKEN_SIZE 1280  /* the longest token, with its NUL */

struct token_key {
	char kid[TOKEN_KID_SIZE];
	unsigned char bytes[TOKEN_KEY_SIZE];
	int64_t made_us; /* wall clock; 0: made by a version that did not record it */
	/* by then all its tokens have expired; 0: the key that signs now */
	int64_t until_us;
};

struct token_keys {
	struct token_key list[TOKEN_KEYS_MAX]; /* the newest first: the one that signs */
	size_t count;
};

struct token_claims {
	const char *session_id, *caller_id;
	const char *risk, *data_class;
	const char *max_duration; /* ISO 8601 */
	/* SHA-256 in hex, of the safety envelope and the sealed intent; "" where there is none ... */
	const char *envelope, *intent;
	const char *task;              /* ... and of the whole task, as it is stored */
	int64_t issued_us, expires_us; /* wall clock */
};

/* ---- keys (token_keys.c) ---- */

/* Reads STATE_DIR/token.keys, or makes it. The key of an older version, token.key, becomes the first key. -1
 * with a sentence in `why`. */
int token_load_keys(const char *state_dir, struct token_keys *keys, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Makes a key that signs from now on; the key is on disk when this returns. Older keys that `needs` names go
 * on verifying; the others are dropped. until_us: by then the tokens of the previous key have expired. -1
 * with a sentence, and nothing has changed; where all keys are still needed, the sentence says until when. */
typedef bool token_needs_fn(void *ctx, const struct token_key *key);
int token_rotate(const char *state_dir, struct token_keys *keys, int64_t now_us, int64_t until_us,
	token_needs_fn *needs, void *ctx, char *why, size_t why_size) __attribute__((warn_unused_result));
void token_name_key(struct token_key *key); /* its kid, from its bytes */

/* ---- tokens (token.c) ---- */

void token_make(const struct token_keys *keys, const struct token_claims *claims, char out[TOKEN_SIZE]);

enum token_fault {
	TOKEN_GOOD,
	TOKEN_MALFORMED,     /* no token at all */
	TOKEN_UNKNOWN_KEY,   /* its key is unknown, or was dropped */
	TOKEN_FORGED,        /* the MAC is wrong: forged, or changed */
	TOKEN_OTHER_SESSION, /* a good token of another session */
	/* a good MAC for this session, but not the token that the session was given: other claims */
	TOKEN_NOT_ISSUED,
	TOKEN_REVOKED,
	TOKEN_EXPIRED,
	TOKEN_FAULTS
};
extern const char *const token_fault_names[TOKEN_FAULTS]; /* token_forged ...; for the log */

/* What a token is compared with. */
struct token_session {
	const char *session_id;
	const char *token; /* the token that the session was given */
	bool is_revoked;
};
/* The only way to accept a token: every command on a session is checked here. now_us 0: expiry is ignored,
 * because it never refuses the owner's abort. Comparisons take constant time. */
enum token_fault token_check(const struct token_keys *keys, const char *token,
	const struct token_session *session, int64_t now_us);
/* Was the token signed with this key? */
bool token_is_of(const struct token_key *key, const char *token);
/* The hashes of the sealed intent and of the task in a token (each "" where there is none): 1; 0: the token
 * is of an older version; -1: no key of the daemon signed it. */
int token_find_seals(const struct token_keys *keys, const char *token, char intent[65], char task[65]);

#endif
