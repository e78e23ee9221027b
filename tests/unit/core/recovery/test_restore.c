/* SPDX-License-Identifier: MIT */
/* test_restore.c: a session with a large state goes on once that is restored, beside the turns; until then it
 * is PAUSED with a slot, and obeys as any PAUSED session does. */
#include "support/fakes/operator_kit.h"

#include <time.h>

#include "base/jobs.h"
#include "store/checkpoint.h"

enum { FILL = 70000 };

static struct worker *p;

static void begin(const char *more)
{
	opkit_begin(more);
	w.has_jobs = true;
	w.core.jobs = jobs_new(NULL, NULL);
}

static void setup(void)
{
	begin("");
}

static void say_checkpoint(struct worker *to, int n)
{
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"checkpoint\",\"step\":%d,\"state\":{\"n\":%d,\"fill\":\"", n, n);
	for (int i = 0; i < FILL / 8; i++)
		buf_addf(&b, "%08x", (unsigned)(i * n) * 2654435761u);
	buf_add_text(&b, "\"}}");
	fake_worker_say(to, buf_text(&b));
	buf_fini(&b);
	world_run(&w);
}

/* One session with so many checkpoints, and a crash; its state is not restored yet. */
static void crash_with(int checkpoints)
{
	p = world_start(&w, "m1", "work");
	for (int n = 1; n <= checkpoints; n++)
		say_checkpoint(p, n);
	w.jobs_are_slow = true;
	opkit_crash();
	world_run(&w);
}

static void let_jobs_finish(void)
{
	w.jobs_are_slow = false;
	world_run(&w);
}

static bool starts_from(int key, int n)
{
	char text[64];

	snprintf(text, sizeof text, "\"step\":%d,\"state\":{\"n\":%d,", n, n);
	return world_worker(&w, key) != NULL && fake_worker_has_line(world_worker(&w, key), text);
}

START_TEST(the_daemon_serves_others_before_the_state_is_restored)
{
	crash_with(2);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:callee_restarted");
	ck_assert_uint_eq(w.workers.count, 0);
	p = world_start(&w, "m2", "work");
	ck_assert(p != NULL);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	let_jobs_finish();
	ck_assert(starts_from(1, 2));
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:callee_restarted "
		"PAUSED>RUNNING:recovered_from_checkpoint");
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

START_TEST(session_keeps_its_slot_while_its_state_is_restored)
{
	p = world_start(&w, "m1", "narrow");
	say_checkpoint(p, 1);
	w.jobs_are_slow = true;
	opkit_crash();
	world_submit(&w, "m2", "narrow");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	let_jobs_finish();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
}
END_TEST

START_TEST(an_abort_meanwhile_ends_it_without_a_start)
{
	crash_with(1);
	world_abort(&w, world_id(&w, 1));
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
	let_jobs_finish();
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_uint_eq(w.core.slots.running, 0);
}
END_TEST

/* How often does a message say that the session can be recovered from its newest checkpoint? */
static int named_as_recoverable(void)
{
	char text[128];

	snprintf(text, sizeof text, "\"last_checkpoint\":\"%s\",\"recoverable\":true",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints ORDER BY id DESC", NULL));
	return world_said(&w, text);
}

START_TEST(a_deadline_meanwhile_ends_it) /* proves L4-04 */
{
	crash_with(2);
	world_pass(&w, 3700 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(named_as_recoverable(), 1);
	let_jobs_finish();
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(a_stop_meanwhile_leaves_it_to_the_next_run)
{
	crash_with(1);
	core_stop(&w.core);
	world_run(&w);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_end(&w, false);
	w.jobs_are_slow = false;
	world_begin(&w);
	world_run(&w);
	ck_assert(starts_from(1, 1));
}
END_TEST

START_TEST(a_crash_meanwhile_leaves_it_to_the_next_run)
{
	crash_with(1);
	opkit_crash();
	world_run(&w);
	let_jobs_finish();
	ck_assert(starts_from(1, 1));
	ck_assert_int_eq(world_said(&w, "callee_restarted"), 1);
}
END_TEST

START_TEST(a_damaged_state_is_skipped_for_an_older_one) /* proves CK-03 */
{
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	say_checkpoint(p, 2);
	say_checkpoint(p, 3);
	world_exec(&w, "UPDATE checkpoints SET sha256 = 'x' WHERE step > 1");
	opkit_crash();
	world_run(&w);
	ck_assert(starts_from(1, 1));
	ck_assert_int_eq(world_said(&w, "2 checkpoints cannot be used"), 1);
}
END_TEST

START_TEST(session_without_a_good_checkpoint_fails) /* proves CK-03 */
{
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	say_checkpoint(p, 2);
	world_exec(&w, "UPDATE checkpoints SET sha256 = 'x'");
	opkit_crash();
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "all checkpoints are damaged"), 1);
	ck_assert_int_eq(world_said(&w, "\"last_checkpoint\":null,\"recoverable\":false"), 1);
	ck_assert_uint_eq(w.core.slots.running, 0);
}
END_TEST

START_TEST(many_are_restored_some_at_a_time)
{
	enum { SESSIONS = 12 };
	char id[8];

	for (int i = 1; i <= SESSIONS; i++) {
		snprintf(id, sizeof id, "m%d", i);
		say_checkpoint(world_start(&w, id, "work"), i);
	}
	w.jobs_are_slow = true;
	opkit_crash();
	world_run(&w);
	ck_assert_uint_le(w.core.restores.working, 4);
	ck_assert_uint_eq(w.workers.count, 0);
	let_jobs_finish();
	for (int i = 1; i <= SESSIONS; i++)
		ck_assert(starts_from(i, i));
	ck_assert(w.core.restores.waiting == NULL && w.core.restores.working == 0);
}
END_TEST

START_TEST(a_store_that_cannot_be_read_is_waited_for)
{
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	w.jobs_are_slow = true;
	opkit_crash();
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	let_jobs_finish();
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_eq(w.workers.count, 0);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert(starts_from(1, 1));
}
END_TEST

START_TEST(newest_checkpoint_counts_where_its_worker_dies_in_that_turn)
{
	opkit_end();
	begin("[capability work]\nmax_attempts = 3\nretry_delay = 1s\n");
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	w.jobs_are_slow = true;
	say_checkpoint(p, 2);
	fake_worker_exit(p, 1 << 8);
	world_run(&w);
	let_jobs_finish();
	world_pass(&w, 70 * SECONDS);
	ck_assert(world_worker(&w, 1) != p && starts_from(1, 2));
}
END_TEST

START_TEST(a_paused_session_knows_its_last_checkpoint)
{
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	world_exec(&w, "UPDATE sessions SET state = 'PAUSED', paused_by = 'operator'");
	world_exec(&w,
		"UPDATE transitions SET to_state = 'PAUSED' WHERE id = (SELECT max(id) FROM transitions)");
	opkit_crash();
	world_run(&w);
	ck_assert_str_eq(session_find_key(&w.core, 1)->checkpoint.last_id,
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL));
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

/* ---- a checkpoint that a task names ---- */

static bool is_damaged;

/* Session 1 ended with a large checkpoint; session 2 names it. */
static void submit_named(void)
{
	char more[200];

	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	opkit_say(p, COMPLETED);
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	if (is_damaged)
		world_exec(&w, "UPDATE checkpoints SET sha256 = 'x'");
	w.jobs_are_slow = true;
	snprintf(more, sizeof more, ",\"constraints\":{\"checkpoint\":\"%s\"}",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL));
	world_submit_as(&w, "alpha", NULL, "m2", "work", more);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 1);
}

START_TEST(a_large_checkpoint_that_a_task_names_is_waited_for)
{
	submit_named();
	let_jobs_finish();
	ck_assert(starts_from(2, 1));
}
END_TEST

START_TEST(a_stop_while_it_is_waited_for_pauses_the_session)
{
	submit_named();
	core_stop(&w.core);
	world_run(&w);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_path(&w, 2), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
	w.jobs_are_slow = false;
	opkit_crash();
	world_run(&w);
	ck_assert(starts_from(2, 1));
}
END_TEST

START_TEST(damaged_checkpoint_fails_the_session_that_names_it)
{
	is_damaged = true;
	submit_named();
	let_jobs_finish();
	is_damaged = false;
	ck_assert_str_eq(world_check_stream(&w, 2).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "is damaged"), 1);
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

/* ---- large for its base ---- */

START_TEST(a_small_difference_to_a_large_state_is_restored_later)
{
	struct buf b = {0};

	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 1);
	/* more than is stored as it is, and a part of the one before */
	buf_add_text(&b, "{\"type\":\"checkpoint\",\"step\":2,\"state\":{\"n\":2,\"fill\":\"");
	for (int i = 0; i < 1000; i++)
		buf_addf(&b, "%08x", (unsigned)i * 2654435761u);
	/* Only a large line is compared with a large state: spaces make it one. */
	buf_addf(&b, "\"}%*s}", LINES_READ_MAX, "");
	fake_worker_say(p, buf_text(&b));
	buf_fini(&b);
	world_run(&w);
	ck_assert_str_eq(
		world_text(&w, "SELECT group_concat(encoding, ' ') FROM checkpoints", NULL), "zstd delta");
	w.jobs_are_slow = true;
	opkit_crash();
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	let_jobs_finish();
	ck_assert(starts_from(1, 2));
}
END_TEST

/* ---- the state_schema ---- */

static void declare(const char *state_schema)
{
	struct buf b = {0};

	buf_addf(&b,
		"{\"capability\":{\"name\":\"work\",\"version\":\"1.2.3\",\"description\":\"d\","
		"\"input_schema\":{},\"output_schema\":{},\"safety\":{" WORLD_SAFE "},\"state_schema\":%s}}",
		state_schema);
	world_write_file(w.dir, "work.json", buf_text(&b));
	buf_fini(&b);
}

#define UP_TO(n) "{\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\",\"maximum\":" #n "}}}"

START_TEST(a_state_that_no_longer_fits_is_not_gone_on_from) /* proves CK-11, CK-09 */
{
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 7);
	declare(UP_TO(6));
	w.jobs_are_slow = true;
	opkit_crash();
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	let_jobs_finish();
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"check\":\"state_schema\""), 1);
	ck_assert_int_eq(world_said(&w, "/n must be at most 6, is 7"), 1);
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_uint_eq(w.core.slots.running, 0);
}
END_TEST

START_TEST(a_reload_meanwhile_brings_the_schema_that_counts) /* proves CK-11 */
{
	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 7);
	declare(_i == 0 ? UP_TO(7) : UP_TO(6));
	w.jobs_are_slow = true;
	opkit_crash();
	world_run(&w);
	declare(_i == 0 ? UP_TO(6) : UP_TO(7));
	core_reload(&w.core);
	let_jobs_finish();
	ck_assert_str_eq(world_state(&w, 1), _i == 0 ? "FAILED" : "RUNNING");
	ck_assert(w.core.restores.waiting == NULL && w.core.restores.working == 0);
}
END_TEST

static int64_t my_cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* How long it takes to read the newest state as JSON. */
static int64_t measure_parsing(void)
{
	struct checkpoint cp;
	int64_t began_us;
	char why[64];

	ck_assert_int_eq(checkpoint_find(w.core.store, 1, session_find_key(&w.core, 1)->intent.seal, &cp), 1);
	began_us = my_cpu_us();
	json_decref(jtext_parse(cp.state.data, cp.state.size, why, sizeof why));
	began_us = my_cpu_us() - began_us;
	checkpoint_fini(&cp);
	return began_us;
}

START_TEST(a_restored_state_is_not_parsed_again_by_the_loop) /* proves CK-11 */
{
	enum { NUMBERS = 400000 };
	struct buf b = {0};
	int64_t parsing_us, took_us;

	p = world_start(&w, "m1", "work");
	buf_add_text(&b, "{\"type\":\"checkpoint\",\"step\":1,\"state\":{\"n\":1,\"list\":[0");
	for (int i = 0; i < NUMBERS; i++)
		buf_addf(&b, ",%d", i % 1000);
	buf_add_text(&b, "]}}");
	fake_worker_say(p, buf_text(&b));
	buf_fini(&b);
	world_run(&w);
	declare(UP_TO(6));
	w.jobs_are_slow = true;
	opkit_crash();
	world_run(&w);
	parsing_us = measure_parsing();
	took_us = my_cpu_us();
	core_on_jobs(&w.core);
	took_us = my_cpu_us() - took_us;
	ck_assert_msg(took_us < parsing_us / 2, "the loop took %lld us, parsing takes %lld us",
		(long long)took_us, (long long)parsing_us);
	let_jobs_finish();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_named_state_that_does_not_fit_fails_the_session) /* proves CK-11 */
{
	char more[128];

	p = world_start(&w, "m1", "work");
	say_checkpoint(p, 7);
	opkit_say(p, COMPLETED);
	opkit_die(p, 0);
	declare(UP_TO(6));
	core_reload(&w.core);
	w.jobs_are_slow = true;
	snprintf(more, sizeof more, ",\"constraints\":{\"checkpoint\":\"%s\"}",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL));
	world_submit_as(&w, "alpha", NULL, "m2", "work", more);
	world_run(&w);
	declare(UP_TO(7)); /* it is started under the policy that it was begun with */
	core_reload(&w.core);
	let_jobs_finish();
	ck_assert_str_eq(world_check_stream(&w, 2).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "has a state that does not fit the state_schema"), 1);
}
END_TEST

/* ---- operators ---- */

START_TEST(an_operator_may_pause_it_meanwhile_and_resume_it)
{
	crash_with(1);
	opkit_done(opkit_ask(OP_PAUSE, 1, ""));
	ck_assert_uint_eq(w.core.slots.running, 0);
	let_jobs_finish();
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDoperator");
	ck_assert_uint_eq(w.workers.count, 0);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	world_run(&w);
	ck_assert(starts_from(1, 1));
	ck_assert_uint_eq(w.core.slots.running, 1);
}
END_TEST

START_TEST(a_resume_meanwhile_changes_nothing)
{
	crash_with(1);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 0);
	let_jobs_finish();
	ck_assert(starts_from(1, 1));
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_uint_eq(w.core.slots.running, 1);
}
END_TEST

START_TEST(an_operators_fail_meanwhile_names_the_checkpoint) /* proves L4-04 */
{
	crash_with(1);
	if (_i == 1) /* what was on its way is dropped */
		opkit_done(opkit_ask(OP_PAUSE, 1, ""));
	opkit_done(opkit_ask(OP_RECOVER, 1, "fail"));
	let_jobs_finish();
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(named_as_recoverable(), 1);
}
END_TEST

START_TEST(an_operators_choice_meanwhile_counts)
{
	crash_with(1);
	opkit_done(opkit_ask(OP_RECOVER, 1, _i == 0 ? "restart" : "discard"));
	let_jobs_finish();
	ck_assert(!starts_from(1, 1));
	ck_assert_str_eq(world_state(&w, 1), _i == 0 ? "RUNNING" : "ABORTED");
	ck_assert_uint_eq(w.workers.count, _i == 0 ? 1 : 0);
	ck_assert_uint_eq(w.core.slots.running, _i == 0 ? 1 : 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("restore");
	TCase *t = tcase_create("restore");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, the_daemon_serves_others_before_the_state_is_restored);
	tcase_add_test(t, session_keeps_its_slot_while_its_state_is_restored);
	tcase_add_test(t, an_abort_meanwhile_ends_it_without_a_start);
	tcase_add_test(t, a_deadline_meanwhile_ends_it);
	tcase_add_test(t, a_stop_meanwhile_leaves_it_to_the_next_run);
	tcase_add_test(t, a_crash_meanwhile_leaves_it_to_the_next_run);
	tcase_add_test(t, a_damaged_state_is_skipped_for_an_older_one);
	tcase_add_test(t, session_without_a_good_checkpoint_fails);
	tcase_add_test(t, many_are_restored_some_at_a_time);
	tcase_add_test(t, a_store_that_cannot_be_read_is_waited_for);
	tcase_add_test(t, newest_checkpoint_counts_where_its_worker_dies_in_that_turn);
	tcase_add_test(t, a_paused_session_knows_its_last_checkpoint);
	tcase_add_test(t, a_large_checkpoint_that_a_task_names_is_waited_for);
	tcase_add_test(t, a_stop_while_it_is_waited_for_pauses_the_session);
	tcase_add_test(t, damaged_checkpoint_fails_the_session_that_names_it);
	tcase_add_test(t, a_small_difference_to_a_large_state_is_restored_later);
	tcase_add_test(t, a_state_that_no_longer_fits_is_not_gone_on_from);
	tcase_add_loop_test(t, a_reload_meanwhile_brings_the_schema_that_counts, 0, 2);
	tcase_add_test(t, a_restored_state_is_not_parsed_again_by_the_loop);
	tcase_add_test(t, a_named_state_that_does_not_fit_fails_the_session);
	tcase_add_test(t, an_operator_may_pause_it_meanwhile_and_resume_it);
	tcase_add_test(t, a_resume_meanwhile_changes_nothing);
	tcase_add_loop_test(t, an_operators_fail_meanwhile_names_the_checkpoint, 0, 2);
	tcase_add_loop_test(t, an_operators_choice_meanwhile_counts, 0, 2);
	return world_main(s);
}
