/* SPDX-License-Identifier: MIT */
/* thread.c: the loop of a bus thread: connect, run, lose the connection, wait, connect again.
 * Owns the connection, the back-off, and what is logged about both.
 * Never looks at messages: publish.c and consume.c say what a thread does while its connection is up. */
#include "bus/bus_private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define SECOND_US BUS_SECOND_US
#define STABLE_US \
	(5 * SECOND_US)      /* up for so long, or for two heartbeats: the next loss resets the back-off */
#define CLOSE_TIMEOUT_MS 300 /* the broker may never answer a close */

/* --- while it is up --- */

bool bus_thread_come_round(struct bus_thread *t)
{
	t->round_at_us = clock_boot_us();
	wakeup_begin(&t->wakeup);
	return !t->bus->stopping;
}

void bus_thread_saw_frame(struct bus_thread *t)
{
	t->frame_at_us = clock_boot_us();
}

static int round_ms(const struct bus_thread *t, int64_t most_us)
{
	int64_t watchdog_us = t->bus->watchdog_us / 4, us = most_us;

	if (watchdog_us > 0 && watchdog_us < us)
		us = watchdog_us;
	return us < 1000 ? 1 : us > 3600 * SECOND_US ? 3600000 : (int)(us / 1000);
}

void bus_thread_sleep(struct bus_thread *t, int64_t most_us)
{
	int64_t beat_us = connection_heartbeat_s(t->connection) * SECOND_US / 3;
	bool is_readable;

	if (!wakeup_may_sleep(&t->wakeup))
		return;
	connection_release(t->connection);
	connection_wait(t->connection, t->wakeup.fd, round_ms(t, most_us < beat_us ? most_us : beat_us),
		&is_readable);
	if (is_readable) /* or a heartbeat, which librabbitmq does not show */
		bus_thread_saw_frame(t);
}

bool bus_thread_is_lost_by(const struct frames_event *ev, enum loss *how, struct connection_error *e)
{
	memset(e, 0, sizeof *e);
	switch (ev->kind) {
	case FRAMES_CHANNEL_CLOSED:
		*how = LOSS_SOFT;
		e->code = ev->code;
		snprintf(e->text, sizeof e->text, "the broker closed the channel: %s", ev->text);
		return true;
	case FRAMES_CONNECTION_CLOSED:
		*how = LOSS_NETWORK;
		e->code = ev->code;
		snprintf(e->text, sizeof e->text, "the broker closed the connection: %s", ev->text);
		return true;
	case FRAMES_BAD:
		*how = LOSS_NETWORK;
		snprintf(e->text, sizeof e->text, "the broker broke the protocol: %s", ev->text);
		return true;
	default: return false;
	}
}

/* --- connecting --- */

/* From connection_open, as soon as there is a socket. */
static int on_socket(void *ctx, int fd)
{
	struct bus_thread *t = ctx;
	struct bus *b = t->bus;
	int rc;

	pthread_mutex_lock(&b->lock);
	rc = guard_open(&t->guard, fd, b->stopping);
	pthread_mutex_unlock(&b->lock);
	return rc;
}

static void close_guard(struct bus_thread *t)
{
	pthread_mutex_lock(&t->bus->lock);
	guard_close(&t->guard);
	t->drop_why[0] = '\0'; /* explain_drop has reported it */
	pthread_mutex_unlock(&t->bus->lock);
}

/* Says which exchange or queue, which argument (the broker names it), and what the operator can do. */
static int explain_mismatch(
	struct bus_thread *t, struct connection_error *e, const char *what, const char *name)
{
	const char *remedy = "set such arguments by a policy instead, or delete it (with the messages in it)";
	char said[FRAMES_TEXT_SIZE];

	if (e->code != 406)
		return -1;
	snprintf(said, sizeof said, "%.300s", e->text);
	if (strstr(said, "x-queue-type"))
		remedy = t->bus->amqp.queue_type == QUEUE_QUORUM ?
			"set queue_type = classic in [amqp], or delete it (with the messages in it)" :
			"set queue_type = quorum in [amqp], or delete it (with the messages in it)";
	else if (strcmp(what, "exchange") == 0)
		remedy = "delete it, or use another virtual host";
	snprintf(e->text, sizeof e->text, "%s %s exists with other arguments (%s); %s", what, name, said,
		remedy);
	return -1;
}

int bus_thread_declare_exchange(
	struct bus_thread *t, const char *name, const char *type, struct connection_error *e)
{
	return connection_declare_exchange(t->connection, name, type, e) == 0 ?
		0 :
		explain_mismatch(t, e, "exchange", name);
}

int bus_thread_declare_exchanges(struct bus_thread *t, struct connection_error *e)
{
	const char *refused;

	return reconnect_declare_exchanges(t->connection, &refused, e) == 0 ?
		0 :
		explain_mismatch(t, e, "exchange", refused);
}

int bus_thread_declare_queue(
	struct bus_thread *t, const struct connection_queue *q, struct connection_error *e)
{
	return connection_declare_queue(t->connection, q, e) == 0 ? 0 :
								    explain_mismatch(t, e, "queue", q->name);
}

static int bus_thread_connect(struct bus_thread *t, struct connection_error *e)
{
	struct bus *b = t->bus;
	char name[FRAMES_NAME_SIZE];
	struct connection_spec spec = {
		.amqp = &b->amqp, .name = name, .max_body = b->max_message, .on_socket = on_socket, .ctx = t};

	snprintf(name, sizeof name, "hcpd %s %s", b->callee_id, t->ops->name);
	t->connection = connection_open(&spec, e);
	if (!t->connection)
		return -1;
	return t->ops->set_up(t, e);
}

/* The broker refused something on the channel: the connection still works, and can be closed in order. */
static bool is_channel_code(int code)
{
	return code == 311 || code == 313 || (code >= 403 && code <= 406);
}

static void bus_thread_disconnect(struct bus_thread *t, enum loss how, const struct connection_error *e)
{
	if (t->connection && (how == LOSS_SOFT || how == LOSS_STOP || is_channel_code(e->code)))
		connection_close(t->connection, CLOSE_TIMEOUT_MS);
	else
		connection_free(t->connection);
	t->connection = NULL;
	close_guard(t);
}

static void bus_thread_go_up(struct bus_thread *t)
{
	t->up_at_us = clock_boot_us();
	if (t->was_up || t->last_text[0])
		log_info("connected again, going on lane=%s host=%s port=%d", t->ops->name, t->bus->amqp.host,
			t->bus->amqp.port);
	else
		log_info("connected lane=%s host=%s port=%d vhost=%s", t->ops->name, t->bus->amqp.host,
			t->bus->amqp.port, t->bus->amqp.vhost);
	if (t->was_up)
		atomic_fetch_add(&t->bus->reconnects, 1);
	t->was_up = true;
	/* Connecting may take long. The core checks the age of both times once is_up is true. */
	t->round_at_us = t->frame_at_us = clock_boot_us();
	t->is_up = true;
	t->down_reported = false;
	t->ops->on_up(t);
}

/* --- being lost --- */

/* Where the core dropped the connection, its reason replaces the error of the socket. */
static void explain_drop(struct bus_thread *t, struct connection_error *e)
{
	pthread_mutex_lock(&t->bus->lock);
	if (t->drop_why[0]) {
		e->code = 0;
		snprintf(e->text, sizeof e->text, "dropped: %s", t->drop_why);
	}
	pthread_mutex_unlock(&t->bus->lock);
}

struct bus_in *bus_thread_make_news(
	struct bus_thread *t, enum bus_in_kind kind, const struct connection_error *e)
{
	struct bus_in *in = bus_in_new(kind);

	in->code = e->code;
	in->first = !t->was_up;
	snprintf(in->text, sizeof in->text, "%s", e->text);
	return in;
}

static int64_t next_delay_us(struct bus_thread *t, enum loss how)
{
	if (how == LOSS_MISCONFIGURED)
		return t->bus->amqp.reconnect_max_us;
	return backoff_next_us(how == LOSS_SOFT ? &t->after_soft_loss : &t->after_failure);
}

/* At warn once, then at debug while the text stays the same. The core logs a misconfiguration. */
static void log_loss(struct bus_thread *t, enum loss how, const struct connection_error *e, int64_t delay_us)
{
	bool same = strcmp(t->last_text, e->text) == 0;

	log_at(same || how == LOSS_MISCONFIGURED ? LOG_LVL_DEBUG : LOG_LVL_WARN,
		"no connection, trying again in=%dms lane=%s why=\"%s\"", (int)(delay_us / 1000),
		t->ops->name, e->text);
	snprintf(t->last_text, sizeof t->last_text, "%s", e->text);
}

static void report_misconfigured(struct bus_thread *t, const struct connection_error *e)
{
	if (strcmp(t->last_text, e->text) != 0)
		bus_put_in(t->bus, bus_thread_make_news(t, BUS_MISCONFIGURED, e));
}

/* Waits until the next attempt is due, or the bus stops. */
static void bus_thread_wait(struct bus_thread *t, int64_t delay_us)
{
	int64_t end_us = clock_boot_us() + delay_us, left_us;
	struct pollfd p = {.fd = t->wakeup.fd, .events = POLLIN};

	while (bus_thread_come_round(t) && (left_us = end_us - clock_boot_us()) > 0)
		if (wakeup_may_sleep(&t->wakeup))
			poll(&p, 1, round_ms(t, left_us));
}

/* librabbitmq notices a silent peer after two heartbeats. A connection that was up for so long counts as one
 * that worked; otherwise the waits would grow to reconnect_max on a network that breaks now and then. */
static int64_t stable_us(const struct bus_thread *t)
{
	int64_t two_us = 2 * t->bus->amqp.heartbeat_s * SECOND_US;

	return two_us < STABLE_US ? two_us : STABLE_US;
}

static void bus_thread_be_lost(struct bus_thread *t, enum loss how, struct connection_error *e)
{
	int64_t delay_us;

	t->is_up = false;
	explain_drop(t, e);
	if (t->up_at_us && clock_boot_us() - t->up_at_us >= stable_us(t)) {
		backoff_reset(&t->after_failure);
		backoff_reset(&t->after_soft_loss);
		t->last_text[0] = '\0';
	}
	t->up_at_us = 0;
	/* While the bus stops, the core takes no messages, and the owners free their bus_outs. */
	if (!t->down_reported && bus_thread_come_round(t))
		t->ops->on_down(t, e);
	t->down_reported = true;
	bus_thread_disconnect(t, how, e);
	if (how == LOSS_STOP)
		return;
	if (how == LOSS_MISCONFIGURED)
		report_misconfigured(t, e);
	delay_us = next_delay_us(t, how);
	log_loss(t, how, e, delay_us);
	bus_thread_wait(t, delay_us);
}

void *bus_thread_main(void *arg)
{
	struct bus_thread *t = arg;
	struct bus *b = t->bus;
	struct connection_error e = {0};
	enum loss how;

	while (bus_thread_come_round(t)) {
		if (bus_thread_connect(t, &e) < 0) {
			how = e.code == 406 ? LOSS_MISCONFIGURED : LOSS_NETWORK;
		} else {
			bus_thread_go_up(t);
			how = t->ops->run(t, &e);
		}
		bus_thread_be_lost(t, how, &e);
	}
	pthread_mutex_lock(&b->lock);
	t->has_ended = true;
	pthread_mutex_unlock(&b->lock);
	bus_unref(b);
	return NULL;
}
