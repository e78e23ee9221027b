/* SPDX-License-Identifier: MIT */
/* test_start.c: configuration, options, the state directory, reload: everything before the first task. */
#include <grp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/rig.h"
#include "support/wire.h"

#define EX_CONFIG 78

static struct rig *r;
static struct peer *p;

static int check_config(void)
{
	const char *args[] = {"-t", "-c", r->ini, NULL};

	return rig_run(r, args);
}

/* Runs -t on this text; every one of the places must be named as file:line. */
static void refuses(const char *text, int count, const int *lines)
{
	char place[400];

	unlink(r->log);
	file_write(r->ini, text);
	int status = check_config();
	must(status == EX_CONFIG, "%d for\n%s", status, text);
	for (int i = 0; i < count; i++) {
		snprintf(place, sizeof place, "%s:%d:", r->ini, lines[i]);
		must(rig_log_has(r, place), "%s is not named for\n%s", place, text);
	}
}

START_TEST(every_error_of_a_configuration_is_named_with_file_and_line)
{
	r = rig_new();
	refuses("[daemon]\ncallee_id = a b\nmax_sessions = many\nstop_timeout = soon\nunknown_key = 1\n"
		"[amqp]\nheartbeat = -1\nqueue_type = rapid\n[nonsense]\nx = 1\n",
		7, (int[]){2, 3, 4, 5, 7, 8, 9});
	refuses("[daemon]\nstate_dir = /tmp\n[capability x]\ncommand = /bin/true\n", 1, (int[]){3});
	refuses("[daemon]\ncallee_id = a\nthis is no line\n", 1, (int[]){3});
	refuses("[daemon]\ncallee_id = a\n[capability x]\ndeclaration = x.json\ncommand = /bin/sh "
		"'unfinished\n",
		1, (int[]){5});
	refuses("[daemon]\ncallee_id = a\n[caller a.b]\ncapabilities = *\n", 1, (int[]){3});
	refuses("[daemon]\ncallee_id = a\n[caller a]\nmax_risk = R9\n", 1, (int[]){4});
	refuses("[daemon]\ncallee_id = a\n[amqp]\nurl = http://x/\n", 1, (int[]){4});
	rig_finish(r);
}
END_TEST

START_TEST(contradictions_are_refused)
{
	r = rig_new();
	rig_write_ini(r);
	char *good = file_read(r->ini, NULL), text[6000];
	must(check_config() == 0, "the good one");
	snprintf(text, sizeof text, "%s[capability agent]\nprotocol = text\nreuse = 5\n", good);
	file_write(r->ini, text);
	must(check_config() == EX_CONFIG, "reuse is for hcp only");
	snprintf(text, sizeof text, "%s[caller x]\ncapabilities = agent, not-declared\n", good);
	file_write(r->ini, text);
	must(check_config() == EX_CONFIG, "a caller with a capability that there is not");
	free(good);
	rig_finish(r);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_said)
{
	const char *args[] = {"-c", "/no/such/file.ini", NULL};

	r = rig_new();
	int status = rig_run(r, args);
	must(status == EX_CONFIG || status == 66, "status %d", status);
	must(rig_log_has(r, "/no/such/file.ini"), "not named");
	rig_finish(r);
}
END_TEST

START_TEST(a_declaration_that_is_broken_stops_the_start)
{
	r = rig_new();
	rig_write_ini(r);
	file_write(rig_path(r, "agent.json"), "{\"capability\":\n {\"name\": \"agent\",,}}");
	must(check_config() == EX_CONFIG, "broken JSON");
	must(rig_log_has(r, "agent.json:2"), "position");
	file_write(rig_path(r, "agent.json"), "{\"capability\": {\"name\": \"agent\"}}");
	must(check_config() == EX_CONFIG, "missing members");
	unlink(rig_path(r, "agent.json"));
	must(check_config() == EX_CONFIG, "no file");
	rig_finish(r);
}
END_TEST

START_TEST(doctor_names_mistakes_in_declarations_and_keys)
{
	r = rig_new();
	rig_write_ini(r);
	char *good = file_read(r->ini, NULL), text[6000];
	snprintf(text, sizeof text,
		"%s[limits]\nline = many\n[approver ann]\nkey = rsa:foo\nmax_risk = R9\n[approver bob]\n"
		"[capability other]\ncommand = /no/such/program\n",
		good);
	free(good);
	file_write(r->ini, text);
	file_write(rig_path(r, "agent.json"),
		"{\"capability\": {\"name\": \"agent\", \"safety\": {\"envelop\": {}}}}");
	must(check_config() == EX_CONFIG, "refused");
	must(rig_log_has(r, "line = many is not understood"), "the first");
	must(rig_log_has(r, "max_risk = R9 is not known"), "a wrong risk");
	must(rig_log_has(r, "[approver ann]: key ann: not ed25519:"), "beside a wrong key");
	must(rig_log_has(r, "[approver bob] needs key"), "a missing one");
	must(rig_log_has(r, "[capability other] needs declaration"), "a missing declaration");
	must(rig_log_has(r, "/no/such/program cannot be run now"), "a warning too");
	must(rig_log_has(r, "agent.json: /capability/version: is missing"), "and the declaration's own");
	must(rig_log_has(
		     r, "agent.json: /capability/safety/envelop: is not known here; did you mean envelope?"),
		"a typing error");
	rig_finish(r);
}
END_TEST

START_TEST(missing_policy_program_is_a_warning_of_dash_t_and_the_start)
{
	r = rig_new();
	rig_set(r, "policy", "command", "/no/such/policy --strict");
	rig_write_ini(r);
	must(check_config() == 0, "a warning");
	must(rig_log_has(r, "[policy] command /no/such/policy cannot be run now: No such file"),
		"and it is said");
	unlink(r->log);
	rig_start(r);
	must(rig_log_has(r, "[policy] command /no/such/policy cannot be run now"), "at the start too");
	rig_finish(r);
}
END_TEST

START_TEST(a_migration_that_is_missing_is_a_warning_of_dash_t)
{
	r = rig_new();
	rig_set(r, "capability agent", "state_version", "2.0");
	rig_set(r, "capability agent", "migrate", "/no/such/migrate --all");
	rig_write_ini(r);
	must(check_config() == 0, "a warning");
	must(rig_log_has(r, "[capability agent] migrate /no/such/migrate cannot be run now: No such file"),
		"and it is said");
	rig_finish(r);
}
END_TEST

START_TEST(dash_t_checks_and_a_missing_command_is_only_a_warning)
{
	r = rig_new();
	rig_capability(r, "absent", "/no/such/program --now", NULL);
	rig_write_ini(r);
	must(check_config() == 0, "a missing command is a warning");
	must(rig_log_has(r, "/no/such/program"), "and it is said");
	must(!file_exists(r->db), "-t made a store");
	rig_finish(r);
}
END_TEST

START_TEST(dash_v_prints_the_version)
{
	const char *args[] = {"-V", NULL};
	char *version = file_read(source_path("VERSION"), NULL);

	r = rig_new();
	must(rig_run(r, args) == 0, "-V");
	version[strcspn(version, "\n")] = 0;
	must(rig_log_has(r, version), "%s", version);
	free(version);
	rig_finish(r);
}
END_TEST

START_TEST(wrong_options_are_usage_errors)
{
	const char *args[] = {"--frobnicate", NULL};

	r = rig_new();
	must(rig_run(r, args) == 64, "EX_USAGE");
	rig_finish(r);
}
END_TEST

START_TEST(sections_may_repeat_and_later_keys_win)
{
	char text[6000];

	r = rig_new();
	rig_write_ini(r);
	char *good = file_read(r->ini, NULL);
	snprintf(text, sizeof text,
		"%s[store]\n[session]\nabort_timeout = 9s\n[session]\nabort_timeout = PT7S\n", good);
	free(good);
	file_write(r->ini, text);
	must(check_config() == 0, "empty and repeated sections are fine");
	rig_set(r, "caller *", "max_risk",
		"R5\n[store]\n[session]\nabort_timeout = 9s\n[session]\nabort_timeout = PT7S");
	rig_start(r);
	p = peer_new(r);
	struct note *n = peer_reply(p, peer_submit(p, "agent", NULL));
	must_str(note_text(n, "payload.constraints.abort_timeout"), "PT7S");
	peer_completed(p, n->session);
	peer_finish(p);
	rig_finish(r);
}
END_TEST

START_TEST(plain_amqp_to_another_host_is_warned_about) /* proves L1-12 */
{
	r = rig_new();
	rig_set(r, "amqp", "url", "amqp://guest:topsecret@192.0.2.1:5672/%%2F");
	rig_write_ini(r);
	must(check_config() == 0, "it is only a warning");
	must(rig_log_has(r, "192.0.2.1"), "no warning");
	must(!rig_log_has(r, "topsecret"), "the password is in the log");
	unlink(r->log);
	rig_set(r, "amqp", "url", "%s", r->broker->url);
	rig_write_ini(r);
	must(check_config() == 0, "loopback");
	must(!rig_log_has(r, "127.0.0.1"), "a warning about loopback");
	rig_finish(r);
}
END_TEST

/* --- the state directory --- */

START_TEST(a_state_directory_belongs_to_one_hcpd)
{
	r = rig_new();
	rig_start(r);
	struct rig *second = rig_new();
	rig_set(second, "daemon", "state_dir", "%s", r->state);
	rig_spawn(second);
	int status = rig_wait_exit(second, WAIT_S);
	must(status != 0 && status < 128, "status %d", status);
	must(rig_log_has(second, r->state), "the directory is not named");
	rig_finish(second);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL)); /* the first is unharmed */
	rig_kill(r);
	rig_start(r); /* a dead owner's lock is nobody's */
	peer_finish(p);
	rig_finish(r);
}
END_TEST

START_TEST(a_state_directory_that_cannot_be_used_is_said)
{
	r = rig_new();
	file_write(rig_path(r, "file"), "");
	rig_set(r, "daemon", "state_dir", "%s/below", rig_path(r, "file"));
	rig_spawn(r);
	int status = rig_wait_exit(r, WAIT_S);
	must(status >= 64 && status <= 78, "status %d", status);
	must(rig_log_has(r, rig_path(r, "file/below")), "not named");
	rig_finish(r);
}
END_TEST

static void set_schema_version(int version)
{
	char sql[64];
	sqlite3 *db;

	must(sqlite3_open(r->db, &db) == SQLITE_OK, "open");
	snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
	must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

START_TEST(a_store_of_a_newer_hcpd_is_refused_and_left_alone) /* proves CK-07 */
{
	r = rig_new();
	rig_start(r);
	rig_stop(r);
	long long known = rig_sql(r, "PRAGMA user_version");
	must(known >= 1, "the store has no version");
	set_schema_version((int)known + 1);
	rig_spawn(r);
	int status = rig_wait_exit(r, WAIT_S);
	must(status >= 64 && status <= 78, "status %d", status);
	must(rig_log_has(r, "hcpd.db"), "the store is not named");
	must(rig_sql(r, "PRAGMA user_version") == known + 1, "it was changed");
	set_schema_version((int)known);
	rig_start(r);
	rig_finish(r);
}
END_TEST

START_TEST(a_damaged_store_is_refused_with_a_sentence)
{
	r = rig_new();
	rig_start(r);
	rig_stop(r);
	unlink(rig_path(r, "state/hcpd.db-wal"));
	unlink(rig_path(r, "state/hcpd.db-shm"));
	file_write(r->db,
		"this is no database at all, but it is long enough to look like a file that holds something");
	rig_spawn(r);
	int status = rig_wait_exit(r, WAIT_S);
	must(status >= 64 && status <= 78, "status %d", status);
	must(rig_log_has(r, "hcpd.db"), "the store is not named");
	unlink(r->db);
	rig_finish(r);
}
END_TEST

START_TEST(the_key_of_the_tokens_is_for_the_daemon_alone)
{
	char command[400];

	r = rig_new();
	chmod(r->state, 0755);
	rig_start(r);
	rig_stop(r);
	snprintf(command, sizeof command, "test -n \"$(find %s -name '*key*' -type f)\"", r->state);
	must(system(command) == 0, "no key was made at the first start");
	snprintf(command, sizeof command, "test -z \"$(find %s -name '*key*' -perm /077)\"", r->state);
	must(system(command) == 0, "a key that others can read");
	rig_finish(r);
}
END_TEST

/* --- ready and reload --- */

START_TEST(ready_comes_without_a_broker_too) /* proves L1-22 */
{
	r = rig_new();
	rig_set(r, "amqp", "url", "amqp://guest:guest@127.0.0.1:1/%%2F");
	r->watchdog_usec = 1000000;
	rig_spawn(r);
	rig_wait_ready(r);
	wait_until(r->watchdog >= 3, WAIT_S, "the watchdog is fed without a broker");
	wait_until(r->status[0], WAIT_S, "STATUS=");
	must(r->ready == 1, "READY %d times", r->ready);
	rig_finish(r);
}
END_TEST

START_TEST(a_hangup_reloads_capabilities_callers_and_level)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	struct peer *q = peer_named(r, "latecomer");
	const char *held = peer_run(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_rejected(p, peer_submit(p, "second", NULL), "unknown_capability");
	rig_capability(r, "second", source_path("tests/integration/agents/agent.py"), NULL);
	rig_set(r, "caller latecomer", "capabilities", "second");
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	const char *id = NULL;
	wait_until((id = peer_submit(p, "second", NULL)) &&
			strcmp(peer_reply(p, id)->kind, "task_accepted") == 0,
		WAIT_S, "the new one");
	peer_completed(p, peer_accepted(p, id));
	peer_rejected(q, peer_submit(q, "agent", NULL), "forbidden");
	file_write(r->ini, "[nonsense]\n"); /* a bad file changes nothing */
	rig_signal(r, SIGHUP);
	char place[400];
	snprintf(place, sizeof place, "%s:1", r->ini);
	wait_until(rig_log_has(r, place), WAIT_S, "the error is logged");
	peer_completed(p, peer_run(p, "second", NULL));
	rig_touch(r, "go");
	peer_completed(p, held);
	peer_finish(q);
	peer_finish(p);
	rig_finish(r);
}
END_TEST

START_TEST(a_reload_may_take_a_capability_away_under_a_running_session)
{
	r = rig_new();
	rig_capability(r, "second", source_path("tests/integration/agents/agent.py"), NULL);
	rig_start(r);
	p = peer_new(r);
	const char *held = peer_run(
		p, "second", J("{'do':[['progress',1],['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_event(p, held, "progress");
	rig_set(r, "capability second", "declaration", NULL);
	rig_set(r, "capability second", "command", NULL);
	rig_set(r, "capability second", "env", NULL);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	const char *id = NULL;
	wait_until((id = peer_submit(p, "second", J("{'do':[['complete']]}"))) &&
			strcmp(peer_reply(p, id)->kind, "task_rejected") == 0,
		WAIT_S, "it is gone");
	peer_rejected(p, id, "unknown_capability");
	rig_touch(r, "go");
	peer_completed(p, held);
	for (size_t i = 0; i < p->note_count; i++)
		if (strcmp(p->notes[i]->kind, "task_accepted") == 0)
			peer_wait(p, p->notes[i]->session, "event", "session_closed");
	peer_finish(p);
	rig_finish(r);
}
END_TEST

/* --- a reload that takes its time --- */

/* The configuration names a group, which only the name service knows, and that is slow from now on. */
static void hang_up_with_slow_names(void)
{
	const struct group *own = getgrgid(getegid());

	must(own != NULL, "this test's group has no name");
	rig_set(r, "control", "group", "%s", own->gr_name);
	rig_write_ini(r);
	rig_touch(r, "slow");
	rig_signal(r, SIGHUP);
	wait_until(file_exists(rig_path(r, "slow.asked")), WAIT_S, "the name service is asked");
}

static void begin_with_slow_names(void)
{
	const char *build = getenv("HCP_BUILD"), *options = getenv("ASAN_OPTIONS");
	char library[600];

	snprintf(library, sizeof library, "%s/integration/slow_names.so", build ? build : "build");
	r = rig_new();
	rig_env(r, "LD_PRELOAD=%s", library[0] == '/' ? library : source_path(library));
	rig_env(r, "HCP_SLOW_NAMES=%s", rig_path(r, "slow"));
	/* a sanitizer's runtime wants to be the first library, but does not need to */
	rig_env(r, "ASAN_OPTIONS=%s:verify_asan_link_order=0", options ? options : "");
	rig_start(r);
}

START_TEST(a_reload_that_waits_for_the_name_service_holds_nobody_up)
{
	begin_with_slow_names();
	p = peer_new(r);
	rig_capability(r, "second", source_path("tests/integration/agents/agent.py"), NULL);
	hang_up_with_slow_names();
	peer_completed(p, peer_run(p, "agent", NULL));
	peer_rejected(
		p, peer_submit(p, "second", NULL), "unknown_capability"); /* the old policy is in force */
	rig_capability(r, "third", source_path("tests/integration/agents/agent.py"), NULL);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "is still being read"), WAIT_S, "the second reload waits for the first");
	peer_completed(p, peer_run(p, "agent", NULL));
	must(!rig_log_has(r, "configuration reloaded"), "it was reloaded without an answer");
	unlink(rig_path(r, "slow"));
	wait_until(rig_log_count(r, "configuration reloaded") == 2, WAIT_S, "one reload after the other");
	peer_completed(p, peer_run(p, "second", NULL));
	peer_completed(p, peer_run(p, "third", NULL));
	peer_finish(p);
	rig_finish(r);
}
END_TEST

START_TEST(a_stop_does_not_wait_for_a_reload_that_is_under_way)
{
	begin_with_slow_names();
	hang_up_with_slow_names();
	rig_signal(r, SIGTERM);
	int status = rig_wait_exit(r, WAIT_S);
	must(status == 0, "it ends with %d", status);
	must(rig_log_has(r, "stopped: code=0"), "the last line is there");
	rig_finish(r);
}
END_TEST

START_TEST(a_log_line_is_one_line_of_keys_and_values)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	peer_publish(p, "line one\nERROR forged=1\n\x1b[31m", 30, NULL);
	peer_completed(p, peer_run(p, "agent", J("{'do':[['raw','\\u001b[31m\\rforged'],['complete']]}")));
	rig_stop(r);
	char *log = file_read(r->log, NULL);
	must(!strstr(log, "\nERROR forged") && !strchr(log, 27) && !strchr(log, '\r'),
		"control characters reach the log");
	must(strchr(log, '='), "no key=value");
	free(log);
	peer_finish(p);
	rig_finish(r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("start");

	suite_test(s, every_error_of_a_configuration_is_named_with_file_and_line, 40);
	suite_test(s, contradictions_are_refused, 40);
	suite_test(s, a_file_that_cannot_be_read_is_said, 40);
	suite_test(s, a_declaration_that_is_broken_stops_the_start, 40);
	suite_test(s, doctor_names_mistakes_in_declarations_and_keys, 40);
	suite_test(s, missing_policy_program_is_a_warning_of_dash_t_and_the_start, 40);
	suite_test(s, a_migration_that_is_missing_is_a_warning_of_dash_t, 40);
	suite_test(s, dash_t_checks_and_a_missing_command_is_only_a_warning, 40);
	suite_test(s, dash_v_prints_the_version, 40);
	suite_test(s, wrong_options_are_usage_errors, 40);
	suite_test(s, sections_may_repeat_and_later_keys_win, 40);
	suite_test(s, plain_amqp_to_another_host_is_warned_about, 40);
	suite_test(s, a_state_directory_belongs_to_one_hcpd, 40);
	suite_test(s, a_state_directory_that_cannot_be_used_is_said, 40);
	suite_test(s, a_store_of_a_newer_hcpd_is_refused_and_left_alone, 40);
	suite_test(s, a_damaged_store_is_refused_with_a_sentence, 40);
	suite_test(s, the_key_of_the_tokens_is_for_the_daemon_alone, 40);
	suite_test(s, ready_comes_without_a_broker_too, 40);
	suite_test(s, a_hangup_reloads_capabilities_callers_and_level, 40);
	suite_test(s, a_reload_may_take_a_capability_away_under_a_running_session, 40);
	suite_test(s, a_reload_that_waits_for_the_name_service_holds_nobody_up, 60);
	suite_test(s, a_stop_does_not_wait_for_a_reload_that_is_under_way, 60);
	suite_test(s, a_log_line_is_one_line_of_keys_and_values, 40);
	return harness_run(s, false);
}
