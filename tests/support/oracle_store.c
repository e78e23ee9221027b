/* SPDX-License-Identifier: MIT */
/* oracle_store.c: the rules that oracle_store.h names. */
#include "oracle_store.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The words of hcpd(8), Reasons; scripts/check-reasons compares. */
#define REASONS \
	"'approved','slot_free','paused_by_operator','paused_by_worker','idle','worker_died'," \
	"'stopping','callee_restarted','resumed','recovered_from_checkpoint','restarted','completed'," \
	"'worker_failed','timeout','idle_timeout','pause_expired','safety_violation','no_checkpoint'," \
	"'recheck_failed','intent_changed','migration_failed','summarized','failed_by_operator'," \
	"'discarded','aborted_by_caller','aborted_by_operator','approval_denied','approval_expired'," \
	"'policy_denied','unauthorized','forbidden','unknown_capability','invalid_input'," \
	"'risk_too_high','rate_limited','resource_unavailable'"

static const struct oracle_question rows[] = {
	{"sound store", "integrity_check",
		"SELECT integrity_check, '' FROM pragma_integrity_check WHERE integrity_check <> 'ok'"},
	{"legal transitions", "the row says another state than its last transition",
		"SELECT session_id, state FROM sessions s WHERE state <> coalesce((SELECT to_state FROM "
		"transitions t"
		" WHERE t.session = s.id ORDER BY state_version DESC LIMIT 1), 'PENDING')"},
	{"legal transitions", "the row's version is not the number of its transitions",
		"SELECT session_id, state_version FROM sessions s WHERE state_version <>"
		" (SELECT count(*) FROM transitions t WHERE t.session = s.id)"},
	{"legal transitions", "a transition has no reason, no actor or no time",
		"SELECT session_id, to_state FROM transitions WHERE coalesce(reason, '') = ''"
		" OR coalesce(actor, '') = '' OR coalesce(at, '') = ''"},
	{"legal transitions", "a reason that is in no manual",
		"SELECT session_id, reason FROM transitions WHERE actor <> 'worker' AND reason <> '' AND "
		"reason NOT IN"
		" (" REASONS ")"},
	{"no gap", "sequences in the store",
		"SELECT session_id, count(*) FROM events WHERE sequence > 0 GROUP BY session HAVING"
		" min(sequence) <> 1 OR max(sequence) <> count(*) OR count(DISTINCT sequence) <> count(*)"},
	{"session_closed last", "an event of the stream comes after it",
		"SELECT session_id, count(*) FROM events WHERE sequence > 0 GROUP BY session HAVING"
		" max(CASE event_type WHEN 'session_closed' THEN sequence END) < max(sequence)"},
	{"one terminal state", "a session has ended and was not closed in the same commit",
		"SELECT session_id, state FROM sessions s WHERE state IN ('COMPLETED','FAILED','ABORTED') AND"
		" NOT EXISTS (SELECT 1 FROM events e WHERE e.session = s.id AND e.event_type = "
		"'session_closed')"},
	{"one terminal state", "an outcome is kept of a session that has ended",
		"SELECT s.session_id, s.state FROM outcomes o JOIN sessions s ON s.id = o.session"
		" WHERE s.state IN ('COMPLETED','FAILED','ABORTED','REJECTED')"},
};

static const struct oracle_question decisions[] = {
	{"a denied task does not run", "its review was denied, or it was refused after an approval",
		"SELECT s.session_id, s.state FROM sessions s JOIN reviews r ON r.session = s.id WHERE"
		" r.state IN ('DENIED','APPROVED') AND (s.state <> 'REJECTED' OR s.started_at IS NOT NULL OR "
		"EXISTS (SELECT 1 FROM events e WHERE e.session = s.id AND e.type NOT IN"
		" ('harp','task_rejected')))"},
	{"a denied task does not run", "a review is DENIED without a decision that says so",
		"SELECT r.request_id, r.state FROM reviews r WHERE r.state = 'DENIED' AND NOT EXISTS"
		" (SELECT 1 FROM decisions d WHERE d.request_id = r.request_id AND d.decision = 'deny')"},
	{"a decision is used once", "a request has two",
		"SELECT request_id, count(*) FROM decisions WHERE is_final GROUP BY 1 HAVING count(*) > 1"},
	{"a decision is used once", "a session was approved twice",
		"SELECT session_id, count(*) FROM reviews WHERE state = 'EXECUTED' GROUP BY 1 HAVING "
		"count(*) > 1"},
	{"answered once", "two answers to one submit",
		"SELECT json_extract(body, '$.payload.in_reply_to'), count(*) FROM events WHERE type IN"
		" ('task_accepted','task_rejected') GROUP BY caller, 1 HAVING count(*) > 1"},
	{"one answer", "an undecided task was answered, or a decided one was not",
		"SELECT b.message_id, s.state FROM submits b JOIN sessions s ON s.id = b.session WHERE"
		" (s.state = 'PENDING' AND s.waits_for IS NOT NULL) <> (b.answer IS NULL)"},
	{"an undecided task is not heard of", "something was said or done for it",
		"SELECT s.session_id, s.state FROM sessions s WHERE waits_for IS NOT NULL AND (state NOT IN"
		" ('PENDING','REJECTED') OR started_at IS NOT NULL OR EXISTS"
		" (SELECT 1 FROM events e WHERE e.session = s.id AND e.type NOT IN "
		"('harp','task_rejected')))"},
	{"what waits is asked about", "a review without its task, or a task without its review",
		"SELECT s.session_id, s.state FROM sessions s WHERE (s.state = 'PENDING' AND s.waits_for IS "
		"'human')"
		" <> EXISTS (SELECT 1 FROM reviews r WHERE r.session = s.id AND r.state = "
		"'AWAITING_DECISION')"},
};

static const char *text(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s != NULL ? s : "";
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql, oracle_violation *on_violation, void *ctx)
{
	sqlite3_stmt *st = NULL;
	char what[400];

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK)
		return st;
	snprintf(what, sizeof what, "%s: %.300s", sqlite3_errmsg(db), sql);
	on_violation(ctx, "sound store", what);
	return NULL;
}

void oracle_ask(sqlite3 *db, const struct oracle_question *questions, size_t count,
	oracle_violation *on_violation, void *ctx)
{
	for (const struct oracle_question *q = questions; q < questions + count; q++) {
		sqlite3_stmt *st = prepare(db, q->sql, on_violation, ctx);
		char what[400];
		int rc = SQLITE_DONE;

		while (st != NULL && (rc = sqlite3_step(st)) == SQLITE_ROW) {
			snprintf(what, sizeof what, "%s: %s %s", q->what, text(st, 0), text(st, 1));
			on_violation(ctx, q->rule, what);
		}
		if (rc != SQLITE_DONE) {
			snprintf(what, sizeof what, "%s: %s", q->what, sqlite3_errmsg(db));
			on_violation(ctx, "sound store", what);
		}
		sqlite3_finalize(st);
	}
}

static void check_transitions(sqlite3 *db, oracle_violation *on_violation, void *ctx)
{
	sqlite3_stmt *st = prepare(db,
		"SELECT session_id, from_state, to_state, state_version FROM transitions"
		" ORDER BY session, state_version",
		on_violation, ctx);
	char session[64] = "", state[16] = "", what[300];
	long long version = 0;

	while (st != NULL && sqlite3_step(st) == SQLITE_ROW) {
		if (strcmp(session, text(st, 0)) != 0) {
			snprintf(session, sizeof session, "%s", text(st, 0));
			snprintf(state, sizeof state, "PENDING");
			version = 0;
		}
		if (sqlite3_column_int64(st, 3) != ++version || strcmp(text(st, 1), state) != 0 ||
			!oracle_is_legal(text(st, 1), text(st, 2))) {
			snprintf(what, sizeof what,
				"transition %lld of %s in the store: from %s to %s after %s", version,
				session, text(st, 1), text(st, 2), state);
			on_violation(ctx, "legal transitions", what);
		}
		snprintf(state, sizeof state, "%s", text(st, 2));
	}
	sqlite3_finalize(st);
}

void oracle_store_check(sqlite3 *db, oracle_violation *on_violation, void *ctx)
{
	oracle_ask(db, rows, COUNT(rows), on_violation, ctx);
	check_transitions(db, on_violation, ctx);
}

void oracle_store_check_decisions(sqlite3 *db, oracle_violation *on_violation, void *ctx)
{
	oracle_ask(db, decisions, COUNT(decisions), on_violation, ctx);
}
