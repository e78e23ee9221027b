/* SPDX-License-Identifier: MIT */
/* jobs.h: threads for long computations, so that the loop does not wait for them.
 *
 * A job is put by the loop's thread, worked by some thread, and taken back, finished, by the loop's thread.
 * While it is under way it belongs to the pool: nobody else touches what it points to. Jobs begin in the
 * order in which they were put, and may finish in another. How many are under way at once is the owner's
 * affair: a queue here has no limit of its own. */
#ifndef HCPD_BASE_JOBS_H
#define HCPD_BASE_JOBS_H

#include <stdbool.h>

struct jobs;

struct job {
	struct job *next;
	void (*work)(struct job *j); /* on a thread of the pool: pure, knows nothing but the job */
	void (*done)(struct job *j); /* on the loop's thread: owns the job again */
	void (*drop)(struct job *j); /* instead of `done`, where the pool is freed before */
};

/* As many threads as there are spare cores, 1 to 4; they are started with the first job. `wake` is called
 * from a thread of the pool when a job is finished, and calls nothing of the pool. NULL: no threads; jobs_put
 * works the job at once, for tests that must be the same each time. */
struct jobs *jobs_new(void (*wake)(void *ctx), void *ctx);
/* The same with one thread, for jobs that may wait for something outside: they would keep others from the
 * threads. */
struct jobs *jobs_new_one(void (*wake)(void *ctx), void *ctx);
/* Waits for the jobs that are being worked. Drops each one that was not taken back. NULL is fine. */
void jobs_free(struct jobs *p);
/* The same, but waits for nobody: a job that is being worked is left to its thread, which drops it. Such a
 * job keeps nothing that its owner frees. True: there is one, and the process has to end by _exit, as exit
 * takes away what the thread uses. */
bool jobs_leave(struct jobs *p);
void jobs_put(struct jobs *p, struct job *j);
/* So many jobs under way keep all threads busy; more would only wait, and hold memory. */
unsigned jobs_at_once(const struct jobs *p);
/* The next finished job; NULL: none. The caller calls its `done`. */
struct job *jobs_take(struct jobs *p);
/* Would jobs_take give one? */
bool jobs_have_finished(struct jobs *p);

#endif
