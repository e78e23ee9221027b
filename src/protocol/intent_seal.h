/* seal.h: the intent of a task, sealed when it is accepted: goal, constraints and success criteria, and their
 *hash.
 *
 * The seal is the SHA-256, in lower-case hex, of the canonical JSON (canon.h) of
 *	{"constraints":{...},"expected_output":{...},"intent":"..."}
 * as the task has them; what was not given counts as {}. Whoever submitted the task can compute it too. The
 *rest of the task, its inputs above all, is held by the hash of all its bytes, which only the token carries.
 *Pure. */
#ifndef HCPD_SEAL_H
#define HCPD_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "json/canonical.h"
#include "protocol/token.h"

/* task: the worker's `task` object, with a NUL behind it. False where it is not one that could be sealed: no
 * JSON, a member twice, or under a name with escapes, so that two readers could take it for two tasks. */
bool seal_task(const char *task, size_t size, char seal[CANON_HASH_SIZE]) __attribute__((warn_unused_result));

/* Is the stored task the one that was sealed? NULL, or what is wrong. seal: of the session's row, "" where it
 * is older than seals; token: what the session was given, which carries the seal, and the hash of the whole
 * task, under our signature. */
const char *seal_find_fault(
	const char *task, size_t size, const char *seal, const struct token_keys *keys, const char *token);

#endif
