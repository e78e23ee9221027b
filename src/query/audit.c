/* SPDX-License-Identifier: MIT */
/* audit.c: the rows of the audit, as they are stored, and the end of the chain as the store keeps it.
 * Owns how a row is written as an item. Never verifies: the reader of the items does, with the same texts
 * (audit_chain.h). */
#include "query/query_private.h"

#include <stdio.h>
#include <string.h>

#include "json/text.h"
#include "store/migrations.h"

/* FIRST: no row was given yet. A row that was put in by hand may have a number below 1. */
enum { PART_BEGIN, PART_FIRST, PART_ROWS, PARTS };
#define BELOW_ALL (-1e19)

static int give_meta(struct query *q, struct query_cursor *c, const char *sql, query_item_fn *fn, void *ctx)
{
	sqlite3_stmt *st = query_prepare(q, sql);
	int rc;

	if (st == NULL)
		return -1;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		buf_clear(&q->item);
		buf_add_text(&q->item, "{");
		query_add_members(&q->item, st, sqlite3_column_count(st));
		buf_add_text(&q->item, "}");
		query_give(q, c, fn, ctx);
	}
	return query_finish(q, st, rc);
}

/* Times grow with the rows, unless the clock was set back. */
static bool is_wanted(const struct query_cursor *c, const char *entry, size_t size)
{
	struct jslice at = jtext_member(entry, size, "at");

	if (c->since[0] == '\0')
		return true;
	return at.size == CLOCK_TEXT_SIZE + 1 && memcmp(at.at + 1, c->since, CLOCK_TEXT_SIZE - 1) >= 0;
}

/* 0: the table was dropped; the first item reports that. */
static int has_table(struct query *q)
{
	sqlite3_stmt *st =
		query_prepare(q, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'audit'");
	int rc, found;

	if (st == NULL)
		return -1;
	found = (rc = sqlite3_step(st)) == SQLITE_ROW;
	return query_finish(q, st, rc) < 0 ? -1 : found;
}

static int give_rows(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	sqlite3_stmt *st =
		query_prepare(q, "SELECT id AS n, hash, entry FROM audit WHERE id > ? ORDER BY id LIMIT ?");
	bool is_full = false;
	int seen = 0, rc = SQLITE_ROW;

	if (st == NULL)
		return has_table(q) == 0 ? 0 : -1;
	if (c->part == PART_FIRST)
		sqlite3_bind_double(st, 1, BELOW_ALL);
	else
		sqlite3_bind_int64(st, 1, c->row);
	sqlite3_bind_int(st, 2, max_rows);
	while (!is_full && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *entry = (const char *)sqlite3_column_text(st, 2);

		c->row = sqlite3_column_int64(st, 0);
		c->part = PART_ROWS;
		seen++;
		if (entry != NULL && !is_wanted(c, entry, (size_t)sqlite3_column_bytes(st, 2)))
			continue;
		buf_clear(&q->item);
		buf_add_text(&q->item, "{");
		query_add_members(&q->item, st, 3);
		buf_add_text(&q->item, "}");
		is_full = !query_give(q, c, fn, ctx);
	}
	return query_finish(q, st, rc) < 0 ? -1 : is_full || seen == max_rows;
}

static int give_slice(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	int more = give_rows(q, c, max_rows, fn, ctx);

	if (more != 0)
		return more < 0 ? QUERY_UNREADABLE : QUERY_MORE;
	c->part = PARTS;
	/* count and head as the daemon kept them: "123 9f86...". */
	return give_meta(q, c,
		       "SELECT CAST(substr(value, 1, instr(value, ' ') - 1) AS INTEGER) AS count, "
		       "substr(value, instr(value, ' ') + 1) AS head"
		       " FROM (SELECT (SELECT value FROM meta WHERE key = 'audit') AS value)",
		       fn, ctx) < 0 ?
		QUERY_UNREADABLE :
		QUERY_DONE;
}

int query_more_audit(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
{
	int rc;

	if (c->part == PART_BEGIN) {
		struct buf sql = {0};
		int given;

		buf_addf(&sql,
			"SELECT (SELECT value FROM meta WHERE key = 'instance') AS instance, (%s) AS "
			"triggers,"
			" EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'audit') AS "
			"\"table?\"",
			migrations_count_audit_triggers);
		given = give_meta(q, c, buf_text(&sql), fn, ctx);
		buf_fini(&sql);
		c->part = given < 0 ? PART_BEGIN : PART_FIRST;
		return given < 0 ? QUERY_UNREADABLE : QUERY_MORE;
	}
	if (c->part >= PARTS)
		return QUERY_DONE;
	/* The last rows and the head in one view: the daemon writes both in one transaction. */
	sqlite3_exec(q->reader->db, "BEGIN", NULL, NULL, NULL);
	rc = give_slice(q, c, max_rows, fn, ctx);
	sqlite3_exec(q->reader->db, "COMMIT", NULL, NULL, NULL);
	if (rc == QUERY_UNREADABLE && c->part == PARTS)
		c->part = PART_ROWS;
	return rc;
}
