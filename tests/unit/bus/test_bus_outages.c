/* SPDX-License-Identifier: MIT */
/* test_bus_outages.c: the bus when the way to the broker stalls, goes silent, is cut or refused, and the
 * way back. Through a proxy before the real broker. */
#include "support/bus_suite.h"

#include <sys/resource.h>

#include "amqp/connection.h"

/* --- stalls and silence --- */

START_TEST(publish_that_stalls_is_broken_while_commands_and_acks_go_on) /* proves L1-22 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_proxy *x = bus_proxy_start(bus_config);
	size_t size = 100000;
	char *body = calloc(1, size);
	struct bus_out *o = bus_kit_outs_new(400, "a", body, size); /* more than any socket buffers */
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait_up(c);
	c->auto_ack = true;
	x->deaf[ROLE_PUB] = true;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(
		c, bus_user_health(c).pub_progress_age_us > SECOND, 10); /* inside the library, for good */
	ck_assert(bus_user_health(c).pub_up);
	for (int i = 0; i < 300; i++)
		bus_client_command(k, "x", 1);
	/* three times prefetch: so the acks went out */
	bus_user_wait(c, c->count[BUS_DELIVERY] == 300, 10);
	ck_assert_int_lt(bus_user_health(c).sub_progress_age_us, SECOND);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	bus_drop_pub(c->bus, "no progress");
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1, 2);
	ck_assert_int_eq(c->status[BUS_LOST], 400);
	ck_assert_str_eq(bus_user_find(c, BUS_PUB_DOWN, 0)->text, "dropped: no progress");
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 0);
	x->deaf[ROLE_PUB] = false;
	bus_user_wait(c, c->count[BUS_PUB_UP] == 2, 10);
	bus_user_stop(c);
	bus_proxy_stop(x);
	bus_client_close(k);
	free(o);
	free(body);
}
END_TEST

START_TEST(a_stalled_consumer_can_be_dropped_too)
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait_up(c);
	x->mute[ROLE_SUB] = true;
	bus_drop_sub(c->bus, "the test says so");
	bus_user_wait(c, c->count[BUS_SUB_DOWN] == 1, 2);
	x->mute[ROLE_SUB] = false;
	bus_user_wait(c, c->count[BUS_SUB_UP] == 2, 10);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	bus_user_stop(c);
	bus_proxy_stop(x);
}
END_TEST

/* What amqp_basic_publish of librabbitmq 0.11 does not survive: the deadline for the peer's heartbeat passes,
 * nobody serves the connection, then a publish. */
START_TEST(a_publish_after_the_heartbeat_deadline_comes_back) /* proves L1-09 */
{
	struct bus_proxy *x;
	struct connection *l;
	struct connection_error e;
	struct connection_spec spec = {.amqp = &bus_config->amqp, .name = "x pub", .max_body = 1000};
	struct connection_message m = {.exchange = "hcp.events",
		.key = "k",
		.message_id = "m",
		.type = "event",
		.body = "{}",
		.size = 2};
	struct frames_event *ev;
	int64_t began_us;
	int rc;

	x = bus_proxy_start(bus_config);
	bus_config->amqp.heartbeat_s = 1;
	l = connection_open(&spec, &e);
	ck_assert_msg(l != NULL, "%s", e.text);
	ck_assert_int_eq(connection_heartbeat_s(l), 1);
	ck_assert_int_eq(connection_declare_exchange(l, "hcp.events", "topic", &e), 0);
	x->mute[ROLE_PUB] = true;
	/* the deadline is the condition */
	for (began_us = clock_boot_us(); clock_boot_us() - began_us < 3 * SECOND;)
		poll(NULL, 0, 100);
	/* with the fault this never returns, and the test times out */
	rc = connection_publish(l, &m, &e);
	ck_assert(rc == 0 || e.text[0]);
	do
		rc = connection_next(l, &ev, &e);
	while (rc > 0);
	ck_assert_int_eq(rc, -1);
	/* The broker misses our heartbeats as well, and may be the first to close. */
	ck_assert_msg(strstr(e.text, "heartbeat") || strstr(e.text, "closed unexpectedly"), "%s", e.text);
	connection_free(l);
	bus_proxy_stop(x);
}
END_TEST

START_TEST(a_silent_broker_is_noticed_by_its_heartbeat) /* proves L1-09 */
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_user *c;
	int64_t began_us;

	bus_config->amqp.heartbeat_s = 1;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	began_us = clock_boot_us();
	x->mute[ROLE_PUB] = x->mute[ROLE_SUB] = true;
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 5);
	ck_assert_int_gt(clock_boot_us() - began_us, SECOND);
	bus_user_stop(c);
	bus_proxy_stop(x);
}
END_TEST

/* Each wake-up that hands something over skips the read from a socket that shows nothing: not for ever. */
START_TEST(a_broker_falling_silent_while_messages_go_out_is_noticed) /* proves L1-09 */
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_out *o = bus_kit_outs_new(10000, "a", "{}", 2);
	struct bus_user *c;
	size_t n = 0;

	bus_config->amqp.heartbeat_s = 1;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	x->mute[ROLE_PUB] = true;
	for (int64_t end_us = clock_boot_us() + 10 * SECOND; c->count[BUS_PUB_DOWN] == 0; n++) {
		ck_assert(clock_boot_us() < end_us && n < 10000);
		o[n].next = NULL;
		bus_publish(c->bus, &o[n]);
		bus_flush(c->bus);
		bus_user_doze(c, 5);
		bus_user_take(c);
	}
	bus_user_wait(c, c->settled_count == n, 10); /* each came back */
	bus_user_stop(c);
	bus_proxy_stop(x);
	free(o);
}
END_TEST

START_TEST(an_idle_bus_keeps_its_heartbeats_and_lets_the_core_sleep) /* proves L1-09 */
{
	struct bus_user *c;
	int64_t end_us;
	int wakes;

	bus_config->amqp.heartbeat_s = 1;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	bus_user_take(c);
	wakes = c->wakes;
	for (end_us = clock_boot_us() + 5 * SECOND; clock_boot_us() < end_us;) {
		bus_user_doze(c, 100);
		ck_assert_int_lt(bus_user_health(c).pub_frame_age_us, 2 * SECOND);
		ck_assert_int_lt(bus_user_health(c).sub_frame_age_us, 2 * SECOND);
		ck_assert_int_lt(bus_user_health(c).pub_progress_age_us, SECOND);
	}
	ck_assert(bus_user_health(c).pub_up && bus_user_health(c).sub_up);
	ck_assert_int_eq(c->wakes, wakes);
	bus_user_stop(c);
}
END_TEST

START_TEST(a_watchdog_makes_the_threads_come_round_often) /* proves L1-22 */
{
	struct bus_user *c = bus_user_start(bus_config);
	int64_t end_us;

	bus_user_wait_up(c);
	bus_set_watchdog(c->bus, 400000);
	bus_user_wait(c,
		bus_user_health(c).pub_progress_age_us < 200000 &&
			bus_user_health(c).sub_progress_age_us < 200000,
		5);
	for (end_us = clock_boot_us() + SECOND; clock_boot_us() < end_us;) {
		bus_user_doze(c, 50);
		ck_assert_int_lt(bus_user_health(c).pub_progress_age_us, 400000);
		ck_assert_int_lt(bus_user_health(c).sub_progress_age_us, 400000);
	}
	bus_user_stop(c);
}
END_TEST

/* --- cuts --- */

START_TEST(after_a_cut_everything_comes_back_and_works_again) /* proves L1-10 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o = bus_kit_outs_new(500, "a", "{}", 2);
	uint32_t generation;

	bus_user_wait_up(c);
	bus_client_command(k, "x", 1);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	generation = bus_user_find(c, BUS_DELIVERY, 0)->generation;
	x->mute[ROLE_PUB] = true; /* no confirm comes through */
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	x->cut[ROLE_PUB] = x->cut[ROLE_SUB] = true;
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 10);
	x->mute[ROLE_PUB] = false;
	bus_user_wait(c, c->status[BUS_LOST] == 500, 10);
	for (int i = 0; i < 500; i++)
		ck_assert_ptr_eq(c->settled[i], &o[i]);
	bus_user_wait(
		c, c->count[BUS_PUB_UP] == 2 && c->count[BUS_SUB_UP] == 2 && c->count[BUS_DELIVERY] == 2, 10);
	ck_assert_uint_ne(bus_user_find(c, BUS_DELIVERY, 1)->generation, generation);
	bus_ack(c->bus, generation, 1); /* void: it must not ack the new one, whose tag is the same */
	bus_flush(c->bus);
	for (int i = 0; i < 500; i++)
		o[i].next = i < 499 ? &o[i + 1] : NULL;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_UNROUTABLE] == 500, 10);
	ck_assert_uint_ge(bus_user_health(c).reconnects, 2);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 1);
	bus_proxy_stop(x);
	bus_client_close(k);
	free(o);
}
END_TEST

/* The health of the bus says so without the core taking anything. */
static void wait_reconnects(struct bus_user *c, uint64_t count)
{
	int64_t end_us = clock_boot_us() + 25 * SECOND;
	struct bus_health h;

	for (h = bus_user_health(c); h.reconnects < count || !h.pub_up || !h.sub_up; h = bus_user_health(c)) {
		ck_assert_msg(clock_boot_us() < end_us, "%d reconnects", (int)h.reconnects);
		bus_user_doze(c, 10);
	}
}

START_TEST(deliveries_for_a_busy_core_do_not_grow_with_reconnects)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_in *first;

	bus_user_wait_up(c);
	bus_client_command(k, "one", 3);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	first = bus_user_find(c, BUS_DELIVERY, 0);
	bus_client_command(k, "two", 3);
	/* The core is held from here on. Each time the broker delivers both again. */
	for (uint64_t i = 0; i < 4; i++) {
		for (int64_t end_us = clock_boot_us() + 25 * SECOND; bus_client_ready(k, bus_kit_queue()) > 0;
			bus_user_doze(c, 10))
			ck_assert(clock_boot_us() < end_us);
		x->cut[ROLE_PUB] = x->cut[ROLE_SUB] = true;
		wait_reconnects(c, 2 * (i + 1));
	}
	bus_user_wait(c, c->count[BUS_DELIVERY] >= 3, 10);
	for (int i = 1; i < 3; i++) {
		struct bus_in *in = bus_user_find(c, BUS_DELIVERY, i);

		ck_assert_mem_eq(in->body, (i == 1 ? "one" : "two"), 3);
		ck_assert_uint_eq(in->generation, first->generation + 4);
	}
	/* A connection that came and went unseen is not mentioned. */
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 1);
	ck_assert_int_eq(c->count[BUS_SUB_UP], 2);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 1);
	ck_assert_int_eq(c->count[BUS_PUB_UP], 2);
	bus_client_command(k, "three", 5);
	bus_user_wait(c, bus_user_find(c, BUS_DELIVERY, c->count[BUS_DELIVERY] - 1)->size == 5, 10);
	ck_assert_int_eq(c->count[BUS_DELIVERY], 4);
	for (int i = 1; i < 4; i++)
		bus_ack(c->bus, first->generation + 4, bus_user_find(c, BUS_DELIVERY, i)->tag);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 0);
	bus_proxy_stop(x);
	bus_client_close(k);
}
END_TEST

START_TEST(messages_published_after_a_loss_come_back_behind_it) /* proves L1-07 */
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o = bus_kit_outs_new(5, "a", "{}", 2);
	int64_t end_us = clock_boot_us() + 25 * SECOND;
	struct bus_in *down, *settled;
	int wakes;

	bus_user_wait_up(c);
	wakes = c->wakes;
	x->mute[ROLE_PUB] = true; /* no confirm comes through */
	o[1].next = NULL;
	bus_publish(c->bus, &o[0]);
	bus_flush(c->bus);
	x->refuse = true;
	x->cut[ROLE_PUB] = true;
	for (; c->wakes == wakes; bus_user_doze(c, 20))
		ck_assert(clock_boot_us() < end_us);
	bus_publish(c->bus, &o[2]); /* in the same turn: the loss is known to the bus alone */
	bus_flush(c->bus);
	bus_user_wait(c, c->settled_count == 5, 10);
	x->refuse = x->mute[ROLE_PUB] = false;
	bus_user_wait(c, c->count[BUS_PUB_UP] == 2, 10);
	down = bus_user_find(c, BUS_PUB_DOWN, 0);
	settled = bus_user_find(c, BUS_SETTLED, 0);
	ck_assert_ptr_eq(down->outs, &o[0]);
	ck_assert_ptr_eq(down->next, settled);
	ck_assert_ptr_eq(settled->outs, &o[2]);
	ck_assert_ptr_eq(settled->next, bus_user_find(c, BUS_PUB_UP, 1));
	for (int i = 0; i < 5; i++) {
		ck_assert_ptr_eq(c->settled[i], &o[i]);
		ck_assert_int_eq(o[i].status, BUS_LOST);
	}
	bus_user_stop(c);
	bus_proxy_stop(x);
	free(o);
}
END_TEST

/* Three descriptors for two connections that need two each: the one that comes second has no copy of its
 * own. */
START_TEST(a_connection_that_could_not_be_broken_off_is_not_made) /* proves L1-22 */
{
	struct bus_user *c = bus_user_new(bus_config);
	struct rlimit limit;
	int fill[64], count = 0;
	const struct bus_in *down;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while ((fill[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		count++;
	for (int i = 0; i < 2 + 3; i++) /* two more: each thread has its wake-up */
		close(fill[--count]);
	ck_assert_int_eq(bus_start(c->bus), 0);
	bus_user_wait(c,
		c->count[BUS_PUB_UP] + c->count[BUS_SUB_UP] == 1 &&
			c->count[BUS_PUB_DOWN] + c->count[BUS_SUB_DOWN] == 1,
		10);
	down = bus_user_find(c, c->count[BUS_PUB_DOWN] ? BUS_PUB_DOWN : BUS_SUB_DOWN, 0);
	ck_assert_msg(strstr(down->text, strerror(EMFILE)), "%s", down->text);
	while (count > 0)
		close(fill[--count]);
	bus_user_wait_up(c);
	bus_drop_pub(c->bus, "the test says so");
	bus_drop_sub(c->bus, "the test says so");
	bus_user_wait(c, c->count[BUS_PUB_UP] + c->count[BUS_SUB_UP] == 4, 10);
	bus_user_stop(c);
}
END_TEST

/* --- the way back --- */

START_TEST(reconnecting_waits_one_two_and_four_seconds) /* proves L1-10 */
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	struct bus_user *c;
	int64_t *at = x->accepted_at_us;

	bus_config->amqp.reconnect_max_us = 60 * SECOND;
	x->refuse = true;
	c = bus_user_start(bus_config);
	bus_user_wait(c, x->accepted >= 8, 20); /* two threads, four attempts each: pairs */
	for (int i = 0; i + 2 < 8; i++) {
		double gap = (double)(at[i / 2 * 2 + 2] - at[i / 2 * 2]) / 1e6, want = 1 << (i / 2);

		ck_assert_msg(gap > 0.5 * want && gap < 1.5 * want + 0.5, "attempt %d after %.2f s",
			i / 2 + 2, gap);
	}
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 1); /* not one an attempt */
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 1);
	bus_user_stop(c);
	bus_proxy_stop(x);
}
END_TEST

/* What was logged so far, at this level, with these words. */
static int count_lines(FILE *log, const char *level, const char *words)
{
	char line[2048];
	int count = 0;

	rewind(log);
	while (fgets(line, sizeof line, log))
		count += strstr(line, level) && strstr(line, words);
	return count;
}

START_TEST(the_same_failure_is_told_once_and_so_is_its_end) /* proves L1-10 */
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	FILE *log = tmpfile();
	struct bus_user *c;

	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	log_set_level(LOG_LVL_DEBUG);
	bus_config->amqp.reconnect_max_us = 50000;
	x->refuse = true;
	c = bus_user_start(bus_config);
	bus_user_wait(c, x->accepted >= 20, 10);
	ck_assert_int_eq(count_lines(log, "warn", "trying again"), 2); /* one a thread */
	ck_assert_int_ge(count_lines(log, "debug", "trying again"), 16);
	ck_assert_int_eq(count_lines(log, "info", "connected"), 0);
	x->refuse = false;
	bus_user_wait_up(c);
	ck_assert_int_eq(count_lines(log, "info", "connected again"), 2);
	ck_assert_int_eq(count_lines(log, "", bus_kit_password), 0);
	bus_user_stop(c);
	bus_proxy_stop(x);
	fclose(log);
}
END_TEST

START_TEST(why_it_was_dropped_is_told_of_that_loss_alone)
{
	struct bus_proxy *x = bus_proxy_start(bus_config);
	FILE *log = tmpfile();
	struct bus_user *c;

	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	log_set_level(LOG_LVL_DEBUG);
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	x->closed = true;
	bus_user_wait(c, x->listener < 0, 5);
	bus_drop_pub(c->bus, "the test says so");
	bus_user_wait(c, count_lines(log, "", "lane=pub why=") >= 3, 10);
	ck_assert_int_eq(count_lines(log, "warn", "the test says so"), 1);
	ck_assert_int_eq(count_lines(log, "", "the test says so"), 1);
	ck_assert_int_eq(count_lines(log, "warn", "cannot connect"), 1);
	bus_user_stop(c);
	bus_proxy_stop(x);
	fclose(log);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, publish_that_stalls_is_broken_while_commands_and_acks_go_on);
	tcase_add_test(t, a_stalled_consumer_can_be_dropped_too);
	tcase_add_test(t, a_publish_after_the_heartbeat_deadline_comes_back);
	tcase_add_test(t, a_silent_broker_is_noticed_by_its_heartbeat);
	tcase_add_test(t, a_broker_falling_silent_while_messages_go_out_is_noticed);
	tcase_add_test(t, an_idle_bus_keeps_its_heartbeats_and_lets_the_core_sleep);
	tcase_add_test(t, a_watchdog_makes_the_threads_come_round_often);
	tcase_add_test(t, after_a_cut_everything_comes_back_and_works_again);
	tcase_add_test(t, deliveries_for_a_busy_core_do_not_grow_with_reconnects);
	tcase_add_test(t, messages_published_after_a_loss_come_back_behind_it);
	tcase_add_test(t, a_connection_that_could_not_be_broken_off_is_not_made);
	tcase_add_test(t, reconnecting_waits_one_two_and_four_seconds);
	tcase_add_test(t, the_same_failure_is_told_once_and_so_is_its_end);
	tcase_add_test(t, why_it_was_dropped_is_told_of_that_loss_alone);
}

int main(void)
{
	return bus_suite_run("bus_outages", 40, add_tests);
}
