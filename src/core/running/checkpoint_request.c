/* trigger.c: requests for checkpoints.
 * Owns when they are sent and whether they are answered. Never stores a checkpoint (report_checkpoint.c),
 * never holds a session up: one whose worker does not answer goes on as it is. */
#include "core/running/checkpoint_request.h"

#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/run.h"

#define ANSWER_US \
	INT64_C(60000000) /* a request is answered within that, or the interval where that is shorter */
#define MUCH 0.25         /* of a state is new: the interval is halved, down to an eighth, ... */
#define LEAST_US INT64_C(1000000) /* ... which is no less than may be configured, ... */
#define LITTLE 0.02               /* ... or doubled, up to four times */

const char *const trigger_names[TRIGGER_COUNT] = {
	[TRIGGER_WORKER] = "worker",
	[TRIGGER_STEPS] = "steps",
	[TRIGGER_INTERVAL] = "interval",
	[TRIGGER_ADAPTIVE] = "adaptive",
	[TRIGGER_OPERATOR] = "operator",
	[TRIGGER_PAUSE] = "pause",
	[TRIGGER_STOP] = "stop",
};

static const struct config_capability *config_of(const struct session *s)
{
	return s->cap->config;
}

static bool is_out(const struct trigger *t)
{
	return t->asked != TRIGGER_WORKER;
}

/* Does the clock count? While it is paused, not listened to or stopping, nobody answers. */
static bool is_heard(const struct session *s)
{
	return s->state == S_RUNNING && !s->is_unread && !s->core->is_stopping;
}

static bool is_given_up(const struct trigger *t)
{
	return t->unanswered >= TRIGGER_UNANSWERED_MAX;
}

/* ---- asking ---- */

static void set_timer(struct session *s)
{
	struct trigger *t = &s->trigger;
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

static int64_t patience(const struct trigger *t)
{
	return t->interval_us > 0 && t->interval_us < ANSWER_US ? t->interval_us : ANSWER_US;
}

static void send(struct session *s, enum trigger_cause cause)
{
	struct trigger *t = &s->trigger;
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"checkpoint_request\",\"reason\":\"%s\"}",
		cause == TRIGGER_STOP ? "stopping" : trigger_names[cause]);
	effect_line(s, b.data, b.size);
	buf_fini(&b);
	t->asked = cause;
	t->asked_us = clock_boot_us();
	t->late_us = t->asked_us + patience(t);
	t->is_late = false;
	t->steps = s->steps;
	CRASH_POINT(trigger_asked);
	set_timer(s);
}

/* Nobody's wish: never beside another request, nor to one that does not listen. */
static void send_by_itself(struct session *s, enum trigger_cause cause)
{
	const struct trigger *t = &s->trigger;
	const struct worker *w = run_worker(s);

	if (!is_given_up(t) && (!is_out(t) || t->is_late) && w != NULL && is_heard(s) &&
		worker_has_stdin(w) && worker_unwritten(w) < RUN_UNWRITTEN_MAX)
		send(s, cause);
}

void trigger_ask(struct session *s, enum trigger_cause cause)
{
	if (s->trigger.asked < cause || s->trigger.is_late)
		send(s, cause);
}

void trigger_on_step(struct session *s)
{
	int every = config_of(s)->checkpoint_steps;

	if (every > 0 && s->steps - s->trigger.steps >= every)
		send_by_itself(s, TRIGGER_STEPS);
}

void trigger_on_resumed(struct session *s)
{
	if (s->trigger.asked == TRIGGER_PAUSE)
		s->trigger.asked = TRIGGER_WORKER;
	set_timer(s);
}

/* ---- answers ---- */

static void note_late(struct session *s)
{
	struct trigger *t = &s->trigger;

	t->is_late = true;
	t->unanswered++;
	if (is_given_up(t))
		log_info(
			"requests for checkpoints are not answered, none is sent by itself any more: "
			"session=%.8s capability=%s "
			"unanswered=%u",
			s->id, s->capability, t->unanswered);
}

static void on_due(struct timer *timer)
{
	struct session *s = container_of(timer, struct session, trigger.timer);
	struct trigger *t = &s->trigger;
	int64_t now = clock_boot_us();

	if (s->host == NULL || session_has_outcome(s))
		return; /* the next worker begins anew */
	if (is_out(t) && !t->is_late && t->late_us <= now) {
		t->late_us = now + patience(t);
		if (is_heard(s))
			note_late(s);
	}
	if (t->interval_us > 0 && t->due_us <= now) {
		t->due_us = now + t->interval_us;
		send_by_itself(s,
			t->interval_us != config_of(s)->checkpoint_interval_us ? TRIGGER_ADAPTIVE :
										 TRIGGER_INTERVAL);
	}
	set_timer(s);
}

enum trigger_cause trigger_take_answer(struct session *s)
{
	struct trigger *t = &s->trigger;
	enum trigger_cause cause = t->asked;

	t->asked = TRIGGER_WORKER;
	t->is_late = false;
	t->unanswered = 0;
	t->steps = s->steps;
	t->due_us = clock_boot_us() + t->interval_us;
	set_timer(s);
	return cause;
}

void trigger_adapt(struct session *s, double change)
{
	struct trigger *t = &s->trigger;
	int64_t configured = config_of(s)->checkpoint_interval_us;

	if (change > MUCH && t->interval_us > configured / 8)
		t->interval_us = t->interval_us / 2 > LEAST_US ? t->interval_us / 2 : LEAST_US;
	else if (change < LITTLE && t->interval_us < configured * 4)
		t->interval_us *= 2;
	t->due_us = clock_boot_us() + t->interval_us;
	set_timer(s);
}

bool trigger_is_waiting(const struct session *s)
{
	/* Who wants a pause waits for that: with a checkpoint or without. */
	return is_out(&s->trigger) && s->trigger.asked != TRIGGER_PAUSE;
}

/* ---- life ---- */

void trigger_init(struct session *s)
{
	s->trigger.timer.on_due = on_due;
}

void trigger_fini(struct session *s)
{
	timer_cancel(&s->core->timers, &s->trigger.timer);
}

void trigger_end(struct session *s)
{
	s->trigger.asked = TRIGGER_WORKER;
	timer_cancel(&s->core->timers, &s->trigger.timer);
}

void trigger_begin(struct session *s)
{
	struct trigger *t = &s->trigger;
	bool listens = config_of(s)->protocol == PROTOCOL_HCP;

	t->asked = TRIGGER_WORKER;
	t->is_late = false;
	t->unanswered = 0;
	t->steps = s->steps;
	t->interval_us = listens ? config_of(s)->checkpoint_interval_us : 0;
	t->due_us = clock_boot_us() + t->interval_us;
	set_timer(s);
}
