/* bus_private.h: what bus.c, bus_lane.c, bus_pub.c and bus_sub.c share. Nobody else includes it.
 *
 * A lane is a thread and its connection. bus_lane.c runs it; what it does while it is up is in its ops. The
 * core and the lanes meet in the queues below bus.lock, never held across a call into librabbitmq. */
#ifndef HCPD_BUS_PRIVATE_H
#define HCPD_BUS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "bus/bus.h"
#include "amqp/connection.h"

#define EXCHANGE_COMMANDS "hcp.commands"
#define EXCHANGE_EVENTS "hcp.events"
#define EXCHANGE_HARP "harp.sessions"

struct lane;

/* How a connection ended; decides how long to wait before the next. */
enum loss {
	LOSS_NETWORK,       /* or anything else: 1, 2, 4 ... reconnect_max */
	LOSS_SOFT,          /* the channel or the consumer alone: again at once, if not over and over */
	LOSS_MISCONFIGURED, /* a human has to act: reconnect_max */
	LOSS_STOP
};

struct lane_ops {
	const char *name;
	/* Declares what it needs; the RPCs. */
	int (*set_up)(struct lane *l, struct link_error *e);
	/* In and out until the connection is lost, or stopping. */
	enum loss (*run)(struct lane *l, struct link_error *e);
	/* Became unusable: gives back what was under way. code and text are in e. */
	void (*on_down)(struct lane *l, const struct link_error *e);
	void (*on_up)(struct lane *l);
};

struct lane {
	struct bus *bus;
	const struct lane_ops *ops;
	pthread_t thread;
	int wake_fd;
	/* below bus.lock */
	bool is_started, has_ended;
	bool signalled;     /* wake_fd is written and not yet read */
	int guard_fd;       /* a copy of the socket, -1: none. A copy, because librabbitmq may close
			     * its own at any time, and the number may be somebody else's then */
	char drop_why[160]; /* not empty: dropped by the core; belongs to guard_fd */
	/* read by the core */
	_Atomic bool is_up;
	_Atomic int64_t frame_at_us, round_at_us;
	/* the thread's own */
	struct link *link;
	uint32_t life;
	bool was_up;    /* ever */
	bool told_down; /* the core knows */
	int64_t up_at_us;
	unsigned failures, soft_losses; /* in a row */
	char last_text[480];            /* of the last failure that was logged at warn */
};

/* What waits to be said to the broker by the consuming side. */
struct sub_answer {
	uint32_t life;
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
	unsigned refs; /* the core and each thread: a hanging one may outlive bus_stop */
	bool stopping;
	void (*wake)(void *ctx);
	void *ctx;
	/* copied, for the same reason */
	struct config_amqp amqp;
	char *callee_id;
	size_t max_message;
	_Atomic int64_t watchdog_us;
	_Atomic uint64_t reconnects;
	_Atomic bool wants_harp; /* harp.sessions is to be declared */
	/* in: from the lanes to the core */
	struct bus_in *in, **in_end;
	bool told; /* wake() was called and bus_take did not follow yet */
	/* out: handed over by bus_flush */
	struct out_list outs;
	uint32_t pub_life; /* the connection outs may go to; 0: down */
	struct sub_answers answers;
	/* the core's own, gathered until bus_flush */
	struct out_list staged;
	struct sub_answers staged_answers;
	uint32_t seen_pub_life; /* as of the last bus_take */

	struct lane pub, sub;
	struct pub_state *pub_state; /* bus_pub.c */
	struct sub_state *sub_state; /* bus_sub.c */
};

void out_list_init(struct out_list *list);
void out_list_add(struct out_list *list, struct bus_out *o);
/* Moves all of `from` behind `to`. */
void out_list_join(struct out_list *to, struct out_list *from);

struct bus_in *bus_in_new(enum bus_in_kind kind);
/* Hands a list (in order) to the core; one wake-up at most. */
void bus_put_in(struct bus *b, struct bus_in *list);
void bus_put_in_locked(struct bus *b, struct bus_in *list); /* below the lock */
/* A lane went down: takes back what the core did not take of its last connection: the deliveries, whose tags
 * are void, and that it was up (by BUS_PUB_UP or BUS_SUB_UP). True in the latter case: its end is no news
 * then. */
bool bus_take_back_locked(struct bus *b, enum bus_in_kind up);

/* The last to let go frees. */
void bus_unref(struct bus *b);

/* The thread. */
void *lane_main(void *arg);
/* The thread came round: remembers it. False when it is time to end. */
bool lane_come_round(struct lane *l);
/* Something was received. */
void lane_saw_frame(struct lane *l);
/* Sleeps until there is something to read, something handed over, or something due. */
void lane_sleep(struct lane *l);
/* RPCs: with a 406 in words for the operator. */
int lane_declare_exchange(struct lane *l, const char *name, const char *type, struct link_error *e);
int lane_declare_queue(struct lane *l, const struct link_queue *q, struct link_error *e);
/* What the core is told of a failure. */
struct bus_in *lane_make_news(struct lane *l, enum bus_in_kind kind, const struct link_error *e);
/* A frame that every lane treats the same: true where it ends the connection, how and why filled in. */
bool lane_is_lost_by(const struct frames_event *ev, enum loss *how, struct link_error *e);

extern const struct lane_ops pub_ops, sub_ops;
void pub_state_init(struct bus *b);
void pub_state_free(struct bus *b);
bool pub_is_blocked(const struct bus *b);
void sub_state_init(struct bus *b);
void sub_state_free(struct bus *b);

#endif
