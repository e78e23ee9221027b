/* SPDX-License-Identifier: MIT */
/* test_hcpctl_operator.c: hcpctl at the daemon's machine: what it shows of sessions, with the daemon and
 * without it, and what it asks of them. */
#include "support/hcpctl_kit.h"

#include <grp.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "support/peer.h"

/* ---- scenes ---- */

/* Everything that hcpctl runs with; the daemon's own socket, where it stands by default. */
static void begin_here(void)
{
	ctl_begin();
	setenv("HCP_DAEMON_CONFIG", r->ini, 1);
	unsetenv("HCP_SOCKET");
}

/* A session that has done its steps but the last, which waits for the file `go`; its id. */
static const char *submit(const char *steps)
{
	char input[900];
	struct ctl_run run;

	snprintf(input, sizeof input, "do=[%s%s[\"hold\",\"%s\"],[\"complete\",{\"n\":1}]]", steps,
		*steps ? "," : "", rig_path(r, "go"));
	run = ctl_start(
		"submit", "agent", "--json", "--detach", "--intent", "make it so", "--input", input, NULL);
	ctl_finish(&run, 0);
	return ctl_session_of(run.out);
}

static void wait_for_state(const char *id, const char *state)
{
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = '%s'", id,
			   state) == 1,
		WAIT_S, "%s is %s", id, state);
}

static void wait_for_event(const char *id, const char *kind)
{
	wait_until(rig_sql(r, "SELECT count(*) FROM events WHERE session_id = '%s' AND event_type = '%s'", id,
			   kind) > 0,
		WAIT_S, "%s of %s", kind, id);
}

/* Into the store of a daemon that is stopped. */
static void write_sql(const char *text)
{
	sqlite3 *db;
	char *why = NULL;

	must(r->pid == 0, "the daemon runs");
	must(sqlite3_open(r->db, &db) == SQLITE_OK, "%s", r->db);
	must(sqlite3_exec(db, text, NULL, NULL, &why) == SQLITE_OK, "%s: %s", text, why);
	sqlite3_close(db);
}

/* Every line must be an object; how many there are. */
static int count_objects(const char *path)
{
	char *text = file_read(path, NULL), *line, *rest = text;
	int count = 0;

	while ((line = strsep(&rest, "\n")) != NULL) {
		json_error_t error;
		json_t *item;

		if (*line == '\0')
			continue;
		item = json_loads(line, 0, &error);
		must(json_is_object(item), "no object: %s: %s", error.text, line);
		json_decref(item);
		count++;
	}
	free(text);
	return count;
}

static void run_ok(struct ctl_run *out, const char *a, const char *b, const char *c)
{
	*out = ctl_start(a, b, c, NULL);
	ctl_finish(out, 0);
}

static void must_not_have(const char *path, const char *text)
{
	must(!strstr(ctl_text_of(path), text), "\"%s\" in: %s", text, ctl_text_of(path));
}

static const char *token_of(const char *id)
{
	static char token[800];
	char *at = strstr(file_read(rig_path(r, "home/hcp/sessions.json"), NULL), "\"token\":");

	(void)id;
	must(at, "no token");
	snprintf(token, sizeof token, "%.40s", strchr(at + 8, '"') + 1);
	return token;
}

/* ---- looking ---- */

static const char offline[] = "the daemon is not running; this is what the store says";

/* The same questions, with and without a daemon. */
static void look_at(const char *id, bool is_live)
{
	struct ctl_run run;
	const char *token = token_of(id);

	run_ok(&run, "list", NULL, NULL);
	ctl_must_have(run.out, "SESSION   STATE");
	ctl_must_have(run.out, ctl_short_id(id));
	must((strstr(ctl_text_of(run.err), offline) == NULL) == is_live, "%s", ctl_text_of(run.err));
	run_ok(&run, "list", "--state", "live");
	ctl_must_have(run.out, ctl_short_id(id));
	run_ok(&run, "list", "--state", "COMPLETED");
	must_not_have(run.out, ctl_short_id(id));
	run_ok(&run, "list", "--json", NULL);
	must(count_objects(run.out) == 1, "%s", ctl_text_of(run.out));
	run_ok(&run, "list", "--since", "1h");
	ctl_must_have(run.out, ctl_short_id(id));

	run_ok(&run, "show", ctl_short_id(id), NULL);
	ctl_must_have(run.out, id);
	ctl_must_have(run.out, "make it so");
	ctl_must_have(run.out, "timeline");
	ctl_must_have(run.out, "approved (daemon)");
	ctl_must_have(run.out, "checkpoints");
	ctl_must_have(run.out, "5 tokens in");
	ctl_must_have(run.out, is_live ? "1 process, " : "not known: only the daemon can tell");
	must_not_have(run.out, token);
	run_ok(&run, "show", ctl_short_id(id), "--json");
	must(count_objects(run.out) >= 3, "%s", ctl_text_of(run.out));
	must_not_have(run.out, token);

	run_ok(&run, "events", ctl_short_id(id), NULL);
	ctl_must_have(run.out, " progress ");
	must_not_have(run.out, token);
	run_ok(&run, "events", ctl_short_id(id), "--json");
	must(count_objects(run.out) == rig_sql(r, "SELECT count(*) FROM events"), "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "\"session_token\":\"***\"");
	must_not_have(run.out, token);
	run_ok(&run, "log", ctl_short_id(id), NULL);
	ctl_must_have(run.out, " info  hello\n");
	ctl_must_have(run.out, " warn  hot: it is warm\n");
	run_ok(&run, "log", ctl_short_id(id), "--json");
	must(count_objects(run.out) == 2, "%s", ctl_text_of(run.out));
	run_ok(&run, "checkpoints", ctl_short_id(id), "--state");
	ctl_must_have(run.out, "a checkpoint");
	ctl_must_have(run.out, "\"mark\": 42");
	run_ok(&run, "checkpoints", ctl_short_id(id), "--json");
	must(count_objects(run.out) == 1, "%s", ctl_text_of(run.out));
	must_not_have(run.out, "mark");
}

#define STEPS \
	"[\"progress\",3],[\"emit\",{\"type\":\"log\",\"level\":\"info\",\"message\":\"hello\"}]," \
	"[\"emit\",{\"type\":\"warning\",\"code\":\"hot\",\"message\":\"it is warm\"}]," \
	"[\"emit\",{\"type\":\"usage\",\"tokens_in\":5,\"tokens_out\":6,\"cost\":0.5}],[\"checkpoint\",{" \
	"\"mark\":42}]"

START_TEST(session_is_shown_alike_with_and_without_a_daemon)
{
	begin_here();
	const char *id = submit(STEPS);
	wait_for_event(id, "checkpoint_created");
	look_at(id, true);
	rig_kill(r);
	look_at(id, false);
	unlink(rig_path(r, "state/hcpd.db-shm"));
	look_at(id, false);
	rig_touch(r, "go");
	rig_start(r);
	wait_for_state(id, "COMPLETED");
	struct ctl_run run = ctl_start("show", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "result");
	ctl_must_have(run.out, "\"n\": 1");
	ctl_must_have(run.out, "recovered_from_checkpoint");
	must_not_have(run.out, "worker\n  not known");
	ctl_end();
}
END_TEST

START_TEST(a_failure_is_told_with_its_error)
{
	begin_here();
	struct ctl_run run = ctl_start("submit", "agent", "--json", "--input",
		"do=[[\"failing\",{\"error_message\":\"the oven is "
		"cold\",\"partial_outputs\":{\"half\":1}}]]",
		NULL);
	ctl_finish(&run, 2);
	struct ctl_run shown = ctl_start("show", ctl_session_of(run.out), NULL);
	ctl_finish(&shown, 0);
	ctl_must_have(shown.out, "FAILED");
	ctl_must_have(shown.out, "execution_error: the oven is cold");
	ctl_must_have(shown.out, "\"half\": 1");
	struct ctl_run list = ctl_start("list", "--state", "failed", "--full", NULL);
	ctl_finish(&list, 0);
	ctl_must_have(list.out, ctl_session_of(run.out));
	ctl_must_have(list.out, "worker_failed");
	ctl_end();
}
END_TEST

START_TEST(words_that_name_no_session_are_answered_with_what_to_do)
{
	static const char *const verbs[] = {"show", "events", "log", "checkpoints", "pause", "resume",
		"checkpoint", "replay", "recover", "extend"};

	begin_here();
	const char *id = submit("");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		const char *more = strcmp(verbs[i], "recover") == 0 ? "--how=fail" :
			strcmp(verbs[i], "extend") == 0             ? "--by=1s" :
								      NULL;
		struct ctl_run none = ctl_start(verbs[i], "00000000-0000", more, NULL),
			       little = ctl_start(verbs[i], "000", more, NULL);
		struct ctl_run missing = ctl_start(verbs[i], NULL);

		ctl_finish(&none, 1);
		ctl_must_have(none.err, "there is no session 00000000-0000");
		ctl_must_have(none.err, "hcpctl list");
		ctl_finish(&little, 1);
		ctl_must_have(little.err, "4 characters at least");
		ctl_finish(&missing, 64);
		ctl_must_have(missing.err, "which session?");
	}
	struct ctl_run upper = ctl_start("show", NULL);
	ctl_finish(&upper, 64);
	rig_touch(r, "go");
	wait_for_state(id, "COMPLETED");
	ctl_end();
}
END_TEST

/* The daemon makes ids at random: two that begin alike are put into the store by hand while it is down. */
START_TEST(an_ambiguous_beginning_names_those_that_fit)
{
	struct ctl_run run;

	begin_here();
	submit("");
	rig_touch(r, "go");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"its end");
	rig_stop(r);
	write_sql(
		"UPDATE sessions SET session_id = 'feed0001-0000-4000-8000-000000000000';"
		"CREATE TEMP TABLE t AS SELECT * FROM sessions;"
		"UPDATE t SET id = id + 1, session_id = 'feed0002-0000-4000-8000-000000000000';"
		"INSERT INTO sessions SELECT * FROM t");
	for (int is_live = 0; is_live < 2; is_live++) {
		run = ctl_start("show", "feed", NULL);
		ctl_finish(&run, 1);
		ctl_must_have(run.err, "feed0001-0000-4000-8000-000000000000");
		ctl_must_have(run.err, "feed0002-0000-4000-8000-000000000000");
		ctl_must_have(run.err, "write more of the id");
		run = ctl_start("show", "FEED0002", NULL);
		ctl_finish(&run, 0);
		ctl_must_have(run.out, "feed0002-0000-4000-8000-000000000000");
		if (!is_live)
			rig_start(r);
	}
	rig_stop(r);
	write_sql(
		"DELETE FROM sessions WHERE session_id LIKE 'feed0002%';"
		"UPDATE sessions SET session_id = (SELECT session_id FROM transitions)");
	ctl_end();
}
END_TEST

/* ---- following ---- */

START_TEST(a_follow_shows_all_up_to_the_end)
{
	begin_here();
	const char *id = submit("[\"progress\",3]");
	struct ctl_run events = ctl_start("events", ctl_short_id(id), "--follow", "--json", NULL);
	struct ctl_run log = ctl_start("log", ctl_short_id(id), "-f", NULL);
	struct ctl_run late =
		ctl_start("events", ctl_short_id(id), "--follow", "--from", "3", "--json", NULL);
	ctl_wait_for(events.out, "\"progress\"");
	must(!file_exists(events.rc), "it ended before the session");
	rig_touch(r, "go");
	ctl_finish(&events, 0);
	ctl_finish(&log, 0);
	ctl_finish(&late, 0);
	must(count_objects(events.out) == rig_sql(r, "SELECT count(*) FROM events"), "%s",
		ctl_text_of(events.out));
	ctl_must_have(events.out, "\"session_closed\"");
	ctl_must_have(late.out, "\"session_closed\"");
	must_not_have(late.out, "\"sequence\":2,");
	ctl_must_have(late.out, "\"sequence\":3,");
	ctl_end();
}
END_TEST

static void must_have_no_gap(const char *path)
{
	long long row = 0;

	for (const char *at = ctl_text_of(path); (at = strstr(at, "\"row\":")); at++) {
		must(atoll(at + 6) == row + 1, "row %lld is due in: %s", row + 1, ctl_text_of(path));
		row++;
	}
	must(row == rig_sql(r, "SELECT max(id) FROM events"), "only %lld rows", row);
}

START_TEST(a_follow_goes_on_over_a_restart_of_the_daemon_and_says_so)
{
	begin_here();
	const char *id = submit("[\"progress\",3],[\"checkpoint\",{\"mark\":1}]");
	wait_for_event(id, "checkpoint_created");
	struct ctl_run run = ctl_start("events", ctl_short_id(id), "--follow", "--json", NULL);
	ctl_wait_for(run.out, "\"checkpoint_created\"");
	rig_kill(r);
	ctl_wait_for(run.err, "the daemon went away, and the session is not over: waiting");
	rig_start(r);
	ctl_wait_for(run.err, "the daemon is back");
	rig_stop(r);
	wait_until(strstr(strstr(ctl_text_of(run.err), "is back"), "the daemon went away"), WAIT_S, "%s",
		ctl_text_of(run.err));
	rig_touch(r, "go");
	rig_start(r);
	ctl_finish(&run, 0);
	must_have_no_gap(run.out);
	ctl_must_have(run.out, "\"session_closed\"");
	ctl_end();
}
END_TEST

START_TEST(a_follow_of_a_dead_daemons_session_waits_for_the_daemon)
{
	begin_here();
	const char *id = submit("[\"progress\",3]");
	wait_for_state(id, "RUNNING");
	rig_kill(r);
	struct ctl_run run = ctl_start("events", ctl_short_id(id), "--follow", "--json", NULL);
	ctl_wait_for(run.err, "the session is not over: waiting for the daemon");
	ctl_must_have(run.err, offline);
	rig_touch(r, "go");
	rig_start(r);
	ctl_finish(&run, 0);
	must_have_no_gap(run.out);
	ctl_end();
}
END_TEST

/* KiB at most that hcpctl had while it wrote this many lines. */
static long measure_events(const char *id, int lines)
{
	struct rusage used;
	int status;
	pid_t pid;

	fflush(NULL);
	if ((pid = fork()) == 0) {
		ctl_set_environment();
		dup2(open(rig_path(r, "all"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		execl(ctl_program(), "hcpctl", "events", id, "--json", (char *)NULL);
		_exit(127);
	}
	must(wait4(pid, &status, 0, &used) == pid && status == 0, "status %x", (unsigned)status);
	must(file_lines(rig_path(r, "all")) == lines, "%d lines", file_lines(rig_path(r, "all")));
	return used.ru_maxrss;
}

START_TEST(events_are_streamed_not_loaded)
{
	enum { COUNT = 200000 };

	begin_here();
	rig_touch(r, "go");
	const char *id = submit("");
	wait_for_state(id, "COMPLETED");
	rig_stop(r);
	write_sql(
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) INSERT "
		"INTO events"
		" (id, session, session_id, caller, type, sequence, event_type, body) SELECT (SELECT max(id) "
		"FROM events) + i,"
		" session, session_id, caller, type, 1000 + i, 'log', body FROM n, (SELECT * FROM events "
		"WHERE sequence = 1);"
		"UPDATE callers SET confirmed = (SELECT max(id) FROM events)");
	int lines = (int)rig_sql(r, "SELECT count(*) FROM events");
	must(lines > COUNT && rig_sql(r, "SELECT sum(length(body)) FROM events") > 100 << 20,
		"they are large");
	long cold = measure_events(id, lines);
	rig_start(r);
	long live = measure_events(id, lines);
	if (!harness_is_sanitized()) /* a sanitizer's memory is its own */
		must(cold < 24 << 10 && live < 24 << 10, "%ld KiB and %ld KiB", cold, live);
	rig_stop(r);
	write_sql("DELETE FROM events WHERE sequence > 1000"); /* the oracle would not believe them */
	ctl_end();
}
END_TEST

/* ---- asking ---- */

START_TEST(operator_pauses_resumes_and_asks_for_checkpoint_and_replay)
{
	begin_here();
	const char *id = submit("[\"progress\",1],[\"checkpoint\",{\"mark\":1}]");
	struct ctl_run run;

	wait_for_event(id, "checkpoint_created");
	run = ctl_start("pause", ctl_short_id(id), "--reason", "cleaning", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "was asked to pause");
	wait_for_state(id, "PAUSED");
	run = ctl_start("list", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "paused by operator");
	run = ctl_start("pause", ctl_short_id(id), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "only a RUNNING session can be paused");
	run = ctl_start("resume", ctl_short_id(id), "--json", NULL);
	ctl_finish(&run, 0);
	must(count_objects(run.out) == 1, "%s", ctl_text_of(run.out));
	wait_for_state(id, "RUNNING");
	long long had = rig_sql(r, "SELECT checkpoints FROM sessions");
	run = ctl_start("checkpoint", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	wait_until(rig_sql(r, "SELECT checkpoints FROM sessions") > had, WAIT_S, "a checkpoint");
	run = ctl_start("replay", ctl_short_id(id), "--from", "2", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "are published again");
	rig_touch(r, "go");
	wait_for_state(id, "COMPLETED");
	ctl_end();
}
END_TEST

START_TEST(operator_gives_more_time_and_decides_about_interrupted_ones) /* proves SA-10 CK-04 */
{
	rig_set((begin_here(), r), "daemon", "on_start", "ask");
	const char *id =
		submit("[\"emit\",{\"type\":\"continuity\",\"summary\":\"half of it\",\"next_steps\":[\"the "
		       "rest\"]}],"
		       "[\"checkpoint\",{\"mark\":1}]");
	struct ctl_run run;

	wait_for_event(id, "checkpoint_created");
	run = ctl_start("extend", ctl_short_id(id), "--by", "30m", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "may take until ");
	run_ok(&run, "show", ctl_short_id(id), NULL);
	ctl_must_have(run.out, ", extended by PT30M\n");
	must(rig_log_has(r, " by=PT30M uid="), "the log says by how much");
	run = ctl_start("extend", ctl_short_id(id), "--by", "30m", "--token", "none", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "not the token");
	run = ctl_start("extend", ctl_short_id(id), NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "--by");
	run = ctl_start("extend", ctl_short_id(id), "--by", "soon", NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "--by soon is no duration");
	run = ctl_start("recover", ctl_short_id(id), "--how", "resume", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "only a PAUSED session can be recovered");
	rig_kill(r);
	rig_start(r);
	wait_for_state(id, "PAUSED");
	run = ctl_start("recover", ctl_short_id(id), NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "--how");
	run = ctl_start("recover", ctl_short_id(id), "--how", "pray", NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "--how pray is no way; write resume,");
	run = ctl_start("recover", ctl_short_id(id), "--how", "discard", "--reason", "no need", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "is ABORTED");
	must(rig_log_has(r, " how=discard uid="), "the log says how");
	run_ok(&run, "audit", NULL, NULL);
	ctl_must_have(run.out, "how=discard");
	run = ctl_start("show", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "completion   aborted");
	ctl_must_have(run.out, "summary      half of it");
	ctl_must_have(run.out, "next steps   the rest");
	ctl_end();
}
END_TEST

START_TEST(session_that_waits_to_go_on_is_told_from_one_that_is_held)
{
	struct ctl_run run;

	begin_here();
	rig_stop(r);
	rig_set(r, "daemon", "max_sessions", "1");
	rig_start(r);
	const char *id = strdup(submit("[\"step\"],[\"checkpoint\",{\"mark\":1}]"));
	wait_for_event(id, "checkpoint_created");
	run_ok(&run, "pause", ctl_short_id(id), NULL);
	wait_for_state(id, "PAUSED");
	rig_kill(r);
	rig_start(r);
	const char *other = strdup(submit(""));
	wait_for_state(other, "RUNNING");
	run_ok(&run, "list", "--state", "PAUSED");
	ctl_must_have(run.out, "paused by operator");
	run_ok(&run, "resume", ctl_short_id(id), NULL);
	run_ok(&run, "list", "--state", "PAUSED");
	ctl_must_have(run.out, "waiting to go on");
	rig_touch(r, "go");
	wait_for_state(other, "COMPLETED");
	wait_for_state(id, "COMPLETED");
	ctl_end();
}
END_TEST

START_TEST(a_session_whose_state_is_migrated_is_shown_as_such)
{
	char script[1200];
	struct ctl_run run;

	begin_here();
	const char *id =
		submit("[\"first\",[\"emit\",{\"type\":\"checkpoint\",\"state\":{\"old\":9},\"state_"
		       "version\":\"1.4\"}]]");
	wait_for_event(id, "checkpoint_created");
	rig_kill(r);
	snprintf(script, sizeof script,
		"#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.1; done\n"
		"sed -e 's/.*\"state\":{\"old\"/{\"new\"/' -e 's/}}$/}/'\n",
		rig_path(r, "go"));
	file_write(rig_path(r, "migrate"), script);
	chmod(rig_path(r, "migrate"), 0755);
	rig_set(r, "capability agent", "state_version", "2.0");
	rig_set(r, "capability agent", "migrate", "%s", rig_path(r, "migrate"));
	rig_start(r);
	wait_for_state(id, "PAUSED");
	run_ok(&run, "show", ctl_short_id(id), NULL);
	ctl_must_have(run.out, "none yet: the session goes on by itself once its state is migrated");
	must_not_have(run.out, "has no process now");
	rig_touch(r, "go");
	wait_for_state(id, "COMPLETED");
	ctl_end();
}
END_TEST

START_TEST(list_tells_nothing_found_and_no_such_id_from_a_bad_filter)
{
	struct ctl_run run;

	begin_here();
	run_ok(&run, "list", NULL, NULL);
	ctl_must_have(run.err, "there is no session in the store");
	run_ok(&run, "list", "--state", "FAILED");
	ctl_must_have(run.err, "no session in the store fits");
	run = ctl_start("checkpoints", "00000000", "--show", "", NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "which checkpoint?");
	ctl_must_have(run.err, "see hcpctl checkpoints --help");
	run = ctl_start("checkpoints", "00000000", "--show", "1a2b", "--state", NULL);
	ctl_finish(&run, 64);
	ctl_must_have(run.err, "see hcpctl checkpoints --help");
	ctl_end();
}
END_TEST

START_TEST(abort_without_the_token_of_the_session_is_the_operators)
{
	begin_here();
	const char *id = submit("");
	struct ctl_run run;

	wait_for_state(id, "RUNNING");
	must(unlink(rig_path(r, "home/hcp/sessions.json")) == 0, "the tokens");
	run = ctl_start("abort", ctl_short_id(id), "--reason", "enough", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, id);
	wait_for_state(id, "ABORTED");
	run = ctl_start("show", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "aborted_by_operator (operator)");
	ctl_end();
}
END_TEST

START_TEST(a_session_with_a_revoked_token_is_aborted_with_operator)
{
	begin_here();
	const char *id = submit("");
	struct ctl_run run;

	wait_for_state(id, "RUNNING");
	run = ctl_start("token", "revoke", id, NULL);
	ctl_finish(&run, 0);
	/* with the token: nobody can say that it counts no more */
	run = ctl_start("abort", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "sent abort");
	wait_until(rig_log_has(r, "token_revoked"), WAIT_S, "its refusal");
	wait_for_state(id, "RUNNING");
	run = ctl_start("abort", ctl_short_id(id), "--operator", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "as its operator");
	wait_for_state(id, "ABORTED");
	rig_stop(r);
	run = ctl_start("abort", ctl_short_id(id), "--operator", NULL);
	ctl_finish(&run, 69);
	ctl_must_have(run.err, "nobody listens on ");
	ctl_end();
}
END_TEST

START_TEST(a_drained_daemon_starts_no_task_until_it_is_undrained)
{
	begin_here();
	struct ctl_run run;

	run = ctl_start("drain", NULL);
	ctl_finish(&run, 0);
	run = ctl_start("stats", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "draining");
	ctl_must_have(run.out, "agent");
	struct ctl_run waits = ctl_start("submit", "agent", NULL);
	wait_until(
		rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'PENDING'") == 1, WAIT_S, "it waits");
	run = ctl_start("undrain", NULL);
	ctl_finish(&run, 0);
	ctl_finish(&waits, 0);
	run = ctl_start("stats", "--json", NULL);
	ctl_finish(&run, 0);
	must(count_objects(run.out) == 1, "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "\"draining\":false");
	ctl_end();
}
END_TEST

START_TEST(a_key_is_rotated_and_a_token_revoked_by_name) /* proves L3-08 */
{
	begin_here();
	const char *id = submit("");
	struct ctl_run run;

	wait_for_state(id, "RUNNING");
	run = ctl_start("token", "rotate", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "are signed with key");
	ctl_must_have(run.out, "2 keys verify");
	run = ctl_start("token", "revoke", id, "--reason", "it leaked", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "counts no more");
	must(rig_sql(r, "SELECT token_revoked FROM sessions") == 1, "it is stored");
	run = ctl_start("token", "revoke", NULL);
	ctl_finish(&run, 64);
	run = ctl_start("token", "rotate", id, NULL);
	ctl_finish(&run, 64);
	run = ctl_start("token", "shred", NULL);
	ctl_finish(&run, 64);
	rig_touch(r, "go");
	wait_for_state(id, "COMPLETED");
	ctl_end();
}
END_TEST

START_TEST(without_a_daemon_a_request_says_so_and_what_to_do)
{
	static const char *const words[][2] = {{"pause", "00000000"}, {"drain", NULL}, {"stats", NULL}};

	begin_here();
	rig_stop(r);
	for (size_t i = 0; i < 3; i++) {
		struct ctl_run run = ctl_start(words[i][0], words[i][1], NULL);

		ctl_finish(&run, 69);
		ctl_must_have(run.err, "the daemon is not running: nobody listens on ");
		ctl_must_have(run.err, "--socket");
	}
	setenv("HCP_DAEMON_CONFIG", rig_path(r, "no-such.ini"), 1);
	struct ctl_run run = ctl_start("stats", NULL);
	ctl_finish(&run, 69);
	ctl_must_have(run.err, "no-such.ini, where socket and state_dir stand, cannot be read");
	setenv("HCP_DAEMON_CONFIG", r->ini, 1);
	rig_set(r, "control", "socket", "off");
	rig_write_ini(r);
	run = ctl_start("drain", NULL);
	ctl_finish(&run, 69);
	ctl_must_have(run.err, "is off");
	ctl_end();
}
END_TEST

START_TEST(a_daemon_that_hangs_is_given_up_and_ctrl_c_ends_at_once)
{
	struct ctl_run list, show, events, stats, ending;
	char id[40];

	begin_here();
	snprintf(id, sizeof id, "%s", submit(""));
	wait_for_state(id, "RUNNING");
	must(unlink(rig_path(r, "home/hcp/sessions.json")) == 0, "its token is not ours");
	must(kill(r->pid, SIGSTOP) == 0, "stop");
	list = ctl_start("list", NULL);
	show = ctl_start("show", id, NULL);
	events = ctl_start("events", "--follow", id, NULL);
	stats = ctl_start("stats", NULL);
	for (int i = 0; i < 2; i++) {
		double from = harness_now();

		ending = ctl_start("abort", id, NULL);
		wait_until(file_exists(ending.pid), WAIT_S, "its pid");
		harness_pass(0.5); /* so that it is waiting for the answer */
		ctl_signal_run(&ending, i ? SIGTERM : SIGINT);
		ctl_finish(&ending, 128 + (i ? SIGTERM : SIGINT));
		must(harness_now() < from + 8 * harness_scale(), "it took %.1f s", harness_now() - from);
	}
	ctl_finish(&list, 0);
	ctl_must_have(list.out, ctl_short_id(id));
	ctl_must_have(list.err, "has not answered for 10 s");
	ctl_must_have(list.err, "this is what the store says");
	ctl_finish(&show, 0);
	ctl_must_have(show.out, "make it so");
	ctl_finish(&stats, 69);
	ctl_must_have(stats.err, "hcpctl doctor");
	ctl_wait_for(events.err, "the session is not over: waiting for the daemon");
	must(kill(r->pid, SIGCONT) == 0, "go on");
	ctl_wait_for(events.err, "the daemon is back");
	/* Nobody knows any more who asked for the aborts: it may have been a session's process. */
	wait_until(rig_log_has(r, "the process that connected has ended"), WAIT_S, "the aborts");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 1, "it runs on");
	ending = ctl_start("abort", id, NULL);
	ctl_finish(&ending, 0);
	ctl_finish(&events, 0);
	ctl_end();
}
END_TEST

START_TEST(a_list_takes_states_and_dates_and_says_what_else_it_wants)
{
	static const char *const bad[] = {"bogus", "", "live,bogus"};
	struct ctl_run run;

	begin_here();
	const char *id = submit("");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		run = ctl_start("list", "--state", bad[i], NULL);
		ctl_finish(&run, 64);
		ctl_must_have(run.err, *bad[i] ? "'bogus' is no state" : "'' is no state");
		ctl_must_have(run.err, "ABORTED, live or over");
	}
	run_ok(&run, "list", "--since", "2026-01-31");
	ctl_must_have(run.out, ctl_short_id(id));
	run_ok(&run, "list", "--since", "2999-01-01");
	must_not_have(run.out, ctl_short_id(id));
	run = ctl_start("list", "--since", "2026-02-31", NULL);
	ctl_finish(&run, 64);
	rig_touch(r, "go");
	wait_for_state(id, "COMPLETED");
	ctl_end();
}
END_TEST

/* As nobody, who can reach neither the program by its path nor the socket. */
START_TEST(a_stranger_is_told_who_may)
{
	const struct passwd *nobody = getpwnam("nobody");
	char socket_path[400];
	int status;
	pid_t pid;

	if (geteuid() != 0 || !nobody)
		return;
	begin_here();
	snprintf(socket_path, sizeof socket_path, "%s/control.sock", r->state);
	fflush(NULL);
	if ((pid = fork()) == 0) {
		char name[] = "hcpctl", option[] = "--socket", verb[] = "list", home[] = "HOME=/nonexistent";
		char *const words[] = {name, option, socket_path, verb, NULL},
			    *const environment[] = {home, NULL};
		int fd = open(ctl_program(), O_RDONLY | O_CLOEXEC);

		dup2(open(rig_path(r, "said"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		if (setgroups(0, NULL) == 0 && setgid(nobody->pw_gid) == 0 && setuid(nobody->pw_uid) == 0 &&
			chdir("/") == 0)
			fexecve(fd, words, environment);
		_exit(127);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1,
		"status %x: %s", (unsigned)status, ctl_text_of(rig_path(r, "said")));
	ctl_must_have(rig_path(r, "said"),
		"may not be used by you; be root, the daemon's user, or a member of the group");
	ctl_end();
}
END_TEST

START_TEST(a_table_fits_the_terminal)
{
	static const struct ctl_key none[] = {{NULL, NULL}};

	begin_here();
	submit("[\"emit\",{\"type\":\"step\",\"name\":\"a step with a name that no terminal of eighty "
	       "columns has any room for, however small\"}]");
	wait_until(
		rig_sql(r, "SELECT count(*) FROM sessions WHERE step IS NOT NULL") == 1, WAIT_S, "the step");
	struct ctl_run run = ctl_start_on_terminal(none, "list", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "\033[");
	ctl_must_have(run.out, "~");
	for (const char *line = ctl_text_of(run.out), *next; (next = strchr(line, '\n')); line = next + 1) {
		int columns = 0;

		for (const char *c = line; c < next; c++)
			if (*c == '\033')
				c = strchr(c, 'm');
			else if (*c != '\r')
				columns++;
		must(columns <= 100, "%d columns: %.*s", columns, (int)(next - line), line);
	}
	setenv("NO_COLOR", "1", 1);
	run = ctl_start_on_terminal(none, "list", NULL);
	ctl_finish(&run, 0);
	must_not_have(run.out, "\033[3");
	unsetenv("NO_COLOR");
	rig_touch(r, "go");
	ctl_end();
}
END_TEST

START_TEST(help_has_an_example_for_each_command)
{
	static const char *const names[] = {"list", "show", "events", "log", "checkpoints", "stats", "pause",
		"resume", "checkpoint", "replay", "drain", "undrain"};
	struct ctl_run run;

	ctl_begin_on(broker_shared(), false);
	run = ctl_start("--help", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "For callers");
	ctl_must_have(run.out, "For operators");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char line[32];
		struct ctl_run own = ctl_start(names[i], "--help", NULL);

		snprintf(line, sizeof line, "\n  %s ", names[i]);
		ctl_must_have(run.out, line);
		ctl_finish(&own, 0);
		ctl_must_have(own.out, "\nExample:\n  hcpctl ");
		struct ctl_run other = ctl_start("help", names[i], NULL);
		ctl_finish(&other, 0);
		must(strcmp(ctl_text_of(other.out), ctl_text_of(own.out)) == 0, "help %s: %s", names[i],
			ctl_text_of(other.out));
	}
	struct ctl_run bare = ctl_start("help", NULL), far = ctl_start("foo", NULL),
		       near = ctl_start("lsit", NULL);
	ctl_finish(&bare, 0);
	must(strcmp(ctl_text_of(bare.out), ctl_text_of(run.out)) == 0, "%s", ctl_text_of(bare.out));
	ctl_finish(&far, 64);
	must_not_have(far.err, "did you mean");
	ctl_finish(&near, 64);
	ctl_must_have(near.err, "did you mean list?");
	ctl_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hcpctl for operators");

	suite_test(s, session_is_shown_alike_with_and_without_a_daemon, 120);
	suite_test(s, a_failure_is_told_with_its_error, 60);
	suite_test(s, words_that_name_no_session_are_answered_with_what_to_do, 60);
	suite_test(s, an_ambiguous_beginning_names_those_that_fit, 60);
	suite_test(s, a_follow_shows_all_up_to_the_end, 60);
	suite_test(s, a_follow_goes_on_over_a_restart_of_the_daemon_and_says_so, 90);
	suite_test(s, a_follow_of_a_dead_daemons_session_waits_for_the_daemon, 60);
	suite_test(s, events_are_streamed_not_loaded, 90);
	suite_test(s, operator_pauses_resumes_and_asks_for_checkpoint_and_replay, 60);
	suite_test(s, operator_gives_more_time_and_decides_about_interrupted_ones, 60);
	suite_test(s, session_that_waits_to_go_on_is_told_from_one_that_is_held, 60);
	suite_test(s, a_session_whose_state_is_migrated_is_shown_as_such, 60);
	suite_test(s, list_tells_nothing_found_and_no_such_id_from_a_bad_filter, 60);
	suite_test(s, abort_without_the_token_of_the_session_is_the_operators, 60);
	suite_test(s, a_drained_daemon_starts_no_task_until_it_is_undrained, 60);
	suite_test(s, a_key_is_rotated_and_a_token_revoked_by_name, 60);
	suite_test(s, a_session_with_a_revoked_token_is_aborted_with_operator, 60);
	suite_test(s, without_a_daemon_a_request_says_so_and_what_to_do, 60);
	suite_test(s, a_daemon_that_hangs_is_given_up_and_ctrl_c_ends_at_once, 90);
	suite_test(s, a_list_takes_states_and_dates_and_says_what_else_it_wants, 60);
	suite_test(s, a_stranger_is_told_who_may, 60);
	suite_test(s, a_table_fits_the_terminal, 60);
	suite_test(s, help_has_an_example_for_each_command, 60);
	return harness_run(s, false);
}
