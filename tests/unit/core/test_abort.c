/* SPDX-License-Identifier: MIT */
/* test_abort.c: an abort at any moment ends in exactly one terminal state, and nothing survives it. */
#include "support/fakes/fake_world.h"

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

static void must_end(int key, const char *state, const char *path)
{
	struct oracle_stream j = world_check_stream(&w, key);

	ck_assert(j.closed);
	ck_assert_str_eq(j.state, state);
	ck_assert_str_eq(world_state(&w, key), state);
	ck_assert_str_eq(world_path(&w, key), path);
	ck_assert(session_find(&w.core, world_id(&w, key)) == NULL);
}

#define ABORTED_PATH \
	"PENDING>RUNNING:approved RUNNING>ABORTING:aborted_by_caller ABORTING>ABORTED:aborted_by_caller"

START_TEST(abort_is_ABORTING_at_once_then_line_term_kill_then_ABORTED) /* proves L2-11 */
{
	struct worker *p = world_start(&w, "m1", "work");
	int64_t began = fake_boot_us;

	p->ignores_term = true;
	p->children = 2;
	world_abort(&w, p->session_id);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
	ck_assert(fake_worker_has_line(p,
		"{\"type\":\"abort\",\"reason\":\"aborted_by_caller\",\"deadline\":"
		"\"2026-01-31T12:00:30.000Z\"}"));
	ck_assert_int_eq(p->term_at_us - began, 15 * SECONDS);
	ck_assert_int_eq(p->kill_at_us - began, 22500000);
	world_pass(&w, 22 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
	world_pass(&w, 1 * SECONDS);
	ck_assert(p->is_gone);
	must_end(1, "ABORTED", ABORTED_PATH);
}
END_TEST

START_TEST(a_text_worker_is_termed_at_once) /* proves L2-11 */
{
	struct worker *p = world_start(&w, "m1", "plain");

	world_abort(&w, p->session_id);
	world_run(&w);
	ck_assert(p->was_termed);
	must_end(1, "ABORTED", ABORTED_PATH);
}
END_TEST

START_TEST(output_is_published_until_the_pipe_is_drained) /* proves L2-15 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_abort(&w, p->session_id);
	world_run(&w);
	fake_worker_say(p, "{\"type\":\"log\",\"message\":\"last words\"}");
	fake_worker_exit(p, 0);
	world_run(&w);
	must_end(1, "ABORTED", ABORTED_PATH);
	ck_assert_int_eq(world_said(&w, "last words"), 1);
}
END_TEST

START_TEST(abort_while_paused_with_a_process) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, "{\"type\":\"paused\",\"reason\":\"coffee\"}");
	world_run(&w);
	world_abort(&w, p->session_id);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
	fake_worker_exit(p, 0);
	world_run(&w);
	must_end(1, "ABORTED",
		"PENDING>RUNNING:approved RUNNING>PAUSED:coffee PAUSED>ABORTING:aborted_by_caller"
		" ABORTING>ABORTED:aborted_by_caller");
}
END_TEST

START_TEST(abort_while_paused_without_a_process) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, "{\"type\":\"paused\",\"reason\":\"x\"}");
	world_run(&w);
	world_exec(&w, "UPDATE sessions SET paused_by = 'operator'");
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_abort(&w, world_id(&w, 1));
	world_run(&w);
	must_end(1, "ABORTED",
		"PENDING>RUNNING:approved RUNNING>PAUSED:x PAUSED>ABORTING:aborted_by_caller"
		" ABORTING>ABORTED:aborted_by_caller");
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(abort_while_queued_goes_through_RUNNING_and_starts_no_worker) /* proves L2-12 L2-02 */
{
	world_start(&w, "m1", "narrow");
	world_submit(&w, "m2", "narrow");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	world_abort(&w, world_id(&w, 2));
	world_run(&w);
	must_end(2, "ABORTED",
		"PENDING>RUNNING:aborted_by_caller RUNNING>ABORTING:aborted_by_caller"
		" ABORTING>ABORTED:aborted_by_caller");
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_uint_eq(w.core.slots.waiting, 0);
	ck_assert_uint_eq(w.core.slots.running, 1);
}
END_TEST

/* The commit of PENDING→RUNNING is held up; when it succeeds an abort is there before the start is
 * released. */
START_TEST(abort_between_RUNNING_and_the_start_starts_no_worker) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "narrow");
	char id[ID_SIZE];

	world_submit(&w, "m2", "narrow");
	world_run(&w);
	snprintf(id, sizeof id, "%s", world_id(&w, 2));
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	fake_worker_exit(p, 0);
	fake_disk_refuse(ENOSPC);
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	world_abort(&w, id);
	fake_disk_mend();
	world_pass(&w, 1 * SECONDS);
	must_end(2, "ABORTED",
		"PENDING>RUNNING:slot_free RUNNING>ABORTING:aborted_by_caller"
		" ABORTING>ABORTED:aborted_by_caller");
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(abort_right_after_recovery_ends_the_new_process) /* proves L2-12 */
{
	world_start(&w, "m1", "work");
	world_crash(&w);
	world_abort(&w, world_id(&w, 1));
	world_run(&w);
	ck_assert_uint_eq(w.workers.count, 1);
	fake_worker_exit(w.workers.list[0], 0);
	world_run(&w);
	must_end(1, "ABORTED",
		"PENDING>RUNNING:approved RUNNING>PAUSED:callee_restarted PAUSED>RUNNING:restarted"
		" RUNNING>ABORTING:aborted_by_caller ABORTING>ABORTED:aborted_by_caller");
}
END_TEST

START_TEST(a_crash_while_ABORTING_still_ends_ABORTED) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_abort(&w, p->session_id);
	world_run(&w);
	world_crash(&w);
	world_run(&w);
	must_end(1, "ABORTED", ABORTED_PATH);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(aborting_twice_is_aborting_once) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_abort(&w, p->session_id);
	world_abort(&w, p->session_id);
	world_run(&w);
	world_pass(&w, 3 * SECONDS);
	world_abort(&w, p->session_id);
	world_pass(&w, 30 * SECONDS);
	must_end(1, "ABORTED", ABORTED_PATH);
	world_abort(&w, p->session_id);
	world_run(&w);
	ck_assert_uint_eq(w.bus.acked, 5);
	must_end(1, "ABORTED", ABORTED_PATH);
}
END_TEST

START_TEST(completed_before_the_abort_stays_completed_and_is_hurried) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	p->ignores_term = true;
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	world_abort(&w, p->session_id);
	world_run(&w);
	world_pass(&w, 30 * SECONDS);
	must_end(1, "COMPLETED", "PENDING>RUNNING:approved RUNNING>COMPLETED:completed");
}
END_TEST

START_TEST(completed_in_the_turn_of_the_abort_comes_too_late) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_abort(&w, p->session_id); /* the bus is read before the pipes */
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
	must_end(1, "ABORTED", ABORTED_PATH);
	ck_assert_int_eq(world_said(&w, "\"type\":\"task_completed\""), 0);
}
END_TEST

START_TEST(failed_before_the_abort_stays_failed) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, "{\"type\":\"failed\",\"error_code\":\"input_error\",\"error_message\":\"no\"}");
	world_run(&w);
	world_abort(&w, p->session_id);
	fake_worker_exit(p, 1);
	world_run(&w);
	must_end(1, "FAILED", "PENDING>RUNNING:approved RUNNING>FAILED:worker_failed");
}
END_TEST

START_TEST(death_after_the_abort_is_an_abort) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "work");

	world_abort(&w, p->session_id);
	world_run(&w);
	fake_worker_exit(p, SIGSEGV);
	world_run(&w);
	must_end(1, "ABORTED", ABORTED_PATH);
}
END_TEST

START_TEST(a_timeout_after_the_abort_changes_nothing) /* proves L2-12 */
{
	struct worker *p = world_start(&w, "m1", "brief");

	p->ignores_term = true;
	world_abort(&w, p->session_id);
	world_pass(&w, 40 * SECONDS);
	must_end(1, "ABORTED", ABORTED_PATH);
}
END_TEST

START_TEST(an_abort_of_an_unknown_session_is_acked_and_no_more) /* proves L2-13 */
{
	size_t sent;

	world_start(&w, "m1", "work");
	sent = w.bus.sent_count;
	world_abort(&w, "11111111-2222-4333-8444-555555555555");
	world_run(&w);
	ck_assert_uint_eq(w.bus.acked, 2);
	ck_assert_uint_eq(w.bus.sent_count, sent);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* ---- who may ---- */

static const struct {
	const char *caller, *owner_user, *token, *user; /* token: own, other, bad or NULL */
	bool may;
} aborts[] = {
	{"alpha", NULL, NULL, NULL, true}, /* no amqp_user: identity is not checked */
	{"alpha", NULL, NULL, "anybody", true},
	{"alpha", NULL, "own", NULL, true},
	{"alpha", NULL, "other", NULL, false}, /* a wrong token is refused always */
	{"alpha", NULL, "bad", NULL, false},
	{"beta", "beta-user", NULL, "beta-user", true},
	{"beta", "beta-user", NULL, NULL, false},
	{"beta", "beta-user", NULL, "alpha-user", false},
	{"beta", "beta-user", "own", "alpha-user", true},
	{"beta", "beta-user", "own", NULL, true},
	{"beta", "beta-user", "bad", "beta-user", false},
	{"beta", "beta-user", "other", "beta-user", false},
};

START_TEST(only_the_owner_or_its_token_aborts) /* proves L2-13 L3-05 */
{
	const char *token = aborts[_i].token;

	world_submit_as(&w, aborts[_i].caller, aborts[_i].owner_user, "m1", "work", "");
	world_submit_as(&w, aborts[_i].caller, aborts[_i].owner_user, "m2", "work", "");
	world_run(&w);
	if (token != NULL && strcmp(token, "own") == 0)
		token = world_text(&w, "SELECT session_token FROM sessions WHERE id = 1", NULL);
	else if (token != NULL && strcmp(token, "other") == 0)
		token = world_text(&w, "SELECT session_token FROM sessions WHERE id = 2", NULL);
	world_abort_as(&w, world_id(&w, 1), token, aborts[_i].user);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), aborts[_i].may ? "ABORTING" : "RUNNING");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_uint_eq(w.bus.acked, 3);
}
END_TEST

START_TEST(an_expired_token_still_aborts) /* towards L3-08 */
{
	world_end(&w, false);
	world_configure(&w, "[session]\nmax_duration = 1s\nabort_timeout = 1d\n");
	world_begin(&w);
	world_submit_as(&w, "beta", "beta-user", "m1", "work", "");
	world_run(&w);
	fake_clock_step_wall(3600 * SECONDS); /* the token has expired, the session has not */
	world_abort_as(&w, world_id(&w, 1), world_text(&w, "SELECT session_token FROM sessions", NULL), NULL);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_abort");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, abort_is_ABORTING_at_once_then_line_term_kill_then_ABORTED);
	tcase_add_test(t, a_text_worker_is_termed_at_once);
	tcase_add_test(t, output_is_published_until_the_pipe_is_drained);
	tcase_add_test(t, abort_while_paused_with_a_process);
	tcase_add_test(t, abort_while_paused_without_a_process);
	tcase_add_test(t, abort_while_queued_goes_through_RUNNING_and_starts_no_worker);
	tcase_add_test(t, abort_between_RUNNING_and_the_start_starts_no_worker);
	tcase_add_test(t, abort_right_after_recovery_ends_the_new_process);
	tcase_add_test(t, a_crash_while_ABORTING_still_ends_ABORTED);
	tcase_add_test(t, aborting_twice_is_aborting_once);
	tcase_add_test(t, completed_before_the_abort_stays_completed_and_is_hurried);
	tcase_add_test(t, completed_in_the_turn_of_the_abort_comes_too_late);
	tcase_add_test(t, failed_before_the_abort_stays_failed);
	tcase_add_test(t, death_after_the_abort_is_an_abort);
	tcase_add_test(t, a_timeout_after_the_abort_changes_nothing);
	tcase_add_test(t, an_abort_of_an_unknown_session_is_acked_and_no_more);
	tcase_add_loop_test(t, only_the_owner_or_its_token_aborts, 0, (int)(sizeof aborts / sizeof *aborts));
	tcase_add_test(t, an_expired_token_still_aborts);
	suite_add_tcase(s, t);
	return world_main(s);
}
