/* SPDX-License-Identifier: MIT */
/* token.c: makes and verifies KID.CLAIMS.MAC.
 * Owns the form of a token and the order of the checks. Never touches the keys' file (token_keys.c), never
 * decides what a good token allows (the callers do). */
#include "protocol/token.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/clock.h"
#include "json/text.h"
#include "base/log.h"
#include "base/text.h"

#define MAC_SIZE 32
#define MAC_TEXT 43    /* 32 bytes in base64 without padding */
#define CLAIMS_MAX 880 /* an id, a caller of 128 characters, three hashes and fixed text are shorter */

const char *const token_fault_names[TOKEN_FAULTS] = {
	[TOKEN_GOOD] = "token_good",
	[TOKEN_MALFORMED] = "token_malformed",
	[TOKEN_UNKNOWN_KEY] = "token_unknown_key",
	[TOKEN_FORGED] = "token_forged",
	[TOKEN_OTHER_SESSION] = "token_other_session",
	[TOKEN_NOT_ISSUED] = "token_not_issued",
	[TOKEN_REVOKED] = "token_revoked",
	[TOKEN_EXPIRED] = "token_expired",
};

/* Without padding. Returns the length. */
static size_t base64url(const unsigned char *data, size_t size, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char *p = out;

	for (; size >= 3; data += 3, size -= 3) {
		unsigned v = (unsigned)(data[0] << 16 | data[1] << 8 | data[2]);

		*p++ = digits[v >> 18];
		*p++ = digits[v >> 12 & 63];
		*p++ = digits[v >> 6 & 63];
		*p++ = digits[v & 63];
	}
	if (size > 0) {
		unsigned v = (unsigned)(data[0] << 16 | (size == 2 ? data[1] << 8 : 0));

		*p++ = digits[v >> 18];
		*p++ = digits[v >> 12 & 63];
		if (size == 2)
			*p++ = digits[v >> 6 & 63];
	}
	*p = '\0';
	return (size_t)(p - out);
}

/* Fetched once: to look up the algorithm takes ten times as long as to use it. */
static EVP_MAC_CTX *hmac_sha256(void)
{
	static EVP_MAC_CTX *ctx;
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end()};
	EVP_MAC *mac;

	if (ctx != NULL)
		return ctx;
	mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	ctx = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	if (ctx == NULL || !EVP_MAC_CTX_set_params(ctx, params)) {
		log_error("libcrypto has no HMAC-SHA-256");
		abort();
	}
	return ctx;
}

static void sign(const struct token_key *key, const char *text, size_t size, char out[MAC_TEXT + 2])
{
	EVP_MAC_CTX *ctx = hmac_sha256();
	unsigned char mac[MAC_SIZE];
	size_t mac_size;

	if (!EVP_MAC_init(ctx, key->bytes, TOKEN_KEY_SIZE, NULL) ||
		!EVP_MAC_update(ctx, (const unsigned char *)text, size) ||
		!EVP_MAC_final(ctx, mac, &mac_size, sizeof mac) || mac_size != sizeof mac) {
		log_error("libcrypto cannot sign");
		abort(); /* a token without a MAC must never be sent */
	}
	base64url(mac, sizeof mac, out);
}

void token_make(const struct token_keys *keys, const struct token_claims *c, char out[TOKEN_SIZE])
{
	char issued[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE], claims[CLAIMS_MAX];
	/* No value needs escapes: their characters are restricted. */
	const char *const parts[] = {"{\"v\":2,\"session_id\":\"", c->session_id, "\",\"caller_id\":\"",
		c->caller_id, "\",\"risk\":\"", c->risk, "\",\"data\":\"", c->data_class,
		"\",\"constraints\":{\"max_duration\":\"", c->max_duration, "\",\"envelope\":\"", c->envelope,
		"\",\"intent\":\"", c->intent, "\",\"task\":\"", c->task, "\"},\"issued_at\":\"", issued,
		"\",\"expires_at\":\"", expires, "\"}"};
	size_t size = 0, at = TOKEN_KID_SIZE;

	clock_format(c->issued_us, issued);
	clock_format(c->expires_us, expires);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		size = text_append(claims, sizeof claims, size, parts[i]);
	memcpy(out, keys->list[0].kid, TOKEN_KID_SIZE - 1);
	out[TOKEN_KID_SIZE - 1] = '.';
	at += base64url((const unsigned char *)claims, size, out + at);
	out[at] = '.';
	sign(&keys->list[0], out, at, out + at + 1);
}

/* ---- verifying ---- */

/* The parts of a token. */
struct parts {
	const char *kid; /* NULL: a token of a version with one key */
	const char *claims, *mac;
	size_t claims_size, signed_size;
};

static bool split(const char *token, struct parts *p)
{
	const char *first = strchr(token, '.'), *last = strrchr(token, '.');

	if (first == NULL || strlen(token) >= TOKEN_SIZE || strlen(last + 1) != MAC_TEXT)
		return false;
	*p = (struct parts){.claims = token, .mac = last + 1, .signed_size = (size_t)(last - token)};
	if (first != last) {
		if (first - token != TOKEN_KID_SIZE - 1)
			return false;
		p->kid = token;
		p->claims = first + 1;
	}
	p->claims_size = (size_t)(last - p->claims);
	return memchr(p->claims, '.', p->claims_size) == NULL;
}

static bool is_of(const struct token_key *key, const char *token, const struct parts *p)
{
	char mac[MAC_TEXT + 2];

	if (p->kid != NULL && memcmp(p->kid, key->kid, TOKEN_KID_SIZE - 1) != 0)
		return false; /* the token names another key; a kid is no secret */
	sign(key, token, p->signed_size, mac);
	return CRYPTO_memcmp(mac, p->mac, MAC_TEXT) == 0;
}

bool token_is_of(const struct token_key *key, const char *token)
{
	struct parts p;

	return split(token, &p) && is_of(key, token, &p);
}

static enum token_fault check_signature(
	const struct token_keys *keys, const char *token, const struct parts *p)
{
	bool is_known = p->kid == NULL;

	for (size_t i = 0; i < keys->count; i++) {
		if (is_of(&keys->list[i], token, p))
			return TOKEN_GOOD;
		is_known |= p->kid != NULL && memcmp(p->kid, keys->list[i].kid, TOKEN_KID_SIZE - 1) == 0;
	}
	return is_known ? TOKEN_FORGED : TOKEN_UNKNOWN_KEY;
}

/* Only for signed claims. NULL: they are no JSON object. */
static json_t *read_claims(const struct parts *p)
{
	unsigned char claims[TOKEN_SIZE];
	char padded[TOKEN_SIZE + 4], why[64];
	size_t n = p->claims_size;
	json_t *root;
	int size;

	for (size_t i = 0; i < n; i++)
		padded[i] = p->claims[i] == '-' ? '+' : p->claims[i] == '_' ? '/' : p->claims[i];
	while (n % 4 != 0)
		padded[n++] = '=';
	size = EVP_DecodeBlock(claims, (const unsigned char *)padded, (int)n);
	if (size < 0)
		return NULL;
	while (size > 0 && claims[size - 1] == '\0')
		size--; /* drop the bytes of the padding */
	root = jtext_depth((const char *)claims, (size_t)size) <= 4 ?
		jtext_parse((const char *)claims, (size_t)size, why, sizeof why) :
		NULL;
	if (json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}

static const char *claim(const json_t *claims, const char *name)
{
	const char *text = json_string_value(json_object_get(claims, name));

	return text != NULL ? text : "";
}

/* Compares texts of the same length in constant time. */
static bool is_same(const char *a, const char *b)
{
	size_t size = strlen(a);

	return size == strlen(b) && CRYPTO_memcmp(a, b, size) == 0;
}

static enum token_fault check_claims(
	const json_t *claims, const char *token, const struct token_session *s, int64_t now_us)
{
	int64_t expires_us = 0;

	if (!is_same(claim(claims, "session_id"), s->session_id))
		return TOKEN_OTHER_SESSION;
	/* Each session has one token. Another token with a good MAC was made with an old key that leaked, or
	 * has an older form. */
	if (!is_same(token, s->token))
		return TOKEN_NOT_ISSUED;
	if (s->is_revoked)
		return TOKEN_REVOKED;
	if (now_us != 0 && (!clock_parse(claim(claims, "expires_at"), &expires_us) || expires_us <= now_us))
		return TOKEN_EXPIRED;
	return TOKEN_GOOD;
}

enum token_fault token_check(
	const struct token_keys *keys, const char *token, const struct token_session *s, int64_t now_us)
{
	enum token_fault fault;
	struct parts p;
	json_t *claims;

	if (!split(token, &p))
		return TOKEN_MALFORMED;
	if ((fault = check_signature(keys, token, &p)) != TOKEN_GOOD)
		return fault;
	if ((claims = read_claims(&p)) == NULL)
		return TOKEN_MALFORMED;
	fault = check_claims(claims, token, s, now_us);
	json_decref(claims);
	return fault;
}

int token_find_seals(const struct token_keys *keys, const char *token, char intent[65], char task[65])
{
	struct parts p;
	json_t *claims;
	const json_t *sealed;
	int found;

	if (!split(token, &p) || check_signature(keys, token, &p) != TOKEN_GOOD ||
		(claims = read_claims(&p)) == NULL)
		return -1;
	sealed = json_object_get(claims, "constraints");
	text_copy(intent, 65, claim(sealed, "intent"));
	text_copy(task, 65, claim(sealed, "task"));
	found = intent[0] != '\0';
	json_decref(claims);
	return found;
}
