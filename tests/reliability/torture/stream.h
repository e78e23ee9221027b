/* SPDX-License-Identifier: MIT */
/* stream.h: the stream of one session as its caller got it, and its checks.
 * Knows the protocol from its text, and nothing of hcpd's code. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_STREAM_H
#define HCPD_TESTS_RELIABILITY_TORTURE_STREAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct moment { /* one sequence number; zeroed: not seen */
	uint64_t hash;
	const char *event; /* of our table: static */
	/* states, of our table; to is also the final state of session_closed */
	const char *from, *to;
	long long number; /* that a counting worker reached, or saved; 0: none */
	/* an error that tells of the worker's, and that it is started again */
	bool is_death;
};

struct stream {
	char session[40];
	char reply_to[40];      /* the submit that it belongs to */
	struct moment *moments; /* by sequence - 1 */
	size_t room;
	long long last;            /* the highest sequence seen */
	uint64_t accepted, result; /* hashes; 0: not seen */
	bool result_is_good;
	bool any_order; /* its queue refused messages now and then: they may overtake */
	bool closed;
	int attempts; /* of its capability; 0: not known yet */
	/* "n=30": what outputs must say where it completed; empty: anything */
	char wanted_output[40];
};

/* One message of the session: its text, already parsed. Reports what is wrong with it by itself. */
void stream_take(struct stream *s, json_t *message, const char *body, size_t size);
/* The whole: reports gaps, illegal steps, missing ends. */
void stream_check(const struct stream *s, bool must_be_closed);
/* The state that the stream last gave; "" where none. */
const char *stream_state(const struct stream *s);
uint64_t hash_bytes(const void *data, size_t size);

#endif
