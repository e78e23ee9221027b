/* SPDX-License-Identifier: MIT */
/* array.c: ops on the items of an array.
 * Owns prefixItems, items, contains, uniqueItems and unevaluatedItems. Never knows members of objects. */
#include "jschema/jschema_private.h"

static bool match_item(struct check *c, const struct frame *f, uint32_t node, size_t i)
{
	struct place place = {f->place, NULL, i};

	return match_node(c, node, json_array_get(f->value, i), &place, f->scope, NO_MARKS);
}

/* prefixItems for the first items, items for the rest. */
bool match_items(struct check *c, const struct frame *f, const struct op *op)
{
	size_t count = json_array_size(f->value);

	for (size_t i = 0; i < count; i++) {
		uint32_t node = i < op->list.count ? c->js->links[op->list.first + i] : op->list.rest;

		if (node == NONE)
			return true;
		if (i >= op->list.count && c->js->nodes[node].flags & N_FALSE)
			return match_fail(c, f, op, "items", "must have at most %u item%s, has %zu",
				op->list.count, op->list.count == 1 ? "" : "s", count);
		if (!match_item(c, f, node, i))
			return false;
		mark_set(c, f->marks, i);
	}
	return true;
}

bool match_contains(struct check *c, const struct frame *f, const struct op *op)
{
	uint64_t found = 0;

	c->quiet++;
	for (size_t i = 0; i < json_array_size(f->value); i++) {
		if (found >= op->contains.min && op->contains.max == UINT64_MAX && f->marks == NO_MARKS)
			break;
		if (!match_item(c, f, op->contains.node, i))
			continue;
		found++;
		mark_set(c, f->marks, i);
	}
	c->quiet--;
	if (found > op->contains.max)
		return match_fail(c, f, op, "maxContains",
			"must have at most %ju items of the form that is asked for, has %ju",
			(uintmax_t)op->contains.max, (uintmax_t)found);
	if (found >= op->contains.min)
		return true;
	return match_fail(c, f, op, op->contains.min == 1 ? NULL : "minContains",
		"must have at least %ju item%s of the form that is asked for, has %ju",
		(uintmax_t)op->contains.min, op->contains.min == 1 ? "" : "s", (uintmax_t)found);
}

bool match_unique(struct check *c, const struct frame *f, const struct op *op)
{
	size_t first, second;

	if (!value_find_twins(&c->steps, f->value, &first, &second))
		return true;
	return match_fail(
		c, f, op, NULL, "must not have equal items, but items %zu and %zu are", first, second);
}

bool match_unevaluated_items(struct check *c, const struct frame *f, const struct op *op)
{
	for (size_t i = 0; i < json_array_size(f->value); i++) {
		if (c->marks[f->marks + i / 64] >> i % 64 & 1)
			continue;
		if (c->js->nodes[op->node].flags & N_FALSE)
			return match_fail(c, f, op, NULL, "must not have item %zu", i);
		if (!match_item(c, f, op->node, i))
			return false;
		mark_set(c, f->marks, i);
	}
	return true;
}
