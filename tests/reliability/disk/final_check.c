/* SPDX-License-Identifier: MIT */
/* final_check.c: the record of what got out, and its comparison with the store.
 * Owns no file but the record's. Never looks into the daemon's memory, never asks its code. */
#include "final_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>
#include <uthash.h>

#include "support/audit_oracle.h"
#include "support/oracle_store.h"

enum kind { SUBMITTED, ACKED_SUBMIT, ACKED_ABORT, PUBLISHED, STARTED, SENT_LINE, DECIDED };

struct record {
	enum kind kind;
	int64_t number;
	char a[160], b[160]; /* caller and message_id, or session_id, or request_id and decision */
	size_t size;
	char *bytes;
};

struct final_check {
	struct record *list;
	size_t count, room;
};

/* ---- recording ---- */

struct final_check *final_check_new(void)
{
	return calloc(1, sizeof(struct final_check));
}

void final_check_free(struct final_check *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->list[i].bytes);
	free(v->list);
	free(v);
}

static void record(struct final_check *v, enum kind kind, const char *a, const char *b, int64_t number,
	const char *bytes, size_t size)
{
	struct record *r;

	if (v->count == v->room) {
		v->room = v->room ? v->room * 2 : 64;
		if ((v->list = realloc(v->list, v->room * sizeof *v->list)) == NULL)
			abort();
	}
	r = &v->list[v->count++];
	memset(r, 0, sizeof *r);
	r->kind = kind;
	r->number = number;
	snprintf(r->a, sizeof r->a, "%s", a);
	snprintf(r->b, sizeof r->b, "%s", b);
	r->size = size;
	if ((r->bytes = malloc(size + 1)) == NULL)
		abort();
	memcpy(r->bytes, bytes, size);
	r->bytes[size] = '\0';
}

void final_check_submitted(struct final_check *v, const char *caller_id, const char *message_id)
{
	record(v, SUBMITTED, caller_id, message_id, 0, "", 0);
}

void final_check_acked_submit(struct final_check *v, const char *caller_id, const char *message_id)
{
	record(v, ACKED_SUBMIT, caller_id, message_id, 0, "", 0);
}

void final_check_acked_abort(struct final_check *v, const char *session_id)
{
	record(v, ACKED_ABORT, session_id, "", 0, "", 0);
}

void final_check_published(struct final_check *v, const char *body, size_t size)
{
	record(v, PUBLISHED, "", "", 0, body, size);
}

void final_check_started(struct final_check *v, const char *session_id, int64_t attempt)
{
	record(v, STARTED, session_id, "", attempt, "", 0);
}

void final_check_sent_line(struct final_check *v, const char *session_id, const char *line, size_t size)
{
	record(v, SENT_LINE, session_id, "", 0, line, size);
}

void final_check_decided(struct final_check *v, const char *request_id, bool allow)
{
	record(v, DECIDED, request_id, allow ? "allow" : "deny", 0, "", 0);
}

/* A header of fixed layout, then the bytes: written and read by one program on one machine. */
bool final_check_save(const struct final_check *v, const char *path)
{
	FILE *f = fopen(path, "w");
	bool ok = f != NULL;

	for (size_t i = 0; ok && i < v->count; i++)
		ok = fwrite(&v->list[i], sizeof v->list[i], 1, f) == 1 &&
			fwrite(v->list[i].bytes, 1, v->list[i].size, f) == v->list[i].size;
	return f != NULL && fclose(f) == 0 && ok;
}

bool final_check_load(struct final_check *v, const char *path)
{
	FILE *f = fopen(path, "r");
	struct record r;
	bool ok = f != NULL;

	while (ok && fread(&r, sizeof r, 1, f) == 1) {
		char *bytes = malloc(r.size + 1);

		ok = bytes != NULL && fread(bytes, 1, r.size, f) == r.size;
		if (ok)
			record(v, r.kind, r.a, r.b, r.number, bytes, r.size);
		free(bytes);
	}
	return f != NULL && fclose(f) == 0 && ok;
}

/* ---- the store, as it is ---- */

struct message { /* a row of events */
	UT_hash_handle hh;
	char message_id[64], session_id[64], type[32], event_type[32];
	int64_t sequence;
	char *body, *substitute;
	json_t *root;
	bool is_published;
};

struct check {
	const struct final_check *v;
	sqlite3 *db;
	unsigned flags;
	struct message *by_id; /* iterates in the order of the rows */
	int violations;
	char *why;
	size_t why_size, why_used;
};

static void __attribute__((format(printf, 2, 3))) violation(struct check *h, const char *fmt, ...)
{
	va_list ap;
	int n;

	h->violations++;
	if (h->why_used + 2 >= h->why_size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(h->why + h->why_used, h->why_size - h->why_used - 1, fmt, ap);
	va_end(ap);
	h->why_used += (size_t)n < h->why_size - h->why_used - 1 ? (size_t)n : h->why_size - h->why_used - 2;
	h->why[h->why_used++] = '\n';
	h->why[h->why_used] = '\0';
}

static sqlite3_stmt *query(struct check *h, const char *sql)
{
	sqlite3_stmt *st = NULL;

	if (sqlite3_prepare_v2(h->db, sql, -1, &st, NULL) != SQLITE_OK)
		violation(h, "the store cannot be asked: %s: %.60s", sqlite3_errmsg(h->db), sql);
	return st;
}

static const char *text(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s != NULL ? s : "";
}

static int64_t ask(struct check *h, const char *sql, const char *a, const char *b)
{
	sqlite3_stmt *st = query(h, sql);
	int64_t n = -1;

	if (st == NULL)
		return -1;
	sqlite3_bind_text(st, 1, a, -1, SQLITE_STATIC);
	if (b != NULL)
		sqlite3_bind_text(st, 2, b, -1, SQLITE_STATIC);
	if (sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

static const char *member(const json_t *root, const char *a, const char *b)
{
	const json_t *v = json_object_get(json_object_get(root, a), b);

	return json_is_string(v) ? json_string_value(v) : "";
}

static void load_message(struct check *h, sqlite3_stmt *st)
{
	struct message *m = calloc(1, sizeof *m), *same;
	const char *id;

	if (m == NULL)
		abort();
	snprintf(m->session_id, sizeof m->session_id, "%s", text(st, 0));
	snprintf(m->type, sizeof m->type, "%s", text(st, 1));
	m->sequence = sqlite3_column_int64(st, 2);
	snprintf(m->event_type, sizeof m->event_type, "%s", text(st, 3));
	m->body = strdup(text(st, 4));
	m->substitute = sqlite3_column_type(st, 5) != SQLITE_NULL ? strdup(text(st, 5)) : NULL;
	m->root = json_loads(m->body, JSON_REJECT_DUPLICATES, NULL);
	id = json_string_value(json_object_get(m->root, "message_id"));
	snprintf(m->message_id, sizeof m->message_id, "%s", id != NULL ? id : "");
	HASH_FIND_STR(h->by_id, m->message_id, same);
	if (m->root == NULL || id == NULL || same != NULL) {
		violation(h, "stored, and %s: %.200s",
			same != NULL ? "the second of that message_id" : "no message", m->body);
		json_decref(m->root);
		free(m->body);
		free(m->substitute);
		free(m);
		return;
	}
	HASH_ADD_STR(h->by_id, message_id, m);
}

static void load_messages(struct check *h)
{
	sqlite3_stmt *st = query(
		h, "SELECT session_id, type, sequence, event_type, body, substitute FROM events ORDER BY id");
	int rc;

	if (st == NULL)
		return;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		load_message(h, st);
	if (rc != SQLITE_DONE)
		violation(h, "events cannot be read: %s", sqlite3_errmsg(h->db));
	sqlite3_finalize(st);
}

/* ---- the store by itself ---- */

static void check_integrity(struct check *h)
{
	sqlite3_stmt *st = query(h, "PRAGMA integrity_check");

	if (st == NULL)
		return;
	if (sqlite3_step(st) != SQLITE_ROW || strcmp(text(st, 0), "ok") != 0)
		violation(h, "integrity_check: %s",
			sqlite3_column_count(st) > 0 && text(st, 0)[0] ? text(st, 0) : sqlite3_errmsg(h->db));
	sqlite3_finalize(st);
}

/* What was written in one transaction is there as a whole. */
static void check_rows(struct check *h)
{
	static const struct {
		const char *what, *sql;
	} never[] = {
		{"a session's version is not the number of its state_changed events",
			"SELECT count(*) FROM sessions s WHERE waits_for IS NULL AND state_version <> "
			"(SELECT count(*) FROM events e WHERE"
			" e.session = s.id AND e.event_type = 'state_changed')"},
		{"what nobody approved was accepted",
			"SELECT count(*) FROM sessions s WHERE capability = 'lab' AND waits_for IS NULL AND "
			"1 <> (SELECT count(*) FROM reviews r"
			" JOIN decisions d USING (request_id) WHERE r.session = s.id AND r.state = "
			"'EXECUTED' AND d.decision = 'allow' AND d.is_final)"},
		{"a submit was decided on without a row of the audit, or the other way round",
			"SELECT (SELECT count(*) FROM submits) <> (SELECT count(*) FROM audit WHERE "
			"json_extract(entry, '$.what') = 'task')"},
		{"an event belongs to no session",
			"SELECT count(*) FROM events WHERE session IS NOT NULL AND session NOT IN (SELECT id "
			"FROM sessions)"},
		{"a session has no task",
			"SELECT count(*) FROM sessions WHERE id NOT IN (SELECT session FROM tasks)"},
		{"a session has no submit",
			"SELECT count(*) FROM sessions WHERE id NOT IN (SELECT session FROM submits WHERE "
			"session IS NOT NULL)"},
		{"a submit has two sessions",
			"SELECT count(*) FROM (SELECT 1 FROM submits GROUP BY caller, message_id HAVING "
			"count(*) > 1)"},
		{"a submit's answer is not stored",
			"SELECT count(*) FROM submits WHERE answer IS NOT NULL AND answer NOT IN (SELECT id "
			"FROM events)"},
		{"a checkpoint was not told of",
			"SELECT count(*) FROM checkpoints c WHERE NOT EXISTS (SELECT 1 FROM events e WHERE "
			"e.session = c.session"
			" AND e.event_type = 'checkpoint_created' AND json_extract(e.body, "
			"'$.payload.data.checkpoint_id') = c.checkpoint_id)"},
		{"more is confirmed than was ever said",
			"SELECT count(*) FROM callers WHERE confirmed > (SELECT coalesce(max(id), 0) FROM "
			"events)"},
	};

	for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
		sqlite3_stmt *st = query(h, never[i].sql);

		if (st == NULL)
			continue;
		if (sqlite3_step(st) != SQLITE_ROW || sqlite3_column_int64(st, 0) != 0)
			violation(h, "store: %s", never[i].what);
		sqlite3_finalize(st);
	}
}

static void store_violation(void *ctx, const char *rule, const char *what)
{
	violation(ctx, "store: %s: %s", rule, what);
}

/* ---- a session's stream, as stored ---- */

struct walk {
	struct check *h;
	const struct message *now; /* the message that the oracle was given last */
};

static void stream_violation(void *ctx, const char *rule, const char *what)
{
	const struct walk *w = ctx;

	violation(w->h, "%s: %s: %.200s", rule, what, w->now != NULL ? w->now->body : "");
}

static void check_stream(struct check *h, const char *session_id, const char *state)
{
	struct walk w = {.h = h};
	struct oracle_stream s = {.session = session_id, .on_violation = stream_violation, .ctx = &w};

	for (const struct message *m = h->by_id; m != NULL; m = m->hh.next) {
		struct oracle_message read;

		if (strcmp(m->session_id, session_id) != 0)
			continue;
		w.now = m;
		read = oracle_message_of(m->root);
		if (strcmp(read.type, m->type) != 0 || read.sequence != m->sequence ||
			strcmp(read.event_type, m->event_type) != 0)
			violation(h, "%.8s: the row of event %lld does not say what its body says: %.200s",
				m->session_id, (long long)m->sequence, m->body);
		oracle_stream_take(&s, &read);
	}
	w.now = NULL;
	oracle_stream_end(&s, (h->flags & GATE_OVER) || oracle_is_final(state));
	if (strcmp(s.state, state) != 0)
		violation(h, "%.8s: the stream ends in %s, the row in %s", session_id, s.state, state);
}

static void check_streams(struct check *h)
{
	sqlite3_stmt *st = query(h, "SELECT session_id, state, waits_for FROM sessions ORDER BY id");

	while (st != NULL && sqlite3_step(st) == SQLITE_ROW)
		if (text(st, 2)[0] == '\0')
			check_stream(h, text(st, 0), text(st, 1));
		else if ((h->flags & GATE_OVER) && !oracle_is_final(text(st, 1)))
			violation(h, "%.8s: waits for ever", text(st, 0));
	sqlite3_finalize(st);
}

/* ---- the outside against the store ---- */

/* A message got out: the store has it, byte for byte, and had said everything before it of that session. */
static void check_published(struct check *h, const struct record *r)
{
	json_t *root = json_loadb(r->bytes, r->size, JSON_REJECT_DUPLICATES, NULL);
	const char *id = json_string_value(json_object_get(root, "message_id"));
	struct message *m = NULL;

	if (id != NULL)
		HASH_FIND_STR(h->by_id, id, m);
	if (m == NULL)
		violation(h, "published and not in the store: %.300s", r->bytes);
	else if (strcmp(r->bytes, m->body) != 0 &&
		(m->substitute == NULL || strcmp(r->bytes, m->substitute) != 0))
		violation(h, "published as %.300s\nand stored as %.300s", r->bytes, m->body);
	json_decref(root);
	if (m == NULL || m->is_published)
		return;
	m->is_published = true;
	for (const struct message *p = m->hh.prev; p != NULL; p = p->hh.prev)
		if (m->session_id[0] != '\0' && !p->is_published && strcmp(p->session_id, m->session_id) == 0)
			violation(h, "%.8s: %s %s %lld was published before %s %s %lld", m->session_id,
				m->type, m->event_type, (long long)m->sequence, p->type, p->event_type,
				(long long)p->sequence);
}

static void check_told(struct check *h, const struct record *r)
{
	json_t *root = json_loadb(r->bytes, r->size, 0, NULL);
	const char *type = json_string_value(json_object_get(root, "type"));
	const char *id = json_string_value(json_object_get(root, "checkpoint_id"));

	if (type != NULL && strcmp(type, "checkpoint_saved") == 0 && id != NULL &&
		ask(h,
			"SELECT count(*) FROM events WHERE event_type = 'checkpoint_created'"
			" AND json_extract(body, '$.payload.data.checkpoint_id') = ?",
			id, NULL) != 1)
		violation(h, "%.8s: was told that checkpoint %.8s is saved, and it is not", r->a, id);
	if (type != NULL && strcmp(type, "abort") == 0 &&
		ask(h,
			"SELECT count(*) FROM sessions s WHERE session_id = ? AND (state NOT IN "
			"('PENDING','RUNNING','PAUSED')"
			" OR EXISTS (SELECT 1 FROM outcomes o WHERE o.session = s.id))",
			r->a, NULL) != 1)
		violation(h, "%.8s: was told to abort, and the store knows of no end", r->a);
	json_decref(root);
}

/* Once said to be done, it is done, and never said so again. */
static void check_decided(struct check *h, const struct record *r)
{
	if (ask(h,
		    "SELECT count(*) FROM decisions d JOIN reviews v USING (request_id) WHERE request_id = "
		    "?1 AND d.decision = ?2"
		    " AND is_final AND v.state = CASE ?2 WHEN 'allow' THEN 'EXECUTED' ELSE 'DENIED' END",
		    r->a, r->b) != 1)
		violation(h, "request %.8s: %s was answered as done, and is not in the store", r->a, r->b);
	for (const struct record *p = h->v->list; p < r; p++)
		if (p->kind == DECIDED && strcmp(p->a, r->a) == 0)
			violation(h, "request %.8s: a decision was used twice", r->a);
}

static void check_submitted(struct check *h, const struct record *r)
{
	int answers = 0;

	for (const struct message *m = h->by_id; m != NULL; m = m->hh.next) {
		bool is_answer =
			strcmp(m->type, "task_accepted") == 0 || strcmp(m->type, "task_rejected") == 0;

		answers += is_answer && strcmp(member(m->root, "payload", "in_reply_to"), r->b) == 0;
	}
	if (answers > 1 || (answers == 0 && (h->flags & GATE_OVER)))
		violation(h, "submit %s of %s has %d answers", r->b, r->a, answers);
}

#define KNOWN \
	"SELECT count(*) FROM submits s JOIN callers c ON c.id = s.caller WHERE c.caller_id = ? AND " \
	"message_id = ?"

static void check_record(struct check *h, const struct record *r)
{
	switch (r->kind) {
	case SUBMITTED: check_submitted(h, r); break;
	case ACKED_SUBMIT:
		if (ask(h, KNOWN, r->a, r->b) != 1)
			violation(h, "acked and not in the store: submit %s of %s", r->b, r->a);
		break;
	case ACKED_ABORT:
		if (ask(h,
			    "SELECT count(*) FROM sessions s WHERE session_id = ? AND (state NOT IN "
			    "('PENDING','RUNNING','PAUSED')"
			    " OR EXISTS (SELECT 1 FROM outcomes o WHERE o.session = s.id))",
			    r->a, NULL) != 1)
			violation(h, "acked and not in the store: abort of %.8s", r->a);
		break;
	case PUBLISHED: check_published(h, r); break;
	case STARTED:
		if (ask(h, "SELECT attempt FROM sessions WHERE session_id = ? AND state <> 'PENDING'", r->a,
			    NULL) < r->number)
			violation(h, "%.8s: started %lld times, and the store knows less", r->a,
				(long long)r->number);
		break;
	case SENT_LINE: check_told(h, r); break;
	case DECIDED: check_decided(h, r); break;
	}
}

static void check_audit(struct check *h)
{
	char why[300];

	if (!chain_holds(h->db, why, sizeof why))
		violation(h, "the audit's chain: %s", why);
}

static void check_all_published(struct check *h)
{
	for (const struct message *m = h->by_id; m != NULL; m = m->hh.next)
		if (!m->is_published)
			violation(h, "stored and never published: %.200s", m->body);
}

/* Not even all the tables: nothing can have got out. */
static bool is_empty(struct check *h)
{
	sqlite3_stmt *st = h->db != NULL ?
		query(h, "SELECT count(*) FROM sqlite_schema WHERE name = 'decisions'") :
		NULL;
	bool empty = h->db == NULL ||
		(st != NULL && sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) == 0);

	sqlite3_finalize(st);
	for (size_t i = 0; empty && i < h->v->count; i++)
		if (h->v->list[i].kind != SUBMITTED)
			violation(h, "the store is empty, and this got out: %s %s %.200s", h->v->list[i].a,
				h->v->list[i].b, h->v->list[i].bytes);
	if (empty && (h->flags & GATE_OVER))
		violation(h, "the store is empty");
	return empty;
}

int final_check_run(
	const struct final_check *v, const char *db_path, unsigned flags, char *why, size_t why_size)
{
	struct check h = {.v = v, .flags = flags, .why = why, .why_size = why_size};
	struct message *m, *tmp;

	why[0] = '\0';
	if (access(db_path, F_OK) == 0 &&
		sqlite3_open_v2(db_path, &h.db, SQLITE_OPEN_READWRITE, "unix") != SQLITE_OK) {
		violation(&h, "%s cannot be opened: %s", db_path, sqlite3_errmsg(h.db));
		sqlite3_close(h.db);
		return h.violations;
	}
	if (h.db != NULL)
		check_integrity(&h);
	if (h.violations == 0 && !is_empty(&h)) {
		load_messages(&h);
		check_rows(&h);
		oracle_store_check(h.db, store_violation, &h);
		oracle_store_check_decisions(h.db, store_violation, &h);
		check_streams(&h);
		check_audit(&h);
		for (size_t i = 0; i < v->count && !(flags & GATE_LOSSY); i++)
			check_record(&h, &v->list[i]);
		if ((flags & GATE_OVER) && !(flags & GATE_LOSSY))
			check_all_published(&h);
	}
	HASH_ITER(hh, h.by_id, m, tmp) {
		HASH_DEL(h.by_id, m);
		json_decref(m->root);
		free(m->body);
		free(m->substitute);
		free(m);
	}
	sqlite3_close(h.db);
	return h.violations;
}
