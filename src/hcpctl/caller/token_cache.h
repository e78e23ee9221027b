/* ctl_sessions.h: own sessions that have not closed yet, with their tokens, in hcpctl's directory.
 *
 * One small JSON file, replaced as a whole under a lock, so that several hcpctl may run at once. */
#ifndef HCPD_CTL_SESSIONS_H
#define HCPD_CTL_SESSIONS_H

#include <stdint.h>

#include "base/buf.h"
#include "hcpctl/common/user_files.h"
#include "base/id.h"

#define CTL_SESSIONS_FILE "sessions.json"
#define CTL_SESSIONS_KEEP_US (INT64_C(30) * 86400 * 1000000) /* an end nobody saw: gone after 30 days */

struct ctl_session {
	char id[ID_SIZE];
	char *token, *caller, *callee, *capability; /* any may be NULL */
	int64_t since_us;                           /* wall clock */
	int64_t sequence;                           /* of the last event shown; 0: not known */
};

enum ctl_found { CTL_FOUND, CTL_NONE, CTL_AMBIGUOUS, CTL_UNREADABLE };

/* Adds or replaces; drops what is too old. -1 with a sentence in why[CTL_WHY_SIZE]. */
int ctl_sessions_put(const char *dir, const struct ctl_session *s, char *why)
	__attribute__((warn_unused_result));
/* Fine where it is not there. */
int ctl_sessions_drop(const char *dir, const char *id, char *why) __attribute__((warn_unused_result));
/* By a whole id or a prefix of it, either case. why says which ones it might be, or what is wrong. On
 * CTL_FOUND the caller frees with ctl_session_fini. */
enum ctl_found ctl_sessions_find(const char *dir, const char *prefix, struct ctl_session *out, char *why);
void ctl_session_fini(struct ctl_session *s);

#endif
