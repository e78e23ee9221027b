/* SPDX-License-Identifier: MIT */
/* wakeup.c: one thread that sleeps, others that call it.
 * Owns the eventfd, and who reads and writes it when.
 * Never sleeps itself, and never knows what was handed over. */
#include "bus/wakeup.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { AWAKE, CALLED, ASLEEP };

void wakeup_init(struct wakeup *w)
{
	*w = (struct wakeup){.fd = -1};
}

int wakeup_open(struct wakeup *w)
{
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return w->fd < 0 ? -1 : 0;
}

void wakeup_close(struct wakeup *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

/* Only the caller that finds the sleeper asleep writes: one write for each sleep. */
void wakeup_call(struct wakeup *w)
{
	uint64_t one = 1;

	if (atomic_exchange(&w->state, CALLED) != ASLEEP)
		return;
	while (write(w->fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

/* A sleeper that something else woke may be here before the caller's write. That write ends the next sleep,
 * and is read then: an fd that is left readable would end every sleep. */
void wakeup_begin(struct wakeup *w)
{
	uint64_t count;

	if (atomic_exchange(&w->state, AWAKE) == CALLED && w->has_slept)
		w->owed++;
	w->has_slept = false;
	if (w->owed > 0 && read(w->fd, &count, sizeof count) == sizeof count)
		w->owed -= count;
}

bool wakeup_may_sleep(struct wakeup *w)
{
	int awake = AWAKE;

	w->has_slept = atomic_compare_exchange_strong(&w->state, &awake, ASLEEP);
	return w->has_slept;
}
