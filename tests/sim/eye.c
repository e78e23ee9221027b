/* eye.c: what was committed, read row by row as it appears: every transition legal, every sequence the next
 * one, every watermark behind what the broker settled. Owns a connection of its own to the database, and a
 * copy of what it read there. Uses nothing of the daemon's but its tables. What it finds ends the run
 * (violation). */
#include "eye.h"

#include <jansson.h>
#include <sqlite3.h>

struct judge judge;

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
	[Q_COUNTS] = {"SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM transitions),"
		      " (SELECT count(*) FROM sessions), (SELECT count(*) FROM submits), (SELECT count(*) "
		      "FROM reviews),"
		      " (SELECT count(*) FROM decisions)",
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

static sqlite3 *eye;
static sqlite3_stmt *st[Q_COUNT];
static int64_t seen_version;

/* ---- asking ---- */

bool eye_may_ask(int q)
{
	return sim.unreadable == NULL || strcmp(sim.unreadable, questions[q].table) != 0;
}

sqlite3_stmt *eye_ask(int q)
{
	if (st[q] == NULL && sqlite3_prepare_v2(eye, questions[q].sql, -1, &st[q], NULL) != SQLITE_OK)
		violation("the judge cannot ask \"%s\": %s", questions[q].sql, sqlite3_errmsg(eye));
	sqlite3_reset(st[q]);
	return st[q];
}

void eye_done(int q)
{
	sqlite3_reset(st[q]);
}

bool eye_row(int q)
{
	int rc = sqlite3_step(st[q]);

	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		violation("the judge cannot read \"%s\": %s", questions[q].sql, sqlite3_errmsg(eye));
	if (rc == SQLITE_DONE)
		sqlite3_reset(st[q]);
	return rc == SQLITE_ROW;
}

sqlite3_stmt *eye_ask_about(int q, int64_t arg)
{
	sqlite3_stmt *s = eye_ask(q);

	sqlite3_bind_int64(s, 1, arg);
	return s;
}

const char *eye_text(int q, int column)
{
	const char *t = (const char *)sqlite3_column_text(st[q], column);

	return t != NULL ? t : "";
}

uint64_t eye_hash(const char *bytes, size_t size)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	return h != 0 ? h : 1;
}

/* ---- the copy ---- */

bool judge_is_over(const char *state)
{
	for (size_t i = 0; i < sizeof legal / sizeof *legal; i++)
		if (strcmp(legal[i][0], state) == 0)
			return false;
	return true;
}

struct jsession *eye_session(int64_t key)
{
	if (key < 1 || key > judge.session_count || !judge.sessions[key].is_there)
		violation("a row of session %lld, which is not there", (long long)key);
	return &judge.sessions[key];
}

struct jsession *judge_find(const char *session_id)
{
	for (int64_t i = 1; i <= judge.session_count; i++)
		if (strcmp(judge.sessions[i].id, session_id) == 0)
			return &judge.sessions[i];
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
	eye_ask_about(Q_SESSIONS, judge.session_count);
	while (eye_row(Q_SESSIONS)) {
		int64_t key = sqlite3_column_int64(st[Q_SESSIONS], 0);
		struct jsession *s;

		if (key >= judge.session_room)
			violation("session %lld is too many", (long long)key);
		judge.session_count = key;
		s = &judge.sessions[key];
		memset(s, 0, sizeof *s);
		s->is_there = true;
		snprintf(s->id, sizeof s->id, "%s", eye_text(Q_SESSIONS, 1));
		snprintf(s->caller, sizeof s->caller, "%s", eye_text(Q_SESSIONS, 2));
		snprintf(s->capability, sizeof s->capability, "%s", eye_text(Q_SESSIONS, 3));
		snprintf(s->token, sizeof s->token, "%s", eye_text(Q_SESSIONS, 4));
		snprintf(s->state, sizeof s->state, "PENDING");
		waiting_new(s, eye_text(Q_SESSIONS, 5));
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
	struct jsession *s = eye_session(sqlite3_column_int64(st[Q_TRANSITIONS], 1));
	const char *from = eye_text(Q_TRANSITIONS, 2), *to = eye_text(Q_TRANSITIONS, 3),
		   *reason = eye_text(Q_TRANSITIONS, 4);
	char both[40];
	size_t i = 0;

	while (i < sizeof legal / sizeof *legal &&
		(strcmp(legal[i][0], from) != 0 || strcmp(legal[i][1], to) != 0))
		i++;
	if (i == sizeof legal / sizeof *legal)
		violation("session %.8s went from %s to %s", s->id, from, to);
	if (strcmp(from, s->state) != 0 || sqlite3_column_int64(st[Q_TRANSITIONS], 5) != s->version + 1)
		violation("session %.8s was %s in version %lld, and goes from %s", s->id, s->state,
			(long long)s->version, from);
	snprintf(both, sizeof both, "%s>%s", from, to);
	cover_name("transition", both);
	check_reason(s, to, reason);
	waiting_transition(s, from, to, reason);
	s->version++;
	snprintf(s->state, sizeof s->state, "%s", to);
	if (strcmp(to, "ABORTING") == 0 || judge_is_over(to))
		note_ending(s);
}

/* What the row says is what the transitions say; and its clock. */
static void look_at_row(int64_t key)
{
	struct jsession *s = eye_session(key);
	int64_t now = clock_boot_us(), deadline;

	eye_ask_about(Q_ROW, key);
	if (!eye_row(Q_ROW))
		violation("the row of session %.8s is gone", s->id);
	if (strcmp(eye_text(Q_ROW, 0), s->state) != 0 || sqlite3_column_int64(st[Q_ROW], 1) != s->version)
		violation("session %.8s: its row says %s, version %lld; its transitions say %s, version %lld",
			s->id, eye_text(Q_ROW, 0), (long long)sqlite3_column_int64(st[Q_ROW], 1), s->state,
			(long long)s->version);
	if (s->deadline_us == 0 && sqlite3_column_type(st[Q_ROW], 2) != SQLITE_NULL) {
		if (!clock_parse(eye_text(Q_ROW, 2), &deadline))
			violation("session %.8s: deadline %s", s->id, eye_text(Q_ROW, 2));
		s->deadline_us = now + sqlite3_column_int64(st[Q_ROW], 4);
		/* Where it was moved in the same turn, that is seen with the other moves. */
		if (!clock_parse(eye_text(Q_ROW, 5), &s->deadline_wall_us))
			violation("session %.8s has a deadline and no start", s->id);
		s->deadline_wall_us += sqlite3_column_int64(st[Q_ROW], 4);
		if (s->extend_asked_us == 0 && deadline != s->deadline_wall_us)
			violation("session %.8s: deadline %s, and it began at %s", s->id, eye_text(Q_ROW, 2),
				eye_text(Q_ROW, 5));
		s->early_us = sim.clear_us + sqlite3_column_int64(st[Q_ROW], 4); /* decided since then */
	}
	sqlite3_reset(st[Q_ROW]);
}

static void look_at_transitions(void)
{
	int64_t changed[256], count = 0;

	eye_ask_about(Q_TRANSITIONS, judge.transition_count);
	while (eye_row(Q_TRANSITIONS)) {
		judge.transition_count = sqlite3_column_int64(st[Q_TRANSITIONS], 0);
		look_at_transition();
		if (count < 256)
			changed[count++] = sqlite3_column_int64(st[Q_TRANSITIONS], 1);
	}
	for (int64_t i = 0; i < count; i++) {
		struct jsession *s = eye_session(changed[i]);

		look_at_row(changed[i]);
		if (judge_is_over(s->state))
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
	const char *body = eye_text(Q_EVENTS, 6), *at = strstr(body, head);
	struct jsession *s = key != 0 ? eye_session(key) : NULL;
	bool is_told = strcmp(eye_text(Q_EVENTS, 3), "harp") == 0;
	struct jmessage *m;

	if (id >= judge.message_room || (at == NULL) != is_told || (is_told && s == NULL))
		violation("event %lld: %s", (long long)id, body);
	m = &judge.messages[judge.message_count = id];
	memset(m, 0, sizeof *m);
	m->is_there = true;
	m->id = id;
	m->session = key;
	m->caller = sqlite3_column_int64(st[Q_EVENTS], 2);
	m->kind = kind_of(eye_text(Q_EVENTS, 3));
	m->sequence = sqlite3_column_int64(st[Q_EVENTS], 4);
	m->bytes = eye_hash(body, (size_t)sqlite3_column_bytes(st[Q_EVENTS], 6));
	if (is_told)
		told_id(s, id, m->message_id);
	else
		snprintf(m->message_id, sizeof m->message_id, "%.36s", at + sizeof head - 1);
	HASH_ADD_STR(judge.by_message_id, message_id, m);
	if (is_told) {
		told_event(s, m, body);
		return;
	}
	if (s == NULL)
		return;
	waiting_message(s, m, body);
	if (s->is_closed)
		violation("session %.8s is closed, and then comes %s", s->id, body);
	if ((m->kind == J_EVENT) != (m->sequence == s->sequence + 1))
		violation("session %.8s was at sequence %lld, and then comes %s", s->id,
			(long long)s->sequence, body);
	s->sequence += m->kind == J_EVENT;
	s->is_closed = m->kind == J_EVENT && strcmp(eye_text(Q_EVENTS, 5), "session_closed") == 0;
	if (s->is_closed && !judge_is_over(s->state))
		violation("session %.8s is closed in state %s", s->id, s->state);
}

static void look_at_points(void)
{
	eye_ask_about(Q_POINTS, judge.point_count);
	while (eye_row(Q_POINTS)) {
		judge.point_count = sqlite3_column_int64(st[Q_POINTS], 0);
		mover_point(eye_session(sqlite3_column_int64(st[Q_POINTS], 1)), eye_text(Q_POINTS, 2),
			eye_text(Q_POINTS, 3), eye_text(Q_POINTS, 4));
	}
}

/* A deadline is moved only as somebody asked, and only so far. proves SA-10 */
static void look_at_deadline(int64_t key)
{
	struct jsession *s = eye_session(key);
	int64_t deadline, moved, started;

	eye_ask_about(Q_ROW, key);
	if (eye_row(Q_ROW) && clock_parse(eye_text(Q_ROW, 2), &deadline) &&
		clock_parse(eye_text(Q_ROW, 5), &started) && deadline != s->deadline_wall_us) {
		moved = deadline - s->deadline_wall_us;
		s->extend_moved_us += moved;
		if (moved <= 0 || s->extend_moved_us > s->extend_asked_us ||
			deadline > started + SIM_EXTENDED_US)
			violation(
				"session %.8s: its deadline is moved by %lld us to %s; it began at %s, and "
				"%lld us were asked for",
				s->id, (long long)moved, eye_text(Q_ROW, 2), eye_text(Q_ROW, 5),
				(long long)s->extend_asked_us);
		s->deadline_wall_us = deadline;
		s->deadline_us += moved;
		s->early_us += moved;
		cover(OPERATE_EXTENDED);
	}
	eye_done(Q_ROW);
}

static void look_at_outcomes(void)
{
	for (int64_t i = 1; i <= judge.session_count; i++)
		judge.sessions[i].has_outcome = false;
	eye_ask(Q_OUTCOMES);
	while (eye_row(Q_OUTCOMES)) {
		struct jsession *s = eye_session(sqlite3_column_int64(st[Q_OUTCOMES], 0));

		s->has_outcome = true;
		if (s->ending_us == 0 && strstr(eye_text(Q_OUTCOMES, 1), "\"reason\":\"timeout\"") != NULL)
			check_early(s);
		note_ending(s);
		if (judge_is_over(s->state))
			violation("session %.8s is %s and still has an outcome", s->id, s->state);
	}
}

static void look_at_submits(void)
{
	eye_ask_about(Q_SUBMITS, judge.submit_count);
	while (eye_row(Q_SUBMITS)) {
		int64_t caller = sqlite3_column_int64(st[Q_SUBMITS], 1);
		struct jsubmit *n = xcalloc(1, sizeof *n), *twin;

		judge.submit_count = sqlite3_column_int64(st[Q_SUBMITS], 0);
		n->id = judge.submit_count;
		n->session = sqlite3_column_int64(st[Q_SUBMITS], 3);
		n->answer = sqlite3_column_int64(st[Q_SUBMITS], 4);
		snprintf(n->key, sizeof n->key, "%.32s %.30s", judge.callers[caller].id,
			eye_text(Q_SUBMITS, 2));
		HASH_FIND_STR(judge.submits, n->key, twin);
		if (twin != NULL)
			violation("submit %s was taken twice: sessions %lld and %lld", n->key,
				(long long)twin->session, (long long)n->session);
		HASH_ADD_STR(judge.submits, key, n);
	}
}

/* Everything up to a watermark must have been settled by the broker. */
static void look_at_callers(void)
{
	eye_ask(Q_CALLERS);
	while (eye_row(Q_CALLERS)) {
		int64_t key = sqlite3_column_int64(st[Q_CALLERS], 0),
			confirmed = sqlite3_column_int64(st[Q_CALLERS], 2);
		struct jcaller *c = &judge.callers[key];

		if (key >= JUDGE_CALLERS)
			violation("caller %lld is too many", (long long)key);
		snprintf(c->id, sizeof c->id, "%s", eye_text(Q_CALLERS, 1));
		if (confirmed < c->confirmed)
			violation("caller %s: the watermark goes back from %lld to %lld", c->id,
				(long long)c->confirmed, (long long)confirmed);
		for (int64_t id = c->confirmed + 1; id <= confirmed && id <= judge.message_count; id++)
			if (judge.messages[id].is_there && judge.messages[id].caller == key &&
				!judge.messages[id].is_settled)
				violation(
					"caller %s: the watermark is %lld, and message %lld was never "
					"settled",
					c->id, (long long)confirmed, (long long)id);
		c->confirmed = confirmed;
	}
}

void judge_look(void)
{
	int64_t version;

	eye_ask(Q_VERSION);
	eye_row(Q_VERSION);
	version = sqlite3_column_int64(st[Q_VERSION], 0);
	sqlite3_reset(st[Q_VERSION]);
	if (version == seen_version)
		return;
	seen_version = version;
	eye_ask(Q_BEGIN);
	eye_row(Q_BEGIN);
	look_at_sessions();
	waiting_look();
	look_at_transitions();
	eye_ask_about(Q_EVENTS, judge.message_count);
	while (eye_row(Q_EVENTS))
		look_at_event();
	told_look();
	if (eye_may_ask(Q_POINTS))
		look_at_points();
	for (int64_t key = 1; key <= judge.session_count; key++)
		if (judge.sessions[key].extend_asked_us > judge.sessions[key].extend_moved_us &&
			judge.sessions[key].deadline_us != 0)
			look_at_deadline(key);
	look_at_outcomes();
	waiting_look_at_reviews();
	if (eye_may_ask(Q_CALLERS))
		look_at_callers();
	if (eye_may_ask(Q_SUBMITS) && eye_may_ask(Q_CALLERS))
		look_at_submits();
	if (eye_may_ask(Q_SUBMIT))
		waiting_look_at_submits(false);
	leaving_look();
	eye_ask(Q_END);
	eye_row(Q_END);
}

/* Old submits were forgotten: what is new is told by what is left. */
void judge_forget_submits(void)
{
	judge.submit_count = 0;
	eye_ask_about(Q_SUBMITS, 0);
	while (eye_row(Q_SUBMITS))
		judge.submit_count = sqlite3_column_int64(st[Q_SUBMITS], 0);
}

/* ---- life ---- */

void judge_reset(void)
{
	struct jsubmit *n, *tmp;

	HASH_CLEAR(hh, judge.by_message_id);
	HASH_ITER(hh, judge.submits, n, tmp) {
		HASH_DEL(judge.submits, n);
		free(n);
	}
	judge.messages = grown(judge.messages, &judge.message_room, 8191, sizeof *judge.messages);
	judge.sessions = grown(judge.sessions, &judge.session_room, ORDERS_MAX + 1, sizeof *judge.sessions);
	judge.message_count = judge.session_count = judge.transition_count = judge.submit_count = 0;
	judge.point_count = 0;
	waiting_reset();
	told_reset();
	memset(judge.callers, 0, sizeof judge.callers);
}

/* What was committed once is still there, whatever happened to the machine. */
static void recount(void)
{
	static const char *const names[] = {
		"messages", "transitions", "sessions", "submits", "reviews", "decisions"};
	const int64_t had[] = {judge.message_count, judge.transition_count, judge.session_count,
		judge.submit_count, judge.review_count, judge.decision_count};

	eye_ask(Q_COUNTS);
	eye_row(Q_COUNTS);
	for (int i = 0; i < 6; i++)
		if (sqlite3_column_int64(st[Q_COUNTS], i) < had[i])
			violation("%lld %s were committed, and %lld are left", (long long)had[i], names[i],
				(long long)sqlite3_column_int64(st[Q_COUNTS], i));
	sqlite3_reset(st[Q_COUNTS]);
}

static void recover_session(int64_t key)
{
	struct jsession *s = &judge.sessions[key];
	int64_t deadline;

	if (judge_is_over(s->state))
		return;
	cover(strcmp(s->state, "ABORTING") == 0          ? RECOVER_ABORTING :
			s->has_outcome                   ? RECOVER_OUTCOME :
			strcmp(s->waits, "human") == 0   ? WAIT_CRASH_HUMAN :
			strcmp(s->waits, "program") == 0 ? WAIT_CRASH_PROGRAM :
			strcmp(s->state, "PENDING") != 0 ? RECOVER_LIVE :
			s->did_wait                      ? WAIT_CRASH_DECIDED :
							   RECOVER_PENDING);
	/* From here on the stored wall time counts. */
	eye_ask_about(Q_ROW, key);
	if (eye_row(Q_ROW) && sqlite3_column_type(st[Q_ROW], 2) != SQLITE_NULL &&
		clock_parse(eye_text(Q_ROW, 2), &deadline)) {
		if (s->deadline_us != 0 && deadline != s->deadline_wall_us)
			violation("session %.8s: its deadline is another after a crash, %s", s->id,
				eye_text(Q_ROW, 2));
		s->deadline_us = clock_boot_us() + (deadline - clock_wall_us());
		s->early_us = s->deadline_us;
		if (!s->has_outcome && s->deadline_us <= clock_boot_us())
			cover(RECOVER_TIMED_OUT);
	}
	sqlite3_reset(st[Q_ROW]);
}

void judge_begin(void)
{
	char path[600];

	snprintf(path, sizeof path, "%s/hcpd.db", sim.core.state_dir);
	if (sqlite3_open_v2(path, &eye, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		violation("the judge cannot open the database");
	seen_version = -1;
	if (!sim.forgets)
		recount();
	leaving_begin();
	judge_look(); /* what the crash left: recovery has not begun */
	for (int64_t key = 1; key <= judge.session_count; key++)
		recover_session(key);
	waiting_recover();
	approver_begin();
	for (int64_t id = judge.message_count; id > 0; id--)
		if (judge.messages[id].is_there && id > judge.callers[judge.messages[id].caller].confirmed) {
			cover(RECOVER_OUTBOX);
			break;
		}
}

void judge_end(void)
{
	for (int i = 0; i < Q_COUNT; i++) {
		sqlite3_finalize(st[i]);
		st[i] = NULL;
	}
	sqlite3_close(eye);
	eye = NULL;
}

sqlite3 *judge_db(void)
{
	return eye;
}
