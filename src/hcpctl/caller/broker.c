/* ctl_pump.c: one connection to the broker, kept.
 * Owns the link, the queues on it, back-off, acks and the message under way.
 * Never knows what a message means: submit and watch do. */
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

#define BODY_MAX (64u << 20) /* more than any callee of ours sends */
#define SECOND INT64_C(1000000)
#define BACKOFF_MAX_US (60 * SECOND)
#define CLOSE_MS 1000
#define GROUP (CTL_PREFETCH / 2) /* messages an ack: the other half is on its way meanwhile */
#define GATHER_US 2000           /* a stream that flows is waited for so long, so that groups are whole */

struct queue {
	char name[CTL_NAME_SIZE], key[CTL_NAME_SIZE];
};

struct ctl_pump {
	const struct ctl_settings *settings;
	struct queue *queues;
	size_t queue_count;
	struct link *link; /* NULL: not connected */
	uint32_t life;
	int64_t retry_at_us, backoff_us;
	bool skims, is_blocked;
	bool said_refusal;  /* in this outage */
	uint64_t published; /* in this life: the tag of the last one */
	bool under_way, returned;
	uint64_t acks[2 * CTL_PREFETCH];
	size_t ack_count;
	int64_t flushed_us;
	uint64_t unacked; /* delivered in this life; above ack_count while some are held */
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
		_exit(128 + number); /* somewhere in a call that does not come back: the user means it */
	}
	caught = number;
	errno = saved;
}

void ctl_pump_catch_signals(void)
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

static bool take_signal(struct ctl_pump *p)
{
	char c;

	if (signal_pipe[0] < 0 || read(signal_pipe[0], &c, 1) != 1)
		return false;
	p->signal = c;
	caught = 0;
	return true;
}

/* --- connecting --- */

struct ctl_pump *ctl_pump_new(const struct ctl_settings *s)
{
	struct ctl_pump *p = xcalloc(1, sizeof *p);

	p->settings = s;
	p->backoff_us = SECOND;
	return p;
}

void ctl_pump_add_queue(struct ctl_pump *p, const char *instance, const char *key)
{
	struct queue *q;

	p->queues = xrealloc(p->queues, (p->queue_count + 1) * sizeof *p->queues);
	q = &p->queues[p->queue_count++];
	snprintf(q->name, sizeof q->name, "hcp.evt.%s.%s", p->settings->caller, instance);
	snprintf(q->key, sizeof q->key, "%s", key);
}

void ctl_pump_skim(struct ctl_pump *p)
{
	p->skims = true;
}

/* A queue may have several bindings; it is declared, consumed and deleted once. */
static bool is_repeated(const struct ctl_pump *p, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(p->queues[i].name, p->queues[at].name) == 0)
			return true;
	return false;
}

static int set_up(struct ctl_pump *p, struct link *l, struct link_error *e)
{
	if (link_declare_exchange(l, CTL_COMMANDS, "direct", e) < 0 ||
		link_declare_exchange(l, CTL_EVENTS, "topic", e) < 0)
		return -1;
	for (size_t i = 0; i < p->queue_count; i++) {
		struct link_queue q = {
			.name = p->queues[i].name, .type = "classic", .expires_ms = CTL_EXPIRES_MS};

		if ((!is_repeated(p, i) && link_declare_queue(l, &q, e) < 0) ||
			link_bind_queue(l, q.name, CTL_EVENTS, p->queues[i].key, e) < 0)
			return -1;
	}
	if (link_confirm(l, e) < 0)
		return -1;
	/* Exclusive: two of us on one queue would each see half of it. */
	for (size_t i = 0; i < p->queue_count; i++)
		if (!is_repeated(p, i) && link_consume(l, p->queues[i].name, true, CTL_PREFETCH, e) < 0)
			return -1;
	return 0;
}

int ctl_pump_open(struct ctl_pump *p, struct link_error *e)
{
	struct link_spec spec = {.amqp = &p->settings->config->amqp, .name = "hcpctl", .max_body = BODY_MAX};
	struct link *l = link_open(&spec, e);

	if (!l)
		return -1;
	if (set_up(p, l, e) < 0) {
		link_free(l);
		return -1;
	}
	p->link = l;
	p->life++;
	p->published = 0;
	p->under_way = p->is_blocked = false;
	p->ack_count = 0;
	p->unacked = 0;
	return 0;
}

static void lose(struct ctl_pump *p, const char *why)
{
	ctl_say("broker gone (%s); trying until it is back", why); /* first: it may be a text of the link's */
	link_free(p->link);
	p->link = NULL;
	p->under_way = false;
	p->ack_count = 0; /* they come again, and are known */
	p->backoff_us = SECOND;
	p->said_refusal = false;
	p->retry_at_us = clock_boot_us() + p->backoff_us;
}

/* True where there is a connection again. */
static bool reconnect(struct ctl_pump *p)
{
	struct link_error e;

	if (ctl_pump_open(p, &e) == 0) {
		ctl_say("broker is back");
		return true;
	}
	if (e.code && !p->said_refusal) /* it is there, and does not want us: that will not pass by itself */
		ctl_say("%s", e.text);
	p->said_refusal |= e.code != 0;
	p->backoff_us = p->backoff_us * 2 < BACKOFF_MAX_US ? p->backoff_us * 2 : BACKOFF_MAX_US;
	/* A tenth of jitter, so that many of us do not come at the same moment. */
	p->retry_at_us = clock_boot_us() + p->backoff_us + clock_wall_us() % (p->backoff_us / 10);
	return false;
}

/* --- out --- */

bool ctl_pump_publish(struct ctl_pump *p, const char *callee, const char *type, const char *session,
	const char *body, size_t size)
{
	struct codec_head head = {0};
	struct link_error e;
	struct link_message m = {.exchange = CTL_COMMANDS,
		.key = callee,
		.type = type,
		.correlation_id = session,
		.user_id = ctl_settings_user(p->settings),
		.body = body,
		.size = size};

	if (!p->link)
		return false;
	codec_peek(body, size, &head);
	m.message_id = head.message_id;
	m.timestamp_s = head.timestamp_s;
	p->published++;
	p->under_way = true;
	p->returned = false;
	if (link_publish(p->link, &m, &e) == 0)
		return true;
	lose(p, e.text);
	return false;
}

/* One ack speaks for all where none is held back; that is nearly always so, and far cheaper for the broker.
 */
static int send_acks(struct ctl_pump *p, struct link_error *e)
{
	uint64_t last = 0;

	for (size_t i = 0; i < p->ack_count; i++)
		if (p->acks[i] > last)
			last = p->acks[i];
	if (p->unacked == p->ack_count) {
		p->unacked = 0;
		return link_ack(p->link, last, true, e);
	}
	p->unacked -= p->ack_count;
	link_cork(p->link, true);
	for (size_t i = 0; i < p->ack_count; i++)
		if (link_ack(p->link, p->acks[i], false, e) < 0)
			return -1;
	link_cork(p->link, false);
	return 0;
}

/* Printed first, acked then: what a full disk or a closed pipe took is delivered again to the next. */
static bool flush(struct ctl_pump *p)
{
	struct link_error e;

	if (fflush(stdout) != 0 || ferror(stdout))
		return false;
	if (p->ack_count > 0 && p->link && send_acks(p, &e) < 0)
		lose(p, e.text);
	p->ack_count = 0;
	p->flushed_us = clock_boot_us();
	return true;
}

void ctl_pump_ack(struct ctl_pump *p, const struct ctl_note *n)
{
	if (n->life == p->life && p->link && p->ack_count < sizeof p->acks / sizeof *p->acks)
		p->acks[p->ack_count++] = n->tag;
	if (p->ack_count >= GROUP)
		flush(p); /* a stdout that is gone shows at the next step */
}

/* An ack costs the broker as much as a message does: while more comes, it waits for its group. What comes
 * after a silence is shown and acked at once. */
static bool is_gathering(const struct ctl_pump *p)
{
	return p->link && p->ack_count > 0 && clock_boot_us() < p->flushed_us + GATHER_US;
}

/* --- in --- */

static struct ctl_note *read_note(struct ctl_pump *p, struct frames_event *ev)
{
	struct ctl_note *n = NULL, fake = {.life = p->life, .tag = ev->tag};
	char *body = ev->body;

	ev->body = NULL;
	if (body)
		n = (p->skims ? ctl_note_skim : ctl_note_read)(body, (size_t)ev->size);
	if (!n) {
		ctl_say("a message of %llu bytes is no HCP message, or too large; left out (key %s)",
			(unsigned long long)ev->size, ev->key);
		ctl_pump_ack(p, &fake);
		return NULL;
	}
	n->life = p->life;
	n->tag = ev->tag;
	return n;
}

static enum ctl_what settle(struct ctl_pump *p, const struct frames_event *ev)
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

/* A closed channel cannot be told from a lost connection by what we do next, unless it was about our message.
 */
static enum ctl_what close_down(struct ctl_pump *p, const struct frames_event *ev)
{
	bool ours = p->under_way && ev->kind == FRAMES_CHANNEL_CLOSED && (ev->code == 403 || ev->code == 406);

	if (!ours) {
		lose(p, ev->text);
		return CTL_QUIET;
	}
	snprintf(p->error, sizeof p->error, "%s", ev->text);
	p->under_way = false;
	link_free(p->link);
	p->link = NULL;
	p->retry_at_us = clock_boot_us();
	return CTL_REFUSED;
}

static enum ctl_what take_event(struct ctl_pump *p, struct frames_event *ev, struct ctl_note **note)
{
	switch (ev->kind) {
	case FRAMES_DELIVERY:
		p->unacked++;
		*note = read_note(p, ev);
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

/* Everything that is there, up to the first thing of interest; CTL_QUIET: nothing more for now. */
static enum ctl_what drain(struct ctl_pump *p, struct ctl_note **note)
{
	struct frames_event *ev;
	struct link_error e;

	while (p->link) {
		int got = link_next(p->link, &ev, &e);
		enum ctl_what what = CTL_QUIET;

		if (got == 0)
			break;
		if (got > 0) {
			what = take_event(p, ev, note);
		} else {
			/* A header that cannot be decoded would come again for ever. */
			uint64_t tag = e.is_undecodable ? link_headless_tag(p->link) : 0;
			struct link_error ignored;

			if (tag && link_reject(p->link, tag, false, &ignored) == 0)
				ctl_say("a message that cannot be decoded was thrown away");
			lose(p, e.text);
		}
		if (what != CTL_QUIET)
			return what;
	}
	return CTL_QUIET;
}

/* False: a signal cut it short, which may be news of the terminal. */
static bool sleep_until(struct ctl_pump *p, int64_t until_us)
{
	struct pollfd fds[2] = {{.fd = signal_pipe[0], .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	int64_t now_us = clock_boot_us(), left_us;

	if (p->link) { /* heartbeats are served only by our coming round */
		int64_t beat_us = link_heartbeat_s(p->link) * SECOND / 3;

		fds[1].fd = link_fd(p->link);
		if (beat_us > 0 && until_us > now_us + beat_us)
			until_us = now_us + beat_us;
		link_release(p->link);
	} else if (until_us > p->retry_at_us) {
		until_us = p->retry_at_us;
	}
	left_us = until_us > now_us ? until_us - now_us : 0;
	return poll(fds, 2, left_us > 60 * SECOND ? 60000 : (int)((left_us + 999) / 1000)) >= 0 ||
		errno != EINTR;
}

enum ctl_what ctl_pump_step(struct ctl_pump *p, int64_t until_us, struct ctl_note **note)
{
	for (;;) {
		enum ctl_what what;

		*note = NULL;
		if (take_signal(p))
			return CTL_SIGNAL;
		if (!p->link && clock_boot_us() >= p->retry_at_us && reconnect(p))
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

const char *ctl_pump_error(const struct ctl_pump *p)
{
	return p->error;
}

int ctl_pump_signal(const struct ctl_pump *p)
{
	return p->signal;
}

/* Where one cannot be deleted it expires. */
static void delete_all(struct ctl_pump *p)
{
	struct link_error e;

	for (size_t i = 0; p->link && i < p->queue_count; i++)
		if (!is_repeated(p, i) && link_delete_queue(p->link, p->queues[i].name, &e) < 0) {
			link_free(p->link);
			p->link = NULL;
		}
}

void ctl_pump_end(struct ctl_pump *p, bool delete_queues)
{
	flush(p);
	if (delete_queues)
		delete_all(p);
	if (p->link)
		link_close(p->link, CLOSE_MS);
	free(p->queues);
	free(p);
}
