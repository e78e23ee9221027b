/* SPDX-License-Identifier: MIT */
/* scenario.c: what may happen, and how often: workers, the broker, the disk, crashes, clocks; commands are
 * command_gen.c's. Owns the weights. Never looks at what the daemon makes of it (effect_oracle.c). */
#include "sim.h"

#include <errno.h>
#include <signal.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- workers ---- */

void script_on_start(const struct worker *w)
{
	struct worker *mine = sim.workers.list[w->number];
	struct mood *m = sim_mood(w);

	m->obeys = sim.is_healed || sim_chance(2);
	if (sim.is_healed)
		return;
	mine->ignores_term = sim_chance(5);
	mine->is_immortal = sim_chance(40);
	mine->is_deaf = sim_chance(20);
	if (mine->ignores_term)
		cover(WORKER_HANGS);
	if (mine->is_immortal)
		cover(WORKER_IMMORTAL);
}

void script_on_line(struct worker *w, const char *line)
{
	if (!sim_mood(w)->obeys || w->is_dying)
		return;
	if (strncmp(line, "{\"type\":\"abort\"", 15) == 0) {
		cover(WORKER_OBEYS);
		fake_worker_exit(w, sim_chance(2) ? 0 : SIGTERM);
	} else if (strncmp(line, "{\"type\":\"checkpoint_request\"", 28) == 0 && !w->closed_out) {
		cover(WORKER_OBEYS);
		fake_worker_say(w, "{\"type\":\"checkpoint\",\"state\":{\"asked\":true},\"step\":7}");
	} else if (strncmp(line, "{\"type\":\"pause\"", 15) == 0 && !w->closed_out) {
		fake_worker_say(w, "{\"type\":\"paused\",\"reason\":\"as told\"}");
	} else if (strncmp(line, "{\"type\":\"resume\"", 16) == 0 && !w->closed_out) {
		fake_worker_say(w, "{\"type\":\"resumed\"}");
	}
}

static void worker_end_of(struct worker *w, const char *line, enum covered what)
{
	struct mood *m = sim_mood(w);

	cover(m->said_end ? WORKER_TWO_ENDS : what);
	m->said_end = strcmp(w->argv[1], "reused") != 0;
	fake_worker_say(w, line);
}

/* A state that is long enough to be stored in another way than as its text; effect_oracle.c knows it again.
 */
#define FILL_64 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
#define FILL_1K \
	FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 FILL_64 \
		FILL_64 FILL_64 FILL_64 FILL_64
#define LARGE(n) \
	"{\"type\":\"checkpoint\",\"state\":{\"large\":" n \
	",\"fill\":\"" FILL_1K FILL_1K FILL_1K FILL_1K FILL_1K "\",\"again\":" n "}}"

static const struct saying {
	const char *line;
	enum covered what;
} sayings[] = {
	{"{\"type\":\"progress\",\"stage\":\"s\",\"percent\":5}", WORKER_PROGRESS},
	{"{\"type\":\"progress\",\"stage\":\"planning\"}", WORKER_PROGRESS},
	{"{\"type\":\"progress\",\"stage\":\"editing\"}", WORKER_PROGRESS},
	{"{\"type\":\"snapshot\",\"snapshotId\":\"sn-1\",\"snapshotType\":\"plan\",\"payload\":{\"a\":1}}",
		WORKER_SNAPSHOT},
	{"{\"type\":\"snapshot\",\"snapshotId\":\"sn-1\",\"snapshotType\":\"plan\",\"payload\":{\"a\":2}}",
		WORKER_SNAPSHOT},
	{"{\"type\":\"snapshot\",\"snapshotId\":\"sn-2\",\"snapshotType\":\"summary\",\"payload\":{}}",
		WORKER_SNAPSHOT},
	{"{\"type\":\"snapshot\",\"snapshotId\":\"sn-3\",\"snapshotType\":\"nothing\",\"payload\":{}}",
		WORKER_SNAPSHOT},
	{"{\"type\":\"snapshot\",\"snapshotId\":\"sn-4\",\"snapshotType\":\"plan\",\"payload\":{\"a\":"
	 "\"" FILL_1K FILL_1K FILL_1K FILL_1K FILL_1K "\"}}",
		WORKER_SNAPSHOT},
	{"{\"type\":\"log\",\"message\":\"some words that take up a little room\"}", WORKER_PROGRESS},
	{"{\"type\":\"intermediate_result\",\"result_type\":\"r\",\"data\":{\"x\":1.50}}", WORKER_PROGRESS},
	{"{\"type\":\"warning\",\"message\":\"careful\"}", WORKER_PROGRESS},
	{"{\"type\":\"error\",\"code\":\"e\",\"message\":\"m\"}", WORKER_PROGRESS},
	{"{\"type\":\"step\",\"name\":\"s\"}", WORKER_PROGRESS},
	{"{\"type\":\"usage\",\"tokens_in\":3,\"cost\":0.25}", WORKER_PROGRESS},
	{"{\"type\":\"artifact\",\"name\":\"a\",\"path\":\"a\"}", WORKER_PROGRESS},
	{"{\"type\":\"artifact\",\"name\":\"b\",\"path\":\"d/b\",\"mime\":\"text/plain\"}", WORKER_PROGRESS},
	{"{\"type\":\"artifact\",\"name\":\"../c\",\"path\":\"c\"}", WORKER_PROGRESS},
	{"{\"type\":\"checkpoint\",\"description\":\"d\",\"state\":{\"n\":1}}", WORKER_CHECKPOINT},
	{"{\"type\":\"checkpoint\",\"state\":{\"n\":2},\"ref\":\"r\"}", WORKER_CHECKPOINT},
	{LARGE("1"), WORKER_CHECKPOINT},
	{LARGE("2"), WORKER_CHECKPOINT},
	{LARGE("3"), WORKER_CHECKPOINT},
	{"{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}", WORKER_BARE_POINT},
	{"{\"type\":\"session_closed\",\"final_state\":\"COMPLETED\"}", WORKER_FORGES},
	{"{\"type\":\"state_changed\",\"to_state\":\"FAILED\"}", WORKER_FORGES},
	{"rubbish \xff\xfe", WORKER_GARBAGE},
	{"{\"type\":\"progress\",", WORKER_GARBAGE},
	{"{\"type\":\"paused\"}", WORKER_PAUSED},
	{"{\"type\":\"resumed\"}", WORKER_RESUMED},
};

/* of "bounded", which has limits; the ref says what is right */
static const struct saying actions[] = {
	{"{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"t\":50},\"ref\":\"inside\"}",
		WORKER_PROGRESS},
	{"{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"t\":80},\"ref\":\"inside\"}",
		WORKER_PROGRESS},
	{"{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"t\":90},\"ref\":\"outside-a\"}",
		WORKER_PROGRESS},
	{"{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"t\":95.5},\"ref\":\"outside-b\"}",
		WORKER_PROGRESS},
	{"{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"t\":101},\"ref\":\"beyond\"}",
		WORKER_PROGRESS},
	{"{\"type\":\"action\",\"name\":\"explode\",\"ref\":\"prohibited\"}", WORKER_PROGRESS},
};

static void worker_announces(struct worker *w)
{
	const struct saying *a = &actions[sim_choose(COUNT(actions))];
	struct jsession *s = watch_find(w->session_id);

	if (s != NULL && strstr(a->line, "inside") == NULL)
		s->announced = true;
	sim_trace("worker %d announces %s", w->number, strstr(a->line, "\"ref\""));
	fake_worker_say(w, a->line);
}

static void worker_says(struct worker *w)
{
	const struct saying *s = &sayings[sim_choose(COUNT(sayings))];
	struct mood *m = sim_mood(w);

	/* What was begun is often ended. */
	if (s->what == WORKER_PAUSED)
		m->is_paused = true;
	else if (m->is_paused && sim_chance(3))
		s = &sayings[COUNT(sayings) - 1], m->is_paused = false;
	cover(m->said_end ? WORKER_LATE : s->what);
	fake_worker_say(w,
		s->what == WORKER_CHECKPOINT && strcmp(w->argv[1], "moved") == 0 ? mover_some_checkpoint() :
										   s->line);
}

static void worker_floods(struct worker *w)
{
	static char line[600];

	cover(WORKER_FLOODS);
	snprintf(line, sizeof line, "{\"type\":\"log\",\"message\":\"%0500d\"}", 7);
	for (unsigned n = 10 + sim_choose(30); n > 0; n--)
		fake_worker_say(w, line);
}

static void worker_dies(struct worker *w)
{
	static const int statuses[] = {0, 256, 512, SIGKILL, SIGSEGV};
	static const char last[] = "{\"type\":\"progress\",\"percent\":9}";
	unsigned i = sim_choose(COUNT(statuses));

	cover(i < 3 ? WORKER_DIES : WORKER_KILLED);
	if (!w->closed_out && sim_chance(4))
		fake_worker_say(w, "{\"type\":\"artifact\",\"name\":\"z\",\"path\":\"z\"}");
	if (sim_chance(3)) {
		cover(WORKER_UNENDED);
		fake_worker_put(w, FAKE_UNENDED, last, sizeof last - 1, 0);
	}
	fake_worker_exit(w, statuses[i]);
}

static void worker_acts(struct worker *w)
{
	static const char half[] = "{\"type\":\"log\",\"message\":\"and so on and on";

	switch (sim_choose(16)) {
	case 0:
	case 1:
		worker_end_of(w,
			sim_chance(2) ? "{\"type\":\"completed\",\"outputs\":{\"a\":1.10}}" :
					"{\"type\":\"completed\",\"outputs\":{\"confidence\":0.1}}",
			WORKER_COMPLETED);
		break;
	case 2:
		worker_end_of(w,
			"{\"type\":\"failed\",\"error_code\":\"input_error\",\"error_message\":\"x\"}",
			WORKER_FAILED);
		break;
	case 3: worker_dies(w); break;
	case 4:
		if (sim_chance(2)) {
			cover(WORKER_CLOSES);
			fake_worker_close_out(w);
		} else {
			fake_worker_put(w, FAKE_ERR, "a word on stderr", 16, 0);
		}
		break;
	case 5:
		if (sim.core.phase.is_suspended && strcmp(w->argv[1], "reused") == 0)
			break; /* that it completed alone may be read and not yet stored */
		cover(WORKER_FORKS);
		w->children = 1;
		sim_mood(w)->forked = sim.turns + 1;
		break;
	case 6: worker_floods(w); break;
	case 7:
		cover(WORKER_TOO_LONG);
		fake_worker_put(w, FAKE_TOO_LONG, half, sizeof half - 1, 0);
		break;
	default:
		for (unsigned n = 1 + sim_choose(4); n > 0; n--)
			if (strcmp(w->argv[1], "bounded") == 0 && sim_chance(2))
				worker_announces(w);
			else
				worker_says(w);
	}
}

static struct worker *somebody(void)
{
	struct worker *w =
		sim.workers.count > 0 ? sim.workers.list[sim_choose((unsigned)sim.workers.count)] : NULL;

	for (unsigned tries = 0;
		tries < 4 && w != NULL && (w->is_gone || w->is_dying || program_is(w) || mover_is(w));
		tries++)
		w = sim.workers.list[sim_choose((unsigned)sim.workers.count)];
	return w != NULL && !w->is_gone && !program_is(w) && !mover_is(w) ? w : NULL;
}

static void do_worker(void)
{
	struct worker *w = somebody();

	if (w == NULL)
		return;
	sim_trace("worker %d of %.8s acts", w->number, w->session_id);
	if (w->is_dying) {
		if (w->children > 0 && sim_chance(3))
			fake_worker_die(w, 0); /* the last one of its tree goes by itself */
		else if (w->children > 0 && !w->closed_out)
			fake_worker_say(w, sayings[0].line); /* a grandchild has the pipe */
	} else if (!w->closed_out || sim_chance(3)) {
		if (w->closed_out)
			worker_dies(w);
		else
			worker_acts(w);
	}
}

/* ---- the broker ---- */

static void do_broker(void)
{
	broker_work(1 + sim_choose(20));
	if (!sim_chance(4))
		broker_confirm(1 + sim_choose(20), !sim_chance(4));
	else
		cover(FATE_LATE);
}

static void do_confirm(void)
{
	if (sim_chance(8))
		broker_swallow();
	broker_confirm(1 + sim_choose(30), !sim_chance(3));
	broker_take_acks();
}

static void do_link(void)
{
	static const int codes[] = {404, 404, 406, 320};

	switch (sim_choose(8)) {
	case 0: broker_drop_pub(); break;
	case 1: broker_drop_sub(); break;
	case 2: broker_block(!broker_is_blocked()); break;
	case 3: broker_refuse(codes[sim_choose(COUNT(codes))]); break;
	default: broker_block(false); broker_raise();
	}
}

static void do_caller(void)
{
	static const char *const names[] = {
		"alpha", "alpha", "beta", "gamma", "nobody", "alpha/harp", "gamma/harp"};

	broker_upset(names[sim_choose(COUNT(names))], sim_chance(2) ? 0 : 1 + sim_choose(3));
}

/* ---- disk, crashes, stops, clocks ---- */

static void mend_disk(void)
{
	/* who dies just now has it mended by that */
	if (sim.unreadable != NULL && !sim.is_dead && sim_world_exec(NULL) != NULL)
		violation("the table cannot be made readable");
	sim_world_lock(false);
	memdisk_faults.write_error = memdisk_faults.sync_error = 0;
}

#define SQLITE_IOERR_WRITE_CODE 778
#define SQLITE_IOERR_FSYNC_CODE 1034
#define SQLITE_FULL_CODE 13

/* Tables that the check can do without for a while. */
static void make_unreadable(void)
{
	static const char *const tables[] = {
		"submits", "callers", "unroutable", "tasks", "checkpoints", "reviews", "decisions"};
	/* Whose tables are renamed while they leave would be packed under the wrong name. */
	const char *table = tables[sim_choose(sim.retires ? 3 : COUNT(tables))];
	char sql[100];

	snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO elsewhere", table);
	if (sim_world_exec(sql) == NULL) {
		sim.unreadable = table;
		cover(DISK_UNREADABLE);
	}
}

static void do_disk(void)
{
	unsigned how = sim_choose(10);

	mend_disk();
	sim_trace("disk: %u", how);
	memdisk_faults.writes_left = (int)sim_choose(20);
	switch (how) {
	case 0:
	case 1:
		cover(DISK_FULL);
		memdisk_faults.write_error = SQLITE_FULL_CODE;
		break;
	case 2:
		cover(DISK_WRITE);
		memdisk_faults.write_error = SQLITE_IOERR_WRITE_CODE;
		break;
	case 3:
		cover(DISK_SYNC);
		memdisk_faults.sync_error = SQLITE_IOERR_FSYNC_CODE;
		break;
	case 4:
		cover(DISK_LOCKED);
		sim_world_lock(true);
		break;
	case 5:
		if (sim_chance(3))
			make_unreadable();
		break;
	default: break; /* it is well again */
	}
}

static void do_crash(void)
{
	unsigned how = sim_choose(8);

	if (how < 3) {
		memdisk_faults.dies_in = 1 + (int)sim_choose(40);
		memdisk_faults.dies_after = sim_chance(2);
		sim_trace("will die at a change of the disk: %d", memdisk_faults.dies_in);
	} else if (how < 6) {
		sim.effects_left = 1 + (int)sim_choose(8);
		sim_trace("will die at an effect: %d", sim.effects_left);
	} else {
		life_crash(sim_chance(3));
		life_begin();
	}
}

static void do_stop(void)
{
	if (sim.core.phase.is_stopping) {
		if (sim_chance(3)) {
			cover(STOP_TWICE);
			sim_trace("told to stop a second time");
			core_stop(&sim.core);
		}
		return;
	}
	sim_trace("told to stop");
	sim.stop_since_us = clock_boot_us();
	core_stop(&sim.core);
}

static void do_reload(void)
{
	bool broken = sim_chance(6);

	sim_trace("reload%s", broken ? " of a broken file" : "");
	cover(broken ? RELOAD_BROKEN : RELOAD_GOOD);
	sim_world_reload(broken);
	if (!broken && sim.reloaded)
		cover(RELOAD_REMOVED);
}

static void do_time(void)
{
	int64_t us = (int64_t)sim_choose(4000) * 1000;

	if (sim_chance(8))
		us = (int64_t)sim_choose(70) * SECONDS;
	else if (sim_chance(40))
		us = (int64_t)sim_choose(900) * SECONDS;
	sim_trace("%lld ms pass", (long long)(us / 1000));
	sim_world_pass(us);
}

static void do_clock(void)
{
	static const int steps[] = {-86400, -3600, -5, 5, 3600, 86400};
	int by = steps[sim_choose(COUNT(steps))];

	if (sim_chance(2)) {
		cover(CLOCK_STEPPED);
		sim_trace("the wall clock is set by %d s", by);
		sim_world_step_wall(by * SECONDS);
	} else {
		cover(CLOCK_SUSPENDED);
		sim_trace("suspended");
		sim_world_suspend((int64_t)(1 + sim_choose(1800)) * SECONDS);
	}
}

static void do_system(void)
{
	static const int errors[] = {ENOENT, EAGAIN, ENOMEM};

	if (sim_chance(3)) {
		sim_world_fail_workdirs(1);
	} else {
		cover(WORKER_NO_START);
		sim.workers.fail_errno = errors[sim_choose(COUNT(errors))];
	}
	sim_trace("the next start fails");
}

static void do_deliver(void)
{
	broker_take_acks();
	broker_deliver(1 + sim_choose(4));
}

/* Sometimes the policy is another by the time that the decision is looked at, and sometimes the answer
 * is never given. */
static void do_decide(void)
{
	if (!approver_act()) {
		do_worker();
		return;
	}
	if (sim_chance(6))
		do_reload();
	if (sim_chance(8))
		sim.effects_left = 1 + (int)sim_choose(3);
}

/* A migration, or what leads to one: a state of another version, and the death of whoever saved it. */
static void do_move(void)
{
	if (mover_act())
		return;
	for (size_t i = 0; i < sim.workers.count; i++) {
		struct worker *w = sim.workers.list[i];
		const struct jsession *s = watch_find(w->session_id);

		if (strcmp(w->argv[1], "moved") != 0 || w->is_gone || w->is_dying || w->closed_out ||
			s == NULL)
			continue;
		sim_trace("worker %d of %.8s saves and dies", w->number, w->session_id);
		for (unsigned n = 1 + sim_choose(2); n > 0; n--)
			fake_worker_say(w, mover_some_checkpoint());
		fake_worker_exit(w, SIGKILL);
		return;
	}
	if (sim_chance(3))
		orders_submit_moved();
	else
		do_worker();
}

static void do_program(void)
{
	if (!program_act())
		do_worker();
}

static const struct step {
	unsigned weight;
	void (*happens)(void);
	enum covered what;
} steps[] = {
	{16, orders_submit, STEP_SUBMIT},
	{6, orders_abort, STEP_ABORT},
	{18, do_deliver, STEP_DELIVER},
	{34, do_worker, STEP_WORKER},
	{18, do_broker, STEP_BROKER},
	{8, do_confirm, STEP_CONFIRM},
	{6, do_link, STEP_LINK},
	{3, do_caller, STEP_CALLER},
	{6, do_disk, STEP_DISK},
	{5, do_crash, STEP_CRASH},
	{2, do_stop, STEP_STOP},
	{3, do_reload, STEP_RELOAD},
	{16, do_time, STEP_TIME},
	{2, do_clock, STEP_CLOCK},
	{2, do_system, STEP_SYSTEM},
	{8, operator_act, STEP_OPERATE},
	{9, do_decide, STEP_DECIDE},
	{8, do_program, STEP_PROGRAM},
	{9, do_move, STEP_MOVE},
};

static void step(const struct step *list, size_t count)
{
	unsigned all = 0, at;
	size_t i = 0;

	for (size_t k = 0; k < count; k++)
		all += list[k].weight;
	at = sim_choose(all);
	while (at >= list[i].weight)
		at -= list[i++].weight;
	sim.steps++;
	cover(list[i].what);
	list[i].happens();
}

/* ---- and in the end ---- */

static void heal(void)
{
	sim_trace("all is healed");
	sim.is_healed = true;
	mend_disk();
	memdisk_faults.dies_in = sim.effects_left = 0;
	sim.workers.fail_errno = 0;
	sim_world_fail_workdirs(0);
	for (size_t i = 0; i < sim.workers.count; i++)
		sim.workers.list[i]->is_immortal = false;
	broker_heal();
}

static bool is_at_rest(void)
{
	for (int64_t key = 1; key <= watch.session_count; key++)
		if (!watch.sessions[key].is_closed)
			return false;
	return broker_is_quiet() && outbox_is_empty(sim.core.outbox) && !sim.core.phase.is_stopping;
}

/* Workers of a healed world end what they are at, one way or another. */
static void finish_work(void)
{
	for (size_t i = 0; i < sim.workers.count; i++) {
		struct worker *w = sim.workers.list[i];

		if (w->is_gone || w->is_dying || program_is(w))
			continue;
		if (mover_is(w))
			mover_heal(w);
		else if (w->closed_out || sim_chance(2))
			fake_worker_exit(w, 0);
		else
			fake_worker_say(w, "{\"type\":\"completed\",\"outputs\":{}}");
	}
}

#define HEAL_ROUNDS 60

static void come_to_rest(void)
{
	heal();
	for (int round = 0; round < HEAL_ROUNDS && !is_at_rest(); round++) {
		sim_world_pass(10 * SECONDS);
		operator_heal();
		sim_world_pass(1 * SECONDS);
		finish_work();
		sim_world_pass(5 * SECONDS);
	}
	sim_world_pass(140 * SECONDS); /* twice the longest back-off: what nobody took is tried again */
	if (!is_at_rest())
		violation("all is healed, and after %d s it is not at rest", HEAL_ROUNDS * 15);
}

/* A submit that was answered long ago gets the same answer again. */
static void ask_again(void)
{
	size_t i = 0;
	unsigned arrivals;

	while (i < sim.order_count && (!sim.orders[i].is_submit || sim.orders[i].expect != EXPECT_VERDICT))
		i++;
	if (i == sim.order_count)
		return;
	arrivals = effect_oracle_answer_to(&sim.orders[i])->arrivals;
	if (orders_repeat(i) == NULL)
		return;
	sim_world_pass(5 * SECONDS);
	if (effect_oracle_answer_to(&sim.orders[i])->arrivals <= arrivals)
		violation("submit %s is asked again, and not answered again", sim.orders[i].message_id);
}

/* Allowed, and not yet started: a moment that is soon over, and worth a reload. */
static bool is_between(void)
{
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];

		if (s->did_wait && s->waits[0] == '\0' && strcmp(s->state, "PENDING") == 0)
			return true;
	}
	return false;
}

/* ---- long after ---- */

#define RETIRES 6 /* one seed in so many goes on to this */
#define LONG_US \
	((int64_t)6000 * 3600 * \
		SECONDS) /* submits are forgotten by then, however often a clock was set back */

static const struct step late_steps[] = {
	{14, do_time, STEP_TIME},
	{6, orders_submit_simple, STEP_SIMPLE},
	{6, do_deliver, STEP_DELIVER},
	{6, do_worker, STEP_WORKER},
	{6, do_broker, STEP_BROKER},
	{3, do_confirm, STEP_CONFIRM},
	{2, do_link, STEP_LINK},
	{5, do_disk, STEP_DISK},
	{8, do_crash, STEP_CRASH},
	{1, do_stop, STEP_STOP},
	{1, do_reload, STEP_RELOAD},
	{2, operator_act, STEP_OPERATE},
};

/* Acked, and that arrived: it must not come again when it is forgotten. */
static void submit_until_there(void)
{
	size_t orders = sim.order_count;

	orders_submit_simple();
	while (sim.order_count > orders && sim.orders[orders].state != DONE) {
		broker_raise();
		broker_deliver(4);
		sim_world_run();
		broker_take_acks();
	}
}

/* Those who ended leave, with all that can happen to a daemon meanwhile. The first of the new ones is there
 * before: it stays, and so the keys of rows that go are not used again, by which the check knows what is
 * new. */
static void retire(void)
{
	sim.is_healed = false;
	sim.forgets = true;
	submit_until_there();
	broker_drop_pub(); /* nobody hears of its end: it has to stay until somebody does */
	finish_work();
	sim_world_pass(5 * SECONDS);
	sim.retire_from = watch.session_count;
	while (sim.retire_from > 0 && !oracle_is_final(watch.sessions[sim.retire_from].state))
		sim.retire_from--; /* trouble kept it from ending */
	sim_world_suspend(LONG_US);
	sim_world_pass(60 * SECONDS);
	watch_forget_submits();
	final_check_forget();
	submit_until_there();
	sim_trace("long after: %lld sessions may leave", (long long)sim.retire_from);
	sim.retires = true;
	life_crash(false);
	life_begin();
	for (unsigned count = 10 + sim_choose(25); count > 0; count--) {
		step(late_steps, COUNT(late_steps));
		if (sim_chance(3))
			sim_world_turn();
		else
			sim_world_run();
	}
	come_to_rest();
	final_check();
}

void script_play(void)
{
	unsigned count = 30 + sim_choose(55);

	life_begin();
	for (unsigned i = 0; i < count; i++) {
		step(steps, COUNT(steps));
		if (is_between() && sim_chance(4))
			do_reload();
		if (sim_chance(6))
			(void)mover_act(); /* seldom there, and gone after a minute */
		switch (sim_choose(4)) {
		case 0: break; /* more comes before the loop gets to it */
		case 1: sim_world_turn(); break;
		default: sim_world_run();
		}
	}
	come_to_rest();
	ask_again();
	final_check();
	if (sim.seed % RETIRES == 0)
		retire();
}
