/* SPDX-License-Identifier: MIT */
/* names.h: the names of everything at the broker: exchanges, queues, routing keys. Each stands here once.
 *
 *	hcp.commands, direct   key CALLEE -> queue hcp.cmd.CALLEE              the tasks of one daemon
 *	hcp.events, topic      key CALLER.SESSION.TYPE -> queue hcp.evt.CALLER  all events of one caller
 *	                                               -> queue hcp.evt.CALLER.INSTANCE  those of one hcpctl
 *	harp.sessions, topic   key CALLER.SESSION.TYPE                         HARP-SESSION events
 *	hcp.dead, fanout       -> queue hcp.dead                               commands that hcpd cannot read
 *
 * Never declares anything: reconnect.h and the users of a connection do. */
#ifndef HCPD_AMQP_NAMES_H
#define HCPD_AMQP_NAMES_H

#include <stddef.h>

#define EXCHANGE_COMMANDS "hcp.commands"
#define EXCHANGE_EVENTS "hcp.events"
#define EXCHANGE_HARP "harp.sessions" /* where a capability has harp = yes, or a caller asks */
#define EXCHANGE_DEAD "hcp.dead"      /* the queue of dead letters has the same name */
#define COMMAND_QUEUE_PREFIX "hcp.cmd."
#define EVENT_QUEUE_PREFIX "hcp.evt."

/* The functions write a text with its NUL, cut off at size. */
void names_command_queue(char *out, size_t size, const char *callee);
/* instance NULL: the queue that takes all events of the caller. */
void names_event_queue(char *out, size_t size, const char *caller, const char *instance);
/* What a message is published with. caller ends at a slash, where it has one. session NULL: of none, "-". */
void names_event_key(char *out, size_t size, const char *caller, const char *session, const char *type);
/* What a queue is bound with. session NULL: all of the caller's. */
void names_event_binding(char *out, size_t size, const char *caller, const char *session);

#endif
