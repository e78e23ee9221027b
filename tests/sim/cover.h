/* cover.h: what can happen in a simulation, counted, so that a run in which something never happened is seen. */
#ifndef HCPD_SIM_COVER_H
#define HCPD_SIM_COVER_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, group, what); in a run of a thousand seeds each must have happened, but those of NOT_YET. */
#define COVERED(X)                                                                                           \
	X(STEP_SUBMIT, "step", "submit") X(STEP_ABORT, "step", "abort") X(STEP_DELIVER, "step", "deliver")   \
	X(STEP_WORKER, "step", "worker") X(STEP_BROKER, "step", "broker works")                              \
	X(STEP_CONFIRM, "step", "broker confirms") X(STEP_LINK, "step", "link") X(STEP_CALLER, "step", "caller") \
	X(STEP_DISK, "step", "disk") X(STEP_CRASH, "step", "crash") X(STEP_STOP, "step", "stop")             \
	X(STEP_RELOAD, "step", "reload") X(STEP_TIME, "step", "time") X(STEP_CLOCK, "step", "clock")         \
	X(STEP_SYSTEM, "step", "system") X(STEP_OPERATE, "step", "operator")                                 \
	X(OPERATE_DONE, "operator", "is obeyed") X(OPERATE_REFUSED, "operator", "is refused")                \
	X(OPERATE_RESUMED, "operator", "resumes without a process") X(OPERATE_RESUMED_LIVE, "operator", "resumes a worker") \
	X(REASON_OPERATOR_PAUSED, "reason", "paused_by_operator")                                            \
	X(REASON_OPERATOR_ABORTED, "reason", "aborted_by_operator") X(CRASH_ANSWER, "crash", "at an answer to an operator")                                                                     \
	X(PENDING_RUNNING, "transition", "PENDING>RUNNING") X(PENDING_REJECTED, "transition", "PENDING>REJECTED") \
	X(RUNNING_PAUSED, "transition", "RUNNING>PAUSED") X(RUNNING_ABORTING, "transition", "RUNNING>ABORTING") \
	X(RUNNING_COMPLETED, "transition", "RUNNING>COMPLETED") X(RUNNING_FAILED, "transition", "RUNNING>FAILED") \
	X(PAUSED_RUNNING, "transition", "PAUSED>RUNNING") X(PAUSED_ABORTING, "transition", "PAUSED>ABORTING") \
	X(ABORTING_ABORTED, "transition", "ABORTING>ABORTED")                                                \
	X(REASON_APPROVED, "reason", "approved") X(REASON_SLOT_FREE, "reason", "slot_free")                  \
	X(REASON_RESTARTED_BY, "reason", "callee_restarted") X(REASON_RECOVERED, "reason", "recovered_from_checkpoint") \
	X(REASON_RESTARTED, "reason", "restarted") X(REASON_NO_CHECKPOINT, "reason", "no_checkpoint")        \
	X(REASON_TIMEOUT, "reason", "timeout") X(REASON_IDLE, "reason", "idle_timeout")                      \
	X(REASON_STOPPING, "reason", "stopping") X(REASON_ABORTED, "reason", "aborted_by_caller")            \
	X(REASON_COMPLETED, "reason", "completed") X(REASON_WORKER_FAILED, "reason", "worker_failed")        \
	X(REASON_RESUMED, "reason", "resumed") X(REASON_WORKER_PAUSED, "reason", "paused_by_worker")         \
	X(CODE_ACCEPTED, "answer", "accepted") X(CODE_UNAUTHORIZED, "answer", "unauthorized")                \
	X(CODE_FORBIDDEN, "answer", "forbidden") X(CODE_INVALID, "answer", "invalid_input")                  \
	X(CODE_RISK, "answer", "risk_too_high") X(CODE_UNKNOWN, "answer", "unknown_capability")              \
	X(CODE_VERSION, "answer", "unsupported_version") X(CODE_NO_ROOM, "answer", "resource_unavailable")   \
	X(CODE_POLICY, "answer", "policy_denied")                                                            \
	X(SUBMIT_DUP_QUEUED, "submit", "again before its answer") X(SUBMIT_DUP_ANSWERED, "submit", "again after its answer") \
	X(SUBMIT_DUP_LATER_LIFE, "submit", "again in a later life") X(SUBMIT_DUP_OTHER, "submit", "same id, other task") \
	X(SUBMIT_REDELIVERED, "submit", "redelivered by the broker") X(SUBMIT_DROPPED, "submit", "garbage dropped") \
	X(ABORT_RIGHT, "abort", "rightful") X(ABORT_WRONG_TOKEN, "abort", "wrong token")                     \
	X(ABORT_FOREIGN, "abort", "not its owner") X(ABORT_UNKNOWN, "abort", "unknown session")              \
	X(ABORT_DOUBLE, "abort", "twice") X(ABORT_ENDED, "abort", "ended session")                           \
	X(ABORT_RACING, "abort", "racing with the end") X(ABORT_PENDING, "abort", "of a waiting session")    \
	X(ABORT_STOPPING, "abort", "during a stop")                                                          \
	X(WORKER_PROGRESS, "worker", "reports") X(WORKER_GARBAGE, "worker", "garbage line")                  \
	X(WORKER_TOO_LONG, "worker", "line too long") X(WORKER_UNENDED, "worker", "line without newline")    \
	X(WORKER_CHECKPOINT, "worker", "checkpoint") X(WORKER_BARE_POINT, "worker", "checkpoint not resumable") \
	X(WORKER_PAUSED, "worker", "paused") X(WORKER_RESUMED, "worker", "resumed")                          \
	X(WORKER_COMPLETED, "worker", "completed") X(WORKER_FAILED, "worker", "failed")                      \
	X(WORKER_TWO_ENDS, "worker", "says two ends") X(WORKER_FORGES, "worker", "forges a protocol event")  \
	X(WORKER_DIES, "worker", "dies") X(WORKER_KILLED, "worker", "dies of a signal")                      \
	X(WORKER_FLOODS, "worker", "floods") X(WORKER_CLOSES, "worker", "closes stdout early")               \
	X(WORKER_FORKS, "worker", "leaves a grandchild") X(WORKER_HANGS, "worker", "hangs through SIGTERM")  \
	X(WORKER_IMMORTAL, "worker", "survives SIGKILL for a while") X(WORKER_OBEYS, "worker", "obeys a line") \
	X(WORKER_REUSED, "worker", "serves a second session") X(WORKER_NO_START, "worker", "cannot be started") \
	X(WORKER_LEFT_OVER, "worker", "survives a crash of the daemon")                                      \
	X(WORKER_LATE, "worker", "speaks after its end was decided") X(WORKER_UNREAD, "worker", "is not read, the outbox is full")                                         \
	X(FATE_CONFIRMED, "broker", "confirms") X(FATE_LATE, "broker", "confirms late")                      \
	X(FATE_DISORDER, "broker", "confirms out of order") X(FATE_SWALLOWED, "broker", "never confirms")    \
	X(FATE_TWICE, "broker", "has a message twice") X(FATE_NACKED, "broker", "nacks")                     \
	X(FATE_UNROUTABLE, "broker", "returns") X(FATE_ROUTED_LATER, "broker", "returned, then routed")      \
	X(FATE_403, "broker", "closes with 403") X(FATE_404, "broker", "closes with 404")                    \
	X(FATE_406, "broker", "closes with 406") X(FATE_SET_ASIDE, "broker", "a substitute went out")        \
	X(FATE_BLOCKED, "broker", "blocks the publisher") X(FATE_DROPPED, "broker", "connection drops")      \
	X(FATE_MID_TURN, "broker", "connection drops in mid-turn") X(FATE_RESCUED, "broker", "stalled link dropped by us") \
	X(FATE_SUB_DROPPED, "broker", "consuming connection drops") X(FATE_ACK_LOST, "broker", "an ack is lost") \
	X(DISK_FULL, "disk", "full") X(DISK_WRITE, "disk", "write error") X(DISK_SYNC, "disk", "sync error") \
	X(DISK_LOCKED, "disk", "locked by another") X(DISK_UNREADABLE, "disk", "a table cannot be read")     \
	X(DISK_HELD, "disk", "the core held") X(DISK_EXIT, "disk", "on_error = exit left")                   \
	X(DISK_STOP_HELD, "disk", "a stop while held")                                                       \
	X(CRASH_BETWEEN, "crash", "between turns") X(CRASH_MID_TURN, "crash", "before the commit")           \
	X(CRASH_DISK, "crash", "at a change of the disk") X(CRASH_PUBLISH, "crash", "at a publish")          \
	X(CRASH_ACK, "crash", "at an ack") X(CRASH_START, "crash", "at a start")                             \
	X(CRASH_LINE, "crash", "at a line to a worker") X(CRASH_END, "crash", "at the end of a worker")      \
	X(CRASH_RECOVERY, "crash", "in recovery") X(CRASH_STOPPING, "crash", "in a stop")                    \
	X(CRASH_POWER, "crash", "with power loss")                                                           \
	X(STOP_GRACEFUL, "stop", "graceful, exit 0") X(STOP_TWICE, "stop", "told twice")                     \
	X(STOP_LATE, "stop", "left with its time over") X(RELOAD_GOOD, "stop", "reloaded")                   \
	X(RELOAD_BROKEN, "stop", "broken configuration refused") X(RELOAD_REMOVED, "stop", "a capability removed") \
	X(CLOCK_STEPPED, "clock", "wall clock stepped") X(CLOCK_SUSPENDED, "clock", "suspended")             \
	X(CLOCK_DOWN, "clock", "long down time")                                                             \
	X(ARTIFACT_IN, "artifact", "stored") X(ARTIFACT_REFUSED, "artifact", "refused")                      \
	X(ARTIFACT_BROKEN, "artifact", "no room for it") X(ARTIFACT_LEFT, "artifact", "left by a crash")     \
	X(ARTIFACT_WAITED, "artifact", "an end waited for it")                                               \
	X(RECOVER_LIVE, "recovery", "a running session") X(RECOVER_PENDING, "recovery", "a waiting session") \
	X(RECOVER_OUTCOME, "recovery", "an end decided before") X(RECOVER_ABORTING, "recovery", "an abort under way") \
	X(RECOVER_OUTBOX, "recovery", "messages not confirmed") X(RECOVER_TIMED_OUT, "recovery", "max_duration over while down")

#define COVER_NAME(name, group, what) name,
enum covered { COVERED(COVER_NAME) COVER_COUNT };
#undef COVER_NAME

/* No part of the daemon makes these yet: nobody waits for a human. */
#define NOT_YET(c) ((c) == PENDING_REJECTED)

extern uint64_t *cover_counts;          /* COVER_COUNT of them, of this process */

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
