/* SPDX-License-Identifier: MIT */
/* test_harp_key.c: an operator's key is a file that only he reads, that is never overwritten, and that
 * openssl knows too. */
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/harp_kit.h"

static char dir[200], path[256], why[512];

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-key-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/ann.key", dir);
	why[0] = '\0';
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

static void write_file(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);

	ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
	close(fd);
}

static int count_files(void)
{
	char command[300];
	int count = -1;
	FILE *f;

	snprintf(command, sizeof command, "ls -A '%s' | wc -l", dir);
	f = popen(command, "r");
	ck_assert(f != NULL && fscanf(f, "%d", &count) == 1);
	pclose(f);
	return count;
}

START_TEST(a_key_that_was_made_is_loaded_and_signs)
{
	char line[HARP_PUBLIC_SIZE], again[HARP_PUBLIC_SIZE];
	unsigned char public_key[HARP_PUBLIC_BYTES], signature[HARP_SIGNATURE_BYTES];
	struct harp_private *key;
	struct stat st;
	mode_t old = umask(0777); /* neither too wide nor too narrow a mask matters */

	ck_assert_msg(harp_key_make(path, line, why, sizeof why) == 0, "%s", why);
	umask(old);
	ck_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	ck_assert_int_eq(count_files(), 1);
	ck_assert(strlen(line) == HARP_PUBLIC_SIZE - 1 && harp_public_parse(line, public_key));
	ck_assert_msg((key = harp_key_load(path, why, sizeof why)) != NULL, "%s", why);
	harp_key_public(key, again);
	ck_assert_str_eq(line, again);
	ck_assert(harp_ed25519_sign(key, "text", 4, signature) &&
		harp_ed25519_verify(public_key, "text", 4, signature));
	harp_key_free(key);
	harp_key_free(NULL);
}
END_TEST

START_TEST(no_two_keys_are_the_same)
{
	char line[HARP_PUBLIC_SIZE], other[HARP_PUBLIC_SIZE];

	ck_assert(harp_key_make(path, line, why, sizeof why) == 0);
	ck_assert(unlink(path) == 0);
	ck_assert(harp_key_make(path, other, why, sizeof why) == 0);
	ck_assert_str_ne(line, other);
}
END_TEST

START_TEST(a_file_that_is_there_is_never_overwritten)
{
	char line[HARP_PUBLIC_SIZE] = "untouched", text[16] = "";
	FILE *f;

	write_file("precious", 0600);
	ck_assert_int_eq(harp_key_make(path, line, why, sizeof why), -1);
	ck_assert_msg(strstr(why, "File exists") != NULL && strstr(why, path) != NULL, "%s", why);
	ck_assert_str_eq(line, "untouched");
	f = fopen(path, "r");
	ck_assert(f != NULL && fgets(text, sizeof text, f) != NULL);
	fclose(f);
	ck_assert_str_eq(text, "precious");
	ck_assert_int_eq(count_files(), 1);
	ck_assert(unlink(path) == 0 && symlink("/nonexistent/place", path) == 0);
	ck_assert_int_eq(harp_key_make(path, line, why, sizeof why), -1);
}
END_TEST

START_TEST(key_file_that_cannot_be_made_is_an_error)
{
	char line[HARP_PUBLIC_SIZE], long_path[5000];

	ck_assert_int_eq(harp_key_make("/nonexistent/ann.key", line, why, sizeof why), -1);
	ck_assert_msg(strstr(why, "No such file") != NULL, "%s", why);
	memset(long_path, 'a', sizeof long_path);
	long_path[sizeof long_path - 1] = '\0';
	ck_assert_int_eq(harp_key_make(long_path, line, why, sizeof why), -1);
	ck_assert(chdir(dir) == 0);
	ck_assert_msg(
		harp_key_make("bare", line, why, sizeof why) == 0, "a name without a directory: %s", why);
}
END_TEST

/* RFC 8032's first key, as openssl genpkey would write it. */
#define PEM \
	"-----BEGIN PRIVATE " \
	"KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE " \
	"KEY-----\n"

START_TEST(openssl_s_file_is_a_key_too)
{
	struct harp_private *key, *rfc = harp_kit_key(0);
	char line[HARP_PUBLIC_SIZE], again[HARP_PUBLIC_SIZE];

	write_file(PEM, 0600);
	ck_assert_msg((key = harp_key_load(path, why, sizeof why)) != NULL, "%s", why);
	harp_key_public(key, line);
	harp_key_public(rfc, again);
	ck_assert_str_eq(line, again);
	ck_assert_str_eq(line, "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
	harp_key_free(key);
	harp_key_free(rfc);
}
END_TEST

START_TEST(a_key_that_others_may_read_is_not_used)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0666, 0777};

	for (int i = 0; i < COUNT(modes); i++) {
		write_file(PEM, modes[i]);
		ck_assert_msg(harp_key_load(path, why, sizeof why) == NULL, "%o", modes[i]);
		ck_assert_msg(strstr(why, "chmod 600") != NULL, "%s", why);
	}
}
END_TEST

static const struct {
	const char *what, *text;
} no_keys[] = {
	{"nothing", ""},
	{"no PEM", "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n"},
	{"cut", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v\n-----END PRIVATE KEY-----\n"},
	{"X25519",
		"-----BEGIN PRIVATE "
		"KEY-----\nMC4CAQAwBQYDK2VuBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END "
		"PRIVATE KEY-----\n"},
	{"the public half",
		"-----BEGIN PUBLIC "
		"KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC "
		"KEY-----\n"},
	/* openssl pkcs8 -topk8 -v2 aes-256-cbc: with the terminal asked for a password this test would
	 * hang */
	{"encrypted",
		"-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
		"MIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBAlY+UirUvALtBol0FI\n"
		"26/7AgIIADAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQfA/i1Y17Xa47bW1g\n"
		"Se8YmwRAr7oEMy7Uq893aAgi0K/If/0S6DqBx2/HIgHZ0sShgLUmVtSCNLUCO8YY\n"
		"L8Ios+sP5blOGjZyN66hZ1urFGvvMg==\n"
		"-----END ENCRYPTED PRIVATE KEY-----\n"},
};

START_TEST(file_without_an_ed25519_key_in_plain_pem_is_refused)
{
	write_file(no_keys[_i].text, 0600);
	ck_assert_msg(harp_key_load(path, why, sizeof why) == NULL, "%s", no_keys[_i].what);
	ck_assert_msg(strstr(why, "no Ed25519 key") != NULL, "%s: %s", no_keys[_i].what, why);
}
END_TEST

static int asked;

static bool give(const void *ctx, char passphrase[HARP_PASSPHRASE_SIZE])
{
	asked++;
	snprintf(passphrase, HARP_PASSPHRASE_SIZE, "%s", (const char *)ctx);
	return true;
}

static bool give_none(const void *ctx, char passphrase[HARP_PASSPHRASE_SIZE])
{
	(void)ctx, (void)passphrase;
	asked++;
	return false;
}

static bool __attribute__((format(printf, 1, 2))) runs(const char *fmt, ...)
{
	char command[700];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof command, fmt, ap);
	va_end(ap);
	return system(command) == 0;
}

START_TEST(a_passphrase_seals_the_file_and_opens_it)
{
	char line[HARP_PUBLIC_SIZE], again[HARP_PUBLIC_SIZE];
	struct harp_private *key;
	struct stat st;

	ck_assert_msg(
		harp_key_make_sealed(path, "korrekt horse \xc3\xa9", line, why, sizeof why) == 0, "%s", why);
	ck_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	ck_assert(runs("grep -q 'BEGIN ENCRYPTED PRIVATE KEY' '%s'", path));
	ck_assert_msg(harp_key_load(path, why, sizeof why) == NULL, "no passphrase was given");
	ck_assert_msg(harp_key_unseal(path, give_none, NULL, why, sizeof why) == NULL, "none was given");
	ck_assert_msg(strstr(why, "there is no passphrase") != NULL, "%s", why);
	ck_assert_msg(harp_key_unseal(path, give, "korrekt horse e", why, sizeof why) == NULL, "a wrong one");
	ck_assert_msg(strstr(why, "does not open with this passphrase") != NULL, "%s", why);
	asked = 0;
	key = harp_key_unseal(path, give, "korrekt horse \xc3\xa9", why, sizeof why);
	ck_assert_msg(key != NULL, "%s", why);
	ck_assert_int_eq(asked, 1);
	harp_key_public(key, again);
	ck_assert_str_eq(line, again);
	harp_key_free(key);
	/* a guess costs memory and time, and openssl reads the file, too */
	ck_assert(runs("openssl asn1parse -in '%s' | grep -qi scrypt", path));
	ck_assert(runs("openssl pkey -in '%s' -passin 'pass:%s' -noout", path, "korrekt horse \xc3\xa9"));
	ck_assert(
		!runs("openssl pkey -in '%s' -passin 'pass:%s' -noout 2>/dev/null", path, "korrekt horse e"));
}
END_TEST

START_TEST(passphrase_is_not_asked_for_a_key_that_is_not_sealed)
{
	struct harp_private *key;

	write_file(PEM, 0600);
	asked = 0;
	ck_assert_msg((key = harp_key_unseal(path, give, "x", why, sizeof why)) != NULL, "%s", why);
	ck_assert_int_eq(asked, 0);
	harp_key_free(key);
}
END_TEST

START_TEST(path_that_is_no_file_is_refused_at_once)
{
	char *big = xmalloc(5001);

	ck_assert(harp_key_load(path, why, sizeof why) == NULL);
	ck_assert_msg(strstr(why, "No such file") != NULL, "%s", why);
	ck_assert(harp_key_load(dir, why, sizeof why) == NULL);
	ck_assert(mkfifo(path, 0600) == 0);
	ck_assert(harp_key_load(path, why, sizeof why) == NULL);
	ck_assert_msg(strstr(why, "no key file") != NULL, "%s", why);
	ck_assert(unlink(path) == 0);
	memset(big, 'a', 5000);
	big[5000] = '\0';
	write_file(big, 0600);
	ck_assert(harp_key_load(path, why, sizeof why) == NULL);
	free(big);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_key");
	TCase *t = tcase_create("harp_key");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_key_that_was_made_is_loaded_and_signs);
	tcase_add_test(t, no_two_keys_are_the_same);
	tcase_add_test(t, a_file_that_is_there_is_never_overwritten);
	tcase_add_test(t, key_file_that_cannot_be_made_is_an_error);
	tcase_add_test(t, openssl_s_file_is_a_key_too);
	tcase_add_test(t, a_key_that_others_may_read_is_not_used);
	tcase_add_test(t, a_passphrase_seals_the_file_and_opens_it);
	tcase_add_test(t, passphrase_is_not_asked_for_a_key_that_is_not_sealed);
	tcase_add_loop_test(t, file_without_an_ed25519_key_in_plain_pem_is_refused, 0, COUNT(no_keys));
	tcase_add_test(t, path_that_is_no_file_is_refused_at_once);
	return harp_kit_run(s);
}
