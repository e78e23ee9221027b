/* test_bus_commands.c: the bus against a real RabbitMQ: topology, log-in, and commands from delivery to ack.
 */
#include "bus_suite.h"

/* --- deliveries --- */

START_TEST(commands_are_delivered_and_stay_until_acked) /* proves L1-03 L1-05 */
{
	amqp_connection_state_t k = peer_open();
	struct core *c = core_start(config);
	struct bus_in *in;

	core_wait_up(c);
	peer_command(k, "one", 3);
	peer_command(k, "two", 3);
	peer_command(k, "three", 5);
	core_wait(c, c->count[BUS_DELIVERY] == 3, 10);
	in = core_find(c, BUS_DELIVERY, 1);
	ck_assert_uint_eq(in->size, 3);
	ck_assert_mem_eq(in->body, "two", 3);
	ck_assert(in->has_user);
	ck_assert_str_eq(in->user, kit_user);
	bus_ack(c->bus, in->life, core_find(c, BUS_DELIVERY, 0)->tag);
	core_stop(c);
	/* Acked is gone, the other two are there again. */
	c = core_start(config);
	core_wait(c, c->count[BUS_DELIVERY] == 2, 10);
	in = core_find(c, BUS_DELIVERY, 0);
	ck_assert_mem_eq(in->body, "two", 3);
	c->auto_ack = true;
	bus_ack(c->bus, in->life, in->tag);
	bus_ack(c->bus, in->life, core_find(c, BUS_DELIVERY, 1)->tag);
	core_stop(c);
	ck_assert_int_eq(peer_ready(k, kit_queue()), 0);
	peer_close(k);
}
END_TEST

START_TEST(acks_may_come_in_any_order_and_rejects_in_between)
{
	amqp_connection_state_t k = peer_open();
	struct core *c = core_start(config);
	uint32_t life;

	core_wait_up(c);
	for (int i = 0; i < 8; i++)
		peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == 8, 10);
	life = core_find(c, BUS_DELIVERY, 0)->life;
	bus_ack(c->bus, life, 5); /* behind a hole */
	bus_reject(c->bus, life, 2);
	bus_flush(c->bus);
	bus_ack(c->bus, life, 1);
	bus_reject(c->bus, life, 3); /* the run 1..3 ends in a tag that the broker no longer holds */
	bus_flush(c->bus);
	bus_ack(c->bus, life, 4);
	bus_ack(c->bus, life, 4); /* twice, and strangers: ignored, or the channel would be closed */
	bus_ack(c->bus, life + 1, 6);
	bus_ack(c->bus, life, 999);
	bus_flush(c->bus);
	peer_command(k, "y", 1); /* comes only if the channel lives */
	core_wait(c, c->count[BUS_DELIVERY] == 9, 10);
	core_stop(c);
	ck_assert_int_eq(peer_ready(k, kit_queue()), 4); /* 6, 7, 8, 9 */
	peer_close(k);
}
END_TEST

START_TEST(one_unanswered_delivery_does_not_stop_the_others)
{
	amqp_connection_state_t k = peer_open();
	struct core *c;
	int n = 500;

	config->amqp.prefetch = 4;
	c = core_start(config);
	core_wait_up(c);
	peer_command(k, "held", 4);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	c->auto_ack = true;
	for (int i = 0; i < n; i++)
		peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == n + 1, 20);
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 0);
	core_stop(c);
	ck_assert_int_eq(peer_ready(k, kit_queue()), 1);
	peer_close(k);
}
END_TEST

START_TEST(a_command_over_the_limit_comes_without_its_body) /* proves L1-15 */
{
	amqp_connection_state_t k = peer_open();
	char *large = malloc(300001);
	struct core *c;

	memset(large, 'x', 300001);
	config->max_message = 300000;
	c = core_start(config);
	core_wait_up(c);
	peer_command(k, large, 300001);
	peer_command(k, large, 300000);
	core_wait(c, c->count[BUS_DELIVERY] == 2, 10);
	ck_assert_ptr_null(core_find(c, BUS_DELIVERY, 0)->body);
	ck_assert_uint_eq(core_find(c, BUS_DELIVERY, 0)->size, 300001);
	ck_assert_mem_eq(core_find(c, BUS_DELIVERY, 1)->body, large, 300000);
	bus_reject(c->bus, 1, 1);
	bus_ack(c->bus, 1, 2);
	core_stop(c);
	ck_assert_int_eq(peer_ready(k, kit_queue()), 0);
	peer_close(k);
	free(large);
}
END_TEST

/* --- the queue --- */

START_TEST(a_deleted_queue_is_declared_and_consumed_again) /* proves L1-22 */
{
	amqp_connection_state_t k = peer_open();
	struct core *c = core_start(config);

	core_wait_up(c);
	amqp_queue_delete(k, 1, amqp_cstring_bytes(kit_queue()), 0, 0);
	core_wait(c, c->count[BUS_SUB_DOWN] == 1 && c->count[BUS_SUB_UP] == 2, 10);
	peer_command(k, "again", 5);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	ck_assert_int_eq(c->count[BUS_PUB_DOWN], 0);
	core_stop(c);
	peer_close(k);
}
END_TEST

START_TEST(two_daemons_do_not_share_a_queue) /* proves L1-03 */
{
	amqp_connection_state_t k = peer_open();
	struct core *c = core_start(config), *second;
	struct bus_in *down;

	core_wait_up(c);
	second = core_start(config);
	core_wait(second, second->count[BUS_SUB_DOWN] == 1, 10);
	down = core_find(second, BUS_SUB_DOWN, 0);
	ck_assert_msg(
		strstr(down->text, "exclusive use") && strstr(down->text, kit_queue()), "%s", down->text);
	ck_assert(down->first);
	ck_assert_int_eq(down->code, 403);
	core_stop(c);
	core_wait(second, second->count[BUS_SUB_UP] == 1, 10); /* retried until it was free */
	ck_assert_int_eq(second->count[BUS_SUB_DOWN], 1);
	ck_assert_int_eq(second->count[BUS_MISCONFIGURED], 0);
	peer_command(k, "x", 1);
	core_wait(second, second->count[BUS_DELIVERY] == 1, 10);
	core_stop(second);
	peer_close(k);
}
END_TEST

START_TEST(a_queue_with_other_arguments_is_told_once) /* proves L1-03 */
{
	amqp_connection_state_t k = peer_open();
	struct core *c;
	struct bus_in *in;
	int64_t end_us;

	ck_assert(peer_declare(k, kit_queue(), "x-max-length", "10"));
	c = core_start(config);
	core_wait(c, c->count[BUS_MISCONFIGURED] == 1, 10);
	in = core_find(c, BUS_MISCONFIGURED, 0);
	ck_assert_msg(strstr(in->text, kit_queue()) && strstr(in->text, "x-max-length") &&
			strstr(in->text, "policy"),
		"%s", in->text);
	ck_assert(in->first);
	ck_assert_int_eq(in->code, 406);
	end_us = clock_boot_us() + SECOND; /* some five quiet retries */
	while (clock_boot_us() < end_us) {
		core_doze(c, 50);
		core_take(c);
	}
	ck_assert_int_eq(c->count[BUS_MISCONFIGURED], 1);
	ck_assert_int_eq(c->count[BUS_SUB_DOWN], 1);
	amqp_queue_delete(k, 1, amqp_cstring_bytes(kit_queue()), 0, 0);
	core_wait(c, c->count[BUS_SUB_UP] == 1, 10);
	core_stop(c);
	peer_close(k);
}
END_TEST

START_TEST(a_classic_queue_declared_without_a_type_is_accepted)
{
	amqp_connection_state_t k = peer_open();
	struct core *c;

	ck_assert(peer_declare(k, kit_queue(), NULL, NULL));
	c = core_start(config);
	core_wait(c, c->count[BUS_SUB_UP] == 1, 10);
	ck_assert_int_eq(c->count[BUS_MISCONFIGURED] + c->count[BUS_SUB_DOWN], 0);
	core_stop(c);
	peer_close(k);
}
END_TEST

START_TEST(a_quorum_queue_where_classic_is_configured_is_told_with_the_key_to_change)
{
	amqp_connection_state_t k = peer_open();
	struct core *c;
	struct bus_in *in;

	ck_assert(peer_declare(k, kit_queue(), "x-queue-type", "quorum"));
	c = core_start(config);
	core_wait(c, c->count[BUS_MISCONFIGURED] == 1, 10);
	in = core_find(c, BUS_MISCONFIGURED, 0);
	ck_assert_msg(
		strstr(in->text, "x-queue-type") && strstr(in->text, "queue_type = quorum"), "%s", in->text);
	core_stop(c);
	peer_close(k);
}
END_TEST

START_TEST(the_command_queue_is_quorum_where_configured) /* proves L1-11 */
{
	amqp_connection_state_t k = peer_open();
	amqp_table_entry_t args[2] = {{.key = amqp_cstring_bytes("x-queue-type")},
		{.key = amqp_cstring_bytes("x-single-active-consumer")}};
	struct core *c;

	config->amqp.queue_type = QUEUE_QUORUM;
	c = core_start(config);
	core_wait_up(c);
	peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	args[0].value.kind = AMQP_FIELD_KIND_UTF8;
	args[0].value.value.bytes = amqp_cstring_bytes("quorum");
	args[1].value.kind = AMQP_FIELD_KIND_BOOLEAN;
	args[1].value.value.boolean = 1;
	/* Declaring it with the same arguments is accepted; with one less it is not. */
	ck_assert_ptr_nonnull(amqp_queue_declare(
		k, 1, amqp_cstring_bytes(kit_queue()), 0, 1, 0, 0, (amqp_table_t){2, args}));
	ck_assert_ptr_null(amqp_queue_declare(
		k, 1, amqp_cstring_bytes(kit_queue()), 0, 1, 0, 0, (amqp_table_t){1, args}));
	core_stop(c);
	amqp_destroy_connection(k);
}
END_TEST

/* --- logging in --- */

START_TEST(a_user_who_may_not_declare_is_content_with_what_exists)
{
	amqp_connection_state_t k = peer_open();
	struct core *c = core_start(config); /* makes everything */
	char poor[32];

	core_wait_up(c);
	core_stop(c);
	snprintf(poor, sizeof poor, "poor%d", (int)getpid());
	if (strcmp(kit_vhost, "/") == 0) {
		printf("skipped: needs a broker that can be asked (HCP_TEST_BROKER_DIR)\n");
		peer_close(k);
		return;
	}
	ck_assert(
		kit_eval("rabbit_auth_backend_internal:add_user(<<\"%s\">>, <<\"pw\">>, <<\"t\">>).", poor));
	ck_assert(
		kit_eval("rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, <<\"^$\">>, "
			 "<<\"^hcp.events$\">>, <<\"^hcp.cmd.*\">>, <<\"t\">>).",
			poor, kit_vhost));
	config->amqp.user = poor;
	config->amqp.password = (char *)(uintptr_t) "pw";
	c = core_start(config);
	core_wait_up(c);
	peer_command(k, "x", 1);
	core_wait(c, c->count[BUS_DELIVERY] == 1, 10);
	core_stop(c);
	ck_assert(kit_eval("rabbit_auth_backend_internal:delete_user(<<\"%s\">>, <<\"t\">>).", poor));
	peer_close(k);
}
END_TEST

START_TEST(a_refused_log_in_is_told_without_the_password) /* proves L1-14 */
{
	struct core *c;
	struct bus_in *in;

	config->amqp.password = (char *)(uintptr_t) "sesame-99";
	c = core_start(config);
	core_wait(c, c->count[BUS_PUB_DOWN] == 1 && c->count[BUS_SUB_DOWN] == 1, 15);
	in = core_find(c, BUS_PUB_DOWN, 0);
	ck_assert_msg(in->code == 403 && in->first && strstr(in->text, kit_user) &&
			strstr(in->text, "check user, password"),
		"%s", in->text);
	ck_assert_ptr_null(strstr(in->text, "sesame"));
	core_stop(c);
}
END_TEST

START_TEST(a_virtual_host_that_is_not_there_is_named) /* proves L1-14 */
{
	struct core *c;

	config->amqp.vhost = (char *)(uintptr_t) "/nowhere";
	c = core_start(config);
	core_wait(c, c->count[BUS_PUB_DOWN] == 1, 15);
	ck_assert_msg(strstr(core_find(c, BUS_PUB_DOWN, 0)->text, "/nowhere"), "%s",
		core_find(c, BUS_PUB_DOWN, 0)->text);
	core_stop(c);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, commands_are_delivered_and_stay_until_acked);
	tcase_add_test(t, acks_may_come_in_any_order_and_rejects_in_between);
	tcase_add_test(t, one_unanswered_delivery_does_not_stop_the_others);
	tcase_add_test(t, a_command_over_the_limit_comes_without_its_body);
	tcase_add_test(t, a_deleted_queue_is_declared_and_consumed_again);
	tcase_add_test(t, two_daemons_do_not_share_a_queue);
	tcase_add_test(t, a_queue_with_other_arguments_is_told_once);
	tcase_add_test(t, a_classic_queue_declared_without_a_type_is_accepted);
	tcase_add_test(t, a_quorum_queue_where_classic_is_configured_is_told_with_the_key_to_change);
	tcase_add_test(t, the_command_queue_is_quorum_where_configured);
	tcase_add_test(t, a_user_who_may_not_declare_is_content_with_what_exists);
	tcase_add_test(t, a_refused_log_in_is_told_without_the_password);
	tcase_add_test(t, a_virtual_host_that_is_not_there_is_named);
}

int main(void)
{
	return bus_suite_run("bus_commands", 90, add_tests);
}
