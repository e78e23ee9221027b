/* schema.h: the tables, as steps from one version of them to the next. */
#ifndef HCPD_SCHEMA_H
#define HCPD_SCHEMA_H

/* schema_steps[n] brings version n to n + 1; it runs in a transaction of its own. */
extern const char *const schema_steps[];
extern const int schema_version; /* what this program knows */

/* Conditions of the indexes sessions_live and sessions_ended, which are used only where they are repeated
 * word for word. Not as IN (...): SQLite would build a temporary table for it at each write of a row. */
#define SCHEMA_IS_LIVE "(state = 'PENDING' OR state = 'RUNNING' OR state = 'PAUSED' OR state = 'ABORTING')"
#define SCHEMA_IS_OVER "(state = 'COMPLETED' OR state = 'FAILED' OR state = 'ABORTED' OR state = 'REJECTED')"

/* The triggers that keep the audit append-only, for who wants to know whether they are still there, and as
 * they were. */
#define SCHEMA_AUDIT_TRIGGER(name, event) \
	"CREATE TRIGGER " name " BEFORE " event \
	" ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
#define SCHEMA_AUDIT_STAYS SCHEMA_AUDIT_TRIGGER("audit_stays", "UPDATE")
#define SCHEMA_AUDIT_IS_KEPT SCHEMA_AUDIT_TRIGGER("audit_is_kept", "DELETE")
extern const char schema_count_audit_triggers[]; /* a question; the answer is SCHEMA_AUDIT_TRIGGERS */
enum { SCHEMA_AUDIT_TRIGGERS = 2 };

#endif
