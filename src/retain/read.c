/* SPDX-License-Identifier: MIT */
/* read.c: retention's queries: which sessions have ended, whether one may leave, and its rows.
 * Owns no state: each query uses the thread's own connection, and nothing stays open between two of them.
 * The rows of an ended session no longer change, so they are read in slices without a transaction. Never
 * writes. */
#include "retain/retain_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "store/migrations.h"

static const char *text(sqlite3_stmt *st, int n)
{
	const char *t = (const char *)sqlite3_column_text(st, n);

	return t != NULL ? t : "";
}

/* ---- sessions ---- */

int retain_find_ended(struct store_reader *q, const struct retain_candidate *after, const char *before,
	struct retain_candidate out[GROUP_MAX])
{
	sqlite3_stmt *st = reader_prepare(q,
		"SELECT id, session_id, updated_at FROM sessions INDEXED BY sessions_ended WHERE " SQL_IS_OVER
		" AND (updated_at, id) > (?1, ?2) AND updated_at < ?3 ORDER BY updated_at, id LIMIT ?4");
	int count = 0, rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_text(st, 1, after->ended_at, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, after->who.session);
	sqlite3_bind_text(st, 3, before, -1, SQLITE_STATIC);
	sqlite3_bind_int(st, 4, GROUP_MAX);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct retain_candidate *c = &out[count++];

		c->who.session = sqlite3_column_int64(st, 0);
		snprintf(c->who.session_id, sizeof c->who.session_id, "%s", text(st, 1));
		snprintf(c->ended_at, sizeof c->ended_at, "%s", text(st, 2));
	}
	return reader_finish(q, st, rc) < 0 ? -1 : count;
}

/* Each query has a row where the session cannot leave yet. A caller's messages are settled in order. The
 * message_id of a submit is in its answer, or, for a session that waited for a decision, in its row. */
#define UNSETTLED \
	"SELECT 1 FROM (SELECT caller, max(id) AS last FROM events WHERE session = ?1 GROUP BY caller)" \
	" JOIN callers ON callers.id = caller WHERE last > confirmed"
#define UNROUTED "SELECT 1 FROM events WHERE session = ?1 AND NOT ?3 AND id IN (SELECT event FROM unroutable)"
#define REMEMBERED \
	"SELECT 1 FROM sessions s JOIN callers c ON c.caller_id = s.caller_id" \
	" JOIN submits b ON b.caller = c.id AND b.message_id = coalesce(s.message_id," \
	" (SELECT CASE WHEN json_valid(body) THEN json_extract(body, '$.payload.in_reply_to') END" \
	" FROM events WHERE session = ?1 AND type = 'task_accepted' LIMIT 1))" \
	" WHERE s.id = ?1 AND b.session = ?1"
/* A live session continues from a checkpoint of this one, or was given its record: after a crash it starts
 * from that again. */
#define NEEDED(column) \
	"SELECT 1 FROM sessions INDEXED BY sessions_by_" column " WHERE " column \
	" = (SELECT session_id FROM sessions WHERE id = ?1) AND " SQL_IS_LIVE
#define DECIDED \
	"SELECT 1 FROM reviews JOIN decisions d USING (request_id)" \
	" WHERE session = ?1 AND d.expires_at >= ?2"

int retain_may_leave(struct store_reader *q, int64_t session, const char *nonces_before, bool unroutable_too)
{
	sqlite3_stmt *st = reader_prepare(q,
		"SELECT NOT EXISTS (" UNSETTLED ") AND NOT EXISTS (" UNROUTED ") AND NOT EXISTS (" REMEMBERED
		") AND NOT EXISTS (" DECIDED
		") AND NOT EXISTS (" NEEDED("checkpoint_of") ") AND NOT EXISTS (" NEEDED("continues") ")");
	int answer = 0, rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_text(st, 2, nonces_before, -1, SQLITE_STATIC);
	sqlite3_bind_int(st, 3, unroutable_too);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		answer = sqlite3_column_int(st, 0);
	return reader_finish(q, st, rc) < 0 ? -1 : answer;
}

int retain_find_leaving(
	struct store_reader *q, struct retain_who out[GROUP_MAX], bool with_artifacts[GROUP_MAX])
{
	sqlite3_stmt *st = reader_prepare(
		q, "SELECT session, session_id, artifacts FROM leaving ORDER BY session LIMIT ?");
	int count = 0, rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_int(st, 1, GROUP_MAX);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		out[count].session = sqlite3_column_int64(st, 0);
		snprintf(out[count].session_id, ID_SIZE, "%s", text(st, 1));
		with_artifacts[count++] = sqlite3_column_int(st, 2) != 0;
	}
	return reader_finish(q, st, rc) < 0 ? -1 : count;
}

/* Answers to tasks that never became a session. The youngest are at the end of the table, so the search may
 * stop at the first young one. */
int retain_find_answers(
	struct store_reader *q, int64_t *at, const char *before, bool unroutable_too, int64_t out[SLICE_ROWS])
{
	sqlite3_stmt *st = reader_prepare(q,
		"SELECT e.id, coalesce(e.at, '') < ?2, e.id <= c.confirmed"
		" AND (?3 OR NOT EXISTS (SELECT 1 FROM unroutable WHERE event = e.id))"
		" AND NOT EXISTS (SELECT 1 FROM submits"
		" WHERE caller = e.caller AND message_id = e.reply AND answer = e.id)"
		" FROM (SELECT id, caller,"
		" CASE WHEN json_valid(body) THEN json_extract(body, '$.timestamp') END AS at,"
		" CASE WHEN json_valid(body) THEN json_extract(body, '$.payload.in_reply_to') END AS reply"
		" FROM events WHERE session IS NULL AND id > ?1 ORDER BY id LIMIT ?4) e"
		" JOIN callers c ON c.id = e.caller ORDER BY e.id");
	int count = 0, rows = 0, rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, *at);
	sqlite3_bind_text(st, 2, before, -1, SQLITE_STATIC);
	sqlite3_bind_int(st, 3, unroutable_too);
	sqlite3_bind_int(st, 4, SLICE_ROWS);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW && sqlite3_column_int(st, 1) != 0) {
		*at = sqlite3_column_int64(st, 0);
		if (sqlite3_column_int(st, 2) != 0)
			out[count++] = *at;
		rows++;
	}
	if (rc == SQLITE_ROW || rows < SLICE_ROWS)
		*at = 0;
	return reader_finish(q, st, rc) < 0 ? -1 : count;
}

/* ---- days ---- */

int retain_find_day(struct store_reader *q, const char *day, int64_t *size, int64_t *sessions)
{
	sqlite3_stmt *st = reader_prepare(q, "SELECT size, sessions FROM archives WHERE day = ?");
	int rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_text(st, 1, day, -1, SQLITE_STATIC);
	*size = *sessions = 0;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		*size = sqlite3_column_int64(st, 0);
		*sessions = sqlite3_column_int64(st, 1);
	}
	return reader_finish(q, st, rc) < 0 ? -1 : rc == SQLITE_ROW;
}

int retain_next_day(struct store_reader *q, const char *after, const char *before, bool empty,
	char day[ARCHIVE_DAY_SIZE], int64_t *size)
{
	sqlite3_stmt *st = reader_prepare(q,
		"SELECT day, size FROM archives WHERE day > ?1 AND (day < ?2 OR (?3 AND size = 0))"
		" ORDER BY day LIMIT 1");
	int rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_text(st, 1, after, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, before, -1, SQLITE_STATIC);
	sqlite3_bind_int(st, 3, empty);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		snprintf(day, ARCHIVE_DAY_SIZE, "%s", text(st, 0));
		*size = sqlite3_column_int64(st, 1);
	}
	return reader_finish(q, st, rc) < 0 ? -1 : rc == SQLITE_ROW;
}

/* ---- the file as a whole ---- */

static int query_int(struct store_reader *q, const char *sql, int64_t *out)
{
	sqlite3_stmt *st = reader_prepare(q, sql);
	int rc;

	if (st == NULL)
		return -1;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		*out = sqlite3_column_int64(st, 0);
	return reader_finish(q, st, rc);
}

int retain_count_unroutable(struct store_reader *q)
{
	int64_t any = 0;

	return query_int(q, "SELECT EXISTS (SELECT 1 FROM unroutable)", &any) < 0 ? -1 : (int)any;
}

int retain_count_pages(struct store_reader *q, int64_t *pages, int64_t *unused)
{
	*pages = *unused = 0;
	return query_int(q, "PRAGMA page_count", pages) < 0 ? -1 :
							      query_int(q, "PRAGMA freelist_count", unused);
}

/* ---- rows ---- */

int retain_each_row(struct store_reader *q, const char *table, int64_t session, int64_t *at, int most,
	retain_row_fn *fn, void *ctx)
{
	bool is_itself = strcmp(table, "sessions") == 0;
	sqlite3_stmt *st;
	char sql[320];
	int count = 0, rc;

	snprintf(sql, sizeof sql, "SELECT rowid, * FROM %s WHERE %s AND rowid > ?2 ORDER BY rowid LIMIT ?3",
		table, is_itself ? "id = ?1" : store_owned_where(table));
	if ((st = reader_prepare(q, sql)) == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_int64(st, 2, *at);
	sqlite3_bind_int(st, 3, most);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		*at = sqlite3_column_int64(st, 0);
		count++;
		if (!fn(ctx, st, *at))
			break;
	}
	return reader_finish(q, st, rc) < 0 ? -1 : count;
}

static void add_bytes(struct buf *b, sqlite3_stmt *st, int n)
{
	const void *data = sqlite3_column_blob(st, n);
	int size = sqlite3_column_bytes(st, n);

	buf_add_text(b, "{\"base64\":\"");
	if (size > 0) {
		buf_reserve(b, (size_t)size / 3 * 4 + 8);
		b->size += (size_t)EVP_EncodeBlock((unsigned char *)b->data + b->size, data, size);
	}
	buf_add_text(b, "\"}");
}

static void add_value(struct buf *b, sqlite3_stmt *st, int n)
{
	double real;

	switch (sqlite3_column_type(st, n)) {
	case SQLITE_INTEGER: buf_add_int(b, sqlite3_column_int64(st, n)); break;
	case SQLITE_FLOAT:
		real = sqlite3_column_double(st, n);
		buf_addf(b, isfinite(real) ? "%.17g" : "null", real);
		break;
	case SQLITE_TEXT: buf_add_json(b, text(st, n), (size_t)sqlite3_column_bytes(st, n)); break;
	case SQLITE_BLOB: add_bytes(b, st, n); break;
	default: buf_add_text(b, "null");
	}
}

void retain_add_row(struct buf *b, const char *table, sqlite3_stmt *st)
{
	buf_addf(b, "{\"table\":\"%s\",\"row\":{", table);
	for (int i = 1; i < sqlite3_column_count(st); i++) {
		buf_addf(b, "%s\"%s\":", i > 1 ? "," : "", sqlite3_column_name(st, i));
		add_value(b, st, i);
	}
	buf_add_text(b, "}}\n");
}
