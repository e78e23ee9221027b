/* SPDX-License-Identifier: MIT */
/* test_jschema_compile.c: broken schemas are refused with a pointer and the reason; references,
 * documents, dialects. */
#include "support/jschema_kit.h"

#define META "https://json-schema.org/draft/2020-12/schema"

static const struct {
	const char *schema, *why;
	bool passes_metaschema; /* what is wrong is no matter of form */
} broken[] = {
	{"1", "the schema: must be a schema: an object, true or false", false},
	{"{'properties':{'a':{'minimum':'1'}}}", "/properties/a/minimum: must be a number", false},
	{"{'type':'strin'}", "/type: must be the name of a type, or an array of such, each once", false},
	{"{'type':[]}", "/type: must be the name of a type, or an array of such, each once", false},
	{"{'type':['null','null']}", "/type: must be the name of a type, or an array of such, each once",
		false},
	{"{'multipleOf':0}", "/multipleOf: must be a number above 0", false},
	{"{'maxLength':-1}", "/maxLength: must be an integer, 0 or more", false},
	{"{'maxItems':1.5}", "/maxItems: must be an integer, 0 or more", false},
	{"{'minContains':'1'}", "/minContains: must be an integer, 0 or more", false},
	{"{'uniqueItems':1}", "/uniqueItems: must be true or false", false},
	{"{'required':'a'}", "/required: must be an array of strings, each once", false},
	{"{'required':['a','a']}", "/required: must be an array of strings, each once", false},
	{"{'required':[1]}", "/required: must be an array of strings, each once", false},
	{"{'dependentRequired':{'a':'b'}}",
		"/dependentRequired: must be an object of arrays of strings, each once", false},
	{"{'enum':1}", "/enum: must be an array", false},
	{"{'allOf':[]}", "/allOf: must be an array of at least one schema", false},
	{"{'anyOf':{}}", "/anyOf: must be an array of at least one schema", false},
	{"{'oneOf':[true,1]}", "/oneOf/1: must be a schema: an object, true or false", false},
	{"{'prefixItems':[]}", "/prefixItems: must be an array of at least one schema", false},
	{"{'items':[{}]}", "/items: must be a schema: an object, true or false", false},
	{"{'not':1}", "/not: must be a schema: an object, true or false", false},
	{"{'properties':[]}", "/properties: must be an object of schemas", false},
	{"{'patternProperties':{'a':1}}", "/patternProperties/a: must be a schema: an object, true or false",
		false},
	{"{'$defs':{'a/b':{'pattern':1}}}", "/$defs/a~1b/pattern: must be a string", false},
	{"{'title':1}", "/title: must be a string", false},
	{"{'deprecated':'yes'}", "/deprecated: must be true or false", false},
	{"{'contentSchema':{'type':1}}",
		"/contentSchema/type: must be the name of a type, or an array of such, each once", false},
	{"{'$id':'a#b'}", "/$id: must be a URI reference without a fragment", false},
	{"{'$id':1}", "/$id: must be a URI reference without a fragment", false},
	{"{'$anchor':'1a'}",
		"/$anchor: must be a name: letters, digits, '_', '-', '.', a letter or '_' first", false},
	{"{'$vocabulary':{'a':1}}", "/$vocabulary: must be an object of true and false", false},
	{"{'$ref':1}", "/$ref: must be a string", false},
	{"{'definitions':{'a':{'type':1}}}",
		"/definitions/a/type: must be the name of a type, or an array of such, each once", false},
	{"{'pattern':'('}", "/pattern: \"(\" is not a pattern that can be used: ( without )", true},
	{"{'patternProperties':{'[':true}}",
		"/patternProperties: \"[\" is not a pattern that can be used: [ without ]", true},
	{"{'$ref':'#/$defs/a'}", "/$ref: \"#/$defs/a\" leads nowhere", true},
	{"{'items':{'$ref':'#a'}}", "/items/$ref: \"#a\" leads nowhere", true},
	{"{'$dynamicRef':'#a'}", "/$dynamicRef: \"#a\" leads nowhere", true},
	{"{'$ref':'http://other.example/s'}",
		"/$ref: \"http://other.example/s\" leads nowhere: no such document", true},
	{"{'$ref':'#/enum/0','enum':[1]}", "/enum/0: must be a schema: an object, true or false", true},
	{"{'$ref':'#/x/y','x':{'y':{'minimum':'a'}}}", "/x/y/minimum: must be a number", true},
	{"{'$ref':'#/allOf/','allOf':[true]}", "/$ref: \"#/allOf/\" leads nowhere", true},
	{"{'$defs':{'a':{'$id':'http://x/a'},'b':{'$id':'http://x/b/../a'}}}",
		"/$defs/b/$id: names a resource a second time", true},
	{"{'$defs':{'a':{'$anchor':'a'},'b':{'$dynamicAnchor':'a'}}}",
		"/$defs/b/$dynamicAnchor: names a second place in the same resource", true},
	{"{'$schema':'http://json-schema.org/draft-07/schema#'}", "/$schema: is not the dialect " META, true},
	{"{'$ref':'#'}",
		"the schema: leads back to itself (or through more than 512 schemas) without a step into the "
		"instance",
		true},
	{"{'$defs':{'a':{'anyOf':[{'type':'null'},{'not':{'$ref':'#/$defs/b'}}]},'b':{'if':{'$ref':'#/$defs/"
	 "a'}}}}",
		"/$defs/a: leads back to itself (or through more than 512 schemas) without a step into the "
		"instance",
		true},
	{"{'dependentSchemas':{'a':{'$ref':'#'}}}",
		"the schema: leads back to itself (or through more than 512 schemas) without a step into the "
		"instance",
		true},
};

START_TEST(a_broken_schema_is_refused_with_a_pointer_and_the_reason)
{
	json_t *v = schema_kit_json(broken[_i].schema);
	char why[JSCHEMA_WHY_SIZE];

	ck_assert_ptr_null(jschema_compile(v, NULL, why, sizeof why));
	ck_assert_str_eq(why, broken[_i].why);
	json_decref(v);
}
END_TEST

/* The built-in metaschema and the checks of forms come from one table; here they are asked the same. */
START_TEST(the_metaschema_says_the_same_of_forms)
{
	bool ok = schema_kit_check("{'$ref':'" META "'}", broken[_i].schema, NULL, NULL);

	ck_assert_msg(ok == broken[_i].passes_metaschema, "%s", broken[_i].schema);
}
END_TEST

START_TEST(a_schema_nested_too_deeply_is_refused)
{
	struct buf b = {0};
	json_t *v;
	char why[JSCHEMA_WHY_SIZE];

	for (int i = 0; i < JSCHEMA_MAX_NESTING + 2; i++)
		buf_add_text(&b, "{'not':");
	buf_add_text(&b, "true");
	for (int i = 0; i < JSCHEMA_MAX_NESTING + 2; i++)
		buf_add_text(&b, "}");
	v = schema_kit_json(buf_text(&b));
	ck_assert_ptr_null(jschema_compile(v, NULL, why, sizeof why));
	ck_assert_msg(strstr(why, "nested too deeply") != NULL, "%s", why);
	json_decref(v);
	buf_fini(&b);
}
END_TEST

START_TEST(the_reason_is_cut_to_the_room_there_is)
{
	json_t *v = schema_kit_json("{'properties':{'a':{'minimum':'1'}}}");
	char why[8];

	ck_assert_ptr_null(jschema_compile(v, NULL, why, sizeof why));
	ck_assert_str_eq(why, "/proper");
	json_decref(v);
}
END_TEST

/* ---- references as RFC 3986 resolves them ---- */

static const struct {
	const char *base, *reference, *id;
} references[] = {
	{"http://a/b/c/d?q", "g", "http://a/b/c/g"},
	{"http://a/b/c/d?q", "./g", "http://a/b/c/g"},
	{"http://a/b/c/d?q", "/g", "http://a/g"},
	{"http://a/b/c/d?q", "//g", "http://g"},
	{"http://a/b/c/d?q", "?y", "http://a/b/c/d?y"},
	{"http://a/b/c/d?q", "../../g", "http://a/g"},
	{"http://a/b/c/d?q", "../../../g", "http://a/g"},
	{"http://a/b/c/d?q", "..", "http://a/b/"},
	{"http://a/b/c/d?q", "./../g", "http://a/b/g"},
	{"http://a/b/c/d?q", "g/./h/../i", "http://a/b/c/g/i"},
	{"http://a/b/c/d?q", "g;x=1/../y", "http://a/b/c/y"},
	{"http://a", "g", "http://a/g"},
	{"urn:example:a", "urn:example:b", "urn:example:b"},
};

START_TEST(a_reference_is_resolved_against_its_base)
{
	const struct jschema_options o = {.base_uri = references[_i].base};
	char schema[400];

	snprintf(schema, sizeof schema, "{'$ref':'%s','$defs':{'t':{'$id':'%s','type':'null'}}}",
		references[_i].reference, references[_i].id);
	ck_assert(schema_kit_check(schema, "null", &o, NULL));
	ck_assert(!schema_kit_check(schema, "1", &o, NULL));
}
END_TEST

START_TEST(a_fragment_is_decoded_and_may_lead_beside_all_keywords)
{
	const char *schema = "{'$ref':'#/x%25/0/a~1b','x%':[{'a/b':{'type':'null'}}]}";

	ck_assert(schema_kit_check(schema, "null", NULL, NULL) && !schema_kit_check(schema, "1", NULL, NULL));
	/* an empty one is none */
	schema = "{'$ref':'http://x/a#','$defs':{'a':{'$id':'http://x/a#','type':'null'}}}";
	ck_assert(schema_kit_check(schema, "null", NULL, NULL) && !schema_kit_check(schema, "1", NULL, NULL));
	schema = "{'$ref':'#/$defs/a/x/y','$defs':{'a':{'$id':'http://x/a/"
		 "','x':{'y':{'$ref':'t'}},'$defs':{'t':{'$id':'t','type':'null'}}}}}";
	/* the base is a's */
	ck_assert(schema_kit_check(schema, "null", NULL, NULL) && !schema_kit_check(schema, "1", NULL, NULL));
	schema = "{'properties':{'t':{'$ref':'#/$defs/no'}},'$defs':{'no':false}}";
	ck_assert(schema_kit_check(schema, "{}", NULL, NULL) &&
		!schema_kit_check(schema, "{'t':1}", NULL, NULL));
}
END_TEST

/* ---- documents of the caller's ---- */

static unsigned asked;

static const json_t *find_one(void *arg, const char *uri)
{
	asked++;
	return json_object_get(arg, uri);
}

START_TEST(other_documents_come_from_the_caller_once_each)
{
	json_t *all = schema_kit_json(
		"{'http://x/a':{'items':{'$ref':'b#/$defs/n'}},'http://x/b':{'$defs':{'n':{'minimum':3}}}}");
	const struct jschema_options o = {.find = find_one, .arg = all};
	struct jschema_failure f;

	asked = 0;
	ck_assert(!schema_kit_check("{'$id':'http://x/r','allOf':[{'$ref':'a'},{'$ref':'a'},{'$ref':'" META
				    "'}]}",
		"[2]", &o, &f));
	ck_assert_str_eq(f.schema, "http://x/b#/$defs/n/minimum");
	ck_assert_uint_eq(asked, 2); /* the metaschema is built in */
	json_decref(all);
}
END_TEST

START_TEST(a_fault_in_another_document_names_it)
{
	json_t *all = schema_kit_json("{'http://x/a':{'items':3}}"),
	       *v = schema_kit_json("{'$ref':'http://x/a'}");
	const struct jschema_options o = {.find = find_one, .arg = all};
	char why[JSCHEMA_WHY_SIZE];

	ck_assert_ptr_null(jschema_compile(v, &o, why, sizeof why));
	ck_assert_str_eq(why, "http://x/a#/items: must be a schema: an object, true or false");
	json_decref(all);
	json_decref(v);
}
END_TEST

#define VOCABULARY "https://json-schema.org/draft/2020-12/vocab/"

START_TEST(a_dialect_decides_which_keywords_count)
{
	json_t *all = schema_kit_json(
		       "{'http://x/plain':{'$vocabulary':{'" VOCABULARY "core':true,'" VOCABULARY
		       "applicator':true}},"
		       "'http://x/strict':{'$vocabulary':{'" VOCABULARY "core':true,'" VOCABULARY
		       "format-assertion':true}},"
		       "'http://x/odd':{'$vocabulary':{'http://x/mine':true}}}"),
	       *v = schema_kit_json("{'$schema':'http://x/odd'}");
	const struct jschema_options o = {.find = find_one, .arg = all};
	char why[JSCHEMA_WHY_SIZE];

	ck_assert(schema_kit_check(
		"{'$schema':'http://x/plain','minimum':'no number','maximum':1}", "2", &o, NULL));
	ck_assert(!schema_kit_check("{'$schema':'http://x/plain','not':true}", "2", &o, NULL));
	ck_assert(!schema_kit_check("{'$schema':'http://x/strict','format':'uuid'}", "'x'", &o, NULL));
	ck_assert_ptr_null(jschema_compile(v, &o, why, sizeof why));
	ck_assert_str_eq(why, "/$schema: needs a vocabulary that is not known here");
	json_decref(all);
	json_decref(v);
}
END_TEST

START_TEST(every_metaschema_accepts_itself_and_every_other)
{
	static const char *const names[] = {"schema", "meta/core", "meta/applicator", "meta/unevaluated",
		"meta/validation", "meta/meta-data", "meta/format-annotation", "meta/content"};
	char schema[200];

	snprintf(schema, sizeof schema, "{'$ref':'https://json-schema.org/draft/2020-12/%s'}", names[_i]);
	ck_assert(schema_kit_check(schema,
		"{'properties':{'a':{'type':['string'],'format':'x'}},'$defs':{'b':true},"
		"'unevaluatedItems':false}",
		NULL, NULL));
	ck_assert(!schema_kit_check(schema, "1", NULL, NULL));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, a_broken_schema_is_refused_with_a_pointer_and_the_reason, 0, COUNT(broken));
	tcase_add_loop_test(t, the_metaschema_says_the_same_of_forms, 0, COUNT(broken));
	tcase_add_test(t, a_schema_nested_too_deeply_is_refused);
	tcase_add_test(t, the_reason_is_cut_to_the_room_there_is);
	tcase_add_loop_test(t, a_reference_is_resolved_against_its_base, 0, COUNT(references));
	tcase_add_test(t, a_fragment_is_decoded_and_may_lead_beside_all_keywords);
	tcase_add_test(t, other_documents_come_from_the_caller_once_each);
	tcase_add_test(t, a_fault_in_another_document_names_it);
	tcase_add_test(t, a_dialect_decides_which_keywords_count);
	tcase_add_loop_test(t, every_metaschema_accepts_itself_and_every_other, 0, 8);
}

int main(void)
{
	return schema_kit_run("jschema_compile", add_tests);
}
