/* SPDX-License-Identifier: MIT */
/* scene.h: the commonest scene of an integration test: one daemon and one caller of its. A test that wants
 * more of either makes them itself; scene_end() is the same. */
#ifndef HCPD_TESTS_SUPPORT_SCENE_H
#define HCPD_TESTS_SUPPORT_SCENE_H

#include "peer.h"
#include "rig.h"

#define AGENT source_path("tests/integration/agents/agent.py")

extern struct rig *r;
extern struct peer *p;

void scene_begin(void);

/* With one key of the configuration set. */
void scene_begin_with(const char *section, const char *key, const char *value);
void scene_end(void);

#endif
