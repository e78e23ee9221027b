/* SPDX-License-Identifier: MIT */
/* test_token_cache.c: the tokens of own sessions: modes, atomic replacement, pruning, look-up by prefix. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "hcpctl/common/user_files.h"
#include "hcpctl/common/token_cache.h"

#define ID_A "5f0c1111-1111-4111-8111-111111111111"
#define ID_B "5f0c2222-2222-4222-8222-222222222222"
#define ID_C "77777777-7777-4777-8777-777777777777"

static char base[256], dir[280], why[CTL_WHY_SIZE];

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(base, sizeof base, "%s/ctl-sessions-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(base));
	snprintf(dir, sizeof dir, "%s/a/hcp", base); /* neither is there yet */
}

static void empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char name[600];

	while (d && (e = readdir(d))) {
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlink(name);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

static void end(void)
{
	char a[280];

	empty(dir);
	snprintf(a, sizeof a, "%s/a", base);
	empty(a);
	ck_assert_int_eq(rmdir(base), 0);
}

static struct ctl_session session(const char *id, const char *token)
{
	struct ctl_session s = {.token = xstrdup(token),
		.caller = xstrdup("alpha"),
		.callee = xstrdup("demo"),
		.capability = xstrdup("echo"),
		.since_us = clock_wall_us(),
		.sequence = 7};

	snprintf(s.id, sizeof s.id, "%s", id);
	return s;
}

static void put(const char *id, const char *token)
{
	struct ctl_session s = session(id, token);

	ck_assert_msg(ctl_token_cache_put(dir, &s, why) == 0, "%s", why);
	ctl_session_fini(&s);
}

static mode_t mode_of(const char *name)
{
	char path[400];
	struct stat st;

	snprintf(path, sizeof path, "%s%s%s", dir, *name ? "/" : "", name);
	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

START_TEST(token_that_was_put_is_found_with_all_it_has)
{
	struct ctl_session s;

	put(ID_A, "tok\"en");
	ck_assert_int_eq(ctl_token_cache_find(dir, ID_A, &s, why), CTL_FOUND);
	ck_assert_str_eq(s.id, ID_A);
	ck_assert_str_eq(s.token, "tok\"en");
	ck_assert_str_eq(s.caller, "alpha");
	ck_assert_str_eq(s.callee, "demo");
	ck_assert_str_eq(s.capability, "echo");
	ck_assert_int_eq(s.sequence, 7);
	ctl_session_fini(&s);
}
END_TEST

START_TEST(only_the_owner_can_read_it)
{
	umask(0);
	put(ID_A, "t");
	ck_assert_int_eq(mode_of(""), 0700);
	ck_assert_int_eq(mode_of(CTL_SESSIONS_FILE), 0600);
	ck_assert_int_eq(mode_of("sessions.lock"), 0600);

	ck_assert_int_eq(chmod(dir, 0755), 0); /* made by hand, for hcpctl.ini */
	put(ID_B, "t");
	ck_assert_int_eq(mode_of(""), 0700);
}
END_TEST

START_TEST(the_file_is_replaced_never_written_into)
{
	char path[400];
	struct stat before, after;
	struct dirent *e;
	DIR *d;

	put(ID_A, "t");
	snprintf(path, sizeof path, "%s/%s", dir, CTL_SESSIONS_FILE);
	FILE *old = fopen(path, "r");
	ck_assert_int_eq(fstat(fileno(old), &before), 0);
	put(ID_B, "a much longer token than the other one, so that the file cannot have the same size");
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_msg(before.st_ino != after.st_ino, "the same file was written into");
	ck_assert_int_eq(fstat(fileno(old), &after), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
	fclose(old);
	for (d = opendir(dir); (e = readdir(d));)
		ck_assert_msg(!strstr(e->d_name, "sessions.json."), "left aside: %s", e->d_name);
	closedir(d);
}
END_TEST

START_TEST(a_write_that_fails_says_so_and_leaves_nothing_behind)
{
	char taken[400];
	struct dirent *e;
	DIR *d;

	put(ID_A, "t");
	snprintf(taken, sizeof taken, "%s/taken", dir);
	ck_assert_int_eq(mkdir(taken, 0700), 0); /* no file can be renamed to that */
	ck_assert_int_lt(ctl_user_files_write(dir, "taken", "x", 1, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "taken"));
	for (d = opendir(dir); (e = readdir(d));)
		ck_assert_msg(!strstr(e->d_name, ".taken"), "left aside: %s", e->d_name);
	closedir(d);
	ck_assert_int_eq(rmdir(taken), 0);
}
END_TEST

START_TEST(many_at_once_lose_nothing)
{
	struct ctl_session s;
	char id[ID_SIZE];
	int status;

	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			snprintf(id, sizeof id, "0000000%d-0000-4000-8000-000000000000", i);
			s = session(id, "t");
			_exit(ctl_token_cache_put(dir, &s, why) == 0 ? 0 : 1);
		}
	for (int i = 0; i < 8; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(id, sizeof id, "0000000%d", i);
		ck_assert_int_eq(ctl_token_cache_find(dir, id, &s, why), CTL_FOUND);
		ctl_session_fini(&s);
	}
}
END_TEST

START_TEST(a_closed_session_goes_and_the_others_stay)
{
	struct ctl_session s;

	put(ID_A, "t");
	put(ID_C, "t");
	ck_assert_int_eq(ctl_token_cache_drop(dir, ID_A, why), 0);
	ck_assert_int_eq(ctl_token_cache_drop(dir, ID_A, why), 0); /* fine twice */
	ck_assert_int_eq(ctl_token_cache_find(dir, ID_A, &s, why), CTL_NONE);
	ck_assert_int_eq(ctl_token_cache_find(dir, ID_C, &s, why), CTL_FOUND);
	ctl_session_fini(&s);
}
END_TEST

START_TEST(a_session_that_was_never_ours_leaves_no_trace)
{
	struct stat st;

	ck_assert_int_eq(ctl_token_cache_drop(dir, ID_A, why), 0);
	ck_assert_int_ne(stat(dir, &st), 0);
}
END_TEST

START_TEST(an_end_that_nobody_saw_is_forgotten_in_time)
{
	struct ctl_session old = session(ID_A, "t"), s;

	old.since_us -= CTL_SESSIONS_KEEP_US + 1000000;
	ck_assert_int_eq(ctl_token_cache_put(dir, &old, why), 0);
	ctl_session_fini(&old);
	put(ID_C, "t");
	ck_assert_int_eq(ctl_token_cache_find(dir, ID_A, &s, why), CTL_NONE);
}
END_TEST

START_TEST(a_prefix_finds_the_one_that_it_fits)
{
	struct ctl_session s;

	put(ID_A, "t");
	put(ID_B, "t");
	put(ID_C, "t");
	ck_assert_int_eq(ctl_token_cache_find(dir, "5F0C1", &s, why), CTL_FOUND);
	ck_assert_str_eq(s.id, ID_A);
	ctl_session_fini(&s);
	ck_assert_int_eq(ctl_token_cache_find(dir, "5f0c", &s, why), CTL_AMBIGUOUS);
	ck_assert_ptr_nonnull(strstr(why, ID_A));
	ck_assert_ptr_nonnull(strstr(why, ID_B));
	ck_assert_int_eq(ctl_token_cache_find(dir, "9", &s, why), CTL_NONE);
	ck_assert_int_eq(ctl_token_cache_find(dir, "", &s, why), CTL_NONE);
}
END_TEST

START_TEST(nothing_is_found_where_nothing_was_kept)
{
	struct ctl_session s;

	ck_assert_int_eq(ctl_token_cache_find(dir, ID_A, &s, why), CTL_NONE);
	ck_assert_int_eq(ctl_token_cache_find(NULL, ID_A, &s, why), CTL_NONE);
}
END_TEST

START_TEST(a_damaged_file_is_told_of_and_left_alone)
{
	struct ctl_session s = session(ID_A, "t"), found;
	struct buf text = {0};

	ck_assert_int_eq(ctl_user_files_write(dir, CTL_SESSIONS_FILE, "{\"x", 3, why), 0);
	ck_assert_int_lt(ctl_token_cache_put(dir, &s, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "damaged"));
	ck_assert_int_eq(ctl_token_cache_find(dir, ID_A, &found, why), CTL_UNREADABLE);
	ck_assert_int_eq(ctl_user_files_read(dir, CTL_SESSIONS_FILE, &text, why), 1);
	ck_assert_str_eq(buf_text(&text), "{\"x");
	buf_fini(&text);
	ctl_session_fini(&s);
}
END_TEST

START_TEST(the_instance_is_made_once_and_made_anew_where_it_is_no_good)
{
	char first[ID_SIZE], second[ID_SIZE];

	ck_assert_msg(ctl_user_files_instance(dir, first, why) == 0, "%s", why);
	ck_assert(id_is_uuid4(first));
	ck_assert_int_eq(ctl_user_files_instance(dir, second, why), 0);
	ck_assert_str_eq(first, second);
	ck_assert_int_eq(mode_of("instance"), 0600);
	ck_assert_int_eq(ctl_user_files_write(
				 dir, "instance", "rubbish that is longer than any UUID would be", 40, why),
		0);
	ck_assert_int_eq(ctl_user_files_instance(dir, second, why), 0);
	ck_assert(id_is_uuid4(second));
}
END_TEST

START_TEST(a_claim_is_one_holders_until_it_is_closed) /* proves L1-16 */
{
	int one = -1, other = -1, third = -1;

	ck_assert_int_eq(ctl_user_files_claim(dir, "queues.lock", "a", &one, why), 1);
	ck_assert_int_eq(ctl_user_files_claim(dir, "queues.lock", "a", &one, why), 1);
	ck_assert_int_eq(ctl_user_files_claim(dir, "queues.lock", "a", &other, why), 0);
	ck_assert_int_eq(ctl_user_files_claim(dir, "queues.lock", "b", &other, why), 1);
	ck_assert_int_eq(ctl_user_files_claim(dir, "queues.lock", "b", &one, why), 0);
	close(one);
	ck_assert_int_eq(ctl_user_files_claim(dir, "queues.lock", "a", &other, why), 1);
	close(other);
	ck_assert_int_eq(ctl_user_files_claim("/dev/null", "queues.lock", "a", &third, why), -1);
	ck_assert_int_eq(third, -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_sessions");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, token_that_was_put_is_found_with_all_it_has);
	tcase_add_test(tc, only_the_owner_can_read_it);
	tcase_add_test(tc, a_claim_is_one_holders_until_it_is_closed);
	tcase_add_test(tc, the_file_is_replaced_never_written_into);
	tcase_add_test(tc, a_write_that_fails_says_so_and_leaves_nothing_behind);
	tcase_add_test(tc, many_at_once_lose_nothing);
	tcase_add_test(tc, a_closed_session_goes_and_the_others_stay);
	tcase_add_test(tc, a_session_that_was_never_ours_leaves_no_trace);
	tcase_add_test(tc, an_end_that_nobody_saw_is_forgotten_in_time);
	tcase_add_test(tc, a_prefix_finds_the_one_that_it_fits);
	tcase_add_test(tc, nothing_is_found_where_nothing_was_kept);
	tcase_add_test(tc, a_damaged_file_is_told_of_and_left_alone);
	tcase_add_test(tc, the_instance_is_made_once_and_made_anew_where_it_is_no_good);
	suite_add_tcase(suite, tc);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
