/* SPDX-License-Identifier: MIT */
/* test_audit.c: the audit of a real daemon: what hcpctl shows of it, with the daemon and without, and that
 * whoever changes the file is found out. */
#include "support/hcpctl_kit.h"

#include <sqlite3.h>

static void begin_here(void)
{
	ctl_begin();
	setenv("HCP_DAEMON_CONFIG", r->ini, 1);
	unsetenv("HCP_SOCKET");
}

static void write_sql(const char *text)
{
	sqlite3 *db;
	char *why = NULL;

	must(sqlite3_open(r->db, &db) == SQLITE_OK, "%s", r->db);
	sqlite3_busy_timeout(db, 5000);
	must(sqlite3_exec(db, text, NULL, NULL, &why) == SQLITE_OK, "%s: %s", text, why);
	sqlite3_close(db);
}

/* Two that ran, one that did not, and an operator's word: seven rows, with the start. */
static void make_history(void)
{
	struct ctl_run run;

	for (int i = 0; i < 2; i++) {
		run = ctl_start("submit", "agent", "--input", "do=[[\"complete\",{\"n\":1}]]", NULL);
		ctl_finish(&run, 0);
	}
	run = ctl_start("submit", "nonsense", NULL);
	ctl_finish(&run, 3);
	run = ctl_start("drain", NULL);
	ctl_finish(&run, 0);
	run = ctl_start("undrain", NULL);
	ctl_finish(&run, 0);
	run = ctl_start("resume", ctl_session_of(rig_path(r, "ctl-1.out")), NULL);
	ctl_finish(&run, 1);
	must(rig_sql(r, "SELECT max(id) FROM audit") == 7, "%lld rows",
		rig_sql(r, "SELECT max(id) FROM audit"));
}

static void verify(int status, const char *says)
{
	struct ctl_run run = ctl_start("audit", "verify", NULL);

	ctl_finish(&run, status);
	ctl_must_have(status == 0 ? run.out : run.err, says);
}

/* proves SA-15 */
START_TEST(audit_is_shown_and_verified_with_and_without_a_daemon)
{
	struct ctl_run run;
	char head[200];

	begin_here();
	make_history();
	for (int is_dead = 0; is_dead < 2; is_dead++) {
		run = ctl_start("audit", NULL);
		ctl_finish(&run, 0);
		ctl_must_have(run.out, "WHAT");
		ctl_must_have(run.out, "accepted");
		ctl_must_have(run.out, "unknown_capability");
		ctl_must_have(run.out, "undrain");
		ctl_must_have(run.out, "operator");
		run = ctl_start("audit", "--json", NULL);
		ctl_finish(&run, 0);
		ctl_must_have(run.out, "\"what\":\"resume\",\"who\":\"operator\"");
		ctl_must_have(run.out, "\"outcome\":\"refused\"");
		ctl_must_have(run.out, ctl_caller);
		run = ctl_start("audit", "--since", "2099-01-01T00:00:00Z", NULL);
		ctl_finish(&run, 0);
		must(strcmp(ctl_text_of(run.out), "") == 0, "%s", ctl_text_of(run.out));
		verify(0, "good: 7 rows, head 7:");
		if (!is_dead) {
			run = ctl_start("audit", "verify", NULL);
			ctl_finish(&run, 0);
			snprintf(head, sizeof head, "%s", strstr(ctl_text_of(run.out), "head ") + 5);
			head[strcspn(head, "\n")] = '\0';
			run = ctl_start("stats", NULL);
			ctl_finish(&run, 0);
			ctl_must_have(run.out, head); /* where an operator can note it */
			rig_stop(r);
			must(rig_log_count(r, strchr(head, ':') + 1) == 1, "the log has it, too");
		}
		run = ctl_start("audit", "verify", "--noted", head, NULL);
		ctl_finish(&run, 0);
	}
	run = ctl_start("audit", "verify", "--noted", "7:0123456789abcdef", NULL);
	ctl_finish(&run, 2);
	ctl_must_have(run.err, "row 7 has not the hash that was noted");
	run = ctl_start("audit", "verify", "--noted", "seven", NULL);
	ctl_finish(&run, 64);
	run = ctl_start("audit", "verfy", NULL);
	ctl_finish(&run, 64);
	ctl_end();
}
END_TEST

enum { ALARMS = 3 }; /* of the cases below: at the end, before the first */

START_TEST(changed_removed_and_moved_rows_are_found)
{
	static const struct {
		const char *sql, *offline, *online;
	} cases[] = {
		{"UPDATE audit SET entry = replace(entry, 'rejected', 'accepted') WHERE id = 4",
			"row 4 does not follow", "row 4 does not"},
		{"DELETE FROM audit WHERE id = 4", "row 4 is missing", "row 4 is missing"},
		{"UPDATE audit SET id = 99 WHERE id = 2; UPDATE audit SET id = 2 WHERE id = 3; UPDATE audit "
		 "SET id = 3 WHERE id = 99",
			"row 2 was put there: it says that it is row 3",
			"row 3 was put there: it says that it is row 2"},
		{"DELETE FROM audit WHERE id > 5",
			"the end is missing: there were 7 rows, and the last one is row 5",
			"rows 6 to 7 are missing"},
		{"INSERT INTO audit SELECT -5, entry, hash FROM audit WHERE id = 7", "row -5 was put there",
			"row -5 was put there"},
		{"INSERT INTO audit SELECT -9223372036854775807 - 1, entry, hash FROM audit WHERE id = 7",
			"row -9223372036854775808 was put", "row -9223372036854775808 was put"},
		{"UPDATE audit SET entry = entry || char(0) WHERE id = 4", "row 4 was changed",
			"row 4 was changed"},
		{"UPDATE audit SET hash = hash || char(0) WHERE id = 4", "row 4 does not follow",
			"row 4 does not follow"},
	};
	char copy[400], command[900];

	begin_here();
	make_history();
	rig_stop(r);
	snprintf(copy, sizeof copy, "%s", rig_path(r, "good.db"));
	snprintf(command, sizeof command, "cp %s %s", r->db, copy);
	must(system(command) == 0, "%s", command);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		write_sql("DROP TRIGGER audit_stays; DROP TRIGGER audit_is_kept");
		verify(2, "the triggers that keep rows from being changed are missing");
		write_sql(cases[i].sql);
		verify(2, cases[i].offline);
		verify(2, "NOT as it was written");
		rig_start(r); /* which goes on behind it, and mends nothing */
		verify(2, cases[i].online);
		rig_stop(r);
		verify(2, cases[i].online);
		snprintf(command, sizeof command, "cp %s %s", copy, r->db);
		must(system(command) == 0, "%s", command);
		verify(0, "good: 7 rows");
	}
	must(rig_log_count(r, "ALARM: the audit was changed from outside") == ALARMS,
		"the daemon noticed those at the ends");
	must(rig_log_count(r, "the audit's triggers against changes were missing") ==
			(int)(sizeof cases / sizeof *cases),
		"each time");
	ctl_end();
}
END_TEST

START_TEST(dropped_table_is_a_fault_and_no_reason_to_try_again)
{
	struct ctl_run run;

	begin_here();
	make_history();
	rig_stop(r);
	write_sql("DROP TABLE audit");
	verify(2, "the table is gone");
	verify(2, "there were 7 rows");
	run = ctl_start("audit", NULL);
	ctl_finish(&run, 2);
	ctl_must_have(run.err, "table is gone");
	ctl_end();
}
END_TEST

START_TEST(tampering_beside_a_running_daemon_is_found_and_harmless)
{
	struct ctl_run run;

	begin_here();
	make_history();
	write_sql("DROP TRIGGER audit_is_kept; DELETE FROM audit WHERE id = 7");
	verify(2, "the end is missing");
	run = ctl_start("submit", "agent", "--input", "do=[[\"complete\",{\"n\":1}]]", NULL);
	ctl_finish(&run, 0);
	verify(2, "row 7 is missing");
	must(rig_sql(r, "SELECT max(id) FROM audit") == 8, "it goes on counting");
	ctl_end();
}
END_TEST

START_TEST(a_crash_leaves_a_good_chain)
{
	struct ctl_run run;

	begin_here();
	for (int i = 0; i < 3; i++) {
		run = ctl_start(
			"submit", "agent", "--detach", "--input", "do=[[\"hold\",\"/nonexistent\"]]", NULL);
		ctl_finish(&run, 0);
		rig_kill(r);
		verify(0, "good:");
		rig_start(r);
		verify(0, "good:");
	}
	ctl_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("audit");

	suite_test(s, audit_is_shown_and_verified_with_and_without_a_daemon, 120);
	suite_test(s, changed_removed_and_moved_rows_are_found, 180);
	suite_test(s, dropped_table_is_a_fault_and_no_reason_to_try_again, 60);
	suite_test(s, tampering_beside_a_running_daemon_is_found_and_harmless, 90);
	suite_test(s, a_crash_leaves_a_good_chain, 120);
	return harness_run(s, false);
}
