/* SPDX-License-Identifier: MIT */
/* fuzz_token.c: session tokens. Input: session's id, caller, a token from elsewhere, a line each; the rest is
 * taken for claims and times. */
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"
#include "fuzz.h"

/* Whole, so that its signing can be used on claims that it would never make. */
#include "protocol/token.c"

#define SESSION "6f1c8a52-0b1d-4c3e-9a7b-2d4e6f801234"
#define OTHER "6f1c8a52-0b1d-4c3e-9a7b-2d4e6f801235"

static const struct token_keys keys = {
	.list = {{.kid = "00000001", .bytes = "0123456789abcdef0123456789abcde"},
		{.kid = "00000002", .bytes = "0123456789abcdef0123456789abcdf", .until_us = 1}},
	.count = 2};
static const struct token_keys other_keys = {
	.list = {{.kid = "00000001", .bytes = "0123456789abcdef0123456789abcdg"}}, .count = 1};

static enum token_fault check(
	const struct token_keys *of, const char *token, const char *session, const char *given)
{
	return token_check(of, token, &(struct token_session){.session_id = session, .token = given}, 0);
}

/* A token of ours is for its own session, under its own key, and only whole. */
static void check_made(const struct token_claims *claims, struct chance *chance)
{
	char token[TOKEN_SIZE], changed[TOKEN_SIZE + 2], intent[65], task[65];
	size_t size, at;

	memset(token, '#', sizeof token);
	token_make(&keys, claims, token);
	MUST(memchr(token, '\0', sizeof token) != NULL);
	size = strlen(token);
	MUST(strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == size);
	MUST(check(&keys, token, claims->session_id, token) == TOKEN_GOOD);
	MUST(check(&other_keys, token, claims->session_id, token) == TOKEN_FORGED);
	MUST(check(&keys, token, claims->session_id, "another") == TOKEN_NOT_ISSUED);
	MUST(strcmp(claims->session_id, OTHER) == 0 ||
		check(&keys, token, OTHER, token) == TOKEN_OTHER_SESSION);
	MUST(token_find_seals(&keys, token, intent, task) == 1 && strcmp(intent, claims->intent) == 0);
	at = chance_below(chance, (uint32_t)size);
	memcpy(changed, token, size + 1);
	changed[at] = (char)(changed[at] ^ (1 + (int)chance_below(chance, 127)));
	MUST(check(&keys, changed, claims->session_id, changed) != TOKEN_GOOD);
	memcpy(changed, token, size + 1);
	changed[at] = '\0';
	MUST(check(&keys, changed, claims->session_id, changed) != TOKEN_GOOD);
	memcpy(changed, token, size);
	memcpy(changed + size, "A", 2);
	MUST(check(&keys, changed, claims->session_id, changed) != TOKEN_GOOD);
}

/* Whatever was signed, it is for a session only where it says so as JSON. */
static void check_signed(const char *text, size_t size, const char *kid)
{
	char token[4 * TOKEN_SIZE], claims[TOKEN_SIZE + 1], why[64], intent[65], task[65];
	const struct token_key *key = &keys.list[1];
	size_t n = 0, body;
	json_t *root;

	size = size < 500 ? size : 500;
	memcpy(claims, text, size);
	claims[size] = '\0';
	if (kid != NULL)
		n = (size_t)snprintf(token, sizeof token, "%s.", kid);
	body = n;
	n += base64url((const unsigned char *)claims, size, token + n);
	token[n] = '.';
	sign(key, token, n, token + n + 1);
	root = jtext_depth(claims, size) <= 4 ? jtext_parse(claims, size, why, sizeof why) : NULL;
	if (check(&keys, token, SESSION, token) == TOKEN_GOOD)
		MUST(root != NULL &&
			strcmp(json_string_value(json_object_get(root, "session_id")), SESSION) == 0);
	json_decref(root);
	(void)token_find_seals(&keys, token, intent, task);
	/* Signed text that is no base64 at all. */
	n = strnlen(claims, 500);
	for (size_t i = 0; i < n; i++)
		token[body + i] = claims[i] == '.' ? '_' : claims[i];
	token[body + n] = '.';
	sign(key, token, body + n, token + body + n + 1);
	(void)check(&keys, token, SESSION, token);
	(void)token_find_seals(&keys, token, intent, task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	struct chance chance = chance_of(data, size);
	char *session = feed_line(&f), *caller = feed_line(&f), *stranger = feed_line(&f);
	struct token_claims claims = {.session_id = id_is_uuid4(session) ? session : SESSION,
		.caller_id = "alpha",
		.risk = "R2",
		.data_class = "T1",
		.max_duration = "PT1H",
		.envelope = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		.intent = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8b",
		.task = ""};

	if (message_is_caller_id(caller, strlen(caller)))
		claims.caller_id = caller;
	MUST(check(&keys, stranger, SESSION, stranger) != TOKEN_GOOD);
	check_signed(f.at, f.left, NULL);
	check_signed(f.at, f.left, keys.list[1].kid);
	claims.issued_us = feed_int64(&f);
	claims.expires_us = feed_int64(&f);
	check_made(&claims, &chance);
	free(session);
	free(caller);
	free(stranger);
	return 0;
}
