/* run.h: a session in its process: started, listened to, ended. What a worker's line means is here. */
#ifndef HCPD_RUN_H
#define HCPD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "process/worker.h"

struct capability;
struct core;
struct host;
struct session;

enum {
	RUN_UNWRITTEN_MAX = 1 << 20
}; /* bytes that wait for a worker to read its stdin: more is not told to it */

extern const struct worker_ops run_ops;

struct worker *run_worker(const struct session *s); /* NULL: no process */
void run_init(struct session *s);                   /* its timers */
void run_fini(struct session *s);
/* Effect: the process of a RUNNING session. Looks at the session again before it acts. */
void run_start(struct session *s);
/* Aborts by whoever: ABORTING at once, or all the way where there is no process. False: too late. */
bool run_abort(struct session *s, const char *reason, const char *actor, const char *text);
/* Graceful stop: asks for a checkpoint; `text` workers end at once. */
void run_stop(struct session *s);
/* Ends the process of a stopping session: SIGTERM now, SIGKILL then. */
void run_stop_now(struct session *s, int64_t kill_at_us);
/* What a helper of the session's gets: the environment of its worker, but for what is of an attempt.
 * NULL-terminated. */
char **run_make_env(const struct session *s, const struct capability *cap, const char *workdir);
void run_free_env(char **env);
/* A session has paused, or a paused one made a checkpoint: its process may go, where it is to be freed. */
void run_consider_free(struct session *s);
/* Gives up the process of a PAUSED session, and its slot with it. */
void run_free(struct session *s);
/* PAUSED since its last transition, or not: the clock of pause_grace. */
void run_watch_pause(struct session *s);
/* An outcome was decided: ends what runs, finishes what does not. */
void run_conclude(struct session *s);
/* Sets the clocks of a session that runs. */
void run_set_clocks(struct session *s);
/* Stops or goes on reading the worker by what waits in the outbox. */
void run_check_backlog(struct session *s);
void run_check_all_backlogs(struct core *c);
/* Nobody was listened to: silence until now does not count as idle. */
void run_touch_all(struct core *c);
/* Working directory of a closed session. */
void run_clean_up(struct session *s);
/* Serves nobody any more: its stdin ends, then the ladder. */
void host_retire(struct host *h);
/* Processes that serve nobody now: all at a stop or a reload. */
void run_retire_idle(struct core *c);
/* At a stop: those that serve nobody are ended now, whenever they were retired. */
void run_hurry(struct core *c);
bool run_has_processes(const struct core *c);
/* End of the turn: frees what is gone. */
void run_sweep(struct core *c);
void run_fini_all(struct core *c);

#endif
