/* SPDX-License-Identifier: MIT */
/* test_large_line.c: a long line is read beside the turns: nobody waits for it but its own session, whose
 * lines stay in order, and whatever happens meanwhile finds the session as if the line had just come in. */
#include "support/fakes/fake_world.h"

#include "base/jobs.h"
#include "core/running/checkpoint_pack.h"
#include "core/running/harp_events.h"

enum { FILL = 70000, SMALL_FILL = 6000 };

static struct world w;
static struct worker *p;

static void begin(const char *more)
{
	world_init(&w, more);
	w.has_jobs = w.jobs_are_slow = true;
	world_begin(&w);
	p = world_start(&w, "m1", "work");
}

static void setup(void)
{
	begin("");
}

static void teardown(void)
{
	world_fini(&w);
}

/* A line with so much in it: of two, the longer one has what the shorter one has. */
static void say_filled(const char *head, int fill, const char *tail)
{
	struct buf b = {0};

	buf_add_text(&b, head);
	for (int i = 0; i < fill / 8; i++)
		buf_addf(&b, "%08x", (unsigned)i * 2654435761u);
	buf_add_text(&b, tail);
	fake_worker_say(p, buf_text(&b));
	buf_fini(&b);
	world_run(&w);
}

static void say_large(const char *head, const char *tail)
{
	say_filled(head, FILL, tail);
}

static void say_state(int n, int fill)
{
	char head[100];

	snprintf(head, sizeof head,
		"{\"type\":\"checkpoint\",\"step\":%d,\"ref\":%d,\"state\":{\"n\":%d,\"fill\":\"", n, n, n);
	say_filled(head, fill, "\"}}");
}

static void say_checkpoint(int n)
{
	say_state(n, FILL);
}

static void say(const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

static void let_jobs_finish(void)
{
	w.jobs_are_slow = false;
	world_run(&w);
}

static int64_t checkpoints(void)
{
	return world_count(&w, "SELECT count(*) FROM checkpoints", NULL);
}

START_TEST(large_line_delays_only_its_own_session)
{
	struct worker *other;

	say_checkpoint(1);
	say("{\"type\":\"completed\",\"outputs\":{}}");
	other = world_start(&w, "m2", "work");
	fake_worker_say(other, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	fake_worker_exit(other, 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "COMPLETED");
	ck_assert_int_eq(checkpoints(), 0);
	ck_assert_int_eq(world_said(&w, "checkpoint_created"), 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert(fake_worker_has_line(p, "\"checkpoint_saved\""));
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

START_TEST(the_lines_of_a_worker_stay_in_order)
{
	say("{\"type\":\"progress\",\"stage\":\"first\"}");
	say_checkpoint(1);
	say("{\"type\":\"progress\",\"stage\":\"second\"}");
	say_checkpoint(2);
	say("{\"type\":\"progress\",\"stage\":\"third\"}");
	ck_assert_int_eq(world_said(&w, "\"second\""), 0);
	let_jobs_finish();
	ck_assert_str_eq(world_text(&w,
				 "SELECT group_concat(what, ' ') FROM (SELECT coalesce(json_extract(body, "
				 "'$.payload.data.stage'), 'point') AS what FROM events WHERE event_type IN "
				 "('progress','checkpoint_created') ORDER BY id)",
				 NULL),
		"first point second point third");
}
END_TEST

START_TEST(the_next_one_is_a_difference_to_it)
{
	let_jobs_finish();
	say_checkpoint(1);
	say_checkpoint(2);
	ck_assert_str_eq(
		world_text(&w, "SELECT group_concat(encoding, ' ') FROM checkpoints", NULL), "zstd delta");
	world_crash(&w);
	world_run(&w);
	p = world_worker(&w, 1);
	ck_assert(fake_worker_has_line(p, "\"step\":2,\"state\":{\"n\":2,"));
}
END_TEST

/* ---- small states beside large ones ---- */

/* "zzd ": how the checkpoints are stored that are kept. */
static const char *kinds(void)
{
	return world_text(&w,
		"SELECT group_concat(substr(encoding, 1, 1), '') FROM (SELECT encoding FROM checkpoints "
		"ORDER BY id)",
		NULL);
}

START_TEST(a_small_state_is_no_difference_to_a_large_one) /* proves CK-02 */
{
	let_jobs_finish();
	say_checkpoint(1);
	say_state(2, SMALL_FILL);
	say_checkpoint(3);
	ck_assert_str_eq(kinds(), "zzd"); /* the large one is still what others build on */
	world_crash(&w);
	world_run(&w);
	ck_assert(fake_worker_has_line(world_worker(&w, 1), "\"step\":3,\"state\":{\"n\":3,"));
}
END_TEST

START_TEST(a_small_state_counts_as_a_difference) /* proves CK-02 */
{
	world_fini(&w);
	begin("[capability work]\ncheckpoint_full_every = 3\n");
	let_jobs_finish();
	say_checkpoint(1);
	say_state(2, SMALL_FILL);
	say_state(3, SMALL_FILL);
	say_state(4, SMALL_FILL); /* the third after the first is what others build on now */
	say_state(5, SMALL_FILL);
	say_state(6, SMALL_FILL);
	ck_assert_str_eq(kinds(), "zdd");
}
END_TEST

START_TEST(a_small_line_loads_no_large_state)
{
	struct checkpoint_pack k;

	world_fini(&w);
	begin("[capability work]\ncheckpoint_interval = 16s\ncheckpoint_adaptive = yes\n");
	let_jobs_finish();
	say_checkpoint(1);
	say_checkpoint(2);
	for (size_t size = 100; size <= w.core.large_bytes + 1;
		size = size == 100 ? w.core.large_bytes : size + 1) {
		bool is_large = size > w.core.large_bytes;

		checkpoint_pack_load(&k, session_find(&w.core, p->session_id), size);
		ck_assert(k.has_base == is_large && k.wants_change == is_large);
		ck_assert(is_large || (k.base.state.size == 0 && k.before.own.state.size == 0));
		checkpoint_pack_fini(&k);
	}
}
END_TEST

/* ---- many of them ---- */

START_TEST(lines_wait_their_turn_and_few_are_in_memory)
{
	enum { MANY = 8 };
	unsigned most = jobs_at_once(w.core.jobs);
	struct worker *all[MANY] = {p};
	char id[16];

	ck_assert_uint_lt(most, MANY);
	for (int i = 0; i < MANY; i++) {
		if (i > 0) {
			snprintf(id, sizeof id, "many-%d", i);
			all[i] = world_start(&w, id, "work");
		}
		p = all[i];
		say_checkpoint(i + 1);
	}
	ck_assert_uint_eq(w.core.large_lines.working, most);
	w.jobs_are_slow = false;
	for (int rounds = 0; rounds < MANY * 4; rounds++) {
		world_turn(&w);
		ck_assert_uint_le(w.core.large_lines.working, most);
	}
	world_run(&w);
	ck_assert_uint_eq(w.core.large_lines.working, 0);
	ck_assert_str_eq(
		world_text(&w,
			"SELECT group_concat(step, '') FROM (SELECT step FROM checkpoints ORDER BY id)",
			NULL),
		"12345678");
}
END_TEST

START_TEST(lines_wait_while_the_store_refuses)
{
	struct worker *other = world_start(&w, "m2", "work");

	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m3", "work");
	say_checkpoint(1);
	ck_assert(w.core.phase.is_suspended);
	p = other;
	say_checkpoint(2);
	ck_assert_uint_eq(w.core.large_lines.working, 0);
	let_jobs_finish();
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_int_eq(checkpoints(), 2);
}
END_TEST

START_TEST(lines_that_wait_are_forgotten_at_a_crash)
{
	for (int i = 0; i < 8; i++) {
		char id[16];

		snprintf(id, sizeof id, "many-%d", i);
		p = world_start(&w, id, "work");
		say_checkpoint(i + 1);
	}
	ck_assert(w.core.large_lines.waiting != NULL);
	world_crash(&w);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 0);
}
END_TEST

/* ---- what happens meanwhile ---- */

START_TEST(an_abort_meanwhile_ends_the_session_without_it)
{
	say_checkpoint(1);
	world_abort(&w, p->session_id);
	world_pass(&w, 30 * SECONDS);
	ck_assert(p->was_killed);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING"); /* its pipe is not read to the end yet */
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
}
END_TEST

START_TEST(the_checkpoint_of_a_worker_that_died_behind_it_counts)
{
	say_checkpoint(1);
	fake_worker_exit(p, 1 << 8);
	world_run(&w);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "checkpoint_created"), 1);
}
END_TEST

START_TEST(nothing_is_taken_while_the_store_refuses)
{
	say_checkpoint(1);
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	let_jobs_finish();
	ck_assert(w.core.phase.is_suspended);
	ck_assert(!fake_worker_has_line(p, "\"checkpoint_saved\""));
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert(fake_worker_has_line(p, "\"checkpoint_saved\""));
}
END_TEST

START_TEST(a_crash_meanwhile_leaves_the_checkpoint_before)
{
	let_jobs_finish();
	say_checkpoint(1);
	w.jobs_are_slow = true;
	say_checkpoint(2);
	world_crash(&w);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert(fake_worker_has_line(world_worker(&w, 1), "\"step\":1,\"state\":{\"n\":1,"));
}
END_TEST

START_TEST(a_long_line_that_is_bad_costs_a_warning)
{
	say_large("{\"type\":\"progress\",\"stage\":\"", "\"");
	say_large("{\"type\":\"nonsense\",\"stage\":\"", "\"}");
	ck_assert_int_eq(world_said(&w, "bad_line"), 0);
	let_jobs_finish();
	ck_assert_int_eq(world_said(&w, "\"code\":\"bad_line\""), 2);
	ck_assert_int_eq(world_said(&w, "unknown type nonsense"), 1);
	say("{\"type\":\"progress\",\"stage\":\"goes on\"}");
	ck_assert_int_eq(world_said(&w, "goes on"), 1);
}
END_TEST

START_TEST(an_action_that_is_bad_is_answered)
{
	say_large("{\"type\":\"action\",\"ref\":\"r7\",\"parameters\":\"", "\"}");
	let_jobs_finish();
	ck_assert(fake_worker_has_line(p, "\"ref\":\"r7\""));
}
END_TEST

START_TEST(a_state_over_the_limit_is_not_kept)
{
	world_fini(&w);
	begin("[limits]\ncheckpoint_state = 65536\n");
	say_checkpoint(1);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 0);
	ck_assert_int_eq(world_said(&w, "checkpoint_too_large"), 1);
}
END_TEST

START_TEST(silence_does_not_count_while_a_line_is_read)
{
	world_fini(&w);
	begin("[session]\nidle_timeout = 5s\n");
	say_checkpoint(1);
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	world_pass(&w, 6 * SECONDS);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"idle_timeout\""));
}
END_TEST

/* ---- a snapshot ---- */

#define SNAPSHOT \
	"{\"type\":\"snapshot\",\"snapshotId\":\"s1\",\"snapshotType\":\"plan\",\"payload\":{\"a\":\""

static int64_t snapshots(void)
{
	return world_count(&w, "SELECT count(*) FROM snapshots", NULL);
}

static void begin_told(void)
{
	world_fini(&w);
	begin("[capability work]\nharp = yes\n");
}

/* Once for its id, and once for its hash, which needs what the store has of that id. */
START_TEST(a_snapshot_is_read_and_hashed_beside_the_turns)
{
	begin_told();
	say_large(SNAPSHOT, "\"}}");
	say("{\"type\":\"progress\",\"stage\":\"behind\"}");
	core_on_jobs(&w.core);
	core_end_turn(&w.core);
	ck_assert_int_eq(snapshots(), 0);
	ck_assert(jobs_have_finished(w.core.jobs));
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "behind"), 0);
	let_jobs_finish();
	ck_assert_int_eq(snapshots(), 1);
	ck_assert_int_eq(world_said(&w, "behind"), 1);
}
END_TEST

/* The time of a snapshot that has none of its own, and of the status that was told while it was read. */
START_TEST(a_snapshot_is_no_older_than_what_was_told_before)
{
	begin_told();
	say_large(SNAPSHOT, "\"}}");
	core_on_jobs(&w.core);
	core_end_turn(&w.core); /* now it is read with a time */
	fake_clock_pass(5 * SECONDS);
	harp_events_stage(session_find(&w.core, p->session_id), "planning");
	world_run(&w);
	let_jobs_finish();
	ck_assert_int_eq(snapshots(), 1);
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM snapshots WHERE created_at > (SELECT "
				 "max(json_extract(body, '$.updatedAt')) FROM events WHERE event_type = "
				 "'session.status')",
				 NULL),
		1);
}
END_TEST

START_TEST(a_snapshot_that_comes_again_is_known) /* proves HS-03 */
{
	begin_told();
	let_jobs_finish();
	say_large(SNAPSHOT, "\"}}");
	fake_clock_pass(5 * SECONDS);
	say_large(SNAPSHOT, "\"}}"); /* without a time: it has the time of the first */
	ck_assert_int_eq(snapshots(), 1);
	ck_assert_int_eq(world_said(&w, "snapshot was refused"), 0);
	say_large(SNAPSHOT, "!\"}}");
	ck_assert_int_eq(snapshots(), 1);
	ck_assert_int_eq(world_said(&w, "snapshot was refused"), 1);
}
END_TEST

START_TEST(a_snapshot_that_is_bad_is_refused)
{
	begin_told();
	let_jobs_finish();
	say_large(
		"{\"type\":\"snapshot\",\"snapshotId\":\"s1\",\"snapshotType\":\"no\",\"payload\":{\"a\":\"",
		"\"}}");
	ck_assert_int_eq(world_said(&w, "there is no snapshotType no"), 1);
	say("{\"type\":\"progress\",\"stage\":\"goes on\"}");
	ck_assert_int_eq(world_said(&w, "goes on"), 1);
}
END_TEST

START_TEST(a_snapshot_that_nobody_is_told_is_dropped)
{
	let_jobs_finish();
	say_large(SNAPSHOT, "\"}}");
	ck_assert_int_eq(world_said(&w, "\"code\":\"snapshot_dropped\""), 1);
	ck_assert_int_eq(snapshots(), 0);
}
END_TEST

START_TEST(a_snapshot_is_forgotten_at_a_crash)
{
	begin_told();
	say_large(SNAPSHOT, "\"}}");
	core_on_jobs(&w.core);
	core_end_turn(&w.core);
	world_crash(&w);
	let_jobs_finish();
	ck_assert_int_eq(snapshots(), 0);
}
END_TEST

/* ---- a stop ---- */

START_TEST(answer_to_a_stop_that_has_begun_at_half_may_be_finished) /* proves L2-16 */
{
	core_stop(&w.core);
	p->is_mid_line = true;
	world_pass(&w, 20 * SECONDS); /* half is 15 */
	ck_assert(!p->was_termed);
	p->is_mid_line = false;
	say_checkpoint(1);
	ck_assert(!p->was_termed);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert(p->is_gone && w.core.phase.is_done);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
}
END_TEST

START_TEST(line_that_is_being_read_at_half_is_stored) /* proves L2-16 */
{
	core_stop(&w.core);
	say_checkpoint(1);
	world_pass(&w, 20 * SECONDS);
	ck_assert(!p->was_termed);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert(w.core.phase.is_done);
}
END_TEST

START_TEST(line_that_never_ends_is_cut_off_at_three_quarters) /* proves L2-16 */
{
	int64_t began = fake_boot_us;

	core_stop(&w.core);
	p->is_mid_line = p->ignores_term = true;
	world_pass(&w, 20500000);
	ck_assert(!p->was_termed);
	world_pass(&w, 500000); /* eleven sixteenths: 20.6 s */
	ck_assert(p->was_termed && !p->was_killed);
	world_pass(&w, 8 * SECONDS);
	ck_assert(p->was_killed && p->is_gone);
	ck_assert_int_eq(p->kill_at_us - began, 22500000);
	ck_assert(w.core.phase.is_done);
}
END_TEST

START_TEST(one_that_is_no_checkpoint_holds_up_no_stop_after_half) /* proves L2-16 */
{
	core_stop(&w.core);
	say_large("{\"type\":\"log\",\"message\":\"", _i == 0 ? "\"}" : "\"");
	world_pass(&w, 16 * SECONDS);
	ck_assert(!p->was_termed);
	let_jobs_finish();
	ck_assert(p->was_termed && p->is_gone);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
}
END_TEST

START_TEST(one_that_is_no_checkpoint_may_have_one_behind_it) /* proves L2-16 */
{
	core_stop(&w.core);
	say_large("{\"type\":\"log\",\"message\":\"", "\"}");
	if (_i == 1)
		world_pass(&w, 16 * SECONDS);
	p->is_mid_line = true;
	let_jobs_finish();
	w.jobs_are_slow = true;
	ck_assert(!p->was_termed);
	p->is_mid_line = false;
	say_checkpoint(1);
	ck_assert(!p->was_termed);
	let_jobs_finish();
	ck_assert_int_eq(checkpoints(), 1);
	ck_assert(w.core.phase.is_done);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("large_line");
	TCase *t = tcase_create("large_line");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, large_line_delays_only_its_own_session);
	tcase_add_test(t, the_lines_of_a_worker_stay_in_order);
	tcase_add_test(t, the_next_one_is_a_difference_to_it);
	tcase_add_test(t, a_small_state_is_no_difference_to_a_large_one);
	tcase_add_test(t, a_small_state_counts_as_a_difference);
	tcase_add_test(t, a_small_line_loads_no_large_state);
	tcase_add_test(t, lines_wait_their_turn_and_few_are_in_memory);
	tcase_add_test(t, lines_wait_while_the_store_refuses);
	tcase_add_test(t, lines_that_wait_are_forgotten_at_a_crash);
	tcase_add_test(t, an_abort_meanwhile_ends_the_session_without_it);
	tcase_add_test(t, the_checkpoint_of_a_worker_that_died_behind_it_counts);
	tcase_add_test(t, nothing_is_taken_while_the_store_refuses);
	tcase_add_test(t, a_crash_meanwhile_leaves_the_checkpoint_before);
	tcase_add_test(t, a_long_line_that_is_bad_costs_a_warning);
	tcase_add_test(t, an_action_that_is_bad_is_answered);
	tcase_add_test(t, a_state_over_the_limit_is_not_kept);
	tcase_add_test(t, silence_does_not_count_while_a_line_is_read);
	tcase_add_test(t, a_snapshot_is_read_and_hashed_beside_the_turns);
	tcase_add_test(t, a_snapshot_is_no_older_than_what_was_told_before);
	tcase_add_test(t, a_snapshot_that_comes_again_is_known);
	tcase_add_test(t, a_snapshot_that_is_bad_is_refused);
	tcase_add_test(t, a_snapshot_that_nobody_is_told_is_dropped);
	tcase_add_test(t, a_snapshot_is_forgotten_at_a_crash);
	tcase_add_test(t, answer_to_a_stop_that_has_begun_at_half_may_be_finished);
	tcase_add_test(t, line_that_is_being_read_at_half_is_stored);
	tcase_add_test(t, line_that_never_ends_is_cut_off_at_three_quarters);
	tcase_add_loop_test(t, one_that_is_no_checkpoint_holds_up_no_stop_after_half, 0, 2);
	tcase_add_loop_test(t, one_that_is_no_checkpoint_may_have_one_behind_it, 0, 2);
	return world_main(s);
}
