/* SPDX-License-Identifier: MIT */
/* effect.h: what must wait for the commit: acks, lines to workers, starts and ends of processes. (Messages to
 * callers wait in the outbox.) */
#ifndef HCPD_CORE_EFFECT_H
#define HCPD_CORE_EFFECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "protocol/message.h"

struct op_request;
struct core;
struct runner;
struct session;

enum effect_kind {
	EFFECT_ACK,
	EFFECT_REJECT,
	EFFECT_START,
	EFFECT_LINE,
	EFFECT_END,
	EFFECT_CLOSE_STDIN,
	EFFECT_RESEND,
	EFFECT_RETIRE,
	EFFECT_ANSWER
};

struct effect {
	enum effect_kind kind;
	struct session *session; /* START, LINE, END, CLOSE_STDIN */
	uint32_t generation;     /* ACK, REJECT */
	uint64_t tag;
	size_t at, size;                /* LINE: in the texts */
	int64_t term_at_us, kill_at_us; /* END */
	struct runner *runner;          /* RETIRE */
	struct op_request *request;     /* ANSWER */
	int64_t event;                  /* RESEND */
	char caller_id[CALLER_ID_SIZE];
};

struct effects {
	struct effect *list;
	size_t count, room;
	struct buf texts;
};

void effect_ack(struct core *c, uint32_t generation, uint64_t tag);
void effect_reject(struct core *c, uint32_t generation, uint64_t tag);
void effect_start(struct session *s);
/* One line to the session's worker; the newline is added here. */
void effect_line(struct session *s, const char *line, size_t size);
void effect_end(struct session *s, int64_t term_at_us, int64_t kill_at_us);
void effect_close_stdin(struct session *s);

/* Ends a reused process that takes no more sessions. */
void effect_retire(struct core *c, struct runner *r);
/* Sends an event of the outbox again. */
void effect_resend(struct core *c, const char *caller_id, int64_t event);

/* Sends the answer to the operator; takes the request. */
void effect_answer(struct core *c, struct op_request *a);

size_t effects_count_starts(const struct effects *e);
/* After the commit: in the order in which they were added. */
void effects_release(struct core *c);
void effects_fini(struct effects *e);

#endif
