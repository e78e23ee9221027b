/* SPDX-License-Identifier: MIT */
/* stream.c: one session's stream: what each number held, and whether the whole is legal.
 * Keeps hashes, not texts: a soak has many sessions. Never talks to anybody. */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "violations.h"
#include "support/harness.h"
#include "support/oracle_stream.h"

uint64_t hash_bytes(const void *data, size_t size)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
	return h ? h : 1;
}

/* --- taking --- */

static struct moment *moment_of(struct stream *s, long long sequence)
{
	if ((size_t)sequence > s->room) {
		size_t room = s->room ? s->room : 16;
		while (room < (size_t)sequence)
			room *= 2;
		s->moments = realloc(s->moments, room * sizeof *s->moments);
		memset(s->moments + s->room, 0, (room - s->room) * sizeof *s->moments);
		s->room = room;
	}
	return &s->moments[sequence - 1];
}

/* What is in an event beside its kind. */
static void take_data(struct stream *s, struct moment *m, json_t *data)
{
	const char *message = json_text_at(data, "message"), *saved = json_text_at(data, "description");
	const char *code = json_text_at(data, "code");

	if (strcmp(m->event, "progress") == 0 && message)
		m->number = strtoll(message, NULL, 10);
	if (strcmp(m->event, "checkpoint_created") == 0 && saved && strncmp(saved, "at ", 3) == 0)
		m->number = strtoll(saved + 3, NULL, 10);
	m->is_death = strcmp(m->event, "error") == 0 && code && strcmp(code, "worker_died") == 0;
	if (m->is_death && !json_is_true(json_at(data, "recoverable")))
		violation("attempts", "a death of %s was reported, and is not recoverable", s->session);
	if (strcmp(m->event, "warning") == 0 && code && strcmp(code, "wrong_state") == 0)
		violation(
			"the state is restored", "%s went on from a state that it had not saved", s->session);
}

static void take_event(struct stream *s, json_t *message, const char *body, size_t size, uint64_t hash)
{
	long long sequence = json_integer_value(json_at(message, "payload.sequence"));

	if (sequence < 1 || sequence > 1000000) {
		violation("envelope", "an event without a usable sequence: %.*s", (int)size, body);
		return;
	}
	struct moment *m = moment_of(s, sequence);
	if (m->hash) {
		if (m->hash != hash)
			violation("one content",
				"sequence %lld of %s came with two contents, the second: %.*s", sequence,
				s->session, (int)size, body);
		return;
	}
	if (sequence != s->last + 1 && !s->any_order)
		violation("order", "sequence %lld of %s came after %lld", sequence, s->session, s->last);
	m->hash = hash;
	m->event = oracle_event_type(json_text_at(message, "payload.event_type"));
	if (!m->event[0] || !json_is_object(json_at(message, "payload.data")))
		violation("envelope", "no event of the nine, or no data: %.*s", (int)size, body);
	m->from = oracle_state(json_text_at(message, "payload.data.from_state"));
	m->to = oracle_state(json_text_at(message, "payload.data.to_state"));
	if (strcmp(m->event, "session_closed") == 0) {
		m->to = oracle_state(json_text_at(message, "payload.data.final_state"));
		s->closed = true;
	} else if (strcmp(m->event, "session_created") == 0) {
		m->to = oracle_state(json_text_at(message, "payload.data.state"));
	}
	take_data(s, m, json_at(message, "payload.data"));
	s->last = sequence > s->last ? sequence : s->last;
}

static void take_result(struct stream *s, json_t *message, const char *body, size_t size, uint64_t hash)
{
	char got[40] = "";

	if (s->result) {
		if (s->result != hash)
			violation("one content", "two results of %s, the second: %.*s", s->session, (int)size,
				body);
		return;
	}
	if (s->closed && !s->any_order)
		violation("session_closed last", "a result after it: %.*s", (int)size, body);
	s->result = hash;
	s->result_is_good = strcmp(json_text_at(message, "type"), "task_completed") == 0;
	if (!s->result_is_good || !s->wanted_output[0])
		return;
	if (json_is_integer(json_at(message, "payload.outputs.n")))
		snprintf(got, sizeof got, "n=%lld",
			(long long)json_integer_value(json_at(message, "payload.outputs.n")));
	if (strcmp(got, s->wanted_output) != 0)
		violation("the work is done", "%s was to give %s: %.*s", s->session, s->wanted_output,
			(int)size, body);
}

void stream_take(struct stream *s, json_t *message, const char *body, size_t size)
{
	const char *type = json_text_at(message, "type");
	uint64_t hash = hash_bytes(body, size);

	if (strcmp(type, "event") == 0) {
		take_event(s, message, body, size, hash);
	} else if (strcmp(type, "task_accepted") == 0) {
		if (s->accepted && s->accepted != hash)
			violation("one content", "two task_accepted of %s, the second: %.*s", s->session,
				(int)size, body);
		if (!s->accepted && s->last > 0 && !s->any_order)
			violation("order", "task_accepted of %s after its events", s->session);
		s->accepted = hash;
	} else if (strcmp(type, "task_completed") == 0 || strcmp(type, "task_failed") == 0) {
		take_result(s, message, body, size, hash);
	} else {
		violation("envelope", "a kind of message that there is not: %.*s", (int)size, body);
	}
}

/* --- checking --- */

const char *stream_state(const struct stream *s)
{
	for (long long i = s->last; i > 0; i--)
		if (s->moments[i - 1].hash && s->moments[i - 1].to[0])
			return s->moments[i - 1].to;
	return "";
}

/* It counts on from where it was, or from what it saved last where it was started again: nothing is passed
 * over, and no more is done twice than lies behind the last checkpoint. */
static void check_count(const struct stream *s)
{
	long long count = 0, saved = 0;
	bool fresh = false;

	for (long long i = 1; i <= s->last; i++) {
		const struct moment *m = &s->moments[i - 1];

		fresh |= strcmp(m->event, "state_changed") == 0 && strcmp(m->to, "RUNNING") == 0;
		if (strcmp(m->event, "checkpoint_created") == 0 && m->number > 0)
			saved = m->number;
		if (strcmp(m->event, "progress") != 0 || m->number <= 0)
			continue;
		if (m->number != count + 1 && !(fresh && m->number == saved + 1))
			violation("goes on from its checkpoint",
				"%s counts %lld at %lld, after %lld, with %lld saved", s->session, m->number,
				i, count, saved);
		count = m->number;
		fresh = false;
	}
}

/* A death that is not the end: PAUSED at once, and no more of them than there are attempts. */
static void check_deaths(const struct stream *s)
{
	const char *state = "";
	int deaths = 0;

	for (long long i = 1; i <= s->last; i++) {
		const struct moment *m = &s->moments[i - 1];

		if (m->is_death && strcmp(state, "RUNNING") == 0 && i < s->last &&
			strcmp(s->moments[i].to, "PAUSED") != 0)
			violation("attempts", "the worker of %s died at %lld, and %s follows", s->session, i,
				s->moments[i].event);
		deaths += m->is_death;
		if (m->to[0])
			state = m->to;
	}
	if (s->attempts > 0 && deaths >= s->attempts)
		violation("attempts",
			"the worker of %s died %d times and was started again; %d attempts it has",
			s->session, deaths, s->attempts);
}

/* The messages in the order of their numbers. Their order of arrival is checked when they are taken. */
void stream_check(const struct stream *s, bool must_be_closed)
{
	struct oracle_stream o = {
		.session = s->session, .on_violation = violation_of_rule, .any_order = true};
	struct oracle_message m = {"task_accepted", "", 0, "", ""};
	bool is_whole = true;

	if (s->accepted)
		oracle_stream_take(&o, &m);
	m.type = "event";
	for (long long i = 1; i <= s->last; i++) {
		const struct moment *at = &s->moments[i - 1];

		if (!at->hash) { /* a gap, which the next event shows */
			is_whole = false;
			continue;
		}
		m.event_type = at->event;
		m.sequence = i;
		m.from = at->from;
		m.to = at->to;
		oracle_stream_take(&o, &m);
	}
	if (s->result) {
		m = (struct oracle_message){
			s->result_is_good ? "task_completed" : "task_failed", "", 0, "", ""};
		oracle_stream_take(&o, &m);
	}
	oracle_stream_end(&o, must_be_closed);
	if (s->last == 0 && !s->accepted)
		violation("each submit answered", "%s has a result but no task_accepted", s->session);
	if (is_whole) {
		check_count(s);
		check_deaths(s);
	}
}
