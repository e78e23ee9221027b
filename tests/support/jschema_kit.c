/* SPDX-License-Identifier: MIT */
/* jschema_kit.c: what jschema_kit.h declares. */
#include "support/jschema_kit.h"

json_t *schema_kit_json(const char *text)
{
	char *copy = xstrdup(text), why[200];
	json_t *v;

	for (char *p = copy; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	v = jtext_parse(copy, strlen(copy), why, sizeof why);
	ck_assert_msg(v != NULL, "%s: %s", text, why);
	free(copy);
	return v;
}

struct jschema *schema_kit_schema(const char *text, const struct jschema_options *o)
{
	char why[JSCHEMA_WHY_SIZE];
	json_t *v = schema_kit_json(text);
	struct jschema *js = jschema_compile(v, o, why, sizeof why);

	ck_assert_msg(js != NULL, "%s: %s", text, why);
	json_decref(v);
	return js;
}

bool schema_kit_check(
	const char *schema, const char *instance, const struct jschema_options *o, struct jschema_failure *f)
{
	struct jschema *js = schema_kit_schema(schema, o);
	json_t *v = schema_kit_json(instance);
	bool ok = jschema_check(js, v, f);

	json_decref(v);
	jschema_free(js);
	return ok;
}

int schema_kit_run(const char *name, void (*add)(TCase *t))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	SRunner *r = srunner_create(s);
	int failed;

	suite_add_tcase(s, t);
	add(t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
