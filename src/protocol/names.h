/* SPDX-License-Identifier: MIT */
/* names.h: the names of HCP that are used everywhere: states, risks, data classes, priorities, ways to
 * recover, and reasons. Each list of names ends with NULL; one with an enum is in its order. */
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

/* Why a session changed its state: the `reason` of state_changed and session_closed, and of each row of
 * transitions. Others match on them. hcpd(8), Reasons, explains each; scripts/check-reasons compares. A
 * worker that pauses may give a reason of its own; the rejected session's reason is the code of its
 * rejection. */
#define REASONS(X) \
	X("approved") \
	X("slot_free") \
	X("paused_by_operator") \
	X("paused_by_worker") \
	X("idle") \
	X("worker_died") \
	X("stopping") \
	X("callee_restarted") \
	X("resumed") \
	X("recovered_from_checkpoint") \
	X("restarted") \
	X("completed") \
	X("worker_failed") \
	X("timeout") \
	X("idle_timeout") \
	X("pause_expired") \
	X("safety_violation") \
	X("no_checkpoint") \
	X("recheck_failed") \
	X("intent_changed") \
	X("migration_failed") \
	X("summarized") \
	X("failed_by_operator") \
	X("discarded") \
	X("aborted_by_caller") \
	X("aborted_by_operator") \
	X("approval_denied") \
	X("approval_expired") \
	X("policy_denied") \
	X("unauthorized") \
	X("forbidden") \
	X("unknown_capability") \
	X("invalid_input") \
	X("risk_too_high") \
	X("rate_limited") \
	X("resource_unavailable")

/* The risks of HCP, for lists that have another word for no risk. */
#define RISKS "R1", "R2", "R3", "R4", "R5"

extern const char *const reason_names[];
extern const char *const sstate_names[];
extern const char *const risk_names[]; /* [R_NONE] is "" */
extern const char *const data_class_names[];
extern const char *const priority_names[];
extern const char *const recovery_names[];

/* The index of a name in such a list; -1: it is not there. */
int name_find(const char *const names[], const char *name);

#endif
