/* SPDX-License-Identifier: MIT */
/* fuzz_capability.c: a declaration file. Input: the file of the capability `echo`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/capability.h"
#include "files.h"
#include "fuzz.h"
#include "base/semver.h"
#include "json/text.h"

#define PATH FILES_DIR "/echo.json"

struct said {
	int errors, positions;
};

static void say(void *ctx, bool is_error, const char *text)
{
	struct said *s = ctx;
	int line, column;

	MUST(strncmp(text, PATH ":", sizeof PATH) == 0 && strlen(text) < 4096);
	s->errors += is_error;
	if (sscanf(text, PATH ":%d:%d: ", &line, &column) == 2) {
		MUST(line >= -1 && column >= -1);
		s->positions++;
	}
}

static const char *string_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* What was accepted says what the file says. */
static void check(const struct capability *c, const json_t *declared)
{
	const json_t *safety = json_object_get(declared, "safety"),
		     *constraints = json_object_get(declared, "constraints");
	const char *ceiling = string_of(safety, "risk_ceiling");

	MUST(strcmp(c->name, "echo") == 0 && strcmp(c->name, string_of(declared, "name")) == 0);
	MUST(semver_is_version(c->version) && strcmp(c->version, string_of(declared, "version")) == 0);
	MUST(*c->description != '\0');
	MUST(c->risk_ceiling >= R1 && c->risk_ceiling <= R5 && ceiling[1] == '0' + (char)c->risk_ceiling);
	MUST(json_is_boolean(json_object_get(safety, "requires_human_approval")));
	MUST(c->requires_human_approval == json_is_true(json_object_get(safety, "requires_human_approval")));
	MUST(c->involves_physical_resources ==
		json_is_true(json_object_get(safety, "involves_physical_resources")));
	MUST((c->max_duration_us > 0) == (json_object_get(constraints, "max_duration") != NULL));
	MUST(c->concurrent_limit == json_integer_value(json_object_get(constraints, "concurrent_limit")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char declaration[] = PATH, name[] = "echo";
	struct config_capability cc = {.name = name, .declaration = declaration};
	struct said s = {0};
	struct capability *c;
	json_t *root = jtext_load((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

	files_clear();
	files_add("echo.json", data, size, 0644);
	c = capability_load(&cc, say, &s);
	MUST((c == NULL) == (s.errors > 0));
	if (root == NULL) /* one message, with the place */
		MUST(s.errors == 1 && s.positions == 1);
	else
		MUST(s.positions == 0);
	if (c != NULL)
		check(c, json_object_get(root, "capability"));
	capability_free(c);
	json_decref(root);
	return 0;
}
