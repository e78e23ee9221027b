/* SPDX-License-Identifier: MIT */
/* test_full_disk.c: commits that fail. A limit on the size of files, put on the running daemon, is our full
 * disk; and where we may mount one, a small tmpfs in a mount namespace of the test's own, which goes with its
 * processes. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/rig.h"

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
	struct rlimit old, limit = {full ? 100 : RLIM_INFINITY, RLIM_INFINITY};

	must(prlimit(r->pid, RLIMIT_FSIZE, &limit, &old) == 0, "prlimit");
}

START_TEST(events_that_cannot_be_committed_are_not_sent_and_not_lost) /* proves L1-05 */
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

START_TEST(a_command_that_was_never_committed_was_never_acked) /* proves L1-05 */
{
	begin();
	fill_disk(true);
	const char *id = peer_submit(p, "agent", J("{'do':[['progress',3],['complete']]}"));
	harness_pass(0.7); /* it is with the daemon now, undecided */
	must(!peer_find_reply(p, id), "answered without a commit");
	rig_kill(r);
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "committed after all");
	rig_start(r); /* a new process has no limit */
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

/* ---- a real one, but small ---- */

#define SMALL "/mnt" /* nobody else sees what is mounted there */

/* Everything of the daemon, its log too, goes onto it. False, and said: it cannot be had here. */
static bool mount_small(const char *options)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", SMALL, "tmpfs", 0, options) < 0) {
		printf("skipped: a tmpfs cannot be mounted here (%s); the full disk is tried with "
		       "RLIMIT_FSIZE only\n",
			strerror(errno));
		fflush(stdout);
		return false;
	}
	snprintf(r->state, sizeof r->state, SMALL "/state");
	snprintf(r->db, sizeof r->db, SMALL "/state/hcpd.db");
	snprintf(r->log, sizeof r->log, SMALL "/log");
	rig_set(r, "daemon", "state_dir", "%s", r->state);
	return true;
}

static bool begin_small(const char *options)
{
	r = rig_new();
	if (!mount_small(options)) {
		rig_finish(r);
		return false;
	}
	rig_start(r);
	p = peer_new(r);
	const char *first = peer_run(p, "agent", NULL);
	char work[400];
	peer_completed(p, first);
	snprintf(work, sizeof work, "%s/work/%s", r->state, first);
	wait_until(!file_exists(work), WAIT_S, "its directory makes no room later");
	snprintf(work, sizeof work, "rm -r %s/work/.spare*", r->state);
	must(system(work) == 0, "and no session finds it there");
	return true;
}

/* The last byte of it. */
static void fill_bytes(void)
{
	int fd = open(SMALL "/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	char page[4096] = "";

	while (write(fd, page, sizeof page) > 0)
		;
	must(errno == ENOSPC, "%s", strerror(errno));
	close(fd);
}

/* The last name that it can hold: files that are there may grow, new ones and directories are refused. */
static void fill_names(bool full)
{
	char path[64];
	int fd, n = 0;

	mkdir(SMALL "/names", 0755);
	do {
		snprintf(path, sizeof path, SMALL "/names/%d", n++);
		fd = full ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : unlink(path);
		if (full && fd >= 0)
			close(fd);
	} while (fd >= 0 && n < 100000);
	must(errno == (full ? ENOSPC : ENOENT), "%s", strerror(errno));
}

START_TEST(a_disk_that_fills_up_pauses_intake_loses_nothing_and_heals) /* proves L1-05 L1-06 */
{
	enum { MOST = 60 };
	const char *ids[MOST];
	char big[8000];
	int count = 0, answered = 0;

	if (!begin_small("size=4m"))
		return;
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	const char *running = peer_run(p, "agent",
		J("{'do':[['progress',1],['hold','%s'],['progress',50],['complete']]}", rig_path(r, "go")));
	peer_event(p, running, "progress");
	fill_bytes();
	while (count < MOST && strstr(r->status, "HELD") == NULL) {
		ids[count++] =
			peer_submit(p, "agent", J("{'do':[['progress',1],['complete']],'pad':'%s'}", big));
		harness_pass(0.05);
	}
	wait_until(strstr(r->status, "HELD"), WAIT_S, "%d submits fit on a full disk: %s", count, r->status);
	rig_touch(r, "go");
	harness_pass(0.5); /* what was published before may be on its way */
	size_t notes = p->note_count;
	const char *late = peer_submit(p, "agent", J("{'do':[['complete']]}"));
	harness_pass(2.5);
	must(p->note_count == notes, "an effect without its commit: %s", p->notes[p->note_count - 1]->body);
	must(!r->exited && rig_log_has(r, "the store refuses"), "no word of it");
	for (int i = 0; i < count; i++)
		answered += peer_find_reply(p, ids[i]) != NULL;
	must(answered < count, "all %d were answered", count);
	unlink(SMALL "/filler");
	for (int i = 0; i < count; i++)
		peer_completed(p, peer_accepted(p, ids[i]));
	peer_completed(p, peer_accepted(p, late));
	peer_completed(p, running);
	must(rig_sql(r, "SELECT count(*) FROM sessions") == count + 3, "doubled or lost");
	must(strstr(r->status, "HELD") == NULL, "%s", r->status);
	end();
}
END_TEST

START_TEST(a_session_without_room_for_its_directory_waits_for_room)
{
	if (!begin_small("size=16m,nr_inodes=200"))
		return;
	fill_names(true);
	const char *waits = peer_run(p, "agent", J("{'do':[['progress',1],['complete']]}"));
	const char *aborted = peer_run(p, "agent", J("{'do':[['write','%s']]}", rig_path(r, "starts")));
	peer_state(p, waits, "RUNNING");
	peer_state(p, aborted, "RUNNING");
	wait_until(rig_log_has(r, "until the disk has room"), WAIT_S, "the reason in the log");
	peer_abort(p, aborted);
	peer_closed(p, aborted, "ABORTED", NULL);
	harness_pass(1.5); /* it is tried again meanwhile */
	must(!peer_find(p, waits, "event", "session_closed"), "it was given up for want of room");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 1, "it runs");
	fill_names(false);
	peer_completed(p, waits);
	must(!file_exists(rig_path(r, "starts")), "an aborted session was started");
	end();
}
END_TEST

START_TEST(a_stop_while_a_session_waits_for_room_pauses_it) /* proves L2-16 */
{
	if (!begin_small("size=16m,nr_inodes=200"))
		return;
	fill_names(true);
	const char *waits = peer_run(p, "agent", J("{'do':[['progress',1],['complete']]}"));
	peer_state(p, waits, "RUNNING");
	wait_until(rig_log_has(r, "until the disk has room"), WAIT_S, "the reason in the log");
	rig_stop(r);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'PAUSED'",
		     waits) == 1,
		"PAUSED");
	fill_names(false);
	rig_start(r);
	peer_completed(p, waits);
	end();
}
END_TEST

START_TEST(a_start_on_a_full_disk_says_so_and_works_once_there_is_room)
{
	if (!begin_small("size=4m"))
		return;
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['checkpoint',{'n':1}],['forever']]}"));
	peer_event(p, s, "checkpoint_created");
	rig_kill(r);
	fill_bytes();
	rig_spawn(r);
	wait_until(r->exited || r->ready, WAIT_S, "one or the other");
	if (r->exited) { /* what recovery decides could not be stored */
		int status = rig_wait_exit(r, 1);
		must(status == 74, "EX_IOERR is 74, not %d", status);
		must(!peer_find_state(p, s, "PAUSED", 1), "said without its commit");
		unlink(SMALL "/filler");
		rig_start(r);
	} else {
		unlink(SMALL "/filler");
	}
	wait_until(peer_find_state(p, s, "RUNNING", 2), WAIT_S, "it comes back");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", NULL);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("full disk");

	suite_test(s, events_that_cannot_be_committed_are_not_sent_and_not_lost, 60);
	suite_test(s, a_command_that_was_never_committed_was_never_acked, 60);
	suite_test(s, a_store_may_be_told_to_end_the_daemon_instead, 40);
	suite_test(s, a_stop_with_a_full_disk_ends_in_time, 60);
	suite_test(s, a_disk_that_fills_up_pauses_intake_loses_nothing_and_heals, 90);
	suite_test(s, a_session_without_room_for_its_directory_waits_for_room, 60);
	suite_test(s, a_stop_while_a_session_waits_for_room_pauses_it, 60);
	suite_test(s, a_start_on_a_full_disk_says_so_and_works_once_there_is_room, 60);
	return harness_run(s, false);
}
