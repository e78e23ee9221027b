/* SPDX-License-Identifier: MIT */
/* compose.h: the bytes of the AMQP frames that go out in large numbers: a message, an ack, a reject.
 *
 * They are the bytes that librabbitmq would send. It writes each frame by a system call of its own; composed
 * here, many frames go out by one. Pure: no I/O, no memory of its own. */
#ifndef HCPD_AMQP_COMPOSE_H
#define HCPD_AMQP_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection_message;

#define COMPOSE_HEAD_MAX 2048    /* method and header of a message, with short strings of 255 bytes each */
#define COMPOSE_ANSWER_SIZE 21   /* an ack or a reject */
#define COMPOSE_BODY_BEGIN 7     /* type, channel and size of a body frame, before its bytes */
#define COMPOSE_FRAME_END '\xce' /* behind the bytes of each frame */
#define COMPOSE_OVERHEAD 8       /* of a frame: what stands before its bytes, and the end */

/* Method and header of a message: persistent, mandatory, JSON. Its body frames follow. The size; 0: one of
 * the short strings has more than 255 bytes, and nothing may be sent. */
size_t compose_head(char to[COMPOSE_HEAD_MAX], const struct connection_message *m)
	__attribute__((warn_unused_result));
void compose_body_begin(char to[COMPOSE_BODY_BEGIN], size_t size);
void compose_ack(char to[COMPOSE_ANSWER_SIZE], uint64_t tag, bool multiple);
void compose_reject(char to[COMPOSE_ANSWER_SIZE], uint64_t tag, bool requeue);

#endif
