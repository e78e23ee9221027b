/* SPDX-License-Identifier: MIT */
/* run.h: the process of a session: its start (run_start.c), its clocks, its output and its end (run.c). What
 * a worker's line means is in worker_messages.h. */
#ifndef HCPD_CORE_RUNNING_RUN_H
#define HCPD_CORE_RUNNING_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "process/worker.h"

struct capability;
struct core;
struct runner;
struct session;

/* bytes that wait in a worker's stdin: above this no more lines are sent */
enum { RUN_UNWRITTEN_MAX = 1 << 20 };

extern const struct worker_ops run_ops;

struct worker *run_worker(const struct session *s); /* NULL: no process */
void run_init(struct session *s);                   /* the session's timers */
void run_fini(struct session *s);
/* Effect: starts the process of a RUNNING session. Checks the session again first. */
void run_start(struct session *s);
/* Starts it in the next turn: this one has spent its time for starts. */
void run_start_later(struct session *s);
/* An abort of the caller or an operator: ABORTING at once, or the whole end where there is no process. False:
 * the outcome was decided before. */
bool run_abort(struct session *s, const char *reason, const char *actor, const char *text);
/* Graceful stop: requests a checkpoint; `text` workers end at once. */
void run_stop(struct session *s);
/* Ends the process at a stop: SIGTERM now, SIGKILL then. */
void run_stop_now(struct session *s, int64_t kill_at_us);
/* At half of a stop's time, and once a large line was read after that: a worker whose checkpoint is under way
 * may finish it, since SIGTERM would cut it short; any other is ended. */
void run_stop_at_half(struct session *s);
/* The environment of a helper program: that of the session's worker, without the variables of an attempt.
 * NULL-terminated. */
char **run_make_env(const struct session *s, const struct capability *cap, const char *workdir);
void run_free_env(char **env);
/* The session paused, or made a checkpoint while PAUSED: ends its process, where pause_frees_worker is set.
 */
void run_consider_free(struct session *s);
/* Ends the process of a PAUSED session; its slot is free after that. */
void run_free(struct session *s);
/* Sets or cancels the clock of pause_grace, after a transition. */
void run_watch_pause(struct session *s);
/* An outcome was decided: ends the process, or finishes the session where there is none. */
void run_stop_or_finish(struct session *s);
/* Sets the clocks of a session: deadline, pause and idle. */
void run_set_clocks(struct session *s);
/* Stops or continues reading the worker, by the bytes that wait in the outbox. */
void run_check_backlog(struct session *s);
void run_check_all_backlogs(struct core *c);
/* No worker was read while turns were suspended: silence until now does not count as idle. */
void run_touch_all(struct core *c);
/* Has the session, which has a process, a directory for its files? */
bool run_has_workdir(const struct session *s);
/* After the commit, before the effects: the sessions that start in this turn may take over the working
 * directories of those that it closed. */
void run_offer_workdirs(struct core *c, struct session *closed);
/* Deletes the working directory of a closed session, unless it is kept. */
void run_clean_up(struct session *s);
/* The process takes no more sessions: its stdin closes, then SIGTERM, then SIGKILL. */
void runner_retire(struct runner *r);
/* Retires all idle processes, at a stop or a reload. */
void run_retire_idle(struct core *c);
/* After a reload. */
void run_reload(struct core *c);
/* At a stop: ends all processes without a session now, also those that were retired before. */
void run_hurry(struct core *c);
bool run_has_processes(const struct core *c);
/* End of the turn: frees processes that are gone, deletes directories that no start took over. */
void run_sweep(struct core *c);
void run_fini_all(struct core *c);

enum run_shortage { SHORT_OF_NOTHING, SHORT_OF_DISK, SHORT_OF_MEANS };
/* Does a start that failed so wait for better times? Means are descriptors and processes. */
enum run_shortage run_find_shortage(int error);

#endif
