/* SPDX-License-Identifier: MIT */
/* test_proctree.c: the leaf that looks at /proc: exactly that process, its tag, alive or dead. How trees
 * end and whose they are: test_proctree_*.c. */
#include "support/proctree_kit.h"

#include <poll.h>

#include "process/proctree.h"

START_TEST(a_signal_goes_to_exactly_the_process_that_is_meant)
{
	struct proctree t;
	struct proc p, *found;
	int pid = tree_start_bare("X=1"), fd;
	struct pollfd pfd;

	ck_assert_int_eq(proctree_init(&t), 0);
	ck_assert(proctree_look(&t, pid, &p));
	ck_assert_int_eq(p.ppid, getpid());
	ck_assert_uint_le(p.start, proctree_now());
	ck_assert_int_eq(proctree_signal(&t, pid, p.start - 1, SIGKILL), -1);
	ck_assert_int_eq(errno, ESRCH);
	ck_assert_int_eq(proctree_signal(&t, getpid(), 0, SIGKILL), -1);
	ck_assert_int_eq(proctree_walk(&t), 0);
	found = proctree_find(&t, pid);
	ck_assert_ptr_nonnull(found);
	ck_assert_ptr_eq(proctree_parent(&t, found), proctree_find(&t, getpid()));
	fd = proctree_open(&t, pid, p.start);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(proctree_signal(&t, pid, p.start, SIGKILL), 0);
	pfd = (struct pollfd){.fd = fd, .events = POLLIN};
	ck_assert_int_eq(poll(&pfd, 1, 5000), 1);
	ck_assert(proctree_look(&t, pid, &p));
	ck_assert(p.dead);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert(!proctree_look(&t, pid, &p));
	close(fd);
	proctree_fini(&t);
}
END_TEST

START_TEST(proctree_tag_is_inherited_and_readable_by_others)
{
	uint64_t tag = 0x123456789abcde;
	struct rlimit lim;
	struct proctree t;
	int pid, status;

	ck_assert_int_eq(getrlimit(RLIMIT_LOCKS, &lim), 0);
	lim.rlim_cur = tag;
	ck_assert_int_eq(setrlimit(RLIMIT_LOCKS, &lim), 0);
	pid = tree_start_bare("X=1");
	lim.rlim_cur = lim.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_LOCKS, &lim), 0);
	ck_assert_int_eq(proctree_init(&t), 0);
	ck_assert_uint_eq(proctree_tag(&t, pid), tag);
	ck_assert_uint_ne(proctree_tag(&t, getpid()), tag);
	if (getuid() == 0 && fork() == 0) { /* another user's: the kernel refuses to say */
		if (setgid(65534) < 0 || setuid(65534) < 0 || prlimit(pid, RLIMIT_LOCKS, NULL, &lim) == 0)
			_exit(2);
		_exit(proctree_tag(&t, pid) != tag);
	}
	if (getuid() == 0) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_uint_eq(proctree_tag(&t, pid), 0);
	proctree_fini(&t);
}
END_TEST

START_TEST(a_process_whose_first_thread_ended_is_alive)
{
	struct rec r;
	struct proctree t;
	struct proc p;
	int64_t until = clock_boot_us() + 5 * SECOND;
	char path[64], text[512], *at;
	int fd;
	ssize_t n;

	wrig_begin("off");
	wrig_start_helper(&r, "headless", "");
	wrig_until(r.lines[0] == 1);
	ck_assert_int_eq(proctree_init(&t), 0);
	snprintf(path, sizeof path, "/proc/%d/stat", worker_pid(r.w));
	do {
		fd = open(path, O_RDONLY);
		n = read(fd, text, sizeof text - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
		at = strrchr(text, ')');
	} while (at && at[2] != 'Z' && clock_boot_us() < until);
	ck_assert(at && at[2] == 'Z');
	ck_assert(proctree_look(&t, worker_pid(r.w), &p));
	ck_assert(!p.dead);
	proctree_fini(&t);
	rec_kill(&r);
	ck_assert_int_eq(WTERMSIG(r.status), SIGKILL);
	rec_free(&r);
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("proctree");
	TCase *t = tcase_create("leaf");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, a_signal_goes_to_exactly_the_process_that_is_meant);
	tcase_add_test(t, proctree_tag_is_inherited_and_readable_by_others);
	tcase_add_test(t, a_process_whose_first_thread_ended_is_alive);
	return s;
}

int main(int argc, char **argv)
{
	return proctree_main(argc, argv, make_suite);
}
