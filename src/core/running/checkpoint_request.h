/* trigger.h: when a worker is asked for a checkpoint, by what, and whether it answers.
 *
 * One request is out at a time; the checkpoint that comes next is its answer, whether the worker means it so
 * or not. A worker that leaves two in a row unanswered is asked by itself no more, until it makes a
 * checkpoint. */
#ifndef HCPD_TRIGGER_H
#define HCPD_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer.h"

struct session;

/* Those that are later in this list are sent also where an earlier one is out. */
enum trigger_cause {
	TRIGGER_WORKER,
	TRIGGER_STEPS,
	TRIGGER_INTERVAL,
	TRIGGER_ADAPTIVE,
	TRIGGER_PAUSE,
	TRIGGER_OPERATOR,
	TRIGGER_STOP,
	TRIGGER_COUNT
};
extern const char *const trigger_names[TRIGGER_COUNT]; /* as they are stored */

enum { TRIGGER_UNANSWERED_MAX = 2 };

struct trigger {                  /* of a session; what its worker is, and was asked */
	struct timer timer;       /* the next of what follows */
	enum trigger_cause asked; /* what is out; TRIGGER_WORKER: nothing */
	int64_t asked_us;         /* boot clock, all of them: since when ... */
	int64_t late_us;          /* ... and from when on it counts as unanswered ... */
	bool is_late;             /* ... which it does */
	unsigned unanswered;      /* in a row */
	int64_t steps;            /* of the session, at the last checkpoint or request */
	int64_t interval_us;      /* between two; moves, where it is adaptive; 0: none */
	int64_t due_us;
};

void trigger_init(struct session *s);
void trigger_fini(struct session *s);
/* A worker begins: nothing is known of it. */
void trigger_begin(struct session *s);
/* It ends: what it was asked for it will not do. */
void trigger_end(struct session *s);
void trigger_on_step(struct session *s);
/* It goes on: whoever wanted one for its pause is served, or not. */
void trigger_on_resumed(struct session *s);
/* Somebody wants one: an operator, a pause, a stop. The worker has a stdin. */
void trigger_ask(struct session *s, enum trigger_cause cause);
/* It made one: what it was made for. */
enum trigger_cause trigger_take_answer(struct session *s);
/* How much of its state is new since the one before: 0 to 1. For the interval, where it is adaptive. */
void trigger_adapt(struct session *s, double change);
/* Does anybody wait for an answer, and for nothing else beside it? */
bool trigger_is_waiting(const struct session *s);

#endif
