/* judge.h: what must hold at the end of every test, whatever it was about. */
#ifndef JUDGE_H
#define JUDGE_H

#include "peer.h"
#include "rig.h"

/* Every message a caller got: envelope, properties, key; every session: one unbroken, legal stream. */
void judge_peer(struct peer *p);
/* The store of a rig: integrity, state versions, continuity of transitions and sequences. */
void judge_store(struct rig *r);
/* What a caller got as events is what the store holds, byte for byte. */
void judge_history(struct rig *r, struct peer *p);
bool state_is_final(const char *state);

#endif
