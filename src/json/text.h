/* jtext.h: JSON as text: where a member's value stands in it, and how deep it nests.
 *
 * jansson says whether a text is good JSON; these functions then carry values from one message into
 * another byte for byte, so that 1.10 stays 1.10 and nothing is written twice. They need text that
 * jansson accepted, and are safe (though meaningless) on any other. */
#ifndef HCPD_JTEXT_H
#define HCPD_JTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"

struct jslice {
	const char *at; /* NULL: absent */
	size_t size;
};

/* How deep arrays and objects nest: 1 for {}. */
size_t jtext_depth(const char *text, size_t size);
/* Parses one value and nothing behind it: duplicate keys refused, NUL allowed in strings, integers
 * beyond 64 bits taken as reals. NULL with a reason and position in `why`. */
json_t *jtext_parse(const char *text, size_t size, char *why, size_t why_size);
/* Raw value of an object's member; absent too where the name was written with escapes. */
struct jslice jtext_member(const char *object, size_t size, const char *name);
/* Without the white space between tokens. */
void jtext_add_minified(struct buf *b, const char *text, size_t size);
/* Raw where there is a slice, else written anew from the parsed value. */
void jtext_add_value(struct buf *b, struct jslice raw, const json_t *parsed);

#endif
