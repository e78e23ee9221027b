/* operator.c: somebody at the control socket of the simulated daemon: pauses, resumes, aborts, replays,
 * drains. Stands in for control.c. Owns what is asked, and looks at each answer: is it stored what it says?
 */
#include "sim.h"

#include "control/control.h"

struct control {
	struct ask *asked, **asked_end;
};

static struct control control;

/* ---- control.h ---- */

struct ask *control_take(struct control *ctl)
{
	struct ask *list = ctl->asked;

	ctl->asked = NULL;
	ctl->asked_end = &ctl->asked;
	return list;
}

int control_take_strangers(struct control *ctl, struct control_stranger out[CONTROL_STRANGERS])
{
	(void)ctl, (void)out;
	return 0;
}

static void look_at(const struct ask *a)
{
	const struct jsession *s;
	bool was_asked;

	judge_look();
	if (a->session_id[0] == '\0' || a->code != NULL || (s = judge_find(a->session_id)) == NULL)
		return;
	was_asked = a->done.size > 0 && memmem(a->done.data, a->done.size, "\"asked\"", 7) != NULL;
	if (a->verb == ASK_DECIDE)
		return;
	if (a->verb == ASK_ABORT && strcmp(s->state, "ABORTING") != 0 && !judge_is_over(s->state))
		violation("an operator is told that session %.8s is aborted, and it is %s", s->id, s->state);
	/* The same turn may have brought its end, too. */
	if (a->verb == ASK_PAUSE && !was_asked && strcmp(s->state, "PAUSED") != 0 && !judge_is_over(s->state))
		violation("an operator is told that session %.8s is paused, and it is %s", s->id, s->state);
	if (a->verb == ASK_EXTEND) {
		if (a->token != NULL && strcmp(a->token, s->token) != 0)
			violation("the time of session %.8s is extended for somebody with another's token",
				s->id);
		((struct jsession *)(uintptr_t)s)->extend_granted_us += a->by_us;
		if (s->extend_moved_us < s->extend_granted_us && !judge_is_over(s->state))
			violation(
				"an operator is told that session %.8s has more time, and it has not", s->id);
	}
	if (a->verb == ASK_RESUME)
		cover(was_asked ? OPERATE_RESUMED_LIVE : OPERATE_RESUMED);
}

void control_answer(struct control *ctl, struct ask *a)
{
	(void)ctl;
	if (!sim.is_dead && sim.effects_left > 0 && --sim.effects_left == 0)
		sim_die(CRASH_ANSWER);
	if (!sim.is_dead) {
		sim_trace("operator: %s of %.8s is %s", ask_name(a->verb), a->session_id,
			a->code != NULL ? a->code : "done");
		cover(a->code != NULL ? OPERATE_REFUSED : OPERATE_DONE);
		look_at(a);
		if (a->verb == ASK_DECIDE)
			approver_told(a);
	}
	ask_free(a);
}

void control_on_commit(struct control *ctl)
{
	(void)ctl;
}

/* ---- what is asked ---- */

void operator_begin(void)
{
	control.asked = NULL;
	control.asked_end = &control.asked;
	sim.core.control = &control;
}

void operator_end(void)
{
	for (struct ask *a = control_take(&control), *next; a != NULL; a = next) {
		next = a->next;
		ask_free(a);
	}
}

bool operator_has_asked(void)
{
	return control.asked != NULL;
}

struct ask *operator_ask(enum ask_verb verb, const struct jsession *s)
{
	struct ask *a = ask_new(verb);

	if (s != NULL)
		snprintf(a->session_id, sizeof a->session_id, "%s", s->id);
	a->from = 1 + sim_choose(6);
	a->by_us = (1 + sim_choose(100)) * SECONDS;
	if (verb == ASK_EXTEND && sim_chance(3))
		a->token = xstrdup(sim_chance(2) ?
				s->token :
				judge.sessions[1 + sim_choose((unsigned)judge.session_count)].token);
	snprintf(a->how, sizeof a->how, "%s", recovery_names[sim_choose(RECOVERY_DISCARD)]);
	*control.asked_end = a;
	control.asked_end = &a->next;
	sim_trace("operator asks: %s %.8s", ask_name(verb), a->session_id);
	return a;
}

void operator_act(void)
{
	static const enum ask_verb verbs[] = {ASK_PAUSE, ASK_PAUSE, ASK_PAUSE, ASK_RESUME, ASK_RESUME,
		ASK_RESUME, ASK_CHECKPOINT, ASK_REPLAY, ASK_REPLAY, ASK_RECOVER, ASK_RECOVER, ASK_LIVE,
		ASK_STATS, ASK_ABORT, ASK_EXTEND, ASK_EXTEND, ASK_EXTEND};
	enum ask_verb verb = verbs[sim_choose(sizeof verbs / sizeof *verbs)];
	struct jsession *s = NULL;

	if (sim_chance(30)) {
		operator_ask(sim.core.is_draining ? ASK_UNDRAIN : ASK_DRAIN, NULL);
		return;
	}
	for (unsigned tries = 0;
		tries < 4 && judge.session_count > 0 && (s == NULL || judge_is_over(s->state)); tries++)
		s = &judge.sessions[1 + sim_choose((unsigned)judge.session_count)];
	for (int64_t key = 1; key <= judge.session_count; key++)
		if (sim_chance(2) && strcmp(judge.sessions[key].state, "PAUSED") == 0)
			s = &judge.sessions[key];
	if (verb == ASK_STATS) {
		operator_ask(verb, NULL);
	} else if (s != NULL) {
		if (s->waits[0] != '\0' && sim_chance(3))
			verb = ASK_ABORT;
		else if (strcmp(s->state, "PAUSED") == 0 && sim_chance(2))
			verb = ASK_RESUME;
		s->abort_came |= verb == ASK_ABORT;
		s->cancel_came |= verb == ASK_ABORT;
		struct ask *a = operator_ask(verb, s);

		if (verb == ASK_EXTEND)
			s->extend_asked_us += a->by_us;
	}
}

/* Whoever rests goes on, or ends where it cannot, and new tasks are taken. */
void operator_heal(void)
{
	if (sim.core.is_draining)
		operator_ask(ASK_UNDRAIN, NULL);
	for (int64_t key = 1; key <= judge.session_count; key++) {
		struct jsession *s = &judge.sessions[key];
		bool gives_up = sim_chance(4);

		if (strcmp(s->state, "PAUSED") != 0 && (s->waits[0] == '\0' || !gives_up))
			continue;
		s->abort_came |= gives_up;
		s->cancel_came |= gives_up;
		operator_ask(gives_up ? ASK_ABORT : ASK_RESUME, s);
	}
	for (int64_t id = 1; id <= judge.review_count; id++)
		if (strcmp(judge.reviews[id].state, "AWAITING_DECISION") == 0)
			approver_heal(id);
}
