/* SPDX-License-Identifier: MIT */
/* retain.h: retention: after [retention] grace an ended session leaves the store, into the archive or for
 * good; after `expire` its archive is deleted too.
 *
 * A thread with a read-only connection finds the sessions, archives them and syncs the file. It changes
 * nothing in the store itself: it gives the core an order of bounded size, one at a time, and the core puts
 * the order into a turn's batch. So a crash at any point leaves a session whole, in one of the two places:
 *	1 the day's row says how much of its file counts          (committed)
 *	2 the file is cut to that, entries appended and synced    (nothing counts yet)
 *	3 the new length counts, and the sessions' rows are gone  (committed, at once)
 *	4 the sessions' other rows are removed in slices; `leaving` names the sessions until none is left,
 *	  also over a restart. */
#ifndef HCPD_RETAIN_RETAIN_H
#define HCPD_RETAIN_RETAIN_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct retain;
struct retention_ops;

/* Starts the thread, which calls wake(). 0, or a sysexits code with the reason logged. */
int retain_start(struct core *c, void (*wake)(void *ctx), void *ctx, struct retain **out)
	__attribute__((warn_unused_result));
/* Ends the thread, within the time that a slice takes. */
void retain_stop(struct retain *r);
/* For core.retention_ops. */
extern const struct retention_ops retain_ops;

#endif
