/* core.c: the turn: input is applied, committed once, and only then has effects.
 * Owns the order of that, the hold while the store refuses, the stop and the reload. Knows no descriptor
 * and no event loop: loop.c feeds it, and a simulation can. */
#include "core/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "core/running/artifacts.h"
#include "base/clock.h"
#include "core/admission/policy_wait.h"
#include "control/control.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/pins.h"
#include "core/recovery/recover.h"
#include "retain/retain.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/running/harp_snapshot.h"
#include "store/statedir.h"

#define SECOND 1000000
#define HOLD_RETRY_US (1 * SECOND)
#define SAVE_DELAY_US (SECOND / 4)
#define UNSAVED_MAX 64     /* watermarks of callers */
#define TRASH_SLICE 256    /* entries of working directories deleted in a turn */
#define SUBMITS_SLICE 5000 /* old submits looked at, at a time */

/* ---- outbox to sessions ---- */

static void check_total(struct core *c)
{
	const struct config *config = c->policy->config;
	struct outbox_stats st;
	bool full;

	outbox_get_stats(c->outbox, &st);
	full = st.waiting_bytes >=
		(c->all_paused ? config->max_outbox_total * 3 / 4 : config->max_outbox_total);
	if (full == c->all_paused)
		return;
	c->all_paused = full;
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
		s->waiting_bytes -= (int64_t)bytes;
		if (s->is_unread)
			run_check_backlog(s);
	}
}

static void on_unroutable(void *ctx, int64_t session, const char *caller_id)
{
	struct core *c = ctx;
	struct session *s = session != 0 ? session_find_key(c, session) : NULL;

	c->stats.unroutable++;
	if (s == NULL || s->said_unroutable)
		return;
	s->said_unroutable = true;
	log_info("unroutable: no queue takes the caller's events, they are kept: session=%.8s caller=%s",
		s->id, caller_id);
}

static void on_backlog(void *ctx, int64_t session, int64_t bytes)
{
	struct session *s = session_find_key(ctx, session);

	if (s != NULL)
		s->waiting_bytes += bytes;
}

static const struct outbox_ops outbox_ops = {on_settled, on_unroutable, on_backlog};

/* ---- clocks ---- */

static void on_save(struct timer *t)
{
	container_of(t, struct core, save)->save_due = true;
}

/* A slice at a time. True: there was something, so there may be more. */
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

/* Why a connection must be made anew, NULL where it moves as it should. */
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

/* Is what should move moving? */
static void check_links(struct core *c)
{
	int64_t beat = heartbeat_us(c);
	struct bus_health h;
	const char *why;

	bus_get_health(c->bus, &h);
	why = find_fault(h.pub_up, h.pub_progress_age_us, h.pub_frame_age_us, beat);
	/* While we hold, nobody takes what was confirmed. */
	if (why == NULL && !h.blocked && !c->is_held &&
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

	if (c->on_status == NULL)
		return;
	outbox_get_stats(c->outbox, &st);
	bus_get_health(c->bus, &h);
	age = outbox_oldest_us(c->outbox, clock_boot_us());
	if (age >= 0)
		snprintf(oldest, sizeof oldest, ", oldest unconfirmed %lld s", (long long)(age / SECOND));
	snprintf(text, sizeof text,
		"%s%s%s: %u running, %u waiting; outbox %lld bytes%s; publishing %s, consuming %s; "
		"last frame %lld s ago; %llu dropped, %llu unroutable, %llu late lines; audit %lld %.16s",
		c->is_held ? "HELD, the store refuses: " : "", c->is_held ? store_error(c->store) : "",
		c->is_stopping         ? "stopping" :
			c->is_draining ? "draining, no worker is started" :
			c->is_held     ? "" :
					 "serving",
		c->slots.running, c->slots.waiting + c->slots.asking, (long long)st.waiting_bytes, oldest,
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
	c->on_status(c->status_ctx, text);
}

/* ---- slots ---- */

bool core_fill_slots(struct core *c)
{
	struct session *s;

	while ((s = slots_next(c)) != NULL) {
		if (s->state == S_PAUSED) { /* an operator wants it to go on */
			CRASH_POINT(slot_resumes);
			if (recover_go_on(s) < 0)
				return false;
			continue;
		}
		slots_take(c, s);
		s->attempt++;
		session_run(s, s->is_fresh ? "approved" : "slot_free", "daemon");
		CRASH_POINT(slot_taken);
		run_set_clocks(s);
		effect_start(s);
	}
	return true;
}

/* ---- the turn ---- */

void core_hold(struct core *c)
{
	int64_t now = clock_boot_us();

	if (c->policy->config->store_on_error == STORE_EXIT) {
		log_error(
			"the store refuses, ending as configured; nothing was said that is not stored: "
			"error=%s",
			store_error(c->store));
		c->exit_code = EX_IOERR;
		c->is_done = true;
		return;
	}
	c->hold_retry_us = now + HOLD_RETRY_US;
	if (c->is_held)
		return;
	c->is_held = true;
	c->held_since_us = now;
	workers_hold(c->workers, true);
	log_error(
		"the store refuses, everything waits and is tried again every second; make room or mend the "
		"disk: error=%s",
		store_error(c->store));
	core_say_status(c);
}

static void let_go(struct core *c)
{
	c->is_held = false;
	log_warn("the store takes again, going on: held_for=%llds",
		(long long)((clock_boot_us() - c->held_since_us) / SECOND));
	workers_hold(c->workers, false);
	run_touch_all(c);
	judge_touch_all(c->program);
	core_say_status(c);
	core_on_bus(c); /* what came meanwhile */
	core_on_asks(c);
}

static void check_stopped(struct core *c)
{
	struct outbox_stats st;
	struct bus_health h;

	if (!c->is_stopping || c->is_done || run_has_processes(c) || artifacts_delay_stop(c) ||
		store_has_batch(c->store) || c->effects.count > 0)
		return;
	outbox_get_stats(c->outbox, &st);
	bus_get_health(c->bus, &h);
	/* What is in flight may still be confirmed; what cannot go out stays in the outbox. */
	if (st.in_flight == 0 || !h.pub_up)
		c->is_done = true;
}

/* All of the turn in one transaction. */
static int commit(struct core *c)
{
	if (!core_fill_slots(c)) /* a slot that this turn freed is taken in the same commit */
		return -1;
	sessions_save_dirty(c);
	audit_end_turn(c);
	/* Seldom: it costs a page in a commit. Callers that nobody knows come in crowds, and are forgotten
	 * once saved. */
	if (c->save_due || (store_has_batch(c->store) && outbox_unsaved(c->outbox) > UNSAVED_MAX)) {
		outbox_save(c->outbox);
		c->save_due = false;
	}
	c->has_committed = store_has_batch(c->store);
	return store_run(c->store);
}

/* What was decided becomes true here; each step says why it stands before the next. */
bool core_end_turn(struct core *c)
{
	struct session *over;
	bool more_to_store;

	if (c->is_held || c->is_done)
		return false;
	if (commit(c) < 0) {  /* nothing is true yet ... */
		core_hold(c); /* ... so nothing may be said; the batch is kept and tried again */
		return false;
	}
	intake_end_turn(c);        /* the store knows this turn's submits now, */
	review_end_turn(c);        /* and its decisions, */
	snapshot_end_turn(c);      /* and its snapshots */
	outbox_release(c->outbox); /* what a failing start says below waits for its own commit, */
	over = c->closed;          /* and so do sessions that it closes */
	c->closed = NULL;
	effects_release(c);         /* acks, lines, starts, ends; workers are at it while we publish */
	judge_end_turn(c->program); /* whoever waits for its verdict is stored */
	outbox_pump(c->outbox);
	bus_flush(c->bus); /* once: each costs a wake-up */
	if (c->control != NULL && c->has_committed)
		control_on_commit(c->control);
	sessions_sweep(over); /* no effect points to them any more; deleting directories takes its time */
	run_sweep(c);
	workers_new_turn(c->workers);
	check_total(c);
	if (c->has_trash)
		c->has_trash = workdir_sweep(c->state_dir, TRASH_SLICE);
	more_to_store = artifacts_step(c); /* of files whose announcement is committed */
	more_to_store |= retain_step(c);
	if (outbox_unsaved(c->outbox) > 0 && !timer_is_set(&c->save))
		timer_set(&c->timers, &c->save, clock_boot_us() + SAVE_DELAY_US);
	check_stopped(c);
	return store_has_batch(c->store) || c->dirty != NULL || c->effects.count > 0 || c->has_trash ||
		more_to_store;
}

static void try_again(struct core *c)
{
	/* The whole of it: the hold may have cut the turn short. It may also have been for a row that could
	 * not be read, and an empty batch says nothing about those. */
	if (commit(c) < 0 || !store_is_readable(c->store)) {
		core_hold(c);
		return;
	}
	let_go(c);
}

void core_on_time(struct core *c)
{
	int64_t now = clock_boot_us();

	if (!c->is_held) {
		timers_run(&c->timers, now);
		return;
	}
	if (now >= c->hold_retry_us)
		try_again(c);
	if (c->is_held && now >= c->health.at_us) { /* the disk may be the broker's too */
		log_error(
			"the store still refuses, everything waits; workers run on unwatched, so look into "
			"%s/work if the disk is "
			"full: held_for=%llds error=%s",
			c->state_dir, (long long)((now - c->held_since_us) / SECOND), store_error(c->store));
		check_links(c);
		timer_set(&c->timers, &c->health, now + heartbeat_us(c));
	}
	if (c->is_held && c->is_stopping && now >= c->stop_end.at_us) {
		log_error(
			"the store still refuses and the time to stop is over, leaving; the last turn is "
			"lost and nobody was told "
			"of it: error=%s",
			store_error(c->store));
		c->exit_code = EX_IOERR;
		c->is_done = true;
	}
}

int64_t core_next_us(const struct core *c)
{
	return c->is_held ? c->hold_retry_us : timers_next_us(&c->timers);
}

void core_on_child(struct core *c)
{
	workers_reap(c->workers); /* remembers it while held */
}

/* ---- the bus ---- */

static void misconfigured(struct core *c, const struct bus_in *in)
{
	log_error("%s", in->text);
	if (in->first) {
		c->exit_code = EX_CONFIG;
		core_stop(c);
	}
}

static bool on_message(struct core *c, struct bus_in *in)
{
	switch (in->kind) {
	case BUS_DELIVERY: return intake_take(c, in);
	case BUS_SETTLED: outbox_on_settled(c->outbox, in->outs); return true;
	case BUS_PUB_UP: outbox_on_up(c->outbox); break;
	case BUS_PUB_DOWN: outbox_on_down(c->outbox, in->outs, in->code, in->text); break;
	case BUS_MISCONFIGURED: misconfigured(c, in); break;
	case BUS_PUB_BLOCKED:
	case BUS_PUB_UNBLOCKED:
	case BUS_SUB_UP:
	case BUS_SUB_DOWN: break;
	}
	core_say_status(c);
	return true;
}

void core_on_bus(struct core *c)
{
	struct bus_in *in, *next;

	if (c->is_held)
		return; /* let_go looks again */
	for (in = c->deferred != NULL ? c->deferred : bus_take(c->bus); in != NULL; in = next) {
		next = in->next;
		if (!on_message(c, in)) {
			c->deferred = in;
			core_hold(c);
			return;
		}
		bus_in_free(in);
	}
	if (c->deferred != NULL) {
		c->deferred = NULL;
		core_on_bus(c); /* and what came behind it */
	}
}

/* ---- operators ---- */

/* While nothing may happen, questions are still answered: most of all then. */
void core_on_asks(struct core *c)
{
	struct ask **at = &c->asks, *a;

	if (c->control == NULL)
		return;
	while (*at != NULL)
		at = &(*at)->next;
	*at = control_take(c->control);
	if (!c->is_held)
		operate_note_strangers(c);
	for (at = &c->asks; (a = *at) != NULL;) {
		*at = a->next;
		a->next = NULL;
		if ((!c->is_held || operate_only_looks(a->verb)) && operate_take(c, a))
			continue;
		if (!c->is_held)
			core_hold(c); /* what it needs cannot be read */
		a->next = *at;
		*at = a;
		at = &a->next;
	}
}

/* ---- stop and reload ---- */

static void for_each_session(struct core *c, void (*fn)(struct session *s))
{
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (!s->is_closed)
			fn(s);
}

static void stop_now(struct session *s)
{
	if (s->host != NULL)
		run_stop_now(s, s->core->stop_at_us);
}

static void on_stop_half(struct timer *t)
{
	struct core *c = container_of(t, struct core, stop_half);

	for_each_session(c, stop_now);
	run_hurry(c);
}

static void on_stop_end(struct timer *t)
{
	struct core *c = container_of(t, struct core, stop_end);

	if (run_has_processes(c))
		log_error("ALARM: stop_timeout is over and processes are left");
	c->is_done = true;
}

void core_stop(struct core *c)
{
	int64_t now = clock_boot_us(), span = c->policy->config->stop_timeout_us;

	if (c->is_stopping) {
		log_warn("told to stop a second time: ending all workers now");
		c->stop_at_us = now;
		for_each_session(c, stop_now);
		run_hurry(c);
		return;
	}
	c->is_stopping = c->is_draining = true;
	c->stop_at_us = now + span * 3 / 4;
	log_info("stopping: running=%u waiting=%u within=%llds", c->slots.running, c->slots.waiting,
		(long long)(span / SECOND));
	for_each_session(c, run_stop);
	CRASH_POINT(stop_begun);
	run_retire_idle(c);
	run_hurry(c);
	timer_set(&c->timers, &c->stop_half, now + span / 2);
	timer_set(&c->timers, &c->stop_end, now + span);
	core_say_status(c);
}

void core_say_log(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	log_at(is_error ? LOG_LVL_ERROR : LOG_LVL_WARN, "%s", text);
}

static bool differs(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

/* What the broker side and the workers took a copy of. */
static bool needs_restart(const struct config *a, const struct config *b)
{
	const struct config_amqp *x = &a->amqp, *y = &b->amqp;

	return differs(a->callee_id, b->callee_id) || differs(a->state_dir, b->state_dir) ||
		differs(a->cgroup, b->cgroup) || a->dumpable != b->dumpable ||
		differs(a->control_socket, b->control_socket) ||
		differs(a->control_group, b->control_group) || a->max_message != b->max_message ||
		a->max_line != b->max_line || a->max_lines_total != b->max_lines_total ||
		differs(x->host, y->host) || x->port != y->port || differs(x->vhost, y->vhost) ||
		differs(x->user, y->user) || differs(x->password, y->password) || x->tls != y->tls ||
		x->sasl != y->sasl || x->verify != y->verify || differs(x->ca_file, y->ca_file) ||
		differs(x->cert_file, y->cert_file) || differs(x->key_file, y->key_file) ||
		x->heartbeat_s != y->heartbeat_s || x->queue_type != y->queue_type ||
		x->prefetch != y->prefetch || x->reconnect_max_us != y->reconnect_max_us ||
		x->window_messages != y->window_messages || x->window_bytes != y->window_bytes;
}

void core_reload(struct core *c)
{
	struct policy *p = policy_load(c->config_path, core_say_log, NULL);
	const struct config *was = c->first_policy->config;

	struct audit_entry row = {
		.what = "reload", .outcome = "done", .who = "daemon", .policy_before = c->policy->hash};

	if (p == NULL) {
		log_error("the new configuration is broken and refused whole, the old one stays: file=%s",
			c->config_path);
		row.outcome = "refused";
		row.code = "broken_configuration";
		audit_put(c, &row);
		return;
	}
	CRASH_POINT(reload_loaded);
	if (needs_restart(p->config, was))
		log_warn(
			"callee_id, state_dir, cgroup, dumpable, [amqp], [control] and message, line and "
			"lines_total of [limits] are read at "
			"start only: "
			"restart hcpd for their new values");
	row.policy = p->hash;
	audit_put(c, &row);
	policy_unref(c->policy);
	c->policy = p;
	log_set_level(p->config->log_level);
	CRASH_POINT(reload_taken);
	if (config_has_users(p->config))
		(void)statedir_prepare(
			c->state_dir, true); /* they have to find their directories; what is wrong was said */
	run_retire_idle(c);                  /* their command may be another now */
	judge_reload(c->program);
	log_info("configuration reloaded: file=%s capabilities=%zu callers=%zu", c->config_path,
		p->config->capability_count, p->config->caller_count);
}

/* ---- life ---- */

int core_init(struct core *c, struct policy *policy, const char *config_path, char *why, size_t why_size)
{
	const char *dir = policy->config->state_dir;
	int code;

	memset(c, 0, sizeof *c);
	c->config_path = config_path;
	c->policy = policy;
	c->first_policy = policy_ref(policy);
	c->state_dir = dir;
	c->save.on_due = on_save;
	c->health.on_due = on_health;
	c->stop_half.on_due = on_stop_half;
	c->stop_end.on_due = on_stop_end;
	if ((code = store_open(dir, &c->store, why, why_size)) != EX_OK)
		return code;
	if (token_load_keys(dir, &c->keys, why, why_size) < 0)
		return EX_CANTCREAT;
	if (audit_init(c, why, why_size) < 0)
		return EX_IOERR;
	audit_put(c,
		&(struct audit_entry){
			.what = "start", .outcome = "done", .who = "daemon", .about = "hcpd " HCPD_VERSION});
	c->last_session = store_last_session(c->store);
	c->began_us = clock_boot_us();
	c->program = judge_new(c, consult_on_answer);
	c->has_trash = true; /* what an earlier life left of it */
	timer_set(&c->timers, &c->health, clock_boot_us() + heartbeat_us(c));
	return EX_OK;
}

void core_make_outbox(struct core *c)
{
	c->outbox = outbox_new(c->store, c->bus, &c->timers, c->first_policy->config, &outbox_ops, c);
}

void core_fini(struct core *c)
{
	struct session *s, *tmp;

	/* What the last turn decided is stored whole, or not at all; its effects are left to the next life.
	 */
	c->is_draining = c->save_due = true;
	CRASH_POINT(stop_before_last_commit);
	if (c->outbox != NULL && !c->is_held)
		audit_flush(c);
	if (c->outbox != NULL && !c->is_held && commit(c) < 0)
		log_warn("the last turn is not stored, and nobody was told of it: error=%s",
			store_error(c->store));
	CRASH_POINT(stop_last_commit);
	if (c->audit.slots != NULL)
		log_info("audit: rows=%lld head=%s", (long long)c->audit.count, c->audit.head);
	audit_fini(c);
	run_fini_all(c);
	HASH_ITER(by_key, c->by_key, s, tmp)
		session_free(s);
	need_fini(c);
	judge_free(c->program);
	while (c->deferred != NULL) {
		struct bus_in *in = c->deferred;

		c->deferred = in->next;
		bus_in_free(in);
	}
	while (c->asks != NULL) {
		struct ask *a = c->asks;

		c->asks = a->next;
		ask_free(a);
	}
	intake_end_turn(c);
	review_end_turn(c);
	snapshot_end_turn(c);
	if (c->outbox != NULL)
		outbox_free(c->outbox);
	store_close(c->store);
	effects_fini(&c->effects);
	slots_fini(&c->slots);
	rates_fini(&c->rates);
	timers_fini(&c->timers);
	buf_fini(&c->scratch);
	policy_unref(c->policy);
	policy_unref(c->first_policy);
}
