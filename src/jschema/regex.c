/* SPDX-License-Identifier: MIT */
/* regex.c: parses ECMA-262 patterns in "u" mode. jschema.h says what is accepted and what is refused.
 * Owns making and freeing a regex. Follows Annex B where that is harmless: a lone ']', '{' or '}' is itself,
 * so is the '-' in [\w-.], and an escaped character that is no letter or digit. Never matches
 * (regex_run.c). */
#include <stdlib.h>
#include <string.h>

#include "jschema/regex.h"

struct parser {
	const char *at, *end;
	const char *why;
	struct regex *regex;
	struct tree *trees;
	uint32_t count;
	unsigned depth;
	uint32_t looks[REGEX_MAX_LOOKS]; /* their trees */
};

static uint32_t parse_alternatives(struct parser *p);

static uint32_t refuse(struct parser *p, const char *why)
{
	if (p->why == NULL)
		p->why = why;
	p->at = p->end;
	return 0;
}

static uint32_t tree_add(struct parser *p, enum tree_kind kind, uint32_t value)
{
	if ((p->count & (p->count - 1)) == 0)
		p->trees = xrealloc(p->trees, (p->count > 0 ? (size_t)p->count * 2 : 1) * sizeof *p->trees);
	p->trees[p->count] = (struct tree){.kind = (uint8_t)kind, .value = value};
	return p->count++;
}

static bool peek_is(const struct parser *p, const char *text)
{
	size_t size = strlen(text);

	return (size_t)(p->end - p->at) >= size && memcmp(p->at, text, size) == 0;
}

static bool take(struct parser *p, const char *text)
{
	if (!peek_is(p, text))
		return false;
	p->at += strlen(text);
	return true;
}

static uint32_t take_code_point(struct parser *p)
{
	const unsigned char *u = (const unsigned char *)p->at;
	size_t size = buf_utf8_size(u, (size_t)(p->end - p->at));
	uint32_t c = *u;

	if (size == 0)
		return refuse(p, "it is not UTF-8");
	if (size > 1)
		c &= 0xffu >> (size + 1);
	for (size_t i = 1; i < size; i++)
		c = c << 6 | (u[i] & 0x3fu);
	p->at += size;
	return c;
}

/* ---- escapes ---- */

static bool take_hex(struct parser *p, size_t digits, uint32_t *value)
{
	uint32_t v = 0;

	if ((size_t)(p->end - p->at) < digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		char c = p->at[i];

		if (c >= '0' && c <= '9')
			v = v * 16 + (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v * 16 + (uint32_t)((c | 0x20) - 'a') + 10;
		else
			return false;
	}
	p->at += digits;
	*value = v;
	return true;
}

/* Behind \u: four digits, twice for a surrogate pair, or {...}. */
static uint32_t take_unicode(struct parser *p)
{
	uint32_t c, low, digit;
	const char *back;

	if (take(p, "{")) {
		for (c = 0; take_hex(p, 1, &digit);)
			if ((c = c * 16 + digit) >= CODE_POINTS)
				return refuse(p, "\\u{...} is no code point");
		return p->at[-1] != '{' && take(p, "}") ? c : refuse(p, "\\u{...} is not complete");
	}
	if (!take_hex(p, 4, &c))
		return refuse(p, "\\u needs four hexadecimal digits");
	back = p->at;
	if (c >= 0xd800 && c < 0xdc00 && take(p, "\\u")) {
		if (take_hex(p, 4, &low) && low >= 0xdc00 && low < 0xe000)
			return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		p->at = back;
	}
	return c;
}

/* The character that an escape names; the backslash is consumed already. */
static uint32_t take_escape(struct parser *p, bool in_class)
{
	static const char names[] = "tnvfr", values[] = "\t\n\v\f\r";
	char c = *p->at;
	uint32_t value;

	if ((unsigned char)c >= 0x80)
		return take_code_point(p);
	p->at++;
	if (strchr(names, c) != NULL && c != '\0')
		return (uint32_t)values[strchr(names, c) - names];
	if (c == 'u')
		return take_unicode(p);
	if (c == 'x')
		return take_hex(p, 2, &value) ? value : refuse(p, "\\x needs two hexadecimal digits");
	if (c == 'b' && in_class)
		return '\b';
	if (c == 'c') {
		c = p->at < p->end ? *p->at++ : '\0';
		return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (uint32_t)c & 31 :
								refuse(p, "\\c needs a letter");
	}
	if (c == '0')
		return p->at < p->end && *p->at >= '0' && *p->at <= '9' ?
			refuse(p, "octal escapes are not known") :
			0;
	if ((c >= '1' && c <= '9') || c == 'k')
		return refuse(p, "back references cannot be matched in bounded time");
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return refuse(p, "an escape is not known");
	return (unsigned char)c;
}

static void add_range(void *to, uint32_t first, uint32_t last)
{
	charset_add(to, first, last);
}

/* \p{...} and \P{...}. */
static void take_property(struct parser *p, struct charset *set, bool is_negated)
{
	const char *name = p->at + 1,
		   *end = p->at < p->end && *p->at == '{' ? memchr(p->at, '}', (size_t)(p->end - p->at)) :
							    NULL;
	struct charset found = {0};

	if (end == NULL) {
		refuse(p, "\\p needs {the name of a category}");
		return;
	}
	p->at = end + 1;
	if (!unicode_category(name, (size_t)(end - name), add_range, &found))
		refuse(p, "of \\p{...} only general categories are known");
	charset_finish(&found, is_negated);
	for (uint32_t i = 0; i < found.count; i++)
		charset_add(set, found.ranges[i].first, found.ranges[i].last);
	free(found.ranges);
}

/* \d \D \w \W \s \S \p \P, behind the backslash. */
static bool take_class_escape(struct parser *p, struct charset *set)
{
	char c = p->at < p->end ? *p->at : '\0';

	if (c == '\0' || strchr("dDwWsSpP", c) == NULL)
		return false;
	p->at++;
	if (c == 'p' || c == 'P')
		take_property(p, set, c == 'P');
	else
		charset_add_escape(set, c);
	return true;
}

/* ---- atoms ---- */

static uint32_t set_add(struct parser *p, struct charset set, bool is_negated)
{
	struct regex *r = p->regex;

	charset_finish(&set, is_negated);
	if ((r->set_count & (r->set_count - 1)) == 0)
		r->sets = xrealloc(
			r->sets, (r->set_count > 0 ? (size_t)r->set_count * 2 : 1) * sizeof *r->sets);
	r->sets[r->set_count] = set;
	return tree_add(p, TREE_SET, r->set_count++);
}

/* One end of a range in a class. False: it was a set like \d, which has been added. */
static bool take_class_end(struct parser *p, struct charset *set, uint32_t *c)
{
	if (!take(p, "\\")) {
		*c = take_code_point(p);
		return true;
	}
	if (p->at == p->end)
		return refuse(p, "it ends in a backslash");
	if (take_class_escape(p, set))
		return false;
	*c = take(p, "-") ? '-' : take_escape(p, true);
	return true;
}

/* [\w-.]: one end is a set, so this is no range, and the '-' stands for itself. */
static void add_ends(struct charset *set, bool has_first, uint32_t first, bool has_last, uint32_t last)
{
	charset_add(set, '-', '-');
	if (has_first)
		charset_add(set, first, first);
	if (has_last)
		charset_add(set, last, last);
}

static uint32_t parse_class(struct parser *p)
{
	struct charset set = {0};
	bool is_negated = take(p, "^");

	while (p->at < p->end && *p->at != ']') {
		uint32_t first, last = 0;
		bool has_first = take_class_end(p, &set, &first), has_last;

		if (!peek_is(p, "-") || p->at + 1 == p->end || p->at[1] == ']') {
			if (has_first)
				charset_add(&set, first, first);
			continue;
		}
		p->at++;
		has_last = take_class_end(p, &set, &last);
		if (has_first && has_last && first > last)
			refuse(p, "a range in [...] has no proper ends");
		else if (has_first && has_last)
			charset_add(&set, first, last);
		else
			add_ends(&set, has_first, first, has_last, last);
	}
	if (!take(p, "]"))
		refuse(p, "[ without ]");
	return set_add(p, set, is_negated);
}

static uint32_t parse_look(struct parser *p, bool is_behind, bool is_negated)
{
	uint32_t body = parse_alternatives(p), look;

	if (p->regex->look_count == REGEX_MAX_LOOKS)
		return refuse(p, "too many look-aheads and look-behinds");
	p->looks[p->regex->look_count] = body;
	look = tree_add(p, TREE_LOOK, p->regex->look_count++);
	p->trees[look].is_behind = is_behind;
	p->trees[look].is_negated = is_negated;
	return look;
}

static uint32_t parse_group(struct parser *p, bool *may_repeat)
{
	static const struct {
		const char *text;
		bool is_behind, is_negated;
	} looks[] = {{"?=", false, false}, {"?!", false, true}, {"?<=", true, false}, {"?<!", true, true}};
	uint32_t tree = NONE;

	if (++p->depth > REGEX_MAX_NESTING)
		return refuse(p, "groups are nested too deeply");
	for (size_t i = 0; i < sizeof looks / sizeof *looks && tree == NONE; i++)
		if (take(p, looks[i].text)) {
			tree = parse_look(p, looks[i].is_behind, looks[i].is_negated);
			*may_repeat = false;
		}
	if (tree == NONE && take(p, "?<")) { /* the name of a group, which has no effect */
		const char *end = memchr(p->at, '>', (size_t)(p->end - p->at));

		if (end == NULL || end == p->at)
			return refuse(p, "a group's name is not complete");
		p->at = end + 1;
	} else if (tree == NONE && !take(p, "?:") && peek_is(p, "?")) {
		return refuse(p, "(? is followed by something unknown");
	}
	if (tree == NONE)
		tree = parse_alternatives(p);
	p->depth--;
	return take(p, ")") ? tree : refuse(p, "( without )");
}

static uint32_t parse_escape(struct parser *p, bool *may_repeat)
{
	struct charset set = {0};

	if (p->at == p->end)
		return refuse(p, "it ends in a backslash");
	if (*p->at == 'b' || *p->at == 'B') {
		*may_repeat = false;
		return tree_add(p, TREE_ASSERT, *p->at++ == 'b' ? ST_WORD : ST_NO_WORD);
	}
	if (take_class_escape(p, &set))
		return set_add(p, set, false);
	return tree_add(p, TREE_CHAR, take_escape(p, false));
}

static uint32_t parse_dot(struct parser *p)
{
	struct charset set = {0};

	charset_add(&set, '\n', '\n');
	charset_add(&set, '\r', '\r');
	charset_add(&set, 0x2028, 0x2029);
	return set_add(p, set, true);
}

static uint32_t parse_atom(struct parser *p, bool *may_repeat)
{
	*may_repeat = true;
	if (take(p, "("))
		return parse_group(p, may_repeat);
	if (take(p, "["))
		return parse_class(p);
	if (take(p, "\\"))
		return parse_escape(p, may_repeat);
	if (take(p, "."))
		return parse_dot(p);
	if (peek_is(p, "*") || peek_is(p, "+") || peek_is(p, "?"))
		return refuse(p, "there is nothing to repeat");
	if (peek_is(p, "^") || peek_is(p, "$")) {
		*may_repeat = false;
		return tree_add(p, TREE_ASSERT, *p->at++ == '^' ? ST_BEGIN : ST_END);
	}
	return tree_add(p, TREE_CHAR, take_code_point(p));
}

/* ---- repetition and sequence ---- */

static bool take_number(struct parser *p, uint32_t *n)
{
	const char *begin = p->at;

	for (*n = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
		if (*n <= REGEX_MAX_STATES)
			*n = *n * 10 + (uint32_t)(*p->at - '0');
	return p->at > begin;
}

static bool take_braces(struct parser *p, uint32_t *min, uint32_t *max)
{
	const char *begin = p->at;

	if (take(p, "{") && take_number(p, min)) {
		*max = *min;
		if (take(p, ",") && !take_number(p, max))
			*max = NONE;
		if (take(p, "}"))
			return true;
	}
	p->at = begin; /* a brace that stands for itself */
	return false;
}

static bool take_quantifier(struct parser *p, uint32_t *min, uint32_t *max)
{
	*min = 0;
	*max = NONE;
	if (take(p, "*") || take_braces(p, min, max)) {
		;
	} else if (take(p, "+")) {
		*min = 1;
	} else if (take(p, "?")) {
		*max = 1;
	} else {
		return false;
	}
	take(p, "?"); /* lazy or greedy makes no difference to the answer */
	return true;
}

static uint32_t parse_term(struct parser *p)
{
	uint32_t min, max, tree, repeat;
	bool may_repeat;

	tree = parse_atom(p, &may_repeat);
	if (!take_quantifier(p, &min, &max))
		return tree;
	if (!may_repeat)
		return refuse(p, "there is nothing to repeat");
	if (max < min)
		return refuse(p, "{n,m} with n above m");
	repeat = tree_add(p, TREE_REPEAT, 0);
	p->trees[repeat].child = tree;
	p->trees[repeat].min = min;
	p->trees[repeat].max = max;
	return repeat;
}

/* A tree can be in one list only. A shared tree (0, after an error) therefore ends the list. */
static void tree_append(struct parser *p, uint32_t parent, uint32_t *last, uint32_t child)
{
	if (child == 0)
		return;
	if (*last == 0)
		p->trees[parent].child = child;
	else
		p->trees[*last].next = child;
	*last = child;
}

static uint32_t parse_sequence(struct parser *p)
{
	uint32_t cat = tree_add(p, TREE_CAT, 0), last = 0;

	while (p->at < p->end && *p->at != '|' && *p->at != ')')
		tree_append(p, cat, &last, parse_term(p));
	return cat;
}

static uint32_t parse_alternatives(struct parser *p)
{
	uint32_t alt = tree_add(p, TREE_ALT, 0), last = 0;

	do {
		tree_append(p, alt, &last, parse_sequence(p));
	} while (take(p, "|"));
	return alt;
}

/* ---- the whole pattern ---- */

static void regex_make(struct parser *p)
{
	uint32_t root;
	struct regex *r = p->regex;

	tree_add(p, TREE_EMPTY, 0);
	root = parse_alternatives(p);
	if (p->at < p->end)
		refuse(p, ") without (");
	for (uint32_t i = 0; i < p->count && p->why == NULL; i++)
		if (p->trees[i].kind == TREE_LOOK)
			r->looks[p->trees[i].value].is_behind = p->trees[i].is_behind;
	for (uint32_t i = 0; i < r->look_count && p->why == NULL; i++)
		p->why = regex_emit(&r->looks[i], p->trees, p->looks[i], !r->looks[i].is_behind);
	if (p->why == NULL)
		p->why = regex_emit(&r->program, p->trees, root, false);
}

struct regex *regex_new(const char *pattern, size_t size, const char **why)
{
	struct parser p = {.at = pattern, .end = pattern + size, .regex = xcalloc(1, sizeof *p.regex)};

	regex_make(&p);
	free(p.trees);
	if (p.why == NULL)
		return p.regex;
	*why = p.why;
	regex_free(p.regex);
	return NULL;
}

void regex_free(struct regex *r)
{
	if (r == NULL)
		return;
	for (uint32_t i = 0; i < r->set_count; i++)
		free(r->sets[i].ranges);
	for (uint32_t i = 0; i < r->look_count; i++)
		free(r->looks[i].states);
	free(r->sets);
	free(r->program.states);
	free(r);
}
