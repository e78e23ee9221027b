/* SPDX-License-Identifier: MIT */
/* recover_choice.c: the verbs recover (what becomes of a PAUSED session) and extend (a later deadline).
 * Owns the answers to both. Never carries out a recovery itself (recovery/recover.c). */
#include "core/operator/operator_private.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/duration.h"
#include "base/log.h"
#include "core/recovery/resume_check.h"
#include "core/recovery/recover.h"
#include "core/recovery/restore.h"
#include "core/running/run.h"

void operator_go_on(struct session *s, enum recovery how)
{
	CRASH_POINT(operator_resume);
	s->pause.by = PAUSED_FOR_SLOT; /* no holder: after a crash, recovery brings the session back */
	s->pause.recover_as = how;
	timer_cancel(&s->core->timers, &s->attempts.timer);
	session_mark_dirty(s);
	if (restore_is_under_way(s)) { /* from the beginning, as the operator says */
		restore_drop(s);
		slots_leave(s->core, s);
	}
	if (s->run.runner != NULL)
		return; /* run.c puts it into the queue when the process is gone */
	if (!s->slot.is_waiting)
		slots_wait(s->core, s);
	(void)core_fill_slots(s->core); /* where the store cannot be read, the commit tries it again */
}

static void refuse_unreadable(const struct session *s, struct op_request *a)
{
	op_request_refuse(a, "unavailable", "ask again when that is mended", "the store cannot be read: %s",
		store_error(s->core->store));
}

bool operator_may_go_on(const struct session *s, bool needs_process, struct op_request *a)
{
	struct resume_fault f;

	if (resume_check_pass(s, needs_process, &f))
		return true;
	if (f.check == NULL)
		refuse_unreadable(s, a);
	else
		op_request_refuse(a, "refused",
			strcmp(f.check, "tls") == 0 ?
				"mend that and restart hcpd, or end the session" :
				"mend that and reload, then ask again; or end the session",
			"session %.8s may not go on: %s", s->id, f.message);
	return false;
}

static enum recovery find_how(const char *word)
{
	int i = name_find(recovery_names, word);

	return i >= 0 ? (enum recovery)i : RECOVERY_NONE;
}

/* False: not now; the request is refused with the reason. */
static bool is_recoverable(const struct session *s, struct op_request *a)
{
	if (s->core->phase.is_stopping)
		op_request_refuse(a, "not_now", "start hcpd again, then ask again", "hcpd is stopping");
	else if (session_has_outcome(s))
		op_request_refuse(a, "not_now", "wait for its end", "the end of session %.8s is decided: %s",
			s->id, sstate_names[s->outcome.state]);
	else if (s->state != S_PAUSED)
		op_request_refuse(a, "not_now", "only a PAUSED session can be recovered",
			"session %.8s is %s", s->id, sstate_names[s->state]);
	else if (s->run.migration != NULL)
		op_request_refuse(a, "not_now", "ask again in a moment, or abort it",
			"the state of session %.8s is being migrated", s->id);
	else if (s->run.runner != NULL)
		op_request_refuse(a, "not_now",
			s->run.is_exiting ? "ask again in a moment" : "resume it, or abort it",
			"session %.8s has its process yet", s->id);
	else
		return true;
	return false;
}

void operator_recover(struct session *s, struct op_request *a)
{
	enum recovery how = find_how(a->how);

	if (how == RECOVERY_NONE) {
		op_request_refuse(a, "bad_request", "write resume, restart, fail, summarize or discard",
			"a session cannot be recovered by %.15s", a->how);
		return;
	}
	if (!is_recoverable(s, a))
		return;
	CRASH_POINT(operator_recover);
	if (how == RECOVERY_RESUME || how == RECOVERY_RESTART) {
		if (!operator_may_go_on(s, true, a))
			return;
		operator_go_on(s, how);
	} else if (recover_end(s, how, "operator") < 0) {
		refuse_unreadable(s, a);
		return;
	}
	operator_say_state(a, s);
}

/* ---- time ---- */

static void say_extended(struct session *s, int64_t by_us)
{
	char by[DURATION_TEXT_SIZE], until[CLOCK_TEXT_SIZE];
	struct buf b = {0};

	duration_format(by_us, by);
	clock_format(s->times.deadline_us, until);
	buf_addf(&b,
		"{\"level\":\"info\",\"message\":\"the session may take %s "
		"longer\",\"details\":{\"extended_by\":\"%s\","
		"\"deadline\":\"%s\"}}",
		by, by, until);
	session_event(s, "log", b.data, b.size);
	buf_fini(&b);
	if (s->run.runner == NULL || !worker_has_stdin(run_worker(s)) ||
		s->run.cap->config->protocol == PROTOCOL_TEXT ||
		worker_unwritten(run_worker(s)) >= RUN_UNWRITTEN_MAX)
		return;
	buf_addf(&b, "{\"type\":\"extended\",\"deadline\":\"%s\"}", until);
	effect_line(s, b.data, b.size);
	buf_fini(&b);
}

void operator_extend(struct session *s, struct op_request *a)
{
	int64_t longest = s->core->policy->config->max_extended_us, most = s->times.started_us + longest;
	char until[CLOCK_TEXT_SIZE];
	enum token_fault fault;

	if (a->token != NULL && (fault = session_check_token(s, a->token, 0)) != TOKEN_GOOD) {
		op_request_refuse(a, "refused", "ask its owner", "this is not the token of session %.8s: %s",
			s->id, token_fault_names[fault]);
		return;
	}
	if (session_has_outcome(s) || s->times.started_us == 0) {
		op_request_refuse(a, "not_now", "see it with show", "session %.8s %s", s->id,
			s->times.started_us == 0 ? "has not begun, and has no deadline yet" :
						   "is about to end");
		return;
	}
	if (a->by_us <= 0 || a->by_us > longest || s->times.deadline_us + a->by_us > most) {
		clock_format(most, until);
		op_request_refuse(a, "refused", "ask for less, or raise [session] max_extended",
			"the deadline of session %.8s may not be moved beyond %s", s->id, until);
		return;
	}
	s->times.deadline_us += a->by_us;
	session_mark_dirty(s);
	/* Within a run of the daemon the boot clock counts: the time that was left, and the extension. */
	if (timer_is_set(&s->run.deadline))
		timer_set(&s->core->timers, &s->run.deadline, s->run.deadline.at_us + a->by_us);
	say_extended(s, a->by_us);
	CRASH_POINT(operator_extended);
	clock_format(s->times.deadline_us, until);
	buf_addf(&a->done, ",\"deadline\":\"%s\"", until);
	operator_say_state(a, s);
}
