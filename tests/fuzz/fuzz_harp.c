/* SPDX-License-Identifier: MIT */
/* fuzz_harp.c: human decisions. Input: flags (a byte), an artifact's text (a line), a decision's text (the
 * rest). As they are, and once more with hashes and signature put right, so that a mutation gets further than
 * to them. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "harp/harp_private.h"

#define KEY_ID "ann-2026"
#define NOW_US INT64_C(1772359260000000) /* a minute after the corpus' artifact was made */

enum {
	TWO_PERSONS = 1,
	ONCE_ONLY = 2,
	REQUEST_USED = 4,
	NONCE_USED = 8,
	REVOKED = 16,
	LOW_RISK = 32,
	BIND = 64
};

struct stage {
	struct harp_private key;
	struct harp_keys *keys, *strangers;
	struct harp_case c;
	unsigned flags;
	char why[256];
};

static bool is_request_used(void *ctx, const char *request_id, const char *artifact_hash)
{
	MUST(request_id[0] != '\0' && strlen(artifact_hash) == 64);
	return ((const struct stage *)ctx)->flags & REQUEST_USED;
}

static bool is_nonce_used(void *ctx, const char *nonce, const char *signer_key_id)
{
	MUST(nonce[0] != '\0' && strcmp(signer_key_id, KEY_ID) == 0);
	return ((const struct stage *)ctx)->flags & NONCE_USED;
}

/* Keys cost more than all the rest: only an artifact that is one gets this far. */
static void stage_init(struct stage *s, unsigned flags)
{
	static const unsigned char mine[32] = {1};
	static const char another[] = "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
	char line[HARP_PUBLIC_SIZE];

	*s = (struct stage){.flags = flags, .keys = harp_keys_new(), .strangers = harp_keys_new()};
	s->key.pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, mine, 32);
	harp_key_public(&s->key, line);
	MUST(harp_keys_add(s->keys,
		     &(struct harp_key){KEY_ID, "ann", line, flags & LOW_RISK ? R2 : R5, flags & REVOKED},
		     s->why, sizeof s->why) == 0);
	MUST(harp_keys_add(s->strangers, &(struct harp_key){KEY_ID, "ann", another, R5, false}, s->why,
		     sizeof s->why) == 0);
	s->c = (struct harp_case){
		.keys = s->keys, .now_us = NOW_US, .lookups = {is_request_used, is_nonce_used, s}};
	s->c.rules.two_persons_from = flags & TWO_PERSONS ? R4 : R_NONE;
	s->c.rules.scopes = flags & ONCE_ONLY ? 1u << HARP_ONCE : 0;
}

static void stage_fini(struct stage *s)
{
	harp_keys_free(s->keys);
	harp_keys_free(s->strangers);
	EVP_PKEY_free(s->key.pkey);
}

/* ---- what a mutation cannot get right by itself ---- */

static void hash_again(json_t *o)
{
	json_t *payload = json_object_get(o, "payload"), *task = json_object_get(payload, "task");
	char hex[HARP_HASH_SIZE];
	struct buf b = {0};

	if (json_is_string(task)) {
		harp_hash(json_string_value(task), json_string_length(task), hex);
		json_object_set_new(payload, "taskHash", json_string(hex));
	}
	harp_add_signable(&b, o, "artifactHash");
	harp_hash(b.data, b.size, hex);
	json_object_set_new(o, "artifactHash", json_string(hex));
	buf_fini(&b);
}

static void sign_again(json_t *o, const struct harp_private *key)
{
	unsigned char signature[HARP_SIGNATURE_BYTES];
	char text[HARP_BASE64_SIZE(HARP_SIGNATURE_BYTES)];
	struct buf b = {0};

	harp_add_signable(&b, o, "signature");
	MUST(harp_ed25519_sign(key, b.data, b.size, signature));
	harp_base64_encode(signature, sizeof signature, text);
	json_object_set_new(o, "signature", json_string(text));
	buf_fini(&b);
}

/* ---- what must hold ---- */

static struct harp_artifact *read_artifact(const char *text, size_t size)
{
	char why[256] = "";
	struct harp_artifact *a = NULL;
	enum harp_code code;

	code = harp_read_artifact(text, size, &a, why, sizeof why);
	MUST((code == HARP_OK) == (a != NULL) && (code == HARP_OK) == (why[0] == '\0'));
	MUST(code <= HARP_UNSUPPORTED || code == HARP_HASH_MISMATCH);
	if (a == NULL)
		return NULL;
	MUST(strspn(a->hash, "0123456789abcdef") == 64 && a->hash[64] == '\0' && harp_is_id(a->request_id));
	MUST(a->risk >= R1 && a->risk <= R5 && a->reason_count <= HARP_REASONS_MAX && a->caller[0] != '\0');
	return a;
}

static struct harp_decision *read_decision(struct stage *s, const char *text, size_t size)
{
	struct harp_decision *d = NULL;
	enum harp_code code;

	s->why[0] = '\0';
	code = harp_read_decision(text, size, &d, s->why, sizeof s->why);
	MUST((code == HARP_OK) == (d != NULL) && (code == HARP_OK) == (s->why[0] == '\0'));
	MUST(code <= HARP_SIGNATURE_INVALID || code == HARP_SCOPE);
	if (d != NULL)
		MUST(fuzz_is_utf8(d->signable, d->signable_size) && d->nonce[0] != '\0' &&
			d->scope < HARP_SCOPES);
	return d;
}

/* Whatever is accepted is bound to this artifact, by this key, in time, and allowed by every flag. */
static void check_accepted(
	const struct stage *s, const struct harp_decision *d, const struct harp_accepted *r)
{
	const struct harp_artifact *a = s->c.artifact;

	MUST((s->flags & (REQUEST_USED | NONCE_USED | REVOKED)) == 0 &&
		strcmp(d->signer_key_id, KEY_ID) == 0);
	MUST(strcmp(d->artifact_hash, a->hash) == 0 && strcmp(d->request_id, a->request_id) == 0);
	MUST(strcmp(d->repo_ref, a->repo_ref) == 0 && !harp_is_past(d->expires_us, NOW_US) &&
		!harp_is_past(a->expires_us, NOW_US));
	MUST(!(s->flags & LOW_RISK) || a->risk <= R2);
	MUST(!(s->flags & ONCE_ONLY) || d->scope == HARP_ONCE);
	MUST(d->scope != HARP_SESSION || strcmp(d->session_id, a->session_id) == 0);
	MUST(r->is_final == (!d->allow || !(s->flags & TWO_PERSONS) || a->risk < R4));
	MUST(r->use_until_us <= d->expires_us && r->use_until_us <= a->expires_us);
	MUST(r->remember_until_us >= NOW_US + HARP_REMEMBER_US &&
		r->remember_until_us >= d->expires_us + HARP_SKEW_US);
}

static enum harp_code verify(struct stage *s, const struct harp_decision *d)
{
	struct harp_accepted r = {0};
	enum harp_code code;

	s->why[0] = '\0';
	code = harp_verify(d, &s->c, &r, s->why, sizeof s->why);
	MUST((code == HARP_OK) == (s->why[0] == '\0') && (code == HARP_OK) == (r.request_id != NULL));
	if (code == HARP_OK)
		check_accepted(s, d, &r);
	return code;
}

/* One byte of a good decision changed: if it still counts, then what it says is the same. */
static void check_changed(struct stage *s, const char *text, size_t size, const struct harp_decision *good,
	struct chance *chance)
{
	char *copy = fuzz_copy(text, size);
	size_t at = chance_below(chance, (uint32_t)size);
	struct harp_decision *d;

	copy[at] = (char)(copy[at] ^ (1 + (int)chance_below(chance, 255)));
	if ((d = read_decision(s, copy, size)) != NULL && verify(s, d) == HARP_OK)
		MUST(d->signable_size == good->signable_size &&
			memcmp(d->signable, good->signable, d->signable_size) == 0);
	harp_decision_free(d);
	free(copy);
}

/* What we sign ourselves is read back, and counts under our key only. */
static void check_signed(struct stage *s, struct chance *chance)
{
	const struct harp_artifact *a = s->c.artifact;
	struct harp_answer answer = {.allow = chance_below(chance, 2),
		.scope = chance_below(chance, HARP_SCOPES),
		.expires_us = NOW_US + (int64_t)chance_below(chance, 200000000) - 100000000,
		.nonce = "n",
		.signer_key_id = KEY_ID};
	struct harp_decision *d;
	struct buf b = {0};

	if (harp_sign(a, &answer, &s->key, &b, s->why, sizeof s->why) != HARP_OK) {
		MUST(answer.scope == HARP_SESSION && a->session_id == NULL);
		return;
	}
	d = read_decision(s, b.data, b.size);
	MUST(d != NULL && d->allow == answer.allow && d->scope == answer.scope &&
		strcmp(d->artifact_hash, a->hash) == 0);
	MUST(verify(s, d) != HARP_SIGNATURE_INVALID);
	check_changed(s, b.data, b.size, d, chance);
	s->c.keys = s->strangers;
	MUST(verify(s, d) == HARP_SIGNATURE_INVALID);
	s->c.keys = s->keys;
	harp_decision_free(d);
	buf_fini(&b);
}

/* The form of the form is itself, and the hash stays with it. */
static void check_form(json_t *o, const struct harp_artifact *a)
{
	struct harp_artifact *again;
	struct buf b = {0};

	harp_add_signable(&b, o, NULL);
	again = read_artifact(b.data, b.size);
	MUST(again != NULL && strcmp(again->hash, a->hash) == 0 && strcmp(again->task, a->task) == 0);
	harp_artifact_free(again);
	buf_fini(&b);
}

static struct harp_artifact *repaired_artifact(const char *text, size_t size)
{
	char why[256];
	struct harp_artifact *a = NULL;
	json_t *o = NULL;
	char *again;

	if (harp_parse(text, size, HARP_ARTIFACT_MAX, &o, why, sizeof why) != HARP_OK)
		return NULL;
	hash_again(o);
	again = json_dumps(o, JSON_ENSURE_ASCII);
	if ((a = read_artifact(again, strlen(again))) != NULL)
		check_form(o, a);
	free(again);
	json_decref(o);
	return a;
}

static void check_decision(struct stage *s, const char *text, size_t size)
{
	struct harp_decision *d = read_decision(s, text, size);
	json_t *o = NULL;
	char *again;

	if (d != NULL)
		verify(s, d);
	harp_decision_free(d);
	if (harp_parse(text, size, HARP_DECISION_MAX, &o, s->why, sizeof s->why) != HARP_OK)
		return;
	if (json_object_get(o, "artifactHash") != NULL && (s->flags & BIND))
		json_object_set_new(o, "artifactHash", json_string(s->c.artifact->hash));
	sign_again(o, &s->key);
	again = json_dumps(o, JSON_ENSURE_ASCII | JSON_INDENT(1));
	if ((d = read_decision(s, again, strlen(again))) != NULL)
		MUST((verify(s, d) == HARP_SIGNATURE_INVALID) == (strcmp(d->signer_key_id, KEY_ID) != 0));
	harp_decision_free(d);
	free(again);
	json_decref(o);
}

/* One text for the same bytes, and no other. */
static void check_base64(const char *text, size_t size)
{
	size_t bytes = size * 3 / 4;
	unsigned char *out = xmalloc(bytes + 1);
	char *again = xmalloc(HARP_BASE64_SIZE(bytes));

	if (harp_base64_decode(text, size, out, bytes)) {
		harp_base64_encode(out, bytes, again);
		MUST(strlen(again) == size && memcmp(again, text, size) == 0);
	}
	free(again);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	struct chance chance = chance_of(data, size);
	struct harp_artifact *a;
	struct stage s;
	uint8_t flags;
	char *line;
	int64_t at;

	flags = feed_byte(&f);
	line = feed_line(&f);
	check_base64(f.at, f.left);
	if (harp_parse_time(line, &at))
		MUST(strchr("Tt", line[10]) != NULL && strlen(line) >= 20);
	harp_artifact_free(read_artifact(line, strlen(line)));
	if ((a = repaired_artifact(line, strlen(line))) != NULL) {
		stage_init(&s, flags);
		s.c.artifact = a;
		check_signed(&s, &chance);
		check_decision(&s, f.at, f.left);
		stage_fini(&s);
	}
	harp_artifact_free(a);
	free(line);
	return 0;
}
