/* SPDX-License-Identifier: MIT */
/* test_config_secrets.c: the broker's URL, passwords and environments: where they come from, and that no
 * message ever shows one. */
#include "support/config_kit.h"

/* --- URL and password --- */

static const struct {
	const char *url, *host;
	int port;
	const char *user, *password, *vhost, *shown;
} urls[] = {
	{"amqp://", "localhost", 5672, "guest", "guest", "/", "amqp://guest:***@localhost:5672/%2F"},
	{"amqps://", "localhost", 5671, "guest", "guest", "/", "amqps://guest:***@localhost:5671/%2F"},
	{"amqp://localhost/", "localhost", 5672, "guest", "guest", "/", NULL},
	{"amqp://u:p@localhost:1/v", "localhost", 1, "u", "p", "v", "amqp://u:***@localhost:1/v"},
	{"amqp://u%40x:p%2Fq%3a%25@localhost/%2fhcp", "localhost", 5672, "u@x", "p/q:%", "/hcp", NULL},
	{"amqp://u:p@q@localhost", "localhost", 5672, "u", "p@q", "/", NULL},
	{"amqp://u:a:b@localhost", "localhost", 5672, "u", "a:b", "/", NULL},
	{"amqp://u:@localhost", "localhost", 5672, "u", "", "/", NULL},
	{"amqp://[::1]:5673/v", "::1", 5673, "guest", "guest", "v", "amqp://guest:***@[::1]:5673/v"},
	{"amqp://u:p@[::1]", "::1", 5672, "u", "p", "/", NULL},
	{"amqp://localhost:", "localhost", 5672, "guest", "guest", "/", NULL},
	{"amqp://localhost:65535", "localhost", 65535, "guest", "guest", "/", NULL},
	{"\"amqp://u:p;q@localhost/a b\"", "localhost", 5672, "u", "p;q", "a b", NULL},
};

START_TEST(a_url_is_taken_apart)
{
	char text[300];

	snprintf(text, sizeof(text), GOOD "[amqp]\nurl = %s\n", urls[_i].url);
	cfg_load(text);
	ck_assert_msg(cfg_errors == 0, "%s", buf_text(&cfg_said));
	ck_assert_str_eq(cfg->amqp.host, urls[_i].host);
	ck_assert_int_eq(cfg->amqp.port, urls[_i].port);
	ck_assert_str_eq(cfg->amqp.user, urls[_i].user);
	ck_assert_str_eq(cfg->amqp.password, urls[_i].password);
	ck_assert_str_eq(cfg->amqp.vhost, urls[_i].vhost);
	if (urls[_i].shown)
		ck_assert_str_eq(cfg->amqp.url, urls[_i].shown);
}
END_TEST

static const char *const bad_urls[] = {
	"",
	"hunter2",
	"http://u:hunter2@h",
	"amqp:/u:hunter2@h",
	"AMQP://u:hunter2@h",
	"amqp://u:hunter2@h:0",
	"amqp://u:hunter2@h:65536",
	"amqp://u:hunter2@h:x",
	"amqp://u:hunter2@h:5672x",
	"amqp://u:hunter2/x@h",
	"amqp://u:hunter2%zz@h",
	"amqp://u:hunter2%4",
	"amqp://u:hunter2%@h",
	"amqp://u:hunter2%00@h",
	"amqp://:hunter2@h",
	"amqp://u:hunter2@[::1",
	"amqp://u:hunter2@[::1]x",
	"amqp://u:hunter2@h/a/b",
	"amqp://u:hunter2@h/v?heartbeat=1",
	"amqp://u:hunter2@h?x",
	"amqp://u:hunter2@h/%",
	"amqp://u:hunter2#x@h/",
	"amqp://hunter2@h",
	"amqp://u:hunter2@h%1:3",
};

START_TEST(a_bad_url_is_refused_and_its_password_never_printed)
{
	char text[300];

	snprintf(text, sizeof(text), GOOD "[amqp]\nurl = %s\n", bad_urls[_i]);
	cfg_load(text);
	ck_assert_msg(cfg_errors == 1 && strstr(buf_text(&cfg_said), "hcpd.ini:10: "), "%s: %s", bad_urls[_i],
		buf_text(&cfg_said));
	ck_assert_msg(!strstr(buf_text(&cfg_said), "hunter2"), "%s", buf_text(&cfg_said));
}
END_TEST

START_TEST(a_password_comes_from_a_file_or_a_credential_and_wins)
{
	cfg_put_file("pw", "from file\r\n", 11, 0600);
	cfg_load(GOOD "[amqp]\nurl = amqp://u:hunter2@127.0.0.1\npassword_file = pw\n");
	ck_assert_str_eq(buf_text(&cfg_said), "");
	ck_assert_str_eq(cfg->amqp.password, "from file");
	cfg_put_file("cred", "from systemd", 12, 0400);
	setenv("CREDENTIALS_DIRECTORY", cfg_dir, 1);
	cfg_load(GOOD "[amqp]\nurl = amqp://u@127.0.0.1\npassword_file = credential:cred\n");
	ck_assert_str_eq(buf_text(&cfg_said), "");
	ck_assert_str_eq(cfg->amqp.password, "from systemd");
	cfg_put_file("pw", "x", 1, 0644);
	cfg_load(GOOD "[amqp]\npassword_file = pw\n");
	ck_assert_msg(cfg_warnings == 1 && strstr(buf_text(&cfg_said), "can be read by everybody"), "%s",
		buf_text(&cfg_said));
	cfg_put_file("pw", "two\nlines\n", 10, 0600);
	cfg_load(GOOD "[amqp]\npassword_file = pw\n");
	ck_assert_msg(cfg_errors == 1 && !strstr(buf_text(&cfg_said), "two"), "%s", buf_text(&cfg_said));
	cfg_put_file("pw", "\n", 1, 0600);
	cfg_load(GOOD "[amqp]\npassword_file = pw\n");
	ck_assert_int_eq(cfg_errors, 1);
}
END_TEST

START_TEST(a_password_in_a_file_for_all_eyes_is_warned_about)
{
	static const char with[] = GOOD "[amqp]\nurl = amqp://u:hunter2@127.0.0.1\n";

	cfg_put_file("hcpd.ini", with, sizeof(with) - 1, 0644);
	cfg = config_load(cfg_path, cfg_say, &cfg_said);
	ck_assert_msg(cfg_warnings == 1 &&
			strstr(buf_text(&cfg_said), ":10: the url has a password and this file can be read"),
		"%s", buf_text(&cfg_said));
	ck_assert_ptr_null(strstr(buf_text(&cfg_said), "hunter2"));
	cfg_load(with);
	ck_assert_int_eq(cfg_warnings, 0);
}
END_TEST

/* --- environment --- */

START_TEST(env_wins_over_pass_env_and_that_over_env_file)
{
	static const char file[] =
		"\xef\xbb\xbf# secrets\r\n\r\nA=file\r\nB=file\nC=file # no comment\n  "
		"D='in quotes'\nE=\"q \\\" q\"\nF=\nA=again";

	cfg_put_file("x.env", file, sizeof(file) - 1, 0600);
	setenv("B", "passed", 1);
	setenv("C", "passed", 1);
	cfg_load(GOOD "[capability x]\nenv = C=env G='two words' H=\nenv_file = x.env\npass_env = B,C\n");
	ck_assert_str_eq(buf_text(&cfg_said), "");
	for (int i = 0; i < 8; i++) {
		static const char *const want[] = {
			"A=again", "B=passed", "C=env", "D=in quotes", "E=q \" q", "F=", "G=two words", "H="};

		ck_assert_str_eq(cfg->capabilities[0].env[i], want[i]);
	}
	ck_assert_ptr_null(cfg->capabilities[0].env[8]);
}
END_TEST

START_TEST(an_env_file_that_others_may_read_is_an_error)
{
	static const mode_t modes[] = {0640, 0604, 0660, 0644, 0601, 0610};

	for (int i = 0; i < COUNT(modes); i++) {
		cfg_put_file("x.env", "KEY=hunter2\n", 12, modes[i]);
		cfg_load(GOOD "[capability x]\nenv_file = x.env\n");
		ck_assert_msg(cfg_errors == 1 && strstr(buf_text(&cfg_said), "chmod 600"), "%o: %s", modes[i],
			buf_text(&cfg_said));
	}
	cfg_put_file("x.env", "KEY=hunter2\n", 12, 0400);
	cfg_load(GOOD "[capability x]\nenv_file = x.env\n");
	ck_assert_int_eq(cfg_errors, 0);
}
END_TEST

START_TEST(bad_lines_of_an_env_file_are_told_without_their_text)
{
	static const char file[] = "A=1\nhunter2\nHCP_X=hunter2\nexport B=hunter2\n1=hunter2\n";

	cfg_put_file("x.env", file, sizeof(file) - 1, 0600);
	cfg_load(GOOD "[capability x]\nenv_file = x.env\n");
	ck_assert_msg(cfg_errors == 4, "%s", buf_text(&cfg_said));
	ck_assert_ptr_nonnull(
		strstr(buf_text(&cfg_said), "hcpd.ini:10: env_file DIR/x.env:2: this is no NAME=value line"));
	ck_assert_ptr_nonnull(strstr(buf_text(&cfg_said), "DIR/x.env:3: names with HCP_"));
	ck_assert_ptr_nonnull(strstr(buf_text(&cfg_said), "DIR/x.env:5: "));
	ck_assert_ptr_null(strstr(buf_text(&cfg_said), "hunter2"));
	cfg_put_file("x.env", "A=\0b\n", 5, 0600);
	cfg_load(GOOD "[capability x]\nenv_file = x.env\n");
	ck_assert_msg(cfg_errors == 1 && strstr(buf_text(&cfg_said), "NUL"), "%s", buf_text(&cfg_said));
}
END_TEST

START_TEST(a_secret_given_with_a_wrong_key_is_not_printed)
{
	cfg_load(GOOD
		"[amqp]\npasword = hunter2\npassword_file = hunter2\n"
		"[capability x]\nenv = hunter2 HCP_KEY=hunter2\npass_env = KEY=hunter2\n");
	ck_assert_msg(cfg_errors == 5, "%s", buf_text(&cfg_said));
	ck_assert_ptr_null(strstr(buf_text(&cfg_said), "hunter2"));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, a_url_is_taken_apart, 0, COUNT(urls));
	tcase_add_loop_test(t, a_bad_url_is_refused_and_its_password_never_printed, 0, COUNT(bad_urls));
	tcase_add_test(t, a_password_comes_from_a_file_or_a_credential_and_wins);
	tcase_add_test(t, a_password_in_a_file_for_all_eyes_is_warned_about);
	tcase_add_test(t, env_wins_over_pass_env_and_that_over_env_file);
	tcase_add_test(t, an_env_file_that_others_may_read_is_an_error);
	tcase_add_test(t, bad_lines_of_an_env_file_are_told_without_their_text);
	tcase_add_test(t, a_secret_given_with_a_wrong_key_is_not_printed);
}

int main(void)
{
	return cfg_run("config_secrets", add_tests);
}
