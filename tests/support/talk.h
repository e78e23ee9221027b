/* SPDX-License-Identifier: MIT */
/* talk.h: an operator at the control socket: JSON lines over a Unix socket, and nothing of hcpd's own. */
#ifndef HCPD_TESTS_SUPPORT_TALK_H
#define HCPD_TESTS_SUPPORT_TALK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "rig.h"

struct talk {
	int fd;
	long long last_id;
	char *in;
	size_t size, room;
	bool at_eof;
	/* the last answer: its closing line, with all items in its member "items" */
	json_t *items;
};

/* The rig's socket gets a short path of its own; before rig_start. */
const char *talk_path(struct rig *r);
/* -1 with errno where nobody answers. */
int talk_dial(const char *path);
void talk_open(struct talk *t, const char *path);
void talk_close(struct talk *t);
void talk_send(struct talk *t, const void *data, size_t size);
/* One line; ' stands for ". */
void talk_say(struct talk *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The next line, which must be JSON; NULL at the end of the connection. The caller owns it. */
json_t *talk_line(struct talk *t);
bool talk_has_line(struct talk *t); /* without waiting */
/* Asks (the members but the id, without braces) and waits for its end. The closing line, with "items": it is
 * t's and good until the next call. */
json_t *talk_call(struct talk *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One request on a connection of its own. */
json_t *talk_once(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *talk_code(json_t *end); /* of its error; "" where it is done */

#endif
