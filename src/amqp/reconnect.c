/* SPDX-License-Identifier: MIT */
/* reconnect.c: the back-off between two attempts to connect, the guard of a connection's socket, and the
 * exchanges that every connection needs.
 * Owns the arithmetic of the back-off and the copied descriptor.
 * Never opens a connection, sleeps or logs: its users do, each in its own thread and in its own words. */
#include "amqp/reconnect.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "amqp/names.h"
#include "base/id.h"

static int64_t at_most(int64_t us, int64_t limit_us)
{
	return us < limit_us ? us : limit_us;
}

static int64_t add_jitter(const struct backoff *b, bool is_first)
{
	switch (b->jitter) {
	case BACKOFF_AROUND: return b->step_us * (int64_t)(800 + b->random() % 401) / 1000;
	case BACKOFF_ABOVE:
		return is_first ? b->step_us :
				  b->step_us + (int64_t)(b->random() % (uint64_t)(b->step_us / 10));
	case BACKOFF_EXACT: break;
	}
	return b->step_us;
}

int64_t backoff_next_us(struct backoff *b)
{
	bool is_first = b->step_us == 0;
	int64_t wait_us;

	b->step_us = at_most(is_first ? b->first_us : 2 * b->step_us, b->max_us);
	wait_us = add_jitter(b, is_first);
	return b->ceiling_us ? at_most(wait_us, b->ceiling_us) : wait_us;
}

void backoff_reset(struct backoff *b)
{
	b->step_us = 0;
}

uint64_t backoff_random(void)
{
	uint32_t dice;

	id_random(&dice, sizeof dice);
	return dice;
}

int guard_open(struct guard *g, int socket_fd, bool is_ending)
{
	int fd = fcntl(socket_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -1;
	g->fd = fd;
	if (is_ending)
		shutdown(fd, SHUT_RDWR);
	return 0;
}

bool guard_shut_down(struct guard *g)
{
	if (g->fd < 0)
		return false;
	shutdown(g->fd, SHUT_RDWR);
	return true;
}

void guard_close(struct guard *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
}

int reconnect_declare_exchanges(struct connection *l, const char **refused, struct connection_error *e)
{
	static const struct {
		const char *name, *type;
	} exchanges[] = {{EXCHANGE_COMMANDS, "direct"}, {EXCHANGE_EVENTS, "topic"}};

	for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
		if (connection_declare_exchange(l, exchanges[i].name, exchanges[i].type, e) < 0) {
			if (refused)
				*refused = exchanges[i].name;
			return -1;
		}
	return 0;
}
