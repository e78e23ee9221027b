/* SPDX-License-Identifier: MIT */
/* names.h: the names of HCP that are used everywhere: states, risks, data classes, priorities, and ways to
 * recover. Each list of names ends with NULL and is in the order of its enum. */
#ifndef HCPD_PROTOCOL_NAMES_H
#define HCPD_PROTOCOL_NAMES_H

enum sstate {
	S_PENDING,
	S_REJECTED,
	S_RUNNING,
	S_PAUSED,
	S_ABORTING,
	S_ABORTED,
	S_COMPLETED,
	S_FAILED,
	S_COUNT,
	S_NONE = S_COUNT /* not decided, not known */
};
enum risk { R_NONE, R1, R2, R3, R4, R5 };
enum data_class { T1, T2, T3, T4 };
enum priority { PRIORITY_LOW, PRIORITY_NORMAL, PRIORITY_HIGH, PRIORITY_URGENT, PRIORITY_COUNT };
enum recovery {
	RECOVERY_RESUME,
	RECOVERY_RESTART,
	RECOVERY_FAIL,
	RECOVERY_SUMMARIZE,
	RECOVERY_DISCARD,
	RECOVERY_COUNT,
	RECOVERY_NONE = RECOVERY_COUNT /* no choice was made */
};

extern const char *const sstate_names[];
extern const char *const risk_names[]; /* [R_NONE] is "" */
extern const char *const data_class_names[];
extern const char *const priority_names[];
extern const char *const recovery_names[];

/* The index of a name in such a list; -1: it is not there. */
int name_find(const char *const names[], const char *name);

#endif
