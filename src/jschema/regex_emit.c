/* SPDX-License-Identifier: MIT */
/* regex_emit.c: makes the states of an automaton from a parsed pattern; and sets of code points.
 * Owns the expansion of {n,m}, within REGEX_MAX_STATES. Never matches. The states of a look-ahead are in
 * reverse: it runs from the end of the text, so that one pass finds all places where it holds. */
#include <stdlib.h>
#include <string.h>

#include "jschema/regex.h"

/* ---- states ---- */

struct emitter {
	struct program *p;
	const struct tree *trees;
	uint32_t room;
	uint64_t calls; /* bounded: (){999}{999} adds no state, but makes many calls */
	bool is_reversed, is_full;
};

static void emit(struct emitter *e, uint32_t tree);

static uint32_t state_add(struct emitter *e, enum state_kind kind, uint32_t x, uint32_t y)
{
	struct program *p = e->p;

	if (p->count >= REGEX_MAX_STATES) {
		e->is_full = true;
		return 0;
	}
	if (p->count == e->room) {
		e->room = e->room > 0 ? e->room * 2 : 16;
		p->states = xrealloc(p->states, e->room * sizeof *p->states);
	}
	p->states[p->count] = (struct state){(uint32_t)kind, x, y};
	return p->count++;
}

static void emit_sequence(struct emitter *e, uint32_t first)
{
	uint32_t *list = NULL, count = 0;

	for (uint32_t t = first; t != 0; t = e->trees[t].next)
		count++;
	list = xmalloc((count + 1u) * sizeof *list);
	for (uint32_t t = first, i = 0; t != 0; t = e->trees[t].next)
		list[i++] = t;
	for (uint32_t i = 0; i < count && !e->is_full; i++)
		emit(e, list[e->is_reversed ? count - 1 - i : i]);
	free(list);
}

/* split a, next; a; jump end; next: split b, ... */
static void emit_alternatives(struct emitter *e, uint32_t first)
{
	uint32_t ends = NONE; /* jumps that still need their target, chained by x */

	for (uint32_t t = first; t != 0 && !e->is_full; t = e->trees[t].next) {
		bool is_last = e->trees[t].next == 0;
		uint32_t split = is_last ? 0 : state_add(e, ST_SPLIT, e->p->count + 1, 0);

		emit(e, t);
		if (is_last || e->is_full)
			continue;
		ends = state_add(e, ST_JUMP, ends, 0);
		e->p->states[split].y = e->p->count;
	}
	while (ends != NONE && !e->is_full) {
		uint32_t next = e->p->states[ends].x;

		e->p->states[ends].x = e->p->count;
		ends = next;
	}
}

static void emit_repeat(struct emitter *e, const struct tree *t)
{
	uint32_t ends = NONE, begin;

	for (uint32_t i = 0; i < t->min && !e->is_full; i++)
		emit(e, t->child);
	if (t->max == NONE) {
		begin = state_add(e, ST_SPLIT, e->p->count + 1, 0);
		emit(e, t->child);
		state_add(e, ST_JUMP, begin, 0);
		if (!e->is_full)
			e->p->states[begin].y = e->p->count;
		return;
	}
	for (uint32_t i = t->min; i < t->max && !e->is_full; i++) {
		ends = state_add(e, ST_SPLIT, e->p->count + 1, ends);
		emit(e, t->child);
	}
	while (ends != NONE && !e->is_full) {
		uint32_t next = e->p->states[ends].y;

		e->p->states[ends].y = e->p->count;
		ends = next;
	}
}

static void emit(struct emitter *e, uint32_t tree)
{
	const struct tree *t = &e->trees[tree];

	if (++e->calls > 16 * REGEX_MAX_STATES)
		e->is_full = true;
	if (e->is_full)
		return;
	switch ((enum tree_kind)t->kind) {
	case TREE_EMPTY: break;
	case TREE_CHAR: state_add(e, ST_CHAR, t->value, 0); break;
	case TREE_SET: state_add(e, ST_SET, t->value, 0); break;
	case TREE_CAT: emit_sequence(e, t->child); break;
	case TREE_ALT: emit_alternatives(e, t->child); break;
	case TREE_REPEAT: emit_repeat(e, t); break;
	case TREE_ASSERT: state_add(e, (enum state_kind)t->value, 0, 0); break;
	case TREE_LOOK: state_add(e, t->is_negated ? ST_NO_LOOK : ST_LOOK, t->value, 0); break;
	}
}

/* True: every path through the tree begins with ^. */
static bool is_anchored(const struct tree *trees, uint32_t tree)
{
	const struct tree *t = &trees[tree];
	bool all = t->child != 0;

	if (t->kind == TREE_ASSERT)
		return t->value == ST_BEGIN;
	if (t->kind == TREE_CAT)
		return t->child != 0 && is_anchored(trees, t->child);
	for (uint32_t c = t->child; t->kind == TREE_ALT && c != 0; c = trees[c].next)
		all = all && is_anchored(trees, c);
	return t->kind == TREE_ALT && all;
}

const char *regex_emit(struct program *p, const struct tree *trees, uint32_t root, bool is_reversed)
{
	struct emitter e = {.p = p, .trees = trees, .is_reversed = is_reversed};

	emit(&e, root);
	state_add(&e, ST_MATCH, 0, 0);
	p->is_anchored = is_anchored(trees, root);
	return e.is_full ? "it is too large: {n,m} are written out" : NULL;
}

/* ---- sets ---- */

void charset_add(struct charset *s, uint32_t first, uint32_t last)
{
	if ((s->count & (s->count - 1)) == 0)
		s->ranges =
			xrealloc(s->ranges, (s->count > 0 ? (size_t)s->count * 2 : 1) * sizeof *s->ranges);
	s->ranges[s->count++] = (struct range){first, last};
}

static int by_first(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

static void charset_merge(struct charset *s)
{
	uint32_t n = 0;

	if (s->count == 0)
		return;
	qsort(s->ranges, s->count, sizeof *s->ranges, by_first);
	for (uint32_t i = 1; i < s->count; i++)
		if (s->ranges[i].first > s->ranges[n].last + 1)
			s->ranges[++n] = s->ranges[i];
		else if (s->ranges[i].last > s->ranges[n].last)
			s->ranges[n].last = s->ranges[i].last;
	s->count = n + 1;
}

static void charset_negate(struct charset *s)
{
	struct charset other = {0};
	uint32_t next = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		if (s->ranges[i].first > next)
			charset_add(&other, next, s->ranges[i].first - 1);
		next = s->ranges[i].last + 1;
	}
	if (next < CODE_POINTS)
		charset_add(&other, next, CODE_POINTS - 1);
	free(s->ranges);
	*s = other;
}

void charset_finish(struct charset *s, bool is_negated)
{
	charset_merge(s);
	if (is_negated)
		charset_negate(s);
	for (uint32_t i = 0; i < s->count; i++)
		for (uint32_t c = s->ranges[i].first; c <= s->ranges[i].last && c < 128; c++)
			s->ascii[c / 64] |= UINT64_C(1) << c % 64;
}

bool charset_has(const struct charset *s, uint32_t c)
{
	uint32_t low = 0, high = s->count;

	if (c < 128)
		return s->ascii[c / 64] >> c % 64 & 1;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (c > s->ranges[middle].last)
			low = middle + 1;
		else if (c < s->ranges[middle].first)
			high = middle;
		else
			return true;
	}
	return false;
}

void charset_add_escape(struct charset *s, char letter)
{
	static const struct {
		char letter;
		struct range ranges[11]; /* ended by {0, 0} */
	} known[] = {
		{'d', {{'0', '9'}}},
		{'w', {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
		{'s',
			{{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a},
				{0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
				{0xfeff, 0xfeff}}},
	};
	struct charset found = {0};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		for (const struct range *r = known[i].ranges;
			known[i].letter == (letter | 0x20) && r->last > 0; r++)
			charset_add(&found, r->first, r->last);
	charset_finish(&found, letter < 'a');
	for (uint32_t i = 0; i < found.count; i++)
		charset_add(s, found.ranges[i].first, found.ranges[i].last);
	free(found.ranges);
}
