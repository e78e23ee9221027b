/* SPDX-License-Identifier: MIT */
/* consumer.c: the consuming connection. A thread of the library makes it, a thread of the application uses
 * it. Owns the connection, its back-off, the delivery tags and the acks. Never looks into a message
 * (inbox.c), never publishes (publisher.c). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "libhcp/libhcp_private.h"

#define CLOSE_MS 1000
/* The broker soon notices that a killed program is gone, and frees its queue. */
#define TAKEN_US (2 * LIB_SECOND)
#define TAKEN_STEP_MS 50
#define LIB_LOCKED 405 /* AMQP's resource-locked; the broker itself did not say it */
/* The library binds its queue again so often: the broker does not report a deleted exchange. */
#define BINDING_US (10 * LIB_SECOND)

/* One attempt to connect, by a thread. The thread and the handle have a reference each; the last one frees
 * the attempt. hcp_close does not wait for the thread, because a name look-up has no time-out. */
struct lib_attempt {
	pthread_mutex_t lock;
	struct lib_settings *settings;
	int refs;
	int wake_fd;        /* a copy: the handle may be closed first */
	struct guard guard; /* of the socket: hcp_close ends the attempt with it */
	bool is_abandoned, is_done, is_second;
	struct connection *connection;
	int status;
	struct connection_error error;
};

int lib_consumer_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int rc;

	if (pthread_attr_init(&attr) != 0)
		return -1;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc == 0 ? 0 : -1;
}

/* --- connecting --- */

struct connection *lib_consumer_connect(const struct lib_settings *s, const char *what,
	int (*on_socket)(void *, int), void *ctx, struct connection_error *e)
{
	char name[CALLER_ID_SIZE + 32];
	struct connection_spec spec = {.amqp = &s->config->amqp,
		.name = name,
		.max_body = LIB_BODY_MAX,
		.on_socket = on_socket,
		.ctx = ctx};
	struct connection *l;

	snprintf(name, sizeof name, "libhcp %s %s", s->caller, what);
	l = connection_open(&spec, e);
	if (l && reconnect_declare_exchanges(l, NULL, e) < 0) {
		connection_free(l);
		return NULL;
	}
	return l;
}

static void explain_mismatch(const struct lib_settings *s, struct connection_error *e)
{
	char said[300];

	if (e->code != 406)
		return;
	snprintf(said, sizeof said, "%.200s", e->text);
	snprintf(e->text, sizeof e->text,
		"queue %s exists with other arguments (%.200s); set options.quorum, queue_ttl_s and "
		"queue_max_length to what it was made with, or delete it",
		s->queue, said);
}

/* Declares, binds and consumes the queue. */
static int take_queue(
	const struct lib_settings *s, struct connection *l, bool *is_second, struct connection_error *e)
{
	int consumers = 0;

	struct connection_queue q = {.name = s->queue,
		.type = s->quorum ? "quorum" : "classic",
		.single_active_consumer = s->quorum,
		.message_ttl_ms = s->ttl_ms,
		.max_length = s->max_length};

	if (connection_declare_queue(l, &q, e) < 0) {
		explain_mismatch(s, e);
		return HCP_E_REFUSED;
	}
	if (connection_bind_queue(l, s->queue, EXCHANGE_EVENTS, s->key, e) < 0 ||
		connection_count_consumers(l, s->queue, &consumers, e) < 0)
		return HCP_E_REFUSED;
	*is_second = consumers > 0;
	/* The other consumer may also be a lost connection of our own, which the broker has not noticed yet.
	 * Events that it gets come late, after they were passed over. So wait until it is gone. A quorum
	 * queue has one active consumer, and sends nothing here meanwhile. */
	if (*is_second && !s->quorum) {
		e->code = LIB_LOCKED;
		snprintf(e->text, sizeof e->text,
			"queue %s is taken: another program consumes it as caller %s; stop that one, or use "
			"another caller_id",
			s->queue, s->caller);
		return HCP_E_TAKEN;
	}
	/* HCP forbids callers to consume exclusively. Two programs that come at the same moment, with files
	 * of their own, both get here: each misses events then, and inbox.c says so. */
	return connection_consume(l, s->queue, false, s->prefetch, e) == 0 ? HCP_OK : HCP_E_REFUSED;
}

static int connect_all(const struct lib_settings *s, int (*on_socket)(void *, int), void *ctx,
	struct connection **out, bool *is_second, struct connection_error *e)
{
	struct connection *l = lib_consumer_connect(s, "events", on_socket, ctx, e);
	int status;

	if (!l)
		return e->code ? HCP_E_REFUSED : HCP_E_BROKER;
	status = take_queue(s, l, is_second, e);
	if (status < 0) {
		/* The broker refused the channel, but the connection works. A broker logs a warning for a
		 * connection that ends without a close. */
		if (e->code)
			connection_close(l, CLOSE_MS);
		else
			connection_free(l);
		return e->code ? status : HCP_E_BROKER;
	}
	*out = l;
	return HCP_OK;
}

/* --- the thread --- */

static void attempt_unref(struct lib_attempt *a)
{
	int left;

	pthread_mutex_lock(&a->lock);
	left = --a->refs;
	pthread_mutex_unlock(&a->lock);
	if (left > 0)
		return;
	connection_free(a->connection);
	guard_close(&a->guard);
	close(a->wake_fd);
	lib_settings_unref(a->settings);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static int on_socket(void *ctx, int fd)
{
	struct lib_attempt *a = ctx;
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = guard_open(&a->guard, fd, a->is_abandoned);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

static void *attempt_main(void *arg)
{
	struct lib_attempt *a = arg;
	struct connection *l = NULL;
	int status = connect_all(a->settings, on_socket, a, &l, &a->is_second, &a->error);

	pthread_mutex_lock(&a->lock);
	a->connection = l;
	a->status = status;
	a->is_done = true;
	pthread_mutex_unlock(&a->lock);
	lib_wake(a->wake_fd);
	attempt_unref(a);
	return NULL;
}

static void back_off(struct hcp *h)
{
	h->retry_at_us = clock_boot_us() + backoff_next_us(&h->backoff);
}

/* Logs a text once, not once for each attempt. */
static void say_trouble(struct hcp *h)
{
	if (strcmp(h->last_trouble, h->error) == 0)
		return;
	lib_log(h, HCP_LOG_WARN, "%s; trying until it works", h->error);
	snprintf(h->last_trouble, sizeof h->last_trouble, "%s", h->error);
}

static void start_attempt(struct hcp *h)
{
	struct lib_attempt *a;

	if (lib_store_lock(h) < 0) {
		back_off(h);
		say_trouble(h);
		return;
	}
	a = xcalloc(1, sizeof *a);
	pthread_mutex_init(&a->lock, NULL);
	a->settings = lib_settings_ref(h->settings);
	a->refs = 2;
	a->guard = GUARD_NONE;
	a->wake_fd = fcntl(h->wake_fd, F_DUPFD_CLOEXEC, 3);
	if (a->wake_fd >= 0 && lib_consumer_thread(attempt_main, a) == 0) {
		h->attempt = a;
		return;
	}
	a->refs = 1;
	attempt_unref(a);
	h->retry_at_us = clock_boot_us() + LIB_SECOND;
	lib_fail(h, HCP_E_BROKER, "no thread or descriptor to connect with: %s", strerror(errno));
	lib_log(h, HCP_LOG_ERROR, "%s", h->error);
}

static void abandon_attempt(struct hcp *h)
{
	struct lib_attempt *a = h->attempt;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->is_abandoned = true;
	guard_shut_down(&a->guard);
	pthread_mutex_unlock(&a->lock);
	attempt_unref(a);
	h->attempt = NULL;
}

/* --- up and down --- */

static void go_up(struct hcp *h, struct connection *l, bool is_second)
{
	struct epoll_event ev = {.events = EPOLLIN};

	h->connection = l;
	h->generation++;
	h->ack_count = 0;
	backoff_reset(&h->backoff);
	h->bound_at_us = h->delivered_at_us = clock_boot_us();
	/* Another program may have changed the file meanwhile. Refused messages come again. */
	lib_inbox_forget_inbox(h);
	lib_inbox_forget_sessions(h);
	if (lib_store_load_gaps(h) < 0)
		lib_log(h, HCP_LOG_ERROR, "%s", h->error);
	epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, connection_fd(l), &ev);
	if (h->was_up || h->last_trouble[0])
		lib_log(h, HCP_LOG_INFO, "connected again to %s", h->settings->config->amqp.url);
	if (is_second)
		lib_log(h, HCP_LOG_WARN,
			"queue %s is taken: another program consumes it as caller %s; nothing comes here "
			"until that one is gone",
			h->settings->queue, h->settings->caller);
	h->was_up = true;
	h->said_missing = false;
	h->last_trouble[0] = '\0';
}

/* Does not touch the inbox: a caller may be iterating. Its messages belong to the old connection. */
static void lose(struct hcp *h, const char *why)
{
	/* first: `why` may be memory of the connection */
	lib_fail(h, HCP_E_BROKER, "the broker is gone: %s", why);
	epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, connection_fd(h->connection), NULL);
	connection_free(h->connection);
	h->connection = NULL;
	h->generation++;
	h->ack_count = 0;
	back_off(h);
	say_trouble(h);
}

int lib_consumer_open(struct hcp *h)
{
	int64_t end_us = clock_boot_us() + TAKEN_US;
	struct connection_error e;
	bool is_second = false;
	struct connection *l;
	int status;

	h->backoff = LIB_BACKOFF_CONSUMER(h->settings->config->amqp.reconnect_max_us);
	while ((status = lib_store_lock(h)) == HCP_E_TAKEN && clock_boot_us() < end_us)
		usleep(TAKEN_STEP_MS * 1000);
	if (status < 0) {
		back_off(h);
		return status;
	}
	while ((status = connect_all(h->settings, NULL, NULL, &l, &is_second, &e)) == HCP_E_TAKEN &&
		clock_boot_us() < end_us)
		usleep(TAKEN_STEP_MS * 1000);
	if (status == HCP_OK) {
		go_up(h, l, is_second);
		return HCP_OK;
	}
	back_off(h);
	return lib_fail(h, status, "%s", e.text);
}

static void take_attempt(struct hcp *h)
{
	struct lib_attempt *a = h->attempt;
	struct connection *l;
	bool is_done;

	pthread_mutex_lock(&a->lock);
	is_done = a->is_done;
	l = is_done ? a->connection : NULL;
	if (l)
		a->connection = NULL;
	pthread_mutex_unlock(&a->lock);
	if (!is_done)
		return;
	if (l) {
		go_up(h, l, a->is_second);
	} else {
		back_off(h);
		lib_fail(h, a->status, "%s", a->error.text);
		say_trouble(h);
	}
	attempt_unref(a);
	h->attempt = NULL;
}

/* --- in --- */

static void take_delivery(struct hcp *h, struct frames_event *ev)
{
	struct lib_message *n = NULL, fake = {.generation = h->generation, .tag = ev->tag};
	char *body = ev->body;

	h->received++;
	ev->body = NULL;
	if (body)
		n = lib_message_read(body, (size_t)ev->size);
	if (n) {
		n->generation = h->generation;
		n->tag = ev->tag;
		lib_inbox_put(h, n);
		return;
	}
	lib_log(h, HCP_LOG_WARN, "a message of %llu bytes (key %s) is no HCP message, or too large; left out",
		(unsigned long long)ev->size, ev->key);
	lib_consumer_settle(h, &fake);
}

/* False: the connection is no more. */
static bool take_event(struct hcp *h, struct frames_event *ev)
{
	switch (ev->kind) {
	case FRAMES_DELIVERY: take_delivery(h, ev); return true;
	case FRAMES_CANCEL: lose(h, "our queue was deleted, or its consumer cancelled"); return false;
	case FRAMES_CHANNEL_CLOSED:
	case FRAMES_CONNECTION_CLOSED:
	case FRAMES_BAD: lose(h, ev->text); return false;
	default: return true;
	}
}

static void read_frames(struct hcp *h)
{
	struct frames_event *ev;
	struct connection_error e, ignored;
	uint64_t tag, received = h->received;
	int got;

	/* At most prefetch deliveries come without an ack, so this loop ends. */
	while ((got = connection_next(h->connection, &ev, &e)) > 0)
		if (!take_event(h, ev))
			return;
	if (h->received != received)
		h->delivered_at_us = clock_boot_us();
	if (got == 0) {
		connection_release(h->connection);
		return;
	}
	/* The broker would deliver a message with an undecodable header again for ever. */
	tag = e.is_undecodable ? connection_headless_tag(h->connection) : 0;
	if (tag && connection_reject(h->connection, tag, false, &ignored) == 0)
		lib_log(h, HCP_LOG_WARN, "a message that cannot be decoded was thrown away");
	lose(h, e.text);
}

static void keep_binding(struct hcp *h, int64_t now_us)
{
	const struct lib_settings *s = h->settings;
	struct connection_error e;

	if (now_us - h->bound_at_us < BINDING_US)
		return;
	h->bound_at_us = now_us;
	if (connection_keep_binding(h->connection, s->queue, EXCHANGE_EVENTS, "topic", s->key, &e) < 0)
		lose(h, e.text);
}

void lib_consumer_turn(struct hcp *h, int64_t now_us)
{
	if (h->attempt)
		take_attempt(h);
	if (!h->connection && !h->attempt && now_us >= h->retry_at_us)
		start_attempt(h);
	if (h->connection)
		keep_binding(h, now_us);
	if (h->connection)
		read_frames(h);
	if (!h->connection && h->inbox)
		lib_inbox_forget_inbox(h);
}

/* --- out --- */

void lib_consumer_settle(struct hcp *h, const struct lib_message *n)
{
	if (!h->connection || n->generation != h->generation)
		return;
	if (h->ack_count == h->ack_room) {
		h->ack_room = h->ack_room ? 2 * h->ack_room : 128;
		h->acks = xrealloc(h->acks, h->ack_room * sizeof *h->acks);
	}
	h->acks[h->ack_count++] = n->tag;
}

/* One ack covers all tags up to the last, unless a message still waits in the inbox. That is nearly always
 * possible, and far cheaper for the broker. */
static int send_acks(struct hcp *h, struct connection_error *e)
{
	uint64_t last = 0;

	for (size_t i = 0; i < h->ack_count; i++)
		if (h->acks[i] > last)
			last = h->acks[i];
	/* the inbox is in the order of tags: its head has the lowest */
	if (!h->inbox || h->inbox->tag > last)
		return connection_ack(h->connection, last, true, e);
	connection_cork(h->connection, true);
	for (size_t i = 0; i < h->ack_count; i++)
		if (connection_ack(h->connection, h->acks[i], false, e) < 0)
			return -1;
	connection_cork(h->connection, false);
	return 0;
}

void lib_consumer_ack(struct hcp *h)
{
	struct connection_error e;

	if (!h->connection || h->ack_count == 0)
		return;
	h->has_sent = true;
	if (send_acks(h, &e) < 0) {
		lose(h, e.text);
		return;
	}
	h->ack_count = 0;
}

void lib_consumer_end_turn(struct hcp *h)
{
	if (h->connection && h->has_sent && connection_has_input(h->connection))
		read_frames(h);
	h->has_sent = false;
}

void lib_consumer_requeue(struct hcp *h, const struct lib_message *n)
{
	struct connection_error e;

	if (!h->connection || n->generation != h->generation)
		return;
	h->has_sent = true;
	if (connection_reject(h->connection, n->tag, true, &e) < 0)
		lose(h, e.text);
}

void lib_consumer_requeue_settled(struct hcp *h)
{
	struct connection_error e;

	h->has_sent = true;
	for (size_t i = 0; h->connection && i < h->ack_count; i++)
		if (connection_reject(h->connection, h->acks[i], true, &e) < 0)
			lose(h, e.text);
	h->ack_count = 0;
}

int64_t lib_consumer_due_us(const struct hcp *h)
{
	int64_t now_us = clock_boot_us(), beat_us;

	if (h->attempt)
		return INT64_MAX; /* the end of the attempt wakes the handle */
	if (!h->connection)
		return h->retry_at_us;
	beat_us = connection_heartbeat_s(h->connection) * LIB_SECOND / 3;
	if (beat_us <= 0 || beat_us > BINDING_US)
		beat_us = BINDING_US;
	return now_us + beat_us; /* the library serves heartbeats only in a turn */
}

void lib_consumer_close(struct hcp *h)
{
	abandon_attempt(h);
	if (h->connection)
		connection_close(h->connection, CLOSE_MS);
	h->connection = NULL;
	h->generation++;
	free(h->acks);
	h->acks = NULL;
}
