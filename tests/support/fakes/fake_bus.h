/* SPDX-License-Identifier: MIT */
/* fake_bus.h: bus.h without threads and without a broker: the test is the broker.
 * It replaces bus.c in a program that uses it (fakes.a).
 * Keeps a copy of everything that was ever published, with its fate, and calls a watcher at each publish and
 * ack before it happens. Never settles anything by itself, but as the real one does: what is published to a
 * connection that went meanwhile comes back behind that loss. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_BUS_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_BUS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bus/bus.h"
#include "support/fakes/fake_clock.h"

#define FAKE_UNSETTLED 99

struct fake_sent { /* one publish */
	char key[BUS_KEY_SIZE], message_id[ID_SIZE], correlation_id[ID_SIZE];
	const char *type;
	enum bus_exchange exchange;
	int64_t timestamp_s;
	char *body; /* NUL-terminated copy, perhaps only of its beginning */
	size_t size;
	int status; /* enum bus_status, or FAKE_UNSETTLED */
};

struct fake_flight { /* lent to us and not given back */
	struct bus_out *out;
	size_t sent; /* index of its copy */
};

struct bus {
	struct bus_in *in, **in_end;
	struct fake_flight *flight; /* oldest first; those before `flushed` are with the broker */
	size_t flight_count, flushed, most_in_flight;
	struct fake_sent *sent;
	size_t sent_count;
	size_t sent_room, flight_room;
	uint64_t next_tag, acked, rejected; /* how many */
	uint64_t last_acked;
	uint32_t generation;
	uint32_t connections, connection,
		seen_connection; /* connections so far, the present one, the core's; 0: none */
	size_t most_copied;      /* bytes of a body that are kept; 0: all */
	bool pub_up;
	struct bus_health health;
	unsigned pub_drops, sub_drops, takes;
	/* watchers, NULL: none */
	void (*on_publish)(void *ctx, const struct bus_out *out);
	void (*on_answer)(void *ctx, uint64_t tag, bool is_ack);
	void *ctx;
};

/* ---- the test's side ---- */

void fake_bus_init(struct bus *b);
struct bus_in *fake_bus_add(struct bus *b, enum bus_in_kind kind);

/* body NULL: it was over the limit. user NULL: the message had none. */
uint64_t fake_bus_deliver(struct bus *b, const char *body, size_t size, const char *user);
void fake_bus_up(struct bus *b);

/* The index-th in flight, 0 is the oldest. */
void fake_bus_settle_at(struct bus *b, size_t index, enum bus_status status);
void fake_bus_settle_all(struct bus *b, enum bus_status status);

/* The connection or channel goes; what was under way is lost. In the middle of a turn: what the turn then
 * publishes comes back, too, but behind this. */
void fake_bus_down(struct bus *b, int code);
void fake_bus_fini(struct bus *b);

#endif
