/* SPDX-License-Identifier: MIT */
/* canonical.c: canonical JSON and its SHA-256.
 * Owns the canonical form. Never uses jansson's dump: that writes escapes in upper case and reals in another
 * form. */
#include "json/canonical.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/log.h"
#include "base/text.h"

struct key {
	const char *text;
	size_t size;
	const json_t *value;
};

static void add_string(struct buf *b, const char *s, size_t size)
{
	static const char short_names[32] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	size_t from = 0;

	buf_add(b, "\"", 1);
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_add(b, s + from, i - from);
		from = i + 1;
		if (c >= 0x20)
			buf_addf(b, "\\%c", c);
		else if (short_names[c] != '\0')
			buf_addf(b, "\\%c", short_names[c]);
		else
			buf_addf(b, "\\u%04x", c);
	}
	buf_add(b, s + from, size - from);
	buf_add(b, "\"", 1);
}

/* Byte order of UTF-8 is the order of code points. */
static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);

	return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

static struct key *sorted_keys(const json_t *object, size_t *count)
{
	struct key *keys = xcalloc(json_object_size(object) + 1, sizeof *keys);
	/* jansson iterates only over objects that are not const */
	json_t *o = json_incref((json_t *)(uintptr_t)object);
	const char *name;
	json_t *value;
	size_t size;

	*count = 0;
	json_object_keylen_foreach(o, name, size, value) keys[(*count)++] = (struct key){name, size, value};
	json_decref(o);
	qsort(keys, *count, sizeof *keys, compare_keys);
	return keys;
}

static void add_object(struct buf *b, const json_t *object)
{
	size_t count;
	struct key *keys = sorted_keys(object, &count);

	buf_add(b, "{", 1);
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			buf_add(b, ",", 1);
		add_string(b, keys[i].text, keys[i].size);
		buf_add(b, ":", 1);
		canonical_add(b, keys[i].value);
	}
	buf_add(b, "}", 1);
	free(keys);
}

static void add_array(struct buf *b, const json_t *array)
{
	buf_add(b, "[", 1);
	for (size_t i = 0; i < json_array_size(array); i++) {
		if (i > 0)
			buf_add(b, ",", 1);
		canonical_add(b, json_array_get(array, i));
	}
	buf_add(b, "]", 1);
}

void canonical_add(struct buf *b, const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT: add_object(b, value); break;
	case JSON_ARRAY: add_array(b, value); break;
	case JSON_STRING: add_string(b, json_string_value(value), json_string_length(value)); break;
	case JSON_INTEGER: buf_add_int(b, json_integer_value(value)); break;
	case JSON_REAL: buf_addf(b, "%.17g", json_real_value(value)); break;
	case JSON_TRUE: buf_add_text(b, "true"); break;
	case JSON_FALSE: buf_add_text(b, "false"); break;
	case JSON_NULL: buf_add_text(b, "null"); break;
	}
}

static EVP_MD *sha256;
static pthread_key_t contexts; /* each thread has one, until it ends */

static void free_context(void *ctx)
{
	EVP_MD_CTX_free(ctx);
}

static void find_sha256(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	if (pthread_key_create(&contexts, free_context) != 0)
		abort();
}

static EVP_MD_CTX *get_context(void)
{
	EVP_MD_CTX *ctx = pthread_getspecific(contexts);

	if (ctx == NULL && (ctx = EVP_MD_CTX_new()) != NULL)
		pthread_setspecific(contexts, ctx);
	return ctx;
}

void canonical_hash_bytes(const void *data, size_t size, char hex[CANONICAL_HASH_SIZE])
{
	/* fetched once: to look the algorithm up takes as long as to hash a short text */
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned length = 0;
	EVP_MD_CTX *ctx;

	pthread_once(&once, find_sha256);
	ctx = get_context();
	if (sha256 == NULL || ctx == NULL || !EVP_DigestInit_ex(ctx, sha256, NULL) ||
		!EVP_DigestUpdate(ctx, data, size) || !EVP_DigestFinal_ex(ctx, digest, &length) ||
		length != 32) {
		log_error("libcrypto has no SHA-256");
		abort();
	}
	text_put_hex(hex, digest, length);
	hex[2 * length] = '\0';
}

void canonical_hash(const json_t *value, char hex[CANONICAL_HASH_SIZE])
{
	struct buf b = {0};

	canonical_add(&b, value);
	canonical_hash_bytes(b.data, b.size, hex);
	buf_fini(&b);
}
