/* SPDX-License-Identifier: MIT */
/* test_jschema_regex.c: `pattern`: ECMA-262's spellings, what is refused, and time that does not explode. */
#include <stdlib.h>
#include <time.h>

#include "support/jschema_kit.h"

/* \ is written once here, and ' is itself. */
static struct jschema *schema_of(const char *pattern, size_t size, char *why)
{
	json_t *v = json_pack("{s:s%}", "pattern", pattern, size);
	struct jschema *js = jschema_compile(v, NULL, why, JSCHEMA_WHY_SIZE);

	json_decref(v);
	return js;
}

static bool finds(const char *pattern, const char *text, size_t size)
{
	char why[JSCHEMA_WHY_SIZE];
	struct jschema *js = schema_of(pattern, strlen(pattern), why);
	json_t *v = json_stringn(text, size);
	bool ok;

	ck_assert_msg(js != NULL, "%s: %s", pattern, why);
	ok = jschema_check(js, v, NULL);
	json_decref(v);
	jschema_free(js);
	return ok;
}

static const struct {
	const char *pattern, *yes, *no; /* texts, separated by spaces; NULL: none; "" is the empty one; _
					 * stands for a space where the pattern has none and no \w */
} cases[] = {
	{"abc", "abc xabcx", "ab acb"},
	{"^abc$", "abc", "xabc abcx"},
	{"^$", "\"\"", "a"},
	{"", "\"\" a", NULL},
	{"a|bc|", "\"\" a bc", NULL},
	{"^(a|bc|)$", "\"\" a bc", "b abc"},
	{"^a*$", "\"\" a aaa", "b ab"},
	{"^a+$", "a aaa", "\"\" ab"},
	{"^a?b$", "b ab", "aab"},
	{"^a{2}$", "aa", "a aaa"},
	{"^a{2,}$", "aa aaaa", "a"},
	{"^a{1,3}?$", "a aaa", "\"\" aaaa"},
	{"^a{0}$", "\"\"", "a"},
	{"^(ab){2,3}c$", "ababc abababc", "abc ababababc"},
	{"^a{,2}$", "a{,2}", "aa"},
	{"^{}]$", "{}]", "x"},
	{"^[a-c]$", "a b c", "d -"},
	{"^[^a-c]$", "d \xe2\x82\xac", "a"},
	{"^[-a]$", "- a", "b"},
	{"^[a-]$", "- a", "b"},
	{"^[]$", NULL, "a \"\""},
	{"^[^]$", "a", "\"\""},
	{"^[\\d-x]$", "- 7 x", "a"},
	{"^[\\w-.]+@[a-\\d]$", "a-b.c@7", "a@b"},
	{"^[\\]\\\\]$", "] \\", "a"},
	{"^\\d$", "7", "a \xd9\xa3"},
	{"^\\D$", "a \xd9\xa3", "7"},
	{"^\\w+$", "aZ_9", "\xc3\xa9 -"},
	{"^\\W$", "\xc3\xa9 -", "a"},
	{"^\\s$", "_ \xc2\xa0 \xef\xbb\xbf \xe2\x80\xa8", "a"},
	{"^\\S$", "a", "_"},
	{"^.$", "a \xf0\x9f\x98\x80 \x01", "ab \xe2\x80\xa8"},
	{"^[\\s\\S]{2}$", "a_", "a"},
	{"\\bcat\\b", "cat a_cat cat-a", "cats acat"},
	{"\\Bat", "cat", "at"},
	{"^\\u0041\\x42$", "AB", "ab"},
	{"^\\u{1F600}$", "\xf0\x9f\x98\x80", "a"},
	{"^\\uD83D\\uDE00+$", "\xf0\x9f\x98\x80\xf0\x9f\x98\x80", "a"},
	{"^\xf0\x9f\x98\x80{2}$", "\xf0\x9f\x98\x80\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
	{"^[\xf0\x9f\x98\x80-\xf0\x9f\x98\x82]$", "\xf0\x9f\x98\x81", "\xf0\x9f\x98\x83"},
	{"^\\cA$", "\x01", "A"},
	{"^\\/\\-\\.\\@$", "/-.@", "/-x@"},
	{"^\\p{Letter}+$", "a\xc3\xa9\xe4\xb8\xad", "a1"},
	{"^\\p{Lu}\\p{Ll}$", "A\xc3\xa9 \xc4\x80\xc4\x81", "a\xc3\xa9 \xc4\x81\xc4\x80"},
	{"^\\p{gc=Nd}+$", "1\xd9\xa3", "a"},
	{"^\\p{General_Category=Decimal_Number}$", "\xd9\xa3", "a"},
	{"^\\P{L}$", "1", "a"},
	{"^[\\p{L}\\p{N}_]+$", "\xc3\xa9_1", "-"},
	{"^[^\\p{P}]$", "a", "!"},
	{"^\\p{ASCII}\\P{Any}?$", "a", "\xc3\xa9"},
	{"^(?:a|b)+$", "abba", "abc"},
	{"^(?<year>\\d{4})$", "2026", "26"},
	{"^(?=.*\\d)(?=.*[a-z]).{4,}$", "abc1 1xyz", "abcd 1234 a1"},
	{"^(?!admin)\\w+$", "user xadmin", "admin administrators"},
	{"^(?!.*(foo|bar)).*$", "baz fo", "xfoo barx"},
	{"(?<=a)b", "ab", "b cb"},
	{"(?<!a)b", "b cb", "ab"},
	{"^(?=(?!b).c)[a-z]+$", "acx", "bcx abx"},
	{"^(?:(?=a)a|(?=b)b)+$", "abba", "abc"},
	{"a(?=b$)", "ab", "abc a"},
	{"(?=^)a", "ab", "ba"},
	{"(a*)*$", "\"\" aaa b", NULL},
	{"^(a|a)*b$", "aab", "aac"},
	{"x*", "\"\" y", NULL},
};

/* Whether all of the words are (or none is) found. */
static void expect(const char *pattern, const char *words, bool is_yes)
{
	char copy[200], *save = NULL;

	if (words == NULL)
		return;
	snprintf(copy, sizeof copy, "%s", words);
	for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
		char text[200];

		snprintf(text, sizeof text, "%s", strcmp(word, "\"\"") == 0 ? "" : word);
		if (strchr(pattern, '_') == NULL && strstr(pattern, "\\w") == NULL)
			for (char *p = text; (p = strchr(p, '_')) != NULL;)
				*p = ' ';
		ck_assert_msg(finds(pattern, text, strlen(text)) == is_yes, "/%s/ and \"%s\"", pattern, text);
	}
}

START_TEST(a_pattern_means_what_ecma_262_says)
{
	expect(cases[_i].pattern, cases[_i].yes, true);
	expect(cases[_i].pattern, cases[_i].no, false);
}
END_TEST

START_TEST(the_end_is_the_very_end_and_nul_is_a_character)
{
	ck_assert(!finds("^a$", "a\n", 2));
	ck_assert(!finds("^.$", "\n", 1));
	ck_assert(finds("^a\\0b$", "a\0b", 3));
	ck_assert(!finds("^a$", "a\0", 2));
}
END_TEST

static const struct {
	const char *pattern, *why;
} refused[] = {
	{"(a", "( without )"},
	{"a)", ") without ("},
	{"[a", "[ without ]"},
	{"*a", "there is nothing to repeat"},
	{"a**", "there is nothing to repeat"},
	{"^*", "there is nothing to repeat"},
	{"(?=a)*", "there is nothing to repeat"},
	{"a{2,1}", "{n,m} with n above m"},
	{"[b-a]", "a range in [...] has no proper ends"},
	{"a\\", "it ends in a backslash"},
	{"[\\", "it ends in a backslash"},
	{"\\a", "an escape is not known"},
	{"^\\S(|(.|\\n)*\\S)\\Z", "an escape is not known"},
	{"\\u12", "\\u needs four hexadecimal digits"},
	{"\\u{110000}", "\\u{...} is no code point"},
	{"\\u{}", "\\u{...} is not complete"},
	{"\\x1", "\\x needs two hexadecimal digits"},
	{"\\c1", "\\c needs a letter"},
	{"\\01", "octal escapes are not known"},
	{"(a)\\1", "back references cannot be matched in bounded time"},
	{"(?<n>a)\\k<n>", "back references cannot be matched in bounded time"},
	{"\\p{Script=Greek}", "of \\p{...} only general categories are known"},
	{"\\pL", "\\p needs {the name of a category}"},
	{"(?i)a", "(? is followed by something unknown"},
	{"(?<a", "a group's name is not complete"},
	{"((a{1000}){1000}){1000}", "it is too large: {n,m} are written out"},
	{"(((){1000}){1000}){1000}", "it is too large: {n,m} are written out"},
	{"a{99999999999999999999}", "it is too large: {n,m} are written out"},
};

START_TEST(pattern_that_cannot_be_matched_is_refused_at_compilation)
{
	char why[JSCHEMA_WHY_SIZE], wanted[JSCHEMA_WHY_SIZE];

	ck_assert_ptr_null(schema_of(refused[_i].pattern, strlen(refused[_i].pattern), why));
	snprintf(wanted, sizeof wanted, "/pattern: \"%s\" is not a pattern that can be used: %s",
		refused[_i].pattern, refused[_i].why);
	ck_assert_str_eq(why, wanted);
}
END_TEST

START_TEST(groups_may_be_nested_only_so_deep)
{
	char pattern[1001], why[JSCHEMA_WHY_SIZE];

	memset(pattern, '(', 500);
	memset(pattern + 500, ')', 500);
	pattern[1000] = '\0';
	ck_assert_ptr_null(schema_of(pattern, 1000, why));
	ck_assert(strstr(why, "groups are nested too deeply") != NULL);
}
END_TEST

/* Each takes a backtracking engine more than the age of the universe, or at least minutes. */
static const char *const catastrophes[] = {"^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "(x+x+)+y",
	"^(([a-z])+.)+[A-Z]([a-z])+$", "(?=(a+)+$)b", "^(?:a?){30}a{30}$", "(a*)*(a*)*(a*)*b",
	"(?<!(a|aa)+c)d", "a*a*a*a*a*a*c"};

START_TEST(no_pattern_takes_more_than_length_times_states)
{
	size_t size = 20000;
	char *text = xmalloc(size + 1);
	struct timespec began, ended;
	double seconds;

	memset(text, 'a', size);
	text[size - 1] = '!';
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
	ck_assert(!finds(catastrophes[_i], text, size));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
	seconds = (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
	ck_assert_msg(seconds < 2, "%s: %.2f s", catastrophes[_i], seconds);
	free(text);
}
END_TEST

START_TEST(a_large_pattern_on_a_long_text_ends_at_the_bound_of_steps)
{
	json_t *v = json_pack("{s:{s:s}}", "items", "pattern", "^(a?){30000}b"), *text;
	char why[JSCHEMA_WHY_SIZE], *long_one = xmalloc(200000);
	struct jschema *js = jschema_compile(v, NULL, why, sizeof why);
	struct jschema_failure f;

	ck_assert_msg(js != NULL, "%s", why);
	memset(long_one, 'a', 200000);
	text = json_pack("[s%]", long_one, (size_t)200000);
	ck_assert(!jschema_check(js, text, &f) && f.is_limit);
	ck_assert_str_eq(f.instance, "/0");
	json_decref(text);
	json_decref(v);
	jschema_free(js);
	free(long_one);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, a_pattern_means_what_ecma_262_says, 0, COUNT(cases));
	tcase_add_test(t, the_end_is_the_very_end_and_nul_is_a_character);
	tcase_add_loop_test(t, pattern_that_cannot_be_matched_is_refused_at_compilation, 0, COUNT(refused));
	tcase_add_test(t, groups_may_be_nested_only_so_deep);
	tcase_add_loop_test(t, no_pattern_takes_more_than_length_times_states, 0, COUNT(catastrophes));
	tcase_add_test(t, a_large_pattern_on_a_long_text_ends_at_the_bound_of_steps);
}

int main(void)
{
	return schema_kit_run("jschema_regex", add_tests);
}
