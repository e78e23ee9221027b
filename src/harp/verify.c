/* SPDX-License-Identifier: MIT */
/* verify.c: does a decision count? The keys that may decide, and the checks in their order.
 * Owns key sets. Never remembers decisions: the caller's callback answers what was used before, and the
 * caller stores what is used now. */
#include "harp/harp_private.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"

/* --- keys --- */

struct known_key {
	char *id, *person;
	unsigned char public_key[HARP_PUBLIC_BYTES];
	enum risk max_risk;
	bool revoked;
};

/* A linear search: an operator has a handful of keys. */
struct harp_keys {
	struct known_key *keys;
	size_t count;
};

struct harp_keys *harp_keys_new(void)
{
	return xcalloc(1, sizeof(struct harp_keys));
}

void harp_keys_free(struct harp_keys *keys)
{
	if (keys == NULL)
		return;
	for (size_t i = 0; i < keys->count; i++) {
		free(keys->keys[i].id);
		free(keys->keys[i].person);
	}
	free(keys->keys);
	free(keys);
}

static const struct known_key *find_key(const struct harp_keys *keys, const char *id)
{
	for (size_t i = 0; i < keys->count; i++)
		if (strcmp(keys->keys[i].id, id) == 0)
			return &keys->keys[i];
	return NULL;
}

static int refuse_key(
	char *why, size_t why_size, const struct harp_key *key, const char *what, const char *other)
{
	harp_refuse(why, why_size, HARP_OK, "key %.64s: %s%s", key->id, what, other);
	return -1;
}

int harp_keys_add(struct harp_keys *keys, const struct harp_key *key, char *why, size_t why_size)
{
	struct known_key k = {.max_risk = key->max_risk, .revoked = key->revoked};

	if (key->id[0] == '\0' || strlen(key->id) > HARP_WORD_MAX)
		return refuse_key(why, why_size, key, "an id has 1 to 1024 bytes", "");
	if (!harp_public_parse(key->public_line, k.public_key))
		return refuse_key(why, why_size, key,
			"not ed25519: and 43 characters, as `hcpctl keygen` prints it", "");
	if (harp_ed25519_is_weak(k.public_key))
		return refuse_key(
			why, why_size, key, "anybody could sign for it; make one with `hcpctl keygen`", "");
	if (find_key(keys, key->id) != NULL)
		return refuse_key(why, why_size, key, "the id is taken", "");
	for (size_t i = 0; i < keys->count; i++) /* one key under two names would count as two persons */
		if (memcmp(keys->keys[i].public_key, k.public_key, HARP_PUBLIC_BYTES) == 0)
			return refuse_key(why, why_size, key, "the same public key as ", keys->keys[i].id);
	k.id = xstrdup(key->id);
	k.person = xstrdup(key->person != NULL ? key->person : key->id);
	keys->keys = xrealloc(keys->keys, (keys->count + 1) * sizeof *keys->keys);
	keys->keys[keys->count++] = k;
	return 0;
}

static bool may_decide(const struct known_key *k, enum risk risk)
{
	return k != NULL && !k->revoked && k->max_risk >= risk;
}

bool harp_keys_may(const struct harp_keys *keys, const char *id, enum risk risk)
{
	return may_decide(find_key(keys, id), risk);
}

/* --- the checks, each in its own function; harp_verify has their order --- */

struct question {
	const struct harp_decision *d;
	const struct harp_case *c;
	const struct known_key *key; /* from check_signature on */
	struct harp_accepted *accepted;
	char *why;
	size_t why_size;
};

#define REFUSE(q, code, ...) harp_refuse((q)->why, (q)->why_size, code, __VA_ARGS__)

static enum harp_code check_signature(struct question *q)
{
	const struct harp_decision *d = q->d;

	if ((q->key = find_key(q->c->keys, d->signer_key_id)) == NULL)
		return REFUSE(q, HARP_SIGNATURE_INVALID, "no key %.64s is configured", d->signer_key_id);
	if (!harp_ed25519_verify(q->key->public_key, d->signable, d->signable_size, d->signature))
		return REFUSE(q, HARP_SIGNATURE_INVALID, "not signed by key %.64s", d->signer_key_id);
	return HARP_OK;
}

/* After the signature: only the holder of a key learns that it is revoked. */
static enum harp_code check_revocation(struct question *q)
{
	if (q->key->revoked)
		return REFUSE(q, HARP_POLICY_DENY, "key %.64s is revoked", q->key->id);
	return HARP_OK;
}

bool harp_is_past(int64_t expires_us, int64_t now_us)
{
	return now_us > expires_us + HARP_SKEW_US; /* times of four-digit years: no overflow */
}

static enum harp_code check_decision_expiry(struct question *q)
{
	if (harp_is_past(q->d->expires_us, q->c->now_us))
		return REFUSE(q, HARP_EXPIRED, "the decision has expired");
	return HARP_OK;
}

static enum harp_code check_artifact_expiry(struct question *q)
{
	if (harp_is_past(q->c->artifact->expires_us, q->c->now_us))
		return REFUSE(q, HARP_EXPIRED, "the request has expired");
	return HARP_OK;
}

static enum harp_code check_binding(struct question *q)
{
	const struct harp_artifact *a = q->c->artifact;

	if (strcmp(q->d->artifact_hash, a->hash) != 0)
		return REFUSE(q, HARP_HASH_MISMATCH, "the decision is about another artifact: %.64s",
			q->d->artifact_hash);
	if (strcmp(q->d->request_id, a->request_id) != 0)
		return REFUSE(q, HARP_HASH_MISMATCH, "the decision is about another request: %.64s",
			q->d->request_id);
	if (strcmp(q->d->repo_ref, a->repo_ref) != 0)
		return REFUSE(q, HARP_HASH_MISMATCH, "the decision is about another repoRef: %.64s",
			q->d->repo_ref);
	return HARP_OK;
}

static enum harp_code check_replay(struct question *q)
{
	const struct harp_lookups *l = &q->c->lookups;

	if (l->is_request_used(l->ctx, q->d->request_id, q->d->artifact_hash))
		return REFUSE(q, HARP_REPLAY, "the request is decided");
	if (l->is_nonce_used(l->ctx, q->d->nonce, q->d->signer_key_id))
		return REFUSE(q, HARP_REPLAY, "key %.64s has used this nonce", q->d->signer_key_id);
	return HARP_OK;
}

static enum harp_code check_scope(struct question *q)
{
	const char *hint = q->d->session_id, *session = q->c->artifact->session_id;
	unsigned scopes = q->c->rules.scopes;

	if (scopes != 0 && (scopes & 1u << q->d->scope) == 0)
		return REFUSE(q, HARP_SCOPE, "scope %s is not allowed here", harp_scope_name(q->d->scope));
	if (q->d->scope == HARP_SESSION && hint == NULL)
		return REFUSE(q, HARP_SCOPE, "scope session without policyHints.sessionId");
	/* A hint that names another session is refused under every scope: the decision is not meant for this
	 * one. */
	if (hint != NULL && (session == NULL || strcmp(hint, session) != 0))
		return REFUSE(q, HARP_SCOPE, "the decision is for another session: %.64s", hint);
	return HARP_OK;
}

static enum harp_code check_risk(struct question *q)
{
	enum risk risk = q->c->artifact->risk;

	if (q->key->max_risk < risk)
		return REFUSE(q, HARP_POLICY_DENY, "key %.64s may decide up to %s; this is %s", q->key->id,
			risk_names[q->key->max_risk], risk_names[risk]);
	return HARP_OK;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Votes count by the keys of now: revoking a key also voids its votes on reviews that are not yet decided. */
static enum harp_code check_persons(struct question *q)
{
	const struct harp_case *c = q->c;
	enum risk risk = c->artifact->risk;
	bool has_second = false;

	q->accepted->is_final = true;
	if (!q->d->allow || c->rules.two_persons_from == R_NONE || risk < c->rules.two_persons_from)
		return HARP_OK;
	for (size_t i = 0; i < c->vote_count; i++) {
		const struct known_key *k = find_key(c->keys, c->votes[i].signer_key_id);

		if (!may_decide(k, risk) || harp_is_past(c->votes[i].expires_us, c->now_us))
			continue;
		if (strcmp(k->person, q->key->person) == 0)
			return REFUSE(q, HARP_POLICY_DENY,
				"%.64s has allowed it already, and it takes two persons", k->person);
		has_second = true;
		q->accepted->use_until_us = earlier(q->accepted->use_until_us, c->votes[i].expires_us);
	}
	q->accepted->is_final = has_second;
	return HARP_OK;
}

static int64_t remember_until(const struct harp_decision *d, const struct harp_case *c)
{
	/* Also the artifact's expiry: another decision on it may be valid longer than this one. */
	int64_t last = d->expires_us > c->artifact->expires_us ? d->expires_us : c->artifact->expires_us;
	int64_t least = c->now_us + HARP_REMEMBER_US;

	return last + HARP_SKEW_US > least ? last + HARP_SKEW_US : least;
}

enum harp_code harp_verify(const struct harp_decision *d, const struct harp_case *c,
	struct harp_accepted *accepted, char *why, size_t why_size)
{
	static enum harp_code (*const checks[])(struct question *) = {
		check_signature, /* before any field is trusted, or the memory is used */
		check_revocation,
		check_decision_expiry,
		check_artifact_expiry,
		check_binding,
		check_replay,
		check_scope,
		check_risk,
		check_persons,
	};
	struct harp_accepted a = {.request_id = d->request_id,
		.artifact_hash = d->artifact_hash,
		.nonce = d->nonce,
		.signer_key_id = d->signer_key_id,
		.scope = d->scope,
		.allow = d->allow,
		.expires_us = d->expires_us,
		.use_until_us = earlier(d->expires_us, c->artifact->expires_us),
		.remember_until_us = remember_until(d, c)};
	struct question q = {.d = d, .c = c, .accepted = &a, .why = why, .why_size = why_size};

	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		enum harp_code code = checks[i](&q);

		if (code != HARP_OK)
			return code;
	}
	a.person = q.key->person;
	*accepted = a;
	return HARP_OK;
}
