/* SPDX-License-Identifier: MIT */
/* message.c: one received message: checks it, and keeps the few members that the library needs.
 * Owns the body and, where the application reads values, its JSON tree; protocol/inbound reads the members in
 * one pass. Never refuses an unknown type or event: the daemon may be newer. */
#include <stdlib.h>
#include <string.h>

#include "libhcp/libhcp_private.h"
#include "protocol/inbound.h"

/* --- members --- */

/* False: the library has no use for it. */
static bool take_members(struct lib_message *n, const struct inbound *m)
{
	n->texts = m->texts;
	n->type = m->type;
	n->session = m->session;
	n->message_id = m->message_id;
	n->in_reply_to = m->in_reply_to;
	n->event = m->event;
	n->sequence = n->session[0] ? m->sequence : 0; /* order is a session's */
	return strlen(n->session) <= LIB_SESSION_MAX;
}

static bool read_members(struct lib_message *n)
{
	struct inbound m;
	enum inbound_result result = inbound_scan(&m, n->body, n->size);

	if (result == INBOUND_OK ||
		(result == INBOUND_NEEDS_TREE && inbound_read_tree(&m, lib_message_tree(n))))
		return take_members(n, &m);
	return false;
}

/* --- a message --- */

struct lib_message *lib_message_read(char *body, size_t size)
{
	struct lib_message *n = xcalloc(1, sizeof *n);

	n->body = body;
	n->size = size;
	if (read_members(n))
		return n;
	lib_message_free(n);
	return NULL;
}

void lib_message_free(struct lib_message *n)
{
	if (!n)
		return;
	json_decref(n->tree);
	free(n->texts);
	free(n->body);
	free(n);
}

const json_t *lib_message_tree(struct lib_message *n)
{
	char why[160];

	if (!n->tree && !n->is_treeless) {
		n->tree = jtext_parse(n->body, n->size, why, sizeof why);
		n->is_treeless = !n->tree; /* a member twice, or half a surrogate pair */
	}
	return n->tree;
}
