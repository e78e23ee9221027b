/* SPDX-License-Identifier: MIT */
/* test_stopping.c: a graceful stop, what still works during it, and the way back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/peer.h"
#include "support/rig.h"

static struct rig *r;
static struct peer *p;

static void begin(const char *stop_timeout)
{
	r = rig_new();
	rig_set(r, "daemon", "stop_timeout", "%s", stop_timeout);
	rig_start(r);
	p = peer_new(r);
}

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

START_TEST(a_stop_asks_for_a_checkpoint_pauses_and_comes_back) /* proves L2-16 */
{
	begin("10s");
	const char *s = peer_run(
		p, "agent", J("{'do':[['note_lines','%s'],['count',300,0,0.02]]}", rig_path(r, "lines")));
	wait_until(peer_count(p, s, "event", "progress") > 5, WAIT_S, "it works");
	double t = harness_now();
	rig_stop(r);
	must(harness_now() - t < 3 * harness_scale(), "it answered, no need for %.1f s", harness_now() - t);
	must(rig_processes(r, NULL, 0) == 0, "workers are gone");
	char *lines = file_read(rig_path(r, "lines"), NULL);
	must(lines && strstr(lines, "checkpoint_request"), "it was not asked");
	free(lines);
	must_str(note_text(peer_state(p, s, "PAUSED"), "payload.data.reason"), "stopping");
	must(peer_count(p, s, "event", "checkpoint_created") == 1, "its checkpoint");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PAUSED'") == 1, "PAUSED in the store");
	rig_start(r);
	struct note *n = peer_completed(p, s);
	must_str(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.reason"),
		"recovered_from_checkpoint");
	must(json_integer_value(note_at(n, "payload.outputs.first")) > 5, "%s", n->body);
	end();
}
END_TEST

START_TEST(worker_that_does_not_answer_is_ended_at_half_and_is_paused) /* proves L2-16 */
{
	begin("4s");
	const char *s = peer_run(p, "agent",
		J("{'on':{'checkpoint_request':'ignore','abort':'ignore','eof':'ignore'},'do':[['deaf'],"
		  "['grandchild','%s'],['progress',1],['stuck']]}",
			rig_path(r, "grandchild")));
	peer_event(p, s, "progress");
	double t = harness_now();
	rig_stop(r);
	double took = harness_now() - t;
	must(took > 1.8 && took < 4 + 0.5 * harness_scale(), "%.2f s with a stop_timeout of 4", took);
	must(rig_processes(r, NULL, 0) == 0, "something survived");
	must_str(note_text(peer_state(p, s, "PAUSED"), "payload.data.reason"), "stopping");
	rig_start(r);
	wait_until(peer_find_state(p, s, "RUNNING", 2), WAIT_S, "it comes back");
	must_str(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.reason"), "restarted");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", NULL);
	end();
}
END_TEST

START_TEST(text_workers_are_ended_at_once) /* proves L2-16 */
{
	r = rig_new();
	rig_text(r, "sleeper", "echo up; [ -e $GO ] || while :; do sleep 0.05; done");
	rig_set(r, "capability sleeper", "env", "RIG_MARK=%s GO=%s", r->dir, rig_path(r, "go"));
	rig_set(r, "daemon", "stop_timeout", "20s");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "sleeper", NULL);
	peer_event(p, s, "log");
	double t = harness_now();
	rig_stop(r);
	must(harness_now() - t < 3 * harness_scale(), "%.1f s", harness_now() - t);
	must_str(note_text(peer_state(p, s, "PAUSED"), "payload.data.reason"), "stopping");
	rig_touch(r, "go");
	rig_start(r);
	peer_completed(p, s);
	end();
}
END_TEST

START_TEST(sigint_stops_as_well)
{
	begin("4s");
	rig_signal(r, SIGINT);
	must(rig_wait_exit(r, WAIT_S) == 0, "not 0");
	end();
}
END_TEST

/* A worker that keeps the stop going until half of its time. */
static const char *start_anchor(void)
{
	const char *s = peer_run(p, "agent",
		J("{'on':{'checkpoint_request':'ignore','abort':'ignore','eof':'ignore'},'do':[['deaf'],['"
		  "note_lines','%s'],"
		  "['progress',1],['forever']]}",
			rig_path(r, "lines")));

	peer_event(p, s, "progress");
	return s;
}

static bool was_asked(void)
{
	char *lines = file_read(rig_path(r, "lines"), NULL);
	bool yes = lines && strstr(lines, "checkpoint_request");

	free(lines);
	return yes;
}

START_TEST(stop_answers_and_stores_submits_and_starts_nothing) /* proves L2-16 */
{
	begin("6s");
	const char *anchor = start_anchor();
	rig_signal(r, SIGTERM);
	wait_until(was_asked(), WAIT_S, "the stop has begun");
	const char *s =
		peer_run(p, "agent", J("{'do':[['write','%s'],['complete']]}", rig_path(r, "started")));
	peer_rejected(p, peer_submit(p, "no-such", NULL), "unknown_capability");
	peer_event(p, s, "session_created");
	must(!r->exited, "the answers came after the stop");
	must(rig_wait_exit(r, WAIT_S) == 0, "exit");
	must(!file_exists(rig_path(r, "started")), "a worker was started while stopping");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'PENDING'", s) ==
			1,
		"PENDING");
	rig_start(r);
	peer_completed(p, s);
	peer_abort(p, anchor);
	peer_closed(p, anchor, "ABORTED", NULL);
	end();
}
END_TEST

START_TEST(stop_obeys_aborts_and_an_aborted_session_never_resumes) /* proves L2-18 */
{
	begin("6s");
	const char *anchor = start_anchor();
	const char *s = peer_run(p, "agent",
		J("{'on':{'checkpoint_request':'ignore'},'do':[['write','%s'],['progress',1],['forever']]}",
			rig_path(r, "starts")));
	peer_event(p, s, "progress");
	rig_signal(r, SIGTERM);
	wait_until(was_asked(), WAIT_S, "the stop has begun");
	peer_abort(p, s);
	peer_abort(p, anchor);
	must(rig_wait_exit(r, WAIT_S) == 0, "exit");
	rig_start(r);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	peer_closed(p, anchor, "ABORTED", "aborted_by_caller");
	must(!peer_find_state(p, s, "RUNNING", 2) && !peer_find_state(p, anchor, "RUNNING", 2),
		"an aborted session resumed");
	must(peer_find_state(p, s, "ABORTING", 1), "ABORTING");
	end();
}
END_TEST

START_TEST(a_result_during_the_stop_is_a_result) /* proves L2-16 */
{
	begin("8s");
	const char *anchor = start_anchor();
	const char *s = peer_run(p, "agent",
		J("{'on':{'checkpoint_request':'ignore'},'do':[['progress',1],['await','checkpoint_request'],"
		  "['complete']]}"));
	peer_event(p, s, "progress");
	rig_signal(r, SIGTERM);
	must(rig_wait_exit(r, WAIT_S) == 0, "exit");
	rig_start(r);
	peer_completed(p, s);
	must(!peer_find_state(p, s, "PAUSED", 1), "it was paused although it had ended");
	peer_abort(p, anchor);
	peer_closed(p, anchor, "ABORTED", NULL);
	end();
}
END_TEST

START_TEST(twenty_workers_stop_within_the_bound) /* proves L2-16 */
{
	const char *s[20];

	begin("5s");
	for (int i = 0; i < 20; i++)
		s[i] = peer_run(p, "agent",
			J("{'on':{'checkpoint_request':'%s','eof':'ignore'},'do':[%s['count',100000,0,0.05]]"
			  "}",
				i % 2 ? "ignore" : "checkpoint", i % 3 ? "" : "['deaf'],"));
	for (int i = 0; i < 20; i++)
		peer_event(p, s[i], "progress");
	double t = harness_now();
	rig_stop(r);
	must(harness_now() - t < 5 + 1 * harness_scale(), "%.1f s", harness_now() - t);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PAUSED'") == 20, "all are PAUSED");
	p->may_be_open = true;
	end();
}
END_TEST

START_TEST(signals_that_mean_something_to_other_daemons_end_nothing)
{
	static const int signals[] = {SIGUSR1, SIGUSR2, SIGALRM};

	begin("4s");
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		kill(r->pid, signals[i]);
		peer_completed(p, peer_run(p, "agent", NULL));
	}
	must(!r->exited, "hcpd ended, status %d", r->wait_status);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stopping");

	suite_test(s, signals_that_mean_something_to_other_daemons_end_nothing, 40);
	suite_test(s, a_stop_asks_for_a_checkpoint_pauses_and_comes_back, 60);
	suite_test(s, worker_that_does_not_answer_is_ended_at_half_and_is_paused, 40);
	suite_test(s, text_workers_are_ended_at_once, 40);
	suite_test(s, sigint_stops_as_well, 40);
	suite_test(s, stop_answers_and_stores_submits_and_starts_nothing, 40);
	suite_test(s, stop_obeys_aborts_and_an_aborted_session_never_resumes, 40);
	suite_test(s, a_result_during_the_stop_is_a_result, 40);
	suite_test(s, twenty_workers_stop_within_the_bound, 60);
	return harness_run(s, false);
}
