/* SPDX-License-Identifier: MIT */
/* risk_suggest.c: what a caller could change so that its task may run.
 * Owns the sentence, and that it is true: each change is made on a copy of the inputs, and the copy is
 * assessed. Never looks at input_schema: the sentence is about the risk alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/message.h"
#include "policy/risk_private.h"

struct attempt {
	const json_t *inputs; /* unchanged */
	json_t *changed;      /* a copy with the changes */
	struct buf text;
	bool failed; /* no change was found */
};

/* --- a value that meets a comparison; NULL: none can be made --- */

static json_t *beside(const json_t *number, int direction)
{
	json_int_t whole = json_integer_value(number);

	if (!json_is_integer(number))
		return json_real(nextafter(json_real_value(number), direction * HUGE_VAL));
	return __builtin_add_overflow(whole, (json_int_t)direction, &whole) ? NULL : json_integer(whole);
}

/* A number above all numbers of the list, or a string longer than all its strings. */
static json_t *other_than(const json_t *list)
{
	const json_t *most = NULL;
	struct buf b = {0};
	json_t *other;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);

		if (json_is_number(v) && (most == NULL || jpoint_compare(v, most) > 0))
			most = v;
		if (json_is_string(v))
			buf_add(&b, json_string_value(v), json_string_length(v));
	}
	buf_add_text(&b, "_");
	other = most != NULL ? beside(most, 1) : json_stringn(b.data, b.size);
	buf_fini(&b);
	return other;
}

static json_t *other_than_one(const json_t *v)
{
	json_t *list, *other;

	if (json_is_boolean(v))
		return json_boolean(!json_is_true(v));
	list = json_array();
	json_array_append(list, (json_t *)(uintptr_t)v);
	other = other_than(list);
	json_decref(list);
	return other;
}

/* The first items of an array. Longer arrays, and objects, cannot be made. */
static json_t *shortened(const struct risk_test *t, const json_t *inputs, json_int_t size)
{
	const json_t *now = jpoint_get(t->pointer, inputs);
	json_t *array;

	if (!json_is_array(now) || size < 0 || size > (json_int_t)json_array_size(now))
		return NULL;
	array = json_array();
	for (json_int_t i = 0; i < size; i++)
		json_array_append_new(array, json_deep_copy(json_array_get(now, (size_t)i)));
	return array;
}

static json_t *witness(const struct risk_test *t, enum risk_op op, const json_t *inputs)
{
	switch (op) {
	case OP_ABOVE: return beside(t->value, 1);
	case OP_BELOW: return beside(t->value, -1);
	case OP_FROM:
	case OP_UPTO:
	case OP_IS: return json_incref(t->value);
	case OP_IS_NOT: return other_than_one(t->value);
	case OP_IN:
	case OP_BETWEEN: return json_incref(json_array_get(t->value, 0));
	case OP_NOT_IN: return other_than(t->value);
	case OP_PRESENT: return json_null();
	case OP_COUNT_UPTO:
	case OP_COUNT_IS: return shortened(t, inputs, json_integer_value(t->value));
	case OP_COUNT_BELOW:
	case OP_COUNT_IS_NOT: return shortened(t, inputs, json_integer_value(t->value) - 1);
	case OP_NOT_BETWEEN: return beside(json_array_get(t->value, 0), -1);
	case OP_ABSENT:
	case OP_COUNT_ABOVE:
	case OP_COUNT_FROM: break;
	}
	return NULL;
}

/* --- sentences --- */

/* The words around the pointer and the value. */
static const struct {
	const char *before, *between, *after;
} phrases[OP_COUNT + 1] = {
	[OP_ABOVE] = {"with ", " above ", ""},
	[OP_FROM] = {"with ", " at least ", ""},
	[OP_BELOW] = {"with ", " below ", ""},
	[OP_UPTO] = {"with ", " at most ", ""},
	[OP_IS] = {"with ", " being ", ""},
	[OP_IS_NOT] = {"with ", " other than ", ""},
	[OP_IN] = {"with ", " one of ", ""},
	[OP_NOT_IN] = {"with ", " none of ", ""},
	[OP_BETWEEN] = {"with ", " within ", ""},
	[OP_PRESENT] = {"with ", " given", ""},
	[OP_ABSENT] = {"without ", "", ""},
	[OP_COUNT_ABOVE] = {"with ", " of more than ", " entries"},
	[OP_COUNT_FROM] = {"with ", " of at least ", " entries"},
	[OP_COUNT_BELOW] = {"with ", " of fewer than ", " entries"},
	[OP_COUNT_UPTO] = {"with ", " of at most ", " entries"},
	[OP_COUNT_IS] = {"with ", " of exactly ", " entries"},
	[OP_COUNT_IS_NOT] = {"with ", " of other than ", " entries"},
	[OP_NOT_BETWEEN] = {"with ", " outside ", ""},
};

static void change_comparison(struct attempt *a, const struct risk_test *t, bool wanted)
{
	enum risk_op op = wanted ? t->op : risk_operators[t->op].contrary;
	json_t *value = witness(t, op, a->inputs);
	char *shown = t->value ? json_dumps(t->value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

	if ((value == NULL && op != OP_ABSENT) || !jpoint_put(t->pointer, a->changed, value))
		a->failed = true;
	buf_addf(&a->text, "%s%s%s%s%s%s", a->text.size > 0 ? " and " : "", phrases[op].before,
		jpoint_text(t->pointer), phrases[op].between, shown ? shown : "", phrases[op].after);
	free(shown);
	json_decref(value);
}

/* Where all parts must change, changes all; where one is enough, changes the first. */
static void change(struct attempt *a, const struct risk_test *t, bool wanted)
{
	bool one_does = (t->junction == JUNCTION_ANY) == wanted;

	if (t->junction == JUNCTION_NONE) {
		change_comparison(a, t, wanted);
	} else if (t->junction == JUNCTION_NOT) {
		change(a, &t->parts[0], !wanted);
	} else {
		for (size_t i = 0; i < t->part_count; i++) {
			if (risk_test_holds(&t->parts[i], a->inputs) == wanted)
				continue;
			change(a, &t->parts[i], wanted);
			if (one_does)
				return;
		}
	}
}

static void add_days(struct buf *b, unsigned days)
{
	static const char *const names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
	const char *before = " on days other than ";

	for (unsigned i = 0; i < 7; i++)
		if (days & (1u << i)) {
			buf_addf(b, "%s%s", before, names[i]);
			before = ", ";
		}
}

static void wait_for(struct attempt *a, const struct risk_factor *f)
{
	struct buf *b = &a->text;

	if (b->size > 0)
		buf_add_text(b, " and");
	if (!f->is_hours) {
		buf_addf(b, "%swhile fewer than %u sessions of %s%s run", b->size > 0 ? " " : "", f->at_least,
			f->of_resource ? "the resource " : "this capability",
			f->resource            ? f->resource :
				f->of_resource ? "it uses" :
						 "");
		return;
	}
	if (f->from >= 0)
		buf_addf(b, "%sbetween %02d:%02d and %02d:%02d", b->size > 0 ? " " : "", f->to / 60 % 24,
			f->to % 60, f->from / 60 % 24, f->from % 60);
	add_days(b, f->days);
	buf_add_text(b, f->zone == RISK_UTC ? " UTC" : " local time");
}

bool risk_suggest(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	const struct risk_result *result, enum risk limit, char *out, size_t size)
{
	struct attempt a = {.inputs = inputs};
	struct risk_result then;
	uint32_t waited = 0;
	bool found;

	if (m->floor > limit || result->level <= limit)
		return false;
	a.changed = json_deep_copy(inputs);
	for (size_t i = 0; i < m->rule_count && !a.failed; i++)
		if ((result->rules >> i & 1) != 0 && m->rules[i].level > limit &&
			risk_test_holds(&m->rules[i].when, a.changed))
			change(&a, &m->rules[i].when, false);
	for (size_t i = 0; i < m->factor_count; i++)
		if ((result->factors >> i & 1) != 0 && m->factors[i].level > limit) {
			wait_for(&a, &m->factors[i]);
			waited |= 1u << i;
		}
	risk_assess_without(m, a.changed, context, waited, &then);
	found = !a.failed && then.level <= limit &&
		snprintf(out, size, "%s the risk would be %s", buf_text(&a.text), risk_names[then.level]) <
			(int)size;
	json_decref(a.changed);
	buf_fini(&a.text);
	if (!found)
		out[0] = '\0';
	return found;
}
