/* SPDX-License-Identifier: MIT */
/* test_strict_json.c: the second reader of the tests agrees with Python's json, on good texts and on broken
 * ones. */
#include "support/strict_json.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 30000
#define TEXT_MAX 256

static const char *const seeds[] = {
	"{\"n\":1}",
	"{\"a\":[true,false,null],\"b\":{\"c\":-0.5e+10}}",
	" [ 1 , 2.25E-3 ,\t\"x\\u0041\\n\\\"\" ]\r\n",
	"\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"",
	"[[[[]]],{}]",
	"0",
	"{\"n\":1e5,\"m\":[{}]}",
};
static const char bytes[] =
	"{}[]\",:\\/u0123456789.eE+-tfnr \n\t\x01\x7f\x80\xa0\xbf\xc0\xc3\xe0\xed\xf0\xf4\xff"; /* and its NUL
												 */
static unsigned seed = 11;

static unsigned dice(unsigned sides)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % sides;
}

static size_t make(char *text)
{
	const char *from = seeds[dice(sizeof seeds / sizeof *seeds)];
	size_t size = strlen(from);

	memcpy(text, from, size);
	for (unsigned changes = dice(4); changes > 0 && size > 1; changes--) {
		size_t at = dice((unsigned)size);

		if (dice(2) == 0) {
			text[at] = bytes[dice(sizeof bytes)];
		} else {
			memmove(text + at + 1, text + at, size - at);
			text[at] = bytes[dice(sizeof bytes)];
			size++;
		}
	}
	return size;
}

static const char script[] =
	"import json, sys\n"
	"def no(x): raise ValueError(x)\n"
	"def good(b):\n"
	"    try: json.loads(b.decode('utf-8'), parse_constant=no); return True\n"
	"    except ValueError: return False\n"
	"data = open(sys.argv[1], 'rb').read(); out = []\n"
	"while data:\n"
	"    n = data[0]; out.append('1' if good(data[1:1 + n]) else '0'); data = data[1 + n:]\n"
	"print(''.join(out), end='')\n";

START_TEST(python_and_the_second_reader_agree)
{
	static char texts[COUNT][TEXT_MAX], answers[COUNT + 1];
	static size_t sizes[COUNT];
	char path[] = "/tmp/hcpd-strict-XXXXXX", command[2048];
	int fd = mkstemp(path), good = 0;
	FILE *f = fdopen(fd, "w");

	ck_assert_ptr_nonnull(f);
	for (int i = 0; i < COUNT; i++) {
		sizes[i] = make(texts[i]);
		fputc((int)sizes[i], f);
		fwrite(texts[i], 1, sizes[i], f);
	}
	ck_assert_int_eq(fclose(f), 0);
	snprintf(command, sizeof command, "python3 -c \"%s\" %s", script, path);
	f = popen(command, "r");
	ck_assert_uint_eq(fread(answers, 1, sizeof answers, f), COUNT);
	ck_assert_int_eq(pclose(f), 0);
	unlink(path);
	for (int i = 0; i < COUNT; i++) {
		good += answers[i] == '1';
		ck_assert_msg(strict_json(texts[i], sizes[i]) == (answers[i] == '1'),
			"Python says %c of: %.*s", answers[i], (int)sizes[i], texts[i]);
	}
	ck_assert_int_gt(good, COUNT / 10);
	ck_assert_int_lt(good, COUNT - COUNT / 10);
}
END_TEST

START_TEST(a_very_deep_text_does_no_harm)
{
	char *deep = malloc(1000000);

	memset(deep, '[', 1000000);
	ck_assert(!strict_json(deep, 1000000));
	free(deep);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("strict_json");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, python_and_the_second_reader_agree);
	tcase_add_test(t, a_very_deep_text_does_no_harm);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
