/* retain.c: the core's side of retention: the clock, and notes of the thread put into the batch.
 * Owns when the thread looks. Never waits for it, and never reads a row: the thread did. */
#include "retain/retain_private.h"

#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/pins.h"
#include "process/worker.h"

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

static void put_sessions(struct core *c, const struct retain_note *n)
{
	if (n->leave_count > 0 || n->answer_count > 0)
		store_keep_keys(c->store);
	for (int i = 0; i < n->leave_count; i++) {
		if (session_find_key(c, n->leave[i].session) != NULL)
			log_error("a session that is not over was to leave, this is a defect: session=%.8s",
				n->leave[i].session_id);
		else
			store_leave_session(c->store, n->leave[i].session, n->with_artifacts);
		need_let_go(c, n->leave[i].session_id);
	}
	for (int i = 0; i < n->drop_count; i++) {
		const struct retain_drop *d = &n->drops[i];

		if (d->is_kept)
			store_drop_kept(c->store, d->session, d->upto);
		store_drop_rows(c->store, d->table, d->session, d->upto);
	}
	for (int i = 0; i < n->left_count; i++) {
		c->has_trash |= workdir_remove(
			c->state_dir, n->left[i].session_id); /* where it was kept; it left long ago */
		CRASH_POINT(retain_workdir_gone);
		store_drop_leaving(c->store, n->left[i].session);
	}
}

/* The thread looked at what was committed; a task that was accepted since, or is in this turn's batch, may
 * need one of them. */
static bool is_needed(struct core *c, const struct retain_note *n)
{
	for (int i = 0; i < n->leave_count; i++)
		if (need_is_needed(c, n->leave[i].session_id))
			return true;
	return false;
}

static void put(struct core *c, const struct retain_note *n)
{
	if (n->day[0] != '\0' && n->forgets_day)
		store_drop_archive(c->store, n->day);
	else if (n->day[0] != '\0')
		store_put_archive(c->store, n->day, n->size, n->sessions);
	put_sessions(c, n);
	for (int i = 0; i < n->answer_count; i++) {
		store_drop_unroutable(c->store, n->answers[i]);
		store_drop_answer(c->store, n->answers[i]);
	}
	if (n->vacuums)
		store_vacuum(c->store);
}

bool retain_step(struct core *c)
{
	struct retain *r = c->retain;
	enum note_state state;
	bool refuses;

	if (r == NULL)
		return false;
	pthread_mutex_lock(&r->lock);
	if (r->state == NOTE_IN_BATCH) { /* the turn that is just over committed it */
		need_forget_gone(c);
		r->state = NOTE_IDLE;
		pthread_cond_signal(&r->news);
	}
	state = r->state;
	pthread_mutex_unlock(&r->lock);
	if (state != NOTE_ASKED || c->is_stopping)
		return false;
	CRASH_POINT(retain_note_taken);
	refuses = is_needed(c, &r->note);
	if (!refuses)
		put(c, &r->note); /* it is ours until it is idle */
	pthread_mutex_lock(&r->lock);
	r->is_refused = refuses;
	r->state = refuses ? NOTE_IDLE : NOTE_IN_BATCH;
	if (refuses)
		pthread_cond_signal(&r->news);
	pthread_mutex_unlock(&r->lock);
	return !refuses;
}
