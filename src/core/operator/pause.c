/* operate_pause.c: pause, resume and checkpoint: what a worker is told, and what it answers.
 * Never waits for a worker: what it is asked for is answered to the operator at once, and the session's state
 * says later what came of it. */
#include "core/operator/operator_private.h"

#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/recovery/resume_check.h"
#include "core/running/run.h"

/* ---- a worker that can be told something ---- */

/* False: it cannot, and the ask says why. */
static bool can_act(struct ask *a, const struct session *s)
{
	if (s->core->is_stopping)
		ask_refuse(a, "not_now", "start hcpd again, then ask again", "hcpd is stopping");
	else if (session_has_outcome(s))
		ask_refuse(a, "not_now", "wait for its end", "the end of session %.8s is decided: %s", s->id,
			sstate_names[s->outcome.state]);
	else
		return true;
	return false;
}

static bool can_tell(struct ask *a, const struct session *s)
{
	if (!can_act(a, s))
		return false;
	if (s->host != NULL && s->cap->config->protocol == PROTOCOL_TEXT)
		ask_refuse(a, "refused", "abort it, or let it run",
			"capability %s is of protocol text: its worker hears nothing", s->capability);
	else if (s->host != NULL && !worker_has_stdin(run_worker(s)))
		ask_refuse(a, "not_now", "look at it with show",
			"the worker of session %.8s is on its way out", s->id);
	else if (s->host != NULL && worker_unwritten(run_worker(s)) >= RUN_UNWRITTEN_MAX)
		ask_refuse(a, "not_now", "abort it if it hangs",
			"the worker of session %.8s does not read what it is told", s->id);
	else
		return true;
	return false;
}

static void tell(struct session *s, const char *type, const char *reason)
{
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"%s\"", type);
	if (reason != NULL) {
		buf_add_text(&b, ",\"reason\":");
		buf_add_json(&b, reason, strlen(reason));
	}
	buf_add_text(&b, "}");
	effect_line(s, b.data, b.size);
	buf_fini(&b);
}

/* ---- pause, resume, checkpoint: told once, answered later ---- */

/* It was told that and has not answered: a second operator asks for nothing new. */
static bool is_under_way(const struct session *s, enum asked what)
{
	return s->asked == what && s->words_due > 0;
}

static void say_asked(struct ask *a, const struct session *s)
{
	buf_add_text(&a->done, ",\"asked\":true");
	operate_say_state(a, s);
}

static void tell_once(struct session *s, struct ask *a, enum asked what, const char *type, const char *reason)
{
	if (!is_under_way(s, what)) {
		s->asked = what;
		s->words_due++;
		s->asked_us = clock_boot_us();
		tell(s, type, reason);
	}
	say_asked(a, s);
}

/* Its worker says that it paused or resumed: is that an answer? Those that are due were told in turn, the
 * last of them is s->asked; a worker that was told to pause and to go on again in one breath may answer the
 * later one alone. */
static bool is_answer(struct session *s, enum asked word)
{
	unsigned taken = (s->asked == word) == (s->words_due % 2 == 1) ? 1 : 2;

	if (s->words_due < taken)
		return false;
	s->words_due -= taken;
	return true;
}

static void become_paused(struct session *s)
{
	session_go(s, S_PAUSED, "paused_by_operator", "operator");
	s->paused_by = PAUSED_BY_OPERATOR;
	CRASH_POINT(operate_paused);
}

bool operate_on_paused(struct session *s)
{
	bool ours = is_answer(s, ASKED_PAUSE);

	if (s->state == S_PAUSED) /* it paused by itself meanwhile, say: that it is told again is no fault */
		return ours || s->asked == ASKED_PAUSE;
	/* He who wants it to go on again has not paused it: should we crash now, recovery brings it back. */
	if (!ours || s->asked != ASKED_PAUSE || s->state != S_RUNNING)
		return false;
	become_paused(s);
	return true;
}

/* One that is PAUSED anyhow does not go on by itself any more. */
static void hold(struct session *s)
{
	s->paused_by = PAUSED_BY_OPERATOR;
	s->recover_as = RECOVERY_COUNT;
	timer_cancel(&s->core->timers, &s->retry);
	s->updated_us = clock_wall_us(); /* its grace begins here: while it waited to go on nobody held it */
	session_mark_dirty(s);
	run_watch_pause(s);
	if (s->host == NULL)
		slots_leave(s->core, s);
}

void operate_pause(struct session *s, struct ask *a)
{
	/* One that waits to go on is PAUSED yet, and may be told to stay so; one that was told to go on, and
	 * did not yet. */
	bool is_going = s->state == S_RUNNING || s->words_due > 0 || s->is_waiting ||
		s->paused_by == PAUSED_BY_RETRY || (s->is_leaving && s->paused_by == PAUSED_NOT);

	if (s->state != S_RUNNING && (s->state != S_PAUSED || !is_going)) {
		ask_refuse(a, "not_now", "only a RUNNING session can be paused", "session %.8s is %s", s->id,
			sstate_names[s->state]);
		return;
	}
	if (s->state == S_PAUSED && s->is_leaving && !s->core->is_stopping && !session_has_outcome(s)) {
		hold(s); /* it has nobody to tell any more, and stays PAUSED when that is gone */
		operate_say_state(a, s);
		return;
	}
	if (!can_tell(a, s))
		return;
	if (s->migration != NULL) {
		ask_refuse(a, "not_now", "ask again in a moment, or abort it",
			"the state of session %.8s is being migrated", s->id);
		return;
	}
	if (s->host != NULL) {
		if (s->state == S_PAUSED)
			s->paused_by = PAUSED_BY_OPERATOR;
		session_mark_dirty(s);
		if (s->state == S_RUNNING && !is_under_way(s, ASKED_PAUSE))
			trigger_ask(
				s, TRIGGER_PAUSE); /* so that what it did until then is not lost with it */
		tell_once(s, a, ASKED_PAUSE, "pause", a->reason != NULL ? a->reason : "operator");
		return;
	}
	if (s->state == S_RUNNING) {
		timer_cancel(&s->core->timers, &s->again);
		become_paused(s);
		slots_leave(s->core, s);
	} else {
		hold(s);
	}
	operate_say_state(a, s);
}

bool operate_on_resumed(struct session *s)
{
	bool ours = is_answer(s, ASKED_RESUME);

	if (s->state == S_RUNNING)
		return ours || s->asked == ASKED_RESUME;
	if (!ours || s->state != S_PAUSED)
		return false;
	session_run(s, "resumed", "operator");
	CRASH_POINT(operate_resumed);
	return true;
}

/* It has no process: it starts again as after a crash, once there is a slot. */
static void resume_from_store(struct session *s, struct ask *a)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);

	if (s->migration == NULL && cap != NULL && cap->config->recovery >= RECOVERY_FAIL)
		ask_refuse(a, "refused", "say with recover what becomes of it",
			"the process of session %.8s is gone, and capability %s "
			"does not recover",
			s->id, s->capability);
	else if (s->migration == NULL)
		operate_go_on(s, RECOVERY_COUNT);
	if (a->code == NULL)
		operate_say_state(a, s);
}

void operate_resume(struct session *s, struct ask *a)
{
	struct recheck_fault f;

	if (s->state != S_PAUSED && s->words_due == 0) {
		ask_refuse(a, "not_now", "only a PAUSED session can be resumed", "session %.8s is %s", s->id,
			sstate_names[s->state]);
		return;
	}
	if (!(s->is_leaving ? can_act(a, s) : can_tell(a, s)))
		return;
	if (s->state == S_PAUSED && !recheck_pass(s, s->host == NULL || s->is_leaving, &f)) {
		ask_refuse(a, "refused", "mend that and reload, then ask again; or abort it",
			"session %.8s may not go on: %s", s->id, f.message);
		return;
	}
	if (s->host == NULL || s->is_leaving)
		resume_from_store(s, a);
	else
		tell_once(s, a, ASKED_RESUME, "resume", NULL);
}

void operate_checkpoint(struct session *s, struct ask *a)
{
	if (s->host == NULL) {
		ask_refuse(a, "not_now", "ask again when it runs",
			"session %.8s is %s and has no worker to ask", s->id, sstate_names[s->state]);
		return;
	}
	if (!can_tell(a, s))
		return;
	CRASH_POINT(operate_checkpoint);
	trigger_ask(s, TRIGGER_OPERATOR);
	say_asked(a, s);
}

/* What its worker was told and has not done; where it is so already, no answer is missed. */
void operate_look_asked(const struct session *s, struct ask_live *l)
{
	int64_t since = s->trigger.asked_us;

	if (is_under_way(s, ASKED_PAUSE) && s->state == S_RUNNING)
		l->asked = "pause";
	else if (is_under_way(s, ASKED_RESUME) && s->state == S_PAUSED)
		l->asked = "resume";
	if (l->asked != NULL)
		since = s->asked_us;
	else if (trigger_is_waiting(s))
		l->asked = "checkpoint";
	l->unanswered = s->trigger.unanswered;
	l->asked_us = l->asked != NULL ? clock_boot_us() - since : 0;
}
