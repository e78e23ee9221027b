/* SPDX-License-Identifier: MIT */
/* test_deadlines.c: maximum duration, idleness, the grace after a result. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/peer.h"
#include "support/rig.h"

static struct rig *r;
static struct peer *p;

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

START_TEST(a_session_over_its_duration_fails_and_its_worker_is_gone) /* proves L2-09 */
{
	r = rig_new();
	rig_set(r, "session", "max_duration", "1s");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['deaf'],['grandchild','%s'],['progress',1],"
		  "['stuck']]}",
			rig_path(r, "grandchild")));
	struct note *run = peer_state(p, s, "RUNNING");
	struct note *n = peer_closed(p, s, "FAILED", "timeout");
	must(rig_processes(r, NULL, 0) == 0, "something survived");
	must(n->at - run->at > 0.9, "after %.2f s", n->at - run->at);
	must(n->at - run->at < 1 + 2 + 0.5 * harness_scale(), "after %.2f s", n->at - run->at);
	peer_failed(p, s, "timeout", "timeout");
	must_str(note_text(peer_state(p, s, "FAILED"), "payload.data.reason"), "timeout");
	end();
}
END_TEST

START_TEST(the_least_of_task_capability_and_system_counts) /* proves L2-09, L3-10 */
{
	static const struct {
		const char *capability, *task, *least;
	} rows[] = {
		{"agent", NULL, "PT40S"},
		{"agent", "PT20S", "PT20S"},
		{"agent", "PT72H", "PT40S"},
		{"short", NULL, "PT10S"},
		{"short", "PT5S", "PT5S"},
		{"short", "PT30S", "PT10S"},
	};

	r = rig_new();
	rig_set(r, "session", "max_duration", "40s");
	rig_capability(r, "short", source_path("tests/integration/agents/agent.py"),
		J("{'constraints':{'max_duration':'PT10S'}}"));
	rig_start(r);
	p = peer_new(r);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		json_t *more = rows[i].task ? J("{'constraints':{'max_duration':'%s'}}", rows[i].task) : NULL;
		struct note *n =
			peer_reply(p, peer_submit_more(p, rows[i].capability, J("{'do':[['dump']]}"), more));
		must_str(note_text(n, "payload.constraints.max_duration"), rows[i].least);
		peer_completed(p, n->session);
	}
	const char *s = peer_run_more(
		p, "short", J("{'do':[['forever']]}"), J("{'constraints':{'max_duration':'PT0.6S'}}"));
	double t = harness_now();
	peer_failed(p, s, "timeout", "timeout");
	must(harness_now() - t < 4 * harness_scale(), "%.1f", harness_now() - t);
	end();
}
END_TEST

START_TEST(waiting_for_a_slot_does_not_count) /* proves L2-09 */
{
	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_start(r);
	p = peer_new(r);
	const char *first = peer_run(p, "agent", J("{'do':[['sleep',1.5],['complete']]}"));
	const char *second = peer_run_more(p, "agent", J("{'do':[['sleep',0.2],['complete']]}"),
		J("{'constraints':{'max_duration':'PT1S'}}"));
	peer_completed(p, first);
	peer_completed(p, second);
	end();
}
END_TEST

START_TEST(time_runs_on_while_the_daemon_is_down) /* proves L2-09 */
{
	r = rig_new();
	rig_set(r, "session", "max_duration", "2s");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(
		p, "agent", J("{'do':[['progress',1],['write','%s'],['forever']]}", rig_path(r, "starts")));
	peer_event(p, s, "progress");
	rig_kill(r);
	harness_pass(2.5);
	rig_start(r);
	double t = harness_now();
	peer_failed(p, s, "timeout", "timeout");
	must(harness_now() - t < 1.5 * harness_scale(), "it got a second life of %.1f s", harness_now() - t);
	end();
}
END_TEST

START_TEST(paused_counts_towards_the_duration) /* proves L2-09, L2-02 */
{
	r = rig_new();
	rig_set(r, "session", "max_duration", "1s");
	rig_start(r);
	p = peer_new(r);
	const char *s =
		peer_run(p, "agent", J("{'do':[['emit',{'type':'paused','reason':'tea'}],['forever']]}"));
	peer_state(p, s, "PAUSED");
	peer_failed(p, s, "timeout", "timeout");
	must_str(note_text(peer_state(p, s, "FAILED"), "payload.data.from_state"), "RUNNING");
	end();
}
END_TEST

START_TEST(a_silent_worker_fails_by_idleness_and_a_talking_one_does_not) /* proves L2-10 */
{
	r = rig_new();
	rig_set(r, "session", "idle_timeout", "800ms");
	rig_start(r);
	p = peer_new(r);
	const char *silent = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	const char *talking = peer_run(p, "agent", J("{'do':[['count',12,0,0.2]]}"));
	const char *pausing = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'paused','reason':'tea'}],['sleep',1.6],['emit',{'type':'resumed'}]"
		  ","
		  "['complete']]}"));
	peer_failed(p, silent, "idle_timeout", "execution_error");
	must_str(note_text(peer_state(p, silent, "FAILED"), "payload.data.reason"), "idle_timeout");
	peer_completed(p, talking);
	peer_completed(p, pausing); /* idle counts only while RUNNING */
	end();
}
END_TEST

START_TEST(after_its_result_a_worker_has_a_grace_and_then_the_ladder)
{
	r = rig_new();
	rig_set(r, "session", "exit_grace", "1s");
	rig_start(r);
	p = peer_new(r);
	/* obeys the end of its stdin */
	const char *quick = peer_run(p, "agent", J("{'do':[['complete',{'a':1}]]}"));
	struct note *n = peer_completed(p, quick);
	must(n->at - peer_state(p, quick, "RUNNING")->at < 1 * harness_scale(), "no need to wait");
	/* lingers, deaf, with a grandchild: still COMPLETED, when all of them are gone */
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['deaf'],['grandchild','%s'],['progress',1],"
		  "['complete',{'a':1}],['stuck']]}",
			rig_path(r, "grandchild")));
	n = peer_event(p, s, "progress");
	struct note *closed = peer_closed(p, s, "COMPLETED", "completed");
	must(rig_processes(r, NULL, 0) == 0, "something survived");
	must(closed->at - n->at > 0.9, "it had %.2f s", closed->at - n->at);
	must(closed->at - n->at < 1 + 2 + 0.7 * harness_scale(), "it had %.2f s", closed->at - n->at);
	must(peer_find_state(p, s, "COMPLETED", 1)->at > n->at + 0.9, "COMPLETED while a process lived");
	end();
}
END_TEST

START_TEST(an_abort_after_the_result_only_speeds_up_the_killing) /* proves L2-12 */
{
	r = rig_new();
	rig_set(r, "session", "exit_grace", "20s");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent",
		J("{'on':{'eof':'ignore'},'do':[['progress',1],['complete',{'a':1}],['write','%s'],['forever'"
		  "]]}",
			rig_path(r, "said")));
	wait_until(file_exists(rig_path(r, "said")), WAIT_S, "its word");
	harness_pass(0.3);
	double t = harness_now();
	peer_abort(p, s);
	peer_completed(p, s); /* the first committed decides */
	must(harness_now() - t < 5 * harness_scale(), "the abort did not speed it up: %.1f s",
		harness_now() - t);
	end();
}
END_TEST

START_TEST(a_stopped_and_continued_daemon_keeps_its_deadlines)
{
	r = rig_new();
	rig_set(r, "session", "max_duration", "1s");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	rig_signal(r, SIGSTOP);
	harness_pass(1.5);
	rig_signal(r, SIGCONT);
	peer_failed(p, s, "timeout", "timeout");
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deadlines");

	suite_test(s, a_session_over_its_duration_fails_and_its_worker_is_gone, 40);
	suite_test(s, the_least_of_task_capability_and_system_counts, 40);
	suite_test(s, waiting_for_a_slot_does_not_count, 40);
	suite_test(s, time_runs_on_while_the_daemon_is_down, 40);
	suite_test(s, paused_counts_towards_the_duration, 40);
	suite_test(s, a_silent_worker_fails_by_idleness_and_a_talking_one_does_not, 40);
	suite_test(s, after_its_result_a_worker_has_a_grace_and_then_the_ladder, 40);
	suite_test(s, an_abort_after_the_result_only_speeds_up_the_killing, 40);
	suite_test(s, a_stopped_and_continued_daemon_keeps_its_deadlines, 40);
	return harness_run(s, false);
}
