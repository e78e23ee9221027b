/* SPDX-License-Identifier: MIT */
/* declared_kit.h: a part of a declaration out of text, and what was said about it. JSON is written with
 * single quotes. */
#ifndef HCPD_TESTS_SUPPORT_DECLARED_KIT_H
#define HCPD_TESTS_SUPPORT_DECLARED_KIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "policy/declaration.h"
#include "json/text.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

extern struct buf decl_said; /* E or W, then the text, a line each */

json_t *decl_parse(const char *text);
struct declaration decl_new(void);
int decl_run(const char *name, void (*add_tests)(TCase *t));

#endif
