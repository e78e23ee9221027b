/* SPDX-License-Identifier: MIT */
/* compose.c: frames that go out, as bytes.
 * Owns the layout of basic.publish, of its header, of basic.ack and of basic.reject (AMQP 0-9-1, 4.2).
 * Never writes to a socket (outgoing.c), never decodes anything (frames.c). */
#include "amqp/compose.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <string.h>

#include "amqp/connection.h"

#define CONTENT_TYPE "application/json"
#define CONTENT_ENCODING "utf-8"

static char *put_int(char *at, uint64_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*at++ = (char)(value >> 8 * i);
	return at;
}

static char *put_frame_begin(char *at, int type, size_t size)
{
	*at++ = (char)type;
	at = put_int(at, FRAMES_CHANNEL, 2);
	return put_int(at, size, 4);
}

/* Ends the frame whose bytes begin at `bytes`: only now is their number known. */
static char *put_frame_end(char *bytes, char *at)
{
	put_int(bytes - 4, (uint64_t)(at - bytes), 4);
	*at++ = COMPOSE_FRAME_END;
	return at;
}

/* NULL: an earlier one was too long, or this one is. */
static char *put_short(char *at, const char *text)
{
	size_t size = text ? strlen(text) : 0;

	if (!at || size > UINT8_MAX)
		return NULL;
	*at++ = (char)size;
	memcpy(at, text ? text : "", size);
	return at + size;
}

static char *put_method(char *at, const struct connection_message *m)
{
	char *bytes = put_frame_begin(at, AMQP_FRAME_METHOD, 0);

	at = put_int(bytes, AMQP_BASIC_PUBLISH_METHOD, 4);
	at = put_int(at, 0, 2); /* a reserved field */
	at = put_short(at, m->exchange);
	at = put_short(at, m->key);
	if (!at)
		return NULL;
	*at++ = 1; /* mandatory, and not immediate */
	return put_frame_end(bytes, at);
}

/* The properties stand in the order of their flags, from the highest on. */
static char *put_header(char *at, const struct connection_message *m)
{
	char *bytes = put_frame_begin(at, AMQP_FRAME_HEADER, 0);
	bool has_correlation = m->correlation_id && m->correlation_id[0];
	uint64_t flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG |
		AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
		AMQP_BASIC_TYPE_FLAG;

	flags |= has_correlation ? AMQP_BASIC_CORRELATION_ID_FLAG : 0;
	flags |= m->user_id ? AMQP_BASIC_USER_ID_FLAG : 0;
	at = put_int(bytes, AMQP_BASIC_CLASS, 2);
	at = put_int(at, 0, 2); /* a reserved field */
	at = put_int(at, m->size, 8);
	at = put_int(at, flags, 2);
	at = put_short(at, CONTENT_TYPE);
	at = put_short(at, CONTENT_ENCODING);
	*at++ = AMQP_DELIVERY_PERSISTENT;
	if (has_correlation)
		at = put_short(at, m->correlation_id);
	at = put_short(at, m->message_id);
	if (!at)
		return NULL;
	at = put_int(at, (uint64_t)m->timestamp_s, 8);
	at = put_short(at, m->type);
	if (m->user_id)
		at = put_short(at, m->user_id);
	return at ? put_frame_end(bytes, at) : NULL;
}

size_t compose_head(char to[COMPOSE_HEAD_MAX], const struct connection_message *m)
{
	char *at = put_method(to, m);

	if (at)
		at = put_header(at, m);
	return at ? (size_t)(at - to) : 0;
}

void compose_body_begin(char to[COMPOSE_BODY_BEGIN], size_t size)
{
	put_frame_begin(to, AMQP_FRAME_BODY, size);
}

static void compose_answer(char *to, uint32_t method, uint64_t tag, bool flag)
{
	char *bytes = put_frame_begin(to, AMQP_FRAME_METHOD, 0), *at;

	at = put_int(bytes, method, 4);
	at = put_int(at, tag, 8);
	*at++ = flag;
	put_frame_end(bytes, at);
}

void compose_ack(char to[COMPOSE_ANSWER_SIZE], uint64_t tag, bool multiple)
{
	compose_answer(to, AMQP_BASIC_ACK_METHOD, tag, multiple);
}

void compose_reject(char to[COMPOSE_ANSWER_SIZE], uint64_t tag, bool requeue)
{
	compose_answer(to, AMQP_BASIC_REJECT_METHOD, tag, requeue);
}
