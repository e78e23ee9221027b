/* SPDX-License-Identifier: MIT */
/* migrations.c: the store's tables.
 * Owns the steps between schema versions: append steps, never change one that was released. Never runs a
 * step (open.c).
 *
 * sessions, transitions, events, checkpoints and artifacts are a documented read interface (hcpd(8), FILES).
 * Each has session_id as text for readers, and the integer key for joins: integers grow with time, so the
 * indexes grow at their right end however long the history is. */
#include "store/migrations.h"

const char *const migrations_steps[] = {
	/* 0 -> 1 */
	"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);"

	/* confirmed: every event of this caller up to that one is settled */
	"CREATE TABLE callers ("
	" id INTEGER PRIMARY KEY, caller_id TEXT NOT NULL UNIQUE, confirmed INTEGER NOT NULL DEFAULT 0);"

	"CREATE TABLE sessions ("
	" id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, caller_id TEXT NOT NULL,"
	" capability TEXT NOT NULL, capability_version TEXT NOT NULL,"
	" state TEXT NOT NULL, state_version INTEGER NOT NULL,"
	" risk_level TEXT NOT NULL, data_classification TEXT NOT NULL, priority TEXT NOT NULL,"
	" session_token TEXT NOT NULL, metadata TEXT,"
	" created_at TEXT NOT NULL, updated_at TEXT NOT NULL, started_at TEXT, deadline TEXT,"
	" max_duration_us INTEGER NOT NULL, attempt INTEGER NOT NULL, paused_by TEXT,"
	" steps INTEGER NOT NULL, step TEXT, checkpoints INTEGER NOT NULL, warnings TEXT NOT NULL,"
	" tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cost REAL NOT NULL);"
	"CREATE INDEX sessions_live ON sessions (id) WHERE state IN "
	"('PENDING','RUNNING','PAUSED','ABORTING');"

	/* not in sessions, whose rows are small and written often */
	"CREATE TABLE tasks (session INTEGER PRIMARY KEY, task TEXT NOT NULL);"
	"CREATE TABLE outcomes (session INTEGER PRIMARY KEY, outcome TEXT NOT NULL);"

	"CREATE TABLE transitions ("
	" id INTEGER PRIMARY KEY, session INTEGER NOT NULL, session_id TEXT NOT NULL,"
	" from_state TEXT NOT NULL, to_state TEXT NOT NULL, reason TEXT NOT NULL, actor TEXT NOT NULL,"
	" at TEXT NOT NULL, state_version INTEGER NOT NULL);"
	"CREATE UNIQUE INDEX transitions_by_session ON transitions (session, state_version);"

	/* every message that was or will be published; substitute: is published in place of body */
	"CREATE TABLE events ("
	" id INTEGER PRIMARY KEY, session INTEGER, session_id TEXT, caller INTEGER NOT NULL,"
	" type TEXT NOT NULL, sequence INTEGER, event_type TEXT, body TEXT NOT NULL, substitute TEXT);"
	"CREATE INDEX events_by_session ON events (session);"
	"CREATE INDEX events_by_caller ON events (caller);"

	"CREATE TABLE checkpoints ("
	" id INTEGER PRIMARY KEY, checkpoint_id TEXT NOT NULL UNIQUE, session INTEGER NOT NULL, session_id "
	"TEXT NOT NULL,"
	" description TEXT NOT NULL, step TEXT, resumable INTEGER NOT NULL, created_at TEXT NOT NULL,"
	" state TEXT NOT NULL);"
	"CREATE INDEX checkpoints_by_session ON checkpoints (session);"

	/* submitted tasks, and the event that answered each */
	"CREATE TABLE submits ("
	" id INTEGER PRIMARY KEY, caller INTEGER NOT NULL, message_id TEXT NOT NULL, received_at TEXT NOT "
	"NULL,"
	" session INTEGER, answer INTEGER, UNIQUE (caller, message_id));"

	"CREATE TABLE unroutable (event INTEGER PRIMARY KEY, caller INTEGER NOT NULL);"
	"CREATE INDEX unroutable_by_caller ON unroutable (caller);",

	/* 1 -> 2: sha256 of the canonical form of state; NULL in older rows */
	"ALTER TABLE checkpoints ADD COLUMN sha256 TEXT;",

	/* artifacts: files that workers announced. size_bytes and sha256 are NULL until the file is in
	 * STATE_DIR/artifacts. path: in the working directory. A name has one row, the latest
	 * announcement. */
	"CREATE TABLE artifacts ("
	" id INTEGER PRIMARY KEY, session INTEGER NOT NULL, session_id TEXT NOT NULL, name TEXT NOT NULL,"
	" type TEXT NOT NULL, path TEXT NOT NULL, created_at TEXT NOT NULL, size_bytes INTEGER, sha256 TEXT,"
	" UNIQUE (session, name));",

	/* audit: who decided what. entry is canonical JSON; hash is over the hash before it and the entry
	 * (audit_chain.h). Rows are numbered 1, 2, 3 ... without a gap, and are never changed. The triggers
	 * prevent accidents, not attacks; the chain is for those. The end of the chain is also in meta, as
	 * 'audit'. */
	"CREATE TABLE audit (id INTEGER PRIMARY KEY, entry TEXT NOT NULL, hash TEXT NOT "
	"NULL);" SQL_AUDIT_STAYS ";" SQL_AUDIT_IS_KEPT ";",

	/* waits_for: what an undecided task waits for (human, program; NULL: it was accepted). message_id:
	 * the message that the answer will reply to. reviews: requests to a human, with the states of HARP.
	 * decisions: the answers, as they were signed. */
	"ALTER TABLE sessions ADD COLUMN waits_for TEXT;"
	"ALTER TABLE sessions ADD COLUMN message_id TEXT;"
	"CREATE TABLE reviews ("
	" id INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, session INTEGER NOT NULL, session_id TEXT "
	"NOT NULL,"
	" state TEXT NOT NULL, risk_level TEXT NOT NULL, created_at TEXT NOT NULL, expires_at TEXT NOT NULL,"
	" decided_at TEXT, artifact_hash TEXT NOT NULL, artifact TEXT NOT NULL);"
	"CREATE INDEX reviews_open ON reviews (id) WHERE state = 'AWAITING_DECISION';"
	"CREATE INDEX reviews_by_session ON reviews (session);"
	"CREATE TABLE decisions ("
	" id INTEGER PRIMARY KEY, request_id TEXT NOT NULL, artifact_hash TEXT NOT NULL, signer TEXT NOT "
	"NULL,"
	" nonce TEXT NOT NULL, decision TEXT NOT NULL, is_final INTEGER NOT NULL, expires_at TEXT NOT NULL,"
	" reason TEXT, uid INTEGER NOT NULL, text TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (nonce, signer));"
	"CREATE INDEX decisions_by_request ON decisions (request_id);",

	/* seal: hash of the accepted intent (intent_seal.h); NULL in older rows. risk_events: what the
	 * worker did at the limits. token_revoked: the token is invalid. A checkpoint has the seal of the
	 * intent that it was made under. */
	"ALTER TABLE sessions ADD COLUMN seal TEXT;"
	"ALTER TABLE sessions ADD COLUMN risk_events TEXT NOT NULL DEFAULT '[]';"
	"ALTER TABLE sessions ADD COLUMN token_revoked INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE checkpoints ADD COLUMN seal TEXT;",

	/* encoding: how state is stored (state_compress.h): json, its text; zstd; or delta, against the
	 * checkpoint in row base. trigger: why it was made. state_version: of the state's own schema.
	 * state_size: length of its text. last_checkpoint: the newest resumable one, so that its loss is
	 * noticed. */
	"ALTER TABLE sessions ADD COLUMN last_checkpoint TEXT;"
	"ALTER TABLE checkpoints ADD COLUMN encoding TEXT NOT NULL DEFAULT 'json';"
	"ALTER TABLE checkpoints ADD COLUMN base INTEGER;"
	"ALTER TABLE checkpoints ADD COLUMN trigger TEXT;"
	"ALTER TABLE checkpoints ADD COLUMN state_version TEXT;"
	"ALTER TABLE checkpoints ADD COLUMN state_size INTEGER;"
	"CREATE INDEX checkpoints_bases ON checkpoints (session, base) WHERE base IS NOT NULL;",

	/* deaths: how often the worker died. recover_as: the operator's choice; NULL: as the capability
	 * says. continuity: what a session leaves to the next one; completion is NULL until the end.
	 * checkpoint_of and continues: ended sessions that this session needs until its own end; it
	 * continues from a checkpoint of the first, and was given the record of the second. */
	"ALTER TABLE sessions ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sessions ADD COLUMN recover_as TEXT;"
	"ALTER TABLE sessions ADD COLUMN checkpoint_of TEXT;"
	"ALTER TABLE sessions ADD COLUMN continues TEXT;"
	"CREATE INDEX sessions_by_checkpoint_of ON sessions (checkpoint_of) WHERE checkpoint_of IS NOT NULL;"
	"CREATE INDEX sessions_by_continues ON sessions (continues) WHERE continues IS NOT NULL;"
	"CREATE TABLE continuity ("
	" session INTEGER PRIMARY KEY, session_id TEXT NOT NULL, caller_id TEXT NOT NULL, capability TEXT "
	"NOT NULL,"
	" summary TEXT NOT NULL, decisions TEXT NOT NULL, open_questions TEXT NOT NULL, next_steps TEXT NOT "
	"NULL,"
	" checkpoint_count INTEGER NOT NULL, completion TEXT, closed_at TEXT);",

	/* Retention. archives: how much of each day's file counts, and how many sessions that is. leaving:
	 * sessions whose row is gone, and whose other rows and files are being removed in slices; artifacts
	 * 1: their artifacts too. */
	"CREATE TABLE archives (day TEXT PRIMARY KEY, size INTEGER NOT NULL, sessions INTEGER NOT NULL) "
	"WITHOUT ROWID;"
	"CREATE TABLE leaving (session INTEGER PRIMARY KEY, session_id TEXT NOT NULL, artifacts INTEGER NOT "
	"NULL);"
	"CREATE INDEX sessions_ended ON sessions (updated_at) WHERE " SQL_IS_OVER
	";"
	"DROP INDEX sessions_live;"
	"CREATE INDEX sessions_live ON sessions (id) WHERE " SQL_IS_LIVE ";",

	/* harp: HARP-SESSION events are published for this session. Such an event is a row of type 'harp'
	 * without a sequence, of a caller whose name ends in /harp. snapshots: what identifies a snapshot;
	 * its text is the event's. */
	"ALTER TABLE sessions ADD COLUMN harp INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE snapshots ("
	" id INTEGER PRIMARY KEY, session INTEGER NOT NULL, session_id TEXT NOT NULL, snapshot_id TEXT NOT "
	"NULL,"
	" snapshot_type TEXT NOT NULL, created_at TEXT NOT NULL, sha256 TEXT NOT NULL, event INTEGER NOT "
	"NULL,"
	" UNIQUE (session, snapshot_id));",

	/* labels: metadata.labels of the sessions' tasks. label_group: the label `group` of a record's
	 * session; NULL: it has none, or is older than labels. */
	"CREATE TABLE labels ("
	" id INTEGER PRIMARY KEY, session INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,"
	" UNIQUE (session, name));"
	"CREATE INDEX labels_by_value ON labels (name, value, session);"
	"ALTER TABLE continuity ADD COLUMN label_group TEXT;"
	"CREATE INDEX continuity_recent ON continuity (caller_id, capability, label_group, closed_at, "
	"session)"
	" WHERE closed_at IS NOT NULL;",
};

const int migrations_version = sizeof migrations_steps / sizeof *migrations_steps;

/* SQLite keeps the text as it was written; our texts have no double quote. */
const char migrations_count_audit_triggers[] =
	"SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'"
	" AND name IN ('audit_stays', 'audit_is_kept') AND replace(sql, '''', '\"') ="
	" 'CREATE TRIGGER ' || name || ' BEFORE ' || CASE name WHEN 'audit_stays' THEN 'UPDATE' ELSE "
	"'DELETE' END ||"
	" ' ON audit BEGIN SELECT RAISE(ABORT, \"the audit is append-only\"); END'";
