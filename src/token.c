/* token.c: claims, a dot, and their HMAC-SHA-256, both base64url.
 * Owns the key's file. Never decides who may do what (intake.c asks). */
#include "token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "clock.h"
#include "crash.h"
#include "id.h"
#include "log.h"

#define MAC_SIZE 32
#define MAC_TEXT 43                     /* 32 bytes in base64 without padding */
#define CLAIMS_MAX 480                  /* an id, a caller of 128 and fixed text stay below it */

static size_t base64url(const unsigned char *data, size_t size, char *out)
{
	int n = EVP_EncodeBlock((unsigned char *)out, data, (int)size);

	while (n > 0 && out[n - 1] == '=')
		n--;
	for (int i = 0; i < n; i++) {
		if (out[i] == '+')
			out[i] = '-';
		else if (out[i] == '/')
			out[i] = '_';
	}
	out[n] = '\0';
	return (size_t)n;
}

/* Made once: to look up the algorithm takes ten times as long as to use it. */
static EVP_MAC_CTX *hmac_sha256(void)
{
	static EVP_MAC_CTX *ctx;
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
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
		abort();                /* a token that is not signed must never go out */
	}
	base64url(mac, sizeof mac, out);
}

/* Complete on disk before it has its name, so that a crash leaves a whole key or none. */
static int make_key(const char *state_dir, const char *path, struct token_key *key)
{
	char part[4096];
	ssize_t n;
	int fd, rc;

	snprintf(part, sizeof part, "%s/token.key.part", state_dir);
	id_random(key->bytes, TOKEN_KEY_SIZE);
	if ((fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		return -1;
	while ((n = write(fd, key->bytes, TOKEN_KEY_SIZE)) < 0 && errno == EINTR)
		;
	rc = n == TOKEN_KEY_SIZE ? fsync(fd) : -1;
	close(fd);
	if (rc < 0)
		return -1;
	CRASH_POINT(key_written);
	if (rename(part, path) < 0)
		return -1;
	CRASH_POINT(key_named);
	if ((fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	rc = fsync(fd);         /* tokens go out under it: the name must last as long as they do */
	close(fd);
	return rc;
}

int token_load_key(const char *state_dir, struct token_key *key, char *why, size_t why_size)
{
	char path[4096];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s/token.key", state_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		if (make_key(state_dir, path, key) == 0)
			return 0;
		snprintf(why, why_size, "%s cannot be made: %s", path, strerror(errno));
		return -1;
	}
	if (fd < 0) {
		snprintf(why, why_size, "%s cannot be read: %s", path, strerror(errno));
		return -1;
	}
	while ((n = read(fd, key->bytes, TOKEN_KEY_SIZE)) < 0 && errno == EINTR)
		;
	if (n < 0 || fstat(fd, &st) < 0) {      /* a disk in trouble: nobody may be told to remove the key */
		snprintf(why, why_size, "%s cannot be read: %s", path, strerror(errno));
		close(fd);
		return -1;
	}
	if (n != TOKEN_KEY_SIZE || st.st_size != TOKEN_KEY_SIZE) {
		snprintf(why, why_size, "%s is not a key of %d bytes; remove it to have a new one made "
			"(tokens given out before are then void)", path, TOKEN_KEY_SIZE);
		close(fd);
		return -1;
	}
	close(fd);
	if (st.st_mode & 077) {
		snprintf(why, why_size, "%s may be read by others; chmod 600 it", path);
		return -1;
	}
	return 0;
}

void token_make(const struct token_key *key, const struct token_claims *c, char out[TOKEN_SIZE])
{
	char issued[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE], claims[CLAIMS_MAX];
	size_t n;

	clock_format(c->issued_us, issued);
	clock_format(c->expires_us, expires);
	/* Every value is of an alphabet that needs no escapes. */
	n = (size_t)snprintf(claims, sizeof claims,
		"{\"v\":1,\"session_id\":\"%s\",\"caller_id\":\"%s\",\"risk\":\"%s\",\"data\":\"%s\","
		"\"issued_at\":\"%s\",\"expires_at\":\"%s\"}",
		c->session_id, c->caller_id, c->risk, c->data_class, issued, expires);
	n = base64url((const unsigned char *)claims, n, out);
	out[n] = '.';
	sign(key, out, n, out + n + 1);
}

bool token_fits(const struct token_key *key, const char *token, const char *session_id)
{
	const char *dot = strchr(token, '.');
	char mac[MAC_TEXT + 2], needle[ID_SIZE + 20];
	unsigned char claims[TOKEN_SIZE];
	char padded[TOKEN_SIZE];
	size_t n;
	int size;

	if (dot == NULL || strlen(token) >= TOKEN_SIZE || strlen(dot + 1) != MAC_TEXT)
		return false;
	n = (size_t)(dot - token);
	sign(key, token, n, mac);
	if (CRYPTO_memcmp(mac, dot + 1, MAC_TEXT) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		padded[i] = token[i] == '-' ? '+' : token[i] == '_' ? '/' : token[i];
	while (n % 4 != 0)
		padded[n++] = '=';
	size = EVP_DecodeBlock(claims, (const unsigned char *)padded, (int)n);
	if (size < 0)
		return false;
	claims[size] = '\0';
	snprintf(needle, sizeof needle, "\"session_id\":\"%s\"", session_id);
	return strstr((const char *)claims, needle) != NULL;
}
