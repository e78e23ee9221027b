/* SPDX-License-Identifier: MIT */
/* oracle.c: what must hold at the end of every test. Reads messages and the store; never talks to anybody. */
#include "oracle.h"
#include "oracle_store.h"
#include "restore.h"

#include <ctype.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The data fields of each event that hcpd itself must give; those of a worker are the worker's. */
static const struct {
	const char *event, *field;
	int kind;
} fields[] = {
	{"session_created", "state", JSON_STRING},
	{"session_created", "risk_level", JSON_STRING},
	{"session_created", "session_token", JSON_STRING},
	{"state_changed", "from_state", JSON_STRING},
	{"state_changed", "to_state", JSON_STRING},
	{"state_changed", "reason", JSON_STRING},
	{"log", "level", JSON_STRING},
	{"log", "message", JSON_STRING},
	{"warning", "code", JSON_STRING},
	{"warning", "message", JSON_STRING},
	{"checkpoint_created", "checkpoint_id", JSON_STRING},
	{"checkpoint_created", "created_at", JSON_STRING},
	{"checkpoint_created", "description", JSON_STRING},
	{"session_closed", "final_state", JSON_STRING},
	{"session_closed", "reason", JSON_STRING},
};
/* --- one message --- */

static bool is_uuid4(const char *s)
{
	for (int i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? s[i] != '-' : !(isdigit((unsigned char)s[i]) || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	}
	return s[36] == 0 && s[14] == '4' && strchr("89ab", s[19]);
}

/* YYYY-MM-DDTHH:MM:SS.mmmZ, and the same second in the property. */
static bool is_stamp(const char *s, uint64_t seconds)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
	struct tm tm = {0};

	if (strlen(s) != sizeof form - 1)
		return false;
	for (size_t i = 0; form[i]; i++)
		if (form[i] == 'd' ? !isdigit((unsigned char)s[i]) : s[i] != form[i])
			return false;
	return strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) && (uint64_t)timegm(&tm) == seconds;
}

static void check_properties(struct note *n)
{
	const char *mid = note_text(n, "message_id");

	must_str(note_text(n, "hcp_version"), "1.0");
	must(mid && is_uuid4(mid), "message_id is no UUID v4: %s", n->body);
	must(n->has_message_id && strcmp(n->message_id, mid) == 0, "property message_id: %s", n->body);
	must(n->has_timestamp &&
			is_stamp(note_text(n, "timestamp") ? note_text(n, "timestamp") : "", n->timestamp),
		"timestamp, in seconds %llu: %s", (unsigned long long)n->timestamp, n->body);
	must_str(n->type, n->kind);
	must_str(n->content_type, "application/json");
	must_str(n->content_encoding, "utf-8");
	must(n->delivery_mode == 2, "not persistent: %s", n->body);
}

static void check_event_data(struct note *n)
{
	json_t *data = note_at(n, "payload.data");

	must(json_is_object(data), "data is no object: %s", n->body);
	must(json_is_integer(note_at(n, "payload.sequence")) && n->sequence >= 1, "sequence: %s", n->body);
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
		if (strcmp(fields[i].event, n->event) == 0)
			must((int)json_typeof(json_object_get(data, fields[i].field) ?
					     json_object_get(data, fields[i].field) :
					     json_null()) == fields[i].kind,
				"%s of %s", fields[i].field, n->body);
}

static void check_message(struct peer *p, struct note *n)
{
	char key[400];
	json_t *session = n->json ? json_object_get(n->json, "session_id") : NULL;
	bool rejected = strcmp(n->kind, "task_rejected") == 0;

	must(json_is_object(n->json), "no JSON object: %.200s", n->body);
	check_properties(n);
	must(json_is_object(note_at(n, "payload")), "payload: %s", n->body);
	if (rejected) {
		must(json_is_null(session) && !n->has_correlation_id, "a rejection has no session: %s",
			n->body);
		must(note_text(n, "payload.reason_code") && note_text(n, "payload.reason_message"), "%s",
			n->body);
		must(json_object_get(note_at(n, "payload"), "in_reply_to"), "in_reply_to: %s", n->body);
	} else {
		must(is_uuid4(n->session), "session_id: %s", n->body);
		must(n->has_correlation_id && strcmp(n->correlation_id, n->session) == 0,
			"correlation_id: %s", n->body);
	}
	snprintf(key, sizeof key, "%s.%s.%s", p->id, rejected ? "-" : n->session, n->kind);
	must_str(n->key, key);
	if (strcmp(n->kind, "event") == 0)
		check_event_data(n);
}

/* --- one session --- */

struct walk {
	struct oracle_stream stream;
	struct note **notes; /* of the session, without repetitions */
	size_t count;
	const struct note *now; /* the message that the oracle was given last */
	const char *token;
};

static void walk_violation(void *ctx, const char *rule, const char *what)
{
	const struct walk *w = ctx;

	must(false, "%s: %s: %s", rule, what, w->now != NULL ? w->now->body : "");
}

static int by_sequence(const void *a, const void *b)
{
	const struct note *x = *(struct note *const *)a, *y = *(struct note *const *)b;

	/* What has no number keeps clear of the events: answers first, results just before the end. */
	long long s = x->sequence, t = y->sequence;
	return s < t ? -1 : s > t;
}

/* What the stream's rules do not know: the fields beside them. */
static void check_fields(struct walk *w, struct note *n)
{
	if (strcmp(n->kind, "task_accepted") == 0) {
		must(note_text(n, "payload.in_reply_to") && note_text(n, "payload.risk_level"), "%s",
			n->body);
		w->token = note_text(n, "payload.session_token");
		must(w->token && w->token[0], "no token: %s", n->body);
	} else if (strcmp(n->kind, "event") != 0) {
		must(json_is_object(note_at(n, "payload.execution_summary")), "execution_summary: %s",
			n->body);
	} else if (strcmp(n->event, "session_created") == 0 && w->token) {
		must_str(note_text(n, "payload.data.session_token"), w->token);
	}
}

static void check_session(struct peer *p, struct walk *w)
{
	if (p->any_order)
		qsort(w->notes, w->count, sizeof *w->notes, by_sequence);
	for (size_t i = 0; i < w->count; i++) {
		struct oracle_message m = oracle_message_of(w->notes[i]->json);

		w->now = w->notes[i];
		check_fields(w, w->notes[i]);
		oracle_stream_take(&w->stream, &m);
	}
	if (!p->lossy)
		oracle_stream_end(&w->stream, !p->may_be_open);
}

/* Repetitions are the same bytes under the same key; the rest goes to its session. */
void oracle_check_peer(struct peer *p)
{
	json_t *seen = json_object(), *sessions = json_object();
	const char *session;
	json_t *list;

	for (size_t i = 0; i < p->note_count; i++) {
		struct note *n = p->notes[i];
		check_message(p, n);
		json_t *before = json_object_get(seen, n->message_id);
		if (before) {
			struct note *first = p->notes[json_integer_value(before)];
			must(first->size == n->size && memcmp(first->body, n->body, n->size) == 0 &&
					strcmp(first->key, n->key) == 0,
				"two versions of one message: %s and %s", first->body, n->body);
			continue;
		}
		json_object_set_new(seen, n->message_id, json_integer((json_int_t)i));
		if (!n->session[0])
			continue;
		if (!(list = json_object_get(sessions, n->session)))
			json_object_set_new(sessions, n->session, list = json_array());
		json_array_append_new(list, json_integer((json_int_t)i));
	}
	json_object_foreach(sessions, session, list) {
		struct walk w = {.count = json_array_size(list)};

		w.stream = (struct oracle_stream){.session = session,
			.on_violation = walk_violation,
			.ctx = &w,
			.any_order = p->any_order,
			.is_lossy = p->lossy};
		w.notes = calloc(w.count, sizeof *w.notes);
		for (size_t i = 0; i < w.count; i++)
			w.notes[i] = p->notes[json_integer_value(json_array_get(list, i))];
		check_session(p, &w);
		free(w.notes);
	}
	json_decref(seen);
	json_decref(sessions);
}

/* --- the store --- */

static sqlite3 *open_store(struct rig *r)
{
	sqlite3 *db;

	if (sqlite3_open_v2(r->db, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		give_up("%s: %s", r->db, sqlite3_errmsg(db));
	sqlite3_busy_timeout(db, 5000);
	return restore_is_due(db) ? restore_copy(db, r) : db; /* also what has left it */
}

static sqlite3_stmt *query(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		give_up("%s: %s", sql, sqlite3_errmsg(db));
	return st;
}

static const char *text_of(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s ? s : "";
}

static void store_violation(void *ctx, const char *rule, const char *what)
{
	(void)ctx;
	must(false, "%s: %s", rule, what);
}

void oracle_check_store(struct rig *r)
{
	sqlite3 *db = open_store(r);

	oracle_store_check(db, store_violation, NULL);
	sqlite3_close(db);
}

/* One walk over the table, since the caller's messages fit in memory and the table need not have our
 * index. */
void oracle_check_history(struct rig *r, struct peer *p)
{
	sqlite3 *db = open_store(r);
	sqlite3_stmt *st = query(db, "SELECT session_id, sequence, body FROM events WHERE sequence > 0");
	json_t *expected = json_object();
	char key[80];

	for (size_t i = 0; i < p->note_count; i++) {
		snprintf(key, sizeof key, "%s %lld", p->notes[i]->session, p->notes[i]->sequence);
		if (p->notes[i]->sequence > 0)
			json_object_set_new(expected, key, json_integer((json_int_t)i));
	}
	while (sqlite3_step(st) == SQLITE_ROW) {
		snprintf(key, sizeof key, "%s %lld", text_of(st, 0), (long long)sqlite3_column_int64(st, 1));
		json_t *at = json_object_get(expected, key);
		if (!at)
			continue;
		struct note *n = p->notes[json_integer_value(at)];
		must((size_t)sqlite3_column_bytes(st, 2) == n->size &&
				memcmp(sqlite3_column_blob(st, 2), n->body, n->size) == 0,
			"the store holds other bytes than were sent: %.*s", sqlite3_column_bytes(st, 2),
			text_of(st, 2));
		json_object_del(expected, key);
	}
	must(json_object_size(expected) == 0, "%zu events were sent that the store does not know",
		json_object_size(expected));
	json_decref(expected);
	sqlite3_finalize(st);
	sqlite3_close(db);
}
