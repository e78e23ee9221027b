/* SPDX-License-Identifier: MIT */
/* rows.c: rows to items, a slice at a time: query_more for every verb; list, events and log themselves.
 * Owns how a row is written as JSON, and the queries that may go over many rows. Never keeps a statement
 * beyond the slice: an open one keeps the store's log from being reset. */
#include "query/query_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/migrations.h"

/* How many keys one statement of a list checks, however few its filter accepts: bounded time, 25 ms for
 * 100,000 rows in memory. */
#define LIST_WINDOW 16384
#define SECRET "\"***\""

/* ---- JSON out of a row ---- */

void query_add_raw(struct buf *b, const char *json, size_t size)
{
	if (memchr(json, '\n', size) != NULL)
		jtext_add_minified(b, json, size); /* an item is one line */
	else
		buf_add(b, json, size);
}

/* Stored rows are not trusted: a column whose text is no JSON is written as null, so that the whole item can
 * still be read. */
static void add_json_column(struct buf *b, const char *text, size_t size)
{
	char why[64];
	json_t *value = jtext_parse(text, size, why, sizeof why);

	if (value != NULL)
		query_add_raw(b, text, size);
	else
		buf_add_text(b, "null");
	json_decref(value);
}

static void add_value(struct buf *b, sqlite3_stmt *st, int n, char kind)
{
	const char *text;
	double real;

	switch (sqlite3_column_type(st, n)) {
	case SQLITE_INTEGER:
		if (kind == '?')
			buf_add_text(b, sqlite3_column_int64(st, n) ? "true" : "false");
		else
			buf_add_int(b, sqlite3_column_int64(st, n));
		break;
	case SQLITE_FLOAT:
		real = sqlite3_column_double(st, n);
		buf_addf(b, isfinite(real) ? "%.15g" : "null", real);
		break;
	case SQLITE_NULL: buf_add_text(b, "null"); break;
	default:
		text = (const char *)sqlite3_column_text(st, n);
		if (kind == '#')
			add_json_column(b, text, (size_t)sqlite3_column_bytes(st, n));
		else
			buf_add_json(b, text, (size_t)sqlite3_column_bytes(st, n));
	}
}

void query_add_members(struct buf *b, sqlite3_stmt *st, int columns)
{
	for (int i = 0; i < columns; i++) {
		const char *name = sqlite3_column_name(st, i);
		size_t size = strlen(name);
		char kind = size > 0 ? name[size - 1] : '\0';

		if (kind == '?' || kind == '#')
			size--;
		buf_add_text(b, i > 0 ? ",\"" : "\"");
		buf_add(b, name, size);
		buf_add_text(b, "\":");
		add_value(b, st, i, kind);
	}
}

bool query_give(struct query *q, struct query_cursor *c, query_item_fn *fn, void *ctx)
{
	c->items++;
	return fn(ctx, q->item.data, q->item.size);
}

/* ---- list ---- */

/* The last transition is the end; its reason is one step in an index away. */
#define LIST_COLUMNS \
	"SELECT id AS key, session_id, caller_id, capability, capability_version, state, priority," \
	" risk_level, created_at, updated_at, started_at, deadline, attempt, step, paused_by," \
	" CASE state WHEN 'PENDING' THEN waits_for END AS waits_for," \
	" CASE WHEN " SQL_IS_OVER \
	" THEN (SELECT reason FROM transitions WHERE session = sessions.id" \
	" ORDER BY state_version DESC LIMIT 1) END AS end_reason FROM sessions"

static bool is_live_only(const struct query_cursor *c)
{
	return c->states != 0 && (c->states & ~QUERY_LIVE) == 0;
}

/* The key of the first of LIST_WINDOW sessions with this label before c->row; 1: there are fewer. -1
 * unreadable. */
static int64_t find_labelled(struct query *q, const struct query_cursor *c)
{
	sqlite3_stmt *st = query_prepare(q,
		"SELECT session FROM labels WHERE name = ? AND value = ? AND session < ?"
		" ORDER BY session DESC LIMIT 1 OFFSET ?");
	int64_t low = 1;
	int rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_text(st, 1, c->labels[0].name, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, c->labels[0].value, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 3, c->row);
	sqlite3_bind_int64(st, 4, LIST_WINDOW - 1);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		low = sqlite3_column_int64(st, 0);
	return query_finish(q, st, rc) < 0 ? -1 : low;
}

/* One statement looks at the keys from here up to c->row; -1 unreadable. */
static int64_t find_low(struct query *q, const struct query_cursor *c)
{
	if (c->label_count > 0)
		return find_labelled(q, c);
	return is_live_only(c) || c->row <= LIST_WINDOW ? 1 : c->row - LIST_WINDOW;
}

enum { LABEL_PARAMETER = 7 }; /* the first of two for each label */

/* The first label is looked up by its value, the others by the sessions that have it. */
static void add_labels(struct buf *sql, const struct query_cursor *c)
{
	for (int i = 0, at = LABEL_PARAMETER; i < c->label_count; i++, at += 2)
		buf_addf(sql,
			i == 0 ? " AND id IN (SELECT session FROM labels WHERE name = ?%d AND value = ?%d"
				 " AND session < ?1 AND session >= ?2)" :
				 " AND EXISTS (SELECT 1 FROM labels WHERE session = sessions.id"
				 " AND name = ?%d AND value = ?%d)",
			at, at + 1);
}

/* The few live sessions have an index; SQLite uses it only where its condition is repeated word for word. */
static sqlite3_stmt *prepare_list(struct query *q, const struct query_cursor *c, int64_t low, int64_t rows)
{
	struct buf sql = {0};
	sqlite3_stmt *st;

	buf_add_text(&sql, LIST_COLUMNS);
	if (is_live_only(c) && c->label_count == 0)
		buf_add_text(&sql, " INDEXED BY sessions_live");
	buf_add_text(&sql, " WHERE id < ?1 AND id >= ?2");
	if (is_live_only(c))
		buf_add_text(&sql, " AND " SQL_IS_LIVE);
	if (c->states != 0) {
		buf_add_text(&sql, " AND state IN (''");
		for (int i = 0; i < S_COUNT; i++)
			if (c->states & 1u << i)
				buf_addf(&sql, ",'%s'", sstate_names[i]);
		buf_add_text(&sql, ")");
	}
	buf_add_text(&sql, c->caller[0] ? " AND caller_id = ?3" : " AND ?3 = ''");
	buf_add_text(&sql, c->capability[0] ? " AND capability = ?4" : " AND ?4 = ''");
	buf_add_text(&sql, c->since[0] ? " AND created_at >= ?5" : " AND ?5 = ''");
	add_labels(&sql, c);
	buf_add_text(&sql, " ORDER BY id DESC LIMIT ?6");
	st = query_prepare(q, buf_text(&sql));
	buf_fini(&sql);
	if (st == NULL)
		return NULL;
	sqlite3_bind_int64(st, 1, c->row);
	sqlite3_bind_int64(st, 2, low);
	sqlite3_bind_text(st, 3, c->caller, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 4, c->capability, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 5, c->since, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 6, rows);
	for (int i = 0; i < c->label_count; i++) {
		sqlite3_bind_text(st, LABEL_PARAMETER + 2 * i, c->labels[i].name, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, LABEL_PARAMETER + 2 * i + 1, c->labels[i].value, -1, SQLITE_STATIC);
	}
	return st;
}

/* Was a session with these keys created since then? 1, 0, or -1 unreadable. */
static int is_recent(struct query *q, const struct query_cursor *c, int64_t low, int64_t high)
{
	sqlite3_stmt *st = query_prepare(
		q, "SELECT 1 FROM sessions WHERE id >= ? AND id < ? AND created_at >= ? LIMIT 1");
	int rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, low);
	sqlite3_bind_int64(st, 2, high);
	sqlite3_bind_text(st, 3, c->since, -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	return query_finish(q, st, rc) < 0 ? -1 : rc == SQLITE_ROW;
}

static int more_list(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	int64_t high = c->row, low, seen = 0;
	int64_t rows = c->limit > 0 && c->limit < max_rows ? c->limit : max_rows;
	bool is_full = false;
	sqlite3_stmt *st;
	int rc, recent;

	if (high <= 1)
		return QUERY_DONE;
	if ((low = find_low(q, c)) < 0 || (st = prepare_list(q, c, low, rows)) == NULL)
		return QUERY_UNREADABLE;
	while (!is_full && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		buf_clear(&q->item);
		buf_add_text(&q->item, "{");
		query_add_members(&q->item, st, sqlite3_column_count(st));
		buf_add_text(&q->item, "}");
		c->row = sqlite3_column_int64(st, 0);
		seen++;
		if (c->limit > 0 && --c->limit == 0)
			c->is_cut = is_full = true;
		if (!query_give(q, c, fn, ctx))
			is_full = true;
	}
	if (query_finish(q, st, is_full ? SQLITE_ROW : rc) < 0)
		return QUERY_UNREADABLE;
	if (c->is_cut)
		return QUERY_DONE;
	if (is_full || seen == rows)
		return QUERY_MORE;
	c->row = low;
	if (low <= 1)
		return QUERY_DONE;
	/* Times grow with keys, unless the clock was set back: a whole window without a match is the end. */
	if (c->since[0] && seen == 0 && (recent = is_recent(q, c, low, high)) <= 0)
		return recent < 0 ? QUERY_UNREADABLE : QUERY_DONE;
	return QUERY_MORE;
}

/* ---- events and log ---- */

static int is_over(struct query *q, const struct query_cursor *c)
{
	sqlite3_stmt *st = query_prepare(q, "SELECT " SQL_IS_OVER " FROM sessions WHERE id = ?");
	int rc, over = 1;

	if (st == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, c->session);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		over = sqlite3_column_int(st, 0);
	return query_finish(q, st, rc) < 0 ? -1 : over;
}

/* Only two messages carry the token. The daemon writes them compact, with the name unescaped. */
static struct jslice find_token(const char *body, size_t size)
{
	struct jslice payload = jtext_member(body, size, "payload"), data, token;

	token = jtext_member(payload.at, payload.size, "session_token");
	if (token.at == NULL && (data = jtext_member(payload.at, payload.size, "data")).at != NULL)
		token = jtext_member(data.at, data.size, "session_token");
	return token;
}

static void add_body(struct buf *b, const char *body, size_t size, bool may_have_token)
{
	struct jslice token = {0};

	if (may_have_token)
		token = find_token(body, size);
	if (token.at != NULL) {
		size_t before = (size_t)(token.at - body);

		query_add_raw(b, body, before);
		buf_add_text(b, SECRET);
		before += token.size;
		query_add_raw(b, body + before, size - before);
	} else {
		query_add_raw(b, body, size);
	}
}

enum { EV_ROW, EV_TYPE, EV_EVENT_TYPE, EV_SETTLED, EV_SUBSTITUTE, EV_BODY };

static bool is_named(sqlite3_stmt *st, int n, const char *name)
{
	const char *text = (const char *)sqlite3_column_text(st, n);

	return text != NULL && strcmp(text, name) == 0;
}

/* False: the row is not part of this answer. */
static bool write_event(struct query *q, sqlite3_stmt *st)
{
	struct buf *b = &q->item;
	const char *body = (const char *)sqlite3_column_text(st, EV_BODY), *sent;
	bool may_have_token =
		is_named(st, EV_TYPE, "task_accepted") || is_named(st, EV_EVENT_TYPE, "session_created");

	buf_clear(b);
	buf_add_text(b, "{\"event\":");
	add_body(b, body, (size_t)sqlite3_column_bytes(st, EV_BODY), may_have_token);
	if ((sent = (const char *)sqlite3_column_text(st, EV_SUBSTITUTE)) != NULL) {
		buf_add_text(b, ",\"sent\":");
		add_body(b, sent, (size_t)sqlite3_column_bytes(st, EV_SUBSTITUTE), may_have_token);
	}
	buf_addf(b, ",\"row\":%lld,\"settled\":%s}", (long long)sqlite3_column_int64(st, EV_ROW),
		sqlite3_column_int(st, EV_SETTLED) ? "true" : "false");
	return true;
}

static void add_text_member(struct buf *b, const char *name, const json_t *v)
{
	buf_addf(b, ",\"%s\":", name);
	if (json_is_string(v))
		buf_add_json(b, json_string_value(v), json_string_length(v));
	else
		buf_add_text(b, "\"\"");
}

/* {at, level, message, row}: the code of a warning or an error stands before its message. */
static void add_log_line(struct buf *b, const json_t *event, const char *kind, int64_t row)
{
	const json_t *data = json_object_get(json_object_get(event, "payload"), "data");
	const json_t *at = json_object_get(event, "timestamp"), *level = json_object_get(data, "level");
	const json_t *code = json_object_get(data, "code"), *message = json_object_get(data, "message");
	struct buf text = {0};

	buf_add_text(b, "{\"at\":");
	buf_add_json(b, json_is_string(at) ? json_string_value(at) : "", json_string_length(at));
	if (strcmp(kind, "log") == 0) {
		add_text_member(b, "level", level);
		add_text_member(b, "message", message);
	} else {
		buf_addf(b, ",\"level\":\"%s\"", strcmp(kind, "warning") == 0 ? "warn" : "error");
		if (json_is_string(code))
			buf_addf(&text, "%s: ", json_string_value(code));
		if (json_is_string(message))
			buf_add(&text, json_string_value(message), json_string_length(message));
		buf_add_text(b, ",\"message\":");
		buf_add_json(b, text.data, text.size);
	}
	buf_addf(b, ",\"row\":%lld}", (long long)row);
	buf_fini(&text);
}

static bool write_log(struct query *q, sqlite3_stmt *st)
{
	const char *kind = (const char *)sqlite3_column_text(st, EV_EVENT_TYPE), *body;
	json_t *event;
	char why[128];

	if (kind == NULL ||
		(strcmp(kind, "log") != 0 && strcmp(kind, "warning") != 0 && strcmp(kind, "error") != 0))
		return false;
	body = (const char *)sqlite3_column_text(st, EV_BODY);
	event = jtext_parse(body, (size_t)sqlite3_column_bytes(st, EV_BODY), why, sizeof why);
	buf_clear(&q->item);
	add_log_line(&q->item, event, kind, sqlite3_column_int64(st, EV_ROW));
	json_decref(event);
	return true;
}

static int more_events(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	bool (*write_item)(struct query *, sqlite3_stmt *) = c->verb == QUERY_LOG ? write_log : write_event;
	/* Before the rows: the last rows of a session are committed with its end, so none comes later. */
	int over = is_over(q, c), seen = 0, rc = SQLITE_ROW;
	bool is_full = false;
	sqlite3_stmt *st;

	if (over < 0)
		return QUERY_UNREADABLE;
	st = query_prepare(q,
		"SELECT id, type, event_type,"
		" id <= (SELECT confirmed FROM callers WHERE callers.id = events.caller)"
		" AND NOT EXISTS (SELECT 1 FROM unroutable WHERE event = events.id), substitute, body"
		" FROM events WHERE session = ? AND id > ? AND type <> 'harp' ORDER BY id LIMIT ?");
	if (st == NULL)
		return QUERY_UNREADABLE;
	sqlite3_bind_int64(st, 1, c->session);
	sqlite3_bind_int64(st, 2, c->row);
	sqlite3_bind_int(st, 3, max_rows);
	while (!is_full && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		c->row = sqlite3_column_int64(st, EV_ROW);
		seen++;
		if (write_item(q, st) && !query_give(q, c, fn, ctx))
			is_full = true;
	}
	if (query_finish(q, st, rc) < 0)
		return QUERY_UNREADABLE;
	if (is_full || seen == max_rows)
		return QUERY_MORE;
	return c->is_follow && !over ? QUERY_WAIT : QUERY_DONE;
}

int query_more(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	if (max_rows < 1)
		max_rows = 1;
	switch (c->verb) {
	case QUERY_LIST: return more_list(q, c, max_rows, fn, ctx);
	case QUERY_SHOW: return query_more_show(q, c, max_rows, fn, ctx);
	case QUERY_EVENTS:
	case QUERY_LOG: return more_events(q, c, max_rows, fn, ctx);
	case QUERY_CHECKPOINTS: return query_more_checkpoints(q, c, NULL, max_rows, fn, ctx);
	case QUERY_APPROVALS: return query_more_approvals(q, c, max_rows, fn, ctx);
	case QUERY_AUDIT: return query_more_audit(q, c, max_rows, fn, ctx);
	case QUERY_VERBS: break;
	}
	return QUERY_DONE;
}
