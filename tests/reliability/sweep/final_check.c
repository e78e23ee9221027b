/* SPDX-License-Identifier: MIT */
/* final_check.c: the final check of the sweeps. Reads the broker's messages, a copy of the store, the
 * workers' notes and /proc; knows nothing of hcpd's code. Whatever was said, acknowledged, started or told
 * must be in the store at that moment: so it looks whenever hcpd is dead, not only at the end. */
#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/audit_oracle.h"
#include "support/oracle.h"
#include "support/oracle_store.h"
#include "life.h"
#include "support/restore.h"
#include "support/wire.h"

/* A life of the calls has no scenario. */
static bool is_archived(const struct life *l)
{
	return l->scenario && l->scenario->is_archived;
}

static bool is_discarded(const struct life *l)
{
	return l->scenario && l->scenario->is_discarded;
}

/* --- the store, as a copy: looking must not heal it --- */

static void copy_file(const char *from, const char *to)
{
	size_t size;
	char *data = file_read(from, &size);
	FILE *f = data ? fopen(to, "w") : NULL;

	must(!data || (f && fwrite(data, 1, size, f) == size && fclose(f) == 0), "%s: %s", to,
		strerror(errno));
	free(data);
}

/* NULL where it died before there was one, or before it had tables: then nothing can have been said. */
static sqlite3 *open_copy(struct life *l)
{
	char path[700], wal[700];
	const char *copy = rig_path(l->rig, "at-rest-%d.db", l->number);
	sqlite3 *db;

	if (!file_exists(l->rig->db))
		return NULL;
	snprintf(path, sizeof path, "%s", copy);
	copy_file(l->rig->db, path);
	snprintf(wal, sizeof wal, "%s-wal", l->rig->db);
	if (file_exists(wal)) {
		snprintf(path, sizeof path, "%s-wal", copy);
		copy_file(wal, path);
	}
	must(sqlite3_open_v2(copy, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK, "%s: %s", copy,
		sqlite3_errmsg(db));
	return db;
}

static sqlite3_stmt *ask(sqlite3 *db, const char *sql, const char *a, const char *b)
{
	sqlite3_stmt *st;

	must(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	if (a)
		sqlite3_bind_text(st, 1, a, -1, SQLITE_TRANSIENT);
	if (b)
		sqlite3_bind_text(st, 2, b, -1, SQLITE_TRANSIENT);
	return st;
}

/* One number; -1: no row. */
static long long number(sqlite3 *db, const char *sql, const char *a, const char *b)
{
	sqlite3_stmt *st = ask(db, sql, a, b);
	int rc = sqlite3_step(st);
	long long n = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;

	must(rc == SQLITE_ROW || rc == SQLITE_DONE, "%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_finalize(st);
	return n;
}

static void must_be_sound(sqlite3 *db)
{
	sqlite3_stmt *st = ask(db, "PRAGMA integrity_check", NULL, NULL);

	must(sqlite3_step(st) == SQLITE_ROW, "integrity_check: %s", sqlite3_errmsg(db));
	must_str((const char *)sqlite3_column_text(st, 0), "ok");
	sqlite3_finalize(st);
}

/* --- what callers got --- */

/* Everything that left is in the store, byte for byte. */
static void must_hold_what_was_said(struct life *l, sqlite3 *db)
{
	sqlite3_stmt *st = ask(db, "SELECT body, substitute FROM events", NULL, NULL);
	json_t *bodies = json_object();

	while (sqlite3_step(st) == SQLITE_ROW)
		for (int i = 0; i < 2; i++)
			if (sqlite3_column_text(st, i))
				json_object_set_new_nocheck(
					bodies, (const char *)sqlite3_column_text(st, i), json_true());
	sqlite3_finalize(st);
	for (int who = 0; who < WHO_COUNT; who++)
		for (size_t i = 0; l->peers[who] && i < l->peers[who]->note_count; i++)
			/* answers to what never became a session leave without a trace */
			must((is_archived(l) && l->peers[who]->notes[i]->session[0] == '\0') ||
					json_object_get(bodies, l->peers[who]->notes[i]->body),
				"said, and not in the store: %s", l->peers[who]->notes[i]->body);
	json_decref(bodies);
}

/* --- commands --- */

/* The ids of all messages in the command queue. They stay there: a connection that ends gives them back. */
static json_t *look_into_queue(struct life *l)
{
	amqp_connection_state_t c = wire_connect(l->rig->broker);
	json_t *ids = json_object();
	amqp_message_t m;
	char id[160];

	must(c, "no broker");
	for (;;) {
		amqp_rpc_reply_t r = amqp_basic_get(c, 1, amqp_cstring_bytes(l->rig->queue), 0);

		must(r.reply_type == AMQP_RESPONSE_NORMAL, "%s cannot be read", l->rig->queue);
		if (r.reply.id != AMQP_BASIC_GET_OK_METHOD)
			break;
		must(amqp_read_message(c, 1, &m, 0).reply_type == AMQP_RESPONSE_NORMAL, "%s cannot be read",
			l->rig->queue);
		snprintf(id, sizeof id, "%.*s", (int)m.properties.message_id.len,
			(char *)m.properties.message_id.bytes);
		json_object_set_new(ids, id, json_true());
		amqp_destroy_message(&m);
		amqp_maybe_release_buffers(c);
	}
	wire_disconnect(&c);
	return ids;
}

static void must_hold_errand(struct life *l, sqlite3 *db, const struct errand *e, json_t *queued)
{
	/* who leaves is forgotten as a submit first */
	if (!is_archived(l) && e->message_id && e->sent_in > 0 && !json_object_get(queued, e->message_id))
		must(number(db,
			     "SELECT count(*) FROM submits JOIN callers ON callers.id = submits.caller"
			     " WHERE message_id = ?1 AND caller_id = ?2",
			     e->message_id, e->peer->id) == 1,
			"submit %s was acknowledged and is not in the store", e->message_id);
	if (e->abort_id && !json_object_get(queued, e->abort_id))
		must(number(db,
			     "SELECT state IN ('ABORTING','ABORTED','COMPLETED','FAILED') OR"
			     " EXISTS (SELECT 1 FROM outcomes WHERE session = sessions.id) FROM sessions "
			     "WHERE session_id = ?1",
			     errand_session(e), NULL) == 1,
			"abort of %s was acknowledged and is not in the store", errand_session(e));
}

/* What is no longer in the queue was acknowledged. */
static void must_hold_what_was_acknowledged(struct life *l, sqlite3 *db)
{
	int messages = 0, consumers = 1;

	if (!queue_look(l->rig->broker, l->rig->queue, &messages, &consumers)) {
		for (int i = 0; i < l->count; i++)
			must(!l->errands[i].message_id, "the command queue is gone");
		return;
	}
	wait_until(queue_look(l->rig->broker, l->rig->queue, &messages, &consumers) && consumers == 0, WAIT_S,
		"the end of the dead one's consumer");
	json_t *queued = look_into_queue(l);
	for (int i = 0; i < l->count; i++)
		must_hold_errand(l, db, &l->errands[i], queued);
	json_decref(queued);
}

/* --- workers --- */

/* A line that a worker heard says what must have been committed before. */
static void must_hold_what_workers_heard(struct life *l, sqlite3 *db)
{
	for (int i = 0; i < l->count; i++) {
		const struct errand *e = &l->errands[i];
		char *text = file_read(rig_path(l->rig, "notes-%d", i + 1), NULL), *save = NULL;
		long long refusals = 0;

		for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
			line = strtok_r(NULL, "\n", &save)) {
			json_t *j = json_loads(line, 0, NULL);
			const char *type = json_text_at(j, "type"), *id = json_text_at(j, "checkpoint_id");

			if (type && strcmp(type, "checkpoint_saved") == 0)
				must(number(db,
					     "SELECT count(*) FROM events WHERE event_type = "
					     "'checkpoint_created' AND"
					     " json_extract(body, '$.payload.data.checkpoint_id') = ?1",
					     id, NULL) == 1,
					"a worker was told of a checkpoint that is not in the store: %s",
					line);
			if (type && strcmp(type, "abort") == 0)
				must(number(db,
					     "SELECT state IN ('ABORTING','ABORTED','FAILED') OR EXISTS "
					     "(SELECT 1 FROM outcomes WHERE session ="
					     " s.id) FROM sessions s JOIN submits b ON b.session = s.id "
					     "WHERE b.message_id = ?1",
					     e->message_id, NULL) == 1,
					"a worker was told of an abort that is not in the store: %s", line);
			refusals += type && strcmp(type, "action_verdict") == 0 &&
				json_is_false(json_object_get(j, "allowed"));
			json_decref(j);
		}
		must(refusals <= number(db,
					 "SELECT count(*) FROM events JOIN submits USING (session) WHERE "
					 "message_id = ?1 AND event_type ="
					 " 'warning' AND json_extract(body, '$.payload.data.code') IN "
					 "('action_refused','safety_violation')",
					 e->message_id, NULL),
			"a worker was refused %lld actions, and the store knows of less", refusals);
		free(text);
	}
}

static bool is_id(const char *name)
{
	return strlen(name) == 36 && strspn(name, "0123456789abcdef-") == 36;
}

/* A directory with a task in it was made for a process: its session was RUNNING before. */
static void must_hold_what_was_started(struct life *l, sqlite3 *db)
{
	DIR *d = opendir(rig_path(l->rig, "state/work"));
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_id(e->d_name) && file_exists(rig_path(l->rig, "state/work/%s/task.json", e->d_name)))
			must(number(db, "SELECT started_at IS NOT NULL FROM sessions WHERE session_id = ?1",
				     e->d_name, NULL) == 1,
				"a process was about to start for %s, which the store does not know as "
				"RUNNING",
				e->d_name);
	if (d)
		closedir(d);
}

/* --- artifacts --- */

static void hash_file(const char *path, char hex[65])
{
	static unsigned char piece[1 << 20];
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	FILE *f = fopen(path, "r");
	unsigned size = 0;

	must(f, "%s: %s", path, strerror(errno));
	EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
	for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
		EVP_DigestUpdate(ctx, piece, n);
	EVP_DigestFinal_ex(ctx, digest, &size);
	EVP_MD_CTX_free(ctx);
	fclose(f);
	for (unsigned i = 0; i < size; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* A row that has its size has its file, and nothing that was said names another. */
static void must_hold_artifacts(struct life *l, sqlite3 *db)
{
	sqlite3_stmt *st = ask(db,
		"SELECT session_id, name, sha256 FROM artifacts WHERE size_bytes IS NOT NULL", NULL, NULL);

	while (sqlite3_step(st) == SQLITE_ROW) {
		const char *path = rig_path(l->rig, "state/artifacts/%s/%s",
			(const char *)sqlite3_column_text(st, 0), (const char *)sqlite3_column_text(st, 1));
		char hex[65] = "";

		hash_file(path, hex);
		must_str(hex, (const char *)sqlite3_column_text(st, 2));
	}
	sqlite3_finalize(st);
	must(number(db,
		     "SELECT count(*) FROM events, json_each(events.body, '$.payload.artifacts') AS a WHERE "
		     "events.type LIKE 'task_%' AND"
		     " NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.session = events.session AND "
		     "artifacts.name = a.value ->> '$.name' AND"
		     " 'sha256:' || sha256 = a.value ->> '$.checksum' AND size_bytes = a.value ->> "
		     "'$.size_bytes')",
		     NULL, NULL) == 0,
		"a result names an artifact that is not in the store");
}

/* --- processes --- */

static int find_process(const char *mark)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[300];
	size_t size;
	int found = 0;

	while (d && !found && (e = readdir(d))) {
		snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
		char *env = atoi(e->d_name) > 1 ? file_read(path, &size) : NULL;

		if (env && memmem(env, size, mark, strlen(mark) + 1))
			found = atoi(e->d_name);
		free(env);
	}
	if (d)
		closedir(d);
	return found;
}

static void must_have_no_process(const char *session)
{
	char mark[80];

	snprintf(mark, sizeof mark, "HCP_SESSION_ID=%s", session);
	must(find_process(mark) == 0, "process %d lives, and its session %s has ended", find_process(mark),
		session);
}

void final_check_on_end(struct life *l, const struct errand *e)
{
	(void)l;
	if (errand_session(e))
		must_have_no_process(errand_session(e));
}

/* --- the audit --- */

/* No row without its place in the chain, no decision without its row, and none twice. */
static void must_be_audited(struct life *l, sqlite3 *db)
{
	char why[300];

	must(chain_holds(db, why, sizeof why), "the audit's chain is broken: %s", why);
	must(number(db, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.n') <> id", NULL, NULL) == 0,
		"a row out of place");
	must(is_archived(l) ||
			number(db,
				"SELECT (SELECT count(*) FROM submits) = (SELECT count(*) FROM audit WHERE "
				"json_extract(entry, '$.what') ="
				" 'task')",
				NULL, NULL) == 1,
		"a decision without its row, or the other way round");
}

/* --- humans --- */

/* A task that was accepted after waiting was so by a decision that is used up. */
static void must_hold_reviews(sqlite3 *db)
{
	must(number(db,
		     "SELECT count(*) FROM sessions s WHERE message_id IS NOT NULL AND (waits_for IS NULL) "
		     "<> EXISTS (SELECT 1"
		     " FROM reviews r JOIN decisions USING (request_id) WHERE r.session = s.id AND r.state = "
		     "'EXECUTED' AND"
		     " decision = 'allow' AND is_final) AND (waits_for IS NULL) <> EXISTS (SELECT 1 FROM "
		     "audit WHERE"
		     " json_extract(entry, '$.what') = 'verdict' AND json_extract(entry, '$.outcome') = "
		     "'accepted' AND"
		     " json_extract(entry, '$.session') = s.session_id)",
		     NULL, NULL) == 0,
		"accepted without a decision, or the other way round");
}

/* Of what is not done unasked, nothing was; a no was a no; what decided once does not decide again. */
static void must_hold_decisions(struct life *l, sqlite3 *db)
{
	must(number(db,
		     "SELECT count(*) FROM sessions s WHERE capability IN ('lab','kiln') AND (started_at IS "
		     "NOT NULL OR EXISTS"
		     " (SELECT 1 FROM events WHERE session = s.id AND type <> 'task_rejected')) AND 1 <> "
		     "(SELECT count(*) FROM reviews r "
		     "JOIN decisions d USING (request_id)"
		     " WHERE r.session = s.id AND r.state = 'EXECUTED' AND decision = 'allow' AND is_final "
		     "AND d.artifact_hash ="
		     " r.artifact_hash)",
		     NULL, NULL) == 0,
		"something runs that nobody approved");
	must(!l->scenario || !l->scenario->has_policy_program ||
			number(db, "SELECT count(*) FROM sessions WHERE message_id IS NULL", NULL, NULL) == 0,
		"a task was accepted without the policy program");
}

/* --- at rest --- */

static void store_violation(void *ctx, const char *rule, const char *what)
{
	(void)ctx;
	must(false, "%s: %s", rule, what);
}

static void must_be_consistent(struct life *l, sqlite3 *db)
{
	sqlite3_stmt *st;

	must_hold_what_was_said(l, db);
	must_hold_what_was_acknowledged(l, db);
	must_hold_what_workers_heard(l, db);
	must_hold_what_was_started(l, db);
	if (number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'artifacts'", NULL, NULL) == 1)
		must_hold_artifacts(l, db);
	oracle_store_check(db, store_violation, NULL);
	if (number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'reviews'", NULL, NULL) == 1) {
		must_hold_reviews(db);
		must_hold_decisions(l, db);
		oracle_store_check_decisions(db, store_violation, NULL);
	}
	if (number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'audit'", NULL, NULL) == 1)
		must_be_audited(l, db);
	st = ask(db,
		"SELECT session_id FROM sessions WHERE state IN ('COMPLETED','FAILED','ABORTED','REJECTED')",
		NULL, NULL);
	while (sqlite3_step(st) == SQLITE_ROW)
		must_have_no_process((const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
}

void final_check_at_rest(struct life *l)
{
	sqlite3 *db = open_copy(l);

	if (!db)
		return;
	must_be_sound(db);
	if (is_archived(l) &&
		number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'leaving'", NULL, NULL) == 1)
		/* each session is in one of the two places: then all of it can be checked as ever */
		restore_all(db, l->rig);
	if (!is_discarded(l) &&
		number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'sessions'", NULL, NULL) == 1)
		must_be_consistent(l, db);
	sqlite3_close(db);
}

/* --- at the end --- */

static void check_errand(struct life *l, sqlite3 *db, const struct errand *e)
{
	struct note *answer = peer_find_reply(e->peer, e->message_id);
	const char *session = errand_session(e);

	for (size_t i = 0; i < e->peer->note_count; i++) {
		struct note *n = e->peer->notes[i];
		const char *to = note_text(n, "payload.in_reply_to");

		must(!to || strcmp(to, e->message_id) != 0 || strcmp(n->body, answer->body) == 0,
			"two answers to one submit: %s and %s", answer->body, n->body);
	}
	if (!session) {
		must(strstr(e->task->ends, note_text(answer, "payload.reason_code")), "%s, not %s",
			answer->body, e->task->ends);
		return;
	}
	struct note *closed = peer_find(e->peer, session, "event", "session_closed");
	const char *final = note_text(closed, "payload.data.final_state");

	must(strstr(e->task->ends, final), "%s ended %s, not %s", session, final, e->task->ends);
	must(number(db,
		     "SELECT count(*) FROM transitions WHERE session_id = ?1 AND to_state IN"
		     " ('COMPLETED','FAILED','ABORTED','REJECTED')",
		     session, NULL) == 1,
		"one terminal state of %s", session);
	must(number(db, "SELECT state = ?2 FROM sessions WHERE session_id = ?1", session, final) == 1,
		"the store has another end of %s than %s", session, final);
	must(closed->sequence ==
			number(db, "SELECT max(sequence) FROM events WHERE session_id = ?1", session, NULL),
		"session_closed of %s is not its last event", session);
	must_have_no_process(session);
	must(!e->task->inputs || !strstr(e->task->inputs, "'keep'") ||
			number(db,
				"SELECT count(*) FROM events WHERE session_id = ?1"
				" AND json_extract(body, '$.payload.artifacts[0].name') = 'kept'",
				session, NULL) == 1,
		"the result of %s does not name what was kept", session);
	must(!file_exists(rig_path(l->rig, "state/artifacts/%s/.new", session)),
		"half an artifact of %s is left", session);
}

/* Grandchildren told their pids; one of another program may have the number by now. */
static void must_have_no_child(struct life *l, int number_of)
{
	char *text = file_read(rig_path(l->rig, "child-%d", number_of), NULL), path[64];
	char *command;

	if (!text)
		return;
	snprintf(path, sizeof path, "/proc/%d/cmdline", atoi(text));
	command = file_read(path, NULL);
	must(!command || !strstr(command, "sweep/agent"), "grandchild %d of task %d lives", atoi(text),
		number_of);
	free(command);
	free(text);
}

/* What a dying life was handed comes again, maybe to one that is about to stop: of those whose end was
 * told, it may lie there. */
static void must_hold_only_repeats(struct life *l)
{
	json_t *queued = look_into_queue(l), *value;
	const char *id;

	for (int i = 0; i < l->count; i++) {
		json_object_del(queued, l->errands[i].message_id);
		if (l->errands[i].abort_id)
			json_object_del(queued, l->errands[i].abort_id);
		if (l->errands[i].stray_id)
			json_object_del(queued, l->errands[i].stray_id);
	}
	json_object_foreach(queued, id, value)
		give_up("a command was left in the queue: %s", id);
	json_decref(queued);
}

static void must_have_tidied_up(struct life *l, sqlite3 *db)
{
	DIR *d = opendir(rig_path(l->rig, "state/work"));
	struct dirent *e;

	while (d && (e = readdir(d)))
		must(!is_id(e->d_name) ||
				number(db, "SELECT state = 'FAILED' FROM sessions WHERE session_id = ?1",
					e->d_name, NULL) == 1,
			"the directory %s was left behind", e->d_name);
	if (d)
		closedir(d);
}

/* Everything that is in the store for harp.sessions came there, in its order; what came twice is the same. */
static void must_have_told(struct life *l, sqlite3 *db)
{
	sqlite3_stmt *st = ask(db, "SELECT body FROM events WHERE type = 'harp' ORDER BY id", NULL, NULL);
	json_t *came = json_array(), *seen = json_object();
	size_t size, i = 0;
	char *body;

	while ((body = wire_get(l->rig->broker, l->ear, &size))) {
		if (!json_object_get(seen, body))
			json_array_append_new(came, json_string(body));
		json_object_set_new(seen, body, json_true());
		free(body);
	}
	for (; sqlite3_step(st) == SQLITE_ROW; i++) {
		const char *came_here = json_string_value(json_array_get(came, i));

		must(came_here, "told only %zu of it", i);
		must_str(came_here, (const char *)sqlite3_column_text(st, 0));
	}
	must(i == json_array_size(came) && i > 0, "%zu told, %zu stored", json_array_size(came), i);
	sqlite3_finalize(st);
	must(number(db,
		     "SELECT count(*) FROM sessions s WHERE 1 <> (SELECT count(*) FROM events WHERE session "
		     "= s.id AND event_type ="
		     " 'session.start') OR 1 <> (SELECT count(*) FROM events WHERE session = s.id AND "
		     "event_type = 'session.end')",
		     NULL, NULL) == 0,
		"a session did not begin once and end once");
	must(number(db, "SELECT count(*) FROM snapshots WHERE snapshot_type = 'plan'", NULL, NULL) == 4,
		"each snapshot once");
	must(number(db, "SELECT count(*) FROM events WHERE event_type = 'session.snapshot'", NULL, NULL) ==
			number(db, "SELECT count(*) FROM snapshots", NULL, NULL),
		"an event a snapshot");
	json_decref(came);
	json_decref(seen);
}

/* Nothing of them is left, neither a row nor a file; the audit knows that they were. */
static void must_be_gone(struct life *l, sqlite3 *db)
{
	char command[1024];

	must(number(db,
		     "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving) + (SELECT "
		     "count(*) FROM events) + (SELECT"
		     " count(*) FROM tasks) + (SELECT count(*) FROM transitions) + (SELECT count(*) FROM "
		     "checkpoints) + (SELECT count(*)"
		     " FROM artifacts)",
		     NULL, NULL) == 0,
		"something of a session is left");
	/* A spare directory may keep the file of a task, if nothing is in it (workdir.c). */
	snprintf(command, sizeof command,
		"test -z \"$(find %s/artifacts %s/work -type f "
		"! \\( -empty -path '*/work/.spare-task*/task.json' \\) 2>/dev/null)\"",
		l->rig->state, l->rig->state);
	must(system(command) == 0, "a file of a session is left");
	must(number(db, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'task'", NULL,
		     NULL) == l->count,
		"one decision a task");
}

void final_check_at_end(struct life *l)
{
	int messages = -1, consumers = 0, sessions = 0;
	sqlite3 *db = open_copy(l);

	must(db, "no store");
	if (is_discarded(l)) {
		must_be_gone(l, db);
		sqlite3_close(db);
		return;
	}
	if (is_archived(l)) {
		must(number(db, "SELECT count(*) FROM sessions", NULL, NULL) == 0, "somebody did not leave");
		must(!l->has_old_day || !file_exists(rig_path(l->rig, "state/archive/2020-01-01.jsonl.zst")),
			"a day did not expire");
		must(!file_exists(rig_path(l->rig, "state/artifacts/00000000-0000-4000-8000-000000000000")),
			"nor did its artifacts");
		restore_all(db, l->rig);
	}
	for (int i = 0; i < l->count; i++) {
		check_errand(l, db, &l->errands[i]);
		sessions += errand_session(&l->errands[i]) != NULL;
		must_have_no_child(l, i + 1);
	}
	must(number(db, "SELECT count(*) FROM sessions WHERE waits_for IS NULL", NULL, NULL) == sessions,
		"one session a submit");
	must(is_archived(l) || number(db, "SELECT count(*) FROM submits", NULL, NULL) == l->count,
		"one row a submit");
	must(is_archived(l) ||
			number(db,
				"SELECT count(DISTINCT session) FROM submits JOIN sessions s ON s.id = "
				"submits.session WHERE waits_for IS"
				" NULL",
				NULL, NULL) == sessions,
		"one submit a session");
	must(number(db, "SELECT count(*) FROM outcomes", NULL, NULL) == 0, "an outcome is left");
	must(number(db, "SELECT count(*) FROM artifacts WHERE size_bytes IS NULL", NULL, NULL) == 0,
		"an artifact never came in");
	must(number(db, "SELECT count(*) FROM unroutable", NULL, NULL) == 0,
		"something is still taken for unroutable");
	wait_until(queue_look(l->rig->broker, l->rig->queue, &messages, &consumers) && consumers == 0, 2.0,
		"the end of its consumer");
	must_hold_only_repeats(l);
	must_have_tidied_up(l, db);
	if (l->scenario && l->scenario->is_told)
		must_have_told(l, db);
	sqlite3_close(db);
}
