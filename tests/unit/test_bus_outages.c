/* test_bus_outages.c: the bus when the way to the broker stalls, goes silent, is cut or refused, and the
 * way back. Through a proxy before the real broker. */
#include "bus_suite.h"

#include <sys/resource.h>

#include "amqp/connection.h"

/* --- stalls and silence --- */

START_TEST(a_publish_that_stalls_is_broken_while_commands_and_acks_go_on) /* proves L1-22 */
{
	amqp_connection_state_t k = peer_open();
	struct proxy *x = proxy_start(config);
	size_t size = 100000;
	char *body = calloc(1, size);
	struct bus_out *o = outs_new(400, "a", body, size); /* more than any socket buffers */
	struct core *c = core_start(config);

	core_wait_up(c);
	c->auto_ack = true;
	x->deaf[ROLE_PUB] = true;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	core_wait(c, health_of(c).pub_progress_age_us > SECOND, 10); /* inside the library, for good */
	ck_assert(health_of(c).pub_up);
	for (int i = 0; i < 300; i++)
		peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == 300, 10); /* three times prefetch: so the acks went out */
	ck_assert_int_lt(health_of(c).sub_progress_age_us, SECOND);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	bus_drop_pub(c->bus, "no progress");
	core_wait(c, c->count[BUS_PUB_DOWN] == 1, 2);
	ck_assert_int_eq(c->status[BUS_LOST], 400);
	ck_assert_str_eq(core_find(c, BUS_PUB_DOWN, 0)->text, "dropped: no progress");
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 0);
	x->deaf[ROLE_PUB] = false;
	core_wait(c, c->count[BUS_PUB_UP] == 2, 10);
	core_stop(c);
	proxy_stop(x);
	peer_close(k);
	free(o);
	free(body);
}
END_TEST

START_TEST(a_stalled_consumer_can_be_dropped_too)
{
	struct proxy *x = proxy_start(config);
	struct core *c = core_start(config);

	core_wait_up(c);
	x->mute[ROLE_SUB] = true;
	bus_drop_sub(c->bus, "the test says so");
	core_wait(c, c->count[BUS_SUB_DOWN] == 1, 2);
	x->mute[ROLE_SUB] = false;
	core_wait(c, c->count[BUS_SUB_UP] == 2, 10);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	core_stop(c);
	proxy_stop(x);
}
END_TEST

/* What amqp_basic_publish of librabbitmq 0.11 does not survive: the deadline for the peer's heartbeat passes,
 * nobody serves the connection, then a publish. */
START_TEST(a_publish_after_the_heartbeat_deadline_comes_back) /* proves L1-09 */
{
	struct proxy *x;
	struct link *l;
	struct link_error e;
	struct link_spec spec = {.amqp = &config->amqp, .name = "x pub", .max_body = 1000};
	struct link_message m = {.exchange = "hcp.events",
		.key = "k",
		.message_id = "m",
		.type = "event",
		.body = "{}",
		.size = 2};
	struct frames_event *ev;
	int64_t began_us;
	int rc;

	x = proxy_start(config);
	config->amqp.heartbeat_s = 1;
	l = link_open(&spec, &e);
	ck_assert_msg(l != NULL, "%s", e.text);
	ck_assert_int_eq(link_heartbeat_s(l), 1);
	ck_assert_int_eq(link_declare_exchange(l, "hcp.events", "topic", &e), 0);
	x->mute[ROLE_PUB] = true;
	for (began_us = clock_boot_us();
		clock_boot_us() - began_us < 3 * SECOND;) /* the deadline is the condition */
		poll(NULL, 0, 100);
	rc = link_publish(l, &m, &e); /* with the fault this never returns, and the test times out */
	ck_assert(rc == 0 || e.text[0]);
	do
		rc = link_next(l, &ev, &e);
	while (rc > 0);
	ck_assert_int_eq(rc, -1);
	/* The broker misses our heartbeats as well, and may be the first to close. */
	ck_assert_msg(strstr(e.text, "heartbeat") || strstr(e.text, "closed unexpectedly"), "%s", e.text);
	link_free(l);
	proxy_stop(x);
}
END_TEST

START_TEST(a_silent_broker_is_noticed_by_its_heartbeat) /* proves L1-09 */
{
	struct proxy *x = proxy_start(config);
	struct core *c;
	int64_t began_us;

	config->amqp.heartbeat_s = 1;
	c = core_start(config);
	core_wait_up(c);
	began_us = clock_boot_us();
	x->mute[ROLE_PUB] = x->mute[ROLE_SUB] = true;
	core_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 5);
	ck_assert_int_gt(clock_boot_us() - began_us, SECOND);
	core_stop(c);
	proxy_stop(x);
}
END_TEST

START_TEST(an_idle_bus_keeps_its_heartbeats_and_lets_the_core_sleep) /* proves L1-09 */
{
	struct core *c;
	int64_t end_us;
	int wakes;

	config->amqp.heartbeat_s = 1;
	c = core_start(config);
	core_wait_up(c);
	core_take(c);
	wakes = c->wakes;
	for (end_us = clock_boot_us() + 5 * SECOND; clock_boot_us() < end_us;) {
		core_doze(c, 100);
		ck_assert_int_lt(health_of(c).pub_frame_age_us, 2 * SECOND);
		ck_assert_int_lt(health_of(c).sub_frame_age_us, 2 * SECOND);
		ck_assert_int_lt(health_of(c).pub_progress_age_us, SECOND);
	}
	ck_assert(health_of(c).pub_up && health_of(c).sub_up);
	ck_assert_int_eq(c->wakes, wakes);
	core_stop(c);
}
END_TEST

START_TEST(a_watchdog_makes_the_threads_come_round_often) /* proves L1-22 */
{
	struct core *c = core_start(config);
	int64_t end_us;

	core_wait_up(c);
	bus_set_watchdog(c->bus, 400000);
	core_wait(
		c, health_of(c).pub_progress_age_us < 200000 && health_of(c).sub_progress_age_us < 200000, 5);
	for (end_us = clock_boot_us() + SECOND; clock_boot_us() < end_us;) {
		core_doze(c, 50);
		ck_assert_int_lt(health_of(c).pub_progress_age_us, 400000);
		ck_assert_int_lt(health_of(c).sub_progress_age_us, 400000);
	}
	core_stop(c);
}
END_TEST

/* --- cuts --- */

START_TEST(after_a_cut_everything_comes_back_and_works_again) /* proves L1-10 */
{
	amqp_connection_state_t k = peer_open();
	struct proxy *x = proxy_start(config);
	struct core *c = core_start(config);
	struct bus_out *o = outs_new(500, "a", "{}", 2);
	uint32_t life;

	core_wait_up(c);
	peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	life = core_find(c, BUS_DELIVERY, 0)->life;
	x->mute[ROLE_PUB] = true; /* no confirm comes through */
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	x->cut[ROLE_PUB] = x->cut[ROLE_SUB] = true;
	core_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 10);
	x->mute[ROLE_PUB] = false;
	core_wait(c, c->status[BUS_LOST] == 500, 10);
	for (int i = 0; i < 500; i++)
		ck_assert_ptr_eq(c->settled[i], &o[i]);
	core_wait(
		c, c->count[BUS_PUB_UP] == 2 && c->count[BUS_SUB_UP] == 2 && c->count[BUS_DELIVERY] == 2, 10);
	ck_assert_uint_ne(core_find(c, BUS_DELIVERY, 1)->life, life);
	bus_ack(c->bus, life, 1); /* void: it must not ack the new one, whose tag is the same */
	bus_flush(c->bus);
	for (int i = 0; i < 500; i++)
		o[i].next = i < 499 ? &o[i + 1] : NULL;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	core_wait(c, c->status[BUS_UNROUTABLE] == 500, 10);
	ck_assert_uint_ge(health_of(c).reconnects, 2);
	core_stop(c);
	ck_assert_int_eq(peer_ready(k, kit_queue()), 1);
	proxy_stop(x);
	peer_close(k);
	free(o);
}
END_TEST

/* The health of the bus says so without the core taking anything. */
static void wait_reconnects(struct core *c, uint64_t count)
{
	int64_t end_us = clock_boot_us() + 10 * SECOND;
	struct bus_health h;

	for (h = health_of(c); h.reconnects < count || !h.pub_up || !h.sub_up; h = health_of(c)) {
		ck_assert_msg(clock_boot_us() < end_us, "%d reconnects", (int)h.reconnects);
		core_doze(c, 10);
	}
}

START_TEST(what_waits_for_a_core_that_takes_nothing_does_not_grow_with_reconnects)
{
	amqp_connection_state_t k = peer_open();
	struct proxy *x = proxy_start(config);
	struct core *c = core_start(config);
	struct bus_in *first;

	core_wait_up(c);
	peer_command(k, "one", 3);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	first = core_find(c, BUS_DELIVERY, 0);
	peer_command(k, "two", 3);
	/* The core is held from here on. Each time the broker delivers both again. */
	for (uint64_t i = 0; i < 4; i++) {
		for (int64_t end_us = clock_boot_us() + 10 * SECOND; peer_ready(k, kit_queue()) > 0;
			core_doze(c, 10))
			ck_assert(clock_boot_us() < end_us);
		x->cut[ROLE_PUB] = x->cut[ROLE_SUB] = true;
		wait_reconnects(c, 2 * (i + 1));
	}
	core_wait(c, c->count[BUS_DELIVERY] >= 3, 10);
	for (int i = 1; i < 3; i++) {
		struct bus_in *in = core_find(c, BUS_DELIVERY, i);

		ck_assert_mem_eq(in->body, (i == 1 ? "one" : "two"), 3);
		ck_assert_uint_eq(in->life, first->life + 4);
	}
	/* A connection that came and went unseen is not mentioned. */
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 1);
	ck_assert_int_eq(c->count[BUS_SUB_UP], 2);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 1);
	ck_assert_int_eq(c->count[BUS_PUB_UP], 2);
	peer_command(k, "three", 5);
	core_wait(c, core_find(c, BUS_DELIVERY, c->count[BUS_DELIVERY] - 1)->size == 5, 10);
	ck_assert_int_eq(c->count[BUS_DELIVERY], 4);
	for (int i = 1; i < 4; i++)
		bus_ack(c->bus, first->life + 4, core_find(c, BUS_DELIVERY, i)->tag);
	core_stop(c);
	ck_assert_int_eq(peer_ready(k, kit_queue()), 0);
	proxy_stop(x);
	peer_close(k);
}
END_TEST

START_TEST(what_is_published_after_a_loss_comes_back_behind_it) /* proves L1-07 */
{
	struct proxy *x = proxy_start(config);
	struct core *c = core_start(config);
	struct bus_out *o = outs_new(5, "a", "{}", 2);
	int64_t end_us = clock_boot_us() + 10 * SECOND;
	struct bus_in *down, *settled;
	int wakes;

	core_wait_up(c);
	wakes = c->wakes;
	x->mute[ROLE_PUB] = true; /* no confirm comes through */
	o[1].next = NULL;
	bus_publish(c->bus, &o[0]);
	bus_flush(c->bus);
	x->refuse = true;
	x->cut[ROLE_PUB] = true;
	for (; c->wakes == wakes; core_doze(c, 20))
		ck_assert(clock_boot_us() < end_us);
	bus_publish(c->bus, &o[2]); /* in the same turn: the loss is known to the bus alone */
	bus_flush(c->bus);
	core_wait(c, c->settled_count == 5, 10);
	x->refuse = x->mute[ROLE_PUB] = false;
	core_wait(c, c->count[BUS_PUB_UP] == 2, 10);
	down = core_find(c, BUS_PUB_DOWN, 0);
	settled = core_find(c, BUS_SETTLED, 0);
	ck_assert_ptr_eq(down->outs, &o[0]);
	ck_assert_ptr_eq(down->next, settled);
	ck_assert_ptr_eq(settled->outs, &o[2]);
	ck_assert_ptr_eq(settled->next, core_find(c, BUS_PUB_UP, 1));
	for (int i = 0; i < 5; i++) {
		ck_assert_ptr_eq(c->settled[i], &o[i]);
		ck_assert_int_eq(o[i].status, BUS_LOST);
	}
	core_stop(c);
	proxy_stop(x);
	free(o);
}
END_TEST

/* Three descriptors for two connections that need two each: the one that comes second has no copy of its own.
 */
START_TEST(a_connection_that_could_not_be_broken_off_is_not_made) /* proves L1-22 */
{
	struct core *c = core_new(config);
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
	core_wait(c,
		c->count[BUS_PUB_UP] + c->count[BUS_SUB_UP] == 1 &&
			c->count[BUS_PUB_DOWN] + c->count[BUS_SUB_DOWN] == 1,
		10);
	down = core_find(c, c->count[BUS_PUB_DOWN] ? BUS_PUB_DOWN : BUS_SUB_DOWN, 0);
	ck_assert_msg(strstr(down->text, strerror(EMFILE)), "%s", down->text);
	while (count > 0)
		close(fill[--count]);
	core_wait_up(c);
	bus_drop_pub(c->bus, "the test says so");
	bus_drop_sub(c->bus, "the test says so");
	core_wait(c, c->count[BUS_PUB_UP] + c->count[BUS_SUB_UP] == 4, 10);
	core_stop(c);
}
END_TEST

/* --- the way back --- */

START_TEST(reconnecting_waits_one_two_and_four_seconds) /* proves L1-10 */
{
	struct proxy *x = proxy_start(config);
	struct core *c;
	int64_t *at = x->accepted_at_us;

	config->amqp.reconnect_max_us = 60 * SECOND;
	x->refuse = true;
	c = core_start(config);
	core_wait(c, x->accepted >= 8, 20); /* two lanes, four attempts each: pairs */
	for (int i = 0; i + 2 < 8; i++) {
		double gap = (double)(at[i / 2 * 2 + 2] - at[i / 2 * 2]) / 1e6, want = 1 << (i / 2);

		ck_assert_msg(gap > 0.5 * want && gap < 1.5 * want + 0.5, "attempt %d after %.2f s",
			i / 2 + 2, gap);
	}
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 1); /* not one an attempt */
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 1);
	core_stop(c);
	proxy_stop(x);
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
	struct proxy *x = proxy_start(config);
	FILE *log = tmpfile();
	struct core *c;

	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	log_set_level(LOG_LVL_DEBUG);
	config->amqp.reconnect_max_us = 50000;
	x->refuse = true;
	c = core_start(config);
	core_wait(c, x->accepted >= 20, 10);
	ck_assert_int_eq(count_lines(log, "warn", "trying again"), 2); /* one a lane */
	ck_assert_int_ge(count_lines(log, "debug", "trying again"), 16);
	ck_assert_int_eq(count_lines(log, "info", "connected"), 0);
	x->refuse = false;
	core_wait_up(c);
	ck_assert_int_eq(count_lines(log, "info", "connected again"), 2);
	ck_assert_int_eq(count_lines(log, "", kit_password), 0);
	core_stop(c);
	proxy_stop(x);
	fclose(log);
}
END_TEST

START_TEST(why_it_was_dropped_is_told_of_that_loss_alone)
{
	struct proxy *x = proxy_start(config);
	FILE *log = tmpfile();
	struct core *c;

	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	log_set_level(LOG_LVL_DEBUG);
	c = core_start(config);
	core_wait_up(c);
	x->closed = true;
	core_wait(c, x->listener < 0, 5);
	bus_drop_pub(c->bus, "the test says so");
	core_wait(c, count_lines(log, "", "lane=pub why=") >= 3, 10);
	ck_assert_int_eq(count_lines(log, "warn", "the test says so"), 1);
	ck_assert_int_eq(count_lines(log, "", "the test says so"), 1);
	ck_assert_int_eq(count_lines(log, "warn", "cannot connect"), 1);
	core_stop(c);
	proxy_stop(x);
	fclose(log);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, a_publish_that_stalls_is_broken_while_commands_and_acks_go_on);
	tcase_add_test(t, a_stalled_consumer_can_be_dropped_too);
	tcase_add_test(t, a_publish_after_the_heartbeat_deadline_comes_back);
	tcase_add_test(t, a_silent_broker_is_noticed_by_its_heartbeat);
	tcase_add_test(t, an_idle_bus_keeps_its_heartbeats_and_lets_the_core_sleep);
	tcase_add_test(t, a_watchdog_makes_the_threads_come_round_often);
	tcase_add_test(t, after_a_cut_everything_comes_back_and_works_again);
	tcase_add_test(t, what_waits_for_a_core_that_takes_nothing_does_not_grow_with_reconnects);
	tcase_add_test(t, what_is_published_after_a_loss_comes_back_behind_it);
	tcase_add_test(t, a_connection_that_could_not_be_broken_off_is_not_made);
	tcase_add_test(t, reconnecting_waits_one_two_and_four_seconds);
	tcase_add_test(t, the_same_failure_is_told_once_and_so_is_its_end);
	tcase_add_test(t, why_it_was_dropped_is_told_of_that_loss_alone);
}

int main(void)
{
	return bus_suite_run("bus_outages", 40, add_tests);
}
