/* SPDX-License-Identifier: MIT */
/* fuzz_control.c: a line of the control socket: what becomes of it, and what is answered where it is no
 * request. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "control/control_private.h"
#include "core/operator/operator.h"
#include "query/query_private.h"
#include "harp/harp.h"

#define SESSION "3f2a91c0-0000-4000-8000-000000000000"

static void check_error(const struct control_request *r, const struct query_error *e)
{
	static const char *const codes[] = {"bad_request", "unknown_verb", "not_found", "ambiguous"};
	struct buf b = {0};
	json_t *line, *error;
	size_t i = 0;

	while (i < sizeof codes / sizeof *codes && strcmp(codes[i], e->code) != 0)
		i++;
	MUST(i < sizeof codes / sizeof *codes);
	MUST(e->message[0] != '\0' && e->next[0] != '\0');
	MUST(fuzz_is_utf8(e->message, strlen(e->message)));
	client_add_error(&b, r->has_id ? &r->id : NULL, e);
	MUST(b.size > 0 && b.data[b.size - 1] == '\n' && memchr(b.data, '\n', b.size - 1) == NULL);
	line = fuzz_json(b.data, b.size);
	error = json_object_get(line, "error");
	MUST(json_object_size(line) == 2 && json_object_size(error) == 3);
	MUST(r->has_id ? json_integer_value(json_object_get(line, "id")) == r->id :
			 json_is_null(json_object_get(line, "id")));
	MUST(strcmp(json_string_value(json_object_get(error, "message")), e->message) == 0);
	json_decref(line);
	buf_fini(&b);
}

/* ---- questions to the store ---- */

/* A store of one session, which nobody changes: made once. */
static struct query *store(void)
{
	static struct store_reader reader;
	static struct query q = {.reader = &reader};

	if (reader.db == NULL) {
		MUST(sqlite3_open(":memory:", &reader.db) == SQLITE_OK);
		MUST(sqlite3_exec(reader.db,
			     "CREATE TABLE sessions (id INTEGER PRIMARY KEY, session_id TEXT);"
			     "CREATE TABLE events (id INTEGER PRIMARY KEY, session INTEGER, sequence "
			     "INTEGER);"
			     "INSERT INTO sessions VALUES (7, '" SESSION
			     "'); INSERT INTO events VALUES (1, 7, NULL), (2, 7, 1), (3, 7, 2)",
			     NULL, NULL, NULL) == SQLITE_OK);
		reader.dir = (char *)(uintptr_t) "memory";
	}
	return &q;
}

static void check_query(const struct control_request *r)
{
	const json_t *session = json_object_get(r->root, "session");
	struct query_cursor c;
	struct query_error e;
	struct buf b = {0};
	bool is_of_one;

	if (query_begin(store(), &c, r->root, &e) < 0) {
		check_error(r, &e);
		return;
	}
	is_of_one = c.verb != QUERY_LIST && c.verb != QUERY_AUDIT &&
		(c.verb != QUERY_APPROVALS || (session != NULL && !json_is_null(session)));
	MUST(is_of_one == (c.session == 7) && strcmp(c.session_id, is_of_one ? SESSION : "") == 0);
	MUST(c.limit >= 0 && c.row >= 0);
	query_add_done(&c, &b);
	buf_text(&b);
	b.data[0] = '{'; /* the comma before its first member */
	buf_add_text(&b, "}");
	json_decref(fuzz_json(b.data, b.size));
	buf_fini(&b);
}

/* ---- what goes to the core ---- */

enum { NO_SESSION, MAY_SESSION, MUST_SESSION };

/* What was signed are the bytes between these braces; nobody writes them anew on the way. */
static void check_decision(const struct control_request *r, const char *line, size_t size)
{
	const struct jslice *d = &r->decision;
	struct harp_decision *decision;
	char why[256];
	json_t *read;

	MUST(d->at >= line && d->at + d->size <= line + size);
	MUST(d->size >= 2 && d->at[0] == '{' && d->at[d->size - 1] == '}');
	MUST(memchr(d->at, '\0', d->size) == NULL);
	read = fuzz_json(d->at, d->size);
	MUST(fuzz_same(read, json_object_get(r->root, "decision")));
	json_decref(read);
	if (harp_read_decision(d->at, d->size, &decision, why, sizeof why) == HARP_OK)
		harp_decision_free(decision);
}

static void check_ask(const struct control_request *r, const char *verb, const char *line, size_t size)
{
	static const struct {
		const char *name;
		int session;
		bool has_reason, has_decision;
	} verbs[] = {
		{"abort", MUST_SESSION, true, false},
		{"pause", MUST_SESSION, true, false},
		{"resume", MUST_SESSION, false, false},
		{"checkpoint", MUST_SESSION, false, false},
		{"replay", MUST_SESSION, false, false},
		{"live", MUST_SESSION, false, false},
		{"revoke_token", MUST_SESSION, true, false},
		{"rotate_token_key", NO_SESSION, false, false},
		{"drain", NO_SESSION, false, false},
		{"undrain", NO_SESSION, false, false},
		{"stats", NO_SESSION, false, false},
		{"decide", MAY_SESSION, true, true},
		{"approvers", NO_SESSION, false, false},
	};
	size_t i = 0;

	while (i < sizeof verbs / sizeof *verbs && strcmp(verbs[i].name, verb) != 0)
		i++;
	MUST(i < sizeof verbs / sizeof *verbs);
	MUST(r->verb < OP_VERBS && strcmp(op_verb_name(r->verb), verb) == 0);
	MUST(verbs[i].session == MAY_SESSION || (verbs[i].session == MUST_SESSION) == (r->session != NULL));
	MUST(verbs[i].has_reason || r->reason == NULL);
	MUST(verbs[i].has_decision == (json_object_get(r->root, "decision") != NULL));
	if (verbs[i].has_decision)
		check_decision(r, line, size);
}

/* What the thread relies on. */
static void check_request(const struct control_request *r, const char *line, size_t size)
{
	static const char *const known[] = {
		"id", "do", "session", "reason", "from", "of", "name", "decision"};
	const char *verb = json_string_value(json_object_get(r->root, "do")), *name;
	json_t *value;

	MUST(r->has_id && verb != NULL && size <= REQUEST_LINE_MAX);
	MUST(r->kind == CONTROL_QUERY ? query_knows(verb) : !query_knows(verb));
	if (r->kind == CONTROL_QUERY) {
		check_query(r);
		return;
	}
	json_object_foreach(r->root, name, value) {
		size_t i = 0;

		while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0)
			i++;
		MUST(i < sizeof known / sizeof *known);
	}
	MUST(r->from >= 1 && r->of >= 0);
	MUST(r->reason == NULL || strlen(r->reason) < REASON_SIZE);
	if (r->kind == CONTROL_STOP)
		MUST(strcmp(verb, "stop") == 0 && r->session == NULL &&
			json_object_get(r->root, "of") != NULL);
	else if (r->kind == CONTROL_ARTIFACT)
		MUST(strcmp(verb, "artifact") == 0 && r->session != NULL && r->name != NULL);
	else
		check_ask(r, verb, line, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = fuzz_copy(data, size);
	struct control_request r;
	struct query_error e;

	if (control_read_request(line, size, &r, &e) == 0)
		check_request(&r, line, size);
	else
		check_error(&r, &e);
	control_request_fini(&r);
	free(line);
	return 0;
}
