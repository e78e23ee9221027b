/* SPDX-License-Identifier: MIT */
/* parse.c: turns a request into a cursor.
 * Owns which members a verb takes and which values are valid. Never reads more of the store than it needs to
 * find a session. */
#include "query/query_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const verb_names[QUERY_VERBS] = {[QUERY_LIST] = "list",
	[QUERY_SHOW] = "show",
	[QUERY_EVENTS] = "events",
	[QUERY_CHECKPOINTS] = "checkpoints",
	[QUERY_LOG] = "log",
	[QUERY_AUDIT] = "audit",
	[QUERY_APPROVALS] = "approvals"};

#define LIMIT_DEFAULT 1000
#define ALL_STATES ((1u << S_COUNT) - 1)

static int __attribute__((format(printf, 2, 3))) refuse(struct query_error *e, const char *fmt, ...)
{
	va_list ap;

	e->code = "bad_request";
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof e->message, fmt, ap);
	va_end(ap);
	snprintf(e->next, sizeof e->next, "hcp-control(7) has the members of each verb");
	return -1;
}

/* ---- members: each takes a value into the cursor; the result describes in one word what is valid ---- */

typedef const char *member_fn(struct query_cursor *c, const json_t *v);

static const char *take_text(const json_t *v, char *out, size_t size, const char *what)
{
	if (!json_is_string(v) || json_string_length(v) == 0 || json_string_length(v) >= size ||
		strlen(json_string_value(v)) != json_string_length(v))
		return what;
	snprintf(out, size, "%s", json_string_value(v));
	return NULL;
}

static const char *take_caller(struct query_cursor *c, const json_t *v)
{
	return take_text(v, c->caller, sizeof c->caller, "a caller's id");
}

static const char *take_capability(struct query_cursor *c, const json_t *v)
{
	return take_text(v, c->capability, sizeof c->capability, "a capability's name");
}

static const char *take_state(struct query_cursor *c, const json_t *v)
{
	static const char what[] =
		"PENDING, RUNNING, PAUSED, ABORTING, COMPLETED, FAILED, ABORTED, REJECTED, live or over";
	const json_t *one;
	size_t i;

	if (json_is_array(v)) {
		json_array_foreach(v, i, one)
			if (json_is_array(one) || take_state(c, one) != NULL)
				return what;
		return NULL;
	}
	if (!json_is_string(v))
		return what;
	for (i = 0; i < S_COUNT; i++)
		if (strcasecmp(json_string_value(v), sstate_names[i]) == 0) {
			c->states |= 1u << i;
			return NULL;
		}
	if (strcasecmp(json_string_value(v), "live") == 0)
		c->states |= QUERY_LIVE;
	else if (strcasecmp(json_string_value(v), "over") == 0)
		c->states |= ALL_STATES & ~QUERY_LIVE;
	else
		return what;
	return NULL;
}

static const char *take_since(struct query_cursor *c, const json_t *v)
{
	int64_t us;

	if (!json_is_string(v) || !clock_parse(json_string_value(v), &us))
		return "an instant such as 2026-01-31T12:00:00Z";
	clock_format(us, c->since);
	return NULL;
}

static const char *take_labels(struct query_cursor *c, const json_t *v)
{
	static const char what[] = "an object of 1 to 4 labels, each a text";
	json_t *labels = (json_t *)(uintptr_t)v; /* jansson's iterator wants no const, and changes nothing */

	if (!json_is_object(v) || json_object_size(v) == 0 || json_object_size(v) > QUERY_LABELS_MAX)
		return what;
	for (void *at = json_object_iter(labels); at != NULL; at = json_object_iter_next(labels, at)) {
		struct query_label *l = &c->labels[c->label_count++];
		const json_t *value = json_object_iter_value(at);

		snprintf(l->name, sizeof l->name, "%s", json_object_iter_key(at));
		if (json_object_iter_key(at)[0] == '\0' ||
			strlen(json_object_iter_key(at)) > LABEL_SIZE_MAX || !json_is_string(value) ||
			json_string_length(value) > LABEL_SIZE_MAX ||
			strlen(json_string_value(value)) != json_string_length(value))
			return what;
		snprintf(l->value, sizeof l->value, "%s", json_string_value(value));
	}
	return NULL;
}

static const char *take_number(const json_t *v, json_int_t least, int64_t *out, const char *what)
{
	if (!json_is_integer(v) || json_integer_value(v) < least)
		return what;
	*out = json_integer_value(v);
	return NULL;
}

static const char *take_limit(struct query_cursor *c, const json_t *v)
{
	return take_number(v, 0, &c->limit, "a number, 0 for all");
}

static const char *take_row(struct query_cursor *c, const json_t *v)
{
	return take_number(v, 1, &c->row, "a number from 1 on");
}

static const char *take_bool(const json_t *v, bool *out)
{
	if (!json_is_boolean(v))
		return "true or false";
	*out = json_is_true(v);
	return NULL;
}

static const char *take_follow(struct query_cursor *c, const json_t *v)
{
	return take_bool(v, &c->is_follow);
}

static const char *take_has_state(struct query_cursor *c, const json_t *v)
{
	return take_bool(v, &c->has_state);
}

static const char *take_checkpoint(struct query_cursor *c, const json_t *v)
{
	return take_text(v, c->checkpoint, sizeof c->checkpoint, "the beginning of a checkpoint's id");
}

/* query_begin finds the session. A NUL would hide the text behind it. */
static const char *take_session(struct query_cursor *c, const json_t *v)
{
	(void)c;
	return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) ?
		NULL :
		"the beginning of a session's id";
}

static const char *skip_member(struct query_cursor *c, const json_t *v) /* others look at it */
{
	(void)c, (void)v;
	return NULL;
}

#define BIT(verb) (1u << (verb))
#define OF_ONE \
	(BIT(QUERY_APPROVALS) | BIT(QUERY_SHOW) | BIT(QUERY_EVENTS) | BIT(QUERY_CHECKPOINTS) | BIT(QUERY_LOG))

static const struct member {
	unsigned verbs;
	const char *name;
	member_fn *take;
} members[] = {
	{~0u, "id", skip_member},
	{~0u, "do", skip_member},
	{OF_ONE, "session", take_session},
	{BIT(QUERY_LIST), "state", take_state},
	{BIT(QUERY_LIST), "caller", take_caller},
	{BIT(QUERY_LIST), "capability", take_capability},
	{BIT(QUERY_LIST), "labels", take_labels},
	{BIT(QUERY_LIST) | BIT(QUERY_AUDIT), "since", take_since},
	{BIT(QUERY_LIST), "limit", take_limit},
	{BIT(QUERY_LIST), "before", take_row},
	{BIT(QUERY_EVENTS), "from", take_row},
	{BIT(QUERY_EVENTS) | BIT(QUERY_LOG), "follow", take_follow},
	{BIT(QUERY_CHECKPOINTS), "state", take_has_state},
	{BIT(QUERY_CHECKPOINTS), "checkpoint", take_checkpoint},
};
#define MEMBERS (sizeof members / sizeof *members)

static int find_verb(const char *name)
{
	for (int i = 0; name != NULL && i < QUERY_VERBS; i++)
		if (strcmp(verb_names[i], name) == 0)
			return i;
	return -1;
}

bool query_knows(const char *verb)
{
	return find_verb(verb) >= 0;
}

static int take_members(struct query_cursor *c, const json_t *request, struct query_error *e)
{
	const char *verb = verb_names[c->verb], *name, *wanted;
	const json_t *v;

	/* jansson's iterator wants no const, and changes nothing. */
	for (void *at = json_object_iter((json_t *)(uintptr_t)request); at != NULL;
		at = json_object_iter_next((json_t *)(uintptr_t)request, at)) {
		const struct member *m = members;

		name = json_object_iter_key(at);
		v = json_object_iter_value(at);
		while (m < members + MEMBERS && (!(m->verbs & BIT(c->verb)) || strcmp(m->name, name) != 0))
			m++;
		if (m == members + MEMBERS)
			return refuse(e, "%s takes no member %.*s", verb,
				(int)buf_utf8_cut(name, strlen(name), 64), name);
		if (!json_is_null(v) && (wanted = m->take(c, v)) != NULL)
			return refuse(e, "%s of %s does not do: it is %s", name, verb, wanted);
	}
	return 0;
}

/* ---- where it begins ---- */

static int64_t query_bound(struct query *q, const char *sql, int64_t a, int64_t b, int64_t *second)
{
	sqlite3_stmt *st = query_prepare(q, sql);
	int64_t answer = 0;
	int rc;

	if (st == NULL)
		return -1;
	sqlite3_bind_int64(st, 1, a);
	if (sqlite3_bind_parameter_count(st) > 1)
		sqlite3_bind_int64(st, 2, b);
	if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		answer = sqlite3_column_int64(st, 0); /* NULL is 0 */
		if (second != NULL)
			*second = sqlite3_column_int64(st, 1);
	}
	return query_finish(q, st, rc) < 0 ? -1 : answer;
}

/* Finds the row after which all messages from that sequence on stand. Rows and sequences grow together, and
 * no index has the sequence: so by bisection. 0, or -1 unreadable. */
static int seek_sequence(struct query *q, struct query_cursor *c, int64_t from)
{
	int64_t low, high = 0, row, sequence = 0;

	c->row = 0;
	if (from <= 1)
		return 0; /* task_accepted comes before the first sequence */
	low = query_bound(q, "SELECT min(id), max(id) FROM events WHERE session = ?", c->session, 0, &high);
	if (low < 0)
		return -1;
	if (low == 0)
		return 0;
	/* low: no earlier row is wanted; high + 1: that row, or an earlier one, is wanted. */
	for (high++; low < high;) {
		int64_t middle = low + (high - low) / 2;

		row = query_bound(q,
			"SELECT id, sequence FROM events WHERE session = ?1 AND id >= ?2 AND sequence IS NOT "
			"NULL"
			" ORDER BY id LIMIT 1",
			c->session, middle, &sequence);
		if (row < 0)
			return -1;
		if (row == 0 || sequence >= from)
			high = middle;
		else
			low = row + 1;
	}
	c->row = low - 1;
	return 0;
}

int query_begin(struct query *q, struct query_cursor *c, const json_t *request, struct query_error *e)
{
	const char *name = json_string_value(json_object_get(request, "do"));
	const char *word = json_string_value(json_object_get(request, "session"));
	int verb = find_verb(name);

	*e = (struct query_error){.code = ""};
	*c = (struct query_cursor){.limit = LIMIT_DEFAULT};
	if (verb < 0)
		return refuse(e, "%.64s is no question to the store", name != NULL ? name : "nothing");
	c->verb = (enum query_verb)verb;
	if (take_members(c, request, e) < 0)
		return -1;
	if (c->verb == QUERY_LIST) {
		if (c->row == 0 &&
			(c->row = query_bound(
				 q, "SELECT max(id) + 1 FROM sessions WHERE id > ?", 0, 0, NULL)) < 0)
			goto unreadable;
		return 0;
	}
	if (c->verb == QUERY_AUDIT)
		return 0;
	if (word == NULL && c->verb == QUERY_APPROVALS)
		return 0;
	if (word == NULL)
		return refuse(e, "%s needs a session", name);
	if (query_find(q, word, &c->session, c->session_id, e) < 0)
		return -1;
	if (c->verb == QUERY_EVENTS && seek_sequence(q, c, c->row) < 0)
		goto unreadable;
	return 0;
unreadable:
	query_fault(q, e);
	return -1;
}

void query_add_done(const struct query_cursor *c, struct buf *out)
{
	buf_addf(out, ",\"items\":%lld", (long long)c->items);
	if (c->session != 0)
		buf_addf(out, ",\"session\":\"%s\"", c->session_id);
	if (c->is_cut)
		buf_addf(out, ",\"before\":%lld", (long long)c->row);
}
