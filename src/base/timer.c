/* SPDX-License-Identifier: MIT */
/* timer.c: deadlines in a binary heap.
 * Owns the order in which deadlines come; the timers themselves are their owners'.
 * Never reads a clock: the loop says what time it is. */
#include "base/timer.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

/* A timer that is about to fire in this run is in due[], no longer in the heap; its place says so. */
#define IN_DUE (SIZE_MAX / 2 + 1)

void timers_fini(struct timers *ts)
{
	for (size_t i = 0; i < ts->count; i++)
		ts->heap[i]->place = 0;
	free(ts->heap);
	free(ts->due);
	*ts = (struct timers){0};
}

static void put(struct timers *ts, size_t index, struct timer *t)
{
	ts->heap[index] = t;
	t->place = index + 1;
}

static void sift_up(struct timers *ts, size_t index, struct timer *t)
{
	while (index > 0) {
		size_t parent = (index - 1) / 2;

		if (ts->heap[parent]->at_us <= t->at_us)
			break;
		put(ts, index, ts->heap[parent]);
		index = parent;
	}
	put(ts, index, t);
}

static void sift_down(struct timers *ts, size_t index, struct timer *t)
{
	for (;;) {
		size_t child = 2 * index + 1;

		if (child >= ts->count)
			break;
		if (child + 1 < ts->count && ts->heap[child + 1]->at_us < ts->heap[child]->at_us)
			child++;
		if (ts->heap[child]->at_us >= t->at_us)
			break;
		put(ts, index, ts->heap[child]);
		index = child;
	}
	put(ts, index, t);
}

/* t takes the free place `index`, then moves to where it belongs. */
static void settle(struct timers *ts, size_t index, struct timer *t)
{
	if (index > 0 && ts->heap[(index - 1) / 2]->at_us > t->at_us)
		sift_up(ts, index, t);
	else
		sift_down(ts, index, t);
}

void timer_cancel(struct timers *ts, struct timer *t)
{
	size_t place = t->place;
	struct timer *last;

	t->place = 0;
	if (place == 0)
		return;
	if (place >= IN_DUE) {
		ts->due[place - IN_DUE] = NULL;
		return;
	}
	assert(place <= ts->count && ts->heap[place - 1] == t);
	last = ts->heap[--ts->count];
	if (last != t)
		settle(ts, place - 1, last);
}

void timer_set(struct timers *ts, struct timer *t, int64_t at_us)
{
	if (t->place > 0 && t->place < IN_DUE) {
		t->at_us = at_us;
		settle(ts, t->place - 1, t);
		return;
	}
	timer_cancel(ts, t);
	t->at_us = at_us;
	if (ts->count == ts->room) {
		ts->room = ts->room ? 2 * ts->room : 64;
		ts->heap = xrealloc(ts->heap, ts->room * sizeof(*ts->heap));
	}
	sift_up(ts, ts->count++, t);
}

int64_t timers_next_us(const struct timers *ts)
{
	return ts->count ? ts->heap[0]->at_us : INT64_MAX;
}

/* What is due leaves the heap before anything fires: what a callback sets goes to the heap and so waits
 * for the next run, and what it cancels is struck out of due[]. */
void timers_run(struct timers *ts, int64_t now_us)
{
	size_t count = 0;

	assert(!ts->is_running);
	while (ts->count > 0 && ts->heap[0]->at_us <= now_us) {
		struct timer *t = ts->heap[0];

		if (count == ts->due_room) {
			ts->due_room = ts->due_room ? 2 * ts->due_room : 16;
			ts->due = xrealloc(ts->due, ts->due_room * sizeof(*ts->due));
		}
		timer_cancel(ts, t);
		t->place = IN_DUE + count;
		ts->due[count++] = t;
	}
	ts->is_running = true;
	for (size_t i = 0; i < count; i++) {
		struct timer *t = ts->due[i];

		if (!t)
			continue;
		t->place = 0;
		t->on_due(t);
	}
	ts->is_running = false;
}
