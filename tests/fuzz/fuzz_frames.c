/* SPDX-License-Identifier: MIT */
/* fuzz_frames.c: AMQP frames in any order, against a second, simpler assembler. Input: a letter a frame and
 * what it has, see `feed_one`; sizes are letters and digits too, so that an input can be read. */
#include <amqp.h>
#include <amqp_framing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp/frames.h"
#include "fuzz.h"

#define CAP 64

/* What should be known, kept in the simplest way. */
struct model {
	enum { IDLE, HEADER, BODY } want;
	bool is_return;
	uint64_t tag, size;
	struct buf body;
	char key[600];
	bool has_user;
	char user[600], message_id[600];
	bool user_given, id_given;
};

struct run {
	struct feed f;
	struct frames frames;
	struct model m;
	bool is_over; /* the connection is dropped after a bad frame */
};

/* Bytes of the input, in a block of their own that is gone after the frame, as the library's memory is. */
static amqp_bytes_t take_bytes(struct run *r, char **block)
{
	size_t size = feed_byte(&r->f), left;

	/* longer than a short string may be: the decoder would not, we must not mind */
	size = size == 'z' ? 300 : size & 31;
	left = size < r->f.left ? size : r->f.left;
	*block = xmalloc(size);
	memset(*block, 'x', size);
	if (left > 0)
		memcpy(*block, r->f.at, left);
	r->f.at += left;
	r->f.left -= left;
	return (amqp_bytes_t){size, *block};
}

/* What a short string must come out as. */
static void note_name(char out[600], amqp_bytes_t in)
{
	bool is_name = in.len < FRAMES_NAME_SIZE && (in.len == 0 || memchr(in.bytes, 0, in.len) == NULL);

	snprintf(out, 600, "%.*s", is_name ? (int)in.len : 0, (const char *)in.bytes);
}

static struct frames_event *feed(struct run *r, int channel, int type, const amqp_frame_t *like)
{
	amqp_frame_t frame = *like;
	struct frames_event *e;

	frame.channel = (amqp_channel_t)channel;
	frame.frame_type = (uint8_t)type;
	e = frames_feed(&r->frames, &frame);
	MUST(e == NULL || e->kind != FRAMES_NOTHING);
	if (e != NULL && e->kind == FRAMES_BAD) {
		MUST(e->text[0] != '\0' && memchr(e->text, '\0', sizeof e->text) != NULL);
		r->is_over = true;
	}
	return e;
}

static struct frames_event *feed_method(struct run *r, int channel, amqp_method_number_t id, void *decoded)
{
	amqp_frame_t frame = {0};

	frame.payload.method.id = id;
	frame.payload.method.decoded = decoded;
	return feed(r, channel, AMQP_FRAME_METHOD, &frame);
}

/* A whole delivery or return, as the frames said it. */
static void check_content(struct run *r, struct frames_event *e)
{
	struct model *m = &r->m;

	MUST(e != NULL && e->kind == (m->is_return ? FRAMES_RETURN : FRAMES_DELIVERY));
	MUST(e->size == m->size && strcmp(e->key, m->key) == 0);
	MUST(strcmp(e->message_id, m->id_given ? m->message_id : "") == 0);
	if (!m->is_return) {
		MUST(e->tag == m->tag && e->has_user == m->user_given &&
			strcmp(e->user, m->user_given ? m->user : "") == 0);
		MUST((e->body != NULL) == (m->size <= CAP));
		MUST(e->body == NULL || (memcmp(e->body, buf_text(&m->body), m->size + 1) == 0));
		if (m->tag % 2 == 0) { /* sometimes it is taken, sometimes left */
			free(e->body);
			e->body = NULL;
		}
	} else {
		MUST(e->body == NULL && e->code == 312);
	}
	m->want = IDLE;
}

static void begin_content(struct run *r, bool is_return)
{
	amqp_basic_deliver_t d = {.delivery_tag = feed_byte(&r->f), .redelivered = 1};
	amqp_basic_return_t ret = {.reply_code = 312};
	struct frames_event *e;
	char *block;

	d.routing_key = ret.routing_key = take_bytes(r, &block);
	ret.reply_text = d.routing_key;
	e = is_return ? feed_method(r, 1, AMQP_BASIC_RETURN_METHOD, &ret) :
			feed_method(r, 1, AMQP_BASIC_DELIVER_METHOD, &d);
	if (r->m.want != IDLE) {
		MUST(e != NULL && e->kind == FRAMES_BAD);
	} else {
		MUST(e == NULL);
		r->m.want = HEADER;
		r->m.is_return = is_return;
		r->m.tag = d.delivery_tag;
		r->m.size = 0;
		buf_clear(&r->m.body);
		note_name(r->m.key, d.routing_key);
		MUST(frames_headless_tag(&r->frames) == (is_return ? 0 : r->m.tag));
	}
	free(block);
}

static void feed_header(struct run *r, bool is_basic, bool has_properties)
{
	amqp_basic_properties_t p = {._flags = 0};
	amqp_frame_t frame = {0};
	uint8_t flags = feed_byte(&r->f);
	struct model *m = &r->m;
	struct frames_event *e;
	uint64_t size = feed_byte(&r->f);
	char *block;

	size = size == '~' ? UINT64_MAX : size == '^' ? UINT64_MAX / 2 : size & 127;
	p.message_id = p.user_id = p.type = take_bytes(r, &block);
	p._flags = (amqp_flags_t)((flags & 1 ? AMQP_BASIC_USER_ID_FLAG : 0) |
		(flags & 2 ? AMQP_BASIC_MESSAGE_ID_FLAG : 0) | (flags & 4 ? AMQP_BASIC_TYPE_FLAG : 0));
	frame.payload.properties.class_id = is_basic ? AMQP_BASIC_CLASS : AMQP_CHANNEL_CLASS;
	frame.payload.properties.body_size = size;
	frame.payload.properties.decoded = has_properties ? &p : NULL;
	e = feed(r, 1, AMQP_FRAME_HEADER, &frame);
	if (m->want != HEADER || !is_basic || !has_properties) {
		MUST(e != NULL && e->kind == FRAMES_BAD);
	} else {
		m->size = size;
		m->user_given = (flags & 1) != 0;
		m->id_given = (flags & 2) != 0;
		note_name(m->user, p.user_id);
		note_name(m->message_id, p.message_id);
		m->want = BODY;
		if (size == 0)
			check_content(r, e);
		else
			MUST(e == NULL);
	}
	free(block);
}

static void feed_body(struct run *r)
{
	amqp_frame_t frame = {0};
	struct model *m = &r->m;
	struct frames_event *e;
	char *block;

	frame.payload.body_fragment = take_bytes(r, &block);
	e = feed(r, 1, AMQP_FRAME_BODY, &frame);
	if (m->want != BODY || frame.payload.body_fragment.len > m->size - m->body.size) {
		MUST(e != NULL && e->kind == FRAMES_BAD);
	} else {
		buf_add(&m->body, block, frame.payload.body_fragment.len);
		if (m->body.size == m->size)
			check_content(r, e);
		else
			MUST(e == NULL);
	}
	free(block);
}

/* A method of the channel that carries no content: bad in the middle of one, an event of its own
 * otherwise. */
static void feed_plain(struct run *r, char letter)
{
	uint8_t tag = feed_byte(&r->f);
	amqp_basic_ack_t ack = {.delivery_tag = tag, .multiple = tag & 1};
	amqp_basic_nack_t nack = {.delivery_tag = tag, .multiple = tag & 1};
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes("c")};
	amqp_basic_qos_ok_t other = {0};
	struct frames_event *e = letter == 'A' ? feed_method(r, 1, AMQP_BASIC_ACK_METHOD, &ack) :
		letter == 'N'                  ? feed_method(r, 1, AMQP_BASIC_NACK_METHOD, &nack) :
		letter == 'C'                  ? feed_method(r, 1, AMQP_BASIC_CANCEL_METHOD, &cancel) :
						 feed_method(r, 1, AMQP_BASIC_QOS_OK_METHOD, &other);

	if (r->m.want != IDLE)
		MUST(e != NULL && e->kind == FRAMES_BAD);
	else if (letter == 'o')
		MUST(e == NULL);
	else if (letter == 'C')
		MUST(e->kind == FRAMES_CANCEL && strcmp(e->text, "c") == 0);
	else
		MUST(e->kind == (letter == 'A' ? FRAMES_ACK : FRAMES_NACK) && e->tag == tag &&
			e->multiple == (tag & 1));
}

static void feed_close(struct run *r, bool is_channel)
{
	amqp_channel_close_t channel = {.reply_code = 404};
	amqp_connection_close_t connection = {.reply_code = 320};
	struct frames_event *e;
	char *block;

	channel.reply_text = connection.reply_text = take_bytes(r, &block);
	e = is_channel ? feed_method(r, 1, AMQP_CHANNEL_CLOSE_METHOD, &channel) :
			 feed_method(r, 0, AMQP_CONNECTION_CLOSE_METHOD, &connection);
	MUST(e != NULL && e->kind == (is_channel ? FRAMES_CHANNEL_CLOSED : FRAMES_CONNECTION_CLOSED));
	MUST(e->code == (is_channel ? 404 : 320) && memchr(e->text, '\0', sizeof e->text) != NULL);
	if (is_channel)
		r->m.want = IDLE; /* the one method that may cut a content short */
	free(block);
}

static void feed_connection(struct run *r, char letter)
{
	amqp_connection_blocked_t blocked = {.reason = amqp_cstring_bytes("low on memory")};
	amqp_connection_unblocked_t unblocked = {0};
	struct frames_event *e = letter == 'b' ?
		feed_method(r, 0, AMQP_CONNECTION_BLOCKED_METHOD, &blocked) :
		feed_method(r, 0, AMQP_CONNECTION_UNBLOCKED_METHOD, &unblocked);

	MUST(e != NULL && e->kind == (letter == 'b' ? FRAMES_BLOCKED : FRAMES_UNBLOCKED));
	MUST(letter != 'b' || strcmp(e->text, "low on memory") == 0);
}

static void feed_stray(struct run *r, char letter)
{
	amqp_frame_t frame = {0};
	struct frames_event *e = letter == 'h' ? feed(r, 0, AMQP_FRAME_HEARTBEAT, &frame) :
						 feed(r, 2 + feed_byte(&r->f), AMQP_FRAME_BODY, &frame);

	MUST(letter == 'h' ? e == NULL : e != NULL && e->kind == FRAMES_BAD);
}

static void feed_one(struct run *r)
{
	char letter = (char)feed_byte(&r->f);

	switch (letter) {
	case 'D':
	case 'R': /* deliver, return: tag, key */ begin_content(r, letter == 'R'); break;
	/* header, one of another class, one without properties: flags, size, a text */
	case 'H':
	case 'q':
	case '0': feed_header(r, letter != 'q', letter != '0'); break;
	case 'B': /* body: bytes */ feed_body(r); break;
	case 'A':
	case 'N':
	case 'C':
	case 'o': /* ack, nack, cancel, another method: tag */ feed_plain(r, letter); break;
	case 'x':
	case 'X': /* channel or connection closed: text */ feed_close(r, letter == 'x'); break;
	case 'b':
	case 'u': /* blocked, unblocked */ feed_connection(r, letter); break;
	case 'h':
	case 'w': /* heartbeat; a channel that is not open */ feed_stray(r, letter); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = {.f = {(const char *)data, size}};

	frames_init(&r.frames, CAP);
	while (!feed_is_empty(&r.f)) {
		feed_one(&r);
		if (r.is_over) { /* as bus.c does: from the start */
			frames_fini(&r.frames);
			frames_init(&r.frames, CAP);
			r.m.want = IDLE;
			r.is_over = false;
		}
		MUST(r.m.want == HEADER || frames_headless_tag(&r.frames) == 0);
	}
	frames_fini(&r.frames);
	buf_fini(&r.m.body);
	return 0;
}
