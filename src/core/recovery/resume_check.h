/* recheck.h: before a session runs on, after a pause, a restart or a death: may it, under the policy of now?
 */
#ifndef HCPD_RECHECK_H
#define HCPD_RECHECK_H

#include <stdbool.h>

struct session;

struct recheck_fault {
	const char *check; /* capability, caller, risk, data_class, command, state_version */
	const char *code;  /* of task_failed */
	char message[384];
};

/* needs_process: one is started for it; else the one that it has goes on. False with what is wrong. Its seal
 * and its checkpoints are recover.c's to look at, its time is its timer's. */
bool recheck_pass(const struct session *s, bool needs_process, struct recheck_fault *f)
	__attribute__((warn_unused_result));
/* Is a checkpoint's state of the major version that the capability's workers go on from? "" and NULL: any. */
bool recheck_is_same_major(const char *of_state, const char *wanted);

#endif
