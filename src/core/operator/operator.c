/* SPDX-License-Identifier: MIT */
/* operator.c: the verbs of operators on sessions and on the daemon, one handler a verb.
 * Owns the answers and the table of verbs. Never waits for a worker (pause.c). Never uses a socket
 * (control/). */
#include "core/operator/operator_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/op_queue.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/name.h"
#include "core/admission/approval.h"
#include "core/running/run.h"

#define CHOICE_SIZE 96

void operator_say_state(struct op_request *a, const struct session *s)
{
	buf_addf(&a->done, ",\"session\":\"%s\",\"state\":\"%s\"", s->id, sstate_names[s->state]);
}

/* ---- verbs on a session that is not over ---- */

static void do_abort(struct session *s, struct op_request *a)
{
	bool again = s->state == S_ABORTING;

	CRASH_POINT(operator_abort);
	s->core->stats.aborts++;
	if (s->admission.waits_for != WAITS_NOT) {
		approval_cancel(s, a->reason);
		operator_say_state(a, s);
		return;
	}
	if (!run_abort(s, "aborted_by_operator", "operator", a->reason) && !again)
		op_request_refuse(a, "not_now", "wait for its end",
			"the end of session %.8s was decided before: %s", s->id,
			sstate_names[s->outcome.state]);
	else
		operator_say_state(a, s);
}

/* The token is invalid from here on. The caller is not notified, because a thief of the token would be, too.
 */
static void do_revoke_token(struct session *s, struct op_request *a)
{
	if (s->token[0] == '\0') {
		op_request_refuse(a, "not_now", "deny it instead",
			"session %.8s is not accepted yet, and has no token", s->id);
		return;
	}
	s->token_revoked = true;
	session_mark_dirty(s);
	CRASH_POINT(operator_token_revoked);
	operator_say_state(a, s);
}

static void do_live(struct session *s, struct op_request *a)
{
	const struct worker *w = run_worker(s);
	const struct slot_caller *caller = slots_find_caller(s->core, s->caller_id);

	a->has_live = true;
	a->live = (struct op_live){
		.pid = w != NULL && !worker_has_exited(w) ? worker_pid(w) : 0,
		.reads = !s->run.is_unread,
		.waits = s->slot.is_waiting,
		.waits_why = s->slot.is_waiting ? slots_why(s->core, s) : NULL,
		.caller_running = caller != NULL ? caller->running : 0,
		.caller_waiting = caller != NULL ? caller->waiting + caller->undecided : 0,
		.migrates = s->run.migration != NULL,
		.idle_us = w != NULL ? clock_boot_us() - s->run.heard_us : 0,
		.outbox_bytes = s->outbox.waiting_bytes,
	};
	operator_describe_pending(s, &a->live);
}

/* ---- verbs on the store, and on the daemon ---- */

static bool do_replay(struct core *c, struct op_request *a)
{
	struct store_replay r = {.session = 0};
	int found = store_find_replay(c->store, a->session_id, a->from, &r);
	struct outbox_caller *to;

	if (found < 0)
		return false;
	if (found == 0) {
		op_request_refuse(a, "not_found", "see list", "there is no session %.36s", a->session_id);
		return true;
	}
	if ((to = outbox_find_caller(c->outbox, r.caller_id)) == NULL)
		return false;
	CRASH_POINT(operator_replay);
	if (r.count > 0 && !outbox_replay(c->outbox, to, r.session, r.first - 1, r.last))
		op_request_refuse(a, "unavailable", "ask again when those are done",
			"16 replays to caller %s are waiting already", r.caller_id);
	else
		buf_addf(&a->done, ",\"session\":\"%s\",\"state\":\"%s\",\"messages\":%lld", a->session_id,
			r.state, (long long)r.count);
	return true;
}

static void do_drain(struct core *c, struct op_request *a, bool drain)
{
	CRASH_POINT(operator_drain);
	if (c->phase.is_stopping) {
		op_request_refuse(a, "not_now", "wait until it runs again", "the daemon is stopping");
		return;
	}
	if (drain != c->phase.is_draining)
		log_warn("%s",
			drain ? "draining: what runs goes on, new tasks are accepted and wait" :
				"no longer draining: what waits starts");
	c->phase.is_draining = drain;
	core_say_status(c);
	buf_addf(&a->done, ",\"draining\":%s", drain ? "true" : "false");
}

static bool is_key_needed(void *ctx, const struct token_key *key)
{
	struct core *c = ctx;
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (!s->turn.is_closed && token_is_of(key, s->token))
			return true;
	return false;
}

/* The new key is on disk before a token is signed with it. The old key is kept until its last token has
 * expired. */
static void do_rotate_key(struct core *c, struct op_request *a)
{
	int64_t now = clock_wall_us(), until = now + c->policy->config->max_duration_us;
	struct session *s, *tmp;
	char why[256];

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (s->times.updated_us + s->times.max_duration_us > until)
			until = s->times.updated_us +
				s->times.max_duration_us; /* it was accepted under a longer max_duration */
	if (token_rotate(c->state_dir, &c->keys, now, until, is_key_needed, c, why, sizeof why) < 0) {
		op_request_refuse(a, "unavailable", "the old key signs on; ask again later", "%.200s", why);
		return;
	}
	CRASH_POINT(operator_key_rotated);
	log_warn("session tokens are signed with a new key: kid=%s keys=%zu", c->keys.list[0].kid,
		c->keys.count);
	buf_addf(&a->done, ",\"kid\":\"%s\",\"keys\":%zu", c->keys.list[0].kid, c->keys.count);
}

/* ---- the table ---- */

static const struct {
	const char *name;
	/* NULL: the verb is not about a session in memory */
	void (*on_session)(struct session *s, struct op_request *a);
	bool only_reads;
} verbs[OP_VERBS] = {
	[OP_ABORT] = {"abort", do_abort, false},
	[OP_PAUSE] = {"pause", operator_pause, false},
	[OP_RESUME] = {"resume", operator_resume, false},
	[OP_CHECKPOINT] = {"checkpoint", operator_checkpoint, false},
	[OP_REPLAY] = {"replay", NULL, false},
	[OP_DRAIN] = {"drain", NULL, false},
	[OP_REVOKE_TOKEN] = {"revoke_token", do_revoke_token, false},
	[OP_ROTATE_KEY] = {"rotate_token_key", NULL, false},
	[OP_UNDRAIN] = {"undrain", NULL, false},
	[OP_STATS] = {"stats", NULL, true},
	[OP_LIVE] = {"live", do_live, true},
	[OP_RECOVER] = {"recover", operator_recover, false},
	[OP_EXTEND] = {"extend", operator_extend, false},
	[OP_DECIDE] = {"decide", NULL, false},
	[OP_APPROVERS] = {"approvers", NULL, true},
};

const char *op_verb_name(enum op_verb verb)
{
	return verbs[verb].name;
}

bool operator_only_reads(enum op_verb verb)
{
	return verbs[verb].only_reads;
}

static bool on_session(struct core *c, struct op_request *a)
{
	struct session *s = session_find(c, a->session_id);
	char state[16] = "";
	int found = 1;

	if (s != NULL && !s->turn.is_closed) {
		verbs[a->verb].on_session(s, a);
		return true;
	}
	if (s != NULL)
		snprintf(state, sizeof state, "%s", sstate_names[s->state]);
	else if ((found = store_find_session(c->store, a->session_id, state)) < 0)
		return false;
	if (found == 0)
		op_request_refuse(a, "not_found", "see list", "there is no session %.36s", a->session_id);
	else
		op_request_refuse(a, "not_now", "see what came of it with show", "session %.8s has ended: %s",
			a->session_id, state);
	return true;
}

static bool act(struct core *c, struct op_request *a)
{
	switch (a->verb) {
	case OP_REPLAY: return do_replay(c, a);
	case OP_DRAIN:
	case OP_UNDRAIN: do_drain(c, a, a->verb == OP_DRAIN); return true;
	case OP_ROTATE_KEY: do_rotate_key(c, a); return true;
	case OP_STATS: operator_stats(c, a); return true;
	case OP_DECIDE: return approval_decide(c, a);
	case OP_APPROVERS: approval_list_approvers(c, a); return true;
	default: return on_session(c, a);
	}
}

/* The operator's choice besides the session: "how=discard"; "" where the verb has no choice. */
static void describe_choice(const struct op_request *a, char out[CHOICE_SIZE])
{
	char by[DURATION_TEXT_SIZE];

	out[0] = '\0';
	if (a->verb == OP_RECOVER)
		snprintf(out, CHOICE_SIZE, "how=%s", name_find(recovery_names, a->how) >= 0 ? a->how : "?");
	if (a->verb == OP_REPLAY)
		snprintf(out, CHOICE_SIZE, "from=%lld", (long long)a->from);
	if (a->verb == OP_EXTEND) {
		duration_format(a->by_us > 0 ? a->by_us : 0, by);
		snprintf(out, CHOICE_SIZE, "by=%s%s", by, a->token != NULL ? " with=token" : "");
	}
}

/* Puts the request into the audit. Refused requests can come at any rate, so they are counted. */
static void audit_request(struct core *c, const struct op_request *a, const char *choice)
{
	bool is_signed = a->signer[0] != '\0';
	const struct audit_entry row = {.what = op_verb_name(a->verb),
		.outcome = a->code != NULL ? "refused" : "done",
		.who = is_signed && a->code != NULL ? a->signer : "operator",
		.has_uid = true,
		.uid = a->uid,
		.user = a->user,
		.session = a->session_id,
		.code = a->code,
		.why = a->code != NULL ? a->message : a->reason,
		.about = is_signed && a->code != NULL ? "who is as the decision names its signer" : choice};

	CRASH_POINT(operator_audited);
	if (a->code != NULL)
		audit_put_refusal(c, &row, a->signer);
	else
		audit_put(c, &row);
}

bool operator_take(struct core *c, struct op_request *a)
{
	char choice[CHOICE_SIZE];

	if (!act(c, a))
		return false;
	if (operator_only_reads(a->verb)) {
		op_queue_answer(c->operator.queue, a);
		return true;
	}
	describe_choice(a, choice);
	if (a->reason != NULL) /* the reason is a value of its own, so that it is quoted */
		log_info("operator: verb=%s session=%.8s%s%s uid=%lld answer=%s why=%s",
			op_verb_name(a->verb), a->session_id[0] != '\0' ? a->session_id : "-",
			choice[0] != '\0' ? " " : "", choice, (long long)a->uid,
			a->code != NULL ? a->code : "done", a->reason);
	else
		log_info("operator: verb=%s session=%.8s%s%s uid=%lld answer=%s", op_verb_name(a->verb),
			a->session_id[0] != '\0' ? a->session_id : "-", choice[0] != '\0' ? " " : "", choice,
			(long long)a->uid, a->code != NULL ? a->code : "done");
	audit_request(c, a, choice);
	effect_answer(c, a);
	return true;
}

/* Whose worker is that child of ours? It may have ended meanwhile, or be an orphan: NULL. */
static const struct session *find_by_worker(struct core *c, int pid)
{
	struct session *s, *tmp;

	if (pid == 0)
		return NULL;
	HASH_ITER(by_key, c->by_key, s, tmp)
		if (run_worker(s) != NULL && worker_pid(run_worker(s)) == pid)
			return s;
	return NULL;
}

void operator_audit_denied(struct core *c)
{
	struct denied_peer list[OP_QUEUE_DENIED];
	int count = op_queue_take_denied(c->operator.queue, list);

	for (int i = 0; i < count; i++) {
		const struct denied_peer *d = &list[i];
		const struct session *s = find_by_worker(c, d->worker_pid);
		const struct audit_entry row = {.what = d->what != NULL ? d->what : "control",
			.outcome = "refused",
			.who = d->who != NULL ? d->who : "stranger",
			.has_uid = true,
			.uid = d->uid,
			.user = d->user,
			.session = s != NULL ? s->id : NULL,
			.capability = s != NULL ? s->capability : NULL,
			.code = d->code != NULL ? d->code : "refused",
			.why = d->why[0] != '\0' ? d->why : "may not use the control socket",
			.times = d->count};

		audit_put_refusal(c, &row, s != NULL ? s->id : NULL);
	}
}
