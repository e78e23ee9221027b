/* SPDX-License-Identifier: MIT */
/* migrations.h: the tables of the store, as steps from each schema version to the next. */
#ifndef HCPD_STORE_MIGRATIONS_H
#define HCPD_STORE_MIGRATIONS_H

/* migrations_steps[n] changes version n to n + 1; each step runs in a transaction of its own. */
extern const char *const migrations_steps[];
extern const int migrations_version; /* the newest version, which this program uses */

/* Conditions of the indexes sessions_live and sessions_ended. SQLite uses such an index only for a query
 * that repeats the condition word for word. Not as IN (...): SQLite would build a temporary table for it at
 * each write of a row. */
#define SQL_IS_LIVE "(state = 'PENDING' OR state = 'RUNNING' OR state = 'PAUSED' OR state = 'ABORTING')"
#define SQL_IS_OVER "(state = 'COMPLETED' OR state = 'FAILED' OR state = 'ABORTED' OR state = 'REJECTED')"

/* The triggers that keep the audit append-only. A reader can check that they are there and unchanged. */
#define SCHEMA_AUDIT_TRIGGER(name, event) \
	"CREATE TRIGGER " name " BEFORE " event \
	" ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
#define SQL_AUDIT_STAYS SCHEMA_AUDIT_TRIGGER("audit_stays", "UPDATE")
#define SQL_AUDIT_IS_KEPT SCHEMA_AUDIT_TRIGGER("audit_is_kept", "DELETE")
extern const char migrations_count_audit_triggers[]; /* a query; should give SCHEMA_AUDIT_TRIGGERS */
enum { SCHEMA_AUDIT_TRIGGERS = 2 };

#endif
