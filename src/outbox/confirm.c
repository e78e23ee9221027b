/* SPDX-License-Identifier: MIT */
/* confirm.c: what the broker did with the messages: confirmed, unroutable, nacked, lost, refused.
 * Owns the watermarks, the back-off of each caller, and the sending one by one after the broker closed the
 * channel. Never composes a message, except the substitute of one that the broker refuses for good. */
#include "outbox/outbox_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/crashpoint.h"
#include "base/log.h"

/* ---- back: from the bus ---- */

void outbox_advance(struct outbox_caller *a)
{
	struct outbox *ob = a->ob;
	int64_t before = a->confirmed;

	while (a->queue != NULL && a->queue->state == SETTLED) {
		struct entry *n = a->queue;

		DL_DELETE(a->queue, n);
		a->queue_count--;
		a->confirmed = n->id;
		if (a->cursor == n)
			a->cursor = n->next;
		outbox_entry_free(n);
	}
	if (a->queue == NULL && a->confirmed < a->loaded)
		a->confirmed = a->loaded; /* rows that are not in the queue were unroutable: settled, too */
	if (!a->unsaved && a->confirmed != before) {
		a->unsaved = true;
		a->unsaved_next = ob->unsaved;
		ob->unsaved = a;
		ob->unsaved_count++;
	}
	if (a->loaded < a->last)
		outbox_ring_add(a);
}

static void settle_live(struct entry *n)
{
	struct outbox *ob = n->to->ob;

	n->state = SETTLED;
	ob->waiting_bytes -= (int64_t)n->body->size;
	ob->ops->on_settled(ob->ctx, n->session, n->body->size);
	if (n->is_transient && n->session == 0)
		ob->ops->on_transient(ob->ctx, n->id);
	if (n == n->to->queue)
		outbox_advance(n->to);
}

static void probe_in(struct outbox_caller *a, int64_t us)
{
	if (a->unroutable && a->ob->up && (!timer_is_set(&a->probe) || a->probe.at_us > clock_boot_us() + us))
		timer_set(a->ob->timers, &a->probe, clock_boot_us() + us);
}

static int64_t grown(int64_t backoff_us)
{
	return backoff_us == 0 ? BACKOFF_MIN : backoff_us * 2 > BACKOFF_MAX ? BACKOFF_MAX : backoff_us * 2;
}

/* An entry of the resend queue is done; the last one makes room for the next probe. */
static void resend_done(struct entry *n)
{
	struct outbox_caller *a = n->to;

	outbox_resend_remove(n);
	if (a->resend_count == 0)
		probe_in(a, a->probe_backoff_us);
}

static void on_confirmed(struct entry *n)
{
	struct outbox_caller *a = n->to;

	CRASH_POINT(outbox_confirmed);
	a->ob->stats.confirmed++;
	a->ob->confirmed_at_us = clock_boot_us();
	if (n->nacks_before == a->nacks) { /* sent after the last nack: it goes better */
		a->backoff_us = 0;
		if ((a->limit *= 2) > a->ob->share)
			a->limit = a->ob->share;
	}
	switch (n->kind) {
	case LIVE:
		settle_live(n);
		/* A queue is bound again: retry unroutable messages soon. */
		if (a->unroutable && a->resend_count == 0)
			probe_in(a, BACKOFF_MIN);
		break;
	case RETRY_UNROUTABLE:
		store_drop_unroutable(a->ob->store, n->id);
		CRASH_POINT(outbox_routed_again);
		a->probe_backoff_us = 0;
		resend_done(n);
		break;
	case RESEND_ANSWER: resend_done(n); break;
	case REPLAY: outbox_replay_done(n); break;
	}
}

/* No queue took the probe: the messages after it would come back as well. */
static void give_up_probing(struct outbox_caller *a)
{
	struct entry *n, *tmp;

	if (!timer_is_set(&a->probe)) { /* else one of several that were under way */
		a->probe_backoff_us = grown(a->probe_backoff_us);
		probe_in(a, a->probe_backoff_us);
	}
	a->probed = 0; /* start again with the oldest */
	DL_FOREACH_SAFE(a->resend_queue, n, tmp)
		if (n->kind == RETRY_UNROUTABLE && n->state == WAITING)
			outbox_resend_remove(n);
}

static void on_unroutable(struct entry *n)
{
	struct outbox_caller *a = n->to;
	struct outbox *ob = a->ob;
	bool fleeting = n->is_transient; /* settling frees it */
	bool is_harp = n->out.exchange == BUS_TO_HARP;

	ob->stats.unroutable += !is_harp;
	switch (n->kind) {
	case LIVE:
		if (!fleeting) {
			store_put_unroutable(ob->store, n->id, a->key);
			a->unroutable_turn = ob->turn;
		}
		if (!is_harp) /* its caller misses nothing of its own */
			ob->ops->on_unroutable(ob->ctx, n->session, n->out.correlation_id, a->caller_id);
		CRASH_POINT(outbox_unroutable);
		settle_live(n);
		if (!a->unroutable && !fleeting) {
			a->unroutable = true;
			a->probe_backoff_us = BACKOFF_MIN;
			probe_in(a, BACKOFF_MIN);
		}
		break;
	case RETRY_UNROUTABLE:
		give_up_probing(a);
		resend_done(n);
		break;
	case RESEND_ANSWER: resend_done(n); break;
	case REPLAY:
		outbox_replay_done(n);
		outbox_replay_give_up(a, "no queue takes it");
		break;
	}
}

static void back_off(struct outbox_caller *a)
{
	struct entry *n;

	a->limit = 1;
	a->nacks++;
	a->backoff_us = grown(a->backoff_us);
	timer_set(a->ob->timers, &a->backoff, clock_boot_us() + a->backoff_us);
	/* This caller sends one message at a time from now on: the other callers need not. */
	DL_FOREACH(a->queue, n)
		if (n->was_in_flight_at_close) {
			n->was_in_flight_at_close = false;
			a->ob->suspects--;
		}
	DL_FOREACH(a->resend_queue, n)
		if (n->was_in_flight_at_close) {
			n->was_in_flight_at_close = false;
			a->ob->suspects--;
		}
}

static void wait_again(struct entry *n)
{
	struct outbox_caller *a = n->to;

	n->state = WAITING;
	if (n->kind == LIVE)
		a->cursor = a->queue;
	outbox_ring_add(a);
}

static void on_nacked(struct entry *n)
{
	struct outbox_caller *a = n->to;

	CRASH_POINT(outbox_nacked);
	a->ob->stats.nacked++;
	wait_again(n);
	if (!timer_is_set(&a->backoff)) {
		back_off(a);
		log_warn("broker refused a message, going on one at a time: caller=%s again_in=%llds",
			a->caller_id, (long long)(a->backoff_us / SECOND));
	}
}

static void settle(struct outbox *ob, struct entry *n)
{
	assert(n->state == SENT);
	n->to->sent--;
	n->to->sent_bytes -= (int64_t)n->out.size;
	ob->in_flight--;
	ob->in_flight_bytes -= (int64_t)n->out.size;
	outbox_ring_add(n->to);
	if (n->was_in_flight_at_close && n->out.status != BUS_LOST) {
		n->was_in_flight_at_close = false;
		ob->suspects--;
	}
	switch (n->out.status) {
	case BUS_CONFIRMED: on_confirmed(n); break;
	case BUS_UNROUTABLE: on_unroutable(n); break;
	case BUS_NACKED: on_nacked(n); break;
	case BUS_LOST:
		ob->stats.lost++;
		wait_again(n);
		break;
	}
}

void outbox_on_settled(struct outbox *ob, struct bus_out *outs)
{
	while (outs != NULL) {
		struct entry *n = (struct entry *)(void *)outs;

		outs = outs->next;
		settle(ob, n);
	}
}

#define UNPUBLISHABLE "\"event_unpublishable: the broker refuses this message, the callee keeps it\""

/* The row keeps the original message. The substitute goes out under the same id and sequence. */
static void replaced(struct outbox *ob, struct entry *n, const char *why)
{
	struct jslice payload = jtext_member(n->body->data, n->body->size, "payload");
	struct jslice sequence = jtext_member(payload.at, payload.size, "sequence");
	const char *session = n->out.correlation_id[0] != '\0' ? n->out.correlation_id : NULL;
	char time[CLOCK_TEXT_SIZE];
	struct message_head head;
	struct buf b = {0};

	log_error(
		"ALARM: the broker refuses a message for good, a warning goes out in its place: caller=%s "
		"session=%s event=%lld type=%s bytes=%zu why=%s",
		n->to->caller_id, n->out.correlation_id, (long long)n->id, n->out.type, n->out.size, why);
	clock_format(clock_wall_us(), time);
	message_begin_as(&b, n->out.message_id, time, session, n->out.type);
	if (sequence.at != NULL) {
		buf_add_text(&b, "{\"event_type\":\"warning\",\"sequence\":");
		buf_add(&b, sequence.at, sequence.size);
		buf_add_text(
			&b, ",\"data\":{\"code\":\"event_unpublishable\",\"message\":" UNPUBLISHABLE "}}");
	} else if (strcmp(n->out.type, "task_failed") == 0) {
		buf_add_text(&b, "{\"error_code\":\"internal_error\",\"error_message\":" UNPUBLISHABLE "}");
	} else {
		buf_add_text(&b, "{\"outputs\":{},\"execution_summary\":{\"warnings\":[" UNPUBLISHABLE "]}}");
	}
	message_end(&b);
	ob->stats.replaced++;
	store_put_substitute(ob->store, n->id, b.data, b.size);
	CRASH_POINT(outbox_substituted);
	ob->memory_bytes -= n->body->size;
	if (n->kind == LIVE) { /* others were settled before and do not count */
		ob->waiting_bytes -= (int64_t)n->body->size - (int64_t)b.size;
		if (n->body->size > b.size)
			ob->ops->on_settled(ob->ctx, n->session, n->body->size - b.size);
	}
	blob_unref(n->body);
	n->body = blob_new(b.data, b.size);
	ob->memory_bytes += n->body->size;
	n->out.body = n->body->data;
	n->out.size = n->body->size;
	if (message_peek(b.data, b.size, &head))
		n->out.timestamp_s = head.timestamp_s;
	n->state = UNCOMMITTED;
	n->also = ob->held;
	ob->held = n;
	buf_fini(&b);
}

/* An event on harp.sessions may only have fields of HARP-SESSION: no substitute exists, so it is skipped. */
static void drop_harp(struct outbox *ob, struct entry *n, const char *why)
{
	log_error(
		"ALARM: the broker refuses a HARP-SESSION event for good, it is not published: caller=%s "
		"session=%s event=%lld type=%s bytes=%zu why=%s",
		n->to->caller_id, n->out.correlation_id, (long long)n->id, n->out.type, n->out.size, why);
	ob->stats.replaced++;
	settle_live(n);
}

static void blame(struct outbox *ob, struct entry *n, int code, const char *why)
{
	bool is_answer =
		strcmp(n->out.type, "task_accepted") == 0 || strcmp(n->out.type, "task_rejected") == 0;
	struct outbox_caller *a = n->to;

	/* Answers are small, and have no substitute: the broker does not refuse them for their size. */
	if (code == 406 && n->kind == REPLAY) {
		outbox_replay_done(n); /* no substitute: the original was published before */
		outbox_replay_give_up(a, why);
	} else if (code == 403 || (code == 406 && is_answer)) {
		back_off(n->to);
		log_error(
			"broker forbids publishing to a caller, check topic permissions: caller=%s "
			"again_in=%llds why=%s",
			n->to->caller_id, (long long)(n->to->backoff_us / SECOND), why);
	} else if (code == 406 && ++n->refusals >= 2) {
		if (n->was_in_flight_at_close) {
			n->was_in_flight_at_close = false;
			ob->suspects--;
		}
		if (n->out.exchange == BUS_TO_HARP)
			drop_harp(ob, n, why);
		else
			replaced(ob, n, why);
	}
}

void outbox_on_down(struct outbox *ob, struct bus_out *outs, int code, const char *why)
{
	/* 320: the operator closed the connection, so no message caused it. The same holds without a code. */
	bool careful = code != 0 && code != 320;
	struct entry *only = outs != NULL && outs->next == NULL ? (struct entry *)(void *)outs : NULL;

	CRASH_POINT(outbox_down);
	ob->up = false;
	while (outs != NULL) {
		struct entry *n = (struct entry *)(void *)outs;

		outs = outs->next;
		settle(ob, n);
		/* A caller that backs off sends one message at a time anyway: the other callers need not. */
		if (careful && !n->was_in_flight_at_close && !timer_is_set(&n->to->backoff)) {
			n->was_in_flight_at_close = true;
			ob->suspects++;
		}
	}
	if (careful && only != NULL)
		blame(ob, only, code, why);
}

void outbox_on_up(struct outbox *ob)
{
	struct outbox_caller *a, *tmp;

	ob->up = true;
	HASH_ITER(hh, ob->all, a, tmp)
		probe_in(a, BACKOFF_MIN);
}

/* ---- clocks ---- */

void outbox_on_backoff_over(struct timer *t)
{
	outbox_ring_add(container_of(t, struct outbox_caller, backoff));
}

/* Sends the oldest unroutable message alone. Once a queue takes it, the others follow, LOAD_ROWS at a time.
 */
void outbox_on_probe(struct timer *t)
{
	struct outbox_caller *a = container_of(t, struct outbox_caller, probe);
	bool found_routed = a->probe_backoff_us == 0 && a->probed != 0;
	struct loading l = {a, RETRY_UNROUTABLE, 0, false};

	if (a->resend_count > 0) { /* an answer is being repeated */
		probe_in(a, BACKOFF_MIN);
		return;
	}
	if (!a->ob->up)
		return; /* outbox_on_up sets it again */
	CRASH_POINT(outbox_probe);
	if (!found_routed)
		a->probed = 0;
	if (store_load_unroutable(
		    a->ob->store, a->key, a->probed, found_routed ? LOAD_ROWS : 1, outbox_on_row, &l) < 0) {
		log_warn("unroutable messages cannot be read, trying again: error=%s",
			store_error(a->ob->store));
		probe_in(a, BACKOFF_MAX);
	} else if (l.is_cut && l.rows == 0) {
		probe_in(a, BACKOFF_MIN);
	} else if (l.rows == 0) {
		/* look again from the start: new unroutable rows may have come meanwhile; those of this turn
		 * are not committed, and so not seen */
		a->unroutable = a->probed != 0 || a->unroutable_turn == a->ob->turn;
		a->probed = 0;
		if (a->unroutable) {
			a->probe_backoff_us = BACKOFF_MIN;
			probe_in(a, BACKOFF_MIN);
		}
	}
}
