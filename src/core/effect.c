/* effect.c: what the turn will do once it is true.
 * Owns the order of release. Never decides anything. */
#include "core/effect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/control.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/running/run.h"

static struct effect *add(struct core *c, enum effect_kind kind, struct session *s)
{
	struct effects *e = &c->effects;

	if (e->count == e->room) {
		e->room = e->room ? e->room * 2 : 64;
		e->list = xrealloc(e->list, e->room * sizeof *e->list);
	}
	e->list[e->count] = (struct effect){.kind = kind, .session = s};
	return &e->list[e->count++];
}

void effect_ack(struct core *c, uint32_t life, uint64_t tag)
{
	struct effect *e = add(c, EFFECT_ACK, NULL);

	e->life = life;
	e->tag = tag;
}

void effect_reject(struct core *c, uint32_t life, uint64_t tag)
{
	struct effect *e = add(c, EFFECT_REJECT, NULL);

	e->life = life;
	e->tag = tag;
}

void effect_start(struct session *s)
{
	add(s->core, EFFECT_START, s);
}

void effect_line(struct session *s, const char *line, size_t size)
{
	struct buf *texts = &s->core->effects.texts;
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

void effect_repeat(struct core *c, const char *caller_id, int64_t event)
{
	struct effect *e = add(c, EFFECT_REPEAT, NULL);

	e->event = event;
	snprintf(e->caller_id, sizeof e->caller_id, "%s", caller_id);
}

void effect_retire(struct core *c, struct host *h)
{
	add(c, EFFECT_RETIRE, NULL)->host = h;
}

void effect_answer(struct core *c, struct ask *a)
{
	add(c, EFFECT_ANSWER, NULL)->ask = a;
}

static void repeat(struct core *c, const struct effect *e)
{
	struct addressee *to = outbox_addressee(c->outbox, e->caller_id);

	if (to != NULL)
		outbox_repeat(c->outbox, to, e->event);
}

static void release(struct core *c, const struct effect *e)
{
	struct worker *w = e->session != NULL ? run_worker(e->session) : NULL;

	switch (e->kind) {
	case EFFECT_ACK:
		CRASH_POINT(effect_before_ack);
		bus_ack(c->bus, e->life, e->tag);
		CRASH_POINT(effect_after_ack);
		break;
	case EFFECT_REJECT:
		CRASH_POINT(effect_before_reject);
		bus_reject(c->bus, e->life, e->tag);
		CRASH_POINT(effect_after_reject);
		break;
	case EFFECT_START:
		CRASH_POINT(effect_before_start);
		run_start(e->session);
		CRASH_POINT(effect_after_start);
		break;
	case EFFECT_LINE:
		CRASH_POINT(effect_before_line);
		if (w != NULL)
			worker_write(w, c->effects.texts.data + e->at, e->size);
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
	case EFFECT_REPEAT:
		CRASH_POINT(effect_before_repeat);
		repeat(c, e);
		CRASH_POINT(effect_after_repeat);
		break;
	case EFFECT_RETIRE:
		CRASH_POINT(effect_before_retire);
		host_retire(e->host);
		CRASH_POINT(effect_after_retire);
		break;
	case EFFECT_ANSWER:
		CRASH_POINT(effect_before_answer);
		control_answer(c->control, e->ask);
		CRASH_POINT(effect_after_answer);
		break;
	}
}

void effects_release(struct core *c)
{
	size_t due = c->effects.count;

	/* A start may fail, and what follows from that waits for the next turn's commit. */
	for (size_t i = 0; i < due; i++) {
		const struct effect e = c->effects.list[i]; /* the list may grow, and move, meanwhile */

		release(c, &e);
	}
	if (c->effects.count == due) {
		c->effects.count = 0;
		buf_clear(&c->effects.texts);
		return;
	}
	/* What came meanwhile; its lines stay where they are. */
	memmove(c->effects.list, c->effects.list + due, (c->effects.count - due) * sizeof *c->effects.list);
	c->effects.count -= due;
}

void effects_fini(struct effects *e)
{
	for (size_t i = 0; i < e->count; i++)
		if (e->list[i].kind == EFFECT_ANSWER)
			ask_free(e->list[i].ask);
	free(e->list);
	buf_fini(&e->texts);
}
