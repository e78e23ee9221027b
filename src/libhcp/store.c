/* SPDX-License-Identifier: MIT */
/* store.c: the SQLite file: handled messages, messages that wait, messages to be sent.
 * Owns the tables hcp_*, every SQL statement, and the transaction that on_event works in.
 * Never decides whether a message is due (inbox.c) or answered (pending.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "libhcp/libhcp_private.h"

#define SCHEMA "1"
#define BUSY_MS 5000                 /* another connection of the application may be writing */
#define LOG_PAGES 250                /* then SQLite copies the pages to the database file */
#define LOG_BYTES (LOG_PAGES * 4200) /* a page and its head each */
#define PRUNE_US (24 * 3600 * LIB_SECOND)

static const char schema[] =
	"CREATE TABLE IF NOT EXISTS hcp_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
	/* last_sequence: everything up to it was dealt with */
	"CREATE TABLE IF NOT EXISTS hcp_sessions (session_id TEXT PRIMARY KEY, last_sequence INTEGER NOT "
	"NULL,"
	" callee TEXT, token TEXT, closed INTEGER NOT NULL, updated_us INTEGER NOT NULL) WITHOUT ROWID;"
	/* messages without a sequence that were dealt with */
	"CREATE TABLE IF NOT EXISTS hcp_seen (session_id TEXT NOT NULL, message_id TEXT NOT NULL,"
	" at_us INTEGER NOT NULL, PRIMARY KEY (session_id, message_id)) WITHOUT ROWID;"
	/* messages that came before their turn: sequence 7 stands at place 14, what has none behind it
	 * at 15 */
	"CREATE TABLE IF NOT EXISTS hcp_held (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, place "
	"INTEGER NOT NULL,"
	" message_id TEXT NOT NULL, body BLOB NOT NULL);"
	"CREATE INDEX IF NOT EXISTS hcp_held_by_place ON hcp_held (session_id, place, id);"
	/* submits until they are answered, aborts (those have a session_id) until the broker has them */
	"CREATE TABLE IF NOT EXISTS hcp_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT "
	"NULL UNIQUE,"
	" callee TEXT NOT NULL, session_id TEXT, created_us INTEGER NOT NULL, body BLOB NOT NULL);";

static const char *const sql[LIB_STATEMENTS] = {
	[LIB_BEGIN] = "BEGIN IMMEDIATE",
	[LIB_COMMIT] = "COMMIT",
	[LIB_ROLLBACK] = "ROLLBACK",
	[LIB_SAVEPOINT] = "SAVEPOINT hcp_event",
	[LIB_RELEASE] = "RELEASE hcp_event",
	[LIB_UNDO] = "ROLLBACK TO hcp_event",
	[LIB_GET_SESSION] =
		"SELECT last_sequence, callee, token, closed FROM hcp_sessions WHERE session_id = ?",
	[LIB_PUT_SESSION] =
		"INSERT INTO hcp_sessions (session_id, last_sequence, callee, token, closed, updated_us)"
		" VALUES (?,?,?,?,?,?)"
		" ON CONFLICT (session_id) DO UPDATE SET last_sequence = excluded.last_sequence, callee = "
		"excluded.callee,"
		" token = excluded.token, closed = excluded.closed, updated_us = excluded.updated_us",
	[LIB_GET_SEEN] = "SELECT 1 FROM hcp_seen WHERE session_id = ? AND message_id = ?",
	[LIB_PUT_SEEN] = "INSERT OR REPLACE INTO hcp_seen VALUES (?,?,?)",
	[LIB_GET_HELD] =
		"SELECT 1 FROM hcp_held WHERE session_id = ?1 AND iif(?2 % 2, message_id = ?3, place = ?2)",
	[LIB_PUT_HELD] = "INSERT INTO hcp_held (session_id, place, message_id, body) VALUES (?,?,?,?)",
	[LIB_DROP_HELD] = "DELETE FROM hcp_held WHERE id = ?",
	[LIB_HEAD] = "SELECT id, body FROM hcp_held WHERE session_id = ? ORDER BY place, id LIMIT 1",
	[LIB_HELD_STATS] = "SELECT count(*), min(place), max(place) FROM hcp_held WHERE session_id = ?",
	[LIB_HELD_SESSIONS] = "SELECT DISTINCT session_id FROM hcp_held",
	[LIB_PUT_OUTGOING] =
		"INSERT INTO hcp_outbox (message_id, callee, session_id, created_us, body) VALUES "
		"(?,?,?,?,?)",
	[LIB_DROP_OUTGOING] = "DELETE FROM hcp_outbox WHERE message_id = ?",
	[LIB_NEXT_OUTGOING] =
		"SELECT id, message_id, callee, session_id, created_us FROM hcp_outbox WHERE id > ? ORDER BY "
		"id LIMIT 1",
	[LIB_OUTGOING_BODY] = "SELECT body FROM hcp_outbox WHERE id = ?",
};

/* --- statements --- */

static int fail(struct hcp *h, const char *what)
{
	return lib_fail(h, HCP_E_STORE, "%s: %s (%s); is the disk full, does another program hold it?", what,
		sqlite3_errmsg(h->db), sqlite3_db_filename(h->db, "main"));
}

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
	sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC); /* NULL is NULL */
}

/* 1: a row, and the statement is to be reset by the caller; 0: done; -1. */
static int step(struct hcp *h, enum lib_statement which)
{
	sqlite3_stmt *st = h->st[which];
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		fail(h, "the file cannot be used");
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return rc == SQLITE_DONE ? 0 : -1;
}

static void end(struct hcp *h, enum lib_statement which)
{
	sqlite3_reset(h->st[which]);
	sqlite3_clear_bindings(h->st[which]);
}

int lib_store_do(struct hcp *h, enum lib_statement which)
{
	int rc = sqlite3_step(h->st[which]), status = HCP_OK;

	if (rc != SQLITE_DONE)
		status = fail(h, "the file cannot be used");
	sqlite3_reset(h->st[which]);
	return status;
}

static char *column_copy(sqlite3_stmt *st, int at)
{
	const char *text = (const char *)sqlite3_column_text(st, at);

	return text ? xstrdup(text) : NULL;
}

/* --- opening --- */

/* on_event must not commit: its changes would be stored without the sequence of the message. */
static int on_commit(void *ctx)
{
	return ((const struct hcp *)ctx)->in_callback;
}

/* The file has tokens: it is created with mode 0600 before SQLite opens it. */
static int make_file(struct hcp *h, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return lib_fail(h, HCP_E_STORE, "%s cannot be opened: %s", path, strerror(errno));
	close(fd);
	return HCP_OK;
}

static int run(struct hcp *h, const char *text)
{
	return sqlite3_exec(h->db, text, NULL, NULL, NULL) == SQLITE_OK ?
		HCP_OK :
		fail(h, "the file cannot be set up");
}

static char *get_meta(struct hcp *h, const char *key)
{
	sqlite3_stmt *st;
	char *value = NULL;

	if (sqlite3_prepare_v2(h->db, "SELECT value FROM hcp_meta WHERE key = ?", -1, &st, NULL) != SQLITE_OK)
		return NULL;
	bind_text(st, 1, key);
	if (sqlite3_step(st) == SQLITE_ROW)
		value = column_copy(st, 0);
	sqlite3_finalize(st);
	return value;
}

/* One file belongs to one caller: the sequences of another caller count other streams. */
static int check_meta(struct hcp *h)
{
	char *version = get_meta(h, "schema"), *caller = get_meta(h, "caller_id"), *text;
	int status = HCP_OK;

	if (version && strcmp(version, SCHEMA) != 0) {
		status = lib_fail(h, HCP_E_STORE,
			"the file is of schema %s, and this libhcp knows %s; use a newer libhcp", version,
			SCHEMA);
	} else if (caller && strcmp(caller, h->settings->caller) != 0) {
		status = lib_fail(h, HCP_E_ARGUMENT,
			"the file belongs to caller %s, not to %s; use a file of its own for each", caller,
			h->settings->caller);
	} else if (!caller) {
		text = sqlite3_mprintf("INSERT INTO hcp_meta VALUES ('schema', %Q), ('caller_id', %Q)",
			SCHEMA, h->settings->caller);
		status = text ? run(h, text) : lib_fail(h, HCP_E_STORE, "out of memory");
		sqlite3_free(text);
	}
	free(version);
	free(caller);
	return status;
}

static int prepare_all(struct hcp *h)
{
	for (int i = 0; i < LIB_STATEMENTS; i++)
		if (sqlite3_prepare_v3(h->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &h->st[i], NULL) !=
			SQLITE_OK)
			return fail(h, "the file cannot be used");
	return HCP_OK;
}

/* A file that grows costs the file system more at each sync than one that is written over: the log is made as
 * long as it gets between two checkpoints. What follows its last frame means nothing to SQLite. Its locks are
 * on other files, so closing this one drops none. */
static void lengthen_log(struct hcp *h)
{
	static const char zeros[65536];
	struct buf path = {0};
	off_t at;
	int fd;

	sqlite3_wal_autocheckpoint(h->db, LOG_PAGES);
	buf_addf(&path, "%s-wal", sqlite3_db_filename(h->db, "main"));
	fd = open(buf_text(&path), O_WRONLY | O_CLOEXEC);
	buf_fini(&path);
	if (fd < 0)
		return; /* a file system without shared memory: SQLite has no log there */
	at = lseek(fd, 0, SEEK_END);
	while (at >= 0 && at < LOG_BYTES && pwrite(fd, zeros, sizeof zeros, at) == (ssize_t)sizeof zeros)
		at += (off_t)sizeof zeros;
	close(fd);
}

int lib_store_open(struct hcp *h, const char *path)
{
	int status = make_file(h, path);

	if (status < 0)
		return status;
	if (sqlite3_open_v2(path, &h->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
		status = fail(h, "the file cannot be opened");
		sqlite3_close(h->db);
		h->db = NULL;
		return status;
	}
	sqlite3_busy_timeout(h->db, BUSY_MS);
	sqlite3_commit_hook(h->db, on_commit, h);
	/* FULL: acked means gone from the broker, so a commit must outlast a loss of power. */
	if ((status = run(h, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")) < 0 ||
		(status = run(h, "BEGIN IMMEDIATE")) < 0)
		return status;
	if ((status = run(h, schema)) < 0 || (status = check_meta(h)) < 0) {
		sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
		return status;
	}
	if ((status = run(h, "COMMIT")) < 0 || (status = prepare_all(h)) < 0)
		return status;
	lengthen_log(h);
	lib_store_prune(h, clock_boot_us());
	return lib_store_load_gaps(h);
}

/* The lock is on a file beside the database: closing any descriptor of the database itself would drop
 * SQLite's locks of this process. */
int lib_store_lock(struct hcp *h)
{
	struct buf path = {0};
	int fd, trouble;

	if (h->lock_fd >= 0)
		return HCP_OK;
	buf_addf(&path, "%s-lock", sqlite3_db_filename(h->db, "main"));
	fd = open(buf_text(&path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	trouble = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
	if (trouble == 0)
		h->lock_fd = fd;
	else if (fd >= 0)
		close(fd);
	if (trouble == EWOULDBLOCK)
		lib_fail(h, HCP_E_TAKEN,
			"%s is taken: another program is caller %s with this file; stop that one, or use "
			"another file and caller_id",
			buf_text(&path), h->settings->caller);
	else if (trouble != 0)
		lib_fail(h, HCP_E_STORE, "%s cannot be locked: %s", buf_text(&path), strerror(trouble));
	buf_fini(&path);
	return trouble == 0 ? HCP_OK : trouble == EWOULDBLOCK ? HCP_E_TAKEN : HCP_E_STORE;
}

void lib_store_close(struct hcp *h)
{
	for (int i = 0; i < LIB_STATEMENTS; i++)
		sqlite3_finalize(h->st[i]);
	/* v2: statements that the application still has keep it alive. */
	sqlite3_close_v2(h->db);
	h->db = NULL;
	if (h->lock_fd >= 0)
		close(h->lock_fd); /* the lock goes with it; the file stays, since another program may wait
				      for it */
	h->lock_fd = -1;
}

/* --- the transaction --- */

int lib_store_begin(struct hcp *h)
{
	if (h->in_batch)
		return HCP_OK;
	if (lib_store_do(h, LIB_BEGIN) < 0)
		return HCP_E_STORE;
	h->in_batch = true;
	return HCP_OK;
}

static int put_session(struct hcp *h, const struct lib_session *s)
{
	sqlite3_stmt *st = h->st[LIB_PUT_SESSION];

	bind_text(st, 1, s->id);
	sqlite3_bind_int64(st, 2, s->last);
	bind_text(st, 3, s->callee);
	bind_text(st, 4, s->is_closed ? NULL : s->token);
	sqlite3_bind_int(st, 5, s->is_closed);
	sqlite3_bind_int64(st, 6, clock_wall_us());
	return step(h, LIB_PUT_SESSION);
}

int lib_store_commit(struct hcp *h)
{
	if (!h->in_batch)
		return HCP_OK;
	for (struct lib_session *s = h->dirty; s; s = s->dirty_next)
		if (put_session(h, s) < 0)
			return HCP_E_STORE;
	if (lib_store_do(h, LIB_COMMIT) < 0)
		return HCP_E_STORE;
	h->in_batch = false;
	while (h->dirty) {
		h->dirty->is_dirty = false;
		h->dirty = h->dirty->dirty_next;
	}
	return HCP_OK;
}

void lib_store_rollback(struct hcp *h)
{
	/* SQLite may have rolled back by itself. */
	if (!sqlite3_get_autocommit(h->db) && sqlite3_step(h->st[LIB_ROLLBACK]) != SQLITE_DONE)
		lib_log(h, HCP_LOG_ERROR, "rollback: %s", sqlite3_errmsg(h->db));
	sqlite3_reset(h->st[LIB_ROLLBACK]);
	h->in_batch = false;
}

/* --- sessions --- */

int lib_store_load_session(struct hcp *h, struct lib_session *s)
{
	sqlite3_stmt *st = h->st[LIB_GET_SESSION];
	int rc;

	bind_text(st, 1, s->id);
	if ((rc = step(h, LIB_GET_SESSION)) < 0)
		return HCP_E_STORE;
	if (rc > 0) {
		s->last = sqlite3_column_int64(st, 0);
		s->callee = column_copy(st, 1);
		s->token = column_copy(st, 2);
		s->is_closed = sqlite3_column_int(st, 3) != 0;
		end(h, LIB_GET_SESSION);
	}
	st = h->st[LIB_HELD_STATS];
	bind_text(st, 1, s->id);
	if ((rc = step(h, LIB_HELD_STATS)) < 0)
		return HCP_E_STORE;
	s->held = sqlite3_column_int64(st, 0);
	s->head = sqlite3_column_int64(st, 1);
	s->highest = sqlite3_column_int64(st, 2) / 2;
	end(h, LIB_HELD_STATS);
	if (s->last > s->highest)
		s->highest = s->last;
	return HCP_OK;
}

int lib_store_is_seen(struct hcp *h, const char *session, const char *message_id)
{
	int rc;

	bind_text(h->st[LIB_GET_SEEN], 1, session);
	bind_text(h->st[LIB_GET_SEEN], 2, message_id);
	if ((rc = step(h, LIB_GET_SEEN)) > 0)
		end(h, LIB_GET_SEEN);
	return rc;
}

int lib_store_put_seen(struct hcp *h, const char *session, const char *message_id)
{
	sqlite3_stmt *st = h->st[LIB_PUT_SEEN];

	bind_text(st, 1, session);
	bind_text(st, 2, message_id);
	sqlite3_bind_int64(st, 3, clock_wall_us());
	return step(h, LIB_PUT_SEEN);
}

/* --- messages before their turn --- */

int lib_store_is_held(struct hcp *h, const char *session, int64_t place, const char *message_id)
{
	sqlite3_stmt *st = h->st[LIB_GET_HELD];
	int rc;

	bind_text(st, 1, session);
	sqlite3_bind_int64(st, 2, place);
	bind_text(st, 3, message_id);
	if ((rc = step(h, LIB_GET_HELD)) > 0)
		end(h, LIB_GET_HELD);
	return rc;
}

int lib_store_hold(struct hcp *h, struct lib_session *s, int64_t place, const struct lib_message *n)
{
	sqlite3_stmt *st = h->st[LIB_PUT_HELD];

	bind_text(st, 1, s->id);
	sqlite3_bind_int64(st, 2, place);
	bind_text(st, 3, n->message_id);
	sqlite3_bind_blob64(st, 4, n->body, n->size, SQLITE_STATIC);
	if (step(h, LIB_PUT_HELD) < 0)
		return -1;
	if (s->held++ == 0 || place < s->head)
		s->head = place;
	return 0;
}

int lib_store_head(struct hcp *h, const struct lib_session *s, int64_t *row, struct lib_message **n)
{
	sqlite3_stmt *st = h->st[LIB_HEAD];
	char *body;
	int size, rc;

	bind_text(st, 1, s->id);
	if ((rc = step(h, LIB_HEAD)) <= 0)
		return rc;
	*row = sqlite3_column_int64(st, 0);
	size = sqlite3_column_bytes(st, 1);
	body = xmalloc((size_t)size + 1);
	if (size > 0)
		memcpy(body, sqlite3_column_blob(st, 1), (size_t)size);
	body[size] = '\0';
	*n = lib_message_read(body, (size_t)size); /* NULL only where another program changed the table */
	end(h, LIB_HEAD);
	return 1;
}

int lib_store_drop_held(struct hcp *h, struct lib_session *s, int64_t row)
{
	sqlite3_stmt *st = h->st[LIB_HELD_STATS];

	sqlite3_bind_int64(h->st[LIB_DROP_HELD], 1, row);
	if (step(h, LIB_DROP_HELD) < 0)
		return -1;
	if (--s->held <= 0)
		return 0;
	bind_text(st, 1, s->id);
	if (step(h, LIB_HELD_STATS) < 0)
		return -1;
	s->held = sqlite3_column_int64(st, 0);
	s->head = sqlite3_column_int64(st, 1);
	end(h, LIB_HELD_STATS);
	return 0;
}

int lib_store_load_gaps(struct hcp *h)
{
	char **ids = NULL;
	size_t count = 0;
	int rc, status = HCP_OK;

	while ((rc = step(h, LIB_HELD_SESSIONS)) > 0) {
		ids = xrealloc(ids, (count + 1) * sizeof *ids);
		ids[count++] = column_copy(h->st[LIB_HELD_SESSIONS], 0);
	}
	if (rc < 0)
		status = HCP_E_STORE;
	for (size_t i = 0; i < count; i++) {
		if (ids[i] && !lib_inbox_session(h, ids[i]))
			status = HCP_E_STORE;
		free(ids[i]);
	}
	free(ids);
	return status;
}

/* --- outgoing messages --- */

int lib_store_put_outgoing(struct hcp *h, const char *message_id, const char *callee, const char *session,
	const char *body, size_t size)
{
	sqlite3_stmt *st = h->st[LIB_PUT_OUTGOING];

	bind_text(st, 1, message_id);
	bind_text(st, 2, callee);
	bind_text(st, 3, session);
	sqlite3_bind_int64(st, 4, clock_wall_us());
	sqlite3_bind_blob64(st, 5, body, size, SQLITE_STATIC);
	return step(h, LIB_PUT_OUTGOING);
}

int lib_store_drop_outgoing(struct hcp *h, const char *message_id)
{
	bind_text(h->st[LIB_DROP_OUTGOING], 1, message_id);
	return step(h, LIB_DROP_OUTGOING);
}

int lib_store_next_outgoing(struct hcp *h, int64_t after_row, struct lib_outgoing **out)
{
	sqlite3_stmt *st = h->st[LIB_NEXT_OUTGOING];
	struct lib_outgoing *l;
	const char *id;
	int rc;

	sqlite3_bind_int64(st, 1, after_row);
	if ((rc = step(h, LIB_NEXT_OUTGOING)) <= 0)
		return rc;
	*out = l = xcalloc(1, sizeof *l);
	l->row = sqlite3_column_int64(st, 0);
	id = (const char *)sqlite3_column_text(st, 1);
	memcpy(l->message_id, id, strnlen(id, ID_SIZE - 1));
	l->callee = column_copy(st, 2);
	l->session = column_copy(st, 3);
	l->created_us = sqlite3_column_int64(st, 4);
	end(h, LIB_NEXT_OUTGOING);
	return 1;
}

int lib_store_outgoing_body(struct hcp *h, int64_t row, char **body, size_t *size)
{
	sqlite3_stmt *st = h->st[LIB_OUTGOING_BODY];
	int rc;

	sqlite3_bind_int64(st, 1, row);
	if ((rc = step(h, LIB_OUTGOING_BODY)) <= 0)
		return rc;
	*size = (size_t)sqlite3_column_bytes(st, 0);
	*body = xmalloc(*size + 1);
	if (*size > 0)
		memcpy(*body, sqlite3_column_blob(st, 0), *size);
	(*body)[*size] = '\0';
	end(h, LIB_OUTGOING_BODY);
	return 1;
}

/* --- forgetting --- */

/* Once a day, by a scan: an index by age would cost a write for each batch. After a failure the next try is a
 * day later. */
void lib_store_prune(struct hcp *h, int64_t now_us)
{
	char *text;

	if (h->pruned_at_us && now_us - h->pruned_at_us < PRUNE_US)
		return;
	h->pruned_at_us = now_us;
	text = sqlite3_mprintf(
		"DELETE FROM hcp_sessions WHERE closed AND updated_us < %lld;"
		"DELETE FROM hcp_seen WHERE at_us < %lld AND session_id NOT IN (SELECT session_id FROM "
		"hcp_sessions)",
		(long long)(clock_wall_us() - h->forget_us), (long long)(clock_wall_us() - h->forget_us));
	if (text && sqlite3_exec(h->db, text, NULL, NULL, NULL) != SQLITE_OK)
		lib_log(h, HCP_LOG_WARN, "old sessions cannot be forgotten: %s", sqlite3_errmsg(h->db));
	sqlite3_free(text);
}
