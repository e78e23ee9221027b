/* SPDX-License-Identifier: MIT */
/* control.h: the daemon's Unix socket for operators: which users are accepted, JSON lines in and out
 * (hcp-control(7)).
 *
 * A thread with a read-only connection to the store answers what the store knows (query.h). What only the
 * core knows or may do goes to the core as a request (core/op_request.h), and comes back answered. The
 * thread never waits for the core, and the core never waits for the thread. */
#ifndef HCPD_CONTROL_CONTROL_H
#define HCPD_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

struct control;
struct op_queue;

/* The path of this configuration's socket: [control] socket, else RUNTIME_DIRECTORY/control.sock, else
 * STATE_DIR/control.sock. False where it is switched off, or the default path is too long for a socket. */
bool control_path(const struct config *config, char *path, size_t size);

/* Makes the socket, in place of one that a previous run left, and starts the thread. The thread calls wake()
 * for each new request. The store must exist. *out is NULL where the socket is switched off. 0, or a
 * sysexits code with the reason logged. */
int control_start(const struct config *config, void (*wake)(void *ctx), void *ctx, struct control **out)
	__attribute__((warn_unused_result));
/* Answers the open requests with an error, removes the socket, and ends the thread: within about a second. */
void control_stop(struct control *ctl);

/* The queue from which the core takes requests; it exists as long as the control socket. */
struct op_queue *control_requests(struct control *ctl);

#endif
