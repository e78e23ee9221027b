/* SPDX-License-Identifier: MIT */
/* rig.h: one hcpd under test: its directory, its configuration, its process, its log, its workers. */
#ifndef HCPD_TESTS_SUPPORT_RIG_H
#define HCPD_TESTS_SUPPORT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "harness.h"

struct rig_key {
	char *section, *key, *value;
};

struct rig {
	char dir[256];    /* the test's files and those of its workers */
	char closed[264]; /* beside it: what workers cannot open by default; both have a link in dir */
	char state[300];  /* state_dir */
	char ini[300], log[300], db[320];
	char callee[64];
	char queue[80]; /* its command queue */
	const struct broker *broker;
	struct rig_key *keys;
	size_t key_count;
	char **env; /* NAME=value more for the daemon itself */
	size_t env_count;
	pid_t pid; /* 0: not running */
	bool exited;
	int wait_status;
	int notify_fd;
	int ready, watchdog; /* READY=1 and WATCHDOG=1 seen in this run */
	char status[512];    /* the last STATUS= */
	bool watchdog_on;
	int watchdog_usec;
	/* sessions leave its store for good: what callers got cannot be held against it */
	bool forgets;
	int stderr_fd;         /* for the daemon's stderr; 0: the log */
	bool no_consumer_wait; /* rig_start does not wait until the queue is consumed */
	struct rig *next;
};

/* A directory, a configuration with capability "agent" (agents/agent.py) and [caller *] with all rights. */
struct rig *rig_new(void);
struct rig *rig_new_on(const struct broker *b);
/* A key of the configuration, set or replaced; value NULL takes it out. */
void rig_set(struct rig *r, const char *section, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A capability with its declaration; more is merged into the declaration (NULL: nothing; taken). */
void rig_capability(struct rig *r, const char *name, const char *command, json_t *more);
/* A capability "name" that runs a shell script under protocol text. */
void rig_text(struct rig *r, const char *name, const char *script);
void rig_env(struct rig *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rig_write_ini(struct rig *r);

void rig_spawn(struct rig *r); /* only starts it */
void rig_wait_ready(struct rig *r);
void rig_wait_consuming(struct rig *r);
void rig_start(struct rig *r); /* the three of them */
/* Runs hcpd with these arguments to its end; output is in the log. Returns the exit status. */
int rig_run(struct rig *r, const char *const *args);
void rig_signal(struct rig *r, int sig);
int rig_wait_exit(struct rig *r, double seconds); /* the exit status, or 128 + signal */
void rig_stop(struct rig *r);                     /* SIGTERM; must be 0 */
void rig_kill(struct rig *r);                     /* SIGKILL, and reaped */
/* End of the test: stops it, then no process of its may be left and its store must be sound; frees. */
void rig_finish(struct rig *r);

/* How often text occurs in the log, over all lives. */
int rig_log_count(struct rig *r, const char *text);
#define rig_log_has(r, text) (rig_log_count((r), (text)) > 0)
/* Processes that carry the rig's mark (workers and what they started); pids gets up to max. */
int rig_processes(struct rig *r, pid_t *pids, int max);
/* A path in the rig's directory; static buffers, a few at a time. */
const char *rig_path(struct rig *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rig_touch(struct rig *r, const char *name);
/* One number from the store, read-only: -1 where there is no row. */
long long rig_sql(struct rig *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Consumers and messages of a queue; false where there is no such queue. */
bool queue_look(const struct broker *b, const char *queue, int *messages, int *consumers);

/* For harness.c */
void rigs_tick(void);
void rigs_reaped(pid_t pid, int status);
void rigs_show_and_end(void);

#endif
