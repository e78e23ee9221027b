/* SPDX-License-Identifier: MIT */
/* store.c: the batch, the transaction, and the texts of the SQL statements; session_row.c and retain.c build
 * the others.
 * Owns the database, with read.c and open.c. Never decides what is stored, never releases an effect (turn.c
 * does, after store_run returned 0). */
#include "store/store_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crashpoint.h"
#include "base/log.h"
#include "store/migrations.h"
#include "store/wal_vfs.h"

/* clang-format off */
#define EVENT_COLUMNS \
	"e.id, e.session, e.session_id, e.caller, e.type, e.sequence, e.event_type," \
	" coalesce(e.substitute, e.body)"

#define OLD_SUBMITS \
	"id > ?1 AND id <= ?2 AND received_at < ?3 AND (session IS NULL OR NOT EXISTS" \
	" (SELECT 1 FROM sessions WHERE sessions.id = submits.session" \
	"  AND " SQL_IS_LIVE "))"

#define PUT_EVENTS \
	"INSERT INTO events (id, session, session_id, caller, type, sequence, event_type, body) VALUES "
#define EVENT "(?,?,?,?,?,?,?,?)"

/* A text that is no JSON counts as an empty list: one damaged row must not make the query fail. */
#define AS_LIST(column) "json(CASE WHEN json_valid(" column ") THEN " column " ELSE '[]' END)"

/* A record as the next session's worker reads it. */
#define CONTINUITY_RECORD \
	"json_object('session_id', session_id, 'capability', capability, 'summary', summary," \
	" 'decisions', " AS_LIST("decisions") ", 'open_questions', " AS_LIST("open_questions") "," \
	" 'next_steps', " AS_LIST("next_steps") ", 'checkpoint_count', checkpoint_count," \
	" 'completion', completion, 'closed_at', closed_at)"
#define CLASS_OF(session) "(SELECT data_classification FROM sessions WHERE id = " session ")"
#define GROUP_OF_1 "(SELECT value FROM labels WHERE session = ?1 AND name = 'group')"

const char *const store_sql[ST_COUNT] = {
	[ST_PUT_CALLER] = "INSERT INTO callers (id, caller_id) VALUES (?,?)",
	[ST_KEEP_CALLER] = "INSERT OR IGNORE INTO callers VALUES (?,?,?)",
	[ST_DROP_CALLER] =
		"DELETE FROM callers WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM events WHERE caller = ?1)"
		" AND NOT EXISTS (SELECT 1 FROM submits WHERE caller = ?1)",
	[ST_SAVE_CONFIRMED] = "UPDATE callers SET confirmed = ?2 WHERE id = ?1",
	[ST_PUT_TASK] = "INSERT INTO tasks VALUES (?,?)",
	[ST_PUT_TRANSITION] =
		"INSERT INTO transitions (session, session_id, from_state, to_state, reason, actor, at,"
		" state_version) VALUES (?,?,?,?,?,?,?,?)",
	[ST_PUT_EVENT] = PUT_EVENTS EVENT,
	[ST_PUT_3_EVENTS] = PUT_EVENTS EVENT "," EVENT "," EVENT,
	[ST_PUT_8_EVENTS] =
		PUT_EVENTS EVENT "," EVENT "," EVENT "," EVENT "," EVENT "," EVENT "," EVENT "," EVENT,
	[ST_PUT_SUBSTITUTE] = "UPDATE events SET substitute = ?2 WHERE id = ?1",
	[ST_PUT_CHECKPOINT] =
		"INSERT INTO checkpoints (checkpoint_id, session, session_id, description, step, resumable,"
		" created_at, state, sha256, seal, encoding, base, trigger, state_version, state_size)"
		" VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[ST_SAVE_NEWEST] = "UPDATE sessions SET last_checkpoint = ?2 WHERE id = ?1",
	/* Column base stands behind a state that may be long; the index has all that the condition needs. */
	[ST_PRUNE_CHECKPOINTS] =
		"DELETE FROM checkpoints WHERE session = ?1"
		" AND id NOT IN (SELECT id FROM checkpoints WHERE session = ?1 ORDER BY id DESC LIMIT ?2)"
		" AND id NOT IN (SELECT id FROM checkpoints WHERE session = ?1 AND resumable"
		" ORDER BY id DESC LIMIT ?2)"
		" AND id NOT IN (SELECT base FROM checkpoints INDEXED BY checkpoints_bases"
		" WHERE session = ?1 AND base IS NOT NULL"
		"  AND (id IN (SELECT id FROM checkpoints WHERE session = ?1 ORDER BY id DESC LIMIT ?2)"
		"   OR id IN (SELECT id FROM checkpoints WHERE session = ?1 AND resumable"
		" ORDER BY id DESC LIMIT ?2)))",
	[ST_PUT_OUTCOME] = "INSERT INTO outcomes VALUES (?,?)",
	[ST_DROP_OUTCOME] = "DELETE FROM outcomes WHERE session = ?",
	[ST_PUT_SUBMIT] =
		"INSERT INTO submits (caller, message_id, received_at, session, answer) VALUES (?,?,?,?,?)",
	[ST_DROP_SUBMITS] = "DELETE FROM submits WHERE " OLD_SUBMITS,
	[ST_PUT_UNROUTABLE] = "INSERT OR IGNORE INTO unroutable VALUES (?,?)",
	[ST_DROP_UNROUTABLE] = "DELETE FROM unroutable WHERE event = ?",
	/* The later announcement of a name takes the place of the earlier. */
	[ST_PUT_ARTIFACT] =
		"INSERT OR REPLACE INTO artifacts (session, session_id, name, type, path, created_at)"
		" VALUES (?,?,?,?,?,?)",
	[ST_SAVE_ARTIFACT] =
		"UPDATE artifacts SET size_bytes = ?3, sha256 = ?4 WHERE session = ?1 AND name = ?2",
	[ST_DROP_ARTIFACT] = "DELETE FROM artifacts WHERE session = ? AND name = ?",
	[ST_PUT_AUDIT] = "INSERT INTO audit VALUES (?,?,?)",
	/* An update in place: the row and its index stay where they are, which is one page a commit. */
	[ST_SAVE_AUDIT_HEAD] =
		"INSERT INTO meta VALUES ('audit', ?1 || ' ' || ?2)"
		" ON CONFLICT (key) DO UPDATE SET value = excluded.value",
	[ST_SAVE_ANSWER] = "UPDATE submits SET answer = ?3 WHERE caller = ?1 AND message_id = ?2",
	[ST_PUT_REVIEW] =
		"INSERT INTO reviews (request_id, session, session_id, state, risk_level, created_at,"
		" expires_at, artifact_hash, artifact) VALUES (?,?,?,?,?,?,?,?,?)",
	[ST_SAVE_REVIEW] = "UPDATE reviews SET state = ?2, decided_at = ?3 WHERE request_id = ?1",
	[ST_PUT_DECISION] =
		"INSERT INTO decisions (request_id, artifact_hash, signer, nonce, decision, is_final,"
		" expires_at, reason, uid, text, at) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
	[ST_PUT_CONTINUITY] = "INSERT OR REPLACE INTO continuity VALUES (?,?,?,?,?,?,?,?,?,?,?," GROUP_OF_1 ")",
	[ST_CLOSE_CONTINUITY] =
		"INSERT INTO continuity VALUES (?,?,?,?,?,?,?,?,?,?,?," GROUP_OF_1
		") ON CONFLICT (session) DO UPDATE SET"
		" checkpoint_count = excluded.checkpoint_count, completion = excluded.completion,"
		" closed_at = excluded.closed_at",
	[ST_PUT_LABEL] = "INSERT INTO labels (session, name, value) VALUES (?,?,?)",
	[ST_RETIRE_CHECKPOINTS] = "UPDATE checkpoints SET resumable = 0 WHERE session = ?",
	/* retain.c */
	[ST_PUT_ARCHIVE] = "INSERT OR REPLACE INTO archives (day, size, sessions) VALUES (?,?,?)",
	[ST_DROP_ARCHIVE] = "DELETE FROM archives WHERE day = ?",
	[ST_KEEP_KEYS] =
		"INSERT INTO meta"
		" SELECT 'last_session', max(id) FROM sessions HAVING max(id) IS NOT NULL UNION ALL"
		" SELECT 'last_event', max(id) FROM events HAVING max(id) IS NOT NULL UNION ALL"
		" SELECT 'last_caller', max(id) FROM callers HAVING max(id) IS NOT NULL"
		" ON CONFLICT (key) DO UPDATE SET"
		" value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))",
	[ST_PUT_LEAVING] =
		"INSERT OR IGNORE INTO leaving SELECT id, session_id, ?2 FROM sessions"
		" WHERE id = ?1 AND " SQL_IS_OVER,
	[ST_DROP_SESSION] = "DELETE FROM sessions WHERE id = ? AND " SQL_IS_OVER,
	[ST_DROP_LEAVING] = "DELETE FROM leaving WHERE session = ?",
	[ST_DROP_KEPT] =
		"DELETE FROM unroutable"
		" WHERE event IN (SELECT id FROM events WHERE session = ?1 AND id <= ?2)",
	[ST_FORGET_SUBMIT] = "DELETE FROM submits WHERE caller = ? AND message_id = ? AND answer = ?",
	[ST_DROP_EVENT] = "DELETE FROM events WHERE id = ? AND session IS NULL",
	[ST_VACUUM] = "PRAGMA incremental_vacuum(32)",
	[ST_PUT_SNAPSHOT] =
		"INSERT INTO snapshots (session, session_id, snapshot_id, snapshot_type, created_at, sha256,"
		" event) VALUES (?,?,?,?,?,?,?)",
	[ST_BEGIN] = "BEGIN IMMEDIATE",
	[ST_BEGIN_READS] = "BEGIN",
	[ST_COMMIT] = "COMMIT",
	[ST_ROLLBACK] = "ROLLBACK",
	[ST_FIND_ANSWER] = "SELECT answer FROM submits WHERE caller = ? AND message_id = ?",
	[ST_FIND_SESSION] = "SELECT state FROM sessions WHERE session_id = ?",
	[ST_LOAD_TASK] = "SELECT task FROM tasks WHERE session = ?",
	[ST_LOAD_OUTCOME] = "SELECT outcome FROM outcomes WHERE session = ?",
	[ST_NEXT_CHECKPOINT] = "SELECT max(id) FROM checkpoints WHERE session = ? AND resumable AND id < ?",
	[ST_FIND_NEWEST] = "SELECT last_checkpoint FROM sessions WHERE id = ?",
	[ST_FIND_CHECKPOINT] = "SELECT id FROM checkpoints WHERE checkpoint_id = ?",
	[ST_LOAD_CHECKPOINT] =
		"SELECT id, session, base, state_size, checkpoint_id, encoding, sha256, seal, state_version,"
		" resumable, description, step, state, created_at FROM checkpoints WHERE id = ?",
	/* The columns behind a long state are not reached: its length stands in the row's head. */
	[ST_FIND_LARGE] =
		"SELECT 1 FROM checkpoints c WHERE id = ?1 AND (length(state) > ?2 OR state_size > ?2"
		" OR EXISTS (SELECT 1 FROM checkpoints b WHERE b.id = c.base"
		" AND (length(b.state) > ?2 OR b.state_size > ?2)))",
	[ST_FIND_LAST_EVENT] = "SELECT body FROM events WHERE session = ? ORDER BY id DESC LIMIT 1",
	[ST_LOAD_CALLERS] =
		"SELECT id, caller_id, confirmed, (SELECT max(id) FROM events WHERE caller = callers.id),"
		" (SELECT min(event) FROM unroutable WHERE caller = callers.id) FROM callers ORDER BY id",
	[ST_LOAD_BACKLOG] =
		"SELECT session, sum(length(CAST(coalesce(substitute, body) AS BLOB))) FROM events"
		" WHERE caller = ? AND id > ? AND id NOT IN (SELECT event FROM unroutable)"
		" GROUP BY session",
	[ST_LOAD_EVENTS] =
		"SELECT " EVENT_COLUMNS " FROM events e WHERE e.caller = ? AND e.id > ?"
		" AND e.id NOT IN (SELECT event FROM unroutable) ORDER BY e.id LIMIT ?",
	[ST_LOAD_UNROUTABLE] =
		"SELECT " EVENT_COLUMNS " FROM unroutable u JOIN events e ON e.id = u.event"
		" WHERE u.caller = ? AND u.event > ? ORDER BY u.event LIMIT ?",
	[ST_LOAD_EVENT] = "SELECT " EVENT_COLUMNS " FROM events e WHERE e.id = ?",
	/* The index of sessions has those without one together, in the order of their ids. */
	[ST_LOAD_ANSWERS] =
		"SELECT e.id, e.caller, e.reply, e.id <= c.confirmed,"
		" EXISTS (SELECT 1 FROM unroutable WHERE event = e.id),"
		" EXISTS (SELECT 1 FROM submits"
		" WHERE caller = e.caller AND message_id = e.reply AND answer = e.id), c.caller_id"
		" FROM (SELECT id, caller,"
		" CASE WHEN json_valid(body) THEN json_extract(body, '$.payload.in_reply_to') END AS reply"
		" FROM events WHERE session IS NULL AND id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) e"
		" LEFT JOIN callers c ON c.id = e.caller ORDER BY e.id",
	[ST_COUNT_ANSWERS] = "SELECT count(*) FROM events WHERE session IS NULL",
	[ST_LAST_SUBMIT] = "SELECT max(id) FROM submits",
	[ST_CHECK_READABLE] =
		"SELECT (SELECT max(id) FROM sessions), (SELECT max(id) FROM events),"
		" (SELECT max(id) FROM submits), (SELECT max(id) FROM callers),"
		" (SELECT max(session) FROM tasks), (SELECT max(id) FROM checkpoints),"
		" (SELECT max(id) FROM reviews), (SELECT max(id) FROM decisions)",
	/* The n-th row of a session has sequence n at most, and few rows have none, HARP-SESSION events
	 * aside: so the index alone leads nearly to the place. HARP-SESSION events are no part of the stream.
	 * Only a session that has such events pays for a look at the type of each row. */
	[ST_FIND_REPLAY] =
		"WITH s AS (SELECT id, caller_id, state, harp FROM sessions WHERE session_id = ?1),"
		" f AS (SELECT (SELECT id FROM events WHERE session = (SELECT id FROM s)"
		" AND id >= (SELECT id FROM events WHERE session = (SELECT id FROM s)"
		" ORDER BY id LIMIT 1 OFFSET ?2 - 1)"
		" AND (sequence >= ?2 OR ?2 = 1) ORDER BY id LIMIT 1) AS id)"
		" SELECT s.id, s.caller_id, s.state, f.id, (SELECT max(id) FROM events WHERE session = s.id),"
		" CASE WHEN s.harp"
		" THEN (SELECT count(*) FROM events WHERE session = s.id AND id >= f.id AND type <> 'harp')"
		" ELSE (SELECT count(*) FROM events WHERE session = s.id AND id >= f.id) END FROM s, f",
	[ST_LOAD_REPLAY] =
		"SELECT " EVENT_COLUMNS " FROM events e"
		" WHERE e.session = ? AND e.id > ? AND e.id <= ? AND e.type <> 'harp' ORDER BY e.id LIMIT ?",
	[ST_FIND_AUDIT_END] =
		"SELECT coalesce((SELECT max(id) FROM audit), 0),"
		" (SELECT hash FROM audit ORDER BY id DESC LIMIT 1),"
		" (SELECT value FROM meta WHERE key = 'audit'), EXISTS (SELECT 1 FROM audit WHERE id < 1)",
	[ST_FIND_OLD_SUBMIT] = "SELECT 1 FROM submits WHERE " OLD_SUBMITS " LIMIT 1",
	[ST_LOAD_ARTIFACTS] =
		"SELECT name, type, path, size_bytes, sha256 FROM artifacts WHERE session = ? ORDER BY id",
	[ST_LOAD_REVIEW] = "SELECT session, state, artifact FROM reviews WHERE request_id = ?",
	[ST_FIND_OPEN_REVIEW] =
		"SELECT request_id, expires_at FROM reviews"
		" WHERE session = ? AND state = 'AWAITING_DECISION' ORDER BY id DESC LIMIT 1",
	[ST_FIND_APPROVED_REVIEW] =
		"SELECT 1 FROM reviews WHERE session = ? AND state IN ('APPROVED', 'EXECUTED') LIMIT 1",
	[ST_FIND_LAST_HARP] =
		"SELECT body FROM events WHERE session = ?1 AND type = 'harp'"
		" AND (event_type <> 'session.snapshot' OR id IN"
		" (SELECT n.event FROM snapshots n JOIN checkpoints c ON c.checkpoint_id = n.snapshot_id"
		" WHERE n.session = ?1)) ORDER BY id DESC LIMIT 1",
	[ST_FIND_SNAPSHOT] = "SELECT sha256, created_at FROM snapshots WHERE session = ? AND snapshot_id = ?",
	[ST_FIND_NONCE] = "SELECT 1 FROM decisions WHERE nonce = ? AND signer = ?",
	[ST_LOAD_VOTES] =
		"SELECT signer, expires_at FROM decisions"
		" WHERE request_id = ? AND decision = 'allow' ORDER BY id",
	[ST_LAST_CHECKPOINT] =
		"SELECT checkpoint_id, description, step FROM checkpoints"
		" WHERE session = ? ORDER BY id DESC LIMIT 1",
	[ST_FIND_OWNER] =
		"SELECT session_id, caller_id, capability, state, data_classification FROM sessions"
		" WHERE id = ?",
	[ST_LOAD_CONTINUITY] =
		"SELECT " CONTINUITY_RECORD ", " CLASS_OF("session") " FROM continuity"
		" WHERE session = (SELECT id FROM sessions WHERE session_id = ?) AND caller_id = ?"
		" AND completion IS NOT NULL",
	[ST_LOAD_RECENT] =
		"SELECT CASE WHEN " CLASS_OF("session") " <= " CLASS_OF("?1") " THEN " CONTINUITY_RECORD " END"
		" FROM continuity INDEXED BY continuity_recent"
		" WHERE caller_id = ?2 AND capability = ?3 AND label_group IS " GROUP_OF_1
		" AND closed_at IS NOT NULL ORDER BY closed_at DESC, session DESC LIMIT 1000",
	[ST_LOAD_RESULTS] =
		"SELECT " EVENT_COLUMNS " FROM events e"
		" WHERE e.id IN (SELECT id FROM events WHERE session = ? ORDER BY id DESC LIMIT ?)"
		" AND e.event_type = 'intermediate_result' ORDER BY e.id DESC",
	[ST_FIND_CALLER] =
		"SELECT id, confirmed, (SELECT max(id) FROM events WHERE caller = callers.id)"
		" FROM callers WHERE caller_id = ?",
};
/* clang-format on */

/* ---- the batch ---- */

struct value *store_add_op(struct store *s, enum statement st, unsigned count)
{
	struct batch *b = &s->batch;
	struct value *v;

	if (b->op_count == b->op_room) {
		b->op_room = b->op_room ? b->op_room * 2 : 64;
		b->ops = xrealloc(b->ops, b->op_room * sizeof *b->ops);
	}
	while (b->value_count + count > b->value_room) {
		b->value_room = b->value_room ? b->value_room * 2 : 512;
		b->values = xrealloc(b->values, b->value_room * sizeof *b->values);
	}
	b->ops[b->op_count++] = (struct op){st, (unsigned)b->value_count, count};
	v = &b->values[b->value_count];
	b->value_count += count;
	return v;
}

void store_trim_op(struct store *s, unsigned count)
{
	struct op *op = &s->batch.ops[s->batch.op_count - 1];

	assert(count <= op->count);
	op->count = count;
	s->batch.value_count = op->first + count;
}

void store_set_text(struct batch *b, struct value *v, enum value_kind kind, const char *text, size_t size)
{
	v->kind = text != NULL ? kind : V_NULL;
	v->text.at = b->arena.size;
	v->text.size = size;
	if (text != NULL)
		buf_add(&b->arena, text, size);
}

/* i: int64_t, n: int64_t where 0 is NULL, r: double, t: text or NULL, s: text and size_t, z: bytes and
 * size_t, b: blob. */
static void vadd(struct store *s, enum statement st, const char *kinds, va_list ap)
{
	struct value *v = store_add_op(s, st, (unsigned)strlen(kinds));

	for (const char *k = kinds; *k != '\0'; k++, v++) {
		const char *text;

		v->kind = V_NULL;
		switch (*k) {
		case 'i':
		case 'n':
			v->i = va_arg(ap, int64_t);
			if (*k == 'i' || v->i != 0)
				v->kind = V_INT;
			break;
		case 'r':
			v->kind = V_REAL;
			v->r = va_arg(ap, double);
			break;
		case 't':
			text = va_arg(ap, const char *);
			store_set_text(&s->batch, v, V_TEXT, text, text != NULL ? strlen(text) : 0);
			break;
		case 's':
		case 'z':
			text = va_arg(ap, const char *);
			store_set_text(&s->batch, v, *k == 'z' ? V_BYTES : V_TEXT, text, va_arg(ap, size_t));
			break;
		case 'b':
			v->kind = V_BLOB;
			v->blob = blob_ref(va_arg(ap, struct blob *));
			break;
		default: assert(false && "a kind of value");
		}
	}
}

void store_add(struct store *s, enum statement st, const char *kinds, ...)
{
	va_list ap;

	va_start(ap, kinds);
	vadd(s, st, kinds, ap);
	va_end(ap);
}

void store_clear_batch(struct batch *b)
{
	for (size_t i = 0; i < b->value_count; i++)
		if (b->values[i].kind == V_BLOB)
			blob_unref(b->values[i].blob);
	b->op_count = b->value_count = 0;
	b->keeps_keys = false;
	if (b->arena.room > 1 << 20)
		buf_fini(&b->arena); /* give the memory of one large task back */
	buf_clear(&b->arena);
}

static int bind(sqlite3_stmt *st, int n, const struct batch *b, const struct value *v)
{
	switch (v->kind) {
	case V_NULL: return sqlite3_bind_null(st, n);
	case V_INT: return sqlite3_bind_int64(st, n, v->i);
	case V_REAL: return sqlite3_bind_double(st, n, v->r);
	case V_TEXT:
		return sqlite3_bind_text64(st, n, b->arena.data != NULL ? b->arena.data + v->text.at : "",
			v->text.size, SQLITE_STATIC, SQLITE_UTF8);
	case V_BYTES:
		return sqlite3_bind_blob64(st, n, b->arena.data + v->text.at, v->text.size, SQLITE_STATIC);
	case V_BLOB:
		return sqlite3_bind_text64(st, n, v->blob->data, v->blob->size, SQLITE_STATIC, SQLITE_UTF8);
	}
	return SQLITE_MISUSE;
}

static int step(struct store *s, enum statement which)
{
	int rc;

	do {
		rc = sqlite3_step(s->st[which]);
	} while (rc == SQLITE_ROW); /* a vacuum gives one row for each page */
	sqlite3_reset(s->st[which]);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* One statement with the values of `count` operations. */
static int run_ops(struct store *s, enum statement st, const struct op *const *ops, unsigned count)
{
	int n = 0, rc;

	/* an operation without values has no list */
	for (unsigned i = 0; i < count; i++)
		for (unsigned v = 0; v < ops[i]->count; v++) {
			rc = bind(s->st[st], ++n, &s->batch, &s->batch.values[ops[i]->first + v]);
			if (rc != SQLITE_OK)
				return rc;
		}
	rc = step(s, st);
	if ((rc & 0xff) == SQLITE_CONSTRAINT) {
		/* A defect of ours: a retry would fail for ever and stop all turns. */
		log_error("store refused a row, this is a defect: statement=%d error=%s", (int)st,
			sqlite3_errmsg(s->db));
		abort();
	}
	return rc;
}

/* ---- events ---- */

/* Half of a turn's rows are events. In one statement they cost two thirds of what they cost one by one: its
 * cursors stay where the last row went. So events wait for each other within the transaction. */
enum { EVENTS_MOST = 8 };
struct events {
	const struct op *ops[EVENTS_MOST];
	unsigned count;
};

/* These neither read nor write table events, so events may come after them. */
static const bool is_apart[ST_COUNT] = {
	[ST_PUT_CALLER] = true,
	[ST_SAVE_CONFIRMED] = true,
	[ST_PUT_SESSION] = true,
	[ST_PUT_TASK] = true,
	[ST_SAVE_SESSION] = true,
	[ST_PUT_TRANSITION] = true,
	[ST_PUT_CHECKPOINT] = true,
	[ST_SAVE_NEWEST] = true,
	[ST_PRUNE_CHECKPOINTS] = true,
	[ST_PUT_OUTCOME] = true,
	[ST_DROP_OUTCOME] = true,
	[ST_PUT_SUBMIT] = true,
	[ST_PUT_AUDIT] = true,
	[ST_SAVE_AUDIT_HEAD] = true,
	[ST_CLOSE_CONTINUITY] = true,
	[ST_PUT_LABEL] = true,
};

static int run_events(struct store *s, struct events *e)
{
	int rc = SQLITE_OK;

	for (unsigned from = 0, n; rc == SQLITE_OK && from < e->count; from += n) {
		unsigned left = e->count - from;

		n = left >= 8 ? 8 : left >= 3 ? 3 : 1;
		rc = run_ops(s,
			n == 8         ? ST_PUT_8_EVENTS :
				n == 3 ? ST_PUT_3_EVENTS :
					 ST_PUT_EVENT,
			&e->ops[from], n);
	}
	e->count = 0;
	return rc;
}

static int add_event(struct store *s, struct events *e, const struct op *op)
{
	e->ops[e->count++] = op;
	return e->count == EVENTS_MOST ? run_events(s, e) : SQLITE_OK;
}

/* ---- the transaction ---- */

/* The turn's reads may have begun it: its first change takes the lock then. */
static bool is_begun(const struct store *s)
{
	return !sqlite3_get_autocommit(s->db);
}

static int run_batch(struct store *s)
{
	struct events events = {.count = 0};
	int rc = is_begun(s) ? SQLITE_OK : step(s, ST_BEGIN);

	for (size_t i = 0; rc == SQLITE_OK && i < s->batch.op_count; i++) {
		const struct op *op = &s->batch.ops[i];

		CRASH_POINT(store_mid_batch);
		if (op->st == ST_PUT_EVENT) {
			rc = add_event(s, &events, op);
			continue;
		}
		if (!is_apart[op->st])
			rc = run_events(s, &events);
		if (rc == SQLITE_OK)
			rc = run_ops(s, op->st, &op, 1);
	}
	if (rc == SQLITE_OK)
		rc = run_events(s, &events);
	CRASH_POINT(store_before_commit);
	return rc == SQLITE_OK ? step(s, ST_COMMIT) : rc;
}

static void roll_back(struct store *s)
{
	/* A full disk or an I/O error may have rolled back already. */
	if (is_begun(s) && step(s, ST_ROLLBACK) != SQLITE_OK && is_begun(s))
		log_error("store cannot roll back, this is a defect: error=%s", sqlite3_errmsg(s->db));
	else
		wal_vfs_forget(s->db);
}

/* After a read SQLite does not wait for another writer, and it refuses to write over what that one wrote. */
static int run_batch_alone(struct store *s)
{
	bool has_read = is_begun(s);
	int rc = run_batch(s);

	if (!has_read || (rc & 0xff) != SQLITE_BUSY)
		return rc;
	roll_back(s);
	return run_batch(s);
}

int store_run(struct store *s)
{
	if (!store_has_batch(s)) {
		if (is_begun(s))
			roll_back(s);
		return 0;
	}
	CRASH_POINT(store_before_begin);
	if (run_batch_alone(s) != SQLITE_OK) {
		snprintf(s->error, sizeof s->error, "%s (%d)", sqlite3_errmsg(s->db),
			sqlite3_extended_errcode(s->db));
		roll_back(s);
		return -1;
	}
	CRASH_POINT(store_after_commit);
	store_clear_batch(&s->batch);
	return 0;
}

bool store_has_batch(const struct store *s)
{
	return s->batch.op_count > 0;
}

const char *store_error(const struct store *s)
{
	return s->error;
}

/* ---- verbs that change ---- */

void store_put_caller(struct store *s, int64_t key, const char *caller_id)
{
	store_add(s, ST_PUT_CALLER, "it", key, caller_id);
}

void store_drop_caller(struct store *s, int64_t key)
{
	store_keep_keys(s);
	store_add(s, ST_DROP_CALLER, "i", key);
}

void store_keep_caller(struct store *s, int64_t key, const char *caller_id, int64_t confirmed)
{
	store_add(s, ST_KEEP_CALLER, "iti", key, caller_id, confirmed);
}

void store_save_confirmed(struct store *s, int64_t caller, int64_t event)
{
	store_add(s, ST_SAVE_CONFIRMED, "ii", caller, event);
}

void store_put_transition(struct store *s, const struct store_session *r, const char *from,
	const char *reason, const char *actor)
{
	store_add(s, ST_PUT_TRANSITION,
		"ittttt"
		"ti",
		r->key, r->session_id, from, r->state, reason, actor, r->updated_at, r->state_version);
}

void store_put_event(struct store *s, const struct store_event *e)
{
	store_add(s, ST_PUT_EVENT, "intitntb", e->id, e->session, e->session_id, e->caller, e->type,
		e->sequence, e->event_type, e->body);
}

void store_put_substitute(struct store *s, int64_t event, const char *body, size_t size)
{
	store_add(s, ST_PUT_SUBSTITUTE, "is", event, body, size);
}

void store_put_checkpoint(struct store *s, const struct store_checkpoint *c)
{
	bool is_text = c->encoding == NULL || strcmp(c->encoding, "json") == 0;

	store_add(s, ST_PUT_CHECKPOINT,
		is_text ? "titttitstt"
			  "tntti" :
			  "titttitztt"
			  "tntti",
		c->checkpoint_id, c->session, c->session_id, c->description, c->step, (int64_t)c->resumable,
		c->created_at, c->state, c->state_size, c->sha256, c->seal, is_text ? "json" : c->encoding,
		c->base, c->trigger, c->state_version,
		c->whole_size != 0 ? c->whole_size : (int64_t)c->state_size);
	if (c->resumable)
		store_add(s, ST_SAVE_NEWEST, "it", c->session, c->checkpoint_id);
	store_add(s, ST_PRUNE_CHECKPOINTS, "ii", c->session, (int64_t)STORE_CHECKPOINTS_KEPT);
}

void store_put_artifact(struct store *s, const struct store_artifact *a, const char *at)
{
	store_add(s, ST_PUT_ARTIFACT,
		"itttt"
		"t",
		a->session, a->session_id, a->name, a->type, a->path, at);
}

void store_save_artifact(
	struct store *s, int64_t session, const char *name, int64_t size_bytes, const char *sha256)
{
	store_add(s, ST_SAVE_ARTIFACT, "itit", session, name, size_bytes, sha256);
}

void store_drop_artifact(struct store *s, int64_t session, const char *name)
{
	store_add(s, ST_DROP_ARTIFACT, "it", session, name);
}

static void add_continuity(struct store *s, enum statement st, const struct store_continuity *k)
{
	store_add(s, st,
		"itttt"
		"tttitt",
		k->session, k->session_id, k->caller_id, k->capability, k->summary, k->decisions,
		k->open_questions, k->next_steps, k->checkpoint_count, k->completion, k->closed_at);
}

void store_put_continuity(struct store *s, const struct store_continuity *k)
{
	add_continuity(s, ST_PUT_CONTINUITY, k);
}

void store_close_continuity(struct store *s, const struct store_continuity *k)
{
	add_continuity(s, ST_CLOSE_CONTINUITY, k);
}

void store_put_label(struct store *s, int64_t session, const char *name, const char *value)
{
	store_add(s, ST_PUT_LABEL, "itt", session, name, value);
}

void store_retire_checkpoints(struct store *s, int64_t session)
{
	store_add(s, ST_RETIRE_CHECKPOINTS, "i", session);
	store_add(s, ST_SAVE_NEWEST, "it", session, (const char *)NULL); /* none of them is expected now */
}

void store_put_outcome(struct store *s, int64_t session, const char *json, size_t size)
{
	store_add(s, ST_PUT_OUTCOME, "is", session, json, size);
}

void store_drop_outcome(struct store *s, int64_t session)
{
	store_add(s, ST_DROP_OUTCOME, "i", session);
}

void store_put_submit(struct store *s, int64_t caller, const char *message_id, const char *at,
	int64_t session, int64_t answer)
{
	store_add(s, ST_PUT_SUBMIT, "ittnn", caller, message_id, at, session, answer);
}

void store_save_answer(struct store *s, int64_t caller, const char *message_id, int64_t answer)
{
	store_add(s, ST_SAVE_ANSWER, "iti", caller, message_id, answer);
}

void store_put_review(struct store *s, const struct store_review *r)
{
	store_add(s, ST_PUT_REVIEW,
		"tittt"
		"ttts",
		r->request_id, r->session, r->session_id, r->state, r->risk_level, r->created_at,
		r->expires_at, r->artifact_hash, r->artifact, r->artifact_size);
}

void store_save_review(struct store *s, const char *request_id, const char *state, const char *at)
{
	store_add(s, ST_SAVE_REVIEW, "ttt", request_id, state, at);
}

void store_put_decision(struct store *s, const struct store_decision *d)
{
	store_add(s, ST_PUT_DECISION,
		"tttt"
		"titt"
		"ist",
		d->request_id, d->artifact_hash, d->signer, d->nonce, d->allow ? "allow" : "deny",
		(int64_t)d->is_final, d->expires_at, d->reason, d->uid, d->text, d->text_size, d->at);
}

void store_put_snapshot(struct store *s, const struct store_snapshot *n)
{
	store_add(s, ST_PUT_SNAPSHOT,
		"itttt"
		"ti",
		n->session, n->session_id, n->snapshot_id, n->snapshot_type, n->created_at, n->sha256,
		n->event);
}

void store_drop_submits(struct store *s, int64_t after, int64_t upto, const char *before)
{
	store_add(s, ST_DROP_SUBMITS, "iit", after, upto, before);
}

void store_forget_submit(struct store *s, int64_t caller, const char *message_id, int64_t answer)
{
	store_add(s, ST_FORGET_SUBMIT, "iti", caller, message_id, answer);
}

void store_put_unroutable(struct store *s, int64_t event, int64_t caller)
{
	store_add(s, ST_PUT_UNROUTABLE, "ii", event, caller);
}

void store_drop_unroutable(struct store *s, int64_t event)
{
	store_add(s, ST_DROP_UNROUTABLE, "i", event);
}

void store_put_audit(struct store *s, int64_t n, const char *entry, size_t size, const char *hash)
{
	store_add(s, ST_PUT_AUDIT, "ist", n, entry, size, hash);
}

void store_save_audit_head(struct store *s, int64_t n, const char *hash)
{
	store_add(s, ST_SAVE_AUDIT_HEAD, "it", n, hash);
}
