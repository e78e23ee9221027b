/* operate_recover.c: what an operator decides about a session that does not run, and about the time of one
 * that does. Owns the verbs recover and extend. What each way of recovery is, recover.c says. */
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
#include "core/running/run.h"

void operate_go_on(struct session *s, enum recovery how)
{
	CRASH_POINT(operate_resume);
	s->paused_by = PAUSED_NOT; /* nobody holds it: should we crash now, recovery brings it back */
	s->recover_as = how;
	timer_cancel(&s->core->timers, &s->retry);
	session_mark_dirty(s);
	if (s->host != NULL)
		return; /* it queues once that is gone */
	if (!s->is_waiting)
		slots_wait(s->core, s);
	(void)core_fill_slots(s->core); /* the commit tries it again, and says what is wrong */
}

static enum recovery find_how(const char *word)
{
	int i = 0;

	while (i < RECOVERY_COUNT && strcmp(recovery_names[i], word) != 0)
		i++;
	return (enum recovery)i;
}

/* False: it cannot be recovered now, and the ask says why. */
static bool is_recoverable(const struct session *s, struct ask *a)
{
	if (s->core->is_stopping)
		ask_refuse(a, "not_now", "start hcpd again, then ask again", "hcpd is stopping");
	else if (session_has_outcome(s))
		ask_refuse(a, "not_now", "wait for its end", "the end of session %.8s is decided: %s", s->id,
			sstate_names[s->outcome.state]);
	else if (s->state != S_PAUSED)
		ask_refuse(a, "not_now", "only a PAUSED session can be recovered", "session %.8s is %s",
			s->id, sstate_names[s->state]);
	else if (s->migration != NULL)
		ask_refuse(a, "not_now", "ask again in a moment, or abort it",
			"the state of session %.8s is being migrated", s->id);
	else if (s->host != NULL)
		ask_refuse(a, "not_now", s->is_leaving ? "ask again in a moment" : "resume it, or abort it",
			"session %.8s has its process yet", s->id);
	else
		return true;
	return false;
}

void operate_recover(struct session *s, struct ask *a)
{
	enum recovery how = find_how(a->how);
	struct recheck_fault f;

	if (how == RECOVERY_COUNT) {
		ask_refuse(a, "bad_request", "write resume, restart, fail, summarize or discard",
			"a session cannot be recovered by %.15s", a->how);
		return;
	}
	if (!is_recoverable(s, a))
		return;
	CRASH_POINT(operate_recover);
	if (how == RECOVERY_RESUME || how == RECOVERY_RESTART) {
		if (!recheck_pass(s, true, &f)) {
			ask_refuse(a, "refused",
				"mend that and reload, then ask again; or choose another way",
				"session %.8s may not go on: "
				"%s",
				s->id, f.message);
			return;
		}
		operate_go_on(s, how);
	} else if (recover_end(s, how, "operator") < 0) {
		ask_refuse(a, "unavailable", "ask again when that is mended", "the store cannot be read: %s",
			store_error(s->core->store));
		return;
	}
	operate_say_state(a, s);
}

/* ---- time ---- */

static void say_extended(struct session *s, int64_t by_us)
{
	char by[DURATION_TEXT_SIZE], until[CLOCK_TEXT_SIZE];
	struct buf b = {0};

	duration_format(by_us, by);
	clock_format(s->deadline_us, until);
	buf_addf(&b,
		"{\"level\":\"info\",\"message\":\"the session may take %s "
		"longer\",\"details\":{\"extended_by\":\"%s\","
		"\"deadline\":\"%s\"}}",
		by, by, until);
	session_event(s, "log", b.data, b.size);
	buf_fini(&b);
	if (s->host == NULL || !worker_has_stdin(run_worker(s)) ||
		s->cap->config->protocol == PROTOCOL_TEXT ||
		worker_unwritten(run_worker(s)) >= RUN_UNWRITTEN_MAX)
		return;
	buf_addf(&b, "{\"type\":\"extended\",\"deadline\":\"%s\"}", until);
	effect_line(s, b.data, b.size);
	buf_fini(&b);
}

void operate_extend(struct session *s, struct ask *a)
{
	int64_t longest = s->core->policy->config->max_extended_us, most = s->started_us + longest;
	char until[CLOCK_TEXT_SIZE];
	enum token_fault fault;

	if (a->token != NULL && (fault = session_check_token(s, a->token, 0)) != TOKEN_GOOD) {
		ask_refuse(a, "refused", "ask its owner", "this is not the token of session %.8s: %s", s->id,
			token_fault_names[fault]);
		return;
	}
	if (session_has_outcome(s) || s->started_us == 0) {
		ask_refuse(a, "not_now", "see it with show", "session %.8s %s", s->id,
			s->started_us == 0 ? "has not begun, and has no deadline yet" : "is about to end");
		return;
	}
	if (a->by_us <= 0 || a->by_us > longest || s->deadline_us + a->by_us > most) {
		clock_format(most, until);
		ask_refuse(a, "refused", "ask for less, or raise [session] max_extended",
			"the deadline of session %.8s may not be moved "
			"beyond %s",
			s->id, until);
		return;
	}
	s->deadline_us += a->by_us;
	session_mark_dirty(s);
	/* Within a life the boot clock counts: what it still had, and so much more. */
	if (timer_is_set(&s->deadline))
		timer_set(&s->core->timers, &s->deadline, s->deadline.at_us + a->by_us);
	say_extended(s, a->by_us);
	CRASH_POINT(operate_extended);
	clock_format(s->deadline_us, until);
	buf_addf(&a->done, ",\"deadline\":\"%s\"", until);
	operate_say_state(a, s);
}
