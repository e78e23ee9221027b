/* SPDX-License-Identifier: MIT */
/* semver.c: semantic versions, and ranges of them as npm documents its own.
 * Owns the grammar of both and the order of versions.
 * Never allocates: a range is evaluated while it is read, comparator by comparator. */
#include "base/semver.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NUMBER_MAX ((UINT64_C(1) << 53) - 1) /* npm's bound too; leaves room to add one */
#define ANY UINT64_MAX                       /* x, X, * or left out */

struct version {
	uint64_t part[3]; /* major, minor, patch; ANY in a partial one */
	const char *pre;  /* text after the hyphen, not terminated */
	size_t pre_size;
};

/* One alternative of a range, while its comparators go by. `version` NULL: only the grammar is of
 * interest. */
struct alternative {
	const struct version *version;
	bool all_hold;
	bool names_pre; /* a comparator names a pre-release of the version's own triple */
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_identifier_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

static void skip_space(const char **p)
{
	while (is_space(**p))
		(*p)++;
}

/* --- order --- */

/* The identifier at text, up to a dot or the end. */
static size_t identifier_size(const char *text, size_t left)
{
	const char *dot = memchr(text, '.', left);

	return dot ? (size_t)(dot - text) : left;
}

static bool is_numeric(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!is_digit(text[i]))
			return false;
	return true;
}

/* Numbers below words; numbers by value (no leading zeros, so longer is greater), words by their bytes. */
static int compare_identifiers(const char *a, size_t a_size, const char *b, size_t b_size)
{
	bool a_number = is_numeric(a, a_size), b_number = is_numeric(b, b_size);
	int order;

	if (a_number != b_number)
		return a_number ? -1 : 1;
	if (a_number && a_size != b_size)
		return a_size < b_size ? -1 : 1;
	order = memcmp(a, b, a_size < b_size ? a_size : b_size);
	if (order == 0 && a_size != b_size)
		return a_size < b_size ? -1 : 1;
	return order;
}

static int compare_pre(const char *a, size_t a_left, const char *b, size_t b_left)
{
	if (a_left == 0 || b_left == 0) /* a release is above all its pre-releases */
		return (a_left == 0) - (b_left == 0);
	for (;;) {
		size_t a_size = identifier_size(a, a_left), b_size = identifier_size(b, b_left);
		int order = compare_identifiers(a, a_size, b, b_size);

		if (order != 0)
			return order;
		if (a_size == a_left || b_size == b_left) /* the one with more identifiers is greater */
			return (a_size < a_left) - (b_size < b_left);
		a += a_size + 1;
		a_left -= a_size + 1;
		b += b_size + 1;
		b_left -= b_size + 1;
	}
}

static int compare(const struct version *a, const struct version *b)
{
	for (int i = 0; i < 3; i++)
		if (a->part[i] != b->part[i])
			return a->part[i] < b->part[i] ? -1 : 1;
	return compare_pre(a->pre, a->pre_size, b->pre, b->pre_size);
}

/* --- reading versions --- */

static bool take_number(const char **p, uint64_t *value)
{
	const char *start = *p;

	*value = 0;
	for (; is_digit(**p); (*p)++) {
		*value = *value * 10 + (uint64_t)(**p - '0');
		if (*value > NUMBER_MAX)
			return false;
	}
	return *p > start && (*start != '0' || *p == start + 1);
}

/* Dot-separated identifiers; a numeric one of a pre-release has no leading zero. */
static bool take_identifiers(const char **p, bool is_pre)
{
	for (;;) {
		const char *start = *p;
		size_t size;

		while (is_identifier_char(**p))
			(*p)++;
		size = (size_t)(*p - start);
		if (size == 0 || (is_pre && size > 1 && *start == '0' && is_numeric(start, size)))
			return false;
		if (**p != '.')
			return true;
		(*p)++;
	}
}

static bool take_qualifier(const char **p, struct version *v)
{
	if (**p == '-') {
		v->pre = ++*p;
		if (!take_identifiers(p, true))
			return false;
		v->pre_size = (size_t)(*p - v->pre);
	}
	if (**p == '+') { /* build data do not count in the order */
		(*p)++;
		return take_identifiers(p, false);
	}
	return true;
}

/* 1, 1.2, 1.x, 1.2.3-rc.1+b: what is left out or x is ANY, and so is everything after it. */
static bool take_partial(const char **p, struct version *v)
{
	*v = (struct version){.part = {ANY, ANY, ANY}};
	if (**p == 'v')
		(*p)++;
	for (int i = 0; i < 3; i++) {
		if (**p == 'x' || **p == 'X' || **p == '*')
			(*p)++;
		else if (!take_number(p, &v->part[i]))
			return false;
		if (i > 0 && v->part[i - 1] == ANY)
			v->part[i] = ANY;
		if (i < 2 && **p != '.')
			return true;
		if (i < 2)
			(*p)++;
	}
	if (!take_qualifier(p, v))
		return false;
	if (v->part[2] == ANY) /* 1.2.x-rc: there is nothing that the rc could belong to */
		v->pre_size = 0;
	return true;
}

static bool parse_version(const char *text, struct version *v)
{
	const char *p = text;

	if (strnlen(text, SEMVER_MAX + 1) > SEMVER_MAX || !is_digit(*text))
		return false;
	return take_partial(&p, v) && *p == '\0' && v->part[2] != ANY;
}

bool semver_is_version(const char *text)
{
	struct version v;

	return parse_version(text, &v);
}

/* --- comparators, which all forms come down to --- */

enum op { LESS, LESS_EQUAL, EQUAL, GREATER_EQUAL, GREATER };

static void apply(struct alternative *alt, enum op op, const struct version *bound)
{
	int order;

	if (!alt->version)
		return;
	order = compare(alt->version, bound);
	if (!(op == LESS                        ? order < 0 :
			    op == LESS_EQUAL    ? order <= 0 :
			    op == EQUAL         ? order == 0 :
			    op == GREATER_EQUAL ? order >= 0 :
						  order > 0))
		alt->all_hold = false;
	if (bound->pre_size > 0 && memcmp(bound->part, alt->version->part, sizeof(bound->part)) == 0)
		alt->names_pre = true;
}

/* From v on, ANY read as 0. */
static void apply_from(struct alternative *alt, const struct version *v)
{
	struct version low = *v;

	if (v->part[0] == ANY)
		return;
	for (int i = 0; i < 3; i++)
		if (low.part[i] == ANY)
			low.part[i] = 0;
	apply(alt, GREATER_EQUAL, &low);
}

/* Below the next version of that part, its pre-releases excluded: 1.2.3, part 1: <1.3.0-0. */
static void apply_below_next(struct alternative *alt, const struct version *v, int part)
{
	struct version bound = {.pre = "0", .pre_size = 1};

	if (v->part[0] == ANY)
		return;
	for (int i = 0; i <= part; i++)
		bound.part[i] = v->part[i];
	bound.part[part]++;
	apply(alt, LESS, &bound);
}

/* The last part that is given; -1 for *. */
static int last_given(const struct version *v)
{
	int i = 2;

	while (i >= 0 && v->part[i] == ANY)
		i--;
	return i;
}

static void apply_nothing(struct alternative *alt)
{
	alt->all_hold = false; /* >* and <*: there is no such version */
}

static void apply_comparison(struct alternative *alt, enum op op, const struct version *v)
{
	int last = last_given(v);
	struct version low = *v;

	if (last == 2) {
		apply(alt, op, v);
	} else if (last < 0) {
		if (op == LESS || op == GREATER)
			apply_nothing(alt);
	} else if (op == GREATER) { /* >1.2 begins with 1.3.0 */
		for (int i = last + 1; i < 3; i++)
			low.part[i] = 0;
		low.part[last]++;
		apply(alt, GREATER_EQUAL, &low);
	} else if (op == LESS) { /* <1.2 ends before 1.2.0-0 */
		for (int i = last + 1; i < 3; i++)
			low.part[i] = 0;
		low.pre = "0";
		low.pre_size = 1;
		apply(alt, LESS, &low);
	} else {
		if (op != LESS_EQUAL)
			apply_from(alt, v);
		if (op != GREATER_EQUAL)
			apply_below_next(alt, v, last);
	}
}

static void apply_tilde(struct alternative *alt, const struct version *v)
{
	apply_from(alt, v);
	apply_below_next(alt, v, last_given(v) >= 1 ? 1 : 0);
}

/* Up to the next change of the leftmost part that is not zero; ^0.0 and ^0 as far as they say. */
static void apply_caret(struct alternative *alt, const struct version *v)
{
	int last = last_given(v), part = 0;

	while (part < last && v->part[part] == 0)
		part++;
	apply_from(alt, v);
	apply_below_next(alt, v, part);
}

/* --- ranges --- */

static bool take_simple(const char **p, struct alternative *alt)
{
	char first = **p;
	enum op op = EQUAL;
	struct version v;

	if (first == '~' || first == '^' || first == '<' || first == '>' || first == '=')
		(*p)++;
	if (first == '~' && **p == '>') /* ~> is an old way to write ~ */
		(*p)++;
	if (first == '<' || first == '>') {
		op = first == '<' ? LESS : GREATER;
		if (**p == '=') {
			op = first == '<' ? LESS_EQUAL : GREATER_EQUAL;
			(*p)++;
		}
	}
	skip_space(p);
	if (!take_partial(p, &v))
		return false;
	if (first == '~')
		apply_tilde(alt, &v);
	else if (first == '^')
		apply_caret(alt, &v);
	else
		apply_comparison(alt, op, &v);
	return true;
}

/* `1.2 - 2.3`, the whole of an alternative. False, with *p unmoved, where it is something else. */
static bool take_hyphen(const char **p, struct alternative *alt)
{
	const char *q = *p;
	struct version from, to;

	if (!take_partial(&q, &from) || !is_space(*q))
		return false;
	skip_space(&q);
	if (*q != '-' || !is_space(q[1]))
		return false;
	q++;
	skip_space(&q);
	if (!take_partial(&q, &to))
		return false;
	skip_space(&q);
	if (*q != '\0' && *q != '|')
		return false;
	apply_from(alt, &from);
	apply_comparison(alt, LESS_EQUAL, &to);
	*p = q;
	return true;
}

static bool take_alternative(const char **p, struct alternative *alt)
{
	skip_space(p);
	if (take_hyphen(p, alt))
		return true;
	while (**p != '\0' && **p != '|') {
		if (!take_simple(p, alt))
			return false;
		if (**p != '\0' && **p != '|' && !is_space(**p))
			return false;
		skip_space(p);
	}
	return true;
}

static bool check_range(const struct version *version, const char *range, bool *satisfied)
{
	const char *p = range;

	*satisfied = false;
	if (strnlen(range, SEMVER_MAX + 1) > SEMVER_MAX)
		return false;
	for (;;) {
		struct alternative alt = {.version = version, .all_hold = true};

		if (!take_alternative(&p, &alt))
			return false;
		if (version && alt.all_hold && (version->pre_size == 0 || alt.names_pre))
			*satisfied = true;
		if (*p == '\0')
			return true;
		if (p[1] != '|')
			return false;
		p += 2;
	}
}

bool semver_is_range(const char *text)
{
	bool satisfied;

	return check_range(NULL, text, &satisfied);
}

bool semver_satisfies(const char *version, const char *range)
{
	struct version v;
	bool satisfied;

	return parse_version(version, &v) && check_range(&v, range, &satisfied) && satisfied;
}
