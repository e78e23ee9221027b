/* intake.c: commands from the bus: who says it, was it said before, may it be, and what follows.
 * Owns deduplication and the answers to submits. Never acks by itself: that waits for the commit. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/admission/policy_wait.h"
#include "core/running/continuity.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/running/harp_events.h"

/* A submit of this turn, which the store does not know before the commit. */
struct submit_seen {
	UT_hash_handle hh;
	int64_t answer;
	char key[CALLER_ID_SIZE + MESSAGE_ID_SIZE];
};

enum taken { TAKEN, DROPPED, UNREADABLE };

static void make_key(char key[CALLER_ID_SIZE + MESSAGE_ID_SIZE], const struct command *cmd)
{
	memset(key, 0, CALLER_ID_SIZE + MESSAGE_ID_SIZE);
	memcpy(key, cmd->caller_id, strlen(cmd->caller_id));
	memcpy(key + CALLER_ID_SIZE, cmd->message_id, strlen(cmd->message_id));
}

static void note_submit(struct core *c, const struct command *cmd, int64_t answer)
{
	struct submit_seen *n = xcalloc(1, sizeof *n);

	n->answer = answer;
	make_key(n->key, cmd);
	HASH_ADD(hh, c->turn_submits, key, sizeof n->key, n);
}

static int64_t find_answer(struct core *c, const struct command *cmd, const struct addressee *to)
{
	char key[CALLER_ID_SIZE + MESSAGE_ID_SIZE];
	struct submit_seen *n;

	make_key(key, cmd);
	HASH_FIND(hh, c->turn_submits, key, sizeof key, n);
	if (n != NULL)
		return n->answer;
	return store_find_answer(c->store, addressee_key(to), cmd->message_id);
}

void intake_end_turn(struct core *c)
{
	struct submit_seen *n, *tmp;

	HASH_ITER(hh, c->turn_submits, n, tmp) {
		HASH_DEL(c->turn_submits, n);
		free(n);
	}
}

/* ---- the audit ---- */

/* Whoever knows no broker's user is counted with the others of that section; strangers have none. */
static void note_decision(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, const struct audit_entry *e)
{
	struct audit_entry row = *e;
	char hash[CANON_HASH_SIZE] = "", with[288];

	row.what = "task";
	row.who = cmd->caller_id;
	row.user = user;
	row.capability = cmd->task.capability;
	row.task = hash;
	snprintf(with, sizeof with, "%s %s", caller != NULL ? caller->name : "", user != NULL ? user : "");
	/* What anybody can send at any rate must not fill the disk; decisions are bounded by the rate limits.
	 */
	if (caller == NULL || cmd->message_id[0] == '\0' ||
		(row.code != NULL && strcmp(row.code, "rate_limited") == 0)) {
		audit_put_refusal(c, &row, with);
		return;
	}
	if (cmd->task.json != NULL)
		canon_hash_bytes(cmd->task.json, cmd->task.json_size, hash);
	audit_put(c, &row);
}

/* ---- answers ---- */

int64_t intake_put_rejected(struct core *c, struct addressee *to, const char *message_id, const char *code,
	const char *message, const char *suggestion, enum risk risk, bool is_fleeting)
{
	struct buf *b = &c->scratch;
	struct store_event e = {.type = TYPE_REJECTED, .is_fleeting = is_fleeting};
	int64_t answer;

	buf_clear(b);
	codec_begin(b, NULL, TYPE_REJECTED);
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
	codec_end(b);
	e.body = blob_new(b->data, b->size);
	answer = outbox_put(c->outbox, to, &e);
	blob_unref(e.body);
	c->stats.rejected++;
	return answer;
}

static void reject(struct core *c, const struct command *cmd, struct addressee *to, const char *code,
	const char *message, const char *suggestion, enum risk risk, bool remember)
{
	int64_t answer =
		intake_put_rejected(c, to, cmd->message_id, code, message, suggestion, risk, !remember);
	char at[CLOCK_TEXT_SIZE];

	if (remember) {
		clock_format(clock_wall_us(), at);
		store_put_submit(c->store, addressee_key(to), cmd->message_id, at, 0, answer);
		note_submit(c, cmd, answer);
	}
	CRASH_POINT(intake_rejected);
	log_info("task rejected: caller=%s code=%s why=%s", cmd->caller_id, code, message);
}

/* Said before: the first answer goes out again, as the same bytes. */
static void answer_again(struct core *c, const struct command *cmd, int64_t answer)
{
	CRASH_POINT(intake_again);
	c->stats.duplicates++;
	log_debug("submit was seen before: caller=%s message_id=%s", cmd->caller_id, cmd->message_id);
	if (answer > 0)
		effect_repeat(c, cmd->caller_id, answer);
}

static unsigned count_running(void *arg, const char *capability)
{
	struct core *c = arg;
	struct lane *l;

	HASH_FIND_STR(c->slots.lanes, capability, l);
	return l != NULL ? l->running : 0;
}

void intake_look(struct core *c, const struct config_caller *caller, const struct task *task, bool again,
	struct verdict *v)
{
	const struct config_amqp *link = &c->first_policy->config->amqp;
	struct gate_context context = {.may_wait = again ||
			c->slots.waiting + c->slots.asking < (unsigned)c->policy->config->max_pending,
		.link_is_safe = link->tls && link->verify,
		.can_ask = true,
		.has_program = judge_is_there(c),
		.running = count_running,
		.running_arg = c,
		.rate = again ? NULL : rates_get(&c->rates, caller->name),
		.now_us = clock_boot_us()};

	context.may_start =
		policy_find(c->policy, task->capability) != NULL && slots_has_room(c, task->capability);
	risk_clock_read(clock_wall_us(), &context.clock);
	gate_decide(c->policy, caller, task, &context, v);
	if (v->kind == VERDICT_ASK && (v->ask & ASK_HUMAN) && !policy_can_ask(c->policy, v->risk)) {
		context.can_ask = false;
		gate_decide(c->policy, caller, task, &context, v);
	}
}

/* Nobody is answered: silence means that it is undecided. */
static void wait_for_human(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, struct addressee *to, struct verdict *v)
{
	char why[256];
	struct session *s = review_begin(c, cmd, v, to, why, sizeof why);

	if (s == NULL) {
		snprintf(v->message, sizeof v->message,
			"a human would have to decide, and cannot be shown this task: %s", why);
		reject(c, cmd, to, "policy_denied", v->message, "", v->risk, true);
		note_decision(c, cmd, user, caller,
			&(struct audit_entry){.outcome = "rejected",
				.code = "policy_denied",
				.why = v->message,
				.risk = risk_names[v->risk],
				.rules = v->why});
		return;
	}
	note_submit(c, cmd, 0);
	note_decision(c, cmd, user, caller,
		&(struct audit_entry){.outcome = "waits",
			.session = s->id,
			.risk = risk_names[v->risk],
			.rules = v->why,
			.request = review_request(s)});
	CRASH_POINT(intake_waits);
}

/* False: the store cannot be read now, and nothing happened. */
static bool submit(struct core *c, const struct command *cmd, const char *user,
	const struct config_caller *caller, struct addressee *to)
{
	struct verdict v;
	struct session *s;

	intake_look(c, caller, &cmd->task, false, &v);
	if (continuity_check(c, cmd, &v) < 0)
		return false;
	if (v.kind != VERDICT_REJECTED)
		rate_take(&caller->rate, rates_get(&c->rates, caller->name), clock_boot_us());
	if (v.kind == VERDICT_ASK &&
		(v.ask & ASK_PROGRAM)) { /* a human is asked only about what it lets pass */
		s = consult_begin(c, cmd, user, &v, to);
		note_submit(c, cmd, 0);
		note_decision(c, cmd, user, caller,
			&(struct audit_entry){.outcome = "waits",
				.session = s->id,
				.risk = risk_names[v.risk],
				.rules = v.why,
				.about = "the policy program is asked"});
		return true;
	}
	if (v.kind == VERDICT_ASK) {
		wait_for_human(c, cmd, user, caller, to, &v);
		return true;
	}
	if (v.kind != VERDICT_APPROVED) {
		reject(c, cmd, to, v.code, v.message, v.suggestion, v.risk, true);
		note_decision(c, cmd, user, caller,
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
	note_submit(c, cmd, s->answer);
	note_decision(c, cmd, user, caller,
		&(struct audit_entry){
			.outcome = "accepted", .session = s->id, .risk = risk_names[v.risk], .rules = v.why});
	CRASH_POINT(intake_accepted);
	slots_wait(c, s);
	(void)core_fill_slots(c); /* the commit tries it again, and says what is wrong */
	s->is_fresh = false;
	return true;
}

/* A submit, or something that its sender meant to be one. */
static enum taken take_submit(
	struct core *c, const struct command *cmd, const char *user, enum codec_verdict verdict)
{
	struct verdict v;
	const struct config_caller *caller = gate_identify(c->policy, cmd->caller_id, user, &v);
	bool has_id = cmd->message_id[0] != '\0';
	int64_t answer = STORE_UNSEEN;
	struct addressee *to = NULL;
	bool is_crowd = caller == NULL && outbox_is_crowded(c->outbox);

	if (!is_crowd && (to = outbox_addressee(c->outbox, cmd->caller_id)) == NULL)
		return UNREADABLE;
	if (caller == NULL)
		note_decision(c, cmd, user, NULL,
			&(struct audit_entry){.outcome = "rejected", .code = v.code, .why = v.message});
	if (is_crowd)
		return DROPPED; /* anybody can make up names: they must not fill our memory */
	c->stats.submits++;
	if (caller == NULL) {
		/* Not remembered: a stranger must not use up another's message_id. */
		reject(c, cmd, to, v.code, v.message, "", R_NONE, false);
		return TAKEN;
	}
	if (has_id)
		answer = find_answer(c, cmd, to);
	if (answer == STORE_UNREADABLE || !tell_prepare(c, cmd->task.capability, cmd->caller_id))
		return UNREADABLE;
	if (answer != STORE_UNSEEN)
		answer_again(c, cmd, answer);
	else if (verdict == CODEC_OK)
		return submit(c, cmd, user, caller, to) ? TAKEN : UNREADABLE;
	else {
		reject(c, cmd, to, cmd->code, cmd->message, "", R_NONE, has_id);
		note_decision(c, cmd, user, caller,
			&(struct audit_entry){.outcome = "rejected", .code = cmd->code, .why = cmd->message});
	}
	return TAKEN;
}

/* ---- aborts ---- */

/* A token decides where there is one; else the broker-validated user does, where the caller has one. Once its
 * token was revoked nothing but that user counts, whether the message still carries the token or not. NULL:
 * it may; else why not. */
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
	if (s != NULL && s->waits_for != WAITS_NOT) { /* its caller was told of no session */
		log_info("abort of a session that is not accepted yet, nothing to do: session=%.8s", s->id);
		return;
	}
	if (s == NULL || s->is_closed) {
		bool ended = s != NULL || store_find_session(c->store, cmd->session_id, state) > 0;

		log_info("abort of a session that %s, nothing to do: session=%.8s",
			ended ? "has ended" : "is not known", cmd->session_id);
		return;
	}
	if ((row.code = refuse_abort(c, s, cmd, user)) != NULL) {
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
	audit_put(c, &row);
	if (run_abort(s, "aborted_by_caller", "caller", cmd->reason))
		log_info("aborted by its caller: session=%.8s why=%s", s->id,
			cmd->reason != NULL ? cmd->reason : "-");
	else
		log_info("abort came after the end was decided: session=%.8s", s->id);
}

/* ---- one delivery ---- */

static void drop(struct core *c, const struct bus_in *in, const char *why)
{
	CRASH_POINT(intake_dropped);
	c->stats.dropped++;
	if (log_may(&c->drop_limit, 20))
		log_warn("a command was dropped: why=%s bytes=%zu user=%s", why, in->size,
			in->has_user ? in->user : "-");
	effect_reject(c, in->life, in->tag);
}

bool intake_take(struct core *c, const struct bus_in *in)
{
	const char *user = in->has_user ? in->user : NULL;
	enum taken taken = TAKEN;
	enum codec_verdict verdict;
	struct command cmd;

	if (in->body == NULL) {
		drop(c, in, "larger than the message limit");
		return true;
	}
	CRASH_POINT(intake_taken);
	verdict = codec_read(in->body, in->size, c->policy->config->max_depth, &cmd);
	if (verdict == CODEC_DROP)
		taken = DROPPED;
	else if (verdict == CODEC_OK && cmd.kind == COMMAND_ABORT)
		take_abort(c, &cmd, user);
	else
		taken = take_submit(c, &cmd, user, verdict);
	if (taken == TAKEN)
		effect_ack(c, in->life, in->tag);
	else if (taken == DROPPED)
		drop(c, in,
			verdict == CODEC_DROP ? cmd.message :
						"an unknown caller, and too many have answers waiting");
	CRASH_POINT(intake_decided);
	command_fini(&cmd);
	return taken != UNREADABLE;
}
