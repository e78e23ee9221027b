/* config_kit.h: what the tests of the configuration share: a directory, a file in it that is loaded, and
 * what was said about it. Everything is static: a test includes it once. */
#ifndef CONFIG_KIT_H
#define CONFIG_KIT_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "config/config.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static char dir[256], path[300];
static struct buf said; /* E or W, then the text, a line each; the directory is shown as DIR */
static int errors, warnings;
static struct config *c;

static inline const char *in_dir(const char *name)
{
	static char full[400];

	snprintf(full, sizeof(full), "%s/%s", dir, name);
	return full;
}

static inline void put_file(const char *name, const void *text, size_t size, mode_t mode)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/hcpd-config-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/hcpd.ini", dir);
	said = (struct buf){0};
	errors = warnings = 0;
	c = NULL;
}

static void teardown(void)
{
	char command[300];

	config_free(c);
	buf_fini(&said);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

static void note(void *ctx, bool is_error, const char *text)
{
	const char *where;

	ck_assert_ptr_eq(ctx, &said);
	errors += is_error;
	warnings += !is_error;
	buf_add_text(&said, is_error ? "E " : "W ");
	while ((where = strstr(text, dir))) {
		buf_add(&said, text, (size_t)(where - text));
		buf_add_text(&said, "DIR");
		text = where + strlen(dir);
	}
	buf_addf(&said, "%s\n", text);
}

static inline struct config *load(const char *text)
{
	put_file("hcpd.ini", text, strlen(text), 0600);
	config_free(c);
	buf_clear(&said);
	errors = warnings = 0;
	c = config_load(path, note, &said);
	ck_assert_msg((c == NULL) == (errors > 0), "%s", buf_text(&said));
	return c;
}

/* A whole configuration around some lines, which begin at line 2 of their section. */
#define DAEMON "[daemon]\ncallee_id = demo\n"
#define CAPABILITY "[capability x]\ndeclaration = x.json\ncommand = x\n"
#define CALLER "[caller a]\ncapabilities = x\namqp_user = a\n"
#define GOOD DAEMON CAPABILITY CALLER

static inline int config_run(const char *name, void (*add_tests)(TCase *t))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	unsetenv("CREDENTIALS_DIRECTORY");
	unsetenv("HCPD_TEST_UNSET");
	tcase_add_checked_fixture(t, setup, teardown);
	add_tests(t);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
