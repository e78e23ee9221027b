/* SPDX-License-Identifier: MIT */
/* test_jschema.c: what a failed check says, numbers, bounds and threads. What is valid is the test suite's
 * business (make check-schema); here is what it does not ask. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "support/jschema_kit.h"

/* ---- the first failure, in pointers and words ---- */

static const struct {
	const char *schema, *instance, *at, *where, *keyword, *property, *message;
} failures[] = {
	{"{'properties':{'temperature':{'maximum':80}}}", "{'temperature':95}", "/temperature",
		"/properties/temperature/maximum", "maximum", "", "/temperature must be at most 80, is 95"},
	{"{'minimum':0.5}", "0.25", "", "/minimum", "minimum", "", "the value must be at least 0.5, is 0.25"},
	{"{'exclusiveMaximum':3}", "3", "", "/exclusiveMaximum", "exclusiveMaximum", "",
		"the value must be below 3, is 3"},
	{"{'exclusiveMinimum':3}", "3.0", "", "/exclusiveMinimum", "exclusiveMinimum", "",
		"the value must be above 3, is 3"},
	{"{'multipleOf':0.01}", "0.075", "", "/multipleOf", "multipleOf", "",
		"the value must be a multiple of 0.01, is 0.075"},
	{"{'type':['string','null']}", "1", "", "/type", "type", "",
		"the value must be null or a string, is an integer"},
	{"{'type':'number'}", "true", "", "/type", "type", "", "the value must be a number, is a boolean"},
	{"{'type':'integer'}", "1.5", "", "/type", "type", "", "the value must be an integer, is a number"},
	{"{'enum':['a',2]}", "'b'", "", "/enum", "enum", "", "the value must be one of [\"a\",2]"},
	{"{'const':{'a':1}}", "{}", "", "/const", "const", "", "the value must be {\"a\":1}"},
	{"{'minLength':2}", "'\xc3\xa9'", "", "/minLength", "minLength", "",
		"the value must be at least 2 characters long, is 1"},
	{"{'maxLength':1}", "'ab'", "", "/maxLength", "maxLength", "",
		"the value must be at most 1 character long, is 2"},
	{"{'pattern':'^a'}", "'secret'", "", "/pattern", "pattern", "",
		"the value must match the pattern ^a"},
	{"{'maxItems':1}", "[1,2]", "", "/maxItems", "maxItems", "",
		"the value must have at most 1 item, has 2"},
	{"{'minProperties':2}", "{}", "", "/minProperties", "minProperties", "",
		"the value must have at least 2 properties, has 0"},
	{"{'uniqueItems':true}", "[1,2,{'a':[1]},{'a':[1.0]}]", "", "/uniqueItems", "uniqueItems", "",
		"the value must not have equal items, but items 2 and 3 are"},
	{"{'required':['a']}", "{}", "", "/required", "required", "a",
		"the value must have the property \"a\""},
	{"{'properties':{'b':true},'required':['b','a']}", "{'b':1}", "", "/required", "required", "a",
		"the value must have the property \"a\""},
	{"{'items':{'properties':{'x':{}},'additionalProperties':false}}", "[{'x':1},{'y':1}]", "/1",
		"/items/additionalProperties", "additionalProperties", "y",
		"/1 must not have the property \"y\""},
	{"{'properties':{'x':false}}", "{'x':1}", "", "/properties", "properties", "x",
		"the value must not have the property \"x\""},
	{"{'propertyNames':{'maxLength':1}}", "{'ab':1}", "", "/propertyNames", "propertyNames", "ab",
		"the value must not have a property with the name \"ab\""},
	{"{'dependentRequired':{'a':['b']}}", "{'a':1}", "", "/dependentRequired", "dependentRequired", "b",
		"the value must, because of another property, have the property \"b\""},
	{"{'allOf':[true,{'$ref':'#/$defs/n'}],'$defs':{'n':{'unevaluatedProperties':false}}}", "{'k':1}", "",
		"/$defs/n/unevaluatedProperties", "unevaluatedProperties", "k",
		"the value must not have the property \"k\""},
	{"{'prefixItems':[true],'items':false}", "[1,2]", "", "/items", "items", "",
		"the value must have at most 1 item, has 2"},
	{"{'prefixItems':[true],'unevaluatedItems':false}", "[1,2]", "", "/unevaluatedItems",
		"unevaluatedItems", "", "the value must not have item 1"},
	{"{'contains':{'type':'null'}}", "[1]", "", "/contains", "contains", "",
		"the value must have at least 1 item of the form that is asked for, has 0"},
	{"{'contains':true,'maxContains':1}", "[1,2]", "", "/maxContains", "maxContains", "",
		"the value must have at most 1 items of the form that is asked for, has 2"},
	{"{'anyOf':[{'type':'null'},{'type':'string'}]}", "1", "", "/anyOf", "anyOf", "",
		"the value fits none of the 2 forms that are allowed here"},
	{"{'oneOf':[true,{'type':'null'},{'type':'integer'}]}", "1", "", "/oneOf", "oneOf", "",
		"the value must fit one form only, fits number 1 and number 3"},
	{"{'not':{}}", "1", "", "/not", "not", "", "the value has a form that is forbidden here"},
	{"{'if':{'type':'integer'},'then':{'minimum':2}}", "1", "", "/then/minimum", "minimum", "",
		"the value must be at least 2, is 1"},
	{"false", "1", "", "", "", "", "the value is not allowed here"},
	{"{'properties':{'a/b~c':{'items':{'type':'null'}}}}", "{'a/b~c':[null,1]}", "/a~1b~0c/1",
		"/properties/a~1b~0c/items/type", "type", "", "/a~1b~0c/1 must be null, is an integer"},
	{"{'$ref':'https://json-schema.org/draft/2020-12/schema'}", "{'minLength':-1}", "/minLength",
		"https://json-schema.org/draft/2020-12/meta/validation#/properties/minLength/minimum",
		"minimum", "", "/minLength must be at least 0, is -1"},
};

START_TEST(the_first_failure_is_told_by_pointers_keyword_and_a_sentence)
{
	struct jschema_failure f;

	ck_assert_msg(!schema_kit_check(failures[_i].schema, failures[_i].instance, NULL, &f), "%s",
		failures[_i].schema);
	ck_assert_str_eq(f.instance, failures[_i].at);
	ck_assert_str_eq(f.schema, failures[_i].where);
	ck_assert_str_eq(f.keyword, failures[_i].keyword);
	ck_assert_str_eq(f.property, failures[_i].property);
	ck_assert_str_eq(f.message, failures[_i].message);
	ck_assert(!f.is_limit);
}
END_TEST

START_TEST(messages_repeat_no_text_of_the_instance_and_clean_its_names)
{
	struct jschema_failure f;
	char instance[2000], name[1200];

	ck_assert(!schema_kit_check("{'enum':['a']}", "'password'", NULL, &f) &&
		strstr(f.message, "password") == NULL);
	ck_assert(!schema_kit_check("{'const':'a'}", "'password'", NULL, &f) &&
		strstr(f.message, "password") == NULL);
	ck_assert(!schema_kit_check("{'pattern':'a'}", "'secret-word'", NULL, &f) &&
		strstr(f.message, "word") == NULL);
	ck_assert(!schema_kit_check("{'additionalProperties':false}", "{'a\\u001bb':1}", NULL, &f));
	ck_assert_str_eq(f.message, "the value must not have the property \"a?b\"");
	ck_assert(!schema_kit_check("{'additionalProperties':false}", "{'a\xc2\x9b\xc2\xa0':1}", NULL, &f));
	ck_assert_str_eq(f.message, "the value must not have the property \"a??\xc2\xa0\"");
	for (size_t i = 0; i < 400; i++)
		memcpy(name + 3 * i, "\xe2\x82\xac", 3);
	snprintf(instance, sizeof instance, "{'%.1200s':1}", name);
	ck_assert(!schema_kit_check("{'additionalProperties':{'type':'null'}}", instance, NULL, &f));
	ck_assert_uint_eq(strlen(f.instance), 253); /* 255 is no end of a character */
	ck_assert(memcmp(f.instance + 250, "\xe2\x82\xac", 4) == 0);
}
END_TEST

/* ---- numbers ---- */

static const struct {
	const char *schema, *instance;
	bool is_valid;
} numbers[] = {
	{"{'const':1}", "1.0", true},
	{"{'const':1.5}", "1.5", true},
	{"{'const':9007199254740993}", "9007199254740992.0", false},
	{"{'const':9007199254740992}", "9007199254740992.0", true},
	{"{'enum':[[1,{'a':0}]]}", "[1.0,{'a':-0.0}]", true},
	{"{'const':1}", "true", false},
	{"{'maximum':9223372036854775806}", "9223372036854775807", false},
	{"{'maximum':9223372036854775807}", "9223372036854775808", false},
	{"{'exclusiveMaximum':9223372036854775808}", "9223372036854775807", true},
	{"{'minimum':-9223372036854775808}", "-9223372036854775809.0", true}, /* is -2^63 as a double */
	{"{'minimum':-9223372036854775808}", "-9223372036854777000", false},
	{"{'maximum':9007199254740992.0}", "9007199254740993", false},
	{"{'multipleOf':0.0001}", "0.0075", true},
	{"{'multipleOf':0.0001}", "0.00751", false},
	{"{'multipleOf':0.01}", "19.99", true},
	{"{'multipleOf':0.1}", "0.30000000000000004", false},
	{"{'multipleOf':0.1}", "1e300", true},
	{"{'multipleOf':1e-300}", "5e-324", false},
	{"{'multipleOf':5e-324}", "1e308", true},
	{"{'multipleOf':1e300}", "1e308", true},
	{"{'multipleOf':3}", "9007199254740993", true},
	{"{'multipleOf':3}", "9007199254740994", false},
	{"{'multipleOf':0.5}", "4503599627370497.5", true},
	{"{'multipleOf':7}", "0.0", true},
	{"{'multipleOf':9223372036854775807}", "-9223372036854775807", true},
	{"{'multipleOf':2.5}", "9223372036854775805", true},
	{"{'multipleOf':2.5}", "9223372036854775806", false},
	{"{'multipleOf':1e-8}", "12391239123", true},
	/* 2^-20: products outgrow 64 bits */
	{"{'multipleOf':9.5367431640625e-07}", "9007199254740993", true},
	{"{'multipleOf':9.5367431640626e-07}", "9007199254740993", false},
	{"{'type':'integer'}", "1e300", true},
	{"{'uniqueItems':true}", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,1.0]", false},
	{"{'uniqueItems':true}", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,'1',true,[1],{'a':1},{'a':2}]", true},
	{"{'uniqueItems':true}", "[1,2,3,4,5,6,7,8,9,10,11,12,13,{'a':1,'b':[2]},{'b':[2.0],'a':1}]", false},
	{"{'maxLength':1e300}", "'a'", true},
	{"{'minLength':1e300}", "'a'", false},
	{"{'minItems':1.0}", "[1]", true},
};

START_TEST(numbers_are_compared_by_value_without_rounding)
{
	ck_assert_msg(schema_kit_check(numbers[_i].schema, numbers[_i].instance, NULL, NULL) ==
			numbers[_i].is_valid,
		"%s %s", numbers[_i].schema, numbers[_i].instance);
}
END_TEST

/* ---- required beside many properties ---- */

START_TEST(more_required_names_than_bits_are_all_looked_for)
{
	struct buf schema = {0}, instance = {0};
	struct jschema_failure f;

	buf_add_text(&schema, "{'properties':{'n0':true},'required':[");
	buf_add_text(&instance, "{");
	for (int i = 0; i < 70; i++) {
		buf_addf(&schema, "%s'n%d'", i > 0 ? "," : "", i);
		buf_addf(&instance, "%s'n%d':0", i > 0 ? "," : "", i == 66 ? 1000 : i);
	}
	buf_add_text(&schema, "]}");
	buf_add_text(&instance, "}");
	ck_assert(!schema_kit_check(buf_text(&schema), buf_text(&instance), NULL, &f));
	ck_assert_str_eq(f.property, "n66");
	buf_fini(&schema);
	buf_fini(&instance);
}
END_TEST

/* ---- bounds ---- */

static char *nested(const char *open, size_t count, const char *close)
{
	struct buf b = {0};
	char *text;

	for (size_t i = 0; i < count; i++)
		buf_add_text(&b, open);
	for (size_t i = 0; i < count; i++)
		buf_add_text(&b, close);
	text = xstrdup(buf_text(&b));
	buf_fini(&b);
	return text;
}

START_TEST(an_instance_nested_beyond_the_bound_fails_and_says_so)
{
	char *deep = nested("[", 1000, "]"), *fine = nested("[", 100, "]");
	struct jschema_failure f;

	ck_assert(schema_kit_check("{'items':{'$ref':'#'}}", fine, NULL, &f));
	ck_assert(!schema_kit_check("{'items':{'$ref':'#'}}", deep, NULL, &f));
	ck_assert(f.is_limit && strstr(f.message, "nested too deeply") != NULL);
	free(deep);
	free(fine);
}
END_TEST

static const struct {
	const char *before, *behind;
} around[] = {{"'not':", ""}, {"'anyOf':[", ",true]"}, {"'if':", ",'else':true"}, {"'oneOf':[", ",false]"},
	{"'maxContains':9,'contains':", ""}, {"'not':{'not':{'not':", "}}"}, {"'allOf':[{'not':", "}]"}};

START_TEST(no_keyword_makes_a_bound_into_a_yes)
{
	const struct jschema_options few = {.max_steps = 300}, deep = {.max_depth = 20};
	struct jschema_failure f;
	char schema[300], *instance = nested("[", 60, "]"), *long_one = xmalloc(4006);

	snprintf(schema, sizeof schema,
		"{%s{'$ref':'#/$defs/d'}%s,'$defs':{'d':{'items':{'$ref':'#/$defs/d'}}}}", around[_i].before,
		around[_i].behind);
	ck_assert_msg(!schema_kit_check(schema, instance, &deep, &f), "%s", schema);
	ck_assert(f.is_limit && strstr(f.message, "nested too deeply") != NULL);
	snprintf(long_one, 4006, "['%04000d']", 0);
	snprintf(schema, sizeof schema, "{%s{'pattern':'(0|1|01)*2','items':{'pattern':'(0|1|01)*2'}}%s}",
		around[_i].before, around[_i].behind);
	ck_assert_msg(!schema_kit_check(schema, long_one, &few, &f), "%s", schema);
	ck_assert(f.is_limit && strstr(f.message, "more work") != NULL);
	free(instance);
	free(long_one);
}
END_TEST

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Each schema doubles the one before: 2^40 without a bound. */
START_TEST(a_schema_that_multiplies_its_own_work_is_stopped)
{
	struct buf b = {0};
	struct jschema_failure f;
	double began;

	buf_add_text(&b, "{'$ref':'#/$defs/d0','$defs':{");
	for (int i = 0; i < 40; i++)
		buf_addf(&b, "'d%d':{'anyOf':[{'$ref':'#/$defs/d%d'},{'$ref':'#/$defs/d%d'}]},", i, i + 1,
			i + 1);
	buf_add_text(&b, "'d40':false}}");
	began = seconds();
	ck_assert(!schema_kit_check(buf_text(&b), "1", NULL, &f));
	ck_assert(f.is_limit);
	ck_assert_msg(seconds() - began < 5, "%.1f s", seconds() - began);
	buf_fini(&b);
}
END_TEST

START_TEST(many_items_are_told_apart_in_time)
{
	struct buf b = {0};
	double began;

	buf_add_text(&b, "[");
	for (int i = 0; i < 100000; i++)
		buf_addf(&b, "%s%d", i > 0 ? "," : "", i);
	buf_add_text(&b, "]");
	began = seconds();
	ck_assert(schema_kit_check("{'uniqueItems':true}", buf_text(&b), NULL, NULL));
	ck_assert_msg(seconds() - began < 5, "%.1f s", seconds() - began);
	buf_fini(&b);
}
END_TEST

START_TEST(a_dynamic_reference_that_never_descends_ends_at_a_bound)
{
	struct jschema_failure f;

	ck_assert(!schema_kit_check(
		"{'$id':'http://x/"
		"r','$dynamicAnchor':'a','$ref':'s','$defs':{'s':{'$id':'s','$dynamicRef':'#a','$defs':"
		"{'a':{'$dynamicAnchor':'a'}}}}}",
		"1", NULL, &f));
	ck_assert(f.is_limit);
}
END_TEST

/* ---- many members at once, many threads at once ---- */

START_TEST(sets_of_evaluated_members_grow_with_the_instance)
{
	struct buf b = {0};
	struct jschema_failure f;
	const char *schema =
		"{'anyOf':[{'patternProperties':{'^a':true}},{'patternProperties':{'^b':true}}],"
		"'unevaluatedProperties':false}";

	buf_add_text(&b, "{");
	for (int i = 0; i < 20000; i++)
		buf_addf(&b, "'%c%d':0,", i % 2 ? 'a' : 'b', i);
	buf_add_text(&b, "'a':1}");
	ck_assert_msg(schema_kit_check(schema, buf_text(&b), NULL, &f), "%s", f.message);
	b.size -= 6;
	buf_add_text(&b, "'c':1}");
	ck_assert(!schema_kit_check(schema, buf_text(&b), NULL, &f));
	ck_assert_str_eq(f.property, "c");
	buf_fini(&b);
}
END_TEST

START_TEST(properties_evaluated_outside_are_kept_while_sets_grow_inside)
{
	struct buf b = {0};
	struct jschema_failure f;

	buf_add_text(&b, "{'a':1,'big':{");
	for (int i = 0; i < 9000; i++)
		buf_addf(&b, "%s'n%d':0", i > 0 ? "," : "", i);
	buf_add_text(&b, "},'b':1}");
	ck_assert_msg(
		schema_kit_check("{'properties':{'a':true,'b':true,'big':{'patternProperties':{'^n':true},'"
				 "unevaluatedProperties':false}},"
				 "'unevaluatedProperties':false}",
			buf_text(&b), NULL, &f),
		"%s", f.message);
	buf_fini(&b);
}
END_TEST

static void *check_often(void *arg)
{
	const struct jschema *js = arg;
	json_t *good = schema_kit_json("{'a':[1,2,{'b':'xyx'}],'c':{'d':1}}"),
	       *bad = schema_kit_json("{'a':[1,2,{'b':'xyz'}],'e':1}");
	struct jschema_failure f;
	intptr_t wrong = 0;

	for (int i = 0; i < 2000; i++)
		wrong += !jschema_check(js, good, &f) + jschema_check(js, bad, &f);
	json_decref(good);
	json_decref(bad);
	return (void *)wrong;
}

START_TEST(threads_share_a_compiled_schema)
{
	struct jschema *js = schema_kit_schema(
		"{'properties':{'a':{'items':{'anyOf':[{'type':'integer'},{'properties':{'b':{'pattern':"
		"'^(?=x)[xy]+$'}}}]},'uniqueItems':true}},'allOf':[{'properties':{'c':{'const':{'d':1}}}}],'"
		"unevaluatedProperties':false}",
		NULL);
	pthread_t threads[4];
	void *wrong;

	for (int i = 0; i < 4; i++)
		ck_assert(pthread_create(&threads[i], NULL, check_often, js) == 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		ck_assert_ptr_null(wrong);
	}
	jschema_free(js);
}
END_TEST

START_TEST(the_schema_may_be_changed_and_freed_after_it_was_compiled)
{
	json_t *v = schema_kit_json("{'enum':[{'a':'b'}],'required':['a']}"),
	       *instance = schema_kit_json("{'a':'b'}");
	char why[JSCHEMA_WHY_SIZE];
	struct jschema *js = jschema_compile(v, NULL, why, sizeof why);

	json_object_clear(v);
	json_decref(v);
	ck_assert(jschema_check(js, instance, NULL));
	json_decref(instance);
	jschema_free(js);
}
END_TEST

START_TEST(formats_assert_only_where_that_is_asked_for)
{
	const struct jschema_options on = {.assert_formats = true};
	struct jschema_failure f;

	ck_assert(schema_kit_check("{'format':'ipv4'}", "'x'", NULL, NULL));
	ck_assert(!schema_kit_check("{'format':'ipv4'}", "'x'", &on, &f));
	ck_assert_str_eq(f.message, "the value must have the format ipv4");
	ck_assert(schema_kit_check("{'format':'ipv4'}", "'127.0.0.1'", &on, NULL));
	ck_assert(schema_kit_check("{'format':'hostname'}", "'-'", &on, NULL));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(
		t, the_first_failure_is_told_by_pointers_keyword_and_a_sentence, 0, COUNT(failures));
	tcase_add_test(t, messages_repeat_no_text_of_the_instance_and_clean_its_names);
	tcase_add_loop_test(t, numbers_are_compared_by_value_without_rounding, 0, COUNT(numbers));
	tcase_add_test(t, more_required_names_than_bits_are_all_looked_for);
	tcase_add_test(t, an_instance_nested_beyond_the_bound_fails_and_says_so);
	tcase_add_loop_test(t, no_keyword_makes_a_bound_into_a_yes, 0, COUNT(around));
	tcase_add_test(t, a_schema_that_multiplies_its_own_work_is_stopped);
	tcase_add_test(t, many_items_are_told_apart_in_time);
	tcase_add_test(t, a_dynamic_reference_that_never_descends_ends_at_a_bound);
	tcase_add_test(t, sets_of_evaluated_members_grow_with_the_instance);
	tcase_add_test(t, properties_evaluated_outside_are_kept_while_sets_grow_inside);
	tcase_add_test(t, threads_share_a_compiled_schema);
	tcase_add_test(t, the_schema_may_be_changed_and_freed_after_it_was_compiled);
	tcase_add_test(t, formats_assert_only_where_that_is_asked_for);
}

int main(void)
{
	return schema_kit_run("jschema", add_tests);
}
