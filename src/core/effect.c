/* SPDX-License-Identifier: MIT */
/* effect.c: effects of a turn: acks, lines, starts and ends, held back until the commit.
 * Owns the order of release. Never decides anything. */
#include "core/effect.h"
#include "core/op_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/op_queue.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/running/run.h"

static struct effect *add(struct core *c, enum effect_kind kind, struct session *s)
{
	struct effects *e = &c->turn.effects;

	if (e->count == e->room) {
		e->room = e->room ? e->room * 2 : 64;
		e->list = xrealloc(e->list, e->room * sizeof *e->list);
	}
	e->list[e->count] = (struct effect){.kind = kind, .session = s};
	return &e->list[e->count++];
}

void effect_ack(struct core *c, uint32_t generation, uint64_t tag)
{
	struct effect *e = add(c, EFFECT_ACK, NULL);

	e->generation = generation;
	e->tag = tag;
}

void effect_reject(struct core *c, uint32_t generation, uint64_t tag)
{
	struct effect *e = add(c, EFFECT_REJECT, NULL);

	e->generation = generation;
	e->tag = tag;
}

void effect_start(struct session *s)
{
	add(s->core, EFFECT_START, s);
}

void effect_line(struct session *s, const char *line, size_t size)
{
	struct buf *texts = &s->core->turn.effects.texts;
	struct effect *e = add(s->core, EFFECT_LINE, s);

	e->at = texts->size;
	e->size = size + 1;
	buf_add(texts, line, size);
	buf_add(texts, "\n", 1);
}

void effect_end(struct session *s, int64_t term_at_us, int64_t kill_at_us)
{
	struct effect *e = add(s->core, EFFECT_END, s);

	e->term_at_us = term_at_us;
	e->kill_at_us = kill_at_us;
}

void effect_close_stdin(struct session *s)
{
	add(s->core, EFFECT_CLOSE_STDIN, s);
}

void effect_resend(struct core *c, const char *caller_id, int64_t event)
{
	struct effect *e = add(c, EFFECT_RESEND, NULL);

	e->event = event;
	snprintf(e->caller_id, sizeof e->caller_id, "%s", caller_id);
}

void effect_retire(struct core *c, struct runner *r)
{
	add(c, EFFECT_RETIRE, NULL)->runner = r;
}

void effect_answer(struct core *c, struct op_request *a)
{
	add(c, EFFECT_ANSWER, NULL)->request = a;
}

static void resend(struct core *c, const struct effect *e)
{
	struct outbox_caller *to = outbox_find_caller(c->outbox, e->caller_id);

	if (to != NULL)
		outbox_resend(c->outbox, to, e->event);
}

static void release(struct core *c, const struct effect *e)
{
	struct worker *w = e->session != NULL ? run_worker(e->session) : NULL;

	switch (e->kind) {
	case EFFECT_ACK:
		CRASH_POINT(effect_before_ack);
		bus_ack(c->bus, e->generation, e->tag);
		CRASH_POINT(effect_after_ack);
		break;
	case EFFECT_REJECT:
		CRASH_POINT(effect_before_reject);
		bus_reject(c->bus, e->generation, e->tag);
		CRASH_POINT(effect_after_reject);
		break;
	case EFFECT_START:
		if (slice_is_over(&c->turn.start_slice)) {
			run_start_later(e->session);
			break;
		}
		CRASH_POINT(effect_before_start);
		run_start(e->session);
		CRASH_POINT(effect_after_start);
		break;
	case EFFECT_LINE:
		CRASH_POINT(effect_before_line);
		if (w != NULL)
			worker_write(w, c->turn.effects.texts.data + e->at, e->size);
		CRASH_POINT(effect_after_line);
		break;
	case EFFECT_END:
		CRASH_POINT(effect_before_end);
		if (w != NULL)
			worker_end(w, e->term_at_us, e->kill_at_us);
		CRASH_POINT(effect_after_end);
		break;
	case EFFECT_CLOSE_STDIN:
		CRASH_POINT(effect_before_close_stdin);
		if (w != NULL)
			worker_close_stdin(w);
		CRASH_POINT(effect_after_close_stdin);
		break;
	case EFFECT_RESEND:
		CRASH_POINT(effect_before_resend);
		resend(c, e);
		CRASH_POINT(effect_after_repeat);
		break;
	case EFFECT_RETIRE:
		CRASH_POINT(effect_before_retire);
		runner_retire(e->runner);
		CRASH_POINT(effect_after_retire);
		break;
	case EFFECT_ANSWER:
		CRASH_POINT(effect_before_answer);
		op_queue_answer(c->operator.queue, e->request);
		CRASH_POINT(effect_after_answer);
		break;
	}
}

size_t effects_count_starts(const struct effects *e)
{
	size_t count = 0;

	for (size_t i = 0; i < e->count; i++)
		count += e->list[i].kind == EFFECT_START;
	return count;
}

void effects_release(struct core *c)
{
	size_t due = c->turn.effects.count;

	/* A start may fail; the effects that follow from that wait for the next turn's commit. */
	for (size_t i = 0; i < due; i++) {
		const struct effect e =
			c->turn.effects.list[i]; /* a copy: release may make the list grow and move */

		release(c, &e);
	}
	slice_renew(&c->turn.start_slice);
	if (c->turn.effects.count == due) {
		c->turn.effects.count = 0;
		buf_clear(&c->turn.effects.texts);
		return;
	}
	/* Effects that were added meanwhile move to the front; their lines stay where they are. */
	memmove(c->turn.effects.list, c->turn.effects.list + due,
		(c->turn.effects.count - due) * sizeof *c->turn.effects.list);
	c->turn.effects.count -= due;
}

void effects_fini(struct effects *e)
{
	for (size_t i = 0; i < e->count; i++)
		if (e->list[i].kind == EFFECT_ANSWER)
			op_request_free(e->list[i].request);
	free(e->list);
	buf_fini(&e->texts);
}
