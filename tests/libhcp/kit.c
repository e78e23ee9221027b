/* SPDX-License-Identifier: MIT */
/* kit.c: the application under test and the stub.
 * Never starts hcpd (rig.c does, where a test wants the real one). */
#include "kit.h"

#include <poll.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "support/rig.h"

static char dir[300], callee[64];
static amqp_connection_state_t wire;
static bool is_listening;

/* --- a test's frame --- */

const struct broker *kit_broker(void)
{
	return broker_shared();
}

void kit_begin(void)
{
	harness_begin();
	snprintf(dir, sizeof dir, "%skit-%d", harness_tmp(), getpid());
	snprintf(callee, sizeof callee, "kit-%d", getpid());
	must(mkdir(dir, 0755) == 0, "%s", dir);
	wire = wire_connect(kit_broker());
	must(wire && wire_declare_exchanges(wire) && wire_confirms(wire), "no broker");
}

void kit_end(void)
{
	char queue[80];

	snprintf(queue, sizeof queue, "hcp.cmd.%s", callee);
	if (is_listening)
		wire_delete_queue(kit_broker(), queue);
	wire_disconnect(&wire);
	tree_remove(dir);
}

const char *kit_path(const char *name)
{
	static char paths[4][400];
	static int turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	return path;
}

const char *kit_callee(void)
{
	return callee;
}

/* --- the application --- */

static void store(struct sqlite3 *db, const struct hcp_event *e)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(db,
		"INSERT INTO got (session, sequence, kind, event, message_id, reply, gap_from, gap_to)"
		" VALUES (?,?,?,?,?,?,?,?)",
		-1, &st, NULL);

	if (rc != SQLITE_OK)
		give_up("got: %s", sqlite3_errmsg(db));
	sqlite3_bind_text(st, 1, e->session_id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, e->sequence);
	sqlite3_bind_int(st, 3, (int)e->kind);
	sqlite3_bind_text(st, 4, e->event_type, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 5, e->message_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 6, e->in_reply_to, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 7, e->gap_from);
	sqlite3_bind_int64(st, 8, e->gap_to);
	rc = sqlite3_step(st);
	sqlite3_finalize(st);
	/* A full disk, and no transaction: both are what some test is about. */
	if (rc != SQLITE_DONE && rc != SQLITE_FULL && rc != SQLITE_CONSTRAINT)
		give_up("got: %s", sqlite3_errmsg(db));
}

static int on_event(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx)
{
	struct app *a = ctx;
	int rc;

	(void)h;
	a->calls++;
	if (a->hook && (rc = a->hook(a, e, db)) != 0)
		return rc;
	store(db, e);
	if (e->kind == HCP_UNDELIVERED)
		return a->keep_trying;
	if (a->refuse > 0 && (!a->refuse_session || strcmp(a->refuse_session, e->session_id) == 0)) {
		a->refuse--;
		return 1;
	}
	return sqlite3_errcode(db) == SQLITE_FULL;
}

static void on_log(void *ctx, enum hcp_level level, const char *text)
{
	struct app *a = ctx;
	size_t used = strlen(a->log);

	a->warnings += level <= HCP_LOG_WARN;
	snprintf(a->log + used, sizeof a->log - used, "%d %s\n", (int)level, text);
}

struct app *app_new(const char *caller)
{
	static int count;
	struct app *a = calloc(1, sizeof *a);

	if (caller)
		snprintf(a->caller, sizeof a->caller, "%s", caller);
	else
		snprintf(a->caller, sizeof a->caller, "app-%d-%d", getpid(), ++count);
	snprintf(a->file, sizeof a->file, "%s", kit_path(a->caller));
	snprintf(a->url, sizeof a->url, "%s", kit_broker()->url);
	snprintf(a->queue, sizeof a->queue, "hcp.evt.%s", a->caller);
	a->o = (struct hcp_options){.url = a->url,
		.caller_id = a->caller,
		.file = a->file,
		.callee = callee,
		.on_event = on_event,
		.ctx = a,
		.on_log = on_log,
		.log_ctx = a,
		.reconnect_max_s = 1,
		.gap_wait_ms = 500};
	return a;
}

int app_try_open(struct app *a)
{
	int status = hcp_open(&a->h, &a->o);

	if (status != HCP_E_STORE && hcp_db(a->h) &&
		sqlite3_exec(hcp_db(a->h),
			"CREATE TABLE IF NOT EXISTS got (n INTEGER PRIMARY KEY, session TEXT,"
			" sequence INTEGER, kind INTEGER, event TEXT, message_id TEXT, reply TEXT, gap_from "
			"INTEGER,"
			" gap_to INTEGER)",
			NULL, NULL, NULL) != SQLITE_OK)
		give_up("got: %s", sqlite3_errmsg(hcp_db(a->h)));
	return status;
}

void app_open(struct app *a)
{
	int status = app_try_open(a);

	must(status == HCP_OK, "%d %s", status, hcp_error(a->h));
}

void app_close(struct app *a)
{
	hcp_close(a->h);
	a->h = NULL;
}

void app_free(struct app *a)
{
	app_close(a);
	wire_delete_queue(kit_broker(), a->queue);
	free(a);
}

long long app_sql(struct app *a, const char *fmt, ...)
{
	long long value = -1;
	sqlite3_stmt *st;
	sqlite3 *db;
	char *text;
	va_list ap;

	va_start(ap, fmt);
	text = sqlite3_vmprintf(fmt, ap);
	va_end(ap);
	if (sqlite3_open_v2(a->file, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
		sqlite3_busy_timeout(db, 5000) != SQLITE_OK ||
		sqlite3_prepare_v2(db, text, -1, &st, NULL) != SQLITE_OK)
		give_up("%s: %s", text, sqlite3_errmsg(db));
	if (sqlite3_step(st) == SQLITE_ROW)
		value = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	sqlite3_free(text);
	return value;
}

bool app_said(struct app *a, const char *text)
{
	return strstr(a->log, text) != NULL;
}

void app_turn(struct app *a)
{
	struct pollfd p = {.fd = hcp_fd(a->h), .events = hcp_events(a->h)};
	int ms = hcp_timeout(a->h);

	poll(&p, 1, ms < 0 || ms > 20 ? 20 : ms);
	hcp_process(a->h);
}

void app_pass(struct app *a, double seconds)
{
	double end = harness_now() + seconds;

	while (harness_now() < end)
		app_turn(a);
}

long long app_count(struct app *a, const char *session)
{
	return session ? app_sql(a, "SELECT count(*) FROM got WHERE session = '%s'", session) :
			 app_sql(a, "SELECT count(*) FROM got");
}

void app_must_have(struct app *a, const char *session, long long count)
{
	long long n = app_sql(a, "SELECT count(*) FROM got WHERE session = '%s' AND sequence > 0", session);
	long long distinct = app_sql(
		a, "SELECT count(DISTINCT sequence) FROM got WHERE session = '%s' AND sequence > 0", session);
	long long highest = app_sql(a, "SELECT max(sequence) FROM got WHERE session = '%s'", session);
	long long disorder = app_sql(a,
		"SELECT count(*) FROM (SELECT sequence, lag(sequence) OVER (ORDER BY n) AS before FROM got"
		" WHERE session = '%s' AND sequence > 0) WHERE before >= sequence",
		session);

	must(n == count && distinct == count && highest == count && disorder == 0,
		"session %s: %lld rows, %lld different, highest %lld, %lld out of order; wanted %lld",
		session, n, distinct, highest, disorder, count);
}

void app_must_be_idle(struct app *a)
{
	int messages = -1, consumers;

	app_close(a);
	/* The broker takes a closed connection's messages back a moment later. */
	wait_until(queue_look(kit_broker(), a->queue, &messages, &consumers) && consumers == 0, WAIT_S, "%s",
		a->queue);
	must(messages == 0, "%d messages left in %s", messages, a->queue);
}

/* --- the stub --- */

char *kit_id(void)
{
	char *text = malloc(37);
	uuid_t id;

	uuid_generate(id);
	uuid_unparse_lower(id, text);
	return text;
}

static void publish(const char *key, const void *body, size_t size)
{
	amqp_basic_properties_t props = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
	int rc = wire ? wire_publish(wire, "hcp.events", key, &props, body, size) : -1;

	if (rc == -1) { /* a test restarted the broker */
		wire_disconnect(&wire);
		wait_until((wire = wire_connect(kit_broker())) && wire_declare_exchanges(wire) &&
				wire_confirms(wire),
			WAIT_S, "the broker for the stub");
		rc = wire_publish(wire, "hcp.events", key, &props, body, size);
	}
	must(rc == 1 || rc == -2, "the broker did not take it: %d", rc);
}

void stub_raw(const char *caller, const void *body, size_t size)
{
	char key[200];

	snprintf(key, sizeof key, "%s.x.event", caller);
	publish(key, body, size);
}

void stub_say(
	const char *caller, const char *session, const char *type, const char *message_id, json_t *payload)
{
	char *id = message_id ? strdup(message_id) : kit_id(), key[300], *body;
	json_t *whole = json_pack("{s:s, s:s, s:s, s:s?, s:s, s:o}", "hcp_version", "1.0", "message_id", id,
		"timestamp", "2026-01-31T12:34:56.789Z", "session_id", session, "type", type, "payload",
		payload);

	snprintf(key, sizeof key, "%s.%s.%s", caller, session ? session : "-", type);
	body = json_dumps(whole, JSON_COMPACT);
	publish(key, body, strlen(body));
	free(body);
	free(id);
	json_decref(whole);
}

void stub_event(const char *caller, const char *session, long long sequence, const char *event_type)
{
	char id[64];

	/* The same event is the same message, as a daemon's repeats are. */
	snprintf(id, sizeof id, "%.8s-%04llx-4000-8000-%012llx", session, sequence & 0xffff, sequence);
	stub_say(caller, session, "event", id,
		J("{'event_type':'%s','sequence':%lld,'data':{'message':'event %lld',"
		  "'percent':%lld.5}}",
			event_type, sequence, sequence, sequence));
}

void stub_events(const char *caller, const char *session, long long from, long long to)
{
	for (long long i = from; i <= to; i++)
		stub_event(caller, session, i, "progress");
}

void stub_listen(void)
{
	char queue[80];

	snprintf(queue, sizeof queue, "hcp.cmd.%s", callee);
	wire_make_queue(kit_broker(), queue, "", "hcp.commands", callee);
	is_listening = true;
}

json_t *stub_hear(void)
{
	char queue[80];
	size_t size;
	char *body;
	json_t *j;

	snprintf(queue, sizeof queue, "hcp.cmd.%s", callee);
	body = wire_get(kit_broker(), queue, &size);
	j = body ? json_loadb(body, size, 0, NULL) : NULL;
	free(body);
	return j;
}

int stub_waiting(void)
{
	int messages = 0, consumers;
	char queue[80];

	snprintf(queue, sizeof queue, "hcp.cmd.%s", callee);
	queue_look(kit_broker(), queue, &messages, &consumers);
	return messages;
}
