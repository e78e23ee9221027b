/* SPDX-License-Identifier: MIT */
/* envelope.c: the safety envelope.
 * Owns the bounds and the list of prohibited actions. Never answers a caller (gate.c) or a worker
 * (core/running/action.c). */
#include "policy/envelope.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "policy/declaration.h"
#include "json/canonical.h"
#include "json/pointer.h"

struct bound {
	char *name;
	struct jpoint *pointer;
	json_t *max, *min, *hard; /* NULL: none */
	bool hard_is_low;         /* the hard limit is a lower bound */
	char *unit;               /* "" or " C" */
};

struct envelope {
	struct bound *bounds;
	size_t bound_count;
	char **prohibited;
	size_t prohibited_count;
	char *text, hash[CANONICAL_HASH_SIZE];
};

/* --- reading --- */

static json_t *read_number(struct declaration *d, const struct declared *parameter, const char *name)
{
	struct declared v = declared_member(parameter, name);

	if (!v.value || !declared_is_number(d, &v, "a number"))
		return NULL;
	return json_copy((json_t *)(uintptr_t)v.value);
}

/* HCP writes `true`: max is hard, and where there is no max, min is. hcpd also takes a number beyond them. */
static json_t *read_hard(struct declaration *d, const struct declared *parameter, const struct bound *b)
{
	struct declared v = declared_member(parameter, "hard_limit");

	if (!v.value || json_is_false(v.value))
		return NULL;
	if (json_is_true(v.value)) {
		if (!b->max && !b->min)
			declaration_complain(d, &v, "is true, and there is no max that it makes hard");
		return json_incref(b->max ? b->max : b->min);
	}
	if (!declared_is_number(d, &v, "true, false or a number"))
		return NULL;
	return json_copy((json_t *)(uintptr_t)v.value);
}

static void check_order(struct declaration *d, const struct declared *parameter, struct bound *b)
{
	struct declared hard = declared_member(parameter, "hard_limit");

	if (b->max && b->min && jpoint_compare(b->min, b->max) > 0)
		declaration_complain(d, parameter, "has a min above its max; nothing could ever be allowed");
	if (!b->max && !b->min && !b->hard)
		declaration_complain(d, parameter, "limits nothing; write max, min or hard_limit");
	b->hard_is_low = b->min && !b->max;
	if (b->hard && b->hard_is_low && jpoint_compare(b->hard, b->min) > 0)
		declaration_complain(
			d, &hard, "is above min; with min alone it is the lowest value ever, so lower it");
	if (b->hard && b->max && jpoint_compare(b->hard, b->max) < 0)
		declaration_complain(d, &hard, "is below max; it is the highest value ever, so raise it");
}

static void read_bound(
	struct declaration *d, const struct declared *parameter, const char *name, struct bound *b)
{
	static const char *const members[] = {"max", "min", "unit", "hard_limit", NULL};
	struct declared unit = declared_member(parameter, "unit");
	struct buf text = {0};

	b->name = xstrdup(name);
	b->pointer = name[0] == '/' ? jpoint_new(name, strlen(name)) : jpoint_new_member(name);
	if (!b->pointer)
		declaration_complain(d, parameter,
			"has a name that is too long, or no JSON pointer although it begins with /");
	if (declared_is_object(d, parameter, "an object with some of max, min, hard_limit and unit")) {
		declared_only(d, parameter, members);
		b->max = read_number(d, parameter, "max");
		b->min = read_number(d, parameter, "min");
		b->hard = read_hard(d, parameter, b);
		check_order(d, parameter, b);
		if (unit.value && declared_is_text(d, &unit, "its name"))
			buf_addf(&text, " %.40s", json_string_value(unit.value));
	}
	b->unit = xstrdup(buf_text(&text));
	buf_fini(&text);
}

static void read_bounds(struct declaration *d, const struct declared *parameters, struct envelope *e)
{
	json_t *object = (json_t *)(uintptr_t)parameters->value;

	if (!object || !declared_is_object(d, parameters, "an object: a name, and an object with its limits"))
		return;
	e->bounds = xcalloc(json_object_size(object) + 1, sizeof *e->bounds);
	for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
		struct declared parameter = declared_member(parameters, json_object_iter_key(i));

		read_bound(d, &parameter, json_object_iter_key(i), &e->bounds[e->bound_count++]);
	}
}

static void read_prohibited(struct declaration *d, const struct declared *list, struct envelope *e)
{
	if (!list->value || !declared_is_array(d, list, "an array of names of actions"))
		return;
	e->prohibited = xcalloc(json_array_size(list->value) + 1, sizeof *e->prohibited);
	for (size_t i = 0; i < json_array_size(list->value); i++) {
		struct declared item = declared_item(list, i);

		if (declared_is_text(d, &item, "the name of an action"))
			e->prohibited[e->prohibited_count++] = xstrdup(json_string_value(item.value));
	}
}

static void check_procedures(struct declaration *d, const struct declared *procedures)
{
	json_t *object = (json_t *)(uintptr_t)procedures->value;

	if (!object || !declared_is_object(d, procedures, "an object: a condition, and what to do then"))
		return;
	for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
		struct declared procedure = declared_member(procedures, json_object_iter_key(i));

		(void)declared_is_text(d, &procedure, "what to do, in words");
	}
}

struct envelope *envelope_read(struct declaration *d, const struct declared *v)
{
	static const char *const members[] = {
		"parameters", "prohibited_actions", "emergency_procedures", NULL};
	struct envelope *e = xcalloc(1, sizeof *e);
	struct declared parameters = declared_member(v, "parameters"),
			prohibited = declared_member(v, "prohibited_actions"),
			procedures = declared_member(v, "emergency_procedures");

	if (v->value && declared_is_object(d, v, "an object")) {
		declared_only(d, v, members);
		read_bounds(d, &parameters, e);
		read_prohibited(d, &prohibited, e);
		check_procedures(d, &procedures);
		e->text = json_dumps(v->value, JSON_COMPACT);
	}
	if (!e->text)
		e->text = xstrdup("{}");
	canonical_hash_bytes(e->text, strlen(e->text), e->hash);
	return e;
}

void envelope_free(struct envelope *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->bound_count; i++) {
		struct bound *b = &e->bounds[i];

		free(b->name);
		jpoint_free(b->pointer);
		json_decref(b->max);
		json_decref(b->min);
		json_decref(b->hard);
		free(b->unit);
	}
	for (size_t i = 0; i < e->prohibited_count; i++)
		free(e->prohibited[i]);
	free(e->bounds);
	free(e->prohibited);
	free(e->text);
	free(e);
}

const char *envelope_text(const struct envelope *e)
{
	return e->text;
}

const char *envelope_hash(const struct envelope *e)
{
	return e->hash;
}

/* --- checking --- */

static void show_number(const json_t *v, char out[40])
{
	if (json_is_integer(v))
		snprintf(out, 40, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else
		snprintf(out, 40, "%.12g", json_real_value(v));
}

static void describe_breach(const struct bound *b, const json_t *v, const json_t *limit, const char *word,
	const char *what, struct envelope_breach *breach)
{
	char is[40], allowed[40];

	show_number(v, is);
	show_number(limit, allowed);
	snprintf(breach->where, sizeof breach->where, "%s", jpoint_text(b->pointer));
	snprintf(breach->message, sizeof breach->message, "%s is %s%s, and the %s is %s %s%s", breach->where,
		is, b->unit, what, word, allowed, b->unit);
	snprintf(breach->suggestion, sizeof breach->suggestion, "keep %.120s %s %s%s", breach->where, word,
		allowed, b->unit);
}

static enum envelope_result check_bound(
	const struct bound *b, const json_t *holder, struct envelope_breach *breach)
{
	const json_t *v = jpoint_get(b->pointer, holder);

	if (v == NULL)
		return ENVELOPE_INSIDE;
	if (!json_is_number(v)) { /* a value that cannot be compared is not inside */
		snprintf(breach->where, sizeof breach->where, "%s", jpoint_text(b->pointer));
		snprintf(breach->message, sizeof breach->message,
			"%s is not a number, and the safety envelope limits it", breach->where);
		breach->suggestion[0] = '\0';
		return ENVELOPE_OUTSIDE;
	}
	if (b->hard && jpoint_compare(v, b->hard) * (b->hard_is_low ? -1 : 1) > 0) {
		describe_breach(b, v, b->hard, b->hard_is_low ? "at least" : "at most", "hard limit", breach);
		return ENVELOPE_VIOLATED;
	}
	if (b->max && jpoint_compare(v, b->max) > 0) {
		describe_breach(b, v, b->max, "at most", "limit", breach);
		return ENVELOPE_OUTSIDE;
	}
	if (b->min && jpoint_compare(v, b->min) < 0) {
		describe_breach(b, v, b->min, "at least", "limit", breach);
		return ENVELOPE_OUTSIDE;
	}
	return ENVELOPE_INSIDE;
}

static enum envelope_result check_bounds(
	const struct envelope *e, const json_t *holder, struct envelope_breach *breach)
{
	enum envelope_result worst = ENVELOPE_INSIDE;

	for (size_t i = 0; i < e->bound_count; i++) {
		struct envelope_breach this;
		enum envelope_result result = check_bound(&e->bounds[i], holder, &this);

		if (result <= worst)
			continue;
		worst = result;
		*breach = this;
	}
	return worst;
}

static bool is_prohibited(const struct envelope *e, const char *name, struct envelope_breach *breach)
{
	for (size_t i = 0; name && i < e->prohibited_count; i++) {
		if (strcmp(e->prohibited[i], name) != 0)
			continue;
		snprintf(breach->where, sizeof breach->where, "%.250s", name);
		snprintf(breach->message, sizeof breach->message, "the action %.250s is prohibited here",
			name);
		breach->suggestion[0] = '\0';
		return true;
	}
	return false;
}

static const char *action_name(const json_t *action)
{
	return json_string_value(json_is_object(action) ? json_object_get(action, "name") : action);
}

enum envelope_result envelope_check_inputs(
	const struct envelope *e, const json_t *inputs, struct envelope_breach *breach)
{
	const json_t *actions = json_object_get(inputs, "actions");

	if (is_prohibited(e, action_name(json_object_get(inputs, "action")), breach))
		return ENVELOPE_VIOLATED;
	for (size_t i = 0; e->prohibited_count > 0 && i < json_array_size(actions); i++)
		if (is_prohibited(e, action_name(json_array_get(actions, i)), breach))
			return ENVELOPE_VIOLATED;
	return check_bounds(e, inputs, breach);
}

enum envelope_result envelope_check_action(
	const struct envelope *e, const char *name, const json_t *parameters, struct envelope_breach *breach)
{
	if (is_prohibited(e, name, breach))
		return ENVELOPE_VIOLATED;
	return check_bounds(e, parameters, breach);
}
