/* effect.h: what must wait for the commit: acks, lines to workers, starts and ends of processes.
 * (Messages wait in the outbox.) */
#ifndef HCPD_EFFECT_H
#define HCPD_EFFECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "protocol/message.h"

struct ask;
struct core;
struct host;
struct session;

enum effect_kind {
	EFFECT_ACK,
	EFFECT_REJECT,
	EFFECT_START,
	EFFECT_LINE,
	EFFECT_END,
	EFFECT_CLOSE_STDIN,
	EFFECT_REPEAT,
	EFFECT_RETIRE,
	EFFECT_ANSWER
};

struct effect {
	enum effect_kind kind;
	struct session *session; /* START, LINE, END, CLOSE_STDIN */
	uint32_t life;           /* ACK, REJECT */
	uint64_t tag;
	size_t at, size;                /* LINE: in the texts */
	int64_t term_at_us, kill_at_us; /* END */
	struct host *host;              /* RETIRE */
	struct ask *ask;                /* ANSWER */
	int64_t event;                  /* REPEAT */
	char caller_id[CALLER_ID_SIZE];
};

struct effects {
	struct effect *list;
	size_t count, room;
	struct buf texts;
};

void effect_ack(struct core *c, uint32_t life, uint64_t tag);
void effect_reject(struct core *c, uint32_t life, uint64_t tag);
void effect_start(struct session *s);
/* One line to its worker; the newline is added. */
void effect_line(struct session *s, const char *line, size_t size);
void effect_end(struct session *s, int64_t term_at_us, int64_t kill_at_us);
void effect_close_stdin(struct session *s);

/* A reused process that has served enough. */
void effect_retire(struct core *c, struct host *h);
/* An answer once more. */
void effect_repeat(struct core *c, const char *caller_id, int64_t event);

/* To an operator; takes the ask. */
void effect_answer(struct core *c, struct ask *a);

/* In the order in which they came. */
void effects_release(struct core *c);
void effects_fini(struct effects *e);

#endif
