/* SPDX-License-Identifier: MIT */
/* retain.c: removes a session from the store.
 * Owns which tables belong to sessions: all that have a column `session`, so that a table that is added
 * later is neither missing in the archive nor left in the store. Never decides which session leaves
 * (retain/thread.c). */
#include "store/store_private.h"

#include <stdio.h>
#include <string.h>

#include "store/retain.h"

/* submits has a window of its own; leaving lists the sessions that go. decisions comes before reviews, which
 * it refers to. */
#define LIST_OWNED \
	"SELECT 'decisions' UNION ALL SELECT * FROM" \
	" (SELECT m.name FROM sqlite_schema m WHERE m.type = 'table'" \
	" AND m.name NOT IN ('submits', 'leaving')" \
	" AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) WHERE name = 'session')" \
	" ORDER BY m.name)"

int store_list_owned(sqlite3 *db, struct store_owned *out)
{
	sqlite3_stmt *st;
	int rc;

	out->count = 0;
	if (sqlite3_prepare_v2(db, LIST_OWNED, -1, &st, NULL) != SQLITE_OK)
		return -1;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW && out->count < STORE_OWNED_MAX)
		snprintf(out->tables[out->count++], STORE_TABLE_SIZE, "%s",
			(const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	return rc == SQLITE_DONE ? 0 : -1;
}

const char *store_owned_where(const char *table)
{
	return strcmp(table, "decisions") == 0 ?
		"request_id IN (SELECT request_id FROM reviews WHERE session = ?1)" :
		"session = ?1";
}

int store_prepare_retain(struct store *s)
{
	char sql[256];

	if (store_list_owned(s->db, &s->owned) < 0)
		return -1;
	for (int i = 0; i < s->owned.count; i++) {
		const char *table = s->owned.tables[i];

		snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s AND rowid <= ?2", table,
			store_owned_where(table));
		if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->st[ST_DROP_ROWS + i],
			    NULL) != SQLITE_OK)
			return -1;
	}
	return 0;
}

void store_put_archive(struct store *s, const char *day, int64_t size, int64_t sessions)
{
	store_add(s, ST_PUT_ARCHIVE, "tii", day, size, sessions);
}

void store_drop_archive(struct store *s, const char *day)
{
	store_add(s, ST_DROP_ARCHIVE, "t", day);
}

void store_keep_keys(struct store *s)
{
	if (!s->batch.keeps_keys)
		store_add(s, ST_KEEP_KEYS, "");
	s->batch.keeps_keys = true;
}

void store_leave_session(struct store *s, int64_t session, bool with_artifacts)
{
	store_add(s, ST_PUT_LEAVING, "ii", session, (int64_t)with_artifacts);
	store_add(s, ST_DROP_SESSION, "i", session);
}

void store_drop_rows(struct store *s, int table, int64_t session, int64_t upto)
{
	store_add(s, (enum statement)(ST_DROP_ROWS + table), "ii", session, upto);
}

void store_drop_kept(struct store *s, int64_t session, int64_t upto)
{
	store_add(s, ST_DROP_KEPT, "ii", session, upto);
}

void store_drop_leaving(struct store *s, int64_t session)
{
	store_add(s, ST_DROP_LEAVING, "i", session);
}

void store_drop_answer(struct store *s, int64_t event)
{
	store_keep_keys(s);
	store_add(s, ST_DROP_UNROUTABLE, "i", event);
	store_add(s, ST_DROP_EVENT, "i", event);
}

void store_vacuum(struct store *s)
{
	store_add(s, ST_VACUUM, "");
}
