/* test_token.c: a token is ours, unchanged and for one session, or it is nothing. */
#include "token.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SESSION "11111111-2222-4333-8444-555555555555"
#define OTHER "11111111-2222-4333-8444-555555555556"

static char dir[200], path[256], why[512];
static struct token_key key;
static char token[TOKEN_SIZE];

static void make(const char *session_id, const char *caller_id, int64_t expires_us)
{
	token_make(
		&key, &(struct token_claims){session_id, caller_id, "R2", "T1", 1000000, expires_us}, token);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-token-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/token.key", dir);
	ck_assert_msg(token_load_key(dir, &key, why, sizeof why) == 0, "%s", why);
	make(SESSION, "alpha", 2000000);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

static void teardown(void)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

START_TEST(a_token_fits_its_session_and_no_other) /* towards L3-08 */
{
	ck_assert(token_fits(&key, token, SESSION));
	ck_assert(!token_fits(&key, token, OTHER));
	make(OTHER, "alpha", 2000000);
	ck_assert(!token_fits(&key, token, SESSION));
}
END_TEST

START_TEST(any_changed_character_makes_it_void) /* towards L3-08 */
{
	char changed[TOKEN_SIZE];
	size_t n = strlen(token);

	for (size_t i = 0; i < n; i++) {
		memcpy(changed, token, sizeof changed);
		changed[i] = changed[i] == 'A' ? 'B' : 'A';
		ck_assert_msg(!token_fits(&key, changed, SESSION), "at %zu", i);
	}
}
END_TEST

START_TEST(no_part_of_it_and_nothing_added_fits) /* towards L3-08 */
{
	char changed[TOKEN_SIZE + 8];
	size_t n = strlen(token);

	for (size_t i = 0; i < n; i++) {
		snprintf(changed, sizeof changed, "%.*s", (int)i, token);
		ck_assert_msg(!token_fits(&key, changed, SESSION), "cut at %zu", i);
	}
	snprintf(changed, sizeof changed, "%sA", token);
	ck_assert(!token_fits(&key, changed, SESSION));
	snprintf(changed, sizeof changed, "%s=", token);
	ck_assert(!token_fits(&key, changed, SESSION));
	snprintf(changed, sizeof changed, " %s", token);
	ck_assert(!token_fits(&key, changed, SESSION));
	snprintf(changed, sizeof changed, "%s", strchr(token, '.'));
	ck_assert(!token_fits(&key, changed, SESSION));
}
END_TEST

START_TEST(nonsense_does_not_fit)
{
	static const char *const nonsense[] = {"", ".", "..", "a.b", "null",
		"....................................................", "eyJ9.eyJ9", "\xff\xfe.\xff"};
	char *lots = malloc(1000001);

	for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
		ck_assert(!token_fits(&key, nonsense[i], SESSION));
	ck_assert(lots != NULL);
	memset(lots, 'A', 1000000);
	lots[1000000] = '\0';
	ck_assert(!token_fits(&key, lots, SESSION));
	lots[999956] = '.'; /* with a signature of the right length */
	ck_assert(!token_fits(&key, lots, SESSION));
	free(lots);
}
END_TEST

START_TEST(another_key_makes_another_token) /* towards L3-08 */
{
	struct token_key other = key;

	other.bytes[31] ^= 1;
	ck_assert(!token_fits(&other, token, SESSION));
}
END_TEST

START_TEST(expiry_is_in_it_but_does_not_refuse) /* towards L3-08 */
{
	make(SESSION, "alpha", 1000001);
	ck_assert(token_fits(&key, token, SESSION));
}
END_TEST

START_TEST(the_longest_caller_fits_into_a_token)
{
	char caller[129];

	memset(caller, 'c', 128);
	caller[128] = '\0';
	make(SESSION, caller, 2000000);
	ck_assert_uint_lt(strlen(token), TOKEN_SIZE);
	ck_assert(token_fits(&key, token, SESSION));
	ck_assert(!token_fits(&key, token, OTHER));
}
END_TEST

START_TEST(a_token_is_of_an_alphabet_that_needs_no_escapes)
{
	ck_assert_uint_eq(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."),
		strlen(token));
}
END_TEST

/* A caller named like a claim must not make a token for another session. */
START_TEST(a_callers_name_cannot_pass_for_a_session)
{
	make(SESSION, "session_id:" OTHER, 2000000);
	ck_assert(!token_fits(&key, token, OTHER));
	ck_assert(token_fits(&key, token, SESSION));
}
END_TEST

/* ---- the key ---- */

START_TEST(the_key_is_made_once_mode_0600_and_kept)
{
	struct token_key again;
	struct stat st;

	ck_assert(stat(path, &st) == 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(st.st_size, TOKEN_KEY_SIZE);
	ck_assert_int_eq(token_load_key(dir, &again, why, sizeof why), 0);
	ck_assert(memcmp(&key, &again, sizeof key) == 0);
	ck_assert(token_fits(&again, token, SESSION));
}
END_TEST

START_TEST(two_state_directories_have_two_keys)
{
	struct token_key other;

	ck_assert(unlink(path) == 0);
	ck_assert_int_eq(token_load_key(dir, &other, why, sizeof why), 0);
	ck_assert(memcmp(&key, &other, sizeof key) != 0);
}
END_TEST

START_TEST(a_key_that_others_may_read_is_refused)
{
	ck_assert(chmod(path, 0640) == 0);
	ck_assert_int_lt(token_load_key(dir, &key, why, sizeof why), 0);
	ck_assert(strstr(why, path) != NULL && strstr(why, "600") != NULL);
	ck_assert(chmod(path, 0604) == 0);
	ck_assert_int_lt(token_load_key(dir, &key, why, sizeof why), 0);
}
END_TEST

START_TEST(a_damaged_key_is_refused_and_not_replaced)
{
	static const int sizes[] = {0, 1, TOKEN_KEY_SIZE - 1, TOKEN_KEY_SIZE + 1};
	struct stat st;
	int fd = open(path, O_WRONLY);

	ck_assert(fd >= 0 && ftruncate(fd, sizes[_i]) == 0);
	close(fd);
	ck_assert_int_lt(token_load_key(dir, &key, why, sizeof why), 0);
	ck_assert(strstr(why, path) != NULL);
	ck_assert(stat(path, &st) == 0 && st.st_size == sizes[_i]);
}
END_TEST

START_TEST(a_directory_that_is_not_there_is_said)
{
	ck_assert_int_lt(token_load_key("/nonexistent/hcpd", &key, why, sizeof why), 0);
	ck_assert(strstr(why, "/nonexistent/hcpd") != NULL);
}
END_TEST

START_TEST(a_crash_while_the_key_was_made_is_no_harm)
{
	char part[400];
	int fd;

	ck_assert(unlink(path) == 0);
	snprintf(part, sizeof part, "%s.part", path);
	fd = open(part, O_WRONLY | O_CREAT, 0600);
	ck_assert(fd >= 0 && write(fd, "half", 4) == 4);
	close(fd);
	ck_assert_int_eq(token_load_key(dir, &key, why, sizeof why), 0);
	make(SESSION, "alpha", 2000000);
	ck_assert_int_eq(token_load_key(dir, &key, why, sizeof why), 0);
	ck_assert(token_fits(&key, token, SESSION));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("token");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_token_fits_its_session_and_no_other);
	tcase_add_test(t, any_changed_character_makes_it_void);
	tcase_add_test(t, no_part_of_it_and_nothing_added_fits);
	tcase_add_test(t, nonsense_does_not_fit);
	tcase_add_test(t, another_key_makes_another_token);
	tcase_add_test(t, expiry_is_in_it_but_does_not_refuse);
	tcase_add_test(t, the_longest_caller_fits_into_a_token);
	tcase_add_test(t, a_token_is_of_an_alphabet_that_needs_no_escapes);
	tcase_add_test(t, a_callers_name_cannot_pass_for_a_session);
	tcase_add_test(t, the_key_is_made_once_mode_0600_and_kept);
	tcase_add_test(t, two_state_directories_have_two_keys);
	tcase_add_test(t, a_key_that_others_may_read_is_refused);
	tcase_add_loop_test(t, a_damaged_key_is_refused_and_not_replaced, 0, 4);
	tcase_add_test(t, a_directory_that_is_not_there_is_said);
	tcase_add_test(t, a_crash_while_the_key_was_made_is_no_harm);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
