/* SPDX-License-Identifier: MIT */
/* test_token.c: a token is ours, unchanged and for one session, or it is nothing. */
#include "protocol/token.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#define SESSION "11111111-2222-4333-8444-555555555555"
#define OTHER "11111111-2222-4333-8444-555555555556"

static char dir[200], path[256], why[512];
static struct token_keys keys;
static char token[TOKEN_SIZE];

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void make_of(const struct token_keys *of, const char *session_id, const char *caller_id,
	const char *risk, int64_t expires_us, char out[TOKEN_SIZE])
{
	token_make(of,
		&(struct token_claims){.session_id = session_id,
			.caller_id = caller_id,
			.risk = risk,
			.data_class = "T1",
			.max_duration = "PT1S",
			.envelope = HASH,
			.intent = HASH,
			.task = HASH,
			.issued_us = 1000000,
			.expires_us = expires_us},
		out);
}

static void make(const char *session_id, const char *caller_id, int64_t expires_us)
{
	make_of(&keys, session_id, caller_id, "R2", expires_us, token);
}

/* What the check says where `given` is the token that the session was given. */
static enum token_fault check_with(const struct token_keys *of, const char *shown, const char *session_id,
	const char *given, int64_t now_us)
{
	return token_check(
		of, shown, &(struct token_session){.session_id = session_id, .token = given}, now_us);
}

/* Is it good for the session that has the token of this moment? */
static bool is_good(const char *shown, const char *session_id)
{
	return check_with(&keys, shown, session_id, token, 0) == TOKEN_GOOD;
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-token-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/token.keys", dir);
	ck_assert_msg(token_load_keys(dir, &keys, why, sizeof why) == 0, "%s", why);
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

START_TEST(a_token_is_good_for_its_session_and_no_other) /* proves L3-08 */
{
	char other[TOKEN_SIZE];

	ck_assert(is_good(token, SESSION));
	make_of(&keys, OTHER, "alpha", "R2", 2000000, other);
	ck_assert_int_eq(check_with(&keys, token, OTHER, other, 0), TOKEN_OTHER_SESSION);
	ck_assert_int_eq(check_with(&keys, other, SESSION, token, 0), TOKEN_OTHER_SESSION);
}
END_TEST

START_TEST(any_changed_character_makes_it_void) /* proves L3-08 */
{
	char changed[TOKEN_SIZE];
	size_t n = strlen(token);

	for (size_t i = 0; i < n; i++) {
		memcpy(changed, token, sizeof changed);
		changed[i] = changed[i] == 'A' ? 'B' : 'A';
		enum token_fault fault = check_with(&keys, changed, SESSION, token, 0);
		ck_assert_msg(fault == (i < TOKEN_KID_SIZE - 1 ? TOKEN_UNKNOWN_KEY : TOKEN_FORGED) ||
				fault == TOKEN_MALFORMED,
			"at %zu: %s", i, token_fault_names[fault]);
	}
}
END_TEST

START_TEST(no_part_of_it_and_nothing_added_fits) /* proves L3-08 */
{
	char changed[TOKEN_SIZE + 8];
	size_t n = strlen(token);

	for (size_t i = 0; i < n; i++) {
		snprintf(changed, sizeof changed, "%.*s", (int)i, token);
		ck_assert_msg(!is_good(changed, SESSION), "cut at %zu", i);
	}
	snprintf(changed, sizeof changed, "%sA", token);
	ck_assert(!is_good(changed, SESSION));
	snprintf(changed, sizeof changed, "%s=", token);
	ck_assert(!is_good(changed, SESSION));
	snprintf(changed, sizeof changed, " %s", token);
	ck_assert(!is_good(changed, SESSION));
	snprintf(changed, sizeof changed, "%s", strchr(token, '.'));
	ck_assert(!is_good(changed, SESSION));
}
END_TEST

START_TEST(nonsense_does_not_fit)
{
	static const char *const nonsense[] = {"", ".", "..", "a.b", "null",
		"....................................................", "eyJ9.eyJ9", "\xff\xfe.\xff"};
	char *lots = malloc(1000001);

	for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
		ck_assert(!is_good(nonsense[i], SESSION));
	ck_assert(lots != NULL);
	memset(lots, 'A', 1000000);
	lots[1000000] = '\0';
	ck_assert(!is_good(lots, SESSION));
	lots[999956] = '.'; /* with a signature of the right length */
	ck_assert(!is_good(lots, SESSION));
	free(lots);
}
END_TEST

/* The same name, another key: nobody but who has the key can sign. */
START_TEST(token_that_was_signed_with_another_key_is_forged) /* proves L3-08 */
{
	struct token_keys other = keys;
	char forged[TOKEN_SIZE];

	other.list[0].bytes[31] ^= 1;
	make_of(&other, SESSION, "alpha", "R2", 2000000, forged);
	ck_assert_int_eq(check_with(&keys, forged, SESSION, forged, 0), TOKEN_FORGED);
	token_name_key(&other.list[0]);
	make_of(&other, SESSION, "alpha", "R2", 2000000, forged);
	ck_assert_int_eq(check_with(&keys, forged, SESSION, forged, 0), TOKEN_UNKNOWN_KEY);
}
END_TEST

START_TEST(expiry_counts_but_for_an_abort) /* proves L3-08 */
{
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 1999999), TOKEN_GOOD);
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 2000000), TOKEN_EXPIRED);
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 0), TOKEN_GOOD);
}
END_TEST

/* Who has an old key, or finds an old form, can sign what he likes: but each session was given one token. */
START_TEST(other_claims_for_the_same_session_were_never_issued) /* proves L3-08 */
{
	char mild[TOKEN_SIZE], late[TOKEN_SIZE];

	make_of(&keys, SESSION, "alpha", "R1", 2000000, mild);
	make_of(&keys, SESSION, "alpha", "R2", 9000000, late);
	ck_assert_int_eq(check_with(&keys, mild, SESSION, token, 0), TOKEN_NOT_ISSUED);
	ck_assert_int_eq(check_with(&keys, late, SESSION, token, 0), TOKEN_NOT_ISSUED);
}
END_TEST

START_TEST(a_revoked_token_says_so) /* proves L3-08 */
{
	const struct token_session s = {.session_id = SESSION, .token = token, .is_revoked = true};

	ck_assert_int_eq(token_check(&keys, token, &s, 0), TOKEN_REVOKED);
	ck_assert_int_eq(token_check(&keys, "a.b.c", &s, 0), TOKEN_MALFORMED);
}
END_TEST

START_TEST(a_token_says_what_was_approved) /* proves L3-08 */
{
	static const char *const wanted[] = {"\"session_id\":\"" SESSION "\"", "\"caller_id\":\"alpha\"",
		"\"risk\":\"R2\"", "\"data\":\"T1\"", "\"max_duration\":\"PT1S\"",
		"\"envelope\":\"" HASH "\"", "\"intent\":\"" HASH "\"", "\"task\":\"" HASH "\"",
		"\"issued_at\":\"1970-01-01T00:00:01.000Z\"", "\"expires_at\":\"1970-01-01T00:00:02.000Z\""};
	const char *from = token + TOKEN_KID_SIZE;
	unsigned char claims[TOKEN_SIZE];
	char text[TOKEN_SIZE + 4], intent[65], task[65];
	size_t n = (size_t)(strrchr(token, '.') - from);

	for (size_t i = 0; i < n; i++)
		text[i] = from[i] == '-' ? '+' : from[i] == '_' ? '/' : from[i];
	while (n % 4 != 0)
		text[n++] = '=';
	ck_assert_int_gt(EVP_DecodeBlock(claims, (const unsigned char *)text, (int)n), 0);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		ck_assert_msg(strstr((const char *)claims, wanted[i]) != NULL, "%s is not in %s", wanted[i],
			(const char *)claims);
	ck_assert(strncmp(token, keys.list[0].kid, TOKEN_KID_SIZE - 1) == 0);
	ck_assert_int_eq(token_find_seals(&keys, token, intent, task), 1);
	ck_assert_str_eq(intent, HASH);
	ck_assert_str_eq(task, HASH);
}
END_TEST

/* ---- versions and rotation ---- */

static bool none_needs(void *ctx, const struct token_key *key)
{
	(void)ctx, (void)key;
	return false;
}

static bool all_need(void *ctx, const struct token_key *key)
{
	(void)ctx, (void)key;
	return true;
}

static bool needs_token(void *ctx, const struct token_key *key)
{
	return token_is_of(key, ctx);
}

START_TEST(new_key_signs_and_the_old_one_verifies_its_live_tokens) /* proves L3-08 */
{
	char young[TOKEN_SIZE], third[TOKEN_SIZE];
	struct token_keys again;

	ck_assert_int_eq(token_rotate(dir, &keys, 1500000, 2000000, needs_token, token, why, sizeof why), 0);
	ck_assert_uint_eq(keys.count, 2);
	make_of(&keys, SESSION, "alpha", "R2", 3000000, young);
	ck_assert(strncmp(young, token, TOKEN_KID_SIZE - 1) != 0);
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 0), TOKEN_GOOD);
	ck_assert_int_eq(check_with(&keys, young, SESSION, young, 0), TOKEN_GOOD);
	ck_assert_int_eq(token_load_keys(dir, &again, why, sizeof why), 0); /* and so after a restart */
	ck_assert(memcmp(&again, &keys, sizeof keys) == 0);
	ck_assert_int_eq(check_with(&again, token, SESSION, token, 0), TOKEN_GOOD);
	/* Its last token has expired, and a session lives that has one: its owner may abort it with that. */
	ck_assert_int_eq(token_rotate(dir, &keys, 2500000, 3500000, needs_token, token, why, sizeof why), 0);
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 0), TOKEN_GOOD);
	ck_assert_uint_eq(keys.count, 2); /* without the one that signed nothing that anybody has */
	ck_assert_int_eq(check_with(&keys, young, SESSION, young, 0), TOKEN_UNKNOWN_KEY);
	make_of(&keys, SESSION, "alpha", "R2", 3000000, young);
	ck_assert_int_eq(token_rotate(dir, &keys, 2600000, 3600000, needs_token, young, why, sizeof why), 0);
	ck_assert_uint_eq(keys.count, 2);
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 0), TOKEN_UNKNOWN_KEY);
	ck_assert_int_eq(check_with(&keys, young, SESSION, young, 0), TOKEN_GOOD);
	make_of(&keys, SESSION, "alpha", "R2", 3000000, third);
	ck_assert_int_eq(check_with(&again, third, SESSION, third, 0), TOKEN_UNKNOWN_KEY);
}
END_TEST

START_TEST(keys_without_a_live_session_do_not_prevent_a_rotation) /* proves L3-08 */
{
	for (int i = 1; i < 3 * TOKEN_KEYS_MAX; i++) {
		ck_assert_msg(token_rotate(dir, &keys, i, 9000000, needs_token, token, why, sizeof why) == 0,
			"%s", why);
		ck_assert_uint_eq(keys.count, 2);
	}
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 0), TOKEN_GOOD);
}
END_TEST

START_TEST(no_key_that_is_needed_is_dropped_for_a_new_one)
{
	struct token_keys before;

	for (int i = 1; i < TOKEN_KEYS_MAX; i++)
		ck_assert_int_eq(
			token_rotate(dir, &keys, i, (10 - i) * 1000000, all_need, NULL, why, sizeof why), 0);
	before = keys;
	ck_assert_int_lt(token_rotate(dir, &keys, 100, 9000000, all_need, NULL, why, sizeof why), 0);
	ck_assert_msg(strstr(why, "1970-01-01T00:00:03") != NULL, "until when? %s", why);
	ck_assert(memcmp(&before, &keys, sizeof keys) == 0);
	ck_assert_int_eq(check_with(&keys, token, SESSION, token, 0), TOKEN_GOOD);
	ck_assert_int_eq(token_load_keys(dir, &keys, why, sizeof why), 0);
	ck_assert(memcmp(&before, &keys, sizeof keys) == 0);
}
END_TEST

START_TEST(a_rotation_that_cannot_be_written_changes_nothing)
{
	struct token_keys before = keys;

	ck_assert_int_lt(
		token_rotate("/nonexistent/hcpd", &keys, 1, 2, none_needs, NULL, why, sizeof why), 0);
	ck_assert(strstr(why, "/nonexistent/hcpd") != NULL);
	ck_assert(memcmp(&before, &keys, sizeof keys) == 0);
}
END_TEST

/* Made by version 0.1 with a key of the bytes 1, 2, 3 ... 32. */
static const char old_form[] =
	"eyJ2IjoxLCJzZXNzaW9uX2lkIjoiMTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1In0."
	"OjxDhrJ0cTq0EJYvSQaDP-Q5mCgUb23l85c2sqI0jEY";

/* proves L3-08 */
START_TEST(token_of_an_older_version_stays_good_and_forges_nothing)
{
	unsigned char bytes[TOKEN_KEY_SIZE];
	char old[400], young[TOKEN_SIZE], intent[65], task[65];
	int fd;

	for (int i = 0; i < TOKEN_KEY_SIZE; i++)
		bytes[i] = (unsigned char)(i + 1);
	ck_assert(unlink(path) == 0);
	snprintf(old, sizeof old, "%s/token.key", dir);
	fd = open(old, O_WRONLY | O_CREAT, 0600);
	ck_assert(fd >= 0 && write(fd, bytes, sizeof bytes) == TOKEN_KEY_SIZE);
	close(fd);
	ck_assert_msg(token_load_keys(dir, &keys, why, sizeof why) == 0, "%s", why);
	ck_assert_uint_eq(keys.count, 1);
	ck_assert(memcmp(keys.list[0].bytes, bytes, sizeof bytes) == 0);
	ck_assert(access(old, F_OK) < 0 && access(path, F_OK) == 0);
	ck_assert_int_eq(check_with(&keys, old_form, SESSION, old_form, 0), TOKEN_GOOD);
	ck_assert_int_eq(token_find_seals(&keys, old_form, intent, task), 0);
	ck_assert_int_eq(token_rotate(dir, &keys, 1, 9000000, all_need, NULL, why, sizeof why), 0);
	ck_assert_int_eq(check_with(&keys, old_form, SESSION, old_form, 0), TOKEN_GOOD);
	/* Downgraded: for a session that was given a token of today, the old form is none. */
	make_of(&keys, SESSION, "alpha", "R2", 2000000, young);
	ck_assert_int_eq(check_with(&keys, old_form, SESSION, young, 0), TOKEN_NOT_ISSUED);
}
END_TEST

START_TEST(the_longest_caller_fits_into_a_token)
{
	char caller[129];

	memset(caller, 'c', 128);
	caller[128] = '\0';
	make(SESSION, caller, 2000000);
	ck_assert_uint_lt(strlen(token), TOKEN_SIZE);
	ck_assert(is_good(token, SESSION));
	ck_assert(!is_good(token, OTHER));
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
	ck_assert(!is_good(token, OTHER));
	ck_assert(is_good(token, SESSION));
}
END_TEST

/* ---- the key ---- */

START_TEST(the_key_is_made_once_mode_0600_and_kept)
{
	struct token_keys again;
	struct stat st;

	ck_assert(stat(path, &st) == 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(token_load_keys(dir, &again, why, sizeof why), 0);
	ck_assert(memcmp(&keys, &again, sizeof keys) == 0);
	ck_assert_int_eq(check_with(&again, token, SESSION, token, 0), TOKEN_GOOD);
}
END_TEST

START_TEST(two_state_directories_have_two_keys)
{
	struct token_keys other;

	ck_assert(unlink(path) == 0);
	ck_assert_int_eq(token_load_keys(dir, &other, why, sizeof why), 0);
	ck_assert(memcmp(&keys, &other, sizeof keys) != 0);
}
END_TEST

START_TEST(a_key_that_others_may_read_is_refused)
{
	ck_assert(chmod(path, 0640) == 0);
	ck_assert_int_lt(token_load_keys(dir, &keys, why, sizeof why), 0);
	ck_assert(strstr(why, path) != NULL && strstr(why, "600") != NULL);
	ck_assert(chmod(path, 0604) == 0);
	ck_assert_int_lt(token_load_keys(dir, &keys, why, sizeof why), 0);
}
END_TEST

/* Each kind of damage: cut, one digit changed (the name is the key's own hash), a time that is none,
 * more keys than there can be. */
START_TEST(a_damaged_file_is_refused_and_not_replaced)
{
	char text[4096], now[4096];
	int fd = open(path, O_RDWR);
	ssize_t size = read(fd, text, sizeof text);

	ck_assert(size > 80);
	switch (_i) {
	case 0: size = 0; break;
	case 1: size = 40; break;
	case 2: text[20] = text[20] == '0' ? '1' : '0'; break;
	case 3: memcpy(text + size - 3, "xx\n", 3); break;
	case 4: text[30] = '\0'; break;
	default:
		for (int i = 0; i < 3; i++, size *= 2)
			memcpy(text + size, text, (size_t)size);
		memcpy(text + size, text, (size_t)size / 8);
		size += size / 8;
	}
	ck_assert(ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)size, 0) == size);
	ck_assert_int_lt(token_load_keys(dir, &keys, why, sizeof why), 0);
	ck_assert(strstr(why, path) != NULL);
	ck_assert(pread(fd, now, sizeof now, 0) == size && memcmp(now, text, (size_t)size) == 0);
	close(fd);
}
END_TEST

START_TEST(damaged_key_of_an_older_version_is_refused_not_replaced)
{
	static const int sizes[] = {0, 1, TOKEN_KEY_SIZE - 1, TOKEN_KEY_SIZE + 1};
	char old[400];
	struct stat st;
	int fd;

	ck_assert(unlink(path) == 0);
	snprintf(old, sizeof old, "%s/token.key", dir);
	fd = open(old, O_WRONLY | O_CREAT, 0600);
	ck_assert(fd >= 0 && ftruncate(fd, sizes[_i]) == 0);
	close(fd);
	ck_assert_int_lt(token_load_keys(dir, &keys, why, sizeof why), 0);
	ck_assert(strstr(why, old) != NULL);
	ck_assert(stat(old, &st) == 0 && st.st_size == sizes[_i] && access(path, F_OK) < 0);
}
END_TEST

START_TEST(a_directory_that_is_not_there_is_said)
{
	ck_assert_int_lt(token_load_keys("/nonexistent/hcpd", &keys, why, sizeof why), 0);
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
	ck_assert_int_eq(token_load_keys(dir, &keys, why, sizeof why), 0);
	make(SESSION, "alpha", 2000000);
	ck_assert_int_eq(token_load_keys(dir, &keys, why, sizeof why), 0);
	ck_assert(is_good(token, SESSION));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("token");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_token_is_good_for_its_session_and_no_other);
	tcase_add_test(t, any_changed_character_makes_it_void);
	tcase_add_test(t, no_part_of_it_and_nothing_added_fits);
	tcase_add_test(t, nonsense_does_not_fit);
	tcase_add_test(t, token_that_was_signed_with_another_key_is_forged);
	tcase_add_test(t, expiry_counts_but_for_an_abort);
	tcase_add_test(t, other_claims_for_the_same_session_were_never_issued);
	tcase_add_test(t, a_revoked_token_says_so);
	tcase_add_test(t, a_token_says_what_was_approved);
	tcase_add_test(t, new_key_signs_and_the_old_one_verifies_its_live_tokens);
	tcase_add_test(t, keys_without_a_live_session_do_not_prevent_a_rotation);
	tcase_add_test(t, no_key_that_is_needed_is_dropped_for_a_new_one);
	tcase_add_test(t, a_rotation_that_cannot_be_written_changes_nothing);
	tcase_add_test(t, token_of_an_older_version_stays_good_and_forges_nothing);
	tcase_add_test(t, the_longest_caller_fits_into_a_token);
	tcase_add_test(t, a_token_is_of_an_alphabet_that_needs_no_escapes);
	tcase_add_test(t, a_callers_name_cannot_pass_for_a_session);
	tcase_add_test(t, the_key_is_made_once_mode_0600_and_kept);
	tcase_add_test(t, two_state_directories_have_two_keys);
	tcase_add_test(t, a_key_that_others_may_read_is_refused);
	tcase_add_loop_test(t, a_damaged_file_is_refused_and_not_replaced, 0, 6);
	tcase_add_loop_test(t, damaged_key_of_an_older_version_is_refused_not_replaced, 0, 4);
	tcase_add_test(t, a_directory_that_is_not_there_is_said);
	tcase_add_test(t, a_crash_while_the_key_was_made_is_no_harm);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
