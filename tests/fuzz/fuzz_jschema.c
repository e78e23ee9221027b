/* SPDX-License-Identifier: MIT */
/* fuzz_jschema.c: a schema compiled and an instance checked. Input: the schema on the first line, the
 * instance behind it; without an instance the schema is checked against itself. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "jschema/jschema.h"
#include "json/text.h"

#define META "{\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"}"

static json_t *parse(const char *text, size_t size)
{
	char why[256];

	return jtext_depth(text, size) < 300 ? jtext_parse(text, size, why, sizeof why) : NULL;
}

static struct jschema *compile(json_t *schema, const struct jschema_options *o)
{
	char why[JSCHEMA_WHY_SIZE];
	struct jschema *js = jschema_compile(schema, o, why, sizeof why);

	MUST(js != NULL ||
		(*why != '\0' && fuzz_is_plain(why, strlen(why), "") && fuzz_is_utf8(why, strlen(why))));
	return js;
}

/* A value is itself, is in the list of itself, and is not two different ones. Takes the schema. */
static void must_be(json_t *schema, const json_t *instance, bool is_valid)
{
	struct jschema *js = compile(schema, NULL);
	struct jschema_failure f;
	bool ok = js != NULL && jschema_check(js, instance, &f);

	MUST(js == NULL || ok == is_valid || (!ok && f.is_limit));
	jschema_free(js);
	json_decref(schema);
}

static void check_equality(json_t *v)
{
	json_t *twice = json_pack("[O, O]", v, v), *text = json_array();

	must_be(json_pack("{s:O}", "const", v), v, true);
	must_be(json_pack("{s:[s, O]}", "enum", "another", v), v, true);
	must_be(json_pack("{s:b}", "uniqueItems", 1), twice, false);
	for (int i = 0; i < 20; i++)
		json_array_append_new(text, json_integer(i));
	json_array_append(text, v);
	json_array_append(text, v);
	must_be(json_pack("{s:b}", "uniqueItems", 1), text, false);
	json_decref(twice);
	json_decref(text);
}

/* Whether somebody listens changes nothing, and a failure is fit to be shown. */
static void check_instance(const struct jschema *js, const json_t *instance)
{
	struct jschema_failure f = {.keyword = NULL};
	bool ok = jschema_check(js, instance, NULL);

	MUST(jschema_check(js, instance, &f) == ok);
	MUST(ok == (f.keyword == NULL));
	if (ok)
		return;
	MUST(*f.message != '\0' && fuzz_is_plain(f.message, strlen(f.message), "") &&
		fuzz_is_utf8(f.message, strlen(f.message)));
	MUST(fuzz_is_utf8(f.instance, strlen(f.instance)) && fuzz_is_utf8(f.schema, strlen(f.schema)));
	MUST(*f.instance == '\0' || *f.instance == '/');
	MUST(fuzz_is_utf8(f.property, strlen(f.property)));
}

/* What compiles has the form that the metaschema asks for. */
static void check_metaschema(json_t *schema)
{
	json_t *meta = json_loads(META, 0, NULL);

	must_be(meta, schema, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct jschema_options options = {.assert_formats = true, .max_steps = 20000};
	const char *text = (const char *)data, *line = memchr(data, '\n', size);
	json_t *schema = parse(text, line != NULL ? (size_t)(line - text) : size), *instance = NULL;
	struct jschema *js;

	if (schema == NULL)
		return 0;
	if (line != NULL)
		instance = parse(line + 1, size - (size_t)(line + 1 - text));
	if (instance == NULL)
		instance = json_incref(schema);
	if ((js = compile(schema, &options)) != NULL) {
		check_instance(js, instance);
		check_metaschema(schema);
	}
	jschema_free(js);
	check_equality(instance);
	json_decref(schema);
	json_decref(instance);
	return 0;
}
