/* SPDX-License-Identifier: MIT */
/* policy_wait.c: tasks that wait for the policy program: their questions, and what follows from the
 * answers.
 * Owns answers that wait for the store. Never talks to the program (policy_program.c), never decides about
 * a task (gate.c), never changes a session's state by itself (core/session.c). */
#include "core/admission/policy_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/admission/caller_log.h"
#include "core/admission/intake.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/admission/approval.h"

/* The program's answer. It is kept until it is carried out: the store may be unreadable just now. */
struct policy_wait {
	struct session *session;
	enum policy_decision decision;
	char reason[513];
	bool has_failed;
	struct timer again; /* due at once: timers do not run while the store refuses */
};

static void put_question(
	struct session *s, const char *user, const char *rules, const char *task, size_t size)
{
	const struct capability *capability = policy_find(s->core->policy, s->capability);

	policy_program_put(s->core->program,
		&(struct policy_question){.session = s->key,
			.session_id = s->id,
			.caller = s->caller_id,
			.user = user,
			.capability = s->capability,
			.version = s->capability_version,
			.risk = risk_names[s->risk],
			.data_class = data_class_names[s->data_class],
			.rules = rules,
			.is_physical = capability != NULL && capability->involves_physical_resources,
			.task = task,
			.task_size = size});
}

struct session *policy_wait_begin(struct core *c, const struct command *cmd, const char *user,
	const struct gate_result *v, struct outbox_caller *to)
{
	struct session *s;
	char id[ID_SIZE];

	session_make_id(c, id);
	s = session_new_undecided(c, cmd, v, to, WAITS_FOR_PROGRAM, id);
	put_question(s, user, v->why, cmd->task.json, cmd->task.json_size);
	CRASH_POINT(policy_wait_asked);
	log_debug("task waits for the policy program: session=%.8s", s->id);
	return s;
}

void policy_wait_forget(struct session *s)
{
	struct policy_wait *k = s->admission.policy_wait;

	if (s->core->program != NULL)
		policy_program_forget(s->core->program, s->key);
	if (k == NULL)
		return;
	timer_cancel(&s->core->timers, &k->again);
	free(k);
	s->admission.policy_wait = NULL;
}

int policy_wait_recover(struct session *s)
{
	struct buf task = {0};
	int found = store_load_task(s->core->store, s->key, &task);

	CRASH_POINT(policy_wait_recovering);
	/* The broker's user is not stored, so the question is without it. The gate assesses the risk again
	 * after the answer, and a lost task is found then, too. */
	if (found >= 0)
		put_question(s, NULL, NULL, found > 0 ? task.data : "null", found > 0 ? task.size : 4);
	buf_fini(&task);
	return found < 0 ? -1 : 0;
}

/* ---- what follows ---- */

static void audit_result(const struct session *s, const struct policy_wait *k, const char *outcome,
	const char *code, const char *why, const struct gate_result *v)
{
	static const char *const said[] = {[PROGRAM_DENY] = "it said deny",
		[PROGRAM_ALLOW] = "it said allow",
		[PROGRAM_ASK] = "it said ask"};

	audit_put(s->core,
		&(struct audit_entry){.what = "verdict",
			.outcome = outcome,
			.who = "program",
			.session = s->id,
			.capability = s->capability,
			.risk = risk_names[v != NULL ? v->risk : s->risk],
			.rules = v != NULL ? v->why : NULL,
			.code = code,
			.why = why,
			.request = approval_request(s),
			.about = k->has_failed ? "it gave no verdict" : said[k->decision]});
}

static void reject(struct session *s, const char *code, const char *actor, const char *message,
	const char *suggestion, enum risk risk)
{
	int64_t answer = intake_put_rejected(s->core, s->outbox.caller, s->key, s->admission.message_id, code,
		message, suggestion, risk, false);

	if (caller_log_may_id(s->core, s->caller_id, LOG_LVL_INFO))
		log_info("task rejected: session=%.8s caller=%s code=%s why=%s", s->id, s->caller_id, code,
			message);
	session_reject(s, code, actor, answer);
	policy_wait_forget(s);
	CRASH_POINT(policy_wait_rejected);
}

static void deny(struct session *s, const struct policy_wait *k, const char *why)
{
	audit_result(s, k, "rejected", "policy_denied", why, NULL);
	reject(s, "policy_denied", "program", why, "", s->risk);
}

/* The program denied the task, or failed. */
static void take_denial(struct session *s, const struct policy_wait *k)
{
	char message[640];

	if (k->has_failed)
		snprintf(message, sizeof message, "%s, so the task is denied", k->reason);
	else
		snprintf(message, sizeof message, "the policy program denied it%s%s",
			k->reason[0] != '\0' ? ": " : "", k->reason);
	deny(s, k, message);
}

static void pass_to_human(
	struct session *s, const struct policy_wait *k, struct gate_result *v, const struct task *task)
{
	char why[256], message[384];

	if (k->decision == PROGRAM_ASK && !policy_has_approver(s->core->policy, v->risk)) {
		snprintf(message, sizeof message,
			"the policy program wants a human to decide, and there is nobody here who "
			"may%s%.200s",
			k->reason[0] != '\0' ? ": " : "", k->reason);
		deny(s, k, message);
		return;
	}
	if (k->decision == PROGRAM_ASK) {
		snprintf(message, sizeof message, "the policy program asks%s%.160s%s%.80s",
			k->reason[0] != '\0' ? ": " : "", k->reason, v->why[0] != '\0' ? "; " : "", v->why);
		snprintf(v->why, sizeof v->why, "%.*s",
			(int)buf_utf8_cut(message, strlen(message), sizeof v->why - 1), message);
	}
	if (!approval_take_over(s, v, task, why, sizeof why)) {
		snprintf(message, sizeof message,
			"a human would have to decide, and cannot be shown this task: %s", why);
		deny(s, k, message);
		return;
	}
	audit_result(s, k, "waits", NULL, k->reason, v);
	CRASH_POINT(policy_wait_handed_over);
	policy_wait_forget(s);
}

static void accept(struct session *s, const struct policy_wait *k, const struct gate_result *v)
{
	audit_result(s, k, "accepted", NULL, k->reason, v);
	session_accept(s, v);
	policy_wait_forget(s);
	CRASH_POINT(policy_wait_accepted);
	core_queue_accepted(s);
}

/* The gate looks at the task again: the policy may have changed since the question. */
static void evaluate_again(struct session *s, const struct policy_wait *k, const struct task *task)
{
	struct core *c = s->core;
	const struct config_caller *caller = config_find_caller(c->policy->config, s->caller_id);
	struct gate_result v = {.kind = GATE_REJECTED,
		.code = "unauthorized",
		.message = "its caller is no longer known here"};

	if (caller != NULL)
		intake_evaluate(c, caller, s->caller_id, task, true, &v);
	if (v.kind == GATE_REJECTED) {
		audit_result(s, k, "rejected", v.code, v.message, &v);
		reject(s, v.code, "daemon", v.message, v.suggestion, v.risk);
	} else if (k->decision == PROGRAM_ASK || (v.needs & NEEDS_HUMAN)) {
		pass_to_human(s, k, &v, task);
	} else {
		accept(s, k, &v);
	}
}

/* Reads the task as its caller sent it. 1; 0: it is not there, or not the same; -1: the store cannot be read
 * now. */
static int load_task(struct session *s, struct command *out)
{
	struct core *c = s->core;
	struct buf text = {0};
	int found = store_load_task(c->store, s->key, &text);

	if (found < 0 && store_is_damaged(c->store))
		found = 0;
	if (found > 0 && s->intent.task_hash[0] != '\0') {
		char now[CANONICAL_HASH_SIZE];

		canonical_hash_bytes(text.data, text.size, now);
		found = strcmp(now, s->intent.task_hash) == 0;
	} else if (found > 0) {
		canonical_hash_bytes(text.data, text.size, s->intent.task_hash);
	}
	if (found > 0)
		found = message_read_task(text.data, text.size, c->policy->config->max_depth, out);
	buf_fini(&text);
	return found;
}

static void conclude(struct session *s)
{
	struct core *c = s->core;
	struct policy_wait *k = s->admission.policy_wait;
	struct command cmd = {.kind = COMMAND_SUBMIT};
	int found;

	if (k->decision == PROGRAM_DENY) {
		take_denial(s, k);
		return;
	}
	found = load_task(s, &cmd);
	if (found > 0) {
		evaluate_again(s, k, &cmd.task);
	} else if (found == 0) {
		deny(s, k, "the task is no longer in the store as it was sent");
	} else {
		timer_set(&c->timers, &k->again, clock_boot_us());
		core_suspend(c);
	}
	command_fini(&cmd);
}

static void on_again(struct timer *t)
{
	conclude(container_of(t, struct policy_wait, again)->session);
}

void policy_wait_on_answer(
	struct core *c, int64_t session, enum policy_decision decision, const char *reason, bool has_failed)
{
	struct session *s = session_find_key(c, session);
	struct policy_wait *k;

	if (s == NULL || s->turn.is_closed || s->admission.waits_for != WAITS_FOR_PROGRAM ||
		s->admission.policy_wait != NULL)
		return;
	k = s->admission.policy_wait = xcalloc(1, sizeof *k);
	k->session = s;
	k->decision = decision;
	k->has_failed = has_failed;
	k->again.on_due = on_again;
	snprintf(k->reason, sizeof k->reason, "%s", reason);
	if (has_failed && log_may(&c->limits.program, 10))
		log_warn("%s: session=%.8s caller=%s capability=%s", reason, s->id, s->caller_id,
			s->capability);
	conclude(s);
}
