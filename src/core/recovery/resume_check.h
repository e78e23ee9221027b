/* SPDX-License-Identifier: MIT */
/* resume_check.h: may a session go on after a pause, a restart or a death, under the policy in force? */
#ifndef HCPD_CORE_RECOVERY_RESUME_CHECK_H
#define HCPD_CORE_RECOVERY_RESUME_CHECK_H

#include <stdbool.h>

struct session;

struct resume_fault {
	const char *check; /* capability, caller, risk, data_class, command, state_version */
	const char *code;  /* of task_failed */
	char message[384];
};

/* needs_process: a new process is started; else the present one goes on. False with the fault. recover.c
 * checks the seal and the checkpoints, a timer the deadline. */
bool resume_check_pass(const struct session *s, bool needs_process, struct resume_fault *f)
	__attribute__((warn_unused_result));
/* Does a checkpoint's state have the major version that the capability's workers read? "" and NULL: any. */
bool resume_check_is_same_major(const char *of_state, const char *wanted);

#endif
