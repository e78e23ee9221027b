/* SPDX-License-Identifier: MIT */
/* slots.h: which sessions run and which wait: max_sessions, a capability's concurrent_limit, a caller's
 * max_running, priority, and the callers' turns. */
#ifndef HCPD_CORE_SLOTS_H
#define HCPD_CORE_SLOTS_H

#include <stdbool.h>
#include <uthash.h>

#include "core/slot_turns.h"
#include "protocol/message.h"

struct core;
struct session;

/* The sessions of one capability. A queue survives a reload: it is found by the capability's name. */
struct slot_queue {
	UT_hash_handle hh;
	unsigned running, waiting;
	struct slot_turns turns[PRIORITY_COUNT]; /* callers that wait here and may run now */
	char name[];
};

/* The sessions of one caller, by its id: [caller *] counts for each caller that it matches by itself. A
 * caller without a session has none of these. */
struct slot_caller {
	UT_hash_handle hh;
	unsigned running, waiting;
	unsigned undecided;          /* of slots.undecided */
	unsigned weight;             /* of the policy in force, as ... */
	unsigned max_running;        /* ... this is; 0: no limit */
	bool is_full;                /* max_running run: its groups are in no turns */
	uint64_t at[PRIORITY_COUNT]; /* its next turn, on slots.now */
	struct slot_group *groups;   /* where it waits: one for each capability and priority */
	char id[];
};

struct slots {
	struct slot_queue *queues;
	struct slot_caller *callers;
	unsigned running, waiting;
	unsigned undecided; /* sessions that wait for a human or the policy program; they are in no queue */
	/* A clock that a start moves on. A caller's next turn is 1/weight after its last. */
	uint64_t now[PRIORITY_COUNT];
};

void slots_wait(struct core *c, struct session *s); /* the session joins the queue of its capability */
void slots_leave(
	struct core *c, struct session *s); /* the session leaves the queue, or gives its slot back */
void slots_take(struct core *c,
	struct session *s); /* the session takes a slot, also beyond the limits: recovery does that */
/* A session waits for a human or the policy program, or no longer does. */
void slots_add_undecided(struct core *c, const struct session *s);
void slots_drop_undecided(struct core *c, const struct session *s);
bool slots_has_room(struct core *c, const char *capability);
/* May one more session of this caller run, as far as its own limit goes? */
bool slots_caller_has_room(const struct core *c, const char *caller_id);
/* NULL: the caller has no session. */
const struct slot_caller *slots_find_caller(const struct core *c, const char *caller_id);
/* The session that may run next: highest priority, then the caller whose turn it is, then longest wait.
 * NULL: none. */
struct session *slots_next(struct core *c);
/* Why this session, which waits for a slot, has none: draining, max_sessions, concurrent_limit, max_running
 * or turn. */
const char *slots_why(const struct core *c, const struct session *s);
/* The policy is another one: takes over the callers' limits. Nobody loses a place. */
void slots_reload(struct core *c);
void slots_fini(struct slots *sl);

#endif
