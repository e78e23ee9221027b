/* SPDX-License-Identifier: MIT */
/* publisher.c: publishes submits and aborts to hcp.commands, with confirms.
 * Owns its connection and a thread for it: a broker with an alarm stops reading from publishing connections,
 * and a write then does not return. Events still come on the consuming connection. After a lost connection
 * the publisher sends unconfirmed messages again, with the same message_id. Never decides about other repeats
 * (pending.c). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libhcp/libhcp_private.h"

#define WINDOW 32 /* published and not confirmed */
#define CLOSE_MS 300

struct list {
	struct lib_publication *first, **end;
};

struct lib_publisher {
	pthread_mutex_t lock;
	int refs; /* the handle's and the thread's */
	bool is_ending;
	struct list in, out; /* in: messages to send; out: settled messages, and news */
	struct guard guard;  /* of the socket */
	int notify_fd;       /* a copy: the handle may be closed first */
	int wake_fd;         /* wakes the thread */
	struct lib_settings *settings;
	/* of the thread only */
	struct connection *connection;
	struct list waiting, flying; /* flying: in the order of their tags */
	size_t flying_count;
	uint64_t next_tag;
	bool is_blocked;
	/* after the broker closed the channel: sending one at a time shows which message it refuses */
	bool is_careful;
	struct backoff backoff;
	char last_text[LIB_ERROR_SIZE];
};

static void list_init(struct list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct list *l, struct lib_publication *i)
{
	i->next = NULL;
	*l->end = i;
	l->end = &i->next;
}

static struct lib_publication *list_take(struct list *l)
{
	struct lib_publication *i = l->first;

	if (i && !(l->first = i->next))
		l->end = &l->first;
	return i;
}

/* Appends all of b to a. */
static void list_join(struct list *a, struct list *b)
{
	struct lib_publication *i;

	while ((i = list_take(b)))
		list_add(a, i);
}

void lib_publication_free(struct lib_publication *i)
{
	free(i->callee);
	free(i->session);
	free(i->body);
	free(i);
}

static void list_free(struct list *l)
{
	struct lib_publication *i;

	while ((i = list_take(l)))
		lib_publication_free(i);
}

static void publisher_unref(struct lib_publisher *p)
{
	int left;

	pthread_mutex_lock(&p->lock);
	left = --p->refs;
	pthread_mutex_unlock(&p->lock);
	if (left > 0)
		return;
	list_free(&p->in);
	list_free(&p->out);
	list_free(&p->waiting);
	list_free(&p->flying);
	close(p->notify_fd);
	close(p->wake_fd);
	lib_settings_unref(p->settings);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* --- to the handle --- */

static void report(struct lib_publisher *p, struct lib_publication *i, enum lib_publication_status status)
{
	i->status = status;
	pthread_mutex_lock(&p->lock);
	list_add(&p->out, i);
	pthread_mutex_unlock(&p->lock);
	lib_wake(p->notify_fd);
}

/* Reports a text once, not once for each attempt. */
static void report_once(struct lib_publisher *p, enum hcp_level level, const char *text)
{
	struct lib_publication *i;

	if (strcmp(p->last_text, text) == 0)
		return;
	snprintf(p->last_text, sizeof p->last_text, "%s", text);
	i = xcalloc(1, sizeof *i);
	i->level = level;
	snprintf(i->text, sizeof i->text, "%s", text);
	report(p, i, LIB_NEWS);
}

static bool is_ending(struct lib_publisher *p)
{
	bool ending;

	pthread_mutex_lock(&p->lock);
	ending = p->is_ending;
	pthread_mutex_unlock(&p->lock);
	return ending;
}

static void take_in(struct lib_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	list_join(&p->waiting, &p->in);
	pthread_mutex_unlock(&p->lock);
}

/* --- up and down --- */

static int on_socket(void *ctx, int fd)
{
	struct lib_publisher *p = ctx;
	int rc;

	pthread_mutex_lock(&p->lock);
	rc = guard_open(&p->guard, fd, p->is_ending);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static void close_guard(struct lib_publisher *p)
{
	pthread_mutex_lock(&p->lock);
	guard_close(&p->guard);
	pthread_mutex_unlock(&p->lock);
}

/* Messages that were under way go first on the next connection. */
static void go_down(struct lib_publisher *p, bool politely)
{
	struct list again;

	list_init(&again);
	list_join(&again, &p->flying);
	list_join(&again, &p->waiting);
	list_join(&p->waiting, &again);
	p->flying_count = 0;
	if (p->connection && politely)
		connection_close(p->connection, CLOSE_MS);
	else
		connection_free(p->connection);
	p->connection = NULL;
	close_guard(p);
}

static void drain_wakes(struct lib_publisher *p)
{
	uint64_t count;

	while (read(p->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

/* Sleeps for most_us, or until the publisher ends. INT64_MAX / 2: until a message comes. */
static void rest(struct lib_publisher *p, int64_t most_us)
{
	struct pollfd fd = {.fd = p->wake_fd, .events = POLLIN};
	int64_t end_us = clock_boot_us() + most_us, left_us;

	while (!is_ending(p) && (left_us = end_us - clock_boot_us()) > 0) {
		poll(&fd, 1, left_us > 60 * LIB_SECOND ? 60000 : (int)(left_us / 1000) + 1);
		drain_wakes(p);
		if (most_us == INT64_MAX / 2)
			return;
	}
}

static void go_up(struct lib_publisher *p)
{
	struct connection_error e;

	p->connection = lib_consumer_connect(p->settings, "submits", on_socket, p, &e);
	if (p->connection && connection_confirm(p->connection, &e) == 0) {
		p->next_tag = 1;
		p->is_blocked = false;
		backoff_reset(&p->backoff);
		p->last_text[0] = '\0';
		return;
	}
	go_down(p, false);
	report_once(p, HCP_LOG_WARN, e.text);
	rest(p, backoff_next_us(&p->backoff));
}

/* --- out --- */

static int send_one(struct lib_publisher *p, struct lib_publication *i, struct connection_error *e)
{
	struct message_head head = {0};
	struct connection_message m = {.exchange = EXCHANGE_COMMANDS,
		.key = i->callee,
		.message_id = i->message_id,
		.type = i->type,
		.correlation_id = i->session,
		.user_id = lib_settings_user(p->settings),
		.body = i->body,
		.size = i->size};

	message_peek(i->body, i->size, &head);
	m.timestamp_s = head.timestamp_s;
	i->tag = p->next_tag++;
	i->is_returned = false;
	list_add(&p->flying, i);
	p->flying_count++;
	return connection_publish(p->connection, &m, e);
}

static int send_some(struct lib_publisher *p, struct connection_error *e)
{
	size_t window = p->is_careful ? 1 : WINDOW;

	while (p->waiting.first && p->flying_count < window && !p->is_blocked) {
		struct lib_publication *i = list_take(&p->waiting);

		if (clock_wall_us() > i->expires_us) {
			snprintf(i->text, sizeof i->text,
				"the broker was away for too long; %s may not know it again", i->callee);
			report(p, i, LIB_REFUSED);
		} else if (send_one(p, i, e) < 0) {
			return -1;
		}
	}
	return 0;
}

/* --- in --- */

static void settle(struct lib_publisher *p, uint64_t tag, bool multiple, bool is_nack)
{
	struct list left;
	struct lib_publication *i;

	list_init(&left);
	while ((i = list_take(&p->flying))) {
		if (multiple ? tag && i->tag > tag : i->tag != tag) {
			list_add(&left, i);
			continue;
		}
		p->flying_count--;
		if (is_nack)
			snprintf(i->text, sizeof i->text,
				"the broker refused it; is the queue " COMMAND_QUEUE_PREFIX "%s full?",
				i->callee);
		report(p, i, is_nack ? LIB_REFUSED : i->is_returned ? LIB_UNROUTABLE : LIB_CONFIRMED);
	}
	list_join(&p->flying, &left);
	if (!p->flying.first && !p->waiting.first)
		p->is_careful = false;
}

static void record_return(struct lib_publisher *p, const char *message_id)
{
	for (struct lib_publication *i = p->flying.first; i; i = i->next)
		if (strcmp(i->message_id, message_id) == 0)
			i->is_returned = true;
}

/* The broker does not say which message it refuses. 404: the exchange is gone; the next connection declares
 * it. */
static void channel_closed(struct lib_publisher *p, const struct frames_event *ev)
{
	struct lib_publication *i;

	if (p->flying_count == 1 && (ev->code == 403 || ev->code == 406)) {
		i = list_take(&p->flying);
		p->flying_count = 0;
		snprintf(i->text, sizeof i->text, "the broker refused it: %s", ev->text);
		report(p, i, LIB_REFUSED);
	}
	p->is_careful = p->flying.first || p->waiting.first;
	report_once(p, HCP_LOG_WARN, ev->text);
	go_down(p, true);
}

static void take_event(struct lib_publisher *p, const struct frames_event *ev)
{
	switch (ev->kind) {
	case FRAMES_ACK:
	case FRAMES_NACK: settle(p, ev->tag, ev->multiple, ev->kind == FRAMES_NACK); break;
	case FRAMES_RETURN: record_return(p, ev->message_id); break;
	case FRAMES_BLOCKED:
		p->is_blocked = true;
		report_once(
			p, HCP_LOG_WARN, "the broker has an alarm and takes no submits; waiting for its end");
		break;
	case FRAMES_UNBLOCKED: p->is_blocked = false; break;
	case FRAMES_CHANNEL_CLOSED: channel_closed(p, ev); break;
	case FRAMES_CONNECTION_CLOSED:
	case FRAMES_BAD:
		report_once(p, HCP_LOG_WARN, ev->text);
		go_down(p, false);
		break;
	default: break;
	}
}

/* One round while the connection is up; -1: it is lost. */
static int come_round(struct lib_publisher *p, struct connection_error *e)
{
	struct frames_event *ev;
	bool is_readable;
	int rc, beat_s;

	/* Send before reading: sending may read frames into librabbitmq, and the socket shows nothing of
	 * these. */
	if (send_some(p, e) < 0)
		return -1;
	while (p->connection && (rc = connection_next(p->connection, &ev, e)) != 0) {
		if (rc < 0)
			return -1;
		take_event(p, ev);
	}
	if (!p->connection ||
		(p->waiting.first && !p->is_blocked && p->flying_count < (p->is_careful ? 1 : WINDOW)))
		return 0;
	connection_release(p->connection);
	beat_s = connection_heartbeat_s(p->connection);
	connection_wait(p->connection, p->wake_fd, beat_s > 0 ? beat_s * 1000 / 3 : 10000, &is_readable);
	drain_wakes(p);
	return 0;
}

static void *publisher_main(void *arg)
{
	struct lib_publisher *p = arg;
	struct connection_error e;

	while (!is_ending(p)) {
		take_in(p);
		if (!p->connection && !p->waiting.first) {
			rest(p, INT64_MAX / 2);
		} else if (!p->connection) {
			go_up(p);
		} else if (come_round(p, &e) < 0) {
			report_once(p, HCP_LOG_WARN, e.text);
			go_down(p, false);
		}
	}
	go_down(p, true);
	publisher_unref(p);
	return NULL;
}

/* --- the handle's side --- */

struct lib_publisher *lib_publisher_new(struct lib_settings *s, int wake_fd)
{
	struct lib_publisher *p = xcalloc(1, sizeof *p);

	pthread_mutex_init(&p->lock, NULL);
	list_init(&p->in);
	list_init(&p->out);
	list_init(&p->waiting);
	list_init(&p->flying);
	p->guard = GUARD_NONE;
	p->backoff = LIB_BACKOFF_PUBLISHER(s->config->amqp.reconnect_max_us);
	p->refs = 2;
	p->settings = lib_settings_ref(s);
	p->notify_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 3);
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->notify_fd >= 0 && p->wake_fd >= 0 && lib_consumer_thread(publisher_main, p) == 0)
		return p;
	p->refs = 1;
	publisher_unref(p);
	return NULL;
}

void lib_publisher_put(struct lib_publisher *p, struct lib_publication *i)
{
	pthread_mutex_lock(&p->lock);
	list_add(&p->in, i);
	pthread_mutex_unlock(&p->lock);
	lib_wake(p->wake_fd);
}

struct lib_publication *lib_publisher_take(struct lib_publisher *p)
{
	struct lib_publication *i;

	pthread_mutex_lock(&p->lock);
	i = p->out.first;
	list_init(&p->out);
	pthread_mutex_unlock(&p->lock);
	return i;
}

void lib_publisher_end(struct lib_publisher *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_ending = true;
	/* The thread may hang in a write. Unconfirmed messages are in the file. */
	guard_shut_down(&p->guard);
	pthread_mutex_unlock(&p->lock);
	lib_wake(p->wake_fd);
	publisher_unref(p);
}
