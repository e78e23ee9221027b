/* SPDX-License-Identifier: MIT */
/* test_broker_death.c: the broker dies, hangs, comes back. The suite has one of its own to do that to. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/peer.h"
#include "support/rig.h"

static struct rig *r;
static struct peer *p;
static struct broker *broker;

static void begin(void)
{
	broker = broker_private();
	r = rig_new();
}

/* A killed broker may come back without the caller's binding. Where the daemon is quicker than the caller,
 * who makes the binding again, the broker returns the daemon's first events: those come later, behind others.
 */
static void end(void)
{
	rig_stop(r);
	p->any_order = strstr(r->status, ", 0 unroutable") == NULL;
	peer_finish(p);
	rig_finish(r);
}

START_TEST(a_killed_broker_costs_nothing_once_it_is_back) /* proves L1-10, L1-07 */
{
	begin();
	r->watchdog_usec = 2000000;
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	const char *s = peer_run(p, "agent", J("{'do':[['count',2000,500,0.002]]}"));
	const char *done = peer_run(p, "agent",
		J("{'do':[['progress',3],['hold','%s'],['progress',500],['complete']]}", rig_path(r, "go")));
	peer_event(p, s, "progress");
	peer_event(p, done, "progress");
	broker_kill(broker);
	int fed = r->watchdog;
	rig_touch(r, "go");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'COMPLETED'",
			   done) == 1,
		WAIT_S, "sessions go on without a broker");
	wait_until(r->watchdog > fed + 1, WAIT_S, "the watchdog is fed");
	broker_start(broker, broker->dir);
	rig_wait_consuming(r);
	peer_completed(p, s);
	peer_completed(p, done);
	wait_until(peer_count(p, done, "event", "progress") >= 503, WAIT_S, "%d",
		peer_count(p, done, "event", "progress"));
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

START_TEST(a_broker_that_hangs_is_noticed_and_the_daemon_lives) /* proves L1-22, L1-09 */
{
	begin();
	rig_set(r, "amqp", "heartbeat", "1");
	r->watchdog_usec = 1000000;
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['count',300,0,0.01]]}"));
	peer_event(p, s, "progress");
	kill(broker->pid, SIGSTOP);
	peer_close(p);
	int fed = r->watchdog;
	double t = harness_now();
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"the session goes on");
	wait_until(strstr(r->status, "publishing no") && strstr(r->status, "consuming no"), 6,
		"both are given up; it says: %s", r->status);
	while (harness_now() < t + 5) /* several heartbeats */
		harness_tick();
	must(r->watchdog - fed >= 6, "the watchdog was fed %d times in 5 s", r->watchdog - fed);
	must(!r->exited, "the daemon ended");
	kill(broker->pid, SIGCONT);
	rig_wait_consuming(r);
	peer_open(p, "");
	peer_completed(p, s);
	peer_completed(p, peer_run(p, "agent", NULL));
	wait_until(strstr(r->status, "publishing yes") && strstr(r->status, "consuming yes"), WAIT_S,
		"and are back; it says: %s", r->status);
	end();
}
END_TEST

START_TEST(a_stop_does_not_wait_for_a_broker_that_hangs) /* proves L2-16 */
{
	begin();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['count',100000,0,0.01]]}"));
	peer_event(p, s, "progress");
	kill(broker->pid, SIGSTOP);
	double t = harness_now();
	rig_stop(r);
	must(harness_now() - t < 4 + 2 * harness_scale(), "%.1f s with a stop_timeout of 4",
		harness_now() - t);
	kill(broker->pid, SIGCONT);
	rig_start(r);
	wait_until(peer_find_state(p, s, "RUNNING", 2), WAIT_S, "what was left in the outbox comes later");
	must_str(note_text(peer_find_state(p, s, "PAUSED", 1), "payload.data.reason"), "stopping");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", NULL);
	end();
}
END_TEST

START_TEST(events_made_without_a_broker_are_sent_by_the_next_run_too) /* proves L1-10 */
{
	begin();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent",
		J("{'do':[['progress',1],['hold','%s'],['progress',200],['complete']]}", rig_path(r, "go")));
	peer_event(p, s, "progress");
	broker_kill(broker);
	rig_touch(r, "go");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"completed unseen");
	rig_kill(r);
	rig_spawn(r);
	rig_wait_ready(r); /* without a broker */
	broker_start(broker, broker->dir);
	rig_wait_consuming(r);
	peer_completed(p, s);
	wait_until(peer_count(p, s, "event", "progress") >= 201, WAIT_S, "%d",
		peer_count(p, s, "event", "progress"));
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("broker death");

	suite_test(s, a_killed_broker_costs_nothing_once_it_is_back, 120);
	suite_test(s, a_broker_that_hangs_is_noticed_and_the_daemon_lives, 120);
	suite_test(s, a_stop_does_not_wait_for_a_broker_that_hangs, 120);
	suite_test(s, events_made_without_a_broker_are_sent_by_the_next_run_too, 120);
	return harness_run(s, true);
}
