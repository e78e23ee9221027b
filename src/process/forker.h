/* SPDX-License-Identifier: MIT */
/* forker.h: a thread that starts processes for the core's thread, with descriptors of its own.
 *
 * A new process gets a copy of the descriptors of the thread that starts it, and its exec closes them again.
 * With three for each live worker that is the most of a start. And the children of another thread are not in
 * the list of the core's own: that has only the orphans which the daemon adopted, and is short. */
#ifndef HCPD_PROCESS_FORKER_H
#define HCPD_PROCESS_FORKER_H

#include <stddef.h>

#define FORKER_FDS 5 /* at most, for one start */

struct forker;

/* NULL with errno: there can be none here, and the caller starts processes by itself. */
struct forker *forker_new(void);
/* Its children die with it. NULL is allowed. */
void forker_free(struct forker *f);
int forker_tid(const struct forker *f);
/* Calls start in that thread, and waits for its end. fds there: the caller's, under other numbers, each
 * above 2. They are closed afterwards. Returns what start returned; -1 with errno where it could not be
 * called. */
int forker_run(
	struct forker *f, const int *fds, size_t count, int (*start)(void *ctx, const int *fds), void *ctx);

#endif
