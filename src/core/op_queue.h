/* SPDX-License-Identifier: MIT */
/* op_queue.h: requests of operators on their way to the core, and answers on their way back.
 *
 * Two threads use a queue: the one that serves operators (control.h) and the core's. Neither waits for the
 * other. */
#ifndef HCPD_CORE_OP_QUEUE_H
#define HCPD_CORE_OP_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct op_request;
struct op_queue;

/* A refusal for the audit: a peer that may not use the socket, or a request that was refused before it
 * reached the core. At most OP_QUEUE_DENIED kinds (user, who, what, code) are counted apart between two calls
 * of op_queue_take_denied; the rest is counted with the last one. Texts that are no arrays are constants. */
enum { OP_QUEUE_DENIED = 8 };
struct denied_peer {
	int64_t uid;
	char user[33];
	int pid;          /* of the first process */
	int worker_pid;   /* the daemon's child that the process descends from; 0: not known */
	const char *who;  /* stranger, worker, operator; NULL: stranger */
	const char *what; /* the verb; NULL: control, the socket as a whole */
	const char *code; /* NULL: refused */
	char why[256];    /* of the first one; "": may not use the control socket */
	uint64_t count;
};

/* wake() is called whenever op_queue_take or op_queue_take_denied has something new. NULL: no descriptor is
 * left. */
struct op_queue *op_queue_new(void (*wake)(void *ctx), void *ctx);
/* With the requests that are still in it. */
void op_queue_free(struct op_queue *q);

/* ---- for the thread that serves operators ---- */

void op_queue_put(struct op_queue *q, struct op_request *a);
/* Readable when there is an answer, a commit that a client follows, or a call of op_queue_wake. */
int op_queue_fd(const struct op_queue *q);
/* Every answer, oldest first; the caller owns the list. *has_committed: something was committed since the
 * last call. */
struct op_request *op_queue_take_answers(struct op_queue *q, bool *has_committed);
/* Adds to the number of clients that follow commits; by may be negative. */
void op_queue_follow(struct op_queue *q, int by);
void op_queue_put_denied(struct op_queue *q, const struct denied_peer *peer);
/* Makes op_queue_fd readable; any thread may call it. */
void op_queue_wake(struct op_queue *q);

/* ---- for the core's thread ---- */

/* Every new request, oldest first; the caller owns the list. */
struct op_request *op_queue_take(struct op_queue *q);
/* Gives an answered request back. */
void op_queue_answer(struct op_queue *q, struct op_request *a);
/* Writes the peers that were denied since the last call to out. Returns their number. */
int op_queue_take_denied(struct op_queue *q, struct denied_peer out[OP_QUEUE_DENIED]);
/* Something was committed. Costs next to nothing where no client follows. */
void op_queue_on_commit(struct op_queue *q);

#endif
