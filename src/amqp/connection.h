/* SPDX-License-Identifier: MIT */
/* connection.h: one AMQP connection with one channel: connect, log in, declare, and then frames in and out.
 *
 * The bus threads of the daemon use it, and callers (libhcp, hcpctl), which wait in its calls. A connection
 * belongs to one thread at a time. A function that returns -1 has filled in the error. Only connection_free
 * is allowed then, unless a comment says otherwise: librabbitmq's own close is an RPC, and hangs on a dead
 * peer. Every RPC has a time-out. connection_publish, connection_ack and connection_reject have none, and
 * wait while the peer does not read. Only shutdown(2) on a copy of the socket (on_socket, and struct guard in
 * reconnect.h) ends such a call. */
#ifndef HCPD_AMQP_CONNECTION_H
#define HCPD_AMQP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "amqp/frames.h"

struct connection;

/* The time-out of connecting with TLS, of the log-in, and of each RPC. With a short reconnect_max the
 * time-out is shorter, too: the daemon does not wait long for a peer that accepts the connection and sends
 * nothing. */
#define CONNECTION_TIMEOUT_MS 10000
#define CONNECTION_TIMEOUT_LEAST_MS 5000

struct connection_error {
	int code;            /* AMQP reply code where the broker refused, else 0 */
	bool is_login;       /* it refused the user or the password */
	bool is_undecodable; /* librabbitmq cannot decode what came in */
	char text[480];      /* what, where, and what to do; never a password */
};

/* The broker is there and says no. One that shuts down or has a fault gives a code, too, and is as good as
 * absent. */
bool connection_is_refusal(const struct connection_error *e);

struct connection_spec {
	const struct config_amqp *amqp; /* only read inside connection_open */
	const char *name;               /* shown by the broker's tools */
	size_t max_body;                /* see frames.h */
	/* Called with the connected socket, before the log-in; may be NULL. -1 and errno: connection_open
	 * fails. */
	int (*on_socket)(void *ctx, int fd);
	void *ctx;
};

/* Waits until the connection is there or failed (NULL). The name look-up has no time-out. */
struct connection *connection_open(const struct connection_spec *spec, struct connection_error *e)
	__attribute__((warn_unused_result));
/* Closes in order, waits at most timeout_ms for the answer, and frees. Only for a connection that works, or
 * whose channel alone was closed. */
void connection_close(struct connection *l, int timeout_ms);
/* Drops the connection without a close. NULL is fine. */
void connection_free(struct connection *l);
int connection_fd(const struct connection *l);
int connection_heartbeat_s(const struct connection *l); /* as negotiated */

/* --- RPCs: only before consuming or publishing begins --- */

/* Durable. Where the user may not declare (403), it is enough that the exchange exists. After a 406 the
 * connection is unusable. */
int connection_declare_exchange(struct connection *l, const char *name, const char *type,
	struct connection_error *e) __attribute__((warn_unused_result));
/* Looks for an exchange of any type. -1 and code 404: there is none. Never declares one. */
int connection_find_exchange(struct connection *l, const char *name, struct connection_error *e)
	__attribute__((warn_unused_result));

struct connection_queue {
	const char *name;
	const char *type; /* "classic", "quorum", or NULL: the broker's default */
	bool single_active_consumer;
	int64_t message_ttl_ms; /* 0: none */
	int64_t max_length;     /* 0: none; with more, the broker drops the oldest */
	/* 0: never; the broker deletes a queue that was unused for so long */
	int64_t expires_ms;
};
/* Durable, not exclusive; 403 as above. The type classic is named, because the default of a virtual host may
 * be quorum. A classic queue that was declared without a type is accepted. */
int connection_declare_queue(struct connection *l, const struct connection_queue *q,
	struct connection_error *e) __attribute__((warn_unused_result));
/* After a 403 the binding is assumed to exist: the administrator who declared the queue made it. */
int connection_bind_queue(struct connection *l, const char *queue, const char *exchange, const char *key,
	struct connection_error *e) __attribute__((warn_unused_result));
/* The queue must exist. */
int connection_count_consumers(struct connection *l, const char *queue, int *count,
	struct connection_error *e) __attribute__((warn_unused_result));
int connection_consume(struct connection *l, const char *queue, bool exclusive, int prefetch,
	struct connection_error *e) __attribute__((warn_unused_result));
/* Declares and binds again without waiting for an answer, so it may be called while consuming. A deleted
 * exchange takes its bindings with it, and the broker does not report that to the consumer. If the broker
 * refuses, it closes the channel. Does nothing where the broker refused a declare or bind on this connection
 * before (403). */
int connection_keep_binding(struct connection *l, const char *queue, const char *exchange, const char *type,
	const char *key, struct connection_error *e) __attribute__((warn_unused_result));
int connection_confirm(struct connection *l, struct connection_error *e) __attribute__((warn_unused_result));
/* Deletes the queue with its messages. The only RPC that is allowed after consuming: as the last call before
 * connection_close. */
int connection_delete_queue(struct connection *l, const char *queue, struct connection_error *e)
	__attribute__((warn_unused_result));

/* --- frames --- */

/* 1: *ev is the next event, valid until the next call; 0: no more events now; -1: the connection is lost.
 * Never waits for the peer to send. Also serves the heartbeats, in both directions. Frames may wait inside
 * librabbitmq while the socket shows nothing: sleep only after a 0, and, where something was sent since, only
 * if connection_has_input is false. After a 0 the socket may be readable already: sleep by connection_wait,
 * or by a look at connection_fd. */
int connection_next(struct connection *l, struct frames_event **ev, struct connection_error *e)
	__attribute__((warn_unused_result));
/* Did librabbitmq read frames while it sent? The socket does not show these. Makes no system call. */
bool connection_has_input(const struct connection *l);
/* Sleeps until the connection or other_fd (-1: none) is readable, at most timeout_ms (-1: without a limit).
 */
void connection_wait(struct connection *l, int other_fd, int timeout_ms, bool *is_readable);
/* Frees the memory of decoded frames. */
void connection_release(struct connection *l);
/* See frames_headless_tag. */
uint64_t connection_headless_tag(const struct connection *l);

struct connection_message {
	const char *exchange, *key;
	const char *message_id, *type;
	const char *correlation_id; /* NULL or empty: none */
	const char *user_id;        /* NULL: none; the broker checks that it is the user of the connection */
	int64_t timestamp_s;
	const void *body;
	size_t size;
};
/* Persistent, mandatory, JSON. Call connection_next until it returns 0 before a burst, and between bursts.
 * The body is a loan until the function returns. */
int connection_publish(struct connection *l, const struct connection_message *m, struct connection_error *e)
	__attribute__((warn_unused_result));
/* Cork before a burst of messages, acks or rejects, uncork after it: they go out by few system calls and in
 * few packets. Uncorking sends them; where that fails, the next call on the connection returns -1. */
void connection_cork(struct connection *l, bool on);
int connection_ack(struct connection *l, uint64_t tag, bool multiple, struct connection_error *e)
	__attribute__((warn_unused_result));
int connection_reject(struct connection *l, uint64_t tag, bool requeue, struct connection_error *e)
	__attribute__((warn_unused_result));

#endif
