/* SPDX-License-Identifier: MIT */
/* checkpoint_request.c: requests for checkpoints.
 * Owns when they are sent, and whether they are answered. Never stores a checkpoint (checkpoint_store.c),
 * never holds a session up: a session whose worker does not answer goes on. */
#include "core/running/checkpoint_request.h"

#include <string.h>

#include "protocol/worker_line.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/run.h"

#define ANSWER_US INT64_C(60000000) /* time to answer a request; less where the interval is shorter */
#define MUCH 0.25 /* share of the state that is new: above, the interval is halved, down to an eighth ... */
#define LEAST_US INT64_C(1000000) /* ... and to no less than this */
#define LITTLE 0.02               /* below, the interval is doubled, up to four times */

const char *const checkpoint_cause_names[CHECKPOINT_BY_COUNT] = {
	[CHECKPOINT_BY_WORKER] = "worker",
	[CHECKPOINT_BY_STEPS] = "steps",
	[CHECKPOINT_BY_INTERVAL] = "interval",
	[CHECKPOINT_BY_ADAPTIVE] = "adaptive",
	[CHECKPOINT_BY_OPERATOR] = "operator",
	[CHECKPOINT_BY_ACTION] = "action",
	[CHECKPOINT_BY_PAUSE] = "pause",
	[CHECKPOINT_BY_STOP] = "stop",
};

static const struct config_capability *config_of(const struct session *s)
{
	return s->run.cap->config;
}

static bool is_out(const struct checkpoint_request *t)
{
	return t->pending != CHECKPOINT_BY_WORKER;
}

/* Can the worker answer now? A paused, unread or stopping one cannot, so its time does not count. */
static bool is_heard(const struct session *s)
{
	return s->state == S_RUNNING && !s->run.is_unread && !s->core->phase.is_stopping;
}

static bool is_given_up(const struct checkpoint_request *t)
{
	return t->unanswered >= CHECKPOINT_UNANSWERED_MAX;
}

/* ---- requests ---- */

static void set_timer(struct session *s)
{
	struct checkpoint_request *t = &s->checkpoint.request;
	int64_t at = INT64_MAX;

	if (is_out(t) && !t->is_late)
		at = t->late_us;
	if (t->interval_us > 0 && !is_given_up(t) && t->due_us < at)
		at = t->due_us;
	if (at == INT64_MAX)
		timer_cancel(&s->core->timers, &t->timer);
	else
		timer_set(&s->core->timers, &t->timer, at);
}

static int64_t patience(const struct checkpoint_request *t)
{
	return t->interval_us > 0 && t->interval_us < ANSWER_US ? t->interval_us : ANSWER_US;
}

static void send(struct session *s, enum checkpoint_cause cause)
{
	struct checkpoint_request *t = &s->checkpoint.request;
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"checkpoint_request\",\"reason\":\"%s\"}",
		cause == CHECKPOINT_BY_STOP ? "stopping" : checkpoint_cause_names[cause]);
	effect_line(s, b.data, b.size);
	buf_fini(&b);
	t->pending = cause;
	t->sent_us = clock_boot_us();
	t->late_us = t->sent_us + patience(t);
	t->is_late = false;
	t->steps = s->summary.steps;
	CRASH_POINT(checkpoint_request_asked);
	set_timer(s);
}

/* The daemon's own request: never while another is pending, and only to a worker that reads its stdin. */
static void send_by_itself(struct session *s, enum checkpoint_cause cause)
{
	const struct checkpoint_request *t = &s->checkpoint.request;
	const struct worker *w = run_worker(s);

	if (!is_given_up(t) && (!is_out(t) || t->is_late) && w != NULL && is_heard(s) &&
		worker_has_stdin(w) && worker_unwritten(w) < RUN_UNWRITTEN_MAX)
		send(s, cause);
}

void checkpoint_request_send(struct session *s, enum checkpoint_cause cause)
{
	if (s->checkpoint.request.pending < cause || s->checkpoint.request.is_late)
		send(s, cause);
}

void checkpoint_request_on_step(struct session *s)
{
	int every = config_of(s)->checkpoint_steps;

	if (every > 0 && s->summary.steps - s->checkpoint.request.steps >= every)
		send_by_itself(s, CHECKPOINT_BY_STEPS);
}

void checkpoint_request_on_resumed(struct session *s)
{
	if (s->checkpoint.request.pending == CHECKPOINT_BY_PAUSE)
		s->checkpoint.request.pending = CHECKPOINT_BY_WORKER;
	set_timer(s);
}

/* ---- answers ---- */

static void count_unanswered(struct session *s)
{
	struct checkpoint_request *t = &s->checkpoint.request;

	t->is_late = true;
	t->unanswered++;
	if (is_given_up(t))
		log_info(
			"requests for checkpoints are not answered, none is sent by itself any more: "
			"session=%.8s capability=%s unanswered=%u",
			s->id, s->capability, t->unanswered);
}

static void on_due(struct timer *timer)
{
	struct session *s = container_of(timer, struct session, checkpoint.request.timer);
	struct checkpoint_request *t = &s->checkpoint.request;
	int64_t now = clock_boot_us();

	if (s->run.runner == NULL || session_has_outcome(s))
		return; /* checkpoint_request_begin sets the timer again */
	if (is_out(t) && !t->is_late && t->late_us <= now) {
		t->late_us = now + patience(t);
		if (is_heard(s))
			count_unanswered(s);
	}
	if (t->interval_us > 0 && t->due_us <= now) {
		t->due_us = now + t->interval_us;
		send_by_itself(s,
			t->interval_us != config_of(s)->checkpoint_interval_us ? CHECKPOINT_BY_ADAPTIVE :
										 CHECKPOINT_BY_INTERVAL);
	}
	set_timer(s);
}

enum checkpoint_cause checkpoint_request_take_answer(struct session *s)
{
	struct checkpoint_request *t = &s->checkpoint.request;
	enum checkpoint_cause cause = t->pending;

	t->pending = CHECKPOINT_BY_WORKER;
	t->is_late = false;
	t->unanswered = 0;
	t->steps = s->summary.steps;
	t->due_us = clock_boot_us() + t->interval_us;
	set_timer(s);
	return cause;
}

void checkpoint_request_adapt(struct session *s, double change)
{
	struct checkpoint_request *t = &s->checkpoint.request;
	int64_t configured = config_of(s)->checkpoint_interval_us;

	if (change > MUCH && t->interval_us > configured / 8)
		t->interval_us = t->interval_us / 2 > LEAST_US ? t->interval_us / 2 : LEAST_US;
	else if (change < LITTLE && t->interval_us < configured * 4)
		t->interval_us *= 2;
	t->due_us = clock_boot_us() + t->interval_us;
	set_timer(s);
}

bool checkpoint_request_is_waiting(const struct session *s)
{
	/* A request for a pause does not count: its operator waits for the pause, with a checkpoint or
	 * without. */
	return is_out(&s->checkpoint.request) && s->checkpoint.request.pending != CHECKPOINT_BY_PAUSE;
}

/* ---- lifecycle ---- */

void checkpoint_request_init(struct session *s)
{
	s->checkpoint.request.timer.on_due = on_due;
}

void checkpoint_request_fini(struct session *s)
{
	timer_cancel(&s->core->timers, &s->checkpoint.request.timer);
}

void checkpoint_request_end(struct session *s)
{
	s->checkpoint.request.pending = CHECKPOINT_BY_WORKER;
	timer_cancel(&s->core->timers, &s->checkpoint.request.timer);
}

void checkpoint_request_begin(struct session *s)
{
	struct checkpoint_request *t = &s->checkpoint.request;
	bool listens = config_of(s)->protocol == PROTOCOL_HCP;

	t->pending = CHECKPOINT_BY_WORKER;
	t->is_late = false;
	t->unanswered = 0;
	t->steps = s->summary.steps;
	t->interval_us = listens ? config_of(s)->checkpoint_interval_us : 0;
	t->due_us = clock_boot_us() + t->interval_us;
	set_timer(s);
}
