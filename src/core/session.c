/* SPDX-License-Identifier: MIT */
/* session.c: the state machine, the row and the event stream of a session.
 * Owns every change of a state and every sequence number. Never touches a process (run.c) and never decides
 * whether a task may run (gate.c). The beginning is in session_new.c, the end in session_end.c. */
#include "core/session_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/run.h"
#include "core/running/harp_events.h"

#define WARNINGS_MAX 50  /* warnings in the summary, each of ... */
#define WARNING_SIZE 200 /* ... at most so many bytes */

/* The row has NULL for the first name of both lists. */
const char *const session_paused_names[PAUSED_COUNT + 1] = {
	[PAUSED_FOR_SLOT] = "",
	[PAUSED_BY_CRASH] = "crash",
	[PAUSED_BY_STOP] = "stop",
	[PAUSED_BY_WORKER] = "worker",
	[PAUSED_BY_OPERATOR] = "operator",
	[PAUSED_BY_RETRY] = "retry",
	[PAUSED_BY_IDLE] = "idle",
};

const char *const session_waits_names[WAITS_COUNT + 1] = {
	[WAITS_NOT] = "",
	[WAITS_FOR_HUMAN] = "human",
	[WAITS_FOR_PROGRAM] = "program",
};

#define TO(s) (1u << (s))
static const uint8_t may_go[S_COUNT] = {
	/* no row: terminal */
	[S_PENDING] = TO(S_RUNNING) | TO(S_REJECTED),
	[S_RUNNING] = TO(S_PAUSED) | TO(S_ABORTING) | TO(S_COMPLETED) | TO(S_FAILED),
	[S_PAUSED] = TO(S_RUNNING) | TO(S_ABORTING),
	[S_ABORTING] = TO(S_ABORTED),
};
_Static_assert(S_COUNT <= 8, "may_go is a byte wide");

bool session_may(enum sstate from, enum sstate to)
{
	return from < S_COUNT && to < S_COUNT && (may_go[from] & TO(to)) != 0;
}

bool session_is_over(enum sstate s)
{
	return may_go[s] == 0;
}

/* ---- the row ---- */

void session_fill_row(const struct session *s, struct store_session *row, struct row_texts *t)
{
	clock_format(s->times.created_us, t->created);
	clock_format(s->times.updated_us, t->updated);
	if (s->times.started_us != 0)
		clock_format(s->times.started_us, t->started);
	if (s->times.deadline_us != 0)
		clock_format(s->times.deadline_us, t->deadline);
	*row = (struct store_session){
		.key = s->key,
		.session_id = s->id,
		.caller_id = s->caller_id,
		.capability = s->capability,
		.capability_version = s->capability_version,
		.state = sstate_names[s->state],
		.state_version = s->state_version,
		.risk_level = risk_names[s->risk],
		.data_classification = data_class_names[s->data_class],
		.priority = priority_names[s->priority],
		.session_token = s->token,
		.created_at = t->created,
		.updated_at = t->updated,
		.started_at = s->times.started_us != 0 ? t->started : NULL,
		.deadline = s->times.deadline_us != 0 ? t->deadline : NULL,
		.max_duration_us = s->times.max_duration_us,
		.attempt = s->attempts.number,
		.paused_by = s->pause.by != PAUSED_FOR_SLOT ? session_paused_names[s->pause.by] : NULL,
		.steps = s->summary.steps,
		.step = s->summary.step,
		.checkpoints = s->summary.checkpoints,
		.tokens_in = s->summary.tokens_in,
		.tokens_out = s->summary.tokens_out,
		.cost = s->summary.cost,
		.waits_for = s->admission.waits_for != WAITS_NOT ?
			session_waits_names[s->admission.waits_for] :
			NULL,
		.message_id = s->admission.message_id,
		.seal = s->intent.seal[0] != '\0' ? s->intent.seal : NULL,
		.token_revoked = s->token_revoked,
		.harp = s->harp_session.is_on,
		.deaths = s->attempts.deaths,
		.recover_as =
			s->pause.recover_as != RECOVERY_NONE ? recovery_names[s->pause.recover_as] : NULL,
		.checkpoint_of = s->pins.checkpoint_of[0] != '\0' ? s->pins.checkpoint_of : NULL,
		.continues = s->pins.continues[0] != '\0' ? s->pins.continues : NULL,
	};
}

void session_mark_dirty(struct session *s)
{
	if (s->turn.is_dirty)
		return;
	s->turn.is_dirty = true;
	s->turn.dirty_next = s->core->turn.dirty;
	s->core->turn.dirty = s;
}

static const char *list_text(struct buf *to, const struct buf *texts)
{
	buf_clear(to);
	buf_add_text(to, "[");
	buf_add(to, texts->data, texts->size);
	buf_add_text(to, "]");
	return buf_text(to);
}

void sessions_save_dirty(struct core *c)
{
	struct session *s, *next;
	struct store_session row;
	struct row_texts t = {.warnings = {0}, .risk_events = {0}};

	for (s = c->turn.dirty; s != NULL; s = next) {
		next = s->turn.dirty_next;
		session_fill_row(s, &row, &t);
		row.warnings = list_text(&t.warnings, &s->summary.warnings);
		row.risk_events = list_text(&t.risk_events, &s->summary.risk_events);
		store_save_session(c->store, &row);
		if (!s->turn.is_closed)
			session_save_outcome(s);
		s->turn.is_dirty = false;
	}
	c->turn.dirty = NULL;
	buf_fini(&t.warnings);
	buf_fini(&t.risk_events);
}

/* ---- the stream ---- */

/* Stores the finished message in turn.scratch and clears the buffer. */
int64_t session_put_message(struct session *s, const char *type, const char *event_type, int64_t sequence)
{
	struct core *c = s->core;
	struct store_event e = {
		.session = s->key,
		.session_id = s->id,
		.type = type,
		.sequence = sequence,
		.event_type = event_type,
		.body = blob_new(c->turn.scratch.data, c->turn.scratch.size),
	};
	int64_t id = outbox_put(c->outbox, s->outbox.caller, &e);

	s->outbox.waiting_bytes += e.body->size;
	blob_unref(e.body);
	buf_clear(&c->turn.scratch);
	run_check_backlog(s);
	return id;
}

void session_begin_message(struct session *s, const char *type)
{
	buf_clear(&s->core->turn.scratch);
	message_begin(&s->core->turn.scratch, s->id, type);
}

struct buf *session_begin_event(struct session *s, const char *event_type)
{
	struct buf *b = &s->core->turn.scratch;

	assert(!s->turn.is_closed);
	session_begin_message(s, TYPE_EVENT);
	buf_add_text(b, "{\"event_type\":\"");
	buf_add_text(b, event_type);
	buf_add_text(b, "\",\"sequence\":");
	buf_add_int(b, s->sequence + 1);
	buf_add_text(b, ",\"data\":");
	return b;
}

bool session_end_event(struct session *s, const char *event_type)
{
	struct buf *b = &s->core->turn.scratch;

	buf_add_text(b, "}");
	message_end(b);
	if ((int64_t)b->size > s->core->first_policy->config->max_message) {
		session_warn(s, "event_too_large", "a %s event of %zu bytes was dropped; %lld is the limit",
			event_type, b->size, (long long)s->core->first_policy->config->max_message);
		return false;
	}
	s->sequence++;
	session_put_message(s, TYPE_EVENT, event_type, s->sequence);
	return true;
}

bool session_event(struct session *s, const char *event_type, const char *data, size_t size)
{
	buf_add(session_begin_event(s, event_type), data, size);
	return session_end_event(s, event_type);
}

void session_add_text(struct buf *list, unsigned *count, const char *text, size_t size)
{
	if ((*count)++ >= WARNINGS_MAX)
		return;
	if (list->size > 0)
		buf_add_text(list, ",");
	buf_add_json(list, text, buf_utf8_cut(text, size, WARNING_SIZE));
}

void session_record_warning(struct session *s, const char *text)
{
	/* The end is decided: the size of the last message was checked, so nothing may be added. */
	if (session_has_outcome(s))
		return;
	session_add_text(&s->summary.warnings, &s->summary.warning_count, text, strlen(text));
	session_mark_dirty(s);
}

static void warning_event(struct session *s, const char *code, const char *text, const char *details)
{
	struct buf *b = session_begin_event(s, "warning");

	buf_addf(b, "{\"code\":\"%s\",\"message\":", code);
	buf_add_json(b, text, strlen(text));
	if (details != NULL)
		buf_addf(b, ",\"details\":%s", details);
	buf_add_text(b, "}");
	session_end_event(s, "warning");
}

void session_warn_details(struct session *s, const char *code, const char *text, const char *details)
{
	warning_event(s, code, text, details);
	session_record_warning(s, text);
}

void session_warn(struct session *s, const char *code, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	warning_event(s, code, text, NULL);
	session_record_warning(s, text);
}

void session_risk_event(struct session *s, const char *code, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	warning_event(s, code, text, NULL);
	if (session_has_outcome(s))
		return; /* as in session_record_warning */
	session_add_text(&s->summary.risk_events, &s->summary.risk_event_count, text, strlen(text));
	session_mark_dirty(s);
}

/* ---- states ---- */

static void put_state_changed(struct session *s, enum sstate from, const char *reason)
{
	struct buf *b = session_begin_event(s, "state_changed");

	buf_addf(b, "{\"from_state\":\"%s\",\"to_state\":\"%s\",\"reason\":", sstate_names[from],
		sstate_names[s->state]);
	buf_add_json(b, reason, strlen(reason));
	buf_add_text(b, "}");
	session_end_event(s, "state_changed");
}

bool session_transition(struct session *s, enum sstate to, const char *reason, const char *actor)
{
	enum sstate from = s->state;
	struct store_session row;
	struct row_texts t;

	if (!session_may(from, to)) {
		log_error(
			"refused an illegal transition, nothing changed: session=%.8s from=%s to=%s "
			"reason=%s",
			s->id, sstate_names[from], to < S_COUNT ? sstate_names[to] : "?", reason);
		return false;
	}
	s->state = to;
	s->state_version++;
	s->times.updated_us = clock_wall_us();
	if (to == S_PAUSED)
		s->times.rest_began_us = s->times.updated_us;
	else if (from == S_PAUSED)
		s->times.rested_us = s->times.updated_us - s->times.rest_began_us;
	if (to != S_PAUSED) {
		s->pause.by = PAUSED_FOR_SLOT;
		s->pause.recover_as = RECOVERY_NONE;
	}
	session_fill_row(s, &row, &t);
	store_put_transition(s->core->store, &row, sstate_names[from], reason, actor);
	CRASH_POINT(session_transition);
	session_mark_dirty(s);
	run_watch_pause(s);
	if (s->admission.waits_for != WAITS_NOT)
		return true; /* its caller does not know of the session yet */
	put_state_changed(s, from, reason);
	harp_events_state(s);
	log_at(to == S_RUNNING || session_is_over(to) ? LOG_LVL_DEBUG : LOG_LVL_INFO,
		"session %s: session=%.8s from=%s reason=%s version=%lld", sstate_names[to], s->id,
		sstate_names[from], reason, (long long)s->state_version);
	return true;
}

bool session_run(struct session *s, const char *reason, const char *actor)
{
	if (!session_transition(s, S_RUNNING, reason, actor))
		return false;
	if (s->times.started_us == 0) {
		s->times.started_us = s->times.updated_us;
		s->times.deadline_us = s->times.started_us + s->times.max_duration_us;
	}
	return true;
}
