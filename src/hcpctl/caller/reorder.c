/* ctl_order.c: one session's messages in their order.
 * Owns what is held back and for how long. Never acks and never shows: its caller does, when it hands out. */
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/message.h"

/* Sequence 7 stands at 14; what came without a sequence when 7 was the highest stands at 15, before 8. */
static int64_t place_of(const struct ctl_order *o, const struct ctl_note *n)
{
	return n->sequence ? 2 * n->sequence : 2 * o->highest + 1;
}

static bool is_known_id(const struct ctl_order *o, const char *id)
{
	size_t count = o->id_count < CTL_ORDER_IDS ? o->id_count : CTL_ORDER_IDS;

	for (size_t i = 0; i < count; i++)
		if (strncmp(o->ids[i], id, ID_SIZE) == 0)
			return true;
	return false;
}

/* Only ids that are UUIDs are remembered: others have no length that one could rely on. */
static void remember_id(struct ctl_order *o, const char *id)
{
	if (strlen(id) == ID_SIZE - 1)
		memcpy(o->ids[o->id_count++ % CTL_ORDER_IDS], id, ID_SIZE);
}

static struct ctl_note *find_held(const struct ctl_order *o, const struct ctl_note *n)
{
	for (struct ctl_note *h = o->held; h; h = h->next)
		if (n->sequence ? h->sequence == n->sequence :
				  !h->sequence && strcmp(h->message_id, n->message_id) == 0)
			return h;
	return NULL;
}

static void hold(struct ctl_order *o, struct ctl_note *n)
{
	struct ctl_note **at = &o->held;

	n->place = place_of(o, n);
	while (*at && (*at)->place <= n->place)
		at = &(*at)->next;
	n->next = *at;
	*at = n;
	o->held_count++;
	if (n->sequence > o->highest)
		o->highest = n->sequence;
}

static bool is_first_due(const struct ctl_order *o)
{
	return o->held && (!o->held->sequence || o->next == 0 || o->held->sequence <= o->next);
}

enum ctl_put ctl_order_put(struct ctl_order *o, struct ctl_note *n, int64_t now_us)
{
	struct ctl_note *held = find_held(o, n);

	if (held) { /* the connection was lost before its ack: it came again */
		held->life = n->life;
		held->tag = n->tag;
		return CTL_HELD_ALREADY;
	}
	if (n->sequence ? n->sequence <= o->floor || n->sequence < o->next : is_known_id(o, n->message_id))
		return CTL_SEEN;
	if (!o->held)
		o->waits_until_us = now_us + CTL_ORDER_WAIT_US;
	hold(o, n);
	return CTL_PUT;
}

struct ctl_note *ctl_order_take(struct ctl_order *o, int64_t now_us, int64_t *gap_from, int64_t *gap_to)
{
	struct ctl_note *n = o->held;

	*gap_from = *gap_to = 0;
	if (!n)
		return NULL;
	if (!is_first_due(o)) {
		if (now_us < o->waits_until_us && o->held_count <= CTL_ORDER_MAX)
			return NULL;
		*gap_from = o->next;
		*gap_to = n->sequence - 1;
	}
	o->held = n->next;
	o->held_count--;
	n->next = NULL;
	if (n->sequence)
		o->next = n->sequence + 1;
	else
		remember_id(o, n->message_id);
	o->waits_until_us = now_us + CTL_ORDER_WAIT_US; /* another hole behind this one has its own time */
	return n;
}

int64_t ctl_order_due_us(const struct ctl_order *o)
{
	return o->held ? o->waits_until_us : INT64_MAX;
}

void ctl_order_fini(struct ctl_order *o)
{
	while (o->held) {
		struct ctl_note *n = o->held;

		o->held = n->next;
		ctl_note_free(n);
	}
	o->held_count = 0;
}
