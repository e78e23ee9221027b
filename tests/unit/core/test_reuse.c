/* SPDX-License-Identifier: MIT */
/* test_reuse.c: processes that serve one session after another, when they serve nobody. Found by
 * the simulation. */
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

/* A worker that has completed, and the store did not take it. */
static struct worker *complete_unstored(void)
{
	struct worker *p = world_start(&w, "m1", "reused");

	fake_disk_refuse(ENOSPC);
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	return p;
}

static void check_ends_only_when_stored(struct worker *p)
{
	world_run(&w);
	ck_assert(!p->stdin_closed && !worker_is_ending(p));
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert(p->stdin_closed && worker_is_ending(p));
}

START_TEST(a_reload_retires_no_process_whose_result_is_not_stored)
{
	struct worker *p = complete_unstored();

	core_reload(&w.core);
	check_ends_only_when_stored(p);
}
END_TEST

START_TEST(a_stop_retires_no_process_whose_result_is_not_stored)
{
	struct worker *p = complete_unstored();

	core_stop(&w.core);
	check_ends_only_when_stored(p);
}
END_TEST

START_TEST(idle_process_with_children_is_retired_once_one_is_needed)
{
	struct worker *p = world_start(&w, "m1", "reused"), *other;

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	ck_assert(!p->stdin_closed);
	world_pass(&w, SECONDS);
	p->children = 1;
	other = world_start(&w, "m2", "reused");
	ck_assert_ptr_ne(other, p);
	ck_assert(p->stdin_closed && worker_is_ending(p));
	world_pass(&w, 60 * SECONDS);
	ck_assert(p->is_gone);
}
END_TEST

START_TEST(what_starts_between_two_sessions_ends_with_the_second)
{
	struct worker *p = world_start(&w, "m1", "reused");

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	p->children = 1; /* at once: its tree is not looked at again */
	world_submit(&w, "m2", "reused");
	world_run(&w);
	ck_assert_ptr_eq(world_worker(&w, 2), p);
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	ck_assert(p->stdin_closed && worker_is_ending(p));
	world_pass(&w, 60 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_state(&w, 2), "COMPLETED");
}
END_TEST

/* Its SIGCHLD comes later than the next task. */
START_TEST(a_process_that_has_exited_is_not_given_the_next_session)
{
	struct worker *p = world_start(&w, "m1", "reused"), *other;

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	p->is_dying = true;
	other = world_start(&w, "m2", "reused");
	ck_assert_ptr_ne(other, p);
	fake_worker_say(other, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "COMPLETED");
}
END_TEST

START_TEST(a_stop_hurries_a_process_that_was_retired_before)
{
	struct worker *p = world_start(&w, "m1", "reused");

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	world_run(&w);
	core_reload(&w.core); /* retired, with a grace */
	core_end_turn(&w.core);
	ck_assert(p->stdin_closed && p->term_at_us > fake_boot_us);
	core_stop(&w.core);
	core_end_turn(&w.core);
	ck_assert_int_le(p->term_at_us, fake_boot_us);
	world_run(&w);
	ck_assert(w.core.phase.is_done);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core_reuse");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_reload_retires_no_process_whose_result_is_not_stored);
	tcase_add_test(t, a_stop_retires_no_process_whose_result_is_not_stored);
	tcase_add_test(t, idle_process_with_children_is_retired_once_one_is_needed);
	tcase_add_test(t, what_starts_between_two_sessions_ends_with_the_second);
	tcase_add_test(t, a_process_that_has_exited_is_not_given_the_next_session);
	tcase_add_test(t, a_stop_hurries_a_process_that_was_retired_before);
	suite_add_tcase(s, t);
	return world_main(s);
}
