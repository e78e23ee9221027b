/* SPDX-License-Identifier: MIT */
/* one_session.h: one session without a store, a broker or a process. What is under test is core/session.c and
 * worker_messages.c. Everything around them is replaced, and checks each thing that they hand out. */
#ifndef HCPD_TESTS_FUZZ_ONE_SESSION_H
#define HCPD_TESTS_FUZZ_ONE_SESSION_H

#include "core/running/worker_messages.h"
#include "core/turn.h"
#include "fuzz.h"
#include "harp/session.h"
#include "policy/capability.h"
#include "policy/policy.h"

#define STAGE_ID "6f1c8a52-0b1d-4c3e-9a7b-2d4e6f801234"
#define STAGE_MADE_ID "0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab"
#define STAGE_DEPTH 64

extern struct stage {
	struct core core;
	struct policy policy;
	struct config config;
	struct capability capability;
	struct config_capability config_capability;
	int64_t sequence;         /* of the last event */
	unsigned results, closed; /* messages of that kind */
	bool has_concluded;
	unsigned snapshot_count;
	char snapshots[16][HARP_WORD_MAX + 1];
	struct buf outcome; /* as it was stored, or as a test wants it to be read */
} stage;
extern bool stage_is_told; /* in HARP-SESSION's words, too */

/* A session that runs, with these two columns of its row. */
struct session *stage_begin(const char *warnings, const char *step);
/* The session ends: it is finished, and everything is freed. */
void stage_end(struct session *s);

#endif
