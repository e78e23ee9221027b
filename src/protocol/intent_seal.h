/* SPDX-License-Identifier: MIT */
/* intent_seal.h: the intent of a task, sealed when it is accepted: goal, constraints and success
 * criteria, and their hash.
 *
 * The seal is the SHA-256, in lower-case hex, of the canonical JSON (canonical.h) of
 *	{"constraints":{...},"expected_output":{...},"intent":"..."}
 * as the task has them; an absent member counts as {}. The caller that submitted the task can compute it too.
 * The rest of the task, its inputs above all, is covered by the hash of all its bytes, which only the token
 * carries. Pure. */
#ifndef HCPD_PROTOCOL_INTENT_SEAL_H
#define HCPD_PROTOCOL_INTENT_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "json/canonical.h"
#include "protocol/token.h"

/* task: the worker's `task` object, with a NUL behind it. False where it cannot be sealed: it is no JSON, or
 * has a member twice or under a name with escapes, so that two readers could read two different tasks. */
bool intent_seal_task(const char *task, size_t size, char seal[CANONICAL_HASH_SIZE])
	__attribute__((warn_unused_result));

/* Compares the stored task with its seal. NULL: equal; else what is wrong. seal: from the session's row, ""
 * where the row is older than seals. token: the session's token, which carries the seal and the hash of the
 * whole task, under the daemon's MAC. */
const char *intent_seal_find_fault(
	const char *task, size_t size, const char *seal, const struct token_keys *keys, const char *token);

#endif
