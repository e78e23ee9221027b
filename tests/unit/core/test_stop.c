/* SPDX-License-Identifier: MIT */
/* test_stop.c: the graceful stop, processes that serve more than one session, and the reload. */
#include "support/fakes/fake_world.h"

#include "base/jobs.h"

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

static void complete(struct worker *p)
{
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
}

#define REQUEST "{\"type\":\"checkpoint_request\",\"reason\":\"stopping\"}\n"

/* ---- stop ---- */

START_TEST(an_idle_daemon_stops_at_once) /* proves L2-16 */
{
	world_run(&w);
	core_stop(&w.core);
	world_run(&w);
	ck_assert(w.core.phase.is_done);
	ck_assert_int_eq(w.core.phase.exit_code, 0);
}
END_TEST

START_TEST(a_worker_is_asked_and_ended_at_its_next_checkpoint) /* proves L2-16 */
{
	struct worker *p = world_start(&w, "m1", "work");

	core_stop(&w.core);
	world_run(&w);
	ck_assert(fake_worker_has_line(p, REQUEST));
	world_pass(&w, 3 * SECONDS);
	ck_assert_int_eq(p->term_at_us, FAKE_NEVER);
	fake_worker_say(p, "{\"type\":\"checkpoint\",\"state\":{\"n\":5}}");
	world_run(&w);
	ck_assert(p->was_termed && p->is_gone);
	ck_assert(w.core.phase.is_done);
	ck_assert_int_eq(w.core.phase.exit_code, 0);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "stop");
	ck_assert(!world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(worker_that_does_not_answer_ends_at_half_of_stop_timeout) /* proves L2-16 */
{
	struct worker *p = world_start(&w, "m1", "work");

	core_stop(&w.core);
	world_pass(&w, 14900000);
	ck_assert(!p->was_termed);
	world_pass(&w, 200000);
	ck_assert(p->was_termed && p->is_gone);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
}
END_TEST

START_TEST(a_stubborn_tree_is_killed_within_stop_timeout) /* proves L2-16 */
{
	struct worker *p = world_start(&w, "m1", "work");
	int64_t began = fake_boot_us;

	p->ignores_term = true;
	p->children = 3;
	core_stop(&w.core);
	world_pass(&w, 29900000);
	ck_assert(p->was_killed && p->is_gone);
	ck_assert(w.core.phase.is_done);
	ck_assert_int_lt(p->kill_at_us - began, 30 * SECONDS);
	ck_assert_int_eq(w.core.phase.exit_code, 0);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
}
END_TEST

START_TEST(a_text_worker_is_ended_at_once) /* proves L2-16 */
{
	struct worker *p = world_start(&w, "m1", "plain");

	core_stop(&w.core);
	world_run(&w);
	ck_assert(p->was_termed && p->is_gone);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
}
END_TEST

START_TEST(a_second_signal_ends_all_now)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->ignores_term = true;
	core_stop(&w.core);
	world_pass(&w, 1 * SECONDS);
	core_stop(&w.core);
	world_run(&w);
	ck_assert(p->was_killed);
	ck_assert(w.core.phase.is_done);
}
END_TEST

START_TEST(completed_during_the_stop_counts)
{
	struct worker *p = world_start(&w, "m1", "work");

	core_stop(&w.core);
	world_run(&w);
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert(w.core.phase.is_done);
}
END_TEST

START_TEST(submits_during_the_stop_are_answered_and_run_in_the_next_run) /* proves L2-16 */
{
	world_start(&w, "m1", "work");
	core_stop(&w.core);
	world_submit(&w, "m2", "work");
	world_submit(&w, "m3", "nothing-here");
	world_run(&w);
	ck_assert_uint_eq(w.bus.acked, 3);
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m2\""), 1);
	ck_assert_int_eq(world_said(&w, "unknown_capability"), 1);
	ck_assert_uint_eq(w.workers.count, 1);
	world_pass(&w, 30 * SECONDS);
	ck_assert(w.core.phase.is_done);
	world_end(&w, false);
	world_begin(&w);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

START_TEST(aborts_during_the_stop_are_obeyed_and_final) /* proves L2-18 */
{
	struct worker *p;

	world_start(&w, "m0", "narrow");
	world_submit(&w, "m1", "narrow");
	p = world_start(&w, "m2", "work");
	core_stop(&w.core);
	world_run(&w);
	world_abort(&w, world_id(&w, 2)); /* waits */
	world_abort(&w, p->session_id);   /* runs */
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "ABORTED");
	ck_assert_str_eq(world_state(&w, 3), "ABORTING");
	world_pass(&w, 30 * SECONDS);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_check_stream(&w, 3).state, "ABORTED");
	world_end(&w, false);
	world_begin(&w);
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 1); /* the one of narrow */
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_start_that_was_due_when_the_stop_came_pauses_the_session)
{
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m1", "work");
	world_run(&w); /* RUNNING, but not committed */
	core_stop(&w.core);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:stopping");
	ck_assert(w.core.phase.is_done);
}
END_TEST

START_TEST(a_stop_waits_for_what_is_in_flight_but_not_beyond_its_time) /* proves L2-16 */
{
	struct worker *p = world_start(&w, "m1", "work");

	w.broker_is_slow = true;
	core_stop(&w.core);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert(!w.core.phase.is_done && w.bus.flight_count > 0);
	if (_i == 0) {
		fake_bus_settle_all(&w.bus, BUS_CONFIRMED);
		world_run(&w);
	} else {
		world_pass(&w, 30 * SECONDS);
	}
	ck_assert(w.core.phase.is_done);
	ck_assert_int_eq(w.core.phase.exit_code, 0);
}
END_TEST

/* The last turn is cut off by the end of stop_timeout: what it began must not be stored in halves. */
START_TEST(events_after_the_time_is_over_are_stored_whole_or_not)
{
	struct worker *p = world_start(&w, "m1", "work");

	p->is_immortal = true;
	core_stop(&w.core);
	world_pass(&w, 29900000);
	ck_assert(!w.core.phase.is_done);
	fake_clock_pass(200000);
	core_on_time(&w.core);
	ck_assert(w.core.phase.is_done);
	fake_worker_say(p, "{\"type\":\"paused\"}");
	fake_workers_run(&w.workers);
	core_end_turn(&w.core);
	world_end(&w, false);
	world_begin(&w);
	world_check_rows(&w);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_check_stream(&w, 1);
}
END_TEST

/* The same with what comes in the very turn in which the time is over: an abort, and a slot that it frees. */
START_TEST(events_in_the_last_turn_are_stored_whole_or_not_at_all)
{
	bool was_stored;

	world_end(&w, false);
	world_configure(&w, "[daemon]\nmax_sessions = 1\n");
	world_begin(&w);
	world_start(&w, "m1", "work")->is_immortal = true;
	world_submit(&w, "m2", "work");
	world_submit(&w, "m3", "work");
	world_run(&w);
	core_stop(&w.core);
	world_pass(&w, 29900000);
	ck_assert(!w.core.phase.is_done);
	fake_clock_pass(200000);
	world_abort(&w, world_id(&w, 2));
	world_submit(&w, "m4", "nothing-here");
	core_on_bus(&w.core);
	core_on_time(&w.core);
	core_end_turn(&w.core);
	ck_assert(w.core.phase.is_done);
	world_end(&w, false);
	world_begin(&w);
	world_check_rows(&w);
	was_stored = strcmp(world_state(&w, 2), "ABORTED") == 0;
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM submits WHERE message_id = 'm4'", NULL), was_stored);
	world_abort(&w, world_id(&w, 2)); /* the broker has both still */
	world_submit(&w, "m4", "nothing-here");
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 2).state, "ABORTED");
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m4\""), 1);
	ck_assert_str_eq(world_state(&w, 3), "PENDING");
	world_check_stream(&w, 1);
}
END_TEST

/* ---- reuse ---- */

START_TEST(a_process_serves_as_many_sessions_as_reuse_says)
{
	struct worker *p = world_start(&w, "m1", "reused");
	struct worker *q;

	ck_assert(fake_worker_env(p, "HCP_CAPABILITY") != NULL);
	ck_assert(fake_worker_env(p, "HCP_SESSION_ID") == NULL && fake_worker_env(p, "HCP_TASK") == NULL);
	ck_assert(fake_worker_has_line(p, "\"workdir\":\""));
	complete(p);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert(!p->stdin_closed);
	world_submit(&w, "m2", "reused");
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_str_eq(p->session_id, world_id(&w, 2));
	complete(p);
	ck_assert(p->stdin_closed); /* twice is what reuse says */
	ck_assert_str_eq(world_check_stream(&w, 2).state, "COMPLETED");
	q = world_start(&w, "m3", "reused");
	ck_assert_ptr_ne(p, q);
	world_pass(&w, 60 * SECONDS);
	ck_assert(p->is_gone && p->is_freed);
}
END_TEST

START_TEST(a_process_that_serves_nobody_is_not_listened_to) /* proves L2-15 */
{
	struct worker *p = world_start(&w, "m1", "reused");
	size_t sent;

	complete(p);
	sent = w.bus.sent_count;
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"to nobody\"}");
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	ck_assert_uint_eq(w.bus.sent_count, sent);
	ck_assert_uint_eq(w.core.stats.late_lines, 2);
	world_submit(&w, "m2", "reused");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_int_eq(world_said(&w, "to nobody"), 0);
}
END_TEST

enum retire { BY_FAILED, BY_ABORT, BY_TIMEOUT, BY_COMPANY, BY_EXIT, RETIRES };

START_TEST(anything_but_completed_alone_retires_the_process)
{
	struct worker *p = world_start(&w, "m1", "reused");

	switch ((enum retire)_i) {
	case BY_FAILED: fake_worker_say(p, "{\"type\":\"failed\",\"error_message\":\"x\"}"); break;
	case BY_ABORT: world_abort(&w, p->session_id); break;
	case BY_TIMEOUT: world_pass(&w, 3601 * SECONDS); break;
	case BY_COMPANY:
		p->children = 1;
		fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
		break;
	case BY_EXIT:
	case RETIRES: fake_worker_exit(p, 0); break;
	}
	world_run(&w);
	world_submit(&w, "m2", "reused");
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert_ptr_ne(world_worker(&w, 2), p);
	ck_assert(worker_is_ending(p) || p->is_gone);
	world_pass(&w, 60 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(an_idle_process_that_dies_is_forgotten)
{
	struct worker *p = world_start(&w, "m1", "reused");

	complete(p);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert(p->is_freed);
	ck_assert_ptr_ne(world_start(&w, "m2", "reused"), p);
}
END_TEST

START_TEST(idle_processes_end_with_the_stop) /* proves L2-16 */
{
	struct worker *p = world_start(&w, "m1", "reused");

	complete(p);
	core_stop(&w.core);
	world_pass(&w, 1 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert(w.core.phase.is_done);
}
END_TEST

/* It was given minutes to go by itself; a stop has less. */
START_TEST(a_process_that_was_retired_before_the_stop_is_hurried_by_it) /* proves L2-16 */
{
	struct worker *p;
	int64_t began;

	world_end(&w, false);
	world_configure(&w, "[session]\nexit_grace = 10m\n");
	world_begin(&w);
	p = world_start(&w, "m1", "reused");
	complete(p);
	world_submit(&w, "m2", "reused");
	world_run(&w);
	complete(p); /* its last */
	ck_assert(p->stdin_closed);
	world_pass(&w, 1 * SECONDS);
	p->ignores_term = true;
	began = fake_boot_us;
	ck_assert(!p->was_termed);
	core_stop(&w.core);
	world_run(&w);
	ck_assert(p->was_termed && !p->was_killed);
	if (_i == 1) {
		core_stop(&w.core); /* now */
		world_run(&w);
	} else {
		world_pass(&w, 30 * SECONDS);
	}
	ck_assert(p->is_gone && w.core.phase.is_done);
	ck_assert_int_le(p->kill_at_us - began, _i == 1 ? 0 : 22500000);
	ck_assert_int_eq(w.core.phase.exit_code, 0);
}
END_TEST

START_TEST(a_processs_end_is_not_begun_before_the_commit)
{
	struct worker *p = world_start(&w, "m1", "reused");

	complete(p);
	world_submit(&w, "m2", "reused");
	world_run(&w);
	fake_disk_refuse(ENOSPC);
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}"); /* its last, as reuse says */
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	ck_assert(!p->stdin_closed && !worker_is_ending(p));
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	ck_assert(p->stdin_closed);
}
END_TEST

/* ---- reload ---- */

START_TEST(a_broken_configuration_is_refused_whole)
{
	const struct policy *before = w.core.policy;

	world_write_file(w.dir, "hcpd.ini", "[daemon]\nno_such_key = 1\n");
	core_reload(&w.core);
	ck_assert_ptr_eq(w.core.policy, before);
	world_start(&w, "m1", "work");
}
END_TEST

START_TEST(a_reload_changes_policy_for_new_tasks_only)
{
	struct worker *p = world_start(&w, "m1", "work"), *idle = world_start(&w, "m2", "reused");

	complete(idle);
	world_configure(&w, "[caller alpha]\ncapabilities = plain\n");
	core_reload(&w.core);
	world_submit(&w, "m3", "work");
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"forbidden\""), 1);
	ck_assert(idle->stdin_closed); /* its command may be another now */
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
}
END_TEST

/* From here on a configuration that was read is put in force in a later turn, as in the daemon. */
static void read_beside(void)
{
	w.core.reload.thread = jobs_new_one(NULL, NULL);
}

static int64_t count_reloads(const char *outcome)
{
	return world_count(&w,
		"SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'reload' AND"
		" json_extract(entry, '$.outcome') = ?",
		outcome);
}

START_TEST(a_configuration_that_is_being_read_changes_nothing_yet)
{
	const struct policy *before = w.core.policy;

	read_beside();
	world_configure(&w, "[caller alpha]\ncapabilities = plain\n");
	core_reload(&w.core);
	ck_assert_ptr_eq(w.core.policy, before);
	ck_assert(jobs_have_finished(w.core.reload.thread));
	core_on_reload(&w.core);
	ck_assert_ptr_ne(w.core.policy, before);
	ck_assert(!w.core.reload.is_under_way);
}
END_TEST

START_TEST(a_hangup_during_a_reload_reads_the_newest_file_after_it)
{
	read_beside();
	core_reload(&w.core);
	world_configure(&w, "max_pending = 7\n");
	for (int i = 0; i < 3; i++)
		core_reload(&w.core);
	core_on_reload(&w.core); /* the first, and the next begins */
	ck_assert(w.core.reload.is_under_way && !w.core.reload.is_due);
	world_run(&w);
	ck_assert(!w.core.reload.is_under_way);
	ck_assert_int_eq(w.core.policy->config->callers[1].max_pending, 7);
	ck_assert_int_eq(count_reloads("done"), 2);
}
END_TEST

START_TEST(a_broken_file_does_not_keep_the_next_from_being_read)
{
	read_beside();
	world_write_file(w.dir, "hcpd.ini", "[daemon]\nno_such_key = 1\n");
	core_reload(&w.core);
	world_configure(&w, "max_pending = 7\n");
	core_reload(&w.core);
	world_run(&w);
	ck_assert_int_eq(w.core.policy->config->callers[1].max_pending, 7);
	ck_assert_int_eq(count_reloads("refused"), 1);
	ck_assert_int_eq(count_reloads("done"), 1);
}
END_TEST

START_TEST(a_reload_takes_effect_while_the_store_refuses)
{
	read_beside();
	world_start(&w, "m1", "work");
	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m2", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	world_configure(&w, "max_pending = 7\n");
	core_reload(&w.core);
	world_run(&w);
	ck_assert_int_eq(w.core.policy->config->callers[1].max_pending, 7);
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	ck_assert_int_eq(count_reloads("done"), 1);
}
END_TEST

START_TEST(a_stop_drops_a_configuration_in_the_reading)
{
	read_beside();
	core_reload(&w.core);
	core_stop(&w.core);
	while (!w.core.phase.is_done)
		core_end_turn(&w.core);
	world_end(&w, false); /* the sanitizer sees that nothing is left */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_stop");
	TCase *t = tcase_create("stop"), *r = tcase_create("reuse"), *l = tcase_create("reload");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, an_idle_daemon_stops_at_once);
	tcase_add_test(t, a_worker_is_asked_and_ended_at_its_next_checkpoint);
	tcase_add_test(t, worker_that_does_not_answer_ends_at_half_of_stop_timeout);
	tcase_add_test(t, a_stubborn_tree_is_killed_within_stop_timeout);
	tcase_add_test(t, a_text_worker_is_ended_at_once);
	tcase_add_test(t, a_second_signal_ends_all_now);
	tcase_add_test(t, completed_during_the_stop_counts);
	tcase_add_test(t, submits_during_the_stop_are_answered_and_run_in_the_next_run);
	tcase_add_test(t, aborts_during_the_stop_are_obeyed_and_final);
	tcase_add_test(t, a_start_that_was_due_when_the_stop_came_pauses_the_session);
	tcase_add_loop_test(t, a_stop_waits_for_what_is_in_flight_but_not_beyond_its_time, 0, 2);
	tcase_add_test(t, events_after_the_time_is_over_are_stored_whole_or_not);
	tcase_add_test(t, events_in_the_last_turn_are_stored_whole_or_not_at_all);
	tcase_add_checked_fixture(r, setup, teardown);
	tcase_add_test(r, a_process_serves_as_many_sessions_as_reuse_says);
	tcase_add_test(r, a_process_that_serves_nobody_is_not_listened_to);
	tcase_add_loop_test(r, anything_but_completed_alone_retires_the_process, 0, RETIRES);
	tcase_add_test(r, an_idle_process_that_dies_is_forgotten);
	tcase_add_test(r, idle_processes_end_with_the_stop);
	tcase_add_loop_test(r, a_process_that_was_retired_before_the_stop_is_hurried_by_it, 0, 2);
	tcase_add_test(r, a_processs_end_is_not_begun_before_the_commit);
	tcase_add_checked_fixture(l, setup, teardown);
	tcase_add_test(l, a_broken_configuration_is_refused_whole);
	tcase_add_test(l, a_reload_changes_policy_for_new_tasks_only);
	tcase_add_test(l, a_configuration_that_is_being_read_changes_nothing_yet);
	tcase_add_test(l, a_hangup_during_a_reload_reads_the_newest_file_after_it);
	tcase_add_test(l, a_broken_file_does_not_keep_the_next_from_being_read);
	tcase_add_test(l, a_reload_takes_effect_while_the_store_refuses);
	tcase_add_test(l, a_stop_drops_a_configuration_in_the_reading);
	suite_add_tcase(s, t);
	suite_add_tcase(s, r);
	suite_add_tcase(s, l);
	return world_main(s);
}
