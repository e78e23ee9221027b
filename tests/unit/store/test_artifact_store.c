/* SPDX-License-Identifier: MIT */
/* test_artifact_store.c: what comes into the artifact store, and what does not: names, paths, links,
 * limits, slices. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "store/artifact_store.h"
#include "store/artifact_name.h"
#include "store/artifact_read.h"

#define ID "0d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"
#define SHA_OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHA_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static char state[64], why[256];

static const char *in_state(const char *name)
{
	static char out[4][1024];
	static unsigned turn;

	snprintf(out[++turn % 4], sizeof out[0], "%s/%s", state, name);
	return out[turn % 4];
}

static const char *in_work(const char *name)
{
	char path[600];

	snprintf(path, sizeof path, "work/" ID "/%s", name);
	return in_state(path);
}

static const char *stored(const char *name)
{
	char path[600];

	snprintf(path, sizeof path, "artifacts/" ID "/%s", name);
	return in_state(path);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void begin(void)
{
	strcpy(state, "/tmp/hcpd-artifact-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state));
	ck_assert(mkdir(in_state("work"), 0700) == 0 && mkdir(in_work(""), 0700) == 0 &&
		mkdir(in_work("d"), 0700) == 0);
	put(in_work("abc"), "abc");
	put(in_state("secret"), "secret");
}

static void end(void)
{
	char cmd[256];

	snprintf(cmd, sizeof cmd, "chmod -R u+rwx %s; rm -rf %s", state, state);
	ck_assert_int_eq(system(cmd), 0);
}

static struct artifact_copy *copy_of(const char *path, int64_t max)
{
	const struct artifact_source src = {.state_dir = state,
		.session_id = ID,
		.path = path,
		.name = "kept",
		.owner = -1,
		.max_bytes = max};

	why[0] = '\0';
	return artifact_copy_begin(&src, why, sizeof why);
}

/* The way in, whole: 0, or -1 with why. */
static int keep(const char *path, int64_t max)
{
	struct artifact_copy *c = copy_of(path, max);
	int r = -1;

	while (c != NULL && (r = artifact_copy_step(c, 1 << 20, why, sizeof why)) > 0)
		;
	artifact_copy_free(c);
	return r;
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- names ---- */

static const struct {
	const char *name, *fault; /* "": good */
} names[] = {
	{"report.txt", ""},
	{"a", ""},
	{"a b", ""},
	{"r\xc3\xa9sum\xc3\xa9.pdf", ""},
	{"..a", "dot"},
	{".", "dot"},
	{"..", "dot"},
	{".new", "dot"},
	{"", "empty"},
	{"a/b", "slash"},
	{"/", "slash"},
	{"a\nb", "control"},
	{"a\x7f", "control"},
	{"a\xc2\x9b", "control"},
	{"a\xff", "UTF-8"},
	{"a\xc0\xaf", "UTF-8"},
	{"-rf", ""},
	{"a.", ""},
};

START_TEST(a_name_is_a_plain_file_name)
{
	const char *fault = artifact_name_fault(names[_i].name, strlen(names[_i].name));

	if (names[_i].fault[0] == '\0')
		ck_assert_msg(fault == NULL, "%s: %s", names[_i].name, fault);
	else
		ck_assert_msg(fault != NULL && strstr(fault, names[_i].fault) != NULL, "%s: %s",
			names[_i].name, fault);
}
END_TEST

START_TEST(a_name_is_as_long_as_a_file_system_takes_and_hides_no_nul)
{
	char name[300];

	memset(name, 'x', sizeof name);
	ck_assert_ptr_null(artifact_name_fault(name, 255));
	ck_assert_ptr_nonnull(artifact_name_fault(name, 256));
	ck_assert_ptr_nonnull(artifact_name_fault("a\0b", 3));
}
END_TEST

START_TEST(the_uri_escapes_what_a_uri_may_not_hold) /* proves L4-05 */
{
	struct buf b = {0};

	artifact_add_uri(&b, ID, "report-1.txt");
	ck_assert_str_eq(buf_text(&b), "hcp://" ID "/artifacts/report-1.txt");
	buf_clear(&b);
	artifact_add_uri(&b, ID, "50% \xc3\xa9?#");
	ck_assert_str_eq(buf_text(&b), "hcp://" ID "/artifacts/50%25%20%C3%A9%3F%23");
	buf_fini(&b);
}
END_TEST

START_TEST(a_type_is_words_around_a_slash)
{
	static const char *const good[] = {"text/plain", "text/plain; charset=utf-8", "a/b"};
	static const char *const bad[] = {"", "text", "/", "a/\n", "a/\xc3\xa9"};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		ck_assert_msg(artifact_type_is_good(good[i], strlen(good[i])), "%s", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(!artifact_type_is_good(bad[i], strlen(bad[i])), "%s", bad[i]);
}
END_TEST

/* ---- the way in ---- */

static void must_be_stored(const char *name, const char *text)
{
	char got[64];
	struct stat st;
	int fd = artifact_open(state, ID, name);
	ssize_t n;

	ck_assert_msg(fd >= 0, "%s: %s", name, strerror(errno));
	n = read(fd, got, sizeof got - 1);
	got[n > 0 ? n : 0] = '\0';
	ck_assert_str_eq(got, text);
	ck_assert(fstat(fd, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 07777) == 0400);
	close(fd);
}

START_TEST(a_file_comes_in_with_its_size_and_hash) /* proves L4-05 */
{
	struct artifact_copy *c = copy_of("abc", 3);
	struct stat st;

	ck_assert_msg(c != NULL, "%s", why);
	ck_assert_int_eq(artifact_copy_step(c, 1 << 20, why, sizeof why), 0);
	ck_assert(c->size == 3 && !c->has_changed);
	ck_assert_str_eq(c->sha256, SHA_OF_ABC);
	artifact_copy_free(c);
	must_be_stored("kept", "abc");
	ck_assert(stat(in_state("artifacts"), &st) == 0 && (st.st_mode & 07777) == 0700);
	ck_assert(stat(stored(""), &st) == 0 && (st.st_mode & 07777) == 0700);
	put(in_work("abc"), "changed later");
	must_be_stored("kept", "abc");
}
END_TEST

START_TEST(an_empty_file_is_an_artifact_too)
{
	struct artifact_copy *c;

	put(in_work("nothing"), "");
	c = copy_of("nothing", 0);
	ck_assert_msg(c != NULL, "%s", why);
	ck_assert_int_eq(artifact_copy_step(c, 1, why, sizeof why), 0);
	ck_assert_str_eq(c->sha256, SHA_OF_NOTHING);
	artifact_copy_free(c);
	must_be_stored("kept", "");
}
END_TEST

START_TEST(paths_below_the_directory_are_good_however_they_are_written)
{
	static const char *const paths[] = {"abc", "./abc", "d//f", "./d/./f", "d/f/", "..."};

	put(in_work("d/f"), "f");
	put(in_work("..."), "dots");
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		ck_assert_msg(keep(paths[i], 100) == 0, "%s: %s", paths[i], why);
}
END_TEST

static void make_tricks(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	ck_assert_int_eq(symlink(in_state("secret"), in_work("link")), 0);
	ck_assert_int_eq(symlink("abc", in_work("inside")), 0);
	ck_assert_int_eq(symlink("nowhere", in_work("dangling")), 0);
	ck_assert_int_eq(symlink(state, in_work("dirlink")), 0);
	ck_assert_int_eq(symlink("d", in_work("d2")), 0);
	put(in_work("d/f"), "f");
	ck_assert_int_eq(link(in_state("secret"), in_work("hard")), 0);
	ck_assert_int_eq(mkfifo(in_work("fifo"), 0600), 0);
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", in_work("sock"));
	ck_assert(s >= 0 && bind(s, (struct sockaddr *)&sun, sizeof sun) == 0);
	close(s);
	put(in_work("closed"), "closed");
	ck_assert_int_eq(chmod(in_work("closed"), 0), 0);
}

static const struct {
	const char *path, *why;
} tricks[] = {
	{"/etc/passwd", "relative"},
	{"//abc", "relative"},
	{"../../secret", "leaves"},
	{"..", "leaves"},
	{"d/../../../secret", "leaves"},
	{"d/../abc", "leaves"},
	{"link", "symbolic link"},
	{"inside", "symbolic link"},
	{"dangling", "symbolic link"},
	{"dirlink/secret", "through"},
	{"d2/f", "through"},
	{"abc/x", "through"},
	{"hard", "other names"},
	{"fifo", "no plain file"},
	{"sock", "no plain file"},
	{"d", "directory"},
	{".", "directory"},
	{"./", "directory"},
	{"none", "No such file"},
	{"none/x", "No such file"},
	{"/dev/zero", "relative"},
	{"/proc/self/environ", "relative"},
	{"", "directory"},
};

START_TEST(a_path_trick_is_refused) /* proves L4-05 */
{
	int before = descriptors();

	make_tricks();
	ck_assert_msg(keep(tricks[_i].path, 1 << 20) < 0, "%s", tricks[_i].path);
	ck_assert_msg(strstr(why, tricks[_i].why) != NULL, "%s: %s", tricks[_i].path, why);
	ck_assert_int_lt(artifact_open(state, ID, "kept"), 0);
	ck_assert_int_eq(access(in_state("artifacts"), F_OK), -1);
	ck_assert_int_eq(descriptors(), before);
}
END_TEST

START_TEST(too_long_a_component_or_path_is_refused)
{
	char path[9000];

	memset(path, 'x', 300);
	path[300] = '\0';
	ck_assert_int_lt(keep(path, 100), 0);
	for (int i = 0; i < 4000; i++)
		memcpy(path + 2 * i, "./", 2);
	strcpy(path + 8000, "abc");
	ck_assert_msg(keep(path, 100) == 0, "%s", why); /* many small steps are no trick */
}
END_TEST

START_TEST(file_of_another_user_is_refused_where_workers_have_a_user)
{
	const struct artifact_source src = {.state_dir = state,
		.session_id = ID,
		.path = "abc",
		.name = "kept",
		.owner = (int64_t)geteuid() + 1,
		.max_bytes = 100};

	ck_assert_ptr_null(artifact_copy_begin(&src, why, sizeof why));
	ck_assert_msg(strstr(why, "own") != NULL, "%s", why);
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused_before_it_is_read)
{
	ck_assert_int_lt(keep("abc", 2), 0);
	ck_assert_msg(strstr(why, "limit") != NULL, "%s", why);
	put(in_work("sparse"), "");
	ck_assert_int_eq(truncate(in_work("sparse"), (off_t)1 << 40), 0); /* a terabyte of nothing */
	ck_assert_int_lt(keep("sparse", 1 << 30), 0);
	ck_assert_int_eq(access(in_state("artifacts"), F_OK), -1);
}
END_TEST

/* ---- slices ---- */

static void put_large(const char *name, size_t size)
{
	FILE *f = fopen(in_work(name), "w");

	for (size_t i = 0; i < size; i++)
		fputc((int)(i % 251), f);
	fclose(f);
}

START_TEST(a_slice_is_bounded_and_nothing_has_the_name_before_the_last)
{
	struct artifact_copy *c;
	struct stat st;
	int steps = 1;

	put_large("large", 3000000);
	c = copy_of("large", 1 << 30);
	for (; artifact_copy_step(c, 1 << 20, why, sizeof why) == 1; steps++) {
		ck_assert_int_le(c->size, steps * (int64_t)(1 << 20));
		ck_assert_int_lt(artifact_open(state, ID, "kept"), 0);
		ck_assert_int_eq(access(stored(".new"), F_OK), 0);
	}
	ck_assert_int_eq(steps, 3);
	ck_assert(c->size == 3000000 && stat(stored("kept"), &st) == 0 && st.st_size == 3000000);
	ck_assert_int_eq(access(stored(".new"), F_OK), -1);
	artifact_copy_free(c);
}
END_TEST

START_TEST(a_copy_that_is_given_up_leaves_nothing)
{
	struct artifact_copy *c;
	int before = descriptors();

	put_large("large", 300000);
	c = copy_of("large", 1 << 30);
	ck_assert_int_eq(artifact_copy_step(c, 1000, why, sizeof why), 1);
	artifact_copy_free(c);
	ck_assert_int_eq(access(stored(""), F_OK), -1);
	ck_assert_int_eq(descriptors(), before);
}
END_TEST

START_TEST(a_file_that_grows_meanwhile_ends_where_it_ended)
{
	struct artifact_copy *c;
	FILE *f;

	put_large("large", 300000);
	c = copy_of("large", 300000);
	ck_assert_int_eq(artifact_copy_step(c, 1000, why, sizeof why), 1);
	f = fopen(in_work("large"), "a");
	fputs("more and more", f);
	fclose(f);
	ck_assert_int_eq(artifact_copy_step(c, 1 << 20, why, sizeof why), 0);
	ck_assert(c->size == 300000 && c->has_changed);
	artifact_copy_free(c);
}
END_TEST

START_TEST(a_file_that_shrinks_meanwhile_is_what_could_be_read)
{
	struct artifact_copy *c;
	struct stat st;

	put_large("large", 300000);
	c = copy_of("large", 300000);
	ck_assert_int_eq(artifact_copy_step(c, 1000, why, sizeof why), 1);
	ck_assert_int_eq(truncate(in_work("large"), 5), 0);
	ck_assert_int_eq(artifact_copy_step(c, 1 << 20, why, sizeof why), 0);
	ck_assert(c->has_changed && stat(stored("kept"), &st) == 0 && st.st_size == c->size &&
		c->size < 300000);
	artifact_copy_free(c);
}
END_TEST

START_TEST(a_file_that_is_removed_meanwhile_still_comes_in)
{
	struct artifact_copy *c = copy_of("abc", 100);

	ck_assert_int_eq(unlink(in_work("abc")), 0);
	ck_assert_int_eq(artifact_copy_step(c, 100, why, sizeof why), 0);
	ck_assert_str_eq(c->sha256, SHA_OF_ABC);
	artifact_copy_free(c);
}
END_TEST

START_TEST(full_disk_leaves_no_part_of_an_artifact)
{
	struct rlimit was, small = {100000, RLIM_INFINITY};
	struct artifact_copy *c;

	put_large("large", 300000);
	c = copy_of("large", 1 << 30);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	small.rlim_max = was.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(artifact_copy_step(c, 1 << 20, why, sizeof why), -1);
	setrlimit(RLIMIT_FSIZE, &was);
	ck_assert_msg(strstr(why, "cannot be stored") != NULL, "%s", why);
	artifact_copy_free(c);
	ck_assert_int_eq(access(stored(""), F_OK), -1);
}
END_TEST

START_TEST(the_later_file_of_a_name_takes_the_place_of_the_earlier)
{
	ck_assert_int_eq(keep("abc", 100), 0);
	put(in_work("abc"), "other");
	ck_assert_int_eq(keep("abc", 100), 0);
	must_be_stored("kept", "other");
}
END_TEST

/* ---- what is there ---- */

static bool knows_kept(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "kept") == 0;
}

START_TEST(files_that_a_crash_left_are_collected_and_known_ones_stay)
{
	ck_assert_int_eq(keep("abc", 100), 0);
	put(stored(".new"), "half");
	put(stored("uncommitted"), "whole, but no row");
	ck_assert_int_eq(artifact_collect(state, ID, knows_kept, NULL), 2);
	must_be_stored("kept", "abc");
	ck_assert_int_eq(access(stored(".new"), F_OK), -1);
	ck_assert_int_eq(access(stored("uncommitted"), F_OK), -1);
	artifact_remove(state, ID, "kept");
	ck_assert_int_eq(access(stored(""), F_OK), -1);
	artifact_remove(state, ID, "kept"); /* is no matter */
	ck_assert_int_eq(artifact_collect(state, ID, knows_kept, NULL), 0);
}
END_TEST

START_TEST(text_that_is_no_name_opens_nothing)
{
	static const char *const bad[] = {"../" ID "/kept", ".new", "", "a/b"};

	ck_assert_int_eq(keep("abc", 100), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert(artifact_open(state, ID, bad[i]) < 0 && errno == EINVAL);
	ck_assert(artifact_open(state, "../work/x", "kept") < 0 && errno == EINVAL);
	ck_assert(artifact_open(state, ID, "other") < 0 && errno == ENOENT);
	ck_assert_int_eq(symlink(in_state("secret"), stored("link")), 0);
	ck_assert(artifact_open(state, ID, "link") < 0);
}
END_TEST

START_TEST(text_that_is_no_id_removes_nothing)
{
	static const char *const bad[] = {".", "..", "../work", ""};

	ck_assert_int_eq(keep("abc", 100), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_int_eq(artifact_collect(state, bad[i], knows_kept, NULL), 0);
		artifact_remove(state, bad[i], "secret");
	}
	artifact_remove(state, "..", "secret");
	ck_assert_int_eq(access(in_state("secret"), F_OK), 0);
	ck_assert_int_eq(access(stored("kept"), F_OK), 0);
}
END_TEST

START_TEST(items_for_the_control_socket_hold_it_whole)
{
	struct buf b = {0};
	size_t items = 0;
	int fd;

	put_large("large", 60000);
	ck_assert_int_eq(keep("large", 1 << 20), 0);
	fd = artifact_open(state, ID, "kept");
	for (; artifact_add_item(fd, &b) == 1; items++) {
		json_t *item = json_loadb(b.data, b.size, 0, NULL);

		ck_assert(json_is_string(json_object_get(item, "data")) && b.size < 64 << 10);
		json_decref(item);
		buf_clear(&b);
	}
	ck_assert(items == 3 && b.size == 0);
	close(fd);
	buf_fini(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("artifact_file");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, a_name_is_a_plain_file_name, 0, sizeof names / sizeof *names);
	tcase_add_test(t, a_name_is_as_long_as_a_file_system_takes_and_hides_no_nul);
	tcase_add_test(t, the_uri_escapes_what_a_uri_may_not_hold);
	tcase_add_test(t, a_type_is_words_around_a_slash);
	tcase_add_test(t, a_file_comes_in_with_its_size_and_hash);
	tcase_add_test(t, an_empty_file_is_an_artifact_too);
	tcase_add_test(t, paths_below_the_directory_are_good_however_they_are_written);
	tcase_add_loop_test(t, a_path_trick_is_refused, 0, sizeof tricks / sizeof *tricks);
	tcase_add_test(t, too_long_a_component_or_path_is_refused);
	tcase_add_test(t, file_of_another_user_is_refused_where_workers_have_a_user);
	tcase_add_test(t, a_file_that_is_too_large_is_refused_before_it_is_read);
	tcase_add_test(t, a_slice_is_bounded_and_nothing_has_the_name_before_the_last);
	tcase_add_test(t, a_copy_that_is_given_up_leaves_nothing);
	tcase_add_test(t, a_file_that_grows_meanwhile_ends_where_it_ended);
	tcase_add_test(t, a_file_that_shrinks_meanwhile_is_what_could_be_read);
	tcase_add_test(t, a_file_that_is_removed_meanwhile_still_comes_in);
	tcase_add_test(t, full_disk_leaves_no_part_of_an_artifact);
	tcase_add_test(t, the_later_file_of_a_name_takes_the_place_of_the_earlier);
	tcase_add_test(t, files_that_a_crash_left_are_collected_and_known_ones_stay);
	tcase_add_test(t, text_that_is_no_name_opens_nothing);
	tcase_add_test(t, text_that_is_no_id_removes_nothing);
	tcase_add_test(t, items_for_the_control_socket_hold_it_whole);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
