/* slots.c: the queues before the slots.
 * Owns the counts and the order. Never starts anything (core.c asks who is next, run.c starts). */
#include "core/slots.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "core/turn.h"

static struct lane *lane_for(struct slots *sl, const char *capability)
{
	struct lane *l;
	size_t size = strlen(capability);

	HASH_FIND_STR(sl->lanes, capability, l);
	if (l == NULL) {
		l = xcalloc(1, sizeof *l + size + 1);
		memcpy(l->name, capability, size);
		HASH_ADD_STR(sl->lanes, name, l);
	}
	return l;
}

void slots_wait(struct core *c, struct session *s)
{
	s->lane = lane_for(&c->slots, s->capability);
	DL_APPEND2(s->lane->waiting[s->priority], s, lane_prev, lane_next);
	s->is_waiting = true;
	c->slots.waiting++;
}

void slots_leave(struct core *c, struct session *s)
{
	if (s->is_waiting) {
		DL_DELETE2(s->lane->waiting[s->priority], s, lane_prev, lane_next);
		s->is_waiting = false;
		c->slots.waiting--;
	}
	if (s->has_slot) {
		s->has_slot = false;
		s->lane->running--;
		c->slots.running--;
	}
}

void slots_take(struct core *c, struct session *s)
{
	slots_leave(c, s);
	s->lane = lane_for(&c->slots, s->capability);
	s->has_slot = true;
	s->lane->running++;
	c->slots.running++;
}

static bool lane_has_room(const struct core *c, const struct lane *l)
{
	const struct capability *cap = policy_find(c->policy, l->name);

	/* A capability that is gone has room: its sessions start, and say so in failing. */
	return cap == NULL || cap->concurrent_limit == 0 || l->running < (unsigned)cap->concurrent_limit;
}

bool slots_has_room(struct core *c, const char *capability)
{
	return !c->is_draining && c->slots.running < (unsigned)c->policy->config->max_sessions &&
		lane_has_room(c, lane_for(&c->slots, capability));
}

struct session *slots_next(struct core *c)
{
	struct lane *l, *tmp;
	struct session *best = NULL;

	if (c->is_draining || c->slots.waiting == 0 ||
		c->slots.running >= (unsigned)c->policy->config->max_sessions)
		return NULL;
	HASH_ITER(hh, c->slots.lanes, l, tmp) {
		int p = PRIORITY_COUNT - 1;

		while (p >= 0 && l->waiting[p] == NULL)
			p--;
		if (p < 0 || !lane_has_room(c, l))
			continue;
		if (best == NULL || (enum priority)p > best->priority ||
			((enum priority)p == best->priority && l->waiting[p]->key < best->key))
			best = l->waiting[p];
	}
	return best;
}

void slots_fini(struct slots *sl)
{
	struct lane *l, *tmp;

	HASH_ITER(hh, sl->lanes, l, tmp) {
		HASH_DEL(sl->lanes, l);
		free(l);
	}
}
