/* SPDX-License-Identifier: MIT */
/* reconnect.h: what everything that keeps a connection to the broker needs: the back-off between two
 * attempts, the guard that gets a thread out of a call that hangs, and the exchanges that each new connection
 * declares.
 *
 * Each user has its own limits and its own jitter, and passes them in. Never opens a connection, sleeps or
 * logs. */
#ifndef HCPD_AMQP_RECONNECT_H
#define HCPD_AMQP_RECONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "amqp/connection.h"

/* --- back-off --- */

enum backoff_jitter {
	BACKOFF_EXACT,  /* the step itself */
	BACKOFF_AROUND, /* 80 to 120 % of the step */
	BACKOFF_ABOVE   /* the first step itself, a later one with up to a tenth more */
};

/* The step is first_us, doubles with each attempt that fails, and ends at max_us:
 *
 *	first, 2 first, 4 first ... max, max ...
 *
 * The jitter changes the wait that a step gives, never the step. */
struct backoff {
	int64_t first_us, max_us;
	int64_t ceiling_us; /* of the wait, after the jitter; 0: none */
	enum backoff_jitter jitter;
	uint64_t (*random)(void); /* NULL only with BACKOFF_EXACT */
	int64_t step_us;          /* 0: no attempt failed since the reset */
};

/* How long to wait before the next attempt. */
int64_t backoff_next_us(struct backoff *b);
/* The connection works: the next failure is a first one. */
void backoff_reset(struct backoff *b);
/* 32 bits from the operating system, for `random`: many programs come back to one broker, not at one moment.
 */
uint64_t backoff_random(void);

/* --- guard --- */

/* A copy of a connection's socket, by which another thread ends a call that hangs inside librabbitmq. It is a
 * copy, because librabbitmq may close its own at any time, and the number may belong to another file then.
 * The owner holds its own lock around each of these calls. */
struct guard {
	int fd; /* -1: no socket */
};
#define GUARD_NONE ((struct guard){.fd = -1})

/* Copies the socket. Shuts it down at once where the owner is ending already. -1 and errno: no copy. */
int guard_open(struct guard *g, int socket_fd, bool is_ending) __attribute__((warn_unused_result));
/* False where there is no socket. Else every call on the connection fails from here on. */
bool guard_shut_down(struct guard *g);
void guard_close(struct guard *g);

/* --- declaring again --- */

/* hcp.commands and hcp.events: another program may have deleted them while there was no connection. -1:
 * *refused is the one that the broker does not accept; refused may be NULL. */
int reconnect_declare_exchanges(struct connection *l, const char **refused, struct connection_error *e)
	__attribute__((warn_unused_result));

#endif
