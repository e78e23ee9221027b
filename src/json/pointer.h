/* SPDX-License-Identifier: MIT */
/* pointer.h: JSON pointers (RFC 6901), split once and followed often, and JSON scalars compared by value. */
#ifndef HCPD_JSON_POINTER_H
#define HCPD_JSON_POINTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JPOINT_TEXT_MAX 255 /* so that a message can show it whole */
#define JPOINT_STEPS_MAX 32

struct jpoint;

/* NULL where the text is no pointer ("" or "/a/0/b", ~0 and ~1 for ~ and /) or too long. */
struct jpoint *jpoint_new(const char *text, size_t size) __attribute__((warn_unused_result));
/* The pointer to one member of the root; its name may have any characters. NULL: too long. */
struct jpoint *jpoint_new_member(const char *name) __attribute__((warn_unused_result));
void jpoint_free(struct jpoint *p); /* NULL is fine */
const char *jpoint_text(const struct jpoint *p);
/* The value, borrowed; NULL where there is none. `-`, the place behind an array's end, has none. */
const json_t *jpoint_get(const struct jpoint *p, const json_t *root);
/* Sets the value, or removes the member where value is NULL. False where the parent does not exist. The
 * caller keeps its reference to value. */
bool jpoint_put(const struct jpoint *p, json_t *root, json_t *value) __attribute__((warn_unused_result));

/* -1, 0 or 1 for below, equal, above, without rounding: 9007199254740993 is above 9007199254740992.0. For
 * numbers only. */
int jpoint_compare(const json_t *a, const json_t *b);
/* Equal scalars, numbers by value: 1 is 1.0. Arrays and objects are equal to nothing. */
bool jpoint_same(const json_t *a, const json_t *b);

#endif
