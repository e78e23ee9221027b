/* SPDX-License-Identifier: MIT */
/* compile.c: turns what scan.c found into ops, in the order in which they will run.
 * Owns the making of the tables that ops point to (jschema.c frees them), and the search for loops. Never
 * sees an instance. */
#include <stdlib.h>
#include <string.h>

#include "jschema/jschema_private.h"

struct maker {
	struct compiler *c;
	struct jschema *js;
	uint32_t node; /* the node whose ops are being made */
	const json_t *schema;
	uint32_t vocabulary;
	bool assert_formats;
};

static void *grow(void *array, uint32_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return array;
	return xrealloc(array, (count > 0 ? (size_t)count * 2 : 1) * size);
}

static struct op *op_add(struct maker *m, const struct keyword *k)
{
	struct jschema *js = m->js;
	struct op *op;

	js->ops = grow(js->ops, js->op_count, sizeof *js->ops);
	op = &js->ops[js->op_count++];
	memset(op, 0, sizeof *op);
	op->kind = k->kind;
	op->types = k->types;
	op->keyword = (uint16_t)(k - jschema_keywords);
	js->nodes[m->node].op_count++;
	return op;
}

/* The value of a keyword, where the keyword's vocabulary is in force. */
static const json_t *value_of(const struct maker *m, const char *name)
{
	return jschema_keyword_find(name)->vocabulary & m->vocabulary ? json_object_get(m->schema, name) :
									NULL;
}

static uint32_t child_of(struct maker *m, const char *keyword)
{
	const json_t *v = value_of(m, keyword);

	return v != NULL ? scan_child(m->c, m->node, v, keyword, NULL, SIZE_MAX) : NONE;
}

static uint64_t count_of(const json_t *v)
{
	double real = json_number_value(v);

	if (json_is_integer(v))
		return (uint64_t)json_integer_value(v);
	return real < 0x1p63 ? (uint64_t)real : UINT64_C(1) << 63;
}

static uint64_t type_mask(const json_t *v)
{
	static const struct {
		const char *name;
		uint8_t bits;
	} types[] = {{"null", T_NULL}, {"boolean", T_BOOLEAN}, {"integer", T_INTEGER | T_INTEGRAL},
		{"number", T_NUMBER}, {"string", T_STRING}, {"array", T_ARRAY}, {"object", T_OBJECT}};
	uint64_t mask = 0;

	for (size_t i = 0; i < json_array_size(v); i++)
		mask |= type_mask(json_array_get(v, i));
	for (size_t i = 0; json_is_string(v) && i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, json_string_value(v)) == 0)
			mask = types[i].bits;
	return mask;
}

static struct name *names_new(const json_t *list)
{
	struct name *names = xcalloc(json_array_size(list) + 1, sizeof *names);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);

		names[i] = (struct name){json_string_value(v), (uint32_t)json_string_length(v)};
	}
	return names;
}

static struct regex *pattern_new(struct maker *m, const char *keyword, const char *source, size_t size)
{
	const char *why = "";
	struct regex *r = regex_new(source, size, &why);

	if (r == NULL)
		scan_refuse(m->c, m->node, keyword, "\"%.200s\" is not a pattern that can be used: %s",
			source, why);
	return r;
}

/* ---- ops with children ---- */

static bool make_list(struct maker *m, const struct keyword *k)
{
	const json_t *list = value_of(m, k->name);
	struct jschema *js = m->js;
	uint32_t first = js->link_count;

	for (size_t i = 0; i < json_array_size(list); i++) {
		uint32_t child = scan_child(m->c, m->node, json_array_get(list, i), k->name, NULL, i);

		js->links = grow(js->links, js->link_count, sizeof *js->links);
		js->links[js->link_count++] = child;
	}
	op_add(m, k);
	js->ops[js->op_count - 1].list.first = first;
	js->ops[js->op_count - 1].list.count = js->link_count - first;
	js->ops[js->op_count - 1].list.rest = NONE;
	return true;
}

/* prefixItems and items: one op, made at the one that comes first in the table of keywords. */
static bool make_items(struct maker *m, const struct keyword *k)
{
	uint32_t rest = child_of(m, "items");

	if (strcmp(k->name, "items") == 0 && value_of(m, "prefixItems") != NULL)
		return true;
	if (strcmp(k->name, "items") == 0)
		op_add(m, k);
	else
		make_list(m, k);
	m->js->ops[m->js->op_count - 1].list.rest = rest;
	return true;
}

static struct member *member_at(const struct members *t, const char *name, size_t size)
{
	uint32_t at = key_hash(name, size) & t->mask;

	while (t->table[at].name.text != NULL &&
		(t->table[at].name.size != size || memcmp(t->table[at].name.text, name, size) != 0))
		at = (at + 1) & t->mask;
	return &t->table[at];
}

/* Up to 64 required names get a bit each and are found during the pass over the members; more names are
 * looked up one by one. */
static bool is_in_members(const struct maker *m)
{
	return value_of(m, "properties") != NULL && json_array_size(value_of(m, "required")) <= 64;
}

static void make_required_bits(struct maker *m, struct members *t)
{
	const json_t *required = value_of(m, "required");

	for (size_t i = 0; i < json_array_size(required); i++) {
		const json_t *v = json_array_get(required, i);
		struct member *place = member_at(t, json_string_value(v), json_string_length(v));

		if (place->name.text == NULL)
			*place = (struct member){
				{json_string_value(v), (uint32_t)json_string_length(v)}, NONE, 0};
		place->required = UINT64_C(1) << i;
		t->required |= place->required;
	}
}

static bool make_patterns(struct maker *m, struct members *t, const json_t *map)
{
	const char *key;
	json_t *child;

	t->patterns = xcalloc(json_object_size(map) + 1, sizeof *t->patterns);
	json_object_foreach((json_t *)(uintptr_t)map, key, child) {
		struct pattern_member *p = &t->patterns[t->pattern_count];

		if ((p->regex = pattern_new(m, "patternProperties", key, strlen(key))) == NULL)
			return false;
		t->pattern_count++;
		p->source = key;
		p->node = scan_child(m->c, m->node, child, "patternProperties", key, 0);
	}
	return true;
}

static bool make_members(struct maker *m, const struct keyword *k)
{
	struct members *t;
	const json_t *map = value_of(m, "properties");
	size_t size = json_object_size(map);
	const char *key;
	json_t *child;

	if (m->js->nodes[m->node].op_count > 0 && m->js->ops[m->js->op_count - 1].kind == OP_MEMBERS)
		return true; /* the second of the three keywords */
	t = xcalloc(1, sizeof *t);
	op_add(m, k)->members = t;
	size += is_in_members(m) ? json_array_size(value_of(m, "required")) : 0;
	for (t->mask = 1; t->mask < size * 2; t->mask = t->mask * 2 + 1)
		;
	t->table = xcalloc(t->mask + 1u, sizeof *t->table);
	t->additional = NONE;
	json_object_foreach((json_t *)(uintptr_t)map, key, child) {
		uint32_t node = scan_child(m->c, m->node, child, "properties", key, 0);

		*member_at(t, key, strlen(key)) = (struct member){{key, (uint32_t)strlen(key)}, node, 0};
	}
	if (is_in_members(m))
		make_required_bits(m, t);
	t->additional = child_of(m, "additionalProperties");
	return make_patterns(m, t, value_of(m, "patternProperties"));
}

static bool make_dependents(struct maker *m, const struct keyword *k)
{
	const json_t *map = value_of(m, k->name);
	struct dependent *list = xcalloc(json_object_size(map) + 1, sizeof *list);
	const char *key;
	json_t *child;
	uint32_t n = 0;
	struct op *op;

	json_object_foreach((json_t *)(uintptr_t)map, key, child) {
		list[n].name = (struct name){key, (uint32_t)strlen(key)};
		if (k->kind == OP_DEPENDENT_SCHEMAS) {
			list[n].node = scan_child(m->c, m->node, child, k->name, key, 0);
		} else {
			list[n].required = names_new(child);
			list[n].count = (uint32_t)json_array_size(child);
		}
		n++;
	}
	op = op_add(m, k);
	op->dependents.list = list;
	op->dependents.count = n;
	return true;
}

static bool make_contains(struct maker *m, const struct keyword *k)
{
	const json_t *min = value_of(m, "minContains"), *max = value_of(m, "maxContains");
	uint32_t node = child_of(m, k->name);
	struct op *op = op_add(m, k);

	op->contains.node = node;
	op->contains.min = min != NULL ? count_of(min) : 1;
	op->contains.max = max != NULL ? count_of(max) : UINT64_MAX;
	return true;
}

static bool make_branch(struct maker *m, const struct keyword *k)
{
	uint32_t node = child_of(m, "if"), yes = child_of(m, "then"), no = child_of(m, "else");
	struct op *op = op_add(m, k);

	op->branch.node = node;
	op->branch.yes = yes;
	op->branch.no = no;
	return true;
}

static bool make_reference(struct maker *m, const struct keyword *k)
{
	uint32_t dynamic,
		node = scan_reference(
			m->c, m->node, k->name, json_string_value(value_of(m, k->name)), &dynamic);
	struct op *op;

	if (node == NONE)
		return false;
	op = op_add(m, k);
	op->ref.node = node;
	op->ref.dynamic = k->kind == OP_DYNAMIC_REF ? dynamic : NONE;
	return true;
}

/* ---- all ops ---- */

static bool make_pattern(struct maker *m, const struct keyword *k, const json_t *value)
{
	struct regex *r = pattern_new(m, k->name, json_string_value(value), json_string_length(value));
	struct op *op;

	if (r == NULL)
		return false;
	op = op_add(m, k);
	op->pattern.regex = r;
	op->pattern.source = json_string_value(value);
	return true;
}

static void make_format(struct maker *m, const struct keyword *k, const json_t *value)
{
	format_fn *fn = format_find(json_string_value(value));

	if (fn == NULL || !(m->assert_formats || m->vocabulary & V_FORMAT_ASSERTION))
		return;
	op_add(m, k)->format.fn = fn;
	m->js->ops[m->js->op_count - 1].format.name = json_string_value(value);
}

static void make_number(struct maker *m, const struct keyword *k, const json_t *value)
{
	struct op *op = op_add(m, k);

	op->number.value = value_number(value);
	op->number.decimal = number_decimal(op->number.value);
}

static bool make_op(struct maker *m, const struct keyword *k, const json_t *value)
{
	struct op *op;
	uint32_t child;

	switch ((enum op_kind)k->kind) {
	case OP_TYPE: op_add(m, k)->count = type_mask(value); return true;
	case OP_CONST:
	case OP_ENUM: op_add(m, k)->json = value; return true;
	case OP_MINIMUM:
	case OP_MAXIMUM:
	case OP_ABOVE:
	case OP_BELOW:
	case OP_MULTIPLE: make_number(m, k, value); return true;
	case OP_MIN_LENGTH:
	case OP_MAX_LENGTH:
	case OP_MIN_ITEMS:
	case OP_MAX_ITEMS:
	case OP_MIN_PROPERTIES:
	case OP_MAX_PROPERTIES: op_add(m, k)->count = count_of(value); return true;
	case OP_PATTERN: return make_pattern(m, k, value);
	case OP_FORMAT: make_format(m, k, value); return true;
	case OP_UNIQUE:
		if (json_is_true(value))
			op_add(m, k);
		return true;
	case OP_REQUIRED:
		if (is_in_members(m))
			return true;
		op = op_add(m, k);
		op->required.names = names_new(value);
		op->required.count = (uint32_t)json_array_size(value);
		return true;
	case OP_DEPENDENT_REQUIRED:
	case OP_DEPENDENT_SCHEMAS: return make_dependents(m, k);
	case OP_MEMBERS: return make_members(m, k);
	case OP_ITEMS: return make_items(m, k);
	case OP_CONTAINS: return make_contains(m, k);
	case OP_REF:
	case OP_DYNAMIC_REF: return make_reference(m, k);
	case OP_ALL_OF:
	case OP_ANY_OF:
	case OP_ONE_OF: return make_list(m, k);
	case OP_IF: return make_branch(m, k);
	case OP_PROPERTY_NAMES:
	case OP_NOT:
	case OP_UNEVALUATED_ITEMS:
	case OP_UNEVALUATED_PROPERTIES:
		child = child_of(m, k->name);
		op_add(m, k)->node = child;
		return true;
	case OP_NONE: break;
	}
	return true;
}

static bool make_node(struct maker *m)
{
	struct source s = scan_source(m->c, m->node);

	m->schema = s.json;
	m->vocabulary = s.vocabulary;
	m->js->nodes[m->node].first_op = m->js->op_count;
	if (!json_is_object(s.json))
		return true;
	for (const struct keyword *k = jschema_keywords; k->name != NULL; k++) {
		const json_t *value = k->kind != OP_NONE ? value_of(m, k->name) : NULL;

		if (value != NULL && !make_op(m, k, value))
			return false;
	}
	if (value_of(m, "unevaluatedItems") != NULL)
		m->js->nodes[m->node].flags |= N_MARKS_ITEMS;
	if (value_of(m, "unevaluatedProperties") != NULL)
		m->js->nodes[m->node].flags |= N_MARKS_PROPERTIES;
	return true;
}

/* ---- a $ref that comes back without a step into the instance ---- */

enum { UNSEEN, OPEN, DONE };

static bool find_loop(const struct jschema *js, uint8_t *seen, uint32_t node, unsigned depth);

static bool loops_from(const struct jschema *js, uint8_t *seen, const struct op *op, unsigned depth)
{
	bool found = false;

	switch ((enum op_kind)op->kind) {
	case OP_REF: return find_loop(js, seen, op->ref.node, depth);
	case OP_NOT: return find_loop(js, seen, op->node, depth);
	case OP_IF:
		return find_loop(js, seen, op->branch.node, depth) ||
			find_loop(js, seen, op->branch.yes, depth) ||
			find_loop(js, seen, op->branch.no, depth);
	case OP_DEPENDENT_SCHEMAS:
		for (uint32_t i = 0; i < op->dependents.count && !found; i++)
			found = find_loop(js, seen, op->dependents.list[i].node, depth);
		return found;
	case OP_ALL_OF:
	case OP_ANY_OF:
	case OP_ONE_OF:
		for (uint32_t i = 0; i < op->list.count && !found; i++)
			found = find_loop(js, seen, js->links[op->list.first + i], depth);
		return found;
	default: return false;
	}
}

/* A chain longer than max_depth is no loop, but ends at the same bound. */
static bool find_loop(const struct jschema *js, uint8_t *seen, uint32_t node, unsigned depth)
{
	const struct node *n;
	bool found = false;

	if (node == NONE || seen[node] == DONE)
		return false;
	if (seen[node] == OPEN || depth > JSCHEMA_MAX_DEPTH)
		return true;
	seen[node] = OPEN;
	n = &js->nodes[node];
	for (uint32_t i = 0; i < n->op_count && !found; i++)
		found = loops_from(js, seen, &js->ops[n->first_op + i], depth + 1);
	seen[node] = DONE;
	return found;
}

static bool refuse_loops(struct compiler *c, const struct jschema *js)
{
	uint8_t *seen = xcalloc(js->node_count, 1);
	uint32_t node = 0;

	while (node < js->node_count && !find_loop(js, seen, node, 0))
		node++;
	free(seen);
	return node == js->node_count ||
		scan_refuse(c, node, NULL,
			"leads back to itself (or through more than %d schemas) without a step into the "
			"instance",
			JSCHEMA_MAX_DEPTH);
}

/* References append nodes, which this loop reaches later. */
bool compile_all(struct compiler *c, struct jschema *js, bool assert_formats)
{
	struct maker m = {.c = c, .js = js, .assert_formats = assert_formats};

	for (; m.node < js->node_count; m.node++)
		if (!make_node(&m))
			return false;
	scan_finish(c);
	return refuse_loops(c, js);
}
