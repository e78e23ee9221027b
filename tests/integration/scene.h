/* scene.h: the commonest scene of an integration test: one daemon and one caller of its. A test that wants
 * more of either makes them itself; end() is the same. Everything is static: a test program includes it
 * once. */
#ifndef SCENE_H
#define SCENE_H

#include "peer.h"
#include "rig.h"

#define AGENT source_path("tests/integration/agents/agent.py")

static struct rig *r;
static struct peer *p;

static inline void begin(void)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
}

/* With one key of the configuration set. */
static inline void begin_with(const char *section, const char *key, const char *value)
{
	r = rig_new();
	rig_set(r, section, key, "%s", value);
	rig_start(r);
	p = peer_new(r);
}

static inline void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

#endif
