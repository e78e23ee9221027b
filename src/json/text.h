/* SPDX-License-Identifier: MIT */
/* text.h: JSON as text: where a member's value stands in it, and how deep it nests.
 *
 * jansson decides whether a text is valid JSON. These functions then copy values from one message into
 * another byte for byte, so that 1.10 stays 1.10. They need text that jansson accepted, and are safe (though
 * meaningless) on any other. */
#ifndef HCPD_JSON_TEXT_H
#define HCPD_JSON_TEXT_H

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
/* json_loadb, without its gap: a raw NUL is never JSON. The only caller of jansson's parser for bytes. */
json_t *jtext_load(const char *text, size_t size, size_t flags, json_error_t *e);
/* Parses one value and nothing behind it: refuses duplicate keys, allows NUL in strings, reads integers
 * beyond 64 bits as reals. NULL with a reason and position in `why`. */
json_t *jtext_parse(const char *text, size_t size, char *why, size_t why_size);
/* The same; *are_reals: an integer was beyond 64 bits, so that all integers were read as reals. */
json_t *jtext_parse_numbers(const char *text, size_t size, bool *are_reals, char *why, size_t why_size);
/* The raw value of an object's member; absent too where the name was written with escapes. */
struct jslice jtext_member(const char *object, size_t size, const char *name);
/* Copies the text without the white space between tokens. */
void jtext_add_minified(struct buf *b, const char *text, size_t size);
/* Copies the raw text where there is a slice, else dumps the parsed value. */
void jtext_add_value(struct buf *b, struct jslice raw, const json_t *parsed);

#endif
