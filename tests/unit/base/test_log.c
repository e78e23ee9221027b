/* SPDX-License-Identifier: MIT */
/* test_log.c: one line a message, whatever is in it. */
#include "base/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* The leaf is replaced: stderr is a pipe here, and time stands still unless a test moves it. */
static int64_t boot_us;
int64_t clock_boot_us(void)
{
	return boot_us;
}
int64_t clock_wall_us(void)
{
	return INT64_C(1767225600789000);
}

static int ends[2], real_stderr;
static char got[70000];

static void setup(void)
{
	ck_assert_int_eq(pipe(ends), 0);
	real_stderr = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	unsetenv("JOURNAL_STREAM");
	log_set_level(LOG_LVL_INFO);
	boot_us = 1000;
}

static void teardown(void)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(ends[0]);
	close(ends[1]);
}

static const char *drain(void)
{
	size_t size = 0;
	ssize_t more;

	while ((more = read(ends[0], got + size, sizeof(got) - 1 - size)) > 0)
		size += (size_t)more;
	got[size] = '\0';
	return got;
}

#define HEAD "2026-01-01T00:00:00.789Z level="

START_TEST(a_line_has_time_level_and_message)
{
	errno = EPIPE;
	log_warn("broker gone in=%dms host=%s", 5, "h");
	ck_assert_int_eq(errno, EPIPE);
	ck_assert_str_eq(drain(), HEAD "warn broker gone in=5ms host=h\n");
	log_error("x");
	ck_assert_str_eq(drain(), HEAD "error x\n");
}
END_TEST

START_TEST(what_is_below_the_level_is_not_printed)
{
	log_debug("d");
	ck_assert_str_eq(drain(), "");
	log_set_level(LOG_LVL_ERROR);
	ck_assert_int_eq(log_get_level(), LOG_LVL_ERROR);
	log_warn("w");
	ck_assert_str_eq(drain(), "");
	log_set_level(LOG_LVL_DEBUG);
	log_debug("d");
	ck_assert_str_eq(drain(), HEAD "debug d\n");
}
END_TEST

static const struct {
	const char *text, *shown;
} escapes[] = {
	{"a\nlevel=error forged", "a\\nlevel=error forged"},
	{"a\r\tb", "a\\r\\tb"},
	{"\x1b[2J", "\\x1b[2J"},
	{"\x7f", "\\x7f"},
	{"h\xc3\xa9\xe2\x82\xac", "h\xc3\xa9\xe2\x82\xac"},
	{"\xff\xfe", "\\xff\\xfe"},
	{"\xc2\x9b"
	 "2J",
		"\\u009b2J"},
	{"\xe2\x82", "\\xe2\\x82"},
	{"100%", "100%"},
	{"a\\b", "a\\b"},
};

START_TEST(control_characters_and_bad_bytes_are_escaped)
{
	char want[128];

	log_info("%s", escapes[_i].text);
	snprintf(want, sizeof(want), HEAD "info %s\n", escapes[_i].shown);
	ck_assert_str_eq(drain(), want);
}
END_TEST

START_TEST(a_long_line_is_cut_with_an_ellipsis_and_stays_one_line)
{
	static char text[20000];
	size_t size;

	for (int kind = 0; kind < 3; kind++) {
		for (size_t i = 0; i + 3 < sizeof(text); i += 3)
			memcpy(text + i, kind == 0 ? "xyz" : kind == 1 ? "\xe2\x82\xac" : "\n\x01\n", 3);
		log_info("%s", text);
		size = strlen(drain());
		ck_assert_uint_le(size, 4000);
		ck_assert_uint_ge(size, 3900);
		ck_assert_str_eq(got + size - 4, "\xe2\x80\xa6\n");
		ck_assert_ptr_eq(strchr(got, '\n'), got + size - 1);
	}
}
END_TEST

START_TEST(lines_into_the_journal_have_a_priority_and_no_time)
{
	struct stat st;
	char stream[64];

	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_set_level(LOG_LVL_DEBUG);
	log_error("e");
	log_warn("w");
	log_info("i");
	log_debug("d");
	ck_assert_str_eq(drain(), "<3>e\n<4>w\n<6>i\n<7>d\n");
}
END_TEST

START_TEST(a_journal_that_is_not_our_stderr_does_not_count)
{
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_info("i");
	ck_assert_str_eq(drain(), HEAD "info i\n");
}
END_TEST

START_TEST(a_full_stderr_never_blocks_and_the_loss_is_told)
{
	static char text[3000];
	int lines = 0;

	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 40; i++)
		log_info("%s", text);
	for (const char *p = drain(); (p = strchr(p, '\n')); p++)
		lines++;
	ck_assert_int_lt(lines, 40);
	log_info("back");
	snprintf(text, sizeof(text), HEAD "info lost=%d back\n", 40 - lines);
	ck_assert_str_eq(drain(), text);
}
END_TEST

START_TEST(a_limited_site_is_silent_after_its_burst_and_counts)
{
	struct log_limit limit = {0};

	boot_us = 0;
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(log_may(&limit, 3), i < 3);
	ck_assert_str_eq(drain(), "");
	boot_us = 59999999;
	ck_assert(!log_may(&limit, 3));
	boot_us = 60000000;
	ck_assert(log_may(&limit, 3));
	ck_assert_str_eq(drain(), HEAD "warn 8 lines like the next one were left out\n");
	ck_assert(log_may(&limit, 3));
	ck_assert_str_eq(drain(), "");
}
END_TEST

START_TEST(levels_are_known_by_name)
{
	ck_assert_int_eq(log_level_parse("error"), LOG_LVL_ERROR);
	ck_assert_int_eq(log_level_parse("warn"), LOG_LVL_WARN);
	ck_assert_int_eq(log_level_parse("info"), LOG_LVL_INFO);
	ck_assert_int_eq(log_level_parse("debug"), LOG_LVL_DEBUG);
	ck_assert_int_eq(log_level_parse("Info"), -1);
	ck_assert_int_eq(log_level_parse(""), -1);
}
END_TEST

static void *talk(void *arg)
{
	for (int i = 0; i < 50; i++)
		log_info("%s", (const char *)arg);
	return NULL;
}

START_TEST(lines_of_threads_do_not_mix)
{
	static char a[300], c[300];
	pthread_t threads[2];
	int lines = 0;

	memset(a, 'a', sizeof(a) - 1);
	memset(c, 'c', sizeof(c) - 1);
	pthread_create(&threads[0], NULL, talk, a);
	pthread_create(&threads[1], NULL, talk, c);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	drain();
	for (char *line = strtok(got, "\n"); line; line = strtok(NULL, "\n"), lines++) {
		const char *text = line + strlen(HEAD "info ");

		ck_assert(strcmp(text, a) == 0 || strcmp(text, c) == 0);
	}
	ck_assert_int_eq(lines, 100);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_line_has_time_level_and_message);
	tcase_add_test(t, what_is_below_the_level_is_not_printed);
	tcase_add_loop_test(t, control_characters_and_bad_bytes_are_escaped, 0, COUNT(escapes));
	tcase_add_test(t, a_long_line_is_cut_with_an_ellipsis_and_stays_one_line);
	tcase_add_test(t, lines_into_the_journal_have_a_priority_and_no_time);
	tcase_add_test(t, a_journal_that_is_not_our_stderr_does_not_count);
	tcase_add_test(t, a_full_stderr_never_blocks_and_the_loss_is_told);
	tcase_add_test(t, a_limited_site_is_silent_after_its_burst_and_counts);
	tcase_add_test(t, levels_are_known_by_name);
	tcase_add_test(t, lines_of_threads_do_not_mix);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
