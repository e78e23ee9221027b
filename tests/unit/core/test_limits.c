/* SPDX-License-Identifier: MIT */
/* test_limits.c: what somebody could make grow without end, or stand still for ever, and must not:
 * workers that do not read, callers that do not exist, large tasks that wait, old submits, a store that
 * cannot be read. */
#include "support/fakes/fake_world.h"

#include <malloc.h>

#include "outbox/outbox_private.h" /* whom it remembers is nobody else's business */

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

/* Another run with other settings. */
static void begin_with(const char *more)
{
	world_end(&w, false);
	world_configure(&w, more);
	world_begin(&w);
	world_run(&w);
}

/* A line with a text of so many bytes in it, in a buffer that the caller frees. */
static char *line_of(const char *head, int size, const char *tail)
{
	size_t room = strlen(head) + (size_t)size + strlen(tail) + 1;
	char *line = xmalloc(room);

	snprintf(line, room, "%s%*s%s", head, size, "", tail);
	return line;
}

static void say_large(struct worker *p, const char *head, int size, const char *tail)
{
	char *line = line_of(head, size, tail);

	fake_worker_say(p, line);
	free(line);
	world_run(&w);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd; /* what malloc gave, and what it mapped for large ones */
}

/* ---- a worker that does not read its stdin ---- */

START_TEST(a_worker_that_never_reads_its_stdin_is_still_listened_to)
{
	struct worker *p;
	char *inputs = line_of(",\"metadata\":{},\"context\":{\"x\":\"", 2000000, "\"}");

	world_submit_as(&w, "alpha", NULL, "m1", "work", inputs);
	free(inputs);
	world_run(&w);
	p = w.workers.list[0];
	p->is_deaf = true;
	ck_assert_uint_gt(worker_unwritten(p), 1 << 20); /* its start line alone is over 1 MiB */
	for (int i = 0; i < 20; i++) {
		fake_worker_say(p, "{\"type\":\"log\",\"message\":\"talking\"}");
		world_pass(&w, 1 * SECONDS);
		ck_assert(!p->is_paused && p->said == NULL);
	}
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_eq(world_check_stream(&w, 1).sequence, 24);
}
END_TEST

START_TEST(checkpoints_of_a_worker_that_never_reads_are_all_kept)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->is_deaf = true;
	for (int i = 0; i < 60; i++)
		say_large(p, "{\"type\":\"checkpoint\",\"state\":{},\"ref\":\"", 100000, "\"}");
	ck_assert_uint_ge(p->in.size, 1 << 20);            /* it is told as long as there is room ... */
	ck_assert_uint_le(p->in.size, (1 << 20) + 200000); /* ... for about 1 MiB */
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"checkpoint_created\""), 60);
	ck_assert_int_eq(world_count(&w, "SELECT checkpoints FROM sessions", NULL), 60);
	p->is_deaf = false; /* it reads after all */
	say_large(p, "{\"type\":\"checkpoint\",\"state\":{},\"ref\":\"last", 1, "\"}");
	ck_assert(fake_worker_has_line(p, "\"ref\":\"last \"}\n"));
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

START_TEST(a_recovered_session_with_a_large_start_line_completes) /* proves L2-08 */
{
	struct worker *p = world_start(&w, "m1", "work");

	say_large(p, "{\"type\":\"checkpoint\",\"state\":{\"x\":\"", 2000000, "\"}}");
	world_crash(&w);
	world_run(&w);
	p = w.workers.list[0];
	p->is_deaf = true;
	ck_assert_uint_gt(worker_unwritten(p), 2000000);
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"reading it\"}");
	world_pass(&w, 2 * SECONDS);
	p->is_deaf = false; /* now it has */
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_pass(&w, 5 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

/* ---- a worker that is not read ---- */

/* Its events wait on disk up to max_outbox, and then its pipe is left alone; but an end is an end. */
static struct worker *fill_the_outbox(void)
{
	struct worker *p;

	begin_with("[session]\nmax_outbox = 4KiB\n");
	p = world_start(&w, "m1", "work");
	fake_bus_down(&w.bus, 0);
	for (int i = 0; i < 60; i++)
		say_large(p, "{\"type\":\"log\",\"message\":\"", 200, "\"}");
	ck_assert(p->is_paused && p->said != NULL);
	return p;
}

START_TEST(an_abort_of_a_worker_that_is_not_read_is_over_in_time)
{
	struct worker *p = fill_the_outbox();

	world_abort(&w, p->session_id);
	world_pass(&w, 30 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_state(&w, 1), "ABORTED");
	ck_assert_uint_eq(w.core.slots.running, 0);
	fake_bus_up(&w.bus);
	world_pass(&w, 60 * SECONDS);
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"log\""), 60); /* and the pipe was drained */
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
}
END_TEST

START_TEST(a_stop_with_a_worker_that_is_not_read_is_over_in_time)
{
	fill_the_outbox();
	core_stop(&w.core);
	world_pass(&w, 30 * SECONDS);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
}
END_TEST

/* ---- callers that do not exist ---- */

START_TEST(made_up_caller_names_leave_nothing_behind)
{
	char name[32];
	size_t sent;

	w.bus.on_publish = NULL; /* the eye would look through all of them, each time */
	w.broker_is_slow = true;
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "stranger-%d", i);
		world_submit_as(&w, name, NULL, "m1", "work", "");
		if (i % 100 == 99) {
			world_run(&w);
			while (w.bus.flushed > 0) {
				fake_bus_settle_all(&w.bus, BUS_UNROUTABLE);
				world_run(&w);
			}
		}
	}
	ck_assert_uint_eq(w.bus.acked, 5000);
	ck_assert_uint_eq(w.bus.sent_count, 5000); /* each got its answer, once */
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_le(HASH_COUNT(w.core.outbox->all), 4096 + 100);
	ck_assert_uint_le(w.core.timers.count, 4); /* the core's own */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM unroutable", NULL), 0);
	sent = w.bus.sent_count;
	world_pass(&w, 600 * SECONDS);
	ck_assert_uint_eq(w.bus.sent_count, sent);
	world_submit_as(&w, "beta", NULL, "m1", "work", ""); /* a name that exists, claimed by a stranger */
	world_run(&w);
	fake_bus_settle_all(&w.bus, BUS_UNROUTABLE);
	world_submit(&w, "m2", "nothing-here"); /* and a caller's own answer, which is kept */
	world_run(&w);
	fake_bus_settle_all(&w.bus, BUS_UNROUTABLE);
	world_run(&w);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM unroutable", NULL), 1);
}
END_TEST

/* ---- large tasks that wait ---- */

/* Under the address sanitizer mallinfo2 says nothing, and this proves nothing. */
START_TEST(metadata_is_in_the_store_and_not_in_memory) /* proves L2-01 */
{
	char *more = line_of(",\"metadata\":{\"x\":\"", 1000000, "\"}");
	size_t before = 0;
	char id[16];

	begin_with("[daemon]\nmax_sessions = 1\n");
	w.bus.on_publish = NULL;
	for (int i = 0; i < 62; i++) {
		if (i == 2)
			before = heap_bytes();
		snprintf(id, sizeof id, "m%d", i);
		world_submit_as(&w, "alpha", NULL, id, "work", more);
		world_run(&w);
	}
	free(more);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions WHERE state = 'PENDING'", NULL), 61);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM sessions WHERE length(metadata) > 1000000", NULL), 62);
	ck_assert_uint_lt(heap_bytes(), before + (20 << 20));
	world_crash(&w);
	ck_assert_uint_eq(w.core.slots.waiting, 61);
	ck_assert_uint_lt(heap_bytes(), before + (20 << 20));
	world_abort(&w, world_id(&w, 5)); /* and its row keeps it when it is written again */
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 5), "ABORTED");
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM sessions WHERE length(metadata) > 1000000", NULL), 62);
}
END_TEST

/* ---- old submits ---- */

START_TEST(old_submits_are_dropped_at_5000_a_second_or_faster)
{
	world_run(&w);
	world_exec(&w,
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)"
		" INSERT INTO submits (caller, message_id, received_at)"
		" SELECT 1, 'old-' || i, '2025-01-01T00:00:00.000Z' FROM n");
	world_submit(&w, "m1", "nothing-here");
	world_pass(&w, 30 * SECONDS); /* a heartbeat: then it looks */
	world_pass(&w, 8 * SECONDS);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM submits WHERE message_id LIKE 'old-%'", NULL), 0);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM submits", NULL), 1); /* what is not old stays */
}
END_TEST

START_TEST(sweep_of_submits_writes_nothing_where_none_is_old)
{
	unsigned syncs;

	world_exec(&w,
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
		" INSERT INTO submits (caller, message_id, received_at)"
		" SELECT 1, 'new-' || i, '2026-01-31T12:00:00.000Z' FROM n");
	world_pass(&w, 3 * SECONDS);
	syncs = fake_disk.wal_syncs;
	world_pass(&w, 600 * SECONDS);
	ck_assert_uint_eq(fake_disk.wal_syncs, syncs);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM submits", NULL), 20000);
}
END_TEST

/* ---- limits and a reload ---- */

static const struct {
	const char *at_start, *later;
	int largest, over; /* bytes of text in an event */
} limits[] = {
	{"[limits]\nmessage = 64KiB\n", "[limits]\nmessage = 32KiB\n", 40000, 70000},
	{"[limits]\nmessage = 64KiB\n", "[limits]\nmessage = 1MiB\n", 40000, 70000},
};

/* The broker side was made with the limit of the start: what is larger would never get out. */
START_TEST(the_message_limit_stays_that_of_the_start) /* proves L1-21 */
{
	struct worker *p, *q, *t;

	begin_with(limits[_i].at_start);
	p = world_start(&w, "m1", "work");
	q = world_start(&w, "m2", "work");
	t = world_start(&w, "m3", "plain");
	world_configure(&w, limits[_i].later);
	core_reload(&w.core);
	ck_assert_int_ne(w.core.policy->config->max_message, 65536);
	say_large(p, "{\"type\":\"log\",\"message\":\"event ", limits[_i].largest, "\"}");
	say_large(p, "{\"type\":\"log\",\"message\":\"event ", limits[_i].over, "\"}");
	ck_assert_int_eq(world_said(&w, "\"message\":\"event "), 1);
	ck_assert_int_eq(world_said(&w, "event_too_large"), 1);
	say_large(p, "{\"type\":\"completed\",\"outputs\":{\"x\":\"", limits[_i].largest, "\"}}");
	say_large(q, "{\"type\":\"completed\",\"outputs\":{\"x\":\"", limits[_i].over, "\"}}");
	say_large(t, "text ", limits[_i].over, "");
	for (size_t i = 0; i < w.workers.count; i++)
		fake_worker_exit(w.workers.list[i], 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_str_eq(world_check_stream(&w, 2).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "over the message limit of 65536"), 1);
	ck_assert_int_eq(world_said(&w, "\"message\":\"text "), 1); /* cut to what fits */
	for (size_t i = 0; i < world_sent_count(&w); i++)
		ck_assert_uint_le(world_sent(&w, i)->size, 65536);
	ck_assert_int_gt(
		world_count(&w,
			"SELECT max(length(body)) FROM events WHERE event_type = 'log' AND session = 3",
			NULL),
		20000); /* and not to less than half of it */
}
END_TEST

/* ---- while the store refuses ---- */

/* Renamed tables stand for a disk that gives errors: writing works, reading does not. */
static const char *const looked_into[] = {"submits", "callers", "tasks"};

START_TEST(unreadable_row_suspends_once_and_not_each_second)
{
	char sql[80];

	world_submit_as(&w, "beta", "beta-user", "m0", "work", "");
	world_run(&w);
	snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME TO elsewhere", looked_into[_i]);
	if (_i == 2) { /* a task is written before it is read */
		world_submit(&w, "m1", "narrow");
		world_submit(&w, "m2", "narrow");
		world_run(&w);
		world_exec(&w, sql);
		fake_worker_exit(w.workers.list[1], 0);
	} else {
		world_exec(&w, sql);
		world_submit(&w, "m1", "work");
	}
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	for (int i = 0; i < 120; i++) {
		world_pass(&w, SECONDS / 2);
		ck_assert(w.core.phase.is_suspended);
	}
	ck_assert_uint_eq(w.workers.holds, 1);
	snprintf(sql, sizeof sql, "ALTER TABLE elsewhere RENAME TO %s", looked_into[_i]);
	world_exec(&w, sql);
	world_pass(&w, 1 * SECONDS);
	ck_assert(!w.core.phase.is_suspended);
	ck_assert_str_eq(world_state(&w, _i == 2 ? 3 : 2), "RUNNING");
	ck_assert_uint_eq(w.workers.holds, 1);
}
END_TEST

/* Breaks the chain of pages of the one task that is mostly blanks, as a bad sector would. */
static void damage_the_large_task(void)
{
	char path[400], page[4096];
	long found = -1;
	FILE *f;

	snprintf(path, sizeof path, "%s/hcpd.db", w.state);
	f = fopen(path, "r+");
	ck_assert(f != NULL);
	for (long at = 0; found < 0 && fread(page, sizeof page, 1, f) == 1; at++) {
		int blanks = 0;

		for (size_t i = 4; i < sizeof page; i++)
			blanks += page[i] == ' ';
		if (blanks > 4000 && (page[2] != 0 || page[3] != 0)) /* not the last one of the chain */
			found = at;
	}
	ck_assert_int_gt(found, 0);
	fseek(f, found * (long)sizeof page, SEEK_SET);
	fwrite("\x7f\xff\xff\xff", 4, 1, f);
	fclose(f);
}

/* One row that is damaged for good must not stop everybody, nor fill the log: what becomes of its own session
 * is another matter. */
START_TEST(a_damaged_row_does_not_hold_everything_again_and_again)
{
	char *more = line_of(",\"context\":{\"x\":\"", 30000, "\"}");

	world_submit_as(&w, "alpha", NULL, "m1", "work", more);
	free(more);
	world_run(&w);
	world_exec(&w, "PRAGMA wal_checkpoint(TRUNCATE)");
	world_end(&w, true);
	damage_the_large_task();
	world_open(&w);
	ck_assert_int_eq(core_recover(&w.core), EX_OK);
	core_end_turn(&w.core);
	fake_bus_up(&w.bus);
	world_pass(&w, 60 * SECONDS);
	ck_assert_uint_le(w.workers.holds, 3);
}
END_TEST

/* The disk that is full may be the broker's too. */
START_TEST(dead_links_are_found_while_the_store_refuses) /* proves L1-22 */
{
	world_start(&w, "m1", "work");
	w.bus.health.sub_up = true;
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_pass(&w, 10 * SECONDS);
	ck_assert(w.core.phase.is_suspended);
	if (_i == 0)
		w.bus.health.sub_frame_age_us = 3600 * SECONDS;
	else
		w.bus.health.pub_progress_age_us = 3600 * SECONDS;
	world_pass(&w, 31 * SECONDS);
	ck_assert_uint_ge(_i == 0 ? w.bus.sub_drops : w.bus.pub_drops, 1);
	ck_assert_uint_eq(_i == 0 ? w.bus.pub_drops : w.bus.sub_drops, 0);
	ck_assert_uint_le(w.bus.sub_drops + w.bus.pub_drops, 2); /* once a heartbeat, not each second */
}
END_TEST

/* Nobody takes the confirms meanwhile: that they are not seen says nothing about the connection. */
START_TEST(links_that_are_well_are_left_alone_while_the_store_refuses)
{
	w.broker_is_slow = true;
	world_start(&w, "m1", "work");
	ck_assert_uint_gt(w.bus.flushed, 0);
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	fake_bus_settle_all(&w.bus, BUS_CONFIRMED); /* the broker did its part */
	w.broker_is_slow = false;
	world_pass(&w, 600 * SECONDS);
	ck_assert_uint_eq(w.bus.pub_drops, 0);
	fake_disk_mend();
	world_pass(&w, 60 * SECONDS);
	ck_assert(!w.core.phase.is_suspended);
	ck_assert_uint_eq(w.bus.pub_drops, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_limits");
	TCase *t = tcase_create("growth"), *h = tcase_create("hold");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, a_worker_that_never_reads_its_stdin_is_still_listened_to);
	tcase_add_test(t, checkpoints_of_a_worker_that_never_reads_are_all_kept);
	tcase_add_test(t, a_recovered_session_with_a_large_start_line_completes);
	tcase_add_test(t, an_abort_of_a_worker_that_is_not_read_is_over_in_time);
	tcase_add_test(t, a_stop_with_a_worker_that_is_not_read_is_over_in_time);
	tcase_add_test(t, made_up_caller_names_leave_nothing_behind);
	tcase_add_test(t, metadata_is_in_the_store_and_not_in_memory);
	tcase_add_test(t, old_submits_are_dropped_at_5000_a_second_or_faster);
	tcase_add_test(t, sweep_of_submits_writes_nothing_where_none_is_old);
	tcase_add_loop_test(
		t, the_message_limit_stays_that_of_the_start, 0, (int)(sizeof limits / sizeof *limits));
	tcase_add_checked_fixture(h, setup, teardown);
	tcase_add_loop_test(h, unreadable_row_suspends_once_and_not_each_second, 0,
		(int)(sizeof looked_into / sizeof *looked_into));
	tcase_add_test(h, a_damaged_row_does_not_hold_everything_again_and_again);
	tcase_add_loop_test(h, dead_links_are_found_while_the_store_refuses, 0, 2);
	tcase_add_test(h, links_that_are_well_are_left_alone_while_the_store_refuses);
	suite_add_tcase(s, t);
	suite_add_tcase(s, h);
	return world_main(s);
}
