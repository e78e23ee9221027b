/* SPDX-License-Identifier: MIT */
/* test_output_check.c: outputs that lack what was promised are told apart, by where and by whose wish. */
#include "policy/output_check.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "jschema/jschema.h"

static const struct {
	const char *expected, *output_schema, *outputs;
	const char *against; /* NULL: they fit */
	const char *says, *missing;
} cases[] = {
	{"{}", "{}", "{}", NULL, NULL, NULL},
	{"null", "{}", "{}", NULL, NULL, NULL},
	{"{\"required_fields\":[]}", "{}", "{}", NULL, NULL, NULL},
	{"{\"required_fields\":[\"a\"]}", "{}", "{\"a\":null}", NULL, NULL, NULL},
	{"{\"required_fields\":[\"a\",\"b\"]}", "{}", "{\"a\":1}", "expected_output.required_fields",
		"lack /b", "\"/b\""},
	{"{\"required_fields\":[\"a\",\"b\"]}", "{}", "{\"c\":1}", "expected_output.required_fields",
		"lack /a, /b", "\"/a\",\"/b\""},
	{"{\"required_fields\":[\"a/b~c\"]}", "{}", "{}", "expected_output.required_fields", "lack /a~1b~0c",
		"\"/a~1b~0c\""},
	{"{\"required_fields\":[\"a/b~c\"]}", "{}", "{\"a/b~c\":0}", NULL, NULL, NULL},
	{"{\"required_fields\":[\"/a/0/b\"]}", "{}", "{\"a\":[{\"b\":0}]}", NULL, NULL, NULL},
	{"{\"required_fields\":[\"/a/1/b\"]}", "{}", "{\"a\":[{\"b\":0}]}", "expected_output.required_fields",
		"/a/1/b", "\"/a/1/b\""},
	{"{\"required_fields\":[\"/x\"]}", "{}", "{\"/x\":1}", NULL, NULL, NULL},
	{"{\"schema\":{\"properties\":{\"n\":{\"maximum\":5}}}}", "{}", "{\"n\":5}", NULL, NULL, NULL},
	{"{\"schema\":{\"properties\":{\"n\":{\"maximum\":5}}}}", "{}", "{\"n\":6}", "expected_output.schema",
		"/n", ""},
	{"{\"schema\":{\"properties\":{\"o\":{\"required\":[\"k/\"]}}}}", "{}", "{\"o\":{}}",
		"expected_output.schema", "lack /o/k~1", "\"/o/k~1\""},
	{"{\"schema\":false}", "{}", "{}", "expected_output.schema", "the outputs do not fit", ""},
	{"{}", "{\"required\":[\"summary\"]}", "{}", "the capability's output_schema", "lack /summary",
		"\"/summary\""},
	{"{}", "{\"type\":\"array\"}", "{}", "the capability's output_schema", "at \"\"", ""},
	/* the caller's own words come first */
	{"{\"required_fields\":[\"a\"],\"schema\":false}", "false", "{}", "expected_output.required_fields",
		"/a", "\"/a\""},
	{"{\"required_fields\":[\"a\"],\"schema\":{\"required\":[\"b\"]}}", "false", "{\"a\":1}",
		"expected_output.schema", "/b", "\"/b\""},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(outputs_fit_or_it_is_said_what_is_missing) /* proves L4-02 */
{
	json_t *expected = json_loads(cases[_i].expected, JSON_DECODE_ANY, NULL),
	       *outputs = json_loads(cases[_i].outputs, 0, NULL);
	json_t *schema = json_loads(cases[_i].output_schema, JSON_DECODE_ANY, NULL);
	struct jschema *js;
	struct output_check *e;
	struct output_failure f;
	char why[JSCHEMA_WHY_SIZE];
	bool fit;

	js = jschema_compile(schema, NULL, why, sizeof why);
	e = output_check_new(expected, why, sizeof why);
	ck_assert(js != NULL && e != NULL);
	fit = output_check_run(e, js, outputs, &f);
	ck_assert_msg(fit == (cases[_i].against == NULL), "%s", f.message);
	if (!fit) {
		ck_assert_str_eq(f.against, cases[_i].against);
		ck_assert_msg(strstr(f.message, cases[_i].says) != NULL, "%s", f.message);
		ck_assert_str_eq(buf_text(&f.missing), cases[_i].missing);
	}
	output_failure_fini(&f);
	output_check_free(e);
	jschema_free(js);
	json_decref(schema);
	json_decref(expected);
	json_decref(outputs);
}
END_TEST

START_TEST(a_broken_schema_is_named_with_its_place)
{
	json_t *expected = json_loads("{\"schema\":{\"properties\":{\"a\":{\"type\":\"numbr\"}}}}", 0, NULL);
	char why[JSCHEMA_WHY_SIZE] = "";

	ck_assert(output_check_new(expected, why, sizeof why) == NULL);
	ck_assert_msg(strstr(why, "/properties/a/type") != NULL, "%s", why);
	json_decref(expected);
}
END_TEST

START_TEST(many_that_are_missing_and_long_names_stay_within_bounds)
{
	json_t *fields = json_array(), *expected, *outputs = json_object();
	char name[400], why[64];
	struct output_failure f;
	struct output_check *e;

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	for (int i = 0; i < 100; i++) {
		name[0] = (char)('a' + i % 26);
		json_array_append_new(fields, json_string(name));
	}
	expected = json_pack("{s:o}", "required_fields", fields);
	e = output_check_new(expected, why, sizeof why);
	ck_assert(!output_check_run(e, NULL, outputs, &f));
	ck_assert_uint_lt(f.missing.size, 16 * 260);
	ck_assert(strstr(f.message, "and more") != NULL);
	output_failure_fini(&f);
	output_check_free(e);
	json_decref(expected);
	json_decref(outputs);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("expect");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, outputs_fit_or_it_is_said_what_is_missing, 0, CASES);
	tcase_add_test(t, a_broken_schema_is_named_with_its_place);
	tcase_add_test(t, many_that_are_missing_and_long_names_stay_within_bounds);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
