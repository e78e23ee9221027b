/* SPDX-License-Identifier: MIT */
/* test_replay.c: what a session once said, said again for an operator: the same bytes, in order, and the live
 * stream goes on as if nothing had happened. */
#include "support/fakes/fake_world.h"

#include "support/fakes/fake_operators.h"

static struct world w;
static struct op_queue operators;
static size_t before; /* what was published before the replay */

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
}

static void teardown(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
}

static void progress(struct worker *p, int count)
{
	char line[128];

	for (int i = 1; i <= count; i++) {
		snprintf(
			line, sizeof line, "{\"type\":\"progress\",\"stage\":\"s\",\"message\":\"n=%d\"}", i);
		fake_worker_say(p, line);
	}
	world_run(&w);
}

static void complete(struct worker *p)
{
	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
}

/* How many messages it says that it will send. */
static int replay(int key, int64_t from)
{
	struct op_request *a = fake_operators_ask(&operators, OP_REPLAY, world_id(&w, key));
	const char *count;

	a->from = from;
	before = world_sent_count(&w);
	core_on_requests(&w.core);
	core_end_turn(&w.core);
	ck_assert_msg(
		operators.answered == a && a->code == NULL, "%s", a->code != NULL ? a->message : "no answer");
	count = strstr(buf_text(&a->done), "\"messages\":");
	ck_assert(count != NULL);
	return atoi(count + strlen("\"messages\":"));
}

/* The rows of the session from `from` on, in order, are what was sent from `first` on; the rest may be
 * others'. */
static void expect_rows(int key, int64_t from, size_t first, int count)
{
	char sql[300];

	for (int i = 0; i < count; i++) {
		const struct fake_sent *s = world_sent(&w, first + (size_t)i);

		snprintf(sql, sizeof sql,
			"SELECT body FROM events WHERE session = %d AND (id >= (SELECT id FROM events WHERE"
			" session = %d AND sequence = %lld) OR %lld = 1) ORDER BY id LIMIT 1 OFFSET %d",
			key, key, (long long)from, (long long)from, i);
		ck_assert_uint_lt(first + (size_t)i, world_sent_count(&w));
		ck_assert_str_eq(s->body, world_text(&w, sql, NULL));
		ck_assert_uint_eq(s->size, strlen(s->body));
	}
}

START_TEST(replay_of_an_ended_session_is_byte_for_byte_and_in_order) /* proves L2-17 */
{
	struct worker *p = world_start(&w, "m1", "work");
	int64_t confirmed;

	progress(p, 300);
	complete(p);
	world_pass(&w, 1 * SECONDS);
	confirmed = world_count(&w, "SELECT confirmed FROM callers", NULL);
	ck_assert_int_eq(replay(1, 1), 306);
	world_run(&w);
	ck_assert_uint_eq(world_sent_count(&w), before + 306);
	expect_rows(1, 1, before, 306);
	for (size_t i = before; i < world_sent_count(&w); i++) {
		ck_assert_str_eq(world_sent(&w, i)->message_id, world_sent(&w, i - before)->message_id);
		ck_assert_str_eq(world_sent(&w, i)->key, world_sent(&w, i - before)->key);
		ck_assert_str_eq(
			world_sent(&w, i)->correlation_id, world_sent(&w, i - before)->correlation_id);
		ck_assert_int_eq(world_sent(&w, i)->timestamp_s, world_sent(&w, i - before)->timestamp_s);
	}
	world_pass(&w, 60 * SECONDS);
	ck_assert_uint_eq(world_sent_count(&w), before + 306);
	ck_assert_int_eq(world_count(&w, "SELECT confirmed FROM callers", NULL), confirmed);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events", NULL), 306);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(replay_begins_at_the_sequence_that_is_named) /* proves L2-17 */
{
	struct worker *p = world_start(&w, "m1", "work");
	static const struct {
		int64_t from;
		int count;
	} cases[] = {{2, 14}, {7, 9}, {13, 3}, {14, 1}, {15, 0}, {999, 0}};

	progress(p, 10);
	complete(p); /* accepted, 1 created, 2 RUNNING, 3-12, 13 COMPLETED, task_completed, 14 closed */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		ck_assert_int_eq(replay(1, cases[i].from), cases[i].count);
		world_run(&w);
		ck_assert_uint_eq(world_sent_count(&w), before + (size_t)cases[i].count);
		expect_rows(1, cases[i].from, before, cases[i].count);
	}
}
END_TEST

START_TEST(live_messages_go_before_a_replay_with_confirms_of_their_own) /* proves L2-17 */
{
	struct worker *p = world_start(&w, "m1", "work");
	int64_t confirmed;

	world_pass(&w, 1 * SECONDS);
	w.broker_is_slow = true;
	progress(p, 20);
	confirmed = world_count(&w, "SELECT confirmed FROM callers", NULL);
	ck_assert_int_eq(replay(1, 1), 23);
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_eq(world_sent_count(&w), before); /* all of it is in flight, not one again */
	fake_bus_settle_at(&w.bus, 0, BUS_CONFIRMED);
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_eq(world_sent_count(&w), before);
	ck_assert_int_eq(world_count(&w, "SELECT confirmed FROM callers", NULL), confirmed + 1);
	w.broker_is_slow = false;
	world_run(&w);
	ck_assert_uint_eq(world_sent_count(&w), before + 23);
	expect_rows(1, 1, before, 23);
	complete(p);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(live_messages_do_not_wait_for_an_unconfirmed_replay)
{
	struct worker *p = world_start(&w, "m1", "work");

	progress(p, 200);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	ck_assert_uint_gt(world_sent_count(&w), before);
	before = world_sent_count(&w);
	complete(p);
	ck_assert_uint_eq(world_sent_count(&w), before + 3);
	w.broker_is_slow = false;
	world_run(&w);
	ck_assert(world_check_stream(&w, 1).closed);
	ck_assert_int_eq(world_said(&w, "\"n=200\""), 1);
}
END_TEST

START_TEST(new_messages_go_before_replayed_ones)
{
	struct worker *p;

	world_fini(&w);
	world_init(&w, "[amqp]\nwindow_messages = 8\n");
	world_begin(&w);
	w.core.operator.queue = & operators;
	p = world_start(&w, "m1", "work");
	progress(p, 40);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	ck_assert_uint_eq(w.bus.flight_count, 8); /* and more of it waits */
	complete(p);
	before = world_sent_count(&w);
	fake_bus_settle_all(&w.bus, BUS_CONFIRMED);
	world_run(&w);
	ck_assert(strstr(world_sent(&w, before)->body, "\"to_state\":\"COMPLETED\"") != NULL);
	ck_assert_str_eq(world_sent(&w, before + 1)->type, "task_completed");
	ck_assert(strstr(world_sent(&w, before + 2)->body, "session_closed") != NULL);
	w.broker_is_slow = false;
	world_run(&w);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(replay_without_a_queue_is_given_up_and_changes_nothing) /* proves L2-17 */
{
	struct worker *p = world_start(&w, "m1", "work");
	uint64_t unroutable = w.core.stats.unroutable;

	progress(p, 200);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	ck_assert_uint_gt(w.bus.flight_count, 0);
	while (w.bus.flushed > 0) {
		fake_bus_settle_all(&w.bus, BUS_UNROUTABLE);
		world_run(&w);
	}
	ck_assert_uint_lt(world_sent_count(&w), before + 203);
	before = world_sent_count(&w);
	world_pass(&w, 300 * SECONDS);
	ck_assert_uint_eq(world_sent_count(&w), before);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM unroutable", NULL), 0);
	ck_assert_uint_eq(w.core.stats.unroutable, unroutable);
	w.broker_is_slow = false;
	ck_assert_int_eq(replay(1, 1), 203);
	world_run(&w);
	expect_rows(1, 1, before, 203);
	complete(p);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(a_refused_replay_is_given_up_and_the_row_stays_what_it_is)
{
	struct worker *p = world_start(&w, "m1", "work");

	progress(p, 5);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	for (int i = 0; i < 12; i++) { /* each alone, once the channel was closed */
		fake_bus_down(&w.bus, 406);
		fake_bus_up(&w.bus);
		world_pass(&w, 2 * SECONDS);
	}
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE substitute IS NOT NULL", NULL), 0);
	ck_assert_uint_eq(w.bus.flight_count, 0);
	w.broker_is_slow = false;
	complete(p);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(replay_goes_on_after_an_outage_and_is_lost_in_a_crash)
{
	struct worker *p = world_start(&w, "m1", "work");

	progress(p, 100);
	complete(p);
	world_pass(&w, 1 * SECONDS);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	fake_bus_down(&w.bus, 0);
	world_pass(&w, 10 * SECONDS);
	w.broker_is_slow = false;
	fake_bus_up(&w.bus);
	world_run(&w);
	ck_assert_uint_ge(world_sent_count(&w), before + 106);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	w.broker_is_slow = false;
	world_crash(&w);
	w.core.operator.queue = & operators;
	before = world_sent_count(&w);
	world_pass(&w, 60 * SECONDS);
	ck_assert_uint_eq(world_sent_count(&w), before);
}
END_TEST

START_TEST(a_nacked_replay_goes_on_one_at_a_time_in_order)
{
	struct worker *p = world_start(&w, "m1", "work");

	progress(p, 10);
	complete(p);
	world_pass(&w, 1 * SECONDS);
	w.broker_is_slow = true;
	replay(1, 1);
	world_run(&w);
	fake_bus_settle_all(&w.bus, BUS_NACKED);
	world_run(&w);
	before = world_sent_count(&w);
	w.broker_is_slow = false;
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_eq(world_sent_count(&w), before + 16);
	expect_rows(1, 1, before, 16);
}
END_TEST

START_TEST(sixteen_replays_wait_for_one_caller_and_no_more)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_request *a;

	progress(p, 3);
	w.broker_is_slow = true;
	for (int i = 0; i < 16; i++)
		replay(1, 1);
	a = fake_operators_ask(&operators, OP_REPLAY, world_id(&w, 1));
	core_on_requests(&w.core);
	core_end_turn(&w.core);
	ck_assert_str_eq(a->code, "unavailable");
	w.broker_is_slow = false;
	before = world_sent_count(&w);
	world_run(&w);
	ck_assert_uint_le(world_sent_count(&w), before + 16 * 6);
	ck_assert_uint_ge(world_sent_count(&w), before + 15 * 6);
	replay(1, 1);
	complete(p);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(replay_behind_a_commit_that_was_refused_comes_second) /* proves L2-17 */
{
	struct op_request *a;

	fake_disk_refuse(EIO);
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	a = fake_operators_ask(&operators, OP_REPLAY, session_find_key(&w.core, 1)->id);
	a->from = 2;
	fake_disk_mend();
	w.broker_is_slow = true;
	world_pass(&w, 1 * SECONDS);
	ck_assert(operators.answered == a && a->code == NULL);
	ck_assert_uint_eq(world_sent_count(&w), 3); /* it waits until these are confirmed */
	w.broker_is_slow = false;
	world_run(&w);
	ck_assert_uint_eq(world_sent_count(&w), 4);
	expect_rows(1, 1, 0, 3);
	expect_rows(1, 2, 3, 1);
	complete(w.workers.list[0]);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("replay");
	TCase *t = tcase_create("replay");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, replay_of_an_ended_session_is_byte_for_byte_and_in_order);
	tcase_add_test(t, replay_begins_at_the_sequence_that_is_named);
	tcase_add_test(t, live_messages_go_before_a_replay_with_confirms_of_their_own);
	tcase_add_test(t, live_messages_do_not_wait_for_an_unconfirmed_replay);
	tcase_add_test(t, new_messages_go_before_replayed_ones);
	tcase_add_test(t, replay_without_a_queue_is_given_up_and_changes_nothing);
	tcase_add_test(t, a_refused_replay_is_given_up_and_the_row_stays_what_it_is);
	tcase_add_test(t, replay_goes_on_after_an_outage_and_is_lost_in_a_crash);
	tcase_add_test(t, a_nacked_replay_goes_on_one_at_a_time_in_order);
	tcase_add_test(t, sixteen_replays_wait_for_one_caller_and_no_more);
	tcase_add_test(t, replay_behind_a_commit_that_was_refused_comes_second);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return world_main(suite());
}
