/* SPDX-License-Identifier: MIT */
/* fake_post.h: the outbox on a real store, with a fake bus and fake clocks: puts messages with numbers in,
 * and looks at what comes out. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_POST_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_POST_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <sqlite3.h>

#include "protocol/message.h"
#include "support/fakes/fake_bus.h"
#include "support/fakes/fake_clock.h"
#include "support/fakes/fake_disk.h"
#include "outbox/outbox.h"

#define SECONDS FAKE_SECOND
#define SESSION_ID "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

struct post {
	char dir[200];
	struct config config;
	struct store *store;
	struct bus bus;
	struct timers timers;
	struct outbox *ob;
	int next; /* number of the next message */
	int64_t settled_bytes, backlog_bytes;
	int unroutables;
	size_t padding;    /* bytes in each body */
	bool is_transient; /* what is put: not to be kept where nobody listens */
};

void post_open(struct post *p);
void post_init(struct post *p, int window);

/* As a crash leaves it: nothing is saved that was not. */
void post_close(struct post *p);
void post_fini(struct post *p);

/* ---- in ---- */

int64_t post_put_type(struct post *p, const char *caller, const char *session_id, const char *type);
void post_put(struct post *p, const char *caller, int count);

/* ---- turns ---- */

void post_hand_in(struct post *p);

/* As core_end_turn has it. */
void post_end_turn(struct post *p);
void post_turn(struct post *p);

/* A turn in the middle of which the connection goes: what it publishes comes back behind the loss. */
void post_turn_into_a_loss(struct post *p, int code);
void post_up(struct post *p);
void post_down(struct post *p, int code);
void post_settle(struct post *p, enum bus_status status);

/* Lets time pass, and stops at everything that is due. */
void post_pass(struct post *p, int64_t us);

/* A healthy broker takes everything. */
void post_drain(struct post *p);

/* ---- out ---- */

/* The number in a body; -1: it has none. */
int post_number(const struct fake_sent *s);
int post_flying(const struct post *p, size_t i);

/* Those in flight must be first, first + 1, ... and `count` of them. */
void post_expect(const struct post *p, size_t count, int first);

/* From the index-th publish on, numbers must be first, first + 1, ... to the end. */
void post_expect_sent(const struct post *p, size_t index, int first);
int64_t post_ask(struct post *p, const char *sql);

#endif
