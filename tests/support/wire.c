/* SPDX-License-Identifier: MIT */
/* wire.c: AMQP plumbing of the tests. Knows queues and bytes, not HCP. */
#include "wire.h"

#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "rig.h"

static amqp_bytes_t bytes(const char *s)
{
	return amqp_cstring_bytes(s);
}

bool wire_ok(amqp_connection_state_t c)
{
	return amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL;
}

amqp_connection_state_t wire_connect(const struct broker *b)
{
	char url[512];
	struct amqp_connection_info info;
	struct timeval wait = {.tv_sec = 10};
	amqp_connection_state_t c = amqp_new_connection();

	snprintf(url, sizeof url, "%s", b->url);
	if (amqp_parse_url(url, &info) != AMQP_STATUS_OK)
		give_up("the broker's url: %s", b->url);
	amqp_socket_t *s = amqp_tcp_socket_new(c);
	if (!s || amqp_socket_open_noblock(s, info.host, info.port, &wait) != AMQP_STATUS_OK)
		goto away;
	amqp_set_rpc_timeout(c, &wait);
	if (amqp_login(c, info.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password)
			.reply_type != AMQP_RESPONSE_NORMAL)
		goto away;
	amqp_channel_open(c, 1);
	if (wire_ok(c))
		return c;
away:
	amqp_destroy_connection(c);
	return NULL;
}

void wire_disconnect(amqp_connection_state_t *c)
{
	if (*c)
		amqp_destroy_connection(*c);
	*c = NULL;
}

bool wire_confirms(amqp_connection_state_t c)
{
	amqp_confirm_select(c, 1);
	return wire_ok(c);
}

bool wire_declare_exchanges(amqp_connection_state_t c)
{
	amqp_exchange_declare(c, 1, bytes("hcp.commands"), bytes("direct"), 0, 1, 0, 0, amqp_empty_table);
	if (!wire_ok(c))
		return false;
	amqp_exchange_declare(c, 1, bytes("hcp.events"), bytes("topic"), 0, 1, 0, 0, amqp_empty_table);
	return wire_ok(c);
}

bool wire_declare_queue(amqp_connection_state_t c, const char *name, amqp_table_t args)
{
	amqp_queue_declare(c, 1, bytes(name), 0, 1, 0, 0, args);
	return wire_ok(c);
}

bool wire_bind(amqp_connection_state_t c, const char *queue, const char *exchange, const char *key)
{
	amqp_queue_bind(c, 1, bytes(queue), bytes(exchange), bytes(key), amqp_empty_table);
	return wire_ok(c);
}

/* Reads frames until the broker says ack or nack; a return (mandatory) comes before its ack. */
int wire_publish(amqp_connection_state_t c, const char *exchange, const char *key,
	const amqp_basic_properties_t *props, const void *body, size_t size)
{
	amqp_bytes_t b = {.len = size, .bytes = (void *)(uintptr_t)body};
	struct timeval tv = {.tv_sec = 15};
	bool returned = false;
	amqp_frame_t f;

	if (amqp_basic_publish(c, 1, bytes(exchange), bytes(key), 1, 0, props, b) != AMQP_STATUS_OK)
		return -1;
	for (;;) {
		amqp_maybe_release_buffers(c);
		if (amqp_simple_wait_frame_noblock(c, &f, &tv) != AMQP_STATUS_OK)
			return -1;
		if (f.frame_type != AMQP_FRAME_METHOD)
			continue; /* header and body of a return */
		if (f.payload.method.id == AMQP_BASIC_ACK_METHOD)
			return returned ? -2 : 1;
		if (f.payload.method.id == AMQP_BASIC_NACK_METHOD)
			return 0;
		if (f.payload.method.id == AMQP_BASIC_RETURN_METHOD)
			returned = true;
		else if (f.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD ||
			f.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD)
			return -1;
	}
}

void wire_delete_queue(const struct broker *b, const char *queue)
{
	amqp_connection_state_t c = wire_connect(b);

	if (!c)
		return;
	amqp_queue_delete(c, 1, bytes(queue), 0, 0);
	wire_disconnect(&c);
}

void wire_make_exchange(const struct broker *b, const char *exchange, const char *type)
{
	amqp_connection_state_t c = wire_connect(b);

	must(c, "no broker");
	amqp_exchange_declare(c, 1, bytes(exchange), bytes(type), 0, 1, 0, 0, amqp_empty_table);
	must(wire_ok(c), "exchange %s", exchange);
	wire_disconnect(&c);
}

void wire_delete_exchange(const struct broker *b, const char *exchange)
{
	amqp_connection_state_t c = wire_connect(b);

	must(c, "no broker");
	amqp_exchange_delete(c, 1, bytes(exchange), 0);
	must(wire_ok(c), "%s was not deleted", exchange);
	wire_disconnect(&c);
}

bool wire_declare_bound(
	amqp_connection_state_t c, const char *queue, const char *args, const char *exchange, const char *key)
{
	amqp_table_entry_t entries[8];
	amqp_table_t table = {0, entries};
	char copy[256], *save = NULL;

	snprintf(copy, sizeof copy, "%s", args);
	for (char *arg = strtok_r(copy, ",", &save); arg; arg = strtok_r(NULL, ",", &save)) {
		char *value = strchr(arg, '=');
		amqp_table_entry_t *e = &entries[table.num_entries++];
		*value++ = 0;
		e->key = bytes(arg);
		if (strspn(value, "0123456789") == strlen(value)) {
			e->value.kind = AMQP_FIELD_KIND_I64;
			e->value.value.i64 = atoll(value);
		} else {
			e->value.kind = AMQP_FIELD_KIND_UTF8;
			e->value.value.bytes = bytes(value);
		}
	}
	return wire_declare_exchanges(c) && wire_declare_queue(c, queue, table) &&
		(!key || wire_bind(c, queue, exchange, key));
}

void wire_make_queue(
	const struct broker *b, const char *queue, const char *args, const char *exchange, const char *key)
{
	amqp_connection_state_t c = wire_connect(b);

	must(c, "no broker");
	must(wire_declare_bound(c, queue, args, exchange, key), "%s cannot be made", queue);
	wire_disconnect(&c);
}

char *wire_get(const struct broker *b, const char *queue, size_t *size)
{
	amqp_connection_state_t c = wire_connect(b);
	amqp_message_t m;
	char *copy = NULL;

	must(c, "no broker");
	amqp_rpc_reply_t reply = amqp_basic_get(c, 1, bytes(queue), 1);
	if (reply.reply_type == AMQP_RESPONSE_NORMAL && reply.reply.id == AMQP_BASIC_GET_OK_METHOD &&
		amqp_read_message(c, 1, &m, 0).reply_type == AMQP_RESPONSE_NORMAL) {
		copy = calloc(1, m.body.len + 1);
		memcpy(copy, m.body.bytes, m.body.len);
		*size = m.body.len;
		amqp_destroy_message(&m);
	}
	wire_disconnect(&c);
	return copy;
}

/* Declared in rig.h: a rig waits for its queue. A passive declare of what is not there costs the channel,
 * so the connection is kept only while the answers are good. */
bool queue_look(const struct broker *b, const char *queue, int *messages, int *consumers)
{
	static amqp_connection_state_t c;
	static char at[512];

	if (c && strcmp(at, b->url) != 0)
		wire_disconnect(&c);
	snprintf(at, sizeof at, "%s", b->url);
	if (!c && !(c = wire_connect(b)))
		return false;
	amqp_queue_declare_ok_t *ok = amqp_queue_declare(c, 1, bytes(queue), 1, 0, 0, 0, amqp_empty_table);
	if (!ok) {
		wire_disconnect(&c);
		return false;
	}
	*messages = (int)ok->message_count;
	*consumers = (int)ok->consumer_count;
	amqp_maybe_release_buffers(c);
	return true;
}
