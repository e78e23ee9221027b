/* SPDX-License-Identifier: MIT */
/* watch_running.h: the sessions that run already when a watch of all sessions begins.
 *
 * Their past messages went to other queues, and a silent session sends no more for long. Only a daemon on
 * this machine can be asked for them. */
#ifndef HCPD_HCPCTL_CALLER_WATCH_RUNNING_H
#define HCPD_HCPCTL_CALLER_WATCH_RUNNING_H

#include "hcpctl/caller/watch_model.h"

/* Asks the daemon, and adds or updates the view of each live session of the caller. Where the daemon cannot
 * be asked and no session is known, a message says so. Call it after the queue was bound: a session that ends
 * later ends in a message. */
void ctl_watch_running_add(struct ctl_watch_model *f);

#endif
