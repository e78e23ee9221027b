/* SPDX-License-Identifier: MIT */
/* declaration.h: what is wrong with a declaration file, and where. For the files that read declarations;
 * others include capability.h. */
#ifndef HCPD_POLICY_DECLARATION_H
#define HCPD_POLICY_DECLARATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

#define DECLARATION_AT_SIZE 512

struct declaration {
	const char *path;
	config_say_fn *say;
	void *ctx;
	int errors;
};

/* A place in the file: the JSON pointer to a value. */
struct declared {
	char at[DECLARATION_AT_SIZE];
	const json_t *value; /* NULL: absent */
};

/* The member of an object, the item of an array. */
struct declared declared_member(const struct declared *object, const char *name);
struct declared declared_item(const struct declared *array, size_t index);

/* "FILE: /capability/safety/risk_floor: is above risk_ceiling; lower it". */
void declaration_complain(struct declaration *d, const struct declared *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a fault that a compiler of schemas found; its pointer begins at `where`: "/properties/a: must
 * be an object". */
void declaration_complain_inside(struct declaration *d, const struct declared *where, const char *why);
void declaration_warn(struct declaration *d, const struct declared *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* False with a complaint where the value is not of that type, or absent; `form` says what to write. */
bool declared_is_object(struct declaration *d, const struct declared *v, const char *form);
bool declared_is_array(struct declaration *d, const struct declared *v, const char *form);
/* a string that is not empty */
bool declared_is_text(struct declaration *d, const struct declared *v, const char *form);
bool declared_is_number(struct declaration *d, const struct declared *v, const char *form);
void declared_complain_kind(struct declaration *d, const struct declared *v, const char *form);
/* R_NONE with a complaint where it is no risk level. */
enum risk declared_risk(struct declaration *d, const struct declared *v);
/* Complains of members that are not in names, except `description`: a limit with a typing error would limit
 * nothing. */
void declared_only(struct declaration *d, const struct declared *object, const char *const *names);
/* The same, but names that begin with x- are allowed. */
void declared_only_or_own(struct declaration *d, const struct declared *object, const char *const *names);

#endif
