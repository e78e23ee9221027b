/* SPDX-License-Identifier: MIT */
/* test_bus_commands.c: the bus against a real RabbitMQ: topology, log-in, and commands from delivery to
 * ack. */
#include "support/bus_suite.h"

/* --- deliveries --- */

START_TEST(commands_are_delivered_and_stay_until_acked) /* proves L1-03 L1-05 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	struct bus_in *in;

	bus_user_wait_up(c);
	bus_client_command(k, "one", 3);
	bus_client_command(k, "two", 3);
	bus_client_command(k, "three", 5);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 3, 10);
	in = bus_user_find(c, BUS_DELIVERY, 1);
	ck_assert_uint_eq(in->size, 3);
	ck_assert_mem_eq(in->body, "two", 3);
	ck_assert(in->has_user);
	ck_assert_str_eq(in->user, bus_kit_user);
	bus_ack(c->bus, in->generation, bus_user_find(c, BUS_DELIVERY, 0)->tag);
	bus_user_stop(c);
	/* Acked is gone, the other two are there again. */
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 2, 10);
	in = bus_user_find(c, BUS_DELIVERY, 0);
	ck_assert_mem_eq(in->body, "two", 3);
	c->auto_ack = true;
	bus_ack(c->bus, in->generation, in->tag);
	bus_ack(c->bus, in->generation, bus_user_find(c, BUS_DELIVERY, 1)->tag);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 0);
	bus_client_close(k);
}
END_TEST

START_TEST(acks_may_come_in_any_order_and_rejects_in_between)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);
	uint32_t generation;

	bus_user_wait_up(c);
	for (int i = 0; i < 8; i++)
		bus_client_command(k, "x", 1);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 8, 10);
	generation = bus_user_find(c, BUS_DELIVERY, 0)->generation;
	bus_ack(c->bus, generation, 5); /* behind a hole */
	bus_reject(c->bus, generation, 2);
	bus_flush(c->bus);
	bus_ack(c->bus, generation, 1);
	bus_reject(c->bus, generation, 3); /* the run 1..3 ends in a tag that the broker no longer holds */
	bus_flush(c->bus);
	bus_ack(c->bus, generation, 4);
	bus_ack(c->bus, generation, 4); /* twice, and strangers: ignored, or the channel would be closed */
	bus_ack(c->bus, generation + 1, 6);
	bus_ack(c->bus, generation, 999);
	bus_flush(c->bus);
	bus_client_command(k, "y", 1); /* comes only if the channel lives */
	bus_user_wait(c, c->count[BUS_DELIVERY] == 9, 10);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 4); /* 6, 7, 8, 9 */
	bus_client_close(k);
}
END_TEST

/* Nobody wakes the thread for one ack of eight: it goes out at the end of a nap, also after it slept for
 * long. */
START_TEST(a_single_ack_waits_for_a_nap_at_most)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c;
	uint32_t generation;

	bus_config->amqp.prefetch = 8;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	for (int i = 0; i < 10; i++)
		bus_client_command(k, "x", 1);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 8, 10);
	generation = bus_user_find(c, BUS_DELIVERY, 0)->generation;
	bus_ack(c->bus, generation, 1);
	bus_flush(c->bus);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 9, 4); /* the heartbeat would wake it later */
	bus_ack(c->bus, generation, 2);
	bus_flush(c->bus);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 10, 4);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 8);
	bus_client_close(k);
}
END_TEST

START_TEST(unanswered_delivery_does_not_stop_the_others)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c;
	int n = 500;

	bus_config->amqp.prefetch = 4;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	bus_client_command(k, "held", 4);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	c->auto_ack = true;
	for (int i = 0; i < n; i++)
		bus_client_command(k, "x", 1);
	bus_user_wait(c, c->count[BUS_DELIVERY] == n + 1, 20);
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 0);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 1);
	bus_client_close(k);
}
END_TEST

START_TEST(a_command_over_the_limit_comes_without_its_body) /* proves L1-15 */
{
	amqp_connection_state_t k = bus_client_open();
	char *large = malloc(300001);
	struct bus_user *c;

	memset(large, 'x', 300001);
	bus_config->max_message = 300000;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	bus_client_command(k, large, 300001);
	bus_client_command(k, large, 300000);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 2, 10);
	ck_assert_ptr_null(bus_user_find(c, BUS_DELIVERY, 0)->body);
	ck_assert_uint_eq(bus_user_find(c, BUS_DELIVERY, 0)->size, 300001);
	ck_assert_mem_eq(bus_user_find(c, BUS_DELIVERY, 1)->body, large, 300000);
	bus_reject(c->bus, 1, 1);
	bus_ack(c->bus, 1, 2);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 0);
	bus_client_close(k);
	free(large);
}
END_TEST

/* --- the queue --- */

START_TEST(a_deleted_queue_is_declared_and_consumed_again) /* proves L1-22 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait_up(c);
	amqp_queue_delete(k, 1, amqp_cstring_bytes(bus_kit_queue()), 0, 0);
	bus_user_wait(c, c->count[BUS_SUB_DOWN] == 1 && c->count[BUS_SUB_UP] == 2, 10);
	bus_client_command(k, "again", 5);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	bus_user_stop(c);
	bus_client_close(k);
}
END_TEST

START_TEST(two_daemons_do_not_share_a_queue) /* proves L1-03 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config), *second;
	struct bus_in *down;

	bus_user_wait_up(c);
	second = bus_user_start(bus_config);
	bus_user_wait(second, second->count[BUS_SUB_DOWN] == 1, 10);
	down = bus_user_find(second, BUS_SUB_DOWN, 0);
	ck_assert_msg(
		strstr(down->text, "exclusive use") && strstr(down->text, bus_kit_queue()), "%s", down->text);
	ck_assert(down->first);
	ck_assert_int_eq(down->code, 403);
	bus_user_stop(c);
	bus_user_wait(second, second->count[BUS_SUB_UP] == 1, 10); /* retried until it was free */
	ck_assert_int_eq(second->count[BUS_SUB_DOWN], 1);
	ck_assert_int_eq(second->count[BUS_MISCONFIGURED], 0);
	bus_client_command(k, "x", 1);
	bus_user_wait(second, second->count[BUS_DELIVERY] == 1, 10);
	bus_user_stop(second);
	bus_client_close(k);
}
END_TEST

START_TEST(a_queue_with_other_arguments_is_told_once) /* proves L1-03 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c;
	struct bus_in *in;
	int64_t end_us;

	ck_assert(bus_client_declare(k, bus_kit_queue(), "x-max-length", "10"));
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_MISCONFIGURED] == 1, 10);
	in = bus_user_find(c, BUS_MISCONFIGURED, 0);
	ck_assert_msg(strstr(in->text, bus_kit_queue()) && strstr(in->text, "x-max-length") &&
			strstr(in->text, "policy"),
		"%s", in->text);
	ck_assert(in->first);
	ck_assert_int_eq(in->code, 406);
	end_us = clock_boot_us() + SECOND; /* some five quiet retries */
	while (clock_boot_us() < end_us) {
		bus_user_doze(c, 50);
		bus_user_take(c);
	}
	ck_assert_int_eq(c->count[BUS_MISCONFIGURED], 1);
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 1);
	amqp_queue_delete(k, 1, amqp_cstring_bytes(bus_kit_queue()), 0, 0);
	bus_user_wait(c, c->count[BUS_SUB_UP] == 1, 10);
	bus_user_stop(c);
	bus_client_close(k);
}
END_TEST

START_TEST(a_classic_queue_declared_without_a_type_is_accepted)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c;

	ck_assert(bus_client_declare(k, bus_kit_queue(), NULL, NULL));
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_SUB_UP] == 1, 10);
	ck_assert_int_eq(c->count[BUS_MISCONFIGURED] + c->count[BUS_SUB_DOWN], 0);
	bus_user_stop(c);
	bus_client_close(k);
}
END_TEST

START_TEST(quorum_queue_instead_of_classic_is_told_with_the_key)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c;
	struct bus_in *in;

	ck_assert(bus_client_declare(k, bus_kit_queue(), "x-queue-type", "quorum"));
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_MISCONFIGURED] == 1, 10);
	in = bus_user_find(c, BUS_MISCONFIGURED, 0);
	ck_assert_msg(
		strstr(in->text, "x-queue-type") && strstr(in->text, "queue_type = quorum"), "%s", in->text);
	bus_user_stop(c);
	bus_client_close(k);
}
END_TEST

START_TEST(the_command_queue_is_quorum_where_configured) /* proves L1-11 */
{
	amqp_connection_state_t k = bus_client_open();
	amqp_table_entry_t args[2] = {{.key = amqp_cstring_bytes("x-queue-type")},
		{.key = amqp_cstring_bytes("x-single-active-consumer")}};
	struct bus_user *c;

	bus_config->amqp.queue_type = QUEUE_QUORUM;
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	bus_client_command(k, "x", 1);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	args[0].value.kind = AMQP_FIELD_KIND_UTF8;
	args[0].value.value.bytes = amqp_cstring_bytes("quorum");
	args[1].value.kind = AMQP_FIELD_KIND_BOOLEAN;
	args[1].value.value.boolean = 1;
	/* Declaring it with the same arguments is accepted; with one less it is not. */
	ck_assert_ptr_nonnull(amqp_queue_declare(
		k, 1, amqp_cstring_bytes(bus_kit_queue()), 0, 1, 0, 0, (amqp_table_t){2, args}));
	ck_assert_ptr_null(amqp_queue_declare(
		k, 1, amqp_cstring_bytes(bus_kit_queue()), 0, 1, 0, 0, (amqp_table_t){1, args}));
	bus_user_stop(c);
	amqp_destroy_connection(k);
}
END_TEST

/* --- logging in --- */

START_TEST(a_user_who_may_not_declare_is_content_with_what_exists)
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(bus_config); /* makes everything */
	char poor[32];

	bus_user_wait_up(c);
	bus_user_stop(c);
	snprintf(poor, sizeof poor, "poor%d", (int)getpid());
	if (strcmp(bus_kit_vhost, "/") == 0) {
		printf("skipped: needs a broker that can be asked (HCP_TEST_BROKER_DIR)\n");
		bus_client_close(k);
		return;
	}
	ck_assert(bus_kit_eval(
		"rabbit_auth_backend_internal:add_user(<<\"%s\">>, <<\"pw\">>, <<\"t\">>).", poor));
	ck_assert(bus_kit_eval(
		"rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, <<\"^$\">>, "
		"<<\"^hcp.events$\">>, <<\"^hcp.cmd.*\">>, <<\"t\">>).",
		poor, bus_kit_vhost));
	bus_config->amqp.user = poor;
	bus_config->amqp.password = (char *)(uintptr_t) "pw";
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	bus_client_command(k, "x", 1);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	bus_user_stop(c);
	ck_assert(bus_kit_eval("rabbit_auth_backend_internal:delete_user(<<\"%s\">>, <<\"t\">>).", poor));
	bus_client_close(k);
}
END_TEST

START_TEST(a_refused_log_in_is_told_without_the_password) /* proves L1-14 */
{
	struct bus_user *c;
	struct bus_in *in;

	bus_config->amqp.password = (char *)(uintptr_t) "sesame-99";
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 15);
	in = bus_user_find(c, BUS_PUB_DOWN, 0);
	ck_assert_msg(in->code == 403 && in->first && strstr(in->text, bus_kit_user) &&
			strstr(in->text, "check user, password"),
		"%s", in->text);
	ck_assert_ptr_null(strstr(in->text, "sesame"));
	bus_user_stop(c);
}
END_TEST

START_TEST(a_virtual_host_that_is_not_there_is_named) /* proves L1-14 */
{
	struct bus_user *c;

	bus_config->amqp.vhost = (char *)(uintptr_t) "/nowhere";
	c = bus_user_start(bus_config);
	bus_user_wait(c, c->count[BUS_PUB_DOWN] == 1, 15);
	ck_assert_msg(strstr(bus_user_find(c, BUS_PUB_DOWN, 0)->text, "/nowhere"), "%s",
		bus_user_find(c, BUS_PUB_DOWN, 0)->text);
	bus_user_stop(c);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, commands_are_delivered_and_stay_until_acked);
	tcase_add_test(t, acks_may_come_in_any_order_and_rejects_in_between);
	tcase_add_test(t, unanswered_delivery_does_not_stop_the_others);
	tcase_add_test(t, a_single_ack_waits_for_a_nap_at_most);
	tcase_add_test(t, a_command_over_the_limit_comes_without_its_body);
	tcase_add_test(t, a_deleted_queue_is_declared_and_consumed_again);
	tcase_add_test(t, two_daemons_do_not_share_a_queue);
	tcase_add_test(t, a_queue_with_other_arguments_is_told_once);
	tcase_add_test(t, a_classic_queue_declared_without_a_type_is_accepted);
	tcase_add_test(t, quorum_queue_instead_of_classic_is_told_with_the_key);
	tcase_add_test(t, the_command_queue_is_quorum_where_configured);
	tcase_add_test(t, a_user_who_may_not_declare_is_content_with_what_exists);
	tcase_add_test(t, a_refused_log_in_is_told_without_the_password);
	tcase_add_test(t, a_virtual_host_that_is_not_there_is_named);
}

int main(void)
{
	return bus_suite_run("bus_commands", 90, add_tests);
}
