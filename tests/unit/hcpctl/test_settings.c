/* SPDX-License-Identifier: MIT */
/* test_settings.c: which of options, environment and file wins, and what is wrong with them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "hcpctl/common/settings.h"

static char home[256], file[300];
static struct buf said;
static int error_count, warning_count;

static void say(void *ctx, bool is_error, const char *text)
{
	ck_assert_ptr_null(ctx);
	*(is_error ? &error_count : &warning_count) += 1;
	buf_addf(&said, "%s\n", text);
}

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");
	char dir[280];

	snprintf(home, sizeof home, "%s/ctl-settings-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(home));
	snprintf(dir, sizeof dir, "%s/hcp", home);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	snprintf(file, sizeof file, "%s/hcpctl.ini", dir);
	setenv("XDG_CONFIG_HOME", home, 1);
	unsetenv("HCP_URL");
	unsetenv("HCP_CALLER");
	unsetenv("HCP_CALLEE");
	unsetenv("HCP_SOCKET");
	unsetenv("HCP_DAEMON_CONFIG");
	buf_clear(&said);
	error_count = warning_count = 0;
}

static void end(void)
{
	char dir[280];

	unlink(file);
	snprintf(dir, sizeof dir, "%s/hcp", home);
	rmdir(dir);
	ck_assert_int_eq(rmdir(home), 0);
	buf_fini(&said);
}

static void write_ini(const char *text)
{
	FILE *f = fopen(file, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
	chmod(file, 0600);
}

static int load(struct ctl_settings *s, struct ctl_options o)
{
	return ctl_settings_load(s, &o, say, NULL);
}

START_TEST(without_anything_there_is_the_local_broker_and_nobody)
{
	struct ctl_settings s;

	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	ck_assert_str_eq(s.config->amqp.host, "127.0.0.1");
	ck_assert_int_eq(s.config->amqp.port, 5672);
	ck_assert_int_eq(s.config->amqp.heartbeat_s, 30);
	ck_assert_ptr_null(s.caller);
	ck_assert_ptr_null(s.callee);
	ck_assert_str_eq(s.path, file);
	ck_assert_str_eq(ctl_settings_user(&s), "guest");
	ctl_settings_fini(&s);
}
END_TEST

START_TEST(the_file_is_read)
{
	struct ctl_settings s;

	write_ini(
		"[hcpctl]\nurl = amqp://alpha:secret@127.0.0.9:1234/%2Fhcp ; mine\ncaller = "
		"from-file\ncallee = \"demo\"\n");
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	ck_assert_str_eq(s.config->amqp.host, "127.0.0.9");
	ck_assert_int_eq(s.config->amqp.port, 1234);
	ck_assert_str_eq(s.config->amqp.vhost, "/hcp");
	ck_assert_str_eq(s.config->amqp.password, "secret");
	ck_assert_ptr_null(strstr(s.config->amqp.url, "secret"));
	ck_assert_str_eq(s.caller, "from-file");
	ck_assert_str_eq(s.callee, "demo");
	ck_assert_str_eq(ctl_settings_user(&s), "alpha");
	ctl_settings_fini(&s);
}
END_TEST

START_TEST(the_environment_wins_over_the_file_and_options_over_both)
{
	struct ctl_settings s;

	write_ini("[hcpctl]\nurl = amqp://h1\ncaller = c1\ncallee = d1\n");
	setenv("HCP_URL", "amqp://127.0.0.2", 1);
	setenv("HCP_CALLER", "c2", 1);
	setenv("HCP_CALLEE", "d2", 1);
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	ck_assert_str_eq(s.config->amqp.host, "127.0.0.2");
	ck_assert_str_eq(s.caller, "c2");
	ck_assert_str_eq(s.callee, "d2");
	ctl_settings_fini(&s);

	ck_assert_int_eq(
		load(&s, (struct ctl_options){.url = "amqp://127.0.0.3", .caller = "c3", .callee = "d3"}), 0);
	ck_assert_str_eq(s.config->amqp.host, "127.0.0.3");
	ck_assert_str_eq(s.caller, "c3");
	ck_assert_str_eq(s.callee, "d3");
	ctl_settings_fini(&s);

	setenv("HCP_CALLER", "", 1); /* as good as none */
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	ck_assert_str_eq(s.caller, "c1");
	ctl_settings_fini(&s);
}
END_TEST

START_TEST(the_daemons_paths_are_found_in_the_same_order)
{
	struct ctl_settings s;
	char expected[300];

	write_ini("[hcpctl]\nsocket = run/c.sock\ndaemon_config = /etc/other.ini\n");
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	snprintf(expected, sizeof expected, "%s/hcp/run/c.sock", home);
	ck_assert_str_eq(s.socket, expected);
	ck_assert_str_eq(s.daemon_config, "/etc/other.ini");
	ctl_settings_fini(&s);
	setenv("HCP_SOCKET", "from-env", 1);
	setenv("HCP_DAEMON_CONFIG", "env.ini", 1);
	ck_assert_int_eq(load(&s, (struct ctl_options){.daemon_config = "option.ini"}), 0);
	ck_assert_str_eq(s.socket, "from-env");
	ck_assert_str_eq(s.daemon_config, "option.ini");
	ctl_settings_fini(&s);
}
END_TEST

START_TEST(the_directory_is_the_homes_where_xdg_says_nothing)
{
	struct ctl_settings s;
	char want[300];

	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", home, 1);
	snprintf(want, sizeof want, "%s/.config/hcp", home);
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	ck_assert_str_eq(s.home, want);
	ctl_settings_fini(&s);
}
END_TEST

START_TEST(a_file_that_an_option_names_must_be_there)
{
	struct ctl_settings s;

	ck_assert_int_eq(load(&s, (struct ctl_options){.config = "/nonexistent/x.ini"}), -1);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "/nonexistent/x.ini cannot be read"));
}
END_TEST

START_TEST(every_error_is_told_with_its_place)
{
	struct ctl_settings s;
	char want[400];

	write_ini("[hcpctl]\nurll = x\ncaller = a.b\ncallee = a b\n[amqp]\nverify = no\n");
	setenv("HCP_URL", "http://host", 1);
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), -1);
	ck_assert_int_eq(error_count, 5);
	snprintf(want, sizeof want, "%s:2: [hcpctl] has no key urll; did you mean url?\n", file);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), want));
	snprintf(want, sizeof want, "%s:3: caller a.b does not do", file);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), want));
	snprintf(want, sizeof want, "%s:4: callee a b does not do", file);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), want));
	snprintf(want, sizeof want, "%s:5: there is no section [amqp]", file);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), want));
	ck_assert_ptr_nonnull(
		strstr(buf_text(&said), "HCP_URL: url does not do: it does not begin with amqp://"));
}
END_TEST

START_TEST(a_bad_name_in_an_option_or_variable_names_it)
{
	struct ctl_settings s;

	setenv("HCP_CALLEE", "a.b", 1);
	ck_assert_int_eq(load(&s, (struct ctl_options){.caller = "x y"}), -1);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "--caller: caller x y does not do"));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "HCP_CALLEE: callee a.b does not do"));
}
END_TEST

START_TEST(a_certificates_user_is_the_brokers_to_say)
{
	struct ctl_settings s;
	char text[1200];

	snprintf(text, sizeof text,
		"[hcpctl]\nurl = amqps://127.0.0.1\nsasl = external\ncert_file = %s\nkey_file = hcpctl.ini\n",
		file);
	write_ini(text);
	ck_assert_int_eq(load(&s, (struct ctl_options){0}), 0);
	ck_assert(s.config->amqp.verify);
	ck_assert_str_eq(s.config->amqp.key_file, file); /* relative to the file */
	ck_assert_ptr_null(ctl_settings_user(&s));
	ctl_settings_fini(&s);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_settings");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, without_anything_there_is_the_local_broker_and_nobody);
	tcase_add_test(tc, the_file_is_read);
	tcase_add_test(tc, the_environment_wins_over_the_file_and_options_over_both);
	tcase_add_test(tc, the_daemons_paths_are_found_in_the_same_order);
	tcase_add_test(tc, the_directory_is_the_homes_where_xdg_says_nothing);
	tcase_add_test(tc, a_file_that_an_option_names_must_be_there);
	tcase_add_test(tc, every_error_is_told_with_its_place);
	tcase_add_test(tc, a_bad_name_in_an_option_or_variable_names_it);
	tcase_add_test(tc, a_certificates_user_is_the_brokers_to_say);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
