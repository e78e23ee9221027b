/* link.h: one AMQP connection with one channel: connect, log in, declare, and then frames in and out.
 *
 * Used by the daemon's bus threads and, blocking, by callers. A link belongs to one thread at a time. A
 * function that returns -1 has filled in the error; unless said otherwise only link_free is left then:
 * librabbitmq's own close is an RPC and hangs on a dead peer. Every RPC has a time-out. link_send_* have
 * none while the peer does not read: shutdown(2) from another thread on a copy of the descriptor
 * (on_socket) is what brings them back. */
#ifndef HCPD_LINK_H
#define HCPD_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "amqp/frames.h"

struct link;

/* Connect with TLS, log in, any one RPC. Where reconnect_max is short the daemon is to be back soon, so it
 * does not wait that long for a peer that took the connection and says nothing. */
#define LINK_TIMEOUT_MS 10000
#define LINK_TIMEOUT_LEAST_MS 5000

struct link_error {
	int code;            /* AMQP reply code where the broker said no, else 0 */
	bool is_undecodable; /* what came in is no AMQP that librabbitmq understands */
	char text[480];      /* what, where, and what to do; never a password */
};

struct link_spec {
	const struct config_amqp *amqp; /* only read inside link_open */
	const char *name;               /* shown by the broker's tools */
	size_t max_body;                /* see frames.h */
	/* Called once the socket is there, before the log-in; may be NULL. -1 and errno: link_open fails. */
	int (*on_socket)(void *ctx, int fd);
	void *ctx;
};

/* Blocks; the name look-up has no time-out of its own. NULL on failure. */
struct link *link_open(const struct link_spec *spec, struct link_error *e)
	__attribute__((warn_unused_result));
/* Says good-bye, waits for the answer at most timeout_ms, frees. Only for a link that is well, or whose
 * channel alone was closed. */
void link_close(struct link *l, int timeout_ms);
/* Without a word. NULL is fine. */
void link_free(struct link *l);
int link_fd(const struct link *l);
int link_heartbeat_s(const struct link *l); /* as negotiated */

/* --- RPCs: only before consuming or publishing begins --- */

/* Durable. Where the user may not declare (403) it is enough that it exists. A 406 leaves the link unusable.
 */
int link_declare_exchange(struct link *l, const char *name, const char *type, struct link_error *e)
	__attribute__((warn_unused_result));
/* Is there one, of whatever type? 404 where there is none; none is made. */
int link_find_exchange(struct link *l, const char *name, struct link_error *e)
	__attribute__((warn_unused_result));

struct link_queue {
	const char *name;
	const char *type; /* "classic", "quorum", or NULL: the broker's default */
	bool single_active_consumer;
	int64_t message_ttl_ms; /* 0: none */
	int64_t max_length;     /* 0: none; more drop the oldest */
	int64_t expires_ms;     /* 0: never; the broker deletes it when nobody has used it for so long */
};
/* Durable, not exclusive; 403 as above. Classic is asked for by name, because a virtual host may default
 * to quorum; a queue that was declared without a type before is classic, and is accepted. */
int link_declare_queue(struct link *l, const struct link_queue *q, struct link_error *e)
	__attribute__((warn_unused_result));
/* 403: assumed to be bound by whoever made the queue. */
int link_bind_queue(struct link *l, const char *queue, const char *exchange, const char *key,
	struct link_error *e) __attribute__((warn_unused_result));
/* Of a queue that exists. */
int link_count_consumers(struct link *l, const char *queue, int *count, struct link_error *e)
	__attribute__((warn_unused_result));
int link_consume(struct link *l, const char *queue, bool exclusive, int prefetch, struct link_error *e)
	__attribute__((warn_unused_result));
/* Says declare and bind again and waits for no answer, so it may be called while consuming: an exchange that
 * somebody deleted takes the binding with it, and the consumer is not told. What the broker has against it
 * closes the channel. Nothing where a declare or bind of this link was refused before (403). */
int link_keep_binding(struct link *l, const char *queue, const char *exchange, const char *type,
	const char *key, struct link_error *e) __attribute__((warn_unused_result));
int link_confirm(struct link *l, struct link_error *e) __attribute__((warn_unused_result));
/* With what is in it. The exception among the RPCs: also after consuming, as the last thing before
 * link_close. */
int link_delete_queue(struct link *l, const char *queue, struct link_error *e)
	__attribute__((warn_unused_result));

/* --- frames --- */

/* 1: *ev is what came in, until the next call; 0: nothing more for now; -1: the link is lost. Never waits.
 * This also serves the heartbeats, in both directions. The descriptor may be silent while frames wait
 * inside the library: sleep only after a 0, and with nothing sent since. */
int link_next(struct link *l, struct frames_event **ev, struct link_error *e)
	__attribute__((warn_unused_result));
/* Sleeps until the link or other_fd (-1: none) can be read, at most timeout_ms (-1: as long as it takes). */
void link_wait(struct link *l, int other_fd, int timeout_ms, bool *link_ready);
/* Gives back memory that decoded frames took. */
void link_release(struct link *l);
/* See frames_headless_tag. */
uint64_t link_headless_tag(const struct link *l);

struct link_message {
	const char *exchange, *key;
	const char *message_id, *type;
	const char *correlation_id; /* NULL or empty: none */
	const char *user_id;        /* NULL: none; the broker checks it against the login */
	int64_t timestamp_s;
	const void *body;
	size_t size;
};
/* Persistent, mandatory, JSON. Serve the link (link_next to 0) before and in between. */
int link_publish(struct link *l, const struct link_message *m, struct link_error *e)
	__attribute__((warn_unused_result));
/* librabbitmq writes three frames a message, each a packet of its own: cork before a burst, uncork after it.
 */
void link_cork(struct link *l, bool on);
int link_ack(struct link *l, uint64_t tag, bool multiple, struct link_error *e)
	__attribute__((warn_unused_result));
int link_reject(struct link *l, uint64_t tag, bool requeue, struct link_error *e)
	__attribute__((warn_unused_result));

#endif
