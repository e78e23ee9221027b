/* SPDX-License-Identifier: MIT */
/* oracle_stream.h: the rules for the stream of one session (L2-04, L2-05, L2-12, L2-15), once for all tests.
 * Knows the protocol from its text, and nothing of the daemon's code. A test feeds the oracle messages in
 * order, without repetitions; the oracle reports each violation through a function of the test.
 *
 *	rule                     what must hold
 *	one answer               one task_accepted, before everything else; none beside a task_rejected
 *	each submit answered     a stream has its task_accepted
 *	no gap                   sequences are 1, 2, 3, ...
 *	session_created first    sequence 1, and only sequence 1, is session_created, with PENDING
 *	known messages           messages of the four types, events of the nine types
 *	legal transitions        state_changed leads from the present state to one that the table allows
 *	one terminal state       one end, session_closed names it, the result belongs to it; none for ABORTED
 *	session_closed last      after the end only the result and session_closed, after that nothing */
#ifndef HCPD_TESTS_SUPPORT_ORACLE_STREAM_H
#define HCPD_TESTS_SUPPORT_ORACLE_STREAM_H

#include <jansson.h>
#include <stdbool.h>

/* The rule by its name, and the evidence. */
typedef void oracle_violation(void *ctx, const char *rule, const char *what);

bool oracle_is_legal(const char *from, const char *to);
bool oracle_is_final(const char *state);
/* The text of the oracle's own table, which lives for ever; "" where it has no such state or event type. */
const char *oracle_state(const char *state);
const char *oracle_event_type(const char *event_type);

struct oracle_message {         /* no field is NULL */
	const char *type;       /* event, task_accepted, task_rejected, task_completed, task_failed */
	const char *event_type; /* of an event; "": none of the nine */
	long long sequence;
	const char *from, *to; /* to: also state of session_created and final_state of session_closed */
};

/* The fields of an envelope. They live as long as the envelope. */
struct oracle_message oracle_message_of(const json_t *envelope);

struct oracle_stream {
	const char *session;
	oracle_violation *on_violation;
	void *ctx;
	bool any_order; /* answers and results may stand anywhere: only events are in order */
	bool is_lossy;  /* messages may be missing: sequences only grow, states may jump */
	/* what the oracle has seen */
	char state[16]; /* "": none yet */
	long long sequence, changes;
	int results, ends, closes;
	bool accepted, rejected, closed, result_is_good;
};

void oracle_stream_take(struct oracle_stream *s, const struct oracle_message *m);
/* The end of the messages. must_be_closed: the session must have ended by now. */
void oracle_stream_end(struct oracle_stream *s, bool must_be_closed);

#endif
