/* SPDX-License-Identifier: MIT */
/* query.c: finds sessions by the beginning of their id; opens and closes the reader that all queries use.
 * Owns the error texts for a store that cannot be read. Never opens the store itself (store/reader.c). */
#include "query/query_private.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 5 /* how many sessions of an ambiguous word are listed */

sqlite3_stmt *query_prepare(struct query *q, const char *sql)
{
	return reader_prepare(q->reader, sql);
}

int query_finish(struct query *q, sqlite3_stmt *st, int rc)
{
	return reader_finish(q->reader, st, rc);
}

void query_fault(const struct query *q, struct query_error *e)
{
	e->code = "unavailable";
	snprintf(e->message, sizeof e->message, "the store in %.200s cannot be read: %s", q->reader->dir,
		q->reader->error);
	snprintf(e->next, sizeof e->next,
		"try again; if it stays so, look at the disk and at the daemon's log");
}

int query_open(const char *state_dir, struct query **out, char *why, size_t why_size)
{
	struct query *q = xcalloc(1, sizeof *q);
	int code = reader_open(state_dir, &q->reader, why, why_size);

	if (code == 0)
		*out = q;
	else
		free(q);
	return code;
}

void query_close(struct query *q)
{
	if (q == NULL)
		return;
	reader_close(q->reader);
	buf_fini(&q->item);
	free(q);
}

/* ---- by the beginning of an id ---- */

static int complain(struct query_error *e, const char *code, const char *next, const char *message)
{
	e->code = code;
	snprintf(e->message, sizeof e->message, "%s", message);
	snprintf(e->next, sizeof e->next, "%s", next);
	return -1;
}

/* Makes it lower case; false where no id can begin like that. */
static bool take_word(const char *word, char out[ID_SIZE])
{
	size_t size = strlen(word);

	if (size >= ID_SIZE || strspn(word, "0123456789abcdefABCDEF-") != size)
		return false;
	for (size_t i = 0; i <= size; i++)
		out[i] = (char)tolower((unsigned char)word[i]);
	return true;
}

static int find_prefix(
	struct query *q, const char *prefix, int64_t *key, char session_id[ID_SIZE], struct buf *named)
{
	sqlite3_stmt *st = query_prepare(q,
		"SELECT id, session_id FROM sessions WHERE session_id >= ?1 AND session_id < ?1 || 'g'"
		" ORDER BY id DESC LIMIT ?2");
	int count = 0, rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_text(st, 1, prefix, -1, SQLITE_STATIC);
	sqlite3_bind_int(st, 2, NAMED_MAX + 1);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (count == 0) {
			*key = sqlite3_column_int64(st, 0);
			snprintf(session_id, ID_SIZE, "%s", (const char *)sqlite3_column_text(st, 1));
		}
		if (count++ < NAMED_MAX)
			buf_addf(named, "%s%s", count > 1 ? ", " : "",
				(const char *)sqlite3_column_text(st, 1));
	}
	return query_finish(q, st, rc) < 0 ? -1 : count;
}

int query_find(
	struct query *q, const char *word, int64_t *key, char session_id[ID_SIZE], struct query_error *e)
{
	static const char look[] = "`hcpctl list` shows the sessions that there are";
	struct buf named = {0};
	char prefix[ID_SIZE], text[512];
	int count = 0;

	if (strlen(word) < QUERY_PREFIX_MIN) {
		snprintf(text, sizeof text, "%s is too short for a session: %d characters at least",
			*word ? word : "nothing", QUERY_PREFIX_MIN);
		return complain(e, "bad_request", look, text);
	}
	if (take_word(word, prefix) && (count = find_prefix(q, prefix, key, session_id, &named)) < 0) {
		query_fault(q, e);
	} else if (count == 0) {
		snprintf(text, sizeof text, "there is no session %.*s",
			(int)buf_utf8_cut(word, strlen(word), 64), word);
		complain(e, "not_found", look, text);
	} else if (count > 1) {
		snprintf(text, sizeof text, "%s fits several sessions: %s%s", prefix, buf_text(&named),
			count > NAMED_MAX ? ", ..." : "");
		complain(e, "ambiguous", "write more of the id", text);
	}
	buf_fini(&named);
	return count == 1 ? 0 : -1;
}

bool query_find_data(struct query *q, int64_t key, struct query_data *out)
{
	sqlite3_stmt *st = query_prepare(
		q, "SELECT data_classification, caller_id, capability FROM sessions WHERE id = ?");
	int rc;

	if (st == NULL)
		return false;
	sqlite3_bind_int64(st, 1, key);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		snprintf(out->data_class, sizeof out->data_class, "%s",
			(const char *)sqlite3_column_text(st, 0));
		snprintf(out->caller_id, sizeof out->caller_id, "%s",
			(const char *)sqlite3_column_text(st, 1));
		snprintf(out->capability, sizeof out->capability, "%s",
			(const char *)sqlite3_column_text(st, 2));
	}
	return query_finish(q, st, rc) == 0 && rc == SQLITE_ROW;
}

bool query_find_waiting(struct query *q, const struct query_cursor *c, int64_t *key, char session_id[ID_SIZE])
{
	sqlite3_stmt *st = query_prepare(q,
		"SELECT s.id, s.session_id FROM reviews r JOIN sessions s ON s.id = r.session WHERE r.id = "
		"?");
	int rc;

	if (st == NULL)
		return false;
	sqlite3_bind_int64(st, 1, c->row);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		*key = sqlite3_column_int64(st, 0);
		snprintf(session_id, ID_SIZE, "%s", (const char *)sqlite3_column_text(st, 1));
	}
	return query_finish(q, st, rc) == 0 && rc == SQLITE_ROW;
}
