/* SPDX-License-Identifier: MIT */
/* fuzz.h: what the targets share: a promise that ends the run when it is broken, ways to take an input apart,
 * and comparisons of JSON.
 *
 * A target is one file, fuzz_NAME.c, that defines LLVMFuzzerTestOneInput; rules.mk finds it. It keeps nothing
 * from one input to the next, does no I/O, and takes whatever chance it needs from the input itself: the same
 * bytes do the same again. Inputs of its own lie in corpus/NAME, what once broke it in findings/NAME, words
 * of its language in NAME.dict. */
#ifndef HCPD_TESTS_FUZZ_FUZZ_H
#define HCPD_TESTS_FUZZ_FUZZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what) ((what) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #what))
_Noreturn void fuzz_broken(const char *file, int line, const char *what);

/* ---- an input, from its front ---- */

struct feed {
	const char *at;
	size_t left;
};

uint8_t feed_byte(struct feed *f); /* 0 at the end */
int64_t feed_int64(struct feed *f);
/* Up to a newline, which is taken too, or the end; of its own size, so that reading beyond it is noticed. A
 * NUL in it becomes a question mark. free() it. */
char *feed_line(struct feed *f);
char *feed_rest(struct feed *f);
bool feed_is_empty(const struct feed *f);

/* A block of exactly that size; free() it. */
char *fuzz_copy(const void *data, size_t size);

/* Chance: the same for the same input. */
struct chance {
	uint64_t state;
};
struct chance chance_of(const void *data, size_t size);
uint32_t chance_below(struct chance *c, uint32_t n); /* 0 to n-1 */

/* ---- properties ---- */

/* Parses what the program wrote; the run ends where it is no JSON. */
json_t *fuzz_json(const char *text, size_t size);
/* Equal, numbers by value: 1 and 1.0 are the same. */
bool fuzz_same(const json_t *a, const json_t *b);
bool fuzz_is_utf8(const char *text, size_t size);
/* Nothing that a terminal or a log would take for more than text; `also` may be there. */
bool fuzz_is_plain(const char *text, size_t size, const char *also);

/* Lines that the program logged since the input began (quiet_log.c); their text is not kept. */
extern unsigned fuzz_logged;

#endif
