/* SPDX-License-Identifier: MIT */
/* match.c: applies a compiled schema to an instance.
 * Owns the descent, its two bounds (depth, steps), and the ops on one value or at the same place; ops on
 * members are in object.c, on items in array.c. Never changes anything but its own stack. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jschema/jschema_private.h"

#define TOO_DEEP "is nested too deeply to be checked"
#define TOO_MUCH "takes more work to check than is allowed"

/* ---- sets of what was evaluated ---- */

static size_t words_of(const json_t *value)
{
	size_t count = json_is_array(value) ? json_array_size(value) : json_object_size(value);

	return (count + 63) / 64;
}

size_t marks_push(struct check *c, const json_t *value)
{
	size_t set = c->mark_top, words = words_of(value);

	steps_take(&c->steps, words);
	if (set + words > c->mark_room) {
		uint64_t *was = c->marks == c->mark_space ? NULL : c->marks;

		c->mark_room = (set + words) * 2;
		c->marks = xrealloc(was, c->mark_room * sizeof *c->marks);
		if (was == NULL)
			memcpy(c->marks, c->mark_space, set * sizeof *c->marks);
	}
	memset(c->marks + set, 0, words * sizeof *c->marks);
	c->mark_top += words;
	return set;
}

void marks_pop(struct check *c, size_t set)
{
	c->mark_top = set;
}

void marks_add(struct check *c, const json_t *value, size_t to, size_t from)
{
	for (size_t i = 0; i < words_of(value); i++)
		c->marks[to + i] |= c->marks[from + i];
}

bool match_quietly(struct check *c, const struct frame *f, uint32_t node)
{
	size_t marks = f->marks != NO_MARKS ? marks_push(c, f->value) : NO_MARKS;
	bool ok;

	c->quiet++;
	ok = match_node(c, node, f->value, f->place, f->scope, marks);
	c->quiet--;
	if (marks == NO_MARKS)
		return ok;
	if (ok)
		marks_add(c, f->value, f->marks, marks);
	marks_pop(c, marks);
	return ok;
}

static bool match_here(struct check *c, const struct frame *f, uint32_t node)
{
	return match_node(c, node, f->value, f->place, f->scope, f->marks);
}

/* ---- any value ---- */

static const char *const type_names[] = {
	"null", "a boolean", "an integer", "a number", "a string", "an array", "an object"};

static unsigned type_of(const json_t *v)
{
	static const uint8_t numbers[] = {[JSON_NULL] = 0,
		[JSON_TRUE] = 1,
		[JSON_FALSE] = 1,
		[JSON_INTEGER] = 2,
		[JSON_REAL] = 3,
		[JSON_STRING] = 4,
		[JSON_ARRAY] = 5,
		[JSON_OBJECT] = 6};

	return numbers[json_typeof(v)];
}

static bool match_type(struct check *c, const struct frame *f, const struct op *op)
{
	unsigned type = type_of(f->value);
	char text[160] = "";
	size_t size = 0;

	if (op->count >> type & 1 ||
		(op->count & T_INTEGRAL && type == 3 && number_is_integral(value_number(f->value))))
		return true;
	for (unsigned i = 0; i < 7; i++) {
		if (!(op->count >> i & 1) || (i == 2 && op->count & T_REAL))
			continue;
		size += (size_t)snprintf(
			text + size, sizeof text - size, "%s%s", size > 0 ? " or " : "", type_names[i]);
	}
	return match_fail(c, f, op, NULL, "must be %s, is %s", text, type_names[type]);
}

/* A value of the schema as JSON, cut where it is long. */
static void json_text(const json_t *v, char *out, size_t room)
{
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	size_t size = text != NULL ? strlen(text) : 0,
	       fits = buf_utf8_cut(text != NULL ? text : "", size, room - 4);

	snprintf(out, room, "%.*s%s", (int)fits, text != NULL ? text : "", fits < size ? "..." : "");
	free(text);
}

static bool match_const(struct check *c, const struct frame *f, const struct op *op)
{
	char text[200];

	if (value_equal(&c->steps, f->value, op->json))
		return true;
	if (c->quiet > 0 || c->failure == NULL)
		return false;
	json_text(op->json, text, sizeof text);
	return match_fail(c, f, op, NULL, "must be %s", text);
}

static bool match_enum(struct check *c, const struct frame *f, const struct op *op)
{
	char text[300];

	for (size_t i = 0; i < json_array_size(op->json); i++)
		if (value_equal(&c->steps, f->value, json_array_get(op->json, i)))
			return true;
	if (c->quiet > 0 || c->failure == NULL)
		return false;
	json_text(op->json, text, sizeof text);
	return match_fail(c, f, op, NULL, "must be one of %s", text);
}

/* ---- numbers ---- */

static bool match_number(struct check *c, const struct frame *f, const struct op *op)
{
	static const char *const words[] = {[OP_MINIMUM] = "at least",
		[OP_MAXIMUM] = "at most",
		[OP_ABOVE] = "above",
		[OP_BELOW] = "below",
		[OP_MULTIPLE] = "a multiple of"};
	struct number n = value_number(f->value);
	int order = op->kind != OP_MULTIPLE ? number_order(n, op->number.value) : 0;
	char limit[40], is[40];

	if (op->kind == OP_MINIMUM             ? order >= 0 :
			op->kind == OP_MAXIMUM ? order <= 0 :
			op->kind == OP_ABOVE   ? order > 0 :
			op->kind == OP_BELOW   ? order < 0 :
						 number_is_multiple(n, op->number.value, op->number.decimal))
		return true;
	if (c->quiet > 0 || c->failure == NULL)
		return false;
	number_text(op->number.value, limit);
	number_text(n, is);
	return match_fail(c, f, op, NULL, "must be %s %s, is %s", words[op->kind], limit, is);
}

/* ---- strings ---- */

static bool match_length(struct check *c, const struct frame *f, const struct op *op)
{
	size_t bytes = json_string_length(f->value), count;
	bool is_min = op->kind == OP_MIN_LENGTH;

	if (is_min ? bytes / 4 >= op->count : bytes <= op->count)
		return true; /* so many bytes are enough, whatever the characters are */
	steps_take(&c->steps, bytes / 64);
	count = text_code_points(json_string_value(f->value), bytes);
	if (is_min ? count >= op->count : count <= op->count)
		return true;
	return match_fail(c, f, op, NULL, "must be at %s %ju character%s long, is %zu",
		is_min ? "least" : "most", (uintmax_t)op->count, op->count == 1 ? "" : "s", count);
}

static bool match_pattern(struct check *c, const struct frame *f, const struct op *op)
{
	if (regex_finds(
		    op->pattern.regex, json_string_value(f->value), json_string_length(f->value), &c->steps))
		return true;
	if (c->steps == 0)
		return match_fail_limit(c, f, TOO_MUCH);
	return match_fail(c, f, op, NULL, "must match the pattern %.200s", op->pattern.source);
}

static bool match_format(struct check *c, const struct frame *f, const struct op *op)
{
	steps_take(&c->steps, json_string_length(f->value) / 16);
	if (op->format.fn(json_string_value(f->value), json_string_length(f->value)))
		return true;
	return match_fail(c, f, op, NULL, "must have the format %.40s", op->format.name);
}

/* ---- how many ---- */

static bool match_count(struct check *c, const struct frame *f, const struct op *op)
{
	bool is_array = op->types == T_ARRAY,
	     is_min = op->kind == OP_MIN_ITEMS || op->kind == OP_MIN_PROPERTIES;
	size_t count = is_array ? json_array_size(f->value) : json_object_size(f->value);

	if (is_min ? count >= op->count : count <= op->count)
		return true;
	return match_fail(c, f, op, NULL, "must have at %s %ju %s%s, has %zu", is_min ? "least" : "most",
		(uintmax_t)op->count,
		is_array               ? "item" :
			op->count == 1 ? "property" :
					 "propertie",
		op->count == 1 ? "" : "s", count);
}

/* ---- other schemas at the same place ---- */

static bool match_ref(struct check *c, const struct frame *f, const struct op *op)
{
	return match_here(c, f, op->ref.node);
}

/* The outermost resource with such an anchor wins. */
static bool match_dynamic_ref(struct check *c, const struct frame *f, const struct op *op)
{
	const uint32_t *row = c->js->dynamic + (size_t)op->ref.dynamic * c->js->resource_count;
	uint32_t node = op->ref.node;

	if (op->ref.dynamic == NONE)
		return match_here(c, f, node);
	for (const struct scope *s = f->scope; s != NULL; s = s->up) {
		steps_take(&c->steps, 1);
		if (row[s->resource] != NONE)
			node = row[s->resource];
	}
	return match_here(c, f, node);
}

static bool match_all_of(struct check *c, const struct frame *f, const struct op *op)
{
	for (uint32_t i = 0; i < op->list.count; i++)
		if (!match_here(c, f, c->js->links[op->list.first + i]))
			return false;
	return true;
}

static bool match_any_of(struct check *c, const struct frame *f, const struct op *op)
{
	bool ok = false;

	for (uint32_t i = 0; i < op->list.count && (!ok || f->marks != NO_MARKS); i++)
		ok |= match_quietly(c, f, c->js->links[op->list.first + i]);
	return ok ||
		match_fail(c, f, op, NULL, "fits none of the %u forms that are allowed here", op->list.count);
}

static bool match_one_of(struct check *c, const struct frame *f, const struct op *op)
{
	uint32_t first = NONE;

	for (uint32_t i = 0; i < op->list.count; i++) {
		if (!match_quietly(c, f, c->js->links[op->list.first + i]))
			continue;
		if (first != NONE)
			return match_fail(c, f, op, NULL,
				"must fit one form only, fits number %u and number %u", first + 1, i + 1);
		first = i;
	}
	return first != NONE ||
		match_fail(c, f, op, NULL, "fits none of the %u forms that are allowed here", op->list.count);
}

static bool match_not(struct check *c, const struct frame *f, const struct op *op)
{
	struct frame quiet = *f;

	quiet.marks = NO_MARKS;
	return !match_quietly(c, &quiet, op->node) ||
		match_fail(c, f, op, NULL, "has a form that is forbidden here");
}

static bool match_if(struct check *c, const struct frame *f, const struct op *op)
{
	uint32_t next;

	if (op->branch.yes == NONE && op->branch.no == NONE && f->marks == NO_MARKS)
		return true;
	next = match_quietly(c, f, op->branch.node) ? op->branch.yes : op->branch.no;
	return next == NONE || match_here(c, f, next);
}

/* ---- the descent ---- */

static op_fn *const run[OP_COUNT] = {
	[OP_TYPE] = match_type,
	[OP_CONST] = match_const,
	[OP_ENUM] = match_enum,
	[OP_MINIMUM] = match_number,
	[OP_MAXIMUM] = match_number,
	[OP_ABOVE] = match_number,
	[OP_BELOW] = match_number,
	[OP_MULTIPLE] = match_number,
	[OP_MIN_LENGTH] = match_length,
	[OP_MAX_LENGTH] = match_length,
	[OP_PATTERN] = match_pattern,
	[OP_FORMAT] = match_format,
	[OP_MIN_ITEMS] = match_count,
	[OP_MAX_ITEMS] = match_count,
	[OP_UNIQUE] = match_unique,
	[OP_MIN_PROPERTIES] = match_count,
	[OP_MAX_PROPERTIES] = match_count,
	[OP_REQUIRED] = match_required,
	[OP_DEPENDENT_REQUIRED] = match_dependent_required,
	[OP_PROPERTY_NAMES] = match_property_names,
	[OP_MEMBERS] = match_members,
	[OP_ITEMS] = match_items,
	[OP_CONTAINS] = match_contains,
	[OP_REF] = match_ref,
	[OP_DYNAMIC_REF] = match_dynamic_ref,
	[OP_ALL_OF] = match_all_of,
	[OP_ANY_OF] = match_any_of,
	[OP_ONE_OF] = match_one_of,
	[OP_NOT] = match_not,
	[OP_IF] = match_if,
	[OP_DEPENDENT_SCHEMAS] = match_dependent_schemas,
	[OP_UNEVALUATED_ITEMS] = match_unevaluated_items,
	[OP_UNEVALUATED_PROPERTIES] = match_unevaluated_properties,
};

static bool run_ops(struct check *c, const struct frame *f, const struct node *n)
{
	unsigned type = 1u << type_of(f->value);

	for (uint32_t i = n->first_op; i < n->first_op + n->op_count; i++) {
		const struct op *op = &c->js->ops[i];

		if (op->types & type && !run[op->kind](c, f, op))
			return false;
	}
	return true;
}

bool match_node(struct check *c, uint32_t node, const json_t *value, const struct place *place,
	const struct scope *scope, size_t marks)
{
	const struct node *n = &c->js->nodes[node];
	struct scope here = {scope, n->resource};
	struct frame f = {
		node, value, place, scope != NULL && scope->resource == n->resource ? scope : &here, marks};
	bool has_own, ok;

	if (c->steps == 0)
		return match_fail_limit(c, &f, TOO_MUCH);
	c->steps--;
	if (n->flags & N_TRUE)
		return true;
	if (n->flags & N_FALSE)
		return match_fail_false(c, &f);
	if (c->depth >= c->js->max_depth)
		return match_fail_limit(c, &f, TOO_DEEP);
	c->depth++;
	has_own = n->flags &
		(json_is_array(value)                 ? N_MARKS_ITEMS :
				json_is_object(value) ? N_MARKS_PROPERTIES :
							0u);
	/* unevaluated* sees what its own schema evaluated, not what its neighbours did */
	if (has_own)
		f.marks = marks_push(c, value);
	ok = run_ops(c, &f, n);
	if (has_own && ok && marks != NO_MARKS)
		marks_add(c, value, marks, f.marks);
	if (has_own)
		marks_pop(c, f.marks);
	c->depth--;
	return ok;
}

bool jschema_check(const struct jschema *js, const json_t *instance, struct jschema_failure *failure)
{
	struct check c;
	const struct place root = {0};
	const struct frame whole = {.node = js->root, .value = instance, .place = &root};
	bool ok;

	c.js = js; /* mark_space is not cleared: only pushed sets are read */
	c.failure = failure;
	c.steps = js->max_steps;
	c.depth = c.quiet = 0;
	c.is_limit = false;
	c.marks = c.mark_space;
	c.mark_top = 0;
	c.mark_room = MARK_WORDS;
	ok = match_node(&c, js->root, instance, &root, NULL, NO_MARKS);
	if (c.steps == 0) /* `not` may have turned an undecided result into true */
		ok = match_fail_limit(&c, &whole, TOO_MUCH);
	if (c.marks != c.mark_space)
		free(c.marks);
	return ok;
}
