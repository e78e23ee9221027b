/* SPDX-License-Identifier: MIT */
/* broker.c: hcpctl's connection to the broker, which it makes again after each loss.
 * Owns the connection, its queues, the back-off, the acks and the message under way.
 * Never knows what a message means: submit.c and watch.c do. */
#include "hcpctl/caller/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "protocol/message.h"
#include "hcpctl/common/ctl.h"
#include "hcpctl/common/terminal.h"
#include "hcpctl/common/user_files.h"

#define BODY_MAX (64u << 20) /* more than any callee of ours sends */
#define SECOND INT64_C(1000000)
#define CLOSE_MS 1000
#define GROUP (CTL_PREFETCH / 2) /* messages for one ack: the broker sends the other half meanwhile */
#define TAKEN_US 2000000         /* how long another consumer of our queue may take to be gone */
#define TAKEN_STEP_US 50000
#define GATHER_US 2000 /* how long an ack waits for more messages, so that groups are complete */

struct queue {
	char name[CTL_NAME_SIZE], key[CTL_NAME_SIZE];
};

struct ctl_broker {
	const struct ctl_settings *settings;
	struct queue *queues;
	size_t queue_count;
	struct connection *connection; /* NULL: not connected */
	uint32_t generation;           /* of the connection */
	int64_t retry_at_us;
	struct backoff backoff;
	int claims_fd; /* -1: no queue is claimed */
	bool skims, is_blocked;
	bool said_refusal;  /* in this outage */
	uint64_t published; /* on this connection: the tag of the last message */
	bool under_way, returned;
	uint64_t acks[2 * CTL_PREFETCH];
	size_t ack_count;
	int64_t flushed_us;
	uint64_t unacked; /* deliveries on this connection; more than ack_count while some are held */
	int signal;
	char error[480];
};

/* --- signals --- */

static int signal_pipe[2] = {-1, -1};
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	int saved = errno;
	char c = (char)number;

	if (caught || write(signal_pipe[1], &c, 1) < 0) {
		ctl_term_restore();
		_exit(128 + number); /* a second signal, and the first was not handled: a call hangs */
	}
	caught = number;
	errno = saved;
}

void ctl_broker_catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	if (signal_pipe[0] < 0 && pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		ctl_say("no pipe: %s", strerror(errno));
		exit(CTL_ERROR);
	}
	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static bool take_signal(struct ctl_broker *p)
{
	char c;

	if (signal_pipe[0] < 0 || read(signal_pipe[0], &c, 1) != 1)
		return false;
	p->signal = c;
	caught = 0;
	return true;
}

/* --- connecting --- */

static uint64_t read_clock(void)
{
	return (uint64_t)clock_wall_us();
}

struct ctl_broker *ctl_broker_new(const struct ctl_settings *s)
{
	struct ctl_broker *p = xcalloc(1, sizeof *p);

	p->settings = s;
	p->claims_fd = -1;
	p->backoff = CTL_BACKOFF(read_clock);
	/* The first step is for a connection that was lost. A refused message is tried again at once. */
	p->backoff.step_us = p->backoff.first_us;
	return p;
}

void ctl_broker_add_queue(struct ctl_broker *p, const char *instance, const char *key)
{
	struct queue *q;

	p->queues = xrealloc(p->queues, (p->queue_count + 1) * sizeof *p->queues);
	q = &p->queues[p->queue_count++];
	names_event_queue(q->name, sizeof q->name, p->settings->caller, instance);
	snprintf(q->key, sizeof q->key, "%s", key);
}

void ctl_broker_skim(struct ctl_broker *p)
{
	p->skims = true;
}

/* A queue may have several bindings; it is declared, consumed and deleted once. */
static bool is_repeated(const struct ctl_broker *p, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(p->queues[i].name, p->queues[at].name) == 0)
			return true;
	return false;
}

static int say_taken(const char *queue, struct connection_error *e)
{
	*e = (struct connection_error){.code = CTL_TAKEN};
	snprintf(e->text, sizeof e->text, "queue %s is taken: another program reads it", queue);
	return -1;
}

/* Two programs on one queue would each get a part of the messages. HCP forbids to consume exclusively, so
 * those of this user keep out of each other's way by a lock. Without a directory of our own the broker's
 * count of consumers has to do. */
static int claim_queues(struct ctl_broker *p, struct connection_error *e)
{
	char why[CTL_WHY_SIZE];

	for (size_t i = 0; p->settings->home && i < p->queue_count; i++)
		if (!is_repeated(p, i) &&
			ctl_user_files_claim(
				p->settings->home, "queues.lock", p->queues[i].name, &p->claims_fd, why) == 0)
			return say_taken(p->queues[i].name, e);
	return 0;
}

static int consume(struct connection *l, const char *queue, struct connection_error *e)
{
	const int64_t until_us = clock_boot_us() + TAKEN_US;
	int consumers;

	for (;;) {
		if (connection_count_consumers(l, queue, &consumers, e) < 0)
			return -1;
		if (consumers == 0)
			break;
		/* On another machine; or of a program that was killed, which the broker notices soon. */
		if (clock_boot_us() >= until_us || caught)
			return say_taken(queue, e);
		usleep(TAKEN_STEP_US);
	}
	return connection_consume(l, queue, false, CTL_PREFETCH, e);
}

static int set_up(struct ctl_broker *p, struct connection *l, struct connection_error *e)
{
	if (reconnect_declare_exchanges(l, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < p->queue_count; i++) {
		struct connection_queue q = {
			.name = p->queues[i].name, .type = "classic", .expires_ms = CTL_EXPIRES_MS};

		if ((!is_repeated(p, i) && connection_declare_queue(l, &q, e) < 0) ||
			connection_bind_queue(l, q.name, EXCHANGE_EVENTS, p->queues[i].key, e) < 0)
			return -1;
	}
	if (connection_confirm(l, e) < 0)
		return -1;
	for (size_t i = 0; i < p->queue_count; i++)
		if (!is_repeated(p, i) && consume(l, p->queues[i].name, e) < 0)
			return -1;
	return 0;
}

int ctl_broker_open(struct ctl_broker *p, struct connection_error *e)
{
	struct connection_spec spec = {
		.amqp = &p->settings->config->amqp, .name = "hcpctl", .max_body = BODY_MAX};
	struct connection *l;

	if (claim_queues(p, e) < 0 || !(l = connection_open(&spec, e)))
		return -1;
	if (set_up(p, l, e) < 0) {
		connection_free(l);
		return -1;
	}
	p->connection = l;
	p->generation++;
	p->published = 0;
	p->under_way = p->is_blocked = false;
	p->ack_count = 0;
	p->unacked = 0;
	return 0;
}

static void lose(struct ctl_broker *p, const char *why)
{
	/* first: `why` may be memory of the connection */
	ctl_say("broker gone (%s); trying until it is back", why);
	connection_free(p->connection);
	p->connection = NULL;
	p->under_way = false;
	p->ack_count = 0; /* the broker delivers these again, and the reader knows them */
	backoff_reset(&p->backoff);
	p->said_refusal = false;
	p->retry_at_us = clock_boot_us() + backoff_next_us(&p->backoff);
}

/* True: connected again. */
static bool reconnect(struct ctl_broker *p)
{
	struct connection_error e;

	if (ctl_broker_open(p, &e) == 0) {
		ctl_say("broker is back");
		return true;
	}
	/* the broker is there and refuses the connection: the user has to act */
	if (e.code && !p->said_refusal)
		ctl_say("%s", e.text);
	p->said_refusal |= e.code != 0;
	p->retry_at_us = clock_boot_us() + backoff_next_us(&p->backoff);
	return false;
}

/* --- out --- */

bool ctl_broker_publish(struct ctl_broker *p, const char *callee, const char *type, const char *session,
	const char *body, size_t size)
{
	struct message_head head = {0};
	struct connection_error e;
	struct connection_message m = {.exchange = EXCHANGE_COMMANDS,
		.key = callee,
		.type = type,
		.correlation_id = session,
		.user_id = ctl_settings_user(p->settings),
		.body = body,
		.size = size};

	if (!p->connection)
		return false;
	message_peek(body, size, &head);
	m.message_id = head.message_id;
	m.timestamp_s = head.timestamp_s;
	p->published++;
	p->under_way = true;
	p->returned = false;
	if (connection_publish(p->connection, &m, &e) == 0)
		return true;
	lose(p, e.text);
	return false;
}

/* One ack covers all messages where none is held back. That is nearly always possible, and far cheaper for
 * the broker. */
static int send_acks(struct ctl_broker *p, struct connection_error *e)
{
	uint64_t last = 0;

	for (size_t i = 0; i < p->ack_count; i++)
		if (p->acks[i] > last)
			last = p->acks[i];
	if (p->unacked == p->ack_count) {
		p->unacked = 0;
		return connection_ack(p->connection, last, true, e);
	}
	p->unacked -= p->ack_count;
	connection_cork(p->connection, true);
	for (size_t i = 0; i < p->ack_count; i++)
		if (connection_ack(p->connection, p->acks[i], false, e) < 0)
			return -1;
	connection_cork(p->connection, false);
	return 0;
}

/* Prints before it acks: the broker delivers messages that a full disk or closed pipe lost to the next
 * hcpctl. */
static bool flush(struct ctl_broker *p)
{
	struct connection_error e;

	if (fflush(stdout) != 0 || ferror(stdout))
		return false;
	if (p->ack_count > 0 && p->connection && send_acks(p, &e) < 0)
		lose(p, e.text);
	p->ack_count = 0;
	p->flushed_us = clock_boot_us();
	return true;
}

void ctl_broker_ack(struct ctl_broker *p, const struct ctl_message *n)
{
	if (n->generation == p->generation && p->connection &&
		p->ack_count < sizeof p->acks / sizeof *p->acks)
		p->acks[p->ack_count++] = n->tag;
	if (p->ack_count >= GROUP)
		flush(p); /* ctl_broker_step reports a stdout that cannot be written */
}

/* An ack costs the broker as much as a message. While messages come, acks wait for their group. A message
 * after a silence is printed and acked at once. */
static bool is_gathering(const struct ctl_broker *p)
{
	return p->connection && p->ack_count > 0 && clock_boot_us() < p->flushed_us + GATHER_US;
}

/* --- in --- */

static struct ctl_message *read_message(struct ctl_broker *p, struct frames_event *ev)
{
	struct ctl_message *n = NULL, fake = {.generation = p->generation, .tag = ev->tag};
	char *body = ev->body;

	ev->body = NULL;
	if (body)
		n = (p->skims ? ctl_message_skim : ctl_message_read)(body, (size_t)ev->size);
	if (!n) {
		ctl_say("a message of %llu bytes is no HCP message, or too large; left out (key %s)",
			(unsigned long long)ev->size, ev->key);
		ctl_broker_ack(p, &fake);
		return NULL;
	}
	n->generation = p->generation;
	n->tag = ev->tag;
	return n;
}

static enum ctl_what settle(struct ctl_broker *p, const struct frames_event *ev)
{
	if (!p->under_way || ev->tag < p->published)
		return CTL_QUIET;
	p->under_way = false;
	if (ev->kind == FRAMES_NACK) {
		snprintf(p->error, sizeof p->error, "the broker refused it; is the command queue full?");
		return CTL_REFUSED;
	}
	return p->returned ? CTL_UNROUTABLE : CTL_CONFIRMED;
}

/* hcpctl treats a closed channel like a lost connection, unless the broker closed it because of the message
 * under way. */
static enum ctl_what close_down(struct ctl_broker *p, const struct frames_event *ev)
{
	bool ours = p->under_way && ev->kind == FRAMES_CHANNEL_CLOSED && (ev->code == 403 || ev->code == 406);

	if (!ours) {
		lose(p, ev->text);
		return CTL_QUIET;
	}
	snprintf(p->error, sizeof p->error, "%s", ev->text);
	p->under_way = false;
	connection_free(p->connection);
	p->connection = NULL;
	p->retry_at_us = clock_boot_us();
	return CTL_REFUSED;
}

static enum ctl_what take_event(struct ctl_broker *p, struct frames_event *ev, struct ctl_message **note)
{
	switch (ev->kind) {
	case FRAMES_DELIVERY:
		p->unacked++;
		*note = read_message(p, ev);
		return *note ? CTL_NOTE : CTL_QUIET;
	case FRAMES_RETURN: p->returned = true; return CTL_QUIET;
	case FRAMES_ACK:
	case FRAMES_NACK: return settle(p, ev);
	case FRAMES_BLOCKED:
		if (!p->is_blocked)
			ctl_say("the broker takes nothing for now (%s); waiting", ev->text);
		p->is_blocked = true;
		return CTL_QUIET;
	case FRAMES_UNBLOCKED: p->is_blocked = false; return CTL_QUIET;
	case FRAMES_CANCEL: lose(p, "our queue was deleted"); return CTL_QUIET;
	case FRAMES_CHANNEL_CLOSED:
	case FRAMES_CONNECTION_CLOSED:
	case FRAMES_BAD: return close_down(p, ev);
	case FRAMES_NOTHING: break;
	}
	return CTL_QUIET;
}

/* Reads frames up to the first that matters to the caller; CTL_QUIET: no more frames now. */
static enum ctl_what drain(struct ctl_broker *p, struct ctl_message **note)
{
	struct frames_event *ev;
	struct connection_error e;

	while (p->connection) {
		int got = connection_next(p->connection, &ev, &e);
		enum ctl_what what = CTL_QUIET;

		if (got == 0)
			break;
		if (got > 0) {
			what = take_event(p, ev, note);
		} else {
			/* The broker would deliver a message with an undecodable header again for ever. */
			uint64_t tag = e.is_undecodable ? connection_headless_tag(p->connection) : 0;
			struct connection_error ignored;

			if (tag && connection_reject(p->connection, tag, false, &ignored) == 0)
				ctl_say("a message that cannot be decoded was thrown away");
			lose(p, e.text);
		}
		if (what != CTL_QUIET)
			return what;
	}
	return CTL_QUIET;
}

/* False: a signal interrupted the sleep; the size of the terminal may have changed. */
static bool sleep_until(struct ctl_broker *p, int64_t until_us)
{
	struct pollfd fds[2] = {{.fd = signal_pipe[0], .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	int64_t now_us = clock_boot_us(), left_us;

	if (p->connection) { /* hcpctl serves heartbeats only in ctl_broker_step */
		int64_t beat_us = connection_heartbeat_s(p->connection) * SECOND / 3;

		fds[1].fd = connection_fd(p->connection);
		if (beat_us > 0 && until_us > now_us + beat_us)
			until_us = now_us + beat_us;
		connection_release(p->connection);
	} else if (until_us > p->retry_at_us) {
		until_us = p->retry_at_us;
	}
	left_us = until_us > now_us ? until_us - now_us : 0;
	return poll(fds, 2, left_us > 60 * SECOND ? 60000 : (int)((left_us + 999) / 1000)) >= 0 ||
		errno != EINTR;
}

enum ctl_what ctl_broker_step(struct ctl_broker *p, int64_t until_us, struct ctl_message **note)
{
	for (;;) {
		enum ctl_what what;

		*note = NULL;
		if (take_signal(p))
			return CTL_SIGNAL;
		if (!p->connection && clock_boot_us() >= p->retry_at_us && reconnect(p))
			return CTL_UP;
		if ((what = drain(p, note)) != CTL_QUIET)
			return what;
		if (is_gathering(p)) {
			sleep_until(p, p->flushed_us + GATHER_US);
			continue;
		}
		if (!flush(p))
			return CTL_OUT_GONE;
		if (clock_boot_us() >= until_us || !sleep_until(p, until_us))
			return CTL_QUIET;
	}
}

const char *ctl_broker_error(const struct ctl_broker *p)
{
	return p->error;
}

int ctl_broker_signal(const struct ctl_broker *p)
{
	return p->signal;
}

/* A queue that cannot be deleted expires. */
static void delete_all(struct ctl_broker *p)
{
	struct connection_error e;

	for (size_t i = 0; p->connection && i < p->queue_count; i++)
		if (!is_repeated(p, i) && connection_delete_queue(p->connection, p->queues[i].name, &e) < 0) {
			connection_free(p->connection);
			p->connection = NULL;
		}
}

void ctl_broker_end(struct ctl_broker *p, bool delete_queues)
{
	flush(p);
	if (delete_queues)
		delete_all(p);
	if (p->connection)
		connection_close(p->connection, CLOSE_MS);
	if (p->claims_fd >= 0)
		close(p->claims_fd);
	free(p->queues);
	free(p);
}
