/* SPDX-License-Identifier: MIT */
/* caller_log.c: how many lines of the log callers may cause.
 * Owns a limit for each caller section; a reload keeps them. Never writes a line about a command itself. */
#include "core/admission/caller_log.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/buf.h"
#include "core/turn.h"

#define LINES_A_MINUTE 60

struct caller_log {
	UT_hash_handle hh;
	struct log_limit limit;
	char section[];
};

static struct caller_log *get(struct core *c, const char *section)
{
	size_t size = strlen(section) + 1;
	struct caller_log *l;

	HASH_FIND_STR(c->limits.callers, section, l);
	if (l == NULL) {
		l = xcalloc(1, sizeof *l + size);
		memcpy(l->section, section, size);
		HASH_ADD_KEYPTR(hh, c->limits.callers, l->section, size - 1, l);
	}
	return l;
}

bool caller_log_may(struct core *c, const struct config_caller *caller, enum log_level level)
{
	return level <= log_get_level() &&
		log_may(&get(c, caller != NULL ? caller->name : "")->limit, LINES_A_MINUTE);
}

bool caller_log_may_id(struct core *c, const char *caller_id, enum log_level level)
{
	return caller_log_may(c, config_find_caller(c->policy->config, caller_id), level);
}

void caller_log_fini(struct core *c)
{
	struct caller_log *l, *tmp;

	HASH_ITER(hh, c->limits.callers, l, tmp) {
		HASH_DEL(c->limits.callers, l);
		free(l);
	}
}
