/* SPDX-License-Identifier: MIT */
/* oracle_stream.c: the rules that oracle_stream.h names. */
#include "oracle_stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const states[] = {
	"PENDING", "RUNNING", "PAUSED", "ABORTING", "COMPLETED", "FAILED", "ABORTED", "REJECTED"};
static const char *const event_types[] = {"session_created", "state_changed", "progress",
	"intermediate_result", "log", "warning", "error", "checkpoint_created", "session_closed"};
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

static bool is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool oracle_is_legal(const char *from, const char *to)
{
	for (size_t i = 0; i < COUNT(legal); i++)
		if (is(legal[i][0], from) && is(legal[i][1], to))
			return true;
	return false;
}

bool oracle_is_final(const char *state)
{
	return is(state, "COMPLETED") || is(state, "FAILED") || is(state, "ABORTED") || is(state, "REJECTED");
}

static const char *find_word(const char *const *table, size_t count, const char *text)
{
	for (size_t i = 0; text != NULL && i < count; i++)
		if (is(table[i], text))
			return table[i];
	return "";
}

const char *oracle_state(const char *state)
{
	return find_word(states, COUNT(states), state);
}

const char *oracle_event_type(const char *event_type)
{
	return find_word(event_types, COUNT(event_types), event_type);
}

static const char *text_in(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

struct oracle_message oracle_message_of(const json_t *envelope)
{
	const json_t *payload = json_object_get(envelope, "payload"),
		     *data = json_object_get(payload, "data");
	struct oracle_message m = {.type = text_in(envelope, "type"),
		.event_type = oracle_event_type(text_in(payload, "event_type")),
		.sequence = json_integer_value(json_object_get(payload, "sequence")),
		.from = text_in(data, "from_state"),
		.to = text_in(data, "to_state")};

	if (is(m.event_type, "session_created"))
		m.to = text_in(data, "state");
	else if (is(m.event_type, "session_closed"))
		m.to = text_in(data, "final_state");
	return m;
}

__attribute__((format(printf, 3, 4))) static void report(
	const struct oracle_stream *s, const char *rule, const char *fmt, ...)
{
	char what[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	s->on_violation(s->ctx, rule, what);
}

/* ---- events ---- */

static void take_created(struct oracle_stream *s, const struct oracle_message *m)
{
	if (m->sequence != 1 || !is(m->to, "PENDING"))
		report(s, "session_created first", "session_created of %s has sequence %lld and state %s",
			s->session, m->sequence, m->to);
}

static void take_changed(struct oracle_stream *s, const struct oracle_message *m)
{
	if ((!s->is_lossy && !is(m->from, s->state)) || !oracle_is_legal(m->from, m->to))
		report(s, "legal transitions", "%s to %s at %lld of %s, which was %s", m->from, m->to,
			m->sequence, s->session, s->state);
	s->changes++;
	s->ends += oracle_is_final(m->to);
}

static void take_closed(struct oracle_stream *s, const struct oracle_message *m)
{
	if (!oracle_is_final(m->to) || (!is(m->to, s->state) && !(s->is_lossy && s->state[0] == '\0')))
		report(s, "one terminal state", "%s closed as %s in %s", s->session, m->to, s->state);
	s->closed = true;
	s->closes++;
}

static void take_event(struct oracle_stream *s, const struct oracle_message *m)
{
	bool is_next = s->is_lossy ? m->sequence > s->sequence : m->sequence == s->sequence + 1;

	if (!is_next)
		report(s, "no gap", "sequence %lld of %s follows %lld", m->sequence, s->session, s->sequence);
	if (!s->accepted && !s->any_order && !s->is_lossy)
		report(s, "one answer", "sequence %lld of %s comes before task_accepted", m->sequence,
			s->session);
	if (!s->is_lossy && s->sequence == 0 && !is(m->event_type, "session_created"))
		report(s, "session_created first", "%s is the first event of %s", m->event_type, s->session);
	s->sequence = m->sequence;
	if (m->event_type[0] == '\0')
		report(s, "known messages", "event %lld of %s has none of the nine types", m->sequence,
			s->session);
	else if (is(m->event_type, "session_created"))
		take_created(s, m);
	else if (is(m->event_type, "state_changed"))
		take_changed(s, m);
	else if (is(m->event_type, "session_closed"))
		take_closed(s, m);
	else if (oracle_is_final(s->state) && !s->closed)
		report(s, "session_closed last", "%s of %s comes in state %s", m->event_type, s->session,
			s->state);
	if (m->to[0] != '\0')
		snprintf(s->state, sizeof s->state, "%s", m->to);
}

/* ---- answers and results ---- */

static void take_answer(struct oracle_stream *s, bool is_accepted)
{
	bool is_late = s->sequence > 0 && !s->any_order && !s->is_lossy;

	if (s->accepted || s->rejected || is_late || (!is_accepted && s->sequence > 0))
		report(s, "one answer", "task_%s of %s comes second, or after %lld events",
			is_accepted ? "accepted" : "rejected", s->session, s->sequence);
	s->accepted |= is_accepted;
	s->rejected |= !is_accepted;
}

static void take_result(struct oracle_stream *s, bool is_good)
{
	if (s->results++ > 0)
		report(s, "one terminal state", "%s has a second result", s->session);
	s->result_is_good = is_good;
	if (!s->any_order && !s->is_lossy && !is(s->state, is_good ? "COMPLETED" : "FAILED"))
		report(s, "one terminal state", "%s has task_%s in state %s", s->session,
			is_good ? "completed" : "failed", s->state);
}

void oracle_stream_take(struct oracle_stream *s, const struct oracle_message *m)
{
	bool is_event = is(m->type, "event");

	if (s->closed && (is_event || !s->any_order))
		report(s, "session_closed last", "%s %s %lld of %s comes after it", m->type, m->event_type,
			m->sequence, s->session);
	if (is_event)
		take_event(s, m);
	else if (is(m->type, "task_accepted") || is(m->type, "task_rejected"))
		take_answer(s, is(m->type, "task_accepted"));
	else if (is(m->type, "task_completed") || is(m->type, "task_failed"))
		take_result(s, is(m->type, "task_completed"));
	else
		report(s, "known messages", "%s of %s is no type of message", m->type, s->session);
}

void oracle_stream_end(struct oracle_stream *s, bool must_be_closed)
{
	bool wants_result = is(s->state, "COMPLETED") || is(s->state, "FAILED");

	if (!s->accepted && s->sequence > 0)
		report(s, "each submit answered", "%s has a stream but no task_accepted", s->session);
	if (s->ends > 1 || s->closes > 1)
		report(s, "one terminal state", "%s ended %d times and closed %d times", s->session, s->ends,
			s->closes);
	if (s->closed &&
		(wants_result != (s->results > 0) ||
			(s->results > 0 && s->result_is_good != is(s->state, "COMPLETED"))))
		report(s, "one terminal state", "%s ended %s and %s", s->session, s->state,
			s->results == 0           ? "has no result" :
				s->result_is_good ? "completed" :
						    "failed");
	if (must_be_closed && !s->closed)
		report(s, "one terminal state", "%s never closed; it is %s after %lld", s->session, s->state,
			s->sequence);
}
