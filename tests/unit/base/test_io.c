/* SPDX-License-Identifier: MIT */
/* test_io.c: whole files, bounded, and absolute paths. */
#include "base/io.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[128], path[160];

static void make_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/io.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/file", dir);
}

static void drop_dir(void)
{
	unlink(path);
	rmdir(dir);
}

static void write_file(size_t size)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	for (size_t i = 0; i < size; i++)
		putc('a' + (int)(i % 26), f);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(a_file_is_read_as_a_whole)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 10000};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct buf b = {0};
		struct stat st;

		write_file(sizes[i]);
		ck_assert_int_eq(io_read_file(path, 10000, &b, &st), 0);
		ck_assert_uint_eq(b.size, sizes[i]);
		ck_assert_int_eq(st.st_size, (off_t)sizes[i]);
		for (size_t k = 0; k < b.size; k++)
			ck_assert_int_eq(b.data[k], 'a' + (int)(k % 26));
		buf_fini(&b);
	}
}
END_TEST

START_TEST(a_file_over_the_bound_is_an_error)
{
	struct buf b = {0};
	struct stat st;

	write_file(101);
	ck_assert_int_eq(io_read_file(path, 100, &b, &st), -1);
	ck_assert_int_eq(errno, EFBIG);
	buf_fini(&b);
}
END_TEST

/* Opened without O_NONBLOCK, this one would wait for a writer until the test's time is over. */
START_TEST(a_fifo_is_refused_at_once)
{
	struct buf b = {0};
	struct stat st;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(io_read_file(path, 100, &b, &st), -1);
	ck_assert_int_eq(errno, EINVAL);
	buf_fini(&b);
}
END_TEST

START_TEST(absent_file_or_a_directory_is_an_error)
{
	struct buf b = {0};
	struct stat st;

	ck_assert_int_eq(io_read_file(path, 100, &b, &st), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(io_read_file(dir, 100, &b, &st), -1);
	ck_assert_int_eq(errno, EISDIR);
	buf_fini(&b);
}
END_TEST

START_TEST(a_relative_path_starts_at_the_directory)
{
	static const struct {
		const char *dir, *path, *want;
	} cases[] = {
		{"/etc/hcpd", "x", "/etc/hcpd/x"},
		{"/etc/hcpd", "/x", "/x"},
		{"/etc/hcpd", "./x", "/etc/hcpd/x"},
		{"/etc/hcpd", ".//.///x/./y", "/etc/hcpd/x/./y"},
		{"/etc/hcpd", "../x", "/etc/hcpd/../x"},
		{"/etc/hcpd", ".x", "/etc/hcpd/.x"},
		{"/", "x", "/x"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *got = io_absolute(cases[i].dir, cases[i].path);

		ck_assert_str_eq(got, cases[i].want);
		free(got);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("io");
	TCase *t = tcase_create("io");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, make_dir, drop_dir);
	tcase_add_test(t, a_file_is_read_as_a_whole);
	tcase_add_test(t, a_file_over_the_bound_is_an_error);
	tcase_add_test(t, a_fifo_is_refused_at_once);
	tcase_add_test(t, absent_file_or_a_directory_is_an_error);
	tcase_add_test(t, a_relative_path_starts_at_the_directory);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
