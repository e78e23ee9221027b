/* SPDX-License-Identifier: MIT */
/* archive_merge.c: puts archived sessions back into a copy of the store, row by row; SQLite's own keys notice
 * what is there twice. Unpacks with zstd alone, and lets hcpd's verifier look, too. Never changes the store
 * or the archive. */
#include "archive_merge.h"

#include <fcntl.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <openssl/evp.h>

#include "store/archive.h"
#include "violations.h"
#include "support/oracle_store.h"
#include "support/harness.h"

/* Each row is a violation, before anything is put back; the first two columns are the evidence. */
#define ORPHANS(table) \
	{ \
		"nothing is left of those who left", table, \
			"SELECT DISTINCT session, 'rows' FROM " table \
			" WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM sessions UNION " \
			"SELECT session FROM leaving)" \
	}
static const struct oracle_question questions[] = {
	ORPHANS("tasks"),
	ORPHANS("transitions"),
	ORPHANS("events"),
	ORPHANS("checkpoints"),
	ORPHANS("reviews"),
	ORPHANS("continuity"),
	ORPHANS("snapshots"),
	ORPHANS("outcomes"),
	ORPHANS("artifacts"),
	{"nothing is left of those who left", "they are still leaving",
		"SELECT session_id, 'leaving' FROM leaving"},
	{"in one place", "a session that left is still there",
		"SELECT session_id, state FROM sessions WHERE id IN"
		" (SELECT session FROM leaving)"},
};

/* --- rows --- */

static void bind_bytes(sqlite3_stmt *st, int at, const char *coded)
{
	size_t size = strlen(coded);
	unsigned char *bytes = malloc(size + 1);
	int n = EVP_DecodeBlock(bytes, (const unsigned char *)coded, (int)size);

	for (size_t i = size; n > 0 && i > 0 && coded[i - 1] == '='; i--)
		n--;
	sqlite3_bind_blob(st, at, bytes, n < 0 ? 0 : n, free);
}

static void bind(sqlite3_stmt *st, int at, json_t *value)
{
	const char *coded = json_string_value(json_object_get(value, "base64"));

	if (json_is_integer(value))
		sqlite3_bind_int64(st, at, json_integer_value(value));
	else if (json_is_real(value))
		sqlite3_bind_double(st, at, json_real_value(value));
	else if (json_is_string(value))
		sqlite3_bind_text(
			st, at, json_string_value(value), (int)json_string_length(value), SQLITE_STATIC);
	else if (coded)
		bind_bytes(st, at, coded);
}

static bool put_row(sqlite3 *db, const char *table, json_t *row)
{
	char sql[2000];
	sqlite3_stmt *st = NULL;
	const char *name;
	json_t *value;
	int at = snprintf(sql, sizeof sql, "INSERT INTO %s (", table), n = 0;

	json_object_foreach(row, name, value)
		at += snprintf(sql + at, sizeof sql - (size_t)at, "%s\"%s\"", n++ > 0 ? "," : "", name);
	at += snprintf(sql + at, sizeof sql - (size_t)at, ") VALUES (");
	for (int i = 0; i < n; i++)
		at += snprintf(sql + at, sizeof sql - (size_t)at, "%s", i > 0 ? ",?" : "?");
	snprintf(sql + at, sizeof sql - (size_t)at, ")");
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		return false;
	n = 0;
	json_object_foreach(row, name, value)
		bind(st, ++n, value);
	int rc = sqlite3_step(st);
	sqlite3_finalize(st);
	return rc == SQLITE_DONE;
}

/* One line of the archive; the session that it begins is counted. */
static void put_line(sqlite3 *db, const char *day, const char *line, size_t size, long *sessions)
{
	json_t *j = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL), *row = json_object_get(j, "row");
	const char *table = json_string_value(json_object_get(j, "table"));

	if (json_is_integer(json_object_get(j, "archive")))
		++*sessions;
	else if (!table || !row)
		violation("the archive can be read", "%s has a line that is none: %.*s", day,
			(int)(size < 200 ? size : 200), line);
	else if (!put_row(db, table, row))
		violation("in one place", "a row of %s in %s cannot be put back: %s: %.*s", table, day,
			sqlite3_errmsg(db), (int)(size < 300 ? size : 300), line);
	json_decref(j);
}

/* --- a day --- */

/* The text of what counts of it; NULL: it is reported. */
static char *unpack(const char *day, const char *packed, size_t size, size_t *out_size)
{
	ZSTD_DCtx *z = ZSTD_createDCtx();
	ZSTD_inBuffer in = {packed, size, 0};
	size_t room = 1 << 20, left = 0;
	ZSTD_outBuffer out = {malloc(room + 1), room, 0};

	while (in.pos < in.size || left > 0) {
		size_t before = in.pos + out.pos;
		if (out.pos == out.size)
			out.dst = realloc(out.dst, (out.size *= 2) + 1);
		left = ZSTD_decompressStream(z, &out, &in);
		if (ZSTD_isError(left) || (in.pos + out.pos == before && out.pos < out.size))
			break;
	}
	ZSTD_freeDCtx(z);
	if (left != 0)
		violation("the archive can be read", "%s: %s at byte %zu of %zu", day,
			ZSTD_isError(left) ? ZSTD_getErrorName(left) : "it ends within a frame", in.pos,
			in.size);
	*out_size = out.pos;
	((char *)out.dst)[out.pos] = '\0';
	return out.dst;
}

static void verify(const char *path, const char *day, long long size)
{
	struct archive_reader *r = archive_open(open(path, O_RDONLY | O_CLOEXEC), size);
	char why[ARCHIVE_WHY_SIZE] = "";
	struct archive_entry e;
	int rc;

	while ((rc = archive_next(r, &e, why)) > 0 && (rc = archive_verify(r, &e, why)) == 0)
		;
	if (rc < 0)
		violation("the archive can be read", "%s does not verify: %s", day, why);
	archive_free(r);
}

static long put_day(sqlite3 *db, const char *state, const char *day, long long size, long expected)
{
	char path[400], *packed, *text, *save = NULL;
	size_t has = 0, text_size = 0;
	long sessions = 0;

	snprintf(path, sizeof path, "%s/archive/%s.jsonl.zst", state, day);
	packed = file_read(path, &has);
	if (!packed || (long long)has < size) {
		violation("the archive can be read", "%s has %zu bytes, and %lld count", path, has, size);
		free(packed);
		return 0;
	}
	verify(path, day, size);
	text = unpack(day, packed, (size_t)size, &text_size);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		put_line(db, day, line, strlen(line), &sessions);
	if (sessions != expected)
		violation("in one place", "%s has %ld sessions, and the store says %ld", day, sessions,
			expected);
	free(text);
	free(packed);
	return sessions;
}

/* --- the whole --- */

/* What was forgotten of the submits, from the sessions that they became: two of one message do not fit. */
static void put_submits(sqlite3 *db)
{
	static const char who[] =
		"SELECT s.id, c.id, coalesce(s.message_id, json_extract(e.body, '$.payload.in_reply_to')),"
		" coalesce(e.id, -1) FROM sessions s JOIN callers c ON c.caller_id = s.caller_id LEFT JOIN "
		"events e ON e.session = s.id"
		" AND e.type = 'task_accepted' WHERE s.id NOT IN (SELECT session FROM submits WHERE session "
		"IS NOT NULL)";
	sqlite3_stmt *st = NULL;
	char sql[400];

	if (sqlite3_prepare_v2(db, who, -1, &st, NULL) != SQLITE_OK)
		violation("sound store", "%s", sqlite3_errmsg(db));
	while (st && sqlite3_step(st) == SQLITE_ROW) {
		sqlite3_snprintf(sizeof sql, sql,
			"INSERT INTO submits (caller, message_id, received_at, session, answer)"
			" VALUES (%lld, %Q, 'forgotten', %lld, %lld)",
			sqlite3_column_int64(st, 1), sqlite3_column_text(st, 2), sqlite3_column_int64(st, 0),
			sqlite3_column_int64(st, 3));
		if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
			violation("one session a submit", "%s: %s", sqlite3_errmsg(db), sql);
	}
	sqlite3_finalize(st);
}

static sqlite3 *copy(const char *store, const char *out)
{
	sqlite3 *from = NULL, *to = NULL;
	sqlite3_backup *b = NULL;
	int rc = -1;

	if (sqlite3_open_v2(store, &from, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
		sqlite3_open(out, &to) == SQLITE_OK && (b = sqlite3_backup_init(to, "main", from, "main")))
		rc = sqlite3_backup_step(b, -1);
	if (b)
		sqlite3_backup_finish(b);
	if (rc != SQLITE_DONE)
		violation("sound store", "%s cannot be copied: %s", store, sqlite3_errmsg(to ? to : from));
	sqlite3_close(from);
	sqlite3_exec(to, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);
	return to;
}

long whole_make(const char *store, const char *state, const char *out)
{
	sqlite3 *db = copy(store, out);
	sqlite3_stmt *st = NULL;
	long sessions = 0;

	oracle_ask(db, questions, sizeof questions / sizeof questions[0], violation_of_rule, NULL);
	sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
	if (sqlite3_prepare_v2(db, "SELECT day, size, sessions FROM archives", -1, &st, NULL) != SQLITE_OK)
		violation("sound store", "%s", sqlite3_errmsg(db));
	while (st && sqlite3_step(st) == SQLITE_ROW)
		sessions += put_day(db, state, (const char *)sqlite3_column_text(st, 0),
			sqlite3_column_int64(st, 1), (long)sqlite3_column_int64(st, 2));
	sqlite3_finalize(st);
	put_submits(db);
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	sqlite3_close(db);
	return sessions;
}
