/* SPDX-License-Identifier: MIT */
/* capability.c: declaration files.
 * Owns what a declaration must have, and what it becomes: compiled schemas, risk model, envelope. Never
 * decides about a task (gate.c), never starts the command. declaration.c writes the sentences. */
#include "policy/capability.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "json/canonical.h"
#include "json/text.h"
#include "base/io.h"
#include "policy/declaration.h"
#include "base/duration.h"
#include "policy/envelope.h"
#include "jschema/jschema.h"
#include "policy/risk.h"
#include "base/semver.h"
#include "base/shellwords.h"

#define FILE_MAX (1 << 20)

/* Members that a file may have for people and catalogues; they are never read. */
#define DESCRIPTIVE \
	"title", "summary", "tags", "keywords", "labels", "category", "examples", "metadata", "author", \
		"authors", "contact", "license", "homepage", "documentation", "deprecated", "$schema", \
		"$id", "$comment", "comment"

/* --- the three parts --- */

static char *read_text(
	struct declaration *d, const struct declared *object, const char *name, const char *form)
{
	struct declared v = declared_member(object, name);

	return declared_is_text(d, &v, form) ? xstrdup(json_string_value(v.value)) : NULL;
}

static struct jschema *read_schema(struct declaration *d, const struct declared *object, const char *name)
{
	struct declared v = declared_member(object, name);
	char why[JSCHEMA_WHY_SIZE];
	struct jschema *schema;

	if (!json_is_object(v.value) && !json_is_boolean(v.value)) {
		declared_complain_kind(d, &v, "a JSON Schema, {} for anything");
		return NULL;
	}
	schema = jschema_compile(v.value, NULL, why, sizeof(why));
	if (!schema)
		declaration_complain_inside(d, &v, why);
	return schema;
}

static void read_names(struct declaration *d, const struct declared *object, struct capability *c)
{
	static const char *const members[] = {"name", "version", "description", "input_schema",
		"output_schema", "state_schema", "safety", "constraints", DESCRIPTIVE, NULL};
	static const char version_form[] = "a semantic version like 1.0.0";
	struct declared name = declared_member(object, "name"), version = declared_member(object, "version");

	declared_only_or_own(d, object, members);
	c->name = read_text(d, object, "name", "the section's name");
	if (c->name && strcmp(c->name, c->config->name) != 0)
		declaration_complain(d, &name,
			"is \"%.128s\", but the section is [capability %s]; make them the same", c->name,
			c->config->name);
	c->version = read_text(d, object, "version", version_form);
	if (c->version && !semver_is_version(c->version))
		declaration_complain(d, &version, "is \"%.64s\"; write %s", c->version, version_form);
	c->description = read_text(d, object, "description", "what it does, in a sentence");
	c->input_schema = read_schema(d, object, "input_schema");
	c->output_schema = read_schema(d, object, "output_schema");
	if (declared_member(object, "state_schema").value)
		c->state_schema = read_schema(d, object, "state_schema");
}

static bool read_bool(struct declaration *d, const struct declared *safety, const char *name)
{
	struct declared v = declared_member(safety, name);

	if (!json_is_boolean(v.value))
		declared_complain_kind(d, &v, "true or false");
	return json_is_true(v.value);
}

/* NULL-terminated, also after a complaint. */
static char **read_strings(struct declaration *d, const struct declared *safety, const char *name)
{
	struct declared v = declared_member(safety, name);
	char **strings = xcalloc(json_array_size(v.value) + 1, sizeof(*strings));
	size_t count = 0;

	if (v.value && declared_is_array(d, &v, "an array of strings"))
		for (size_t i = 0; i < json_array_size(v.value); i++) {
			struct declared item = declared_item(&v, i);

			if (json_is_string(item.value))
				strings[count++] = xstrdup(json_string_value(item.value));
			else
				declared_complain_kind(d, &item, "a string");
		}
	return strings;
}

static void read_safety(struct declaration *d, const struct declared *object, struct capability *c)
{
	static const char *const members[] = {"risk_ceiling", "risk_floor", "rules", "context", "envelope",
		"requires_human_approval", "involves_physical_resources", "resource_types",
		"hazard_categories", NULL};
	struct declared safety = declared_member(object, "safety"),
			ceiling = declared_member(&safety, "risk_ceiling"),
			envelope = declared_member(&safety, "envelope");

	if (!declared_is_object(d, &safety,
		    "an object with risk_ceiling, requires_human_approval and involves_physical_resources"))
		return;
	declared_only(d, &safety, members);
	c->risk_ceiling = declared_risk(d, &ceiling);
	c->risk = risk_model_read(d, &safety, c->risk_ceiling);
	c->requires_human_approval = read_bool(d, &safety, "requires_human_approval");
	c->involves_physical_resources = read_bool(d, &safety, "involves_physical_resources");
	c->resource_types = read_strings(d, &safety, "resource_types");
	shellwords_free(read_strings(d, &safety, "hazard_categories"));
	c->envelope = envelope_read(d, &envelope);
}

static void read_constraints(struct declaration *d, const struct declared *object, struct capability *c)
{
	static const char *const members[] = {"max_duration", "concurrent_limit", NULL};
	static const char duration_form[] = "an ISO 8601 duration above zero, like \"PT1H\"";
	struct declared constraints = declared_member(object, "constraints"),
			duration = declared_member(&constraints, "max_duration"),
			limit = declared_member(&constraints, "concurrent_limit");

	if (!constraints.value || !declared_is_object(d, &constraints, "an object"))
		return;
	declared_only(d, &constraints, members);
	if (duration.value && declared_is_text(d, &duration, duration_form) &&
		(!duration_parse_iso(json_string_value(duration.value), &c->max_duration_us) ||
			c->max_duration_us == 0))
		declaration_complain(d, &duration, "is \"%.40s\"; write %s",
			json_string_value(duration.value), duration_form);
	if (limit.value && !json_is_integer(limit.value))
		declared_complain_kind(d, &limit, "a whole number from 1 on");
	else if (limit.value &&
		(json_integer_value(limit.value) < 1 || json_integer_value(limit.value) > INT_MAX))
		declaration_complain(d, &limit, "is %" JSON_INTEGER_FORMAT "; write a whole number from 1 on",
			json_integer_value(limit.value));
	else if (limit.value)
		c->concurrent_limit = (int)json_integer_value(limit.value);
}

/* --- the file --- */

static void __attribute__((format(printf, 2, 3)))
complain_of_file(struct declaration *d, const char *fmt, ...)
{
	char text[512];
	struct buf b = {0};
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_addf(&b, "%s:%s", d->path, text);
	d->errors++;
	d->say(d->ctx, true, buf_text(&b));
	buf_fini(&b);
}

static json_t *read_file(struct declaration *d, char sha256[CANONICAL_HASH_SIZE])
{
	struct buf text = {0};
	struct stat st;
	json_error_t error;
	json_t *root = NULL;

	if (io_read_file(d->path, FILE_MAX, &text, &st) < 0) {
		complain_of_file(d, " cannot be read: %s; name the declaration's file",
			errno == EFBIG ? "it is over 1 MiB" : strerror(errno));
	} else {
		canonical_hash_bytes(text.data, text.size, sha256);
		root = jtext_load(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
		if (!root)
			complain_of_file(d, "%d:%d: %s", error.line, error.column, error.text);
	}
	buf_fini(&text);
	return root;
}

/* Checks members beside `capability`: a protection that stands there by mistake would protect nothing. */
static void check_outside(struct declaration *d, const struct declared *root)
{
	static const char *const members[] = {"input_schema", "output_schema", "state_schema", "safety",
		"constraints", "capability", "name", "version", DESCRIPTIVE, NULL};

	declared_only_or_own(d, root, members);
	for (size_t i = 0; strcmp(members[i], "capability") != 0; i++) {
		struct declared v = declared_member(root, members[i]);

		if (v.value)
			declaration_complain(d, &v, "stands outside of capability; move it into that");
	}
}

struct capability *capability_load(const struct config_capability *cc, config_say_fn *say, void *ctx)
{
	struct declaration d = {.path = cc->declaration, .say = say, .ctx = ctx};
	struct capability *c = xcalloc(1, sizeof(*c));
	struct declared root = {.value = read_file(&d, c->sha256)},
			object = declared_member(&root, "capability");

	c->config = cc;
	if (root.value && declared_is_object(&d, &object, "{\"capability\": {...}}")) {
		check_outside(&d, &root);
		read_names(&d, &object, c);
		read_safety(&d, &object, c);
		read_constraints(&d, &object, c);
	}
	json_decref((json_t *)(uintptr_t)root.value);
	if (d.errors > 0) {
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
	jschema_free(c->input_schema);
	jschema_free(c->output_schema);
	jschema_free(c->state_schema);
	risk_model_free(c->risk);
	envelope_free(c->envelope);
	shellwords_free(c->resource_types);
	free(c);
}

bool capability_uses(const struct capability *c, const char *resource)
{
	for (char **name = c->resource_types; name && *name; name++)
		if (strcmp(*name, resource) == 0)
			return true;
	return false;
}

/* --- the command --- */

static bool is_program(const char *path)
{
	struct stat st;

	if (access(path, X_OK) < 0 || stat(path, &st) < 0)
		return false;
	if (S_ISREG(st.st_mode))
		return true;
	errno = EACCES; /* a directory has the x bit, too */
	return false;
}

static const char *find_path(char *const *env)
{
	const char *path;

	for (char *const *var = env; var && *var; var++)
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
			name); /* an empty part means . */
		found = is_program(buf_text(&b));
		if (path[size] == '\0')
			break;
		path += size + 1;
	}
	buf_fini(&b);
	return found;
}

/* NULL: the program can be run now; else why not. */
static const char *find_fault(const char *program, char *const *env)
{
	if (strchr(program, '/'))
		return is_program(program) ? NULL : strerror(errno);
	return is_in_path(program, find_path(env)) ? NULL : "it is not in PATH";
}

bool capability_has_command(const struct config_capability *cc, char *why, size_t why_size)
{
	const char *fault = find_fault(cc->command[0], cc->env);

	if (fault)
		snprintf(why, why_size, "command %.160s cannot be run now: %s", cc->command[0], fault);
	return !fault;
}

static void check_migration(
	const struct config_capability *cc, const char *program, config_say_fn *say, void *ctx)
{
	const char *fault = find_fault(program, cc->env);
	struct buf b = {0};

	if (fault) {
		buf_addf(&b,
			"%s:%d: [capability %s] migrate %s cannot be run now: %s; sessions whose state is of "
			"another version will fail until it can",
			cc->path, cc->line, cc->name, program, fault);
		say(ctx, false, buf_text(&b));
	}
	buf_fini(&b);
}

void capability_check_command(const struct config_capability *cc, config_say_fn *say, void *ctx)
{
	struct buf b = {0};
	char why[256];

	if (!capability_has_command(cc, why, sizeof why)) {
		buf_addf(&b, "%s:%d: [capability %s] %s; its tasks will fail until it can", cc->path,
			cc->line, cc->name, why);
		say(ctx, false, buf_text(&b));
	}
	buf_fini(&b);
	if (cc->migrate)
		check_migration(cc, cc->migrate[0], say, ctx);
	for (size_t i = 0; i < cc->migration_count; i++)
		check_migration(cc, cc->migrations[i].command[0], say, ctx);
}

void capability_check_policy(const struct config *c, config_say_fn *say, void *ctx)
{
	const char *why = c->policy_command ? find_fault(c->policy_command[0], NULL) : NULL;
	struct buf b = {0};

	if (!why)
		return;
	buf_addf(&b,
		"%s:%d: [policy] command %s cannot be run now: %s; every task will be denied until it can",
		c->path, c->policy_line, c->policy_command[0], why);
	say(ctx, false, buf_text(&b));
	buf_fini(&b);
}
