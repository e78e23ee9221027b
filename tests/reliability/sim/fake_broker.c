/* SPDX-License-Identifier: MIT */
/* fake_broker.c: the broker: a queue of commands, queues of callers, and two connections that may break.
 * Owns what arrived where. As with a real one: commands come in order, and again where their ack did not
 * arrive; of what was sent on a connection that broke a beginning arrived; what is refused closes the
 * channel. */
#include "sim.h"

#define PREFETCH 10

enum fate { UNSEEN, TAKEN_CONFIRMED, TAKEN_UNROUTABLE, TAKEN_NACKED, TAKEN_SWALLOWED };

enum { WELL, UNBOUND, FULL, FORBIDDEN };

static struct {
	char name[32];
	unsigned trouble;
} callers[16];
static size_t caller_count;

static unsigned char *fates; /* by bus.flight[i].sent */
static size_t fate_room;
static bool sub_up, is_blocked;
static int refuse_code; /* the next message closes the channel with it */
static unsigned poison; /* one message in so many is refused for ever; 0: none */

void broker_reset(void)
{
	caller_count = 0;
	sub_up = is_blocked = false;
	refuse_code = 0;
	poison = sim_chance(4) ? 12 : 0;
}

/* ---- commands ---- */

struct order *broker_queue(enum expect expect, const char *caller, const char *user)
{
	struct order *o;

	if (sim.order_count == ORDERS_MAX)
		return NULL;
	o = &sim.orders[sim.order_count++];
	memset(o, 0, sizeof *o);
	o->expect = expect;
	o->caller = caller;
	o->user = user;
	o->born_in = sim.lives;
	return o;
}

void broker_deliver(unsigned most)
{
	size_t under_way = 0;

	for (size_t i = 0; i < sim.order_count; i++)
		under_way += sim.orders[i].state == DELIVERED || sim.orders[i].state == ANSWERED;
	for (size_t i = 0; i < sim.order_count && sub_up && most > 0 && under_way < PREFETCH; i++) {
		struct order *o = &sim.orders[i];

		if (o->state != QUEUED)
			continue;
		o->tag = fake_bus_deliver(&sim.bus, o->body, o->size, o->user);
		o->state = DELIVERED;
		o->ack_sent = false;
		if (o->deliveries++ > 0)
			cover(SUBMIT_REDELIVERED);
		sim_trace("delivers command %zu: %s %s", i, o->caller, o->message_id);
		under_way++;
		most--;
	}
}

void broker_on_answer(uint64_t tag, bool is_ack)
{
	for (size_t i = 0; i < sim.order_count; i++) {
		struct order *o = &sim.orders[i];

		if (o->tag != tag || o->state != DELIVERED)
			continue;
		sim_trace("%s command %zu", is_ack ? "acks" : "rejects", i);
		effect_oracle_answer(o, is_ack);
		o->state = ANSWERED;
		return;
	}
}

void broker_end_turn(void)
{
	for (size_t i = 0; i < sim.order_count; i++)
		if (sim.orders[i].state == ANSWERED)
			sim.orders[i].ack_sent = true;
}

void broker_take_acks(void)
{
	for (size_t i = 0; i < sim.order_count; i++)
		if (sim.orders[i].state == ANSWERED && sim.orders[i].ack_sent)
			sim.orders[i].state = DONE;
}

/* Of the acks under way a beginning arrived; the rest will be delivered again. */
static void lose_acks(void)
{
	bool arrives = true;

	for (size_t i = 0; i < sim.order_count; i++) {
		struct order *o = &sim.orders[i];

		if (o->state == ANSWERED) {
			arrives = arrives && o->ack_sent && !sim_chance(3);
			if (!arrives)
				cover(FATE_ACK_LOST);
			o->state = arrives ? DONE : QUEUED;
		} else if (o->state == DELIVERED) {
			o->state = sim.lie == LIE_ACKS && sim_chance(3) ? DONE : QUEUED;
		}
		if (o->state == QUEUED)
			o->tag = 0;
	}
}

/* Deliveries that nobody took are withdrawn with their connection. */
static void withdraw(void)
{
	struct bus_in **at = &sim.bus.in;

	while (*at != NULL) {
		struct bus_in *in = *at;

		if (in->kind != BUS_DELIVERY) {
			at = &in->next;
			continue;
		}
		*at = in->next;
		free(in->body);
		free(in);
	}
	sim.bus.in_end = at;
}

static void sub_raise(void)
{
	fake_bus_add(&sim.bus, BUS_SUB_UP);
	sub_up = sim.bus.health.sub_up = true;
}

void broker_drop_sub(void)
{
	if (!sub_up)
		return;
	cover(FATE_SUB_DROPPED);
	sim_trace("the consuming connection drops");
	lose_acks();
	withdraw();
	sim.bus.generation++;
	fake_bus_add(&sim.bus, BUS_SUB_DOWN);
	sub_up = sim.bus.health.sub_up = false;
}

/* ---- messages ---- */

static size_t find_caller(const char *key)
{
	size_t size = strcspn(key, "."), i = 0;

	while (i < caller_count &&
		(strncmp(callers[i].name, key, size) != 0 || callers[i].name[size] != '\0'))
		i++;
	if (i == caller_count) {
		if (caller_count == sizeof callers / sizeof *callers)
			violation("too many callers: %s", key);
		memset(&callers[i], 0, sizeof callers[i]);
		snprintf(callers[i].name, sizeof callers[i].name, "%.*s", (int)size, key);
		caller_count++;
	}
	return i;
}

void broker_upset(const char *caller, unsigned what)
{
	size_t i = find_caller(caller);

	if (what == callers[i].trouble)
		return;
	callers[i].trouble = what;
	sim_trace("caller %s: %s", caller,
		what == WELL            ? "has its queue" :
			what == UNBOUND ? "has no queue" :
			what == FULL    ? "is full" :
					  "is forbidden");
}

/* Whoever listens to the HARP events of a caller's sessions has a queue of his own. */
static size_t find_reader(const struct bus_out *out)
{
	char name[BUS_KEY_SIZE + 8];

	snprintf(name, sizeof name, "%.*s%s.", (int)strcspn(out->key, "."), out->key,
		out->exchange == BUS_TO_HARP ? "/harp" : "");
	return find_caller(name);
}

static unsigned char *fate_of(size_t flight)
{
	size_t sent = sim.bus.flight[flight].sent, old = fate_room;

	while (sent >= fate_room) {
		fate_room = fate_room ? 2 * fate_room : 256;
		fates = xrealloc(fates, fate_room);
	}
	if (fate_room > old)
		memset(fates + old, UNSEEN, fate_room - old);
	return &fates[sent];
}

/* The same message is refused each time; answers are small, and no broker refuses them. */
static bool is_poison(const struct bus_out *out)
{
	static const char substitute[] = "event_unpublishable";
	unsigned n = 0;

	if (poison == 0 || strcmp(out->type, "task_accepted") == 0 || strcmp(out->type, "task_rejected") == 0)
		return false;
	if (memmem(out->body, out->size, substitute, sizeof substitute - 1) != NULL)
		return false;
	for (const char *p = out->message_id; *p != '\0'; p++)
		n = n * 31 + (unsigned char)*p;
	return n % poison == 0;
}

/* What closes the channel at this message; 0: nothing. */
static int refusal(const struct bus_out *out)
{
	int code = refuse_code;

	if (callers[find_reader(out)].trouble == FORBIDDEN)
		return 403;
	if (is_poison(out))
		return 406;
	if (code == 406 && (strcmp(out->type, "task_accepted") == 0 || effect_oracle_has_arrived(out)))
		return 0; /* that one it took before */
	refuse_code = 0;
	return code;
}

static enum fate take(const struct bus_out *out)
{
	size_t i = find_reader(out);
	bool lost = sim.lie == LIE_LOSES && sim_chance(40);

	switch (callers[i].trouble) {
	case UNBOUND:
		cover(FATE_UNROUTABLE);
		effect_oracle_arrive(out, BUS_UNROUTABLE);
		return TAKEN_UNROUTABLE;
	case FULL:
		cover(FATE_NACKED);
		effect_oracle_arrive(out, BUS_NACKED);
		return TAKEN_NACKED;
	default:
		cover(FATE_CONFIRMED);
		if (!lost)
			effect_oracle_arrive(out, BUS_CONFIRMED);
		return TAKEN_CONFIRMED;
	}
}

static void close_channel(int code)
{
	cover(code == 403 ? FATE_403 : code == 404 ? FATE_404 : code == 406 ? FATE_406 : FATE_DROPPED);
	sim_trace("the publishing connection closes with %d", code);
	is_blocked = sim.bus.health.blocked = false;
	fake_bus_down(&sim.bus, code);
}

/* How many messages from the oldest on were taken. */
static size_t take_some(size_t upto, int *code)
{
	size_t i;

	*code = 0;
	for (i = 0; i < upto; i++) {
		const struct bus_out *out = sim.bus.flight[i].out;
		unsigned char *fate = fate_of(i);

		if (*fate != UNSEEN)
			continue;
		if ((*code = refusal(out)) != 0) {
			if (*code == 406)
				effect_oracle_refuse(out);
			return i;
		}
		*fate = (unsigned char)take(out);
	}
	return i;
}

void broker_work(unsigned most)
{
	size_t seen = 0, count = sim.bus.flushed;
	int code;

	if (is_blocked || !sim.bus.pub_up)
		return;
	while (seen < count && *fate_of(seen) != UNSEEN)
		seen++;
	take_some(seen + most < count ? seen + most : count, &code);
	if (code != 0)
		close_channel(code);
}

static const enum bus_status told[] = {
	[TAKEN_CONFIRMED] = BUS_CONFIRMED, [TAKEN_UNROUTABLE] = BUS_UNROUTABLE, [TAKEN_NACKED] = BUS_NACKED};

static bool may_tell(size_t i)
{
	unsigned char fate = *fate_of(i);

	return fate == TAKEN_CONFIRMED || fate == TAKEN_UNROUTABLE || fate == TAKEN_NACKED;
}

void broker_confirm(unsigned most, bool in_order)
{
	while (most-- > 0 && !is_blocked) {
		size_t from = in_order || sim.bus.flushed == 0 ? 0 : sim_choose((unsigned)sim.bus.flushed),
		       i = from;

		while (i < sim.bus.flushed && !may_tell(i))
			i++;
		if (i == sim.bus.flushed)
			return;
		if (i > 0)
			cover(FATE_DISORDER);
		sim_hash(sim.bus.flight[i].out->message_id, ID_SIZE);
		effect_oracle_settle(sim.bus.flight[i].out, told[*fate_of(i)]);
		fake_bus_settle_at(&sim.bus, i, told[*fate_of(i)]);
	}
}

void broker_swallow(void)
{
	for (size_t i = 0; i < sim.bus.flushed; i++)
		if (*fate_of(i) == TAKEN_CONFIRMED) {
			cover(FATE_SWALLOWED);
			sim_trace("a confirm gets lost");
			*fate_of(i) = TAKEN_SWALLOWED;
			return;
		}
}

/* A beginning of what was under way arrives; the daemon is not informed. */
static void lose_flight(size_t sent)
{
	int code;

	if (sent > 0 && !is_blocked)
		take_some(sim_choose((unsigned)sent + 1), &code);
}

void broker_drop_pub(void)
{
	if (!sim.bus.pub_up)
		return;
	lose_flight(sim.bus.flushed);
	close_channel(sim_chance(3) ? 320 : 0);
}

void broker_raise(void)
{
	if (!sim.bus.pub_up) {
		sim_trace("the publishing connection comes up");
		fake_bus_up(&sim.bus);
	}
	if (!sub_up)
		sub_raise();
}

void broker_block(bool block)
{
	if (!sim.bus.pub_up || block == is_blocked)
		return;
	sim_trace("the publisher is %s", block ? "blocked" : "free again");
	is_blocked = sim.bus.health.blocked = block;
	fake_bus_add(&sim.bus, block ? BUS_PUB_BLOCKED : BUS_PUB_UNBLOCKED);
	if (block)
		cover(FATE_BLOCKED);
}

bool broker_is_blocked(void)
{
	return is_blocked;
}

void broker_refuse(int code)
{
	refuse_code = code;
	sim_trace("the next message will be refused with %d", code);
}

/* ---- life ---- */

void broker_begin(void)
{
	if (fates != NULL)
		memset(fates, UNSEEN, fate_room);
	sub_up = is_blocked = false;
	if (sim.is_healed || !sim_chance(8))
		fake_bus_up(&sim.bus);
	if (sim.is_healed || !sim_chance(8))
		sub_raise();
}

void broker_crash(void)
{
	if (sim.bus.pub_up)
		lose_flight(sim.flushed_at_death < sim.bus.flushed ? sim.flushed_at_death : sim.bus.flushed);
	lose_acks();
	sub_up = is_blocked = false;
}

void broker_heal(void)
{
	refuse_code = 0;
	for (size_t i = 0; i < caller_count; i++)
		broker_upset(callers[i].name, WELL);
	broker_block(false);
	broker_raise();
}

bool broker_has_work(void)
{
	if (!sim.bus.pub_up || !sub_up)
		return true;
	for (size_t i = 0; i < sim.bus.flushed; i++)
		if (*fate_of(i) != TAKEN_SWALLOWED)
			return true;
	for (size_t i = 0; i < sim.order_count; i++)
		if (sim.orders[i].state == QUEUED || sim.orders[i].state == ANSWERED)
			return true;
	return false;
}

bool broker_is_quiet(void)
{
	for (size_t i = 0; i < sim.order_count; i++)
		if (sim.orders[i].state != DONE)
			return false;
	return sim.bus.flushed == 0;
}
