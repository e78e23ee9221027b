/* SPDX-License-Identifier: MIT */
/* checkpoints.c: a session's checkpoints and their states, restored and verified as the daemon does it.
 * Owns which columns of a checkpoint are shown. A damaged checkpoint is shown with its fault. Never changes
 * a row. */
#include "query/query_private.h"

#include <stdio.h>
#include <string.h>

#include "store/checkpoint_restore.h"

/* The columns that checkpoint_restore needs, in this order. */
#define RAW "id, session, base, state_size, encoding, sha256, step, state"
enum { RAW_ID, RAW_SESSION, RAW_BASE, RAW_SIZE, RAW_ENCODING, RAW_SHA256, RAW_STEP, RAW_STATE, RAW_COUNT };

static void take_word(sqlite3_stmt *st, int n, char *out, size_t size)
{
	const char *word = (const char *)sqlite3_column_text(st, n);

	snprintf(out, size, "%s", word != NULL ? word : "");
}

static void take_bytes(sqlite3_stmt *st, int n, struct buf *out)
{
	const void *bytes = sqlite3_column_type(st, n) == SQLITE_BLOB ? sqlite3_column_blob(st, n) :
									sqlite3_column_text(st, n);

	if (bytes != NULL)
		buf_add(out, bytes, (size_t)sqlite3_column_bytes(st, n));
}

static void take_raw(sqlite3_stmt *st, int first, struct store_kept *k)
{
	store_kept_clear(k);
	k->row = sqlite3_column_int64(st, first + RAW_ID);
	k->session = sqlite3_column_int64(st, first + RAW_SESSION);
	k->base = sqlite3_column_int64(st, first + RAW_BASE);
	k->whole_size = sqlite3_column_int64(st, first + RAW_SIZE);
	take_word(st, first + RAW_ENCODING, k->encoding, sizeof k->encoding);
	take_word(st, first + RAW_SHA256, k->sha256, sizeof k->sha256);
	take_bytes(st, first + RAW_STEP, &k->step);
	take_bytes(st, first + RAW_STATE, &k->state);
}

/* -1: the store cannot be read; 0 also where there is no such row. */
static int load_base(struct query *q, int64_t row, struct store_kept *base)
{
	sqlite3_stmt *st;
	int rc;

	store_kept_clear(base);
	if (row == 0)
		return 0;
	if ((st = query_prepare(q, "SELECT " RAW " FROM checkpoints WHERE id = ?")) == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, row);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		take_raw(st, 0, base);
	return query_finish(q, st, rc);
}

/* ,"state":..., where the request wants it, and ,"damage":... */
static int add_state(struct query *q, sqlite3_stmt *st, int first, bool has_state)
{
	struct store_kept own = {0}, base = {0};
	struct buf text = {0};
	const char *damage;
	int rc;

	take_raw(st, first, &own);
	if ((rc = load_base(q, own.base, &base)) == 0) {
		damage = checkpoint_restore(&own, base.row != 0 ? &base : NULL, &text);
		if (has_state)
			buf_add_text(&q->item, ",\"state\":");
		if (has_state && damage == NULL)
			query_add_raw(&q->item, text.data, text.size);
		else if (has_state)
			buf_add_text(&q->item, "null");
		buf_add_text(&q->item, ",\"damage\":");
		if (damage == NULL)
			buf_add_text(&q->item, "null");
		else
			buf_add_json(&q->item, damage, strlen(damage));
	}
	store_kept_fini(&own);
	store_kept_fini(&base);
	buf_fini(&text);
	return rc;
}

int query_more_checkpoints(
	struct query *q, struct query_cursor *c, const char *name, int max_rows, query_item_fn *fn, void *ctx)
{
	sqlite3_stmt *st = query_prepare(q,
		"SELECT " QUERY_CHECKPOINT ", " RAW
		" FROM checkpoints WHERE session = ?1 AND id > ?2"
		" AND substr(checkpoint_id, 1, length(?4)) = ?4 ORDER BY id LIMIT ?3");
	int seen = 0, rc = SQLITE_ROW, raw;
	bool is_full = false;

	if (st == NULL)
		return QUERY_UNREADABLE;
	raw = sqlite3_column_count(st) - RAW_COUNT;
	sqlite3_bind_int64(st, 1, c->session);
	sqlite3_bind_int64(st, 2, c->row);
	sqlite3_bind_int(st, 3, max_rows);
	sqlite3_bind_text(st, 4, c->checkpoint, -1, SQLITE_STATIC);
	while (!is_full && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		buf_clear(&q->item);
		if (name != NULL)
			buf_addf(&q->item, "{\"%s\":", name);
		buf_add_text(&q->item, "{");
		query_add_members(&q->item, st, raw);
		if (add_state(q, st, raw, c->has_state) < 0) {
			sqlite3_finalize(st);
			return QUERY_UNREADABLE;
		}
		buf_add_text(&q->item, name != NULL ? "}}" : "}");
		c->row = sqlite3_column_int64(st, raw + RAW_ID);
		seen++;
		is_full = !query_give(q, c, fn, ctx);
	}
	if (query_finish(q, st, rc) < 0)
		return QUERY_UNREADABLE;
	return is_full || seen == max_rows ? QUERY_MORE : QUERY_DONE;
}
