/* SPDX-License-Identifier: MIT */
/* state_version.h: versions of checkpoint states, MAJOR or MAJOR.MINOR, and the migrations between them. */
#ifndef HCPD_CONFIG_STATE_VERSION_H
#define HCPD_CONFIG_STATE_VERSION_H

#include <stdbool.h>

struct config_capability;
struct config_migration;

bool state_version_is_valid(const char *text); /* "2", "2.1" */
/* Can workers that read `wanted` read a state of this version? The same major, and a minor not above theirs;
 * without a minor in `wanted` any. "" and NULL: any version. */
bool state_version_is_read(const char *of_state, const char *wanted);
/* The first step of the shortest way from this version to the capability's state_version. NULL: there is no
 * way. */
const struct config_migration *state_version_find_step(const struct config_capability *cc, const char *from);

#endif
