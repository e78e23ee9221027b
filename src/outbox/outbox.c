/* SPDX-License-Identifier: MIT */
/* outbox.c: messages from the commit to the bus, in order for each caller.
 * Owns the queues of messages and the in-flight window. confirm.c has what comes back from the broker. Never
 * composes an event (core/session.c), never touches a socket (bus.c).
 *
 * Each caller has a queue: entries in order of their ids, each waiting, sent or settled. The outbox drops
 * settled entries at the head of the queue. The id of the last one is the caller's watermark: everything up
 * to it is done. The queue holds the first of the messages in the store. A caller whose queue does not hold
 * all of them lags; the outbox fills its queue from the store as the queue gets short. Each caller also has a
 * short resend queue, for messages that go out again: unroutable messages, answers to a repeated submit, and,
 * when nothing else waits, replays for an operator (replay.c). */
#include "outbox/outbox_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/crashpoint.h"
#include "base/log.h"
#include "base/text.h"

#define QUEUE_MAX 4096          /* entries of one caller in memory ... */
#define MEMORY_MAX (8 << 20)    /* ... and bodies of all, but one row of each caller is always allowed */
#define CALLERS_MAX 4096        /* idle ones above that are forgotten; the store knows them */
#define CROWD (4 * CALLERS_MAX) /* strangers get no answer any more */
#define START_DROPS_MAX 10000   /* names without a message that leave the store at a start */
#define RESENDS_MAX 64          /* repeated answers that wait, for one caller */
#define TURN_SHARE 64           /* entries in a row for one caller before the next has its turn */

/* ---- callers ---- */

void outbox_ring_add(struct outbox_caller *a)
{
	if (!a->in_ring) {
		DL_APPEND2(a->ob->ring, a, ring_prev, ring_next);
		a->in_ring = true;
	}
}

static void ring_remove(struct outbox_caller *a)
{
	if (a->in_ring) {
		DL_DELETE2(a->ob->ring, a, ring_prev, ring_next);
		a->in_ring = false;
	}
}

static bool is_idle(const struct outbox_caller *a)
{
	return a->pins == 0 && a->queue == NULL && a->resend_queue == NULL && a->replays == NULL &&
		a->loaded == a->last && !a->unsaved && a->confirmed == a->last && !a->unroutable &&
		!timer_is_set(&a->backoff);
}

static void outbox_caller_free(struct outbox_caller *a)
{
	timer_cancel(a->ob->timers, &a->backoff);
	timer_cancel(a->ob->timers, &a->probe);
	ring_remove(a);
	HASH_DEL(a->ob->all, a);
	free(a);
}

/* Neither memory nor the store may grow with the number of callers, because a stranger can claim any name.
 * Runs only after a commit: before it a caller may be new, or have uncommitted messages. */
static void forget_idle(struct outbox *ob)
{
	struct outbox_caller *a, *tmp;

	HASH_ITER(hh, ob->all, a, tmp)
		if (is_idle(a)) {
			store_drop_caller(ob->store, a->key);
			outbox_caller_free(a);
			ob->drops_callers = true;
		}
}

static struct outbox_caller *outbox_caller_new(struct outbox *ob, const char *caller_id, int64_t key)
{
	struct outbox_caller *a = xcalloc(1, sizeof *a);

	a->key = key;
	a->ob = ob;
	a->limit = ob->share;
	a->backoff.on_due = outbox_on_backoff_over;
	a->probe.on_due = outbox_on_probe;
	text_copy(a->caller_id, sizeof a->caller_id, caller_id);
	HASH_ADD_STR(ob->all, caller_id, a);
	return a;
}

struct outbox_caller *outbox_find_caller(struct outbox *ob, const char *caller_id)
{
	struct outbox_caller *a;
	int64_t key = 0, confirmed = 0, last = 0;
	int found;

	HASH_FIND_STR(ob->all, caller_id, a);
	if (a != NULL)
		return a;
	if ((found = store_find_caller(ob->store, caller_id, &key, &confirmed, &last)) < 0)
		return NULL;
	if (found == 0) {
		key = ++ob->last_caller;
		store_put_caller(ob->store, key, caller_id);
	} else if (ob->drops_callers) {
		store_keep_caller(ob->store, key, caller_id, confirmed);
	}
	a = outbox_caller_new(ob, caller_id, key);
	/* a forgotten caller was idle */
	a->confirmed = a->loaded = a->last = last > confirmed ? last : confirmed;
	return a;
}

void outbox_drop_caller(struct outbox *ob, int64_t key, const char *caller_id)
{
	struct outbox_caller *a;

	HASH_FIND_STR(ob->all, caller_id, a);
	if (a != NULL) /* it may get a message in this turn; forget_idle drops it later */
		return;
	store_drop_caller(ob->store, key);
	ob->drops_callers = true;
}

void outbox_caller_pin(struct outbox_caller *a)
{
	a->pins++;
}

void outbox_caller_unpin(struct outbox_caller *a)
{
	a->pins--;
}

int64_t outbox_caller_key(const struct outbox_caller *a)
{
	return a->key;
}

/* ---- entries ---- */

static const char *static_type(const char *type)
{
	static const char *const types[] = {
		"event", "task_accepted", "task_rejected", "task_completed", "task_failed"};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i], type) == 0)
			return types[i];
	assert(false && "a message of ours");
	return NULL;
}

static void fill_out(struct entry *n, const struct store_event *e)
{
	struct message_head head = {.timestamp_s = 0};

	if (!message_peek(n->body->data, n->body->size, &head))
		log_error("an event in the store is no message of ours, publishing it as it is: event=%lld",
			(long long)e->id);
	n->out.type = static_type(e->type);
	names_event_key(n->out.key, sizeof n->out.key, n->to->caller_id, e->session_id, n->out.type);
	memcpy(n->out.message_id, head.message_id, sizeof n->out.message_id);
	n->out.timestamp_s = head.timestamp_s;
}

/* Takes the body's reference. */
static struct entry *entry_new(
	struct outbox_caller *a, enum entry_kind kind, const struct store_event *e, struct blob *body)
{
	struct entry *n = xcalloc(1, sizeof *n);

	n->to = a;
	n->kind = kind;
	n->id = e->id;
	n->session = e->session;
	n->is_transient = e->is_transient;
	n->body = body;
	if (strcmp(e->type, OUTBOX_HARP) == 0)
		outbox_fill_harp(n, e);
	else
		fill_out(n, e);
	text_copy(n->out.correlation_id, sizeof n->out.correlation_id,
		e->session_id != NULL ? e->session_id : "");
	n->out.body = body->data;
	n->out.size = body->size;
	a->ob->memory_bytes += body->size;
	return n;
}

void outbox_entry_free(struct entry *n)
{
	n->to->ob->memory_bytes -= n->body->size;
	blob_unref(n->body);
	free(n);
}

static void queue_append(struct outbox_caller *a, struct entry *n)
{
	DL_APPEND(a->queue, n);
	a->queue_count++;
	a->loaded = n->id;
	if (a->cursor == NULL)
		a->cursor = n;
	outbox_ring_add(a);
}

static void resend_append(struct outbox_caller *a, struct entry *n)
{
	DL_APPEND(a->resend_queue, n);
	(*(n->kind == REPLAY ? &a->replayed : &a->resend_count))++;
	outbox_ring_add(a);
}

void outbox_resend_remove(struct entry *n)
{
	struct outbox_caller *a = n->to;

	DL_DELETE(a->resend_queue, n);
	(*(n->kind == REPLAY ? &a->replayed : &a->resend_count))--;
	if (n->was_in_flight_at_close)
		a->ob->suspects--;
	outbox_entry_free(n);
}

static bool memory_is_full(const struct outbox_caller *a)
{
	return a->queue_count >= QUEUE_MAX || (a->ob->memory_bytes >= MEMORY_MAX && a->queue != NULL);
}

/* ---- in: from the core ---- */

int64_t outbox_put(struct outbox *ob, struct outbox_caller *a, struct store_event *e)
{
	struct entry *n;

	e->id = ++ob->last_event;
	e->caller = a->key;
	store_put_event(ob->store, e);
	CRASH_POINT(outbox_put);
	n = entry_new(a, LIVE, e, blob_ref(e->body));
	*ob->fresh_end = n;
	ob->fresh_end = &n->also;
	ob->waiting_bytes += e->body->size;
	return e->id;
}

void outbox_release(struct outbox *ob)
{
	struct entry *n, *next;

	ob->turn++;
	ob->drops_callers = false;
	for (n = ob->fresh; n != NULL; n = next) {
		struct outbox_caller *a = n->to;
		bool live = a->loaded == a->last && !memory_is_full(a);

		next = n->also;
		n->also = NULL;
		a->last = n->id;
		CRASH_POINT(outbox_released);
		if (live)
			queue_append(a, n);
		else
			outbox_entry_free(n); /* the store has it */
		outbox_ring_add(a);
	}
	ob->fresh = NULL;
	ob->fresh_end = &ob->fresh;
	for (n = ob->held; n != NULL; n = next) {
		next = n->also;
		n->also = NULL;
		n->state = WAITING;
		n->to->cursor = n->to->queue;
		outbox_ring_add(n->to);
	}
	ob->held = NULL;
	if (HASH_COUNT(ob->all) > ob->forget_at) {
		forget_idle(ob); /* not in every turn: most callers cannot be forgotten */
		ob->forget_at = 2 * HASH_COUNT(ob->all) > CALLERS_MAX ? 2 * HASH_COUNT(ob->all) : CALLERS_MAX;
	}
}

bool outbox_is_crowded(const struct outbox *ob)
{
	return HASH_COUNT(ob->all) > CROWD;
}

/* False once memory is full, which a few large rows can do. */
bool outbox_on_row(void *ctx, const struct store_event *e)
{
	struct loading *l = ctx;
	struct entry *n;

	/* A row above the watermark is not retried yet: the queue did not pass it. */
	if ((l->rows > 0 && l->a->ob->memory_bytes >= MEMORY_MAX) ||
		(l->kind == RETRY_UNROUTABLE && e->id > l->a->confirmed)) {
		l->is_cut = true;
		return false;
	}
	n = entry_new(l->a, l->kind, e, blob_new(e->bytes, e->size));
	l->rows++;
	if (l->kind == LIVE)
		queue_append(l->a, n);
	else
		resend_append(l->a, n);
	if (l->kind == RETRY_UNROUTABLE)
		l->a->probed = e->id;
	return true;
}

void outbox_resend(struct outbox *ob, struct outbox_caller *a, int64_t event)
{
	struct loading l = {a, RESEND_ANSWER, 0, false};

	if (a->resend_count >= RESENDS_MAX)
		return; /* too many wait already: the caller sends its submit again */
	CRASH_POINT(outbox_resend);
	if (store_load_event(ob->store, event, outbox_on_row, &l) < 0)
		log_warn("an answer cannot be read and is not repeated: event=%lld error=%s",
			(long long)event, store_error(ob->store));
}

/* ---- out: to the bus ---- */

static void refill(struct outbox_caller *a)
{
	struct loading l = {a, LIVE, 0, false};

	if (a->loaded >= a->last || a->queue_count > LOAD_ROWS / 2 || memory_is_full(a))
		return;
	CRASH_POINT(outbox_refill);
	if (store_load_events(a->ob->store, a->key, a->loaded, LOAD_ROWS, outbox_on_row, &l) < 0) {
		log_warn("the outbox cannot be read, trying again: error=%s", store_error(a->ob->store));
		timer_set(a->ob->timers, &a->backoff, clock_boot_us() + BACKOFF_MIN);
	} else if (l.rows < LOAD_ROWS && !l.is_cut) {
		a->loaded = a->last;
		outbox_advance(a);
	}
}

static struct entry *next_waiting(struct outbox_caller *a)
{
	struct entry *n;

	/* A replay comes after everything else. A suspect makes all messages wait. */
	DL_FOREACH(a->resend_queue, n)
		if (n->state == WAITING && (n->kind != REPLAY || n->was_in_flight_at_close))
			return n;
	while (a->cursor != NULL && a->cursor->state != WAITING)
		a->cursor = a->cursor->next;
	if (a->cursor == NULL)
		refill(a); /* sets the cursor to the first new entry */
	return a->cursor != NULL ? a->cursor : outbox_replay_next(a);
}

static bool has_window(const struct outbox *ob)
{
	return ob->in_flight < (ob->suspects > 0 ? 1 : ob->window) && ob->in_flight_bytes < ob->window_bytes;
}

static void send(struct outbox *ob, struct entry *n, struct bus_out ***tail)
{
	CRASH_POINT(outbox_sending);
	n->state = SENT;
	n->sent_at_us = clock_boot_us();
	n->nacks_before = n->to->nacks;
	n->out.next = NULL;
	n->to->sent++;
	n->to->sent_bytes += (int64_t)n->out.size;
	ob->in_flight++;
	ob->in_flight_bytes += (int64_t)n->out.size;
	**tail = &n->out;
	*tail = &n->out.next;
}

/* Sends up to a share of one caller's messages. True: the caller may have more, once the window has room. */
static bool send_share(struct outbox *ob, struct outbox_caller *a, struct bus_out ***tail)
{
	for (int i = 0; i < TURN_SHARE; i++) {
		struct entry *n;

		if (!has_window(ob))
			return true;
		if (a->sent >= a->limit || a->sent_bytes >= ob->share_bytes || timer_is_set(&a->backoff) ||
			(n = next_waiting(a)) == NULL)
			return false; /* a confirm, the timer or a new message puts the caller into the ring
					 again */
		send(ob, n, tail);
	}
	return true;
}

/* After the broker closed the channel: sends one of the messages that were in flight then, alone. */
static void send_suspect(struct outbox *ob, struct bus_out ***tail)
{
	struct outbox_caller *a;
	struct entry *n;

	DL_FOREACH2(ob->ring, a, ring_next)
	if (a->sent < a->limit && !timer_is_set(&a->backoff) && (n = next_waiting(a)) != NULL &&
		n->was_in_flight_at_close) {
		send(ob, n, tail);
		return;
	}
}

void outbox_pump(struct outbox *ob)
{
	struct bus_out *list = NULL, **tail = &list;

	if (ob->up && ob->suspects > 0 && has_window(ob))
		send_suspect(ob, &tail);
	/* A caller that had its share goes to the end of the ring: no backlog delays another caller. */
	while (ob->up && ob->ring != NULL && has_window(ob)) {
		struct outbox_caller *a = ob->ring;

		ring_remove(a);
		if (send_share(ob, a, &tail))
			outbox_ring_add(a);
	}
	if (list != NULL)
		bus_publish(ob->bus, list);
}

/* ---- lifecycle ---- */

struct outbox *outbox_new(struct store *store, struct bus *bus, struct timers *timers,
	const struct config *config, const struct outbox_ops *ops, void *ctx)
{
	struct outbox *ob = xcalloc(1, sizeof *ob);

	ob->store = store;
	ob->bus = bus;
	ob->timers = timers;
	ob->ops = ops;
	ob->ctx = ctx;
	ob->window = (unsigned)config->amqp.window_messages;
	ob->share = ob->window - ob->window / 64 * 8;
	ob->window_bytes = config->amqp.window_bytes;
	ob->share_bytes = ob->window_bytes - ob->window_bytes / 8;
	ob->forget_at = CALLERS_MAX;
	ob->last_event = store_last_event(store);
	ob->last_caller = store_last_caller(store);
	ob->fresh_end = &ob->fresh;
	return ob;
}

static void on_backlog(void *ctx, int64_t session, int64_t bytes)
{
	struct outbox *ob = ctx;

	ob->waiting_bytes += bytes;
	ob->ops->on_backlog(ob->ctx, session, bytes);
}

static void drop_at_start(struct outbox *ob, int64_t key, const char *caller_id)
{
	if (ob->start_drops == START_DROPS_MAX)
		return; /* the next start goes on: one transaction stays small */
	ob->start_drops++;
	outbox_drop_caller(ob, key, caller_id);
}

static void on_caller(
	void *ctx, int64_t key, const char *caller_id, int64_t confirmed, int64_t last, int64_t unroutable)
{
	struct outbox *ob = ctx;
	struct outbox_caller *a;

	if (last == 0) /* its messages are gone; it was in memory when the previous run ended */
		drop_at_start(ob, key, caller_id);
	if (last <= confirmed && unroutable == 0)
		return;
	a = outbox_caller_new(ob, caller_id, key);
	a->confirmed = a->loaded = confirmed;
	CRASH_POINT(outbox_backlog);
	a->last = last > confirmed ? last : confirmed;
	a->unroutable = unroutable != 0;
	a->probe_backoff_us = BACKOFF_MIN;
	if (a->loaded < a->last)
		outbox_ring_add(a);
}

int outbox_load(struct outbox *ob)
{
	struct outbox_caller *a, *tmp;

	if (store_load_callers(ob->store, on_caller, ob) < 0)
		return -1;
	HASH_ITER(hh, ob->all, a, tmp)
		if (a->loaded < a->last &&
			store_load_backlog(ob->store, a->key, a->loaded, on_backlog, ob) < 0)
			return -1;
	return 0;
}

static void free_list(struct entry *list)
{
	struct entry *n, *tmp;

	DL_FOREACH_SAFE(list, n, tmp)
		outbox_entry_free(n);
}

void outbox_free(struct outbox *ob)
{
	struct outbox_caller *a, *tmp;
	struct entry *n, *next;

	for (n = ob->fresh; n != NULL; n = next) {
		next = n->also;
		outbox_entry_free(n);
	}
	HASH_ITER(hh, ob->all, a, tmp) {
		free_list(a->queue);
		free_list(a->resend_queue);
		outbox_replay_fini(a);
		outbox_caller_free(a);
	}
	free(ob);
}

unsigned outbox_unsaved(const struct outbox *ob)
{
	return ob->unsaved_count;
}

void outbox_save(struct outbox *ob)
{
	for (struct outbox_caller *a = ob->unsaved; a != NULL; a = a->unsaved_next) {
		CRASH_POINT(outbox_before_save);
		store_save_confirmed(ob->store, a->key, a->confirmed);
		CRASH_POINT(outbox_saved);
		a->unsaved = false;
	}
	ob->unsaved = NULL;
	ob->unsaved_count = 0;
}

bool outbox_is_empty(const struct outbox *ob)
{
	return ob->in_flight == 0 && ob->waiting_bytes == 0;
}

int64_t outbox_quiet_us(const struct outbox *ob, int64_t now_us)
{
	int64_t oldest = outbox_oldest_us(ob, now_us);

	return oldest < now_us - ob->confirmed_at_us ? oldest : now_us - ob->confirmed_at_us;
}

int64_t outbox_oldest_us(const struct outbox *ob, int64_t now_us)
{
	struct outbox_caller *a, *tmp;
	int64_t oldest = now_us + 1;
	struct entry *n;

	if (ob->in_flight == 0)
		return -1;
	HASH_ITER(hh, ob->all, a, tmp) {
		DL_FOREACH(a->queue, n)
			if (n->state == SENT && n->sent_at_us < oldest)
				oldest = n->sent_at_us;
		DL_FOREACH(a->resend_queue, n)
			if (n->state == SENT && n->sent_at_us < oldest)
				oldest = n->sent_at_us;
	}
	return now_us - oldest;
}

void outbox_get_stats(const struct outbox *ob, struct outbox_stats *st)
{
	*st = ob->stats;
	st->waiting_bytes = ob->waiting_bytes;
	st->in_flight = ob->in_flight;
}
