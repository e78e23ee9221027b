/* SPDX-License-Identifier: MIT */
/* broker.h: hcpctl's connection: it stays up, delivers, publishes one message at a time, and listens for
 * Ctrl-C meanwhile. What was printed is flushed before its message is acked. */
#ifndef HCPD_HCPCTL_CALLER_BROKER_H
#define HCPD_HCPCTL_CALLER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcpctl/common/message.h"
#include "hcpctl/common/settings.h"
#include "amqp/connection.h"
#include "amqp/names.h"
#include "amqp/reconnect.h"

#define CTL_EXPIRES_MS (INT64_C(86400) * 1000)
#define CTL_PREFETCH 100
#define CTL_NAME_SIZE 256
#define CTL_TAKEN 405 /* connection_error.code: another program reads a queue; AMQP's resource-locked */
/* The waits before the next connection: 1 s, and then 2, 4 ... 60 s, each of them with up to a tenth more. */
#define CTL_BACKOFF(random_source) \
	((struct backoff){.first_us = INT64_C(1000000), \
		.max_us = INT64_C(60000000), \
		.jitter = BACKOFF_ABOVE, \
		.random = (random_source)})

struct ctl_broker;

enum ctl_what {
	CTL_QUIET,      /* the time is up */
	CTL_NOTE,       /* *note is the caller's; ctl_broker_ack when it has been dealt with */
	CTL_CONFIRMED,  /* what was published has reached a queue */
	CTL_UNROUTABLE, /* ... has reached none */
	CTL_REFUSED,    /* ... was refused; ctl_broker_error says why */
	/* connected again: what was under way may be lost, held tags are void */
	CTL_UP,
	CTL_SIGNAL,  /* SIGINT or SIGTERM: ctl_broker_signal */
	CTL_OUT_GONE /* stdout cannot be written */
};

struct ctl_broker *ctl_broker_new(const struct ctl_settings *s);
/* hcp.evt.{caller}.{instance}, bound to hcp.events with key. Before ctl_broker_open. */
void ctl_broker_add_queue(struct ctl_broker *p, const char *instance, const char *key);
/* Notes are skimmed: see common/message.h. */
void ctl_broker_skim(struct ctl_broker *p);
/* The first connection: -1 with the error, and nothing is tried again. Declares, binds and consumes. */
int ctl_broker_open(struct ctl_broker *p, struct connection_error *e) __attribute__((warn_unused_result));
/* Waits until something happens or until_us (boot clock). Connects anew by itself, and says so once. */
enum ctl_what ctl_broker_step(struct ctl_broker *p, int64_t until_us, struct ctl_message **note);
/* To hcp.commands; body is lent until its answer or CTL_UP. False while there is no connection. */
bool ctl_broker_publish(struct ctl_broker *p, const char *callee, const char *type, const char *session,
	const char *body, size_t size);
void ctl_broker_ack(struct ctl_broker *p, const struct ctl_message *n);
const char *ctl_broker_error(const struct ctl_broker *p);
int ctl_broker_signal(const struct ctl_broker *p);
/* Acks what is due; deletes the queues where asked; frees. */
void ctl_broker_end(struct ctl_broker *p, bool delete_queues);

/* A signal handler that ctl_broker_step sees. A second signal that nobody took up ends the process. */
void ctl_broker_catch_signals(void);

#endif
