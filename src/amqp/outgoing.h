/* SPDX-License-Identifier: MIT */
/* outgoing.h: frames on their way into a plain socket: gathered in one buffer, written by few calls.
 *
 * For a connection without TLS, beside librabbitmq, which writes to the same socket. Its bytes and these must
 * not mix within a frame: flush before librabbitmq may write. The functions wait while the peer does not
 * read, and return a status of librabbitmq. After a failure each of them returns that failure again. */
#ifndef HCPD_AMQP_OUTGOING_H
#define HCPD_AMQP_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection_message;

#define OUTGOING_BYTES 65536 /* more than that is written at once, in pieces of this size */

struct outgoing {
	int fd;          /* a loan; does not block */
	int heartbeat_s; /* 0: none */
	size_t frame_max;
	char *data; /* NULL before the first frame; OUTGOING_BYTES then */
	size_t size;
	int status;
};

void outgoing_init(struct outgoing *o, int fd, int heartbeat_s, size_t frame_max);
/* What was not flushed is lost. */
void outgoing_fini(struct outgoing *o);
int outgoing_add_message(struct outgoing *o, const struct connection_message *m)
	__attribute__((warn_unused_result));
int outgoing_add_ack(struct outgoing *o, uint64_t tag, bool multiple) __attribute__((warn_unused_result));
int outgoing_add_reject(struct outgoing *o, uint64_t tag, bool requeue) __attribute__((warn_unused_result));
/* The connection is lost: nothing more is written. */
void outgoing_fail(struct outgoing *o, int status);
/* Everything is in the socket when it returns AMQP_STATUS_OK. Only shutdown(2), or a peer that was silent for
 * two heartbeats, ends a wait. */
int outgoing_flush(struct outgoing *o) __attribute__((warn_unused_result));

#endif
