/* jschema.h: JSON Schema 2020-12 over jansson: compiled once, checked often.
 *
 * A compiled schema is never changed: any number of threads may check against it at once. Checking allocates
 * nothing on the usual path and never calls out; only `find`, at compile time, may.
 *
 * What is bounded, and by what:
 * - nesting: max_depth schemas inside each other during a check. A $ref that leads back to itself without a
 * step into the instance is refused when the schema is compiled; through $dynamicRef it ends at this bound.
 * - work: max_steps for a check. A step is a schema applied, a member or an item looked at, 64 bytes of text
 *   compared or counted, or eight states of a pattern moved on by a character; it takes some 5 to 20 ns.
 *   A check that comes to a bound fails, whatever `not` or `anyOf` stands around it, and says so (is_limit).
 * - `pattern`: matched by an automaton of our own (jschema_regex*.c) that follows all its states at once, so
 * its time is at most length x states for every pattern and every text. A backtracking engine with a match
 * limit was looked at: PCRE2 counts its limit anew at every starting place, so it bounds neither a long text
 * nor many of them, and it wants memory for each thread. The price: back references (\1, \k<name>) are
 * refused when the schema is compiled. Everything else of ECMA-262 is there, look-ahead and look-behind too,
 * in linear time (each is one pass over the text that marks where it holds); of \p{...} the general
 * categories. Text and patterns are code points ("u" mode); \d, \w and \b are ASCII, $ is the very end.
 *
 * Numbers are those of jansson: 64-bit integers and doubles. They are compared by value without rounding (1
 * is 1.0; 9007199254740993 is not 9007199254740992.0); multipleOf takes doubles by the shortest decimal that
 * names them, so 0.0075 is a multiple of 0.0001. Unknown keywords are ignored; `format`, `content*` and
 * meta-data assert nothing. */
#ifndef HCPD_JSCHEMA_H
#define HCPD_JSCHEMA_H

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
	uint32_t max_depth;   /* 0: JSCHEMA_MAX_DEPTH, which is also the most */
	uint64_t max_steps;   /* 0: JSCHEMA_MAX_STEPS */
	const char *base_uri; /* where the schema came from; NULL: nowhere */
	/* The document for an absolute URI without fragment, a loan, or NULL. Never asked for what
	 * json-schema.org/draft/2020-12 holds: that is built in. NULL: no document but the schema itself, and
	 * nothing is ever fetched. */
	const json_t *(*find)(void *arg, const char *uri);
	void *arg;
};

/* Texts are cut at a character where they would not fit; control characters become '?' in the message. */
struct jschema_failure {
	char instance[JSCHEMA_POINTER_SIZE]; /* JSON pointer; "" is the whole */
	char schema[JSCHEMA_POINTER_SIZE];   /* to the keyword; in another document: its URI, '#', the pointer
					      */
	const char *keyword;                 /* static; "" for the schema `false` */
	char property[JSCHEMA_NAME_SIZE];    /* that is missing or unexpected; else "" */
	char message[JSCHEMA_MESSAGE_SIZE];  /* "/temperature must be at most 80, is 95"; no text of the
						instance but names */
	bool is_limit;                       /* not decided: a bound was reached */
};

/* NULL where the schema is broken, with a pointer into it and the reason in `why`: "/properties/a/minimum:
 * must be a number". What the metaschema forbids is refused, and patterns, references and identifiers that
 * lead nowhere or twice. `schema` is copied; options may be NULL. */
struct jschema *jschema_compile(const json_t *schema, const struct jschema_options *options, char *why,
	size_t why_size) __attribute__((warn_unused_result));
void jschema_free(struct jschema *js); /* NULL is fine */

/* Whether the instance is valid; where not, the first failure. failure may be NULL. */
bool jschema_check(const struct jschema *js, const json_t *instance, struct jschema_failure *failure)
	__attribute__((warn_unused_result));

#endif
