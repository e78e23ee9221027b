/* SPDX-License-Identifier: MIT */
/* jschema.h: JSON Schema 2020-12 over jansson: compiled once, checked often.
 *
 * A compiled schema is never changed: any number of threads may check against it at once. The usual check
 * allocates nothing and calls nothing of the caller's; only `find`, at compile time, does.
 *
 * What is bounded, and by what:
 * - nesting: max_depth schemas inside each other during a check. A $ref that leads back to itself without a
 * step into the instance is refused when the schema is compiled; through $dynamicRef it ends at this bound.
 * - work: max_steps for a check. A step is a schema applied, a member or an item visited, 64 bytes of text
 * compared or counted, or eight states of a pattern moved on by a character; it takes some 5 to 20 ns. A
 * check that reaches a bound fails, also inside `not` or `anyOf`, and says so (is_limit).
 * - `pattern`: matched by an automaton (regex*.c) that follows all its states at once, so its time is at most
 * length x states for every pattern and every text. A backtracking engine with a match limit is no choice:
 * PCRE2 counts its limit anew at every starting place, so it bounds neither a long text nor many texts, and
 * it needs memory for each thread. The price: back references (\1, \k<name>) are refused when the schema is
 * compiled. Everything else of ECMA-262 works, also look-ahead and look-behind, in linear time (each is one
 * pass over the text that marks where it holds). Of \p{...} the general categories are known. Text and
 * patterns are code points ("u" mode); \d, \w and \b are ASCII, $ is the very end.
 *
 * Numbers are those of jansson: 64-bit integers and doubles. They are compared by value without rounding (1
 * is 1.0; 9007199254740993 is not 9007199254740992.0). multipleOf reads doubles as the shortest decimal that
 * names them, so 0.0075 is a multiple of 0.0001. Unknown keywords are ignored; `format` (without
 * assert_formats), `content*` and meta-data assert nothing. */
#ifndef HCPD_JSCHEMA_JSCHEMA_H
#define HCPD_JSCHEMA_JSCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSCHEMA_MAX_DEPTH 512     /* below 1 MB of stack */
#define JSCHEMA_MAX_STEPS 4000000 /* below 100 ms; 1 MB of usual JSON needs some 600,000 */
#define JSCHEMA_MAX_NESTING 256   /* of a schema's own text */
#define JSCHEMA_WHY_SIZE 512
#define JSCHEMA_POINTER_SIZE 256
#define JSCHEMA_NAME_SIZE 128
#define JSCHEMA_MESSAGE_SIZE 640

struct jschema;

struct jschema_options {
	bool assert_formats;  /* date-time, uuid, uri, email, ipv4, ipv6; others stay annotations */
	uint32_t max_depth;   /* 0: JSCHEMA_MAX_DEPTH, which is also the maximum */
	uint64_t max_steps;   /* 0: JSCHEMA_MAX_STEPS */
	const char *base_uri; /* the schema's own URI; NULL: none */
	/* Returns the document for an absolute URI without fragment, borrowed, or NULL. Never called for the
	 * documents of json-schema.org/draft/2020-12: they are built in. find NULL: there is no document but
	 * the schema itself. Nothing is ever fetched. */
	const json_t *(*find)(void *arg, const char *uri);
	void *arg;
};

/* A text that does not fit is cut at a character; control characters become '?' in the message. */
struct jschema_failure {
	char instance[JSCHEMA_POINTER_SIZE]; /* JSON pointer; "" is the whole instance */
	/* to the keyword; in another document: its URI, '#', the pointer */
	char schema[JSCHEMA_POINTER_SIZE];
	const char *keyword;              /* static; "" for the schema `false` */
	char property[JSCHEMA_NAME_SIZE]; /* the property that is missing or unexpected; else "" */
	/* "/temperature must be at most 80, is 95"; repeats names of the instance, never its texts */
	char message[JSCHEMA_MESSAGE_SIZE];
	bool is_limit; /* not decided: a bound was reached */
};

/* NULL where the schema is broken, with a pointer into it and the reason in `why`: "/properties/a/minimum:
 * must be a number". Refuses what the metaschema forbids, broken patterns, references without a target, and
 * identifiers that stand twice. Copies `schema`; options may be NULL. */
struct jschema *jschema_compile(const json_t *schema, const struct jschema_options *options, char *why,
	size_t why_size) __attribute__((warn_unused_result));
void jschema_free(struct jschema *js); /* NULL is fine */

/* True: the instance is valid. False: *failure is the first failure. failure may be NULL. */
bool jschema_check(const struct jschema *js, const json_t *instance, struct jschema_failure *failure)
	__attribute__((warn_unused_result));

#endif
