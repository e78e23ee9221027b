/* jscan.h: one pass over a JSON object: is it good JSON, and where do a few of its members stand?
 *
 * For readers of streams, who would throw most of a parsed tree away. What it accepts jansson accepts too,
 * but for names that come twice (only those asked for are looked at) and halves of surrogate pairs in
 * escapes. */
#ifndef HCPD_JSCAN_H
#define HCPD_JSCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "json/text.h"

#define JSCAN_DEPTH_MAX 512 /* levels; jansson descends by recursion when it is asked for a tree */

struct jscan_member {
	const char *name;
	struct jscan_member *inner; /* members of it, where it is an object; NULL: it is skipped */
	size_t inner_count;
	struct jslice at; /* set: the value, as it is written */
};

/* text is one object, white space around it, and a NUL behind its size bytes. False where it is none, or has
 * one of the members twice. *is_escaped: some name on the way was written with escapes, so it may be any of
 * them. */
bool jscan_object(
	const char *text, size_t size, struct jscan_member *members, size_t count, bool *is_escaped);

#endif
