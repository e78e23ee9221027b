/* SPDX-License-Identifier: MIT */
/* test_workdir.c: working directories: made, found again, deleted in slices, never through a link. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/workdir.h"
#include "process/worker.h"

#define ID "0d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"
#define OTHER "1d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"

static char state[64], path[512];

static void begin(void)
{
	strcpy(state, "/tmp/hcpd-workdir-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state));
}

static void end(void)
{
	char cmd[256];

	snprintf(cmd, sizeof cmd, "chmod -R u+rwx %s; rm -rf %s", state, state);
	ck_assert_int_eq(system(cmd), 0);
}

static const char *in_state(const char *name)
{
	static char out[1024];

	snprintf(out, sizeof out, "%s/%s", state, name);
	return out;
}

static const char *in_dir(const char *name)
{
	static char out[1024];

	snprintf(out, sizeof out, "%s/%s", path, name);
	return out;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static const char *get(const char *name)
{
	static char text[256];
	FILE *f = fopen(name, "r");

	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	return text;
}

static unsigned mode_of(const char *name)
{
	struct stat st;

	ck_assert_int_eq(lstat(name, &st), 0);
	return st.st_mode & 07777;
}

static int make(const char *task)
{
	return workdir_make(state, ID, task, task ? strlen(task) : 0, path, sizeof path);
}

static int sweep_all(int entries)
{
	int n = 1;

	while (workdir_sweep(state, entries))
		ck_assert_int_lt(n++, 100000);
	return n;
}

START_TEST(a_working_directory_is_private_whatever_the_umask)
{
	begin();
	umask(0);
	ck_assert_int_eq(make("{\"a\":1}"), 0);
	ck_assert_uint_eq(mode_of(in_state("work")), 0700);
	ck_assert_uint_eq(mode_of(path), 0700);
	ck_assert_uint_eq(mode_of(in_dir("task.json")), 0600);
	ck_assert_str_eq(get(in_dir("task.json")), "{\"a\":1}");
	umask(0777);
	ck_assert_int_eq(
		workdir_make(state, "1d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10", NULL, 0, path, sizeof path), 0);
	ck_assert_uint_eq(mode_of(path), 0700);
	umask(022);
	end();
}
END_TEST

START_TEST(a_later_attempt_finds_what_the_first_left)
{
	begin();
	ck_assert_int_eq(make("first"), 0);
	put(in_dir("result"), "half");
	ck_assert_int_eq(make("second"), 0);
	ck_assert_str_eq(get(in_dir("result")), "half");
	ck_assert_str_eq(get(in_dir("task.json")), "second");
	end();
}
END_TEST

START_TEST(links_in_place_of_our_names_are_never_followed)
{
	begin();
	ck_assert_int_eq(make("one"), 0);
	put(in_state("precious"), "kept");
	unlink(in_dir("task.json"));
	ck_assert_int_eq(symlink("../../precious", in_dir("task.json")), 0);
	ck_assert_int_eq(symlink("../../precious", in_dir(".task.json.new")), 0);
	ck_assert_int_eq(make("two"), 0);
	ck_assert_str_eq(get(in_state("precious")), "kept");
	ck_assert_str_eq(get(in_dir("task.json")), "two");

	workdir_remove(state, ID);
	sweep_all(100);
	ck_assert_int_eq(mkdir(in_state("target"), 0755), 0);
	put(in_state("target/file"), "kept");
	ck_assert_int_eq(symlink("../target", path), 0); /* the whole directory is a link */
	ck_assert_int_eq(make("three"), -1);
	ck_assert(errno == ENOTDIR || errno == ELOOP);
	ck_assert_int_ne(access(in_state("target/task.json"), F_OK), 0);
	workdir_remove(state, ID);
	sweep_all(100);
	ck_assert_str_eq(get(in_state("target/file")), "kept");
	ck_assert_uint_eq(mode_of(in_state("target")), 0755);
	end();
}
END_TEST

START_TEST(removed_directory_is_out_of_the_way_and_deleted_in_slices)
{
	char name[64];
	int i, n;

	begin();
	ck_assert_int_eq(make("x"), 0);
	for (i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "d%d", i % 10);
		mkdir(in_dir(name), 0700);
		snprintf(name, sizeof name, "d%d/f%d", i % 10, i);
		put(in_dir(name), "x");
	}
	put(in_state("precious"), "kept");
	ck_assert_int_eq(symlink("../../precious", in_dir("link")), 0);
	ck_assert_int_eq(symlink("../..", in_dir("up")), 0);
	workdir_remove(state, ID);
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(make("again"), 0); /* the session's next run begins empty */
	ck_assert_int_ne(access(in_dir("d1"), F_OK), 0);
	n = sweep_all(20);
	ck_assert_int_gt(n, 300 / 20);
	ck_assert_int_lt(n, 1000);
	ck_assert_str_eq(get(in_state("precious")), "kept");
	ck_assert_str_eq(get(in_dir("task.json")), "again");
	ck_assert_int_eq(rmdir(in_state("work/.trash")), 0); /* empty */
	end();
}
END_TEST

START_TEST(a_tree_deeper_than_any_path_is_deleted)
{
	int fd, next, i;

	begin();
	ck_assert_int_eq(make(NULL), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY);
	for (i = 0; i < 3000; i++) {
		ck_assert_int_eq(mkdirat(fd, "deep", 0700), 0);
		next = openat(fd, "deep", O_RDONLY | O_DIRECTORY);
		ck_assert_int_ge(next, 0);
		close(fd);
		fd = next;
	}
	close(fd);
	workdir_remove(state, ID);
	sweep_all(100);
	ck_assert_int_eq(rmdir(in_state("work/.trash")), 0);
	end();
}
END_TEST

/* As another user, since nothing is forbidden to root. */
START_TEST(a_directory_that_forbids_everything_is_deleted_all_the_same)
{
	begin();
	if (getuid() == 0) {
		ck_assert_int_eq(chown(state, 65534, 65534), 0);
		ck_assert_int_eq(setgid(65534), 0);
		ck_assert_int_eq(setuid(65534), 0);
	}
	ck_assert_int_eq(make("x"), 0);
	ck_assert_int_eq(mkdir(in_dir("a"), 0700), 0);
	put(in_dir("a/f"), "x");
	ck_assert_int_eq(chmod(in_dir("a"), 0), 0);
	ck_assert_int_eq(chmod(path, 0), 0);
	ck_assert_int_eq(make("y"), 0); /* a session that locked itself out gets in again */
	ck_assert_int_eq(chmod(path, 0), 0);
	workdir_remove(state, ID);
	sweep_all(100);
	ck_assert_int_eq(rmdir(in_state("work/.trash")), 0);
	ck_assert_int_eq(rmdir(in_state("work")), 0);
	rmdir(state);
}
END_TEST

/* Directories of another user with something in them: neither to be emptied nor to be moved. */
START_TEST(file_that_cannot_be_deleted_is_left_and_delays_nothing)
{
	static const char other[] = "2d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10";
	char name[64];
	int i, n;

	if (getuid() != 0) {
		fprintf(stderr, "SKIPPED: only root can make what others cannot delete\n");
		return;
	}
	begin();
	ck_assert_int_eq(make("x"), 0);
	ck_assert_int_eq(mkdir(in_state("work/.trash"), 0700), 0);
	for (i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "work/.trash/u%d", i);
		ck_assert_int_eq(mkdir(in_state(name), 0755), 0);
		strcat(name, "/file");
		put(in_state(name), "x");
	}
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "f%d", i);
		put(in_dir(name), "x");
	}
	ck_assert_int_eq(chown(state, 65534, 65534) | chown(in_state("work"), 65534, 65534), 0);
	ck_assert_int_eq(chown(path, 65534, 65534) | chown(in_state("work/.trash"), 65534, 65534), 0);
	ck_assert_int_eq(setegid(65534) | seteuid(65534), 0);
	workdir_remove(state, ID);
	for (n = 0; workdir_sweep(state, 50); n++)
		ck_assert_int_lt(n, 1000);
	ck_assert_int_eq(workdir_make(state, other, "x", 1, path, sizeof path), 0);
	put(in_dir("f"), "x");
	ck_assert(workdir_remove(state, other)); /* what comes later goes all the same */
	for (n = 0; workdir_sweep(state, 50); n++)
		ck_assert_int_lt(n, 1000);
	ck_assert_int_eq(seteuid(0) | setegid(0), 0);
	for (i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "work/.trash/u%d", i);
		ck_assert_int_eq(unlink(strcat(strcpy(path, in_state(name)), "/file")), 0);
		ck_assert_int_eq(rmdir(in_state(name)), 0);
	}
	ck_assert_int_eq(rmdir(in_state("work/.trash")), 0); /* nothing else was left */
	end();
}
END_TEST

static int asked;

static bool is_known(void *ctx, const char *name)
{
	asked++;
	return strcmp(name, ctx) == 0;
}

START_TEST(directories_that_a_crash_left_are_collected_and_no_others)
{
	char known[] = ID;

	begin();
	ck_assert_int_eq(workdir_collect(state, is_known, known), 0); /* there is no work/ yet */
	ck_assert_int_eq(make("x"), 0);
	put(in_dir("kept"), "kept");
	ck_assert_int_eq(mkdir(in_state("work/1d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"), 0700), 0);
	put(in_state("work/1d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10/f"), "x");
	put(in_state("work/2d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"), "no directory");
	ck_assert_int_eq(mkdir(in_state("target"), 0755), 0);
	put(in_state("target/file"), "kept");
	ck_assert_int_eq(symlink("../target", in_state("work/3d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10")), 0);
	put(in_state("work/notes"), "not ours");
	ck_assert_int_eq(workdir_collect(state, is_known, known), 3);
	ck_assert_int_eq(asked, 4);
	sweep_all(100);
	ck_assert_str_eq(get(in_dir("kept")), "kept");
	ck_assert_str_eq(get(in_state("work/notes")), "not ours");
	ck_assert_str_eq(get(in_state("target/file")), "kept");
	ck_assert_int_ne(access(in_state("work/1d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"), F_OK), 0);
	ck_assert_int_eq(rmdir(in_state("work/.trash")), 0); /* empty */
	ck_assert_int_eq(workdir_collect(state, is_known, known), 0);
	end();
}
END_TEST

static ino_t inode_of(const char *name)
{
	struct stat st;

	ck_assert_int_eq(lstat(name, &st), 0);
	return st.st_ino;
}

static int make_other(void)
{
	return workdir_make(state, OTHER, "other", 5, path, sizeof path);
}

START_TEST(a_directory_left_empty_is_given_to_the_next_session)
{
	ino_t first;

	begin();
	ck_assert_int_eq(make("{}"), 0);
	first = inode_of(path);
	ck_assert(!workdir_remove(state, ID));
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(make_other(), 0);
	ck_assert_uint_eq(inode_of(path), first);
	ck_assert_uint_eq(mode_of(path), 0700);
	ck_assert_str_eq(get(in_dir("task.json")), "other");
	end();
}
END_TEST

START_TEST(directory_that_was_changed_is_not_kept_as_a_spare)
{
	ino_t full;

	begin();
	ck_assert_int_eq(make(NULL), 0);
	ck_assert_int_eq(chmod(path, 0755), 0);
	workdir_remove(state, ID);
	ck_assert_int_ne(access(in_state("work/.spare0"), F_OK), 0);
	ck_assert_int_eq(make(NULL), 0);
	full = inode_of(path);
	put(in_dir("secret"), "of the first");
	ck_assert(workdir_remove(state, ID));
	ck_assert_int_eq(make_other(), 0);
	ck_assert_int_ne(access(in_dir("secret"), F_OK), 0);
	ck_assert_uint_ne(inode_of(path), full);
	end();
}
END_TEST

START_TEST(a_kept_directory_never_takes_the_place_of_a_session_s_own)
{
	begin();
	ck_assert_int_eq(make("first"), 0);
	put(in_dir("result"), "half");
	ck_assert_int_eq(make_other(), 0);
	workdir_remove(state, OTHER);
	ck_assert_int_eq(access(in_state("work/.spare-task0"), F_OK), 0);
	ck_assert_int_eq(make("second"), 0);
	ck_assert_str_eq(get(in_dir("result")), "half");
	ck_assert_str_eq(get(in_dir("task.json")), "second");
	end();
}
END_TEST

START_TEST(kept_directories_are_few_and_do_not_outlive_the_daemon)
{
	char id[sizeof ID], known[] = ID;

	begin();
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof id,
			"%08x"
			"-7c1f-4b4e-9a51-3f2f6d1c9b10",
			(unsigned)i);
		ck_assert_int_eq(workdir_make(state, id, NULL, 0, path, sizeof path), 0);
	}
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof id,
			"%08x"
			"-7c1f-4b4e-9a51-3f2f6d1c9b10",
			(unsigned)i);
		ck_assert(!workdir_remove(state, id));
	}
	ck_assert_int_eq(access(in_state("work/.spare63"), F_OK), 0);
	ck_assert_int_ne(access(in_state("work/.spare64"), F_OK), 0);
	ck_assert_int_eq(rmdir(in_state("work/.spare63")), 0); /* somebody tidied up: */
	ck_assert_int_eq(make("x"), 0);                        /* no harm */
	ck_assert_int_eq(workdir_collect(state, is_known, known), 63);
	sweep_all(100);
	ck_assert_int_ne(access(in_state("work/.spare0"), F_OK), 0);
	ck_assert_str_eq(get(in_dir("task.json")), "x");
	end();
}
END_TEST

START_TEST(nothing_of_an_ended_session_s_task_is_left_in_a_spare)
{
	ino_t first;

	begin();
	ck_assert_int_eq(make("a long task of the first session"), 0);
	first = inode_of(in_dir("task.json"));
	ck_assert(!workdir_remove(state, ID));
	ck_assert_str_eq(get(in_state("work/.spare-task0/task.json")), "");
	ck_assert_int_eq(make_other(), 0);
	ck_assert_str_eq(get(in_dir("task.json")), "other");
	ck_assert_uint_eq(inode_of(in_dir("task.json")), first);
	ck_assert_uint_eq(mode_of(in_dir("task.json")), 0600);
	end();
}
END_TEST

START_TEST(a_task_file_that_somebody_holds_is_not_given_on)
{
	static const int flags[] = {O_RDONLY, O_RDWR};
	char text[16];
	int fd;

	begin();
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		ck_assert_int_eq(make("first"), 0);
		fd = open(in_dir("task.json"), flags[i]);
		ck_assert_int_ge(fd, 0);
		ck_assert(!workdir_remove(state, ID));
		ck_assert_int_eq(make_other(), 0);
		ck_assert_int_eq((int)pread(fd, text, sizeof text, 0), 5);
		ck_assert_mem_eq(text, "first", 5);
		close(fd);
		workdir_remove(state, OTHER);
	}
	end();
}
END_TEST

START_TEST(a_task_file_with_another_name_or_mode_is_not_given_on)
{
	begin();
	ck_assert_int_eq(make("first"), 0);
	ck_assert_int_eq(link(in_dir("task.json"), in_state("second-name")), 0);
	workdir_remove(state, ID);
	ck_assert_int_eq(make_other(), 0);
	ck_assert_str_eq(get(in_state("second-name")), "first");
	ck_assert_int_eq(chmod(in_dir("task.json"), 0644), 0);
	workdir_remove(state, OTHER);
	ck_assert_int_eq(make("third"), 0);
	ck_assert_uint_eq(mode_of(in_dir("task.json")), 0600);
	unlink(in_dir("task.json"));
	ck_assert_int_eq(symlink("../../second-name", in_dir("task.json")), 0);
	workdir_remove(state, ID);
	ck_assert_int_eq(make_other(), 0);
	ck_assert_str_eq(get(in_state("second-name")), "first");
	ck_assert_str_eq(get(in_dir("task.json")), "other");
	end();
}
END_TEST

START_TEST(a_session_without_a_task_file_begins_in_an_empty_directory)
{
	begin();
	ck_assert_int_eq(make("first"), 0);
	ck_assert(!workdir_remove(state, ID));
	ck_assert_int_eq(make(NULL), 0);
	ck_assert_int_ne(access(in_dir("task.json"), F_OK), 0);
	end();
}
END_TEST

START_TEST(an_offered_directory_becomes_that_of_the_next_session)
{
	char first[sizeof path];
	ino_t inode;

	begin();
	ck_assert_int_eq(make("a longer task"), 0);
	strcpy(first, path);
	inode = inode_of(path);
	ck_assert(workdir_offer(state, ID));
	ck_assert_int_eq(make_other(), 0);
	ck_assert_uint_eq(inode_of(path), inode);
	ck_assert_str_eq(get(in_dir("task.json")), "other");
	ck_assert_int_ne(access(first, F_OK), 0);
	ck_assert(!workdir_end_offers(state));
	ck_assert_int_ne(access(in_state("work/.spare-task0"), F_OK), 0);
	ck_assert_int_eq(make("again"), 0);
	ck_assert_uint_ne(inode_of(path), inode);
	end();
}
END_TEST

START_TEST(an_offered_directory_that_nobody_takes_is_removed)
{
	begin();
	ck_assert_int_eq(make("x"), 0);
	ck_assert(workdir_offer(state, ID));
	ck_assert(!workdir_end_offers(state));
	ck_assert_int_ne(access(path, F_OK), 0);
	ck_assert_int_eq(access(in_state("work/.spare-task0"), F_OK), 0);
	end();
}
END_TEST

START_TEST(a_directory_with_anything_in_it_is_never_offered)
{
	begin();
	ck_assert_int_eq(make("x"), 0);
	put(in_dir("result"), "half");
	ck_assert(!workdir_offer(state, ID));
	ck_assert_int_eq(make_other(), 0);
	ck_assert_int_ne(access(in_dir("result"), F_OK), 0);
	workdir_remove(state, OTHER);
	ck_assert_int_eq(make_other(), 0);
	ck_assert_int_eq(chmod(path, 0755), 0);
	ck_assert(!workdir_offer(state, OTHER));
	end();
}
END_TEST

START_TEST(work_that_somebody_deleted_is_made_again)
{
	char cmd[256];

	begin();
	ck_assert_int_eq(make("x"), 0);
	workdir_remove(state, ID);
	snprintf(cmd, sizeof cmd, "rm -r %s/work", state);
	ck_assert_int_eq(system(cmd), 0);
	ck_assert_int_eq(make("again"), 0);
	ck_assert_str_eq(get(in_dir("task.json")), "again");
	ck_assert_uint_eq(mode_of(in_state("work")), 0700);
	end();
}
END_TEST

/* By hand, or by a mount over it. */
START_TEST(work_that_was_moved_away_is_made_again_in_its_place)
{
	char old[1024];

	begin();
	ck_assert_int_eq(make("x"), 0);
	snprintf(old, sizeof old, "%s", in_state("old"));
	ck_assert_int_eq(rename(in_state("work"), old), 0);
	ck_assert_int_eq(make("x"), 0);
	ck_assert_int_eq(access(path, F_OK), 0);
	ck_assert_int_eq(access(in_dir("task.json"), F_OK), 0);
	end();
}
END_TEST

START_TEST(directory_that_cannot_be_made_says_why)
{
	begin();
	ck_assert_int_eq(workdir_make("/nonexistent", ID, NULL, 0, path, sizeof path), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(workdir_make(state, ID, NULL, 0, path, 20), -1);
	ck_assert_int_eq(errno, ENAMETOOLONG);
	ck_assert(!workdir_sweep("/nonexistent", 10));
	ck_assert(!workdir_sweep(state, 10));
	workdir_remove(state, ID);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("workdir");
	TCase *t = tcase_create("workdir");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_set_timeout(t, 30); /* thousands of directories: 4 s were not enough on a busy machine */
	suite_add_tcase(s, t);
	tcase_add_test(t, a_working_directory_is_private_whatever_the_umask);
	tcase_add_test(t, a_later_attempt_finds_what_the_first_left);
	tcase_add_test(t, links_in_place_of_our_names_are_never_followed);
	tcase_add_test(t, removed_directory_is_out_of_the_way_and_deleted_in_slices);
	tcase_add_test(t, a_tree_deeper_than_any_path_is_deleted);
	tcase_add_test(t, a_directory_that_forbids_everything_is_deleted_all_the_same);
	tcase_add_test(t, file_that_cannot_be_deleted_is_left_and_delays_nothing);
	tcase_add_test(t, directories_that_a_crash_left_are_collected_and_no_others);
	tcase_add_test(t, a_directory_left_empty_is_given_to_the_next_session);
	tcase_add_test(t, directory_that_was_changed_is_not_kept_as_a_spare);
	tcase_add_test(t, a_kept_directory_never_takes_the_place_of_a_session_s_own);
	tcase_add_test(t, kept_directories_are_few_and_do_not_outlive_the_daemon);
	tcase_add_test(t, nothing_of_an_ended_session_s_task_is_left_in_a_spare);
	tcase_add_test(t, a_task_file_that_somebody_holds_is_not_given_on);
	tcase_add_test(t, a_task_file_with_another_name_or_mode_is_not_given_on);
	tcase_add_test(t, a_session_without_a_task_file_begins_in_an_empty_directory);
	tcase_add_test(t, an_offered_directory_becomes_that_of_the_next_session);
	tcase_add_test(t, an_offered_directory_that_nobody_takes_is_removed);
	tcase_add_test(t, a_directory_with_anything_in_it_is_never_offered);
	tcase_add_test(t, work_that_somebody_deleted_is_made_again);
	tcase_add_test(t, work_that_was_moved_away_is_made_again_in_its_place);
	tcase_add_test(t, directory_that_cannot_be_made_says_why);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
