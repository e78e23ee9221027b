/* post.c: the publisher: submits and aborts to hcp.commands, confirmed.
 * Owns its connection and a thread for it: a broker with an alarm stops reading from whoever publishes, and a
 * write to it does not return. Events go on coming on the other connection meanwhile. Never decides what is
 * sent again (outbox.c); what a lost connection left unconfirmed it sends again itself, under the same
 * message_id, which is what message_ids are for. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libhcp/libhcp_private.h"

#define WINDOW 32 /* published and not confirmed */
#define CLOSE_MS 300

struct list {
	struct lib_post_item *first, **end;
};

struct lib_post {
	pthread_mutex_t lock;
	int refs; /* the handle's and the thread's */
	bool is_ending;
	struct list in, out; /* to be sent; settled, and news */
	int guard_fd;        /* of the socket, -1: none */
	int notify_fd;       /* a copy of the handle's: it may be gone first */
	int wake_fd;         /* wakes the thread */
	struct lib_settings *settings;
	/* the thread's */
	struct link *link;
	struct list waiting, flying; /* flying: in the order of their tags */
	size_t flying_count;
	uint64_t next_tag;
	bool is_blocked;
	bool is_careful; /* the broker closed the channel: one at a time shows which it was about */
	int64_t backoff_us;
	char last_text[LIB_ERROR_SIZE];
};

static void list_init(struct list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct list *l, struct lib_post_item *i)
{
	i->next = NULL;
	*l->end = i;
	l->end = &i->next;
}

static struct lib_post_item *list_take(struct list *l)
{
	struct lib_post_item *i = l->first;

	if (i && !(l->first = i->next))
		l->end = &l->first;
	return i;
}

/* All of b behind a. */
static void list_join(struct list *a, struct list *b)
{
	struct lib_post_item *i;

	while ((i = list_take(b)))
		list_add(a, i);
}

void lib_post_item_free(struct lib_post_item *i)
{
	free(i->callee);
	free(i->session);
	free(i->body);
	free(i);
}

static void list_free(struct list *l)
{
	struct lib_post_item *i;

	while ((i = list_take(l)))
		lib_post_item_free(i);
}

static void post_unref(struct lib_post *p)
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

static void report(struct lib_post *p, struct lib_post_item *i, enum lib_post_status status)
{
	i->status = status;
	pthread_mutex_lock(&p->lock);
	list_add(&p->out, i);
	pthread_mutex_unlock(&p->lock);
	lib_wake(p->notify_fd);
}

/* The same thing once. */
static void tell(struct lib_post *p, enum hcp_level level, const char *text)
{
	struct lib_post_item *i;

	if (strcmp(p->last_text, text) == 0)
		return;
	snprintf(p->last_text, sizeof p->last_text, "%s", text);
	i = xcalloc(1, sizeof *i);
	i->level = level;
	snprintf(i->text, sizeof i->text, "%s", text);
	report(p, i, LIB_POST_NEWS);
}

static bool is_ending(struct lib_post *p)
{
	bool ending;

	pthread_mutex_lock(&p->lock);
	ending = p->is_ending;
	pthread_mutex_unlock(&p->lock);
	return ending;
}

static void take_in(struct lib_post *p)
{
	pthread_mutex_lock(&p->lock);
	list_join(&p->waiting, &p->in);
	pthread_mutex_unlock(&p->lock);
}

/* --- up and down --- */

static int on_socket(void *ctx, int fd)
{
	struct lib_post *p = ctx;
	int guard = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (guard < 0)
		return -1;
	pthread_mutex_lock(&p->lock);
	p->guard_fd = guard;
	if (p->is_ending)
		shutdown(guard, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static void close_guard(struct lib_post *p)
{
	pthread_mutex_lock(&p->lock);
	if (p->guard_fd >= 0)
		close(p->guard_fd);
	p->guard_fd = -1;
	pthread_mutex_unlock(&p->lock);
}

/* What was under way goes first the next time. */
static void go_down(struct lib_post *p, bool politely)
{
	struct list again;

	list_init(&again);
	list_join(&again, &p->flying);
	list_join(&again, &p->waiting);
	list_join(&p->waiting, &again);
	p->flying_count = 0;
	if (p->link && politely)
		link_close(p->link, CLOSE_MS);
	else
		link_free(p->link);
	p->link = NULL;
	close_guard(p);
}

static void drain_wakes(struct lib_post *p)
{
	uint64_t count;

	while (read(p->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

/* Sleeps until there is something to send, for so long, or to the end. */
static void rest(struct lib_post *p, int64_t most_us)
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

static void go_up(struct lib_post *p)
{
	int64_t most_us = p->settings->config->amqp.reconnect_max_us;
	struct link_error e;

	p->link = lib_wire_connect(p->settings, "submits", on_socket, p, &e);
	if (p->link && link_confirm(p->link, &e) == 0) {
		p->next_tag = 1;
		p->is_blocked = false;
		p->backoff_us = 0;
		p->last_text[0] = '\0';
		return;
	}
	go_down(p, false);
	tell(p, HCP_LOG_WARN, e.text);
	p->backoff_us = p->backoff_us ? p->backoff_us * 2 : LIB_SECOND;
	p->backoff_us = p->backoff_us < most_us ? p->backoff_us : most_us;
	rest(p, p->backoff_us);
}

/* --- out --- */

static int send_one(struct lib_post *p, struct lib_post_item *i, struct link_error *e)
{
	struct codec_head head = {0};
	struct link_message m = {.exchange = LIB_COMMANDS,
		.key = i->callee,
		.message_id = i->message_id,
		.type = i->type,
		.correlation_id = i->session,
		.user_id = lib_settings_user(p->settings),
		.body = i->body,
		.size = i->size};

	codec_peek(i->body, i->size, &head);
	m.timestamp_s = head.timestamp_s;
	i->tag = p->next_tag++;
	i->is_returned = false;
	list_add(&p->flying, i);
	p->flying_count++;
	return link_publish(p->link, &m, e);
}

static int send_some(struct lib_post *p, struct link_error *e)
{
	size_t window = p->is_careful ? 1 : WINDOW;

	while (p->waiting.first && p->flying_count < window && !p->is_blocked) {
		struct lib_post_item *i = list_take(&p->waiting);

		if (clock_wall_us() > i->expires_us) {
			snprintf(i->text, sizeof i->text,
				"the broker was away for too long; %s may not know it again", i->callee);
			report(p, i, LIB_POST_REFUSED);
		} else if (send_one(p, i, e) < 0) {
			return -1;
		}
	}
	return 0;
}

/* --- in --- */

static void settle(struct lib_post *p, uint64_t tag, bool multiple, bool is_nack)
{
	struct list left;
	struct lib_post_item *i;

	list_init(&left);
	while ((i = list_take(&p->flying))) {
		if (multiple ? tag && i->tag > tag : i->tag != tag) {
			list_add(&left, i);
			continue;
		}
		p->flying_count--;
		if (is_nack)
			snprintf(i->text, sizeof i->text,
				"the broker refused it; is the queue hcp.cmd.%s full?", i->callee);
		report(p, i, is_nack ? LIB_POST_REFUSED : i->is_returned ? LIB_POST_UNROUTABLE : LIB_POSTED);
	}
	list_join(&p->flying, &left);
	if (!p->flying.first && !p->waiting.first)
		p->is_careful = false;
}

static void note_return(struct lib_post *p, const char *message_id)
{
	for (struct lib_post_item *i = p->flying.first; i; i = i->next)
		if (strcmp(i->message_id, message_id) == 0)
			i->is_returned = true;
}

/* The broker names no message. 404 is the exchange's, and is mended by declaring it again. */
static void channel_closed(struct lib_post *p, const struct frames_event *ev)
{
	struct lib_post_item *i;

	if (p->flying_count == 1 && (ev->code == 403 || ev->code == 406)) {
		i = list_take(&p->flying);
		p->flying_count = 0;
		snprintf(i->text, sizeof i->text, "the broker refused it: %s", ev->text);
		report(p, i, LIB_POST_REFUSED);
	}
	p->is_careful = p->flying.first || p->waiting.first;
	tell(p, HCP_LOG_WARN, ev->text);
	go_down(p, true);
}

static void take_event(struct lib_post *p, const struct frames_event *ev)
{
	switch (ev->kind) {
	case FRAMES_ACK:
	case FRAMES_NACK: settle(p, ev->tag, ev->multiple, ev->kind == FRAMES_NACK); break;
	case FRAMES_RETURN: note_return(p, ev->message_id); break;
	case FRAMES_BLOCKED:
		p->is_blocked = true;
		tell(p, HCP_LOG_WARN, "the broker has an alarm and takes no submits; waiting for its end");
		break;
	case FRAMES_UNBLOCKED: p->is_blocked = false; break;
	case FRAMES_CHANNEL_CLOSED: channel_closed(p, ev); break;
	case FRAMES_CONNECTION_CLOSED:
	case FRAMES_BAD:
		tell(p, HCP_LOG_WARN, ev->text);
		go_down(p, false);
		break;
	default: break;
	}
}

/* One round while it is up; -1: it is no more. */
static int come_round(struct lib_post *p, struct link_error *e)
{
	struct frames_event *ev;
	bool link_ready;
	int rc, beat_s;

	/* First out, then in: sending may read frames into the library, and its descriptor is silent then. */
	if (send_some(p, e) < 0)
		return -1;
	while (p->link && (rc = link_next(p->link, &ev, e)) != 0) {
		if (rc < 0)
			return -1;
		take_event(p, ev);
	}
	if (!p->link ||
		(p->waiting.first && !p->is_blocked && p->flying_count < (p->is_careful ? 1 : WINDOW)))
		return 0;
	link_release(p->link);
	beat_s = link_heartbeat_s(p->link);
	link_wait(p->link, p->wake_fd, beat_s > 0 ? beat_s * 1000 / 3 : 10000, &link_ready);
	drain_wakes(p);
	return 0;
}

static void *post_main(void *arg)
{
	struct lib_post *p = arg;
	struct link_error e;

	while (!is_ending(p)) {
		take_in(p);
		if (!p->link && !p->waiting.first) {
			rest(p, INT64_MAX / 2);
		} else if (!p->link) {
			go_up(p);
		} else if (come_round(p, &e) < 0) {
			tell(p, HCP_LOG_WARN, e.text);
			go_down(p, false);
		}
	}
	go_down(p, true);
	post_unref(p);
	return NULL;
}

/* --- the handle's side --- */

struct lib_post *lib_post_new(struct lib_settings *s, int wake_fd)
{
	struct lib_post *p = xcalloc(1, sizeof *p);

	pthread_mutex_init(&p->lock, NULL);
	list_init(&p->in);
	list_init(&p->out);
	list_init(&p->waiting);
	list_init(&p->flying);
	p->guard_fd = -1;
	p->refs = 2;
	p->settings = lib_settings_ref(s);
	p->notify_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 3);
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->notify_fd >= 0 && p->wake_fd >= 0 && lib_wire_thread(post_main, p) == 0)
		return p;
	p->refs = 1;
	post_unref(p);
	return NULL;
}

void lib_post_put(struct lib_post *p, struct lib_post_item *i)
{
	pthread_mutex_lock(&p->lock);
	list_add(&p->in, i);
	pthread_mutex_unlock(&p->lock);
	lib_wake(p->wake_fd);
}

struct lib_post_item *lib_post_take(struct lib_post *p)
{
	struct lib_post_item *i;

	pthread_mutex_lock(&p->lock);
	i = p->out.first;
	list_init(&p->out);
	pthread_mutex_unlock(&p->lock);
	return i;
}

void lib_post_end(struct lib_post *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_ending = true;
	/* It may hang in a write. What is not confirmed is in the file. */
	if (p->guard_fd >= 0)
		shutdown(p->guard_fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
	lib_wake(p->wake_fd);
	post_unref(p);
}
