/* amqp_side.h: the benchmark's own AMQP: a bare publisher and a bare consumer, as little as librabbitmq
 * allows. Owns the definition of "bare", for the limits and for the daemon's figures alike, so that both are
 * drained by the same code. Never recovers: whatever goes wrong ends the program, since a figure would mean
 * nothing. */
#ifndef HCPD_BENCH_AMQP_SIDE_H
#define HCPD_BENCH_AMQP_SIDE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <amqp.h>
#include <amqp_tcp_socket.h>

#define SIDE_PREFETCH 500 /* the bare consumer */
#define SIDE_ACKS 100     /* deliveries an ack; every one apart costs the broker a tenth of L */
#define SIDE_RING 4096    /* more than any window here */
#define SIDE_SILENCE_S 60 /* nothing for so long: something hangs, say so */

struct side {
	amqp_connection_state_t conn;
	uint64_t published, open_count; /* messages, and those of them without a confirm */
	uint64_t lowest;                /* no tag below it is open */
	bool is_open[SIDE_RING];        /* by tag: the broker mixes single and multiple acks, in any order */
	uint64_t ack_every, taken, acked; /* as a consumer: tags */
};

__attribute__((noreturn, format(printf, 1, 2))) static inline void side_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static inline double side_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline int side_compare_doubles(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

static inline double side_median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, side_compare_doubles);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static inline amqp_bytes_t side_bytes(const char *s)
{
	return amqp_cstring_bytes(s);
}

static inline void side_check(struct side *s, const char *what)
{
	amqp_rpc_reply_t r = amqp_get_rpc_reply(s->conn);

	if (r.reply_type == AMQP_RESPONSE_NORMAL)
		return;
	if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
		side_die("%s: %s", what, amqp_error_string2(r.library_error));
	side_die("%s: refused by the broker (method 0x%x)", what, (unsigned)r.reply.id);
}

/* Heartbeat 0: a limit pays for nothing that a message does not need. */
static inline void side_open(struct side *s)
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

static inline void side_ack(struct side *s)
{
	if (s->taken > s->acked && amqp_basic_ack(s->conn, 1, s->taken, 1) != AMQP_STATUS_OK)
		side_die("ack failed");
	s->acked = s->taken;
}

static inline void side_close(struct side *s)
{
	side_ack(s);
	amqp_connection_close(s->conn, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(s->conn);
}

static inline void side_declare_exchange(struct side *s, const char *name, const char *kind)
{
	amqp_exchange_declare(s->conn, 1, side_bytes(name), side_bytes(kind), 0, 1, 0, 0, amqp_empty_table);
	side_check(s, name);
}

/* A durable classic queue, bound and empty. */
static inline void side_declare_queue(
	struct side *s, const char *queue, const char *exchange, const char *key)
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

static inline void side_enable_confirms(struct side *s)
{
	amqp_confirm_select(s->conn, 1);
	side_check(s, "confirm.select");
	s->lowest = 1;
}

static inline void side_publish(struct side *s, const char *exchange, const char *key,
	const amqp_basic_properties_t *props, char *body, size_t size)
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

static inline void side_settle(struct side *s, uint64_t tag)
{
	if (s->is_open[tag % SIDE_RING])
		s->open_count--;
	s->is_open[tag % SIDE_RING] = false;
}

static inline void side_on_ack(struct side *s, const amqp_basic_ack_t *ack)
{
	if (!ack->multiple) {
		side_settle(s, ack->delivery_tag);
		return;
	}
	for (; s->lowest <= ack->delivery_tag; s->lowest++)
		side_settle(s, s->lowest);
}

/* Reads confirms until at most `left` messages are without one. */
static inline void side_await_confirms(struct side *s, uint64_t left)
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

/* ack_every: 1 where one message is in flight, SIDE_ACKS for throughput. */
static inline void side_consume(struct side *s, const char *queue, uint64_t ack_every)
{
	s->ack_every = ack_every;
	amqp_basic_qos(s->conn, 1, 0, SIDE_PREFETCH, 0);
	side_check(s, "basic.qos");
	amqp_basic_consume(s->conn, 1, side_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	side_check(s, "basic.consume");
}

/* The next delivery; acks are sent in groups. The caller destroys the envelope. */
static inline void side_next(struct side *s, amqp_envelope_t *e)
{
	struct timeval tv = {.tv_sec = SIDE_SILENCE_S};
	amqp_rpc_reply_t r;

	amqp_maybe_release_buffers(s->conn);
	r = amqp_consume_message(s->conn, e, &tv, 0);
	if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
		side_die("waiting for a message: %s", amqp_error_string2(r.library_error));
	if (r.reply_type != AMQP_RESPONSE_NORMAL)
		side_die("waiting for a message: connection closed by the broker");
	s->taken = e->delivery_tag;
	if (s->taken - s->acked >= s->ack_every)
		side_ack(s);
}

#endif
