/* SPDX-License-Identifier: MIT */
/* test_worlds.c: the world a worker lives in: directory, environment, descriptors; and processes used
 * again. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/rig.h"

#define AGENT source_path("tests/integration/agents/agent.py")

static struct rig *r;
static struct peer *p;

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

static const char *env_of(struct note *n, const char *name)
{
	return json_string_value(json_object_get(note_at(n, "payload.outputs.env"), name));
}

START_TEST(a_worker_has_a_directory_and_an_environment_of_its_own) /* proves SA-03 */
{
	r = rig_new();
	rig_env(r, "RIG_SECRET=of the daemon");
	rig_env(r, "RIG_PASSED=handed over");
	rig_env(r, "LC_TIME=C");
	rig_env(r, "TZ=UTC");
	rig_env(r, "HCP_FORGED=1");
	char env_file[300], workdir[400];
	snprintf(env_file, sizeof env_file, "%s/agent.env", r->closed);
	file_write(env_file, "# a comment\nFROM_FILE=\"in a file\"\nOTHER=2\n");
	chmod(env_file, 0600);
	rig_set(r, "capability agent", "env", "RIG_MARK=%s MODE=fast 'WITH_SPACE=a b'", r->dir);
	rig_set(r, "capability agent", "pass_env", "RIG_PASSED");
	rig_set(r, "capability agent", "env_file", "agent.env");
	rig_set(r, "capability agent", "keep_workdir", "always");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['dump']]}"));
	struct note *n = peer_completed(p, s);
	snprintf(workdir, sizeof workdir, "%s/work/%s", r->state, s);
	must_str(note_text(n, "payload.outputs.cwd"), workdir);
	must_str(env_of(n, "HCP_WORKDIR"), workdir);
	must_str(note_text(n, "payload.outputs.mode"), "700");
	must_str(env_of(n, "HCP_SESSION_ID"), s);
	must_str(env_of(n, "HCP_CAPABILITY"), "agent");
	must_str(env_of(n, "HCP_INTENT"), "a test's wish");
	must_str(env_of(n, "HCP_ATTEMPT"), "1");
	must(env_of(n, "HCP_INSTANCE") && env_of(n, "PATH") && env_of(n, "HOME"), "%s", n->body);
	must_str(env_of(n, "TZ"), "UTC");
	must_str(env_of(n, "LC_TIME"), "C");
	must_str(env_of(n, "MODE"), "fast");
	must_str(env_of(n, "WITH_SPACE"), "a b");
	must_str(env_of(n, "RIG_PASSED"), "handed over");
	must_str(env_of(n, "FROM_FILE"), "in a file");
	must_str(note_text(n, "payload.outputs.task_file.intent"), "a test's wish");
	static const char *const foreign[] = {"RIG_SECRET", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
		"CREDENTIALS_DIRECTORY", "HCP_FORGED", "HCP_TEST_BROKER_URL", "LISTEN_FDS"};
	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
		must(!env_of(n, foreign[i]), "%s reached the worker", foreign[i]);
	must(!strstr(json_dumps(note_at(n, "payload.outputs.env"), 0), "guest:guest"),
		"the broker's password reached the worker");
	end();
}
END_TEST

START_TEST(a_worker_inherits_no_descriptors_and_no_signal_masks) /* proves SA-03 */
{
	const char *fd;
	json_t *to;

	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	const char *other = peer_run(
		p, "agent", J("{'do':[['progress',1],['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_event(p, other, "progress");
	const char *s = peer_run(p, "agent", J("{'do':[['dump']]}"));
	struct note *n = peer_completed(p, s);
	json_object_foreach(note_at(n, "payload.outputs.fds"), fd, to)
		must(atoi(fd) <= 2, "descriptor %s is %s", fd, json_string_value(to));
	must_str(note_text(n, "payload.outputs.masks.SigBlk"), "0000000000000000");
	must(json_integer_value(note_at(n, "payload.outputs.pid")) ==
			json_integer_value(note_at(n, "payload.outputs.pgid")),
		"no process group of its own");
	rig_touch(r, "go");
	peer_completed(p, other);
	end();
}
END_TEST

/* Whether one can open the other's: test_confine.c. */
START_TEST(two_sessions_have_two_directories) /* proves SA-03 */
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	const char *a = peer_run(p, "agent",
		J("{'do':[['write','mine.txt'],['progress',1],['hold','%s'],['dump']]}", rig_path(r, "go")));
	peer_event(p, a, "progress");
	const char *b = peer_run(p, "agent", J("{'do':[['dump']]}"));
	struct note *n = peer_completed(p, b);
	json_t *files = note_at(n, "payload.outputs.files");
	for (size_t i = 0; i < json_array_size(files); i++)
		must(strcmp(json_string_value(json_array_get(files, i)), "mine.txt") != 0,
			"one directory for two sessions");
	rig_touch(r, "go");
	peer_completed(p, a);
	end();
}
END_TEST

START_TEST(a_working_directory_is_kept_as_configured)
{
	static const struct {
		const char *name, *keep;
		bool after_success, after_failure;
	} rows[] = {{"never", "never", false, false}, {"failed", "failed", false, true},
		{"always", "always", true, true}};
	char section[64];

	r = rig_new();
	for (int i = 0; i < 3; i++) {
		rig_capability(r, rows[i].name, AGENT, NULL);
		snprintf(section, sizeof section, "capability %s", rows[i].name);
		rig_set(r, section, "keep_workdir", "%s", rows[i].keep);
	}
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 3; i++) {
		const char *good = peer_run(p, rows[i].name, J("{'do':[['write','f'],['complete']]}"));
		const char *bad = peer_run(p, rows[i].name, J("{'do':[['write','f'],['failing',{}]]}"));
		peer_completed(p, good);
		peer_failed(p, bad, "worker_failed", "execution_error");
		wait_until(file_exists(rig_path(r, "state/work/%s", good)) == rows[i].after_success, WAIT_S,
			"%s after success", rows[i].keep);
		wait_until(file_exists(rig_path(r, "state/work/%s", bad)) == rows[i].after_failure, WAIT_S,
			"%s after failure", rows[i].keep);
	}
	end();
}
END_TEST

START_TEST(an_intent_in_the_environment_is_cut_and_the_task_is_not)
{
	char *intent = malloc(60001);

	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	memset(intent, 'i', 60000);
	intent[60000] = 0;
	const char *s =
		peer_run_more(p, "agent", J("{'do':[['dump']]}"), json_pack("{s:s}", "intent", intent));
	struct note *n = peer_completed(p, s);
	must(strlen(env_of(n, "HCP_INTENT")) <= 32768 && strlen(env_of(n, "HCP_INTENT")) > 32000, "%zu",
		strlen(env_of(n, "HCP_INTENT")));
	must_str(note_text(n, "payload.outputs.start.task.intent"), intent);
	must_str(note_text(n, "payload.outputs.task_file.intent"), intent);
	free(intent);
	s = peer_run_more(p, "agent", J("{'do':[['dump']]}"), J("{'intent':'before\\u0000after'}"));
	n = peer_completed(p, s);
	must_str(env_of(n, "HCP_INTENT"), "before");
	end();
}
END_TEST

START_TEST(the_command_is_split_into_words_without_a_shell)
{
	char command[700];

	r = rig_new();
	snprintf(command, sizeof command,
		"%s --plain 'two words' \"with \\\"quotes\\\"\" $HOME `id` a\\ b ''", AGENT);
	rig_capability(r, "words", command, NULL);
	rig_start(r);
	p = peer_new(r);
	struct note *n = peer_completed(p, peer_run(p, "words", J("{'do':[['dump']]}")));
	must(json_equal(note_at(n, "payload.outputs.argv"),
		     J("['--plain','two words','with \\\"quotes\\\"','$HOME','`id`','a b','']")),
		"%s", json_dumps(note_at(n, "payload.outputs.argv"), 0));
	end();
}
END_TEST

/* --- reuse --- */

static void begin_reuse(const char *count)
{
	r = rig_new();
	rig_capability(r, "again", AGENT, J("{'constraints':{'concurrent_limit':1}}"));
	rig_set(r, "capability again", "reuse", "%s", count);
	rig_start(r);
	p = peer_new(r);
}

static long long pid_of(const char *s)
{
	struct note *n = peer_completed(p, s);

	return json_integer_value(note_at(n, "payload.outputs.pid"));
}

START_TEST(process_serves_as_many_sessions_as_reuse_says)
{
	long long pid[6];

	begin_reuse("3");
	for (int i = 0; i < 6; i++)
		pid[i] = pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	must(pid[0] == pid[1] && pid[1] == pid[2], "three sessions, one process");
	must(pid[2] != pid[3], "a fourth by the same");
	must(pid[3] == pid[4] && pid[4] == pid[5], "and again three");
	end();
}
END_TEST

START_TEST(a_reused_process_knows_its_session_only_from_the_start_line) /* proves SA-03 */
{
	begin_reuse("10");
	static const char *const absent[] = {
		"HCP_SESSION_ID", "HCP_INTENT", "HCP_ATTEMPT", "HCP_WORKDIR", "HCP_TASK"};
	const char *first = NULL;
	for (int i = 0; i < 2; i++) {
		const char *s = peer_run(p, "again", J("{'do':[['dump']]}"));
		struct note *n = peer_completed(p, s);
		char workdir[400];
		snprintf(workdir, sizeof workdir, "%s/work/%s", r->state, s);
		must_str(note_text(n, "payload.outputs.start.workdir"), workdir);
		must_str(env_of(n, "HCP_CAPABILITY"), "again");
		must(env_of(n, "HCP_INSTANCE"), "the mark");
		for (size_t k = 0; k < sizeof absent / sizeof absent[0]; k++)
			must(!env_of(n, absent[k]), "%s is there", absent[k]);
		must(!first || strcmp(first, note_text(n, "payload.outputs.start.workdir")) != 0,
			"one directory for two");
		first = note_text(n, "payload.outputs.start.workdir");
	}
	end();
}
END_TEST

START_TEST(with_workdir_no_a_session_has_no_directory_of_its_own)
{
	char path[400];

	r = rig_new();
	rig_capability(r, "again", AGENT, NULL);
	rig_set(r, "capability again", "reuse", "10");
	rig_set(r, "capability again", "workdir", "no");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "again",
		J("{'do':[['emit',{'type':'artifact','name':'a','path':'a'}],['hold','%s'],['dump']]}",
			rig_path(r, "go")));
	struct note *n = peer_event(p, s, "warning");
	must_str(note_text(n, "payload.data.code"), "artifact_not_kept");
	must(strstr(note_text(n, "payload.data.message"), "workdir = no") != NULL, "%s", n->body);
	snprintf(path, sizeof path, "%s/work/%s", r->state, s);
	must(!file_exists(path), "a directory was made");
	rig_touch(r, "go");
	n = peer_completed(p, s);
	must(json_is_null(note_at(n, "payload.outputs.start.workdir")), "%s", n->body);
	end();
}
END_TEST

START_TEST(only_a_clean_completion_lets_a_process_be_used_again)
{
	begin_reuse("100");
	long long first = pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	peer_failed(
		p, peer_run(p, "again", J("{'do':[['failing',{}]]}")), "worker_failed", "execution_error");
	long long second = pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	must(first != second, "used again after a failure");
	const char *s = peer_run(p, "again", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", NULL);
	long long third = pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	must(third != second, "used again after an abort");
	s = peer_run(p, "again", J("{'do':[['grandchild','%s'],['pid']]}", rig_path(r, "grandchild")));
	must(pid_of(s) == third, "the third serves on");
	must(rig_processes(r, NULL, 0) == 0,
		"a session with something left in its tree retires the process with it");
	must(pid_of(peer_run(p, "again", J("{'do':[['pid']]}"))) != third, "used again beside a grandchild");
	end();
}
END_TEST

START_TEST(lines_between_two_sessions_belong_to_neither) /* proves L2-15 */
{
	begin_reuse("100");
	const char *a =
		peer_run(p, "again", J("{'do':[['pid'],['progress',3],['sleep',0.3],['progress',2]]}"));
	long long pid = pid_of(a);
	harness_pass(0.6);
	const char *b = peer_run(p, "again", J("{'do':[['progress',1],['pid']]}"));
	must(pid_of(b) == pid, "the same process");
	must(peer_count(p, a, "event", "progress") == 0, "%d events after completed",
		peer_count(p, a, "event", "progress"));
	must(peer_count(p, b, "event", "progress") == 1, "%d events, one is its own",
		peer_count(p, b, "event", "progress"));
	end();
}
END_TEST

START_TEST(a_reused_process_that_dies_between_sessions_harms_nobody)
{
	begin_reuse("100");
	long long pid = pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	kill((pid_t)pid, SIGKILL);
	wait_until(kill((pid_t)pid, 0) < 0, WAIT_S, "it is reaped");
	must(pid_of(peer_run(p, "again", J("{'do':[['pid']]}"))) != pid, "a new one");
	end();
}
END_TEST

START_TEST(a_reused_process_is_recovered_like_any_other)
{
	begin_reuse("100");
	pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	const char *s = peer_run(p, "again", J("{'do':[['count',60,10,0.02]]}"));
	peer_event(p, s, "checkpoint_created");
	rig_kill(r);
	rig_start(r);
	peer_completed(p, s);
	must_str(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.reason"),
		"recovered_from_checkpoint");
	end();
}
END_TEST

START_TEST(an_idle_reused_process_ends_with_the_daemon)
{
	begin_reuse("100");
	pid_of(peer_run(p, "again", J("{'do':[['pid']]}")));
	must(rig_processes(r, NULL, 0) == 1, "it waits for more");
	double t = harness_now();
	rig_stop(r);
	must(harness_now() - t < 4 + harness_scale(), "%.1f s", harness_now() - t);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("worlds");

	suite_test(s, a_worker_has_a_directory_and_an_environment_of_its_own, 40);
	suite_test(s, a_worker_inherits_no_descriptors_and_no_signal_masks, 40);
	suite_test(s, two_sessions_have_two_directories, 40);
	suite_test(s, a_working_directory_is_kept_as_configured, 40);
	suite_test(s, an_intent_in_the_environment_is_cut_and_the_task_is_not, 40);
	suite_test(s, the_command_is_split_into_words_without_a_shell, 40);
	suite_test(s, process_serves_as_many_sessions_as_reuse_says, 40);
	suite_test(s, a_reused_process_knows_its_session_only_from_the_start_line, 40);
	suite_test(s, with_workdir_no_a_session_has_no_directory_of_its_own, 30);
	suite_test(s, only_a_clean_completion_lets_a_process_be_used_again, 40);
	suite_test(s, lines_between_two_sessions_belong_to_neither, 40);
	suite_test(s, a_reused_process_that_dies_between_sessions_harms_nobody, 40);
	suite_test(s, a_reused_process_is_recovered_like_any_other, 40);
	suite_test(s, an_idle_reused_process_ends_with_the_daemon, 40);
	return harness_run(s, false);
}
