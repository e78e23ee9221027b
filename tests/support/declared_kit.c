/* SPDX-License-Identifier: MIT */
/* declared_kit.c: what declared_kit.h declares. */
#include "support/declared_kit.h"

struct buf decl_said; /* E or W, then the text, a line each */

json_t *decl_parse(const char *text)
{
	char *copy = xstrdup(text), why[200];
	json_t *v;

	for (char *c = copy; *c != '\0'; c++)
		if (*c == '\'')
			*c = '"';
	v = jtext_parse(copy, strlen(copy), why, sizeof why);
	ck_assert_msg(v != NULL, "%s: %s", text, why);
	free(copy);
	return v;
}

static void decl_say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	buf_addf(&decl_said, "%c %s\n", is_error ? 'E' : 'W', text);
}

struct declaration decl_new(void)
{
	buf_clear(&decl_said);
	return (struct declaration){.path = "f", .say = decl_say};
}

int decl_run(const char *name, void (*add_tests)(TCase *t))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	add_tests(t);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	buf_fini(&decl_said);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
