/* SPDX-License-Identifier: MIT */
/* test_slots.c: how many run at once, who comes next, who is turned away. */
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

static int running(const char *const *s, int n)
{
	int count = 0;

	for (int i = 0; i < n; i++)
		count += peer_find_state(p, s[i], "RUNNING", 1) &&
			!peer_find(p, s[i], "event", "session_closed");
	return count;
}

START_TEST(no_more_than_max_sessions_run_and_the_rest_wait_pending) /* proves L3-10 */
{
	const char *s[5];

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "2");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 5; i++)
		s[i] = peer_run(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go%d", i)));
	for (int i = 0; i < 5; i++)
		peer_event(p, s[i], "session_created"); /* at approval, for all */
	wait_until(running(s, 5) == 2, WAIT_S, "two run");
	harness_pass(0.3);
	must(running(s, 5) == 2, "%d run", running(s, 5));
	must(rig_processes(r, NULL, 0) == 2, "%d processes", rig_processes(r, NULL, 0));
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING'") == 3,
		"waiting ones are PENDING in the store");
	for (int i = 0; i < 5; i++) { /* first come, first served */
		peer_state(p, s[i], "RUNNING");
		must(i > 2 || !peer_find_state(p, s[i + 2], "RUNNING", 1), "%d overtook", i + 2);
		rig_touch(r, rig_path(r, "go%d", i) + strlen(r->dir) + 1);
		peer_completed(p, s[i]);
	}
	must_str(note_text(peer_state(p, s[4], "RUNNING"), "payload.data.reason"), "slot_free");
	end();
}
END_TEST

START_TEST(a_capability_has_its_own_limit) /* proves L3-10 */
{
	const char *s[3];

	r = rig_new();
	rig_capability(r, "single", source_path("tests/integration/agents/agent.py"),
		J("{'constraints':{'concurrent_limit':1}}"));
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 3; i++)
		s[i] = peer_run(
			p, "single", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go%d", i)));
	wait_until(running(s, 3) == 1, WAIT_S, "one runs");
	peer_completed(p, peer_run(p, "agent", NULL)); /* others are not held up */
	must(running(s, 3) == 1, "%d of them run", running(s, 3));
	for (int i = 0; i < 3; i++) {
		file_write(rig_path(r, "go%d", i), "");
		peer_completed(p, s[i]);
	}
	end();
}
END_TEST

START_TEST(priority_orders_the_waiting) /* proves L3-10 */
{
	static const char *const given[] = {"low", "normal", "high", "urgent", "high", NULL};
	static const int order[] = {3, 2, 4, 1, 5, 0};
	const char *s[6];

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_start(r);
	p = peer_new(r);
	const char *first = peer_run(
		p, "agent", J("{'do':[['progress',1],['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_event(p, first, "progress");
	for (int i = 0; i < 6; i++)
		s[i] = peer_run_more(p, "agent", J("{'do':[['complete']]}"),
			given[i] ? J("{'constraints':{'priority':'%s'}}", given[i]) :
				   NULL); /* absent is normal */
	rig_touch(r, "go");
	for (int i = 0; i < 6; i++)
		peer_completed(p, s[i]);
	for (int i = 0; i + 1 < 6; i++)
		must(peer_state(p, s[order[i]], "RUNNING")->at <=
				peer_state(p, s[order[i + 1]], "RUNNING")->at,
			"%s ran after %s", given[order[i]] ? given[order[i]] : "absent",
			given[order[i + 1]] ? given[order[i + 1]] : "absent");
	end();
}
END_TEST

START_TEST(a_full_backlog_rejects) /* proves L3-10 */
{
	const char *s[3];

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_set(r, "daemon", "max_pending", "2");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 3; i++) {
		s[i] = peer_run(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")));
		if (i == 0)
			peer_state(p, s[0], "RUNNING");
	}
	peer_rejected(p, peer_submit(p, "agent", NULL), "resource_unavailable");
	rig_touch(r, "go");
	for (int i = 0; i < 3; i++)
		peer_completed(p, s[i]);
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

START_TEST(the_waiting_survive_a_crash_in_their_order) /* proves L3-10, L2-08 */
{
	const char *s[4];

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 4; i++)
		s[i] = peer_run_more(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")),
			i == 3 ? J("{'constraints':{'priority':'urgent'}}") : NULL);
	peer_state(p, s[0], "RUNNING");
	peer_event(p, s[3], "session_created");
	rig_kill(r);
	rig_start(r);
	wait_until(peer_find_state(p, s[0], "RUNNING", 2), WAIT_S, "the first runs again");
	must(!peer_find_state(p, s[1], "RUNNING", 1) && !peer_find_state(p, s[3], "RUNNING", 1),
		"more than one run");
	rig_touch(r, "go");
	for (int i = 0; i < 4; i++)
		peer_completed(p, s[i]);
	must(peer_state(p, s[3], "RUNNING")->at <= peer_state(p, s[1], "RUNNING")->at, "urgent first");
	must(peer_state(p, s[1], "RUNNING")->at <= peer_state(p, s[2], "RUNNING")->at, "then in their order");
	end();
}
END_TEST

START_TEST(a_failed_start_gives_its_slot_back)
{
	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_capability(r, "absent", "/no/such/program", NULL);
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 5; i++)
		peer_closed(p, peer_run(p, "absent", NULL), "FAILED", NULL);
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("slots");

	suite_test(s, no_more_than_max_sessions_run_and_the_rest_wait_pending, 40);
	suite_test(s, a_capability_has_its_own_limit, 40);
	suite_test(s, priority_orders_the_waiting, 40);
	suite_test(s, a_full_backlog_rejects, 40);
	suite_test(s, the_waiting_survive_a_crash_in_their_order, 40);
	suite_test(s, a_failed_start_gives_its_slot_back, 40);
	return harness_run(s, false);
}
