/* SPDX-License-Identifier: MIT */
/* test_origin.c: a process comes from a session by descent, or by a sign that it or an ancestor carries. */
#include "process/origin.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/worker_rig.h"

/* A process that has mark in its environment and tag (0: none) as its limit, and leads a kernel group of its
 * own. Returns the pid of its child, which has no environment. */
static int start(const char *mark, rlim_t tag)
{
	static const char script[] = "env -i /bin/sh -c 'echo $$; exec sleep 1000' & wait";
	const char *const env[] = {mark, NULL};
	char text[32] = "";
	struct rlimit limit = {.rlim_cur = tag, .rlim_max = RLIM_INFINITY};
	int said[2], pid;

	ck_assert_int_eq(pipe(said), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		dup2(said[1], 1);
		close(said[0]);
		close(said[1]);
		if (tag)
			setrlimit(RLIMIT_LOCKS, &limit);
		execle("/bin/sh", "sh", "-c", script, NULL, env);
		_exit(127);
	}
	close(said[1]);
	ck_assert_int_gt(read(said[0], text, sizeof text - 1), 0);
	close(said[0]);
	return atoi(text);
}

static void stop(int pid)
{
	kill(-getpgid(pid), SIGKILL);
	while (wait(NULL) > 0)
		;
}

/* What a process that is no ancestor of pid finds out. */
static enum origin look_from_aside(int pid, int *child)
{
	int result[2] = {-1, -1}, pipes[2];

	ck_assert_int_eq(pipe(pipes), 0);
	if (fork() == 0) {
		result[0] = (int)origin_find(pid, &result[1]);
		_exit(write(pipes[1], result, sizeof result) == sizeof result ? 0 : 1);
	}
	ck_assert_int_eq((int)read(pipes[0], result, sizeof result), (int)sizeof result);
	close(pipes[0]);
	close(pipes[1]);
	*child = result[1];
	return (enum origin)result[0];
}

/* Kernels before 6.5 have no such option. */
static bool has_peer_pidfd(int fd)
{
	int pidfd = -1;
	socklen_t size = sizeof pidfd;

	if (getsockopt(fd, SOL_SOCKET, 77 /* SO_PEERPIDFD */, &pidfd, &size) == 0)
		close(pidfd);
	else if (errno == ENOPROTOOPT)
		return false;
	return true;
}

START_TEST(descendant_of_a_worker_comes_from_a_session)
{
	int child, pid = start("A=1", 0);

	ck_assert_int_eq((int)origin_find(pid, &child), ORIGIN_SESSION);
	ck_assert_int_eq(child, getpgid(pid));
	ck_assert_int_eq((int)origin_find(getpid(), &child), ORIGIN_OUTSIDE);
	ck_assert_int_eq((int)origin_find(getppid(), &child), ORIGIN_OUTSIDE);
	stop(pid);
}
END_TEST

/* The parent is seen to be gone only after the child was read: the daemon is the new one. */
START_TEST(an_orphan_that_was_adopted_comes_from_a_session)
{
	int child, pid = start("A=1", 0), parent = getpgid(pid);

	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	kill(parent, SIGKILL);
	ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
	ck_assert_int_eq((int)origin_find(pid, &child), ORIGIN_SESSION);
	ck_assert_int_eq(child, pid);
	stop(pid);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}
END_TEST

START_TEST(process_without_a_sign_comes_from_outside)
{
	int child, pid = start("HCP_INSTANCES=1", 0);

	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_OUTSIDE);
	stop(pid);
}
END_TEST

START_TEST(an_ancestors_mark_or_tag_is_a_sign)
{
	int child, pid = start("HCP_INSTANCE=some-daemons", 0);

	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_SESSION);
	ck_assert_int_eq(child, 0);
	stop(pid);
	pid = start("A=1", (rlim_t)5 << 24);
	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_SESSION);
	stop(pid);
}
END_TEST

/* Says so and passes where there is no cgroup2 that we may write to. */
START_TEST(a_sessions_cgroup_is_a_sign)
{
	char inner[600], procs[640], *dir = wrig_make_cgroup();
	int child, pid;
	FILE *f;

	if (dir == NULL)
		return;
	pid = start("A=1", 0);
	snprintf(inner, sizeof inner, "%s/hcpd-0123abcd-7", dir);
	ck_assert_int_eq(mkdir(inner, 0755), 0);
	snprintf(procs, sizeof procs, "%s/cgroup.procs", inner);
	ck_assert_ptr_nonnull(f = fopen(procs, "w"));
	fprintf(f, "%d\n", pid);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq((int)look_from_aside(pid, &child), ORIGIN_SESSION);
	stop(pid);
	while (rmdir(inner) < 0 && errno == EBUSY) /* it was killed; the kernel has not moved it out yet */
		usleep(1000);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Its pid may be another process's by now; here it is our own. */
START_TEST(a_peer_that_has_ended_is_gone_whoever_has_its_pid)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t size = sizeof name;
	int child, at = socket(AF_UNIX, SOCK_STREAM, 0), fd, pid;

	/* without a name the kernel gives an abstract one */
	ck_assert_int_eq(bind(at, (struct sockaddr *)&name, sizeof name.sun_family) | listen(at, 1), 0);
	ck_assert_int_eq(getsockname(at, (struct sockaddr *)&name, &size), 0);
	if ((pid = fork()) == 0) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		_exit(connect(fd, (struct sockaddr *)&name, size) == 0 ? 0 : 1);
	}
	ck_assert_int_ge(fd = accept(at, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq((int)origin_find(getpid(), &child), ORIGIN_OUTSIDE);
	if (has_peer_pidfd(fd))
		ck_assert_int_eq((int)origin_find_peer(fd, getpid(), &child), ORIGIN_GONE);
	close(fd);
	close(at);
}
END_TEST

START_TEST(process_that_has_ended_is_gone)
{
	int child, pid = start("A=1", 0), ends[2], dead;

	stop(pid);
	while (origin_find(pid, &child) != ORIGIN_GONE) /* it was killed; pid 1 sees its end */
		usleep(1000);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	ck_assert_int_eq((int)origin_find_peer(ends[0], getpid(), &child), ORIGIN_OUTSIDE);
	dead = fork();
	if (dead == 0)
		_exit(0);
	while (origin_find(dead, &child) != ORIGIN_GONE) /* a zombie is one that has ended */
		usleep(1000);
	ck_assert_int_eq(waitpid(dead, NULL, 0), dead);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("origin");
	TCase *t = tcase_create("origin");
	SRunner *run = srunner_create(s);

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, descendant_of_a_worker_comes_from_a_session);
	tcase_add_test(t, an_orphan_that_was_adopted_comes_from_a_session);
	tcase_add_test(t, process_without_a_sign_comes_from_outside);
	tcase_add_test(t, an_ancestors_mark_or_tag_is_a_sign);
	tcase_add_test(t, a_sessions_cgroup_is_a_sign);
	tcase_add_test(t, a_peer_that_has_ended_is_gone_whoever_has_its_pid);
	tcase_add_test(t, process_that_has_ended_is_gone);
	srunner_run_all(run, CK_NORMAL);
	int failed = srunner_ntests_failed(run);
	srunner_free(run);
	return failed != 0;
}
