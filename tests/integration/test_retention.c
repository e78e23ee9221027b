/* SPDX-License-Identifier: MIT */
/* test_retention.c: ended sessions of a real daemon leave its store: into the archive, which hcpctl shows, or
 * for good; and wherever hcpd is killed in that, each of them is in exactly one of the two places, whole. */
#include "support/hcpctl_kit.h"

#include <sys/stat.h>

#include "support/peer.h"

/* Whoever leaves does so at leisure, the more so on a busy machine: a deadline, not a measurement. */
#define LEAVE_S 240

static struct peer *p;

/* A session may leave a second after its end; its submit is forgotten as soon. */
static void begin_here(void)
{
	ctl_begin_on(broker_shared(), false);
	rig_set(r, "daemon", "dedup_window", "1s");
	rig_set(r, "amqp", "heartbeat", "1");
	rig_set(r, "retention", "grace", "1s");
	setenv("HCP_DAEMON_CONFIG", r->ini, 1);
	unsetenv("HCP_SOCKET");
}

static void end_here(void)
{
	peer_finish(p);
	ctl_end();
}

static long long left_in_store(void)
{
	return rig_sql(r,
		"SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving) + (SELECT count(*) "
		"FROM events)");
}

/* What hcpctl says, as text; it lives until the test's end. */
static const char *hear(int status, const char *a, const char *b)
{
	struct ctl_run run = ctl_start("archive", a, b, NULL);

	ctl_finish(&run, status);
	return strdup(ctl_text_of(status == 0 ? run.out : run.err));
}

static int count_in(const char *text, const char *word)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
		n++;
	return n;
}

START_TEST(after_grace_a_session_is_in_the_archive_and_nowhere_else) /* proves CK-06 */
{
	char day[11], *path;

	begin_here();
	rig_start(r);
	p = peer_new(r);
	const char *a = peer_run(p, "agent",
		J("{'do':[['checkpoint',{'n':7}],['progress',20,50],['complete',{'x':'the answer'}]]}"));
	const char *b = peer_run(p, "agent", J("{'do':[['fail']]}"));
	wait_until(peer_find(p, a, "event", "session_closed") && peer_find(p, b, "event", "session_closed"),
		WAIT_S, "the ends");
	wait_until(left_in_store() == 0, WAIT_S, "an empty store, not %lld rows", left_in_store());

	const char *shown = hear(0, "show", a);
	must(count_in(shown, "{\"archive\":1,") == 1 && strstr(shown, a), "%s", shown);
	must(strstr(shown, "the answer"), "no result in: %s", shown);
	must(strstr(shown, "\"table\":\"checkpoints\"") && strstr(shown, "\"table\":\"transitions\"") &&
			strstr(shown, "\"table\":\"tasks\""),
		"%s", shown);
	for (size_t i = 0, n = 0; i < p->note_count; i++)
		if (strcmp(p->notes[i]->session, a) == 0) {
			n++;
			must(count_in(shown, "\"table\":\"events\"") >= (int)n, "events are missing");
		}
	must(strstr(shown, "session_token\\\":\\\"***\\\"") && strstr(shown, "\"session_token\":\"***\""),
		"%s", shown);
	must(!strstr(shown, peer_token(p, a)), "a token is shown");
	snprintf(day, sizeof day, "%s",
		rig_sql(r, "SELECT count(*) FROM archives") == 1 ? strstr(hear(0, "list", NULL), "20") : "");
	must(strlen(day) == 10, "one day: %s", hear(0, "list", NULL));
	must(count_in(hear(0, "cat", day), "{\"archive\":1,") == 2, "two sessions");
	must(strstr(hear(0, "verify", NULL), "good: 2 sessions of 1 day"), "%s", hear(0, "verify", NULL));
	hear(1, "show", "ffffffff-ffff");
	hear(64, "show", NULL);
	hear(64, "cat", "yesterday");

	/* The usual tools read it, and nobody else may. */
	path = strdup(rig_path(r, "state/archive/%s.jsonl.zst", day));
	struct stat st;
	must(stat(path, &st) == 0 && (st.st_mode & 077) == 0, "mode %o", st.st_mode);
	struct ctl_run run = ctl_start("show", a, NULL);
	ctl_finish(&run, 1);
	free(path);
	end_here();
}
END_TEST

/* A task that waited for a decision is a session: its archive has the answer that its caller got. */
START_TEST(the_archive_of_a_rejected_session_has_its_answer) /* proves CK-06 */
{
	begin_here();
	rig_set(r, "policy", "command", "/usr/bin/env RIG_MARK=%s %s", r->dir,
		source_path("tests/integration/agents/policy.py"));
	rig_start(r);
	p = peer_new(r);
	const char *id = peer_submit(p, "agent", json_pack("{s:s}", "policy", "deny"));
	struct note *n = peer_rejected(p, id, "policy_denied");
	wait_until(left_in_store() == 0, WAIT_S, "an empty store, not %lld rows", left_in_store());
	const char *list = hear(0, "list", NULL), *day = strstr(list, "20");
	char one[11];
	must(day, "a day in: %s", list);
	snprintf(one, sizeof one, "%s", day);
	const char *shown = hear(0, "cat", one);
	must(count_in(shown, "{\"archive\":1,") == 1, "%s", shown);
	must(count_in(shown, "\"type\":\"task_rejected\"") == 1 && strstr(shown, note_text(n, "message_id")),
		"%s", shown);
	end_here();
}
END_TEST

START_TEST(with_archive_off_nothing_of_it_is_left) /* proves CK-06 */
{
	struct ctl_run run;

	begin_here();
	rig_set(r, "retention", "archive", "no");
	rig_set(r, "capability agent", "keep_workdir", "always");
	rig_start(r);
	run = ctl_start("submit", "agent", "--input", "do=[[\"complete\",{\"n\":1}]]", NULL);
	ctl_finish(&run, 0);
	const char *a = ctl_session_of(run.out);
	must(file_exists(rig_path(r, "state/work/%s", a)) || left_in_store() == 0,
		"it is not there at first");
	wait_until(left_in_store() == 0, WAIT_S, "an empty store");
	wait_until(!file_exists(rig_path(r, "state/work/%s", a)), WAIT_S, "no working directory");
	must(!file_exists(rig_path(r, "state/archive")), "an archive");
	must(rig_sql(r, "SELECT count(*) FROM audit") > 1, "the audit stays");
	ctl_end();
}
END_TEST

/* A submit that comes again within its window is answered as it was: so long its session stays. */
START_TEST(as_long_as_a_submit_is_remembered_its_session_stays)
{
	begin_here();
	rig_set(r, "daemon", "dedup_window", "1h");
	rig_start(r);
	p = peer_new(r);
	const char *a = peer_run(p, "agent", J("{'do':[['complete']]}"));
	wait_until(peer_find(p, a, "event", "session_closed"), WAIT_S, "the end");
	double until = harness_now() + 5;
	wait_until(harness_now() > until, WAIT_S, "five seconds");
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "it left");
	end_here();
}
END_TEST

START_TEST(the_store_stays_small_however_many_sessions_there_were) /* proves SA-06 */
{
	long long largest = 0, pages;
	int sent = 0;

	begin_here();
	rig_set(r, "capability agent", "reuse", "1000");
	rig_start(r);
	p = peer_new(r);
	for (int wave = 0; wave < 6; wave++) {
		const char *last = NULL;

		for (int i = 0; i < 25; i++, sent++)
			last = peer_run(p, "agent", J("{'do':[['progress',40,1000],['complete']]}"));
		peer_submit(p, "nosuch", J("{}")); /* answers that belong to no session go as well */
		wait_until(peer_find(p, last, "event", "session_closed"), 60, "the end of a wave");
		wait_until(left_in_store() == 0, LEAVE_S, "an empty store, not %lld", left_in_store());
		/* pages are given back in slices, after the sessions have left */
		if (wave >= 2)
			wait_until((pages = rig_sql(r, "PRAGMA page_count")) < largest * 2, LEAVE_S,
				"less than %lld pages, twice as many as after the second wave", largest * 2);
		if (wave == 1)
			largest = rig_sql(r, "PRAGMA page_count");
	}
	must(count_in(hear(0, "verify", NULL), "good: 150 sessions") == 1, "%s", hear(0, "verify", NULL));
	must(sent == 150, "%d", sent);
	end_here();
}
END_TEST

START_TEST(killed_at_any_moment_it_loses_none_and_has_none_twice) /* proves CK-06 */
{
	const char *ids[60];
	int count = 0;

	begin_here();
	rig_set(r, "capability agent", "reuse", "1000");
	rig_start(r);
	p = peer_new(r);
	for (int run = 0; run < 10; run++) {
		for (int i = 0; i < 6; i++)
			ids[count++] = peer_run(p, "agent", J("{'do':[['progress',30,300],['complete']]}"));
		wait_until(peer_find(p, ids[count - 1], "event", "session_closed"), WAIT_S, "the end");
		/* somewhere in the midst of leaving */
		double until = harness_now() + 1.0 + run * 0.23;
		wait_until(harness_now() > until, WAIT_S, "that moment");
		rig_kill(r);
		must(strstr(hear(0, "verify", NULL), "good:") ||
				rig_sql(r, "SELECT count(*) FROM archives WHERE size > 0") == 0,
			"damaged");
		rig_start(r);
	}
	wait_until(left_in_store() == 0, LEAVE_S, "an empty store, not %lld", left_in_store());
	must(strstr(hear(0, "verify", NULL), "good: 60 sessions"), "%s", hear(0, "verify", NULL));
	for (int i = 0; i < count; i += 7) {
		const char *shown = hear(0, "show", ids[i]);

		must(count_in(shown, "{\"archive\":1,") == 1, "%s is there %d times", ids[i],
			count_in(shown, "{\"archive\":1,"));
		must(count_in(shown, "event 30 ") == 1 && count_in(shown, "session_closed") >= 1,
			"not whole: %s", shown);
	}
	end_here();
}
END_TEST

static void flip(const char *path)
{
	int fd = open(path, O_RDWR);
	char byte;

	must(fd >= 0 && pread(fd, &byte, 1, 300) == 1, "%s", path);
	byte ^= 4;
	must(pwrite(fd, &byte, 1, 300) == 1, "%s", path);
	close(fd);
}

START_TEST(damage_is_found_and_costs_the_entry_only)
{
	begin_here();
	rig_start(r);
	p = peer_new(r);
	const char *a = peer_run(p, "agent", J("{'do':[['complete']]}"));
	const char *b = peer_run(p, "agent", J("{'do':[['complete']]}"));
	wait_until(peer_find(p, a, "event", "session_closed") && peer_find(p, b, "event", "session_closed"),
		WAIT_S, "the ends");
	wait_until(left_in_store() == 0, WAIT_S, "an empty store");
	char path[600];
	snprintf(path, sizeof path, "%s", strstr(hear(0, "list", NULL), "/"));
	*strchr(path, '\n') = '\0';
	flip(path);
	must(strstr(hear(2, "verify", NULL), "NOT as it was written: 1 fault"), "%s",
		hear(2, "verify", NULL));
	/* The daemon minds its own business, and the next sessions stand behind the damaged one. */
	const char *c = peer_run(p, "agent", J("{'do':[['complete']]}"));
	wait_until(peer_find(p, c, "event", "session_closed"), WAIT_S, "the end");
	wait_until(left_in_store() == 0, WAIT_S, "an empty store");
	must(strstr(hear(0, "show", c), c), "not shown");
	flip(path);
	must(strstr(hear(0, "verify", NULL), "good: 3 sessions"), "%s", hear(0, "verify", NULL));
	end_here();
}
END_TEST

static bool is_in_store(const char *id)
{
	return rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s'", id) == 1;
}

/* proves CK-06, L4-06 */
START_TEST(pinned_session_stays_until_its_successor_is_over)
{
	begin_here();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['checkpoint',{'n':40}],['failing',{}]]}"));
	const char *id = note_text(peer_failed(p, s, "worker_failed", "execution_error"),
		"payload.error_details.last_checkpoint");
	const char *from =
		peer_run_more(p, "agent", J("{'do':[['first',['progress',1],['forever']],['dump']]}"),
			J("{'constraints':{'checkpoint':'%s'}}", id));
	const char *next =
		peer_run_more(p, "agent", J("{'do':[['first',['progress',1],['forever']],['dump']]}"),
			J("{'context':{'continues':'%s'}}", s));
	peer_event(p, from, "progress");
	peer_event(p, next, "progress");
	const char *later = peer_run(p, "agent", J("{'do':[['complete']]}"));
	wait_until(peer_find(p, later, "event", "session_closed"), WAIT_S, "its end");
	wait_until(!is_in_store(later), WAIT_S, "the one that ended later to leave");
	must(is_in_store(s), "it left, and two need it");
	must(strstr(hear(1, "show", s), "in the archive"), "it is in both places");
	rig_kill(r);
	rig_start(r);
	struct note *n = peer_completed(p, from);
	must(json_integer_value(note_at(n, "payload.outputs.start.checkpoint.state.n")) == 40, "%s", n->body);
	n = peer_completed(p, next);
	must_str(note_text(n, "payload.outputs.start.continues.session_id"), s);
	wait_until(left_in_store() == 0, WAIT_S, "an empty store: nobody needs it any more");
	must(count_in(hear(0, "show", s), "{\"archive\":1,") == 1, "once");
	must(strstr(hear(0, "verify", NULL), "good: 4 sessions"), "%s", hear(0, "verify", NULL));
	peer_rejected(p, peer_submit_more(p, "agent", NULL, J("{'constraints':{'checkpoint':'%s'}}", id)),
		"invalid_input");
	end_here();
}
END_TEST

/* What hcpctl says on stderr, or else on stdout. */
static const char *told(
	int status, const char *a, const char *b, const char *c, const char *d, const char *e, const char *f)
{
	struct ctl_run run = ctl_start(a, b, c, d, e, f, NULL);

	ctl_finish(&run, status);
	return strdup(ctl_text_of(status == 0 ? run.out : run.err));
}

START_TEST(artifacts_of_an_archived_session_can_be_fetched) /* proves L4-05 */
{
	char out[400];
	struct ctl_run run;

	begin_here();
	rig_start(r);
	run = ctl_start("submit", "agent", "--input",
		"do=[[\"shell\",\"printf hello > hello\"],[\"emit\",{\"type\":\"artifact\",\"name\":"
		"\"hello.txt\",\"path\":\"hello\",\"mime\":\"text/plain\"}],[\"complete\"]]",
		NULL);
	ctl_finish(&run, 0);
	const char *s = ctl_session_of(run.out);
	char brief[9];
	snprintf(brief, sizeof brief, "%.8s", s);
	snprintf(out, sizeof out, "%s", rig_path(r, "fetched"));
	wait_until(left_in_store() == 0, WAIT_S, "an empty store");
	for (int start = 0; start < 2; start++) {
		const char *list = told(0, "artifact", "list", brief, NULL, NULL, NULL);

		must(strstr(list, "hello.txt") && strstr(list, "text/plain") &&
				strstr(list, "sha256:2cf24dba"),
			"%s", list);
		list = told(0, "artifact", "list", brief, "--json", NULL, NULL);
		must(strstr(list, "\"size_bytes\":5") && strstr(list, "/artifacts/hello.txt\""), "%s", list);
		told(0, "artifact", "get", s, "hello.txt", "-o", out);
		must_str(ctl_text_of(out), "hello");
		unlink(out);
		must(strstr(told(1, "artifact", "get", brief, "nothing", "-o", out), "it has hello.txt"),
			"what there is");
		must(strstr(told(1, "show", brief, NULL, NULL, NULL, NULL), "hcpctl archive show"), "a hint");
		must(strstr(told(1, "events", brief, NULL, NULL, NULL, NULL), "hcpctl archive show"),
			"a hint");
		must(strstr(told(1, "checkpoints", s, NULL, NULL, NULL, NULL), "hcpctl archive show"),
			"a hint");
		must(!strstr(told(1, "show", "ffffffff-ffff", NULL, NULL, NULL, NULL), "archive"),
			"one for nobody");
		if (start == 0)
			rig_kill(r); /* and the same without the daemon */
	}
	file_write(rig_path(r, "state/artifacts/%s/hello.txt", s), "jello");
	told(1, "artifact", "get", s, "hello.txt", "-o", out);
	must(!file_exists(out), "what has another checksum was kept");
	ctl_end();
}
END_TEST

START_TEST(an_archive_that_is_missing_is_said_once_and_shown)
{
	char path[600], aside[620];

	begin_here();
	rig_start(r);
	p = peer_new(r);
	const char *a = peer_run(p, "agent", J("{'do':[['complete']]}"));
	wait_until(peer_find(p, a, "event", "session_closed"), WAIT_S, "the end");
	wait_until(left_in_store() == 0, WAIT_S, "an empty store");
	must(!strstr(told(0, "stats", NULL, NULL, NULL, NULL, NULL), "STUCK"), "nothing is in its way");
	snprintf(path, sizeof path, "%s", strstr(hear(0, "list", NULL), "/"));
	*strchr(path, '\n') = '\0';
	snprintf(aside, sizeof aside, "%s.aside", path);
	must(rename(path, aside) == 0, "%s", path);
	must(strstr(hear(0, "list", NULL), "is missing"), "%s", hear(0, "list", NULL));
	must(strstr(hear(2, "verify", NULL), "is missing"), "%s", hear(2, "verify", NULL));
	a = peer_run(p, "agent", J("{'do':[['complete']]}"));
	wait_until(peer_find(p, a, "event", "session_closed"), WAIT_S, "the end");
	wait_until(
		strstr(told(0, "stats", NULL, NULL, NULL, NULL, NULL), "STUCK"), WAIT_S, "stats to say so");
	must(strstr(told(0, "stats", NULL, NULL, NULL, NULL, NULL), ".jsonl.zst is missing"), "%s",
		told(0, "stats", NULL, NULL, NULL, NULL, NULL));
	double until = harness_now() + 4;
	wait_until(harness_now() > until, WAIT_S, "some looks more");
	must(rig_log_count(r, "is missing") == 1, "%d lines", rig_log_count(r, "is missing"));
	must(rename(aside, path) == 0, "%s", path);
	wait_until(left_in_store() == 0, WAIT_S, "an empty store");
	wait_until(!strstr(told(0, "stats", NULL, NULL, NULL, NULL, NULL), "STUCK"), WAIT_S,
		"stats to say nothing");
	must(strstr(hear(0, "verify", NULL), "good: 2 sessions"), "%s", hear(0, "verify", NULL));
	end_here();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("retention");

	suite_test(s, after_grace_a_session_is_in_the_archive_and_nowhere_else, 120);
	suite_test(s, the_archive_of_a_rejected_session_has_its_answer, 120);
	suite_test(s, with_archive_off_nothing_of_it_is_left, 90);
	suite_test(s, as_long_as_a_submit_is_remembered_its_session_stays, 90);
	suite_test(s, the_store_stays_small_however_many_sessions_there_were, 590);
	suite_test(s, killed_at_any_moment_it_loses_none_and_has_none_twice, 590);
	suite_test(s, damage_is_found_and_costs_the_entry_only, 120);
	suite_test(s, pinned_session_stays_until_its_successor_is_over, 120);
	suite_test(s, artifacts_of_an_archived_session_can_be_fetched, 120);
	suite_test(s, an_archive_that_is_missing_is_said_once_and_shown, 120);
	return harness_run(s, false);
}
