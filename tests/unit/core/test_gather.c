/* SPDX-License-Identifier: MIT */
/* test_gather.c: turns that wait for more input before their commit, and those that do not. */
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

static int64_t gathered_us; /* the longest time that a turn would have waited for more input */

static void ask_how_long(void)
{
	int64_t us = core_gather_us(&w.core);

	gathered_us = us > gathered_us ? us : gathered_us;
}

static int64_t gathers(const char *message_id)
{
	gathered_us = 0;
	w.mid_turn = ask_how_long;
	world_submit(&w, message_id, "work");
	world_run(&w);
	w.mid_turn = NULL;
	return gathered_us;
}

/* Commits at one instant are as many as can be. */
static void commit_often(struct worker *p)
{
	for (int i = 0; i < 8; i++) {
		fake_worker_say(p, "{\"type\":\"progress\",\"stage\":\"a\"}");
		world_run(&w);
	}
}

START_TEST(a_turn_waits_for_more_where_commits_are_many)
{
	struct worker *p = world_start(&w, "m1", "work");

	ck_assert_int_eq(gathers("m2"), 0); /* they are few yet */
	commit_often(p);
	ck_assert_int_eq(gathers("m3"), 400);
	ck_assert_int_eq(core_gather_us(&w.core), 0); /* there is nothing to commit */
	world_pass(&w, 20000);
	ck_assert_int_eq(gathers("m4"), 0); /* it was 20 ms ago */
	world_pass(&w, SECONDS);
	ck_assert_int_eq(gathers("m5"), 0);
	ck_assert_int_eq(gathers("m6"), 0);
	commit_often(p);
	core_stop(&w.core);
	ck_assert_int_eq(gathers("m7"), 0);
}
END_TEST

START_TEST(a_session_that_runs_alone_never_waits)
{
	struct worker *p = world_start(&w, "m1", "work");

	commit_often(p);
	w.mid_turn = ask_how_long;
	commit_often(p);
	w.mid_turn = NULL;
	ck_assert_int_eq(gathered_us, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gather");
	TCase *t = tcase_create("gather");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_turn_waits_for_more_where_commits_are_many);
	tcase_add_test(t, a_session_that_runs_alone_never_waits);
	suite_add_tcase(s, t);
	return world_main(s);
}
