/* SPDX-License-Identifier: MIT */
/* test_migrate.c: a checkpoint whose state is of another version: used, migrated, or refused. */
#include "support/fakes/operator_kit.h"

#define VERSION(v) "[capability work]\nstate_version = " v "\n"
#define MIGRATES VERSION("2.0") "migrate = /bin/migrate --all\n"
#define OLD_AT(step) \
	"{\"type\":\"checkpoint\",\"state\":{\"n\":1.10},\"step\":" step ",\"state_version\":\"1.4\"}"
#define OLD OLD_AT("\"s1\"")

static void setup(void)
{
	opkit_begin("");
}

/* A session with a checkpoint of version 1.4; then a run under another configuration. */
static void come_back(const char *more)
{
	opkit_say(world_start(&w, "m1", "work"), OLD);
	world_configure(&w, more);
	opkit_crash();
}

static struct worker *program(void)
{
	ck_assert_uint_ge(w.workers.count, 1);
	ck_assert_str_eq(w.workers.list[0]->argv[0], "/bin/migrate");
	return w.workers.list[0];
}

static const char *const fitting[] = {"", VERSION("1"), VERSION("1.4"), VERSION("1.10")};

START_TEST(state_of_the_same_major_or_without_version_is_used_as_it_is) /* proves CK-11 */
{
	come_back(fitting[_i]);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(
		fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":1.10},\"state_version\":\"1.4\"}"));
}
END_TEST

START_TEST(a_state_without_a_version_is_used_as_it_is)
{
	opkit_say(world_start(&w, "m1", "work"), CHECKPOINT("1"));
	world_configure(&w, VERSION("2.0"));
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

static const char *const unfit[] = {
	VERSION("2.0"), VERSION("10.4"), VERSION("11"), VERSION("1.3"), VERSION("1.0")};

START_TEST(another_major_is_refused_without_a_migration) /* proves CK-11 CK-09 */
{
	come_back(unfit[_i]);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"check\":\"state_version\""), 1);
	ck_assert_int_eq(world_said(&w, "has a state of version 1.4"), 1);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(another_major_goes_through_the_migration) /* proves CK-11 */
{
	struct worker *p;

	come_back(MIGRATES);
	p = program();
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(buf_text(&p->in), "{\"from\":\"1.4\",\"to\":\"2.0\",\"state\":{\"n\":1.10}}\n");
	ck_assert(p->stdin_closed);
	ck_assert_str_eq(fake_worker_env(p, "HCP_SESSION_ID"), world_id(&w, 1));
	fake_worker_say(p, "{ \"m\": [1.10] }");
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert(fake_worker_has_line(
		w.workers.list[1], "\"step\":\"s1\",\"state\":{\"m\":[1.10]},\"state_version\":\"2.0\"}"));
	ck_assert_int_eq(world_said(&w, "\"description\":\"migrated from version 1.4 to 2.0\""), 1);
	ck_assert_str_eq(
		world_text(&w, "SELECT trigger FROM checkpoints ORDER BY id DESC LIMIT 1", NULL), "migrate");
	opkit_crash(); /* and is done once */
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_check_stream(&w, 1);
}
END_TEST

#define CHAIN \
	VERSION("3.1") \
	"migrate.1-2 = /bin/migrate one\nmigrate.2-3.1 = /bin/migrate two\nmigrate.1-9 = /bin/migrate " \
	"astray\n"

START_TEST(steps_are_chained_by_source_and_target) /* proves CK-11 */
{
	struct worker *p;

	come_back(CHAIN);
	p = program();
	ck_assert_str_eq(p->argv[1], "one");
	ck_assert_str_eq(buf_text(&p->in), "{\"from\":\"1.4\",\"to\":\"2\",\"state\":{\"n\":1.10}}\n");
	fake_worker_say(p, "{\"two\":2}");
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	if (_i == 1) /* the first step is done once */
		opkit_crash();
	p = w.workers.list[w.workers.count - 1];
	ck_assert_str_eq(p->argv[1], "two");
	ck_assert_str_eq(buf_text(&p->in), "{\"from\":\"2\",\"to\":\"3.1\",\"state\":{\"two\":2}}\n");
	fake_worker_say(p, "{\"three\":3}");
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[w.workers.count - 1],
		"\"step\":\"s1\",\"state\":{\"three\":3},\"state_version\":\"3.1\"}"));
	ck_assert_int_eq(world_said(&w, "migrated from version 1.4 to 2\""), 1);
	ck_assert_int_eq(world_said(&w, "migrated from version 2 to 3.1\""), 1);
	ck_assert_uint_eq(w.core.slots.running, 1);
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(a_failed_step_fails_the_session)
{
	struct worker *p;

	come_back(CHAIN);
	fake_worker_say(program(), "{\"two\":2}");
	opkit_die(program(), 0);
	p = w.workers.list[1];
	opkit_die(p, 3);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "the state of version 2 could not be brought to 3.1"), 1);
}
END_TEST

START_TEST(without_a_way_the_steps_are_no_use) /* proves CK-11 */
{
	come_back(VERSION("3.1") "migrate.2-3.1 = /bin/migrate two\nmigrate.1-9 = /bin/migrate astray\n");
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "names no migrate command for it"), 1);
}
END_TEST

/* ---- a large answer ---- */

/* The program has answered with a large state, and is gone; the answer is not packed yet. */
static void answer_large(void)
{
	struct buf b = {0};
	struct worker *p;

	w.has_jobs = true;
	come_back(MIGRATES);
	p = program();
	w.jobs_are_slow = true;
	buf_addf(&b, "{\"m\":7,\"fill\":\"%070000d\"}", 0);
	fake_worker_say(p, buf_text(&b));
	buf_fini(&b);
	opkit_die(p, 0);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 1);
}

START_TEST(a_large_answer_is_waited_for)
{
	answer_large();
	w.jobs_are_slow = false;
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"m\":7,"));
	ck_assert_uint_eq(w.core.slots.running, 1);
}
END_TEST

START_TEST(an_abort_or_a_stop_meanwhile_counts)
{
	answer_large();
	if (_i == 0)
		world_abort(&w, world_id(&w, 1));
	else
		core_stop(&w.core);
	world_run(&w);
	w.jobs_are_slow = false;
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), _i == 0 ? "ABORTED" : "PAUSED");
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints", NULL), 1);
	ck_assert(_i == 0 || w.core.phase.is_done);
}
END_TEST

START_TEST(a_large_answer_that_is_dropped_by_a_crash_is_asked_for_again)
{
	answer_large();
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(program()->argv[0], "/bin/migrate");
}
END_TEST

static const char *const steps[] = {"\"s1\"", "7", "1.50", "null"};

START_TEST(migrated_checkpoint_keeps_its_step) /* proves CK-12 */
{
	static const char *const lines[] = {OLD_AT("\"s1\""), OLD_AT("7"), OLD_AT("1.50"), OLD_AT("null")};
	char wanted[64];

	opkit_say(world_start(&w, "m1", "work"), lines[_i]);
	world_configure(&w, MIGRATES);
	opkit_crash();
	fake_worker_say(program(), "{}");
	fake_worker_say(program(), ""); /* as nothing */
	opkit_die(program(), 0);
	snprintf(wanted, sizeof wanted, "\"step\":%s,\"state\":{},", steps[_i]);
	ck_assert(fake_worker_has_line(w.workers.list[1], wanted));
	ck_assert_str_eq(world_text(&w,
				 "SELECT coalesce(step, 'null') || (step IS NULL) FROM checkpoints ORDER BY "
				 "id DESC LIMIT 1",
				 NULL),
		((const char *[]){"\"s1\"0", "70", "1.500", "null1"})[_i]);
}
END_TEST

static void no_answer(struct worker *p)
{
	opkit_die(p, 0);
}
static void no_object(struct worker *p)
{
	fake_worker_say(p, "[1]");
	opkit_die(p, 0);
}
static void no_json(struct worker *p)
{
	fake_worker_say(p, "{\"n\":");
	opkit_die(p, 0);
}
static void raw_nul(struct worker *p) /* jansson steps over it */
{
	fake_worker_put(p, FAKE_OUT, "{\"n\":1\0}", 8, 0);
	opkit_die(p, 0);
}
static void bad_status(struct worker *p)
{
	fake_worker_say(p, "{}");
	opkit_die(p, 1 << 8);
}
static void two_lines(struct worker *p)
{
	fake_worker_say(p, "{}");
	fake_worker_say(p, "{\"n\":2}");
	opkit_die(p, 0);
}
static void talk_first(struct worker *p)
{
	fake_worker_say(p, "done:");
	fake_worker_say(p, "{}");
	opkit_die(p, 0);
}
static void too_long(struct worker *p)
{
	fake_worker_put(p, FAKE_TOO_LONG, "{\"n", 3, 0);
	fake_worker_say(p, "{}");
	opkit_die(p, 0);
}
static void too_late(struct worker *p)
{
	p->ignores_term = true;
	world_pass(&w, 61 * SECONDS);
}
static void (*const failures[])(struct worker *p) = {
	no_answer, no_object, no_json, raw_nul, bad_status, two_lines, talk_first, too_long, too_late};

START_TEST(a_migration_that_fails_fails_the_session_and_says_why) /* proves CK-11 */
{
	come_back(MIGRATES);
	fake_worker_put(program(), FAKE_ERR, "no rule for n", 13, 0);
	failures[_i](program());
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"migration_failed\""), 1);
	ck_assert_int_eq(world_said(&w, "\"stderr\":\"no rule for n\\n\""), 1);
	ck_assert(program()->is_gone);
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(an_abort_ends_the_migration_first)
{
	come_back(MIGRATES);
	program()->is_immortal = true;
	world_abort(&w, world_id(&w, 1));
	world_pass(&w, 5 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "ABORTING"); /* nothing outlives its session */
	program()->is_immortal = false;
	world_pass(&w, 5 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
	ck_assert(program()->is_gone);
}
END_TEST

START_TEST(its_deadline_ends_the_migration)
{
	opkit_say(world_start(&w, "m1", "brief"), OLD);
	world_configure(&w, "[capability brief]\nstate_version = 2.0\nmigrate = /bin/migrate\n");
	opkit_crash();
	world_pass(&w, 20 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
	ck_assert(program()->is_gone);
}
END_TEST

START_TEST(a_stop_or_a_crash_repeats_it)
{
	come_back(MIGRATES);
	opkit_restart();
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_crash();
	fake_worker_say(program(), "{\"m\":1}");
	opkit_die(program(), 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(an_operator_waits_until_it_is_done)
{
	come_back(MIGRATES);
	opkit_refused(opkit_ask(OP_RECOVER, 1, "discard"), "not_now", "migrated");
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(a_program_that_cannot_be_started_fails_the_session)
{
	opkit_say(world_start(&w, "m1", "work"), OLD);
	world_configure(&w, MIGRATES);
	world_end(&w, true);
	world_begin(&w);
	w.workers.fail_errno = ENOENT;
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"reason\":\"migration_failed\""), 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("migrate");
	TCase *t = tcase_create("migrate");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_loop_test(t, state_of_the_same_major_or_without_version_is_used_as_it_is, 0,
		(int)(sizeof fitting / sizeof *fitting));
	tcase_add_test(t, a_state_without_a_version_is_used_as_it_is);
	tcase_add_loop_test(t, steps_are_chained_by_source_and_target, 0, 2);
	tcase_add_test(t, a_failed_step_fails_the_session);
	tcase_add_test(t, without_a_way_the_steps_are_no_use);
	tcase_add_loop_test(
		t, another_major_is_refused_without_a_migration, 0, (int)(sizeof unfit / sizeof *unfit));
	tcase_add_test(t, another_major_goes_through_the_migration);
	tcase_add_test(t, a_large_answer_is_waited_for);
	tcase_add_loop_test(t, an_abort_or_a_stop_meanwhile_counts, 0, 2);
	tcase_add_test(t, a_large_answer_that_is_dropped_by_a_crash_is_asked_for_again);
	tcase_add_loop_test(t, migrated_checkpoint_keeps_its_step, 0, (int)(sizeof steps / sizeof *steps));
	tcase_add_loop_test(t, a_migration_that_fails_fails_the_session_and_says_why, 0,
		(int)(sizeof failures / sizeof *failures));
	tcase_add_test(t, an_abort_ends_the_migration_first);
	tcase_add_test(t, its_deadline_ends_the_migration);
	tcase_add_test(t, a_stop_or_a_crash_repeats_it);
	tcase_add_test(t, an_operator_waits_until_it_is_done);
	tcase_add_test(t, a_program_that_cannot_be_started_fails_the_session);
	suite_add_tcase(s, t);
	return world_main(s);
}
