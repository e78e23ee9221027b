/* SPDX-License-Identifier: MIT */
/* test_control_client.c: what counts as a request of a client of the control socket. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/control_private.h"

static struct control ctl;
static struct client *c;
static int peer_fd;

static void setup(void)
{
	int fds[2];

	memset(&ctl, 0, sizeof ctl);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	c = &ctl.clients[0];
	client_open(&ctl, c, fds[0], 4711);
	peer_fd = fds[1];
}

static void teardown(void)
{
	client_close(&ctl, c);
	close(peer_fd);
}

static void say(const char *text)
{
	ck_assert_int_eq(send(peer_fd, text, strlen(text), 0), (ssize_t)strlen(text));
	client_read(&ctl, c);
	while (client_work(&ctl, c))
		;
}

START_TEST(client_that_sends_empty_lines_has_asked_nothing)
{
	int64_t silent_since = place_silent_at(c);

	say("\n\n\n");
	ck_assert_uint_eq(c->in.size, 0);
	ck_assert(!client_has_output(c));
	ck_assert(!c->has_asked);
	ck_assert_int_eq(place_silent_at(c), silent_since);
	say("{\"id\":1,\"do\":\"dance\"}\n");
	ck_assert(client_has_output(c));
	ck_assert(c->has_asked);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control client");
	TCase *tc = tcase_create("lines");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, client_that_sends_empty_lines_has_asked_nothing);
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
