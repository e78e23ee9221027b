/* SPDX-License-Identifier: MIT */
/* harp_kit.h: what the tests of HARP share: keys of RFC 8032, and artifacts and decisions with one thing
 * changed. */
#ifndef HCPD_TESTS_SUPPORT_HARP_KIT_H
#define HCPD_TESTS_SUPPORT_HARP_KIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harp/harp_private.h"
#include "harp_vectors.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))
#define S INT64_C(1000000)
#define CREATED_US (INT64_C(1772359200) * S)     /* the vectors' 2026-03-01T10:00:00Z */
#define DECIDED_UNTIL_US (CREATED_US + 1800 * S) /* their decision's end */
#define ASKED_UNTIL_US (CREATED_US + 3600 * S)   /* their artifact's */
#define REQUEST "7c9e6679-7425-40de-944b-e07fc1f90ae7"
#define SESSION "11111111-2222-4333-8444-555555555555"

/* RFC 8032, 7.1: private keys, public keys, messages, signatures. */
struct rfc8032 {
	const char *private_key, *public_key, *message, *signature;
};

extern const struct rfc8032 rfc8032[4];

size_t harp_kit_unhex(const char *hex, unsigned char *out);

/* The private key of RFC 8032's i-th test; harp_key_free it. */
struct harp_private *harp_kit_key(int i);

/* JSON with ' for ", which reads better in C; free() it. */
char *harp_kit_quoted(const char *text);
json_t *harp_kit_parse(const char *text);

/* Sets, or with NULL removes, a field; a dot leads into an object: "payload.risk". */
void harp_kit_change(json_t *o, const char *field, const char *value);

/* Puts the right hashes back in. */
void harp_kit_rehash(json_t *artifact);
void harp_kit_resign(json_t *decision, const struct harp_private *key);
struct harp_artifact *harp_kit_artifact(json_t *o);
void harp_kit_expect(enum harp_code is, enum harp_code expected, const char *what, const char *why);
int harp_kit_run(Suite *s);

#endif
