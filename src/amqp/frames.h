/* SPDX-License-Identifier: MIT */
/* frames.h: decoded AMQP frames in, complete events out: deliveries, returns, confirms, cancels, closes.
 *
 * librabbitmq's own assembler waits for ever for a body that does not come, and an RPC can drop frames of
 * another channel. So this reads frames one by one and assembles them, with a cap on bodies. No I/O and no
 * clock: the same frames always give the same events, which a fuzzer needs. */
#ifndef HCPD_AMQP_FRAMES_H
#define HCPD_AMQP_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amqp_frame_t_;

#define FRAMES_CHANNEL 1     /* one connection, one channel */
#define FRAMES_NAME_SIZE 256 /* an AMQP short string and its NUL */
#define FRAMES_TEXT_SIZE 320

enum frames_kind {
	FRAMES_NOTHING, /* more frames are needed, or the frame does not matter */
	FRAMES_DELIVERY,
	FRAMES_RETURN, /* unroutable; its confirm comes later */
	FRAMES_ACK,
	FRAMES_NACK,
	FRAMES_CANCEL, /* the broker ended the consumer */
	FRAMES_BLOCKED,
	FRAMES_UNBLOCKED,
	FRAMES_CHANNEL_CLOSED,
	FRAMES_CONNECTION_CLOSED,
	FRAMES_BAD /* a breach of the protocol; text has it. Drop the connection */
};

/* Only the fields of its kind are set. Short strings are NUL-terminated; one that holds a NUL itself
 * comes out empty, so that its beginning cannot pass for the whole. */
struct frames_event {
	enum frames_kind kind;
	/* DELIVERY, ACK, NACK */
	uint64_t tag;
	bool multiple; /* ACK, NACK: everything up to tag */
	/* DELIVERY */
	bool redelivered;
	bool has_user;
	char user[FRAMES_NAME_SIZE];
	char type[FRAMES_NAME_SIZE];
	char *body; /* size bytes and a NUL; NULL where size is over the cap */
	/* DELIVERY, RETURN */
	char key[FRAMES_NAME_SIZE];
	char message_id[FRAMES_NAME_SIZE];
	uint64_t size; /* as the header has it */
	/* RETURN, CHANNEL_CLOSED, CONNECTION_CLOSED */
	int code;
	/* RETURN, CANCEL (the consumer's tag), BLOCKED, CHANNEL_CLOSED, CONNECTION_CLOSED, BAD */
	char text[FRAMES_TEXT_SIZE];
};

struct frames {
	size_t max_body;
	enum { FRAMES_IDLE, FRAMES_WANT_HEADER, FRAMES_WANT_BODY } want;
	uint64_t got;                /* of content.size */
	struct frames_event content; /* the delivery or return that is coming in */
	struct frames_event
		plain; /* every other event: frames of channel 0 may come in the middle of a content */
};

void frames_init(struct frames *f, size_t max_body);
void frames_fini(struct frames *f);
/* Takes one frame. The event, NULL where nothing is complete, lives until the next call; so does its
 * body, unless the caller takes it and sets the pointer to NULL. */
struct frames_event *frames_feed(struct frames *f, const struct amqp_frame_t_ *frame);
/* Is a delivery under way whose header did not come yet? Its tag, then; 0 otherwise. A header that
 * librabbitmq cannot decode would come again for ever, were it not rejected by this tag. */
uint64_t frames_headless_tag(const struct frames *f);

#endif
