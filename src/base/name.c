/* SPDX-License-Identifier: MIT */
/* name.c: names that people write.
 * Owns which characters a name may have, and how far a typing error may lead from it.
 * Never knows what a name stands for. */
#include "base/name.h"

#include <stdint.h>
#include <string.h>

bool name_is_valid(const char *text, const char *extra)
{
	size_t i = 0;

	for (; text[i] != '\0'; i++) {
		char c = text[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			strchr(extra, c);

		if (!ok || i >= 128)
			return false;
	}
	return i > 0;
}

#define NEAR_MAX 64 /* no known name is longer */

/* Insertions, deletions and changes of one character that lead from a to b. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NEAR_MAX + 1], a_size = strlen(a), b_size = strlen(b);

	if (a_size > NEAR_MAX || b_size > NEAR_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b_size; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_size; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_size; j++) {
			size_t change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
			if (change < row[j])
				row[j] = change;
		}
	}
	return row[b_size];
}

const char *name_find_nearest(const char *name, const char *const *names, size_t count)
{
	const char *best = NULL;
	size_t best_distance = strlen(name) / 3 + 2;

	for (size_t i = 0; i < count; i++) {
		size_t d = distance(name, names[i]);

		if (d < best_distance) {
			best = names[i];
			best_distance = d;
		}
	}
	return best;
}
