/* wire.c: the consuming connection: made in a thread of its own, used in the application's.
 * Owns the link, its back-off, the delivery tags and the acks.
 * Never looks into a message (intake.c), never publishes (post.c). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libhcp/libhcp_private.h"

#define CLOSE_MS 1000
#define TAKEN_US (2 * LIB_SECOND) /* a broker notices within moments that a predecessor was killed */
#define TAKEN_STEP_MS 50
#define BINDING_US \
	(10 * LIB_SECOND) /* how often it is said again: nobody tells us that an exchange was deleted */

/* One connect, by a thread. Two hold it, the thread and the handle; whoever lets go last frees it. A handle
 * that is closed meanwhile does not wait: a name look-up has no time-out. */
struct lib_attempt {
	pthread_mutex_t lock;
	struct lib_settings *settings;
	int refs;
	int wake_fd;  /* a copy: the handle may be gone first */
	int guard_fd; /* of the socket, -1: none; to call the thread back */
	bool is_abandoned, is_done, is_second;
	struct link *link;
	int status;
	struct link_error error;
};

int lib_wire_thread(void *(*run)(void *), void *arg)
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

struct link *lib_wire_connect(const struct lib_settings *s, const char *what, int (*on_socket)(void *, int),
	void *ctx, struct link_error *e)
{
	char name[CALLER_ID_SIZE + 32];
	struct link_spec spec = {.amqp = &s->config->amqp,
		.name = name,
		.max_body = LIB_BODY_MAX,
		.on_socket = on_socket,
		.ctx = ctx};
	struct link *l;

	snprintf(name, sizeof name, "libhcp %s %s", s->caller, what);
	l = link_open(&spec, e);
	if (l &&
		(link_declare_exchange(l, LIB_COMMANDS, "direct", e) < 0 ||
			link_declare_exchange(l, LIB_EVENTS, "topic", e) < 0)) {
		link_free(l);
		return NULL;
	}
	return l;
}

static void explain_mismatch(const struct lib_settings *s, struct link_error *e)
{
	char said[300];

	if (e->code != 406)
		return;
	snprintf(said, sizeof said, "%.200s", e->text);
	snprintf(e->text, sizeof e->text,
		"queue %s exists with other arguments (%.200s); set options.quorum, "
		"queue_ttl_s and queue_max_length to what it was made with, or delete it",
		s->queue, said);
}

/* Declared, bound and consumed. */
static int take_queue(const struct lib_settings *s, struct link *l, bool *is_second, struct link_error *e)
{
	int consumers = 0;

	struct link_queue q = {.name = s->queue,
		.type = s->quorum ? "quorum" : "classic",
		.single_active_consumer = s->quorum,
		.message_ttl_ms = s->ttl_ms,
		.max_length = s->max_length};

	if (link_declare_queue(l, &q, e) < 0) {
		explain_mismatch(s, e);
		return HCP_E_REFUSED;
	}
	if (link_bind_queue(l, s->queue, LIB_EVENTS, s->key, e) < 0 ||
		(s->quorum && link_count_consumers(l, s->queue, &consumers, e) < 0))
		return HCP_E_REFUSED;
	*is_second = consumers > 0;
	/* Quorum queues do not refuse a second exclusive consumer; they let only one be active instead. */
	if (link_consume(l, s->queue, !s->quorum, s->prefetch, e) == 0)
		return HCP_OK;
	if (e->code != 403 || !strstr(e->text, "exclusive use"))
		return HCP_E_REFUSED;
	snprintf(e->text, sizeof e->text,
		"queue %s is taken: another program consumes it as caller %s; stop that one, or "
		"use another caller_id",
		s->queue, s->caller);
	return HCP_E_TAKEN;
}

static int connect_all(const struct lib_settings *s, int (*on_socket)(void *, int), void *ctx,
	struct link **out, bool *is_second, struct link_error *e)
{
	struct link *l = lib_wire_connect(s, "events", on_socket, ctx, e);
	int status;

	if (!l)
		return e->code ? HCP_E_REFUSED : HCP_E_BROKER;
	status = take_queue(s, l, is_second, e);
	if (status < 0) {
		/* The channel was refused, the connection is well; a broker that is left without a word logs
		 * a warning. */
		if (e->code)
			link_close(l, CLOSE_MS);
		else
			link_free(l);
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
	link_free(a->link);
	if (a->guard_fd >= 0)
		close(a->guard_fd);
	close(a->wake_fd);
	lib_settings_unref(a->settings);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static int on_socket(void *ctx, int fd)
{
	struct lib_attempt *a = ctx;
	int guard = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (guard < 0)
		return -1;
	pthread_mutex_lock(&a->lock);
	a->guard_fd = guard;
	if (a->is_abandoned)
		shutdown(guard, SHUT_RDWR);
	pthread_mutex_unlock(&a->lock);
	return 0;
}

static void *attempt_main(void *arg)
{
	struct lib_attempt *a = arg;
	struct link *l = NULL;
	int status = connect_all(a->settings, on_socket, a, &l, &a->is_second, &a->error);

	pthread_mutex_lock(&a->lock);
	a->link = l;
	a->status = status;
	a->is_done = true;
	pthread_mutex_unlock(&a->lock);
	lib_wake(a->wake_fd);
	attempt_unref(a);
	return NULL;
}

static void start_attempt(struct hcp *h)
{
	struct lib_attempt *a = xcalloc(1, sizeof *a);

	pthread_mutex_init(&a->lock, NULL);
	a->settings = lib_settings_ref(h->settings);
	a->refs = 2;
	a->guard_fd = -1;
	a->wake_fd = fcntl(h->wake_fd, F_DUPFD_CLOEXEC, 3);
	if (a->wake_fd >= 0 && lib_wire_thread(attempt_main, a) == 0) {
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
	if (a->guard_fd >= 0)
		shutdown(a->guard_fd, SHUT_RDWR);
	pthread_mutex_unlock(&a->lock);
	attempt_unref(a);
	h->attempt = NULL;
}

/* --- up and down --- */

static void go_up(struct hcp *h, struct link *l, bool is_second)
{
	struct epoll_event ev = {.events = EPOLLIN};

	h->link = l;
	h->life++;
	h->ack_count = 0;
	h->backoff_us = 0;
	h->bound_at_us = h->delivered_at_us = clock_boot_us();
	/* Another program may have worked on the file meanwhile; and refused messages come anew. */
	lib_intake_forget_inbox(h);
	lib_intake_forget_sessions(h);
	if (lib_store_load_odd(h) < 0)
		lib_log(h, HCP_LOG_ERROR, "%s", h->error);
	epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, link_fd(l), &ev);
	if (h->was_up || h->last_trouble[0])
		lib_log(h, HCP_LOG_INFO, "connected again to %s", h->settings->config->amqp.url);
	if (is_second)
		lib_log(h, HCP_LOG_WARN,
			"queue %s is taken: another program consumes it as caller %s; nothing comes "
			"here until that one is gone",
			h->settings->queue, h->settings->caller);
	h->was_up = true;
	h->last_trouble[0] = '\0';
}

static void back_off(struct hcp *h)
{
	int64_t most_us = h->settings->config->amqp.reconnect_max_us;
	uint32_t dice;

	h->backoff_us = h->backoff_us ? h->backoff_us * 2 : LIB_SECOND;
	if (h->backoff_us > most_us)
		h->backoff_us = most_us;
	id_random(&dice, sizeof dice); /* 80 to 120 %: many callers, one broker that came back */
	h->retry_at_us = clock_boot_us() + h->backoff_us * (800 + dice % 401) / 1000;
}

/* Once in these words, not once an attempt. */
static void say_trouble(struct hcp *h)
{
	if (strcmp(h->last_trouble, h->error) == 0)
		return;
	lib_log(h, HCP_LOG_WARN, "%s; trying until it works", h->error);
	snprintf(h->last_trouble, sizeof h->last_trouble, "%s", h->error);
}

/* The inbox is left alone: it may be under somebody's eyes. Its messages are of an old life now. */
static void lose(struct hcp *h, const char *why)
{
	lib_fail(h, HCP_E_BROKER, "the broker is gone: %s", why); /* which may be a text of the link's */
	epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, link_fd(h->link), NULL);
	link_free(h->link);
	h->link = NULL;
	h->life++;
	h->ack_count = 0;
	back_off(h);
	say_trouble(h);
}

int lib_wire_open(struct hcp *h)
{
	int64_t end_us = clock_boot_us() + TAKEN_US;
	struct link_error e;
	bool is_second = false;
	struct link *l;
	int status;

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
	struct link *l;
	bool is_done;

	pthread_mutex_lock(&a->lock);
	is_done = a->is_done;
	l = is_done ? a->link : NULL;
	if (l)
		a->link = NULL;
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
	struct lib_note *n = NULL, fake = {.life = h->life, .tag = ev->tag};
	char *body = ev->body;

	h->received++;
	h->delivered_at_us = clock_boot_us();
	ev->body = NULL;
	if (body)
		n = lib_note_read(body, (size_t)ev->size);
	if (n) {
		n->life = h->life;
		n->tag = ev->tag;
		lib_intake_put(h, n);
		return;
	}
	lib_log(h, HCP_LOG_WARN, "a message of %llu bytes (key %s) is no HCP message, or too large; left out",
		(unsigned long long)ev->size, ev->key);
	lib_wire_settle(h, &fake);
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
	struct link_error e, ignored;
	uint64_t tag;
	int got;

	/* At most prefetch deliveries come without an ack, so this ends. */
	while ((got = link_next(h->link, &ev, &e)) > 0)
		if (!take_event(h, ev))
			return;
	if (got == 0) {
		link_release(h->link);
		return;
	}
	/* A header that cannot be decoded would come again for ever. */
	tag = e.is_undecodable ? link_headless_tag(h->link) : 0;
	if (tag && link_reject(h->link, tag, false, &ignored) == 0)
		lib_log(h, HCP_LOG_WARN, "a message that cannot be decoded was thrown away");
	lose(h, e.text);
}

static void keep_binding(struct hcp *h, int64_t now_us)
{
	const struct lib_settings *s = h->settings;
	struct link_error e;

	if (now_us - h->bound_at_us < BINDING_US)
		return;
	h->bound_at_us = now_us;
	if (link_keep_binding(h->link, s->queue, LIB_EVENTS, "topic", s->key, &e) < 0)
		lose(h, e.text);
}

void lib_wire_turn(struct hcp *h, int64_t now_us)
{
	if (h->attempt)
		take_attempt(h);
	if (!h->link && !h->attempt && now_us >= h->retry_at_us)
		start_attempt(h);
	if (h->link)
		keep_binding(h, now_us);
	if (h->link)
		read_frames(h);
	if (!h->link && h->inbox)
		lib_intake_forget_inbox(h);
}

/* --- out --- */

void lib_wire_settle(struct hcp *h, const struct lib_note *n)
{
	if (!h->link || n->life != h->life)
		return;
	if (h->ack_count == h->ack_room) {
		h->ack_room = h->ack_room ? 2 * h->ack_room : 128;
		h->acks = xrealloc(h->acks, h->ack_room * sizeof *h->acks);
	}
	h->acks[h->ack_count++] = n->tag;
}

/* One ack speaks for all up to a tag where none of them still waits in the inbox; that is nearly always so,
 * and far cheaper for the broker. */
static int send_acks(struct hcp *h, struct link_error *e)
{
	uint64_t last = 0;

	for (size_t i = 0; i < h->ack_count; i++)
		if (h->acks[i] > last)
			last = h->acks[i];
	if (!h->inbox || h->inbox->tag > last) /* in the order of their tags: the head is the lowest */
		return link_ack(h->link, last, true, e);
	link_cork(h->link, true);
	for (size_t i = 0; i < h->ack_count; i++)
		if (link_ack(h->link, h->acks[i], false, e) < 0)
			return -1;
	link_cork(h->link, false);
	return 0;
}

void lib_wire_ack(struct hcp *h)
{
	struct link_error e;

	if (!h->link || h->ack_count == 0)
		return;
	h->has_sent = true;
	if (send_acks(h, &e) < 0) {
		lose(h, e.text);
		return;
	}
	h->ack_count = 0;
}

void lib_wire_end_turn(struct hcp *h)
{
	if (h->link && h->has_sent)
		read_frames(h);
	h->has_sent = false;
}

void lib_wire_requeue(struct hcp *h, const struct lib_note *n)
{
	struct link_error e;

	if (!h->link || n->life != h->life)
		return;
	h->has_sent = true;
	if (link_reject(h->link, n->tag, true, &e) < 0)
		lose(h, e.text);
}

void lib_wire_requeue_settled(struct hcp *h)
{
	struct link_error e;

	h->has_sent = true;
	for (size_t i = 0; h->link && i < h->ack_count; i++)
		if (link_reject(h->link, h->acks[i], true, &e) < 0)
			lose(h, e.text);
	h->ack_count = 0;
}

int64_t lib_wire_due_us(const struct hcp *h)
{
	int64_t now_us = clock_boot_us(), beat_us;

	if (h->attempt)
		return INT64_MAX; /* its end wakes us */
	if (!h->link)
		return h->retry_at_us;
	beat_us = link_heartbeat_s(h->link) * LIB_SECOND / 3;
	if (beat_us <= 0 || beat_us > BINDING_US)
		beat_us = BINDING_US;
	return now_us + beat_us; /* heartbeats are served only by our coming round */
}

void lib_wire_close(struct hcp *h)
{
	abandon_attempt(h);
	if (h->link)
		link_close(h->link, CLOSE_MS);
	h->link = NULL;
	h->life++;
	free(h->acks);
	h->acks = NULL;
}
