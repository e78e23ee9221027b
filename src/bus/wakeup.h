/* SPDX-License-Identifier: MIT */
/* wakeup.h: how other threads get a thread out of its sleep, without a system call while it does not sleep.
 *
 * The sleeper goes in rounds: wakeup_begin, take what was handed over, work; then wakeup_may_sleep, and a
 * poll(2) for `fd` where that is true. A caller hands something over first, and calls wakeup_call then. What
 * is handed over before a call is seen in the round that the call begins, or in an earlier one. */
#ifndef HCPD_BUS_WAKEUP_H
#define HCPD_BUS_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wakeup {
	int fd; /* readable where a sleeper was called; -1: closed */
	_Atomic int state;
	/* the sleeper's own */
	bool has_slept;
	uint64_t owed; /* callers that write, or wrote, to fd, and whose write is not read yet */
};

/* Before wakeup_open, wakeup_call is allowed and remembered. */
void wakeup_init(struct wakeup *w);
/* -1 and errno. */
int wakeup_open(struct wakeup *w) __attribute__((warn_unused_result));
void wakeup_close(struct wakeup *w);
/* By any thread. */
void wakeup_call(struct wakeup *w);
/* By the sleeper alone. */
void wakeup_begin(struct wakeup *w);
/* False: somebody called since wakeup_begin. */
bool wakeup_may_sleep(struct wakeup *w) __attribute__((warn_unused_result));

#endif
