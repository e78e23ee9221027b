/* SPDX-License-Identifier: MIT */
/* regex_run.c: does a pattern match somewhere in a text? Follows all possible states at once, so a character
 * costs at most one visit of each state.
 * Owns the bound: time is length x states, and once more for each look-around, whatever the pattern. Never
 * allocates, except for large patterns and for look-arounds in long texts. */
#include <stdlib.h>
#include <string.h>

#include "jschema/regex.h"

#define FEW_STATES 128
#define FEW_WORDS 64
#define WORK_A_STEP 8

struct run {
	const struct regex *regex;
	const struct program *p;
	const char *text;
	size_t size;
	uint64_t *holds; /* look x place: a bit */
	size_t words;    /* of a look */
	uint32_t *now, *next, *marks, *stack;
	uint32_t now_count, next_count;
	uint32_t mark; /* marks of this place: each state is added once */
	uint64_t work;
};

static bool is_word(const struct run *r, size_t at)
{
	unsigned char c = at < r->size ? (unsigned char)r->text[at] : ' ';

	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Tests an assertion at `at`, which lies between two characters. */
static bool holds(const struct run *r, const struct state *s, size_t at)
{
	switch ((enum state_kind)s->kind) {
	case ST_BEGIN: return at == 0;
	case ST_END: return at == r->size;
	case ST_WORD: return (at > 0 && is_word(r, at - 1)) != is_word(r, at);
	case ST_NO_WORD: return (at > 0 && is_word(r, at - 1)) == is_word(r, at);
	case ST_LOOK: return r->holds[s->x * r->words + at / 64] >> at % 64 & 1;
	case ST_NO_LOOK: return !(r->holds[s->x * r->words + at / 64] >> at % 64 & 1);
	default: return false;
	}
}

static uint32_t push(struct run *r, uint32_t top, uint32_t state)
{
	if (r->marks[state] == r->mark)
		return top;
	r->marks[state] = r->mark;
	r->stack[top] = state;
	return top + 1;
}

/* Adds all states that are reachable without a character to `next`. True: the end was reached. */
static bool follow(struct run *r, uint32_t state, size_t at)
{
	uint32_t top = push(r, 0, state);
	bool has_matched = false;

	while (top > 0) {
		uint32_t i = r->stack[--top];
		const struct state *s = &r->p->states[i];

		r->work++;
		switch ((enum state_kind)s->kind) {
		case ST_CHAR:
		case ST_SET: r->next[r->next_count++] = i; break;
		case ST_JUMP: top = push(r, top, s->x); break;
		case ST_SPLIT: top = push(r, push(r, top, s->y), s->x); break;
		case ST_MATCH: has_matched = true; break;
		default:
			if (holds(r, s, at))
				top = push(r, top, i + 1);
		}
	}
	return has_matched;
}

/* The character at a place, or before it. The text should be UTF-8; other bytes are harmless. */
static uint32_t code_point(const struct run *r, size_t at, size_t *size)
{
	const unsigned char *u = (const unsigned char *)r->text + at;
	size_t more = *u < 0xc0 ? 0 : *u < 0xe0 ? 1 : *u < 0xf0 ? 2 : 3;
	uint32_t c = more > 0 ? *u & 0x3fu >> more : *u;

	*size = 1;
	if (more >= r->size - at)
		return 0xfffd;
	for (; *size <= more; ++*size)
		c = c << 6 | (u[*size] & 0x3fu);
	return c;
}

static size_t step_back(const struct run *r, size_t at)
{
	size_t least = at > 4 ? at - 4 : 0;

	for (at--; at > least && ((unsigned char)r->text[at] & 0xc0) == 0x80;)
		at--;
	return at;
}

static bool consumes(const struct run *r, const struct state *s, uint32_t c)
{
	return s->kind == ST_CHAR ? s->x == c : charset_has(&r->regex->sets[s->x], c);
}

/* Moves from one place to the next, over the character c. */
static bool move(struct run *r, uint32_t c, size_t to)
{
	uint32_t *swap = r->now;
	bool has_matched = false;

	r->now = r->next;
	r->now_count = r->next_count;
	r->next = swap;
	r->next_count = 0;
	r->mark++;
	for (uint32_t i = 0; i < r->now_count; i++)
		if (consumes(r, &r->p->states[r->now[i]], c))
			has_matched |= follow(r, r->now[i] + 1, to);
	r->work += r->now_count + 1;
	return has_matched;
}

static bool has_steps(struct run *r, uint64_t *steps)
{
	if (r->work >= 1024) {
		steps_take(steps, r->work / WORK_A_STEP);
		r->work = 0;
	}
	return *steps > 0;
}

/* With bits: marks all places where it matches. Without bits: does it match anywhere? */
static bool run_forward(struct run *r, uint64_t *bits, uint64_t *steps)
{
	size_t at = 0, size;
	bool has_matched = follow(r, 0, 0);

	for (;;) {
		uint32_t c;

		if (has_matched && bits == NULL)
			return true;
		if (has_matched)
			bits[at / 64] |= UINT64_C(1) << at % 64;
		if (at >= r->size || !has_steps(r, steps) || (r->next_count == 0 && r->p->is_anchored))
			return false;
		c = code_point(r, at, &size);
		at += size;
		has_matched = move(r, c, at);
		if (!r->p->is_anchored)
			has_matched |= follow(r, 0, at);
	}
}

static void run_backward(struct run *r, uint64_t *bits, uint64_t *steps)
{
	size_t at = r->size, size;
	bool has_matched = follow(r, 0, at);

	for (;;) {
		size_t before;

		if (has_matched)
			bits[at / 64] |= UINT64_C(1) << at % 64;
		if (at == 0 || !has_steps(r, steps))
			return;
		before = step_back(r, at);
		has_matched = move(r, code_point(r, before, &size), before);
		has_matched |= follow(r, 0, before);
		at = before;
	}
}

/* bits NULL: the pattern itself. */
static bool run_program(struct run *r, const struct program *p, uint64_t *bits, uint64_t *steps)
{
	uint32_t few[4 * FEW_STATES],
		*space = p->count > FEW_STATES ? xmalloc(4 * sizeof *space * p->count) : few;
	bool found = false;

	r->p = p;
	r->now = space;
	r->next = space + p->count;
	r->stack = space + 2 * p->count;
	r->marks = space + 3 * p->count;
	memset(r->marks, 0, p->count * sizeof *r->marks);
	r->now_count = r->next_count = 0;
	r->mark = 1;
	r->work = 0;
	if (bits != NULL && !p->is_behind)
		run_backward(r, bits, steps);
	else
		found = run_forward(r, bits, steps);
	steps_take(steps, r->work / WORK_A_STEP + 1);
	if (space != few)
		free(space);
	return found;
}

bool regex_finds(const struct regex *regex, const char *text, size_t size, uint64_t *steps)
{
	uint64_t few[FEW_WORDS];
	struct run r = {.regex = regex, .text = text, .size = size, .words = size / 64 + 1};
	size_t all = r.words * regex->look_count;
	bool found;

	if (all > 0) {
		r.holds = all > FEW_WORDS ? xmalloc(all * sizeof *r.holds) : few;
		memset(r.holds, 0, all * sizeof *r.holds);
		steps_take(steps, all);
	}
	for (uint32_t i = 0; i<regex->look_count && * steps> 0; i++)
		run_program(&r, &regex->looks[i], r.holds + i * r.words, steps);
	found = run_program(&r, &regex->program, NULL, steps);
	if (all > FEW_WORDS)
		free(r.holds);
	return found;
}
