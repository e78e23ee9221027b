/* SPDX-License-Identifier: MIT */
/* test_labels.c: metadata.labels: which are indexed, and what is said about the others. */
#include "support/fakes/operator_kit.h"

static void setup(void)
{
	opkit_begin("");
}

static void submit(const char *id, const char *labels)
{
	struct buf more = {0};

	buf_addf(&more, ",\"metadata\":{\"ticket\":7,\"labels\":%s}", labels);
	world_submit_as(&w, "alpha", NULL, id, "work", buf_text(&more));
	world_run(&w);
	buf_fini(&more);
}

static const char *labels_of(const char *key)
{
	return world_text(&w,
		"SELECT coalesce(group_concat(name || '=' || value, ' '), '') FROM"
		" (SELECT name, value FROM labels WHERE session = ? ORDER BY id)",
		key);
}

START_TEST(labels_are_indexed_and_the_metadata_stays)
{
	submit("m1", "{\"group\":\"nightly\",\"who\":\"\"}");
	ck_assert_str_eq(labels_of("1"), "group=nightly who=");
	ck_assert_str_eq(world_text(&w, "SELECT metadata FROM sessions", NULL),
		"{\"ticket\":7,\"labels\":{\"group\":\"nightly\",\"who\":\"\"}}");
	submit("m1", "{\"group\":\"nightly\",\"who\":\"\"}"); /* again: nothing new */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM labels", NULL), 2);
	ck_assert_int_eq(world_said(&w, "label_not_indexed"), 0);
}
END_TEST

static const struct {
	const char *labels, *indexed, *says;
} odd[] = {
	{"[\"a\",\"b\"]", "", "metadata.labels is not an object"},
	{"{\"a\":1,\"b\":\"x\"}", "b=x", "a label is not text"},
	{"{\"a\":\"x\\u0000y\",\"b\":\"x\"}", "b=x", "a label is not text"},
	{"{\"\":\"1\",\"b\":\"x\"}", "b=x", "the name of a label has 1 to 256 bytes"},
	{"null", "", NULL},
	{"{}", "", NULL},
};

START_TEST(labels_that_cannot_be_indexed_cost_a_warning_and_no_task)
{
	char wanted[200];

	submit("m1", odd[_i].labels);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(labels_of("1"), odd[_i].indexed);
	ck_assert_int_eq(world_said(&w, "\"code\":\"label_not_indexed\""), odd[_i].says != NULL);
	snprintf(wanted, sizeof wanted, "not all labels of the task are indexed: %s",
		odd[_i].says != NULL ? odd[_i].says : "");
	ck_assert_int_eq(world_said(&w, wanted), odd[_i].says != NULL);
}
END_TEST

START_TEST(labels_are_bounded_in_number_and_size)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"large\":\"");
	for (int i = 0; i < 257; i++)
		buf_add_text(&b, "v");
	buf_add_text(&b, "\"");
	for (int i = 0; i < 20; i++)
		buf_addf(&b, ",\"l%02d\":\"x\"", i);
	buf_add_text(&b, "}");
	submit("m1", buf_text(&b));
	buf_fini(&b);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM labels WHERE value = 'x'", NULL), 16);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM labels", NULL), 16);
	ck_assert_int_eq(world_said(&w, "label_not_indexed"), 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("labels");
	TCase *t = tcase_create("labels");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, labels_are_indexed_and_the_metadata_stays);
	tcase_add_loop_test(
		t, labels_that_cannot_be_indexed_cost_a_warning_and_no_task, 0, sizeof odd / sizeof *odd);
	tcase_add_test(t, labels_are_bounded_in_number_and_size);
	suite_add_tcase(s, t);
	return world_main(s);
}
