/* SPDX-License-Identifier: MIT */
/* scene.c: what scene.h declares. */
#include "support/scene.h"

struct rig *r;
struct peer *p;

void scene_begin(void)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
}

void scene_begin_with(const char *section, const char *key, const char *value)
{
	r = rig_new();
	rig_set(r, section, key, "%s", value);
	rig_start(r);
	p = peer_new(r);
}

void scene_end(void)
{
	peer_finish(p);
	rig_finish(r);
}
