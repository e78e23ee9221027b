/* test_core_random.c: a few hundred things happen in an order that a seed decides: commands, lines, deaths, broken
 * connections, full disks, crashes, set clocks. Whatever it was, in the end every session has ended once, every stream is
 * whole, and everything that was stored was confirmed. HCP_SEED=n runs that seed alone. */
#include "fake_world.h"

#define SEEDS 20
#define STEPS 250

static struct world w;
static int submits;

static void in_mid_turn(void);

static void setup(void)
{
	world_init(&w, "[daemon]\nmax_sessions = 4\n[session]\nidle_timeout = 5m\nmax_outbox = "
		       "16KiB\n[amqp]\nwindow_messages = 7\n");
	world_begin(&w);
	w.broker_is_slow = true;
	w.mid_turn = in_mid_turn;
	submits = 0;
}

static void teardown(void)
{
	world_fini(&w);
}

static int dice(int sides)
{
	return (int)(fake_random() % (uint64_t)sides);
}

/* ---- what may happen ---- */

static const char *unreadable; /* a table that was renamed: it stands for a disk that gives errors */

static void do_submit(void)
{
	static const char *const caps[] = {
		"work", "again", "never", "plain", "reused", "narrow", "brief", "nothing-here"};
	char id[16];

	snprintf(id, sizeof id, "m%d", dice(5) == 0 && submits > 0 ? dice(submits) : submits);
	submits++;
	if (dice(4) == 0)
		world_submit_as(&w, "beta", "beta-user", id, dice(2) == 0 ? "work" : "plain", "");
	else
		world_submit_as(&w, "alpha", NULL, id, caps[dice(8)],
			dice(3) == 0 ? ",\"constraints\":{\"priority\":\"high\"}" : "");
}

static void do_abort(void)
{
	int count = (int)world_count(&w, "SELECT count(*) FROM sessions", NULL);

	if (count > 0)
		world_abort_as(&w, world_id(&w, 1 + dice(count)), NULL, dice(2) == 0 ? "beta-user" : NULL);
}

static struct worker *somebody(void)
{
	struct worker *p = w.workers.count > 0 ? w.workers.list[dice((int)w.workers.count)] : NULL;

	return p == NULL || p->is_gone || p->has_exited ? NULL : p;
}

static void do_say(void)
{
	static const char *const lines[] = {
		"{\"type\":\"progress\",\"percent\":5}",
		"{\"type\":\"log\",\"message\":\"some words that take up a little room\"}",
		"{\"type\":\"checkpoint\",\"state\":{\"n\":1}}",
		"{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}",
		"{\"type\":\"step\",\"name\":\"s\"}",
		"{\"type\":\"warning\",\"message\":\"careful\"}",
		"{\"type\":\"paused\"}",
		"{\"type\":\"resumed\"}",
		"rubbish",
		"{\"type\":\"completed\",\"outputs\":{\"a\":1.10}}",
		"{\"type\":\"failed\",\"error_message\":\"x\"}",
		"{\"type\":\"session_closed\"}",
	};
	struct worker *p = somebody();

	for (int n = dice(4); p != NULL && n >= 0; n--)
		fake_worker_say(p, lines[dice(12)]);
}

static void do_exit(void)
{
	struct worker *p = somebody();

	if (p == NULL)
		return;
	p->ignores_term = dice(3) == 0;
	if (dice(4) == 0)
		p->children = 1;
	if (dice(2) == 0)
		fake_worker_exit(p, dice(2) == 0 ? 0 : dice(2) == 0 ? 256 : SIGKILL);
}

static void do_settle(void)
{
	static const enum bus_status fates[] = {
		BUS_CONFIRMED, BUS_CONFIRMED, BUS_CONFIRMED, BUS_CONFIRMED, BUS_NACKED, BUS_UNROUTABLE};

	for (int n = dice(12); n >= 0 && w.bus.flushed > 0; n--)
		fake_bus_settle_at(&w.bus, (size_t)dice((int)w.bus.flushed), fates[dice(6)]);
}

static void do_connection(void)
{
	static const int codes[] = {0, 0, 320, 403, 404};

	if (w.bus.pub_up)
		fake_bus_down(&w.bus, codes[dice(5)]);
	else
		fake_bus_up(&w.bus);
}

/* A connection goes at any time, also between taking from the bus and publishing. */
static void in_mid_turn(void)
{
	if (dice(60) == 0)
		do_connection();
}

static void do_disk(void)
{
	fake_disk_mend();
	if (dice(2) == 0) {
		fake_disk.write_error = dice(2) == 0 ? ENOSPC : EIO;
		fake_disk.writes_left = dice(20);
	} else if (dice(3) == 0) {
		fake_disk.sync_error = EIO;
	}
}

static void make_readable(void)
{
	char sql[80];

	if (unreadable == NULL)
		return;
	snprintf(sql, sizeof sql, "ALTER TABLE elsewhere RENAME TO %s", unreadable);
	world_exec(&w, sql);
	unreadable = NULL;
}

/* Tables that the eye itself does not look at. */
static void do_unreadable(void)
{
	static const char *const tables[] = {"submits", "callers", "tasks", "checkpoints", "unroutable"};
	char sql[80];

	if (unreadable != NULL) {
		make_readable();
		return;
	}
	unreadable = tables[dice(5)];
	snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO elsewhere", unreadable);
	world_exec(&w, sql);
}

static void do_crash(void)
{
	fake_disk_mend();
	make_readable();
	if (dice(2) == 0) {
		core_stop(&w.core);
		world_pass(&w, 31 * SECONDS);
		ck_assert(w.core.is_done);
		world_end(&w, false);
		world_begin(&w);
	} else {
		world_crash(&w);
	}
}

static void do_time(void)
{
	if (dice(6) == 0)
		fake_clock_step_wall((dice(7200) - 3600) * SECONDS);
	world_pass(&w, dice(4000) * 1000);
}

static void happen(void)
{
	switch (dice(21)) {
	case 0:
	case 1:
	case 2:
		do_submit();
		break;
	case 3:
		do_abort();
		break;
	case 4:
	case 5:
	case 6:
	case 7:
	case 8:
		do_say();
		break;
	case 9:
		do_exit();
		break;
	case 10:
	case 11:
	case 12:
	case 13:
		do_settle();
		break;
	case 14:
		do_connection();
		break;
	case 15:
		if (unreadable == NULL)
			do_disk();
		break;
	case 16:
		if (dice(4) == 0)
			do_crash();
		break;
	case 17:
		w.workers.fail_errno = dice(3) == 0 ? ENOENT : 0;
		break;
	case 18:
		if (fake_disk.write_error + fake_disk.sync_error == 0)
			do_unreadable();
		break;
	default:
		do_time();
		break;
	}
}

/* ---- and in the end ---- */

static void come_to_rest(void)
{
	fake_disk_mend();
	make_readable();
	w.workers.fail_errno = 0;
	w.broker_is_slow = false;
	w.mid_turn = NULL;
	if (!w.bus.pub_up)
		fake_bus_up(&w.bus);
	for (int round = 0; round < 100 && HASH_CNT(by_key, w.core.by_key) > 0; round++) {
		for (size_t i = 0; i < w.workers.count; i++)
			if (!w.workers.list[i]->is_gone && !w.workers.list[i]->has_exited)
				fake_worker_exit(w.workers.list[i], 0);
		world_pass(&w, 60 * SECONDS);
	}
	world_pass(&w, 200 * SECONDS);
	ck_assert_uint_eq(HASH_CNT(by_key, w.core.by_key), 0);
	ck_assert_uint_eq(fake_workers_alive(&w.workers), 0);
	ck_assert_uint_eq(w.core.slots.running + w.core.slots.waiting, 0);
	ck_assert(outbox_is_empty(w.core.outbox));
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM unroutable", NULL), 0);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 0);
}

/* Every stored message has reached the broker and a queue. */
static void check_confirmed(void)
{
	sqlite3_stmt *st;

	ck_assert(sqlite3_prepare_v2(w.eye, "SELECT json_extract(body, '$.message_id') FROM events", -1, &st,
			  NULL) == SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(st, 0);
		bool confirmed = false;

		for (size_t i = world_sent_count(&w); i-- > 0 && !confirmed;)
			confirmed = world_sent(&w, i)->status == BUS_CONFIRMED &&
				    strcmp(world_sent(&w, i)->message_id, id) == 0;
		ck_assert_msg(confirmed, "stored and never confirmed: %s", id);
	}
	sqlite3_finalize(st);
}

START_TEST(whatever_happens_every_session_ends_once_and_every_stream_is_whole) /* proves L1-10 L2-04 L2-12 */
{
	const char *only = getenv("HCP_SEED");
	int count;

	fake_seed = (uint64_t)(only != NULL ? atoi(only) : _i) * 1000003 + 17;
	for (int step = 0; step < STEPS; step++) {
		happen();
		if (dice(3) > 0)
			world_turn(&w);
		else
			world_run(&w);
	}
	come_to_rest();
	count = (int)world_count(&w, "SELECT count(*) FROM sessions", NULL);
	for (int key = 1; key <= count; key++) {
		struct judge j = world_judge(&w, key);

		ck_assert_msg(j.closed, "session %d is not closed: %s", key, world_path(&w, key));
		ck_assert_str_eq(j.state, world_state(&w, key));
	}
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM (SELECT 1 FROM submits GROUP BY caller, message_id "
				 "HAVING count(*) > 1)",
				 NULL),
		0);
	check_confirmed();
	ck_assert_str_eq(world_text(&w, "PRAGMA integrity_check", NULL), "ok");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_random");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, whatever_happens_every_session_ends_once_and_every_stream_is_whole, 0,
		getenv("HCP_SEED") != NULL ? 1 : SEEDS);
	suite_add_tcase(s, t);
	return world_main(s);
}
