/* SPDX-License-Identifier: MIT */
/* state_version.c: versions of checkpoint states.
 * Owns their comparison, and the way from one to another. Never runs a migration (core/running/migrate.c). */
#include "config/state_version.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#define FAR 1000 /* steps: no way; config.c bounds their number */

bool state_version_is_valid(const char *text)
{
	size_t major = strspn(text, "0123456789"),
	       minor = text[major] == '.' ? strspn(text + major + 1, "0123456789") : 0;

	return major > 0 && major <= 9 &&
		(text[major] == '\0' || (minor > 0 && minor <= 9 && text[major + 1 + minor] == '\0'));
}

/* Majors are compared as text: "02" differs from "2". */
static bool is_same_major(const char *a, const char *b)
{
	size_t size = strcspn(a, ".");

	return size == strcspn(b, ".") && memcmp(a, b, size) == 0;
}

/* 0 where there is none; -1: it is no number, as a worker may write it. */
static long minor_of(const char *version)
{
	const char *dot = strchr(version, '.');
	size_t size = dot != NULL ? strspn(dot + 1, "0123456789") : 0;

	if (dot == NULL)
		return 0;
	return size > 0 && size <= 9 && (dot[1 + size] == '\0' || dot[1 + size] == '.') ? atol(dot + 1) : -1;
}

bool state_version_is_read(const char *of_state, const char *wanted)
{
	long minor;

	if (of_state[0] == '\0' || wanted == NULL)
		return true;
	if (!is_same_major(of_state, wanted))
		return false;
	if (strchr(wanted, '.') == NULL || strcmp(of_state, wanted) == 0)
		return true;
	minor = minor_of(of_state);
	return minor >= 0 && minor <= minor_of(wanted);
}

/* Does the step begin at this version? A step from a major begins at each of its minors. */
static bool begins_at(const struct config_migration *m, const char *version)
{
	return strchr(m->from, '.') == NULL ? is_same_major(m->from, version) : strcmp(m->from, version) == 0;
}

/* The number of steps after this one, by their least. */
static int steps_after(const struct config_capability *cc, const struct config_migration *m, const int *left)
{
	int least = FAR;

	if (state_version_is_read(m->to, cc->state_version))
		return 0;
	for (size_t i = 0; i < cc->migration_count; i++)
		if (begins_at(&cc->migrations[i], m->to) && left[i] + 1 < least)
			least = left[i] + 1;
	return least;
}

const struct config_migration *state_version_find_step(const struct config_capability *cc, const char *from)
{
	const struct config_migration *best = NULL;
	int left[CONFIG_MIGRATIONS_MAX], least = FAR;

	for (size_t i = 0; i < cc->migration_count; i++)
		left[i] = FAR;
	for (size_t round = 0; round < cc->migration_count; round++)
		for (size_t i = 0; i < cc->migration_count; i++)
			left[i] = steps_after(cc, &cc->migrations[i], left);
	for (size_t i = 0; i < cc->migration_count; i++)
		if (begins_at(&cc->migrations[i], from) && left[i] < least) {
			best = &cc->migrations[i];
			least = left[i];
		}
	return best;
}
