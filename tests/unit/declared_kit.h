/* declared_kit.h: a part of a declaration out of text, and what was said about it. JSON is written with
 * single quotes. Everything is static: a test includes it once. */
#ifndef DECLARED_KIT_H
#define DECLARED_KIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "policy/declaration.h"
#include "json/text.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct buf said; /* E or W, then the text, a line each */

static inline json_t *parse(const char *text)
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

static inline void note(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	buf_addf(&said, "%c %s\n", is_error ? 'E' : 'W', text);
}

static inline struct declaration declare(void)
{
	buf_clear(&said);
	return (struct declaration){.path = "f", .say = note};
}

static inline int run_suite(const char *name, void (*add_tests)(TCase *t))
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
	buf_fini(&said);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
