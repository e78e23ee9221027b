/* SPDX-License-Identifier: MIT */
/* test_config.c: the INI file as a struct: defaults, keys, sections, paths, and the sample. What is wrong
 * in a file: test_config_errors.c. Secrets: test_config_secrets.c. */
#include "support/config_kit.h"

#include "config/table_private.h"
#include "base/duration.h"

#define S INT64_C(1000000)

START_TEST(the_least_that_is_needed_gives_every_default)
{
	cfg_load(GOOD);
	ck_assert_str_eq(buf_text(&cfg_said), "");
	ck_assert_str_eq(cfg->path, cfg_path);
	ck_assert_str_eq(cfg->callee_id, "demo");
	ck_assert_str_eq(cfg->state_dir, "/var/lib/hcpd");
	ck_assert_int_eq(cfg->max_sessions, 256);
	ck_assert_int_eq(cfg->max_pending, 10000);
	ck_assert_int_eq(cfg->stop_timeout_us, 30 * S);
	ck_assert_int_eq(cfg->dedup_window_us, 86400 * S);
	ck_assert_int_eq(cfg->log_level, LOG_LVL_INFO);
	ck_assert_str_eq(cfg->cgroup, "auto");
	ck_assert_str_eq(cfg->amqp.url, "amqp://guest:***@127.0.0.1:5672/%2F");
	ck_assert_str_eq(cfg->amqp.host, "127.0.0.1");
	ck_assert_str_eq(cfg->amqp.vhost, "/");
	ck_assert_str_eq(cfg->amqp.user, "guest");
	ck_assert_str_eq(cfg->amqp.password, "guest");
	ck_assert_int_eq(cfg->amqp.port, 5672);
	ck_assert(!cfg->amqp.tls && cfg->amqp.verify && cfg->amqp.sasl == SASL_PLAIN);
	ck_assert(!cfg->amqp.ca_file && !cfg->amqp.cert_file && !cfg->amqp.key_file);
	ck_assert_int_eq(cfg->amqp.heartbeat_s, 30);
	ck_assert_int_eq(cfg->amqp.queue_type, QUEUE_CLASSIC);
	ck_assert_int_eq(cfg->amqp.reconnect_max_us, 60 * S);
	ck_assert_int_eq(cfg->amqp.prefetch, 200);
	ck_assert_int_eq(cfg->amqp.window_messages, 1000);
	ck_assert_int_eq(cfg->amqp.window_bytes, 1 << 20);
	ck_assert_int_eq(cfg->store_on_error, STORE_RETRY);
	ck_assert_int_eq(cfg->max_duration_us, 3600 * S);
	ck_assert_int_eq(cfg->idle_timeout_us, 0);
	ck_assert_int_eq(cfg->abort_timeout_us, 30 * S);
	ck_assert_int_eq(cfg->exit_grace_us, 5 * S);
	ck_assert_int_eq(cfg->max_outbox, 64 << 20);
	ck_assert_int_eq(cfg->max_outbox_total, 1 << 30);
	ck_assert_int_eq(cfg->max_message, 1 << 20);
	ck_assert_int_eq(cfg->max_line, 4 << 20);
	ck_assert_int_eq(cfg->max_lines_total, 64 << 20);
	ck_assert_int_eq(cfg->max_depth, 64);
	ck_assert_int_eq(cfg->max_checkpoint, 3 << 20);
	ck_assert_int_eq(cfg->max_text_output, 64 << 10);
	ck_assert_uint_eq(cfg->capability_count, 1);
	ck_assert_int_eq(cfg->capabilities[0].protocol, PROTOCOL_HCP);
	ck_assert_int_eq(cfg->capabilities[0].recovery, RECOVERY_RESUME);
	ck_assert_int_eq(cfg->capabilities[0].reuse, 1);
	ck_assert_int_eq(cfg->capabilities[0].keep_workdir, KEEP_FAILED);
	ck_assert_int_eq(cfg->capabilities[0].workdir, WORKDIR_LOCAL);
	ck_assert_int_eq(cfg->capabilities[0].line, 3);
	ck_assert_str_eq(cfg->capabilities[0].path, cfg_path);
	ck_assert_ptr_null(cfg->capabilities[0].env[0]);
	ck_assert_int_eq(cfg->callers[0].max_risk, R3);
	ck_assert_int_eq(cfg->callers[0].line, 6);
}
END_TEST

START_TEST(every_key_can_be_set)
{
	cfg_put_file("ca.pem", "x", 1, 0644);
	cfg_put_file("cl.pem", "x", 1, 0644);
	cfg_put_file("cl.key", "x", 1, 0600);
	cfg_put_file("pw", "se cret\n", 8, 0600);
	cfg_put_file("x.env", "# c\nA=1\n", 8, 0600);
	setenv("TEST_PASSED", "p", 1);
	cfg_load(
		"[daemon]\ncallee_id = a-b_C9\nstate_dir = st\nmax_sessions = 1\nmax_pending = "
		"2\nstop_timeout "
		"= PT1M\n"
		"dedup_window = 2h\nlog_level = debug\ncgroup = /sys/fs/cgroup/x\n"
		"[amqp]\nurl = amqps://u@h/%2Fhcp\npassword_file = pw\nsasl = external\nca_file = "
		"ca.pem\ncert_file = cl.pem\n"
		"key_file = cl.key\nverify = off\nheartbeat = 10\nqueue_type = quorum\nreconnect_max = "
		"5s\nprefetch = 65535\n"
		"window_messages = 7\nwindow_bytes = 2M\n[store]\non_error = exit\n"
		"[session]\nmax_duration = 2d\nidle_timeout = 5m\nabort_timeout = 10s\nexit_grace = "
		"0\nmax_outbox = 2MiB\n"
		"max_outbox_total = 3MiB\n[limits]\nmessage = 512KiB\nline = 1MiB\nlines_total = "
		"2097152\njson_depth = 32\n"
		"checkpoint_state = 100k\ntext_output = 4096\n"
		"[capability x]\ndeclaration = d/x.json\ncommand = ./bin/x --a 'b c'\nprotocol = "
		"hcp\nrecovery "
		"= fail\nreuse = 9\nlandlock = no\n"
		"env = B=2\npass_env = TEST_PASSED\nenv_file = x.env\nkeep_workdir = always\n"
		"[caller a]\ncapabilities = x\nmax_risk = R5\namqp_user = \"a b\"\n");
	ck_assert_msg(cfg_errors == 0 && cfg_warnings == 1 && strstr(buf_text(&cfg_said), "verify = no"),
		"%s", buf_text(&cfg_said));
	ck_assert_str_eq(cfg->callee_id, "a-b_C9");
	ck_assert_str_eq(cfg->state_dir, cfg_in_dir("st"));
	ck_assert(cfg->max_sessions == 1 && cfg->max_pending == 2 && cfg->stop_timeout_us == 60 * S);
	ck_assert(cfg->dedup_window_us == 7200 * S && cfg->log_level == LOG_LVL_DEBUG);
	ck_assert_str_eq(cfg->cgroup, "/sys/fs/cgroup/x");
	ck_assert(cfg->amqp.tls && !cfg->amqp.verify && cfg->amqp.sasl == SASL_EXTERNAL &&
		cfg->amqp.port == 5671);
	ck_assert_str_eq(cfg->amqp.vhost, "/hcp");
	ck_assert_str_eq(cfg->amqp.password, "se cret");
	ck_assert_str_eq(cfg->amqp.ca_file, cfg_in_dir("ca.pem"));
	ck_assert_str_eq(cfg->amqp.cert_file, cfg_in_dir("cl.pem"));
	ck_assert_str_eq(cfg->amqp.key_file, cfg_in_dir("cl.key"));
	ck_assert(cfg->amqp.heartbeat_s == 10 && cfg->amqp.queue_type == QUEUE_QUORUM &&
		cfg->amqp.reconnect_max_us == 5 * S);
	ck_assert(cfg->amqp.prefetch == 65535 && cfg->amqp.window_messages == 7 &&
		cfg->amqp.window_bytes == 2 << 20);
	ck_assert(cfg->store_on_error == STORE_EXIT && cfg->max_duration_us == 172800 * S &&
		cfg->idle_timeout_us == 300 * S);
	ck_assert(cfg->abort_timeout_us == 10 * S && cfg->exit_grace_us == 0 && cfg->max_outbox == 2 << 20);
	ck_assert(cfg->max_outbox_total == 3 << 20 && cfg->max_message == 512 << 10 &&
		cfg->max_line == 1 << 20);
	ck_assert(
		cfg->max_lines_total == 2 << 20 && cfg->max_depth == 32 && cfg->max_checkpoint == 100 << 10);
	ck_assert_int_eq(cfg->max_text_output, 4096);
	ck_assert_str_eq(cfg->capabilities[0].declaration, cfg_in_dir("d/x.json"));
	ck_assert_str_eq(cfg->capabilities[0].command[0], cfg_in_dir("bin/x"));
	ck_assert_str_eq(cfg->capabilities[0].command[2], "b c");
	ck_assert_ptr_null(cfg->capabilities[0].command[3]);
	ck_assert(cfg->capabilities[0].recovery == RECOVERY_FAIL && cfg->capabilities[0].reuse == 9);
	ck_assert_int_eq(cfg->capabilities[0].keep_workdir, KEEP_ALWAYS);
	ck_assert_str_eq(cfg->capabilities[0].env[0], "A=1");
	ck_assert_str_eq(cfg->capabilities[0].env[1], "TEST_PASSED=p");
	ck_assert_str_eq(cfg->capabilities[0].env[2], "B=2");
	ck_assert_ptr_null(cfg->capabilities[0].env[3]);
	ck_assert_int_eq(cfg->callers[0].max_risk, R5);
	ck_assert_str_eq(cfg->callers[0].amqp_user, "a b");
}
END_TEST

START_TEST(sessions_of_a_reused_process_may_go_without_a_directory)
{
	cfg_load(DAEMON CAPABILITY "landlock = no\nreuse = 2\nworkdir = no\nkeep_workdir = never\n" CALLER);
	ck_assert_msg(cfg_errors == 0, "%s", buf_text(&cfg_said));
	ck_assert_int_eq(cfg->capabilities[0].workdir, WORKDIR_NO);
}
END_TEST

/* --- sections --- */

START_TEST(a_section_may_come_again_and_a_later_key_wins)
{
	cfg_load(DAEMON
		"max_sessions = 1\n[amqp]\n[daemon]\nmax_sessions = 3\nmax_sessions = 4\n" CAPABILITY CALLER
		"[capability x]\nreuse = 5\n[store]\n[caller a]\nmax_risk = R1\n");
	ck_assert_int_eq(cfg_errors, 0);
	ck_assert_int_eq(cfg->max_sessions, 4);
	ck_assert_uint_eq(cfg->capability_count, 1);
	ck_assert_int_eq(cfg->capabilities[0].reuse, 5);
	ck_assert_str_eq(cfg->capabilities[0].command[0], "x");
	ck_assert_uint_eq(cfg->caller_count, 1);
	ck_assert_int_eq(cfg->callers[0].max_risk, R1);
}
END_TEST

START_TEST(a_bad_value_that_a_later_one_replaces_does_no_harm)
{
	cfg_load(GOOD "[daemon]\nmax_sessions = x\nmax_sessions = 4\n");
	ck_assert_int_eq(cfg_errors, 0);
}
END_TEST

START_TEST(crlf_a_byte_order_mark_and_comments_change_nothing)
{
	cfg_load(
		"\xef\xbb\xbf; c\r\n[daemon] ; c\r\ncallee_id = demo ; c\r\n# c\r\nstate_dir = \"/a ; b\" # "
		"c\r\n" CAPABILITY CALLER);
	ck_assert_str_eq(buf_text(&cfg_said), "");
	ck_assert_str_eq(cfg->callee_id, "demo");
	ck_assert_str_eq(cfg->state_dir, "/a ; b");
}
END_TEST

START_TEST(the_exact_caller_wins_over_any)
{
	cfg_load(DAEMON CAPABILITY
		"[capability y.z-1]\ndeclaration = y\ncommand = y\n[caller *]\ncapabilities = *\n"
		"[caller a]\ncapabilities = x\n[caller b:c_d-9]\n");
	ck_assert_int_eq(cfg_errors, 0);
	ck_assert_str_eq(config_find_caller(cfg, "a")->name, "a");
	ck_assert_str_eq(config_find_caller(cfg, "b:c_d-9")->name, "b:c_d-9");
	ck_assert_str_eq(config_find_caller(cfg, "zz")->name, "*");
	ck_assert(config_caller_may(config_find_caller(cfg, "a"), "x"));
	ck_assert(!config_caller_may(config_find_caller(cfg, "a"), "y.z-1"));
	ck_assert(config_caller_may(config_find_caller(cfg, "zz"), "y.z-1"));
	ck_assert(!config_caller_may(config_find_caller(cfg, "b:c_d-9"), "x"));
	ck_assert_str_eq(config_find_capability(cfg, "y.z-1")->name, "y.z-1");
	ck_assert_ptr_null(config_find_capability(cfg, "y"));
	cfg_load(GOOD);
	ck_assert_ptr_null(config_find_caller(cfg, "zz"));
}
END_TEST

START_TEST(names_of_128_characters_are_the_longest)
{
	char text[800], name[130];

	memset(name, 'n', sizeof(name));
	name[128] = '\0';
	snprintf(text, sizeof(text),
		"[daemon]\ncallee_id = %s\n[capability %s]\ndeclaration = x\ncommand = x\n[caller %s]\n",
		name, name, name);
	cfg_load(text);
	ck_assert_int_eq(cfg_errors, 0);
	memset(name, 'n', sizeof(name));
	name[129] = '\0';
	snprintf(text, sizeof(text), "[daemon]\ncallee_id = %s\n[capability %s]\n[caller %s]\n", name, name,
		name);
	cfg_load(text);
	ck_assert_int_eq(cfg_errors, 3);
}
END_TEST

START_TEST(a_default_gives_way_to_what_is_written_beside_it)
{
	cfg_load(GOOD "[limits]\nline = 64KiB\nmessage = 32KiB\n");
	ck_assert_msg(cfg_errors == 0, "%s", buf_text(&cfg_said));
	ck_assert_int_eq(cfg->max_checkpoint, 64 << 10);
	ck_assert_int_eq(cfg->max_text_output, 32 << 10);
	cfg_load(GOOD "[limits]\nline = 128MiB\n[session]\nmax_outbox = 2GiB\n");
	ck_assert_msg(cfg_errors == 0, "%s", buf_text(&cfg_said));
	ck_assert_int_eq(cfg->max_lines_total, 128 << 20);
	ck_assert_int_eq(cfg->max_outbox_total, INT64_C(2) << 30);
}
END_TEST

/* --- paths --- */

START_TEST(relative_paths_begin_at_the_file_not_the_working_directory)
{
	char before[300];

	cfg_load(
		"[daemon]\ncallee_id = d\nstate_dir = s\n[capability x]\ndeclaration = ./d/x.json\ncommand = "
		"bin/x y/z\n"
		"[capability y]\ndeclaration = /abs\ncommand = sh -c a/b\n");
	ck_assert_str_eq(cfg->capabilities[0].declaration, cfg_in_dir("d/x.json"));
	ck_assert_str_eq(cfg->capabilities[0].command[0], cfg_in_dir("bin/x"));
	ck_assert_str_eq(cfg->capabilities[0].command[1], "y/z");
	ck_assert_str_eq(cfg->capabilities[1].declaration, "/abs");
	ck_assert_str_eq(cfg->capabilities[1].command[0], "sh");

	ck_assert_ptr_nonnull(getcwd(before, sizeof(before)));
	ck_assert_int_eq(chdir(cfg_dir), 0);
	config_free(cfg);
	cfg = config_load("hcpd.ini", cfg_say, &cfg_said);
	ck_assert_int_eq(chdir(before), 0);
	ck_assert_str_eq(cfg->state_dir, cfg_in_dir("s"));
}
END_TEST

/* --- the table and the sample --- */

START_TEST(every_default_is_within_its_range_and_every_key_has_help)
{
	struct config_reader r = {.path = "table", .dir = cfg_dir};
	union {
		struct config config;
		struct config_capability capability;
		struct config_caller caller;
	} base;

	for (size_t i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];

		memset(&base, 0, sizeof(base));
		ck_assert_msg(k->help || k->choices || k->type == TYPE_BOOL, "%s", k->name);
		ck_assert_ptr_eq(config_find_key(k->kind, k->name), k); /* no key twice */
		if (k->fallback)
			ck_assert_msg(config_convert(&r, k, k->fallback, 0, &base), "%s", k->name);
		config_free_fields(k->kind, &base);
	}
	ck_assert_uint_eq(r.message_count, 0);
}
END_TEST

/* The ;key = value lines of the sample are promises about defaults. */
START_TEST(the_sample_shows_the_defaults_of_the_table)
{
	FILE *f = fopen("etc/hcpd.ini", "re");
	char line[512], section[64] = "", key[64], value[256];
	int seen = 0;

	ck_assert_msg(f != NULL, "run this from the top of the tree");
	while (fgets(line, sizeof(line), f)) {
		const struct config_key *k;

		if (sscanf(line, "[%63[a-z]", section) == 1 || sscanf(line, ";[%63[a-z]", section) == 1 ||
			sscanf(line, ";%63[a-z_] = %255[^\n]", key, value) != 2)
			continue;
		k = config_find_key((enum config_kind)config_find_kind(section), key);
		ck_assert_msg(k != NULL, "[%s] %s", section, key);
		if (k->fallback)
			ck_assert_msg(strcmp(k->fallback, value) == 0, "[%s] %s: %s, not %s", section, key,
				k->fallback, value);
		seen += k->fallback != NULL;
	}
	fclose(f);
	ck_assert_int_ge(seen, 30);
}
END_TEST

START_TEST(the_sample_loads_with_one_warning)
{
	cfg = config_load("etc/hcpd.ini", cfg_say, &cfg_said);
	ck_assert_msg(cfg && cfg_errors == 0 && cfg_warnings == 1, "%s", buf_text(&cfg_said));
	ck_assert_ptr_nonnull(strstr(buf_text(&cfg_said), "[caller *] has no amqp_user"));
	ck_assert_uint_eq(cfg->capability_count, 3);
}
END_TEST

START_TEST(loading_twice_gives_two_that_do_not_know_each_other)
{
	struct config *first = cfg_load(GOOD), *second;

	cfg = NULL;
	second = cfg_load(GOOD "[daemon]\nmax_sessions = 2\n");
	ck_assert_int_eq(first->max_sessions, 256);
	ck_assert_int_eq(second->max_sessions, 2);
	config_free(first);
	ck_assert_str_eq(second->capabilities[0].name, "x");
	config_free(NULL);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, the_least_that_is_needed_gives_every_default);
	tcase_add_test(t, every_key_can_be_set);
	tcase_add_test(t, sessions_of_a_reused_process_may_go_without_a_directory);
	tcase_add_test(t, a_section_may_come_again_and_a_later_key_wins);
	tcase_add_test(t, a_bad_value_that_a_later_one_replaces_does_no_harm);
	tcase_add_test(t, crlf_a_byte_order_mark_and_comments_change_nothing);
	tcase_add_test(t, the_exact_caller_wins_over_any);
	tcase_add_test(t, names_of_128_characters_are_the_longest);
	tcase_add_test(t, a_default_gives_way_to_what_is_written_beside_it);
	tcase_add_test(t, relative_paths_begin_at_the_file_not_the_working_directory);
	tcase_add_test(t, every_default_is_within_its_range_and_every_key_has_help);
	tcase_add_test(t, the_sample_shows_the_defaults_of_the_table);
	tcase_add_test(t, the_sample_loads_with_one_warning);
	tcase_add_test(t, loading_twice_gives_two_that_do_not_know_each_other);
}

int main(void)
{
	return cfg_run("config", add_tests);
}
