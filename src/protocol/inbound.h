/* SPDX-License-Identifier: MIT */
/* inbound.h: what a caller reads of each message that a callee sends: its type, its ids, its place in order.
 *
 * hcpctl and libhcp both begin here. inbound_scan reads the members in one pass over the bytes, without a
 * tree; the few messages that it cannot read go through inbound_read_tree. A type or an event that is not
 * known here is fine: callees may be newer. */
#ifndef HCPD_PROTOCOL_INBOUND_H
#define HCPD_PROTOCOL_INBOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct inbound {
	/* Never NULL: "" where the member is absent, or no string. */
	const char *type, *session, *message_id, *in_reply_to;
	const char *event; /* event_type; "" where the type is not `event` */
	int64_t sequence;  /* of an event; 0: none */
	char *texts;       /* owns the texts after a scan; NULL after inbound_read_tree: the tree owns them */
};

enum inbound_result {
	INBOUND_OK,
	INBOUND_BAD,       /* no JSON object, or no message of HCP */
	INBOUND_NEEDS_TREE /* a name or one of the texts has escapes: parse the body, call inbound_read_tree
			    */
};

/* body has a NUL behind its size bytes. As jscan_object, it does not notice a name that comes twice deep
 * inside, half a surrogate pair, or a number too big for a double. The caller frees m->texts. */
enum inbound_result inbound_scan(struct inbound *m, const char *body, size_t size);
/* The same members from a tree, which may be NULL. The texts are the tree's. False: it is no message of HCP.
 */
bool inbound_read_tree(struct inbound *m, const json_t *tree);

#endif
