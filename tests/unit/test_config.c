/* test_config.c: the INI file as a struct, and every error told with its line. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "config_table.h"
#include "duration.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define S INT64_C(1000000)

static char dir[256], path[300];
static struct buf said; /* E or W, then the text, a line each; the directory is shown as DIR */
static int errors, warnings;
static struct config *c;

static const char *in_dir(const char *name)
{
	static char full[400];

	snprintf(full, sizeof(full), "%s/%s", dir, name);
	return full;
}

static void put_file(const char *name, const void *text, size_t size, mode_t mode)
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

static struct config *load(const char *text)
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

START_TEST(the_least_that_is_needed_gives_every_default)
{
	load(GOOD);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_str_eq(c->path, path);
	ck_assert_str_eq(c->callee_id, "demo");
	ck_assert_str_eq(c->state_dir, "/var/lib/hcpd");
	ck_assert_int_eq(c->max_sessions, 256);
	ck_assert_int_eq(c->max_pending, 10000);
	ck_assert_int_eq(c->stop_timeout_us, 30 * S);
	ck_assert_int_eq(c->dedup_window_us, 86400 * S);
	ck_assert_int_eq(c->log_level, LOG_LVL_INFO);
	ck_assert_str_eq(c->cgroup, "auto");
	ck_assert_str_eq(c->amqp.url, "amqp://guest:***@127.0.0.1:5672/%2F");
	ck_assert_str_eq(c->amqp.host, "127.0.0.1");
	ck_assert_str_eq(c->amqp.vhost, "/");
	ck_assert_str_eq(c->amqp.user, "guest");
	ck_assert_str_eq(c->amqp.password, "guest");
	ck_assert_int_eq(c->amqp.port, 5672);
	ck_assert(!c->amqp.tls && c->amqp.verify && c->amqp.sasl == SASL_PLAIN);
	ck_assert(!c->amqp.ca_file && !c->amqp.cert_file && !c->amqp.key_file);
	ck_assert_int_eq(c->amqp.heartbeat_s, 30);
	ck_assert_int_eq(c->amqp.queue_type, QUEUE_CLASSIC);
	ck_assert_int_eq(c->amqp.reconnect_max_us, 60 * S);
	ck_assert_int_eq(c->amqp.prefetch, 200);
	ck_assert_int_eq(c->amqp.window_messages, 1000);
	ck_assert_int_eq(c->amqp.window_bytes, 1 << 20);
	ck_assert_int_eq(c->store_on_error, STORE_RETRY);
	ck_assert_int_eq(c->max_duration_us, 3600 * S);
	ck_assert_int_eq(c->idle_timeout_us, 0);
	ck_assert_int_eq(c->abort_timeout_us, 30 * S);
	ck_assert_int_eq(c->exit_grace_us, 5 * S);
	ck_assert_int_eq(c->max_outbox, 64 << 20);
	ck_assert_int_eq(c->max_outbox_total, 1 << 30);
	ck_assert_int_eq(c->max_message, 1 << 20);
	ck_assert_int_eq(c->max_line, 4 << 20);
	ck_assert_int_eq(c->max_lines_total, 64 << 20);
	ck_assert_int_eq(c->max_depth, 64);
	ck_assert_int_eq(c->max_checkpoint, 3 << 20);
	ck_assert_int_eq(c->max_text_output, 64 << 10);
	ck_assert_uint_eq(c->capability_count, 1);
	ck_assert_int_eq(c->capabilities[0].protocol, PROTOCOL_HCP);
	ck_assert_int_eq(c->capabilities[0].recovery, RECOVERY_RESUME);
	ck_assert_int_eq(c->capabilities[0].reuse, 1);
	ck_assert_int_eq(c->capabilities[0].keep_workdir, KEEP_FAILED);
	ck_assert_int_eq(c->capabilities[0].line, 3);
	ck_assert_str_eq(c->capabilities[0].path, path);
	ck_assert_ptr_null(c->capabilities[0].env[0]);
	ck_assert_int_eq(c->callers[0].max_risk, R3);
	ck_assert_int_eq(c->callers[0].line, 6);
}
END_TEST

START_TEST(every_key_can_be_set)
{
	put_file("ca.pem", "x", 1, 0644);
	put_file("cl.pem", "x", 1, 0644);
	put_file("cl.key", "x", 1, 0600);
	put_file("pw", "se cret\n", 8, 0600);
	put_file("x.env", "# c\nA=1\n", 8, 0600);
	setenv("TEST_PASSED", "p", 1);
	load("[daemon]\ncallee_id = a-b_C9\nstate_dir = st\nmax_sessions = 1\nmax_pending = 2\nstop_timeout "
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
	     "[capability x]\ndeclaration = d/x.json\ncommand = ./bin/x --a 'b c'\nprotocol = hcp\nrecovery "
	     "= fail\nreuse = 9\n"
	     "env = B=2\npass_env = TEST_PASSED\nenv_file = x.env\nkeep_workdir = always\n"
	     "[caller a]\ncapabilities = x\nmax_risk = R5\namqp_user = \"a b\"\n");
	ck_assert_msg(errors == 0 && warnings == 1 && strstr(buf_text(&said), "verify = no"), "%s",
		buf_text(&said));
	ck_assert_str_eq(c->callee_id, "a-b_C9");
	ck_assert_str_eq(c->state_dir, in_dir("st"));
	ck_assert(c->max_sessions == 1 && c->max_pending == 2 && c->stop_timeout_us == 60 * S);
	ck_assert(c->dedup_window_us == 7200 * S && c->log_level == LOG_LVL_DEBUG);
	ck_assert_str_eq(c->cgroup, "/sys/fs/cgroup/x");
	ck_assert(c->amqp.tls && !c->amqp.verify && c->amqp.sasl == SASL_EXTERNAL && c->amqp.port == 5671);
	ck_assert_str_eq(c->amqp.vhost, "/hcp");
	ck_assert_str_eq(c->amqp.password, "se cret");
	ck_assert_str_eq(c->amqp.ca_file, in_dir("ca.pem"));
	ck_assert_str_eq(c->amqp.cert_file, in_dir("cl.pem"));
	ck_assert_str_eq(c->amqp.key_file, in_dir("cl.key"));
	ck_assert(c->amqp.heartbeat_s == 10 && c->amqp.queue_type == QUEUE_QUORUM &&
		  c->amqp.reconnect_max_us == 5 * S);
	ck_assert(
		c->amqp.prefetch == 65535 && c->amqp.window_messages == 7 && c->amqp.window_bytes == 2 << 20);
	ck_assert(c->store_on_error == STORE_EXIT && c->max_duration_us == 172800 * S &&
		  c->idle_timeout_us == 300 * S);
	ck_assert(c->abort_timeout_us == 10 * S && c->exit_grace_us == 0 && c->max_outbox == 2 << 20);
	ck_assert(c->max_outbox_total == 3 << 20 && c->max_message == 512 << 10 && c->max_line == 1 << 20);
	ck_assert(c->max_lines_total == 2 << 20 && c->max_depth == 32 && c->max_checkpoint == 100 << 10);
	ck_assert_int_eq(c->max_text_output, 4096);
	ck_assert_str_eq(c->capabilities[0].declaration, in_dir("d/x.json"));
	ck_assert_str_eq(c->capabilities[0].command[0], in_dir("bin/x"));
	ck_assert_str_eq(c->capabilities[0].command[2], "b c");
	ck_assert_ptr_null(c->capabilities[0].command[3]);
	ck_assert(c->capabilities[0].recovery == RECOVERY_FAIL && c->capabilities[0].reuse == 9);
	ck_assert_int_eq(c->capabilities[0].keep_workdir, KEEP_ALWAYS);
	ck_assert_str_eq(c->capabilities[0].env[0], "A=1");
	ck_assert_str_eq(c->capabilities[0].env[1], "TEST_PASSED=p");
	ck_assert_str_eq(c->capabilities[0].env[2], "B=2");
	ck_assert_ptr_null(c->capabilities[0].env[3]);
	ck_assert_int_eq(c->callers[0].max_risk, R5);
	ck_assert_str_eq(c->callers[0].amqp_user, "a b");
}
END_TEST

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
	{DAEMON CAPABILITY "command = ''\n", {":6: command"}, 1},
	{DAEMON CAPABILITY "protocol = text\nreuse = 2\n", {":7: reuse = 2 with protocol = text"}, 1},
	{DAEMON CAPABILITY "reuse = 0\n", {":6: reuse = 0 is too little"}, 1},
	{DAEMON CAPABILITY "keep_workdir = yes\n", {":6: keep_workdir = yes is not known"}, 1},
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
	load(wrong[_i].text);
	ck_assert_msg(errors == wrong[_i].errors, "%s---\n%s", wrong[_i].text, buf_text(&said));
	for (int k = 0; k < 4 && wrong[_i].expected[k]; k++)
		ck_assert_msg(strstr(buf_text(&said), wrong[_i].expected[k]), "%s---\n%s--- lacks: %s",
			wrong[_i].text, buf_text(&said), wrong[_i].expected[k]);
}
END_TEST

START_TEST(all_mistakes_are_told_in_the_order_of_lines)
{
	static const char *const heads[] = {":2:", ":3:", ":4:", ":6:", ":8:", ":8:", ":11:"};
	const char *p;

	load("[daemon]\nmax_sessions = x\nbogus = 1\ncallee_id = ?\n[amqp]\nheartbeat = 0\n\n[capability "
	     "x]\nreuse = 1\n"
	     "[caller a]\ncapabilities = y\namqp_user = a\n");
	ck_assert_int_eq(errors, COUNT(heads));
	p = buf_text(&said);
	for (int i = 0; i < COUNT(heads); i++, p = strchr(p, '\n') + 1)
		ck_assert_msg(strncmp(p, "E DIR/hcpd.ini", 14) == 0 &&
				      strncmp(p + 14, heads[i], strlen(heads[i])) == 0,
			"%s", p);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_told)
{
	ck_assert_ptr_null(config_load(in_dir("none.ini"), note, &said));
	ck_assert_ptr_nonnull(
		strstr(buf_text(&said), "E DIR/none.ini: cannot be read: No such file or directory; name"));
	ck_assert_ptr_null(config_load(dir, note, &said));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "Is a directory"));
	ck_assert_int_eq(errors, 2);
}
END_TEST

START_TEST(binary_rubbish_gives_errors_and_nothing_worse)
{
	char text[400];

	srandom(9);
	for (int i = 0; i < 300; i++) {
		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = (char)(random() % 3 ? random() : "\n[]= "[random() % 5]);
		put_file("hcpd.ini", text, sizeof(text), 0600);
		ck_assert_ptr_null(config_load(path, note, &said));
	}
	ck_assert_int_ge(errors, 300);
}
END_TEST

/* --- sections --- */

START_TEST(a_section_may_come_again_and_a_later_key_wins)
{
	load(DAEMON
		"max_sessions = 1\n[amqp]\n[daemon]\nmax_sessions = 3\nmax_sessions = 4\n" CAPABILITY CALLER
		"[capability x]\nreuse = 5\n[store]\n[caller a]\nmax_risk = R1\n");
	ck_assert_int_eq(errors, 0);
	ck_assert_int_eq(c->max_sessions, 4);
	ck_assert_uint_eq(c->capability_count, 1);
	ck_assert_int_eq(c->capabilities[0].reuse, 5);
	ck_assert_str_eq(c->capabilities[0].command[0], "x");
	ck_assert_uint_eq(c->caller_count, 1);
	ck_assert_int_eq(c->callers[0].max_risk, R1);
}
END_TEST

START_TEST(a_bad_value_that_a_later_one_replaces_does_no_harm)
{
	load(GOOD "[daemon]\nmax_sessions = x\nmax_sessions = 4\n");
	ck_assert_int_eq(errors, 0);
}
END_TEST

START_TEST(crlf_a_byte_order_mark_and_comments_change_nothing)
{
	load("\xef\xbb\xbf; c\r\n[daemon] ; c\r\ncallee_id = demo ; c\r\n# c\r\nstate_dir = \"/a ; b\" # "
	     "c\r\n" CAPABILITY CALLER);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_str_eq(c->callee_id, "demo");
	ck_assert_str_eq(c->state_dir, "/a ; b");
}
END_TEST

START_TEST(the_exact_caller_wins_over_any)
{
	load(DAEMON CAPABILITY
		"[capability y.z-1]\ndeclaration = y\ncommand = y\n[caller *]\ncapabilities = *\n"
		"[caller a]\ncapabilities = x\n[caller b:c_d-9]\n");
	ck_assert_int_eq(errors, 0);
	ck_assert_str_eq(config_find_caller(c, "a")->name, "a");
	ck_assert_str_eq(config_find_caller(c, "b:c_d-9")->name, "b:c_d-9");
	ck_assert_str_eq(config_find_caller(c, "zz")->name, "*");
	ck_assert(config_caller_may(config_find_caller(c, "a"), "x"));
	ck_assert(!config_caller_may(config_find_caller(c, "a"), "y.z-1"));
	ck_assert(config_caller_may(config_find_caller(c, "zz"), "y.z-1"));
	ck_assert(!config_caller_may(config_find_caller(c, "b:c_d-9"), "x"));
	ck_assert_str_eq(config_find_capability(c, "y.z-1")->name, "y.z-1");
	ck_assert_ptr_null(config_find_capability(c, "y"));
	load(GOOD);
	ck_assert_ptr_null(config_find_caller(c, "zz"));
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
	load(text);
	ck_assert_int_eq(errors, 0);
	memset(name, 'n', sizeof(name));
	name[129] = '\0';
	snprintf(text, sizeof(text), "[daemon]\ncallee_id = %s\n[capability %s]\n[caller %s]\n", name, name,
		name);
	load(text);
	ck_assert_int_eq(errors, 3);
}
END_TEST

START_TEST(a_default_gives_way_to_what_is_written_beside_it)
{
	load(GOOD "[limits]\nline = 64KiB\nmessage = 16KiB\n");
	ck_assert_msg(errors == 0, "%s", buf_text(&said));
	ck_assert_int_eq(c->max_checkpoint, 64 << 10);
	ck_assert_int_eq(c->max_text_output, 16 << 10);
	load(GOOD "[limits]\nline = 128MiB\n[session]\nmax_outbox = 2GiB\n");
	ck_assert_msg(errors == 0, "%s", buf_text(&said));
	ck_assert_int_eq(c->max_lines_total, 128 << 20);
	ck_assert_int_eq(c->max_outbox_total, INT64_C(2) << 30);
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

START_TEST(what_is_doubtful_is_warned_about_and_loads)
{
	load(warned[_i].text);
	ck_assert_msg(errors == 0 && warnings == (warned[_i].expected != NULL), "%s", buf_text(&said));
	if (warned[_i].expected)
		ck_assert_msg(strstr(buf_text(&said), warned[_i].expected), "%s", buf_text(&said));
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
	load(text);
	ck_assert_int_eq(errors, 0);
	ck_assert_msg((strstr(buf_text(&said), "W DIR/hcpd.ini:10: plain amqp:// to ") != NULL) ==
			      plain[_i].is_warned,
		"%s: %s", plain[_i].url, buf_text(&said));
}
END_TEST

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
	load(text);
	ck_assert_msg(errors == 0, "%s", buf_text(&said));
	ck_assert_str_eq(c->amqp.host, urls[_i].host);
	ck_assert_int_eq(c->amqp.port, urls[_i].port);
	ck_assert_str_eq(c->amqp.user, urls[_i].user);
	ck_assert_str_eq(c->amqp.password, urls[_i].password);
	ck_assert_str_eq(c->amqp.vhost, urls[_i].vhost);
	if (urls[_i].shown)
		ck_assert_str_eq(c->amqp.url, urls[_i].shown);
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
	load(text);
	ck_assert_msg(errors == 1 && strstr(buf_text(&said), "hcpd.ini:10: "), "%s: %s", bad_urls[_i],
		buf_text(&said));
	ck_assert_msg(!strstr(buf_text(&said), "hunter2"), "%s", buf_text(&said));
}
END_TEST

START_TEST(a_password_comes_from_a_file_or_a_credential_and_wins)
{
	put_file("pw", "from file\r\n", 11, 0600);
	load(GOOD "[amqp]\nurl = amqp://u:hunter2@127.0.0.1\npassword_file = pw\n");
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_str_eq(c->amqp.password, "from file");
	put_file("cred", "from systemd", 12, 0400);
	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	load(GOOD "[amqp]\nurl = amqp://u@127.0.0.1\npassword_file = credential:cred\n");
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_str_eq(c->amqp.password, "from systemd");
	put_file("pw", "x", 1, 0644);
	load(GOOD "[amqp]\npassword_file = pw\n");
	ck_assert_msg(
		warnings == 1 && strstr(buf_text(&said), "can be read by everybody"), "%s", buf_text(&said));
	put_file("pw", "two\nlines\n", 10, 0600);
	load(GOOD "[amqp]\npassword_file = pw\n");
	ck_assert_msg(errors == 1 && !strstr(buf_text(&said), "two"), "%s", buf_text(&said));
	put_file("pw", "\n", 1, 0600);
	load(GOOD "[amqp]\npassword_file = pw\n");
	ck_assert_int_eq(errors, 1);
}
END_TEST

START_TEST(a_password_in_a_file_for_all_eyes_is_warned_about)
{
	static const char with[] = GOOD "[amqp]\nurl = amqp://u:hunter2@127.0.0.1\n";

	put_file("hcpd.ini", with, sizeof(with) - 1, 0644);
	c = config_load(path, note, &said);
	ck_assert_msg(warnings == 1 && strstr(buf_text(&said),
					       ":10: the url has a password and this file can be read"),
		"%s", buf_text(&said));
	ck_assert_ptr_null(strstr(buf_text(&said), "hunter2"));
	load(with);
	ck_assert_int_eq(warnings, 0);
}
END_TEST

/* --- environment --- */

START_TEST(env_wins_over_pass_env_and_that_over_env_file)
{
	static const char file[] = "\xef\xbb\xbf# secrets\r\n\r\nA=file\r\nB=file\nC=file # no comment\n  "
				   "D='in quotes'\nE=\"q \\\" q\"\nF=\nA=again";

	put_file("x.env", file, sizeof(file) - 1, 0600);
	setenv("B", "passed", 1);
	setenv("C", "passed", 1);
	load(GOOD "[capability x]\nenv = C=env G='two words' H=\nenv_file = x.env\npass_env = B,C\n");
	ck_assert_str_eq(buf_text(&said), "");
	for (int i = 0; i < 8; i++) {
		static const char *const want[] = {
			"A=again", "B=passed", "C=env", "D=in quotes", "E=q \" q", "F=", "G=two words", "H="};

		ck_assert_str_eq(c->capabilities[0].env[i], want[i]);
	}
	ck_assert_ptr_null(c->capabilities[0].env[8]);
}
END_TEST

START_TEST(an_env_file_that_others_may_read_is_an_error)
{
	static const mode_t modes[] = {0640, 0604, 0660, 0644, 0601, 0610};

	for (int i = 0; i < COUNT(modes); i++) {
		put_file("x.env", "KEY=hunter2\n", 12, modes[i]);
		load(GOOD "[capability x]\nenv_file = x.env\n");
		ck_assert_msg(errors == 1 && strstr(buf_text(&said), "chmod 600"), "%o: %s", modes[i],
			buf_text(&said));
	}
	put_file("x.env", "KEY=hunter2\n", 12, 0400);
	load(GOOD "[capability x]\nenv_file = x.env\n");
	ck_assert_int_eq(errors, 0);
}
END_TEST

START_TEST(bad_lines_of_an_env_file_are_told_without_their_text)
{
	static const char file[] = "A=1\nhunter2\nHCP_X=hunter2\nexport B=hunter2\n1=hunter2\n";

	put_file("x.env", file, sizeof(file) - 1, 0600);
	load(GOOD "[capability x]\nenv_file = x.env\n");
	ck_assert_msg(errors == 4, "%s", buf_text(&said));
	ck_assert_ptr_nonnull(
		strstr(buf_text(&said), "hcpd.ini:10: env_file DIR/x.env:2: this is no NAME=value line"));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "DIR/x.env:3: names with HCP_"));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "DIR/x.env:5: "));
	ck_assert_ptr_null(strstr(buf_text(&said), "hunter2"));
	put_file("x.env", "A=\0b\n", 5, 0600);
	load(GOOD "[capability x]\nenv_file = x.env\n");
	ck_assert_msg(errors == 1 && strstr(buf_text(&said), "NUL"), "%s", buf_text(&said));
}
END_TEST

START_TEST(a_secret_given_with_a_wrong_key_is_not_printed)
{
	load(GOOD "[amqp]\npasword = hunter2\npassword_file = hunter2\n"
		  "[capability x]\nenv = hunter2 HCP_KEY=hunter2\npass_env = KEY=hunter2\n");
	ck_assert_msg(errors == 5, "%s", buf_text(&said));
	ck_assert_ptr_null(strstr(buf_text(&said), "hunter2"));
}
END_TEST

/* --- paths --- */

START_TEST(relative_paths_begin_at_the_file_whatever_the_working_directory)
{
	char before[300];

	load("[daemon]\ncallee_id = d\nstate_dir = s\n[capability x]\ndeclaration = ./d/x.json\ncommand = "
	     "bin/x y/z\n"
	     "[capability y]\ndeclaration = /abs\ncommand = sh -c a/b\n");
	ck_assert_str_eq(c->capabilities[0].declaration, in_dir("d/x.json"));
	ck_assert_str_eq(c->capabilities[0].command[0], in_dir("bin/x"));
	ck_assert_str_eq(c->capabilities[0].command[1], "y/z");
	ck_assert_str_eq(c->capabilities[1].declaration, "/abs");
	ck_assert_str_eq(c->capabilities[1].command[0], "sh");

	ck_assert_ptr_nonnull(getcwd(before, sizeof(before)));
	ck_assert_int_eq(chdir(dir), 0);
	config_free(c);
	c = config_load("hcpd.ini", note, &said);
	ck_assert_int_eq(chdir(before), 0);
	ck_assert_str_eq(c->state_dir, in_dir("s"));
}
END_TEST

/* --- the table and the sample --- */

START_TEST(every_default_is_within_its_own_range_and_every_key_has_words)
{
	struct config_reader r = {.path = "table", .dir = dir};
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

		if (sscanf(line, "[%63[a-z]", section) == 1 ||
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
	c = config_load("etc/hcpd.ini", note, &said);
	ck_assert_msg(c && errors == 0 && warnings == 1, "%s", buf_text(&said));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "[caller *] has no amqp_user"));
	ck_assert_uint_eq(c->capability_count, 3);
}
END_TEST

START_TEST(loading_twice_gives_two_that_do_not_know_each_other)
{
	struct config *first = load(GOOD), *second;

	c = NULL;
	second = load(GOOD "[daemon]\nmax_sessions = 2\n");
	ck_assert_int_eq(first->max_sessions, 256);
	ck_assert_int_eq(second->max_sessions, 2);
	config_free(first);
	ck_assert_str_eq(second->capabilities[0].name, "x");
	config_free(NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("config");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	unsetenv("CREDENTIALS_DIRECTORY");
	unsetenv("HCPD_TEST_UNSET");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_least_that_is_needed_gives_every_default);
	tcase_add_test(t, every_key_can_be_set);
	tcase_add_loop_test(t, a_mistake_is_told_with_its_line_and_what_would_be_right, 0, COUNT(wrong));
	tcase_add_test(t, all_mistakes_are_told_in_the_order_of_lines);
	tcase_add_test(t, a_file_that_cannot_be_read_is_told);
	tcase_add_test(t, binary_rubbish_gives_errors_and_nothing_worse);
	tcase_add_test(t, a_section_may_come_again_and_a_later_key_wins);
	tcase_add_test(t, a_bad_value_that_a_later_one_replaces_does_no_harm);
	tcase_add_test(t, crlf_a_byte_order_mark_and_comments_change_nothing);
	tcase_add_test(t, the_exact_caller_wins_over_any);
	tcase_add_test(t, names_of_128_characters_are_the_longest);
	tcase_add_test(t, a_default_gives_way_to_what_is_written_beside_it);
	tcase_add_loop_test(t, what_is_doubtful_is_warned_about_and_loads, 0, COUNT(warned));
	tcase_add_loop_test(t, plain_amqp_to_another_host_is_warned_about, 0, COUNT(plain));
	tcase_add_loop_test(t, a_url_is_taken_apart, 0, COUNT(urls));
	tcase_add_loop_test(t, a_bad_url_is_refused_and_its_password_never_printed, 0, COUNT(bad_urls));
	tcase_add_test(t, a_password_comes_from_a_file_or_a_credential_and_wins);
	tcase_add_test(t, a_password_in_a_file_for_all_eyes_is_warned_about);
	tcase_add_test(t, env_wins_over_pass_env_and_that_over_env_file);
	tcase_add_test(t, an_env_file_that_others_may_read_is_an_error);
	tcase_add_test(t, bad_lines_of_an_env_file_are_told_without_their_text);
	tcase_add_test(t, a_secret_given_with_a_wrong_key_is_not_printed);
	tcase_add_test(t, relative_paths_begin_at_the_file_whatever_the_working_directory);
	tcase_add_test(t, every_default_is_within_its_own_range_and_every_key_has_words);
	tcase_add_test(t, the_sample_shows_the_defaults_of_the_table);
	tcase_add_test(t, the_sample_loads_with_one_warning);
	tcase_add_test(t, loading_twice_gives_two_that_do_not_know_each_other);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
