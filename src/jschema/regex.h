/* SPDX-License-Identifier: MIT */
/* regex.h: a pattern as its parser (regex.c), its compiler (regex_emit.c) and its matcher (regex_run.c) see
 * it. No other file includes it. */
#ifndef HCPD_JSCHEMA_REGEX_H
#define HCPD_JSCHEMA_REGEX_H

#include "jschema/jschema_private.h"

#define REGEX_MAX_STATES 65536 /* {n,m} is expanded; a pattern with more states is refused */
#define REGEX_MAX_LOOKS 64
#define REGEX_MAX_NESTING 128 /* of groups */
#define CODE_POINTS 0x110000u

/* ---- sets of code points ---- */

struct range {
	uint32_t first, last;
};

struct charset {
	uint64_t ascii[2];
	struct range *ranges; /* sorted, disjoint; also those above ASCII */
	uint32_t count;
};

void charset_add(struct charset *s, uint32_t first, uint32_t last);
void charset_finish(
	struct charset *s, bool is_negated); /* sorts the ranges; after that charset_has may be called */
bool charset_has(const struct charset *s, uint32_t c);
/* Adds \d \w \s or their opposites, by letter; does not call charset_finish. */
void charset_add_escape(struct charset *s, char letter);

/* ---- output of the parser: a tree in an array; 0 is nothing ---- */

enum tree_kind { TREE_EMPTY, TREE_CHAR, TREE_SET, TREE_CAT, TREE_ALT, TREE_REPEAT, TREE_ASSERT, TREE_LOOK };

struct tree {
	uint8_t kind;
	bool is_negated;      /* LOOK */
	bool is_behind;       /* LOOK */
	uint32_t value;       /* a code point, a set, an enum state_kind, or the number of a look */
	uint32_t child, next; /* the first child; the next of the same parent */
	uint32_t min, max;    /* REPEAT; NONE: without end */
};

/* ---- input of the matcher ---- */

enum state_kind {
	ST_CHAR,
	ST_SET,
	ST_SPLIT,
	ST_JUMP,
	ST_BEGIN,
	ST_END,
	ST_WORD,
	ST_NO_WORD,
	ST_LOOK,
	ST_NO_LOOK,
	ST_MATCH
};

struct state {
	uint32_t kind;
	uint32_t x, y; /* a code point, a set, a look, or the next state; y: the other next state */
};

struct program {
	struct state *states;
	uint32_t count;
	bool is_anchored; /* can only match at the beginning */
	/* a look-behind runs forward; a look-ahead is reversed and runs backward */
	bool is_behind;
};

struct regex {
	struct program program;
	struct program looks[REGEX_MAX_LOOKS]; /* an inner look stands before the outer one */
	uint32_t look_count;
	struct charset *sets;
	uint32_t set_count;
};

/* regex_emit.c. NULL, or the reason why not. */
const char *regex_emit(struct program *p, const struct tree *trees, uint32_t root, bool is_reversed);

#endif
