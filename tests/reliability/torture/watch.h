/* SPDX-License-Identifier: MIT */
/* watch.h: the check of the store and of /proc: a thread that looks all the time, and a check at the end.
 * Reads the documented tables of the store, read-only and briefly, and the kernel's list of processes. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_WATCH_H
#define HCPD_TESTS_RELIABILITY_TORTURE_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "caller.h"
#include "support/rig.h"

void watch_start(struct rig *r, double abort_timeout_s);
/* The daemon cannot act now (dead, frozen, without a disk): time spent aborting does not count. Nests. */
void watch_hamper(bool on);
/* Is this submit in the store? False also where the store cannot be read now. */
bool watch_has_submit(const char *message_id);
/* The state of a session into state; false where there is none, or the store cannot be read now. */
bool watch_state(const char *session, char state[16]);
/* Worker processes of the rig now; up to max. The policy program is none, and is for itself. */
int watch_workers(pid_t *pids, int max);
pid_t watch_program(void); /* 0: it does not run */
/* Rows in a table; -1 where it cannot be read. */
long watch_count(const char *table);
void watch_stop(void);
/* The whole store, after the daemon has ended: integrity, transitions, sequences, and each submit that the
 * broker took from a caller. */
void watch_check(struct caller *const *callers, int count);

/* The commonest words of task_failed, for the reader of a run. */
void watch_say_failures(void);

#endif
