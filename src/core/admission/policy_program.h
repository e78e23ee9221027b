/* judge.h: the external policy (L3-11): a program of the operator's that has the last word on every task that
 * the gate would let pass. JSON lines: a question in, a verdict out (hcpd.ini(5), [policy]).
 *
 * The program is kept running, and started again with a growing delay where it dies. A question is put to it
 * after the turn's commit, and gets exactly one answer, unless it is forgotten: what the program says; or a
 * denial where it says nothing in time, nothing that can be understood, dies, or is not running. Answers that
 * come late are dropped. Only the core's thread calls these. */
#ifndef HCPD_POLICY_JUDGE_H
#define HCPD_POLICY_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;
struct policy_program;

enum judge_decision { JUDGE_DENY, JUDGE_ALLOW, JUDGE_ASK }; /* ask: a human */

struct judge_question {
	int64_t session;                        /* its key: whom the answer is for; one question a session */
	const char *session_id, *caller, *user; /* user: NULL: not known */
	const char *capability, *version;
	const char *risk, *data_class, *rules;
	const char *task; /* JSON text */
	size_t task_size;
};

/* reason: the program's, or what was wrong with it; never NULL, bounded to 512 bytes. has_failed: it is the
 * latter. */
typedef void judge_answer_fn(
	struct core *c, int64_t session, enum judge_decision decision, const char *reason, bool has_failed);

struct policy_program *judge_new(struct core *c, judge_answer_fn *on_answer);
/* Its process is the workers' to end. */
void judge_free(struct policy_program *p);
/* How it is. */
struct judge_state {
	int pid;         /* 0: it does not run */
	int64_t span_us; /* for so long it runs, or is down */
	const char *why; /* it is down; "" where it runs, or was not started yet */
};
void judge_get_state(const struct policy_program *p, struct judge_state *out);
/* Does the configuration in force name a program? */
bool judge_is_there(const struct core *c);
void judge_ask(struct policy_program *p, const struct judge_question *q);
/* Nobody waits for the answer any more; fine where nothing was asked. */
void judge_forget(struct policy_program *p, int64_t session);
/* The policy was reloaded: the program is started anew, and asked again what the old one had not answered. */
void judge_reload(struct policy_program *p);
/* Nobody listened to it until now: its time begins anew. */
void judge_touch_all(struct policy_program *p);
/* After the commit: starts the program where it is due, puts this turn's questions to it, frees what is gone.
 */
void judge_end_turn(struct policy_program *p);

#endif
