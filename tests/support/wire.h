/* SPDX-License-Identifier: MIT */
/* wire.h: the AMQP underneath the callers: connections, queues, publishing with confirms. */
#ifndef HCPD_TESTS_SUPPORT_WIRE_H
#define HCPD_TESTS_SUPPORT_WIRE_H

#include <amqp.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness.h"

/* Connected, logged in, channel 1 open; NULL where the broker is away. No heartbeats: a test that
 * stops the broker must not lose its own connection. */
amqp_connection_state_t wire_connect(const struct broker *b);
void wire_disconnect(amqp_connection_state_t *c);
/* True where the last RPC went well. */
bool wire_ok(amqp_connection_state_t c);
bool wire_confirms(amqp_connection_state_t c);
bool wire_declare_exchanges(amqp_connection_state_t c);
bool wire_declare_queue(amqp_connection_state_t c, const char *name, amqp_table_t args);
bool wire_bind(amqp_connection_state_t c, const char *queue, const char *exchange, const char *key);
/* Publishes and waits for the broker's word on it: 1 ack, 0 nack, -1 connection lost, -2 no queue. */
int wire_publish(amqp_connection_state_t c, const char *exchange, const char *key,
	const amqp_basic_properties_t *props, const void *body, size_t size);
/* On a connection of its own. */
void wire_delete_queue(const struct broker *b, const char *queue);
void wire_delete_exchange(const struct broker *b, const char *exchange);
void wire_make_exchange(const struct broker *b, const char *exchange, const char *type); /* durable */
/* Declares the exchanges and a queue with string or number arguments ("x-queue-type=quorum,x-max-length=5"),
 * and binds the queue where key is given. */
bool wire_declare_bound(amqp_connection_state_t c, const char *queue, const char *args, const char *exchange,
	const char *key);
/* The same on a connection of its own; the test fails where that cannot be. */
void wire_make_queue(
	const struct broker *b, const char *queue, const char *args, const char *exchange, const char *key);
/* Takes one message out of a queue: its body (the caller frees), NULL where it is empty. */
char *wire_get(const struct broker *b, const char *queue, size_t *size);

#endif
