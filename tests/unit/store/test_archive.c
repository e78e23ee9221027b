/* SPDX-License-Identifier: MIT */
/* test_archive.c: a day's file: entries come back as they went in, each by itself, and no damage goes
 * unseen. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/archive.h"
#include "base/buf.h"

#define DAY "2026-01-31"
#define FILE_NAME DAY ARCHIVE_SUFFIX

static char dir[200], path[300], why[ARCHIVE_WHY_SIZE];
static int dir_fd;

static void set_up(void)
{
	snprintf(dir, sizeof dir, "%.150s/test_archive.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(dir_fd, 0);
}

static void tear_down(void)
{
	close(dir_fd);
	unlink(path);
	rmdir(dir);
}

static const char *id_of(int n)
{
	static char id[ID_SIZE];

	snprintf(id, sizeof id, "0d2b6a0e-7c1f-4b4e-9a51-%012u", (unsigned)n % 1000);
	return id;
}

static void add_first(struct archive_writer *w, const char *id)
{
	char line[128];
	int size = snprintf(line, sizeof line, "{\"archive\":1,\"session_id\":\"%s\"}\n", id);

	ck_assert_int_eq(archive_add(w, line, (size_t)size), 0);
}

/* Appends entries from..upto-1, the n-th with n lines; what counts then. */
static int64_t append(int64_t committed, int from, int upto)
{
	struct archive_writer *w = archive_append(dir_fd, DAY, committed, why);
	int64_t size;

	ck_assert_msg(w != NULL, "%s", why);
	for (int n = from; n < upto; n++) {
		ck_assert_int_eq(archive_begin_entry(w, id_of(n)), 0);
		add_first(w, id_of(n));
		for (int i = 0; i < n; i++)
			ck_assert_int_eq(archive_add(w, "{\"row\":1}\n", 10), 0);
		ck_assert_int_eq(archive_end_entry(w), 0);
	}
	size = archive_sync(w);
	ck_assert_int_gt(size, committed);
	archive_close(w);
	return size;
}

static struct archive_reader *open_it(int64_t limit)
{
	int fd = open(path, O_RDONLY);

	ck_assert_int_ge(fd, 0);
	return archive_open(fd, limit);
}

static bool take(void *ctx, const char *data, size_t size)
{
	buf_add(ctx, data, size);
	return true;
}

/* How many entries are good from the first on; -1: one is not. */
static int count_good(int64_t limit)
{
	struct archive_reader *r = open_it(limit);
	struct archive_entry e;
	int n = 0, rc;

	while ((rc = archive_next(r, &e, why)) > 0 && archive_verify(r, &e, why) == 0)
		n++;
	archive_free(r);
	return rc == 0 ? n : -1;
}

START_TEST(entries_come_back_as_they_went_in_each_by_itself)
{
	int64_t size = append(0, 1, 6);
	struct archive_reader *r = open_it(size);
	struct archive_entry e;
	struct buf b = {0};

	for (int n = 1; n < 6; n++) {
		ck_assert_int_eq(archive_next(r, &e, why), 1);
		ck_assert_str_eq(e.session_id, id_of(n));
		ck_assert_int_eq(archive_verify(r, &e, why), 0);
		if (n % 2 == 0)
			continue; /* stepped over */
		buf_clear(&b);
		ck_assert_int_eq(archive_read(r, &e, take, &b, why), 0);
		ck_assert_int_eq((int64_t)b.size, e.text_size);
		ck_assert_ptr_nonnull(strstr(buf_text(&b), id_of(n)));
	}
	ck_assert_int_eq(archive_next(r, &e, why), 0);
	archive_free(r);
	buf_fini(&b);
}
END_TEST

START_TEST(bytes_behind_the_committed_length_are_cut_before_an_append) /* proves CK-06 */
{
	int64_t size = append(0, 1, 3), torn;
	struct archive_writer *w = archive_append(dir_fd, DAY, size, why);
	struct stat st;

	/* An append that nobody committed, and whose end is missing. */
	ck_assert_int_eq(archive_begin_entry(w, id_of(3)), 0);
	for (int i = 0; i < 100000; i++) {
		char line[32];
		int length = snprintf(line, sizeof line, "%d\n", rand());

		ck_assert_int_eq(archive_add(w, line, (size_t)length), 0);
	}
	archive_close(w);
	stat(path, &st);
	torn = st.st_size;
	ck_assert_int_gt(torn, size);
	ck_assert_int_eq(count_good(size), 2);
	ck_assert_int_eq(count_good(-1), -1);
	size = append(size, 4, 5);
	stat(path, &st);
	ck_assert_int_eq(st.st_size, size);
	ck_assert_int_eq(count_good(-1), 3);
}
END_TEST

START_TEST(a_file_that_somebody_took_from_is_not_written_to)
{
	int64_t size = append(0, 1, 3);

	ck_assert_int_eq(truncate(path, size - 1), 0);
	ck_assert_ptr_null(archive_append(dir_fd, DAY, size, why));
	ck_assert_ptr_nonnull(strstr(why, "somebody took from it"));
	ck_assert_int_eq(count_good(-1), -1);
}
END_TEST

START_TEST(a_link_in_its_place_is_not_followed)
{
	char target[300];

	snprintf(target, sizeof target, "%s/target", dir);
	ck_assert_int_eq(symlink(target, path), 0);
	ck_assert_ptr_null(archive_append(dir_fd, DAY, 0, why));
	ck_assert_int_ne(access(target, F_OK), 0);
}
END_TEST

/* Of each byte one bit: the file is small. */
/* jansson steps over a NUL behind a number; the hash fits. */
START_TEST(archive_entry_with_a_raw_NUL_is_damaged)
{
	struct archive_writer *w = archive_append(dir_fd, DAY, 0, why);
	char line[160];
	int size;

	ck_assert_msg(w != NULL, "%s", why);
	size = snprintf(line, sizeof line, "{\"session_id\":\"%s\",\"archive\":1%c}\n", id_of(1), '\0');
	ck_assert_int_eq(archive_begin_entry(w, id_of(1)), 0);
	ck_assert_int_eq(archive_add(w, line, (size_t)size), 0);
	ck_assert_int_eq(archive_end_entry(w), 0);
	ck_assert_int_gt(archive_sync(w), 0);
	archive_close(w);
	ck_assert_int_eq(count_good(-1), -1);
	ck_assert_msg(strstr(why, "does not name its session") != NULL, "%s", why);
}
END_TEST

START_TEST(no_flipped_bit_goes_unseen)
{
	int64_t size = append(0, 1, 4);
	int fd = open(path, O_RDWR);

	for (int64_t at = 0; at < size; at++) {
		unsigned char was, is;

		ck_assert_int_eq(pread(fd, &was, 1, at), 1);
		is = was ^ (unsigned char)(1u << at % 8);
		ck_assert_int_eq(pwrite(fd, &is, 1, at), 1);
		ck_assert_msg(count_good(size) != 3, "a bit of byte %lld was flipped, and nobody saw it",
			(long long)at);
		ck_assert_int_eq(pwrite(fd, &was, 1, at), 1);
	}
	ck_assert_int_eq(count_good(size), 3);
	close(fd);
}
END_TEST

START_TEST(no_cut_goes_unseen)
{
	int64_t size = append(0, 1, 3);

	for (int64_t left = size - 1; left > 0; left -= 7) {
		ck_assert_int_eq(truncate(path, left), 0);
		ck_assert_int_ne(count_good(size), 2);
		ck_assert_int_eq(count_good(size), -1);
	}
}
END_TEST

START_TEST(a_long_entry_needs_no_more_memory_than_a_short_one)
{
	struct archive_writer *w = archive_append(dir_fd, DAY, 0, why);
	static char piece[1 << 20];
	struct archive_reader *r;
	struct archive_entry e;
	int64_t size;

	memset(piece, 'x', sizeof piece);
	piece[sizeof piece - 1] = '\n';
	ck_assert_int_eq(archive_begin_entry(w, id_of(1)), 0);
	add_first(w, id_of(1));
	for (int i = 0; i < 256; i++)
		ck_assert_int_eq(archive_add(w, piece, sizeof piece), 0);
	ck_assert_int_eq(archive_end_entry(w), 0);
	size = archive_sync(w);
	archive_close(w);
	r = open_it(size);
	ck_assert_int_eq(archive_next(r, &e, why), 1);
	ck_assert_int_gt(e.text_size, 256 << 20);
	/* in pieces: under the address sanitizer it would show */
	ck_assert_int_eq(archive_verify(r, &e, why), 0);
	archive_free(r);
}
END_TEST

START_TEST(a_day_is_a_day)
{
	ck_assert(archive_is_day("2026-01-31"));
	ck_assert(!archive_is_day("2026-01-3"));
	ck_assert(!archive_is_day("2026-01-311"));
	ck_assert(!archive_is_day("../../../x"));
	ck_assert(!archive_is_day(""));
}
END_TEST

/* Whoever has only the usual tools can read it. */
START_TEST(zstdcat_gives_its_lines)
{
	char command[400], line[256];
	int lines = 0;
	FILE *f;

	append(0, 1, 4);
	snprintf(command, sizeof command, "zstdcat %s", path);
	f = popen(command, "r");
	while (fgets(line, sizeof line, f) != NULL)
		lines++;
	ck_assert_int_eq(pclose(f), 0);
	ck_assert_int_eq(lines, 3 + 1 + 2 + 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("archive");
	TCase *t = tcase_create("file");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, entries_come_back_as_they_went_in_each_by_itself);
	tcase_add_test(t, bytes_behind_the_committed_length_are_cut_before_an_append);
	tcase_add_test(t, a_file_that_somebody_took_from_is_not_written_to);
	tcase_add_test(t, a_link_in_its_place_is_not_followed);
	tcase_add_test(t, archive_entry_with_a_raw_NUL_is_damaged);
	tcase_add_test(t, no_flipped_bit_goes_unseen);
	tcase_add_test(t, no_cut_goes_unseen);
	tcase_add_test(t, a_long_entry_needs_no_more_memory_than_a_short_one);
	tcase_add_test(t, a_day_is_a_day);
	tcase_add_test(t, zstdcat_gives_its_lines);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
