/* SPDX-License-Identifier: MIT */
/* approval_decide.c: a human's signed decision: reads it, verifies it, and carries it out.
 * Owns what follows from an allow, a deny and a vote. Never checks a signature itself (harp/harp.c), never
 * decides about a task (gate.c). */
#include "core/admission/approval_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crashpoint.h"
#include "core/admission/intake.h"
#include "base/log.h"
#include "core/operator/operator.h"

#define DENIED "approval_denied" /* the reason_code of a human's no */

struct deciding {
	struct core *core;
	struct op_request *request;
	struct harp_decision *decision;
	struct harp_artifact *artifact;
	struct buf artifact_text, task_text;
	struct command task; /* read from the store, as its caller sent it */
	struct harp_accepted accepted;
	struct session *session; /* that waits for this decision; NULL: no session does any more */
	enum harp_state state;   /* of the approval */
	bool is_unreadable;      /* the store could not be read */
};

/* True for HARP_OK; else the request is refused with the code and its remedy. */
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
	op_request_refuse(d->request, harp_code_name(code), remedies[code], "%s", why);
	return false;
}

static bool is_request_used(void *ctx, const char *request_id, const char *artifact_hash)
{
	const struct deciding *d = ctx;

	(void)request_id, (void)artifact_hash; /* harp_verify has compared both with the artifact before */
	return d->state == HARP_APPROVED || d->state == HARP_DENIED || d->state == HARP_EXECUTED;
}

static bool is_nonce_used(void *ctx, const char *nonce, const char *signer)
{
	struct deciding *d = ctx;
	int found;

	for (const struct nonce_seen *n = d->core->turn.nonces; n != NULL; n = n->next)
		if (strcmp(n->nonce, nonce) == 0 && strcmp(n->signer, signer) == 0)
			return true;
	found = store_find_nonce(d->core->store, nonce, signer);
	d->is_unreadable |= found < 0;
	return found != 0;
}

/* Finds the approval that the decision is checked against: the named session's, where it has one, else the
 * one that the decision names. False: there is none, or it cannot be read. */
static bool find_approval(struct deciding *d)
{
	struct core *c = d->core;
	struct session *s =
		d->request->session_id[0] != '\0' ? session_find(c, d->request->session_id) : NULL;
	const char *request = s != NULL && s->admission.approval != NULL ? s->admission.approval->request_id :
									   d->decision->request_id;
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
	/* The store does not know this turn's changes yet, so memory decides. An approval that was replaced
	 * by a later one has expired. */
	if (s != NULL && s->admission.approval != NULL &&
		strcmp(s->admission.approval->request_id, request) == 0)
		d->state = s->admission.approval->state;
	else if (d->state == HARP_AWAITING_DECISION)
		d->state = HARP_IS_EXPIRED;
	d->session = d->state == HARP_AWAITING_DECISION ? s : NULL;
	return true;
}

static bool verify(struct deciding *d)
{
	const struct approval *a = d->session != NULL ? d->session->admission.approval : NULL;
	const struct policy *p = d->core->policy;
	const struct harp_case theirs = {.artifact = d->artifact,
		.keys = p->approvers,
		.rules = {.two_persons_from = p->config->two_person},
		.lookups = {is_request_used, is_nonce_used, d},
		.votes = a != NULL ? a->votes : NULL,
		.vote_count = a != NULL ? a->vote_count : 0,
		.now_us = clock_wall_us()};
	char why[256];

	if (!pass(d, harp_verify(d->decision, &theirs, &d->accepted, why, sizeof why), why))
		return false;
	return d->session != NULL || pass(d, HARP_EXPIRED, "the request has expired");
}

/* Reads the task, and checks that it is the one that the human was shown. */
static bool load_task(struct deciding *d)
{
	struct core *c = d->core;
	int found = store_load_task(c->store, d->session->key, &d->task_text);

	if (found < 0) {
		d->is_unreadable = true;
		return false;
	}
	if (found == 0 || strcmp(buf_text(&d->task_text), d->artifact->task) != 0)
		return pass(d, HARP_HASH_MISMATCH, "the stored task is not the one that was shown");
	canonical_hash_bytes(d->task_text.data, d->task_text.size, d->session->intent.task_hash);
	if (message_read_task(d->task_text.data, d->task_text.size, c->policy->config->max_depth, &d->task))
		return true;
	op_request_refuse(d->request, "refused", "deny it, or set the limits as they were",
		"the task cannot be read any more: %.160s", d->task.message);
	return false;
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
			.reason = d->request->reason,
			.uid = d->request->uid,
			.text = d->request->decision,
			.text_size = d->request->decision_size});
	n->nonce = xstrdup(a->nonce);
	n->signer = xstrdup(a->signer_key_id);
	n->next = d->core->turn.nonces;
	d->core->turn.nonces = n;
	CRASH_POINT(approval_decided);
}

/* Puts the decision's result into the audit. v: the gate's result of now, NULL where the gate was not called.
 * Without a risk assessed now, the row has the risk that the human was shown. */
static void audit_decision(const struct deciding *d, const struct gate_result *v, const char *what,
	const char *outcome, const char *code)
{
	const struct session *s = d->session;
	bool is_assessed = v != NULL && v->risk != R_NONE;

	audit_put(d->core,
		&(struct audit_entry){.what = what,
			.outcome = outcome,
			.who = d->accepted.signer_key_id,
			.has_uid = true,
			.uid = d->request->uid,
			.user = d->request->user,
			.session = s->id,
			.capability = s->capability,
			.risk = risk_names[is_assessed ? v->risk : s->risk],
			.rules = is_assessed ? v->why : NULL,
			.code = code,
			.why = d->request->reason,
			.request = d->artifact->request_id,
			.about = v != NULL ? v->message : NULL});
}

static void say_state(struct deciding *d)
{
	const struct session *s = d->session;

	buf_addf(&d->request->done, ",\"session\":\"%s\",\"state\":\"%s\",\"review\":\"%s\"", s->id,
		sstate_names[s->state], harp_state_name(s->admission.approval->state));
}

static void take_vote(struct deciding *d)
{
	audit_decision(d, NULL, "approve", "waits", NULL);
	approval_add_vote(d->session->admission.approval, d->accepted.signer_key_id, d->accepted.expires_us);
	say_state(d);
}

static void take_denial(struct deciding *d)
{
	const char *reason = d->request->reason;
	char message[512];

	snprintf(message, sizeof message, "%.128s denied it%s%.256s", d->accepted.person,
		reason != NULL ? ": " : "", reason != NULL ? reason : "");
	audit_decision(d, NULL, "deny", "rejected", DENIED);
	approval_move(d->session->admission.approval, HARP_DENIED);
	approval_reject(d->session, DENIED, "approval_denied", "approver", message, "", d->session->risk);
	say_state(d);
}

/* The policy changed: the task was approved, and the gate rejects it now. The approval stays APPROVED: a
 * human's signature says so, nothing was executed, and no time was up. It counts as used. */
static void take_refusal(struct deciding *d, const struct gate_result *v)
{
	audit_decision(d, v, "approve", "rejected", v->code);
	approval_reject(d->session, v->code, v->code, "daemon", v->message, v->suggestion, v->risk);
	op_request_refuse(d->request, "refused", "its caller was told; nothing runs",
		"the policy of now rejects it, %s: %.180s", v->code, v->message);
}

/* The risk is higher than the one that the human was shown, so a human has to decide again. The approval does
 * not stay APPROVED, as with a refusal: the task lives on, and an APPROVED review of it would say that a
 * human has approved it (store_find_approval believes that). HARP's way from APPROVED without execution is
 * EXPIRED. */
static void request_new_decision(struct deciding *d, const struct gate_result *v)
{
	struct session *s = d->session;
	struct question q = {.artifact = {0}};
	char why[256];

	audit_decision(d, v, "approve", "waits", "risk_rose");
	approval_move(s->admission.approval, HARP_IS_EXPIRED);
	if (approval_write_question(d->core, &q, s->id, s->caller_id, v, &d->task.task, why, sizeof why)) {
		approval_put_question(s, &q, v->risk);
		op_request_refuse(d->request, "refused", "look at it with hcpctl approvals, and decide again",
			"its risk is %s now, and was %s when it was reviewed: it waits for a new decision",
			risk_names[v->risk], risk_names[d->artifact->risk]);
	} else {
		approval_reject(s, "policy_denied", "policy_denied", "daemon", why, "", v->risk);
		op_request_refuse(d->request, "refused", "its caller was told; nothing runs",
			"it cannot be asked about again: %.180s", why);
	}
	buf_fini(&q.artifact);
}

static void accept(struct deciding *d, const struct gate_result *v)
{
	struct session *s = d->session;

	audit_decision(d, v, "approve", "accepted", NULL);
	approval_move(s->admission.approval, HARP_EXECUTED);
	session_accept(s, v);
	log_info("approved: session=%.8s by=%s risk=%s", s->id, d->accepted.signer_key_id,
		risk_names[v->risk]);
	CRASH_POINT(approval_accepted);
	core_queue_accepted(s);
	say_state(d);
}

static void take_approval(struct deciding *d)
{
	struct core *c = d->core;
	const struct config_caller *caller = config_find_caller(c->policy->config, d->session->caller_id);
	struct gate_result v = {.kind = GATE_REJECTED,
		.code = "unauthorized",
		.message = "its caller is no longer known here"};

	approval_move(d->session->admission.approval, HARP_APPROVED);
	if (caller != NULL)
		intake_evaluate(c, caller, d->session->caller_id, &d->task.task, true, &v);
	if (v.kind == GATE_REJECTED)
		take_refusal(d, &v);
	else if (v.risk > d->artifact->risk)
		request_new_decision(d, &v);
	else
		accept(d, &v);
}

static void decide(struct deciding *d)
{
	const struct harp_accepted *a = &d->accepted;

	memcpy(d->request->session_id, d->session->id, sizeof d->request->session_id);
	put_decision(d);
	if (!a->allow)
		take_denial(d);
	else if (!a->is_final)
		take_vote(d);
	else
		take_approval(d);
}

/* Puts the signer that the decision names into the request, proven or not, for the audit. Only configured
 * approvers count: made-up names would make as many kinds of refusals. */
static void name_signer(const struct deciding *d)
{
	const struct config *config = d->core->policy->config;

	for (size_t i = 0; d->decision != NULL && i < config->approver_count; i++)
		if (strcmp(config->approvers[i].name, d->decision->signer_key_id) == 0)
			snprintf(d->request->signer, sizeof d->request->signer, "%s",
				config->approvers[i].name);
}

/* All reads come before the first change: where the store fails, nothing happened. */
bool approval_decide(struct core *c, struct op_request *a)
{
	struct deciding d = {.core = c, .request = a};
	char why[256];

	a->code = NULL; /* the request may be a second try */
	if (pass(&d, harp_read_decision(a->decision, a->decision_size, &d.decision, why, sizeof why), why) &&
		find_approval(&d) && verify(&d) && !d.is_unreadable && (!d.accepted.allow || load_task(&d)))
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

void approval_list_approvers(struct core *c, struct op_request *a)
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
