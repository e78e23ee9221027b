/* fuzz_token.c: session tokens. Input: session's id, caller, a token from elsewhere, a line each; the rest is taken for
 * claims and times. */
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "fuzz.h"

/* Whole, so that its signing can be used on claims that it would never make. */
#include "../../src/token.c"

#define SESSION "6f1c8a52-0b1d-4c3e-9a7b-2d4e6f801234"
#define OTHER   "6f1c8a52-0b1d-4c3e-9a7b-2d4e6f801235"

static const struct token_key key = {"0123456789abcdef0123456789abcde"}, other_key = {"0123456789abcdef0123456789abcdf"};

/* A token of ours is for its own session, under its own key, and only whole. */
static void check_made(const struct token_claims *claims, struct chance *chance)
{
	char token[TOKEN_SIZE], changed[TOKEN_SIZE + 2];
	size_t size, at;

	memset(token, '#', sizeof token);
	token_make(&key, claims, token);
	MUST(memchr(token, '\0', sizeof token) != NULL);
	size = strlen(token);
	MUST(strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == size);
	MUST(token_fits(&key, token, claims->session_id) && !token_fits(&other_key, token, claims->session_id));
	MUST(strcmp(claims->session_id, OTHER) == 0 || !token_fits(&key, token, OTHER));
	at = chance_below(chance, (uint32_t)size);
	memcpy(changed, token, size + 1);
	changed[at] = (char)(changed[at] ^ (1 + (int)chance_below(chance, 127)));
	MUST(!token_fits(&key, changed, claims->session_id));
	memcpy(changed, token, size + 1);
	changed[at] = '\0';
	MUST(!token_fits(&key, changed, claims->session_id));
	memcpy(changed, token, size);
	memcpy(changed + size, "A", 2);
	MUST(!token_fits(&key, changed, claims->session_id));
}

/* Whatever was signed, it is for a session only where it says so. */
static void check_signed(const char *text, size_t size)
{
	char token[4 * TOKEN_SIZE], claims[TOKEN_SIZE + 1];
	size_t n;

	size = size < 500 ? size : 500;
	memcpy(claims, text, size);
	claims[size] = '\0';
	n = base64url((const unsigned char *)claims, size, token);
	token[n] = '.';
	sign(&key, token, n, token + n + 1);
	MUST(token_fits(&key, token, SESSION) ==
		(memchr(claims, '\0', size) == NULL ? strstr(claims, "\"session_id\":\"" SESSION "\"") != NULL :
						      token_fits(&key, token, SESSION)));
	/* Signed text that is no base64 at all. */
	n = strnlen(claims, 500);
	for (size_t i = 0; i < n; i++)
		token[i] = claims[i] == '.' ? '_' : claims[i];
	token[n] = '.';
	sign(&key, token, n, token + n + 1);
	token_fits(&key, token, SESSION);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	struct chance chance = chance_of(data, size);
	char *session = feed_line(&f), *caller = feed_line(&f), *stranger = feed_line(&f);
	struct token_claims claims = {.session_id = id_is_uuid4(session) ? session : SESSION, .caller_id = "alpha",
		.risk = "R2", .data_class = "T1"};

	if (codec_is_caller_id(caller, strlen(caller)))
		claims.caller_id = caller;
	MUST(!token_fits(&key, stranger, SESSION));
	check_signed(f.at, f.left);
	claims.issued_us = feed_int64(&f);
	claims.expires_us = feed_int64(&f);
	check_made(&claims, &chance);
	free(session);
	free(caller);
	free(stranger);
	return 0;
}
