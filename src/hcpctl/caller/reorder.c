/* SPDX-License-Identifier: MIT */
/* reorder.c: one session's messages in their order.
 * Owns which messages are held back and for how long. Never acks and never prints: the caller does, when it
 * gets a message. */
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/message.h"

/* Sequence 7 has place 14. A message without a sequence that came when 7 was the highest has place 15, before
 * 8. */
static int64_t place_of(const struct ctl_reorder *o, const struct ctl_message *n)
{
	return n->sequence ? 2 * n->sequence : 2 * o->highest + 1;
}

static bool is_known_id(const struct ctl_reorder *o, const char *id)
{
	size_t count = o->id_count < CTL_ORDER_IDS ? o->id_count : CTL_ORDER_IDS;

	for (size_t i = 0; i < count; i++)
		if (strncmp(o->ids[i], id, ID_SIZE) == 0)
			return true;
	return false;
}

/* Only ids that are UUIDs are remembered: they have a known length. */
static void remember_id(struct ctl_reorder *o, const char *id)
{
	if (strlen(id) == ID_SIZE - 1)
		memcpy(o->ids[o->id_count++ % CTL_ORDER_IDS], id, ID_SIZE);
}

static struct ctl_message *find_held(const struct ctl_reorder *o, const struct ctl_message *n)
{
	for (struct ctl_message *h = o->held; h; h = h->next)
		if (n->sequence ? h->sequence == n->sequence :
				  !h->sequence && strcmp(h->message_id, n->message_id) == 0)
			return h;
	return NULL;
}

static void hold(struct ctl_reorder *o, struct ctl_message *n)
{
	struct ctl_message **at = &o->held;

	n->place = place_of(o, n);
	while (*at && (*at)->place <= n->place)
		at = &(*at)->next;
	n->next = *at;
	*at = n;
	o->held_count++;
	if (n->sequence > o->highest)
		o->highest = n->sequence;
}

static bool is_first_due(const struct ctl_reorder *o)
{
	return o->held && (!o->held->sequence || o->next == 0 || o->held->sequence <= o->next);
}

enum ctl_put ctl_reorder_put(struct ctl_reorder *o, struct ctl_message *n, int64_t now_us)
{
	struct ctl_message *held = find_held(o, n);

	if (held) { /* the connection was lost before the ack, so the broker sent it again */
		held->generation = n->generation;
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

struct ctl_message *ctl_reorder_take(
	struct ctl_reorder *o, int64_t now_us, int64_t *gap_from, int64_t *gap_to)
{
	struct ctl_message *n = o->held;

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
	o->waits_until_us = now_us + CTL_ORDER_WAIT_US; /* the next gap gets a waiting time of its own */
	return n;
}

int64_t ctl_reorder_due_us(const struct ctl_reorder *o)
{
	return o->held ? o->waits_until_us : INT64_MAX;
}

void ctl_reorder_fini(struct ctl_reorder *o)
{
	while (o->held) {
		struct ctl_message *n = o->held;

		o->held = n->next;
		ctl_message_free(n);
	}
	o->held_count = 0;
}
