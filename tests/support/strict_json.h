/* SPDX-License-Identifier: MIT */
/* strict_json.h: a second reader of JSON, by RFC 8259 to the letter. Independent of jansson and of src/json,
 * so that it can say of what they accept whether others will accept it too. */
#ifndef HCPD_TESTS_SUPPORT_STRICT_JSON_H
#define HCPD_TESTS_SUPPORT_STRICT_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* One value with white space around it, in good UTF-8. Half a surrogate pair and a name that comes twice
 * pass, as they do in Python. */
bool strict_json(const char *text, size_t size);

#endif
