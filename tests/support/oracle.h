/* SPDX-License-Identifier: MIT */
/* oracle.h: what must hold at the end of every test, whatever it was about. */
#ifndef HCPD_TESTS_SUPPORT_ORACLE_H
#define HCPD_TESTS_SUPPORT_ORACLE_H

#include "peer.h"
#include "rig.h"

/* Every message a caller got: envelope, properties, key; every session: one unbroken, legal stream. */
void oracle_check_peer(struct peer *p);
/* The store of a rig: integrity, state versions, continuity of transitions and sequences. */
void oracle_check_store(struct rig *r);
/* What a caller got as events is what the store holds, byte for byte. */
void oracle_check_history(struct rig *r, struct peer *p);

#endif
