/* SPDX-License-Identifier: MIT */
/* slot_turns.h: callers that wait for a slot of one capability and priority, by whose turn it is: a binary
 * heap, so that a turn costs the logarithm of the number of callers, however many sessions wait. */
#ifndef HCPD_CORE_SLOT_TURNS_H
#define HCPD_CORE_SLOT_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/names.h"

struct session;
struct slot_caller;
struct slot_queue;

/* The sessions of one caller that wait for one capability at one priority: at least one. */
struct slot_group {
	struct slot_group *prev, *next; /* of the same caller */
	struct slot_caller *caller;
	struct slot_queue *queue;
	enum priority priority;
	struct session *first; /* oldest first */
	size_t place;          /* in the heap, from 1 on; 0: in none */
};

struct slot_turns {
	struct slot_group **heap;
	size_t count, room;
};

/* Does this group come before the other? The earlier turn; of equal ones, the longer wait. */
bool slot_group_is_before(const struct slot_group *a, const struct slot_group *b);
void slot_turns_add(struct slot_turns *t, struct slot_group *group);
void slot_turns_remove(struct slot_turns *t, struct slot_group *group); /* also one that is not in it */
/* The group's turn or its first session is another one: moves it to its place. */
void slot_turns_move(struct slot_turns *t, struct slot_group *group);
/* Whose turn it is; NULL: nobody's. */
struct slot_group *slot_turns_first(const struct slot_turns *t);
void slot_turns_fini(struct slot_turns *t);

#endif
