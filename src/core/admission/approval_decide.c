/* review_decide.c: a human's signed decision: what is read and verified, and what follows from it.
 * Never judges a signature (harp.c) or a task (gate.c). */
#include "core/admission/approval_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/operator/operator.h"

#define DENIED "approval_denied" /* the reason_code of a human's no */

struct deciding {
	struct core *core;
	struct ask *ask;
	struct harp_decision *decision;
	struct harp_artifact *artifact;
	struct buf artifact_text, task_text;
	struct command task; /* read back, as its caller sent it */
	struct harp_accepted accepted;
	struct session *session; /* that waits for it; NULL: none does any more */
	enum harp_state state;   /* of the review */
	bool is_unreadable;      /* the store */
};

/* True where there was nothing to refuse. */
static bool pass(struct deciding *d, enum harp_code code, const char *why)
{
	static const char *const remedies[HARP_CODES] = {
		[HARP_CANONICALIZATION] = "sign it with hcpctl approve, or as hcp-control(7) says",
		[HARP_UNSUPPORTED] = "sign it with hcpctl approve, or as hcp-control(7) says",
		[HARP_SIGNATURE_INVALID] =
			"hcpctl keygen --show prints what the configuration must have of your key",
		[HARP_EXPIRED] = "look at what waits now with hcpctl approvals",
		[HARP_HASH_MISMATCH] = "look at what waits now with hcpctl approvals, and decide about that",
		[HARP_REPLAY] = "a decision is used once; hcpctl approvals shows what waits",
		[HARP_SCOPE] = "sign it for this session, or with scope once",
		[HARP_POLICY_DENY] =
			"another approver must decide; [approver NAME] in the configuration says who may",
	};

	if (code == HARP_OK)
		return true;
	ask_refuse(d->ask, harp_code_name(code), remedies[code], "%s", why);
	return false;
}

static bool is_request_used(void *ctx, const char *request_id, const char *artifact_hash)
{
	const struct deciding *d = ctx;

	(void)request_id, (void)artifact_hash; /* they are this review's: checked before */
	return d->state == HARP_APPROVED || d->state == HARP_DENIED || d->state == HARP_EXECUTED;
}

static bool is_nonce_used(void *ctx, const char *nonce, const char *signer)
{
	struct deciding *d = ctx;
	int found;

	for (const struct nonce_seen *n = d->core->turn_nonces; n != NULL; n = n->next)
		if (strcmp(n->nonce, nonce) == 0 && strcmp(n->signer, signer) == 0)
			return true;
	found = store_find_nonce(d->core->store, nonce, signer);
	d->is_unreadable |= found < 0;
	return found != 0;
}

/* The review that the decision is held against: that of the session which was named, where it has one, else
 * the one that the decision names. False: there is none, or it cannot be read. */
static bool find_review(struct deciding *d)
{
	struct core *c = d->core;
	struct session *s = d->ask->session_id[0] != '\0' ? session_find(c, d->ask->session_id) : NULL;
	const char *request =
		s != NULL && s->review != NULL ? s->review->request_id : d->decision->request_id;
	char state[24], why[256];
	int64_t key;
	int found = store_load_review(c->store, request, &key, state, &d->artifact_text), parsed;

	if (found <= 0) {
		d->is_unreadable = found < 0;
		return pass(d, HARP_HASH_MISMATCH, "nobody was asked under this requestId here");
	}
	if (!pass(d,
		    harp_read_artifact(
			    d->artifact_text.data, d->artifact_text.size, &d->artifact, why, sizeof why),
		    why)) {
		log_error("a stored review is damaged: request=%s why=%s", request, why);
		return false;
	}
	s = session_find_key(c, key);
	parsed = harp_state_parse(state);
	d->state = parsed >= 0 ? (enum harp_state)parsed : HARP_IS_EXPIRED;
	/* What this turn did to it, the store does not know yet; one that was followed by another is past. */
	if (s != NULL && s->review != NULL && strcmp(s->review->request_id, request) == 0)
		d->state = s->review->state;
	else if (d->state == HARP_AWAITING_DECISION)
		d->state = HARP_IS_EXPIRED;
	d->session = d->state == HARP_AWAITING_DECISION ? s : NULL;
	return true;
}

static bool verify(struct deciding *d)
{
	const struct review *r = d->session != NULL ? d->session->review : NULL;
	const struct policy *p = d->core->policy;
	const struct harp_case theirs = {.artifact = d->artifact,
		.keys = p->approvers,
		.rules = {.two_persons_from = p->config->two_person},
		.lookups = {is_request_used, is_nonce_used, d},
		.votes = r != NULL ? r->votes : NULL,
		.vote_count = r != NULL ? r->vote_count : 0,
		.now_us = clock_wall_us()};
	char why[256];

	if (!pass(d, harp_verify(d->decision, &theirs, &d->accepted, why, sizeof why), why))
		return false;
	return d->session != NULL || pass(d, HARP_EXPIRED, "the request has expired");
}

/* The task, and that it is the one that was shown. */
static bool load_task(struct deciding *d)
{
	struct core *c = d->core;
	struct buf b = {0};
	int found = store_load_task(c->store, d->session->key, &d->task_text);
	bool is_read;

	if (found < 0) {
		d->is_unreadable = true;
		return false;
	}
	if (found == 0 || strcmp(buf_text(&d->task_text), d->artifact->task) != 0)
		return pass(d, HARP_HASH_MISMATCH, "the stored task is not the one that was shown");
	canon_hash_bytes(d->task_text.data, d->task_text.size, d->session->task_hash);
	codec_begin(&b, NULL, "task_submit"); /* its members are a payload's */
	buf_add(&b, d->task_text.data, d->task_text.size);
	codec_end(&b);
	is_read = codec_read(b.data, b.size, c->policy->config->max_depth, &d->task) == CODEC_OK;
	buf_fini(&b);
	if (!is_read)
		ask_refuse(d->ask, "refused", "deny it, or set the limits as they were",
			"the task cannot be read any more: %.160s", d->task.message);
	return is_read;
}

static void put_decision(struct deciding *d)
{
	const struct harp_accepted *a = &d->accepted;
	struct nonce_seen *n = xcalloc(1, sizeof *n);
	char expires[CLOCK_TEXT_SIZE], at[CLOCK_TEXT_SIZE];

	clock_format(a->expires_us, expires);
	clock_format(clock_wall_us(), at);
	store_put_decision(d->core->store,
		&(struct store_decision){.request_id = a->request_id,
			.artifact_hash = a->artifact_hash,
			.signer = a->signer_key_id,
			.nonce = a->nonce,
			.allow = a->allow,
			.is_final = a->is_final,
			.expires_at = expires,
			.at = at,
			.reason = d->ask->reason,
			.uid = d->ask->uid,
			.text = d->ask->decision,
			.text_size = d->ask->decision_size});
	n->nonce = xstrdup(a->nonce);
	n->signer = xstrdup(a->signer_key_id);
	n->next = d->core->turn_nonces;
	d->core->turn_nonces = n;
	CRASH_POINT(review_decided);
}

/* What came of it, for the audit. v: what the gate said of it now, NULL where it was not asked; then, and
 * where the gate got not that far, the risk is the one that it was shown with. */
static void note(const struct deciding *d, const struct verdict *v, const char *what, const char *outcome,
	const char *code)
{
	const struct session *s = d->session;
	bool is_assessed = v != NULL && v->risk != R_NONE;

	audit_put(d->core,
		&(struct audit_entry){.what = what,
			.outcome = outcome,
			.who = d->accepted.signer_key_id,
			.has_uid = true,
			.uid = d->ask->uid,
			.user = d->ask->user,
			.session = s->id,
			.capability = s->capability,
			.risk = risk_names[is_assessed ? v->risk : s->risk],
			.rules = is_assessed ? v->why : NULL,
			.code = code,
			.why = d->ask->reason,
			.request = d->artifact->request_id,
			.about = v != NULL ? v->message : NULL});
}

static void say_state(struct deciding *d)
{
	const struct session *s = d->session;

	buf_addf(&d->ask->done, ",\"session\":\"%s\",\"state\":\"%s\",\"review\":\"%s\"", s->id,
		sstate_names[s->state], harp_state_name(s->review->state));
}

static void take_vote(struct deciding *d)
{
	note(d, NULL, "approve", "waits", NULL);
	review_add_vote(d->session->review, d->accepted.signer_key_id, d->accepted.expires_us);
	say_state(d);
}

static void take_denial(struct deciding *d)
{
	const char *reason = d->ask->reason;
	char message[512];

	snprintf(message, sizeof message, "%.128s denied it%s%.256s", d->accepted.person,
		reason != NULL ? ": " : "", reason != NULL ? reason : "");
	note(d, NULL, "deny", "rejected", DENIED);
	review_move(d->session->review, HARP_DENIED);
	review_reject(d->session, DENIED, "approval_denied", "approver", message, "", d->session->risk);
	say_state(d);
}

/* It was approved under a policy that would not have asked. */
static void take_refusal(struct deciding *d, const struct verdict *v)
{
	note(d, v, "approve", "rejected", v->code);
	review_move(d->session->review, HARP_IS_EXPIRED);
	review_reject(d->session, v->code, v->code, "daemon", v->message, v->suggestion, v->risk);
	ask_refuse(d->ask, "refused", "its caller was told; nothing runs",
		"the policy of now rejects it, %s: %.180s", v->code, v->message);
}

/* More dangerous than what was looked at: somebody has to look again. */
static void ask_again(struct deciding *d, const struct verdict *v)
{
	struct session *s = d->session;
	struct question q = {.artifact = {0}};
	char why[256];

	note(d, v, "approve", "waits", "risk_rose");
	review_move(s->review, HARP_IS_EXPIRED);
	if (review_write_question(d->core, &q, s->id, s->caller_id, v, &d->task.task, why, sizeof why)) {
		review_put_question(s, &q, v->risk);
		ask_refuse(d->ask, "refused", "look at it with hcpctl approvals, and decide again",
			"its risk is %s now, and was %s when it was "
			"reviewed: it waits for a new decision",
			risk_names[v->risk], risk_names[d->artifact->risk]);
	} else {
		review_reject(s, "policy_denied", "policy_denied", "daemon", why, "", v->risk);
		ask_refuse(d->ask, "refused", "its caller was told; nothing runs",
			"it cannot be asked about again: %.180s", why);
	}
	buf_fini(&q.artifact);
}

static void accept(struct deciding *d, const struct verdict *v)
{
	struct core *c = d->core;
	struct session *s = d->session;

	note(d, v, "approve", "accepted", NULL);
	review_move(s->review, HARP_EXECUTED);
	session_accept(s, v);
	log_info("approved: session=%.8s by=%s risk=%s", s->id, d->accepted.signer_key_id,
		risk_names[v->risk]);
	CRASH_POINT(review_accepted);
	s->is_fresh = true;
	slots_wait(c, s);
	(void)core_fill_slots(c); /* the commit tries it again, and says what is wrong */
	s->is_fresh = false;
	say_state(d);
}

static void take_approval(struct deciding *d)
{
	struct core *c = d->core;
	const struct config_caller *caller = config_find_caller(c->policy->config, d->session->caller_id);
	struct verdict v = {.kind = VERDICT_REJECTED,
		.code = "unauthorized",
		.message = "its caller is no longer known here"};

	review_move(d->session->review, HARP_APPROVED);
	if (caller != NULL)
		intake_look(c, caller, &d->task.task, true, &v);
	if (v.kind == VERDICT_REJECTED)
		take_refusal(d, &v);
	else if (v.risk > d->artifact->risk)
		ask_again(d, &v);
	else
		accept(d, &v);
}

static void decide(struct deciding *d)
{
	const struct harp_accepted *a = &d->accepted;

	memcpy(d->ask->session_id, d->session->id, sizeof d->ask->session_id);
	put_decision(d);
	if (!a->allow)
		take_denial(d);
	else if (!a->is_final)
		take_vote(d);
	else
		take_approval(d);
}

/* Whom the decision names, proven or not, where that is one of ours: for the audit, where names that are made
 * up would be as many kinds of refusals. */
static void name_signer(const struct deciding *d)
{
	const struct config *config = d->core->policy->config;

	for (size_t i = 0; d->decision != NULL && i < config->approver_count; i++)
		if (strcmp(config->approvers[i].name, d->decision->signer_key_id) == 0)
			snprintf(d->ask->signer, sizeof d->ask->signer, "%s", config->approvers[i].name);
}

/* Everything that is read is read before anything changes: where the store fails, nothing happened. */
bool review_decide(struct core *c, struct ask *a)
{
	struct deciding d = {.core = c, .ask = a};
	char why[256];

	a->code = NULL; /* it may be tried a second time */
	if (pass(&d, harp_read_decision(a->decision, a->decision_size, &d.decision, why, sizeof why), why) &&
		find_review(&d) && verify(&d) && !d.is_unreadable && (!d.accepted.allow || load_task(&d)))
		decide(&d);
	else if (!d.is_unreadable)
		log_warn("a decision was refused: code=%s why=%s uid=%lld", a->code, a->message,
			(long long)a->uid);
	name_signer(&d);
	if (d.is_unreadable)
		a->code = NULL;
	command_fini(&d.task);
	harp_artifact_free(d.artifact);
	harp_decision_free(d.decision);
	buf_fini(&d.artifact_text);
	buf_fini(&d.task_text);
	return !d.is_unreadable;
}

void review_list_approvers(struct core *c, struct ask *a)
{
	const struct config *config = c->policy->config;

	buf_add_text(&a->item, "{\"approvers\":[");
	for (size_t i = 0; i < config->approver_count; i++) {
		const struct config_approver *p = &config->approvers[i];

		buf_addf(&a->item,
			"%s{\"name\":\"%s\",\"key\":\"%s\",\"max_risk\":\"%s\",\"revoked\":%s,\"person\":",
			i > 0 ? "," : "", p->name, p->key, risk_names[p->max_risk],
			p->revoked ? "true" : "false");
		buf_add_json(&a->item, p->person != NULL ? p->person : p->name,
			strlen(p->person != NULL ? p->person : p->name));
		buf_add_text(&a->item, "}");
	}
	buf_addf(&a->item, "],\"two_person\":\"%s\"}",
		config->two_person != R_NONE ? risk_names[config->two_person] : "off");
}
