/* SPDX-License-Identifier: MIT */
/* worker_rig.h: a loop as the core runs it, and what workers said, for tests with real processes.
 * Every test runs in a process of its own (Check forks), which is the subreaper of what it starts. */
#ifndef HCPD_TESTS_SUPPORT_WORKER_RIG_H
#define HCPD_TESTS_SUPPORT_WORKER_RIG_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/timer.h"
#include "process/worker.h"
#include "process.h"

#define SECOND 1000000LL

/* rig_main makes both others for every run, so that nobody is taken for another run's. */
extern char wrig_instance_var[64];
extern char wrig_mark[64];
#define RIG_INSTANCE (wrig_instance_var + sizeof "HCP_INSTANCE")

/* Where this is no test but a worker of one: prog NAME ARGS. */
struct wrig_helper {
	const char *name;
	int (*run)(int argc, char **argv);
};

struct rec { /* what one worker said */
	struct worker *w;
	struct buf text[2]; /* lines, each with a newline again */
	size_t lines[2], bytes[2], too_long;
	int eof[2], exits, gone, stuck, status, stuck_pid;
	bool quiet; /* count only */
	bool freed;
	void (*on_line)(struct rec *r, const char *line, size_t size);
};

struct wrig {
	struct ev_loop *loop;
	struct ev_signal sigchld;
	struct ev_prepare prepare;
	struct ev_check check;
	struct ev_timer timer;
	struct timers timers;
	struct config config;
	struct workers *ws;
	size_t turn_bytes, turn_bytes_max, turns;
	size_t turn_lines, turn_lines_max;
	bool held;
};

extern struct wrig wrig;
extern char wrig_self[4096];

extern const struct worker_ops wrig_ops;

void wrig_begin(const char *cgroup);
void rec_free(struct rec *r);
void wrig_end(void);

extern char *wrig_env[];

int wrig_try_argv(struct rec *r, char *const *argv, char *why, size_t why_size);

/* sh -c SCRIPT */
void wrig_start(struct rec *r, const char *script);

/* This program again, as the helper `name`. */
void wrig_start_helper(struct rec *r, const char *name, const char *arg);
bool wrig_wait_step(int64_t until);

/* Runs the loop until the condition holds; fails the test after 50 s, far above what is needed. */
#define wrig_until(cond) \
	do { \
		int64_t until_ = clock_boot_us() + 50 * SECOND; \
		while (!(cond)) \
			ck_assert_msg(wrig_wait_step(until_), "in vain: %s", #cond); \
	} while (0)

/* Runs the loop for that long. */
void wrig_for_ms(int ms);
const char *rec_text(struct rec *r, enum worker_stream s);

int wrig_count_fds(void);

/* The end now, by SIGKILL. */
void rec_kill(struct rec *r);

/* A directory of a cgroup2 file system to make groups in; NULL, and a line that says so, where there is
 * none. */
char *wrig_make_cgroup(void);

/* Nothing is forbidden to root: where it matters a test goes on as another user. False, and a line that says
 * so, where that one could not run this program. */
bool wrig_drop_root(void);
int wrig_main(int argc, char **argv, const struct wrig_helper *helpers, Suite *(*make)(void));

#endif
