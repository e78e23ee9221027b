/* SPDX-License-Identifier: MIT */
/* jschema.c: makes and frees a compiled schema; jschema_check is in match.c.
 * Owns what a compiled schema holds. Never changes it after jschema_compile. */
#include <stdio.h>
#include <stdlib.h>

#include "jschema/jschema_private.h"

static bool is_too_deep(const json_t *v, unsigned left)
{
	json_t *o = (json_t *)(uintptr_t)v;

	if (left == 0)
		return true;
	for (size_t i = 0; i < json_array_size(v); i++)
		if (is_too_deep(json_array_get(v, i), left - 1))
			return true;
	for (void *i = json_object_iter(o); i != NULL; i = json_object_iter_next(o, i))
		if (is_too_deep(json_object_iter_value(i), left - 1))
			return true;
	return false;
}

struct jschema *jschema_compile(
	const json_t *schema, const struct jschema_options *options, char *why, size_t why_size)
{
	static const struct jschema_options usual;
	const struct jschema_options *o = options != NULL ? options : &usual;
	struct jschema *js;
	struct compiler *c;
	bool ok;

	*why = '\0';
	if (is_too_deep(schema, 2 * JSCHEMA_MAX_NESTING)) {
		snprintf(why, why_size, "the schema: nested too deeply");
		return NULL;
	}
	js = xcalloc(1, sizeof *js);
	c = scan_new(js, o, why, why_size);
	js->max_depth =
		o->max_depth > 0 && o->max_depth < JSCHEMA_MAX_DEPTH ? o->max_depth : JSCHEMA_MAX_DEPTH;
	js->max_steps = o->max_steps > 0 ? o->max_steps : JSCHEMA_MAX_STEPS;
	ok = scan_root(c, schema) && compile_all(c, js, o->assert_formats);
	scan_free(c);
	if (ok)
		return js;
	jschema_free(js);
	return NULL;
}

static void op_fini(struct op *op)
{
	struct members *t = op->members;

	if (op->kind == OP_PATTERN)
		regex_free(op->pattern.regex);
	if (op->kind == OP_REQUIRED)
		free(op->required.names);
	if (op->kind == OP_DEPENDENT_REQUIRED || op->kind == OP_DEPENDENT_SCHEMAS) {
		for (uint32_t i = 0; i < op->dependents.count; i++)
			free(op->dependents.list[i].required);
		free(op->dependents.list);
	}
	if (op->kind != OP_MEMBERS)
		return;
	for (uint32_t i = 0; i < t->pattern_count; i++)
		regex_free(t->patterns[i].regex);
	free(t->patterns);
	free(t->table);
	free(t);
}

void jschema_free(struct jschema *js)
{
	if (js == NULL)
		return;
	for (uint32_t i = 0; i < js->op_count; i++)
		op_fini(&js->ops[i]);
	for (uint32_t i = 0; i < js->document_count; i++) {
		json_decref(js->documents[i].json);
		free(js->documents[i].uri);
	}
	free(js->documents);
	free(js->nodes);
	free(js->ops);
	free(js->links);
	free(js->dynamic);
	free(js->texts);
	free(js);
}
