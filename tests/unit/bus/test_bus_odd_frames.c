/* SPDX-License-Identifier: MIT */
/* test_bus_odd_frames.c: frames as no RabbitMQ can be made to send them: halves, odd orders, strange
 * bytes. From a scripted peer. */
#include "support/bus_suite.h"

/* --- deliveries --- */

/* consume-ok and a whole delivery in one write: the RPC reads it all into the library, and the descriptor
 * has nothing more to say. */
static void deliver_with_consume_ok(
	struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD)
		return;
	for (uint64_t tag = 1; tag <= 3; tag++) {
		frame_put_deliver(&e->out, tag);
		frame_put_header(&e->out, 5, NULL);
		frame_put_body(&e->out, "hello");
	}
}

START_TEST(frames_that_wait_inside_the_library_are_drained)
{
	struct fake_peer *k = fake_peer_start(bus_config, deliver_with_consume_ok);
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait(c, c->count[BUS_DELIVERY] == 3, 3);
	ck_assert_int_eq(bus_user_find(c, BUS_SUB_UP, 0)->next->kind, BUS_DELIVERY);
	/* The run is acked with one frame. */
	for (uint64_t tag = 1; tag <= 3; tag++)
		bus_ack(c->bus, 1, tag);
	bus_flush(c->bus);
	bus_user_wait(c, k->seen_ack == 1, 3);
	ck_assert_uint_eq(k->last_tag, 3);
	bus_user_stop(c);
	ck_assert_int_eq(k->seen_ack, 1);
	fake_peer_stop(k);
}
END_TEST

static struct fake_peer_end *_Atomic half_end;

static void deliver_half(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD)
		return;
	frame_put_deliver(&e->out, 1);
	frame_put_header(&e->out, 5, NULL);
	frame_put_body(&e->out, "hello");
	frame_put_deliver(&e->out, 2);
	frame_put_header(&e->out, 10, NULL);
	frame_put_body(&e->out, "01234");
	half_end = e;
}

START_TEST(a_delivery_whose_body_does_not_come_blocks_nothing)
{
	struct fake_peer *k = fake_peer_start(bus_config, deliver_half);
	struct buf rest = {0};
	struct bus_user *c;

	k->heartbeat_s = 1;
	bus_config->amqp.heartbeat_s = 1;
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 3);
	bus_ack(c->bus, 1, 1);
	bus_flush(c->bus);
	bus_user_wait(c, k->seen_ack == 1 && k->heartbeats >= 2, 5); /* acks and heartbeats still go out */
	ck_assert_int_lt(bus_user_health(c).sub_progress_age_us, SECOND);
	ck_assert_int_eq(c->count[BUS_DELIVERY], 1);
	/* the rest, if the silence was not too long for the heartbeat */
	if (bus_user_health(c).sub_up) {
		frame_put_body(&rest, "56789");
		fake_peer_send(half_end, &rest);
		bus_user_wait(c, c->count[BUS_DELIVERY] == 2 || c->count[BUS_SUB_DOWN], 3);
	}
	bus_user_stop(c);
	buf_fini(&rest);
	fake_peer_stop(k);
}
END_TEST

/* A table with one field of a kind that does not exist. */
static void deliver_undecodable(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	struct buf table = {0};

	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD || e->fake->seen_reject)
		return;
	frame_put_int(&table, 7, 4);
	frame_put_short(&table, "a");
	frame_put_int(&table, '?', 1);
	frame_put_int(&table, 1, 4);
	frame_put_deliver(&e->out, 1);
	frame_put_header(&e->out, 5, &table);
	frame_put_body(&e->out, "hello");
	buf_fini(&table);
}

START_TEST(properties_that_cannot_be_decoded_are_rejected_for_good) /* proves L1-15 */
{
	struct fake_peer *k = fake_peer_start(bus_config, deliver_undecodable);
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait(
		c, k->seen_reject == 1 && bus_user_health(c).reconnects == 1 && c->count[BUS_SUB_UP] > 0, 5);
	ck_assert_uint_eq(k->last_tag, 1);
	ck_assert_int_eq(c->count[BUS_DELIVERY], 0);
	bus_user_stop(c);
	fake_peer_stop(k);
}
END_TEST

/* Arrays in arrays, as deep as a frame has room: librabbitmq decodes them by recursion. */
static void deliver_deep(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	struct buf table = {0};
	uint64_t depth = 26000;

	(void)args;
	(void)size;
	if (id != AMQP_BASIC_CONSUME_METHOD)
		return;
	frame_put_int(&table, 2 + 5 * depth, 4);
	frame_put_short(&table, "a");
	for (uint64_t i = 1; i <= depth; i++) {
		frame_put_int(&table, 'A', 1);
		frame_put_int(&table, 5 * (depth - i), 4);
	}
	frame_put_deliver(&e->out, 1);
	frame_put_header(&e->out, 5, &table);
	frame_put_body(&e->out, "hello");
	buf_fini(&table);
}

START_TEST(headers_nested_as_deep_as_a_frame_allows_do_no_harm) /* proves L1-15 */
{
	struct fake_peer *k = fake_peer_start(bus_config, deliver_deep);
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait(c, c->count[BUS_DELIVERY] == 1 || k->seen_reject, 10);
	bus_user_stop(c);
	fake_peer_stop(k);
}
END_TEST

/* --- confirms --- */

/* Confirms as an unkind broker may order them: 3 alone, a nack of 1 and 2, then all of the rest by tag 0. */
static void confirm_oddly(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id != AMQP_BASIC_PUBLISH_METHOD || e->fake->seen_publish + 1 != 6)
		return;
	frame_put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 3, false);
	frame_put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 3, false); /* again */
	frame_put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 77, true); /* never published */
	frame_put_confirm(&e->out, AMQP_BASIC_NACK_METHOD, 2, true);
	frame_put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, 0, true);
}

START_TEST(confirms_in_any_order_settle_each_message_once) /* proves L1-07 */
{
	struct fake_peer *k = fake_peer_start(bus_config, confirm_oddly);
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o = bus_kit_outs_new(6, "a", "{}", 2);

	bus_user_wait_up(c);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->settled_count == 6, 5);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(o[i].status, i < 2 ? BUS_NACKED : BUS_CONFIRMED);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	bus_user_stop(c);
	fake_peer_stop(k);
	free(o);
}
END_TEST

/* Never confirms the first message, and every other one at once. */
static void confirm_all_but_first(
	struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id == AMQP_BASIC_PUBLISH_METHOD && e->fake->seen_publish > 0)
		frame_put_confirm(&e->out, AMQP_BASIC_ACK_METHOD, (uint64_t)e->fake->seen_publish + 1, false);
}

START_TEST(unconfirmed_message_does_not_stop_the_others) /* proves L1-21 */
{
	struct fake_peer *k = fake_peer_start(bus_config, confirm_all_but_first);
	struct bus_out *o = bus_kit_outs_new(2000, "a", "{}", 2);
	struct bus_user *c;

	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->settled_count == 1999, 20);
	for (size_t i = 0; i < 1999; i++)
		ck_assert_ptr_eq(c->settled[i], &o[i + 1]);
	bus_drop_pub(c->bus, "the oldest is too old");
	bus_user_wait(c, c->settled_count == 2000, 5);
	ck_assert_int_eq(o[0].status, BUS_LOST);
	bus_user_stop(c);
	fake_peer_stop(k);
	free(o);
}
END_TEST

/* --- connections --- */

/* A broker that takes its time to say yes. */
static void confirm_select_slowly(
	struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)e;
	(void)args;
	(void)size;
	if (id == AMQP_CONFIRM_SELECT_METHOD)
		poll(NULL, 0, 500);
}

static struct bus *watched;
static _Atomic int64_t first_progress_age_us, first_frame_age_us;

/* From the wake-up itself: the one moment at which a new connection is up and its thread did not come
 * round yet. */
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
	struct fake_peer *k = fake_peer_start(bus_config, confirm_select_slowly);
	int64_t end_us = clock_boot_us() + 25 * SECOND;
	struct bus_in *in;

	first_progress_age_us = -1;
	watched = bus_new(bus_config, look_at_health, NULL);
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
	fake_peer_stop(k);
}
END_TEST

static void send_rubbish(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size)
{
	(void)args;
	(void)size;
	if (id == AMQP_BASIC_CONSUME_METHOD && e->fake->count < 6)
		frame_put_body(&e->out, "nobody announced me");
	if (id == AMQP_CONFIRM_SELECT_METHOD && e->fake->count < 6)
		buf_add(&e->out, "\x09\x00\x01\xff\xff\xff\xff rubbish", 15);
}

START_TEST(bytes_that_are_no_amqp_cost_the_connection_and_no_more) /* proves L1-15 */
{
	struct fake_peer *k = fake_peer_start(bus_config, send_rubbish);
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait(c,
		k->count >= 6 && bus_user_health(c).reconnects >= 4 && bus_user_health(c).sub_up &&
			bus_user_health(c).pub_up,
		10);
	bus_user_stop(c);
	fake_peer_stop(k);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, frames_that_wait_inside_the_library_are_drained);
	tcase_add_test(t, a_delivery_whose_body_does_not_come_blocks_nothing);
	tcase_add_test(t, properties_that_cannot_be_decoded_are_rejected_for_good);
	tcase_add_test(t, headers_nested_as_deep_as_a_frame_allows_do_no_harm);
	tcase_add_test(t, confirms_in_any_order_settle_each_message_once);
	tcase_add_test(t, unconfirmed_message_does_not_stop_the_others);
	tcase_add_test(t, a_connection_that_took_long_to_make_is_young_all_the_same);
	tcase_add_test(t, bytes_that_are_no_amqp_cost_the_connection_and_no_more);
}

int main(void)
{
	return bus_suite_run("bus_odd_frames", 40, add_tests);
}
