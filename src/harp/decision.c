/* SPDX-License-Identifier: MIT */
/* decision.c: a decision: signed with an operator's key, parsed strictly by all others.
 * Owns the fields of decisions. Never says whether a decision counts: verify.c does. */
#include "harp/harp_private.h"

#include <stdlib.h>
#include <string.h>

static const struct harp_field fields[] = {
	{"requestId", FORM_WORD, false, NULL},
	{"artifactHash", FORM_WORD, false, NULL},
	{"artifactHashAlg", FORM_CONST, false, "SHA-256"},
	{"repoRef", FORM_WORD, false, NULL},
	{"decision", FORM_WORD, false, NULL},
	{"scope", FORM_WORD, false, NULL},
	{"expiresAt", FORM_TIME, false, NULL},
	{"nonce", FORM_WORD, false, NULL},
	{"signerKeyId", FORM_WORD, false, NULL},
	{"sigAlg", FORM_CONST, false, "Ed25519"},
	{"signature", FORM_TEXT, false, NULL},
	{"policyHints", FORM_OBJECT, true, NULL},
};
#define FIELDS (sizeof fields / sizeof *fields)

/* HARP-CORE 0.2 was published with allow and deny; its text of March 2026, still called 0.2, has approve and
 * reject. Both pairs are read. The first is written: every reader of 0.2 knows it. */
static const struct {
	const char *word;
	bool allow;
} words[] = {{"deny", false}, {"allow", true}, {"reject", false}, {"approve", true}};

/* 1: a yes, 0: a no, -1: neither. */
static int parse_word(const char *word)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].allow;
	return -1;
}

/* A field of the right form may still hold an unknown word. */
static enum harp_code check_words(const json_t *o, char *why, size_t why_size)
{
	const json_t *session = json_object_get(json_object_get(o, "policyHints"), "sessionId");
	const char *decision = harp_text_of(o, "decision"), *scope = harp_text_of(o, "scope");

	if (parse_word(decision) < 0)
		return harp_refuse(why, why_size, HARP_UNSUPPORTED,
			"decision: neither allow or approve, nor deny or reject");
	if (harp_scope_parse(scope) < 0)
		return harp_refuse(why, why_size, HARP_SCOPE, "there is no scope %.32s", scope);
	if (session != NULL &&
		(!json_is_string(session) ||
			strlen(json_string_value(session)) != json_string_length(session)))
		return harp_refuse(why, why_size, HARP_SCOPE, "policyHints.sessionId is no session");
	return HARP_OK;
}

static enum harp_code check(
	json_t *o, unsigned char signature[HARP_SIGNATURE_BYTES], char *why, size_t why_size)
{
	const json_t *s = json_object_get(o, "signature");
	enum harp_code code = harp_check_fields(o, fields, FIELDS, "decision", why, why_size);

	if (code == HARP_OK)
		code = check_words(o, why, why_size);
	if (code == HARP_OK &&
		!harp_base64_decode(
			json_string_value(s), json_string_length(s), signature, HARP_SIGNATURE_BYTES))
		return harp_refuse(
			why, why_size, HARP_SIGNATURE_INVALID, "the signature is not 64 bytes in base64url");
	return code;
}

static struct harp_decision *take_fields(json_t *o)
{
	const char *session = harp_text_of(json_object_get(o, "policyHints"), "sessionId");
	struct harp_decision *d = xcalloc(1, sizeof *d);
	struct buf b = {0};

	d->request_id = xstrdup(harp_text_of(o, "requestId"));
	d->artifact_hash = xstrdup(harp_text_of(o, "artifactHash"));
	d->repo_ref = xstrdup(harp_text_of(o, "repoRef"));
	d->nonce = xstrdup(harp_text_of(o, "nonce"));
	d->signer_key_id = xstrdup(harp_text_of(o, "signerKeyId"));
	d->session_id = session != NULL ? xstrdup(session) : NULL;
	d->allow = parse_word(harp_text_of(o, "decision")) == 1;
	d->scope = (enum harp_scope)harp_scope_parse(harp_text_of(o, "scope"));
	harp_parse_time(harp_text_of(o, "expiresAt"), &d->expires_us);
	harp_add_signable(&b, o, "signature");
	d->signable_size = b.size;
	d->signable = b.data; /* moved */
	return d;
}

enum harp_code harp_read_decision(
	const char *text, size_t size, struct harp_decision **decision, char *why, size_t why_size)
{
	unsigned char signature[HARP_SIGNATURE_BYTES];
	enum harp_code code;
	json_t *o;

	if ((code = harp_parse(text, size, HARP_DECISION_MAX, &o, why, why_size)) != HARP_OK)
		return code;
	if ((code = check(o, signature, why, why_size)) == HARP_OK) {
		*decision = take_fields(o);
		memcpy((*decision)->signature, signature, sizeof signature);
	}
	json_decref(o);
	return code;
}

void harp_decision_free(struct harp_decision *d)
{
	if (d == NULL)
		return;
	free(d->request_id);
	free(d->artifact_hash);
	free(d->repo_ref);
	free(d->nonce);
	free(d->signer_key_id);
	free(d->session_id);
	free(d->signable);
	free(d);
}

/* --- signing --- */

static json_t *unsigned_of(const struct harp_artifact *a, const struct harp_answer *answer)
{
	char expires[HARP_TIME_SIZE];
	json_t *o;

	harp_format_time(answer->expires_us, expires);
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "requestId", a->request_id,
		"artifactHash", a->hash, "artifactHashAlg", "SHA-256", "repoRef", a->repo_ref, "decision",
		words[answer->allow].word, "scope", harp_scope_name(answer->scope), "expiresAt", expires,
		"nonce", answer->nonce, "signerKeyId", answer->signer_key_id, "sigAlg", "Ed25519");
	if (o != NULL && answer->scope == HARP_SESSION &&
		json_object_set_new(o, "policyHints", json_pack("{s:s}", "sessionId", a->session_id)) < 0)
		abort();
	return o;
}

enum harp_code harp_sign(const struct harp_artifact *a, const struct harp_answer *answer,
	const struct harp_private *key, struct buf *text, char *why, size_t why_size)
{
	unsigned char signature[HARP_SIGNATURE_BYTES];
	char encoded[HARP_BASE64_SIZE(HARP_SIGNATURE_BYTES)];
	struct buf b = {0};
	enum harp_code code = HARP_SIGNATURE_INVALID;
	json_t *o;

	if (answer->scope == HARP_SESSION && a->session_id == NULL)
		return harp_refuse(why, why_size, HARP_SCOPE, "the artifact is of no session");
	if ((o = unsigned_of(a, answer)) == NULL)
		return harp_refuse(why, why_size, HARP_CANONICALIZATION, "nonce or key's name is not UTF-8");
	harp_add_signable(&b, o, NULL);
	if (!harp_ed25519_sign(key, b.data, b.size, signature)) {
		harp_refuse(why, why_size, code, "libcrypto cannot sign");
	} else {
		harp_base64_encode(signature, sizeof signature, encoded);
		if (json_object_set_new(o, "signature", json_string(encoded)) < 0)
			abort();
		/* Reads the decision back: a decision that harp_read_decision would refuse is not given
		 * out. */
		if ((code = check(o, signature, why, why_size)) == HARP_OK)
			harp_add_signable(text, o, NULL);
	}
	buf_fini(&b);
	json_decref(o);
	return code;
}
