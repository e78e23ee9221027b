/* attempt.c: deaths of a session's worker: counted, said, and followed by another attempt where there is one
 * left. Owns the back-off. Never starts a process: the session queues for a slot, and recover.c brings it
 * back. */
#include "core/running/worker_retry.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/run.h"

#define BACKOFF_MAX_US INT64_C(60000000)

void attempt_begin(struct session *s)
{
	s->checkpoints_before = s->checkpoints;
}

/* Under `text` status 0 is how a task is completed. */
static bool is_death(const struct session *s)
{
	int status = s->exit_status;

	return s->cap->config->protocol != PROTOCOL_TEXT || status == -1 || !WIFEXITED(status) ||
		WEXITSTATUS(status) != 0;
}

static bool has_another(const struct session *s)
{
	const struct config_capability *cc = s->cap->config;

	return s->deaths < cc->max_attempts &&
		(cc->recovery == RECOVERY_RESUME || cc->recovery == RECOVERY_RESTART);
}

/* An attempt that came further than the one before it is no part of a loop. */
static void set_backoff(struct session *s)
{
	if (s->checkpoints > s->checkpoints_before || s->retry_us == 0)
		s->retry_us = s->cap->config->retry_delay_us;
	else
		s->retry_us = s->retry_us < BACKOFF_MAX_US / 2 ? s->retry_us * 2 : BACKOFF_MAX_US;
}

static void say_death(struct session *s)
{
	int status = s->exit_status;
	char how[64], text[256];
	struct buf b = {0};

	if (status != -1 && WIFSIGNALED(status))
		snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		snprintf(how, sizeof how, "ended with status %d", status != -1 ? WEXITSTATUS(status) : -1);
	snprintf(text, sizeof text,
		"the worker %s and neither completed nor failed; it is started again (death %lld of at most "
		"%d)",
		how, (long long)s->deaths, s->cap->config->max_attempts);
	buf_add_text(&b, "{\"code\":\"worker_died\",\"message\":");
	buf_add_json(&b, text, strlen(text));
	buf_add_text(&b, ",\"recoverable\":true}");
	session_event(s, "error", b.data, b.size);
	buf_fini(&b);
	log_warn("a worker died and is started again: session=%.8s deaths=%lld again_in=%lldms why=%s", s->id,
		(long long)s->deaths, (long long)(s->retry_us / 1000), how);
}

bool attempt_take_death(struct session *s)
{
	bool holds = s->paused_by == PAUSED_BY_OPERATOR || (s->asked == ASKED_PAUSE && s->words_due > 0);

	if (!is_death(s))
		return false;
	s->deaths++;
	session_mark_dirty(s);
	if (!has_another(s))
		return false;
	set_backoff(s);
	say_death(s);
	CRASH_POINT(attempt_died);
	if (s->state == S_RUNNING)
		session_go(s, S_PAUSED, "worker_died", "daemon");
	/* Whoever wanted it to rest still does; what it was told, it has taken to its grave. */
	s->paused_by = holds ? PAUSED_BY_OPERATOR : PAUSED_BY_RETRY;
	s->words_due = 0;
	trigger_end(s);
	CRASH_POINT(attempt_paused);
	return true;
}

void attempt_wait(struct session *s)
{
	timer_set(&s->core->timers, &s->retry, clock_boot_us() + s->retry_us);
}

void attempt_on_retry(struct timer *t)
{
	struct session *s = container_of(t, struct session, retry);

	if (s->is_closed || s->state != S_PAUSED || s->paused_by != PAUSED_BY_RETRY ||
		session_has_outcome(s) || s->host != NULL || s->is_waiting)
		return;
	CRASH_POINT(attempt_again);
	slots_wait(s->core, s); /* the turn's end looks who may start */
}
