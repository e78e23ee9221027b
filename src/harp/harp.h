/* SPDX-License-Identifier: MIT */
/* harp.h: human decisions: HARP-CORE 0.2. What a human is asked to decide (an artifact), the answer (a
 * decision, signed with Ed25519), and whether the answer counts. Pure: no I/O except for key files (the last
 * part), no globals, the wall clock's microseconds passed in. The core stores what must last: reviews, votes,
 * the memory against replay.
 *
 * Every function that can refuse returns one enum harp_code, HARP_OK or the first reason found, with a
 * sentence in `why`. After a refusal it has given out nothing. The codes:
 *
 *	CANONICALIZATION   no strict JSON: broken, a key twice, bad UTF-8, a lone surrogate, too deep,
 *	                   too long, or a number that programs write differently (any real, an integer
 *	                   beyond 2^53-1)
 *	UNSUPPORTED        JSON, but no object of HARP-CORE 0.2: a field missing, unknown, of another
 *	                   type or form, another algorithm, another type of artifact
 *	SIGNATURE_INVALID  not signed by the key it names: no such key, no signature, another text
 *	EXPIRED            the decision or the artifact, by more than 60 s
 *	HASH_MISMATCH      about something else: another hash, request or repoRef; an artifact with a
 *	                   wrong hash
 *	REPLAY             this request was decided, or this signer used this nonce, before
 *	SCOPE              an unknown scope, one that the rules forbid, or one of another session
 *	POLICY_DENY        a good signature without the right: key revoked, risk above the key's, a
 *	                   person's second vote */
#ifndef HCPD_HARP_HARP_H
#define HCPD_HARP_HARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/config.h"

#define HARP_HASH_SIZE 65                   /* SHA-256 in lower-case hex, and a NUL */
#define HARP_SKEW_US INT64_C(60000000)      /* how far a signer's clock may differ from the daemon's */
#define HARP_REMEMBER_US INT64_C(600000000) /* how long a used decision is remembered, at least */
#define HARP_DEPTH_MAX 64
#define HARP_ARTIFACT_MAX (8u << 20) /* bytes: a task of 1 MiB, escaped as a string, and room */
#define HARP_DECISION_MAX (64u << 10)
#define HARP_WORD_MAX 1024 /* bytes of an id, a nonce or a repoRef */
#define HARP_REASONS_MAX 64

enum harp_code {
	HARP_OK,
	HARP_CANONICALIZATION,
	HARP_UNSUPPORTED,
	HARP_SIGNATURE_INVALID,
	HARP_EXPIRED,
	HARP_HASH_MISMATCH,
	HARP_REPLAY,
	HARP_SCOPE,
	HARP_POLICY_DENY,
	HARP_CODES,
	/* HARP-SESSION's own (session.h) */
	HARP_INVALID_STATE = HARP_CODES,
	HARP_DUPLICATE_SNAPSHOT,
	HARP_SESSION_CLOSED,
	HARP_ALL_CODES
};

#define HARP_CODE_PREFIX "HARP_"
/* "HARP_ERR_…", "HARP_SESSION_ERR_…"; "" for HARP_OK */
const char *harp_code_name(enum harp_code code);
/* HARP's error object, as canonical JSON: code, message, retryable. */
void harp_add_error(struct buf *b, enum harp_code code, const char *message);

/* ---- states of a review ---- */

enum harp_state {
	HARP_CREATED,
	HARP_AWAITING_DECISION,
	HARP_APPROVED,
	HARP_DENIED,
	HARP_IS_EXPIRED,
	HARP_EXECUTED,
	HARP_STATES
};

bool harp_state_may(enum harp_state from, enum harp_state to);
bool harp_state_is_over(enum harp_state s);
const char *harp_state_name(enum harp_state s); /* as HARP writes it: "AWAITING_DECISION" */
int harp_state_parse(const char *name);         /* -1: none */

/* ---- artifacts: what a human is asked to decide ---- */

/* What the core knows of a task that waits. All texts are borrowed. */
struct harp_review {
	const char *request_id; /* UUID or ULID of this review */
	const char *session_id; /* UUID or ULID of the session; NULL: none */
	const char *callee_id, *capability, *caller_id;
	enum risk risk;             /* R1 to R5 */
	const char *const *reasons; /* reasons for the risk; at most HARP_REASONS_MAX */
	size_t reason_count;
	const char *task; /* the task's JSON text, which is signed byte for byte */
	size_t task_size;
	int64_t created_us, expires_us; /* written in whole seconds, rounded down */
};

/* Appends the artifact `task.review` as canonical JSON, its hash in it. repoRef is `hcp:CALLEE/CAPABILITY`;
 * payload is {caller, capability, reasons, risk, task, taskHash}, task being one string and taskHash the
 * SHA-256 of its bytes. */
enum harp_code harp_build_review(const struct harp_review *r, struct buf *text, char hash[HARP_HASH_SIZE],
	char *why, size_t why_size) __attribute__((warn_unused_result));

struct harp_artifact {
	char hash[HARP_HASH_SIZE];     /* computed from all other fields */
	char *request_id, *session_id; /* session_id may be NULL */
	char *repo_ref;
	char *caller, *capability;
	enum risk risk;
	char **reasons;
	size_t reason_count;
	char *task; /* the task that runs if it is allowed */
	int64_t created_us, expires_us;
};

/* Reads a `task.review` strictly: the fields of HARP and of hcpd's payload, no others, and both hashes right.
 * A program that shows it to a human shows this struct, not the text, so that the human sees what is
 * hashed. */
enum harp_code harp_read_artifact(const char *text, size_t size, struct harp_artifact **artifact, char *why,
	size_t why_size) __attribute__((warn_unused_result));
void harp_artifact_free(struct harp_artifact *a); /* NULL is fine */

/* ---- decisions: the human's answer ---- */

enum harp_scope { HARP_ONCE, HARP_TIMEBOX, HARP_SESSION, HARP_SCOPES };

const char *harp_scope_name(enum harp_scope s);
int harp_scope_parse(const char *name); /* -1: none */

#define HARP_SIGNATURE_BYTES 64

struct harp_decision {
	char *request_id, *artifact_hash, *repo_ref, *nonce, *signer_key_id;
	char *session_id; /* policyHints.sessionId, NULL: none */
	bool allow;
	enum harp_scope scope;
	int64_t expires_us;
	unsigned char signature[HARP_SIGNATURE_BYTES];
	char *signable; /* canonical, without `signature`: what was signed */
	size_t signable_size;
};

/* Checks the form only: trust nothing in a decision before harp_verify. */
enum harp_code harp_read_decision(const char *text, size_t size, struct harp_decision **decision, char *why,
	size_t why_size) __attribute__((warn_unused_result));
void harp_decision_free(struct harp_decision *d); /* NULL is fine */

struct harp_private; /* an operator's own key, see below */

struct harp_answer {
	bool allow;
	enum harp_scope scope; /* HARP_SESSION takes the session from the artifact */
	int64_t expires_us;
	/* must be unique; 16 random bytes in base64url are enough (harp_nonce) */
	const char *nonce;
	const char *signer_key_id;
};

/* Appends the signed decision on this artifact, as canonical JSON. */
enum harp_code harp_sign(const struct harp_artifact *a, const struct harp_answer *answer,
	const struct harp_private *key, struct buf *text, char *why, size_t why_size)
	__attribute__((warn_unused_result));

#define HARP_NONCE_SIZE 23 /* 16 bytes in base64url, and a NUL */
void harp_nonce(const unsigned char random[16], char out[HARP_NONCE_SIZE]);

/* ---- keys: who may decide ---- */

#define HARP_PUBLIC_BYTES 32
#define HARP_PUBLIC_SIZE 52 /* "ed25519:", 43 characters, and a NUL */

struct harp_key {
	const char *id; /* signerKeyId; unique */
	/* the owner: all keys of one person, old and new, are one vote. NULL: the id */
	const char *person;
	const char *public_line; /* "ed25519:BASE64URL" */
	enum risk max_risk;
	bool revoked; /* stays listed, so that a refusal can say that the key is revoked */
};

/* A set is filled once and then only read. A new configuration makes a new set. That is how keys rotate (old
 * and new side by side for a while), and a revocation holds from the next check on. */
struct harp_keys;

struct harp_keys *harp_keys_new(void);
/* Copies the key. -1 with a sentence: no valid key, a key that anybody can sign for, or an id or key that is
 * in the set already. */
int harp_keys_add(struct harp_keys *keys, const struct harp_key *key, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void harp_keys_free(struct harp_keys *keys); /* NULL is fine */
/* Is the key in the set, not revoked, and allowed for this risk? Checked again when an approved task is about
 * to start. */
bool harp_keys_may(const struct harp_keys *keys, const char *id, enum risk risk);

/* ---- does it count? ---- */

/* The memory against replay. Called only for a decision with a good signature. */
struct harp_lookups {
	bool (*is_request_used)(void *ctx, const char *request_id, const char *artifact_hash);
	bool (*is_nonce_used)(void *ctx, const char *nonce, const char *signer_key_id);
	void *ctx;
};

/* An earlier `allow` on the same artifact that was accepted but was not enough alone. */
struct harp_vote {
	const char *signer_key_id;
	int64_t expires_us;
};

struct harp_rules {
	unsigned scopes;            /* 1u << HARP_ONCE and so on; 0: all three */
	enum risk two_persons_from; /* from this risk on two persons must allow; R_NONE: never */
};

struct harp_case {
	const struct harp_artifact *artifact;
	const struct harp_keys *keys;
	struct harp_rules rules;
	struct harp_lookups lookups;
	const struct harp_vote *votes;
	size_t vote_count;
	int64_t now_us;
};

/* What the core stores, in the transaction that acts on it. The texts belong to the decision, person to the
 * key set. */
struct harp_accepted {
	const char *request_id, *artifact_hash, *nonce, *signer_key_id, *person;
	enum harp_scope scope;
	bool allow;
	/* True: the review is decided: after any deny, or after enough persons allowed. Then (requestId,
	 * artifactHash) is used. False: one more vote; only (nonce, signerKeyId) is used. */
	bool is_final;
	int64_t expires_us; /* the decision's own */
	/* the first expiry of artifact, decision and counted votes, without clock skew */
	int64_t use_until_us;
	int64_t remember_until_us; /* both pairs are kept at least so long */
};

/* Checks in this order: signature (and key not revoked), the decision's expiry, the artifact's expiry, hash
 * and binding to the artifact, both replays, scope, risk and persons. */
enum harp_code harp_verify(const struct harp_decision *d, const struct harp_case *c,
	struct harp_accepted *accepted, char *why, size_t why_size) __attribute__((warn_unused_result));
bool harp_is_past(int64_t expires_us, int64_t now_us); /* with clock skew */

/* ---- key files (key.c, the only file here with I/O) ---- */

/* Makes a key: PKCS#8 in PEM, mode 0600, complete on disk before it gets its name; never replaces a file. The
 * public half goes into `line`. -1 with a sentence. */
int harp_key_make(const char *path, char line[HARP_PUBLIC_SIZE], char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* The same, encrypted with the passphrase: PKCS#8 with scrypt and AES-256-CBC, as openssl writes and reads
 * it. NULL: not encrypted. */
int harp_key_make_sealed(const char *path, const char *passphrase, char line[HARP_PUBLIC_SIZE], char *why,
	size_t why_size) __attribute__((warn_unused_result));

#define HARP_PASSPHRASE_SIZE 512 /* with its NUL */

/* Gives the passphrase; called only for a key that is encrypted. False: there is none. */
typedef bool harp_passphrase_fn(const void *ctx, char passphrase[HARP_PASSPHRASE_SIZE]);

/* Refuses a file that others may read, an encrypted one, and other kinds of key. */
struct harp_private *harp_key_load(const char *path, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* The same, and opens an encrypted one with what `ask` gives. */
struct harp_private *harp_key_unseal(const char *path, harp_passphrase_fn *ask, const void *ctx, char *why,
	size_t why_size) __attribute__((warn_unused_result));
void harp_key_public(const struct harp_private *key, char line[HARP_PUBLIC_SIZE]);
void harp_key_free(struct harp_private *key); /* NULL is fine */

#endif
