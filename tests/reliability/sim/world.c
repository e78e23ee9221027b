/* SPDX-License-Identifier: MIT */
/* world.c: lives of the daemon, turns of its loop, and time.
 * Owns the fakes, the dice, and the death of a life at any point: from the moment of a crash on nothing
 * that the core still does has an effect, and its memory is dropped. Never decides what happens
 * (scenario.c). */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sysexits.h>

#include <sqlite3.h>

#include "base/jobs.h"
#include "core/running/artifacts.h"
#include "support/fakes/fake_id.h"
#include "retain/retain.h"
#include "core/running/run.h"

#define ROUNDS_MAX 5000 /* turns at one instant: more is a loop without an end */

struct sim sim;

static char db_path[400];
static struct mood *moods;
static size_t mood_room;
static sqlite3 *other; /* another program that uses the database */
static int left_over;  /* processes that a crash left */

/* ---- dice and trace ---- */

unsigned sim_choose(unsigned n)
{
	uint64_t z = (sim.dice += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (unsigned)((z ^ (z >> 31)) >> 32) % n;
}

void sim_hash(const void *data, size_t size)
{
	const unsigned char *p = data;

	while (size-- > 0)
		sim.hash = (sim.hash ^ *p++) * UINT64_C(0x100000001b3);
}

void sim_trace(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	sim_hash(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
	if (sim.verbose)
		printf("%4u %10.3f  %s\n", sim.steps, (double)(fake_boot_us - 5000 * SECONDS) / 1e6, text);
}

/* ---- once a process, once a seed ---- */

/* A store as the daemon makes it is made once; each seed begins with a copy. */
static void make_template(void)
{
	char why[512] = "";

	memdisk_wipe();
	if (core_init(&sim.core, setup_policy(), setup_ini(false), why, sizeof why) != EX_OK)
		violation("no store: %s", why);
	core_fini(&sim.core);
	memdisk_keep();
}

static void on_disk_death(void)
{
	sim_die(CRASH_DISK);
}

void sim_world_init(const char *dir)
{
	char state[300];
	FILE *f;

	snprintf(state, sizeof state, "%s/state", dir);
	snprintf(db_path, sizeof db_path, "%s/hcpd.db", state);
	if (mkdir(state, 0700) < 0)
		violation("%s: %s", state, strerror(errno));
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	memdisk_init(sim_choose, on_disk_death);
	setup_init(dir);
	make_template();
	/* its name is looked for; what is in it is on the other disk */
	if ((f = fopen(db_path, "w")) == NULL || fclose(f) != 0)
		violation("%s: %s", db_path, strerror(errno));
}

void sim_world_fini(void)
{
	setup_fini();
	free(moods);
	memdisk_fini();
}

void sim_world_reset(uint64_t seed)
{
	bool verbose = sim.verbose;
	enum lie lie = sim.lie;

	memset(&sim, 0, sizeof sim);
	sim.verbose = verbose;
	sim.lie = lie;
	sim.seed = seed;
	sim.dice = seed * UINT64_C(0xd1342543de82ef95) + 17;
	sim.hash = UINT64_C(0xcbf29ce484222325);
	fake_seed = seed * 1000003 + 7;
	fake_boot_us = 5000 * SECONDS;
	fake_wall_us = INT64_C(1769860800) * SECONDS;
	left_over = 0;
	memdisk_restore();
	memdisk_faults.forgets_syncs = lie == LIE_FORGETS;
	sim_world_fail_workdirs(-1);
	shelf_reset();
	keeper_reset();
	watch_reset();
	broker_reset();
	approver_reset();
	sim.variant = (int)sim_choose(VARIANTS);
}

/* ---- death ---- */

void sim_die(enum covered where)
{
	if (sim.is_dead)
		return;
	sim.is_dead = true;
	sim.flushed_at_death = sim.bus.flushed;
	memdisk_set_dead(true);
	cover(where);
	if (sim.core.phase.is_stopping)
		cover(CRASH_STOPPING);
	sim_trace("the daemon dies (%d)", (int)where);
}

/* Does this effect happen? */
static bool happens(enum covered where)
{
	if (!sim.is_dead && sim.effects_left > 0 && --sim.effects_left == 0)
		sim_die(where);
	return !sim.is_dead;
}

/* ---- what the daemon does to its world ---- */

static void on_publish(void *ctx, const struct bus_out *out)
{
	(void)ctx;
	if (!happens(CRASH_PUBLISH))
		return;
	sim_hash(out->body, out->size);
	effect_oracle_publish(out);
}

static void on_answer(void *ctx, uint64_t tag, bool is_ack)
{
	(void)ctx;
	if (happens(CRASH_ACK))
		broker_on_answer(tag, is_ack);
}

struct mood *sim_mood(const struct worker *w)
{
	return &moods[w->number];
}

static void on_start(void *ctx, const struct worker *w)
{
	struct worker *mine = sim.workers.list[w->number];

	(void)ctx;
	if (!happens(CRASH_START)) {
		mine->is_gone = true; /* never was */
		return;
	}
	if ((size_t)w->number >= mood_room) {
		mood_room = mood_room ? 2 * mood_room : 64;
		moods = xrealloc(moods, mood_room * sizeof *moods);
	}
	moods[w->number] = (struct mood){.started = sim.turns + 1};
	sim_trace("worker %d starts: %s %.8s", w->number, w->argv[1], w->session_id);
	effect_oracle_start(w);
	script_on_start(w);
}

static void on_write(void *ctx, const struct worker *w, const char *line, size_t size)
{
	(void)ctx;
	if (!happens(CRASH_LINE) || w->is_gone)
		return;
	/* the rest may name our directory, which is another each time */
	sim_hash(line, size < 100 ? size : 100);
	if (program_is(w)) {
		program_on_line(sim.workers.list[w->number], line, size);
		return;
	}
	if (mover_is(w)) {
		mover_on_line(w, line, size);
		return;
	}
	effect_oracle_line(w, line, size);
	script_on_line(sim.workers.list[w->number], line);
}

static void on_end(void *ctx, const struct worker *w)
{
	(void)ctx;
	if (happens(CRASH_END) && !w->is_gone)
		effect_oracle_worker_end(w);
}

size_t workers_alive(void)
{
	size_t alive = 0;

	for (size_t i = 0; i < sim.workers.count; i++) {
		const struct worker *w = sim.workers.list[i];

		alive += !w->is_gone && (!w->is_dying || w->children > 0);
	}
	return alive;
}

/* ---- lives ---- */

static void close_other(void)
{
	if (other != NULL)
		sqlite3_close(other);
	other = NULL;
	sim.is_locked = false;
}

/* The world's side of a life's end, however it came. */
static void part(void)
{
	jobs_free(sim.core.jobs);
	sim.core.jobs = NULL;
	jobs_free(sim.core.reload.thread);
	sim.core.reload.thread = NULL;
	if (!sim.is_dead)
		sim.flushed_at_death = sim.bus.flushed;
	if (sim.core.retention.retain != NULL)
		retain_stop(sim.core.retention.retain);
	sim.core.retention.retain = NULL;
	broker_crash();
	watch_end();
	close_other();
	left_over = (int)workers_alive();
}

static void clear_up(void)
{
	operator_end();
	fake_workers_fini(&sim.workers);
	fake_bus_fini(&sim.bus);
	memset(&sim.bus, 0, sizeof sim.bus);
	memset(&sim.workers, 0, sizeof sim.workers);
	memdisk_set_dead(false);
	memdisk_faults = (struct memdisk_faults){.forgets_syncs = sim.lie == LIE_FORGETS};
	if (sim.unreadable != NULL) { /* a disk that gave errors gives none after the restart */
		const char *why = sim_world_exec(NULL);

		if (why != NULL)
			violation("the table cannot be renamed: %s", why);
		close_other();
	}
	sim.is_dead = sim.is_alive = false;
	sim.effects_left = 0;
	sim.stop_since_us = sim.held_since_us = 0;
}

void life_crash(bool power_loss)
{
	sim_die(CRASH_BETWEEN);
	part();
	if (left_over > 0)
		cover(WORKER_LEFT_OVER);
	sim.core.phase.is_suspended = true; /* the dead write nothing */
	core_fini(&sim.core);
	if (power_loss) {
		cover(CRASH_POWER);
		memdisk_lose_power();
		keeper_lose_power();
	}
	clear_up();
	sim.crashes++;
}

/* What hcpd/main.c does once the loop has ended. */
void life_stop(void)
{
	bool graceful = sim.core.phase.exit_code == 0;
	bool is_late = sim.stop_since_us != 0 && fake_boot_us >= sim.stop_since_us + SIM_STOP_US;

	sim_trace("the daemon ends: code=%d", sim.core.phase.exit_code);
	if (graceful && !is_late) {
		cover(STOP_GRACEFUL);
		effect_oracle_stopped();
	} else if (graceful) {
		cover(STOP_LATE);
	} else if (sim.core.policy->config->store_on_error == STORE_EXIT && !sim.core.phase.is_stopping) {
		cover(DISK_EXIT);
	}
	part();
	left_over = 0; /* workers_free kills them */
	core_fini(&sim.core);
	if (sim.is_dead) {
		cover(CRASH_POWER);
		memdisk_lose_power();
		keeper_lose_power();
		sim.crashes++;
	}
	clear_up();
}

static bool try_begin(void)
{
	char why[512] = "";
	int code;

	sim.lives++;
	sim.broker_links = 0;
	code = core_init(&sim.core, setup_policy(), setup_ini(false), why, sizeof why);
	sim.is_alive = true;
	fake_bus_init(&sim.bus);
	fake_workers_init(&sim.workers, &run_ops);
	if (code != EX_OK && !sim.is_dead)
		violation("the daemon does not start: %s", why);
	if (code != EX_OK)
		return false;
	watch_begin();
	sim.bus.most_copied = 1;
	sim.bus.on_publish = on_publish;
	sim.bus.on_answer = on_answer;
	sim.workers.on_start = on_start;
	sim.workers.on_write = on_write;
	sim.workers.on_end = on_end;
	sim.workers.leftovers = left_over;
	sim.core.bus = &sim.bus;
	operator_begin();
	program_begin();
	sim.core.workers = &sim.workers;
	sim.core.jobs = jobs_new(NULL, NULL);
	sim.core.reload.thread = jobs_new_one(NULL, NULL);
	sim.core.large_bytes = 4096;
	core_make_outbox(&sim.core);
	code = core_recover(&sim.core);
	if (!sim.is_dead && code != EX_OK)
		violation("recovery fails with %d", code);
	if (!sim.is_dead && sim.workers.leftovers > 0)
		violation("%d processes of an earlier life were not ended", sim.workers.leftovers);
	if (!sim.is_dead)
		core_end_turn(&sim.core);
	if (!sim.is_dead && (sim.core.phase.is_suspended || sim.core.phase.is_done))
		violation("the first turn is not committed");
	return !sim.is_dead;
}

/* Between two lives: a moment, or a long time; and the next one may die in its recovery. */
static void be_down(void)
{
	fake_clock_pass((int64_t)sim_choose(3000) * 1000);
	if (sim_chance(12)) {
		cover(CLOCK_DOWN);
		fake_clock_pass((int64_t)(60 + sim_choose(900)) * SECONDS);
	}
	if (sim_chance(5))
		sim.effects_left = 1 + (int)sim_choose(4);
	else if (sim_chance(5))
		memdisk_faults.dies_in = 1 + (int)sim_choose(60);
}

static void wake(void *ctx)
{
	(void)ctx; /* nobody sleeps */
}

void life_begin(void)
{
	if (sim.lives > 0 && !sim.is_healed)
		be_down();
	sim_trace("life %u begins%s", sim.lives + 1,
		memdisk_faults.dies_in > 0 || sim.effects_left > 0 ? ", and may die in recovery" : "");
	while (!try_begin()) {
		cover(CRASH_RECOVERY);
		life_crash(sim_chance(2));
	}
	memdisk_faults.dies_in = sim.effects_left = 0;
	left_over = 0;
	sim.core.retention.ops = &retain_ops;
	if (sim.retires && retain_start(&sim.core, wake, NULL, &sim.core.retention.retain) != EX_OK)
		violation("retention does not start");
	broker_begin();
	watch_look();
	sim.clear_us = fake_boot_us;
}

void sim_world_finish(void)
{
	part();
	core_fini(&sim.core);
	clear_up();
	for (size_t i = 0; i < sim.order_count; i++)
		free(sim.orders[i].body);
	sim.order_count = 0;
}

/* ---- turns ---- */

static void note_held(void)
{
	bool held = sim.core.phase.is_suspended;

	if (held && sim.held_since_us == 0) {
		cover(DISK_HELD);
		for (int64_t key = 1; key <= watch.session_count; key++)
			if (watch.sessions[key].waits[0] != '\0')
				cover(WAIT_HELD);
		sim.held_since_us = fake_boot_us;
	} else if (!held && sim.held_since_us != 0) {
		sim.held_us += fake_boot_us - sim.held_since_us;
		sim.let_go_us = fake_boot_us;
		sim.held_since_us = 0;
	}
	if (held && sim.core.phase.is_stopping)
		cover(DISK_STOP_HELD);
}

static void note_unread(void)
{
	for (size_t i = 0; i < sim.workers.count; i++)
		if (sim.workers.list[i]->is_paused && !sim.workers.list[i]->is_gone) {
			cover(WORKER_UNREAD);
			return;
		}
}

static void some_trouble(void)
{
	if (sim.is_healed)
		return;
	if (sim_chance(150)) {
		cover(FATE_MID_TURN);
		broker_drop_pub();
	}
	if (sim_chance(600))
		sim_die(CRASH_MID_TURN);
}

/* A process that nobody sees is left of one that is gone. */
static void lie_about_processes(void)
{
	for (size_t i = 0; i < sim.workers.count; i++)
		if (sim.workers.list[i]->is_gone && sim_chance(50))
			sim.workers.list[i]->children = 1;
}

static void note_reload(void)
{
	program_note_reload();
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];

		if (s->waits[0] != '\0')
			cover(strcmp(s->waits, "human") == 0 ? WAIT_RELOAD_HUMAN : WAIT_RELOAD_PROGRAM);
		else if (s->did_wait && strcmp(s->state, "PENDING") == 0)
			cover(WAIT_RELOAD_DECIDED);
	}
}

/* The configuration was read, now or in an earlier turn. */
static void take_reload(void)
{
	if (sim_chance(3)) {
		cover(RELOAD_LATE);
		return;
	}
	if (!sim.reads_broken)
		note_reload();
	sim.reads_broken = false; /* one that was asked for meanwhile is read from the good file */
	core_on_reload(&sim.core);
}

static bool input(void)
{
	struct core *c = &sim.core;
	bool did = (sim.bus.in != NULL || operator_has_asked()) && !c->phase.is_suspended,
	     workers_first = sim_chance(3);

	if (jobs_have_finished(c->reload.thread)) { /* before anything is heard: see program_note_reload */
		take_reload();
		did = true;
	}
	if (workers_first)
		did |= fake_workers_run(&sim.workers);
	if (sim_chance(10)) /* work takes time: a turn ends before all of it is done */
		fake_clock_step_us = 1 + (int64_t)sim_choose(SLICE_US);
	if (!sim.is_dead)
		core_on_bus(c);
	if (!sim.is_dead)
		core_on_requests(c);
	fake_clock_step_us = 0;
	if (!sim.is_dead && jobs_have_finished(c->jobs)) {
		if (c->restores.working > 0)
			cover(JOB_RESTORED);
		if (sim_chance(2)) { /* or later */
			core_on_jobs(c);
			did = true;
		} else {
			cover(JOB_LATE);
		}
	}
	if (!sim.is_dead && (c->inbox != NULL || (c->operator.waiting != NULL && !c->phase.is_suspended)))
		cover(SLICE_OVER);
	if (!sim.is_dead && core_next_us(c) <= fake_boot_us) {
		core_on_time(c);
		did = true;
	}
	if (!sim.is_dead && !workers_first)
		did |= fake_workers_run(&sim.workers);
	did |= keeper_step();
	if (sim.lie == LIE_SURVIVES)
		lie_about_processes();
	return did;
}

/* One round of the loop, and a new life where this one ended with it. */
bool sim_world_turn(void)
{
	struct core *c = &sim.core;
	bool did = input();

	sim.turns++;
	if (!sim.is_dead)
		some_trouble();
	if (!sim.is_dead)
		did |= core_end_turn(c);
	if (!sim.is_dead && artifacts_delay_stop(c))
		cover(ARTIFACT_WAITED);
	if (sim.is_dead) {
		life_crash(sim_chance(3));
		life_begin();
		return true;
	}
	broker_end_turn();
	note_held();
	note_unread();
	if (c->phase.is_done) {
		life_stop();
		life_begin();
		return true;
	}
	if (sim.bus.pub_drops != sim.broker_links) {
		sim.broker_links = sim.bus.pub_drops;
		cover(FATE_RESCUED);
		broker_drop_pub();
		did = true;
	}
	watch_look();
	if (!c->phase.is_suspended)
		sim.clear_us = fake_boot_us;
	if (sim.is_healed && !c->phase.is_suspended && broker_has_work()) {
		broker_raise();
		broker_take_acks();
		broker_deliver(4);
		broker_work(1000);
		broker_confirm(1000, true);
		did = true;
	}
	return did || keeper_is_ready() ||
		(!c->phase.is_suspended && fake_workers_next_us(&sim.workers) <= fake_boot_us);
}

void sim_world_run(void)
{
	int rounds = 0;

	while (sim_world_turn())
		if (++rounds > ROUNDS_MAX)
			violation("the core does not come to rest: %d turns at one instant", rounds);
	effect_oracle_quiet();
}

static int64_t next_us(void)
{
	int64_t core = core_next_us(&sim.core), workers = fake_workers_next_us(&sim.workers);

	return sim.core.phase.is_suspended || core < workers ? core : workers;
}

void sim_world_pass(int64_t us)
{
	int64_t until = fake_boot_us + us;
	int stops = 0;

	sim_world_run();
	for (int64_t next; (next = next_us()) <= until;) {
		if (next > fake_boot_us)
			fake_clock_pass(next - fake_boot_us);
		sim_world_run();
		if (++stops > ROUNDS_MAX)
			violation("time does not pass: %d wake-ups on the way", stops);
	}
	if (until > fake_boot_us)
		fake_clock_pass(until - fake_boot_us);
	sim_world_run();
}

void sim_world_step_wall(int64_t us)
{
	fake_clock_step_wall(us);
}

void sim_world_suspend(int64_t us)
{
	fake_clock_pass(us);
}

void sim_world_reload(bool broken)
{
	if (sim.core.reload.is_under_way)
		cover(RELOAD_AGAIN);
	else
		sim.reads_broken = broken;
	if (!broken)
		sim.reloaded = !sim.reloaded;
	sim.core.config_path = setup_ini(broken);
	core_reload(&sim.core);
	sim.core.config_path = setup_ini(false);
}

/* ---- another program at the database ---- */

/* NULL: undoes what makes a table unreadable. */
const char *sim_world_exec(const char *sql)
{
	const struct memdisk_faults faults = memdisk_faults;
	const char *why = NULL;
	char undo[100];

	memdisk_faults = (struct memdisk_faults){0}; /* they are for the daemon */
	if (other == NULL && sqlite3_open_v2(db_path, &other, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		violation("the database cannot be opened a second time");
	if (sql == NULL) {
		snprintf(undo, sizeof undo, "ALTER TABLE elsewhere RENAME TO %s", sim.unreadable);
		sim.unreadable = NULL;
		sql = undo;
	}
	if (sqlite3_exec(other, sql, NULL, NULL, NULL) != SQLITE_OK)
		why = sqlite3_errmsg(other);
	memdisk_faults = faults;
	return why;
}

void sim_world_lock(bool lock)
{
	if (lock != sim.is_locked && sim_world_exec(lock ? "BEGIN IMMEDIATE" : "ROLLBACK") == NULL)
		sim.is_locked = lock;
}
