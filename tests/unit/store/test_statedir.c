/* SPDX-License-Identifier: MIT */
/* test_statedir.c: who may enter the state directory, and what is never touched by mistake. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "store/statedir.h"

static char base[64], log_path[80], dir[80];

static void setup(void)
{
	int fd;

	strcpy(base, "/tmp/hcpd-statedir-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base));
	snprintf(dir, sizeof dir, "%s/state", base);
	snprintf(log_path, sizeof log_path, "%s/log", base);
	fd = open(log_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

static void teardown(void)
{
	char command[100];

	snprintf(command, sizeof command, "rm -rf %s", base);
	ck_assert_int_eq(system(command), 0);
}

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static int turn;
	char *to = path[turn++ % 4];

	snprintf(to, sizeof path[0], "%s/%s", dir, name);
	return to;
}

static void put(const char *name, mode_t mode)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static bool said(const char *text)
{
	static char log[8192];
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, log, sizeof log - 1);

	close(fd);
	log[n > 0 ? n : 0] = '\0';
	return strstr(log, text) != NULL;
}

static void make(mode_t mode)
{
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	ck_assert_int_eq(chmod(dir, mode), 0);
}

START_TEST(a_new_one_is_for_its_owner_alone_whatever_the_umask)
{
	umask(0);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_OK);
	ck_assert_uint_eq(mode_of(dir), 0700);
	ck_assert(!said("level=warn"));
}
END_TEST

START_TEST(directory_of_ours_that_is_open_is_closed_with_a_warning)
{
	static const mode_t modes[] = {0755, 0750, 0711, 0777, 02755, 0701};

	make(modes[_i]);
	put("hcpd.db", 0600);
	put("other", 0644);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_OK);
	ck_assert_uint_eq(mode_of(dir), 0700);
	ck_assert(said("level=warn") && said("stood open to others"));
	ck_assert_uint_eq(mode_of(in_dir("other")), 0644); /* not ours */
}
END_TEST

START_TEST(an_empty_one_is_taken_for_ours)
{
	make(0755);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_OK);
	ck_assert_uint_eq(mode_of(dir), 0700);
}
END_TEST

START_TEST(files_of_ours_that_stand_open_are_closed_too)
{
	make(0700);
	put("hcpd.db", 0644);
	put("hcpd.db-wal", 0660);
	put("hcpd.lock", 0604);
	put("outside", 0644);
	ck_assert_int_eq(symlink(in_dir("outside"), in_dir("hcpd.db-shm")), 0);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_OK);
	ck_assert_uint_eq(mode_of(in_dir("hcpd.db")), 0600);
	ck_assert_uint_eq(mode_of(in_dir("hcpd.db-wal")), 0600);
	ck_assert_uint_eq(mode_of(in_dir("hcpd.lock")), 0600);
	ck_assert_uint_eq(mode_of(in_dir("outside")), 0644); /* not through a link */
	ck_assert(said("hcpd.db stood open to others with mode 0644"));
}
END_TEST

/* A lock of POSIX goes with the first descriptor of its file that the process closes, and SQLite's are such.
 */
START_TEST(files_that_the_process_has_locked_stay_locked)
{
	static const char *const names[] = {"hcpd.db", "hcpd.db-wal", "hcpd.db-shm"};
	const char *name = names[_i];
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd, status;
	pid_t child;

	make(0700);
	put(name, 0644);
	fd = open(in_dir(name), O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_SETLK, &lock), 0);
	ck_assert_int_eq(statedir_prepare(dir, true), EX_OK);
	ck_assert_uint_eq(mode_of(in_dir(name)), 0600);
	if ((child = fork()) == 0) { /* a process does not see its own locks */
		fcntl(fd, F_GETLK, &lock);
		_exit(lock.l_type == F_UNLCK);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(status == 0, "the lock of %s is gone", name);
	close(fd);
}
END_TEST

START_TEST(directory_that_is_open_and_foreign_is_refused_unchanged)
{
	make(_i == 0 ? 0755 : 01777); /* a home, /tmp */
	put("somebodys", 0644);
	if (_i == 1)
		put("hcpd.db", 0600);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_CONFIG);
	ck_assert_uint_eq(mode_of(dir), _i == 0 ? 0755 : 01777);
	ck_assert(said("name a directory of its own"));
}
END_TEST

START_TEST(directory_that_is_closed_is_taken_whatever_is_in_it)
{
	make(0700);
	put("somebodys", 0644);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_OK);
	ck_assert(!said("level=warn"));
}
END_TEST

START_TEST(workers_of_other_users_may_pass_and_not_look)
{
	ck_assert_int_eq(statedir_prepare(dir, true), EX_OK);
	ck_assert_uint_eq(mode_of(dir), 0711);
	ck_assert_uint_eq(mode_of(in_dir("work")), 0711);
	ck_assert(!said("level=warn"));
	put("hcpd.lock", 0600);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_OK); /* no more of them: closed again */
	ck_assert_uint_eq(mode_of(dir), 0700);
	ck_assert_uint_eq(mode_of(in_dir("work")), 0700);
}
END_TEST

START_TEST(directory_that_cannot_be_used_is_an_error)
{
	char below[100];

	make(0700);
	put("file", 0600);
	snprintf(below, sizeof below, "%s/below", in_dir("file"));
	ck_assert_int_eq(statedir_prepare(in_dir("file"), false), EX_CANTCREAT);
	ck_assert_int_eq(statedir_prepare(below, false), EX_CANTCREAT);
	ck_assert(said("file cannot be opened: Not a directory") && said("below cannot be made"));
}
END_TEST

START_TEST(a_lock_file_that_somebody_removed_lets_nobody_in)
{
	make(0700);
	ck_assert_int_ge(statedir_lock(dir), 0);
	ck_assert_int_eq(unlink(in_dir("hcpd.lock")), 0);
	ck_assert_int_eq(statedir_lock(dir), -EX_TEMPFAIL);
	ck_assert(said("belongs to another running hcpd"));
}
END_TEST

START_TEST(root_does_not_take_over_what_belongs_to_a_user)
{
	if (geteuid() != 0)
		return; /* only root could */
	make(0700);
	put("hcpd.db", 0600);
	ck_assert_int_eq(chown(dir, 65534, 65534), 0);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_NOPERM);
	ck_assert(said("belongs to user 65534, and hcpd runs as user 0"));
	ck_assert_int_ne(access(in_dir("work"), F_OK), 0);
}
END_TEST

START_TEST(a_work_directory_that_cannot_be_used_ends_the_start)
{
	make(0700);
	/* nobody gets through this one, not even root */
	ck_assert_int_eq(symlink("work", in_dir("work")), 0);
	ck_assert_int_eq(statedir_prepare(dir, false), EX_CANTCREAT);
	ck_assert(said("work cannot be used"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("statedir");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_new_one_is_for_its_owner_alone_whatever_the_umask);
	tcase_add_loop_test(t, directory_of_ours_that_is_open_is_closed_with_a_warning, 0, 6);
	tcase_add_test(t, an_empty_one_is_taken_for_ours);
	tcase_add_test(t, files_of_ours_that_stand_open_are_closed_too);
	tcase_add_loop_test(t, files_that_the_process_has_locked_stay_locked, 0, 3);
	tcase_add_loop_test(t, directory_that_is_open_and_foreign_is_refused_unchanged, 0, 2);
	tcase_add_test(t, directory_that_is_closed_is_taken_whatever_is_in_it);
	tcase_add_test(t, workers_of_other_users_may_pass_and_not_look);
	tcase_add_test(t, directory_that_cannot_be_used_is_an_error);
	tcase_add_test(t, a_lock_file_that_somebody_removed_lets_nobody_in);
	tcase_add_test(t, root_does_not_take_over_what_belongs_to_a_user);
	tcase_add_test(t, a_work_directory_that_cannot_be_used_ends_the_start);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
