/* SPDX-License-Identifier: MIT */
/* frames.c: assembles AMQP frames.
 * Owns the rules of what may follow what, and the cap on bodies.
 * Never reads a socket and never calls librabbitmq: it only looks into its structs. */
#include "amqp/frames.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void frames_init(struct frames *f, size_t max_body)
{
	memset(f, 0, sizeof *f);
	f->max_body = max_body;
}

void frames_fini(struct frames *f)
{
	free(f->content.body);
	f->content.body = NULL;
	f->want = FRAMES_IDLE;
}

/* For texts that are compared: a part of a text could equal another text, so a text that does not fit is
 * empty. */
static void copy_name(char out[FRAMES_NAME_SIZE], amqp_bytes_t in)
{
	size_t size = in.len < FRAMES_NAME_SIZE && !(in.len && memchr(in.bytes, 0, in.len)) ? in.len : 0;

	if (size)
		memcpy(out, in.bytes, size);
	out[size] = '\0';
}

static void copy_text(char out[FRAMES_TEXT_SIZE], amqp_bytes_t in)
{
	size_t size = in.len < FRAMES_TEXT_SIZE ? in.len : FRAMES_TEXT_SIZE - 1;

	if (size)
		memcpy(out, in.bytes, size);
	out[size] = '\0';
}

static struct frames_event *plain_event(struct frames *f, enum frames_kind kind)
{
	f->plain.kind = kind;
	return &f->plain;
}

static struct frames_event *bad(struct frames *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static struct frames_event *bad(struct frames *f, const char *fmt, ...)
{
	va_list ap;

	frames_fini(f);
	va_start(ap, fmt);
	vsnprintf(f->plain.text, sizeof f->plain.text, fmt, ap);
	va_end(ap);
	return plain_event(f, FRAMES_BAD);
}

/* --- contents: a method, a header, and bodies until the size is reached --- */

static void begin_content(struct frames *f, enum frames_kind kind)
{
	free(f->content.body); /* of the previous event, if the caller did not take it */
	f->content.body = NULL;
	f->content.kind = kind;
	f->content.size = 0;
	f->content.has_user = false;
	f->content.user[0] = f->content.type[0] = f->content.message_id[0] = '\0';
	f->got = 0;
	f->want = FRAMES_WANT_HEADER;
}

static struct frames_event *end_content(struct frames *f)
{
	f->want = FRAMES_IDLE;
	if (f->content.body)
		f->content.body[f->content.size] = '\0';
	return &f->content;
}

static struct frames_event *feed_header(struct frames *f, const amqp_frame_t *frame)
{
	const amqp_basic_properties_t *p = frame->payload.properties.decoded;
	struct frames_event *c = &f->content;

	if (f->want != FRAMES_WANT_HEADER)
		return bad(f, "a content header out of place");
	if (frame->payload.properties.class_id != AMQP_BASIC_CLASS || !p)
		return bad(f, "a content header of class %d", frame->payload.properties.class_id);
	c->size = frame->payload.properties.body_size;
	if (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG)
		copy_name(c->message_id, p->message_id);
	if (p->_flags & AMQP_BASIC_TYPE_FLAG)
		copy_name(c->type, p->type);
	if (p->_flags & AMQP_BASIC_USER_ID_FLAG) {
		c->has_user = true;
		copy_name(c->user, p->user_id);
	}
	/* No memory for the body of a return, which the sender has, nor for a body over the cap. */
	if (c->kind == FRAMES_DELIVERY && c->size <= f->max_body)
		c->body = xmalloc((size_t)c->size + 1);
	if (c->size == 0)
		return end_content(f);
	f->want = FRAMES_WANT_BODY;
	return NULL;
}

static struct frames_event *feed_body(struct frames *f, const amqp_frame_t *frame)
{
	amqp_bytes_t part = frame->payload.body_fragment;

	if (f->want != FRAMES_WANT_BODY)
		return bad(f, "a body frame out of place");
	if (part.len > f->content.size - f->got)
		return bad(f, "a body longer than the %" PRIu64 " bytes announced", f->content.size);
	if (f->content.body && part.len)
		memcpy(f->content.body + f->got, part.bytes, part.len);
	f->got += part.len;
	return f->got == f->content.size ? end_content(f) : NULL;
}

/* --- methods --- */

static struct frames_event *feed_close(struct frames *f, enum frames_kind kind, int code, amqp_bytes_t text)
{
	f->plain.code = code;
	copy_text(f->plain.text, text);
	return plain_event(f, kind);
}

static struct frames_event *feed_connection_method(struct frames *f, const amqp_method_t *m)
{
	const amqp_connection_close_t *close;

	switch (m->id) {
	case AMQP_CONNECTION_CLOSE_METHOD:
		close = m->decoded;
		return feed_close(f, FRAMES_CONNECTION_CLOSED, close->reply_code, close->reply_text);
	case AMQP_CONNECTION_BLOCKED_METHOD:
		copy_text(f->plain.text, ((const amqp_connection_blocked_t *)m->decoded)->reason);
		return plain_event(f, FRAMES_BLOCKED);
	case AMQP_CONNECTION_UNBLOCKED_METHOD: return plain_event(f, FRAMES_UNBLOCKED);
	default: return NULL;
	}
}

static void begin_delivery(struct frames *f, const amqp_basic_deliver_t *d)
{
	begin_content(f, FRAMES_DELIVERY);
	f->content.tag = d->delivery_tag;
	f->content.redelivered = d->redelivered != 0;
	copy_name(f->content.key, d->routing_key);
}

static void begin_return(struct frames *f, const amqp_basic_return_t *r)
{
	begin_content(f, FRAMES_RETURN);
	f->content.code = r->reply_code;
	copy_text(f->content.text, r->reply_text);
	copy_name(f->content.key, r->routing_key);
}

static struct frames_event *feed_confirm(struct frames *f, enum frames_kind kind, uint64_t tag, bool multiple)
{
	f->plain.tag = tag;
	f->plain.multiple = multiple;
	return plain_event(f, kind);
}

static struct frames_event *feed_channel_method(struct frames *f, const amqp_method_t *m)
{
	const amqp_channel_close_t *close;
	const amqp_basic_ack_t *ack;
	const amqp_basic_nack_t *nack;

	if (m->id == AMQP_CHANNEL_CLOSE_METHOD) { /* the only method that may interrupt a content */
		close = m->decoded;
		frames_fini(f);
		return feed_close(f, FRAMES_CHANNEL_CLOSED, close->reply_code, close->reply_text);
	}
	if (f->want != FRAMES_IDLE)
		return bad(f, "method 0x%08x in the middle of a content", m->id);
	switch (m->id) {
	case AMQP_BASIC_DELIVER_METHOD: begin_delivery(f, m->decoded); return NULL;
	case AMQP_BASIC_RETURN_METHOD: begin_return(f, m->decoded); return NULL;
	case AMQP_BASIC_ACK_METHOD:
		ack = m->decoded;
		return feed_confirm(f, FRAMES_ACK, ack->delivery_tag, ack->multiple != 0);
	case AMQP_BASIC_NACK_METHOD:
		nack = m->decoded;
		return feed_confirm(f, FRAMES_NACK, nack->delivery_tag, nack->multiple != 0);
	case AMQP_BASIC_CANCEL_METHOD:
		copy_text(f->plain.text, ((const amqp_basic_cancel_t *)m->decoded)->consumer_tag);
		return plain_event(f, FRAMES_CANCEL);
	default: return NULL; /* a late reply: no caller waits for it */
	}
}

struct frames_event *frames_feed(struct frames *f, const struct amqp_frame_t_ *frame)
{
	if (frame->channel == 0)
		return frame->frame_type == AMQP_FRAME_METHOD ?
			feed_connection_method(f, &frame->payload.method) :
			NULL;
	if (frame->channel != FRAMES_CHANNEL)
		return bad(f, "a frame on channel %d, which is not open", frame->channel);
	switch (frame->frame_type) {
	case AMQP_FRAME_METHOD: return feed_channel_method(f, &frame->payload.method);
	case AMQP_FRAME_HEADER: return feed_header(f, frame);
	case AMQP_FRAME_BODY: return feed_body(f, frame);
	default: return NULL;
	}
}

uint64_t frames_headless_tag(const struct frames *f)
{
	return f->want == FRAMES_WANT_HEADER && f->content.kind == FRAMES_DELIVERY ? f->content.tag : 0;
}
