/* SPDX-License-Identifier: MIT */
/* retain.c: the core's side of retention: the timer, and the thread's orders put into the batch.
 * Owns when the thread looks. Never waits for the thread, and never reads a row: the thread does. */
#include "retain/retain_private.h"

#include "core/admission/answers.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/pins.h"
#include "process/workdir.h"

#define SECOND INT64_C(1000000)
#define TICK_MIN SECOND
#define TICK_MAX (60 * SECOND)

/* Often enough that a session leaves within an eighth of its grace. */
static int64_t tick_us(const struct config *config)
{
	int64_t us = config->retain_grace_us / 8;

	return us < TICK_MIN && config->retain_grace_us > 0 ? TICK_MIN :
		us > TICK_MAX || us == 0                    ? TICK_MAX :
							      us;
}

void retain_on_tick(struct timer *t)
{
	struct retain *r = container_of(t, struct retain, tick);
	const struct config *config = r->core->policy->config;

	pthread_mutex_lock(&r->lock);
	r->rules = (struct retain_rules){.grace_us = config->retain_grace_us,
		.expire_us = config->retain_expire_us,
		.archives = config->retain_archives};
	r->is_due = true;
	pthread_cond_signal(&r->news);
	pthread_mutex_unlock(&r->lock);
	timer_set(&r->core->timers, t, clock_boot_us() + tick_us(config));
}

static void put_sessions(struct core *c, const struct retain_order *o)
{
	if (o->leave_count > 0)
		store_keep_keys(c->store);
	for (int i = 0; i < o->leave_count; i++) {
		if (session_find_key(c, o->leave[i].session) != NULL)
			log_error("a session that is not over was to leave, this is a defect: session=%.8s",
				o->leave[i].session_id);
		else
			store_leave_session(c->store, o->leave[i].session, o->with_artifacts);
		pins_let_leave(c, o->leave[i].session_id);
	}
	for (int i = 0; i < o->drop_count; i++) {
		const struct retain_drop *d = &o->drops[i];

		if (d->is_kept)
			store_drop_kept(c->store, d->session, d->upto);
		store_drop_rows(c->store, d->table, d->session, d->upto);
	}
	for (int i = 0; i < o->left_count; i++) {
		/* the working directory, where it was kept after the end */
		c->has_trash |= workdir_remove(c->state_dir, o->left[i].session_id);
		CRASH_POINT(retain_workdir_gone);
		store_drop_leaving(c->store, o->left[i].session);
	}
}

/* The thread saw only committed rows. A task that was accepted since, or is in this turn's batch, may need
 * one of the sessions. */
static bool is_pinned(struct core *c, const struct retain_order *o)
{
	for (int i = 0; i < o->leave_count; i++)
		if (pins_is_pinned(c, o->leave[i].session_id))
			return true;
	return false;
}

static void put(struct core *c, const struct retain_order *o)
{
	if (o->day[0] != '\0' && o->forgets_day)
		store_drop_archive(c->store, o->day);
	else if (o->day[0] != '\0')
		store_put_archive(c->store, o->day, o->size, o->sessions);
	put_sessions(c, o);
	for (int i = 0; i < o->answer_count; i++)
		answers_drop(c, o->answers[i]);
	if (o->vacuums)
		store_vacuum(c->store);
}

static bool step(struct retain *r)
{
	struct core *c = r->core;
	enum order_state state;
	bool refuses;

	pthread_mutex_lock(&r->lock);
	if (r->state == ORDER_IN_BATCH) { /* the turn that has just ended committed the order */
		pins_forget_gone(c);
		r->state = ORDER_IDLE;
		pthread_cond_signal(&r->news);
	}
	state = r->state;
	pthread_mutex_unlock(&r->lock);
	if (state != ORDER_WAITING || c->phase.is_stopping)
		return false;
	CRASH_POINT(retain_note_taken);
	refuses = is_pinned(c, &r->order);
	if (!refuses)
		put(c, &r->order); /* the order belongs to the core until the state is ORDER_IDLE */
	pthread_mutex_lock(&r->lock);
	r->is_refused = refuses;
	r->state = refuses ? ORDER_IDLE : ORDER_IN_BATCH;
	if (refuses)
		pthread_cond_signal(&r->news);
	pthread_mutex_unlock(&r->lock);
	return !refuses;
}

const struct retention_ops retain_ops = {.step = step, .get_trouble = retain_get_trouble};
