/* SPDX-License-Identifier: MIT */
/* restore.c: reads the archive's files with libzstd alone, as far as the store says that they count.
 * Knows the lines: {"archive":1,...}, then {"table":...,"row":{...}}. */
#include "restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/evp.h>
#include <zstd.h>

static long long number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st;
	long long n = 0;

	must(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	if (sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

bool restore_is_due(sqlite3 *db)
{
	return number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'archives'") > 0 &&
		number(db, "SELECT count(*) FROM archives") > 0;
}

static void bind(sqlite3_stmt *st, int n, const json_t *v)
{
	const json_t *base64 = json_object_get(v, "base64");

	if (json_is_string(v)) {
		sqlite3_bind_text(st, n, json_string_value(v), (int)json_string_length(v), SQLITE_TRANSIENT);
	} else if (json_is_integer(v)) {
		sqlite3_bind_int64(st, n, json_integer_value(v));
	} else if (json_is_real(v)) {
		sqlite3_bind_double(st, n, json_real_value(v));
	} else if (base64) {
		size_t size = json_string_length(base64), padding = 0;
		unsigned char *bytes = malloc(size + 1);
		int got = size ?
			EVP_DecodeBlock(bytes, (const unsigned char *)json_string_value(base64), (int)size) :
			0;

		while (padding < size && json_string_value(base64)[size - 1 - padding] == '=')
			padding++;
		must(got >= 0, "bytes that are no base64");
		sqlite3_bind_blob(st, n, bytes, got - (int)padding, SQLITE_TRANSIENT);
		free(bytes);
	} else {
		sqlite3_bind_null(st, n);
	}
}

/* A session's own row must not be there; of the others some may be left of one that is on its way out. */
static void put_row(sqlite3 *db, const char *table, json_t *row)
{
	char sql[2000], marks[200] = "";
	bool is_itself = strcmp(table, "sessions") == 0;
	size_t n =
		(size_t)snprintf(sql, sizeof sql, "INSERT %s INTO %s (", is_itself ? "" : "OR IGNORE", table);
	const char *name;
	sqlite3_stmt *st;
	json_t *v;
	int i = 0, rc;

	json_object_foreach(row, name, v) {
		n += (size_t)snprintf(sql + n, sizeof sql - n, "%s%s", i ? "," : "", name);
		strcat(marks, i++ ? ",?" : "?");
	}
	snprintf(sql + n, sizeof sql - n, ") VALUES (%s)", marks);
	must(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	i = 0;
	json_object_foreach(row, name, v)
		bind(st, ++i, v);
	rc = sqlite3_step(st);
	must(rc == SQLITE_DONE, "a session is archived, and twice: %s: %s", table, sqlite3_errmsg(db));
	sqlite3_finalize(st);
	/* Numbers of rows that left may be given out again, but for those of sessions and events; what is
	 * really there is known by more than its number. */
	if (sqlite3_changes(db) == 0 && strcmp(table, "events") != 0 && json_object_del(row, "id") == 0)
		put_row(db, table, row);
}

static void take_line(sqlite3 *db, const char *line, size_t size, long long *count)
{
	json_t *j = json_loadb(line, size, JSON_ALLOW_NUL, NULL);
	const char *table = json_string_value(json_object_get(j, "table"));

	must(j, "no line of the archive: %.300s", line);
	*count += json_integer_value(json_object_get(j, "archive")) == 1;
	if (table)
		put_row(db, table, json_object_get(j, "row"));
	json_decref(j);
}

/* As zstdcat does: frame after frame, and those that may be skipped are. */
static char *unpack(const char *data, size_t size, size_t *length, const char *day)
{
	ZSTD_DCtx *unpacker = ZSTD_createDCtx();
	ZSTD_inBuffer in = {data, size, 0};
	char *text = NULL;
	size_t left = 0;
	FILE *f = open_memstream(&text, length);

	while (in.pos < size) {
		static char piece[1 << 17];
		ZSTD_outBuffer out = {piece, sizeof piece, 0};

		left = ZSTD_decompressStream(unpacker, &out, &in);
		must(!ZSTD_isError(left), "the archive of %s is damaged: %s", day, ZSTD_getErrorName(left));
		fwrite(piece, 1, out.pos, f);
	}
	must(left == 0, "the archive of %s ends within a frame", day);
	fclose(f);
	ZSTD_freeDCtx(unpacker);
	return text;
}

static void take_file(sqlite3 *db, struct rig *r, const char *day, long long size, long long sessions)
{
	size_t there = 0, length = 0;
	char path[500], *data, *text, *end;
	long long count = 0;

	snprintf(path, sizeof path, "%s/archive/%s.jsonl.zst", r->state, day);
	data = file_read(path, &there);
	must(data && there >= (size_t)size, "%s has %zu bytes, not %lld", path, there, size);
	text = unpack(data, (size_t)size, &length, day);
	for (char *at = text; at < text + length; at = end + 1) {
		must((end = memchr(at, '\n', (size_t)(text + length - at))),
			"half a line in the archive: %.300s", at);
		take_line(db, at, (size_t)(end - at), &count);
	}
	must(count == sessions, "the archive of %s has %lld sessions, not %lld", day, count, sessions);
	free(text);
	free(data);
}

void restore_all(sqlite3 *db, struct rig *r)
{
	sqlite3_stmt *st;

	if (!restore_is_due(db))
		return;
	must(sqlite3_prepare_v2(db, "SELECT day, size, sessions FROM archives WHERE size > 0", -1, &st,
		     NULL) == SQLITE_OK,
		"archives");
	while (sqlite3_step(st) == SQLITE_ROW) {
		char day[32];

		snprintf(day, sizeof day, "%s", (const char *)sqlite3_column_text(st, 0));
		take_file(db, r, day, sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2));
	}
	sqlite3_finalize(st);
	must(number(db, "SELECT count(*) FROM leaving WHERE session NOT IN (SELECT id FROM sessions)") == 0,
		"a session leaves that is not in the archive");
}

sqlite3 *restore_copy(sqlite3 *db, struct rig *r)
{
	sqlite3 *copy;
	sqlite3_backup *b;

	must(sqlite3_open(":memory:", &copy) == SQLITE_OK, "no memory");
	must((b = sqlite3_backup_init(copy, "main", db, "main")), "%s", sqlite3_errmsg(copy));
	must(sqlite3_backup_step(b, -1) == SQLITE_DONE, "%s", sqlite3_errmsg(copy));
	sqlite3_backup_finish(b);
	sqlite3_close(db);
	restore_all(copy, r);
	return copy;
}

static void put(unsigned char *to, unsigned long long n, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(n >> 8 * i);
}

bool restore_make_day(struct rig *r, const char *day)
{
	static const char id[] = "00000000-0000-4000-8000-000000000000";
	unsigned char entry[1000] = {0};
	char text[200], path[500], sql[200], command[1200];
	int length = snprintf(text, sizeof text, "{\"archive\":1,\"session_id\":\"%s\"}\n", id);
	size_t frame = ZSTD_compress(entry + 100, sizeof entry - 100, text, (size_t)length, 1);
	sqlite3 *db;
	FILE *f;
	bool is_known;

	if (!file_exists(r->db))
		return false;
	put(entry, 0x184D2A5C, 4);
	put(entry + 4, 92, 4);
	memcpy(entry + 8, "HCPA\1\0\0\0", 8);
	put(entry + 16, frame, 8);
	put(entry + 24, (unsigned)length, 8);
	memcpy(entry + 32, id, 36);
	EVP_Digest(entry + 100, frame, entry + 68, NULL, EVP_sha256(), NULL);
	must(sqlite3_open(r->db, &db) == SQLITE_OK, "%s", r->db);
	snprintf(sql, sizeof sql, "INSERT INTO archives VALUES ('%s', %zu, 1)", day, 100 + frame);
	is_known = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
	sqlite3_close(db);
	if (!is_known) /* its first run made no tables */
		return false;
	snprintf(command, sizeof command,
		"mkdir -p -m 700 %s/archive %s/artifacts/%s && touch %s/artifacts/%s/a", r->state, r->state,
		id, r->state, id);
	must(system(command) == 0, "%s", command);
	snprintf(path, sizeof path, "%s/archive/%s.jsonl.zst", r->state, day);
	must((f = fopen(path, "w")) && fwrite(entry, 1, 100 + frame, f) == 100 + frame && fclose(f) == 0,
		"%s", path);
	return true;
}
