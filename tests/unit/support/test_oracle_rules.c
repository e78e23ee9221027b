/* SPDX-License-Identifier: MIT */
/* test_oracle_rules.c: the shared oracles can convict: each rule for a stream and for the rows of a store is
 * broken once and reported by its name; what is good is not reported. Simulation, sweeps, disk, torture and
 * integration rest on this. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "support/oracle_store.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static char found[400]; /* the rules that were broken, a blank after each */

static void collect(void *ctx, const char *rule, const char *what)
{
	size_t used = strlen(found);

	(void)ctx;
	ck_assert(what[0] != '\0');
	snprintf(found + used, sizeof found - used, "%s; ", rule);
}

/* ---- streams ---- */

/* A message a word: a = task_accepted, r = task_rejected, c = task_completed, f = task_failed, x = no type;
 * N:created, N:log, N:odd (no event type), N:closed=STATE, N:FROM>TO. */
static void take(struct oracle_stream *s, const char *word)
{
	struct oracle_message m = {"event", "", 0, "", ""};
	char copy[64], *at, *arrow;

	snprintf(copy, sizeof copy, "%s", word);
	if ((at = strchr(copy, ':')) == NULL) {
		m.type = copy[0] == 'a' ? "task_accepted" :
			copy[0] == 'r'  ? "task_rejected" :
			copy[0] == 'c'  ? "task_completed" :
			copy[0] == 'f'  ? "task_failed" :
					  "gossip";
	} else {
		m.sequence = atoi(copy);
		at++;
		if ((arrow = strchr(at, '>')) != NULL) {
			*arrow = '\0';
			m.event_type = "state_changed";
			m.from = at;
			m.to = arrow + 1;
		} else if (strncmp(at, "closed=", 7) == 0) {
			m.event_type = "session_closed";
			m.to = at + 7;
		} else if (strncmp(at, "created", 7) == 0) {
			m.event_type = "session_created";
			m.to = at[7] == '=' ? at + 8 : "PENDING";
		} else {
			m.event_type = oracle_event_type(at);
		}
	}
	oracle_stream_take(s, &m);
}

#define BEGIN "a 1:created 2:PENDING>RUNNING "
#define END "3:RUNNING>COMPLETED c 4:closed=COMPLETED"

/* The messages, how they are looked at (o: any order, l: lossy, u: may be open), and the rules they break. */
static const struct {
	const char *messages, *how, *rules;
} streams[] = {
	{BEGIN END, "", ""},
	{BEGIN "3:log 4:RUNNING>PAUSED 5:PAUSED>RUNNING 6:RUNNING>FAILED f 7:closed=FAILED", "", ""},
	{BEGIN "3:RUNNING>ABORTING 4:ABORTING>ABORTED 5:closed=ABORTED", "", ""},
	{"r", "u", ""},
	{BEGIN "3:log", "u", ""},
	{"c 1:created 2:PENDING>RUNNING 3:RUNNING>COMPLETED 4:closed=COMPLETED a", "o", ""},
	{"3:PAUSED>RUNNING 7:RUNNING>FAILED 9:closed=FAILED", "lu", ""},
	{"9:closed=FAILED", "lu", ""},
	{"a a 1:created 2:PENDING>RUNNING " END, "", "one answer; "},
	{"a r", "u", "one answer; "},
	{"a 1:created r", "u", "one answer; "},
	{"1:created a 2:PENDING>RUNNING " END, "", "one answer; one answer; "},
	{"1:created 2:PENDING>RUNNING " END, "o", "each submit answered; "},
	{BEGIN "4:log", "u", "no gap; "},
	{BEGIN "2:log", "u", "no gap; "},
	{BEGIN "3:log 3:log", "lu", "no gap; "},
	{"a 1:log", "u", "session_created first; "},
	{BEGIN "3:created=RUNNING", "u", "session_created first; "},
	{"a 1:created=RUNNING", "u", "session_created first; "},
	{BEGIN "3:odd", "u", "known messages; "},
	{BEGIN "x", "u", "known messages; "},
	{BEGIN "3:RUNNING>PENDING", "u", "legal transitions; "},
	{BEGIN "3:PAUSED>RUNNING", "u", "legal transitions; "},
	{"a 1:created 2:PENDING>COMPLETED", "lu", "legal transitions; "},
	{BEGIN "3:RUNNING>COMPLETED c 4:closed=FAILED", "", "one terminal state; one terminal state; "},
	{BEGIN "3:closed=RUNNING", "u", "one terminal state; "},
	{BEGIN "3:RUNNING>COMPLETED f 4:closed=COMPLETED", "", "one terminal state; one terminal state; "},
	{BEGIN "3:RUNNING>COMPLETED 4:closed=COMPLETED", "", "one terminal state; "},
	{BEGIN "3:RUNNING>COMPLETED c c 4:closed=COMPLETED", "", "one terminal state; "},
	{BEGIN "3:RUNNING>ABORTING 4:ABORTING>ABORTED 5:closed=ABORTED f", "o", "one terminal state; "},
	{BEGIN "3:RUNNING>COMPLETED 4:COMPLETED>FAILED", "u", "legal transitions; one terminal state; "},
	{BEGIN "3:log", "", "one terminal state; "},
	{BEGIN "3:RUNNING>COMPLETED 4:log", "u", "session_closed last; "},
	{BEGIN END " 5:log", "", "session_closed last; "},
	{BEGIN END " a", "", "session_closed last; one answer; "},
	{BEGIN END " 5:closed=COMPLETED", "", "session_closed last; one terminal state; "},
};

START_TEST(oracle_reports_each_broken_rule_of_a_stream)
{
	const char *how = streams[_i].how;
	struct oracle_stream s = {.session = "s",
		.on_violation = collect,
		.any_order = strchr(how, 'o') != NULL,
		.is_lossy = strchr(how, 'l') != NULL};
	char words[200], *save = NULL;

	found[0] = '\0';
	snprintf(words, sizeof words, "%s", streams[_i].messages);
	for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
		take(&s, word);
	if (!s.is_lossy)
		oracle_stream_end(&s, strchr(how, 'u') == NULL);
	ck_assert_msg(strcmp(found, streams[_i].rules) == 0, "%s: \"%s\", not \"%s\"", streams[_i].messages,
		found, streams[_i].rules);
}
END_TEST

START_TEST(oracle_reads_the_fields_of_an_envelope)
{
	static const struct {
		const char *text, *event_type, *from, *to;
		int sequence;
	} cases[] = {
		{"{\"type\":\"event\",\"payload\":{\"event_type\":\"state_changed\",\"sequence\":7,\"data\":"
		 "{\"from_state\":\"RUNNING\",\"to_state\":\"PAUSED\"}}}",
			"state_changed", "RUNNING", "PAUSED", 7},
		{"{\"type\":\"event\",\"payload\":{\"event_type\":\"session_created\",\"sequence\":1,"
		 "\"data\":"
		 "{\"state\":\"PENDING\"}}}",
			"session_created", "", "PENDING", 1},
		{"{\"type\":\"event\",\"payload\":{\"event_type\":\"session_closed\",\"sequence\":9,\"data\":"
		 "{\"final_state\":\"FAILED\"}}}",
			"session_closed", "", "FAILED", 9},
		{"{\"type\":\"event\",\"payload\":{\"event_type\":\"gossip\"}}", "", "", "", 0},
	};
	json_t *root = json_loads(cases[_i].text, 0, NULL);
	struct oracle_message m = oracle_message_of(root);

	ck_assert_str_eq(m.type, "event");
	ck_assert_str_eq(m.event_type, cases[_i].event_type);
	ck_assert_str_eq(m.from, cases[_i].from);
	ck_assert_str_eq(m.to, cases[_i].to);
	ck_assert_int_eq(m.sequence, cases[_i].sequence);
	json_decref(root);
}
END_TEST

/* ---- rows ---- */

/* One session that completed, one that a human denied, one that waits for a human. */
static const char store[] =
	"CREATE TABLE sessions (id INTEGER PRIMARY KEY, session_id, state, state_version, started_at, "
	"waits_for);"
	"INSERT INTO sessions VALUES (1, 's1', 'COMPLETED', 2, 't', NULL), (2, 's2', 'REJECTED', 1, NULL, "
	"'human'),"
	" (3, 's3', 'PENDING', 0, NULL, 'human');"
	"CREATE TABLE transitions (session, session_id, from_state, to_state, reason, actor, at, "
	"state_version);"
	"INSERT INTO transitions VALUES (1, 's1', 'PENDING', 'RUNNING', 'approved', 'a', 't', 1),"
	" (1, 's1', 'RUNNING', 'COMPLETED', 'completed', 'a', 't', 2), (2, 's2', 'PENDING', 'REJECTED', "
	"'approval_denied', 'a', "
	"'t', 1);"
	"CREATE TABLE events (session, session_id, caller, type, event_type, sequence, body);"
	"INSERT INTO events VALUES (1, 's1', 1, 'task_accepted', NULL, NULL, "
	"'{\"payload\":{\"in_reply_to\":\"m1\"}}'),"
	" (1, 's1', 1, 'event', 'session_created', 1, '{}'), (1, 's1', 1, 'event', 'state_changed', 2, '{}'),"
	" (1, 's1', 1, 'event', 'session_closed', 3, '{}'),"
	" (NULL, NULL, 1, 'task_rejected', NULL, NULL, '{\"payload\":{\"in_reply_to\":\"m2\"}}');"
	"CREATE TABLE outcomes (session);"
	"CREATE TABLE submits (message_id, session, answer);"
	"INSERT INTO submits VALUES ('m1', 1, 1), ('m2', 2, 5), ('m3', 3, NULL);"
	"CREATE TABLE reviews (request_id, session, session_id, state);"
	"INSERT INTO reviews VALUES ('r2', 2, 's2', 'DENIED'), ('r3', 3, 's3', 'AWAITING_DECISION');"
	"CREATE TABLE decisions (request_id, decision, is_final);"
	"INSERT INTO decisions VALUES ('r2', 'deny', 1);";

static const struct {
	const char *sql, *rules;
} stores[] = {
	{"", ""},
	{"UPDATE sessions SET state = 'FAILED' WHERE id = 1", "legal transitions; "},
	{"UPDATE sessions SET state = 'RUNNING' WHERE id = 3",
		"legal transitions; one answer; an undecided task is not heard of; what waits is asked "
		"about; "},
	{"UPDATE sessions SET state_version = 3 WHERE id = 1", "legal transitions; "},
	{"UPDATE transitions SET reason = '' WHERE session = 2", "legal transitions; "},
	{"UPDATE transitions SET reason = 'because' WHERE session = 2", "legal transitions; "},
	{"UPDATE transitions SET actor = NULL WHERE session = 2", "legal transitions; "},
	{"UPDATE transitions SET at = NULL WHERE session = 2", "legal transitions; "},
	{"UPDATE transitions SET to_state = 'PAUSED' WHERE session = 1 AND state_version = 1",
		"legal transitions; legal transitions; "},
	{"UPDATE transitions SET from_state = 'PAUSED' WHERE session = 1 AND state_version = 1",
		"legal transitions; "},
	{"UPDATE transitions SET state_version = 4 WHERE session = 1 AND state_version = 2",
		"legal transitions; "},
	{"DELETE FROM events WHERE sequence = 2", "no gap; "},
	{"UPDATE events SET sequence = 2 WHERE sequence = 1", "no gap; "},
	{"INSERT INTO events VALUES (1, 's1', 1, 'event', 'log', 4, '{}')", "session_closed last; "},
	{"UPDATE events SET event_type = 'log' WHERE sequence = 3", "one terminal state; "},
	{"INSERT INTO outcomes VALUES (1)", "one terminal state; "},
	{"DROP TABLE outcomes", "sound store; "},
	{"UPDATE sessions SET started_at = 't' WHERE id = 2",
		"a denied task does not run; an undecided task is not heard of; "},
	{"UPDATE reviews SET session = 1 WHERE request_id = 'r2'", "a denied task does not run; "},
	{"UPDATE decisions SET decision = 'allow' WHERE request_id = 'r2'", "a denied task does not run; "},
	{"INSERT INTO decisions VALUES ('r2', 'deny', 1)", "a decision is used once; "},
	{"INSERT INTO reviews VALUES ('r4', 1, 's1', 'EXECUTED'), ('r5', 1, 's1', 'EXECUTED')",
		"a decision is used once; "},
	{"INSERT INTO events SELECT * FROM events WHERE type = 'task_rejected'", "answered once; "},
	{"UPDATE submits SET answer = 9 WHERE message_id = 'm3'", "one answer; "},
	{"UPDATE submits SET answer = NULL WHERE message_id = 'm1'", "one answer; "},
	{"DELETE FROM reviews WHERE request_id = 'r3'", "what waits is asked about; "},
};

START_TEST(oracle_reports_each_broken_rule_of_the_rows)
{
	sqlite3 *db;

	found[0] = '\0';
	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(db, store, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	ck_assert_msg(
		sqlite3_exec(db, stores[_i].sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	oracle_store_check(db, collect, NULL);
	oracle_store_check_decisions(db, collect, NULL);
	sqlite3_close(db);
	ck_assert_msg(strcmp(found, stores[_i].rules) == 0, "%s: \"%s\", not \"%s\"", stores[_i].sql, found,
		stores[_i].rules);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("oracle");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, oracle_reports_each_broken_rule_of_a_stream, 0, COUNT(streams));
	tcase_add_loop_test(t, oracle_reads_the_fields_of_an_envelope, 0, 4);
	tcase_add_loop_test(t, oracle_reports_each_broken_rule_of_the_rows, 0, COUNT(stores));
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
