/* SPDX-License-Identifier: MIT */
/* consume.c: the consuming thread: commands in, acks out.
 * Owns the declaration of the command queue, and the delivery tags.
 * Never acks by itself: only the core knows what is committed. The exception is reject_headless, which
 * rejects a message that cannot be decoded and so never reaches the core. */
#include "bus/bus_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define PUMP_DELIVERIES 64 /* then the thread sends acks */
#define NAP_US 5000        /* acks wait so long for the next delivery, or for more of their kind */
#define BINDING_US \
	INT64_C(3000000) /* how often the thread binds again: the broker does not report a lost binding */

/* The core's answers by delivery tag: one frame acks all answered tags from the oldest on. */
struct sub_state {
	char *queue;
	unsigned char *answered; /* ring: tag & mask */
	uint64_t mask;
	/* oldest: the first unanswered tag; next: the tag after the newest delivery */
	uint64_t oldest, next;
	struct sub_answers taken;
	int64_t bound_at_us;
};

void sub_state_init(struct bus *b)
{
	struct sub_state *s = xcalloc(1, sizeof *s);
	uint64_t room = 1;
	size_t size = strlen(b->callee_id) + sizeof COMMAND_QUEUE_PREFIX;

	while (room < (uint64_t)b->amqp.prefetch)
		room *= 2;
	s->answered = xcalloc(room, 1);
	s->mask = room - 1;
	s->queue = xmalloc(size);
	names_command_queue(s->queue, size, b->callee_id);
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

static int consume(struct bus_thread *t, struct connection_error *e)
{
	struct bus *b = t->bus;
	/* Quorum queues do not refuse a second exclusive consumer; single-active-consumer does the same. */
	bool exclusive = b->amqp.queue_type == QUEUE_CLASSIC;

	if (connection_consume(t->connection, b->sub_state->queue, exclusive, b->amqp.prefetch, e) == 0)
		return 0;
	if (e->code == 403 && strstr(e->text, "exclusive use"))
		snprintf(e->text, sizeof e->text,
			"queue %s is in exclusive use: another daemon with callee_id %s consumes it; stop "
			"that one, or give this one another callee_id",
			b->sub_state->queue, b->callee_id);
	return -1;
}

static int sub_set_up(struct bus_thread *t, struct connection_error *e)
{
	struct bus *b = t->bus;
	bool quorum = b->amqp.queue_type == QUEUE_QUORUM;
	struct connection_queue q = {.name = b->sub_state->queue,
		.type = quorum ? "quorum" : "classic",
		.single_active_consumer = quorum};

	/* The broker may deliver before the thread is up: tags count from here. */
	b->sub_state->oldest = b->sub_state->next = 1;
	b->sub_state->bound_at_us = clock_boot_us();
	if (bus_thread_declare_exchanges(t, e) < 0 || bus_thread_declare_queue(t, &q, e) < 0 ||
		connection_bind_queue(t->connection, q.name, EXCHANGE_COMMANDS, b->callee_id, e) < 0)
		return -1;
	return consume(t, e);
}

static void sub_on_up(struct bus_thread *t)
{
	struct bus_in *in = bus_in_new(BUS_SUB_UP);

	CRASH_POINT(sub_up);
	in->generation = ++t->generation;
	bus_put_in(t->bus, in);
}

static void sub_on_down(struct bus_thread *t, const struct connection_error *e)
{
	struct bus *b = t->bus;
	struct bus_in *in = bus_thread_make_news(t, BUS_SUB_DOWN, e);
	bool needs_wake = false;

	pthread_mutex_lock(&b->lock);
	if (bus_take_back_locked(b, BUS_SUB_UP))
		bus_in_free(in);
	else
		needs_wake = bus_put_in_locked(b, in);
	pthread_mutex_unlock(&b->lock);
	if (needs_wake)
		bus_wake(b);
}

/* --- in --- */

static struct bus_in *make_delivery(struct bus_thread *t, struct frames_event *ev)
{
	struct bus_in *in = bus_in_new(BUS_DELIVERY);

	CRASH_POINT(sub_delivered);
	in->generation = t->generation;
	in->tag = ev->tag;
	in->has_user = ev->has_user;
	memcpy(in->user, ev->user, sizeof in->user);
	in->body = ev->body;
	in->size = (size_t)ev->size;
	ev->body = NULL;
	return in;
}

/* One unanswered delivery may stay the oldest while later ones are answered: the ring must grow. */
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

/* Tags count up by one in a connection generation; the ring relies on that. */
static bool record_delivery(struct sub_state *s, uint64_t tag)
{
	if (tag != s->next)
		return false;
	if (tag - s->oldest > s->mask)
		grow_ring(s);
	s->answered[tag & s->mask] = 0;
	s->next++;
	return true;
}

/* 0: no more frames; 1: there may be more; -1: the connection is lost. The core gets all deliveries as one
 * list. */
static int sub_pump(struct bus_thread *t, enum loss *how, struct connection_error *e)
{
	struct bus_in *list = NULL, **end = &list;
	struct frames_event *ev;
	int rc = 0, count = 0;

	while (count < PUMP_DELIVERIES && (rc = connection_next(t->connection, &ev, e)) > 0) {
		count++;
		if (bus_thread_is_lost_by(ev, how, e)) {
			rc = -1;
		} else if (ev->kind == FRAMES_CANCEL) {
			*how = LOSS_SOFT;
			e->code = 0;
			snprintf(e->text, sizeof e->text,
				"the broker cancelled the consumer of %s; consuming again",
				t->bus->sub_state->queue);
			rc = -1;
		} else if (ev->kind == FRAMES_DELIVERY && !record_delivery(t->bus->sub_state, ev->tag)) {
			e->code = 0;
			snprintf(e->text, sizeof e->text,
				"the broker broke the protocol: delivery tags out of order");
			rc = -1;
		} else if (ev->kind == FRAMES_DELIVERY) {
			*end = make_delivery(t, ev);
			end = &(*end)->next;
		}
		if (rc < 0)
			break;
	}
	if (count)
		bus_thread_saw_frame(t);
	bus_put_in(t->bus, list);
	return rc;
}

/* Properties that librabbitmq cannot decode end the connection before the core sees the message. The broker
 * would deliver that message again for ever, so this thread rejects it. Sending still works; only reading
 * does not. */
static void reject_headless(struct bus_thread *t, const struct connection_error *e)
{
	uint64_t tag = connection_headless_tag(t->connection);
	struct connection_error ignored;
	static struct log_limit limit; /* of this thread: one bus consumes */

	if (!tag || !e->is_undecodable)
		return;
	if (log_may(&limit, 10))
		log_warn("a command has properties that cannot be decoded, rejecting it queue=%s",
			t->bus->sub_state->queue);
	(void)!connection_reject(t->connection, tag, false, &ignored);
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

/* Advances over the answered tags, and acks them with one frame. The frame names the last tag that is not
 * rejected, because the broker refuses a tag that it no longer holds. */
static int send_run(struct bus_thread *t, struct connection_error *e)
{
	struct sub_state *s = t->bus->sub_state;
	uint64_t last = 0;

	for (; s->oldest < s->next && s->answered[s->oldest & s->mask] != UNANSWERED; s->oldest++)
		if (s->answered[s->oldest & s->mask] == ACK_DUE)
			last = s->oldest;
	if (last == 0)
		return 0;
	CRASH_POINT(sub_before_ack);
	return connection_ack(t->connection, last, true, e);
}

/* Acks behind an unanswered tag do not wait for it. */
static int send_stragglers(struct bus_thread *t, struct connection_error *e)
{
	struct sub_state *s = t->bus->sub_state;

	for (size_t i = 0; i < s->taken.count; i++) {
		struct sub_answer *a = &s->taken.list[i];

		if (a->generation != t->generation || a->tag < s->oldest || a->tag >= s->next ||
			s->answered[a->tag & s->mask] != ACK_DUE)
			continue;
		s->answered[a->tag & s->mask] = ANSWERED;
		if (connection_ack(t->connection, a->tag, false, e) < 0)
			return -1;
	}
	return 0;
}

static int record_answer(struct bus_thread *t, const struct sub_answer *a, struct connection_error *e)
{
	struct sub_state *s = t->bus->sub_state;
	unsigned char *mark = &s->answered[a->tag & s->mask];

	/* A tag of another generation is void: the broker delivers the message again. */
	if (a->generation != t->generation || a->tag < s->oldest || a->tag >= s->next || *mark != UNANSWERED)
		return 0;
	*mark = a->reject ? ANSWERED : ACK_DUE;
	return a->reject ? connection_reject(t->connection, a->tag, false, e) : 0;
}

static int sub_answer_taken(struct bus_thread *t, struct connection_error *e)
{
	struct sub_state *s = t->bus->sub_state;

	for (size_t i = 0; i < s->taken.count; i++)
		if (record_answer(t, &s->taken.list[i], e) < 0)
			return -1;
	return send_run(t, e) < 0 || send_stragglers(t, e) < 0 ? -1 : 0;
}

static int sub_answer_all(struct bus_thread *t, struct connection_error *e)
{
	size_t count;
	int rc;

	take_answers(t->bus);
	count = t->bus->sub_state->taken.count;
	if (count == 0)
		return 0;
	if (count > 1)
		connection_cork(t->connection, true);
	rc = sub_answer_taken(t, e);
	if (count > 1)
		connection_cork(t->connection, false);
	CRASH_POINT(sub_after_ack);
	return rc;
}

/* Deleting hcp.commands deletes the binding of the command queue, too. Callers declare the exchange again;
 * without the binding their tasks would be unroutable. */
static int keep_binding(struct bus_thread *t, struct connection_error *e)
{
	struct bus *b = t->bus;

	if (clock_boot_us() - b->sub_state->bound_at_us < BINDING_US)
		return 0;
	b->sub_state->bound_at_us = clock_boot_us();
	return connection_keep_binding(
		t->connection, b->sub_state->queue, EXCHANGE_COMMANDS, "direct", b->callee_id, e);
}

/* Nobody wakes the thread for a few acks: the next delivery does, or the end of a nap. All naps are short,
 * since a message whose ack is late comes again where the connection is lost. */
static int64_t next_nap_us(const struct sub_state *s)
{
	return s->oldest < s->next ? NAP_US : INT64_MAX;
}

static enum loss sub_run(struct bus_thread *t, struct connection_error *e)
{
	enum loss how = LOSS_NETWORK;
	int more;

	while (bus_thread_come_round(t)) {
		/* Commands first: somebody waits for what becomes of them, and nobody for an ack. */
		if ((more = sub_pump(t, &how, e)) < 0) {
			reject_headless(t, e);
			return how;
		}
		if (sub_answer_all(t, e) < 0 || keep_binding(t, e) < 0)
			return how;
		/* Sending may read frames into librabbitmq, and the socket shows nothing of these. */
		if (!more && !connection_has_input(t->connection))
			bus_thread_sleep(t, next_nap_us(t->bus->sub_state));
	}
	(void)!sub_answer_all(t, e); /* acks of messages that were committed before the stop */
	snprintf(e->text, sizeof e->text, "stopping");
	e->code = 0;
	return LOSS_STOP;
}

const struct bus_thread_ops sub_ops = {
	.name = "sub",
	.set_up = sub_set_up,
	.run = sub_run,
	.on_down = sub_on_down,
	.on_up = sub_on_up,
};
