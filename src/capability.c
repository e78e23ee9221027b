/* capability.c: declaration files.
 * Owns what a declaration must have, and the sentence that says what it lacks.
 * Never validates a task against the schemas (schema checks are the gate's), never starts the command. */
#include "capability.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "config_table.h"
#include "duration.h"
#include "semver.h"

#define FILE_MAX (1 << 20)

struct reader {
	const char *path;
	config_say_fn *say;
	void *ctx;
	int errors;
};

static void __attribute__((format(printf, 2, 3))) complain(struct reader *r, const char *fmt, ...)
{
	char text[1024];
	struct buf b = {0};
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_addf(&b, "%s:%s", r->path, text);
	r->say(r->ctx, true, buf_text(&b));
	r->errors++;
	buf_fini(&b);
}

/* --- members, each with its path for the message: "safety", "risk_ceiling" --- */

static const char *kind_of(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_REAL:
		return "a real number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		return "null";
	}
	return "something else";
}

/* NULL where it is not there; complains if it should be. parent is "" or "safety." and the like. */
static json_t *find(struct reader *r, const json_t *object, const char *parent, const char *name,
	bool is_required, const char *form)
{
	json_t *value = json_object_get(object, name);

	if (!value && is_required)
		complain(r, " capability.%s%s: is missing; write %s", parent, name, form);
	return value;
}

static void complain_of_kind(
	struct reader *r, const char *parent, const char *name, const json_t *value, const char *form)
{
	complain(r, " capability.%s%s: is %s; write %s", parent, name, kind_of(value), form);
}

static char *read_text(struct reader *r, const json_t *object, const char *name, const char *form)
{
	const json_t *value = find(r, object, "", name, true, form);

	if (!value)
		return NULL;
	if (!json_is_string(value) || json_string_length(value) == 0) {
		if (json_is_string(value))
			complain(r, " capability.%s: is empty; write %s", name, form);
		else
			complain_of_kind(r, "", name, value, form);
		return NULL;
	}
	return xstrdup(json_string_value(value));
}

static bool read_bool(struct reader *r, const json_t *object, const char *parent, const char *name)
{
	const json_t *value = find(r, object, parent, name, true, "true or false");

	if (value && !json_is_boolean(value))
		complain_of_kind(r, parent, name, value, "true or false");
	return json_is_true(value);
}

static enum risk read_risk(struct reader *r, const json_t *object, const char *name, bool is_required)
{
	static const char form[] = "\"R1\" to \"R5\"";
	const json_t *value = find(r, object, "safety.", name, is_required, form);
	const char *text = json_string_value(value);

	if (!value)
		return R_NONE;
	if (!text) {
		complain_of_kind(r, "safety.", name, value, form);
		return R_NONE;
	}
	if (text[0] != 'R' || text[1] < '1' || text[1] > '5' || text[2] != '\0') {
		complain(r, " capability.safety.%s: is \"%.20s\"; write %s", name, text, form);
		return R_NONE;
	}
	return (enum risk)(text[1] - '0');
}

static void check_strings(struct reader *r, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name), *item;
	size_t i;

	if (!value)
		return;
	if (!json_is_array(value)) {
		complain_of_kind(r, "safety.", name, value, "an array of strings");
		return;
	}
	json_array_foreach(value, i, item) if (!json_is_string(item))
		complain(r, " capability.safety.%s[%zu]: is %s; write a string", name, i, kind_of(item));
}

/* A JSON Schema is an object, or true or false. */
static void check_schema(struct reader *r, const json_t *object, const char *name)
{
	static const char form[] = "a JSON Schema, {} for anything";
	const json_t *value = find(r, object, "", name, true, form);

	if (value && !json_is_object(value) && !json_is_boolean(value))
		complain_of_kind(r, "", name, value, form);
}

/* --- the three parts --- */

static void read_names(struct reader *r, const json_t *object, struct capability *c)
{
	c->name = read_text(r, object, "name", "the section's name");
	if (c->name && strcmp(c->name, c->config->name) != 0)
		complain(r,
			" capability.name: is \"%.128s\", but the section is [capability %s]; make them the "
			"same",
			c->name, c->config->name);
	c->version = read_text(r, object, "version", "a semantic version like 1.0.0");
	if (c->version && !semver_is_version(c->version))
		complain(r, " capability.version: is \"%.64s\"; write a semantic version like 1.0.0",
			c->version);
	c->description = read_text(r, object, "description", "what it does, in a sentence");
	check_schema(r, object, "input_schema");
	check_schema(r, object, "output_schema");
}

static void read_safety(struct reader *r, const json_t *object, struct capability *c)
{
	static const char form[] =
		"an object with risk_ceiling, requires_human_approval and involves_physical_resources";
	const json_t *safety = find(r, object, "", "safety", true, form), *envelope;
	enum risk floor;

	if (!safety)
		return;
	if (!json_is_object(safety)) {
		complain_of_kind(r, "", "safety", safety, form);
		return;
	}
	c->risk_ceiling = read_risk(r, safety, "risk_ceiling", true);
	floor = read_risk(r, safety, "risk_floor", false);
	if (c->risk_ceiling != R_NONE && floor > c->risk_ceiling)
		complain(r, " capability.safety.risk_floor: is above risk_ceiling; lower it");
	c->requires_human_approval = read_bool(r, safety, "safety.", "requires_human_approval");
	c->involves_physical_resources = read_bool(r, safety, "safety.", "involves_physical_resources");
	check_strings(r, safety, "resource_types");
	check_strings(r, safety, "hazard_categories");
	envelope = json_object_get(safety, "envelope");
	if (envelope && !json_is_object(envelope))
		complain_of_kind(r, "safety.", "envelope", envelope, "an object");
}

static void read_constraints(struct reader *r, const json_t *object, struct capability *c)
{
	static const char duration_form[] = "an ISO 8601 duration above zero, like \"PT1H\"";
	const json_t *constraints = json_object_get(object, "constraints"), *value;

	if (!constraints)
		return;
	if (!json_is_object(constraints)) {
		complain_of_kind(r, "", "constraints", constraints, "an object");
		return;
	}
	value = json_object_get(constraints, "max_duration");
	if (value && !json_is_string(value))
		complain_of_kind(r, "constraints.", "max_duration", value, duration_form);
	else if (value && (!duration_parse_iso(json_string_value(value), &c->max_duration_us) ||
				  c->max_duration_us == 0))
		complain(r, " capability.constraints.max_duration: is \"%.40s\"; write %s",
			json_string_value(value), duration_form);
	value = json_object_get(constraints, "concurrent_limit");
	if (value && !json_is_integer(value))
		complain_of_kind(r, "constraints.", "concurrent_limit", value, "a whole number from 1 on");
	else if (value && (json_integer_value(value) < 1 || json_integer_value(value) > INT_MAX))
		complain(r,
			" capability.constraints.concurrent_limit: is %" JSON_INTEGER_FORMAT
			"; write a whole number from 1 on",
			json_integer_value(value));
	else if (value)
		c->concurrent_limit = (int)json_integer_value(value);
}

/* --- the file --- */

static json_t *read_file(struct reader *r)
{
	struct buf text = {0};
	struct stat st;
	json_error_t error;
	json_t *root = NULL;

	if (config_read_file(r->path, FILE_MAX, &text, &st) < 0) {
		complain(r, " cannot be read: %s; name the declaration's file",
			errno == EFBIG ? "it is over 1 MiB" : strerror(errno));
	} else {
		root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
		if (!root)
			complain(r, "%d:%d: %s", error.line, error.column, error.text);
	}
	buf_fini(&text);
	return root;
}

struct capability *capability_load(const struct config_capability *cc, config_say_fn *say, void *ctx)
{
	struct reader r = {.path = cc->declaration, .say = say, .ctx = ctx};
	struct capability *c = xcalloc(1, sizeof(*c));
	json_t *root = read_file(&r);
	const json_t *object = json_object_get(root, "capability");

	c->config = cc;
	if (root && !json_is_object(object)) {
		complain(&r, " capability: is %s; write {\"capability\": {...}}",
			object ? kind_of(object) : "missing");
	} else if (root) {
		read_names(&r, object, c);
		read_safety(&r, object, c);
		read_constraints(&r, object, c);
	}
	json_decref(root);
	if (r.errors > 0) {
		capability_free(c);
		return NULL;
	}
	return c;
}

void capability_free(struct capability *c)
{
	if (!c)
		return;
	free(c->name);
	free(c->version);
	free(c->description);
	free(c);
}

/* --- the command --- */

static bool is_program(const char *path)
{
	struct stat st;

	if (access(path, X_OK) < 0 || stat(path, &st) < 0)
		return false;
	if (S_ISREG(st.st_mode))
		return true;
	errno = EACCES; /* a directory is executable too, in its way */
	return false;
}

static const char *find_path(const struct config_capability *cc)
{
	const char *path;

	for (char **var = cc->env; var && *var; var++)
		if (strncmp(*var, "PATH=", 5) == 0)
			return *var + 5;
	path = getenv("PATH");
	return path ? path : "/usr/local/bin:/usr/bin:/bin";
}

static bool is_in_path(const char *name, const char *path)
{
	struct buf b = {0};
	bool found = false;

	while (!found) {
		size_t size = strcspn(path, ":");

		buf_clear(&b);
		buf_addf(&b, "%.*s/%s", size ? (int)size : 1, size ? path : ".",
			name); /* an empty part is . */
		found = is_program(buf_text(&b));
		if (path[size] == '\0')
			break;
		path += size + 1;
	}
	buf_fini(&b);
	return found;
}

void capability_check_command(const struct config_capability *cc, config_say_fn *say, void *ctx)
{
	const char *program = cc->command[0], *why = "it is not in PATH";
	struct buf b = {0};

	if (strchr(program, '/')) {
		if (is_program(program))
			return;
		why = strerror(errno);
	} else if (is_in_path(program, find_path(cc))) {
		return;
	}
	buf_addf(&b,
		"%s:%d: [capability %s] command %s cannot be run now: %s; its tasks will fail until it can",
		cc->path, cc->line, cc->name, program, why);
	say(ctx, false, buf_text(&b));
	buf_fini(&b);
}
