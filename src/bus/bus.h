/* bus.h: the AMQP side. Two connections, a thread and one channel each: one consumes commands, the
 * other publishes with confirms. They exchange plain messages with the core through queues and a
 * wake-up, and know nothing of sessions.
 *
 * Every function here is for the core's thread and never waits, bus_stop excepted. */
#ifndef HCPD_BUS_H
#define HCPD_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "base/id.h"

struct bus;

#define BUS_KEY_SIZE 256 /* a routing key has at most 255 bytes */
#define BUS_USER_SIZE 256

/* A message to publish. Filled by the core, lent to the bus by bus_publish, given back with its
 * status in a BUS_SETTLED. The body must live until then. Embed it in what it belongs to. */
enum bus_status {
	BUS_CONFIRMED,  /* the broker has it, and at least one queue does */
	BUS_UNROUTABLE, /* the broker took it, but no queue was bound */
	BUS_NACKED,     /* refused, for instance by a full queue */
	BUS_LOST        /* the connection or channel went first: nobody knows */
};
/* Where to: hcp.events, or harp.sessions, which is declared where the configuration wants it, and else once
 * something is to be published there: that costs a new connection. */
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

enum bus_in_kind {
	BUS_DELIVERY, /* a command; answer with bus_ack or bus_reject */
	BUS_SETTLED,  /* outs, in the order in which they were published; the broker may settle a
		       * later one earlier, in a list before */
	BUS_PUB_UP,   /* publishing may begin */
	BUS_PUB_DOWN, /* code and text say why; outs: what was under way, as BUS_LOST. Once a loss,
		       * and once where the first attempt fails; not for each attempt, and not for
		       * a connection that came and went before its BUS_PUB_UP was taken. What is
		       * published later, before the next BUS_PUB_UP was taken, comes back behind
		       * this in a BUS_SETTLED, as BUS_LOST; maybe behind that BUS_PUB_UP, too */
	BUS_PUB_BLOCKED,
	BUS_PUB_UNBLOCKED, /* the broker's alarm; nothing is lost */
	BUS_SUB_UP,        /* consuming */
	BUS_SUB_DOWN,      /* earlier deliveries come again: their tags are void; those that were not taken
			    * are withdrawn. Told as often as BUS_PUB_DOWN */
	BUS_MISCONFIGURED  /* an entity exists with other arguments; text names it and says what to do */
};
struct bus_in {
	struct bus_in *next;
	enum bus_in_kind kind;
	/* BUS_DELIVERY */
	uint32_t life; /* which connection; a tag is void in another */
	uint64_t tag;
	bool has_user;
	char user[BUS_USER_SIZE]; /* the broker-validated user-id */
	char *body;               /* NULL where size is over max_message: the rest was thrown away */
	size_t size;              /* as the header said */
	/* BUS_SETTLED, BUS_PUB_DOWN */
	struct bus_out *outs;
	/* BUS_PUB_DOWN, BUS_SUB_DOWN, BUS_MISCONFIGURED */
	int code;   /* AMQP reply code where the broker closed, else 0 */
	bool first; /* never was up since the start */
	char text[512];
};

struct bus_health { /* all ages in microseconds, -1: not up, so not applicable */
	bool pub_up, sub_up, blocked;
	int64_t pub_frame_age_us, sub_frame_age_us;       /* since something was received */
	int64_t pub_progress_age_us, sub_progress_age_us; /* since the thread last came round */
	uint64_t reconnects;
};

/* wake() is called whenever bus_take has something new, at most once until it is called: from the bus
 * threads, and from bus_flush. It must not call back into the bus. The config is copied. */
struct bus *bus_new(const struct config *config, void (*wake)(void *ctx), void *ctx);
/* Starts both threads; they connect, declare, consume, and do it again after every loss. */
int bus_start(struct bus *b) __attribute__((warn_unused_result));
/* Everything that came in, oldest first; the caller owns the list. What is published from here on is taken
 * to know all of it: messages meant for a connection that is gone come back as BUS_LOST, so that they
 * cannot overtake what was lost with it. Between bus_publish and this there must be a bus_flush. */
struct bus_in *bus_take(struct bus *b);
void bus_in_free(struct bus_in *in); /* one element */
/* Hands over a list, in order. Nothing is sent before bus_flush. */
void bus_publish(struct bus *b, struct bus_out *list);
void bus_ack(struct bus *b, uint32_t life, uint64_t tag);
/* Without requeue: dead-lettered where there is a DLX. */
void bus_reject(struct bus *b, uint32_t life, uint64_t tag);
/* Once at the end of a turn: wakes the threads that have something to do. */
void bus_flush(struct bus *b);
/* Breaks a connection that makes no progress: shutdown(2) on its descriptor, so that even a call
 * that hangs inside librabbitmq comes back; the thread then makes a new one. */
void bus_drop_pub(struct bus *b, const char *why);
void bus_drop_sub(struct bus *b, const char *why);
void bus_get_health(struct bus *b, struct bus_health *h);
/* How often the threads come round at least, for a watchdog of that period. 0: only for heartbeats. */
void bus_set_watchdog(struct bus *b, int64_t period_us);
/* Ends both threads and connections within about a second; frees what it still holds but the bus_outs,
 * whose owners free them. */
void bus_stop(struct bus *b);

#endif
