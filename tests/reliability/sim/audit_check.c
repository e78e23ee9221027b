/* SPDX-License-Identifier: MIT */
/* audit_check.c: the audit, in the end: its chain holds, and there is a row for what was decided. */
#include "sim.h"

#include <sqlite3.h>

#include "support/audit_oracle.h"

/* A task that runs was accepted by one row: of the gate, a human or the program. */
static void check_accepted(sqlite3 *db)
{
	const char *sql =
		"SELECT count(*), count(DISTINCT json_extract(entry, '$.session')) FROM audit"
		" WHERE json_extract(entry, '$.outcome') = 'accepted'";
	int64_t accepted = 0;
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		violation("%s: %s", sql, sqlite3_errmsg(db));
	for (int64_t key = 1; key <= watch.session_count; key++)
		accepted += watch.sessions[key].accepted != 0;
	sqlite3_step(st);
	if (sqlite3_column_int64(st, 0) != accepted || sqlite3_column_int64(st, 1) != accepted)
		violation("%lld tasks were accepted, and the audit has %lld rows of %lld",
			(long long)accepted, (long long)sqlite3_column_int64(st, 0),
			(long long)sqlite3_column_int64(st, 1));
	sqlite3_finalize(st);
}

void audit_check(sqlite3 *db)
{
	char why[300];

	if (!chain_holds(db, why, sizeof why))
		violation("the audit is broken: %s", why);
	check_accepted(db);
}

void audit_tamper(void)
{
	const char *why = sim_world_exec(
		"DROP TRIGGER audit_stays;"
		"UPDATE audit SET entry = replace(entry, 'rejected', 'accepted') WHERE id = (SELECT max(id) "
		"FROM audit) / 2");

	if (why != NULL)
		sim_trace("the audit cannot be changed: %s", why);
}
