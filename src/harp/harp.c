/* SPDX-License-Identifier: MIT */
/* harp.c: HARP's names and states, as data: codes, scopes, states of a review and the allowed transitions.
 * Owns the tables. Never reads an artifact or a decision. */
#include "harp/harp_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[HARP_ALL_CODES] = {
	[HARP_OK] = "",
	[HARP_CANONICALIZATION] = "HARP_ERR_CANONICALIZATION",
	[HARP_UNSUPPORTED] = "HARP_ERR_UNSUPPORTED",
	[HARP_SIGNATURE_INVALID] = "HARP_ERR_SIGNATURE_INVALID",
	[HARP_EXPIRED] = "HARP_ERR_EXPIRED",
	[HARP_HASH_MISMATCH] = "HARP_ERR_HASH_MISMATCH",
	[HARP_REPLAY] = "HARP_ERR_REPLAY",
	[HARP_SCOPE] = "HARP_ERR_SCOPE",
	[HARP_POLICY_DENY] = "HARP_ERR_POLICY_DENY",
	[HARP_INVALID_STATE] = "HARP_SESSION_ERR_INVALID_STATE",
	[HARP_DUPLICATE_SNAPSHOT] = "HARP_SESSION_ERR_DUPLICATE_SNAPSHOT",
	[HARP_SESSION_CLOSED] = "HARP_SESSION_ERR_SESSION_CLOSED",
};

static const char *const scope_names[HARP_SCOPES] = {
	[HARP_ONCE] = "once",
	[HARP_TIMEBOX] = "timebox",
	[HARP_SESSION] = "session",
};

static const char *const state_names[HARP_STATES] = {
	[HARP_CREATED] = "CREATED",
	[HARP_AWAITING_DECISION] = "AWAITING_DECISION",
	[HARP_APPROVED] = "APPROVED",
	[HARP_DENIED] = "DENIED",
	[HARP_IS_EXPIRED] = "EXPIRED",
	[HARP_EXECUTED] = "EXECUTED",
};

#define TO(s) (1u << (s))
static const uint8_t may_go[HARP_STATES] = {
	/* no row: over */
	[HARP_CREATED] = TO(HARP_AWAITING_DECISION),
	[HARP_AWAITING_DECISION] = TO(HARP_APPROVED) | TO(HARP_DENIED) | TO(HARP_IS_EXPIRED),
	[HARP_APPROVED] = TO(HARP_EXECUTED) | TO(HARP_IS_EXPIRED),
};
_Static_assert(HARP_STATES <= 8, "may_go is a byte wide");

static int find_name(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

const char *harp_code_name(enum harp_code code)
{
	return code_names[code];
}

const char *harp_scope_name(enum harp_scope s)
{
	return scope_names[s];
}

int harp_scope_parse(const char *name)
{
	return find_name(scope_names, HARP_SCOPES, name);
}

const char *harp_state_name(enum harp_state s)
{
	return state_names[s];
}

int harp_state_parse(const char *name)
{
	return find_name(state_names, HARP_STATES, name);
}

bool harp_state_may(enum harp_state from, enum harp_state to)
{
	return (may_go[from] & TO(to)) != 0;
}

bool harp_state_is_over(enum harp_state s)
{
	return may_go[s] == 0;
}

/* A sentence may quote the input and is shown on a terminal: control characters are replaced. */
enum harp_code harp_refuse(char *why, size_t why_size, enum harp_code code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, why_size, fmt, args);
	va_end(args);
	for (char *p = why; why_size > 0 && *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return code;
}

/* Never retryable: the same bytes will be refused again. */
void harp_add_error(struct buf *b, enum harp_code code, const char *message)
{
	buf_addf(b, "{\"code\":\"%s\",\"message\":", code_names[code]);
	buf_add_json(b, message, strlen(message));
	buf_add_text(b, ",\"retryable\":false}");
}
