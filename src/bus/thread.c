/* bus_lane.c: the life of a bus thread: connect, be up, be lost, wait, again.
 * Owns the connection, the back-off, and what is logged about both.
 * Never looks at messages: what a lane does while it is up is in bus_pub.c and bus_sub.c. */
#include "bus/bus_private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define SECOND_US INT64_C(1000000)
#define STABLE_US (5 * SECOND_US)    /* up for so long, or for two heartbeats: the next loss is a new story */
#define SOFT_DELAY_US INT64_C(20000) /* doubled while it happens over and over ... */
#define SOFT_DELAY_MAX_US SECOND_US  /* ... up to here */
#define CLOSE_TIMEOUT_MS 300         /* a good-bye that nobody answers */

/* --- while it is up --- */

bool lane_come_round(struct lane *l)
{
	struct bus *b = l->bus;
	uint64_t count;
	bool stopping;

	l->round_at_us = clock_boot_us();
	pthread_mutex_lock(&b->lock);
	if (l->signalled) {
		l->signalled = false;
		while (read(l->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
			;
	}
	stopping = b->stopping;
	pthread_mutex_unlock(&b->lock);
	return !stopping;
}

void lane_saw_frame(struct lane *l)
{
	l->frame_at_us = clock_boot_us();
}

static int round_ms(const struct lane *l, int64_t most_us)
{
	int64_t watchdog_us = l->bus->watchdog_us / 4, us = most_us;

	if (watchdog_us > 0 && watchdog_us < us)
		us = watchdog_us;
	return us < 1000 ? 1 : us > 3600 * SECOND_US ? 3600000 : (int)(us / 1000);
}

void lane_sleep(struct lane *l)
{
	bool link_ready;

	link_release(l->link);
	link_wait(l->link, l->wake_fd, round_ms(l, link_heartbeat_s(l->link) * SECOND_US / 3), &link_ready);
	if (link_ready) /* a heartbeat too: the library keeps those to itself */
		lane_saw_frame(l);
}

bool lane_is_lost_by(const struct frames_event *ev, enum loss *how, struct link_error *e)
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

/* From link_open, as soon as there is a socket. */
static int on_socket(void *ctx, int fd)
{
	struct lane *l = ctx;
	struct bus *b = l->bus;
	int guard = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (guard < 0)
		return -1; /* nobody could call this thread back from a call that hangs */
	pthread_mutex_lock(&b->lock);
	l->guard_fd = guard;
	if (b->stopping)
		shutdown(guard, SHUT_RDWR);
	pthread_mutex_unlock(&b->lock);
	return 0;
}

static void close_guard(struct lane *l)
{
	pthread_mutex_lock(&l->bus->lock);
	if (l->guard_fd >= 0)
		close(l->guard_fd);
	l->guard_fd = -1;
	l->drop_why[0] = '\0'; /* told by now */
	pthread_mutex_unlock(&l->bus->lock);
}

/* Which one, which argument (the broker names it), and what to do. */
static int explain_mismatch(struct lane *l, struct link_error *e, const char *what, const char *name)
{
	const char *remedy = "set such arguments by a policy instead, or delete it (with the messages in it)";
	char said[FRAMES_TEXT_SIZE];

	if (e->code != 406)
		return -1;
	snprintf(said, sizeof said, "%.300s", e->text);
	if (strstr(said, "x-queue-type"))
		remedy = l->bus->amqp.queue_type == QUEUE_QUORUM ?
			"set queue_type = classic in [amqp], or delete it (with the messages in it)" :
			"set queue_type = quorum in [amqp], or delete it (with the messages in it)";
	else if (strcmp(what, "exchange") == 0)
		remedy = "delete it, or use another virtual host";
	snprintf(e->text, sizeof e->text, "%s %s exists with other arguments (%s); %s", what, name, said,
		remedy);
	return -1;
}

int lane_declare_exchange(struct lane *l, const char *name, const char *type, struct link_error *e)
{
	return link_declare_exchange(l->link, name, type, e) == 0 ? 0 :
								    explain_mismatch(l, e, "exchange", name);
}

int lane_declare_queue(struct lane *l, const struct link_queue *q, struct link_error *e)
{
	return link_declare_queue(l->link, q, e) == 0 ? 0 : explain_mismatch(l, e, "queue", q->name);
}

static int lane_connect(struct lane *l, struct link_error *e)
{
	struct bus *b = l->bus;
	char name[FRAMES_NAME_SIZE];
	struct link_spec spec = {
		.amqp = &b->amqp, .name = name, .max_body = b->max_message, .on_socket = on_socket, .ctx = l};

	snprintf(name, sizeof name, "hcpd %s %s", b->callee_id, l->ops->name);
	l->link = link_open(&spec, e);
	if (!l->link)
		return -1;
	return l->ops->set_up(l, e);
}

/* The broker refused something on the channel: the connection is well, and can be closed as one should. */
static bool is_channel_code(int code)
{
	return code == 311 || code == 313 || (code >= 403 && code <= 406);
}

static void lane_disconnect(struct lane *l, enum loss how, const struct link_error *e)
{
	if (l->link && (how == LOSS_SOFT || how == LOSS_STOP || is_channel_code(e->code)))
		link_close(l->link, CLOSE_TIMEOUT_MS);
	else
		link_free(l->link);
	l->link = NULL;
	close_guard(l);
}

static void lane_go_up(struct lane *l)
{
	l->up_at_us = clock_boot_us();
	if (l->was_up || l->last_text[0])
		log_info("connected again, going on lane=%s host=%s port=%d", l->ops->name, l->bus->amqp.host,
			l->bus->amqp.port);
	else
		log_info("connected lane=%s host=%s port=%d vhost=%s", l->ops->name, l->bus->amqp.host,
			l->bus->amqp.port, l->bus->amqp.vhost);
	if (l->was_up)
		atomic_fetch_add(&l->bus->reconnects, 1);
	l->was_up = true;
	/* Connecting may take long, and once it is up the core judges it by these. */
	l->round_at_us = l->frame_at_us = clock_boot_us();
	l->is_up = true;
	l->told_down = false;
	l->ops->on_up(l);
}

/* --- being lost --- */

/* A loss that the core brought about is told in the core's words. */
static void explain_drop(struct lane *l, struct link_error *e)
{
	pthread_mutex_lock(&l->bus->lock);
	if (l->drop_why[0]) {
		e->code = 0;
		snprintf(e->text, sizeof e->text, "dropped: %s", l->drop_why);
	}
	pthread_mutex_unlock(&l->bus->lock);
}

struct bus_in *lane_make_news(struct lane *l, enum bus_in_kind kind, const struct link_error *e)
{
	struct bus_in *in = bus_in_new(kind);

	in->code = e->code;
	in->first = !l->was_up;
	snprintf(in->text, sizeof in->text, "%s", e->text);
	return in;
}

static int64_t next_delay_us(struct lane *l, enum loss how)
{
	int64_t most_us = l->bus->amqp.reconnect_max_us, us;
	uint32_t dice;

	if (how == LOSS_MISCONFIGURED)
		return most_us;
	if (how == LOSS_SOFT) {
		us = SOFT_DELAY_US << (l->soft_losses < 8 ? l->soft_losses : 8);
		l->soft_losses++;
		us = us < SOFT_DELAY_MAX_US ? us : SOFT_DELAY_MAX_US;
	} else {
		us = SECOND_US << (l->failures < 12 ? l->failures : 12);
		l->failures++;
	}
	us = us < most_us ? us : most_us;
	id_random(&dice, sizeof dice); /* 80 to 120 %: many daemons, one broker that came back */
	us = us * (800 + dice % 401) / 1000;
	return us < most_us ? us : most_us;
}

/* Once at warn, then quietly while it stays the same. A misconfiguration is the core's to tell. */
static void log_loss(struct lane *l, enum loss how, const struct link_error *e, int64_t delay_us)
{
	bool same = strcmp(l->last_text, e->text) == 0;

	log_at(same || how == LOSS_MISCONFIGURED ? LOG_LVL_DEBUG : LOG_LVL_WARN,
		"no connection, trying again in=%dms lane=%s why=\"%s\"", (int)(delay_us / 1000),
		l->ops->name, e->text);
	snprintf(l->last_text, sizeof l->last_text, "%s", e->text);
}

static void tell_misconfigured(struct lane *l, const struct link_error *e)
{
	if (strcmp(l->last_text, e->text) != 0)
		bus_put_in(l->bus, lane_make_news(l, BUS_MISCONFIGURED, e));
}

/* Not up: waits for its turn to try, or for the end. */
static void lane_wait(struct lane *l, int64_t delay_us)
{
	int64_t end_us = clock_boot_us() + delay_us, left_us;
	struct pollfd p = {.fd = l->wake_fd, .events = POLLIN};

	while (lane_come_round(l) && (left_us = end_us - clock_boot_us()) > 0)
		poll(&p, 1, round_ms(l, left_us));
}

/* A peer that falls silent is noticed after two heartbeats; such a life must not count as one that never
 * worked, or one broken path after another would end at reconnect_max. */
static int64_t stable_us(const struct lane *l)
{
	int64_t two_us = 2 * l->bus->amqp.heartbeat_s * SECOND_US;

	return two_us < STABLE_US ? two_us : STABLE_US;
}

static void lane_be_lost(struct lane *l, enum loss how, struct link_error *e)
{
	int64_t delay_us;

	l->is_up = false;
	explain_drop(l, e);
	if (l->up_at_us && clock_boot_us() - l->up_at_us >= stable_us(l)) {
		l->failures = l->soft_losses = 0;
		l->last_text[0] = '\0';
	}
	l->up_at_us = 0;
	if (!l->told_down && lane_come_round(l)) /* stopping: nobody listens, and owners free what was lent */
		l->ops->on_down(l, e);
	l->told_down = true;
	lane_disconnect(l, how, e);
	if (how == LOSS_STOP)
		return;
	if (how == LOSS_MISCONFIGURED)
		tell_misconfigured(l, e);
	delay_us = next_delay_us(l, how);
	log_loss(l, how, e, delay_us);
	lane_wait(l, delay_us);
}

void *lane_main(void *arg)
{
	struct lane *l = arg;
	struct bus *b = l->bus;
	struct link_error e = {0};
	enum loss how;

	while (lane_come_round(l)) {
		if (lane_connect(l, &e) < 0) {
			how = e.code == 406 ? LOSS_MISCONFIGURED : LOSS_NETWORK;
		} else {
			lane_go_up(l);
			how = l->ops->run(l, &e);
		}
		lane_be_lost(l, how, &e);
	}
	pthread_mutex_lock(&b->lock);
	l->has_ended = true;
	pthread_mutex_unlock(&b->lock);
	bus_unref(b);
	return NULL;
}
