/* SPDX-License-Identifier: MIT */
/* test_bus_publish.c: events to a real RabbitMQ: properties, confirms, returns, nacks, alarms, and what is
 * lost. */
#include "support/bus_suite.h"

static const char *bind_caller(amqp_connection_state_t k, const char *key, const char *value)
{
	static char caller[80], queue[96], pattern[96];

	snprintf(caller, sizeof caller, "caller-%s", bus_kit_callee);
	snprintf(queue, sizeof queue, "hcp.evt.%s", caller);
	snprintf(pattern, sizeof pattern, "%s.#", caller);
	ck_assert(bus_client_declare(k, queue, key, value));
	bus_client_bind(k, queue, "hcp.events", pattern);
	return caller;
}

static const char *caller_queue(void)
{
	static char queue[96];

	snprintf(queue, sizeof queue, "hcp.evt.caller-%s", bus_kit_callee);
	return queue;
}

static bool bytes_are(amqp_bytes_t b, const char *text)
{
	return b.len == strlen(text) && memcmp(b.bytes, text, b.len) == 0;
}

START_TEST(properties_mirror_the_message) /* proves L1-02 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o;
	amqp_message_t m;
	const amqp_basic_properties_t *p = &m.properties;
	amqp_flags_t want = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
		AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG |
		AMQP_BASIC_CONTENT_ENCODING_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_TYPE_FLAG;

	bus_user_wait_up(c);
	o = bus_kit_outs_new(2, bind_caller(k, NULL, NULL), "{\"a\":1}", 7);
	strcpy(o[0].correlation_id, "7d9f8f2e-4c1b-4a77-9d53-0f6f0a7a1c11");
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_CONFIRMED] == 2, 10);
	ck_assert_int_eq(
		amqp_basic_get(k, 1, amqp_cstring_bytes(caller_queue()), 1).reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_int_eq(amqp_read_message(k, 1, &m, 0).reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_uint_eq(p->_flags & want, want);
	ck_assert(bytes_are(p->message_id, "m-0"));
	ck_assert(bytes_are(p->correlation_id, "7d9f8f2e-4c1b-4a77-9d53-0f6f0a7a1c11"));
	ck_assert(bytes_are(p->content_type, "application/json"));
	ck_assert(bytes_are(p->content_encoding, "utf-8"));
	ck_assert(bytes_are(p->type, "event"));
	ck_assert_uint_eq(p->timestamp, 1700000000);
	ck_assert_uint_eq(p->delivery_mode, 2);
	ck_assert(bytes_are(m.body, "{\"a\":1}"));
	amqp_destroy_message(&m);
	ck_assert_int_eq(
		amqp_basic_get(k, 1, amqp_cstring_bytes(caller_queue()), 1).reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_int_eq(amqp_read_message(k, 1, &m, 0).reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_uint_eq(p->_flags & AMQP_BASIC_CORRELATION_ID_FLAG, 0); /* empty: none */
	amqp_destroy_message(&m);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(every_message_is_confirmed_once_and_arrives_in_order) /* proves L1-07 */
{
	enum { N = 20000 };
	static char seen[N];
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o;
	amqp_message_t m;

	bus_user_wait_up(c);
	o = bus_kit_outs_new(N, bind_caller(k, NULL, NULL),
		"0123456789012345678901234567890123456789012345678901234567890123", 64);
	for (int i = 0; i < N; i += 1000) { /* in turns, as a core would */
		o[i + 999].next = NULL;
		bus_publish(c->bus, &o[i]);
		bus_flush(c->bus);
		bus_user_take(c);
	}
	bus_user_wait(c, c->settled_count == N, 60);
	ck_assert_int_eq(c->status[BUS_CONFIRMED], N);
	for (size_t i = 0; i < N; i++) {
		size_t n = (size_t)(c->settled[i] - o);

		ck_assert(!seen[n]);
		seen[n] = 1;
	}
	ck_assert_int_eq(bus_client_ready(k, caller_queue()), N);
	for (int i = 0; i < 2000; i++) {
		char id[16];

		snprintf(id, sizeof id, "m-%d", i);
		amqp_basic_get(k, 1, amqp_cstring_bytes(caller_queue()), 1);
		ck_assert_int_eq(amqp_read_message(k, 1, &m, 0).reply_type, AMQP_RESPONSE_NORMAL);
		ck_assert(bytes_are(m.properties.message_id, id));
		amqp_destroy_message(&m);
	}
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(large_bodies_go_out_in_parts)
{
	amqp_connection_state_t k = bus_client_open();
	size_t size = 900000;
	char *body = malloc(size);
	struct bus_user *c;
	struct bus_out *o;
	amqp_message_t m;

	for (size_t i = 0; i < size; i++)
		body[i] = (char)('a' + i % 23);
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	o = bus_kit_outs_new(3, bind_caller(k, NULL, NULL), body, size);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_CONFIRMED] == 3, 20);
	amqp_basic_get(k, 1, amqp_cstring_bytes(caller_queue()), 1);
	ck_assert_int_eq(amqp_read_message(k, 1, &m, 0).reply_type, AMQP_RESPONSE_NORMAL);
	ck_assert_uint_eq(m.body.len, size);
	ck_assert_mem_eq(m.body.bytes, body, size);
	amqp_destroy_message(&m);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
	free(body);
}
END_TEST

START_TEST(unroutable_messages_are_told_apart) /* proves L1-08 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o;

	bus_user_wait_up(c);
	o = bus_kit_outs_new(3000, bind_caller(k, NULL, NULL), "{}", 2);
	for (int i = 0; i < 3000; i += 3)
		snprintf(o[i].key, sizeof o[i].key, "nobody.s.event");
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->settled_count == 3000, 30);
	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(o[i].status, i % 3 ? BUS_CONFIRMED : BUS_UNROUTABLE);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(a_full_queue_nacks_and_others_go_on) /* proves L1-07 */
{
	amqp_connection_state_t k = bus_client_open();
	amqp_table_entry_t args[2] = {
		{.key = amqp_cstring_bytes("x-max-length")}, {.key = amqp_cstring_bytes("x-overflow")}};
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *full, *fine;
	int taken = 0;

	bus_user_wait_up(c);
	args[0].value.kind = AMQP_FIELD_KIND_I64;
	args[0].value.value.i64 = 5;
	args[1].value.kind = AMQP_FIELD_KIND_UTF8;
	args[1].value.value.bytes = amqp_cstring_bytes("reject-publish");
	ck_assert_ptr_nonnull(
		amqp_queue_declare(k, 1, amqp_cstring_bytes("full"), 0, 0, 0, 0, (amqp_table_t){2, args}));
	bus_client_bind(k, "full", "hcp.events", "full.#");
	full = bus_kit_outs_new(200, "full", "{}", 2);
	fine = bus_kit_outs_new(200, bind_caller(k, NULL, NULL), "{}", 2);
	bus_publish(c->bus, full);
	bus_publish(c->bus, fine);
	bus_flush(c->bus);
	bus_user_wait(c, c->settled_count == 400, 20);
	for (int i = 0; i < 200; i++) {
		taken += full[i].status == BUS_CONFIRMED;
		ck_assert_int_eq(fine[i].status, BUS_CONFIRMED);
	}
	ck_assert_int_eq(c->status[BUS_NACKED], 200 - taken);
	ck_assert_int_eq(bus_client_ready(k, "full"), taken);
	ck_assert_int_lt(taken, 200);
	amqp_queue_delete(k, 1, amqp_cstring_bytes("full"), 0, 0);
	bus_user_stop(c);
	bus_client_close(k);
	free(full);
	free(fine);
}
END_TEST

START_TEST(deleted_exchange_loses_what_is_under_way_and_is_made_again) /* proves L1-21 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o;
	struct bus_in *down;

	bus_user_wait_up(c);
	amqp_exchange_delete(k, 1, amqp_cstring_bytes("hcp.events"), 0);
	o = bus_kit_outs_new(100, "a", "{}", 2);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_PUB_UP] == 2, 10);
	down = bus_user_find(c, BUS_PUB_DOWN, 0);
	ck_assert_int_eq(down->code, 404);
	ck_assert(!down->first);
	ck_assert_msg(strstr(down->text, "hcp.events"), "%s", down->text);
	ck_assert_int_eq(c->status[BUS_LOST], 100);
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 0);
	for (int i = 0; i < 100; i++) /* in order */
		ck_assert_ptr_eq(c->settled[i], &o[i]);
	snprintf(o[0].key, sizeof o[0].key, "%s.s.event", bind_caller(k, NULL, NULL));
	o[0].next = NULL;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_CONFIRMED] == 1, 10);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(an_alarm_stops_publishing_and_loses_nothing)
{
	enum { N = 2000, AFTER = 10 };
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_health h;
	struct bus_out *o;
	int64_t end_us;
	int sent = 0, confirmed;

	bus_user_wait_up(c);
	o = bus_kit_outs_new(N, bind_caller(k, NULL, NULL), "{}", 2);
	if (!bus_kit_eval("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")) {
		printf("skipped: needs a broker that can be asked (HCP_TEST_BROKER_DIR)\n");
	} else {
		/* It stops a connection at the first publish after the alarm has reached it, whenever
		 * that is. */
		for (end_us = clock_boot_us() + 25 * SECOND;
			!c->count[BUS_PUB_BLOCKED] && sent < N - AFTER && clock_boot_us() < end_us;
			bus_user_take(c)) {
			o[sent].next = NULL;
			bus_publish(c->bus, &o[sent++]);
			bus_flush(c->bus);
			bus_user_doze(c, 5);
		}
		bus_publish(c->bus, &o[N - AFTER]); /* these wait in the bus */
		bus_flush(c->bus);
		bus_get_health(c->bus, &h);
		bus_user_doze(c, 200);
		bus_user_take(c);
		confirmed = c->status[BUS_CONFIRMED];
		/* No assertion before the alarm is off again: it would stop every other test. */
		ck_assert(bus_kit_eval("rabbit_alarm:clear_alarm({resource_limit, memory, node()})."));
		ck_assert_int_eq(c->count[BUS_PUB_BLOCKED], 1);
		ck_assert(h.blocked && h.pub_up);
		ck_assert_int_lt(confirmed, sent + AFTER);
		bus_user_wait(c, c->status[BUS_CONFIRMED] == sent + AFTER, 10);
		ck_assert_int_eq(c->count[BUS_PUB_UNBLOCKED], 1);
		ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	}
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(messages_published_while_down_come_back_as_lost)
{
	struct bus_out *o = bus_kit_outs_new(3, "a", "{}", 2);
	struct bus_user *c;
	int port;

	close(bus_kit_listen_anywhere(&port, 1)); /* nobody listens there now */
	bus_config->amqp.port = port;
	c = bus_user_start(bus_config);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_LOST] == 3, 10);
	ck_assert_int_eq(c->count[BUS_SETTLED], 1);
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1, 10);
	ck_assert_msg(strstr(bus_user_find(c, BUS_PUB_DOWN, 0)->text, "refused"), "%s",
		bus_user_find(c, BUS_PUB_DOWN, 0)->text);
	bus_user_stop(c);
	free(o);
}
END_TEST

START_TEST(message_for_a_lost_connection_overtakes_nothing_it_lost) /* proves L1-07 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o;
	struct bus_health h;
	int64_t end_us = clock_boot_us() + 25 * SECOND;

	bus_user_wait_up(c);
	o = bus_kit_outs_new(2, bind_caller(k, NULL, NULL), "{}", 2);
	bus_drop_pub(c->bus, "the test says so");
	/* Down and up again, and this core has not heard of it yet: it did not call bus_take. */
	do {
		ck_assert(clock_boot_us() < end_us);
		bus_user_doze(c, 20);
		bus_get_health(c->bus, &h);
	} while (h.reconnects == 0);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->count[BUS_PUB_UP] == 2 && c->settled_count == 2, 10);
	ck_assert_int_eq(c->status[BUS_LOST], 2);
	ck_assert_msg(strstr(bus_user_find(c, BUS_PUB_DOWN, 0)->text, "the test says so"), "%s",
		bus_user_find(c, BUS_PUB_DOWN, 0)->text);
	ck_assert_int_eq(bus_client_ready(k, caller_queue()), 0);
	o[0].next = NULL;
	bus_publish(c->bus, &o[0]);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_CONFIRMED] == 1, 10);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(the_core_is_woken_once_until_it_takes)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o;
	int64_t end_us;
	int wakes;

	bus_user_wait_up(c);
	bus_user_take(c);
	wakes = c->wakes;
	o = bus_kit_outs_new(2000, bind_caller(k, NULL, NULL), "{}", 2);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	for (end_us = clock_boot_us() + 25 * SECOND; bus_client_ready(k, caller_queue()) < 2000;)
		ck_assert(clock_boot_us() < end_us);
	ck_assert_int_le(c->wakes, wakes + 1);
	bus_user_wait(c, c->status[BUS_CONFIRMED] == 2000, 10);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(publishing_is_fast_enough)
{
	/* No requirement, but a fall by a factor should not go unseen. The figure depends on the broker. */
	enum { N = 30000 };
	static char body[500];
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_out *o = bus_kit_outs_new(N, "nobody-listens", body, sizeof body);
	int64_t began_us;

	bus_user_wait_up(c);
	(void)bind_caller(k, NULL, NULL);
	memset(body, 'x', sizeof body);
	began_us = clock_boot_us();
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->settled_count == N, 60);
	printf("publishing: %.0f messages/s, %d wake-ups\n", N * 1e6 / (double)(clock_boot_us() - began_us),
		c->wakes);
	ck_assert_int_eq(c->status[BUS_UNROUTABLE], N);
	bus_user_stop(c);
	bus_client_close(k);
	free(o);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, properties_mirror_the_message);
	tcase_add_test(t, every_message_is_confirmed_once_and_arrives_in_order);
	tcase_add_test(t, large_bodies_go_out_in_parts);
	tcase_add_test(t, unroutable_messages_are_told_apart);
	tcase_add_test(t, a_full_queue_nacks_and_others_go_on);
	tcase_add_test(t, deleted_exchange_loses_what_is_under_way_and_is_made_again);
	tcase_add_test(t, an_alarm_stops_publishing_and_loses_nothing);
	tcase_add_test(t, messages_published_while_down_come_back_as_lost);
	tcase_add_test(t, message_for_a_lost_connection_overtakes_nothing_it_lost);
	tcase_add_test(t, the_core_is_woken_once_until_it_takes);
	tcase_add_test(t, publishing_is_fast_enough);
}

int main(void)
{
	return bus_suite_run("bus_publish", 90, add_tests);
}
