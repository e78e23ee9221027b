/* SPDX-License-Identifier: MIT */
/* turn.c: the turn: input is applied, committed once, and only then has effects.
 * Owns the order of that, the suspension while the store refuses, and the stop. Never uses a descriptor
 * or an event loop: hcpd/loop.c feeds it, and so does the simulation. */
#include "core/turn.h"
#include "core/operator/operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "core/running/artifacts.h"
#include "base/clock.h"
#include "core/admission/answers.h"
#include "core/admission/caller_log.h"
#include "base/jobs.h"
#include "base/line_reader.h"
#include "core/admission/intake.h"
#include "core/admission/policy_wait.h"
#include "core/op_queue.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/pins.h"
#include "core/recovery/recover.h"
#include "core/recovery/restore.h"
#include "core/running/large_line.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/running/harp_snapshot.h"
#include "process/workdir.h"

#define SECOND 1000000
#define SUSPEND_RETRY_US (1 * SECOND)
#define SAVE_DELAY_US (SECOND / 4)
#define UNSAVED_MAX 64  /* watermarks of callers */
#define TRASH_SLICE 256 /* entries of working directories deleted in a turn */
#define GATHER_US 2000
#define GATHER_RARE_US 8000 /* commits that are rarer than this are cheap enough */
#define GATHER_STEP_US 400  /* then the loop looks what came: workers that have ended are not waited for */
#define GATHER_RUNNING 2    /* one alone would wait for itself */
#define SUBMITS_SLICE 5000  /* old submits read at a time */

/* ---- outbox to sessions ---- */

static void check_total(struct core *c)
{
	const struct config *config = c->policy->config;
	struct outbox_stats st;
	bool full;

	outbox_get_stats(c->outbox, &st);
	full = st.waiting_bytes >=
		(c->run.all_paused ? config->max_outbox_total * 3 / 4 : config->max_outbox_total);
	if (full == c->run.all_paused)
		return;
	c->run.all_paused = full;
	log_warn("%s: waiting=%lld bytes",
		full ? "the outbox is full, no worker is read until callers take their events" :
		       "the outbox has room again, workers are read",
		(long long)st.waiting_bytes);
	run_check_all_backlogs(c);
}

static void on_settled(void *ctx, int64_t session, size_t bytes)
{
	struct core *c = ctx;
	struct session *s = session != 0 ? session_find_key(c, session) : NULL;

	if (s != NULL) {
		s->outbox.waiting_bytes -= (int64_t)bytes;
		if (s->run.is_unread)
			run_check_backlog(s);
	}
}

static void on_transient(void *ctx, int64_t event)
{
	answers_drop(ctx, event);
}

/* True once for a session, also for one that is over: its last messages may come back after its end. */
static bool is_news(struct core *c, struct session *s, int64_t session)
{
	const size_t size = sizeof c->unroutable.said / sizeof *c->unroutable.said;

	if (s != NULL && s->outbox.said_unroutable)
		return false;
	for (size_t i = 0; s == NULL && i < size; i++)
		if (c->unroutable.said[i] == session)
			return false;
	if (s != NULL)
		s->outbox.said_unroutable = true;
	c->unroutable.said[c->unroutable.next++ % size] = session;
	return true;
}

static void on_unroutable(void *ctx, int64_t session, const char *session_id, const char *caller_id)
{
	struct core *c = ctx;

	c->stats.unroutable++;
	if (session != 0 && is_news(c, session_find_key(c, session), session))
		log_info(
			"unroutable: no queue takes the caller's events, they are kept: session=%.8s "
			"caller=%s",
			session_id, caller_id);
}

static void on_backlog(void *ctx, int64_t session, int64_t bytes)
{
	struct session *s = session_find_key(ctx, session);

	if (s != NULL)
		s->outbox.waiting_bytes += bytes;
}

static const struct outbox_ops outbox_ops = {on_settled, on_transient, on_unroutable, on_backlog};

/* ---- clocks ---- */

static void on_save(struct timer *t)
{
	container_of(t, struct core, save)->turn.save_due = true;
}

/* Drops one slice. True: it had old submits, so there may be more. */
static bool drop_old_submits(struct core *c)
{
	char before[CLOCK_TEXT_SIZE];
	int64_t from = c->submit_cursor, last = store_last_submit(c->store);
	bool found;

	clock_format(clock_wall_us() - c->policy->config->dedup_window_us, before);
	found = last > 0 && store_has_old_submits(c->store, from, from + SUBMITS_SLICE, before);
	if (found)
		store_drop_submits(c->store, from, from + SUBMITS_SLICE, before);
	c->submit_cursor = from + SUBMITS_SLICE < last ? from + SUBMITS_SLICE : 0;
	return found;
}

/* Why a connection must be dropped and made again; NULL: it is healthy. */
static const char *find_fault(bool up, int64_t progress_age_us, int64_t frame_age_us, int64_t beat_us)
{
	if (!up)
		return NULL;
	if (progress_age_us > 2 * beat_us + 5 * SECOND)
		return "its thread hangs in a call";
	if (frame_age_us > 3 * beat_us + 5 * SECOND)
		return "nothing was received for three heartbeats";
	return NULL;
}

static int64_t heartbeat_us(const struct core *c)
{
	return c->first_policy->config->amqp.heartbeat_s * (int64_t)SECOND;
}

/* Are both connections alive? */
static void check_links(struct core *c)
{
	int64_t beat = heartbeat_us(c);
	struct bus_health h;
	const char *why;

	bus_get_health(c->bus, &h);
	why = find_fault(h.pub_up, h.pub_progress_age_us, h.pub_frame_age_us, beat);
	/* While turns are suspended, confirms are not taken. */
	if (why == NULL && !h.blocked && !c->phase.is_suspended &&
		outbox_quiet_us(c->outbox, clock_boot_us()) > 2 * beat + 5 * SECOND)
		why = "nothing is confirmed any more";
	if (why != NULL)
		bus_drop_pub(c->bus, why);
	why = find_fault(h.sub_up, h.sub_progress_age_us, h.sub_frame_age_us, beat);
	if (why != NULL)
		bus_drop_sub(c->bus, why);
	core_say_status(c);
}

/* Once a heartbeat. */
static void on_health(struct timer *t)
{
	struct core *c = container_of(t, struct core, health);
	bool more = drop_old_submits(c);

	more |= answers_tidy(c);
	check_links(c);
	timer_set(&c->timers, t, clock_boot_us() + (more ? SECOND : heartbeat_us(c)));
}

bool core_is_alive(struct core *c)
{
	int64_t limit = 4 * heartbeat_us(c) + 60 * SECOND;
	struct bus_health h;

	bus_get_health(c->bus, &h);
	return h.pub_progress_age_us < limit && h.sub_progress_age_us < limit;
}

void core_say_status(struct core *c)
{
	struct outbox_stats st;
	struct bus_health h;
	char text[512], oldest[48] = "";
	int64_t age;

	if (c->status.fn == NULL)
		return;
	outbox_get_stats(c->outbox, &st);
	bus_get_health(c->bus, &h);
	age = outbox_oldest_us(c->outbox, clock_boot_us());
	if (age >= 0)
		snprintf(oldest, sizeof oldest, ", oldest unconfirmed %lld s", (long long)(age / SECOND));
	snprintf(text, sizeof text,
		"%s%s%s: %u running, %u waiting; outbox %lld bytes%s; publishing %s, consuming %s; last "
		"frame %lld s ago; %llu dropped, %llu unroutable, %llu late lines; audit %lld %.16s",
		c->phase.is_suspended ? "HELD, the store refuses: " : "",
		c->phase.is_suspended ? store_error(c->store) : "",
		c->phase.is_stopping          ? "stopping" :
			c->phase.is_draining  ? "draining, no worker is started" :
			c->phase.is_suspended ? "" :
						"serving",
		c->slots.running, c->slots.waiting + c->slots.undecided, (long long)st.waiting_bytes, oldest,
		!h.pub_up         ? "no" :
			h.blocked ? "blocked by the broker" :
				    "yes",
		h.sub_up ? "yes" : "no",
		(long long)((h.sub_up                ? h.sub_frame_age_us :
					    h.pub_up ? h.pub_frame_age_us :
						       0) /
			SECOND),
		(unsigned long long)c->stats.dropped, (unsigned long long)c->stats.unroutable,
		(unsigned long long)c->stats.late_lines, (long long)c->audit.count, c->audit.head);
	c->status.fn(c->status.ctx, text);
}

/* ---- slots ---- */

bool core_fill_slots(struct core *c)
{
	struct session *s;
	int may_begin;

	while ((s = slots_next(c)) != NULL) {
		if (s->state ==
			S_PAUSED) { /* it goes on: resumed, retried, migrated, or queued by recovery */
			CRASH_POINT(slot_resumes);
			if (recover_go_on(s) < 0)
				return false;
			continue;
		}
		if ((may_begin = recover_may_begin(s)) < 0)
			return false;
		if (may_begin == 0)
			continue;
		slots_take(c, s);
		s->attempts.number++;
		session_run(s, s->slot.is_fresh ? "approved" : "slot_free", "daemon");
		CRASH_POINT(slot_taken);
		run_set_clocks(s);
		effect_start(s);
	}
	return true;
}

void core_queue_accepted(struct session *s)
{
	s->slot.is_fresh = true;
	slots_wait(s->core, s);
	/* Where the store cannot be read now, the commit tries the start again and reports the fault. */
	(void)core_fill_slots(s->core);
	s->slot.is_fresh = false;
}

/* ---- the turn ---- */

void core_suspend(struct core *c)
{
	int64_t now = clock_boot_us();

	if (c->policy->config->store_on_error == STORE_EXIT) {
		log_error(
			"the store refuses, ending as configured; nothing was said that is not stored: "
			"error=%s",
			store_error(c->store));
		c->phase.exit_code = EX_IOERR;
		c->phase.is_done = true;
		return;
	}
	c->suspended.retry_us = now + SUSPEND_RETRY_US;
	if (c->phase.is_suspended)
		return;
	c->phase.is_suspended = true;
	c->suspended.since_us = now;
	workers_hold(c->workers, true);
	log_error(
		"the store refuses, everything waits and is tried again every second; make room or mend the "
		"disk: error=%s",
		store_error(c->store));
	core_say_status(c);
}

static void resume_turns(struct core *c)
{
	c->phase.is_suspended = false;
	slice_renew(&c->turn.bus_slice);
	slice_renew(&c->turn.request_slice);
	c->turn.has_taken_job = false;
	log_warn("the store takes again, going on: held_for=%llds",
		(long long)((clock_boot_us() - c->suspended.since_us) / SECOND));
	workers_hold(c->workers, false);
	run_touch_all(c);
	policy_program_touch_all(c->program);
	core_say_status(c);
	core_on_jobs(c);
	core_on_bus(c); /* messages that came meanwhile */
	core_on_requests(c);
}

static void check_stopped(struct core *c)
{
	struct outbox_stats st;
	struct bus_health h;

	if (!c->phase.is_stopping || c->phase.is_done || run_has_processes(c) || artifacts_delay_stop(c) ||
		store_has_batch(c->store) || c->turn.effects.count > 0)
		return;
	outbox_get_stats(c->outbox, &st);
	bus_get_health(c->bus, &h);
	/* Messages in flight may still be confirmed; messages that cannot be sent stay in the outbox. */
	if (st.in_flight == 0 || !h.pub_up)
		c->phase.is_done = true;
}

/* Stores the whole turn in one transaction. */
static int commit(struct core *c)
{
	if (!core_fill_slots(c)) /* a slot that this turn freed is taken in the same commit */
		return -1;
	sessions_save_dirty(c);
	audit_end_turn(c);
	/* Watermarks are saved seldom, since they cost a page in a commit. Unknown callers come in large
	 * numbers, and leave memory once they are saved. */
	if (c->turn.save_due || (store_has_batch(c->store) && outbox_unsaved(c->outbox) > UNSAVED_MAX)) {
		outbox_save(c->outbox);
		c->turn.save_due = false;
	}
	c->turn.has_committed = store_has_batch(c->store);
	return store_run(c->store);
}

/* Is there input that the next turn can take at once? */
static bool has_work(const struct core *c)
{
	return c->inbox != NULL ||
		c->operator.waiting != NULL ||(c->jobs != NULL && jobs_have_finished(c->jobs));
}

/* The turn's decisions become true here. Each step says why it stands before the next. */
static bool end_turn(struct core *c)
{
	struct session *over;
	bool more_to_store;

	if (c->phase.is_suspended || c->phase.is_done)
		return false;
	if (commit(c) < 0) {     /* nothing is true yet ... */
		core_suspend(c); /* ... so no effect may happen; the batch is kept and tried again */
		return false;
	}
	log_hold(true);            /* nobody hears of what is done here before its lines are written */
	intake_end_turn(c);        /* the store knows this turn's submits now, */
	approval_end_turn(c);      /* and its decisions, */
	harp_snapshot_end_turn(c); /* and its snapshots */
	outbox_release(c->outbox); /* messages of a start that fails below wait for their own commit, */
	over = c->turn.closed;     /* and so do the sessions that such a start closes */
	c->turn.closed = NULL;
	run_offer_workdirs(c, over);
	effects_release(c);        /* acks, lines, starts, ends: workers work while this thread publishes */
	store_end_reads(c->store); /* of the tasks of those that started */
	if (!restore_step(c))      /* the commit may hold the newest checkpoint */
		core_suspend(c);
	large_line_step(c);
	policy_program_end_turn(c->program); /* the sessions that wait for its answers are stored */
	outbox_pump(c->outbox);
	bus_flush(c->bus); /* once a turn: each call costs a wake-up */
	if (c->operator.queue != NULL && c->turn.has_committed)
		op_queue_on_commit(c->operator.queue);
	/* No effect points to these sessions any more. Last, since deleting directories takes time. */
	sessions_sweep(over);
	run_sweep(c);
	workers_new_turn(c->workers);
	check_total(c);
	if (c->has_trash)
		c->has_trash = workdir_sweep(c->state_dir, TRASH_SLICE);
	more_to_store = artifacts_step(c); /* copies files whose announcement is committed */
	if (c->retention.retain != NULL)
		more_to_store |= c->retention.ops->step(c->retention.retain);
	if (outbox_unsaved(c->outbox) > 0 && !timer_is_set(&c->save))
		timer_set(&c->timers, &c->save, clock_boot_us() + SAVE_DELAY_US);
	check_stopped(c);
	slice_renew(&c->turn.bus_slice);
	slice_renew(&c->turn.request_slice);
	c->turn.has_taken_job = false;
	return store_has_batch(c->store) || c->turn.dirty != NULL || c->turn.effects.count > 0 ||
		c->has_trash || more_to_store || has_work(c);
}

/* The end of the last turn with a commit, of the one before it ... */
static int64_t last_end_us(const struct core *c, unsigned back)
{
	return c->turn.ends_us[(c->turn.end_count - 1 - back) % TURN_ENDS];
}

int64_t core_gather_us(const struct core *c)
{
	int64_t now = clock_boot_us(), left_us = last_end_us(c, 0) + GATHER_US - now;

	if (now - last_end_us(c, TURN_ENDS - 1) > TURN_ENDS * GATHER_RARE_US ||
		c->slots.running < GATHER_RUNNING || c->phase.is_suspended || c->phase.is_stopping ||
		c->phase.is_done || has_work(c) || !store_has_batch(c->store))
		return 0;
	return left_us < 0 ? 0 : left_us < GATHER_STEP_US ? left_us : GATHER_STEP_US;
}

bool core_end_turn(struct core *c)
{
	bool goes_on = end_turn(c);

	if (c->turn.has_committed)
		c->turn.ends_us[c->turn.end_count++ % TURN_ENDS] = clock_boot_us();

	log_hold(!c->phase.is_done); /* the lines of the effects, too, before the loop sleeps */
	return goes_on;
}

static void try_again(struct core *c)
{
	/* The whole commit again, since the suspension may have cut the turn short. The store must also be
	 * readable: a read may have failed, and an empty batch does not show that. */
	if (commit(c) < 0 || !store_is_readable(c->store)) {
		core_suspend(c);
		return;
	}
	resume_turns(c);
}

void core_on_time(struct core *c)
{
	int64_t now = clock_boot_us();

	if (!c->phase.is_suspended) {
		timers_run(&c->timers, now);
		return;
	}
	if (now >= c->suspended.retry_us)
		try_again(c);
	if (c->phase.is_suspended && now >= c->health.at_us) { /* the broker may use the same full disk */
		log_error(
			"the store still refuses, everything waits; workers run on unwatched, so look into "
			"%s/work if the disk is full: held_for=%llds error=%s",
			c->state_dir, (long long)((now - c->suspended.since_us) / SECOND),
			store_error(c->store));
		check_links(c);
		timer_set(&c->timers, &c->health, now + heartbeat_us(c));
	}
	if (c->phase.is_suspended && c->phase.is_stopping && now >= c->stop.end.at_us) {
		log_error(
			"the store still refuses and the time to stop is over, leaving; the last turn is "
			"lost and nobody was told of it: error=%s",
			store_error(c->store));
		c->phase.exit_code = EX_IOERR;
		c->phase.is_done = true;
	}
}

int64_t core_next_us(const struct core *c)
{
	return c->phase.is_suspended ? c->suspended.retry_us : timers_next_us(&c->timers);
}

void core_on_child(struct core *c)
{
	workers_reap(c->workers); /* workers_reap keeps the exit status while turns are suspended */
}

/* ---- the bus ---- */

static void misconfigured(struct core *c, const struct bus_in *in)
{
	log_error("the broker does not do what is needed: why=%s", in->text);
	if (in->first) {
		c->phase.exit_code = EX_CONFIG;
		core_stop(c);
	}
}

static void forget_inbox(struct core *c)
{
	struct bus_in *in;

	while ((in = c->inbox) != NULL) {
		c->inbox = in->next;
		bus_in_free(in);
	}
}

/* News of the connections. They are few and cheap, and are taken at once: bus_take has told the bus that
 * the core knows of a new connection, so nothing may be published before the loss of the old one is known. */
static void on_news(struct core *c, struct bus_in *in)
{
	switch (in->kind) {
	case BUS_SETTLED: outbox_on_settled(c->outbox, in->outs); return;
	case BUS_PUB_UP: outbox_on_up(c->outbox); break;
	case BUS_PUB_DOWN: outbox_on_down(c->outbox, in->outs, in->code, in->text); break;
	case BUS_MISCONFIGURED: misconfigured(c, in); break;
	/* The broker delivers these again; two connections' deliveries are never in memory. */
	case BUS_SUB_DOWN: forget_inbox(c); break;
	case BUS_DELIVERY:
	case BUS_PUB_BLOCKED:
	case BUS_PUB_UNBLOCKED:
	case BUS_SUB_UP: break;
	}
	core_say_status(c);
}

static void take_from_bus(struct core *c)
{
	struct bus_in *list = bus_take(c->bus), *in, **end = &c->inbox;

	while (*end != NULL)
		end = &(*end)->next;
	while ((in = list) != NULL) {
		list = in->next;
		in->next = NULL;
		if (in->kind == BUS_DELIVERY) {
			*end = in;
			end = &in->next;
			continue;
		}
		on_news(c, in);
		if (c->inbox == NULL)
			end = &c->inbox;
		bus_in_free(in);
	}
}

/* Takes the deliveries in their order, as long as this turn has time for them. */
static void work_on_inbox(struct core *c)
{
	struct bus_in *in;

	while ((in = c->inbox) != NULL && !slice_is_over(&c->turn.bus_slice)) {
		if (!intake_take(c, in)) {
			core_suspend(c);
			return;
		}
		c->inbox = in->next;
		bus_in_free(in);
	}
}

void core_on_bus(struct core *c)
{
	if (c->phase.is_suspended)
		return; /* resume_turns calls this again */
	take_from_bus(c);
	work_on_inbox(c);
}

/* ---- operators ---- */

/* Requests that only read are answered also while turns are suspended: operators need them most then. */
void core_on_requests(struct core *c)
{
	struct op_request **at = &c->operator.waiting, *a;

	if (c->operator.queue == NULL)
		return;
	while (*at != NULL)
		at = &(*at)->next;
	*at = op_queue_take(c->operator.queue);
	if (!c->phase.is_suspended)
		operator_audit_denied(c);
	/* A suspended core has no turns, and so no share of one. */
	for (at = &c->operator.waiting;
		(a = *at) != NULL && (c->phase.is_suspended || !slice_is_over(&c->turn.request_slice));) {
		*at = a->next;
		a->next = NULL;
		if ((!c->phase.is_suspended || operator_only_reads(a->verb)) && operator_take(c, a))
			continue;
		if (!c->phase.is_suspended)
			core_suspend(c); /* the store cannot be read */
		a->next = *at;
		*at = a;
		at = &a->next;
	}
}

/* ---- jobs ---- */

/* One a turn: a large state makes a large commit. */
void core_on_jobs(struct core *c)
{
	struct job *j;

	if (c->phase.is_suspended || c->turn.has_taken_job || c->jobs == NULL ||
		(j = jobs_take(c->jobs)) == NULL)
		return;
	c->turn.has_taken_job = true;
	j->done(j);
}

void core_go_on(struct core *c)
{
	if (c->phase.is_suspended)
		return;
	work_on_inbox(c);
	if (c->operator.waiting != NULL)
		core_on_requests(c);
}

/* ---- stop ---- */

static void for_each_session(struct core *c, void (*fn)(struct session *s))
{
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (!s->turn.is_closed)
			fn(s);
}

static void stop_now(struct session *s)
{
	if (s->run.runner != NULL)
		run_stop_now(s, s->core->stop.kill_at_us);
}

static void on_stop_half(struct timer *t)
{
	struct core *c = container_of(t, struct core, stop.half);

	for_each_session(c, run_stop_at_half);
	run_hurry(c);
}

static void on_stop_end(struct timer *t)
{
	struct core *c = container_of(t, struct core, stop.end);

	if (run_has_processes(c))
		log_error("ALARM: stop_timeout is over and processes are left");
	c->phase.is_done = true;
}

void core_stop(struct core *c)
{
	int64_t now = clock_boot_us(), span = c->policy->config->stop_timeout_us;

	if (c->phase.is_stopping) {
		log_warn("told to stop a second time: ending all workers now");
		c->stop.kill_at_us = now;
		for_each_session(c, stop_now);
		run_hurry(c);
		return;
	}
	c->phase.is_stopping = c->phase.is_draining = true;
	c->stop.kill_at_us = now + span * 3 / 4;
	log_info("stopping: running=%u waiting=%u within=%llds", c->slots.running, c->slots.waiting,
		(long long)(span / SECOND));
	for_each_session(c, run_stop);
	CRASH_POINT(stop_begun);
	run_retire_idle(c);
	run_hurry(c);
	timer_set(&c->timers, &c->stop.half, now + span / 2);
	timer_set(&c->timers, &c->stop.end, now + span);
	core_say_status(c);
}

void core_say_log(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	log_at(is_error ? LOG_LVL_ERROR : LOG_LVL_WARN, "%s", text);
}

/* ---- lifecycle ---- */

/* The daemon of the original may run: its processes are not this daemon's to kill. */
static void say_copy(struct core *c)
{
	static const char about[] =
		"the state directory is not the one of the last start, but a copy of it, or "
		"was moved, or mounted anew: processes get a new mark";

	log_warn(
		"%s; processes of the other directory's daemon are left alone, and sessions that were live "
		"there go on here, too, unless on_start = ask: state_dir=%s",
		about, c->state_dir);
	audit_put(c,
		&(struct audit_entry){.what = "state_dir",
			.outcome = "done",
			.who = "daemon",
			.code = "copied",
			.about = about});
}

int core_init(struct core *c, struct policy *policy, const char *config_path, char *why, size_t why_size)
{
	const char *dir = policy->config->state_dir;
	int code;

	memset(c, 0, sizeof *c);
	c->config_path = config_path;
	c->policy = policy;
	c->first_policy = policy_ref(policy);
	c->state_dir = dir;
	c->large_bytes = LINES_READ_MAX;
	c->save.on_due = on_save;
	c->health.on_due = on_health;
	c->stop.half.on_due = on_stop_half;
	c->stop.end.on_due = on_stop_end;
	if ((code = store_open(dir, &c->store, why, why_size)) != EX_OK)
		return code;
	if (answers_init(c, why, why_size) < 0)
		return EX_IOERR;
	if (token_load_keys(dir, &c->keys, why, why_size) < 0)
		return EX_CANTCREAT;
	if (audit_init(c, why, why_size) < 0)
		return EX_IOERR;
	audit_put(c,
		&(struct audit_entry){
			.what = "start", .outcome = "done", .who = "daemon", .about = "hcpd " HCPD_VERSION});
	if (store_is_copy(c->store))
		say_copy(c);
	c->last_session = store_last_session(c->store);
	c->first_id = (uint32_t)strtoul(store_instance(c->store), NULL, 16); /* a UUID: its first 8 digits */
	c->phase.began_us = clock_boot_us();
	c->program = policy_program_new(c, policy_wait_on_answer);
	c->has_trash = true; /* the previous run may have left some */
	timer_set(&c->timers, &c->health, clock_boot_us() + heartbeat_us(c));
	return EX_OK;
}

void core_make_outbox(struct core *c)
{
	c->outbox = outbox_new(c->store, c->bus, &c->timers, c->first_policy->config, &outbox_ops, c);
}

int core_recover(struct core *c)
{
	return recover_all(c);
}

void core_fini(struct core *c)
{
	struct session *s, *tmp;

	/* The last turn is stored whole, or not at all. Its effects are left to the next run. */
	c->phase.is_draining = c->turn.save_due = true;
	CRASH_POINT(stop_before_last_commit);
	if (c->outbox != NULL && !c->phase.is_suspended)
		audit_flush(c);
	if (c->outbox != NULL && !c->phase.is_suspended && commit(c) < 0)
		log_warn("the last turn is not stored, and nobody was told of it: error=%s",
			store_error(c->store));
	CRASH_POINT(stop_last_commit);
	if (c->audit.slots != NULL)
		log_info("audit: rows=%lld head=%s", (long long)c->audit.count, c->audit.head);
	audit_fini(c);
	run_fini_all(c);
	HASH_ITER(by_key, c->by_key, s, tmp)
		session_free(s);
	pins_fini(c);
	caller_log_fini(c);
	policy_program_free(c->program);
	forget_inbox(c);
	while (c->operator.waiting != NULL) {
		struct op_request *a = c->operator.waiting;

		c->operator.waiting = a->next;
		op_request_free(a);
	}
	intake_end_turn(c);
	approval_end_turn(c);
	harp_snapshot_end_turn(c);
	if (c->outbox != NULL)
		outbox_free(c->outbox);
	store_close(c->store);
	effects_fini(&c->turn.effects);
	slots_fini(&c->slots);
	rates_fini(&c->rates);
	timers_fini(&c->timers);
	buf_fini(&c->turn.scratch);
	policy_unref(c->policy);
	policy_unref(c->first_policy);
}
