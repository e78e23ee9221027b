/* ctl_pump.h: hcpctl's connection: it stays up, delivers, publishes one message at a time, and listens for
 * Ctrl-C meanwhile. What was printed is flushed before its message is acked. */
#ifndef HCPD_CTL_PUMP_H
#define HCPD_CTL_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcpctl/common/message.h"
#include "hcpctl/common/settings.h"
#include "amqp/connection.h"

#define CTL_COMMANDS "hcp.commands"
#define CTL_EVENTS "hcp.events"
#define CTL_EXPIRES_MS (INT64_C(86400) * 1000)
#define CTL_PREFETCH 100
#define CTL_NAME_SIZE 256

struct ctl_pump;

enum ctl_what {
	CTL_QUIET,      /* the time is up */
	CTL_NOTE,       /* *note is the caller's; ctl_pump_ack when it has been dealt with */
	CTL_CONFIRMED,  /* what was published has reached a queue */
	CTL_UNROUTABLE, /* ... has reached none */
	CTL_REFUSED,    /* ... was refused; ctl_pump_error says why */
	CTL_UP,         /* connected again: what was under way may be lost, held tags are void */
	CTL_SIGNAL,     /* SIGINT or SIGTERM: ctl_pump_signal */
	CTL_OUT_GONE    /* stdout cannot be written */
};

struct ctl_pump *ctl_pump_new(const struct ctl_settings *s);
/* hcp.evt.{caller}.{instance}, bound to hcp.events with key. Before ctl_pump_open. */
void ctl_pump_add_queue(struct ctl_pump *p, const char *instance, const char *key);
/* Notes are skimmed: see ctl_note.h. */
void ctl_pump_skim(struct ctl_pump *p);
/* The first connection: -1 with the error, and nothing is tried again. Declares, binds and consumes. */
int ctl_pump_open(struct ctl_pump *p, struct link_error *e) __attribute__((warn_unused_result));
/* Waits until something happens or until_us (boot clock). Connects anew by itself, and says so once. */
enum ctl_what ctl_pump_step(struct ctl_pump *p, int64_t until_us, struct ctl_note **note);
/* To hcp.commands; body is lent until its answer or CTL_UP. False while there is no connection. */
bool ctl_pump_publish(struct ctl_pump *p, const char *callee, const char *type, const char *session,
	const char *body, size_t size);
void ctl_pump_ack(struct ctl_pump *p, const struct ctl_note *n);
const char *ctl_pump_error(const struct ctl_pump *p);
int ctl_pump_signal(const struct ctl_pump *p);
/* Acks what is due; deletes the queues where asked; frees. */
void ctl_pump_end(struct ctl_pump *p, bool delete_queues);

/* A signal handler that ctl_pump_step sees. A second signal that nobody took up ends the process. */
void ctl_pump_catch_signals(void);

#endif
