/* SPDX-License-Identifier: MIT */
/* test_checkpoints.c: checkpoints of real workers: asked for, stored as differences, shown, damaged,
 * gone on from. */
#include "support/hcpctl_kit.h"

#include <sqlite3.h>

/* ---- scenes ---- */

static void configure(void)
{
	r = rig_new();
	snprintf(ctl_caller, sizeof ctl_caller, "ckpt-%d", getpid());
	setenv("HCP_DAEMON_CONFIG", r->ini, 1);
	unsetenv("HCP_SOCKET");
}

static const char *submit(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *submit(const char *fmt, ...)
{
	char steps[800], input[900];
	struct ctl_run run;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(steps, sizeof steps, fmt, ap);
	va_end(ap);
	for (char *c = steps; *c != '\0'; c++)
		if (*c == '\'')
			*c = '"';
	snprintf(input, sizeof input, "do=[%s]", steps);
	run = ctl_start("submit", "agent", "--json", "--detach", "--intent", "count", "--input", input, NULL);
	ctl_finish(&run, 0);
	return ctl_session_of(run.out);
}

/* A session with seven checkpoints of 60 kB, that waits for the file `go` and then says what it went on
 * from. */
static const char *submit_large(void)
{
	const char *id = submit("['first',['large',7,'%s'],['hold','%s']],['restored']",
		rig_path(r, "hashes"), rig_path(r, "never"));

	wait_until(rig_sql(r, "SELECT checkpoints FROM sessions") == 7, WAIT_S, "seven checkpoints");
	return id;
}

static void write_sql(const char *text)
{
	sqlite3 *db;
	char *why = NULL;

	must(r->pid == 0, "the daemon runs");
	must(sqlite3_open(r->db, &db) == SQLITE_OK, "%s", r->db);
	must(sqlite3_exec(db, text, NULL, NULL, &why) == SQLITE_OK, "%s: %s", text, why);
	must(sqlite3_changes(db) > 0, "%s changed nothing", text);
	sqlite3_close(db);
}

static void wait_for_state(const char *state)
{
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = '%s'", state) == 1, WAIT_S, "%s",
		state);
}

/* The n-th line of the file of hashes. */
static const char *hash_of(int n)
{
	const char *at = ctl_text_of(rig_path(r, "hashes"));
	static char hash[65];

	for (int i = 1; i < n; i++)
		at = strchr(at, '\n') + 1;
	snprintf(hash, sizeof hash, "%.64s", at);
	return hash;
}

static void must_have_restored(int n)
{
	wait_for_state("COMPLETED");
	must(rig_sql(r,
		     "SELECT count(*) FROM events WHERE type = 'task_completed' AND body LIKE "
		     "'%%\"n\":%d,\"digest\":\"%s\"%%'",
		     n, hash_of(n)) == 1,
		"it did not go on from checkpoint %d as it was", n);
}

static struct ctl_run run_ctl(
	int status, const char *a, const char *b, const char *c, const char *d, const char *e)
{
	struct ctl_run run = ctl_start("checkpoints", a, b, c, d, e, NULL);

	ctl_finish(&run, status);
	return run;
}

/* The id of the n-th of those that are kept, the oldest first. */
static const char *kept(const char *id, int n)
{
	struct ctl_run run = run_ctl(0, id, "--json", NULL, NULL, NULL);
	const char *at = ctl_text_of(run.out);
	static char ids[4][9];
	static int turn;
	char *to = ids[turn++ % 4];

	for (int i = 0; i < n; i++) {
		at = strstr(at, "\"checkpoint_id\":\"");
		must(at != NULL, "no checkpoint %d", n);
		at += 17;
	}
	snprintf(to, 9, "%.8s", at);
	return to;
}

/* ---- differences ---- */

START_TEST(a_killed_daemon_goes_on_from_a_difference) /* proves CK-02 */
{
	configure();
	rig_start(r);
	submit_large();
	must(rig_sql(r, "SELECT count(*) FROM checkpoints WHERE encoding = 'delta'") == 3,
		"three differences");
	must(rig_sql(r, "SELECT max(length(state)) FROM checkpoints WHERE encoding = 'delta'") < 1000,
		"they are small");
	must(rig_sql(r, "SELECT count(*) FROM checkpoints WHERE encoding = 'zstd'") == 1,
		"and what they build on");
	rig_kill(r);
	rig_start(r);
	must_have_restored(7);
	must(rig_sql(r, "SELECT count(*) FROM events WHERE event_type = 'warning'") == 0, "no warning");
	ctl_end();
}
END_TEST

static void damage_and_resume(const char *sql, int expected)
{
	configure();
	rig_start(r);
	submit_large();
	rig_kill(r);
	write_sql(sql);
	rig_start(r);
	must_have_restored(expected);
	must(rig_sql(r,
		     "SELECT count(*) FROM events WHERE event_type = 'warning' AND body LIKE "
		     "'%%checkpoint_damaged%%'") == 1,
		"a warning");
	ctl_end();
}

#define NEWEST "id = (SELECT max(id) FROM checkpoints)"

START_TEST(bits_that_flipped_cost_that_checkpoint_only) /* proves CK-03 */
{
	damage_and_resume(
		"UPDATE checkpoints SET state = CAST(substr(state, 1, 20) || x'5a5a' || substr(state, 23) AS "
		"BLOB) WHERE " NEWEST,
		6);
}
END_TEST

START_TEST(a_row_that_was_cut_off_costs_that_checkpoint_only) /* proves CK-03 */
{
	damage_and_resume(
		"UPDATE checkpoints SET state = substr(state, 1, length(state) - 3) WHERE " NEWEST, 6);
}
END_TEST

START_TEST(rows_that_are_gone_are_missed) /* proves CK-03 */
{
	damage_and_resume(
		"DELETE FROM checkpoints WHERE encoding = 'delta' AND id > (SELECT min(id) FROM checkpoints "
		"WHERE encoding = 'delta')",
		5);
}
END_TEST

START_TEST(checkpoints_whose_common_base_is_gone_fail_the_session) /* proves CK-03 */
{
	configure();
	rig_start(r);
	submit_large();
	rig_kill(r);
	write_sql("DELETE FROM checkpoints WHERE encoding = 'zstd'");
	rig_start(r);
	wait_for_state("FAILED");
	must(rig_sql(r,
		     "SELECT count(*) FROM events WHERE type = 'task_failed' AND body LIKE '%%all "
		     "checkpoints are damaged%%'") == 1,
		"why");
	must(rig_sql(r,
		     "SELECT count(*) FROM events WHERE event_type = 'warning' AND body LIKE '%%builds on is "
		     "gone%%'") == 1,
		"a warning");
	ctl_end();
}
END_TEST

/* ---- triggers ---- */

static void wait_for_trigger(const char *trigger)
{
	wait_until(rig_sql(r, "SELECT count(*) FROM checkpoints WHERE trigger = '%s'", trigger) > 0, WAIT_S,
		"a checkpoint for %s", trigger);
}

START_TEST(each_trigger_brings_a_checkpoint_that_says_so) /* proves CK-01 CK-12 */
{
	const char *id;
	struct ctl_run run;

	configure();
	rig_set(r, "capability agent", "checkpoint_interval", "1s");
	rig_start(r);
	id = submit("['checkpoint',{'mark':1},'its own'],['step',5],['hold','%s']", rig_path(r, "go"));
	wait_for_trigger("worker");
	must(rig_sql(r,
		     "SELECT count(*) FROM checkpoints WHERE trigger = 'worker' AND description = 'its own' "
		     "AND step = '\"step\"'") == 1,
		"with its description and step");
	wait_for_trigger("steps");
	wait_for_trigger("interval");
	run = ctl_start("checkpoint", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	wait_for_trigger("operator");
	run = ctl_start("pause", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	wait_for_state("PAUSED");
	wait_for_trigger("pause");
	run = ctl_start("resume", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	wait_for_state("RUNNING");
	rig_stop(r);
	must(rig_sql(r, "SELECT count(*) FROM checkpoints WHERE trigger = 'stop'") == 1,
		"a checkpoint for the stop");
	rig_touch(r, "go");
	rig_start(r);
	run = ctl_start("abort", ctl_short_id(id), NULL);
	wait_until(
		rig_sql(r, "SELECT count(*) FROM sessions WHERE state IN ('COMPLETED','FAILED','ABORTED')") ==
			1,
		WAIT_S, "its end");
	/* its status depends on who was first; it must be over before its directory goes */
	wait_until(file_exists(run.rc), WAIT_S, "the end of hcpctl abort");
	ctl_end();
}
END_TEST

START_TEST(a_worker_that_never_answers_is_left_alone) /* proves CK-01 */
{
	const char *id;
	struct ctl_run run;

	configure();
	rig_set(r, "capability agent", "checkpoint_interval", "1s");
	rig_start(r);
	id = submit(
		"['note_lines','%s'],['hold','%s'],['complete']", rig_path(r, "lines"), rig_path(r, "go"));
	wait_until(rig_log_has(r, "requests for checkpoints are not answered"), WAIT_S, "a word about it");
	harness_pass(2.5);
	must(file_lines(rig_path(r, "lines")) == 2, "asked twice, not more: %s",
		ctl_text_of(rig_path(r, "lines")));
	run = ctl_start("show", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out,
		"left the last requests for checkpoints unanswered: it is no longer asked by itself");
	rig_touch(r, "go");
	wait_for_state("COMPLETED");
	must(rig_sql(r, "SELECT count(*) FROM events WHERE event_type = 'warning'") == 0,
		"the caller hears nothing of it");
	ctl_end();
}
END_TEST

/* ---- hcpctl checkpoints ---- */

static void look_at_them(const char *id)
{
	char was[9], is[9];
	struct ctl_run run = run_ctl(0, id, NULL, NULL, NULL, NULL);

	ctl_must_have(run.out, "TRIGGER");
	ctl_must_have(run.out, "delta ");
	snprintf(was, sizeof was, "%s", kept(id, 3));
	snprintf(is, sizeof is, "%s", kept(id, 4));
	run = run_ctl(0, id, "--show", is, NULL, NULL);
	ctl_must_have(run.out, "\"n\": 7");
	ctl_must_have(run.out, "\"rows\": [");
	run = run_ctl(0, id, "--show", is, "--json", NULL);
	ctl_must_have(run.out, "\"damage\":null");
	run = run_ctl(0, id, "--diff", was, is, NULL);
	ctl_must_have(run.out, "~ /n  6 -> 7\n~ /rows/");
	must(file_lines(run.out) == 2, "two places differ: %s", ctl_text_of(run.out));
	run = run_ctl(0, "--diff", was, is, id, "--json");
	ctl_must_have(run.out, "{\"path\":\"/n\",\"was\":6,\"is\":7}");
	run = run_ctl(0, id, "--diff", is, is, NULL);
	ctl_must_have(run.err, "the two states are the same");
}

/* proves CK-02 CK-12 */
START_TEST(states_are_shown_and_compared_with_and_without_a_daemon)
{
	char id[37], newest[9];
	struct ctl_run run;

	configure();
	rig_start(r);
	snprintf(id, sizeof id, "%s", submit_large());
	look_at_them(ctl_short_id(id));
	snprintf(newest, sizeof newest, "%s", kept(id, 4));
	run = run_ctl(1, id, "--show", "ffffffff", NULL, NULL);
	ctl_must_have(run.err, "there is no checkpoint ffffffff");
	run = run_ctl(64, id, "--diff", newest, NULL, NULL);
	ctl_must_have(run.err, "--diff takes two checkpoints");
	run = run_ctl(64, id, "--state", "--show", newest, NULL);
	ctl_must_have(run.err, "do not go together");
	rig_kill(r);
	look_at_them(ctl_short_id(id));
	write_sql("UPDATE checkpoints SET state = substr(state, 1, length(state) - 1) WHERE " NEWEST);
	run = run_ctl(1, id, "--show", newest, NULL, NULL);
	ctl_must_have(run.err, "is damaged: its state cannot be restored");
	run = run_ctl(0, id, "--state", NULL, NULL, NULL);
	ctl_must_have(run.out, "is damaged: its state cannot be restored");
	ctl_must_have(run.out, "\"n\": 6");
	write_sql("UPDATE checkpoints SET step = '{{' WHERE " NEWEST);
	run = run_ctl(0, id, NULL, NULL, NULL, NULL);
	ctl_must_have(run.out, "  damaged  ");
	ctl_must_have(run.out, newest);
	rig_start(r);
	must_have_restored(6);
	ctl_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("checkpoints");

	suite_test(s, a_killed_daemon_goes_on_from_a_difference, 90);
	suite_test(s, bits_that_flipped_cost_that_checkpoint_only, 90);
	suite_test(s, a_row_that_was_cut_off_costs_that_checkpoint_only, 90);
	suite_test(s, rows_that_are_gone_are_missed, 90);
	suite_test(s, checkpoints_whose_common_base_is_gone_fail_the_session, 90);
	suite_test(s, each_trigger_brings_a_checkpoint_that_says_so, 120);
	suite_test(s, a_worker_that_never_answers_is_left_alone, 90);
	suite_test(s, states_are_shown_and_compared_with_and_without_a_daemon, 120);
	return harness_run(s, false);
}
