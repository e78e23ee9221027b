/* SPDX-License-Identifier: MIT */
/* test_recovery.c: the daemon is killed, and what its sessions and callers see of that. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/scene.h"

#define CHECKPOINT_AND_HOLD \
	"{'do':[['write','%s'],['checkpoint',{'n':3}],['await','checkpoint_saved'],['progress',1],['hold','" \
	"%s'],['dump']]}"

static void must_have_recovered(const char *s, int nth, const char *reason)
{
	struct note *paused = peer_find_state(p, s, "PAUSED", nth),
		    *again = peer_find_state(p, s, "RUNNING", nth + 1);

	must(paused && again, "no recovery number %d", nth);
	must_str(note_text(paused, "payload.data.reason"), "callee_restarted");
	must_str(note_text(again, "payload.data.reason"), reason);
	must(again->sequence == paused->sequence + 1, "something came between");
}

START_TEST(a_killed_daemon_goes_on_from_the_last_checkpoint) /* proves L2-08, L2-04 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['count',60,10,0.02]]}"));
	wait_until(peer_count(p, s, "event", "checkpoint_created") >= 2, WAIT_S, "two checkpoints");
	rig_kill(r);
	rig_start(r);
	struct note *n = peer_completed(p, s);
	must_have_recovered(s, 1, "recovered_from_checkpoint");
	must(json_integer_value(note_at(n, "payload.outputs.first")) >= 21, "it did not use the latest: %s",
		n->body);
	must(json_integer_value(note_at(n, "payload.outputs.first")) % 10 == 1, "%s", n->body);
	must(json_integer_value(note_at(n, "payload.outputs.attempt")) == 2, "%s", n->body);
	scene_end();
}
END_TEST

START_TEST(without_a_checkpoint_it_starts_again) /* proves L2-08 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['write','%s'],['progress',1],['hold','%s'],['dump']]}", rig_path(r, "starts"),
			rig_path(r, "go")));
	peer_event(p, s, "progress");
	rig_kill(r);
	rig_start(r);
	rig_touch(r, "go");
	struct note *n = peer_completed(p, s);
	must_have_recovered(s, 1, "restarted");
	must(file_lines(rig_path(r, "starts")) == 2, "two attempts");
	must(json_is_null(note_at(n, "payload.outputs.start.checkpoint")), "%s", n->body);
	must(json_integer_value(note_at(n, "payload.outputs.start.attempt")) == 2, "attempt");
	must_str(note_text(n, "payload.outputs.env.HCP_ATTEMPT"), "2");
	scene_end();
}
END_TEST

START_TEST(recovery_may_be_restart_or_fail) /* proves L2-08 */
{
	r = rig_new();
	rig_capability(r, "again", AGENT, NULL);
	rig_set(r, "capability again", "recovery", "restart");
	rig_capability(r, "never", AGENT, NULL);
	rig_set(r, "capability never", "recovery", "fail");
	rig_start(r);
	p = peer_new(r);
	const char *again = peer_run(p, "again", J(CHECKPOINT_AND_HOLD, rig_path(r, "a"), rig_path(r, "go")));
	const char *never = peer_run(p, "never", J(CHECKPOINT_AND_HOLD, rig_path(r, "n"), rig_path(r, "go")));
	peer_event(p, again, "progress");
	peer_event(p, never, "progress");
	rig_kill(r);
	rig_start(r);
	rig_touch(r, "go");
	struct note *n = peer_completed(p, again);
	must_have_recovered(again, 1, "restarted");
	must(json_is_null(note_at(n, "payload.outputs.start.checkpoint")), "it got its checkpoint: %s",
		n->body);
	peer_failed(p, never, "no_checkpoint", "internal_error");
	must(file_lines(rig_path(r, "n")) == 1, "it was started again");
	must_str(note_text(peer_state(p, never, "FAILED"), "payload.data.reason"), "no_checkpoint");
	scene_end();
}
END_TEST

START_TEST(a_text_worker_is_started_again) /* proves L2-08 */
{
	r = rig_new();
	rig_text(r, "twice",
		"echo run >>$HCP_WORKDIR/runs; cat $HCP_WORKDIR/runs; while [ ! -e $GO ]; do sleep 0.05; "
		"done");
	rig_set(r, "capability twice", "env", "RIG_MARK=%s GO=%s", r->dir, rig_path(r, "go"));
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "twice", NULL);
	peer_event(p, s, "log");
	rig_kill(r);
	rig_start(r);
	rig_touch(r, "go");
	struct note *n = peer_completed(p, s);
	must_have_recovered(s, 1, "restarted");
	must_str(note_text(n, "payload.outputs.stdout"),
		"run\nrun\n"); /* the same directory for all attempts */
	scene_end();
}
END_TEST

START_TEST(processes_of_a_killed_daemon_are_ended_before_recovery) /* proves L2-08 */
{
	pid_t old[16], now[16];

	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'on':{'eof':'ignore','abort':'ignore'},'do':[['deaf'],['grandchild','%s'],['progress',1],"
		  "['hold','%s'],['complete']]}",
			rig_path(r, "grandchild"), rig_path(r, "go")));
	peer_event(p, s, "progress");
	int n_old = rig_processes(r, old, 16);
	must(n_old >= 2, "worker and grandchild");
	rig_kill(r);
	must(rig_processes(r, now, 16) >= 2, "they outlive the daemon");
	rig_start(r);
	int n_now = rig_processes(r, now, 16);
	for (int i = 0; i < n_old && i < 16; i++)
		for (int k = 0; k < n_now && k < 16; k++)
			must(old[i] != now[k], "process %d of the first attempt lives", old[i]);
	rig_touch(r, "go");
	peer_completed(p, s);
	scene_end();
}
END_TEST

START_TEST(a_session_with_an_outcome_is_never_started_again)
{
	scene_begin_with("session", "exit_grace", "30s");
	const char *done = peer_run(p, "agent",
		J("{'on':{'eof':'ignore'},'do':[['write','%s'],['deaf'],['complete',{'a':7}],['progress',1],["
		  "'stuck']]}",
			rig_path(r, "starts")));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'RUNNING'",
			   done) == 1 &&
			file_lines(rig_path(r, "starts")) == 1,
		WAIT_S, "it runs");
	harness_pass(0.5); /* its word is committed */
	rig_kill(r);
	rig_start(r);
	struct note *n = peer_completed(p, done);
	must(json_integer_value(note_at(n, "payload.outputs.a")) == 7, "%s", n->body);
	must(file_lines(rig_path(r, "starts")) == 1, "it was started again");
	scene_end();
}
END_TEST

START_TEST(a_crash_while_aborting_ends_aborted) /* proves L2-12 */
{
	scene_begin_with("session", "abort_timeout", "20s");
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['write','%s'],['deaf'],['progress',1],['"
		  "stuck']]}",
			rig_path(r, "starts")));
	peer_event(p, s, "progress");
	peer_abort(p, s);
	peer_state(p, s, "ABORTING");
	rig_kill(r);
	rig_start(r);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(file_lines(rig_path(r, "starts")) == 1, "it was started again");
	must(rig_processes(r, NULL, 0) == 0, "something survived");
	scene_end();
}
END_TEST

START_TEST(an_abort_that_waited_for_the_daemon_ends_the_recovery) /* proves L2-12 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	rig_kill(r);
	peer_abort(p, s);
	rig_start(r);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must_have_recovered(s, 1, "restarted");
	scene_end();
}
END_TEST

START_TEST(recovery_is_committed_before_the_daemon_is_ready)
{
	const char *s[5];

	scene_begin();
	for (int i = 0; i < 5; i++)
		s[i] = peer_run(p, "agent",
			J("{'do':[['progress',1],['hold','%s'],['complete']]}", rig_path(r, "go")));
	for (int i = 0; i < 5; i++)
		peer_event(p, s[i], "progress");
	rig_kill(r);
	rig_spawn(r);
	rig_wait_ready(r);
	must(rig_sql(r,
		     "SELECT count(*) FROM transitions WHERE from_state = 'RUNNING' AND to_state = "
		     "'PAUSED' AND reason = 'callee_restarted'") == 5,
		"to PAUSED");
	must(rig_sql(r,
		     "SELECT count(*) FROM transitions WHERE from_state = 'PAUSED' AND to_state = "
		     "'RUNNING'") == 5,
		"to RUNNING");
	rig_touch(r, "go");
	for (int i = 0; i < 5; i++)
		peer_completed(p, s[i]);
	scene_end();
}
END_TEST

START_TEST(a_session_paused_by_its_worker_is_recovered_too)
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'paused','reason':'tea'}],['hold','%s'],['emit',{'type':'resumed'}]"
		  ",['complete']]}",
			rig_path(r, "go")));
	peer_state(p, s, "PAUSED");
	rig_kill(r);
	rig_touch(r, "go");
	rig_start(r);
	peer_completed(p, s);
	must(!peer_find_state(p, s, "PAUSED", 1) ||
			strcmp(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.from_state"),
				"PAUSED") == 0,
		"from PAUSED to RUNNING");
	scene_end();
}
END_TEST

START_TEST(a_checkpoint_is_stored_before_it_is_announced) /* proves L2-07 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['checkpoint',{'n':1,'deep':{'x':[1,2]}},'d'],['await','checkpoint_saved'],['dump']"
		  "]}"));
	struct note *n = peer_event(p, s, "checkpoint_created");
	must(rig_sql(r,
		     "SELECT count(*) FROM checkpoints WHERE checkpoint_id = '%s' AND session_id = '%s' AND "
		     "state LIKE '%%deep%%'",
		     note_text(n, "payload.data.checkpoint_id"), s) == 1,
		"announced, not stored");
	struct note *done = peer_completed(p, s);
	must_str(note_text(done, "payload.outputs.heard.0.type"), "checkpoint_saved");
	must_str(note_text(done, "payload.outputs.heard.0.checkpoint_id"),
		note_text(n, "payload.data.checkpoint_id"));
	scene_end();
}
END_TEST

START_TEST(a_checkpoint_over_its_limit_is_dropped_with_a_warning)
{
	scene_begin_with("limits", "checkpoint_state", "2KiB");
	char text[3001];
	memset(text, 's', 3000);
	text[3000] = 0;
	const char *s = peer_run(p, "agent",
		J("{'do':[['checkpoint',{'n':1}],['checkpoint',{'n':'%s'}],['complete']]}", text));
	peer_completed(p, s);
	must(peer_count(p, s, "event", "checkpoint_created") == 1 && peer_find(p, s, "event", "warning"),
		"one is too large");
	scene_end();
}
END_TEST

START_TEST(a_large_checkpoint_comes_back_whole) /* proves L2-08 */
{
	char command[700];

	r = rig_new();
	file_write(rig_path(r, "large.py"),
		"import json, sys, time\nstart = json.loads(sys.stdin.readline())\nstate = {'text': "
		"'a\\u00fcb' * 300000, 'real': 0.1}\n"
		"saved = start['checkpoint']\nif saved:\n    print(json.dumps({'type': 'completed', "
		"'outputs': {'same': saved['state'] == state}}), flush=True)\n"
		"else:\n    print(json.dumps({'type': 'checkpoint', 'description': 'large', 'state': state, "
		"'resumable': True}), flush=True)\n    time.sleep(60)\n");
	snprintf(command, sizeof command, "/usr/bin/python3 %s", rig_path(r, "large.py"));
	rig_capability(r, "large", command, NULL);
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "large", NULL);
	peer_event(p, s, "checkpoint_created");
	rig_kill(r);
	rig_start(r);
	struct note *n = peer_completed(p, s);
	must(json_is_true(note_at(n, "payload.outputs.same")), "%s", n->body);
	scene_end();
}
END_TEST

START_TEST(a_checkpoint_that_is_not_resumable_is_not_resumed_from) /* proves L2-08 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'checkpoint','description':'d','state':{'n':1},'resumable':false}],"
		  "['progress',1],"
		  "['hold','%s'],['dump']]}",
			rig_path(r, "go")));
	peer_event(p, s, "progress");
	must(json_is_false(note_at(peer_event(p, s, "checkpoint_created"), "payload.data.resumable")),
		"resumable");
	rig_kill(r);
	rig_touch(r, "go");
	rig_start(r);
	struct note *n = peer_completed(p, s);
	must(json_is_null(note_at(n, "payload.outputs.start.checkpoint")), "%s", n->body);
	must_have_recovered(s, 1, "restarted");
	scene_end();
}
END_TEST

START_TEST(tokens_of_before_are_good_after_a_restart)
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	rig_kill(r);
	rig_start(r);
	wait_until(peer_find_state(p, s, "RUNNING", 2), WAIT_S, "it runs again");
	peer_abort_with(p, s, J("{'session_token':'wrong'}"));
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	scene_end();
}
END_TEST

/* --- at random --- */

/* proves L2-04, L2-08, L1-07 */
START_TEST(stream_is_one_unbroken_sequence_however_often_hcpd_is_killed)
{
	enum { SESSIONS = 6, KILLS = 14 };
	const char *ids[SESSIONS + KILLS];
	const char *env = getenv("HCP_TEST_SEED");
	unsigned seed = env ? (unsigned)atoi(env) : 19;
	int n = 0;

	scene_begin();
	printf("seed %u\n", seed);
	for (; n < SESSIONS; n++)
		ids[n] = peer_submit(p, "agent", J("{'do':[['count',%d,7,0.015]]}", 120 + 20 * n));
	for (int i = 0; i < KILLS; i++) {
		/* From the very start of a run to well into it; and something new comes in each. */
		ids[n++] = peer_submit(p, "agent", J("{'do':[['progress',20],['count',5,2,0.01]]}"));
		harness_pass((double)(rand_r(&seed) % 500) / 1000 * (i % 3 ? 1 : 0.1));
		if (i % 4 == 3) { /* also in the middle of a graceful stop */
			rig_signal(r, SIGTERM);
			harness_pass((double)(rand_r(&seed) % 200) / 1000);
		}
		if (!r->exited)
			kill(r->pid, SIGKILL);
		rig_wait_exit(r, WAIT_S);
		rig_spawn(r);
		if (i % 2)
			rig_wait_ready(r);
	}
	rig_wait_ready(r);
	for (int i = 0; i < n; i++) {
		struct note *done = peer_completed(p, peer_accepted(p, ids[i]));
		must(json_integer_value(note_at(done, "payload.outputs.n")) ==
				(i < SESSIONS ? 120 + 20 * i : 5),
			"%s", done->body);
	}
	scene_end(); /* the oracle looks at each stream, and at the store */
}
END_TEST

START_TEST(a_working_directory_that_is_nobodys_is_deleted_at_start)
{
	static const char orphan[] = "7a1f4c0e-52c4-4f0b-9d6b-2f6a0c1d3e4f";
	char path[600];

	r = rig_new();
	rig_start(r);
	rig_stop(r);
	snprintf(path, sizeof path, "%s/state/work", r->dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/state/work/%s", r->dir, orphan);
	must(mkdir(path, 0700) == 0, "%s", path);
	rig_start(r);
	wait_until(!file_exists(path), WAIT_S, "what a crash left behind goes");
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("recovery");

	suite_test(s, a_killed_daemon_goes_on_from_the_last_checkpoint, 40);
	suite_test(s, without_a_checkpoint_it_starts_again, 40);
	suite_test(s, recovery_may_be_restart_or_fail, 40);
	suite_test(s, a_text_worker_is_started_again, 40);
	suite_test(s, processes_of_a_killed_daemon_are_ended_before_recovery, 40);
	suite_test(s, a_session_with_an_outcome_is_never_started_again, 60);
	suite_test(s, a_crash_while_aborting_ends_aborted, 60);
	suite_test(s, an_abort_that_waited_for_the_daemon_ends_the_recovery, 40);
	suite_test(s, recovery_is_committed_before_the_daemon_is_ready, 40);
	suite_test(s, a_session_paused_by_its_worker_is_recovered_too, 40);
	suite_test(s, a_checkpoint_is_stored_before_it_is_announced, 40);
	suite_test(s, a_checkpoint_over_its_limit_is_dropped_with_a_warning, 40);
	suite_test(s, a_large_checkpoint_comes_back_whole, 40);
	suite_test(s, a_checkpoint_that_is_not_resumable_is_not_resumed_from, 40);
	suite_test(s, tokens_of_before_are_good_after_a_restart, 40);
	suite_test(s, a_working_directory_that_is_nobodys_is_deleted_at_start, 40);
	suite_test(s, stream_is_one_unbroken_sequence_however_often_hcpd_is_killed, 120);
	return harness_run(s, false);
}
