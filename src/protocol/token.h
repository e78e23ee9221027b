/* token.h: session tokens: signed here, opaque to the caller.
 *
 * A token is KID.CLAIMS.MAC: which key, what was approved (JSON in base64url), and HMAC-SHA-256 over both. A
 * MAC and not a signature, since nobody but the daemon ever verifies one: it is a hundred times quicker than
 * Ed25519, and there is no public half to hand out. (Humans' decisions, which others must be able to verify,
 * are signed: harp.h.)
 *
 * Several keys may verify, one signs. Rotation makes a new one that signs; the older ones go on verifying for
 * as long as a session has a token of theirs, so that none notices. Tokens of versions before 0.2 have no
 * KID. */
#ifndef HCPD_TOKEN_H
#define HCPD_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_KEY_SIZE 32
#define TOKEN_KID_SIZE 9 /* 8 hex digits of the key's own hash */
#define TOKEN_KEYS_MAX 8 /* that verify at the same time */
#define TOKEN_SIZE 1280  /* the longest, with its NUL */

struct token_key {
	char kid[TOKEN_KID_SIZE];
	unsigned char bytes[TOKEN_KEY_SIZE];
	int64_t made_us;  /* wall clock; 0: by a version that did not say */
	int64_t until_us; /* by then every token of its has expired; 0: it is the one that signs */
};

struct token_keys {
	struct token_key list[TOKEN_KEYS_MAX]; /* the newest first: it signs */
	size_t count;
};

struct token_claims {
	const char *session_id, *caller_id;
	const char *risk, *data_class;
	const char *max_duration;      /* ISO 8601 */
	const char *envelope, *intent; /* SHA-256 in hex, of the safety envelope and the sealed intent; ""
					  where there is none ... */
	const char *task;              /* ... and of the whole task, as it is stored */
	int64_t issued_us, expires_us; /* wall clock */
};

/* ---- keys (token_keys.c) ---- */

/* Reads STATE_DIR/token.keys, or makes it. The one key of an older version, token.key, becomes its first. -1
 * with a sentence in `why`. */
int token_load_keys(const char *state_dir, struct token_keys *keys, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Makes a key that signs from now on; it is on disk when this returns. Of those before, the ones that `needs`
 * names go on verifying; the others are dropped. until_us: by then the tokens of the one that signed until
 * now have expired. -1 with a sentence, which says until when where all are needed: nothing has changed. */
typedef bool token_needs_fn(void *ctx, const struct token_key *key);
int token_rotate(const char *state_dir, struct token_keys *keys, int64_t now_us, int64_t until_us,
	token_needs_fn *needs, void *ctx, char *why, size_t why_size) __attribute__((warn_unused_result));
void token_name_key(struct token_key *key); /* its kid, from its bytes */

/* ---- tokens (token.c) ---- */

void token_make(const struct token_keys *keys, const struct token_claims *claims, char out[TOKEN_SIZE]);

enum token_fault {
	TOKEN_GOOD,
	TOKEN_MALFORMED,     /* no token at all */
	TOKEN_UNKNOWN_KEY,   /* its key is none of ours, or no longer */
	TOKEN_FORGED,        /* signed by nobody who has the key, or changed since */
	TOKEN_OTHER_SESSION, /* a good one, of another session */
	TOKEN_NOT_ISSUED, /* well signed and for this session, but not the one that it was given: other claims
			   */
	TOKEN_REVOKED,
	TOKEN_EXPIRED,
	TOKEN_FAULTS
};
extern const char *const token_fault_names[TOKEN_FAULTS]; /* token_forged ...; for the log */

/* What a token is held against. */
struct token_session {
	const char *session_id;
	const char *token; /* that was given out for it */
	bool is_revoked;
};
/* The only way to accept one: whatever a command does to a session, its token passes here. now_us 0: expiry
 * does not count, since it never refuses the owner's abort. Comparisons take the same time whatever differs.
 */
enum token_fault token_check(const struct token_keys *keys, const char *token,
	const struct token_session *session, int64_t now_us);
/* Did this key sign it? */
bool token_is_of(const struct token_key *key, const char *token);
/* What a token of ours was given for: the hashes of the sealed intent and of the task (each "" where it says
 * none): 1, 0 where it is of an older version, -1 where it is not ours. */
int token_find_seals(const struct token_keys *keys, const char *token, char intent[65], char task[65]);

#endif
