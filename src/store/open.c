/* SPDX-License-Identifier: MIT */
/* open.c: the database file: checked, opened, migrated, closed.
 * Owns the pragmas and the order of migrations. Never reads or writes a session. */
#include "store/store_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/crashpoint.h"
#include "base/log.h"
#include "store/migrations.h"
#include "store/wal_vfs.h"

#define APPLICATION_ID 0x68637064 /* "hcpd" */
#define CACHE_KIB 2048

/* While the daemon runs, suspended turns wait for another writer, not the loop. The start is different:
 * after a crash the first program that opens the file, even a reader, repairs its log under a lock. SQLite
 * does not wait for that in all cases, so the whole opening is tried again. */
#define BUSY_MS 50
#define START_TRIES 100

/* The row with the greatest key may have left (retain.c); a key is never given out twice. */
#define GREATEST(table, mark) \
	"SELECT max(coalesce((SELECT max(id) FROM " table \
	"), 0)," \
	" coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = '" mark "'), 0))"

static int exec(struct store *s, const char *text_sql)
{
	return sqlite3_exec(s->db, text_sql, NULL, NULL, NULL);
}

static int64_t query_int(struct store *s, const char *sql, int64_t fallback)
{
	sqlite3_stmt *st;
	int64_t value = fallback;

	if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK)
		return fallback;
	if (sqlite3_step(st) == SQLITE_ROW)
		value = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return value;
}

/* Each step commits with its version number, so a crash in between repeats nothing. */
static int migrate(struct store *s, int from)
{
	char set[64];

	for (int v = from; v < migrations_version; v++) {
		CRASH_POINT(store_before_migration);
		snprintf(set, sizeof set, "PRAGMA user_version = %d", v + 1);
		if (exec(s, "BEGIN IMMEDIATE") != SQLITE_OK || exec(s, migrations_steps[v]) != SQLITE_OK ||
			exec(s, set) != SQLITE_OK || exec(s, "COMMIT") != SQLITE_OK) {
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

	if (sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key = 'instance'", -1, &st, NULL) !=
		SQLITE_OK)
		return -1;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		snprintf(s->instance, sizeof s->instance, "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	if (rc != SQLITE_DONE)
		return rc == SQLITE_ROW ? 0 : -1;
	id_make(s->instance);
	CRASH_POINT(store_before_instance);
	snprintf(insert, sizeof insert, "INSERT INTO meta VALUES ('instance', '%s')", s->instance);
	return exec(s, insert) == SQLITE_OK ? 0 : -1;
}

/* A person who changes rows by hand drops the triggers first, and may forget to make them again. */
static int restore_triggers(struct store *s)
{
	int64_t count = query_int(s, migrations_count_audit_triggers, -1);

	if (count < 0 || count == SCHEMA_AUDIT_TRIGGERS)
		return count < 0 ? -1 : 0;
	if (exec(s,
		    "BEGIN IMMEDIATE; DROP TRIGGER IF EXISTS audit_stays; DROP TRIGGER IF EXISTS "
		    "audit_is_kept;" SQL_AUDIT_STAYS ";" SQL_AUDIT_IS_KEPT "; COMMIT") != SQLITE_OK)
		return -1;
	s->lacked_triggers = true;
	log_warn(
		"the audit's triggers against changes were missing, and were made again: see hcpctl audit "
		"verify");
	return 0;
}

static int prepare_all(struct store *s)
{
	for (int i = 0; i < ST_COUNT; i++)
		if (store_sql[i] != NULL &&
			sqlite3_prepare_v3(s->db, store_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->st[i],
				NULL) != SQLITE_OK)
			return -1;
	return store_prepare_sessions(s) < 0 ? -1 : store_prepare_retain(s);
}

static int unusable(struct store *s)
{
	snprintf(s->error, sizeof s->error, "cannot be used: %s",
		s->db != NULL ? sqlite3_errmsg(s->db) : "out of memory");
	switch (s->db != NULL ? sqlite3_errcode(s->db) & 0xff : SQLITE_NOMEM) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
	case SQLITE_ERROR: return EX_DATAERR;
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_PERM: return EX_CANTCREAT;
	default: return EX_IOERR;
	}
}

/* A file that is not of hcpd, or is too new, must stay unchanged: it is checked read-only, before any
 * pragma. */
static int check_file(struct store *s, const char *path)
{
	int64_t version, application, tables;

	if (access(path, F_OK) != 0)
		return EX_OK; /* to be made */
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		return unusable(s);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	version = query_int(s, "PRAGMA user_version", -1);
	if (version < 0 && (sqlite3_errcode(s->db) & 0xff) == SQLITE_READONLY) {
		/* A crash left a journal, which only a writer can roll back. */
		sqlite3_close(s->db);
		if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
			return unusable(s);
		sqlite3_busy_timeout(s->db, BUSY_MS);
		version = query_int(s, "PRAGMA user_version", -1);
	}
	/* No further query after a failed one: it would replace the error. */
	application = version < 0 ? -1 : query_int(s, "PRAGMA application_id", -1);
	tables = application < 0 ? -1 : query_int(s, "SELECT count(*) FROM sqlite_schema", -1);
	if (tables < 0)
		return unusable(s);
	if (application != APPLICATION_ID && (version != 0 || tables != 0)) {
		snprintf(s->error, sizeof s->error,
			"is a database, but not one of hcpd; name another state_dir");
		return EX_CONFIG;
	}
	if (version > migrations_version) {
		snprintf(s->error, sizeof s->error,
			"has schema %lld, and this hcpd knows %d at most; run the newer hcpd that made it, "
			"or name another state_dir",
			(long long)version, migrations_version);
		return EX_CONFIG;
	}
	sqlite3_close(s->db);
	s->db = NULL;
	return EX_OK;
}

/* Returns a sysexits code; the sentence is in s->error. */
static int open_database(struct store *s, const char *dir, const char *path)
{
	char pragmas[320];
	int64_t version;
	int code = check_file(s, path);

	if (code != EX_OK)
		return code;
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
		    wal_vfs_name()) != SQLITE_OK)
		return unusable(s);
	CRASH_POINT(store_file_open);
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	/* auto_vacuum takes effect only before the first table. Some builds of SQLite overwrite each page of
	 * a deleted row with zeros: a row of 3 MiB would stop the loop for that time. */
	snprintf(pragmas, sizeof pragmas,
		"PRAGMA secure_delete = FAST; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; "
		"PRAGMA synchronous = FULL;"
		"PRAGMA cache_size = -%d; PRAGMA journal_size_limit = 16777216; PRAGMA temp_store = MEMORY;"
		"PRAGMA application_id = %d;",
		CACHE_KIB, APPLICATION_ID);
	if (exec(s, pragmas) != SQLITE_OK)
		return unusable(s);
	CRASH_POINT(store_pragmas_set);
	if ((version = query_int(s, "PRAGMA user_version", -1)) < 0)
		return unusable(s);
	if (migrate(s, (int)version) < 0)
		return EX_IOERR;
	if (prepare_all(s) < 0 || restore_triggers(s) < 0 || load_instance(s) < 0 ||
		store_load_mark(s, dir) < 0)
		return unusable(s);
	CRASH_POINT(store_instance_made);
	wal_vfs_gather(s->db);
	/* A table without rows gives 0. A failed read must not count as 0: keys would be given out twice. */
	s->last_session = query_int(s, GREATEST("sessions", "last_session"), -1);
	s->last_event = s->last_session < 0 ? -1 : query_int(s, GREATEST("events", "last_event"), -1);
	s->last_caller = s->last_event < 0 ? -1 : query_int(s, GREATEST("callers", "last_caller"), -1);
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

	/* Nobody asks SQLite how much memory it has, and to count it takes a lock at each malloc and free.
	 * It has no effect where SQLite is in use already. */
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	for (int tries = START_TRIES; tries > 0; tries--) {
		struct store *s = xcalloc(1, sizeof *s);

		code = open_database(s, dir, path);
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
	store_clear_batch(&s->batch);
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
