/* test_full_disk.c: commits that fail. A limit on the size of files, put on the running daemon, is our full disk. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "peer.h"
#include "rig.h"

static struct rig *r;
static struct peer *p;

static void begin(void)
{
	r = rig_new();
	r->watchdog_usec = 1000000;
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
}

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

/* No write of the daemon beyond the first bytes of a file succeeds, or all do again. */
static void fill_disk(bool full)
{
	struct rlimit old, limit = { full ? 100 : RLIM_INFINITY, RLIM_INFINITY };

	must(prlimit(r->pid, RLIMIT_FSIZE, &limit, &old) == 0, "prlimit");
}

START_TEST(what_cannot_be_committed_is_not_said_and_is_not_lost)        /* proves L1-05 */
{
	begin();
	const char *running = peer_run(p, "agent",
		J("{'do':[['progress',1],['hold','%s'],['progress',50],['complete']]}", rig_path(r, "go")));
	peer_event(p, running, "progress");
	fill_disk(true);
	size_t count = p->note_count;
	const char *id = peer_submit(
		p, "agent", J("{'do':[['write','%s'],['progress',3],['complete']]}", rig_path(r, "starts")));
	rig_touch(r, "go");
	int fed = r->watchdog;
	harness_pass(3);
	must(p->note_count == count, "an effect without its commit: %s", p->notes[p->note_count - 1]->body);
	must(!file_exists(rig_path(r, "starts")), "a process without its commit");
	must(r->watchdog - fed >= 3, "the watchdog was fed %d times", r->watchdog - fed);
	must(!r->exited, "the daemon ended");
	must(strstr(r->status, "store") || strstr(r->status, "disk") || strstr(r->status, "commit"),
		"STATUS= says nothing: %s", r->status);
	fill_disk(false);
	peer_completed(p, peer_accepted(p, id));
	peer_completed(p, running);
	must(peer_count(p, running, "event", "progress") == 51, "%d",
		peer_count(p, running, "event", "progress"));
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 3, "doubled or lost");
	end();
}
END_TEST

START_TEST(a_command_that_was_never_committed_was_never_acked)  /* proves L1-05 */
{
	begin();
	fill_disk(true);
	const char *id = peer_submit(p, "agent", J("{'do':[['progress',3],['complete']]}"));
	harness_pass(0.7);                      /* it is with the daemon now, undecided */
	must(!peer_find_reply(p, id), "answered without a commit");
	rig_kill(r);
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "committed after all");
	rig_start(r);                           /* a new process has no limit */
	peer_completed(p, peer_accepted(p, id));
	end();
}
END_TEST

START_TEST(a_store_may_be_told_to_end_the_daemon_instead)
{
	r = rig_new();
	rig_set(r, "store", "on_error", "exit");
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	fill_disk(true);
	const char *id = peer_submit(p, "agent", J("{'do':[['complete']]}"));
	int status = rig_wait_exit(r, WAIT_S);
	must(status == 74, "EX_IOERR is 74, not %d", status);
	rig_start(r);
	peer_completed(p, peer_accepted(p, id));
	end();
}
END_TEST

START_TEST(a_stop_with_a_full_disk_ends_in_time)
{
	begin();
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	fill_disk(true);
	rig_signal(r, SIGTERM);
	double t = harness_now();
	wait_until(r->exited, 4 + 6, "stop_timeout is 4 s");
	must(harness_now() - t < 4 + 2 * harness_scale(), "%.1f s", harness_now() - t);
	rig_wait_exit(r, 1);
	rig_start(r);
	wait_until(peer_find_state(p, s, "RUNNING", 2), WAIT_S, "it comes back");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", NULL);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("full disk");

	suite_test(s, what_cannot_be_committed_is_not_said_and_is_not_lost, 60);
	suite_test(s, a_command_that_was_never_committed_was_never_acked, 60);
	suite_test(s, a_store_may_be_told_to_end_the_daemon_instead, 40);
	suite_test(s, a_stop_with_a_full_disk_ends_in_time, 60);
	return harness_run(s, false);
}
