/* SPDX-License-Identifier: MIT */
/* slot_turns.c: the heap of callers that wait, ordered by their turns.
 * Owns the order. Never decides when a caller's next turn is (slots.c). */
#include "core/slot_turns.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/session.h"
#include "core/slots.h"

bool slot_group_is_before(const struct slot_group *a, const struct slot_group *b)
{
	uint64_t at = a->caller->at[a->priority], other = b->caller->at[b->priority];

	return at != other ? at < other : a->first->key < b->first->key;
}

static void put(struct slot_turns *t, size_t index, struct slot_group *group)
{
	t->heap[index] = group;
	group->place = index + 1;
}

static void sift_up(struct slot_turns *t, size_t index, struct slot_group *group)
{
	for (size_t parent; index > 0; index = parent) {
		parent = (index - 1) / 2;
		if (!slot_group_is_before(group, t->heap[parent]))
			break;
		put(t, index, t->heap[parent]);
	}
	put(t, index, group);
}

static void sift_down(struct slot_turns *t, size_t index, struct slot_group *group)
{
	for (size_t child; (child = 2 * index + 1) < t->count; index = child) {
		if (child + 1 < t->count && slot_group_is_before(t->heap[child + 1], t->heap[child]))
			child++;
		if (!slot_group_is_before(t->heap[child], group))
			break;
		put(t, index, t->heap[child]);
	}
	put(t, index, group);
}

/* The group takes the free place `index`, then moves to where it belongs. */
static void settle(struct slot_turns *t, size_t index, struct slot_group *group)
{
	if (index > 0 && slot_group_is_before(group, t->heap[(index - 1) / 2]))
		sift_up(t, index, group);
	else
		sift_down(t, index, group);
}

void slot_turns_add(struct slot_turns *t, struct slot_group *group)
{
	assert(group->place == 0);
	if (t->count == t->room) {
		t->room = t->room != 0 ? 2 * t->room : 8;
		t->heap = xrealloc(t->heap, t->room * sizeof *t->heap);
	}
	sift_up(t, t->count++, group);
}

void slot_turns_remove(struct slot_turns *t, struct slot_group *group)
{
	size_t place = group->place;
	struct slot_group *last;

	if (place == 0)
		return;
	assert(place <= t->count && t->heap[place - 1] == group);
	group->place = 0;
	last = t->heap[--t->count];
	if (last != group)
		settle(t, place - 1, last);
}

void slot_turns_move(struct slot_turns *t, struct slot_group *group)
{
	if (group->place != 0)
		settle(t, group->place - 1, group);
}

struct slot_group *slot_turns_first(const struct slot_turns *t)
{
	return t->count > 0 ? t->heap[0] : NULL;
}

void slot_turns_fini(struct slot_turns *t)
{
	free(t->heap);
	*t = (struct slot_turns){.heap = NULL};
}
