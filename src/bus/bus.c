/* SPDX-License-Identifier: MIT */
/* bus.c: the core's side of the bus: the queues between the threads, and the start and end of the threads.
 * Owns the messages that are handed over, in both directions, and the connection generation that each is
 * meant for. Never says what a message means (protocol/message.c), never touches a connection (thread.c). */
#include "bus/bus_private.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define STOP_POLITE_MS 600 /* then bus_stop shuts the sockets down ... */
#define STOP_HARD_MS 400   /* ... and then it leaves the threads behind */
/* librabbitmq decodes headers by recursion. A hostile table in a frame of 128 KiB needs between 1 and 3 MiB
 * of stack. The size is set here, so that no ulimit makes it less. */
#define STACK_SIZE (8u << 20)

/* --- small things --- */

void out_list_init(struct out_list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

void out_list_add(struct out_list *list, struct bus_out *o)
{
	o->next = NULL;
	*list->end = o;
	list->end = &o->next;
}

void out_list_join(struct out_list *to, struct out_list *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	out_list_init(from);
}

struct bus_in *bus_in_new(enum bus_in_kind kind)
{
	struct bus_in *in = xcalloc(1, sizeof *in);

	in->kind = kind;
	return in;
}

void bus_in_free(struct bus_in *in)
{
	if (!in)
		return;
	free(in->body);
	free(in);
}

bool bus_put_in_locked(struct bus *b, struct bus_in *list)
{
	bool needs_wake = !b->wake_pending;

	*b->in_end = list;
	while (*b->in_end)
		b->in_end = &(*b->in_end)->next;
	b->wake_pending = true;
	return needs_wake;
}

/* Under a lock of its own: after bus_stop set `stopping`, no thread calls wake(). */
void bus_wake(struct bus *b)
{
	pthread_mutex_lock(&b->wake_lock);
	if (!b->stopping)
		b->wake(b->ctx);
	pthread_mutex_unlock(&b->wake_lock);
}

void bus_put_in(struct bus *b, struct bus_in *list)
{
	bool needs_wake;

	if (!list)
		return;
	pthread_mutex_lock(&b->lock);
	needs_wake = bus_put_in_locked(b, list);
	pthread_mutex_unlock(&b->lock);
	if (needs_wake)
		bus_wake(b);
}

/* Without this the queue would grow with each reconnect while the core is suspended and takes nothing. */
bool bus_take_back_locked(struct bus *b, enum bus_in_kind up)
{
	struct bus_in *in, **at = &b->in;
	bool was_up = false;

	while ((in = *at)) {
		if (in->kind != up && (in->kind != BUS_DELIVERY || up != BUS_SUB_UP)) {
			at = &in->next;
			continue;
		}
		was_up |= in->kind == up;
		*at = in->next;
		bus_in_free(in);
	}
	b->in_end = at;
	return was_up;
}

/* --- making and ending --- */

static char *copy_text(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static void copy_amqp(struct config_amqp *to, const struct config_amqp *from)
{
	*to = *from;
	to->url = NULL;
	to->host = copy_text(from->host);
	to->vhost = copy_text(from->vhost);
	to->user = copy_text(from->user);
	to->password = copy_text(from->password);
	to->ca_file = copy_text(from->ca_file);
	to->cert_file = copy_text(from->cert_file);
	to->key_file = copy_text(from->key_file);
}

static void bus_thread_init(struct bus_thread *t, struct bus *b, const struct bus_thread_ops *ops)
{
	t->bus = b;
	t->ops = ops;
	t->guard = GUARD_NONE;
	t->after_failure = BUS_BACKOFF_FAILURE(b->amqp.reconnect_max_us);
	t->after_soft_loss = BUS_BACKOFF_SOFT(b->amqp.reconnect_max_us);
	wakeup_init(&t->wakeup);
	t->has_ended = true;
}

struct bus *bus_new(const struct config *config, void (*wake)(void *ctx), void *ctx)
{
	struct bus *b = xcalloc(1, sizeof *b);

	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->wake_lock, NULL);
	b->refs = 1;
	b->wake = wake;
	b->ctx = ctx;
	copy_amqp(&b->amqp, &config->amqp);
	b->callee_id = xstrdup(config->callee_id);
	b->max_message = (size_t)config->max_message;
	b->wants_harp = config_wants_harp(config);
	b->in_end = &b->in;
	out_list_init(&b->outs);
	out_list_init(&b->staged);
	bus_thread_init(&b->pub, b, &pub_ops);
	bus_thread_init(&b->sub, b, &sub_ops);
	pub_state_init(b);
	sub_state_init(b);
	return b;
}

static void bus_free(struct bus *b)
{
	struct bus_in *in;

	while ((in = b->in)) {
		b->in = in->next;
		bus_in_free(in);
	}
	wakeup_close(&b->pub.wakeup);
	wakeup_close(&b->sub.wakeup);
	pub_state_free(b);
	sub_state_free(b);
	free(b->answers.list);
	free(b->staged_answers.list);
	free(b->callee_id);
	free(b->amqp.host);
	free(b->amqp.vhost);
	free(b->amqp.user);
	if (b->amqp.password)
		explicit_bzero(b->amqp.password, strlen(b->amqp.password));
	free(b->amqp.password);
	free(b->amqp.ca_file);
	free(b->amqp.cert_file);
	free(b->amqp.key_file);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->wake_lock);
	free(b);
}

void bus_unref(struct bus *b)
{
	bool last;

	pthread_mutex_lock(&b->lock);
	last = --b->refs == 0;
	pthread_mutex_unlock(&b->lock);
	if (last)
		bus_free(b);
}

static int bus_thread_start(struct bus_thread *t)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	if (wakeup_open(&t->wakeup) < 0)
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	/* The core's thread handles all signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	t->bus->refs++;
	t->has_ended = false;
	rc = pthread_create(&t->thread, &attr, bus_thread_main, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc) {
		t->bus->refs--;
		t->has_ended = true;
		errno = rc;
		return -1;
	}
	t->is_started = true;
	pthread_setname_np(t->thread, t->ops->name);
	return 0;
}

int bus_start(struct bus *b)
{
	int rc;

	pthread_mutex_lock(&b->lock);
	rc = bus_thread_start(&b->sub) < 0 || bus_thread_start(&b->pub) < 0 ? -1 : 0;
	pthread_mutex_unlock(&b->lock);
	return rc;
}

static bool wait_ended(struct bus *b, int timeout_ms)
{
	struct timespec pause = {.tv_nsec = 2000000};
	int64_t end_us = clock_boot_us() + timeout_ms * INT64_C(1000);
	bool ended;

	for (;;) {
		pthread_mutex_lock(&b->lock);
		ended = b->pub.has_ended && b->sub.has_ended;
		pthread_mutex_unlock(&b->lock);
		if (ended || clock_boot_us() >= end_us)
			return ended;
		nanosleep(&pause, NULL);
	}
}

/* Nothing can end a name look-up or a TLS handshake that hangs. Such a thread keeps its reference, and frees
 * the bus when the call returns, if the process still runs then. */
static void end_thread(struct bus_thread *t)
{
	bool ended;

	if (!t->is_started)
		return;
	pthread_mutex_lock(&t->bus->lock);
	ended = t->has_ended;
	pthread_mutex_unlock(&t->bus->lock);
	if (ended)
		pthread_join(t->thread, NULL);
	else
		pthread_detach(t->thread);
}

void bus_stop(struct bus *b)
{
	if (!b)
		return;
	bus_flush(b); /* acks of committed messages still go out */
	pthread_mutex_lock(&b->wake_lock);
	b->stopping = true;
	pthread_mutex_unlock(&b->wake_lock);
	wakeup_call(&b->pub.wakeup);
	wakeup_call(&b->sub.wakeup);
	if (!wait_ended(b, STOP_POLITE_MS)) {
		pthread_mutex_lock(&b->lock);
		guard_shut_down(&b->pub.guard);
		guard_shut_down(&b->sub.guard);
		pthread_mutex_unlock(&b->lock);
		if (!wait_ended(b, STOP_HARD_MS))
			log_info("a connection attempt hangs, leaving it behind");
	}
	end_thread(&b->pub);
	end_thread(&b->sub);
	bus_unref(b);
}

/* --- the core's verbs --- */

/* A message that the core hands over belongs to the connection generation that the core saw last. */
static void record_pub_generation(struct bus *b, const struct bus_in *in)
{
	if (in->kind == BUS_PUB_UP)
		b->seen_pub_generation = in->generation;
	else if (in->kind == BUS_PUB_DOWN)
		b->seen_pub_generation = 0;
}

static struct bus_in *settle_lost(struct out_list *list)
{
	struct bus_in *in = bus_in_new(BUS_SETTLED);

	for (struct bus_out *o = list->first; o; o = o->next)
		o->status = BUS_LOST;
	in->outs = list->first;
	out_list_init(list);
	return in;
}

struct bus_in *bus_take(struct bus *b)
{
	struct bus_in *list;

	assert(!b->staged.first); /* these would go to a connection that the core did not mean */
	pthread_mutex_lock(&b->lock);
	list = b->in;
	b->in = NULL;
	b->in_end = &b->in;
	b->wake_pending = false;
	pthread_mutex_unlock(&b->lock);
	for (struct bus_in *in = list; in; in = in->next)
		record_pub_generation(b, in);
	return list;
}

void bus_publish(struct bus *b, struct bus_out *list)
{
	if (!list)
		return;
	*b->staged.end = list;
	while (*b->staged.end)
		b->staged.end = &(*b->staged.end)->next;
}

static void add_answer(struct sub_answers *a, uint32_t generation, uint64_t tag, bool reject)
{
	if (a->count == a->room) {
		a->room = a->room ? 2 * a->room : 64;
		a->list = xrealloc(a->list, a->room * sizeof *a->list);
	}
	a->list[a->count++] = (struct sub_answer){.generation = generation, .tag = tag, .reject = reject};
}

void bus_ack(struct bus *b, uint32_t generation, uint64_t tag)
{
	add_answer(&b->staged_answers, generation, tag, false);
}

void bus_reject(struct bus *b, uint32_t generation, uint64_t tag)
{
	add_answer(&b->staged_answers, generation, tag, true);
}

/* Under the lock. Usually the consuming thread took everything, and the two arrays change places. */
static void hand_over_answers(struct bus *b)
{
	struct sub_answers *from = &b->staged_answers, empty;

	if (!from->count)
		return;
	if (b->answers.count == 0) {
		empty = b->answers;
		b->answers = *from;
		*from = empty;
	} else {
		for (size_t i = 0; i < from->count; i++)
			add_answer(&b->answers, from->list[i].generation, from->list[i].tag,
				from->list[i].reject);
		from->count = 0;
	}
}

/* Under the lock. False: the connection that these were meant for is lost. */
static bool hand_over_outs(struct bus *b)
{
	if (!b->seen_pub_generation || b->seen_pub_generation != b->pub_generation)
		return false;
	out_list_join(&b->outs, &b->staged);
	return true;
}

void bus_flush(struct bus *b)
{
	bool has_outs = b->staged.first, has_answers = b->staged_answers.count > 0, calls_pub, calls_sub;

	if (!has_outs && !has_answers)
		return;
	CRASH_POINT(bus_before_flush);
	pthread_mutex_lock(&b->lock);
	hand_over_answers(b);
	/* A few wait for the next delivery (consume.c): a quarter of those that the broker sends without an
	 * ack. */
	calls_sub = has_answers && b->answers.count >= ((size_t)b->amqp.prefetch + 3) / 4;
	calls_pub = has_outs && hand_over_outs(b);
	pthread_mutex_unlock(&b->lock);
	if (calls_pub)
		wakeup_call(&b->pub.wakeup);
	else if (has_outs)
		bus_put_in(b, settle_lost(&b->staged));
	if (calls_sub)
		wakeup_call(&b->sub.wakeup);
	CRASH_POINT(bus_flushed);
}

static void drop(struct bus_thread *t, const char *why)
{
	pthread_mutex_lock(&t->bus->lock);
	if (guard_shut_down(&t->guard))
		snprintf(t->drop_why, sizeof t->drop_why, "%s", why);
	pthread_mutex_unlock(&t->bus->lock);
}

void bus_drop_pub(struct bus *b, const char *why)
{
	drop(&b->pub, why);
}

void bus_drop_sub(struct bus *b, const char *why)
{
	drop(&b->sub, why);
}

static int64_t age_us(const struct bus_thread *t, int64_t at_us, int64_t now_us)
{
	return t->is_up ? now_us - at_us > 0 ? now_us - at_us : 0 : -1;
}

void bus_set_watchdog(struct bus *b, int64_t period_us)
{
	b->watchdog_us = period_us;
	wakeup_call(&b->pub.wakeup);
	wakeup_call(&b->sub.wakeup);
}

void bus_get_health(struct bus *b, struct bus_health *h)
{
	int64_t now_us = clock_boot_us();

	h->pub_up = b->pub.is_up;
	h->sub_up = b->sub.is_up;
	h->blocked = h->pub_up && pub_is_blocked(b);
	h->pub_frame_age_us = age_us(&b->pub, b->pub.frame_at_us, now_us);
	h->sub_frame_age_us = age_us(&b->sub, b->sub.frame_at_us, now_us);
	h->pub_progress_age_us = age_us(&b->pub, b->pub.round_at_us, now_us);
	h->sub_progress_age_us = age_us(&b->sub, b->sub.round_at_us, now_us);
	h->reconnects = b->reconnects;
}
