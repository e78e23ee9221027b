/* SPDX-License-Identifier: MIT */
/* reader.c: a read-only connection to the store.
 * Owns how the store is opened beside a running daemon, or after one that was killed. Never writes, never
 * migrates, and never opens the file without SQLite: closing such a descriptor would release the locks of
 * the core's connection, which is in the same process. */
#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/migrations.h"

#define APPLICATION_ID 0x68637064 /* "hcpd" */
#define OLDEST_SCHEMA 10          /* the oldest schema with every table and column that readers use */
#define BUSY_MS 2000              /* after a crash the first reader repairs the log, under a lock */
#define CACHE_KIB 1024

/* ---- statements ---- */

static int set_error(struct store_reader *r)
{
	snprintf(
		r->error, sizeof r->error, "%s (%d)", sqlite3_errmsg(r->db), sqlite3_extended_errcode(r->db));
	return -1;
}

sqlite3_stmt *reader_prepare(struct store_reader *r, const char *sql)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(r->db, sql, -1, &st, NULL) == SQLITE_OK)
		return st;
	set_error(r);
	return NULL;
}

int reader_finish(struct store_reader *r, sqlite3_stmt *st, int rc)
{
	int result = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : set_error(r);

	sqlite3_finalize(st);
	return result;
}

static int64_t get_number(struct store_reader *r, const char *sql)
{
	sqlite3_stmt *st = reader_prepare(r, sql);
	int64_t answer = -1;
	int rc;

	if (st == NULL)
		return -1;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		answer = sqlite3_column_int64(st, 0);
	return reader_finish(r, st, rc) < 0 ? -1 : answer;
}

/* ---- opening ---- */

static int __attribute__((format(printf, 4, 5)))
refuse(char *why, size_t size, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return code;
}

/* Reports the file's owner. This process may not read the file, or may not write where SQLite must: the
 * index of the log is a file. */
static int refuse_access(char *why, size_t size, const char *path, const char *what)
{
	const struct passwd *pw;
	struct stat st;
	char owner[64] = "its owner";

	if (stat(path, &st) == 0 && (pw = getpwuid(st.st_uid)) != NULL)
		snprintf(owner, sizeof owner, "%.60s", pw->pw_name);
	return refuse(why, size, EX_NOPERM, "%s %s; run this as root or as %s", path, what, owner);
}

static int check_files(const char *dir, const char *path, char *why, size_t size)
{
	struct stat st;

	if (stat(dir, &st) < 0 && errno == ENOENT)
		return refuse(why, size, EX_NOINPUT,
			"there is no state directory %s; "
			"name the daemon's configuration, where state_dir stands, with --daemon-config",
			dir);
	if (stat(path, &st) < 0)
		return errno == EACCES  ? refuse_access(why, size, dir, "may not be looked into") :
			errno == ENOENT ? refuse(why, size, EX_NOINPUT,
						  "%s has no store yet; start hcpd once, or name another "
						  "configuration with --daemon-config",
						  dir) :
					  refuse(why, size, EX_IOERR, "%s: %s", path, strerror(errno));
	if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0)
		return refuse_access(why, size, path, "may not be read");
	return EX_OK;
}

static int refuse_database(struct store_reader *r, const char *dir, const char *path, char *why, size_t size)
{
	switch (sqlite3_errcode(r->db) & 0xff) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return refuse(why, size, EX_DATAERR, "%s is damaged, or no database: %s", path, r->error);
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		if (faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) < 0)
			return refuse_access(why, size, dir, "must be writable to read the store's log");
		return refuse(why, size, EX_IOERR, "%s needs a writer after a crash: start hcpd once (%s)",
			path, r->error);
	default: return refuse(why, size, EX_IOERR, "%s cannot be read: %s", path, r->error);
	}
}

static int check_schema(struct store_reader *r, const char *dir, const char *path, char *why, size_t size)
{
	int64_t version = get_number(r, "PRAGMA user_version"), application;

	application = version < 0 ? -1 : get_number(r, "PRAGMA application_id");
	if (application < 0 || get_number(r, "SELECT count(*) FROM sqlite_schema") < 0)
		return refuse_database(r, dir, path, why, size);
	if (application != APPLICATION_ID)
		return refuse(why, size, EX_CONFIG, "%s is a database, but not one of hcpd", path);
	if (version > migrations_version)
		return refuse(why, size, EX_CONFIG,
			"%s has schema %lld, and this program knows %d at most; use the programs of the "
			"newer version that made it",
			path, (long long)version, migrations_version);
	if (version < OLDEST_SCHEMA)
		return refuse(why, size, EX_CONFIG,
			"%s has the old schema %lld; start hcpd once, it brings it up to date", path,
			(long long)version);
	return EX_OK;
}

int reader_open(const char *state_dir, struct store_reader **out, char *why, size_t why_size)
{
	struct store_reader *r = xcalloc(1, sizeof *r);
	char path[4096];
	int code;

	snprintf(path, sizeof path, "%s/hcpd.db", state_dir);
	r->dir = xstrdup(state_dir);
	if ((code = check_files(state_dir, path, why, why_size)) == EX_OK) {
		if (sqlite3_open_v2(path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
			SQLITE_OK) {
			if (r->db != NULL)
				set_error(r);
			code = refuse_database(r, state_dir, path, why, why_size);
		} else {
			sqlite3_busy_timeout(r->db, BUSY_MS);
			sqlite3_extended_result_codes(r->db, 1);
			code = check_schema(r, state_dir, path, why, why_size);
		}
	}
	if (code == EX_OK) {
		char pragma[64];

		snprintf(pragma, sizeof pragma, "PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY",
			CACHE_KIB);
		sqlite3_exec(r->db, pragma, NULL, NULL, NULL);
		*out = r;
		return EX_OK;
	}
	reader_close(r);
	return code;
}

void reader_close(struct store_reader *r)
{
	if (r == NULL)
		return;
	sqlite3_close(r->db);
	free(r->dir);
	free(r);
}
