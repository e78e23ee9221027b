/* SPDX-License-Identifier: MIT */
/* test_slots.c: how many run at once, who comes next, who is turned away. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

/* Two slots: while two tasks of the flood run, four of its starts go by. */
START_TEST(a_flood_of_one_caller_holds_up_nobody) /* proves L3-10 */
{
	const char *more = getenv("HCPD_FLOOD"); /* a larger flood, for a measurement */
	int count = more != NULL ? atoi(more) : 300;
	struct peer *flood;
	const char *one;
	long long key;

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "2");
	rig_set(r, "daemon", "max_pending", "%d", count * 2);
	rig_text(r, "small", "sleep 0.1");
	rig_start(r);
	flood = peer_named(r, "flood");
	flood->may_be_open = true;
	p = peer_new(r);
	for (int i = 0; i < count; i++)
		peer_submit(flood, "small", NULL);
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions") == count, 10 * WAIT_S, "all are taken");
	one = peer_run(p, "small", NULL);
	peer_state(p, one, "RUNNING");
	key = rig_sql(r, "SELECT id FROM sessions WHERE session_id = '%s'", one);
	must(rig_sql(r,
		     "SELECT count(*) FROM transitions t, transitions mine WHERE mine.session = %lld"
		     " AND mine.to_state = 'RUNNING' AND t.to_state = 'RUNNING' AND t.id < mine.id"
		     " AND t.at > (SELECT created_at FROM sessions WHERE id = %lld)",
		     key, key) <= 4,
		"the flood went first");
	peer_completed(p, one);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING'") > 0,
		"the flood was too short");
	printf("flood: %d tasks of one caller; another's started %lld ms after it was accepted\n", count,
		rig_sql(r,
			"SELECT CAST(round((julianday(started_at) - julianday(created_at)) * 86400000)"
			" AS INTEGER) FROM sessions WHERE id = %lld",
			key));
	peer_finish(flood);
	end();
}
END_TEST

static void set_caller(const char *name, const char *key, const char *value)
{
	char section[64];

	snprintf(section, sizeof section, "caller %s", name);
	rig_set(r, section, "capabilities", "*");
	rig_set(r, section, "max_risk", "R5");
	rig_set(r, section, key, "%s", value);
}

/* max_pending is the default, 10000, of which a tenth is kept. */
START_TEST(a_share_is_kept_by_default_for_other_callers) /* proves L3-10 */
{
	enum { SHARED = 9000 };
	struct peer *flood;
	const char *one;

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_set(r, "daemon", "log_level", "warn");
	rig_text(r, "small", "sleep 0.1");
	rig_start(r);
	flood = peer_named(r, "flood");
	flood->may_be_open = true;
	p = peer_new(r);
	one = peer_run(flood, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_state(flood, one, "RUNNING");
	for (int i = 0; i < SHARED; i++)
		peer_submit(flood, "small", NULL);
	peer_rejected(flood, peer_submit(flood, "small", NULL), "resource_unavailable");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING'") == SHARED, "%lld wait",
		rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING'"));
	one = peer_run(p, "small", NULL); /* accepted, while the flood is refused */
	peer_rejected(flood, peer_submit(flood, "small", NULL), "resource_unavailable");
	rig_touch(r, "go");
	peer_completed(p, one);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING'") >= SHARED - 2,
		"the flood went first");
	peer_finish(flood);
	end();
}
END_TEST

START_TEST(a_caller_at_max_running_holds_up_nobody) /* proves L3-10 */
{
	struct peer *bounded;
	const char *s[3];

	r = rig_new();
	set_caller("bounded", "max_running", "2");
	rig_start(r);
	bounded = peer_named(r, "bounded");
	p = peer_new(r);
	for (int i = 0; i < 3; i++)
		s[i] = peer_run(
			bounded, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go%d", i)));
	peer_state(bounded, s[0], "RUNNING");
	peer_state(bounded, s[1], "RUNNING");
	peer_completed(p, peer_run(p, "agent", NULL));
	must(!peer_find_state(bounded, s[2], "RUNNING", 1), "three run");
	for (int i = 0; i < 3; i++) {
		rig_touch(r, rig_path(r, "go%d", i) + strlen(r->dir) + 1);
		peer_completed(bounded, s[i]);
	}
	must(peer_state(bounded, s[2], "RUNNING")->at >=
			peer_wait(bounded, s[0], "event", "session_closed")->at,
		"the third did not wait");
	peer_finish(bounded);
	end();
}
END_TEST

START_TEST(a_priority_above_max_priority_is_lowered) /* proves L3-10 */
{
	const char *urgent = "{'constraints':{'priority':'urgent'}}", *first, *lowered, *high;
	struct peer *bounded;

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	set_caller("bounded", "max_priority", "normal");
	rig_start(r);
	bounded = peer_named(r, "bounded");
	p = peer_new(r);
	first = peer_run_more(
		p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")), J("%s", urgent));
	peer_state(p, first, "RUNNING");
	lowered = peer_run_more(bounded, "agent", J("{'do':[['complete']]}"), J("%s", urgent));
	high = peer_run_more(
		p, "agent", J("{'do':[['complete']]}"), J("{'constraints':{'priority':'high'}}"));
	rig_touch(r, "go");
	peer_completed(bounded, lowered);
	must(peer_find_text(bounded, lowered, "warning", "payload.data.code", "priority_lowered"),
		"no warning");
	must(peer_state(p, high, "RUNNING")->at <= peer_state(bounded, lowered, "RUNNING")->at,
		"it ran as urgent");
	peer_completed(p, first);
	peer_completed(p, high);
	must(!peer_find_text(p, first, "warning", "payload.data.code", "priority_lowered"),
		"urgent is the default of max_priority");
	peer_finish(bounded);
	end();
}
END_TEST

/* Three turns for each one of the other caller: of the first eight starts six are its. */
START_TEST(a_caller_has_turns_by_its_weight) /* proves L3-10 */
{
	enum { EACH = 8 };
	struct peer *heavy, *holder;
	const char *first, *s[EACH];

	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	set_caller("heavy", "weight", "3");
	rig_text(r, "small", "true");
	rig_start(r);
	heavy = peer_named(r, "heavy");
	p = peer_new(r);
	holder = peer_new(r); /* of the only slot, until both wait */
	first = peer_run(holder, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_state(holder, first, "RUNNING");
	for (int i = 0; i < EACH; i++) {
		peer_run(heavy, "small", NULL);
		s[i] = peer_run(p, "small", NULL);
	}
	rig_touch(r, "go");
	for (int i = 0; i < EACH; i++)
		peer_completed(p, s[i]);
	must(rig_sql(r,
		     "SELECT count(*) FROM (SELECT s.caller_id AS caller FROM transitions t JOIN sessions s"
		     " ON s.id = t.session WHERE t.to_state = 'RUNNING' AND s.session_id <> '%s'"
		     " ORDER BY t.id LIMIT 8) WHERE caller = 'heavy'",
		     first) == 6,
		"turns");
	peer_finish(holder);
	peer_finish(heavy);
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

/* The highest descriptor that the daemon has open. */
static int last_descriptor(void)
{
	char path[64];
	struct dirent *e;
	int last = 0;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/fd", r->pid);
	must((d = opendir(path)) != NULL, "%s", path);
	while ((e = readdir(d)) != NULL)
		last = atoi(e->d_name) > last ? atoi(e->d_name) : last;
	closedir(d);
	return last;
}

START_TEST(tasks_wait_while_there_are_no_descriptors)
{
	enum { MANY = 12 };
	const char *s[MANY];
	struct rlimit few;

	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	few.rlim_cur = few.rlim_max = (rlim_t)last_descriptor() + 24;
	must(prlimit(r->pid, RLIMIT_NOFILE, &few, NULL) == 0, "a limit");
	for (int i = 0; i < MANY; i++)
		s[i] = peer_run(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")));
	wait_until(rig_log_has(r, "no worker is started until there are descriptors and processes again"),
		WAIT_S, "some have none");
	for (int i = 0; i < MANY; i++)
		peer_state(p, s[i], "RUNNING");
	must(rig_processes(r, NULL, 0) < MANY, "%d processes", rig_processes(r, NULL, 0));
	rig_touch(r, "go");
	for (int i = 0; i < MANY; i++)
		peer_completed(p, s[i]);
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
	suite_test(s, a_flood_of_one_caller_holds_up_nobody, 300);
	suite_test(s, a_share_is_kept_by_default_for_other_callers, 150);
	suite_test(s, a_caller_at_max_running_holds_up_nobody, 40);
	suite_test(s, a_priority_above_max_priority_is_lowered, 40);
	suite_test(s, a_caller_has_turns_by_its_weight, 40);
	suite_test(s, a_failed_start_gives_its_slot_back, 40);
	suite_test(s, tasks_wait_while_there_are_no_descriptors, 90);
	return harness_run(s, false);
}
