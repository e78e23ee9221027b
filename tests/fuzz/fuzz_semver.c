/* SPDX-License-Identifier: MIT */
/* fuzz_semver.c: versions and ranges. Input: a version, another version, a range, another range, a line
 * each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/semver.h"

#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)

/* Is `version` in the range that the pieces make up? */
static bool fits(const char *version, const char *a, const char *b, const char *c, const char *d)
{
	char range[4 * SEMVER_MAX + 64];

	snprintf(range, sizeof range, "%s%s%s%s", a, b, c, d);
	return semver_satisfies(version, range);
}

static bool is_short(const char *text)
{
	return strlen(text) <= SEMVER_MAX / 2 - 8;
}

/* --- the order of versions once more, from the specification's words --- */

struct parts {
	uint64_t number[3];
	char pre[SEMVER_MAX + 1];
};

/* Of a text that is a version: takes it apart, and what it wrote together again is the same. */
static struct parts take_apart(const char *text)
{
	struct parts p = {.pre = ""};
	char again[SEMVER_MAX + 80];
	const char *plus = strchr(text, '+');
	int used = 0;

	MUST(sscanf(text, "%" SCNu64 ".%" SCNu64 ".%" SCNu64 "%n", &p.number[0], &p.number[1], &p.number[2],
		     &used) == 3);
	if (text[used] == '-')
		snprintf(p.pre, sizeof p.pre, "%.*s",
			(int)(plus != NULL ? plus - text - used - 1 : SEMVER_MAX), text + used + 1);
	snprintf(again, sizeof again, "%" PRIu64 ".%" PRIu64 ".%" PRIu64 "%s%s%s", p.number[0], p.number[1],
		p.number[2], p.pre[0] != '\0' ? "-" : "", p.pre, plus != NULL ? plus : "");
	MUST(strcmp(text, again) == 0 && semver_is_version(again));
	for (int i = 0; i < 3; i++)
		MUST(p.number[i] <= NUMBER_MAX);
	return p;
}

static int order_of_words(const char *a, size_t a_size, const char *b, size_t b_size)
{
	bool a_number = strspn(a, "0123456789") >= a_size, b_number = strspn(b, "0123456789") >= b_size;
	char x[SEMVER_MAX + 1], y[SEMVER_MAX + 1];

	if (a_number != b_number)
		return a_number ? -1 : 1;
	if (a_number && a_size != b_size)
		return a_size < b_size ? -1 : 1;
	snprintf(x, sizeof x, "%.*s", (int)a_size, a);
	snprintf(y, sizeof y, "%.*s", (int)b_size, b);
	return strcmp(x, y);
}

static int order(const struct parts *a, const struct parts *b)
{
	const char *p = a->pre, *q = b->pre;

	for (int i = 0; i < 3; i++)
		if (a->number[i] != b->number[i])
			return a->number[i] < b->number[i] ? -1 : 1;
	if (*p == '\0' || *q == '\0')
		return *p == *q ? 0 : *p == '\0' ? 1 : -1;
	for (;;) {
		size_t p_size = strcspn(p, "."), q_size = strcspn(q, ".");
		int o = order_of_words(p, p_size, q, q_size);

		if (o != 0)
			return o < 0 ? -1 : 1;
		p += p_size;
		q += q_size;
		if (*p == '\0' || *q == '\0')
			return *p == *q ? 0 : *p == '\0' ? -1 : 1;
		p++;
		q++;
	}
}

static void check_versions(const char *v, const char *w)
{
	struct parts a = take_apart(v), b = take_apart(w);
	bool same_triple = memcmp(a.number, b.number, sizeof a.number) == 0;
	/* A pre-release is in a range only where the range names one of its own triple. */
	bool may = a.pre[0] == '\0' || (b.pre[0] != '\0' && same_triple);
	int o = order(&a, &b);

	if (strlen(w) + 3 > SEMVER_MAX)
		return;
	MUST(fits(v, "<", w, "", "") == (may && o < 0));
	MUST(fits(v, "<=", w, "", "") == (may && o <= 0));
	MUST(fits(v, "", w, "", "") == (may && o == 0));
	MUST(fits(v, "= ", w, "", "") == (may && o == 0));
	MUST(fits(v, ">= ", w, "", "") == (may && o >= 0));
	MUST(fits(v, ">", w, "", "") == (may && o > 0));
	MUST(order(&b, &a) == -o && order(&a, &a) == 0);
	if (strlen(v) + 3 <= SEMVER_MAX)
		MUST(fits(v, "=", v, "", "") && fits(v, "^", v, "", "") && fits(v, "~", v, "", ""));
	MUST(fits(v, "*", "", "", "") == (a.pre[0] == '\0'));
}

/* The same with parts left out: they are free. */
static void check_partial(const char *v, const uint64_t n[3])
{
	char both[64], one[64], spelt[128];
	bool is_zero = n[0] == 0;

	snprintf(both, sizeof both, "%" PRIu64 ".%" PRIu64, n[0], n[1]);
	snprintf(spelt, sizeof spelt, ">=%s.0 <%" PRIu64 ".%" PRIu64 ".0-0", both, is_zero ? 0 : n[0] + 1,
		is_zero ? n[1] + 1 : 0);
	MUST(fits(v, "^", both, "", "") == fits(v, spelt, "", "", ""));
	snprintf(spelt, sizeof spelt, ">=%s.0 <%" PRIu64 ".%" PRIu64 ".0-0", both, n[0], n[1] + 1);
	MUST(fits(v, "~", both, "", "") == fits(v, spelt, "", "", "") &&
		fits(v, both, "", "", "") == fits(v, spelt, "", "", ""));
	snprintf(one, sizeof one, "%" PRIu64, n[0]);
	snprintf(spelt, sizeof spelt, ">=%s.0.0 <%" PRIu64 ".0.0-0", one, n[0] + 1);
	MUST(fits(v, "^", one, "", "") == fits(v, spelt, "", "", "") &&
		fits(v, "~", one, ".x", "") == fits(v, spelt, "", "", ""));
	MUST(fits(v, "<=", one, "", "") == fits(v, "<", strchr(spelt, '<') + 1, "", ""));
	snprintf(spelt, sizeof spelt, ">=%" PRIu64 ".0.0", n[0] + 1);
	MUST(fits(v, ">", one, "", "") == fits(v, spelt, "", "", "") &&
		fits(v, "<", one, "", "") == fits(v, "<", one, ".0.0-0", ""));
}

/* ^ and ~ are what npm's documentation spells out for them. */
static void check_shorthands(const char *v, const char *w)
{
	struct parts b = take_apart(w);
	int up = b.number[0] > 0 ? 0 : b.number[1] > 0 ? 1 : 2;
	uint64_t n[3] = {b.number[0], b.number[1], b.number[2]};
	char below[100];

	if (n[0] == NUMBER_MAX || n[1] == NUMBER_MAX || n[2] == NUMBER_MAX || !is_short(w))
		return;
	n[up]++;
	for (int i = up + 1; i < 3; i++)
		n[i] = 0;
	snprintf(below, sizeof below, " <%" PRIu64 ".%" PRIu64 ".%" PRIu64 "-0", n[0], n[1], n[2]);
	MUST(fits(v, "^", w, "", "") == fits(v, ">=", w, below, ""));
	check_partial(v, b.number);
	snprintf(below, sizeof below, " <%" PRIu64 ".%" PRIu64 ".0-0", b.number[0], b.number[1] + 1);
	MUST(fits(v, "~", w, "", "") == fits(v, ">=", w, below, ""));
	snprintf(below, sizeof below, "%" PRIu64 ".%" PRIu64 ".x", b.number[0], b.number[1]);
	if (strchr(v, '-') == NULL)
		MUST(fits(v, below, "", "", "") == fits(v, "~", below, "", ""));
	MUST(fits(v, w, " - ", w, "") == fits(v, ">=", w, " <=", w));
}

static void check_ranges(const char *v, const char *a, const char *b)
{
	bool in_a = semver_satisfies(v, a), in_b = semver_satisfies(v, b);
	bool is_single = strchr(a, '|') == NULL && strchr(b, '|') == NULL && strstr(a, " -") == NULL &&
		strstr(b, " -") == NULL && strpbrk(a, "\t\r") == NULL && strpbrk(b, "\t\r") == NULL;

	if (!semver_is_range(a) || !semver_is_range(b) || !is_short(a) || !is_short(b))
		return;
	MUST(fits(v, a, "||", b, "") == (in_a || in_b));
	MUST(fits(v, " ", a, " ", "") == in_a &&
		fits(v, a, "\t||", " \r", a) == (in_a || fits(v, " \r", a, "", "")));
	if (is_single && strchr(v, '-') == NULL)
		MUST(fits(v, a, " ", b, "") == (in_a && in_b));
	else if (is_single && in_a && in_b)
		MUST(fits(v, a, " ", b, ""));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *v = feed_line(&f), *w = feed_line(&f), *a = feed_line(&f), *b = feed_line(&f);

	MUST(!semver_is_version(v) || strlen(v) <= SEMVER_MAX);
	MUST(!semver_is_range(a) || strlen(a) <= SEMVER_MAX);
	MUST(!semver_satisfies(v, a) || (semver_is_version(v) && semver_is_range(a)));
	MUST(!semver_is_version(v) || semver_is_range(v));
	if (semver_is_version(v) && semver_is_version(w)) {
		check_versions(v, w);
		check_shorthands(v, w);
	}
	if (semver_is_version(v))
		check_ranges(v, a, b);
	free(v);
	free(w);
	free(a);
	free(b);
	return 0;
}
