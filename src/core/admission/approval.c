/* SPDX-License-Identifier: MIT */
/* approval.c: the question to a human, and the end of waiting without a yes.
 * Owns approvals, their expiry, the votes and the memory of this turn's nonces. Never checks a signature
 * (harp/harp.c) or a task (gate.c), never changes a session's state by itself (core/session.c). */
#include "core/admission/approval_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crashpoint.h"
#include "core/admission/caller_log.h"
#include "core/admission/intake.h"
#include "base/log.h"
#include "core/operator/operator.h"

void approval_end_turn(struct core *c)
{
	for (struct nonce_seen *n = c->turn.nonces, *next; n != NULL; n = next) {
		next = n->next;
		free(n->nonce);
		free(n->signer);
		free(n);
	}
	c->turn.nonces = NULL;
}

const char *approval_request(const struct session *s)
{
	return s->admission.approval != NULL ? s->admission.approval->request_id : NULL;
}

void approval_forget(struct session *s)
{
	struct approval *a = s->admission.approval;

	if (a == NULL)
		return;
	timer_cancel(&s->core->timers, &a->expiry);
	for (size_t i = 0; i < a->vote_count; i++)
		free((char *)(uintptr_t)a->votes[i].signer_key_id);
	free(a->votes);
	free(a);
	s->admission.approval = NULL;
}

void approval_add_vote(struct approval *a, const char *signer, int64_t expires_us)
{
	a->votes = xrealloc(a->votes, (a->vote_count + 1) * sizeof *a->votes);
	a->votes[a->vote_count++] = (struct harp_vote){xstrdup(signer), expires_us};
}

void approval_move(struct approval *a, enum harp_state to)
{
	char at[CLOCK_TEXT_SIZE];

	assert(harp_state_may(a->state, to));
	a->state = to;
	timer_cancel(&a->session->core->timers, &a->expiry);
	clock_format(clock_wall_us(), at);
	store_save_review(a->session->core->store, a->request_id, harp_state_name(to), at);
}

/* ---- the end of waiting without a yes ---- */

/* The caller has moved the approval to its state before. */
void approval_reject(struct session *s, const char *code, const char *reason, const char *actor,
	const char *message, const char *suggestion, enum risk risk)
{
	int64_t answer = intake_put_rejected(s->core, s->outbox.caller, s->key, s->admission.message_id, code,
		message, suggestion, risk, false);

	if (caller_log_may_id(s->core, s->caller_id, LOG_LVL_INFO))
		log_info("task rejected: session=%.8s caller=%s code=%s why=%s", s->id, s->caller_id, code,
			message);
	session_reject(s, reason, actor, answer);
	CRASH_POINT(approval_rejected);
}

static void on_expiry(struct timer *t)
{
	struct approval *a = container_of(t, struct approval, expiry);
	struct session *s = a->session;
	char at[CLOCK_TEXT_SIZE], message[128];

	CRASH_POINT(approval_expiring);
	clock_format(a->expires_us, at);
	snprintf(message, sizeof message, "a human had to decide by %s, and nobody did", at);
	audit_put(s->core,
		&(struct audit_entry){.what = "expire",
			.outcome = "rejected",
			.who = "daemon",
			.session = s->id,
			.capability = s->capability,
			.risk = risk_names[s->risk],
			.code = "approval_expired",
			.request = a->request_id});
	approval_move(a, HARP_IS_EXPIRED);
	approval_reject(s, "approval_expired", "approval_expired", "daemon", message,
		"submit it again, under a new message_id", s->risk);
}

void approval_cancel(struct session *s, const char *reason)
{
	char message[256];

	CRASH_POINT(approval_cancelling);
	snprintf(message, sizeof message, "an operator ended it before anybody decided%s%.160s",
		reason != NULL ? ": " : "", reason != NULL ? reason : "");
	/* not DENIED: that needs a signed decision */
	if (s->admission.approval != NULL)
		approval_move(s->admission.approval, HARP_IS_EXPIRED);
	approval_reject(s, "policy_denied", "aborted_by_operator", "operator", message, "", s->risk);
}

/* ---- the question ---- */

static void set_clock(struct approval *a)
{
	int64_t left = a->expires_us - clock_wall_us();

	a->expiry.on_due = on_expiry;
	timer_set(&a->session->core->timers, &a->expiry, clock_boot_us() + (left > 0 ? left : 0));
}

static struct approval *new_approval(struct session *s, const char *request_id, int64_t expires_us)
{
	struct approval *a = xcalloc(1, sizeof *a);

	approval_forget(s);
	a->session = s;
	snprintf(a->request_id, sizeof a->request_id, "%s", request_id);
	a->state = HARP_AWAITING_DECISION;
	a->expires_us = expires_us;
	s->admission.approval = a;
	set_clock(a);
	return a;
}

bool approval_write_question(struct core *c, struct question *q, const char *session_id,
	const char *caller_id, const struct gate_result *v, const struct task *task, char *why,
	size_t why_size)
{
	char rule[160], physical[160];
	const char *reasons[3];
	size_t count = 0;
	const int64_t second = 1000000;

	if (v->why[0] != '\0')
		reasons[count++] = v->why;
	if (task->data_class >= T4)
		snprintf(rule, sizeof rule, "data of class %s is never touched unasked",
			data_class_names[task->data_class]);
	else
		snprintf(rule, sizeof rule, "%.100s is not done unasked from R3 on", v->capability->name);
	/* Without a rule of the gate, the policy program wants a human to decide. */
	if ((v->needs & NEEDS_HUMAN) || count == 0)
		reasons[count++] = rule;
	if (v->capability->involves_physical_resources) {
		snprintf(
			physical, sizeof physical, "%.100s involves physical resources", v->capability->name);
		reasons[count++] = physical;
	}
	id_make(q->request_id);
	q->created_us = clock_wall_us() / second * second;
	q->expires_us = q->created_us + c->policy->config->approval_expires_us / second * second;
	return harp_build_review(&(struct harp_review){.request_id = q->request_id,
					 .session_id = session_id,
					 .callee_id = c->first_policy->config->callee_id,
					 .capability = v->capability->name,
					 .caller_id = caller_id,
					 .risk = v->risk,
					 .reasons = reasons,
					 .reason_count = count,
					 .task = task->json,
					 .task_size = task->json_size,
					 .created_us = q->created_us,
					 .expires_us = q->expires_us},
		       &q->artifact, q->hash, why, why_size) == HARP_OK;
}

void approval_put_question(struct session *s, const struct question *q, enum risk risk)
{
	char created[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];

	clock_format(q->created_us, created);
	clock_format(q->expires_us, expires);
	new_approval(s, q->request_id, q->expires_us);
	store_put_review(s->core->store,
		&(struct store_review){.session = s->key,
			.session_id = s->id,
			.request_id = q->request_id,
			.state = harp_state_name(HARP_AWAITING_DECISION),
			.risk_level = risk_names[risk],
			.created_at = created,
			.expires_at = expires,
			.artifact_hash = q->hash,
			.artifact = q->artifact.data,
			.artifact_size = q->artifact.size});
	CRASH_POINT(approval_asked);
	log_info("task waits for a human: session=%.8s caller=%s capability=%s risk=%s request=%s until=%s",
		s->id, s->caller_id, s->capability, risk_names[risk], q->request_id, expires);
}

struct session *approval_begin(struct core *c, const struct command *cmd, const struct gate_result *v,
	struct outbox_caller *to, char *why, size_t why_size)
{
	struct question q = {.artifact = {0}};
	struct session *s = NULL;
	char id[ID_SIZE];

	session_make_id(c, id);
	if (approval_write_question(c, &q, id, cmd->caller_id, v, &cmd->task, why, why_size)) {
		s = session_new_undecided(c, cmd, v, to, WAITS_FOR_HUMAN, id);
		approval_put_question(s, &q, v->risk);
	}
	buf_fini(&q.artifact);
	return s;
}

bool approval_take_over(
	struct session *s, const struct gate_result *v, const struct task *task, char *why, size_t why_size)
{
	struct question q = {.artifact = {0}};
	bool is_good = approval_write_question(s->core, &q, s->id, s->caller_id, v, task, why, why_size);

	if (is_good) {
		session_wait_for_human(s, v);
		approval_put_question(s, &q, v->risk);
	}
	buf_fini(&q.artifact);
	return is_good;
}

static void on_vote(void *ctx, const char *signer, const char *expires_at)
{
	int64_t us;

	if (clock_parse(expires_at, &us))
		approval_add_vote(ctx, signer, us);
}

int approval_recover(struct session *s)
{
	char request_id[STORE_WORD_SIZE], expires_at[STORE_WORD_SIZE];
	int found = store_find_open_review(s->core->store, s->key, request_id, expires_at);
	int64_t expires_us = 0;

	if (found < 0)
		return -1;
	if (found == 0 || !clock_parse(expires_at, &expires_us)) {
		log_error(
			"a task waits for a human who was not asked, this is a defect: session=%.8s", s->id);
		approval_reject(s, "approval_expired", "approval_expired", "daemon",
			"what a human would have decided is lost", "submit it again, under a new message_id",
			s->risk);
		return 0;
	}
	CRASH_POINT(approval_recovering);
	return store_load_votes(s->core->store, request_id, on_vote, new_approval(s, request_id, expires_us));
}
