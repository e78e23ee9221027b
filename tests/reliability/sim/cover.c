/* SPDX-License-Identifier: MIT */
/* cover.c: the table of what happened. Owns its printing; whoever makes it happen counts. */
#include "cover.h"

#include <stdio.h>
#include <string.h>

#define COVER_ROW(name, group, what) {group, what},
static const struct {
	const char *group, *what;
} rows[COVER_COUNT] = {COVERED(COVER_ROW)};

uint64_t *cover_counts;

bool cover_name(const char *group, const char *what)
{
	for (int i = 0; i < COVER_COUNT; i++)
		if (strcmp(rows[i].group, group) == 0 && strcmp(rows[i].what, what) == 0) {
			cover_counts[i]++;
			return true;
		}
	return false;
}

void cover_print(const uint64_t *counts)
{
	for (int i = 0; i < COVER_COUNT; i++)
		printf("  %-11s %-32s %12llu\n",
			i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0 ? rows[i].group : "",
			rows[i].what, (unsigned long long)counts[i]);
}

int cover_missing(const uint64_t *counts)
{
	int missing = 0;

	for (int i = 0; i < COVER_COUNT; i++)
		if (counts[i] == 0) {
			printf("never happened: %s: %s\n", rows[i].group, rows[i].what);
			missing++;
		}
	return missing;
}
