/* SPDX-License-Identifier: MIT */
/* session_private.h: what session.c, session_new.c and session_end.c share. No other file includes it. */
#ifndef HCPD_CORE_SESSION_PRIVATE_H
#define HCPD_CORE_SESSION_PRIVATE_H

#include "base/clock.h"
#include "core/turn.h"
#include "core/session.h"

extern const char *const session_paused_names[PAUSED_COUNT + 1];
extern const char *const session_waits_names[WAITS_COUNT + 1];

/* Buffers that the pointers of a row point into. */
struct row_texts {
	char created[CLOCK_TEXT_SIZE], updated[CLOCK_TEXT_SIZE], started[CLOCK_TEXT_SIZE],
		deadline[CLOCK_TEXT_SIZE];
	struct buf warnings, risk_events;
};

void session_fill_row(const struct session *s, struct store_session *row, struct row_texts *t);

/* A message is composed in core->turn.scratch: begun here, filled, ended with message_end, and put. */
void session_begin_message(struct session *s, const char *type);
/* Stores the finished message in turn.scratch and clears the buffer. Returns its event. */
int64_t session_put_message(struct session *s, const char *type, const char *event_type, int64_t sequence);
/* Adds to a list of bounded texts (warnings, risk events). */
void session_add_text(struct buf *list, unsigned *count, const char *text, size_t size);
/* The session is over: it gives up its slot, and is freed after the commit. */
void session_close(struct session *s);

#endif
