/* SPDX-License-Identifier: MIT */
/* session.c: the events of HARP-SESSION 0.2, written and parsed.
 * Owns their names and fields. Never knows when an event is due (harp_events.c) or whether a snapshot was
 * seen before (harp_snapshot.c). */
#include "harp/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "harp/harp_private.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const char *const event_names[HARP_EVENTS] = {
	[HARP_EVENT_START] = "session.start",
	[HARP_EVENT_STATUS] = "session.status",
	[HARP_EVENT_SNAPSHOT] = "session.snapshot",
	[HARP_EVENT_END] = "session.end",
};

static const char *const status_names[HARP_STATUSES] = {
	[HARP_IDLE] = "idle",
	[HARP_PLANNING] = "planning",
	[HARP_EDITING] = "editing",
	[HARP_EXECUTING] = "executing",
	[HARP_WAITING_APPROVAL] = "waiting_approval",
	[HARP_ERROR] = "error",
};

static const char *const view_names[HARP_VIEWS] = {
	[HARP_SUMMARY] = "summary",
	[HARP_PLAN] = "plan",
	[HARP_DIFF_SUMMARY] = "diff_summary",
	[HARP_CONTEXT] = "context",
};

static const char *const end_names[HARP_ENDS] = {
	[HARP_USER_END] = "user_end",
	[HARP_TIMEOUT] = "timeout",
	[HARP_POLICY_KILL] = "policy_kill",
};

static int find_name(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

const char *harp_event_name(enum harp_event e)
{
	return event_names[e];
}

const char *harp_status_name(enum harp_status s)
{
	return status_names[s];
}

const char *harp_view_name(enum harp_view v)
{
	return view_names[v];
}

const char *harp_end_name(enum harp_end e)
{
	return end_names[e];
}

int harp_event_parse(const char *name)
{
	return find_name(event_names, HARP_EVENTS, name);
}

int harp_status_parse(const char *name)
{
	return find_name(status_names, HARP_STATUSES, name);
}

int harp_view_parse(const char *name)
{
	return find_name(view_names, HARP_VIEWS, name);
}

int harp_end_parse(const char *name)
{
	return find_name(end_names, HARP_ENDS, name);
}

/* ---- writing: members in the order of their names ---- */

static void add_text(struct buf *b, const char *before, const char *name, const char *text)
{
	buf_addf(b, "%s\"%s\":", before, name);
	buf_add_json(b, text, strlen(text));
}

static void add_time(struct buf *b, const char *before, const char *name, int64_t at_us)
{
	char at[CLOCK_TEXT_SIZE];

	clock_format(at_us, at);
	add_text(b, before, name, at);
}

static void add_members(
	struct buf *b, const char *before, const char *name, const struct harp_member *m, size_t count)
{
	buf_addf(b, "%s\"%s\":{", before, name);
	for (size_t i = 0; i < count; i++) {
		if (m[i].text != NULL)
			add_text(b, i > 0 ? "," : "", m[i].name, m[i].text);
		else
			buf_addf(b, "%s\"%s\":%s", i > 0 ? "," : "", m[i].name, m[i].json);
	}
	buf_add_text(b, "}");
}

void harp_add_start(struct buf *b, const char *session_id, int64_t at_us, const char *agent_host,
	const char *repo_ref, const struct harp_member *metadata, size_t count)
{
	add_text(b, "{", "agentHost", agent_host);
	add_time(b, ",", "createdAt", at_us);
	add_text(b, ",", "eventType", event_names[HARP_EVENT_START]);
	add_members(b, ",", "metadata", metadata, count);
	add_text(b, ",", "repoRef", repo_ref);
	add_text(b, ",", "sessionId", session_id);
	buf_add_text(b, "}");
}

void harp_add_status(struct buf *b, const char *session_id, int64_t at_us, enum harp_status state)
{
	add_text(b, "{", "eventType", event_names[HARP_EVENT_STATUS]);
	add_text(b, ",", "sessionId", session_id);
	add_text(b, ",", "state", status_names[state]);
	add_time(b, ",", "updatedAt", at_us);
	buf_add_text(b, "}");
}

/* hash NULL: leaves the hash out; the hash is computed from this form. */
static void add_snapshot(struct buf *b, const char *session_id, int64_t at_us, const char *snapshot_id,
	enum harp_view view, const struct harp_member *payload, size_t count, const char *hash)
{
	add_time(b, "{", "createdAt", at_us);
	add_text(b, ",", "eventType", event_names[HARP_EVENT_SNAPSHOT]);
	add_members(b, ",", "payload", payload, count);
	add_text(b, ",", "sessionId", session_id);
	if (hash != NULL)
		add_text(b, ",", "snapshotHash", hash);
	add_text(b, ",", "snapshotHashAlg", "SHA-256");
	add_text(b, ",", "snapshotId", snapshot_id);
	add_text(b, ",", "snapshotType", view_names[view]);
	buf_add_text(b, "}");
}

void harp_add_snapshot(struct buf *b, const char *session_id, int64_t at_us, const char *snapshot_id,
	enum harp_view view, const struct harp_member *payload, size_t count, char hash[HARP_HASH_SIZE])
{
	struct buf signable = {0};

	add_snapshot(&signable, session_id, at_us, snapshot_id, view, payload, count, NULL);
	harp_hash(signable.data, signable.size, hash);
	add_snapshot(b, session_id, at_us, snapshot_id, view, payload, count, hash);
	buf_fini(&signable);
}

void harp_add_end(struct buf *b, const char *session_id, int64_t at_us, enum harp_end reason,
	const struct harp_member *metadata, size_t count)
{
	add_time(b, "{", "endedAt", at_us);
	add_text(b, ",", "eventType", event_names[HARP_EVENT_END]);
	add_members(b, ",", "metadata", metadata, count);
	add_text(b, ",", "reason", end_names[reason]);
	add_text(b, ",", "sessionId", session_id);
	buf_add_text(b, "}");
}

/* ---- reading ---- */

static const struct harp_field start_fields[] = {
	{"sessionId", FORM_ID, false, NULL},
	{"eventType", FORM_CONST, false, "session.start"},
	{"createdAt", FORM_TIME, false, NULL},
	{"agentHost", FORM_WORD, false, NULL},
	{"repoRef", FORM_WORD, true, NULL},
	{"metadata", FORM_OBJECT, true, NULL},
};

static const struct harp_field status_fields[] = {
	{"sessionId", FORM_ID, false, NULL},
	{"eventType", FORM_CONST, false, "session.status"},
	{"state", FORM_WORD, false, NULL},
	{"updatedAt", FORM_TIME, false, NULL},
	{"details", FORM_OBJECT, true, NULL},
};

static const struct harp_field snapshot_fields[] = {
	{"sessionId", FORM_ID, false, NULL},
	{"eventType", FORM_CONST, false, "session.snapshot"},
	{"snapshotId", FORM_WORD, false, NULL},
	{"snapshotType", FORM_WORD, false, NULL},
	{"createdAt", FORM_TIME, false, NULL},
	{"payload", FORM_OBJECT, false, NULL},
	{"snapshotHashAlg", FORM_CONST, false, "SHA-256"},
	{"snapshotHash", FORM_WORD, false, NULL},
	{"metadata", FORM_OBJECT, true, NULL},
};

static const struct harp_field end_fields[] = {
	{"sessionId", FORM_ID, false, NULL},
	{"eventType", FORM_CONST, false, "session.end"},
	{"endedAt", FORM_TIME, false, NULL},
	{"reason", FORM_WORD, false, NULL},
	{"metadata", FORM_OBJECT, true, NULL},
};

static const struct kind {
	const struct harp_field *fields;
	size_t count;
	const char *time;
} kinds[HARP_EVENTS] = {
	[HARP_EVENT_START] = {start_fields, COUNT(start_fields), "createdAt"},
	[HARP_EVENT_STATUS] = {status_fields, COUNT(status_fields), "updatedAt"},
	[HARP_EVENT_SNAPSHOT] = {snapshot_fields, COUNT(snapshot_fields), "createdAt"},
	[HARP_EVENT_END] = {end_fields, COUNT(end_fields), "endedAt"},
};

static void hash_snapshot(json_t *o, char hash[HARP_HASH_SIZE])
{
	struct buf b = {0};

	harp_add_signable(&b, o, "snapshotHash");
	harp_hash(b.data, b.size, hash);
	buf_fini(&b);
}

static enum harp_code take_snapshot(json_t *o, struct harp_heard *out, char *why, size_t why_size)
{
	int view = harp_view_parse(harp_text_of(o, "snapshotType"));

	if (view < 0)
		return harp_refuse(why, why_size, HARP_UNSUPPORTED,
			"session.snapshot: there is no snapshotType %.64s", harp_text_of(o, "snapshotType"));
	hash_snapshot(o, out->hash);
	if (strcmp(out->hash, harp_text_of(o, "snapshotHash")) != 0)
		return harp_refuse(why, why_size, HARP_HASH_MISMATCH,
			"session.snapshot: snapshotHash is not that of the rest, which is %s", out->hash);
	out->view = (enum harp_view)view;
	out->snapshot_id = xstrdup(harp_text_of(o, "snapshotId"));
	out->created_at = xstrdup(harp_text_of(o, "createdAt"));
	return HARP_OK;
}

/* Checks of one kind of event beyond the form of its fields. */
static enum harp_code take_words(json_t *o, struct harp_heard *out, char *why, size_t why_size)
{
	int word;

	switch (out->kind) {
	case HARP_EVENT_STATUS:
		if ((word = harp_status_parse(harp_text_of(o, "state"))) < 0)
			return harp_refuse(why, why_size, HARP_INVALID_STATE,
				"session.status: there is no state %.64s", harp_text_of(o, "state"));
		out->status = (enum harp_status)word;
		return HARP_OK;
	case HARP_EVENT_SNAPSHOT: return take_snapshot(o, out, why, why_size);
	case HARP_EVENT_END:
		if ((word = harp_end_parse(harp_text_of(o, "reason"))) < 0)
			return harp_refuse(why, why_size, HARP_UNSUPPORTED,
				"session.end: there is no reason %.64s", harp_text_of(o, "reason"));
		out->reason = (enum harp_end)word;
		return HARP_OK;
	case HARP_EVENT_START:
	case HARP_EVENTS: break;
	}
	return HARP_OK;
}

static enum harp_code take_event(json_t *o, struct harp_heard *out, char *why, size_t why_size)
{
	const char *name = harp_text_of(o, "eventType");
	int kind = name != NULL ? harp_event_parse(name) : -1;
	struct buf text = {0};
	enum harp_code code;

	*out = (struct harp_heard){.size = 0};
	if (kind < 0)
		return harp_refuse(why, why_size, HARP_UNSUPPORTED, "no eventType of HARP-SESSION 0.2");
	out->kind = (enum harp_event)kind;
	code = harp_check_fields(o, kinds[kind].fields, kinds[kind].count, event_names[kind], why, why_size);
	if (code == HARP_OK)
		code = take_words(o, out, why, why_size);
	if (code != HARP_OK)
		return code;
	(void)harp_parse_time(
		harp_text_of(o, kinds[kind].time), &out->at_us); /* its form was checked before */
	out->session_id = xstrdup(harp_text_of(o, "sessionId"));
	harp_add_signable(&text, o, NULL);
	out->size = text.size;
	out->text = xstrndup(text.data, text.size);
	buf_fini(&text);
	return HARP_OK;
}

enum harp_code harp_read_event(
	const char *text, size_t size, size_t most, struct harp_heard *out, char *why, size_t why_size)
{
	json_t *o = NULL;
	enum harp_code code = harp_parse(text, size, most, &o, why, why_size);

	if (code != HARP_OK)
		return code;
	code = take_event(o, out, why, why_size);
	json_decref(o);
	return code;
}

static void set_default(json_t *o, const char *name, const char *value)
{
	json_t *text = json_string(value);

	if (json_object_get(o, name) == NULL && (text == NULL || json_object_set(o, name, text) < 0))
		abort();
	json_decref(text);
}

/* Absent and null are the same in a worker's line. */
static void drop_nulls(json_t *o)
{
	const char *name;
	json_t *v;
	void *tmp;

	json_object_foreach_safe(o, tmp, name, v) if (json_is_null(v)) json_object_del(o, name);
}

static enum harp_code refuse_other(char *why, size_t why_size)
{
	return harp_refuse(why, why_size, HARP_UNSUPPORTED, "eventType is not session.snapshot");
}

/* Fills in what the worker left out. A session.status, which may be mistaken for a snapshot, stays one, so
 * that the worker gets the right error; a worker may not send other events. */
static enum harp_code complete_snapshot(
	json_t *o, const char *session_id, const char *created_at, char *why, size_t why_size)
{
	const char *kind = harp_text_of(o, "eventType");
	char hash[HARP_HASH_SIZE];

	drop_nulls(o);
	json_object_del(o, "type");
	if (kind != NULL && strcmp(kind, event_names[HARP_EVENT_STATUS]) == 0) {
		set_default(o, "sessionId", session_id);
		return HARP_OK;
	}
	if (kind != NULL && strcmp(kind, event_names[HARP_EVENT_SNAPSHOT]) != 0)
		return refuse_other(why, why_size);
	if (json_object_get(o, "snapshotHash") != NULL && json_object_get(o, "createdAt") == NULL)
		return harp_refuse(why, why_size, HARP_UNSUPPORTED,
			"session.snapshot: a snapshotHash needs the createdAt that is in it");
	set_default(o, "sessionId", session_id);
	set_default(o, "eventType", event_names[HARP_EVENT_SNAPSHOT]);
	set_default(o, "snapshotHashAlg", "SHA-256");
	set_default(o, "createdAt", created_at);
	if (json_object_get(o, "snapshotHash") == NULL) {
		hash_snapshot(o, hash);
		set_default(o, "snapshotHash", hash);
	}
	return HARP_OK;
}

enum harp_code harp_read_snapshot(const char *line, size_t size, size_t most, const char *session_id,
	const char *created_at, struct harp_heard *out, char *why, size_t why_size)
{
	json_t *o = NULL;
	enum harp_code code = harp_parse(line, size, most, &o, why, why_size);

	if (code != HARP_OK)
		return code;
	code = complete_snapshot(o, session_id, created_at, why, why_size);
	if (code == HARP_OK)
		code = take_event(o, out, why, why_size);
	json_decref(o);
	if (code != HARP_OK)
		return code;
	if (out->kind != HARP_EVENT_SNAPSHOT)
		code = refuse_other(why, why_size);
	else if (strcmp(out->session_id, session_id) != 0)
		code = harp_refuse(
			why, why_size, HARP_SCOPE, "session.snapshot: sessionId is another session's");
	if (code != HARP_OK)
		harp_heard_fini(out);
	return code;
}

void harp_heard_fini(struct harp_heard *h)
{
	free(h->session_id);
	free(h->snapshot_id);
	free(h->created_at);
	free(h->text);
	*h = (struct harp_heard){.size = 0};
}

enum harp_code harp_check_event(const struct harp_heard *h, bool is_ended, const char *known_hash,
	bool *is_new, char *why, size_t why_size)
{
	bool is_known = h->kind == HARP_EVENT_SNAPSHOT && known_hash != NULL;

	*is_new = !is_known;
	if (is_ended)
		return harp_refuse(why, why_size, HARP_SESSION_CLOSED, "%s: the session has ended",
			event_names[h->kind]);
	if (is_known && strcmp(known_hash, h->hash) != 0)
		return harp_refuse(why, why_size, HARP_DUPLICATE_SNAPSHOT,
			"session.snapshot: snapshotId %.64s was used for another snapshot", h->snapshot_id);
	return HARP_OK;
}
