/* SPDX-License-Identifier: MIT */
/* load.h: JSON as the daemon's messages and its workers' lines nearly always are, read in a fraction of the
 * time that jansson's parser takes.
 *
 * What is read here is good JSON, and jansson would make the very same of it: no name twice in an object,
 * integers within 64 bits, valid UTF-8, no raw NUL. A refusal says nothing about the text: it may nest too
 * deep, or have a number that is too long for here. Then jansson decides (text.c). */
#ifndef HCPD_JSON_LOAD_H
#define HCPD_JSON_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#define JLOAD_DEPTH_MAX 64 /* levels */

/* The tree of one value with white space around it; NULL: refused. */
json_t *jload_tree(const char *text, size_t size);

/* A member of an object, as it is written: the name without its quotes, the value with them. */
struct jload_member {
	const char *name, *value;
	size_t name_size, value_size;
};
/* The members of one object that holds no other object and no array, and has no name with an escape. False:
 * refused, or more than *count members. *count becomes their number. */
bool jload_flat(const char *text, size_t size, struct jload_member *members, size_t *count);

#endif
