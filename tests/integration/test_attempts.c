/* SPDX-License-Identifier: MIT */
/* test_attempts.c: real workers that die: their session goes on from its checkpoint, or ends when it has
 * died too often. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/scene.h"

static void begin_trying(const char *attempts)
{
	r = rig_new();
	rig_set(r, "capability agent", "max_attempts", "%s", attempts);
	rig_set(r, "capability agent", "retry_delay", "50ms");
	rig_start(r);
	p = peer_new(r);
}

START_TEST(a_killed_worker_is_started_again_and_the_task_completes) /* proves L2-07 L2-08 */
{
	begin_trying("3");
	const char *s = peer_run(p, "agent",
		J("{'do':[['first',['checkpoint',{'n':20}],['await','checkpoint_saved'],['kill',9]],"
		  "['count',30,10]]}"));
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.first")) == 21, "not from its checkpoint: %s",
		n->body);
	must(json_integer_value(note_at(n, "payload.outputs.attempt")) == 2, "%s", n->body);
	n = peer_find(p, s, "event", "error");
	must(n && json_is_true(note_at(n, "payload.data.recoverable")), "no error event that is recoverable");
	must_str(note_text(n, "payload.data.code"), "worker_died");
	must_str(note_text(peer_find_state(p, s, "PAUSED", 1), "payload.data.reason"), "worker_died");
	must_str(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.reason"),
		"recovered_from_checkpoint");
	scene_end();
}
END_TEST

START_TEST(a_crash_loop_ends_FAILED)
{
	begin_trying("3");
	const char *s = peer_run(p, "agent", J("{'do':[['write','%s'],['exit',7]]}", rig_path(r, "starts")));
	struct note *n = peer_failed(p, s, "worker_failed", "execution_error");
	must(file_lines(rig_path(r, "starts")) == 3, "%d attempts", file_lines(rig_path(r, "starts")));
	must(json_integer_value(note_at(n, "payload.error_details.deaths")) == 3, "%s", n->body);
	must(peer_count(p, s, "event", "error") == 2, "an event for each but the last");
	scene_end();
}
END_TEST

START_TEST(processes_of_a_dead_attempt_do_not_live_beside_the_next)
{
	begin_trying("2");
	const char *s = peer_run(p, "agent",
		J("{'do':[['first',['grandchild','%s',true],['kill',9]],['shell',"
		  "'kill -0 $(cat %s) 2>/dev/null && exit 1; exit 0'],['complete']]}",
			rig_path(r, "old"), rig_path(r, "old")));
	peer_completed(p, s);
	scene_end();
}
END_TEST

START_TEST(worker_and_daemon_may_die_in_any_order) /* proves L2-08 */
{
	begin_trying("20");
	const char *s = peer_run(p, "agent", J("{'do':[['count',120,10,0.02]]}"));
	for (int i = 1; i <= 6; i++) {
		pid_t pids[8];

		wait_until(
			peer_count(p, s, "event", "checkpoint_created") >= i && rig_processes(r, pids, 8) > 0,
			WAIT_S, "work");
		if (i % 2 && rig_processes(r, pids, 8) > 0)
			kill(pids[0], SIGKILL);
		if (i % 3 == 0) {
			rig_kill(r);
			rig_start(r);
		}
	}
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.n")) == 120, "%s", n->body);
	must(json_integer_value(note_at(n, "payload.outputs.first")) % 10 == 1, "not from a checkpoint: %s",
		n->body);
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("attempts");

	suite_test(s, a_killed_worker_is_started_again_and_the_task_completes, 40);
	suite_test(s, a_crash_loop_ends_FAILED, 40);
	suite_test(s, processes_of_a_dead_attempt_do_not_live_beside_the_next, 60);
	suite_test(s, worker_and_daemon_may_die_in_any_order, 90);
	return harness_run(s, false);
}
