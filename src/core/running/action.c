/* action.c: actions that workers announce.
 * Owns the memory of what was refused. Never knows a limit (envelope.c), never ends a process (run.c). */
#include "core/running/action.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/turn.h"
#include "base/crashpoint.h"
#include "policy/envelope.h"
#include "core/running/run.h"
#include "protocol/worker_line.h"

#define REFUSALS_MAX 64 /* of an attempt: who asks for more is feeling for the limit */
#define NAME_SHOWN 120
#define UNWRITTEN_MAX (1 << 20) /* bytes that wait for the worker to read its stdin */

struct refusals {
	unsigned count;
	char hashes[REFUSALS_MAX][CANON_HASH_SIZE];
};

void action_forget(struct session *s)
{
	free(s->refusals);
	s->refusals = NULL;
}

/* Two announcements are the same action where name and parameters are the same values, however they are
 * written. */
static void hash_action(const struct wline *l, char hash[CANON_HASH_SIZE])
{
	const json_t *parameters = wline_get(l, "parameters");
	struct buf b = {0};

	canon_add(&b, wline_get(l, "name"));
	if (parameters != NULL)
		canon_add(&b, parameters);
	canon_hash_bytes(b.data, b.size, hash);
	buf_fini(&b);
}

/* Remembers the refusal. NULL, or why this is one too many. */
static const char *note_refusal(struct session *s, const struct wline *l)
{
	char hash[CANON_HASH_SIZE];

	hash_action(l, hash);
	if (s->refusals == NULL)
		s->refusals = xcalloc(1, sizeof *s->refusals);
	for (unsigned i = 0; i < s->refusals->count; i++)
		if (strcmp(s->refusals->hashes[i], hash) == 0)
			return "it was announced again after it was refused";
	if (s->refusals->count == REFUSALS_MAX)
		return "too many actions were refused";
	memcpy(s->refusals->hashes[s->refusals->count++], hash, sizeof hash);
	return NULL;
}

static void answer(struct session *s, const struct wline *l, bool allowed, const char *reason)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"type\":\"action_verdict\",\"ref\":");
	wline_add_raw(l, &b, "ref", "null");
	buf_addf(&b, ",\"allowed\":%s,\"reason\":", allowed ? "true" : "false");
	if (reason != NULL)
		buf_add_json(&b, reason, strlen(reason));
	else
		buf_add_text(&b, "null");
	buf_add_text(&b, "}");
	if (worker_unwritten(run_worker(s)) < UNWRITTEN_MAX) /* one that does not listen is told no more */
		effect_line(s, b.data, b.size);
	buf_fini(&b);
}

/* For the audit. A worker may announce at any rate: what is refused is counted with its session; an end is
 * one. */
static void note(struct session *s, const char *outcome, const char *code, const char *name,
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
	note(s, "ended", "safety_violation", name, before, between, breach->message);
	CRASH_POINT(action_violation);
	run_conclude(s);
	buf_fini(&details);
}

void action_announced(struct session *s, const struct wline *l)
{
	const char *name = wline_string(l, "name", ""), *why = NULL;
	struct envelope_breach breach = {.message = ""};
	enum envelope_verdict verdict =
		envelope_check_action(s->cap->envelope, name, wline_get(l, "parameters"), &breach);

	CRASH_POINT(action_announced);
	if (verdict == ENVELOPE_INSIDE) {
		answer(s, l, true, NULL); /* also on its way out: to make things safe is an action, too */
		return;
	}
	answer(s, l, false, breach.message);
	if (session_has_outcome(s)) {
		note(s, "refused", "action_refused", name, "", "", breach.message);
		return;
	}
	if (verdict == ENVELOPE_OUTSIDE)
		why = note_refusal(s, l);
	if (verdict == ENVELOPE_VIOLATED || why != NULL) {
		end_for(s, name, &breach, why);
		return;
	}
	session_risk_event(s, "action_refused", "action %.*s was refused: %s",
		(int)buf_utf8_cut(name, strlen(name), NAME_SHOWN), name, breach.message);
	note(s, "refused", "action_refused", name, "", "", breach.message);
	CRASH_POINT(action_refused);
}

void action_unreadable(struct session *s, const struct wline *l, const char *why)
{
	answer(s, l, false, why);
	note(s, "refused", "action_unreadable", wline_string(l, "name", ""), "", "", why);
}
