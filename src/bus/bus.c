/* bus.c: the core's side of the bus: the queues between the threads, and their start and end.
 * Owns what is handed over, in both directions, and which connection it is meant for.
 * Never says what a message means (codec.c); connections are bus_lane.c's. */
#include "bus/bus_private.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define STOP_POLITE_MS 600 /* then sockets are shut down ... */
#define STOP_HARD_MS 400   /* ... and then threads are left behind */
/* Headers are decoded by recursion, and a hostile table nests as deep as a frame of 128 KiB has room: that
 * takes between 1 and 3 MiB. Said here, so that no ulimit makes it less. */
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

void bus_put_in_locked(struct bus *b, struct bus_in *list)
{
	bool tell = !b->told && !b->stopping;

	*b->in_end = list;
	while (*b->in_end)
		b->in_end = &(*b->in_end)->next;
	b->told = true;
	/* Below the lock, so that bus_stop knows that no wake() comes after it. */
	if (tell)
		b->wake(b->ctx);
}

void bus_put_in(struct bus *b, struct bus_in *list)
{
	if (!list)
		return;
	pthread_mutex_lock(&b->lock);
	bus_put_in_locked(b, list);
	pthread_mutex_unlock(&b->lock);
}

/* Without this a core that is held would find, or not live to find, everything once for each reconnect. */
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

/* Below the lock. */
static void signal_lane(struct lane *l)
{
	uint64_t one = 1;

	if (l->signalled || l->wake_fd < 0)
		return;
	l->signalled = true;
	while (write(l->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
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

static void lane_init(struct lane *l, struct bus *b, const struct lane_ops *ops)
{
	l->bus = b;
	l->ops = ops;
	l->guard_fd = -1;
	l->wake_fd = -1;
	l->has_ended = true;
}

struct bus *bus_new(const struct config *config, void (*wake)(void *ctx), void *ctx)
{
	struct bus *b = xcalloc(1, sizeof *b);

	pthread_mutex_init(&b->lock, NULL);
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
	lane_init(&b->pub, b, &pub_ops);
	lane_init(&b->sub, b, &sub_ops);
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
	if (b->pub.wake_fd >= 0)
		close(b->pub.wake_fd);
	if (b->sub.wake_fd >= 0)
		close(b->sub.wake_fd);
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

static int lane_start(struct lane *l)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0)
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	/* Signals are the core's: none may interrupt, or be handled, here. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	l->bus->refs++;
	l->has_ended = false;
	rc = pthread_create(&l->thread, &attr, lane_main, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc) {
		l->bus->refs--;
		l->has_ended = true;
		errno = rc;
		return -1;
	}
	l->is_started = true;
	pthread_setname_np(l->thread, l->ops->name);
	return 0;
}

int bus_start(struct bus *b)
{
	int rc;

	pthread_mutex_lock(&b->lock);
	rc = lane_start(&b->sub) < 0 || lane_start(&b->pub) < 0 ? -1 : 0;
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

static void shut_lane(struct lane *l)
{
	if (l->guard_fd >= 0)
		shutdown(l->guard_fd, SHUT_RDWR);
}

/* A thread that hangs in a name look-up or a TLS handshake cannot be called back: it keeps its reference
 * and frees what is left when it returns, if the process lives so long. */
static void leave_lane(struct lane *l)
{
	bool ended;

	if (!l->is_started)
		return;
	pthread_mutex_lock(&l->bus->lock);
	ended = l->has_ended;
	pthread_mutex_unlock(&l->bus->lock);
	if (ended)
		pthread_join(l->thread, NULL);
	else
		pthread_detach(l->thread);
}

void bus_stop(struct bus *b)
{
	if (!b)
		return;
	bus_flush(b); /* acks of what was committed still go out */
	pthread_mutex_lock(&b->lock);
	b->stopping = true;
	b->told = true; /* no wake() from here on */
	signal_lane(&b->pub);
	signal_lane(&b->sub);
	pthread_mutex_unlock(&b->lock);
	if (!wait_ended(b, STOP_POLITE_MS)) {
		pthread_mutex_lock(&b->lock);
		shut_lane(&b->pub);
		shut_lane(&b->sub);
		pthread_mutex_unlock(&b->lock);
		if (!wait_ended(b, STOP_HARD_MS))
			log_info("a connection attempt hangs, leaving it behind");
	}
	leave_lane(&b->pub);
	leave_lane(&b->sub);
	bus_unref(b);
}

/* --- the core's verbs --- */

/* What the core knows: a message that it hands over belongs to the connection that it has seen. */
static void note_pub_life(struct bus *b, const struct bus_in *in)
{
	if (in->kind == BUS_PUB_UP)
		b->seen_pub_life = in->life;
	else if (in->kind == BUS_PUB_DOWN)
		b->seen_pub_life = 0;
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

	assert(!b->staged.first); /* it would go to a connection that it was not meant for */
	pthread_mutex_lock(&b->lock);
	list = b->in;
	b->in = NULL;
	b->in_end = &b->in;
	b->told = b->stopping;
	pthread_mutex_unlock(&b->lock);
	for (struct bus_in *in = list; in; in = in->next)
		note_pub_life(b, in);
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

static void add_answer(struct sub_answers *a, uint32_t life, uint64_t tag, bool reject)
{
	if (a->count == a->room) {
		a->room = a->room ? 2 * a->room : 64;
		a->list = xrealloc(a->list, a->room * sizeof *a->list);
	}
	a->list[a->count++] = (struct sub_answer){.life = life, .tag = tag, .reject = reject};
}

void bus_ack(struct bus *b, uint32_t life, uint64_t tag)
{
	add_answer(&b->staged_answers, life, tag, false);
}

void bus_reject(struct bus *b, uint32_t life, uint64_t tag)
{
	add_answer(&b->staged_answers, life, tag, true);
}

/* Below the lock. Usually the other side took everything, and the two arrays just change places. */
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
			add_answer(&b->answers, from->list[i].life, from->list[i].tag, from->list[i].reject);
		from->count = 0;
	}
	signal_lane(&b->sub);
}

void bus_flush(struct bus *b)
{
	struct bus_in *lost = NULL;

	if (!b->staged.first && !b->staged_answers.count)
		return;
	CRASH_POINT(bus_before_flush);
	pthread_mutex_lock(&b->lock);
	hand_over_answers(b);
	if (b->staged.first) {
		if (b->seen_pub_life && b->seen_pub_life == b->pub_life) {
			out_list_join(&b->outs, &b->staged);
			signal_lane(&b->pub);
		} else {
			lost = settle_lost(&b->staged);
		}
	}
	pthread_mutex_unlock(&b->lock);
	bus_put_in(b, lost);
	CRASH_POINT(bus_flushed);
}

static void drop(struct lane *l, const char *why)
{
	pthread_mutex_lock(&l->bus->lock);
	if (l->guard_fd >= 0) {
		snprintf(l->drop_why, sizeof l->drop_why, "%s", why);
		shutdown(l->guard_fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&l->bus->lock);
}

void bus_drop_pub(struct bus *b, const char *why)
{
	drop(&b->pub, why);
}

void bus_drop_sub(struct bus *b, const char *why)
{
	drop(&b->sub, why);
}

static int64_t age_us(const struct lane *l, int64_t at_us, int64_t now_us)
{
	return l->is_up ? now_us - at_us > 0 ? now_us - at_us : 0 : -1;
}

void bus_set_watchdog(struct bus *b, int64_t period_us)
{
	b->watchdog_us = period_us;
	pthread_mutex_lock(&b->lock);
	signal_lane(&b->pub);
	signal_lane(&b->sub);
	pthread_mutex_unlock(&b->lock);
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
