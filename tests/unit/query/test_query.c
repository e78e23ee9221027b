/* SPDX-License-Identifier: MIT */
/* test_query.c: what the store says when asked: slices that lose and double nothing, no token, no lock held,
 * and a clear sentence where it cannot be read. */
#include "query/query.h"

#include <check.h>
#include <ftw.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <sqlite3.h>

#include "json/canonical.h"
#include "store/state_compress.h"
#include "store/migrations.h"
#include "store/store.h"

#define TOKEN "secret-of-the-session"

static char dir[200];
static struct store *s;
static struct query *q;
static int64_t last_event;

static void open_query(void)
{
	char why[1024] = "";

	ck_assert_msg(query_open(dir, &q, why, sizeof why) == EX_OK, "%s", why);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");
	char why[256];

	snprintf(dir, sizeof dir, "%s/hcp-query-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	ck_assert(store_open(dir, &s, why, sizeof why) == EX_OK);
	store_put_caller(s, 1, "alpha");
	store_put_caller(s, 2, "beta");
	ck_assert(store_run(s) == 0);
	last_event = 0;
	open_query();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

static void teardown(void)
{
	query_close(q);
	q = NULL;
	store_close(s);
	s = NULL;
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void sql(const char *text)
{
	char path[300];
	sqlite3 *db;

	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	ck_assert(sqlite3_open(path, &db) == SQLITE_OK);
	ck_assert_msg(
		sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", text, sqlite3_errmsg(db));
	sqlite3_close(db);
}

/* ---- rows ---- */

static const char *id_of(int64_t key)
{
	static char ids[8][ID_SIZE];
	static int turn;
	char *id = ids[turn++ % 8];

	snprintf(id, ID_SIZE, "%08llx-0000-4000-8000-00000000abcd", (unsigned long long)key);
	return id;
}

struct put {
	int64_t key;
	const char *state, *caller, *capability, *at;
};

static void put_session(struct put p)
{
	struct store_session row = {
		.key = p.key,
		.session_id = id_of(p.key),
		.caller_id = p.caller != NULL ? p.caller : "alpha",
		.capability = p.capability != NULL ? p.capability : "work",
		.capability_version = "1.0.0",
		.state = "PENDING",
		.state_version = 1,
		.risk_level = "R2",
		.data_classification = "T1",
		.priority = "normal",
		.session_token = TOKEN,
		.metadata = "{\"m\":\n1.10}",
		.created_at = p.at != NULL ? p.at : "2026-01-31T12:00:00.000Z",
		.max_duration_us = 60000000,
		.warnings = "[\"careful\"]",
		.step = "cut",
	};
	static const char task[] =
		"{\"capability\":\"work\",\"intent\":\"do "
		"it\",\"inputs\":{\"n\":1.10},\"caller_id\":\"alpha\"}";

	row.updated_at = row.created_at;
	store_put_session(s, &row, task, sizeof task - 1);
	if (p.state == NULL || strcmp(p.state, "PENDING") == 0)
		return;
	row.state = p.state;
	row.state_version = 2;
	row.started_at = row.deadline = row.created_at;
	row.attempt = 1;
	row.tokens_in = 7;
	row.cost = 0.25;
	store_put_transition(
		s, &row, "PENDING", strcmp(p.state, "RUNNING") == 0 ? "slot_free" : "because", "daemon");
	store_save_session(s, &row);
}

static void put_message(int64_t session, int64_t caller, const char *type, int64_t sequence,
	const char *event_type, const char *payload)
{
	char body[2048];
	struct store_event e = {.id = ++last_event,
		.session = session,
		.session_id = id_of(session),
		.caller = caller,
		.type = type,
		.sequence = sequence,
		.event_type = event_type};

	snprintf(body, sizeof body,
		"{\"timestamp\":\"2026-01-31T12:00:0%d.000Z\",\"type\":\"%s\",\"payload\":%s}",
		(int)(last_event % 10), type, payload);
	e.body = blob_new(body, strlen(body));
	store_put_event(s, &e);
	blob_unref(e.body);
}

static void put_event(int64_t session, int64_t sequence, const char *event_type, const char *data)
{
	char payload[1024];

	snprintf(payload, sizeof payload, "{\"event_type\":\"%s\",\"sequence\":%lld,\"data\":%s}", event_type,
		(long long)sequence, data);
	put_message(session, 1, "event", sequence, event_type, payload);
}

static void commit(void)
{
	ck_assert_msg(store_run(s) == 0, "%s", store_error(s));
}

/* ---- asking ---- */

struct answer {
	json_t *items;
	char *last; /* the text of the last item */
	int calls;
	int at_once;      /* the most that came in one slice */
	int enough_after; /* 0: never */
	int in_slice;
};

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct answer *a = ctx;
	json_error_t error;
	json_t *item = json_loadb(json, size, JSON_REJECT_DUPLICATES, &error);

	ck_assert_msg(json_is_object(item), "no object: %.*s", (int)size, json);
	ck_assert_msg(memchr(json, '\n', size) == NULL, "two lines: %.*s", (int)size, json);
	ck_assert_msg(memmem(json, size, TOKEN, strlen(TOKEN)) == NULL, "the token: %.*s", (int)size, json);
	json_array_append_new(a->items, item);
	free(a->last);
	a->last = strndup(json, size);
	a->in_slice++;
	return a->enough_after == 0 || a->in_slice < a->enough_after;
}

static json_t *J(const char *text)
{
	char json[1024];
	json_t *v;

	snprintf(json, sizeof json, "%s", text);
	for (char *c = json; *c != '\0'; c++)
		if (*c == '\'')
			*c = '"';
	v = json_loads(json, 0, NULL);
	ck_assert_msg(v != NULL, "%s", text);
	return v;
}

/* The error's code, "" where it was answered. */
static struct query_error last_error;
static const char *begin(struct query_cursor *c, const char *request)
{
	json_t *j = J(request);
	int rc = query_begin(q, c, j, &last_error);

	json_decref(j);
	ck_assert(rc == 0 || (*last_error.code && *last_error.message && *last_error.next));
	return rc == 0 ? "" : last_error.code;
}

static int read_all(struct query_cursor *c, struct answer *a, int max_rows)
{
	int rc;

	if (a->items == NULL)
		a->items = json_array();
	do {
		a->in_slice = 0;
		rc = query_more(q, c, max_rows, on_item, a);
		if (a->in_slice > a->at_once)
			a->at_once = a->in_slice;
		ck_assert_int_lt(++a->calls, 100000);
	} while (rc == QUERY_MORE);
	return rc;
}

static json_t *ask(const char *request, int max_rows)
{
	struct answer a = {.calls = 0};
	struct query_cursor c;

	ck_assert_str_eq(begin(&c, request), "");
	ck_assert_int_eq(read_all(&c, &a, max_rows), QUERY_DONE);
	ck_assert_int_le(a.at_once, max_rows);
	ck_assert_int_eq((int)c.items, (int)json_array_size(a.items));
	free(a.last);
	return a.items;
}

/* "5 4 3": a member of each item. */
static const char *list_of(json_t *items, const char *member)
{
	static char text[4096];
	size_t i, at = 0;
	json_t *item;

	text[0] = '\0';
	json_array_foreach(items, i, item) {
		char *v = json_dumps(json_object_get(item, member), JSON_ENCODE_ANY);

		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 0 ? " " : "", v);
		free(v);
	}
	json_decref(items);
	return text;
}

static const char *keys(const char *request)
{
	return list_of(ask(request, 2), "key");
}

/* ---- list ---- */

static void put_some(void)
{
	put_session((struct put){.key = 1, .state = "COMPLETED", .at = "2026-01-01T00:00:00.000Z"});
	put_session((struct put){
		.key = 2, .state = "FAILED", .caller = "beta", .at = "2026-01-02T00:00:00.000Z"});
	put_session((struct put){.key = 3,
		.state = "RUNNING",
		.caller = "beta",
		.capability = "play",
		.at = "2026-01-03T00:00:00.000Z"});
	put_session((struct put){.key = 4, .state = "ABORTED", .at = "2026-01-04T00:00:00.000Z"});
	put_session((struct put){
		.key = 5, .state = "PENDING", .caller = "beta", .at = "2026-01-05T00:00:00.000Z"});
	commit();
}

START_TEST(list_is_newest_first_and_filtered)
{
	put_some();
	ck_assert_str_eq(keys("{'do':'list'}"), "5 4 3 2 1");
	ck_assert_str_eq(keys("{'do':'list','id':7,'limit':0}"), "5 4 3 2 1");
	ck_assert_str_eq(keys("{'do':'list','state':['FAILED','pending']}"), "5 2");
	ck_assert_str_eq(keys("{'do':'list','state':'live'}"), "5 3");
	ck_assert_str_eq(keys("{'do':'list','state':['over']}"), "4 2 1");
	ck_assert_str_eq(keys("{'do':'list','state':['RUNNING','over']}"), "4 3 2 1");
	ck_assert_str_eq(keys("{'do':'list','caller':'beta'}"), "5 3 2");
	ck_assert_str_eq(keys("{'do':'list','caller':'bet'}"), "");
	ck_assert_str_eq(keys("{'do':'list','capability':'play'}"), "3");
	ck_assert_str_eq(keys("{'do':'list','since':'2026-01-04T01:00:00+01:00'}"), "5 4");
	ck_assert_str_eq(
		keys("{'do':'list','caller':'beta','state':['live'],'since':'2026-01-04T00:00:00Z'}"), "5");
	ck_assert_str_eq(keys("{'do':'list','before':3}"), "2 1");
	ck_assert_str_eq(list_of(ask("{'do':'list'}", 256), "end_reason"),
		"null \"because\" null \"because\" \"because\"");
}
END_TEST

START_TEST(list_finds_sessions_by_their_labels)
{
	put_some();
	store_put_label(s, 1, "group", "a");
	store_put_label(s, 2, "group", "a");
	store_put_label(s, 2, "who", "x");
	store_put_label(s, 3, "group", "b");
	store_put_label(s, 5, "group", "a");
	commit();
	ck_assert_str_eq(keys("{'do':'list','labels':{'group':'a'}}"), "5 2 1");
	ck_assert_str_eq(keys("{'do':'list','labels':{'group':'a'},'state':'live'}"), "5");
	ck_assert_str_eq(keys("{'do':'list','labels':{'group':'a'},'caller':'beta','before':5}"), "2");
	ck_assert_str_eq(keys("{'do':'list','labels':{'group':'a','who':'x'}}"), "2");
	ck_assert_str_eq(keys("{'do':'list','labels':{'group':'b','who':'x'}}"), "");
	ck_assert_str_eq(keys("{'do':'list','labels':{'who':'a'}}"), "");
	ck_assert_str_eq(keys("{'do':'list','labels':null,'capability':'play'}"), "3");
}
END_TEST

START_TEST(labels_are_looked_up_in_slices_by_their_index)
{
	struct answer a = {.calls = 0};
	struct query_cursor c;

	for (int64_t i = 1; i <= 40000; i++) {
		put_session((struct put){.key = i,
			.state = i == 3 ? "FAILED" : "COMPLETED",
			.at = "2026-01-01T00:00:00.000Z"});
		store_put_label(s, i, "parity", i % 2 ? "odd" : "even");
		if (i == 2)
			store_put_label(s, i, "rare", "yes");
		if (i % 4000 == 0)
			commit();
	}
	ck_assert_str_eq(begin(&c, "{'do':'list','labels':{'parity':'odd'},'state':'FAILED'}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	ck_assert_str_eq(list_of(a.items, "key"), "3");
	ck_assert_int_eq(a.calls, 2); /* 20,000 of them */
	free(a.last);
	a = (struct answer){.calls = 0};
	ck_assert_str_eq(begin(&c, "{'do':'list','labels':{'rare':'yes'}}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	ck_assert_str_eq(list_of(a.items, "key"), "2");
	ck_assert_int_eq(a.calls, 1);
	free(a.last);
}
END_TEST

START_TEST(a_list_that_its_limit_cut_says_where_to_go_on)
{
	struct answer a = {.calls = 0};
	struct query_cursor c;
	struct buf b = {0};

	put_some();
	ck_assert_str_eq(begin(&c, "{'do':'list','limit':2}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	query_add_done(&c, &b);
	ck_assert_str_eq(buf_text(&b), ",\"items\":2,\"before\":4");
	ck_assert_str_eq(list_of(a.items, "key"), "5 4");
	free(a.last);
	buf_fini(&b);
}
END_TEST

START_TEST(a_slice_looks_at_a_bounded_part_of_a_long_history)
{
	struct answer a = {.calls = 0};
	struct query_cursor c;

	for (int64_t i = 1; i <= 40000; i++) {
		put_session((struct put){.key = i,
			.state = i == 2 ? "FAILED" : "COMPLETED",
			.at = i < 30000    ? "2026-01-01T00:00:00.000Z" :
				i == 35000 ? "2025-01-01T00:00:00.000Z" :
					     "2026-02-01T00:00:00.000Z"});
		if (i % 4000 == 0)
			commit();
	}
	ck_assert_str_eq(begin(&c, "{'do':'list','state':['FAILED']}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	ck_assert_str_eq(list_of(a.items, "key"), "2");
	ck_assert_int_ge(a.calls, 3);
	free(a.last);
	/* A clock that was put back for a while hides nothing behind it. */
	json_t *items = ask("{'do':'list','since':'2026-01-15T00:00:00Z','limit':0}", 256);
	ck_assert_int_eq((int)json_array_size(items), 10000);
	json_decref(items);
}
END_TEST

/* ---- ids ---- */

static const char *find(const char *word)
{
	static char id[ID_SIZE];
	int64_t key;

	return query_find(q, word, &key, id, &last_error) == 0 ? id : last_error.code;
}

START_TEST(a_session_is_found_by_any_unique_beginning)
{
	for (int64_t i = 1; i <= 8; i++)
		put_session((struct put){.key = 0xabcd0000 + i, .state = "RUNNING"});
	put_session((struct put){.key = 0xabce0000, .state = "RUNNING"});
	commit();
	ck_assert_str_eq(find(id_of(0xabcd0003)), id_of(0xabcd0003));
	ck_assert_str_eq(find("ABCE"), id_of(0xabce0000));
	ck_assert_str_eq(find("abcd0004-0"), id_of(0xabcd0004));
	ck_assert_str_eq(find("abcd"), "ambiguous");
	ck_assert(strstr(last_error.message, id_of(0xabcd0008)) &&
		strstr(last_error.message, id_of(0xabcd0004)));
	ck_assert(!strstr(last_error.message, id_of(0xabcd0003)) && strstr(last_error.message, "..."));
	ck_assert_str_eq(find("abc"), "bad_request");
	ck_assert_str_eq(find(""), "bad_request");
	ck_assert_str_eq(find("abcf"), "not_found");
	ck_assert_str_eq(find("%%%%%"), "not_found");
	ck_assert_str_eq(find("abce' OR 1=1 --"), "not_found");
	ck_assert_str_eq(find("abce0000-0000-4000-8000-00000000abcdabcd"), "not_found");
}
END_TEST

static const char *const bad_requests[] = {
	"{'do':'list','stat':['RUNNING']}",
	"{'do':'list','state':['GONE']}",
	"{'do':'list','state':[['RUNNING']]}",
	"{'do':'list','state':4}",
	"{'do':'list','session':'00000001'}",
	"{'do':'list','since':'yesterday'}",
	"{'do':'list','limit':-1}",
	"{'do':'list','limit':'5'}",
	"{'do':'list','caller':''}",
	"{'do':'list','caller':7}",
	"{'do':'list','before':0}",
	"{'do':'list','follow':true}",
	"{'do':'list','labels':{}}",
	"{'do':'list','labels':{'a':1}}",
	"{'do':'list','labels':{'':'x'}}",
	"{'do':'list','labels':'a=b'}",
	"{'do':'list','labels':{'a':'1','b':'1','c':'1','d':'1','e':'1'}}",
	"{'do':'show'}",
	"{'do':'show','session':5}",
	"{'do':'show','session':'00000001','from':1}",
	"{'do':'events','session':'00000001','from':0}",
	"{'do':'events','session':'00000001','follow':1}",
	"{'do':'log','session':'00000001','from':3}",
	"{'do':'checkpoints','session':'00000001','state':'yes'}",
	"{'do':'abort','session':'00000001'}",
	"{}",
};

START_TEST(member_that_a_verb_does_not_take_is_refused_by_name)
{
	struct query_cursor c;

	put_session((struct put){.key = 1, .state = "RUNNING"});
	commit();
	ck_assert_str_eq(begin(&c, bad_requests[_i]), "bad_request");
}
END_TEST

/* ---- events ---- */

static void put_stream(int64_t session)
{
	put_message(session, 1, "task_accepted", 0, NULL,
		"{\"session_token\":\"" TOKEN "\",\"risk_level\":\"R2\"}");
	put_event(session, 1, "session_created", "{\"state\":\"PENDING\",\"session_token\":\"" TOKEN "\"}");
	put_event(session + 1, 1, "log", "{\"level\":\"info\",\"message\":\"of another\"}");
	put_event(session, 2, "log", "{\"level\":\"info\",\"message\":\"hello\"}");
	put_event(session, 3, "progress", "{\"percent\":1.10}");
	put_event(session, 4, "warning", "{\"code\":\"hot\",\"message\":\"it is warm\"}");
	put_event(session, 5, "error", "{\"code\":\"bad\",\"message\":\"it broke\",\"recoverable\":true}");
	put_message(session, 1, "task_completed", 0, NULL, "{\"outputs\":{\"n\":1.10},\"artifacts\":[]}");
	put_event(session, 6, "session_closed", "{}");
}

START_TEST(events_come_as_they_are_stored_but_for_the_token)
{
	struct answer a = {.calls = 0};
	struct query_cursor c;
	json_t *items;

	put_session((struct put){.key = 1, .state = "COMPLETED"});
	put_session((struct put){.key = 2, .state = "RUNNING"});
	put_stream(1);
	store_save_confirmed(s, 1, 5);
	store_put_unroutable(s, 4, 1);
	store_put_substitute(s, 6, "{\"instead\":1}", 13);
	commit();
	items = ask("{'do':'events','session':'00000001'}", 2);
	ck_assert_int_eq((int)json_array_size(items), 8);
	ck_assert_str_eq(
		json_string_value(json_object_get(
			json_object_get(json_object_get(json_array_get(items, 0), "event"), "payload"),
			"session_token")),
		"***");
	ck_assert_str_eq(list_of(json_incref(items), "row"), "1 2 4 5 6 7 8 9");
	ck_assert_str_eq(
		list_of(json_incref(items), "settled"), "true true false true false false false false");
	ck_assert(json_object_get(json_array_get(items, 4), "sent") != NULL);
	ck_assert(json_object_get(json_array_get(items, 3), "sent") == NULL);
	json_decref(items);
	/* Byte for byte: a number is not written anew. */
	ck_assert_str_eq(begin(&c, "{'do':'events','session':'00000001','from':3}"), "");
	a.items = json_array();
	ck_assert_int_eq(query_more(q, &c, 1, on_item, &a), QUERY_MORE);
	ck_assert_str_eq(a.last,
		"{\"event\":{\"timestamp\":\"2026-01-31T12:00:05.000Z\",\"type\":\"event\",\"payload\":{"
		"\"event_type\":"
		"\"progress\",\"sequence\":3,\"data\":{\"percent\":1.10}}},\"row\":5,\"settled\":true}");
	json_decref(a.items);
	free(a.last);
}
END_TEST

START_TEST(events_begin_at_any_sequence_with_what_stands_behind_it)
{
	/* task_completed, row 8, is behind sequence 5 */
	static const int first_row[] = {1, 1, 4, 5, 6, 7, 8, 10, 10};
	char request[128], expected[64];

	put_session((struct put){.key = 1, .state = "COMPLETED"});
	put_session((struct put){.key = 2, .state = "RUNNING"});
	put_stream(1);
	commit();
	for (int from = 1; from <= 8; from++) {
		size_t at = 0;

		expected[0] = '\0';
		for (int row = first_row[from]; row <= 9; row++)
			if (row != 3)
				at += (size_t)snprintf(
					expected + at, sizeof expected - at, "%s%d", at > 0 ? " " : "", row);
		snprintf(request, sizeof request, "{'do':'events','session':'00000001','from':%d}", from);
		ck_assert_msg(strcmp(list_of(ask(request, 3), "row"), expected) == 0, "from %d: not %s", from,
			expected);
	}
}
END_TEST

START_TEST(a_follow_waits_and_ends_with_the_session)
{
	struct answer a = {.calls = 0};
	struct query_cursor c;

	put_session((struct put){.key = 1, .state = "RUNNING"});
	put_event(1, 1, "log", "{}");
	commit();
	ck_assert_str_eq(begin(&c, "{'do':'events','session':'0000','follow':true}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_WAIT);
	ck_assert_int_eq((int)json_array_size(a.items), 1);
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_WAIT);
	put_event(1, 2, "log", "{}");
	commit();
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_WAIT);
	ck_assert_int_eq((int)json_array_size(a.items), 2);
	put_event(1, 3, "session_closed", "{}");
	commit();
	sql("UPDATE sessions SET state = 'COMPLETED'");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	ck_assert_str_eq(list_of(a.items, "row"), "1 2 3");
	free(a.last);
}
END_TEST

START_TEST(reader_that_has_enough_goes_on_later_without_a_gap)
{
	struct answer a = {.enough_after = 1};
	struct query_cursor c;

	put_session((struct put){.key = 1, .state = "COMPLETED"});
	put_stream(1);
	commit();
	ck_assert_str_eq(begin(&c, "{'do':'events','session':'00000001'}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	ck_assert_int_ge(a.calls, 8);
	ck_assert_str_eq(list_of(a.items, "row"), "1 2 4 5 6 7 8 9");
	a = (struct answer){.enough_after = 1, .last = a.last};
	ck_assert_str_eq(begin(&c, "{'do':'show','session':'00000001'}"), "");
	ck_assert_int_eq(read_all(&c, &a, 256), QUERY_DONE);
	ck_assert_int_eq((int)json_array_size(a.items), 3);
	json_decref(a.items);
	free(a.last);
}
END_TEST

START_TEST(the_log_is_log_lines_warnings_and_errors)
{
	json_t *items;

	put_session((struct put){.key = 1, .state = "COMPLETED"});
	put_stream(1);
	commit();
	items = ask("{'do':'log','session':'00000001'}", 1);
	ck_assert_str_eq(list_of(json_incref(items), "level"), "\"info\" \"warn\" \"error\"");
	ck_assert_str_eq(
		list_of(json_incref(items), "message"), "\"hello\" \"hot: it is warm\" \"bad: it broke\"");
	ck_assert_str_eq(list_of(items, "at"),
		"\"2026-01-31T12:00:04.000Z\" \"2026-01-31T12:00:06.000Z\" \"2026-01-31T12:00:07.000Z\"");
}
END_TEST

/* ---- show and checkpoints ---- */

static void put_checkpoint(int64_t session, const char *id, const char *state)
{
	struct store_checkpoint c = {.session = session,
		.session_id = id_of(session),
		.description = "so far",
		.step = "\"cut\"",
		.resumable = true,
		.created_at = "2026-01-31T12:00:00.000Z",
		.state = state,
		.state_size = strlen(state),
		.trigger = "steps",
		.state_version = "2.1"};
	json_t *v = json_loads(state, 0, NULL);
	char hash[CANONICAL_HASH_SIZE];

	canonical_hash(v, hash);
	json_decref(v);
	c.sha256 = hash;
	snprintf(c.checkpoint_id, sizeof c.checkpoint_id, "%s", id);
	store_put_checkpoint(s, &c);
}

START_TEST(show_tells_everything_in_its_order)
{
	static const char *const order[] = {
		"session", "transition", "checkpoint", "checkpoint", "artifact", "result"};
	json_t *items, *one;

	put_session((struct put){.key = 1, .state = "COMPLETED"});
	put_checkpoint(1, "c-1", "{\"a\":1}");
	put_checkpoint(1, "c-2", "{\"a\":\n2}");
	put_stream(1);
	store_save_confirmed(s, 1, 7);
	store_put_unroutable(s, 5, 1);
	commit();
	sql("INSERT INTO artifacts (session, session_id, name, type, path, created_at, size_bytes, sha256) "
	    "VALUES"
	    " (1, '-', 'a b', 'text/plain', 'x', '', 5, 'aa'), (1, '-', 'not in yet', 'text/plain', 'x', '', "
	    "NULL, NULL)");
	items = ask("{'do':'show','session':'00000001'}", 1);
	ck_assert_int_eq((int)json_array_size(items), 6);
	for (size_t i = 0; i < 6; i++) {
		one = json_array_get(items, i);
		ck_assert_int_eq((int)json_object_size(one), 1);
		ck_assert_msg(json_object_get(one, order[i]) != NULL, "%zu is no %s", i, order[i]);
	}
	one = json_object_get(json_array_get(items, 0), "session");
	ck_assert(json_object_get(one, "session_token") == NULL);
	ck_assert_str_eq(json_string_value(json_object_get(json_object_get(one, "task"), "intent")), "do it");
	ck_assert(json_object_get(json_object_get(one, "task"), "caller_id") == NULL);
	ck_assert_int_eq((int)json_integer_value(json_object_get(one, "events")), 8);
	ck_assert_int_eq((int)json_integer_value(json_object_get(one, "last_sequence")), 6);
	/* rows 8, 9 and 5 */
	ck_assert_int_eq((int)json_integer_value(json_object_get(one, "unconfirmed")), 3);
	ck_assert_int_eq((int)json_integer_value(json_object_get(one, "tokens_in")), 7);
	ck_assert_str_eq(
		json_string_value(json_object_get(json_object_get(one, "last_error"), "code")), "bad");
	ck_assert(json_is_array(json_object_get(one, "warnings")) &&
		json_is_object(json_object_get(one, "metadata")));
	one = json_object_get(json_array_get(items, 3), "checkpoint");
	ck_assert_int_eq((int)json_integer_value(json_object_get(one, "size")), 8);
	ck_assert(json_is_true(json_object_get(one, "resumable")) && json_object_get(one, "state") == NULL);
	one = json_object_get(json_array_get(items, 4), "artifact");
	ck_assert_str_eq(json_string_value(json_object_get(one, "checksum")), "sha256:aa");
	ck_assert(strstr(json_string_value(json_object_get(one, "uri")), "a%20b"));
	one = json_object_get(json_array_get(items, 5), "result");
	ck_assert_str_eq(json_string_value(json_object_get(one, "type")), "task_completed");
	ck_assert(json_is_object(json_object_get(json_object_get(one, "payload"), "outputs")));
	json_decref(items);
	ck_assert_str_eq(list_of(ask("{'do':'checkpoints','session':'00000001','state':true}", 1), "state"),
		"{\"a\": 1} {\"a\": 2}");
	ck_assert_str_eq(list_of(ask("{'do':'checkpoints','session':'00000001'}", 1), "checkpoint_id"),
		"\"c-1\" \"c-2\"");
	ck_assert_str_eq(
		list_of(ask("{'do':'checkpoints','session':'00000001','checkpoint':'c-2'}", 1), "trigger"),
		"\"steps\"");
	ck_assert_str_eq(
		list_of(ask("{'do':'checkpoints','session':'00000001','checkpoint':'d'}", 1), "trigger"), "");
}
END_TEST

static void hash_of(const struct buf *text, char hash[CANONICAL_HASH_SIZE])
{
	json_t *v = json_loadb(text->data, text->size, 0, NULL);

	canonical_hash(v, hash);
	json_decref(v);
}

/* A state of 20 KiB, whole in the first row and as a delta in the second, where another letter stands. */
static void put_packed(void)
{
	struct buf text = {0}, other = {0}, packed = {0};
	char hash[CANONICAL_HASH_SIZE];
	struct store_checkpoint c = {.session = 1,
		.session_id = id_of(1),
		.description = "so far",
		.resumable = true,
		.created_at = "2026-01-31T12:00:00.000Z",
		.encoding = "zstd"};

	buf_add_text(&text, "{\"n\":1.10,\"list\":[");
	for (unsigned i = 0; i < 2000; i++)
		buf_addf(&text, "%s%u", i > 0 ? "," : "", i * 2654435761u);
	buf_add_text(&text, "]}");
	buf_add(&other, text.data, text.size);
	other.data[5] = '2';
	c.whole_size = (int64_t)text.size;
	hash_of(&text, hash);
	c.sha256 = hash;
	ck_assert_int_eq(state_compress(text.data, text.size, NULL, 0, &packed), STATE_ZSTD);
	snprintf(c.checkpoint_id, sizeof c.checkpoint_id, "full");
	c.state = packed.data, c.state_size = packed.size;
	store_put_checkpoint(s, &c);
	commit();
	buf_clear(&packed);
	hash_of(&other, hash);
	ck_assert_int_eq(state_compress(other.data, other.size, text.data, text.size, &packed), STATE_DELTA);
	snprintf(c.checkpoint_id, sizeof c.checkpoint_id, "delta");
	c.state = packed.data, c.state_size = packed.size, c.encoding = "delta",
	c.base = store_find_checkpoint(s, "full");
	store_put_checkpoint(s, &c);
	commit();
	buf_fini(&text);
	buf_fini(&other);
	buf_fini(&packed);
}

static json_t *ask_state(const char *id)
{
	char request[128];
	json_t *items, *one;

	snprintf(request, sizeof request,
		"{'do':'checkpoints','session':'00000001','state':true,'checkpoint':'%s'}", id);
	items = ask(request, 1);
	ck_assert_int_eq((int)json_array_size(items), 1);
	one = json_incref(json_array_get(items, 0));
	json_decref(items);
	return one;
}

START_TEST(states_are_shown_restored_and_what_is_damaged_as_that) /* proves CK-02 CK-03 */
{
	json_t *one;

	put_session((struct put){.key = 1, .state = "RUNNING"});
	put_packed();
	one = ask_state("delta");
	ck_assert(json_is_null(json_object_get(one, "damage")));
	ck_assert(json_real_value(json_object_get(json_object_get(one, "state"), "n")) == 2.1);
	ck_assert_int_eq((int)json_array_size(json_object_get(json_object_get(one, "state"), "list")), 2000);
	ck_assert_str_eq(json_string_value(json_object_get(one, "base")), "full");
	ck_assert_str_eq(json_string_value(json_object_get(one, "encoding")), "delta");
	ck_assert(json_integer_value(json_object_get(one, "stored")) < 200);
	ck_assert(json_integer_value(json_object_get(one, "size")) > 15000);
	json_decref(one);
	sql("UPDATE checkpoints SET state = substr(state, 1, length(state) - 1) WHERE checkpoint_id = "
	    "'full'");
	one = ask_state("delta");
	ck_assert(json_is_null(json_object_get(one, "state")));
	ck_assert_str_eq(json_string_value(json_object_get(one, "damage")),
		"the full checkpoint that it builds on is damaged");
	json_decref(one);
	sql("DELETE FROM checkpoints WHERE checkpoint_id = 'full'");
	one = ask_state("delta");
	ck_assert_str_eq(json_string_value(json_object_get(one, "damage")),
		"the full checkpoint that it builds on is gone");
	json_decref(one);
}
END_TEST

static const struct {
	const char *change, *damage;
} harms[] = {
	{"step = '{{'", "\"its step is no short string or number\""},
	{"step = x'22ff22'", "\"its step is no short string or number\""},
	{"sha256 = NULL", "\"the hash of its state is gone\""},
	{"description = x'ff22'", "null"},
};

/* ask parses each item. */
START_TEST(a_damaged_row_is_listed_as_that_and_can_be_read)
{
	char text[128];
	json_t *items;

	put_session((struct put){.key = 1, .state = "RUNNING"});
	put_checkpoint(1, "c-1", "{\"a\":1}");
	put_checkpoint(1, "c-2", "{\"a\":2}");
	commit();
	snprintf(
		text, sizeof text, "UPDATE checkpoints SET %s WHERE checkpoint_id = 'c-2'", harms[_i].change);
	sql(text);
	snprintf(text, sizeof text, "null %s", harms[_i].damage);
	ck_assert_str_eq(list_of(ask("{'do':'checkpoints','session':'00000001'}", 1), "damage"), text);
	ck_assert_str_eq(
		list_of(ask("{'do':'checkpoints','session':'00000001','state':true}", 1), "damage"), text);
	ck_assert_str_eq(list_of(ask("{'do':'checkpoints','session':'00000001'}", 1), "step"),
		_i < 2 ? "\"cut\" null" : "\"cut\" \"cut\"");
	items = ask("{'do':'show','session':'00000001'}", 1);
	for (size_t i = 0; i < 2; i++) {
		json_t *one = json_object_get(json_array_get(items, 2 + i), "checkpoint");
		char *damage = json_dumps(json_object_get(one, "damage"), JSON_ENCODE_ANY);

		ck_assert_str_eq(damage, i == 0 ? "null" : harms[_i].damage);
		free(damage);
	}
	json_decref(items);
}
END_TEST

/* ---- beside a writer ---- */

START_TEST(nothing_is_held_between_slices)
{
	struct answer a = {.items = json_array()};
	struct query_cursor c;
	char path[300];
	sqlite3_stmt *st;
	sqlite3 *db;

	put_session((struct put){.key = 1, .state = "RUNNING"});
	put_stream(1);
	commit();
	ck_assert_str_eq(begin(&c, "{'do':'events','session':'00000001'}"), "");
	ck_assert_int_eq(query_more(q, &c, 2, on_item, &a), QUERY_MORE);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	ck_assert(sqlite3_open(path, &db) == SQLITE_OK);
	ck_assert(sqlite3_prepare_v2(db, "PRAGMA wal_checkpoint(TRUNCATE)", -1, &st, NULL) == SQLITE_OK);
	ck_assert(sqlite3_step(st) == SQLITE_ROW);
	ck_assert_msg(sqlite3_column_int(st, 0) == 0, "the log could not be reset");
	sqlite3_finalize(st);
	sqlite3_close(db);
	put_event(1, 7, "log", "{}");
	commit();
	ck_assert_int_eq(read_all(&c, &a, 2), QUERY_DONE);
	ck_assert_str_eq(list_of(a.items, "row"), "1 2 4 5 6 7 8 9 10");
	free(a.last);
}
END_TEST

static void copy(const char *to_dir, const char *name)
{
	char command[900];

	snprintf(command, sizeof command, "cp %s/%s %s/%s", dir, name, to_dir, name);
	ck_assert_int_eq(system(command), 0);
}

/* its log is not in the database yet, and the index is gone */
START_TEST(store_of_a_killed_daemon_is_read_whole)
{
	char dead[220], why[512] = "", path[300];
	struct query *other, *mine = q;
	struct stat st;

	put_some();
	snprintf(dead, sizeof dead, "%s/dead", dir);
	ck_assert(mkdir(dead, 0700) == 0);
	copy(dead, "hcpd.db");
	copy(dead, "hcpd.db-wal");
	snprintf(path, sizeof path, "%s/hcpd.db-wal", dead);
	ck_assert(stat(path, &st) == 0 && st.st_size > 0);
	ck_assert_msg(query_open(dead, &other, why, sizeof why) == EX_OK, "%s", why);
	q = other;
	ck_assert_str_eq(keys("{'do':'list'}"), "5 4 3 2 1");
	query_close(other);
	q = mine;
	ck_assert_msg(stat(path, &st) == 0 && st.st_size > 0, "a reader must leave the log to its owner");
}
END_TEST

/* ---- stores that cannot be read ---- */

static const char *why_not(const char *where, int code)
{
	static char why[1024];
	struct query *other;

	ck_assert_int_eq(query_open(where, &other, why, sizeof why), code);
	return why;
}

START_TEST(a_store_that_cannot_be_read_says_what_to_do)
{
	char path[300], old[64], text[64];

	snprintf(path, sizeof path, "%s/none", dir);
	ck_assert(strstr(why_not(path, EX_NOINPUT), "--daemon-config"));
	ck_assert(mkdir(path, 0700) == 0);
	ck_assert(strstr(why_not(path, EX_NOINPUT), "no store yet"));
	snprintf(text, sizeof text, "PRAGMA user_version = %d", migrations_version + 1);
	sql(text);
	ck_assert(strstr(why_not(dir, EX_CONFIG), "newer version"));
	sql("PRAGMA user_version = 1");
	ck_assert(strstr(why_not(dir, EX_CONFIG), "start hcpd once"));
	snprintf(old, sizeof old, "PRAGMA user_version = %d", migrations_version);
	sql(old);
	sql("PRAGMA application_id = 1");
	ck_assert(strstr(why_not(dir, EX_CONFIG), "not one of hcpd"));
}
END_TEST

START_TEST(a_file_that_is_no_database_is_said_to_be_none)
{
	char path[300], other[300];
	FILE *f;

	snprintf(other, sizeof other, "%s/other", dir);
	ck_assert(mkdir(other, 0700) == 0);
	snprintf(path, sizeof path, "%s/other/hcpd.db", dir);
	f = fopen(path, "w");
	for (int i = 0; i < 1000; i++)
		fputs("this is no database\n", f);
	fclose(f);
	ck_assert(strstr(why_not(other, EX_DATAERR), "no database"));
}
END_TEST

START_TEST(a_stranger_is_told_whom_to_ask)
{
	const struct passwd *nobody = getpwnam("nobody");
	int status;
	pid_t pid;

	if (geteuid() != 0 || nobody == NULL)
		return;
	pid = fork();
	if (pid == 0) {
		struct query *other;
		char why[1024] = "";

		if (setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0)
			_exit(9);
		_exit(query_open(dir, &other, why, sizeof why) == EX_NOPERM &&
					strstr(why, "run this as root") ?
				0 :
				1);
	}
	ck_assert(waitpid(pid, &status, 0) == pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("query");
	TCase *t = tcase_create("query");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, list_is_newest_first_and_filtered);
	tcase_add_test(t, list_finds_sessions_by_their_labels);
	tcase_add_test(t, labels_are_looked_up_in_slices_by_their_index);
	tcase_add_test(t, a_list_that_its_limit_cut_says_where_to_go_on);
	tcase_add_test(t, a_slice_looks_at_a_bounded_part_of_a_long_history);
	tcase_add_test(t, a_session_is_found_by_any_unique_beginning);
	tcase_add_loop_test(t, member_that_a_verb_does_not_take_is_refused_by_name, 0,
		(int)(sizeof bad_requests / sizeof *bad_requests));
	tcase_add_test(t, events_come_as_they_are_stored_but_for_the_token);
	tcase_add_test(t, events_begin_at_any_sequence_with_what_stands_behind_it);
	tcase_add_test(t, a_follow_waits_and_ends_with_the_session);
	tcase_add_test(t, reader_that_has_enough_goes_on_later_without_a_gap);
	tcase_add_test(t, the_log_is_log_lines_warnings_and_errors);
	tcase_add_test(t, show_tells_everything_in_its_order);
	tcase_add_loop_test(
		t, a_damaged_row_is_listed_as_that_and_can_be_read, 0, (int)(sizeof harms / sizeof *harms));
	tcase_add_test(t, states_are_shown_restored_and_what_is_damaged_as_that);
	tcase_add_test(t, nothing_is_held_between_slices);
	tcase_add_test(t, store_of_a_killed_daemon_is_read_whole);
	tcase_add_test(t, a_store_that_cannot_be_read_says_what_to_do);
	tcase_add_test(t, a_file_that_is_no_database_is_said_to_be_none);
	tcase_add_test(t, a_stranger_is_told_whom_to_ask);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
