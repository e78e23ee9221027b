/* SPDX-License-Identifier: MIT */
/* test_checkpoint.c: a checkpoint that is no longer what it was is passed over, and the caller is told. */
#include "support/fakes/fake_world.h"

#include "json/canonical.h"
#include "store/checkpoint.h"

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

/* Three checkpoints in a first run. */
static void bring_about(void)
{
	struct worker *p = world_start(&w, "m1", "work");

	for (int n = 1; n <= 3; n++) {
		char line[128];

		snprintf(line, sizeof line,
			"{\"type\":\"checkpoint\",\"step\":\"s%d\",\"state\":{\"n\":%d.10, \"a\":\"x\"}}", n,
			n);
		fake_worker_say(p, line);
	}
	world_run(&w);
}

static const char *crash_and_resume(void)
{
	world_crash(&w);
	world_run(&w);
	return w.workers.count == 1 ? "RUNNING" : world_state(&w, 1);
}

START_TEST(a_checkpoint_is_stored_with_the_hash_of_its_canonical_state) /* proves CK-03 */
{
	char hex[CANONICAL_HASH_SIZE];
	json_t *v = json_pack("{s:f,s:s}", "n", 3.1, "a", "x");

	bring_about();
	canonical_hash(v, hex);
	json_decref(v);
	ck_assert_str_eq(
		world_text(&w, "SELECT sha256 FROM checkpoints ORDER BY id DESC LIMIT 1", NULL), hex);
}
END_TEST

static const char *const damages[] = {
	"state = '{\"n\":3.11,\"a\":\"x\"}'", /* another value */
	"state = '{\"n\":3.10,\"a\":\"x\"'",  /* cut off */
	"state = ''", "state = '[1]'", "state = x'ff00fe'", "sha256 = replace(sha256, 'a', 'b') || '0'",
	"sha256 = NULL, state = replace(state, '3', '4')", "sha256 = ''", "step = '{{'", "step = '[\"s3\"]'",
	"step = x'22ff22'", "step = step || char(10)", /* it would end the start line */
};

START_TEST(a_damaged_checkpoint_is_passed_over_with_a_warning) /* proves CK-03 */
{
	char sql[256];

	snprintf(sql, sizeof sql, "UPDATE checkpoints SET %s WHERE step = '\"s3\"'", damages[_i]);
	bring_about();
	world_exec(&w, sql);
	ck_assert_str_eq(crash_and_resume(), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"step\":\"s2\",\"state\":{\"n\":2.10,"));
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"warning\""), 1);
	ck_assert_int_eq(world_said(&w, "\"code\":\"checkpoint_damaged\""), 1);
	ck_assert_int_eq(world_said(&w, "recovered_from_checkpoint"), 1);
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(session_without_any_good_checkpoint_fails_and_says_so) /* proves CK-03 */
{
	bring_about();
	world_exec(&w, "UPDATE checkpoints SET state = '{}'");
	ck_assert_str_eq(crash_and_resume(), "FAILED");
	ck_assert_int_eq(world_said(&w, "all checkpoints are damaged"), 1);
	ck_assert_int_eq(world_said(&w, "\"code\":\"checkpoint_damaged\""), 1);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(without_its_hash_none_is_gone_on_from) /* proves CK-03 */
{
	bring_about();
	world_exec(&w, "UPDATE checkpoints SET sha256 = NULL");
	ck_assert_str_eq(crash_and_resume(), "FAILED");
	ck_assert_int_ge(world_said(&w, "the hash of its state is gone"), 1);
	ck_assert_int_eq(world_said(&w, "all checkpoints are damaged"), 1);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(a_damaged_step_does_not_reach_the_summary)
{
	bring_about();
	world_exec(&w, "UPDATE checkpoints SET step = '{{'");
	world_configure(&w, "[capability work]\nrecovery = summarize\n");
	ck_assert_str_eq(crash_and_resume(), "FAILED");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE NOT json_valid(body)", NULL), 0);
	ck_assert_int_eq(world_said(&w, "\"step\":null}"), 1);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(other_spellings_of_the_same_state_are_not_damage)
{
	bring_about();
	world_exec(&w,
		"UPDATE checkpoints SET state = '{ \"a\" : \"\\u0078\", \"n\" : 31e-1 }' WHERE step = "
		"'\"s3\"'");
	ck_assert_str_eq(crash_and_resume(), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"step\":\"s3\""));
	ck_assert_int_eq(world_said(&w, "checkpoint_damaged"), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("checkpoint");
	TCase *t = tcase_create("checkpoint");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_checkpoint_is_stored_with_the_hash_of_its_canonical_state);
	tcase_add_loop_test(t, a_damaged_checkpoint_is_passed_over_with_a_warning, 0,
		(int)(sizeof damages / sizeof *damages));
	tcase_add_test(t, session_without_any_good_checkpoint_fails_and_says_so);
	tcase_add_test(t, without_its_hash_none_is_gone_on_from);
	tcase_add_test(t, a_damaged_step_does_not_reach_the_summary);
	tcase_add_test(t, other_spellings_of_the_same_state_are_not_damage);
	return world_main(s);
}
