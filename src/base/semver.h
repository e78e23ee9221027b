/* SPDX-License-Identifier: MIT */
/* semver.h: semantic versions and npm's ranges (exact, x, ^, ~, comparisons, hyphen, space, ||). */
#ifndef HCPD_BASE_SEMVER_H
#define HCPD_BASE_SEMVER_H

#include <stdbool.h>

#define SEMVER_MAX 256 /* a longer text is no version and no range */

/* A full version: 1.2.3, 1.2.3-rc.1+build. */
bool semver_is_version(const char *text);
/* Is `text` a range at all? The empty text and "*" are: any release. */
bool semver_is_range(const char *text);
/* False for what is no version or no range. A pre-release satisfies a range only where a comparator
 * with the same major.minor.patch names a pre-release itself, as npm has it. */
bool semver_satisfies(const char *version, const char *range);

#endif
