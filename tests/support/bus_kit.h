/* SPDX-License-Identifier: MIT */
/* bus_kit.h: what the tests of the bus share: a configuration, a core that waits for what it is told, a
 * plain AMQP client to look from outside, and two peers:
 *
 * - a proxy before the real broker that can stop reading, stop writing, cut and refuse, for one of the
 *   two connections or both (it tells them apart by the connection_name that they log in with);
 * - a scripted peer that speaks just enough AMQP to be believed. It exists for faults on the level of
 *   bytes that no real broker can be made to show; everything else is tested against RabbitMQ.
 * */
#ifndef HCPD_TESTS_SUPPORT_BUS_KIT_H
#define HCPD_TESTS_SUPPORT_BUS_KIT_H

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "bus/bus.h"
#include "base/clock.h"
#include "base/log.h"
#define SECOND INT64_C(1000000)

/* --- the broker --- */

extern char bus_kit_host[64], bus_kit_user[64], bus_kit_password[64], bus_kit_vhost[64];
extern int bus_kit_port;
/* Runs an Erlang expression in the broker. False where this broker cannot be asked. */
bool bus_kit_eval(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool bus_kit_eval(const char *fmt, ...);

/* False, with a line that says so, where there is no broker. A virtual host of our own where that can be
 * had. */
bool bus_kit_open(const char *name);
void bus_kit_close(void);

extern char bus_kit_callee[64];

struct config *bus_kit_make_config(const char *callee);
const char *bus_kit_queue(void);

/* --- a core: takes what comes, remembers it --- */

struct bus_user {
	struct bus *bus;
	int wake_fd;
	_Atomic int wakes;
	struct bus_in *all, **end; /* everything taken, in order */
	int count[BUS_MISCONFIGURED + 1];
	int status[BUS_LOST + 1];
	struct bus_out *settled[200000];
	size_t settled_count;
	bool auto_ack;
};

struct bus_user *bus_user_new(const struct config *config);
struct bus_user *bus_user_start(const struct config *config);
void bus_user_take(struct bus_user *c);

/* Waits for a condition, taking what comes meanwhile. */
#define bus_user_wait(c, condition, seconds) \
	do { \
		int64_t end_us_ = clock_boot_us() + (int64_t)((seconds)*1e6); \
		bus_user_take(c); \
		while (!(condition)) { \
			ck_assert_msg( \
				clock_boot_us() < end_us_, "not within %s s: %s", #seconds, #condition); \
			bus_user_doze(c, 20); \
			bus_user_take(c); \
		} \
	} while (0)

void bus_user_doze(struct bus_user *c, int ms);
void bus_user_wait_up(struct bus_user *c);
struct bus_in *bus_user_find(struct bus_user *c, enum bus_in_kind kind, int nth);
void bus_user_stop(struct bus_user *c);

/* --- messages --- */

struct bus_out *bus_kit_outs_new(size_t count, const char *caller, const char *body, size_t size);

/* --- a client that looks from outside --- */

amqp_connection_state_t bus_client_open(void);
void bus_client_close(amqp_connection_state_t k);

/* args: key, value pairs of text; a value that is a number goes as one. */
bool bus_client_declare(amqp_connection_state_t k, const char *queue, const char *key, const char *value);
void bus_client_bind(amqp_connection_state_t k, const char *queue, const char *exchange, const char *key);

/* Messages ready in the queue; -1 where there is none (the channel is gone then). */
int bus_client_ready(amqp_connection_state_t k, const char *queue);
void bus_client_command(amqp_connection_state_t k, const char *body, size_t size);

/* --- the proxy --- */

enum { ROLE_PUB, ROLE_SUB, ROLES };

struct bus_proxy_pair {
	int client, broker; /* -1: free */
	int role;           /* -1: not known yet */
};

struct bus_proxy {
	_Atomic int listener;
	int port;
	pthread_t thread;
	_Atomic bool end, refuse;
	_Atomic bool closed;      /* nobody listens any more; there is no way back */
	_Atomic bool deaf[ROLES]; /* does not read what the client says */
	_Atomic bool mute[ROLES]; /* does not pass on what the broker says */
	_Atomic bool cut[ROLES];  /* ends the connection; clears itself */
	_Atomic int accepted;
	int64_t accepted_at_us[64];
	struct bus_proxy_pair pairs[16];
};

int bus_kit_listen_anywhere(int *port, int backlog);
void bus_proxy_drop(struct bus_proxy_pair *p);

/* Blocking writes are good enough: both ends read, or the test wants it so. */
bool bus_proxy_pass(struct bus_proxy_pair *p, int from, int to);

/* Puts itself between the configuration and the broker. */
struct bus_proxy *bus_proxy_start(struct config *c);
void bus_proxy_stop(struct bus_proxy *x);

/* --- the scripted peer --- */

struct fake_peer;
struct fake_peer_end { /* one connection of it */
	struct fake_peer *fake;
	int fd;
	int role;
	pthread_t thread;
	struct buf out;
};

struct fake_peer {
	int listener, port;
	pthread_t thread;
	_Atomic bool end;
	struct fake_peer_end ends[16];
	_Atomic int count;
	int heartbeat_s;
	/* The script: told of every method that came in, after its usual answer was put into e->out, which is
	 * sent as one write once this returns. */
	void (*on_method)(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size);
	_Atomic int seen_publish, seen_ack, seen_reject, heartbeats;
	_Atomic uint64_t last_tag;
	void *data;
};

void frame_put_int(struct buf *b, uint64_t value, int bytes);
void frame_put_short(struct buf *b, const char *text);
void frame_put_deliver(struct buf *to, uint64_t tag);

/* headers: the bytes of a table with its size, or NULL. */
void frame_put_header(struct buf *to, uint64_t size, const struct buf *headers);
void frame_put_body(struct buf *to, const char *text);
void frame_put_confirm(struct buf *to, uint32_t id, uint64_t tag, bool multiple);
void fake_peer_send(struct fake_peer_end *e, struct buf *b);
struct fake_peer *fake_peer_start(struct config *c,
	void (*on_method)(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size));

/* After the bus was stopped: its ends were closed by then, or are now. */
void fake_peer_stop(struct fake_peer *k);

#endif
