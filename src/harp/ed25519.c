/* SPDX-License-Identifier: MIT */
/* ed25519.c: base64url, and Ed25519 with libcrypto.
 * Owns the form of keys and signatures, as bytes and as text. Never reads a file (key.c), never decides whose
 * key it is (verify.c). */
#include "harp/harp_private.h"

#include <string.h>

#include <openssl/err.h>

#define PREFIX "ed25519:"
#define PREFIX_SIZE (sizeof PREFIX - 1)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void harp_base64_encode(const unsigned char *data, size_t size, char *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < size; i++) {
		bits = bits << 8 | data[i];
		for (have += 8; have >= 6; have -= 6)
			*out++ = alphabet[bits >> (have - 6) & 63];
	}
	if (have > 0)
		*out++ = alphabet[bits << (6 - have) & 63];
	*out = '\0';
}

bool harp_base64_decode(const char *text, size_t text_size, unsigned char *out, size_t size)
{
	uint32_t bits = 0;
	unsigned have = 0;

	if (text_size != HARP_BASE64_SIZE(size) - 1)
		return false;
	for (size_t i = 0; i < text_size; i++) {
		const char *digit = text[i] != '\0' ? strchr(alphabet, text[i]) : NULL;

		if (digit == NULL)
			return false;
		bits = bits << 6 | (uint32_t)(digit - alphabet);
		have += 6;
		if (have >= 8) {
			have -= 8;
			*out++ = (unsigned char)(bits >> have);
		}
	}
	/* Unused bits must be zero, otherwise one signature would have several texts. */
	return (bits & ((1u << have) - 1)) == 0;
}

bool harp_ed25519_verify(const unsigned char public_key[HARP_PUBLIC_BYTES], const void *text, size_t size,
	const unsigned char signature[HARP_SIGNATURE_BYTES])
{
	EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, HARP_PUBLIC_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_good;

	is_good = pkey != NULL && ctx != NULL && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
		EVP_DigestVerify(ctx, signature, HARP_SIGNATURE_BYTES, text, size) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	if (!is_good)
		ERR_clear_error(); /* clear libcrypto's errors: TLS in this thread would report them as its
				      own */
	return is_good;
}

bool harp_ed25519_sign(const struct harp_private *key, const void *text, size_t size,
	unsigned char signature[HARP_SIGNATURE_BYTES])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = HARP_SIGNATURE_BYTES;
	bool is_made;

	is_made = ctx != NULL && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pkey) == 1 &&
		EVP_DigestSign(ctx, signature, &n, text, size) == 1 && n == HARP_SIGNATURE_BYTES;
	EVP_MD_CTX_free(ctx);
	if (!is_made)
		ERR_clear_error();
	return is_made;
}

/* The y of the eight points whose order divides 8, little-endian. x only sets the top bit. */
static const unsigned char small_order[][HARP_PUBLIC_BYTES] = {
	{0},
	{1},
	{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
		0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
	{0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
		0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
	{0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
};

/* Is y at least 2^255-19, the size of the field? Then it is another encoding of a small y. */
static bool is_beyond_field(const unsigned char y[HARP_PUBLIC_BYTES])
{
	if (y[0] < 0xed || y[HARP_PUBLIC_BYTES - 1] != 0x7f)
		return false;
	for (int i = 1; i < HARP_PUBLIC_BYTES - 1; i++)
		if (y[i] != 0xff)
			return false;
	return true;
}

bool harp_ed25519_is_weak(const unsigned char public_key[HARP_PUBLIC_BYTES])
{
	unsigned char y[HARP_PUBLIC_BYTES];

	memcpy(y, public_key, sizeof y);
	y[HARP_PUBLIC_BYTES - 1] &= 0x7f;
	for (size_t i = 0; i < sizeof small_order / sizeof *small_order; i++)
		if (memcmp(y, small_order[i], sizeof y) == 0)
			return true;
	return is_beyond_field(y);
}

void harp_public_format(const unsigned char public_key[HARP_PUBLIC_BYTES], char line[HARP_PUBLIC_SIZE])
{
	memcpy(line, PREFIX, PREFIX_SIZE);
	harp_base64_encode(public_key, HARP_PUBLIC_BYTES, line + PREFIX_SIZE);
}

bool harp_public_parse(const char *line, unsigned char public_key[HARP_PUBLIC_BYTES])
{
	return strncmp(line, PREFIX, PREFIX_SIZE) == 0 &&
		harp_base64_decode(
			line + PREFIX_SIZE, strlen(line + PREFIX_SIZE), public_key, HARP_PUBLIC_BYTES);
}

void harp_nonce(const unsigned char random[16], char out[HARP_NONCE_SIZE])
{
	harp_base64_encode(random, 16, out);
}
