/* store.c: the batch, the transaction, and every SQL statement.
 * Owns the database; the only includer of sqlite3.h. Never decides what is stored, never releases an
 * effect (core.c does, after store_run said 0). */
#include "store.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <sqlite3.h>

#include "crash.h"
#include "log.h"
#include "schema.h"

#define APPLICATION_ID 0x68637064       /* "hcpd" */
#define CACHE_KIB 2048

enum statement {
	/* changes: in the batch */
	ST_PUT_CALLER, ST_SAVE_CONFIRMED, ST_PUT_SESSION, ST_PUT_TASK, ST_SAVE_SESSION, ST_PUT_TRANSITION,
	ST_PUT_EVENT, ST_PUT_SUBSTITUTE, ST_PUT_CHECKPOINT, ST_PRUNE_CHECKPOINTS, ST_PUT_OUTCOME, ST_DROP_OUTCOME,
	ST_PUT_SUBMIT, ST_DROP_SUBMITS, ST_PUT_UNROUTABLE, ST_DROP_UNROUTABLE,
	/* the transaction */
	ST_BEGIN, ST_COMMIT, ST_ROLLBACK,
	/* reads */
	ST_FIND_ANSWER, ST_FIND_SESSION, ST_LOAD_TASK, ST_LOAD_OUTCOME, ST_NEXT_CHECKPOINT, ST_LOAD_CHECKPOINT, ST_LOAD_CALLERS,
	ST_LOAD_LIVE, ST_LOAD_BACKLOG, ST_LOAD_EVENTS, ST_LOAD_UNROUTABLE, ST_LOAD_EVENT, ST_LAST_SUBMIT,
	ST_FIND_CALLER, ST_FIND_OLD_SUBMIT, ST_LOOK,
	ST_COUNT
};

#define EVENT_COLUMNS \
	"e.id, e.session, e.session_id, e.caller, e.type, e.sequence, e.event_type, coalesce(e.substitute, e.body)"

#define OLD_SUBMITS \
	"id > ?1 AND id <= ?2 AND received_at < ?3 AND (session IS NULL OR NOT EXISTS" \
	" (SELECT 1 FROM sessions WHERE sessions.id = submits.session" \
	"  AND state IN ('PENDING','RUNNING','PAUSED','ABORTING')))"

static const char *const sql[ST_COUNT] = {
	[ST_PUT_CALLER] = "INSERT INTO callers (id, caller_id) VALUES (?,?)",
	[ST_SAVE_CONFIRMED] = "UPDATE callers SET confirmed = ?2 WHERE id = ?1",
	[ST_PUT_SESSION] =
		"INSERT INTO sessions (id, session_id, caller_id, capability, capability_version, state, state_version,"
		" risk_level, data_classification, priority, session_token, metadata, created_at, updated_at,"
		" max_duration_us, attempt, steps, checkpoints, warnings, tokens_in, tokens_out, cost)"
		" VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,0,'[]',0,0,0.0)",
	[ST_PUT_TASK] = "INSERT INTO tasks VALUES (?,?)",
	[ST_SAVE_SESSION] =
		"UPDATE sessions SET state = ?2, state_version = ?3, updated_at = ?4, started_at = ?5, deadline = ?6,"
		" attempt = ?7, paused_by = ?8, steps = ?9, step = ?10, checkpoints = ?11, warnings = ?12,"
		" tokens_in = ?13, tokens_out = ?14, cost = ?15 WHERE id = ?1",
	[ST_PUT_TRANSITION] =
		"INSERT INTO transitions (session, session_id, from_state, to_state, reason, actor, at, state_version)"
		" VALUES (?,?,?,?,?,?,?,?)",
	[ST_PUT_EVENT] =
		"INSERT INTO events (id, session, session_id, caller, type, sequence, event_type, body)"
		" VALUES (?,?,?,?,?,?,?,?)",
	[ST_PUT_SUBSTITUTE] = "UPDATE events SET substitute = ?2 WHERE id = ?1",
	[ST_PUT_CHECKPOINT] =
		"INSERT INTO checkpoints (checkpoint_id, session, session_id, description, step, resumable, created_at, state,"
		" sha256) VALUES (?,?,?,?,?,?,?,?,?)",
	[ST_PRUNE_CHECKPOINTS] =
		"DELETE FROM checkpoints WHERE session = ?1"
		" AND id NOT IN (SELECT id FROM checkpoints WHERE session = ?1 ORDER BY id DESC LIMIT ?2)"
		" AND id NOT IN (SELECT id FROM checkpoints WHERE session = ?1 AND resumable ORDER BY id DESC LIMIT ?2)",
	[ST_PUT_OUTCOME] = "INSERT INTO outcomes VALUES (?,?)",
	[ST_DROP_OUTCOME] = "DELETE FROM outcomes WHERE session = ?",
	[ST_PUT_SUBMIT] = "INSERT INTO submits (caller, message_id, received_at, session, answer) VALUES (?,?,?,?,?)",
	[ST_DROP_SUBMITS] = "DELETE FROM submits WHERE " OLD_SUBMITS,
	[ST_PUT_UNROUTABLE] = "INSERT OR IGNORE INTO unroutable VALUES (?,?)",
	[ST_DROP_UNROUTABLE] = "DELETE FROM unroutable WHERE event = ?",
	[ST_BEGIN] = "BEGIN IMMEDIATE",
	[ST_COMMIT] = "COMMIT",
	[ST_ROLLBACK] = "ROLLBACK",
	[ST_FIND_ANSWER] = "SELECT answer FROM submits WHERE caller = ? AND message_id = ?",
	[ST_FIND_SESSION] = "SELECT state FROM sessions WHERE session_id = ?",
	[ST_LOAD_TASK] = "SELECT task FROM tasks WHERE session = ?",
	[ST_LOAD_OUTCOME] = "SELECT outcome FROM outcomes WHERE session = ?",
	[ST_NEXT_CHECKPOINT] = "SELECT max(id) FROM checkpoints WHERE session = ? AND resumable AND id < ?",
	[ST_LOAD_CHECKPOINT] = "SELECT checkpoint_id, step, state, sha256 FROM checkpoints WHERE id = ?",
	[ST_LOAD_CALLERS] =
		"SELECT id, caller_id, confirmed, (SELECT max(id) FROM events WHERE caller = callers.id),"
		" (SELECT min(event) FROM unroutable WHERE caller = callers.id) FROM callers ORDER BY id",
	[ST_LOAD_LIVE] =
		"SELECT id, session_id, caller_id, capability, capability_version, state, state_version, risk_level,"
		" data_classification, priority, session_token, NULL, created_at, updated_at, started_at, deadline,"
		" max_duration_us, attempt, paused_by, steps, step, checkpoints, warnings, tokens_in, tokens_out, cost,"
		" (SELECT max(sequence) FROM events WHERE session = sessions.id)"
		" FROM sessions WHERE state IN ('PENDING','RUNNING','PAUSED','ABORTING') ORDER BY id",
	[ST_LOAD_BACKLOG] =
		"SELECT session, sum(length(CAST(coalesce(substitute, body) AS BLOB))) FROM events WHERE caller = ? AND id > ?"
		" AND id NOT IN (SELECT event FROM unroutable) GROUP BY session",
	[ST_LOAD_EVENTS] =
		"SELECT " EVENT_COLUMNS " FROM events e WHERE e.caller = ? AND e.id > ?"
		" AND e.id NOT IN (SELECT event FROM unroutable) ORDER BY e.id LIMIT ?",
	[ST_LOAD_UNROUTABLE] =
		"SELECT " EVENT_COLUMNS " FROM unroutable u JOIN events e ON e.id = u.event"
		" WHERE u.caller = ? AND u.event > ? ORDER BY u.event LIMIT ?",
	[ST_LOAD_EVENT] = "SELECT " EVENT_COLUMNS " FROM events e WHERE e.id = ?",
	[ST_LAST_SUBMIT] = "SELECT max(id) FROM submits",
	[ST_LOOK] = "SELECT (SELECT max(id) FROM sessions), (SELECT max(id) FROM events), (SELECT max(id) FROM submits),"
		" (SELECT max(id) FROM callers), (SELECT max(session) FROM tasks), (SELECT max(id) FROM checkpoints)",
	[ST_FIND_OLD_SUBMIT] = "SELECT 1 FROM submits WHERE " OLD_SUBMITS " LIMIT 1",
	[ST_FIND_CALLER] =
		"SELECT id, confirmed, (SELECT max(id) FROM events WHERE caller = callers.id) FROM callers WHERE caller_id = ?",
};

/* One changed row to be: a statement and its values. Texts stand in the batch's arena, bodies are shared. */
enum value_kind { V_NULL, V_INT, V_REAL, V_TEXT, V_BLOB };
struct value {
	enum value_kind kind;
	union {
		int64_t i;
		double r;
		struct { size_t at, size; } text;
		struct blob *blob;
	};
};
struct op {
	enum statement st;
	unsigned first, count;          /* values */
};
struct batch {
	struct op *ops;
	size_t op_count, op_room;
	struct value *values;
	size_t value_count, value_room;
	struct buf arena;
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *st[ST_COUNT];
	struct batch batch;
	char instance[ID_SIZE];
	int64_t last_session, last_event, last_caller;
	char error[256];
	bool is_damaged;                /* the last error was */
};

/* ---- the batch ---- */

/* i: int64_t, n: int64_t where 0 is NULL, r: double, t: text or NULL, s: text and size_t, b: blob. */
static void add(struct store *s, enum statement st, const char *kinds, ...)
{
	struct batch *b = &s->batch;
	unsigned count = (unsigned)strlen(kinds);
	struct op *op;
	va_list ap;

	if (b->op_count == b->op_room) {
		b->op_room = b->op_room ? b->op_room * 2 : 64;
		b->ops = xrealloc(b->ops, b->op_room * sizeof *b->ops);
	}
	while (b->value_count + count > b->value_room) {
		b->value_room = b->value_room ? b->value_room * 2 : 512;
		b->values = xrealloc(b->values, b->value_room * sizeof *b->values);
	}
	op = &b->ops[b->op_count++];
	*op = (struct op){st, (unsigned)b->value_count, count};
	va_start(ap, kinds);
	for (const char *k = kinds; *k != '\0'; k++) {
		struct value *v = &b->values[b->value_count++];
		const char *text;

		v->kind = V_NULL;
		switch (*k) {
		case 'i': case 'n':
			v->i = va_arg(ap, int64_t);
			if (*k == 'i' || v->i != 0)
				v->kind = V_INT;
			break;
		case 'r':
			v->kind = V_REAL;
			v->r = va_arg(ap, double);
			break;
		case 't': case 's':
			text = va_arg(ap, const char *);
			v->text.size = *k == 's' ? va_arg(ap, size_t) : text != NULL ? strlen(text) : 0;
			v->text.at = b->arena.size;
			if (text != NULL) {
				v->kind = V_TEXT;
				buf_add(&b->arena, text, v->text.size);
			}
			break;
		case 'b':
			v->kind = V_BLOB;
			v->blob = blob_ref(va_arg(ap, struct blob *));
			break;
		default:
			assert(false && "a kind of value");
		}
	}
	va_end(ap);
}

static void batch_clear(struct batch *b)
{
	for (size_t i = 0; i < b->value_count; i++)
		if (b->values[i].kind == V_BLOB)
			blob_unref(b->values[i].blob);
	b->op_count = b->value_count = 0;
	if (b->arena.room > 1 << 20)
		buf_fini(&b->arena);    /* one large task must not be paid for ever */
	buf_clear(&b->arena);
}

static int bind(sqlite3_stmt *st, int n, const struct batch *b, const struct value *v)
{
	switch (v->kind) {
	case V_NULL: return sqlite3_bind_null(st, n);
	case V_INT:  return sqlite3_bind_int64(st, n, v->i);
	case V_REAL: return sqlite3_bind_double(st, n, v->r);
	case V_TEXT:
		return sqlite3_bind_text64(st, n, b->arena.data != NULL ? b->arena.data + v->text.at : "", v->text.size,
			SQLITE_STATIC, SQLITE_UTF8);
	case V_BLOB:
		return sqlite3_bind_text64(st, n, v->blob->data, v->blob->size, SQLITE_STATIC, SQLITE_UTF8);
	}
	return SQLITE_MISUSE;
}

static int step(struct store *s, enum statement which)
{
	int rc = sqlite3_step(s->st[which]);

	sqlite3_reset(s->st[which]);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int run_op(struct store *s, const struct op *op)
{
	const struct value *v = &s->batch.values[op->first];

	for (unsigned i = 0; i < op->count; i++) {
		int rc = bind(s->st[op->st], (int)i + 1, &s->batch, &v[i]);

		if (rc != SQLITE_OK)
			return rc;
	}
	return step(s, op->st);
}

static int run_batch(struct store *s)
{
	int rc = step(s, ST_BEGIN);

	for (size_t i = 0; rc == SQLITE_OK && i < s->batch.op_count; i++) {
		CRASH_POINT(store_mid_batch);
		rc = run_op(s, &s->batch.ops[i]);
		if ((rc & 0xff) == SQLITE_CONSTRAINT) {
			/* Our own contradiction: to try it again would hold up everything for ever. */
			log_error("store refused a row, this is a defect: statement=%d error=%s", (int)s->batch.ops[i].st,
				sqlite3_errmsg(s->db));
			abort();
		}
	}
	CRASH_POINT(store_before_commit);
	return rc == SQLITE_OK ? step(s, ST_COMMIT) : rc;
}

int store_run(struct store *s)
{
	if (!store_has_batch(s))
		return 0;
	CRASH_POINT(store_before_begin);
	if (run_batch(s) != SQLITE_OK) {
		snprintf(s->error, sizeof s->error, "%s (%d)", sqlite3_errmsg(s->db), sqlite3_extended_errcode(s->db));
		/* A full disk or an I/O error may have rolled back already. */
		if (!sqlite3_get_autocommit(s->db) && step(s, ST_ROLLBACK) != SQLITE_OK && !sqlite3_get_autocommit(s->db))
			log_error("store cannot roll back, this is a defect: error=%s", sqlite3_errmsg(s->db));
		return -1;
	}
	CRASH_POINT(store_after_commit);
	batch_clear(&s->batch);
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
	add(s, ST_PUT_CALLER, "it", key, caller_id);
}

void store_save_confirmed(struct store *s, int64_t caller, int64_t event)
{
	add(s, ST_SAVE_CONFIRMED, "ii", caller, event);
}

void store_put_session(struct store *s, const struct store_session *r, const char *task, size_t task_size)
{
	add(s, ST_PUT_SESSION, "ittttti" "ttt" "tttt" "ii", r->key, r->session_id, r->caller_id, r->capability,
		r->capability_version, r->state, r->state_version, r->risk_level, r->data_classification, r->priority,
		r->session_token, r->metadata, r->created_at, r->updated_at, r->max_duration_us, r->attempt);
	add(s, ST_PUT_TASK, "is", r->key, task, task_size);
}

void store_save_session(struct store *s, const struct store_session *r)
{
	add(s, ST_SAVE_SESSION, "itittt" "ititit" "iir", r->key, r->state, r->state_version, r->updated_at,
		r->started_at, r->deadline, r->attempt, r->paused_by, r->steps, r->step, r->checkpoints, r->warnings,
		r->tokens_in, r->tokens_out, r->cost);
}

void store_put_transition(struct store *s, const struct store_session *r, const char *from, const char *reason,
	const char *actor)
{
	add(s, ST_PUT_TRANSITION, "ittttt" "ti", r->key, r->session_id, from, r->state, reason, actor, r->updated_at,
		r->state_version);
}

void store_put_event(struct store *s, const struct store_event *e)
{
	add(s, ST_PUT_EVENT, "intitntb", e->id, e->session, e->session_id, e->caller, e->type, e->sequence,
		e->event_type, e->body);
}

void store_put_substitute(struct store *s, int64_t event, const char *body, size_t size)
{
	add(s, ST_PUT_SUBSTITUTE, "is", event, body, size);
}

void store_put_checkpoint(struct store *s, const struct store_checkpoint *c)
{
	add(s, ST_PUT_CHECKPOINT, "titttitst", c->checkpoint_id, c->session, c->session_id, c->description, c->step,
		(int64_t)c->resumable, c->created_at, c->state, c->state_size, c->sha256);
	add(s, ST_PRUNE_CHECKPOINTS, "ii", c->session, (int64_t)STORE_CHECKPOINTS_KEPT);
}

void store_put_outcome(struct store *s, int64_t session, const char *json, size_t size)
{
	add(s, ST_PUT_OUTCOME, "is", session, json, size);
}

void store_drop_outcome(struct store *s, int64_t session)
{
	add(s, ST_DROP_OUTCOME, "i", session);
}

void store_put_submit(struct store *s, int64_t caller, const char *message_id, const char *at, int64_t session,
	int64_t answer)
{
	add(s, ST_PUT_SUBMIT, "ittnn", caller, message_id, at, session, answer);
}

void store_drop_submits(struct store *s, int64_t after, int64_t upto, const char *before)
{
	add(s, ST_DROP_SUBMITS, "iit", after, upto, before);
}

void store_put_unroutable(struct store *s, int64_t event, int64_t caller)
{
	add(s, ST_PUT_UNROUTABLE, "ii", event, caller);
}

void store_drop_unroutable(struct store *s, int64_t event)
{
	add(s, ST_DROP_UNROUTABLE, "i", event);
}

/* ---- reading ---- */

static const char *text(sqlite3_stmt *st, int n)
{
	return (const char *)sqlite3_column_text(st, n);
}

static int finish(struct store *s, sqlite3_stmt *st, int rc)
{
	sqlite3_reset(st);
	if (rc == SQLITE_DONE || rc == SQLITE_ROW)
		return 0;
	s->is_damaged = (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
	snprintf(s->error, sizeof s->error, "%s (%d)", sqlite3_errmsg(s->db), sqlite3_extended_errcode(s->db));
	return -1;
}

/* To SQLite a page that the disk would not read is malformed. What really is, is so the second time too: only then may
 * anybody give up on it. */
static int step_row(sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	if ((rc & 0xff) != SQLITE_CORRUPT)
		return rc;
	sqlite3_reset(st);
	return sqlite3_step(st);
}

int64_t store_find_answer(struct store *s, int64_t caller, const char *message_id)
{
	sqlite3_stmt *st = s->st[ST_FIND_ANSWER];
	int64_t answer = STORE_UNSEEN;
	int rc;

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_text(st, 2, message_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW)
		answer = sqlite3_column_int64(st, 0);
	return finish(s, st, rc) < 0 ? STORE_UNREADABLE : answer;
}

/* The answer of a query for one row, whose columns were taken already where it is SQLITE_ROW. */
static int one_row(struct store *s, sqlite3_stmt *st, int rc)
{
	return finish(s, st, rc) < 0 ? -1 : rc == SQLITE_ROW;
}

int store_find_caller(struct store *s, const char *caller_id, int64_t *key, int64_t *confirmed, int64_t *last_event)
{
	sqlite3_stmt *st = s->st[ST_FIND_CALLER];
	int rc;

	sqlite3_bind_text(st, 1, caller_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		*key = sqlite3_column_int64(st, 0);
		*confirmed = sqlite3_column_int64(st, 1);
		*last_event = sqlite3_column_int64(st, 2);
	}
	return one_row(s, st, rc);
}

int store_find_session(struct store *s, const char *session_id, char state[16])
{
	sqlite3_stmt *st = s->st[ST_FIND_SESSION];
	int rc;

	sqlite3_bind_text(st, 1, session_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW)
		snprintf(state, 16, "%s", text(st, 0));
	return one_row(s, st, rc);
}

static int load_text(struct store *s, enum statement which, int64_t key, struct buf *out)
{
	sqlite3_stmt *st = s->st[which];
	int rc;

	sqlite3_bind_int64(st, 1, key);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		const char *t = text(st, 0);

		buf_add(out, t, (size_t)sqlite3_column_bytes(st, 0));
	}
	return one_row(s, st, rc);
}

int store_load_task(struct store *s, int64_t session, struct buf *out)
{
	return load_text(s, ST_LOAD_TASK, session, out);
}

int store_load_outcome(struct store *s, int64_t session, struct buf *out)
{
	return load_text(s, ST_LOAD_OUTCOME, session, out);
}

int64_t store_next_checkpoint(struct store *s, int64_t session, int64_t before)
{
	sqlite3_stmt *st = s->st[ST_NEXT_CHECKPOINT];
	int64_t row = 0;
	int rc;

	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_int64(st, 2, before);
	if ((rc = step_row(st)) == SQLITE_ROW)
		row = sqlite3_column_int64(st, 0);      /* NULL where there is none: 0 */
	return one_row(s, st, rc) < 0 ? -1 : row;
}

int store_load_checkpoint(struct store *s, int64_t row, char checkpoint_id[ID_SIZE], struct buf *step_json,
	struct buf *state, char hash[65])
{
	sqlite3_stmt *st = s->st[ST_LOAD_CHECKPOINT];
	int rc;

	sqlite3_bind_int64(st, 1, row);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		const char *bytes = text(st, 2);

		snprintf(checkpoint_id, ID_SIZE, "%s", text(st, 0));
		buf_add_text(step_json, sqlite3_column_type(st, 1) != SQLITE_NULL ? text(st, 1) : "null");
		buf_add(state, bytes, (size_t)sqlite3_column_bytes(st, 2));
		snprintf(hash, 65, "%s", sqlite3_column_type(st, 3) != SQLITE_NULL ? text(st, 3) : "");
	}
	return one_row(s, st, rc);
}

int store_load_callers(struct store *s, store_caller_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_CALLERS];
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		fn(ctx, sqlite3_column_int64(st, 0), text(st, 1), sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3),
			sqlite3_column_int64(st, 4));
	return finish(s, st, rc);
}

int store_load_live(struct store *s, store_session_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_LIVE];
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const struct store_session row = {
			.key = sqlite3_column_int64(st, 0), .session_id = text(st, 1), .caller_id = text(st, 2),
			.capability = text(st, 3), .capability_version = text(st, 4), .state = text(st, 5),
			.state_version = sqlite3_column_int64(st, 6), .risk_level = text(st, 7),
			.data_classification = text(st, 8), .priority = text(st, 9), .session_token = text(st, 10),
			.created_at = text(st, 12), .updated_at = text(st, 13),
			.started_at = text(st, 14), .deadline = text(st, 15), .max_duration_us = sqlite3_column_int64(st, 16),
			.attempt = sqlite3_column_int64(st, 17), .paused_by = text(st, 18),
			.steps = sqlite3_column_int64(st, 19), .step = text(st, 20), .checkpoints = sqlite3_column_int64(st, 21),
			.warnings = text(st, 22), .tokens_in = sqlite3_column_int64(st, 23),
			.tokens_out = sqlite3_column_int64(st, 24), .cost = sqlite3_column_double(st, 25),
			.sequence = sqlite3_column_int64(st, 26),
		};

		fn(ctx, &row);
	}
	return finish(s, st, rc);
}

int store_load_backlog(struct store *s, int64_t caller, int64_t after, store_backlog_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_BACKLOG];
	int rc;

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_int64(st, 2, after);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		fn(ctx, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1));
	return finish(s, st, rc);
}

static int load_events(struct store *s, sqlite3_stmt *st, store_event_fn *fn, void *ctx)
{
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct store_event e = {
			.id = sqlite3_column_int64(st, 0), .session = sqlite3_column_int64(st, 1), .session_id = text(st, 2),
			.caller = sqlite3_column_int64(st, 3), .type = text(st, 4), .sequence = sqlite3_column_int64(st, 5),
			.event_type = text(st, 6), .bytes = text(st, 7),
		};

		e.size = (size_t)sqlite3_column_bytes(st, 7);
		if (!fn(ctx, &e))
			break;
	}
	return finish(s, st, rc);
}

int store_load_events(struct store *s, int64_t caller, int64_t after, int limit, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_EVENTS];

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_int64(st, 2, after);
	sqlite3_bind_int(st, 3, limit);
	return load_events(s, st, fn, ctx);
}

int store_load_unroutable(struct store *s, int64_t caller, int64_t after, int limit, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_UNROUTABLE];

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_int64(st, 2, after);
	sqlite3_bind_int(st, 3, limit);
	return load_events(s, st, fn, ctx);
}

int store_load_event(struct store *s, int64_t id, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_EVENT];

	sqlite3_bind_int64(st, 1, id);
	return load_events(s, st, fn, ctx);
}

bool store_has_old_submits(struct store *s, int64_t after, int64_t upto, const char *before)
{
	sqlite3_stmt *st = s->st[ST_FIND_OLD_SUBMIT];
	bool found;

	sqlite3_bind_int64(st, 1, after);
	sqlite3_bind_int64(st, 2, upto);
	sqlite3_bind_text(st, 3, before, -1, SQLITE_STATIC);
	found = sqlite3_step(st) == SQLITE_ROW;
	sqlite3_reset(st);
	return found;
}

bool store_is_damaged(const struct store *s)
{
	return s->is_damaged;
}

bool store_is_readable(struct store *s)
{
	return one_row(s, s->st[ST_LOOK], sqlite3_step(s->st[ST_LOOK])) == 1;
}

int64_t store_last_submit(struct store *s)
{
	sqlite3_stmt *st = s->st[ST_LAST_SUBMIT];
	int64_t id = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;

	sqlite3_reset(st);
	return id;
}

/* ---- life ---- */

/* Somebody else who writes is waited for by the hold, not by the loop. At the start it is different: after a crash the
 * first who opens the file, be it a reader, brings its log in order under a lock. SQLite does not wait for that in all
 * cases, so the whole of it is tried again. */
#define BUSY_MS 50
#define START_TRIES 100

static int exec(struct store *s, const char *text_sql)
{
	return sqlite3_exec(s->db, text_sql, NULL, NULL, NULL);
}

static int64_t ask(struct store *s, const char *question, int64_t otherwise)
{
	sqlite3_stmt *st;
	int64_t answer = otherwise;

	if (sqlite3_prepare_v2(s->db, question, -1, &st, NULL) != SQLITE_OK)
		return otherwise;
	if (sqlite3_step(st) == SQLITE_ROW)
		answer = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return answer;
}

/* Each step commits with its version number, so a crash in between repeats nothing. */
static int migrate(struct store *s, int from)
{
	char set[64];

	for (int v = from; v < schema_version; v++) {
		CRASH_POINT(store_before_migration);
		snprintf(set, sizeof set, "PRAGMA user_version = %d", v + 1);
		if (exec(s, "BEGIN IMMEDIATE") != SQLITE_OK || exec(s, schema_steps[v]) != SQLITE_OK
			|| exec(s, set) != SQLITE_OK || exec(s, "COMMIT") != SQLITE_OK) {
			snprintf(s->error, sizeof s->error, "%s", sqlite3_errmsg(s->db));
			exec(s, "ROLLBACK");
			return -1;
		}
		CRASH_POINT(store_migrated);
		if (from > 0)
			log_info("store migrated: schema=%d", v + 1);
	}
	return 0;
}

static int load_instance(struct store *s)
{
	char insert[128];
	sqlite3_stmt *st;
	int rc;

	if (sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key = 'instance'", -1, &st, NULL) != SQLITE_OK)
		return -1;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		snprintf(s->instance, sizeof s->instance, "%s", text(st, 0));
	sqlite3_finalize(st);
	if (rc != SQLITE_DONE)
		return rc == SQLITE_ROW ? 0 : -1;
	id_make(s->instance);
	CRASH_POINT(store_before_instance);
	snprintf(insert, sizeof insert, "INSERT INTO meta VALUES ('instance', '%s')", s->instance);
	return exec(s, insert) == SQLITE_OK ? 0 : -1;
}

static int prepare_all(struct store *s)
{
	for (int i = 0; i < ST_COUNT; i++)
		if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->st[i], NULL) != SQLITE_OK)
			return -1;
	return 0;
}

static int unusable(struct store *s)
{
	snprintf(s->error, sizeof s->error, "cannot be used: %s", s->db != NULL ? sqlite3_errmsg(s->db) : "out of memory");
	switch (s->db != NULL ? sqlite3_errcode(s->db) & 0xff : SQLITE_NOMEM) {
	case SQLITE_NOTADB: case SQLITE_CORRUPT: case SQLITE_ERROR: return EX_DATAERR;
	case SQLITE_CANTOPEN: case SQLITE_READONLY: case SQLITE_PERM: return EX_CANTCREAT;
	default: return EX_IOERR;
	}
}

/* A file that is not ours, or too new, is left as it is: looked at read-only, before any pragma. */
static int look(struct store *s, const char *path)
{
	int64_t version, application, tables;

	if (access(path, F_OK) != 0)
		return EX_OK;           /* to be made */
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		return unusable(s);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	version = ask(s, "PRAGMA user_version", -1);
	if (version < 0 && (sqlite3_errcode(s->db) & 0xff) == SQLITE_READONLY) {
		/* A crash left a journal, and only a writer can bring back what was before it. */
		sqlite3_close(s->db);
		if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
			return unusable(s);
		sqlite3_busy_timeout(s->db, BUSY_MS);
		version = ask(s, "PRAGMA user_version", -1);
	}
	/* No further question after one that failed: it would take the reason away. */
	application = version < 0 ? -1 : ask(s, "PRAGMA application_id", -1);
	tables = application < 0 ? -1 : ask(s, "SELECT count(*) FROM sqlite_schema", -1);
	if (tables < 0)
		return unusable(s);
	if (application != APPLICATION_ID && (version != 0 || tables != 0)) {
		snprintf(s->error, sizeof s->error, "is a database, but not one of hcpd; name another state_dir");
		return EX_CONFIG;
	}
	if (version > schema_version) {
		snprintf(s->error, sizeof s->error, "has schema %lld, and this hcpd knows %d at most; run the newer hcpd that "
			"made it, or name another state_dir", (long long)version, schema_version);
		return EX_CONFIG;
	}
	sqlite3_close(s->db);
	s->db = NULL;
	return EX_OK;
}

/* Returns a sysexits code; the sentence is in s->error. */
static int open_database(struct store *s, const char *path)
{
	char pragmas[320];
	int64_t version;
	int code = look(s, path);

	if (code != EX_OK)
		return code;
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
		return unusable(s);
	CRASH_POINT(store_file_open);
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	/* auto_vacuum takes effect only before the first table. */
	snprintf(pragmas, sizeof pragmas,
		"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
		"PRAGMA cache_size = -%d; PRAGMA journal_size_limit = 16777216; PRAGMA temp_store = MEMORY;"
		"PRAGMA application_id = %d;", CACHE_KIB, APPLICATION_ID);
	if (exec(s, pragmas) != SQLITE_OK)
		return unusable(s);
	CRASH_POINT(store_pragmas_set);
	if ((version = ask(s, "PRAGMA user_version", -1)) < 0)
		return unusable(s);
	if (migrate(s, (int)version) < 0)
		return EX_IOERR;
	if (prepare_all(s) < 0 || load_instance(s) < 0)
		return unusable(s);
	CRASH_POINT(store_instance_made);
	/* A table without rows says 0; to take a failed read for that would give keys out a second time. */
	s->last_session = ask(s, "SELECT max(id) FROM sessions", -1);
	s->last_event = s->last_session < 0 ? -1 : ask(s, "SELECT max(id) FROM events", -1);
	s->last_caller = s->last_event < 0 ? -1 : ask(s, "SELECT max(id) FROM callers", -1);
	return s->last_caller < 0 ? unusable(s) : EX_OK;
}

static bool is_busy(struct store *s)
{
	int code = s->db != NULL ? sqlite3_errcode(s->db) & 0xff : SQLITE_OK;

	return code == SQLITE_BUSY || code == SQLITE_LOCKED;
}

int store_open(const char *dir, struct store **out, char *why, size_t why_size)
{
	char path[4096];
	int code = EX_OK;

	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	for (int tries = START_TRIES; tries > 0; tries--) {
		struct store *s = xcalloc(1, sizeof *s);

		code = open_database(s, path);
		if (code == EX_OK) {
			*out = s;
			return EX_OK;
		}
		if (!is_busy(s))
			tries = 1;
		snprintf(why, why_size, "%s %s", path, s->error);
		store_close(s);
		if (tries > 1)
			usleep(BUSY_MS * 1000);
	}
	return code;
}

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	for (int i = 0; i < ST_COUNT; i++)
		sqlite3_finalize(s->st[i]);
	sqlite3_close(s->db);
	batch_clear(&s->batch);
	buf_fini(&s->batch.arena);
	free(s->batch.ops);
	free(s->batch.values);
	free(s);
}

const char *store_instance(const struct store *s)
{
	return s->instance;
}

int64_t store_last_session(const struct store *s)
{
	return s->last_session;
}

int64_t store_last_event(const struct store *s)
{
	return s->last_event;
}

int64_t store_last_caller(const struct store *s)
{
	return s->last_caller;
}
