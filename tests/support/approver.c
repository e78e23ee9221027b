/* SPDX-License-Identifier: MIT */
/* approver.c: keys and signatures of those who decide. Owns the nonces. Never talks to the daemon
 * (talk.c). */
#include "approver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>

const char *approver_key(struct rig *r, const char *name)
{
	return rig_path(r, "%s.pem", name);
}

/* base64url without padding */
static char *encode(const unsigned char *bytes, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char *text = calloc(1, size * 4 / 3 + 4), *to = text;

	for (size_t i = 0; i < size; i += 3) {
		unsigned n = (unsigned)bytes[i] << 16 | (i + 1 < size ? (unsigned)bytes[i + 1] << 8 : 0) |
			(i + 2 < size ? bytes[i + 2] : 0);

		for (size_t k = 0; k < 4 && i + k <= size; k++)
			*to++ = digits[n >> (18 - 6 * k) & 63];
	}
	return text;
}

void approver_make(struct rig *r, const char *name, const char *max_risk)
{
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	FILE *f = fopen(approver_key(r, name), "w");
	unsigned char bytes[32];
	size_t size = sizeof bytes;
	char section[80], *line;

	must(f && key && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1 &&
			EVP_PKEY_get_raw_public_key(key, bytes, &size) == 1,
		"a key for %s", name);
	fclose(f);
	EVP_PKEY_free(key);
	line = encode(bytes, size);
	snprintf(section, sizeof section, "approver %s", name);
	rig_set(r, section, "key", "ed25519:%s", line);
	rig_set(r, section, "max_risk", "%s", max_risk);
	free(line);
}

void approver_sign(json_t *decision, const char *key_file)
{
	FILE *f = fopen(key_file, "r");
	EVP_PKEY *key = f ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : NULL;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char signature[64];
	size_t size = sizeof signature;
	char *text, *encoded;

	must(key, "%s", key_file);
	fclose(f);
	json_object_del(decision, "signature");
	/* ASCII only: that is the canonical form */
	text = json_dumps(decision, JSON_COMPACT | JSON_SORT_KEYS);
	must(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
			EVP_DigestSign(ctx, signature, &size, (const unsigned char *)text, strlen(text)) == 1,
		"signing");
	encoded = encode(signature, size);
	json_object_set_new(decision, "signature", json_string(encoded));
	free(encoded);
	free(text);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
}

json_t *approver_decide(struct rig *r, json_t *artifact, const char *decision, const char *signer)
{
	static int count;
	char nonce[64];
	json_t *d;

	snprintf(nonce, sizeof nonce, "nonce-%d-%d", getpid(), ++count);
	d = J("{'requestId':'%s','artifactHash':'%s','artifactHashAlg':'SHA-256','repoRef':'%s','decision':'%"
	      "s','scope':'once',"
	      "'expiresAt':'%s','nonce':'%s','signerKeyId':'%s','sigAlg':'Ed25519'}",
		json_text_at(artifact, "requestId"), json_text_at(artifact, "artifactHash"),
		json_text_at(artifact, "repoRef"), decision, json_text_at(artifact, "expiresAt"), nonce,
		signer);
	approver_sign(d, approver_key(r, signer));
	return d;
}
