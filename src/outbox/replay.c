/* SPDX-License-Identifier: MIT */
/* replay.c: publishes the messages of a session again on an operator's request, byte for byte and in order.
 * Owns which rows are due. A replayed message moves no watermark and changes nothing in the store. Replays
 * end with this run of the daemon. Never composes or changes a message. */
#include "outbox/outbox_private.h"

#include <stdlib.h>

#include "base/crashpoint.h"
#include "base/log.h"

#define REPLAYS_MAX 16 /* of one caller */
#define REPLAY_ROWS 64 /* in memory at a time: live messages need it more */

bool outbox_replay(struct outbox *ob, struct outbox_caller *a, int64_t session, int64_t after, int64_t upto)
{
	struct replay *r;

	(void)ob;
	if (a->replay_count >= REPLAYS_MAX)
		return false;
	r = xcalloc(1, sizeof *r);
	r->session = session;
	r->after = after;
	r->upto = upto;
	/* What waits now goes first: of the same session it would else come before its time. Behind a commit
	 * that had to be tried again there are rows up to upto that are not released yet. */
	r->behind = a->last > upto ? a->last : upto;
	DL_APPEND(a->replays, r);
	a->replay_count++;
	outbox_ring_add(a);
	return true;
}

static void drop(struct outbox_caller *a, struct replay *r)
{
	DL_DELETE(a->replays, r);
	a->replay_count--;
	free(r);
}

static void load(struct outbox_caller *a)
{
	struct replay *r = a->replays;
	struct loading l = {a, REPLAY, 0, false};

	CRASH_POINT(replay_loading);
	if (store_load_replay(a->ob->store, r->session, r->after, r->upto, REPLAY_ROWS, outbox_on_row, &l) <
		0) {
		log_warn("a replay cannot be read, trying again: error=%s", store_error(a->ob->store));
		timer_set(a->ob->timers, &a->backoff, clock_boot_us() + BACKOFF_MIN);
		return;
	}
	r->sent += l.rows;
	if (l.rows > 0)
		r->after = a->resend_queue->prev->id; /* the list's last one */
	if (l.rows < REPLAY_ROWS && !l.is_cut)
		r->after = r->upto; /* outbox_replay_done logs it at the last confirm */
}

struct entry *outbox_replay_next(struct outbox_caller *a)
{
	struct entry *n;

	if (a->replays != NULL && a->replayed == 0 && a->replays->after < a->replays->upto &&
		a->confirmed >= a->replays->behind)
		load(a);
	if (a->replays != NULL && a->replayed == 0 && a->replays->after >= a->replays->upto) {
		drop(a, a->replays); /* there were no rows at all */
		outbox_ring_add(a);
	}
	if (a->replayed > 0)
		DL_FOREACH(a->resend_queue, n)
			if (n->kind == REPLAY && n->state == WAITING)
				return n;
	return NULL;
}

void outbox_replay_done(struct entry *n)
{
	struct outbox_caller *a = n->to;
	struct replay *r = a->replays;

	CRASH_POINT(replay_confirmed);
	outbox_resend_remove(n);
	if (r == NULL || a->replayed > 0 || r->after < r->upto)
		return; /* given up meanwhile, or there is more */
	log_info("replayed: caller=%s messages=%lld", a->caller_id, (long long)r->sent);
	drop(a, r);
}

void outbox_replay_give_up(struct outbox_caller *a, const char *why)
{
	struct entry *n, *tmp;

	if (a->replay_count > 0)
		log_warn("a replay is given up, ask for it again: caller=%s why=%s", a->caller_id, why);
	DL_FOREACH_SAFE(a->resend_queue, n, tmp)
		if (n->kind == REPLAY && n->state == WAITING)
			outbox_resend_remove(n);
	outbox_replay_fini(a);
}

void outbox_replay_fini(struct outbox_caller *a)
{
	while (a->replays != NULL)
		drop(a, a->replays);
}
