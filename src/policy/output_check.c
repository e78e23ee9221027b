/* SPDX-License-Identifier: MIT */
/* output_check.c: checks outputs against what was promised.
 * Owns the order of the checks and the sentence for each. Never ends a session (worker_messages.c). */
#include "policy/output_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/pointer.h"
#include "jschema/jschema.h"

#define STEPS_MAX 1000000 /* limit for a caller's schema: about 20 ms, since the main loop waits */
#define MISSING_MAX 16    /* missing fields that are named */

struct output_check {
	json_t *fields;         /* NULL: none */
	struct jschema *schema; /* NULL: none */
};

struct output_check *output_check_new(const json_t *expected, char *why, size_t why_size)
{
	const struct jschema_options options = {.max_steps = STEPS_MAX};
	const json_t *schema = json_object_get(expected, "schema");
	struct output_check *e = xcalloc(1, sizeof *e);

	e->fields = json_incref(json_object_get(expected, "required_fields"));
	if (schema == NULL || json_is_null(schema))
		return e;
	if ((e->schema = jschema_compile(schema, &options, why, why_size)) != NULL)
		return e;
	output_check_free(e);
	return NULL;
}

void output_check_free(struct output_check *e)
{
	if (e == NULL)
		return;
	json_decref(e->fields);
	jschema_free(e->schema);
	free(e);
}

void output_failure_fini(struct output_failure *f)
{
	buf_fini(&f->missing);
}

/* Is the field there? A member of the outputs; or, where it begins with /, a pointer into them. */
static bool is_there(const json_t *outputs, const char *field, size_t size)
{
	struct jpoint *p;
	bool found;

	if (json_object_getn(outputs, field, size) != NULL)
		return true;
	if (field[0] != '/' || (p = jpoint_new(field, size)) == NULL)
		return false;
	found = jpoint_get(p, outputs) != NULL;
	jpoint_free(p);
	return found;
}

/* Appends a name as a step of a JSON pointer. */
static void add_step(struct buf *b, const char *name, size_t size)
{
	buf_add_text(b, "/");
	for (size_t i = 0; i < size; i++)
		if (name[i] == '~' || name[i] == '/')
			buf_add_text(b, name[i] == '~' ? "~0" : "~1");
		else
			buf_add(b, name + i, 1);
}

static void add_missing(struct output_failure *f, const char *pointer, size_t size)
{
	if (f->missing.size > 0)
		buf_add_text(&f->missing, ",");
	buf_add_json(&f->missing, pointer, buf_utf8_cut(pointer, size, 250));
}

static bool has_fields(const struct output_check *e, const json_t *outputs, struct output_failure *f)
{
	struct buf pointer = {0}, list = {0};
	size_t i, count = 0;
	json_t *field;

	json_array_foreach(e->fields, i, field) {
		const char *name = json_string_value(field);
		size_t size = json_string_length(field);

		if (name == NULL || is_there(outputs, name, size) || ++count > MISSING_MAX)
			continue;
		buf_clear(&pointer);
		if (name[0] == '/')
			buf_add(&pointer, name, size);
		else
			add_step(&pointer, name, size);
		add_missing(f, pointer.data, pointer.size);
		buf_addf(&list, "%s%.*s", list.size > 0 ? ", " : "",
			(int)buf_utf8_cut(pointer.data, pointer.size, 80), pointer.data);
	}
	if (count > 0) {
		f->against = "expected_output.required_fields";
		snprintf(f->message, sizeof f->message, "the outputs lack %.*s%s",
			(int)buf_utf8_cut(buf_text(&list), list.size, 700), buf_text(&list),
			count > MISSING_MAX ? " and more" : "");
	}
	buf_fini(&pointer);
	buf_fini(&list);
	return count == 0;
}

static bool fits(
	const struct jschema *schema, const char *against, const json_t *outputs, struct output_failure *f)
{
	struct jschema_failure why;
	struct buf pointer = {0};

	if (schema == NULL || jschema_check(schema, outputs, &why))
		return true;
	f->against = against;
	if (strcmp(why.keyword, "required") == 0 && why.property[0] != '\0') {
		buf_add_text(&pointer, why.instance);
		add_step(&pointer, why.property, strlen(why.property));
		add_missing(f, pointer.data, pointer.size);
		snprintf(f->message, sizeof f->message, "the outputs lack %s, which %s requires",
			buf_text(&pointer), against);
	} else {
		snprintf(f->message, sizeof f->message, "the outputs do not fit %s: %.560s (at \"%s\")",
			against, why.message, why.instance);
	}
	buf_fini(&pointer);
	return false;
}

bool output_check_run(const struct output_check *e, const struct jschema *output_schema,
	const json_t *outputs, struct output_failure *f)
{
	f->against = "";
	f->message[0] = '\0';
	f->missing = (struct buf){0};
	if (e != NULL &&
		(!has_fields(e, outputs, f) || !fits(e->schema, "expected_output.schema", outputs, f)))
		return false;
	return fits(output_schema, "the capability's output_schema", outputs, f);
}
