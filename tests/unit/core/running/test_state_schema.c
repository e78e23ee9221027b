/* SPDX-License-Identifier: MIT */
/* test_state_schema.c: a declaration's state_schema: checkpoints that do not fit are not kept, and not gone
 * on from. */
#include "support/fakes/operator_kit.h"

#define NUMBER "{\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\",\"maximum\":6}}}"

static void declare(const char *state_schema)
{
	struct buf b = {0};

	buf_add_text(&b,
		"{\"capability\":{\"name\":\"work\",\"version\":\"1.2.3\",\"description\":\"d\","
		"\"input_schema\":{},\"output_schema\":{},\"safety\":{" WORLD_SAFE "}");
	if (state_schema != NULL)
		buf_addf(&b, ",\"state_schema\":%s", state_schema);
	buf_add_text(&b, "}}");
	world_write_file(w.dir, "work.json", buf_text(&b));
	buf_fini(&b);
	core_reload(&w.core);
	world_run(&w);
}

static void setup(void)
{
	opkit_begin("");
}

START_TEST(a_checkpoint_whose_state_does_not_fit_is_not_kept) /* proves CK-11 */
{
	struct worker *p;

	declare(NUMBER);
	p = world_start(&w, "m1", "work");
	opkit_say(p, CHECKPOINT("6"));
	opkit_say(p, CHECKPOINT("7"));
	opkit_say(p, "{\"type\":\"checkpoint\"}"); /* its state is {} */
	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{\"n\":6.5},\"resumable\":false}");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 1);
	ck_assert_int_eq(world_said(&w, "\"checkpoint_created\""), 1);
	ck_assert_int_eq(world_said(&w, "\"code\":\"state_invalid\""), 3);
	ck_assert_int_eq(world_said(&w, "state_schema: /n must be at most 6, is 7 (at \\\"/n\\\")"), 1);
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":6}"));
}
END_TEST

START_TEST(a_worker_is_told_that_its_checkpoint_is_not_kept)
{
	struct worker *p;

	declare(NUMBER);
	p = world_start(&w, "m1", "work");
	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{\"n\":7},\"ref\":\"a\"}");
	ck_assert(fake_worker_has_line(
		p, "{\"type\":\"checkpoint_refused\",\"ref\":\"a\",\"reason\":\"/n must be at most 6, is 7"));
	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":7,\"ref\":2}");
	ck_assert(fake_worker_has_line(p, "{\"type\":\"checkpoint_refused\",\"ref\":2,\"reason\":\""));
	ck_assert(!fake_worker_has_line(p, "checkpoint_saved"));
	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{\"n\":6},\"ref\":3}");
	ck_assert(fake_worker_has_line(p, "\"ref\":3}"));
	/* after the end is decided nobody waits any more */
	opkit_say(p, "{\"type\":\"completed\"}");
	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":7,\"ref\":4}");
	ck_assert(!fake_worker_has_line(p, "\"ref\":4"));
}
END_TEST

START_TEST(a_state_that_no_longer_fits_is_not_gone_on_from) /* proves CK-11, CK-09 */
{
	opkit_say(world_start(&w, "m1", "work"), CHECKPOINT("7"));
	declare(NUMBER);
	opkit_crash();
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"check\":\"state_schema\""), 1);
	ck_assert_int_eq(world_said(&w, "/n must be at most 6, is 7"), 1);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(a_task_does_not_name_a_checkpoint_that_does_not_fit) /* proves CK-11, L4-06 */
{
	struct worker *p = world_start(&w, "m1", "work");
	char more[128];

	opkit_say(p, CHECKPOINT("7"));
	opkit_say(p, COMPLETED);
	opkit_die(p, 0);
	declare(NUMBER);
	snprintf(more, sizeof more, ",\"constraints\":{\"checkpoint\":\"%s\"}",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL));
	world_submit_as(&w, "alpha", NULL, "m2", "work", more);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "has a state that does not fit the state_schema"), 1);
	declare(NULL);
	world_submit_as(&w, "alpha", NULL, "m3", "work", more);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

START_TEST(a_migrated_state_must_fit) /* proves CK-11 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{\"old\":1},\"state_version\":\"1.4\"}");
	world_configure(&w,
		"[capability work]\nstate_version = 3.0\nmigrate.1-2 = /bin/migrate one\n"
		"migrate.2-3 = /bin/migrate two\n");
	declare(NUMBER);
	opkit_crash();
	p = w.workers.list[0];
	fake_worker_say(p, "{\"between\":1}"); /* of a version that the schema is not for */
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	p = w.workers.list[w.workers.count - 1];
	fake_worker_say(p, _i == 0 ? "{\"n\":7}" : "{\"n\":6}");
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), _i == 0 ? "FAILED" : "RUNNING");
	ck_assert_int_eq(world_said(&w, "the new state does not fit the capability's state_schema"), _i == 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("state_schema");
	TCase *t = tcase_create("state_schema");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, a_checkpoint_whose_state_does_not_fit_is_not_kept);
	tcase_add_test(t, a_worker_is_told_that_its_checkpoint_is_not_kept);
	tcase_add_test(t, a_state_that_no_longer_fits_is_not_gone_on_from);
	tcase_add_test(t, a_task_does_not_name_a_checkpoint_that_does_not_fit);
	tcase_add_loop_test(t, a_migrated_state_must_fit, 0, 2);
	suite_add_tcase(s, t);
	return world_main(s);
}
