/* SPDX-License-Identifier: MIT */
/* action.c: actions that workers announce.
 * Owns the memory of refused actions, and of those that wait for a checkpoint. Never knows a limit
 * (envelope.c), never ends a process (run.c). */
#include "core/running/action.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "policy/envelope.h"
#include "core/running/run.h"
#include "protocol/worker_line.h"

#define REFUSALS_MAX 64 /* of an attempt: a worker with more refusals is searching for the limit */
#define NAME_SHOWN 120
#define UNWRITTEN_MAX (1 << 20)   /* bytes that wait for the worker to read its stdin */
#define HELD_MAX 64               /* actions of a session that wait for a checkpoint ... */
#define HELD_US INT64_C(60000000) /* ... and for how long */

struct refusals {
	unsigned count;
	char hashes[REFUSALS_MAX][CANONICAL_HASH_SIZE];
};

#define NOT_SAVED \
	"checkpoint_before_action: no resumable checkpoint was stored before it; write one when " \
	"checkpoint_request comes, and announce the action again"

struct held_actions { /* allowed, once a checkpoint has all that the worker did before */
	struct session *session;
	struct timer late;
	unsigned count;
	struct buf refs[HELD_MAX]; /* JSON */
};

void action_forget(struct session *s)
{
	struct held_actions *held = s->run.held_actions;

	free(s->run.refusals);
	s->run.refusals = NULL;
	s->run.held_actions = NULL;
	if (held == NULL)
		return;
	timer_cancel(&s->core->timers, &held->late);
	for (unsigned i = 0; i < held->count; i++)
		buf_fini(&held->refs[i]);
	free(held);
}

/* Two announcements are the same action where name and parameters have the same values, in any spelling. */
static void hash_action(const struct worker_line *l, char hash[CANONICAL_HASH_SIZE])
{
	const json_t *parameters = worker_line_get(l, "parameters");
	struct buf b = {0};

	canonical_add(&b, worker_line_get(l, "name"));
	if (parameters != NULL)
		canonical_add(&b, parameters);
	canonical_hash_bytes(b.data, b.size, hash);
	buf_fini(&b);
}

/* Remembers the refusal. NULL, or why this refusal ends the session. */
static const char *remember_refusal(struct session *s, const struct worker_line *l)
{
	char hash[CANONICAL_HASH_SIZE];

	hash_action(l, hash);
	if (s->run.refusals == NULL)
		s->run.refusals = xcalloc(1, sizeof *s->run.refusals);
	for (unsigned i = 0; i < s->run.refusals->count; i++)
		if (strcmp(s->run.refusals->hashes[i], hash) == 0)
			return "it was announced again after it was refused";
	if (s->run.refusals->count == REFUSALS_MAX)
		return "too many actions were refused";
	memcpy(s->run.refusals->hashes[s->run.refusals->count++], hash, sizeof hash);
	return NULL;
}

static void answer_ref(struct session *s, const struct buf *ref, bool allowed, const char *reason)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"type\":\"action_verdict\",\"ref\":");
	buf_add(&b, ref->data, ref->size);
	buf_addf(&b, ",\"allowed\":%s,\"reason\":", allowed ? "true" : "false");
	if (reason != NULL)
		buf_add_json(&b, reason, strlen(reason));
	else
		buf_add_text(&b, "null");
	buf_add_text(&b, "}");
	if (worker_unwritten(run_worker(s)) <
		UNWRITTEN_MAX) /* a worker that does not read its stdin gets no more lines */
		effect_line(s, b.data, b.size);
	buf_fini(&b);
}

static void answer(struct session *s, const struct worker_line *l, bool allowed, const char *reason)
{
	struct buf ref = {0};

	worker_line_add_raw(l, &ref, "ref", "null");
	answer_ref(s, &ref, allowed, reason);
	buf_fini(&ref);
}

/* ---- waiting for a checkpoint ---- */

static void answer_held(struct session *s, bool allowed, const char *reason)
{
	struct held_actions *held = s->run.held_actions;

	timer_cancel(&s->core->timers, &held->late);
	for (unsigned i = 0; i < held->count; i++) {
		if (run_worker(s) != NULL)
			answer_ref(s, &held->refs[i], allowed, reason);
		buf_fini(&held->refs[i]);
	}
	held->count = 0;
}

static void on_late(struct timer *t)
{
	struct held_actions *held = container_of(t, struct held_actions, late);

	log_info("an action was refused, no checkpoint came before it: session=%.8s capability=%s count=%u",
		held->session->id, held->session->capability, held->count);
	answer_held(held->session, false, NOT_SAVED);
}

/* Is all that the worker did before this action in a checkpoint, or need it not be? At the end of a session
 * no checkpoint is stored any more. */
static bool is_safe(const struct session *s)
{
	return !s->run.cap->config->checkpoint_before_action || s->checkpoint.is_saved ||
		session_has_outcome(s);
}

static void hold(struct session *s, const struct worker_line *l)
{
	struct held_actions *held = s->run.held_actions;

	if (held == NULL) {
		held = s->run.held_actions = xcalloc(1, sizeof *held);
		held->session = s;
		held->late.on_due = on_late;
	}
	if (held->count == HELD_MAX) {
		answer(s, l, false, "checkpoint_before_action: too many actions wait for a checkpoint");
		return;
	}
	held->refs[held->count] = (struct buf){0};
	worker_line_add_raw(l, &held->refs[held->count++], "ref", "null");
	if (!timer_is_set(&held->late))
		timer_set(&s->core->timers, &held->late, clock_boot_us() + HELD_US);
	checkpoint_request_send(s, CHECKPOINT_BY_ACTION);
	CRASH_POINT(action_held);
}

void action_on_checkpoint(struct session *s)
{
	if (s->run.held_actions == NULL || s->run.held_actions->count == 0)
		return;
	CRASH_POINT(action_let_go);
	answer_held(s, s->checkpoint.is_saved, s->checkpoint.is_saved ? NULL : NOT_SAVED);
}

/* ---- announcements ---- */

/* Puts the action into the audit. Refusals can come at any rate, so they are counted by session; an end
 * happens once. */
static void audit_action(struct session *s, const char *outcome, const char *code, const char *name,
	const char *before, const char *between, const char *message)
{
	struct audit_entry row = {.what = "action",
		.outcome = outcome,
		.who = "worker",
		.session = s->id,
		.capability = s->capability,
		.risk = risk_names[s->risk],
		.code = code};
	struct buf why = {0};

	buf_addf(&why, "%.*s: %s%s%s", (int)buf_utf8_cut(name, strlen(name), NAME_SHOWN), name, before,
		between, message);
	row.why = buf_text(&why);
	if (strcmp(outcome, "refused") == 0)
		audit_put_refusal(s->core, &row, s->id);
	else
		audit_put(s->core, &row);
	buf_fini(&why);
}

static void end_for(
	struct session *s, const char *name, const struct envelope_breach *breach, const char *why)
{
	struct buf details = {0};
	const char *before = why != NULL ? why : "", *between = why != NULL ? ": " : "";

	buf_add_text(&details, "\"action\":");
	buf_add_json(&details, name, buf_utf8_cut(name, strlen(name), NAME_SHOWN));
	buf_add_text(&details, ",\"limit\":");
	buf_add_json(&details, breach->where, strlen(breach->where));
	session_risk_event(s, "safety_violation", "action %.*s: %s%s%s",
		(int)buf_utf8_cut(name, strlen(name), NAME_SHOWN), name, before, between, breach->message);
	session_fail(s, "safety_violation", "safety_violation", "daemon", buf_text(&details),
		"the worker announced the action %.*s outside its safety envelope: %s%s%s",
		(int)buf_utf8_cut(name, strlen(name), NAME_SHOWN), name, before, between, breach->message);
	audit_action(s, "ended", "safety_violation", name, before, between, breach->message);
	CRASH_POINT(action_violation);
	run_stop_or_finish(s);
	buf_fini(&details);
}

void action_announced(struct session *s, const struct worker_line *l)
{
	const char *name = worker_line_string(l, "name", ""), *why = NULL;
	struct envelope_breach breach = {.message = ""};
	enum envelope_result result =
		envelope_check_action(s->run.cap->envelope, name, worker_line_get(l, "parameters"), &breach);

	CRASH_POINT(action_announced);
	if (result == ENVELOPE_INSIDE && !is_safe(s)) {
		hold(s, l);
		return;
	}
	if (result == ENVELOPE_INSIDE) {
		/* also while it is ending: making things safe is an action, too */
		answer(s, l, true, NULL);
		return;
	}
	answer(s, l, false, breach.message);
	if (session_has_outcome(s)) {
		audit_action(s, "refused", "action_refused", name, "", "", breach.message);
		return;
	}
	if (result == ENVELOPE_OUTSIDE)
		why = remember_refusal(s, l);
	if (result == ENVELOPE_VIOLATED || why != NULL) {
		end_for(s, name, &breach, why);
		return;
	}
	session_risk_event(s, "action_refused", "action %.*s was refused: %s",
		(int)buf_utf8_cut(name, strlen(name), NAME_SHOWN), name, breach.message);
	audit_action(s, "refused", "action_refused", name, "", "", breach.message);
	CRASH_POINT(action_refused);
}

void action_unreadable(struct session *s, const struct worker_line *l, const char *why)
{
	answer(s, l, false, why);
	audit_action(s, "refused", "action_unreadable", worker_line_string(l, "name", ""), "", "", why);
}
