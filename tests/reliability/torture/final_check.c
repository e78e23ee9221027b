/* SPDX-License-Identifier: MIT */
/* final_check.c: the final check of what was decided: nothing ran that had to be asked about and was not
 * allowed, a no was a no, what decided once did not decide again, and the audit's chain holds. Reads the
 * store and the decider's file; never hcpd's code. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "support/audit_oracle.h"
#include "violations.h"
#include "support/oracle_store.h"
#include "fake_approver.h"

#define ALLOWED \
	"SELECT r.session FROM reviews r JOIN decisions d ON d.request_id = r.request_id" \
	" AND d.artifact_hash = r.artifact_hash WHERE r.state = 'EXECUTED' AND d.decision = 'allow' AND " \
	"d.is_final"
#define WISH(name) "json_extract(t.task, '$.inputs." name "')"
#define RAN \
	"(s.started_at IS NOT NULL OR EXISTS (SELECT 1 FROM events e WHERE e.session = s.id AND e.type NOT " \
	"IN ('harp','task_rejected')))"

/* Each row is a violation; the first two columns are the evidence. */
static const struct oracle_question questions[] = {
	{"nothing runs unapproved", "no human allowed it",
		"SELECT s.session_id, s.state FROM sessions s JOIN tasks t ON t.session = s.id WHERE "
		"(s.capability = 'lab' OR " WISH("policy") " IS 'ask') AND " RAN " AND s.id NOT IN (" ALLOWED
							   ")"},
	{"nothing runs unapproved", "the policy program was not asked",
		"SELECT s.session_id, s.state FROM sessions s WHERE s.message_id IS NULL"},
	{"nothing runs unapproved", "no verdict of the program lets it pass",
		"SELECT s.session_id, s.state FROM sessions s WHERE " RAN
		" AND NOT EXISTS (SELECT 1 FROM audit WHERE json_extract(entry,"
		" '$.what') = 'verdict' AND json_extract(entry, '$.outcome') IN ('accepted','waits') AND "
		"json_extract(entry, '$.about') IN"
		" ('it said allow','it said ask') AND json_extract(entry, '$.session') = s.session_id)"},
	{"a denied task does not run", "a no, or nobody's yes",
		"SELECT s.session_id, s.state FROM sessions s JOIN tasks t ON t.session = s.id WHERE (" WISH(
			"human") " IN ('deny','never') OR " WISH("policy") " IS 'deny') AND " RAN},
	{"nothing is done outside its limits", "it announced that it would, and completed",
		"SELECT s.session_id, s.state FROM sessions s JOIN tasks t ON t.session = s.id WHERE " WISH(
			"heat") " > 95 AND s.state ="
				" 'COMPLETED'"},
	{"a decision is used once", "a nonce counted twice",
		"SELECT nonce, count(*) FROM decisions GROUP BY nonce, signer HAVING count(*) > 1"},
};

static void check_store(sqlite3 *db)
{
	char why[300];

	oracle_ask(db, questions, sizeof questions / sizeof questions[0], violation_of_rule, NULL);
	oracle_store_check_decisions(db, violation_of_rule, NULL);
	if (!chain_holds(db, why, sizeof why))
		violation("the audit's chain", "%s", why);
}

static long number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	long n = sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW ?
		(long)sqlite3_column_int64(st, 0) :
		-1;

	sqlite3_finalize(st);
	return n;
}

static bool is_stored(sqlite3 *db, const char *request, const char *decision)
{
	sqlite3_stmt *st = NULL;
	bool found = false;

	if (sqlite3_prepare_v2(db,
		    "SELECT 1 FROM reviews JOIN decisions USING (request_id) WHERE request_id = ?1 AND "
		    "decision = ?2"
		    " AND state = CASE ?2 WHEN 'allow' THEN 'EXECUTED' ELSE 'DENIED' END AND is_final",
		    -1, &st, NULL) == SQLITE_OK) {
		sqlite3_bind_text(st, 1, request, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, decision, -1, SQLITE_STATIC);
		found = sqlite3_step(st) == SQLITE_ROW;
	}
	sqlite3_finalize(st);
	return found;
}

long final_check_files(const char *path, const char *store)
{
	long obeyed = 0, refused = 0, lost = 0, vain = 0;
	char request[64], what[16], answer[64];
	FILE *f = fopen(path, "r");
	sqlite3 *db;

	if (sqlite3_open_v2(store, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK || !f) {
		violation("sound store", "%s or %s cannot be opened", store, path);
		sqlite3_close(db);
		return -1;
	}
	check_store(db);
	while (fscanf(f, "%63s %15s %63s", request, what, answer) == 3) {
		bool is_done = strcmp(answer, "done") == 0,
		     is_bad = strcmp(what, "again") == 0 || strcmp(what, "forged") == 0;

		if (is_done && is_bad)
			violation("a decision is used once", "%s: one that is %s was obeyed", request, what);
		if (is_done && !is_bad && !is_stored(db, request, what))
			violation("what was answered is stored",
				"%s: %s was answered, and the store does not know it", request, what);
		obeyed += is_done && !is_bad;
		lost += strcmp(answer, "lost") == 0;
		vain += !is_done && is_bad;
		refused += !is_done && !is_bad && strcmp(answer, "lost") != 0;
	}
	say("reviews: %ld, of them %ld looks again under another policy, %ld expired; %ld tasks denied by "
	    "the policy program",
		number(db, "SELECT count(*) FROM reviews"),
		number(db, "SELECT count(*) - count(DISTINCT session) FROM reviews"),
		number(db,
			"SELECT count(*) FROM events WHERE json_extract(body, '$.payload.reason_code') = "
			"'approval_expired'"),
		number(db,
			"SELECT count(*) FROM events WHERE json_extract(body, '$.payload.reason_code') = "
			"'policy_denied'"));
	say("humans: %ld decisions obeyed, %ld refused, %ld forged or repeated ones in vain, %ld unanswered",
		obeyed, refused, vain, lost);
	fclose(f);
	sqlite3_close(db);
	return obeyed;
}
