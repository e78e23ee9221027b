/* SPDX-License-Identifier: MIT */
/* test_notify.c: what the service manager gets to hear, and that nobody waits for it. */
#include "hcpd/notify.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ENOUGH = 100000 }; /* no queue is that long */

static int fd;
static char name[100];

static void bind_socket(bool is_abstract)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	size_t size;

	snprintf(name, sizeof name, "%s/tmp/hcpd-test-notify-%d", is_abstract ? "@" : "", (int)getpid());
	size = strlen(name);
	memcpy(sun.sun_path, name, size);
	if (is_abstract)
		sun.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&sun,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
		0);
	setenv("NOTIFY_SOCKET", name, 1);
}

static void teardown(void)
{
	if (fd >= 0)
		close(fd);
	if (name[0] == '/')
		unlink(name);
	fd = -1;
}

static const char *hear(void)
{
	static char text[200];
	ssize_t n = recv(fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

START_TEST(notify_reaches_a_path_and_an_abstract_name)
{
	bind_socket(_i == 1);
	ck_assert_int_eq(notify_send("STATUS=all is well"), 1);
	ck_assert_str_eq(hear(), "STATUS=all is well");
	ck_assert_str_eq(hear(), "");
}
END_TEST

START_TEST(notify_does_not_wait_for_a_manager_that_does_not_read)
{
	int n = 0, rc;

	bind_socket(false);
	while ((rc = notify_send("WATCHDOG=1")) == 1 && n < ENOUGH)
		n++;
	ck_assert_int_eq(rc, -EAGAIN);
	ck_assert_str_eq(hear(), "WATCHDOG=1");
	ck_assert_int_eq(notify_send("WATCHDOG=1"), 1);
}
END_TEST

START_TEST(notify_without_a_manager_does_nothing)
{
	unsetenv("NOTIFY_SOCKET");
	ck_assert_int_eq(notify_send("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	ck_assert_int_eq(notify_send("READY=1"), -EINVAL);
	setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	ck_assert_int_eq(notify_send("READY=1"), -ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("notify");
	TCase *tc = tcase_create("all");
	SRunner *runner;
	int failed;

	fd = -1;
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_loop_test(tc, notify_reaches_a_path_and_an_abstract_name, 0, 2);
	tcase_add_test(tc, notify_does_not_wait_for_a_manager_that_does_not_read);
	tcase_add_test(tc, notify_without_a_manager_does_nothing);
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
