/* consult.c: what the policy program is asked about a task, and what becomes of the task.
 * Owns verdicts that wait for the store. Never talks to the program (judge.c), never judges a task (gate.c),
 * never changes a session's state by itself (session.c). */
#include "core/admission/policy_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/admission/approval.h"

/* A verdict came; kept where the task cannot be read just now. */
struct consult {
	struct session *session;
	enum judge_decision decision;
	char reason[513];
	bool has_failed;
	struct timer again; /* due at once, and so after the store gives again */
};

static void ask(struct session *s, const char *user, const char *rules, const char *task, size_t size)
{
	judge_ask(s->core->program,
		&(struct judge_question){.session = s->key,
			.session_id = s->id,
			.caller = s->caller_id,
			.user = user,
			.capability = s->capability,
			.version = s->capability_version,
			.risk = risk_names[s->risk],
			.data_class = data_class_names[s->data_class],
			.rules = rules,
			.task = task,
			.task_size = size});
}

struct session *consult_begin(struct core *c, const struct command *cmd, const char *user,
	const struct verdict *v, struct addressee *to)
{
	struct session *s;
	char id[ID_SIZE];

	id_make(id);
	s = session_ask(c, cmd, v, to, WAITS_FOR_PROGRAM, id);
	ask(s, user, v->why, cmd->task.json, cmd->task.json_size);
	CRASH_POINT(consult_asked);
	log_debug("task waits for the policy program: session=%.8s", s->id);
	return s;
}

void consult_forget(struct session *s)
{
	struct consult *k = s->consult;

	if (s->core->program != NULL)
		judge_forget(s->core->program, s->key);
	if (k == NULL)
		return;
	timer_cancel(&s->core->timers, &k->again);
	free(k);
	s->consult = NULL;
}

int consult_recover(struct session *s)
{
	struct buf task = {0};
	int found = store_load_task(s->core->store, s->key, &task);

	CRASH_POINT(consult_recovering);
	/* Who sent it is known no more, and what raised its risk is looked at again with the verdict. A task
	 * that is lost is found to be so then, too. */
	if (found >= 0)
		ask(s, NULL, NULL, found > 0 ? task.data : "null", found > 0 ? task.size : 4);
	buf_fini(&task);
	return found < 0 ? -1 : 0;
}

/* ---- what follows ---- */

static void note(const struct session *s, const struct consult *k, const char *outcome, const char *code,
	const char *why, const struct verdict *v)
{
	static const char *const said[] = {
		[JUDGE_DENY] = "it said deny", [JUDGE_ALLOW] = "it said allow", [JUDGE_ASK] = "it said ask"};

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
			.request = review_request(s),
			.about = k->has_failed ? "it gave no verdict" : said[k->decision]});
}

static void reject(struct session *s, const char *code, const char *actor, const char *message,
	const char *suggestion, enum risk risk)
{
	int64_t answer =
		intake_put_rejected(s->core, s->to, s->message_id, code, message, suggestion, risk, false);

	log_info("task rejected: session=%.8s caller=%s code=%s why=%s", s->id, s->caller_id, code, message);
	session_reject(s, code, actor, answer);
	consult_forget(s);
	CRASH_POINT(consult_rejected);
}

static void deny(struct session *s, const struct consult *k, const char *why)
{
	note(s, k, "rejected", "policy_denied", why, NULL);
	reject(s, "policy_denied", "program", why, "", s->risk);
}

/* A verdict that is no yes. */
static void take_denial(struct session *s, const struct consult *k)
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
	struct session *s, const struct consult *k, struct verdict *v, const struct task *task)
{
	char why[256], message[384];

	if (k->decision == JUDGE_ASK && !policy_can_ask(s->core->policy, v->risk)) {
		snprintf(message, sizeof message,
			"the policy program wants a human to decide, and there is nobody here who "
			"may%s%.200s",
			k->reason[0] != '\0' ? ": " : "", k->reason);
		deny(s, k, message);
		return;
	}
	if (k->decision == JUDGE_ASK) {
		snprintf(message, sizeof message, "the policy program asks%s%.160s%s%.80s",
			k->reason[0] != '\0' ? ": " : "", k->reason, v->why[0] != '\0' ? "; " : "", v->why);
		snprintf(v->why, sizeof v->why, "%.*s",
			(int)buf_utf8_cut(message, strlen(message), sizeof v->why - 1), message);
	}
	if (!review_take_over(s, v, task, why, sizeof why)) {
		snprintf(message, sizeof message,
			"a human would have to decide, and cannot be shown this task: %s", why);
		deny(s, k, message);
		return;
	}
	note(s, k, "waits", NULL, k->reason, v);
	CRASH_POINT(consult_handed_over);
	consult_forget(s);
}

static void accept(struct session *s, const struct consult *k, const struct verdict *v)
{
	struct core *c = s->core;

	note(s, k, "accepted", NULL, k->reason, v);
	session_accept(s, v);
	consult_forget(s);
	CRASH_POINT(consult_accepted);
	s->is_fresh = true;
	slots_wait(c, s);
	(void)core_fill_slots(c); /* the commit tries it again, and says what is wrong */
	s->is_fresh = false;
}

/* The policy may be another by now. */
static void look_again(struct session *s, const struct consult *k, const struct task *task)
{
	struct core *c = s->core;
	const struct config_caller *caller = config_find_caller(c->policy->config, s->caller_id);
	struct verdict v = {.kind = VERDICT_REJECTED,
		.code = "unauthorized",
		.message = "its caller is no longer known here"};

	if (caller != NULL)
		intake_look(c, caller, task, true, &v);
	if (v.kind == VERDICT_REJECTED) {
		note(s, k, "rejected", v.code, v.message, &v);
		reject(s, v.code, "daemon", v.message, v.suggestion, v.risk);
	} else if (k->decision == JUDGE_ASK || (v.ask & ASK_HUMAN)) {
		pass_to_human(s, k, &v, task);
	} else {
		accept(s, k, &v);
	}
}

/* The task as its caller sent it. 1, 0 where it is none, -1 where the store cannot be read now. */
static int load_task(struct session *s, struct command *out)
{
	struct core *c = s->core;
	struct buf text = {0}, b = {0};
	int found = store_load_task(c->store, s->key, &text);

	if (found < 0 && store_is_damaged(c->store))
		found = 0;
	if (found > 0 && s->task_hash[0] != '\0') {
		char now[CANON_HASH_SIZE];

		canon_hash_bytes(text.data, text.size, now);
		found = strcmp(now, s->task_hash) == 0;
	} else if (found > 0) {
		canon_hash_bytes(text.data, text.size, s->task_hash);
	}
	if (found > 0) {
		codec_begin(&b, NULL, "task_submit"); /* its members are a payload's */
		buf_add(&b, text.data, text.size);
		codec_end(&b);
		found = codec_read(b.data, b.size, c->policy->config->max_depth, out) == CODEC_OK;
	}
	buf_fini(&text);
	buf_fini(&b);
	return found;
}

static void conclude(struct session *s)
{
	struct core *c = s->core;
	struct consult *k = s->consult;
	struct command cmd = {.kind = COMMAND_SUBMIT};
	int found;

	if (k->decision == JUDGE_DENY) {
		take_denial(s, k);
		return;
	}
	found = load_task(s, &cmd);
	if (found > 0) {
		look_again(s, k, &cmd.task);
	} else if (found == 0) {
		deny(s, k, "the task is no longer in the store as it was sent");
	} else {
		timer_set(&c->timers, &k->again, clock_boot_us());
		core_hold(c);
	}
	command_fini(&cmd);
}

static void on_again(struct timer *t)
{
	conclude(container_of(t, struct consult, again)->session);
}

void consult_on_answer(
	struct core *c, int64_t session, enum judge_decision decision, const char *reason, bool has_failed)
{
	struct session *s = session_find_key(c, session);
	struct consult *k;

	if (s == NULL || s->is_closed || s->waits_for != WAITS_FOR_PROGRAM || s->consult != NULL)
		return;
	k = s->consult = xcalloc(1, sizeof *k);
	k->session = s;
	k->decision = decision;
	k->has_failed = has_failed;
	k->again.on_due = on_again;
	snprintf(k->reason, sizeof k->reason, "%s", reason);
	if (has_failed && log_may(&c->judge_limit, 10))
		log_warn("%s: session=%.8s caller=%s capability=%s", reason, s->id, s->caller_id,
			s->capability);
	conclude(s);
}
