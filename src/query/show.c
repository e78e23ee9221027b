/* SPDX-License-Identifier: MIT */
/* show.c: one session in full: its row, its transitions, checkpoints, artifacts and result; and the open
 * approvals.
 * Owns the queries about one session. Never shows its token. */
#include "query/query_private.h"

#include <stdio.h>
#include <string.h>

#include "store/artifact_name.h"

#define LAST_ROWS 8 /* the result comes just before session_closed, the session's last row */

typedef void add_fn(struct buf *b, const struct query_cursor *c, sqlite3_stmt *st);

/* The rows of one session behind c->row, each an object, below a name where there is one. The last column is
 * the row's number, and is not shown. add(), where there is one, adds members that are no columns. */
static int more_rows(struct query *q, struct query_cursor *c, const char *sql, const char *name, add_fn *add,
	int max_rows, query_item_fn *fn, void *ctx)
{
	sqlite3_stmt *st = query_prepare(q, sql);
	int seen = 0, rc = SQLITE_ROW, columns;
	bool is_full = false;

	if (st == NULL)
		return QUERY_UNREADABLE;
	columns = sqlite3_column_count(st) - 1;
	sqlite3_bind_int64(st, 1, c->session);
	sqlite3_bind_int64(st, 2, c->row);
	sqlite3_bind_int(st, 3, max_rows);
	while (!is_full && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		buf_clear(&q->item);
		if (name != NULL)
			buf_addf(&q->item, "{\"%s\":", name);
		buf_add_text(&q->item, "{");
		query_add_members(&q->item, st, columns);
		if (add != NULL)
			add(&q->item, c, st);
		buf_add_text(&q->item, name != NULL ? "}}" : "}");
		c->row = sqlite3_column_int64(st, columns);
		seen++;
		is_full = !query_give(q, c, fn, ctx);
	}
	if (query_finish(q, st, rc) < 0)
		return QUERY_UNREADABLE;
	return is_full || seen == max_rows ? QUERY_MORE : QUERY_DONE;
}

/* The requests that wait for a human. The artifact is a text: its bytes are what is hashed. */
int query_more_approvals(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	return more_rows(q, c,
		"SELECT r.session_id AS session_id, s.caller_id AS caller_id, s.capability AS capability,"
		" r.risk_level AS risk_level, r.request_id AS request_id, r.created_at AS created_at,"
		" r.expires_at AS expires_at,"
		" (SELECT json_group_array(signer) FROM decisions d"
		" WHERE d.request_id = r.request_id AND decision = 'allow') AS \"allowed_by#\","
		" r.artifact_hash AS artifact_hash, r.artifact AS artifact, r.id"
		" FROM reviews r JOIN sessions s ON s.id = r.session WHERE r.state = 'AWAITING_DECISION'"
		" AND (?1 = 0 OR r.session = ?1) AND r.id > ?2 ORDER BY r.id LIMIT ?3",
		NULL, NULL, max_rows, fn, ctx);
}

static void add_task(struct buf *b, const char *task, size_t size)
{
	static const char *const shown[] = {"intent", "inputs", "constraints"};

	buf_add_text(b, ",\"task\":{");
	for (size_t i = 0, count = 0; i < sizeof shown / sizeof *shown; i++) {
		struct jslice raw = jtext_member(task, size, shown[i]);

		if (raw.at == NULL)
			continue;
		buf_addf(b, "%s\"%s\":", count++ ? "," : "", shown[i]);
		query_add_raw(b, raw.at, raw.size);
	}
	buf_add_text(b, "}");
}

/* One item: the row without its token, parts of the task, counts of its messages, and the last error event
 * unless it is old. */
static int show_session(struct query *q, struct query_cursor *c, query_item_fn *fn, void *ctx)
{
	sqlite3_stmt *st = query_prepare(q,
		"SELECT s.id AS key, session_id, s.caller_id AS caller_id, capability, capability_version,"
		" state, state_version, risk_level, data_classification, priority, metadata AS \"metadata#\","
		" created_at, updated_at, started_at, deadline, max_duration_us, attempt, deaths, paused_by,"
		" recover_as, CASE state WHEN 'PENDING' THEN waits_for END AS waits_for,"
		" (SELECT expires_at FROM reviews WHERE session = s.id"
		" AND reviews.state = 'AWAITING_DECISION') AS waits_until,"
		" steps, step, checkpoints, warnings AS \"warnings#\", tokens_in, tokens_out, cost,"
		" CASE WHEN s.harp"
		" THEN (SELECT count(*) FROM events WHERE session = s.id AND type <> 'harp')"
		" ELSE (SELECT count(*) FROM events WHERE session = s.id) END AS events,"
		" coalesce((SELECT sequence FROM events WHERE session = s.id AND sequence IS NOT NULL"
		"  ORDER BY id DESC LIMIT 1), 0) AS last_sequence,"
		" (SELECT count(*) FROM events WHERE session = s.id AND id > c.confirmed AND type <> 'harp')"
		" + (SELECT count(*) FROM unroutable u JOIN events e ON e.id = u.event WHERE u.caller = c.id"
		"    AND u.event <= c.confirmed AND e.session = s.id) AS unconfirmed,"
		" (SELECT CASE WHEN json_valid(body) THEN json_extract(body, '$.payload.data') END"
		" FROM events WHERE id ="
		"  (SELECT id FROM (SELECT id, event_type FROM events WHERE session = s.id"
		" ORDER BY id DESC LIMIT 1000)"
		"   WHERE event_type = 'error' ORDER BY id DESC LIMIT 1)) AS \"last_error#\","
		" (SELECT task FROM tasks WHERE session = s.id)"
		" FROM sessions s LEFT JOIN callers c ON c.caller_id = s.caller_id WHERE s.id = ?");
	int rc, last;

	if (st == NULL)
		return QUERY_UNREADABLE;
	last = sqlite3_column_count(st) - 1;
	sqlite3_bind_int64(st, 1, c->session);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *task = (const char *)sqlite3_column_text(st, last);

		buf_clear(&q->item);
		buf_add_text(&q->item, "{\"session\":{");
		query_add_members(&q->item, st, last);
		add_task(&q->item, task != NULL ? task : "{}",
			task != NULL ? (size_t)sqlite3_column_bytes(st, last) : 2);
		buf_add_text(&q->item, "}}");
		query_give(q, c, fn, ctx);
	}
	return query_finish(q, st, rc) < 0 ? QUERY_UNREADABLE : QUERY_DONE;
}

static int show_transitions(
	struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	return more_rows(q, c,
		"SELECT from_state AS \"from\", to_state AS \"to\", reason, actor, at, state_version, id"
		" FROM transitions WHERE session = ? AND id > ? ORDER BY id LIMIT ?",
		"transition", NULL, max_rows, fn, ctx);
}

static void add_uri(struct buf *b, const struct query_cursor *c, sqlite3_stmt *st)
{
	buf_add_text(b, ",\"uri\":\"");
	artifact_add_uri(b, c->session_id, (const char *)sqlite3_column_text(st, 0));
	buf_add_text(b, "\"");
}

/* An announced file that is not stored yet has no size; it is no artifact. */
static int show_artifacts(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	return more_rows(q, c,
		"SELECT name, type, size_bytes, 'sha256:' || sha256 AS checksum, id FROM artifacts"
		" WHERE session = ? AND id > ? AND size_bytes IS NOT NULL ORDER BY id LIMIT ?",
		"artifact", add_uri, max_rows, fn, ctx);
}

/* The last message but one, which has the result; *out is its payload. 1, 0 there is none, -1 unreadable. */
static int load_result(struct query *q, const struct query_cursor *c, char type[32], struct buf *out)
{
	sqlite3_stmt *st = query_prepare(q,
		"SELECT type, body FROM"
		" (SELECT id, type, body FROM events WHERE session = ? ORDER BY id DESC LIMIT ?)"
		" WHERE type IN ('task_completed','task_failed') ORDER BY id DESC LIMIT 1");
	int rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, c->session);
	sqlite3_bind_int(st, 2, LAST_ROWS);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *body = (const char *)sqlite3_column_text(st, 1);
		struct jslice payload = jtext_member(body, (size_t)sqlite3_column_bytes(st, 1), "payload");

		snprintf(type, 32, "%s", (const char *)sqlite3_column_text(st, 0));
		if (payload.at != NULL)
			query_add_raw(out, payload.at, payload.size);
		else
			buf_add_text(out, "{}");
	}
	return query_finish(q, st, rc) < 0 ? -1 : rc == SQLITE_ROW;
}

static int show_result(struct query *q, struct query_cursor *c, query_item_fn *fn, void *ctx)
{
	struct buf payload = {0};
	char type[32];
	int found = load_result(q, c, type, &payload);

	if (found > 0) {
		buf_clear(&q->item);
		buf_addf(&q->item, "{\"result\":{\"type\":\"%s\",\"payload\":", type);
		buf_add(&q->item, payload.data, payload.size);
		buf_add_text(&q->item, "}}");
		query_give(q, c, fn, ctx);
	}
	buf_fini(&payload);
	return found < 0 ? QUERY_UNREADABLE : QUERY_DONE;
}

/* The record for the next session; before the end, what the worker has reported so far. */
static int show_continuity(
	struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	return more_rows(q, c,
		"SELECT summary, decisions AS \"decisions#\", open_questions AS \"open_questions#\","
		" next_steps AS \"next_steps#\", checkpoint_count, completion, closed_at, session"
		" FROM continuity WHERE session = ? AND session > ? LIMIT ?",
		"continuity", NULL, max_rows, fn, ctx);
}

enum {
	PART_SESSION,
	PART_TRANSITIONS,
	PART_CHECKPOINTS,
	PART_ARTIFACTS,
	PART_RESULT,
	PART_CONTINUITY,
	PARTS
};

int query_more_show(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	int rc = QUERY_DONE;

	switch (c->part) {
	case PART_SESSION: rc = show_session(q, c, fn, ctx); break;
	case PART_TRANSITIONS: rc = show_transitions(q, c, max_rows, fn, ctx); break;
	case PART_CHECKPOINTS: rc = query_more_checkpoints(q, c, "checkpoint", max_rows, fn, ctx); break;
	case PART_ARTIFACTS: rc = show_artifacts(q, c, max_rows, fn, ctx); break;
	case PART_RESULT: rc = show_result(q, c, fn, ctx); break;
	case PART_CONTINUITY: rc = show_continuity(q, c, max_rows, fn, ctx); break;
	default: return QUERY_DONE;
	}
	if (rc != QUERY_DONE)
		return rc;
	c->part++;
	c->row = 0;
	return c->part < PARTS ? QUERY_MORE : QUERY_DONE;
}
