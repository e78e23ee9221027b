/* SPDX-License-Identifier: MIT */
/* test_oracle.c: the oracle of the streams can convict: each invariant is broken once, and reported; a good
 * one is not. An oracle that cannot fail would make a run of the torture worth nothing. */
#include <check.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps.h"
#include "store/archive.h"
#include "support/audit_oracle.h"
#include "violations.h"
#include "fake_approver.h"
#include "support/harness.h"
#include "stream.h"
#include "harp_listener.h"
#include "archive_merge.h"

static struct stream s;

static void setup(void)
{
	free(s.moments);
	memset(&s, 0, sizeof s);
	snprintf(s.session, sizeof s.session, "the-session");
}

/* Takes a message as it could come; ' for ". */
static void take(const char *text)
{
	json_t *message = J("%s", text);
	char *body = json_dumps(message, JSON_COMPACT);

	stream_take(&s, message, body, strlen(body));
	free(body);
	json_decref(message);
}

static void take_event(int sequence, const char *event, const char *data)
{
	char text[400];

	snprintf(text, sizeof text, "{'type':'event','payload':{'event_type':'%s','sequence':%d,'data':%s}}",
		event, sequence, data);
	take(text);
}

static void change(int sequence, const char *from, const char *to)
{
	char data[200];

	snprintf(data, sizeof data, "{'from_state':'%s','to_state':'%s','reason':'x'}", from, to);
	take_event(sequence, "state_changed", data);
}

static void begin(void)
{
	take("{'type':'task_accepted','payload':{}}");
	take_event(1, "session_created", "{'state':'PENDING'}");
	change(2, "PENDING", "RUNNING");
}

static void end_from(int sequence)
{
	change(sequence, "RUNNING", "COMPLETED");
	take("{'type':'task_completed','payload':{'outputs':{'n':3}}}");
	take_event(sequence + 1, "session_closed", "{'final_state':'COMPLETED','reason':'completed'}");
}

static int count_violations(void)
{
	stream_check(&s, true);
	return violation_count();
}

START_TEST(oracle_reports_nothing_of_a_good_stream)
{
	begin();
	take_event(3, "progress", "{'stage':'a'}");
	change(4, "RUNNING", "PAUSED");
	change(5, "PAUSED", "RUNNING");
	take_event(3, "progress", "{'stage':'a'}"); /* again, the same bytes */
	end_from(6);
	snprintf(s.wanted_output, sizeof s.wanted_output, "n=3");
	ck_assert_int_eq(count_violations(), 0);
}
END_TEST

START_TEST(oracle_reports_a_gap)
{
	s.any_order = true;
	begin();
	end_from(4);
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_a_wrong_order_unless_it_may_be)
{
	s.any_order = _i == 0;
	begin();
	take_event(4, "progress", "{}");
	take_event(3, "progress", "{'x':1}");
	end_from(5);
	ck_assert_int_eq(count_violations() > 0, _i == 1);
}
END_TEST

START_TEST(oracle_reports_two_contents_of_one_sequence)
{
	begin();
	take_event(3, "progress", "{'stage':'a'}");
	take_event(3, "progress", "{'stage':'b'}");
	end_from(4);
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_an_illegal_transition)
{
	begin();
	change(3, "RUNNING", "PAUSED");
	change(4, "PAUSED", "COMPLETED");
	take("{'type':'task_completed','payload':{'outputs':{}}}");
	take_event(5, "session_closed", "{'final_state':'COMPLETED'}");
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_a_transition_from_another_state)
{
	begin();
	change(3, "PAUSED", "RUNNING");
	end_from(4);
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_what_comes_after_the_end)
{
	begin();
	end_from(3);
	take_event(5, "log", "{'level':'info','message':'late'}");
	ck_assert_int_ge(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_a_second_end)
{
	begin();
	change(3, "RUNNING", "FAILED");
	change(4, "RUNNING", "COMPLETED");
	ck_assert_int_ge(count_violations(), 2);
}
END_TEST

START_TEST(oracle_reports_a_session_that_never_closes)
{
	begin();
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_a_missing_answer_and_a_missing_result)
{
	take_event(1, "session_created", "{'state':'PENDING'}");
	change(2, "PENDING", "RUNNING");
	change(3, "RUNNING", "COMPLETED");
	take_event(4, "session_closed", "{'final_state':'COMPLETED'}");
	ck_assert_int_eq(count_violations(), 2);
}
END_TEST

START_TEST(oracle_reports_work_that_was_not_done)
{
	snprintf(s.wanted_output, sizeof s.wanted_output, "n=4");
	begin();
	end_from(3);
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

/* --- attempts, and where a worker goes on --- */

static void count_to(int sequence, int number)
{
	char data[80];

	snprintf(data, sizeof data, "{'stage':'count','message':'%d '}", number);
	take_event(sequence, "progress", data);
}

/* 1, 2 saved, 3; its worker dies, and the next one counts on from there. */
static void die_and_count(int again)
{
	begin();
	count_to(3, 1);
	count_to(4, 2);
	take_event(5, "checkpoint_created", "{'description':'at 2'}");
	count_to(6, 3);
	take_event(7, "error", "{'code':'worker_died','message':'m','recoverable':true}");
	change(8, "RUNNING", "PAUSED");
	change(9, "PAUSED", "RUNNING");
	count_to(10, again);
	end_from(11);
}

START_TEST(oracle_reports_a_worker_that_leaves_its_checkpoint)
{
	static const struct {
		int again, violations;
	} cases[] = {{3, 0}, {4, 0}, {1, 1}, {2, 1}, {5, 1}};

	die_and_count(cases[_i].again); /* 4: as if it had only rested */
	ck_assert_int_eq(count_violations(), cases[_i].violations);
}
END_TEST

START_TEST(oracle_reports_more_deaths_than_attempts)
{
	s.attempts = 2 - _i;
	die_and_count(3);
	ck_assert_int_eq(count_violations(), _i);
}
END_TEST

START_TEST(oracle_reports_a_death_without_pause_or_a_final_one)
{
	begin();
	take_event(3, "error",
		_i == 0 ? "{'code':'worker_died','recoverable':true}" :
			  "{'code':'worker_died','recoverable':false}");
	if (_i == 1) {
		change(4, "RUNNING", "PAUSED");
		change(5, "PAUSED", "RUNNING");
	}
	end_from(_i == 0 ? 4 : 6);
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

START_TEST(oracle_reports_a_state_that_was_not_saved)
{
	begin();
	take_event(3, "warning", "{'code':'wrong_state','message':'m'}");
	end_from(4);
	ck_assert_int_eq(count_violations(), 1);
}
END_TEST

/* --- the application of libhcp --- */

static void make_file(const char *path, const char *sql)
{
	char *error = NULL;
	sqlite3 *db;

	unlink(path);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, &error) == SQLITE_OK, "%s: %s", sql, error);
	sqlite3_close(db);
}

/* What breaks the application's file, and how many violations that gives. */
static const struct {
	const char *sql;
	int violations;
} broken[] = {
	{"SELECT 1", 0},
	/* out of order, too */
	{"INSERT INTO got SELECT 9, session_id, sequence, message_id, type, reply FROM got WHERE id = 2", 2},
	{"INSERT INTO got SELECT 9, session_id, sequence, message_id, type, reply FROM got WHERE id = 1", 1},
	{"DELETE FROM got WHERE id = 1", 1},
	{"DELETE FROM got WHERE id = 2", 2}, /* a gap, too */
	{"UPDATE got SET id = 10 - id", 2},  /* backwards */
	{"INSERT INTO got VALUES (9, 's', 0, 'never-said', 'event', NULL)", 1},
	/* a session that was rejected keeps its answer; a task that never became one does not */
	{"INSERT INTO got VALUES (9, '', 0, 'never-said', 'task_rejected', 'r')", 1},
	{"INSERT INTO got VALUES (9, '', 0, 'forgotten', 'task_rejected', 'x')", 0},
	{"DELETE FROM got WHERE type = 'session_closed'", 2},
	{"INSERT INTO hcp_outbox VALUES ('m9', 'callee', NULL)", 1},
	/* each of the three, the session, and nothing at all */
	{"DELETE FROM got", 5},
};

START_TEST(oracle_reports_an_application_that_lost_messages)
{
	char file[64], store[64], sql[1000];

	snprintf(file, sizeof file, "/tmp/hcp-oracle-%d.app", (int)getpid());
	snprintf(store, sizeof store, "/tmp/hcp-oracle-%d.store", (int)getpid());
	make_file(store,
		"CREATE TABLE callers (id, caller_id); INSERT INTO callers VALUES (1, 'app'), (2, 'other');"
		"CREATE TABLE sessions (session_id, caller_id, state, message_id); INSERT INTO sessions "
		"VALUES"
		" ('s', 'app', 'COMPLETED', NULL), ('u', 'app', 'REJECTED', 'r');"
		"CREATE TABLE events (session_id, sequence, type, caller, body, substitute); INSERT INTO "
		"events VALUES"
		" ('s', NULL, 'task_accepted', 1, '{\"message_id\":\"m1\"}', NULL),"
		" ('s', 1, 'event', 1, '{\"message_id\":\"m2\"}', NULL), ('s', 2, 'event', 1, "
		"'{\"message_id\":\"m3\"}', NULL),"
		" ('t', 1, 'event', 2, '{\"message_id\":\"m4\"}', NULL);");
	snprintf(sql, sizeof sql,
		"CREATE TABLE got (id INTEGER PRIMARY KEY, session_id, sequence, message_id, type, reply);"
		"CREATE TABLE hcp_outbox (message_id, callee, session_id);"
		"INSERT INTO got VALUES (1, 's', 0, 'm1', 'task_accepted', 'm'), (2, 's', 1, 'm2', "
		"'progress', "
		"NULL),"
		" (3, 's', 2, 'm3', 'session_closed', NULL); %s",
		broken[_i].sql);
	make_file(file, sql);
	(void)app_check_files(file, store);
	unlink(file);
	unlink(store);
	ck_assert_int_eq(violation_count(), broken[_i].violations);
}
END_TEST

/* --- what was decided --- */

/* Three tasks that were decided by the program: one that a human allowed, one that he denied, one that
 * nobody decided. */
static const char decided[] =
	"CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('instance', 'i');"
	"CREATE TABLE sessions (id INTEGER PRIMARY KEY, session_id, capability, state, started_at, "
	"waits_for, message_id);"
	"INSERT INTO sessions VALUES (1, 's1', 'lab', 'COMPLETED', 'then', NULL, 'm1'),"
	" (2, 's2', 'lab', 'REJECTED', NULL, 'human', 'm2'), (3, 's3', 'lab', 'PENDING', NULL, 'human', "
	"'m3'), (4, 's4', 'counter', 'COMPLETED', 'then', NULL, 'm4'),"
	" (5, 's5', 'counter', 'REJECTED', NULL, 'program', 'm5');"
	"CREATE TABLE tasks (session, task); INSERT INTO tasks VALUES (1, "
	"'{\"inputs\":{\"human\":\"allow\"}}'),"
	" (2, '{\"inputs\":{\"human\":\"deny\"}}'), (3, '{\"inputs\":{\"human\":\"never\"}}'), (4, "
	"'{\"inputs\":{}}'),"
	" (5, '{\"inputs\":{\"policy\":\"deny\"}}');"
	"CREATE TABLE submits (message_id, session, answer); INSERT INTO submits VALUES ('m1', 1, 1), ('m2', "
	"2, 2), ('m3', 3, NULL),"
	" ('m4', 4, 3), ('m5', 5, 4);"
	"CREATE TABLE events (id INTEGER PRIMARY KEY, session, type, caller, body); INSERT INTO events VALUES"
	" (1, 1, 'task_accepted', 1, '{\"payload\":{\"in_reply_to\":\"m1\"}}'),"
	" (2, NULL, 'task_rejected', 1, '{\"payload\":{\"in_reply_to\":\"m2\"}}'),"
	" (3, 4, 'task_accepted', 1, '{\"payload\":{\"in_reply_to\":\"m4\"}}'),"
	" (4, NULL, 'task_rejected', 1, '{\"payload\":{\"in_reply_to\":\"m5\"}}');"
	"CREATE TABLE reviews (request_id, session, session_id, state, artifact_hash); INSERT INTO reviews "
	"VALUES"
	" ('r1', 1, 's1', 'EXECUTED', 'h1'), ('r2', 2, 's2', 'DENIED', 'h2'), ('r3', 3, 's3', "
	"'AWAITING_DECISION', 'h3');"
	"CREATE TABLE decisions (request_id, artifact_hash, signer, nonce, decision, is_final); INSERT INTO "
	"decisions VALUES"
	" ('r1', 'h1', 'ann', 'n1', 'allow', 1), ('r2', 'h2', 'ann', 'n2', 'deny', 1);"
	"CREATE TABLE audit (id INTEGER PRIMARY KEY, entry, hash); INSERT INTO audit VALUES"
	" (1, '{\"about\":\"it said ask\",\"outcome\":\"waits\",\"session\":\"s1\",\"what\":\"verdict\"}', "
	"'@'),"
	" (2, '{\"about\":\"it said "
	"allow\",\"outcome\":\"accepted\",\"session\":\"s4\",\"what\":\"verdict\"}', '@');"
	"INSERT INTO meta SELECT 'audit', id || ' ' || hash FROM audit ORDER BY id DESC LIMIT 1;";

/* What breaks it, what the human was answered (one more line), and how many violations that gives. */
static const struct {
	const char *sql, *answer;
	int violations;
} misdecided[] = {
	{"", "", 0},
	{"", "r1 again HARP_ERR_REPLAY\nr3 forged HARP_ERR_SIGNATURE_INVALID\nr3 allow lost", 0},
	/* it ran, and nobody was asked */
	{"UPDATE sessions SET capability = 'lab', started_at = 'then' WHERE id = 4", "", 1},
	/* he allowed something else */
	{"UPDATE decisions SET artifact_hash = 'h9' WHERE request_id = 'r1'", "", 1},
	/* not enough, yet answered */
	{"UPDATE decisions SET is_final = 0 WHERE request_id = 'r1'", "", 2},
	{"UPDATE reviews SET state = 'APPROVED' WHERE request_id = 'r1'", "", 3},
	/* unapproved, unchecked, denied, undecided */
	{"UPDATE sessions SET started_at = 'then' WHERE id = 2", "", 5},
	{"UPDATE sessions SET started_at = 'then' WHERE id = 3", "", 4},
	/* the program had said no */
	{"UPDATE sessions SET started_at = 'then' WHERE id = 5", "", 3},
	/* hotter than it may be */
	{"UPDATE tasks SET task = '{\"inputs\":{\"heat\":96}}' WHERE session = 4", "", 1},
	/* accepted at once */
	{"UPDATE sessions SET message_id = NULL WHERE id = 4", "", 1},
	{"INSERT INTO decisions VALUES ('r1', 'h1', 'bob', 'n3', 'allow', 1)", "", 1},
	/* a nonce again */
	{"INSERT INTO decisions VALUES ('r1', 'h1', 'ann', 'n1', 'allow', 0)", "", 1},
	{"INSERT INTO reviews VALUES ('r4', 1, 's1', 'EXECUTED', 'h4')", "", 1},
	{"INSERT INTO events VALUES (5, NULL, 'task_rejected', 1, '{\"payload\":{\"in_reply_to\":\"m1\"}}')",
		"", 1},
	/* undecided, and answered */
	{"UPDATE submits SET answer = 4 WHERE message_id = 'm3'", "", 1},
	{"UPDATE submits SET answer = NULL WHERE message_id = 'm5'", "", 1},
	/* it waits, and nobody is asked */
	{"DELETE FROM reviews WHERE request_id = 'r3'", "", 1},
	{"", "r1 again done", 1},
	{"", "r3 forged done", 1},
	/* the store knows better */
	{"", "r3 allow done", 1},
	{"UPDATE audit SET entry = json_set(entry, '$.x', 1) WHERE id = 2", "", 1},
	/* and passed */
	{"UPDATE audit SET entry = json_set(entry, '$.about', 'it gave no verdict') WHERE id = 2", "", 2},
	{"UPDATE audit SET id = 3 WHERE id = 2", "", 1},
	{"INSERT INTO audit VALUES (3, '{}', 'made up')", "", 1},
	{"UPDATE meta SET value = '1 x' WHERE key = 'audit'", "", 1},
};

/* The hashes of a chain as it should be: the oracle's own arithmetic is what says so. */
static void link_chain(sqlite3_context *ctx, int count, sqlite3_value **v)
{
	char hex[65];

	ck_assert_int_eq(count, 2);
	chain_link((const char *)sqlite3_value_text(v[0]), (const char *)sqlite3_value_text(v[1]), hex);
	sqlite3_result_text(ctx, hex, -1, SQLITE_TRANSIENT);
}

static void make_decided(const char *path, const char *breaks)
{
	static const char chain[] =
		"UPDATE audit SET hash = chain(chain('hcpd audit ', 'i'), entry) WHERE id = 1;"
		"UPDATE audit SET hash = chain((SELECT hash FROM audit WHERE id = 1), entry) WHERE id = 2;"
		"UPDATE meta SET value = (SELECT '2 ' || hash FROM audit WHERE id = 2) WHERE key = 'audit';";
	sqlite3 *db;

	make_file(path, decided);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_create_function(db, "chain", 2, SQLITE_UTF8, NULL, link_chain, NULL, NULL);
	ck_assert_msg(sqlite3_exec(db, chain, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	ck_assert_msg(sqlite3_exec(db, breaks, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", breaks,
		sqlite3_errmsg(db));
	sqlite3_close(db);
}

START_TEST(oracle_reports_what_ran_unapproved)
{
	char answers[64], store[64];
	FILE *f;

	snprintf(answers, sizeof answers, "/tmp/hcp-oracle-%d.answers", (int)getpid());
	snprintf(store, sizeof store, "/tmp/hcp-oracle-%d.store", (int)getpid());
	make_decided(store, misdecided[_i].sql);
	ck_assert_ptr_nonnull(f = fopen(answers, "w"));
	fprintf(f, "r1 allow done\nr2 deny done\n%s\n", misdecided[_i].answer);
	fclose(f);
	(void)final_check_files(answers, store);
	unlink(answers);
	unlink(store);
	ck_assert_int_eq(violation_count(), misdecided[_i].violations);
}
END_TEST

/* --- the HARP events --- */

#define HARP_EVENT(type, more) "{\"eventType\":\"session." type "\",\"sessionId\":\"s\"," more "}"
static const char *const harp_events[] = {
	HARP_EVENT("start", "\"createdAt\":\"1\",\"agentHost\":\"h\""),
	HARP_EVENT("status", "\"state\":\"executing\",\"updatedAt\":\"2\""),
	HARP_EVENT("status", "\"state\":\"idle\",\"updatedAt\":\"3\""),
	HARP_EVENT("end", "\"endedAt\":\"4\",\"reason\":\"user_end\""),
	/* a field that there is not */
	HARP_EVENT("status", "\"state\":\"idle\",\"updatedAt\":\"3\",\"mood\":\"good\""),
	/* one that is missing */
	HARP_EVENT("end", "\"endedAt\":\"4\""),
};

/* What comes, as digits that are also the ids, what is stored, and how many violations that gives. */
static const struct {
	const char *comes, *stored;
	int violations;
} harp_cases[] = {
	{"0123", "0123", 0},
	{"01011223", "0123", 0}, /* again, the same bytes */
	{"023", "0123", 1},      /* one is lost */
	{"0213", "0123", 1},     /* out of order */
	{"012", "0123", 2},      /* never ended, and that is lost, too */
	{"0123", "012", 1},      /* that is not in the store */
	{"0132", "0132", 1},     /* after its end */
	{"123", "123", 1},       /* it never began */
	{"01243", "0123", 1},
	{"01253", "0123", 1},
	{"", "0123", 2},
};

START_TEST(oracle_reports_harp_events_that_are_not_in_order)
{
	char path[64], id[8], key[80];
	const char *body;
	sqlite3 *db;

	snprintf(path, sizeof path, "/tmp/hcp-oracle-%d.harp", (int)getpid());
	make_file(path, "CREATE TABLE events (id INTEGER PRIMARY KEY, session_id, type, event_type, body)");
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	for (const char *at = harp_cases[_i].stored; *at; at++) {
		char *sql = sqlite3_mprintf(
			"INSERT INTO events VALUES (NULL, 's', 'harp', 'x', %Q)", harp_events[*at - '0']);
		ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
		sqlite3_free(sql);
	}
	sqlite3_close(db);
	for (const char *at = harp_cases[_i].comes; *at; at++) {
		body = harp_events[*at - '0'];
		snprintf(id, sizeof id, "%c", *at);
		snprintf(key, sizeof key, "c.s.session.%.*s", (int)strcspn(body + 22, "\""), body + 22);
		harp_listener_take(key, id, body, strlen(body));
	}
	(void)harp_listener_check(path);
	harp_listener_forget();
	unlink(path);
	ck_assert_int_eq(violation_count(), harp_cases[_i].violations);
}
END_TEST

START_TEST(oracle_reports_harp_events_with_two_contents)
{
	harp_listener_take("c.s.session.start", "1", harp_events[0], strlen(harp_events[0]));
	harp_listener_take("c.s.session.status", "1", harp_events[1], strlen(harp_events[1]));
	harp_listener_take("c.t.session.status", "2", harp_events[1], strlen(harp_events[1]));
	harp_listener_forget();
	ck_assert_int_eq(violation_count(), 2);
}
END_TEST

/* --- a store and its archive --- */

#define EMPTY "CREATE TABLE %s (id INTEGER PRIMARY KEY, session, session_id);"
static const char kept[] =
	"CREATE TABLE sessions (id INTEGER PRIMARY KEY, session_id TEXT UNIQUE, caller_id, state, "
	"message_id);"
	"CREATE TABLE callers (id, caller_id); INSERT INTO callers VALUES (1, 'c');"
	"CREATE TABLE submits (caller, message_id, received_at, session, answer, UNIQUE (caller, "
	"message_id));"
	"CREATE TABLE events (id INTEGER PRIMARY KEY, session, type, body);"
	"CREATE TABLE archives (day, size, sessions); CREATE TABLE leaving (session, session_id, artifacts);"
	"INSERT INTO sessions VALUES (2, '22222222-2222-4222-8222-222222222222', 'c', 'COMPLETED', 'm2');"
	"INSERT INTO events VALUES (3, 2, 'task_accepted', '{}');";
static const char *const others[] = {
	"tasks", "transitions", "checkpoints", "reviews", "continuity", "snapshots", "outcomes", "artifacts"};

/* What breaks it, how much shorter what counts is, and how many violations that gives. */
static const struct {
	const char *sql;
	int less, violations;
} halves[] = {
	{"", 0, 0},
	/* in both places */
	{"INSERT INTO sessions VALUES (1, 'x', 'c', 'COMPLETED', 'm1')", 0, 1},
	/* something is left behind */
	{"INSERT INTO tasks VALUES (1, 1, 'x')", 0, 1},
	{"INSERT INTO leaving VALUES (1, 'x', 0)", 0, 1},
	/* one is lost */
	{"UPDATE archives SET sessions = 2", 0, 1},
	/* a file is lost */
	{"INSERT INTO archives VALUES ('2026-01-30', 5, 1)", 0, 1},
	/* one submit, two sessions */
	{"UPDATE sessions SET message_id = 'm1'", 0, 1},
	/* torn: it cannot be read, is not whole, and one is missing */
	{"", 7, 3},
};

START_TEST(oracle_reports_a_session_in_two_places_or_in_none)
{
	static const char id[] = "11111111-1111-4111-8111-111111111111";
	static const char *const lines[] = {
		"{\"archive\":1,\"session_id\":\"11111111-1111-4111-8111-111111111111\"}\n",
		("{\"table\":\"sessions\",\"row\":{\"id\":1,\"session_id\":\"11111111-1111-4111-8111-"
		 "111111111111\","
		 "\"caller_id\":\"c\",\"state\":\"FAILED\",\"message_id\":\"m1\"}}\n"),
		"{\"table\":\"events\",\"row\":{\"id\":1,\"session\":1,\"type\":\"event\",\"body\":{"
		"\"base64\":\"e30=\"}}}\n"};
	char dir[64], path[100], out[100], sql[400], why[ARCHIVE_WHY_SIZE];
	struct archive_writer *w;
	int fd;

	snprintf(dir, sizeof dir, "/tmp/hcp-oracle-%d.state", (int)getpid());
	snprintf(path, sizeof path, "%s/archive", dir);
	ck_assert(mkdir(dir, 0700) == 0 && mkdir(path, 0700) == 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_ptr_nonnull(w = archive_append(fd, "2026-01-31", 0, why));
	ck_assert_int_eq(archive_begin_entry(w, id), 0);
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		ck_assert_int_eq(archive_add(w, lines[i], strlen(lines[i])), 0);
	ck_assert_int_eq(archive_end_entry(w), 0);
	long long size = archive_sync(w);
	archive_close(w);
	close(fd);
	snprintf(path, sizeof path, "%s/db", dir);
	snprintf(out, sizeof out, "%s/out", dir);
	make_file(path, kept);
	sqlite3 *db;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		snprintf(sql, sizeof sql, EMPTY, others[i]);
		ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	}
	snprintf(sql, sizeof sql, "INSERT INTO archives VALUES ('2026-01-31', %lld, 1)",
		size - halves[_i].less);
	ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	ck_assert_msg(
		sqlite3_exec(db, halves[_i].sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
	(void)whole_make(path, dir, out);
	snprintf(sql, sizeof sql, "rm -r %s", dir);
	ck_assert_int_eq(system(sql), 0);
	ck_assert_int_eq(violation_count(), halves[_i].violations);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("oracle");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(suite);

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, oracle_reports_nothing_of_a_good_stream);
	tcase_add_test(t, oracle_reports_a_gap);
	tcase_add_loop_test(t, oracle_reports_a_wrong_order_unless_it_may_be, 0, 2);
	tcase_add_test(t, oracle_reports_two_contents_of_one_sequence);
	tcase_add_test(t, oracle_reports_an_illegal_transition);
	tcase_add_test(t, oracle_reports_a_transition_from_another_state);
	tcase_add_test(t, oracle_reports_what_comes_after_the_end);
	tcase_add_test(t, oracle_reports_a_second_end);
	tcase_add_test(t, oracle_reports_a_session_that_never_closes);
	tcase_add_test(t, oracle_reports_a_missing_answer_and_a_missing_result);
	tcase_add_test(t, oracle_reports_work_that_was_not_done);
	tcase_add_loop_test(t, oracle_reports_a_worker_that_leaves_its_checkpoint, 0, 5);
	tcase_add_loop_test(t, oracle_reports_more_deaths_than_attempts, 0, 2);
	tcase_add_loop_test(t, oracle_reports_a_death_without_pause_or_a_final_one, 0, 2);
	tcase_add_test(t, oracle_reports_a_state_that_was_not_saved);
	tcase_add_loop_test(t, oracle_reports_harp_events_that_are_not_in_order, 0,
		sizeof harp_cases / sizeof harp_cases[0]);
	tcase_add_test(t, oracle_reports_harp_events_with_two_contents);
	tcase_add_loop_test(
		t, oracle_reports_a_session_in_two_places_or_in_none, 0, sizeof halves / sizeof halves[0]);
	tcase_add_loop_test(
		t, oracle_reports_an_application_that_lost_messages, 0, sizeof broken / sizeof broken[0]);
	tcase_add_loop_test(
		t, oracle_reports_what_ran_unapproved, 0, sizeof misdecided / sizeof misdecided[0]);
	suite_add_tcase(suite, t);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
