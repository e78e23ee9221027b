/* SPDX-License-Identifier: MIT */
/* test_bus_stop.c: the bus ends in bounded time, whatever the broker does meanwhile. */
#include "support/bus_suite.h"

static void assert_stops_within(struct bus_user *c, double seconds)
{
	int64_t began_us = clock_boot_us();
	double took;

	bus_user_stop(c);
	took = (double)(clock_boot_us() - began_us) / 1e6;
	ck_assert_msg(took < seconds, "%.2f s", took);
}

START_TEST(stopping_is_quick_when_all_is_well)
{
	struct bus_user *c = bus_user_start(bus_config);

	bus_user_wait_up(c);
	assert_stops_within(c, 0.5);
}
END_TEST

START_TEST(stopping_is_bounded_when_the_broker_stands_still)
{
	const char *pid = getenv("HCP_TEST_BROKER_PID");
	size_t size = 100000;
	char *body = calloc(1, size);
	struct bus_out *o = bus_kit_outs_new(400, "a", body, size);
	struct bus_user *c;

	if (!pid) {
		printf("skipped: HCP_TEST_BROKER_PID is not set\n");
		return;
	}
	c = bus_user_start(bus_config);
	bus_user_wait_up(c);
	ck_assert_int_eq(kill(atoi(pid), SIGSTOP), 0);
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_doze(c, 200);
	int64_t began_us = clock_boot_us();
	bus_user_stop(c);
	kill(atoi(pid), SIGCONT);
	ck_assert_int_lt(clock_boot_us() - began_us, 3 * SECOND / 2);
	free(o);
	free(body);
}
END_TEST

START_TEST(stopping_is_bounded_when_a_log_in_hangs)
{
	int port, fd = bus_kit_listen_anywhere(&port, 8); /* accepted by the kernel, answered by nobody */
	struct bus_user *c;

	bus_config->amqp.port = port;
	c = bus_user_start(bus_config);
	bus_user_doze(c, 300);
	assert_stops_within(c, 1.5);
	close(fd);
}
END_TEST

START_TEST(stopping_is_bounded_when_a_connect_hangs)
{
	int port, fd = bus_kit_listen_anywhere(&port, 0), fill[4];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct bus_user *c;

	a.sin_port = htons((uint16_t)port);
	for (int i = 0; i < 4; i++) { /* a full backlog: further SYNs are dropped */
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)!connect(fill[i], (struct sockaddr *)&a, sizeof a);
	}
	bus_config->amqp.port = port;
	c = bus_user_start(bus_config);
	bus_user_doze(c, 300);
	assert_stops_within(c, 1.5);
	for (int i = 0; i < 4; i++)
		close(fill[i]);
	close(fd);
}
END_TEST

START_TEST(stopping_before_starting_is_fine)
{
	bus_user_stop(bus_user_new(bus_config));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, stopping_is_quick_when_all_is_well);
	tcase_add_test(t, stopping_is_bounded_when_the_broker_stands_still);
	tcase_add_test(t, stopping_is_bounded_when_a_log_in_hangs);
	tcase_add_test(t, stopping_is_bounded_when_a_connect_hangs);
	tcase_add_test(t, stopping_before_starting_is_fine);
}

int main(void)
{
	return bus_suite_run("bus_stop", 40, add_tests);
}
