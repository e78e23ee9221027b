/* operate.c: what an operator may do to sessions and to the daemon, a handler a verb.
 * Owns the answers, and the table of verbs. Never waits for a worker (operate_pause.c). Knows no socket
 * (control.c). */
#include "core/operator/operator_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/control.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/duration.h"
#include "base/log.h"
#include "core/admission/approval.h"
#include "core/running/run.h"

#define CHOICE_SIZE 96

/* ---- asks ---- */

struct ask *ask_new(enum ask_verb verb)
{
	struct ask *a = xcalloc(1, sizeof *a);

	a->verb = verb;
	a->from = 1;
	return a;
}

void ask_free(struct ask *a)
{
	if (a == NULL)
		return;
	free(a->reason);
	free(a->decision);
	free(a->token);
	buf_fini(&a->item);
	buf_fini(&a->done);
	free(a);
}

void ask_refuse(struct ask *a, const char *code, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	a->code = code;
	va_start(ap, fmt);
	vsnprintf(a->message, sizeof a->message, fmt, ap);
	va_end(ap);
	snprintf(a->remedy, sizeof a->remedy, "%s", remedy);
}

void operate_say_state(struct ask *a, const struct session *s)
{
	buf_addf(&a->done, ",\"session\":\"%s\",\"state\":\"%s\"", s->id, sstate_names[s->state]);
}

/* ---- verbs on a session that is not over ---- */

static void do_abort(struct session *s, struct ask *a)
{
	bool again = s->state == S_ABORTING;

	CRASH_POINT(operate_abort);
	s->core->stats.aborts++;
	if (s->waits_for != WAITS_NOT) {
		review_cancel(s, a->reason);
		operate_say_state(a, s);
		return;
	}
	if (!run_abort(s, "aborted_by_operator", "operator", a->reason) && !again)
		ask_refuse(a, "not_now", "wait for its end", "the end of session %.8s was decided before: %s",
			s->id, sstate_names[s->outcome.state]);
	else
		operate_say_state(a, s);
}

/* From now on it proves nothing; who it was given to is not told, since whoever has it by now would hear it
 * too. */
static void do_revoke_token(struct session *s, struct ask *a)
{
	if (s->token[0] == '\0') {
		ask_refuse(a, "not_now", "deny it instead",
			"session %.8s is not accepted yet, and has no token", s->id);
		return;
	}
	s->token_revoked = true;
	session_mark_dirty(s);
	CRASH_POINT(operate_token_revoked);
	operate_say_state(a, s);
}

static void do_live(struct session *s, struct ask *a)
{
	const struct worker *w = run_worker(s);

	a->has_live = true;
	a->live = (struct ask_live){
		.pid = w != NULL && !worker_has_exited(w) ? worker_pid(w) : 0,
		.reads = !s->is_unread,
		.waits = s->is_waiting,
		.migrates = s->migration != NULL,
		.idle_us = w != NULL ? clock_boot_us() - s->active_us : 0,
		.outbox_bytes = s->waiting_bytes,
	};
	operate_look_asked(s, &a->live);
}

/* ---- verbs on the store, and on the daemon ---- */

static bool do_replay(struct core *c, struct ask *a)
{
	struct store_replay r = {.session = 0};
	int found = store_find_replay(c->store, a->session_id, a->from, &r);
	struct addressee *to;

	if (found < 0)
		return false;
	if (found == 0) {
		ask_refuse(a, "not_found", "see list", "there is no session %.36s", a->session_id);
		return true;
	}
	if ((to = outbox_addressee(c->outbox, r.caller_id)) == NULL)
		return false;
	CRASH_POINT(operate_replay);
	if (r.count > 0 && !outbox_replay(c->outbox, to, r.session, r.first - 1, r.last))
		ask_refuse(a, "unavailable", "ask again when those are done",
			"16 replays to caller %s are waiting already", r.caller_id);
	else
		buf_addf(&a->done, ",\"session\":\"%s\",\"state\":\"%s\",\"messages\":%lld", a->session_id,
			r.state, (long long)r.count);
	return true;
}

static void do_drain(struct core *c, struct ask *a, bool drain)
{
	CRASH_POINT(operate_drain);
	if (c->is_stopping) {
		ask_refuse(a, "not_now", "wait until it runs again", "the daemon is stopping");
		return;
	}
	if (drain != c->is_draining)
		log_warn("%s",
			drain ? "draining: what runs goes on, new tasks are accepted and wait" :
				"no longer draining: what waits starts");
	c->is_draining = drain;
	core_say_status(c);
	buf_addf(&a->done, ",\"draining\":%s", drain ? "true" : "false");
}

static bool is_key_needed(void *ctx, const struct token_key *key)
{
	struct core *c = ctx;
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (!s->is_closed && token_is_of(key, s->token))
			return true;
	return false;
}

/* The new key is on disk before anything is signed with it. No token can outlive the longest that a session
 * may run. */
static void do_rotate_key(struct core *c, struct ask *a)
{
	int64_t now = clock_wall_us(), until = now + c->policy->config->max_duration_us;
	struct session *s, *tmp;
	char why[256];

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (s->updated_us + s->max_duration_us > until)
			until = s->updated_us + s->max_duration_us; /* accepted under a longer one */
	if (token_rotate(c->state_dir, &c->keys, now, until, is_key_needed, c, why, sizeof why) < 0) {
		ask_refuse(a, "unavailable", "the old key signs on; ask again later", "%.200s", why);
		return;
	}
	CRASH_POINT(operate_key_rotated);
	log_warn("session tokens are signed with a new key: kid=%s keys=%zu", c->keys.list[0].kid,
		c->keys.count);
	buf_addf(&a->done, ",\"kid\":\"%s\",\"keys\":%zu", c->keys.list[0].kid, c->keys.count);
}

/* ---- the table ---- */

static const struct {
	const char *name;
	void (*on_session)(struct session *s, struct ask *a); /* NULL: it is no verb of a session in memory */
	bool only_looks;
} verbs[ASK_VERBS] = {
	[ASK_ABORT] = {"abort", do_abort, false},
	[ASK_PAUSE] = {"pause", operate_pause, false},
	[ASK_RESUME] = {"resume", operate_resume, false},
	[ASK_CHECKPOINT] = {"checkpoint", operate_checkpoint, false},
	[ASK_REPLAY] = {"replay", NULL, false},
	[ASK_DRAIN] = {"drain", NULL, false},
	[ASK_REVOKE_TOKEN] = {"revoke_token", do_revoke_token, false},
	[ASK_ROTATE_KEY] = {"rotate_token_key", NULL, false},
	[ASK_UNDRAIN] = {"undrain", NULL, false},
	[ASK_STATS] = {"stats", NULL, true},
	[ASK_LIVE] = {"live", do_live, true},
	[ASK_RECOVER] = {"recover", operate_recover, false},
	[ASK_EXTEND] = {"extend", operate_extend, false},
	[ASK_DECIDE] = {"decide", NULL, false},
	[ASK_APPROVERS] = {"approvers", NULL, true},
};

const char *ask_name(enum ask_verb verb)
{
	return verbs[verb].name;
}

bool operate_only_looks(enum ask_verb verb)
{
	return verbs[verb].only_looks;
}

static bool on_session(struct core *c, struct ask *a)
{
	struct session *s = session_find(c, a->session_id);
	char state[16] = "";
	int found = 1;

	if (s != NULL && !s->is_closed) {
		verbs[a->verb].on_session(s, a);
		return true;
	}
	if (s != NULL)
		snprintf(state, sizeof state, "%s", sstate_names[s->state]);
	else if ((found = store_find_session(c->store, a->session_id, state)) < 0)
		return false;
	if (found == 0)
		ask_refuse(a, "not_found", "see list", "there is no session %.36s", a->session_id);
	else
		ask_refuse(a, "not_now", "see what came of it with show", "session %.8s has ended: %s",
			a->session_id, state);
	return true;
}

static bool act(struct core *c, struct ask *a)
{
	switch (a->verb) {
	case ASK_REPLAY: return do_replay(c, a);
	case ASK_DRAIN:
	case ASK_UNDRAIN: do_drain(c, a, a->verb == ASK_DRAIN); return true;
	case ASK_ROTATE_KEY: do_rotate_key(c, a); return true;
	case ASK_STATS: operate_stats(c, a); return true;
	case ASK_DECIDE: return review_decide(c, a);
	case ASK_APPROVERS: review_list_approvers(c, a); return true;
	default: return on_session(c, a);
	}
}

/* What he chose besides the session: "how=discard"; "" where the verb has no choice. */
static void describe_choice(const struct ask *a, char out[CHOICE_SIZE])
{
	char by[DURATION_TEXT_SIZE];

	out[0] = '\0';
	if (a->verb == ASK_RECOVER)
		snprintf(out, CHOICE_SIZE, "how=%s", a->how);
	if (a->verb == ASK_REPLAY)
		snprintf(out, CHOICE_SIZE, "from=%lld", (long long)a->from);
	if (a->verb == ASK_EXTEND) {
		duration_format(a->by_us > 0 ? a->by_us : 0, by);
		snprintf(out, CHOICE_SIZE, "by=%s%s", by, a->token != NULL ? " with=token" : "");
	}
}

/* What was done, and what was refused: the latter can be asked for at any rate. */
static void note(struct core *c, const struct ask *a, const char *choice)
{
	bool is_signed = a->signer[0] != '\0';
	const struct audit_entry row = {.what = ask_name(a->verb),
		.outcome = a->code != NULL ? "refused" : "done",
		.who = is_signed && a->code != NULL ? a->signer : "operator",
		.has_uid = true,
		.uid = a->uid,
		.user = a->user,
		.session = a->session_id,
		.code = a->code,
		.why = a->code != NULL ? a->message : a->reason,
		.about = is_signed && a->code != NULL ? "who is as the decision names its signer" : choice};

	CRASH_POINT(operate_audited);
	if (a->code != NULL)
		audit_put_refusal(c, &row, a->signer);
	else
		audit_put(c, &row);
}

bool operate_take(struct core *c, struct ask *a)
{
	char choice[CHOICE_SIZE];

	if (!act(c, a))
		return false;
	if (operate_only_looks(a->verb)) {
		control_answer(c->control, a);
		return true;
	}
	describe_choice(a, choice);
	log_info("operator: verb=%s session=%.8s%s%s uid=%lld answer=%s%s%s", ask_name(a->verb),
		a->session_id[0] != '\0' ? a->session_id : "-", choice[0] != '\0' ? " " : "", choice,
		(long long)a->uid, a->code != NULL ? a->code : "done", a->reason != NULL ? " why=" : "",
		a->reason != NULL ? a->reason : "");
	note(c, a, choice);
	effect_answer(c, a);
	return true;
}

void operate_note_strangers(struct core *c)
{
	struct control_stranger list[CONTROL_STRANGERS];
	int count = control_take_strangers(c->control, list);

	for (int i = 0; i < count; i++) {
		const struct audit_entry row = {.what = "control",
			.outcome = "refused",
			.who = "stranger",
			.has_uid = true,
			.uid = list[i].uid,
			.user = list[i].user,
			.code = "refused",
			.why = "may not use the control socket",
			.times = list[i].count};

		audit_put_refusal(c, &row, NULL);
	}
}
