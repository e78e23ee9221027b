/* SPDX-License-Identifier: MIT */
/* test_config_errors.c: every mistake in a configuration is told with its line and what would be right,
 * every doubt as a warning. */
#include "support/config_kit.h"

/* --- errors --- */

static const struct {
	const char *text;
	const char *expected[4]; /* parts of what is said */
	int errors;
} wrong[] = {
	{"", {"hcpd.ini: [daemon] needs callee_id;"}, 1},
	{"[daemon]\n", {"hcpd.ini:1: [daemon] needs callee_id;"}, 1},
	{"[daemon]\ncallee_id = a.b\n", {"hcpd.ini:2: callee_id = a.b does not do; write 1 to 128 letters"},
		1},
	{"[daemon]\ncallee_id =\n", {"hcpd.ini:2: callee_id"}, 1},
	{"[daemon]\ncallee_id = demo\nmax_session = 3\n",
		{":3: [daemon] has no key max_session; did you mean max_sessions?"}, 1},
	{"[daemon]\ncallee_id = demo\nheartbeat = 3\n",
		{":3: [daemon] has no key heartbeat; it belongs in [amqp]"}, 1},
	{"[daemon]\ncallee_id = demo\nqwertyuiop = 3\n", {":3: [daemon] has no key qwertyuiop; hcpd.ini(5)"},
		1},
	{DAEMON "[daemn]\nx = y\n", {":3: there is no section [daemn]; did you mean [daemon]?"}, 1},
	{DAEMON "[something]\n", {":3: there is no section [something]; there are daemon, amqp"}, 1},
	{DAEMON "[amqp x]\n", {":3: [amqp x] has a name too many; write [amqp]"}, 1},
	{DAEMON "[capability]\n", {":3: [capability] has no name; write [capability NAME]"}, 1},
	{DAEMON "[capability a b]\n", {":3: [capability a b] does not do"}, 1},
	{DAEMON "[capability *]\n", {":3: [capability *] does not do"}, 1},
	{DAEMON "[caller a.b]\n", {":3: [caller a.b] does not do; a name is 1 to 128 letters"}, 1},
	{DAEMON "[caller #]\n", {":3: [caller #] does not do"}, 1},
	{"x = 1\n" DAEMON, {":1: x stands before the first section"}, 1},
	{DAEMON "[amqp\nheartbeat = x\n", {":3: a section's head has no ]"}, 1},
	{DAEMON "nonsense\n", {":3: this is no section, key or comment"}, 1},
	{DAEMON "max_sessions = 0\n",
		{":3: max_sessions = 0 is too little; write a whole number from 1 to 100000"}, 1},
	{DAEMON "max_sessions = 100001\n", {":3: max_sessions = 100001 is too much"}, 1},
	{DAEMON "max_sessions = many\n", {":3: max_sessions = many is not understood"}, 1},
	{DAEMON "max_sessions = -1\n", {":3:"}, 1},
	{DAEMON "max_sessions = 1.5\n", {":3:"}, 1},
	{DAEMON "max_sessions = 0x10\n", {":3:"}, 1},
	{DAEMON "max_sessions =\n", {":3:"}, 1},
	{DAEMON "max_sessions = 99999999999999999999\n", {":3:"}, 1},
	{DAEMON "stop_timeout = 30\n",
		{":3: stop_timeout = 30 is not understood; write a duration like 30s", "100ms to P1D"}, 1},
	{DAEMON "stop_timeout = 0\n", {":3: stop_timeout = 0 is too little"}, 1},
	{DAEMON "stop_timeout = P1M\n", {":3: stop_timeout = P1M is not understood"}, 1},
	{DAEMON "log_level = loud\n",
		{":3: log_level = loud is not known; write one of error, warn, info, debug"}, 1},
	{DAEMON "cgroup = relative\n", {":3: cgroup = relative does not do; write auto, off"}, 1},
	{DAEMON "[amqp]\nheartbeat = 0\n",
		{":4: heartbeat = 0 is too little", "0 would leave a dead connection unnoticed"}, 1},
	{DAEMON "[amqp]\nverify = maybe\n", {":4: verify = maybe is not understood; write yes or no"}, 1},
	{DAEMON "[amqp]\nqueue_type = Quorum\n",
		{":4: queue_type = Quorum is not known; write one of classic, quorum"}, 1},
	{DAEMON "[amqp]\nprefetch = 65536\n", {":4:"}, 1},
	{DAEMON "[amqp]\nwindow_bytes = 1MB\n", {":4: window_bytes = 1MB is not understood"}, 1},
	{DAEMON "[amqp]\ncert_file = /dev/null\n", {":4: cert_file without key_file"}, 1},
	{DAEMON "[amqp]\nkey_file = /dev/null\n", {":4: key_file without cert_file"}, 1},
	{DAEMON "[amqp]\nca_file = nowhere.pem\n",
		{":4: ca_file DIR/nowhere.pem cannot be read: No such file"}, 1},
	{DAEMON "[amqp]\nsasl = external\n", {":4: sasl = external needs amqps:// and a client certificate"},
		1},
	{DAEMON "[amqp]\nsasl = external\nurl = amqps://127.0.0.1\n", {":4: sasl = external needs"}, 1},
	{DAEMON "[amqp]\npassword_file = nowhere\n", {":4: password_file cannot be read: No such file"}, 1},
	{DAEMON "[amqp]\npassword_file = credential:../x\n", {":4: password_file names no credential"}, 1},
	{DAEMON "[amqp]\npassword_file = credential:x\n",
		{":4:", "CREDENTIALS_DIRECTORY is not set", "LoadCredential=x"}, 1},
	{DAEMON "[store]\non_error = ignore\n",
		{":4: on_error = ignore is not known; write one of retry, exit"}, 1},
	{DAEMON "[session]\nmax_duration = 0\n",
		{":4: max_duration = 0 is too little", "there is no unlimited"}, 1},
	{DAEMON "[limits]\nline = 1MiB\ncheckpoint_state = 2MiB\n", {":5: checkpoint_state is above line"},
		1},
	{DAEMON "[limits]\ncheckpoint_state = 5MiB\n", {":4: checkpoint_state is above line"}, 1},
	{DAEMON "[limits]\nline = 4MiB\nlines_total = 1MiB\n",
		{":4: [limits] line is above [limits] lines_total"}, 1},
	{DAEMON "[limits]\nmessage = 64KiB\ntext_output = 65KiB\n",
		{":5: [limits] text_output is above [limits] message"}, 1},
	{DAEMON "[session]\nmax_outbox = 2GiB\nmax_outbox_total = 1GiB\n",
		{":4: [session] max_outbox is above [session] max_outbox_total"}, 1},
	{DAEMON "nonsense\nmax_sessions = x\n", {":3: this is no section", ":4: max_sessions = x"}, 2},
	{DAEMON "[capability x]\n",
		{":3: [capability x] needs declaration;", ":3: [capability x] needs command;"}, 2},
	{DAEMON CAPABILITY "command = 'x\n", {":6: command cannot be split into words: a ' is not closed"},
		1},
	{DAEMON CAPABILITY "command =\n", {":6: command cannot be split into words: it is empty"}, 1},
	{DAEMON CAPABILITY "command = ''\n", {":6: command cannot be split into words: it is empty"}, 1},
	{DAEMON CAPABILITY "state_version = 2\nmigrate.1-2 =\n", {":7: migrate cannot be split into words"},
		1},
	{DAEMON CAPABILITY "state_version = 2\nmigrate.1 = /bin/true\n",
		{":7: migrate.1 is not understood; write migrate.FROM-TO with two versions, as in "
		 "migrate.1-2"},
		1},
	{DAEMON CAPABILITY "state_version = 2\nmigrate.x-2 = /bin/true\nmigrate.2-2 = /bin/true\n",
		{":7: migrate.x-2 is not understood", ":8: migrate.2-2 is not understood"}, 2},
	{DAEMON CAPABILITY "migrate.1-2 = /bin/true\n",
		{":6: migrate.1-2 without state_version: there is nothing to migrate to"}, 1},
	{DAEMON CAPABILITY
		"state_version = 4\nmigrate.1-2 = /bin/true\nmigrate.3-4 = /bin/true\nmigrat.1-2 = x\n",
		{":7: migrate.1-2 is of no use: no further step leads to state_version 4", ":9:"}, 1},
	{DAEMON CAPABILITY "state_version = 2\nmigrate =\n",
		{":7: migrate cannot be split into words: it is empty; write a program that brings a state"},
		1},
	{DAEMON CAPABILITY "state_version = 2\nmigrate = \"\"\n",
		{":7: migrate cannot be split into words: it is empty"}, 1},
	{DAEMON CAPABILITY "state_version = 2\nmigrate = \"x\n",
		{":7: migrate cannot be split into words: a \" is not closed"}, 1},
	{DAEMON CAPABILITY "checkpoint_interval = 1ms\n",
		{":6: checkpoint_interval = 1ms is too little; write a duration like 30s", "from 1s to ",
			"0 is off"},
		1},
	{DAEMON CAPABILITY "checkpoint_interval = 999ms\n", {":6: checkpoint_interval = 999ms is too little"},
		1},
	{DAEMON CAPABILITY "protocol = text\nreuse = 2\n", {":7: reuse = 2 with protocol = text"}, 1},
	{DAEMON CAPABILITY "reuse = 0\n", {":6: reuse = 0 is too little"}, 1},
	{DAEMON CAPABILITY "keep_workdir = yes\n", {":6: keep_workdir = yes is not known"}, 1},
	{DAEMON CAPABILITY "workdir = none\n", {":6: workdir = none is not known; write one of local, no"},
		1},
	{DAEMON CAPABILITY "workdir = no\n", {":6: workdir = no with reuse = 1"}, 1},
	{DAEMON CAPABILITY "landlock = no\nreuse = 2\nworkdir = no\nkeep_workdir = failed\n",
		{":9: keep_workdir with workdir = no"}, 1},
	{DAEMON CAPABILITY "env = A=1 HCP_X=2\n",
		{":6: env: names with HCP_ are hcpd's own; leave HCP_X out"}, 1},
	{DAEMON CAPABILITY "env = A=1 secret\n", {":6: env: word 2 is no NAME=value"}, 1},
	{DAEMON CAPABILITY "env = 1A=x =y A-B=z\n", {"word 1 is no", "word 2 is no", "word 3 is no"}, 3},
	{DAEMON CAPABILITY "env = A='x\n", {":6: env cannot be split into words"}, 1},
	{DAEMON CAPABILITY "pass_env = HCP_TOKEN A=1\n",
		{":6: pass_env: names with HCP_", ":6: pass_env: A=... is no name"}, 2},
	{DAEMON CAPABILITY "env_file = nowhere.env\n",
		{":6: env_file DIR/nowhere.env cannot be read: No such file"}, 1},
	{DAEMON CAPABILITY "[caller a]\ncapabilities = x, sumarize\n[capability summarize]\ndeclaration = "
			   "y\ncommand = y\n",
		{":7: there is no section [capability sumarize]; did you mean summarize?"}, 1},
	{DAEMON CAPABILITY "[caller a]\ncapabilities = translation\n",
		{":7: there is no section [capability translation]; add one"}, 1},
	{DAEMON CAPABILITY "[caller a]\ncapabilities = x\nmax_risk = R6\n",
		{":8: max_risk = R6 is not known; write one of R1, R2, R3, R4, R5"}, 1},
	{DAEMON CAPABILITY "[caller a]\ncapabilities = x\nmax_risk =\n", {":8: max_risk =  is not known"}, 1},
	{DAEMON CAPABILITY "[caller a]\ncapabilities = x\namqp_user =\n", {":8: amqp_user =  does not do"},
		1},
};

START_TEST(a_mistake_is_told_with_its_line_and_what_would_be_right)
{
	cfg_load(wrong[_i].text);
	ck_assert_msg(cfg_errors == wrong[_i].errors, "%s---\n%s", wrong[_i].text, buf_text(&cfg_said));
	for (int k = 0; k < 4 && wrong[_i].expected[k]; k++)
		ck_assert_msg(strstr(buf_text(&cfg_said), wrong[_i].expected[k]), "%s---\n%s--- lacks: %s",
			wrong[_i].text, buf_text(&cfg_said), wrong[_i].expected[k]);
}
END_TEST

START_TEST(all_mistakes_are_told_in_the_order_of_lines)
{
	static const char *const heads[] = {":2:", ":3:", ":4:", ":6:", ":8:", ":8:", ":11:"};
	const char *p;

	cfg_load(
		"[daemon]\nmax_sessions = x\nbogus = 1\ncallee_id = ?\n[amqp]\nheartbeat = 0\n\n[capability "
		"x]\nreuse = 1\n"
		"[caller a]\ncapabilities = y\namqp_user = a\n");
	ck_assert_int_eq(cfg_errors, COUNT(heads));
	p = buf_text(&cfg_said);
	for (int i = 0; i < COUNT(heads); i++, p = strchr(p, '\n') + 1)
		ck_assert_msg(strncmp(p, "E DIR/hcpd.ini", 14) == 0 &&
				strncmp(p + 14, heads[i], strlen(heads[i])) == 0,
			"%s", p);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_told)
{
	ck_assert_ptr_null(config_load(cfg_in_dir("none.ini"), cfg_say, &cfg_said));
	ck_assert_ptr_nonnull(strstr(
		buf_text(&cfg_said), "E DIR/none.ini: cannot be read: No such file or directory; name"));
	ck_assert_ptr_null(config_load(cfg_dir, cfg_say, &cfg_said));
	ck_assert_ptr_nonnull(strstr(buf_text(&cfg_said), "Is a directory"));
	ck_assert_int_eq(cfg_errors, 2);
}
END_TEST

START_TEST(broken_configuration_can_be_read_as_far_as_it_goes)
{
	bool good = true;

	cfg_put_file(
		"hcpd.ini", DAEMON CAPABILITY "reuse = 0\n", strlen(DAEMON CAPABILITY "reuse = 0\n"), 0600);
	cfg = config_load_partly(cfg_path, cfg_say, &cfg_said, &good);
	ck_assert(!good && cfg_errors == 1);
	ck_assert_ptr_nonnull(cfg);
	ck_assert_uint_eq(cfg->capability_count, 1);
	ck_assert_ptr_nonnull(cfg->capabilities[0].declaration);
	good = true;
	ck_assert_ptr_null(config_load_partly(cfg_in_dir("none.ini"), cfg_say, &cfg_said, &good));
	ck_assert(!good);
}
END_TEST

START_TEST(binary_rubbish_gives_errors_and_nothing_worse)
{
	char text[400];

	srandom(9);
	for (int i = 0; i < 300; i++) {
		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = (char)(random() % 3 ? random() : "\n[]= "[random() % 5]);
		cfg_put_file("hcpd.ini", text, sizeof(text), 0600);
		ck_assert_ptr_null(config_load(cfg_path, cfg_say, &cfg_said));
	}
	ck_assert_int_ge(cfg_errors, 300);
}
END_TEST

/* --- warnings --- */

static const struct {
	const char *text, *expected; /* NULL: none */
} warned[] = {
	{GOOD, NULL},
	{DAEMON CAPABILITY "[caller a]\ncapabilities = x\n",
		"W DIR/hcpd.ini:6: [caller a] has no amqp_user: its identity is not checked"},
	{DAEMON CAPABILITY "[caller a]\namqp_user = a\n",
		"W DIR/hcpd.ini:6: [caller a] may use no capability"},
	{DAEMON, "W DIR/hcpd.ini: there is no [capability NAME] section"},
	{DAEMON CAPABILITY, "W DIR/hcpd.ini: there is no [caller NAME] section"},
	{GOOD "[limits]\nmessage = 17MiB\n", "W DIR/hcpd.ini:10: message is above 16MiB"},
	{GOOD "[limits]\nmessage = 16MiB\n", NULL},
	{GOOD "[amqp]\nurl = amqps://127.0.0.1\nverify = no\n", "W DIR/hcpd.ini:11: verify = no"},
	{GOOD "[amqp]\nca_file = /dev/null\n",
		"W DIR/hcpd.ini:9: certificates are given but the url is plain"},
	{GOOD "[capability x]\npass_env = HCPD_TEST_UNSET\n",
		"W DIR/hcpd.ini:10: pass_env: HCPD_TEST_UNSET is not set"},
	{GOOD "[capability x]\ncommand = a | b\n", "W DIR/hcpd.ini:10: command has the word |"},
};

START_TEST(doubtful_configuration_loads_with_a_warning)
{
	cfg_load(warned[_i].text);
	ck_assert_msg(
		cfg_errors == 0 && cfg_warnings == (warned[_i].expected != NULL), "%s", buf_text(&cfg_said));
	if (warned[_i].expected)
		ck_assert_msg(strstr(buf_text(&cfg_said), warned[_i].expected), "%s", buf_text(&cfg_said));
}
END_TEST

static const struct {
	const char *url;
	bool is_warned;
} plain[] = {
	{"amqp://broker.example", true},
	{"amqp://10.0.0.1", true},
	{"amqp://[2001:db8::1]", true},
	{"amqp://128.0.0.1", true},
	{"amqp://127.0.0.1.example.org", true},
	{"amqp://0.0.0.0", true},
	{"amqp://localhost", false},
	{"amqp://LOCALHOST", false},
	{"amqp://127.0.0.1", false},
	{"amqp://127.9.9.9:1", false},
	{"amqp://[::1]", false},
	{"amqps://broker.example", false},
};

START_TEST(plain_amqp_to_another_host_is_warned_about) /* proves L1-12 */
{
	char text[300];

	snprintf(text, sizeof(text), GOOD "[amqp]\nurl = %s\n", plain[_i].url);
	cfg_load(text);
	ck_assert_int_eq(cfg_errors, 0);
	ck_assert_msg((strstr(buf_text(&cfg_said), "W DIR/hcpd.ini:10: plain amqp:// to ") != NULL) ==
			plain[_i].is_warned,
		"%s: %s", plain[_i].url, buf_text(&cfg_said));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, a_mistake_is_told_with_its_line_and_what_would_be_right, 0, COUNT(wrong));
	tcase_add_test(t, all_mistakes_are_told_in_the_order_of_lines);
	tcase_add_test(t, a_file_that_cannot_be_read_is_told);
	tcase_add_test(t, broken_configuration_can_be_read_as_far_as_it_goes);
	tcase_add_test(t, binary_rubbish_gives_errors_and_nothing_worse);
	tcase_add_loop_test(t, doubtful_configuration_loads_with_a_warning, 0, COUNT(warned));
	tcase_add_loop_test(t, plain_amqp_to_another_host_is_warned_about, 0, COUNT(plain));
}

int main(void)
{
	return cfg_run("config_errors", add_tests);
}
