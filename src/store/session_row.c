/* SPDX-License-Identifier: MIT */
/* session_row.c: the statements that write and read a session's row, made from the list in session_row.h.
 * Owns their texts, which are built once at the opening, and the order of their values. Never decides what a
 * row says, and knows no other table. */
#include "store/store_private.h"

#include <stddef.h>
#include <string.h>

#include "store/migrations.h"

enum kind { INTEGER, FLAG, REAL, TEXT, LIST };
enum when { PUT = 1, EMPTY = 2, SAVE = 4, ACCEPT = 8, LOAD = 16 };

struct column {
	const char *name;
	enum kind kind;
	unsigned when;
	size_t at; /* of the member */
};

#define COLUMN(name, kind, when) {#name, kind, when, offsetof(struct store_session, name)},
static const struct column columns[] = {SESSION_COLUMNS(COLUMN)};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* What EMPTY writes. */
static const char *const empty_values[] = {[INTEGER] = "0", [FLAG] = "0", [REAL] = "0.0", [LIST] = "'[]'"};

/* ---- the texts ---- */

static int prepare(struct store *s, enum statement which, struct buf *sql)
{
	int rc = sqlite3_prepare_v3(s->db, buf_text(sql), -1, SQLITE_PREPARE_PERSISTENT, &s->st[which], NULL);

	buf_fini(sql);
	return rc == SQLITE_OK ? 0 : -1;
}

static int prepare_put(struct store *s)
{
	struct buf sql = {0}, values = {0};

	buf_add_text(&sql, "INSERT INTO sessions (id");
	for (const struct column *c = columns; c < columns + COLUMNS; c++) {
		if (!(c->when & (PUT | EMPTY)))
			continue;
		buf_addf(&sql, ", %s", c->name);
		buf_addf(&values, ",%s", c->when & PUT ? "?" : empty_values[c->kind]);
	}
	buf_addf(&sql, ") VALUES (?%s)", buf_text(&values));
	buf_fini(&values);
	return prepare(s, ST_PUT_SESSION, &sql);
}

static int prepare_update(struct store *s, enum statement which, enum when when)
{
	struct buf sql = {0};
	int n = 1;

	buf_add_text(&sql, "UPDATE sessions SET");
	for (const struct column *c = columns; c < columns + COLUMNS; c++)
		if (c->when & when) {
			buf_addf(&sql, "%s %s = ?%d", n > 1 ? "," : "", c->name, n + 1);
			n++;
		}
	buf_add_text(&sql, " WHERE id = ?1");
	return prepare(s, which, &sql);
}

static int prepare_load(struct store *s)
{
	struct buf sql = {0};

	buf_add_text(&sql, "SELECT id, (SELECT max(sequence) FROM events WHERE session = sessions.id)");
	for (const struct column *c = columns; c < columns + COLUMNS; c++)
		if (c->when & LOAD)
			buf_addf(&sql, ", %s", c->name);
	buf_add_text(&sql, " FROM sessions WHERE " SQL_IS_LIVE " ORDER BY id");
	return prepare(s, ST_LOAD_LIVE, &sql);
}

int store_prepare_sessions(struct store *s)
{
	return prepare_put(s) < 0 || prepare_update(s, ST_SAVE_SESSION, SAVE) < 0 ||
			prepare_update(s, ST_ACCEPT_SESSION, ACCEPT) < 0 || prepare_load(s) < 0 ?
		-1 :
		0;
}

/* ---- values ---- */

static void set_value(struct batch *b, struct value *v, enum kind kind, const void *member)
{
	const char *text;

	switch (kind) {
	case INTEGER: *v = (struct value){.kind = V_INT, .i = *(const int64_t *)member}; break;
	case FLAG: *v = (struct value){.kind = V_INT, .i = *(const bool *)member}; break;
	case REAL: *v = (struct value){.kind = V_REAL, .r = *(const double *)member}; break;
	case TEXT:
	case LIST:
		text = *(const char *const *)member;
		if (text == NULL && kind == LIST)
			text = "[]";
		store_set_text(b, v, V_TEXT, text, text != NULL ? strlen(text) : 0);
		break;
	}
}

/* Appends one statement with the values of the row that it writes, in the order of the list. */
static void add_row(struct store *s, enum statement which, enum when when, const struct store_session *r)
{
	struct value *v = store_add_op(s, which, 1 + COLUMNS);
	unsigned count = 0;

	v[count++] = (struct value){.kind = V_INT, .i = r->key};
	for (const struct column *c = columns; c < columns + COLUMNS; c++)
		if (c->when & when)
			set_value(&s->batch, &v[count++], c->kind, (const char *)r + c->at);
	store_trim_op(s, count);
}

void store_put_session(struct store *s, const struct store_session *r, const char *task, size_t task_size)
{
	add_row(s, ST_PUT_SESSION, PUT, r);
	store_add(s, ST_PUT_TASK, "is", r->key, task, task_size);
}

void store_save_session(struct store *s, const struct store_session *r)
{
	add_row(s, ST_SAVE_SESSION, SAVE, r);
}

void store_accept_session(struct store *s, const struct store_session *r)
{
	add_row(s, ST_ACCEPT_SESSION, ACCEPT, r);
}

static void get_value(sqlite3_stmt *st, int n, enum kind kind, void *member)
{
	switch (kind) {
	case INTEGER: *(int64_t *)member = sqlite3_column_int64(st, n); break;
	case FLAG: *(bool *)member = sqlite3_column_int(st, n) != 0; break;
	case REAL: *(double *)member = sqlite3_column_double(st, n); break;
	case TEXT:
	case LIST: *(const char **)member = (const char *)sqlite3_column_text(st, n); break;
	}
}

void store_read_session(sqlite3_stmt *st, struct store_session *row)
{
	int n = 2;

	memset(row, 0, sizeof *row);
	row->key = sqlite3_column_int64(st, 0);
	row->sequence = sqlite3_column_int64(st, 1);
	for (const struct column *c = columns; c < columns + COLUMNS; c++)
		if (c->when & LOAD)
			get_value(st, n++, c->kind, (char *)row + c->at);
}
