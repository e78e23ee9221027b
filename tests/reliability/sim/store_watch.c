/* SPDX-License-Identifier: MIT */
/* store_watch.c: what was committed, read row by row as it appears: every transition legal, every sequence
 * the next one, every watermark behind what the broker settled. Owns a connection of its own to the database,
 * and a copy of what it read there. Uses nothing of the daemon's but its tables. What it finds ends the run
 * (violation). */
#include "store_watch.h"

#include <jansson.h>
#include <sqlite3.h>

struct watch watch;

static const struct {
	const char *sql, *table; /* table: may be unreadable */
} questions[Q_COUNT] = {
	[Q_VERSION] = {"PRAGMA data_version", ""},
	[Q_BEGIN] = {"BEGIN", ""},
	[Q_END] = {"COMMIT", ""},
	[Q_SESSIONS] = {"SELECT id, session_id, caller_id, capability, session_token, waits_for FROM sessions"
			" WHERE id > ? ORDER BY id",
		""},
	[Q_TRANSITIONS] = {"SELECT id, session, from_state, to_state, reason, state_version FROM transitions "
			   "WHERE id > ?"
			   " ORDER BY id",
		""},
	[Q_EVENTS] = {"SELECT id, session, caller, type, sequence, event_type, body, session_id FROM events "
		      "WHERE id > ?"
		      " ORDER BY id",
		""},
	[Q_ROW] = {"SELECT state, state_version, deadline, attempt, max_duration_us, started_at FROM "
		   "sessions WHERE id = ?",
		""},
	[Q_OUTCOMES] = {"SELECT session, outcome FROM outcomes", ""},
	[Q_SUBMITS] = {"SELECT s.id, caller, message_id, session, answer FROM submits s WHERE s.id > ? ORDER "
		       "BY s.id",
		"submits"},
	[Q_CALLERS] = {"SELECT id, caller_id, confirmed FROM callers", "callers"},
	[Q_COUNTS] = {"SELECT (SELECT count(*) FROM events WHERE session IS NOT NULL), (SELECT count(*) FROM "
		      "transitions),"
		      " (SELECT count(*) FROM sessions), (SELECT count(*) FROM submits), (SELECT count(*) "
		      "FROM reviews),"
		      " (SELECT count(*) FROM decisions), (SELECT count(*) FROM events WHERE session IS "
		      "NULL)",
		"submits"},
	[Q_SUBSTITUTE] = {"SELECT substitute FROM events WHERE id = ?", ""},
	[Q_CHECKPOINT] = {"SELECT checkpoint_id FROM checkpoints WHERE session = ? AND resumable ORDER BY id "
			  "DESC LIMIT 1",
		"checkpoints"},
	[Q_POINT] = {"SELECT session_id FROM checkpoints WHERE checkpoint_id = ?", "checkpoints"},
	[Q_WAITS] = {"SELECT waits_for, session_token, risk_level FROM sessions WHERE id = ?", ""},
	[Q_REVIEWS] = {"SELECT id, request_id, session, risk_level FROM reviews WHERE id > ? ORDER BY id",
		"reviews"},
	[Q_REVIEW] = {"SELECT state, expires_at FROM reviews WHERE id = ?", "reviews"},
	[Q_DECISIONS] = {"SELECT id, request_id, signer, decision, is_final FROM decisions WHERE id > ? "
			 "ORDER BY id",
		"decisions"},
	[Q_SUBMIT] = {"SELECT answer FROM submits WHERE id = ?", "submits"},
	[Q_ARTIFACT] = {"SELECT artifact FROM reviews WHERE id = ?", "reviews"},
	[Q_POINTS] = {"SELECT id, session, trigger, state_version, CASE encoding WHEN 'json' THEN state ELSE "
		      "'{}' END FROM checkpoints"
		      " WHERE id > ? AND resumable ORDER BY id",
		"checkpoints"},
	[Q_NONCE] = {"SELECT id FROM decisions WHERE nonce = ?", "decisions"},
};

static sqlite3 *watch_connection;
static sqlite3_stmt *st[Q_COUNT];
static int64_t seen_version;

/* ---- asking ---- */

bool watch_may_ask(int q)
{
	return sim.unreadable == NULL || strcmp(sim.unreadable, questions[q].table) != 0;
}

sqlite3_stmt *watch_ask(int q)
{
	if (st[q] == NULL &&
		sqlite3_prepare_v2(watch_connection, questions[q].sql, -1, &st[q], NULL) != SQLITE_OK)
		violation("the store watch cannot ask \"%s\": %s", questions[q].sql,
			sqlite3_errmsg(watch_connection));
	sqlite3_reset(st[q]);
	return st[q];
}

void watch_done(int q)
{
	sqlite3_reset(st[q]);
}

bool watch_row(int q)
{
	int rc = sqlite3_step(st[q]);

	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		violation("the store watch cannot read \"%s\": %s", questions[q].sql,
			sqlite3_errmsg(watch_connection));
	if (rc == SQLITE_DONE)
		sqlite3_reset(st[q]);
	return rc == SQLITE_ROW;
}

sqlite3_stmt *watch_ask_about(int q, int64_t arg)
{
	sqlite3_stmt *s = watch_ask(q);

	sqlite3_bind_int64(s, 1, arg);
	return s;
}

const char *watch_text(int q, int column)
{
	const char *t = (const char *)sqlite3_column_text(st[q], column);

	return t != NULL ? t : "";
}

uint64_t watch_hash(const char *bytes, size_t size)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	return h != 0 ? h : 1;
}

/* ---- the copy ---- */

struct jsession *watch_session(int64_t key)
{
	if (key < 1 || key > watch.session_count || !watch.sessions[key].is_there)
		violation("a row of session %lld, which is not there", (long long)key);
	return &watch.sessions[key];
}

struct jsession *watch_find(const char *session_id)
{
	for (int64_t i = 1; i <= watch.session_count; i++)
		if (strcmp(watch.sessions[i].id, session_id) == 0)
			return &watch.sessions[i];
	return NULL;
}

static void *grown(void *list, int64_t *room, int64_t upto, size_t size)
{
	int64_t was = *room;

	if (upto < *room)
		return list;
	while (upto >= *room)
		*room = *room ? 2 * *room : 512;
	list = xrealloc(list, (size_t)*room * size);
	memset((char *)list + (size_t)was * size, 0, (size_t)(*room - was) * size);
	return list;
}

static void look_at_sessions(void)
{
	watch_ask_about(Q_SESSIONS, watch.session_count);
	while (watch_row(Q_SESSIONS)) {
		int64_t key = sqlite3_column_int64(st[Q_SESSIONS], 0);
		struct jsession *s;

		if (key >= watch.session_room)
			violation("session %lld is too many", (long long)key);
		watch.session_count = key;
		s = &watch.sessions[key];
		memset(s, 0, sizeof *s);
		s->is_there = true;
		snprintf(s->id, sizeof s->id, "%s", watch_text(Q_SESSIONS, 1));
		snprintf(s->caller, sizeof s->caller, "%s", watch_text(Q_SESSIONS, 2));
		snprintf(s->capability, sizeof s->capability, "%s", watch_text(Q_SESSIONS, 3));
		snprintf(s->token, sizeof s->token, "%s", watch_text(Q_SESSIONS, 4));
		snprintf(s->state, sizeof s->state, "PENDING");
		waiting_new(s, watch_text(Q_SESSIONS, 5));
	}
}

/* The processes of a session that is over must be gone; one that may serve another session is alone, and
 * alive. */
static void check_processes(const struct jsession *s)
{
	for (size_t i = 0; i < sim.workers.count; i++) {
		const struct worker *w = sim.workers.list[i];

		if (w->is_gone && w->children == 0)
			continue;
		if (strcmp(w->session_id, s->id) != 0)
			continue;
		if (strcmp(s->capability, "reused") == 0 && strcmp(s->state, "COMPLETED") == 0 &&
			w->children == 0)
			continue;
		violation("session %.8s is %s, and worker %d is alive", s->id, s->state, w->number);
	}
}

static void note_ending(struct jsession *s)
{
	if (s->ending_us == 0) {
		s->ending_us = clock_boot_us();
		s->ending_held_us = sim.held_us;
	}
}

/* A timeout must not be decided before its time, on the clock that counts. */
static void check_early(const struct jsession *s)
{
	if (s->early_us != 0 && clock_boot_us() < s->early_us)
		violation("session %.8s timed out %lld us too early", s->id,
			(long long)(s->early_us - clock_boot_us()));
}

static void check_reason(const struct jsession *s, const char *to, const char *reason)
{
	if (strcmp(reason, "timeout") == 0 && strcmp(to, "FAILED") == 0 && !s->has_outcome)
		check_early(s);
	if (strcmp(to, "ABORTED") == 0 && !s->abort_came)
		violation("session %.8s was aborted, and nobody who may do so asked for it", s->id);
	if (strcmp(reason, "safety_violation") == 0 && !s->announced)
		violation(
			"session %.8s ends with safety_violation, and its worker announced nothing that it "
			"may not do",
			s->id);
	cover_name("reason", reason);
}

/* One row each, legal, the next version. proves L2-02, L2-03 */
static void look_at_transition(void)
{
	struct jsession *s = watch_session(sqlite3_column_int64(st[Q_TRANSITIONS], 1));
	const char *from = watch_text(Q_TRANSITIONS, 2), *to = watch_text(Q_TRANSITIONS, 3),
		   *reason = watch_text(Q_TRANSITIONS, 4);
	char both[40];

	if (!oracle_is_legal(from, to))
		violation("session %.8s went from %s to %s", s->id, from, to);
	if (strcmp(from, s->state) != 0 || sqlite3_column_int64(st[Q_TRANSITIONS], 5) != s->version + 1)
		violation("session %.8s was %s in version %lld, and goes from %s", s->id, s->state,
			(long long)s->version, from);
	snprintf(both, sizeof both, "%s>%s", from, to);
	cover_name("transition", both);
	check_reason(s, to, reason);
	waiting_transition(s, from, to, reason);
	s->version++;
	if (strcmp(reason, "paused_by_operator") == 0)
		s->paused_version = s->version;
	snprintf(s->state, sizeof s->state, "%s", to);
	if (strcmp(to, "ABORTING") == 0 || oracle_is_final(to))
		note_ending(s);
}

/* What the row says is what the transitions say; and its clock. */
static void look_at_row(int64_t key)
{
	struct jsession *s = watch_session(key);
	int64_t now = clock_boot_us(), deadline;

	watch_ask_about(Q_ROW, key);
	if (!watch_row(Q_ROW))
		violation("the row of session %.8s is gone", s->id);
	if (strcmp(watch_text(Q_ROW, 0), s->state) != 0 || sqlite3_column_int64(st[Q_ROW], 1) != s->version)
		violation("session %.8s: its row says %s, version %lld; its transitions say %s, version %lld",
			s->id, watch_text(Q_ROW, 0), (long long)sqlite3_column_int64(st[Q_ROW], 1), s->state,
			(long long)s->version);
	if (s->deadline_us == 0 && sqlite3_column_type(st[Q_ROW], 2) != SQLITE_NULL) {
		if (!clock_parse(watch_text(Q_ROW, 2), &deadline))
			violation("session %.8s: deadline %s", s->id, watch_text(Q_ROW, 2));
		s->deadline_us = now + sqlite3_column_int64(st[Q_ROW], 4);
		/* Where it was moved in the same turn, that is seen with the other moves. */
		if (!clock_parse(watch_text(Q_ROW, 5), &s->deadline_wall_us))
			violation("session %.8s has a deadline and no start", s->id);
		s->deadline_wall_us += sqlite3_column_int64(st[Q_ROW], 4);
		if (s->extend_asked_us == 0 && deadline != s->deadline_wall_us)
			violation("session %.8s: deadline %s, and it began at %s", s->id,
				watch_text(Q_ROW, 2), watch_text(Q_ROW, 5));
		/* decided since then */
		s->early_us = sim.clear_us + sqlite3_column_int64(st[Q_ROW], 4);
	}
	sqlite3_reset(st[Q_ROW]);
}

static void look_at_transitions(void)
{
	int64_t changed[256], count = 0;

	watch_ask_about(Q_TRANSITIONS, watch.transition_count);
	while (watch_row(Q_TRANSITIONS)) {
		watch.transition_count = sqlite3_column_int64(st[Q_TRANSITIONS], 0);
		look_at_transition();
		if (count < 256)
			changed[count++] = sqlite3_column_int64(st[Q_TRANSITIONS], 1);
	}
	for (int64_t i = 0; i < count; i++) {
		struct jsession *s = watch_session(changed[i]);

		look_at_row(changed[i]);
		if (oracle_is_final(s->state))
			check_processes(s);
	}
}

static enum jkind kind_of(const char *type)
{
	static const char *const names[] = {
		"event", "task_accepted", "task_rejected", "task_completed", "task_failed", "harp"};

	for (int i = 0; i < 6; i++)
		if (strcmp(names[i], type) == 0)
			return (enum jkind)i;
	violation("a message of type %s", type);
}

static void look_at_event(void)
{
	static const char head[] = "\"message_id\":\"";
	int64_t id = sqlite3_column_int64(st[Q_EVENTS], 0), key = sqlite3_column_int64(st[Q_EVENTS], 1);
	const char *body = watch_text(Q_EVENTS, 6), *at = strstr(body, head);
	struct jsession *s = key != 0 ? watch_session(key) : NULL;
	bool is_told = strcmp(watch_text(Q_EVENTS, 3), "harp") == 0;
	struct jmessage *m;

	if (id >= watch.message_room || (at == NULL) != is_told || (is_told && s == NULL))
		violation("event %lld: %s", (long long)id, body);
	m = &watch.messages[watch.message_count = id];
	free(m->body);
	memset(m, 0, sizeof *m);
	m->body = key == 0 ? xstrdup(body) : NULL;
	m->is_there = true;
	m->id = id;
	m->kind = kind_of(watch_text(Q_EVENTS, 3));
	m->owner = key;
	m->session = m->kind == J_REJECTED ? 0 : key; /* a rejection is of no stream */
	m->caller = sqlite3_column_int64(st[Q_EVENTS], 2);
	m->sequence = sqlite3_column_int64(st[Q_EVENTS], 4);
	m->bytes = watch_hash(body, (size_t)sqlite3_column_bytes(st[Q_EVENTS], 6));
	if (is_told)
		harp_oracle_id(s, id, m->message_id);
	else
		snprintf(m->message_id, sizeof m->message_id, "%.36s", at + sizeof head - 1);
	HASH_ADD_STR(watch.by_message_id, message_id, m);
	if (is_told) {
		harp_oracle_event(s, m, body);
		return;
	}
	if (m->session == 0)
		return;
	waiting_message(s, m, body);
	if (s->is_closed)
		violation("session %.8s is closed, and then comes %s", s->id, body);
	if ((m->kind == J_EVENT) != (m->sequence == s->sequence + 1))
		violation("session %.8s was at sequence %lld, and then comes %s", s->id,
			(long long)s->sequence, body);
	s->sequence += m->kind == J_EVENT;
	s->is_closed = m->kind == J_EVENT && strcmp(watch_text(Q_EVENTS, 5), "session_closed") == 0;
	if (s->is_closed && !oracle_is_final(s->state))
		violation("session %.8s is closed in state %s", s->id, s->state);
}

static void look_at_points(void)
{
	watch_ask_about(Q_POINTS, watch.point_count);
	while (watch_row(Q_POINTS)) {
		watch.point_count = sqlite3_column_int64(st[Q_POINTS], 0);
		mover_point(watch_session(sqlite3_column_int64(st[Q_POINTS], 1)), watch_text(Q_POINTS, 2),
			watch_text(Q_POINTS, 3), watch_text(Q_POINTS, 4));
	}
}

/* A deadline is moved only as somebody asked, and only so far. proves SA-10 */
static void look_at_deadline(int64_t key)
{
	struct jsession *s = watch_session(key);
	int64_t deadline, moved, started;

	watch_ask_about(Q_ROW, key);
	if (watch_row(Q_ROW) && clock_parse(watch_text(Q_ROW, 2), &deadline) &&
		clock_parse(watch_text(Q_ROW, 5), &started) && deadline != s->deadline_wall_us) {
		moved = deadline - s->deadline_wall_us;
		s->extend_moved_us += moved;
		if (moved <= 0 || s->extend_moved_us > s->extend_asked_us ||
			deadline > started + SIM_EXTENDED_US)
			violation(
				"session %.8s: its deadline is moved by %lld us to %s; it began at %s, and "
				"%lld us were asked for",
				s->id, (long long)moved, watch_text(Q_ROW, 2), watch_text(Q_ROW, 5),
				(long long)s->extend_asked_us);
		s->deadline_wall_us = deadline;
		s->deadline_us += moved;
		s->early_us += moved;
		cover(OPERATE_EXTENDED);
	}
	watch_done(Q_ROW);
}

static void look_at_outcomes(void)
{
	for (int64_t i = 1; i <= watch.session_count; i++)
		watch.sessions[i].has_outcome = false;
	watch_ask(Q_OUTCOMES);
	while (watch_row(Q_OUTCOMES)) {
		struct jsession *s = watch_session(sqlite3_column_int64(st[Q_OUTCOMES], 0));

		s->has_outcome = true;
		if (s->ending_us == 0 && strstr(watch_text(Q_OUTCOMES, 1), "\"reason\":\"timeout\"") != NULL)
			check_early(s);
		note_ending(s);
		if (oracle_is_final(s->state))
			violation("session %.8s is %s and still has an outcome", s->id, s->state);
	}
}

static void look_at_submits(void)
{
	watch_ask_about(Q_SUBMITS, watch.submit_count);
	while (watch_row(Q_SUBMITS)) {
		int64_t caller = sqlite3_column_int64(st[Q_SUBMITS], 1);
		struct jsubmit *n = xcalloc(1, sizeof *n), *twin;

		watch.submit_count = sqlite3_column_int64(st[Q_SUBMITS], 0);
		n->id = watch.submit_count;
		n->session = sqlite3_column_int64(st[Q_SUBMITS], 3);
		n->answer = sqlite3_column_int64(st[Q_SUBMITS], 4);
		snprintf(n->key, sizeof n->key, "%.32s %.30s", watch.callers[caller].id,
			watch_text(Q_SUBMITS, 2));
		HASH_FIND_STR(watch.submits, n->key, twin);
		if (twin != NULL)
			violation("submit %s was taken twice: sessions %lld and %lld", n->key,
				(long long)twin->session, (long long)n->session);
		HASH_ADD_STR(watch.submits, key, n);
	}
}

/* Everything up to a watermark must have been settled by the broker. */
static void look_at_callers(void)
{
	watch_ask(Q_CALLERS);
	while (watch_row(Q_CALLERS)) {
		int64_t key = sqlite3_column_int64(st[Q_CALLERS], 0),
			confirmed = sqlite3_column_int64(st[Q_CALLERS], 2);
		struct jcaller *c = &watch.callers[key];

		if (key >= WATCH_CALLERS)
			violation("caller %lld is too many", (long long)key);
		snprintf(c->id, sizeof c->id, "%s", watch_text(Q_CALLERS, 1));
		if (confirmed < c->confirmed)
			violation("caller %s: the watermark goes back from %lld to %lld", c->id,
				(long long)c->confirmed, (long long)confirmed);
		for (int64_t id = c->confirmed + 1; id <= confirmed && id <= watch.message_count; id++)
			if (watch.messages[id].is_there && watch.messages[id].caller == key &&
				!watch.messages[id].is_settled)
				violation(
					"caller %s: the watermark is %lld, and message %lld was never "
					"settled",
					c->id, (long long)confirmed, (long long)id);
		c->confirmed = confirmed;
	}
}

void watch_look(void)
{
	int64_t version;

	watch_ask(Q_VERSION);
	watch_row(Q_VERSION);
	version = sqlite3_column_int64(st[Q_VERSION], 0);
	sqlite3_reset(st[Q_VERSION]);
	if (version == seen_version)
		return;
	seen_version = version;
	watch_ask(Q_BEGIN);
	watch_row(Q_BEGIN);
	look_at_sessions();
	waiting_look();
	look_at_transitions();
	watch_ask_about(Q_EVENTS, watch.message_count);
	while (watch_row(Q_EVENTS))
		look_at_event();
	harp_oracle_look();
	if (watch_may_ask(Q_POINTS))
		look_at_points();
	for (int64_t key = 1; key <= watch.session_count; key++)
		if (watch.sessions[key].extend_asked_us > watch.sessions[key].extend_moved_us &&
			watch.sessions[key].deadline_us != 0)
			look_at_deadline(key);
	look_at_outcomes();
	waiting_look_at_reviews();
	if (watch_may_ask(Q_CALLERS))
		look_at_callers();
	if (watch_may_ask(Q_SUBMITS) && watch_may_ask(Q_CALLERS))
		look_at_submits();
	if (watch_may_ask(Q_SUBMIT))
		waiting_look_at_submits(false);
	leaving_look();
	watch_ask(Q_END);
	watch_row(Q_END);
}

/* Old submits were forgotten: what is new is told by what is left. */
void watch_forget_submits(void)
{
	watch.submit_count = 0;
	watch_ask_about(Q_SUBMITS, 0);
	while (watch_row(Q_SUBMITS))
		watch.submit_count = sqlite3_column_int64(st[Q_SUBMITS], 0);
}

bool watch_is_remembered(int64_t answer)
{
	const struct jsubmit *n, *tmp;

	HASH_ITER(hh, watch.submits, n, tmp)
		if (n->answer == answer)
			return true;
	return false;
}

bool watch_may_be_gone(const struct jmessage *m)
{
	return m->body != NULL && m->is_settled && !watch_is_remembered(m->id);
}

/* ---- life ---- */

void watch_reset(void)
{
	struct jsubmit *n, *tmp;

	HASH_CLEAR(hh, watch.by_message_id);
	for (int64_t id = 0; id < watch.message_room; id++) {
		free(watch.messages[id].body);
		watch.messages[id].body = NULL;
	}
	HASH_ITER(hh, watch.submits, n, tmp) {
		HASH_DEL(watch.submits, n);
		free(n);
	}
	watch.messages = grown(watch.messages, &watch.message_room, 8191, sizeof *watch.messages);
	watch.sessions = grown(watch.sessions, &watch.session_room, ORDERS_MAX + 1, sizeof *watch.sessions);
	watch.message_count = watch.session_count = watch.transition_count = watch.submit_count = 0;
	watch.point_count = 0;
	waiting_reset();
	harp_oracle_reset();
	memset(watch.callers, 0, sizeof watch.callers);
}

/* What was committed once is still there, whatever happened to the machine. */
static void recount(void)
{
	static const char *const names[] = {
		"messages", "transitions", "sessions", "submits", "reviews", "decisions", "rejections"};
	enum { MESSAGES = 0, REJECTIONS = 6, COUNTS = 7 };
	int64_t had[COUNTS] = {0, watch.transition_count, watch.session_count, watch.submit_count,
		watch.review_count, watch.decision_count, 0};

	for (int64_t id = 1; id <= watch.message_count; id++) {
		const struct jmessage *m = &watch.messages[id];

		if (m->is_there && !watch_may_be_gone(m))
			had[m->body != NULL ? REJECTIONS : MESSAGES]++;
	}
	watch_ask(Q_COUNTS);
	watch_row(Q_COUNTS);
	for (int i = 0; i < COUNTS; i++)
		if (sqlite3_column_int64(st[Q_COUNTS], i) < had[i])
			violation("%lld %s were committed, and %lld are left", (long long)had[i], names[i],
				(long long)sqlite3_column_int64(st[Q_COUNTS], i));
	sqlite3_reset(st[Q_COUNTS]);
}

static void recover_session(int64_t key)
{
	struct jsession *s = &watch.sessions[key];
	int64_t deadline;

	if (oracle_is_final(s->state))
		return;
	cover(strcmp(s->state, "ABORTING") == 0          ? RECOVER_ABORTING :
			s->has_outcome                   ? RECOVER_OUTCOME :
			strcmp(s->waits, "human") == 0   ? WAIT_CRASH_HUMAN :
			strcmp(s->waits, "program") == 0 ? WAIT_CRASH_PROGRAM :
			strcmp(s->state, "PENDING") != 0 ? RECOVER_LIVE :
			s->did_wait                      ? WAIT_CRASH_DECIDED :
							   RECOVER_PENDING);
	/* From here on the stored wall time counts. */
	watch_ask_about(Q_ROW, key);
	if (watch_row(Q_ROW) && sqlite3_column_type(st[Q_ROW], 2) != SQLITE_NULL &&
		clock_parse(watch_text(Q_ROW, 2), &deadline)) {
		if (s->deadline_us != 0 && deadline != s->deadline_wall_us)
			violation("session %.8s: its deadline is another after a crash, %s", s->id,
				watch_text(Q_ROW, 2));
		s->deadline_us = clock_boot_us() + (deadline - clock_wall_us());
		s->early_us = s->deadline_us;
		if (!s->has_outcome && s->deadline_us <= clock_boot_us())
			cover(RECOVER_TIMED_OUT);
	}
	sqlite3_reset(st[Q_ROW]);
}

void watch_begin(void)
{
	char path[600];

	snprintf(path, sizeof path, "%s/hcpd.db", sim.core.state_dir);
	if (sqlite3_open_v2(path, &watch_connection, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		violation("the store watch cannot open the database");
	seen_version = -1;
	if (!sim.forgets)
		recount();
	leaving_begin();
	watch_look(); /* what the crash left: recovery has not begun */
	for (int64_t key = 1; key <= watch.session_count; key++)
		recover_session(key);
	waiting_recover();
	approver_begin();
	for (int64_t id = watch.message_count; id > 0; id--)
		if (watch.messages[id].is_there && id > watch.callers[watch.messages[id].caller].confirmed) {
			cover(RECOVER_OUTBOX);
			break;
		}
}

void watch_end(void)
{
	for (int i = 0; i < Q_COUNT; i++) {
		sqlite3_finalize(st[i]);
		st[i] = NULL;
	}
	sqlite3_close(watch_connection);
	watch_connection = NULL;
}

sqlite3 *watch_db(void)
{
	return watch_connection;
}
