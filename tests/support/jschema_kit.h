/* SPDX-License-Identifier: MIT */
/* jschema_kit.h: schemas and instances from text with ' for ", and what a check says of them. */
#ifndef HCPD_TESTS_SUPPORT_JSCHEMA_KIT_H
#define HCPD_TESTS_SUPPORT_JSCHEMA_KIT_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "jschema/jschema.h"
#include "json/text.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

json_t *schema_kit_json(const char *text);
struct jschema *schema_kit_schema(const char *text, const struct jschema_options *o);

/* Whether the instance is valid; *f (may be NULL) otherwise. */
bool schema_kit_check(
	const char *schema, const char *instance, const struct jschema_options *o, struct jschema_failure *f);
int schema_kit_run(const char *name, void (*add)(TCase *t));

#endif
