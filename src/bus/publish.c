/* SPDX-License-Identifier: MIT */
/* publish.c: the publishing thread: messages out in their order, confirms in.
 * Owns every bus_out from bus_flush to its BUS_SETTLED or BUS_PUB_DOWN.
 * Never publishes a message twice, and has no window: the outbox decides what goes out when. */
#include "bus/bus_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/log.h"

/* The thread sends a burst under one cork. Then it reads, so that it misses no heartbeat. */
#define BURST_MESSAGES 128
#define BURST_BYTES ((size_t)1 << 20)
#define PUMP_EVENTS 4096 /* then the core gets the confirms */
/* Confirms may come out of order. A message without one keeps its slot while later tags are confirmed. Only
 * with this many slots in use does the thread stop sending. */
#define SLOTS_MAX ((uint64_t)1 << 20)
#define SLOTS_MIN ((uint64_t)1 << 8)
#define HARP_AGAIN_US INT64_C(300000000) /* each attempt costs the other messages a connection */

/* Messages in flight, by delivery tag: slot tag & mask. A slot is empty once its message is settled and
 * reported. */
struct slot {
	struct bus_out *out;
	bool is_settled;
};

struct pub_state {
	struct slot *slots;
	uint64_t mask;
	uint64_t oldest, next;              /* tags: oldest in flight, next to be given */
	uint64_t settled_from, settled_end; /* tags with something to report; the end is 0: none */
	uint64_t return_cursor;             /* returns come in publishing order: the search starts here */
	struct out_list
		waiting;       /* messages that wait for their burst, or for the end of the broker's alarm */
	bool has_harp;         /* this connection declared harp.sessions */
	int64_t harp_again_us; /* the broker refused harp.sessions: when to try again. 0: it did not */
	_Atomic bool blocked;
};

void pub_state_init(struct bus *b)
{
	struct pub_state *p = xcalloc(1, sizeof *p);

	p->slots = xcalloc(SLOTS_MIN, sizeof *p->slots);
	p->mask = SLOTS_MIN - 1;
	out_list_init(&p->waiting);
	b->pub_state = p;
}

void pub_state_free(struct bus *b)
{
	free(b->pub_state->slots);
	free(b->pub_state);
	b->pub_state = NULL;
}

bool pub_is_blocked(const struct bus *b)
{
	return b->pub_state->blocked;
}

static struct slot *slot_of(struct pub_state *p, uint64_t tag)
{
	return &p->slots[tag & p->mask];
}

/* --- up and down --- */

/* The broker refuses harp.sessions. HARP-SESSION events wait; the events of callers do not: the next
 * connection does without harp.sessions. Only a daemon that was never connected reports a misconfiguration
 * (406). */
static int do_without_harp(struct bus_thread *t, struct connection_error *e)
{
	struct pub_state *p = t->bus->pub_state;

	if (e->code < 403 || e->code > 406 || (e->code == 406 && !t->was_up))
		return -1;
	if (p->harp_again_us == 0)
		log_error("nobody is told of sessions with harp = yes, their events wait: why=%s", e->text);
	p->harp_again_us = clock_boot_us() + HARP_AGAIN_US;
	e->code = 0;
	return -1;
}

static int pub_set_up(struct bus_thread *t, struct connection_error *e)
{
	struct pub_state *p = t->bus->pub_state;

	p->has_harp = false;
	if (bus_thread_declare_exchange(t, EXCHANGE_EVENTS, "topic", e) < 0)
		return -1;
	if (t->bus->wants_harp && clock_boot_us() >= p->harp_again_us) {
		if (bus_thread_declare_exchange(t, EXCHANGE_HARP, "topic", e) < 0)
			return do_without_harp(t, e);
		p->has_harp = true;
		p->harp_again_us = 0;
	}
	return connection_confirm(t->connection, e);
}

static void pub_on_up(struct bus_thread *t)
{
	struct bus *b = t->bus;
	struct pub_state *p = b->pub_state;
	struct bus_in *in = bus_in_new(BUS_PUB_UP);

	CRASH_POINT(pub_up);
	p->oldest = p->next = p->return_cursor = 1;
	p->settled_end = 0;
	p->blocked = false;
	in->generation = ++t->generation;
	pthread_mutex_lock(&b->lock);
	b->pub_generation = t->generation; /* since the last loss bus_flush handed nothing over */
	pthread_mutex_unlock(&b->lock);
	bus_put_in(b, in);
}

static void pub_report(struct bus_thread *t);

/* All messages without a confirm go back to the core, in order, in one bus_in. */
static void pub_on_down(struct bus_thread *t, const struct connection_error *e)
{
	struct bus *b = t->bus;
	struct pub_state *p = b->pub_state;
	struct bus_in *in = bus_thread_make_news(t, BUS_PUB_DOWN, e);
	bool needs_wake = false;
	struct out_list lost;

	CRASH_POINT(pub_down);
	pub_report(t);
	out_list_init(&lost);
	for (uint64_t tag = p->oldest; tag < p->next; tag++) {
		struct slot *s = slot_of(p, tag);

		if (s->out)
			out_list_add(&lost, s->out);
		s->out = NULL;
	}
	p->oldest = p->next;
	p->blocked = false;
	out_list_join(&lost, &p->waiting);
	pthread_mutex_lock(&b->lock);
	b->pub_generation = 0;
	out_list_join(&lost, &b->outs);
	for (struct bus_out *o = lost.first; o; o = o->next)
		o->status = BUS_LOST;
	in->outs = lost.first;
	/* Under the same lock: messages that bus_flush finds lost later come after this bus_in. Where the
	 * core does not know of the connection, it cannot have published to it. */
	if (bus_take_back_locked(b, BUS_PUB_UP))
		bus_in_free(in);
	else
		needs_wake = bus_put_in_locked(b, in);
	pthread_mutex_unlock(&b->lock);
	if (needs_wake)
		bus_wake(b);
}

/* --- in --- */

static void settle_one(struct pub_state *p, uint64_t tag, bool nacked)
{
	struct slot *s = slot_of(p, tag);

	if (!s->out || s->is_settled)
		return;
	s->is_settled = true;
	if (nacked)
		s->out->status = BUS_NACKED;
	if (!p->settled_end || tag < p->settled_from)
		p->settled_from = tag;
	if (tag >= p->settled_end)
		p->settled_end = tag + 1;
}

static void settle(struct pub_state *p, uint64_t tag, bool multiple, bool nacked)
{
	if (multiple && tag == 0) /* in AMQP: all */
		tag = p->next - 1;
	if (tag < p->oldest || tag >= p->next)
		return;
	for (uint64_t t = multiple ? p->oldest : tag; t <= tag; t++)
		settle_one(p, t, nacked);
}

static bool mark_returned(struct pub_state *p, uint64_t from, uint64_t to, const char *message_id)
{
	for (uint64_t t = from; t < to; t++) {
		struct slot *s = slot_of(p, t);

		if (s->out && !s->is_settled && s->out->status != BUS_UNROUTABLE &&
			strcmp(s->out->message_id, message_id) == 0) {
			s->out->status = BUS_UNROUTABLE;
			p->return_cursor = t + 1;
			return true;
		}
	}
	return false;
}

/* A return has no delivery tag: the message_id tells which message it is. */
static void record_return(struct pub_state *p, const struct frames_event *ev)
{
	uint64_t from = p->return_cursor > p->oldest ? p->return_cursor : p->oldest;

	if (!mark_returned(p, from, p->next, ev->message_id) &&
		!mark_returned(p, p->oldest, from, ev->message_id))
		log_debug("a returned message is not in flight, ignoring it message_id=%s", ev->message_id);
}

/* The core gets the settled messages as one list, in publishing order. */
static void pub_report(struct bus_thread *t)
{
	struct pub_state *p = t->bus->pub_state;
	struct out_list done;
	struct bus_in *in;

	if (!p->settled_end)
		return;
	out_list_init(&done);
	for (uint64_t tag = p->settled_from; tag < p->settled_end; tag++) {
		struct slot *s = slot_of(p, tag);

		if (!s->is_settled)
			continue;
		out_list_add(&done, s->out);
		*s = (struct slot){0};
	}
	while (p->oldest < p->next && !slot_of(p, p->oldest)->out)
		p->oldest++;
	p->settled_end = 0;
	CRASH_POINT(pub_confirmed);
	in = bus_in_new(BUS_SETTLED);
	in->outs = done.first;
	bus_put_in(t->bus, in);
}

static void set_blocked(struct bus_thread *t, const struct frames_event *ev)
{
	bool blocked = ev->kind == FRAMES_BLOCKED;

	if (t->bus->pub_state->blocked == blocked)
		return;
	t->bus->pub_state->blocked = blocked;
	if (blocked)
		log_warn("the broker has an alarm and takes no messages, waiting for its end why=\"%s\"",
			ev->text);
	else
		log_info("the broker takes messages again");
	bus_put_in(t->bus, bus_in_new(blocked ? BUS_PUB_BLOCKED : BUS_PUB_UNBLOCKED));
}

/* 0: no more frames; 1: there may be more; -1: the connection is lost. */
static int pub_pump(struct bus_thread *t, enum loss *how, struct connection_error *e)
{
	struct pub_state *p = t->bus->pub_state;
	struct frames_event *ev;
	int rc = 0, events = 0;

	while (events < PUMP_EVENTS && (rc = connection_next(t->connection, &ev, e)) > 0) {
		events++;
		if (bus_thread_is_lost_by(ev, how, e)) {
			rc = -1;
			break;
		}
		if (ev->kind == FRAMES_ACK || ev->kind == FRAMES_NACK)
			settle(p, ev->tag, ev->multiple, ev->kind == FRAMES_NACK);
		else if (ev->kind == FRAMES_RETURN)
			record_return(p, ev);
		else if (ev->kind == FRAMES_BLOCKED || ev->kind == FRAMES_UNBLOCKED)
			set_blocked(t, ev);
	}
	if (events)
		bus_thread_saw_frame(t);
	pub_report(t);
	return rc;
}

/* --- out --- */

static void take_handed_over(struct bus *b)
{
	pthread_mutex_lock(&b->lock);
	out_list_join(&b->pub_state->waiting, &b->outs);
	pthread_mutex_unlock(&b->lock);
}

static bool may_send(const struct pub_state *p)
{
	return p->waiting.first && !p->blocked && p->next - p->oldest < SLOTS_MAX;
}

static void grow_slots(struct pub_state *p)
{
	uint64_t mask = 2 * p->mask + 1;
	struct slot *slots = xcalloc(mask + 1, sizeof *slots);

	for (uint64_t tag = p->oldest; tag < p->next; tag++)
		slots[tag & mask] = *slot_of(p, tag);
	free(p->slots);
	p->slots = slots;
	p->mask = mask;
}

static int send_one(struct bus_thread *t, struct bus_out *o, struct connection_error *e)
{
	struct pub_state *p = t->bus->pub_state;
	static const char *const exchanges[BUS_EXCHANGES] = {EXCHANGE_EVENTS, EXCHANGE_HARP};
	struct connection_message m = {.exchange = exchanges[o->exchange],
		.key = o->key,
		.message_id = o->message_id,
		.type = o->type,
		.correlation_id = o->correlation_id,
		.timestamp_s = o->timestamp_s,
		.body = o->body,
		.size = o->size};

	if (p->next - p->oldest > p->mask)
		grow_slots(p);
	/* In flight from the first byte on: a loss in the middle gives the message back. */
	o->status = BUS_CONFIRMED;
	*slot_of(p, p->next++) = (struct slot){.out = o};
	CRASH_POINT(pub_before_send);
	return connection_publish(t->connection, &m, e);
}

/* Gives a message back as if the broker had nacked it: the outbox publishes it again later. */
static void give_back(struct bus_thread *t, struct bus_out *o)
{
	struct bus_in *in = bus_in_new(BUS_SETTLED);

	o->status = BUS_NACKED;
	o->next = NULL;
	in->outs = o;
	bus_put_in(t->bus, in);
}

static bool is_harp_refused(const struct pub_state *p, const struct bus_out *o)
{
	return o->exchange == BUS_TO_HARP && !p->has_harp && clock_boot_us() < p->harp_again_us;
}

/* RPCs come before publishing. Where harp.sessions was not wanted then (a reload, or messages of the previous
 * run), the thread makes a new connection that declares it. */
static bool is_declared(
	struct bus_thread *t, const struct bus_out *o, enum loss *how, struct connection_error *e)
{
	if (o->exchange != BUS_TO_HARP || t->bus->pub_state->has_harp ||
		is_harp_refused(t->bus->pub_state, o))
		return true;
	CRASH_POINT(pub_wants_harp);
	t->bus->wants_harp = true;
	*how = LOSS_SOFT;
	e->code = 0;
	snprintf(
		e->text, sizeof e->text, "exchange " EXCHANGE_HARP " is needed and has to be declared first");
	return false;
}

/* One burst. */
static int pub_send(struct bus_thread *t, enum loss *how, struct connection_error *e)
{
	struct pub_state *p = t->bus->pub_state;
	size_t messages = 0, bytes = 0;
	int rc = 0;

	if (!may_send(p))
		return 0;
	connection_cork(t->connection, true);
	while (rc == 0 && messages < BURST_MESSAGES && bytes < BURST_BYTES && may_send(p)) {
		struct bus_out *o = p->waiting.first;

		if (!is_declared(t, o, how, e)) {
			rc = -1;
			break;
		}
		p->waiting.first = o->next;
		if (!o->next)
			out_list_init(&p->waiting);
		messages++;
		bytes += o->size;
		if (is_harp_refused(p, o))
			give_back(t, o);
		else
			rc = send_one(t, o, e);
	}
	connection_cork(t->connection, false);
	CRASH_POINT(pub_after_send);
	return rc;
}

static enum loss pub_run(struct bus_thread *t, struct connection_error *e)
{
	enum loss how = LOSS_NETWORK;
	int more;

	while (bus_thread_come_round(t)) {
		take_handed_over(t->bus);
		/* Send before reading: sending may read frames into librabbitmq, and the socket shows
		 * nothing of these. */
		if (pub_send(t, &how, e) < 0 || (more = pub_pump(t, &how, e)) < 0)
			return how;
		if (!more && !may_send(t->bus->pub_state))
			bus_thread_sleep(t, INT64_MAX);
	}
	snprintf(e->text, sizeof e->text, "stopping");
	e->code = 0;
	return LOSS_STOP;
}

const struct bus_thread_ops pub_ops = {
	.name = "pub",
	.set_up = pub_set_up,
	.run = pub_run,
	.on_down = pub_on_down,
	.on_up = pub_on_up,
};
