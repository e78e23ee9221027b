/* SPDX-License-Identifier: MIT */
/* test_checkpoint_request.c: when a worker is asked for a checkpoint, what is noted of the one that comes,
 * and that a worker that never makes one is left alone. */
#include "support/fakes/fake_world.h"

#include "support/fakes/fake_operators.h"

static struct world w;
static struct op_queue operators;
static struct worker *p;

#define STEP "{\"type\":\"step\",\"name\":\"next\"}"
#define CHECKPOINT \
	"{\"type\":\"checkpoint\",\"description\":\"so far\",\"step\":\"five\",\"state\":{\"n\":1}}"
#define ASKED(reason) "{\"type\":\"checkpoint_request\",\"reason\":\"" reason "\"}"
#define LAST_TRIGGER "SELECT trigger FROM checkpoints ORDER BY id DESC LIMIT 1"
#define MINUTES (60 * SECONDS)

static void begin(const char *more)
{
	world_init(&w, more);
	world_begin(&w);
	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
}

static void start(const char *capability)
{
	p = world_start(&w, "m1", capability);
}

static void teardown(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
}

static void say(const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

static void say_steps(int count)
{
	for (int i = 0; i < count; i++)
		say(STEP);
}

/* How often was it told that, or asked at all? */
static int times(const char *needle)
{
	int count = 0;

	for (const char *at = buf_text(&p->in); (at = strstr(at, needle)) != NULL; at++)
		count++;
	return count;
}

static int asked(void)
{
	return times("\"checkpoint_request\"");
}

static void operate(enum op_verb verb)
{
	fake_operators_ask(&operators, verb, world_id(&w, 1));
	core_on_requests(&w.core);
	world_run(&w);
}

static const struct op_live *live(void)
{
	struct op_request *a = fake_operators_ask(&operators, OP_LIVE, world_id(&w, 1));

	core_on_requests(&w.core);
	world_run(&w);
	ck_assert(a->has_live);
	return &a->live;
}

/* ---- steps ---- */

START_TEST(after_five_steps_without_a_checkpoint_one_is_asked_for) /* proves CK-01 CK-12 */
{
	begin("");
	start("work");
	say_steps(4);
	ck_assert_int_eq(asked(), 0);
	say(STEP);
	ck_assert_int_eq(times(ASKED("steps")), 1);
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "steps");
	ck_assert_str_eq(
		world_text(&w, "SELECT step || description FROM checkpoints", NULL), "\"five\"so far");
	say_steps(4);
	ck_assert_int_eq(asked(), 1);
	say(STEP);
	ck_assert_int_eq(times(ASKED("steps")), 2);
}
END_TEST

START_TEST(a_checkpoint_of_its_own_is_the_workers_and_counts) /* proves CK-01 CK-12 */
{
	begin("");
	start("work");
	for (int i = 0; i < 4; i++) {
		say_steps(4);
		say(CHECKPOINT);
	}
	ck_assert_int_eq(asked(), 0);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM checkpoints WHERE trigger = 'worker'", NULL), 3);
}
END_TEST

START_TEST(many_steps_at_once_ask_once)
{
	begin("");
	start("work");
	say_steps(100);
	ck_assert_int_eq(asked(), 1);
	ck_assert_str_eq(live()->asked, "checkpoint");
	ck_assert_uint_eq(live()->unanswered, 0);
}
END_TEST

START_TEST(how_many_steps_is_the_capabilitys_to_say) /* proves CK-01 */
{
	begin(_i == 0 ? "[capability work]\ncheckpoint_steps = 0\n" :
			"[capability work]\ncheckpoint_steps = 2\n");
	start("work");
	say_steps(_i == 0 ? 50 : 2);
	ck_assert_int_eq(asked(), _i);
}
END_TEST

/* ---- time ---- */

START_TEST(after_ten_minutes_without_a_checkpoint_one_is_asked_for) /* proves CK-01 CK-12 */
{
	begin("");
	start("work");
	world_pass(&w, 6 * MINUTES);
	say(CHECKPOINT);
	world_pass(&w, 9 * MINUTES);
	ck_assert_int_eq(asked(), 0);
	world_pass(&w, 1 * MINUTES);
	ck_assert_int_eq(times(ASKED("interval")), 1);
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "interval");
	world_pass(&w, 10 * MINUTES);
	ck_assert_int_eq(times(ASKED("interval")), 2);
}
END_TEST

START_TEST(the_interval_is_the_capabilitys_to_say) /* proves CK-01 */
{
	begin(_i == 0 ? "[capability work]\ncheckpoint_interval = 0\n" :
			"[capability work]\ncheckpoint_interval = 2s\n");
	start("work");
	world_pass(&w, _i == 0 ? 50 * MINUTES : 2 * SECONDS);
	ck_assert_int_eq(asked(), _i);
}
END_TEST

START_TEST(paused_session_is_not_asked_for_a_checkpoint)
{
	begin("[capability work]\ncheckpoint_interval = 10s\n");
	start("work");
	say("{\"type\":\"paused\"}");
	world_pass(&w, 5 * MINUTES);
	ck_assert_int_eq(asked(), 0);
	say("{\"type\":\"resumed\"}");
	world_pass(&w, 10 * SECONDS);
	ck_assert_int_eq(times(ASKED("interval")), 1);
}
END_TEST

/* ---- by the rate of change ---- */

/* A state of 2 KiB of which all, or nothing, is new. */
static void say_state(uint32_t seed)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"type\":\"checkpoint\",\"state\":{\"text\":\"");
	for (int i = 0; i < 256; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 17;
		seed ^= seed << 5;
		buf_addf(&b, "%08x", seed);
	}
	buf_add_text(&b, "\"}}");
	say(buf_text(&b));
	buf_fini(&b);
}

/* How long after its last checkpoint it is asked, in seconds. */
static int wait_for_request(void)
{
	int before = asked(), seconds = 0;

	while (asked() == before && seconds < 1000) {
		world_pass(&w, 1 * SECONDS);
		seconds++;
	}
	return seconds;
}

#define ADAPTIVE "[capability work]\ncheckpoint_interval = 16s\ncheckpoint_adaptive = yes\n"

START_TEST(the_interval_shrinks_to_an_eighth_while_states_change_much) /* proves CK-01 */
{
	static const int seconds[] = {16, 8, 4, 2, 2, 2};

	begin(ADAPTIVE);
	start("work");
	for (uint32_t i = 0; i < 6; i++) {
		say_state(i + 1);
		ck_assert_int_eq(wait_for_request(), seconds[i]);
	}
	ck_assert_int_eq(times(ASKED("interval")), 1);
	ck_assert_int_eq(times(ASKED("adaptive")), 5);
	say_state(99);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "adaptive");
}
END_TEST

START_TEST(the_interval_never_shrinks_below_a_second)
{
	static const int ms[] = {3000, 1500, 1000, 1000, 1000};

	begin("[capability work]\ncheckpoint_interval = 3s\ncheckpoint_adaptive = yes\n");
	start("work");
	for (uint32_t i = 0; i < 5; i++) {
		int before = asked(), waited = 0;

		say_state(i + 1);
		for (; asked() == before && waited < 10000; waited += 100)
			world_pass(&w, SECONDS / 10);
		ck_assert_int_eq(waited, ms[i]);
	}
}
END_TEST

START_TEST(the_interval_grows_to_four_times_while_states_hardly_change) /* proves CK-01 */
{
	static const int seconds[] = {16, 32, 64, 64, 64};

	begin(ADAPTIVE);
	start("work");
	for (int i = 0; i < 5; i++) {
		say_state(1);
		ck_assert_int_eq(wait_for_request(), seconds[i]);
	}
	say_state(2);
	ck_assert_int_eq(wait_for_request(), 32);
}
END_TEST

START_TEST(an_interval_that_is_not_adaptive_stays_as_it_is)
{
	begin("[capability work]\ncheckpoint_interval = 16s\n");
	start("work");
	for (uint32_t i = 0; i < 4; i++) {
		say_state(i + 1);
		ck_assert_int_eq(wait_for_request(), 16);
	}
	ck_assert_int_eq(times(ASKED("interval")), 4);
}
END_TEST

/* ---- by somebody ---- */

START_TEST(an_operators_request_is_noted_on_the_checkpoint) /* proves CK-01 CK-12 */
{
	begin("");
	start("work");
	operate(OP_CHECKPOINT);
	ck_assert_int_eq(times(ASKED("operator")), 1);
	operate(OP_CHECKPOINT);
	ck_assert_int_eq(asked(), 1); /* under way */
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "operator");
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "worker");
}
END_TEST

START_TEST(an_operator_is_heard_also_where_a_request_of_ours_is_out)
{
	begin("");
	start("work");
	say_steps(5);
	operate(OP_CHECKPOINT);
	ck_assert_int_eq(times(ASKED("operator")), 1);
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "operator");
}
END_TEST

START_TEST(a_pause_asks_for_a_checkpoint_first) /* proves CK-01 CK-12 */
{
	const char *request, *pause;

	begin("");
	start("work");
	operate(OP_PAUSE);
	request = strstr(buf_text(&p->in), ASKED("pause"));
	pause = strstr(buf_text(&p->in), "{\"type\":\"pause\"");
	ck_assert(request != NULL && pause != NULL && request < pause);
	say(CHECKPOINT);
	say("{\"type\":\"paused\"}");
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "pause");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
}
END_TEST

START_TEST(worker_that_pauses_without_a_checkpoint_owes_nothing)
{
	begin("");
	start("work");
	operate(OP_PAUSE);
	say("{\"type\":\"paused\"}");
	ck_assert(live()->asked == NULL);
	world_pass(&w, 30 * MINUTES);
	ck_assert_uint_eq(live()->unanswered, 0);
	ck_assert_int_eq(asked(), 1);
}
END_TEST

START_TEST(a_request_for_a_pause_is_over_with_it)
{
	begin("");
	start("work");
	operate(OP_PAUSE);
	say("{\"type\":\"paused\"}");
	operate(OP_RESUME);
	say("{\"type\":\"resumed\"}");
	ck_assert(live()->asked == NULL);
	say_steps(5);
	ck_assert_int_eq(times(ASKED("steps")), 1);
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "steps");
}
END_TEST

START_TEST(a_stop_asks_for_a_checkpoint_first) /* proves CK-01 CK-12 */
{
	begin("");
	start("work");
	say_steps(5); /* one is out already */
	core_stop(&w.core);
	world_run(&w);
	ck_assert_int_eq(times(ASKED("stopping")), 1);
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "stop");
}
END_TEST

/* ---- answers that do not come ---- */

START_TEST(a_worker_that_does_not_answer_twice_is_asked_no_more) /* proves CK-01 */
{
	begin("");
	start("work");
	say_steps(5);
	world_pass(&w, 61 * SECONDS);
	ck_assert_uint_eq(live()->unanswered, 1);
	ck_assert_int_eq(asked(), 1);
	say_steps(5);
	ck_assert_int_eq(asked(), 2);
	world_pass(&w, 61 * SECONDS);
	ck_assert_uint_eq(live()->unanswered, 2);
	say_steps(50);
	world_pass(&w, 40 * MINUTES);
	ck_assert_int_eq(asked(), 2);
	ck_assert_str_eq(live()->asked, "checkpoint");
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"warning\""), 0);
}
END_TEST

START_TEST(unanswered_requests_stop_and_cost_no_timer)
{
	begin("[capability work]\ncheckpoint_interval = 1s\n");
	start("work");
	world_pass(&w, 10 * SECONDS);
	ck_assert_int_eq(asked(), 2);
	ck_assert(!timer_is_set(&w.core.by_key->checkpoint.request.timer));
}
END_TEST

START_TEST(worker_that_answers_at_last_is_asked_again)
{
	begin("[capability work]\ncheckpoint_interval = 1s\n");
	start("work");
	world_pass(&w, 10 * SECONDS);
	say(CHECKPOINT);
	ck_assert_str_eq(world_text(&w, LAST_TRIGGER, NULL), "interval");
	ck_assert_uint_eq(live()->unanswered, 0);
	world_pass(&w, 1 * SECONDS);
	ck_assert_int_eq(asked(), 3);
}
END_TEST

START_TEST(an_operator_and_a_stop_are_heard_also_then)
{
	begin("[capability work]\ncheckpoint_interval = 1s\n");
	start("work");
	world_pass(&w, 10 * SECONDS);
	operate(OP_CHECKPOINT);
	ck_assert_int_eq(times(ASKED("operator")), 1);
	core_stop(&w.core);
	world_run(&w);
	ck_assert_int_eq(times(ASKED("stopping")), 1);
}
END_TEST

START_TEST(worker_that_does_not_read_is_not_asked)
{
	struct buf b = {0};

	begin("[capability work]\ncheckpoint_interval = 1s\n");
	start("work");
	p->is_deaf = true;
	buf_add_text(&b, "{\"type\":\"checkpoint\",\"ref\":\"");
	while (b.size < RUN_UNWRITTEN_MAX)
		buf_add_text(&b, "xxxxxxxxxxxxxxxx");
	buf_add_text(&b, "\"}");
	say(buf_text(&b)); /* its ref comes back to it */
	buf_fini(&b);
	world_pass(&w, 10 * SECONDS);
	ck_assert_int_eq(asked(), 0);
}
END_TEST

START_TEST(a_text_worker_is_never_asked)
{
	begin("[capability plain]\ncheckpoint_interval = 1s\n");
	start("plain");
	say_steps(20);
	world_pass(&w, 10 * SECONDS);
	ck_assert_int_eq((int)p->in.size, 0);
	ck_assert(!timer_is_set(&w.core.by_key->checkpoint.request.timer));
}
END_TEST

START_TEST(session_that_is_over_is_not_asked)
{
	begin("[capability work]\ncheckpoint_interval = 1s\n");
	start("work");
	p->ignores_term = true;
	say("{\"type\":\"completed\",\"outputs\":{}}");
	say_steps(20);
	world_pass(&w, 3 * SECONDS);
	ck_assert_int_eq(asked(), 0);
}
END_TEST

/* ---- what is stored with it ---- */

START_TEST(the_version_of_its_state_is_stored)
{
	begin("");
	start("work");
	say("{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"2.1\"}");
	ck_assert_str_eq(world_text(&w, "SELECT state_version FROM checkpoints", NULL), "2.1");
	say("{\"type\":\"checkpoint\",\"state\":{},\"state_version\":2.1}");
	ck_assert_int_eq(world_said(&w, "state_version of a checkpoint line is not a string"), 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("checkpoint_trigger");
	TCase *t = tcase_create("checkpoint_trigger");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_test(t, after_five_steps_without_a_checkpoint_one_is_asked_for);
	tcase_add_test(t, a_checkpoint_of_its_own_is_the_workers_and_counts);
	tcase_add_test(t, many_steps_at_once_ask_once);
	tcase_add_loop_test(t, how_many_steps_is_the_capabilitys_to_say, 0, 2);
	tcase_add_test(t, after_ten_minutes_without_a_checkpoint_one_is_asked_for);
	tcase_add_loop_test(t, the_interval_is_the_capabilitys_to_say, 0, 2);
	tcase_add_test(t, paused_session_is_not_asked_for_a_checkpoint);
	tcase_add_test(t, the_interval_shrinks_to_an_eighth_while_states_change_much);
	tcase_add_test(t, the_interval_never_shrinks_below_a_second);
	tcase_add_test(t, the_interval_grows_to_four_times_while_states_hardly_change);
	tcase_add_test(t, an_interval_that_is_not_adaptive_stays_as_it_is);
	tcase_add_test(t, an_operators_request_is_noted_on_the_checkpoint);
	tcase_add_test(t, an_operator_is_heard_also_where_a_request_of_ours_is_out);
	tcase_add_test(t, a_pause_asks_for_a_checkpoint_first);
	tcase_add_test(t, worker_that_pauses_without_a_checkpoint_owes_nothing);
	tcase_add_test(t, a_request_for_a_pause_is_over_with_it);
	tcase_add_test(t, a_stop_asks_for_a_checkpoint_first);
	tcase_add_test(t, a_worker_that_does_not_answer_twice_is_asked_no_more);
	tcase_add_test(t, unanswered_requests_stop_and_cost_no_timer);
	tcase_add_test(t, worker_that_answers_at_last_is_asked_again);
	tcase_add_test(t, an_operator_and_a_stop_are_heard_also_then);
	tcase_add_test(t, worker_that_does_not_read_is_not_asked);
	tcase_add_test(t, a_text_worker_is_never_asked);
	tcase_add_test(t, session_that_is_over_is_not_asked);
	tcase_add_test(t, the_version_of_its_state_is_stored);
	return world_main(s);
}
