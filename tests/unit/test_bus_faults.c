/* test_bus_faults.c: the bus when the other side misbehaves: stalls, cuts, half a message, strange bytes.
 * Through a proxy before the real broker where that can show the fault, else with a scripted peer. */
#include "bus_kit.h"

#include <sys/resource.h>

#include "link.h"

static struct config *config;

static void set_up(void)
{
	static int n;
	char callee[32];

	snprintf(callee, sizeof callee, "faults%d", n++);
	config = kit_make_config(callee);
}

static struct bus_health health_of(struct core *c)
{
	struct bus_health h;

	bus_get_health(c->bus, &h);
	return h;
}

/* --- through the proxy --- */

START_TEST(a_publish_that_stalls_is_broken_while_commands_and_acks_go_on)      /* proves L1-22 */
{
	amqp_connection_state_t k = peer_open();
	struct proxy *x = proxy_start(config);
	size_t size = 100000;
	char *body = calloc(1, size);
	struct bus_out *o = outs_new(400, "a", body, size);    /* more than any socket buffers */
	struct core *c = core_start(config);

	core_wait_up(c);
	c->auto_ack = true;
	x->deaf[ROLE_PUB] = true;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	core_wait(c, health_of(c).pub_progress_age_us > SECOND, 10);    /* inside the library, for good */
	ck_assert(health_of(c).pub_up);
	for (int i = 0; i < 300; i++)
		peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == 300, 10);        /* three times prefetch: so the acks went out */
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
START_TEST(a_publish_after_the_heartbeat_deadline_comes_back)   /* proves L1-09 */
{
	struct proxy *x;
	struct link *l;
	struct link_error e;
	struct link_spec spec = { .amqp = &config->amqp, .name = "x pub", .max_body = 1000 };
	struct link_message m = { .exchange = "hcp.events", .key = "k", .message_id = "m", .type = "event", .body = "{}",
		.size = 2 };
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
	for (began_us = clock_boot_us(); clock_boot_us() - began_us < 3 * SECOND;)      /* the deadline is the condition */
		poll(NULL, 0, 100);
	rc = link_publish(l, &m, &e);           /* with the fault this never returns, and the test times out */
	ck_assert(rc == 0 || e.text[0]);
	do
		rc = link_next(l, &ev, &e);
	while (rc > 0);
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(strstr(e.text, "heartbeat"), "%s", e.text);
	link_free(l);
	proxy_stop(x);
}
END_TEST

START_TEST(a_silent_broker_is_noticed_by_its_heartbeat)         /* proves L1-09 */
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

START_TEST(an_idle_bus_keeps_its_heartbeats_and_lets_the_core_sleep)    /* proves L1-09 */
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

START_TEST(a_watchdog_makes_the_threads_come_round_often)       /* proves L1-22 */
{
	struct core *c = core_start(config);
	int64_t end_us;

	core_wait_up(c);
	bus_set_watchdog(c->bus, 400000);
	core_wait(c, health_of(c).pub_progress_age_us < 200000 && health_of(c).sub_progress_age_us < 200000, 5);
	for (end_us = clock_boot_us() + SECOND; clock_boot_us() < end_us;) {
		core_doze(c, 50);
		ck_assert_int_lt(health_of(c).pub_progress_age_us, 400000);
		ck_assert_int_lt(health_of(c).sub_progress_age_us, 400000);
	}
	core_stop(c);
}
END_TEST

START_TEST(after_a_cut_everything_comes_back_and_works_again)   /* proves L1-10 */
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
	x->mute[ROLE_PUB] = true;               /* no confirm comes through */
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	x->cut[ROLE_PUB] = x->cut[ROLE_SUB] = true;
	core_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 10);
	x->mute[ROLE_PUB] = false;
	core_wait(c, c->status[BUS_LOST] == 500, 10);
	for (int i = 0; i < 500; i++)
		ck_assert_ptr_eq(c->settled[i], &o[i]);
	core_wait(c, c->count[BUS_PUB_UP] == 2 && c->count[BUS_SUB_UP] == 2 && c->count[BUS_DELIVERY] == 2, 10);
	ck_assert_uint_ne(core_find(c, BUS_DELIVERY, 1)->life, life);
	bus_ack(c->bus, life, 1);               /* void: it must not ack the new one, whose tag is the same */
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
		for (int64_t end_us = clock_boot_us() + 10 * SECOND; peer_ready(k, kit_queue()) > 0; core_doze(c, 10))
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

START_TEST(what_is_published_after_a_loss_comes_back_behind_it)         /* proves L1-07 */
{
	struct proxy *x = proxy_start(config);
	struct core *c = core_start(config);
	struct bus_out *o = outs_new(5, "a", "{}", 2);
	int64_t end_us = clock_boot_us() + 10 * SECOND;
	struct bus_in *down, *settled;
	int wakes;

	core_wait_up(c);
	wakes = c->wakes;
	x->mute[ROLE_PUB] = true;               /* no confirm comes through */
	o[1].next = NULL;
	bus_publish(c->bus, &o[0]);
	bus_flush(c->bus);
	x->refuse = true;
	x->cut[ROLE_PUB] = true;
	for (; c->wakes == wakes; core_doze(c, 20))
		ck_assert(clock_boot_us() < end_us);
	bus_publish(c->bus, &o[2]);             /* in the same turn: the loss is known to the bus alone */
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

/* Three descriptors for two connections that need two each: the one that comes second has no copy of its own. */
START_TEST(a_connection_that_could_not_be_broken_off_is_not_made)       /* proves L1-22 */
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
	for (int i = 0; i < 2 + 3; i++)         /* two more: each thread has its wake-up */
		close(fill[--count]);
	ck_assert_int_eq(bus_start(c->bus), 0);
	core_wait(c, c->count[BUS_PUB_UP] + c->count[BUS_SUB_UP] == 1 && c->count[BUS_PUB_DOWN] + c->count[BUS_SUB_DOWN] == 1,
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

START_TEST(reconnecting_waits_one_two_and_four_seconds)         /* proves L1-10 */
{
	struct proxy *x = proxy_start(config);
	struct core *c;
	int64_t *at = x->accepted_at_us;

	config->amqp.reconnect_max_us = 60 * SECOND;
	x->refuse = true;
	c = core_start(config);
	core_wait(c, x->accepted >= 8, 20);     /* two lanes, four attempts each: pairs */
	for (int i = 0; i + 2 < 8; i++) {
		double gap = (double)(at[i / 2 * 2 + 2] - at[i / 2 * 2]) / 1e6, want = 1 << (i / 2);

		ck_assert_msg(gap > 0.5 * want && gap < 1.5 * want + 0.5, "attempt %d after %.2f s", i / 2 + 2, gap);
	}
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 1);    /* not one an attempt */
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

START_TEST(the_same_failure_is_told_once_and_so_is_its_end)     /* proves L1-10 */
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
	ck_assert_int_eq(count_lines(log, "warn", "trying again"), 2);  /* one a lane */
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

/* --- ending --- */

static void assert_stops_within(struct core *c, double seconds)
{
	int64_t began_us = clock_boot_us();
	double took;

	core_stop(c);
	took = (double)(clock_boot_us() - began_us) / 1e6;
	ck_assert_msg(took < seconds, "%.2f s", took);
}

START_TEST(stopping_is_quick_when_all_is_well)
{
	struct core *c = core_start(config);

	core_wait_up(c);
	assert_stops_within(c, 0.5);
}
END_TEST

START_TEST(stopping_is_bounded_when_the_broker_stands_still)
{
	const char *pid = getenv("HCP_TEST_BROKER_PID");
	size_t size = 100000;
	char *body = calloc(1, size);
	struct bus_out *o = outs_new(400, "a", body, size);
	struct core *c;

	if (!pid) {
		printf("skipped: HCP_TEST_BROKER_PID is not set\n");
		return;
	}
	c = core_start(config);
	core_wait_up(c);
	ck_assert_int_eq(kill(atoi(pid), SIGSTOP), 0);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	core_doze(c, 200);
	int64_t began_us = clock_boot_us();
	core_stop(c);
	kill(atoi(pid), SIGCONT);
	ck_assert_int_lt(clock_boot_us() - began_us, 3 * SECOND / 2);
	free(o);
	free(body);
}
END_TEST

START_TEST(stopping_is_bounded_when_a_log_in_hangs)
{
	int port, fd = listen_anywhere(&port, 8);       /* accepted by the kernel, answered by nobody */
	struct core *c;

	config->amqp.port = port;
	c = core_start(config);
	core_doze(c, 300);
	assert_stops_within(c, 1.5);
	close(fd);
}
END_TEST

START_TEST(stopping_is_bounded_when_a_connect_hangs)
{
	int port, fd = listen_anywhere(&port, 0), fill[4];
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct core *c;

	a.sin_port = htons((uint16_t)port);
	for (int i = 0; i < 4; i++) {                   /* a full backlog: further SYNs are dropped */
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)!connect(fill[i], (struct sockaddr *)&a, sizeof a);
	}
	config->amqp.port = port;
	c = core_start(config);
	core_doze(c, 300);
	assert_stops_within(c, 1.5);
	for (int i = 0; i < 4; i++)
		close(fill[i]);
	close(fd);
}
END_TEST

START_TEST(stopping_before_starting_is_fine)
{
	core_stop(core_new(config));
}
END_TEST

/* --- with the scripted peer --- */

/* consume-ok and a whole delivery in one write: the RPC reads it all into the library, and the descriptor
 * has nothing more to say. */
static void deliver_with_consume_ok(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD)
		return;
	for (uint64_t tag = 1; tag <= 3; tag++) {
		put_deliver(&e->out, tag);
		put_header(&e->out, 5, NULL);
		put_body(&e->out, "hello");
	}
}

START_TEST(frames_that_wait_inside_the_library_are_drained)
{
	struct fake *k = fake_start(config, deliver_with_consume_ok);
	struct core *c = core_start(config);

	core_wait(c, c->count[BUS_DELIVERY] == 3, 3);
	ck_assert_int_eq(core_find(c, BUS_SUB_UP, 0)->next->kind, BUS_DELIVERY);
	/* The run is acked with one frame. */
	for (uint64_t tag = 1; tag <= 3; tag++)
		bus_ack(c->bus, 1, tag);
	bus_flush(c->bus);
	core_wait(c, k->seen_ack == 1, 3);
	ck_assert_uint_eq(k->last_tag, 3);
	core_stop(c);
	ck_assert_int_eq(k->seen_ack, 1);
	fake_stop(k);
}
END_TEST

static struct fake_end *_Atomic half_end;

static void deliver_half(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD)
		return;
	put_deliver(&e->out, 1);
	put_header(&e->out, 5, NULL);
	put_body(&e->out, "hello");
	put_deliver(&e->out, 2);
	put_header(&e->out, 10, NULL);
	put_body(&e->out, "01234");
	half_end = e;
}

START_TEST(a_delivery_whose_body_does_not_come_blocks_nothing)
{
	struct fake *k = fake_start(config, deliver_half);
	struct buf rest = { 0 };
	struct core *c;

	k->heartbeat_s = 1;
	config->amqp.heartbeat_s = 1;
	c = core_start(config);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 3);
	bus_ack(c->bus, 1, 1);
	bus_flush(c->bus);
	core_wait(c, k->seen_ack == 1 && k->heartbeats >= 2, 5);        /* acks and heartbeats still go out */
	ck_assert_int_lt(health_of(c).sub_progress_age_us, SECOND);
	ck_assert_int_eq(c->count[BUS_DELIVERY], 1);
	if (health_of(c).sub_up) {              /* the rest, if the silence was not too long for the heartbeat */
		put_body(&rest, "56789");
		fake_send(half_end, &rest);
		core_wait(c, c->count[BUS_DELIVERY] == 2 || c->count[BUS_SUB_DOWN], 3);
	}
	core_stop(c);
	buf_fini(&rest);
	fake_stop(k);
}
END_TEST

/* A table with one field of a kind that does not exist. */
static void deliver_undecodable(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	struct buf table = { 0 };

	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD || e->fake->seen_reject)
		return;
	put_int(&table, 7, 4);
	put_short(&table, "a");
	put_int(&table, '?', 1);
	put_int(&table, 1, 4);
	put_deliver(&e->out, 1);
	put_header(&e->out, 5, &table);
	put_body(&e->out, "hello");
	buf_fini(&table);
}

START_TEST(properties_that_cannot_be_decoded_are_rejected_and_do_not_come_again)       /* proves L1-15 */
{
	struct fake *k = fake_start(config, deliver_undecodable);
	struct core *c = core_start(config);

	core_wait(c, k->seen_reject == 1 && health_of(c).reconnects == 1 && c->count[BUS_SUB_UP] > 0, 5);
	ck_assert_uint_eq(k->last_tag, 1);
	ck_assert_int_eq(c->count[BUS_DELIVERY], 0);
	core_stop(c);
	fake_stop(k);
}
END_TEST

/* Arrays in arrays, as deep as a frame has room: librabbitmq decodes them by recursion. */
static void deliver_deep(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	struct buf table = { 0 };
	uint64_t depth = 26000;

	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD)
		return;
	put_int(&table, 2 + 5 * depth, 4);
	put_short(&table, "a");
	for (uint64_t i = 1; i <= depth; i++) {
		put_int(&table, 'A', 1);
		put_int(&table, 5 * (depth - i), 4);
	}
	put_deliver(&e->out, 1);
	put_header(&e->out, 5, &table);
	put_body(&e->out, "hello");
	buf_fini(&table);
}

START_TEST(headers_nested_as_deep_as_a_frame_allows_do_no_harm)         /* proves L1-15 */
{
	struct fake *k = fake_start(config, deliver_deep);
	struct core *c = core_start(config);

	core_wait(c, c->count[BUS_DELIVERY] == 1 || k->seen_reject, 10);
	core_stop(c);
	fake_stop(k);
}
END_TEST

/* Confirms as an unkind broker may order them: 3 alone, a nack of 1 and 2, then all of the rest by tag 0. */
static void confirm_oddly(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id != AMQP_BASIC_PUBLISH_METHOD || e->fake->seen_publish + 1 != 6)
		return;
	put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 3, false);
	put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 3, false);          /* again */
	put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 77, true);          /* never published */
	put_confirm(&e->out, AMQP_BASIC_NACK_METHOD, 2, true);
	put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 0, true);
}

START_TEST(confirms_in_any_order_settle_each_message_once)      /* proves L1-07 */
{
	struct fake *k = fake_start(config, confirm_oddly);
	struct core *c = core_start(config);
	struct bus_out *o = outs_new(6, "a", "{}", 2);

	core_wait_up(c);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	core_wait(c, c->settled_count == 6, 5);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(o[i].status, i < 2 ? BUS_NACKED : BUS_CONFIRMED);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	core_stop(c);
	fake_stop(k);
	free(o);
}
END_TEST

/* Never confirms the first message, and every other one at once. */
static void confirm_all_but_first(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id == AMQP_BASIC_PUBLISH_METHOD && e->fake->seen_publish > 0)
		put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, (uint64_t)e->fake->seen_publish + 1, false);
}

START_TEST(one_unconfirmed_message_does_not_stop_the_others)    /* proves L1-21 */
{
	struct fake *k = fake_start(config, confirm_all_but_first);
	struct bus_out *o = outs_new(2000, "a", "{}", 2);
	struct core *c;

	c = core_start(config);
	core_wait_up(c);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	core_wait(c, c->settled_count == 1999, 20);
	for (size_t i = 0; i < 1999; i++)
		ck_assert_ptr_eq(c->settled[i], &o[i + 1]);
	bus_drop_pub(c->bus, "the oldest is too old");
	core_wait(c, c->settled_count == 2000, 5);
	ck_assert_int_eq(o[0].status, BUS_LOST);
	core_stop(c);
	fake_stop(k);
	free(o);
}
END_TEST

/* A broker that takes its time to say yes. */
static void confirm_select_slowly(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)e;
	(void)args;
	(void)size;
	if (id == AMQP_CONFIRM_SELECT_METHOD)
		poll(NULL, 0, 500);
}

static struct bus *watched;
static _Atomic int64_t first_progress_age_us, first_frame_age_us;

/* From the wake-up itself: the one moment at which a new connection is up and its thread did not come round yet. */
static void look_at_health(void *ctx)
{
	struct bus_health h;

	(void)ctx;
	bus_get_health(watched, &h);
	if (h.pub_up && first_progress_age_us < 0) {
		first_frame_age_us = h.pub_frame_age_us;
		first_progress_age_us = h.pub_progress_age_us;
	}
}

START_TEST(a_connection_that_took_long_to_make_is_young_all_the_same)
{
	struct fake *k = fake_start(config, confirm_select_slowly);
	int64_t end_us = clock_boot_us() + 10 * SECOND;
	struct bus_in *in;

	first_progress_age_us = -1;
	watched = bus_new(config, look_at_health, NULL);
	ck_assert_int_eq(bus_start(watched), 0);
	while (first_progress_age_us < 0) {
		ck_assert(clock_boot_us() < end_us);
		poll(NULL, 0, 10);
		while ((in = bus_take(watched))) {
			for (struct bus_in *next; in; in = next) {
				next = in->next;
				bus_in_free(in);
			}
		}
	}
	ck_assert_int_lt(first_progress_age_us, 250000);
	ck_assert_int_lt(first_frame_age_us, 250000);
	bus_stop(watched);
	fake_stop(k);
}
END_TEST

static void send_rubbish(struct fake_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id == AMQP_BASIC_CONSUME_METHOD && e->fake->count < 6)
		put_body(&e->out, "nobody announced me");
	if (id == AMQP_CONFIRM_SELECT_METHOD && e->fake->count < 6)
		buf_add(&e->out, "\x09\x00\x01\xff\xff\xff\xff rubbish", 15);
}

START_TEST(bytes_that_are_no_amqp_cost_the_connection_and_no_more)      /* proves L1-15 */
{
	struct fake *k = fake_start(config, send_rubbish);
	struct core *c = core_start(config);

	core_wait(c, k->count >= 6 && health_of(c).reconnects >= 4 && health_of(c).sub_up && health_of(c).pub_up, 10);
	core_stop(c);
	fake_stop(k);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bus_faults");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	if (!kit_open("faults"))
		return EXIT_SUCCESS;
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_set_timeout(t, 40);
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
	tcase_add_test(t, stopping_is_quick_when_all_is_well);
	tcase_add_test(t, stopping_is_bounded_when_the_broker_stands_still);
	tcase_add_test(t, stopping_is_bounded_when_a_log_in_hangs);
	tcase_add_test(t, stopping_is_bounded_when_a_connect_hangs);
	tcase_add_test(t, stopping_before_starting_is_fine);
	tcase_add_test(t, frames_that_wait_inside_the_library_are_drained);
	tcase_add_test(t, a_delivery_whose_body_does_not_come_blocks_nothing);
	tcase_add_test(t, properties_that_cannot_be_decoded_are_rejected_and_do_not_come_again);
	tcase_add_test(t, headers_nested_as_deep_as_a_frame_allows_do_no_harm);
	tcase_add_test(t, confirms_in_any_order_settle_each_message_once);
	tcase_add_test(t, one_unconfirmed_message_does_not_stop_the_others);
	tcase_add_test(t, a_connection_that_took_long_to_make_is_young_all_the_same);
	tcase_add_test(t, bytes_that_are_no_amqp_cost_the_connection_and_no_more);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	kit_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
