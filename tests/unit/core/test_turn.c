/* SPDX-License-Identifier: MIT */
/* test_turn.c: the turn: one commit, then its effects; and nothing at all while the store refuses. */
#include "support/fakes/fake_operators.h"
#include "support/fakes/fake_world.h"
#include "support/log_kit.h"

static struct world w;

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
}

static void teardown(void)
{
	world_fini(&w);
}

static void finish(struct worker *p)
{
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
}

/* ---- the turn ---- */

START_TEST(a_task_runs_from_submit_to_session_closed) /* proves L2-05 L4-03 */
{
	struct worker *p = world_start(&w, "m1", "work");
	struct oracle_stream j;

	fake_worker_say(p, "{\"type\":\"progress\",\"stage\":\"a\"}");
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{\"x\":1.10}}");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING"); /* its process still lives */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 1);
	fake_worker_exit(p, 0);
	world_run(&w);
	j = world_check_stream(&w, 1);
	ck_assert(j.closed);
	ck_assert_str_eq(j.state, "COMPLETED");
	ck_assert_int_eq(world_said(&w, "\"outputs\":{\"x\":1.10}"), 1);
	ck_assert_uint_eq(w.bus.acked, 1);
	ck_assert(session_find(&w.core, p->session_id) == NULL);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 0);
}
END_TEST

static unsigned acks_seen;

static void submit_must_be_stored(void *ctx, uint64_t tag, bool is_ack)
{
	char id[16];

	(void)ctx;
	snprintf(id, sizeof id, "m%d", (int)tag);
	ck_assert(is_ack);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits WHERE message_id = ?", id), 1);
	acks_seen++;
}

START_TEST(an_ack_comes_after_the_commit_of_its_command) /* proves L1-05 */
{
	w.bus.on_answer = submit_must_be_stored;
	acks_seen = 0;
	world_submit(&w, "m1", "work");
	world_submit(&w, "m2", "nothing-here");
	world_submit(&w, "m3", "plain");
	world_run(&w);
	ck_assert_uint_eq(acks_seen, 3);
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

static void tasks_must_be_logged(void *ctx, uint64_t tag, bool is_ack)
{
	(void)ctx, (void)tag, (void)is_ack;
	ck_assert_int_eq(log_kit_count("task accepted: session="), 2);
	acks_seen++;
}

START_TEST(nobody_hears_of_a_task_before_its_line_is_in_the_log)
{
	world_run(&w); /* the lines of the first turn are not held */
	log_kit_begin(LOG_LVL_INFO);
	w.bus.on_answer = tasks_must_be_logged;
	acks_seen = 0;
	world_submit(&w, "m1", "work");
	world_submit(&w, "m2", "plain");
	world_run(&w);
	ck_assert_uint_eq(acks_seen, 2);
	log_kit_end();
}
END_TEST

START_TEST(all_input_of_a_turn_is_one_commit)
{
	unsigned syncs = fake_disk.wal_syncs;
	char id[16];

	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof id, "m%d", i);
		world_submit(&w, id, "work");
	}
	world_turn(&w);
	ck_assert_uint_eq(fake_disk.wal_syncs - syncs, 1);
	ck_assert_uint_eq(w.bus.acked, 20);
	ck_assert_uint_eq(w.workers.count, 20);
}
END_TEST

/* Each look at the clock takes 3 ms here: a slice is over after a few commands. */
START_TEST(a_burst_of_commands_is_spread_over_turns_in_its_order)
{
	unsigned syncs = fake_disk.wal_syncs, turns = 0;
	char id[16];

	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof id, "m%02d", i);
		world_submit(&w, id, "work");
	}
	fake_clock_step_us = 3000;
	core_on_bus(&w.core);
	core_on_bus(&w.core); /* woken again within the turn: no second slice */
	ck_assert_ptr_nonnull(w.core.inbox);
	ck_assert(core_end_turn(&w.core));
	ck_assert_uint_gt(w.bus.acked, 0);
	ck_assert_uint_lt(w.bus.acked, 8);
	for (turns = 1; w.core.inbox != NULL && turns < 100; turns++) {
		core_go_on(&w.core);
		core_end_turn(&w.core);
	}
	fake_clock_step_us = 0;
	world_run(&w);
	ck_assert_uint_gt(turns, 2);
	ck_assert_uint_ge(fake_disk.wal_syncs - syncs, turns);
	ck_assert_uint_eq(w.bus.acked, 20);
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM submits a JOIN submits b ON a.session < b.session AND "
				 "a.message_id > "
				 "b.message_id",
				 NULL),
		0);
	world_check_rows(&w);
}
END_TEST

static void submit_many(int count)
{
	char id[16];

	for (int i = 0; i < count; i++) {
		snprintf(id, sizeof id, "n%03d", i);
		world_submit(&w, id, "work");
	}
}

/* One round of the loop in which each look at the clock takes 3 ms. */
static void slow_turn(void)
{
	fake_clock_step_us = 3000;
	core_on_bus(&w.core);
	core_on_requests(&w.core);
	fake_clock_step_us = 0;
	fake_workers_run(&w.workers);
	core_end_turn(&w.core);
}

/* A restart with sessions that run: each look at the clock takes 3 ms, so a turn has time for some starts. */
START_TEST(many_starts_are_spread_over_turns)
{
	unsigned turns = 0;

	submit_many(20);
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 20);
	world_end(&w, true);
	world_open(&w);
	ck_assert_int_eq(core_recover(&w.core), EX_OK);
	fake_clock_step_us = 3000;
	core_end_turn(&w.core);
	fake_clock_step_us = 0;
	fake_bus_up(&w.bus); /* the daemon consumes after this turn */
	ck_assert_uint_gt(w.workers.count, 0);
	ck_assert_uint_lt(w.workers.count, 15);
	ck_assert(world_worker(&w, 1) != NULL && world_worker(&w, 20) == NULL);
	ck_assert_str_eq(world_state(&w, 20), "RUNNING");
	world_abort(&w, world_id(&w, 20));
	for (; w.workers.count < 19 && turns < 100; turns++) {
		core_on_bus(&w.core);
		core_on_time(&w.core);
		fake_clock_step_us = 3000;
		core_end_turn(&w.core);
		fake_clock_step_us = 0;
	}
	ck_assert_uint_gt(turns, 1);
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 19); /* the one that was aborted meanwhile never begins */
	ck_assert_str_eq(world_check_stream(&w, 20).state, "ABORTED");
	finish(world_worker(&w, 19));
	ck_assert_str_eq(world_check_stream(&w, 19).state, "COMPLETED");
}
END_TEST

START_TEST(a_long_inbox_leaves_workers_and_operators_their_turn)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_queue operators;
	struct op_request *a;

	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
	submit_many(200);
	for (int i = 0; i < 3; i++) {
		fake_worker_say(p, "{\"type\":\"log\",\"message\":\"meanwhile\"}");
		a = fake_operators_ask(&operators, OP_STATS, NULL);
		slow_turn();
		ck_assert_ptr_nonnull(w.core.inbox);
		ck_assert_ptr_null(p->said);
		ck_assert_ptr_eq(operators.answered, a);
		ck_assert_int_eq(
			world_count(&w, "SELECT count(*) FROM events WHERE body LIKE '%meanwhile%'", NULL),
			i + 1);
	}
	ck_assert_uint_lt(w.bus.acked, 40);
	world_run(&w);
	ck_assert_uint_eq(w.bus.acked, 201);
	w.core.operator.queue = NULL;
	fake_operators_fini(&operators);
}
END_TEST

/* The lost connection is behind a long inbox in the list. Were it taken only in its place, messages of this
 * turn would go to the new connection, and overtake those that the old one lost. */
START_TEST(a_lost_connection_behind_a_long_inbox_reorders_nothing) /* proves L1-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	w.broker_is_slow = true;
	for (int i = 0; i < 5; i++)
		fake_worker_say(p, "{\"type\":\"log\",\"message\":\"lost once\"}");
	world_turn(&w);
	submit_many(40);
	fake_bus_down(&w.bus, 0);
	fake_bus_up(&w.bus);
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"later\"}");
	slow_turn();
	ck_assert_ptr_nonnull(w.core.inbox);
	w.broker_is_slow = false;
	world_run(&w);
	finish(p);
	ck_assert_int_eq(world_check_stream(&w, 1).sequence, 10);
}
END_TEST

START_TEST(deliveries_of_a_lost_connection_leave_memory_and_come_again)
{
	submit_many(40);
	slow_turn();
	ck_assert_ptr_nonnull(w.core.inbox);
	fake_bus_add(&w.bus, BUS_SUB_DOWN);
	w.bus.generation++;
	submit_many(40); /* the broker delivers them again */
	fake_bus_add(&w.bus, BUS_SUB_UP);
	slow_turn();
	for (const struct bus_in *in = w.core.inbox; in != NULL; in = in->next)
		ck_assert_uint_eq(in->generation, w.bus.generation);
	world_run(&w);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 40);
	world_check_rows(&w);
}
END_TEST

START_TEST(a_stop_with_a_long_inbox_leaves_the_rest_to_the_broker)
{
	submit_many(40);
	slow_turn();
	core_stop(&w.core);
	ck_assert_ptr_nonnull(w.core.inbox);
	world_pass(&w, 60 * SECONDS);
	ck_assert(w.core.phase.is_done);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), (int)w.bus.acked);
	world_check_rows(&w);
}
END_TEST

/* Who is refused by name gets the same answer, whatever else is wrong with the task. */
START_TEST(a_stranger_gets_the_same_answer_however_its_task_is_written)
{
	static const char *const bodies[] = {
		"{\"hcp_version\":\"1.0\",\"message_id\":\"q\",\"timestamp\":\"2026-01-31T12:00:00Z\","
		"\"session_id\":"
		"null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"work\",\"caller_id\":\"nobody\","
		"\"intent\":"
		"\"x\",\"inputs\":{}}}",
		/* escaped: only the tree shows the name */
		"{\"hcp_version\":\"1.0\",\"message_id\":\"q\",\"timestamp\":\"2026-01-31T12:00:00Z\","
		"\"session_id\":"
		"null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"work\",\"caller\\u005fid\":"
		"\"nobod\\u0079\","
		"\"intent\":\"x\",\"inputs\":{}}}",
		/* no version, no inputs */
		"{\"message_id\":\"q\",\"type\":\"task_submit\",\"payload\":{\"caller_id\":\"nobody\"}}",
	};
	const size_t n = strlen(bodies[_i]);

	for (int i = 0; i < 2; i++) { /* the second is no duplicate: strangers are not remembered */
		fake_bus_deliver(&w.bus, bodies[_i], n, NULL);
		world_run(&w);
	}
	ck_assert_uint_eq(w.bus.acked, 2);
	ck_assert_int_eq(
		world_said(&w,
			"\"reason_code\":\"unauthorized\",\"reason_message\":\"caller nobody is not known "
			"here\",\"in_reply_to\":\"q\""),
		2);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits", NULL), 0);
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'task' "
				 "AND json_extract(entry, '$.code') = 'unauthorized'",
				 NULL),
		1);
}
END_TEST

START_TEST(a_burst_that_a_full_disk_cuts_short_goes_on_where_it_stopped)
{
	char id[16];

	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof id, "m%02d", i);
		world_submit(&w, id, "work");
	}
	fake_clock_step_us = 3000;
	core_on_bus(&w.core);
	fake_clock_step_us = 0;
	fake_disk_refuse(ENOSPC);
	ck_assert(!core_end_turn(&w.core));
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_eq(w.bus.acked, 0);
	core_go_on(&w.core);
	fake_disk_mend();
	world_pass(&w, 3 * SECONDS);
	ck_assert_uint_eq(w.bus.acked, 20);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 20);
}
END_TEST

START_TEST(a_turn_without_input_costs_no_sync)
{
	unsigned syncs;

	world_pass(&w, 3 * SECONDS);
	syncs = fake_disk.wal_syncs;
	for (int i = 0; i < 50; i++)
		world_turn(&w);
	ck_assert_uint_eq(fake_disk.wal_syncs, syncs);
}
END_TEST

START_TEST(sessions_interleave_and_each_stream_is_whole) /* proves L2-04 */
{
	struct worker *p[8];
	char id[16];

	for (int i = 0; i < 8; i++) {
		snprintf(id, sizeof id, "m%d", i);
		p[i] = world_start(&w, id, "work");
	}
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 8; i++)
			fake_worker_say(p[i], "{\"type\":\"log\",\"message\":\"hello\"}");
	world_run(&w);
	for (int i = 0; i < 8; i++)
		finish(p[i]);
	for (int i = 0; i < 8; i++) {
		struct oracle_stream j = world_check_stream(&w, i + 1);

		ck_assert(j.closed);
		ck_assert_int_eq(j.sequence, 24); /* created, running, 20, completed, closed */
	}
}
END_TEST

/* ---- a start that fails ---- */

static const struct {
	int error;
	const char *code;
} start_errors[] = {
	{ENOENT, "execution_error"}, {EACCES, "execution_error"}, {ENOMEM, "resource_unavailable"}};

/* A shortage passes: the task waits, and does not fail. */
START_TEST(a_start_waits_while_there_are_no_descriptors_or_processes)
{
	static const int errors[] = {EMFILE, ENFILE, EAGAIN};

	for (int i = 0; i < 3; i++) {
		w.workers.fail_errno = errors[_i];
		if (i == 0) {
			world_submit(&w, "m1", "work");
			world_run(&w);
		} else {
			world_pass(&w, 1 * SECONDS);
		}
		ck_assert_int_eq(w.workers.fail_errno, 0); /* it was tried */
		ck_assert_str_eq(world_state(&w, 1), "RUNNING");
		ck_assert_uint_eq(w.workers.count, 0);
	}
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 1);
	finish(world_worker(&w, 1));
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>COMPLETED:completed");
}
END_TEST

START_TEST(a_start_that_fails_ends_the_session_failed) /* proves L2-02 L4-04 */
{
	char wanted[80];
	struct oracle_stream j;

	w.workers.fail_errno = start_errors[_i].error;
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>FAILED:worker_failed");
	snprintf(wanted, sizeof wanted, "\"error_code\":\"%s\"", start_errors[_i].code);
	ck_assert_int_eq(world_said(&w, wanted), 1);
	j = world_check_stream(&w, 1);
	ck_assert(j.closed);
	ck_assert_uint_eq(w.core.slots.running, 0);
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(a_failed_start_gives_its_slot_to_the_next) /* proves L3-10 */
{
	world_start(&w, "m0", "narrow");
	world_submit(&w, "m1", "narrow");
	world_submit(&w, "m2", "narrow");
	world_run(&w);
	w.workers.fail_errno = ENOENT;
	finish(w.workers.list[0]);
	ck_assert_str_eq(world_state(&w, 2), "FAILED");
	ck_assert_str_eq(world_state(&w, 3), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

/* ---- hold ---- */

START_TEST(while_the_store_refuses_nothing_is_read_taken_or_said)
{
	struct worker *p = world_start(&w, "m1", "work");
	size_t sent = w.bus.sent_count;
	unsigned takes;

	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended && w.workers.is_held);
	takes = w.bus.takes;
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"meanwhile\"}");
	world_submit(&w, "m3", "work");
	world_pass(&w, 30 * SECONDS);
	ck_assert_uint_eq(w.bus.takes, takes);
	ck_assert_uint_eq(w.bus.sent_count, sent);
	ck_assert_uint_eq(w.bus.acked, 1);
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert(p->said != NULL);
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	ck_assert(!w.core.phase.is_suspended && !w.workers.is_held);
	ck_assert_uint_eq(w.bus.acked, 3);
	ck_assert_uint_eq(w.workers.count, 3);
	ck_assert_int_eq(world_said(&w, "meanwhile"), 1);
	for (int i = 0; i < 3; i++)
		finish(w.workers.list[i]);
	for (int i = 1; i <= 3; i++)
		ck_assert(world_check_stream(&w, i).closed);
}
END_TEST

START_TEST(no_timer_fires_while_the_store_refuses)
{
	struct worker *p = world_start(&w, "m1", "brief");

	fake_disk_refuse(EIO);
	world_submit(&w, "m2", "work");
	world_pass(&w, 60 * SECONDS);
	ck_assert(!fake_worker_has_line(p, "abort") && p->term_at_us == FAKE_NEVER);
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	ck_assert(fake_worker_has_line(p, "\"type\":\"abort\"")); /* and then it does */
}
END_TEST

START_TEST(the_batch_is_tried_again_every_second)
{
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m1", "work");
	world_run(&w);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_le(core_next_us(&w.core) - fake_boot_us, 1 * SECONDS);
		world_pass(&w, 1 * SECONDS);
		ck_assert(w.core.phase.is_suspended);
	}
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* The n-th write or sync of a busy turn fails. */
START_TEST(disk_failure_anywhere_loses_doubles_and_reveals_nothing)
{
	struct worker *p = world_start(&w, "m1", "work");

	world_submit(&w, "m2", "work");
	world_submit(&w, "m3", "nothing-here");
	fake_worker_say(p, "{\"type\":\"checkpoint\",\"state\":{\"a\":1}}");
	fake_disk.write_error = _i % 2 ? ENOSPC : EIO;
	fake_disk.writes_left = _i;
	world_run(&w);
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"more\"}");
	world_pass(&w, 2 * SECONDS);
	fake_disk_mend();
	fake_disk.sync_error = EIO;
	world_submit(&w, "m4", "work");
	world_pass(&w, 2 * SECONDS);
	ck_assert(w.core.phase.is_suspended);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_uint_eq(w.bus.acked, 4);
	ck_assert_uint_eq(w.workers.count, 3);
	for (size_t i = 0; i < 3; i++)
		finish(w.workers.list[i]);
	for (int i = 1; i <= 3; i++)
		ck_assert(world_check_stream(&w, i).closed);
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"unknown_capability\""), 1);
	ck_assert_int_eq(world_said(&w, "\"message\":\"more\""), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 1);
	ck_assert_str_eq(world_text(&w, "PRAGMA integrity_check", NULL), "ok");
}
END_TEST

START_TEST(a_crash_while_held_loses_only_what_nobody_was_told)
{
	world_start(&w, "m1", "work");
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_pass(&w, 5 * SECONDS);
	ck_assert(w.core.phase.is_suspended);
	fake_disk_mend();
	world_crash(&w);
	world_run(&w);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
	world_submit(&w, "m2", "work"); /* the broker has it still */
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m2\""), 1);
}
END_TEST

START_TEST(on_error_exit_ends_with_ioerr_and_has_said_nothing)
{
	world_end(&w, false);
	world_configure(&w, "[store]\non_error = exit\n");
	world_begin(&w);
	world_run(&w);
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_done);
	ck_assert_int_eq(w.core.phase.exit_code, EX_IOERR);
	ck_assert_uint_eq(w.bus.acked + w.bus.sent_count + w.workers.count, 0);
	w.core.phase.is_suspended = true; /* the last commit would fail, too */
}
END_TEST

START_TEST(a_stop_while_the_store_refuses_is_over_in_time) /* proves L2-16 */
{
	world_start(&w, "m1", "work");
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_run(&w);
	core_stop(&w.core);
	world_pass(&w, 32 * SECONDS);
	ck_assert(w.core.phase.is_done);
	ck_assert_int_eq(w.core.phase.exit_code, EX_IOERR);
}
END_TEST

START_TEST(a_store_that_another_locks_is_waited_for)
{
	world_exec(&w, "BEGIN IMMEDIATE");
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_gt(fake_disk.naps, 0); /* it did wait a little by itself */
	ck_assert_uint_eq(w.bus.acked, 0);
	world_exec(&w, "COMMIT");
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.bus.acked, 1);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* ---- back-pressure ---- */

START_TEST(a_worker_is_left_unread_at_max_outbox_and_read_again_below)
{
	struct worker *p;

	world_end(&w, false);
	world_configure(&w, "[session]\nmax_outbox = 4KiB\n");
	world_begin(&w);
	p = world_start(&w, "m1", "work");
	fake_bus_down(&w.bus, 0);
	for (int i = 0; i < 200; i++)
		fake_worker_say(p,
			"{\"type\":\"log\",\"message\":\"a line of some length that fills the outbox up\"}");
	world_run(&w);
	ck_assert(p->is_paused && p->said != NULL);
	ck_assert_int_lt(world_count(&w, "SELECT sum(length(body)) FROM events", NULL), 16384);
	fake_bus_up(&w.bus);
	world_pass(&w, 1 * SECONDS);
	ck_assert(!p->is_paused && p->said == NULL);
	finish(p);
	ck_assert_int_eq(world_check_stream(&w, 1).sequence, 204);
}
END_TEST

static char status[512];
static void on_status(void *ctx, const char *text)
{
	(void)ctx;
	snprintf(status, sizeof status, "%s", text);
}

START_TEST(the_status_shows_how_long_a_message_is_unconfirmed) /* proves L1-22 */
{
	w.core.status.fn = on_status;
	world_start(&w, "m1", "work");
	core_say_status(&w.core);
	ck_assert_ptr_nonnull(strstr(status, "serving: 1 running, 0 waiting; outbox "));
	ck_assert_ptr_null(strstr(status, "unconfirmed"));
	w.broker_is_slow = true;
	world_submit(&w, "m2", "work");
	world_run(&w);
	world_pass(&w, 7 * SECONDS);
	world_submit(&w, "m3", "work"); /* a younger one does not hide it */
	world_run(&w);
	core_say_status(&w.core);
	ck_assert_msg(
		strstr(status, " bytes, oldest unconfirmed 7 s; publishing yes,") != NULL, "%s", status);
	/* Nobody has to ask for it: it is said at each heartbeat. */
	status[0] = '\0';
	world_pass(&w, 30 * SECONDS);
	ck_assert_msg(strstr(status, ", oldest unconfirmed 3") != NULL, "%s", status);
	w.broker_is_slow = false;
	world_run(&w);
	core_say_status(&w.core);
	ck_assert_ptr_null(strstr(status, "unconfirmed"));
}
END_TEST

START_TEST(messages_that_come_back_after_the_end_are_logged_once) /* proves L1-08 */
{
	log_set_level(LOG_LVL_INFO);
	log_kit_begin(LOG_LVL_INFO);
	w.broker_is_slow = true;
	struct worker *p = world_start(&w, "m1", "work");
	if (_i) { /* the first one comes back before the end */
		fake_bus_settle_at(&w.bus, 0, BUS_UNROUTABLE);
		world_run(&w);
	}
	finish(p);
	ck_assert(session_find_key(&w.core, 1) == NULL);
	while (w.core.stats.unroutable < 4) {
		fake_bus_settle_at(&w.bus, 0, BUS_UNROUTABLE);
		world_run(&w);
	}
	ck_assert_int_eq(log_kit_count("unroutable: no queue takes the caller's events"), 1);
	log_kit_end();
	w.core.status.fn = on_status;
	core_say_status(&w.core);
	ck_assert_msg(strstr(status, "; 0 dropped, 4 unroutable, 0 late lines;") != NULL, "%s", status);
}
END_TEST

START_TEST(a_message_unconfirmed_for_too_long_breaks_the_connection) /* proves L1-22 */
{
	w.broker_is_slow = true;
	world_start(&w, "m1", "work");
	world_pass(&w, 60 * SECONDS);
	ck_assert_uint_eq(w.bus.pub_drops, 0);
	world_pass(&w, 60 * SECONDS);
	ck_assert_uint_gt(w.bus.pub_drops, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core");
	TCase *t = tcase_create("turn"), *h = tcase_create("hold");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_task_runs_from_submit_to_session_closed);
	tcase_add_test(t, an_ack_comes_after_the_commit_of_its_command);
	tcase_add_test(t, nobody_hears_of_a_task_before_its_line_is_in_the_log);
	tcase_add_test(t, all_input_of_a_turn_is_one_commit);
	tcase_add_test(t, a_burst_of_commands_is_spread_over_turns_in_its_order);
	tcase_add_test(t, many_starts_are_spread_over_turns);
	tcase_add_test(t, a_long_inbox_leaves_workers_and_operators_their_turn);
	tcase_add_test(t, a_lost_connection_behind_a_long_inbox_reorders_nothing);
	tcase_add_test(t, deliveries_of_a_lost_connection_leave_memory_and_come_again);
	tcase_add_test(t, a_stop_with_a_long_inbox_leaves_the_rest_to_the_broker);
	tcase_add_loop_test(t, a_stranger_gets_the_same_answer_however_its_task_is_written, 0, 3);
	tcase_add_test(t, a_burst_that_a_full_disk_cuts_short_goes_on_where_it_stopped);
	tcase_add_test(t, a_turn_without_input_costs_no_sync);
	tcase_add_test(t, sessions_interleave_and_each_stream_is_whole);
	tcase_add_loop_test(t, a_start_that_fails_ends_the_session_failed, 0, 3);
	tcase_add_loop_test(t, a_start_waits_while_there_are_no_descriptors_or_processes, 0, 3);
	tcase_add_test(t, a_failed_start_gives_its_slot_to_the_next);
	tcase_add_test(t, a_worker_is_left_unread_at_max_outbox_and_read_again_below);
	tcase_add_test(t, the_status_shows_how_long_a_message_is_unconfirmed);
	tcase_add_loop_test(t, messages_that_come_back_after_the_end_are_logged_once, 0, 2);
	tcase_add_test(t, a_message_unconfirmed_for_too_long_breaks_the_connection);
	tcase_add_checked_fixture(h, setup, teardown);
	tcase_add_test(h, while_the_store_refuses_nothing_is_read_taken_or_said);
	tcase_add_test(h, no_timer_fires_while_the_store_refuses);
	tcase_add_test(h, the_batch_is_tried_again_every_second);
	tcase_add_loop_test(h, disk_failure_anywhere_loses_doubles_and_reveals_nothing, 0, 40);
	tcase_add_test(h, a_crash_while_held_loses_only_what_nobody_was_told);
	tcase_add_test(h, on_error_exit_ends_with_ioerr_and_has_said_nothing);
	tcase_add_test(h, a_stop_while_the_store_refuses_is_over_in_time);
	tcase_add_test(h, a_store_that_another_locks_is_waited_for);
	suite_add_tcase(s, t);
	suite_add_tcase(s, h);
	return world_main(s);
}
