/* SPDX-License-Identifier: MIT */
/* proxy.h: a TCP proxy on loopback with a thread of its own, that can be told to be a bad network. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_PROXY_H
#define HCPD_TESTS_RELIABILITY_TORTURE_PROXY_H

enum proxy_mode {
	PROXY_PASS,
	PROXY_CUT,   /* closes every connection, old and new, in an orderly way */
	PROXY_RESET, /* the same by RST */
	/* what is connected, or connects now, hears nothing more for ever; nobody is told */
	PROXY_HALF_OPEN,
	PROXY_STALL,   /* nothing moves; later everything does, in order */
	PROXY_TRICKLE, /* one byte a second in each direction */
	PROXY_DELAY    /* each piece arrives 400 ms late */
};

/* Listens on a port of its own (returned) and connects to 127.0.0.1:to_port. */
int proxy_start(int to_port);
void proxy_set(enum proxy_mode mode);
/* Connections that it accepted so far. */
int proxy_count(void);
void proxy_stop(void);

#endif
