/* bus_sub.c: the consuming lane: commands in, acks out.
 * Owns the command queue's topology and the delivery tags.
 * Never acks by itself: only the core knows what is committed. One exception, see reject_headless. */
#include "bus/bus_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define PUMP_DELIVERIES 64          /* then acks get a turn */
#define BINDING_US INT64_C(3000000) /* how often it is said again: nobody tells us that it is gone */

/* Answers of the core by delivery tag, so that runs from the oldest on become one frame. */
struct sub_state {
	char *queue;
	unsigned char *answered; /* ring: tag & mask */
	uint64_t mask;
	uint64_t oldest, next; /* unanswered from oldest on; next is one behind the newest delivered */
	struct sub_answers taken;
	int64_t bound_at_us;
};

void sub_state_init(struct bus *b)
{
	struct sub_state *s = xcalloc(1, sizeof *s);
	uint64_t room = 1;
	size_t size = strlen(b->callee_id) + sizeof "hcp.cmd.";

	while (room < (uint64_t)b->amqp.prefetch)
		room *= 2;
	s->answered = xcalloc(room, 1);
	s->mask = room - 1;
	s->queue = xmalloc(size);
	snprintf(s->queue, size, "hcp.cmd.%s", b->callee_id);
	b->sub_state = s;
}

void sub_state_free(struct bus *b)
{
	free(b->sub_state->queue);
	free(b->sub_state->answered);
	free(b->sub_state->taken.list);
	free(b->sub_state);
	b->sub_state = NULL;
}

/* --- up and down --- */

static int consume(struct lane *l, struct link_error *e)
{
	struct bus *b = l->bus;
	/* Quorum queues do not refuse a second exclusive consumer; single-active-consumer does the same. */
	bool exclusive = b->amqp.queue_type == QUEUE_CLASSIC;

	if (link_consume(l->link, b->sub_state->queue, exclusive, b->amqp.prefetch, e) == 0)
		return 0;
	if (e->code == 403 && strstr(e->text, "exclusive use"))
		snprintf(e->text, sizeof e->text,
			"queue %s is in exclusive use: another daemon with callee_id %s consumes "
			"it; stop that one, or give this one another callee_id",
			b->sub_state->queue, b->callee_id);
	return -1;
}

static int sub_set_up(struct lane *l, struct link_error *e)
{
	struct bus *b = l->bus;
	bool quorum = b->amqp.queue_type == QUEUE_QUORUM;
	struct link_queue q = {.name = b->sub_state->queue,
		.type = quorum ? "quorum" : "classic",
		.single_active_consumer = quorum};

	/* The consumer may deliver before we are up: tags count from here. */
	b->sub_state->oldest = b->sub_state->next = 1;
	b->sub_state->bound_at_us = clock_boot_us();
	if (lane_declare_exchange(l, EXCHANGE_COMMANDS, "direct", e) < 0 ||
		lane_declare_exchange(l, EXCHANGE_EVENTS, "topic", e) < 0 ||
		lane_declare_queue(l, &q, e) < 0 ||
		link_bind_queue(l->link, q.name, EXCHANGE_COMMANDS, b->callee_id, e) < 0)
		return -1;
	return consume(l, e);
}

static void sub_on_up(struct lane *l)
{
	struct bus_in *in = bus_in_new(BUS_SUB_UP);

	CRASH_POINT(sub_up);
	in->life = ++l->life;
	bus_put_in(l->bus, in);
}

static void sub_on_down(struct lane *l, const struct link_error *e)
{
	struct bus *b = l->bus;
	struct bus_in *in = lane_make_news(l, BUS_SUB_DOWN, e);

	pthread_mutex_lock(&b->lock);
	if (bus_take_back_locked(b, BUS_SUB_UP))
		bus_in_free(in);
	else
		bus_put_in_locked(b, in);
	pthread_mutex_unlock(&b->lock);
}

/* --- in --- */

static struct bus_in *make_delivery(struct lane *l, struct frames_event *ev)
{
	struct bus_in *in = bus_in_new(BUS_DELIVERY);

	CRASH_POINT(sub_delivered);
	in->life = l->life;
	in->tag = ev->tag;
	in->has_user = ev->has_user;
	memcpy(in->user, ev->user, sizeof in->user);
	in->body = ev->body;
	in->size = (size_t)ev->size;
	ev->body = NULL;
	return in;
}

/* One unanswered delivery stays the oldest while others come and go: the ring follows. */
static void grow_ring(struct sub_state *s)
{
	uint64_t mask = 2 * s->mask + 1;
	unsigned char *answered = xcalloc(mask + 1, 1);

	for (uint64_t tag = s->oldest; tag < s->next; tag++)
		answered[tag & mask] = s->answered[tag & s->mask];
	free(s->answered);
	s->answered = answered;
	s->mask = mask;
}

/* Tags count up by one in a life; the ring relies on it. */
static bool note_delivery(struct sub_state *s, uint64_t tag)
{
	if (tag != s->next)
		return false;
	if (tag - s->oldest > s->mask)
		grow_ring(s);
	s->answered[tag & s->mask] = 0;
	s->next++;
	return true;
}

/* 0: drained; 1: there may be more; -1: lost. Everything that came goes to the core as one list. */
static int sub_pump(struct lane *l, enum loss *how, struct link_error *e)
{
	struct bus_in *list = NULL, **end = &list;
	struct frames_event *ev;
	int rc = 0, count = 0;

	while (count < PUMP_DELIVERIES && (rc = link_next(l->link, &ev, e)) > 0) {
		count++;
		if (lane_is_lost_by(ev, how, e)) {
			rc = -1;
		} else if (ev->kind == FRAMES_CANCEL) {
			*how = LOSS_SOFT;
			e->code = 0;
			snprintf(e->text, sizeof e->text,
				"the broker cancelled the consumer of %s; consuming again",
				l->bus->sub_state->queue);
			rc = -1;
		} else if (ev->kind == FRAMES_DELIVERY && !note_delivery(l->bus->sub_state, ev->tag)) {
			e->code = 0;
			snprintf(e->text, sizeof e->text,
				"the broker broke the protocol: delivery tags out of order");
			rc = -1;
		} else if (ev->kind == FRAMES_DELIVERY) {
			*end = make_delivery(l, ev);
			end = &(*end)->next;
		}
		if (rc < 0)
			break;
	}
	if (count)
		lane_saw_frame(l);
	bus_put_in(l->bus, list);
	return rc;
}

/* Properties that librabbitmq cannot decode end the connection before the core could see the message, and
 * it would come again for ever. Nobody else can refuse it. Sending still works: only reading is spoilt. */
static void reject_headless(struct lane *l, const struct link_error *e)
{
	uint64_t tag = link_headless_tag(l->link);
	struct link_error ignored;

	if (!tag || !e->is_undecodable)
		return;
	log_warn("a command has properties that cannot be decoded, rejecting it queue=%s",
		l->bus->sub_state->queue);
	(void)!link_reject(l->link, tag, false, &ignored);
}

/* --- out --- */

static void take_answers(struct bus *b)
{
	struct sub_answers empty = b->sub_state->taken;

	empty.count = 0;
	pthread_mutex_lock(&b->lock);
	b->sub_state->taken = b->answers;
	b->answers = empty;
	pthread_mutex_unlock(&b->lock);
}

enum { UNANSWERED, ACK_DUE, ANSWERED };

/* Advances over what is answered; one ack says it all, by the last tag that still waits for one (the
 * broker refuses a tag that it does not hold). */
static int send_run(struct lane *l, struct link_error *e)
{
	struct sub_state *s = l->bus->sub_state;
	uint64_t last = 0;
	int rc;

	for (; s->oldest < s->next && s->answered[s->oldest & s->mask] != UNANSWERED; s->oldest++)
		if (s->answered[s->oldest & s->mask] == ACK_DUE)
			last = s->oldest;
	if (last == 0)
		return 0;
	CRASH_POINT(sub_before_ack);
	rc = link_ack(l->link, last, true, e);
	CRASH_POINT(sub_after_ack);
	return rc;
}

/* Acks behind a hole do not wait for it to close. */
static int send_stragglers(struct lane *l, struct link_error *e)
{
	struct sub_state *s = l->bus->sub_state;

	for (size_t i = 0; i < s->taken.count; i++) {
		struct sub_answer *a = &s->taken.list[i];

		if (a->life != l->life || a->tag < s->oldest || a->tag >= s->next ||
			s->answered[a->tag & s->mask] != ACK_DUE)
			continue;
		s->answered[a->tag & s->mask] = ANSWERED;
		if (link_ack(l->link, a->tag, false, e) < 0)
			return -1;
	}
	return 0;
}

static int note_answer(struct lane *l, const struct sub_answer *a, struct link_error *e)
{
	struct sub_state *s = l->bus->sub_state;
	unsigned char *mark = &s->answered[a->tag & s->mask];

	/* Another life's tag is void: the broker delivers the message again. */
	if (a->life != l->life || a->tag < s->oldest || a->tag >= s->next || *mark != UNANSWERED)
		return 0;
	*mark = a->reject ? ANSWERED : ACK_DUE;
	return a->reject ? link_reject(l->link, a->tag, false, e) : 0;
}

static int sub_answer_all(struct lane *l, struct link_error *e)
{
	struct sub_state *s = l->bus->sub_state;

	take_answers(l->bus);
	for (size_t i = 0; i < s->taken.count; i++)
		if (note_answer(l, &s->taken.list[i], e) < 0)
			return -1;
	return send_run(l, e) < 0 || send_stragglers(l, e) < 0 ? -1 : 0;
}

/* Whoever deletes hcp.commands deletes our binding with it; callers make the exchange anew, and find nobody.
 */
static int keep_binding(struct lane *l, struct link_error *e)
{
	struct bus *b = l->bus;

	if (clock_boot_us() - b->sub_state->bound_at_us < BINDING_US)
		return 0;
	b->sub_state->bound_at_us = clock_boot_us();
	return link_keep_binding(l->link, b->sub_state->queue, EXCHANGE_COMMANDS, "direct", b->callee_id, e);
}

static enum loss sub_run(struct lane *l, struct link_error *e)
{
	enum loss how = LOSS_NETWORK;
	int more;

	while (lane_come_round(l)) {
		/* First out, then in: sending may read frames into the library, and its descriptor is silent
		 * then. */
		if (sub_answer_all(l, e) < 0 || keep_binding(l, e) < 0)
			return how;
		if ((more = sub_pump(l, &how, e)) < 0) {
			reject_headless(l, e);
			return how;
		}
		if (!more)
			lane_sleep(l);
	}
	(void)!sub_answer_all(l, e); /* what was committed before the stop */
	snprintf(e->text, sizeof e->text, "stopping");
	e->code = 0;
	return LOSS_STOP;
}

const struct lane_ops sub_ops = {
	.name = "sub",
	.set_up = sub_set_up,
	.run = sub_run,
	.on_down = sub_on_down,
	.on_up = sub_on_up,
};
