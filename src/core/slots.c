/* SPDX-License-Identifier: MIT */
/* slots.c: the queues for slots.
 * Owns the counts and the order. Never starts a session: turn.c takes the next one, run_start.c starts it. */
#include "core/slots.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "core/turn.h"

static struct slot_queue *get_queue(struct slots *sl, const char *capability)
{
	struct slot_queue *q;
	size_t size = strlen(capability);

	HASH_FIND_STR(sl->queues, capability, q);
	if (q == NULL) {
		q = xcalloc(1, sizeof *q + size + 1);
		memcpy(q->name, capability, size);
		HASH_ADD_STR(sl->queues, name, q);
	}
	return q;
}

void slots_wait(struct core *c, struct session *s)
{
	s->slot.queue = get_queue(&c->slots, s->capability);
	DL_APPEND2(s->slot.queue->waiting[s->priority], s, slot.prev, slot.next);
	s->slot.is_waiting = true;
	c->slots.waiting++;
}

void slots_leave(struct core *c, struct session *s)
{
	if (s->slot.is_waiting) {
		DL_DELETE2(s->slot.queue->waiting[s->priority], s, slot.prev, slot.next);
		s->slot.is_waiting = false;
		c->slots.waiting--;
	}
	if (s->slot.is_taken) {
		s->slot.is_taken = false;
		s->slot.queue->running--;
		c->slots.running--;
	}
}

void slots_take(struct core *c, struct session *s)
{
	slots_leave(c, s);
	s->slot.queue = get_queue(&c->slots, s->capability);
	s->slot.is_taken = true;
	s->slot.queue->running++;
	c->slots.running++;
}

static bool queue_has_room(const struct core *c, const struct slot_queue *q)
{
	const struct capability *cap = policy_find(c->policy, q->name);

	/* A capability that is no longer configured has room: its sessions start, and fail with that reason.
	 */
	return cap == NULL || cap->concurrent_limit == 0 || q->running < (unsigned)cap->concurrent_limit;
}

bool slots_has_room(struct core *c, const char *capability)
{
	return !c->phase.is_draining && c->slots.running < (unsigned)c->policy->config->max_sessions &&
		queue_has_room(c, get_queue(&c->slots, capability));
}

struct session *slots_next(struct core *c)
{
	struct slot_queue *q, *tmp;
	struct session *best = NULL;

	if (c->phase.is_draining || c->slots.waiting == 0 ||
		c->slots.running >= (unsigned)c->policy->config->max_sessions)
		return NULL;
	HASH_ITER(hh, c->slots.queues, q, tmp) {
		int p = PRIORITY_COUNT - 1;

		while (p >= 0 && q->waiting[p] == NULL)
			p--;
		if (p < 0 || !queue_has_room(c, q))
			continue;
		if (best == NULL || (enum priority)p > best->priority ||
			((enum priority)p == best->priority && q->waiting[p]->key < best->key))
			best = q->waiting[p];
	}
	return best;
}

void slots_fini(struct slots *sl)
{
	struct slot_queue *q, *tmp;

	HASH_ITER(hh, sl->queues, q, tmp) {
		HASH_DEL(sl->queues, q);
		free(q);
	}
}
