/* SPDX-License-Identifier: MIT */
/* resume_check.h: may a session go on after a pause, a restart or a death, or begin after it waited for a
 * slot, under the policy in force? */
#ifndef HCPD_CORE_RECOVERY_RESUME_CHECK_H
#define HCPD_CORE_RECOVERY_RESUME_CHECK_H

#include <stdbool.h>

struct session;

struct resume_fault {
	/* capability, caller, risk, data_class, encryption, tls, approval, command, state_version,
	 * state_schema; NULL: the store cannot be read now, so nothing is known */
	const char *check;
	const char *code; /* of task_failed */
	char message[384];
};

/* needs_process: a new process is started; else the present one goes on. False with the fault. recover.c
 * checks the seal and the checkpoints, a timer the deadline. */
bool resume_check_pass(const struct session *s, bool needs_process, struct resume_fault *f)
	__attribute__((warn_unused_result));

#endif
