/* SPDX-License-Identifier: MIT */
/* test_state_compress.c: what was packed comes back byte for byte, or not at all. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "json/diff.h"
#include "json/text.h"
#include "store/state_compress.h"

/* ---- texts, the same each time ---- */

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % below;
}

/* A JSON object of about that size whose values nobody can guess. */
static void make_state(struct buf *b, size_t size)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	buf_add_text(b, "{\"items\":[");
	for (size_t n = 0; b->size + 128 < size; n++) {
		buf_addf(b, "%s{\"id\":%zu,\"price\":%u.10,\"text\":\"", n > 0 ? "," : "", n, draw(1000));
		for (int i = 0; i < 64; i++)
			buf_add(b, &letters[draw(64)], 1);
		buf_add_text(b, "\"}");
	}
	buf_add_text(b, "]}");
}

/* Other letters at one place. */
static void change(struct buf *b, size_t at, size_t count)
{
	for (size_t i = at; i < at + count && i + 2 < b->size; i++)
		if (b->data[i] >= 'A' && b->data[i] <= 'Z')
			b->data[i] = (char)('A' + draw(26));
}

static struct buf base, text, packed, back;

static void setup(void)
{
	seed = 42;
}

static void teardown(void)
{
	buf_fini(&base);
	buf_fini(&text);
	buf_fini(&packed);
	buf_fini(&back);
}

static enum state_encoding pack_text(bool with_base)
{
	buf_clear(&packed);
	return state_compress(text.data, text.size, with_base ? base.data : NULL, base.size, &packed);
}

static bool comes_back(enum state_encoding kind)
{
	buf_clear(&back);
	return state_restore(kind, packed.data, packed.size, text.size,
		       kind == STATE_DELTA ? base.data : NULL, base.size, &back) == 0 &&
		back.size == text.size && memcmp(back.data, text.data, text.size) == 0;
}

/* ---- packing ---- */

START_TEST(a_state_up_to_4_kib_is_stored_as_its_text) /* proves CK-02 */
{
	static const char state[] = "{\"a\":1.10,\"b\":null,\"c\":[1,2,3]}";

	buf_add_text(&base, state);
	buf_add_text(&text, state);
	ck_assert_int_eq(pack_text(true), STATE_JSON);
	ck_assert_str_eq(buf_text(&packed), state);
	buf_clear(&text);
	while (text.size < STATE_PLAIN_MAX)
		buf_add_text(&text, "x");
	ck_assert_int_eq(pack_text(true), STATE_JSON);
	ck_assert_int_eq((int)packed.size, STATE_PLAIN_MAX);
	buf_add_text(&text, "x");
	ck_assert_int_eq(pack_text(false), STATE_ZSTD);
	ck_assert_int_lt((int)packed.size, 100);
	ck_assert(comes_back(STATE_ZSTD));
}
END_TEST

START_TEST(state_that_does_not_get_smaller_is_stored_as_its_text)
{
	for (int i = 0; i < 5000; i++) {
		char c = (char)draw(256);

		buf_add(&text, &c, 1);
	}
	ck_assert_int_eq(pack_text(false), STATE_JSON);
	ck_assert(comes_back(STATE_JSON));
}
END_TEST

START_TEST(a_small_change_to_a_large_state_is_a_small_delta) /* proves CK-02 */
{
	make_state(&base, (size_t)1 << (13 + _i * 3)); /* 8 KiB to 4 MiB */
	buf_add(&text, base.data, base.size);
	change(&text, text.size / 3, 1000);
	ck_assert_int_eq(pack_text(true), STATE_DELTA);
	ck_assert_msg(packed.size < 2048, "%zu bytes for %zu", packed.size, text.size);
	ck_assert(comes_back(STATE_DELTA));
}
END_TEST

START_TEST(change_in_the_middle_of_a_state_is_a_small_delta)
{
	make_state(&base, 1 << 20);
	buf_add(&text, base.data, 400000);
	buf_add_text(&text, "\"some words that were not there before\"");
	buf_add(&text, base.data + 401000, base.size - 401000);
	ck_assert_int_eq(pack_text(true), STATE_DELTA);
	ck_assert_int_lt((int)packed.size, 512);
	ck_assert(comes_back(STATE_DELTA));
}
END_TEST

START_TEST(a_delta_that_saves_less_than_half_is_no_delta) /* proves CK-02 */
{
	make_state(&base, 1 << 17);
	make_state(&text, 1 << 17);
	ck_assert_int_eq(pack_text(true), STATE_ZSTD);
	ck_assert(comes_back(STATE_ZSTD));
	buf_clear(&text);
	buf_add(&text, base.data, base.size / 3); /* two thirds are new */
	make_state(&text, base.size);
	ck_assert_int_ne(pack_text(true), STATE_DELTA);
}
END_TEST

START_TEST(a_delta_may_be_of_a_text_of_any_other_size)
{
	make_state(&text, 1 << 16);
	buf_add(&base, text.data, 3000);
	ck_assert_int_ne(pack_text(true), STATE_DELTA); /* nearly all is new */
	buf_clear(&base);
	make_state(&base, 1 << 18);
	buf_add(&base, text.data, text.size);
	ck_assert_int_eq(pack_text(true), STATE_DELTA);
	ck_assert(comes_back(STATE_DELTA));
}
END_TEST

START_TEST(numbers_nulls_and_spaces_come_back_as_they_were_written) /* proves CK-02 */
{
	make_state(&base, 1 << 16);
	buf_add(&text, base.data, base.size - 1);
	buf_add_text(&text,
		",\"n\":1.10 ,\"big\":123456789012345678901234567890,\"gone\":null,\"a\":[ null,[ ] "
		"],\"\\u0078\":\"\\/\"}");
	ck_assert_int_eq(pack_text(true), STATE_DELTA);
	ck_assert(comes_back(STATE_DELTA));
}
END_TEST

/* ---- damage ---- */

static enum state_encoding kind_of_damage(int i)
{
	make_state(&base, 1 << 15);
	buf_add(&text, base.data, base.size);
	change(&text, 1000, 500);
	return pack_text(i == 1);
}

START_TEST(bytes_that_were_changed_do_not_come_back_as_another_text) /* proves CK-03 */
{
	enum state_encoding kind = kind_of_damage(_i);

	ck_assert(comes_back(kind));
	for (size_t at = 0; at < packed.size; at += 1 + packed.size / 300)
		for (int bit = 0; bit < 8; bit++) {
			packed.data[at] = (char)(packed.data[at] ^ 1 << bit);
			buf_clear(&back);
			/* Some bits of a frame mean nothing: then it is the text. */
			if (state_restore(kind, packed.data, packed.size, text.size,
				    _i == 1 ? base.data : NULL, base.size, &back) == 0)
				ck_assert_msg(back.size == text.size &&
						memcmp(back.data, text.data, text.size) == 0,
					"bit %d of %zu", bit, at);
			packed.data[at] = (char)(packed.data[at] ^ 1 << bit);
		}
	ck_assert(comes_back(kind));
}
END_TEST

START_TEST(bytes_that_were_cut_off_or_added_do_not_come_back) /* proves CK-03 */
{
	enum state_encoding kind = kind_of_damage(_i);
	size_t whole = packed.size;

	for (packed.size = 0; packed.size < whole; packed.size += 1 + whole / 200)
		ck_assert(!comes_back(kind));
	packed.size = whole;
	ck_assert(comes_back(kind));
	buf_add_text(&packed, "x");
	ck_assert(!comes_back(kind));
	ck_assert_int_eq((int)back.size, 0);
}
END_TEST

START_TEST(a_delta_comes_back_only_from_its_own_base_and_size) /* proves CK-03 */
{
	enum state_encoding kind = kind_of_damage(1);

	ck_assert_int_eq(kind, STATE_DELTA);
	ck_assert_int_eq(state_restore(kind, packed.data, packed.size, text.size, NULL, 0, &back), -1);
	ck_assert_int_eq(
		state_restore(kind, packed.data, packed.size, text.size - 1, base.data, base.size, &back),
		-1);
	ck_assert_int_eq(
		state_restore(kind, packed.data, packed.size, (size_t)1 << 40, base.data, base.size, &back),
		-1);
	ck_assert_int_eq(state_restore(STATE_ZSTD, packed.data, packed.size, text.size, NULL, 0, &back), -1);
	base.data[base.size / 2] ^= 1;
	ck_assert(!comes_back(kind));
	base.data[base.size / 2] ^= 1;
	base.size--;
	ck_assert(!comes_back(kind));
	base.size++;
	ck_assert(comes_back(kind));
}
END_TEST

START_TEST(the_names_of_the_kinds_are_what_is_stored)
{
	for (int i = 0; i < STATE_COUNT; i++)
		ck_assert_int_eq(state_encoding_parse(state_encoding_names[i]), i);
	ck_assert_int_eq(state_encoding_parse("gzip"), -1);
	ck_assert_int_eq(state_encoding_parse(""), -1);
}
END_TEST

/* ---- the rate of change ---- */

START_TEST(change_is_nothing_for_the_same_and_all_for_another) /* proves CK-01 */
{
	make_state(&base, (size_t)1 << _i);
	make_state(&text, (size_t)1 << _i);
	buf_add(&back, base.data, base.size);
	ck_assert(state_change(back.data, back.size, base.data, base.size, 0, 0) < 0.02);
	ck_assert(state_change(text.data, text.size, base.data, base.size, 0, 0) > 0.5);
	buf_clear(&text);
	buf_add(&text, base.data, base.size);
	change(&text, text.size / 4, text.size / 100);
	ck_assert(state_change(text.data, text.size, base.data, base.size, 0, 0) < 0.25);
}
END_TEST

/* ---- what differs, for people ---- */

static struct buf said;

static void on_change(void *ctx, const char *path, const json_t *was, const json_t *is)
{
	char *a = was != NULL ? json_dumps(was, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	char *b = is != NULL ? json_dumps(is, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	(void)ctx;
	buf_addf(&said, "%s:%s>%s ", path, a != NULL ? a : "", b != NULL ? b : "");
	free(a);
	free(b);
}

static const struct {
	const char *was, *is, *said;
} differences[] = {
	{"{}", "{}", ""},
	{"{\"a\":1.10}", "{\"a\":1.1}", ""},
	{"{\"a\":1,\"b\":2}", "{\"b\":3,\"c\":null}", "/a:1> /b:2>3 /c:>null "},
	{"{\"a\":{\"x/y\":{\"~\":1}}}", "{\"a\":{\"x/y\":{\"~\":[]}}}", "/a/x~1y/~0:1>[] "},
	{"{\"a\":[1,2,3,4]}", "{\"a\":[1,9,2,3,4]}", "/a/1:>9 "},
	{"{\"a\":[1,2,3,4]}", "{\"a\":[1,4]}", "/a/1:2> /a/2:3> "},
	{"{\"a\":[{\"n\":1},{\"n\":2}]}", "{\"a\":[{\"n\":1},{\"n\":5}]}", "/a/1/n:2>5 "},
	{"{\"a\":[]}", "{\"a\":{}}", "/a:[]>{} "},
	{"{\"\":0}", "{\"\":1}", "/:0>1 "},
};

START_TEST(a_difference_is_said_at_its_place)
{
	char why[64];
	json_t *was = jtext_parse(differences[_i].was, strlen(differences[_i].was), why, sizeof why);
	json_t *is = jtext_parse(differences[_i].is, strlen(differences[_i].is), why, sizeof why);
	size_t count = jdiff(was, is, on_change, NULL);

	ck_assert_str_eq(buf_text(&said), differences[_i].said);
	ck_assert_int_eq((int)count, (int)jdiff(was, is, NULL, NULL));
	buf_fini(&said);
	json_decref(was);
	json_decref(is);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pack");
	TCase *t = tcase_create("pack");
	SRunner *r;
	int failed;

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_state_up_to_4_kib_is_stored_as_its_text);
	tcase_add_test(t, state_that_does_not_get_smaller_is_stored_as_its_text);
	tcase_add_loop_test(t, a_small_change_to_a_large_state_is_a_small_delta, 0, 4);
	tcase_add_test(t, change_in_the_middle_of_a_state_is_a_small_delta);
	tcase_add_test(t, a_delta_that_saves_less_than_half_is_no_delta);
	tcase_add_test(t, a_delta_may_be_of_a_text_of_any_other_size);
	tcase_add_test(t, numbers_nulls_and_spaces_come_back_as_they_were_written);
	tcase_add_loop_test(t, bytes_that_were_changed_do_not_come_back_as_another_text, 0, 2);
	tcase_add_loop_test(t, bytes_that_were_cut_off_or_added_do_not_come_back, 0, 2);
	tcase_add_test(t, a_delta_comes_back_only_from_its_own_base_and_size);
	tcase_add_test(t, the_names_of_the_kinds_are_what_is_stored);
	tcase_add_loop_test(t, change_is_nothing_for_the_same_and_all_for_another, 12, 18);
	tcase_add_loop_test(
		t, a_difference_is_said_at_its_place, 0, (int)(sizeof differences / sizeof *differences));
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
