/* SPDX-License-Identifier: MIT */
/* cover.h: what can happen in a simulation, counted, so that a run in which something never happened is
 * seen. */
#ifndef HCPD_TESTS_RELIABILITY_SIM_COVER_H
#define HCPD_TESTS_RELIABILITY_SIM_COVER_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, group, what); in a run of COVER_SEEDS seeds each must have happened. */
/* clang-format off */
#define COVERED(X) \
	X(STEP_SUBMIT, "step", "submit") \
	X(STEP_ABORT, "step", "abort") \
	X(STEP_DELIVER, "step", "deliver") \
	X(STEP_WORKER, "step", "worker") X(STEP_BROKER, "step", "broker works") \
	X(STEP_CONFIRM, "step", "broker confirms") \
	X(STEP_LINK, "step", "link") \
	X(STEP_CALLER, "step", "caller") \
	X(STEP_DISK, "step", "disk") X(STEP_CRASH, "step", "crash") X(STEP_STOP, "step", "stop") \
	X(STEP_RELOAD, "step", "reload") X(STEP_TIME, "step", "time") X(STEP_CLOCK, "step", "clock") \
	X(STEP_SYSTEM, "step", "system") X(STEP_OPERATE, "step", "operator") \
	X(STEP_DECIDE, "step", "human decides") X(STEP_PROGRAM, "step", "policy program") \
	X(STEP_MOVE, "step", "migration") \
	X(OPERATE_DONE, "operator", "is obeyed") X(OPERATE_REFUSED, "operator", "is refused") \
	X(OPERATE_EXTENDED, "operator", "extends a deadline") \
	X(OPERATE_RESUMED, "operator", "resumes without a process") \
	X(OPERATE_RESUMED_LIVE, "operator", "resumes a worker") \
	X(REASON_OPERATOR_PAUSED, "reason", "paused_by_operator") \
	X(REASON_OPERATOR_ABORTED, "reason", "aborted_by_operator") \
	X(CRASH_ANSWER, "crash", "at an answer to an operator") \
	X(PENDING_RUNNING, "transition", "PENDING>RUNNING") \
	X(PENDING_REJECTED, "transition", "PENDING>REJECTED") \
	X(RUNNING_PAUSED, "transition", "RUNNING>PAUSED") \
	X(RUNNING_ABORTING, "transition", "RUNNING>ABORTING") \
	X(RUNNING_COMPLETED, "transition", "RUNNING>COMPLETED") \
	X(RUNNING_FAILED, "transition", "RUNNING>FAILED") \
	X(PAUSED_RUNNING, "transition", "PAUSED>RUNNING") \
	X(PAUSED_ABORTING, "transition", "PAUSED>ABORTING") \
	X(ABORTING_ABORTED, "transition", "ABORTING>ABORTED") \
	X(REASON_APPROVED, "reason", "approved") X(REASON_SLOT_FREE, "reason", "slot_free") \
	X(REASON_RESTARTED_BY, "reason", "callee_restarted") \
	X(REASON_RECOVERED, "reason", "recovered_from_checkpoint") \
	X(REASON_RESTARTED, "reason", "restarted") X(REASON_NO_CHECKPOINT, "reason", "no_checkpoint") \
	X(REASON_TIMEOUT, "reason", "timeout") X(REASON_IDLE, "reason", "idle_timeout") \
	X(REASON_STOPPING, "reason", "stopping") X(REASON_ABORTED, "reason", "aborted_by_caller") \
	X(REASON_COMPLETED, "reason", "completed") X(REASON_WORKER_FAILED, "reason", "worker_failed") \
	X(REASON_RESUMED, "reason", "resumed") X(REASON_WORKER_PAUSED, "reason", "paused_by_worker") \
	X(REASON_DENIED, "reason", "approval_denied") X(REASON_EXPIRED, "reason", "approval_expired") \
	X(REASON_POLICY, "reason", "policy_denied") X(REASON_RISK, "reason", "risk_too_high") \
	X(REASON_SAFETY, "reason", "safety_violation") \
	X(REASON_DIED, "reason", "worker_died") X(REASON_MOVE, "reason", "migration_failed") \
	X(MOVE_BEGUN, "migration", "begun") X(MOVE_DONE, "migration", "done") \
	X(MOVE_NONSENSE, "migration", "its program answers nonsense") \
	X(MOVE_DIES, "migration", "its program dies") \
	X(MOVE_LATE, "migration", "its program takes too long") \
	X(JOB_LATE, "job", "is finished and not taken yet") X(JOB_RESTORED, "job", "restores a large state") \
	X(SLICE_OVER, "turn", "ends before all is taken") X(KEEP_LEFT, "retention", "a session left") \
	X(KEEP_CUT, "retention", "what a crash left was cut off") \
	X(KEEP_REFUSED, "retention", "no room for the archive") \
	X(CRASH_ARCHIVE, "crash", "at a write to the archive") \
	X(STEP_SIMPLE, "step", "submit while others leave") \
	X(TOLD_EXECUTING, "told", "executing") \
	X(TOLD_PLANNING, "told", "planning") \
	X(TOLD_EDITING, "told", "editing") \
	X(TOLD_IDLE, "told", "idle") \
	X(TOLD_WAITING, "told", "waiting_approval") \
	X(TOLD_ERROR, "told", "error") \
	X(TOLD_USER_END, "told", "user_end") \
	X(TOLD_TIMEOUT, "told", "timeout") \
	X(TOLD_KILL, "told", "policy_kill") \
	X(TOLD_CHECKPOINT, "told", "a checkpoint") X(TOLD_SNAPSHOT, "told", "a worker's snapshot") \
	X(TOLD_ARRIVED, "told", "arrived") X(TOLD_REFUSED, "told", "refused by the broker") \
	X(CODE_ACCEPTED, "answer", "accepted") X(CODE_UNAUTHORIZED, "answer", "unauthorized") \
	X(CODE_FORBIDDEN, "answer", "forbidden") X(CODE_INVALID, "answer", "invalid_input") \
	X(CODE_RISK, "answer", "risk_too_high") X(CODE_UNKNOWN, "answer", "unknown_capability") \
	X(CODE_VERSION, "answer", "unsupported_version") \
	X(CODE_NO_ROOM, "answer", "resource_unavailable") \
	X(CODE_POLICY, "answer", "policy_denied") X(CODE_DENIED, "answer", "approval_denied") \
	X(CODE_EXPIRED, "answer", "approval_expired") \
	X(SUBMIT_DUP_QUEUED, "submit", "again before its answer") \
	X(SUBMIT_DUP_ANSWERED, "submit", "again after its answer") \
	X(SUBMIT_DUP_LATER_LIFE, "submit", "again in a later life") \
	X(SUBMIT_DUP_OTHER, "submit", "same id, other task") \
	X(SUBMIT_DUP_WAITING, "submit", "again while it waits") \
	X(SUBMIT_REDELIVERED, "submit", "redelivered by the broker") \
	X(SUBMIT_DROPPED, "submit", "garbage dropped") \
	X(ABORT_RIGHT, "abort", "rightful") X(ABORT_WRONG_TOKEN, "abort", "wrong token") \
	X(ABORT_FOREIGN, "abort", "not its owner") X(ABORT_UNKNOWN, "abort", "unknown session") \
	X(ABORT_DOUBLE, "abort", "twice") X(ABORT_ENDED, "abort", "ended session") \
	X(ABORT_RACING, "abort", "racing with the end") X(ABORT_PENDING, "abort", "of a waiting session") \
	X(ABORT_STOPPING, "abort", "during a stop") X(ABORT_UNDECIDED, "abort", "of an undecided task") \
	X(WORKER_PROGRESS, "worker", "reports") X(WORKER_GARBAGE, "worker", "garbage line") \
	X(WORKER_TOO_LONG, "worker", "line too long") X(WORKER_UNENDED, "worker", "line without newline") \
	X(WORKER_CHECKPOINT, "worker", "checkpoint") \
	X(WORKER_BARE_POINT, "worker", "checkpoint not resumable") \
	X(WORKER_SNAPSHOT, "worker", "snapshot") \
	X(WORKER_PAUSED, "worker", "paused") \
	X(WORKER_RESUMED, "worker", "resumed") \
	X(WORKER_COMPLETED, "worker", "completed") X(WORKER_FAILED, "worker", "failed") \
	X(WORKER_TWO_ENDS, "worker", "says two ends") \
	X(WORKER_FORGES, "worker", "forges a protocol event") \
	X(WORKER_DIES, "worker", "dies") X(WORKER_KILLED, "worker", "dies of a signal") \
	X(WORKER_FLOODS, "worker", "floods") X(WORKER_CLOSES, "worker", "closes stdout early") \
	X(WORKER_FORKS, "worker", "leaves a grandchild") \
	X(WORKER_HANGS, "worker", "hangs through SIGTERM") \
	X(WORKER_IMMORTAL, "worker", "survives SIGKILL for a while") \
	X(WORKER_OBEYS, "worker", "obeys a line") \
	X(WORKER_REUSED, "worker", "serves a second session") \
	X(WORKER_NO_START, "worker", "cannot be started") \
	X(WORKER_LEFT_OVER, "worker", "survives a crash of the daemon") \
	X(WORKER_LATE, "worker", "speaks after its end was decided") \
	X(WORKER_UNREAD, "worker", "is not read, the outbox is full") \
	X(FATE_CONFIRMED, "broker", "confirms") X(FATE_LATE, "broker", "confirms late") \
	X(FATE_DISORDER, "broker", "confirms out of order") X(FATE_SWALLOWED, "broker", "never confirms") \
	X(FATE_TWICE, "broker", "has a message twice") X(FATE_NACKED, "broker", "nacks") \
	X(FATE_UNROUTABLE, "broker", "returns") X(FATE_ROUTED_LATER, "broker", "returned, then routed") \
	X(FATE_403, "broker", "closes with 403") X(FATE_404, "broker", "closes with 404") \
	X(FATE_406, "broker", "closes with 406") X(FATE_SET_ASIDE, "broker", "a substitute went out") \
	X(FATE_BLOCKED, "broker", "blocks the publisher") X(FATE_DROPPED, "broker", "connection drops") \
	X(FATE_MID_TURN, "broker", "connection drops in mid-turn") \
	X(FATE_RESCUED, "broker", "stalled link dropped by us") \
	X(FATE_SUB_DROPPED, "broker", "consuming connection drops") \
	X(FATE_ACK_LOST, "broker", "an ack is lost") \
	X(DISK_FULL, "disk", "full") \
	X(DISK_WRITE, "disk", "write error") \
	X(DISK_SYNC, "disk", "sync error") \
	X(DISK_LOCKED, "disk", "locked by another") X(DISK_UNREADABLE, "disk", "a table cannot be read") \
	X(DISK_HELD, "disk", "the core held") X(DISK_EXIT, "disk", "on_error = exit left") \
	X(DISK_STOP_HELD, "disk", "a stop while held") \
	X(CRASH_BETWEEN, "crash", "between turns") X(CRASH_MID_TURN, "crash", "before the commit") \
	X(CRASH_DISK, "crash", "at a change of the disk") X(CRASH_PUBLISH, "crash", "at a publish") \
	X(CRASH_ACK, "crash", "at an ack") X(CRASH_START, "crash", "at a start") \
	X(CRASH_LINE, "crash", "at a line to a worker") X(CRASH_END, "crash", "at the end of a worker") \
	X(CRASH_RECOVERY, "crash", "in recovery") X(CRASH_STOPPING, "crash", "in a stop") \
	X(CRASH_POWER, "crash", "with power loss") \
	X(STOP_GRACEFUL, "stop", "graceful, exit 0") X(STOP_TWICE, "stop", "told twice") \
	X(STOP_LATE, "stop", "left with its time over") X(RELOAD_GOOD, "stop", "reloaded") \
	X(RELOAD_BROKEN, "stop", "broken configuration refused") \
	X(RELOAD_REMOVED, "stop", "a capability removed") \
	X(RELOAD_LATE, "stop", "a reload read in a later turn") \
	X(RELOAD_AGAIN, "stop", "a reload while one is read") \
	X(CLOCK_STEPPED, "clock", "wall clock stepped") X(CLOCK_SUSPENDED, "clock", "suspended") \
	X(CLOCK_DOWN, "clock", "long down time") \
	X(WAIT_HUMAN, "wait", "for a human") X(WAIT_PROGRAM, "wait", "for the program") \
	X(WAIT_HANDED, "wait", "for a human after the program") \
	X(WAIT_AGAIN, "wait", "for a second review, the risk rose") \
	X(WAIT_HELD, "wait", "while the core is held") X(WAIT_STOP, "wait", "through a graceful stop") \
	X(WAIT_RELOAD_HUMAN, "wait", "for a human, reload") \
	X(WAIT_RELOAD_PROGRAM, "wait", "for the program, reload") \
	X(WAIT_RELOAD_DECIDED, "wait", "allowed and not started, reload") \
	X(WAIT_CRASH_HUMAN, "wait", "for a human, crash") \
	X(WAIT_CRASH_PROGRAM, "wait", "for the program, crash") \
	X(WAIT_CRASH_DECIDED, "wait", "allowed and not started, crash") \
	X(WAIT_RAN_HUMAN, "wait", "ran, a human allowed it") \
	X(WAIT_RAN_TWO, "wait", "ran, two persons allowed it") \
	X(WAIT_RAN_PROGRAM, "wait", "ran, the program allowed it") \
	X(WAIT_RAN_BOTH, "wait", "ran, program and human allowed it") \
	X(WAIT_CANCELLED_HUMAN, "wait", "for a human, operator's abort") \
	X(WAIT_CANCELLED_PROGRAM, "wait", "for the program, operator's abort") \
	X(DECISION_ALLOW, "decision", "allow") X(DECISION_VOTE, "decision", "allow, the first of two") \
	X(DECISION_DENY, "decision", "deny") X(DECISION_LOST, "decision", "lost in a crash") \
	X(DECISION_UNTOLD, "decision", "stored, a crash before the answer") \
	X(DECISION_PUT_AGAIN, "decision", "the same text again") \
	X(DECISION_TWO_AT_ONCE, "decision", "two in one turn") \
	X(DECISION_NONCE_AGAIN, "decision", "another with the same nonce") \
	X(DECISION_REPLAY, "decision", "HARP_ERR_REPLAY") \
	X(DECISION_FORGED, "decision", "HARP_ERR_SIGNATURE_INVALID") \
	X(DECISION_LATE, "decision", "HARP_ERR_EXPIRED") \
	X(DECISION_OTHER, "decision", "HARP_ERR_HASH_MISMATCH") \
	X(DECISION_NOT_HIS, "decision", "HARP_ERR_POLICY_DENY") \
	X(DECISION_REFUSED, "decision", "refused") \
	X(PROGRAM_ALLOW, "program", "allow") \
	X(PROGRAM_DENY, "program", "deny") \
	X(PROGRAM_ASK, "program", "ask") \
	X(PROGRAM_NONSENSE, "program", "nonsense for a verdict") \
	X(PROGRAM_TWICE, "program", "answers again, otherwise") \
	X(PROGRAM_DIES, "program", "dies") X(PROGRAM_DIES_ASKED, "program", "dies with questions open") \
	X(PROGRAM_MUTE, "program", "closes its stdout") \
	X(PROGRAM_REPLACED, "program", "replaced with questions open") \
	X(PROGRAM_REPLACED_SAYS, "program", "answers after it was replaced") \
	X(PROGRAM_SILENT, "program", "denied: no verdict in time") \
	X(PROGRAM_DIED, "program", "denied: it died") \
	X(PROGRAM_DOWN, "program", "denied: it does not run") \
	X(PROGRAM_UNCLEAR, "program", "denied: not understood") \
	X(PROGRAM_REMOVED, "program", "denied: there is none any more") \
	X(ACTION_INSIDE, "action", "allowed") X(ACTION_OUTSIDE, "action", "refused") \
	X(ACTION_AGAIN, "action", "refused again, ends it") \
	X(ACTION_BEYOND, "action", "beyond a hard limit, ends it") \
	X(ACTION_PROHIBITED, "action", "prohibited, ends it") \
	X(ACTION_LATE, "action", "announced after its end was decided") \
	X(ARTIFACT_IN, "artifact", "stored") X(ARTIFACT_REFUSED, "artifact", "refused") \
	X(ARTIFACT_BROKEN, "artifact", "no room for it") X(ARTIFACT_LEFT, "artifact", "left by a crash") \
	X(ARTIFACT_WAITED, "artifact", "an end waited for it") \
	X(RECOVER_LIVE, "recovery", "a running session") \
	X(RECOVER_PENDING, "recovery", "a waiting session") \
	X(RECOVER_OUTCOME, "recovery", "an end decided before") \
	X(RECOVER_ABORTING, "recovery", "an abort under way") \
	X(RECOVER_OUTBOX, "recovery", "messages not confirmed") \
	X(RECOVER_TIMED_OUT, "recovery", "max_duration over while down")
/* clang-format on */

#define COVER_NAME(name, group, what) name,
enum covered { COVERED(COVER_NAME) COVER_COUNT };
#undef COVER_NAME

extern uint64_t *cover_counts; /* COVER_COUNT of them, of this process */

static inline void cover(enum covered c)
{
	cover_counts[c]++;
}

/* By its name on the wire; false where there is no such one. */
bool cover_name(const char *group, const char *what);
void cover_print(const uint64_t *counts);
/* Prints what never happened; how many that is. */
int cover_missing(const uint64_t *counts);

#endif
