/* SPDX-License-Identifier: MIT */
/* message.c: a message from a callee, from bytes to members.
 * Owns the body and its tree; protocol/inbound reads the members that every message has. Never refuses a type
 * or an event that it does not know: callees may be newer. */
#include "hcpctl/common/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "json/text.h"
#include "protocol/inbound.h"

#define DEPTH_MAX 512 /* jansson descends by recursion */

const char *ctl_message_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* The member, or an empty object. The empty object becomes part of the message and is freed with it. */
static const json_t *object_or_empty(json_t *parent, const char *name)
{
	json_t *v = json_object_get(parent, name);

	if (json_is_object(v))
		return v;
	json_object_set_new(parent, name, json_object());
	return json_object_get(parent, name);
}

static void take_members(struct ctl_message *n, const struct inbound *m)
{
	n->type = m->type;
	n->session = m->session;
	n->message_id = m->message_id;
	n->event = m->event;
	n->sequence = m->sequence;
}

/* Everything from the tree, which the message then owns. False: it is no message of HCP. */
static bool read_tree(struct ctl_message *n, json_t *json)
{
	struct inbound m;

	if (!inbound_read_tree(&m, json))
		return false;
	take_members(n, &m);
	n->json = json;
	n->payload = n->data = json_object_get(json, "payload");
	if (strcmp(n->type, "event") == 0)
		n->data = object_or_empty(json_object_get(json, "payload"), "data");
	return true;
}

static json_t *parse(const char *body, size_t size)
{
	char why[160];

	return jtext_depth(body, size) <= DEPTH_MAX ? jtext_parse(body, size, why, sizeof why) : NULL;
}

struct ctl_message *ctl_message_read(char *body, size_t size)
{
	json_t *json = parse(body, size);
	struct ctl_message *n = xcalloc(1, sizeof *n);

	n->body = body;
	n->size = size;
	if (read_tree(n, json))
		return n;
	json_decref(json);
	ctl_message_free(n);
	return NULL;
}

struct ctl_message *ctl_message_skim(char *body, size_t size)
{
	static json_t *nothing;
	struct ctl_message *n;
	struct inbound m;

	if (inbound_scan(&m, body, size) != INBOUND_OK)
		return ctl_message_read(body, size);
	if (!nothing)
		nothing = json_object();
	n = xcalloc(1, sizeof *n);
	n->body = body;
	n->size = size;
	n->texts = m.texts; /* kept until the message is freed: others may hold a text of it */
	n->payload = n->data = nothing;
	take_members(n, &m);
	return n;
}

void ctl_message_open(struct ctl_message *n)
{
	json_t *json = n->json ? NULL : parse(n->body, n->size);

	if (json && !read_tree(n, json))
		json_decref(json);
}

void ctl_message_free(struct ctl_message *n)
{
	if (!n)
		return;
	json_decref(n->json);
	free(n->texts);
	free(n->body);
	free(n);
}
