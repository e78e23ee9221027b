/* SPDX-License-Identifier: MIT */
/* worker_retry.c: deaths of a session's worker: counted, reported, and followed by another attempt where
 * one is left.
 * Owns the back-off. Never starts a process: the session joins the queue for a slot, and recover.c brings
 * it back. */
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

void worker_retry_begin(struct session *s)
{
	s->attempts.checkpoints_before = s->summary.checkpoints;
}

/* With protocol `text`, exit status 0 completes the task. */
static bool is_death(const struct session *s)
{
	int status = s->run.exit_status;

	return s->run.cap->config->protocol != PROTOCOL_TEXT || status == -1 || !WIFEXITED(status) ||
		WEXITSTATUS(status) != 0;
}

static bool has_another(const struct session *s)
{
	const struct config_capability *cc = s->run.cap->config;

	return s->attempts.deaths < cc->max_attempts &&
		(cc->recovery == RECOVERY_RESUME || cc->recovery == RECOVERY_RESTART);
}

/* An attempt that made a checkpoint resets the back-off: it made progress. */
static void set_backoff(struct session *s)
{
	if (s->summary.checkpoints > s->attempts.checkpoints_before || s->attempts.delay_us == 0)
		s->attempts.delay_us = s->run.cap->config->retry_delay_us;
	else
		s->attempts.delay_us =
			s->attempts.delay_us < BACKOFF_MAX_US / 2 ? s->attempts.delay_us * 2 : BACKOFF_MAX_US;
}

static void say_death(struct session *s)
{
	int status = s->run.exit_status;
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
		how, (long long)s->attempts.deaths, s->run.cap->config->max_attempts);
	buf_add_text(&b, "{\"code\":\"worker_died\",\"message\":");
	buf_add_json(&b, text, strlen(text));
	buf_add_text(&b, ",\"recoverable\":true}");
	session_event(s, "error", b.data, b.size);
	buf_fini(&b);
	log_warn("a worker died and is started again: session=%.8s deaths=%lld again_in=%lldms why=%s", s->id,
		(long long)s->attempts.deaths, (long long)(s->attempts.delay_us / 1000), how);
}

bool worker_retry_take_death(struct session *s)
{
	bool holds = s->pause.by == PAUSED_BY_OPERATOR ||
		(s->pause.request == REQUEST_PAUSE && s->pause.replies_pending > 0);

	if (!is_death(s))
		return false;
	s->attempts.deaths++;
	session_mark_dirty(s);
	if (!has_another(s))
		return false;
	set_backoff(s);
	say_death(s);
	CRASH_POINT(worker_retry_died);
	if (s->state == S_RUNNING)
		session_transition(s, S_PAUSED, "worker_died", "daemon");
	/* A requested pause survives the death; unanswered requests do not. */
	s->pause.by = holds ? PAUSED_BY_OPERATOR : PAUSED_BY_RETRY;
	s->pause.replies_pending = 0;
	checkpoint_request_end(s);
	CRASH_POINT(worker_retry_paused);
	return true;
}

void worker_retry_wait(struct session *s)
{
	timer_set(&s->core->timers, &s->attempts.timer, clock_boot_us() + s->attempts.delay_us);
}

void worker_retry_on_due(struct timer *t)
{
	struct session *s = container_of(t, struct session, attempts.timer);

	if (s->turn.is_closed || s->state != S_PAUSED || s->pause.by != PAUSED_BY_RETRY ||
		session_has_outcome(s) || s->run.runner != NULL || s->slot.is_waiting)
		return;
	CRASH_POINT(worker_retry_again);
	slots_wait(s->core, s); /* the turn's end fills the slots */
}
