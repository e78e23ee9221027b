/* SPDX-License-Identifier: MIT */
/* test_message.c: the library's one pass over a message beside jansson: what jansson takes it takes, and
 * reads the same. Messages of all shapes, and a few hundred thousand damaged ones. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/message.h"
#include "json/text.h"
#include "libhcp/libhcp_private.h"

static unsigned seed = 7;

static unsigned dice(unsigned sides)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % sides;
}

static const char *const good[] = {
	"{\"hcp_version\":\"1.0\",\"message_id\":\"m-1\",\"timestamp\":\"t\",\"session_id\":\"s-1\",\"type\":"
	"\"event\",\"payload\":"
	"{\"event_type\":\"progress\",\"sequence\":12,\"data\":{\"stage\":\"a\",\"percent\":1.5e1,\"list\":["
	"1,[],{},null,true]}}}",
	"{\"type\":\"task_accepted\",\"payload\":{\"in_reply_to\":\"x\\u002dy\",\"session_token\":"
	"\"\\ud83d\\ude00\"},\"session_id\":"
	"null}",
	" {\t\"payload\" : { } , \"type\" : \"t\\\"x\" , \"other\" : [ -0 , 0.1 , 1E+2 , false , "
	"\"\xc3\xa4\xe2\x82\xac\" ] } \r\n",
	"{\"type\":\"event\",\"session_id\":\"s\",\"payload\":{\"sequence\":4.0,\"event_type\":\"\",\"data\":"
	"{}}}",
	"{\"type\":\"event\",\"session_id\":\"s\",\"payload\":{\"sequence\":99999999999999999999,\"event_"
	"type\":\"e\"}}",
	"{\"type\":\"event\",\"session_id\":\"s\",\"payload\":{\"sequence\":-3}}",
	"{\"\\u0074ype\":\"x\",\"type\":\"event\",\"payload\":{}}",
};

/* What jansson has against it that one pass does not look for. */
static bool is_tolerated(const char *why)
{
	return strstr(why, "duplicate") || strstr(why, "surrogate") || strstr(why, "Unicode") ||
		strstr(why, "overflow") || strstr(why, "too big");
}

static char *copy_of(const char *text, size_t size)
{
	char *copy = xmalloc(size + 1);

	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}

static void compare(const char *text, size_t size)
{
	struct lib_message *mine = lib_message_read(copy_of(text, size), size);
	struct ctl_message *theirs = ctl_message_read(copy_of(text, size), size);
	char why[200] = "";

	if (strlen(text) != size) { /* a NUL: both must refuse it */
		ck_assert(!mine && !theirs);
		return;
	}
	if (theirs) {
		ck_assert_msg(mine != NULL, "jansson takes this, we do not: %s", text);
		ck_assert_str_eq(mine->type, theirs->type);
		ck_assert_str_eq(mine->session, theirs->session);
		ck_assert_str_eq(mine->message_id, theirs->message_id);
		ck_assert_str_eq(mine->event, theirs->event);
		ck_assert_msg(!theirs->session[0] || mine->sequence == theirs->sequence, "%s", text);
	} else if (mine) {
		json_t *tree = jtext_parse(text, size, why, sizeof why);

		ck_assert_msg(tree == NULL && is_tolerated(why), "we take this, jansson does not (%s): %s",
			why, text);
	}
	lib_message_free(mine);
	ctl_message_free(theirs);
}

START_TEST(good_messages_are_read_as_jansson_reads_them)
{
	for (size_t i = 0; i + 1 < sizeof good / sizeof *good; i++) {
		struct lib_message *n = lib_message_read(xstrdup(good[i]), strlen(good[i]));

		ck_assert_msg(n != NULL, "%s", good[i]);
		lib_message_free(n);
		compare(good[i], strlen(good[i]));
	}
}
END_TEST

START_TEST(damaged_messages_are_refused_where_jansson_refuses_them)
{
	static const char bytes[] =
		"{}[]\",:\\/u0123456789.eE+-tfnr \n\t\x01\x7f\x80\xc3\xff"; /* and its NUL */
	char text[1024];

	for (int round = 0; round < 300000; round++) {
		const char *from = good[dice(sizeof good / sizeof *good)];
		size_t size = strlen(from), at;

		memcpy(text, from, size + 1);
		for (unsigned changes = 1 + dice(3); changes > 0 && size > 0; changes--) {
			at = dice((unsigned)size);
			switch (dice(4)) {
			case 0: text[at] = bytes[dice(sizeof bytes)]; break;
			case 1: /* one less */
				memmove(text + at, text + at + 1, size - at);
				size--;
				break;
			case 2: /* one more */
				memmove(text + at + 1, text + at, size - at + 1);
				text[at] = bytes[dice(sizeof bytes)];
				size++;
				break;
			default: /* the end is missing */
				if (dice(8) == 0 && at > 0)
					text[size = at] = '\0';
			}
		}
		compare(text, size);
	}
}
END_TEST

/* jansson steps over a NUL behind a number or a literal. */
START_TEST(message_with_a_raw_NUL_behind_a_value_is_refused)
{
	static const char number[] = "{\"type\":\"event\",\"payload\":{\"sequence\":1\0}}",
			  literal[] = "{\"type\":\"event\",\"payload\":{\"a\":true\0}}";

	ck_assert(lib_message_read(copy_of(number, sizeof number - 1), sizeof number - 1) == NULL);
	ck_assert(lib_message_read(copy_of(literal, sizeof literal - 1), sizeof literal - 1) == NULL);
	ck_assert(ctl_message_read(copy_of(number, sizeof number - 1), sizeof number - 1) == NULL);
	ck_assert(ctl_message_read(copy_of(literal, sizeof literal - 1), sizeof literal - 1) == NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp note");
	TCase *t = tcase_create("note");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	tcase_add_test(t, good_messages_are_read_as_jansson_reads_them);
	tcase_add_test(t, message_with_a_raw_NUL_behind_a_value_is_refused);
	tcase_add_test(t, damaged_messages_are_refused_where_jansson_refuses_them);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
