/* SPDX-License-Identifier: MIT */
/* session_end.c: the end of a session: the outcome is decided once, stored, and carried out when the
 * session's processes are gone.
 * Owns the last messages of a session. Never ends a process (run.c). session.h has a drawing. */
#include "core/session_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/running/artifacts.h"
#include "core/running/continuity.h"
#include "base/crashpoint.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/text.h"
#include "core/running/worker_messages.h"
#include "core/running/run.h"
#include "core/running/harp_events.h"
#include "core/recovery/restore.h"

#define OUTCOME_DEPTH 2048 /* deeper than any stored outcome: a line's depth is bounded */

/* The next legal step from a state towards a final state. */
static const enum sstate next_step[S_COUNT][S_COUNT] = {
	[S_PENDING] = {[S_COMPLETED] = S_RUNNING, [S_FAILED] = S_RUNNING, [S_ABORTED] = S_RUNNING},
	[S_RUNNING] = {[S_COMPLETED] = S_COMPLETED, [S_FAILED] = S_FAILED, [S_ABORTED] = S_ABORTING},
	[S_PAUSED] = {[S_COMPLETED] = S_RUNNING, [S_FAILED] = S_RUNNING, [S_ABORTED] = S_ABORTING},
	[S_ABORTING] = {[S_ABORTED] = S_ABORTED, [S_COMPLETED] = S_ABORTED, [S_FAILED] = S_ABORTED},
};

bool session_has_outcome(const struct session *s)
{
	return s->outcome.state != S_NONE;
}

bool session_set_outcome(struct session *s, enum sstate state, const char *reason, const char *actor,
	const char *payload, size_t size)
{
	struct outcome *o = &s->outcome;

	if (session_has_outcome(s))
		return false;
	o->state = state;
	o->actor = actor;
	text_copy(o->reason, sizeof o->reason, reason);
	if (payload != NULL) {
		assert(size >= 2 && payload[size - 1] == '}');
		o->payload_size = size - 1;
		o->payload = xstrndup(payload, o->payload_size);
	}
	return true;
}

void session_add_details(const struct session *s, struct buf *b, const char *phase)
{
	buf_addf(b, "\"phase\":\"%s\",\"step\":", phase);
	if (s->summary.step != NULL)
		buf_add_json(b, s->summary.step, strlen(s->summary.step));
	else
		buf_add_text(b, "null");
	if (s->checkpoint.last_id[0] != '\0')
		buf_addf(b, ",\"last_checkpoint\":\"%s\",\"recoverable\":true", s->checkpoint.last_id);
	else
		buf_add_text(b, ",\"last_checkpoint\":null,\"recoverable\":false");
}

bool session_fail(struct session *s, const char *reason, const char *error_code, const char *actor,
	const char *details, const char *fmt, ...)
{
	char message[1024];
	struct buf b = {0};
	va_list ap;
	bool first;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	buf_addf(&b, "{\"error_code\":\"%s\",\"error_message\":", error_code);
	buf_add_json(&b, message, strlen(message));
	buf_add_text(&b, ",\"error_details\":{");
	session_add_details(s, &b, s->run.runner != NULL ? "execution" : "start");
	if (details != NULL) {
		buf_add_text(&b, ",");
		buf_add_text(&b, details);
	}
	buf_add_text(&b, "},\"partial_outputs\":{}}");
	first = session_set_outcome(s, S_FAILED, reason, actor, b.data, b.size);
	buf_fini(&b);
	if (first)
		log_warn("session will fail: session=%.8s code=%s why=%s", s->id, error_code, message);
	return first;
}

/* What goes into a result, beside the payload. */
enum fullness { WITH_ALL, WITHOUT_WARNINGS, WITHOUT_ARTIFACTS };

static void add_summary(struct session *s, struct buf *b, enum fullness how)
{
	char took[DURATION_TEXT_SIZE];
	int64_t us = s->times.started_us != 0 ? s->times.updated_us - s->times.started_us : 0;

	duration_format(us > 0 ? us : 0, took);
	buf_add_text(b, ",\"artifacts\":");
	if (how < WITHOUT_ARTIFACTS)
		artifacts_add_list(s, b);
	else
		buf_add_text(b, "[]");
	buf_addf(b,
		",\"execution_summary\":{\"duration\":\"%s\",\"steps_executed\":%lld,"
		"\"checkpoints_created\":%lld,\"risk_events\":[",
		took, (long long)s->summary.steps, (long long)s->summary.checkpoints);
	if (how < WITHOUT_ARTIFACTS)
		buf_add(b, s->summary.risk_events.data, s->summary.risk_events.size);
	buf_add_text(b, "],\"warnings\":[");
	if (how < WITHOUT_WARNINGS)
		buf_add(b, s->summary.warnings.data, s->summary.warnings.size);
	buf_add_text(b, "]}}");
}

static void compose_result(struct session *s, const char *type, enum fullness how)
{
	struct buf *b = &s->core->turn.scratch;

	session_begin_message(s, type);
	buf_add(b, s->outcome.payload, s->outcome.payload_size);
	add_summary(s, b, how);
	message_end(b);
}

/* A failure that the daemon composed (a death, with the end of stderr) was not measured before. Where its
 * message is too large, its warnings are left out, then its artifacts, which can still be listed. */
static void put_result(struct session *s)
{
	const char *type = s->outcome.state == S_COMPLETED ? TYPE_COMPLETED : TYPE_FAILED;
	int64_t most = s->core->first_policy->config->max_message;

	compose_result(s, type, WITH_ALL);
	if ((int64_t)s->core->turn.scratch.size > most)
		compose_result(s, type, WITHOUT_WARNINGS);
	if ((int64_t)s->core->turn.scratch.size > most)
		compose_result(s, type, WITHOUT_ARTIFACTS);
	session_put_message(s, type, NULL, 0);
}

static void put_closed(struct session *s)
{
	struct buf *b = session_begin_event(s, "session_closed");

	buf_addf(b, "{\"final_state\":\"%s\",\"reason\":", sstate_names[s->state]);
	buf_add_json(b, s->outcome.reason, strlen(s->outcome.reason));
	buf_add_text(b, "}");
	session_end_event(s, "session_closed");
}

/* Publishes session.end. HARP's reason needs the error_code, which is only in the result's payload. */
static void publish_harp_end(struct session *s)
{
	json_t *payload = NULL;
	char why[64];
	struct buf b = {0};

	if (s->harp_session.events != NULL && s->outcome.payload != NULL && s->state == S_FAILED) {
		struct jslice code;

		buf_add(&b, s->outcome.payload, s->outcome.payload_size);
		buf_add_text(&b, "}");
		code = jtext_member(b.data, b.size, "error_code");
		payload = code.at != NULL ? jtext_parse(code.at, code.size, why, sizeof why) : NULL;
	}
	harp_events_end(s, s->outcome.reason, json_string_value(payload));
	json_decref(payload);
	buf_fini(&b);
}

void session_close(struct session *s)
{
	slots_leave(s->core, s);
	s->turn.is_closed = true;
	s->turn.closed_next = s->core->turn.closed;
	s->core->turn.closed = s;
}

void session_finish(struct session *s)
{
	struct core *c = s->core;

	assert(session_has_outcome(s) && s->run.runner == NULL && !s->turn.is_closed);
	restore_drop(s);
	if (artifacts_delay_end(s)) {
		if (s->slot.is_waiting)
			slots_leave(c, s); /* it does not start any more */
		return;                    /* artifacts.c calls session_finish again */
	}
	while (!session_is_over(s->state)) {
		enum sstate to = next_step[s->state][s->outcome.state];

		/* A step on the way has the reason of the end, which shows why the step was taken. */
		if (to == S_RUNNING)
			session_run(s, s->outcome.reason, "daemon");
		else
			session_transition(s, to, s->outcome.reason, s->outcome.actor);
	}
	CRASH_POINT(session_terminal);
	continuity_close(s);
	if (s->outcome.payload != NULL && s->state != S_ABORTED)
		put_result(s);
	CRASH_POINT(session_before_closed);
	publish_harp_end(s);
	put_closed(s);
	worker_message_end_complaints(s);
	log_info("session closed: session=%.8s state=%s reason=%s events=%lld attempt=%lld", s->id,
		sstate_names[s->state], s->outcome.reason, (long long)s->sequence,
		(long long)s->attempts.number);
	if (s->outcome.stored)
		store_drop_outcome(c->store, s->key);
	session_close(s);
}

void sessions_sweep(struct session *closed)
{
	for (struct session *s = closed, *next; s != NULL; s = next) {
		next = s->turn.closed_next;
		CRASH_POINT(session_before_clean_up);
		run_clean_up(s);
		CRASH_POINT(session_cleaned_up);
		session_free(s);
	}
}

/* ---- the outcome in the store ---- */

/* {"state": ..., "reason": ..., "actor": ..., "payload": {...}} */
void session_save_outcome(struct session *s)
{
	struct outcome *o = &s->outcome;
	struct buf b = {0};

	if (o->stored || !session_has_outcome(s))
		return;
	buf_addf(&b,
		"{\"state\":\"%s\",\"reason\":\"%s\",\"actor\":\"%s\",\"payload\":", sstate_names[o->state],
		o->reason, o->actor);
	if (o->payload != NULL)
		buf_add(&b, o->payload, o->payload_size);
	else
		buf_add_text(&b, "{");
	buf_add_text(&b, "}}");
	store_put_outcome(s->core->store, s->key, b.data, b.size);
	CRASH_POINT(session_outcome);
	o->stored = true;
	buf_fini(&b);
}

/* Is this an outcome that session_save_outcome wrote, and that add_summary can append to? */
static bool is_outcome(int state, const char *reason, const json_t *payload, struct jslice raw)
{
	if (reason == NULL || strlen(reason) >= sizeof((struct outcome *)0)->reason ||
		!json_is_object(payload))
		return false;
	if (state == S_ABORTED)
		return true;
	return (state == S_COMPLETED || state == S_FAILED) && raw.at != NULL &&
		json_object_size(payload) > 0 && json_object_get(payload, "artifacts") == NULL &&
		json_object_get(payload, "execution_summary") == NULL;
}

/* The actor that the outcome names; "daemon" in a damaged one. */
static const char *actor_of(const json_t *outcome)
{
	static const char *const actors[] = {"daemon", "worker", "caller", "operator", NULL};
	const char *name = json_string_value(json_object_get(outcome, "actor"));
	int i = name != NULL ? name_find(actors, name) : -1;

	return actors[i >= 0 ? i : 0];
}

int session_load_outcome(struct session *s)
{
	struct buf b = {0};
	json_t *root;
	char why[256];

	int found = store_load_outcome(s->core->store, s->key, &b);

	if (found <= 0) {
		buf_fini(&b);
		return found;
	}
	if (jtext_depth(b.data, b.size) <= OUTCOME_DEPTH &&
		(root = jtext_parse(b.data, b.size, why, sizeof why)) != NULL) {
		const char *name = json_string_value(json_object_get(root, "state"));
		const char *reason = json_string_value(json_object_get(root, "reason"));
		struct jslice raw = jtext_member(b.data, b.size, "payload");
		int state = name != NULL ? name_find(sstate_names, name) : -1;

		if (is_outcome(state, reason, json_object_get(root, "payload"), raw))
			session_set_outcome(s, (enum sstate)state, reason, actor_of(root),
				state == S_ABORTED ? NULL : raw.at, raw.size);
		json_decref(root);
	}
	if (!session_has_outcome(s))
		session_fail(s, "worker_failed", "internal_error", "daemon", NULL,
			"the stored outcome cannot be read");
	s->outcome.stored = true;
	buf_fini(&b);
	return 1;
}
