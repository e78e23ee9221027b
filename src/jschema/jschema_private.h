/* SPDX-License-Identifier: MIT */
/* jschema_private.h: what the files of jschema share. No other room includes it.
 *
 * jschema.c makes and frees a compiled schema.
 * keywords.c has the keywords, the form of their values, and the metaschemas, built from the same table.
 * scan.c takes a schema's text apart: documents, resources, anchors. ref.c follows references.
 * compile.c makes nodes (one a schema) and their ops (one for one or some keywords), in flat arrays.
 * match.c applies nodes to an instance. object.c and array.c have the ops with children.
 * fail.c writes the failure. value.c compares: equality, order, hashes, multiples.
 * regex.c parses a pattern, regex_emit.c compiles it, regex_run.c matches it.
 * unicode.c has the general categories. format.c and uri.c are leaves. */
#ifndef HCPD_JSCHEMA_JSCHEMA_PRIVATE_H
#define HCPD_JSCHEMA_JSCHEMA_PRIVATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "jschema/jschema.h"

#define NONE UINT32_MAX

/* ---- keywords ---- */

enum type_bit {
	T_NULL = 1,
	T_BOOLEAN = 2,
	T_INTEGER = 4,
	T_REAL = 8,
	T_STRING = 16,
	T_ARRAY = 32,
	T_OBJECT = 64,
	T_INTEGRAL = 128, /* in `type` only: reals without a fraction too */
	T_NUMBER = T_INTEGER | T_REAL,
	T_ANY = 127
};

enum vocabulary {
	V_CORE = 1,
	V_APPLICATOR = 2,
	V_UNEVALUATED = 4,
	V_VALIDATION = 8,
	V_META_DATA = 16,
	V_FORMAT = 32,
	V_CONTENT = 64,
	V_FORMAT_ASSERTION = 128,
	V_OLD = 256, /* keywords of older drafts that the metaschema still knows */
	V_USUAL = 127 | V_OLD
};

enum form {
	F_ANY,
	F_BOOLEAN,
	F_STRING,
	F_NUMBER,
	F_POSITIVE,
	F_COUNT,
	F_ARRAY,
	F_NAMES,
	F_NAME_LISTS,
	F_TYPE,
	F_REGEX,
	F_REFERENCE,
	F_ID,
	F_ANCHOR,
	F_VOCABULARY,
	F_SCHEMA,
	F_SCHEMAS,
	F_SCHEMA_MAP,
	F_PATTERN_MAP,
	F_COUNT_OF
};

/* In the order in which a node's ops run: first the cheap ones that fail often, last the ones that need the
 * results of others. */
enum op_kind {
	OP_TYPE,
	OP_CONST,
	OP_ENUM,
	OP_MINIMUM,
	OP_MAXIMUM,
	OP_ABOVE,
	OP_BELOW,
	OP_MULTIPLE,
	OP_MIN_LENGTH,
	OP_MAX_LENGTH,
	OP_PATTERN,
	OP_FORMAT,
	OP_MIN_ITEMS,
	OP_MAX_ITEMS,
	OP_UNIQUE,
	OP_MIN_PROPERTIES,
	OP_MAX_PROPERTIES,
	OP_REQUIRED,
	OP_DEPENDENT_REQUIRED,
	OP_PROPERTY_NAMES,
	OP_MEMBERS,
	OP_ITEMS,
	OP_CONTAINS,
	OP_REF,
	OP_DYNAMIC_REF,
	OP_ALL_OF,
	OP_ANY_OF,
	OP_ONE_OF,
	OP_NOT,
	OP_IF,
	OP_DEPENDENT_SCHEMAS,
	OP_UNEVALUATED_ITEMS,
	OP_UNEVALUATED_PROPERTIES,
	OP_COUNT,
	OP_NONE = OP_COUNT /* part of another keyword's op, or nothing to do */
};

struct keyword {
	const char *name;
	uint16_t vocabulary;
	uint8_t form;
	uint8_t kind;
	uint8_t types; /* types of values that the keyword applies to */
};

extern const struct keyword jschema_keywords[]; /* in the order of enum op_kind; a NULL name ends it */
const struct keyword *jschema_keyword_find(const char *name);
/* What is wrong with a keyword's value, without its children; NULL: nothing. */
const char *jschema_form_fault(const struct keyword *k, const json_t *value);
/* Makes one of the documents of draft 2020-12; NULL: none has that URI. */
json_t *jschema_meta_new(const char *uri);
/* The bit of a member of $vocabulary; 0: unknown. */
uint16_t jschema_vocabulary_find(const char *uri);
#define JSCHEMA_META_URI "https://json-schema.org/draft/2020-12/schema"

/* ---- values ---- */

struct number {
	bool is_integer;
	json_int_t integer;
	double real;
};

struct decimal { /* digits x 10^exponent, no trailing zero in digits; 0 is 0 x 10^0 */
	uint64_t digits;
	int exponent;
};

struct number value_number(const json_t *v);
int number_order(struct number a, struct number b); /* -1, 0, 1: exact */
bool number_is_integral(struct number n);
struct decimal number_decimal(struct number n); /* of its absolute value */
bool number_is_multiple(struct number n, struct number of, struct decimal of_decimal);
void number_text(struct number n, char out[40]);
/* These count steps. Once *steps is 0, their result is meaningless. */
bool value_equal(uint64_t *steps, const json_t *a, const json_t *b);
uint64_t value_hash(uint64_t *steps, const json_t *v);
/* Are two items equal? Finds the pair with the smallest later item. */
bool value_find_twins(uint64_t *steps, const json_t *array, size_t *first, size_t *second);
void steps_take(uint64_t *steps, uint64_t count);
size_t text_code_points(const char *text, size_t size);
uint64_t text_hash(const char *text, size_t size);

/* ---- patterns ---- */

struct regex;
struct regex *regex_new(const char *pattern, size_t size, const char **why); /* NULL: *why, a static text */
void regex_free(struct regex *r);
/* True: the pattern matches somewhere in the text, which is UTF-8. */
bool regex_finds(const struct regex *r, const char *text, size_t size, uint64_t *steps);
/* Adds the code points of a general category (or Any, ASCII, Assigned) as pairs of first and last;
 * false: unknown. */
bool unicode_category(
	const char *name, size_t size, void (*add)(void *to, uint32_t first, uint32_t last), void *to);

/* ---- formats and URIs ---- */

typedef bool format_fn(const char *text, size_t size);
format_fn *format_find(const char *name); /* NULL: a format that is never asserted */
/* RFC 3986 5.2; keeps the fragment of `reference`. The caller frees the result. */
char *uri_resolve(const char *base, const char *reference);
/* Decodes %XX in place. */
void uri_decode(char *text);

/* ---- a compiled schema ---- */

struct name {
	const char *text; /* belongs to the copied schema */
	uint32_t size;
};

/* a member of `properties` or `required`; text NULL: an empty slot of the table */
struct member {
	struct name name;
	uint32_t node;     /* NONE: only required */
	uint64_t required; /* its bit */
};

/* Hash of a member's name: its ends and its size, which differ enough between the names of one schema. */
static inline uint32_t key_hash(const char *key, size_t size)
{
	uint64_t first = 0, last = 0;

	if (size >= 8) {
		memcpy(&first, key, 8);
		memcpy(&last, key + size - 8, 8);
	} else if (size >= 4) {
		uint32_t a, b;

		memcpy(&a, key, 4);
		memcpy(&b, key + size - 4, 4);
		first = (uint64_t)a << 32 | b;
	} else if (size > 0) {
		const unsigned char *u = (const unsigned char *)key;

		first = (uint64_t)u[0] << 16 | (uint64_t)u[size / 2] << 8 | u[size - 1];
	}
	first = (first ^ last * 31 ^ size) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(first >> 32);
}

struct members {
	struct member *table; /* open addressing, a power of two, at most half full */
	uint32_t mask;
	uint32_t pattern_count;
	struct pattern_member {
		struct regex *regex;
		const char *source;
		uint32_t node;
	} * patterns;
	uint32_t additional; /* NONE: additional members are allowed */
	uint64_t required;   /* bits of all required names */
};

struct dependent { /* of dependentRequired and dependentSchemas */
	struct name name;
	struct name *required;
	uint32_t count;
	uint32_t node;
};

struct op {
	uint8_t kind;
	uint8_t types;
	uint16_t keyword; /* in jschema_keywords */
	union {
		uint64_t count; /* length, items, properties; mask of type */
		struct {
			struct number value;
			struct decimal decimal;
		} number;
		const json_t *json; /* const, enum */
		struct {
			struct regex *regex;
			const char *source;
		} pattern;
		struct {
			format_fn *fn;
			const char *name;
		} format;
		struct {
			struct name *names;
			uint32_t count;
		} required;
		struct {
			struct dependent *list;
			uint32_t count;
		} dependents;
		struct members *members;
		struct {
			uint32_t first, count; /* in links: prefixItems, allOf, anyOf, oneOf */
			uint32_t rest;         /* items; NONE */
		} list;
		struct {
			uint32_t node;
			uint64_t min, max;
		} contains;
		struct {
			uint32_t node, yes, no; /* if, then, else */
		} branch;
		struct {
			uint32_t node;
			uint32_t dynamic; /* row of `dynamic`, or NONE */
		} ref;
		uint32_t node;
	};
};

enum { N_FALSE = 1, N_TRUE = 2, N_MARKS_ITEMS = 4, N_MARKS_PROPERTIES = 8 };

struct node {
	uint32_t first_op, op_count;
	uint32_t resource;
	uint32_t pointer; /* in texts */
	uint32_t document;
	uint32_t flags;
};

struct jschema {
	struct node *nodes;
	struct op *ops;
	uint32_t *links;   /* nodes */
	uint32_t *dynamic; /* name x resource: the node of that $dynamicAnchor, or NONE */
	char *texts;
	struct document {
		json_t *json;
		char *uri;
	} * documents;
	uint32_t root, node_count, op_count, link_count, text_size, document_count, resource_count;
	uint32_t max_depth;
	uint64_t max_steps;
};

/* ---- compiling ---- */

struct compiler;
struct source { /* of a node, while compiling */
	const json_t *json;
	uint32_t vocabulary;
};

/* scan.c: everything but ops. A node is found by the address of its schema's value. */
struct compiler *scan_new(struct jschema *js, const struct jschema_options *o, char *why, size_t why_size);
void scan_free(struct compiler *c);
bool scan_root(struct compiler *c, const json_t *schema);
struct source scan_source(const struct compiler *c, uint32_t node);
/* The node of a child. `key` is its name; where `key` is NULL, `index` is its place, unless that is
 * SIZE_MAX. */
uint32_t scan_child(struct compiler *c, uint32_t parent, const json_t *child, const char *keyword,
	const char *key, size_t index);
/* NONE: the reference has no target, and the reason is recorded. *dynamic: the name of the $dynamicAnchor
 * that the fragment is, or NONE. */
uint32_t scan_reference(
	struct compiler *c, uint32_t from, const char *keyword, const char *reference, uint32_t *dynamic);
void scan_finish(struct compiler *c);
bool scan_refuse(struct compiler *c, uint32_t node, const char *keyword, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* compile.c */
bool compile_all(struct compiler *c, struct jschema *js, bool assert_formats);

/* ---- checking ---- */

#define MARK_WORDS 64

struct check {
	const struct jschema *js;
	struct jschema_failure *failure; /* NULL: the caller does not want it */
	uint64_t steps;
	uint32_t depth, quiet;
	bool is_limit;
	uint64_t *marks; /* a stack of sets of evaluated items or members */
	size_t mark_top, mark_room;
	uint64_t mark_space[MARK_WORDS];
};

struct place { /* a place in the instance, from the leaf up */
	const struct place *up;
	const char *key; /* NULL: an item */
	size_t index;
};

struct scope { /* resources that were entered, innermost first */
	const struct scope *up;
	uint32_t resource;
};

struct frame { /* a node applied to a value */
	uint32_t node;
	const json_t *value;
	const struct place *place;
	const struct scope *scope;
	size_t marks; /* where its set begins; NO_MARKS: the result is not needed */
};
#define NO_MARKS SIZE_MAX

bool match_node(struct check *c, uint32_t node, const json_t *value, const struct place *place,
	const struct scope *scope, size_t marks);
/* The same at the same place, without recording a failure. Uses a set of its own, which is added where the
 * node matches. */
bool match_quietly(struct check *c, const struct frame *f, uint32_t node);
/* Makes a set for a value, as large as its members or items need. */
size_t marks_push(struct check *c, const json_t *value);
void marks_pop(struct check *c, size_t set);
void marks_add(struct check *c, const json_t *value, size_t to, size_t from);
static inline void mark_set(struct check *c, size_t set, size_t i)
{
	if (set != NO_MARKS)
		c->marks[set + i / 64] |= UINT64_C(1) << i % 64;
}

typedef bool op_fn(struct check *c, const struct frame *f, const struct op *op);
op_fn match_members, match_required, match_dependent_required, match_dependent_schemas, match_property_names,
	match_unevaluated_properties, match_items, match_contains, match_unique, match_unevaluated_items;

/* fail.c: always returns false. `keyword` NULL: the op's own. fmt continues the sentence behind the name of
 * the place. */
bool match_fail(struct check *c, const struct frame *f, const struct op *op, const char *keyword,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
bool match_fail_property(struct check *c, const struct frame *f, const struct op *op, const char *keyword,
	const char *property, const char *fmt); /* fmt is text, with the property's name behind it */
/* Replaces characters that a terminal would not show as text by '?'. */
void text_clean(char *text);
bool match_fail_false(struct check *c, const struct frame *f);
bool match_fail_limit(struct check *c, const struct frame *f, const char *text);

#endif
