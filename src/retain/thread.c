/* SPDX-License-Identifier: MIT */
/* thread.c: the thread of retention: its start and end, and its orders to the core.
 * Owns the pace: one order at a time, and a pause after each, so that new sessions come first. Never touches
 * the store's writer. */
#include "retain/retain_private.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define SECOND INT64_C(1000000)
/* The pause after an order is four times as long as the core needed to take it: a busy core gets more
 * time. */
#define REST_TIMES 4
#define REST_MIN_US 5000
#define REST_MAX_US (SECOND / 2)
#define PASS_REST_MAX_US (60 * SECOND)
#define NICENESS 10
#define FIRST_LOOK_US \
	(30 * SECOND) /* without a grace: only for what a previous run of the daemon left unfinished */
#define STACK_SIZE (512 * 1024)

/* ---- orders ---- */

bool retain_is_empty(const struct retain *r)
{
	const struct retain_order *o = &r->order;

	return o->day[0] == '\0' && o->leave_count + o->drop_count + o->left_count + o->answer_count == 0 &&
		!o->vacuums;
}

static void clear(struct retain_order *o)
{
	o->day[0] = '\0';
	o->leave_count = o->drop_count = o->left_count = o->answer_count = 0;
	o->vacuums = o->forgets_day = o->with_artifacts = false;
}

/* Under the lock; the condition is on the monotonic clock. */
static void pause_for(struct retain *r, int64_t us)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += us % SECOND * 1000;
	until.tv_sec += us / SECOND + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!atomic_load(&r->is_stopping) &&
		pthread_cond_timedwait(&r->news, &r->lock, &until) != ETIMEDOUT)
		;
}

bool retain_commit_order(struct retain *r)
{
	int64_t began = clock_boot_us(), pause;

	pthread_mutex_lock(&r->lock);
	r->state = ORDER_WAITING;
	pthread_mutex_unlock(&r->lock);
	CRASH_POINT(retain_told);
	r->wake(r->wake_ctx);
	pthread_mutex_lock(&r->lock);
	while (r->state != ORDER_IDLE && !atomic_load(&r->is_stopping))
		pthread_cond_wait(&r->news, &r->lock);
	if (r->state == ORDER_IDLE) {
		clear(&r->order);
		r->committed++;
		pause = REST_TIMES * (clock_boot_us() - began);
		pause_for(r, pause < REST_MIN_US ? REST_MIN_US : pause > REST_MAX_US ? REST_MAX_US : pause);
	}
	pthread_mutex_unlock(&r->lock);
	CRASH_POINT(retain_note_done);
	/* Otherwise the core would do it, in one of its turns, when the log is long: a thousand pages at
	 * once. */
	if (r->mover != NULL)
		sqlite3_wal_checkpoint_v2(r->mover, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	r->paced_us += clock_boot_us() - began;
	return !atomic_load(&r->is_stopping);
}

bool retain_rules_hold(struct retain *r)
{
	const struct retain_rules *a = &r->now, *b = &r->rules;
	bool hold;

	pthread_mutex_lock(&r->lock);
	hold = a->grace_us == b->grace_us && a->expire_us == b->expire_us && a->archives == b->archives;
	pthread_mutex_unlock(&r->lock);
	return hold;
}

/* A pass with much to read must not be followed by the next at once. Its orders do not count: each had its
 * pause. The bound is for the sessions that ended during the pass: they wait for the next one. */
int64_t retain_rest_us(int64_t took_us, int64_t paced_us)
{
	int64_t read_us = took_us - paced_us;

	if (read_us < SECOND)
		return 0;
	return read_us < PASS_REST_MAX_US / REST_TIMES ? REST_TIMES * read_us : PASS_REST_MAX_US;
}

/* ---- lifecycle ---- */

static bool wait_for_tick(struct retain *r)
{
	pthread_mutex_lock(&r->lock);
	while (!r->is_due && !atomic_load(&r->is_stopping))
		pthread_cond_wait(&r->news, &r->lock);
	r->is_due = false;
	r->now = r->rules;
	pthread_mutex_unlock(&r->lock);
	return !atomic_load(&r->is_stopping);
}

static void *thread_main(void *arg)
{
	struct retain *r = arg;
	bool has_looked = false;

	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS); /* of this thread alone */
	while (wait_for_tick(r)) {
		int64_t began = clock_boot_us(), rest;

		/* Without a grace there can only be what a previous run of the daemon left unfinished. */
		if (has_looked && r->now.grace_us == 0 && r->now.expire_us == 0)
			continue;
		has_looked = true;
		r->now_us = clock_wall_us();
		r->slice_rows = 0;
		r->slice_bytes = 0;
		r->paced_us = 0;
		retain_scan(r);
		rest = retain_rest_us(clock_boot_us() - began, r->paced_us);
		pthread_mutex_lock(&r->lock);
		if (rest > 0)
			pause_for(r, rest);
		pthread_mutex_unlock(&r->lock);
	}
	return NULL;
}

static void retain_free(struct retain *r)
{
	pthread_cond_destroy(&r->news);
	pthread_mutex_destroy(&r->lock);
	buf_fini(&r->line);
	free(r->state_dir);
	free(r);
}

static int start_thread(struct retain *r)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	sigfillset(&all); /* signals are the core's */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&r->thread, &attr, thread_main, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

int retain_start(struct core *c, void (*wake)(void *ctx), void *ctx, struct retain **out)
{
	struct retain *r = xcalloc(1, sizeof *r);
	pthread_condattr_t attr;
	int rc;

	r->core = c;
	r->wake = wake;
	r->wake_ctx = ctx;
	r->state_dir = xstrdup(c->state_dir);
	r->dir_fd = -1;
	r->tick.on_due = retain_on_tick;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->news, &attr);
	pthread_condattr_destroy(&attr);
	if ((rc = start_thread(r)) != 0) {
		log_error("the thread for retention cannot be started: %s", strerror(rc));
		retain_free(r);
		return EX_OSERR;
	}
	timer_set(&c->timers, &r->tick,
		clock_boot_us() + (c->policy->config->retain_grace_us > 0 ? SECOND : FIRST_LOOK_US));
	*out = r;
	return EX_OK;
}

void retain_stop(struct retain *r)
{
	atomic_store(&r->is_stopping, true);
	pthread_mutex_lock(&r->lock);
	pthread_cond_signal(&r->news);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	timer_cancel(&r->core->timers, &r->tick);
	retain_free(r);
}
