/* SPDX-License-Identifier: MIT */
/* outgoing.c: the buffer of frames that go out, and the writing of it.
 * Owns the buffer, and what a peer that does not read leads to.
 * Never reads from the socket: librabbitmq does, and keeps what came. Knows no layout of a frame (compose.c).
 */
#include "amqp/outgoing.h"

#include <amqp.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "amqp/compose.h"
#include "amqp/connection.h"
#include "base/buf.h"

void outgoing_init(struct outgoing *o, int fd, int heartbeat_s, size_t frame_max)
{
	*o = (struct outgoing){.fd = fd, .heartbeat_s = heartbeat_s, .frame_max = frame_max};
}

void outgoing_fini(struct outgoing *o)
{
	free(o->data);
	o->data = NULL;
	o->size = 0;
}

void outgoing_fail(struct outgoing *o, int status)
{
	if (o->status == AMQP_STATUS_OK)
		o->status = status;
}

static int count_unread(const struct outgoing *o)
{
	int count = 0;

	return ioctl(o->fd, FIONREAD, &count) < 0 ? 0 : count;
}

/* Waits for room in the socket. A peer that has sent nothing for two heartbeats is gone, as it is for
 * librabbitmq when that one waits. What the peer sends meanwhile stays in the socket, so its number grows. */
static int wait_for_room(const struct outgoing *o)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};
	int before = count_unread(o), unread, rc;

	for (;;) {
		rc = poll(&p, 1, o->heartbeat_s > 0 ? 2000 * o->heartbeat_s : -1);
		if (rc > 0) /* or an error, which send reports */
			return AMQP_STATUS_OK;
		if (rc < 0 && errno != EINTR)
			return AMQP_STATUS_SOCKET_ERROR;
		unread = count_unread(o);
		if (rc == 0 && unread <= before)
			return AMQP_STATUS_HEARTBEAT_TIMEOUT;
		before = unread;
	}
}

/* How much of the bytes was sent, or a status. */
static ssize_t send_some(const struct outgoing *o, const char *data, size_t size)
{
	for (;;) {
		ssize_t n = send(o->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		int status;

		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return AMQP_STATUS_SOCKET_ERROR;
		if ((status = wait_for_room(o)) != AMQP_STATUS_OK)
			return status;
	}
}

int outgoing_flush(struct outgoing *o)
{
	size_t sent = 0;

	while (o->status == AMQP_STATUS_OK && sent < o->size) {
		ssize_t n = send_some(o, o->data + sent, o->size - sent);

		if (n < 0)
			o->status = (int)n;
		else
			sent += (size_t)n;
	}
	o->size = 0;
	return o->status;
}

/* Bytes of any number, as they fit: a body may be larger than the buffer. */
static int add(struct outgoing *o, const char *data, size_t size)
{
	if (!o->data)
		o->data = xmalloc(OUTGOING_BYTES);
	while (o->status == AMQP_STATUS_OK && size > 0) {
		size_t room = OUTGOING_BYTES - o->size, part = size < room ? size : room;

		memcpy(o->data + o->size, data, part);
		o->size += part;
		data += part;
		size -= part;
		if (o->size == OUTGOING_BYTES && outgoing_flush(o) != AMQP_STATUS_OK)
			break;
	}
	return o->status;
}

static int add_body(struct outgoing *o, const char *body, size_t size)
{
	const char end = COMPOSE_FRAME_END;
	size_t most = o->frame_max - COMPOSE_OVERHEAD, part;
	char begin[COMPOSE_BODY_BEGIN];

	for (; o->status == AMQP_STATUS_OK && size > 0; body += part, size -= part) {
		part = size < most ? size : most;
		compose_body_begin(begin, part);
		if (add(o, begin, sizeof begin) != AMQP_STATUS_OK || add(o, body, part) != AMQP_STATUS_OK)
			break;
		(void)!add(o, &end, 1);
	}
	return o->status;
}

int outgoing_add_message(struct outgoing *o, const struct connection_message *m)
{
	char head[COMPOSE_HEAD_MAX];
	size_t size = compose_head(head, m);

	if (o->status == AMQP_STATUS_OK && size == 0)
		o->status = AMQP_STATUS_BAD_AMQP_DATA;
	return add(o, head, size) == AMQP_STATUS_OK ? add_body(o, m->body, m->size) : o->status;
}

int outgoing_add_ack(struct outgoing *o, uint64_t tag, bool multiple)
{
	char frame[COMPOSE_ANSWER_SIZE];

	compose_ack(frame, tag, multiple);
	return add(o, frame, sizeof frame);
}

int outgoing_add_reject(struct outgoing *o, uint64_t tag, bool requeue)
{
	char frame[COMPOSE_ANSWER_SIZE];

	compose_reject(frame, tag, requeue);
	return add(o, frame, sizeof frame);
}
