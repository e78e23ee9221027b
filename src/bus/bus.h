/* SPDX-License-Identifier: MIT */
/* bus.h: the daemon's side of the broker: two connections, each with a thread and one channel. One consumes
 * commands, the other publishes with confirms. Both exchange plain messages with the core through queues and
 * a wake-up. The bus knows nothing of sessions.
 *
 * Only the core's thread calls these functions. None of them waits, except bus_stop. */
#ifndef HCPD_BUS_BUS_H
#define HCPD_BUS_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "base/id.h"

struct bus;

#define BUS_KEY_SIZE 256 /* a routing key has at most 255 bytes */
#define BUS_USER_SIZE 256

/* A message to publish. The core fills it and lends it to the bus with bus_publish. The bus gives it back
 * with its status in a BUS_SETTLED or BUS_PUB_DOWN. The body must live until then. Embed it in the struct
 * that it belongs to. */
enum bus_status {
	BUS_CONFIRMED,  /* the broker and at least one queue have the message */
	BUS_UNROUTABLE, /* the broker took the message, but no queue was bound */
	BUS_NACKED,     /* the broker refused it, for instance because a queue is full */
	BUS_LOST        /* the connection or channel was lost first: the broker may or may not have it */
};
/* The exchange: hcp.events or harp.sessions. The bus declares harp.sessions where the configuration wants it.
 * Else it does so when the first message for harp.sessions comes, which costs a new connection. */
enum bus_exchange { BUS_TO_EVENTS, BUS_TO_HARP, BUS_EXCHANGES };
struct bus_out {
	struct bus_out *next;
	enum bus_status status;
	enum bus_exchange exchange;
	char key[BUS_KEY_SIZE];
	char message_id[ID_SIZE];
	char correlation_id[ID_SIZE]; /* empty: none */
	const char *type;             /* static text */
	int64_t timestamp_s;
	const char *body;
	size_t size;
};

/* What the core gets from the bus. The publishing connection, as bus_take shows it:
 *
 *	STARTED --BUS_PUB_UP--> UP --BUS_PUB_BLOCKED--> BLOCKED --BUS_PUB_UNBLOCKED--> UP
 *	   |                    ^ |                        |
 *	   |         BUS_PUB_UP | | BUS_PUB_DOWN           | BUS_PUB_DOWN
 *	   |                    | v                        |
 *	   +---BUS_PUB_DOWN---> DOWN <---------------------+
 *
 *	An attempt to connect that fails in DOWN gives no message.
 *	If the connection is lost before the core took its BUS_PUB_UP, the bus takes the BUS_PUB_UP back.
 *	BUS_PUB_DOWN has the messages that were under way, as BUS_LOST.
 *	A message that the core publishes in DOWN comes back as BUS_LOST in a BUS_SETTLED.
 *	That BUS_SETTLED comes after the BUS_PUB_DOWN. It may come after the next BUS_PUB_UP.
 *
 * The consuming connection has the same states, without BLOCKED. */
enum bus_in_kind {
	BUS_DELIVERY, /* a command; answer with bus_ack or bus_reject */
	BUS_SETTLED,  /* outs, in the order in which they were published; the broker may settle a
		       * later one earlier, in a list before */
	BUS_PUB_UP,   /* publishing may begin */
	BUS_PUB_DOWN, /* code and text say why */
	BUS_PUB_BLOCKED,
	BUS_PUB_UNBLOCKED, /* both: the broker's alarm; no message is lost */
	BUS_SUB_UP,        /* consuming */
	BUS_SUB_DOWN, /* the tags of earlier deliveries are void, and the broker delivers these again. The
		       * bus takes back deliveries that the core did not take */
	/* an exchange or queue exists with other arguments; text names it and says what to do */
	BUS_MISCONFIGURED
};
struct bus_in {
	struct bus_in *next;
	enum bus_in_kind kind;
	/* BUS_DELIVERY */
	uint32_t generation; /* of the connection; a tag is void in every other generation */
	uint64_t tag;
	bool has_user;
	char user[BUS_USER_SIZE]; /* the broker-validated user-id */
	char *body;               /* NULL where size is over max_message: the bus dropped the body */
	size_t size;              /* as the header said */
	/* BUS_SETTLED, BUS_PUB_DOWN */
	struct bus_out *outs;
	/* BUS_PUB_DOWN, BUS_SUB_DOWN, BUS_MISCONFIGURED */
	int code;   /* AMQP reply code where the broker closed, else 0 */
	bool first; /* this connection was never up since the daemon started */
	char text[512];
};

struct bus_health { /* all ages in microseconds; -1: the connection is not up */
	bool pub_up, sub_up, blocked;
	int64_t pub_frame_age_us, sub_frame_age_us;       /* since the thread received a frame */
	int64_t pub_progress_age_us, sub_progress_age_us; /* since the thread last began a round */
	uint64_t reconnects;
};

/* The bus calls wake() when bus_take has something new, at most once until the next bus_take. That one may
 * come before the call, which is in vain then. The bus threads and bus_flush call it. wake() must not call
 * the bus. The bus copies what it needs of the config. */
struct bus *bus_new(const struct config *config, void (*wake)(void *ctx), void *ctx);
/* Starts both threads. They connect, declare, consume, and begin again after every loss. */
int bus_start(struct bus *b) __attribute__((warn_unused_result));
/* Everything that came in, oldest first; the caller owns the list. A message that the core publishes after
 * this call belongs to the connection generation that this list shows. If that generation is over, the
 * message comes back as BUS_LOST: it cannot overtake messages that were lost with the connection. Call
 * bus_flush between bus_publish and bus_take. */
struct bus_in *bus_take(struct bus *b);
void bus_in_free(struct bus_in *in); /* one element */
/* Hands over a list, in order. The bus sends nothing before bus_flush. */
void bus_publish(struct bus *b, struct bus_out *list);
void bus_ack(struct bus *b, uint32_t generation, uint64_t tag);
/* Without requeue: dead-lettered where there is a DLX. */
void bus_reject(struct bus *b, uint32_t generation, uint64_t tag);
/* Once at the end of a turn: wakes the threads that have something to send. */
void bus_flush(struct bus *b);
/* Breaks a connection that makes no progress. The bus calls shutdown(2) on its socket, so that even a call
 * that hangs inside librabbitmq returns. The thread then makes a new connection. */
void bus_drop_pub(struct bus *b, const char *why);
void bus_drop_sub(struct bus *b, const char *why);
void bus_get_health(struct bus *b, struct bus_health *h);
/* The threads begin a round several times in each period, for a watchdog. 0: only as heartbeats need it. */
void bus_set_watchdog(struct bus *b, int64_t period_us);
/* Ends both threads and connections within about a second, and frees the bus. The owners of bus_outs free
 * these. */
void bus_stop(struct bus *b);

#endif
