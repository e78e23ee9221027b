/* SPDX-License-Identifier: MIT */
/* harp_listener.c: a listener to harp.sessions, and the check of what it heard: each session begins once,
 * ends once, and says nothing after that; what came is what the store has, row by row; a repetition has the
 * same bytes. The fields are those of HARP-SESSION 0.2, from its text. Acks only what it has kept. Shares no
 * code with the daemon. */
#include "harp_listener.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "violations.h"
#include "stream.h"
#include "support/wire.h"

#define QUEUE "torture.harp"
#define EXCHANGE "harp.sessions"
#define PREFETCH 200

struct event { /* the first copy of one, in the order of arrival */
	char id[40];
	uint64_t hash;
	int kind;
	bool waits; /* for a human: that may come before its start */
	struct event *next;
	UT_hash_handle hh;
};

struct session {
	char id[40];
	struct event *first, **end;
	UT_hash_handle hh;
};

static const struct {
	const char *type, *required, *optional, *time;
} kinds[] = {
	{"session.start", " sessionId eventType createdAt agentHost ", " repoRef metadata ", "createdAt"},
	{"session.status", " sessionId eventType state updatedAt ", " details ", "updatedAt"},
	{"session.snapshot",
		" sessionId eventType snapshotId snapshotType createdAt payload snapshotHashAlg "
		"snapshotHash ",
		" metadata ", "createdAt"},
	{"session.end", " sessionId eventType endedAt reason ", " metadata ", "endedAt"},
};
enum { START, STATUS, SNAPSHOT, END, KINDS };

static struct session *sessions;
static struct event *events;
static struct broker broker; /* a copy: the harness writes its own anew when it restarts one */
static pthread_t thread;
static atomic_bool stopping;

/* --- taking --- */

static bool is_word_of(const char *list, const char *name)
{
	char word[40];

	snprintf(word, sizeof word, " %s ", name);
	return strstr(list, word);
}

/* All that must be there, and nothing that may not. */
static bool fields_are_right(json_t *event, int kind)
{
	int needed = 0;
	const char *name;
	json_t *value;

	for (const char *at = kinds[kind].required; (at = strchr(at + 1, ' '));)
		needed++;
	json_object_foreach(event, name, value) {
		if (is_word_of(kinds[kind].required, name))
			needed--;
		else if (!is_word_of(kinds[kind].optional, name))
			return false;
	}
	return needed == 0;
}

static int kind_of(const char *type)
{
	for (int i = 0; type && i < KINDS; i++)
		if (strcmp(kinds[i].type, type) == 0)
			return i;
	return -1;
}

static struct session *session_of(const char *id)
{
	struct session *s;

	HASH_FIND_STR(sessions, id, s);
	if (s)
		return s;
	s = calloc(1, sizeof *s);
	snprintf(s->id, sizeof s->id, "%s", id);
	s->end = &s->first;
	HASH_ADD_STR(sessions, id, s);
	return s;
}

void harp_listener_take(const char *key, const char *id, const char *body, size_t size)
{
	json_t *event = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);
	const char *type = json_text_at(event, "eventType"), *session = json_text_at(event, "sessionId");
	int kind = kind_of(type);
	uint64_t hash = hash_bytes(body, size);
	char tail[120];
	struct event *e;

	if (kind < 0 || !session || !fields_are_right(event, kind)) {
		violation("told in HARP's words", "under %s: %.*s", key, (int)size, body);
		json_decref(event);
		return;
	}
	snprintf(tail, sizeof tail, ".%s.%s", session, type);
	if (strlen(key) <= strlen(tail) || strcmp(key + strlen(key) - strlen(tail), tail) != 0)
		violation("told in HARP's words", "%s was sent under %s", tail + 1, key);
	HASH_FIND_STR(events, id, e);
	if (e && e->hash != hash)
		violation("told once", "%s came with two contents, the second: %.*s", id, (int)size, body);
	if (!e) {
		struct session *s = session_of(session);
		e = calloc(1, sizeof *e);
		snprintf(e->id, sizeof e->id, "%s", id);
		e->hash = hash;
		e->kind = kind;
		e->waits = kind == STATUS && strcmp(json_text_at(event, "state"), "waiting_approval") == 0;
		*s->end = e;
		s->end = &e->next;
		HASH_ADD_STR(events, id, e);
	}
	json_decref(event);
}

/* --- checking --- */

static void check_session(const struct session *s)
{
	int starts = 0, ends = 0, before = 0;

	for (const struct event *e = s->first; e; e = e->next) {
		if (ends)
			violation(
				"told in order", "%s of %s comes after its end", kinds[e->kind].type, s->id);
		starts += e->kind == START;
		ends += e->kind == END;
		before += !starts && !e->waits && e->kind != END;
	}
	/* One that a human never allowed has waited, and ended. */
	if (starts > 1 || ends != 1 || before)
		violation("told in order",
			"%s began %d times and ended %d times, with %d events before its start", s->id,
			starts, ends, before);
}

/* The rows of a session, in order, are what came. */
static long check_rows(sqlite3 *db, const struct session *s)
{
	const struct event *e = s->first;
	sqlite3_stmt *st = NULL;
	long rows = 0;

	if (sqlite3_prepare_v2(db,
		    "SELECT body, event_type FROM events WHERE type = 'harp' AND session_id = ? ORDER BY id",
		    -1, &st, NULL) != SQLITE_OK)
		violation("sound store", "%s", sqlite3_errmsg(db));
	sqlite3_bind_text(st, 1, s->id, -1, SQLITE_STATIC);
	for (; st && sqlite3_step(st) == SQLITE_ROW; rows++) {
		if (!e ||
			e->hash !=
				hash_bytes(sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0))) {
			violation(e ? "told in order" : "told all of it",
				"event %ld of %s, a %s, is not what came", rows + 1, s->id,
				(const char *)sqlite3_column_text(st, 1));
			break;
		}
		e = e->next;
	}
	if (e && sqlite3_stmt_busy(st) == 0)
		violation("told what is stored", "a %s of %s came, and the store does not have it",
			kinds[e->kind].type, s->id);
	sqlite3_finalize(st);
	return rows;
}

long harp_listener_check(const char *store)
{
	sqlite3_stmt *st = NULL;
	long rows = 0;
	sqlite3 *db;

	if (sqlite3_open_v2(store, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		violation("sound store", "%s cannot be opened", store);
	if (sqlite3_prepare_v2(db, "SELECT DISTINCT session_id FROM events WHERE type = 'harp'", -1, &st,
		    NULL) != SQLITE_OK)
		violation("sound store", "%s", sqlite3_errmsg(db));
	while (st && sqlite3_step(st) == SQLITE_ROW)
		/* of whom nothing came, too */
		(void)session_of((const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	for (struct session *s = sessions; s; s = s->hh.next) {
		check_session(s);
		rows += check_rows(db, s);
	}
	sqlite3_close(db);
	return rows;
}

void harp_listener_forget(void)
{
	struct session *s, *next;
	struct event *e, *after;

	HASH_ITER(hh, sessions, s, next) {
		HASH_DEL(sessions, s);
		free(s);
	}
	HASH_ITER(hh, events, e, after) {
		HASH_DEL(events, e);
		free(e);
	}
}

/* --- listening --- */

static bool consume(amqp_connection_state_t *c)
{
	if (!(*c = wire_connect(&broker)))
		return false;
	amqp_exchange_declare(*c, 1, amqp_cstring_bytes(EXCHANGE), amqp_cstring_bytes("topic"), 0, 1, 0, 0,
		amqp_empty_table);
	if (wire_ok(*c) && wire_declare_queue(*c, QUEUE, amqp_empty_table) &&
		wire_bind(*c, QUEUE, EXCHANGE, "#")) {
		amqp_basic_qos(*c, 1, 0, PREFETCH, 0);
		amqp_basic_consume(
			*c, 1, amqp_cstring_bytes(QUEUE), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
		if (wire_ok(*c))
			return true;
	}
	wire_disconnect(c);
	return false;
}

static bool pump(amqp_connection_state_t c)
{
	struct timeval wait = {.tv_usec = 50000};
	char key[300], id[40];
	uint64_t last = 0;
	amqp_envelope_t e;

	for (int i = 0; i < PREFETCH / 2; i++) {
		amqp_maybe_release_buffers(c);
		amqp_rpc_reply_t r = amqp_consume_message(c, &e, &wait, 0);
		if (r.reply_type != AMQP_RESPONSE_NORMAL && r.library_error == AMQP_STATUS_TIMEOUT)
			break;
		if (r.reply_type != AMQP_RESPONSE_NORMAL)
			return false;
		last = e.delivery_tag;
		snprintf(key, sizeof key, "%.*s", (int)e.routing_key.len, (char *)e.routing_key.bytes);
		snprintf(id, sizeof id, "%.*s", (int)e.message.properties.message_id.len,
			(char *)e.message.properties.message_id.bytes);
		harp_listener_take(key, id, e.message.body.bytes, e.message.body.len);
		amqp_destroy_envelope(&e);
		wait.tv_usec = 0;
	}
	return !last || amqp_basic_ack(c, 1, last, 1) == AMQP_STATUS_OK;
}

static void *listen_to_all(void *arg)
{
	amqp_connection_state_t c = arg;

	while (!stopping) {
		if (!c && !consume(&c))
			usleep(50000);
		else if (!pump(c))
			wire_disconnect(&c);
	}
	while (c && pump(c)) { /* what is still there */
		int messages = 0, consumers;
		if (!queue_look(&broker, QUEUE, &messages, &consumers) || messages == 0)
			break;
	}
	if (c)
		pump(c);
	wire_disconnect(&c);
	return NULL;
}

void harp_listener_begin(struct rig *r)
{
	amqp_connection_state_t c = NULL;

	broker = *r->broker;
	must(consume(&c), "no queue for what is told");
	must(pthread_create(&thread, NULL, listen_to_all, c) == 0, "no thread");
}

void harp_listener_end(void)
{
	stopping = true;
	pthread_join(thread, NULL);
}
