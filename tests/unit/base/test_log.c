/* SPDX-License-Identifier: MIT */
/* test_log.c: one line a message, whatever is in it. */
#include "base/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
static char got[1 << 20];

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

START_TEST(lines_below_the_level_are_not_printed)
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
	{"a\xe2\x80\xaez", "a\\u202ez"},
	{"a\xe2\x80\x8b", "a\\u200b"},
	{"a\xe2\x80\xa8", "a\\u2028"},
	{"\xf3\xa0\x81\x81", "\\U000e0041"},
};

START_TEST(controls_invisible_characters_and_bad_bytes_are_escaped)
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

/* Numbered lines of 3000 bytes, 900 KB: more than a pipe and the backlog take. */
enum { LINES = 300 };
static void log_numbered(void)
{
	static char text[3000];

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < LINES; i++)
		log_info("n=%d %s", i, text);
}

/* How many lines came, in order and whole, and how many they say are lost. */
static int check_numbered(int *lost)
{
	int lines = 0, number, last = -1, size;

	*lost = 0;
	for (char *line = strtok(got, "\n"), *at; line; line = strtok(NULL, "\n")) {
		ck_assert_msg(strncmp(line, HEAD, strlen(HEAD)) == 0, "%.80s", line);
		if ((at = strstr(line, " lost=")) != NULL)
			*lost += atoi(at + 6);
		if ((at = strstr(line, " n=")) == NULL)
			continue;
		ck_assert_int_eq(sscanf(at, " n=%d %n", &number, &size), 1);
		ck_assert_uint_eq(strlen(at + size), 2999);
		ck_assert_int_gt(number, last);
		last = number;
		lines++;
	}
	return lines;
}

/* Reads all that waits, as a reader that woke up. */
static void drain_all(void)
{
	size_t size = 0;
	ssize_t more;

	do {
		log_flush();
		while ((more = read(ends[0], got + size, sizeof(got) - 1 - size)) > 0)
			size += (size_t)more;
	} while (log_is_behind());
	log_flush();
	while ((more = read(ends[0], got + size, sizeof(got) - 1 - size)) > 0)
		size += (size_t)more;
	got[size] = '\0';
}

/* On a pipe that blocks, as a parent left it; Check ends a test that waits. */
START_TEST(a_log_that_nobody_reads_never_blocks)
{
	int lines, lost;

	log_numbered();
	ck_assert(log_is_behind());
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0); /* others may write there, too */
	drain_all();
	ck_assert(!log_is_behind());
	lines = check_numbered(&lost);
	ck_assert_int_lt(lines, LINES);
	ck_assert_int_gt(lines, 80); /* 64 KiB in the pipe, 256 KiB in memory */
	ck_assert_int_eq(lines + lost, LINES);
}
END_TEST

START_TEST(a_log_into_a_full_socket_never_blocks)
{
	int pair[2], lines, lost;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	dup2(pair[1], STDERR_FILENO);
	dup2(pair[0], ends[0]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	log_numbered();
	ck_assert(log_is_behind());
	drain_all();
	lines = check_numbered(&lost);
	ck_assert_int_lt(lines, LINES);
	ck_assert_int_eq(lines + lost, LINES);
	close(pair[0]);
	close(pair[1]);
}
END_TEST

START_TEST(the_loss_is_told_once_by_the_next_line)
{
	char want[128];
	int lines, lost;

	log_numbered();
	while (drain()[0] != '\0') /* read, but not flushed any more: the next line does that */
		;
	log_info("back");
	drain_all();
	lines = check_numbered(&lost);
	(void)lines;
	log_info("again");
	snprintf(want, sizeof want, HEAD "info again\n");
	ck_assert_str_eq(drain(), want);
	ck_assert_int_gt(lost, 0);
}
END_TEST

START_TEST(a_log_whose_reader_is_gone_costs_nothing_but_the_lines)
{
	signal(SIGPIPE, SIG_IGN);
	log_numbered();
	close(ends[0]);
	log_numbered();
	log_drain(1000);
	ck_assert(!log_is_behind());
	ck_assert_int_eq(pipe(ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	dup2(ends[1], STDERR_FILENO);
	log_info("a new reader");
	ck_assert_ptr_nonnull(strstr(drain(), " a new reader\n"));
	ck_assert_ptr_nonnull(strstr(got, HEAD "info lost="));
}
END_TEST

START_TEST(held_lines_are_written_together_and_in_order)
{
	log_hold(true);
	log_info("one");
	log_info("two");
	ck_assert_str_eq(drain(), "");
	ck_assert(!log_is_behind()); /* nobody need wait for stderr */
	log_hold(true);
	ck_assert_str_eq(drain(), HEAD "info one\n" HEAD "info two\n");
	log_info("three");
	log_hold(false);
	ck_assert_str_eq(drain(), HEAD "info three\n");
	log_info("four");
	ck_assert_str_eq(drain(), HEAD "info four\n");
}
END_TEST

START_TEST(a_warning_is_not_held_and_comes_behind_those_that_are)
{
	log_hold(true);
	log_info("one");
	log_warn("two");
	ck_assert_str_eq(drain(), HEAD "info one\n" HEAD "warn two\n");
	log_info("three");
	log_drain(0); /* the process ends */
	ck_assert_str_eq(drain(), HEAD "info three\n");
}
END_TEST

static void *say(void *arg)
{
	(void)arg;
	log_info("another thread");
	return NULL;
}

START_TEST(another_threads_line_comes_behind_those_that_are_held)
{
	pthread_t thread;

	log_hold(true);
	log_info("one");
	ck_assert_int_eq(pthread_create(&thread, NULL, say, NULL), 0);
	pthread_join(thread, NULL);
	ck_assert_str_eq(drain(), HEAD "info one\n" HEAD "info another thread\n");
}
END_TEST

START_TEST(many_held_lines_are_written_before_they_take_much_memory)
{
	int lines = 0;

	log_hold(true);
	while (drain()[0] == '\0' && lines++ < 1000)
		log_info("%0100d", lines);
	ck_assert_int_lt(lines, 1000);
	log_hold(false);
	while (drain()[0] != '\0')
		;
}
END_TEST

static const struct {
	const char *value, *shown;
} values[] = {
	{"plain words, and a 5\" disk", "plain words, and a 5\" disk"},
	{"x code=ok user=root", "\"x code=ok user=root\""},
	{"\"x\"", "\"\\\"x\\\"\""},
	{"a\\\" session=1", "\"a\\\\\\\" session=1\""},
	{"a\nlevel=error", "\"a\\nlevel=error\""},
	{"", ""},
};

START_TEST(a_value_cannot_look_like_further_fields)
{
	char want[256];

	log_info("task rejected: why=%s code=%s", values[_i].value, "c");
	snprintf(want, sizeof want, HEAD "info task rejected: why=%s code=c\n", values[_i].shown);
	ck_assert_str_eq(drain(), want);
	log_info("why=%.*s", (int)strlen(values[_i].value), values[_i].value);
	snprintf(want, sizeof want, HEAD "info why=%s\n", values[_i].shown);
	ck_assert_str_eq(drain(), want);
}
END_TEST

START_TEST(quotes_of_the_format_keep_the_value_in)
{
	log_info("blocked why=\"%s\" n=%d", "low\" user=\"root", 1);
	ck_assert_str_eq(drain(), HEAD "info blocked why=\"low\\\" user=\\\"root\" n=1\n");
}
END_TEST

/* The log formats by itself: it has to agree with printf about everything but quotes. */
START_TEST(conversions_are_those_of_printf)
{
	char want[512];
	const char *volatile none = NULL;

#define SAME(...) \
	do { \
		snprintf(want, sizeof want, HEAD "info " __VA_ARGS__); \
		log_info(__VA_ARGS__); \
		drain(); \
		got[strlen(got) - 1] = '\0'; \
		ck_assert_str_eq(got, want); \
	} while (0)
	SAME("%d %i %u %x %X %o %c %%", -5, 7, 4000000000u, 255u, 255u, 8u, 'c');
	SAME("%ld %lld %lu %llu %zu %zd", -1L, -2LL, 1UL, ~0ULL, (size_t)3, (ssize_t)-4);
	SAME("%hhu %hd %jd %td", (unsigned char)200, (short)-3, (intmax_t)-9, (ptrdiff_t)5);
	SAME("[%5d] [%-5d] [%05d] [%+d] [%.3d] [%04o]", 42, 42, 42, 42, 7, 0600u);
	SAME("%g %.2f %8.1e", 1.5, 2.345, 1234.5);
	SAME("[%s] [%.3s] [%8s] [%-8s] [%.*s] [%*d]", "text", "text", "text", "text", 2, "text", 6, 1);
	SAME("s=%.8s n=%zu", "0123456789", (size_t)1);
#undef SAME
	log_info("%s|", none);
	ck_assert_str_eq(drain(), HEAD "info (null)|\n");
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
	tcase_add_test(t, lines_below_the_level_are_not_printed);
	tcase_add_loop_test(t, controls_invisible_characters_and_bad_bytes_are_escaped, 0, COUNT(escapes));
	tcase_add_test(t, a_long_line_is_cut_with_an_ellipsis_and_stays_one_line);
	tcase_add_test(t, lines_into_the_journal_have_a_priority_and_no_time);
	tcase_add_test(t, a_journal_that_is_not_our_stderr_does_not_count);
	tcase_add_test(t, a_log_that_nobody_reads_never_blocks);
	tcase_add_test(t, a_log_into_a_full_socket_never_blocks);
	tcase_add_test(t, the_loss_is_told_once_by_the_next_line);
	tcase_add_test(t, a_log_whose_reader_is_gone_costs_nothing_but_the_lines);
	tcase_add_test(t, held_lines_are_written_together_and_in_order);
	tcase_add_test(t, a_warning_is_not_held_and_comes_behind_those_that_are);
	tcase_add_test(t, another_threads_line_comes_behind_those_that_are_held);
	tcase_add_test(t, many_held_lines_are_written_before_they_take_much_memory);
	tcase_add_loop_test(t, a_value_cannot_look_like_further_fields, 0, COUNT(values));
	tcase_add_test(t, quotes_of_the_format_keep_the_value_in);
	tcase_add_test(t, conversions_are_those_of_printf);
	tcase_add_test(t, a_limited_site_is_silent_after_its_burst_and_counts);
	tcase_add_test(t, levels_are_known_by_name);
	tcase_add_test(t, lines_of_threads_do_not_mix);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
