/* SPDX-License-Identifier: MIT */
/* keywords.c: the keywords of draft 2020-12, in one table: name, vocabulary, form of the value, op, types.
 * Owns the form of values. The same rows serve twice: as a check with a reason, and to build the metaschemas,
 * which are not kept as text. Never checks children (scan.c does). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jschema/jschema_private.h"

#define DRAFT "https://json-schema.org/draft/2020-12/"

const struct keyword jschema_keywords[] = {
	{"type", V_VALIDATION, F_TYPE, OP_TYPE, T_ANY},
	{"const", V_VALIDATION, F_ANY, OP_CONST, T_ANY},
	{"enum", V_VALIDATION, F_ARRAY, OP_ENUM, T_ANY},
	{"minimum", V_VALIDATION, F_NUMBER, OP_MINIMUM, T_NUMBER},
	{"maximum", V_VALIDATION, F_NUMBER, OP_MAXIMUM, T_NUMBER},
	{"exclusiveMinimum", V_VALIDATION, F_NUMBER, OP_ABOVE, T_NUMBER},
	{"exclusiveMaximum", V_VALIDATION, F_NUMBER, OP_BELOW, T_NUMBER},
	{"multipleOf", V_VALIDATION, F_POSITIVE, OP_MULTIPLE, T_NUMBER},
	{"minLength", V_VALIDATION, F_COUNT, OP_MIN_LENGTH, T_STRING},
	{"maxLength", V_VALIDATION, F_COUNT, OP_MAX_LENGTH, T_STRING},
	{"pattern", V_VALIDATION, F_REGEX, OP_PATTERN, T_STRING},
	{"format", V_FORMAT, F_STRING, OP_FORMAT, T_STRING},
	{"minItems", V_VALIDATION, F_COUNT, OP_MIN_ITEMS, T_ARRAY},
	{"maxItems", V_VALIDATION, F_COUNT, OP_MAX_ITEMS, T_ARRAY},
	{"uniqueItems", V_VALIDATION, F_BOOLEAN, OP_UNIQUE, T_ARRAY},
	{"minProperties", V_VALIDATION, F_COUNT, OP_MIN_PROPERTIES, T_OBJECT},
	{"maxProperties", V_VALIDATION, F_COUNT, OP_MAX_PROPERTIES, T_OBJECT},
	{"required", V_VALIDATION, F_NAMES, OP_REQUIRED, T_OBJECT},
	{"dependentRequired", V_VALIDATION, F_NAME_LISTS, OP_DEPENDENT_REQUIRED, T_OBJECT},
	{"propertyNames", V_APPLICATOR, F_SCHEMA, OP_PROPERTY_NAMES, T_OBJECT},
	{"properties", V_APPLICATOR, F_SCHEMA_MAP, OP_MEMBERS, T_OBJECT},
	{"patternProperties", V_APPLICATOR, F_PATTERN_MAP, OP_MEMBERS, T_OBJECT},
	{"additionalProperties", V_APPLICATOR, F_SCHEMA, OP_MEMBERS, T_OBJECT},
	{"prefixItems", V_APPLICATOR, F_SCHEMAS, OP_ITEMS, T_ARRAY},
	{"items", V_APPLICATOR, F_SCHEMA, OP_ITEMS, T_ARRAY},
	{"contains", V_APPLICATOR, F_SCHEMA, OP_CONTAINS, T_ARRAY},
	{"$ref", V_CORE, F_REFERENCE, OP_REF, T_ANY},
	{"$dynamicRef", V_CORE, F_REFERENCE, OP_DYNAMIC_REF, T_ANY},
	{"allOf", V_APPLICATOR, F_SCHEMAS, OP_ALL_OF, T_ANY},
	{"anyOf", V_APPLICATOR, F_SCHEMAS, OP_ANY_OF, T_ANY},
	{"oneOf", V_APPLICATOR, F_SCHEMAS, OP_ONE_OF, T_ANY},
	{"not", V_APPLICATOR, F_SCHEMA, OP_NOT, T_ANY},
	{"if", V_APPLICATOR, F_SCHEMA, OP_IF, T_ANY},
	{"dependentSchemas", V_APPLICATOR, F_SCHEMA_MAP, OP_DEPENDENT_SCHEMAS, T_OBJECT},
	{"unevaluatedItems", V_UNEVALUATED, F_SCHEMA, OP_UNEVALUATED_ITEMS, T_ARRAY},
	{"unevaluatedProperties", V_UNEVALUATED, F_SCHEMA, OP_UNEVALUATED_PROPERTIES, T_OBJECT},
	{"then", V_APPLICATOR, F_SCHEMA, OP_NONE, 0},
	{"else", V_APPLICATOR, F_SCHEMA, OP_NONE, 0},
	{"minContains", V_VALIDATION, F_COUNT, OP_NONE, 0},
	{"maxContains", V_VALIDATION, F_COUNT, OP_NONE, 0},
	{"$id", V_CORE, F_ID, OP_NONE, 0},
	{"$schema", V_CORE, F_STRING, OP_NONE, 0},
	{"$anchor", V_CORE, F_ANCHOR, OP_NONE, 0},
	{"$dynamicAnchor", V_CORE, F_ANCHOR, OP_NONE, 0},
	{"$vocabulary", V_CORE, F_VOCABULARY, OP_NONE, 0},
	{"$comment", V_CORE, F_STRING, OP_NONE, 0},
	{"$defs", V_CORE, F_SCHEMA_MAP, OP_NONE, 0},
	{"title", V_META_DATA, F_STRING, OP_NONE, 0},
	{"description", V_META_DATA, F_STRING, OP_NONE, 0},
	{"default", V_META_DATA, F_ANY, OP_NONE, 0},
	{"deprecated", V_META_DATA, F_BOOLEAN, OP_NONE, 0},
	{"readOnly", V_META_DATA, F_BOOLEAN, OP_NONE, 0},
	{"writeOnly", V_META_DATA, F_BOOLEAN, OP_NONE, 0},
	{"examples", V_META_DATA, F_ARRAY, OP_NONE, 0},
	{"contentEncoding", V_CONTENT, F_STRING, OP_NONE, 0},
	{"contentMediaType", V_CONTENT, F_STRING, OP_NONE, 0},
	{"contentSchema", V_CONTENT, F_SCHEMA, OP_NONE, 0},
	{"definitions", V_OLD, F_SCHEMA_MAP, OP_NONE, 0},
	{NULL, 0, 0, 0, 0},
};

const struct keyword *jschema_keyword_find(const char *name)
{
	for (const struct keyword *k = jschema_keywords; k->name != NULL; k++)
		if (strcmp(k->name, name) == 0)
			return k;
	return NULL;
}

/* ---- forms ---- */

static bool is_count(const json_t *v)
{
	struct number n;

	if (!json_is_number(v))
		return false;
	n = value_number(v);
	return number_is_integral(n) && number_order(n, (struct number){.is_integer = true}) >= 0;
}

static bool is_names(const json_t *v)
{
	uint64_t steps = JSCHEMA_MAX_STEPS;
	size_t a, b;

	if (!json_is_array(v) || value_find_twins(&steps, v, &a, &b))
		return false;
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!json_is_string(json_array_get(v, i)))
			return false;
	return steps > 0;
}

static bool is_map(const json_t *v, bool (*is_good)(const json_t *))
{
	if (!json_is_object(v))
		return false;
	for (void *i = json_object_iter((json_t *)(uintptr_t)v); i != NULL;
		i = json_object_iter_next((json_t *)(uintptr_t)v, i))
		if (!is_good(json_object_iter_value(i)))
			return false;
	return true;
}

static bool is_bool(const json_t *v)
{
	return json_is_boolean(v);
}

static bool is_type_name(const json_t *v)
{
	static const char *const names[] = {
		"null", "boolean", "integer", "number", "string", "array", "object"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (json_is_string(v) && strcmp(json_string_value(v), names[i]) == 0)
			return true;
	return false;
}

static bool is_type(const json_t *v)
{
	if (!json_is_array(v))
		return is_type_name(v);
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!is_type_name(json_array_get(v, i)))
			return false;
	return json_array_size(v) > 0 && is_names(v);
}

static bool is_id(const json_t *v)
{
	const char *text = json_string_value(v);
	size_t hash = text != NULL ? strcspn(text, "#") : 0;

	return text != NULL && (text[hash] == '\0' || text[hash + 1] == '\0');
}

static bool is_anchor(const json_t *v)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789-.";
	const char *text = json_string_value(v);

	return text != NULL && *text != '\0' && strchr("0123456789-.", *text) == NULL &&
		text[strspn(text, first)] == '\0' && strlen(text) == json_string_length(v);
}

#define META "{\"$dynamicRef\":\"#meta\"}"
#define NAMES "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}"
#define NAME "\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\",\"string\"]"

static const struct {
	const char *fault, *schema;
} forms[F_COUNT_OF] = {
	[F_ANY] = {"", "true"},
	[F_BOOLEAN] = {"must be true or false", "{\"type\":\"boolean\"}"},
	[F_STRING] = {"must be a string", "{\"type\":\"string\"}"},
	[F_NUMBER] = {"must be a number", "{\"type\":\"number\"}"},
	[F_POSITIVE] = {"must be a number above 0", "{\"type\":\"number\",\"exclusiveMinimum\":0}"},
	[F_COUNT] = {"must be an integer, 0 or more", "{\"type\":\"integer\",\"minimum\":0}"},
	[F_ARRAY] = {"must be an array", "{\"type\":\"array\"}"},
	[F_NAMES] = {"must be an array of strings, each once", NAMES},
	[F_NAME_LISTS] = {"must be an object of arrays of strings, each once",
		"{\"type\":\"object\",\"additionalProperties\":" NAMES "}"},
	[F_TYPE] = {"must be the name of a type, or an array of such, each once",
		"{\"anyOf\":[{" NAME "},{\"type\":\"array\",\"items\":{" NAME
		"},\"minItems\":1,\"uniqueItems\":true}]}"},
	[F_REGEX] = {"must be a string", "{\"type\":\"string\",\"format\":\"regex\"}"},
	[F_REFERENCE] = {"must be a string", "{\"type\":\"string\",\"format\":\"uri-reference\"}"},
	[F_ID] = {"must be a URI reference without a fragment",
		"{\"type\":\"string\",\"pattern\":\"^[^#]*#?$\"}"},
	[F_ANCHOR] = {"must be a name: letters, digits, '_', '-', '.', a letter or '_' first",
		"{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][-A-Za-z0-9._]*$\"}"},
	[F_VOCABULARY] = {"must be an object of true and false",
		"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"}}"},
	[F_SCHEMA] = {"", META},
	[F_SCHEMAS] = {"must be an array of at least one schema",
		"{\"type\":\"array\",\"minItems\":1,\"items\":" META "}"},
	[F_SCHEMA_MAP] = {"must be an object of schemas",
		"{\"type\":\"object\",\"additionalProperties\":" META "}"},
	[F_PATTERN_MAP] = {"must be an object of schemas",
		"{\"type\":\"object\",\"additionalProperties\":" META
		",\"propertyNames\":{\"format\":\"regex\"}}"},
};

static bool has_form(enum form form, const json_t *v)
{
	switch (form) {
	case F_BOOLEAN: return json_is_boolean(v);
	case F_STRING:
	case F_REGEX:
	case F_REFERENCE: return json_is_string(v);
	case F_NUMBER: return json_is_number(v);
	case F_POSITIVE: return json_is_number(v) && json_number_value(v) > 0;
	case F_COUNT: return is_count(v);
	case F_ARRAY: return json_is_array(v);
	case F_NAMES: return is_names(v);
	case F_NAME_LISTS: return is_map(v, is_names);
	case F_TYPE: return is_type(v);
	case F_ID: return is_id(v);
	case F_ANCHOR: return is_anchor(v);
	case F_VOCABULARY: return is_map(v, is_bool);
	case F_SCHEMAS: return json_is_array(v) && json_array_size(v) > 0;
	case F_SCHEMA_MAP:
	case F_PATTERN_MAP: return json_is_object(v);
	default: return true; /* any value; a schema is checked as a schema */
	}
}

const char *jschema_form_fault(const struct keyword *k, const json_t *value)
{
	return has_form(k->form, value) ? NULL : forms[k->form].fault;
}

/* ---- metaschemas ---- */

static const struct {
	const char *name;
	uint16_t vocabulary, also;
} vocabularies[] = {
	{"core", V_CORE, 0},
	{"applicator", V_APPLICATOR, 0},
	{"unevaluated", V_UNEVALUATED, 0},
	{"validation", V_VALIDATION, 0},
	{"meta-data", V_META_DATA, 0},
	{"format-annotation", V_FORMAT, 0},
	{"content", V_CONTENT, 0},
	{"format-assertion", V_FORMAT, V_FORMAT_ASSERTION},
};
#define USUAL_VOCABULARIES 7 /* the first metaschema; the last is for metaschemas of others */

uint16_t jschema_vocabulary_find(const char *uri)
{
	static const char prefix[] = DRAFT "vocab/";

	for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++)
		if (strncmp(uri, prefix, sizeof prefix - 1) == 0 &&
			strcmp(uri + sizeof prefix - 1, vocabularies[i].name) == 0)
			return vocabularies[i].vocabulary | vocabularies[i].also;
	return 0;
}

static json_t *meta_head(const char *uri)
{
	return json_pack("{s:s, s:s, s:s, s:[s, s]}", "$schema", JSCHEMA_META_URI, "$id", uri,
		"$dynamicAnchor", "meta", "type", "object", "boolean");
}

static json_t *meta_of(const char *uri, uint16_t vocabulary)
{
	json_t *meta = meta_head(uri), *properties = json_object();

	for (const struct keyword *k = jschema_keywords; k->name != NULL; k++)
		if (k->vocabulary & vocabulary)
			json_object_set_new(properties, k->name,
				json_loads(forms[k->form].schema, JSON_DECODE_ANY, NULL));
	json_object_set_new(meta, "properties", properties);
	return meta;
}

static json_t *meta_whole(void)
{
	json_t *meta = meta_of(JSCHEMA_META_URI, V_OLD), *all = json_array(), *names = json_object();
	char uri[96];

	for (size_t i = 0; i < USUAL_VOCABULARIES; i++) {
		snprintf(uri, sizeof uri, "meta/%s", vocabularies[i].name);
		json_array_append_new(all, json_pack("{s:s}", "$ref", uri));
		snprintf(uri, sizeof uri, DRAFT "vocab/%s", vocabularies[i].name);
		json_object_set_new(names, uri, json_true());
	}
	json_object_set_new(meta, "allOf", all);
	json_object_set_new(meta, "$vocabulary", names);
	return meta;
}

json_t *jschema_meta_new(const char *uri)
{
	static const char prefix[] = DRAFT "meta/";

	if (strcmp(uri, JSCHEMA_META_URI) == 0)
		return meta_whole();
	for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++)
		if (strncmp(uri, prefix, sizeof prefix - 1) == 0 &&
			strcmp(uri + sizeof prefix - 1, vocabularies[i].name) == 0)
			return meta_of(uri, vocabularies[i].vocabulary);
	return NULL;
}
