/* verdict.c: the record of what got out, and its comparison with the store.
 * Owns no file but the record's. Never looks into the daemon's memory, never asks its code. */
#include "verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>
#include <uthash.h>

#include "../sweep/chain.h"

enum kind { SUBMITTED, ACKED_SUBMIT, ACKED_ABORT, PUBLISHED, STARTED, TOLD, DECIDED };

struct record {
	enum kind kind;
	int64_t number;
	char a[160], b[160]; /* caller and message_id, or session_id, or request_id and decision */
	size_t size;
	char *bytes;
};

struct verdict {
	struct record *list;
	size_t count, room;
};

/* ---- recording ---- */

struct verdict *verdict_new(void)
{
	return calloc(1, sizeof(struct verdict));
}

void verdict_free(struct verdict *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->list[i].bytes);
	free(v->list);
	free(v);
}

static void record(struct verdict *v, enum kind kind, const char *a, const char *b, int64_t number,
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

void verdict_submitted(struct verdict *v, const char *caller_id, const char *message_id)
{
	record(v, SUBMITTED, caller_id, message_id, 0, "", 0);
}

void verdict_acked_submit(struct verdict *v, const char *caller_id, const char *message_id)
{
	record(v, ACKED_SUBMIT, caller_id, message_id, 0, "", 0);
}

void verdict_acked_abort(struct verdict *v, const char *session_id)
{
	record(v, ACKED_ABORT, session_id, "", 0, "", 0);
}

void verdict_published(struct verdict *v, const char *body, size_t size)
{
	record(v, PUBLISHED, "", "", 0, body, size);
}

void verdict_started(struct verdict *v, const char *session_id, int64_t attempt)
{
	record(v, STARTED, session_id, "", attempt, "", 0);
}

void verdict_told(struct verdict *v, const char *session_id, const char *line, size_t size)
{
	record(v, TOLD, session_id, "", 0, line, size);
}

void verdict_decided(struct verdict *v, const char *request_id, bool allow)
{
	record(v, DECIDED, request_id, allow ? "allow" : "deny", 0, "", 0);
}

/* A header of fixed layout, then the bytes: written and read by one program on one machine. */
bool verdict_save(const struct verdict *v, const char *path)
{
	FILE *f = fopen(path, "w");
	bool ok = f != NULL;

	for (size_t i = 0; ok && i < v->count; i++)
		ok = fwrite(&v->list[i], sizeof v->list[i], 1, f) == 1 &&
			fwrite(v->list[i].bytes, 1, v->list[i].size, f) == v->list[i].size;
	return f != NULL && fclose(f) == 0 && ok;
}

bool verdict_load(struct verdict *v, const char *path)
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

struct hearing {
	const struct verdict *v;
	sqlite3 *db;
	unsigned flags;
	struct message *by_id; /* iterates in the order of the rows */
	int violations;
	char *why;
	size_t why_size, why_used;
};

static void __attribute__((format(printf, 2, 3))) object(struct hearing *h, const char *fmt, ...)
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

static sqlite3_stmt *query(struct hearing *h, const char *sql)
{
	sqlite3_stmt *st = NULL;

	if (sqlite3_prepare_v2(h->db, sql, -1, &st, NULL) != SQLITE_OK)
		object(h, "the store cannot be asked: %s: %.60s", sqlite3_errmsg(h->db), sql);
	return st;
}

static const char *text(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s != NULL ? s : "";
}

static int64_t ask(struct hearing *h, const char *sql, const char *a, const char *b)
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

static const char *in_data(const struct message *m, const char *name)
{
	return member(json_object_get(m->root, "payload"), "data", name);
}

static bool is_final(const char *s)
{
	return strcmp(s, "REJECTED") == 0 || strcmp(s, "ABORTED") == 0 || strcmp(s, "COMPLETED") == 0 ||
		strcmp(s, "FAILED") == 0;
}

static bool is_legal(const char *from, const char *to)
{
	static const char *const legal[][2] = {
		{"PENDING", "RUNNING"},
		{"PENDING", "REJECTED"},
		{"RUNNING", "PAUSED"},
		{"RUNNING", "ABORTING"},
		{"RUNNING", "COMPLETED"},
		{"RUNNING", "FAILED"},
		{"PAUSED", "RUNNING"},
		{"PAUSED", "ABORTING"},
		{"ABORTING", "ABORTED"},
	};

	for (size_t i = 0; i < sizeof legal / sizeof *legal; i++)
		if (strcmp(from, legal[i][0]) == 0 && strcmp(to, legal[i][1]) == 0)
			return true;
	return false;
}

static void load_message(struct hearing *h, sqlite3_stmt *st)
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
		object(h, "stored, and %s: %.200s",
			same != NULL ? "the second of that message_id" : "no message", m->body);
		json_decref(m->root);
		free(m->body);
		free(m->substitute);
		free(m);
		return;
	}
	HASH_ADD_STR(h->by_id, message_id, m);
}

static void load_messages(struct hearing *h)
{
	sqlite3_stmt *st = query(
		h, "SELECT session_id, type, sequence, event_type, body, substitute FROM events ORDER BY id");
	int rc;

	if (st == NULL)
		return;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		load_message(h, st);
	if (rc != SQLITE_DONE)
		object(h, "events cannot be read: %s", sqlite3_errmsg(h->db));
	sqlite3_finalize(st);
}

/* ---- the store by itself ---- */

static void check_integrity(struct hearing *h)
{
	sqlite3_stmt *st = query(h, "PRAGMA integrity_check");

	if (st == NULL)
		return;
	if (sqlite3_step(st) != SQLITE_ROW || strcmp(text(st, 0), "ok") != 0)
		object(h, "integrity_check: %s",
			sqlite3_column_count(st) > 0 && text(st, 0)[0] ? text(st, 0) : sqlite3_errmsg(h->db));
	sqlite3_finalize(st);
}

/* What was written in one transaction is there as a whole. */
static void check_rows(struct hearing *h)
{
	static const struct {
		const char *what, *sql;
	} never[] = {
		{"a session's version is not the number of its transitions",
			"SELECT count(*) FROM sessions s WHERE state_version <> (SELECT count(*) FROM "
			"transitions t WHERE t.session = s.id)"},
		{"a session's version is not the number of its state_changed events",
			"SELECT count(*) FROM sessions s WHERE waits_for IS NULL AND state_version <> "
			"(SELECT count(*) FROM events e WHERE"
			" e.session = s.id AND e.event_type = 'state_changed')"},
		{"something was said of a task that waits, or that was rejected after that",
			"SELECT count(*) FROM sessions s WHERE waits_for IS NOT NULL AND (state NOT IN "
			"('PENDING','REJECTED') OR started_at IS NOT"
			" NULL OR EXISTS (SELECT 1 FROM events e WHERE e.session = s.id))"},
		{"a task that waits was answered, or one that was decided was not",
			"SELECT count(*) FROM submits b JOIN sessions s ON s.id = b.session WHERE (s.state = "
			"'PENDING' AND s.waits_for IS NOT NULL)"
			" <> (b.answer IS NULL)"},
		{"one waits unasked, or is asked about in vain",
			"SELECT count(*) FROM sessions s WHERE (state = 'PENDING' AND waits_for IS 'human') "
			"<> EXISTS (SELECT 1 FROM reviews r"
			" WHERE r.session = s.id AND r.state = 'AWAITING_DECISION')"},
		{"what nobody approved was accepted",
			"SELECT count(*) FROM sessions s WHERE capability = 'lab' AND waits_for IS NULL AND "
			"1 <> (SELECT count(*) FROM reviews r"
			" JOIN decisions d USING (request_id) WHERE r.session = s.id AND r.state = "
			"'EXECUTED' AND d.decision = 'allow' AND d.is_final)"},
		{"what was denied goes on",
			"SELECT count(*) FROM reviews r JOIN sessions s ON s.id = r.session WHERE r.state = "
			"'DENIED' AND s.state <> 'REJECTED'"},
		{"a request was decided twice",
			"SELECT count(*) FROM (SELECT 1 FROM decisions WHERE is_final GROUP BY request_id "
			"HAVING count(*) > 1)"},
		{"a submit was decided on without a row of the audit, or the other way round",
			"SELECT (SELECT count(*) FROM submits) <> (SELECT count(*) FROM audit WHERE "
			"json_extract(entry, '$.what') = 'task')"},
		{"a session's state is not that of its last transition",
			"SELECT count(*) FROM sessions s WHERE state_version > 0 AND state <> (SELECT "
			"to_state FROM transitions t"
			" WHERE t.session = s.id ORDER BY state_version DESC LIMIT 1)"},
		{"sequences have a gap or a double",
			"SELECT count(*) FROM (SELECT 1 FROM events WHERE sequence > 0 GROUP BY session "
			"HAVING min(sequence) <> 1"
			" OR max(sequence) <> count(*) OR count(DISTINCT sequence) <> count(*))"},
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
		{"an end is kept of a session that is over",
			"SELECT count(*) FROM outcomes o JOIN sessions s ON s.id = o.session"
			" WHERE state NOT IN ('PENDING','RUNNING','PAUSED','ABORTING')"},
	};

	for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
		sqlite3_stmt *st = query(h, never[i].sql);

		if (st == NULL)
			continue;
		if (sqlite3_step(st) != SQLITE_ROW || sqlite3_column_int64(st, 0) != 0)
			object(h, "store: %s", never[i].what);
		sqlite3_finalize(st);
	}
}

static void check_transitions(struct hearing *h)
{
	sqlite3_stmt *st = query(h,
		"SELECT session_id, from_state, to_state, state_version FROM transitions"
		" ORDER BY session, state_version");
	char session[64] = "", state[16] = "";
	int64_t version = 0;

	while (st != NULL && sqlite3_step(st) == SQLITE_ROW) {
		if (strcmp(session, text(st, 0)) != 0) {
			snprintf(session, sizeof session, "%s", text(st, 0));
			snprintf(state, sizeof state, "PENDING");
			version = 0;
		}
		if (sqlite3_column_int64(st, 3) != ++version || strcmp(text(st, 1), state) != 0 ||
			!is_legal(state, text(st, 2)))
			object(h, "%.8s: transition %lld from %s to %s after %s", session, (long long)version,
				text(st, 1), text(st, 2), state);
		snprintf(state, sizeof state, "%s", text(st, 2));
	}
	sqlite3_finalize(st);
}

/* ---- a session's stream, as stored ---- */

struct stream {
	char state[16];
	int64_t sequence;
	bool is_accepted, is_closed;
	int results;
};

static void walk_event(struct hearing *h, struct stream *s, const struct message *m)
{
	const json_t *number = json_object_get(json_object_get(m->root, "payload"), "sequence");
	const char *type = member(m->root, "payload", "event_type");

	if (m->sequence != ++s->sequence || json_integer_value(number) != m->sequence ||
		strcmp(type, m->event_type) != 0)
		object(h, "%.8s: event %lld comes as %lld: %.200s", m->session_id, (long long)s->sequence,
			(long long)m->sequence, m->body);
	if (m->sequence == 1 && (strcmp(type, "session_created") != 0 || !s->is_accepted))
		object(h, "%.8s: begins with %s", m->session_id, type);
	if (strcmp(type, "session_created") == 0)
		snprintf(s->state, sizeof s->state, "PENDING");
	if (strcmp(type, "state_changed") == 0) {
		if (strcmp(in_data(m, "from_state"), s->state) != 0 ||
			!is_legal(s->state, in_data(m, "to_state")))
			object(h, "%.8s: the stream goes from %s to %s where it was %s", m->session_id,
				in_data(m, "from_state"), in_data(m, "to_state"), s->state);
		snprintf(s->state, sizeof s->state, "%s", in_data(m, "to_state"));
	}
	if (strcmp(type, "session_closed") == 0) {
		s->is_closed = true;
		if (strcmp(in_data(m, "final_state"), s->state) != 0 || !is_final(s->state))
			object(h, "%.8s: closed as %s in %s", m->session_id, in_data(m, "final_state"),
				s->state);
	}
}

static void check_stream(struct hearing *h, const char *session_id, const char *state)
{
	struct stream s = {.state = ""};

	for (const struct message *m = h->by_id; m != NULL; m = m->hh.next) {
		if (strcmp(m->session_id, session_id) != 0)
			continue;
		if (s.is_closed)
			object(h, "%.8s: after session_closed: %.200s", session_id, m->body);
		if (strcmp(m->type, "event") == 0) {
			walk_event(h, &s, m);
		} else if (strcmp(m->type, "task_accepted") == 0) {
			if (s.is_accepted || s.sequence > 0)
				object(h, "%.8s: a second or late task_accepted", session_id);
			s.is_accepted = true;
		} else {
			s.results++;
			if (strcmp(m->type,
				    strcmp(s.state, "COMPLETED") == 0 ? "task_completed" : "task_failed") !=
					0 ||
				!is_final(s.state))
				object(h, "%.8s: %s in %s", session_id, m->type, s.state);
		}
	}
	if (strcmp(s.state, state) != 0)
		object(h, "%.8s: the stream ends in %s, the row in %s", session_id, s.state, state);
	if (is_final(state) != s.is_closed || (s.is_closed && s.results != (strcmp(state, "ABORTED") != 0)))
		object(h, "%.8s: %s with %d results, %sclosed", session_id, state, s.results,
			s.is_closed ? "" : "not ");
	if ((h->flags & VERDICT_OVER) && !is_final(state))
		object(h, "%.8s: never ended, it is %s", session_id, state);
}

static void check_streams(struct hearing *h)
{
	sqlite3_stmt *st = query(h, "SELECT session_id, state, waits_for FROM sessions ORDER BY id");

	while (st != NULL && sqlite3_step(st) == SQLITE_ROW)
		if (text(st, 2)[0] == '\0')
			check_stream(h, text(st, 0), text(st, 1));
		else if ((h->flags & VERDICT_OVER) && !is_final(text(st, 1)))
			object(h, "%.8s: waits for ever", text(st, 0));
	sqlite3_finalize(st);
}

/* ---- the outside against the store ---- */

/* A message got out: the store has it, byte for byte, and had said everything before it of that session. */
static void check_published(struct hearing *h, const struct record *r)
{
	json_t *root = json_loadb(r->bytes, r->size, JSON_REJECT_DUPLICATES, NULL);
	const char *id = json_string_value(json_object_get(root, "message_id"));
	struct message *m = NULL;

	if (id != NULL)
		HASH_FIND_STR(h->by_id, id, m);
	if (m == NULL)
		object(h, "published and not in the store: %.300s", r->bytes);
	else if (strcmp(r->bytes, m->body) != 0 &&
		(m->substitute == NULL || strcmp(r->bytes, m->substitute) != 0))
		object(h, "published as %.300s\nand stored as %.300s", r->bytes, m->body);
	json_decref(root);
	if (m == NULL || m->is_published)
		return;
	m->is_published = true;
	for (const struct message *p = m->hh.prev; p != NULL; p = p->hh.prev)
		if (m->session_id[0] != '\0' && !p->is_published && strcmp(p->session_id, m->session_id) == 0)
			object(h, "%.8s: %s %s %lld was published before %s %s %lld", m->session_id, m->type,
				m->event_type, (long long)m->sequence, p->type, p->event_type,
				(long long)p->sequence);
}

static void check_told(struct hearing *h, const struct record *r)
{
	json_t *root = json_loadb(r->bytes, r->size, 0, NULL);
	const char *type = json_string_value(json_object_get(root, "type"));
	const char *id = json_string_value(json_object_get(root, "checkpoint_id"));

	if (type != NULL && strcmp(type, "checkpoint_saved") == 0 && id != NULL &&
		ask(h,
			"SELECT count(*) FROM events WHERE event_type = 'checkpoint_created'"
			" AND json_extract(body, '$.payload.data.checkpoint_id') = ?",
			id, NULL) != 1)
		object(h, "%.8s: was told that checkpoint %.8s is saved, and it is not", r->a, id);
	if (type != NULL && strcmp(type, "abort") == 0 &&
		ask(h,
			"SELECT count(*) FROM sessions s WHERE session_id = ? AND (state NOT IN "
			"('PENDING','RUNNING','PAUSED')"
			" OR EXISTS (SELECT 1 FROM outcomes o WHERE o.session = s.id))",
			r->a, NULL) != 1)
		object(h, "%.8s: was told to abort, and the store knows of no end", r->a);
	json_decref(root);
}

/* Once said to be done, it is done, and never said so again. */
static void check_decided(struct hearing *h, const struct record *r)
{
	if (ask(h,
		    "SELECT count(*) FROM decisions d JOIN reviews v USING (request_id) WHERE request_id = "
		    "?1 AND d.decision = ?2"
		    " AND is_final AND v.state = CASE ?2 WHEN 'allow' THEN 'EXECUTED' ELSE 'DENIED' END",
		    r->a, r->b) != 1)
		object(h, "request %.8s: %s was answered as done, and is not in the store", r->a, r->b);
	for (const struct record *p = h->v->list; p < r; p++)
		if (p->kind == DECIDED && strcmp(p->a, r->a) == 0)
			object(h, "request %.8s: a decision was used twice", r->a);
}

static void check_submitted(struct hearing *h, const struct record *r)
{
	int answers = 0;

	for (const struct message *m = h->by_id; m != NULL; m = m->hh.next) {
		bool is_answer =
			strcmp(m->type, "task_accepted") == 0 || strcmp(m->type, "task_rejected") == 0;

		answers += is_answer && strcmp(member(m->root, "payload", "in_reply_to"), r->b) == 0;
	}
	if (answers > 1 || (answers == 0 && (h->flags & VERDICT_OVER)))
		object(h, "submit %s of %s has %d answers", r->b, r->a, answers);
}

#define KNOWN \
	"SELECT count(*) FROM submits s JOIN callers c ON c.id = s.caller WHERE c.caller_id = ? AND " \
	"message_id = ?"

static void check_record(struct hearing *h, const struct record *r)
{
	switch (r->kind) {
	case SUBMITTED: check_submitted(h, r); break;
	case ACKED_SUBMIT:
		if (ask(h, KNOWN, r->a, r->b) != 1)
			object(h, "acked and not in the store: submit %s of %s", r->b, r->a);
		break;
	case ACKED_ABORT:
		if (ask(h,
			    "SELECT count(*) FROM sessions s WHERE session_id = ? AND (state NOT IN "
			    "('PENDING','RUNNING','PAUSED')"
			    " OR EXISTS (SELECT 1 FROM outcomes o WHERE o.session = s.id))",
			    r->a, NULL) != 1)
			object(h, "acked and not in the store: abort of %.8s", r->a);
		break;
	case PUBLISHED: check_published(h, r); break;
	case STARTED:
		if (ask(h, "SELECT attempt FROM sessions WHERE session_id = ? AND state <> 'PENDING'", r->a,
			    NULL) < r->number)
			object(h, "%.8s: started %lld times, and the store knows less", r->a,
				(long long)r->number);
		break;
	case TOLD: check_told(h, r); break;
	case DECIDED: check_decided(h, r); break;
	}
}

static void check_audit(struct hearing *h)
{
	char why[300];

	if (!chain_holds(h->db, why, sizeof why))
		object(h, "the audit's chain: %s", why);
}

static void check_all_published(struct hearing *h)
{
	for (const struct message *m = h->by_id; m != NULL; m = m->hh.next)
		if (!m->is_published)
			object(h, "stored and never published: %.200s", m->body);
}

/* Not even all the tables: nothing can have got out. */
static bool is_empty(struct hearing *h)
{
	sqlite3_stmt *st = h->db != NULL ?
		query(h, "SELECT count(*) FROM sqlite_schema WHERE name = 'decisions'") :
		NULL;
	bool empty = h->db == NULL ||
		(st != NULL && sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) == 0);

	sqlite3_finalize(st);
	for (size_t i = 0; empty && i < h->v->count; i++)
		if (h->v->list[i].kind != SUBMITTED)
			object(h, "the store is empty, and this got out: %s %s %.200s", h->v->list[i].a,
				h->v->list[i].b, h->v->list[i].bytes);
	if (empty && (h->flags & VERDICT_OVER))
		object(h, "the store is empty");
	return empty;
}

int verdict_check(const struct verdict *v, const char *db_path, unsigned flags, char *why, size_t why_size)
{
	struct hearing h = {.v = v, .flags = flags, .why = why, .why_size = why_size};
	struct message *m, *tmp;

	why[0] = '\0';
	if (access(db_path, F_OK) == 0 &&
		sqlite3_open_v2(db_path, &h.db, SQLITE_OPEN_READWRITE, "unix") != SQLITE_OK) {
		object(&h, "%s cannot be opened: %s", db_path, sqlite3_errmsg(h.db));
		sqlite3_close(h.db);
		return h.violations;
	}
	if (h.db != NULL)
		check_integrity(&h);
	if (h.violations == 0 && !is_empty(&h)) {
		load_messages(&h);
		check_rows(&h);
		check_transitions(&h);
		check_streams(&h);
		check_audit(&h);
		for (size_t i = 0; i < v->count && !(flags & VERDICT_LOSSY); i++)
			check_record(&h, &v->list[i]);
		if ((flags & VERDICT_OVER) && !(flags & VERDICT_LOSSY))
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
