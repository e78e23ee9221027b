/* SPDX-License-Identifier: MIT */
/* amqp_side.h: the benchmark's own AMQP: a bare publisher and a bare consumer, as little as librabbitmq
 * allows. Owns the definition of "bare", for the limits and for the daemon's figures alike, so that both are
 * drained by the same code. Never recovers: whatever goes wrong ends the program, since a figure would mean
 * nothing. */
#ifndef HCPD_TESTS_BENCH_AMQP_SIDE_H
#define HCPD_TESTS_BENCH_AMQP_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <amqp.h>

#define SIDE_PREFETCH 500 /* what the broker has on the way to us; a larger one is no faster */
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

__attribute__((noreturn, format(printf, 1, 2))) void side_die(const char *fmt, ...);
double side_now(void);
double side_median(double *v, size_t n);
amqp_bytes_t side_bytes(const char *s);
/* Ends the program where the last call was refused. */
void side_check(struct side *s, const char *what);
/* Heartbeat 0: a limit pays for nothing that a message does not need. */
void side_open(struct side *s);
void side_ack(struct side *s);
void side_close(struct side *s);
void side_declare_exchange(struct side *s, const char *name, const char *kind);
/* A durable classic queue, bound and empty. */
void side_declare_queue(struct side *s, const char *queue, const char *exchange, const char *key);
void side_enable_confirms(struct side *s);
void side_publish(struct side *s, const char *exchange, const char *key, const amqp_basic_properties_t *props,
	char *body, size_t size);
/* Reads confirms until at most `left` messages are without one. */
void side_await_confirms(struct side *s, uint64_t left);
/* ack_every: 1 where one message is in flight, SIDE_ACKS for throughput. */
void side_consume(struct side *s, const char *queue, uint64_t ack_every);
/* The next delivery; acks are sent in groups. The caller destroys the envelope. */
void side_next(struct side *s, amqp_envelope_t *e);
/* The same; false where none comes within this time. */
bool side_next_within(struct side *s, amqp_envelope_t *e, double seconds);

#endif
