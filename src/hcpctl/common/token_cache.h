/* SPDX-License-Identifier: MIT */
/* token_cache.h: the user's own sessions that have not closed yet, with their tokens, in hcpctl's directory.
 *
 * One small JSON file, replaced as a whole under a lock, so that several hcpctl may run at once. */
#ifndef HCPD_HCPCTL_COMMON_TOKEN_CACHE_H
#define HCPD_HCPCTL_COMMON_TOKEN_CACHE_H

#include <stdint.h>

#include "base/buf.h"
#include "hcpctl/common/user_files.h"
#include "base/id.h"

#define CTL_SESSIONS_FILE "sessions.json"
#define CTL_SESSIONS_KEEP_US (INT64_C(30) * 86400 * 1000000) /* then a session without an end is dropped */

struct ctl_session {
	char id[ID_SIZE];
	char *token, *caller, *callee, *capability; /* any may be NULL */
	int64_t since_us;                           /* wall clock */
	int64_t sequence; /* sequence of the last event that was printed; 0: not known */
};

enum ctl_found { CTL_FOUND, CTL_NONE, CTL_AMBIGUOUS, CTL_UNREADABLE };

/* Adds or replaces a session; drops old ones. -1 with a sentence in why[CTL_WHY_SIZE]. */
int ctl_token_cache_put(const char *dir, const struct ctl_session *s, char *why)
	__attribute__((warn_unused_result));
/* Removes a session; a missing one is no error. */
int ctl_token_cache_drop(const char *dir, const char *id, char *why) __attribute__((warn_unused_result));
/* Finds a session by its whole id or a prefix, in either case. why names the candidates, or what is wrong.
 * After CTL_FOUND the caller calls ctl_session_fini. */
enum ctl_found ctl_token_cache_find(const char *dir, const char *prefix, struct ctl_session *out, char *why);
void ctl_session_fini(struct ctl_session *s);

#endif
