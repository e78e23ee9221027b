/* SPDX-License-Identifier: MIT */
/* slots.h: which sessions run and which wait: max_sessions, a capability's concurrent_limit, priority. */
#ifndef HCPD_CORE_SLOTS_H
#define HCPD_CORE_SLOTS_H

#include <stdbool.h>
#include <uthash.h>

#include "protocol/message.h"

struct core;
struct session;

/* The sessions of one capability. A queue survives a reload: it is found by the capability's name. */
struct slot_queue {
	UT_hash_handle hh;
	unsigned running;
	struct session *waiting[PRIORITY_COUNT]; /* oldest first */
	char name[];
};

struct slots {
	struct slot_queue *queues;
	unsigned running, waiting;
	unsigned undecided; /* sessions that wait for a human or the policy program; they are in no queue */
};

void slots_wait(struct core *c, struct session *s); /* the session joins the queue of its capability */
void slots_leave(
	struct core *c, struct session *s); /* the session leaves the queue, or gives its slot back */
void slots_take(struct core *c,
	struct session *s); /* the session takes a slot, also beyond the limits: recovery does that */
bool slots_has_room(struct core *c, const char *capability);
/* The session that may run next: highest priority, then longest wait. NULL: none. */
struct session *slots_next(struct core *c);
void slots_fini(struct slots *sl);

#endif
