/* SPDX-License-Identifier: MIT */
/* bus_private.h: what bus.c, thread.c, publish.c and consume.c share. Only these files include it.
 *
 * A bus thread has one connection at a time. thread.c connects and reconnects; the ops of the thread say what
 * it does while the connection is up. The core and the bus threads exchange messages through queues under
 * bus.lock. No thread holds bus.lock during a call into librabbitmq, or while it wakes another thread: that
 * one would run into the lock. */
#ifndef HCPD_BUS_BUS_PRIVATE_H
#define HCPD_BUS_BUS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "bus/bus.h"
#include "amqp/connection.h"
#include "amqp/names.h"
#include "amqp/reconnect.h"
#include "bus/wakeup.h"

struct bus_thread;

/* The waits before the next connection, `most` being reconnect_max: after a failure 1, 2, 4 ... 4096 s, after
 * a channel or consumer alone was lost 20, 40, 80 ms ... 1 s. Neither exceeds reconnect_max. */
#define BUS_SECOND_US INT64_C(1000000)
#define BUS_LESSER(a, b) ((a) < (b) ? (a) : (b))
#define BUS_BACKOFF(first, last, most) \
	((struct backoff){.first_us = (first), \
		.max_us = BUS_LESSER((last), (most)), \
		.ceiling_us = (most), \
		.jitter = BACKOFF_AROUND, \
		.random = backoff_random})
#define BUS_BACKOFF_FAILURE(most) BUS_BACKOFF(BUS_SECOND_US, 4096 * BUS_SECOND_US, (most))
#define BUS_BACKOFF_SOFT(most) BUS_BACKOFF(BUS_SECOND_US / 50, BUS_SECOND_US, (most))

/* How a connection ended; decides how long to wait before the next. */
enum loss {
	LOSS_NETWORK, /* or anything else: 1, 2, 4 ... reconnect_max */
	/* the channel or the consumer alone: nearly at once, later where it happens repeatedly */
	LOSS_SOFT,
	LOSS_MISCONFIGURED, /* an operator has to act: reconnect_max */
	LOSS_STOP
};

struct bus_thread_ops {
	const char *name;
	/* Declares exchanges and queues: the RPCs. */
	int (*set_up)(struct bus_thread *t, struct connection_error *e);
	/* Receives and sends until the connection is lost, or the bus stops. */
	enum loss (*run)(struct bus_thread *t, struct connection_error *e);
	/* The connection is lost: gives back the messages that were under way. e says why. */
	void (*on_down)(struct bus_thread *t, const struct connection_error *e);
	void (*on_up)(struct bus_thread *t);
};

struct bus_thread {
	struct bus *bus;
	const struct bus_thread_ops *ops;
	pthread_t thread;
	struct wakeup wakeup;
	/* under bus.lock */
	bool is_started, has_ended;
	struct guard guard; /* of the connection's socket */
	char drop_why[160]; /* not empty: the core dropped this connection, and why */
	/* read by the core */
	_Atomic bool is_up;
	_Atomic int64_t frame_at_us, round_at_us;
	/* the thread's own */
	struct connection *connection;
	uint32_t generation;
	bool was_up;        /* at any time since the start */
	bool down_reported; /* to the core, for this loss */
	int64_t up_at_us;
	struct backoff after_failure, after_soft_loss;
	char last_text[480]; /* of the last failure that was logged at warn */
};

/* An ack or reject that the consuming thread has to send. */
struct sub_answer {
	uint32_t generation;
	bool reject;
	uint64_t tag;
};
struct sub_answers {
	struct sub_answer *list;
	size_t count, room;
};

struct out_list {
	struct bus_out *first, **end;
};

struct bus {
	pthread_mutex_t lock;
	unsigned refs; /* the core and each thread: a thread that hangs may outlive bus_stop */
	_Atomic bool stopping;
	pthread_mutex_t wake_lock; /* held during wake(), and while bus_stop forbids it */
	void (*wake)(void *ctx);
	void *ctx;
	/* copied, for the same reason */
	struct config_amqp amqp;
	char *callee_id;
	size_t max_message;
	_Atomic int64_t watchdog_us;
	_Atomic uint64_t reconnects;
	_Atomic bool wants_harp; /* harp.sessions is to be declared */
	/* in: from the bus threads to the core */
	struct bus_in *in, **in_end;
	bool wake_pending; /* the bus calls or called wake(), and the core did not call bus_take since */
	/* out: handed over by bus_flush */
	struct out_list outs;
	uint32_t pub_generation; /* of the connection that outs may go to; 0: down */
	struct sub_answers answers;
	/* the core's own, gathered until bus_flush */
	struct out_list staged;
	struct sub_answers staged_answers;
	uint32_t seen_pub_generation; /* as of the last bus_take */

	struct bus_thread pub, sub;
	struct pub_state *pub_state; /* publish.c */
	struct sub_state *sub_state; /* consume.c */
};

void out_list_init(struct out_list *list);
void out_list_add(struct out_list *list, struct bus_out *o);
/* Moves all of `from` behind `to`. */
void out_list_join(struct out_list *to, struct out_list *from);

struct bus_in *bus_in_new(enum bus_in_kind kind);
/* Hands a list (in order) to the core; one wake-up at most. */
void bus_put_in(struct bus *b, struct bus_in *list);
/* Under the lock. True: the caller calls bus_wake once it gave the lock back. */
bool bus_put_in_locked(struct bus *b, struct bus_in *list) __attribute__((warn_unused_result));
void bus_wake(struct bus *b);
/* A connection is lost: takes back what the core did not take of it. These are the deliveries, whose tags are
 * void, and the message that it was up (`up`: BUS_PUB_UP or BUS_SUB_UP). True if the latter was among them:
 * the core does not know of the connection, and needs no message of its loss. */
bool bus_take_back_locked(struct bus *b, enum bus_in_kind up);

/* The last reference frees the bus. */
void bus_unref(struct bus *b);

/* The thread. */
void *bus_thread_main(void *arg);
/* Begins a round: records the time, and takes the wake-up. False when the bus stops. */
bool bus_thread_come_round(struct bus_thread *t);
/* Records that a frame came. */
void bus_thread_saw_frame(struct bus_thread *t);
/* Sleeps until there is a frame to read, a message handed over, or a heartbeat due. */
void bus_thread_sleep(struct bus_thread *t, int64_t most_us);
/* RPCs. A 406 gets a text that says what the operator can do. */
int bus_thread_declare_exchanges(
	struct bus_thread *t, struct connection_error *e); /* hcp.commands, hcp.events */
int bus_thread_declare_exchange(
	struct bus_thread *t, const char *name, const char *type, struct connection_error *e);
int bus_thread_declare_queue(
	struct bus_thread *t, const struct connection_queue *q, struct connection_error *e);
/* A message to the core about a failure. */
struct bus_in *bus_thread_make_news(
	struct bus_thread *t, enum bus_in_kind kind, const struct connection_error *e);
/* True for a frame that ends the connection, whatever the thread does; fills in how and e. */
bool bus_thread_is_lost_by(const struct frames_event *ev, enum loss *how, struct connection_error *e);

extern const struct bus_thread_ops pub_ops, sub_ops;
void pub_state_init(struct bus *b);
void pub_state_free(struct bus *b);
bool pub_is_blocked(const struct bus *b);
void sub_state_init(struct bus *b);
void sub_state_free(struct bus *b);

#endif
