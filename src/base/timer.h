/* SPDX-License-Identifier: MIT */
/* timer.h: deadlines on the boot clock, in a heap. Embedded in what they belong to; no allocation
 * per timer but the heap's own array. */
#ifndef HCPD_BASE_TIMER_H
#define HCPD_BASE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
	int64_t at_us;                   /* boot clock */
	size_t place;                    /* 1-based in the heap; 0: not set */
	void (*on_due)(struct timer *t); /* use container_of to get at the owner */
};

struct timers {
	struct timer **heap;
	size_t count, room;
	struct timer **due; /* taken out of the heap by the run under way */
	size_t due_room;
	bool is_running;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

void timers_fini(struct timers *ts);
/* Sets, or moves when it was set. Aborts the process only when memory is out. */
void timer_set(struct timers *ts, struct timer *t, int64_t at_us);
void timer_cancel(struct timers *ts, struct timer *t);
static inline bool timer_is_set(const struct timer *t)
{
	return t->place != 0;
}
/* Earliest deadline, INT64_MAX where there is none. */
int64_t timers_next_us(const struct timers *ts);
/* Fires what is due at now_us, earliest first; one that a callback sets anew for now or earlier waits
 * for the next call, so that this one ends. */
void timers_run(struct timers *ts, int64_t now_us);

#endif
