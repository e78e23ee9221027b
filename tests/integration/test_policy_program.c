/* SPDX-License-Identifier: MIT */
/* test_policy_program.c: a real policy program beside a real daemon: its verdicts, its failures, and
 * restarts of both. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/scene.h"

#define POLICY source_path("tests/integration/agents/policy.py")

static void begin_with_program(const char *timeout)
{
	r = rig_new();
	rig_set(r, "policy", "command", "/usr/bin/env RIG_MARK=%s %s", r->dir, POLICY);
	rig_set(r, "policy", "timeout", "%s", timeout);
	rig_start(r);
	p = peer_new(r);
}

static const char *submit(const char *wish)
{
	return peer_submit(p, "agent", json_pack("{s:s}", "policy", wish));
}

static void denied(const char *message_id, const char *says)
{
	struct note *n = peer_rejected(p, message_id, "policy_denied");

	must(strstr(note_text(n, "payload.reason_message"), says) != NULL, "%s", n->body);
}

static void runs_again(void)
{
	peer_completed(p, peer_run(p, "agent", json_pack("{s:s}", "policy", "allow")));
}

START_TEST(policy_program_decides_which_task_runs) /* proves L3-11 */
{
	begin_with_program("20s");
	const char *s = peer_run(p, "agent", json_pack("{s:s}", "policy", "allow"));
	peer_completed(p, s);
	denied(submit("deny"), "the policy program denied it: because of R2 of ");
	denied(submit("ask"), "wants a human to decide, and there is nobody here who may");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'REJECTED'") == 2, "two are rejected");
	must(rig_sql(r, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.who') = 'program'") == 3,
		"three verdicts");
	scene_end();
}
END_TEST

START_TEST(policy_program_silent_or_talking_nonsense_denies_in_time) /* proves L3-11 */
{
	begin_with_program("1s");
	double began = harness_now();
	denied(submit("silent"), "did not answer in time");
	must(harness_now() - began >= 0.9, "it was given its second");
	denied(submit("garbage"), "did not answer in time");
	denied(submit("nonsense"), "neither allow nor deny nor ask");
	const char *late = submit("late");
	denied(late, "did not answer in time");
	runs_again(); /* and says the late one then */
	must(rig_log_count(r, "answered late") == 1, "the late one is passed over");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'REJECTED'") == 4, "and stays rejected");
	scene_end();
}
END_TEST

START_TEST(policy_program_that_dies_denies_and_runs_again) /* proves L3-11 */
{
	begin_with_program("20s");
	denied(submit("die"), "died before it answered");
	wait_until(rig_log_count(r, "policy: running") == 2, WAIT_S, "it runs again");
	runs_again();
	denied(submit("die"), "died before it answered"); /* again, and within a second */
	denied(submit("allow"), "is not running");
	wait_until(rig_log_count(r, "policy: running") == 3, WAIT_S, "it runs again");
	runs_again();
	scene_end();
}
END_TEST

START_TEST(a_program_that_is_not_there_denies)
{
	r = rig_new();
	rig_set(r, "policy", "command", "/nonexistent/policy");
	rig_start(r);
	p = peer_new(r);
	denied(submit("allow"), "is not running");
	rig_set(r, "policy", "command", "/usr/bin/env RIG_MARK=%s %s", r->dir, POLICY);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "policy: running"), WAIT_S, "a reload names another");
	runs_again();
	scene_end();
}
END_TEST

/* proves L3-11 */
START_TEST(approval_waits_through_a_crash_and_is_requested_again)
{
	begin_with_program("60s");
	const char *id = submit(rig_path(r, "go"));
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM sessions WHERE state = 'PENDING' AND waits_for = "
			   "'program'") == 1,
		WAIT_S, "it waits");
	runs_again(); /* others do not wait for it */
	rig_kill(r);
	rig_start(r);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING' AND waits_for = 'program'") ==
			1,
		"it still waits");
	rig_stop(r); /* an orderly stop does not wait for the verdict, either */
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING' AND waits_for = 'program'") ==
			1,
		"it still waits");
	rig_touch(r, "go");
	rig_start(r);
	struct note *n = peer_reply(p, id);
	must_str(n->kind, "task_accepted");
	peer_completed(p, n->session);
	scene_end();
}
END_TEST

START_TEST(a_reload_swaps_the_program_and_the_old_one_is_gone)
{
	pid_t pids[8];

	begin_with_program("20s");
	wait_until(rig_log_has(r, "policy: running"), WAIT_S, "it runs");
	must(rig_processes(r, pids, 8) == 1, "one process");
	rig_signal(r, SIGHUP);
	wait_until(rig_log_count(r, "policy: running") == 2, WAIT_S, "another runs");
	wait_until(rig_processes(r, pids, 8) == 1, WAIT_S, "the old one is gone");
	runs_again();
	rig_set(r, "policy", "command", NULL);
	rig_set(r, "policy", "timeout", NULL);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_processes(r, pids, 8) == 0, WAIT_S, "without one none runs");
	peer_completed(p, peer_run(p, "agent", json_pack("{s:s}", "policy", "deny")));
	scene_end();
}
END_TEST

START_TEST(the_example_decides_by_its_rules)
{
	r = rig_new();
	file_write(rig_path(r, "rules.json"),
		"[{\"if\":{\"risk\":[\"R1\",\"R2\"],\"task.inputs.policy\":[\"/srv/*\"]},"
		"\"decision\":\"allow\"}]");
	rig_set(r, "policy", "command", "%s %s", source_path("examples/policies/opa-like.py"),
		rig_path(r, "rules.json"));
	rig_set(r, "policy", "timeout", "20s");
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", json_pack("{s:s}", "policy", "/srv/tea")));
	denied(submit("/etc/passwd"), "no rule allows it");
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("policy program");

	suite_test(s, policy_program_decides_which_task_runs, 60);
	suite_test(s, policy_program_silent_or_talking_nonsense_denies_in_time, 60);
	suite_test(s, policy_program_that_dies_denies_and_runs_again, 60);
	suite_test(s, a_program_that_is_not_there_denies, 60);
	suite_test(s, approval_waits_through_a_crash_and_is_requested_again, 90);
	suite_test(s, a_reload_swaps_the_program_and_the_old_one_is_gone, 60);
	suite_test(s, the_example_decides_by_its_rules, 60);
	return harness_run(s, false);
}
