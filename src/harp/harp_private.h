/* SPDX-License-Identifier: MIT */
/* harp_private.h: what the files of harp/ share: strict JSON, tables of fields, base64url and Ed25519. */
#ifndef HCPD_HARP_HARP_PRIVATE_H
#define HCPD_HARP_HARP_PRIVATE_H

#include <jansson.h>
#include <openssl/evp.h>

#include "harp/harp.h"

/* Writes the reason and returns the code, so that a refusal is one statement. */
enum harp_code harp_refuse(char *why, size_t why_size, enum harp_code code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- json.c ---- */

/* Parses one object of at most `most` bytes that has a single canonical form; CANONICALIZATION where it has
 * not. */
enum harp_code harp_parse(
	const char *text, size_t size, size_t most, json_t **object, char *why, size_t why_size);
/* The canonical form of the object without one of its fields; NULL: with all. */
void harp_add_signable(struct buf *b, json_t *object, const char *without);
void harp_hash(const void *data, size_t size, char hex[HARP_HASH_SIZE]);

enum harp_form {
	FORM_WORD,  /* 1 to HARP_WORD_MAX bytes without control characters */
	FORM_ID,    /* UUID or ULID */
	FORM_TIME,  /* RFC 3339 */
	FORM_CONST, /* exactly `value` */
	FORM_TEXT,  /* any string without a NUL, empty too */
	FORM_OBJECT,
	FORM_STRINGS, /* an array of at most HARP_REASONS_MAX strings */
};

struct harp_field {
	const char *name;
	enum harp_form form;
	bool optional;
	const char *value;
};

/* True: every required field of the table is there, each field has its form, and there is no other field. */
enum harp_code harp_check_fields(json_t *object, const struct harp_field *fields, size_t count,
	const char *what, char *why, size_t why_size);
const char *harp_text_of(const json_t *object, const char *name); /* NULL: absent */
bool harp_is_id(const char *text);
bool harp_parse_time(const char *text, int64_t *wall_us);
#define HARP_TIME_SIZE 21 /* "2026-01-31T12:34:56Z" and its NUL */
void harp_format_time(int64_t wall_us, char out[HARP_TIME_SIZE]);

/* ---- ed25519.c ---- */

struct harp_private {
	EVP_PKEY *pkey; /* Ed25519, both halves */
};

#define HARP_BASE64_SIZE(n) (((n)*4 + 2) / 3 + 1)

/* base64url without padding. Decoding accepts only the text that encoding gives for exactly `size` bytes. */
void harp_base64_encode(const unsigned char *data, size_t size, char *out);
bool harp_base64_decode(const char *text, size_t text_size, unsigned char *out, size_t size);

bool harp_ed25519_verify(const unsigned char public_key[HARP_PUBLIC_BYTES], const void *text, size_t size,
	const unsigned char signature[HARP_SIGNATURE_BYTES]);
/* Fails only where libcrypto fails. */
bool harp_ed25519_sign(const struct harp_private *key, const void *text, size_t size,
	unsigned char signature[HARP_SIGNATURE_BYTES]);
/* True: a point for which anybody can write a signature for any text without a private key (all zeros, as in
 * a placeholder, is one), or no proper encoding of a point. */
bool harp_ed25519_is_weak(const unsigned char public_key[HARP_PUBLIC_BYTES]);
/* "ed25519:" and the key. */
void harp_public_format(const unsigned char public_key[HARP_PUBLIC_BYTES], char line[HARP_PUBLIC_SIZE]);
bool harp_public_parse(const char *line, unsigned char public_key[HARP_PUBLIC_BYTES]);

#endif
