/* SPDX-License-Identifier: MIT */
/* config_kit.c: what config_kit.h declares. */
#include "support/config_kit.h"

char cfg_dir[256], cfg_path[300];
struct buf cfg_said; /* E or W, then the text, a line each; the directory is shown as DIR */
int cfg_errors, cfg_warnings;
struct config *cfg;

const char *cfg_in_dir(const char *name)
{
	static char full[400];

	snprintf(full, sizeof(full), "%s/%s", cfg_dir, name);
	return full;
}

void cfg_put_file(const char *name, const void *text, size_t size, mode_t mode)
{
	int fd = open(cfg_in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void cfg_setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(cfg_dir, sizeof(cfg_dir), "%s/hcpd-config-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(cfg_dir));
	snprintf(cfg_path, sizeof(cfg_path), "%s/hcpd.ini", cfg_dir);
	cfg_said = (struct buf){0};
	cfg_errors = cfg_warnings = 0;
	cfg = NULL;
}

static void cfg_teardown(void)
{
	char command[300];

	config_free(cfg);
	buf_fini(&cfg_said);
	snprintf(command, sizeof(command), "rm -rf '%s'", cfg_dir);
	ck_assert_int_eq(system(command), 0);
}

void cfg_say(void *ctx, bool is_error, const char *text)
{
	const char *where;

	ck_assert_ptr_eq(ctx, &cfg_said);
	cfg_errors += is_error;
	cfg_warnings += !is_error;
	buf_add_text(&cfg_said, is_error ? "E " : "W ");
	while ((where = strstr(text, cfg_dir))) {
		buf_add(&cfg_said, text, (size_t)(where - text));
		buf_add_text(&cfg_said, "DIR");
		text = where + strlen(cfg_dir);
	}
	buf_addf(&cfg_said, "%s\n", text);
}

struct config *cfg_load(const char *text)
{
	cfg_put_file("hcpd.ini", text, strlen(text), 0600);
	config_free(cfg);
	buf_clear(&cfg_said);
	cfg_errors = cfg_warnings = 0;
	cfg = config_load(cfg_path, cfg_say, &cfg_said);
	ck_assert_msg((cfg == NULL) == (cfg_errors > 0), "%s", buf_text(&cfg_said));
	return cfg;
}

int cfg_run(const char *name, void (*add_tests)(TCase *t))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	unsetenv("CREDENTIALS_DIRECTORY");
	unsetenv("HCPD_TEST_UNSET");
	tcase_add_checked_fixture(t, cfg_setup, cfg_teardown);
	add_tests(t);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
