/* SPDX-License-Identifier: MIT */
/* final_check.c: everything is healed and at rest: is what was promised true?
 * Reads the whole database through the store watch's connection, and the broker's and the workers' records.
 */
#include "store_watch.h"

#include <jansson.h>
#include <sqlite3.h>

#include "support/oracle_store.h"

static sqlite3 *db;

struct stream { /* a session as its messages show it */
	struct oracle_stream rules;
	int64_t artifacts; /* that its result names */
};

static struct stream streams[ORDERS_MAX + 2];
static int64_t old_sessions, old_messages; /* checked before, and perhaps gone by now */
static size_t old_orders;
static unsigned answers[ORDERS_MAX]; /* how many different ones each command got */

static int64_t number(const char *sql)
{
	sqlite3_stmt *st;
	int64_t n;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
		violation("%s: %s", sql, sqlite3_errmsg(db));
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

static const char *word(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

/* ---- streams ---- */

/* proves L2-04 */
static void stream_violation(void *ctx, const char *rule, const char *what)
{
	violation("%s: %s: %s", rule, what, *(const char **)ctx);
}

static int code_bit(const char *code)
{
	static const char *const codes[] = {"", "unauthorized", "forbidden", "invalid_input", "risk_too_high",
		"unknown_capability", "unsupported_version", "resource_unavailable", "policy_denied",
		"approval_denied", "approval_expired"};

	for (int i = 0; i < (int)(sizeof codes / sizeof *codes); i++)
		if (strcmp(codes[i], code) == 0)
			return i;
	violation("rejected with %s", code);
}

/* Each way in which the policy program can fail is a denial. */
static const struct {
	const char *text;
	enum covered what;
} whys[] = {
	{"did not answer in time", PROGRAM_SILENT},
	{"died before it answered", PROGRAM_DIED},
	{"is not running", PROGRAM_DOWN},
	{"neither allow nor deny", PROGRAM_UNCLEAR},
	{"no policy program any more", PROGRAM_REMOVED},
};

/* An answer counts for each command that it may be the answer to. */
static void read_answer(const char *caller, const json_t *payload, const char *body)
{
	const char *id = word(payload, "in_reply_to"), *code = word(payload, "reason_code");
	unsigned allowed = 0;
	int bit = code_bit(code);

	cover((enum covered)((int)CODE_ACCEPTED + bit));
	for (size_t i = 0; i < sizeof whys / sizeof *whys; i++)
		if (strstr(word(payload, "reason_message"), whys[i].text) != NULL)
			cover(whys[i].what);
	for (size_t i = 0; i < sim.order_count; i++) {
		const struct order *o = &sim.orders[i];

		if (!o->is_submit || o->expect == EXPECT_DROP || strcmp(o->caller, caller) != 0 ||
			strcmp(o->message_id, id) != 0)
			continue;
		answers[i]++;
		allowed |= o->codes;
	}
	if ((allowed & 1u << bit) == 0)
		violation("nothing that %s submitted can be answered so: %s", caller, body);
}

/* Nothing comes after session_closed. proves L2-15 */
static void read_message(int64_t session, const char *type, const char *caller, const char *body)
{
	json_t *root = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
	const json_t *payload = json_object_get(root, "payload");
	static const char *now; /* the message that the oracle looks at */
	struct stream *s = &streams[session];
	struct oracle_message m = oracle_message_of(root);

	if (root == NULL || strcmp(m.type, type) != 0)
		violation("a message that is none of type %s: %s", type, body);
	if (strcmp(type, "task_accepted") == 0 || strcmp(type, "task_rejected") == 0)
		read_answer(caller, payload, body);
	else if (strcmp(type, "event") != 0)
		s->artifacts = (int64_t)json_array_size(json_object_get(payload, "artifacts"));
	if (session != 0 && strcmp(type, "task_rejected") != 0) { /* a rejection is of no stream */
		now = body;
		s->rules.session = watch.sessions[session].id;
		s->rules.on_violation = stream_violation;
		s->rules.ctx = &now;
		oracle_stream_take(&s->rules, &m);
	}
	json_decref(root);
}

static void read_messages(void)
{
	sqlite3_stmt *st;

	memset(streams, 0, sizeof streams);
	memset(answers, 0, sizeof answers);
	if (sqlite3_prepare_v2(db,
		    "SELECT session, type, caller_id, body FROM events JOIN callers ON callers.id = caller "
		    "WHERE type <> 'harp' AND session > ? ORDER BY events.id",
		    -1, &st, NULL) != SQLITE_OK)
		violation("%s", sqlite3_errmsg(db));
	sqlite3_bind_int64(st, 1, old_sessions);
	while (sqlite3_step(st) == SQLITE_ROW)
		read_message(sqlite3_column_int64(st, 0), (const char *)sqlite3_column_text(st, 1),
			(const char *)sqlite3_column_text(st, 2), (const char *)sqlite3_column_text(st, 3));
	sqlite3_finalize(st);
	/* those of no session may be gone by now */
	for (int64_t id = old_messages + 1; id <= watch.message_count; id++)
		if (watch.messages[id].is_there && watch.messages[id].body != NULL)
			read_message(0, "task_rejected", watch.callers[watch.messages[id].caller].id,
				watch.messages[id].body);
}

/* Ended once, and told so. proves L2-12 */
static void check_session(int64_t key)
{
	const struct jsession *s = &watch.sessions[key];
	struct oracle_stream *told = &streams[key].rules;

	if (strcmp(s->state, "REJECTED") == 0) {
		if (told->accepted || told->sequence > 0 || told->results > 0 || sim_world_has_workdir(s->id))
			violation(
				"session %.8s was rejected before its caller heard of it, and has a stream "
				"or a directory",
				s->id);
		return;
	}
	if (!oracle_is_final(s->state) || !s->is_closed || !told->closed)
		violation(
			"session %.8s is %s and %s", s->id, s->state, told->closed ? "closed" : "not closed");
	oracle_stream_end(told, true);
	if (strcmp(told->state, s->state) != 0 || told->changes != s->version ||
		told->sequence != s->sequence)
		violation("session %.8s is %s, version %lld; its stream says %s, version %lld", s->id,
			s->state, (long long)s->version, told->state, (long long)told->changes);
	if (sim_world_has_workdir(s->id) && strcmp(s->state, "FAILED") != 0)
		violation("session %.8s is %s, and its working directory is there", s->id, s->state);
}

/* ---- artifacts ---- */

/* A row has its file, and the result of an end that has one names it: nothing that was announced is
 * forgotten, nothing half done is left. proves L4-05 */
static void check_artifacts(void)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db,
		    "SELECT session, session_id, name, size_bytes IS NULL FROM artifacts WHERE session > ? "
		    "ORDER BY id",
		    -1, &st, NULL) != SQLITE_OK)
		violation("%s", sqlite3_errmsg(db));
	sqlite3_bind_int64(st, 1, old_sessions);
	while (sqlite3_step(st) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(st, 1),
			   *name = (const char *)sqlite3_column_text(st, 2);

		if (sqlite3_column_int(st, 3) != 0)
			violation("session %.8s is over, and artifact %s was never stored or refused", id,
				name);
		if (!shelf_has(id, name))
			violation("artifact %s of session %.8s has a row and no file", name, id);
		streams[sqlite3_column_int64(st, 0)].artifacts--;
	}
	sqlite3_finalize(st);
	for (int64_t key = 1; key <= watch.session_count; key++)
		if (streams[key].rules.results > 0 && streams[key].artifacts != 0)
			violation("the result of session %.8s does not name its artifacts",
				watch.sessions[key].id);
	if (shelf_has_half())
		violation("all is over, and half an artifact is left");
}

/* ---- commands, messages, processes ---- */

/* One answer for a message_id, ever, whatever was delivered how often in how many lives. proves L1-06 */
static void check_orders(void)
{
	struct jsubmit *n;
	char key[64];

	for (size_t i = old_orders; i < sim.order_count; i++) {
		const struct order *o = &sim.orders[i];

		if (o->state != DONE)
			violation("command %zu was never answered", i);
		if (!o->is_submit || o->expect == EXPECT_DROP)
			continue;
		if (answers[i] == 0 || (o->expect == EXPECT_VERDICT && answers[i] != 1))
			violation("submit %s of %s has %u answers", o->message_id, o->caller, answers[i]);
		if (o->expect != EXPECT_VERDICT)
			continue;
		snprintf(key, sizeof key, "%.32s %.30s", o->caller, o->message_id);
		HASH_FIND_STR(watch.submits, key, n);
		if (n == NULL ||
			(n->session != 0 && strcmp(watch.sessions[n->session].state, "REJECTED") != 0) !=
				(watch.messages[n->answer].kind == J_ACCEPTED))
			violation("submit %s: its row and its answer do not agree", key);
	}
}

/* Everything that was stored has arrived, and is known to have. proves L1-10 */
static void check_messages(void)
{
	int64_t last[WATCH_CALLERS] = {0};

	for (int64_t id = old_messages + 1; id <= watch.message_count; id++) {
		const struct jmessage *m = &watch.messages[id];

		if (!m->is_there)
			continue;
		if (!watch_may_be_gone(m))
			last[m->caller] = id;
		/* An answer to a stranger who has no queue is not kept for it. */
		if (!m->has_arrived && !(m->kind == J_HARP && m->was_returned) &&
			!(m->kind == J_REJECTED && m->was_returned && !watch_is_remembered(id)))
			violation("message %lld is stored and never arrived", (long long)id);
	}
	for (int i = 0; i < WATCH_CALLERS; i++)
		if (watch.callers[i].confirmed < last[i])
			violation("caller %s: the watermark is %lld, its last message %lld",
				watch.callers[i].id, (long long)watch.callers[i].confirmed,
				(long long)last[i]);
}

/* One that serves nobody now may have got a child: that is seen when the next one is needed. */
static bool is_unseen(const struct worker *w)
{
	for (size_t i = 0; i < sim.workers.count; i++) {
		const struct worker *o = sim.workers.list[i];

		if (strcmp(o->argv[1], "reused") == 0 && sim_mood(o)->started > sim_mood(w)->forked)
			return false;
	}
	return true;
}

static void check_processes(void)
{
	int programs = 0;

	for (size_t i = 0; i < sim.workers.count; i++) {
		const struct worker *w = sim.workers.list[i];
		const struct jsession *s = watch_find(w->session_id);

		if (w->is_gone && w->children == 0)
			continue;
		if (program_is(w)) {
			if (++programs > setup_has_program(sim.reloaded))
				violation("all is over, and %d policy programs run", programs);
			continue;
		}
		if (s == NULL || strcmp(s->capability, "reused") != 0 || strcmp(s->state, "COMPLETED") != 0 ||
			(w->children > 0 && !is_unseen(w)))
			violation("all is over, and worker %d of session %.8s is alive", w->number,
				w->session_id);
	}
	if (sim.core.slots.running + sim.core.slots.waiting + sim.core.slots.undecided != 0)
		violation("all is over, and %u slots are taken, %u waited for, %u undecided",
			sim.core.slots.running, sim.core.slots.waiting, sim.core.slots.undecided);
	if (!outbox_is_empty(sim.core.outbox))
		violation("all is over, and the outbox is not empty");
}

/* What an operator was told is so. */
static void check_extended(void)
{
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];

		if (s->extend_moved_us < s->extend_granted_us)
			violation("session %.8s: %lld us were granted, and its deadline moved by %lld", s->id,
				(long long)s->extend_granted_us, (long long)s->extend_moved_us);
	}
}

static void store_violation(void *ctx, const char *rule, const char *what)
{
	(void)ctx;
	/* Broken commands of the simulation share message ids, and nobody remembers those; check_orders
	 * counts. */
	if (strcmp(rule, "answered once") != 0)
		violation("%s: %s", rule, what);
}

void final_check_forget(void)
{
	old_sessions = watch.session_count;
	old_messages = watch.message_count;
	old_orders = sim.order_count;
}

void final_check(void)
{
	if (!sim.retires)
		old_sessions = old_messages = (int64_t)(old_orders = 0);
	watch_look();
	db = watch_db();
	waiting_look_at_submits(!sim.retires);
	read_messages();
	for (int64_t key = old_sessions + 1; key <= watch.session_count; key++)
		check_session(key);
	check_artifacts();
	check_orders();
	check_messages();
	check_processes();
	harp_oracle_check(db);
	check_extended();
	if (number("SELECT (SELECT count(*) FROM outcomes) + (SELECT count(*) FROM unroutable)") != 0)
		violation("all is over, and outcomes or unroutable messages are left");
	if (sim.retires)
		leaving_check();
	else if (number("SELECT count(*) FROM transitions") != watch.transition_count ||
		number("SELECT count(*) FROM events WHERE event_type = 'state_changed'") !=
			watch.transition_count - watch.rejections)
		violation("there are not as many transitions as were told");
	if (sim.lie == LIE_TAMPERS)
		audit_tamper();
	audit_check(db);
	oracle_store_check(db, store_violation, NULL);
	oracle_store_check_decisions(db, store_violation, NULL);
}
