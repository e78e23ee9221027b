/* SPDX-License-Identifier: MIT */
/* op_request.h: one request of an operator, and its answer.
 *
 * A request is a plain message. The control thread makes it, the core's thread fills in the answer, and the
 * control thread sends the answer and frees the request. op_queue.h carries it both ways. */
#ifndef HCPD_CORE_OP_REQUEST_H
#define HCPD_CORE_OP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"

enum op_verb {
	OP_ABORT,
	OP_PAUSE,
	OP_RESUME,
	OP_CHECKPOINT,
	OP_REPLAY,
	OP_DRAIN,
	OP_UNDRAIN,
	OP_REVOKE_TOKEN,
	OP_ROTATE_KEY,
	OP_STATS,
	OP_LIVE,
	OP_DECIDE,
	OP_APPROVERS,
	OP_RECOVER,
	OP_EXTEND,
	OP_VERBS
};

struct op_live {    /* a session that is not over, as the core sees it now */
	int pid;    /* of its main process; 0: none */
	bool reads; /* the worker's pipes are read */
	bool waits; /* the session waits for a slot ... */
	/* ... and why (slots_why), with the caller's sessions */
	const char *waits_why;
	unsigned caller_running, caller_waiting;
	/* a program migrates its state; the session goes on after that */
	bool migrates;
	int64_t idle_us;      /* since the last line of its worker */
	int64_t outbox_bytes; /* stored and not yet settled */
	/* pause, resume or checkpoint: sent to the worker and not answered; NULL: nothing */
	const char *asked;
	int64_t asked_us;    /* since the request was sent */
	unsigned unanswered; /* requests for checkpoints in a row without an answer */
};

struct op_request {
	struct op_request *next;
	uint64_t ticket; /* of the control thread */
	int64_t uid;     /* of the operator ... */
	char user[33];   /* ... and the login name; "": it has none */
	enum op_verb verb;
	char session_id[ID_SIZE]; /* whole; "" where the verb has none */
	char *reason;             /* NULL: none was given */
	int64_t from;             /* replay: the first sequence; 1: everything */
	char how[16];             /* recover: which of recovery_names; may be anything */
	int64_t by_us;            /* extend: how much longer */
	char *token;              /* extend: the session's, NULL: none was given */
	char *decision;           /* decide: the bytes as they came */
	size_t decision_size;
	/* decide: the approver that the decision names; proven where the request was not refused; "": not a
	 * configured one */
	char signer[129];
	/* the answer */
	const char *code; /* of the error; NULL: done */
	char message[256], remedy[192];
	struct buf item; /* a JSON object; empty: none */
	struct buf done; /* members of the closing line, each with a comma before it */
	bool has_live;
	struct op_live live;
};

struct op_request *op_request_new(enum op_verb verb);
void op_request_free(struct op_request *a);
/* Refuses the request: code, what the operator can do, and why. */
void op_request_refuse(struct op_request *a, const char *code, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
