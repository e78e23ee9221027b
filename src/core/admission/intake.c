/* SPDX-License-Identifier: MIT */
/* intake.c: commands from the bus: who sends it, is it a duplicate, may it be, and what follows.
 * Owns deduplication and the answers to submits. Never acks by itself: the ack is an effect, after the
 * commit. */
#include "core/admission/intake.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/admission/answers.h"
#include "core/admission/caller_log.h"
#include "core/admission/policy_wait.h"
#include "core/running/continuity.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "base/text.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/running/harp_events.h"

#define SUBMIT_KEY_SIZE (CALLER_ID_SIZE + MESSAGE_ID_SIZE)

/* A submit of this turn, which the store does not know before the commit. */
struct submit_seen {
	UT_hash_handle hh;
	int64_t answer;
	char key[SUBMIT_KEY_SIZE];
};

enum taken { TAKEN, DROPPED, UNREADABLE };

/* The two ids with a NUL between them, which neither has. Returns its size. */
static size_t make_key(char key[SUBMIT_KEY_SIZE], const struct command *cmd)
{
	size_t size = text_copy(key, CALLER_ID_SIZE, cmd->caller_id) + 1;

	return size + text_copy(key + size, MESSAGE_ID_SIZE, cmd->message_id);
}

static void remember_submit(struct core *c, const struct command *cmd, int64_t answer)
{
	struct submit_seen *n = xmalloc(sizeof *n);

	n->answer = answer;
	HASH_ADD(hh, c->turn.submits, key, make_key(n->key, cmd), n);
}

static int64_t find_answer(struct core *c, const struct command *cmd, const struct outbox_caller *to)
{
	char key[SUBMIT_KEY_SIZE];
	size_t size = make_key(key, cmd);
	struct submit_seen *n;

	HASH_FIND(hh, c->turn.submits, key, size, n);
	if (n != NULL)
		return n->answer;
	return store_find_answer(c->store, outbox_caller_key(to), cmd->message_id);
}

void intake_end_turn(struct core *c)
{
	struct submit_seen *n, *tmp;

	HASH_ITER(hh, c->turn.submits, n, tmp) {
		HASH_DEL(c->turn.submits, n);
		free(n);
	}
}

/* ---- the audit ---- */

/* Rejections of one caller section and code in a minute that have a row each. */
#define ROWS_A_MINUTE 60

/* Puts a decision about a task into the audit. Refusals without a broker's user are counted together by
 * caller section; unknown callers have no section. */
static void audit_decision(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, const struct audit_entry *e)
{
	struct audit_entry row = *e;
	char hash[CANONICAL_HASH_SIZE] = "", with[288];

	row.what = "task";
	row.who = cmd->caller_id;
	row.user = user;
	row.capability = cmd->task.capability;
	row.task = e->task != NULL ? e->task : hash;
	if (strcmp(row.outcome, "rejected") == 0)
		snprintf(with, sizeof with, "%s %s", caller != NULL ? caller->name : "",
			user != NULL ? user : "");
	/* Refusals that any sender can cause at any rate must not fill the disk. Tasks that are not refused
	 * are bounded by the limits of sessions. */
	if (caller == NULL || cmd->message_id[0] == '\0' ||
		(row.code != NULL && strcmp(row.code, "rate_limited") == 0)) {
		audit_put_refusal(c, &row, with);
		return;
	}
	if (e->task == NULL && cmd->task.json != NULL)
		canonical_hash_bytes(cmd->task.json, cmd->task.json_size, hash);
	if (strcmp(row.outcome, "rejected") != 0) {
		audit_put(c, &row);
		return;
	}
	row.rows = ROWS_A_MINUTE;
	audit_put_refusal(c, &row, with);
}

/* ---- answers ---- */

int64_t intake_put_rejected(struct core *c, struct outbox_caller *to, int64_t session, const char *message_id,
	const char *code, const char *message, const char *suggestion, enum risk risk, bool is_transient)
{
	struct buf *b = &c->turn.scratch;
	struct store_event e = {.session = session, .type = TYPE_REJECTED, .is_transient = is_transient};
	int64_t answer;

	buf_clear(b);
	message_begin(b, NULL, TYPE_REJECTED);
	buf_addf(b, "{\"reason_code\":\"%s\",\"reason_message\":", code);
	buf_add_json(b, message, strlen(message));
	if (risk != R_NONE)
		buf_addf(b, ",\"assessed_risk_level\":\"%s\"", risk_names[risk]);
	if (suggestion[0] != '\0') {
		buf_add_text(b, ",\"suggestion\":");
		buf_add_json(b, suggestion, strlen(suggestion));
	}
	buf_add_text(b, ",\"in_reply_to\":");
	if (message_id[0] != '\0')
		buf_add_json(b, message_id, strlen(message_id));
	else
		buf_add_text(b, "null");
	buf_add_text(b, "}");
	message_end(b);
	e.body = blob_new(b->data, b->size);
	answer = outbox_put(c->outbox, to, &e);
	blob_unref(e.body);
	c->stats.rejected++;
	return answer;
}

/* `caller` NULL: its sender is not known. */
static void reject(struct core *c, const struct command *cmd, const struct config_caller *caller,
	struct outbox_caller *to, const char *code, const char *message, const char *suggestion,
	enum risk risk, bool remember)
{
	int64_t answer =
		intake_put_rejected(c, to, 0, cmd->message_id, code, message, suggestion, risk, !remember);
	char at[CLOCK_TEXT_SIZE];

	if (remember) {
		clock_format(clock_wall_us(), at);
		store_put_submit(c->store, outbox_caller_key(to), cmd->message_id, at, 0, answer);
		remember_submit(c, cmd, answer);
	}
	answers_added(c);
	CRASH_POINT(intake_rejected);
	if (caller_log_may(c, caller, LOG_LVL_INFO))
		log_info("task rejected: caller=%s code=%s why=%s", cmd->caller_id, code, message);
}

/* A duplicate submit: the first answer goes out again, as the same bytes. */
static void answer_again(struct core *c, const struct command *cmd, int64_t answer)
{
	CRASH_POINT(intake_again);
	c->stats.duplicates++;
	log_debug("submit was seen before: caller=%s message_id=%s", cmd->caller_id, cmd->message_id);
	if (answer > 0)
		effect_resend(c, cmd->caller_id, answer);
}

static unsigned count_running(void *arg, const char *capability)
{
	struct core *c = arg;
	struct slot_queue *q;

	HASH_FIND_STR(c->slots.queues, capability, q);
	return q != NULL ? q->running : 0;
}

/* [caller *] limits each caller that it matches by itself. Names can be made up without end there, so the
 * buckets of such callers are bounded in number. */
static bool is_any(const struct config_caller *caller)
{
	return strcmp(caller->name, "*") == 0;
}

void intake_evaluate(struct core *c, const struct config_caller *caller, const char *caller_id,
	const struct task *task, bool again, struct gate_result *v)
{
	const struct config_amqp *amqp = &c->first_policy->config->amqp;
	const struct slot_caller *own = slots_find_caller(c, caller_id);
	struct gate_context context = {.link_is_safe = amqp->tls && amqp->verify,
		.has_approver = true,
		.has_program = policy_program_is_there(c),
		.running = count_running,
		.running_arg = c,
		.rate = again ? NULL : rates_find(&c->rates, caller_id, is_any(caller)),
		.now_us = clock_boot_us()};

	context.may_start = policy_find(c->policy, task->capability) != NULL &&
		slots_has_room(c, task->capability) && slots_caller_has_room(c, caller_id);
	context.may_wait = gate_may_wait(c->policy->config, caller, c->slots.waiting + c->slots.undecided,
				   own != NULL ? own->waiting + own->undecided : 0, &context.full) ||
		again;
	risk_clock_read(clock_wall_us(), &context.clock);
	gate_decide(c->policy, caller, task, &context, v);
	if (v->kind == GATE_NEEDS_APPROVAL && (v->needs & NEEDS_HUMAN) &&
		!policy_has_approver(c->policy, v->risk)) {
		context.has_approver = false;
		gate_decide(c->policy, caller, task, &context, v);
	}
}

/* The caller gets no answer now: silence means that the task is undecided. */
static void wait_for_human(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, struct outbox_caller *to, struct gate_result *v)
{
	char why[256];
	struct session *s = approval_begin(c, cmd, v, to, why, sizeof why);

	if (s == NULL) {
		snprintf(v->message, sizeof v->message,
			"a human would have to decide, and cannot be shown this task: %s", why);
		reject(c, cmd, caller, to, "policy_denied", v->message, "", v->risk, true);
		audit_decision(c, cmd, user, caller,
			&(struct audit_entry){.outcome = "rejected",
				.code = "policy_denied",
				.why = v->message,
				.risk = risk_names[v->risk],
				.rules = v->why});
		return;
	}
	remember_submit(c, cmd, 0);
	audit_decision(c, cmd, user, caller,
		&(struct audit_entry){.outcome = "waits",
			.session = s->id,
			.risk = risk_names[v->risk],
			.rules = v->why,
			.request = approval_request(s)});
	CRASH_POINT(intake_waits);
}

static void take_rate(struct core *c, const struct config_caller *caller, const char *caller_id)
{
	int64_t now_us = clock_boot_us();

	if (caller->rate.count > 0)
		rate_take(&caller->rate, rates_get(&c->rates, caller_id, is_any(caller), now_us), now_us);
}

/* False: the store cannot be read now, and nothing happened. */
static bool submit(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, struct outbox_caller *to)
{
	struct gate_result v;
	struct session *s;

	intake_evaluate(c, caller, cmd->caller_id, &cmd->task, false, &v);
	if (continuity_check(c, cmd, &v) < 0)
		return false;
	if (v.retry_us == 0)
		take_rate(c, caller, cmd->caller_id);
	/* the program first: a human decides only about what the program allows */
	if (v.kind == GATE_NEEDS_APPROVAL && (v.needs & NEEDS_PROGRAM)) {
		s = policy_wait_begin(c, cmd, user, &v, to);
		remember_submit(c, cmd, 0);
		audit_decision(c, cmd, user, caller,
			&(struct audit_entry){.outcome = "waits",
				.session = s->id,
				.risk = risk_names[v.risk],
				.rules = v.why,
				.about = "the policy program is asked"});
		return true;
	}
	if (v.kind == GATE_NEEDS_APPROVAL) {
		wait_for_human(c, cmd, user, caller, to, &v);
		return true;
	}
	if (v.kind != GATE_APPROVED) {
		reject(c, cmd, caller, to, v.code, v.message, v.suggestion, v.risk, true);
		audit_decision(c, cmd, user, caller,
			&(struct audit_entry){.outcome = "rejected",
				.code = v.code,
				.why = v.message,
				.risk = risk_names[v.risk],
				.rules = v.why});
		return true;
	}
	s = session_new(c, cmd, &v, to);
	if (v.why[0] != '\0')
		log_info("risk was raised: session=%.8s risk=%s why=%s", s->id, risk_names[v.risk], v.why);
	remember_submit(c, cmd, s->admission.answer);
	audit_decision(c, cmd, user, caller,
		&(struct audit_entry){.outcome = "accepted",
			.session = s->id,
			.risk = risk_names[v.risk],
			.rules = v.why,
			.task = s->intent.task_hash});
	CRASH_POINT(intake_accepted);
	core_queue_accepted(s);
	return true;
}

/* A broken message that its sender meant to be a submit. */
static void refuse_broken(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, struct outbox_caller *to)
{
	struct gate_result v = {.code = cmd->code};

	snprintf(v.message, sizeof v.message, "%s", cmd->message);
	if (gate_is_within_rate(
		    caller, rates_find(&c->rates, cmd->caller_id, is_any(caller)), clock_boot_us(), &v))
		take_rate(c, caller, cmd->caller_id);
	reject(c, cmd, caller, to, v.code, v.message, v.suggestion, R_NONE, cmd->message_id[0] != '\0');
	audit_decision(c, cmd, user, caller,
		&(struct audit_entry){.outcome = "rejected", .code = v.code, .why = v.message});
}

/* A submit, or a broken message that its sender meant to be one. */
static enum taken take_submit(
	struct core *c, const struct command *cmd, const char *user, enum message_result result)
{
	struct gate_result v;
	const struct config_caller *caller = gate_identify(c->policy, cmd->caller_id, user, &v);
	bool has_id = cmd->message_id[0] != '\0';
	int64_t answer = STORE_UNSEEN;
	struct outbox_caller *to = NULL;
	bool is_crowd = caller == NULL && outbox_is_crowded(c->outbox);

	if (!is_crowd && (to = outbox_find_caller(c->outbox, cmd->caller_id)) == NULL)
		return UNREADABLE;
	if (caller == NULL)
		audit_decision(c, cmd, user, NULL,
			&(struct audit_entry){.outcome = "rejected", .code = v.code, .why = v.message});
	if (is_crowd)
		return DROPPED; /* Senders can make up caller ids without end, and each would take memory. */
	c->stats.submits++;
	if (caller == NULL) {
		/* Not remembered: an unknown sender must not use up a message_id of the real caller. */
		reject(c, cmd, NULL, to, v.code, v.message, "", R_NONE, false);
		return TAKEN;
	}
	if (has_id)
		answer = find_answer(c, cmd, to);
	if (answer == STORE_UNREADABLE || !harp_events_prepare(c, cmd))
		return UNREADABLE;
	if (answer != STORE_UNSEEN)
		answer_again(c, cmd, answer);
	else if (result == MESSAGE_OK)
		return submit(c, cmd, user, caller, to) ? TAKEN : UNREADABLE;
	else
		refuse_broken(c, cmd, user, caller, to);
	return TAKEN;
}

/* ---- aborts ---- */

/* May this abort be carried out? A token decides where the message has one; else the broker-validated user
 * does, where the caller has one. After its token was revoked only that user counts. NULL: yes; else the
 * reason. */
static const char *refuse_abort(
	struct core *c, const struct session *s, const struct command *cmd, const char *user)
{
	const struct config_caller *caller = config_find_caller(c->policy->config, s->caller_id);
	enum token_fault fault = cmd->token != NULL ? session_check_token(s, cmd->token, 0) : TOKEN_REVOKED;
	bool has_proof = caller != NULL && caller->amqp_user != NULL && user != NULL &&
		strcmp(user, caller->amqp_user) == 0;

	if (fault != TOKEN_REVOKED)
		return fault == TOKEN_GOOD ? NULL : token_fault_names[fault];
	if (has_proof ||
		(caller != NULL && caller->amqp_user == NULL && cmd->token == NULL && !s->token_revoked))
		return NULL;
	return s->token_revoked ? token_fault_names[TOKEN_REVOKED] : "not_the_owner";
}

/* The audit's code for an abort without a session to end. A token that no key of the daemon signed for this
 * session is worth more attention than an abort that came late. */
static const char *idle_abort_code(struct core *c, const struct command *cmd, const char *code)
{
	const struct token_session none = {.session_id = cmd->session_id, .token = ""};
	enum token_fault fault = TOKEN_GOOD;

	if (cmd->token != NULL)
		fault = token_check(&c->keys, cmd->token, &none, 0);
	/* not issued: signed here for this session, and the token that it was given is not at hand */
	return fault == TOKEN_GOOD || fault == TOKEN_NOT_ISSUED ? code : token_fault_names[fault];
}

/* An abort that finds nothing to end: no effect, but a line in the log and, counted, a row in the audit. */
static void refuse_idle_abort(
	struct core *c, const struct command *cmd, const char *user, const char *what, const char *code)
{
	struct audit_entry row = {.what = "abort",
		.outcome = "refused",
		.user = user,
		.session = cmd->session_id,
		.why = cmd->reason};

	row.code = idle_abort_code(c, cmd, code);
	if (caller_log_may(c, NULL, LOG_LVL_INFO))
		log_info("abort of a session that %s, nothing to do: session=%.8s code=%s", what,
			cmd->session_id, row.code);
	CRASH_POINT(intake_abort_idle);
	audit_put_refusal(c, &row, user);
}

static void take_abort(struct core *c, const struct command *cmd, const char *user)
{
	struct session *s = session_find(c, cmd->session_id);
	struct audit_entry row = {.what = "abort",
		.outcome = "done",
		.user = user,
		.session = cmd->session_id,
		.why = cmd->reason};
	char state[16];

	c->stats.aborts++;
	if (s != NULL &&
		s->admission.waits_for != WAITS_NOT) { /* its caller does not know of the session yet */
		refuse_idle_abort(c, cmd, user, "is not accepted yet", "not_accepted");
		return;
	}
	if (s == NULL || s->turn.is_closed) {
		bool ended = s != NULL || store_find_session(c->store, cmd->session_id, state) > 0;

		refuse_idle_abort(c, cmd, user, ended ? "has ended" : "is not known",
			ended ? "session_over" : "unknown_session");
		return;
	}
	if ((row.code = refuse_abort(c, s, cmd, user)) != NULL) {
		if (caller_log_may(c, NULL, LOG_LVL_WARN))
			log_warn("abort refused, %s: session=%.8s code=%s user=%s",
				cmd->token != NULL ? "its token does not count" :
						     "its sender does not own the session",
				s->id, row.code, user != NULL ? user : "-");
		row.outcome = "refused";
		audit_put_refusal(c, &row, user);
		return;
	}
	CRASH_POINT(intake_abort);
	row.who = s->caller_id;
	if (session_has_outcome(s)) { /* it changes nothing, however often it comes: it is counted */
		row.outcome = "refused";
		row.code = "end_decided";
		audit_put_refusal(c, &row, s->id);
	} else {
		audit_put(c, &row);
	}
	if (run_abort(s, "aborted_by_caller", "caller", cmd->reason))
		log_info("aborted by its caller: session=%.8s why=%s", s->id,
			cmd->reason != NULL ? cmd->reason : "-");
	else if (caller_log_may_id(c, s->caller_id, LOG_LVL_INFO))
		log_info("abort came after the end was decided: session=%.8s", s->id);
}

/* ---- one delivery ---- */

static void drop(struct core *c, const struct bus_in *in, const char *why)
{
	CRASH_POINT(intake_dropped);
	c->stats.dropped++;
	if (log_may(&c->limits.drop, 20))
		log_warn("a command was dropped: why=%s bytes=%zu user=%s", why, in->size,
			in->has_user ? in->user : "-");
	effect_reject(c, in->generation, in->tag);
}

/* A sender that is refused whatever it sends costs one pass over its bytes, and no tree. */
static bool is_refused_by_name(struct core *c, const struct bus_in *in, struct command *cmd)
{
	struct gate_result v;

	return message_scan_submit(in->body, in->size, cmd) &&
		gate_identify(c->policy, cmd->caller_id, in->has_user ? in->user : NULL, &v) == NULL;
}

bool intake_take(struct core *c, const struct bus_in *in)
{
	const char *user = in->has_user ? in->user : NULL;
	enum taken taken = TAKEN;
	enum message_result result;
	struct command cmd;

	if (in->body == NULL) {
		drop(c, in, "larger than the message limit");
		return true;
	}
	CRASH_POINT(intake_taken);
	if (is_refused_by_name(c, in, &cmd)) {
		result = MESSAGE_OK;
	} else {
		command_fini(&cmd);
		result = message_read(in->body, in->size, c->policy->config->max_depth, &cmd);
	}
	if (result == MESSAGE_DROP)
		taken = DROPPED;
	else if (result == MESSAGE_OK && cmd.kind == COMMAND_ABORT)
		take_abort(c, &cmd, user);
	else
		taken = take_submit(c, &cmd, user, result);
	if (taken == TAKEN)
		effect_ack(c, in->generation, in->tag);
	else if (taken == DROPPED)
		drop(c, in,
			result == MESSAGE_DROP ? cmd.message :
						 "an unknown caller, and too many have answers waiting");
	CRASH_POINT(intake_decided);
	command_fini(&cmd);
	return taken != UNREADABLE;
}
