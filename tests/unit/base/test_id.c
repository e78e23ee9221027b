/* SPDX-License-Identifier: MIT */
/* test_id.c: ids are UUIDs, and never come twice. */
#include "base/id.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define MANY 40000

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, ID_SIZE);
}

static void *make_many(void *arg)
{
	char(*ids)[ID_SIZE] = arg;

	for (int i = 0; i < MANY / 4; i++)
		id_make(ids[i]);
	return NULL;
}

START_TEST(ids_of_all_threads_are_lower_case_uuid4_and_all_different)
{
	char(*ids)[ID_SIZE] = calloc(MANY, ID_SIZE);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, make_many, ids + i * MANY / 4), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	qsort(ids, MANY, ID_SIZE, compare);
	for (int i = 0; i < MANY; i++) {
		ck_assert_uint_eq(strspn(ids[i], "0123456789abcdef-"), 36);
		ck_assert_msg(id_is_uuid4(ids[i]), "%s", ids[i]);
		ck_assert(i == 0 || strcmp(ids[i - 1], ids[i]) != 0);
	}
	free(ids);
}
END_TEST

static void make_in_child(char out[ID_SIZE])
{
	int ends[2], status;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		char id[ID_SIZE];

		id_make(id);
		_exit(write(ends[1], id, ID_SIZE) == ID_SIZE ? 0 : 1);
	}
	ck_assert_int_eq(read(ends[0], out, ID_SIZE), ID_SIZE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(ends[0]);
	close(ends[1]);
}

START_TEST(a_fork_repeats_neither_its_parents_ids_nor_its_siblings)
{
	char mine[ID_SIZE], one[ID_SIZE], two[ID_SIZE];

	id_make(mine); /* now the pool has bytes left that all three could use */
	make_in_child(one);
	make_in_child(two);
	id_make(mine);
	ck_assert_str_ne(mine, one);
	ck_assert_str_ne(mine, two);
	ck_assert_str_ne(one, two);
	ck_assert(id_is_uuid4(one) && id_is_uuid4(two));
}
END_TEST

static const struct {
	const char *text;
	bool ok;
} cases[] = {
	{"3f2504e0-4f89-41d3-9a0c-0305e82c3301", true},
	{"3F2504E0-4F89-41D3-9A0C-0305E82C3301", true},
	{"00000000-0000-4000-8000-000000000000", true},
	{"ffffffff-ffff-4fff-bfff-ffffffffffff", true},
	{"", false},
	{"-", false},
	{"3f2504e0-4f89-11d3-9a0c-0305e82c3301", false}, /* version 1 */
	{"3f2504e0-4f89-51d3-9a0c-0305e82c3301", false},
	{"3f2504e0-4f89-41d3-ca0c-0305e82c3301", false}, /* variant */
	{"3f2504e0-4f89-41d3-7a0c-0305e82c3301", false},
	{"00000000-0000-0000-0000-000000000000", false},
	{"3f2504e04f8941d39a0c0305e82c3301", false},
	{"{3f2504e0-4f89-41d3-9a0c-0305e82c3301}", false},
	{"3f2504e0-4f89-41d3-9a0c-0305e82c330", false},
	{"3f2504e0-4f89-41d3-9a0c-0305e82c33011", false},
	{"3f2504e0-4f89-41d3-9a0c-0305e82c330g", false},
	{"3f2504e0+4f89-41d3-9a0c-0305e82c3301", false},
	{" 3f2504e0-4f89-41d3-9a0c-0305e82c330", false},
	{"3f2504e0-4f89-41d3-9a0c-0305e82c3301 ", false},
	{"urn:uuid:3f2504e0-4f89-41d3-9a0c-0305e82c3301", false},
	{"3f2504e-04f89-41d3-9a0c-0305e82c3301", false},
};

START_TEST(only_a_uuid4_is_one)
{
	ck_assert_msg(id_is_uuid4(cases[_i].text) == cases[_i].ok, "%s", cases[_i].text);
}
END_TEST

START_TEST(random_bytes_fill_all_of_the_space_and_nothing_else)
{
	unsigned char big[70000], seen = 0;

	memset(big, 0, sizeof(big));
	id_random(big + 1, 0);
	id_random(big + 1, sizeof(big) - 2);
	ck_assert_uint_eq(big[0], 0);
	ck_assert_uint_eq(big[sizeof(big) - 1], 0);
	for (size_t at = 1; at + 64 < sizeof(big); at += 64) { /* no hole of 64 zero bytes */
		seen = 0;
		for (size_t i = 0; i < 64; i++)
			seen |= big[at + i];
		ck_assert_uint_ne(seen, 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("id");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, ids_of_all_threads_are_lower_case_uuid4_and_all_different);
	tcase_add_test(t, a_fork_repeats_neither_its_parents_ids_nor_its_siblings);
	tcase_add_loop_test(t, only_a_uuid4_is_one, 0, COUNT(cases));
	tcase_add_test(t, random_bytes_fill_all_of_the_space_and_nothing_else);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
