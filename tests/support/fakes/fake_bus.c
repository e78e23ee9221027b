/* SPDX-License-Identifier: MIT */
/* fake_bus.c: what fake_bus.h declares. */
#include "support/fakes/fake_bus.h"

/* ---- the test's side ---- */

void fake_bus_init(struct bus *b)
{
	memset(b, 0, sizeof *b);
	b->in_end = &b->in;
	b->next_tag = b->generation = 1;
}

struct bus_in *fake_bus_add(struct bus *b, enum bus_in_kind kind)
{
	struct bus_in *in = xcalloc(1, sizeof *in);

	in->kind = kind;
	*b->in_end = in;
	b->in_end = &in->next;
	return in;
}

uint64_t fake_bus_deliver(struct bus *b, const char *body, size_t size, const char *user)
{
	struct bus_in *in = fake_bus_add(b, BUS_DELIVERY);

	in->generation = b->generation;
	in->tag = b->next_tag++;
	in->body = body != NULL ? xstrndup(body, size) : NULL;
	in->size = size;
	in->has_user = user != NULL;
	if (user != NULL)
		snprintf(in->user, sizeof in->user, "%s", user);
	return in->tag;
}

void fake_bus_up(struct bus *b)
{
	fake_bus_add(b, BUS_PUB_UP)->generation = b->connection = ++b->connections;
	b->pub_up = b->health.pub_up = true;
}

static void fake_bus_give_back(struct bus *b, size_t index, enum bus_status status, struct bus_out ***tail)
{
	struct bus_out *out = b->flight[index].out;

	out->status = status;
	b->sent[b->flight[index].sent].status = (int)status;
	out->next = NULL;
	**tail = out;
	*tail = &out->next;
}

static void fake_bus_forget(struct bus *b, size_t index, size_t count)
{
	if (count == 0)
		return;
	memmove(b->flight + index, b->flight + index + count,
		(b->flight_count - index - count) * sizeof *b->flight);
	b->flight_count -= count;
	b->flushed -= count < b->flushed ? count : b->flushed;
}

void fake_bus_settle_at(struct bus *b, size_t index, enum bus_status status)
{
	struct bus_out *list = NULL, **tail = &list;

	fake_bus_give_back(b, index, status, &tail);
	fake_bus_forget(b, index, 1);
	fake_bus_add(b, BUS_SETTLED)->outs = list;
}

void fake_bus_settle_all(struct bus *b, enum bus_status status)
{
	struct bus_out *list = NULL, **tail = &list;
	size_t count = b->flushed;

	for (size_t i = 0; i < count; i++)
		fake_bus_give_back(b, i, status, &tail);
	fake_bus_forget(b, 0, count);
	if (count > 0)
		fake_bus_add(b, BUS_SETTLED)->outs = list;
}

void fake_bus_down(struct bus *b, int code)
{
	struct bus_out *list = NULL, **tail = &list;
	size_t count = b->flushed;
	struct bus_in *in;

	for (size_t i = 0; i < count; i++)
		fake_bus_give_back(b, i, BUS_LOST, &tail);
	fake_bus_forget(b, 0, count);
	in = fake_bus_add(b, BUS_PUB_DOWN);
	in->outs = list;
	in->code = code;
	snprintf(in->text, sizeof in->text, "the test closed it with %d", code);
	b->pub_up = b->health.pub_up = false;
	b->connection = 0;
}

void fake_bus_fini(struct bus *b)
{
	struct bus_in *in, *next;

	for (in = b->in; in != NULL; in = next) {
		next = in->next;
		bus_in_free(in);
	}
	for (size_t i = 0; i < b->sent_count; i++)
		free(b->sent[i].body);
	free(b->sent);
	free(b->flight);
}

/* ---- bus.h ---- */

struct bus *bus_new(const struct config *config, void (*wake)(void *ctx), void *ctx)
{
	struct bus *b = xcalloc(1, sizeof *b);

	(void)config, (void)wake, (void)ctx;
	fake_bus_init(b);
	return b;
}

int bus_start(struct bus *b)
{
	(void)b;
	return 0;
}

struct bus_in *bus_take(struct bus *b)
{
	struct bus_in *in = b->in;

	b->takes++;
	b->in = NULL;
	b->in_end = &b->in;
	for (const struct bus_in *i = in; i != NULL; i = i->next) {
		if (i->kind == BUS_PUB_UP)
			b->seen_connection = i->generation;
		else if (i->kind == BUS_PUB_DOWN)
			b->seen_connection = 0;
	}
	return in;
}

void bus_in_free(struct bus_in *in)
{
	free(in->body);
	free(in);
}

static void fake_bus_make_room(struct bus *b)
{
	if (b->sent_count == b->sent_room) {
		b->sent_room = b->sent_room ? 2 * b->sent_room : 64;
		b->sent = xrealloc(b->sent, b->sent_room * sizeof *b->sent);
	}
	if (b->flight_count == b->flight_room) {
		b->flight_room = b->flight_room ? 2 * b->flight_room : 64;
		b->flight = xrealloc(b->flight, b->flight_room * sizeof *b->flight);
	}
}

void bus_publish(struct bus *b, struct bus_out *list)
{
	for (struct bus_out *next; list != NULL; list = next) {
		struct fake_sent *s;

		next = list->next;
		if (b->on_publish != NULL)
			b->on_publish(b->ctx, list);
		fake_bus_make_room(b);
		s = &b->sent[b->sent_count];
		memset(s, 0, sizeof *s);
		memcpy(s->key, list->key, sizeof s->key);
		memcpy(s->message_id, list->message_id, sizeof s->message_id);
		memcpy(s->correlation_id, list->correlation_id, sizeof s->correlation_id);
		s->type = list->type;
		s->exchange = list->exchange;
		s->timestamp_s = list->timestamp_s;
		s->body = xstrndup(list->body,
			b->most_copied > 0 && list->size > b->most_copied ? b->most_copied : list->size);
		s->size = list->size;
		s->status = FAKE_UNSETTLED;
		b->flight[b->flight_count++] = (struct fake_flight){list, b->sent_count++};
		if (b->flight_count > b->most_in_flight)
			b->most_in_flight = b->flight_count;
	}
}

static void fake_bus_answered(struct bus *b, uint32_t generation, uint64_t tag, bool is_ack)
{
	if (b->on_answer != NULL)
		b->on_answer(b->ctx, tag, is_ack);
	if (generation != b->generation)
		return; /* void, as with the real one */
	b->last_acked = is_ack ? tag : b->last_acked;
	b->acked += is_ack;
	b->rejected += !is_ack;
}

void bus_ack(struct bus *b, uint32_t generation, uint64_t tag)
{
	fake_bus_answered(b, generation, tag, true);
}

void bus_reject(struct bus *b, uint32_t generation, uint64_t tag)
{
	fake_bus_answered(b, generation, tag, false);
}

void bus_flush(struct bus *b)
{
	struct bus_out *list = NULL, **tail = &list;

	if (b->seen_connection != 0 && b->seen_connection == b->connection) {
		b->flushed = b->flight_count;
		return;
	}
	for (size_t i = b->flushed; i < b->flight_count; i++)
		fake_bus_give_back(b, i, BUS_LOST, &tail);
	b->flight_count = b->flushed;
	if (list != NULL)
		fake_bus_add(b, BUS_SETTLED)->outs = list;
}

void bus_drop_pub(struct bus *b, const char *why)
{
	(void)why;
	b->pub_drops++;
}

void bus_drop_sub(struct bus *b, const char *why)
{
	(void)why;
	b->sub_drops++;
}

void bus_get_health(struct bus *b, struct bus_health *h)
{
	*h = b->health;
}

void bus_set_watchdog(struct bus *b, int64_t period_us)
{
	(void)b, (void)period_us;
}

void bus_stop(struct bus *b)
{
	fake_bus_fini(b);
	free(b);
}
