/* SPDX-License-Identifier: MIT */
/* amqp_side.c: a bare publisher and a bare consumer. See amqp_side.h for what is bare about them. */
#include "amqp_side.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <amqp_tcp_socket.h>

void side_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

double side_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int side_compare_doubles(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

double side_median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, side_compare_doubles);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

amqp_bytes_t side_bytes(const char *s)
{
	return amqp_cstring_bytes(s);
}

void side_check(struct side *s, const char *what)
{
	amqp_rpc_reply_t r = amqp_get_rpc_reply(s->conn);

	if (r.reply_type == AMQP_RESPONSE_NORMAL)
		return;
	if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
		side_die("%s: %s", what, amqp_error_string2(r.library_error));
	side_die("%s: refused by the broker (method 0x%x)", what, (unsigned)r.reply.id);
}

void side_open(struct side *s)
{
	const char *url = getenv("HCP_TEST_BROKER_URL");
	struct amqp_connection_info ci;
	amqp_socket_t *socket;
	char *copy;

	memset(s, 0, sizeof *s);
	if (!url || !(copy = strdup(url)))
		side_die("HCP_TEST_BROKER_URL is not set: see scripts/broker");
	if (amqp_parse_url(copy, &ci) != AMQP_STATUS_OK || ci.ssl)
		side_die("HCP_TEST_BROKER_URL is not an amqp:// address");
	s->conn = amqp_new_connection();
	if (!s->conn || !(socket = amqp_tcp_socket_new(s->conn)))
		side_die("out of memory");
	if (amqp_socket_open(socket, ci.host, ci.port) != AMQP_STATUS_OK)
		side_die("no broker at %s:%d", ci.host, ci.port);
	if (amqp_login(s->conn, ci.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, ci.user, ci.password)
			.reply_type != AMQP_RESPONSE_NORMAL)
		side_die("login refused by the broker at %s:%d", ci.host, ci.port);
	amqp_channel_open(s->conn, 1);
	side_check(s, "channel.open");
	free(copy);
}

void side_ack(struct side *s)
{
	if (s->taken > s->acked && amqp_basic_ack(s->conn, 1, s->taken, 1) != AMQP_STATUS_OK)
		side_die("ack failed");
	s->acked = s->taken;
}

void side_close(struct side *s)
{
	side_ack(s);
	amqp_connection_close(s->conn, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(s->conn);
}

void side_declare_exchange(struct side *s, const char *name, const char *kind)
{
	amqp_exchange_declare(s->conn, 1, side_bytes(name), side_bytes(kind), 0, 1, 0, 0, amqp_empty_table);
	side_check(s, name);
}

void side_declare_queue(struct side *s, const char *queue, const char *exchange, const char *key)
{
	amqp_queue_declare(s->conn, 1, side_bytes(queue), 0, 1, 0, 0, amqp_empty_table);
	side_check(s, queue);
	amqp_queue_bind(
		s->conn, 1, side_bytes(queue), side_bytes(exchange), side_bytes(key), amqp_empty_table);
	side_check(s, queue);
	amqp_queue_purge(s->conn, 1, side_bytes(queue));
	side_check(s, queue);
}

/* --- publisher --- */

void side_enable_confirms(struct side *s)
{
	amqp_confirm_select(s->conn, 1);
	side_check(s, "confirm.select");
	s->lowest = 1;
}

void side_publish(struct side *s, const char *exchange, const char *key, const amqp_basic_properties_t *props,
	char *body, size_t size)
{
	amqp_bytes_t b = {.len = size, .bytes = body};
	int rc = amqp_basic_publish(s->conn, 1, side_bytes(exchange), side_bytes(key), 0, 0, props, b);

	if (rc != AMQP_STATUS_OK)
		side_die("publish: %s", amqp_error_string2(rc));
	s->published++;
	if (s->lowest) {
		s->is_open[s->published % SIDE_RING] = true;
		s->open_count++;
	}
}

static void side_settle(struct side *s, uint64_t tag)
{
	if (s->is_open[tag % SIDE_RING])
		s->open_count--;
	s->is_open[tag % SIDE_RING] = false;
}

static void side_on_ack(struct side *s, const amqp_basic_ack_t *ack)
{
	if (!ack->multiple) {
		side_settle(s, ack->delivery_tag);
		return;
	}
	for (; s->lowest <= ack->delivery_tag; s->lowest++)
		side_settle(s, s->lowest);
}

void side_await_confirms(struct side *s, uint64_t left)
{
	while (s->open_count > left) {
		amqp_frame_t f;
		int rc = amqp_simple_wait_frame(s->conn, &f);

		if (rc != AMQP_STATUS_OK)
			side_die("waiting for confirms: %s", amqp_error_string2(rc));
		if (f.frame_type != AMQP_FRAME_METHOD || f.payload.method.id != AMQP_BASIC_ACK_METHOD)
			side_die("waiting for confirms: something else came");
		side_on_ack(s, f.payload.method.decoded);
		amqp_maybe_release_buffers(s->conn);
	}
}

/* --- consumer --- */

void side_consume(struct side *s, const char *queue, uint64_t ack_every)
{
	s->ack_every = ack_every;
	amqp_basic_qos(s->conn, 1, 0, SIDE_PREFETCH, 0);
	side_check(s, "basic.qos");
	amqp_basic_consume(s->conn, 1, side_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	side_check(s, "basic.consume");
}

bool side_next_within(struct side *s, amqp_envelope_t *e, double seconds)
{
	struct timeval tv = {.tv_sec = (time_t)seconds};
	amqp_rpc_reply_t r;

	tv.tv_usec = (suseconds_t)((seconds - (double)tv.tv_sec) * 1e6);
	amqp_maybe_release_buffers(s->conn);
	r = amqp_consume_message(s->conn, e, &tv, 0);
	if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && r.library_error == AMQP_STATUS_TIMEOUT)
		return false;
	if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
		side_die("waiting for a message: %s", amqp_error_string2(r.library_error));
	if (r.reply_type != AMQP_RESPONSE_NORMAL)
		side_die("waiting for a message: connection closed by the broker");
	s->taken = e->delivery_tag;
	if (s->taken - s->acked >= s->ack_every)
		side_ack(s);
	return true;
}

void side_next(struct side *s, amqp_envelope_t *e)
{
	if (!side_next_within(s, e, SIDE_SILENCE_S))
		side_die("waiting for a message: none came in %d s", SIDE_SILENCE_S);
}
