/* SPDX-License-Identifier: MIT */
/* proxy.c: bytes between the daemon and the broker, as the mode of the moment says.
 * Knows nothing of AMQP. One thread; the mode is the only thing that others touch. */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/harness.h"

#define CONNECTIONS 64
#define PIECE 65536
#define DELAY_S 0.4
#define TRICKLE_S 1.0

struct way { /* one direction of a connection */
	char data[PIECE];
	size_t from, to;
	double ready_at; /* of what is held: delayed until then */
};

struct connection {
	int fd[2];             /* the daemon's, the broker's; -1: closed */
	struct way way[2];     /* what was read from fd[i] */
	bool is_used, is_dead; /* dead: nothing moves any more */
};

static struct connection connections[CONNECTIONS];
static atomic_int mode, accepted;
static atomic_bool stopping;
static int listener = -1, wake = -1, broker_port;
static pthread_t thread;

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void end_fd(int *fd, bool by_reset)
{
	struct linger hard = {.l_onoff = 1};

	if (*fd < 0)
		return;
	if (by_reset)
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
	close(*fd);
	*fd = -1;
}

static void end_connection(struct connection *c, bool by_reset)
{
	end_fd(&c->fd[0], by_reset);
	end_fd(&c->fd[1], by_reset);
	c->is_used = false;
}

static void admit(void)
{
	struct sockaddr_in to = loopback(broker_port);
	int one = 1, in = accept4(listener, NULL, NULL, SOCK_CLOEXEC), out;

	if (in < 0)
		return;
	accepted++;
	if (mode == PROXY_CUT || mode == PROXY_RESET) {
		end_fd(&in, mode == PROXY_RESET);
		return;
	}
	out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &connections[i];
		if (c->is_used || connect(out, (struct sockaddr *)&to, sizeof to) < 0)
			continue;
		memset(c, 0, sizeof *c);
		c->fd[0] = in;
		c->fd[1] = out;
		c->is_used = true;
		c->is_dead = mode == PROXY_HALF_OPEN;
		for (int k = 0; k < 2; k++) {
			fcntl(c->fd[k], F_SETFL, O_NONBLOCK);
			setsockopt(c->fd[k], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		}
		return;
	}
	end_fd(&in, false); /* no broker: nobody listens here either */
	end_fd(&out, false);
}

/* Reads where there is room and the mode lets; false where that side is closed. */
static bool fill(struct connection *c, int side)
{
	struct way *w = &c->way[side];

	if (w->from < w->to)
		return true;
	ssize_t n = read(c->fd[side], w->data, mode == PROXY_TRICKLE ? 1 : sizeof w->data);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	w->from = 0;
	w->to = n > 0 ? (size_t)n : 0;
	w->ready_at = harness_now() + (mode == PROXY_DELAY ? DELAY_S : mode == PROXY_TRICKLE ? TRICKLE_S : 0);
	return true;
}

static bool drain(struct connection *c, int side)
{
	struct way *w = &c->way[side];

	if (w->from == w->to ||
		(w->ready_at > harness_now() && (mode == PROXY_DELAY || mode == PROXY_TRICKLE)))
		return true;
	size_t most = mode == PROXY_TRICKLE ? 1 : w->to - w->from;
	ssize_t n = send(c->fd[!side], w->data + w->from, most, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	w->from += (size_t)n;
	w->ready_at = harness_now() + (mode == PROXY_TRICKLE ? TRICKLE_S : 0);
	return true;
}

/* A dead one: whoever gives up closes its side; the other is not told, as on a broken path. */
static void bury(struct connection *c, const struct pollfd *p)
{
	for (int k = 0; k < 2; k++)
		if (c->fd[k] >= 0 && (p[k].revents & (POLLRDHUP | POLLHUP | POLLERR)))
			end_fd(&c->fd[k], false);
	if (c->fd[0] < 0 && c->fd[1] < 0)
		c->is_used = false;
}

static void serve(struct connection *c, const struct pollfd *p)
{
	if (c->is_dead) {
		bury(c, p);
		return;
	}
	for (int side = 0; side < 2; side++)
		if (!drain(c, side) || ((p[side].revents & (POLLIN | POLLHUP | POLLERR)) && !fill(c, side)) ||
			!drain(c, side)) {
			end_connection(c, false);
			return;
		}
}

static void apply_mode(void)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &connections[i];
		if (!c->is_used)
			continue;
		if (mode == PROXY_HALF_OPEN)
			c->is_dead = true;
		else if (mode == PROXY_CUT || mode == PROXY_RESET)
			end_connection(c, mode == PROXY_RESET);
	}
}

/* What to wait for: a full way stops its reading, so that the pressure goes on to the sender. */
static void set_events(const struct connection *c, struct pollfd *p)
{
	for (int k = 0; k < 2; k++) {
		const struct way *w = &c->way[k], *other = &c->way[!k];
		p[k] = (struct pollfd){.fd = c->is_used ? c->fd[k] : -1};
		if (c->is_dead || mode == PROXY_STALL)
			p[k].events = POLLRDHUP;
		else if (w->from == w->to)
			p[k].events = POLLIN;
		if (!c->is_dead && mode == PROXY_PASS && other->from < other->to)
			p[k].events |= POLLOUT;
	}
}

static void *run_proxy(void *arg)
{
	static struct pollfd p[2 + 2 * CONNECTIONS];
	uint64_t ignored;

	(void)arg;
	while (!stopping) {
		bool timed = mode == PROXY_DELAY || mode == PROXY_TRICKLE;
		p[0] = (struct pollfd){.fd = listener, .events = POLLIN};
		p[1] = (struct pollfd){.fd = wake, .events = POLLIN};
		for (int i = 0; i < CONNECTIONS; i++)
			set_events(&connections[i], &p[2 + 2 * i]);
		/* A side that hung up while nothing may move would be reported again and again: look
		 * less often. */
		if (mode != PROXY_PASS)
			usleep(5000);
		poll(p, 2 + 2 * CONNECTIONS, timed ? 20 : 500);
		if (p[1].revents && read(wake, &ignored, sizeof ignored) > 0)
			apply_mode();
		for (int i = 0; i < CONNECTIONS; i++)
			if (connections[i].is_used && (mode != PROXY_STALL || connections[i].is_dead))
				serve(&connections[i], &p[2 + 2 * i]);
		if (p[0].revents)
			admit();
	}
	return NULL;
}

int proxy_start(int to_port)
{
	struct sockaddr_in at = loopback(0);
	socklen_t size = sizeof at;

	broker_port = to_port;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	must(listener >= 0 && wake >= 0 && bind(listener, (struct sockaddr *)&at, size) == 0 &&
			listen(listener, 64) == 0 &&
			getsockname(listener, (struct sockaddr *)&at, &size) == 0,
		"the proxy's socket: %s", strerror(errno));
	must(pthread_create(&thread, NULL, run_proxy, NULL) == 0, "no thread");
	return ntohs(at.sin_port);
}

void proxy_set(enum proxy_mode m)
{
	uint64_t one = 1;

	mode = m;
	if (write(wake, &one, sizeof one) < 0)
		give_up("the proxy's wake-up: %s", strerror(errno));
}

int proxy_count(void)
{
	return accepted;
}

void proxy_stop(void)
{
	stopping = true;
	proxy_set(PROXY_CUT);
	pthread_join(thread, NULL);
	for (int i = 0; i < CONNECTIONS; i++)
		if (connections[i].is_used)
			end_connection(&connections[i], false);
	close(listener);
	close(wake);
}
