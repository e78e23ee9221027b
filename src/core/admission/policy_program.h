/* SPDX-License-Identifier: MIT */
/* policy_program.h: the external policy (L3-11): a program of the operator's that decides last about every
 * task that the gate would let pass. It speaks JSON lines: a question in, an answer out (hcpd.ini(5),
 * [policy]).
 *
 * The program is kept running, and started again with a growing delay after it dies. A question is written to
 * it after the turn's commit. Each question gets exactly one answer, unless it is forgotten: the program's,
 * or a denial where the program is silent for too long, answers nonsense, dies, or is not running. Late
 * answers are dropped. Only the core's thread calls these functions. */
#ifndef HCPD_CORE_ADMISSION_POLICY_PROGRAM_H
#define HCPD_CORE_ADMISSION_POLICY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct policy_program;

enum policy_decision { PROGRAM_DENY, PROGRAM_ALLOW, PROGRAM_ASK }; /* ASK: a human has to decide */

struct policy_question {
	int64_t session;                        /* the session's key; one question a session */
	const char *session_id, *caller, *user; /* user may be NULL: not known */
	const char *capability, *version;
	const char *risk, *data_class, *rules;
	bool is_physical; /* the capability involves physical resources */
	const char *task; /* JSON text */
	size_t task_size;
};

/* reason: the program's, or what is wrong with the program (has_failed); never NULL, at most 512 bytes. */
typedef void policy_answer_fn(
	struct core *c, int64_t session, enum policy_decision decision, const char *reason, bool has_failed);

struct policy_program *policy_program_new(struct core *c, policy_answer_fn *on_answer);
/* Does not end the process: the workers' end does that. */
void policy_program_free(struct policy_program *p);
/* The program's state, for operators. */
struct policy_program_state {
	int pid;         /* of its process; 0: it does not run */
	int64_t span_us; /* how long it has been running, or down */
	const char *why; /* why it is down; "": it runs, or was not started yet */
};
void policy_program_get_state(const struct policy_program *p, struct policy_program_state *out);
/* Does the configuration in force name a program? */
bool policy_program_is_there(const struct core *c);
void policy_program_put(struct policy_program *p, const struct policy_question *q);
/* No session waits for the answer any more. Fine where there is no question. */
void policy_program_forget(struct policy_program *p, int64_t session);
/* The policy was reloaded: starts a new process and repeats the open questions to it. */
void policy_program_reload(struct policy_program *p);
/* The turns were suspended, so answers could not be read: all time limits begin again. */
void policy_program_touch_all(struct policy_program *p);
/* After the commit: starts the program where that is due, writes this turn's questions to it, frees processes
 * that are gone. */
void policy_program_end_turn(struct policy_program *p);

#endif
