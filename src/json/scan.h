/* SPDX-License-Identifier: MIT */
/* scan.h: one pass over a JSON object: is it valid JSON, and where do a few of its members stand?
 *
 * For readers of streams, who need only a few members of each text. jansson accepts all that this accepts,
 * except for names that come twice (only the requested ones are checked), halves of surrogate pairs in
 * escapes, and numbers beyond a double. */
#ifndef HCPD_JSON_SCAN_H
#define HCPD_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "json/text.h"

#define JSCAN_DEPTH_MAX 512 /* levels; jansson parses by recursion when a tree is requested */

struct jscan_member {
	const char *name;
	struct jscan_member *inner; /* members inside this one, where it is an object; NULL: it is skipped */
	size_t inner_count;
	struct jslice at; /* set by jscan_object: the value, as it is written */
};

/* text is one object, with white space around it, and a NUL behind its size bytes. False: it is no object, or
 * has one of the members twice. *is_escaped: some name was written with escapes, so it may be any of the
 * members. */
bool jscan_object(
	const char *text, size_t size, struct jscan_member *members, size_t count, bool *is_escaped);

#endif
