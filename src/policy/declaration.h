/* declaration.h: between the readers of a declaration file only: what is wrong with it, and where. Others
 * include capability.h. */
#ifndef HCPD_DECLARATION_H
#define HCPD_DECLARATION_H

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
	const json_t *value; /* NULL: it is not there */
};

/* The member of an object, the item of an array. */
struct declared declared_member(const struct declared *object, const char *name);
struct declared declared_item(const struct declared *array, size_t index);

/* "FILE: /capability/safety/risk_floor: is above risk_ceiling; lower it". */
void declaration_complain(struct declaration *d, const struct declared *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, where another has said it with a pointer that begins at `where`: "/properties/a: must be an
 * object". */
void declaration_complain_inside(struct declaration *d, const struct declared *where, const char *why);
void declaration_warn(struct declaration *d, const struct declared *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* False with a complaint where it is not of that type; `form` says what would be. An absent one is missing.
 */
bool declared_is_object(struct declaration *d, const struct declared *v, const char *form);
bool declared_is_array(struct declaration *d, const struct declared *v, const char *form);
bool declared_is_text(struct declaration *d, const struct declared *v, const char *form); /* and not empty */
bool declared_is_number(struct declaration *d, const struct declared *v, const char *form);
void declared_complain_kind(struct declaration *d, const struct declared *v, const char *form);
/* R_NONE with a complaint. */
enum risk declared_risk(struct declaration *d, const struct declared *v);
/* Complains of members that are none of these, `description` apart: a limit with a typing error is no limit.
 */
void declared_only(struct declaration *d, const struct declared *object, const char *const *names);
/* The same, but that names which begin with x- are left alone, too. */
void declared_only_or_own(struct declaration *d, const struct declared *object, const char *const *names);

#endif
