/* query.c: the read-only connection, and sessions found by the beginning of their id.
 * Owns how the store is opened beside a daemon that runs, or after one that was killed.
 * Never writes, never migrates, and never opens the file past SQLite: closing such a descriptor would take
 * away the locks that the core's connection, in the same process, holds. */
#include "query/query_private.h"

#include <ctype.h>
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

#include "store/migrations.h"

#define APPLICATION_ID 0x68637064 /* "hcpd" */
#define OLDEST_SCHEMA 10          /* that has every table and column that is asked for here */
#define BUSY_MS 2000              /* who comes first after a crash brings the log in order, under a lock */
#define CACHE_KIB 1024
#define NAMED_MAX 5 /* of the sessions that an ambiguous word may mean */

const char *const query_states[STATE_COUNT] = {
	"PENDING", "RUNNING", "PAUSED", "ABORTING", "COMPLETED", "FAILED", "ABORTED", "REJECTED"};

/* ---- statements ---- */

static int note_error(struct query *q)
{
	snprintf(
		q->error, sizeof q->error, "%s (%d)", sqlite3_errmsg(q->db), sqlite3_extended_errcode(q->db));
	return -1;
}

sqlite3_stmt *query_prepare(struct query *q, const char *sql)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(q->db, sql, -1, &st, NULL) == SQLITE_OK)
		return st;
	note_error(q);
	return NULL;
}

int query_finish(struct query *q, sqlite3_stmt *st, int rc)
{
	int result = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : note_error(q);

	sqlite3_finalize(st);
	return result;
}

static int64_t ask(struct query *q, const char *sql)
{
	sqlite3_stmt *st = query_prepare(q, sql);
	int64_t answer = -1;
	int rc;

	if (st == NULL)
		return -1;
	if ((rc = sqlite3_step(st)) == SQLITE_ROW)
		answer = sqlite3_column_int64(st, 0);
	return query_finish(q, st, rc) < 0 ? -1 : answer;
}

void query_fault(const struct query *q, struct query_error *e)
{
	e->code = "unavailable";
	snprintf(e->message, sizeof e->message, "the store in %.200s cannot be read: %s", q->dir, q->error);
	snprintf(e->next, sizeof e->next,
		"try again; if it stays so, look at the disk and at the daemon's log");
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

/* Whose is it? We may not look, or may look but not write, where SQLite needs to: its index of the log is a
 * file. */
static int refuse_access(char *why, size_t size, const char *path, const char *what)
{
	const struct passwd *pw;
	struct stat st;
	char owner[64] = "its owner";

	if (stat(path, &st) == 0 && (pw = getpwuid(st.st_uid)) != NULL)
		snprintf(owner, sizeof owner, "%.60s", pw->pw_name);
	return refuse(why, size, EX_NOPERM, "%s %s; run this as root or as %s", path, what, owner);
}

static int look_at_files(const char *dir, const char *path, char *why, size_t size)
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
						  "%s has no store yet; start hcpd once, or name "
						  "another configuration with --daemon-config",
						  dir) :
					  refuse(why, size, EX_IOERR, "%s: %s", path, strerror(errno));
	if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0)
		return refuse_access(why, size, path, "may not be read");
	return EX_OK;
}

static int refuse_database(struct query *q, const char *dir, const char *path, char *why, size_t size)
{
	switch (sqlite3_errcode(q->db) & 0xff) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return refuse(why, size, EX_DATAERR, "%s is damaged, or no database: %s", path, q->error);
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		if (faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) < 0)
			return refuse_access(why, size, dir, "must be writable to read the store's log");
		return refuse(why, size, EX_IOERR, "%s needs a writer after a crash: start hcpd once (%s)",
			path, q->error);
	default: return refuse(why, size, EX_IOERR, "%s cannot be read: %s", path, q->error);
	}
}

static int check_schema(struct query *q, const char *dir, const char *path, char *why, size_t size)
{
	int64_t version = ask(q, "PRAGMA user_version"), application;

	application = version < 0 ? -1 : ask(q, "PRAGMA application_id");
	if (application < 0 || ask(q, "SELECT count(*) FROM sqlite_schema") < 0)
		return refuse_database(q, dir, path, why, size);
	if (application != APPLICATION_ID)
		return refuse(why, size, EX_CONFIG, "%s is a database, but not one of hcpd", path);
	if (version > schema_version)
		return refuse(why, size, EX_CONFIG,
			"%s has schema %lld, and this program knows %d at most; "
			"use the programs of the newer version that made it",
			path, (long long)version, schema_version);
	if (version < OLDEST_SCHEMA)
		return refuse(why, size, EX_CONFIG,
			"%s has the old schema %lld; start hcpd once, it brings it up to date", path,
			(long long)version);
	return EX_OK;
}

int query_open(const char *state_dir, struct query **out, char *why, size_t why_size)
{
	struct query *q = xcalloc(1, sizeof *q);
	char path[4096];
	int code;

	snprintf(path, sizeof path, "%s/hcpd.db", state_dir);
	q->dir = xstrdup(state_dir);
	if ((code = look_at_files(state_dir, path, why, why_size)) == EX_OK) {
		if (sqlite3_open_v2(path, &q->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
			SQLITE_OK) {
			if (q->db != NULL)
				note_error(q);
			code = refuse_database(q, state_dir, path, why, why_size);
		} else {
			sqlite3_busy_timeout(q->db, BUSY_MS);
			sqlite3_extended_result_codes(q->db, 1);
			code = check_schema(q, state_dir, path, why, why_size);
		}
	}
	if (code == EX_OK) {
		char pragma[64];

		snprintf(pragma, sizeof pragma, "PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY",
			CACHE_KIB);
		sqlite3_exec(q->db, pragma, NULL, NULL, NULL);
		*out = q;
		return EX_OK;
	}
	query_close(q);
	return code;
}

void query_close(struct query *q)
{
	if (q == NULL)
		return;
	sqlite3_close(q->db);
	buf_fini(&q->item);
	free(q->dir);
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

/* Lower case, or false where no id can begin like that. */
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
