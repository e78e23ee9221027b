/* SPDX-License-Identifier: MIT */
/* object.c: ops on the members of an object.
 * Owns the one pass over the members for properties, patternProperties, additionalProperties and required.
 * Never knows items of arrays. */
#include <string.h>

#include "jschema/jschema_private.h"

/* jansson iterates only over objects that are not const, but changes nothing. */
static json_t *loose(const json_t *v)
{
	return (json_t *)(uintptr_t)v;
}

static bool has_member(const struct frame *f, const struct name *n)
{
	return json_object_getn(f->value, n->text, n->size) != NULL;
}

static const struct member *find_member(const struct members *t, const char *key, size_t size)
{
	uint32_t at = key_hash(key, size) & t->mask;

	for (; t->table[at].name.text != NULL; at = (at + 1) & t->mask)
		if (t->table[at].name.size == size && memcmp(t->table[at].name.text, key, size) == 0)
			return &t->table[at];
	return NULL;
}

static bool match_member(struct check *c, const struct frame *f, const struct op *op, const char *keyword,
	uint32_t node, void *i)
{
	struct place place = {f->place, json_object_iter_key(i), 0};

	if (c->js->nodes[node].flags & N_FALSE)
		return match_fail_property(c, f, op, keyword, place.key, "must not have the property");
	return match_node(c, node, json_object_iter_value(i), &place, f->scope, NO_MARKS);
}

static bool fail_missing(struct check *c, const struct frame *f, const struct op *op, uint64_t missing)
{
	const struct members *t = op->members;

	for (uint32_t i = 0; i <= t->mask; i++)
		if (t->table[i].required == (missing & -missing))
			return match_fail_property(
				c, f, op, "required", t->table[i].name.text, "must have the property");
	return false;
}

bool match_members(struct check *c, const struct frame *f, const struct op *op)
{
	const struct members *t = op->members;
	json_t *object = loose(f->value);
	uint64_t missing = t->required;
	size_t index = 0;

	for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i), index++) {
		const char *key = json_object_iter_key(i);
		size_t size = json_object_iter_key_len(i);
		const struct member *m = find_member(t, key, size);
		bool is_known = m != NULL && m->node != NONE;

		steps_take(&c->steps, 1 + size / 64);
		if (m != NULL)
			missing &= ~m->required;
		if (is_known && !match_member(c, f, op, "properties", m->node, i))
			return false;
		for (uint32_t p = 0; p < t->pattern_count; p++) {
			if (!regex_finds(t->patterns[p].regex, key, size, &c->steps))
				continue;
			is_known = true;
			if (!match_member(c, f, op, "patternProperties", t->patterns[p].node, i))
				return false;
		}
		if (!is_known && t->additional != NONE &&
			!match_member(c, f, op, "additionalProperties", t->additional, i))
			return false;
		if (is_known || t->additional != NONE)
			mark_set(c, f->marks, index);
	}
	return missing == 0 || fail_missing(c, f, op, missing);
}

bool match_required(struct check *c, const struct frame *f, const struct op *op)
{
	steps_take(&c->steps, op->required.count);
	for (uint32_t i = 0; i < op->required.count; i++)
		if (!has_member(f, &op->required.names[i]))
			return match_fail_property(
				c, f, op, NULL, op->required.names[i].text, "must have the property");
	return true;
}

bool match_dependent_required(struct check *c, const struct frame *f, const struct op *op)
{
	for (uint32_t i = 0; i < op->dependents.count; i++) {
		const struct dependent *d = &op->dependents.list[i];

		steps_take(&c->steps, 1);
		if (!has_member(f, &d->name))
			continue;
		steps_take(&c->steps, d->count);
		for (uint32_t k = 0; k < d->count; k++)
			if (!has_member(f, &d->required[k]))
				return match_fail_property(c, f, op, NULL, d->required[k].text,
					"must, because of another property, have the property");
	}
	return true;
}

bool match_dependent_schemas(struct check *c, const struct frame *f, const struct op *op)
{
	for (uint32_t i = 0; i < op->dependents.count; i++) {
		const struct dependent *d = &op->dependents.list[i];

		steps_take(&c->steps, 1);
		if (has_member(f, &d->name) &&
			!match_node(c, d->node, f->value, f->place, f->scope, f->marks))
			return false;
	}
	return true;
}

/* A name is checked as an instance of its own: the only allocation of a usual check. */
bool match_property_names(struct check *c, const struct frame *f, const struct op *op)
{
	json_t *object = loose(f->value);

	for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
		json_t *name = json_stringn_nocheck(json_object_iter_key(i), json_object_iter_key_len(i));
		struct place place = {f->place, json_object_iter_key(i), 0};
		bool ok;

		c->quiet++;
		ok = match_node(c, op->node, name, &place, f->scope, NO_MARKS);
		c->quiet--;
		json_decref(name);
		if (!ok)
			return match_fail_property(
				c, f, op, NULL, place.key, "must not have a property with the name");
	}
	return true;
}

bool match_unevaluated_properties(struct check *c, const struct frame *f, const struct op *op)
{
	json_t *object = loose(f->value);
	size_t index = 0;

	for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i), index++) {
		if (c->marks[f->marks + index / 64] >> index % 64 & 1)
			continue;
		if (!match_member(c, f, op, NULL, op->node, i))
			return false;
		mark_set(c, f->marks, index);
	}
	return true;
}
