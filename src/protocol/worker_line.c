/* SPDX-License-Identifier: MIT */
/* worker_line.c: the lines of a worker, as tables.
 * Owns the names and types of their fields. Never knows what a line does to a session (worker_messages.c). */
#include "protocol/worker_line.h"
#include "json/text.h"

#include <stdio.h>
#include <string.h>

enum kind { K_STRING, K_NAME, K_NUMBER, K_BOOL, K_OBJECT, K_SCALAR, K_ANY, K_LEVEL, K_STRINGS, K_COUNT };

static const char *const kind_names[K_COUNT] = {
	[K_STRING] = "a string",
	[K_NAME] = "a name",
	[K_NUMBER] = "a number",
	[K_BOOL] = "true or false",
	[K_OBJECT] = "an object",
	[K_SCALAR] = "a string or a number",
	[K_ANY] = "a value",
	[K_LEVEL] = "info, warn or error",
	[K_STRINGS] = "an array of strings",
};

struct field {
	const char *name;
	enum kind kind;
	bool required;
	const char *otherwise; /* default of the event where the worker gives no value; NULL: none */
};

#define MAX_FIELDS 6

static const struct type {
	const char *name;
	struct field fields[MAX_FIELDS]; /* ends at the first field without a name */
} types[WL_COUNT] = {
	[WL_PROGRESS] = {"progress",
		{{"stage", K_STRING, false, "\"\""}, {"percent", K_NUMBER, false, NULL},
			{"message", K_STRING, false, "\"\""}}},
	[WL_INTERMEDIATE_RESULT] = {"intermediate_result",
		{{"result_type", K_STRING, false, "\"result\""}, {"data", K_ANY, true, NULL},
			{"is_partial", K_BOOL, false, "true"}}},
	[WL_LOG] = {"log",
		{{"level", K_LEVEL, false, "\"info\""}, {"message", K_STRING, true, NULL},
			{"details", K_ANY, false, NULL}}},
	[WL_WARNING] = {"warning",
		{{"code", K_STRING, false, "\"worker_warning\""}, {"message", K_STRING, true, NULL},
			{"details", K_ANY, false, NULL}}},
	[WL_ERROR] = {"error",
		{{"code", K_STRING, false, "\"worker_error\""}, {"message", K_STRING, true, NULL},
			{"recoverable", K_BOOL, false, "true"}}},
	[WL_CHECKPOINT] = {"checkpoint",
		{{"description", K_STRING, false, NULL}, {"state", K_OBJECT, false, NULL},
			{"step", K_SCALAR, false, NULL}, {"resumable", K_BOOL, false, NULL},
			{"ref", K_SCALAR, false, NULL}, {"state_version", K_STRING, false, NULL}}},
	[WL_STEP] = {"step", {{"name", K_STRING, false, NULL}}},
	[WL_USAGE] = {"usage",
		{{"tokens_in", K_NUMBER, false, NULL}, {"tokens_out", K_NUMBER, false, NULL},
			{"cost", K_NUMBER, false, NULL}}},
	[WL_ARTIFACT] = {"artifact",
		{{"name", K_STRING, true, NULL}, {"path", K_STRING, true, NULL},
			{"mime", K_STRING, false, NULL}}},
	[WL_ACTION] = {"action",
		{{"name", K_NAME, true, NULL}, {"parameters", K_OBJECT, false, NULL},
			{"ref", K_SCALAR, false, NULL}}},
	/* harp_snapshot.c checks it strictly, by HARP's own rules */
	[WL_SNAPSHOT] = {"snapshot", {{NULL, K_ANY, false, NULL}}},
	[WL_CONTINUITY] = {"continuity",
		{{"summary", K_STRING, false, NULL}, {"decisions", K_STRINGS, false, NULL},
			{"open_questions", K_STRINGS, false, NULL}, {"next_steps", K_STRINGS, false, NULL}}},
	[WL_PAUSED] = {"paused", {{"reason", K_STRING, false, NULL}}},
	[WL_RESUMED] = {"resumed", {{NULL, K_ANY, false, NULL}}},
	[WL_COMPLETED] = {"completed", {{"outputs", K_OBJECT, false, NULL}}},
	[WL_FAILED] = {"failed",
		{{"error_code", K_STRING, false, NULL}, {"error_message", K_STRING, false, NULL},
			{"error_details", K_OBJECT, false, NULL},
			{"partial_outputs", K_OBJECT, false, NULL}}},
};

static bool is_strings(const json_t *v)
{
	const json_t *one;
	size_t i;

	json_array_foreach(v, i, one)
		if (!json_is_string(one))
			return false;
	return json_is_array(v);
}

static bool fits(const json_t *v, enum kind kind)
{
	const char *text = json_string_value(v);

	switch (kind) {
	case K_STRING: return json_is_string(v);
	case K_NAME: return text != NULL && *text != '\0' && strlen(text) == json_string_length(v);
	case K_NUMBER: return json_is_number(v);
	case K_BOOL: return json_is_boolean(v);
	case K_OBJECT: return json_is_object(v);
	case K_SCALAR: return json_is_string(v) || json_is_number(v);
	case K_LEVEL:
		return text != NULL &&
			(!strcmp(text, "info") || !strcmp(text, "warn") || !strcmp(text, "error"));
	case K_STRINGS: return is_strings(v);
	case K_ANY:
	case K_COUNT: break;
	}
	return true;
}

/* Absent and null are the same, except for fields that take any value: there null is a value. */
static const json_t *given(const json_t *root, const struct field *f)
{
	const json_t *v = json_object_get(root, f->name);

	return json_is_null(v) && f->kind != K_ANY ? NULL : v;
}

static int find_type(const json_t *root)
{
	const char *name = json_string_value(json_object_get(root, "type"));

	for (int i = 0; name != NULL && i < WL_COUNT; i++)
		if (strcmp(types[i].name, name) == 0)
			return i;
	return -1;
}

static const char *article(const struct type *t)
{
	return strchr("aeio", t->name[0]) != NULL ? "an" : "a"; /* an article for messages: "a usage" */
}

static int check_fields(const json_t *root, const struct type *t, char *why, size_t why_size)
{
	for (const struct field *f = t->fields; f < t->fields + MAX_FIELDS && f->name != NULL; f++) {
		const json_t *v = given(root, f);

		if (v == NULL && f->required) {
			snprintf(why, why_size, "%s %s line needs %s", article(t), t->name, f->name);
			return -1;
		}
		if (v != NULL && !fits(v, f->kind)) {
			snprintf(why, why_size, "%s of %s %s line is not %s", f->name, article(t), t->name,
				kind_names[f->kind]);
			return -1;
		}
	}
	return 0;
}

int worker_line_read(
	struct worker_line *l, const char *line, size_t size, int max_depth, char *why, size_t why_size)
{
	/* A tree of load.c nests no deeper than JLOAD_DEPTH_MAX. */
	json_t *plain = max_depth >= JLOAD_DEPTH_MAX ? jload_tree(line, size) : NULL;
	size_t depth = plain == NULL ? jtext_depth(line, size) : 0;
	char reason[200];
	int type;

	if (depth > (size_t)max_depth) {
		snprintf(why, why_size, "nests %zu deep, %d is allowed", depth, max_depth);
		return -1;
	}
	l->are_reals = false;
	l->root = plain;
	if (plain == NULL &&
		(l->root = jtext_parse_numbers(line, size, &l->are_reals, reason, sizeof reason)) == NULL) {
		snprintf(why, why_size, "not JSON: %s", reason);
		return -1;
	}
	if (!json_is_object(l->root)) {
		snprintf(why, why_size, "not a JSON object");
		goto bad;
	}
	if ((type = find_type(l->root)) < 0) {
		const char *name = json_string_value(json_object_get(l->root, "type"));

		if (name != NULL)
			snprintf(why, why_size, "unknown type %.64s", name);
		else
			snprintf(why, why_size, "no type");
		goto bad;
	}
	if (check_fields(l->root, &types[type], why, why_size) < 0)
		goto bad;
	l->type = (enum worker_line_type)type;
	l->text = line;
	l->size = size;
	l->member_count = 0;
	return 0;
bad:
	json_decref(l->root);
	return -1;
}

/* ---- without a tree ---- */

static const struct jload_member *find_member(const struct worker_line *l, const char *name)
{
	size_t size = strlen(name);

	for (size_t i = 0; i < l->member_count; i++)
		if (l->members[i].name_size == size && memcmp(l->members[i].name, name, size) == 0)
			return &l->members[i];
	return NULL;
}

/* Is the member the string, written without escapes? */
static bool is_text(const struct jload_member *m, const char *text)
{
	size_t size = strlen(text);

	return m->value_size == size + 2 && *m->value == '"' && memcmp(m->value + 1, text, size) == 0;
}

/* As `given`. */
static const struct jload_member *given_member(const struct worker_line *l, const struct field *f)
{
	const struct jload_member *m = find_member(l, f->name);

	return m != NULL && *m->value == 'n' && f->kind != K_ANY ? NULL : m;
}

/* As `fits`, for the kinds that the fields of an event have. */
static bool member_fits(const struct jload_member *m, enum kind kind)
{
	char c = *m->value;

	switch (kind) {
	case K_STRING: return c == '"';
	case K_NUMBER: return c == '-' || (c >= '0' && c <= '9');
	case K_BOOL: return c == 't' || c == 'f';
	case K_LEVEL: return is_text(m, "info") || is_text(m, "warn") || is_text(m, "error");
	case K_ANY: return true;
	default: return false;
	}
}

static bool members_fit(const struct worker_line *l)
{
	for (const struct field *f = types[l->type].fields; f->name != NULL; f++) {
		const struct jload_member *m = given_member(l, f);

		if (m != NULL ? !member_fits(m, f->kind) : f->required)
			return false;
	}
	return true;
}

bool worker_line_scan(struct worker_line *l, const char *line, size_t size)
{
	/* not a warning: its text is recorded, too */
	static const enum worker_line_type plain[] = {WL_PROGRESS, WL_LOG, WL_INTERMEDIATE_RESULT, WL_ERROR};
	const struct jload_member *type;

	l->root = NULL;
	l->are_reals = false;
	l->text = line;
	l->size = size;
	l->member_count = WORKER_LINE_MEMBERS;
	if (!jload_flat(line, size, l->members, &l->member_count) || (type = find_member(l, "type")) == NULL)
		return false;
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		l->type = plain[i];
		if (is_text(type, types[plain[i]].name))
			return members_fit(l);
	}
	return false;
}

/* ---- a broken line ---- */

bool worker_line_salvage(struct worker_line *l, const char *line, size_t size)
{
	const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL; /* a key twice: the last counts */
	int type;

	*l = (struct worker_line){.text = line, .size = size, .root = jtext_load(line, size, flags, NULL)};
	if ((type = find_type(l->root)) >= 0) {
		l->type = (enum worker_line_type)type;
		if (!fits(json_object_get(l->root, "ref"), K_SCALAR))
			json_object_del(l->root, "ref"); /* a ref that is no scalar cannot be sent back */
		return true;
	}
	json_decref(l->root);
	return false;
}

void worker_line_fini(struct worker_line *l)
{
	json_decref(l->root);
}

const char *worker_line_type_name(enum worker_line_type type)
{
	return types[type].name;
}

/* The field as the worker gave it, or its default. False: there is neither. */
static bool add_field(const struct worker_line *l, struct buf *b, const struct field *f, const char *before)
{
	const struct jload_member *m = l->root == NULL ? given_member(l, f) : NULL;
	const json_t *v = given(l->root, f);

	if (m == NULL && v == NULL && f->otherwise == NULL)
		return false;
	buf_add_text(b, before);
	buf_add_text(b, f->name);
	buf_add(b, "\":", 2);
	if (m != NULL)
		buf_add(b, m->value, m->value_size);
	else if (v != NULL)
		jtext_add_value(b, jtext_member(l->text, l->size, f->name), v);
	else
		buf_add_text(b, f->otherwise);
	return true;
}

void worker_line_add_data(const struct worker_line *l, struct buf *b)
{
	const struct type *t = &types[l->type];
	const char *before = "{\"";

	for (const struct field *f = t->fields; f < t->fields + MAX_FIELDS && f->name != NULL; f++)
		if (add_field(l, b, f, before))
			before = ",\"";
	buf_add_text(b, *before == '{' ? "{}" : "}");
}

const json_t *worker_line_get(const struct worker_line *l, const char *name)
{
	const json_t *v = json_object_get(l->root, name);

	return json_is_null(v) ? NULL : v;
}

void worker_line_add_raw(const struct worker_line *l, struct buf *b, const char *name, const char *otherwise)
{
	const json_t *v = worker_line_get(l, name);

	if (v == NULL)
		buf_add_text(b, otherwise);
	else
		jtext_add_value(b, jtext_member(l->text, l->size, name), v);
}

const char *worker_line_string(const struct worker_line *l, const char *name, const char *otherwise)
{
	const char *text = json_string_value(worker_line_get(l, name));

	return text != NULL ? text : otherwise;
}
