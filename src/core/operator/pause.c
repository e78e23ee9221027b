/* SPDX-License-Identifier: MIT */
/* pause.c: the verbs pause, resume and checkpoint: lines to the worker, and the worker's replies.
 * Owns the count of replies that are pending. Never waits for a worker: the operator gets an answer at
 * once, and the session's state shows later what the worker did. */
#include "core/operator/operator_private.h"

#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/recovery/restore.h"
#include "core/running/run.h"

/* ---- may a line be sent to the worker? ---- */

/* False: not now; the request is refused with the reason. */
static bool can_act(struct op_request *a, const struct session *s)
{
	if (s->core->phase.is_stopping)
		op_request_refuse(a, "not_now", "start hcpd again, then ask again", "hcpd is stopping");
	else if (session_has_outcome(s))
		op_request_refuse(a, "not_now", "wait for its end", "the end of session %.8s is decided: %s",
			s->id, sstate_names[s->outcome.state]);
	else
		return true;
	return false;
}

static bool can_send(struct op_request *a, const struct session *s)
{
	if (!can_act(a, s))
		return false;
	if (s->run.runner != NULL && s->run.cap->config->protocol == PROTOCOL_TEXT)
		op_request_refuse(a, "refused", "abort it, or let it run",
			"capability %s is of protocol text: its worker hears nothing", s->capability);
	else if (s->run.runner != NULL && !worker_has_stdin(run_worker(s)))
		op_request_refuse(a, "not_now", "look at it with show",
			"the worker of session %.8s is on its way out", s->id);
	else if (s->run.runner != NULL && worker_unwritten(run_worker(s)) >= RUN_UNWRITTEN_MAX)
		op_request_refuse(a, "not_now", "abort it if it hangs",
			"the worker of session %.8s does not read what it is told", s->id);
	else
		return true;
	return false;
}

static void send_to_worker(struct session *s, const char *type, const char *reason)
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

/* ---- pause, resume, checkpoint: sent once, answered later ---- */

/* The same request is pending: a second operator's request changes nothing. */
static bool is_under_way(const struct session *s, enum pause_request what)
{
	return s->pause.request == what && s->pause.replies_pending > 0;
}

static void say_requested(struct op_request *a, const struct session *s)
{
	buf_add_text(&a->done, ",\"asked\":true");
	operator_say_state(a, s);
}

static void request_once(struct session *s, struct op_request *a, enum pause_request what, const char *type,
	const char *reason)
{
	if (!is_under_way(s, what)) {
		s->pause.request = what;
		s->pause.replies_pending++;
		s->pause.requested_us = clock_boot_us();
		send_to_worker(s, type, reason);
	}
	say_requested(a, s);
}

/* Is the worker's line a reply to a request? Pending requests alternate between pause and resume, and
 * pause.request is the last of them. If pause and resume are both pending, one reply may answer only the
 * later. */
static bool is_answer(struct session *s, enum pause_request word)
{
	unsigned taken = (s->pause.request == word) == (s->pause.replies_pending % 2 == 1) ? 1 : 2;

	if (s->pause.replies_pending < taken)
		return false;
	s->pause.replies_pending -= taken;
	return true;
}

static void become_paused(struct session *s)
{
	session_transition(s, S_PAUSED, "paused_by_operator", "operator");
	s->pause.by = PAUSED_BY_OPERATOR;
	CRASH_POINT(operator_paused);
}

bool operator_on_paused(struct session *s)
{
	bool ours = is_answer(s, REQUEST_PAUSE);

	/* it may have paused by itself meanwhile: a second report is no fault */
	if (s->state == S_PAUSED)
		return ours || s->pause.request == REQUEST_PAUSE;
	/* A resume is pending behind the pause, so the session is not paused by an operator: after a crash,
	 * recovery brings it back. */
	if (!ours || s->pause.request != REQUEST_PAUSE || s->state != S_RUNNING)
		return false;
	become_paused(s);
	return true;
}

/* A PAUSED session that would have gone on by itself stays PAUSED. */
static void pin_pause(struct session *s)
{
	s->pause.by = PAUSED_BY_OPERATOR;
	s->pause.recover_as = RECOVERY_NONE;
	timer_cancel(&s->core->timers, &s->attempts.timer);
	/* pause_grace begins here: a session that waits for a slot has no holder */
	s->times.updated_us = clock_wall_us();
	session_mark_dirty(s);
	run_watch_pause(s);
	if (s->run.runner == NULL) {
		if (restore_is_under_way(s))
			restore_drop(s);
		slots_leave(s->core, s);
	}
}

void operator_pause(struct session *s, struct op_request *a)
{
	/* A session that waits for its slot is still PAUSED, and can be paused again. The same holds for one
	 * that has not carried out a resume yet. */
	bool is_going = s->state == S_RUNNING || s->pause.replies_pending > 0 || s->slot.is_waiting ||
		restore_is_under_way(s) || s->pause.by == PAUSED_BY_RETRY ||
		(s->run.is_exiting && s->pause.by == PAUSED_FOR_SLOT);

	if (s->state != S_RUNNING && (s->state != S_PAUSED || !is_going)) {
		op_request_refuse(a, "not_now", "only a RUNNING session can be paused", "session %.8s is %s",
			s->id, sstate_names[s->state]);
		return;
	}
	if (s->state == S_PAUSED && s->run.is_exiting && !s->core->phase.is_stopping &&
		!session_has_outcome(s)) {
		/* the process is ending, so no line is sent; the session stays PAUSED after that */
		pin_pause(s);
		operator_say_state(a, s);
		return;
	}
	if (!can_send(a, s))
		return;
	if (s->run.migration != NULL) {
		op_request_refuse(a, "not_now", "ask again in a moment, or abort it",
			"the state of session %.8s is being migrated", s->id);
		return;
	}
	if (s->run.runner != NULL) {
		if (s->state == S_PAUSED)
			s->pause.by = PAUSED_BY_OPERATOR;
		session_mark_dirty(s);
		if (s->state == S_RUNNING && !is_under_way(s, REQUEST_PAUSE))
			/* a checkpoint first: the pause may last longer than the process */
			checkpoint_request_send(s, CHECKPOINT_BY_PAUSE);
		request_once(s, a, REQUEST_PAUSE, "pause", a->reason != NULL ? a->reason : "operator");
		return;
	}
	if (s->state == S_RUNNING) {
		timer_cancel(&s->core->timers, &s->run.start_retry);
		restore_drop(s);
		become_paused(s);
		slots_leave(s->core, s);
	} else {
		pin_pause(s);
	}
	operator_say_state(a, s);
}

bool operator_on_resumed(struct session *s)
{
	bool ours = is_answer(s, REQUEST_RESUME);

	if (s->state == S_RUNNING)
		return ours || s->pause.request == REQUEST_RESUME;
	if (!ours || s->state != S_PAUSED)
		return false;
	session_run(s, "resumed", "operator");
	CRASH_POINT(operator_resumed);
	return true;
}

/* The session has no process: it starts again as after a crash, when there is a slot. */
static void resume_from_store(struct session *s, struct op_request *a)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);

	if (s->run.migration == NULL && cap != NULL && cap->config->recovery >= RECOVERY_FAIL)
		op_request_refuse(a, "refused", "say with recover what becomes of it",
			"the process of session %.8s is gone, and capability %s does not recover", s->id,
			s->capability);
	else if (s->run.migration == NULL)
		operator_go_on(s, RECOVERY_NONE);
	if (a->code == NULL)
		operator_say_state(a, s);
}

/* The worker was not asked to pause, so nothing is sent to it. */
static void end_idle_pause(struct session *s, struct op_request *a)
{
	checkpoint_request_on_resumed(s);
	session_run(s, "resumed", "operator");
	s->run.active_us = clock_boot_us();
	CRASH_POINT(operator_idle_resumed);
	operator_say_state(a, s);
}

void operator_resume(struct session *s, struct op_request *a)
{
	bool is_idle;

	if (s->state != S_PAUSED && s->pause.replies_pending == 0) {
		op_request_refuse(a, "not_now", "only a PAUSED session can be resumed", "session %.8s is %s",
			s->id, sstate_names[s->state]);
		return;
	}
	is_idle = s->state == S_PAUSED && s->pause.by == PAUSED_BY_IDLE;
	if (!(s->run.is_exiting || is_idle ? can_act(a, s) : can_send(a, s)))
		return;
	if (s->state == S_PAUSED && !operator_may_go_on(s, s->run.runner == NULL || s->run.is_exiting, a))
		return;
	if (s->run.runner == NULL || s->run.is_exiting)
		resume_from_store(s, a);
	else if (is_idle)
		end_idle_pause(s, a);
	else
		request_once(s, a, REQUEST_RESUME, "resume", NULL);
}

void operator_checkpoint(struct session *s, struct op_request *a)
{
	if (s->run.runner == NULL) {
		op_request_refuse(a, "not_now", "ask again when it runs",
			"session %.8s is %s and has no worker to ask", s->id, sstate_names[s->state]);
		return;
	}
	if (!can_send(a, s))
		return;
	CRASH_POINT(operator_checkpoint);
	checkpoint_request_send(s, CHECKPOINT_BY_OPERATOR);
	say_requested(a, s);
}

/* A request counts as pending only while the state differs from what was requested. */
void operator_describe_pending(const struct session *s, struct op_live *l)
{
	int64_t since = s->checkpoint.request.sent_us;

	if (is_under_way(s, REQUEST_PAUSE) && s->state == S_RUNNING)
		l->asked = "pause";
	else if (is_under_way(s, REQUEST_RESUME) && s->state == S_PAUSED)
		l->asked = "resume";
	if (l->asked != NULL)
		since = s->pause.requested_us;
	else if (checkpoint_request_is_waiting(s))
		l->asked = "checkpoint";
	l->unanswered = s->checkpoint.request.unanswered;
	l->asked_us = l->asked != NULL ? clock_boot_us() - since : 0;
}
