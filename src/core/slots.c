/* SPDX-License-Identifier: MIT */
/* slots.c: the queues for slots.
 * Owns the counts, and whose turn it is. Never starts a session: turn.c takes the next one, run_start.c
 * starts it.
 *
 * Within a priority callers take turns. Each priority has a clock. A caller's turn comes at a time of that
 * clock, and its next one 1/weight later; a start moves the clock on to the turn that was taken. A caller
 * that begins to wait has its turn now, so a new caller does not wait behind another caller's flood. A caller
 * that could not run for a while gets one turn at once, and no more than others after it. */
#include "core/slots.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "core/turn.h"

#define TURN (UINT64_C(1) << 20) /* on the clock, for a weight of 1 */

/* ---- queues, callers and groups ---- */

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

/* A caller that is no longer configured keeps its turns: its sessions start, and fail with that reason. */
static void take_limits(const struct core *c, struct slot_caller *caller)
{
	const struct config_caller *section = config_find_caller(c->policy->config, caller->id);

	caller->weight = section != NULL ? (unsigned)section->weight : 1;
	caller->max_running = section != NULL ? (unsigned)section->max_running : 0;
}

const struct slot_caller *slots_find_caller(const struct core *c, const char *caller_id)
{
	struct slot_caller *caller;

	HASH_FIND_STR(c->slots.callers, caller_id, caller);
	return caller;
}

static struct slot_caller *get_caller(struct core *c, const char *caller_id)
{
	struct slot_caller *caller;
	size_t size = strlen(caller_id);

	HASH_FIND_STR(c->slots.callers, caller_id, caller);
	if (caller == NULL) {
		caller = xcalloc(1, sizeof *caller + size + 1);
		memcpy(caller->id, caller_id, size);
		take_limits(c, caller);
		HASH_ADD_STR(c->slots.callers, id, caller);
	}
	return caller;
}

/* Names of callers can be made up without end; they leave memory with their last session. */
static void drop_idle_caller(struct core *c, struct slot_caller *caller)
{
	if (caller->running + caller->waiting + caller->undecided > 0)
		return;
	HASH_DEL(c->slots.callers, caller);
	free(caller);
}

static struct slot_turns *turns_of(const struct slot_group *group)
{
	return &group->queue->turns[group->priority];
}

/* After a change of running or max_running: the caller's groups have turns while it may run. */
static void set_full(struct slot_caller *caller)
{
	bool is_full = caller->max_running != 0 && caller->running >= caller->max_running;
	struct slot_group *group;

	if (is_full == caller->is_full)
		return;
	caller->is_full = is_full;
	DL_FOREACH(caller->groups, group)
		if (is_full)
			slot_turns_remove(turns_of(group), group);
		else
			slot_turns_add(turns_of(group), group);
}

/* A caller has few groups: one for each capability that it waits for, at each priority. */
static struct slot_group *find_group(struct slot_caller *caller, const struct slot_queue *q, enum priority p)
{
	struct slot_group *group;

	DL_FOREACH(caller->groups, group)
		if (group->queue == q && group->priority == p)
			return group;
	return NULL;
}

static struct slot_group *make_group(
	struct slots *sl, struct slot_caller *caller, struct slot_queue *q, enum priority p)
{
	struct slot_group *group = xcalloc(1, sizeof *group), *other;
	bool is_new = true;

	DL_FOREACH(caller->groups, other)
		is_new &= other->priority != p;
	if (is_new && caller->at[p] < sl->now[p])
		caller->at[p] = sl->now[p];
	group->caller = caller;
	group->queue = q;
	group->priority = p;
	DL_APPEND(caller->groups, group);
	return group;
}

/* ---- waiting and running ---- */

void slots_wait(struct core *c, struct session *s)
{
	struct slot_caller *caller = get_caller(c, s->caller_id);
	struct slot_queue *q = get_queue(&c->slots, s->capability);
	struct slot_group *group = find_group(caller, q, s->priority);
	bool is_new = group == NULL;

	if (is_new)
		group = make_group(&c->slots, caller, q, s->priority);
	DL_APPEND2(group->first, s, slot.prev, slot.next);
	if (is_new && !caller->is_full)
		slot_turns_add(turns_of(group), group);
	s->slot.queue = q;
	s->slot.group = group;
	s->slot.is_waiting = true;
	caller->waiting++;
	q->waiting++;
	c->slots.waiting++;
}

static void leave_group(struct session *s)
{
	struct slot_group *group = s->slot.group;
	bool was_last = group->first == s && s->slot.next == NULL;

	if (was_last)
		slot_turns_remove(turns_of(group), group);
	DL_DELETE2(group->first, s, slot.prev, slot.next);
	s->slot.group = NULL;
	if (!was_last) {
		slot_turns_move(turns_of(group), group);
		return;
	}
	DL_DELETE(group->caller->groups, group);
	free(group);
}

void slots_leave(struct core *c, struct session *s)
{
	struct slot_caller *caller;

	if (!s->slot.is_waiting && !s->slot.is_taken)
		return;
	caller = get_caller(c, s->caller_id);
	if (s->slot.is_waiting) {
		leave_group(s);
		s->slot.is_waiting = false;
		caller->waiting--;
		s->slot.queue->waiting--;
		c->slots.waiting--;
	}
	if (s->slot.is_taken) {
		s->slot.is_taken = false;
		caller->running--;
		s->slot.queue->running--;
		c->slots.running--;
		set_full(caller);
	}
	drop_idle_caller(c, caller);
}

/* The caller's turn is taken; the next one is 1/weight later. */
static void take_turn(struct slots *sl, struct slot_caller *caller, enum priority p)
{
	struct slot_group *group;

	if (sl->now[p] < caller->at[p])
		sl->now[p] = caller->at[p];
	caller->at[p] = sl->now[p] + TURN / caller->weight;
	DL_FOREACH(caller->groups, group)
		if (group->priority == p)
			slot_turns_move(turns_of(group), group);
}

void slots_take(struct core *c, struct session *s)
{
	struct slot_caller *caller = get_caller(c, s->caller_id);

	if (s->slot.is_waiting)
		take_turn(&c->slots, caller, s->priority);
	caller->running++; /* before slots_leave, which drops a caller without sessions */
	slots_leave(c, s);
	s->slot.queue = get_queue(&c->slots, s->capability);
	s->slot.is_taken = true;
	s->slot.queue->running++;
	c->slots.running++;
	set_full(caller);
}

void slots_add_undecided(struct core *c, const struct session *s)
{
	get_caller(c, s->caller_id)->undecided++;
	c->slots.undecided++;
}

void slots_drop_undecided(struct core *c, const struct session *s)
{
	struct slot_caller *caller = get_caller(c, s->caller_id);

	caller->undecided--;
	c->slots.undecided--;
	drop_idle_caller(c, caller);
}

/* ---- who is next ---- */

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

bool slots_caller_has_room(const struct core *c, const char *caller_id)
{
	const struct slot_caller *caller = slots_find_caller(c, caller_id);

	return caller == NULL || !caller->is_full;
}

/* The group whose turn it is at this priority, of all capabilities with room. */
static struct slot_group *first_group(const struct core *c, enum priority p)
{
	struct slot_queue *q, *tmp;
	struct slot_group *best = NULL;

	HASH_ITER(hh, c->slots.queues, q, tmp) {
		struct slot_group *group = slot_turns_first(&q->turns[p]);

		if (group != NULL && (best == NULL || slot_group_is_before(group, best)) &&
			queue_has_room(c, q))
			best = group;
	}
	return best;
}

struct session *slots_next(struct core *c)
{
	struct slot_group *group = NULL;

	if (c->phase.is_draining || c->slots.waiting == 0 ||
		c->slots.running >= (unsigned)c->policy->config->max_sessions)
		return NULL;
	for (int p = PRIORITY_COUNT - 1; p >= 0 && group == NULL; p--)
		group = first_group(c, (enum priority)p);
	return group != NULL ? group->first : NULL;
}

const char *slots_why(const struct core *c, const struct session *s)
{
	if (c->phase.is_draining)
		return "draining";
	if (!slots_caller_has_room(c, s->caller_id))
		return "max_running";
	if (!queue_has_room(c, s->slot.queue))
		return "concurrent_limit";
	return c->slots.running >= (unsigned)c->policy->config->max_sessions ? "max_sessions" : "turn";
}

void slots_reload(struct core *c)
{
	struct slot_caller *caller, *tmp;

	HASH_ITER(hh, c->slots.callers, caller, tmp) {
		take_limits(c, caller);
		set_full(caller);
	}
}

void slots_fini(struct slots *sl)
{
	struct slot_caller *caller, *next_caller;
	struct slot_queue *q, *next_queue;
	struct slot_group *group, *next_group;

	HASH_ITER(hh, sl->callers, caller, next_caller) {
		DL_FOREACH_SAFE(caller->groups, group, next_group)
			free(group);
		HASH_DEL(sl->callers, caller);
		free(caller);
	}
	HASH_ITER(hh, sl->queues, q, next_queue) {
		for (int p = 0; p < PRIORITY_COUNT; p++)
			slot_turns_fini(&q->turns[p]);
		HASH_DEL(sl->queues, q);
		free(q);
	}
}
