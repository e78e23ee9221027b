/* token.h: session tokens: signed here, opaque to the caller. HMAC-SHA-256 with a key that is made at
 * first start, in the state directory, mode 0600. */
#ifndef HCPD_TOKEN_H
#define HCPD_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_KEY_SIZE 32
#define TOKEN_SIZE 768                  /* the longest, with its NUL */

struct token_key {
	unsigned char bytes[TOKEN_KEY_SIZE];
};

struct token_claims {
	const char *session_id, *caller_id;
	const char *risk, *data_class;
	int64_t issued_us, expires_us;  /* wall clock */
};

/* Reads the key, or makes it. -1 with a sentence in `why`. */
int token_load_key(const char *state_dir, struct token_key *key, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void token_make(const struct token_key *key, const struct token_claims *claims, char out[TOKEN_SIZE]);
/* Is it ours, unchanged, and for this session? Expiry is not looked at: it never refuses the owner's abort. */
bool token_fits(const struct token_key *key, const char *token, const char *session_id);

#endif
