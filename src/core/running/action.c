/* SPDX-License-Identifier: MIT */
/* action.c: actions that workers announce.
 * Owns the memory of refused actions. Never knows a limit (envelope.c), never ends a process (run.c). */
#include "core/running/action.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/turn.h"
#include "base/crashpoint.h"
#include "policy/envelope.h"
#include "core/running/run.h"
#include "protocol/worker_line.h"

#define REFUSALS_MAX 64 /* of an attempt: a worker with more refusals is searching for the limit */
#define NAME_SHOWN 120
#define UNWRITTEN_MAX (1 << 20) /* bytes that wait for the worker to read its stdin */

struct refusals {
	unsigned count;
	char hashes[REFUSALS_MAX][CANONICAL_HASH_SIZE];
};

void action_forget(struct session *s)
{
	free(s->run.refusals);
	s->run.refusals = NULL;
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

static void answer(struct session *s, const struct worker_line *l, bool allowed, const char *reason)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"type\":\"action_verdict\",\"ref\":");
	worker_line_add_raw(l, &b, "ref", "null");
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
