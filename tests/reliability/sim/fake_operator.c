/* SPDX-License-Identifier: MIT */
/* fake_operator.c: an operator at the control socket of the simulated daemon: pauses, resumes, aborts,
 * replays, drains. Stands in for op_queue.c. Owns what is asked, and looks at each answer: is it stored what
 * it says? */
#include "sim.h"

#include "core/op_queue.h"
#include "core/operator/operator.h"

struct op_queue {
	struct op_request *asked, **asked_end;
};

static struct op_queue operators;

/* ---- op_queue.h ---- */

struct op_request *op_queue_take(struct op_queue *ctl)
{
	struct op_request *list = ctl->asked;

	ctl->asked = NULL;
	ctl->asked_end = &ctl->asked;
	return list;
}

int op_queue_take_denied(struct op_queue *ctl, struct denied_peer out[OP_QUEUE_DENIED])
{
	(void)ctl, (void)out;
	return 0;
}

static void look_at(const struct op_request *a)
{
	const struct jsession *s;
	bool was_asked;

	watch_look();
	if (a->session_id[0] == '\0' || a->code != NULL || (s = watch_find(a->session_id)) == NULL)
		return;
	was_asked = a->done.size > 0 && memmem(a->done.data, a->done.size, "\"asked\"", 7) != NULL;
	if (a->verb == OP_DECIDE)
		return;
	if (a->verb == OP_ABORT && strcmp(s->state, "ABORTING") != 0 && !oracle_is_final(s->state))
		violation("an operator is told that session %.8s is aborted, and it is %s", s->id, s->state);
	/* The same turn may have brought its end, too, or the wish of another operator that it goes on. */
	if (a->verb == OP_PAUSE && !was_asked && strcmp(s->state, "PAUSED") != 0 &&
		!oracle_is_final(s->state) && (s->paused_version == 0 || s->version > s->paused_version + 1))
		violation("an operator is told that session %.8s is paused, and it is %s", s->id, s->state);
	if (a->verb == OP_EXTEND) {
		if (a->token != NULL && strcmp(a->token, s->token) != 0)
			violation("the time of session %.8s is extended for somebody with another's token",
				s->id);
		((struct jsession *)(uintptr_t)s)->extend_granted_us += a->by_us;
		if (s->extend_moved_us < s->extend_granted_us && !oracle_is_final(s->state))
			violation(
				"an operator is told that session %.8s has more time, and it has not", s->id);
	}
	if (a->verb == OP_RESUME)
		cover(was_asked ? OPERATE_RESUMED_LIVE : OPERATE_RESUMED);
}

void op_queue_answer(struct op_queue *ctl, struct op_request *a)
{
	(void)ctl;
	if (!sim.is_dead && sim.effects_left > 0 && --sim.effects_left == 0)
		sim_die(CRASH_ANSWER);
	if (!sim.is_dead) {
		sim_trace("operator: %s of %.8s is %s", op_verb_name(a->verb), a->session_id,
			a->code != NULL ? a->code : "done");
		cover(a->code != NULL ? OPERATE_REFUSED : OPERATE_DONE);
		look_at(a);
		if (a->verb == OP_DECIDE)
			approver_told(a);
	}
	op_request_free(a);
}

void op_queue_on_commit(struct op_queue *ctl)
{
	(void)ctl;
}

/* ---- what is asked ---- */

void operator_begin(void)
{
	operators.asked = NULL;
	operators.asked_end = &operators.asked;
	sim.core.operator.queue = & operators;
}

void operator_end(void)
{
	for (struct op_request *a = op_queue_take(&operators), *next; a != NULL; a = next) {
		next = a->next;
		op_request_free(a);
	}
}

bool operator_has_asked(void)
{
	return operators.asked != NULL;
}

struct op_request *operator_ask(enum op_verb verb, const struct jsession *s)
{
	struct op_request *a = op_request_new(verb);

	if (s != NULL)
		snprintf(a->session_id, sizeof a->session_id, "%s", s->id);
	a->from = 1 + sim_choose(6);
	a->by_us = (1 + sim_choose(100)) * SECONDS;
	if (verb == OP_EXTEND && sim_chance(3))
		a->token = xstrdup(sim_chance(2) ?
				s->token :
				watch.sessions[1 + sim_choose((unsigned)watch.session_count)].token);
	snprintf(a->how, sizeof a->how, "%s", recovery_names[sim_choose(RECOVERY_DISCARD)]);
	if (s != NULL && verb == OP_RECOVER && strcmp(a->how, recovery_names[RECOVERY_RESUME]) == 0)
		watch_find(s->id)->resume_came = true;
	*operators.asked_end = a;
	operators.asked_end = &a->next;
	sim_trace("operator asks: %s %.8s", op_verb_name(verb), a->session_id);
	return a;
}

void operator_act(void)
{
	static const enum op_verb verbs[] = {OP_PAUSE, OP_PAUSE, OP_PAUSE, OP_RESUME, OP_RESUME, OP_RESUME,
		OP_CHECKPOINT, OP_REPLAY, OP_REPLAY, OP_RECOVER, OP_RECOVER, OP_LIVE, OP_STATS, OP_ABORT,
		OP_EXTEND, OP_EXTEND, OP_EXTEND};
	enum op_verb verb = verbs[sim_choose(sizeof verbs / sizeof *verbs)];
	struct jsession *s = NULL;

	if (sim_chance(30)) {
		operator_ask(sim.core.phase.is_draining ? OP_UNDRAIN : OP_DRAIN, NULL);
		return;
	}
	for (unsigned tries = 0;
		tries < 4 && watch.session_count > 0 && (s == NULL || oracle_is_final(s->state)); tries++)
		s = &watch.sessions[1 + sim_choose((unsigned)watch.session_count)];
	for (int64_t key = 1; key <= watch.session_count; key++)
		if (sim_chance(2) && strcmp(watch.sessions[key].state, "PAUSED") == 0)
			s = &watch.sessions[key];
	if (verb == OP_STATS) {
		operator_ask(verb, NULL);
	} else if (s != NULL) {
		if (s->waits[0] != '\0' && sim_chance(3))
			verb = OP_ABORT;
		else if (strcmp(s->state, "PAUSED") == 0 && sim_chance(2))
			verb = OP_RESUME;
		s->abort_came |= verb == OP_ABORT;
		s->cancel_came |= verb == OP_ABORT;
		struct op_request *a = operator_ask(verb, s);

		if (verb == OP_EXTEND)
			s->extend_asked_us += a->by_us;
	}
}

/* Whoever rests goes on, or ends where it cannot, and new tasks are taken. */
void operator_heal(void)
{
	if (sim.core.phase.is_draining)
		operator_ask(OP_UNDRAIN, NULL);
	for (int64_t key = 1; key <= watch.session_count; key++) {
		struct jsession *s = &watch.sessions[key];
		bool gives_up = sim_chance(4);

		if (strcmp(s->state, "PAUSED") != 0 && (s->waits[0] == '\0' || !gives_up))
			continue;
		s->abort_came |= gives_up;
		s->cancel_came |= gives_up;
		operator_ask(gives_up ? OP_ABORT : OP_RESUME, s);
	}
	for (int64_t id = 1; id <= watch.review_count; id++)
		if (strcmp(watch.reviews[id].state, "AWAITING_DECISION") == 0)
			approver_heal(id);
}
